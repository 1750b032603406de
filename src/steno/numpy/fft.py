"""numpy.fft: discrete Fourier transforms."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from steno import lax
from steno.core import dtypes
from steno.core.sizes import UnknownSize
from steno.lax import records as p
from steno.lax.fourier import FftType, fft as _transform
from steno.numpy import elementwise as e
from steno.numpy.creation import laid_out
from steno.numpy.elementwise import conj, const
from steno.numpy.manipulation import moveaxis, roll
from steno.numpy.operands import Array, ArrayLike, DTypeLike, as_array, check_arraylike

_NORMS: Final = ("backward", "ortho", "forward")
_FORWARD: Final = (FftType.FFT, FftType.RFFT)


def _lengths(fun: str, kind: FftType, shape: Sequence[int], s: Sequence[int] | None, axes: Sequence[int]) -> tuple[int, ...]:
    """The sizes of the transform along `axes`. ValueError for those that are not positive."""
    if s is None:
        sizes = [shape[a] for a in axes]
        if kind == FftType.IRFFT and axes:
            sizes[-1] = max(0, 2 * (sizes[-1] - 1))
        return tuple(sizes)
    sizes = [operator.index(n) for n in s]
    if any(n <= 0 for n in sizes):
        raise ValueError(f"{fun}: Shape should be positive, got {tuple(sizes)}.")
    return tuple(sizes)


def _fft(fun: str, kind: FftType, a: ArrayLike, s: Sequence[int] | None, axes: Sequence[int] | None, norm: str | None) -> Array:
    check_arraylike(fun, a)
    x = as_array(fun, a)
    if norm is not None and norm not in _NORMS:
        raise ValueError(f'{fun}: Invalid norm value {norm}; should be "backward","ortho" or "forward".')
    if s is not None and axes is not None and len(s) != len(axes):
        raise ValueError(f"{fun}: Shape and axes have different lengths, {tuple(s)} and {tuple(axes)}.")
    if axes is None:
        count = x.ndim if s is None else len(tuple(s))
        if count > x.ndim:
            raise ValueError(f"{fun}: FFT input shape {x.shape} must have at least as many input dimensions as s, {s}.")
        axes = range(x.ndim - count, x.ndim)
    named = [operator.index(k) for k in axes]
    if any(not -x.ndim <= k < x.ndim for k in named):
        raise ValueError(
            f"{fun}: axis {next(k for k in named if not -x.ndim <= k < x.ndim)} is out of bounds for array of dimension {x.ndim}"
        )
    own = tuple(k % x.ndim for k in named)
    if len(set(own)) != len(own):
        raise ValueError(f"jax.numpy.fft.{fun} does not support repeated axes. Got axes {axes}.")
    if not own:
        return _transform(x, kind, ()) if kind in (FftType.FFT, FftType.IFFT) else x
    lengths = _lengths(fun, kind, x.shape, s, own)
    # the transformed axes last, of the transform's sizes
    last = tuple(range(x.ndim - len(own), x.ndim))
    moved = moveaxis(x, own, last)
    sizes = [*lengths[:-1], lengths[-1] // 2 + 1 if lengths[-1] else 0] if kind == FftType.IRFFT else list(lengths)
    config = [(0, 0, 0)] * (x.ndim - len(own)) + [(0, n - m, 0) for n, m in zip(sizes, moved.shape[x.ndim - len(own) :], strict=True)]
    if any(high for _, high, _ in config):
        moved = p.pad_p(moved, const(0, moved.aval.dtype), padding_config=tuple(config))
    out = _in_threes(moved, kind, lengths)
    scale = _scale(norm, kind, math.prod(lengths))
    if scale != 1:
        out = p.mul_p(out, const(scale, out.aval.dtype))
    return moveaxis(out, last, own)


def _in_threes(x: Array, kind: FftType, lengths: Sequence[int]) -> Array:
    """The transform over the last axes, three at a time: of real numbers, or to them, where the last three are."""
    n = len(lengths)
    if n <= 3:
        return _transform(x, kind, tuple(lengths))
    rest = {FftType.RFFT: FftType.FFT, FftType.IRFFT: FftType.IFFT}.get(kind, kind)
    last = tuple(range(x.ndim - n, x.ndim))
    turned = last[n - 3 :] + last[: n - 3]  # the last three go first

    def outer(y: Array) -> Array:
        y = moveaxis(y, turned, last)
        return moveaxis(_in_threes(y, rest, lengths[: n - 3]), last, turned)

    if kind == FftType.IRFFT:
        return _transform(outer(x), kind, tuple(lengths[n - 3 :]))
    return outer(_transform(x, kind, tuple(lengths[n - 3 :])))


def _scale(norm: str | None, kind: FftType, count: int) -> float:
    """What is left of the normalisation: inverse transforms are already divided by the number of elements."""
    if not count or norm in (None, "backward"):
        return 1.0
    if norm == "ortho":
        root = e.sqrt(count) if isinstance(count, UnknownSize) else math.sqrt(count)
        return 1 / root if kind in _FORWARD else root
    return 1 / count if kind in _FORWARD else count


def _one(fun: str, kind: FftType, a: ArrayLike, n: int | None, axis: Any, norm: str | None) -> Array:
    if isinstance(axis, tuple | list):
        raise ValueError(f"jax.numpy.fft.{fun} does not support multiple axes. Please use jax.numpy.fft.{fun}n. Got axis = {axis}.")
    return _fft(fun, kind, a, None if n is None else (n,), (-1 if axis is None else axis,), norm)


def _two(fun: str, kind: FftType, a: ArrayLike, s: Sequence[int] | None, axes: Sequence[int], norm: str | None) -> Array:
    if len(axes) != 2:
        raise ValueError(f"jax.numpy.fft.{fun} only supports 2 axes. Got axes = {axes}.")
    return _fft(fun, kind, a, s, axes, norm)


def fft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The transform along an axis, cut or filled with zeros to `n`. norm: "backward" (None: inverse transforms are divided by n), "forward"
    (the others are), "ortho" (both, by the square root).

    >>> jnp.fft.fft(jnp.array([1.0, 0.0]))
    Array([1.+0.j, 1.+0.j], dtype=complex64)
    """
    return _one("fft", FftType.FFT, a, n, axis, norm)


def ifft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `fft`."""
    return _one("ifft", FftType.IFFT, a, n, axis, norm)


def rfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The first n // 2 + 1 numbers of the transform of real ones, along an axis. ValueError for complex ones."""
    return _one("rfft", FftType.RFFT, a, n, axis, norm)


def irfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `rfft`: n real numbers (default: an even number, 2 (m - 1) from m)."""
    return _one("irfft", FftType.IRFFT, a, n, axis, norm)


def fft2(a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Array:
    """`fftn` over two axes."""
    return _two("fft2", FftType.FFT, a, s, axes, norm)


def ifft2(a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Array:
    """`ifftn` over two axes."""
    return _two("ifft2", FftType.IFFT, a, s, axes, norm)


def rfft2(a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Array:
    """`rfftn` over two axes."""
    return _two("rfft2", FftType.RFFT, a, s, axes, norm)


def irfft2(a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Array:
    """`irfftn` over two axes."""
    return _two("irfft2", FftType.IRFFT, a, s, axes, norm)


def fftn(a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Array:
    """The transform over several axes (None: all, or the last ones that `s` has sizes for)."""
    return _fft("fftn", FftType.FFT, a, s, axes, norm)


def ifftn(a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Array:
    """The inverse of `fftn`."""
    return _fft("ifftn", FftType.IFFT, a, s, axes, norm)


def rfftn(a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Array:
    """The transform of real numbers over several axes; along the last of them only the first half."""
    return _fft("rfftn", FftType.RFFT, a, s, axes, norm)


def irfftn(a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Array:
    """The inverse of `rfftn`."""
    return _fft("irfftn", FftType.IRFFT, a, s, axes, norm)


_SWAPPED: Final = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


def _swapped(fun: str, norm: str | None) -> str:
    if norm not in _SWAPPED:
        raise ValueError(f'{fun}: Invalid norm value {norm}; should be "backward","ortho" or "forward".')
    return _SWAPPED[norm]


def hfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The (real) transform of numbers whose second half is the conjugate of the first, which is given."""
    check_arraylike("hfft", a)
    return _one("hfft", FftType.IRFFT, conj(a), n, axis, _swapped("hfft", norm))


def ihfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `hfft`."""
    check_arraylike("ihfft", a)
    return conj(_one("ihfft", FftType.RFFT, a, n, axis, _swapped("ihfft", norm)))


def fftfreq(n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike | None = None, device: Any = None) -> Array:
    """The frequencies of `fft`'s numbers, in cycles per unit of the distance `d` of samples: 0, 1, ..., -2, -1 over d n."""
    n = _count("fftfreq", n)
    k = np.concatenate([np.arange((n - 1) // 2 + 1), np.arange(-(n // 2), 0)]) if n > 0 else np.zeros(0, int)
    return laid_out(_scaled("fftfreq", k, n, d, dtype), device)


def rfftfreq(n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike | None = None, device: Any = None) -> Array:
    """The frequencies of `rfft`'s numbers: 0, 1, ..., n // 2 over d n."""
    n = _count("rfftfreq", n)
    return laid_out(_scaled("rfftfreq", np.arange(n // 2 + 1), n, d, dtype), device)


def _count(fun: str, n: Any) -> int:
    if isinstance(n, list | tuple):
        raise ValueError(f"The n argument of jax.numpy.fft.{fun} only takes an int. Got n = {n}.")
    return operator.index(int(n)) if isinstance(n, float) and n == int(n) else operator.index(n)


def _scaled(fun: str, k: np.ndarray, n: int, d: Any, dtype: Any) -> Array:
    if isinstance(d, list | tuple):
        raise ValueError(f"The d argument of jax.numpy.fft.{fun} only takes a single value. Got d = {d}.")
    wanted = dtypes.canonical(dtypes.float64) if dtype is None else dtypes.canonical(dtypes.as_dtype(dtype))
    positions = p.convert_element_type_p(as_array(fun, k.astype(np.int32)), new_dtype=wanted, weak_type=False, sharding=None)
    spacing = as_array(fun, d)
    if dtypes.is_complex(spacing.aval.dtype):
        raise TypeError(f"{fun}: the distance of samples must be real, got a complex number")
    spacing = p.convert_element_type_p(spacing, new_dtype=wanted, weak_type=False, sharding=None)
    total = p.mul_p(spacing, const(n, wanted))
    return lax.div(positions, lax.broadcast_in_dim(total, positions.shape, ()) if total.ndim == 0 else total)


def fftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Array:
    """The zero frequency moved to the middle of the axes (None: of all)."""
    return _shift("fftshift", x, axes, lambda n: n // 2)


def ifftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Array:
    """The inverse of `fftshift`."""
    return _shift("ifftshift", x, axes, lambda n: -(n // 2))


def _shift(fun: str, x: ArrayLike, axes: int | Sequence[int] | None, by: Any) -> Array:
    check_arraylike(fun, x)
    y = as_array(fun, x)
    if axes is None:
        axes = tuple(range(y.ndim))
    elif isinstance(axes, int | np.integer):
        axes = (int(axes),)
    named = [operator.index(a) for a in axes]
    for a in named:
        if not -y.ndim <= a < y.ndim:
            raise IndexError(f"{fun}: axis {a} is out of bounds for an array of rank {y.ndim}")
    return roll(y, [by(y.shape[a]) for a in named], named)


__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft", "irfft2", "irfftn",
    "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip
