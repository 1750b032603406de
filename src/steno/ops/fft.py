"""Discrete Fourier transforms over the last one to three axes.

One axis at a time by `runtime/native/fft.cpp`: many rows of small factors in the lanes of vectors, a long row as a matrix, the rest by the
compiled loops of NumPy's pocketfft, without Python. Which way is taken depends on the sizes alone, so the result does not depend on
threads."""

from __future__ import annotations

import enum
import math
import struct
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from steno import _native
from steno.core import dtypes
from steno.core.aval import ShapedArray
from steno.core.op import OPS, Op
from steno.ir.expr import Builder, Scalar
from steno.ir.index import Index
from steno.ir.kinds import Library, Map, Read
from steno.ops.oracle import Oracle
from steno.transforms import rules
from steno.transforms.rules import LINEAR, Axis, Linear, by_operand

Shape = tuple[int, ...]


class FftType(enum.IntEnum):
    """FFT and IFFT: of complex numbers; RFFT: of real ones to the first n // 2 + 1 complex ones; IRFFT: back."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


_COMPLEX = {dtypes.float32: dtypes.complex64, dtypes.float64: dtypes.complex128}
_REAL = {c: r for r, c in _COMPLEX.items()}


def _typ(x: ShapedArray, *, fft_type: FftType, fft_lengths: Shape) -> ShapedArray:
    rank = len(fft_lengths)
    if x.ndim < rank:
        raise ValueError(f"FFT input shape {x.shape} must have at least as many input dimensions as fft_lengths {fft_lengths}.")
    if rank > 3:
        raise ValueError(f"fft: at most three axes are transformed at once, got fft_lengths {fft_lengths}")
    if any(n < 0 for n in fft_lengths):
        raise ValueError(f"fft: fft_lengths must not be negative, got {fft_lengths}")
    batch, last = x.shape[: x.ndim - rank], x.shape[x.ndim - rank :]
    if fft_type == FftType.RFFT:
        if x.dtype not in _COMPLEX:
            raise ValueError(f"RFFT input must be float32 or float64, got {dtypes.name(x.dtype)}")
    elif x.dtype not in _REAL and not (fft_type == FftType.FFT and x.dtype in _COMPLEX):
        raise ValueError(f"{fft_type.name} input must be complex64 or complex128, got {dtypes.name(x.dtype)}")
    half = (*fft_lengths[:-1], fft_lengths[-1] // 2 + 1) if rank and fft_lengths[-1] else fft_lengths
    wanted = half if fft_type == FftType.IRFFT else fft_lengths
    if last != wanted:
        if fft_type == FftType.IRFFT:
            raise ValueError(
                f"IRFFT input shape {x.shape} minor dimensions must be equal to all except the last fft_length, got "
                f"fft_lengths={fft_lengths}, and the last to half of that and one more: {wanted}"
            )
        raise ValueError(f"{fft_type.name} input shape {x.shape} minor dimensions must be equal to fft_lengths {fft_lengths}")
    if fft_type == FftType.RFFT:
        return ShapedArray((*batch, *half), _COMPLEX[x.dtype])
    if fft_type == FftType.IRFFT:
        return ShapedArray((*batch, *fft_lengths), _REAL[x.dtype])
    return ShapedArray(x.shape, _COMPLEX.get(x.dtype, x.dtype))


def _oracle(x: np.ndarray, *, fft_type: FftType, fft_lengths: Shape) -> np.ndarray:
    axes = tuple(range(x.ndim - len(fft_lengths), x.ndim))
    out = _typ(ShapedArray(x.shape, x.dtype), fft_type=fft_type, fft_lengths=fft_lengths)
    if not axes or not out.size:
        return np.zeros(out.shape, out.dtype) if axes else x.astype(out.dtype)
    transform = {FftType.FFT: np.fft.fftn, FftType.IFFT: np.fft.ifftn, FftType.RFFT: np.fft.rfftn, FftType.IRFFT: np.fft.irfftn}[fft_type]
    wide = x.astype(np.float64 if x.dtype.kind == "f" else np.complex128)
    return transform(wide, s=fft_lengths, axes=axes).astype(out.dtype)


# one axis


def _along_typ(x: ShapedArray, *, fft_type: FftType, axis: int, length: int) -> ShapedArray:
    n = length // 2 + 1 if fft_type == FftType.RFFT else length
    dtype = _COMPLEX[x.dtype] if fft_type == FftType.RFFT else _REAL[x.dtype] if fft_type == FftType.IRFFT else x.dtype
    return ShapedArray((*x.shape[:axis], n, *x.shape[axis + 1 :]), dtype)


def _along_lower(
    avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, fft_type: FftType, axis: int, length: int
) -> Library:
    """The inverse ones are scaled by the number of elements."""
    _native.load_fft()
    (x,) = avals_in
    factor = 1.0 / length if fft_type in (FftType.IFFT, FftType.IRFFT) else 1.0
    (bits,) = struct.unpack("<q", struct.pack("<d", factor))
    wide = x.dtype in (dtypes.float64, dtypes.complex128)
    return Library(
        "steno_fft", (int(fft_type), int(wide), math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :]), length, bits)
    )  # fmt: skip


def _cost(size: float, lengths: Sequence[int], fft_type: FftType) -> float:
    """5 n log2 n real operations for n complex numbers, half of that for real ones; `size` of the numbers in all."""
    each = 5.0 * math.fsum(math.log2(max(n, 1)) for n in lengths)
    return size * each * (0.5 if fft_type in (FftType.RFFT, FftType.IRFFT) else 1.0)


def _along_cost(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, fft_type: FftType, axis: int, length: int) -> float:
    shape = avals_out[0].shape
    return _cost(math.prod(shape[:axis]) * length * math.prod(shape[axis + 1 :]), (length,), fft_type)


fft_along = Op("fft_along", typ=_along_typ, lower=_along_lower, cost=_along_cost)
"""The transform of this type along one axis."""


def _mirror_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, length: int) -> Map:
    half = avals_in[0].shape[-1]

    def body(b: Builder, indices: Sequence[Index], reads: Sequence[Read]) -> Scalar:
        *batch, k = indices
        if k.hi < half:
            return reads[0](indices)
        inside = b.lt(b.index(k), half)
        return b.select(inside, reads[0](indices, inside), b.conj(reads[0]([*batch, -k + length], b.not_(inside))))

    return Map(body)


fft_mirror = Op(
    "fft_mirror",
    typ=lambda x, *, length: x.update(shape=(*x.shape[:-1], length)),
    lower=_mirror_lower,
)
"""All `length` numbers of a transform of real ones from the first half: those behind are the conjugates of those before."""


def fft_rest(x: Any, axes: Shape) -> Any:
    """Complex transforms along these axes."""
    for axis in axes:
        x = fft_along(x, fft_type=FftType.FFT, axis=axis, length=x.shape[axis])
    return x


def _expand(x: Any, *, fft_type: FftType, fft_lengths: Shape) -> Any:
    """Real transforms begin (IRFFT: end) with the last axis."""
    shape, rank = x.shape, len(fft_lengths)
    first = len(shape) - rank
    out = _typ(x.aval, fft_type=fft_type, fft_lengths=fft_lengths)
    if not rank or not out.size:
        return (
            rules.full(out.shape, 0, out.dtype)
            if rank
            else OPS["convert_element_type"](x, new_dtype=out.dtype, weak_type=False, sharding=None)
        )
    if x.dtype in _COMPLEX and fft_type == FftType.FFT:  # half of it, and its mirror image
        n = fft_lengths[-1]
        x = fft_mirror(fft_along(x, fft_type=FftType.RFFT, axis=len(shape) - 1, length=n), length=n)
        return fft_rest(x, axes=tuple(range(first, len(shape) - 1)))
    complex_type = {FftType.RFFT: FftType.FFT, FftType.IRFFT: FftType.IFFT}.get(fft_type, fft_type)
    axes = list(range(first, len(shape)))
    types = [complex_type] * (rank - 1) + [fft_type]
    steps = list(zip(axes, types, fft_lengths, strict=True))
    for axis, kind, n in steps if fft_type == FftType.IRFFT else reversed(steps):
        x = fft_along(x, fft_type=kind, axis=axis, length=n)
    return x


# rules


def _scale(x: Any, n: int, sign: int) -> Any:
    """The half transform times (sign 1) or over (-1) the number of numbers that each stands for: 1 at the ends, 2 between."""
    half = x.shape[-1]
    real = _REAL[x.dtype]
    pieces = []
    for value, count in ((1.0, 1), (2.0**sign, half - 1 - (n % 2 == 0)), (1.0, int(n % 2 == 0))):
        if count > 0:
            pieces.append(rules.full((count,), value, real))
    row = pieces[0] if len(pieces) == 1 else OPS["concatenate"](*pieces, dimension=0)
    complex_row = OPS["convert_element_type"](row, new_dtype=x.dtype, weak_type=False, sharding=None)
    return OPS["mul"](x, rules.broadcast(complex_row, x.shape, (len(x.shape) - 1,)))


def _times(x: Any, value: float) -> Any:
    return x if value == 1 else OPS["mul"](x, rules.full((), value, x.dtype))


def _conj(x: Any) -> Any:
    return OPS["conj"](x, input_dtype=x.dtype)


def _transpose(ct: Any, x: Linear, *, fft_type: FftType, fft_lengths: Shape) -> Any:
    if not fft_lengths:
        return ct if x.dtype in _REAL else OPS["real"](ct)
    count, n = math.prod(fft_lengths), fft_lengths[-1]
    if not count:
        return rules.zeros(x.aval)
    if fft_type == FftType.RFFT:
        spread = _scale(_conj(ct), n, -1)
        return _times(fft(spread, fft_type=FftType.IRFFT, fft_lengths=fft_lengths), count)
    if fft_type == FftType.IRFFT:
        half = fft(ct, fft_type=FftType.RFFT, fft_lengths=fft_lengths)
        return _conj(_times(_scale(half, n, 1), 1 / count))
    out = fft(ct, fft_type=fft_type, fft_lengths=fft_lengths)
    return out if x.dtype in _REAL else OPS["real"](out)


def _batch(axis: Axis, args: Sequence[Any], dims: Sequence[int], **params: Any) -> tuple[Any, int]:
    (x,), (d,) = args, dims
    rank = len(params["fft_lengths"])
    kept = len(x.shape) - 1 - rank  # a batch axis among those that are not transformed stays where it is
    target = d if d <= kept else 0
    return fft(rules.move_axis(x, d, target), **params), target


def _samples() -> Iterable[Any]:
    rng = np.random.default_rng(7)
    shapes = [
        ((5,), 1), ((8,), 1), ((1,), 1), ((2,), 1), ((3, 7), 1), ((3, 4), 2), ((2, 3, 5), 2), ((2, 3, 4), 3), ((2, 2, 3, 5), 3), ((97,), 1),
        ((2, 210), 1), ((0, 4), 1), ((3, 0), 1), ((2, 3), 0),
    ]  # fmt: skip
    for shape, rank in shapes:
        lengths = shape[len(shape) - rank :]
        for kind in FftType:
            for real in (np.float32, np.float64):
                if kind in (FftType.RFFT, FftType.IRFFT) and (not rank or not lengths[-1]):
                    continue
                size = (*shape[:-1], shape[-1] // 2 + 1) if kind == FftType.IRFFT else shape
                x = rng.standard_normal(size).astype(real)
                if kind == FftType.FFT:
                    yield (x,), dict(fft_type=kind, fft_lengths=lengths)
                if kind != FftType.RFFT:
                    x = x + 1j * rng.standard_normal(size).astype(real)
                yield (x,), dict(fft_type=kind, fft_lengths=lengths)


fft = Op(
    "fft",
    typ=_typ,
    oracle=Oracle(_oracle, ulps=64, floor=8.0, complex_ulps=64),
    expand=_expand,
    samples=_samples,
    show=lambda p: {"fft_lengths": p["fft_lengths"], "fft_type": int(p["fft_type"])},
    parse=lambda shown, avals_in, avals_out: shown | {"fft_type": FftType(shown["fft_type"])},
    jvp=LINEAR,
    transpose=by_operand(_transpose),
    batch=_batch,
    cost=lambda avals_in, avals_out, *, fft_type, fft_lengths: _cost(max(avals_in[0].size, avals_out[0].size), fft_lengths, fft_type),
)
"""fft_type, fft_lengths: the sizes of the array along the transformed axes, the last ones (of IRFFT: of the result). Inverse transforms are
divided by the product of the lengths. FFT takes real numbers too: it computes half of the transform."""
