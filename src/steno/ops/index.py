"""dynamic_slice and dynamic_update_slice: windows at run-time positions. A position is clamped so that the window lies inside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from steno.core import dtypes
from steno.core.aval import ShapedArray
from steno.core.op import Op
from steno.ir.expr import Builder, Narrow, Scalar
from steno.ir.index import ZERO, Index, Value
from steno.ir.kinds import Map, Read, Update
from steno.ops.samples import filled, sample_dtypes
from steno.ops.shape import same_dtype

INT64 = np.dtype("int64")


def as_int64(b: Builder, i: Scalar, high: int) -> tuple[Scalar, bool]:
    """An integer scalar as int64; whether it is known not to be negative. A uint64 beyond `high` becomes high + 1, never negative."""
    kind = dtypes.kind(i.dtype)
    if kind == "u" and i.dtype.itemsize == 8:
        i = b.min(i, high + 1)
    return b.convert(i, INT64), kind == "u"


def clamped(b: Builder, i: Scalar, high: int) -> Index:
    """`min(max(i, 0), high)` as an Index. `high` >= 0."""
    if high == 0:
        return ZERO
    at, natural = as_int64(b, i, high)
    if not natural:
        at = b.max(at, 0)
    if i.dtype.itemsize == 8 or isinstance(i, Narrow) or ml_dtypes.iinfo(i.dtype).max > high:
        at = b.min(at, high)
    return Index(at.attr) if at.op == "const" else Index(0, ((Value(at, 0, high), 1),))


def clamp_starts(starts: Sequence[Any], shape: Sequence[int], sizes: Sequence[int]) -> list[int]:
    return [min(max(int(i), 0), n - s) for i, n, s in zip(starts, shape, sizes, strict=True)]


def _check_starts(op: str, starts: Sequence[ShapedArray], rank: int) -> None:
    if len(starts) != rank:
        raise ValueError(f"{op}: expected one start index for each axis of the operand, got {len(starts)} for {rank} axes")
    if any(i.shape for i in starts):
        raise TypeError(f"{op}: start indices must be scalars, got {', '.join(i.str_short() for i in starts)}")
    if starts and (dtypes.kind(starts[0].dtype) not in "iu" or any(i.dtype != starts[0].dtype for i in starts)):
        raise TypeError(f"{op}: start indices must be integers of one dtype, got {', '.join(dtypes.name(i.dtype) for i in starts)}")


# dynamic_slice


def _slice_typ(x: ShapedArray, *starts: ShapedArray, slice_sizes: tuple[int, ...]) -> ShapedArray:
    op = "dynamic_slice"
    _check_starts(op, starts, x.ndim)
    if len(slice_sizes) != x.ndim:
        raise TypeError(f"{op}: slice_sizes must have one entry for each axis, got {slice_sizes} for an operand of shape {x.shape}")
    if any(not 0 <= s <= n for s, n in zip(slice_sizes, x.shape, strict=True)):
        raise TypeError(
            f"{op}: slice_sizes must lie between 0 and the operand's sizes, got {slice_sizes} for an operand of shape {x.shape}"
        )
    return x.update(shape=tuple(slice_sizes))


def _slice_oracle(x: np.ndarray, *starts: np.ndarray, slice_sizes: tuple[int, ...]) -> np.ndarray:
    at = clamp_starts(starts, x.shape, slice_sizes)
    return x[tuple(slice(i, i + s) for i, s in zip(at, slice_sizes, strict=True))]


def _slice_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, slice_sizes: tuple[int, ...]) -> Map:
    shape = avals_in[0].shape

    def body(b: Builder, indices: Sequence[Index], reads: Sequence[Read]) -> Scalar:
        return reads[0](
            [i + clamped(b, read(()), n - s) for i, read, n, s in zip(indices, reads[1:], shape, slice_sizes, strict=True)]
        )  # fmt: skip

    return Map(body)


def _slice_samples() -> Iterable[Any]:
    for d in sample_dtypes():
        yield (filled((4, 3), d), np.int32(1), np.int32(0)), dict(slice_sizes=(2, 3))
    for start in (-(2**31), -1, 0, 3, 4, 7, 2**31 - 1):
        yield (filled((7,), "float32"), np.int32(start)), dict(slice_sizes=(4,))
    for d, start in [
        ("int8", -100),
        ("uint8", 255),
        ("uint8", 2),
        ("uint64", 2**64 - 1),
        ("int64", -(2**63)),
        ("uint32", 2**32 - 1),
        ("int16", 5),
    ]:
        yield (filled((300,), "int32"), np.array(start, d)), dict(slice_sizes=(7,))
    yield (filled((), "float32"),), dict(slice_sizes=())
    yield (filled((0, 3), "float32"), np.int32(1), np.int32(1)), dict(slice_sizes=(0, 1))
    yield (filled((3, 1), "float32"), np.int32(2), np.int32(2)), dict(slice_sizes=(0, 1))


dynamic_slice = Op("dynamic_slice", typ=_slice_typ, oracle=_slice_oracle, lower=_slice_lower, samples=_slice_samples)


# dynamic_update_slice


def _update_typ(x: ShapedArray, update: ShapedArray, *starts: ShapedArray) -> ShapedArray:
    op = "dynamic_update_slice"
    if update.ndim != x.ndim:
        raise TypeError(
            f"{op}: the update must have as many axes as the operand, got shape {update.shape} for an operand of shape {x.shape}"
        )
    _check_starts(op, starts, x.ndim)
    if any(s > n for s, n in zip(update.shape, x.shape, strict=True)):
        raise TypeError(f"{op}: the update must not exceed the operand, got shape {update.shape} for an operand of shape {x.shape}")
    same_dtype(op, (x, update))
    return x.update(weak_type=False)


def _update_oracle(x: np.ndarray, update: np.ndarray, *starts: np.ndarray) -> np.ndarray:
    out = x.copy()
    at = clamp_starts(starts, x.shape, update.shape)
    out[tuple(slice(i, i + s) for i, s in zip(at, update.shape, strict=True))] = update
    return out


def _update_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray]) -> Update:
    shape, window = avals_in[0].shape, avals_in[1].shape

    def target(b: Builder, indices: Sequence[Index], reads: Sequence[Read]) -> tuple[list[Index], None]:
        return [i + clamped(b, read(()), n - s) for i, read, n, s in zip(indices, reads[2:], shape, window, strict=True)], None

    def value(b: Builder, indices: Sequence[Index], reads: Sequence[Read], old: Scalar) -> Scalar:
        return reads[1](indices)

    return Update(window, target, value, unique=True)


def _update_samples() -> Iterable[Any]:
    for d in sample_dtypes():
        yield (filled((4, 3), d), filled((2, 3), d, seed=1), np.int32(1), np.int32(0)), {}
    for start in (-(2**31), -1, 0, 3, 4, 2**31 - 1):
        yield (filled((7,), "float32"), filled((4,), "float32", seed=1), np.int32(start)), {}
    yield (filled((), "float32"), filled((), "float32", seed=1)), {}
    yield (filled((0, 3), "float32"), filled((0, 1), "float32"), np.int32(1), np.int32(1)), {}
    yield (filled((3, 1), "float32"), filled((0, 1), "float32"), np.uint8(2), np.uint8(2)), {}


dynamic_update_slice = Op(
    "dynamic_update_slice",
    typ=_update_typ,
    oracle=_update_oracle,
    lower=_update_lower,
    aliases=lambda **params: ((0, 0),),
    samples=_update_samples,
)
