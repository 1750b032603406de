"""Sizes of axes where some are not known: what a shape's entries may be, beside ints, while an exported program is traced.

The class of unknown sizes is in `symbolic`, which is imported with `export`; what is needed of it elsewhere is here."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from steno.core.errors import InconclusiveDimensionOperation


class UnknownSize:
    """A size that is an expression over the sizes of a program's arguments. It has the arithmetic and comparisons of ints, but is none."""

    __slots__ = ()

    if TYPE_CHECKING:  # `symbolic` gives them to its expressions

        def _operator(self, other: Any, /) -> Any: ...

        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __mod__ = _operator
        __lt__ = __le__ = __gt__ = __ge__ = _operator


def size_of(n: Any) -> Any:
    """An int, or an unknown size. TypeError for what is neither."""
    return n if isinstance(n, UnknownSize) else operator.index(n)


def surely(condition: Callable[[], bool]) -> bool:
    """Whether a comparison of sizes holds; False where that depends."""
    try:
        return condition()
    except InconclusiveDimensionOperation:
        return False


def may_equal(x: Any, y: Any) -> bool:
    """Whether two sizes are equal, or may be for some values."""
    return x == y or (isinstance(x, UnknownSize) or isinstance(y, UnknownSize)) and not surely(lambda: x > y) and not surely(lambda: x < y)


def is_size(n: Any) -> bool:
    """Whether `n` is an int or an unknown size, and neither a bool nor traced."""
    return isinstance(n, UnknownSize) or (hasattr(n, "__index__") and not isinstance(n, bool) and not hasattr(n, "aval"))


def max_size(*sizes: Any) -> Any:
    """The greatest; an expression where it depends."""
    return _folded(sizes, "maximum", max)


def min_size(*sizes: Any) -> Any:
    """The least; an expression where it depends."""
    return _folded(sizes, "minimum", min)


def _folded(sizes: Any, method: str, of_ints: Any) -> Any:
    unknown = [n for n in sizes if isinstance(n, UnknownSize)]
    if not unknown:
        return of_ints(sizes)
    known = [n for n in sizes if not isinstance(n, UnknownSize)]
    out: Any = unknown[0]
    for n in unknown[1:]:
        out = getattr(out, method)(n) if isinstance(out, UnknownSize) else getattr(n, method)(out)
    if known:
        out = getattr(out, method)(of_ints(known)) if isinstance(out, UnknownSize) else of_ints(out, *known)
    return out


def extent(n: Any, step: Any) -> Any:
    """From the first to the last of n positions that are `step` apart, both included."""
    if isinstance(n, UnknownSize) or isinstance(step, UnknownSize):
        return max_size((n - 1) * step + 1, 0)
    return (n - 1) * step + 1 if n > 0 else 0


def slice_bounds(s: slice, n: Any) -> tuple[Any, Any, Any]:
    """`s.indices(n)`, where bounds, step and `n` may be unknown; the sign of the step is known."""
    start, stop, step = (None if v is None else size_of(v) for v in (s.start, s.stop, s.step))
    if not any(isinstance(v, UnknownSize) for v in (start, stop, step, n)):
        return slice(start, stop, step).indices(n)
    step = 1 if step is None else step
    if step == 0:
        raise ValueError("slice step cannot be zero")
    low, high = (0, n) if step > 0 else (-1, n - 1)
    first = (low if step > 0 else high) if start is None else _clamped(start, n, low, high)
    last = (high if step > 0 else low) if stop is None else _clamped(stop, n, low, high)
    return first, last, step


def _clamped(v: Any, n: Any, low: Any, high: Any) -> Any:
    """A bound, counted from the end if it is negative, within `low` and `high`."""
    return max_size(v + n, low) if v < 0 else min_size(v, high)


def slice_length(start: Any, stop: Any, step: Any) -> Any:
    """How many positions a slice with these bounds takes."""
    if not any(isinstance(v, UnknownSize) for v in (start, stop, step)):
        return len(range(start, stop, step))
    distance, step = (stop - start, step) if step > 0 else (start - stop, -step)
    return max_size(-(-distance // step), 0)


__all__ = ["UnknownSize", "extent", "is_size", "max_size", "may_equal", "min_size", "size_of", "slice_bounds", "slice_length", "surely"]
