"""Gamma and beta functions in float64, to a few units in the last place, and what of them the incomplete ones need.

Formulas: M. Abramowitz, I. Stegun, Handbook of Mathematical Functions, chapter 6; A. DiDonato, A. Morris, Algorithm 708: significant digit
computation of the incomplete beta function ratios, 1992 (the beta function of great arguments). Powers with great exponents show the
rounding errors of their bases: these are carried along, as `low` parts."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import numpy as np

from steno import lax, numpy as jnp
from steno.lax.in_double import polynomial, with_derivatives
from steno.lax.operands import elementwise
from steno.ops.random import fma

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


def fused(x: Array, y: Array, z: Array) -> Array:
    """x y + z, rounded once."""
    return elementwise(fma, x, y, z)


def total(x: Array, y: Array) -> tuple[Array, Array]:
    """(the sum, its rounding error) (D. Knuth, The Art of Computer Programming 2, 4.2.2)."""
    s = x + y
    part = s - x
    return s, (x - (s - part)) + (y - part)


def ratio(x: Array, y: Array, low: Array | float = 0.0) -> tuple[Array, Array]:
    """(the quotient (x + low) / y, its rounding error)."""
    q = x / y
    return q, (fused(-q, y, x) + low) / y


def power(x: Array, low: Array, y: Array) -> Array:
    """(x + low)**y for a small `low`."""
    return lax.pow(x, y) * (1 + y * (low / x))


# the coefficients of 1 / Gamma(1 + t) (6.1.34)
_RECIPROCAL: Final = (
    1.0, EULER, -0.6558780715202539, -0.04200263503409524, 0.16653861138229148, -0.04219773455554433, -0.009621971527876973,
    0.0072189432466631, -0.0011651675918590652, -0.00021524167411495098, 0.0001280502823881162, -2.013485478078824e-05,
    -1.2504934821426706e-06, 1.133027231981696e-06, -2.056338416977607e-07, 6.116095104481416e-09, 5.002007644469223e-09,
    -1.18127457048702e-09, 1.0434267116911005e-10,
)  # fmt: skip


def _gamma_above(x: Array) -> Array:
    """Gamma(x) for x >= 1/2: Stirling's formula for x >= 12; below it (x - 1) (x - 2) ... Gamma(1 + t) with -1/2 <= t <= 1/2."""
    great = x >= RAISED
    z = jnp.where(great, x, RAISED)
    half = lax.pow(z, z / 2 - 0.25)
    by_stirling = math.sqrt(2 * math.pi) * half * jnp.exp(-z) * half * jnp.exp(stirling(z))
    v = jnp.where(great | jnp.isnan(x), 1, x)
    n = jnp.maximum(jnp.round(v), 1)
    t = v - n
    product, low = jnp.ones_like(v), jnp.zeros_like(v)
    for k in range(1, RAISED):
        factor = jnp.where(k < n, t + k, 1)  # exact
        step = product * factor
        low, product = fused(product, factor, -step) + low * factor, step
    value = jnp.where(great, by_stirling, (product + low) / polynomial(t, _RECIPROCAL))
    n = jnp.clip(jnp.where(jnp.isnan(x), 0, x), 1, 24).astype(jnp.int32)
    exact = jnp.asarray([math.factorial(max(k - 1, 0)) for k in range(24)] + [0.0], x.dtype)
    value = jnp.where((x == jnp.floor(x)) & (x < 24), exact[n], value)
    return jnp.where(jnp.isnan(x), x, jnp.where(x > 171.7, jnp.inf, value))


def _gamma(x: Array) -> Array:
    """The gamma function: infinite at zeros, with their signs, NaN at negative integers and -inf."""
    low = x < 0.5
    near = jnp.abs(x) < 0.5
    z, lost = total(jnp.ones_like(x), -jnp.where(low & ~near, x, 0))
    value = _gamma_above(jnp.where(low, z, x))
    s = sin_pi(x)
    value_z = value * (1 + lost * (jnp.log(z) - 0.5 / z))
    reflected = jnp.where(value == jnp.inf, jnp.copysign(0.0, s), math.pi / (s * value_z))
    reflected = jnp.where(near, 1 / (x * polynomial(jnp.where(near, x, 0), _RECIPROCAL)), reflected)
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


def _ordered(a: Array, b: Array) -> tuple[Array, Array, Array]:
    """(whether both are positive, the smaller one, the greater one; 1 where one is not positive)."""
    positive = (a > 0) & (b > 0)
    p, q = jnp.where(positive, a, 1), jnp.where(positive, b, 1)
    return positive, jnp.minimum(p, q), jnp.maximum(p, q)


def _log_quotient_rest(p: Array, q: Array) -> Array:
    """log(q**p Gamma(q) / Gamma(p + q)) for q >= max(p, 12)."""
    h = p / q
    return q * log1p_rest(h, 1 + h) - (p - 0.5) * jnp.log1p(h) + (stirling(q) - stirling(p + q))


def _log_beta(a: Array, b: Array) -> Array:
    """log |B(a, b)|."""
    positive, p, q = _ordered(a, b)
    great = q == jnp.inf
    q = jnp.where(great, 1e300, q)
    middle, both = q >= RAISED, p >= RAISED
    u, v = jnp.where(middle & ~both, p, 1), jnp.where(middle & ~both, q, RAISED)
    by_quotient = lax.lgamma(u) + (_log_quotient_rest(u, v) - u * jnp.log(v))
    u, v = jnp.where(both, p, RAISED), jnp.where(both, q, RAISED)
    h = u / v
    rest = stirling(u) + stirling(v) - stirling(u + v)
    by_stirling = (HALF_LOG_TAU - 0.5 * jnp.log(v) + rest) - (u - 0.5) * jnp.log1p(1 / h) - v * jnp.log1p(h)
    u, v = jnp.where(middle, 1, p), jnp.where(middle, 1, q)
    direct = jnp.log(_beta_by_gammas(u, v))
    value = jnp.where(both, by_stirling, jnp.where(middle, by_quotient, direct))
    value = jnp.where(great, -jnp.inf, value)
    other = lax.lgamma(a) + (lax.lgamma(b) - lax.lgamma(a + b))
    return jnp.where(positive, value, other)


log_beta = with_derivatives(
    _log_beta, lambda out, a, b: lax.digamma(a) - lax.digamma(a + b), lambda out, a, b: lax.digamma(b) - lax.digamma(a + b)
)


def _beta_by_gammas(a: Array, b: Array) -> Array:
    n, lost = total(a, b)
    x, y, z = gamma(a), gamma(b), gamma(n)
    z = jnp.where(n > 1, z * (1 + lost * (jnp.log(jnp.maximum(n, 1)) - 0.5 / jnp.maximum(n, 1))), z)
    return jnp.where(jnp.abs(x) > jnp.abs(y), x / z * y, y / z * x)


def beta(a: Array, b: Array) -> Array:
    """B(a, b): by gamma functions where they are finite; beyond, for positive numbers, by Stirling's formula."""
    positive, p, q = _ordered(a, b)
    both = p >= RAISED
    u, v = jnp.where(both, 1, p), jnp.where(both, RAISED, jnp.maximum(q, RAISED))
    by_quotient = gamma(u) * lax.pow(v, -u) * jnp.exp(_log_quotient_rest(u, v))
    u, v = jnp.where(both, p, RAISED), jnp.where(both, q, RAISED)
    n, lost = total(u, v)
    first, second = (power(*ratio(x, n, -x / n * lost), x) for x in (u, v))
    flat = v > 1e8
    second = jnp.where(flat, jnp.exp(-v * jnp.log1p(u / v)), second)
    by_stirling = first * second * jnp.exp(stirling(u) + stirling(v) - stirling(n)) * jnp.sqrt(2 * math.pi / u * (n / v))
    direct = _beta_by_gammas(a, b)
    plain = (jnp.abs(a) < 150) & (jnp.abs(b) < 150) & (jnp.abs(a + b) < 160) & (gamma(a + b) != 0)
    sign = gamma_sign(a) * gamma_sign(b) * gamma_sign(a + b)
    far = jnp.where(positive & (q < jnp.inf), jnp.where(both, by_stirling, by_quotient), sign * jnp.exp(log_beta(a, b)))
    return jnp.where(plain, direct, far)


def _moderate(*logs: Array) -> Array:
    """Whether the exponentials of all of them are far from overflow and underflow."""
    return functools.reduce(lambda x, y: x & y, (jnp.abs(v) < 600 for v in logs))


def _balanced(exponent: Array, product: Callable[[Array], Array], *logs: Array) -> Array:
    """exp(-exponent), which is product(1), by factors whose logarithms are `logs`: by the exponent where that is small, as its rounding
    error counts; else as the product, or as that of the factors' eighth roots, product(1/8), to the power 8, where they would overflow."""
    plain = _moderate(*logs)
    value = product(jnp.where(plain, 1.0, 0.125))
    value = jnp.where(plain, value, jnp.square(jnp.square(jnp.square(value))))
    return jnp.where((exponent > 2) & _moderate(*(v / 8 for v in logs)), value, jnp.exp(-exponent))


def gamma_kernel(p: Array, x: Array) -> Array:
    """(x / p)**p exp(p - x)."""
    exponent = p * log1p_rest((x - p) / p, x / p)
    r, low = ratio(x, p)
    d, lost = total(p, -x)
    return _balanced(exponent, lambda part: power(r, low, p * part) * jnp.exp(d * part) * (1 + lost * part), p * jnp.log(r), d)


def gamma_density(a: Array, x: Array) -> Array:
    """x**a exp(-x) / Gamma(a + 1) for a > 0, x > 0."""
    great = a >= RAISED
    p = jnp.where(great, a, RAISED)
    by_stirling = gamma_kernel(p, x) * jnp.exp(-stirling(p)) / jnp.sqrt(2 * math.pi * p)
    q = jnp.where(great, 1, a)
    by_power = lax.pow(x, q) * jnp.exp(-x) / jnp.where(q > 1, q * gamma(q), gamma(q + 1))
    return jnp.where(great, by_stirling, by_power)


def beta_density(a: Array, b: Array, x: Array, y: Array, x_low: Array | float = 0.0, y_low: Array | float = 0.0) -> Array:
    """x**a y**b / B(a, b) for a, b > 0, y = 1 - x; the low parts are what rounding took from x and y."""
    least, most = jnp.minimum(a, b), jnp.maximum(a, b)
    great = least >= RAISED
    p, q = jnp.where(great, a, RAISED), jnp.where(great, b, RAISED)
    n, lost = total(p, q)
    # p log(x n / p) + q log(y n / q); where one factor is far from 1 its logarithm is precise anyway
    away = x * q - y * p
    of_p, of_q = -p * log1p_rest(away / p, x * (n / p)), -q * log1p_rest(-away / q, y * (n / q))

    def scaled(x: Array, low: Array | float, p: Array) -> tuple[Array, Array]:
        """x n / p"""
        high = x * n
        return ratio(high, p, fused(x, n, -high) + low * n + x * lost)

    (r, r_low), (s, s_low) = scaled(x, x_low, p), scaled(y, y_low, q)
    logs = p * jnp.log(r), q * jnp.log(s)
    kernel = _balanced(-of_p - of_q, lambda part: power(r, r_low, p * part) * power(s, s_low, q * part), *logs)
    rest = stirling(n) - stirling(p) - stirling(q)
    by_stirling = kernel * jnp.exp(rest) * jnp.sqrt(p / n * (q / (2 * math.pi)))
    # one of them below 12: (x q)**p y**q / (Gamma(p) q**p B(p, q)) for the greater one q
    turn = a > b
    u, u_low, v, v_low = (jnp.where(turn, s, t) for s, t in ((y, x), (y_low, x_low), (x, y), (x_low, y_low)))
    one = most >= RAISED
    p, q = jnp.where(great | ~one, 1, least), jnp.where(great | ~one, RAISED, most)
    high = u * q
    by_quotient = power(high, fused(u, q, -high) + u_low * q, p) * power(v, v_low, q) / gamma(p) * jnp.exp(-_log_quotient_rest(p, q))
    p, q = jnp.where(one, 1, least), jnp.where(one, 1, most)
    direct = power(u, u_low, p) * power(v, v_low, q) / beta(p, q)
    return jnp.where(great, by_stirling, jnp.where(one, by_quotient, direct))


def beta_density_short(a: Array, b: Array, x: Array, y: Array, x_low: Array, y_low: Array) -> Array:
    """The same to what float32 shows, by the exponential of one sum of logarithms."""
    least, most = jnp.minimum(a, b), jnp.maximum(a, b)
    great, one = least >= RAISED, most >= RAISED
    p, q = jnp.where(great, a, RAISED), jnp.where(great, b, RAISED)
    n, away = p + q, x * q - y * p
    near_mean = p * log1p_rest(away / p, x * (n / p)) + q * log1p_rest(-away / q, y * (n / q))
    by_stirling = stirling(n) - stirling(p) - stirling(q) + jnp.log(p / n * (q / (2 * math.pi))) / 2 - near_mean
    powers = a * (jnp.log(x) + x_low / x) + b * (jnp.log(y) + y_low / y)
    p = jnp.where(great, 1, least)
    q, r = jnp.where(great | ~one, RAISED, most), jnp.where(one, 1, most)
    quotient = jnp.where(one, p * jnp.log(q) - _log_quotient_rest(p, q), lax.lgamma(p + r) - lax.lgamma(r))
    return jnp.exp(jnp.where(great, by_stirling, powers + quotient - lax.lgamma(p)))


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
    "EULER", "HALF_LOG_TAU", "STIRLING", "beta", "beta_density", "beta_density_short", "fused", "gamma", "gamma_density", "gamma_kernel",
    "gamma_sign", "log1p_rest", "log_beta",
    "log_gamma_1p", "sin_pi", "stirling", "ratio", "temme_table", "total",
]  # fmt: skip
