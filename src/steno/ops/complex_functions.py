"""Elementary functions of complex numbers as scalar code, by functions of real ones.

Branch cuts and signs of zero are those of C's Annex G, after W. Kahan, "Branch cuts for complex elementary functions, or much ado about
nothing's sign bit" (in: The State of the Art in Numerical Analysis, 1987). Errors are a few units in the last place of the modulus.
complex64 passes through float64 where a formula cancels or could overflow. Infinite and NaN components give what Annex G says in the
exponential, hyperbolic and inverse functions; in the others it is not specified.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from steno.core import dtypes
from steno.ir.expr import Builder, Expr, Pair

FUNCTIONS: dict[str, Callable[..., Pair]] = {}


def _named(f: Callable[..., Pair]) -> Callable[..., Pair]:
    FUNCTIONS[f.__name__.removeprefix("complex_")] = f
    return f


def _in_double(f: Callable[..., Pair]) -> Callable[..., Pair]:
    """complex64 operands --> complex128, and the result back."""

    def run(b: Builder, *zs: Pair) -> Pair:
        if zs[0].dtype != dtypes.complex64:
            return f(b, *zs)
        return b.convert(f(b, *(b.convert(z, dtypes.complex128) for z in zs)), dtypes.complex64)

    run.__name__, run.__doc__ = f.__name__, f.__doc__
    return run


def _scaled(b: Builder, zero: Expr, factor: Expr) -> Expr:
    """zero * factor, and a zero stays one whatever the factor (which may be infinite)."""
    return b.select(b.eq(zero, 0), zero, b.mul(zero, factor))


def _times_i(b: Builder, z: Pair) -> Pair:
    return b.pair(z.dtype, b.neg(z.second), z.first)


def _over_i(b: Builder, z: Pair) -> Pair:
    return b.pair(z.dtype, z.second, b.neg(z.first))


def _infinite(b: Builder, x: Expr) -> Expr:
    return b.eq(b.abs(x), np.inf)


def _not_finite(b: Builder, x: Expr) -> Expr:
    return b.not_(b.lt(b.abs(x), np.inf))


def _zero_and_nan(b: Builder, x: Expr, y: Expr) -> Expr:
    return b.and_(b.eq(x, 0), b.ne(y, y))


def _signed(b: Builder, value: float, sign: Expr) -> Expr:
    return b.copysign(b.const(value, sign.dtype), sign)


def _parts_of_unit(b: Builder, y: Expr) -> tuple[Expr, Expr]:
    return b.call("cos", y), b.call("sin", y)


# exponentials


@_named
def complex_exp(b: Builder, z: Pair) -> Pair:
    """e**x (cos y + i sin y); the exponential in two factors where it alone would overflow."""
    x, y = z.first, z.second
    limit = 88.0 if x.dtype == np.float32 else 709.0
    large = b.gt(x, limit)
    e = b.call("exp", b.select(large, b.sub(x, limit), x))
    factor = b.select(large, b.const(float(np.exp(limit)), x.dtype), b.const(1.0, x.dtype))
    cos, sin = _parts_of_unit(b, y)
    re, im = b.mul(b.mul(e, cos), factor), _scaled(b, b.select(b.eq(y, 0), y, b.mul(e, sin)), factor)
    return b.pair(z.dtype, *_of_infinite_exponent(b, z, re, im, 0.0))


def _of_infinite_exponent(b: Builder, z: Pair, re: Expr, im: Expr, least: float) -> tuple[Expr, Expr]:
    """exp(z) (or expm1(z), whose `least` real part is -1) where x is infinite and y has no direction."""
    x, odd = z.first, b.and_(_infinite(b, z.first), _not_finite(b, z.second))
    limit = b.select(b.gt(x, 0.0), x, b.const(least, x.dtype))
    return b.select(odd, limit, re), b.select(b.and_(odd, b.lt(x, 0.0)), b.const(0.0, x.dtype), im)


@_named
def complex_exp2(b: Builder, z: Pair) -> Pair:
    return _exp2(b, z)


@_in_double
def _exp2(b: Builder, z: Pair) -> Pair:
    """2**x (cos(y log 2) + i sin(y log 2))"""
    x, y = z.first, z.second
    e = b.call("exp2", x)
    cos, sin = _parts_of_unit(b, b.mul(y, float(np.log(2.0))))
    return b.pair(z.dtype, b.mul(e, cos), b.select(b.eq(y, 0), y, b.mul(e, sin)))


@_named
def complex_expm1(b: Builder, z: Pair) -> Pair:
    """expm1(x) cos y - 2 sin(y/2)**2 + i e**x sin y"""
    x, y = z.first, z.second
    half = b.call("sin", b.mul(y, 0.5))
    cos, sin = _parts_of_unit(b, y)
    re = b.sub(b.mul(b.call("expm1", x), cos), b.mul(2.0, b.mul(half, half)))
    im = b.select(b.eq(y, 0), y, b.mul(b.call("exp", x), sin))
    return b.pair(z.dtype, *_of_infinite_exponent(b, z, re, im, -1.0))


@_named
def complex_sinh(b: Builder, z: Pair) -> Pair:
    cos, sin = _parts_of_unit(b, z.second)
    odd = b.and_(_infinite(b, z.first), _not_finite(b, z.second))
    re = b.select(odd, z.first, _scaled(b, b.call("sinh", z.first), cos))
    return b.pair(z.dtype, re, _scaled(b, sin, b.call("cosh", z.first)))


@_named
def complex_cosh(b: Builder, z: Pair) -> Pair:
    cos, sin = _parts_of_unit(b, z.second)
    x, odd = z.first, _not_finite(b, z.second)
    re = b.select(b.and_(_infinite(b, x), odd), b.abs(x), b.mul(b.call("cosh", x), cos))
    return b.pair(z.dtype, re, b.select(b.and_(b.eq(x, 0), odd), x, _scaled(b, sin, b.call("sinh", x))))


@_named
def complex_sin(b: Builder, z: Pair) -> Pair:
    """-i sinh(iz)"""
    return _over_i(b, complex_sinh(b, _times_i(b, z)))


@_named
def complex_cos(b: Builder, z: Pair) -> Pair:
    return complex_cosh(b, _times_i(b, z))


@_named
@_in_double
def complex_tanh(b: Builder, z: Pair) -> Pair:
    """(beta rho s + i t) / (1 + beta s**2), where s = sinh x, t = tan y, beta = 1 + t**2, rho = sqrt(1 + s**2); beyond 20 its limits"""
    x, y = z.first, z.second
    far = b.gt(b.abs(x), 20.0)
    near = b.select(far, b.const(0.0, x.dtype), x)
    s, t = b.call("sinh", near), b.call("tan", y)
    beta = b.add(1.0, b.mul(t, t))
    rho = b.sqrt(b.add(1.0, b.mul(s, s)))
    below = b.add(1.0, b.mul(beta, b.mul(s, s)))
    cos, sin = _parts_of_unit(b, y)
    tail = b.mul(b.mul(4.0, b.mul(sin, cos)), b.call("exp", b.mul(-2.0, b.abs(x))))
    re = b.select(far, _signed(b, 1.0, x), b.div(b.mul(b.mul(beta, rho), s), below))
    im = b.select(far, tail, b.div(t, below))
    odd, infinite = _not_finite(b, y), _infinite(b, x)
    re = b.select(b.eq(x, 0), x, b.select(b.and_(odd, b.not_(infinite)), b.const(np.nan, x.dtype), re))
    im = b.select(b.eq(y, 0), y, b.select(b.and_(odd, infinite), b.const(0.0, x.dtype), im))
    return b.pair(z.dtype, re, im)


@_named
def complex_tan(b: Builder, z: Pair) -> Pair:
    """-i tanh(iz)"""
    return _over_i(b, complex_tanh(b, _times_i(b, z)))


@_named
@_in_double
def complex_logistic(b: Builder, z: Pair) -> Pair:
    """1 / (1 + exp(-z)); for x < 0, where that could overflow, exp(z) / (1 + exp(z))"""
    negative = b.lt(z.first, 0.0)
    e = complex_exp(b, b.select(negative, z, b.neg(z)))
    one = b.const(1.0, z.dtype)
    return b.div(b.select(negative, e, one), b.add(one, e))


# logarithms


def _log_of_modulus(b: Builder, x: Expr, y: Expr) -> Expr:
    """log|x + iy|: near 1 by log1p(|z|**2 - 1) / 2"""
    ax, ay = b.abs(x), b.abs(y)
    high, low = b.max(ax, ay), b.min(ax, ay)
    excess = b.fma(low, low, b.mul(b.sub(high, 1.0), b.add(high, 1.0)))
    near = b.lt(b.abs(excess), 0.5)
    size = b.call("hypot", x, y)
    return b.select(near, b.mul(0.5, b.call("log1p", b.select(near, excess, b.const(0.0, x.dtype)))), b.call("log", size))


@_named
@_in_double
def complex_log(b: Builder, z: Pair) -> Pair:
    return b.pair(z.dtype, _log_of_modulus(b, z.first, z.second), b.call("atan2", z.second, z.first))


@_named
@_in_double
def complex_log2(b: Builder, z: Pair) -> Pair:
    log = complex_log(b, z)
    return b.pair(z.dtype, b.mul(log.first, float(1 / np.log(2.0))), b.mul(log.second, float(1 / np.log(2.0))))


@_named
@_in_double
def complex_log1p(b: Builder, z: Pair) -> Pair:
    """log1p(x(x + 2) + y**2) / 2 + i atan2(y, 1 + x); far from 0 the logarithm of 1 + z"""
    x, y = z.first, z.second
    excess = b.fma(y, y, b.mul(x, b.add(x, 2.0)))
    near = b.lt(b.abs(excess), 0.5)
    small = b.mul(0.5, b.call("log1p", b.select(near, excess, b.const(0.0, x.dtype))))
    one_x = b.add(x, 1.0)
    return b.pair(z.dtype, b.select(near, small, b.call("log", b.call("hypot", one_x, y))), b.call("atan2", y, one_x))


@_named
@_in_double
def complex_rsqrt(b: Builder, z: Pair) -> Pair:
    return b.div(b.const(1.0, z.dtype), b.sqrt(z))


@_named
@_in_double
def complex_pow(b: Builder, z: Pair, w: Pair) -> Pair:
    """exp(w log z); z**0 is 1, and 0**w is 0 for Re w > 0, else NaN"""
    out = complex_exp(b, b.mul(w, complex_log(b, z)))
    of_zero = b.select(b.gt(w.first, 0.0), b.const(0.0, z.dtype), b.const(complex(np.nan, np.nan), z.dtype))
    return b.select(b.eq(w, 0), b.const(1.0, z.dtype), b.select(b.eq(z, 0), of_zero, out))


# inverse functions


def _roots(b: Builder, z: Pair) -> tuple[Pair, Pair]:
    """sqrt(1 - z), sqrt(1 + z)"""
    x, y = z.first, z.second
    return b.sqrt(b.pair(z.dtype, b.sub(1.0, x), b.neg(y))), b.sqrt(b.pair(z.dtype, b.add(1.0, x), y))


@_named
@_in_double
def complex_asin(b: Builder, z: Pair) -> Pair:
    minus, plus = _roots(b, z)
    re = b.sub(b.mul(minus.first, plus.first), b.mul(minus.second, plus.second))
    im = b.sub(b.mul(minus.first, plus.second), b.mul(minus.second, plus.first))
    x, y = z.first, z.second
    infinite = b.or_(_infinite(b, x), _infinite(b, y))
    re = b.call("atan2", x, b.select(infinite, b.abs(y), re))
    return b.pair(z.dtype, b.select(_zero_and_nan(b, x, y), x, re), b.select(infinite, _signed(b, np.inf, y), b.call("asinh", im)))


@_named
@_in_double
def complex_acos(b: Builder, z: Pair) -> Pair:
    minus, plus = _roots(b, z)
    im = b.sub(b.mul(plus.first, minus.second), b.mul(plus.second, minus.first))
    x, y = z.first, z.second
    infinite = b.or_(_infinite(b, x), _infinite(b, y))
    angle = b.call("atan2", b.select(infinite, b.abs(y), minus.first), b.select(infinite, x, plus.first))
    re = b.select(infinite, angle, b.mul(2.0, angle))
    re = b.select(_zero_and_nan(b, x, y), b.const(np.pi / 2, x.dtype), re)
    return b.pair(z.dtype, re, b.select(infinite, b.neg(_signed(b, np.inf, y)), b.call("asinh", im)))


@_named
@_in_double
def complex_acosh(b: Builder, z: Pair) -> Pair:
    x, y = z.first, z.second
    minus = b.sqrt(b.pair(z.dtype, b.sub(x, 1.0), y))
    plus = b.sqrt(b.pair(z.dtype, b.add(x, 1.0), y))
    re = b.add(b.mul(minus.first, plus.first), b.mul(minus.second, plus.second))
    infinite = b.or_(_infinite(b, x), _infinite(b, y))
    angle = b.call("atan2", b.select(infinite, y, minus.second), b.select(infinite, x, plus.first))
    im = b.select(infinite, angle, b.mul(2.0, angle))
    im = b.select(_zero_and_nan(b, x, y), _signed(b, np.pi / 2, y), im)
    return b.pair(z.dtype, b.select(infinite, b.const(np.inf, x.dtype), b.call("asinh", re)), im)


@_named
def complex_asinh(b: Builder, z: Pair) -> Pair:
    """-i asin(iz)"""
    return _over_i(b, complex_asin(b, _times_i(b, z)))


@_named
@_in_double
def complex_atanh(b: Builder, z: Pair) -> Pair:
    """log1p(4x / ((1 - x)**2 + y**2)) / 4 + i atan2(2y, (1 - x)(1 + x) - y**2) / 2, for |x| with the sign put back"""
    x, y = b.abs(z.first), z.second
    gap = b.sub(1.0, x)
    re = b.mul(0.25, b.call("log1p", b.div(b.mul(4.0, x), b.fma(y, y, b.mul(gap, gap)))))
    im = b.mul(0.5, b.call("atan2", b.mul(2.0, y), b.sub(b.mul(gap, b.add(1.0, x)), b.mul(y, y))))
    infinite = b.or_(_infinite(b, x), _infinite(b, y))
    re = b.select(b.or_(infinite, _zero_and_nan(b, x, y)), b.const(0.0, x.dtype), re)
    im = b.select(b.and_(infinite, b.eq(y, y)), _signed(b, np.pi / 2, y), im)
    return b.pair(z.dtype, b.copysign(re, z.first), im)


@_named
def complex_atan(b: Builder, z: Pair) -> Pair:
    """-i atanh(iz)"""
    return _over_i(b, complex_atanh(b, _times_i(b, z)))


@_named
@_in_double
def complex_atan2(b: Builder, y: Pair, x: Pair) -> Pair:
    """-i log((x + iy) / sqrt(x**2 + y**2))"""
    ratio: Any = b.div(b.add(x, _times_i(b, y)), b.sqrt(b.add(b.mul(x, x), b.mul(y, y))))
    return _over_i(b, complex_log(b, ratio))
