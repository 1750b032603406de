"""Calls of linear functions that bring their transpose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from steno._native import ShapedArray
from steno.core.interpret import interpret
from steno.core.jaxpr import ClosedJaxpr, Jaxpr, Var, eval_jaxpr
from steno.core.op import Op
from steno.transforms.batching import batch_jaxpr
from steno.transforms.custom import hoist_tracers
from steno.transforms.forward import jvp_jaxpr
from steno.transforms.rules import Axis, Linear, Zero, add, instantiate, to_front, zero_of

Values = Sequence[Any]


def call_linear(callee: ClosedJaxpr, transpose: ClosedJaxpr, residuals: Values, linear: Values) -> list[Any]:
    """Calls `callee(residuals, linear)`, whose transpose is `transpose(residuals, cotangents)`. Tracers they close over become
    residuals."""
    first, hoisted = hoist_tracers(callee)
    second, also = hoist_tracers(transpose)
    return linear_call(
        *hoisted,
        *also,
        *residuals,
        *linear,
        callee=_widened(first, 0, len(hoisted), [x.aval for x in also]),
        transpose=_widened(second, len(hoisted), len(also), [x.aval for x in hoisted]),
        num_res=len(hoisted) + len(also) + len(residuals),
    )


def _widened(closed: ClosedJaxpr, at: int, own: int, others: Sequence[ShapedArray]) -> ClosedJaxpr:
    """The program with further inputs that it does not read, before or after its first `own` ones."""
    j = closed.jaxpr
    unused = [Var(a) for a in others]
    inputs = [*unused, *j.invars] if at else [*j.invars[:own], *unused, *j.invars[own:]]
    return ClosedJaxpr(Jaxpr(j.constvars, inputs, j.outvars, j.eqns, j.effects, j.debug_info.with_names(None, None)), closed.consts)


def _typ(*avals: ShapedArray, callee: ClosedJaxpr, **_: Any) -> list[ShapedArray]:
    return callee.out_avals


def _oracle(*args: Any, callee: ClosedJaxpr, **_: Any) -> list[Any]:
    return interpret(callee, args)


def _expand(*args: Any, callee: ClosedJaxpr, **_: Any) -> list[Any]:
    return eval_jaxpr(callee.jaxpr, callee.consts, *args)


def _jvp(primals: Values, tangents: Values, *, callee: ClosedJaxpr, transpose: ClosedJaxpr, num_res: int) -> tuple[list[Any], list[Any]]:
    """By the linear arguments the call itself; by the residuals the derivative of `callee`, which may be linear in them by other means."""
    residuals, linear = list(primals[:num_res]), tangents[num_res:]
    params = {"callee": callee, "transpose": transpose, "num_res": num_res}
    outs = linear_call(*primals, **params)
    total: list[Any] = [zero_of(y) for y in outs]
    if any(type(t) is not Zero for t in linear):
        total = linear_call(*residuals, *map(instantiate, linear), **params)
    nonzero = [type(t) is not Zero for t in tangents[:num_res]]
    if any(nonzero):
        both, out_nonzero = jvp_jaxpr(callee, [*nonzero, *(False for _ in linear)])
        moved = iter(eval_jaxpr(both.jaxpr, both.consts, *primals, *(t for t in tangents[:num_res] if type(t) is not Zero))[len(outs) :])
        total = [add(t, next(moved)) if nz else t for t, nz in zip(total, out_nonzero, strict=True)]
    return outs, total


def _transpose(cts: Values, *args: Any, callee: ClosedJaxpr, transpose: ClosedJaxpr, num_res: int) -> list[Any]:
    if any(type(x) is Linear for x in args[:num_res]):
        raise NotImplementedError("linear_call is linear in its linear arguments alone")
    out = linear_call(*args[:num_res], *map(instantiate, cts), callee=transpose, transpose=callee, num_res=num_res)
    return [None] * num_res + list(out)


def _batch(
    axis: Axis, args: Values, dims: Sequence[int | None], *, callee: ClosedJaxpr, transpose: ClosedJaxpr, num_res: int
) -> tuple[list[Any], list[int | None]]:
    residuals = [x if d is None else to_front(x, d, axis.size) for x, d in zip(args[:num_res], dims[:num_res], strict=True)]
    linear = [to_front(x, d, axis.size) for x, d in zip(args[num_res:], dims[num_res:], strict=True)]
    batched = [d is not None for d in dims[:num_res]]
    forward, _ = batch_jaxpr(callee, axis, [*batched, *(True for _ in linear)], True)
    backward, _ = batch_jaxpr(transpose, axis, [*batched, *(True for _ in callee.out_avals)], True)
    out = linear_call(*residuals, *linear, callee=forward, transpose=backward, num_res=num_res)
    return out, [0] * len(out)


linear_call = Op(
    "linear_call",
    typ=_typ,
    oracle=_oracle,
    expand=_expand,
    multiple_results=True,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    effects=lambda *avals, callee, **_: callee.effects,
    subprograms=lambda params: (params["callee"],),
    show=lambda p: {"callee": p["callee"], "num_res": p["num_res"]},
)
"""A call of `callee(residuals, linear)`; `num_res`: how many operands are residuals."""
