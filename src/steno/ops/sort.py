"""Sorting along an axis, with any number of operands, and the k greatest elements."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from steno._native import sort_code
from steno.core import dtypes
from steno.core.aval import ShapedArray
from steno.core.op import Op
from steno.ir.expr import Builder, Expr, Scalar
from steno.ir.kinds import Library
from steno.ops.compare import order_key
from steno.ops.families import ANY, REAL, check_domain, edges, elementwise_lower, ordered
from steno.ops.gather import GatherDimensionNumbers, GatherScatterMode, gather
from steno.ops.oracle import Oracle, total_order, widen
from steno.ops.samples import filled, small
from steno.ops.shape import iota, slice_, transpose
from steno.transforms import rules
from steno.transforms.rules import ELEMENTWISE, ZERO, Zero, along, zero_of


def _sort_typ(*operands: ShapedArray, dimension: int, is_stable: bool, num_keys: int) -> list[ShapedArray]:
    if not operands:
        raise TypeError("sort takes at least one operand")
    first = operands[0]
    if any(x.shape != first.shape for x in operands):
        raise TypeError(f"sort: operands must have equal shapes, got {', '.join(str(x.shape) for x in operands)}")
    if not 0 <= dimension < first.ndim:
        raise ValueError(f"sort: dimension {dimension} is out of bounds for operands of shape {first.shape}")
    if not 1 <= num_keys <= len(operands):
        raise ValueError(f"sort: num_keys must lie in [1, {len(operands)}], the number of operands, got {num_keys}")
    for k, x in enumerate(operands[:num_keys]):
        check_domain("sort", x, ANY, k)
    return list(operands)


def _rank(x: np.ndarray) -> list[np.ndarray]:
    """Keys for lexsort, the least significant first: NaNs, all alike, come last, and zeros are equal."""
    x = widen(x)
    if x.dtype.kind == "c":
        return [*_rank(x.imag), *_rank(x.real)]
    if x.dtype.kind != "f":
        return [x]
    nan = np.isnan(x)
    return [np.where(nan, 0, x) + 0.0, nan]


def _sort_oracle(*operands: np.ndarray, dimension: int, is_stable: bool, num_keys: int) -> list[np.ndarray]:
    keys = [r for x in reversed(operands[:num_keys]) for r in _rank(x)]
    order = np.lexsort(keys, axis=dimension)
    return [np.take_along_axis(x, order, axis=dimension) for x in operands]


def _sort_expand(*operands: Any, dimension: int, is_stable: bool, num_keys: int) -> list[Any]:
    """The kernels sort the last axis: the others are brought there and back."""
    last = operands[0].ndim - 1
    swapped = [last if d == dimension else dimension if d == last else d for d in range(last + 1)]
    moved = [transpose(x, permutation=tuple(swapped)) for x in operands]
    out = sort(*moved, dimension=last, is_stable=is_stable, num_keys=num_keys)
    return [transpose(x, permutation=tuple(swapped)) for x in out]


def _code(dtype: Any) -> int:
    """What the kernel calls a dtype; PRNG keys only move."""
    if dtypes.is_key(dtype):
        dtype = {1: dtypes.uint32, 2: dtypes.uint64, 4: dtypes.complex128}[dtype.words]
    return sort_code(dtype)


def _sort_lower(
    avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, dimension: int, is_stable: bool, num_keys: int
) -> Library | None:
    shape = avals_in[0].shape
    if dimension != len(shape) - 1:
        return None
    rows = math.prod(shape[:-1])
    meta = (rows, shape[-1], num_keys, len(avals_in), *(_code(a.dtype) for a in avals_in))
    return Library("steno_sort", meta, in_place=tuple(range(len(avals_in))))


def _taken(x: Any, positions: Any, axis: int) -> Any:
    """The elements of x at positions along an axis, each of them there at most once."""
    if not math.prod(positions.shape):
        return rules.zeros(ShapedArray(positions.shape, x.dtype))
    others = tuple(a for a in range(len(x.shape)) if a != axis)
    return gather(
        x,
        rules.reshape(positions, (*positions.shape, 1)),
        dimension_numbers=GatherDimensionNumbers((), (axis,), (axis,), others, others),
        slice_sizes=(1,) * len(x.shape),
        indices_are_sorted=False,
        unique_indices=True,
        mode=GatherScatterMode.PROMISE_IN_BOUNDS,
        fill_value=None,
    )


def _sort_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, dimension: int, is_stable: bool, num_keys: int
) -> tuple[list[Any], list[Any]]:
    """Tangents move as their values do."""
    position = iota(dtype=dtypes.int32, shape=primals[0].shape, dimension=dimension, sharding=None)
    *out, order = sort(*primals, position, dimension=dimension, is_stable=is_stable, num_keys=num_keys)
    return out, [t if type(t) is Zero else _taken(t, order, dimension) for t in tangents]


def _sort_samples() -> Iterable[Any]:
    one = {"is_stable": True, "num_keys": 1}
    for d in ordered(ANY):
        yield (edges(d),), {"dimension": 0, **one}
        yield (filled((5, 40), d), np.broadcast_to(np.arange(40, dtype=np.int32), (5, 40))), {"dimension": 1, **one}
        yield (small((50,), d), np.arange(50, dtype=np.int32)), {"dimension": 0, **one}
    position = np.arange(300, dtype=np.int32)
    yield (small((300,), "int8"), filled((300,), "float32"), position), {"dimension": 0, "is_stable": True, "num_keys": 2}
    yield (filled((300,), "float32"), small((300,), "complex64"), position), {"dimension": 0, "is_stable": True, "num_keys": 3}
    yield (filled((300,), "float32"), filled((300,), "bfloat16"), filled((300,), "complex128")), {"dimension": 0, **one}
    yield (filled((300,), "float32"),), {"dimension": 0, "is_stable": False, "num_keys": 1}
    yield (filled((5000,), "float32"), np.arange(5000, dtype=np.int32)), {"dimension": 0, **one}
    for shape, axis in [((4, 3, 2), 0), ((4, 3, 2), 1), ((4, 3, 2), 2), ((1, 5), 0), ((0, 3), 0), ((3, 0), 0), ((0,), 0), ((1,), 0)]:
        yield (small(shape, "float32"), np.arange(math.prod(shape), dtype=np.int32).reshape(shape)), {"dimension": axis, **one}


def _sort_cost(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, dimension: int, **params: Any) -> float:
    """n log2 n comparisons."""
    x = avals_in[0]
    return x.size * math.log2(max(x.shape[dimension], 2))


sort = Op(
    "sort",
    typ=_sort_typ,
    oracle=Oracle(_sort_oracle),
    lower=_sort_lower,
    expand=_sort_expand,
    multiple_results=True,
    samples=_sort_samples,
    jvp=_sort_jvp,
    batch=along("dimension"),
    cost=_sort_cost,
)
"""Sorts along `dimension` by the first `num_keys` operands, the first one foremost; the other operands move with them. Complex numbers come
by real, then by imaginary part. NaNs are alike and last, -0.0 and 0.0 alike; equal elements keep their order, whatever `is_stable` says."""

# top_k


def _descending_dtype(dtype: Any) -> Any:
    if dtypes.kind(dtype) == "f":
        return dtypes.int64 if dtype == dtypes.float64 else dtypes.int32
    return {dtypes.int2: dtypes.int8, dtypes.int4: dtypes.int8, dtypes.uint2: dtypes.uint8, dtypes.uint4: dtypes.uint8}.get(dtype, dtype)


def _descending(b: Builder, x: Scalar) -> Expr:
    return b.not_(order_key(b, x))


def _descending_oracle(x: np.ndarray) -> np.ndarray:
    return np.invert(total_order(x).astype(_descending_dtype(x.dtype)))


def _descending_samples() -> Iterable[Any]:
    for d in ordered(REAL):
        yield (edges(d),), {}


descending_key = Op(
    "descending_key",
    typ=lambda x: ShapedArray(x.shape, _descending_dtype(x.dtype)),
    oracle=Oracle(_descending_oracle),
    lower=elementwise_lower(_descending),
    samples=_descending_samples,
    jvp=ZERO,
    batch=ELEMENTWISE,
)
"""Integers (or bools) that ascend where the numbers descend in their total order. Of use to `top_k` only."""

SELECTED = 0.2
"""Up to so large a part of the elements `top_k` selects; for more it sorts all positions, which is then as fast."""


def _least_oracle(keys: np.ndarray, *, k: int, axis: int) -> np.ndarray:
    order = np.argsort(keys, axis=axis, kind="stable").astype(np.int32)
    return np.take(order, np.arange(k), axis=axis)


def _least_expand(keys: Any, *, k: int, axis: int) -> Any:
    """The kernel selects along the last axis."""
    last = keys.ndim - 1
    swapped = tuple(last if d == axis else axis if d == last else d for d in range(last + 1))
    return transpose(least(transpose(keys, permutation=swapped), k=k, axis=last), permutation=swapped)


def _least_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, k: int, axis: int) -> Library | None:
    keys = avals_in[0]
    if axis != keys.ndim - 1:
        return None
    return Library("steno_top_k", (math.prod(keys.shape[:-1]), keys.shape[-1], k, sort_code(keys.dtype)))


def _least_samples() -> Iterable[Any]:
    for d in ordered(frozenset(_descending_dtype(d) for d in REAL)):
        yield (filled((3, 300), d),), {"k": 7, "axis": 1}
        yield (small((2, 70, 3), d),), {"k": 70, "axis": 1}
        yield (small((0, 4), d),), {"k": 2, "axis": 1}


def _least_cost(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, k: int, axis: int) -> float:
    """A comparison for each element, and log2 n for each that is wanted."""
    return avals_in[0].size + avals_out[0].size * math.log2(max(avals_in[0].shape[axis], 2))


least = Op(
    "least",
    typ=lambda keys, *, k, axis: ShapedArray(_with_size(keys.shape, axis, k), dtypes.int32),
    oracle=Oracle(_least_oracle),
    lower=_least_lower,
    expand=_least_expand,
    samples=_least_samples,
    jvp=ZERO,
    batch=along("axis"),
    cost=_least_cost,
)
"""The positions (int32) along an axis of the k least integers or bools, in ascending order, of equal ones the first. For `top_k`."""


def _top_k_typ(x: ShapedArray, *, k: int, axis: int, is_stable: bool = True) -> list[ShapedArray]:
    if x.dtype in dtypes.COMPLEX:
        raise ValueError(f"top_k: complex numbers have no order, got an operand of dtype {x.dtype.name}")
    check_domain("top_k", x, REAL)
    if k < 0:
        raise ValueError(f"top_k: k must not be negative, got {k}")
    if not 0 <= axis < x.ndim:
        raise ValueError(f"top_k: axis {axis} is out of bounds for an operand of shape {x.shape}")
    if k > x.shape[axis]:
        raise ValueError(f"top_k: k must be at most the axis's size, got k={k} for an operand of shape {x.shape} and axis {axis}")
    shape = _with_size(x.shape, axis, k)
    return [ShapedArray(shape, x.dtype, x.weak_type), ShapedArray(shape, dtypes.int32, x.weak_type)]


def _with_size(shape: tuple[int, ...], axis: int, k: int) -> tuple[int, ...]:
    return (*shape[:axis], k, *shape[axis + 1 :])


def _top_k_oracle(x: np.ndarray, *, k: int, axis: int, is_stable: bool = True) -> list[np.ndarray]:
    order = np.argsort(_descending_oracle(x), axis=axis, kind="stable")
    order = np.take(order, np.arange(k), axis=axis)
    return [np.take_along_axis(x, order, axis=axis), order.astype(np.int32)]


def _top_k_expand(x: Any, *, k: int, axis: int, is_stable: bool = True) -> list[Any]:
    key = descending_key(x)
    if not x.size or k <= SELECTED * x.shape[axis]:
        positions = least(key, k=k, axis=axis)
    else:
        position = iota(dtype=dtypes.int32, shape=x.shape, dimension=axis, sharding=None)
        _, order = sort(key, position, dimension=axis, is_stable=True, num_keys=1)
        positions = slice_(order, start_indices=(0,) * x.ndim, limit_indices=_with_size(x.shape, axis, k), strides=None)
    return [_taken(x, positions, axis), positions]


def _top_k_samples() -> Iterable[Any]:
    for d in ordered(REAL):
        x = edges(d)
        yield (x,), {"k": len(x), "axis": 0, "is_stable": True}
        yield (filled((5, 40), d),), {"k": 3, "axis": 1, "is_stable": True}
    for shape, k, axis in [((4, 3), 2, 0), ((4, 3), 0, 1), ((0, 3), 2, 1), ((0,), 0, 0), ((1,), 1, 0), ((2, 5, 3), 4, 1)]:
        yield (small(shape, "float32"),), {"k": k, "axis": axis, "is_stable": False}


def _top_k_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[list[Any], list[Any]]:
    (x,), (g,) = primals, tangents
    values, positions = top_k(x, **params)
    return [values, positions], [_taken(g, positions, params["axis"]), zero_of(positions)]


top_k = Op(
    "top_k",
    typ=_top_k_typ,
    oracle=Oracle(_top_k_oracle),
    expand=_top_k_expand,
    multiple_results=True,
    samples=_top_k_samples,
    jvp=_top_k_jvp,
    batch=along("axis"),
)
"""The k greatest elements along an axis in descending total order (NaN first, -NaN last), of equal ones the first, and their positions."""
