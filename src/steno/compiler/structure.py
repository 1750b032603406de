"""What two kernels have in common that get the same code: everything but the identity of their buffers, variables and expressions.

    structure(kernel) -> (key, buffers)       the buffers in the order of their numbers in the key

A network of twelve like layers has each of its kernels twelve times. To compare them before code is made of them costs a tenth of making
it; the knob `verify` has the code made all the same, and compared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

from steno.ir.expr import Expr, topological
from steno.ir.index import FloorDiv, Index, LoopVar, Mod
from steno.ir.loops import Buffer, ColReduce, Cumulate, Fold, Kernel, MapStage, RowReduce, Store


def structure(kernel: Kernel) -> tuple[tuple[Any, ...], tuple[Buffer, ...]]:
    s = _Structure()
    s.vars(kernel.outer)
    for stage in kernel.stages:
        s.stage(stage)
    return (kernel.cost, *s.out), tuple(s.buffers)


@final
class _Structure:
    def __init__(self) -> None:
        self.out: list[Any] = []
        self.numbers: dict[Any, int] = {}  # of variables, expressions and names of locals
        self.buffers: dict[Buffer, int] = {}

    def number(self, x: Any) -> int:
        return self.numbers.setdefault(x, len(self.numbers))

    def vars(self, variables: Iterable[LoopVar | None]) -> None:
        for v in variables:
            self.out.append(None if v is None else (self.number(v), v.extent))

    def buffer(self, b: Buffer) -> int:
        found = self.buffers.get(b)
        if found is None:
            found = self.buffers[b] = len(self.buffers)
            self.out.append((b.dtype, b.size, b.kind, b.aligned))
        return found

    def stage(self, stage: Any) -> None:
        self.out.append(type(stage))
        if isinstance(stage, MapStage):
            self.vars(stage.vars)
            self.out.append(stage.serial)
            self.stores(stage.stores)
            return
        self.vars((stage.lane, stage.var) if isinstance(stage, ColReduce | Cumulate) else (stage.var,))
        self.exprs(stage.elements)
        self.fold(stage.fold)
        self.out.append(tuple(map(self.number, stage.locals)))
        if isinstance(stage, RowReduce):
            self.out.append(None if stage.block is None else self.index(stage.block))
        elif isinstance(stage, ColReduce | Cumulate):
            self.stores(stage.stores)

    def fold(self, fold: Fold) -> None:
        self.exprs((*fold.identity, *fold.combine))

    def stores(self, stores: tuple[Store, ...]) -> None:
        self.exprs(e for s in stores for e in (s.value, s.guard) if e is not None)
        for s in stores:
            guard = None if s.guard is None else self.number(s.guard)
            self.out.append((self.buffer(s.buffer), self.index(s.offset), self.number(s.value), guard))

    def exprs(self, roots: Iterable[Expr]) -> None:
        """The expressions that have no number yet, then the numbers of the roots."""
        roots = tuple(roots)
        numbers, out = self.numbers, self.out
        for e in topological(roots):
            if e in numbers:
                continue
            attr = e.attr
            if e.op == "load":
                buffer, offset, guard = attr
                attr = (self.buffer(buffer), self.index(offset), None if guard is None else numbers[guard])
            elif e.op == "index":
                attr = self.index(attr)
            elif e.op == "local":
                attr = self.number(attr)
            elif e.op == "const":
                attr = repr(attr)  # zeros have a sign
            out.append((e.op, e.dtype, attr, *[numbers[a] for a in e.args]))
            numbers[e] = len(numbers)
        out.append(tuple([numbers[r] for r in roots]))

    def index(self, i: Index) -> tuple[Any, ...]:
        terms = []
        for atom, c in i.terms:
            if isinstance(atom, LoopVar):
                terms.append((self.number(atom), atom.extent, c))
            elif isinstance(atom, FloorDiv | Mod):
                terms.append((type(atom), self.index(atom.index), atom.divisor, c))
            else:
                self.exprs((atom.expr,))
                terms.append((self.numbers[atom.expr], atom.low, atom.high, c))
        return i.const, *terms


__all__ = ["structure"]
