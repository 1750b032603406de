"""Sets: sorted vectors without repetitions."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from steno import lax
from steno.core import dtypes
from steno.core.errors import ConcretizationTypeError
from steno.lax import records as p
from steno.numpy import elementwise as e
from steno.numpy.operands import (
    Array,
    ArrayLike,
    Tracer,
    arrays,
    as_array,
    broadcast_to,
    canonical_axis,
    convert,
    promoted,
    strong,
)
from steno.numpy.selection import nonzero
from steno.numpy.sorting import argsort, bisect, searchsorted, sort
from steno.numpy.taking import take


class UniqueAll(NamedTuple):
    """What `unique_all` gives."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """What `unique_counts` gives."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """What `unique_inverse` gives."""

    values: Array
    inverse_indices: Array


def _differs(rows: Array, equal_nan: bool) -> Array:
    """For each row of a sorted matrix but the first: whether it differs from the one before."""
    n = rows.shape[0]
    a, b = lax.slice_in_dim(rows, 0, n - 1), lax.slice_in_dim(rows, 1, n)
    other = p.ne_p(a, b)
    if equal_nan and dtypes.kind(rows.aval.dtype) in "fc":
        other = p.and_p(other, p.not_p(p.and_p(e.isnan(a), e.isnan(b))))
    return lax.reduce_or(other, (1,)) if rows.shape[1] != 1 else lax.reshape(other, (n - 1,))


def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
    sorted: bool = True,
) -> Any:
    """The distinct elements (or slices along an axis), sorted; also their first positions, the inverse and how often each occurs.

    With `size` so many: surplus ones are left out, missing ones are `fill_value` (the least element by default), with a count of 0.
    Without it the values must be known while tracing, since they make the shape."""
    x = as_array("unique", ar)
    if size is None and isinstance(x, Tracer) and x.to_concrete_value() is None:
        raise ConcretizationTypeError(
            x, "unique: without `size` the number of results depends on the values, which must be known while tracing."
        )
    whole_shape = x.shape
    if dtypes.is_complex(x.aval.dtype):  # all numbers with a NaN are one
        x = e.where(e.isnan(x), e.const(complex(np.nan, 0), x.aval.dtype), x)
    if axis is None:
        k = 0
        rows = lax.reshape(x, (x.size, 1))
        slice_shape: tuple[int, ...] = ()
    else:
        k = canonical_axis(axis, x.ndim)
        moved = lax.transpose(x, [k, *(d for d in range(x.ndim) if d != k)])
        slice_shape = moved.shape[1:]
        rows = lax.reshape(moved, (moved.shape[0], math.prod(slice_shape)))
    n, m = rows.shape
    index = dtypes.default_int()

    def shaped(flat: Array) -> Array:
        if axis is None:
            return lax.reshape(flat, (flat.shape[0],))
        full = lax.reshape(flat, (flat.shape[0], *slice_shape))
        return lax.transpose(full, [*range(1, k + 1), 0, *range(k + 1, full.ndim)])

    if n == 0 or m == 0:
        count = (size if size is not None else (0 if n == 0 else 1)) if n == 0 or size is not None or m else 1
        fill = convert(0 if fill_value is None else as_array("unique", fill_value), x.aval.dtype)
        values = shaped(lax.broadcast_in_dim(fill, (count, m), ()))
        extras = [lax.full((count,), 0, index), lax.full((n,), 0, index), lax.full((count,), n if n else 0, index)]
        wanted = [v for v, w in zip(extras, (return_index, return_inverse, return_counts), strict=True) if w]
        return (values, *wanted) if wanted else values

    position = lax.iota(index, n)
    columns = [lax.index_in_dim(rows, j, 1, False) for j in range(m)]
    *ordered, order = p.sort_p(*columns, position, dimension=0, is_stable=True, num_keys=m)
    table = lax.stack(ordered, 1) if m > 1 else lax.reshape(ordered[0], (n, 1))
    first = lax.concatenate([lax.full((1,), True), _differs(table, equal_nan)], 0) if n != 1 else lax.full((1,), True)
    count = size if size is not None else int(np.asarray(first).sum())
    (starts,) = nonzero(first, size=count)
    values = take(table, starts, axis=0, mode="clip")
    total = lax.reduce_sum(convert(first, index), (0,))
    if size is not None and fill_value is not None:
        fill = convert(as_array("unique", fill_value), x.aval.dtype)
        missing = p.ge_p(lax.iota(index, count), total)
        fill_rows = (
            lax.broadcast_in_dim(fill, (count, m), ())
            if fill.ndim == 0
            else lax.broadcast_in_dim(lax.reshape(fill, (m,)), (count, m), (1,))
        )
        values = e.where(lax.broadcast_in_dim(missing, (count, m), (0,)), fill_rows, values)
    out = [shaped(values)]
    if return_index:
        out.append(take(order, starts, mode="clip"))
    if return_inverse:
        rank = p.sub_p(p.cumsum_p(convert(first, index), axis=0, reverse=False), e.const(1, index))
        inverse = lax.scatter(
            lax.full((n,), 0, index), lax.reshape(order, (n, 1)), rank, lax.ScatterDimensionNumbers((), (0,), (0,)), unique_indices=True
        )
        out.append(lax.reshape(inverse, whole_shape) if axis is None else inverse)
    if return_counts:
        if n:
            (bounds,) = nonzero(first, size=count + 1, fill_value=n)
            out.append(p.sub_p(lax.slice_in_dim(bounds, 1, count + 1), lax.slice_in_dim(bounds, 0, count)))
    return tuple(out) if len(out) > 1 else out[0]


def unique_all(x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None) -> UniqueAll:
    """Distinct elements, first positions, inverse, counts."""
    return UniqueAll(*unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value))


def unique_counts(x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None) -> UniqueCounts:
    """Distinct elements and counts."""
    return UniqueCounts(*unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value))


def unique_inverse(x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None) -> UniqueInverse:
    """Distinct elements and inverse."""
    return UniqueInverse(*unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value))


def unique_values(x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None) -> Array:
    """Distinct elements."""
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


def isin(element: ArrayLike, test_elements: ArrayLike, assume_unique: bool = False, invert: bool = False, *, method: str = "auto") -> Array:
    """For each element whether it is among the test elements."""
    x, y = promoted("isin", element, test_elements)
    if method not in ("auto", "compare_all", "binary_search", "sort"):
        raise ValueError(f"isin: method must be one of 'auto', 'compare_all', 'binary_search' or 'sort', got {method!r}")
    flat = lax.reshape(y, (y.size,))
    if y.size == 0:
        out = lax.full(x.shape, False)
    elif method == "compare_all" or (method == "auto" and y.size <= 64):
        wide = lax.broadcast_in_dim(x, (*x.shape, y.size), range(x.ndim))
        same = p.eq_p(wide, lax.broadcast_in_dim(flat, wide.shape, (x.ndim,)))
        out = lax.reduce_or(same, (x.ndim,))
    else:
        table = sort(flat)
        found = take(table, bisect(table, x, True, dtypes.int32), mode="clip")
        out = p.eq_p(found, x)
    out = strong(out)
    return p.not_p(out) if invert else out


def _flat_pair(fun: str, a: ArrayLike, b: ArrayLike) -> tuple[Array, Array]:
    x, y = promoted(fun, a, b)
    return lax.reshape(x, (x.size,)), lax.reshape(y, (y.size,))


def _need_size(fun: str, *xs: Any) -> None:
    traced = next((x for x in xs if isinstance(x, Tracer) and x.to_concrete_value() is None), None)
    if traced is not None:
        raise ConcretizationTypeError(
            traced, f"{fun}: without `size` the number of results depends on the values, which must be known while tracing."
        )


def union1d(ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None) -> Array:
    """The sorted distinct elements of both; `size` and `fill_value` as of `unique`."""
    x, y = _flat_pair("union1d", ar1, ar2)
    if size is None:
        _need_size("union1d", x, y)
    return unique(lax.concatenate([x, y], 0), size=size, fill_value=fill_value)


def setdiff1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """The sorted distinct elements of the first, in its dtype, that are not in the second."""
    x, y = (lax.reshape(v, (v.size,)) for v in arrays("setdiff1d", ar1, ar2))
    if size is None:
        _need_size("setdiff1d", x, y)
        own = x if assume_unique else unique(x)
        keep = np.asarray(isin(own, y, invert=True))
        return take(own, np.nonzero(keep)[0], mode="clip")
    if not x.size:
        return lax.full((size,), 0 if fill_value is None else fill_value, x.aval.dtype)
    own = x if assume_unique else sort(x)
    keep = isin(own, y, invert=True)
    if not assume_unique:
        keep = p.and_p(keep, lax.concatenate([lax.full((1,), True), _differs(lax.reshape(own, (own.size, 1)), True)], 0))
    n = own.shape[0]
    (at,) = nonzero(keep, size=size, fill_value=n)
    values = take(own, at, mode="clip")
    fill = e.const(0, x.aval.dtype) if fill_value is None else strong(convert(as_array("setdiff1d", fill_value), x.aval.dtype))
    return e.where(p.lt_p(at, e.const(n, at.aval.dtype)), values, fill)


def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Any:
    """The sorted distinct elements in both; with `return_indices`, also their positions in each. With `size` so many: missing ones are
    `fill_value` (the least element by default)."""
    x, y = _flat_pair("intersect1d", ar1, ar2)
    if size is None:
        _need_size("intersect1d", x, y)
        (xs, xi), (ys, yi) = (
            (v, lax.iota(dtypes.default_int(), v.size)) if assume_unique else unique(v, return_index=True) for v in (x, y)
        )
        if assume_unique:
            order = argsort(xs)
            xs, xi = take(xs, order, mode="clip"), take(xi, order, mode="clip")
        keep = np.nonzero(np.asarray(isin(xs, ys)))[0]
        values = take(xs, keep, mode="clip") if xs.size else xs
        if not return_indices:
            return values
        if assume_unique:
            order = argsort(ys)
            ys, yi = take(ys, order, mode="clip"), take(yi, order, mode="clip")
        where_y = searchsorted(ys, values)
        return values, take(xi, keep, mode="clip"), take(yi, where_y, mode="clip")
    n, m = x.size, y.size
    # sorted together, an element of both is followed by an equal one of the other array
    own, xi = unique(x, return_index=True, size=n) if not assume_unique else (x, lax.iota(dtypes.default_int(), n))
    first = lax.concatenate([lax.full((1,), True), _differs(lax.reshape(sort(own), (n, 1)), True)], 0) if n else lax.full((0,), True)
    table = sort(own)
    keep = p.and_p(isin(table, y), first)
    (at,) = nonzero(keep, size=size, fill_value=n)
    there = p.lt_p(at, e.const(n, at.aval.dtype))
    values = _filled("intersect1d", take(table, at, mode="clip"), there, fill_value)
    if not return_indices:
        return values
    out = []
    for v, count in ((x, n), (y, m)):
        order = argsort(v)
        position = take(order, bisect(take(v, order, mode="clip"), values, True, dtypes.int32), mode="clip")
        out.append(e.where(there, position, e.const(count, position.aval.dtype)))
    return (values, *out)


def setxor1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """The sorted distinct elements in one of the two only; `size` and `fill_value` as of `intersect1d`."""
    x, y = _flat_pair("setxor1d", ar1, ar2)
    if size is None:
        _need_size("setxor1d", x, y)
        xs, ys = (v if assume_unique else unique(v) for v in (x, y))
        table = sort(lax.concatenate([xs, ys], 0))
        host = np.asarray(table)
        if not host.size:
            return table
        changes = np.concatenate([[True], host[1:] != host[:-1], [True]])
        return take(table, np.nonzero(changes[1:] & changes[:-1])[0], mode="clip")
    both = lax.concatenate([x, y], 0)
    n = both.size
    if not n:
        return lax.full((size,), 0 if fill_value is None else fill_value, both.aval.dtype)
    table = sort(both)
    first = lax.concatenate([lax.full((1,), True), _differs(lax.reshape(table, (n, 1)), True)], 0)
    single = p.and_p(first, p.ne_p(isin(table, x), isin(table, y)))
    (at,) = nonzero(single, size=size, fill_value=n)
    return _filled("setxor1d", take(table, at, mode="clip"), p.lt_p(at, e.const(n, at.aval.dtype)), fill_value)


def _filled(fun: str, values: Array, there: Array, fill_value: Any) -> Array:
    """Sorted values, and elsewhere the fill value: by default the first of them, 0 if there is none."""
    dtype = values.aval.dtype
    if fill_value is not None:
        fill = strong(convert(as_array(fun, fill_value), dtype))
    elif values.shape[0]:
        first = lax.slice_in_dim(e.where(there, values, e.const(0, dtype)), 0, 1)
        fill = broadcast_to(first, values.shape)
    else:
        return values
    return e.where(there, values, fill)
