"""The logistic distribution."""

from __future__ import annotations

from typing import Any

from steno import lax, numpy as jnp
from steno.scipy.special.logarithms import logit
from steno.scipy.stats.faces import elementwise, of

Array = Any
ArrayLike = Any


@elementwise
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density."""
    y = jnp.abs((x - loc) / scale)
    return -y - 2 * jnp.log1p(jnp.exp(-y)) - jnp.log(scale)


pdf = of(logpdf, "pdf", "The density.")


@elementwise
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function."""
    return lax.logistic((x - loc) / scale)


@elementwise
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """1 - cdf(x), precise where that is small."""
    return lax.logistic((loc - x) / scale)


@elementwise
def ppf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile: the inverse of cdf."""
    return loc + scale * logit(x)


@elementwise
def isf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The inverse of sf."""
    return loc - scale * logit(x)


__all__ = ["cdf", "isf", "logpdf", "pdf", "ppf", "sf"]
