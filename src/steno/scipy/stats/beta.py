"""The beta distribution."""

from __future__ import annotations

from typing import Any

from steno import numpy as jnp
from steno.lax.gammas import log_beta
from steno.lax.incomplete import incomplete_beta
from steno.scipy.special.logarithms import xlog1py, xlogy
from steno.scipy.stats.faces import elementwise, logarithm, of, within

Array = Any
ArrayLike = Any


@elementwise
def logpdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density; -inf outside of the support."""
    y = (x - loc) / scale
    value = xlogy(a - 1, y) + xlog1py(b - 1, -y) - log_beta(a, b) - jnp.log(scale)
    out = within((y >= 0) & (y <= 1), value)
    return jnp.where((a <= 0) | (b <= 0) | (scale <= 0), jnp.nan, out)


pdf = of(logpdf, "pdf")


@elementwise
def cdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function."""
    return incomplete_beta(a, b, jnp.clip((x - loc) / scale, 0.0, 1.0))


@elementwise
def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """1 - cdf(x), precise where that is small."""
    return incomplete_beta(b, a, 1 - jnp.clip((x - loc) / scale, 0.0, 1.0))


logcdf = logarithm(cdf, sf, "logcdf")
logsf = logarithm(sf, cdf, "logsf")


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]
