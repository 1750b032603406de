"""The multinomial distribution."""

from __future__ import annotations

from typing import Any

from steno import lax, numpy as jnp
from steno.api import jit
from steno.lax.in_double import in_double
from steno.numpy.operands import check_arraylike, promoted_inexact
from steno.scipy.special.logarithms import xlogy

Array = Any
ArrayLike = Any


@jit
def logpmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """The logarithm of the probability of the counts x, shape (..., k), in n trials of the probabilities p; -inf where they are not n."""

    def probability(p: Array, x: Array, n: Array) -> Array:
        value = lax.lgamma(n + 1) + jnp.sum(xlogy(x, p) - lax.lgamma(x + 1), axis=-1)
        return jnp.where((jnp.sum(x, axis=-1) == n) & jnp.all(x >= 0, axis=-1), value, -jnp.inf)

    (p,) = promoted_inexact("multinomial.logpmf", p)
    check_arraylike("multinomial.logpmf", x, n)
    x, n = jnp.asarray(x).astype(p.dtype), jnp.asarray(n).astype(p.dtype)
    return in_double(probability, p, x, n)


@jit
def pmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """The probability of the counts x: see `logpmf`."""
    return jnp.exp(logpmf(x, n, p))


__all__ = ["logpmf", "pmf"]
