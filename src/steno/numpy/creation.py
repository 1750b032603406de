"""Making arrays: from data, constants, ranges, grids."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from steno import lax
from steno._native import ArrayImpl, from_dlpack as native_from_dlpack
from steno.core import dtypes
from steno.core.aval import ShapedArray, TypedScalar, scalar_value, typeof
from steno.core.errors import ConcretizationTypeError
from steno.core.op import OPS
from steno.core.pytree import tree_leaves
from steno.core.sizes import UnknownSize, is_size, size_of, slice_length
from steno.device import device_put, placed_like, reshard
from steno.lax import records as p
from steno.numpy.operands import (
    Array,
    ArrayLike,
    DTypeLike,
    Shape,
    Tracer,
    arrays,
    as_array,
    broadcast_to,
    canonical_axis,
    check_dtype,
    check_shape,
    convert,
    from_host,
    is_array,
    not_arraylike,
    static_index,
    strong,
    type_of,
)

# where they lie


def laid_out(x: Array, device: Any, out_sharding: Any = None, like: Any = None) -> Array:
    """x, saying that it lies on a device or as a Sharding or PartitionSpec has it, where that was asked for, or else where `like` was put;
    traced arrays stay."""
    if device is None and out_sharding is None:
        return x if like is None else placed_like(x, like)
    if device is not None:
        x = device_put(x, device)
    return x if out_sharding is None else reshard(x, out_sharding)


# from data


def array(
    object: Any,
    dtype: DTypeLike | None = None,
    copy: bool = True,
    order: str | None = "K",
    ndmin: int = 0,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """An array of what a number, an array, nested sequences or anything with the buffer, array or DLPack protocol holds.

    Python numbers alone make weakly typed arrays. TypeError or ValueError for what holds no numbers; OverflowError for integers out of
    range.

    >>> jnp.array([[1, 2], [3, 4]])
    Array([[1, 2],
           [3, 4]], dtype=int32)
    """
    if order not in (None, "K"):
        raise NotImplementedError(f"array: order must be 'K' or None, got {order!r}: arrays have one memory order")
    d = check_dtype(dtype, "array")
    out = _from_object(object, d)
    if copy and out is object:
        out = ArrayImpl.from_numpy(out._value, out.aval) if type(out) is ArrayImpl else p.copy_p(out)
    if ndmin > out.ndim:
        out = lax.broadcast_in_dim(out, (1,) * (ndmin - out.ndim) + out.shape, range(ndmin - out.ndim, ndmin))
    return laid_out(out, device, out_sharding, object)


def asarray(
    a: Any,
    dtype: DTypeLike | None = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """As `array`, without a copy of what is an array already, unless `copy` is true. ValueError for a masked array of NumPy, whose mask
    `array` drops.

    >>> jnp.asarray([1.0, 2.0])
    Array([1., 2.], dtype=float32)
    """
    if type(a) is ArrayImpl and dtype is None and not copy and order in (None, "K"):
        return laid_out(a, device, out_sharding)
    if dtype is None and isinstance(a, np.ndarray):
        typeof(a)  # not all kinds of ndarrays have a type
    return array(a, dtype, bool(copy), "K" if order is None else order, device=device, out_sharding=out_sharding)


def _from_object(x: Any, dtype: Any) -> Array:
    if is_array(x):
        return convert(x, x.aval.dtype if dtype is None else dtype, dtype is None and x.aval.weak_type)
    if isinstance(x, bool | int | float | complex) and not isinstance(x, np.generic):
        if dtype is None:
            return from_host(x)
        if isinstance(x, int) and not isinstance(x, bool) and dtypes.is_integer(dtype):
            check_range(x, dtype)
        elif isinstance(x, float) and dtypes.is_integer(dtype):
            check_range(int(x), dtype)  # int: OverflowError for infinities, ValueError for NaN
        elif isinstance(x, complex) and dtypes.kind(dtype) in "iuf":
            raise TypeError(f"array: the complex number {x} cannot become {dtypes.name(dtype)}")
        with np.errstate(all="ignore"):
            value = np.array(x).astype(dtype) if isinstance(x, float | complex) else np.array(x, dtype)
        return ArrayImpl.from_numpy(value, ShapedArray((), dtype))
    if isinstance(x, TypedScalar):
        return ArrayImpl.from_numpy(np.asarray(x.value), x.aval) if dtype is None else _from_ndarray(np.asarray(x.value), dtype)
    method = getattr(type(x), "__jax_array__", None)
    if method is not None:
        return _from_object(method(x), dtype)
    if isinstance(x, np.ndarray | np.generic):
        return _from_ndarray(np.asarray(x), dtype)
    if isinstance(x, list | tuple):
        return _from_sequence(x, dtype)
    if x is None:
        raise ValueError("None is not a valid value for jnp.array: it holds no numbers")
    if isinstance(x, str) and dtype is not None:  # a number in words; ValueError if it is none
        return _from_ndarray(np.asarray(x).astype(dtype), dtype)
    if hasattr(x, "__array__"):
        return _from_ndarray(np.asarray(x.__array__()), dtype)
    if not isinstance(x, bytes | str):
        try:
            view = memoryview(x)
        except TypeError:
            pass
        else:
            return _from_ndarray(np.asarray(view), dtype)
    if hasattr(x, "__len__") and hasattr(x, "__getitem__") and not isinstance(x, str | bytes | dict):
        return _from_sequence(list(x), dtype)
    return _from_ndarray(np.asarray(x), dtype, x)


def _from_ndarray(x: np.ndarray, dtype: Any, source: Any = None) -> Array:
    if not dtypes.is_valid(x.dtype):
        raise TypeError(f"array: {x if source is None else source!r}, of dtype {x.dtype}, does not hold numbers")
    d = dtypes.canonical(x.dtype) if dtype is None else dtype
    if x.dtype != d:
        with np.errstate(all="ignore"):
            if dtypes.kind(x.dtype) == "c" and dtypes.kind(d) != "c":
                if d != dtypes.bool_:
                    warnings.warn(
                        f"array: complex numbers lose their imaginary part as {dtypes.name(d)}", np.exceptions.ComplexWarning, stacklevel=4
                    )
                x = x != 0 if d == dtypes.bool_ else x.real
            x = x.astype(d)
    return ArrayImpl.from_numpy(x, ShapedArray(x.shape, d))


def _from_sequence(x: Sequence[Any], dtype: Any) -> Array:
    leaves = tree_leaves(x, is_leaf=lambda y: y is None)
    if any(y is None for y in leaves):
        raise ValueError("None is not a valid value for jnp.array: it holds no numbers")
    leaves = [y.__jax_array__() if hasattr(type(y), "__jax_array__") else y for y in leaves]
    if any(isinstance(y, Tracer) for y in leaves) or any(isinstance(y, ArrayImpl) and dtypes.is_key(y.dtype) for y in leaves):
        if dtype is None:
            dtype = dtypes.result_type(*leaves) if leaves else dtypes.default_float()
        return _stack_nested(x, dtype)
    if dtype is None:
        dtype = dtypes.result_type(*map(_leaf_type, leaves)) if leaves else dtypes.default_float()
    if dtypes.is_integer(dtype):
        for y in leaves:
            if isinstance(y, int) and not isinstance(y, bool):
                check_range(y, dtype)
    host = _to_host(x)
    if any(is_array(y) and y.ndim for y in leaves) and len({np.shape(y) for y in leaves}) > 1:
        raise TypeError(f"array: elements of a sequence must have one shape, got {', '.join(str(np.shape(y)) for y in leaves)}")
    with np.errstate(all="ignore"):
        value = np.array(
            host, dtype if dtypes.kind(dtype) in "biufc" and all(isinstance(y, bool | int | float | complex) for y in leaves) else None
        )
        return _from_ndarray(value, dtype, x)


def _leaf_type(y: Any) -> Any:
    """What takes part in promotion: not weakly typed within a sequence of Python numbers alone, which `result_type` sees to."""
    if isinstance(y, bool | int | float | complex | np.generic | np.ndarray) or is_array(y):
        return y
    value = np.asarray(y)
    if not dtypes.is_valid(value.dtype):
        raise TypeError(f"array: {y!r}, of dtype {value.dtype}, is not a number")
    return value


def _to_host(x: Any) -> Any:
    if isinstance(x, list | tuple):
        return [_to_host(y) for y in x]
    if is_array(x):
        return np.asarray(x)
    method = getattr(type(x), "__jax_array__", None)
    return np.asarray(method(x)) if method is not None else x


def _stack_nested(x: Any, dtype: Any) -> Array:
    if isinstance(x, list | tuple):
        if not x:
            return lax.full((0,), 0, dtype)
        parts = [_stack_nested(y, dtype) for y in x]
        if any(q.shape != parts[0].shape for q in parts):
            if any(q.ndim != parts[0].ndim for q in parts):
                raise TypeError(f"array: elements of a sequence must have one shape, got {', '.join(str(q.shape) for q in parts)}")
            raise TypeError(f"array: elements of a sequence must have one shape, got {', '.join(str(q.shape) for q in parts)}")
        return lax.stack(parts)
    return convert(_from_object(x, None), dtype)


def check_range(x: int, dtype: Any) -> None:
    """OverflowError for an integer that the dtype cannot hold."""
    info = dtypes.iinfo(dtype)
    if not int(info.min) <= x <= int(info.max):
        text = f"Python integer {x} out of bounds for {dtypes.name(dtype)}"
        raise OverflowError(text if -(1 << 63) <= x < 1 << 63 else f"Python int too large to convert: {text}")


def copy(a: ArrayLike, order: str | None = None) -> Array:
    """A copy."""
    return array(as_array("copy", a), copy=True, order="K" if order is None else order)


def astype(x: ArrayLike, dtype: DTypeLike | None, /, *, copy: bool = False, device: Any = None) -> Array:
    """x in another dtype (None: the default float). Complex to real keeps the real part; floats to integers round towards zero."""
    x = as_array("astype", x)
    d = dtypes.default_float() if dtype is None else check_dtype(dtype, "astype")
    if isinstance(d, dtypes.KeyDType) or isinstance(x.aval.dtype, dtypes.KeyDType):
        if x.aval.dtype is d:
            return laid_out(x, device)
        raise TypeError(f"astype: there is no conversion from {dtypes.name(x.aval.dtype)} to {dtypes.name(d)}")
    if dtypes.kind(x.aval.dtype) == "c" and dtypes.kind(d) in "iuf":
        warnings.warn(
            f"Casting from complex to real dtypes loses the imaginary part (astype, {dtypes.name(x.aval.dtype)} to {dtypes.name(d)}), and "
            f"will become an error; take jnp.real or jnp.abs first",
            DeprecationWarning,
            stacklevel=3,
        )
    out = lax.ne(x, lax.full_like(x, 0, shape=())) if d == dtypes.bool_ and dtypes.kind(x.aval.dtype) == "c" else convert(x, d)
    return laid_out(array(out) if copy else out, device, like=x)


def frombuffer(buffer: Any, dtype: DTypeLike = float, count: int = -1, offset: int = 0) -> Array:
    """The bytes of a buffer as a vector of a dtype."""
    return asarray(np.frombuffer(buffer, dtype=np.dtype(_np_dtype(dtype)), count=count, offset=offset))


def fromfile(*args: Any, **kwargs: Any) -> Array:
    """Not there, as in JAX: reading a file is a side effect. NumPy's `fromfile` reads, and `asarray` makes an array of it."""
    raise NotImplementedError(
        "fromfile: reading a file is a side effect, which has no place in a traced function; use np.fromfile, and asarray on its result"
    )


def fromiter(*args: Any, **kwargs: Any) -> Array:
    """Not there, as in JAX: an iterator has state. NumPy's `fromiter` reads, and `asarray` makes an array of it."""
    raise NotImplementedError(
        "fromiter: an iterator has state, which has no place in a traced function; use np.fromiter, and asarray on its result"
    )


def fromstring(string: str, dtype: DTypeLike = float, count: int = -1, *, sep: str) -> Array:
    """The numbers in a text."""
    return asarray(np.fromstring(string, dtype=np.dtype(_np_dtype(dtype)), count=count, sep=sep))


def _np_dtype(dtype: Any) -> Any:
    return getattr(dtype, "dtype", dtype)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """The memory of an array of another library, not copied unless `copy` is true. TypeError for what has no `__dlpack__`."""
    if not hasattr(x, "__dlpack__"):
        raise TypeError(f"from_dlpack: expected an object with a __dlpack__ method, got {type(x)}")
    return laid_out(native_from_dlpack(x, copy=copy), device)


def fromfunction(function: Callable[..., Any], shape: Any, *, dtype: DTypeLike = float, **kwargs: Any) -> Array:
    """`function` of the index grids of a shape, called once with whole arrays."""
    sizes = check_shape(shape, "shape argument of 'fromfunction'")
    d = check_dtype(dtype, "fromfunction")
    return function(*(lax.broadcasted_iota(d, sizes, k) for k in range(len(sizes))), **kwargs)


# constants


def zeros(shape: Any, dtype: DTypeLike | None = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """Zeros of a shape; float by default.

    >>> jnp.zeros((2, 2))
    Array([[0., 0.],
           [0., 0.]], dtype=float32)
    """
    return laid_out(_constant("zeros", shape, 0, dtype), device, out_sharding)


def ones(shape: Any, dtype: DTypeLike | None = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """Ones of a shape; float by default.

    >>> jnp.ones(3)
    Array([1., 1., 1.], dtype=float32)
    """
    return laid_out(_constant("ones", shape, 1, dtype), device, out_sharding)


def empty(shape: Any, dtype: DTypeLike | None = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """Zeros: there is no uninitialised memory."""
    return laid_out(_constant("empty", shape, 0, dtype), device, out_sharding)


def _constant(fun: str, shape: Any, value: int, dtype: Any) -> Array:
    if isinstance(shape, int) and isinstance(dtype, int) and not isinstance(dtype, bool):
        raise TypeError(f"{fun}: {dtype} is no dtype. The sizes of a shape are one argument: jnp.{fun}(({shape}, {dtype}))")
    d = dtypes.default_float() if dtype is None else check_dtype(dtype, fun)
    if isinstance(d, dtypes.KeyDType):
        return _keys(check_shape(shape), value, d)
    return lax.full(check_shape(shape), TypedScalar(scalar_value(value, d), ShapedArray((), d)))


def _keys(shape: Shape, word: Any, dtype: dtypes.KeyDType) -> Array:
    """Keys all of whose words are one number."""
    return OPS["random_wrap"](lax.full((*shape, dtype.words), word, dtypes.uint32), impl=dtype)


def full(shape: Any, fill_value: ArrayLike, dtype: DTypeLike | None = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """An array of one value, or of an array broadcast to the shape; in the value's dtype by default.

    >>> jnp.full((2,), 7)
    Array([7, 7], dtype=int32, weak_type=True)
    """
    d = check_dtype(dtype, "full")
    if isinstance(d, dtypes.KeyDType) and not _is_keys(fill_value):
        return _keys(check_shape(shape), fill_value, d)
    value = _fill(fill_value, d, "full", 0)
    return laid_out(_spread_fill(value, check_shape(shape)), device, out_sharding)


def _is_keys(x: Any) -> bool:
    return is_array(x) and dtypes.is_key(x.aval.dtype)


def _fill(value: Any, dtype: Any, fun: str, position: int) -> Any:
    if isinstance(value, complex) and dtype is not None and dtypes.kind(dtype) in "iuf":
        raise TypeError(f"{fun}: a complex fill_value cannot become {dtypes.name(dtype)}")
    if type(value) is int:
        d = dtypes.default_int() if dtype is None else dtype
        if dtypes.kind(d) in "iu":  # wraps around
            wrapped = np.array(value % (1 << 64), np.uint64).astype(d)[()]
            return TypedScalar(scalar_value(wrapped, d), ShapedArray((), d, dtype is None))
        value = float(value)
    value = as_array(fun, value, position) if not isinstance(value, bool | int | float | complex) else value
    if dtype is not None:
        return convert(value, dtype)
    if isinstance(value, bool | int | float | complex):
        return convert(value, *_scalar_type(value))
    return value


def _scalar_type(value: Any) -> tuple[Any, bool]:
    aval = typeof(value)
    return aval.dtype, aval.weak_type


def _spread_fill(value: Any, shape: Shape) -> Array:
    own = value.aval.shape
    if len(own) > len(shape) or any(n not in (1, m) for n, m in zip(reversed(own), reversed(shape), strict=False)):
        raise ValueError(f"full: a fill_value of shape {own} cannot be broadcast to {shape}")
    if own == shape and type(value) is not TypedScalar:
        return value
    return lax.broadcast_in_dim(value, shape, range(len(shape) - len(own), len(shape)))


def _like(fun: str, a: Any, dtype: Any, shape: Any) -> tuple[Any, bool, Shape]:
    """(dtype, weak type, shape) of a result like `a`."""
    if hasattr(a, "shape") and hasattr(a, "dtype") and not hasattr(a, "aval") and not isinstance(a, np.ndarray | np.generic):
        aval = ShapedArray(tuple(a.shape), dtypes.canonical(a.dtype) if isinstance(a.dtype, np.dtype) else a.dtype)
    elif isinstance(a, list | tuple | str | dict) or a is None:
        raise not_arraylike(fun, a, 0)
    else:
        aval = typeof(a)
    d = aval.dtype if dtype is None else check_dtype(dtype, fun)
    return d, dtype is None and aval.weak_type, aval.shape if shape is None else check_shape(shape)


def zeros_like(a: Any, dtype: DTypeLike | None = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """Zeros of a's shape and dtype.

    >>> jnp.zeros_like(jnp.arange(3))
    Array([0, 0, 0], dtype=int32)
    """
    return laid_out(_constant_like("zeros_like", a, 0, dtype, shape), device, out_sharding, a)


def ones_like(a: Any, dtype: DTypeLike | None = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """Ones of a's shape and dtype.

    >>> jnp.ones_like(jnp.arange(3.0))
    Array([1., 1., 1.], dtype=float32)
    """
    return laid_out(_constant_like("ones_like", a, 1, dtype, shape), device, out_sharding, a)


def empty_like(prototype: Any, dtype: DTypeLike | None = None, shape: Any = None, *, device: Any = None) -> Array:
    """Zeros of the prototype's shape and dtype."""
    return laid_out(_constant_like("empty_like", prototype, 0, dtype, shape), device, like=prototype)


def _constant_like(fun: str, a: Any, value: int, dtype: Any, shape: Any) -> Array:
    d, weak, sizes = _like(fun, a, dtype, shape)
    if isinstance(d, dtypes.KeyDType):
        return _keys(sizes, value, d)
    return lax.broadcast_in_dim(TypedScalar(scalar_value(value, d), ShapedArray((), d, weak)), sizes, ())


def full_like(
    a: Any, fill_value: ArrayLike, dtype: DTypeLike | None = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Array:
    """One value in a's shape and dtype.

    >>> jnp.full_like(jnp.arange(3), 9)
    Array([9, 9, 9], dtype=int32)
    """
    d, weak, sizes = _like("full_like", a, dtype, shape)
    if isinstance(d, dtypes.KeyDType) and not _is_keys(fill_value):
        return _keys(sizes, fill_value, d)
    value = _fill(fill_value, d, "full_like", 1)
    return laid_out(_spread_fill(convert(value, d, weak), sizes), device, out_sharding, a)


def eye(N: int, M: int | None = None, k: Any = 0, dtype: DTypeLike | None = None, *, device: Any = None) -> Array:
    """Ones on the k-th diagonal, else zeros, in N rows and M (else N) columns; k may be traced.

    >>> jnp.eye(2)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    d = dtypes.default_float() if dtype is None else check_dtype(dtype, "eye")
    return laid_out(convert(_diagonal_mask("eye", N, M, k, lax.eq), d), device)


def identity(n: int, dtype: DTypeLike | None = None) -> Array:
    """The unit matrix."""
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None) -> Array:
    """Ones on and below the k-th diagonal, else zeros."""
    d = dtypes.default_float() if dtype is None else check_dtype(dtype, "tri")
    return convert(_diagonal_mask("tri", N, M, k, lax.ge), d)


def _diagonal_mask(fun: str, n: Any, m: Any, k: Any, compare: Callable[[Any, Any], Array]) -> Array:
    """`compare(row + k, column)` at each position."""
    rows = check_shape(n, f"argument of 'N' jnp.{fun}().")
    columns = rows if m is None else check_shape(m, f"argument of 'M' jnp.{fun}().")
    return diagonal_mask((*rows, *columns), k, compare)


def diagonal_mask(shape: Shape, k: Any, compare: Callable[[Any, Any], Array]) -> Array:
    """`compare(row + k, column)` in the last two axes of a shape; int32 positions."""
    row, column = (lax.broadcasted_iota(dtypes.int32, shape, len(shape) + d) for d in (-2, -1))
    if is_array(k):
        row = lax.add(row, convert(k, dtypes.int32))
    elif k := operator.index(k):
        row = lax.add(row, convert(max(min(k, 2**31 - 1), -(2**31)), dtypes.int32))
    return compare(row, column)


# ranges


def arange(
    start: Any, stop: Any = None, step: Any = None, dtype: DTypeLike | None = None, *, device: Any = None, out_sharding: Any = None
) -> Array:
    """start, start + step, ... below stop. The arguments must be known while tracing, since they make the shape.

    >>> jnp.arange(1, 7, 2)
    Array([1, 3, 5], dtype=int32)
    """
    return laid_out(_arange(start, stop, step, check_dtype(dtype, "arange")), device, out_sharding)


def _arange(start: Any, stop: Any, step: Any, d: Any) -> Array:
    given = [x for x in (start, stop, step) if x is not None]
    for name, x in (("start" if stop is not None else "stop", start), ("stop", stop), ("step", step)):
        if isinstance(x, Tracer) and x.to_concrete_value() is None:
            raise ConcretizationTypeError(x, f"It arose in the jnp.arange argument {name!r}, which makes the shape of the result.")
        if x is not None and np.ndim(x):
            raise ValueError(f"arange: {name} must be a scalar, got shape {np.shape(x)}")
        if x is not None and dtypes.kind(type_of(x)[0]) == "c":
            raise ValueError(f"arange: {name} must be real, got {x}")
    if d is None:
        if not given:
            raise TypeError("arange: a stop is missing")
        d = dtypes.result_type(*given)
    if d == dtypes.bool_:
        raise TypeError("arange: expected a numeric dtype, got bool")
    if any(isinstance(x, UnknownSize) for x in given):
        return _unknown_arange(*((0, start) if stop is None else (start, stop)), 1 if step is None else step, d)
    host = [None if x is None else np.asarray(x)[()] for x in (start, stop, step)]
    begin, end, by = host
    if end is None:
        begin, end = None, begin
    if begin is None and by is None:
        n = max(math.ceil(float(end)) if not isinstance(end, int | np.integer) else int(end), 0)
        return lax.iota(d, n)
    begin = 0 if begin is None else begin
    by = 1 if by is None else by
    if by == 0:
        raise ZeroDivisionError(f"arange: step must not be 0, got start={start}, stop={stop}, step={step}")
    exact = all(isinstance(v, int | np.integer) for v in (begin, end, by))
    if exact:
        begin, end, by = map(int, (begin, end, by))
        n = max(-((begin - end) // by), 0)
    else:
        n = max(math.ceil((float(end) - float(begin)) / float(by)), 0)
    if exact and dtypes.is_integer(d):
        # not by iota * step: the product could overflow a narrow dtype
        values = np.arange(begin, begin + n * by, by)[:n] if n else np.zeros(0)
        ramp = lax.iota(d, n)
        if by != 1:
            ramp = lax.mul(ramp, convert(by, d))
        if begin != 0:
            ramp = lax.add(ramp, convert(begin, d))
        return ramp if values.size == 0 or dtypes.itemsize_bits(d) >= 16 else asarray(values.astype(d))
    ramp = lax.mul(convert(float(by) if not exact else by, d), lax.iota(d, n))
    return lax.add(convert(float(begin) if not exact else begin, d), ramp)


def _unknown_arange(begin: Any, end: Any, by: Any, d: Any) -> Array:
    """Where sizes are unknown."""
    for name, x in (("start", begin), ("stop", end), ("step", by)):
        if x is not None and not is_size(x):
            raise ValueError(f"arange: with symbolic dimensions all arguments must be integers, got {name}={x}")
    begin, end = size_of(0 if begin is None else begin), size_of(end)
    by = size_of(by)
    if by == 0:
        raise ZeroDivisionError("arange: step must not be 0")
    ramp = lax.iota(d, slice_length(begin, end, by))
    if by != 1:
        ramp = lax.mul(ramp, convert(by, d))
    if type(begin) is not int or begin:
        ramp = lax.add(ramp, convert(begin, d))
    return ramp


def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """`num` values at equal distances from start to stop (the last one, with `endpoint`), along a new axis; with `retstep`, also the
    distance.

    >>> jnp.linspace(0, 1, 5)
    Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    num = static_index("linspace", num, "num")
    if num < 0:
        raise ValueError(f"linspace: num must not be negative, got {num}")
    d = check_dtype(dtype, "linspace")
    if d is None:
        d = dtypes.to_inexact(dtypes.result_type(start, stop))
    compute = dtypes.to_inexact(d)
    a, b = (convert(x, compute) for x in arrays("linspace", start, stop))
    shape = lax.broadcast_shapes(a.shape, b.shape)
    a, b = broadcast_to(a, shape), broadcast_to(b, shape)
    axis = canonical_axis(axis, len(shape) + 1)
    gaps = num - 1 if endpoint else num
    step = lax.div(lax.sub(b, a), convert(gaps, compute)) if gaps > 0 else lax.full((), np.nan, compute)
    if num == 0:
        out = lax.full((0, *shape), 0, compute)
    elif num == 1:
        out = lax.broadcast_in_dim(a, (1, *shape), range(1, len(shape) + 1))
    else:
        # start * (1 - t) + stop * t, with t = k / gaps: symmetric, and stop itself at the end
        out_shape = (gaps, *shape)
        k = lax.broadcasted_iota(compute, (gaps,) + (1,) * len(shape), 0)
        t = lax.div(k, convert(gaps, compute))
        one = convert(1, compute)
        first = lax.broadcast_in_dim(a, (1, *shape), range(1, len(shape) + 1))
        last = lax.broadcast_in_dim(b, (1, *shape), range(1, len(shape) + 1))
        scaled = lax.mul(broadcast_to(lax.div(last, convert(gaps, compute)), out_shape), broadcast_to(k, out_shape))
        out = lax.add(lax.mul(broadcast_to(first, out_shape), broadcast_to(lax.sub(one, t), out_shape)), scaled)
        if endpoint:
            out = lax.concatenate([out, last], 0)
    if axis:
        order = [*range(1, axis + 1), 0, *range(axis + 1, len(shape) + 1)]
        out = lax.transpose(out, order)
    if dtypes.is_integer(d) and not dtypes.is_integer(compute):
        out = lax.floor(out)
    out = laid_out(convert(out, d), device)
    return (out, step) if retstep else out


def _wide(dtype: Any) -> Any:
    """float32 for narrower floats."""
    return dtypes.float32 if dtypes.itemsize_bits(dtype) < 32 else dtype


def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    base: ArrayLike = 10.0,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Array:
    """`base` to the powers of `linspace(start, stop)`, at least as float32 inside."""
    d = check_dtype(dtype, "logspace")
    if d is None:
        d = dtypes.to_inexact(dtypes.result_type(start, stop))
    compute = _wide(dtypes.to_inexact(d))
    exponents = linspace(start, stop, num, endpoint, dtype=compute, axis=axis)
    b = convert(as_array("logspace", base), compute)
    return convert(lax.pow(broadcast_to(b, exponents.shape) if b.ndim else b, exponents), d)


def geomspace(
    start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, dtype: DTypeLike | None = None, axis: int = 0
) -> Array:
    """`num` values in equal ratios from start to stop, along a new axis, at least as float32 inside."""
    d = check_dtype(dtype, "geomspace")
    if d is None:
        d = dtypes.to_inexact(dtypes.result_type(start, stop))
    compute = _wide(dtypes.to_inexact(d))
    a, b = (convert(x, compute) for x in arrays("geomspace", start, stop))
    shape = lax.broadcast_shapes(a.shape, b.shape)
    a, b = broadcast_to(a, shape), broadcast_to(b, shape)
    # the sign (or phase) of start is taken out, so that the logarithms are real where they can be
    sign = lax.sign(a)
    logs = (lax.div(lax.log(lax.div(x, sign)), lax.log(convert(10, compute))) for x in (a, b))
    out = logspace(*logs, num=num, endpoint=endpoint, base=10.0, dtype=compute, axis=0)
    out = lax.mul(out, broadcast_to(sign, out.shape))
    # the ends exactly as given
    if num > 0:
        first = lax.broadcast_in_dim(a, (1, *shape), range(1, len(shape) + 1))
        out = lax.dynamic_update_slice_in_dim(out, first, 0, 0)
        if endpoint and num > 1:
            last = lax.broadcast_in_dim(b, (1, *shape), range(1, len(shape) + 1))
            out = lax.dynamic_update_slice_in_dim(out, last, num - 1, 0)
    axis = canonical_axis(axis, len(shape) + 1)
    if axis:
        out = lax.transpose(out, [*range(1, axis + 1), 0, *range(axis + 1, len(shape) + 1)])
    return convert(out, d)


def meshgrid(*xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Array, ...]:
    """Coordinate grids of vectors; with `sparse`, each of size 1 along the axes of the others.

    >>> jnp.meshgrid(jnp.arange(2), jnp.arange(2))
    (Array([[0, 1],
           [0, 1]], dtype=int32), Array([[0, 0],
           [1, 1]], dtype=int32))
    """
    args = arrays("meshgrid", *xi)
    if not copy:
        raise ValueError("meshgrid: copy must be True, since arrays are immutable")
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}")
    if any(a.ndim != 1 for a in args):
        raise ValueError(f"meshgrid: expected vectors, got shapes {[a.shape for a in args]}")
    n = len(args)
    order = list(range(n))
    if indexing == "xy" and n >= 2:
        order[:2] = [1, 0]
    shape = [0] * n
    for a, k in zip(args, order, strict=True):
        shape[k] = a.shape[0]
    return tuple(
        lax.broadcast_in_dim(a, tuple(a.shape[0] if j == k else 1 for j in range(n)) if sparse else tuple(shape), (k,))
        for a, k in zip(args, order, strict=True)
    )


def indices(dimensions: Sequence[int], dtype: DTypeLike | None = None, sparse: bool = False) -> Any:
    """The index grids of a shape, stacked in a new leading axis; with `sparse`, a tuple of them, each of size 1 along other axes."""
    d = dtypes.default_int() if dtype is None else check_dtype(dtype, "indices")
    shape = check_shape(dimensions)
    n = len(shape)
    if sparse:
        return tuple(lax.broadcasted_iota(d, tuple(s if j == k else 1 for j, s in enumerate(shape)), k) for k in range(n))
    grids = [lax.broadcasted_iota(d, shape, k) for k in range(n)]
    return lax.stack(grids) if grids else lax.full((0,), 0, d)


def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:
    """Powers of a vector's elements in the columns, descending unless `increasing`."""
    x = as_array("vander", x)
    if x.ndim != 1:
        raise ValueError(f"vander: x must be a vector, got shape {x.shape}")
    n = x.shape[0] if N is None else operator.index(N)
    if n < 0:
        raise ValueError(f"vander: N must not be negative, got {n}")
    k = lax.iota(x.dtype, n)
    if not increasing:
        k = lax.sub(convert(n - 1, x.dtype), k)
    shape = (x.shape[0], n)
    base, power = lax.broadcast_in_dim(x, shape, (0,)), lax.broadcast_in_dim(k, shape, (1,))
    if dtypes.is_inexact(x.dtype):
        return lax.pow(base, power)
    x = strong(x)
    columns = [lax.integer_pow(x, j) if j else lax.full_like(x, 1) for j in (range(n) if increasing else range(n - 1, -1, -1))]
    return lax.stack(columns, 1) if columns else lax.full(shape, 0, x.dtype)
