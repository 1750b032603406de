"""Which values of a graph get a buffer; the rest are expressions inside their consumers.

A value is computed where it is read, unless that repeats more work than a store and loads cost:

    repeat(v) = sum over v's readers of (elements they read / elements of v), counting one kernel that reads v only at its own
                position as one
    a buffer pays when  work(v) * (repeat(v) - 1) > STORE + LOAD * repeat(v)

`work` is the number of scalar operations for an element, inlined operands included. Kernels are kept below REGION operations, so that
compile time stays linear in the length of a program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from steno.compiler.graph import Constant, Graph, Input, Node, Value
from steno.ir.expr import Builder, Expr, registers
from steno.ir.index import LoopVar, var
from steno.ir.kinds import Contract, Host, Library, Map, Reduce

STORE, LOAD = 2.0, 1.0
REGION = 700.0
WEIGHT = {"const": 0.0, "load": 0.0, "index": 0.5, "local": 0.0, "elt": 0.0, "acc": 0.0, "div": 6.0, "sqrt": 6.0, "rem": 20.0}
# A reduction over this few elements is an expression of its own, evaluated where it is read.
UNROLLED_REDUCTION = 8

_scalar_cost: dict[Any, float] = {}


def is_leaf(v: Value) -> bool:
    return isinstance(v.node.kind, Input | Constant)


def is_inlinable(v: Value) -> bool:
    kind = v.node.kind
    return isinstance(kind, Map) or isinstance(kind, Reduce) and reduced_size(v.node) <= UNROLLED_REDUCTION


def reduced_size(node: Node) -> int:
    shape = node.operands[0].shape
    size = 1
    for axis in node.kind.axes:
        size *= shape[axis]
    return size


def expression_cost(roots: Sequence[Expr]) -> float:
    """Weighted number of operations of a DAG; what only `rare` reaches is not counted."""
    seen: set[int] = set()
    total = 0.0
    stack = list(roots)
    while stack:
        e = stack.pop()
        if id(e) in seen:
            continue
        seen.add(id(e))
        total += WEIGHT.get(e.op, 1.0)
        stack.extend(e.args[:2] if e.op == "rare" else e.args)
    return total


def node_cost(node: Node) -> float:
    """Scalar operations for one element of the node's result, operands not included."""
    kind = node.kind
    if isinstance(kind, Map) and kind.view:
        return 0.0
    key = node.cost_key if isinstance(kind, Map) and kind.flat else None
    if key is not None and key in _scalar_cost:
        return _scalar_cost[key]
    b = Builder()
    if isinstance(kind, Map):

        def reader(k: int, v: Value) -> Any:
            dtype = v.aval.dtype
            scalar = b.from_registers(dtype, [b.local(f"r{k}_{c}", p) for c, p in enumerate(registers(dtype))])
            return lambda indices, guard=None: scalar

        reads = [reader(k, v) for k, v in enumerate(node.operands)]
        shape = node.results[0].shape
        indices = [var(LoopVar(f"i{k}", n)) for k, n in enumerate(shape)]
        out = kind.body(b, indices, reads)
        cost = expression_cost([e for s in (out if isinstance(out, list | tuple) else [out]) for e in b.to_registers(s)])
    elif isinstance(kind, Reduce):
        cost = 2.0 * reduced_size(node)
    else:
        cost = 1.0
    if key is not None:
        _scalar_cost[key] = cost
    return cost


def materialize(graph: Graph) -> set[Value]:
    """The values to store, in addition to inputs (which have buffers) and constants (which need none)."""
    readers: dict[Value, list[Node]] = {}
    for n in graph.nodes:
        for v in set(n.operands):
            readers.setdefault(v, []).append(n)
    must = {v for n in graph.nodes for v in n.results if not is_inlinable(v)}
    must.update(v for v in graph.outputs)
    for n in graph.nodes:
        if isinstance(n.kind, Library | Host):
            must.update(n.operands)
        elif isinstance(n.kind, Contract):
            must.update(_viewed(v) for v in n.operands)
        if len(n.results) > 1:
            must.update(v for v in n.results if v in readers)
    must = {v for v in must if not is_leaf(v)}
    stored = set(must)

    work: dict[Value, float] = {}

    def work_of(v: Value) -> float:
        return 0.5 if is_leaf(v) or v in stored else work[v]

    for n in graph.nodes:
        own = node_cost(n)
        times = reduced_size(n) if isinstance(n.kind, Reduce) and is_inlinable(n.results[0]) else 1
        total = min(own + times * sum(work_of(v) for v in n.operands), 1e6)
        for v in n.results:
            work[v] = total

    # From the consumers up: where is v read, how often, and always at the reader's own position?
    repeat: dict[Value, float] = {}
    roots: dict[Value, dict[Value, bool]] = {}
    for n in reversed(graph.nodes):
        for v in n.results:
            sites: dict[Value, bool] = {}
            total = 0.0
            for reader in readers.get(v, ()):
                w = reader.results[0]
                inline = is_inlinable(w) and w not in stored
                flat = isinstance(reader.kind, Map) and reader.kind.flat or not isinstance(reader.kind, Map)
                if inline and isinstance(reader.kind, Reduce):
                    flat = False
                count = w.size if isinstance(reader.kind, Map) else v.size
                total += count / max(v.size, 1) * (repeat[w] if inline else 1.0)
                for root, same in (roots[w] if inline else {w: True}).items():
                    sites[root] = sites.get(root, True) and same and flat
            roots[v], repeat[v] = sites, total
            if v in stored or isinstance(n.kind, Map) and n.kind.view and not n.results[1:]:
                continue
            if len(sites) == 1 and all(sites.values()):
                continue
            if work[v] * (total - 1.0) > STORE + LOAD * total:
                stored.add(v)

    _cut_large_regions(graph, stored)
    return stored


def _viewed(v: Value) -> Value:
    while isinstance(v.node.kind, Map) and v.node.kind.view and len(v.node.operands) == 1 and not is_leaf(v):
        v = v.node.operands[0]
    return v


def _cut_large_regions(graph: Graph, stored: set[Value]) -> None:
    """Stores operands until no kernel's expression exceeds REGION."""
    region: dict[Value, dict[Node, float]] = {}
    for n in graph.nodes:
        own = node_cost(n)
        while True:
            nodes: dict[Node, float] = {n: own}
            biggest, size = None, -1.0
            for v in n.operands:
                if is_leaf(v) or v in stored:
                    continue
                nodes.update(region[v])
                s = sum(region[v].values())
                if s > size:
                    biggest, size = v, s
            if biggest is None or sum(nodes.values()) <= REGION and len(nodes) <= 200:
                break
            stored.add(biggest)
        for v in n.results:
            region[v] = nodes
