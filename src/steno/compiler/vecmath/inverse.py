"""asin, acos, atan, atan2; asinh, acosh, atanh.

The inverse circular functions are odd polynomials, on [-1/2, 1/2] for asin, on [-1, 1] for atan; identities bring other arguments there.
The leading term, and where its rounding would show its error, are added last.
"""

from __future__ import annotations

import math

from steno.compiler.vecmath.core import function, horner, machine, two_product, two_sum, two_sum_ordered, without
from steno.compiler.vecmath.logarithm import log1p_sum
from steno.ir.expr import F32, Builder, Expr


def _root(b: Builder, z: Expr, z_error: Expr | float = 0.0) -> tuple[Expr, Expr]:
    """sqrt(z + z_error) = s + e for z >= 0"""
    s = b.sqrt(z)
    e = b.div(b.add(b.fma(b.neg(s), s, z), z_error), b.add(s, s))
    return s, b.select(b.gt(s, 0.0), e, 0.0)


def _quotient(b: Builder, y: Expr, x: Expr, y_error: Expr | float, x_error: Expr) -> tuple[Expr, Expr]:
    """(y + y_error) / (x + x_error) = q + e"""
    q = b.div(y, x)
    rest = b.add(b.fma(b.neg(q), x, y), y_error)
    return q, b.div(b.fma(b.neg(q), x_error, rest), x)


def _asin_parts(b: Builder, x: Expr) -> tuple[Expr, Expr, Expr, Expr]:
    """(large, s, e, w): asin of u = s + e is s + w + e, where u is |x| up to 1/2, beyond (large) sqrt((1 - |x|) / 2)."""
    m = machine(x)
    a = b.abs(x)
    large = b.gt(a, 0.5)
    square = b.mul(a, without(b, b.lt(a, m.negligible), a))
    z = b.select(large, b.fma(a, -0.5, 0.5), square)
    root, root_error = _root(b, z)
    s = b.select(large, root, a)
    e = b.select(large, root_error, 0.0)
    return large, s, e, b.mul(b.mul(s, z), horner(b, z, m.polynomial("ASIN")))


@function("asin")
def asin(b: Builder, x: Expr) -> Expr:
    """asin|x| = pi/2 - 2 asin(sqrt((1 - |x|) / 2)) beyond 1/2"""
    m = machine(x)
    large, s, e, w = _asin_parts(b, x)
    first = b.fma(s, -2.0, m.PI_2[0])
    first_error = b.fma(s, -2.0, b.sub(m.PI_2[0], first))
    rest = b.add(b.fma(b.add(w, e), -2.0, m.PI_2[1]), first_error)
    return b.copysign(b.select(large, b.add(first, rest), b.add(s, w)), x)


@function("acos")
def acos(b: Builder, x: Expr) -> Expr:
    """pi/2 - asin(x) up to 1/2, 2 asin(sqrt((1 - x) / 2)) beyond, pi minus that of -x for negative x"""
    m = machine(x)
    large, s, e, w = _asin_parts(b, x)
    w = b.add(w, e)
    negative = b.lt(x, 0.0)
    # (constant, factor of s): large: (0, 2) or (pi, -2), else (pi/2, -1) or (pi/2, 1)
    factor = b.select(large, b.select(negative, b.const(-2.0, x.dtype), 2.0), b.select(negative, b.const(1.0, x.dtype), -1.0))
    multiple = b.select(large, b.select(negative, b.const(2.0, x.dtype), 0.0), 1.0)
    base, base_low = b.mul(multiple, m.PI_2[0]), b.mul(multiple, m.PI_2[1])
    first = b.fma(factor, s, base)
    error = b.fma(factor, s, b.sub(base, first))
    return b.add(first, b.add(b.fma(factor, w, base_low), error))


def _atan_tail(b: Builder, t: Expr, e: Expr, tiny: Expr) -> Expr:
    """atan(t + e) - t for 0 <= t <= 1, by derivatives in e, and in the rounding error of t**2 (near 1, where it shows)"""
    z, z_error = two_product(b, t, without(b, tiny, t))
    small = b.fma(b.mul(e, -0.5), z, b.fma(b.mul(t, z_error), -0.15, e))
    return b.fma(b.mul(t, z), horner(b, z, machine(t).polynomial("ATAN")), small)


@function("atan")
def atan(b: Builder, x: Expr) -> Expr:
    """atan|x| = pi/2 - atan(1 / |x|) beyond 1"""
    m = machine(x)
    a = b.abs(x)
    large = b.gt(a, 1.0)
    inverse = b.div(1.0, a)
    t = b.select(large, inverse, a)
    # the error of 1 / |x|; |x| near its maximum makes 1 / |x| subnormal, which then does not matter
    e = b.select(large, b.mul(b.fma(b.neg(inverse), b.min(a, 2.0**100), 1.0), inverse), 0.0)
    w = _atan_tail(b, t, e, b.lt(t, m.negligible))
    first = b.sub(m.PI_2[0], t)
    error = b.sub(b.sub(m.PI_2[0], first), t)
    beyond = b.add(first, b.sub(b.add(error, m.PI_2[1]), w))
    return b.copysign(b.select(large, beyond, b.add(t, w)), x)


@function("atan2")
def atan2(b: Builder, y: Expr, x: Expr) -> Expr:
    """The angle of the point (x, y): atan(smaller / greater), then pi/2 minus it, then pi minus that. Zeros and infinities as in C."""
    m = machine(x)
    ax, ay = b.abs(x), b.abs(y)
    steep = b.gt(ay, ax)
    low, high = b.select(steep, ax, ay), b.select(steep, ay, ax)
    # quotients of subnormals, and remainders, need room: both are scaled, which keeps the quotient
    half = m.bias // 2
    up = b.select(b.lt(high, 2.0**-half), b.const(2.0**half, x.dtype), 1.0)
    scale = b.select(b.gt(high, 2.0**half), b.const(2.0 ** -(half // 2), x.dtype), up)
    low, high = b.mul(low, scale), b.mul(high, scale)
    t = b.div(low, high)
    tiny = b.lt(t, m.negligible)  # then t, being rounded, is the angle
    e = b.div(b.fma(b.neg(without(b, tiny, t)), high, without(b, tiny, low)), high)
    special = b.or_(b.eq(high, 0.0), b.eq(low, math.inf))
    t = b.select(special, b.select(b.eq(high, 0.0), b.const(0.0, x.dtype), 1.0), t)
    e = b.select(b.lt(b.abs(e), math.inf), e, 0.0)
    w = _atan_tail(b, t, e, tiny)
    # t + w, subtracted from pi/2 if steep, from pi then if x is negative: base + factor * (t + w)
    negative = b.sign_bit(x)
    flip = b.ne(steep, negative)
    multiple = b.select(steep, b.const(1.0, x.dtype), b.select(negative, b.const(2.0, x.dtype), 0.0))
    base, base_low = b.mul(multiple, m.PI_2[0]), b.mul(multiple, m.PI_2[1])
    factor = b.select(flip, b.const(-1.0, x.dtype), 1.0)
    first = b.fma(factor, t, base)
    error = b.fma(factor, t, b.sub(base, first))
    angle = b.add(first, b.add(b.fma(factor, w, base_low), error))
    return b.copysign(b.select(b.or_(b.is_nan(x), b.is_nan(y)), math.nan, angle), y)


def _beyond(x: Expr) -> float:
    """log(x + sqrt(x**2 + 1)) is log(2 x) from here on, and x**2 finite up to here."""
    return 2.0**30 if x.dtype == F32 else 2.0**60


def _log1p_or_log2x(b: Builder, a: Expr, u: Expr, u_error: Expr, tiny: Expr | None = None) -> Expr:
    """log(1 + u + u_error), for great a (which may be infinite) log(2 a) as log(1 + a/4) + 3 ln 2"""
    great = b.gt(a, _beyond(a))
    extra = b.select(great, b.const(3.0, a.dtype), 0.0)
    y = log1p_sum(b, b.select(great, b.mul(a, 0.25), u), b.select(great, 0.0, u_error), tiny, extra)
    return b.select(b.eq(a, math.inf), a, y)


@function("asinh")
def asinh(b: Builder, x: Expr) -> Expr:
    """log(1 + u), u = |x| + x**2 / (1 + sqrt(1 + x**2)), everything in two parts"""
    a = b.abs(x)
    tiny = b.lt(a, machine(x).negligible)
    p, p_error = two_product(b, a, without(b, tiny, a))
    one = b.const(1.0, x.dtype)
    t, t_error = two_sum(b, one, p)
    s, s_error = _root(b, t, b.add(t_error, p_error))
    d, d_error = two_sum_ordered(b, s, one)
    q, q_error = _quotient(b, p, d, p_error, b.add(d_error, s_error))
    u, u_error = two_sum(b, a, q)
    return b.copysign(_log1p_or_log2x(b, a, u, b.add(u_error, q_error), tiny), x)


@function("acosh")
def acosh(b: Builder, x: Expr) -> Expr:
    """log(1 + t + sqrt(t (t + 2))), t = x - 1, which is exact"""
    t = b.sub(x, 1.0)
    w, w_error = two_sum(b, t, b.const(2.0, x.dtype))
    p, p_error = two_product(b, t, w)
    s, s_error = _root(b, p, b.fma(t, w_error, p_error))
    u, u_error = two_sum(b, s, t)
    return b.select(b.ge(x, 1.0), _log1p_or_log2x(b, x, u, b.add(u_error, s_error)), math.nan)


@function("atanh")
def atanh(b: Builder, x: Expr) -> Expr:
    """log(1 + 2 |x| / (1 - |x|)) / 2"""
    a = b.abs(x)
    tiny = b.lt(a, machine(x).negligible)
    d, d_error = two_sum_ordered(b, b.const(1.0, x.dtype), b.neg(without(b, tiny, a)))
    q, q_error = _quotient(b, b.add(a, a), d, 0.0, d_error)
    y = b.mul(log1p_sum(b, q, q_error, tiny), 0.5)
    inside = b.select(b.lt(a, 1.0), y, b.select(b.eq(a, 1.0), b.const(math.inf, x.dtype), math.nan))
    return b.copysign(inside, x)
