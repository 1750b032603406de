"""Values as expressions inside kernels in the making: what is stored is loaded, the rest is built where it is read.

A read of a value that belongs to the same group must lie in the reader's own row (the same outer point); elsewhere it raises `NotInRow`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, final

from steno.compiler.cost import element_ns
from steno.compiler.graph import Constant, Graph, Input, Node, Value
from steno.compiler.materialize import body_of, expression_cost, materialize, reduced_size, repeated_functions
from steno.core.config import config
from steno.core.record import field, record
from steno.ir.expr import Builder, Expr, Scalar, registers, storage
from steno.ir.index import Index, LoopVar, linear, unlinear, var
from steno.ir.kinds import Cumulative, Map, Reduce
from steno.ir.loops import Buffer, Fold, Stage, Statement, Store, halving

NAMED = 8  # ops in a kernel's name


class NotInRow(Exception):
    """A read of a value of the same group, at another outer point."""


class Flat(tuple):
    """A multi-index given by its row-major position alone: `Flat((position,))`."""

    __slots__ = ()


@final
@record(eq=False)
class Step:
    """A statement, or several in a row, with what they must come after: `after` has the bits of all those steps. `followed`: some step may
    have its bit."""

    order: int
    bit: int
    after: int = 0
    followed: bool = False
    statements: list[Statement] = field(default_factory=list)
    reads: set[Value] = field(default_factory=set)


@final
@record(frozen=True)
class Schedule:
    steps: tuple[Step, ...]
    buffers: dict[Value, Buffer]
    producer: dict[Value, Step]
    builder: Builder


@final
class Group:
    """A kernel in the making."""

    def __init__(self, step: Step, shape: tuple[int, ...], flat: bool, serial: int):
        self.step = step
        self.shape = shape
        self.flat = flat
        if flat:
            self.vars = [LoopVar(f"i{serial}", math.prod(shape))]
            self.index: Sequence[Index] = Flat((var(self.vars[0]),))
        else:
            self.vars = [LoopVar(f"i{serial}_{k}", n) for k, n in enumerate(shape)]
            self.index = [var(v) for v in self.vars]
        self.members: list[Node] = []
        self.scalars: dict[Value, Scalar] = {}  # one for each outer point
        self.rows: set[Value] = set()  # stored by an earlier stage
        self.stages: list[Stage] = []
        self.stores: list[tuple[Value, tuple[Expr, ...], Index]] = []  # of scalars
        self.memo: dict[Any, Any] = {}
        self.inner: dict[tuple[Any, ...], list[LoopVar]] = {}
        self.cost = 0.0
        self.operations = 0.0

    def starts_with_row(self, shape: tuple[int, ...]) -> bool:
        return not self.flat and shape[: len(self.shape)] == self.shape


class Expressions:
    """The state of a schedule, and reading. `nested`: the graph is a loop's or a branch's; `in_place`: inputs whose memory an output may
    take over; `lower`: makes programs of nested graphs."""

    def __init__(self, graph: Graph, lower: Callable[..., Any], nested: bool, in_place: frozenset[int]):
        self.graph = graph
        self.lower = lower
        self.nested = nested
        self.in_place = in_place
        self.b = Builder()
        self.stored = materialize(graph)
        self.functions = repeated_functions(graph)
        self.outputs = set(graph.outputs)
        self.buffers: dict[Value, Buffer] = {}
        self.steps: list[Step] = []
        self.n_steps = 0
        self.readers: dict[Value, list[Step]] = {}
        self.groups: list[Group] = []
        self.producer: dict[Value, Step] = {}
        self.group_of: dict[Value, Group] = {}
        self.uses: dict[Value, int] = {}
        self.serial = 0
        self.last_host: Step | None = None
        for n in graph.nodes:
            for v in n.operands:
                self.uses[v] = self.uses.get(v, 0) + 1
        for v in graph.outputs:
            self.uses[v] = self.uses.get(v, 0) + 1
        for k, v in enumerate(graph.inputs):
            self.buffers[v] = self.new_buffer(f"in{k}", v, "input")

    # -- buffers and steps

    def new_buffer(self, name: str, v: Value, kind: Any) -> Buffer:
        dtype, components = storage(v.aval.dtype)
        return Buffer(name, dtype, v.aval.size * components, kind, not self.nested or kind == "arena")

    def buffer(self, v: Value) -> Buffer:
        found = self.buffers.get(v)
        if found is None:
            self.serial += 1
            kind = "output" if v in self.outputs else "arena"
            found = self.buffers[v] = self.new_buffer(f"b{self.serial}", v, kind)
        return found

    def new_step(self, order: int | None = None) -> Step:
        """A step at the end of the list, to be placed there or where the one of that order was."""
        step = Step(len(self.steps) if order is None else order, 1 << self.n_steps)
        self.n_steps += 1
        self.steps.append(step)
        return step

    def depend(self, step: Step, on: set[Step]) -> None:
        """Adds edges; `after` is kept transitive, so that a cycle is found before it is made."""
        new = 0
        for s in on:
            new |= s.bit | s.after
            s.followed = True
        step.after |= new
        if step.followed:
            for s in self.steps:
                if s.after & step.bit:
                    s.after |= new

    def drop_step(self, step: Step) -> None:
        """The step is no longer there, also not as a reader."""
        self.steps.remove(step)
        for v in step.reads:
            self.readers[v].remove(step)

    def note_read(self, step: Step, v: Value) -> None:
        if v not in step.reads:
            step.reads.add(v)
            self.readers.setdefault(v, []).append(step)

    def frontier(self, values: Sequence[Value]) -> dict[Value, None]:
        """The stored values and inputs that expressions of `values` read."""
        out: dict[Value, None] = {}
        seen: set[Value] = set()
        stack = list(reversed(values))
        while stack:
            v = stack.pop()
            if v in seen:
                continue
            seen.add(v)
            if v in self.stored or isinstance(v.node.kind, Input):
                out[v] = None
            else:
                stack.extend(reversed(v.node.operands))
        return out

    def reads_flat(self, values: Sequence[Value]) -> bool:
        """Whether all that is inlined keeps the row-major position (there is none in rank 0)."""
        if not any(v.aval.ndim for v in values):
            return False
        seen: set[Value] = set()
        stack = list(values)
        while stack:
            v = stack.pop()
            if v in seen or v.aval.ndim == 0 or v in self.stored or isinstance(v.node.kind, Input | Constant):
                continue
            seen.add(v)
            kind = v.node.kind
            if not isinstance(kind, Map):
                return False
            if not kind.flat and not (kind.view and v.node.operands and all(o.aval.ndim == 0 for o in v.node.operands)):
                return False
            stack.extend(v.node.operands)
        return True

    def read(self, g: Group, v: Value, index: Sequence[Index], guard: Expr | None) -> Scalar:
        key = (v, index if isinstance(index, Flat) else tuple(index), None)
        found = g.memo.get(key)
        if found is None and guard is not None:
            key = (key[0], key[1], guard)
            found = g.memo.get(key)
        if found is None:
            found = g.memo[key] = self._read(g, v, index, guard)
        return found

    def read_deep(self, g: Group, values: Sequence[Value], index: Sequence[Index]) -> None:
        """Reads what lies below `values` at the same index, operands first, so that long chains do not recurse deeply."""
        order: list[Value] = []
        seen: set[Value] = set()
        stack = [(v, False) for v in values]
        while stack:
            v, done = stack.pop()
            if done:
                order.append(v)
                continue
            kind = v.node.kind
            if v in seen or v in self.stored or not isinstance(kind, Map) or not kind.flat or kind.view:
                continue
            seen.add(v)
            stack.append((v, True))
            stack.extend((o, False) for o in v.node.operands if o.aval.ndim == v.aval.ndim)
        for v in order:
            self.read(g, v, index if v.aval.ndim else (), None)

    def _read(self, g: Group, v: Value, index: Sequence[Index], guard: Expr | None) -> Scalar:
        kind = v.node.kind
        if isinstance(kind, Constant):
            return self.b.const(kind.value, v.aval.dtype)
        if v in g.scalars:
            if isinstance(index, Flat) != g.flat or list(index[: len(g.index)]) != list(g.index):
                raise NotInRow
            return g.scalars[v]
        if v in g.rows:
            if list(index[: len(g.index)]) != list(g.index):
                raise NotInRow
            return self.load(g, v, linear(index, v.shape), guard)
        if v in self.stored or isinstance(kind, Input):
            if self.group_of.get(v) is g or self.producer.get(v) is g.step:
                raise NotInRow
            offset = index[0] if isinstance(index, Flat) else linear(index, v.shape)
            return self.load(g, v, offset, guard)
        if isinstance(index, Flat) and isinstance(kind, Map) and kind.view and kind.flat:
            (operand,) = v.node.operands  # at the same position, whatever its shape
            return self.read(g, operand, index, guard)
        if isinstance(kind, Reduce):
            return self.unrolled(g, v.node, index, guard)[v.position]
        if body_of(v.node) is not None:
            return self.elements_of(v.node, index, [self.reader(g, o, guard) for o in v.node.operands])[v.position]
        raise AssertionError(f"{v.node.name} has no buffer")

    def elements_of(self, node: Node, index: Sequence[Index], reads: Sequence[Callable[..., Scalar]]) -> Sequence[Scalar]:
        """The results' elements at an index: by the body, or, if it is written once for the program, by a call."""
        name = self.functions.get(node.cost_key)
        if name is not None:
            operands: list[Any] = [read(index if o.aval.ndim else ()) for read, o in zip(reads, node.operands, strict=True)]
            return (self.b.outline(name, *operands),)
        body = body_of(node)
        assert body is not None
        out = body(self.b, index, reads)
        return out if isinstance(out, list | tuple) else (out,)

    def reader(self, g: Group, v: Value, outside: Expr | None) -> Callable[..., Scalar]:
        def read(index: Sequence[Index], guard: Expr | None = None) -> Scalar:
            if outside is not None:
                guard = outside if guard is None else self.b.and_(outside, guard)
            return self.read(g, v, index, guard)

        return read

    def load(self, g: Group, v: Value, offset: Index, guard: Expr | None) -> Scalar:
        self.note_read(g.step, v)
        producer = self.producer.get(v)
        if producer is not None and producer is not g.step and not g.step.after & producer.bit:
            if producer.after & g.step.bit:
                raise NotInRow
            self.depend(g.step, {producer})
        return self.b.load(self.buffer(v), offset, guard, v.aval.dtype)

    def fold_of(self, node: Node) -> tuple[Fold, Callable[[tuple[Expr, ...]], tuple[Scalar, ...]]]:
        """The fold of a reduction over primitive values, and the way from its outcome to the results."""
        kind, b = node.kind, self.b
        assert isinstance(kind, Reduce | Cumulative)
        identity = kind.identity(b)
        widths = [registers(s.dtype) for s in identity]

        def grouped(primitives: Sequence[Expr]) -> tuple[Scalar, ...]:
            out, k = [], 0
            for s, w in zip(identity, widths, strict=True):
                out.append(b.from_registers(s.dtype, tuple(primitives[k : k + len(w)])))
                k += len(w)
            return tuple(out)

        def leaves(make: Callable[[int, Any], Expr]) -> tuple[Scalar, ...]:
            return grouped([make(k, p) for k, p in enumerate(p for w in widths for p in w)])

        combined = kind.combine(b, leaves(b.acc), leaves(b.elt))
        fold = Fold(self.flatten(identity), self.flatten(combined))

        def results(primitives: tuple[Expr, ...]) -> tuple[Scalar, ...]:
            acc = grouped(primitives)
            return kind.result(b, acc) if isinstance(kind, Reduce) and kind.result is not None else acc

        return fold, results

    def flatten(self, scalars: Sequence[Scalar]) -> tuple[Expr, ...]:
        return tuple(p for s in scalars for p in self.b.to_registers(s))

    def elements(self, g: Group, node: Node, index: Sequence[Index], position: Index, guard: Expr | None = None) -> tuple[Scalar, ...]:
        if guard is None:
            self.read_deep(g, node.operands, index)
        values = tuple(self.read(g, v, index, guard) for v in node.operands)
        if isinstance(node.kind, Reduce) and node.kind.element is not None:
            return node.kind.element(self.b, self.b.index(position), values)
        return values

    def unrolled(self, g: Group, node: Node, index: Sequence[Index], guard: Expr | None) -> tuple[Scalar, ...]:
        """A reduction over a few elements, in the canonical order."""
        kind, b = node.of(Reduce), self.b
        shape = node.operands[0].shape
        n = reduced_size(node)
        items = []
        for r in range(n):
            items.append(self.elements(g, node, self.spread(node, index, Index(r), shape), Index(r), guard))
        identity = kind.identity(b)
        if not n:
            acc = identity
        else:
            for i, j in halving(n):
                items[i] = kind.combine(b, items[i], items[j])
            acc = kind.combine(b, identity, items[0])
        return acc if kind.result is None else kind.result(b, acc)

    @staticmethod
    def spread(node: Node, kept: Sequence[Index], position: Index, shape: tuple[int, ...]) -> list[Index]:
        """The operand's index for an index over the kept axes and a row-major position over the reduced ones."""
        axes = sorted(node.of(Reduce).axes)
        inner = unlinear(position, tuple(shape[a] for a in axes))
        kept_iter = iter(kept)
        return [inner[axes.index(a)] if a in axes else next(kept_iter) for a in range(len(shape))]

    def kernel_name(self, prefix: str, members: Sequence[Node]) -> str:
        """Of the kernel that stores what these nodes give: the last three. For perf, all that is fused, and the largest array's type."""
        if not config._state.perf_map:
            return prefix + "_".join(dict.fromkeys(m.name for m in members[-3:]))
        fused: dict[Node, None] = {}
        waiting = list(reversed(members))
        while waiting:
            n = waiting.pop()
            if n not in fused and not isinstance(n.kind, Input | Constant):
                fused[n] = None
                waiting.extend(v.node for v in reversed(n.operands) if v not in self.stored)
        order = {n: k for k, n in enumerate(self.graph.nodes)}
        names = list(dict.fromkeys(n.name for n in sorted(fused, key=lambda n: order.get(n, len(order)))))
        more = f"_and_{len(names) - NAMED}_more" if len(names) > NAMED else ""
        largest = max((v for n in members for v in (*n.results, *(n.operands if isinstance(n.kind, Reduce) else ()))), key=lambda v: v.size)
        return f"{prefix}{'_'.join(names[:NAMED])}{more}:{largest.aval.str_short()}"

    def new_group(self, shape: tuple[int, ...], flat: bool) -> Group:
        self.serial += 1
        g = Group(self.new_step(), shape, flat, self.serial)
        self.groups.append(g)
        return g

    def owned(self, g: Group, node: Node) -> None:
        g.members.append(node)
        self.produced(node, g.step)
        for v in node.results:
            self.group_of[v] = g

    def stores_of(self, v: Value, stored: tuple[Expr, ...], offset: Index, guard: Expr | None = None) -> list[Store]:
        n = len(stored)
        return [Store(self.buffer(v), offset * n + c if n > 1 else offset, e, guard) for c, e in enumerate(stored)]

    def stores_of_results(self, node: Node, scalars: Sequence[Scalar], offset: Index) -> list[Store]:
        """Of those results that have buffers."""
        out: list[Store] = []
        for v, scalar in zip(node.results, scalars, strict=True):
            if v in self.stored:
                out += self.stores_of(v, self.b.to_storage(scalar), offset)
        return out

    def produced(self, node: Node, step: Step) -> None:
        for v in node.results:
            self.producer[v] = step

    def cost(self, g: Group, scalars: Sequence[Scalar], values: Sequence[Value]) -> float:
        """Nanoseconds for an element, roughly."""
        operations = expression_cost(self.flatten(scalars))
        g.operations += operations
        return element_ns(operations, sum(2 * v.aval.dtype.itemsize for v in values))

    def whole(self, v: Value, step: Step) -> Buffer:
        """The buffer of a value that is stored whole."""
        if v in self.producer:
            self.depend(step, {self.producer[v]})
        self.note_read(step, v)
        return self.buffer(v)
