"""erf, erfc and their inverses, the normal distribution."""

from __future__ import annotations

import math

from steno.compiler.vecmath.core import MACHINES, exponent_field, function, horner, machine, nearest, two_sum
from steno.compiler.vecmath.exponential import exp_tail, reduce_ln2
from steno.compiler.vecmath.logarithm import log1p_sum, log_sum, split
from steno.ir.expr import F32, F64, Builder, Expr


@function("erf")
def erf(b: Builder, x: Expr) -> Expr:
    """x + x P(x**2) up to 1, beyond 1 - erfc|x|"""
    a = b.abs(x)
    c = b.max(a, machine(x).negligible)
    small = b.fma(a, horner(b, b.mul(c, c), machine(x).polynomial("ERF")), a)
    large = _one_minus_erfc_32(b, b.min(a, 4.0)) if x.dtype == F32 else b.sub(1.0, _erfc_64(b, b.max(b.min(a, 6.5), 0.5)))
    return b.copysign(b.select(b.lt(a, 1.0), small, large), x)


def _one_minus_erfc_32(b: Builder, a: Expr) -> Expr:
    """erfc(a) = 2**(G(a) - 3), G a polynomial that is small, and precise, near 1"""
    m = machine(a)
    g = horner(b, a, m.polynomial("ERFC_LOG2"))
    t = b.add(g, m.magic + m.bias - 3)
    r = b.sub(g, b.sub(t, m.magic + m.bias - 3))
    power = exponent_field(b, t)
    return b.fma(b.neg(b.mul(power, r)), horner(b, r, m.polynomial("EXP2")), b.sub(1.0, power))


def _scaled_erfc(b: Builder, a: Expr, name: str) -> Expr:
    """erfc(a) e**(a**2), a >= 1/2, as P((a - 4) / (a + 4)) / (1 + 2 a) (after N. Juffa), the quotient corrected by its remainder"""
    p = horner(b, b.div(b.sub(a, 4.0), b.add(a, 4.0)), machine(a).polynomial(name))
    twice = b.add(a, a)
    d = b.add(twice, 1.0)
    d_error = b.sub(1.0, b.sub(d, twice))
    inverse = b.div(1.0, d)
    q = b.mul(p, inverse)
    return b.fma(inverse, b.fma(b.neg(q), d_error, b.fma(b.neg(q), d, p)), q)


def _scaled_erfc_short(b: Builder, a: Expr) -> Expr:
    """The same in float64, to 2**-32, by one division."""
    plus, twice = b.add(a, 4.0), b.fma(a, 2.0, 1.0)
    inverse = b.div(1.0, b.mul(plus, twice))
    q = b.mul(b.mul(b.sub(a, 4.0), twice), inverse)
    return b.mul(horner(b, q, machine(a).polynomial("ERFC_SCALED_SHORT")), b.mul(plus, inverse))


def _times_exp(b: Builder, q: Expr, square: Expr, lost: Expr) -> Expr:
    """q exp(-square - lost)"""
    _, n, r, e = reduce_ln2(b, b.neg(square))
    tail = b.mul(b.mul(r, r), exp_tail(b, r))
    s = b.add(r, b.fma(b.add(b.add(r, 1.0), tail), b.sub(e, lost), tail))
    return b.scale(b.fma(q, s, q), n)


def _times_exp_short(b: Builder, q: Expr, square: Expr) -> Expr:
    """q exp(-square) in float64, to 2**-32, for square <= 700"""
    m = MACHINES[F64]
    t, n = nearest(b, square, -m.LOG2E[0], m.bias)
    r = b.fma(square, -m.LOG2E[0], b.neg(n))
    p = b.fma(r, horner(b, r, m.polynomial("POW_EXP2")), 1.0)
    return b.mul(exponent_field(b, t), b.mul(p, q))


def _erfc_64(b: Builder, a: Expr) -> Expr:
    """For 1/2 <= a <= 28, where it is 0."""
    square = b.mul(a, a)
    return _times_exp(b, _scaled_erfc(b, a, "ERFC_SCALED"), square, b.fma(a, a, b.neg(square)))


def _erfc_32(b: Builder, a: Expr) -> Expr:
    """In float64, to 2**-32, for 1/2 <= a <= 11."""
    return _times_exp_short(b, _scaled_erfc_short(b, a), b.mul(a, a))


@function("erfc")
def erfc(b: Builder, x: Expr) -> Expr:
    """1 - erf(x) up to 1/2, beyond from e**(-x**2), for negative x 2 minus it; float32 by way of float64"""
    v = b.convert(x, F64)
    a = b.abs(v)
    single = x.dtype == F32
    c = b.max(b.min(a, 11.0 if single else 28.0), 0.5)
    tail = _erfc_32(b, c) if single else _erfc_64(b, c)
    v_size = b.max(a, machine(v).negligible)
    p = horner(b, b.mul(v_size, v_size), machine(x).polynomial("ERF"))
    near = b.fma(b.neg(v), p, b.sub(1.0, v))
    far = b.select(b.lt(v, 0.0), b.sub(2.0, tail), tail)
    return b.convert(b.select(b.lt(a, 0.5), near, far), x.dtype)


@function("erf_inv")
def erf_inv(b: Builder, x: Expr) -> Expr:
    """x + x P(w), w = -log(1 - x**2); where w is large, of its root (M. Giles, "Approximating the erfinv function", GPU Computing
    Gems 2, 2011)."""
    m = machine(x)
    bound, tail_centre = (5.0, 3.0) if x.dtype == F32 else (6.25, 3.5)
    square = b.fma(b.neg(x), x, 1.0)
    k, f = split(b, square)
    w = b.neg(log_sum(b, k, f))
    near = b.fma(x, horner(b, b.sub(w, 1.5), m.polynomial("ERF_INV")), x)
    tail = b.fma(x, horner(b, b.sub(b.sqrt(w), tail_centre), m.polynomial("ERF_INV_TAIL")), b.add(x, x))
    edge = b.select(b.eq(b.abs(x), 1.0), b.mul(x, math.inf), math.nan)
    return b.rare(b.not_(b.gt(square, math.exp(-bound))), near, b.select(b.lt(b.abs(x), 1.0), tail, edge))


def _erfc_inv(b: Builder, v: Expr, short: bool) -> Expr:
    """x + x P(w), x = 1 - v, w = -log(v (2 - v)), as erf_inv, whose polynomials these are; beyond s = sqrt(w) = 6 it is s + s P((s - 4) /
    (s + 4)). In float64; `short`: near 1 to 2**-34."""
    m = machine(v)
    suffix = "_SHORT" if short else ""
    small = b.min(v, b.sub(2.0, v))
    square = b.mul(small, b.sub(2.0, small))
    x = b.sub(1.0, v)
    k, f = split(b, square)
    w = b.neg(log_sum(b, k, f, polynomial="LOG" + suffix))
    near = b.fma(x, horner(b, b.sub(w, 1.5), m.polynomial("ERF_INV" + suffix)), x)
    s = b.sqrt(b.neg(b.call("log", square)))
    q = b.div(b.sub(s, 4.0), b.add(s, 4.0))
    far = b.copysign(b.fma(s, horner(b, q, m.polynomial("ERFC_INV_FAR")), s), x)
    tail = b.fma(x, horner(b, b.sub(s, 3.5), m.polynomial("ERF_INV_TAIL")), b.add(x, x))
    edge = b.select(b.eq(square, 0.0), b.mul(x, math.inf), math.nan)
    beyond = b.select(b.lt(s, 6.0), tail, b.select(b.lt(s, math.inf), far, edge))
    return b.rare(b.not_(b.gt(square, math.exp(-6.25))), near, beyond)


@function("erfc_inv")
def erfc_inv(b: Builder, y: Expr) -> Expr:
    """float32 by way of float64"""
    return b.convert(_erfc_inv(b, b.convert(y, F64), y.dtype == F32), y.dtype)


@function("ndtri")
def ndtri(b: Builder, p: Expr) -> Expr:
    """The inverse of ndtr: -sqrt(2) erfc_inv(2 p); float32 by way of float64"""
    v = b.convert(p, F64)
    return b.convert(b.mul(_erfc_inv(b, b.add(v, v), p.dtype == F32), -math.sqrt(2)), p.dtype)


_ROOT_HALF = math.sqrt(0.5)


def _normal(b: Builder, v: Expr, scaled: Expr, single: bool) -> Expr:
    """The distribution function of the float64 v from scaled = erfc(a) e**(a**2), a = |v| sqrt(1/2) at least 1/2; exp(-a**2) from v, whose
    square has a known rounding error."""
    size = b.max(b.min(b.abs(v), 15.0 if single else 39.0), machine(v).negligible)
    half = b.mul(scaled, 0.5)
    square = b.mul(b.mul(size, size), 0.5)
    if single:
        tail = _times_exp_short(b, half, square)
    else:
        tail = _times_exp(b, half, square, b.fma(b.mul(size, 0.5), size, b.neg(square)))
    z = b.mul(v, _ROOT_HALF)
    c = b.max(b.abs(z), machine(v).negligible)
    p = horner(b, b.mul(c, c), MACHINES[F32 if single else F64].polynomial("ERF"))
    near = b.fma(b.fma(z, p, z), 0.5, 0.5)
    return b.select(b.lt(b.abs(z), 0.5), near, b.select(b.lt(v, 0.0), tail, b.sub(1.0, tail)))


def _scaled_tail(b: Builder, v: Expr, single: bool) -> Expr:
    """erfc(a) e**(a**2) for a = |v| sqrt(1/2) from 1/2 to 28"""
    a = b.max(b.min(b.mul(b.abs(v), _ROOT_HALF), 28.0), 0.5)
    return _scaled_erfc_short(b, a) if single else _scaled_erfc(b, a, "ERFC_SCALED")


@function("ndtr")
def ndtr(b: Builder, x: Expr) -> Expr:
    """The normal distribution function, by erfc; float32 by way of float64"""
    v, single = b.convert(x, F64), x.dtype == F32
    return b.convert(_normal(b, v, _scaled_tail(b, v, single), single), x.dtype)


@function("log_ndtr")
def log_ndtr(b: Builder, x: Expr) -> Expr:
    """log(1 - ndtr(-x)); below -1 log(erfc(a) e**(a**2) / 2) - x**2 / 2, a = |x| sqrt(1/2), beyond -39 by the asymptotic series of erfc
    (Abramowitz and Stegun 7.1.23). One logarithm serves all. float32 by way of float64."""
    v, single = b.convert(x, F64), x.dtype == F32
    scaled = _scaled_tail(b, v, single)
    a = b.min(b.max(b.mul(b.abs(v), _ROOT_HALF), 27.0), 1e12)
    y = b.div(0.5, b.mul(a, a))
    series = horner(b, y, (1.0, -1.0, 3.0, -15.0, 105.0, -945.0))
    far = b.lt(v, -1.0)
    scaled = b.rare(b.lt(v, -39.0), scaled, b.div(series, b.mul(a, math.sqrt(math.pi))))
    head, head_error = two_sum(b, b.const(-1.0, F64), b.mul(scaled, 0.5))
    other = b.neg(_normal(b, b.neg(v), _scaled_tail(b, v, single), single))
    u = b.select(far, head, other)
    y = log1p_sum(b, u, b.select(far, head_error, 0.0), b.lt(b.abs(u), machine(v).negligible))
    low = b.min(v, -1.0)
    return b.convert(b.select(far, b.fma(b.mul(low, -0.5), low, y), b.select(b.eq(u, 0.0), b.neg(b.abs(u)), y)), x.dtype)
