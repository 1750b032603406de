"""The beta binomial distribution."""

from __future__ import annotations

from typing import Any

from steno import numpy as jnp
from steno.lax.gammas import log_beta
from steno.scipy.stats.faces import elementwise, of, within

Array = Any
ArrayLike = Any


@elementwise
def logpmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k; NaN for parameters that are not positive."""
    y = jnp.floor(k) - loc
    inside = (k >= loc) & (k <= loc + n)
    v, m = jnp.where(inside, y, 0.0), jnp.where(inside, n, 0.0)
    choices = -jnp.log1p(m) - log_beta(m - v + 1, v + 1)
    out = within(inside, choices + log_beta(v + a, m - v + b) - log_beta(a, b))
    return jnp.where((n < 0) | (a <= 0) | (b <= 0), jnp.nan, out)


pmf = of(logpmf, "pmf")


__all__ = ["logpmf", "pmf"]
