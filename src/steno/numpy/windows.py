"""Window functions, packed bits, printing, and saving."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from steno import lax
from steno._native import ArrayImpl
from steno.core import dtypes
from steno.lax import records as p
from steno.numpy import elementwise as e
from steno.numpy.creation import asarray
from steno.numpy.operands import Array, ArrayLike, as_array, canonical_axis, convert, static_index

# windows


def _cosines(fun: str, m: Any, coefficients: tuple[float, ...]) -> Array:
    """Sum of (-1)**k c_k cos(2 pi k n / (m - 1))."""
    n = static_index(fun, m, "M")
    d = dtypes.default_float()
    if n <= 1:
        return lax.full((max(n, 0),), 1, d)
    i = lax.iota(d, n)
    out: Any = None
    for k, c in enumerate(coefficients):
        if k == 0:
            out = lax.full((n,), c, d)
            continue
        wave = p.cos_p(p.mul_p(e.const(2 * math.pi * k / (n - 1), d), i), accuracy=None)
        term = p.mul_p(e.const(c, d), wave)
        out = p.sub_p(out, term) if k % 2 else p.add_p(out, term)
    return out


def hanning(M: int) -> Array:
    """Hann's window."""
    return _cosines("hanning", M, (0.5, 0.5))


def hamming(M: int) -> Array:
    """Hamming's window."""
    return _cosines("hamming", M, (0.54, 0.46))


def blackman(M: int) -> Array:
    """Blackman's window."""
    return _cosines("blackman", M, (0.42, 0.5, 0.08))


def bartlett(M: int) -> Array:
    """Bartlett's window: a triangle."""
    n = static_index("bartlett", M, "M")
    d = dtypes.default_float()
    if n <= 1:
        return lax.full((max(n, 0),), 1, d)
    i = lax.iota(d, n)
    middle = (n - 1) / 2
    distance = p.abs_p(p.sub_p(i, e.const(middle, d)))
    return p.sub_p(e.const(1, d), p.div_p(distance, e.const(middle, d)))


def kaiser(M: int, beta: ArrayLike) -> Array:
    """Kaiser's window."""
    n = static_index("kaiser", M, "M")
    d = dtypes.default_float()
    if n <= 1:
        return lax.full((max(n, 0),), 1, d)
    b = convert(as_array("kaiser", beta), d)
    half = e.const((n - 1) / 2, d)
    x = p.div_p(p.sub_p(lax.iota(d, n), half), half)
    inside = p.sqrt_p(p.sub_p(e.const(1, d), p.mul_p(x, x)), accuracy=None)
    return e.divide(e.i0(e.multiply(b, inside)), e.i0(b))


# packed bits


def packbits(a: ArrayLike, axis: int | None = None, bitorder: str = "big") -> Array:
    """Truth values (bools or integers) as bits of uint8, eight along an axis (the flattened array's) to a byte."""
    x = as_array("packbits", a)
    if dtypes.kind(x.aval.dtype) not in "biu":
        raise TypeError(f"packbits: expected bools or integers, got dtype {dtypes.name(x.aval.dtype)}")
    if bitorder not in ("little", "big"):
        raise ValueError(f"packbits: bitorder must be 'big' or 'little', got {bitorder!r}")
    x = e.as_bool(x)
    if axis is None:
        x, axis = lax.reshape(x, (x.size,)), 0
    k = canonical_axis(axis, x.ndim)
    n = x.shape[k]
    x = convert(x, dtypes.uint8)
    rest = -n % 8
    x = p.pad_p(x, e.const(0, dtypes.uint8), padding_config=tuple((0, rest, 0) if j == k else (0, 0, 0) for j in range(x.ndim)))
    shape = (*x.shape[:k], (n + rest) // 8, 8, *x.shape[k + 1 :])
    places = np.arange(8, dtype=np.uint8) if bitorder == "little" else np.arange(7, -1, -1).astype(np.uint8)
    shifts = lax.broadcast_in_dim(asarray(places), shape, (k + 1,))
    shifted = p.shift_left_p(lax.reshape(x, shape), shifts)
    return lax.reduce_or(shifted, (k + 1,))


def unpackbits(a: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Array:
    """The bits of uint8 as 0 and 1, eight to a byte along an axis; of `count`, so many (negative: all but so many)."""
    x = as_array("unpackbits", a)
    if x.aval.dtype != dtypes.uint8:
        raise TypeError(f"unpackbits: expected uint8, got dtype {dtypes.name(x.aval.dtype)}")
    if bitorder not in ("little", "big"):
        raise ValueError(f"unpackbits: bitorder must be 'big' or 'little', got {bitorder!r}")
    if axis is None:
        x, axis = lax.reshape(x, (x.size,)), 0
    k = canonical_axis(axis, x.ndim)
    n = x.shape[k]
    wide = (*x.shape[: k + 1], 8, *x.shape[k + 1 :])
    places = np.arange(8, dtype=np.uint8) if bitorder == "little" else np.arange(7, -1, -1).astype(np.uint8)
    spread = lax.broadcast_in_dim(x, wide, [j for j in range(len(wide)) if j != k + 1])
    shifts = lax.broadcast_in_dim(asarray(places), wide, (k + 1,))
    bits = p.and_p(p.shift_right_logical_p(spread, shifts), e.const(1, dtypes.uint8))
    bits = lax.reshape(bits, (*x.shape[:k], 8 * n, *x.shape[k + 1 :]))
    if count is None:
        return bits
    if count > 8 * n:
        return p.pad_p(
            bits, e.const(0, dtypes.uint8), padding_config=tuple((0, count - 8 * n, 0) if j == k else (0, 0, 0) for j in range(x.ndim))
        )
    return lax.slice_in_dim(bits, 0, count, axis=k)


# printing and files

set_printoptions = np.set_printoptions
get_printoptions = np.get_printoptions
printoptions = np.printoptions


def array_repr(arr: Any, max_line_width: Any = None, precision: Any = None, suppress_small: Any = None) -> str:
    """NumPy's `array_repr`, of the array's values."""
    if isinstance(arr, ArrayImpl):
        text = np.array_repr(np.asarray(arr), max_line_width, precision, suppress_small)
        return "ArrayImpl" + text.removeprefix("array")
    return np.array_repr(np.asarray(arr), max_line_width, precision, suppress_small)


def array_str(a: Any, max_line_width: Any = None, precision: Any = None, suppress_small: Any = None) -> str:
    """NumPy's `array_str`, of the array's values."""
    return np.array_str(np.asarray(a), max_line_width, precision, suppress_small)


def save(file: Any, arr: Any, allow_pickle: bool = True) -> None:
    """Writes an array to a file of NumPy's format."""
    np.save(file, np.asarray(arr), allow_pickle=allow_pickle)


def savez(file: Any, *args: Any, allow_pickle: bool = True, **kwds: Any) -> None:
    """Writes arrays to a file of NumPy's zipped format."""
    np.savez(file, *map(np.asarray, args), **{k: np.asarray(v) for k, v in kwds.items()})


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """Reads an array from a file of NumPy's format; dtypes that NumPy does not name in it come back as raw bytes,
    arrays of Python objects (which need `allow_pickle`) as NumPy arrays. Raw bytes in twos are bfloat16."""
    out = np.load(file, *args, **kwargs)
    if isinstance(out, np.ndarray) and out.dtype == np.dtype("V2"):
        out = out.view(dtypes.bfloat16)
    return asarray(out) if isinstance(out, np.ndarray) and out.dtype != object else out


def iterable(y: Any) -> bool:
    """Whether it can be iterated over."""
    return bool(np.iterable(y))


def apply_over_axes(func: Callable[..., Any], a: ArrayLike, axes: Any) -> Array:
    """`func(array, axis)` for each of the axes in turn; reduced axes stay, of size 1."""
    x = as_array("apply_over_axes", a)
    given = (axes,) if isinstance(axes, int | np.integer) else tuple(axes)
    for axis in given:
        out = as_array("apply_over_axes", func(x, axis))
        if out.ndim == x.ndim - 1:
            out = lax.expand_dims(out, (canonical_axis(axis, x.ndim),))
        elif out.ndim != x.ndim:
            raise ValueError(
                f"apply_over_axes: the function must keep the number of axes or take one away, got shape {out.shape} for {x.shape}"
            )
        x = out
    return x
