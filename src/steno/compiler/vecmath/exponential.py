"""exp, exp2, expm1, logistic, sinh, cosh, tanh.

Arguments are reduced by n = round(x / ln 2), r = x - n ln 2 (W. J. Cody, W. Waite, Software Manual for the Elementary Functions, 1980; with
fma the first product needs no spare bits), then e**r is a polynomial. Where a rounding error would show, sums are kept in two parts.
"""

from __future__ import annotations

from steno.compiler.vecmath.core import exponent_field, function, horner, machine, nearest, two_sum_ordered, without
from steno.ir.expr import F32, Builder, Expr


def reduce_ln2(b: Builder, x: Expr, offset: int = 0) -> tuple[Expr, Expr, Expr, Expr]:
    """(t, n, r, e): x = n ln 2 + r + e, |r| < 0.347, e below an ulp of r; t as of `nearest`. An unused e costs nothing."""
    m = machine(x)
    t, n = nearest(b, x, m.LOG2E[0], offset)
    exact = b.fma(n, -m.LN2[0], x)
    r = b.fma(n, -m.LN2[1], exact)
    return t, n, r, b.fma(n, -m.LN2[1], b.sub(exact, r))


def exp_tail(b: Builder, r: Expr) -> Expr:
    """e**r - 1 - r, divided by r**2"""
    return horner(b, r, machine(r).polynomial("EXP"))


def exp_scaled(b: Builder, x: Expr, shift: int = 0) -> Expr:
    """e**x * 2**shift, for x where that is 0, finite or just beyond."""
    _, n, r, _ = reduce_ln2(b, x)
    p = b.fma(r, b.fma(r, exp_tail(b, r), 1.0), 1.0)
    return b.scale(p, b.add(n, float(shift)) if shift else n)


@function("exp")
def exp(b: Builder, x: Expr) -> Expr:
    low, high = (-104.0, 89.0) if x.dtype == F32 else (-746.0, 710.0)
    return exp_scaled(b, b.min(b.max(x, low), high))


@function("exp2")
def exp2(b: Builder, x: Expr) -> Expr:
    m = machine(x)
    x = b.min(b.max(x, -float(m.bias + m.mantissa + 1)), float(m.bias + 2))
    n = b.sub(b.add(x, m.magic), m.magic)
    r = b.sub(x, n)
    return b.scale(b.fma(r, horner(b, r, m.polynomial("EXP2")), 1.0), n)


@function("expm1")
def expm1(b: Builder, x: Expr) -> Expr:
    """2**n (1 + r + ..) - 1 --> (2**n - 1) + 2**n r + 2**n (..), the first two sums in two parts."""
    m = machine(x)
    tiny = b.lt(b.abs(x), m.negligible)
    low, high = (-18.0, 88.0) if x.dtype == F32 else (-39.0, 709.0)
    t, _, r, e = reduce_ln2(b, b.max(x, low), m.bias)
    power = exponent_field(b, t)
    u = b.sub(power, 1.0)
    h = b.fma(power, r, u)
    error = b.add(b.fma(power, r, b.sub(u, h)), b.sub(b.sub(power, u), 1.0))
    tail = b.fma(b.mul(r, without(b, tiny, r)), exp_tail(b, r), e)
    y = b.copysign(b.add(h, b.fma(power, tail, error)), x)
    return b.rare(b.gt(x, high), y, exp(b, x))


@function("logistic")
def logistic(b: Builder, x: Expr) -> Expr:
    """With E = e**-|x| in two parts: 1 / (1 + E), or E / (1 + E) for negative x, the quotient corrected by its remainder."""
    m = machine(x)
    a = b.abs(x)
    t, n, r, e = reduce_ln2(b, b.max(b.neg(a), -104.0 if x.dtype == F32 else -746.0), m.bias)
    h, h_error = two_sum_ordered(b, b.const(1.0, x.dtype), r)
    square = b.mul(r, without(b, b.lt(a, m.negligible), r))
    tail = b.add(b.fma(square, exp_tail(b, r), e), h_error)
    p, p_error = two_sum_ordered(b, h, tail)
    # 2**n, or 0 where it is subnormal
    power = b.bitcast(b.shl(b.max(b.sub(b.bitcast(t, m.signed), m.magic_bits), 0), m.mantissa), m.dtype)
    small = b.scale(p, n)
    small_error = b.mul(p_error, power)
    d, d_error = two_sum_ordered(b, b.const(1.0, x.dtype), small)
    d_error = b.add(d_error, small_error)
    negative = b.lt(x, 0.0)
    numerator = b.select(negative, small, 1.0)
    numerator_error = b.select(negative, small_error, 0.0)
    reciprocal = b.div(1.0, d)
    q = b.mul(numerator, reciprocal)
    rest = b.add(b.fma(b.neg(q), d, numerator), b.fma(b.neg(q), d_error, numerator_error))
    return b.fma(reciprocal, rest, q)


def _hyperbolic(b: Builder, x: Expr, sign: int) -> Expr:
    """cosh|x| (sign 1) or sinh|x| (sign -1), with |x| = n' + r, n' = n ln 2: cosh n' cosh r + sinh n' sinh r, cosh and sinh swapped."""
    m = machine(x)
    a = b.abs(x)
    t, n, r, e = reduce_ln2(b, a, m.bias - 1)
    up = exponent_field(b, t)
    # 2**-(n + 1); beyond n = 100 it does not matter
    down = exponent_field(b, b.sub(m.magic + m.bias - 1, b.min(n, 100.0)))
    cosh_n, sinh_n = b.add(up, down), b.sub(up, down)
    z = b.mul(r, without(b, b.lt(a, m.negligible), r))
    sinh_tail = b.fma(b.mul(r, z), horner(b, z, m.polynomial("SINH")), e)
    cosh_tail = b.mul(z, horner(b, z, m.polynomial("COSH")))
    if sign > 0:
        main, other, lost = cosh_n, sinh_n, b.sub(down, b.sub(cosh_n, up))
    else:
        main, other, lost = sinh_n, cosh_n, b.sub(b.sub(up, sinh_n), down)
    h = b.fma(other, r, main)
    error = b.add(b.fma(other, r, b.sub(main, h)), lost)
    y = b.add(h, b.fma(other, sinh_tail, b.fma(main, cosh_tail, error)))
    # above, 2**(n - 1) may overflow and the smaller exponential does not matter
    return b.rare(b.gt(a, 88.0 if x.dtype == F32 else 709.0), y, _half_exp(b, a))


@function("sinh")
def sinh(b: Builder, x: Expr) -> Expr:
    return b.copysign(_hyperbolic(b, x, -1), x)


@function("cosh")
def cosh(b: Builder, x: Expr) -> Expr:
    return _hyperbolic(b, x, 1)


def _half_exp(b: Builder, a: Expr) -> Expr:
    """e**a / 2"""
    return exp_scaled(b, b.min(a, 90.0 if a.dtype == F32 else 711.0), -1)


@function("tanh")
def tanh(b: Builder, x: Expr) -> Expr:
    """x + x**3 P(x**2) for small |x|, else 1 - 2 / (e**2|x| + 1): there the error of e**2|x| counts for less than a third."""
    m = machine(x)
    a = b.abs(x)
    c = b.max(a, m.negligible)
    z = b.mul(c, c)
    small = b.fma(a, b.mul(z, horner(b, z, m.polynomial("TANH"))), a)
    c = b.min(a, 9.5 if x.dtype == F32 else 20.0)
    # e**2c = 2**(n + r)
    t, n = nearest(b, c, 2 * m.LOG2E[0], m.bias)
    power = exponent_field(b, t)
    r = b.fma(c, 2 * m.LOG2E[1], b.fma(c, 2 * m.LOG2E[0], b.neg(n)))
    denominator = b.fma(b.mul(power, r), horner(b, r, m.polynomial("EXP2")), b.add(power, 1.0))
    large = b.sub(1.0, b.div(2.0, denominator))
    return b.copysign(b.select(b.lt(a, 0.9 if x.dtype == F32 else 0.8), small, large), x)
