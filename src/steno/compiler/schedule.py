"""graph -> loops: groups the stored values of a graph into kernels.

A *group* is a kernel in the making: an outer space, and for each outer point a list of stages. A stored value joins a group if whatever
it reads from the group lies in its own row, that is at the same outer point: softmax, layer norm and their like become
one kernel that reads each element from memory once. An elementwise group is one whose outer space is all of its values' space.

Whether a value can join is found out by building its expression there: a read outside the row raises `_NotInRow`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from steno.compiler.control import place_choose, place_repeat
from steno.compiler.graph import Choose, Constant, Graph, Input, Node, Repeat, Value
from steno.compiler.loop_rewrites import collapse, place_locals
from steno.compiler.materialize import REGION, expression_cost, is_inlinable, materialize, reduced_size
from steno.ir.expr import Builder, Expr, Scalar, registers, storage
from steno.ir.index import Index, LoopVar, linear, unlinear, var
from steno.ir.kinds import Contract, Cumulative, Host, Library, Map, Reduce, Update
from steno.ir.loops import (
    BLOCK,
    Buffer,
    ColReduce,
    CopyBuffer,
    Cumulate,
    Fold,
    HostCall,
    Kernel,
    LibraryCall,
    MapStage,
    RowReduce,
    Stage,
    Statement,
    Store,
    TreeReduce,
    halving,
)

# Beyond this many elements a row does not stay in the first-level caches, so its stages gain nothing from sharing a kernel.
ROW = 1 << 15
# A kernel over one point (a full reduction, and what follows it) runs on one thread: only small ones join it.
SERIAL = 1 << 14
# A group of unrelated small values saves calls.
SMALL = 1 << 12
LOCAL_BYTES = 1 << 16
OPERATION_NS, BYTE_NS = 0.04, 0.06
GEMM_CODES = {n: k for k, n in enumerate(("float32", "float64", "complex64", "complex128", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"))}
"""meta of `steno_gemm(lhs, rhs, result)`: code, batch, m, n, k, then for lhs and rhs: offset, batch stride, row stride, column stride, in elements."""


class _NotInRow(Exception):
    """A read of a value of the same group, at another outer point."""


class Flat(tuple):
    """A multi-index given by its row-major position alone: `Flat((position,))`."""

    __slots__ = ()


@final
@dataclass(eq=False)
class Step:
    """A statement, or several in a row, with what they must come after."""

    order: int
    after: set[Step] = field(default_factory=set)
    statements: list[Statement] = field(default_factory=list)
    reads: set[Value] = field(default_factory=set)


@final
@dataclass(frozen=True)
class Schedule:
    steps: tuple[Step, ...]
    buffers: dict[Value, Buffer]


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
        self.inner: dict[tuple[int, ...], list[LoopVar]] = {}
        self.cost = 0.0
        self.operations = 0.0

    def starts_with_row(self, shape: tuple[int, ...]) -> bool:
        return not self.flat and shape[: len(self.shape)] == self.shape


@final
class Scheduler:
    """`nested`: the graph is a loop's or a branch's; `in_place`: inputs whose memory an output may take over."""

    def __init__(self, graph: Graph, lower: Callable[..., Any], nested: bool, in_place: frozenset[int]):
        self.graph = graph
        self.lower = lower
        self.nested = nested
        self.in_place = in_place
        self.b = Builder()
        self.stored = materialize(graph)
        self.outputs = set(graph.outputs)
        self.buffers: dict[Value, Buffer] = {}
        self.steps: list[Step] = []
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
        for n in reversed(graph.nodes):
            self.share_updated(n)

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

    def share_updated(self, node: Node) -> None:
        """An operand that only this node reads, and changes, has the result's buffer."""
        if isinstance(node.kind, Update):
            pairs = [(node.results[0], node.operands[0])]
        elif isinstance(node.kind, Library):
            pairs = [(r, node.operands[k]) for r, k in zip(node.results, node.kind.in_place, strict=False) if k >= 0]
        elif isinstance(node.kind, Repeat):
            first = node.kind.cond_consts + node.kind.body_consts
            pairs = list(zip(node.results[: node.kind.carries], node.operands[first : first + node.kind.carries], strict=True))
        else:
            return
        for result, operand in pairs:
            if operand in self.stored and self.uses[operand] == 1 and operand not in self.outputs:
                self.buffers[operand] = self.buffer(result)

    def new_step(self) -> Step:
        step = Step(len(self.steps))
        self.steps.append(step)
        return step

    def depend(self, step: Step, on: set[Step]) -> None:
        """Adds edges; `after` is kept transitive, so that a cycle is found before it is made."""
        new = set(on)
        for s in on:
            new |= s.after
        step.after |= new
        for s in self.steps:
            if step in s.after:
                s.after |= new

    # -- expressions

    def run(self) -> Schedule:
        for node in self.graph.nodes:
            if node.has_effects or any(v in self.stored for v in node.results):
                self.place(node)
        for g in self.groups:
            self.finish(g)
        return Schedule(tuple(self.in_order()), self.buffers)

    def in_order(self) -> list[Step]:
        done: list[Step] = []
        placed: set[Step] = set()
        waiting = sorted(self.steps, key=lambda s: s.order)
        while waiting:
            rest = []
            for s in waiting:
                if s.after <= placed:
                    done.append(s)
                    placed.add(s)
                else:
                    rest.append(s)
            if len(rest) == len(waiting):
                raise AssertionError("statements depend on each other in a circle")
            waiting = rest
        return done

    def place(self, node: Node) -> None:
        kind = node.kind
        if not node.has_effects and not any(v.size for v in node.results):
            for v in node.results:
                self.buffer(v)
            return  # nothing to compute
        if isinstance(kind, Map) or isinstance(kind, Reduce) and is_inlinable(node.results[0]):
            self.place_map(node)
        elif isinstance(kind, Reduce):
            self.place_reduce(node)
        elif isinstance(kind, Cumulative):
            self.place_cumulative(node)
        elif isinstance(kind, Contract):
            self.place_contract(node)
        elif isinstance(kind, Update):
            self.place_update(node)
        elif isinstance(kind, Library):
            self.place_library(node)
        elif isinstance(kind, Host):
            self.place_host(node)
        elif isinstance(kind, Repeat):
            place_repeat(self, node, kind)
        elif isinstance(kind, Choose):
            place_choose(self, node, kind)
        else:
            raise AssertionError(f"no schedule for kind {kind}")

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
                raise _NotInRow
            return g.scalars[v]
        if v in g.rows:
            if list(index[: len(g.index)]) != list(g.index):
                raise _NotInRow
            return self.load(g, v, linear(index, v.shape), guard)
        if v in self.stored or isinstance(kind, Input):
            if self.group_of.get(v) is g:
                raise _NotInRow
            offset = index[0] if isinstance(index, Flat) else linear(index, v.shape)
            return self.load(g, v, offset, guard)
        if isinstance(kind, Map):
            if kind.view and kind.flat:
                (operand,) = v.node.operands
                if not isinstance(index, Flat):
                    index = self.reshaped(g, operand, index, v.shape)
                return self.read(g, operand, index, guard)
            out = kind.body(self.b, index, [self.reader(g, o, guard) for o in v.node.operands])
            return out[v.position] if isinstance(out, list | tuple) else out
        if isinstance(kind, Reduce):
            return self.unrolled(g, v.node, index, guard)[v.position]
        raise AssertionError(f"{v.node.name} has no buffer")

    def reader(self, g: Group, v: Value, outside: Expr | None) -> Callable[..., Scalar]:
        def read(index: Sequence[Index], guard: Expr | None = None) -> Scalar:
            if outside is not None:
                guard = outside if guard is None else self.b.and_(outside, guard)
            return self.read(g, v, index, guard)

        return read

    def reshaped(self, g: Group, operand: Value, index: Sequence[Index], shape: tuple[int, ...]) -> list[Index]:
        """The operand's indices for a reshape's. Factor by factor where the shapes share them; sizes 1 do not matter."""
        out: list[Index] = []
        target = list(operand.shape)
        i, j = 0, 0
        while j < len(target) or i < len(shape):
            m = n = 1
            i0, j0 = i, j
            if i < len(shape):
                m, i = shape[i], i + 1
            if j < len(target):
                n, j = target[j], j + 1
            while m != n:
                if m < n:
                    m, i = m * shape[i], i + 1
                else:
                    n, j = n * target[j], j + 1
            out += unlinear(linear(index[i0:i], shape[i0:i]), tuple(target[j0:j]))
        return out

    def load(self, g: Group, v: Value, offset: Index, guard: Expr | None) -> Scalar:
        g.step.reads.add(v)
        producer = self.producer.get(v)
        if producer is not None and producer is not g.step and producer not in g.step.after:
            if g.step in producer.after:
                raise _NotInRow
            self.depend(g.step, {producer})
        return self.b.load(self.buffer(v), offset, guard, v.aval.dtype)

    def fold_of(self, node: Node) -> tuple[Fold, Callable[[tuple[Expr, ...]], tuple[Scalar, ...]]]:
        """The fold of a reduction over primitive values, and the way from its outcome to the results."""
        kind, b = node.kind, self.b
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
            result = getattr(kind, "result", None)
            return acc if result is None else result(b, acc)

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
        kind, b = node.kind, self.b
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
        axes = sorted(node.kind.axes)
        inner = unlinear(position, tuple(shape[a] for a in axes))
        kept_iter = iter(kept)
        return [inner[axes.index(a)] if a in axes else next(kept_iter) for a in range(len(shape))]

    # -- maps

    def place_map(self, node: Node) -> None:
        v = node.results[0]
        front = self.frontier(node.operands)
        flat = v.aval.ndim > 0 and self._is_flat(node) and (self.reads_flat(node.operands) or all(o.aval.ndim == 0 for o in node.operands))
        tried: set[int] = set()
        for g in self.candidates(front, v):
            if id(g) in tried:
                continue
            tried.add(id(g))
            if self.can_take(g, v, flat) and self.attempt(g, node, lambda g=g: self.add_map(g, node)):
                return
        g = self.new_group(v.shape, flat)
        self.add_map(g, node)

    @staticmethod
    def _is_flat(node: Node) -> bool:
        kind = node.kind
        if not isinstance(kind, Map):
            return False
        return kind.flat or kind.view and bool(node.operands) and all(o.aval.ndim == 0 for o in node.operands)

    def candidates(self, front: dict[Value, None], v: Value) -> list[Group]:
        own = [self.group_of[u] for u in front if u in self.group_of]
        own.sort(key=lambda g: -g.step.order)
        rest = []
        for g in reversed(self.groups[-8:]):
            if g.shape == v.shape and (v.size <= SMALL or not g.step.reads.isdisjoint(front)):
                rest.append(g)
        return own + rest

    def can_take(self, g: Group, v: Value, flat: bool) -> bool:
        if g.operations > REGION:
            return False
        if g.flat:
            return flat and g.shape == v.shape
        if not g.starts_with_row(v.shape):
            return False
        row = math.prod(v.shape[len(g.shape) :])
        if row > ROW and not (len(g.shape) == len(v.shape)):
            return False
        if math.prod(g.shape) == 1 and v.size > SERIAL:
            return False
        return g.shape == v.shape or bool(g.stages) or row == 1

    def attempt(self, g: Group, node: Node, add: Callable[[], None]) -> bool:
        try:
            add()
        except _NotInRow:
            return False
        return True

    def new_group(self, shape: tuple[int, ...], flat: bool) -> Group:
        self.serial += 1
        g = Group(self.new_step(), shape, flat, self.serial)
        self.groups.append(g)
        return g

    def owned(self, g: Group, node: Node) -> None:
        g.members.append(node)
        for v in node.results:
            self.producer[v] = g.step
            self.group_of[v] = g

    def add_map(self, g: Group, node: Node) -> None:
        shape = node.results[0].shape
        row = shape[len(g.shape) :] if not g.flat else ()
        if math.prod(row) == 1:
            index = g.index if g.flat else [*g.index, *([Index(0)] * len(row))]
            scalars = self.body(g, node, index)
            offset = index[0] if g.flat else linear(index, shape)
            for v, s in zip(node.results, scalars, strict=True):
                g.scalars[v] = s
                if v in self.stored:
                    g.stores.append((v, self.b.to_storage(s), offset))
            g.cost += math.prod(g.shape) * self.cost(g, scalars, node.results)
        else:
            inner = g.inner.setdefault(row, [LoopVar(f"{g.vars[0].name if g.vars else 's'}r{len(g.inner)}_{k}", n) for k, n in enumerate(row)])
            index = [*g.index, *(var(x) for x in inner)]
            scalars = self.body(g, node, index)
            stores = []
            for v, s in zip(node.results, scalars, strict=True):
                if v in self.stored:
                    stores += self.stores_of(v, self.b.to_storage(s), linear(index, shape))
            g.stages.append(MapStage(tuple(x for x in inner if x.extent > 1), tuple(stores)))
            g.rows.update(v for v in node.results if v in self.stored)
            g.cost += math.prod(shape) * self.cost(g, scalars, node.results)
        self.owned(g, node)

    def body(self, g: Group, node: Node, index: Sequence[Index]) -> Sequence[Scalar]:
        if isinstance(node.kind, Reduce):
            return self.unrolled(g, node, index, None)
        if node.kind.view and node.kind.flat:
            (operand,) = node.operands
            at = index if isinstance(index, Flat) else self.reshaped(g, operand, index, node.results[0].shape)
            return (self.read(g, operand, at, None),)
        if node.kind.flat:
            self.read_deep(g, [o for o in node.operands if o.aval.ndim == node.results[0].aval.ndim], index)
        out = node.kind.body(self.b, index, [self.reader(g, o, None) for o in node.operands])
        return out if isinstance(out, list | tuple) else (out,)

    def stores_of(self, v: Value, stored: tuple[Expr, ...], offset: Index, guard: Expr | None = None) -> list[Store]:
        n = len(stored)
        return [Store(self.buffer(v), offset * n + c if n > 1 else offset, e, guard) for c, e in enumerate(stored)]

    def cost(self, g: Group, scalars: Sequence[Scalar], values: Sequence[Value]) -> float:
        """Nanoseconds for an element, roughly."""
        operations = expression_cost(self.flatten(scalars))
        g.operations += operations
        return OPERATION_NS * operations + BYTE_NS * sum(2 * v.aval.dtype.itemsize for v in values)

    # -- reductions

    def place_reduce(self, node: Node) -> None:
        operand = node.operands[0].shape
        axes = sorted(a for a in node.kind.axes if operand[a] != 1)
        kept = [a for a in range(len(operand)) if a not in node.kind.axes]
        big_kept = [a for a in kept if operand[a] != 1]
        size, points = reduced_size(node), node.results[0].size
        if not axes or not big_kept or max(big_kept) < axes[0] or max(big_kept) < axes[-1]:
            if points * 4 <= 8 and size > 4 * BLOCK:
                self.add_block_reduce(node)
            else:
                self.place_row_reduce(node, size)
        else:
            self.add_column_reduce(node)

    def place_row_reduce(self, node: Node, size: int) -> None:
        shape = node.results[0].shape
        front = self.frontier(node.operands)
        tried: set[int] = set()
        for g in self.candidates(front, node.results[0]):
            if id(g) in tried or g.flat or g.shape != shape or size > ROW or math.prod(shape) == 1 and size > SERIAL:
                continue
            tried.add(id(g))
            if (g.stages or len(g.shape) == 0) and self.attempt(g, node, lambda g=g: self.add_row_reduce(g, node)):
                return
        if size <= ROW and (math.prod(shape) > 1 or size <= SERIAL) and self.take_over(node, shape, front):
            return
        self.add_row_reduce(self.new_group(shape, False), node)

    def take_over(self, node: Node, shape: tuple[int, ...], front: dict[Value, None]) -> bool:
        """Elementwise groups whose values this reduction reads row by row become stages of its kernel."""
        old = []
        for u in front:
            g = self.group_of.get(u)
            if g is None or g in old:
                continue
            rows = all(m.results[0].shape[: len(shape)] == shape and m.results[0].aval.ndim > len(shape) for m in g.members)
            if not g.stages and rows and g.scalars:
                old.append(g)
        if len(old) != 1:
            return False
        (g,) = old
        step = Step(g.step.order)
        self.serial += 1
        new = Group(step, shape, False, self.serial)
        saved = {v: (self.producer[v], self.group_of[v]) for m in g.members for v in m.results}
        for v in saved:
            del self.producer[v], self.group_of[v]
        self.steps.append(step)
        try:
            for m in g.members:
                self.add_map(new, m)
            self.add_row_reduce(new, node)
            if g.step in step.after or any(g.step in s.after and s in step.after for s in self.steps):
                raise _NotInRow
        except _NotInRow:
            self.steps.remove(step)
            for s in self.steps:
                s.after.discard(step)
            for v, (producer, group) in saved.items():
                self.producer[v], self.group_of[v] = producer, group
            for v in node.results:
                self.producer.pop(v, None)
                self.group_of.pop(v, None)
            return False
        for s in self.steps:
            if g.step in s.after:
                s.after.discard(g.step)
                self.depend(s, {step})
        self.steps.remove(g.step)
        self.groups[self.groups.index(g)] = new
        return True

    def add_row_reduce(self, g: Group, node: Node) -> None:
        shape = node.operands[0].shape
        size = reduced_size(node)
        x = g.inner.setdefault(("reduce", size), [LoopVar(f"r{len(g.inner)}", size)])[0]
        fold, results = self.fold_of(node)
        elements = self.elements(g, node, self.spread(node, g.index, var(x), shape), var(x))
        names, locals_ = self.new_locals(fold)
        g.stages.append(RowReduce(x, self.flatten(elements), fold, names))
        self.bind_reduction(g, node, results(locals_))
        g.cost += math.prod(g.shape) * size * self.cost(g, elements, node.operands) * 0.6
        self.owned(g, node)

    def new_locals(self, fold: Fold) -> tuple[tuple[str, ...], tuple[Expr, ...]]:
        self.serial += 1
        names = tuple(f"t{self.serial}_{k}" for k in range(len(fold.identity)))
        return names, tuple(self.b.local(n, e.dtype) for n, e in zip(names, fold.identity, strict=True))

    def bind_reduction(self, g: Group, node: Node, results: Sequence[Scalar]) -> None:
        for v, s in zip(node.results, results, strict=True):
            g.scalars[v] = s
            if v in self.stored:
                g.stores.append((v, self.b.to_storage(s), linear(g.index, v.shape)))

    def add_block_reduce(self, node: Node) -> None:
        """A long reduction at few points: blocks in parallel, then the tree over them."""
        shape, kept = node.operands[0].shape, node.results[0].shape
        size = reduced_size(node)
        blocks = -(-size // BLOCK)
        g = self.new_group((*kept, blocks), False)
        x = LoopVar("r", size)
        fold, results = self.fold_of(node)
        elements = self.elements(g, node, self.spread(node, g.index[:-1], var(x), shape), var(x))
        names, locals_ = self.new_locals(fold)
        g.stages.append(RowReduce(x, self.flatten(elements), fold, names, block=g.index[-1]))
        self.serial += 1
        partial = [Buffer(f"p{self.serial}_{k}", e.dtype, math.prod(g.shape), "arena") for k, e in enumerate(fold.identity)]
        offset = linear(g.index, g.shape)
        stage = MapStage((), tuple(Store(p, offset, e) for p, e in zip(partial, locals_, strict=True)))
        g.cost = size * math.prod(kept) * self.cost(g, elements, node.operands) * 0.6
        g.step.statements.append(Kernel(f"blocks_{node.name}", tuple(v for v in g.vars if v.extent > 1), (*g.stages, stage), g.cost))
        self.groups.remove(g)
        second = self.new_group(kept, False)
        self.depend(second.step, {g.step})
        y = LoopVar("r", blocks)
        at = linear([*second.index, var(y)], (*kept, blocks))
        parts_ = tuple(self.b.load(p, at, None, p.dtype) for p in partial)
        names, locals_ = self.new_locals(fold)
        second.stages.append(TreeReduce(y, self.flatten(parts_), fold, names))
        self.bind_reduction(second, node, results(locals_))
        self.owned(second, node)

    def add_column_reduce(self, node: Node) -> None:
        shape, kept = node.operands[0].shape, node.results[0].shape
        size = reduced_size(node)
        g = self.new_group(kept, False)
        lane = max((v for v in g.vars if v.extent > 1), key=g.vars.index)
        x = LoopVar("r", size)
        fold, results = self.fold_of(node)
        elements = self.elements(g, node, self.spread(node, g.index, var(x), shape), var(x))
        names, locals_ = self.new_locals(fold)
        stores: list[Store] = []
        for v, s in zip(node.results, results(locals_), strict=True):
            if v in self.stored:
                stores += self.stores_of(v, self.b.to_storage(s), linear(g.index, kept))
        outer = tuple(v for v in g.vars if v is not lane and v.extent > 1)
        cost = math.prod(shape) * self.cost(g, elements, node.operands) * 0.6
        g.step.statements.append(Kernel(f"columns_{node.name}", outer, (ColReduce(lane, x, self.flatten(elements), fold, names, tuple(stores)),), cost))
        self.groups.remove(g)
        for v in node.results:
            self.producer[v] = g.step

    def place_cumulative(self, node: Node) -> None:
        shape = node.results[0].shape
        axis = node.kind.axis
        g = self.new_group(shape, False)
        self.groups.remove(g)
        x = g.vars[axis]
        at = list(g.index)
        if node.kind.reverse and x.extent:
            at[axis] = Index(x.extent - 1) - at[axis]
        fold, results = self.fold_of(node)
        elements = self.elements(g, node, at, at[axis])
        names, locals_ = self.new_locals(fold)
        stores: list[Store] = []
        for v, s in zip(node.results, results(locals_), strict=True):
            if v in self.stored:
                stores += self.stores_of(v, self.b.to_storage(s), linear(at, shape))
        others = [v for v in g.vars if v is not x and v.extent > 1]
        lane = others.pop() if others and g.vars.index(others[-1]) > axis else None
        stage = Cumulate(lane, x, self.flatten(elements), fold, names, tuple(stores))
        cost = math.prod(shape) * (self.cost(g, elements, node.operands) + 1.0)
        g.step.statements.append(Kernel(f"running_{node.name}", tuple(others), (stage,), cost))
        for v in node.results:
            self.producer[v] = g.step

    # -- whole-buffer statements

    def place_update(self, node: Node) -> None:
        """copy of the operand (or the operand's own buffer, if nobody else reads it), then the changes."""
        kind, (result,), operand = node.kind, node.results, node.operands[0]
        if isinstance(operand.node.kind, Input) and operand.node.kind.position in self.in_place:
            # What is computed from the old array is computed before it changes, so that it can change in place.
            for o in node.operands[1:]:
                if o not in self.stored and operand in self.frontier([o]) and is_inlinable(o):
                    self.stored.add(o)
                    self.place_map(o.node)
        step = self.begin_copy(result, operand)
        target = self.buffer(result)
        self.serial += 1
        g = Group(step, kind.space, False, self.serial)
        reads = [self.reader(g, o, None) for o in node.operands]
        index, guard = kind.target(self.b, g.index, reads)
        offset = linear(list(index), result.shape)
        old = self.b.load(target, offset, guard, result.aval.dtype)
        value = kind.value(self.b, g.index, reads, old)
        stores = self.stores_of(result, self.b.to_storage(value), offset, guard)
        cost = math.prod(kind.space) * (self.cost(g, [value], [result]) + 1.0)
        stage = MapStage(tuple(v for v in g.vars if v.extent > 1), tuple(stores), sequential=not kind.unique)
        if math.prod(kind.space):
            step.statements.append(self.map_kernel(f"update_{node.name}", stage, cost if kind.unique else 0.0))
        self.producer[result] = step
        step.reads.discard(result)

    def begin_copy(self, result: Value, operand: Value) -> Step:
        """A step that starts with `operand` in `result`'s buffer."""
        if self.buffers.get(operand) is self.buffer(result):
            step = self.new_step()
            self.whole(operand, step)
            return step
        if operand in self.stored or isinstance(operand.node.kind, Input):
            step = self.new_step()
            step.statements.append(CopyBuffer(self.whole(operand, step), self.buffer(result)))
            return step
        copy = Node("copy", Map(lambda b, i, reads: reads[0](i), flat=True), (operand,), [operand.aval])
        self.stored.add(copy.results[0])
        self.buffers[copy.results[0]] = self.buffer(result)
        flat = self.reads_flat([operand])
        g = self.new_group(operand.shape, flat)
        self.add_map(g, copy)
        step = self.new_step()
        self.whole(copy.results[0], step)
        return step

    def strided(self, v: Value) -> tuple[Value, int, list[int]] | None:
        """(stored value, offset, stride of each dimension) if reading `v` is one unguarded load at an affine position."""
        g = Group(Step(-1), v.shape, False, 0)
        try:
            e = self.read(g, v, g.index, None)
        except _NotInRow:
            return None
        if not isinstance(e, Expr) or e.op != "load" or e.attr[2] is not None:
            return None
        offset = e.attr[1]
        strides = [offset.coefficient(x) for x in g.vars]
        if len(offset.terms) != sum(1 for s in strides if s):
            return None
        (source,) = g.step.reads
        return source, offset.const, strides

    def place_contract(self, node: Node) -> None:
        """result[b, m, n] = sum over k of lhs[b, m, k] * rhs[b, k, n]: layouts are strides, no operand is transposed in memory."""
        (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = node.kind.dimension_numbers
        compute = node.kind.compute
        lhs, rhs = node.operands
        (result,) = node.results
        step = self.new_step()
        lhs_free = [a for a in range(lhs.aval.ndim) if a not in lhs_contract and a not in lhs_batch]
        rhs_free = [a for a in range(rhs.aval.ndim) if a not in rhs_contract and a not in rhs_batch]
        a = self.matrix_operand(lhs, (lhs_batch, lhs_free, lhs_contract), compute, step)
        b = self.matrix_operand(rhs, (rhs_batch, rhs_contract, rhs_free), compute, step)
        batch = math.prod(lhs.shape[d] for d in lhs_batch)
        m, n = math.prod(lhs.shape[d] for d in lhs_free), math.prod(rhs.shape[d] for d in rhs_free)
        k = math.prod(lhs.shape[d] for d in lhs_contract)
        target = result
        if result.aval.dtype != compute:
            target = Node("product", Library("steno_gemm", ()), (), [result.aval.update(dtype=compute)]).results[0]
        meta = (GEMM_CODES[compute.name], batch, m, n, k, *a[1:], *b[1:])
        step.statements.append(LibraryCall("steno_gemm", (a[0], b[0], self.buffer(target)), meta))
        self.producer[target] = step
        if target is not result:
            self.stored.add(target)
            rounded = Node("round", Map(lambda e, i, reads: e.convert(reads[0](i), result.aval.dtype), flat=True), (target,), [result.aval])
            self.buffers[rounded.results[0]] = self.buffer(result)
            self.stored.add(rounded.results[0])
            g = self.new_group(result.shape, True)
            self.add_map(g, rounded)
            self.outputs.add(rounded.results[0])  # its buffer is the result's: never only local
            self.producer[result] = g.step

    def matrix_operand(self, v: Value, dims: tuple[Sequence[int], Sequence[int], Sequence[int]], compute: Any, step: Step) -> tuple[Any, ...]:
        """(buffer, offset, strides of the three groups of dimensions) of an operand; a copy in that order if it has no such strides."""
        if v.aval.dtype == compute:
            found = self.strided(v)
            if found is not None:
                source, offset, strides = found
                merged = [self.merged_stride([v.shape[d] for d in group], [strides[d] for d in group]) for group in dims]
                if None not in merged:
                    return (self.whole(source, step), offset, *merged)
        order = [d for group in dims for d in group]
        shape = tuple(v.shape[d] for d in order)

        def body(b: Builder, index: Sequence[Index], reads: Sequence[Any]) -> Scalar:
            at = [Index(0)] * len(order)
            for d, i in zip(order, index, strict=True):
                at[d] = i
            return b.convert(reads[0](at), compute)

        packed = Node("pack", Map(body), (v,), [v.aval.update(shape=shape, dtype=compute)])
        self.stored.add(packed.results[0])
        self.place_map(packed)
        sizes = [math.prod(v.shape[d] for d in group) for group in dims]
        return (self.whole(packed.results[0], step), 0, sizes[1] * sizes[2], sizes[2], 1)

    @staticmethod
    def merged_stride(sizes: Sequence[int], strides: Sequence[int]) -> int | None:
        """The stride of several dimensions taken as one, if they have one."""
        pairs = [(n, s) for n, s in zip(sizes, strides, strict=True) if n != 1]
        if not pairs:
            return 0
        for (_, s), (n2, s2) in zip(pairs, pairs[1:], strict=False):
            if s != n2 * s2:
                return None
        return pairs[-1][1]

    def whole(self, v: Value, step: Step) -> Buffer:
        """The buffer of a value that is stored whole."""
        if v in self.producer:
            self.depend(step, {self.producer[v]})
        step.reads.add(v)
        return self.buffer(v)

    def place_library(self, node: Node) -> None:
        kind = node.kind
        in_place = kind.in_place or (-1,) * len(node.results)
        copies = []
        for result, k in zip(node.results, in_place, strict=True):
            if k >= 0:
                copies.append(self.begin_copy(result, node.operands[k]))
        step = self.new_step()
        self.depend(step, set(copies))
        passed = [self.whole(v, step) for k, v in enumerate(node.operands) if k not in in_place]
        step.statements.append(LibraryCall(kind.symbol, (*passed, *(self.buffer(v) for v in node.results)), kind.meta))
        for v in node.results:
            self.producer[v] = step

    def place_host(self, node: Node) -> None:
        step = self.new_step()
        passed = [self.whole(v, step) for v in node.operands]
        step.statements.append(HostCall(node.host_call, (*passed, *(self.buffer(v) for v in node.results))))
        self.after_effects(step)
        for v in node.results:
            self.producer[v] = step

    def after_effects(self, step: Step) -> None:
        """Statements with effects keep the program's order."""
        if self.last_host is not None:
            self.depend(step, {self.last_host})
        self.last_host = step

    # -- from groups to kernels

    def finish(self, g: Group) -> None:
        stores = []
        for v, stored, offset in g.stores:
            if self.is_needed(v, g):
                stores += self.stores_of(v, stored, offset)
        name = "_".join(dict.fromkeys(m.name for m in g.members[-3:]))
        if not g.stages:
            if not stores:
                return
            stage = MapStage(tuple(v for v in g.vars if v.extent != 1), tuple(stores))
            g.step.statements.append(self.map_kernel(name, stage, g.cost))
            return
        stages = [*g.stages, MapStage((), tuple(stores))] if stores else list(g.stages)
        local: dict[Buffer, Buffer] = {}
        room = LOCAL_BYTES
        points = math.prod(g.shape)
        for v in sorted(g.rows, key=lambda v: v.aval.nbytes):
            if self.is_needed(v, g):
                continue
            buffer = self.buffers[v]
            row = buffer.size // max(points, 1)
            if row * buffer.dtype.itemsize <= room:
                room -= row * buffer.dtype.itemsize
                local[buffer] = Buffer(buffer.name, buffer.dtype, row, "local")
        outer = tuple(v for v in g.vars if v.extent != 1)
        stages = [collapse(self.b, s) if isinstance(s, MapStage) else s for s in stages]
        if local:
            stages = place_locals(self.b, stages, local, set(outer))
        g.step.statements.append(Kernel(name, outer, tuple(stages), g.cost))

    def is_needed(self, v: Value, g: Group) -> bool:
        """Whether anything outside its kernel reads the stored value."""
        return v in self.outputs or any(v in s.reads and s is not g.step for s in self.steps)

    def map_kernel(self, name: str, stage: MapStage, cost: float) -> Kernel:
        """The last loop is the vector loop, the others are the outer ones."""
        if stage.sequential:
            return Kernel(name, (), (stage,), 0.0)
        stage = collapse(self.b, stage)
        if len(stage.vars) <= 1:
            return Kernel(name, (), (stage,), cost)
        return Kernel(name, stage.vars[:-1], (MapStage(stage.vars[-1:], stage.stores),), cost)


def schedule(graph: Graph, lower: Callable[..., Any], nested: bool = False, in_place: frozenset[int] = frozenset()) -> Schedule:
    """`lower(graph, nested, in_place, carried)`: what makes programs of nested graphs (`pipeline.lower`)."""
    return Scheduler(graph, lower, nested, in_place).run()


__all__ = ["Schedule", "Step", "schedule"]
