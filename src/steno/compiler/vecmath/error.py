"""erf, erfc and their inverses."""

from __future__ import annotations

import math

from steno.compiler.vecmath.core import MACHINES, exponent_field, function, horner, machine, nearest
from steno.compiler.vecmath.exponential import exp_tail, reduce_ln2
from steno.compiler.vecmath.logarithm import log_sum, split
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


def _erfc_64(b: Builder, a: Expr) -> Expr:
    """For 1/2 <= a <= 28, where it is 0."""
    square = b.mul(a, a)
    lost = b.fma(a, a, b.neg(square))
    _, n, r, e = reduce_ln2(b, b.neg(square))
    tail = b.mul(b.mul(r, r), exp_tail(b, r))
    s = b.add(r, b.fma(b.add(b.add(r, 1.0), tail), b.sub(e, lost), tail))
    q = _scaled_erfc(b, a, "ERFC_SCALED")
    return b.scale(b.fma(q, s, q), n)


def _erfc_32(b: Builder, a: Expr) -> Expr:
    """In float64, to 2**-32, for 1/2 <= a <= 11."""
    m = MACHINES[F64]
    t, n = nearest(b, b.mul(a, a), -m.LOG2E[0], m.bias)
    r = b.fma(b.mul(a, a), -m.LOG2E[0], b.neg(n))
    p = b.fma(r, horner(b, r, m.polynomial("POW_EXP2")), 1.0)
    ratio = horner(b, b.div(b.sub(a, 4.0), b.add(a, 4.0)), m.polynomial("ERFC_SCALED_SHORT"))
    return b.mul(exponent_field(b, t), b.mul(p, b.div(ratio, b.fma(a, 2.0, 1.0))))


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


@function("erfc_inv")
def erfc_inv(b: Builder, y: Expr) -> Expr:
    """x + x P(w), x = 1 - y, w = -log(y (2 - y)), as erf_inv, whose polynomials these are; beyond s = sqrt(w) = 6 it is s + s P((s - 4) /
    (s + 4)). float32 by way of float64."""
    v = b.convert(y, F64)
    m = machine(v)
    small = b.min(v, b.sub(2.0, v))
    square = b.mul(small, b.sub(2.0, small))
    x = b.sub(1.0, v)
    k, f = split(b, square)
    near = b.fma(x, horner(b, b.sub(b.neg(log_sum(b, k, f)), 1.5), m.polynomial("ERF_INV")), x)
    s = b.sqrt(b.neg(b.call("log", square)))
    q = b.div(b.sub(s, 4.0), b.add(s, 4.0))
    far = b.copysign(b.fma(s, horner(b, q, m.polynomial("ERFC_INV_FAR")), s), x)
    tail = b.fma(x, horner(b, b.sub(s, 3.5), m.polynomial("ERF_INV_TAIL")), b.add(x, x))
    edge = b.select(b.eq(square, 0.0), b.mul(x, math.inf), math.nan)
    beyond = b.select(b.lt(s, 6.0), tail, b.select(b.lt(s, math.inf), far, edge))
    return b.convert(b.rare(b.not_(b.gt(square, math.exp(-6.25))), near, beyond), y.dtype)
