"""Quantiles, histograms, covariances; differences, integrals and interpolation along an axis."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from steno import lax
from steno.core import dtypes
from steno.core.config import numpy_dtype_promotion
from steno.core.errors import ConcretizationTypeError
from steno.core.sizes import max_size, min_size
from steno.lax import records as p
from steno.numpy import elementwise as e, reductions as r
from steno.numpy.creation import asarray, linspace
from steno.numpy.linear import matmul
from steno.numpy.manipulation import moveaxis
from steno.numpy.operands import (
    Array,
    ArrayLike,
    DTypeLike,
    as_array,
    broadcast_to,
    canonical_axes,
    canonical_axis,
    check_dtype,
    concrete,
    convert,
    promoted,
    promoted_inexact,
    static,
    static_index,
    strong,
)
from steno.numpy.selection import where
from steno.numpy.sorting import searchsorted, sort
from steno.numpy.taking import take

Axis = Any

# quantiles

_METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")


def _quantile(
    fun: str, a: ArrayLike, q: ArrayLike, axis: Axis, method: str, keepdims: bool, skip_nan: bool, weights: ArrayLike | None = None
) -> Array:
    if method not in _METHODS:
        raise ValueError(f"{fun}: method must be one of {', '.join(_METHODS)}, got {method!r}")
    x, probabilities = promoted_inexact(fun, a)[0], as_array(fun, q, 1)
    with numpy_dtype_promotion("standard"):  # that a and q come to one dtype is no promotion of the caller's
        x, probabilities = promoted_inexact(fun, x, probabilities)
    d = x.aval.dtype
    if dtypes.is_complex(d):
        raise ValueError(f"{fun}: complex numbers have no order, got dtype {dtypes.name(d)}")
    x, probabilities = strong(x), strong(probabilities)
    if probabilities.ndim > 1:
        raise ValueError(f"{fun}: q must be a scalar or a vector, got shape {probabilities.shape}")
    if weights is not None and method != "inverted_cdf":
        raise ValueError(f"{fun}: weights go with method 'inverted_cdf' only, got {method!r}")
    shape = x.shape
    axes = canonical_axes(axis, x.ndim)
    rest = [k for k in range(x.ndim) if k not in axes]
    w = None
    if weights is not None:
        w = convert(as_array(fun, weights), d)
        if w.shape != shape:
            if isinstance(axis, int) and w.ndim == 1 and w.shape[0] == shape[axes[0]]:
                w = lax.broadcast_in_dim(w, shape, axes)
            else:
                raise ValueError(f"{fun}: weights of shape {w.shape} do not fit an array of shape {shape} and axis {axis}")
        w = lax.reshape(lax.transpose(w, [*rest, *axes]), (*(shape[k] for k in rest), math.prod(shape[k] for k in axes)))
    # the reduced axes as one, the last
    x = lax.reshape(lax.transpose(x, [*rest, *axes]), (*(shape[k] for k in rest), math.prod(shape[k] for k in axes)))
    n = x.shape[-1]
    if n == 0:
        raise ValueError(f"{fun}: cannot take a quantile of nothing, got an array of shape {shape} and axis {axis}")
    nan = e.isnan(x)
    if w is not None:
        out = _weighted(x, w, probabilities, nan, skip_nan)
    else:
        if skip_nan:
            counts = r.sum(p.not_p(nan), -1, d)
        else:
            # one NaN makes all of them NaN
            x = e.where(broadcast_to(r.any(nan, -1, keepdims=True), x.shape), strong(e.const(np.nan, d)), x)
            counts = lax.full(x.shape[:-1], n, d)
        x = sort(x)
        out = _interpolated(x, probabilities, counts, method, skip_nan)
    # out: the axis of q in front, then what is left of a
    if keepdims:
        kept = tuple(1 if k in axes else s for k, s in enumerate(shape))
        lead = probabilities.shape
        places = [*range(len(lead)), *(len(lead) + k for k in rest)]
        out = lax.broadcast_in_dim(out, (*lead, *kept), places)
    return out


def _interpolated(x: Array, q: Array, counts: Array, method: str, skip_nan: bool) -> Array:
    """Elements of sorted rows at the fractions q of their counts; the axis of q comes first."""
    d = x.aval.dtype
    lead, rows, n = q.shape, x.shape[:-1], x.shape[-1]
    shape = (*lead, *rows)
    q = lax.broadcast_in_dim(q, shape, range(len(lead)))
    counts = lax.broadcast_in_dim(counts, shape, range(len(lead), len(shape)))
    one, zero = e.const(1, d), e.const(0, d)
    last = p.sub_p(counts, one)
    if method == "inverted_cdf":
        low = high = p.sub_p(p.ceil_p(p.mul_p(q, counts)), one)
        weight = lax.full_like(q, 0)
    else:
        place = p.mul_p(q, last)
        low, high = p.floor_p(place), p.ceil_p(place)
        weight = p.sub_p(place, low)
    bound = e.where(p.lt_p(last, zero), zero, last)
    low, high = (e.where(p.lt_p(v, zero), zero, e.where(p.gt_p(v, bound), bound, v)) for v in (low, high))

    def element(place: Array) -> Array:
        i = convert(place, dtypes.int32)
        wide = lax.broadcast_in_dim(x, (*lead, *rows, n), range(len(lead), len(lead) + len(rows) + 1)) if lead else x
        i = lax.reshape(i, (*shape, 1))
        batch = tuple(range(len(shape)))
        numbers = lax.GatherDimensionNumbers((), (len(shape),), (len(shape),), batch, batch)
        return lax.gather(wide, i, numbers, tuple(min_size(n, 1) for n in wide.shape), mode="clip")  # none of an empty batch

    if method in ("lower", "inverted_cdf"):
        out = element(low)
    elif method == "higher":
        out = element(high)
    elif method == "nearest":
        out = e.where(p.gt_p(weight, e.const(0.5, d)), element(high), element(low))
    elif method == "midpoint":
        out = p.mul_p(p.add_p(element(low), element(high)), e.const(0.5, d))
    else:
        out = p.add_p(p.mul_p(element(low), p.sub_p(one, weight)), p.mul_p(element(high), weight))
    if skip_nan:
        out = e.where(p.eq_p(counts, zero), strong(e.const(np.nan, d)), out)
    return out


def _weighted(x: Array, w: Array, q: Array, nan: Array, skip_nan: bool) -> Array:
    """The first element of sorted rows at which the running sum of weights reaches the fraction q of their sum."""
    d = x.aval.dtype
    k = x.ndim - 1
    if skip_nan:
        w = e.where(nan, strong(e.const(0, d)), w)
    xs, ws = p.sort_p(x, w, dimension=k, is_stable=True, num_keys=1)
    running = p.cumsum_p(ws, axis=k, reverse=False)
    total = lax.index_in_dim(running, x.shape[k] - 1, k)
    lead, rows, n = q.shape, x.shape[:-1], x.shape[-1]
    wide = (*lead, *rows, n)
    goal = p.mul_p(
        lax.broadcast_in_dim(q, (*lead, *rows, 1), range(len(lead))),
        lax.broadcast_in_dim(total, (*lead, *rows, 1), range(len(lead), len(wide))),
    )
    reached = p.ge_p(lax.broadcast_in_dim(running, wide, range(len(lead), len(wide))), broadcast_to(goal, wide))
    position = p.argmax_p(reached, axes=(len(wide) - 1,), index_dtype=dtypes.int32)
    spread = lax.broadcast_in_dim(xs, wide, range(len(lead), len(wide)))
    batch = tuple(range(len(wide) - 1))
    numbers = lax.GatherDimensionNumbers((), (len(wide) - 1,), (len(wide) - 1,), batch, batch)
    out = lax.gather(spread, lax.reshape(position, (*wide[:-1], 1)), numbers, tuple(min_size(n, 1) for n in spread.shape), mode="clip")
    if skip_nan:
        return out
    bad = lax.broadcast_in_dim(r.any(nan, -1), wide[:-1], range(len(lead), len(wide) - 1))
    return e.where(bad, strong(e.const(np.nan, d)), out)


def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """The values below which fractions q of the elements lie; NaN if one element is. `method`: what happens between two elements."""
    _check_quantile("quantile", out, overwrite_input)
    return _quantile("quantile", a, q, axis, method, keepdims, False, weights)


def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """As `quantile`, NaNs left out."""
    _check_quantile("nanquantile", out, overwrite_input)
    return _quantile("nanquantile", a, q, axis, method, keepdims, True, weights)


def _check_quantile(fun: str, out: Any, overwrite_input: bool) -> None:
    if overwrite_input or out is not None:
        raise ValueError(f"{fun}: overwrite_input and out must not be given, since arrays are immutable")


def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """As `quantile`, q in percent."""
    _check_quantile("percentile", out, overwrite_input)
    return _quantile("percentile", a, e.divide(q, 100), axis, method, keepdims, False, weights)


def nanpercentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """As `nanquantile`, q in percent."""
    _check_quantile("nanpercentile", out, overwrite_input)
    return _quantile("nanpercentile", a, e.divide(q, 100), axis, method, keepdims, True, weights)


def median(a: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False) -> Array:
    """The middle elements, or the means of the two middle ones."""
    _check_quantile("median", out, overwrite_input)
    return _quantile("median", a, 0.5, axis, "midpoint", keepdims, False)


def nanmedian(a: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False) -> Array:
    """As `median`, NaNs left out."""
    _check_quantile("nanmedian", out, overwrite_input)
    return _quantile("nanmedian", a, 0.5, axis, "midpoint", keepdims, True)


# counting


def bincount(
    x: ArrayLike, weights: ArrayLike | None = None, minlength: int = 0, *, length: int | None = None, out_sharding: Any = None
) -> Array:
    """How often (or with what weight) each of 0, 1, ... occurs in a vector. Without `length` the values must be known while tracing."""
    v = as_array("bincount", x)
    if v.aval.dtype == dtypes.bool_:
        v = convert(v, dtypes.int32)
    if dtypes.kind(v.aval.dtype) not in "iu":
        raise TypeError(f"bincount: x must hold integers, got dtype {dtypes.name(v.aval.dtype)}")
    if v.ndim != 1:
        raise ValueError(f"bincount: x must be a vector, got shape {v.shape}")
    if length is None:
        host = concrete(v)
        if host is None:
            raise ConcretizationTypeError(
                v, "bincount: without `length` the size of the result depends on the values, which must be known while tracing."
            )
        n = max(operator.index(minlength), int(host.max()) + 1 if host.size else 0)
    else:
        n = static_index("bincount", length, "length")
    if weights is None:
        w: Any = lax.full(v.shape, 1, dtypes.default_int())
    else:
        w = strong(as_array("bincount", weights, 1))
        if w.shape != v.shape:
            raise ValueError(f"bincount: weights must have the shape of x, {v.shape}, got {w.shape}")
    if dtypes.kind(v.aval.dtype) == "i":
        v = e.maximum(v, 0)
    return lax.scatter_add(
        lax.full((n,), 0, w.aval.dtype), lax.reshape(v, (v.size, 1)), w, lax.ScatterDimensionNumbers((), (0,), (0,)), mode="drop"
    )


def histogram_bin_edges(a: ArrayLike, bins: Any = 10, range: Any = None, weights: ArrayLike | None = None) -> Array:
    """The edges of the bins: given ones, or so many between the least and the greatest element (or `range`)."""
    if isinstance(bins, str):
        raise NotImplementedError(
            f"histogram_bin_edges: rules for bins, such as {bins!r}, are not implemented; give their number or their edges"
        )
    x = as_array("histogram_bin_edges", a)
    d = dtypes.canonical(dtypes.to_inexact(x.aval.dtype))
    if np.ndim(bins) if not hasattr(bins, "aval") else bins.ndim:
        return convert(as_array("histogram_bin_edges", np.asarray(bins) if isinstance(bins, list | tuple) else bins), d)
    count = operator.index(static("histogram_bin_edges", bins, "bins")[()] if not isinstance(bins, int) else bins)
    if range is None:
        if not x.size > 0:
            low: Any = convert(0, d)
            high: Any = convert(1, d)
        else:
            low, high = (convert(v, d) for v in (r.min(x), r.max(x)))
    else:
        pair = range if not isinstance(range, list | tuple) else asarray(range)
        both = as_array("histogram_bin_edges", pair)
        if both.shape != (2,):
            raise ValueError(f"histogram_bin_edges: range must be a pair of scalars, got {range}")
        low, high = (convert(lax.index_in_dim(both, k, keepdims=False), d) for k in (0, 1))
    low, high = as_array("histogram", low), as_array("histogram", high)
    same = p.eq_p(e.subtract(high, low), e.const(0, d))
    half = e.const(0.5, d)
    low, high = e.where(same, p.sub_p(low, half), low), e.where(same, p.add_p(high, half), high)
    return linspace(low, high, count + 1, dtype=d)


def histogram(
    a: ArrayLike, bins: Any = 10, range: Any = None, weights: ArrayLike | None = None, density: bool | None = None, out_sharding: Any = None
) -> tuple[Array, Array]:
    """(how many elements, or what weight of them, lie in each bin, the edges). The last bin includes its upper edge."""
    x = as_array("histogram", a)
    if weights is None:
        x = x if dtypes.is_inexact(x.aval.dtype) else convert(x, dtypes.default_float())
        w: Any = lax.full(x.shape, 1, x.aval.dtype)
    else:
        if as_array("histogram", weights).shape != x.shape:
            raise ValueError(f"histogram: weights must have the shape of a, {x.shape}")
        x, w = promoted_inexact("histogram", x, weights)
    x, w = lax.reshape(strong(x), (x.size,)), lax.reshape(strong(w), (w.size,))
    edges = histogram_bin_edges(x, bins, range, w)
    n = edges.shape[0] - 1
    place = searchsorted(edges, x, side="right")
    top = lax.index_in_dim(edges, n, keepdims=False)
    place = e.where(e.equal(x, top), e.const(n, place.aval.dtype), place)
    counts = lax.scatter_add(
        lax.full((n + 1,), 0, w.aval.dtype), lax.reshape(place, (x.size, 1)), w, lax.ScatterDimensionNumbers((), (0,), (0,)), mode="drop"
    )
    counts = lax.slice_in_dim(counts, 1, n + 1)
    if density:
        counts = p.div_p(p.div_p(counts, diff(edges)), r.sum(counts))
    return counts, edges


def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, weights: ArrayLike | None = None, density: bool | None = None
) -> tuple[Array, list[Array]]:
    """(how many rows of a sample lie in each cell, the edges along each axis)."""
    x = as_array("histogramdd", sample) if not isinstance(sample, list | tuple) else lax.stack(promoted("histogramdd", *sample), 1)
    x = x if dtypes.is_inexact(x.aval.dtype) else convert(x, dtypes.default_float())
    n, dims = x.shape
    w = None if weights is None else strong(as_array("histogramdd", weights))
    if w is not None and w.shape != (n,):
        raise ValueError(f"histogramdd: there must be a weight for each of the {n} rows, got shape {w.shape}")
    if range is not None and len(range) != dims:
        raise ValueError(f"histogramdd: there must be a range for each of the {dims} axes, got {len(range)}")
    given = bins if isinstance(bins, list | tuple) or getattr(bins, "ndim", 0) else [bins] * dims
    if len(given) != dims:
        raise ValueError(f"histogramdd: there must be bins for each of the {dims} axes, got {len(given)}")
    edges, places = [], []
    for k in np.arange(dims).tolist():
        column = lax.index_in_dim(x, k, 1, False)
        edge = histogram_bin_edges(column, given[k], None if range is None else range[k], w)
        place = searchsorted(edge, column, side="right")
        top = lax.index_in_dim(edge, edge.shape[0] - 1, keepdims=False)
        places.append(e.where(e.equal(column, top), p.sub_p(place, e.const(1, place.aval.dtype)), place))
        edges.append(edge)
    sizes = [edge.shape[0] + 1 for edge in edges]
    flat: Any = None
    for place, size in zip(places, sizes, strict=True):
        flat = place if flat is None else p.add_p(p.mul_p(flat, e.const(size, flat.aval.dtype)), place)
    counts = bincount(flat, w, length=math.prod(sizes))
    counts = lax.reshape(counts, sizes)
    for k in np.arange(dims).tolist():
        counts = lax.slice_in_dim(counts, 1, sizes[k] - 1, axis=k)
    if density:
        counts = counts if dtypes.is_inexact(counts.aval.dtype) else convert(counts, dtypes.default_float())
        counts = e.divide(counts, r.sum(counts))
        for k in np.arange(dims).tolist():
            counts = p.div_p(counts, lax.broadcast_in_dim(diff(edges[k]), counts.shape, (k,)))
    return counts, edges


def histogram2d(
    x: ArrayLike, y: ArrayLike, bins: Any = 10, range: Any = None, weights: ArrayLike | None = None, density: bool | None = None
) -> tuple[Array, Array, Array]:
    """(how many points lie in each cell, the edges along x, the edges along y)."""
    a, b = promoted("histogram2d", x, y)
    if a.ndim != 1 or b.ndim != 1:
        raise ValueError(f"histogram2d: expected vectors, got shapes {a.shape} and {b.shape}")
    count = len(bins) if isinstance(bins, list | tuple) else 1
    if count not in (1, 2):
        bins = [asarray(bins)] * 2
    out, edges = histogramdd(lax.stack([a, b], 1), bins, range, weights, density)
    return out, edges[0], edges[1]


# covariance


def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Covariances of variables in rows (columns, unless `rowvar`), with repetition counts and weights of the observations."""
    d = check_dtype(dtype, "cov")
    if d is not None and not dtypes.is_inexact(d):
        raise ValueError(f"cov: dtype must be a subclass of float or complex, got {dtypes.name(d)}")
    xs = promoted_inexact("cov", m) if y is None else promoted_inexact("cov", m, y)
    if any(x.ndim > 2 for x in xs):
        raise ValueError(f"cov: expected vectors or matrices, got shapes {', '.join(str(x.shape) for x in xs)}")
    rows = []
    for x in xs:
        x = strong(x) if d is None else convert(x, d)
        rows.append(lax.transpose(x, (1, 0)) if x.ndim == 2 and not rowvar else lax.broadcast_to_rank(x, 2))
    x = rows[0] if len(rows) == 1 else lax.concatenate(rows, 0)
    if x.shape[0] == 0:
        return lax.full((0, 0), 0, x.aval.dtype)
    if ddof is None:
        ddof = 0 if bias else 1
    n = x.shape[1]
    real = np.dtype(f"float{x.aval.dtype.itemsize * 4}") if dtypes.is_complex(x.aval.dtype) else x.aval.dtype
    wide = dtypes.float32 if dtypes.itemsize_bits(real) < 32 else real  # weights can be far apart
    w: Any = None
    if fweights is not None:
        f = as_array("cov", fweights)
        if f.ndim != 1:
            raise RuntimeError(f"cov: fweights must be a vector, got shape {f.shape}")
        if f.shape[0] != n:
            raise RuntimeError(f"cov: there must be a fweight for each of the {n} observations, got {f.shape[0]}")
        if dtypes.kind(f.aval.dtype) not in "iu":
            raise TypeError(f"cov: fweights must hold integers, got dtype {dtypes.name(f.aval.dtype)}")
        w = convert(e.abs(f), wide)
    if aweights is not None:
        a = as_array("cov", aweights)
        if a.ndim != 1:
            raise RuntimeError(f"cov: aweights must be a vector, got shape {a.shape}")
        if a.shape[0] != n:
            raise RuntimeError(f"cov: there must be an aweight for each of the {n} observations, got {a.shape[0]}")
        a = convert(e.abs(a), wide)
        w = a if w is None else e.multiply(w, a)
    mean, total = r.average(x if w is None or wide == real else convert(x, wide), 1, w, returned=True)
    total = lax.index_in_dim(strong(total), 0, 0, False)
    if w is None:
        norm: Any = e.const(max(n - ddof, 0), real)
    elif ddof == 0:
        norm = convert(total, real)
    elif aweights is None:
        norm = convert(e.subtract(total, ddof), real)
    else:
        norm = convert(e.subtract(total, e.divide(e.multiply(ddof, r.sum(e.multiply(w, a))), total)), real)
    centered = p.sub_p(x, lax.broadcast_in_dim(convert(mean, x.aval.dtype), x.shape, (0,)))
    other = centered if w is None else e.multiply(centered, lax.broadcast_to_rank(convert(w, real), 2))
    other = e.conj(lax.transpose(other, (1, 0)))
    out = matmul(centered, convert(other, x.aval.dtype))
    out = e.divide(out, norm)
    return lax.reshape(out, ()) if out.shape == (1, 1) else out


def corrcoef(x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, dtype: DTypeLike | None = None) -> Array:
    """Correlation coefficients of variables in rows (columns, unless `rowvar`)."""
    if dtype is not None and not dtypes.is_inexact(dtypes.check_valid(dtype, "corrcoef")):
        raise ValueError(
            f"corrcoef: dtype must be a subclass of float or complex, got {dtypes.name(dtypes.check_valid(dtype, 'corrcoef'))}"
        )
    c = cov(x, y, rowvar, dtype=dtype)
    if c.ndim == 0:
        return e.divide(c, c)
    n = c.shape[0]
    every = lax.iota(dtypes.int32, n)
    index = lax.stack([every, every], 1)
    variances = lax.gather(c, index, lax.GatherDimensionNumbers((), (0, 1), (0, 1)), (1, 1), mode="clip")
    deviations = e.sqrt(e.real(variances))
    out = e.divide(c, convert(lax.broadcast_in_dim(deviations, c.shape, (0,)), c.aval.dtype))
    out = e.divide(out, convert(lax.broadcast_in_dim(deviations, c.shape, (1,)), c.aval.dtype))
    if dtypes.is_complex(out.aval.dtype):
        return p.complex_p(e.clip(p.real_p(out), -1, 1), e.clip(p.imag_p(out), -1, 1))
    return e.clip(out, -1, 1)


# along an axis


def diff(a: ArrayLike, n: int = 1, axis: int = -1, prepend: ArrayLike | None = None, append: ArrayLike | None = None) -> Array:
    """n-th differences of neighbours along an axis; of bools, whether they differ."""
    x = as_array("diff", a)
    n = operator.index(n)
    if n == 0:
        return x
    if n < 0:
        raise ValueError(f"diff: n must not be negative, got {n}")
    if x.ndim == 0:
        raise ValueError("diff: a scalar has no neighbours")
    k = canonical_axis(axis, x.ndim)
    parts = []
    for extra in (prepend, append):
        if extra is None:
            parts.append(None)
            continue
        v = as_array("diff", extra)
        if v.ndim == 0:
            v = lax.broadcast_in_dim(v, tuple(1 if d == k else s for d, s in enumerate(x.shape)), ())
        parts.append(v)
    pieces = [v for v in (parts[0], x, parts[1]) if v is not None]
    if len(pieces) > 1:
        x = lax.concatenate(promoted("diff", *pieces), k)
    if x.aval.dtype == dtypes.bool_:
        x = strong(x)
    for _ in range(n):
        size = x.shape[k]
        later, earlier = lax.slice_in_dim(x, min(1, size), size, axis=k), lax.slice_in_dim(x, 0, max(size - 1, 0), axis=k)
        x = p.ne_p(later, earlier) if x.aval.dtype == dtypes.bool_ else p.sub_p(later, earlier)
    return x


def ediff1d(ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None) -> Array:
    """Differences of neighbours in the flattened array, with values in front and behind."""
    x = as_array("ediff1d", ary)
    x = lax.reshape(x, (x.size,))
    out = p.sub_p(lax.slice_in_dim(x, min(1, x.size), None), lax.slice_in_dim(x, 0, max(x.size - 1, 0)))
    pieces = [out]
    for extra, front in ((to_begin, True), (to_end, False)):
        if extra is None:
            continue
        v = as_array("ediff1d", extra)
        v = convert(lax.reshape(v, (v.size,)), x.aval.dtype, x.aval.weak_type)
        pieces.insert(0 if front else len(pieces), v)
    return lax.concatenate(pieces, 0)


def gradient(f: ArrayLike, *varargs: Any, axis: Any = None, edge_order: int | None = None) -> Any:
    """Slopes along axes: central differences inside, one-sided ones at the ends; distances are scalars or coordinate vectors."""
    if edge_order is not None:
        raise NotImplementedError("gradient: the argument `edge_order` is not implemented")
    (x,) = promoted_inexact("gradient", f)
    axes = canonical_axes(axis, x.ndim)
    if len(varargs) == 0:
        distances: Sequence[Any] = [1.0] * len(axes)
    elif len(varargs) == 1 and (np.ndim(varargs[0]) if not hasattr(varargs[0], "aval") else varargs[0].ndim) == 0:
        distances = list(varargs) * len(axes)
    elif len(varargs) == len(axes):
        distances = varargs
    else:
        raise TypeError(f"gradient: expected one distance, or one for each of the {len(axes)} axes, got {len(varargs)}")
    if any(x.shape[k] < 2 for k in axes):
        raise ValueError(f"gradient: there must be two elements at least along an axis, got shape {x.shape}")
    out = [_slope(x, h, k) for k, h in zip(axes, distances, strict=True)]
    return out[0] if len(out) == 1 else out


def _slope(x: Array, h: Any, k: int) -> Array:
    n = x.shape[k]

    def part(a: int, b: int) -> Array:
        return lax.slice_in_dim(x, a, b, axis=k)

    scalar = not (h.ndim if hasattr(h, "aval") else np.ndim(h))
    first, last = e.subtract(part(1, 2), part(0, 1)), e.subtract(part(n - 1, n), part(n - 2, n - 1))
    if scalar:
        if not isinstance(h, int | float):
            h = convert(as_array("gradient", h), x.aval.dtype)
        middle = e.multiply(e.subtract(part(2, n), part(0, n - 2)), 0.5)
        return e.divide(lax.concatenate([first, middle, last], k), h)
    h = as_array("gradient", np.asarray(h) if isinstance(h, list | tuple) else h)
    if h.ndim != 1 or h.shape[0] != n:
        raise ValueError(f"gradient: coordinates along an axis of size {n} must be as many, got shape {h.shape}")
    steps = convert(diff(h), x.aval.dtype)
    shape = tuple(n - 1 if d == k else 1 for d in range(x.ndim))
    steps = lax.reshape(steps, shape)
    before, after = lax.slice_in_dim(steps, 0, n - 2, axis=k), lax.slice_in_dim(steps, 1, n - 1, axis=k)
    both = e.add(before, after)
    a = e.divide(e.negative(after), e.multiply(before, both))
    b = e.divide(e.subtract(after, before), e.multiply(before, after))
    c = e.divide(before, e.multiply(after, both))
    middle = e.add(e.add(e.multiply(a, part(0, n - 2)), e.multiply(b, part(1, n - 1))), e.multiply(c, part(2, n)))
    first = e.divide(first, lax.slice_in_dim(steps, 0, 1, axis=k))
    last = e.divide(last, lax.slice_in_dim(steps, n - 2, n - 1, axis=k))
    return lax.concatenate([first, middle, last], k)


def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1) -> Array:
    """The integral along an axis by trapezoids, at coordinates x or distances dx."""
    if x is None:
        (v,) = promoted_inexact("trapezoid", y)
        v = moveaxis(v, axis, -1)
        step: Any = convert(as_array("trapezoid", dx), v.aval.dtype)
        if step.ndim:
            step = moveaxis(lax.broadcast_to_rank(step, v.ndim), axis, -1)
    else:
        v, c = promoted_inexact("trapezoid", y, x)
        if c.ndim == 1:
            step = diff(c)
            v = moveaxis(v, axis, -1)
        else:
            step = moveaxis(diff(c, axis=axis), axis, -1)
            v = moveaxis(v, axis, -1)
    n = v.shape[-1]
    k = v.ndim - 1
    both = e.add(lax.slice_in_dim(v, 1, n, axis=k), lax.slice_in_dim(v, 0, n - 1, axis=k))
    return e.multiply(0.5, r.sum(e.multiply(step, both), -1)) if dtypes.kind(v.aval.dtype) in "fc" else r.sum(both, -1)


def unwrap(p: ArrayLike, discont: ArrayLike | None = None, axis: int = -1, period: ArrayLike = 2 * math.pi) -> Array:
    """Angles without jumps of more than half a period along an axis, by adding periods."""
    x = as_array("unwrap", p)
    if dtypes.is_complex(x.aval.dtype):
        raise ValueError(f"unwrap: expected a real dtype, got {dtypes.name(x.aval.dtype)}")
    d = dtypes.result_type(x, period) if isinstance(period, int) else dtypes.to_inexact(dtypes.result_type(x, period))
    x = convert(x, d)
    k = canonical_axis(axis, x.ndim)
    if x.shape[k] == 0:
        return x
    steps = diff(x, axis=k)
    if dtypes.is_integer(d):
        half = e.floor_divide(period, 2)
        ambiguous = isinstance(period, int) and period % 2 == 0
    else:
        half = e.divide(period, 2)
        ambiguous = True
    reduced = e.subtract(e.remainder(e.add(steps, half), period), half)
    if ambiguous:
        edge = e.logical_and(e.equal(reduced, e.negative(half)), e.greater(steps, 0))
        reduced = where(edge, half, reduced)
    correction = e.subtract(reduced, steps)
    limit = half if discont is None else e.maximum(discont, half)
    correction = where(e.less(e.absolute(steps), limit), 0, correction)
    head = lax.slice_in_dim(x, 0, 1, axis=k)
    tail = e.add(lax.slice_in_dim(x, 1, None, axis=k), r.cumsum(correction, k))
    return lax.concatenate([head, convert(tail, d)], k)


def interp(x: ArrayLike, xp: ArrayLike, fp: ArrayLike, left: Any = None, right: Any = None, period: ArrayLike | None = None) -> Array:
    """The piecewise linear function through the points (xp, fp), xp ascending; outside, their end values, or `left` and `right`.

    "extrapolate" for `left` or `right` goes on along the first or last piece. With `period`, xp is taken modulo it."""
    v, xs = promoted_inexact("interp", x, xp)
    (fs,) = promoted_inexact("interp", fp)
    if xs.ndim != 1 or xs.shape != fs.shape:
        raise ValueError(f"interp: xp and fp must be one-dimensional and of equal size, got shapes {xs.shape} and {fs.shape}")
    if dtypes.is_complex(v.aval.dtype):
        raise ValueError(f"interp: x must be real, got dtype {dtypes.name(v.aval.dtype)}")
    if period is not None:
        if isinstance(period, int | float) and period == 0:
            raise ValueError(f"interp: period must not be 0, got {period}")
        size = e.abs(period)
        v, xs = e.remainder(v, size), e.remainder(xs, size)
        order = lax.sort((xs, lax.iota(dtypes.int32, xs.shape[0])), num_keys=1)[1]
        xs, fs = take(xs, order, mode="clip"), take(fs, order, mode="clip")
        n = xs.shape[0]
        xs = lax.concatenate([e.subtract(lax.slice_in_dim(xs, n - 1, n), size), xs, e.add(lax.slice_in_dim(xs, 0, 1), size)], 0)
        fs = lax.concatenate([lax.slice_in_dim(fs, n - 1, n), fs, lax.slice_in_dim(fs, 0, 1)], 0)
    n = xs.shape[0]
    i = e.clip(searchsorted(xs, v, side="right"), 1, max_size(n - 1, 1))
    before = e.subtract(i, 1)
    x0, x1, f0, f1 = (take(t, k, mode="clip") for t, k in ((xs, before), (xs, i), (fs, before), (fs, i)))
    df, dx, delta = e.subtract(f1, f0), e.subtract(x1, x0), e.subtract(v, x0)
    tiny = float(np.spacing(dtypes.finfo(xs.aval.dtype).eps)) if dtypes.kind(xs.aval.dtype) == "f" else 0.0
    flat = e.less_equal(e.absolute(dx), tiny)
    out = where(flat, f0, e.add(f0, e.multiply(e.divide(delta, where(flat, 1, dx)), df)))
    for side, end, outside in ((left, 0, e.less), (right, n - 1, e.greater)):
        if isinstance(side, str):
            if side != "extrapolate":
                name = "left" if end == 0 else "right"
                raise ValueError(f"interp: `{name}` must be a number or 'extrapolate', got {side!r}")
            continue
        if period is not None:
            continue
        value = lax.index_in_dim(fs, end, keepdims=False) if side is None else side
        out = where(outside(v, lax.index_in_dim(xs, end, keepdims=False)), value, out)
    return out
