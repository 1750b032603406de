"""Transposition: a program that is linear in some inputs, run backwards on cotangents of its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from steno._native import swap_trace
from steno.core.errors import MissingRule
from steno.core.interpret import expansion
from steno.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, literal_value, origins
from steno.core.refs import STATE
from steno.core.trace import JaxprTrace, trace_to_jaxpr
from steno.transforms.discharge import pure
from steno.transforms.programs import Flags, anonymous, flags, remembered, remove_dead
from steno.transforms.rules import Linear, Zero, add, instantiate, rule_of, tangent_aval


def backward(
    jaxpr: Jaxpr,
    consts: Sequence[Any],
    args: Sequence[Any],
    cts: Sequence[Any],
    begun: Mapping[Var, Any] = MappingProxyType({}),
    wanted: Sequence[bool] | None = None,
) -> list[Any]:
    """The cotangents of the arguments that are `Linear`, None for the known others; `cts` are those of the results and may be `Zero`s.
    `begun`: cotangents of some arguments to begin with. `wanted`: for each argument whether its cotangent is; those of others are `Zero`s.

    What does not depend on linear arguments is evaluated first."""
    if any(STATE in e.effects for e in jaxpr.eqns):
        closed = pure(ClosedJaxpr(jaxpr, consts))
        jaxpr, consts = closed.jaxpr, closed.consts
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    linear: set[Any] = set()
    for v, x in zip(jaxpr.invars, args, strict=True):
        if type(x) is Linear:
            linear.add(v)
        else:
            env[v] = x
    linear_eqns = _evaluate_known(jaxpr, env, linear)
    towards = (
        linear if wanted is None else _reached({v for v, w in zip(jaxpr.invars, wanted, strict=True) if w and v in linear}, linear_eqns)
    )

    ct_of: dict[Any, Any] = dict(begun)

    def accumulate(a: Any, ct: Any) -> None:
        if ct is not None and type(ct) is not Zero and type(a) is not Literal and a in towards:
            have = ct_of.get(a)
            ct_of[a] = ct if have is None else add(have, ct)

    for a, ct in zip(jaxpr.outvars, cts, strict=True):
        accumulate(a, ct)
    with origins() as origin:
        while linear_eqns:
            e = linear_eqns.pop()
            given = [ct_of.pop(v, None) for v in e.outvars]
            if all(ct is None for ct in given):
                continue
            origin.of(e)
            operands = [_operand(a, env, linear) for a in e.invars]
            out_cts = [Zero(tangent_aval(v.aval)) if ct is None else ct for v, ct in zip(e.outvars, given, strict=True)]
            if e.op.accumulate is not None and type(operands[0]) is Linear and e.invars[0] in ct_of:
                ct_of[e.invars[0]] = e.op.accumulate(ct_of[e.invars[0]], out_cts[0], *operands, **e.params)
                continue
            for a, ct in zip(e.invars, transpose_eqn(e, out_cts, operands), strict=True):
                accumulate(a, ct)
    return [ct_of.get(v, Zero(tangent_aval(v.aval))) if type(x) is Linear else None for v, x in zip(jaxpr.invars, args, strict=True)]


def _evaluate_known(jaxpr: Jaxpr, env: dict[Any, Any], linear: set[Any]) -> list[JaxprEqn]:
    """Evaluates equations without linear operands into `env`; the others are returned, their results added to `linear`."""
    linear_eqns = []
    for e in jaxpr.eqns:
        if any(type(a) is not Literal and a in linear for a in e.invars):
            linear.update(e.outvars)
            linear_eqns.append(e)
            continue
        env.update(zip(e.outvars, e.bind([literal_value(a) if type(a) is Literal else env[a] for a in e.invars]), strict=True))
    return linear_eqns


def _reached(variables: set[Any], eqns: Sequence[JaxprEqn]) -> set[Any]:
    """The variables, and what the equations make of them."""
    for e in eqns:
        if any(type(a) is not Literal and a in variables for a in e.invars):
            variables.update(e.outvars)
    return variables


def _operand(a: Any, env: dict[Any, Any], linear: set[Any]) -> Any:
    if type(a) is Literal:
        return literal_value(a)
    return Linear(a.aval) if a in linear else env[a]


def transpose_eqn(e: JaxprEqn, cts: Sequence[Any], args: Sequence[Any]) -> Sequence[Any]:
    """The cotangents of an equation's operands, by its op's rule or through its expansion."""
    op = e.op
    rule = rule_of(op, "transpose")
    if rule is not None:
        out = rule(list(cts) if op.multiple_results else cts[0], *args, **e.params)
        if len(out) != len(args):
            raise AssertionError(f"the transpose rule of {op.name} gave {len(out)} cotangents for {len(args)} operands")
        return out
    if op.expand is not None:
        closed = trace_to_jaxpr(expansion(op, e.params), [a.aval for a in e.invars])
        return backward(closed.jaxpr, closed.consts, args, cts)
    raise MissingRule(
        op,
        "Transpose rule (for reverse-mode differentiation)",
        hint=f"if the op is linear in some operands give Op({op.name!r}) a `transpose` or an `expand`",
    )


@remembered
def _transpose_jaxpr(
    closed: ClosedJaxpr, linear: Flags, ct_nonzero: Flags, instantiate_outputs: Flags, begun: tuple[int, ...]
) -> tuple[ClosedJaxpr, Flags]:
    trace = JaxprTrace(anonymous(closed.jaxpr, "transpose"))
    args = [Linear(a) if lin else trace.argument(a) for a, lin in zip(closed.in_avals, linear, strict=True)]
    out_avals = [tangent_aval(a) for a in closed.out_avals]
    cts = [trace.argument(a) if nz else Zero(a) for a, nz in zip(out_avals, ct_nonzero, strict=True)]
    start = {v: trace.argument(tangent_aval(v.aval)) for v in (closed.jaxpr.invars[k] for k in begun)}
    previous = swap_trace(trace)
    try:
        outs = [ct for ct in backward(closed.jaxpr, closed.consts, args, cts, start) if ct is not None]
        outs = [instantiate(ct) if wanted else ct for ct, wanted in zip(outs, instantiate_outputs, strict=True)]
    finally:
        swap_trace(previous)
    program = remove_dead(trace.finish([ct for ct in outs if type(ct) is not Zero]))
    return program, tuple(type(ct) is not Zero for ct in outs)


def transpose_jaxpr(
    closed: ClosedJaxpr,
    linear: Sequence[bool],
    ct_nonzero: Sequence[bool],
    instantiate: bool | Sequence[bool] = False,
    begun: Sequence[int] = (),
) -> tuple[ClosedJaxpr, Flags]:
    """The transpose of a program in its `linear` inputs: it takes the other inputs, then the cotangents that are not zero, and gives the
    cotangents of the linear inputs that are not zero: the second result says which; those to be `instantiate`d always are. The cotangents
    of the inputs `begun` (positions) are added to what is given last."""
    linear = tuple(linear)
    return _transpose_jaxpr(closed, linear, tuple(ct_nonzero), flags(instantiate, sum(linear)), tuple(begun))
