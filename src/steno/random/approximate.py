"""Gamma and Poisson distributed numbers from one normal number each, without rejection, and so only approximately so distributed (total
variation distance about 1e-4).

The cube root of a gamma number of shape a and mean 1 is nearly normal (E. Wilson, M. Hilferty, The distribution of chi-square, 1931). Its
quantile is a polynomial in x = z / sqrt(2 a) and v = 1 / (2 a), z being that of the normal distribution: its first terms are
1 - 2 v / 9 + sqrt(2) x / 3, the others were fitted by least squares to exact quantiles for a >= 4 and |z| < 6. Smaller shapes go through
a + 4: each uniform number to the power 1 / (a + k), k = 3, ..., 0, takes one off.

Poisson counts of a mean below 20 are found in the table of the distribution function; beyond, they are the expansion of the quantile by
E. Cornish and R. Fisher (Moments and cumulants in the specification of distributions, 1938), with Sheppard's correction of the variance
for rounding to whole numbers."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from steno import lax, numpy as jnp
from steno.random.continuous import exponential, normal
from steno.random.keys import Array, Shape, pair

_SHIFT: Final = 4
_TABLE_BELOW, _TABLE_SIZE = 20, 64
_COEFFICIENTS: Final = (  # of x**i, each a polynomial in v
    (1.0, -0.22222329, -0.022990104, 0.012326832, 0.014518741),
    (0.47140458, 0.026177968, -0.010878901, 0.0049858968, 0.017775579),
    (3.1800642e-07, 0.013169491, 0.011784396, 0.011435532, -0.096981163),
    (-0.0087289968, -0.0094467299, -0.025282002, 0.0069638924, -0.04911684),
    (0.0032875823, 0.0037848467, 0.0038492211, 0.0097828536),
    (-0.000753712, 0.0022020511, 0.0049132118),
    (1.5028316e-05, -0.001379467),
)


def _polynomial(coefficients: Any, x: Any) -> Any:
    out: Any = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        out = out * x + c
    return out


def log_gamma_numbers(key: Array, a: Array, shape: Shape) -> Array:
    """Logarithms of gamma numbers of the shape parameters a, of this shape. Differentiable by a at fixed random numbers."""
    of_normal, of_powers = pair(key)
    raised = a + _SHIFT
    v = 1 / (2 * raised)
    x = normal(of_normal, shape, a.dtype) * jnp.sqrt(v)
    root = jnp.maximum(_polynomial([_polynomial(c, v) for c in _COEFFICIENTS], x), float(np.finfo(np.float32).tiny))
    draws = exponential(of_powers, (*shape, _SHIFT), a.dtype)
    steps = a[..., None] + lax.broadcasted_iota(a.dtype, (1,) * a.ndim + (_SHIFT,), a.ndim)
    return jnp.log(raised) + 3 * jnp.log(root) - jnp.sum(draws / steps, -1)


def poisson_counts(key: Array, lam: Array, shape: Shape, dtype: Any) -> Array:
    """Poisson counts of the float32 means lam, of this shape; -1 for a mean that is negative or NaN."""
    z = normal(key, shape, lam.dtype)
    small = lam < _TABLE_BELOW
    few = _by_table(0.5 * lax.erfc(z * -math.sqrt(0.5)), jnp.where(small, lam, 1))
    many = _by_expansion(z, jnp.where(small, _TABLE_BELOW, lam))
    counts = jnp.where(small, few, many)
    return jnp.where(lam >= 0, counts, -1).astype(dtype)


def _by_table(u: Array, lam: Array) -> Array:
    """How many values of the distribution function lie below u."""

    def step(k: Any, state: Any) -> Any:
        count, share, total = state
        count = jnp.where(u >= total, count + 1, count)
        share = share * lam / jnp.asarray(k + 1, lam.dtype)
        return count, share, total + share

    start = jnp.exp(-lam)
    return lax.fori_loop(0, _TABLE_SIZE, step, (jnp.zeros_like(u), start, start))[0]


def _by_expansion(z: Array, lam: Array) -> Array:
    root = jnp.sqrt(lam)
    square = z * z
    w = z * (1 - 1 / (24 * lam)) + (square - 1) / (6 * root) + z * (1 - square) / (72 * lam)
    w = w + _polynomial((-32.0, 14.0, 6.0), square) / (6480 * lam * root)
    return jnp.floor(lam + root * w + 0.5)
