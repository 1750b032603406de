"""Partial evaluation: what depends on known values alone is computed, the rest is recorded.

Known operands of recorded equations become the program's constants, once for each identity: the residuals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

from steno._native import ShapedArray, current_trace, swap_trace
from steno.core.jaxpr import NO_DEBUG_INFO, ClosedJaxpr, DebugInfo, eval_jaxpr
from steno.core.op import Op
from steno.core.record import record
from steno.core.trace import JaxprTrace, JitTracer, Trace
from steno.transforms.discharge import pure
from steno.transforms.programs import Flags, Split, anonymous, flags, remembered, split_program


@final
class PartialTrace(Trace):
    """Records ops that have an unknown operand; others go to the parent. Unknown values are tracers of `recorder`."""

    __slots__ = ("parent", "recorder")

    def __init__(self, parent: Trace | None, debug_info: DebugInfo = NO_DEBUG_INFO) -> None:
        self.parent = parent
        self.recorder = JaxprTrace(debug_info)

    def __repr__(self) -> str:
        return "PartialTrace"

    def is_over(self) -> bool:
        return self.recorder.over

    def argument(self, aval: ShapedArray) -> JitTracer:
        """A new unknown input."""
        return self.recorder.argument(aval)

    def is_unknown(self, x: Any) -> bool:
        return type(x) is JitTracer and x._trace is self.recorder

    def record(self, op: Op, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Records an equation whatever its operands are."""
        return self.recorder.process(op, args, params)

    def process(self, op: Op, args: Sequence[Any], params: dict[str, Any]) -> Any:
        recorder = self.recorder
        unknown = [type(x) is JitTracer and x._trace is recorder for x in args]
        if not any(unknown):
            previous = swap_trace(self.parent)
            try:
                return op(*args, **params)
            finally:
                swap_trace(previous)
        if op.partial_eval is not None and not all(unknown):
            return op.partial_eval(self, tuple(unknown), *args, **params)
        return recorder.process(op, args, params)

    def finish(self, outs: Iterable[Any]) -> ClosedJaxpr:
        """The recorded program with the given results; its consts are the residuals."""
        return self.recorder.finish(outs)


@final
@record(frozen=True)
class PartlyEvaluated:
    """`split.known` takes the known inputs and gives the known results and residuals; `split.unknown` takes the residuals and the unknown
    inputs and gives the unknown results. `out_unknown`: which results those are."""

    split: Split
    out_unknown: Flags


def partial_eval_flat(
    fun: Callable[..., Sequence[Any]], args: Sequence[Any], debug_info: DebugInfo = NO_DEBUG_INFO
) -> tuple[list[Any], ClosedJaxpr]:
    """Runs `fun` on flat arguments of which those that are ShapedArrays are unknown, and all results are recorded.
    The program of the unknown arguments, whose consts are the known values it reads."""
    trace = PartialTrace(current_trace(), debug_info)
    previous = swap_trace(trace)
    try:
        outs = fun(*[trace.argument(x) if type(x) is ShapedArray else x for x in args])
    finally:
        swap_trace(previous)
        trace.recorder.over = True
    return list(outs), trace.finish(outs)


@remembered
def _partial_eval_jaxpr(closed: ClosedJaxpr, unknown: Flags, instantiate: Flags) -> PartlyEvaluated:
    closed = pure(closed)
    outer = JaxprTrace(anonymous(closed.jaxpr, "partial_eval"))
    trace = PartialTrace(outer, anonymous(closed.jaxpr, "partial_eval"))
    args = [trace.argument(a) if u else outer.argument(a) for a, u in zip(closed.in_avals, unknown, strict=True)]
    previous = swap_trace(trace)
    try:
        outs = eval_jaxpr(closed.jaxpr, closed.consts, *args)
    finally:
        swap_trace(previous)
    out_unknown = tuple(wanted or trace.is_unknown(y) for y, wanted in zip(outs, instantiate, strict=True))
    program = trace.finish([y for y, u in zip(outs, out_unknown, strict=True) if u])
    return PartlyEvaluated(split_program(outer, [y for y, u in zip(outs, out_unknown, strict=True) if not u], program), out_unknown)


def partial_eval_jaxpr(closed: ClosedJaxpr, unknown: Sequence[bool], instantiate: bool | Sequence[bool] = False) -> PartlyEvaluated:
    """Cuts a program into what the known inputs alone decide and the rest. Results to be `instantiate`d are given by the second part."""
    return _partial_eval_jaxpr(closed, tuple(unknown), flags(instantiate, len(closed.jaxpr.outvars)))
