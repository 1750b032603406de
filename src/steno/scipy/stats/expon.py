"""The exponential distribution."""

from __future__ import annotations

from typing import Any

from steno import numpy as jnp
from steno.scipy.stats.faces import elementwise, logarithm, of, within

Array = Any
ArrayLike = Any


@elementwise
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density; -inf outside of the support."""
    y = (x - loc) / scale
    return within(y >= 0, -y - jnp.log(scale))


pdf = of(logpdf, "pdf")


@elementwise
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function."""
    return -jnp.expm1(-jnp.maximum((x - loc) / scale, 0.0))


@elementwise
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of sf(x)."""
    return -jnp.maximum((x - loc) / scale, 0.0)


sf = of(logsf, "sf")
logcdf = logarithm(cdf, sf, "logcdf")


@elementwise
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile: the inverse of cdf; NaN for q outside of [0, 1]."""
    return jnp.where((q < 0) | (q > 1), jnp.nan, loc - jnp.log1p(-q) * scale)


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
