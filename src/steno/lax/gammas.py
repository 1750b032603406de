"""Gamma and beta functions in float64, to a few units in the last place, and what of them the incomplete ones need.

Formulas: M. Abramowitz, I. Stegun, Handbook of Mathematical Functions, chapter 6; A. DiDonato, A. Morris, Algorithm 708: significant digit
computation of the incomplete beta function ratios, 1992 (the beta function of great arguments)."""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any, Final

import numpy as np

from steno import lax, numpy as jnp
from steno.lax.in_double import polynomial, with_derivatives

Array = Any

EULER: Final = 0.57721566490153286060651209008
HALF_LOG_TAU: Final = 0.91893853320467274178032973640562
STIRLING: Final = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)
RAISED: Final = 12


def stirling(z: Array) -> Array:
    """log Gamma(z) - ((z - 1/2) log z - z + log(2 pi) / 2) for z >= 10 (6.1.41)."""
    y = 1 / z
    return y * polynomial(y * y, STIRLING)


def sin_pi(x: Array) -> Array:
    """sin(pi x)."""
    n = jnp.round(x)
    s = jnp.sin(math.pi * (x - n))
    return jnp.where(jnp.floor(n / 2) * 2 == n, s, -s)


def _gamma_above(x: Array) -> Array:
    """Gamma(x) for x >= 1/2: Stirling's formula at x or, for the small, at x + RAISED; what is lost in that sum counts as well."""
    small = x < RAISED
    z = jnp.where(small, x + RAISED, x)
    lost = jnp.where(small, x - (z - RAISED), 0)
    half = lax.pow(z, z / 2 - 0.25)
    value = math.sqrt(2 * math.pi) * half * jnp.exp(-z) * half * jnp.exp(stirling(z))
    value = value * (1 + lost * jnp.log(z))
    c = jnp.minimum(x, RAISED)
    product = functools.reduce(lambda p, k: p * (c + k), range(1, RAISED), c)
    value = jnp.where(small, value / product, value)
    n = jnp.clip(jnp.where(jnp.isnan(x), 0, x), 1, 24).astype(jnp.int32)
    exact = jnp.asarray([math.factorial(max(k - 1, 0)) for k in range(24)] + [0.0], x.dtype)
    value = jnp.where((x == jnp.floor(x)) & (x < 24), exact[n], value)
    return jnp.where(x > 171.7, jnp.inf, value)


def _gamma(x: Array) -> Array:
    """The gamma function: infinite at zeros, with their signs, NaN at negative integers and -inf."""
    low = x < 0.5
    value = _gamma_above(jnp.where(low, 1 - x, x))
    s = sin_pi(x)
    reflected = jnp.where(value == jnp.inf, jnp.copysign(0.0, s), math.pi / (s * value))
    small = jnp.abs(x) < 1e-9
    reflected = jnp.where(small, 1 / x - EULER, reflected)
    pole = (x < 0) & (jnp.floor(x) == x)
    return jnp.where(pole, jnp.nan, jnp.where(low, reflected, value))


gamma = with_derivatives(_gamma, lambda out, x: out * lax.digamma(x))


def gamma_sign(x: Array) -> Array:
    """The sign of Gamma(x): of zeros their own, NaN at negative integers, -inf and NaN."""
    n = jnp.floor(x)
    sign = jnp.where((x > 0) | (jnp.floor(n / 2) * 2 == n), 1.0, -1.0)
    bad = ((x < 0) & (n == x)) | jnp.isnan(x)
    return jnp.where(bad, jnp.nan, jnp.where(x == 0, jnp.copysign(1.0, x), sign))


def _zeta_less_1(s: int) -> float:
    """The sum of j**-s over j >= 2: the first terms, and the rest by the formula of Euler and Maclaurin (23.1.30)."""
    n = 300.0
    head = sum(float(j) ** -s for j in range(299, 1, -1))
    return head + n ** (1 - s) / (s - 1) + n**-s / 2 + s * n ** (-s - 1) / 12


_ZETA_LESS_1: Final = tuple(_zeta_less_1(k) for k in range(2, 32))


def log_gamma_1p(a: Array) -> Array:
    """log Gamma(1 + a), precise near a = 0 (6.1.33)."""
    near = jnp.abs(a) <= 0.5
    v = jnp.where(near, a, 0)
    series = polynomial(-v, [z / k for k, z in enumerate(_ZETA_LESS_1, 2)])
    return jnp.where(near, (v - jnp.log1p(v)) + v * (v * series - EULER), lax.lgamma(1 + a))


def log1p_rest(x: Array, above: Array) -> Array:
    """x - log(1 + x), where above = 1 + x is precise also for x near -1: with r = x / (2 + x) it is x r - 2 r**3 / 3 - 2 r**5 / 5 - ..."""
    near = jnp.abs(x) < 0.4
    v = jnp.where(near, x, 0)
    r = v / (2 + v)
    y = r * r
    series = v * r - 2 * r * y * polynomial(y, [1 / (2 * k + 3) for k in range(13)])
    return jnp.where(near, series, x - jnp.log(above))


def _log_beta(a: Array, b: Array) -> Array:
    """log |B(a, b)|. Positive operands below 12 are raised by 12: B(a, b) = B(a + 1, b) (a + b) / a."""
    a, b = jnp.minimum(a, b), jnp.maximum(a, b)
    positive = a > 0
    p, q = jnp.where(positive, a, 1), jnp.where(positive, b, 1)
    factor = jnp.ones_like(p)
    for _ in range(2):
        low = p < RAISED
        for k in range(RAISED):
            factor = jnp.where(low, factor * ((p + q + k) / (p + k)), factor)
        p, q = q, jnp.where(low, p + RAISED, p)
    p, q = jnp.minimum(p, q), jnp.maximum(p, q)
    great = q == jnp.inf
    q = jnp.where(great, 1e300, q)
    rest = stirling(p) + stirling(q) - stirling(p + q)
    h = p / q
    u, v = (p - 0.5) * jnp.log1p(1 / h), q * jnp.log1p(h)
    value = (HALF_LOG_TAU - 0.5 * jnp.log(q) + rest) - u - v + jnp.log(factor)
    value = jnp.where(great, -jnp.inf, value)
    other = lax.lgamma(a) + (lax.lgamma(b) - lax.lgamma(a + b))
    return jnp.where(positive, value, other)


log_beta = with_derivatives(
    _log_beta, lambda out, a, b: lax.digamma(a) - lax.digamma(a + b), lambda out, a, b: lax.digamma(b) - lax.digamma(a + b)
)


def beta(a: Array, b: Array) -> Array:
    """B(a, b): by gamma functions where they are finite."""
    total = a + b
    part = total - a
    lost = (a - (total - part)) + (b - part)
    x, y, z = gamma(a), gamma(b), gamma(total)
    z = jnp.where(total > 1, z * (1 + lost * jnp.log(jnp.maximum(total, 1))), z)
    direct = jnp.where(jnp.abs(x) > jnp.abs(y), x / z * y, y / z * x)
    plain = (jnp.abs(a) < 150) & (jnp.abs(b) < 150) & (jnp.abs(a + b) < 160) & (z != 0)
    sign = gamma_sign(a) * gamma_sign(b) * gamma_sign(a + b)
    return jnp.where(plain, direct, sign * jnp.exp(log_beta(a, b)))


def gamma_density(a: Array, x: Array) -> Array:
    """x**a exp(-x) / Gamma(a + 1) for a > 0, x > 0, relatively precise up to the size of its exponent."""
    great = a >= RAISED
    p = jnp.where(great, a, RAISED)
    by_stirling = jnp.exp(-p * log1p_rest((x - p) / p, x / p) - stirling(p)) / jnp.sqrt(2 * math.pi * p)
    by_power = lax.pow(x, a) * jnp.exp(-x) / gamma(jnp.where(great, 1, a) + 1)
    return jnp.where(great, by_stirling, by_power)


def beta_density(a: Array, b: Array, x: Array, y: Array) -> Array:
    """x**a y**b / B(a, b) for a, b > 0, y = 1 - x."""
    great = jnp.minimum(a, b) >= RAISED
    p, q = jnp.where(great, a, RAISED), jnp.where(great, b, RAISED)
    n = p + q
    # p log(x n / p) + q log(y n / q); where one factor is far from 1 its logarithm is precise anyway
    away = x * q - y * p
    exponent = -p * log1p_rest(away / p, x * (n / p)) - q * log1p_rest(-away / q, y * (n / q))
    rest = stirling(n) - stirling(p) - stirling(q)
    by_stirling = jnp.exp(exponent + rest) * jnp.sqrt(p / n * (q / (2 * math.pi)))
    log_x = jnp.where(x <= 0.5, jnp.log(x), jnp.log1p(-y))
    log_y = jnp.where(y <= 0.5, jnp.log(y), jnp.log1p(-x))
    by_powers = jnp.exp(a * log_x) * jnp.exp(b * log_y) / beta(a, b)
    by_logarithms = jnp.exp(a * log_x + b * log_y - log_beta(a, b))
    return jnp.where(great, by_stirling, jnp.where(jnp.maximum(a, b) < 75, by_powers, by_logarithms))


# the uniform expansion of the incomplete gamma functions (NIST Digital Library of Mathematical Functions, 8.12)
TEMME_ORDER: Final = 9
TEMME_DEGREE: Final = 19


@functools.cache
def temme_table() -> np.ndarray:
    """d[k, n], the coefficients of eta**n in c_k (DLMF 8.12.12-14)."""
    top = TEMME_DEGREE + 2 * TEMME_ORDER + 3
    alpha = [Fraction(0), Fraction(1)]
    for n in range(2, top + 1):
        alpha.append((alpha[n - 1] - sum(j * alpha[j] * alpha[n - j + 1] for j in range(2, n))) / (n + 1))
    # the coefficients of Gamma*(a) = sum g[k] a**-k (DLMF 5.11.5)
    g, rising = [], Fraction(1)
    for k in range(TEMME_ORDER):
        g.append(rising * alpha[2 * k + 1])
        rising *= 2 * k + 3
    rows = [[(n + 2) * alpha[n + 2] for n in range(top - 2)]]
    rows[0][0] = Fraction(-1, 3)
    for k in range(1, TEMME_ORDER):
        last = rows[-1]
        rows.append([(-1) ** k * g[k] * rows[0][n] + (n + 2) * last[n + 2] for n in range(len(last) - 2)])
    return np.array([[float(v) for v in row[:TEMME_DEGREE]] for row in rows])


__all__ = [
    "EULER", "HALF_LOG_TAU", "STIRLING", "beta", "beta_density", "gamma", "gamma_density", "gamma_sign", "log1p_rest", "log_beta",
    "log_gamma_1p", "sin_pi", "stirling", "temme_table",
]  # fmt: skip
