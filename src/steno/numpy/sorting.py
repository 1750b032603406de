"""Sorting and searching."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from steno import lax
from steno.core import dtypes
from steno.core.sizes import UnknownSize, surely
from steno.lax import records as p
from steno.numpy import elementwise as e
from steno.numpy.operands import (
    Array,
    ArrayLike,
    DTypeLike,
    arrays,
    as_array,
    canonical_axis,
    check_dtype,
    convert,
    promoted,
)
from steno.numpy.taking import take


def _check_options(fun: str, kind: Any, order: Any) -> None:
    if kind is not None:
        raise TypeError(f"{fun}: `kind` must be None, got {kind!r}; `stable` says whether equal elements keep their order")
    if order is not None:
        raise TypeError(f"{fun}: `order` must be None, got {order!r}")


def _axis(x: Array, axis: int | None) -> tuple[Array, int]:
    if axis is None:
        return lax.reshape(x, (x.size,)), 0
    return x, canonical_axis(axis, x.ndim)


def sort(
    a: ArrayLike, axis: int | None = -1, *, kind: None = None, order: None = None, stable: bool = True, descending: bool = False
) -> Array:
    """Sorted along an axis (None: flattened), NaNs last; `descending` reverses that.

    >>> jnp.sort(jnp.array([3, 1, 2]))
    Array([1, 2, 3], dtype=int32)
    """
    _check_options("sort", kind, order)
    x, k = _axis(as_array("sort", a), axis)
    (out,) = p.sort_p(x, dimension=k, is_stable=bool(stable), num_keys=1)
    return lax.rev(out, (k,)) if descending else out


def argsort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: DTypeLike | None = None,
) -> Array:
    """The positions, along an axis, of the elements in sorted order; equal elements keep their order, also when `descending`, if
    `stable`.

    >>> jnp.argsort(jnp.array([3, 1, 2]))
    Array([1, 2, 0], dtype=int32)
    """
    _check_options("argsort", kind, order)
    x, k = _axis(as_array("argsort", a), axis)
    d = dtypes.default_int() if dtype is None else check_dtype(dtype, "argsort")
    if descending and stable:
        x = lax.rev(x, (k,))
    _, out = p.sort_p(x, lax.broadcasted_iota(d, x.shape, k), dimension=k, is_stable=bool(stable), num_keys=1)
    if descending:
        out = lax.rev(out, (k,))
        if stable:
            out = p.sub_p(convert(x.shape[k] - 1, d), out)
    return out


def sort_complex(a: ArrayLike) -> Array:
    """Sorted along the last axis, as complex numbers."""
    x = as_array("sort_complex", a)
    return convert(sort(x), np.dtype(np.result_type(dtypes.to_inexact(x.aval.dtype), np.complex64)))


def lexsort(keys: Any, axis: int = -1, *, batch_size: int = 16) -> Array:
    """The positions in the order of the last key, ties being broken by the one before it, and so on. TypeError for no keys."""
    given = keys if isinstance(keys, Sequence) else list(p.unstack_p(as_array("lexsort", keys), axis=0))
    if not len(given):
        raise TypeError("lexsort: there are no keys")
    xs = arrays("lexsort", *given)
    if any(x.shape != xs[0].shape for x in xs):
        raise ValueError(f"lexsort: keys must have one shape, got {', '.join(str(x.shape) for x in xs)}")
    if xs[0].ndim == 0:
        return lax.full((), 0, dtypes.default_int())
    k = canonical_axis(axis, xs[0].ndim)
    position = lax.broadcasted_iota(dtypes.default_int(), xs[0].shape, k)
    *_, out = p.sort_p(*reversed(xs), position, dimension=k, is_stable=True, num_keys=len(xs))
    return out


def partition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """The k-th element in its sorted place along an axis, smaller ones before it, greater ones after it."""
    x = as_array("partition", a)
    n, k = _kth("partition", x, kth, axis)
    ordered = sort(x, axis=k)
    return lax.concatenate([lax.slice_in_dim(ordered, 0, n + 1, axis=k), lax.rev(lax.slice_in_dim(ordered, n + 1, None, axis=k), (k,))], k)


def argpartition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """The positions that `partition` puts elements in order of."""
    x = as_array("argpartition", a)
    n, k = _kth("argpartition", x, kth, axis)
    order = argsort(x, axis=k)
    return lax.concatenate([lax.slice_in_dim(order, 0, n + 1, axis=k), lax.rev(lax.slice_in_dim(order, n + 1, None, axis=k), (k,))], k)


def _kth(fun: str, x: Array, kth: Any, axis: int) -> tuple[int, int]:
    if dtypes.is_complex(x.aval.dtype):
        raise NotImplementedError(f"{fun}: complex numbers are not implemented")
    k = canonical_axis(axis, x.ndim)
    i, size = operator.index(kth), x.shape[k]
    if not -size <= i < size:
        raise ValueError(f"{fun}: kth must be a position along an axis of size {size}, got {i}")
    return i % size, k


def top_k(a: ArrayLike, k: int, /, *, axis: int = -1, mode: str = "largest", sorted: bool = True) -> list[Array]:
    """The k greatest (or "smallest") elements along an axis and their positions."""
    x = as_array("top_k", a)
    if mode == "largest":
        return lax.top_k(x, k, axis=axis)
    if mode != "smallest":
        raise ValueError(f"top_k: mode must be 'largest' or 'smallest', got {mode!r}")
    j = canonical_axis(axis, x.ndim)
    if not 0 <= k <= x.shape[j]:
        raise ValueError(f"top_k: k must lie between 0 and the size of the axis, {x.shape[j]}, got {k}")
    values, positions = p.sort_p(x, lax.broadcasted_iota(dtypes.int32, x.shape, j), dimension=j, is_stable=True, num_keys=1)
    return [lax.slice_in_dim(v, 0, k, axis=j) for v in (values, positions)]


# searching


def _before(a: Array, v: Array, strictly: bool) -> Array:
    """a < v (or a <= v) in the order of sorting: NaN comes last and equals itself."""
    if dtypes.kind(a.aval.dtype) not in "fc":
        return p.lt_p(a, v) if strictly else p.le_p(a, v)
    a_nan, v_nan = e.isnan(a), e.isnan(v)
    if strictly:
        return p.or_p(e.less(a, v), p.and_p(p.not_p(a_nan), v_nan))
    return p.or_p(e.less_equal(a, v), v_nan)


def searchsorted(a: ArrayLike, v: ArrayLike, side: str = "left", sorter: ArrayLike | None = None, *, method: str = "scan") -> Array:
    """Where in the sorted vector `a` elements would be inserted, before ("left") or after ("right") equal ones: by bisection."""
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side must be 'left' or 'right', got {side!r}")
    if method not in ("scan", "scan_unrolled", "sort", "compare_all", "default"):
        raise ValueError(f"searchsorted: method must be 'scan', 'scan_unrolled', 'sort' or 'compare_all', got {method!r}")
    x, y = promoted("searchsorted", a, v)
    if x.ndim != 1:
        raise ValueError(f"searchsorted: a must be a vector, got shape {x.shape}")
    if sorter is not None:
        x = take(x, as_array("searchsorted", sorter))
    n = x.shape[0]
    index = dtypes.default_int() if surely(lambda: n > 2**31 - 1) else dtypes.int32
    if n == 0:
        return lax.full(y.shape, 0, index)
    return bisect(x, y, side == "left", index)


def bisect(x: Array, y: Array, left: bool, index: Any) -> Array:
    """For each element of y how many of the sorted vector x come before it."""
    n = x.shape[0]
    low = lax.full(y.shape, 0, index)
    high = lax.full(y.shape, convert(n, index))
    one = e.const(1, index)
    # low <= answer <= high, and the distance halves: after ceil(log2(n + 1)) steps they are equal
    for _ in range(32 if isinstance(n, UnknownSize) else math.ceil(math.log2(n + 1))):
        middle = p.shift_right_logical_p(p.add_p(low, high), one)
        element = (
            take(x, middle, mode="clip") if y.ndim else lax.dynamic_index_in_dim(x, middle, keepdims=False, allow_negative_indices=False)
        )
        below = p.and_p(_before(element, y, left), p.lt_p(low, high))
        low = p.select_n_p(below, low, p.add_p(middle, one))
        high = p.select_n_p(below, middle, high)
    return low


def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False, *, method: str | None = None) -> Array:
    """Which of the bins, bounded by a monotonic vector, elements lie in."""
    x, b = as_array("digitize", x, 0), as_array("digitize", bins, 1)
    if b.ndim != 1:
        raise ValueError(f"digitize: bins must be a vector, got shape {b.shape}")
    if not b.shape[0]:
        return lax.full(x.shape, 0, dtypes.int32)
    side = "right" if not right else "left"
    up = searchsorted(b, x, side)
    down = p.sub_p(convert(b.shape[0], up.aval.dtype), searchsorted(lax.rev(b, (0,)), x, side))
    first, last = (lax.index_in_dim(b, k, keepdims=False) for k in (0, -1))
    return e.where(e.greater_equal(last, first), up, down)


# sets
