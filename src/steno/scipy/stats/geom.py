"""The geometric distribution."""

from __future__ import annotations

from typing import Any

from steno import numpy as jnp
from steno.scipy.special.logarithms import xlog1py
from steno.scipy.stats.faces import elementwise, of, within

Array = Any
ArrayLike = Any


@elementwise
def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability that the k-th trial is the first success."""
    x = k - loc
    return within((x > 0) & (jnp.floor(x) == x), xlog1py(x - 1, -p) + jnp.log(p))


pmf = of(logpmf, "pmf")


__all__ = ["logpmf", "pmf"]
