"""References to mutable arrays: `steno.ref`.

    ref = new_ref(x)           holds a copy of x
    ref[...], ref[i], ref[1:, j], ref[array]      read; ref.at[1:] is a view, which is indexed further
    ref[ds(i, 8)]              read 8 elements from i on, which may be traced
    ref[i] = y, ref[i] += y    write: y has exactly the shape of the part, and the reference's dtype
    freeze(ref)                the array, at the end of the reference's life

Functions that `jit`, loops and branches run may read and write the references they are passed or close over; the caller sees it. A
reference is passed once, and never returned. Known indices must be in range; dynamic ones are clamped to the array, and writes by arrays of
indices leave out positions out of range. Reads and writes compile to updates of arrays in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, final

import numpy as np

from steno import lax
from steno._native import ShapedArray
from steno.core import dtypes
from steno.core.aval import TypedScalar, scalar_aval, scalar_value
from steno.core.record import record
from steno.core.refs import AbstractRef, Ref, is_ref
from steno.core.trace import Tracer
from steno.lax.operands import as_array, as_operand, convert
from steno.numpy.at import _IndexUpdateHelper
from steno.numpy.dslice import Slice
from steno.numpy.indexing import getitem
from steno.ops import state, state_calls as state_calls
from steno.ops.state import Access

# Indices


@final
@record(frozen=True)
class _Part:
    """What is taken of one axis: a slice of known bounds."""

    start: int
    size: int
    step: int

    def text(self, n: int) -> str:
        stop = self.start + (self.size - 1) * self.step + 1 if self.size else self.start
        step = f":{self.step}" if self.step != 1 else ""
        return f"{self.start or ''}:{'' if stop >= n or (step and stop + self.step > n) else stop}{step}"


@final
@record(frozen=True)
class _Block:
    """What is taken of one axis: `size` elements from an operand on."""

    size: int


_DYNAMIC: Final = "dynamic"
"""The entry of an axis that is indexed by an operand: a scalar, or an array of indices."""

Entry = int | _Part | _Block | str


def _parse(shape: tuple[int, ...], idx: Any) -> tuple[tuple[Entry, ...], list[Any]]:
    """One entry for each axis, and the dynamic indices. IndexError or ValueError for what does not fit the shape."""
    items = list(idx) if isinstance(idx, tuple) else [idx]
    dots = [k for k, i in enumerate(items) if i is Ellipsis]
    if len(dots) > 1:
        raise IndexError("a reference's index can only have a single ellipsis ('...')")
    missing = len(shape) - (len(items) - len(dots))
    if missing < 0:
        raise ValueError(f"a reference's index must not be longer than its shape: {len(items) - len(dots)} indices for shape {shape}")
    at = dots[0] if dots else len(items)
    items[at : at + 1] = [slice(None)] * missing
    entries: list[Entry] = []
    dynamic: list[Any] = []
    for n, i in zip(shape, items, strict=True):
        entry = _static_entry(n, i)
        if entry is None:
            dynamic += _dynamic_index(i.start if type(i) is Slice else i)
            entry = _Block(i.size) if type(i) is Slice else _DYNAMIC
        entries.append(entry)
    return tuple(entries), dynamic


def _static_entry(n: int, i: Any) -> Entry | None:
    if type(i) is Slice:
        if i.is_dynamic_start:
            if i.stride != 1:
                raise NotImplementedError("a reference's index: ds of a traced start and a stride")
            return None
        if i.start < 0 or i.start + (i.size - 1) * i.stride >= max(n, 1) or i.size < 0:
            raise ValueError(f"a reference's index: {i} is out of bounds for an axis of size {n}")
        return _Part(i.start, i.size, i.stride)
    if isinstance(i, slice):
        if any(isinstance(v, Tracer) for v in (i.start, i.stop, i.step)):
            raise NotImplementedError("a reference's index: a slice of dynamic bounds; use lax.dynamic_slice of ref[...]")
        start, stop, step = i.indices(n)
        if step < 1:
            raise ValueError(f"a reference's index: a slice must have a step >= 1, got {step}")
        if i.start is not None and start >= n > 0:
            raise ValueError(f"a reference's index: the slice begins at {i.start}, the axis has size {n}")
        return _Part(start, len(range(start, stop, step)), step)
    if i is None:
        raise NotImplementedError("a reference's index: None (new axes)")
    if isinstance(i, int | np.integer) and not isinstance(i, bool):
        k = int(i)
        if not -n <= k < n:
            raise ValueError(f"a reference's index: {k} is out of bounds for an axis of size {n}")
        return k % n
    return None


def _dynamic_index(i: Any) -> list[Any]:
    if isinstance(i, list):
        i = np.asarray(i)
    if isinstance(i, np.ndarray) and i.dtype == np.bool_ and i.ndim == 1:
        (i,) = np.nonzero(i)
    x = as_operand("a reference's index", i)
    if is_ref(x) or dtypes.kind(x.aval.dtype) not in "iu":
        raise TypeError(f"a reference's index must consist of integers, got one of type {x.aval.str_short()}")
    return [as_array("", x)]


# Accesses, remembered by what decides them

_accesses: dict[Any, Access] = {}
_ACCESSES_LIMIT: Final = 4096


def _remembered(key: Any, make: Callable[[], Access]) -> Access:
    found = _accesses.get(key)
    if found is None:
        if len(_accesses) >= _ACCESSES_LIMIT:
            _accesses.clear()
        found = _accesses[key] = make()
    return found


def _access(aval: ShapedArray, idx: Any) -> tuple[Access | None, list[Any]]:
    """How the part of an array is read and written, and the dynamic indices. None: the whole array."""
    if idx is None or idx is Ellipsis or (isinstance(idx, tuple) and (not idx or (len(idx) == 1 and idx[0] is Ellipsis))):
        return None, []
    entries, dynamic = _parse(aval.shape, idx)
    avals = tuple(x.aval for x in dynamic)
    return _remembered((aval, entries, avals), lambda: _make_access(aval, entries, avals)), dynamic


def _make_access(aval: ShapedArray, entries: tuple[Entry, ...], index_avals: tuple[ShapedArray, ...]) -> Access:
    block = all(type(e) is not _Part or e.step == 1 for e in entries) and not any(a.shape for a in index_avals)
    blocks = any(type(e) is _Block for e in entries)
    if blocks and not block:
        raise NotImplementedError("a reference's index: ds of a traced start, together with arrays of indices or steps")
    sizes = [e.size if isinstance(e, _Part | _Block) else 1 for e in entries]
    single = tuple(k for k, e in enumerate(entries) if not isinstance(e, _Part | _Block))

    def starts(dynamic: Sequence[Any]) -> list[Any]:
        left = iter(dynamic)
        return [next(left) if e is _DYNAMIC or type(e) is _Block else e.start if type(e) is _Part else e for e in entries]

    def index(dynamic: Sequence[Any]) -> tuple[Any, ...]:
        left = iter(dynamic)
        return tuple(
            next(left) if e is _DYNAMIC else e if type(e) is not _Part else slice(e.start, e.start + e.size * e.step, e.step)
            for e in entries
        )

    def read(x: Any, *dynamic: Any) -> Any:
        if blocks:
            return lax.squeeze(lax.dynamic_slice(x, starts(dynamic), sizes), single)
        return getitem(x, index(dynamic))

    def write(x: Any, value: Any, *dynamic: Any) -> Any:
        if not block:
            return _IndexUpdateHelper(x)[index(dynamic)].set(value)
        return lax.dynamic_update_slice(x, lax.reshape(value, sizes), starts(dynamic))

    def add(x: Any, value: Any, *dynamic: Any) -> Any:
        if not block:
            return _IndexUpdateHelper(x)[index(dynamic)].add(value)
        return write(x, lax.add(read(x, *dynamic), value), *dynamic)

    def shown(names: Sequence[str]) -> list[list[str]]:
        left = iter(names)

        def text(e: Entry, n: int) -> str:
            if type(e) is _Block:
                return f"{(start := next(left))}:{start}+{e.size}"
            return next(left) if e is _DYNAMIC else e.text(n) if type(e) is _Part else str(e)

        return [[text(e, n) for e, n in zip(entries, aval.shape, strict=True)]]

    return Access(aval, index_avals, (read, write, add), shown)


def _composed(first: Access, second: Access) -> Access:
    """A part of a part."""
    n = len(first.index_avals)
    read_one, write_one = state.read_part, state.written_part

    def read(x: Any, *dynamic: Any) -> Any:
        return read_one(read_one(x, first, dynamic[:n]), second, dynamic[n:])

    def write(x: Any, value: Any, *dynamic: Any) -> Any:
        inner = write_one(read_one(x, first, dynamic[:n]), value, second, dynamic[n:])
        return write_one(x, inner, first, dynamic[:n])

    def add(x: Any, value: Any, *dynamic: Any) -> Any:
        inner = state.added_part(read_one(x, first, dynamic[:n]), value, second, dynamic[n:])
        return write_one(x, inner, first, dynamic[:n])

    return Access(
        first.aval,
        (*first.index_avals, *second.index_avals),
        (read, write, add),
        lambda names: first.shown(names[:n]) + second.shown(names[n:]),
    )


@final
class TransformedRef:
    """A view of a part of a reference: indexed like one. `ref.at[idx]`."""

    __slots__ = ("access", "indices", "ref")

    def __init__(self, ref: Any, access: Access | None, indices: Sequence[Any]) -> None:
        self.ref, self.access, self.indices = ref, access, tuple(indices)

    @property
    def _part(self) -> ShapedArray:
        return self.ref.aval.inner_aval if self.access is None else self.access.part

    @property
    def shape(self) -> tuple[int, ...]:
        return self._part.shape

    @property
    def dtype(self) -> Any:
        return self._part.dtype

    @property
    def ndim(self) -> int:
        return self._part.ndim

    @property
    def size(self) -> int:
        return self._part.size

    @property
    def at(self) -> RefIndexer:
        return RefIndexer(self)

    def get(self, idx: Any = None) -> Any:
        return get(self, idx)

    def set(self, value: Any, idx: Any = None) -> None:
        swap(self, idx, value)

    def swap(self, value: Any, idx: Any = None) -> Any:
        return swap(self, idx, value)

    def __getitem__(self, idx: Any) -> Any:
        return get(self, idx)

    def __setitem__(self, idx: Any, value: Any) -> None:
        swap(self, idx, value)

    def __repr__(self) -> str:
        names = [str(x) for x in self.indices]
        return f"TransformedRef({self.ref!r}{state.text_of(self.access, names)})"


@final
class RefIndexer:
    """`ref.at`: indexing it gives a view of a part."""

    __slots__ = ("ref_or_view",)

    def __init__(self, ref_or_view: Any) -> None:
        self.ref_or_view = ref_or_view

    def __getitem__(self, idx: Any) -> TransformedRef:
        return TransformedRef(*_resolve("at", self.ref_or_view, idx))

    def __repr__(self) -> str:
        return f"RefIndexer(ref_or_view={self.ref_or_view!r})"


def _resolve(name: str, ref: Any, idx: Any) -> tuple[Any, Access | None, tuple[Any, ...]]:
    """The reference behind a view, and the index into its array. ValueError for what is no reference."""
    if type(ref) is not TransformedRef:
        if not isinstance(ref, Ref):
            raise ValueError(f"{name}: a reference (steno.Ref) is needed, got {ref!r}")
        access, indices = _access(ref.aval.inner_aval, idx)
        return ref, access, tuple(indices)
    access, indices = _access(ref._part, idx)
    if ref.access is None or access is None:
        return ref.ref, ref.access or access, (*ref.indices, *indices)
    first = ref.access
    both = _remembered((first, access), lambda: _composed(first, access))
    return ref.ref, both, (*ref.indices, *indices)


# The functions


def new_ref(init_val: Any, *, memory_space: Any = None, kind: str | None = None, pin: bool = False) -> Any:
    """A reference to a mutable array that begins as a copy of `init_val`. The other arguments are recorded, and mean nothing here.

    TypeError for what is no array."""
    if is_ref(init_val):
        raise TypeError(f"new_ref: a reference cannot hold another one, of type {init_val.aval}")
    try:
        x = as_operand("new_ref", init_val)
    except TypeError:
        raise TypeError(f"new_ref: init_val must be an array or a number, got {type(init_val)}") from None
    return state.new_ref(x, memory_space=memory_space, kind=kind, pin=pin)


def empty_ref(ty: Any, memory_space: Any = None, pin: bool = False) -> Any:
    """A reference to an array of the type `ty` (anything with a shape and a dtype), to be written before it is read."""
    aval = ShapedArray(tuple(ty.shape), dtypes.canonicalize_dtype(ty.dtype))
    return state.empty_ref(ty=aval, memory_space=memory_space, pin=pin)


def get(ref: Any, idx: Any = None) -> Any:
    """`ref[idx]`; without `idx` the whole array. ValueError for what is no reference, or indices out of range."""
    ref, access, indices = _resolve("get", ref, idx)
    return state.get(ref, *indices, access=access)


def set(ref: Any, idx: Any, value: Any) -> None:
    """`ref[idx] = value`. ValueError if `value` has not the part's shape and the reference's dtype (numbers take it if they may)."""
    swap(ref, idx, value)


def swap(ref: Any, idx: Any, value: Any) -> Any:
    """`ref[idx] = value`; gives what was there."""
    ref, access, indices = _resolve("swap", ref, idx)
    return state.swap(ref, _value("swap", ref, value), *indices, access=access)


def addupdate(ref: Any, idx: Any, x: Any) -> None:
    """`ref[idx] += x`, where positions that are named several times add up."""
    ref, access, indices = _resolve("addupdate", ref, idx)
    state.addupdate(ref, _value("addupdate", ref, x), *indices, access=access)


def freeze(ref: Any) -> Any:
    """The array of a reference that is not used any more."""
    _check("freeze", ref)
    return state.freeze(ref)


def free_ref(ref: Any) -> None:
    """Ends a reference's life: reads and writes are errors from then on."""
    _check("free_ref", ref)
    if type(ref) is Ref:
        ref.free()
    else:
        state.free_ref(ref)


def _check(name: str, ref: Any) -> None:
    if not isinstance(ref, Ref):
        raise ValueError(f"{name}: a reference (steno.Ref) is needed, got {ref!r}")


def _value(name: str, ref: Any, value: Any) -> Any:
    """A value to be written. One of weak type takes the reference's dtype, if that is of the same kind."""
    dtype = ref.aval.dtype
    if is_ref(value):
        raise ValueError(f"{name}: the value must be an array, got a reference of type {value.aval}: read it with `ref[...]` first")
    x = as_operand(name, value)
    own = x.aval
    kinds = {dtypes.kind(d).replace("u", "i") for d in (own.dtype, dtype)}
    if own.weak_type and (own.dtype == dtype or len(kinds) == 1):
        return TypedScalar(scalar_value(x.value, dtype), scalar_aval(dtype)) if type(x) is TypedScalar else convert(x, dtype)
    return x


# Methods of references, and of what stands for them while functions are traced


def _of_refs(name: str, method: Any) -> None:
    """`method` for references; tracers that are arrays keep theirs."""
    setattr(Ref, name, property(method) if name == "at" else method)
    other = getattr(Tracer, name, None)
    getter = other.fget if isinstance(other, property) else other

    def of_tracer(self: Any, *args: Any) -> Any:
        if type(self.aval) is AbstractRef:
            return method(self, *args)
        if getter is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getter(self, *args)

    of_tracer.__name__ = name
    setattr(Tracer, name, property(of_tracer, doc=other.__doc__) if name == "at" else of_tracer)


_of_refs("__getitem__", get)
_of_refs("__setitem__", set)
_of_refs("at", RefIndexer)
_of_refs("addupdate", lambda ref, x, idx=(): addupdate(ref, idx, x))

__all__ = ["AbstractRef", "Ref", "addupdate", "empty_ref", "free_ref", "freeze", "get", "new_ref", "set", "swap"]
