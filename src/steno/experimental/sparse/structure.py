"""Sparse arrays in batched coordinates with their axes and elements elsewhere: reshaped, sliced, joined, reduced."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from steno import lax, numpy as jnp
from steno.experimental.sparse.bcoo import (
    BCOO,
    bcoo_sum_duplicates,
    bcoo_transpose,
    bcoo_update_layout,
    made,
    padded,
    selected,
    whole_batch,
    within,
)
from steno.experimental.sparse.util import over_batch
from steno.numpy.operands import canonical_axes

Array = Any


def _kinds(mat: BCOO) -> tuple[int, int]:
    """Where the sparse axes begin and end."""
    return mat.n_batch, mat.n_batch + mat.n_sparse


def bcoo_broadcast_in_dim(mat: BCOO, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: Any = None) -> BCOO:
    """As `lax.broadcast_in_dim`: new axes before the first sparse one are batch axes, those behind the first dense one dense axes, the
    others sparse ones, along which elements are repeated."""
    shape, dims = tuple(shape), tuple(broadcast_dimensions)
    if (
        len(dims) != mat.ndim
        or list(dims) != sorted(set(dims))
        or any(n not in (1, shape[d]) for n, d in zip(mat.shape, dims, strict=True))
    ):
        raise ValueError(f"bcoo_broadcast_in_dim: axes {dims} and shape {shape} do not fit {mat!r}")
    b, d = _kinds(mat)
    first_dense = dims[d] if mat.n_dense else len(shape)
    n_batch = dims[b] if mat.n_sparse else first_dense
    data, indices = whole_batch(mat)
    data = lax.broadcast_in_dim(
        data, (*shape[:n_batch], mat.nse, *shape[first_dense:]),
        (*dims[:b], n_batch, *(k - first_dense + n_batch + 1 for k in dims[d:])),
    )  # fmt: skip
    indices = lax.broadcast_in_dim(indices, (*shape[:n_batch], mat.nse, mat.n_sparse), (*dims[:b], n_batch, n_batch + 1))
    parts: list[Array] = []
    outside = ~within(indices, mat.sizes)
    own = {k: i for i, k in enumerate(dims[b:d])}
    for k in range(n_batch, first_dense):
        n = shape[k]
        i = own.get(k)
        if i is not None and mat.sizes[i] == n:
            parts.append(indices[..., i])
            continue
        # every element n times
        grow = lambda x, n=n: jnp.repeat(x, n, axis=n_batch)  # noqa: E731
        count = indices.shape[n_batch]
        parts, data, indices, outside = [grow(p) for p in parts], grow(data), grow(indices), grow(outside)
        parts.append(jnp.broadcast_to(jnp.tile(jnp.arange(n, dtype=indices.dtype), count), indices.shape[:-1]))
    sizes = shape[n_batch:first_dense]
    new = jnp.stack(parts, -1) if parts else jnp.zeros((*indices.shape[:-1], 0), indices.dtype)
    return made(data, padded(new, outside, sizes), shape, False, mat.unique_indices)


def bcoo_concatenate(operands: Sequence[BCOO], *, dimension: int) -> BCOO:
    """Arrays of one layout joined along an axis."""
    mats = list(operands)
    if not mats or any((m.n_batch, m.n_dense, m.ndim) != (mats[0].n_batch, mats[0].n_dense, mats[0].ndim) for m in mats):
        raise ValueError(f"bcoo_concatenate: expected arrays of one layout, got {mats}")
    k = dimension % mats[0].ndim
    if any(m.shape[:k] + m.shape[k + 1 :] != mats[0].shape[:k] + mats[0].shape[k + 1 :] for m in mats):
        raise ValueError(f"bcoo_concatenate: sizes but those of axis {k} must be equal, got shapes {[m.shape for m in mats]}")
    b, d = _kinds(mats[0])
    total = sum(m.shape[k] for m in mats)
    shape = (*mats[0].shape[:k], total, *mats[0].shape[k + 1 :])
    dtype = jnp.result_type(*(m.data for m in mats))
    begin, datas, indices = 0, [], []
    nse = max(m.nse for m in mats)
    sizes = shape[b:d]
    for m in mats:
        x, i = whole_batch(m)
        i = padded(i, ~within(i, m.sizes), sizes) if m.n_sparse else i
        if b <= k < d:
            moved = i.at[..., k - b].add(begin)
            i = jnp.where(within(i, sizes)[..., None], moved, i)
        elif k >= d:
            x = jnp.pad(x, [(begin, total - begin - m.shape[k]) if a == k - d + b + 1 else (0, 0) for a in range(x.ndim)])
        else:
            x = jnp.pad(x, [(0, nse - m.nse) if a == b else (0, 0) for a in range(x.ndim)])
            fill = jnp.broadcast_to(jnp.array(sizes, i.dtype), (*i.shape[:b], nse - m.nse, m.n_sparse))
            i = jnp.concatenate([i, fill], b)
        begin += m.shape[k]
        datas.append(x.astype(dtype))
        indices.append(i)
    axis = k if k < b else b
    unique = all(m.unique_indices for m in mats) and k < d
    return made(jnp.concatenate(datas, axis), jnp.concatenate(indices, axis), shape, False, unique)


def bcoo_reshape(mat: BCOO, *, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None, sharding: Any = None) -> BCOO:
    """Of another shape. Batch, sparse and dense axes are reshaped each among themselves; where that cannot be, batch axes become sparse."""
    new = tuple(new_sizes)
    if math.prod(new) != mat.size:
        raise ValueError(f"bcoo_reshape: {mat!r} has {mat.size} elements, which shape {new} has not")
    if dimensions is not None:
        mat = bcoo_transpose(mat, permutation=dimensions)
    b, d = _kinds(mat)
    if new[len(new) - mat.n_dense :] != mat.shape[d:]:
        raise NotImplementedError(f"bcoo_reshape: dense axes of {mat!r} are not reshaped, to {new}")
    end = len(new) - mat.n_dense
    size = math.prod(mat.shape[:b])
    begin = next((k for k in range(end + 1) if math.prod(new[:k]) == size and (k or not b)), None)
    if begin is None:
        return bcoo_reshape(bcoo_update_layout(mat, n_batch=0), new_sizes=new)
    data, indices = whole_batch(mat)
    outside = ~within(indices, mat.sizes)
    flat = jnp.zeros(indices.shape[:-1], indices.dtype)
    for k, n in enumerate(mat.sizes):
        flat = flat * n + indices[..., k]
    parts = []
    for n in reversed(new[begin:end]):
        parts.append(flat % n if n else flat)
        flat = flat // n if n else flat
    moved = jnp.stack(parts[::-1], -1) if parts else jnp.zeros((*flat.shape, 0), flat.dtype)
    if parts:
        moved = padded(moved, outside, new[begin:end])
    batch = new[:begin]
    return made(
        data.reshape(*batch, *data.shape[b:]), moved.reshape(*batch, *moved.shape[b:]), new, mat.indices_sorted, mat.unique_indices
    )  # fmt: skip


def bcoo_rev(operand: BCOO, dimensions: Sequence[int]) -> BCOO:
    """With axes in reverse."""
    dims = canonical_axes(tuple(dimensions), operand.ndim)
    b, d = _kinds(operand)
    data, indices = whole_batch(operand)
    batch = tuple(k for k in dims if k < b)
    data = jnp.flip(data, (*batch, *(k - d + b + 1 for k in dims if k >= d)))
    indices = jnp.flip(indices, batch)
    outside = ~within(indices, operand.sizes)
    for k in (k - b for k in dims if b <= k < d):
        indices = indices.at[..., k].set(operand.sizes[k] - 1 - indices[..., k])
    sparse = any(b <= k < d for k in dims)
    return made(
        data, padded(indices, outside, operand.sizes) if sparse else indices, operand.shape, operand.indices_sorted and not sparse,
        operand.unique_indices,
    )  # fmt: skip


def bcoo_squeeze(arr: BCOO, *, dimensions: Sequence[int]) -> BCOO:
    """Without axes of size 1."""
    dims = canonical_axes(tuple(dimensions), arr.ndim)
    if any(arr.shape[k] != 1 for k in dims):
        raise ValueError(f"bcoo_squeeze: axes {dims} of {arr!r} must have size 1")
    b, d = _kinds(arr)
    data, indices = whole_batch(arr)
    batch = tuple(k for k in dims if k < b)
    left = [k for k in range(arr.n_sparse) if k + b not in dims]
    outside = ~within(indices, arr.sizes)
    data = jnp.squeeze(_silent(data, outside, len(left)), (*batch, *(k - d + b + 1 for k in dims if k >= d)))
    indices = selected(indices, left)
    if left:
        indices = padded(indices, outside, [arr.sizes[k] for k in left])
    shape = [n for k, n in enumerate(arr.shape) if k not in dims]
    return made(data, jnp.squeeze(indices, batch), shape, arr.indices_sorted, arr.unique_indices)


def _silent(data: Array, outside: Array, n_sparse: int) -> Array:
    """data, 0 where it is padding, if no position is left to say so."""
    return data if n_sparse else jnp.where(outside.reshape(outside.shape + (1,) * (data.ndim - outside.ndim)), 0, data)


def bcoo_slice(
    mat: BCOO, *, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Sequence[int] | None = None
) -> BCOO:  # fmt: skip
    """As `lax.slice`: elements outside become padding, and no more are stored than the slice has."""
    starts, limits = tuple(map(int, start_indices)), tuple(map(int, limit_indices))
    steps = (1,) * mat.ndim if strides is None else tuple(map(int, strides))
    fits = len(starts) == len(limits) == len(steps) == mat.ndim
    if not fits or any(not 0 <= s <= e <= n or k < 1 for s, e, k, n in zip(starts, limits, steps, mat.shape, strict=True)):
        raise TypeError(f"bcoo_slice: {mat!r} has no slice from {starts} to {limits} with strides {steps}")
    b, d = _kinds(mat)
    cut = tuple(slice(*x) for x in zip(starts, limits, steps, strict=True))
    data, indices = whole_batch(mat)
    data = data[(*cut[:b], slice(None), *cut[d:])]
    indices = indices[cut[:b]]
    shape = tuple(-(-(e - s) // k) for s, e, k in zip(starts, limits, steps, strict=True))
    inside = within(indices, limits[b:d])
    columns = []
    for k, (start, step) in enumerate(zip(starts[b:d], steps[b:d], strict=True)):
        column = indices[..., k] - start
        inside &= (column >= 0) & (column % step == 0)
        columns.append(column // step)
    if columns:
        indices = padded(jnp.stack(columns, -1), ~inside, shape[b:d])
    return _fewer(made(data, indices, shape, False, mat.unique_indices))


def _fewer(mat: BCOO) -> BCOO:
    """No more elements than the sparse axes have: those that are no padding come first, or those at one position are added up."""
    count = math.prod(mat.sizes)
    if mat.nse <= count:
        return mat
    if not mat.unique_indices or not mat.n_sparse:
        return bcoo_sum_duplicates(mat, nse=count)

    def one(data: Array, indices: Array) -> tuple[Array, Array]:
        order = jnp.argsort(~within(indices, mat.sizes), stable=True)[:count]
        return data[order], indices[order]

    return made(*over_batch(one, mat.n_batch)(mat.data, mat.indices), mat.shape, False, True)


def bcoo_dynamic_slice(mat: BCOO, start_indices: Sequence[Any], slice_sizes: Sequence[int]) -> BCOO:
    """As `lax.dynamic_slice`: the slice is moved so that it lies within the array."""
    sizes = tuple(map(int, slice_sizes))
    if len(sizes) != mat.ndim or any(not 0 <= k <= n for k, n in zip(sizes, mat.shape, strict=True)):
        raise TypeError(f"bcoo_dynamic_slice: {mat!r} has no slice of sizes {sizes}")
    b, d = _kinds(mat)
    data, indices = whole_batch(mat)
    starts = []
    for start, n, k in zip(start_indices, mat.shape, sizes, strict=True):
        start = jnp.asarray(start).astype(indices.dtype)
        starts.append(jnp.clip(jnp.where(start < 0, start + n, start), 0, n - k))
    zero = jnp.zeros((), indices.dtype)
    data = lax.dynamic_slice(data, [*starts[:b], zero, *starts[d:]], [*sizes[:b], mat.nse, *sizes[d:]])
    indices = lax.dynamic_slice(indices, [*starts[:b], zero, zero], [*sizes[:b], mat.nse, mat.n_sparse])
    if not mat.n_sparse:
        return made(data, indices, sizes, mat.indices_sorted, mat.unique_indices)
    moved = jnp.stack([indices[..., k] - start for k, start in enumerate(starts[b:d])], -1)
    inside = (moved >= 0).all(-1) & within(moved, sizes[b:d]) & within(indices, mat.sizes)
    return _fewer(made(data, padded(moved, ~inside, sizes[b:d]), sizes, False, mat.unique_indices))


def bcoo_reduce_sum(mat: BCOO, *, axes: Sequence[int]) -> BCOO:
    """Summed over axes: elements that come to one position stay apart."""
    dims = canonical_axes(tuple(axes), mat.ndim)
    b, d = _kinds(mat)
    data, indices = whole_batch(mat)
    outside = ~within(indices, mat.sizes)
    left = [k for k in range(mat.n_sparse) if k + b not in dims]
    dense = tuple(k - d + b + 1 for k in dims if k >= d)
    data = _silent(data, outside, len(left))
    data = data.sum(dense, dtype=data.dtype) if dense else data
    if len(left) < mat.n_sparse:
        indices = selected(indices, left)
        if left:
            indices = padded(indices, outside, [mat.sizes[k] for k in left])
    # batch axes that are summed go into the stored elements
    summed = [k for k in dims if k < b]
    kept = [k for k in range(b) if k not in summed]
    batch = [mat.shape[k] for k in kept]
    count = mat.nse * math.prod(mat.shape[k] for k in summed)
    data = jnp.transpose(data, [*kept, *summed, *range(b, data.ndim)]).reshape(*batch, count, *data.shape[b + 1 :])
    indices = jnp.transpose(indices, [*kept, *summed, b, b + 1]).reshape(*batch, count, len(left))
    shape = [n for k, n in enumerate(mat.shape) if k not in dims]
    return made(data, indices, shape)
