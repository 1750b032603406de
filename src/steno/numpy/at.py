"""`x.at[idx]`: functional updates. All of an index becomes one scatter; known contiguous parts a dynamic_update_slice where that means
the same."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, final

import numpy as np

from steno import lax
from steno.core import dtypes
from steno.core.aval import TypedScalar, scalar_aval, scalar_value, typeof
from steno.core.config import config
from steno.lax import records as p
from steno.numpy import elementwise as e
from steno.numpy.creation import asarray
from steno.numpy.indexing import (
    New,
    Point,
    Scalar,
    Slice,
    Vector,
    batch_shape,
    getitem,
    index_vectors,
    is_advanced,
    moving,
    parse,
    pieces,
)
from steno.numpy.operands import Array, ArrayLike, Shape, as_array, broadcast_to, convert, is_array


@final
class _IndexUpdateHelper:
    """`x.at`: indexing it gives a reference to a part of x."""

    __slots__ = ("array",)

    def __init__(self, array: Array) -> None:
        self.array = array

    def __getitem__(self, index: Any) -> _IndexUpdateRef:
        return _IndexUpdateRef(self.array, index)

    def __repr__(self) -> str:
        return f"_IndexUpdateHelper({self.array!r})"


@final
class _IndexUpdateRef:
    """`x.at[idx]`: its methods give x with that part changed.

    Keyword arguments of each: `mode` ("drop", "fill": changes out of bounds do not happen, the default; "clip": they happen at the edge;
    "promise_in_bounds"), `indices_are_sorted`, `unique_indices` (promises), `wrap_negative_indices`."""

    __slots__ = ("array", "index")

    def __init__(self, array: Array, index: Any) -> None:
        self.array, self.index = array, index

    def __repr__(self) -> str:
        return f"_IndexUpdateRef({self.array!r}, {self.index!r})"

    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        fill_value: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """`x[idx]`, with `mode` "fill" giving `fill_value` out of bounds."""
        return getitem(
            self.array,
            self.index,
            mode=mode,
            fill_value=fill_value,
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            wrap_negative_indices=wrap_negative_indices,
        )

    def set(self, values: ArrayLike, **options: Any) -> Array:
        """x with the part replaced."""
        return update(self.array, self.index, values, lax.scatter, **options)

    def add(self, values: ArrayLike, **options: Any) -> Array:
        """x with values added to the part; repeated positions add up."""
        return update(self.array, self.index, values, lax.scatter_add, **options)

    def subtract(self, values: ArrayLike, **options: Any) -> Array:
        """x with values subtracted from the part."""
        return update(self.array, self.index, values, lax.scatter_sub, **options)

    def multiply(self, values: ArrayLike, **options: Any) -> Array:
        """x with the part multiplied."""
        return update(self.array, self.index, values, lax.scatter_mul, **options)

    mul = multiply

    def divide(self, values: ArrayLike, **options: Any) -> Array:
        """x with the part divided."""
        ones = lax.full_like(self.array, 1)
        return e.divide(self.array, update(ones, self.index, values, lax.scatter_mul, **options))

    def power(self, values: ArrayLike, **options: Any) -> Array:
        """x with the part raised to powers."""
        ones = lax.full_like(self.array, 1)
        return e.power(self.array, update(ones, self.index, values, lax.scatter_mul, **options))

    def min(self, values: ArrayLike, **options: Any) -> Array:
        """x with the part lowered to values below it."""
        return update(self.array, self.index, values, lax.scatter_min, **options)

    def max(self, values: ArrayLike, **options: Any) -> Array:
        """x with the part raised to values above it."""
        return update(self.array, self.index, values, lax.scatter_max, **options)

    def apply(self, func: Callable[[Array], Array], **options: Any) -> Array:
        """x with a function of scalars applied to the part, once for each time a position is named."""

        def scatter(x: Array, indices: Array, updates: Array, numbers: Any, **kw: Any) -> Array:
            return lax.scatter_apply(x, indices, func, numbers, update_shape=updates.aval.shape, **kw)

        return update(self.array, self.index, lax.full((), 0, self.array.aval.dtype), scatter, **options)


def _check_cast(value: Any, x: Array) -> None:
    """A warning where a value loses something by conversion to x's dtype, as JAX has it."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    own, given = x.aval, typeof(0 if whole else value)  # the dtype of a Python int does not depend on whether the value fits
    if dtypes.is_key(own.dtype) or dtypes.is_key(given.dtype):
        if own.dtype is not given.dtype:
            raise TypeError(f"update: values of dtype {dtypes.name(given.dtype)} cannot go into an array of dtype {dtypes.name(own.dtype)}")
        return
    common, _ = dtypes.promote((own.dtype, own.weak_type), (given.dtype, given.weak_type))
    if common != own.dtype and not (own.weak_type and dtypes.kind(common) == dtypes.kind(own.dtype)):
        warnings.warn(
            f"scatter inputs have incompatible types: a value of dtype {dtypes.name(given.dtype)} loses something as "
            f"{dtypes.name(own.dtype)}, the array's dtype (jax_numpy_dtype_promotion={config._state.numpy_dtype_promotion}). Convert it "
            "explicitly: this will become an error.",
            FutureWarning,
            stacklevel=5,
        )
    if dtypes.kind(given.dtype) == "c" and dtypes.kind(own.dtype) != "c":
        warnings.warn("a complex number becomes real: its imaginary part is lost", np.exceptions.ComplexWarning, stacklevel=5)


def update(
    x: Array,
    idx: Any,
    values: ArrayLike,
    scatter: Callable[..., Array],
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
    out_sharding: Any = None,
    wrap_negative_indices: bool = True,
) -> Array:
    """x with `values`, broadcast to the shape of `x[idx]`, scattered into it."""
    own = x.aval
    if moving(idx):
        starts, sizes, rest = pieces(own.shape, idx)
        options = {"indices_are_sorted": indices_are_sorted, "unique_indices": unique_indices, "mode": mode}
        old = lax.dynamic_slice(x, starts, sizes)
        part = update(old, rest, values, scatter, wrap_negative_indices=wrap_negative_indices, **options)
        if lax.GatherScatterMode.from_any(mode) is lax.GatherScatterMode.FILL_OR_DROP:
            part = e.where(_within(starts, sizes, own.shape), part, old)
        return lax.dynamic_update_slice(x, part, starts)
    v: Any
    if isinstance(values, bool | int | float | complex) and not isinstance(values, np.generic):
        _check_cast(values, x)
        with np.errstate(all="ignore"):
            # an int that the array holds is fine, also beyond the default integer type
            held = own.dtype == np.uint32 and isinstance(values, int) and 0 <= values < 1 << 32
            v = TypedScalar(np.uint32(values) if held else scalar_value(values, own.dtype), scalar_aval(own.dtype, own.weak_type))
    else:
        v = asarray(values)
        _check_cast(v, x)
        v = convert(v, own.dtype, own.weak_type)
    tokens, position = parse(own.shape, idx, wrap_negative_indices)
    m = lax.GatherScatterMode.from_any(mode)
    many = [t for t in tokens if isinstance(t, Vector)]

    # the shape of x[idx], and of the same without new axes, which is that of the updates
    batch = batch_shape(tokens) if many else ()
    layout: list[Any] = []
    for k, t in enumerate(tokens):
        if many and k == position:
            layout += batch
        if not is_advanced(t):
            layout.append(t)
    if many and position == len(tokens):
        layout += batch
    full = tuple(t if isinstance(t, int) else t.size for t in layout)
    axes = [(t, n) for t, n in zip(layout, full, strict=True) if not isinstance(t, New)]
    shape = tuple(n for _, n in axes)
    v = _spread(v, full, shape)
    if 0 in own.shape or 0 in full:
        return x

    if scatter is lax.scatter and not many and not own.weak_type and all(_contiguous(t, own.shape) for t in tokens):
        if shape == own.shape:
            return as_array("set", broadcast_to(v, shape))
        window = tuple(t.size if isinstance(t, Slice) else 1 for t in tokens if not isinstance(t, New))
        starts = [t.start if isinstance(t, Slice) else t.index for t in tokens if not isinstance(t, New)]
        block = lax.broadcast_in_dim(v, window, ()) if not v.aval.shape else lax.reshape(v, window)
        return p.dynamic_update_slice_p(x, block, *(TypedScalar(np.int32(s), scalar_aval(dtypes.int32)) for s in starts))
    v = broadcast_to(v, shape)

    # axes of the updates that are not windows are, in order, the axes of the indices
    window_places = tuple(k for k, (t, _) in enumerate(axes) if isinstance(t, Slice) and t.step == 1)
    index_places = [k for k in range(len(axes)) if k not in window_places]
    index_shape = tuple(shape[k] for k in index_places)
    places: dict[int, int] = {}  # operand axis of a strided slice --> its axis of the indices
    batch_axes: list[int] = []
    for j, k in enumerate(index_places):
        t = axes[k][0]
        if isinstance(t, Slice):
            places[t.axis] = j
        else:
            batch_axes.append(j)
    components: list[tuple[int, Any]] = []
    inserted = []
    for t in tokens:
        if isinstance(t, Slice):
            if t.step != 1:
                components.append((t.axis, np.arange(t.size) * t.step + t.start))
                inserted.append(t.axis)
            elif t.start != 0:
                components.append((t.axis, t.start))
        elif isinstance(t, Vector):
            components.append((t.axis, _at_axes(t.index, batch, index_shape, batch_axes)))
            inserted.append(t.axis)
        elif isinstance(t, Point | Scalar):
            components.append((t.axis, t.index))
            inserted.append(t.axis)
    numbers = lax.ScatterDimensionNumbers(window_places, tuple(sorted(inserted)), tuple(a for a, _ in components))
    return scatter(
        x,
        index_vectors(components, index_shape, places),
        v,
        numbers,
        indices_are_sorted=indices_are_sorted or not (many or places),
        unique_indices=unique_indices or not many,
        mode=m,
    )


def _within(starts: list[Any], sizes: list[int], shape: Shape) -> Array:
    """Whether a piece lies within an array (negative starts do not, when it is written)."""
    inside: Any = True
    for start, size, n in zip(starts, sizes, shape, strict=True):
        if is_array(start):
            inside = e.logical_and(inside, e.logical_and(e.greater_equal(start, 0), e.less_equal(start, n - size)))
    return inside


def _contiguous(t: Any, shape: Shape) -> bool:
    if isinstance(t, Point):
        return 0 <= t.index < shape[t.axis]
    return isinstance(t, New) or (isinstance(t, Slice) and t.step == 1)


def _spread(v: Any, full: Shape, shape: Shape) -> Any:
    """Values broadcast to x[idx]'s shape, then without its new axes. ValueError if they do not fit."""
    own = v.aval.shape
    if not own:
        return v
    if len(own) > len(full):
        raise ValueError(f"update: values of shape {own} have more axes than the part they go to, of shape {full}")
    if any(n not in (1, m) for n, m in zip(reversed(own), reversed(full), strict=False)):
        raise ValueError(f"update: values of shape {own} cannot be broadcast to the part they go to, of shape {full}")
    v = broadcast_to(v, full)
    return v if full == shape or 0 in full else lax.reshape(v, shape)


def _at_axes(i: Any, batch: Shape, index_shape: Shape, batch_axes: list[int]) -> Any:
    """An index array, spread to the batch shape, along the axes of the indices that belong to the batch."""
    if isinstance(i, np.ndarray):
        i = np.broadcast_to(i, batch)
        if len(batch_axes) == len(index_shape):
            return i
        return i.reshape([batch[batch_axes.index(k)] if k in batch_axes else 1 for k in range(len(index_shape))])
    i = broadcast_to(i, batch)
    if len(batch_axes) == len(index_shape):
        return i
    return lax.broadcast_in_dim(i, index_shape, batch_axes)
