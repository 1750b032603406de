"""Which values of a graph get a buffer; the rest are expressions inside their consumers.

A value is computed where it is read, unless that repeats more work than a store and loads cost:

    repeat(v) = sum over v's readers of (elements they read / elements of v), counting one kernel that reads v only at its own
                position as one
    a buffer pays when  work(v) * (repeat(v) - 1) > STORE + LOAD * repeat(v)

`work` is the number of scalar operations for an element, inlined operands included. Kernels are kept below REGION operations, so that
compile time stays linear in the length of a program.
"""

from __future__ import annotations

import functools
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from steno.compiler.cost import LOAD, STORE, WEIGHT
from steno.compiler.graph import Choose, Constant, Graph, Input, Node, Repeat, Value
from steno.ir.algebra import affine
from steno.ir.expr import F32, F64, OUTLINED, Builder, Expr, outlined, registers
from steno.ir.index import Index, LoopVar, var
from steno.ir.kinds import Contract, Host, Library, Map, Pieces, Reduce

MANY, LONG = 16, 12.0  # uses and operations of a function that is written once
REGION, REGION_NODES = 700.0, 120
# A reduction over this few elements is an expression of its own, evaluated where it is read.
UNROLLED_REDUCTION = 8

_scalar_cost: dict[Any, float] = {}


def is_leaf(v: Value) -> bool:
    return isinstance(v.node.kind, Input | Constant)


def is_inlinable(v: Value) -> bool:
    return body_of(v.node) is not None or isinstance(v.node.kind, Reduce) and reduced_size(v.node) <= UNROLLED_REDUCTION


def body_of(node: Node) -> Callable[..., Any] | None:
    """The function of indices that gives an element of the node's result, if there is one."""
    return node.kind.body if isinstance(node.kind, Map | Pieces) else None


def reduced_size(node: Node) -> int:
    shape = node.operands[0].shape
    size = 1
    for axis in node.of(Reduce).axes:
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
        total += _outlined_cost(outlined(e)[0]) if e.op == "outline" else WEIGHT.get(e.op, 1.0)
        stack.extend(e.args[:2] if e.op == "rare" else e.args)
    return total


@functools.cache
def _outlined_cost(body: Expr) -> float:
    return expression_cost([body])


def repeated_functions(graph: Graph) -> dict[Any, str]:
    """Elementwise functions of many operations that a graph applies many times: their code is written once, and called. The key of a
    node's code (`cost_key`) -> its name in OUTLINED."""
    count = Counter(n.cost_key for n in graph.nodes if n.cost_key is not None and _is_function(n))
    out: dict[Any, str] = {}
    for n in graph.nodes:
        key = n.cost_key
        if count.get(key, 0) < MANY or key in out or node_cost(n) < LONG:
            continue
        op, params, operands, results = key
        text = f"{params} {operands} {results}"
        out[key] = f"{op.name}.{zlib.crc32(text.encode()):08x}"
        body = body_of(n)
        assert body is not None
        OUTLINED.setdefault(out[key], functools.partial(_function_of, body))
    return out


def _is_function(n: Node) -> bool:
    """Of primitive numbers of one dtype, none of them a constant, which might make it shorter."""
    dtypes = {v.aval.dtype for v in (*n.operands, *n.results)}
    if not isinstance(n.kind, Map) or not n.kind.flat or n.kind.view or len(n.results) != 1 or len(dtypes) != 1:
        return False
    return dtypes.issubset((F32, F64)) and not any(isinstance(v.node.kind, Constant) for v in n.operands)


def _function_of(body: Callable[..., Any], b: Builder, *args: Expr) -> Expr:
    return body(b, (), [lambda indices, guard=None, x=x: x for x in args])


def node_cost(node: Node) -> float:
    """Scalar operations for one element of the node's result, operands not included."""
    kind = node.kind
    if isinstance(kind, Map) and kind.view or not any(v.size for v in node.results):
        return 0.0
    key = node.cost_key if isinstance(kind, Map) and kind.flat else None
    if key is not None and key in _scalar_cost:
        return _scalar_cost[key]
    b = Builder()
    body = body_of(node)
    if body is not None:

        def reader(k: int, v: Value) -> Any:
            dtype = v.aval.dtype
            scalar = b.from_registers(dtype, [b.local(f"r{k}_{c}", p) for c, p in enumerate(registers(dtype))])
            return lambda indices, guard=None: scalar

        reads = [reader(k, v) for k, v in enumerate(node.operands)]
        shape = node.results[0].shape
        indices = [var(LoopVar(f"i{k}", n)) for k, n in enumerate(shape)]
        out = body(b, indices, reads)
        cost = expression_cost([e for s in (out if isinstance(out, list | tuple) else [out]) for e in b.to_registers(s)])
    elif isinstance(kind, Reduce):
        cost = 2.0 * reduced_size(node) if is_inlinable(node.results[0]) else 2.0
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
        if isinstance(n.kind, Library | Host | Repeat | Choose):
            must.update(n.operands)
        elif isinstance(n.kind, Contract) or isinstance(n.kind, Map) and n.kind.stores_operands:
            must.update(_viewed(v) for v in n.operands)
        if len(n.results) > 1:
            must.update(v for v in n.results if v in readers)
    must = {v for v in must if not is_leaf(v)}
    # The second sweep knows from the first what is a load, and so costs little.
    costs = {n: node_cost(n) for n in graph.nodes}
    plain = _index_arithmetic(graph)
    costs.update(dict.fromkeys(plain, 0.0))
    stored = _worth_a_buffer(graph, costs, readers, must, must, plain)
    stored = _worth_a_buffer(graph, costs, readers, must, stored, plain)
    _cut_large_regions(graph, costs, stored)
    return stored


def _index_arithmetic(graph: Graph) -> set[Node]:
    """Nodes whose elements are affine in their indices (`arange(n)[i] + 1`, brought into range): as good as loop variables."""
    b = Builder()
    out: set[Node] = set()
    for n in graph.nodes:
        if len(n.results) != 1 or not isinstance(n.kind, Map) or n.results[0].aval.dtype.kind not in "iu":
            continue
        if all(isinstance(v.node.kind, Constant) or v.node in out for v in n.operands):
            (v,) = n.results
            value = _element(b, v, [var(LoopVar(f"i{k}", size)) for k, size in enumerate(v.shape)])
            if isinstance(value, Expr) and affine(value) is not None:
                out.add(n)
    return out


def _element(b: Builder, v: Value, indices: Sequence[Index]) -> Any:
    if isinstance(v.node.kind, Constant):
        return b.const(v.node.kind.value, v.aval.dtype)
    body = body_of(v.node)
    assert body is not None
    return body(b, indices, [lambda i, guard=None, o=o: _element(b, o, i) for o in v.node.operands])


def _worth_a_buffer(
    graph: Graph,
    costs: dict[Node, float],
    readers: dict[Value, list[Node]],
    must: set[Value],
    presumed: set[Value],
    plain: set[Node],
) -> set[Value]:
    """`must`, and what pays by the rule of the module's text if the values `presumed` cost a load."""
    work: dict[Value, float] = {}
    for n in graph.nodes:
        own = costs[n]
        times = reduced_size(n) if isinstance(n.kind, Reduce) and is_inlinable(n.results[0]) else 1
        total = own + times * sum(0.5 if is_leaf(v) or v in presumed else work[v] for v in n.operands)
        for v in n.results:
            work[v] = min(total, 1e6)

    stored = set(must)
    # Of each value, from the consumers up: the stored values whose kernels read it; whether (also) at their own place, how often elsewhere.
    sites: dict[Value, dict[Value, tuple[bool, float]]] = {}
    for n in reversed(graph.nodes):
        for v in n.results:
            found: dict[Value, tuple[bool, float]] = {}
            for reader in readers.get(v, ()):
                if not reader.results:  # a host call, whose operands are stored anyway
                    continue
                w = reader.results[0]
                inline = is_inlinable(w) and w not in stored
                kind = reader.kind
                same = kind.flat if isinstance(kind, Map) else not inline
                ratio = (w.size if inline or isinstance(kind, Map) else v.size) / max(v.size, 1)
                for root, (here, elsewhere) in (sites[w] if inline else {w: (True, 0.0)}).items():
                    old_here, old_elsewhere = found.get(root, (False, 0.0))
                    more = ratio * elsewhere + (0.0 if same or not here else ratio)
                    found[root] = (old_here or here and same, old_elsewhere + more)
            sites[v] = found
            if v in stored or n in plain or isinstance(n.kind, Map) and n.kind.view and not n.results[1:]:
                continue
            repeat = sum(here + elsewhere for here, elsewhere in found.values())
            if work[v] * (repeat - 1.0) > STORE + LOAD * repeat:
                stored.add(v)
    return stored


def _viewed(v: Value) -> Value:
    while isinstance(v.node.kind, Map) and v.node.kind.view and len(v.node.operands) == 1 and not is_leaf(v):
        v = v.node.operands[0]
    return v


def _cut_large_regions(graph: Graph, costs: dict[Node, float], stored: set[Value]) -> None:
    """Stores operands until no kernel's expression exceeds REGION."""
    region: dict[Value, dict[Node, float]] = {}
    for n in graph.nodes:
        own = costs[n]
        nodes: dict[Node, float] = {n: own}
        while not (isinstance(n.kind, Pieces) and n.results[0] in stored):  # then each operand has its own kernel
            nodes = {n: own}
            biggest, size = None, -1.0
            for v in n.operands:
                if is_leaf(v) or v in stored:
                    continue
                nodes.update(region[v])
                s = sum(region[v].values())
                if s > size:
                    biggest, size = v, s
            if biggest is None or sum(nodes.values()) <= REGION and len(nodes) <= REGION_NODES:
                break
            stored.add(biggest)
        for v in n.results:
            region[v] = nodes
