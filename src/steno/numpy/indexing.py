"""NumPy's indexing. An index is parsed into tokens, one for each axis of the result or of the array:

    New                       a new axis (None, True), or one of size 0 (False); bools beside index arrays broadcast with them instead
    Slice(start, size, step)  positions start, start + step, ... known while tracing
    Point(i)                  one known position, in bounds or not
    Scalar(i)                 one position as an integer scalar array
    Vector(i)                 an integer array of positions, concrete (NumPy) or not; a boolean mask becomes one for each of its axes

Reading: known parts are slices, scalars a dynamic_slice, arrays one gather. Writing (`at.py`) makes one scatter of all of them.
Negative positions count from the end. Positions out of bounds are clamped when read, unless `mode` says otherwise."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from steno import lax
from steno.core import dtypes
from steno.core.aval import TypedScalar, scalar_aval
from steno.core.config import config
from steno.core.errors import NonConcreteBooleanIndexError
from steno.core.record import record
from steno.core.sizes import UnknownSize, extent, max_size, size_of, slice_bounds, slice_length, surely
from steno.core.trace import JitTracer
from steno.lax import records as p
from steno.numpy import elementwise as e
from steno.numpy.operands import Array, ArrayImpl, Shape, Tracer, as_array, broadcast_shapes, broadcast_to, convert, from_host


@final
@record(slots=True, eq=False)
class New:
    size: int


@final
@record(slots=True, eq=False)
class Slice:
    axis: int
    start: int
    size: int
    step: int
    limit: int | None = None
    """The bound itself of a slice forwards, where sizes are unknown: how many positions it leaves is written otherwise then."""


@final
@record(slots=True, eq=False)
class Point:
    axis: int
    index: int


@final
@record(slots=True, eq=False)
class Scalar:
    axis: int
    index: Any


@final
@record(slots=True, eq=False)
class Vector:
    axis: int
    index: Any


@final
@record(slots=True, eq=False)
class Flag:
    """A bool in an index, while it is parsed: an index array without an axis, of one position or none."""

    value: bool


Token = New | Slice | Point | Scalar | Vector


def parse(shape: Shape, idx: Any, wrap: bool = True) -> tuple[list[Token], int]:
    """The tokens of an index, and where among them the axes of index arrays go in the result: where the advanced tokens stand, if they
    stand together (an ellipsis separates them even if it stands for no axis), else in front.

    IndexError, TypeError or ValueError for what JAX does not accept. `wrap`: negative positions count from the end."""
    if isinstance(idx, list):
        nested = any(x is None or x is Ellipsis or isinstance(x, slice | Sequence | np.ndarray | ArrayImpl | Tracer) for x in idx)
        raise TypeError(
            "Using a non-tuple sequence for multidimensional indexing is not allowed; use "
            f"`arr[{'tuple' if nested else 'array'}(seq)]` instead of `arr[seq]`."
        )
    items = list(idx) if isinstance(idx, tuple) else [idx]
    items = [_normal(x, k) for k, x in enumerate(items)]
    used = sum(_axes_of(x) for x in items)
    ellipses = sum(x is Ellipsis for x in items)
    if ellipses > 1:
        raise IndexError("an index can hold one ellipsis, got more")
    if used > len(shape):
        raise IndexError(f"Too many indices: array is {len(shape)}-dimensional, but {used} were indexed")
    fill = [slice(None)] * (len(shape) - used)
    if ellipses:
        at = next(k for k, x in enumerate(items) if x is Ellipsis)
        items[at : at + 1] = fill
    else:
        items += fill
    out: list[Any] = []
    axis = 0
    empty = at if ellipses and not fill else None  # before this item stood an ellipsis for no axis
    gap = None
    for k, x in enumerate(items):
        if k == empty:
            gap = len(out)
        if x is None:
            out.append(New(1))
            continue
        if x is True or x is False:
            out.append(Flag(x))
            continue
        if isinstance(x, slice):
            out.append(_slice(x, axis, shape[axis], k))
        elif isinstance(x, int):
            out.append(_point(x, axis, shape[axis], wrap))
        elif x.dtype == bool or x.dtype == dtypes.bool_:
            out += _mask(x, axis, shape, k)
            axis += x.ndim
            continue
        elif x.ndim == 0:
            out.append(Scalar(axis, wrapped(x, shape[axis], wrap)))
        else:
            out.append(Vector(axis, wrapped(x, shape[axis], wrap)))
        axis += 1
    places = [k for k, t in enumerate(out) if is_advanced(t) or isinstance(t, Flag)]
    if not places:
        return out, 0
    together = places[-1] - places[0] + 1 == len(places) and not (gap is not None and places[0] < gap <= places[-1])
    first = places[0] if together else 0
    return _with_flags(out, first), first


def _with_flags(items: list[Any], first: int) -> list[Token]:
    """The tokens without the flags: together these are one more index array, of shape (1,) or (0,), that takes no axis."""
    flags = [t.value for t in items if isinstance(t, Flag)]
    if not flags:
        return items
    n = int(all(flags))
    out: list[Token] = [t for t in items if not isinstance(t, Flag)]
    k = next((k for k, t in enumerate(out) if is_advanced(t)), None)
    if k is None:
        out.insert(first, New(n))
        return out
    t: Any = out[k]
    index = np.asarray(t.index) if isinstance(t, Point) else t.index
    shape = broadcast_shapes(index.shape, (n,))
    if isinstance(index, np.ndarray):
        out[k] = Vector(t.axis, np.broadcast_to(index, shape))
    else:
        out[k] = Vector(t.axis, broadcast_to(index, shape))
    return out


def _normal(x: Any, position: int) -> Any:
    """An item of an index as None, Ellipsis, a bool, an int, a slice, an ndarray or an array."""
    if x is None or x is Ellipsis or isinstance(x, bool | slice):
        return x
    if isinstance(x, int):
        return x
    if isinstance(x, np.bool_):
        return bool(x)
    if isinstance(x, np.integer):
        return int(x)
    if _by_size(x):
        return x.as_slice()
    if isinstance(x, str):
        raise TypeError(f"JAX does not support string indexing, got {x!r}")
    method = getattr(type(x), "__jax_array__", None)
    if method is not None and not isinstance(x, ArrayImpl | Tracer):
        x = method(x)
    if isinstance(x, ArrayImpl):
        if x.dtype == dtypes.bool_:
            x = np.asarray(x)
    elif isinstance(x, Tracer):
        known = x.to_concrete_value()
        if x.aval.dtype == dtypes.bool_:
            if known is None:
                raise NonConcreteBooleanIndexError(x)
            x = np.asarray(known)
    elif isinstance(x, Sequence | np.ndarray):
        if isinstance(x, Sequence):
            flat = np.asarray([isinstance(v, Tracer) for v in _leaves(x)])
            x = _traced_sequence(x) if flat.any() else np.asarray(x, dtypes.default_int() if len(x) == 0 else None)
    elif hasattr(x, "__index__"):
        return operator.index(x)
    else:
        x = np.asarray(x)
    dtype = x.aval.dtype if hasattr(x, "aval") else x.dtype
    if not dtypes.is_valid(dtype) or dtypes.kind(dtype) not in "biu":
        raise TypeError(f"Indexer must have integer or boolean type, got indexer with type {dtype} at position {position}: {x!r}")
    if isinstance(x, np.ndarray) and x.ndim == 0:
        return bool(x) if dtype == dtypes.bool_ else int(x)
    return x


def _leaves(x: Any) -> list[Any]:
    return [v for y in x for v in _leaves(y)] if isinstance(x, list | tuple) else [x]


def _traced_sequence(x: Any) -> Array:
    if isinstance(x, list | tuple):
        return lax.stack([_traced_sequence(y) for y in x])
    return convert(x, dtypes.default_int()) if isinstance(x, int) else x


def _axes_of(x: Any) -> int:
    """How many axes of the array an item takes."""
    if x is None or x is Ellipsis or isinstance(x, bool):
        return 0
    if isinstance(x, np.ndarray) and x.dtype == bool:
        return x.ndim
    return 1


def _slice(s: slice, axis: int, n: int, position: int) -> Slice:
    parts = (s.start, s.stop, s.step)
    if parts == (None, None, None):
        return Slice(axis, 0, n, 1)
    if any(isinstance(v, Tracer) and v.to_concrete_value() is None for v in parts):
        traced = next(v for v in parts if isinstance(v, Tracer))
        raise IndexError(
            f"Array slice indices must have static start/stop/step, got {s} at position {position}: sizes must not depend on values. "
            "What to write instead: x[jax.ds(start, size)], lax.dynamic_slice(x, starts, sizes), or lax.dynamic_update_slice to write.\n"
            f"{traced._origin()}"
        )
    try:
        start, stop, step = slice(*(None if v is None else operator.index(v) for v in parts)).indices(n)
    except TypeError:
        if any(isinstance(v, UnknownSize) for v in (*parts, n)):
            return _slice_of_unknown(s, axis, n)
        raise
    size = len(range(start, stop, step))
    return Slice(axis, start if size else 0, size, step if size > 1 else 1)


def _slice_of_unknown(s: slice, axis: int, n: Any) -> Slice:
    start, stop, step = slice_bounds(s, n)
    return Slice(axis, start, slice_length(start, stop, step), step, max_size(start, stop) if step > 0 else None)


def _within(i: Any, n: Any) -> bool:
    """Whether a position is known to be on an axis."""
    return 0 <= i < n if type(n) is int and type(i) is int else surely(lambda: 0 <= i < n)


def _point(i: int, axis: int, n: int, wrap: bool) -> Point:
    if n == 0 or (config._state.check_static_indices and not surely(lambda: -n <= i < n)):
        raise _out_of_bounds(i, axis, n)
    return Point(axis, i + n if i < 0 and wrap else i)


def _out_of_bounds(i: Any, axis: int, n: int) -> IndexError:
    return IndexError(f"index {i} out of bounds for axis {axis} with size {n}")


def _mask(mask: np.ndarray, axis: int, shape: Shape, position: int) -> list[Token]:
    sizes = shape[axis : axis + mask.ndim]
    if any(m not in (0, n) for m, n in zip(mask.shape, sizes, strict=True)):  # a mask without elements selects nothing
        raise IndexError(
            f"boolean index did not match shape {shape[axis : axis + mask.ndim]} of the axes it stands for, got {mask.shape} at position "
            f"{position}"
        )
    return [Vector(axis + k, v.astype(np.int32)) for k, v in enumerate(np.nonzero(mask))]


def wrapped(i: Any, n: int, wrap: bool) -> Any:
    """Positions as int32 (int64 where an axis is that long), negative ones plus n."""
    if isinstance(n, UnknownSize):
        return _wrapped_unknown(from_host(i) if isinstance(i, np.ndarray) else i, n, wrap)
    wide = dtypes.int64 if n > 2**31 - 1 else dtypes.int32
    if isinstance(i, np.ndarray):
        v = np.minimum(i, 2**63 - 1).astype(np.int64) if i.dtype.itemsize == 8 and i.dtype.kind == "u" else i.astype(np.int64)
        v = np.where(v < 0, v + n, v) if wrap else v
        return np.clip(v, -(2**31), 2**31 - 1).astype(np.int32) if wide == dtypes.int32 else v
    d = i.aval.dtype
    if dtypes.kind(d) == "u":
        if dtypes.itemsize_bits(d) >= 32:
            i = p.min_p(i, e.const(2**31 - 1, d)) if n <= 2**31 - 1 else i
        return convert(i, wide)
    i = convert(i, d if dtypes.itemsize_bits(d) > 32 else wide)
    if not wrap:
        return i
    d = i.aval.dtype
    return p.select_n_p(p.lt_p(i, e.const(0, d)), i, p.add_p(i, TypedScalar(d.type(n), scalar_aval(d))))


def _wrapped_unknown(i: Any, n: UnknownSize, wrap: bool) -> Any:
    """As `wrapped`, for an axis whose size is not known."""
    i = convert(i, i.aval.dtype if dtypes.itemsize_bits(i.aval.dtype) > 32 else dtypes.int32)
    d = i.aval.dtype
    if not wrap or dtypes.kind(d) == "u":
        return convert(i, dtypes.int32)
    return p.select_n_p(p.lt_p(i, e.const(0, d)), i, p.add_p(i, convert(as_array("an index", n), d)))


def is_advanced(t: Token) -> bool:
    return isinstance(t, Point | Scalar | Vector)


def batch_shape(tokens: Sequence[Token]) -> Shape:
    """The common shape of the index arrays. ValueError if they have none."""
    return broadcast_shapes(*(t.index.shape for t in tokens if isinstance(t, Vector)))


def _by_size(x: Any) -> bool:
    """Whether an item of an index was made by `ds`, whose module few programs import."""
    return type(x).__module__ == "steno.numpy.dslice"


def moving(idx: Any) -> bool:
    """Whether an index has a `ds` of a start that is an array."""
    return any(_by_size(v) and v.is_dynamic_start for v in (idx if isinstance(idx, tuple) else (idx,)))


def pieces(shape: Shape, idx: Any) -> tuple[list[Any], list[int], tuple[Any, ...]]:
    """An index with a `moving` part taken apart: the starts and sizes of a piece of the array, and the index to go on with in there."""
    items = list(idx) if isinstance(idx, tuple) else [idx]
    takes = [_axes_of(x if _by_size(x) else _normal(x, k)) for k, x in enumerate(items)]
    dots = next((k for k, x in enumerate(items) if x is Ellipsis), len(items))
    starts: list[Any] = [0] * len(shape)
    sizes = list(shape)
    for k, x in enumerate(items):
        if _by_size(x) and x.is_dynamic_start:
            axis = sum(takes[:k]) if k < dots else len(shape) - sum(takes[k:])
            if not 0 <= axis < len(shape):
                raise IndexError(f"Too many indices: array is {len(shape)}-dimensional, but {sum(takes)} were indexed")
            starts[axis], sizes[axis] = x.start, size_of(x.size)
            items[k] = slice(None, None, x.stride)
    return starts, sizes, tuple(items)


def getitem(
    x: Array,
    idx: Any,
    *,
    mode: Any = None,
    fill_value: Any = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    wrap_negative_indices: bool = True,
) -> Array:
    """`x[idx]`. `mode`: what is read at positions out of bounds: "fill" (`fill_value`, NaN or the extreme integer by default), "clip"
    (default)."""
    shape = x.aval.shape
    if shape and mode is None and wrap_negative_indices:  # the commonest indices
        if type(idx) is int:
            return _row(x, idx, shape)
        if (type(idx) is JitTracer or type(idx) is ArrayImpl) and not idx.aval.shape and idx.aval.dtype == dtypes.int32:
            return p.squeeze_p(_dynamic_part(x, [Scalar(0, wrapped(idx, shape[0], True))]), dimensions=(0,))
    if moving(idx):
        starts, sizes, idx = pieces(shape, idx)
        x = lax.dynamic_slice(x, starts, sizes)
        shape = x.aval.shape
    tokens, position = parse(shape, idx, wrap_negative_indices)
    m = lax.GatherScatterMode.PROMISE_IN_BOUNDS if mode is None else lax.GatherScatterMode.from_any(mode)
    filling = m is lax.GatherScatterMode.FILL_OR_DROP
    many = any(isinstance(t, Vector) for t in tokens)
    # positions out of bounds are for the ops to clamp or fill, and for those who check programs to see
    for k, t in enumerate(tokens):
        if isinstance(t, Point) and not _within(t.index, shape[t.axis]):
            tokens[k] = _outside(t)
    x = _static_part(x, tokens)
    gathered = [t for t in tokens if isinstance(t, Vector) or (filling and isinstance(t, Scalar))]
    scalars = [t for t in tokens if isinstance(t, Scalar) and t not in gathered] if not filling else []
    if scalars:
        x = _dynamic_part(x, scalars)
    if not gathered:
        dropped = tuple(t.axis for t in tokens if is_advanced(t))
        if dropped:
            x = p.squeeze_p(x, dimensions=dropped)
        return _new_axes(x, [t for t in tokens if not is_advanced(t)])
    batch = batch_shape(tokens)
    window = [t for t in tokens if isinstance(t, Slice)]
    before = sum(isinstance(t, Slice) for t in tokens[:position])
    places = [*range(before), *range(before + len(batch), len(window) + len(batch))]
    if 0 in batch:  # nothing of what may be an empty array, of which a gather has no element
        sizes = dict(zip(places, (x.aval.shape[t.axis] for t in window), strict=True))
        others = iter(batch)
        x = lax.slice_in_dim(x, 0, 0, axis=gathered[0].axis)
        out = lax.reshape(x, tuple(sizes[k] if k in sizes else next(others) for k in range(len(window) + len(batch))))
    else:
        out = p.gather_p(
            x,
            index_vectors([(t.axis, t.index) for t in gathered], batch),
            dimension_numbers=lax.GatherDimensionNumbers(
                tuple(places), tuple(sorted(t.axis for t in tokens if is_advanced(t))), tuple(t.axis for t in gathered)
            ),
            slice_sizes=tuple(1 if k not in {t.axis for t in window} else n for k, n in enumerate(x.aval.shape)),
            indices_are_sorted=bool(indices_are_sorted) or not many,
            unique_indices=bool(unique_indices) or not many,
            mode=m,
            fill_value=fill_value if filling else None,
        )
    rest: list[Any] = [t for t in tokens if not is_advanced(t)]
    at = sum(not is_advanced(t) for t in tokens[:position])
    return _new_axes(out, [*rest[:at], *batch, *rest[at:]])


def _row(x: Array, i: int, shape: Shape) -> Array:
    n = shape[0]
    if n == 0 or (config._state.check_static_indices and not surely(lambda: -n <= i < n)):
        raise _out_of_bounds(i, 0, n)
    i = i + n if i < 0 else i
    if not _within(i, n):
        return p.squeeze_p(_dynamic_part(x, [_outside(Point(0, i))]), dimensions=(0,))
    rest = len(shape) - 1
    out = p.slice_p(x, start_indices=(i,) + (0,) * rest, limit_indices=(i + 1, *shape[1:]), strides=None)
    return p.squeeze_p(out, dimensions=(0,))


def _outside(t: Point) -> Scalar:
    if isinstance(t.index, UnknownSize):
        return Scalar(t.axis, convert(as_array("an index", t.index), dtypes.int32))
    return Scalar(t.axis, TypedScalar(np.int32(min(max(t.index, -(2**31)), 2**31 - 1)), scalar_aval(dtypes.int32)))


def _static_part(x: Array, tokens: Sequence[Token]) -> Array:
    """Slices and known positions applied; the axes of the latter stay, of size 1."""
    shape = x.aval.shape
    start, limit, steps, backwards = [0] * len(shape), list(shape), [1] * len(shape), []
    for t in tokens:
        if isinstance(t, Point):
            start[t.axis], limit[t.axis] = t.index, t.index + 1
        elif isinstance(t, Slice):
            k = t.axis
            if t.size == 0:
                start[k] = limit[k] = 0
            elif t.step > 0:
                start[k], limit[k], steps[k] = t.start, t.start + extent(t.size, t.step) if t.limit is None else t.limit, t.step
            else:
                start[k], limit[k], steps[k] = t.start + 1 - extent(t.size, -t.step), t.start + 1, -t.step
                backwards.append(k)
    if start != [0] * len(shape) or tuple(limit) != shape or any(s != 1 for s in steps):
        strides = None if all(s == 1 for s in steps) else tuple(steps)
        x = p.slice_p(x, start_indices=tuple(start), limit_indices=tuple(limit), strides=strides)
    return p.rev_p(x, dimensions=tuple(backwards)) if backwards else x


def _dynamic_part(x: Array, scalars: Sequence[Scalar]) -> Array:
    dtype = dtypes.int64 if any(t.index.aval.dtype == dtypes.int64 for t in scalars) else dtypes.int32
    starts: list[Any] = [TypedScalar(dtype.type(0), scalar_aval(dtype))] * x.aval.ndim
    sizes = list(x.aval.shape)
    for t in scalars:
        if sizes[t.axis] == 0:
            raise _out_of_bounds(t.index, t.axis, 0)
        starts[t.axis], sizes[t.axis] = convert(t.index, dtype), 1
    return p.dynamic_slice_p(x, *starts, slice_sizes=tuple(sizes))


def _new_axes(x: Array, axes: Sequence[Any]) -> Array:
    """`axes`: what makes each axis of the result; where it is `New`, x lacks it."""
    if not any(isinstance(t, New) for t in axes):
        return x
    shape, kept = [], []
    sizes = iter(x.aval.shape)
    for k, t in enumerate(axes):
        if isinstance(t, New):
            shape.append(t.size)
        else:
            kept.append(k)
            shape.append(next(sizes))
    return p.broadcast_in_dim_p(x, shape=tuple(shape), broadcast_dimensions=tuple(kept), sharding=None)


def index_vectors(components: Sequence[tuple[int, Any]], batch: Shape, places: dict[int, int] | None = None) -> Array:
    """An array of index vectors: of shape batch + (number of components,). A component is an ndarray, an int, an array or a typed
    scalar, of a
    shape that broadcasts to `batch` (or, with `places[axis]`, a vector along that batch axis). On the host if all components are."""

    def spread_host(axis: int, v: Any) -> np.ndarray:
        v = np.asarray(v)
        if places is not None and axis in places:
            v = v.reshape([-1 if k == places[axis] else 1 for k in range(len(batch))])
        return np.broadcast_to(v, batch)

    if not components:
        return from_host(np.zeros((*batch, 0), np.int32))
    host = [v for _, v in components]
    if all(isinstance(v, int | np.ndarray | TypedScalar) for v in host):
        values = [spread_host(a, v.value if isinstance(v, TypedScalar) else v) for a, v in components]
        dtype = np.int64 if any(v.dtype == np.int64 and (v > 2**31 - 1).any() for v in values) else np.int32
        return from_host(np.stack([np.clip(v, np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype) for v in values], -1))
    wide = any(hasattr(v, "aval") and v.aval.dtype == dtypes.int64 for v in host)
    d = dtypes.int64 if wide else dtypes.int32
    parts = []
    for axis, v in components:
        if isinstance(v, int | np.ndarray | TypedScalar):
            v = from_host(spread_host(axis, v.value if isinstance(v, TypedScalar) else v).astype(d))
        else:
            v = broadcast_to(convert(v, d), batch)
        parts.append(v)
    if len(parts) == 1:
        return p.broadcast_in_dim_p(parts[0], shape=(*batch, 1), broadcast_dimensions=tuple(range(len(batch))), sharding=None)
    return p.stack_p(*parts, axis=len(batch))
