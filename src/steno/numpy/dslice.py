"""`ds(start, size)`: a slice in an index whose start may be traced."""

from __future__ import annotations

import operator
from typing import Any, final

from steno.core.pytree import register_pytree_node_class
from steno.core.record import record
from steno.core.trace import ArrayImpl, Tracer


@final
@register_pytree_node_class
@record(slots=True)
class Slice:
    """Positions start:start + size:stride. The start (and, where nothing is read by it, the size) may be an array; a leaf then."""

    start: Any
    size: Any
    stride: int = 1

    @property
    def is_dynamic_start(self) -> bool:
        return isinstance(self.start, ArrayImpl | Tracer)

    @property
    def is_dynamic_size(self) -> bool:
        return isinstance(self.size, ArrayImpl | Tracer)

    def tree_flatten(self) -> tuple[tuple[Any, Any], tuple[Any, Any, int]]:
        dynamic = (self.is_dynamic_start, self.is_dynamic_size)
        parts = (self.start, self.size)
        leaves = tuple(v if d else None for v, d in zip(parts, dynamic, strict=True))
        known = tuple(None if d else v for v, d in zip(parts, dynamic, strict=True))
        return leaves, (*known, self.stride)

    @classmethod
    def tree_unflatten(cls, known: tuple[Any, Any, int], leaves: tuple[Any, Any]) -> Slice:
        return cls(*(v if k is None else k for v, k in zip(leaves, known, strict=False)), known[2])

    @classmethod
    def from_slice(cls, s: slice, size: int) -> Slice:
        """Of a slice of known bounds of an axis of that size."""
        start, stop, step = s.indices(size)
        return cls(start, len(range(start, stop, step)), step)

    def as_slice(self) -> slice:
        """The slice, of known bounds."""
        start = operator.index(self.start)
        return slice(start, start + operator.index(self.size), self.stride)


def ds(start: Any, size: Any = None, stride: int | None = None) -> Any:
    """An index for the positions start:start + size:stride; `ds(None)` stands for all, `ds(n)` for the first n. A traced start is moved so
    that the piece lies within the axis.

    ValueError for a stride below 1, TypeError for a start without a size that is no integer."""
    if start is None and size is None:
        return slice(None, None, stride)
    if start is None:
        start = 0
    if size is None:
        start, size = 0, operator.index(start)
    step = 1 if stride is None else operator.index(stride)
    if step < 1:
        raise ValueError(f"ds: the stride must be at least 1, got {stride}")
    return Slice(start if isinstance(start, ArrayImpl | Tracer) else operator.index(start), size, step)


dslice = ds
