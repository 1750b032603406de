"""The scatters: windows of an array changed at run-time positions. Updates take effect one after the other, in row-major order of
`updates`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from steno.core import dtypes
from steno.core.aval import ShapedArray
from steno.core.jaxpr import Jaxpr
from steno.core.op import OPS, Op
from steno.ir.expr import Builder, Expr, Scalar
from steno.ir.index import Index
from steno.ir.kinds import Read, Update
from steno.ops.arithmetic import div, mul, neg
from steno.ops.compare import eq, select_n
from steno.ops.convert import convert_element_type
from steno.ops.gather import gather
from steno.ops.inline import combination, lanes_function, scalar_function
from steno.ops.samples import filled, sample_dtypes, small
from steno.ops.shape import iota, same_dtype
from steno.ops.windows import (
    Axes,
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    Windows,
    check_axes,
    check_geometry,
    joint_axes,
    title,
)
from steno.transforms.rules import (
    Axis,
    ForOp,
    Linear,
    Zero,
    add,
    full,
    full_like,
    inserted,
    instantiate,
    is_differentiable,
    reshape,
    shifted,
    to_dim,
    to_front,
    zero_of,
)


def _windows(shape: tuple[int, ...], updates: Sequence[int], dn: ScatterDimensionNumbers) -> Windows:
    window = iter(dn.update_window_dims)
    fixed = (*dn.inserted_window_dims, *dn.operand_batching_dims)
    sizes = tuple(1 if d in fixed else updates[next(window)] for d in range(len(shape)))
    return Windows(
        shape, sizes, len(updates), tuple(dn.update_window_dims), tuple(dn.inserted_window_dims), tuple(dn.scatter_dims_to_operand_dims),
        tuple(dn.operand_batching_dims), tuple(dn.scatter_indices_batching_dims),
    )  # fmt: skip


def window_sizes(shape: tuple[int, ...], updates: Sequence[int], numbers: ScatterDimensionNumbers) -> Axes:
    """How far a window reaches along each axis of the operand, given the shapes of operand and updates."""
    return _windows(shape, updates, numbers).sizes


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
                f"{op}: Updates tensor must be of rank {rank}; got {updates.ndim}. It has the axes of the indices but the last, and those "
                f"of the window; its shape is {updates.shape}"
            )
        check_axes(op, "update_window_dims", dn.update_window_dims, updates.ndim)
        check_geometry(op, x, indices, list(dn._asdict().items())[1:])
        window = len(dn.update_window_dims) + len(dn.inserted_window_dims) + len(dn.operand_batching_dims)
        if window != x.ndim:
            raise TypeError(
                f"{title(op)} has window of size {window}; doesn't match operand of rank {x.ndim}. Each operand axis must be a window, "
                f"inserted or batching axis, got {dn}"
            )
        w = _windows(x.shape, updates.shape, dn)
        if mode is GatherScatterMode.ONE_HOT:
            raise NotImplementedError(f"{op}: mode 'one_hot' is not implemented; use 'clip' or 'drop'")
        if any(updates.shape[a] > x.shape[d] for d, a in w.window_axis.items()):
            raise TypeError(
                f"{op}: Bounds of the window dimensions of updates exceed the operand's, got updates of shape {updates.shape} for an "
                f"operand of shape {x.shape}, {dn}"
            )
        leading = tuple(updates.shape[a] for a in w.index_axes)
        if leading != indices.shape[:-1]:
            raise TypeError(
                f"{op}: Bounds of the scatter dimensions of updates and indices differ, got {leading} of updates of shape {updates.shape} "
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

    return Update(updates.shape, target, value, *_free_axes(w, updates.shape, unique_indices))


def _free_axes(w: Windows, updates: tuple[int, ...], unique_indices: bool) -> tuple[tuple[int, ...], int]:
    """`apart` and `trailing` of the Update. Points never meet along batching axes and along windows that cannot move; within one window
    no two do."""
    rank = len(updates)
    if not _may_collide(w, updates, unique_indices):
        return tuple(range(rank)), rank
    apart = {a for a in range(rank) if updates[a] <= 1} | {w.index_axes[k] for k in w.indices_batching}
    apart.update(a for d, a in w.window_axis.items() if d not in w.start_map or w.sizes[d] == w.operand[d])
    free = apart | set(w.window_axes)
    trailing = next((k for k in range(rank) if rank - 1 - k not in free), rank)
    return tuple(sorted(apart)), trailing


def _may_collide(w: Windows, updates: Sequence[int], unique_indices: bool) -> bool:
    """Whether two updates may concern one element: not if there is one window, or one for each batching position."""
    batching = {w.index_axes[k] for k in w.indices_batching}
    return not unique_indices and math.prod(updates[a] for a in w.index_axes if a not in batching) > 1


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


# rules


def _gathered(x: Any, indices: Any, updates: Sequence[int], params: dict[str, Any]) -> Any:
    """What lies where the updates go, in their shape; 0 for those left out."""
    numbers: ScatterDimensionNumbers = params["dimension_numbers"]
    sizes = _windows(x.shape, updates, numbers).sizes
    if any(s > n for s, n in zip(sizes, x.shape, strict=True)):  # no place for any update
        return full(updates, 0, x.dtype)
    return gather(
        x,
        indices,
        dimension_numbers=GatherDimensionNumbers(*numbers),
        slice_sizes=sizes,
        indices_are_sorted=params["indices_are_sorted"],
        unique_indices=params["unique_indices"],
        mode=params["mode"],
        fill_value=0,
    )


def _added(x: Any, indices: Any, updates: Any, params: dict[str, Any]) -> Any:
    return scatter_add(x, indices, updates, **params | {"update_jaxpr": combination("add", x.dtype)})


def _scatter_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    """Of several updates of an element the last one counts, here as there."""
    if params["update_jaxpr"] is not None:
        raise NotImplementedError("scatter: the derivative of a scatter that applies a function (scatter_apply) is not implemented")
    x, indices, updates = primals
    out = scatter(x, indices, updates, **params)
    return out, scatter(instantiate(tangents[0]), indices, instantiate(tangents[2]), **params)


def _scatter_transpose(ct: Any, x: Any, indices: Any, updates: Any, **params: Any) -> list[Any]:
    out: list[Any] = [None, None, None]
    if type(x) is Linear:
        out[0] = scatter(ct, indices, full(updates.shape, 0, ct.dtype), **params)
    if type(updates) is Linear:
        part = _gathered(ct, indices, updates.shape, params)
        if _may_collide(_windows(x.shape, updates.shape, params["dimension_numbers"]), updates.shape, params["unique_indices"]):
            part = select_n(_is_last(x.shape, indices, updates.shape, params), full_like(part, 0), part)
        out[2] = part
    return out


def _is_last(shape: tuple[int, ...], indices: Any, updates: tuple[int, ...], params: dict[str, Any]) -> Any:
    """Which updates are the last ones of their elements: numbers are scattered, and those that are found again won."""
    count = math.prod(updates)
    dtype = dtypes.int32 if count < 1 << 31 else dtypes.int64
    numbers = reshape(iota(dtype=dtype, shape=(count,), dimension=0, sharding=None), updates)
    winners = scatter(full(shape, 0, dtype), indices, numbers, **params)
    return eq(_gathered(winners, indices, updates, params), numbers)


def _sum_jvp(op: Op) -> Any:
    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        _, indices, _ = primals
        out, (tx, _, tu) = op(*primals, **params), tangents
        return out, tx if type(tu) is Zero else op(instantiate(tx), indices, tu, **params)

    return jvp


def _sum_transpose(op: Op) -> Any:
    def transpose(ct: Any, x: Any, indices: Any, updates: Any, **params: Any) -> list[Any]:
        out: list[Any] = [ct if type(x) is Linear else None, None, None]
        if type(updates) is Linear:
            part = _gathered(ct, indices, updates.shape, params)
            out[2] = neg(part) if op is scatter_sub else part
        return out

    return transpose


_ONLY_UNIQUE = "scatter-mul: the derivative in the updates is only implemented for unique_indices=True"


def _mul_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    x, indices, updates = primals
    out, (tx, _, tu) = scatter_mul(x, indices, updates, **params), tangents
    total = tx if type(tx) is Zero else scatter_mul(tx, indices, updates, **params)
    if type(tu) is not Zero:
        if not params["unique_indices"]:
            raise NotImplementedError(_ONLY_UNIQUE)
        total = add(total, mul(x, _added(full_like(x, 0), indices, tu, params)))
    return out, total


def _mul_transpose(ct: Any, x: Any, indices: Any, updates: Any, **params: Any) -> list[Any]:
    if type(x) is Linear:
        return [scatter_mul(ct, indices, updates, **params), None, None]
    if not params["unique_indices"]:
        raise NotImplementedError(_ONLY_UNIQUE)
    return [None, None, _gathered(mul(ct, x), indices, updates.shape, params)]


def _extremum_jvp(op: Op) -> Any:
    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        """The tangent of an extremum is the mean of those of the operands that attain it: of the old element, and of updates."""
        x, indices, updates = primals
        out, (tx, _, tu) = op(x, indices, updates, **params), tangents
        if not is_differentiable(out.aval):
            return out, zero_of(out)
        dtype = x.dtype
        attains = _as(eq(updates, _gathered(out, indices, updates.shape, params)), dtype)
        number = _added(full_like(x, 0), indices, attains, params)
        stays = _as(eq(x, out), dtype)
        share = div(full((), 1, dtype), OPS["add"](number, stays))
        if type(tx) is not Zero:
            kept = select_n(eq(number, full((), 0, dtype)), mul(stays, share), full_like(x, 1))
            tx = mul(tx, kept)
        if type(tu) is not Zero:
            tx = _added(instantiate(tx), indices, mul(tu, mul(attains, _gathered(share, indices, updates.shape, params))), params)
        return out, tx

    return jvp


def _as(x: Any, dtype: Any) -> Any:
    return convert_element_type(x, new_dtype=dtype, weak_type=False, sharding=None)


def _batch(op: Op) -> Any:
    def batch(
        axis: Axis, args: Sequence[Any], dims: Sequence[int | None], *, dimension_numbers: ScatterDimensionNumbers, **params: Any
    ) -> tuple[Any, int]:
        """Under unbatched indices the batch is one more axis of the windows, otherwise a batching axis of operand and indices.
        Axes move only where operands disagree."""
        (x, indices, updates), (d, k, u) = args, dims
        window, inserted_dims, start_map, batching, indices_batching = dimension_numbers
        x, d = (x, d) if d is not None else (to_front(x, None, axis.size), 0)
        if k is not None and k == len(indices.shape) - 1:
            indices, k = to_front(indices, k, axis.size), 0
        if k is None:
            before = d - sum(a < d for a in (*shifted(inserted_dims, d), *shifted(batching, d)))
            place = window[before - 1] + 1 if before else 0
            fits = u is not None and sum(a < u for a in window) == before
        else:
            rank = len(updates.shape) - (u is not None)
            index_axes = [a for a in range(rank) if a not in window]
            place = index_axes[k] if k < len(index_axes) else rank
            fits = u is not None and sum(a < u for a in index_axes) == k
        if not fits:
            updates, u = to_dim(updates, u, place, axis.size), place
        assert u is not None
        window = shifted(window, u)
        inserted_dims, start_map, batching = (shifted(axes, d) for axes in (inserted_dims, start_map, batching))
        if k is None:
            window = inserted(window, before, u)
        else:
            batching, indices_batching = joint_axes(batching, shifted(indices_batching, k), d, k)
        numbers = ScatterDimensionNumbers(window, inserted_dims, start_map, batching, indices_batching)
        return op(x, indices, updates, dimension_numbers=numbers, **params), d

    return batch


def _scatter(name: str, combine: str | None, **rules: Any) -> Op:
    return Op(
        name,
        typ=_typ_of(name),
        oracle=_oracle,
        lower=_lower,
        aliases=lambda **params: ((0, 0),),
        samples=_samples_of(combine),
        batch=ForOp(_batch),
        **rules,
    )


scatter = _scatter("scatter", None, jvp=_scatter_jvp, transpose=_scatter_transpose)
"""Stores the update, or with an `update_jaxpr` what it makes of (old, update)."""
scatter_add = _scatter("scatter-add", "add", jvp=ForOp(_sum_jvp), transpose=ForOp(_sum_transpose))
scatter_sub = _scatter("scatter-sub", "sub", jvp=ForOp(_sum_jvp), transpose=ForOp(_sum_transpose))
scatter_mul = _scatter("scatter-mul", "mul", jvp=_mul_jvp, transpose=_mul_transpose)
scatter_min = _scatter("scatter-min", "min", jvp=ForOp(_extremum_jvp))
scatter_max = _scatter("scatter-max", "max", jvp=ForOp(_extremum_jvp))
