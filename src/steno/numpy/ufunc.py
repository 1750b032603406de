"""`ufunc`: functions like `add` as objects, with `reduce`, `accumulate`, `outer`, `at`, `reduceat`."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any, final

import numpy as np

from steno import lax
from steno.core import dtypes
from steno.core.config import numpy_rank_promotion
from steno.lax import records as p
from steno.numpy import elementwise as e, reductions as r
from steno.numpy.at import _IndexUpdateRef
from steno.numpy.indexing import getitem
from steno.numpy.manipulation import moveaxis
from steno.numpy.operands import (
    Array,
    ArrayLike,
    DTypeLike,
    arrays,
    as_array,
    broadcast_shapes,
    broadcast_to,
    canonical_axis,
    check_dtype,
    convert,
    strong,
)
from steno.numpy.selection import where as where_


@final
class ufunc:
    """An elementwise function of `nin` operands and `nout` results, with what can be made of it.

    `reduce`, `accumulate`, `at`: implementations, where there is a better one than the general one."""

    _func: Callable[..., Any]
    _function: Callable[..., Any]
    _reduce: Callable[..., Any] | None
    _accumulate: Callable[..., Any] | None
    _at: Callable[..., Any] | None
    nin: int
    nout: int
    nargs: int
    identity: Any
    __name__: str

    def __init__(
        self,
        func: Callable[..., Any],
        /,
        nin: int,
        nout: int,
        *,
        name: str | None = None,
        nargs: int | None = None,
        identity: Any = None,
        call: Callable[..., Any] | None = None,
        reduce: Callable[..., Any] | None = None,
        accumulate: Callable[..., Any] | None = None,
        at: Callable[..., Any] | None = None,
    ) -> None:
        # read-only: a ufunc is a value, equal to others of the same function
        vars(self).update(
            _func=func,
            _function=func if call is None else call,
            nin=nin,
            nout=nout,
            nargs=nin if nargs is None else nargs,
            identity=identity,
            _reduce=reduce,
            _accumulate=accumulate,
            _at=at,
            __name__=name or getattr(func, "__name__", "ufunc"),
            __qualname__=name or getattr(func, "__name__", "ufunc"),
            __doc__=func.__doc__,
            __wrapped__=func,
        )

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{self!r}: the attribute {name} cannot be set")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ufunc) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self._func, self.nin, self.nout, self.nargs, self.identity

    def __repr__(self) -> str:
        return f"<jnp.ufunc '{self.__name__}'>"

    def __reduce__(self) -> Any:
        return _by_name, (self.__name__,)

    def __call__(self, *args: ArrayLike, out: None = None, where: None = None) -> Any:
        if out is not None:
            raise NotImplementedError(f"{self.__name__}: the argument `out` is not available, since arrays are immutable")
        if where is not None:
            raise NotImplementedError(f"{self.__name__}: the argument `where` is not implemented")
        if len(args) != self.nin:
            raise TypeError(f"{self.__name__} takes {self.nin} operands, got {len(args)}")
        return self._function(*args)

    def _check(self, method: str) -> None:
        if self.nin != 2:
            raise ValueError(f"{self.__name__}.{method}: expected a function of two operands, it has {self.nin}")
        if self.nout != 1:
            raise ValueError(f"{self.__name__}.{method}: expected a function of one result, it has {self.nout}")

    def reduce(
        self,
        a: ArrayLike,
        axis: Any = 0,
        dtype: DTypeLike | None = None,
        out: None = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Array:
        """The function folded over axes (the first one by default; None: all)."""
        self._check("reduce")
        if out is not None:
            raise NotImplementedError(f"{self.__name__}.reduce: the argument `out` is not available, since arrays are immutable")
        if where is not None and self.identity is None and initial is None:
            raise ValueError(f"{self.__name__}.reduce: with `where` there may be nothing to reduce, and the function has no identity")
        x = as_array(f"{self.__name__}.reduce", a)
        if x.ndim == 0 and axis == 0:
            axis = None
        if self._reduce is not None:
            options = {"initial": initial} if initial is not None else {}
            return self._reduce(x, axis=axis, dtype=dtype, keepdims=keepdims, where=where, **options)
        d = check_dtype(dtype, "ufunc.reduce")
        x = x if d is None else convert(x, d)
        axes = r.canonical_axes(axis, x.ndim)
        shape, kept = x.shape, [k for k in range(x.ndim) if k not in axes]
        rest = tuple(shape[k] for k in kept)
        n = math.prod(shape[k] for k in axes)
        start = self.identity if initial is None else initial
        if n == 0 and start is None:
            raise ValueError(
                f"{self.__name__}.reduce: there are no elements to reduce, and the function has no identity; got shape {shape}"
            )

        def rows(v: Array) -> Array:
            """The reduced axes as one, in front."""
            return lax.reshape(lax.transpose(broadcast_to(v, shape), [*axes, *kept]), (n, *rest))

        mask = None if where is None else rows(as_array(f"{self.__name__}.reduce", where))
        x = rows(strong(x))
        if n == 0 or initial is not None or mask is not None:
            acc = broadcast_to(convert(as_array(f"{self.__name__}.reduce", start), x.aval.dtype), rest)
        else:
            acc, x = lax.index_in_dim(x, 0, 0, False), lax.slice_in_dim(x, 1, n)

        def step(acc: Array, row: Any) -> tuple[Array, None]:
            value, keep = row
            out = self._fold(acc, value)
            return out if keep is None else e.where(keep, out, acc), None

        out = lax.scan(step, acc, (x, mask))[0] if x.shape[0] else acc
        return r.keep(out, axes, shape) if keepdims else out

    def _fold(self, acc: Array, value: Array) -> Array:
        return strong(convert(self._function(acc, value), acc.aval.dtype))

    def accumulate(self, a: ArrayLike, axis: int = 0, dtype: DTypeLike | None = None, out: None = None) -> Array:
        """The running fold along an axis."""
        self._check("accumulate")
        if out is not None:
            raise NotImplementedError(f"{self.__name__}.accumulate: the argument `out` is not available, since arrays are immutable")
        x = as_array(f"{self.__name__}.accumulate", a)
        if x.ndim == 0:
            raise ValueError(f"{self.__name__}.accumulate: a scalar has no axis to run along")
        k = canonical_axis(axis, x.ndim)
        if self._accumulate is not None:
            return self._accumulate(x, axis=k, dtype=dtype)
        d = check_dtype(dtype, "ufunc.accumulate")
        x = x if d is None else convert(x, d)
        if x.shape[k] == 0:
            return x
        x = moveaxis(strong(x), k, 0)
        first = lax.slice_in_dim(x, 0, 1)

        def step(acc: Array, value: Array) -> tuple[Array, Array]:
            out = self._fold(acc, value)
            return out, out

        running = lax.scan(step, lax.index_in_dim(x, 0, 0, False), lax.slice_in_dim(x, 1, x.shape[0]))[1]
        return moveaxis(lax.concatenate([first, running], 0), 0, k)

    def outer(self, A: ArrayLike, B: ArrayLike, /, **kwargs: Any) -> Any:
        """The function of all pairs of elements."""
        if self.nin != 2:
            raise ValueError(f"{self.__name__}.outer: expected a function of two operands, it has {self.nin}")
        x, y = arrays(f"{self.__name__}.outer", A, B)
        return self(lax.reshape(x, (*x.shape, *(1,) * y.ndim)), lax.reshape(y, ((1,) * x.ndim + y.shape)), **kwargs)

    def at(self, a: ArrayLike, indices: Any, b: ArrayLike | None = None, /, *, inplace: bool = True) -> Array:
        """a with the function applied at the indices, once for each. `inplace` must be false: arrays are immutable."""
        if inplace:
            raise NotImplementedError(
                f"{self.__name__}.at: inplace must be False, since arrays are immutable; the changed array is returned"
            )
        x = as_array(f"{self.__name__}.at", a)
        if self._at is not None:
            return self._at(x, indices, b)
        if self.nin == 1:
            return _IndexUpdateRef(x, indices).apply(self._function)
        part = getitem(x, indices)
        v = as_array(f"{self.__name__}.at", b, 2)
        shape = broadcast_shapes(part.shape, v.shape)
        if shape != part.shape:
            raise ValueError(
                f"{self.__name__}.at: operands of shape {v.shape} cannot be broadcast to the part they go to, of shape {part.shape}"
            )
        return _IndexUpdateRef(x, indices).set(convert(self._function(part, v), x.aval.dtype))

    def reduceat(self, a: ArrayLike, indices: Any, axis: int = 0, dtype: DTypeLike | None = None, out: None = None) -> Array:
        """The function folded over the pieces of an axis that begin at the indices; a piece that would end before it begins is one
        element. Pieces are folded side by side, in one pass over the axis."""
        fun = f"{self.__name__}.reduceat"
        self._check("reduceat")
        if out is not None:
            raise NotImplementedError(f"{fun}: the argument `out` is not available, since arrays are immutable")
        x, starts = as_array(fun, a), convert(as_array(fun, indices), dtypes.int32)
        if x.ndim == 0:
            raise ValueError(f"{fun}: a scalar has no axis to run along")
        if starts.ndim != 1:
            raise ValueError(f"{fun}: the indices must be a vector, got shape {starts.shape}")
        k = canonical_axis(axis, x.ndim)
        d = check_dtype(dtype, fun)
        x = moveaxis(strong(x if d is None else convert(x, d)), k, 0)
        n = x.shape[0]
        stops = lax.concatenate(
            [lax.slice_in_dim(starts, min(1, starts.shape[0]), None), lax.full((min(1, starts.shape[0]),), n, np.int32)], 0
        )
        acc = getitem(x, starts)
        column = (starts.shape[0], *(1,) * (x.ndim - 1))

        def step(acc: Array, row: Any) -> tuple[Array, None]:
            place, value = row
            inside = e.logical_and(e.greater(place, starts), e.less(place, stops))
            value = broadcast_to(lax.reshape(value, (1, *value.shape)), acc.shape)
            return e.where(broadcast_to(lax.reshape(inside, column), acc.shape), self._fold(acc, value), acc), None

        if acc.size:
            with numpy_rank_promotion("allow"):
                acc = lax.scan(step, acc, (lax.iota(dtypes.int32, n), x))[0]
        return moveaxis(acc, 0, k)


def _by_name(name: str) -> ufunc:
    return getattr(importlib.import_module("steno.numpy"), name)


def declare(func: Callable[..., Any], nin: int = 2, identity: Any = None, **methods: Any) -> ufunc:
    return ufunc(func, nin, 1, identity=identity, **methods)


def _without_dtype(reduction: Callable[..., Array]) -> Callable[..., Array]:
    def fold(x: Array, axis: Any, dtype: Any, keepdims: bool, where: Any, **options: Any) -> Array:
        d = check_dtype(dtype, "ufunc.reduce")
        return reduction(x if d is None else convert(x, d), axis=axis, keepdims=keepdims, where=where, **options)

    return fold


def _bits(op: Callable[..., Array], identity: int, combine: Callable[..., Array]) -> Callable[..., Array]:
    def fold(x: Array, axis: Any, dtype: Any, keepdims: bool, where: Any, initial: Any = None) -> Array:
        d = check_dtype(dtype, "ufunc.reduce")
        x = x if d is None else convert(x, d)
        if where is not None:
            x = where_(where, x, convert(identity if x.aval.dtype != dtypes.bool_ else bool(identity), x.aval.dtype))
        axes = r.canonical_axes(axis, x.ndim)
        out = op(x, axes)
        if initial is not None:
            out = combine(convert(as_array("ufunc.reduce", initial), out.aval.dtype), out)
        return r.keep(out, axes, x.shape) if keepdims else out

    return fold


def _logical(fold: Callable[..., Array]) -> Callable[..., Array]:
    """The fold of the operands' truth."""

    def folded(x: Array, axis: Any, dtype: Any, keepdims: bool, where: Any, initial: Any = None) -> Array:
        if initial is not None:
            initial = e.as_bool(as_array("ufunc.reduce", initial))
        return fold(strong(e.as_bool(x)), axis, None, keepdims, where, initial)

    return folded


def _at(method: str) -> Callable[..., Array]:
    return lambda x, indices, b: getattr(_IndexUpdateRef(x, indices), method)(b)


def _sum(x: Array, axis: Any, dtype: Any, keepdims: bool, where: Any, **options: Any) -> Array:
    return r.sum(x, axis=axis, dtype=dtype, keepdims=keepdims, where=where, **options)


def _prod(x: Array, axis: Any, dtype: Any, keepdims: bool, where: Any, **options: Any) -> Array:
    return r.prod(x, axis=axis, dtype=dtype, keepdims=keepdims, where=where, **options)


def _running(op: Any) -> Callable[..., Array]:
    def run(x: Array, axis: int, dtype: Any) -> Array:
        d = check_dtype(dtype, "ufunc.accumulate")
        return op(x if d is None else convert(x, d), axis=axis, reverse=False)

    return run


add = declare(e.add, identity=0, reduce=_sum, accumulate=lambda x, axis, dtype: r.cumsum(x, axis, dtype), at=_at("add"))
multiply = declare(e.multiply, identity=1, reduce=_prod, accumulate=lambda x, axis, dtype: r.cumprod(x, axis, dtype), at=_at("multiply"))
subtract = declare(e.subtract, at=_at("subtract"))
negative = declare(e.negative, nin=1)
maximum = declare(e.maximum, reduce=_without_dtype(r.amax), accumulate=_running(p.cummax_p), at=_at("max"))
minimum = declare(e.minimum, reduce=_without_dtype(r.amin), accumulate=_running(p.cummin_p), at=_at("min"))
bitwise_and = declare(e.bitwise_and, identity=-1, reduce=_bits(lax.reduce_and, -1, e.bitwise_and))
bitwise_or = declare(e.bitwise_or, identity=0, reduce=_bits(lax.reduce_or, 0, e.bitwise_or))
bitwise_xor = declare(e.bitwise_xor, identity=0, reduce=_bits(lax.reduce_xor, 0, e.bitwise_xor))
logical_and = declare(e.logical_and, identity=True, reduce=_logical(_bits(lax.reduce_and, 1, e.logical_and)))
logical_or = declare(e.logical_or, identity=False, reduce=_logical(_bits(lax.reduce_or, 0, e.logical_or)))
logical_xor = declare(e.logical_xor, identity=False, reduce=_logical(_bits(lax.reduce_xor, 0, e.logical_xor)))
