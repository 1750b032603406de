"""log, log2, log1p.

x = 2**k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), log(1 + f) = f - f**2/2 + f**3 P(f). Arguments that are zero, negative, subnormal,
infinite or NaN are a rare region.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from steno.compiler.vecmath.core import Machine, function, horner, machine, two_product, two_sum_ordered, without
from steno.ir.expr import F32, Builder, Expr


def _sqrt_half(m: Machine) -> int:
    """The bits of sqrt(1/2)."""
    return 0x3F3504F3 if m.dtype == F32 else 0x3FE6A09E667F3BCD


def exponent(b: Builder, x: Expr) -> tuple[Expr, Expr]:
    """(k, k shifted to the exponent field) of a positive normal x, as signed integers."""
    m = machine(x)
    above = b.sub(b.bitcast(x, m.signed), _sqrt_half(m))
    return b.ashr(above, m.mantissa), b.and_(above, -(1 << m.mantissa))


def to_float(b: Builder, k: Expr, m: Machine) -> Expr:
    """A small integer as a float."""
    if m.dtype == F32:
        return b.convert(k, m.dtype)
    return b.sub(b.bitcast(b.add(k, m.magic_bits), m.dtype), m.magic)  # float64: few targets convert from int64


def split(b: Builder, x: Expr) -> tuple[Expr, Expr]:
    """(k as a float, f)"""
    m = machine(x)
    k, field = exponent(b, x)
    f = b.sub(b.bitcast(b.sub(b.bitcast(x, m.signed), field), m.dtype), 1.0)
    return to_float(b, k, m), f


def _irregular(b: Builder, x: Expr) -> Expr:
    """x is not a positive normal number."""
    m = machine(x)
    tiny = 1 << m.mantissa
    return b.ge(b.sub(b.bitcast(x, m.unsigned), tiny), ((1 << (m.mantissa + 8 if m.dtype == F32 else 63)) - tiny) - tiny)


def _logarithm(b: Builder, x: Expr, regular: Callable[[Expr, float], Expr]) -> Expr:
    """regular(x, shift) = log(x) - shift of its base's exponent, completed for all x."""
    m = machine(x)
    up = float(m.mantissa + 2)
    subnormal = regular(b.mul(x, 2.0**up), -up)
    special = b.select(b.eq(x, 0.0), -math.inf, b.select(b.gt(x, 0.0), x, math.nan))
    inside = b.and_(b.gt(x, 0.0), b.lt(x, math.inf))
    return b.rare(_irregular(b, x), regular(x, 0.0), b.select(inside, subnormal, special))


def log_sum(b: Builder, k: Expr, f: Expr, f_low: Expr | float = 0.0, tiny: Expr | None = None, polynomial: str = "LOG") -> Expr:
    """k ln 2 + log(1 + f + f_low); f is `tiny` if its square does not count. `polynomial`: LOG_SHORT for float64 to 2**-35."""
    m = machine(f)
    square = b.mul(f, f if tiny is None else without(b, tiny, f))
    w = b.fma(f, horner(b, f, m.polynomial(polynomial)), -0.5)
    low = b.mul(k, m.LN2[1]) if isinstance(f_low, float) else b.fma(k, m.LN2[1], b.fma(b.neg(f), f_low, f_low))
    return b.fma(k, m.LN2[0], b.add(f, b.fma(square, w, low)))


def log_parts(b: Builder, k: Expr, f: Expr) -> tuple[Expr, Expr]:
    """k ln 2 + log(1 + f) = h + e, e not rounded into h."""
    m = machine(f)
    p, p_error = two_product(b, k, b.const(m.LN2[0], f.dtype))
    h, h_error = two_sum_ordered(b, p, f)
    w = b.fma(f, horner(b, f, m.polynomial("LOG")), -0.5)
    return h, b.fma(b.mul(f, f), w, b.fma(k, m.LN2[1], b.add(p_error, h_error)))


@function("log")
def log(b: Builder, x: Expr) -> Expr:
    def regular(v: Expr, shift: float) -> Expr:
        k, f = split(b, v)
        return log_sum(b, b.add(k, shift) if shift else k, f)

    return _logarithm(b, x, regular)


@function("log2")
def log2(b: Builder, x: Expr) -> Expr:
    """k + log2(1 + f): f / ln 2 and the sum in two parts"""
    m = machine(x)

    def regular(v: Expr, shift: float) -> Expr:
        k, f = split(b, v)
        k = b.add(k, shift) if shift else k
        p = b.mul(f, m.LOG2E[0])
        h = b.add(k, p)
        error = b.add(b.sub(p, b.sub(h, k)), b.fma(f, m.LOG2E[0], b.neg(p)))
        w = horner(b, f, m.polynomial("LOG2"))
        return b.add(h, b.fma(b.mul(f, f), w, b.fma(f, m.LOG2E[1], error)))

    return _logarithm(b, x, regular)


def log1p_sum(b: Builder, u: Expr, u_error: Expr | float, tiny: Expr | None = None, extra: Expr | float = 0.0) -> Expr:
    """log(1 + u + u_error) + extra ln 2, for -1 < u not too great; u is `tiny` if its square does not count. With 1 + u = 2**k (1 + f):
    f = 2**-k u + (2**-k - 1), in two parts."""
    m = machine(u)
    k, field = exponent(b, b.add(u, 1.0))
    scale = b.bitcast(b.sub(m.bias << m.mantissa, field), m.dtype)
    s = b.sub(scale, 1.0)
    f = b.fma(u, scale, s)
    f_low = b.fma(u, scale, b.sub(s, f))
    k = to_float(b, k, m)
    if isinstance(u_error, Expr):
        f_low = b.fma(u_error, scale, f_low)
    return log_sum(b, b.add(k, extra) if isinstance(extra, Expr) else k, f, f_low, tiny)


@function("log1p")
def log1p(b: Builder, x: Expr) -> Expr:
    y = b.copysign(log1p_sum(b, x, 0.0, b.lt(b.abs(x), machine(x).negligible)), x)
    regular = b.and_(b.gt(x, -1.0), b.lt(x, 2.0**60))
    return b.rare(b.not_(regular), y, log(b, b.add(x, 1.0)))
