"""Calls of functions that bring a rule of their own for vmap."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, final

from steno._native import ShapedArray, current_trace
from steno.core.interpret import interpret
from steno.core.jaxpr import ClosedJaxpr, DebugInfo, eval_jaxpr
from steno.core.op import Op
from steno.core.trace import set_current_trace, trace_to_jaxpr
from steno.transforms.batching import BatchTrace, batch_flat, batch_program
from steno.transforms.custom import hoist_tracers
from steno.transforms.forward import JVPTrace, jvp_flat
from steno.transforms.linearize import LinearizeTrace
from steno.transforms.partial import PartialTrace
from steno.transforms.programs import Flags
from steno.transforms.rules import Axis, Zero, as_value, instantiate, to_front, zero_of

Values = Sequence[Any]


class AbstractCustomVmap(ABC):
    """`run(*args) -> results`; `rule(size, batched, args) -> (results, which are batched)`, batch axes in front; all flat."""

    __slots__ = ()
    name: str

    @abstractmethod
    def run(self, *args: Any) -> list[Any]: ...

    @abstractmethod
    def rule(self, size: int, batched: Flags, args: Values) -> tuple[list[Any], list[bool]]: ...

    def __repr__(self) -> str:
        return self.name


@final
class VmapOfJvp(AbstractCustomVmap):
    """Values and tangents of a call: arguments are the call's, then the tangents of those marked; likewise the results, all with
    tangents."""

    __slots__ = ("call", "name", "nonzero")

    def __init__(self, call: AbstractCustomVmap, nonzero: Flags) -> None:
        self.call, self.nonzero, self.name = call, nonzero, f"jvp of {call.name}"

    def _split(self, args: Values) -> tuple[list[Any], list[Any]]:
        n = len(self.nonzero)
        given = iter(args[n:])
        return list(args[:n]), [next(given) if nz else zero_of(x) for x, nz in zip(args[:n], self.nonzero, strict=True)]

    def run(self, *args: Any) -> list[Any]:
        outs, tangents, _ = jvp_flat(lambda *xs: (self.call.run(*xs), ()), *self._split(args))
        return [*outs, *map(instantiate, tangents)]

    def rule(self, size: int, batched: Flags, args: Values) -> tuple[list[Any], list[bool]]:
        primals, tangents = self._split(args)
        of_primals, given = list(batched[: len(primals)]), iter(batched[len(primals) :])
        of_tangents = [next(given) if nz else b for b, nz in zip(of_primals, self.nonzero, strict=True)]
        either = tuple(a or b for a, b in zip(of_primals, of_tangents, strict=True))
        if not any(a and b for a, b in zip(of_primals, of_tangents, strict=True)):
            found = self._of_each(size, of_primals, of_tangents, primals, tangents)
            if found is not None:
                return found
        primals = [to_front(x, 0 if b else None, size) if e else x for x, b, e in zip(primals, of_primals, either, strict=True)]
        tangents = [
            zero_of(x) if type(t) is Zero else to_front(t, 0 if b else None, size) if e else t
            for t, x, b, e in zip(tangents, primals, of_tangents, either, strict=True)
        ]
        out_batched: list[bool] = []

        def run(*xs: Any) -> tuple[list[Any], tuple[()]]:
            outs, out_batched[:] = self.call.rule(size, either, xs)
            return outs, ()

        outs, out_tangents, _ = jvp_flat(run, primals, tangents)
        return [*outs, *map(instantiate, out_tangents)], [*out_batched, *out_batched]

    def _of_each(
        self, size: int, of_primals: Sequence[bool], of_tangents: Sequence[bool], primals: Values, tangents: Values
    ) -> tuple[list[Any], list[bool]] | None:
        """Where no argument has values and tangents that are batched together: the derivative of a call of the rule for arguments that are
        not batched, mapped over what is. None if the rule batches its results even so."""
        moving = [type(t) is not Zero for t in tangents]
        unbatched = (False,) * len(primals)
        n, axis = len(primals), Axis(None, size)
        out_batched: list[bool] = []

        def element(*xs: Any) -> list[Any]:
            given = iter(xs[n:])
            ts = [next(given) if m else zero_of(x) for x, m in zip(xs[:n], moving, strict=True)]
            outs, out_tangents, _ = jvp_flat(run, xs[:n], ts)
            return [*outs, *map(instantiate, out_tangents)]

        def run(*xs: Any) -> tuple[list[Any], tuple[()]]:
            outs, out_batched[:] = self.call.rule(size, unbatched, xs)
            return outs, ()

        flags = [*of_primals, *(b for b, m in zip(of_tangents, moving, strict=True) if m)]
        values = [*primals, *(t for t, m in zip(tangents, moving, strict=True) if m)]
        outs, dims = batch_flat(element, axis, values, [0 if b else None for b in flags])
        if any(out_batched):
            return None
        return [y if d is None else to_front(y, d, size) for y, d in zip(outs, dims, strict=True)], [d is not None for d in dims]


def call_custom_vmap(call: AbstractCustomVmap, args: Values) -> list[Any]:
    """Calls the function under the current trace."""
    trace = current_trace()
    if trace is None or isinstance(trace, LinearizeTrace) or trace.evaluates():
        return call.run(*args)  # derivatives are those of the function itself
    if isinstance(trace, BatchTrace):
        values, dims = trace.split(args)
        with set_current_trace(trace.parent):
            if all(d is None for d in dims):
                return call_custom_vmap(call, values)
            outs, out_batched = batched_call(call, trace.axis, values, dims)
        return [trace.join(y, 0 if b else None) for y, b in zip(outs, out_batched, strict=True)]
    if isinstance(trace, JVPTrace):
        primals, tangents, any_nonzero = trace.split(args)
        with set_current_trace(trace.parent):
            if not any_nonzero:
                return call_custom_vmap(call, primals)
            nonzero = tuple(type(t) is not Zero for t in tangents)
            outs = call_custom_vmap(VmapOfJvp(call, nonzero), [*primals, *(t for t in tangents if type(t) is not Zero)])
        n = len(outs) // 2
        return [trace.join(y, t) for y, t in zip(outs[:n], outs[n:], strict=True)]
    if isinstance(trace, PartialTrace):
        if any(trace.is_unknown(x) for x in args):
            return call.run(*args)
        with set_current_trace(trace.parent):
            return call_custom_vmap(call, args)
    args = [as_value(x) for x in args]
    closed, consts = hoist_tracers(trace_to_jaxpr(call.run, [x.aval for x in args], DebugInfo("custom_vmap", call.name)))
    return custom_vmap_call(*consts, *args, call=closed, rule=call, num_consts=len(consts))


def batched_call(call: AbstractCustomVmap, axis: Axis, args: Values, dims: Sequence[int | None]) -> tuple[list[Any], list[bool]]:
    moved = [x if d is None else to_front(x, d, axis.size) for x, d in zip(args, dims, strict=True)]
    return call.rule(axis.size, tuple(d is not None for d in dims), moved)


def _typ(*avals: ShapedArray, call: ClosedJaxpr, **_: Any) -> list[ShapedArray]:
    return call.out_avals


def _oracle(*args: Any, call: ClosedJaxpr, **_: Any) -> list[Any]:
    return interpret(call, args)


def _expand(*args: Any, call: ClosedJaxpr, **_: Any) -> list[Any]:
    return eval_jaxpr(call.jaxpr, call.consts, *args)


def _jvp(primals: Values, tangents: Values, *, call: ClosedJaxpr, rule: AbstractCustomVmap, num_consts: int) -> tuple[list[Any], list[Any]]:
    if any(type(t) is not Zero for t in tangents[:num_consts]):
        outs, out_tangents, _ = jvp_flat(lambda *xs: (_expand(*xs, call=call), ()), primals, tangents)
        return outs, out_tangents
    given = [*primals[num_consts:], *(t for t in tangents if type(t) is not Zero)]
    outs = call_custom_vmap(VmapOfJvp(rule, tuple(type(t) is not Zero for t in tangents[num_consts:])), given)
    n = len(outs) // 2
    return outs[:n], outs[n:]


def _batch(
    axis: Axis, args: Values, dims: Sequence[int | None], *, call: ClosedJaxpr, rule: AbstractCustomVmap, num_consts: int
) -> tuple[list[Any], list[int | None]]:
    if any(d is not None for d in dims[:num_consts]):  # the rule does not know of what the function closes over
        program, out_dims = batch_program(call, axis, dims)
        return eval_jaxpr(program.jaxpr, program.consts, *args), list(out_dims)
    outs, batched = batched_call(rule, axis, args[num_consts:], dims[num_consts:])
    return outs, [0 if b else None for b in batched]


def _partial_eval(trace: PartialTrace, unknown: Flags, *args: Any, **params: Any) -> list[Any]:
    return _expand(*args, **params)


custom_vmap_call = Op(
    "custom_vmap_call",
    typ=_typ,
    oracle=_oracle,
    expand=_expand,
    multiple_results=True,
    jvp=_jvp,
    batch=_batch,
    partial_eval=_partial_eval,
    effects=lambda *avals, call, **_: call.effects,
    subprograms=lambda params: (params["call"],),
)
"""A call of the program `call`; batched by `rule`."""
