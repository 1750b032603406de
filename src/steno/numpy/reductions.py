"""Reductions over axes, and their running versions. Results are strongly typed."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from steno import lax
from steno.core import dtypes
from steno.core.config import numpy_dtype_promotion
from steno.core.sizes import UnknownSize, surely
from steno.lax import records as p
from steno.numpy import elementwise as e
from steno.numpy.operands import (
    Array,
    ArrayLike,
    DTypeLike,
    Shape,
    alias,
    as_array,
    broadcast_shapes,
    broadcast_to,
    canonical_axes,
    canonical_axis,
    check_arraylike,
    check_dtype,
    convert,
    no_out,
    promoted_inexact,
    strong,
)

Axis = Any


def _accumulated(dtype: Any) -> Any:
    """Sums and products of integers narrower than the default have the default's width; bools are counted."""
    k = dtypes.kind(dtype)
    default = dtypes.default_int()
    if k == "b":
        return default
    if k in "iu" and dtypes.itemsize_bits(dtype) < default.itemsize * 8:
        return default if k == "i" else np.dtype(f"uint{default.itemsize * 8}")
    return dtype


_SUMMED = frozenset((dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128))


def _mask(fun: str, where: Any) -> Any:
    if where is None:
        return None
    w = as_array(fun, where, 0)
    if w.aval.dtype != dtypes.bool_:
        raise ValueError(f"jnp.{fun}: where must be None or a boolean array, got one of dtype {dtypes.name(w.aval.dtype)}")
    return w


def keep(x: Array, axes: Shape, shape: Shape) -> Array:
    """The result of a reduction with the reduced axes put back, of size 1."""
    kept = tuple(k for k in range(len(shape)) if k not in axes)
    return lax.broadcast_in_dim(x, tuple(1 if k in axes else n for k, n in enumerate(shape)), kept)


def _reduce(
    fun: str,
    op: Callable[..., Array],
    a: ArrayLike,
    axis: Axis,
    out: Any,
    keepdims: bool,
    *,
    dtype: Any = None,
    initial: Any = None,
    where: Any = None,
    identity: Callable[[Any], Any] | None = None,
    combine: Callable[[Any, Any], Array] | None = None,
    promote_integers: bool = False,
    counted: bool = False,
) -> Array:
    """`op(x, axes=...)` of what `where` lets through (elsewhere `identity(dtype)`), combined with `initial`.

    `counted`: of a sum or product: without a dtype, bools are numbers, and floats narrower than float32 are reduced as float32 and come
    back as what they were."""
    if identity is not None and dtype is None and where is None and initial is None and out is None and hasattr(a, "aval"):
        aval = a.aval  # the common case, kept short: traces are full of sums
        if aval.dtype in _SUMMED and not aval.weak_type:
            axes = tuple(range(aval.ndim)) if axis is None else canonical_axes(axis, aval.ndim)
            result = op(a, axes) if axes else as_array(fun, a)
            return keep(result, axes, aval.shape) if keepdims else result
    no_out(fun, out)
    x = as_array(fun, a)
    mask = _mask(fun, where)
    has_identity = identity is not None
    if where is not None and not has_identity and initial is None:
        raise ValueError(f"{fun}: with `where` there may be nothing to reduce, so `initial` must be given")
    d = check_dtype(dtype, fun)
    if d is None:
        d = x.aval.dtype
        if promote_integers:
            d = _accumulated(d)
        elif counted and d == dtypes.bool_:
            d = dtypes.int32
    final = d
    if counted and dtype is None:
        d = _wide(d)
    x = convert(x, d)
    axes = canonical_axes(axis, x.ndim)
    shape = x.shape
    if not has_identity and initial is None and 0 in (shape[k] for k in axes):
        if not math.prod(n for k, n in enumerate(shape) if k not in axes) == 0:
            raise ValueError(f"{fun}: there are no elements to reduce, got shape {shape} and axis {axis}; `initial` says what then")
    if mask is not None:
        shape = broadcast_shapes(shape, mask.shape)
        x = e.where(broadcast_to(mask, shape), broadcast_to(x, shape), e.const(_neutral(identity, fun, d), d))
        axes = canonical_axes(axis, len(shape))
    result = op(x, axes) if axes or fun in ("all", "any") else x
    if initial is not None:
        start = as_array(fun, initial)
        if start.shape:
            raise ValueError(f"{fun}: initial value must be a scalar. Got array of shape {start.shape}.")
        assert combine is not None
        result = combine(convert(start, d), result)
    result = convert(result, final)
    return keep(result, axes, shape) if keepdims else result


def _neutral(identity: Any, fun: str, dtype: Any) -> Any:
    if identity is not None:
        return identity(dtype)
    return lowest(dtype) if fun in ("max", "amax") else highest(dtype)


def lowest(dtype: Any) -> Any:
    """What no value is below."""
    k = dtypes.kind(dtype)
    if k in "fc":
        return -np.inf if _has_infinity(dtype) else float(dtypes.finfo(dtype).min)
    return False if k == "b" else int(dtypes.iinfo(dtype).min)


def highest(dtype: Any) -> Any:
    """What no value is above."""
    k = dtypes.kind(dtype)
    if k in "fc":
        return np.inf if _has_infinity(dtype) else float(dtypes.finfo(dtype).max)
    return True if k == "b" else int(dtypes.iinfo(dtype).max)


def _has_infinity(dtype: Any) -> bool:
    return dtypes.kind(dtype) == "c" or bool(np.isinf(np.array(np.inf, np.float32).astype(dtype).astype(np.float32)))


def _sum_op(x: Array, axes: Shape) -> Array:
    if x.aval.dtype == dtypes.bool_:
        return lax.reduce_or(x, axes)
    return p.reduce_sum_p(x, axes=axes, out_sharding=None)


def _prod_op(x: Array, axes: Shape) -> Array:
    if x.aval.dtype == dtypes.bool_:
        return lax.reduce_and(x, axes)
    return p.reduce_prod_p(x, axes=axes)


def sum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """Sums over axes (all by default). Small integers are summed in the default integer type, unless `promote_integers` is false.

    >>> jnp.sum(jnp.array([[1, 2], [3, 4]]), axis=0)
    Array([4, 6], dtype=int32)
    """
    return _reduce(
        "sum",
        _sum_op,
        a,
        axis,
        out,
        keepdims,
        dtype=dtype,
        initial=initial,
        where=where,
        identity=lambda d: 0,
        combine=e.add,
        promote_integers=promote_integers,
        counted=True,
    )


def prod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """Products over axes (all by default), in the types of `sum`.

    >>> jnp.prod(jnp.array([1, 3, 2]))
    Array(6, dtype=int32)
    """
    return _reduce(
        "prod",
        _prod_op,
        a,
        axis,
        out,
        keepdims,
        dtype=dtype,
        initial=initial,
        where=where,
        identity=lambda d: 1,
        combine=e.multiply,
        promote_integers=promote_integers,
        counted=True,
    )


def _max_op(x: Array, axes: Shape) -> Array:
    return p.reduce_max_p(x, axes=axes, out_sharding=None)


def _min_op(x: Array, axes: Shape) -> Array:
    return p.reduce_min_p(x, axes=axes, out_sharding=None)


def max(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Maxima over axes; NaN if one is NaN. ValueError for the maximum of nothing, unless `initial` is given.

    >>> jnp.max(jnp.array([1, 3, 2]))
    Array(3, dtype=int32)
    """
    return _reduce("max", _max_op, a, axis, out, keepdims, initial=initial, where=where, combine=e.maximum)


def min(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Minima over axes; NaN if one is NaN. ValueError for the minimum of nothing, unless `initial` is given.

    >>> jnp.min(jnp.array([1, 3, 2]))
    Array(1, dtype=int32)
    """
    return _reduce("min", _min_op, a, axis, out, keepdims, initial=initial, where=where, combine=e.minimum)


amax, amin = alias(max, "amax"), alias(min, "amin")


def minmax(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> tuple[Array, Array]:
    """(minima, maxima)."""
    return min(a, axis, out, keepdims, initial, where), max(a, axis, out, keepdims, initial, where)


def all(a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: ArrayLike | None = None) -> Array:
    """Whether all elements along axes are true (not 0).

    >>> jnp.all(jnp.array([False, True]))
    Array(False, dtype=bool)
    """
    x = strong(e.as_bool(as_array("all", a)))
    return _reduce("all", lax.reduce_and, x, axis, out, keepdims, where=where, identity=lambda d: True)


def any(a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: ArrayLike | None = None) -> Array:
    """Whether any element along axes is true (not 0).

    >>> jnp.any(jnp.array([False, True]))
    Array(True, dtype=bool)
    """
    x = strong(e.as_bool(as_array("any", a)))
    return _reduce("any", lax.reduce_or, x, axis, out, keepdims, where=where, identity=lambda d: False)


def count_nonzero(a: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Array:
    """How many elements along axes are not 0."""
    return sum(e.as_bool(as_array("count_nonzero", a)), axis, dtypes.default_int(), keepdims=keepdims)


def ptp(a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
    """Maximum less minimum."""
    no_out("ptp", out)
    x = as_array("ptp", a)
    return e.subtract(max(x, axis, keepdims=keepdims), min(x, axis, keepdims=keepdims))


def _count(shape: Shape, axes: Shape) -> int:
    return math.prod(shape[k] for k in axes)


def _as_float(n: Any) -> Any:
    return n if isinstance(n, UnknownSize) else float(n)


def _wide(dtype: Any) -> Any:
    """In what type averages of a dtype are computed: float32 for narrower floats."""
    return dtypes.float32 if dtypes.kind(dtype) == "f" and dtypes.itemsize_bits(dtype) < 32 else dtype


def mean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Averages over axes (NaN of nothing), as floats.

    >>> jnp.mean(jnp.array([1, 2, 6]))
    Array(3., dtype=float32)
    """
    no_out("mean", out)
    x = as_array("mean", a)
    d = dtypes.canonical(dtypes.to_inexact(x.aval.dtype)) if dtype is None else check_dtype(dtype, "mean")
    compute = _wide(dtypes.to_inexact(d)) if dtype is None else dtypes.to_inexact(d)
    mask = _mask("mean", where)
    axes = canonical_axes(axis, x.ndim)
    if mask is None:
        n: Any = e.const(_as_float(_count(x.shape, axes)), compute)
    else:
        shape = broadcast_shapes(x.shape, mask.shape)
        x, mask = broadcast_to(x, shape), broadcast_to(mask, shape)
        n = sum(mask, axis, compute, keepdims=keepdims)
    total = sum(x, axis, compute, keepdims=keepdims, where=mask)
    return convert(p.div_p(total, n), d)


def _variance(
    fun: str, a: ArrayLike, axis: Axis, dtype: Any, out: Any, ddof: Any, keepdims: bool, where: Any, mean_: Any, correction: Any
) -> Array:
    no_out(fun, out)
    if correction is not None:
        if not (isinstance(ddof, int) and ddof == 0):
            raise ValueError(f"{fun}: ddof and correction are the same thing, and only one may be given")
        ddof = correction
    x = as_array(fun, a)
    check_arraylike(fun, ddof)
    d = check_dtype(dtype, fun)
    own = dtypes.canonical(dtypes.to_inexact(x.aval.dtype))
    if d is None:
        compute, real = own, e.real(lax.full((), 0, own)).aval.dtype if dtypes.is_complex(own) else own
    else:
        if dtypes.is_complex(x.aval.dtype) and not dtypes.is_complex(d):
            raise ValueError(f"{fun}: the dtype of a complex variance must be complex, got {dtypes.name(d)}")
        with numpy_dtype_promotion("standard"):  # the type inside is no promotion of the caller's
            compute, real = dtypes.result_type(own, d), d
        if not dtypes.is_inexact(compute):
            compute = own
    compute = _wide(compute)
    x = convert(x, compute)
    mask = _mask(fun, where)
    axes = canonical_axes(axis, x.ndim)
    center = mean(x, axes, compute, keepdims=True, where=mask) if mean_ is None else convert(as_array(fun, mean_), compute)
    shape = broadcast_shapes(x.shape, center.shape)
    centered = p.sub_p(broadcast_to(x, shape), broadcast_to(center, shape))
    if mask is not None:  # what is left out has no influence, also on derivatives
        centered = e.where(broadcast_to(mask, shape), centered, e.const(0, compute))
    if dtypes.is_complex(compute):
        re, im = p.real_p(centered), p.imag_p(centered)
        squares = p.add_p(p.mul_p(re, re), p.mul_p(im, im))
    else:
        squares = p.square_p(centered)
    count_type = squares.aval.dtype
    if mask is None:
        n: Any = e.const(_as_float(_count(x.shape, axes)), count_type)
    else:
        n = sum(broadcast_to(mask, broadcast_shapes(x.shape, mask.shape)), axes, count_type, keepdims=keepdims)
    degrees = (
        e.const(float(_count(x.shape, axes) - ddof), count_type)
        if mask is None and isinstance(ddof, int | float) and not isinstance(_count(x.shape, axes), UnknownSize)
        else e.subtract(n, convert(as_array(fun, ddof), count_type))
    )
    total = sum(squares, axes, keepdims=keepdims, where=mask)
    out_ = p.div_p(total, degrees)
    if not (mask is None and isinstance(ddof, int | float) and surely(lambda: _count(x.shape, axes) - ddof > 0)):
        out_ = e.where(p.gt_p(broadcast_to(degrees, out_.shape), e.const(0, count_type)), out_, e.const(np.nan, count_type))
    return convert(out_, real if dtypes.is_inexact(real) else dtypes.to_inexact(real))


def var(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: Any = None,
) -> Array:
    """Averages of the squared distances from the mean, over n - ddof; real also of complex numbers, unless `dtype` says otherwise. NaN
    where n <= ddof.

    >>> jnp.var(jnp.array([1.0, 3.0]))
    Array(1., dtype=float32)
    """
    return _variance("var", a, axis, dtype, out, ddof, keepdims, where, mean, correction)


def std(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: Any = None,
) -> Array:
    """The square root of `var`.

    >>> jnp.std(jnp.array([1.0, 3.0]))
    Array(1., dtype=float32)
    """
    d = check_dtype(dtype, "std")
    if d is not None and not dtypes.is_inexact(d):
        raise ValueError(f"std: dtype must be a floating or complex one, got {dtypes.name(d)}")
    return e.sqrt(_variance("std", a, axis, dtype, out, ddof, keepdims, where, mean, correction))


def average(a: ArrayLike, axis: Axis = None, weights: ArrayLike | None = None, returned: bool = False, keepdims: bool = False) -> Any:
    """Weighted averages; with `returned`, also the sums of the weights."""
    if weights is None:
        x = as_array("average", a)
        out = mean(x, axis, keepdims=keepdims)
        if not returned:
            return out
        n = _count(x.shape, canonical_axes(axis, x.ndim))
        return out, lax.full_like(out, n)
    x, w = promoted_inexact("average", a, weights)
    axes = canonical_axes(axis, x.ndim)
    if x.shape != w.shape:
        if axis is None:
            raise ValueError(f"average: weights of shape {w.shape} for an array of shape {x.shape} need an axis")
        if isinstance(axis, tuple):
            if w.shape != tuple(x.shape[k] for k in axes):
                raise ValueError(f"average: weights of shape {w.shape} do not fit axes {axes} of an array of shape {x.shape}")
            order = np.argsort(axes)
            w = lax.broadcast_in_dim(lax.transpose(w, order.tolist()), x.shape, tuple(sorted(axes)))
        else:
            if w.ndim != 1:
                raise ValueError(f"average: weights must be a vector, got shape {w.shape}")
            if w.shape[0] != x.shape[axes[0]]:
                raise ValueError(f"average: {w.shape[0]} weights do not fit axis {axes[0]} of an array of shape {x.shape}")
            w = lax.broadcast_in_dim(w, x.shape, axes)
    total = sum(w, axis, keepdims=keepdims)
    out = p.div_p(sum(p.mul_p(x, w), axis, keepdims=keepdims), total)
    return (out, broadcast_to(total, out.shape)) if returned else out


# positions of extrema


def _arg(fun: str, op: Any, a: ArrayLike, axis: Any, out: Any, keepdims: bool | None) -> Array:
    no_out(fun, out)
    x = as_array(fun, a)
    if axis is None:
        shape = (1,) * x.ndim
        x = lax.reshape(x, (x.size,))
        k = 0
    else:
        if not -x.ndim <= operator.index(axis) < x.ndim:
            raise IndexError(f"{fun}: axis {axis} is out of bounds for an array of shape {x.shape}")
        k = canonical_axis(axis, x.ndim)
        shape = (*x.shape[:k], 1, *x.shape[k + 1 :])
    if x.shape[k] == 0:
        raise ValueError(f"attempt to get {fun} of an empty sequence, along axis {k} of shape {x.shape}")
    result = op(x, axes=(k,), index_dtype=dtypes.default_int())
    return lax.reshape(result, shape) if keepdims else result


def argmax(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """The first position of the maximum (of a NaN, if there is one), along an axis or in the flattened array.

    >>> jnp.argmax(jnp.array([1, 3, 2]))
    Array(1, dtype=int32)
    """
    return _arg("argmax", p.argmax_p, a, axis, out, keepdims)


def argmin(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """The first position of the minimum (of a NaN, if there is one), along an axis or in the flattened array.

    >>> jnp.argmin(jnp.array([1, 3, 2]))
    Array(0, dtype=int32)
    """
    return _arg("argmin", p.argmin_p, a, axis, out, keepdims)


# without NaNs


def _without_nan(fun: str, a: ArrayLike, value: Callable[[Any], Any]) -> tuple[Array, Array]:
    """(a with NaNs replaced, where they were)."""
    x = as_array(fun, a)
    nan = e.isnan(x)
    if not dtypes.is_inexact(x.aval.dtype):
        return x, nan
    return e.where(nan, e.const(value(x.aval.dtype), x.aval.dtype), x), nan


def _present(fun: str, x: Array, where: Any) -> Array:
    """Where x is no NaN and `where` lets it through."""
    present = e.logical_not(e.isnan(x))
    mask = _mask(fun, where)
    if mask is None:
        return present
    shape = broadcast_shapes(x.shape, mask.shape)
    return p.and_p(broadcast_to(present, shape), broadcast_to(mask, shape))


def nansum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """As `sum`, NaNs counting as 0."""
    return sum(_without_nan("nansum", a, lambda d: 0)[0], axis, dtype, out, keepdims, initial, where)


def nanprod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """As `prod`, NaNs counting as 1."""
    return prod(_without_nan("nanprod", a, lambda d: 1)[0], axis, dtype, out, keepdims, initial, where)


def _nan_extremum(fun: str, a: ArrayLike, axis: Axis, out: Any, keepdims: bool, initial: Any, where: Any) -> Array:
    reduction, neutral = (max, lowest) if fun == "nanmax" else (min, highest)
    filled, nan = _without_nan(fun, a, neutral)
    if not dtypes.is_inexact(filled.aval.dtype):
        return reduction(filled, axis, out, keepdims, initial, where)
    result = reduction(filled, axis, out, keepdims, initial, where)
    if initial is not None:
        return result
    nothing = all(nan, axis, keepdims=keepdims)
    return e.where(nothing, strong(e.const(np.nan, result.aval.dtype)), result)


def nanmax(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """As `max`, NaNs left out; NaN where there is nothing else."""
    return _nan_extremum("nanmax", a, axis, out, keepdims, initial, where)


def nanmin(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """As `min`, NaNs left out; NaN where there is nothing else."""
    return _nan_extremum("nanmin", a, axis, out, keepdims, initial, where)


def nanmean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    where: ArrayLike | None = None,
) -> Array:
    """As `mean`, NaNs left out."""
    x = as_array("nanmean", a)
    if not dtypes.is_inexact(x.aval.dtype):
        return mean(x, axis, dtype, out, keepdims, where=where)
    return mean(x, axis, dtype, out, keepdims, where=_present("nanmean", x, where))


def nanvar(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """As `var`, NaNs left out."""
    x = as_array("nanvar", a)
    return var(x, axis, dtype, out, ddof, keepdims, where=_present("nanvar", x, where), mean=mean)


def nanstd(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """As `std`, NaNs left out."""
    return e.sqrt(nanvar(a, axis, dtype, out, ddof, keepdims, where, mean))


def _nan_arg(fun: str, a: ArrayLike, axis: Any, out: Any, keepdims: bool | None) -> Array:
    function, neutral = (argmax, lowest) if fun == "nanargmax" else (argmin, highest)
    filled, nan = _without_nan(fun, a, neutral)
    result = function(filled, axis, out, keepdims)
    if not dtypes.is_inexact(filled.aval.dtype):
        return result
    nothing = all(nan, axis, keepdims=bool(keepdims))
    return e.where(nothing, strong(e.const(-1, result.aval.dtype)), result)


def nanargmax(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """As `argmax`, NaNs left out; -1 where there is nothing else."""
    return _nan_arg("nanargmax", a, axis, out, keepdims)


def nanargmin(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """As `argmin`, NaNs left out; -1 where there is nothing else."""
    return _nan_arg("nanargmin", a, axis, out, keepdims)


# running


def _cumulative(
    fun: str,
    op: Any,
    a: ArrayLike,
    axis: Any,
    dtype: Any,
    out: Any,
    *,
    nan: Any = None,
    promote_integers: bool = False,
    flatten: bool = True,
) -> Array:
    no_out(fun, out)
    x = as_array(fun, a)
    if nan is not None:
        x, _ = _without_nan(fun, x, lambda d: nan)
    d = check_dtype(dtype, fun)
    if d is None:
        d = x.aval.dtype
        if d == dtypes.bool_:
            d = dtypes.default_int()
        elif promote_integers:
            d = _accumulated(d)
    if axis is None:
        if x.ndim != 1 or not flatten:
            x = lax.reshape(x, (x.size,))
        axis = 0
    k = canonical_axis(axis, x.ndim)
    if d == dtypes.bool_:  # of bools: whether any (or all) so far
        return convert(op(convert(strong(e.as_bool(x)), dtypes.default_int()), axis=k, reverse=False), d)
    return op(convert(x, d), axis=k, reverse=False)


def cumsum(a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
    """Running sums along an axis, or in the flattened array. Bools are counted; other dtypes stay.

    >>> jnp.cumsum(jnp.array([1, 3, 2]))
    Array([1, 4, 6], dtype=int32)
    """
    return _cumulative("cumsum", p.cumsum_p, a, axis, dtype, out)


def cumprod(a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
    """Running products along an axis, or in the flattened array."""
    return _cumulative("cumprod", p.cumprod_p, a, axis, dtype, out)


def nancumsum(a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
    """As `cumsum`, NaNs counting as 0."""
    return _cumulative("nancumsum", p.cumsum_p, a, axis, dtype, out, nan=0)


def nancumprod(a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
    """As `cumprod`, NaNs counting as 1."""
    return _cumulative("nancumprod", p.cumprod_p, a, axis, dtype, out, nan=1)


def _array_api_cumulative(fun: str, op: Any, start: int, x: ArrayLike, axis: Any, dtype: Any, include_initial: bool) -> Array:
    a = as_array(fun, x)
    if axis is None:
        if a.ndim > 1:
            raise ValueError(f"{fun}: The input array has rank {a.ndim}, however axis=None is for vectors only")
        axis = 0
    if a.ndim == 0:
        raise ValueError(f"{fun}: The input must be non-scalar to take a running total, got a number")
    k = canonical_axis(axis, a.ndim)
    out = _cumulative(fun, op, a, k, dtype, None, promote_integers=True)
    if not include_initial:
        return out
    first = lax.full((*out.shape[:k], 1, *out.shape[k + 1 :]), start, out.aval.dtype)
    return lax.concatenate([first, out], k)


def cumulative_sum(x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False) -> Array:
    """Running sums along an axis, in the types of `sum`; with `include_initial`, a 0 in front."""
    return _array_api_cumulative("cumulative_sum", p.cumsum_p, 0, x, axis, dtype, include_initial)


def cumulative_prod(x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False) -> Array:
    """Running products along an axis, in the types of `prod`; with `include_initial`, a 1 in front."""
    return _array_api_cumulative("cumulative_prod", p.cumprod_p, 1, x, axis, dtype, include_initial)


def allclose(a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08, equal_nan: bool = False) -> Array:
    """Whether `isclose` holds everywhere.

    >>> jnp.allclose(jnp.ones(2), jnp.ones(2) + 1e-9)
    Array(True, dtype=bool)
    """
    return all(e.isclose(a, b, rtol, atol, equal_nan))


def _comparable(fun: str, x: Any, position: int) -> Array:
    """An argument of a comparison as an array: here also lists and tuples of numbers."""
    return as_array(fun, np.asarray(x) if isinstance(x, list | tuple) else x, position)


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Array:
    """Whether shapes and all elements are equal; NaNs are, with `equal_nan`."""
    x, y = _comparable("array_equal", a1, 0), _comparable("array_equal", a2, 1)
    if x.shape != y.shape:
        return as_array("array_equal", np.bool_(False))
    same = e.equal(x, y)
    if equal_nan:
        same = e.logical_or(same, e.logical_and(e.isnan(x), e.isnan(y)))
    return all(same)


def array_equiv(a1: Any, a2: Any) -> Array:
    """Whether the arrays, broadcast together, are equal everywhere; false if they cannot be."""
    x, y = _comparable("array_equiv", a1, 0), _comparable("array_equiv", a2, 1)
    try:
        broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return as_array("array_equiv", np.bool_(False))
    return all(e.equal(x, y))
