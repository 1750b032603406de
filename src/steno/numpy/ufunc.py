"""`ufunc`: functions like `add` as objects, with `reduce`, `accumulate`, `outer`, `at`, `reduceat`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np

from steno import lax
from steno.core import dtypes
from steno.lax import records as p
from steno.numpy import elementwise as e
from steno.numpy import reductions as r
from steno.numpy.at import _IndexUpdateRef
from steno.numpy.indexing import getitem
from steno.numpy.manipulation import moveaxis
from steno.numpy.operands import Array, ArrayLike, DTypeLike, arrays, as_array, broadcast_shapes, canonical_axis, check_dtype, convert
from steno.numpy.selection import where as where_


@final
class ufunc:
    """An elementwise function of `nin` operands and `nout` results, with what can be made of it.

    `reduce`, `accumulate`, `at`, `reduceat`: implementations, where there is a better one than the general one."""

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
        reduceat: Callable[..., Any] | None = None,
    ) -> None:
        self._function = func if call is None else call
        self.nin, self.nout = nin, nout
        self.nargs = nin if nargs is None else nargs
        self.identity = identity
        self._reduce, self._accumulate, self._at, self._reduceat = reduce, accumulate, at, reduceat
        self.__name__ = self.__qualname__ = name or getattr(func, "__name__", "ufunc")
        self.__doc__ = func.__doc__
        self.__wrapped__ = func

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
        if initial is not None:
            raise NotImplementedError("initial argument of jnp.ufunc.reduce()") if self._reduce is None else None
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
        if where is not None:
            x = where_(where, x, self.identity)
        axes = r.canonical_axes(axis, x.ndim)
        shape = x.shape
        for k in sorted(axes, reverse=True):
            n = x.shape[k]
            if n == 0:
                if self.identity is None:
                    raise ValueError(
                        f"{self.__name__}.reduce: there are no elements to reduce, and the function has no identity; got shape {shape}"
                    )
                x = lax.full((*x.shape[:k], *x.shape[k + 1 :]), self.identity, x.aval.dtype)
                continue
            acc = lax.index_in_dim(x, 0, k, False)
            for i in range(1, n):
                acc = self._function(acc, lax.index_in_dim(x, i, k, False))
            x = acc
        return r.keep(x, axes, shape) if keepdims else x

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
        parts = [lax.index_in_dim(x, 0, k, False)]
        for i in range(1, x.shape[k]):
            parts.append(convert(self._function(parts[-1], lax.index_in_dim(x, i, k, False)), x.aval.dtype))
        return lax.stack(parts, k)

    def outer(self, A: ArrayLike, B: ArrayLike, /, **kwargs: Any) -> Any:
        """The function of all pairs of elements."""
        if self.nin != 2:
            raise ValueError(f"{self.__name__}.outer: expected a function of two operands, it has {self.nin}")
        x, y = arrays(f"{self.__name__}.outer", A, B)
        return self(lax.reshape(x, (*x.shape, *(1,) * y.ndim)), y, **kwargs)

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
        """The function folded over the pieces of an axis that begin at the indices."""
        self._check("reduceat")
        if out is not None:
            raise NotImplementedError(f"{self.__name__}.reduceat: the argument `out` is not available, since arrays are immutable")
        x = as_array(f"{self.__name__}.reduceat", a)
        k = canonical_axis(axis, x.ndim)
        starts = np.asarray(indices)
        n = x.shape[k]
        parts = []
        for j, i in enumerate(starts.tolist()):
            stop = starts[j + 1] if j + 1 < len(starts) else n
            piece = lax.slice_in_dim(x, i, max(int(stop), i + 1), axis=k)
            parts.append(self.reduce(piece, axis=k, dtype=dtype))
        return moveaxis(lax.stack(parts), 0, k)


_ALL: dict[str, ufunc] = {}


def _by_name(name: str) -> ufunc:
    return _ALL[name]


def _declare(func: Callable[..., Any], nin: int = 2, identity: Any = None, **methods: Any) -> ufunc:
    made = ufunc(func, nin, 1, identity=identity, **methods)
    _ALL[made.__name__] = made
    return made


def _without_dtype(reduction: Callable[..., Array]) -> Callable[..., Array]:
    def fold(x: Array, axis: Any, dtype: Any, keepdims: bool, where: Any, **options: Any) -> Array:
        d = check_dtype(dtype, "ufunc.reduce")
        return reduction(x if d is None else convert(x, d), axis=axis, keepdims=keepdims, where=where, **options)

    return fold


def _bits(op: Callable[..., Array], identity: int) -> Callable[..., Array]:
    def fold(x: Array, axis: Any, dtype: Any, keepdims: bool, where: Any) -> Array:
        d = check_dtype(dtype, "ufunc.reduce")
        x = x if d is None else convert(x, d)
        if where is not None:
            x = where_(where, x, convert(identity if x.aval.dtype != dtypes.bool_ else bool(identity), x.aval.dtype))
        axes = r.canonical_axes(axis, x.ndim)
        out = op(x, axes)
        return r.keep(out, axes, x.shape) if keepdims else out

    return fold


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


add = _declare(e.add, identity=0, reduce=_sum, accumulate=lambda x, axis, dtype: r.cumsum(x, axis, dtype), at=_at("add"))
multiply = _declare(e.multiply, identity=1, reduce=_prod, accumulate=lambda x, axis, dtype: r.cumprod(x, axis, dtype), at=_at("multiply"))
subtract = _declare(e.subtract, at=_at("subtract"))
negative = _declare(e.negative, nin=1)
maximum = _declare(e.maximum, reduce=_without_dtype(r.amax), accumulate=_running(p.cummax_p), at=_at("max"))
minimum = _declare(e.minimum, reduce=_without_dtype(r.amin), accumulate=_running(p.cummin_p), at=_at("min"))
bitwise_and = _declare(e.bitwise_and, identity=-1, reduce=_bits(lax.reduce_and, -1))
bitwise_or = _declare(e.bitwise_or, identity=0, reduce=_bits(lax.reduce_or, 0))
bitwise_xor = _declare(e.bitwise_xor, identity=0, reduce=_bits(lax.reduce_xor, 0))
logical_and = _declare(e.logical_and, identity=True, reduce=_without_dtype(r.all))
logical_or = _declare(e.logical_or, identity=False, reduce=_without_dtype(r.any))
logical_xor = _declare(
    e.logical_xor,
    identity=False,
    reduce=lambda x, axis, dtype, keepdims, where: _bits(lax.reduce_xor, 0)(e.as_bool(x), axis, None, keepdims, where),
)
logaddexp = _declare(e.logaddexp, identity=-np.inf)
logaddexp2 = _declare(e.logaddexp2, identity=-np.inf)
