"""The rules of the structural ops: `jit`, `copy`, `optimization_barrier`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from steno._native import current_trace
from steno.core.jaxpr import ClosedJaxpr, JaxprEqn, dce_jaxpr as _dce_jaxpr
from steno.ops.structural import copy, jit, optimization_barrier
from steno.transforms.backward import transpose_jaxpr
from steno.transforms.batching import batch_program
from steno.transforms.forward import jvp_jaxpr
from steno.transforms.linearize import linearize_jaxpr
from steno.transforms.partial import PartialTrace, partial_eval_jaxpr
from steno.transforms.programs import Flags, remembered, remove_dead
from steno.transforms.rules import (
    ELEMENTWISE,
    LINEAR,
    Axis,
    Linear,
    Zero,
    by_operand,
    tangent_aval,
    zero_of,
)

# jit


def _jit_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: ClosedJaxpr, name: str) -> tuple[list[Any], list[Any]]:
    nonzero = [type(t) is not Zero for t in tangents]
    program, out_nonzero = jvp_jaxpr(jaxpr, nonzero)
    outs = jit(*primals, *(t for t in tangents if type(t) is not Zero), jaxpr=program, name=name)
    n = len(out_nonzero)
    given = iter(outs[n:])
    return outs[:n], [next(given) if nz else zero_of(y) for y, nz in zip(outs[:n], out_nonzero, strict=True)]


def _jit_linearize(nonzero: Flags, *primals: Any, jaxpr: ClosedJaxpr, name: str) -> tuple[list[Any], Callable[..., list[Any]]]:
    cut = linearize_jaxpr(jaxpr, nonzero)
    outs = jit(*primals, jaxpr=cut.split.known, name=name)
    residuals = cut.split.residual_values(primals, outs)
    outs = outs[: len(cut.out_nonzero)]

    def lin(*tangents: Any) -> list[Any]:
        trace: Any = current_trace()
        moving = [t for t in tangents if type(t) is not Zero]
        out = iter(trace.record(jit, [*residuals, *moving], {"jaxpr": cut.split.unknown, "name": name}) if any(cut.out_nonzero) else ())
        return [next(out) if nz else zero_of(y) for y, nz in zip(outs, cut.out_nonzero, strict=True)]

    return outs, lin


def _jit_partial_eval(trace: PartialTrace, unknown: Flags, *args: Any, jaxpr: ClosedJaxpr, name: str) -> list[Any]:
    cut = partial_eval_jaxpr(jaxpr, unknown)
    if not cut.split.known.eqns and all(cut.out_unknown):
        return trace.record(jit, args, {"jaxpr": jaxpr, "name": name})
    known_args = [x for x, u in zip(args, unknown, strict=True) if not u]
    known = jit(*known_args, jaxpr=cut.split.known, name=name)
    residuals = cut.split.residual_values(known_args, known)
    unknown_args = [x for x, u in zip(args, unknown, strict=True) if u]
    given = iter(trace.record(jit, [*residuals, *unknown_args], {"jaxpr": cut.split.unknown, "name": name}) if any(cut.out_unknown) else ())
    known_outs = iter(known)
    return [next(given) if u else next(known_outs) for u in cut.out_unknown]


def _jit_transpose(cts: Sequence[Any], *args: Any, jaxpr: ClosedJaxpr, name: str) -> list[Any]:
    linear = [type(x) is Linear for x in args]
    ct_nonzero = [type(ct) is not Zero for ct in cts]
    program, out_nonzero = transpose_jaxpr(jaxpr, linear, ct_nonzero)
    known = [x for x in args if type(x) is not Linear]
    outs = iter(jit(*known, *(ct for ct in cts if type(ct) is not Zero), jaxpr=program, name=name) if any(out_nonzero) else ())
    nonzero = iter(out_nonzero)
    return [(next(outs) if next(nonzero) else Zero(tangent_aval(x.aval))) if lin else None for x, lin in zip(args, linear, strict=True)]


def _jit_batch(
    axis: Axis, args: Sequence[Any], dims: Sequence[int | None], *, jaxpr: ClosedJaxpr, name: str
) -> tuple[list[Any], list[int | None]]:
    program, out_dims = batch_program(jaxpr, axis, dims)
    return jit(*args, jaxpr=program, name=name), list(out_dims)


@remembered
def thinned(closed: ClosedJaxpr, used_outputs: Flags) -> tuple[ClosedJaxpr, Flags]:
    """The program with the outputs that are used, and which inputs it still needs."""
    jaxpr, used_inputs = _dce_jaxpr(closed.jaxpr, used_outputs)
    return remove_dead(ClosedJaxpr(jaxpr, closed.consts)), tuple(used_inputs)


def thin_call(used_outputs: Sequence[bool], e: JaxprEqn) -> tuple[Sequence[bool], JaxprEqn | None]:
    """`dce` of an op that calls its parameter `jaxpr`."""
    jaxpr: ClosedJaxpr = e.params["jaxpr"]
    if not any(used_outputs) and not e.effects:
        return [False] * len(e.invars), None
    program, used_inputs = thinned(jaxpr, tuple(used_outputs))
    if all(used_outputs) and all(used_inputs) and len(program.eqns) == len(jaxpr.eqns):
        return used_inputs, e
    invars = [a for a, used in zip(e.invars, used_inputs, strict=True) if used]
    outvars = [v for v, used in zip(e.outvars, used_outputs, strict=True) if used]
    return used_inputs, e.replace(invars=invars, outvars=outvars, params=e.params | {"jaxpr": program}, effects=program.effects)


jit.jvp, jit.linearize, jit.partial_eval = _jit_jvp, _jit_linearize, _jit_partial_eval
jit.transpose, jit.batch, jit.dce = _jit_transpose, _jit_batch, thin_call

# copy, optimization_barrier

copy.jvp, copy.transpose, copy.batch = LINEAR, by_operand(lambda ct, x: ct), ELEMENTWISE


def _barrier_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    return optimization_barrier(*primals), _barrier_some(tangents)


def _barrier_some(values: Sequence[Any]) -> list[Any]:
    """A barrier of those that are not `Zero`."""
    through = iter(optimization_barrier(*(t for t in values if type(t) is not Zero)))
    return [t if type(t) is Zero else next(through) for t in values]


def _barrier_transpose(cts: Sequence[Any], *args: Any) -> list[Any]:
    return _barrier_some(cts)


def _barrier_batch(axis: Axis, args: Sequence[Any], dims: Sequence[int | None]) -> tuple[list[Any], list[int | None]]:
    return optimization_barrier(*args), list(dims)


optimization_barrier.jvp, optimization_barrier.transpose, optimization_barrier.batch = _barrier_jvp, _barrier_transpose, _barrier_batch
