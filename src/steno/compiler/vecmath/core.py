"""What the elementary functions share: the machine formats, polynomials, sums of two parts, the registry.

A function is written once as `f(b, x, ...)` over a Builder, for float32 and float64 Exprs; `@function` registers it under its name for
`b.call`. Its body has no branches (`rare` apart) and no tables in memory, so it is vector code on every target, and says fma explicitly,
so it has the same bits on every target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from steno.compiler.vecmath import coefficients
from steno.ir.expr import F32, F64, FUNCTIONS, I32, I64, U32, U64, Builder, Expr


@final
@dataclass(frozen=True)
class Machine:
    """A binary floating-point format. `magic`: a sum with 1.5 * 2**mantissa has the nearest integer in its low bits.
    LN2, LOG2E, PI_2 (pi / 2) are sums of floats."""

    dtype: np.dtype
    signed: np.dtype
    unsigned: np.dtype
    mantissa: int
    bias: int
    suffix: str
    LN2: tuple[float, float]
    LOG2E: tuple[float, float]
    PI_2: tuple[float, float, float]

    @property
    def magic(self) -> float:
        return 1.5 * 2.0**self.mantissa

    @property
    def magic_bits(self) -> int:
        return 0x4B400000 if self.mantissa == 23 else 0x4338000000000000

    @property
    def tiny(self) -> float:
        """The smallest normal number."""
        return 2.0 ** (1 - self.bias)

    @property
    def negligible(self) -> float:
        """What does not count beside 1; numbers below it may be taken for 0 before they are squared. Their squares would do no more, but
        be subnormal, on which processors are a hundred times slower."""
        return 2.0 ** -(self.mantissa + 2)

    def polynomial(self, name: str) -> tuple[float, ...]:
        """The coefficients fitted for this format."""
        return getattr(coefficients, name + self.suffix)


MACHINES = {
    F32: Machine(
        F32, I32, U32, 23, 127, "_32",
        LN2=(0.693147182464599609375, -1.904654323148236017e-09),
        LOG2E=(1.44269502162933349609375, 1.92596299112661746887e-08),
        PI_2=(1.570796251296997, 7.549789415861596e-08, 5.390302529957765e-15),
    ),
    F64: Machine(
        F64, I64, U64, 52, 1023, "_64",
        LN2=(0.6931471805599453, 2.3190468138462996e-17),
        LOG2E=(1.4426950408889634, 2.0355273740931033e-17),
        PI_2=(1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33),
    ),
}  # fmt: skip


def machine(x: Expr) -> Machine:
    found = MACHINES.get(x.dtype)
    if found is None:
        raise TypeError(f"elementary functions take float32 or float64, got {x.dtype}")
    return found


def function(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers f(b, *args) for `b.call(name, *args)`."""

    def register(f: Callable[..., Any]) -> Callable[..., Any]:
        FUNCTIONS[name] = f
        return f

    return register


def without(b: Builder, tiny: Expr, x: Expr) -> Expr:
    """x, 0 where it is tiny."""
    return b.select(tiny, 0.0, x)


def horner(b: Builder, x: Expr, coefficients: Sequence[float | Expr]) -> Expr:
    """c0 + x*(c1 + x*(c2 + ...)), constant term first, at least two."""
    *rest, before, last = coefficients
    p = b.fma(x, last, before)
    for c in reversed(rest):
        p = b.fma(x, p, c)
    return p


def nearest(b: Builder, x: Expr, factor: float, offset: int = 0) -> tuple[Expr, Expr]:
    """(t, n): n is x * factor rounded to an integer, if below 2**(mantissa - 2); the low bits of t hold n + offset."""
    m = machine(x)
    t = b.fma(x, factor, m.magic + offset)
    return t, b.sub(t, m.magic + offset)


def exponent_field(b: Builder, t: Expr) -> Expr:
    """The float whose exponent field is in the low bits of t: 2**n if t was made with offset `bias`."""
    m = machine(t)
    return b.bitcast(b.shl(b.bitcast(t, m.unsigned), m.mantissa), m.dtype)


def two_sum_ordered(b: Builder, x: Expr, y: Expr) -> tuple[Expr, Expr]:
    """x + y = s + e exactly, if |x| >= |y| or x = 0."""
    s = b.add(x, y)
    return s, b.sub(y, b.sub(s, x))


def two_sum(b: Builder, x: Expr, y: Expr) -> tuple[Expr, Expr]:
    """x + y = s + e exactly."""
    s = b.add(x, y)
    v = b.sub(s, x)
    return s, b.add(b.sub(x, b.sub(s, v)), b.sub(y, v))


def two_product(b: Builder, x: Expr, y: Expr) -> tuple[Expr, Expr]:
    """x * y = p + e exactly, barring underflow."""
    p = b.mul(x, y)
    return p, b.fma(x, y, b.neg(p))
