"""The greatest and the least elements "approximately": exactly, by `top_k`, which is fast on a CPU."""

from __future__ import annotations

from steno.core import dtypes
from steno.core.sizes import size_of
from steno.lax.elementwise import neg
from steno.lax.operands import Array, ArrayLike, as_array, canonical_axis
from steno.lax.reductions import top_k


def approx_max_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Array]:
    """The `k` greatest elements along an axis, in descending order, and their positions (int32).

    recall_target, reduction_input_size_override    accepted: what is found is exact
    aggregate_to_topk                               False: all elements in order, not the first k
    ValueError for what is no array of floats, and a `k` greater than the axis."""
    return _extreme("approx_max_k", operand, k, reduction_dimension, recall_target, aggregate_to_topk, False)


def approx_min_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Array]:
    """The `k` least elements along an axis, in ascending order, and their positions (int32): as `approx_max_k`."""
    return _extreme("approx_min_k", operand, k, reduction_dimension, recall_target, aggregate_to_topk, True)


def _extreme(fun: str, operand: ArrayLike, k: int, dimension: int, recall: float, aggregate: bool, least: bool) -> list[Array]:
    x, k = as_array(fun, operand), size_of(k)
    if not dtypes.is_float(x.dtype):
        raise ValueError(f"{fun}: the operand must be a floating type, got {dtypes.name(x.dtype)}")
    if not x.ndim:
        raise TypeError(f"{fun}: the operand must have >= 1 dimension, got a scalar")
    if not 0 < recall <= 1:
        raise ValueError(f"{fun}: recall_target must lie between 0 and 1, got {recall}")
    axis = canonical_axis(dimension, x.ndim)
    if k > x.shape[axis]:
        raise ValueError(f"{fun}: k must be no larger than the size of axis {axis}, {x.shape[axis]}, got {k}")
    found, where = top_k(neg(x) if least else x, k if aggregate else x.shape[axis], axis=axis)
    return [neg(found) if least else found, where]
