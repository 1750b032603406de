"""Collectives: ops over the elements of a mapped axis. vmap turns each into ops on the batch axis; there is nothing to compile.

Names are JAX's: `axes` of the reductions is a tuple of axis names, other collectives work over one name. Outside of a map over that name
tracing fails (transforms/axes.py), so that a program that holds one of these ops can only be run inside."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from steno._native import ArrayImpl
from steno.core import dtypes
from steno.core.aval import ShapedArray, typed_scalar
from steno.core.op import Op
from steno.ops.arithmetic import mul
from steno.ops.gather import GatherDimensionNumbers, GatherScatterMode, gather
from steno.ops.reduce import reduce_max, reduce_min, reduce_sum
from steno.ops.shape import iota
from steno.transforms.rules import (
    Axis,
    Linear,
    Zero,
    by_operand,
    insert_axis,
    inserted,
    instantiate,
    move_axis,
    reshape,
    zero_of,
)

Dims = Sequence[int | None]


def only_name(params: dict[str, Any]) -> tuple[Hashable, ...]:
    name = params["axis_name"]
    return name if isinstance(name, tuple) else (name,)


# psum, pmax, pmin: any number of operands, each reduced by itself


def _reduction_typ(*avals: ShapedArray, axes: tuple[Hashable, ...], axis_index_groups: Any) -> list[ShapedArray]:
    return list(avals)


def _across(name: str, reduce: Op, same_for_all: Callable[[Axis, Any], Any]) -> Op:
    """`reduce` drops the batch axis; `same_for_all(axis, x)` reduces a value that all elements share."""

    def batch(
        axis: Axis, args: Sequence[Any], dims: Dims, *, axes: tuple[Hashable, ...], axis_index_groups: Any
    ) -> tuple[list[Any], list[int | None]]:
        if axis.name not in axes:
            return op(*args, axes=axes, axis_index_groups=axis_index_groups), list(dims)
        out = [same_for_all(axis, x) if d is None else reduce(x, axes=(d,), out_sharding=None) for x, d in zip(args, dims, strict=True)]
        rest = tuple(n for n in axes if n != axis.name)
        return (op(*out, axes=rest, axis_index_groups=axis_index_groups) if rest else out), [None] * len(out)

    op = Op(name, typ=_reduction_typ, batch=batch, multiple_results=True, axis_names=lambda params: params["axes"])
    return op


def _repeated(axis: Axis, x: Any) -> Any:
    return mul(x, typed_scalar(axis.size, x.dtype, x.aval.weak_type))


psum = _across("psum", reduce_sum, _repeated)
pmax = _across("pmax", reduce_max, lambda axis, x: x)
pmin = _across("pmin", reduce_min, lambda axis, x: x)


def _psum_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[list[Any], list[Any]]:
    out = psum(*primals, **params)
    moving = [t for t in tangents if type(t) is not Zero]
    summed = iter(psum(*moving, **params))
    return out, [zero_of(y) if type(t) is Zero else next(summed) for y, t in zip(out, tangents, strict=True)]


def _psum_transpose(cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
    """Each element's operand counts in each element's result."""
    summed = iter(psum(*(ct for ct in cts if type(ct) is not Zero), **params))
    return [ct if type(ct) is Zero else next(summed) for ct in cts]


psum.jvp, psum.transpose = _psum_jvp, _psum_transpose


# linear collectives of one operand


def _linear_jvp(op: Op) -> Callable[..., Any]:
    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        return op(*primals, **params), op(*map(instantiate, tangents), **params)

    return jvp


# ppermute


def _ppermute_batch(
    axis: Axis, args: Sequence[Any], dims: Dims, *, axis_name: Any, perm: tuple[tuple[int, int], ...]
) -> tuple[Any, int | None]:
    (x,), (dim,) = args, dims
    if axis.name not in only_name({"axis_name": axis_name}):
        return ppermute(x, axis_name=axis_name, perm=perm), dim
    source = np.full(axis.size, -1, np.int32)
    for a, b in perm:
        if not (0 <= a < axis.size and 0 <= b < axis.size):
            raise IndexError(f"ppermute: {(a, b)} is out of bounds for the axis {axis.name} of size {axis.size}")
        source[b] = a
    x = insert_axis(x, 0, axis.size) if dim is None else x
    dim = dim or 0
    numbers = GatherDimensionNumbers(
        offset_dims=tuple(d for d in range(len(x.shape)) if d != dim), collapsed_slice_dims=(dim,), start_index_map=(dim,)
    )
    indices = ArrayImpl.from_numpy(source[:, None], ShapedArray((axis.size, 1), dtypes.int32))
    complete = bool((source >= 0).all())
    out = gather(
        x,
        indices,
        dimension_numbers=numbers,
        slice_sizes=tuple(1 if d == dim else n for d, n in enumerate(x.shape)),
        indices_are_sorted=False,
        unique_indices=complete,
        mode=GatherScatterMode.PROMISE_IN_BOUNDS if complete else GatherScatterMode.FILL_OR_DROP,
        fill_value=None if complete else 0,
    )
    return out, dim


ppermute = Op(
    "ppermute",
    typ=lambda x, *, axis_name, perm: x,
    batch=_ppermute_batch,
    transpose=by_operand(lambda ct, x, *, axis_name, perm: ppermute(ct, axis_name=axis_name, perm=tuple((b, a) for a, b in perm))),
    axis_names=only_name,
)
"""Element a's value goes to element b for each (a, b) of `perm`; elements that get none have zeros."""


# all_gather, reduce_scatter


def _all_gather_typ(
    x: ShapedArray, *, all_gather_dimension: int, axis_index_groups: Any, axis_name: Any, axis_size: int, tiled: bool
) -> ShapedArray:
    d = all_gather_dimension
    if not 0 <= d < x.ndim + (not tiled):
        raise ValueError(f"all_gather: axis {d} is out of bounds for an operand of shape {x.shape}")
    if tiled:
        return x.update(shape=(*x.shape[:d], x.shape[d] * axis_size, *x.shape[d + 1 :]))
    return x.update(shape=inserted(x.shape, d, axis_size))


def _merged(x: Any, d: int) -> Any:
    """Axes d and d + 1 as one."""
    return reshape(x, (*x.shape[:d], x.shape[d] * x.shape[d + 1], *x.shape[d + 2 :]))


def _cut(x: Any, d: int, n: int) -> Any:
    """Axis d as an axis of size n and one of the rest."""
    return reshape(x, (*x.shape[:d], n, x.shape[d] // n, *x.shape[d + 1 :]))


def _all_gather_batch(
    axis: Axis, args: Sequence[Any], dims: Dims, *, all_gather_dimension: int, axis_name: Any, tiled: bool, **rest: Any
) -> tuple[Any, int | None]:
    (x,), (dim,) = args, dims
    d = all_gather_dimension
    if axis.name not in only_name({"axis_name": axis_name}):
        at = dim if dim is not None else 0
        inner = d + (dim <= d) if dim is not None else d
        out = all_gather(x, all_gather_dimension=inner, axis_name=axis_name, tiled=tiled, **rest)
        return out, None if dim is None else at + (not tiled and inner <= at)
    out = insert_axis(x, d, axis.size) if dim is None else move_axis(x, dim, d)
    return _merged(out, d) if tiled else out, None


def _all_gather_transpose(ct: Any, x: Linear, *, all_gather_dimension: int, **rest: Any) -> list[Any]:
    return [reduce_scatter(ct, scatter_dimension=all_gather_dimension, **rest)]


all_gather = Op("all_gather", typ=_all_gather_typ, batch=_all_gather_batch, transpose=_all_gather_transpose, axis_names=only_name)
"""The values of all elements, along a new axis (`tiled`: one after the other along an axis they have)."""


def _reduce_scatter_typ(
    x: ShapedArray, *, axis_index_groups: Any, axis_name: Any, axis_size: int, scatter_dimension: int, tiled: bool
) -> ShapedArray:
    d = scatter_dimension
    if not 0 <= d < x.ndim:
        raise ValueError(f"psum_scatter: scatter_dimension {d} is out of bounds for an operand of shape {x.shape}")
    n = x.shape[d]
    if tiled:
        if n % axis_size:
            raise ValueError(f"psum_scatter: the size of axis {d}, {n}, must be divisible by the size of {axis_name}, {axis_size}")
        return x.update(shape=(*x.shape[:d], n // axis_size, *x.shape[d + 1 :]))
    if n != axis_size:
        raise ValueError(f"psum_scatter: the size of axis {d}, {n}, must be the size of {axis_name}, {axis_size} (unless tiled)")
    return x.update(shape=(*x.shape[:d], *x.shape[d + 1 :]))


def _reduce_scatter_batch(
    axis: Axis, args: Sequence[Any], dims: Dims, *, axis_name: Any, scatter_dimension: int, tiled: bool, **rest: Any
) -> tuple[Any, int | None]:
    (x,), (dim,) = args, dims
    d = scatter_dimension
    if axis.name not in only_name({"axis_name": axis_name}):
        inner = d + (dim is not None and dim <= d)
        out = reduce_scatter(x, axis_name=axis_name, scatter_dimension=inner, tiled=tiled, **rest)
        return out, None if dim is None else dim - (not tiled and inner < dim)
    summed = _repeated(axis, x) if dim is None else reduce_sum(x, axes=(dim,), out_sharding=None)
    return _cut(summed, d, axis.size) if tiled else summed, d


def _reduce_scatter_transpose(ct: Any, x: Linear, *, scatter_dimension: int, **rest: Any) -> list[Any]:
    return [all_gather(ct, all_gather_dimension=scatter_dimension, **rest)]


reduce_scatter = Op(
    "reduce_scatter",
    typ=_reduce_scatter_typ,
    batch=_reduce_scatter_batch,
    transpose=_reduce_scatter_transpose,
    axis_names=only_name,
)
"""The sum over all elements, of which each gets its own part along an axis."""


# all_to_all


def _all_to_all_typ(
    x: ShapedArray, *, axis_index_groups: Any, axis_name: Any, axis_size: int, concat_axis: int, split_axis: int, tiled: bool
) -> ShapedArray:
    s, c = split_axis, concat_axis
    if not 0 <= s < x.ndim or not 0 <= c < x.ndim:
        raise ValueError(f"all_to_all: split_axis {s} and concat_axis {c} must be axes of the operand, of shape {x.shape}")
    if tiled:
        if x.shape[s] % axis_size:
            raise ValueError(f"all_to_all: the size of split_axis {s}, {x.shape[s]}, must be divisible by the axis size {axis_size}")
        shape = list(x.shape)
        shape[s] //= axis_size
        shape[c] *= axis_size
        return x.update(shape=tuple(shape))
    if x.shape[s] != axis_size:
        raise ValueError(
            f"all_to_all requires the size of the mapped axis axis_name to equal x.shape[split_axis], but they are {axis_size} and "
            f"{x.shape[s]} respectively."
        )
    return x.update(shape=inserted((*x.shape[:s], *x.shape[s + 1 :]), c, axis_size))


def _all_to_all_batch(
    axis: Axis, args: Sequence[Any], dims: Dims, *, axis_name: Any, concat_axis: int, split_axis: int, tiled: bool, **rest: Any
) -> tuple[Any, int | None]:
    (x,), (dim,) = args, dims
    s, c = split_axis, concat_axis
    if axis.name not in only_name({"axis_name": axis_name}):
        if dim is None:
            return all_to_all(x, axis_name=axis_name, concat_axis=c, split_axis=s, tiled=tiled, **rest), None
        x = move_axis(x, dim, 0)
        return all_to_all(x, axis_name=axis_name, concat_axis=c + 1, split_axis=s + 1, tiled=tiled, **rest), 0
    x = insert_axis(x, 0, axis.size) if dim is None else move_axis(x, dim, 0)
    if tiled:
        x = _cut(x, s + 1, axis.size)  # (from, ..., to, part, ...)
        x = move_axis(x, s + 1, 0)  # (to, from, ...)
        return _merged(move_axis(x, 1, c + 1), c + 1), 0
    x = move_axis(x, s + 1, 0)
    return move_axis(x, 1, c + 1), 0


def _all_to_all_transpose(ct: Any, x: Linear, *, concat_axis: int, split_axis: int, **rest: Any) -> list[Any]:
    return [all_to_all(ct, concat_axis=split_axis, split_axis=concat_axis, **rest)]


all_to_all = Op(
    "all_to_all",
    typ=_all_to_all_typ,
    batch=_all_to_all_batch,
    transpose=_all_to_all_transpose,
    axis_names=only_name,
    show=lambda p: {k: p[k] for k in sorted(p) if k != "axis_size"},
)
"""Element b gets the b-th part along `split_axis` of every element's operand, along `concat_axis`."""

for _op in (ppermute, all_gather, reduce_scatter, all_to_all):
    _op.jvp = _linear_jvp(_op)


# axis_index


def _axis_index_batch(axis: Axis, args: Sequence[Any], dims: Dims, *, axis_name: Hashable) -> tuple[Any, int | None]:
    return iota(dtype=dtypes.int32, shape=(axis.size,), dimension=0, sharding=None), 0


axis_index = Op(
    "axis_index", typ=lambda *, axis_name: ShapedArray((), dtypes.int32), batch=_axis_index_batch, axis_names=lambda p: (p["axis_name"],)
)
"""The position of the element along the axis."""
