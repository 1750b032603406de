"""graph -> loops: groups the stored values of a graph into kernels.

A *group* is a kernel in the making: an outer space, and for each outer point a list of stages. A stored value joins a group if whatever
it reads from the group lies in its own row, that is at the same outer point: softmax, layer norm and their like become
one kernel that reads each element from memory once. An elementwise group is one whose outer space is all of its values' space.

Whether a value can join is found out by building its expression there (`expressions.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, final

from steno.compiler.contraction import place_contract
from steno.compiler.control import lower_branches, place_choose, place_repeat
from steno.compiler.cost import ORDERED_NS
from steno.compiler.expressions import Expressions, Flat, Group, NotInRow, Schedule, Step
from steno.compiler.folds import ROW, SERIAL, place_cumulative, place_reduce
from steno.compiler.graph import Choose, Graph, Input, Node, Repeat, Value
from steno.compiler.loop_rewrites import collapse, place_locals
from steno.compiler.materialize import REGION, is_inlinable
from steno.compiler.nests import map_kernel, update_kernel
from steno.compiler.order import FEW, is_passed_on
from steno.compiler.pieces import is_selected, place_pieces
from steno.compiler.points import is_small, place_points
from steno.ir.expr import Scalar
from steno.ir.index import Index, LoopVar, linear, var
from steno.ir.kinds import Contract, Cumulative, Host, Library, Map, Pieces, Reduce, Update
from steno.ir.loops import Buffer, CopyBuffer, HostCall, Kernel, LibraryCall, MapStage, Program

# A group of unrelated small values saves calls.
SMALL = 1 << 12
LOCAL_BYTES = 1 << 16


def is_same_memory(node: Node) -> bool:
    """Whether the result is the operand's elements, in their order (a reshape)."""
    kind = node.kind
    if not (isinstance(kind, Map) and kind.view and kind.flat and len(node.operands) == 1):
        return False
    (x,), (y,) = node.operands, node.results
    return x.aval.dtype == y.aval.dtype and x.size == y.size


@final
class Scheduler(Expressions):
    """Places the nodes of a graph, in their order."""

    def __init__(self, graph: Graph, lower: Callable[..., Any], nested: bool, in_place: frozenset[int], carried: Sequence[tuple[int, int]]):
        super().__init__(graph, lower, nested, in_place)
        self.carried = {graph.outputs[o]: i for o, i in carried}
        self.choices: dict[Node, tuple[list[Program], list[tuple[int, int]]]] = {}
        self.position = {n: k for k, n in enumerate(graph.nodes)}
        self.consumers: dict[Value, list[Node]] = {}
        for n in graph.nodes:
            for v in n.operands:
                self.consumers.setdefault(v, []).append(n)
        for n in reversed(graph.nodes):
            self.share_updated(n)

    def share_updated(self, node: Node) -> None:
        """An operand that this node changes, and nobody reads later, has the result's buffer."""
        if isinstance(node.kind, Update):
            pairs = [(node.results[0], node.operands[0])]
        elif isinstance(node.kind, Library):
            pairs = [(r, node.operands[k]) for r, k in zip(node.results, node.kind.in_place, strict=False) if k >= 0]
        elif isinstance(node.kind, Repeat):
            first = node.kind.cond_consts + node.kind.body_consts
            pairs = list(zip(node.results[: node.kind.carries], node.operands[first : first + node.kind.carries], strict=True))
        elif isinstance(node.kind, Choose):
            programs, changed = self.choices[node] = lower_branches(self, node, node.kind, lambda v: self.read_before(v, node))
            pairs = [(node.results[o], node.operands[1 + i]) for o, i in changed]
        elif is_same_memory(node) and node.results[0] in self.stored:
            pairs = [(node.results[0], node.operands[0])]
        else:
            return
        for result, operand in pairs:
            if self.read_before(operand, node):
                if operand in self.stored:
                    self.buffers[operand] = self.buffer(result)

    def read_before(self, v: Value, node: Node) -> bool:
        """Whether the memory of `v` may change when `node` is done: everything else that reads it comes before, and is stored, not left to
        be computed later."""
        own = isinstance(v.node.kind, Input) and v.node.kind.position in self.in_place
        if not own and (v not in self.stored or v in self.outputs) or node.operands.count(v) > 1:
            return False
        kept: list[Value] = []
        waiting, seen = [v], {v}
        while waiting:
            for reader in self.consumers.get(waiting.pop(), ()):
                if reader is node:
                    continue
                if self.position[reader] > self.position[node]:
                    return False
                for u in reader.results:
                    if u in self.stored or u in seen:
                        continue
                    seen.add(u)
                    if is_passed_on(u, self.consumers.get(u, ())):
                        waiting.append(u)
                    elif u.size * 4 > v.size and u.size > FEW:
                        return False  # keeping it costs as much as a copy of the array
                    else:
                        kept.append(u)
        self.stored.update(kept)
        return True

    def run(self) -> Schedule:
        if self.nested and is_small(self.graph) and place_points(self):
            return Schedule(tuple(self.in_order()), self.buffers, self.producer, self.b)
        for node in self.graph.nodes:
            if node.has_effects or any(v in self.stored for v in node.results):
                self.place(node)
        for g in self.groups:
            self.finish(g)
        return Schedule(tuple(self.in_order()), self.buffers, self.producer, self.b)

    def in_order(self) -> list[Step]:
        done: list[Step] = []
        placed = 0
        waiting = sorted(self.steps, key=lambda s: s.order)
        while waiting:
            rest = []
            for s in waiting:
                if s.after | placed == placed:
                    done.append(s)
                    placed |= s.bit
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
        if is_same_memory(node) and self.buffers.get(node.operands[0]) is self.buffer(node.results[0]):
            self.produced(node, self.begin_copy(node.results[0], node.operands[0]))
        elif node.results and self.hands_on(node):
            step = self.new_step()
            step.statements.append(CopyBuffer(self.whole(node.operands[0], step), self.buffer(node.results[0])))
            self.produced(node, step)
        elif isinstance(kind, Pieces) and not is_selected(node):
            place_pieces(self, node)
        elif isinstance(kind, Map | Pieces) or isinstance(kind, Reduce) and is_inlinable(node.results[0]):
            self.place_map(node)
        elif isinstance(kind, Reduce):
            place_reduce(self, node)
        elif isinstance(kind, Cumulative):
            place_cumulative(self, node)
        elif isinstance(kind, Contract):
            place_contract(self, node)
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

    def hands_on(self, node: Node) -> bool:
        """Whether the node gives an input to the output that has its memory: then nothing is left of the copy."""
        kind = node.operands[0].node.kind if node.name == "copy" else None
        return isinstance(kind, Input) and self.carried.get(node.results[0]) == kind.position

    # -- maps

    def place_map(self, node: Node) -> None:
        v = node.results[0]
        front = self.frontier(node.operands)
        flat = v.aval.ndim > 0 and self._is_flat(node) and (self.reads_flat(node.operands) or all(o.aval.ndim == 0 for o in node.operands))
        for g in self.candidates(front, v):
            if self.can_take(g, v, flat) and self.attempt(lambda g=g: self.add_map(g, node)):
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
        """Groups that `v` may join, each once: those it reads from, the latest first, then recent ones that read what it reads."""
        own = [self.group_of[u] for u in front if u in self.group_of]
        own.sort(key=lambda g: -g.step.order)
        rest = []
        for g in reversed(self.groups[-8:]):
            if g.shape == v.shape and (v.size <= SMALL or not g.step.reads.isdisjoint(front)):
                rest.append(g)
        return list(dict.fromkeys(own + rest))

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

    @staticmethod
    def attempt(add: Callable[[], None]) -> bool:
        try:
            add()
        except NotInRow:
            return False
        return True

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
            inner = g.inner.setdefault(
                row, [LoopVar(f"{g.vars[0].name if g.vars else 's'}r{len(g.inner)}_{k}", n) for k, n in enumerate(row)]
            )
            index = [*g.index, *(var(x) for x in inner)]
            scalars = self.body(g, node, index)
            stores = self.stores_of_results(node, scalars, linear(index, shape))
            g.stages.append(MapStage(tuple(x for x in inner if x.extent > 1), tuple(stores)))
            g.rows.update(v for v in node.results if v in self.stored)
            g.cost += math.prod(shape) * self.cost(g, scalars, node.results)
        self.owned(g, node)

    def body(self, g: Group, node: Node, index: Sequence[Index]) -> Sequence[Scalar]:
        if isinstance(node.kind, Reduce):
            return self.unrolled(g, node, index, None)
        kind = node.kind
        if isinstance(index, Flat) and isinstance(kind, Map) and kind.view and kind.flat:
            return (self.read(g, node.operands[0], index, None),)
        if isinstance(kind, Map) and kind.flat:
            self.read_deep(g, [o for o in node.operands if o.aval.ndim == node.results[0].aval.ndim], index)
        return self.elements_of(node, index, [self.reader(g, o, None) for o in node.operands])

    # -- whole-buffer statements

    def place_update(self, node: Node) -> None:
        """copy of the operand (or the operand's own buffer, if nobody else reads it), then the changes."""
        kind, (result,), operand = node.of(Update), node.results, node.operands[0]
        if self.is_changed(operand, result):
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
        points = math.prod(kind.space)
        cost = points * (self.cost(g, [value], [result]) + ORDERED_NS)
        if points:
            # an index that is affine in one loop variable differs wherever that one does
            apart = {i.terms[0][0] for i in index if len(i.terms) == 1} | {g.vars[a] for a in kind.apart}
            free = g.vars[len(g.vars) - kind.trailing :]
            step.statements.append(update_kernel(self.b, self.kernel_name("update_", [node]), g.vars, apart, free, stores, cost))
        self.producer[result] = step
        step.reads.discard(result)

    def is_changed(self, operand: Value, result: Value) -> bool:
        """Whether `result` is made in the operand's memory, as far as that is known here."""
        kind = operand.node.kind
        return isinstance(kind, Input) and kind.position in self.in_place or self.buffers.get(operand) is self.buffer(result)

    def begin_copy(self, result: Value, operand: Value) -> Step:
        """A step that starts with `operand` in `result`'s buffer."""
        if self.buffers.get(operand) is self.buffer(result):
            step = self.new_step()
            self.whole(operand, step)
            self.after_readers(step, operand)
            return step
        while operand not in self.stored and is_same_memory(operand.node):
            operand = operand.node.operands[0]
        if operand in self.stored or isinstance(operand.node.kind, Input):
            step = self.new_step()
            step.statements.append(CopyBuffer(self.whole(operand, step), self.buffer(result)))
            if self.is_changed(operand, result):
                self.after_readers(step, operand)
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

    def after_readers(self, step: Step, operand: Value) -> None:
        """What changes the operand comes after all that reads it, if there is more than the change."""
        if len(self.consumers.get(operand, ())) > 1:
            self.depend(step, {s for s in self.readers.get(operand, ()) if operand in s.reads and s is not step})

    def place_library(self, node: Node) -> None:
        kind = node.of(Library)
        in_place = kind.in_place or (-1,) * len(node.results)
        copies = []
        for result, k in zip(node.results, in_place, strict=True):
            if k >= 0:
                copies.append(self.begin_copy(result, node.operands[k]))
        step = self.new_step()
        self.depend(step, set(copies))
        passed = [self.whole(v, step) for k, v in enumerate(node.operands) if k not in in_place]
        step.statements.append(LibraryCall(kind.symbol, (*passed, *(self.buffer(v) for v in node.results)), kind.meta, node.operations))
        self.produced(node, step)

    def place_host(self, node: Node) -> None:
        step = self.new_step()
        passed = [self.whole(v, step) for v in node.operands]
        step.statements.append(HostCall(node.host_call, (*passed, *(self.buffer(v) for v in node.results))))
        self.after_effects(step)
        self.produced(node, step)

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
        name = self.kernel_name("", g.members)
        if not g.stages:
            if not stores:
                return
            stage = MapStage(tuple(v for v in g.vars if v.extent != 1), tuple(stores))
            g.step.statements.append(map_kernel(self.b, name, stage, g.cost))
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
        return v in self.outputs or any(s is not g.step and v in s.reads for s in self.readers.get(v, ()))


def schedule(
    graph: Graph,
    lower: Callable[..., Any],
    nested: bool = False,
    in_place: frozenset[int] = frozenset(),
    carried: Sequence[tuple[int, int]] = (),
) -> Schedule:
    """`lower(graph, nested, in_place, carried)`: what makes programs of nested graphs (`pipeline.lower`)."""
    return Scheduler(graph, lower, nested, in_place, carried).run()


__all__ = ["Schedule", "Step", "schedule"]
