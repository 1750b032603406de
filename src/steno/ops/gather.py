"""gather: windows of an array at run-time positions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from steno.core import dtypes
from steno.core.aval import ShapedArray
from steno.core.op import OPS, Op
from steno.ir.expr import Builder, Scalar
from steno.ir.index import Index
from steno.ir.kinds import Map, Read
from steno.ops.inline import combination
from steno.ops.samples import filled, sample_dtypes
from steno.ops.windows import (
    Axes,
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    Windows,
    check_axes,
    check_geometry,
    joint_axes,
)
from steno.transforms.rules import Axis, Linear, inserted, shifted, to_front, zeros


def _windows(shape: tuple[int, ...], indices_rank: int, dn: GatherDimensionNumbers, slice_sizes: tuple[int, ...]) -> Windows:
    rank = len(dn.offset_dims) + indices_rank - 1
    return Windows(
        shape, tuple(slice_sizes), rank, tuple(dn.offset_dims), tuple(dn.collapsed_slice_dims), tuple(dn.start_index_map),
        tuple(dn.operand_batching_dims), tuple(dn.start_indices_batching_dims),
    )  # fmt: skip


def _typ(
    x: ShapedArray,
    indices: ShapedArray,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: tuple[int, ...],
    mode: GatherScatterMode,
    **_: Any,
) -> ShapedArray:
    dn = dimension_numbers
    rank = len(dn.offset_dims) + max(indices.ndim, 1) - 1
    outside = next((k for k, a in enumerate(dn.offset_dims) if not 0 <= a < rank), None)
    if outside is not None:
        raise TypeError(
            f"gather: Offset dimension {outside} in gather op is out of bounds, got {dn.offset_dims} for a result of {rank} axes"
        )
    check_axes("gather", "offset_dims", dn.offset_dims, rank)
    check_geometry("gather", x, indices, list(dn._asdict().items())[1:])
    if mode is GatherScatterMode.ONE_HOT:
        raise NotImplementedError("gather: mode 'one_hot' is not implemented; use 'clip' or 'fill'")
    if len(slice_sizes) != x.ndim:
        raise TypeError(
            f"gather: Gather op must have one slice size for every input dimension, got {slice_sizes} for an operand of shape {x.shape}"
        )
    outside = next((d for d, (s, n) in enumerate(zip(slice_sizes, x.shape, strict=True)) if not 0 <= s <= n), None)
    if outside is not None:
        raise TypeError(
            f"gather: Slice size at index {outside} in gather op is out of range: it must lie between 0 and the operand's size, got "
            f"slice_sizes {slice_sizes} for an operand of shape {x.shape}"
        )
    for what, axes, bounds in (
        ("collapse slice dims with bound 1", dn.collapsed_slice_dims, (1,)),
        ("have operand batching dims with bound 0/1", dn.operand_batching_dims, (0, 1)),
    ):
        wide = next((k for k, d in enumerate(axes) if slice_sizes[d] not in bounds), None)
        if wide is not None:
            d = axes[wide]
            raise TypeError(
                f"gather: Gather op can only {what}, but bound is {slice_sizes[d]} for index {d} at position {wide}. Sizes: {slice_sizes}"
            )
    kept = [s for d, s in enumerate(slice_sizes) if d not in dn.collapsed_slice_dims and d not in dn.operand_batching_dims]
    if len(kept) != len(dn.offset_dims):
        raise TypeError(
            f"gather: each operand axis must be an offset, collapsed or batching axis, got {dimension_numbers} for an operand of shape "
            f"{x.shape}"
        )
    window, leading = iter(kept), iter(indices.shape[:-1])
    return x.update(shape=tuple(next(window) if a in dn.offset_dims else next(leading) for a in range(rank)))


def default_fill(dtype: Any) -> Any:
    """The fill value of a dtype: NaN, the least signed integer, the greatest unsigned one, True."""
    kind = dtypes.kind(dtype)
    if kind == "k":
        return ((1 << 16 * dtype.words) - 1,) * 2
    if kind == "b":
        return True
    if kind in "fc":
        return np.nan
    info = ml_dtypes.iinfo(dtype)
    return int(info.min if kind == "i" else info.max)


def _oracle(
    x: np.ndarray, indices: np.ndarray, *, dimension_numbers: GatherDimensionNumbers, slice_sizes: tuple[int, ...], mode: GatherScatterMode,
    fill_value: Any, **_: Any,
) -> np.ndarray:  # fmt: skip
    w = _windows(x.shape, indices.ndim, dimension_numbers, slice_sizes)
    window = {a: slice_sizes[d] for d, a in w.window_axis.items()}
    leading = iter(indices.shape[:-1])
    big = [window[a] if a in window else next(leading) for a in range(w.big_rank)]
    at, inside = w.arrays(indices, big, clip=mode is not GatherScatterMode.FILL_OR_DROP)
    if 0 in x.shape or 0 in big:
        return np.zeros(big, x.dtype)
    out = x[tuple(np.broadcast_to(a, big) for a in at)]
    fill = default_fill(x.dtype) if fill_value is None else fill_value
    return np.where(np.broadcast_to(inside, big), out, np.asarray(fill).astype(x.dtype))


def _lower(
    avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, dimension_numbers: GatherDimensionNumbers,
    slice_sizes: tuple[int, ...],
    mode: GatherScatterMode, fill_value: Any, **_: Any,
) -> Map:  # fmt: skip
    x, indices = avals_in
    w = _windows(x.shape, indices.ndim, dimension_numbers, slice_sizes)

    def body(b: Builder, at: Sequence[Index], reads: Sequence[Read]) -> Scalar:
        position, guard = w.positions(b, at, reads[1], clip=mode is not GatherScatterMode.FILL_OR_DROP)
        if guard is None:
            return reads[0](position)
        fill = b.const(default_fill(x.dtype) if fill_value is None else fill_value, x.dtype)
        return b.select(guard, reads[0](position, guard), fill)

    return Map(body)


def _samples() -> Iterable[Any]:
    def params(
        dn: GatherDimensionNumbers, sizes: Axes, mode: GatherScatterMode = GatherScatterMode.FILL_OR_DROP, fill: Any = None
    ) -> dict[str, Any]:
        return dict(dimension_numbers=dn, slice_sizes=sizes, mode=mode, fill_value=fill, indices_are_sorted=False, unique_indices=False)

    rows = GatherDimensionNumbers((1,), (0,), (0,))
    for d in sample_dtypes():
        yield (filled((3, 4), d), np.array([[0], [2], [3], [-1]], np.int32)), params(rows, (1, 4))
    for mode in (GatherScatterMode.CLIP, GatherScatterMode.PROMISE_IN_BOUNDS, GatherScatterMode.FILL_OR_DROP):
        for d, values in [
            ("int8", (-128, -1, 127)),
            ("uint8", (0, 255, 2)),
            ("uint64", (2**64 - 1, 2**63, 1)),
            ("int64", (-(2**63), 2**63 - 1, 0)),
        ]:
            yield (filled((3, 4), "float32"), np.array(values, d).reshape(3, 1)), params(rows, (1, 4), mode)
        windows = GatherDimensionNumbers((1, 2), (), (1, 0))
        yield (filled((5, 4), "int32"), np.array([[0, 0], [2, 3], [-1, 2], [1, 4]], np.int32)), params(windows, (2, 3), mode, 7)
    i32 = np.int32
    yield (filled((3, 4), "float32"), np.array([[0], [5], [3]], i32)), params(GatherDimensionNumbers((), (1,), (1,), (0,), (0,)), (1, 1))
    yield (
        (filled((3, 4, 2), "float32"), np.zeros((2, 3, 1), i32) + 1),
        params(GatherDimensionNumbers((0, 2), (), (1,), (0,), (1,)), (1, 2, 2)),
    )
    yield (filled((3, 4), "float32"), np.zeros((2, 3, 1), i32)), params(GatherDimensionNumbers((0,), (0,), (0,)), (1, 4))
    yield (filled((3, 4), "float32"), np.array([1, 2], i32)), params(GatherDimensionNumbers((), (0, 1), (0, 1)), (1, 1))
    yield (filled((3, 4), "float32"), np.zeros((0, 1), i32)), params(rows, (1, 4))
    yield (filled((3, 0), "float32"), np.zeros((2, 1), i32)), params(rows, (1, 0))
    yield (filled((3, 4), "float32"), np.zeros((2, 0), i32)), params(GatherDimensionNumbers((1, 2), (), ()), (3, 4))
    yield (filled((), "float32"), np.zeros((2, 0), i32)), params(GatherDimensionNumbers((), (), ()), ())


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    filled_up = params["mode"] is GatherScatterMode.FILL_OR_DROP
    return gather(*primals, **params), gather(tangents[0], primals[1], **params | ({"fill_value": 0} if filled_up else {}))


def _accumulate(
    total: Any,
    ct: Any,
    x: Linear,
    indices: Any,
    *,
    dimension_numbers: GatherDimensionNumbers,
    mode: GatherScatterMode,
    indices_are_sorted: bool,
    unique_indices: bool,
    **_: Any,
) -> Any:
    return OPS["scatter-add"](
        total,
        indices,
        ct,
        dimension_numbers=ScatterDimensionNumbers(*dimension_numbers),
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        mode=mode,
        update_jaxpr=combination("add", x.aval.dtype),
        update_consts=(),
    )


def _transpose(ct: Any, x: Linear, indices: Any, **params: Any) -> list[Any]:
    return [_accumulate(zeros(x.aval), ct, x, indices, **params), None]


def _batch(
    axis: Axis,
    args: Sequence[Any],
    dims: Sequence[int | None],
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Axes,
    **params: Any,
) -> tuple[Any, int]:
    """A batch of operands alone is one more axis of the windows, a batch of indices one more axis of these, both together batching axes.
    No axis has to be moved but that of the indices behind the index vectors."""
    (x, indices), (d, k) = args, dims
    offsets, collapsed, start_map, batching, indices_batching = dimension_numbers
    if k is not None and k == len(indices.shape) - 1:
        indices, k = to_front(indices, k, axis.size), 0
    if d is not None:
        collapsed, start_map, batching = (shifted(axes, d) for axes in (collapsed, start_map, batching))
    if k is None:
        assert d is not None
        before = d - sum(a < d for a in (*collapsed, *batching))
        out = offsets[before - 1] + 1 if before else 0
        offsets = inserted(shifted(offsets, out), before, out)
        slice_sizes = inserted(slice_sizes, d, axis.size)
    else:
        index_axes = [a for a in range(len(offsets) + len(indices.shape) - 2) if a not in offsets]
        out = index_axes[k] if k < len(index_axes) else len(offsets) + len(index_axes)
        offsets, indices_batching = shifted(offsets, out), shifted(indices_batching, k)
        if d is not None:
            batching, indices_batching = joint_axes(batching, indices_batching, d, k)
            slice_sizes = inserted(slice_sizes, d, min(axis.size, 1))
    numbers = GatherDimensionNumbers(offsets, collapsed, start_map, batching, indices_batching)
    return gather(x, indices, dimension_numbers=numbers, slice_sizes=slice_sizes, **params), out


gather = Op(
    "gather",
    typ=_typ,
    oracle=_oracle,
    lower=_lower,
    samples=_samples,
    jvp=_jvp,
    transpose=_transpose,
    accumulate=_accumulate,
    batch=_batch,
)
