"""Student's t distribution."""

from __future__ import annotations

from typing import Any

from steno import numpy as jnp
from steno.lax.gammas import log_beta
from steno.scipy.stats.faces import elementwise, of

Array = Any
ArrayLike = Any


@elementwise
def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density."""
    y = (x - loc) / scale
    return -log_beta(df / 2, jnp.full_like(df, 0.5)) - (df + 1) / 2 * jnp.log1p(y * y / df) - jnp.log(scale) - jnp.log(df) / 2


pdf = of(logpdf, "pdf")


__all__ = ["logpdf", "pdf"]
