"""The quotient and the square root of complex numbers, for `Builder.div` and `Builder.sqrt`. complex64 by way of float64."""

from __future__ import annotations

import math
from collections.abc import Callable

from steno.compiler.vecmath.core import function, machine
from steno.ir.expr import C64, C128, Builder, Expr, Pair


def _widened(f: Callable[..., Pair]) -> Callable[..., Pair]:
    def run(b: Builder, *zs: Pair) -> Pair:
        if zs[0].dtype != C64:
            return f(b, *zs)
        return b.convert(f(b, *(b.convert(z, C128) for z in zs)), C64)

    return run


def _sum_of_products(b: Builder, x: Expr, y: Expr, u: Expr, v: Expr) -> Expr:
    """x y + u v with a relative error of two roundings, even where it cancels (C.-P. Jeannerod, N. Louvet, J.-M. Muller, "Further
    analysis of Kahan's algorithm for the accurate computation of 2 x 2 determinants", Math. Comp. 82, 2013)."""
    p = b.mul(u, v)
    return b.add(b.fma(x, y, p), b.fma(u, v, b.neg(p)))


@function("complex_div")
@_widened
def complex_div(b: Builder, x: Pair, y: Pair) -> Pair:
    """x conj(y) / |y|**2, operands scaled by powers of two; infinities and zeros as in C's Annex G."""
    re, im, c, d = x.first, x.second, y.first, y.second
    m = machine(re)
    greatest = b.bitcast(b.max(b.abs(c), b.abs(d)), m.signed)
    field = b.min(b.lshr(greatest, m.mantissa), 2 * m.bias - 1)
    scale = b.bitcast(b.shl(b.sub(2 * m.bias, field), m.mantissa), m.dtype)  # near 1 / |y|
    great = b.gt(b.max(b.abs(re), b.abs(im)), 2.0 ** (m.bias - 4))
    down = b.select(great, b.const(1 / 16, m.dtype), 1.0)
    back = b.mul(scale, b.select(great, b.const(16.0, m.dtype), 1.0))
    p, q, r, s = b.mul(re, down), b.mul(im, down), b.mul(c, scale), b.mul(d, scale)
    size = b.fma(r, r, b.mul(s, s))
    plain = Pair(
        x.dtype,
        b.mul(b.div(_sum_of_products(b, p, r, q, s), size), back),
        b.mul(b.div(_sum_of_products(b, q, r, b.neg(p), s), size), back),
    )

    def unit(v: Expr) -> Expr:
        """1 for infinities, 0 for others, with v's sign"""
        return b.copysign(b.select(b.is_inf(v), b.const(1.0, m.dtype), 0.0), v)

    def times(factor: Expr | float, u: Expr, v: Expr, c: Expr, d: Expr) -> Pair:
        return Pair(x.dtype, b.mul(b.add(b.mul(u, c), b.mul(v, d)), factor), b.mul(b.sub(b.mul(v, c), b.mul(u, d)), factor))

    zero = b.and_(b.and_(b.eq(c, 0.0), b.eq(d, 0.0)), b.not_(b.and_(b.is_nan(re), b.is_nan(im))))
    infinite = b.and_(b.is_inf(x), b.is_finite(y))
    vanishing = b.and_(b.is_finite(x), b.is_inf(y))
    inf = b.copysign(b.const(math.inf, m.dtype), c)
    out = b.select(vanishing, times(0.0, re, im, unit(c), unit(d)), plain)
    out = b.select(infinite, times(math.inf, unit(re), unit(im), c, d), out)
    return b.select(zero, Pair(x.dtype, b.mul(inf, re), b.mul(inf, im)), out)


@function("complex_sqrt")
@_widened
def complex_sqrt(b: Builder, x: Pair) -> Pair:
    """t = sqrt((|re| + |x|) / 2) and |im| / 2 t are its components, in one or the other order; as in C's Annex G."""
    re, im = x.first, x.second
    m = machine(re)
    greatest = b.max(b.abs(re), b.abs(im))
    great, small = b.gt(greatest, 2.0 ** (m.bias - 4)), b.lt(greatest, m.tiny * 2.0 ** (2 * m.mantissa))
    scale = b.select(great, b.const(2.0**-4, m.dtype), b.select(small, b.const(2.0 ** (2 * m.mantissa), m.dtype), 1.0))
    back = b.select(great, b.const(2.0**2, m.dtype), b.select(small, b.const(2.0**-m.mantissa, m.dtype), 1.0))
    p, q = b.mul(b.abs(re), scale), b.mul(b.abs(im), scale)
    t = b.sqrt(b.mul(b.add(p, b.call("hypot", p, q)), 0.5))
    other = b.select(b.eq(t, 0.0), 0.0, b.div(b.mul(q, 0.5), t))
    t, other = b.mul(t, back), b.mul(other, back)
    left = b.sign_bit(re)
    first, second = b.select(left, other, t), b.select(left, t, other)
    # infinite im: (inf, im); infinite re and finite im: (inf, 0) or (0, inf)
    far, wide = b.is_inf(im), b.and_(b.is_inf(re), b.is_finite(im))
    inf = b.const(math.inf, m.dtype)
    first = b.select(far, inf, b.select(wide, b.select(left, b.const(0.0, m.dtype), inf), first))
    second = b.select(far, inf, b.select(wide, b.select(left, inf, 0.0), second))
    return Pair(x.dtype, first, b.copysign(second, im))
