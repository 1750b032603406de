"""The Gumbel distribution of greatest values."""

from __future__ import annotations

from typing import Any

from steno import numpy as jnp
from steno.scipy.stats.faces import elementwise, logarithm, of

Array = Any
ArrayLike = Any


@elementwise
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density."""
    y = (x - loc) / scale
    return jnp.where(scale > 0, -y - jnp.exp(-y) - jnp.log(scale), jnp.nan)


pdf = of(logpdf, "pdf")


@elementwise
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of cdf(x)."""
    return jnp.where(scale > 0, -jnp.exp(-(x - loc) / scale), jnp.nan)


cdf = of(logcdf, "cdf")


@elementwise
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """1 - cdf(x), precise where that is small."""
    return jnp.where(scale > 0, -jnp.expm1(-jnp.exp(-(x - loc) / scale)), jnp.nan)


logsf = logarithm(sf, cdf, "logsf")


@elementwise
def ppf(p: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile: the inverse of cdf."""
    return jnp.where(scale > 0, loc - scale * jnp.log(-jnp.log(p)), jnp.nan)


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
