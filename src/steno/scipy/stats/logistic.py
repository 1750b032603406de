"""The logistic distribution."""

from __future__ import annotations

from typing import Any

from steno import lax, numpy as jnp
from steno.scipy.special.logarithms import logit
from steno.scipy.stats.faces import elementwise, mirrored, of, upper_quantile

Array = Any
ArrayLike = Any


@elementwise
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density."""
    y = jnp.abs((x - loc) / scale)
    return -y - 2 * jnp.log1p(jnp.exp(-y)) - jnp.log(scale)


pdf = of(logpdf, "pdf")


@elementwise
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function."""
    return lax.logistic((x - loc) / scale)


sf = mirrored(cdf, "sf")


@elementwise
def ppf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile: the inverse of cdf."""
    return loc + scale * logit(x)


isf = upper_quantile(ppf)


__all__ = ["cdf", "isf", "logpdf", "pdf", "ppf", "sf"]
