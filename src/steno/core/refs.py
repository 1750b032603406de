"""References to mutable arrays: their type `Ref{float32[3]}`, what they are outside of traces, and the effect of their ops.

A program never holds a reference's memory: `transforms/discharge.py` turns reads and writes into values before anything is compiled."""

from __future__ import annotations

from typing import Any, Final, final

from steno._native import ArrayImpl, ShapedArray
from steno.core.aval import HasAval, register_aval_type


@final
class StateEffect:
    """The effect of ops on references. Programs without references among their inputs do not have it."""

    def __repr__(self) -> str:
        return "State"


STATE: Final = StateEffect()


@final
class AbstractRef:
    """The type of a reference to an array of type `inner_aval`. Equal ones are identical.

    `kind`: of "no_grad" and its like derivatives see the values, but what is written has no tangent there."""

    __slots__ = ("inner_aval", "kind", "memory_space")
    inner_aval: ShapedArray
    memory_space: Any
    kind: str | None
    weak_type: Final = False

    def __new__(cls, inner_aval: ShapedArray, memory_space: Any = None, kind: str | None = None) -> AbstractRef:
        key = (inner_aval.strip_weak_type(), memory_space, kind)
        found = _known.get(key)
        if found is None:
            found = object.__new__(cls)
            found.inner_aval, found.memory_space, found.kind = key
            found = _known.setdefault(key, found)
        return found

    @property
    def shape(self) -> tuple[int, ...]:
        return self.inner_aval.shape

    @property
    def dtype(self) -> Any:
        return self.inner_aval.dtype

    @property
    def ndim(self) -> int:
        return self.inner_aval.ndim

    @property
    def size(self) -> int:
        return self.inner_aval.size

    @property
    def itemsize(self) -> int:
        return self.inner_aval.itemsize

    @property
    def nbytes(self) -> int:
        return self.inner_aval.nbytes

    def update(self, **changes: Any) -> AbstractRef:
        return AbstractRef(self.inner_aval.update(**changes), self.memory_space, self.kind)

    def to_tangent_aval(self) -> AbstractRef:
        return AbstractRef(self.inner_aval.to_tangent_aval(), self.memory_space)

    def strip_weak_type(self) -> AbstractRef:
        return self

    def str_short(self, short_dtypes: bool = False) -> str:
        return f"Ref{{{self.inner_aval.str_short(short_dtypes)}}}"

    def __str__(self) -> str:
        return self.str_short()

    __repr__ = __str__

    def __reduce__(self) -> Any:
        return AbstractRef, (self.inner_aval, self.memory_space, self.kind)


_known: dict[tuple[Any, ...], AbstractRef] = {}


def is_ref_type(aval: Any) -> bool:
    return type(aval) is AbstractRef


def is_ref(x: Any) -> bool:
    """Whether a value is a reference, traced or not."""
    return type(getattr(x, "aval", None)) is AbstractRef


class _RefMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return type(instance) is Ref or (is_ref(instance) and hasattr(instance, "_trace"))


class Ref(HasAval, metaclass=_RefMeta):
    """A mutable array: `ref[...]` and `ref[idx]` read, `ref[idx] = x` and `ref[idx] += x` write.

    Made by `new_ref`. For `isinstance` also what stands for one while a function is traced. Its methods are set by `steno/ref.py`."""

    __slots__ = ("__weakref__", "_array", "aval")
    _array: ArrayImpl | None
    aval: AbstractRef

    def __init__(self, array: ArrayImpl, aval: AbstractRef) -> None:
        """The memory of `array` is taken over by the first write that finds no other owner of it."""
        self.aval = aval
        self._array = array.with_aval(self.aval.inner_aval)

    @property
    def value(self) -> ArrayImpl:
        """The present array. RuntimeError once the reference was freed."""
        if self._array is None:
            raise RuntimeError(f"a reference of type {self.aval} is used after free_ref")
        return self._array

    @value.setter
    def value(self, array: ArrayImpl) -> None:
        self._array = array.with_aval(self.aval.inner_aval)  # an owner of its own, of memory that others may share

    def __len__(self) -> int:
        if not self.aval.shape:
            raise TypeError("len() of unsized object")
        return self.aval.shape[0]

    def __repr__(self) -> str:
        if self._array is None:
            return f"Ref(freed, {self.aval.inner_aval.str_short()})"
        return "Ref" + repr(self._array).removeprefix("Array")

    def __reduce__(self) -> Any:
        return Ref, (self.value, self.aval)

    def free(self) -> None:
        if self._array is None:
            raise RuntimeError(f"free_ref: the reference of type {self.aval} was freed before")
        self._array = None


register_aval_type(Ref)


__all__ = ["STATE", "AbstractRef", "Ref", "StateEffect", "is_ref", "is_ref_type"]
