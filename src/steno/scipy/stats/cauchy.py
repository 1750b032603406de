"""The Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

from steno import numpy as jnp
from steno.scipy.stats.faces import elementwise, logarithm, mirrored, of, upper_quantile

Array = Any
ArrayLike = Any


@elementwise
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density."""
    return -jnp.log(math.pi * scale) - jnp.log1p(jnp.square((x - loc) / scale))


pdf = of(logpdf, "pdf")


@elementwise
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function: 1 / 2 + atan(y) / pi, without cancellation for great negative y."""
    return jnp.arctan2(1.0, (loc - x) / scale) / math.pi


sf = mirrored(cdf, "sf")
logcdf = logarithm(cdf, sf, "logcdf")
logsf = mirrored(logcdf, "logsf")


def _quantile(q: Array) -> Array:
    """tan(pi (q - 1 / 2)) = -1 / tan(pi q)"""
    middle = jnp.abs(q - 0.5) < 0.25
    v = jnp.where(middle, 0.25, q)
    low = v < 0.5
    tail = jnp.where(low, v, 1 - v)
    out = jnp.where(middle, jnp.tan(math.pi * jnp.where(middle, q - 0.5, 0.0)), jnp.where(low, -1.0, 1.0) / jnp.tan(math.pi * tail))
    return jnp.where((q < 0) | (q > 1), jnp.nan, jnp.where(q == 0, -jnp.inf, jnp.where(q == 1, jnp.inf, out)))


@elementwise
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile: the inverse of cdf."""
    return loc + scale * _quantile(q)


isf = upper_quantile(ppf)


__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
