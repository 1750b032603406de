"""Operators, methods and properties of arrays and tracers, installed on both classes when this module is imported.

`array_namespace` is the module `steno.numpy`; it is set by that module, since it imports this one."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from steno import lax
from steno._native import ArrayImpl, Operator, ShapedArray
from steno.core import dtypes
from steno.core.trace import JitTracer, install_methods
from steno.lax import records as p
from steno.numpy import creation, elementwise, linear, manipulation, reductions, selection, sorting, taking
from steno.numpy.at import _IndexUpdateHelper
from steno.numpy.indexing import getitem
from steno.numpy.operands import PYTHON_SCALARS, Array, as_array, check_dtype, is_array

array_namespace: list[Any] = []

_REJECTED: Final = (list, tuple, set, dict)
_CHUNK: Final = 128


# operators


def _accepted(x: Any) -> bool:
    t = type(x)
    return (
        t is ArrayImpl
        or t is JitTracer
        or t in PYTHON_SCALARS
        or is_array(x)
        or isinstance(x, np.ndarray | np.generic | bool | int | float | complex)
    )


def _binary(symbol: str, function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        t = type(other)
        if t is ArrayImpl or t is JitTracer or t in PYTHON_SCALARS:
            return function(self, other)
        convert = getattr(t, "__jax_array__", None)
        if convert is not None and not is_array(other):
            return function(self, convert(other))
        if _accepted(other):
            return function(self, other)
        if t in _REJECTED:
            raise TypeError(f"unsupported operand type(s) for {symbol}: {type(self).__name__!r} and {t.__name__!r}")
        return NotImplemented

    return method


def _reflected(symbol: str, function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        t = type(other)
        if t is ArrayImpl or t is JitTracer or t in PYTHON_SCALARS:
            return function(other, self)
        convert = getattr(t, "__jax_array__", None)
        if convert is not None and not is_array(other):
            return function(convert(other), self)
        if _accepted(other):
            return function(other, self)
        if t in _REJECTED:
            raise TypeError(f"unsupported operand type(s) for {symbol}: {t.__name__!r} and {type(self).__name__!r}")
        return NotImplemented

    return method


_ARITHMETIC: Final = (
    ("add", "+", elementwise.add),
    ("sub", "-", elementwise.subtract),
    ("mul", "*", elementwise.multiply),
    ("truediv", "/", elementwise.divide),
    ("floordiv", "//", elementwise.floor_divide),
    ("mod", "%", elementwise.remainder),
    ("divmod", "divmod", elementwise.divmod),
    ("pow", "**", elementwise.power),
    ("matmul", "@", linear.matmul),
    ("and", "&", elementwise.bitwise_and),
    ("or", "|", elementwise.bitwise_or),
    ("xor", "^", elementwise.bitwise_xor),
    ("lshift", "<<", elementwise.left_shift),
    ("rshift", ">>", elementwise.right_shift),
)
_COMPARISONS: Final = (
    ("eq", "==", elementwise.equal),
    ("ne", "!=", elementwise.not_equal),
    ("lt", "<", elementwise.less),
    ("le", "<=", elementwise.less_equal),
    ("gt", ">", elementwise.greater),
    ("ge", ">=", elementwise.greater_equal),
)


def _operators() -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, symbol, function in _ARITHMETIC:
        out[f"__{name}__"] = _binary(symbol, function)
        out[f"__r{name}__"] = _reflected(symbol, function)
    for name, symbol, function in _COMPARISONS:
        out[f"__{name}__"] = _binary(symbol, function)
    out["__neg__"] = lambda self: elementwise.negative(self)
    out["__pos__"] = lambda self: elementwise.positive(self)
    out["__abs__"] = lambda self: elementwise.absolute(self)
    out["__invert__"] = lambda self: elementwise.bitwise_not(self)
    return out


def _native_operators(methods: dict[str, Any]) -> dict[str, Any]:
    """The same for arrays, where what has been computed once is computed again without Python. (Of tracers nothing is known.)"""
    out: dict[str, Any] = {}
    for name, _, function in (*_ARITHMETIC, *_COMPARISONS):
        find = getattr(function, "find", None)
        if find is not None:
            for method, reflected in ((f"__{name}__", False), (f"__r{name}__", True)):
                if method in methods:
                    out[method] = Operator(methods[method], find, reflected)
    return out


# indexing and iteration


def _getitem(self: Array, idx: Any) -> Array:
    return getitem(self, idx)


def _setitem(self: Array, idx: Any, value: Any) -> None:
    raise TypeError(
        "arrays are immutable: x[idx] = y is not possible. What to write instead: x = x.at[idx].set(y), or .add, .multiply, ... for .set"
    )


def _numpy_dtype(self: Array) -> np.dtype:
    warnings.warn("Implicit conversion of an array to a dtype is deprecated; write x.dtype", DeprecationWarning, stacklevel=2)
    return self.dtype


def _iter(self: Array) -> Iterator[Array]:
    if self.ndim == 0:
        raise TypeError("iteration over a 0-d array")
    return _slices(self)


def _slices(x: Array) -> Iterator[Array]:
    n = x.shape[0]
    for start in range(0, n, _CHUNK):
        part = x if n <= _CHUNK else lax.slice_in_dim(x, start, min(start + _CHUNK, n))
        yield from p.unstack_p(part, axis=0)


def _reversed(self: Array) -> Iterator[Array]:
    if self.ndim == 0:
        raise TypeError("iteration over a 0-d array")
    return iter(list(_slices(self))[::-1])


def _contains(self: Array, item: Any) -> Array:
    """Whether an element of a vector equals a number. ValueError for other ranks, TypeError for what is no number."""
    if self.ndim != 1:
        raise ValueError(f"Array.__contains__: search array must be one-dimensional, got shape {self.shape}")
    item = as_array("Array.__contains__", item, 1)
    if item.ndim:
        raise ValueError(f"Array.__contains__: query value must be a scalar, got shape {item.shape}")
    return reductions.any(elementwise.equal(self, item))


# methods


def _reshape(self: Array, *args: Any, order: str = "C", copy: bool | None = None, out_sharding: Any = None) -> Array:
    shape = args[0] if len(args) == 1 else args
    return manipulation.reshape(self, shape, order, copy=copy)


def _transpose(self: Array, *args: Any) -> Array:
    if not args:
        return manipulation.transpose(self)
    axes = args[0] if len(args) == 1 and (args[0] is None or hasattr(args[0], "__iter__")) else args
    return manipulation.transpose(self, axes)


def _astype(self: Array, dtype: Any, copy: bool = False, device: Any = None) -> Array:
    return creation.astype(self, dtype, copy=copy, device=device)


def _view(self: Array, dtype: Any = None, type: Any = None) -> Array:
    """The same bits as another dtype; the last axis grows or shrinks."""
    if type is not None:
        raise NotImplementedError("view: the argument `type` is not implemented")
    if dtype is None:
        return self
    d = check_dtype(dtype, "view")
    own = self.aval.dtype
    if own == d:
        return self
    x = as_array("view", self)
    if dtypes.kind(own) == "c":
        x = manipulation.reshape(manipulation.stack([p.real_p(x), p.imag_p(x)], -1), (*x.shape[:-1], -1) if x.ndim else (2,))
        return _view(x, d)
    if own == dtypes.bool_:
        return _view(lax.convert_element_type(x, np.uint8), d)
    if d == dtypes.bool_:
        return elementwise.not_equal(_view(x, np.uint8), 0)
    if dtypes.kind(d) == "c":
        part = _view(x, np.dtype(f"float{d.itemsize * 4}"))
        if not part.ndim or part.shape[-1] % 2:
            raise ValueError(
                f"view: the last axis, of size {x.shape[-1]}, does not hold a whole number of elements of dtype {dtypes.name(d)}"
            )
        pairs = lax.reshape(part, (*part.shape[:-1], part.shape[-1] // 2, 2))
        return p.complex_p(lax.index_in_dim(pairs, 0, pairs.ndim - 1, False), lax.index_in_dim(pairs, 1, pairs.ndim - 1, False))
    old_bits, new_bits = dtypes.itemsize_bits(own), dtypes.itemsize_bits(d)
    if old_bits == new_bits:
        return lax.bitcast_convert_type(x, d)
    if not x.ndim:
        raise ValueError("view: a scalar array cannot be viewed as a dtype of another size")
    if new_bits > old_bits:
        times = new_bits // old_bits
        if x.shape[-1] % times:
            raise ValueError(
                f"view: the last axis, of size {x.shape[-1]}, does not hold a whole number of elements of dtype {dtypes.name(d)}"
            )
        return lax.bitcast_convert_type(lax.reshape(x, (*x.shape[:-1], x.shape[-1] // times, times)), d)
    out = lax.bitcast_convert_type(x, d)
    return lax.reshape(out, (*out.shape[:-2], out.shape[-2] * out.shape[-1]))


def _byteswap(self: Array, inplace: bool = False) -> Array:
    """The bytes of each element in reverse order."""
    if inplace:
        raise ValueError("byteswap: inplace must be False, since arrays are immutable")
    d = self.aval.dtype
    if d == dtypes.bool_ or d.itemsize == 1:
        return self
    if dtypes.kind(d) == "c":
        return p.complex_p(_byteswap(p.real_p(self)), _byteswap(p.imag_p(self)))
    octets = lax.bitcast_convert_type(self, np.uint8)
    return lax.bitcast_convert_type(lax.rev(octets, (octets.ndim - 1,)), d)


def _round(self: Array, ndigits: int | None = None) -> Array:
    if ndigits is None:  # Python's round(x): an integer
        return creation.astype(elementwise.round(self), dtypes.default_int()) if dtypes.kind(self.aval.dtype) in "fc" else self
    return elementwise.round(self, ndigits)


def _flat(self: Array) -> Any:
    raise NotImplementedError("arrays have no `flat`: x.ravel() or x.flatten() is a vector of the elements")


def _flatten(self: Array, order: str = "C", *, out_sharding: Any = None) -> Array:
    return manipulation.ravel(self, order)


def _copy(self: Array) -> Array:
    return creation.copy(self)


def _namespace(self: Array, *, api_version: str | None = None) -> Any:
    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12", "2025.12"):
        raise ValueError(f"api_version={api_version!r} is not available; the array API standard 2025.12 is")
    return array_namespace[0]


def _impl(self: Array) -> dtypes.KeyDType:
    """The implementation of keys. AttributeError for other arrays."""
    d = self.aval.dtype
    if not isinstance(d, dtypes.KeyDType):
        raise AttributeError(f"an array of dtype {d.name} has no _impl")
    return d


METHODS: Final[dict[str, Any]] = {
    **_operators(),
    "__getitem__": _getitem,
    "__setitem__": _setitem,
    "__iter__": _iter,
    "__reversed__": _reversed,
    "__contains__": _contains,
    "__round__": _round,
    "__hash__": None,
    "__array_namespace__": _namespace,
    "__array_priority__": 100,
    "__numpy_dtype__": property(_numpy_dtype, doc="What `np.dtype(x)` asks for, with a DeprecationWarning: an array is no dtype."),
    "T": property(lambda self: manipulation.transpose(self), doc="The array with its axes reversed."),
    "mT": property(lambda self: manipulation.matrix_transpose(self), doc="The array with its last two axes exchanged."),
    "real": property(lambda self: elementwise.real(self), doc="The real part."),
    "imag": property(lambda self: elementwise.imag(self), doc="The imaginary part."),
    "at": property(_IndexUpdateHelper, doc="`x.at[idx].set(y)` and its like: x with a part changed."),
    "flat": property(_flat),
    "_impl": property(_impl),
    "reshape": _reshape,
    "transpose": _transpose,
    "astype": _astype,
    "view": _view,
    "byteswap": _byteswap,
    "flatten": _flatten,
    "copy": _copy,
    "clone": _copy,
    "all": lambda self, axis=None, out=None, keepdims=False, *, where=None: reductions.all(self, axis, out, keepdims, where=where),
    "any": lambda self, axis=None, out=None, keepdims=False, *, where=None: reductions.any(self, axis, out, keepdims, where=where),
    "argmax": lambda self, axis=None, out=None, keepdims=None: reductions.argmax(self, axis, out, keepdims),
    "argmin": lambda self, axis=None, out=None, keepdims=None: reductions.argmin(self, axis, out, keepdims),
    "argpartition": lambda self, kth, axis=-1: sorting.argpartition(self, kth, axis),
    "argsort": lambda self, axis=-1, *, kind=None, order=None, stable=True, descending=False: sorting.argsort(
        self, axis, kind=kind, order=order, stable=stable, descending=descending
    ),
    "choose": lambda self, choices, out=None, mode="raise": selection.choose(self, choices, out, mode),
    "clip": lambda self, min=None, max=None: elementwise.clip(self, min, max),
    "compress": lambda self, condition, axis=None, *, out=None, size=None, fill_value=0: selection.compress(
        condition, self, axis, size=size, fill_value=fill_value, out=out
    ),
    "conj": lambda self: elementwise.conj(self),
    "conjugate": lambda self: elementwise.conj(self),
    "cumprod": lambda self, axis=None, dtype=None, out=None: reductions.cumprod(self, axis, dtype, out),
    "cumsum": lambda self, axis=None, dtype=None, out=None: reductions.cumsum(self, axis, dtype, out),
    "diagonal": lambda self, offset=0, axis1=0, axis2=1: manipulation.diagonal(self, offset, axis1, axis2),
    "dot": lambda self, b, *, precision=None, preferred_element_type=None: linear.dot(
        self, b, precision=precision, preferred_element_type=preferred_element_type
    ),
    "max": lambda self, axis=None, out=None, keepdims=False, initial=None, where=None: reductions.max(
        self, axis, out, keepdims, initial, where
    ),
    "mean": lambda self, axis=None, dtype=None, out=None, keepdims=False, *, where=None: reductions.mean(
        self, axis, dtype, out, keepdims, where=where
    ),
    "min": lambda self, axis=None, out=None, keepdims=False, initial=None, where=None: reductions.min(
        self, axis, out, keepdims, initial, where
    ),
    "nonzero": lambda self, *, fill_value=None, size=None: selection.nonzero(self, size=size, fill_value=fill_value),
    "prod": lambda self, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=None, promote_integers=True: reductions.prod(
        self, axis, dtype, out, keepdims, initial, where, promote_integers
    ),
    "ptp": lambda self, axis=None, out=None, keepdims=False: reductions.ptp(self, axis, out, keepdims),
    "ravel": lambda self, order="C", *, out_sharding=None: manipulation.ravel(self, order),
    "repeat": lambda self, repeats, axis=None, *, total_repeat_length=None, out_sharding=None: manipulation.repeat(
        self, repeats, axis, total_repeat_length=total_repeat_length
    ),
    "round": lambda self, decimals=0, out=None: elementwise.round(self, decimals, out),
    "searchsorted": lambda self, v, side="left", sorter=None, *, method="scan": sorting.searchsorted(self, v, side, sorter, method=method),
    "sort": lambda self, axis=-1, *, kind=None, order=None, stable=True, descending=False: sorting.sort(
        self, axis, kind=kind, order=order, stable=stable, descending=descending
    ),
    "squeeze": lambda self, axis=None: manipulation.squeeze(self, axis),
    "std": lambda self, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=None, correction=None: reductions.std(
        self, axis, dtype, out, ddof, keepdims, where=where, correction=correction
    ),
    "sum": lambda self, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=None, promote_integers=True: reductions.sum(
        self, axis, dtype, out, keepdims, initial, where, promote_integers
    ),
    "swapaxes": lambda self, axis1, axis2: manipulation.swapaxes(self, axis1, axis2),
    "take": lambda self, indices, axis=None, out=None, mode=None, unique_indices=False, indices_are_sorted=False, fill_value=None: (
        taking.take(self, indices, axis, out, mode, unique_indices, indices_are_sorted, fill_value)
    ),
    "trace": lambda self, offset=0, axis1=0, axis2=1, dtype=None, out=None: manipulation.trace(self, offset, axis1, axis2, dtype, out),
    "var": lambda self, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=None, correction=None: reductions.var(
        self, axis, dtype, out, ddof, keepdims, where=where, correction=correction
    ),
}


# of concrete arrays


def _repr(self: ArrayImpl) -> str:
    """`Array([1., 2.], dtype=float32)`."""
    d = self.dtype
    if dtypes.is_key(d):
        return f"Array({self.shape}, dtype={d.name}) overlaying:\n{self._value}"
    about = f"dtype={d.name}, weak_type=True)" if self.weak_type else f"dtype={d.name})"
    if self.size == 0:
        return f"Array([], shape={self.shape}, {about}"
    prefix = "Array("
    width = np.get_printoptions()["linewidth"]
    text = np.array2string(self._value, prefix=prefix, suffix=",", separator=", ", max_line_width=width)
    last = len(text) - text.rfind("\n") - 1
    gap = " " if last + len(about) + 3 <= width else " " * len(prefix)
    return f"{prefix}{text},{gap}{about}"


def _str(self: ArrayImpl) -> str:
    return repr(self) if dtypes.is_key(self.dtype) else str(self._value)


def _format(self: ArrayImpl, spec: str) -> str:
    if dtypes.is_key(self.dtype):
        return format(repr(self), spec)
    return format(self._value[()], spec) if self.ndim == 0 else format(self._value, spec)


def _tobytes(self: ArrayImpl, order: str = "C") -> bytes:
    return self._value.tobytes(order)


def _base_array(self: ArrayImpl) -> ArrayImpl:
    """The words of keys, in the same memory. AttributeError for other arrays."""
    d = self.dtype
    if not isinstance(d, dtypes.KeyDType):
        raise AttributeError(f"an array of dtype {d.name} has no _base_array")
    return self.with_aval(ShapedArray((*self.shape, d.words), dtypes.uint32))


def _hex(self: ArrayImpl) -> str:
    return hex(operator.index(self))


def _oct(self: ArrayImpl) -> str:
    return oct(operator.index(self))


CONCRETE: Final[dict[str, Any]] = {
    "__repr__": _repr,
    "__str__": _str,
    "__format__": _format,
    "_base_array": property(_base_array),
    "__hex__": _hex,
    "__oct__": _oct,
    "tobytes": _tobytes,
}

install_methods(METHODS)
install_methods(CONCRETE, (ArrayImpl,))
install_methods(_native_operators(METHODS), (ArrayImpl,))
for _method in METHODS.values():
    if callable(_method) and getattr(_method, "__name__", "") == "<lambda>":
        _method.__name__ = _method.__qualname__ = next(n for n, m in METHODS.items() if m is _method)
