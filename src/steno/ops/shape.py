"""Ops that move elements without arithmetic: reshape, transpose, broadcast_in_dim, squeeze, pad, rev, slice, iota, tile. Each is index
arithmetic, inlined into whatever reads the result. Those of several arrays are in `join`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from steno.core import dtypes
from steno.core.aval import ShapedArray
from steno.core.op import OPS, Op
from steno.core.sizes import UnknownSize, extent, max_size, may_equal
from steno.ir.expr import Builder, Expr, Scalar
from steno.ir.index import ZERO, Index, linear, unlinear
from steno.ir.kinds import Map, Read
from steno.ops.samples import filled, sample_dtypes
from steno.transforms import rules
from steno.transforms.rules import (
    LINEAR,
    Axis,
    Linear,
    along,
    broadcast,
    by_operand,
    full,
    inserted,
    move_axis,
    permute,
    shifted,
    sum_over,
    to_front,
    zeros,
)

Shape = tuple[int, ...]
Dims = Sequence[int | None]


def all_weak(*avals: ShapedArray) -> bool:
    return all(a.weak_type for a in avals)


def same_dtype(op: str, avals: Sequence[ShapedArray]) -> None:
    """TypeError unless all operands have one dtype."""
    if any(a.dtype != avals[0].dtype for a in avals):
        raise TypeError(
            f"{op} requires arguments to have the same dtypes, got {', '.join(dtypes.name(a.dtype) for a in avals)}. "
            f"Convert them first, for example with x.astype(...)."
        )


def natural_shape(op: str, what: str, shape: Sequence[int]) -> None:
    """TypeError if a size is negative."""
    if any(n < 0 for n in shape):
        raise TypeError(f"{op}: {what} must not hold negative sizes, got {tuple(shape)}")


def is_permutation(p: Sequence[int], n: int) -> bool:
    return len(p) == n and set(p) == set(range(n))


def inverse(permutation: Sequence[int]) -> Shape:
    return tuple(sorted(range(len(permutation)), key=permutation.__getitem__))


def scalar_zero(dtype: Any) -> Any:
    return full((), 0, dtype)


# reshape


def _reshape_typ(x: ShapedArray, *, dimensions: Shape | None, new_sizes: Shape, sharding: Any) -> ShapedArray:
    natural_shape("reshape", "new_sizes", new_sizes)
    if dimensions is not None and not is_permutation(dimensions, x.ndim):
        raise TypeError(
            f"reshape: dimensions must be a permutation of the operand's axes, got {dimensions} for an operand of shape {x.shape}"
        )
    if not may_equal(math.prod(new_sizes), x.size):
        raise TypeError(
            f"reshape: cannot reshape an array of shape {x.shape} (size {x.size}) into shape {new_sizes} (size {math.prod(new_sizes)})"
        )
    return x.update(shape=tuple(new_sizes))


def _reshape_oracle(x: np.ndarray, *, dimensions: Shape | None, new_sizes: Shape, sharding: Any) -> np.ndarray:
    return (x if dimensions is None else x.transpose(dimensions)).reshape(new_sizes)


def reshape_indices(indices: Sequence[Index], new: Shape, old: Shape) -> list[Index]:
    """Where the element `indices` of the array reshaped to `new` lies in the array of shape `old`.

    Axes are taken in the smallest groups of equal size, so that an axis that both shapes share costs no division."""
    if not math.prod(old):
        return [ZERO] * len(old)
    out: list[Index] = []
    i = j = 0
    while j < len(old):
        if i == len(new):  # what is left has size 1
            return out + [ZERO] * (len(old) - j)
        i2, j2, p, q = i + 1, j + 1, new[i], old[j]
        while p != q:
            if p < q:
                p *= new[i2]
                i2 += 1
            else:
                q *= old[j2]
                j2 += 1
        out += unlinear(linear(list(indices[i:i2]), new[i:i2]), old[j:j2])
        i, j = i2, j2
    return out


def _reshape_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, dimensions: Shape | None, **_: Any) -> Map:
    old, new = avals_in[0].shape, avals_out[0].shape
    permuted = old if dimensions is None else tuple(old[d] for d in dimensions)

    def body(b: Builder, indices: Sequence[Index], reads: Sequence[Read]) -> Scalar:
        at = reshape_indices(indices, new, permuted)
        return reads[0](at if dimensions is None else _unpermute(at, dimensions))

    return Map(body, view=True, flat=dimensions is None)


def _unpermute(indices: Sequence[Index], permutation: Sequence[int]) -> list[Index]:
    """Indices of a transposed array --> indices of the array itself."""
    out = [ZERO] * len(permutation)
    for i, p in zip(indices, permutation, strict=True):
        out[p] = i
    return out


def _reshape_samples() -> Iterable[Any]:
    for d in sample_dtypes():
        yield (filled((3, 4), d),), dict(dimensions=None, new_sizes=(4, 3), sharding=None)
    for old, new in [
        ((2, 3, 4), (6, 4)),
        ((6, 4), (3, 2, 2, 2)),
        ((5,), (5, 1)),
        ((1, 5), (5,)),
        ((), (1, 1)),
        ((1,), ()),
        ((0, 3), (3, 0, 2)),
        ((4, 6, 3), (8, 9)),
        ((2, 1, 3), (3, 1, 2)),
    ]:
        yield (filled(old, "float32"),), dict(dimensions=None, new_sizes=new, sharding=None)
    yield (filled((2, 3, 4), "float32"),), dict(dimensions=(2, 0, 1), new_sizes=(4, 6), sharding=None)


def _reshape_transpose(ct: Any, x: Linear, *, dimensions: Shape | None, **_: Any) -> Any:
    if dimensions is None:
        return rules.reshape(ct, x.shape)
    return permute(rules.reshape(ct, [x.shape[d] for d in dimensions]), inverse(dimensions))


def _reshape_batch(
    axis: Axis, args: Sequence[Any], dims: Sequence[int], *, dimensions: Shape | None, new_sizes: Shape, sharding: Any
) -> tuple[Any, int]:
    """The batch axis stays where it is if new sizes begin with the same number of elements as are in front of it."""
    (x,), (d,) = args, dims
    if dimensions is not None:
        sizes = inserted(new_sizes, 0, axis.size)
        return reshape(x, dimensions=(d, *shifted(dimensions, d)), new_sizes=sizes, sharding=sharding), 0
    before = math.prod(x.shape[:d])
    k = next((k for k in range(len(new_sizes) + 1) if math.prod(new_sizes[:k]) == before), None)
    if k is None:
        x, k = move_axis(x, d, 0), 0
    return rules.reshape(x, inserted(new_sizes, k, axis.size)), k


reshape = Op(
    "reshape",
    typ=_reshape_typ,
    oracle=_reshape_oracle,
    lower=_reshape_lower,
    samples=_reshape_samples,
    jvp=LINEAR,
    transpose=by_operand(_reshape_transpose),
    batch=_reshape_batch,
)


# transpose


def _transpose_typ(x: ShapedArray, *, permutation: Shape) -> ShapedArray:
    if not is_permutation(permutation, x.ndim):
        raise TypeError(
            f"transpose: permutation must hold each axis of the operand once, got {permutation} for an operand of shape {x.shape}"
        )
    return x.update(shape=tuple(x.shape[p] for p in permutation))


def _transpose_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, permutation: Shape) -> Map:
    return Map(lambda b, indices, reads: reads[0](_unpermute(indices, permutation)), view=True)


def _transpose_samples() -> Iterable[Any]:
    for d in sample_dtypes():
        yield (filled((3, 4), d),), dict(permutation=(1, 0))
    for shape, p in [
        ((2, 3, 4), (2, 0, 1)),
        ((), ()),
        ((5,), (0,)),
        ((0, 3), (1, 0)),
        ((1, 4, 1), (1, 2, 0)),
        ((2, 3, 4, 5), (0, 2, 1, 3)),
    ]:
        yield (filled(shape, "float32"),), dict(permutation=p)


transpose = Op(
    "transpose",
    typ=_transpose_typ,
    oracle=lambda x, *, permutation: x.transpose(permutation),
    lower=_transpose_lower,
    samples=_transpose_samples,
    jvp=LINEAR,
    transpose=by_operand(lambda ct, x, *, permutation: permute(ct, inverse(permutation))),
    batch=lambda axis, args, dims, *, permutation: (permute(args[0], inserted(shifted(permutation, dims[0]), dims[0], dims[0])), dims[0]),
)


# broadcast_in_dim


def _broadcast_typ(x: ShapedArray, *, shape: Shape, broadcast_dimensions: Shape, sharding: Any) -> ShapedArray:
    op, dims = "broadcast_in_dim", broadcast_dimensions
    natural_shape(op, "shape", shape)
    if len(shape) < x.ndim:
        raise TypeError(f"{op}: the target shape {shape} has fewer axes than the operand, of shape {x.shape}")
    if len(dims) != x.ndim:
        raise TypeError(f"{op}: broadcast_dimensions must have length equal to operand ndim, got {dims} for an operand of shape {x.shape}")
    if any(not 0 <= d < len(shape) for d in dims):
        raise TypeError(f"{op} broadcast_dimensions must be a subset of output dimensions, those of shape {shape}, got {dims}")
    if any(n not in (1, shape[d]) for n, d in zip(x.shape, dims, strict=True)):
        raise TypeError(
            f"{op}: each operand axis must have size 1 or the size of its target axis, got an operand of shape {x.shape}, "
            f"target shape {shape}, broadcast_dimensions {dims}"
        )
    if len(set(dims)) != len(dims):
        raise TypeError(f"{op} broadcast_dimensions must not contain duplicates, got {dims}")
    return x.update(shape=tuple(shape))


def _broadcast_oracle(x: np.ndarray, *, shape: Shape, broadcast_dimensions: Shape, sharding: Any) -> np.ndarray:
    order = sorted(range(x.ndim), key=broadcast_dimensions.__getitem__)
    spread = [1] * len(shape)
    for n, d in zip(x.shape, broadcast_dimensions, strict=True):
        spread[d] = n
    return np.broadcast_to(x.transpose(order).reshape(spread), shape)


def _broadcast_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, broadcast_dimensions: Shape, **_: Any) -> Map:
    shape = avals_in[0].shape

    def body(b: Builder, indices: Sequence[Index], reads: Sequence[Read]) -> Scalar:
        return reads[0]([indices[d] if n != 1 else ZERO for n, d in zip(shape, broadcast_dimensions, strict=True)])

    return Map(body, view=True)


def _broadcast_samples() -> Iterable[Any]:
    for d in sample_dtypes():
        yield (filled((), d),), dict(shape=(2, 3), broadcast_dimensions=(), sharding=None)
    for old, new, dims in [
        ((3, 4), (2, 3, 4), (1, 2)), ((3, 1), (3, 4), (0, 1)), ((3,), (3, 5), (0,)), ((1,), (5,), (0,)), ((1,), (0,), (0,)),
        ((0,), (2, 0), (1,)),
        ((), (), ()), ((2, 3), (3, 2), (1, 0)), ((4,), (4, 1, 1), (0,)),
    ]:  # fmt: skip
        yield (filled(old, "float32"),), dict(shape=new, broadcast_dimensions=dims, sharding=None)


def _broadcast_transpose(ct: Any, x: Linear, *, shape: Shape, broadcast_dimensions: Shape, **_: Any) -> Any:
    """Sums along what was added or stretched."""
    own = [k for k, d in enumerate(broadcast_dimensions) if x.shape[k] == shape[d]]
    kept = [broadcast_dimensions[k] for k in own]
    ct = sum_over(ct, [d for d in range(len(shape)) if d not in kept])
    return broadcast(permute(ct, [sorted(kept).index(d) for d in kept]), x.shape, own)


def _broadcast_batch(
    axis: Axis, args: Sequence[Any], dims: Sequence[int], *, shape: Shape, broadcast_dimensions: Shape, sharding: Any
) -> tuple[Any, int]:
    """The batch axis comes behind the axis that it follows in the operand."""
    (x,), (d,) = args, dims
    k = broadcast_dimensions[d - 1] + 1 if d else 0
    places = inserted(shifted(broadcast_dimensions, k), d, k)
    return broadcast_in_dim(x, shape=inserted(shape, k, axis.size), broadcast_dimensions=places, sharding=sharding), k


broadcast_in_dim = Op(
    "broadcast_in_dim",
    typ=_broadcast_typ,
    oracle=_broadcast_oracle,
    lower=_broadcast_lower,
    samples=_broadcast_samples,
    jvp=LINEAR,
    transpose=by_operand(_broadcast_transpose),
    batch=_broadcast_batch,
    show=lambda p: {"broadcast_dimensions": p["broadcast_dimensions"]} if p["broadcast_dimensions"] else {},
)


# squeeze


def _squeeze_typ(x: ShapedArray, *, dimensions: Shape) -> ShapedArray:
    if any(not 0 <= d < x.ndim for d in dimensions):
        raise ValueError(f"squeeze: dimensions must lie in [0, {x.ndim}), got {dimensions} for an operand of shape {x.shape}")
    if len(set(dimensions)) != len(dimensions):
        raise ValueError(f"squeeze: dimensions are not unique, got {dimensions}")
    if any(x.shape[d] != 1 for d in dimensions):
        raise ValueError(
            f"squeeze: cannot select an axis to squeeze out whose size is not one, got shape {x.shape} and dimensions {dimensions}"
        )
    return x.update(shape=tuple(n for d, n in enumerate(x.shape) if d not in dimensions))


def _squeeze_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, dimensions: Shape) -> Map:
    rank = avals_in[0].ndim

    def body(b: Builder, indices: Sequence[Index], reads: Sequence[Read]) -> Scalar:
        kept = iter(indices)
        return reads[0]([ZERO if d in dimensions else next(kept) for d in range(rank)])

    return Map(body, view=True, flat=True)


def _squeeze_samples() -> Iterable[Any]:
    for d in sample_dtypes():
        yield (filled((1, 4), d),), dict(dimensions=(0,))
    for shape, dims in [((1, 2, 1, 3), (0, 2)), ((1, 2, 1, 3), (2,)), ((1,), (0,)), ((3,), ()), ((0, 1), (1,)), ((1, 1), (1, 0))]:
        yield (filled(shape, "float32"),), dict(dimensions=dims)


def _squeeze_batch(axis: Axis, args: Sequence[Any], dims: Sequence[int], *, dimensions: Shape) -> tuple[Any, int]:
    (x,), (d,) = args, dims
    dropped = shifted(dimensions, d)
    return squeeze(x, dimensions=dropped), d - sum(k < d for k in dropped)


squeeze = Op(
    "squeeze",
    typ=_squeeze_typ,
    oracle=lambda x, *, dimensions: x.reshape([n for d, n in enumerate(x.shape) if d not in dimensions]),
    lower=_squeeze_lower,
    samples=_squeeze_samples,
    jvp=LINEAR,
    transpose=by_operand(lambda ct, x, *, dimensions: rules.reshape(ct, x.shape)),
    batch=_squeeze_batch,
)


# pad


def _padded(n: int, low: int, high: int, interior: int) -> int:
    if isinstance(n, UnknownSize):
        return low + high + n + (max_size(n - 1, 0) * interior if interior else 0)
    return low + high + n + max(n - 1, 0) * interior


def _pad_typ(x: ShapedArray, value: ShapedArray, *, padding_config: tuple[tuple[int, int, int], ...]) -> ShapedArray:
    if x.dtype != value.dtype:
        raise TypeError(
            f"pad: operand and padding_value must have the same dtype, got {dtypes.name(x.dtype)} and {dtypes.name(value.dtype)}"
        )
    if value.shape:
        raise ValueError(f"pad: padding_value must be a scalar, got shape {value.shape}")
    if len(padding_config) != x.ndim:
        raise ValueError(
            f"pad: padding_config must have one (low, high, interior) for each axis, got {padding_config} for an operand of shape {x.shape}"
        )
    if any(interior < 0 for _, _, interior in padding_config):
        raise ValueError(f"pad: interior padding in padding_config must be nonnegative, got {padding_config}")
    shape = tuple(_padded(n, *p) for n, p in zip(x.shape, padding_config, strict=True))
    if any(n < 0 for n in shape):
        raise ValueError(
            f"pad: Dimension size after padding is not at least 0, got padding_config {padding_config} for an operand of shape {x.shape}: "
            f"{shape}"
        )
    return ShapedArray(shape, x.dtype, all_weak(x, value))


def _pad_oracle(x: np.ndarray, value: np.ndarray, *, padding_config: tuple[tuple[int, int, int], ...]) -> np.ndarray:
    shape = [_padded(n, *p) for n, p in zip(x.shape, padding_config, strict=True)]
    out = np.full(shape, value, x.dtype)
    source, target = [], []
    for n, size, (low, _, interior) in zip(x.shape, shape, padding_config, strict=True):
        step = interior + 1
        first = max(-(low // step), 0)  # the first element at a position >= 0
        last = min(n, -(-(size - low) // step))  # beyond the last one below `size`
        last = max(last, first)
        source.append(slice(first, last))
        target.append(slice(low + first * step, low + last * step, step) if last > first else slice(0, 0))
    out[tuple(target)] = x[tuple(source)]
    return out


def _pad_lower(
    avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, padding_config: tuple[tuple[int, int, int], ...]
) -> Map:
    shape = avals_in[0].shape

    def body(b: Builder, indices: Sequence[Index], reads: Sequence[Read]) -> Scalar:
        at: list[Index] = []
        inside: Expr | None = None
        for i, n, (low, _, interior) in zip(indices, shape, padding_config, strict=True):
            position, step = i - low, interior + 1
            if n == 0 or position.hi < 0 or position.lo > (n - 1) * step:
                return reads[1](())
            conditions = []
            if position.lo < 0:
                conditions.append(b.ge(b.index(position), 0))
            if position.hi > (n - 1) * step:
                conditions.append(b.le(b.index(position), (n - 1) * step))
            if step > 1:
                conditions.append(b.eq(b.index(position % step), 0))
            for c in conditions:
                inside = c if inside is None else b.and_(inside, c)
            at.append(position // step)
        if inside is None:
            return reads[0](at)
        return b.select(inside, reads[0](at, inside), reads[1](()))

    return Map(body)


def _pad_samples() -> Iterable[Any]:
    for d in sample_dtypes():
        yield (filled((2, 3), d), filled((), d, seed=1)), dict(padding_config=((1, 2, 0), (0, -1, 1)))
    for shape, config in [
        ((5,), ((-2, -2, 0),)), ((5,), ((-1, 3, 2),)), ((5,), ((-3, -1, 1),)), ((0,), ((1, 2, 3),)), ((), ()),
        ((3, 2), ((0, 0, 0), (0, 0, 0))),
        ((1,), ((2, 0, 4),)), ((2,), ((5, -6, 0),)), ((3, 4), ((-1, 0, 0), (2, 2, 1))), ((3,), ((-5, 3, 0),)),
    ]:  # fmt: skip
        yield (filled(shape, "float32"), filled((), "float32", seed=1)), dict(padding_config=config)


Padding = tuple[tuple[int, int, int], ...]


def _pad_transpose(ct: Any, x: Any, value: Any, *, padding_config: Padding) -> list[Any]:
    """The operand's elements are cut out, after zeros in place of those that the padding cut off. The value's cotangent is the sum of what
    is left: a product with ones where the padding is, since a difference of sums loses digits."""
    out: list[Any] = [None, None]
    if type(x) is Linear:
        outer = tuple((max_size(-low, 0), max_size(-high, 0), 0) for low, high, _ in padding_config)
        whole = pad(ct, scalar_zero(ct.dtype), padding_config=outer) if any(map(any, outer)) else ct
        starts = tuple(max_size(low, 0) for low, _, _ in padding_config)
        steps = tuple(interior + 1 for _, _, interior in padding_config)
        limits = tuple(s + extent(n, k) for s, n, k in zip(starts, x.shape, steps, strict=True))
        strides = steps if any(k > 1 for k in steps) else None
        cut = whole.shape != x.shape
        out[0] = slice_(whole, start_indices=starts, limit_indices=limits, strides=strides) if cut else whole
    if type(value) is Linear:
        ones = pad(zeros(x.aval), full((), 1, x.dtype), padding_config=padding_config)
        out[1] = _total_product(ct, ones)
    return out


def _total_product(x: Any, y: Any) -> Any:
    everything = tuple(range(len(x.shape)))
    numbers = ((everything, everything), ((), ()))
    return OPS["dot_general"](x, y, dimension_numbers=numbers, precision=None, preferred_element_type=None, out_sharding=None)


def _pad_batch(axis: Axis, args: Sequence[Any], dims: Dims, *, padding_config: Padding) -> tuple[Any, int]:
    (x, value), (d, value_dim) = args, dims
    if d is None:
        x, d = to_front(x, None, axis.size), 0
    config = (*padding_config[:d], (0, 0, 0), *padding_config[d:])
    if value_dim is None:
        return pad(x, value, padding_config=config), d
    padded = pad(x, scalar_zero(x.dtype), padding_config=config)
    outside = pad(full(x.shape, False, dtypes.bool_), full((), True, dtypes.bool_), padding_config=config)
    return OPS["select_n"](outside, padded, broadcast(value, padded.shape, (d,))), d


pad = Op(
    "pad",
    typ=_pad_typ,
    oracle=_pad_oracle,
    lower=_pad_lower,
    samples=_pad_samples,
    jvp=LINEAR,
    transpose=_pad_transpose,
    batch=_pad_batch,
)


# rev


def _rev_typ(x: ShapedArray, *, dimensions: Shape) -> ShapedArray:
    if len(set(dimensions)) != len(dimensions):
        raise TypeError(f"rev: dimensions must be distinct, got {dimensions}")
    if any(not 0 <= d < x.ndim for d in dimensions):
        raise TypeError(f"rev: dimensions must lie in [0, {x.ndim}), got {dimensions} for an operand of shape {x.shape}")
    return x


def _rev_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, dimensions: Shape) -> Map:
    shape = avals_in[0].shape
    return Map(
        lambda b, indices, reads: reads[0](
            [-i + (n - 1) if d in dimensions else i for d, (i, n) in enumerate(zip(indices, shape, strict=True))]
        ),
        view=True,
    )


def _rev_samples() -> Iterable[Any]:
    for d in sample_dtypes():
        yield (filled((2, 3), d),), dict(dimensions=(1,))
    for shape, dims in [((4,), (0,)), ((2, 3, 4), (0, 2)), ((3,), ()), ((0, 2), (0, 1)), ((1,), (0,)), ((), ())]:
        yield (filled(shape, "float32"),), dict(dimensions=dims)


rev = Op(
    "rev",
    typ=_rev_typ,
    oracle=lambda x, *, dimensions: np.flip(x, dimensions),
    lower=_rev_lower,
    samples=_rev_samples,
    jvp=LINEAR,
    transpose=by_operand(lambda ct, x, *, dimensions: rev(ct, dimensions=dimensions)),
    batch=along("dimensions"),
)


# slice


def _slice_typ(x: ShapedArray, *, start_indices: Shape, limit_indices: Shape, strides: Shape | None) -> ShapedArray:
    steps = (1,) * x.ndim if strides is None else strides
    for what, given in [("start_indices", start_indices), ("limit_indices", limit_indices), ("strides", steps)]:
        if len(given) != x.ndim:
            raise TypeError(f"slice: {what} must have one entry for each axis, got {given} for an operand of shape {x.shape}")
    if any(not 0 <= s <= e <= n for s, e, n in zip(start_indices, limit_indices, x.shape, strict=True)):
        raise TypeError(
            f"slice: expected 0 <= start <= limit <= size for each axis, got start_indices {start_indices}, limit_indices {limit_indices} "
            f"for an operand of shape {x.shape}"
        )
    if any(s <= 0 for s in steps):
        raise TypeError(f"slice: strides must be positive, got {steps}")
    return x.update(shape=tuple(-(-(e - s) // k) for s, e, k in zip(start_indices, limit_indices, steps, strict=True)))


def _slice_oracle(x: np.ndarray, *, start_indices: Shape, limit_indices: Shape, strides: Shape | None) -> np.ndarray:
    return x[tuple(slice(s, e, k) for s, e, k in zip(start_indices, limit_indices, strides or (1,) * x.ndim, strict=True))]


def _slice_lower(
    avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, start_indices: Shape, limit_indices: Shape, strides: Shape | None
) -> Map:
    steps = strides or (1,) * len(start_indices)
    return Map(lambda b, indices, reads: reads[0]([i * k + s for i, k, s in zip(indices, steps, start_indices, strict=True)]), view=True)


def _slice_samples() -> Iterable[Any]:
    for d in sample_dtypes():
        yield (filled((3, 4), d),), dict(start_indices=(1, 0), limit_indices=(3, 3), strides=None)
    for shape, s, e, k in [
        ((7,), (1,), (6,), (2,)),
        ((7,), (7,), (7,), None),
        ((0,), (0,), (0,), (3,)),
        ((), (), (), None),
        ((4, 5), (0, 1), (4, 5), (3, 2)),
        ((1,), (0,), (1,), (5,)),
    ]:
        yield (filled(shape, "float32"),), dict(start_indices=s, limit_indices=e, strides=k)


def _slice_transpose(ct: Any, x: Linear, *, start_indices: Shape, limit_indices: Shape, strides: Shape | None) -> Any:
    steps = strides or (1,) * len(start_indices)
    config = []
    for n, m, start, step in zip(x.shape, ct.shape, start_indices, steps, strict=True):
        config.append((start, n - start - extent(m, step), step - 1))
    return pad(ct, scalar_zero(ct.dtype), padding_config=tuple(config))


def _slice_batch(
    axis: Axis, args: Sequence[Any], dims: Sequence[int], *, start_indices: Shape, limit_indices: Shape, strides: Shape | None
) -> tuple[Any, int]:
    (x,), (d,) = args, dims
    steps = None if strides is None else inserted(strides, d, 1)
    return slice_(x, start_indices=inserted(start_indices, d, 0), limit_indices=inserted(limit_indices, d, axis.size), strides=steps), d


slice_ = Op(
    "slice",
    typ=_slice_typ,
    oracle=_slice_oracle,
    lower=_slice_lower,
    samples=_slice_samples,
    jvp=LINEAR,
    transpose=by_operand(_slice_transpose),
    batch=_slice_batch,
)


# iota


def _iota_typ(*, dtype: Any, shape: Shape, dimension: int, sharding: Any) -> ShapedArray:
    if not dtypes.is_valid(dtype) or dtypes.kind(dtype) not in "iufc":
        raise TypeError(f"iota: expected an integer, floating or complex dtype, got {dtype}")
    natural_shape("iota", "shape", shape)
    if not 0 <= dimension < len(shape):
        raise ValueError(f"iota: dimension must lie in [0, {len(shape)}), got {dimension} for shape {shape}")
    return ShapedArray(tuple(shape), dtype)


def _iota_oracle(*, dtype: Any, shape: Shape, dimension: int, sharding: Any) -> np.ndarray:
    ramp = np.arange(shape[dimension]).astype(dtype)
    return np.broadcast_to(ramp.reshape([-1 if d == dimension else 1 for d in range(len(shape))]), shape)


def _iota_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, dtype: Any, dimension: int, **_: Any) -> Map:
    return Map(lambda b, indices, reads: b.convert(b.index(indices[dimension]), dtype))


def _iota_samples() -> Iterable[Any]:
    for d in sample_dtypes(kinds="iufc"):
        yield (), dict(dtype=np.dtype(d), shape=(5,), dimension=0, sharding=None)
    for d in ("int8", "uint8", "bfloat16"):
        yield (), dict(dtype=np.dtype(d), shape=(300,), dimension=0, sharding=None)
    for shape, dim in [((2, 3), 0), ((2, 3), 1), ((0,), 0), ((1, 4, 1), 1)]:
        yield (), dict(dtype=np.dtype("int32"), shape=shape, dimension=dim, sharding=None)


iota = Op("iota", typ=_iota_typ, oracle=_iota_oracle, lower=_iota_lower, samples=_iota_samples)


# tile


def _tile_typ(x: ShapedArray, *, reps: Shape) -> ShapedArray:
    if len(reps) != x.ndim:
        raise TypeError(f"tile: reps must have one entry for each axis, got {reps} for an operand of shape {x.shape}")
    natural_shape("tile", "reps", reps)
    return x.update(shape=tuple(n * r for n, r in zip(x.shape, reps, strict=True)))


def _tile_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, reps: Shape) -> Map:
    shape = avals_in[0].shape
    return Map(lambda b, indices, reads: reads[0]([i % n if n else ZERO for i, n in zip(indices, shape, strict=True)]), view=True)


def _tile_samples() -> Iterable[Any]:
    for d in sample_dtypes():
        yield (filled((2, 3), d),), dict(reps=(2, 1))
    for shape, reps in [((3,), (4,)), ((3,), (0,)), ((0, 2), (2, 3)), ((), ()), ((1, 2), (3, 2))]:
        yield (filled(shape, "float32"),), dict(reps=reps)


def _tile_transpose(ct: Any, x: Linear, *, reps: Shape) -> Any:
    sizes: list[int] = []
    repeats = []
    for n, r in zip(x.shape, reps, strict=True):
        if r != 1:
            repeats.append(len(sizes))
            sizes.append(r)
        sizes.append(n)
    return sum_over(rules.reshape(ct, sizes), repeats)


tile = Op(
    "tile",
    typ=_tile_typ,
    oracle=lambda x, *, reps: np.tile(x, reps),
    lower=_tile_lower,
    samples=_tile_samples,
    jvp=LINEAR,
    transpose=by_operand(_tile_transpose),
    batch=lambda axis, args, dims, *, reps: (tile(args[0], reps=inserted(reps, dims[0], 1)), dims[0]),
)
