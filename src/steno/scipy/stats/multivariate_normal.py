"""The normal distribution of vectors."""

from __future__ import annotations

import math
from typing import Any

from steno import numpy as jnp
from steno.api import jit
from steno.lax import linalg as ll
from steno.lax.in_double import in_double
from steno.numpy.operands import convert, promoted_inexact, weak_type_of

Array = Any
ArrayLike = Any

_LOG_TAU = math.log(2 * math.pi)


def whitened(factor: Array, y: Array) -> Array:
    """The solutions z of factor @ z = y for a lower triangular (..., n, n) and vectors (..., n), their leading axes broadcast."""
    if factor.ndim == 2:
        flat = jnp.reshape(y, (-1, y.shape[-1]))
        return jnp.reshape(ll.triangular_solve(factor, flat.T, left_side=True, lower=True).T, y.shape)
    batch = jnp.broadcast_shapes(factor.shape[:-2], y.shape[:-1])
    factor = jnp.broadcast_to(factor, batch + factor.shape[-2:])
    y = jnp.broadcast_to(y, batch + y.shape[-1:])
    return ll.triangular_solve(factor, y[..., None], left_side=True, lower=True)[..., 0]


def _density(x: Array, mean: Array, cov: Array) -> Array:
    y = x - mean
    if not mean.shape:
        return -(y * y / cov + _LOG_TAU + jnp.log(cov)) / 2
    n = mean.shape[-1]
    if not cov.shape:
        return -(jnp.sum(y * y, axis=-1) / cov + n * (_LOG_TAU + jnp.log(cov))) / 2
    factor = ll.cholesky(cov)
    z = whitened(factor, y)
    diagonal = jnp.diagonal(factor, axis1=-2, axis2=-1)
    return -jnp.sum(z * z, axis=-1) / 2 - n / 2 * _LOG_TAU - jnp.sum(jnp.log(diagonal), axis=-1)


@jit
def _logpdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> Array:
    weak = all(map(weak_type_of, (x, mean, cov)))
    x, mean, cov = promoted_inexact("multivariate_normal.logpdf", x, mean, cov)
    n = mean.shape[-1:]
    if mean.shape and cov.shape and (cov.ndim < 2 or cov.shape[-2:] != n * 2):
        raise ValueError(f"multivariate_normal.logpdf got incompatible shapes: mean {mean.shape}, cov {cov.shape}")
    out = in_double(_density, x, mean, cov)
    return convert(out, out.dtype, True) if weak else out


def logpdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike, allow_singular: None = None) -> Array:
    """The logarithm of the density at vectors x (..., n), for means (..., n) and covariance matrices (..., n, n), or one variance. A mean
    that is a scalar stands for numbers instead of vectors. NaN for a matrix that is not positive definite. ValueError for shapes that do
    not fit; NotImplementedError for `allow_singular`, as in JAX."""
    if allow_singular is not None:
        raise NotImplementedError("multivariate_normal.logpdf: the argument `allow_singular` is not there")
    return _logpdf(x, mean, cov)


@jit
def pdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> Array:
    """The density: see `logpdf`."""
    return jnp.exp(_logpdf(x, mean, cov))


__all__ = ["logpdf", "pdf"]
