"""The Bernoulli distribution."""

from __future__ import annotations

from typing import Any

from steno import numpy as jnp
from steno.scipy.special.logarithms import xlog1py, xlogy
from steno.scipy.stats.faces import elementwise, of, within

Array = Any
ArrayLike = Any


@elementwise
def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k."""
    x = k - loc
    proper = ((x == 0) | (x == 1)) & (p >= 0) & (p <= 1)
    return within(proper, xlogy(x, p) + xlog1py(1 - x, -p))


pmf = of(logpmf, "pmf")


@elementwise
def cdf(k: ArrayLike, p: ArrayLike) -> Array:
    """The distribution function."""
    bad = jnp.isnan(p) | (p < 0) | (p > 1) | jnp.isnan(k)
    return jnp.where(bad, jnp.nan, jnp.where(k < 0, 0.0, jnp.where(k < 1, 1 - p, 1.0)))


@elementwise
def ppf(q: ArrayLike, p: ArrayLike) -> Array:
    """The quantile: the inverse of cdf."""
    bad = jnp.isnan(q) | jnp.isnan(p) | (p < 0) | (p > 1) | (q < 0) | (q > 1)
    return jnp.where(bad, jnp.nan, jnp.where(q == 0, -1.0, jnp.where(q <= 1 - p, 0.0, 1.0)))


__all__ = ["cdf", "logpmf", "pmf", "ppf"]
