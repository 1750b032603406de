"""exp(-|x|) I0(x) and exp(-|x|) I1(x): polynomials of x/4 - 1 up to 8, of 16/x - 1 beyond."""

from __future__ import annotations

from steno.compiler.vecmath.core import function, horner, machine
from steno.ir.expr import Builder, Expr


def _scaled_bessel(b: Builder, x: Expr, name: str, odd: bool) -> Expr:
    m = machine(x)
    a = b.abs(x)
    near = horner(b, b.fma(b.min(a, 8.0), 0.25, -1.0), m.polynomial(name))
    near = b.mul(near, a) if odd else near
    c = b.max(a, 8.0)
    far = b.div(horner(b, b.sub(b.div(16.0, c), 1.0), m.polynomial(name + "_TAIL")), b.sqrt(c))
    y = b.select(b.le(a, 8.0), near, far)
    return b.copysign(y, x) if odd else y


@function("bessel_i0e")
def bessel_i0e(b: Builder, x: Expr) -> Expr:
    return _scaled_bessel(b, x, "I0E", odd=False)


@function("bessel_i1e")
def bessel_i1e(b: Builder, x: Expr) -> Expr:
    return _scaled_bessel(b, x, "I1E", odd=True)
