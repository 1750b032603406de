"""The generalised normal distribution."""

from __future__ import annotations

from typing import Any

from steno import lax, numpy as jnp
from steno.lax.incomplete import upper_gamma
from steno.scipy.stats.faces import elementwise, of

Array = Any
ArrayLike = Any


@elementwise
def logpdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The logarithm of the density beta / (2 Gamma(1 / beta)) exp(-|x|**beta)."""
    return jnp.log(beta / 2) - lax.lgamma(1 / beta) - jnp.abs(x) ** beta


pdf = of(logpdf, "pdf")


@elementwise
def cdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The distribution function."""
    tail = upper_gamma(1 / beta, jnp.abs(x) ** beta) / 2
    return jnp.where(x < 0, tail, 1 - tail)


__all__ = ["cdf", "logpdf", "pdf"]
