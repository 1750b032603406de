"""The spectra of scipy.signal: short-time Fourier transforms, Welch's densities, detrending."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from steno import lax
from steno.core import dtypes
from steno.lax import records as p
from steno.numpy import fft as transforms
from steno.numpy.elementwise import conj, const
from steno.numpy.manipulation import moveaxis
from steno.numpy.operands import Array, ArrayLike, as_array, check_arraylike, promoted_inexact
from steno.numpy.reductions import mean
from steno.numpy.statistics import median
from steno.ops.reduce_window import window_patches, window_unpatch

_COSINES: Final = {
    "boxcar": (1.0,), "hann": (0.5, 0.5), "hamming": (0.54, 0.46), "blackman": (0.42, 0.5, 0.08),
    "nuttall": (0.3635819, 0.4891775, 0.1365995, 0.0106411), "blackmanharris": (0.35875, 0.48829, 0.14128, 0.01168),
    "flattop": (0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368),
}  # fmt: skip
"""Windows that are sums of cosines: the factors of cos(2 pi k j / n), with signs in turn."""


def _triangle(m: int) -> np.ndarray:
    """A symmetric triangle of m elements, the ends above zero."""
    rise = np.arange(1, (m + 1) // 2 + 1)
    up = (2 * rise - 1) / m if m % 2 == 0 else 2 * rise / (m + 1)
    return np.concatenate([up, up[::-1][m % 2 :]])


_OTHERS: Final = {
    "triang": _triangle,
    "bartlett": lambda m: 1 - np.abs(2 * np.arange(m) / (m - 1) - 1),
    "cosine": lambda m: np.sin(np.pi / m * (np.arange(m) + 0.5)),
}


def _window(fun: str, window: Any, n: int) -> np.ndarray | Array:
    """A periodic window by its name, or the one given."""
    if isinstance(window, tuple) and len(window) == 1:
        (window,) = window
    if not isinstance(window, str):
        if isinstance(window, tuple):
            raise NotImplementedError(f"{fun}: windows with parameters are not implemented, got {window!r}; give the window as an array")
        given = as_array(fun, window)
        if given.ndim != 1 or given.shape[0] != n:
            raise ValueError(f"{fun}: window must be a vector of nperseg = {n} elements, got shape {given.shape}")
        return given
    if window in _OTHERS:
        return _OTHERS[window](n + 1)[:n] if n > 1 else np.ones(n)
    factors = _COSINES.get("hann" if window == "hanning" else window)
    if factors is None:
        raise NotImplementedError(f"{fun}: window {window!r} is not implemented; there are {', '.join([*_COSINES, *_OTHERS])}, and arrays")
    turns = 2 * np.pi * np.arange(n) / n if n > 1 else np.zeros(n)
    values = sum((-1) ** k * a * np.cos(k * turns) for k, a in enumerate(factors)) if n > 1 else np.ones(n)
    return np.asarray(values)


# detrending


def detrend(data: ArrayLike, axis: int = -1, type: str = "linear", bp: Any = 0, overwrite_data: None = None) -> Array:
    """data without the mean ("constant", "c") or the least-squares line ("linear", "l") of each piece between the break points `bp`."""
    if overwrite_data is not None:
        raise NotImplementedError("detrend: arrays are immutable, so overwrite_data is not implemented")
    if type not in ("constant", "linear", "c", "l"):
        raise ValueError(f"detrend: trend type must be 'linear' or 'constant', got {type!r}")
    check_arraylike("detrend", data)
    (x,) = promoted_inexact("detrend", data)
    if type in ("constant", "c"):
        return x - mean(x, axis=axis, keepdims=True)
    n = x.shape[axis]
    breaks = sorted({0, n, *np.atleast_1d(np.asarray(bp)).tolist()})
    if breaks[-1] > n:
        raise ValueError(f"detrend: break points must be at most the length of the axis, {n}, got {bp}")
    y = moveaxis(x, axis, -1)
    pieces = [_without_line(lax.slice_in_dim(y, a, b, 1, y.ndim - 1)) for a, b in zip(breaks, breaks[1:], strict=False)]
    return moveaxis(lax.concatenate(pieces, y.ndim - 1), -1, axis)


def _without_line(x: Array) -> Array:
    n = x.shape[-1]
    centred = x - mean(x, axis=-1, keepdims=True)
    if n < 2:
        return centred
    t = np.arange(n) - (n - 1) / 2
    slope = _by_row(p.mul_p, centred, t).sum(-1, keepdims=True) / float((t * t).sum())
    return centred - _by_row(p.mul_p, lax.broadcast_in_dim(slope, x.shape, tuple(range(x.ndim))), t)


def _real(x: Array) -> Any:
    return {dtypes.complex64: dtypes.float32, dtypes.complex128: dtypes.float64}.get(x.aval.dtype, x.aval.dtype)


def _like(values: Any, x: Array) -> Array:
    """Values as an array of x's (real) dtype."""
    if isinstance(values, np.ndarray):
        return as_array("spectrum", values.astype(_real(x)))
    return lax.convert_element_type(values, _real(x))


def _by_row(op: Any, x: Array, row: Any) -> Array:
    """An op of x and a vector along its last axis, taken for x's dtype."""
    values = lax.convert_element_type(_like(row, x), x.aval.dtype)
    return op(x, lax.broadcast_in_dim(values, x.shape, (x.ndim - 1,)))


def _over(x: Array, total: Array) -> Array:
    """x / total, a number."""
    return p.div_p(x, lax.broadcast_in_dim(lax.convert_element_type(total, x.aval.dtype), x.shape, ()))


def _detrending(fun: str, how: Any) -> Callable[[Array], Array]:
    """What is done to each segment, along the last axis."""
    if how is False or how is None:
        return lambda x: x
    if callable(how):
        return how
    if how in ("constant", "linear", "c", "l"):
        return lambda x: detrend(x, -1, how)
    raise ValueError(f"{fun}: detrend must be 'constant', 'linear', False or a function, got {how!r}")


# segments


def _sizes(fun: str, n: int, window: Any, nperseg: Any, noverlap: Any, nfft_: Any) -> tuple[int, int, int]:
    """(nperseg, noverlap, nfft) with their defaults. ValueError for those that do not fit."""
    if nperseg is None:
        nperseg = 256 if isinstance(window, str | tuple) else np.shape(window)[0]
        nperseg = min(nperseg, n) if isinstance(window, str | tuple) else nperseg
    nperseg = operator.index(int(nperseg))
    if nperseg < 1:
        raise ValueError(f"{fun}: nperseg must be a positive integer, got {nperseg}")
    if nperseg > n:
        warnings.warn(f"{fun}: nperseg = {nperseg} is greater than input length = {n}, using nperseg = {n}", stacklevel=4)
        nperseg = n
    noverlap = nperseg // 2 if noverlap is None else operator.index(int(noverlap))
    if noverlap >= nperseg:
        raise ValueError(f"{fun}: noverlap must be less than nperseg, got {noverlap} and {nperseg}")
    nfft_ = nperseg if nfft_ is None else operator.index(int(nfft_))
    if nfft_ < nperseg:
        raise ValueError(f"{fun}: nfft must be at least nperseg, got {nfft_} and {nperseg}")
    return nperseg, noverlap, nfft_


def _segments(x: Array, size: int, step: int) -> Array:
    """(..., n) --> (..., segment, size)."""
    n, rank = x.shape[-1], x.ndim
    count = (n - size) // step + 1
    one = (1,) * rank
    patches = window_patches(
        x, fill="zero", window_dimensions=(*one[1:], size), window_strides=(*one[1:], step), padding=((0, 0),) * rank, base_dilation=one,
        window_dilation=one,
    )  # fmt: skip
    return moveaxis(lax.reshape(patches, (size, *x.shape[:-1], count)), 0, -1)


def _padded(x: Array, low: int, high: int) -> Array:
    if not low and not high:
        return x
    return p.pad_p(x, const(0, x.aval.dtype), padding_config=((0, 0, 0),) * (x.ndim - 1) + ((low, high, 0),))


def _extended(fun: str, x: Array, boundary: str | None, n: int) -> Array:
    """x with n elements more at both ends of the last axis."""
    if boundary is None:
        return x
    if boundary == "zeros":
        return _padded(x, n, n)
    if boundary not in ("even", "odd", "constant"):
        raise ValueError(f"{fun}: boundary must be 'even', 'odd', 'constant', 'zeros' or None, got {boundary!r}")
    last = x.ndim - 1
    first, end = lax.slice_in_dim(x, 0, 1, 1, last), lax.slice_in_dim(x, x.shape[-1] - 1, x.shape[-1], 1, last)
    if boundary == "constant":
        shape = (*x.shape[:-1], n)
        left, right = (lax.broadcast_in_dim(v, shape, tuple(range(x.ndim))) for v in (first, end))
    else:
        left = lax.rev(lax.slice_in_dim(x, 1, n + 1, 1, last), (last,))
        right = lax.rev(lax.slice_in_dim(x, x.shape[-1] - n - 1, x.shape[-1] - 1, 1, last), (last,))
        if boundary == "odd":
            left, right = first + first - left, end + end - right
    return lax.concatenate([left, x, right], last)


def _spectra(
    fun: str, x: Array, y: Array | None, fs: Any, window: Any, nperseg: Any, noverlap: Any, nfft_: Any, how: Any, onesided: bool,
    scaling: str, axis: int, mode: str, boundary: str | None = None, padded: bool = False,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """(frequencies, times, numbers) of the segments; the numbers' axes are x's, with frequencies at `axis` and segments last."""
    if scaling not in ("density", "spectrum"):
        raise ValueError(f"{fun}: Unknown scaling: {scaling!r}")
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"{fun}: axis {axis} is out of bounds for array of dimension {x.ndim}")
    axis = axis % x.ndim
    x = moveaxis(x, axis, -1)
    if y is not None:
        y = moveaxis(y, axis, -1)
        n = max(x.shape[-1], y.shape[-1])
        x, y = _padded(x, 0, n - x.shape[-1]), _padded(y, 0, n - y.shape[-1])
    size, overlap, length = _sizes(fun, x.shape[-1], window, nperseg, noverlap, nfft_)
    step = size - overlap
    weights = _like(_window(fun, window, size), x)
    change = _detrending(fun, how)
    onesided = onesided and not dtypes.is_complex(x.aval.dtype) and (y is None or not dtypes.is_complex(y.aval.dtype))

    def transformed(v: Array) -> Array:
        v = _extended(fun, v, boundary, size // 2)
        if padded:
            v = _padded(v, 0, -(v.shape[-1] - size) % step % size)
        segments = _by_row(p.mul_p, change(_segments(v, size, step)), weights)
        return transforms.rfft(segments, length) if onesided else transforms.fft(segments, length)

    n = x.shape[-1] + (2 * (size // 2) if boundary is not None else 0)
    n += -(n - size) % step % size if padded else 0
    result = transformed(x)
    if mode == "stft":
        total = weights.sum() if scaling == "spectrum" else lax.sqrt((weights * weights).sum() * fs)
        result = _over(result, total)
    else:
        other = result if y is None else transformed(y)
        total = (weights * weights).sum() * fs if scaling == "density" else weights.sum() * weights.sum()
        result = _over(conj(result) * other, total)
        if onesided:
            doubled = np.ones(result.shape[-1])
            doubled[1 : -1 if length % 2 == 0 else None] = 2
            result = _by_row(p.mul_p, result, doubled)
        if y is None:
            result = p.real_p(result) if dtypes.is_complex(result.aval.dtype) else result
    real = dtypes.canonical(dtypes.float64)
    spacing = 1 / np.asarray(fs) if not hasattr(fs, "aval") else 1 / fs
    frequencies = (transforms.rfftfreq if onesided else transforms.fftfreq)(length, spacing, dtype=real)
    times = as_array(fun, np.arange(size / 2, n - size / 2 + 1, step).astype(real)) / fs
    if boundary is not None:
        times = times - (size / 2) / fs
    result = moveaxis(result, -1, axis)  # (..., segment, frequency) --> the segments last
    return frequencies, times, result


def stft(
    x: Array, fs: ArrayLike = 1.0, window: Any = "hann", nperseg: int = 256, noverlap: int | None = None, nfft: int | None = None,
    detrend: Any = False, return_onesided: bool = True, boundary: str | None = "zeros", padded: bool = True, axis: int = -1,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """(frequencies, times, transforms) of windowed segments; the transforms' last axis is that of segments."""
    check_arraylike("stft", x)
    (v,) = promoted_inexact("stft", x)
    return _spectra(
        "stft", v, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, "spectrum", axis, "stft", boundary, padded
    )  # fmt: skip


def csd(
    x: Array, y: ArrayLike | None, fs: ArrayLike = 1.0, window: Any = "hann", nperseg: int | None = None, noverlap: int | None = None,
    nfft: int | None = None, detrend: Any = "constant", return_onesided: bool = True, scaling: str = "density", axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:  # fmt: skip
    """(frequencies, cross spectral density) by Welch's method: the mean, or the median, over segments."""
    check_arraylike("csd", x)
    if y is None:
        (v,), w = promoted_inexact("csd", x), None
    else:
        v, w = promoted_inexact("csd", x, y)
        shape = lax.broadcast_shapes(_without(v.shape, axis), _without(w.shape, axis))
        v, w = (_spread(u, shape, axis) for u in (v, w))
    if v.size == 0 or w is not None and w.size == 0:
        raise ValueError(f"csd: arrays must not be empty, got shape {v.shape}")
    frequencies, _, density = _spectra(
        "csd", v, w, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, "psd"
    )  # fmt: skip
    if average == "mean":
        return frequencies, mean(density, axis=-1)
    if average == "median":
        bias = _median_bias(density.shape[-1])
        if dtypes.is_complex(density.aval.dtype):
            middle = lax.complex(median(p.real_p(density), axis=-1), median(p.imag_p(density), axis=-1))
        else:
            middle = median(density, axis=-1)
        return frequencies, middle / bias
    raise ValueError(f"csd: average must be 'mean' or 'median', got {average!r}")


def _without(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    axis = axis % len(shape)
    return (*shape[:axis], *shape[axis + 1 :])


def _spread(x: Array, others: Sequence[int], axis: int) -> Array:
    """x broadcast to these sizes of its axes but `axis`."""
    n = x.shape[axis]
    y = moveaxis(x, axis, -1)
    return moveaxis(lax.broadcast_in_dim(y, (*others, n), tuple(range(len(others) + 1 - y.ndim, len(others) + 1))), -1, axis)


def _median_bias(n: int) -> float:
    """The median of n draws of a chi-square variable with two degrees of freedom, over its mean (Allen et al., 2012)."""
    even = 2.0 * np.arange(1.0, (n - 1) // 2 + 1)
    return float(1 + np.sum(1.0 / (even + 1) - 1.0 / even))


def welch(
    x: Array, fs: ArrayLike = 1.0, window: Any = "hann", nperseg: int | None = None, noverlap: int | None = None, nfft: int | None = None,
    detrend: Any = "constant", return_onesided: bool = True, scaling: str = "density", axis: int = -1, average: str = "mean",
) -> tuple[Array, Array]:  # fmt: skip
    """(frequencies, power spectral density) by Welch's method."""
    frequencies, density = csd(x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average)
    return frequencies, p.real_p(density) if dtypes.is_complex(density.aval.dtype) else density


def istft(
    Zxx: Array, fs: ArrayLike = 1.0, window: Any = "hann", nperseg: int | None = None, noverlap: int | None = None, nfft: int | None = None,
    input_onesided: bool = True, boundary: bool = True, time_axis: int = -1, freq_axis: int = -2,
) -> tuple[Array, Array]:  # fmt: skip
    """(times, signal) from transforms of segments, as `stft` gives them: their inverses, windowed, added and divided by the sum of the
    squared windows."""
    fun = "istft"
    check_arraylike(fun, Zxx)
    z = as_array(fun, Zxx)
    if z.ndim < 2:
        raise ValueError(f"{fun}: Input stft must be at least 2d!, got shape {z.shape}")
    time_axis, freq_axis = time_axis % z.ndim, freq_axis % z.ndim
    if time_axis == freq_axis:
        raise ValueError(f"{fun}: Must specify differing time and frequency axes, got {time_axis}")
    z = moveaxis(z, (time_axis, freq_axis), (-2, -1))
    default = 2 * (z.shape[-1] - 1) if input_onesided else z.shape[-1]
    size = default if nperseg is None else operator.index(int(nperseg))
    if size < 1:
        raise ValueError(f"{fun}: nperseg must be a positive integer, got {size}")
    if nfft is None:
        length = size if input_onesided and size == default + 1 else default
    else:
        length = operator.index(int(nfft))
        if length < size:
            raise ValueError(f"{fun}: nfft must be at least nperseg, got {length} and {size}")
    overlap = size // 2 if noverlap is None else operator.index(int(noverlap))
    if overlap >= size:
        raise ValueError(f"{fun}: noverlap must be less than nperseg, got {overlap} and {size}")
    step, count = size - overlap, z.shape[-2]
    rows = transforms.irfft(z, length) if input_onesided else transforms.ifft(z, length)
    rows = lax.slice_in_dim(rows, 0, size, 1, rows.ndim - 1)
    weights = _like(_window(fun, window, size), rows)
    rows = _by_row(p.mul_p, rows, weights)
    rows = p.mul_p(rows, lax.broadcast_in_dim(lax.convert_element_type(weights.sum(), rows.aval.dtype), rows.shape, ()))
    total = size + (count - 1) * step
    signal = _added(rows, step, total)
    squares = lax.broadcast_in_dim(weights * weights, (count, size), (1,))
    norm = _added(squares, step, total)
    if boundary:
        last = signal.ndim - 1
        signal = lax.slice_in_dim(signal, size // 2, total - size // 2, 1, last)
        norm = lax.slice_in_dim(norm, size // 2, total - size // 2, 1, 0)
    signal = _by_row(p.div_p, signal, lax.select(norm > 1e-10, norm, lax.full_like(norm, 1)))
    if signal.ndim > 1 and time_axis != z.ndim - 1:
        signal = moveaxis(signal, -1, time_axis - (freq_axis < time_axis))
    # SciPy's and JAX's times are as many as the first axis is long, whichever that is
    times = as_array(fun, np.arange(signal.shape[0]).astype(dtypes.canonical(dtypes.float64))) / fs
    return times, signal


def _added(rows: Array, step: int, total: int) -> Array:
    """(..., segment, size) --> (..., total): segments `step` apart, added where they overlap."""
    batch, (count, size) = rows.shape[:-2], rows.shape[-2:]
    flat = moveaxis(lax.reshape(rows, (math.prod(batch), count, size)), -1, 0)
    patches = lax.reshape(flat, (1, size, math.prod(batch), count))
    out = window_unpatch(
        patches, shape=(math.prod(batch), total), window_dimensions=(1, size), window_strides=(1, step), padding=((0, 0), (0, 0)),
        base_dilation=(1, 1), window_dilation=(1, 1),
    )  # fmt: skip
    return lax.reshape(out, (*batch, total))


__all__ = ["csd", "detrend", "istft", "stft", "welch"]
