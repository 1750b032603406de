"""scipy.ndimage: interpolation between the elements of arrays."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

from steno import lax, numpy as jnp
from steno.api import jit
from steno.core import dtypes
from steno.core.config import numpy_dtype_promotion
from steno.numpy.operands import Array, ArrayLike, as_array


def _mirror(i: Array, n: int) -> Array:
    """d c b | a b c d | c b a: the edges are not repeated."""
    period = max(2 * (n - 1), 1)
    i = i % period
    return jnp.minimum(i, period - i)


def _reflect(i: Array, n: int) -> Array:
    """b a | a b c d | d c: the edges are repeated."""
    i = i % (2 * n)
    return jnp.minimum(i, 2 * n - 1 - i)


_BEYOND: Final[dict[str, Callable[[Array, int], Array]]] = {
    "constant": lambda i, n: i,
    "nearest": lambda i, n: jnp.clip(i, 0, n - 1),
    "wrap": lambda i, n: i % n,
    "mirror": _mirror,
    "reflect": _reflect,
}
"""How each mode turns an index of any size into one of an axis of n elements; indices that are still outside stand for `cval`."""


def _nodes(c: Array, order: int) -> list[tuple[Array, Array | None]]:
    """The elements of an axis that a coordinate refers to, with their weights (None: 1)."""
    if not dtypes.is_float(c.dtype):
        return [(c.astype("int32"), None)]
    if order == 0:
        return [(jnp.floor(c + 0.5).astype("int32"), None)]
    below = jnp.floor(c)
    above = c - below
    i = below.astype("int32")
    return [(i, 1 - above), (i + 1, above)]


@functools.partial(jit, static_argnames=("order", "mode"))
def _interpolated(x: Array, coordinates: list[Array], cval: Array, order: int, mode: str) -> Array:
    weighted = order == 1 and any(dtypes.is_float(c.dtype) for c in coordinates)
    work: Any = x.dtype
    if weighted:
        with numpy_dtype_promotion("standard"):  # that the image and its coordinates come to one dtype is no promotion of the caller's
            work = dtypes.to_inexact(dtypes.result_type(x, *(c for c in coordinates if dtypes.is_float(c.dtype))))
    total: Any = None
    for corner in itertools.product(*(_nodes(c, order) for c in coordinates)):
        inside, at, weight = None, [], None
        for (i, w), n in zip(corner, x.shape, strict=True):
            i = _BEYOND[mode](i, n)
            if mode == "constant":
                fits = (i >= 0) & (i < n)
                inside = fits if inside is None else inside & fits
                i = jnp.clip(i, 0, n - 1)
            at.append(i)
            if w is not None:
                w = w.astype(work)
                weight = w if weight is None else weight * w
        value = x[tuple(at)].astype(work)
        if inside is not None:
            value = jnp.where(inside, value, cval.astype(work))
        if weight is not None:
            value = value * weight
        total = value if total is None else total + value
    if weighted and dtypes.is_integer(x.dtype):
        total = lax.round(total, lax.RoundingMethod.AWAY_FROM_ZERO)
    return total.astype(x.dtype)


def map_coordinates(input: ArrayLike, coordinates: Sequence[ArrayLike], order: int, mode: str = "constant", cval: ArrayLike = 0.0) -> Array:
    """The values of `input` at coordinates, one array for each of its axes, all of one shape, which is the result's; the dtype is input's
    (integers are rounded). order 0: the nearest element, 1: linear interpolation. mode: what lies outside: "constant" (`cval`), "nearest",
    "wrap", "mirror" or "reflect", as in NumPy's `pad`, and not where SciPy interpolates beyond the border.
    NotImplementedError for other orders and modes, ValueError for another number of coordinates."""
    if order not in (0, 1):
        raise NotImplementedError(f"map_coordinates requires order<=1, got {order}")
    if mode not in _BEYOND:
        raise NotImplementedError(f"map_coordinates does not yet support mode {mode!r}, only {', '.join(map(repr, _BEYOND))}")
    x = jnp.asarray(input)
    if len(coordinates) != x.ndim:
        raise ValueError(f"map_coordinates: coordinates must be a sequence of length {x.ndim} (the rank of input), got {len(coordinates)}")
    arrays = [as_array("map_coordinates", c) for c in coordinates]
    if len({c.shape for c in arrays}) > 1:
        arrays = jnp.broadcast_arrays(*arrays)
    return _interpolated(x, arrays, jnp.asarray(cval), order=order, mode=mode) if arrays else x


__all__ = ["map_coordinates"]
