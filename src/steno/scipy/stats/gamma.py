"""The gamma distribution."""

from __future__ import annotations

from typing import Any

from steno import lax, numpy as jnp
from steno.lax.incomplete import lower_gamma, upper_gamma
from steno.scipy.special.logarithms import xlogy
from steno.scipy.stats.faces import elementwise, logarithm, of, within

Array = Any
ArrayLike = Any


@elementwise
def logpdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density; -inf outside of the support."""
    y = (x - loc) / scale
    inside = y >= 0
    v = jnp.where(inside, y, 1.0)
    return within(inside, xlogy(a - 1, v) - v - lax.lgamma(a) - jnp.log(scale))


pdf = of(logpdf, "pdf")


@elementwise
def cdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function."""
    y = (x - loc) / scale
    return within(y > 0, lower_gamma(a, jnp.where(y > 0, y, 1.0)), 0.0)


@elementwise
def sf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """1 - cdf(x), precise where that is small."""
    y = (x - loc) / scale
    return within(y > 0, upper_gamma(a, jnp.where(y > 0, y, 1.0)), 1.0)


logcdf = logarithm(cdf, sf, "logcdf")
logsf = logarithm(sf, cdf, "logsf")


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]
