"""Contractions along an axis that is cut into groups of given sizes: one matrix of the right operand for each group, or one result.

The axis is gone through in tiles of rows. A tile meets each group that has rows in it: at most `tiles + groups - 1` products of a tile,
whatever the sizes are, so that the work is that of one dense product (the tiling of T. Gale et al., MegaBlocks, 2023)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from steno.core import dtypes
from steno.lax.contraction import PrecisionLike, dot_general
from steno.lax.control_flow.loops import scan
from steno.lax.indexing import dynamic_index_in_dim, dynamic_slice_in_dim, dynamic_update_index_in_dim, dynamic_update_slice_in_dim
from steno.lax.operands import Array, ArrayLike, DTypeLike, as_operand, check_dtype, integers
from steno.lax.shape import full, iota, reshape, transpose
from steno.mapping import vmap
from steno.numpy import clip, concatenate, cumsum, searchsorted, where, zeros

_TILE: Final = 128


class RaggedDotDimensionNumbers(NamedTuple):
    """What the axes of a ragged product are.

    dot_dimension_numbers    as those of `dot_general`
    lhs_ragged_dimensions    the one axis of the left operand that is cut into groups
    rhs_group_dimensions     the axis of the right operand that numbers the groups; none if the ragged axis is contracted or a batch axis"""

    dot_dimension_numbers: Any
    lhs_ragged_dimensions: Sequence[int]
    rhs_group_dimensions: Sequence[int]


def ragged_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    group_offset: Any = None,
    out_sharding: Any = None,
) -> Array:
    """(m, k), (g, k, n), (g,) --> (m, n): the first `group_sizes[0]` rows of `lhs` times `rhs[0]`, the next ones times `rhs[1]`, and so on;
    rows that are left over are zero.

    TypeError for shapes that do not fit, and sizes that are no integers."""
    numbers = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))
    return ragged_dot_general(lhs, rhs, group_sizes, numbers, precision, preferred_element_type, group_offset, out_sharding)


def ragged_dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    group_offset: Any = None,
    out_sharding: Any = None,
) -> Array:
    """`dot_general` with one axis of `lhs` cut into groups.

    An axis of lhs alone    `rhs` has an axis of groups; each part of `lhs` meets its group's part of `rhs`
    A contracted axis       the result has an axis of groups in front: the sums over each group's part
    A batch axis            `dot_general`
    group_sizes has the axis of groups last, and before it none, or the batch axes and those axes of lhs of the ragged one's kind that stand
    before it. TypeError for what does not fit, NotImplementedError for a `group_offset`."""
    if group_offset is not None:
        raise NotImplementedError("ragged_dot_general: group_offset is not supported")
    fun = "ragged_dot_general"
    x, y, sizes = (as_operand(fun, v, k) for k, v in enumerate((lhs, rhs, group_sizes)))
    if not dtypes.is_integer(sizes.dtype):
        raise TypeError(f"{fun}: group_sizes must be integers, a subtype of np.integer, got {dtypes.name(sizes.dtype)}")
    (lc, rc), (lb, rb) = ragged_dot_dimension_numbers.dot_dimension_numbers
    lc, rc, lb, rb = (integers(fun, "dimension numbers", d) for d in (lc, rc, lb, rb))
    ragged, group = (integers(fun, "dimension numbers", d) for d in ragged_dot_dimension_numbers[1:])
    if len(ragged) != 1:
        raise TypeError(f"{fun} expects exactly one lhs ragged dimension, got {ragged}")
    if not 0 <= ragged[0] < x.ndim:
        raise TypeError(
            f"{fun} requires lhs ragged dimension numbers to be nonnegative and less than the number of axes of the lhs, got {ragged} "
            f"for {x.ndim} axes"
        )
    if not all(0 <= d < y.ndim for d in group):
        raise TypeError(f"{fun}: rhs group dimension numbers must lie in [0, {y.ndim}), got {group}")
    if set(group) & {*rc, *rb}:
        raise TypeError(
            f"{fun} requires rhs group dimension numbers to be distinct from contracting and batch dimensions, got {group} and {(*rc, *rb)}"
        )
    own = ragged[0] not in (*lc, *lb)
    if own and len(group) != 1:
        raise TypeError(f"{fun} requires exactly one rhs group dimension when lhs ragged dimension is noncontracting, got {group}")
    if not own and group:
        raise TypeError(f"{fun} requires zero group dimensions in the rhs when lhs ragged dimension is contracting or batch, got {group}")
    out = None if preferred_element_type is None else check_dtype(preferred_element_type, fun)
    numbers = ((lc, rc), (lb, rb))
    _check_shapes(fun, x.shape, y.shape, numbers)
    if ragged[0] in lb:
        _sizes_for(fun, sizes, [x.shape[d] for d in lb[: lb.index(ragged[0])]], None)
        return dot_general(x, y, numbers, precision, out)
    out = out or dtypes.result_type(x, y)
    # all kinds of axes side by side: batch, own (before the ragged one, after it), contracted
    l_own = [d for d in range(x.ndim) if d not in (*lc, *lb)]
    r_own = [d for d in range(y.ndim) if d not in (*rc, *rb, *group)]
    kind = l_own if own else list(lc)
    before, after = kind[: kind.index(ragged[0])], kind[kind.index(ragged[0]) + 1 :]
    sizes = _sizes_for(fun, sizes, [x.shape[d] for d in (*lb, *before)], y.shape[group[0]] if own else None)
    m, k = x.shape[ragged[0]], math.prod(x.shape[d] for d in (lc if own else l_own))
    batch, l_shape, r_shape = _shape_of(x, lb), _shape_of(x, l_own), _shape_of(y, r_own)
    wide = dtypes.as_dtype(dtypes.float32) if dtypes.is_float(out) and out.itemsize < 4 else out
    product = _Product(precision, wide)
    x = reshape(transpose(x, (*lb, *before, *after, *ragged, *(lc if own else l_own))), (*batch, *_shape_of(x, (*before, *after)), m, k))
    n, outer = math.prod(r_shape), len(batch) + len(before)
    if own:
        y = reshape(transpose(y, (*rb, *group, *rc, *r_own)), (*batch, y.shape[group[0]], k, n))
        z = _over(product.rows, batch, before, after, None)(x, y, sizes)  # batch, before, after, m, n
        rows = outer + len(after)
        z = reshape(transpose(z, (*range(outer), rows, *range(outer, rows), rows + 1)), (*batch, *l_shape, *r_shape))
    else:
        same = dict(zip(lc, rc, strict=True))
        order = [same[d] for d in (*before, *after, *ragged)]
        y = reshape(transpose(y, (*rb, *order, *r_own)), (*batch, *_shape_of(y, order), n))
        z = _over(product.groups, batch, before, after, 0)(x, y, sizes).sum(tuple(range(len(batch), outer + len(after))))
        z = transpose(z, (len(batch), *range(len(batch)), len(batch) + 1, len(batch) + 2))
        z = reshape(z, (z.shape[0], *batch, *l_shape, *r_shape))
    return z if z.dtype == out else z.astype(out)


def _shape_of(x: Any, dims: Sequence[int]) -> list[int]:
    return [x.shape[d] for d in dims]


def _over(run: Any, batch: Sequence[int], before: Sequence[int], after: Sequence[int], right: int | None) -> Any:
    """`run(x, y, sizes)` over further axes: `batch` of all three, `before` of x and the sizes, `after` of x; of y too if `right` is 0."""
    for _ in after:
        run = vmap(run, (0, right, None))
    for _ in before:
        run = vmap(run, (0, right, 0))
    for _ in batch:
        run = vmap(run)
    return run


def _check_shapes(fun: str, x: Sequence[int], y: Sequence[int], numbers: Any) -> None:
    (lc, rc), (lb, rb) = numbers
    for what, left, right in (("contracting", lc, rc), ("batch", lb, rb)):
        a, b = tuple(x[d] for d in left), tuple(y[d] for d in right)
        if a != b:
            raise TypeError(f"{fun}: {what} dimensions must have the same shape, got {a} and {b}")


def _sizes_for(fun: str, sizes: Any, prefix: list[int], groups: int | None) -> Any:
    """The sizes with all their axes. TypeError if they do not fit."""
    if sizes.ndim not in (1, len(prefix) + 1) or (sizes.ndim > 1 and list(sizes.shape[:-1]) != prefix):
        wanted = groups if groups is not None else sizes.shape[-1] if sizes.ndim else 1
        raise TypeError(f"{fun}: expected group_sizes to have shape {(*prefix, wanted)}, got {sizes.shape}; of rank 1 it holds for all")
    if groups is not None and sizes.shape[-1] != groups:
        raise TypeError(f"{fun}: expected rhs group dimension size to be {sizes.shape[-1]}, got {groups}: there is one for each group size")
    return full(prefix, 1, sizes.dtype)[..., None] * sizes if sizes.ndim == 1 and prefix else sizes


class _Visits(NamedTuple):
    """The pairs of a tile and a group with rows in it, in order: the tile, the group, and the rows that are the group's."""

    tile: Any
    group: Any
    low: Any
    high: Any


def _visits(sizes: Any, m: int, tile: int, tiles: int) -> _Visits:
    """All visits; what is too many has no rows."""
    groups = sizes.shape[0]
    ends = clip(cumsum(sizes.astype(dtypes.int32)), 0, m)
    starts = concatenate([zeros(1, dtypes.int32), ends[:-1]])
    first = starts // tile
    counts = where(ends > starts, (ends + tile - 1) // tile - first, 0)
    total = cumsum(counts)
    number = iota(dtypes.int32, tiles + groups - 1)
    group = clip(searchsorted(total, number, side="right").astype(dtypes.int32), 0, groups - 1)
    here = number < total[-1]
    index = where(here, first[group] + number - (total[group] - counts[group]), 0)
    return _Visits(index, group, where(here, starts[group], 0), where(here, ends[group], 0))


class _Product(NamedTuple):
    """Products of matrices by groups of rows, summed in `wide`."""

    precision: Any
    wide: Any

    def _tiles(self, m: int) -> tuple[int, int]:
        tile = max(min(m, _TILE), 1)
        return tile, -(-m // tile)

    def _padded(self, x: Any, rows: int) -> Any:
        return x if x.shape[0] == rows else concatenate([x, zeros((rows - x.shape[0], *x.shape[1:]), x.dtype)])

    def _rows_of(self, x: Any, v: _Visits, tile: int) -> tuple[Any, Any]:
        """The tile of x, zero where rows are not the group's; where it begins."""
        start = v.tile * tile
        rows = start + iota(dtypes.int32, tile)
        mine = (rows >= v.low) & (rows < v.high)
        return where(mine[:, None], dynamic_slice_in_dim(x, start, tile), zeros((), x.dtype)), start

    def rows(self, x: Any, y: Any, sizes: Any) -> Any:
        """(m, k), (g, k, n) --> (m, n)"""
        m, (tile, tiles) = x.shape[0], self._tiles(x.shape[0])
        x = self._padded(x, tile * tiles)

        def visit(total: Any, v: _Visits) -> tuple[Any, None]:
            mine, start = self._rows_of(x, v, tile)
            part = dot_general(mine, dynamic_index_in_dim(y, v.group, keepdims=False), (((1,), (0,)), ((), ())), self.precision, self.wide)
            return dynamic_update_slice_in_dim(total, dynamic_slice_in_dim(total, start, tile) + part, start, 0), None

        total, _ = scan(visit, zeros((tile * tiles, y.shape[2]), self.wide), _visits(sizes, m, tile, tiles))
        return total[:m]

    def groups(self, x: Any, y: Any, sizes: Any) -> Any:
        """(m, k), (m, n) --> (g, k, n)"""
        m, (tile, tiles) = x.shape[0], self._tiles(x.shape[0])
        x, y = self._padded(x, tile * tiles), self._padded(y, tile * tiles)

        def visit(total: Any, v: _Visits) -> tuple[Any, None]:
            mine, start = self._rows_of(x, v, tile)
            other = dynamic_slice_in_dim(y, start, tile)
            part = dot_general(mine, other, (((0,), (0,)), ((), ())), self.precision, self.wide)
            sum_ = dynamic_index_in_dim(total, v.group, keepdims=False) + part
            return dynamic_update_index_in_dim(total, sum_, v.group, 0), None

        total, _ = scan(visit, zeros((sizes.shape[0], x.shape[1], y.shape[1]), self.wide), _visits(sizes, m, tile, tiles))
        return total


__all__ = ["RaggedDotDimensionNumbers", "ragged_dot", "ragged_dot_general"]
