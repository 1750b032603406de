"""The chi-squared distribution."""

from __future__ import annotations

import math
from typing import Any

from steno import lax, numpy as jnp
from steno.lax.incomplete import lower_gamma, upper_gamma
from steno.scipy.special.logarithms import xlogy
from steno.scipy.stats.faces import elementwise, logarithm, of, within

Array = Any
ArrayLike = Any


@elementwise
def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density; -inf outside of the support."""
    y = (x - loc) / scale / 2
    inside = y >= 0
    v = jnp.where(inside, y, 1.0)
    return within(inside, xlogy(df / 2 - 1, v) - v - lax.lgamma(df / 2) - jnp.log(scale) - math.log(2))


pdf = of(logpdf, "pdf")


@elementwise
def cdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function."""
    y = (x - loc) / scale / 2
    return within(y > 0, lower_gamma(df / 2, jnp.where(y > 0, y, 1.0)), 0.0)


@elementwise
def sf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """1 - cdf(x), precise where that is small."""
    y = (x - loc) / scale / 2
    return within(y > 0, upper_gamma(df / 2, jnp.where(y > 0, y, 1.0)), 1.0)


logcdf = logarithm(cdf, sf, "logcdf")
logsf = logarithm(sf, cdf, "logsf")


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]
