"""Estimates of densities by Gaussian kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from steno import numpy as jnp, random
from steno.core import dtypes
from steno.nn.along_axes import logsumexp
from steno.numpy import linalg
from steno.numpy.operands import check_arraylike, promoted_inexact
from steno.scipy.special.normal import ndtr_core
from steno.scipy.stats.multivariate_normal import whitened
from steno.tree_util import register_pytree_node_class

Array = Any
ArrayLike = Any


@register_pytree_node_class
@dataclass(frozen=True, init=False, eq=False)
class gaussian_kde:
    """The density of `dataset`, shape (d, n) or (n,), as the mean of n normal densities around its points.

    bw_method: "scott" (the default), "silverman", a factor, or a function of the estimate that gives it; weights: of the points, shape
    (n,). ValueError for a dataset of one number, for other methods and weights; NotImplementedError for complex numbers."""

    neff: Array
    dataset: Array
    weights: Array
    covariance: Array
    inv_cov: Array

    def __init__(self, dataset: ArrayLike, bw_method: Any = None, weights: ArrayLike | None = None) -> None:
        check_arraylike("gaussian_kde", dataset)
        data = jnp.atleast_2d(dataset)
        if dtypes.kind(data.dtype) == "c":
            raise NotImplementedError("gaussian_kde does not support complex data")
        if not data.size > 1:
            raise ValueError("`dataset` input should have multiple elements.")
        (data,) = promoted_inexact("gaussian_kde", data)
        d, n = data.shape
        if weights is None:
            weights = jnp.full(n, 1.0 / n, data.dtype)
        else:
            check_arraylike("gaussian_kde", weights)
            weights = jnp.atleast_1d(weights)
            if weights.ndim != 1:
                raise ValueError(f"`weights` input should be one-dimensional, got the shape {weights.shape}")
            if len(weights) != n:
                raise ValueError(f"`weights` input should be of length n = {n}, got {len(weights)}")
            data, weights = promoted_inexact("gaussian_kde", data, weights)
            weights = weights / jnp.sum(weights)
        self._set(dataset=data, weights=weights, neff=1 / jnp.sum(weights * weights))
        factor = self._factor(bw_method)
        cov = jnp.atleast_2d(jnp.cov(data, rowvar=True, bias=False, aweights=weights))
        self._set(covariance=cov * factor**2, inv_cov=linalg.inv(cov) / factor**2)

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _factor(self, method: Any) -> Any:
        if method is None or (isinstance(method, str) and method == "scott"):
            return jnp.power(self.neff, -1.0 / (self.d + 4))
        if isinstance(method, str) and method == "silverman":
            return jnp.power(self.neff * (self.d + 2) / 4.0, -1.0 / (self.d + 4))
        if not isinstance(method, str) and np.ndim(method) == 0 and not callable(method):
            return method
        if callable(method):
            return method(self)
        raise ValueError(f"`bw_method` should be 'scott', 'silverman', a scalar, or a callable, got {method!r}")

    def tree_flatten(self) -> tuple[tuple[Array, ...], None]:
        return (self.neff, self.dataset, self.weights, self.covariance, self.inv_cov), None

    @classmethod
    def tree_unflatten(cls, aux_data: None, children: Any) -> gaussian_kde:
        out = cls.__new__(cls)
        out._set(**dict(zip(("neff", "dataset", "weights", "covariance", "inv_cov"), children, strict=True)))
        return out

    @property
    def d(self) -> int:
        """The number of dimensions."""
        return self.dataset.shape[0]

    @property
    def n(self) -> int:
        """The number of points."""
        return self.dataset.shape[1]

    def evaluate(self, points: ArrayLike) -> Array:
        """The density at points of the shape (d, m): shape (m,)."""
        check_arraylike("evaluate", points)
        return jnp.exp(self._log(self._points(points)))

    def __call__(self, points: ArrayLike) -> Array:
        return self.evaluate(points)

    def pdf(self, x: ArrayLike) -> Array:
        """The density, as `evaluate`."""
        return self.evaluate(x)

    def logpdf(self, x: ArrayLike) -> Array:
        """The logarithm of the density at points of the shape (d, m): shape (m,)."""
        check_arraylike("logpdf", x)
        return self._log(self._points(x))

    def _points(self, points: ArrayLike) -> Array:
        _, x = promoted_inexact("gaussian_kde", self.dataset, points)
        x = jnp.atleast_2d(x)
        if x.shape[0] == self.d:
            return x
        if x.shape == (1, self.d):
            return jnp.reshape(x, (self.d, 1))
        raise ValueError(f"points have dimension {x.shape[0]}, dataset has dimension {self.d}")

    def _log(self, points: Array) -> Array:
        return _log_mixture(points, self.dataset, self.weights, self.covariance)

    def integrate_gaussian(self, mean: ArrayLike, cov: ArrayLike) -> Array:
        """The integral of the density times a normal one. ValueError for shapes other than (d,) and (d, d)."""
        mean, cov = promoted_inexact("integrate_gaussian", mean, cov)
        mean, cov = jnp.atleast_1d(jnp.squeeze(mean)), jnp.atleast_2d(cov)
        if mean.shape != (self.d,):
            raise ValueError(f"mean does not have dimension {self.d}")
        if cov.shape != (self.d, self.d):
            raise ValueError(f"covariance does not have dimension {self.d}")
        return jnp.exp(_log_mixture(mean[:, None], self.dataset, self.weights, self.covariance + cov)[0])

    def integrate_box_1d(self, low: ArrayLike, high: ArrayLike) -> Array:
        """The probability of [low, high]; of one dimension. ValueError for others, and for bounds that are no scalars."""
        if self.d != 1:
            raise ValueError("integrate_box_1d() only handles 1D pdfs")
        if np.ndim(low) or np.ndim(high):
            raise ValueError("the limits of integration in integrate_box_1d must be scalars")
        sigma = jnp.sqrt(self.covariance[0, 0])
        below, above = (ndtr_core((bound - self.dataset[0]) / sigma) for bound in (low, high))
        return jnp.sum(self.weights * (above - below))

    def integrate_kde(self, other: gaussian_kde) -> Array:
        """The integral of the product of two densities. ValueError for different dimensions."""
        if other.d != self.d:
            raise ValueError("KDEs are not the same dimensionality")
        logs = _log_mixture(other.dataset, self.dataset, self.weights, self.covariance + other.covariance)
        return jnp.sum(other.weights * jnp.exp(logs))

    def resample(self, key: Array, shape: Any = ()) -> Array:
        """Random points of the density: shape (d, *shape)."""
        which, noise = random.split(key)
        at = random.choice(which, self.n, shape=shape, p=self.weights)
        zero = jnp.zeros(self.d, self.covariance.dtype)
        moved = random.multivariate_normal(noise, zero, self.covariance, shape=shape, dtype=self.dataset.dtype)
        return self.dataset[:, at] + jnp.moveaxis(moved, -1, 0)

    def integrate_box(self, low_bounds: Any, high_bounds: Any, maxpts: Any = None) -> Array:
        """NotImplementedError, as in JAX."""
        raise NotImplementedError("only 1D box integrations are supported; use `integrate_box_1d`")

    def set_bandwidth(self, bw_method: Any = None) -> None:
        """NotImplementedError, as in JAX: an estimate does not change."""
        raise NotImplementedError("dynamically changing the bandwidth method is not supported")


def _log_mixture(points: Array, centers: Array, weights: Array, cov: Array) -> Array:
    """The logarithms at `points` (d, m) of the sum of normal densities around `centers` (d, n), weighted."""
    points, centers, weights, cov = promoted_inexact("gaussian_kde", points, centers, weights, cov)
    factor = linalg.cholesky(cov)
    x, c = whitened(factor, points.T).T, whitened(factor, centers.T).T
    energy = sum(jnp.square(x[k][:, None] - c[k][None, :]) for k in range(x.shape[0])) / 2
    norm = x.shape[0] / 2 * math.log(2 * math.pi) + jnp.sum(jnp.log(jnp.diagonal(factor)))
    return logsumexp(-energy, axis=1, b=jnp.broadcast_to(weights, energy.shape)) - norm


__all__ = ["gaussian_kde"]
