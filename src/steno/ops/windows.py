"""What gathers, scatters and dynamic slices have in common: positions that are kept in range, and the geometry of windows."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple, final

import ml_dtypes
import numpy as np

from steno.core import dtypes
from steno.core.aval import ShapedArray
from steno.core.record import record
from steno.ir.algebra import affine
from steno.ir.expr import Builder, Expr, Narrow, Scalar
from steno.ir.index import ZERO, Index, Value
from steno.ir.kinds import Read

Axes = tuple[int, ...]
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
    # In its own dtype, if that can hold `high`: vectors have twice as many lanes.
    short = i.dtype.itemsize < 8 and not isinstance(i, Narrow) and affine(at) is None
    within = short and ml_dtypes.iinfo(i.dtype).max <= high
    x = i if short else at
    if not natural:
        x = b.max(x, 0)
    if not within:
        x = b.min(x, high)
    return _in_range(b.convert(x, INT64), high)


def _in_range(at: Expr, high: int) -> Index:
    """An int64 value that lies in [0, high]: as arithmetic on loop variables, if it is that."""
    known = affine(at)
    return known if known is not None and known.lo >= 0 and known.hi <= high else Index(0, ((Value(at, 0, high), 1),))


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


class ScatterDimensionNumbers(NamedTuple):
    """Where the axes of a scatter come from. update_window_dims: the updates' axes that run through a window; inserted_window_dims: operand
    axes whose window has size 1 and is no axis of the updates; scatter_dims_to_operand_dims: for each component of an index vector its
    operand axis; operand_batching_dims and scatter_indices_batching_dims: axes of operand and indices that run together."""

    update_window_dims: Axes
    inserted_window_dims: Axes
    scatter_dims_to_operand_dims: Axes
    operand_batching_dims: Axes = ()
    scatter_indices_batching_dims: Axes = ()


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
    """`i` as an Index that may be taken for one in [0, high] where the condition holds. One comparison of unsigned numbers finds negative
    ones, too."""
    if high < 0:
        return ZERO, b.const(False, np.dtype("bool"))
    at, _ = as_int64(b, i, high)
    known = affine(at)
    if known is not None:
        condition = b.and_(b.ge(at, 0), b.le(at, high))
    elif isinstance(i, Expr) and np.iinfo(i.dtype).max > high:
        condition = b.le(b.bitcast(i, np.dtype(f"uint{8 * i.dtype.itemsize}")), high)
    else:
        condition = b.le(b.bitcast(at, np.dtype("uint64")), high)
    if known is not None and not known.terms:
        return Index(min(max(known.const, 0), high)), condition
    return _in_range(at, high) if high > 0 else ZERO, condition


def joint_axes(operand: Axes, indices: Axes, d: int, k: int) -> tuple[Axes, Axes]:
    """Pairs of batching axes with one more, in order of the operand's."""
    pairs = sorted([*zip(operand, indices, strict=True), (d, k)])
    return tuple(a for a, _ in pairs), tuple(b for _, b in pairs)


def check_axes(op: str, name: str, axes: Sequence[int], rank: int, ordered: bool = True, what: str = "set") -> None:
    """TypeError unless `axes`, a set or what else it is, are distinct, in [0, rank), and ascending if `ordered`."""
    if any(not 0 <= a < rank for a in axes):
        raise TypeError(f"{op}: Invalid {name} {what} in {op} op; valid range is [0, {rank}), got {tuple(axes)}")
    if len(set(axes)) != len(axes):
        raise TypeError(f"{op}: {name} in {op} op must not repeat, got {tuple(axes)}")
    if ordered and list(axes) != sorted(axes):
        raise TypeError(f"{op}: {name} in {op} op must be sorted, got {tuple(axes)}")


def title(op: str) -> str:
    """How an error begins: `scatter-add: Scatter op`."""
    return f"{op}: {op.partition('-')[0].capitalize()} op"


def check_geometry(op: str, x: ShapedArray, indices: ShapedArray, dimensions: Sequence[tuple[str, Axes]]) -> None:
    """What gather and scatter have in common. `dimensions`: names and values of collapsed, start map, operand batching and indices batching
    dimensions."""
    _, (start_map_name, start_map), (batching_name, batching), (indices_name, indices_batching) = dimensions
    if dtypes.kind(indices.dtype) not in "iu":
        raise ValueError(f"{op}: indices must have an integer type, got {dtypes.name(indices.dtype)}")
    if indices.ndim < 1:
        raise TypeError(f"{op}: indices must have an axis of index vectors, the last one; got a scalar")
    if indices.ndim - 1 in indices_batching:
        raise TypeError(
            f"{title(op)} cannot have the index vector dimension as a batching dimension, got {indices_name} {indices_batching} for "
            f"indices of shape {indices.shape}"
        )
    for k, (name, axes) in enumerate(dimensions):
        check_axes(op, name, axes, x.ndim if k < 3 else indices.ndim - 1, k in (0, 2), "mapping" if k == 1 else "set")
    for name, axes in dimensions[:2]:
        if set(axes) & set(batching):
            raise TypeError(f"{op}: {name} and {batching_name} in {op} op must be disjoint, got {axes} and {batching}")
    if len(start_map) != indices.shape[-1]:
        raise TypeError(
            f"{title(op)} has {len(start_map)} elements in {start_map_name} and the bound of dimension index_vector_dim={indices.ndim - 1} "
            f"of indices is {indices.shape[-1]}. These two numbers must be equal: there is one entry for each component of an index vector."
        )
    if len(batching) != len(indices_batching):
        raise TypeError(
            f"{title(op)} requires equal numbers of {batching_name} and {indices_name}, which are pairs, got {batching} and "
            f"{indices_batching}"
        )
    sizes, indices_sizes = tuple(x.shape[d] for d in batching), tuple(indices.shape[d] for d in indices_batching)
    if sizes != indices_sizes:
        raise TypeError(
            f"{title(op)} requires operand batching dimensions and indices batching dimensions to have the same shape, got {sizes} "
            f"(axes {batching}) and {indices_sizes} (axes {indices_batching})"
        )
