"""scipy.interpolate: interpolation on rectilinear grids."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from steno import numpy as jnp
from steno.core.trace import Tracer
from steno.numpy.operands import Array, ArrayLike, check_arraylike, promoted_inexact
from steno.tree_util import register_pytree_node

_METHODS = ("linear", "nearest")


def _rising(points: Array, values: Array, axis: int) -> tuple[Array, Array]:
    """Points in ascending order, and the values with them. Those that are traced are taken to be in it."""
    if isinstance(points, Tracer):
        return points, values
    steps = np.diff(np.asarray(points))
    if np.all(steps > 0):
        return points, values
    if np.all(steps < 0):
        return jnp.flip(points), jnp.flip(values, axis)
    raise ValueError(f"RegularGridInterpolator: the points in dimension {axis} must be strictly ascending or descending")


@final
class RegularGridInterpolator:
    """Interpolates values given at the nodes of a rectilinear grid.

    points: one vector of coordinates for each dimension, ascending or descending (ascending where they are traced); values: an array of
    shape (len(points[0]), ..., len(points[-1]), ...), integers becoming floats; method: "linear" or "nearest"; fill_value: the value
    outside the grid, None: extrapolation. An interpolator is a pytree of its arrays.
    ValueError for shapes and methods that do not fit; NotImplementedError for bounds_error, since compiled programs raise nothing."""

    def __init__(
        self,
        points: Sequence[ArrayLike],
        values: ArrayLike,
        method: str = "linear",
        bounds_error: bool = False,
        fill_value: Any = np.nan,
    ) -> None:
        name = "RegularGridInterpolator"
        if method not in _METHODS:
            raise ValueError(f"{name}: method {method!r} is not defined, only 'linear' and 'nearest'")
        if bounds_error:
            raise NotImplementedError(f"{name}: bounds_error takes no effect in compiled programs, which raise nothing")
        check_arraylike(name, values, *points)
        (v,) = promoted_inexact(name, values)
        grid = [promoted_inexact(name, x)[0] for x in points]
        if len(grid) > v.ndim:
            raise ValueError(f"{name}: points has {len(grid)} vectors, values only {v.ndim} dimensions")
        if fill_value is not None:
            check_arraylike(name, fill_value)
            fill_value = jnp.asarray(fill_value)
            if not np.can_cast(np.dtype(fill_value.dtype), np.dtype(v.dtype), casting="same_kind"):
                raise ValueError(f"{name}: fill_value of dtype {fill_value.dtype} cannot be cast to that of values, {v.dtype}")
        for k, x in enumerate(grid):
            if x.ndim != 1:
                raise ValueError(f"{name}: the points in dimension {k} must be 1-dimensional, got shape {x.shape}")
            if x.size != v.shape[k]:
                raise ValueError(f"{name}: there are {x.size} points and {v.shape[k]} values in dimension {k}")
            grid[k], v = _rising(x, v, k)
        self.method = method
        self.bounds_error = bounds_error
        self.fill_value = fill_value
        self.grid = tuple(grid)
        self.values = v

    def __call__(self, xi: Any, method: str | None = None) -> Array:
        """The values at points: xi is an array (..., number of dimensions), or a tuple of coordinates that are broadcast together; the
        result has xi's shape without its last axis, then the axes of `values` that are not of the grid. Points with a NaN give NaN."""
        chosen = self.method if method is None else method
        if chosen not in _METHODS:
            raise ValueError(f"RegularGridInterpolator: method {chosen!r} is not defined, only 'linear' and 'nearest'")
        dims = len(self.grid)
        points = _points(xi, dims)
        if points.shape[-1] != dims:
            raise ValueError(f"RegularGridInterpolator: the points xi have dimension {points.shape[-1]}, the grid has dimension {dims}")
        columns = [points[..., k] for k in range(dims)]
        out = self._between(columns, chosen == "linear")
        rest = self.values.ndim - dims
        if self.fill_value is not None:
            outside = None
            for x, g in zip(columns, self.grid, strict=True):
                beyond = (x < g[0]) | (x > g[-1])
                outside = beyond if outside is None else outside | beyond
            if outside is not None:
                out = jnp.where(_with_axes(outside, rest), self.fill_value.astype(out.dtype), out)
        return out

    def _between(self, columns: list[Array], linear: bool) -> Array:
        nodes: list[list[tuple[Array, Array]]] = []
        missing = None
        for x, g in zip(columns, self.grid, strict=True):
            i = jnp.clip(jnp.searchsorted(g, x) - 1, 0, max(g.size - 2, 0))
            j = jnp.minimum(i + 1, g.size - 1)
            t = (x - g[i]) / (g[j] - g[i])
            nodes.append([(i, 1 - t), (j, t)] if linear else [(jnp.where(t <= 0.5, i, j), t)])
            if not linear:
                missing = jnp.isnan(x) if missing is None else missing | jnp.isnan(x)
        rest = self.values.ndim - len(self.grid)
        total: Any = None
        for corner in itertools.product(*nodes):
            value = self.values[tuple(i for i, _ in corner)]
            if linear:
                weight = corner[0][1]
                for _, w in corner[1:]:
                    weight = weight * w
                value = value * _with_axes(weight, rest).astype(value.dtype)
            total = value if total is None else total + value
        return total if missing is None else jnp.where(_with_axes(missing, rest), jnp.nan, total)


def _with_axes(x: Array, count: int) -> Array:
    return x.reshape(x.shape + (1,) * count)


def _points(xi: Any, dims: int) -> Array:
    if isinstance(xi, tuple):
        columns = jnp.broadcast_arrays(*promoted_inexact("RegularGridInterpolator", *xi))
        return jnp.stack(columns, axis=-1)
    (points,) = promoted_inexact("RegularGridInterpolator", xi)
    return points.reshape(-1, dims) if points.ndim == 1 and points.size % dims == 0 else points


def _flatten(r: RegularGridInterpolator) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    return (r.grid, r.values, r.fill_value), (r.method, r.bounds_error)


def _unflatten(aux: tuple[Any, ...], children: Sequence[Any]) -> RegularGridInterpolator:
    out = object.__new__(RegularGridInterpolator)
    out.grid, out.values, out.fill_value = children
    out.method, out.bounds_error = aux
    return out


register_pytree_node(RegularGridInterpolator, _flatten, _unflatten)

__all__ = ["RegularGridInterpolator"]
