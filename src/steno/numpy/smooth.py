"""hypot and sinc, with derivatives of their own: those of what computes them are wrong where it chooses between cases."""

from __future__ import annotations

import functools
import math
from typing import Any, Final

import numpy as np

from steno import lax
from steno.core import dtypes
from steno.custom_derivatives import custom_jvp
from steno.lax import records as p
from steno.numpy.elementwise import const, kind_of, unary_operand, where
from steno.numpy.operands import Array, ArrayLike, binary, convert, settled, to_inexact, type_of

_TERMS: Final = 12


@custom_jvp
def _hypot(x: Any, y: Any) -> Array:
    """Scaled by the greater, so that nothing overflows on the way."""
    d = x.aval.dtype
    zero, one, inf = const(0, d), const(1, d), const(np.inf, d)
    x, y = p.abs_p(x), p.abs_p(y)
    infinite = p.or_p(p.eq_p(x, inf), p.eq_p(y, inf))
    big, small = p.max_p(x, y), p.min_p(x, y)
    nothing = p.eq_p(big, zero)
    ratio = p.max_p(p.div_p(small, where(nothing, one, big)), const(2.0**-30, d))  # less adds nothing, and squares of less may be subnormal
    out = where(nothing, big, p.mul_p(big, p.sqrt_p(p.add_p(one, p.square_p(ratio)), accuracy=None)))
    return where(infinite, inf, out)


@_hypot.defjvp
def _hypot_tangent(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    out = _hypot(*primals)
    dx, dy = (p.mul_p(t, p.div_p(v, out)) for v, t in zip(primals, tangents, strict=True))
    return out, p.add_p(dx, dy)


def _hypot_rule(dtype: Any, weak: bool) -> tuple[Any, Any, bool]:
    dtype, weak = to_inexact(dtype, weak)
    if dtypes.kind(dtype) == "c":
        raise ValueError(f"hypot: expected real operands, got dtype {dtypes.name(dtype)}; of complex numbers take abs first")
    return _hypot, dtype, weak


hypot = binary("hypot", _hypot_rule, doc="sqrt(x**2 + y**2), without overflow.")


def sinc(x: ArrayLike, /) -> Array:
    """sin(pi x) / (pi x); 1 at 0, and 0 at other integers."""
    v = unary_operand("sinc", x)
    return settled(_derivative(0)(convert(v, *to_inexact(*type_of(v)))), x)


@functools.cache
def _derivative(k: int) -> Any:
    """The k-th derivative of sinc, as a function whose derivative is the next one."""

    @custom_jvp
    def sinc(x: Any) -> Array:
        return _sinc(x) if k == 0 else _sinc_derivative(k, x)

    @sinc.defjvp
    def rule(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
        return sinc(*primals), p.mul_p(tangents[0], _derivative(k + 1)(*primals))

    return sinc


def _sinc(x: Any) -> Array:
    d = x.aval.dtype
    zero, one, pi = const(0, d), const(1, d), const(math.pi, d)
    at_zero = p.eq_p(x, zero)
    safe = where(at_zero, one, x)
    if kind_of(x) == "c":
        y = p.mul_p(safe, pi)
        real = p.real_p(x)
        far = p.eq_p(p.abs_p(real), const(np.inf, real.aval.dtype))
        return where(at_zero, one, where(far, zero, p.div_p(p.sin_p(y, accuracy=None), y)))
    # x less the nearest integer is exact, so that zeros fall on zeros
    nearest = p.round_p(safe, rounding_method=lax.RoundingMethod.TO_NEAREST_EVEN)
    half = p.mul_p(nearest, const(0.5, d))
    s = p.sin_p(p.mul_p(pi, p.sub_p(safe, nearest)), accuracy=None)
    s = where(p.ne_p(p.floor_p(half), half), p.neg_p(s), s)
    out = p.div_p(s, p.mul_p(safe, pi))
    return where(at_zero, one, where(p.eq_p(p.abs_p(x), const(np.inf, d)), zero, out))


def _sinc_derivative(k: int, x: Any) -> Array:
    """Of y(x) = sinc x: its power series near 0; else, as x y = sin(pi x) / pi, from

    x y(k) + k y(k - 1) = pi**(k - 1) sin(pi x + k pi / 2)."""
    d = x.aval.dtype
    square = p.mul_p(x, x)
    near = None
    for j in reversed(range((k + 1) // 2, (k + 1) // 2 + _TERMS)):
        c = const((-1) ** j * math.pi ** (2 * j) / ((2 * j + 1) * math.factorial(2 * j - k)), d)
        near = p.add_p(p.mul_p(near, square), c) if near is not None else p.add_p(p.mul_p(square, const(0, d)), c)
    near = p.mul_p(near, x) if k % 2 else near
    size = p.abs_p(x)
    is_near = p.lt_p(size, const(0.5, size.aval.dtype))
    infinite = p.eq_p(size, const(np.inf, size.aval.dtype))
    safe = where(p.or_p(is_near, infinite), const(1, d), x)
    angle = p.mul_p(const(math.pi, d), safe)
    wave = (p.sin_p, p.cos_p)[k % 2](angle, accuracy=None)
    factor = const((1, 1, -1, -1)[k % 4] * math.pi ** (k - 1), d)
    before = _sinc(safe) if k == 1 else _sinc_derivative(k - 1, safe)
    far = p.div_p(p.sub_p(p.mul_p(factor, wave), p.mul_p(const(k, d), before)), safe)
    return where(is_near, near, where(infinite, const(0, d), far))
