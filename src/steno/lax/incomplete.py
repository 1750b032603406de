"""The incomplete gamma and beta functions, regularised.

Series and continued fractions (M. Abramowitz, I. Stegun, Handbook of Mathematical Functions, 6.5.29, 6.5.31, 26.5.8), the fractions by
the algorithm of Lentz as Thompson and Barnett modified it (1986); for great shapes near their mean the uniform expansion of N. Temme
(DLMF 8.12). A. Gil, J. Segura, N. Temme, Efficient and accurate algorithms for the computation and inversion of the incomplete gamma
function ratios, 2012, compare these. All in float64; derivatives by x are the densities, by the shape as in `gamma_derivative`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Final

from steno import lax, numpy as jnp
from steno.lax.elementwise import erfc
from steno.lax.gamma_derivative import random_gamma_grad
from steno.lax.gammas import beta_density, beta_density_short, gamma_density, gamma_kernel, log1p_rest, log_gamma_1p, temme_table, total
from steno.lax.in_double import in_double_op, polynomial, until
from steno.lax.operands import elementwise

Array = Any

_EPS: Final = 1e-16
"""What does not count in float64, and"""
_SINGLE_EPS: Final = 2.0**-36
"""in what is rounded to float32."""
_TINY: Final = 1e-300
_TERMS: Final = 5000
_GREAT: Final = 200.0
"""Shapes from here on go by Temme's expansion where |x - a| < 0.3 a,"""
_LONG: Final = 1e5
"""and less than some deviations; from here on everywhere in between, as series and fractions have a multiple of sqrt(a) terms."""


def _series(a: Array, x: Array, eps: float = _EPS) -> Array:
    """1 + x / (a + 1) + x**2 / ((a + 1) (a + 2)) + ..."""

    def step(n: Array, term: Array, total: Array) -> tuple[Array, ...]:
        term = term * (x / (a + n))
        return term, total + term

    one = jnp.ones_like(x)
    return until(_TERMS, lambda term, total: term > eps * total, step, (one, one))[1]


def _fraction(a: Array, x: Array, eps: float = _EPS) -> Array:
    """1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ...))"""
    b0 = x + 1 - a

    def step(n: Array, c: Array, d: Array, f: Array, ratio: Array) -> tuple[Array, ...]:
        top, b = -n * (n - a), b0 + 2 * n
        c, d = _away(b + top / c), 1 / _away(b + top * d)
        return c, d, f * (c * d), c * d

    start = (jnp.full_like(x, 1 / _TINY), 1 / b0, 1 / b0, jnp.zeros_like(x))
    return until(_TERMS, lambda c, d, f, ratio: jnp.abs(ratio - 1) > 2 * eps, step, start)[2]


def _away(x: Array) -> Array:
    """x, but not zero."""
    return jnp.where(x == 0, _TINY, x)


def _near_zero(a: Array, x: Array) -> Array:
    """1 - x**a / Gamma(a + 1) (1 + a S), S = sum over n >= 1 of (-x)**n / ((a + n) n!), without cancellation for small a and x <= 1."""
    s, power = jnp.zeros_like(x), jnp.ones_like(x)
    for n in range(1, 21):
        power = power * (-x / n)
        s = s + power / (a + n)
    log = a * jnp.log(x) - log_gamma_1p(a)
    return -jnp.expm1(log) - jnp.exp(log) * (a * s)


def _uniform(a: Array, x: Array, upper: bool) -> Array:
    """Half of erfc(-+ eta sqrt(a / 2)), -+ R, with eta**2 / 2 = x / a - 1 - log(x / a)."""
    mu = (x - a) / a
    phi = log1p_rest(mu, x / a)
    eta = jnp.copysign(jnp.sqrt(2 * phi), mu)
    rest = polynomial(1 / a, [polynomial(eta, row) for row in temme_table().tolist()])
    rest = rest * gamma_kernel(a, x) / jnp.sqrt(2 * math.pi * a)
    z = eta * jnp.sqrt(a / 2)
    return erfc(z) / 2 + rest if upper else erfc(-z) / 2 - rest


def _ratios(upper: bool) -> Callable[..., Array]:
    def ratio(a: Array, x: Array, eps: float = _EPS) -> Array:
        proper = (a > 0) & (x > 0) & (a < jnp.inf) & (x < jnp.inf)
        close = jnp.square(x - a) < 18 * a
        uniform = proper & (a >= _GREAT) & (jnp.abs(x - a) < 0.3 * a) & (close | (a > _LONG))
        # beyond the mean the fraction is slow, and by the series only the complement would cancel
        lower = proper & ~uniform & (x <= (jnp.maximum(a, 1.0) if upper else a + 4))
        above = proper & ~uniform & ~lower
        tiny = lower & (a < 1)
        p = _series(jnp.where(lower, a, 1), jnp.where(lower, x, 0.5), eps) * gamma_density(jnp.where(lower, a, 1), jnp.where(lower, x, 0.5))
        u, v = jnp.where(above, a, 1), jnp.where(above, x, 2)
        q = _fraction(u, v, eps) * u * gamma_density(u, v)
        w = jnp.where(uniform, a, _GREAT), jnp.where(uniform, x, _GREAT)
        if upper:
            small = _near_zero(jnp.where(tiny, a, 0.5), jnp.where(tiny, x, 0.5))
            out = jnp.where(tiny, small, jnp.where(lower, 1 - p, q))
        else:
            out = jnp.where(lower, p, 1 - q)
        out = jnp.where(uniform, _uniform(*w, upper), out)
        none, all_ = (1.0, 0.0) if upper else (0.0, 1.0)
        out = jnp.where((x == 0) | (a == jnp.inf), none, out)
        out = jnp.where((x == jnp.inf) | (a == 0), all_, out)
        bad = (a < 0) | (x < 0) | jnp.isnan(a) | jnp.isnan(x) | ((a == 0) & (x == 0)) | ((a == jnp.inf) & (x == jnp.inf))
        return jnp.where(bad, jnp.nan, out)

    return ratio


def _by_x(a: Array, x: Array) -> Array:
    """x**(a - 1) exp(-x) / Gamma(a)"""
    edge = jnp.where(a < 1, jnp.inf, jnp.where(a == 1, 1.0, 0.0))
    inner = (x > 0) & (x < jnp.inf)
    v = jnp.where(inner, x, 1)
    return jnp.where(inner, gamma_density(a, v) * (a / v), jnp.where(x == 0, edge, 0.0))


def _grad_a(a: Array, x: Array) -> Array:
    inner = (x > 0) & (x < jnp.inf)
    v = jnp.where(inner, x, 1)
    return jnp.where(inner, -_by_x(a, v) * random_gamma_grad(a, v), jnp.where(jnp.isnan(x) | (x < 0), jnp.nan, 0.0))


igamma_grad_a_p = in_double_op("igamma_grad_a", _grad_a, None, None)
lower_gamma = igamma_p = in_double_op(
    "igamma", _ratios(False), lambda out, a, x: igamma_grad_a_p(a, x), lambda out, a, x: _by_x(a, x), eps=_SINGLE_EPS
)
upper_gamma = igammac_p = in_double_op(
    "igammac", _ratios(True), lambda out, a, x: -igamma_grad_a_p(a, x), lambda out, a, x: -_by_x(a, x), eps=_SINGLE_EPS
)


def _beta_fraction(a: Array, b: Array, x: Array, patience: int, eps: float) -> Array:
    """1 / (1 + d1 / (1 + d2 / ...)) of 26.5.8, until `patience` steps in a row change nothing."""

    def even(m: Array) -> Array:
        return m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))

    def odd(m: Array) -> Array:
        return -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))

    def step(n: Array, c: Array, d: Array, f: Array, left: Array) -> tuple[Array, ...]:
        t = even(n)
        c, d = _away(1 + t / c), 1 / _away(1 + t * d)
        first = c * d
        t = odd(n)
        c, d = _away(1 + t / c), 1 / _away(1 + t * d)
        ratio = first * (c * d)
        return c, d, f * ratio, jnp.where(jnp.abs(ratio - 1) > 2 * eps, float(patience), left - 1)

    d = 1 / _away(1 + odd(jnp.zeros_like(x)))
    start = (jnp.ones_like(x), d, d, jnp.full_like(x, float(patience)))
    return until(_TERMS, lambda c, d, f, left: (left > 0) & ~jnp.isnan(f), step, start)[2]


def _beta_series(a: Array, b: Array, x: Array, eps: float) -> Array:
    """The sum of (1 - b) (2 - b) ... (n - b) / n! a / (a + n) x**n (26.5.4), whose terms are positive for b <= 1."""

    def step(n: Array, term: Array, total: Array) -> tuple[Array, ...]:
        term = term * ((n - b) / n * x)
        return term, total + term * (a / (a + n))

    one = jnp.ones_like(x)
    return until(4 * _TERMS, lambda term, total: term > eps * total, step, (one, one))[1]


def _beta_ratio(a: Array, b: Array, x: Array, patience: int = 1, eps: float = _EPS) -> Array:
    proper = (a > 0) & (b > 0) & (a < jnp.inf) & (b < jnp.inf) & (x > 0) & (x < 1)
    swap = x > (a + 1) / (a + b + 2)
    p, q, v = (jnp.where(proper, t, 0.5) for t in (a, b, x))
    # the complement of the complement would be small
    series = swap & proper & (b <= 1) & (x < 0.998)
    swap = swap & proper & ~series
    w, low = total(jnp.ones_like(v), -v)
    v, v_low, w, w_low = (jnp.where(swap, s, t) for s, t in ((w, v), (low, 0.0), (v, w), (0.0, low)))
    p, q = jnp.where(swap, q, p), jnp.where(swap, p, q)
    # beyond the middle only the complement has a fraction that converges fast
    sum_of_terms = _beta_series(p, jnp.where(series, q, 0.5), jnp.where(series, v, 0.0), eps)
    v_fraction = jnp.where(series, 0.0, v)
    by_series = sum_of_terms / lax.pow(w, jnp.where(series, q, 1.0))
    factor = jnp.where(series, by_series, _beta_fraction(p, q, v_fraction, patience, eps))
    density = beta_density if eps == _EPS else beta_density_short
    out = factor * density(p, q, v, w, v_low, w_low) / p
    out = jnp.where(swap, 1 - out, out)
    # the ends of x come first: with an infinite or a zero shape all probability is at the other end
    out = jnp.where((a == 0) | (b == jnp.inf), 1.0, jnp.where((b == 0) | (a == jnp.inf), 0.0, out))
    out = jnp.where(x == 0, 0.0, jnp.where(x == 1, 1.0, out))
    bad = (a < 0) | (b < 0) | (x < 0) | (x > 1) | ((a == 0) & (b == 0)) | ((a == jnp.inf) & (b == jnp.inf))
    return jnp.where(bad | jnp.isnan(a) | jnp.isnan(b) | jnp.isnan(x), jnp.nan, out)


def _beta_by_x(out: Array, a: Array, b: Array, x: Array) -> Array:
    """x**(a - 1) (1 - x)**(b - 1) / B(a, b)"""
    inner = (x > 0) & (x < 1)
    v = jnp.where(inner, x, 0.5)
    w, low = total(jnp.ones_like(v), -v)
    return jnp.where(inner, beta_density(a, b, v, w, 0.0, low) / (v * w), 0.0)


# where b is natural the fraction ends, but its derivative by b does not
incomplete_beta = regularized_incomplete_beta_p = in_double_op(
    "regularized_incomplete_beta",
    _beta_ratio,
    None,
    None,
    _beta_by_x,
    slow=functools.partial(_beta_ratio, patience=60),
    eps=_SINGLE_EPS,
)


# the functions of lax


def igamma(a: Array, x: Array) -> Array:
    """The regularised lower incomplete gamma function P(a, x); floats of one dtype, elementwise. TypeError for other dtypes."""
    return elementwise(igamma_p, a, x)


def igammac(a: Array, x: Array) -> Array:
    """The regularised upper incomplete gamma function Q(a, x); floats of one dtype, elementwise. TypeError for other dtypes."""
    return elementwise(igammac_p, a, x)


def igamma_grad_a(a: Array, x: Array) -> Array:
    """The derivative of P(a, x) by a; floats of one dtype, elementwise. TypeError for other dtypes."""
    return elementwise(igamma_grad_a_p, a, x)


def betainc(a: Array, b: Array, x: Array) -> Array:
    """The regularised incomplete beta function I_x(a, b); floats of one dtype, elementwise. TypeError for other dtypes."""
    return elementwise(regularized_incomplete_beta_p, a, b, x)


__all__ = [
    "betainc", "igamma", "igamma_grad_a", "igamma_grad_a_p", "igamma_p", "igammac", "igammac_p", "incomplete_beta", "lower_gamma",
    "regularized_incomplete_beta_p", "upper_gamma",
]  # fmt: skip
