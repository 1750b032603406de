"""The discrete Fourier transform over the last axes."""

from __future__ import annotations

from collections.abc import Sequence

from steno.core import dtypes
from steno.lax.operands import Array, as_operand, convert, integers
from steno.ops.fft import FftType, fft as fft_p


def _canonical_type(fft_type: FftType | str) -> FftType:
    if isinstance(fft_type, str):
        try:
            return FftType[fft_type.upper()]
        except KeyError:
            raise ValueError(f"Unknown FFT type '{fft_type}'") from None
    if isinstance(fft_type, FftType):
        return fft_type
    raise TypeError(f"Unknown FFT type value '{fft_type}'")


def fft(x: Array, fft_type: FftType | str, fft_lengths: Sequence[int]) -> Array:
    """The transform of this type over the last `len(fft_lengths)` axes (three at most), whose sizes in the full array are `fft_lengths`:
    those of the operand, for IRFFT those of the result. IFFT and IRFFT are divided by their product. ValueError where sizes do not fit."""
    kind = _canonical_type(fft_type)
    y = as_operand("fft", x)
    lengths = integers("fft", "fft_lengths", fft_lengths)
    dtype = y.aval.dtype
    if kind == FftType.RFFT:
        if dtypes.is_complex(dtype):
            raise ValueError("only real valued inputs supported for rfft")
        if dtypes.kind(dtype) in "biu":
            y = convert(y, dtypes.float64 if dtype in (dtypes.int64, dtypes.uint64) else dtypes.float32)
    elif not dtypes.is_complex(dtype):
        wide = dtype in (dtypes.float64, dtypes.int64, dtypes.uint64)
        if kind == FftType.FFT:
            y = convert(y, dtypes.float64 if wide else dtypes.float32)
        else:
            y = convert(y, dtypes.complex128 if wide else dtypes.complex64)
    return fft_p(y, fft_type=kind, fft_lengths=lengths)


__all__ = ["FftType", "fft", "fft_p"]
