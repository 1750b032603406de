"""sin, cos, tan.

|x| = q pi/2 + r + e in two parts: for moderate |x| by fma with a three-part pi/2 (W. J. Cody, W. Waite, 1980), the first product exact;
else, as a rare region, in integers with as many bits of 2/pi as matter (M. H. Payne, R. N. Hanek, "Radian reduction for trigonometric
functions", ACM SIGNUM 18, 1983)."""

from __future__ import annotations

import functools
from collections.abc import Callable

from steno.compiler.vecmath.core import Machine, function, horner, machine, nearest, two_product, two_sum_ordered, without
from steno.ir.expr import F32, F64, I64, OUTLINED, U64, Builder, Expr

# a zero word, then the bits of 2/pi after the point
TWO_OVER_PI_32 = (0x00000000, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB)
TWO_OVER_PI_64 = (
    0x0000000000000000, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484, 0xE99C7026B45F7E41,
    0x3991D639835339F4, 0x9C845F8BBDF9283B, 0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D, 0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB,
)  # fmt: skip

Quadrant = Callable[[Builder, Machine, Expr, Expr, Expr, Expr], Expr]
"""(b, machine, q, r, e, c) -> the function of q pi/2 + r + e; q: unsigned integer, its two low bits count; c: r, or 0 where r is tiny"""


def _limit(x: Expr) -> float:
    """Up to here round(x * 2/pi) is within 1/1000 of right, and three parts of pi/2 suffice."""
    return 2.0**15 if x.dtype == F32 else 2.0**28


def _reduced(b: Builder, x: Expr, f: Quadrant) -> Expr:
    """f of x: an odd or even function, of numbers of both signs.

    Loops wait for all that hangs together here, so that little does: the rest of n pi/2 is summed before r is known. Minus the error is
    summed, whose zeros are positive: e is -0 where x is a zero, and r + e then has its sign."""
    m = machine(x)
    t, n = nearest(b, x, 0.6366197723675814)
    exact = b.fma(n, -m.PI_2[0], x)
    p = b.mul(n, m.PI_2[1])
    lost = b.fma(n, m.PI_2[2], b.fma(n, m.PI_2[1], b.neg(p)))
    r = b.sub(exact, p)
    minus_e = b.add(b.sub(p, b.sub(exact, r)), lost)  # the difference's error is exact as `exact` has no bits below p's
    size = b.abs(x)
    return b.rare(
        b.not_(b.le(size, _limit(x))),
        f(b, m, b.bitcast(t, m.unsigned), r, b.neg(minus_e), without(b, b.lt(size, m.negligible), r)),
        _far(b, x, size, f),
    )


def _far(b: Builder, x: Expr, size: Expr, f: Quadrant) -> Expr:
    """The cosine is the sine a quadrant on: one function serves both."""
    m = machine(x)
    name, turns = ("tan", 0) if f is _tan_quadrant else ("sin", int(f is _cos_quadrant))
    y = b.outline(f"{name}_of_large_{x.dtype}", size, b.const(turns, m.unsigned))
    return _with_sign(b, y, b.bitcast(x, m.unsigned)) if f is _sin_quadrant else y


def _large(f: Quadrant, b: Builder, a: Expr, turns: Expr) -> Expr:
    """f of a >= 0 and so many quadrants more."""
    m = machine(a)
    q, r, e = (_payne_hanek_32 if m.dtype == F32 else _payne_hanek_64)(b, a)
    return b.select(b.is_finite(a), f(b, m, b.add(q, turns), r, e, r), float("nan"))


def _words(b: Builder, table: tuple[int, ...], position: Expr, count: int) -> list[Expr]:
    """table[position + k] for k < count, by a tree of selections; position + count <= len(table)."""
    values = [b.const(v, position.dtype) for v in table]
    step = 1 << ((len(table) - count).bit_length() - 1)
    while step:
        taken = b.ne(b.and_(position, step), 0)
        last = len(values) - 1
        values = [b.select(taken, values[min(k + step, last)], values[k]) for k in range(min(count + step - 1, len(values)))]
        step //= 2
    return values


def _payne_hanek_32(b: Builder, a: Expr) -> tuple[Expr, Expr, Expr]:
    """a = M * 2**s, M of 24 bits. Of 2/pi the bits of weight 2**(1 - s) and down are taken, 96 of them: those above contribute whole
    periods. The product, modulo 4, is a fixed-point number with 62 bits after the point."""
    m = machine(a)
    bits = b.bitcast(a, m.unsigned)
    start = b.sub(b.lshr(bits, 23), 150 + 2 - 32)
    w = _words(b, TWO_OVER_PI_32, b.lshr(start, 5), 4)
    shift = b.convert(b.and_(start, 31), U64)
    wide = [b.convert(v, U64) for v in w]
    window = [b.and_(b.lshr(b.shl(b.or_(b.shl(wide[k], 32), wide[k + 1]), shift), 32), 0xFFFFFFFF) for k in range(3)]
    mantissa = b.convert(b.or_(b.and_(bits, 0x7FFFFF), 0x800000), U64)
    product = b.add(b.add(b.shl(b.mul(mantissa, window[0]), 32), b.mul(mantissa, window[1])), b.lshr(b.mul(mantissa, window[2]), 32))
    q = b.lshr(b.add(product, 1 << 61), 62)
    fraction = b.convert(b.bitcast(b.sub(product, b.shl(q, 62)), I64), F64)
    angle = b.mul(fraction, 1.5707963267948966 * 2.0**-62)
    r = b.convert(angle, F32)
    return b.convert(q, m.unsigned), r, b.convert(b.sub(angle, b.convert(r, F64)), F32)


def _payne_hanek_64(b: Builder, a: Expr) -> tuple[Expr, Expr, Expr]:
    """The same with 192 bits of 2/pi and 126 after the point."""
    m = machine(a)
    bits = b.bitcast(a, m.unsigned)
    start = b.sub(b.lshr(bits, 52), 1075 + 2 - 64)
    w = _words(b, TWO_OVER_PI_64, b.lshr(start, 6), 4)
    shift = b.and_(start, 63)
    back = b.sub(64, shift)
    window = [b.or_(b.shl(w[k], shift), b.lshr(w[k + 1], back)) for k in range(3)]
    mantissa = b.or_(b.and_(bits, (1 << 52) - 1), 1 << 52)
    middle = b.mul(mantissa, window[1])
    low = b.add(middle, b.mulhi(mantissa, window[2]))
    carry = b.convert(b.lt(low, middle), U64)
    high = b.add(b.add(b.mul(mantissa, window[0]), b.mulhi(mantissa, window[1])), carry)
    q = b.lshr(b.add(high, 1 << 61), 62)
    rest = b.sub(high, b.shl(q, 62))
    # the fraction as a float and a rest: 52 of its bits, then the others
    top = b.convert(b.bitcast(b.and_(rest, (1 << 64) - (1 << 10)), I64), F64)
    bottom = b.fma(b.convert(low, F64), 2.0**-64, b.convert(b.and_(rest, (1 << 10) - 1), F64))
    s, e = two_sum_ordered(b, top, bottom)
    p, p_error = two_product(b, s, b.const(m.PI_2[0], F64))
    r, e = two_sum_ordered(b, p, b.add(p_error, b.fma(s, m.PI_2[1], b.mul(e, m.PI_2[0]))))
    return q, b.mul(r, 2.0**-62), b.mul(e, 2.0**-62)


def sin_cos(b: Builder, m: Machine, r: Expr, e: Expr, c: Expr) -> tuple[Expr, Expr]:
    """sin and cos of r + e, |r| <= pi/4. The cosine is 1 - (r**2 + ..) / 2, r**2 entering its sum unrounded. c is r, or 0 where that is
    tiny."""
    z = b.mul(r, c)
    sin = b.add(r, b.fma(b.mul(r, z), horner(b, z, m.polynomial("SIN")), e))
    tail = b.fma(b.mul(z, z), horner(b, z, m.polynomial("COS")), b.mul(b.add(c, c), e))
    return sin, b.fma(b.fma(r, c, tail), -0.5, 1.0)


def _odd(b: Builder, q: Expr) -> Expr:
    return b.ne(b.and_(q, 1), 0)


def _with_sign(b: Builder, x: Expr, bits: Expr) -> Expr:
    """x, its sign flipped where the top bit of `bits` is set."""
    m = machine(x)
    top = b.and_(bits, 1 << (m.mantissa + 8 if m.dtype == F32 else 63))
    return b.bitcast(b.xor(b.bitcast(x, m.unsigned), top), m.dtype)


def _second_bit_to_top(b: Builder, m: Machine, q: Expr) -> Expr:
    return b.shl(q, (31 if m.dtype == F32 else 63) - 1)


def _sin_quadrant(b: Builder, m: Machine, q: Expr, r: Expr, e: Expr, c: Expr) -> Expr:
    sin, cos = sin_cos(b, m, r, e, c)
    return _with_sign(b, b.select(_odd(b, q), cos, sin), _second_bit_to_top(b, m, q))


def _cos_quadrant(b: Builder, m: Machine, q: Expr, r: Expr, e: Expr, c: Expr) -> Expr:
    sin, cos = sin_cos(b, m, r, e, c)
    return _with_sign(b, b.select(_odd(b, q), sin, cos), _second_bit_to_top(b, m, b.add(q, 1)))


def _tan_quadrant(b: Builder, m: Machine, q: Expr, r: Expr, e: Expr, c: Expr) -> Expr:
    """tan in two parts t + d; in odd quadrants -1 / (t + d), corrected by its remainder. The derivative at r, 1 + tan(r)**2, multiplies e;
    that of the series with respect to r**2, about r/2, its rounding error."""
    z, z_error = two_product(b, r, c)
    cube = b.mul(r, z)
    p = horner(b, z, m.polynomial("TAN"))
    rough = b.fma(cube, p, c)
    t, d = two_sum_ordered(b, r, b.fma(cube, p, b.fma(b.mul(r, z_error), 0.5, b.fma(b.mul(rough, rough), e, e))))
    p = b.div(-1.0, t)
    rest = b.fma(p, t, 1.0)
    inverse = b.fma(p, b.fma(p, d, rest), p)
    return b.select(_odd(b, q), inverse, t)


for _name, _quadrant in (("sin", _sin_quadrant), ("tan", _tan_quadrant)):
    for _dtype in (F32, F64):
        OUTLINED[f"{_name}_of_large_{_dtype}"] = functools.partial(_large, _quadrant)


@function("sin")
def sin(b: Builder, x: Expr) -> Expr:
    return _reduced(b, x, _sin_quadrant)


@function("cos")
def cos(b: Builder, x: Expr) -> Expr:
    return _reduced(b, x, _cos_quadrant)


@function("tan")
def tan(b: Builder, x: Expr) -> Expr:
    m = machine(x)
    return _with_sign(b, _reduced(b, b.abs(x), _tan_quadrant), b.bitcast(x, m.unsigned))
