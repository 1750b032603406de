"""The Dirichlet distribution."""

from __future__ import annotations

from typing import Any

from steno import lax, numpy as jnp
from steno.api import jit
from steno.lax.in_double import in_double
from steno.numpy.operands import promoted_inexact
from steno.scipy.special.logarithms import xlogy

Array = Any
ArrayLike = Any

_SIMPLEX = 1e-6
"""How far the sum of x may be from 1."""


@jit
def logpdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """The logarithm of the density at x, shape (k, ...) or, without the last entry, (k - 1, ...), for alpha of shape (k,); -inf off the
    simplex. ValueError for other shapes."""
    x, alpha = promoted_inexact("dirichlet.logpdf", x, alpha)
    if alpha.ndim != 1:
        raise ValueError(f"`alpha` must be one-dimensional; got alpha.shape={alpha.shape}")
    k = alpha.shape[0]
    if x.ndim == 0 or x.shape[0] not in (k, k - 1):
        wanted = "`x` must have either the same number of entries as `alpha` or one entry fewer"
        raise ValueError(f"{wanted}; got x.shape={x.shape}, alpha.shape={alpha.shape}")

    def density(x: Array, alpha: Array) -> Array:
        if x.shape[0] != k:
            x = jnp.concatenate([x, 1 - jnp.sum(x, axis=0, keepdims=True)])
        constant = lax.lgamma(jnp.sum(alpha)) - jnp.sum(lax.lgamma(alpha))
        powers = jnp.reshape(alpha, (k,) + (1,) * (x.ndim - 1)) - 1
        on = jnp.all(x >= 0, axis=0) & (jnp.abs(jnp.sum(x, axis=0) - 1) < _SIMPLEX)
        return jnp.where(on, constant + jnp.sum(xlogy(powers, x), axis=0), -jnp.inf)

    return in_double(density, x, alpha)


@jit
def pdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """The density: see `logpdf`."""
    return jnp.exp(logpdf(x, alpha))


__all__ = ["logpdf", "pdf"]
