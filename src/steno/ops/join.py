"""Ops that join arrays along an axis and take them apart again: concatenate, stack, split, unstack."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from steno.core.aval import ShapedArray
from steno.core.op import Op
from steno.ir.expr import Builder, Expr, Scalar
from steno.ir.index import Index
from steno.ir.kinds import Map, Pieces, Read
from steno.ops.samples import filled, sample_dtypes
from steno.ops.shape import Shape, all_weak, pad, same_dtype, scalar_zero, slice_
from steno.transforms import rules
from steno.transforms.rules import LINEAR, Axis, Linear, Zero, align, along, instantiate, shifted

# concatenate, stack


def _concatenate_typ(*xs: ShapedArray, dimension: int) -> ShapedArray:
    op = "concatenate"
    if not xs:
        raise ValueError(f"{op}: expected at least one operand")
    shapes = ", ".join(str(x.shape) for x in xs)
    if any(x.ndim != xs[0].ndim for x in xs):
        raise TypeError(f"{op}: operands must have equal numbers of axes, got shapes {shapes}")
    if not 0 <= dimension < xs[0].ndim:
        raise TypeError(f"{op}: dimension {dimension} is out of bounds for operands of shapes {shapes}")
    if any(x.shape[:dimension] + x.shape[dimension + 1 :] != xs[0].shape[:dimension] + xs[0].shape[dimension + 1 :] for x in xs):
        raise TypeError(f"{op}: operands must agree in all axes but dimension {dimension}, got shapes {shapes}")
    same_dtype(op, xs)
    shape = list(xs[0].shape)
    shape[dimension] = sum(x.shape[dimension] for x in xs)
    return ShapedArray(tuple(shape), xs[0].dtype, all_weak(*xs))


SELECTED, POINTS, SHORT = 4, 16, 16


def _is_selected(avals_in: Sequence[ShapedArray], out: ShapedArray, dimension: int) -> bool:
    """Whether elements of the result may be selected among the operands' where they are read: if there are few operands, or rather few
    that alternate quickly. Among a handful of elements selection costs nothing, since these are read at constant indices."""
    count = sum(x.size > 0 for x in avals_in)
    few = SELECTED if math.prod(out.shape[dimension:]) >= SHORT * count else 4 * SELECTED
    return count <= few or out.size <= POINTS


def _concatenate_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, dimension: int) -> Pieces:
    if not _is_selected(avals_in, avals_out[0], dimension):
        return Pieces(dimension)
    ends = np.cumsum([x.shape[dimension] for x in avals_in]).tolist()

    def body(b: Builder, indices: Sequence[Index], reads: Sequence[Read]) -> Scalar:
        at = indices[dimension]

        def part(k: int, guard: Expr | None) -> Scalar:
            begin = ends[k - 1] if k else 0
            return reads[k]([i - begin if d == dimension else i for d, i in enumerate(indices)], guard)

        return _piecewise(b, at, ends, part)

    return Pieces(dimension, body)


def _piecewise(b: Builder, at: Index, ends: Sequence[int], part: Any) -> Scalar:
    """part(k, guard) for the k with ends[k-1] <= at < ends[k], by a balanced tree of selections; pieces `at` cannot reach are left out."""
    reachable = [k for k, end in enumerate(ends) if (ends[k - 1] if k else 0) < end and at.hi >= (ends[k - 1] if k else 0) and at.lo < end]

    def choose(ks: Sequence[int], guard: Expr | None) -> Scalar:
        if len(ks) == 1:
            return part(ks[0], guard)
        middle = len(ks) // 2
        low = b.lt(b.index(at), ends[ks[middle - 1]])
        high = b.not_(low)
        left = choose(ks[:middle], low if guard is None else b.and_(guard, low))
        right = choose(ks[middle:], high if guard is None else b.and_(guard, high))
        return b.select(low, left, right)

    return choose(reachable, None)


def _concatenate_samples() -> Iterable[Any]:
    for d in sample_dtypes():
        yield (filled((2, 3), d), filled((1, 3), d, seed=1)), dict(dimension=0)
    for shapes, dim in [
        (((3,),), 0),
        (((2, 1), (2, 3), (2, 0), (2, 2)), 1),
        (((0,), (0,)), 0),
        (((0, 2), (3, 2)), 0),
        (((1, 1),) * 5, 1),
        (((2, 1),) * 37, 1),
        (((3,),) * 300, 0),
        (((2, 3, 4), (2, 1, 4)), 1),
    ]:
        yield tuple(filled(s, "float32", seed=k) for k, s in enumerate(shapes)), dict(dimension=dim)


def _without_ends(parts: Sequence[Any]) -> tuple[int, int]:
    """The range of the parts without the `Zero`s at its ends. Not all are `Zero`."""
    kept = [k for k, x in enumerate(parts) if type(x) is not Zero]
    return kept[0], kept[-1] + 1


def _with_zeros(x: Any, axis: int, before: int, after: int) -> Any:
    if not before and not after:
        return x
    config = tuple((before, after, 0) if d == axis else (0, 0, 0) for d in range(len(x.shape)))
    return pad(x, scalar_zero(x.dtype), padding_config=config)


def _joined(parts: Sequence[Any], dimension: int) -> Any:
    """The concatenation of tangents or cotangents, of which some, not all, may be `Zero`; such ones at the ends are padding."""
    first, last = _without_ends(parts)
    inner = [instantiate(x) for x in parts[first:last]]
    x = inner[0] if len(inner) == 1 else concatenate(*inner, dimension=dimension)
    return _with_zeros(x, dimension, *(sum(z.shape[dimension] for z in zs) for zs in (parts[:first], parts[last:])))


def _concatenate_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, dimension: int) -> tuple[Any, Any]:
    """A single tangent is padded. Several are joined with zeros and all, so that the transpose is one split."""
    single = sum(type(t) is not Zero for t in tangents) == 1
    parts = tangents if single else [instantiate(t) for t in tangents]
    return concatenate(*primals, dimension=dimension), _joined(parts, dimension)


def _concatenate_transpose(ct: Any, *xs: Any, dimension: int) -> list[Any]:
    linear = [k for k, x in enumerate(xs) if type(x) is Linear]
    sizes = tuple(x.shape[dimension] for x in xs)
    if len(linear) > 1:
        parts = split(ct, sizes=sizes, axis=dimension)
        return [part if k in linear else None for k, part in enumerate(parts)]
    (k,) = linear
    begin = sum(sizes[:k])
    out: list[Any] = [None] * len(xs)
    out[k] = slice_(
        ct,
        start_indices=tuple(begin if d == dimension else 0 for d in range(len(ct.shape))),
        limit_indices=tuple(begin + sizes[k] if d == dimension else n for d, n in enumerate(ct.shape)),
        strides=None,
    )
    return out


concatenate = Op(
    "concatenate",
    typ=_concatenate_typ,
    oracle=lambda *xs, dimension: np.concatenate(xs, dimension),
    lower=_concatenate_lower,
    samples=_concatenate_samples,
    jvp=_concatenate_jvp,
    transpose=_concatenate_transpose,
    batch=along("dimension"),
)


def _stack_typ(*xs: ShapedArray, axis: int) -> ShapedArray:
    if not xs:
        raise ValueError("stack: expected at least one operand")
    if any(x.shape != xs[0].shape for x in xs):
        raise ValueError(f"stack: operands must have equal shapes, got {', '.join(str(x.shape) for x in xs)}")
    if not 0 <= axis <= xs[0].ndim:
        raise ValueError(f"stack: axis {axis} is out of bounds for operands of shape {xs[0].shape}")
    same_dtype("stack", xs)
    return ShapedArray((*xs[0].shape[:axis], len(xs), *xs[0].shape[axis:]), xs[0].dtype, all_weak(*xs))


def _stack_expand(*xs: Any, axis: int) -> Any:
    shape = (*xs[0].shape[:axis], 1, *xs[0].shape[axis:])
    return concatenate(*(rules.reshape(x, shape) for x in xs), dimension=axis)


def _stack_samples() -> Iterable[Any]:
    for d in sample_dtypes():
        yield (filled((3,), d), filled((3,), d, seed=1)), dict(axis=0)
    for shape, n, axis in [((), 3, 0), ((2, 3), 2, 1), ((2, 3), 3, 2), ((0,), 2, 1), ((4,), 1, 0), ((), 40, 0), ((2, 3), 17, 1)]:
        yield tuple(filled(shape, "float32", seed=k) for k in range(n)), dict(axis=axis)


def _stacked(parts: Sequence[Any], axis: int) -> Any:
    """As `_joined`, along a new axis."""
    first, last = _without_ends(parts)
    inner = [instantiate(x) for x in parts[first:last]]
    shape = inner[0].shape
    x = rules.reshape(inner[0], (*shape[:axis], 1, *shape[axis:])) if len(inner) == 1 else stack(*inner, axis=axis)
    return _with_zeros(x, axis, first, len(parts) - last)


def _stack_transpose(ct: Any, *xs: Any, axis: int) -> list[Any]:
    return [part if type(x) is Linear else None for x, part in zip(xs, unstack(ct, axis=axis), strict=True)]


def _stack_batch(mapped: Axis, args: Sequence[Any], dims: Sequence[int | None], *, axis: int) -> tuple[Any, int]:
    args, d = align(mapped, args, dims)
    return (stack(*args, axis=axis), d + 1) if axis < d else (stack(*args, axis=axis + 1), d)


stack = Op(
    "stack",
    typ=_stack_typ,
    oracle=lambda *xs, axis: np.stack(xs, axis),
    expand=_stack_expand,
    samples=_stack_samples,
    jvp=LINEAR,
    transpose=_stack_transpose,
    batch=_stack_batch,
)


# split, unstack


def _split_typ(x: ShapedArray, *, sizes: Shape, axis: int) -> list[ShapedArray]:
    if not 0 <= axis < x.ndim:
        raise ValueError(f"split: axis {axis} is out of bounds for an operand of shape {x.shape}")
    if any(n < 0 for n in sizes):
        raise ValueError(f"split: Sizes passed to split must be nonnegative, got {tuple(sizes)}")
    if sum(sizes) != x.shape[axis]:
        raise ValueError(
            f"split: Sum of sizes {sum(sizes)} must be equal to the size of axis {axis} of the operand's shape {x.shape}, got "
            f"{tuple(sizes)}"
        )
    return [x.update(shape=(*x.shape[:axis], n, *x.shape[axis + 1 :])) for n in sizes]


def _split_expand(x: Any, *, sizes: Shape, axis: int) -> list[Any]:
    """Slices: the results have different shapes, and each is free to be read elsewhere."""
    out, begin = [], 0
    for n in sizes:
        starts = tuple(begin if d == axis else 0 for d in range(x.ndim))
        limits = tuple(begin + n if d == axis else s for d, s in enumerate(x.shape))
        out.append(slice_(x, start_indices=starts, limit_indices=limits, strides=None))
        begin += n
    return out


def _split_samples() -> Iterable[Any]:
    for d in sample_dtypes():
        yield (filled((5, 2), d),), dict(sizes=(2, 3), axis=0)
    for shape, sizes, axis in [((3, 4), (1, 0, 3), 1), ((0,), (0,), 0), ((3,), (3,), 0), ((2, 3), (1, 1, 1), 1)]:
        yield (filled(shape, "float32"),), dict(sizes=sizes, axis=axis)


split = Op(
    "split",
    typ=_split_typ,
    oracle=lambda x, *, sizes, axis: np.split(x, np.cumsum(sizes)[:-1].tolist(), axis),
    expand=_split_expand,
    multiple_results=True,
    samples=_split_samples,
    jvp=LINEAR,
    transpose=lambda cts, x, *, sizes, axis: [_joined(cts, axis)],
    batch=along("axis"),
)


def _unstack_typ(x: ShapedArray, *, axis: int) -> list[ShapedArray]:
    if not 0 <= axis < x.ndim:
        raise IndexError(f"unstack: axis {axis} is out of bounds for an operand of shape {x.shape}")
    return [x.update(shape=x.shape[:axis] + x.shape[axis + 1 :])] * x.shape[axis]


def _unstack_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, axis: int) -> Map:
    n = avals_in[0].shape[axis]

    def body(b: Builder, indices: Sequence[Index], reads: Sequence[Read]) -> list[Scalar]:
        return [reads[0]([*indices[:axis], Index(k), *indices[axis:]]) for k in range(n)]

    return Map(body)


def _unstack_samples() -> Iterable[Any]:
    for d in sample_dtypes():
        yield (filled((2, 3), d),), dict(axis=0)
    for shape, axis in [((3,), 0), ((2, 3, 1), 1), ((0, 2), 0), ((2, 0), 0), ((1, 4), 0)]:
        yield (filled(shape, "float32"),), dict(axis=axis)


def _unstack_batch(mapped: Axis, args: Sequence[Any], dims: Sequence[int], *, axis: int) -> tuple[list[Any], list[int]]:
    (x,), (d,) = args, dims
    at = shifted(axis, d)
    out = unstack(x, axis=at)
    return out, [d - (at < d)] * len(out)


unstack = Op(
    "unstack",
    typ=_unstack_typ,
    oracle=lambda x, *, axis: list(np.moveaxis(x, axis, 0)),
    lower=_unstack_lower,
    multiple_results=True,
    samples=_unstack_samples,
    jvp=LINEAR,
    transpose=lambda cts, x, *, axis: [_stacked(cts, axis)],
    batch=_unstack_batch,
)
