"""A jaxpr as a graph: calls inlined, equal nodes shared, dead ones dropped, what no iteration of a loop changes moved out of it.

Nodes are interned by (op, parameters, operands): two equal equations are one node. Nodes with effects never merge.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from steno._native import ShapedArray
from steno.compiler.graph import Choose, Constant, Graph, Input, Node, Repeat, Value, alive, hands_on
from steno.compiler.hoist import hoist
from steno.compiler.materialize import node_cost
from steno.compiler.order import updates_last
from steno.compiler.points import MOST_ELEMENTS
from steno.compiler.small_products import inlined
from steno.core.interpret import expansion
from steno.core.jaxpr import ClosedJaxpr, Literal, Var
from steno.core.op import MissingRule, Op
from steno.core.trace import trace_to_jaxpr
from steno.ir.expr import Builder, Scalar
from steno.ir.index import Index
from steno.ir.kinds import Branch, Contract, Host, Library, Map, Scan, While

SELECTED, NESTED = 48, 3
"""Operations of all branches together that are done rather than called, and levels of branches in branches (each is looked at twice)."""


def _equations(closed: ClosedJaxpr, levels: int) -> float:
    """How many there are, those of nested programs included; infinitely many with loops or more levels."""
    total = 0.0
    for e in closed.jaxpr.eqns:
        total += 1
        if e.op.subprograms is not None:
            if not levels or e.op.name not in ("jit", "cond"):
                return math.inf
            total += sum(_equations(c, levels - 1) for c in e.op.subprograms(e.params))
        if total > SELECTED:
            return math.inf
    return total


def to_graph(closed: ClosedJaxpr, fast: bool = False) -> Graph:
    """Array constants, also those of nested programs, become inputs after the user's own: `graph.captured`, in that order."""
    return _GraphBuilder([], fast).graph(closed, False)


class _GraphBuilder:
    def __init__(self, host_calls: list[Any], fast: bool) -> None:
        self.host_calls = host_calls
        self.fast = fast
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
        if isinstance(kind, Branch) and (chosen := self.selected(kind, operands)) is not None:
            return chosen
        if isinstance(kind, Contract):
            kind = inlined(Contract(kind.dimension_numbers, kind.compute, self.fast), operands, avals_out[0])
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
            g = _GraphBuilder(self.host_calls, self.fast).graph(closed, True)
            captures.extend(self.capture(c, v.aval) for c, v in zip(g.captured, g.inputs[len(closed.jaxpr.invars) :], strict=True))
            return g

        captures: list[Value] = []
        if isinstance(kind, Branch):
            return Choose(tuple(nested(c) for c in kind.branches), len(operands) - 1), operands + captures
        if isinstance(kind, While):
            carries = len(operands) - kind.cond_consts - kind.body_consts
            cond, cond_consts, consts, length, reverse = nested(kind.cond), kind.cond_consts, kind.body_consts, None, False
        else:
            carries, cond, cond_consts, consts, length, reverse = kind.carries, None, 0, kind.consts, kind.length, kind.reverse
        before = len(captures)
        body = nested(kind.body)
        fixed = [*range(consts), *(consts + k for k in range(carries) if hands_on(body, k, consts + k))]
        outside = {body.inputs[k]: operands[cond_consts + k] for k in fixed}
        outside.update(zip(body.inputs[len(kind.body.jaxpr.invars) :], captures[before:], strict=True))
        body, nodes, values = hoist(body, outside, length)
        self.nodes += nodes
        return Repeat(cond, body, cond_consts, consts, carries, length, reverse), operands + captures + values

    def selected(self, kind: Branch, operands: list[Value]) -> list[Value] | None:
        """The results of all branches, each element chosen, where that is less work than a call of a branch: a few elements by a few
        operations of scalar code, which can then be part of other scalar code. Else None."""
        index, *shared = operands
        if index.shape or sum(_equations(c, NESTED) for c in kind.branches) > SELECTED:
            return None
        trials = [_GraphBuilder([], self.fast).graph(c, False) for c in kind.branches]
        if not all(isinstance(n.kind, Map) and all(v.size <= MOST_ELEMENTS for v in n.results) for g in trials for n in g.nodes):
            return None
        if sum(node_cost(n) * n.results[0].size for g in trials for n in g.nodes) > SELECTED:
            return None
        results = [self.run_closed(c, shared) for c in kind.branches]
        chosen = results[0]
        for k, branch in enumerate(results[1:], 1):
            chosen = [x if x is y else self.select(index, k, x, y) for x, y in zip(chosen, branch, strict=True)]
        return chosen

    def select(self, index: Value, least: int, x: Value, y: Value) -> Value:
        """y where `index` is `least` or more, else x."""

        def body(b: Builder, indices: Sequence[Index], reads: Sequence[Any]) -> Scalar:
            i, x, y = reads
            return b.select(b.ge(i(()), b.const(least, np.dtype("int32"))), y(indices), x(indices))

        node = Node("select_n", Map(body, flat=True), (index, x, y), [x.aval])
        self.nodes.append(node)
        return node.results[0]

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
