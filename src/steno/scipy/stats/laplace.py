"""The Laplace distribution."""

from __future__ import annotations

from typing import Any

from steno import numpy as jnp
from steno.scipy.stats.faces import elementwise, of

Array = Any
ArrayLike = Any


@elementwise
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density."""
    return -jnp.abs((x - loc) / scale) - jnp.log(2 * scale)


pdf = of(logpdf, "pdf")


@elementwise
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The distribution function."""
    y = (x - loc) / scale
    tail = jnp.exp(-jnp.abs(y)) / 2
    return jnp.where(y <= 0, tail, 1 - tail)


__all__ = ["cdf", "logpdf", "pdf"]
