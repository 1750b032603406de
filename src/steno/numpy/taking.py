"""take, put and their relations; insert and delete."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from steno import lax
from steno.core import dtypes
from steno.lax import records as p
from steno.numpy import elementwise as e
from steno.numpy.at import update
from steno.numpy.indexing import wrapped
from steno.numpy.manipulation import moveaxis
from steno.numpy.operands import (
    Array,
    ArrayLike,
    Tracer,
    as_array,
    broadcast_shapes,
    broadcast_to,
    canonical_axis,
    check_arraylike,
    convert,
    from_host,
    no_out,
    static,
    strong,
)
from steno.numpy.selection import compress

Mode = Any
_FILL = lax.GatherScatterMode.FILL_OR_DROP


def take(
    a: ArrayLike,
    indices: ArrayLike,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Any = None,
) -> Array:
    """Slices along an axis (elements of the flattened array) at integer positions.

    `mode` for positions out of bounds: "fill" (the default: NaN, or the extreme integer, or `fill_value`), "clip" (negative ones to 0),
    "wrap".

    >>> jnp.take(jnp.array([10, 20, 30]), jnp.array([2, 0]))
    Array([30, 10], dtype=int32)
    """
    no_out("take", out)
    x, i = as_array("take", a, 0), as_array("take", indices, 1)
    if axis is None:
        x, k = lax.reshape(x, (x.size,)), 0
    else:
        k = canonical_axis(axis, x.ndim)
    if dtypes.kind(i.aval.dtype) not in "iu":
        raise ValueError(f"take: indices must be integers, got dtype {dtypes.name(i.aval.dtype)}")
    n = x.shape[k]
    if mode is None or mode == "fill":
        i, m = wrapped(i, n, True), _FILL
    elif mode == "clip":
        i, m = wrapped(i, n, False), lax.GatherScatterMode.CLIP
    elif mode == "wrap":
        i, m = wrapped(e.remainder(i, n) if n else i, n, False), lax.GatherScatterMode.PROMISE_IN_BOUNDS
    elif mode == "raise":
        raise NotImplementedError("take: mode 'raise' is not available: compiled code cannot raise; there are 'fill', 'clip' and 'wrap'")
    else:
        m, i = _other_mode(mode), wrapped(i, n, True)
    batch = i.shape
    sizes = tuple(1 if j == k else s for j, s in enumerate(x.shape))
    if n == 0 and 0 not in batch:
        raise IndexError(f"take: axis {k} has size 0, which does for no non-empty jnp.take")
    if n == 0:
        return lax.full((*x.shape[:k], *batch, *x.shape[k + 1 :]), 0, x.aval.dtype)
    offsets = (*range(k), *range(k + len(batch), len(batch) + x.ndim - 1))
    return lax.gather(
        x,
        lax.broadcast_in_dim(i, (*batch, 1), range(len(batch))),
        lax.GatherDimensionNumbers(offsets, (k,), (k,)),
        sizes,
        mode=m,
        unique_indices=unique_indices,
        indices_are_sorted=indices_are_sorted,
        fill_value=fill_value,
    )


def _other_mode(mode: Any) -> lax.GatherScatterMode:
    if isinstance(mode, lax.GatherScatterMode):
        return mode
    if mode == "promise_in_bounds":
        return lax.GatherScatterMode.PROMISE_IN_BOUNDS
    raise ValueError(f"take: unknown mode {mode!r}; there are 'fill', 'clip' and 'wrap'")


def take_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    axis: int | None = -1,
    mode: Mode = None,
    fill_value: Any = None,
    *,
    wrap_negative_indices: bool = True,
) -> Array:
    """`arr[..., indices[..., j, ...], ...]`: a position along one axis for each element of the result; the other axes are broadcast.

    `mode` as of `take`, but negative positions count from the end in each, unless `wrap_negative_indices` is false. "one_hot" compares
    positions instead of reading there (and gives 0 for those out of bounds): work in proportion to the axis, without a gather.

    >>> jnp.take_along_axis(jnp.array([[3, 1, 2]]), jnp.array([[1, 2, 0]]), axis=1)
    Array([[1, 2, 3]], dtype=int32)
    """
    x, i = as_array("take_along_axis", arr, 0), as_array("take_along_axis", indices, 1)
    if dtypes.kind(i.aval.dtype) not in "iu":
        raise TypeError(f"take_along_axis indices must be of integer type, got {dtypes.name(i.aval.dtype)}")
    if axis is None:
        if i.ndim != 1:
            raise ValueError(f"take_along_axis: without an axis, indices must be a vector, got shape {i.shape}")
        x, k = lax.reshape(x, (x.size,)), 0
    else:
        k = canonical_axis(axis, x.ndim)
    if x.ndim != i.ndim:
        raise ValueError(f"take_along_axis: indices and array must have equal numbers of axes, got shapes {i.shape} and {x.shape}")
    m = _FILL if mode is None else lax.GatherScatterMode.from_any(mode)
    n = x.shape[k]
    if m is not lax.GatherScatterMode.PROMISE_IN_BOUNDS or wrap_negative_indices:
        i = wrapped(i, n, wrap_negative_indices)
    others = [d for d in range(x.ndim) if d != k]
    shape = broadcast_shapes(*(tuple(v.shape[d] for d in others) for v in (x, i)))
    out_shape = list(i.shape)
    for d, s in zip(others, shape, strict=True):
        out_shape[d] = s
    if 0 in out_shape:
        return lax.full(out_shape, 0, x.aval.dtype)
    if m is lax.GatherScatterMode.ONE_HOT:
        return _one_hot_along(x, i, k, tuple(out_shape))
    # axes where only x is spread are windows; where both are, they run together; where only the indices are, x has no axis
    window = [d for d in others if i.shape[d] == 1 and x.shape[d] != 1]
    single = [d for d in others if d not in window and x.shape[d] == 1]
    together = [d for d in others if d not in window and d not in single]
    i = lax.reshape(i, [s for d, s in enumerate(i.shape) if d not in window])
    x = lax.squeeze(x, single) if single else x
    x_axis = {d: d - sum(s < d for s in single) for d in range(len(out_shape)) if d not in single}
    i_axis = {d: d - sum(w < d for w in window) for d in range(len(out_shape)) if d not in window}
    return lax.gather(
        x,
        lax.reshape(i, (*i.shape, 1)),
        lax.GatherDimensionNumbers(
            tuple(window), (x_axis[k],), (x_axis[k],), tuple(x_axis[d] for d in together), tuple(i_axis[d] for d in together)
        ),
        tuple(x.shape[x_axis[d]] if d in window else 1 for d in range(len(out_shape)) if d not in single),
        mode=m,
        fill_value=fill_value,
    )


def _one_hot_along(x: Array, i: Array, k: int, shape: tuple[int, ...]) -> Array:
    """Sums, over all positions along axis k, of the elements whose position is asked for."""
    n = x.shape[k]
    full = (*shape[: k + 1], n, *shape[k + 1 :])
    mine = lax.expand_dims(i, (k + 1,))
    chosen = p.eq_p(broadcast_to(mine, full), lax.broadcasted_iota(mine.dtype, full, k + 1))
    values = broadcast_to(lax.expand_dims(x, (k,)), full)
    if x.aval.dtype == dtypes.bool_:
        return lax.reduce_or(p.and_p(chosen, values), (k + 1,))
    return lax.reduce_sum(e.where(chosen, values, e.const(0, x.aval.dtype)), (k + 1,))


def put_along_axis(
    arr: ArrayLike, indices: ArrayLike, values: ArrayLike, axis: int | None, inplace: bool = True, *, mode: str | None = None
) -> Array:
    """arr with values put where `take_along_axis` would take them. `inplace` must be false: arrays are immutable."""
    if inplace:
        raise ValueError("put_along_axis: inplace must be False, since arrays are immutable; the changed array is returned")
    x, i, v = as_array("put_along_axis", arr, 0), as_array("put_along_axis", indices, 1), as_array("put_along_axis", values, 2)
    original = x.shape
    if axis is None:
        x, k = lax.reshape(x, (x.size,)), 0
    else:
        k = canonical_axis(axis, x.ndim)
    if i.ndim != x.ndim:
        raise ValueError(f"put_along_axis: indices and array must have equal numbers of axes, got shapes {i.shape} and {x.shape}")
    shape = tuple(s if d == k else n for d, (s, n) in enumerate(zip(i.shape, x.shape, strict=True)))
    i = broadcast_to(i, broadcast_shapes(i.shape, shape))
    index = tuple(i if d == k else lax.broadcasted_iota(dtypes.int32, i.shape, d) for d in range(x.ndim))
    out = update(x, index, v, lax.scatter, mode=mode)
    return lax.reshape(out, original)


def put(a: ArrayLike, ind: ArrayLike, v: ArrayLike, mode: str | None = None, *, inplace: bool = True) -> Array:
    """a with elements of the flattened array replaced; values are repeated as needed. `inplace` must be false: arrays are immutable."""
    if inplace:
        raise ValueError("put: inplace must be False, since arrays are immutable; the changed array is returned")
    x, i, values = as_array("put", a, 0), as_array("put", ind, 1), as_array("put", v, 2)
    i, values = lax.reshape(i, (i.size,)), lax.reshape(values, (values.size,))
    if not x.size or not i.size or not values.size:
        return x
    if values.size < i.size:
        values = lax.tile(values, (-(-i.size // values.size),))
    values = lax.slice_in_dim(values, 0, i.size)
    if mode is None or mode == "drop":
        pass
    elif mode == "wrap":
        i = e.remainder(i, x.size)
    elif mode == "clip":
        i = e.clip(i, 0, x.size - 1)
    elif mode == "raise":
        raise NotImplementedError("put: mode 'raise' is not available: compiled code cannot raise; there are 'clip' and 'wrap'")
    else:
        raise ValueError(f"put: mode must be 'clip' or 'wrap', got {mode!r}")
    flat = update(lax.reshape(x, (x.size,)), i, values, lax.scatter)
    return lax.reshape(flat, x.shape)


def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike, *, inplace: bool = True) -> Array:
    """arr with the elements where the mask holds replaced by values in turn, repeated as needed. `inplace` must be false: arrays are
    immutable."""
    if inplace:
        raise ValueError("place: inplace must be False, since arrays are immutable; the changed array is returned")
    x, m, v = as_array("place", arr, 0), as_array("place", mask, 1), as_array("place", vals, 2)
    if x.size != m.size:
        raise ValueError(f"place: array and mask must have equal sizes, got shapes {x.shape} and {m.shape}")
    v = lax.reshape(v, (v.size,))
    if not v.size:
        if not x.size:
            return x
        raise ValueError("place: there are no values")
    if not x.size:
        return x
    chosen = e.as_bool(lax.reshape(m, (m.size,)))
    rank = p.sub_p(p.cumsum_p(convert(chosen, dtypes.int32), axis=0, reverse=False), e.const(1, dtypes.int32))
    values = take(convert(v, x.aval.dtype), e.remainder(rank, v.size), mode="clip")
    return lax.reshape(e.where(chosen, values, lax.reshape(x, (x.size,))), x.shape)


def insert(arr: ArrayLike, obj: Any, values: ArrayLike, axis: int | None = None) -> Array:
    """arr with values in front of the positions `obj` (an int, a slice, an array of ints) along an axis, or flattened."""
    if not isinstance(obj, slice | list | tuple):
        check_arraylike("insert", arr, 0, values)
    x, v = as_array("insert", arr, 0), as_array("insert", values, 2)
    if axis is None:
        x, k = lax.reshape(x, (x.size,)), 0
    else:
        k = canonical_axis(axis, x.ndim)
    n = x.shape[k]
    if isinstance(obj, slice):
        positions: Any = from_host(np.arange(*obj.indices(n)).astype(dtypes.default_int()))
    else:
        positions = as_array("insert", np.asarray(obj) if isinstance(obj, list | tuple) else obj, 1)
        if positions.aval.dtype == dtypes.bool_:
            positions = from_host(np.nonzero(static("insert", positions, "obj"))[0].astype(dtypes.default_int()))
    if positions.aval.dtype.kind not in "iu" and positions.size == 0:
        positions = convert(positions, dtypes.default_int())
    if dtypes.kind(positions.aval.dtype) not in "iu":
        raise TypeError(f"insert: obj must be an integer, a slice or an array of integers, got dtype {dtypes.name(positions.aval.dtype)}")
    v = convert(v, x.aval.dtype, x.aval.weak_type)
    v = lax.broadcast_to_rank(v, x.ndim) if v.ndim < x.ndim else v
    if positions.ndim == 0:
        v = moveaxis(v, 0, k) if as_array("insert", values).ndim and x.ndim > 1 else v
        count = v.shape[k]
        positions = lax.broadcast_in_dim(positions, (count,), ())
    elif positions.size == 1:
        count = v.shape[k]
        positions = lax.broadcast_in_dim(lax.reshape(positions, ()), (count,), ())
    else:
        positions = lax.reshape(positions, (positions.size,))
        count = positions.shape[0]
    v = broadcast_to(v, tuple(count if d == k else s for d, s in enumerate(x.shape)))
    if count == 0:
        return x
    positions = e.clip(wrapped(positions, n, True), 0, n)
    # in order of position; each comes after those in front of it
    order = lax.sort((positions, lax.iota(dtypes.int32, count)), num_keys=1)
    positions = p.add_p(convert(order[0], dtypes.int32), lax.iota(dtypes.int32, count))
    v = take(v, order[1], axis=k, mode="clip")
    total = n + count
    taken = update(lax.full((total,), False), positions, True, lax.scatter, unique_indices=True, indices_are_sorted=True)
    rank = p.cumsum_p(convert(taken, dtypes.int32), axis=0, reverse=False)
    old = p.sub_p(lax.iota(dtypes.int32, total), rank)
    new = p.sub_p(rank, e.const(1, dtypes.int32))
    mask = lax.broadcast_in_dim(taken, tuple(total if d == k else s for d, s in enumerate(x.shape)), (k,))
    if n == 0:
        return v
    return e.where(mask, take(v, e.clip(new, 0, count - 1), axis=k, mode="clip"), take(x, e.clip(old, 0, n - 1), axis=k, mode="clip"))


def delete(arr: ArrayLike, obj: Any, axis: int | None = None, *, assume_unique_indices: bool = False) -> Array:
    """arr without the positions `obj` (an int, a slice, a mask, an array of ints) along an axis, or flattened.

    An array of positions that is traced needs `assume_unique_indices`: else how many go is unknown."""
    x = as_array("delete", arr)
    if x.aval.dtype == dtypes.bool_:
        x = strong(x)
    if axis is None:
        x, k = lax.reshape(x, (x.size,)), 0
    else:
        k = canonical_axis(axis, x.ndim)
    n = x.shape[k]
    if isinstance(obj, slice):
        gone = np.zeros(n, bool)
        gone[obj] = True
        return _kept(x, gone, k)
    if isinstance(obj, int | np.integer) and not isinstance(obj, bool):
        i = operator.index(obj)
        if not -n <= i < n:
            raise ValueError(f"delete: position {i} is out of bounds for an axis of size {n}")
        i %= n
        return lax.concatenate([lax.slice_in_dim(x, 0, i, axis=k), lax.slice_in_dim(x, i + 1, n, axis=k)], k)
    positions = as_array("delete", np.asarray(obj) if isinstance(obj, list | tuple) else obj, 1)
    host = None if isinstance(positions, Tracer) and positions.to_concrete_value() is None else np.asarray(positions)
    if positions.aval.dtype == dtypes.bool_:
        host = static("delete", positions, "obj")
        if host.shape != (n,):
            raise ValueError(f"delete: a mask must be a vector of the axis's size, {n}, got shape {host.shape}")
        return _kept(x, host, k)
    if positions.size == 0:
        return x
    if dtypes.kind(positions.aval.dtype) not in "iu":
        raise ValueError(f"delete: positions must be integers, got dtype {dtypes.name(positions.aval.dtype)}")
    if positions.size == 1:
        i = e.clip(wrapped(lax.reshape(positions, ()), n, True), 0, n)
        at = lax.broadcasted_iota(dtypes.int32, tuple(n - 1 if d == k else 1 for d in range(x.ndim)), k)
        shape = tuple(n - 1 if d == k else s for d, s in enumerate(x.shape))
        before = broadcast_to(p.lt_p(at, convert(i, dtypes.int32)), shape)
        return e.where(before, lax.slice_in_dim(x, 0, n - 1, axis=k), lax.slice_in_dim(x, 1, n, axis=k))
    if host is not None:
        if np.any((host < -n) | (host >= n)):
            raise ValueError(f"delete: positions must lie in [{-n}, {n}), got {host}")
        gone = np.zeros(n, bool)
        gone[host.reshape(-1)] = True
        return _kept(x, gone, k)
    if not assume_unique_indices:
        static("delete", positions, "obj")
    count = n - positions.size
    flat = wrapped(lax.reshape(positions, (positions.size,)), n, True)
    keep = update(lax.full((n,), True), flat, False, lax.scatter)
    return compress(keep, x, k, size=count)


def _kept(x: Array, gone: np.ndarray, axis: int) -> Array:
    return take(x, from_host(np.nonzero(~gone)[0].astype(dtypes.default_int())), axis=axis, mode="clip")


def unravel_index(indices: ArrayLike, shape: Any) -> tuple[Array, ...]:
    """Positions in the flattened array as index vectors; those out of bounds are clamped."""
    i = as_array("unravel_index", indices)
    if dtypes.kind(i.aval.dtype) not in "iu":
        raise TypeError(f"unravel_index: indices must be integers, got {dtypes.name(i.aval.dtype)}")
    traced = isinstance(shape, Tracer) or isinstance(shape, list | tuple) and any(isinstance(n, Tracer) for n in shape)
    if traced:
        return _unravel_traced(i, [shape] if isinstance(shape, Tracer) and not shape.ndim else list(shape))
    sizes = (operator.index(shape),) if hasattr(shape, "__index__") else tuple(operator.index(n) for n in shape)
    total = 1
    for n in sizes:
        total *= n
    if dtypes.kind(i.aval.dtype) == "i":
        i = e.where(p.lt_p(i, e.const(0, i.aval.dtype)), e.add(i, total), i)
    i = e.clip(i, 0, max(total - 1, 0))
    out = []
    stride = total
    for n in sizes:
        stride = stride // n if n else 0
        out.append(e.floor_divide(i, stride) if stride else i)
        i = e.remainder(i, stride) if stride else i
    return tuple(out)


def _unravel_traced(i: Array, sizes: Sequence[Any]) -> tuple[Array, ...]:
    """`unravel_index` for sizes that are known at run time."""
    sizes = [convert(as_array("unravel_index", n, 1), i.aval.dtype) for n in sizes]
    total = e.const(1, i.aval.dtype)
    for n in sizes:
        total = e.multiply(total, n)
    if dtypes.kind(i.aval.dtype) == "i":
        i = e.where(p.lt_p(i, e.const(0, i.aval.dtype)), e.add(i, total), i)
    i = e.clip(i, 0, e.maximum(e.subtract(total, 1), 0))
    out: list[Array] = []
    for n in reversed(sizes):
        out.append(e.remainder(i, n))
        i = e.floor_divide(i, n)
    return tuple(reversed(out))


def ravel_multi_index(
    multi_index: Sequence[Any], dims: Sequence[int], mode: str = "raise", order: str = "C", *, dtype: Any = None
) -> Array:
    """Index vectors as positions in the flattened array. Out of bounds: ValueError ("raise", which needs known values), "clip", "wrap",
    or "ignore", which computes with what is there."""
    if len(multi_index) != len(dims):
        raise ValueError(f"ravel_multi_index: there must be as many index vectors as sizes, got {len(multi_index)} and {len(dims)}")
    dims = tuple(operator.index(d) for d in dims)
    xs = [as_array("ravel_multi_index", x, k) for k, x in enumerate(multi_index)]
    for x in xs:
        if dtypes.kind(x.aval.dtype) not in "iu":
            raise TypeError(f"ravel_multi_index: indices must be integers, got dtype {dtypes.name(x.aval.dtype)}")
    if mode == "raise":
        hosts = [static("ravel_multi_index", x, "multi_index") for x in xs]
        if any(np.any((h < 0) | (h >= d)) for h, d in zip(hosts, dims, strict=True)):
            raise ValueError(f"invalid entry in coordinates array: indices must lie within {dims}, got {hosts}")
    elif mode == "ignore":
        pass
    elif mode == "clip":
        xs = [e.clip(x, 0, d - 1) for x, d in zip(xs, dims, strict=True)]
    elif mode == "wrap":
        xs = [e.remainder(x, d) for x, d in zip(xs, dims, strict=True)]
    else:
        raise ValueError(f"ravel_multi_index: mode must be 'raise', 'clip', 'wrap' or 'ignore', got {mode!r}")
    if order not in ("C", "F"):
        raise ValueError(f"ravel_multi_index: order must be 'C' or 'F', got {order!r}")
    strides = np.cumprod([1, *(dims[1:][::-1] if order == "C" else dims[:-1])])
    if order == "C":
        strides = strides[::-1]
    common = dtypes.result_type(*xs) if xs else dtypes.default_int()
    index = common if dtype is None else dtypes.check_valid(dtype, "ravel_multi_index")
    out: Any = None
    for x, s in zip(xs, strides.tolist(), strict=True):
        term = e.multiply(convert(x, index), int(s))
        out = term if out is None else e.add(out, term)
    return lax.full((), 0, index) if out is None else out
