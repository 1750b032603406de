"""Rewrites of stages: loops merged where all indices allow it; rows of a kernel moved to its local memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from steno.ir.expr import Builder, Expr, index_values, topological
from steno.ir.index import ZERO, Atom, FloorDiv, Index, LoopVar, Mod, Value, var
from steno.ir.loops import Buffer, ColReduce, Cumulate, Kernel, MapStage, RowReduce, Stage, Store, TreeReduce


def reindexed(i: Index, change: Callable[[Index], Index], new: Mapping[Expr, Expr]) -> Index:
    """`change` applied at every level of `i`, the Exprs inside replaced by `new`."""
    i = change(i)
    if not any(isinstance(a, Value | FloorDiv | Mod) for a, _ in i.terms):
        return i
    out = Index(i.const)
    for atom, c in i.terms:
        if isinstance(atom, Value):
            out = out + Index(0, ((Value(new.get(atom.expr, atom.expr), atom.low, atom.high), c),))
        elif isinstance(atom, FloorDiv | Mod):
            inner = reindexed(atom.index, change, new)
            out = out + (inner // atom.divisor if isinstance(atom, FloorDiv) else inner % atom.divisor) * c
        else:
            out = out + Index(0, ((atom, c),))
    return out


def rewrite(
    b: Builder,
    roots: Iterable[Expr],
    change_index: Callable[[Index], Index],
    change_load: Callable[[Any, Index], tuple[Any, Index]],
) -> dict[Expr, Expr]:
    """Every Expr reached from `roots` -> the same with its indices and loads changed."""
    new: dict[Expr, Expr] = {}
    for e in topological(roots):
        if e.op == "load":
            buffer, offset, guard = e.attr
            buffer, offset = change_load(buffer, reindexed(offset, change_index, new))
            guard = None if guard is None else new[guard]
            if guard is not None and guard.op == "const":
                if not guard.attr:  # nothing is read, any value does
                    new[e] = b.constant(0, e.dtype)
                    continue
                guard = None
            attr = (buffer, offset, guard)
            new[e] = e if attr == e.attr else b._leaf("load", e.dtype, attr)
        elif e.op == "index":
            new[e] = b.index(reindexed(e.attr, change_index, new))
        elif e.args:
            args = tuple(new[a] for a in e.args)
            new[e] = e if all(x is y for x, y in zip(args, e.args, strict=True)) else b.rebuilt(e, args)
        else:
            new[e] = e
    return new


def stage_exprs(stage: Stage) -> list[Expr]:
    out: list[Expr] = []
    for s in getattr(stage, "stores", ()):
        out.append(s.value)
        if s.guard is not None:
            out.append(s.guard)
        out += index_values(s.offset)
    out += getattr(stage, "elements", ())
    return out


def _rewrite_stage(
    b: Builder,
    stage: Stage,
    change_index: Callable[[Index], Index],
    change_load: Callable[[Any, Index], tuple[Any, Index]],
    variables: tuple[LoopVar, ...] | None = None,
) -> Stage:
    new = rewrite(b, stage_exprs(stage), change_index, change_load)

    def store(s: Store) -> Store:
        buffer, offset = change_load(s.buffer, reindexed(s.offset, change_index, new))
        return Store(buffer, offset, new[s.value], None if s.guard is None else new[s.guard])

    stores = tuple(store(s) for s in getattr(stage, "stores", ()))
    elements = tuple(new[e] for e in getattr(stage, "elements", ()))
    if isinstance(stage, MapStage):
        return MapStage(stage.vars if variables is None else variables, stores, stage.serial)
    if isinstance(stage, RowReduce):
        return RowReduce(stage.var, elements, stage.fold, stage.locals, stage.block)
    if isinstance(stage, TreeReduce):
        return TreeReduce(stage.var, elements, stage.fold, stage.locals)
    if isinstance(stage, ColReduce):
        return ColReduce(stage.lane, stage.var, elements, stage.fold, stage.locals, stores)
    return Cumulate(stage.lane, stage.var, elements, stage.fold, stage.locals, stores)


def _indices(roots: Iterable[Expr]) -> list[Index]:
    out = []
    for e in topological(roots):
        if e.op == "load":
            out.append(e.attr[1])
        elif e.op == "index":
            out.append(e.attr)
    return out


def _merges(i: Index, outer: LoopVar, inner: LoopVar) -> bool:
    """Whether `outer` and `inner` occur only as outer * inner.extent + inner."""
    if i.coefficient(outer) != inner.extent * i.coefficient(inner):
        return False
    return all(_merges(a.index, outer, inner) for a, _ in i.terms if isinstance(a, FloorDiv | Mod))


def collapse(b: Builder, stage: MapStage) -> MapStage:
    """for i: for j: f(i*n + j)  -->  for t: f(t)   for neighbouring loops that are not serial, if every index allows it."""
    if len(stage.vars) - stage.serial < 2:
        return stage
    indices = [*_indices(stage_exprs(stage)), *(s.offset for s in stage.stores)]
    variables = list(stage.vars)
    replaced: dict[Atom, Index] = {}
    k = len(variables) - 1
    while k > stage.serial:
        outer, inner = variables[k - 1], variables[k]
        if all(_merges(i, outer, inner) for i in indices):
            merged = LoopVar(f"{outer.name}{inner.name}", outer.extent * inner.extent)
            step: dict[Atom, Index] = {outer: ZERO, inner: var(merged)}
            indices = [i.substitute(step) for i in indices]
            replaced = {v: i.substitute(step) for v, i in replaced.items()} | step
            variables[k - 1 : k + 1] = [merged]
        k -= 1
    if not replaced:
        return stage
    out = _rewrite_stage(b, stage, lambda i: i.substitute(replaced), lambda buf, i: (buf, i), tuple(variables))
    assert isinstance(out, MapStage)
    return out


def split(b: Builder, stage: MapStage, width: int) -> tuple[LoopVar, MapStage]:
    """for t: f(t)  -->  for i (around the stage): for j: f(i*width + j)   of a multiple of `width`."""
    last = stage.vars[-1]
    outer, inner = LoopVar(f"{last.name}o", last.extent // width), LoopVar(f"{last.name}i", width)
    place: dict[Atom, Index] = {last: var(outer) * width + var(inner)}
    out = _rewrite_stage(b, stage, lambda i: i.substitute(place), lambda buf, i: (buf, i), (*stage.vars[:-1], inner))
    assert isinstance(out, MapStage)
    return outer, out


def divisor_of(stage: MapStage) -> int | None:
    """The one number that the last variable, alone, is divided by in the stage's indices; it divides the variable's extent."""
    v = stage.vars[-1]
    alone = var(v)
    found: set[int] = set()

    def look(i: Index) -> bool:
        """Whether the variable occurs nowhere else inside an atom."""
        for a, _ in i.terms:
            if isinstance(a, FloorDiv | Mod):
                if a.index == alone:
                    found.add(a.divisor)
                elif a.index.coefficient(v) or not look(a.index):
                    return False
        return True

    indices = [*_indices(stage_exprs(stage)), *(s.offset for s in stage.stores)]
    if not all(look(i) for i in indices) or len(found) != 1:
        return None
    (d,) = found
    return d if v.extent % d == 0 else None


def replace_buffer(b: Builder, kernel: Kernel, old: Buffer, new: Buffer) -> Kernel:
    """The kernel with each access to `old` made one to `new`, at the same place."""

    def change(buffer: Buffer, offset: Index) -> tuple[Buffer, Index]:
        return (new if buffer is old else buffer), offset

    return Kernel(kernel.name, kernel.outer, tuple(_rewrite_stage(b, s, lambda i: i, change) for s in kernel.stages), kernel.cost)


def place_locals(b: Builder, stages: Sequence[Stage], local: Mapping[Buffer, Buffer], outer: set[LoopVar]) -> list[Stage]:
    """Accesses to the buffers of `local`  -->  the thread's own row: offsets lose their outer part."""
    away: dict[Atom, Index] = {v: ZERO for v in outer}

    def change(buffer: Buffer, offset: Index) -> tuple[Buffer, Index]:
        row = local.get(buffer)
        return (buffer, offset) if row is None else (row, offset.substitute(away))

    return [_rewrite_stage(b, s, lambda i: i, change) for s in stages]
