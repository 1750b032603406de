"""erf, erfc, erf_inv."""

from __future__ import annotations

from steno.compiler.vecmath.core import exponent_field, function, horner, machine
from steno.ir.expr import F32, Builder, Expr


@function("erf")
def erf(b: Builder, x: Expr) -> Expr:
    """x + x P(x**2) up to 1, beyond 1 - 2**(G(|x|) - 3)."""
    m = machine(x)
    a = b.abs(x)
    z = b.mul(x, x)
    small = b.fma(a, horner(b, z, m.polynomial("ERF")), a)
    c = b.min(a, 4.0)
    g = horner(b, c, m.polynomial("ERFC_LOG2"))  # + 3, so that it is small, and precise, near 1
    t = b.add(g, m.magic + m.bias - 3)
    r = b.sub(g, b.sub(t, m.magic + m.bias - 3))
    power = exponent_field(b, t)
    large = b.fma(b.neg(b.mul(power, r)), horner(b, r, m.polynomial("EXP2")), b.sub(1.0, power))
    return b.copysign(b.select(b.lt(a, 1.0), small, large), x)
