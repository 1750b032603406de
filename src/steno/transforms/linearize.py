"""Linearization: values are computed, and what is linear in their tangents is recorded as a program that can be run or transposed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from steno._native import current_trace, swap_trace
from steno.core.config import config
from steno.core.errors import MissingRule
from steno.core.jaxpr import NO_DEBUG_INFO, ClosedJaxpr, DebugInfo, eval_jaxpr
from steno.core.names import NO_NAMES
from steno.core.op import Op
from steno.core.record import record
from steno.core.trace import JaxprTrace, JitTracer, Trace, Tracer, check_leaks, register_aval_type
from steno.transforms.discharge import call_on_values, pure, works_on_refs
from steno.transforms.forward import check_tangents, explain_inner, known_value, missing_jvp, shown, split_tangents, table_of_places
from steno.transforms.partial import PartialTrace
from steno.transforms.programs import Flags, Split, anonymous, flags, remembered, remove_dead, split_program
from steno.transforms.rules import Zero, instantiate, rule_of, tangent_aval, typeof, zero_of


@final
class LinearizeTracer(Tracer):
    """A value, and the variable of the tangent program that is its tangent."""

    __slots__ = ("primal", "tangent")
    _differentiated = True

    def __init__(self, trace: LinearizeTrace, primal: Any, tangent: JitTracer) -> None:
        self.aval = typeof(primal)
        self._trace = trace
        self.primal, self.tangent = primal, tangent

    def __repr__(self) -> str:
        return f"GradTracer(primal={shown(self.primal)}, typeof(tangent)={self.tangent.aval.str_short(short_dtypes=True)})"

    def _known(self) -> Any:
        return known_value(self.primal)


register_aval_type(LinearizeTracer)


@final
class LinearizeTrace(Trace):
    """Evaluates values under the parent trace; ops of tangents are recorded by `tangents`."""

    __slots__ = ("over", "parent", "places", "tangents")

    def __init__(self, parent: Trace | None, debug_info: DebugInfo = NO_DEBUG_INFO) -> None:
        self.parent, self.over = parent, False
        self.places = table_of_places()
        self.tangents = PartialTrace(parent, debug_info)

    def __repr__(self) -> str:
        return "LinearizeTrace"

    @property
    def recorder(self) -> JaxprTrace:
        return self.tangents.recorder

    def is_over(self) -> bool:
        return self.over

    def explain(self, tracer: Any) -> str:
        return explain_inner(tracer.primal, "a function that is differentiated (linearize, vjp or grad)")

    def split(self, args: Sequence[Any]) -> tuple[list[Any], list[Any], bool]:
        return split_tangents(self, LinearizeTracer, args)

    def join(self, primal: Any, tangent: Any) -> Any:
        # a tangent that does not depend on the tangents is linear in them only if it is zero
        if not self.tangents.is_unknown(tangent):
            return primal
        out = LinearizeTracer(self, primal, tangent)
        if self.places is not None:
            self.note(out)
        return out

    def process(self, op: Op, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if not op.makes_ref and not any(type(x) is LinearizeTracer and x._trace is self for x in args):
            previous = swap_trace(self.parent)
            try:
                return op(*args, **params)
            finally:
                swap_trace(previous)
        if op.subprograms is not None and works_on_refs(op, args, params):
            return call_on_values(op, args, params)
        rule: Any = rule_of(op, "jvp")
        if rule is None and op.linearize is None:
            if op.expand is not None:
                return op.expand(*args, **params)
            raise missing_jvp(op)
        primals, tangents, _ = self.split(args)
        if op.linearize is not None:
            previous = swap_trace(self.parent)
            try:
                out, lin = op.linearize(tuple(type(t) is not Zero for t in tangents), *primals, **params)
                swap_trace(self.tangents)
                out_tangent = lin(*tangents)
            finally:
                swap_trace(previous)
        else:
            previous = swap_trace(self.tangents)
            try:
                out, out_tangent = rule(primals, tangents, **params)
            finally:
                swap_trace(previous)
        check_tangents(op, out, out_tangent)
        if not op.multiple_results:
            return self.join(self._known_result(op, out), out_tangent)
        return [self.join(self._known_result(op, y), t) for y, t in zip(out, out_tangent, strict=True)]

    def _known_result(self, op: Op, y: Any) -> Any:
        if self.tangents.is_unknown(y):
            raise MissingRule(
                op, "linearization", hint=f"its jvp mixes values and tangents: give Op({op.name!r}) a `linearize` or a `partial_eval`"
            )
        return y


def linearize_flat(
    fun: Callable[..., tuple[Sequence[Any], Sequence[Any]]],
    primals: Sequence[Any],
    nonzero: Sequence[bool],
    debug_info: DebugInfo = NO_DEBUG_INFO,
    names: tuple[str, ...] = NO_NAMES,
) -> tuple[list[Any], Flags, ClosedJaxpr, list[Any]]:
    """Runs `fun`, a function of flat values that returns two flat sequences, results and auxiliary ones, at `primals`, of which those
    marked `nonzero` vary. The equations of tangents carry `names`, and those of scopes inside.

    The results; which of them vary; the program of their tangents, whose inputs are the tangents of the varying arguments, whose outputs
    are those of the varying results and whose consts are the residuals; the auxiliary results."""
    trace = LinearizeTrace(current_trace(), debug_info)
    trace.tangents.recorder.names = names
    args = [
        LinearizeTracer(trace, x, trace.tangents.argument(tangent_aval(typeof(x)))) if nz else x
        for x, nz in zip(primals, nonzero, strict=True)
    ]
    previous = swap_trace(trace)
    try:
        outs, aux = fun(*args)
    finally:
        swap_trace(previous)
        trace.over = trace.tangents.recorder.over = True
    mine = tuple(type(y) is LinearizeTracer and y._trace is trace for y in outs)
    values = [y.primal if m else y for y, m in zip(outs, mine, strict=True)]
    program = remove_dead(trace.tangents.finish([y.tangent for y, m in zip(outs, mine, strict=True) if m]))
    aux = [y.primal if type(y) is LinearizeTracer and y._trace is trace else y for y in aux]
    if config._state.check_tracer_leaks:
        del args, outs
        check_leaks(trace, debug_info)
    return values, mine, program, aux


@final
@record(frozen=True)
class Linearized:
    """`split.known` takes the program's inputs and gives its results and residuals; `split.unknown` takes the residuals and the tangents of
    the inputs that vary, and gives those of the results that vary: `out_nonzero`."""

    split: Split
    out_nonzero: Flags


@remembered
def _linearize_jaxpr(closed: ClosedJaxpr, nonzero: Flags, instantiate_outputs: Flags) -> Linearized:
    closed = pure(closed)
    outer = JaxprTrace(anonymous(closed.jaxpr, "linearize"))
    trace = LinearizeTrace(outer, anonymous(closed.jaxpr, "linearize"))
    inputs = [outer.argument(a) for a in closed.in_avals]
    args = [
        LinearizeTracer(trace, x, trace.tangents.argument(tangent_aval(x.aval))) if nz else x for x, nz in zip(inputs, nonzero, strict=True)
    ]
    previous = swap_trace(trace)
    try:
        outs = eval_jaxpr(closed.jaxpr, closed.consts, *args)
        mine = [type(y) is LinearizeTracer and y._trace is trace for y in outs]
        values = [y.primal if m else y for y, m in zip(outs, mine, strict=True)]
        swap_trace(trace.tangents)
        out_nonzero = tuple(m or wanted for m, wanted in zip(mine, instantiate_outputs, strict=True))
        tangents = [y.tangent if m else instantiate(zero_of(y)) for y, m, nz in zip(outs, mine, out_nonzero, strict=True) if nz]
    finally:
        swap_trace(previous)
    return Linearized(split_program(outer, values, trace.tangents.finish(tangents)), out_nonzero)


def linearize_jaxpr(closed: ClosedJaxpr, nonzero: Sequence[bool], instantiate: bool | Sequence[bool] = False) -> Linearized:
    """A program cut into the computation of its results and the program of their tangents, given which inputs vary. Results to be
    `instantiate`d get tangents although they do not vary."""
    return _linearize_jaxpr(closed, tuple(nonzero), flags(instantiate, len(closed.jaxpr.outvars)))
