"""The Hurwitz zeta function and polygamma functions.

For q > 0 by the Euler-Maclaurin formula (M. Abramowitz, I. Stegun, Handbook of Mathematical Functions, 23.1.30): the first TERMS terms of
the sum, the integral, half a term and the terms of Bernoulli numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from steno.core.op import Op
from steno.ir.expr import F64, OUTLINED, Builder, Expr
from steno.ops.arithmetic import add, floor, mul, neg
from steno.ops.bitwise import and_
from steno.ops.compare import eq, ge, ne, select_n
from steno.ops.families import FLOAT, binary, elementwise_typ, number
from steno.ops.oracle import wider
from steno.ops.transcendental import digamma, exp, lgamma
from steno.transforms.rules import ELEMENTWISE, broadcast, by_argument, full

TERMS = 10
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330, 854513 / 138)
"""B(2), B(4), ..."""
COEFFICIENTS = tuple(b / math.factorial(2 * j) for j, b in enumerate(BERNOULLI, 1))


def _sum(b: Builder, s: Expr, q: Expr) -> Expr:
    """sum over k >= 0 of (q + k)**-s for s > 1, q > 0."""
    minus = b.neg(s)
    head = b.call("pow", q, minus)
    for k in range(1, TERMS):
        head = b.add(head, b.call("pow", b.add(q, float(k)), minus))
    a = b.add(q, float(TERMS))
    above = b.sub(s, 1.0)
    integral = b.div(b.call("pow", a, b.neg(above)), above)
    term = b.div(s, a)
    series = b.mul(term, COEFFICIENTS[0])
    for j, c in enumerate(COEFFICIENTS[1:], 1):
        term = b.mul(term, b.div(b.mul(b.add(s, float(2 * j - 1)), b.add(s, float(2 * j))), b.mul(a, a)))
        series = b.add(series, b.mul(term, c))
    rest = b.mul(integral, b.mul(b.div(above, a), b.add(series, 0.5)))
    return b.add(head, b.select(b.eq(integral, 0.0), 0.0, b.add(integral, rest)))


OUTLINED["zeta_sum"] = _sum


def _zeta(b: Builder, s: Expr, q: Expr) -> Expr:
    """For q < 0 and integers s: the terms of negative q + k are, up to signs, those of y, y + 1, ... -q for y = -q mod 1."""
    x, at = b.convert(s, F64), b.convert(q, F64)
    negative = b.lt(at, 0.0)
    y = b.select(negative, b.sub(b.neg(at), b.floor(b.neg(at))), 0.5)
    odd = b.ne(b.mul(b.floor(b.mul(x, 0.5)), 2.0), x)
    left = b.sub(b.outline("zeta_sum", x, y), b.outline("zeta_sum", x, b.sub(1.0, at)))
    both = b.add(b.outline("zeta_sum", x, b.sub(1.0, y)), b.select(odd, b.neg(left), left))
    out = b.rare(negative, b.outline("zeta_sum", x, at), both)
    out = b.select(b.and_(negative, b.ne(b.floor(x), x)), math.nan, out)
    pole = b.and_(b.le(at, 0.0), b.eq(b.floor(at), at))
    out = b.select(b.or_(pole, b.eq(x, 1.0)), math.inf, out)
    bad = b.or_(b.lt(x, 1.0), b.or_(b.is_nan(x), b.is_nan(at)))
    return b.convert(b.select(bad, math.nan, out), q.dtype)


def _sum_oracle(s: np.ndarray, q: np.ndarray) -> np.ndarray:
    head = sum(np.power(q + k, -s) for k in range(TERMS + 10))
    a = q + (TERMS + 10)
    integral = np.power(a, 1 - s) / (s - 1)
    term = s / a
    series = term * COEFFICIENTS[0]
    for j, c in enumerate(COEFFICIENTS[1:], 1):
        term = term * (s + (2 * j - 1)) * (s + 2 * j) / (a * a)
        series = series + term * c
    return head + np.where(integral == 0, 0, integral + integral * (s - 1) / a * (series + 0.5))


def _zeta_oracle(s: np.ndarray, q: np.ndarray) -> np.ndarray:
    """inf for s = 1 and at the poles q = 0, -1, ...; NaN for s < 1, and for q < 0 if s is no integer."""
    s, q = np.broadcast_arrays(s, q)
    negative = q < 0
    y = np.where(negative, -q - np.floor(-q), 0.5)
    left = _sum_oracle(s, y) - _sum_oracle(s, 1 - q)
    both = _sum_oracle(s, 1 - y) + np.where(np.floor(s / 2) * 2 != s, -left, left)
    out = np.where(negative, np.where(np.floor(s) == s, both, np.nan), _sum_oracle(s, q))
    out = np.where((q <= 0) & (np.floor(q) == q) | (s == 1), np.inf, out)
    return np.where((s < 1) | np.isnan(s) | np.isnan(q), np.nan, out)


def _by_order(name: str) -> Any:
    def tangent(g: Any, *_: Any) -> Any:
        raise NotImplementedError(f"{name}: no derivative by the order, its first operand; `stop_gradient` makes that a constant")

    return tangent


def _zeta_samples() -> Iterable[Any]:
    for d in (np.float32, np.float64):
        s, q = np.meshgrid(np.array([1.0, 1.5, 2.0, 3.0, 7.0, 20.0, 0.5, np.nan], d), np.array([0.1, 1, 2.5, 30, 1e3, 0, -1, np.inf], d))
        yield (s, q), {}
        yield (np.array([2.0, 2.0, 4.0, 2.5], d), np.array([-0.5, -20.25, -3.25, -0.5], d)), {}
    yield (np.float32(2), np.array([[0.5, 1.5]], np.float32)), {}
    yield (np.ones((0, 2), np.float32), np.ones((0, 2), np.float32)), {}


zeta = binary(
    "zeta",
    FLOAT,
    oracle=wider(_zeta_oracle),
    scalar=_zeta,
    ulps=16,
    samples=_zeta_samples,
    jvp=(_by_order("zeta"), lambda g, out, s, q: mul(g, neg(mul(s, zeta(add(s, number(s, 1)), q))))),
)
"""The Hurwitz zeta function: the sum of (q + k)**-s over k >= 0."""


def _polygamma_expand(m: Any, x: Any) -> Any:
    """(-1)**(m + 1) m! zeta(m + 1, x); digamma for m = 0; NaN for orders that are no natural numbers."""
    n = add(m, number(m, 1))
    size = mul(exp(lgamma(n), accuracy=None), zeta(n, x))
    half = mul(m, number(m, 0.5))
    odd = ne(floor(half), half)
    shape = size.shape
    signed = select_n(broadcast(odd, shape), neg(size), size)
    natural = and_(ge(m, number(m, 0)), eq(floor(m), m))
    known = select_n(broadcast(eq(m, number(m, 0)), shape), signed, broadcast(digamma(x), shape))
    return select_n(broadcast(natural, shape), full(shape, math.nan, x.dtype), known)


def _polygamma_samples() -> Iterable[Any]:
    for d in (np.float32, np.float64):
        yield np.meshgrid(np.array([0, 1, 2, 5, 0.5, -1], d), np.array([0.1, 1, 2.5, 30, 1e3, 0, -0.5, -20.25], d)), {}
    yield (np.float32(1), np.array([[0.5, 1.5]], np.float32)), {}


polygamma = Op(
    "polygamma",
    typ=elementwise_typ("polygamma", FLOAT, FLOAT),
    expand=_polygamma_expand,
    samples=_polygamma_samples,
    jvp=by_argument(_by_order("polygamma"), lambda g, out, m, x: mul(g, polygamma(add(m, number(m, 1)), x))),
    batch=ELEMENTWISE,
)
"""The m-th derivative of digamma."""
