"""lgamma and digamma, by their asymptotic series for z >= 8 (M. Abramowitz, I. Stegun, Handbook of Mathematical Functions, 6.1.41,
6.3.18). Smaller arguments are raised by 8, those below 1/2 reflected. Near the zeros of lgamma (1 and 2) and digamma it is the absolute
error that is small. float32 goes by way of float64."""

from __future__ import annotations

import math

from steno.compiler.vecmath.core import function, horner, machine, two_product, two_sum, without
from steno.compiler.vecmath.logarithm import log_parts, split
from steno.compiler.vecmath.trigonometric import sin_cos
from steno.ir.expr import F64, Builder, Expr

# x (x + 1) ... (x + 7)
RISING = (0.0, 5040.0, 13068.0, 13132.0, 6769.0, 1960.0, 322.0, 28.0, 1.0)
# the coefficients B(2 k) / 2 k of the series of digamma; over 2 k - 1: of lgamma
DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160, 43867 / 14364, -174611 / 6600)
LGAMMA = tuple(c / (2 * k + 1) for k, c in enumerate(DIGAMMA))
PI = (math.pi, 1.2246467991473532e-16)


def _sin_cos_pi(b: Builder, x: Expr) -> tuple[Expr, Expr]:
    """|sin(pi x)| and cos(pi x), up to a common sign: with x - round(x) = r in [-1/2, 1/2] those of pi r."""
    r = b.sub(x, b.round_even(x))
    a = b.abs(r)
    steep = b.gt(a, 0.25)
    v = b.select(steep, b.sub(0.5, a), a)
    w = b.mul(v, PI[0])
    m = machine(x)
    e = b.fma(v, PI[1], b.fma(v, PI[0], b.neg(w)))
    sin, cos = sin_cos(b, m, w, e, without(b, b.lt(w, m.negligible), w))
    return b.select(steep, cos, sin), b.copysign(b.select(steep, sin, cos), r)


def _arguments(b: Builder, v: Expr) -> tuple[Expr, ...]:
    """(reflected, u, raised, c, z, e): u is v or 1 - v, z + e is u or u + 8, c is u where it is raised."""
    reflected = b.lt(v, 0.5)
    u = b.select(reflected, b.sub(1.0, v), v)
    u_error = b.select(reflected, b.sub(b.sub(1.0, u), v), 0.0)
    raised = b.lt(u, 8.0)
    z = b.select(raised, b.add(u, 8.0), u)
    lost = b.select(raised, b.sub(u, b.sub(z, 8.0)), 0.0)
    return reflected, u, raised, b.min(u, 8.0), z, b.add(lost, u_error)


@function("lgamma")
def lgamma(b: Builder, x: Expr) -> Expr:
    """(z - 1/2) log z - z + log(2 pi) / 2 + 1 / 12 z - ..., sums in two parts, less the logarithm of what Gamma was raised by."""
    v = b.convert(x, F64)
    reflected, u, raised, c, z, z_error = _arguments(b, v)
    h, h_error = log_parts(b, *split(b, z))
    a = b.sub(z, 0.5)
    main, main_error = two_product(b, a, h)
    main_error = b.fma(a, h_error, b.fma(z_error, h, main_error))
    main, lost = two_sum(b, main, b.neg(z))
    y = b.div(1.0, z)
    series = b.fma(y, horner(b, b.mul(y, y), LGAMMA), b.add(main_error, lost))
    factor = b.select(raised, b.mul(c, horner(b, c, RISING[1:])), 1.0)
    sin, _ = _sin_cos_pi(b, v)
    # Gamma(x) = pi / (sin(pi x) Gamma(1 - x))
    tiny = b.and_(reflected, b.lt(sin, 2.0**-900))
    # there sin(pi x) = pi |x|, scaled before it could be subnormal
    sin = b.select(tiny, b.mul(b.mul(b.abs(v), 2.0**150), PI[0]), sin)
    k, f = split(b, b.select(reflected, b.div(sin, factor), factor))
    rest, rest_error = log_parts(b, b.select(tiny, b.sub(k, 150.0), k), f)
    flip = b.select(reflected, b.const(-1.0, F64), 1.0)
    # log(2 pi) / 2, or log(pi) less that: main + constant in the direction of the result
    first, first_error = two_sum(b, b.mul(main, flip), b.neg(rest))
    constant = b.select(reflected, b.const(math.log(math.pi) - math.log(2 * math.pi) / 2, F64), math.log(2 * math.pi) / 2)
    first, second_error = two_sum(b, first, constant)
    out = b.add(first, b.add(b.add(first_error, second_error), b.fma(series, flip, b.neg(rest_error))))
    out = b.select(b.or_(b.eq(v, 1.0), b.eq(v, 2.0)), 0.0, out)
    pole = b.and_(b.le(v, 0.0), b.eq(b.floor(v), v))
    infinite = b.or_(pole, b.or_(b.eq(b.abs(v), math.inf), b.gt(v, 2.6e305)))
    return b.convert(b.select(infinite, math.inf, out), x.dtype)


@function("digamma")
def digamma(b: Builder, x: Expr) -> Expr:
    """log z - 1 / 2 z - 1 / 12 z**2 + ..., less 1/u + (1/(u + 1) + ... + 1/(u + 7)) for raised u, the latter the logarithmic derivative of
    a polynomial; less pi / tan(pi x) for reflected x. -inf at zeros, NaN at the other poles."""
    v = b.convert(x, F64)
    reflected, u, raised, c, z, _ = _arguments(b, v)
    product = RISING[1:]
    slope = horner(b, c, [k * r for k, r in enumerate(product)][1:])
    added = b.select(raised, b.div(slope, horner(b, c, product)), 0.0)
    inverse = b.div(1.0, c)
    inverse_error = b.mul(b.fma(b.neg(inverse), c, 1.0), inverse)
    y = b.div(1.0, z)
    y2 = b.mul(y, y)
    series = b.add(b.fma(y2, horner(b, y2, DIGAMMA), b.mul(y, 0.5)), b.select(raised, inverse_error, 0.0))
    h, e = log_parts(b, *split(b, z))
    first, error = two_sum(b, h, b.neg(added))
    second, error2 = two_sum(b, first, b.select(raised, b.neg(inverse), 0.0))
    main = b.add(second, b.add(b.add(error, error2), b.sub(e, series)))
    sin, cos = _sin_cos_pi(b, v)
    out = b.select(reflected, b.fma(b.div(cos, sin), -PI[0], main), main)
    out = b.select(b.eq(v, math.inf), v, out)
    pole = b.or_(b.and_(b.lt(v, 0.0), b.eq(b.floor(v), v)), b.eq(v, -math.inf))
    out = b.select(pole, math.nan, b.select(b.eq(v, 0.0), -math.inf, out))
    return b.convert(out, x.dtype)
