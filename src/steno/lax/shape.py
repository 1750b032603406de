"""Functions of lax that move elements: broadcasting, reshaping, joining, padding, static slices, iota, full."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from steno._native import ArrayImpl, ShapedArray
from steno.core import dtypes
from steno.core.aval import TypedScalar, scalar_aval, scalar_value, typeof
from steno.core.pytree import tree_flatten, tree_unflatten
from steno.core.refs import is_ref
from steno.core.sizes import UnknownSize
from steno.core.trace import Tracer, bad_shape
from steno.device import device_put, placed_like
from steno.lax import records as p
from steno.lax.operands import (
    Array,
    ArrayLike,
    DTypeLike,
    Shape,
    as_array,
    as_operand,
    canonical_axis,
    check_dtype,
    convert,
    integers,
    shape_argument,
)


def broadcast_shapes(*shapes: Sequence[int]) -> Shape:
    """The shape NumPy's broadcasting gives; a number is the shape of a vector. ValueError if the shapes do not fit, TypeError for negative
    sizes."""
    if not shapes:
        return ()
    sized = int | np.integer | UnknownSize
    given = [(s,) if isinstance(s, sized) else integers("broadcast_shapes", "shape", tuple(s), bad_shape) for s in shapes]
    rank = max(map(len, given))
    out = []
    for sizes in zip(*((1,) * (rank - len(s)) + s for s in given), strict=True):
        wide = {n for n in sizes if n != 1}
        if any(n < 0 for n in wide):
            raise TypeError(f"broadcast_shapes: sizes must not be negative, got shapes {', '.join(map(str, given))}")
        if len(wide) > 1:
            raise ValueError(f"Incompatible shapes for broadcasting: {', '.join(map(str, given))}")
        out.append(wide.pop() if wide else 1)
    return tuple(out)


def broadcast(operand: ArrayLike, sizes: Sequence[int], *, out_sharding: Any = None) -> Array:
    """New leading axes of the given sizes."""
    x = as_operand("broadcast", operand)
    shape = (*shape_argument("broadcast", sizes), *x.aval.shape)
    return broadcast_in_dim(x, shape, tuple(range(len(shape) - x.aval.ndim, len(shape))))


def broadcast_in_dim(operand: ArrayLike, shape: Sequence[int], broadcast_dimensions: Sequence[int], *, out_sharding: Any = None) -> Array:
    """The operand spread to `shape`: operand axis k becomes axis `broadcast_dimensions[k]`, where its size is that axis's or 1."""
    x = as_operand("broadcast_in_dim", operand)
    shape = shape_argument("broadcast_in_dim", shape)
    dims = integers("broadcast_in_dim", "broadcast_dimensions", broadcast_dimensions)
    if x.aval.shape == shape and dims == tuple(range(len(shape))):
        return as_array("broadcast_in_dim", x)
    return p.broadcast_in_dim_p(x, shape=shape, broadcast_dimensions=dims, sharding=None)


def broadcast_to_rank(x: ArrayLike, rank: int) -> Array:
    """New leading axes of size 1 up to the rank."""
    x = as_array("broadcast_to_rank", x)
    if x.ndim == rank:
        return x
    return broadcast_in_dim(x, (1,) * (rank - x.ndim) + x.shape, range(rank - x.ndim, rank))


def broadcast_like(arr: ArrayLike, like_arr: ArrayLike) -> Array:
    """`arr` broadcast by NumPy's rules to the shape of `like_arr`."""
    x, shape = as_array("broadcast_like", arr), typeof(like_arr).shape
    if broadcast_shapes(x.shape, shape) != shape:
        raise ValueError(f"broadcast_like: shape {x.shape} cannot be broadcast to {shape}")
    return broadcast_in_dim(x, shape, range(len(shape) - x.ndim, len(shape)))


def reshape(operand: ArrayLike, new_sizes: Any, dimensions: Sequence[int] | None = None, *, out_sharding: Any = None) -> Array:
    """The elements in row-major order (of the axes permuted by `dimensions`), in another shape of the same size."""
    x = as_array("reshape", operand)
    if isinstance(new_sizes, int | np.integer | UnknownSize):
        new_sizes = (new_sizes,)
    elif not hasattr(new_sizes, "__iter__"):
        raise bad_shape(new_sizes, "(new_sizes of reshape)")
    sizes = integers("reshape", "new_sizes", new_sizes, bad_shape)
    if any(n < 0 for n in sizes):
        raise TypeError(f"reshape: new_sizes must not hold negative sizes, got {sizes}")
    dims = None if dimensions is None else integers("reshape", "dimensions", dimensions)
    if dims == tuple(range(x.ndim)):
        dims = None
    if x.shape == sizes and dims is None:
        return x
    return p.reshape_p(x, dimensions=dims, new_sizes=sizes, sharding=None)


def collapse(operand: Array, start_dimension: int, stop_dimension: int | None = None) -> Array:
    """The axes from start to stop made into one."""
    x = as_array("collapse", operand)
    lo, hi, _ = slice_of(start_dimension, stop_dimension, None).indices(x.ndim)
    if hi < lo:
        raise ValueError(f"collapse: the axes from {start_dimension} to {stop_dimension} of shape {x.shape} run backwards")
    return reshape(x, (*x.shape[:lo], math.prod(x.shape[lo:hi]), *x.shape[hi:]))


slice_of = slice


def transpose(operand: ArrayLike, permutation: Sequence[int]) -> Array:
    """Axis k of the result is axis `permutation[k]`."""
    x = as_array("transpose", operand)
    permutation = integers("transpose", "permutation", permutation)
    if permutation == tuple(range(x.ndim)):
        return x
    return p.transpose_p(x, permutation=permutation)


def squeeze(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Without the given axes, which have size 1."""
    x = as_array("squeeze", array)
    dims = tuple(canonical_axis(d, x.ndim) for d in dimensions)
    if len(set(dims)) != len(dims):
        raise ValueError(f"squeeze: dimensions are not unique, got {tuple(dimensions)}")
    return p.squeeze_p(x, dimensions=tuple(sorted(dims))) if dims else x


def expand_dims(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """New axes of size 1 at the given positions of the result."""
    x = as_array("expand_dims", array)
    if len(set(dimensions)) != len(tuple(dimensions)):
        raise ValueError(f"expand_dims: dimensions must be distinct, got {tuple(dimensions)}")
    rank = x.ndim + len(tuple(dimensions))
    new = [canonical_axis(d, rank) for d in dimensions]
    if len(set(new)) != len(new):
        raise ValueError(f"expand_dims: dimensions must be distinct, got {tuple(dimensions)}")
    if not new:
        return x
    kept = [d for d in range(rank) if d not in new]
    shape = [1] * rank
    for d, n in zip(kept, x.shape, strict=True):
        shape[d] = n
    return broadcast_in_dim(x, shape, kept)


def concatenate(operands: Sequence[ArrayLike] | Array, dimension: int) -> Array:
    """Arrays of one dtype, one after the other along an axis; their other sizes agree."""
    xs = [as_operand("concatenate", x, k) for k, x in enumerate(operands)]
    if not xs:
        raise ValueError("concatenate: there are no operands")
    if len(xs) == 1 and xs[0].aval.ndim and 0 <= dimension < xs[0].aval.ndim:
        return as_array("concatenate", xs[0])
    return p.concatenate_p(*xs, dimension=int(dimension))


def stack(operands: Sequence[ArrayLike] | Array, axis: int = 0) -> Array:
    """Arrays of one shape and dtype along a new axis."""
    xs = [as_operand("stack", x, k) for k, x in enumerate(operands)]
    if not xs:
        raise ValueError("stack: there are no operands")
    return p.stack_p(*xs, axis=canonical_axis(axis, xs[0].aval.ndim + 1))


def unstack(x: ArrayLike, axis: int = 0) -> tuple[Array, ...]:
    """The slices along an axis, without it."""
    x = as_array("unstack", x)
    return tuple(p.unstack_p(x, axis=canonical_axis(axis, x.ndim)))


def split(operand: ArrayLike, sizes: Sequence[int], axis: int = 0) -> list[Array]:
    """Pieces of the given sizes along an axis."""
    x = as_array("split", operand)
    return list(p.split_p(x, sizes=integers("split", "sizes", sizes), axis=canonical_axis(axis, x.ndim)))


def tile(operand: ArrayLike, reps: Sequence[int]) -> Array:
    """`reps[k]` copies along axis k."""
    return p.tile_p(as_array("tile", operand), reps=integers("tile", "reps", reps))


def pad(operand: ArrayLike, padding_value: ArrayLike, padding_config: Sequence[tuple[int, int, int]]) -> Array:
    """`(low, high, interior)` for each axis: elements added in front, behind and between (negative: taken away in front and behind)."""
    config = tuple(integers("pad", "padding_config", (low, high, interior)) for low, high, interior in padding_config)
    return p.pad_p(as_operand("pad", operand, 0), as_operand("pad", padding_value, 1), padding_config=config)


def rev(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """The order along the given axes reversed."""
    return p.rev_p(as_array("rev", operand), dimensions=integers("rev", "dimensions", dimensions))


def slice(operand: ArrayLike, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Sequence[int] | None = None) -> Array:
    """`operand[start:limit:stride]` along each axis, with `0 <= start <= limit <= size` and positive strides."""
    x = as_array("slice", operand)
    start, limit = integers("slice", "start_indices", start_indices), integers("slice", "limit_indices", limit_indices)
    steps = None if strides is None else integers("slice", "strides", strides)
    if start == (0,) * x.ndim and limit == x.shape and (steps is None or all(s == 1 for s in steps)):
        return x
    return p.slice_p(x, start_indices=start, limit_indices=limit, strides=steps)


def slice_in_dim(operand: Array, start_index: int | None, limit_index: int | None, stride: int = 1, axis: int = 0) -> Array:
    """`operand[start:limit:stride]` along one axis; negative positions count from the end."""
    x = as_array("slice_in_dim", operand)
    axis = canonical_axis_of(axis, x.ndim)
    n = x.shape[axis]
    (step,) = integers("slice_in_dim", "stride", (stride,))
    if step <= 0:
        raise TypeError(f"slice_in_dim: stride must be positive, got {step}")
    start = 0 if start_index is None else integers("slice_in_dim", "start_index", (start_index,))[0]
    limit = n if limit_index is None else integers("slice_in_dim", "limit_index", (limit_index,))[0]
    start, limit = (k + n if k < 0 else k for k in (start, limit))
    starts, limits, steps = [0] * x.ndim, list(x.shape), [1] * x.ndim
    starts[axis], limits[axis], steps[axis] = start, limit, step
    return slice(x, starts, limits, steps if step != 1 else None)


def canonical_axis_of(axis: int, ndim: int) -> int:
    """IndexError beyond the rank, as JAX has it for slices along an axis."""
    if not -ndim <= axis < ndim:
        raise IndexError(f"axis {axis} is out of bounds for an array of rank {ndim}")
    return axis % ndim


def index_in_dim(operand: Array, index: int, axis: int = 0, keepdims: bool = True) -> Array:
    """One position along an axis, which stays with size 1, or goes."""
    x = as_array("index_in_dim", operand)
    axis = canonical_axis_of(axis, x.ndim)
    (k,) = integers("index_in_dim", "index", (index,))
    n = x.shape[axis]
    if not -n <= k < n:
        raise IndexError(f"index_in_dim: index {k} is out of bounds for axis {axis}, of size {n}")
    out = slice_in_dim(x, k % n, k % n + 1, 1, axis)
    return out if keepdims else squeeze(out, (axis,))


def iota(dtype: DTypeLike, size: int) -> Array:
    """0, 1, ..., size - 1 in a numeric dtype."""
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(dtype: DTypeLike, shape: Sequence[int], dimension: int, *, out_sharding: Any = None) -> Array:
    """The index along one axis, at each position of a shape."""
    d = check_dtype(dtype, "iota")
    (axis,) = integers("iota", "dimension", (dimension,))
    return p.iota_p(dtype=d, shape=shape_argument("iota", shape), dimension=axis, sharding=None)


def full(shape: Sequence[int] | int, fill_value: ArrayLike, dtype: DTypeLike | None = None, *, sharding: Any = None) -> Array:
    """An array of one value, a scalar; without a dtype, of the value's own (weak for a Python number). A known one lies as `sharding`
    says."""
    x = as_operand("full", fill_value, 1)
    if x.aval.shape:
        raise TypeError(f"full: fill_value must be a scalar, got shape {x.aval.shape}")
    if dtype is not None:
        d = check_dtype(dtype, "full")
        if type(x) is TypedScalar and dtypes.kind(d) != "c" and dtypes.kind(x.aval.dtype) == "c":
            raise TypeError(f"full: a complex fill_value cannot become {dtypes.name(d)}")
        x = convert(x, d)
    out = broadcast_in_dim(as_operand("full", x), shape_argument("broadcast_in_dim", shape), ())
    return out if sharding is None else device_put(out, sharding)


def full_like(x: Any, fill_value: ArrayLike, dtype: DTypeLike | None = None, shape: Any = None, sharding: Any = None) -> Array:
    """As `full`, with shape and dtype (and weak type) of x, if they are not given. A known array lies as `sharding` says, or else where x
    was put."""
    aval = x.aval if hasattr(x, "aval") else None
    if aval is None:
        aval = (
            ShapedArray(tuple(x.shape), dtypes.canonical(np.dtype(x.dtype))) if hasattr(x, "shape") and hasattr(x, "dtype") else typeof(x)
        )
    sizes = aval.shape if shape is None else shape_argument("full_like", shape)
    weak = dtype is None and aval.weak_type
    d = aval.dtype if dtype is None else check_dtype(dtype, "full_like")
    value = as_operand("full_like", fill_value, 1)
    if value.aval.shape:
        raise TypeError(f"full_like: fill_value must be a scalar, got shape {value.aval.shape}")
    if type(value) is TypedScalar and dtypes.kind(value.aval.dtype) == "c" and dtypes.kind(d) != "c":
        raise TypeError(f"full_like: a complex fill_value cannot become {dtypes.name(d)}")
    out = broadcast_in_dim(convert(value, d, weak), sizes, ())
    return placed_like(out, x) if sharding is None else device_put(out, sharding)


def empty(shape: Sequence[int] | int, dtype: DTypeLike, *, out_sharding: Any = None) -> Array:
    """An array whose values the caller does not care for: zeros."""
    return full(shape, 0, check_dtype(dtype, "empty"))


def optimization_barrier(operand: Any, /) -> Any:
    """The operand (a tree), which the compiler neither moves work across nor shares. References to mutable arrays stay as they are."""
    leaves, tree = tree_flatten(operand)
    values = [as_operand("optimization_barrier", x, k) for k, x in enumerate(leaves) if not is_ref(x)]
    out = iter(p.optimization_barrier_p(*values))
    return tree_unflatten(tree, [x if is_ref(x) else next(out) for x in leaves])


def shape_as_value(shape: Sequence[int]) -> Array:
    """A shape as an int32 vector."""
    sizes = shape_argument("shape_as_value", shape)
    if any(isinstance(n, UnknownSize) for n in sizes):
        return stack([convert(as_operand("shape_as_value", n), dtypes.int32) for n in sizes])
    return np.asarray(sizes, np.int32)


def zeros_like_aval(aval: ShapedArray) -> Array:
    """Zeros (False) of a type."""
    return p.broadcast_in_dim_p(
        TypedScalar(scalar_value(0, aval.dtype), scalar_aval(aval.dtype, aval.weak_type)),
        shape=aval.shape,
        broadcast_dimensions=(),
        sharding=None,
    )


def is_traced(x: Any) -> bool:
    return isinstance(x, Tracer)


__all__ = [
    "ArrayImpl", "broadcast", "broadcast_in_dim", "broadcast_like", "broadcast_shapes", "broadcast_to_rank", "broadcasted_iota", "collapse",
    "concatenate", "empty", "expand_dims", "full", "full_like", "index_in_dim", "iota", "optimization_barrier", "pad", "reshape", "rev",
    "shape_as_value", "slice", "slice_in_dim", "split", "squeeze", "stack", "tile", "transpose", "unstack", "zeros_like_aval",
]  # fmt: skip
