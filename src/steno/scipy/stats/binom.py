"""The binomial distribution."""

from __future__ import annotations

from typing import Any

from steno import numpy as jnp
from steno.lax.gammas import log_beta
from steno.scipy.special.logarithms import xlog1py, xlogy
from steno.scipy.stats.faces import elementwise, of, within

Array = Any
ArrayLike = Any


@elementwise
def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k."""
    y = k - loc
    inside = (y >= 0) & (y <= n)
    v, m = jnp.where(inside, y, 0.0), jnp.where(inside, n, 0.0)
    choices = -jnp.log1p(m) - log_beta(m - v + 1, v + 1)
    return within(inside, choices + xlogy(v, p) + xlog1py(m - v, -p))


pmf = of(logpmf, "pmf")


__all__ = ["logpmf", "pmf"]
