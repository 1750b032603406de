"""The uniform distribution on [loc, loc + scale]."""

from __future__ import annotations

from typing import Any

from steno import numpy as jnp
from steno.scipy.stats.faces import elementwise, of, within

Array = Any
ArrayLike = Any


@elementwise
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density; -inf outside of the support."""
    return within((x >= loc) & (x <= loc + scale), -jnp.log(scale))


pdf = of(logpdf, "pdf")


@elementwise
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function."""
    return jnp.clip((x - loc) / scale, 0.0, 1.0)


@elementwise
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile: the inverse of cdf; NaN for q outside of [0, 1]."""
    return jnp.where((q < 0) | (q > 1), jnp.nan, loc + scale * q)


__all__ = ["cdf", "logpdf", "pdf", "ppf"]
