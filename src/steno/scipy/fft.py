"""scipy.fft: discrete cosine transforms of the second type and their inverses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from steno import lax
from steno.core import dtypes
from steno.lax import records as p
from steno.numpy import fft as nfft
from steno.numpy.elementwise import const
from steno.numpy.operands import Array, promoted_inexact


def _check(fun: str, type: int, norm: str | None) -> None:
    if type != 2:
        raise NotImplementedError(f"{fun}: Only DCT type 2 is implemented.")
    if norm not in (None, "backward", "ortho"):
        raise ValueError(f"jax.scipy.fft.{fun}: norm={norm!r} is not implemented")


def _on_parts(f: Callable[[Array], Array], x: Array) -> Array:
    """A real linear function of real and imaginary parts."""
    if not dtypes.is_complex(x.aval.dtype):
        return f(x)
    return lax.complex(f(p.real_p(x)), f(p.imag_p(x)))


def _sized(fun: str, x: Array, n: int, axis: int) -> Array:
    if n < 1:
        raise ValueError(f"{fun}: the length of a transform must be positive, got {n}")
    config = [(0, n - x.shape[axis] if d == axis else 0, 0) for d in range(x.ndim)]
    return x if n == x.shape[axis] else p.pad_p(x, const(0, x.aval.dtype), padding_config=tuple(config))


def _along_last(f: Callable[[Array], Array], x: Array, axis: int) -> Array:
    order = [d for d in range(x.ndim) if d != axis] + [axis]
    back = sorted(range(x.ndim), key=order.__getitem__)
    return lax.transpose(f(lax.transpose(x, order)), back)


def _turns(n: int, count: int, sign: int, dtype: Any) -> Array:
    """exp(sign i pi k / 2n) for the first k."""
    angles = sign * math.pi * np.arange(count) / (2 * n)
    return lax.complex(*(_constant(f(angles), dtype) for f in (np.cos, np.sin)))


def _constant(value: np.ndarray, dtype: Any) -> Array:
    return lax.full_like(value.astype(dtype), 0) + value.astype(dtype)


def _by_row(op: Any, x: Array, row: Array) -> Array:
    return op(x, lax.broadcast_in_dim(row, x.shape, (x.ndim - 1,)))


def _dct_last(x: Array, norm: str | None) -> Array:
    """By a real transform of the even elements, then the odd ones in descending order (Makhoul, 1980)."""
    n = x.shape[-1]
    axis = x.ndim - 1
    dtype = x.aval.dtype
    even = lax.slice_in_dim(x, 0, n, 2, axis)
    odd = lax.slice_in_dim(x, 1, n, 2, axis) if n > 1 else None
    mixed = even if odd is None else lax.concatenate([even, lax.rev(odd, (axis,))], axis)
    turned = _by_row(p.mul_p, nfft.fft(mixed), _turns(n, n, -1, dtype))
    out = p.mul_p(p.real_p(turned), const(2, dtype))
    return _by_row(p.mul_p, out, _ortho(n, dtype)) if norm == "ortho" else out


def _ortho(n: int, dtype: Any) -> Array:
    scale = np.full(n, 1 / math.sqrt(2 * n))
    scale[0] = 1 / math.sqrt(4 * n)
    return _constant(scale, dtype)


def _idct_last(x: Array, norm: str | None) -> Array:
    n = x.shape[-1]
    axis = x.ndim - 1
    dtype = x.aval.dtype
    if norm == "ortho":
        x = _by_row(p.div_p, x, _ortho(n, dtype))
    half = n // 2 + 1
    zero = const(0, dtype)
    first = lax.slice_in_dim(x, 0, half, 1, axis) if half <= n else x
    behind = p.pad_p(lax.rev(x, (axis,)), zero, padding_config=((0, 0, 0),) * axis + ((1, 0, 0),))  # 0, x[n - 1], ..., x[0]
    second = lax.slice_in_dim(behind, 0, half, 1, axis)
    spectrum = lax.complex(first, p.neg_p(second))
    spectrum = _by_row(p.mul_p, spectrum, _turns(n, half, 1, dtype))
    mixed = p.mul_p(nfft.irfft(spectrum, n), const(0.5, dtype))
    count = n - n // 2
    even = lax.slice_in_dim(mixed, 0, count, 1, axis)
    if n == 1:
        return even
    odd = lax.rev(lax.slice_in_dim(mixed, count, n, 1, axis), (axis,))
    batch = ((0, 0, 0),) * axis
    spread = p.pad_p(even, zero, padding_config=(*batch, (0, n - (2 * count - 1), 1)))
    return p.add_p(spread, p.pad_p(odd, zero, padding_config=(*batch, (1, n - 2 * (n // 2), 1))))


def _one(fun: str, f: Any, x: Array, type: int, n: int | None, axis: int, norm: str | None) -> Array:
    _check(fun, type, norm)
    (y,) = promoted_inexact(fun, x)
    axis = _axis(axis, y.ndim)
    if n is not None:
        y = _sized(fun, y, n, axis)
    return _on_parts(lambda v: _along_last(lambda w: f(w, norm), v, axis), y)


def _axis(axis: int, ndim: int) -> int:
    if not -ndim <= axis < ndim:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {ndim}")
    return axis % ndim


def _several(
    fun: str, f: Any, x: Array, type: int, s: Sequence[int] | None, axes: Sequence[int] | None, norm: str | None
) -> Array:  # fmt: skip
    _check(fun, type, norm)
    (y,) = promoted_inexact(fun, x)
    if s is not None and len(s) > y.ndim:
        raise ValueError(f"{fun}: s must have at most x.ndim ({y.ndim}) elements, got {len(s)}")
    if axes is None:
        axes = tuple(range(y.ndim))[-len(s) :] if s is not None else tuple(range(y.ndim))
    own = [_axis(a, y.ndim) for a in axes]
    for k, axis in enumerate(own):
        y = _one(fun, f, y, type, s[k] if s is not None and k < len(s) else None, axis, norm)
    return y


def dct(x: Array, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The discrete cosine transform along an axis, cut or filled with zeros to `n`: 2 sum x[j] cos(pi k (2 j + 1) / 2 n); with norm "ortho"
    as an orthogonal matrix. NotImplementedError for types other than 2."""
    return _one("dct", _dct_last, x, type, n, axis, norm)


def idct(x: Array, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `dct`."""
    return _one("idct", _idct_last, x, type, n, axis, norm)


def dctn(
    x: Array, type: int = 2, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None
) -> Array:  # fmt: skip
    """`dct` along several axes (None: all, or the last ones that `s` has sizes for)."""
    return _several("dctn", _dct_last, x, type, s, axes, norm)


def idctn(
    x: Array, type: int = 2, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None
) -> Array:  # fmt: skip
    """The inverse of `dctn`."""
    return _several("idctn", _idct_last, x, type, s, axes, norm)


__all__ = ["dct", "dctn", "idct", "idctn"]
