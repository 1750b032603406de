"""pow, cbrt, rsqrt, hypot."""

from __future__ import annotations

import math

from steno.compiler.vecmath.core import Machine, function, horner, machine, two_product, two_sum_ordered, without
from steno.compiler.vecmath.logarithm import split
from steno.ir.expr import F32, F64, I64, Builder, Expr


@function("pow")
def power(b: Builder, x: Expr, y: Expr) -> Expr:
    """C's pow. float32 by way of float64, float64 with log2|x| in two parts."""
    magnitude = _power_32(b, b.abs(x), y) if x.dtype == F32 else _power_64(b, b.abs(x), y)
    return _special_powers(b, x, y, magnitude)


def _special_powers(b: Builder, x: Expr, y: Expr, magnitude: Expr) -> Expr:
    """Zeros, infinities, signs, and y = 0 and x = 1, which give 1 even with NaN."""
    dtype = x.dtype

    def const(value: float) -> Expr:
        return b.const(value, dtype)

    a = b.abs(x)
    half = b.mul(y, 0.5)
    whole = b.eq(b.trunc(y), y)  # infinities are even integers
    odd = b.and_(whole, b.ne(b.trunc(half), half))
    vanishes = b.eq(b.gt(y, 0.0), b.lt(a, 1.0))
    edge = b.or_(b.eq(a, 0.0), b.eq(a, math.inf))
    edge = b.or_(edge, b.eq(b.abs(y), math.inf))
    z = b.select(edge, b.select(vanishes, const(0.0), math.inf), magnitude)
    z = b.select(b.or_(b.is_nan(x), b.is_nan(y)), math.nan, z)
    z = b.select(b.and_(b.sign_bit(x), odd), b.neg(z), z)
    z = b.select(b.and_(b.and_(b.lt(x, 0.0), b.is_finite(x)), b.not_(whole)), math.nan, z)
    one = b.or_(b.eq(y, 0.0), b.or_(b.eq(x, 1.0), b.and_(b.eq(x, -1.0), b.eq(b.abs(y), math.inf))))
    return b.select(one, 1.0, z)


def _power_32(b: Builder, a: Expr, y: Expr) -> Expr:
    """2**(y log2 a) in float64, good to 2**-35: rounding to float32 is the only error that shows."""
    m = machine(b.const(0, F64))
    k, f = split(b, b.convert(a, F64))
    log2 = b.fma(b.mul(f, f), horner(b, f, m.polynomial("POW_LOG2")), b.fma(f, m.LOG2E[0], k))
    t = b.min(b.max(b.mul(b.convert(y, F64), log2), -200.0), 200.0)
    shifted = b.add(t, m.magic)
    r = b.sub(t, b.sub(shifted, m.magic))
    p = b.fma(r, horner(b, r, m.polynomial("POW_EXP2")), 1.0)
    return b.convert(b.bitcast(b.add(b.bitcast(p, I64), b.shl(b.bitcast(shifted, I64), m.mantissa)), F64), F32)


def _power_64(b: Builder, a: Expr, y: Expr) -> Expr:
    m = machine(a)
    high, low = _log2_parts(b, a)
    t, t_error = two_product(b, y, high)
    t_error = b.fma(y, low, t_error)
    # far out, where the product may overflow, the outcome is 0 or infinite
    beyond = b.not_(b.lt(b.abs(t), 1100.0))
    t = b.select(beyond, b.min(b.max(t, -1100.0), 1100.0), t)
    t_error = b.select(beyond, 0.0, t_error)
    n = b.sub(b.add(t, m.magic), m.magic)
    r, r_error = two_sum_ordered(b, b.sub(t, n), t_error)
    q = b.fma(r_error, math.log(2), b.mul(r, horner(b, r, m.polynomial("EXP2"))))
    return b.scale(b.add(q, 1.0), n)


def _log2_parts(b: Builder, a: Expr) -> tuple[Expr, Expr]:
    """log2(a), a > 0, to about 2**-66. With s = (m - 1) / (m + 1): log m = 2 s + s**3 (2/3 + s**2 Q(s**2)), partly in two parts."""
    m = machine(a)
    subnormal = b.lt(a, m.tiny)
    k, f = split(b, b.select(subnormal, b.mul(a, 2.0**54), a))
    k = b.select(subnormal, b.sub(k, 54.0), k)
    d = b.add(f, 2.0)
    d_error = b.sub(f, b.sub(d, 2.0))
    inverse = b.div(1.0, d)
    s = b.mul(f, inverse)
    s_error = b.mul(b.fma(b.neg(s), d_error, b.fma(b.neg(s), d, f)), inverse)
    z, z_error = two_product(b, s, s)
    z_error = b.fma(b.add(s, s), s_error, z_error)
    # 2/3 as a sum of two floats
    c, c_error = two_sum_ordered(b, b.const(2 / 3, a.dtype), b.mul(z, horner(b, z, m.polynomial("POW_ATANH"))))
    c_error = b.add(c_error, 3.700743415417188e-17)
    v, v_error = two_product(b, s, z)
    v_error = b.fma(s, z_error, b.fma(s_error, z, v_error))
    u, u_error = two_product(b, v, c)
    u_error = b.fma(v, c_error, b.fma(v_error, c, u_error))
    h, h_error = two_sum_ordered(b, b.add(s, s), u)
    h_error = b.add(b.fma(s_error, 2.0, u_error), h_error)
    w, w_error = two_product(b, h, b.const(m.LOG2E[0], a.dtype))
    w_error = b.fma(h, m.LOG2E[1], b.fma(h_error, m.LOG2E[0], w_error))
    high, low = two_sum_ordered(b, k, w)
    return two_sum_ordered(b, high, b.add(low, w_error))


@function("cbrt")
def cbrt(b: Builder, x: Expr) -> Expr:
    """y = |x|**(-1/3): a guess by dividing the exponent's bits, then steps of order 4 and 2 (float64: 3); |x|**(1/3) = |x| y**2,
    corrected by its remainder."""
    m = machine(x)
    a = b.abs(x)
    # there remainders need room
    small = b.lt(a, m.tiny * 2.0 ** (3 * m.mantissa))
    up = 3 * (m.mantissa + 8)
    v = b.select(small, b.mul(a, 2.0**up), a)
    y = _inverse_cube_root_guess(b, v, m)
    for coefficients in ((1 / 3, 2 / 9, 14 / 81), (1 / 3, 2 / 9)) if m.dtype == F64 else ((1 / 3, 2 / 9, 14 / 81), (1 / 3,)):
        e = b.fma(b.neg(b.mul(v, y)), b.mul(y, y), 1.0)
        series = horner(b, e, coefficients) if len(coefficients) > 1 else b.const(coefficients[0], x.dtype)
        y = b.fma(b.mul(y, e), series, y)
    square = b.mul(y, y)
    c = b.mul(v, square)
    c2, c2_error = two_product(b, c, c)
    rest = b.fma(b.neg(c2_error), c, b.fma(b.neg(c2), c, v))
    c = b.fma(rest, b.mul(square, 1 / 3), c)
    c = b.select(small, b.mul(c, 2.0 ** -(up // 3)), c)
    regular = b.and_(b.gt(a, 0.0), b.lt(a, math.inf))
    return b.select(regular, b.copysign(c, x), b.add(x, x))


def _inverse_cube_root_guess(b: Builder, v: Expr, m: Machine) -> Expr:
    """Within 3.5 %: the bits of v**(-1/3) are nearly those of 1, 4/3 times, less a third of v's."""
    if m.dtype == F32:
        third = b.convert(b.mul(b.convert(b.bitcast(v, m.signed), F32), 1 / 3), m.signed)
        return b.bitcast(b.sub(0x54A1F76D, third), F32)
    # the upper half of the bits, divided as a float
    upper = b.sub(b.bitcast(b.or_(b.lshr(b.bitcast(v, m.unsigned), 32), 0x4330000000000000), F64), 2.0**52)
    third = b.bitcast(b.fma(upper, 1 / 3, m.magic), m.unsigned)
    return b.bitcast(b.sub(0x553EE9985E3D21CD, b.shl(third, 32)), F64)


@function("rsqrt")
def rsqrt(b: Builder, x: Expr) -> Expr:
    """1 / sqrt(x), the errors of root and quotient removed by their remainders (for which small x are scaled up)."""
    m = machine(x)
    small = b.lt(x, m.tiny * 2.0 ** (m.mantissa + 4))
    half = m.mantissa + 5
    v = b.select(small, b.mul(x, 2.0 ** (2 * half)), x)
    s = b.sqrt(v)
    y = b.div(1.0, s)
    rest = b.fma(b.mul(b.fma(b.neg(s), s, v), y), b.mul(y, -0.5), b.fma(b.neg(s), y, 1.0))
    y = b.select(b.and_(b.gt(v, 0.0), b.lt(v, math.inf)), b.fma(y, rest, y), y)
    return b.select(small, b.mul(y, 2.0**half), y)


@function("hypot")
def hypot(b: Builder, x: Expr, y: Expr) -> Expr:
    """sqrt(x**2 + y**2), scaled by a power of two, the sum in two parts and the root corrected. Infinite if either is, even beside NaN."""
    m = machine(x)
    ax, ay = b.abs(x), b.abs(y)
    swap = b.lt(ax, ay)
    p, q = b.select(swap, ay, ax), b.select(swap, ax, ay)
    big, small = 2.0 ** (m.bias // 2 - 2), 2.0 ** (m.mantissa - m.bias // 2 + 4)
    high, low = b.gt(p, big), b.lt(p, small)
    up, down = 2.0 ** (m.bias // 2 + m.mantissa), 2.0 ** -(m.bias // 2 + 3)
    factor = b.select(high, b.const(down, x.dtype), b.select(low, b.const(up, x.dtype), 1.0))
    back = b.select(high, b.const(1 / down, x.dtype), b.select(low, b.const(1 / up, x.dtype), 1.0))
    p, q = b.mul(p, factor), b.mul(q, factor)
    q = without(b, b.lt(q, b.mul(p, 2.0 ** -(m.mantissa // 2 + 3))), q)
    pp, pp_error = two_product(b, p, p)
    qq, qq_error = two_product(b, q, q)
    t, t_error = two_sum_ordered(b, pp, qq)
    s = b.sqrt(t)
    rest = b.add(b.fma(b.neg(s), s, t), b.add(t_error, b.add(pp_error, qq_error)))
    s = b.select(b.gt(s, 0.0), b.add(s, b.div(rest, b.add(s, s))), s)
    infinite = b.or_(b.eq(ax, math.inf), b.eq(ay, math.inf))
    return b.select(infinite, math.inf, b.mul(s, back))
