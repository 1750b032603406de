"""What a loop's body computes anew in each iteration from values that no iteration changes is computed once, before the loop.

A node is invariant if all its operands are: constants, what the loop takes as constants, what its body closes over, other invariant nodes.
It leaves the loop where a varying node reads it and it is worth a buffer: contractions, reductions, updates, library functions; elementwise
code only from so many operations on, since what is cheap costs less where it is read. The same goes for the layout of a matrix that
multiplies a few rows in each iteration: read against its order it would be transposed in each of them, so the loop gets it transposed
(`steno_gemm` reads such a matrix where it lies, and each element of the result is the same chain of multiply-adds).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, final

from steno.compiler.graph import Constant, Graph, Input, Node, Value, alive
from steno.compiler.materialize import node_cost
from steno.ir.expr import Builder, Scalar
from steno.ir.index import Index
from steno.ir.kinds import Contract, Cumulative, Library, Map, Pieces, Reduce, Update

WORK, ELEMENTS = 8.0, 64
"""Elementwise code leaves a loop if it takes so many operations for an element, and has so many elements."""
ROOM, GROWTH = 1 << 20, 4
"""Its result may take so many bytes, or so many times those it is computed from."""
ROWS, SMALLEST, LARGEST = 192, 1 << 10, 4 << 20
"""A matrix of between so many bytes is transposed for a loop if it meets up to so many rows there."""
ITERATIONS = 4
"""From so many on it pays to prepare anything."""


def hoist(body: Graph, outside: Mapping[Value, Value], length: int | None) -> tuple[Graph, list[Node], list[Value]]:
    """The body without what leaves it, the nodes that go before the loop, and the values there that the body closes over in addition: its
    last inputs. `outside`: the invariant inputs, as what they are there. `length`: iterations, if that is known."""
    if length is not None and length < ITERATIONS:
        return body, [], []
    return _Mover(body, outside).moved()


@final
class _Mover:
    def __init__(self, body: Graph, outside: Mapping[Value, Value]) -> None:
        self.body = body
        self.outside = dict(outside)  # with what is moved
        self.invariant: dict[
            Node, tuple[float, int]
        ] = {}  # operations for an element, what is read elsewhere included; bytes that are read
        for node in body.nodes:
            movable = isinstance(node.kind, Map | Pieces | Reduce | Cumulative | Contract | Update | Library)
            if movable and node.operands and all(map(self.is_invariant, node.operands)):
                self.invariant[node] = self.work(node)

    def is_invariant(self, v: Value) -> bool:
        return isinstance(v.node.kind, Constant) or v in self.outside or v.node in self.invariant

    def work(self, node: Node) -> tuple[float, int]:
        if not _is_elementwise(node):
            return WORK, 0
        work, read = node_cost(node), 0
        for v in node.operands:
            before = self.invariant.get(v.node)
            if before is None or not _is_elementwise(v.node):
                read += v.aval.nbytes
            else:
                work, read = work + before[0], read + before[1]
        return min(work, WORK), min(read, LARGEST)

    def pays(self, v: Value) -> bool:
        work, read = self.invariant[v.node]
        if not _is_elementwise(v.node):
            return sum(x.size for x in v.node.operands) >= ELEMENTS
        return work >= WORK and v.size >= ELEMENTS and v.aval.nbytes <= max(ROOM, GROWTH * read)

    def moved(self) -> tuple[Graph, list[Node], list[Value]]:
        """The answer of `hoist`."""
        body = self.body
        varying = [n for n in body.nodes if n not in self.invariant]
        laid_out = {(n, k) for n in varying for k in (0, 1) if isinstance(n.kind, Contract) and self.is_against(n, k)}
        read = {v for n in varying for k, v in enumerate(n.operands) if (n, k) not in laid_out}
        leave: set[Value] = set()  # read by what stays
        needed = {n.operands[k].node for n, k in laid_out}  # before the loop
        for node in reversed(self.invariant):
            wanted = [v for v in node.results if v in read]
            if wanted and self.pays(wanted[0]):
                leave.update(wanted)
                needed.add(node)
            elif wanted:
                read.update(node.operands)
            if node in needed:
                needed.update(v.node for v in node.operands)
        nodes: list[Node] = []
        for node in self.invariant:
            if node in needed:
                nodes.append(self.copy(node))
        inputs: dict[Value, Value] = {}  # values before the loop -> the body's
        renamed = {v: self.input(inputs, self.outside[v]) for v in leave}
        for node in body.nodes:
            operands = [renamed.get(v, v) for v in node.operands]
            for k in (0, 1):
                if (node, k) in laid_out:
                    packed, node.kind = _transposed(node, k, self.outside.get(node.operands[k], node.operands[k]))
                    nodes.append(packed)
                    operands[k] = self.input(inputs, packed.results[0])
            node.operands = tuple(operands)
        if not inputs:
            return body, [], []
        captured = list(inputs)
        kept = alive(body.nodes, body.outputs)
        return Graph(body.inputs + list(inputs.values()), [*body.captured, *captured], kept, body.outputs, body.host_calls), nodes, captured

    def copy(self, node: Node) -> Node:
        new = Node(
            node.name, node.kind, tuple(self.outside.get(v, v) for v in node.operands), [v.aval for v in node.results], node.cost_key
        )
        new.operations = node.operations
        self.outside.update(zip(node.results, new.results, strict=True))
        return new

    def input(self, inputs: dict[Value, Value], outside: Value) -> Value:
        if outside not in inputs:
            node = Node("input", Input(len(self.body.inputs) + len(inputs)), (), [outside.aval])
            inputs[outside] = node.results[0]
        return inputs[outside]

    def is_against(self, node: Node, k: int) -> bool:
        """Whether operand `k` of a contraction is an invariant matrix whose rows the product would have to transpose."""
        v, other = node.operands[k], node.operands[1 - k]
        (contract, batch) = node.of(Contract).dimension_numbers
        if not self.is_invariant(v) or isinstance(v.node.kind, Constant) or v.aval.dtype != node.of(Contract).compute or batch[k]:
            return False
        rows = math.prod(n for d, n in enumerate(other.shape) if d not in contract[1 - k])
        if not SMALLEST <= v.aval.nbytes <= LARGEST or rows > (ROWS if k else 1):
            return False
        kind = v.node.kind
        if v.node in self.invariant and isinstance(kind, Map) and kind.view and not kind.flat:  # a transpose, say
            return True
        axes = [d for d, n in enumerate(v.shape) if n > 1]
        return bool(axes) and axes[-1] in contract[k] and any(d not in contract[k] for d in axes)


def _is_elementwise(node: Node) -> bool:
    return isinstance(node.kind, Map | Pieces)


def _transposed(node: Node, k: int, v: Value) -> tuple[Node, Contract]:
    """Operand `k` of a contraction with the contracted axes first, and the contraction that takes it so."""
    kind = node.of(Contract)
    contract, batch = kind.dimension_numbers
    order = (*contract[k], *(d for d in range(v.aval.ndim) if d not in contract[k]))

    def body(b: Builder, indices: Sequence[Index], reads: Sequence[Any]) -> Scalar:
        at = dict(zip(order, indices, strict=True))
        return reads[0]([at[d] for d in range(len(order))])

    packed = Node("transpose", Map(body, view=True), (v,), [v.aval.update(shape=tuple(v.shape[d] for d in order))])
    first = tuple(range(len(contract[k])))
    pair = (contract[0], first) if k else (first, contract[1])
    return packed, Contract((pair, batch), kind.compute, kind.fast)
