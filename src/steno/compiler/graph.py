"""The graph: a jaxpr with calls inlined, equal nodes shared and dead ones dropped.

grammar
    Graph ::= inputs: Value*, nodes: Node* (in an order of dependence), outputs: Value*
    Node  ::= (name, kind, operands: Value*, results: Value*)
    kind  ::= Input | Constant | Repeat(graphs) | Choose(graphs) | one of the other kinds of ir/kinds.py
    Value ::= (node, position, aval)

Nodes are interned by (op, parameters, operands): two equal equations are one node. Nodes with effects never merge and never die.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar, final

from steno._native import ShapedArray
from steno.compiler.order import updates_last
from steno.compiler.small_products import inlined
from steno.core.interpret import expansion
from steno.core.jaxpr import ClosedJaxpr, Literal, Var
from steno.core.op import MissingRule, Op
from steno.core.record import record
from steno.core.trace import trace_to_jaxpr
from steno.ir.kinds import Branch, Contract, Host, Kind, Library, Map, Scan, While

K = TypeVar("K")


@final
@record(frozen=True)
class Input:
    position: int


@final
@record(frozen=True)
class Constant:
    """A scalar literal: `value` is a NumPy scalar of the aval's dtype."""

    value: Any


@final
@record(frozen=True)
class Repeat:
    """A loop over graphs. Operands: constants of `cond`, constants of `body`, carries, arrays (one row of each for an iteration), then what
    `cond` and `body` close over. Each graph's inputs: its constants, the carries, the rows, what it closes over. Without a `cond`, `length`
    iterations. The body's outputs: the carries, then rows of results."""

    cond: Graph | None
    body: Graph
    cond_consts: int
    body_consts: int
    carries: int
    length: int | None
    reverse: bool


@final
@record(frozen=True)
class Choose:
    """One of several graphs. Operands: an int32 index, those of the graphs, then what each graph closes over. Each graph's inputs: the
    common operands, what it closes over."""

    branches: tuple[Graph, ...]
    operands: int


@final
class Node:
    __slots__ = ("name", "kind", "operands", "results", "cost_key", "host_call", "operations")

    def __init__(
        self,
        name: str,
        kind: Kind | Input | Constant | Repeat | Choose,
        operands: tuple[Value, ...],
        avals: Sequence[ShapedArray],
        cost_key: Any = None,
    ):
        self.name = name
        self.kind = kind
        self.operands = operands
        self.results = tuple(Value(self, k, a) for k, a in enumerate(avals))
        self.cost_key = cost_key  # equal keys: equal scalar code per element
        self.host_call = -1  # its number, for Host
        self.operations = 0.0  # of a Library

    def of(self, kind: type[K]) -> K:
        """The node's kind, which the caller knows."""
        assert isinstance(self.kind, kind)
        return self.kind

    def carried_operands(self) -> list[Value]:
        """The initial carries of a loop, the common operands of branches: their memory may change."""
        k = self.kind
        if isinstance(k, Repeat):
            first = k.cond_consts + k.body_consts
            return list(self.operands[first : first + k.carries])
        return list(self.operands[1 : 1 + k.operands]) if isinstance(k, Choose) else []

    @property
    def has_effects(self) -> bool:
        k = self.kind
        if isinstance(k, Repeat):
            return k.body.has_effects or k.cond is not None and k.cond.has_effects
        return isinstance(k, Host) and not k.pure or isinstance(k, Choose) and any(g.has_effects for g in k.branches)


@final
class Value:
    __slots__ = ("node", "position", "aval")

    def __init__(self, node: Node, position: int, aval: ShapedArray):
        self.node = node
        self.position = position
        self.aval = aval

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def size(self) -> int:
        return self.aval.size


@final
class Graph:
    """`host_calls`: (callback, operand avals, result avals) of each host call, also of nested graphs, by number."""

    __slots__ = ("inputs", "captured", "nodes", "outputs", "host_calls", "has_effects")

    def __init__(self, inputs: list[Value], captured: list[Any], nodes: list[Node], outputs: list[Value], host_calls: list[Any]):
        self.inputs = inputs
        self.captured = captured
        self.nodes = nodes
        self.outputs = outputs
        self.host_calls = host_calls
        self.has_effects = any(n.has_effects for n in nodes)

    def __str__(self) -> str:
        names: dict[Value, str] = {}

        def name(v: Value) -> str:
            if isinstance(v.node.kind, Constant):
                return repr(v.node.kind.value.item()) if hasattr(v.node.kind.value, "item") else str(v.node.kind.value)
            return names.setdefault(v, f"%{len(names)}")

        def typed(v: Value) -> str:
            return f"{name(v)}:{v.aval.str_short()}"

        lines = ["graph(" + ", ".join(typed(v) for v in self.inputs) + ") {"]
        for n in self.nodes:
            kind = type(n.kind).__name__.lower()
            lines.append(f"  {', '.join(typed(v) for v in n.results)} = {n.name}<{kind}>({', '.join(name(v) for v in n.operands)})")
        lines.append(f"  return {', '.join(name(v) for v in self.outputs)}")
        lines.append("}")
        return "\n".join(lines)


def to_graph(closed: ClosedJaxpr) -> Graph:
    """Array constants, also those of nested programs, become inputs after the user's own: `graph.captured`, in that order."""
    return _GraphBuilder([]).graph(closed, False)


def alive(nodes: Iterable[Node], outputs: Sequence[Value]) -> list[Node]:
    nodes = list(nodes)
    live = {v.node for v in outputs}
    for n in reversed(nodes):
        if n in live or n.has_effects:
            live.add(n)
            live.update(v.node for v in n.operands)
    return [n for n in nodes if n in live and not isinstance(n.kind, Input | Constant)]


class _GraphBuilder:
    def __init__(self, host_calls: list[Any]) -> None:
        self.host_calls = host_calls
        self.nodes: list[Node] = []
        self._interned: dict[Any, Node] = {}
        self._captures: dict[int, Value] = {}
        self._inputs = 0
        self.captured: list[Any] = []
        self.capture_values: list[Value] = []

    def graph(self, closed: ClosedJaxpr, nested: bool) -> Graph:
        """`nested`: each output is a value of its own that has a buffer."""
        inputs = [self.input(v.aval) for v in closed.jaxpr.invars]
        outputs = self.run_closed(closed, inputs)
        if nested:
            for k, v in enumerate(outputs):
                if isinstance(v.node.kind, Input | Constant) or v in outputs[:k]:
                    outputs[k] = self.in_memory(v)
        nodes = updates_last(alive(self.nodes, outputs))
        return Graph(inputs + self.capture_values, self.captured, nodes, outputs, self.host_calls)

    def input(self, aval: ShapedArray) -> Value:
        node = Node("input", Input(self._inputs), (), [aval])
        self._inputs += 1
        return node.results[0]

    def constant(self, literal: Literal) -> Value:
        value = literal.val
        key = (literal.aval, type(value), repr(value))
        node = self._interned.get(key)
        if node is None:
            node = self._interned[key] = Node("constant", Constant(value), (), [literal.aval])
        return node.results[0]

    def run(self, jaxpr: Any, consts: Sequence[Value], args: Sequence[Value]) -> list[Value]:
        env: dict[Var, Value] = {}
        env.update(zip(jaxpr.constvars, consts, strict=True))
        env.update(zip(jaxpr.invars, args, strict=True))

        def read(atom: Any) -> Value:
            return self.constant(atom) if isinstance(atom, Literal) else env[atom]

        for eqn in jaxpr.eqns:
            results = self.apply(eqn.op, [read(a) for a in eqn.invars], eqn.params, [v.aval for v in eqn.outvars])
            env.update(zip(eqn.outvars, results, strict=True))
        return [read(a) for a in jaxpr.outvars]

    def apply(self, op: Op, operands: list[Value], params: dict[str, Any], avals_out: list[ShapedArray]) -> Sequence[Value]:
        if op.lower is None:
            return self._inline(op, operands, params)
        avals_in = [v.aval for v in operands]
        try:
            key: Any = (op, tuple(sorted(params.items())), tuple(operands))
            found = self._interned.get(key)
        except TypeError:  # an unhashable parameter, or ones that do not compare: no sharing
            key = found = None
        if found is not None and not found.has_effects:
            return found.results
        kind = op.lower(avals_in, avals_out, **params)
        if kind is None:
            return self._inline(op, operands, params)
        cost_key = None
        if key is not None:
            cost_key = (op, key[1], tuple((a.dtype, a.ndim == 0) for a in avals_in), tuple(a.dtype for a in avals_out))
        if isinstance(kind, Contract):
            kind = inlined(kind, operands, avals_out[0])
        made: Any = kind
        if isinstance(kind, Branch | While | Scan):
            made, operands = self.control(kind, operands)
        if isinstance(made, Host | Repeat | Choose):
            operands = [self.in_memory(v) if isinstance(v.node.kind, Constant) else v for v in operands]
        node = Node(op.name, made, tuple(operands), avals_out, cost_key)
        if isinstance(kind, Library) and op.cost is not None:
            node.operations = op.cost(avals_in, avals_out, **params)
        if isinstance(kind, Host):
            node.host_call = len(self.host_calls)
            self.host_calls.append((kind.callback, [v.aval for v in operands], list(avals_out)))
        self.nodes.append(node)
        if key is not None:
            self._interned[key] = node
        return node.results

    def in_memory(self, v: Value) -> Value:
        """A constant (or an input) as a value that has a buffer of its own."""
        node = Node("copy", Map(lambda b, indices, reads: reads[0](indices), flat=v.aval.ndim > 0), (v,), [v.aval])
        self.nodes.append(node)
        return node.results[0]

    def control(self, kind: Branch | While | Scan, operands: list[Value]) -> tuple[Repeat | Choose, list[Value]]:
        """The graphs of the nested programs; what they close over becomes further operands."""

        def nested(closed: ClosedJaxpr) -> Graph:
            g = _GraphBuilder(self.host_calls).graph(closed, True)
            captures.extend(self.capture(c, v.aval) for c, v in zip(g.captured, g.inputs[len(closed.jaxpr.invars) :], strict=True))
            return g

        captures: list[Value] = []
        if isinstance(kind, Branch):
            made: Repeat | Choose = Choose(tuple(nested(c) for c in kind.branches), len(operands) - 1)
        elif isinstance(kind, While):
            carries = len(operands) - kind.cond_consts - kind.body_consts
            made = Repeat(nested(kind.cond), nested(kind.body), kind.cond_consts, kind.body_consts, carries, None, False)
        else:
            made = Repeat(None, nested(kind.body), 0, kind.consts, kind.carries, kind.length, kind.reverse)
        return made, operands + captures

    def _inline(self, op: Op, operands: list[Value], params: dict[str, Any]) -> Sequence[Value]:
        if op.expand is not None:
            closed = trace_to_jaxpr(expansion(op, params), [v.aval for v in operands])
            return self.run_closed(closed, operands)
        if op.subprograms is not None:
            (closed,) = op.subprograms(params)
            return self.run_closed(closed, operands)
        raise MissingRule(op, "compile", hint=f"give Op({op.name!r}) a `lower` or an `expand`")

    def run_closed(self, closed: ClosedJaxpr, args: Sequence[Value]) -> list[Value]:
        consts = [self.capture(c, v.aval) for c, v in zip(closed.consts, closed.jaxpr.constvars, strict=True)]
        return self.run(closed.jaxpr, consts, args)

    def capture(self, const: Any, aval: ShapedArray) -> Value:
        """An array closed over becomes a run-time input, once for each identity."""
        value = self._captures.get(id(const))
        if value is None:
            value = self._captures[id(const)] = self.input(aval)
            self.captured.append(const)
            self.capture_values.append(value)
        return value
