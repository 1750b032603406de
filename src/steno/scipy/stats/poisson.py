"""The Poisson distribution."""

from __future__ import annotations

import math
from typing import Any

from steno import lax, numpy as jnp
from steno.lax.incomplete import upper_gamma
from steno.scipy.special.logarithms import xlogy
from steno.scipy.stats.faces import elementwise, of, within

Array = Any
ArrayLike = Any


@elementwise
def logpmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k."""
    x = k - loc
    inside = (x >= 0) & (jnp.floor(x) == x)
    v = jnp.where(inside, x, 0.0)
    return within(inside, xlogy(v, mu) - lax.lgamma(v + 1) - mu)


pmf = of(logpmf, "pmf")


@elementwise
def cdf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The distribution function."""
    x = k - loc
    return within(x >= 0, upper_gamma(jnp.maximum(jnp.floor(x), 0.0) + 1, mu), 0.0)


@elementwise
def entropy(mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The entropy, in nats: summed over k < 200 for mu below 100, beyond that by the asymptotic series
    (log(2 pi e mu) - 1 / (6 mu) - 1 / (12 mu**2) - 19 / (180 mu**3)) / 2 (R. Evans, P. Boersma, The entropy of a Poisson distribution,
    1988)."""
    small = mu < 100
    v = jnp.where(small, mu, 1.0)

    def add(k: Array, total: Array) -> Array:
        log = xlogy(k, v) - v - lax.lgamma(k + 1)
        return total - jnp.exp(log) * log

    def step(total: Array, k: Array) -> tuple[Array, None]:
        return add(k, total), None

    summed = lax.scan(step, jnp.zeros_like(v), jnp.arange(260, dtype=v.dtype))[0]
    w = jnp.where(small, 100.0, mu)
    y = 1 / w
    series = -y / 12 - y * y / 24 - 19 * y**3 / 360 - 9 * y**4 / 80 - 863 * y**5 / 2520
    far = (jnp.log(2 * math.pi * w) + 1) / 2 + series
    out = jnp.where(small, jnp.where(mu == 0, 0.0, summed), far)
    return jnp.where((mu < 0) | jnp.isnan(mu), jnp.nan, out)


__all__ = ["cdf", "entropy", "logpmf", "pmf"]
