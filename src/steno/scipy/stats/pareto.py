"""The Pareto distribution."""

from __future__ import annotations

from typing import Any

from steno import numpy as jnp
from steno.scipy.stats.faces import elementwise, logarithm, of, within

Array = Any
ArrayLike = Any


@elementwise
def logpdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density; -inf outside of the support."""
    y = (x - loc) / scale
    return within(y >= 1, jnp.log(b / scale) - (b + 1) * jnp.log(jnp.maximum(y, 1.0)))


pdf = of(logpdf, "pdf")


@elementwise
def logsf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of sf(x)."""
    return -b * jnp.log(jnp.maximum((x - loc) / scale, 1.0))


sf = of(logsf, "sf")
cdf = of(logsf, "cdf", lambda log: -jnp.expm1(log))
logcdf = logarithm(cdf, sf, "logcdf")


@elementwise
def ppf(q: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile: the inverse of cdf; NaN for q outside of [0, 1]."""
    return jnp.where((q < 0) | (q > 1), jnp.nan, loc + scale * jnp.exp(-jnp.log1p(-q) / b))


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
