"""gather: windows of an array at run-time positions; and the geometry that it shares with the scatters."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, final

import ml_dtypes
import numpy as np

from steno.core import dtypes
from steno.core.aval import ShapedArray
from steno.core.op import Op
from steno.core.record import record
from steno.ir.expr import Builder, Expr, Scalar
from steno.ir.index import ZERO, Index, Value
from steno.ir.kinds import Map, Read
from steno.ops.index import as_int64, clamped
from steno.ops.samples import filled, sample_dtypes

Axes = tuple[int, ...]


class GatherScatterMode(enum.Enum):
    """What happens where a window does not lie inside the array. CLIP moves it inside; FILL_OR_DROP gives the fill value (gather) or
    leaves the update out (scatter); PROMISE_IN_BOUNDS: it does not happen (if it does, no harm is done: gather clips, scatter drops)."""

    CLIP = 1
    FILL_OR_DROP = 2
    PROMISE_IN_BOUNDS = 3
    ONE_HOT = 4

    @staticmethod
    def from_any(mode: str | GatherScatterMode | None) -> GatherScatterMode:
        """ "clip", "fill", "drop", "promise_in_bounds", a mode; None is FILL_OR_DROP. ValueError for other strings, TypeError for other
        things."""
        if isinstance(mode, GatherScatterMode):
            return mode
        if mode is None or mode in ("fill", "drop"):
            return GatherScatterMode.FILL_OR_DROP
        if mode == "clip":
            return GatherScatterMode.CLIP
        if mode == "promise_in_bounds":
            return GatherScatterMode.PROMISE_IN_BOUNDS
        if mode == "one_hot":
            return GatherScatterMode.ONE_HOT
        if isinstance(mode, str):
            raise ValueError(f"Unknown gather or scatter mode {mode!r}; there are 'clip', 'fill', 'drop' and 'promise_in_bounds'")
        raise TypeError(f"a gather or scatter mode must be a string, a GatherScatterMode or None, got {mode!r}")

    def __str__(self) -> str:
        return f"GatherScatterMode.{self.name}"


class GatherDimensionNumbers(NamedTuple):
    """Where the axes of a gather come from. offset_dims: the result's axes that run through a window; collapsed_slice_dims: operand axes
    whose window has size 1 and is no axis of the result; start_index_map: for each component of an index vector its operand axis;
    operand_batching_dims and start_indices_batching_dims: axes of operand and indices that run together."""

    offset_dims: Axes
    collapsed_slice_dims: Axes
    start_index_map: Axes
    operand_batching_dims: Axes = ()
    start_indices_batching_dims: Axes = ()


@final
@record(frozen=True)
class Windows:
    """The geometry of gather and scatter. The *big* array (gather's result, scatter's updates) has window axes, one for each operand axis
    that is neither collapsed nor batching, and index axes, one for each axis of the indices but the last."""

    operand: tuple[int, ...]  # shape
    sizes: tuple[int, ...]  # the window's size along each operand axis
    big_rank: int
    window_axes: Axes
    collapsed: Axes
    start_map: Axes
    operand_batching: Axes
    indices_batching: Axes

    @property
    def index_axes(self) -> list[int]:
        """Those of the big array, in order of the indices' axes."""
        return [a for a in range(self.big_rank) if a not in self.window_axes]

    @property
    def window_axis(self) -> dict[int, int]:
        """Operand axis --> the axis of the big array that runs through the window along it."""
        kept = [d for d in range(len(self.operand)) if d not in self.collapsed and d not in self.operand_batching]
        return dict(zip(kept, self.window_axes, strict=True))

    def arrays(self, indices: np.ndarray, big: Sequence[int], clip: bool) -> tuple[list[np.ndarray], np.ndarray]:
        """For each operand axis the positions (broadcastable to the big shape, always in range), and where the window lies inside."""
        index_axes, window_axis = self.index_axes, self.window_axis
        ramp = [np.arange(n).reshape([-1 if k == a else 1 for k in range(self.big_rank)]) for a, n in enumerate(big)]
        spread = [big[a] if a in index_axes else 1 for a in range(self.big_rank)]
        inside = np.ones((1,) * self.big_rank, bool)
        out: list[np.ndarray] = []
        for d, (n, size) in enumerate(zip(self.operand, self.sizes, strict=True)):
            at = np.zeros((1,) * self.big_rank, np.int64)
            if d in self.start_map:
                start = indices[..., self.start_map.index(d)].astype(object if indices.dtype == np.uint64 else np.int64).reshape(spread)
                inside = inside & ((0 <= start) & (start <= n - size)).astype(bool)
                at = np.clip(start, 0, max(n - size, 0)).astype(np.int64)
            if d in self.operand_batching:
                at = at + ramp[index_axes[self.indices_batching[self.operand_batching.index(d)]]]
            if d in window_axis:
                at = at + ramp[window_axis[d]]
            out.append(at)
        return out, np.ones_like(inside) if clip else inside

    def positions(self, b: Builder, indices: Sequence[Index], read: Read, clip: bool) -> tuple[list[Index], Expr | None]:
        """Where the operand's element for `indices` of the big array lies, and a guard (None: always inside). `read`: the index array."""
        index_axes, window_axis = self.index_axes, self.window_axis
        leading = [indices[a] for a in index_axes]
        guard: Expr | None = None
        out: list[Index] = []
        for d, (n, size) in enumerate(zip(self.operand, self.sizes, strict=True)):
            at = ZERO
            if d in self.start_map:
                start = read([*leading, Index(self.start_map.index(d))])
                if clip:
                    at = clamped(b, start, n - size)
                else:
                    at, condition = _checked(b, start, n - size)
                    guard = condition if guard is None else b.and_(guard, condition)
            if d in self.operand_batching:
                at = at + leading[self.indices_batching[self.operand_batching.index(d)]]
            if d in window_axis:
                at = at + indices[window_axis[d]]
            out.append(at)
        return out, guard


def _checked(b: Builder, i: Scalar, high: int) -> tuple[Index, Expr]:
    """`i` as an Index that may be taken for one in [0, high] where the condition holds."""
    at, natural = as_int64(b, i, max(high, 0))
    condition = b.le(at, high)
    if not natural:
        condition = b.and_(b.ge(at, 0), condition)
    if at.op == "const":
        return Index(min(max(at.attr, 0), max(high, 0))), condition
    return (Index(0, ((Value(at, 0, high), 1),)) if high > 0 else ZERO), condition


def check_axes(op: str, name: str, axes: Sequence[int], rank: int, ordered: bool = True) -> None:
    """TypeError unless `axes` are distinct, in [0, rank), and ascending if `ordered`."""
    if any(not 0 <= a < rank for a in axes):
        raise TypeError(f"{op}: {name} must lie in [0, {rank}), got {tuple(axes)}")
    if len(set(axes)) != len(axes):
        raise TypeError(f"{op}: {name} must be distinct, got {tuple(axes)}")
    if ordered and list(axes) != sorted(axes):
        raise TypeError(f"{op}: {name} must be sorted, got {tuple(axes)}")


def check_geometry(op: str, x: ShapedArray, indices: ShapedArray, w: Windows, names: Sequence[str]) -> None:
    """What gather and scatter have in common. `names`: of collapsed, start map, operand batching and indices batching dimensions."""
    collapsed, start_map, operand_batching, indices_batching = names
    if dtypes.kind(indices.dtype) not in "iu":
        raise ValueError(f"{op}: indices must have an integer type, got {dtypes.name(indices.dtype)}")
    if indices.ndim < 1:
        raise TypeError(f"{op}: indices must have an axis of index vectors, the last one; got a scalar")
    check_axes(op, collapsed, w.collapsed, x.ndim)
    check_axes(op, start_map, w.start_map, x.ndim, ordered=False)
    check_axes(op, operand_batching, w.operand_batching, x.ndim)
    check_axes(op, indices_batching, w.indices_batching, indices.ndim - 1, ordered=False)
    if len(w.start_map) != indices.shape[-1]:
        raise TypeError(
            f"{op}: {start_map} {w.start_map} must have one entry for each component of an index vector, got indices of shape "
            f"{indices.shape}"
        )
    for what, axes in [(collapsed, w.collapsed), (start_map, w.start_map)]:
        if set(axes) & set(w.operand_batching):
            raise TypeError(f"{op}: {what} {axes} and {operand_batching} {w.operand_batching} must be disjoint")
    if len(w.operand_batching) != len(w.indices_batching):
        raise TypeError(
            f"{op}: {operand_batching} and {indices_batching} must have equal lengths, got {w.operand_batching} and {w.indices_batching}"
        )
    for d, k in zip(w.operand_batching, w.indices_batching, strict=True):
        if x.shape[d] != indices.shape[k]:
            raise TypeError(
                f"{op}: batching axes of operand and indices must have equal sizes, got {x.shape[d]} (operand axis {d}) and "
                f"{indices.shape[k]} (indices axis {k})"
            )


# gather


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
    w = _windows(x.shape, max(indices.ndim, 1), dn, slice_sizes)
    check_geometry(
        "gather", x, indices, w, ("collapsed_slice_dims", "start_index_map", "operand_batching_dims", "start_indices_batching_dims")
    )
    check_axes("gather", "offset_dims", dn.offset_dims, w.big_rank)
    if mode is GatherScatterMode.ONE_HOT:
        raise NotImplementedError("gather: mode 'one_hot' is not implemented; use 'clip' or 'fill'")
    if len(slice_sizes) != x.ndim:
        raise TypeError(f"gather: slice_sizes must have one entry for each axis, got {slice_sizes} for an operand of shape {x.shape}")
    if any(not 0 <= s <= n for s, n in zip(slice_sizes, x.shape, strict=True)):
        raise TypeError(
            f"gather: slice_sizes must lie between 0 and the operand's sizes, got {slice_sizes} for an operand of shape {x.shape}"
        )
    if any(slice_sizes[d] != 1 for d in (*dn.collapsed_slice_dims, *dn.operand_batching_dims)):
        raise TypeError(
            f"gather: slice_sizes must be 1 along collapsed and batching axes, got {slice_sizes} with collapsed_slice_dims "
            f"{dn.collapsed_slice_dims} "
            f"and operand_batching_dims {dn.operand_batching_dims}"
        )
    kept = [s for d, s in enumerate(slice_sizes) if d not in dn.collapsed_slice_dims and d not in dn.operand_batching_dims]
    if len(kept) != len(dn.offset_dims):
        raise TypeError(
            f"gather: each operand axis must be an offset, collapsed or batching axis, got {dimension_numbers} for an operand of shape "
            f"{x.shape}"
        )
    window, leading = iter(kept), iter(indices.shape[:-1])
    return x.update(shape=tuple(next(window) if a in dn.offset_dims else next(leading) for a in range(w.big_rank)))


def default_fill(dtype: Any) -> Any:
    """The fill value of a dtype: NaN, the least signed integer, the greatest unsigned one, True."""
    kind = dtypes.kind(dtype)
    if kind == "k":
        return (0xFFFFFFFF, 0xFFFFFFFF)
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


gather = Op("gather", typ=_typ, oracle=_oracle, lower=_lower, samples=_samples)
