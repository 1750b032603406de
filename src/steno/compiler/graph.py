"""The graph of a program: its values, and the nodes that compute them.

grammar
    Graph ::= inputs: Value*, nodes: Node* (in an order of dependence), outputs: Value*
    Node  ::= (name, kind, operands: Value*, results: Value*)
    kind  ::= Input | Constant | Repeat(graphs) | Choose(graphs) | one of the other kinds of ir/kinds.py
    Value ::= (node, position, aval)

Nodes with effects never die.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar, final

from steno._native import ShapedArray
from steno.core.record import record
from steno.ir.kinds import Host, Kind

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


def alive(nodes: Iterable[Node], outputs: Sequence[Value]) -> list[Node]:
    nodes = list(nodes)
    live = {v.node for v in outputs}
    for n in reversed(nodes):
        if n in live or n.has_effects:
            live.add(n)
            live.update(v.node for v in n.operands)
    return [n for n in nodes if n in live and not isinstance(n.kind, Input | Constant)]


def hands_on(body: Graph, o: int, i: int) -> bool:
    """Whether output `o` is input `i`, copied."""
    out = body.outputs[o].node
    return out.name == "copy" and len(out.operands) == 1 and out.operands[0] is body.inputs[i]
