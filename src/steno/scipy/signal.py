"""scipy.signal: convolution and correlation; spectra are in `spectral`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from steno import lax
from steno.core import dtypes
from steno.lax.convolution import conv_general_dilated
from steno.numpy import fft as nfft
from steno.numpy.elementwise import conj
from steno.numpy.operands import Array, ArrayLike, check_arraylike, promoted_inexact
from steno.scipy.spectral import csd as csd, detrend as detrend, istft as istft, stft as stft, welch as welch

_MODES = ("full", "same", "valid")


def _flip(x: Array) -> Array:
    return lax.rev(x, tuple(range(x.ndim)))


def _check_mode(fun: str, mode: str) -> None:
    if mode not in _MODES:
        raise ValueError(f"{fun}: mode must be one of ['full', 'same', 'valid'], got {mode!r}")


def _operands(fun: str, in1: ArrayLike, in2: ArrayLike) -> tuple[Array, Array, bool]:
    """Two arrays of one dtype, the larger one first; whether they had to be exchanged. ValueError if neither is."""
    check_arraylike(fun, in1, in2)
    x, y = promoted_inexact(fun, in1, in2)
    if x.ndim != y.ndim:
        raise ValueError(f"{fun}: in1 and in2 must have the same number of dimensions, got shapes {x.shape} and {y.shape}")
    if x.size == 0 or y.size == 0:
        raise ValueError(f"{fun}: zero-size arrays not supported in convolutions, got shapes {x.shape} and {y.shape}.")
    if all(m >= n for m, n in zip(x.shape, y.shape, strict=True)):
        return x, y, False
    if all(m <= n for m, n in zip(x.shape, y.shape, strict=True)):
        return y, x, True
    raise ValueError(f"{fun}: One input must be smaller than the other in every dimension, got shapes {x.shape} and {y.shape}.")


def _direct(fun: str, in1: ArrayLike, in2: ArrayLike, mode: str, precision: Any) -> Array:
    _check_mode(fun, mode)
    x, y, swapped = _operands(fun, in1, in2)
    second = x.shape if swapped else y.shape
    if mode == "valid":
        padding = [(0, 0)] * x.ndim
    elif mode == "full":
        padding = [(n - 1, n - 1) for n in y.shape]
    else:  # the middle of the full one, of in1's shape
        padding = [(n - 1 - (m - 1) // 2, n - m + (m - 1) // 2) for n, m in zip(y.shape, second, strict=True)]
    one = (1,) * x.ndim
    out = conv_general_dilated(
        lax.reshape(x, (1, 1, *x.shape)), lax.reshape(_flip(y), (1, 1, *y.shape)), one, padding, precision=precision
    )  # fmt: skip
    return lax.reshape(out, out.shape[2:])


def convolve(in1: Array, in2: Array, mode: str = "full", method: str = "auto", precision: Any = None) -> Array:
    """The convolution of two arrays: "full", "same" (its middle, of in1's shape) or "valid" (where one lies wholly inside the other).
    method: "direct" (also "auto") or "fft"."""
    if method == "fft":
        return fftconvolve(in1, in2, mode)
    if method not in ("auto", "direct"):
        raise ValueError(f"convolve: Got method={method!r}; expected 'auto', 'fft', or 'direct'.")
    return _direct("convolve", in1, in2, mode, precision)


def correlate(in1: Array, in2: Array, mode: str = "full", method: str = "auto", precision: Any = None) -> Array:
    """The cross-correlation: the convolution with in2 conjugated and reversed."""
    check_arraylike("correlate", in1, in2)
    x, y = promoted_inexact("correlate", in1, in2)
    return convolve(x, conj(_flip(y)), mode, method, precision)


def _check_two_dimensional(fun: str, boundary: str, fillvalue: float, in1: ArrayLike, in2: ArrayLike) -> None:
    if boundary != "fill" or fillvalue != 0:
        raise NotImplementedError(f"{fun}() only supports boundary='fill', fillvalue=0")
    check_arraylike(fun, in1, in2)
    if getattr(in1, "ndim", 0) != 2 or getattr(in2, "ndim", 0) != 2:
        raise ValueError(f"{fun}() only supports 2-dimensional inputs.")


def convolve2d(
    in1: Array, in2: Array, mode: str = "full", boundary: str = "fill", fillvalue: float = 0, precision: Any = None
) -> Array:  # fmt: skip
    """`convolve` of matrices. NotImplementedError for boundaries other than zeros."""
    _check_two_dimensional("convolve2d", boundary, fillvalue, in1, in2)
    return _direct("convolve2d", in1, in2, mode, precision)


def correlate2d(
    in1: Array, in2: Array, mode: str = "full", boundary: str = "fill", fillvalue: float = 0, precision: Any = None
) -> Array:  # fmt: skip
    """The cross-correlation of matrices. NotImplementedError for boundaries other than zeros."""
    _check_two_dimensional("correlate2d", boundary, fillvalue, in1, in2)
    x, y = promoted_inexact("correlate2d", in1, in2)
    if mode == "same":  # SciPy's middle lies on the other side of the true one where a size is even
        return _flip(_direct("correlate2d", _flip(x), conj(y), mode, precision))
    return _direct("correlate2d", x, conj(_flip(y)), mode, precision)


def fftconvolve(in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: Sequence[int] | None = None) -> Array:
    """`convolve` along axes (None: all), by Fourier transforms; the other axes are broadcast."""
    _check_mode("fftconvolve", mode)
    check_arraylike("fftconvolve", in1, in2)
    x, y = promoted_inexact("fftconvolve", in1, in2)
    if x.ndim != y.ndim:
        raise ValueError(f"fftconvolve: in1 and in2 must have the same number of dimensions, got shapes {x.shape} and {y.shape}")
    if axes is None:
        axes = tuple(range(x.ndim))
    elif isinstance(axes, int):
        axes = (axes,)
    own = tuple(sorted(a % x.ndim for a in axes))
    others = [d for d in range(x.ndim) if d not in own]
    if any(x.shape[d] != y.shape[d] and 1 not in (x.shape[d], y.shape[d]) for d in others):
        raise ValueError(f"fftconvolve: shapes {x.shape} and {y.shape} cannot be broadcast along the axes that are not convolved")
    if x.size == 0 or y.size == 0:
        raise ValueError(f"fftconvolve: zero-size arrays not supported in convolutions, got shapes {x.shape} and {y.shape}.")
    first = x.shape
    if mode == "valid":
        if all(x.shape[d] <= y.shape[d] for d in own):
            x, y = y, x
        elif not all(x.shape[d] >= y.shape[d] for d in own):
            raise ValueError(
                f"fftconvolve: For 'valid' mode, One input must be smaller than the other in every dimension, got {x.shape} and {y.shape}."
            )
    full = [x.shape[d] + y.shape[d] - 1 for d in own]
    if not own:
        return x * y
    if dtypes.is_complex(x.aval.dtype):
        out = nfft.ifftn(nfft.fftn(x, full, own) * nfft.fftn(y, full, own), full, own)
    else:
        out = nfft.irfftn(nfft.rfftn(x, full, own) * nfft.rfftn(y, full, own), full, own)
    if mode == "full":
        return out
    sizes = list(out.shape)
    starts = [0] * out.ndim
    for d in own:
        sizes[d] = first[d] if mode == "same" else x.shape[d] - y.shape[d] + 1
        starts[d] = (out.shape[d] - sizes[d]) // 2
    return lax.slice(out, starts, [s + n for s, n in zip(starts, sizes, strict=True)])


__all__ = ["convolve", "convolve2d", "correlate", "correlate2d", "csd", "detrend", "fftconvolve", "istft", "stft", "welch"]
