"""Slices, gathers and scatters at run-time positions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from steno._native import ArrayImpl, ShapedArray
from steno.core import dtypes
from steno.core.aval import TypedScalar, scalar_aval
from steno.core.sizes import UnknownSize
from steno.core.trace import Tracer, trace_to_jaxpr
from steno.lax import records as p
from steno.lax.elementwise import add, lt, select
from steno.lax.operands import Array, ArrayLike, Shape, as_array, as_operand, canonical_axis, convert, integers, shape_argument
from steno.lax.shape import broadcast_in_dim, full, reshape, squeeze
from steno.ops.gather import GatherDimensionNumbers, GatherScatterMode
from steno.ops.scatter import ScatterDimensionNumbers, combination


def _starts(fun: str, shape: Shape, start_indices: Any, negative: bool | Sequence[bool]) -> list[Any]:
    """The start positions as scalars of one integer dtype; negative ones count from the end."""
    if isinstance(start_indices, ArrayImpl | Tracer | np.ndarray):
        vector = as_array(fun, start_indices, 1)
        if vector.ndim != 1 or vector.shape[0] != len(shape):
            raise ValueError(f"{fun}: there must be a start for each axis, got {vector.size} for shape {shape}")
        starts = p.unstack_p(vector, axis=0)
    else:
        starts = [as_operand(fun, i, 1) for i in start_indices]
    if len(starts) != len(shape):
        raise ValueError(f"{fun}: there must be a start for each axis, got {len(starts)} for shape {shape}")
    if any(i.aval.shape for i in starts):
        raise TypeError(f"{fun}: start_indices must be scalars, got {', '.join(i.aval.str_short() for i in starts)}")
    if any(not dtypes.is_integer(i.aval.dtype) for i in starts):
        raise TypeError(f"{fun}: start_indices must be integers, got dtypes {', '.join(dtypes.name(i.aval.dtype) for i in starts)}")
    if not starts:
        return []
    # weakly typed ones (Python numbers) follow the others
    firm = {i.aval.dtype for i in starts if not i.aval.weak_type}
    if len(firm) > 1:
        raise TypeError(f"index arguments to {fun} must be integers of the same type, got {', '.join(i.aval.str_short() for i in starts)}")
    dtype = firm.pop() if firm else starts[0].aval.dtype
    if any(type(i) is TypedScalar and _does_not_fit(i.value, dtype) for i in starts):
        dtype = dtypes.default_int()
    allow = (negative,) * len(shape) if isinstance(negative, bool) else tuple(negative)
    return [_wrap(convert(i, dtype), n, ok) for i, n, ok in zip(starts, shape, allow, strict=True)]


def _does_not_fit(value: Any, dtype: Any) -> bool:
    info = dtypes.iinfo(dtype)
    return not int(info.min) <= int(value) <= int(info.max)


def _wrap(i: Any, n: int, allow: bool) -> Any:
    """A negative position --> n + position."""
    dtype = i.aval.dtype
    if not allow or dtypes.kind(dtype) == "u":
        return i
    if type(i) is TypedScalar and (i.value >= 0 or not isinstance(n, UnknownSize)):
        k = int(i.value)
        return TypedScalar(dtype.type(k + n), scalar_aval(dtype)) if k < 0 and not _does_not_fit(k + n, dtype) else i
    if isinstance(n, UnknownSize):
        zero, size = TypedScalar(dtype.type(0), scalar_aval(dtype)), convert(as_operand("an index", n), dtype)
        return select(lt(i, zero), add(i, size), i)
    if _does_not_fit(n, dtype):
        i = convert(i, dtypes.default_int())
        dtype = i.aval.dtype
    zero, size = TypedScalar(dtype.type(0), scalar_aval(dtype)), TypedScalar(dtype.type(n), scalar_aval(dtype))
    return select(lt(i, zero), add(i, size), i)


def dynamic_slice(
    operand: Array | np.ndarray, start_indices: Any, slice_sizes: Sequence[int], *, allow_negative_indices: bool | Sequence[bool] = True
) -> Array:
    """A window of static size at a run-time position, moved inside where it would leave the array.

    >>> lax.dynamic_slice(jnp.arange(5), (2,), (3,))
    Array([2, 3, 4], dtype=int32)
    """
    x = as_array("dynamic_slice", operand)
    starts = _starts("dynamic_slice", x.shape, start_indices, allow_negative_indices)
    return p.dynamic_slice_p(x, *starts, slice_sizes=integers("dynamic_slice", "slice_sizes", slice_sizes))


def dynamic_slice_in_dim(
    operand: Array | np.ndarray, start_index: ArrayLike, slice_size: int, axis: int = 0, *, allow_negative_indices: bool = True
) -> Array:
    """As `dynamic_slice`, along one axis."""
    x = as_array("dynamic_slice_in_dim", operand)
    axis = canonical_axis(axis, x.ndim)
    starts: list[Any] = [0] * x.ndim
    sizes = list(x.shape)
    starts[axis], sizes[axis] = start_index, slice_size
    return dynamic_slice(x, starts, sizes, allow_negative_indices=[k == axis and allow_negative_indices for k in range(x.ndim)])


def dynamic_index_in_dim(
    operand: Array | np.ndarray, index: ArrayLike, axis: int = 0, keepdims: bool = True, *, allow_negative_indices: bool = True
) -> Array:
    """One run-time position along an axis, which stays with size 1, or goes."""
    out = dynamic_slice_in_dim(operand, index, 1, axis, allow_negative_indices=allow_negative_indices)
    return out if keepdims else squeeze(out, (axis,))


def dynamic_update_slice(
    operand: Array | np.ndarray, update: ArrayLike, start_indices: Any, *, allow_negative_indices: bool | Sequence[bool] = True
) -> Array:
    """The operand with a window replaced, at a position as of `dynamic_slice`.

    >>> lax.dynamic_update_slice(jnp.zeros(4), jnp.ones(2), (1,))
    Array([0., 1., 1., 0.], dtype=float32)
    """
    x = as_array("dynamic_update_slice", operand)
    u = as_operand("dynamic_update_slice", update, 1)
    starts = _starts("dynamic_update_slice", x.shape, start_indices, allow_negative_indices)
    return p.dynamic_update_slice_p(x, u, *starts)


def dynamic_update_slice_in_dim(
    operand: Array | np.ndarray, update: ArrayLike, start_index: ArrayLike, axis: int, *, allow_negative_indices: bool = True
) -> Array:
    """As `dynamic_update_slice`, along one axis."""
    x = as_array("dynamic_update_slice_in_dim", operand)
    axis = canonical_axis(axis, x.ndim)
    starts: list[Any] = [0] * x.ndim
    starts[axis] = start_index
    return dynamic_update_slice(x, update, starts, allow_negative_indices=[k == axis and allow_negative_indices for k in range(x.ndim)])


def dynamic_update_index_in_dim(
    operand: Array | np.ndarray, update: ArrayLike, index: ArrayLike, axis: int, *, allow_negative_indices: bool = True
) -> Array:
    """The operand with one position along an axis replaced; the update may lack that axis."""
    x = as_array("dynamic_update_index_in_dim", operand)
    u = as_array("dynamic_update_index_in_dim", update, 1)
    axis = canonical_axis(axis, x.ndim)
    if u.ndim != x.ndim:
        if u.ndim + 1 != x.ndim:
            raise TypeError(f"dynamic_update_index_in_dim: update of shape {u.shape} does not fit an operand of shape {x.shape}")
        u = reshape(u, (*u.shape[:axis], 1, *u.shape[axis:]))
    return dynamic_update_slice_in_dim(x, u, index, axis, allow_negative_indices=allow_negative_indices)


# gather


def gather(
    operand: ArrayLike,
    start_indices: ArrayLike,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | GatherScatterMode | None = None,
    fill_value: Any = None,
) -> Array:
    """Windows of the operand at run-time positions (index vectors in the last axis of `start_indices`).

    `mode`: "clip" (which the default amounts to) moves windows inside; "fill" gives `fill_value` (NaN, the extreme integer, True) where
    one is not inside."""
    m = GatherScatterMode.PROMISE_IN_BOUNDS if mode is None else GatherScatterMode.from_any(mode)
    return p.gather_p(
        as_operand("gather", operand, 0),
        as_operand("gather", start_indices, 1),
        dimension_numbers=dimension_numbers,
        slice_sizes=shape_argument("gather", slice_sizes),
        indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices),
        mode=m,
        fill_value=fill_value if m is GatherScatterMode.FILL_OR_DROP else None,
    )


# scatter


def _scatter(op: Any, combine: str | None, doc: str) -> Any:
    def fun(
        operand: ArrayLike,
        scatter_indices: ArrayLike,
        updates: ArrayLike,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
    ) -> Array:
        x = as_operand(op.name, operand, 0)
        return op(
            x,
            as_operand(op.name, scatter_indices, 1),
            as_operand(op.name, updates, 2),
            dimension_numbers=dimension_numbers,
            indices_are_sorted=bool(indices_are_sorted),
            unique_indices=bool(unique_indices),
            mode=GatherScatterMode.from_any(mode),
            update_jaxpr=None if combine is None else combination(combine, x.aval.dtype),
            update_consts=(),
        )

    fun.__name__ = fun.__qualname__ = op.name.replace("-", "_")
    fun.__doc__ = doc
    return fun


_MODES = " Updates whose window is not inside are left out, unless `mode` is 'clip'."
scatter = _scatter(p.scatter_p, None, "The operand with windows at run-time positions replaced." + _MODES)
scatter_add = _scatter(p.scatter_add_p, "add", "The operand with updates added at run-time positions." + _MODES)
scatter_sub = _scatter(p.scatter_sub_p, "sub", "The operand with updates subtracted at run-time positions." + _MODES)
scatter_mul = _scatter(p.scatter_mul_p, "mul", "The operand multiplied by updates at run-time positions." + _MODES)
scatter_min = _scatter(p.scatter_min_p, "min", "The minima of operand and updates at run-time positions." + _MODES)
scatter_max = _scatter(p.scatter_max_p, "max", "The maxima of operand and updates at run-time positions." + _MODES)


def scatter_apply(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    func: Callable[[Array], Array],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """The operand with a function of one scalar applied at run-time positions, once for each index."""
    x = as_operand("scatter_apply", operand, 0)
    scalar = ShapedArray((), x.aval.dtype)
    program = trace_to_jaxpr(lambda old, _: [as_operand("scatter_apply", func(old))], [scalar, scalar])
    if program.jaxpr.constvars:
        raise NotImplementedError("scatter_apply: a function that captures arrays is not implemented")
    (out,) = program.out_avals
    if out.shape or out.dtype != x.aval.dtype:
        raise TypeError(f"scatter_apply: the function must return a scalar of dtype {dtypes.name(x.aval.dtype)}, got {out.str_short()}")
    return p.scatter_p(
        x,
        as_operand("scatter_apply", scatter_indices, 1),
        full(update_shape, 0, x.aval.dtype),
        dimension_numbers=dimension_numbers,
        indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices),
        mode=GatherScatterMode.from_any(mode),
        update_jaxpr=program.jaxpr,
        update_consts=(),
    )


def index_take(src: Array, idxs: Sequence[Array], axes: Sequence[int]) -> Array:
    """Slices of size 1 along `axes` at the positions of integer vectors, in a new leading axis. Positions out of bounds are clipped."""
    x = as_array("index_take", src)
    vectors = [as_array("index_take", i, 1) for i in idxs]
    indices = p.concatenate_p(*(broadcast_in_dim(i, (*i.shape, 1), tuple(range(i.ndim))) for i in vectors), dimension=1)
    sizes = tuple(1 if k in axes else n for k, n in enumerate(x.shape))
    numbers = GatherDimensionNumbers(tuple(range(1, x.ndim + 1 - len(axes))), tuple(sorted(axes)), tuple(operator.index(a) for a in axes))
    return gather(x, indices, numbers, sizes, mode="clip")
