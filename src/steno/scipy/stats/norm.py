"""The normal distribution."""

from __future__ import annotations

import math
from typing import Any

from steno import numpy as jnp
from steno.scipy.special.normal import log_ndtr_core, ndtr_core, ndtri
from steno.scipy.stats.faces import elementwise, of

Array = Any
ArrayLike = Any


_HALF_LOG_TAU = math.log(2 * math.pi) / 2


@elementwise
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density."""
    return -jnp.square((x - loc) / scale) / 2 - (_HALF_LOG_TAU + jnp.log(scale))


pdf = of(logpdf, "pdf", "The density.")


@elementwise
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function."""
    return ndtr_core((x - loc) / scale)


@elementwise
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the distribution function."""
    return log_ndtr_core((x - loc) / scale)


@elementwise
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """1 - cdf(x), precise where that is small."""
    return ndtr_core((loc - x) / scale)


@elementwise
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of sf(x)."""
    return log_ndtr_core((loc - x) / scale)


@elementwise
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile: the inverse of cdf."""
    return ndtri(q) * scale + loc


@elementwise
def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The inverse of sf."""
    return loc - ndtri(q) * scale


__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
