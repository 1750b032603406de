"""Elementwise special functions: computed in float64 whatever the dtype of their operands, with derivatives by formulas."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from steno import lax, numpy as jnp
from steno.api import jit
from steno.core import dtypes
from steno.core.config import enable_x64, numpy_dtype_promotion
from steno.core.op import Op
from steno.custom_derivatives import SymbolicZero, custom_jvp
from steno.derivatives import jvp
from steno.ops.arithmetic import mul
from steno.ops.convert import convert_element_type
from steno.ops.families import FLOAT, elementwise_typ
from steno.transforms.rules import ELEMENTWISE, by_argument

Array = Any
Function = Callable[..., Any]


def converted(x: Array, dtype: Any) -> Array:
    """x in a real dtype, or in the complex one of that precision."""
    if dtypes.kind(x.dtype) == "c":
        dtype = dtypes.complex64 if dtype.itemsize < 8 else dtypes.complex128
    return x if x.dtype == dtype and not x.aval.weak_type else convert_element_type(x, new_dtype=dtype, weak_type=False, sharding=None)


def in_double(body: Function, *xs: Array) -> Any:
    """body(*xs), in float64; the results, one or a tuple, are of the operands' precision."""
    dtype = jnp.real(xs[0]).dtype
    with enable_x64(True), numpy_dtype_promotion("standard"):
        out = body(*(converted(x, dtypes.float64) for x in xs))
        return tuple(converted(v, dtype) for v in out) if isinstance(out, tuple) else converted(out, dtype)


def with_derivatives(body: Function, *partials: Function | None, slow: Function | None = None, own: bool = False) -> Function:
    """`body` as a function of arrays of one dtype and shape, its partial derivatives given: `partial(out, *xs)` in float64. None: the body
    is differentiated in the forward direction, so that derivatives of the derivative by that operand are of the forward mode only; `slow`:
    what is differentiated in its stead, as the derivatives of a series may need more terms; `own`: the body takes the operands as they
    are."""

    compiled = jit(body if own else lambda *xs: in_double(body, *xs))

    @custom_jvp
    def function(*xs: Array) -> Array:
        return compiled(*xs)

    def rule(primals: Any, tangents: Any) -> Any:
        out = function(*primals)
        total = jnp.zeros_like(out)
        for k, (tangent, partial) in enumerate(zip(tangents, partials, strict=True)):
            if type(tangent) is not SymbolicZero:
                slope = _forward(slow or body, k, primals) if partial is None else in_double(partial, out, *primals)
                total = total + slope * tangent
        return out, total

    function.defjvp(rule, symbolic_zeros=True)
    return function


def in_double_op(name: str, body: Function, *partials: Function | None, slow: Function | None = None, eps: float | None = None) -> Op:
    """The same as an op of floats of one dtype, whose shapes may be stretched, under JAX's name for it. `eps`: what the body takes by that
    name where its result is rounded to float32 or less: it may end loops earlier."""

    def value(*xs: Array) -> Array:
        short = eps is not None and dtypes.itemsize_bits(xs[0].dtype) <= 32
        return in_double(functools.partial(body, eps=eps) if short else body, *jnp.broadcast_arrays(*xs))

    compiled = jit(value)

    def by(k: int) -> Function:
        partial = partials[k]

        def slope(out: Array, *xs: Array) -> Array:
            xs = tuple(jnp.broadcast_arrays(*xs))
            return _forward(slow or body, k, xs) if partial is None else in_double(partial, out, *xs)

        compiled_slope = jit(slope)
        return lambda g, out, *xs: mul(compiled_slope(out, *xs), g)

    return Op(
        name,
        typ=elementwise_typ(name, *(FLOAT for _ in partials)),
        expand=compiled,
        jvp=by_argument(*map(by, range(len(partials)))),
        batch=ELEMENTWISE,
    )


def _forward(body: Function, k: int, primals: tuple[Array, ...]) -> Array:
    def slope(*xs: Array) -> Array:
        return jvp(lambda x: body(*xs[:k], x, *xs[k + 1 :]), (xs[k],), (jnp.ones_like(xs[k]),))[1]

    return in_double(slope, *primals)


def until(limit: int, unfinished: Function, step: Function, state: tuple[Array, ...]) -> tuple[Array, ...]:
    """state = step(n, *state) for n = 1, 2, ... limit, each element as long as unfinished(*state) holds for it: NaN must be finished."""

    def more(s: Any) -> Array:
        return (s[0] <= limit) & jnp.any(unfinished(*s[1]))

    def one(s: Any) -> Any:
        n, old = s
        going = unfinished(*old)
        return n + 1.0, tuple(jnp.where(going, v, u) for u, v in zip(old, step(n, *old), strict=True))

    return lax.while_loop(more, one, (jnp.ones((), dtypes.float64), state))[1]


def polynomial(x: Array, coefficients: Any) -> Array:
    """By Horner's rule; the constant comes first."""
    out = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        out = out * x + c
    return out


__all__ = ["converted", "in_double", "in_double_op", "polynomial", "until", "with_derivatives"]
