"""dynamic_slice and dynamic_update_slice: windows at run-time positions. A position is clamped so that the window lies inside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from steno.core import dtypes
from steno.core.aval import ShapedArray
from steno.core.op import Op
from steno.ir.expr import Builder, Scalar
from steno.ir.index import Index
from steno.ir.kinds import Map, Read, Update
from steno.ops.gather import gather
from steno.ops.join import stack
from steno.ops.samples import filled, sample_dtypes
from steno.ops.scatter import scatter
from steno.ops.shape import same_dtype
from steno.ops.windows import Axes, GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers, clamped
from steno.transforms.rules import (
    Axis,
    Linear,
    add,
    align,
    broadcast,
    full,
    insert_axis,
    inserted,
    instantiate,
    reshape,
    shifted,
    to_front,
    zeros,
)

Dims = Sequence[int | None]


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


def _slice_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, slice_sizes: tuple[int, ...]) -> tuple[Any, Any]:
    x, *starts = primals
    return dynamic_slice(x, *starts, slice_sizes=slice_sizes), dynamic_slice(tangents[0], *starts, slice_sizes=slice_sizes)


def _slice_transpose(ct: Any, x: Linear, *starts: Any, slice_sizes: tuple[int, ...]) -> list[Any]:
    return [dynamic_update_slice(zeros(x.aval), ct, *starts), *[None] * len(starts)]


def _slice_accumulate(total: Any, ct: Any, x: Linear, *starts: Any, slice_sizes: tuple[int, ...]) -> Any:
    return dynamic_update_slice(total, add(dynamic_slice(total, *starts, slice_sizes=slice_sizes), ct), *starts)


def _with_start(starts: Sequence[Any], dim: int) -> list[Any]:
    """Starts of an element --> those of the whole batch, whose axis is `dim`."""
    zero = full((), 0, starts[0].dtype if starts else dtypes.int32)
    return [*starts[:dim], zero, *starts[dim:]]


def _moving(shape: Sequence[int], sizes: Sequence[int]) -> Axes:
    """The axes along which a window has room to move: elsewhere its start, clamped, is 0."""
    return tuple(d for d, (n, s) in enumerate(zip(shape, sizes, strict=True)) if s < n)


def _index_vectors(size: int, starts: Sequence[Any], dims: Dims, axes: Axes) -> Any:
    """The starts along some axes as an array of index vectors, one for each element of the batch."""
    columns = [starts[d] if dims[d] is not None else broadcast(starts[d], (size,)) for d in axes]
    return reshape(columns[0], (size, 1)) if len(columns) == 1 else stack(*columns, axis=1)


def _slice_batch(axis: Axis, args: Sequence[Any], dims: Dims, *, slice_sizes: tuple[int, ...]) -> tuple[Any, int | None]:
    """Starts that differ among elements make it a gather."""
    (x, *starts), (d, *start_dims) = args, dims
    shape = [n for k, n in enumerate(x.shape) if k != d]
    axes = _moving(shape, slice_sizes)
    if all(start_dims[k] is None for k in axes):
        if d is None:
            return dynamic_slice(x, *_unbatched(starts, start_dims), slice_sizes=slice_sizes), None
        sizes = inserted(slice_sizes, d, axis.size)
        return dynamic_slice(x, *_with_start(_unbatched(starts, start_dims), d), slice_sizes=sizes), d
    window, indices = tuple(range(1, len(shape) + 1)), _index_vectors(axis.size, starts, start_dims, axes)
    if d is None:
        numbers = GatherDimensionNumbers(window, (), axes)
    else:
        numbers = GatherDimensionNumbers(window, (), shifted(axes, d), (d,), (0,))
        slice_sizes = inserted(slice_sizes, d, min(axis.size, 1))
    out = gather(
        x,
        indices,
        dimension_numbers=numbers,
        slice_sizes=slice_sizes,
        indices_are_sorted=False,
        unique_indices=False,
        mode=GatherScatterMode.CLIP,
        fill_value=None,
    )
    return out, 0


def _unbatched(starts: Sequence[Any], dims: Dims) -> list[Any]:
    """Batched starts, which do not matter, --> 0."""
    return [i if d is None else full((), 0, i.dtype) for i, d in zip(starts, dims, strict=True)]


dynamic_slice = Op(
    "dynamic_slice",
    typ=_slice_typ,
    oracle=_slice_oracle,
    lower=_slice_lower,
    samples=_slice_samples,
    jvp=_slice_jvp,
    transpose=_slice_transpose,
    accumulate=_slice_accumulate,
    batch=_slice_batch,
)


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
    out = np.array(x)
    at = clamp_starts(starts, x.shape, update.shape)
    out[tuple(slice(i, i + s) for i, s in zip(at, update.shape, strict=True))] = update
    return out


def _update_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray]) -> Update:
    shape, window = avals_in[0].shape, avals_in[1].shape

    def target(b: Builder, indices: Sequence[Index], reads: Sequence[Read]) -> tuple[list[Index], None]:
        return [i + clamped(b, read(()), n - s) for i, read, n, s in zip(indices, reads[2:], shape, window, strict=True)], None

    def value(b: Builder, indices: Sequence[Index], reads: Sequence[Read], old: Scalar) -> Scalar:
        return reads[1](indices)

    return Update(window, target, value, apart=tuple(range(len(window))), trailing=len(window))


def _update_samples() -> Iterable[Any]:
    for d in sample_dtypes():
        yield (filled((4, 3), d), filled((2, 3), d, seed=1), np.int32(1), np.int32(0)), {}
    for start in (-(2**31), -1, 0, 3, 4, 2**31 - 1):
        yield (filled((7,), "float32"), filled((4,), "float32", seed=1), np.int32(start)), {}
    yield (filled((), "float32"), filled((), "float32", seed=1)), {}
    yield (filled((0, 3), "float32"), filled((0, 1), "float32"), np.int32(1), np.int32(1)), {}
    yield (filled((3, 1), "float32"), filled((0, 1), "float32"), np.uint8(2), np.uint8(2)), {}


def _update_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    x, update, *starts = primals
    out = dynamic_update_slice(x, update, *starts)
    return out, dynamic_update_slice(instantiate(tangents[0]), instantiate(tangents[1]), *starts)


def _update_transpose(ct: Any, x: Any, update: Any, *starts: Any) -> list[Any]:
    out: list[Any] = [None] * (2 + len(starts))
    if type(x) is Linear:
        out[0] = dynamic_update_slice(ct, full(update.shape, 0, ct.dtype), *starts)
    if type(update) is Linear:
        out[1] = dynamic_slice(ct, *starts, slice_sizes=update.shape)
    return out


def _update_batch(axis: Axis, args: Sequence[Any], dims: Dims) -> tuple[Any, int | None]:
    """Starts that differ among elements make it a scatter."""
    (x, update, *starts), (d, update_dim, *start_dims) = args, dims
    rank = len(starts)
    shape, window = ([n for k, n in enumerate(y.shape) if k != at] for y, at in ((x, d), (update, update_dim)))
    axes = _moving(shape, window)
    if all(start_dims[k] is None for k in axes):
        starts = _unbatched(starts, start_dims)
        if d is None and update_dim is None:
            return dynamic_update_slice(x, update, *starts), None
        (x, update), d = align(axis, (x, update), (d, update_dim))
        return dynamic_update_slice(x, update, *_with_start(starts, d)), d
    x, d = (to_front(x, None, axis.size), 0) if d is None else (x, d)
    update, update_dim = (insert_axis(update, 0, axis.size), 0) if update_dim is None else (update, update_dim)
    numbers = ScatterDimensionNumbers(
        update_window_dims=tuple(k for k in range(rank + 1) if k != update_dim),
        inserted_window_dims=(),
        scatter_dims_to_operand_dims=shifted(axes, d),
        operand_batching_dims=(d,),
        scatter_indices_batching_dims=(0,),
    )
    out = scatter(
        x,
        _index_vectors(axis.size, starts, start_dims, axes),
        update,
        dimension_numbers=numbers,
        indices_are_sorted=True,
        unique_indices=True,
        mode=GatherScatterMode.CLIP,
        update_jaxpr=None,
        update_consts=(),
    )
    return out, d


dynamic_update_slice = Op(
    "dynamic_update_slice",
    typ=_update_typ,
    oracle=_update_oracle,
    lower=_update_lower,
    aliases=lambda **params: ((0, 0),),
    samples=_update_samples,
    jvp=_update_jvp,
    transpose=_update_transpose,
    batch=_update_batch,
)
