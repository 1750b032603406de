"""The scatters: windows of an array changed at run-time positions. Updates take effect one after the other, in row-major order of
`updates`."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from steno.core.aval import ShapedArray
from steno.core.jaxpr import Jaxpr
from steno.core.op import Op
from steno.core.trace import trace_to_jaxpr
from steno.ir.expr import Builder, Expr, Scalar
from steno.ir.index import Index
from steno.ir.kinds import Read, Update
from steno.ops.arithmetic import add, max_, min_, mul, sub
from steno.ops.gather import Axes, GatherScatterMode, Windows, check_axes, check_geometry
from steno.ops.inline import lanes_function, scalar_function
from steno.ops.samples import filled, sample_dtypes, small
from steno.ops.shape import same_dtype


class ScatterDimensionNumbers(NamedTuple):
    """Where the axes of a scatter come from. update_window_dims: the updates' axes that run through a window; inserted_window_dims: operand
    axes whose window has size 1 and is no axis of the updates; scatter_dims_to_operand_dims: for each component of an index vector its
    operand axis; operand_batching_dims and scatter_indices_batching_dims: axes of operand and indices that run together."""

    update_window_dims: Axes
    inserted_window_dims: Axes
    scatter_dims_to_operand_dims: Axes
    operand_batching_dims: Axes = ()
    scatter_indices_batching_dims: Axes = ()


_COMBINE = {"add": add, "sub": sub, "mul": mul, "min": min_, "max": max_}


@functools.cache
def combination(name: str, dtype: Any) -> Jaxpr:
    """The `update_jaxpr` of `scatter-<name>`: `{ lambda ; a b. let c = <name> a b in (c,) }`. One object for each name and dtype."""
    op = _COMBINE[name]
    scalar = ShapedArray((), dtype)
    return trace_to_jaxpr(lambda old, update: [op(old, update)], [scalar, scalar]).jaxpr


def _windows(shape: tuple[int, ...], updates: Sequence[int], dn: ScatterDimensionNumbers) -> Windows:
    window = iter(dn.update_window_dims)
    fixed = (*dn.inserted_window_dims, *dn.operand_batching_dims)
    sizes = tuple(1 if d in fixed else updates[next(window)] for d in range(len(shape)))
    return Windows(
        shape, sizes, len(updates), tuple(dn.update_window_dims), tuple(dn.inserted_window_dims), tuple(dn.scatter_dims_to_operand_dims),
        tuple(dn.operand_batching_dims), tuple(dn.scatter_indices_batching_dims),
    )  # fmt: skip


def _typ_of(op: str) -> Any:
    def typ(
        x: ShapedArray,
        indices: ShapedArray,
        updates: ShapedArray,
        *,
        dimension_numbers: ScatterDimensionNumbers,
        mode: GatherScatterMode,
        **_: Any,
    ) -> ShapedArray:
        dn = dimension_numbers
        same_dtype(op, (x, updates))
        rank = len(dn.update_window_dims) + max(indices.ndim, 1) - 1
        if updates.ndim != rank:
            raise TypeError(
                f"{op}: updates must have {rank} axes (of the indices but the last, and of the window), got shape {updates.shape}"
            )
        check_axes(op, "update_window_dims", dn.update_window_dims, updates.ndim)
        if len(dn.update_window_dims) + len(dn.inserted_window_dims) + len(dn.operand_batching_dims) != x.ndim:
            raise TypeError(
                f"{op}: each operand axis must be a window, inserted or batching axis, got {dn} for an operand of shape {x.shape}"
            )
        check_axes(op, "inserted_window_dims", dn.inserted_window_dims, x.ndim)
        check_axes(op, "operand_batching_dims", dn.operand_batching_dims, x.ndim)
        w = _windows(x.shape, updates.shape, dn)
        names = ("inserted_window_dims", "scatter_dims_to_operand_dims", "operand_batching_dims", "scatter_indices_batching_dims")
        check_geometry(op, x, indices, w, names)
        if mode is GatherScatterMode.ONE_HOT:
            raise NotImplementedError(f"{op}: mode 'one_hot' is not implemented; use 'clip' or 'drop'")
        if any(updates.shape[a] > x.shape[d] for d, a in w.window_axis.items()):
            raise TypeError(
                f"{op}: a window must not exceed the operand, got updates of shape {updates.shape} for an operand of shape {x.shape}, {dn}"
            )
        leading = tuple(updates.shape[a] for a in w.index_axes)
        if leading != indices.shape[:-1]:
            raise TypeError(
                f"{op}: updates and indices must agree in the axes outside the window, got {leading} of updates of shape {updates.shape} "
                f"and {indices.shape[:-1]} of indices of shape {indices.shape}"
            )
        return x

    return typ


def _oracle(
    x: np.ndarray, indices: np.ndarray, updates: np.ndarray, *, dimension_numbers: ScatterDimensionNumbers, mode: GatherScatterMode,
    update_jaxpr: Jaxpr | None, **_: Any,
) -> np.ndarray:  # fmt: skip
    """The r-th updates of all elements at once, for r = 0, 1, ...: each element sees its updates in their order."""
    out = x.copy().reshape(-1)
    if 0 in x.shape or 0 in updates.shape:
        return out.reshape(x.shape)
    w = _windows(x.shape, updates.shape, dimension_numbers)
    at, inside = w.arrays(indices, updates.shape, clip=mode is GatherScatterMode.CLIP)
    target = np.zeros(updates.shape, np.int64)
    for a, n in zip(at, x.shape, strict=True):
        target = target * n + a
    chosen = np.broadcast_to(inside, updates.shape).reshape(-1)
    target, values = target.reshape(-1)[chosen], updates.reshape(-1)[chosen]
    order = np.argsort(target, kind="stable")
    target, values = target[order], values[order]
    first = np.r_[True, target[1:] != target[:-1]] if target.size else np.zeros(0, bool)
    run_starts = np.flatnonzero(first)
    round_ = np.arange(target.size) - np.repeat(run_starts, np.diff(np.r_[run_starts, target.size]))
    combine = None if update_jaxpr is None else lanes_function(update_jaxpr)
    for r in range(int(round_.max()) + 1 if target.size else 0):
        t, v = target[round_ == r], values[round_ == r]
        out[t] = v if combine is None else combine(out[t], v)[0]
    return out.reshape(x.shape)


def _lower(
    avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, dimension_numbers: ScatterDimensionNumbers,
    mode: GatherScatterMode,
    update_jaxpr: Jaxpr | None, unique_indices: bool, **_: Any,
) -> Update:  # fmt: skip
    x, _indices, updates = avals_in
    w = _windows(x.shape, updates.shape, dimension_numbers)
    combine = None if update_jaxpr is None else scalar_function(update_jaxpr)

    def target(b: Builder, i: Sequence[Index], reads: Sequence[Read]) -> tuple[list[Index], Expr | None]:
        return w.positions(b, i, reads[1], clip=mode is GatherScatterMode.CLIP)

    def value(b: Builder, i: Sequence[Index], reads: Sequence[Read], old: Scalar) -> Scalar:
        new = reads[2](i)
        return new if combine is None else combine(b, old, new)[0]

    one_window = math.prod(updates.shape[a] for a in w.index_axes) == 1
    batching = {w.index_axes[k] for k in w.indices_batching}
    one_for_each = math.prod(updates.shape[a] for a in w.index_axes if a not in batching) == 1
    return Update(updates.shape, target, value, unique=unique_indices or one_window or one_for_each)


def _samples_of(name: str | None) -> Any:
    def samples() -> Iterable[Any]:
        def params(dn: ScatterDimensionNumbers, dtype: Any, mode: GatherScatterMode = GatherScatterMode.FILL_OR_DROP) -> dict[str, Any]:
            jaxpr = None if name is None else combination(name, np.dtype(dtype))
            return dict(
                dimension_numbers=dn, mode=mode, indices_are_sorted=False, unique_indices=False, update_jaxpr=jaxpr, update_consts=()
            )  # fmt: skip

        kinds = "biufc" if name is None else "iuf" if name in ("min", "max") else "iufc"
        fill = filled if name in (None, "min", "max") else small
        rows = ScatterDimensionNumbers((1,), (0,), (0,))
        for d in sample_dtypes(kinds):
            x, u = fill((3, 4), d), fill((5, 4), d, seed=1)
            yield (x, np.array([[0], [2], [3], [2], [-1]], np.int32), u), params(rows, x.dtype)
        f32, i32 = "float32", np.int32
        for mode in (GatherScatterMode.CLIP, GatherScatterMode.PROMISE_IN_BOUNDS, GatherScatterMode.FILL_OR_DROP):
            for d, at in [("int8", (-128, -1, 127)), ("uint8", (0, 255, 2)), ("uint64", (2**64 - 1, 2**63, 1))]:
                yield (fill((3, 4), f32), np.array(at, d).reshape(3, 1), fill((3, 4), f32, seed=1)), params(rows, f32, mode)
            windows = ScatterDimensionNumbers((1, 2), (), (1, 0))
            at = np.array([[0, 0], [1, 2], [-1, 2], [1, 4]], i32)
            yield (fill((5, 4), f32), at, fill((4, 2, 3), f32, seed=1)), params(windows, f32, mode)
        diagonal = ScatterDimensionNumbers((), (1,), (1,), (0,), (0,))
        yield (fill((3, 4), f32), np.array([[0], [5], [3]], i32), fill((3,), f32, seed=1)), params(diagonal, f32)
        yield (fill((3, 4), f32), np.array([1, 2], i32), fill((), f32, seed=1)), params(ScatterDimensionNumbers((), (0, 1), (0, 1)), f32)
        yield (fill((3, 4), f32), np.zeros((0, 1), i32), fill((0, 4), f32)), params(rows, f32)
        yield (fill((0, 4), f32), np.zeros((2, 1), i32), fill((2, 4), f32)), params(rows, f32)
        yield (fill((3, 0), f32), np.zeros((2, 1), i32), fill((2, 0), f32)), params(rows, f32)
        yield (fill((), f32), np.zeros((2, 0), i32), fill((2,), f32)), params(ScatterDimensionNumbers((), (), ()), f32)
        yield (fill((3, 4), f32), np.zeros((2, 3, 1), i32), fill((4, 2, 3), f32)), params(ScatterDimensionNumbers((0,), (0,), (0,)), f32)

    return samples


def _scatter(name: str, combine: str | None) -> Op:
    return Op(
        name,
        typ=_typ_of(name),
        oracle=_oracle,
        lower=_lower,
        aliases=lambda **params: ((0, 0),),
        samples=_samples_of(combine),
    )


scatter = _scatter("scatter", None)
"""Stores the update, or with an `update_jaxpr` what it makes of (old, update)."""
scatter_add = _scatter("scatter-add", "add")
scatter_sub = _scatter("scatter-sub", "sub")
scatter_mul = _scatter("scatter-mul", "mul")
scatter_min = _scatter("scatter-min", "min")
scatter_max = _scatter("scatter-max", "max")
