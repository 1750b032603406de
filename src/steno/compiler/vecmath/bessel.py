"""I0(x) and I1(x), with and without the factor exp(-|x|): up to 8 by a polynomial of x**2, beyond by one of 1/x over the root of x."""

from __future__ import annotations

import math

from steno.compiler.vecmath.core import function, horner, machine, two_product, without
from steno.compiler.vecmath.exponential import exp_tail, reduce_ln2
from steno.ir.expr import F32, F64, Builder, Expr


def _near(b: Builder, c: Expr, tiny: Expr, name: str, odd: bool) -> tuple[Expr, Expr]:
    """The function of 0 <= c <= 8, and the error."""
    m = machine(c)
    half = b.mul(c, 0.5)
    z, z_error = two_product(b, half, without(b, tiny, half))
    p = horner(b, z, m.polynomial(name))
    slope = horner(b, z, [k * v for k, v in enumerate(m.polynomial(name))][1:])
    p_error = b.mul(slope, z_error)
    if odd:
        p, product_error = two_product(b, p, c)
        p_error = b.fma(p_error, c, product_error)
    return p, p_error


def _far(b: Builder, c: Expr, name: str) -> Expr:
    """The function of c >= 8 times exp(-c)."""
    return b.div(horner(b, b.sub(b.div(16.0, c), 1.0), machine(c).polynomial(name + "_TAIL")), b.sqrt(c))


def _bessel(b: Builder, x: Expr, name: str, odd: bool) -> Expr:
    """float32 by way of float64, where errors do not show."""
    v = b.convert(x, F64)
    a = b.abs(v)
    tiny = b.lt(a, machine(x).negligible)
    c = b.min(a, 8.0)
    if x.dtype == F32:
        half = b.mul(without(b, tiny, c), 0.5)
        near = horner(b, b.mul(half, half), machine(v).polynomial(name))
        near = b.mul(near, c) if odd else near
    else:
        near = b.add(*_near(b, c, tiny, name, odd))
    growth = b.call("exp", b.mul(a, 0.5))
    far = b.select(b.lt(a, math.inf), b.mul(growth, b.mul(growth, _far(b, b.max(a, 8.0), name))), a)
    y = b.convert(b.rare(b.not_(b.le(a, 8.0)), near, far), x.dtype)
    return b.copysign(y, x) if odd else y


@function("bessel_i0")
def bessel_i0(b: Builder, x: Expr) -> Expr:
    return _bessel(b, x, "I0", odd=False)


@function("bessel_i1")
def bessel_i1(b: Builder, x: Expr) -> Expr:
    return _bessel(b, x, "I1", odd=True)


def _scaled_bessel(b: Builder, x: Expr, name: str, odd: bool) -> Expr:
    m = machine(x)
    a = b.abs(x)
    c = b.min(a, 8.0)
    tiny = b.lt(a, m.negligible)
    p, p_error = _near(b, c, tiny, name, odd)
    _, n, r, e = reduce_ln2(b, b.neg(c))
    r = without(b, tiny, r)
    growth = b.add(r, b.fma(b.mul(r, r), exp_tail(b, r), e))
    near = b.scale(b.add(p, b.fma(p, growth, p_error)), n)
    y = b.select(b.le(a, 8.0), near, _far(b, b.max(a, 8.0), name))
    return b.copysign(y, x) if odd else y


@function("bessel_i0e")
def bessel_i0e(b: Builder, x: Expr) -> Expr:
    return _scaled_bessel(b, x, "I0", odd=False)


@function("bessel_i1e")
def bessel_i1e(b: Builder, x: Expr) -> Expr:
    return _scaled_bessel(b, x, "I1", odd=True)
