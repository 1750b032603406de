"""The normal distribution."""

from __future__ import annotations

import math
from typing import Any

from steno import numpy as jnp
from steno.scipy.special.normal import log_ndtr_core, ndtr_core, ndtri
from steno.scipy.stats.faces import elementwise, mirrored, of, upper_quantile

Array = Any
ArrayLike = Any


_HALF_LOG_TAU = math.log(2 * math.pi) / 2


@elementwise
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density."""
    return -jnp.square((x - loc) / scale) / 2 - (_HALF_LOG_TAU + jnp.log(scale))


pdf = of(logpdf, "pdf")


@elementwise
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function."""
    return ndtr_core((x - loc) / scale)


@elementwise
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the distribution function."""
    return log_ndtr_core((x - loc) / scale)


sf = mirrored(cdf, "sf")
logsf = mirrored(logcdf, "logsf")


@elementwise
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile: the inverse of cdf."""
    return ndtri(q) * scale + loc


isf = upper_quantile(ppf)


__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
