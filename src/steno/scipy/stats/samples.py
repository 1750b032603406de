"""Statistics of samples: mode, ranks, standard error."""

from __future__ import annotations

import functools
import operator
from typing import Any, NamedTuple

import numpy as np

from steno import lax, numpy as jnp
from steno.api import jit
from steno.core import dtypes
from steno.numpy.operands import as_array, canonical_axis, promoted_inexact

Array = Any
ArrayLike = Any

_POLICIES = ("propagate", "omit", "raise")


class ModeResult(NamedTuple):
    mode: Array
    count: Array


def _check_policy(fun: str, policy: str, known: tuple[str, ...]) -> None:
    """ValueError for what is no policy, NotImplementedError for one that is not there: an error would need the values."""
    if policy not in _POLICIES:
        raise ValueError(f"Illegal nan_policy value {policy!r}; expected one of {{'propagate', 'omit', 'raise'}}")
    if policy not in known:
        raise NotImplementedError(f"{fun}: nan_policy={policy!r} is not there; known are {', '.join(map(repr, known))}")


def _starts(x: Array) -> Array:
    """Where runs of equal values begin along the last axis, NaNs counted as equal."""
    new = x[..., 1:] != x[..., :-1]
    if dtypes.kind(x.dtype) in "fc":
        new = new & ~(jnp.isnan(x[..., 1:]) & jnp.isnan(x[..., :-1]))
    return jnp.concatenate([jnp.ones_like(new, shape=(*x.shape[:-1], 1)), new], axis=-1)


def _positions(x: Array) -> Array:
    return jnp.broadcast_to(jnp.arange(x.shape[-1]), x.shape)


def mode(a: ArrayLike, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False) -> ModeResult:
    """The most frequent values along `axis` (None: of all), the least of several, and how often they occur; NaNs count as equal. NaN of
    nothing. ValueError for an unknown `nan_policy`, NotImplementedError for one other than "propagate"."""
    _check_policy("mode", nan_policy, ("propagate",))
    return ModeResult(*_mode(a, axis=None if axis is None else operator.index(axis), keepdims=bool(keepdims)))


@functools.partial(jit, static_argnames=("axis", "keepdims"))
def _mode(a: ArrayLike, *, axis: int | None, keepdims: bool) -> tuple[Array, Array]:
    x = jnp.atleast_1d(as_array("mode", a))
    kept = (1,) * x.ndim
    if axis is None:
        x, axis = jnp.ravel(x), 0
    else:
        axis = canonical_axis(axis, x.ndim)
        kept = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    x = jnp.moveaxis(x, axis, -1)
    if x.size == 0:
        value = jnp.full(x.shape[:-1], np.nan)
        count = jnp.zeros(x.shape[:-1])
    else:
        x = jnp.sort(x, axis=-1)
        at = _positions(x)
        length = at - lax.cummax(jnp.where(_starts(x), at, 0), axis=x.ndim - 1) + 1
        best = jnp.argmax(length, axis=-1, keepdims=True)
        value = jnp.take_along_axis(x, best, axis=-1)[..., 0]
        count = jnp.take_along_axis(length, best, axis=-1)[..., 0]
    return (jnp.reshape(value, kept), jnp.reshape(count, kept)) if keepdims else (value, count)


_METHODS = ("average", "min", "max", "dense", "ordinal")


def rankdata(a: ArrayLike, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate") -> Array:
    """The ranks, from 1, along `axis` (None: of all, as one vector), floats. Equal values get the `method` ("average", "min", "max") of
    their ranks, "dense" the number of distinct values up to them, "ordinal" different ones in their order; all is
    NaN where one value is NaN.
    ValueError for other methods and unknown policies, NotImplementedError for a `nan_policy` other than "propagate"."""
    _check_policy("rankdata", nan_policy, ("propagate",))
    if method not in _METHODS:
        raise ValueError(f"rankdata: unknown method {method!r}; expected one of {', '.join(_METHODS)}")
    return _rankdata(a, method=method, axis=None if axis is None else operator.index(axis))


@functools.partial(jit, static_argnames=("method", "axis"))
def _rankdata(a: ArrayLike, *, method: str, axis: int | None) -> Array:
    x = as_array("rankdata", a)
    if axis is None:
        x, axis = jnp.ravel(x), 0
    axis = canonical_axis(axis, x.ndim)
    if x.size == 0:
        return jnp.zeros(x.shape)
    x = jnp.moveaxis(x, axis, -1)
    order = jnp.argsort(x, axis=-1)
    place = jnp.argsort(order, axis=-1)
    if method == "ordinal":
        ranks = place + 1
    else:
        y = jnp.take_along_axis(x, order, axis=-1)
        new, at, last = _starts(y), _positions(y), y.ndim - 1
        if method == "dense":
            ranks = jnp.cumsum(new, axis=-1)
        else:
            ends = jnp.concatenate([new[..., 1:], jnp.ones_like(new[..., :1])], axis=-1)
            low = lax.cummax(jnp.where(new, at, 0), axis=last) + 1
            high = lax.cummin(jnp.where(ends, at, y.shape[-1]), axis=last, reverse=True) + 1
            ranks = {"min": low, "max": high, "average": (low + high) / 2}[method]
        ranks = jnp.take_along_axis(ranks, place, axis=-1)
    (ranks,) = promoted_inexact("rankdata", ranks)
    if dtypes.kind(x.dtype) == "f":
        ranks = jnp.where(jnp.any(jnp.isnan(x), axis=-1, keepdims=True), np.nan, ranks)
    return jnp.moveaxis(ranks, -1, axis)


def sem(a: ArrayLike, axis: int | None = 0, ddof: int = 1, nan_policy: str = "propagate", *, keepdims: bool = False) -> Array:
    """The standard error of the mean along `axis` (None: of all): the deviation with `ddof` degrees of freedom less, over the root of the
    number. `nan_policy`: "propagate" or "omit"; ValueError for others."""
    if nan_policy not in ("propagate", "omit"):
        raise ValueError(f"sem: nan_policy={nan_policy!r} is not supported; known are 'propagate' and 'omit'")
    return _sem(a, axis=None if axis is None else operator.index(axis), ddof=ddof, omit=nan_policy == "omit", keepdims=bool(keepdims))


@functools.partial(jit, static_argnames=("axis", "ddof", "omit", "keepdims"))
def _sem(a: ArrayLike, *, axis: int | None, ddof: int, omit: bool, keepdims: bool) -> Array:
    (x,) = promoted_inexact("sem", a)
    if omit:
        count = jnp.sum(~jnp.isnan(x), axis=axis, keepdims=keepdims)
        return jnp.nanstd(x, axis, ddof=ddof, keepdims=keepdims) / jnp.sqrt(count.astype(x.dtype))
    size = x.size if axis is None else x.shape[axis]
    return jnp.std(x, axis, ddof=ddof, keepdims=keepdims) / np.asarray(np.sqrt(size), x.dtype)


__all__ = ["ModeResult", "mode", "rankdata", "sem"]
