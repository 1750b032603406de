"""exp(-|x|) I0(x) and exp(-|x|) I1(x): up to 8 a polynomial of x**2 times the exponential, beyond one of 1/x over the root of x."""

from __future__ import annotations

from steno.compiler.vecmath.core import function, horner, machine, two_product, without
from steno.compiler.vecmath.exponential import exp_tail, reduce_ln2
from steno.ir.expr import Builder, Expr


def _scaled_bessel(b: Builder, x: Expr, name: str, odd: bool) -> Expr:
    m = machine(x)
    a = b.abs(x)
    c = b.min(a, 8.0)
    half = b.mul(c, 0.5)
    tiny = b.lt(a, m.negligible)
    z, z_error = two_product(b, half, without(b, tiny, half))
    p = horner(b, z, m.polynomial(name))
    slope = horner(b, z, [k * v for k, v in enumerate(m.polynomial(name))][1:])
    p_error = b.mul(slope, z_error)
    if odd:
        p, product_error = two_product(b, p, c)
        p_error = b.fma(p_error, c, product_error)
    _, n, r, e = reduce_ln2(b, b.neg(c))
    r = without(b, tiny, r)
    growth = b.add(r, b.fma(b.mul(r, r), exp_tail(b, r), e))
    near = b.scale(b.add(p, b.fma(p, growth, p_error)), n)
    c = b.max(a, 8.0)
    far = b.div(horner(b, b.sub(b.div(16.0, c), 1.0), m.polynomial(name + "_TAIL")), b.sqrt(c))
    y = b.select(b.le(a, 8.0), near, far)
    return b.copysign(y, x) if odd else y


@function("bessel_i0e")
def bessel_i0e(b: Builder, x: Expr) -> Expr:
    return _scaled_bessel(b, x, "I0", odd=False)


@function("bessel_i1e")
def bessel_i1e(b: Builder, x: Expr) -> Expr:
    return _scaled_bessel(b, x, "I1", odd=True)
