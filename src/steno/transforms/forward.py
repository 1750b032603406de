"""Forward-mode derivatives: values and their tangents travel together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from steno._native import current_trace, swap_trace
from steno.core.config import config
from steno.core.errors import MissingRule
from steno.core.jaxpr import NO_DEBUG_INFO, ClosedJaxpr, eval_jaxpr
from steno.core.op import Op
from steno.core.trace import Trace, Tracer, check_leaks, register_aval_type, trace_to_jaxpr
from steno.transforms.discharge import call_on_values, pure, works_on_refs
from steno.transforms.programs import Flags, anonymous, flags, remembered
from steno.transforms.rules import Zero, as_value, instantiate, rule_of, tangent_aval, typeof, zero_of


@final
class JVPTracer(Tracer):
    """A value and its tangent, which is not a `Zero`."""

    __slots__ = ("primal", "tangent")
    _differentiated = True

    def __init__(self, trace: JVPTrace, primal: Any, tangent: Any) -> None:
        self.aval = typeof(primal)
        self._trace = trace
        self.primal, self.tangent = primal, tangent

    def __repr__(self) -> str:
        return f"JVPTracer(primal={shown(self.primal)}, tangent={shown(self.tangent)})"

    def _known(self) -> Any:
        return known_value(self.primal)


register_aval_type(JVPTracer)


def shown(x: Any) -> str:
    """A part of a tracer, in its repr."""
    return repr(x) if isinstance(x, Tracer) else str(x)


def table_of_places() -> dict[int, Any] | None:
    """`places` of a new trace; only while leaks are looked for."""
    return {} if config._state.check_tracer_leaks else None


def known_value(x: Any) -> Any:
    """The concrete array behind a value; None if there is none yet."""
    return x._known() if isinstance(x, Tracer) else x


@final
class JVPTrace(Trace):
    __slots__ = ("over", "parent", "places")

    def __init__(self, parent: Trace | None) -> None:
        self.parent, self.over = parent, False
        self.places = table_of_places()

    def __repr__(self) -> str:
        return "JVPTrace"

    def is_over(self) -> bool:
        return self.over

    def explain(self, tracer: Any) -> str:
        return explain_inner(tracer.primal, "a function that is differentiated (jvp)")

    def split(self, args: Sequence[Any]) -> tuple[list[Any], list[Any], bool]:
        return split_tangents(self, JVPTracer, args)

    def join(self, primal: Any, tangent: Any) -> Any:
        if type(tangent) is Zero:
            return primal
        out = JVPTracer(self, primal, tangent)
        if self.places is not None:
            self.note(out)
        return out

    def process(self, op: Op, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if not op.makes_ref and not any(type(x) is JVPTracer and x._trace is self for x in args):
            with_parent = swap_trace(self.parent)
            try:
                return op(*args, **params)
            finally:
                swap_trace(with_parent)
        if op.subprograms is not None and works_on_refs(op, args, params):
            return call_on_values(op, args, params)
        rule = rule_of(op, "jvp")
        if rule is None:
            if op.expand is not None:
                return op.expand(*args, **params)
            raise missing_jvp(op)
        primals, tangents, _ = self.split(args)
        previous = swap_trace(self.parent)
        try:
            out, out_tangent = rule(primals, tangents, **params)
        finally:
            swap_trace(previous)
        check_tangents(op, out, out_tangent)
        if op.multiple_results:
            return [self.join(y, t) for y, t in zip(out, out_tangent, strict=True)]
        return self.join(out, out_tangent)


def split_tangents(trace: Trace, tracer: type, args: Sequence[Any]) -> tuple[list[Any], list[Any], bool]:
    """Primals, tangents (`Zero` for what is no `tracer` of `trace`), and whether any tangent is not zero."""
    primals, tangents, any_nonzero = [], [], False
    for x in args:
        if type(x) is tracer and x._trace is trace:
            primals.append(x.primal)
            tangents.append(x.tangent)
            any_nonzero = True
        else:
            x = as_value(x)
            primals.append(x)
            tangents.append(zero_of(x))
    return primals, tangents, any_nonzero


def explain_inner(primal: Any, where: str) -> str:
    """Where a value under a transformation comes from: what the trace below says of it, or the transformation."""
    return primal._origin() if isinstance(primal, Tracer) else f"The value belongs to {where}."


def missing_jvp(op: Op) -> MissingRule:
    return MissingRule(op, "Differentiation rule", hint=f"give Op({op.name!r}) a `jvp` or an `expand`")


def check_tangents(op: Op, out: Any, tangents: Any) -> None:
    """With `enable_checks`: TypeError unless the tangents have their values' types."""
    if config._state.enable_checks:
        for y, t in zip(out, tangents, strict=True) if op.multiple_results else [(out, tangents)]:
            got, wanted = typeof(t) if type(t) is not Zero else t.aval, tangent_aval(typeof(y))
            if (got.shape, got.dtype) != (wanted.shape, wanted.dtype):
                raise TypeError(f"the jvp rule of {op.name} gave a tangent of type {got} for a result of type {typeof(y)}")


def jvp_flat(
    fun: Callable[..., tuple[Sequence[Any], Sequence[Any]]], primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list[Any], list[Any], list[Any]]:
    """Runs `fun`, a function of flat values that returns two flat sequences, results and auxiliary ones, on values with tangents, which may
    be `Zero`s. The results' values and tangents, and the auxiliary results."""
    trace = JVPTrace(current_trace())
    previous = swap_trace(trace)
    try:
        outs, aux = fun(*[trace.join(x, t) for x, t in zip(primals, tangents, strict=True)])
    finally:
        swap_trace(previous)
        trace.over = True
    out_primals, out_tangents = [], []
    for y in outs:
        mine = type(y) is JVPTracer and y._trace is trace
        out_primals.append(y.primal if mine else y)
        out_tangents.append(y.tangent if mine else zero_of(y))
    aux = [y.primal if type(y) is JVPTracer and y._trace is trace else y for y in aux]
    if config._state.check_tracer_leaks:
        y = outs = None
        check_leaks(trace, NO_DEBUG_INFO)
    return out_primals, out_tangents, aux


@remembered
def _jvp_jaxpr(closed: ClosedJaxpr, nonzero: Flags, instantiate_outputs: Flags) -> tuple[ClosedJaxpr, Flags]:
    n = len(nonzero)
    closed = pure(closed)
    avals = closed.in_avals
    out_nonzero: Flags = ()

    def run(*args: Any) -> list[Any]:
        nonlocal out_nonzero
        given = iter(args[n:])
        tangents = [next(given) if nz else Zero(tangent_aval(a)) for nz, a in zip(nonzero, avals, strict=True)]
        outs, out_tangents, _ = jvp_flat(lambda *xs: (eval_jaxpr(closed.jaxpr, closed.consts, *xs), ()), args[:n], tangents)
        out_tangents = [instantiate(t) if wanted else t for t, wanted in zip(out_tangents, instantiate_outputs, strict=True)]
        out_nonzero = tuple(type(t) is not Zero for t in out_tangents)
        return [*outs, *(t for t in out_tangents if type(t) is not Zero)]

    in_avals = [*avals, *(tangent_aval(a) for a, nz in zip(avals, nonzero, strict=True) if nz)]
    return trace_to_jaxpr(run, in_avals, anonymous(closed.jaxpr, "jvp")), out_nonzero


def jvp_jaxpr(closed: ClosedJaxpr, nonzero: Sequence[bool], instantiate: bool | Sequence[bool] = False) -> tuple[ClosedJaxpr, Flags]:
    """The program of values and tangents: inputs are the program's, then the tangents of those that have any (`nonzero`); outputs likewise.
    Also returns which outputs have tangents; those to be `instantiate`d always have."""
    return _jvp_jaxpr(closed, tuple(nonzero), flags(instantiate, len(closed.jaxpr.outvars)))
