"""Shapes: reshaping, permuting, joining, splitting, repeating, padding, triangles and diagonals."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from steno import lax
from steno.core import dtypes
from steno.core.errors import InconclusiveDimensionOperation
from steno.core.sizes import UnknownSize, max_size, may_equal, min_size, size_of
from steno.core.trace import bad_shape
from steno.lax import records as p
from steno.numpy import elementwise as e
from steno.numpy.creation import arange, diagonal_mask
from steno.numpy.operands import (
    Array,
    ArrayImpl,
    ArrayLike,
    DTypeLike,
    Shape,
    Tracer,
    arrays,
    as_array,
    axis_tuple,
    broadcast_shapes,
    broadcast_to as spread,
    canonical_axes,
    canonical_axis,
    check_dtype,
    check_shape,
    convert,
    from_host,
    no_out,
    promoted,
    static,
    strong,
)

# shape


def _host(fun: str, a: Any) -> np.ndarray:
    """What has no aval as an ndarray, with a DeprecationWarning for what is not an array or a number at all."""
    if not isinstance(a, np.ndarray | np.generic | bool | int | float | complex) and not hasattr(type(a), "__jax_array__"):
        warnings.warn(
            f"{fun} requires ndarray or scalar arguments, got {type(a)}; this will become an error", DeprecationWarning, stacklevel=3
        )
    return np.asarray(a.__jax_array__() if hasattr(type(a), "__jax_array__") else a)


def shape(a: ArrayLike) -> Shape:
    """The sizes of the axes."""
    return a.shape if hasattr(a, "aval") else _host("shape", a).shape


def ndim(a: ArrayLike) -> int:
    """How many axes there are."""
    return a.ndim if hasattr(a, "aval") else _host("ndim", a).ndim


def size(a: ArrayLike, axis: int | Sequence[int] | None = None) -> int:
    """How many elements there are, altogether or along axes."""
    sizes = a.shape if hasattr(a, "aval") else _host("size", a).shape
    if axis is None:
        return math.prod(sizes)
    return math.prod(sizes[k] for k in canonical_axes(axis, len(sizes), duplicates="size: repeated axis in {}"))


def complete_shape(new: Any, size: int, old: Shape) -> Shape:
    """A shape for `size` elements, a -1 standing for what is left. TypeError if there is none."""
    given: Sequence[Any] = (new,) if isinstance(new, int | np.integer | UnknownSize) or not hasattr(new, "__iter__") else tuple(new)
    try:
        sizes = tuple(map(size_of, given))
    except TypeError:
        raise bad_shape(tuple(given)) from None
    unknown = sizes.count(-1)
    if unknown > 1:
        raise TypeError(f"reshape: only one size may be -1, got {sizes}")
    if unknown:
        known = -math.prod(sizes)
        if isinstance(size % known if known != 0 else 0, UnknownSize):
            raise InconclusiveDimensionOperation(
                f"reshape: the size that is -1 in {sizes} may not be whole: shape {old} has {size} elements, the other sizes make {known}"
            )
        if known == 0 or size % known:
            if known == 0 and size == 0:
                raise TypeError(f"reshape: the size that is -1 in {sizes} is arbitrary: shape {old} has no elements")
            raise TypeError(
                f"reshape: the size that is -1 in {sizes} would not be whole: shape {old} has {size} elements, the other sizes make {known}"
            )
        return tuple(size // known if n == -1 else n for n in sizes)
    if not may_equal(math.prod(sizes), size) or any(n < 0 for n in sizes):
        raise TypeError(f"reshape: shape {old} has {size} elements, and {new} has {math.prod(sizes)}")
    return sizes


def reshape(a: ArrayLike, shape: Any, order: str = "C", *, copy: bool | None = None, out_sharding: Any = None) -> Array:
    """The elements, in row-major order ("F": column-major), in another shape; one size may be -1. TypeError if the sizes do not fit.

    >>> jnp.reshape(jnp.arange(6), (2, 3))
    Array([[0, 1, 2],
           [3, 4, 5]], dtype=int32)
    """
    if copy is False:
        raise ValueError("reshape: copy must not be False: no view is guaranteed")
    x = as_array("reshape", a)
    new = complete_shape(shape, x.size, x.shape)
    if order == "C":
        return lax.reshape(x, new)
    if order == "F":
        back = tuple(range(x.ndim))[::-1]
        return lax.transpose(lax.reshape(x, new[::-1], back), tuple(range(len(new)))[::-1])
    if order == "A":
        raise NotImplementedError("reshape: order 'A' is not implemented")
    raise ValueError(f"reshape: order must be 'C' or 'F', got {order!r}")


def ravel(a: ArrayLike, order: str = "C", *, out_sharding: Any = None) -> Array:
    """A vector of the elements, in row-major or column-major order."""
    if order == "K":
        raise NotImplementedError("ravel: order 'K' is not implemented")
    x = as_array("ravel", a)
    return reshape(x, (x.size,), order)


def transpose(a: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """The axes permuted (reversed by default).

    >>> jnp.transpose(jnp.array([[1, 2], [3, 4]]))
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    x = as_array("transpose", a)
    if axes is None:
        return lax.transpose(x, range(x.ndim)[::-1])
    order = tuple(operator.index(k) for k in axes)
    if any(not -x.ndim <= k < x.ndim for k in order):
        bad = next(k for k in order if not -x.ndim <= k < x.ndim)
        raise ValueError(f"transpose: axis {bad} is out of bounds for an array of shape {x.shape}")
    return lax.transpose(x, tuple(k % x.ndim for k in order))


def permute_dims(a: ArrayLike, /, axes: tuple[int, ...]) -> Array:
    """The axes permuted."""
    return transpose(a, axes)


def matrix_transpose(x: ArrayLike, /) -> Array:
    """The last two axes exchanged. ValueError for fewer than two."""
    x = as_array("matrix_transpose", x)
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose: expected at least two axes, got shape {x.shape}")
    return lax.transpose(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """Two axes exchanged. IndexError beyond the rank."""
    x = as_array("swapaxes", a)
    order = list(range(x.ndim))
    for k in (axis1, axis2):
        if not -x.ndim <= operator.index(k) < x.ndim:
            raise IndexError(f"swapaxes: axis {k} is out of bounds for an array of shape {x.shape}")
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return lax.transpose(x, order)


def moveaxis(a: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """Axes moved to other positions, the rest staying in order."""
    x = as_array("moveaxis", a)
    old = canonical_axes(axis_tuple("moveaxis", source), x.ndim, duplicates="repeated axis in `source` argument")
    new = canonical_axes(axis_tuple("moveaxis", destination), x.ndim, duplicates="repeated axis in `destination` argument")
    if len(old) != len(new):
        raise ValueError(f"moveaxis: source and destination must have equal lengths, got {source} and {destination}")
    order = [k for k in range(x.ndim) if k not in old]
    for d, s in sorted(zip(new, old, strict=True)):
        order.insert(d, s)
    return lax.transpose(x, order)


def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """One axis moved in front of the position `start`."""
    x = as_array("rollaxis", a)
    k = canonical_axis(axis, x.ndim)
    s = operator.index(start)
    if not -x.ndim <= s <= x.ndim:
        raise ValueError(f"rollaxis: start must lie between {-x.ndim} and {x.ndim}, got {start}")
    s = s + x.ndim if s < 0 else s
    return moveaxis(x, k, s - 1 if k < s else s)


def expand_dims(a: ArrayLike, axis: int | Sequence[int]) -> Array:
    """New axes of size 1 at the given positions of the result.

    >>> jnp.expand_dims(jnp.arange(2), 1)
    Array([[0],
           [1]], dtype=int32)
    """
    x, axes = as_array("expand_dims", a), axis_tuple("expand_dims", axis)
    return lax.expand_dims(x, canonical_axes(axes, x.ndim + len(axes), duplicates="expand_dims: repeated axis in {}"))


def squeeze(a: ArrayLike, axis: int | Sequence[int] | None = None) -> Array:
    """Without axes of size 1: the given ones, or all.

    >>> jnp.squeeze(jnp.ones((1, 2)))
    Array([1., 1.], dtype=float32)
    """
    x = as_array("squeeze", a)
    if axis is None:
        if any(isinstance(n, UnknownSize) for n in x.shape):
            raise ValueError(f"squeeze: which axes have size 1 is not known for shape {x.shape}: give `axis`")
        return lax.squeeze(x, tuple(k for k, n in enumerate(x.shape) if n == 1))
    return lax.squeeze(x, axis_tuple("squeeze", axis))


def broadcast_to(array: ArrayLike, shape: Any, *, out_sharding: Any = None) -> Array:
    """The array spread to a shape by NumPy's rules. ValueError if it does not fit.

    >>> jnp.broadcast_to(jnp.arange(2), (2, 2))
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    x = as_array("broadcast_to", array)
    new = check_shape(shape)
    if x.ndim > len(new):
        raise ValueError(f"broadcast_to: Cannot broadcast to shape with fewer dimensions, from {x.shape} to {new}")
    if any(n not in (1, m) for n, m in zip(reversed(x.shape), reversed(new), strict=False)):
        raise ValueError(f"broadcast_to: Incompatible shapes for broadcasting: {x.shape} to {new}")
    return spread(x, new)


def broadcast_arrays(*args: ArrayLike) -> tuple[Array, ...]:
    """All spread to their common shape."""
    xs = arrays("broadcast_arrays", *args)
    common = broadcast_shapes(*(x.shape for x in xs))
    return tuple(spread(x, common) for x in xs)


def atleast_1d(*arys: ArrayLike) -> Any:
    """With a rank of at least 1; several arrays give a tuple."""
    xs = [x if x.ndim else lax.reshape(x, (1,)) for x in arrays("atleast_1d", *arys)]
    return xs[0] if len(xs) == 1 else tuple(xs)


def atleast_2d(*arys: ArrayLike) -> Any:
    """With a rank of at least 2 (a vector becomes a row); several arrays give a tuple."""
    xs = [x if x.ndim >= 2 else lax.broadcast_to_rank(x, 2) for x in arrays("atleast_2d", *arys)]
    return xs[0] if len(xs) == 1 else tuple(xs)


def atleast_3d(*arys: ArrayLike) -> Any:
    """With a rank of at least 3 (a vector of n becomes (1, n, 1), a matrix gets a last axis); several arrays give a tuple."""
    xs = []
    for x in arrays("atleast_3d", *arys):
        if x.ndim == 2:
            x = lax.expand_dims(x, (2,))
        elif x.ndim == 1:
            x = lax.expand_dims(x, (0, 2))
        elif x.ndim == 0:
            x = lax.broadcast_to_rank(x, 3)
        xs.append(x)
    return xs[0] if len(xs) == 1 else tuple(xs)


# joining


def _sequence(fun: str, xs: Any) -> list[Any]:
    """The arrays to be joined: a sequence, or the rows of an array."""
    if isinstance(xs, ArrayImpl | Tracer | np.ndarray):
        a = as_array(fun, xs)
        if a.ndim == 0:
            raise ValueError(f"{fun}: a scalar is no sequence of arrays")
        return list(p.unstack_p(a, axis=0)) if a.shape[0] else []
    if not isinstance(xs, Sequence) or isinstance(xs, str):
        raise TypeError(f"{fun}: expected a sequence of arrays, got {type(xs)}")
    return list(xs)


def concatenate(arrays: Any, axis: int | None = 0, dtype: DTypeLike | None = None) -> Array:
    """Arrays one after the other along an axis (None: flattened first), in the dtype they promote to.

    >>> jnp.concatenate([jnp.arange(2), jnp.arange(3)])
    Array([0, 1, 0, 1, 2], dtype=int32)
    """
    return _concatenate("concatenate", arrays, axis, dtype)


def _concatenate(fun: str, operands: Any, axis: int | None, dtype: Any) -> Array:
    if isinstance(operands, ArrayImpl | Tracer | np.ndarray) and axis is not None:
        a = as_array(fun, operands)
        if a.ndim == 0:
            raise ValueError(f"{fun}: a scalar is no sequence of arrays")
        if a.ndim == 1:
            raise ValueError(f"{fun}: the rows of a vector are scalars, which have no axis to be joined along")
    xs = _sequence(fun, operands)
    if not xs:
        raise ValueError(f"{fun}: there are no arrays")
    d = check_dtype(dtype, fun)
    xs = promoted(fun, *xs)
    if d is not None:
        xs = [convert(x, d) for x in xs]
    if len(xs) > 1 or True:
        xs = [strong(x) if x.aval.dtype == dtypes.bool_ else x for x in xs]
    if axis is None:
        return lax.concatenate([lax.reshape(x, (x.size,)) for x in xs], 0)
    if all(x.ndim == 0 for x in xs):
        raise ValueError(f"{fun}: scalars have no axis to be joined along")
    if any(x.ndim != xs[0].ndim for x in xs):
        raise TypeError(f"{fun}: arrays must have equal numbers of axes, got shapes {', '.join(str(x.shape) for x in xs)}")
    return lax.concatenate(xs, canonical_axis(axis, xs[0].ndim))


def concat(arrays: Any, /, *, axis: int | None = 0) -> Array:
    """As `concatenate`."""
    return _concatenate("concat", arrays, axis, None)


def stack(arrays: Any, axis: int = 0, out: None = None, dtype: DTypeLike | None = None) -> Array:
    """Arrays of one shape along a new axis.

    >>> jnp.stack([jnp.arange(2), jnp.arange(2)])
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    no_out("stack", out)
    if isinstance(arrays, ArrayImpl | Tracer | np.ndarray) and axis == 0:
        x = as_array("stack", arrays)
        d = check_dtype(dtype, "stack")
        return x if d is None else convert(x, d)
    xs = _sequence("stack", arrays)
    if not xs:
        raise ValueError("stack: there are no arrays")
    d = check_dtype(dtype, "stack")
    xs = [strong(x) if x.aval.dtype == dtypes.bool_ else x for x in promoted("stack", *xs)]
    if d is not None:
        xs = [convert(x, d) for x in xs]
    if any(x.ndim != xs[0].ndim for x in xs):
        raise ValueError(f"stack: arrays must have one shape, got {', '.join(str(x.shape) for x in xs)}")
    if any(x.shape != xs[0].shape for x in xs):
        raise ValueError(f"stack: arrays must have one shape, got {', '.join(str(x.shape) for x in xs)}")
    return lax.stack(xs, canonical_axis(axis, xs[0].ndim + 1))


def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices along an axis, without it."""
    x = as_array("unstack", x)
    if x.ndim == 0:
        raise ValueError("unstack: a scalar has no axis to be taken apart")
    return lax.unstack(x, canonical_axis(axis, x.ndim))


def _stacked(fun: str, tup: Any, dtype: Any, shape_up: Callable[[Any], Any], axis: Callable[[Array], int]) -> Array:
    xs = [shape_up(x) for x in _sequence(fun, tup)]
    if not xs:
        raise ValueError(f"{fun}: there are no arrays")
    return _concatenate(fun, xs, axis(xs[0]), dtype)


def vstack(tup: Any, dtype: DTypeLike | None = None) -> Array:
    """Arrays one below the other: along the first axis, vectors being rows."""
    return _stacked("vstack", tup, dtype, atleast_2d, lambda x: 0)


def hstack(tup: Any, dtype: DTypeLike | None = None) -> Array:
    """Arrays side by side: along the second axis, vectors along their own."""
    return _stacked("hstack", tup, dtype, atleast_1d, lambda x: 0 if x.ndim == 1 else 1)


def dstack(tup: Any, dtype: DTypeLike | None = None) -> Array:
    """Arrays one behind the other: along the third axis."""
    return _stacked("dstack", tup, dtype, atleast_3d, lambda x: 2)


def column_stack(tup: Any) -> Array:
    """Vectors as the columns of a matrix; matrices side by side."""

    def column(x: Any) -> Array:
        x = as_array("column_stack", x)
        return x if x.ndim >= 2 else lax.reshape(x, (x.size, 1))

    return _stacked("column_stack", tup, None, column, lambda x: 1)


def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """The values after the array, along an axis or both flattened."""
    if axis is None:
        return _concatenate("append", [ravel(as_array("append", arr, 0)), ravel(as_array("append", values, 1))], 0, None)
    return _concatenate("append", [as_array("append", arr, 0), as_array("append", values, 1)], axis, None)


def block(arrays: Any) -> Array:
    """Nested lists of arrays as the blocks of one: the innermost along the last axis."""

    def build(xs: Any) -> tuple[Array, int]:
        if isinstance(xs, tuple):
            raise ValueError(f"block: blocks are nested in lists, got the tuple {xs}")
        if isinstance(xs, list):
            if not xs:
                raise ValueError("block: a list of blocks must not be empty")
            parts = [build(x) for x in xs]
            depth = parts[0][1]
            if any(d != depth for _, d in parts):
                raise ValueError("block: lists of blocks must be nested to equal depths")
            rank = builtin_max(depth + 1, *(x.ndim for x, _ in parts))
            blocks = [lax.broadcast_to_rank(x, rank) for x, _ in parts]
            return _concatenate("block", blocks, -(depth + 1), None), depth + 1
        return atleast_1d(as_array("block", xs)) if not hasattr(xs, "aval") or xs.ndim == 0 else xs, 0

    out, depth = build(arrays)
    return out if depth else as_array("block", arrays)


builtin_max = max


# splitting


def _split(fun: str, ary: ArrayLike, indices_or_sections: Any, axis: int, equal: bool) -> list[Array]:
    x = as_array(fun, ary)
    if not -x.ndim <= operator.index(axis) < x.ndim:
        raise IndexError(f"{fun}: axis {axis} is out of bounds for an array of shape {x.shape}")
    k = canonical_axis(axis, x.ndim)
    n = x.shape[k]
    if isinstance(indices_or_sections, list | tuple) or getattr(indices_or_sections, "ndim", 0):
        unknown = isinstance(indices_or_sections, list | tuple) and any(isinstance(c, UnknownSize) for c in indices_or_sections)
        cuts = [size_of(c) for c in (indices_or_sections if unknown else static(fun, indices_or_sections, "indices").tolist())]
        ends = [max_size(0, c + n) if c < 0 else min_size(c, n) for c in cuts]
        bounds = [0, *ends, n]
        return [lax.slice_in_dim(x, a, max_size(a, b), axis=k) for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
    sections = int(static(fun, indices_or_sections, "indices_or_sections"))
    part, rest = builtin_divmod(n, sections)
    if isinstance(rest, UnknownSize) or (rest and equal):
        raise ValueError(f"{fun}: an axis of size {n} does not fall into {sections} equal parts")
    sizes = [part + 1] * rest + [part] * (sections - rest)
    return list(p.split_p(x, sizes=tuple(sizes), axis=k))


builtin_divmod = divmod


def split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Equal pieces along an axis (so many), or pieces between positions. ValueError if it does not come out even.

    >>> jnp.split(jnp.arange(4), 2)
    [Array([0, 1], dtype=int32), Array([2, 3], dtype=int32)]
    """
    return _split("split", ary, indices_or_sections, axis, True)


def array_split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """As `split`; where it does not come out even the first pieces are longer by one."""
    return _split("array_split", ary, indices_or_sections, axis, False)


def vsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """`split` along the first axis."""
    return _split("vsplit", ary, indices_or_sections, 0, True)


def hsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """`split` along the second axis, or the only one."""
    x = as_array("hsplit", ary)
    return _split("hsplit", x, indices_or_sections, 0 if x.ndim == 1 else 1, True)


def dsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """`split` along the third axis."""
    return _split("dsplit", ary, indices_or_sections, 2, True)


# repeating, rolling, flipping


def tile(A: ArrayLike, reps: Any) -> Array:
    """Copies of the array side by side, `reps` for each axis (the last ones, if there are fewer).

    >>> jnp.tile(jnp.array([1, 2]), 2)
    Array([1, 2, 1, 2], dtype=int32)
    """
    x = as_array("tile", A)
    counts = (size_of(reps),) if not hasattr(reps, "__iter__") else tuple(map(size_of, reps))
    rank = builtin_max(x.ndim, len(counts))
    counts = (1,) * (rank - len(counts)) + counts
    x = lax.broadcast_to_rank(x, rank)
    return lax.tile(x, counts) if rank else x


def repeat(
    a: ArrayLike, repeats: ArrayLike, axis: int | None = None, *, total_repeat_length: int | None = None, out_sharding: Any = None
) -> Array:
    """Each element along an axis `repeats` times (a number, or one for each). Traced repeats need `total_repeat_length`, which cuts or
    fills up.

    >>> jnp.repeat(jnp.array([1, 2]), 2)
    Array([1, 1, 2, 2], dtype=int32)
    """
    x = as_array("repeat", a)
    if axis is None:
        x = lax.reshape(x, (x.size,))
        axis = 0
    k = canonical_axis(axis, x.ndim) if x.ndim else 0
    if not x.ndim:
        x = lax.reshape(x, (1,))
    n = x.shape[k]
    if isinstance(repeats, int | np.integer | UnknownSize) and total_repeat_length is None:
        times = size_of(repeats)
        if times < 0:
            raise TypeError(f"repeat: repeats must not be negative, got {times}")
        shape = (*x.shape[: k + 1], times, *x.shape[k + 1 :])
        wide = lax.broadcast_in_dim(x, shape, [j for j in range(len(shape)) if j != k + 1])
        return lax.reshape(wide, (*x.shape[:k], n * times, *x.shape[k + 1 :]))
    counts = as_array("repeat", repeats, 1)
    if counts.ndim > 1 or (counts.ndim == 1 and counts.shape[0] not in (1, n)):
        raise ValueError(f"repeat: repeats must be a scalar or have one entry for each of the {n} positions, got shape {counts.shape}")
    if total_repeat_length is None:
        host = static("repeat", counts, "repeats")
        if np.any(host < 0):
            raise ValueError("repeat: repeats must not be negative")
        positions = np.repeat(np.arange(n), np.broadcast_to(host, (n,)))
        if not positions.size:
            return lax.full((*x.shape[:k], 0, *x.shape[k + 1 :]), 0, x.aval.dtype)
        return _take(x, from_host(positions.astype(dtypes.default_int())), k)
    total = size_of(total_repeat_length)
    if total == 0 or n == 0:
        return lax.full((*x.shape[:k], total if n else 0, *x.shape[k + 1 :]), 0, x.aval.dtype)
    counts = spread(counts, (n,))
    # marks where each position's run begins; their running sum says which run an output belongs to
    counts = convert(counts, dtypes.int32)
    ends = p.cumsum_p(counts, axis=0, reverse=False)
    starts = p.sub_p(ends, counts)
    marks = lax.scatter_add(
        lax.full((total,), 0, dtypes.int32),
        lax.reshape(starts, (n, 1)),
        lax.full((n,), 1, dtypes.int32),
        lax.ScatterDimensionNumbers((), (0,), (0,)),
    )
    positions = p.sub_p(p.cumsum_p(marks, axis=0, reverse=False), e.const(1, dtypes.int32))
    return _take(x, positions, k)


def _take(x: Array, positions: Array, axis: int) -> Array:
    """Slices along an axis at a vector of positions, which are in bounds (or clipped)."""
    n = positions.shape[0]
    sizes = tuple(1 if j == axis else m for j, m in enumerate(x.shape))
    numbers = lax.GatherDimensionNumbers(tuple(j for j in range(x.ndim) if j != axis), (axis,), (axis,))
    return lax.gather(x, lax.reshape(positions, (n, 1)), numbers, sizes, mode="clip")


def roll(a: ArrayLike, shift: ArrayLike, axis: int | Sequence[int] | None = None) -> Array:
    """Elements moved along axes, those that leave at one end coming in at the other; shifts may be traced.

    >>> jnp.roll(jnp.arange(4), 1)
    Array([3, 0, 1, 2], dtype=int32)
    """
    x = as_array("roll", a)
    if axis is None:
        return lax.reshape(roll(lax.reshape(x, (x.size,)), shift, 0), x.shape)
    axes = canonical_axes_repeated(axis, x.ndim)
    shifts: list[Any]
    if isinstance(shift, Sequence):
        shifts = list(shift)
    else:
        s = as_array("roll", shift, 1)
        if s.ndim > 1:
            raise ValueError(f"roll: shift must be a scalar or a vector, got shape {s.shape}")
        shifts = [s] if s.ndim == 0 else list(p.unstack_p(s, axis=0))
    if len(shifts) == 1:
        shifts *= len(axes)
    if len(axes) == 1 and len(shifts) > 1:
        axes *= len(shifts)
    if len(shifts) != len(axes):
        raise ValueError(f"roll: shift and axis must have equal lengths, got {len(shifts)} and {len(axes)}")
    for k, s in zip(axes, shifts, strict=True):
        n = x.shape[k]
        if n == 0:
            continue
        if isinstance(s, Tracer) and s.to_concrete_value() is None:
            start = e.remainder(e.negative(s), n)
            x = lax.dynamic_slice_in_dim(lax.concatenate([x, x], k), start, n, k, allow_negative_indices=False)
            continue
        step = int(np.asarray(s)) % n
        if step:
            x = lax.concatenate([lax.slice_in_dim(x, n - step, n, axis=k), lax.slice_in_dim(x, 0, n - step, axis=k)], k)
    return x


def canonical_axes_repeated(axis: Any, ndim: int) -> list[int]:
    """Axes that may come more than once."""
    given = (axis,) if isinstance(axis, int | np.integer) else tuple(axis)
    return [canonical_axis(k, ndim) for k in given]


def flip(m: ArrayLike, axis: int | Sequence[int] | None = None) -> Array:
    """The order along axes (all by default) reversed.

    >>> jnp.flip(jnp.arange(3))
    Array([2, 1, 0], dtype=int32)
    """
    x = as_array("flip", m)
    return lax.rev(x, canonical_axes(axis, x.ndim))


def fliplr(m: ArrayLike) -> Array:
    """The order along the second axis reversed."""
    return flip(as_array("fliplr", m), 1)


def flipud(m: ArrayLike) -> Array:
    """The order along the first axis reversed."""
    return flip(as_array("flipud", m), 0)


def rot90(m: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """Rotated k times by 90 degrees, from the first of two axes to the second."""
    x = as_array("rot90", m)
    if x.ndim < 2:
        raise ValueError(f"rot90: expected at least two axes, got shape {x.shape}")
    a, b = (canonical_axis(j, x.ndim) for j in axes)
    if a == b:
        raise ValueError(f"rot90: the two axes must differ, got {axes}")
    k = operator.index(k) % 4
    if k == 0:
        return x
    if k == 2:
        return lax.rev(x, (a, b))
    order = list(range(x.ndim))
    order[a], order[b] = order[b], order[a]
    return lax.transpose(lax.rev(x, (b,)), order) if k == 1 else lax.rev(lax.transpose(x, order), (b,))


def resize(a: ArrayLike, new_shape: Any) -> Array:
    """The elements, repeated as often as needed, in a new shape."""
    x = ravel(as_array("resize", a))
    shape = check_shape(new_shape)
    n = math.prod(shape)
    if x.size == 0 or n == 0:
        return lax.full(shape, 0, x.aval.dtype)
    times = -(-n // x.size)
    return lax.reshape(lax.slice_in_dim(lax.tile(x, (times,)), 0, n), shape)


def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: Any = None) -> Array:
    """Without the zeros in front ("f") and at the back ("b"). The array must be known while tracing, since it makes the shape."""
    host = static("trim_zeros", as_array("trim_zeros", filt), "filt")
    axes = canonical_axes(axis, host.ndim)
    nonzero = np.nonzero(host)
    x = as_array("trim_zeros", filt)
    for k in axes:
        n = host.shape[k]
        if nonzero[0].size == 0:
            x = lax.slice_in_dim(x, 0, 0, axis=k)
            continue
        first = int(nonzero[k].min()) if "f" in trim.lower() else 0
        last = int(nonzero[k].max()) + 1 if "b" in trim.lower() else n
        x = lax.slice_in_dim(x, first, last, axis=k)
    return x


# triangles and diagonals


def tril(m: ArrayLike, k: int = 0) -> Array:
    """The part on and below the k-th diagonal, zeros above."""
    x = as_array("tril", m)
    if x.ndim < 2:
        raise ValueError(f"tril: expected at least two axes, got shape {x.shape}")
    mask = diagonal_mask(x.shape[-2:], k, lax.ge)
    return e.where(spread(mask, x.shape), x, e.const(0, x.aval.dtype))


def triu(m: ArrayLike, k: int = 0) -> Array:
    """The part on and above the k-th diagonal, zeros below."""
    x = as_array("triu", m)
    if x.ndim < 2:
        raise ValueError(f"triu: expected at least two axes, got shape {x.shape}")
    mask = diagonal_mask(x.shape[-2:], k - 1, lax.ge)
    return e.where(spread(mask, x.shape), e.const(0, x.aval.dtype), x)


def diagonal(a: ArrayLike, offset: Any = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The elements with equal positions along two axes (the second one's less `offset`), in a new last axis."""
    x = as_array("diagonal", a)
    if x.ndim < 2:
        raise ValueError(f"diagonal: expected at least two axes, got shape {x.shape}")
    offset = operator.index(offset)
    i, j = canonical_axis(axis1, x.ndim), canonical_axis(axis2, x.ndim)
    if i == j:
        raise ValueError(f"diagonal: axis1 and axis2 can not be same, got {axis1} and {axis2}")
    x = moveaxis(x, (i, j), (-2, -1))
    rows, columns = x.shape[-2:]
    n = max_size(0, min_size(rows + min_size(offset, 0), columns - max_size(offset, 0)))
    lead = x.shape[:-2]
    if n == 0:
        return lax.full((*lead, 0), 0, x.aval.dtype)
    # element t of the diagonal has position first + t * (columns + 1) in the flattened matrix: a strided slice
    flat = lax.reshape(x, (*lead, rows * columns))
    first = offset if offset >= 0 else -offset * columns
    rank = len(lead)
    return lax.slice(flat, (0,) * rank + (first,), (*lead, first + (n - 1) * (columns + 1) + 1), (1,) * rank + (columns + 1,))


def diag(v: ArrayLike, k: int = 0) -> Array:
    """A vector on the k-th diagonal of a matrix of zeros, or the k-th diagonal of a matrix."""
    x = as_array("diag", v)
    k = operator.index(k)
    if x.ndim == 1:
        n = x.shape[0] + abs(k)
        x = strong(x) if x.aval.dtype == dtypes.bool_ else x
        padded = lax.pad(x, e.const(0, x.aval.dtype), ((builtin_max(0, k), builtin_max(0, -k), 0),))
        mask = diagonal_mask((n, n), k, lax.eq)
        return e.where(mask, lax.broadcast_in_dim(padded, (n, n), (1,)), e.const(0, x.aval.dtype))
    if x.ndim == 2:
        return diagonal(x, offset=k)
    raise ValueError(f"diag: expected a vector or a matrix, got shape {x.shape}")


def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """The flattened array on the k-th diagonal of a matrix of zeros."""
    return diag(ravel(as_array("diagflat", v)), k)


def fill_diagonal(a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = True) -> Array:
    """The array with its main diagonal replaced. `inplace` must be false: arrays are immutable."""
    if inplace:
        raise NotImplementedError("fill_diagonal: inplace must be False, since arrays are immutable")
    if wrap:
        raise NotImplementedError("fill_diagonal: wrap=True is not implemented")
    x, values = as_array("fill_diagonal", a, 0), as_array("fill_diagonal", val, 1)
    if x.ndim < 2:
        raise ValueError(f"fill_diagonal: expected at least two axes, got shape {x.shape}")
    if x.ndim > 2 and any(n != x.shape[0] for n in x.shape):
        raise ValueError(f"fill_diagonal: all axes must have one size, got shape {x.shape}")
    n = min_size(*x.shape)
    values = convert(values, x.aval.dtype)
    if values.ndim == 0:
        values = spread(values, (n,))
    else:
        values = lax.reshape(values, (values.size,))
        if values.size < n:
            values = lax.tile(values, (-(-n // values.size),))
        values = lax.slice_in_dim(values, 0, n)
    at = arange(n)
    index = lax.stack([at] * x.ndim, 1)
    every = tuple(range(x.ndim))
    return lax.scatter(x, index, values, lax.ScatterDimensionNumbers((), every, every), unique_indices=True, indices_are_sorted=True)


def trace(a: ArrayLike, offset: Any = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None, out: None = None) -> Array:
    """The sum along a diagonal."""
    no_out("trace", out)
    x = as_array("trace", a)
    if x.ndim < 2:
        raise ValueError(f"trace: expected at least two axes, got shape {x.shape}")
    d = check_dtype(dtype, "trace")
    if d is None:
        d = x.aval.dtype
        default = dtypes.default_int()
        if dtypes.kind(d) in "bi" and dtypes.itemsize_bits(d) < default.itemsize * 8:
            d = default
        elif dtypes.kind(d) == "u" and dtypes.itemsize_bits(d) < default.itemsize * 8:
            d = np.dtype(f"uint{default.itemsize * 8}")
    diagonal_ = convert(diagonal(x, offset, axis1, axis2), d)
    return lax.reduce_sum(diagonal_, (diagonal_.ndim - 1,)) if d != dtypes.bool_ else lax.reduce_or(diagonal_, (diagonal_.ndim - 1,))


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """The indices of the main diagonal of an array of `ndim` axes of size n."""
    n, rank = operator.index(n), operator.index(ndim)
    if n < 0:
        raise ValueError(f"diag_indices: n must not be negative, got {n}")
    if rank < 0:
        raise ValueError(f"diag_indices: ndim must not be negative, got {rank}")
    return (arange(n),) * rank


def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """The indices of the main diagonal of an array."""
    x = as_array("diag_indices_from", arr)
    if x.ndim < 2:
        raise ValueError(f"diag_indices_from: expected at least two axes, got shape {x.shape}")
    if any(n != x.shape[0] for n in x.shape):
        raise ValueError(f"diag_indices_from: all axes must have one size, got shape {x.shape}")
    return diag_indices(x.shape[0], ndim=x.ndim)


def _triangle(mask: np.ndarray) -> tuple[Array, Array]:
    rows, columns = np.nonzero(mask)
    d = dtypes.default_int()
    return from_host(rows.astype(d)), from_host(columns.astype(d))


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """The indices on and below the k-th diagonal of n rows and m (else n) columns."""
    return _triangle(np.tri(n, n if m is None else m, k, dtype=bool))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """The indices on and above the k-th diagonal of n rows and m (else n) columns."""
    return _triangle(~np.tri(n, n if m is None else m, k - 1, dtype=bool))


def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """`tril_indices` for a matrix's shape."""
    if ndim(arr) != 2:
        raise ValueError(f"tril_indices_from: expected a matrix, got shape {shape(arr)}")
    rows, columns = shape(arr)
    return tril_indices(rows, k, columns)


def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """`triu_indices` for a matrix's shape."""
    if ndim(arr) != 2:
        raise ValueError(f"triu_indices_from: expected a matrix, got shape {shape(arr)}")
    rows, columns = shape(arr)
    return triu_indices(rows, k, columns)


def mask_indices(n: int, mask_func: Callable[..., Any], k: int = 0, *, size: int | None = None) -> tuple[Array, ...]:
    """The indices where `mask_func(ones, k)` is not 0."""
    mask = static("mask_indices", mask_func(lax.full((n, n), 1, dtypes.default_int()), k), "mask")
    rows, columns = np.nonzero(mask)
    if size is not None:
        keep_ = slice(0, size)
        pad_ = builtin_max(0, size - len(rows))
        rows, columns = (np.pad(v[keep_], (0, pad_)) for v in (rows, columns))
    d = dtypes.default_int()
    return from_host(rows.astype(d)), from_host(columns.astype(d))
