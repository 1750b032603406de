"""The exponential distribution."""

from __future__ import annotations

from typing import Any

from steno import numpy as jnp
from steno.scipy.stats.faces import elementwise, of, within

Array = Any
ArrayLike = Any


@elementwise
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density; -inf outside of the support."""
    y = (x - loc) / scale
    return within(y >= 0, -y - jnp.log(scale))


pdf = of(logpdf, "pdf", "The density.")


@elementwise
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function."""
    return -jnp.expm1(-jnp.maximum((x - loc) / scale, 0.0))


@elementwise
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the distribution function."""
    y = jnp.maximum((x - loc) / scale, 0.0)
    near = y < 0.7
    u, v = jnp.where(near, y, 0.5), jnp.where(near, 1.0, y)
    return jnp.where(near, jnp.log(-jnp.expm1(-u)), jnp.log1p(-jnp.exp(-v)))


@elementwise
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of sf(x)."""
    return -jnp.maximum((x - loc) / scale, 0.0)


sf = of(logsf, "sf", "1 - cdf(...).")


@elementwise
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile: the inverse of cdf; NaN for q outside of [0, 1]."""
    return jnp.where((q < 0) | (q > 1), jnp.nan, loc - jnp.log1p(-q) * scale)


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
