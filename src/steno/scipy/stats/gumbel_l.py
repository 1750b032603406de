"""The Gumbel distribution of least values."""

from __future__ import annotations

from typing import Any

from steno import numpy as jnp
from steno.scipy.stats.faces import elementwise, logarithm, of

Array = Any
ArrayLike = Any


@elementwise
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density."""
    y = (loc - x) / scale
    return jnp.where(scale > 0, -y - jnp.exp(-y) - jnp.log(scale), jnp.nan)


pdf = of(logpdf, "pdf", "The density.")


@elementwise
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of sf(x)."""
    return jnp.where(scale > 0, -jnp.exp((x - loc) / scale), jnp.nan)


sf = of(logsf, "sf", "1 - cdf(x), precise where that is small.")


@elementwise
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function."""
    return jnp.where(scale > 0, -jnp.expm1(-jnp.exp((x - loc) / scale)), jnp.nan)


logcdf = logarithm(cdf, sf, "logcdf")


@elementwise
def ppf(p: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile: the inverse of cdf."""
    return jnp.where(scale > 0, loc + scale * jnp.log(-jnp.log1p(-p)), jnp.nan)


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
