"""Operands of lax functions: what is a value, dtype arguments, broadcasting of equal ranks."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from steno._native import ArrayImpl
from steno.core import dtypes
from steno.core.aval import TypedScalar, scalar_aval, scalar_value, typed_scalar, typeof
from steno.core.errors import ConcretizationTypeError
from steno.core.op import Op
from steno.core.sizes import UnknownSize, is_size, size_of
from steno.core.trace import JitTracer, Tracer, bad_shape
from steno.lax import records as p

Array = Any
ArrayLike = Any
DTypeLike = Any
Shape = tuple[int, ...]

_PYTHON = (bool, int, float, complex)


def as_operand(fun: str, x: Any, position: int = 0) -> Any:
    """An argument as something with an `aval` that ops take: an array, a tracer, a typed scalar. TypeError naming function and position."""
    t = type(x)
    if t is ArrayImpl or t is JitTracer or t is TypedScalar or isinstance(x, Tracer):
        return x
    if isinstance(x, np.ndarray) and x.ndim:
        aval = typeof(x)
        return ArrayImpl.from_numpy(np.asarray(x, aval.dtype), aval)
    if isinstance(x, np.ndarray | np.generic | bool | int | float | complex):
        aval = typeof(x)
        return TypedScalar(scalar_value(x[()] if isinstance(x, np.ndarray) else x, aval.dtype), scalar_aval(aval.dtype, aval.weak_type))
    method = getattr(t, "__jax_array__", None)
    if method is not None:
        return as_operand(fun, method(x), position)
    raise TypeError(f"{fun}: argument {position} must be an array or a number, got {t}")


def as_array(fun: str, x: Any, position: int = 0) -> Array:
    """As `as_operand`, but scalars become arrays: for functions that return their argument as it is."""
    x = as_operand(fun, x, position)
    return ArrayImpl.from_numpy(np.asarray(x.value), x.aval) if type(x) is TypedScalar else x


def operands(fun: str, *xs: Any) -> list[Any]:
    return [as_operand(fun, x, k) for k, x in enumerate(xs)]


def elementwise(op: Op, *xs: Any) -> Array:
    """Binds an elementwise op; operands of equal rank may have sizes 1 where others have more. TypeError for other shapes."""
    avals = []
    for k, x in enumerate(xs):
        t = type(x)
        if t is not ArrayImpl and t is not JitTracer:
            xs = (*xs[:k], as_operand(op.name, x, k), *xs[k + 1 :])
        avals.append(xs[k].aval)
    first = avals[0]
    if all(a is first or not a.shape or a.shape == first.shape for a in avals):
        return op(*xs)
    shapes = [a.shape for a in avals if a.shape]
    if all(s == shapes[0] for s in shapes):
        return op(*xs)
    if len({len(s) for s in shapes}) > 1:
        raise TypeError(
            f"{op.name}: operands must have equal numbers of axes (or none), got shapes {', '.join(str(a.shape) for a in avals)}"
        )
    shape = []
    for sizes in zip(*shapes, strict=True):
        wide = {n for n in sizes if n != 1}
        if len(wide) > 1:
            raise TypeError(f"{op.name}: shapes {', '.join(str(a.shape) for a in avals)} cannot be broadcast together")
        shape.append(wide.pop() if wide else 1)
    return op(*(x if a.shape in ((), tuple(shape)) else spread(x, tuple(shape)) for x, a in zip(xs, avals, strict=True)))


def spread(x: Any, shape: Shape) -> Array:
    """x broadcast to a shape of the same rank, or a larger one with new leading axes."""
    n = x.aval.ndim
    return p.broadcast_in_dim_p(x, shape=shape, broadcast_dimensions=tuple(range(len(shape) - n, len(shape))), sharding=None)


def check_dtype(dtype: DTypeLike, fun: str) -> Any:
    """A user's dtype argument, canonicalised, with a warning where 64 bits were asked for by name and x64 is off. TypeError for what has
    no arrays."""
    d = dtypes.as_dtype(dtype)
    if isinstance(d, dtypes.KeyDType):
        return d
    if not dtypes.is_valid(d):
        raise TypeError(f"{fun}: there are no arrays of dtype {dtype}; wanted a bool or numeric one")
    return dtypes.requested(d, dtype, fun)


def convert(x: Any, dtype: Any, weak: bool = False) -> Any:
    """An operand with the given canonical dtype and weak type. Scalars become typed scalars; complex to real keeps the real part."""
    t = type(x)
    if t in _PYTHON:
        return typed_scalar(x, dtype, weak)
    aval = x.aval
    if aval.dtype == dtype and aval.weak_type == weak:
        return x
    if t is TypedScalar:
        with np.errstate(all="ignore"):
            return TypedScalar(scalar_value(x.value, dtype), scalar_aval(dtype, weak))
    if aval.dtype == dtype and t is ArrayImpl:
        return x.with_aval(aval.update(weak_type=weak))
    if dtypes.kind(aval.dtype) == "c" and dtypes.kind(dtype) in "iuf":
        x = p.real_p(x)
        if x.aval.dtype == dtype and x.aval.weak_type == weak:
            return x
    return p.convert_element_type_p(x, new_dtype=dtype, weak_type=weak, sharding=None)


def integers(fun: str, what: str, xs: Sequence[Any], wrong: Callable[[Any, str], TypeError] | None = None) -> Shape:
    """A sequence of static integers as a tuple of ints. TypeError for other things (`wrong(xs, context)`); ConcretizationTypeError for
    tracers."""
    try:
        return tuple(operator.index(x) for x in xs)
    except TypeError:
        if any(isinstance(x, UnknownSize) for x in xs) and all(map(is_size, xs)):
            return tuple(map(size_of, xs))
        if wrong is not None:
            raise wrong(xs, f"({what} of {fun})") from None
        traced = next((x for x in xs if isinstance(x, Tracer)), None)
        if traced is not None:
            raise ConcretizationTypeError(traced, f"{what} of {fun} must be known while tracing.") from None
        raise TypeError(f"{fun}: {what} must be a sequence of integers, got {xs}") from None


def shape_argument(fun: str, shape: Any) -> Shape:
    """An int or a sequence of ints, none negative. TypeError if not."""
    if isinstance(shape, int | np.integer | UnknownSize):
        shape = (shape,)
    if isinstance(shape, Tracer) or not hasattr(shape, "__iter__") or isinstance(shape, str):
        raise bad_shape(shape, f"(shape of {fun})")
    sizes = tuple(shape)
    out = integers(fun, "shape", sizes, bad_shape)
    if any(n < 0 for n in out):
        raise TypeError(f"{fun}: shape must not hold negative sizes, got {out}")
    return out


def canonical_axis(axis: Any, ndim: int) -> int:
    """ValueError for what is out of bounds."""
    k = operator.index(axis)
    if not -ndim <= k < ndim:
        raise ValueError(f"axis {k} is out of bounds for an array of rank {ndim}")
    return k % ndim
