"""Folds of the parts of an array that ids name: what JAX's `ops` has, which here is reached as `steno.ops.segment_sum` and so on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from steno import lax, numpy as jnp
from steno.core import dtypes
from steno.core.errors import ConcretizationTypeError
from steno.core.sizes import UnknownSize, max_size
from steno.numpy.operands import Tracer, as_array, convert
from steno.numpy.reductions import highest, lowest

Array = Any
ArrayLike = Any


def _segments(
    fun: str,
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: Any,
    indices_are_sorted: bool,
    unique_indices: bool,
    bucket_size: Any,
    mode: Any,
    start: Callable[[Any], Any],
    scatter: Callable[..., Array],
    fold: Callable[..., Array],
) -> Array:
    x, ids = as_array(fun, data, 0), as_array(fun, segment_ids, 1)
    if dtypes.kind(ids.aval.dtype) not in "iu":
        raise TypeError(f"{fun}: segment_ids must hold integers, got dtype {dtypes.name(ids.aval.dtype)}")
    if ids.shape != x.shape[: ids.ndim]:
        raise ValueError(f"{fun}: segment_ids must have the leading sizes of data, got shapes {ids.shape} and {x.shape}")
    if num_segments is None:
        if isinstance(ids, Tracer) and ids.to_concrete_value() is None:
            raise ConcretizationTypeError(ids, f"{fun}: give num_segments where the ids are traced: the result's shape depends on it.")
        num_segments = int(np.max(np.asarray(ids), initial=-1)) + 1
    n = num_segments if isinstance(num_segments, UnknownSize) else int(num_segments)
    if n < 0:
        raise ValueError(f"{fun}: num_segments must not be negative, got {n}")
    rest = x.shape[ids.ndim :]
    dtype = x.aval.dtype
    x = lax.reshape(x, (ids.size, *rest))
    ids = lax.reshape(ids, (ids.size,))
    buckets = 1 if bucket_size is None else max_size(-(-ids.size // int(bucket_size)), 1)
    init = lax.full((n * buckets, *rest), start(dtype), dtype)
    if isinstance(buckets, UnknownSize):
        raise NotImplementedError(f"{fun}: bucket_size needs a known number of rows, got {ids.size}")
    if buckets > 1:  # each bucket of data has its own row of segments: shorter sums lose less
        bucket = lax.div(lax.iota(dtypes.int32, ids.size), np.int32(bucket_size))
        ids = convert(ids, dtypes.int32)
        inside = (ids >= 0) & (ids < n)
        ids = jnp.where(inside, ids + bucket * np.int32(n), np.int32(n * buckets))
    numbers = lax.ScatterDimensionNumbers(tuple(range(1, 1 + len(rest))), (0,), (0,))
    out = scatter(
        init, lax.reshape(ids, (*ids.shape, 1)), x, numbers, indices_are_sorted=indices_are_sorted and buckets == 1,
        unique_indices=unique_indices, mode=lax.GatherScatterMode.FILL_OR_DROP if mode is None else mode,
    )  # fmt: skip
    return out if buckets == 1 else convert(fold(lax.reshape(out, (buckets, n, *rest)), 0), dtype)


def segment_sum(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Sums of the rows of `data` with the same id, for the ids 0 ... num_segments - 1; rows with other ids do not count.

    `num_segments`: one more than the greatest id by default, which must then be known while tracing. `bucket_size`: sums are made of
    partial sums of that many rows. `mode`: what happens to ids out of range ("fill"/"drop", the default, "clip", "promise_in_bounds").
    `out_sharding` is accepted."""
    return _segments(
        "segment_sum", data, segment_ids, num_segments, indices_are_sorted, unique_indices, bucket_size, mode,
        lambda d: 0, lax.scatter_add, jnp.sum,
    )  # fmt: skip


def segment_prod(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
    out_sharding: Any = None,
) -> Array:
    """As `segment_sum`, of products: 1 where an id does not occur."""
    return _segments(
        "segment_prod", data, segment_ids, num_segments, indices_are_sorted, unique_indices, bucket_size, mode,
        lambda d: 1, lax.scatter_mul, jnp.prod,
    )  # fmt: skip


def segment_max(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
    out_sharding: Any = None,
) -> Array:
    """As `segment_sum`, of maxima: the least value of the dtype where an id does not occur."""
    return _segments(
        "segment_max", data, segment_ids, num_segments, indices_are_sorted, unique_indices, bucket_size, mode,
        lowest, lax.scatter_max, jnp.max,
    )  # fmt: skip


def segment_min(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
    out_sharding: Any = None,
) -> Array:
    """As `segment_sum`, of minima: the greatest value of the dtype where an id does not occur."""
    return _segments(
        "segment_min", data, segment_ids, num_segments, indices_are_sorted, unique_indices, bucket_size, mode,
        highest, lax.scatter_min, jnp.min,
    )  # fmt: skip
