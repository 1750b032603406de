"""The named axes that are mapped around the code that runs: what collectives may refer to."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from types import TracebackType
from typing import Any, final

from steno.transforms.rules import Axis


class _Axes(threading.local):
    env: tuple[Axis, ...] = ()


_axes = _Axes()


def axis_env() -> tuple[Axis, ...]:
    """The named axes of this thread, innermost last. Part of what decides which program a call runs."""
    return _axes.env


def bound_axes() -> tuple[tuple[Hashable, int], ...]:
    """Names and sizes of the axes: part of the key of every traced program."""
    return tuple((a.name, a.size) for a in _axes.env)


@final
class named_axis:
    """`with named_axis(axis): ...`: collectives inside may refer to the axis, if it has a name."""

    __slots__ = ("_axis", "_previous")

    def __init__(self, axis: Axis) -> None:
        self._axis = axis

    def __enter__(self) -> None:
        self._previous = _axes.env
        if self._axis.name is not None:
            _axes.env = (*self._previous, self._axis)

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        _axes.env = self._previous


def find_axis(name: Hashable) -> Axis:
    """The innermost axis of that name. NameError if none is bound."""
    for axis in reversed(_axes.env):
        if axis.name == name:
            return axis
    bound = ", ".join(str(a.name) for a in _axes.env) or "none"
    raise NameError(
        f"unbound axis name: {name}. The following axis names are available: {bound}; `vmap(..., axis_name={name!r})` binds it."
    )


def axis_size_of(names: Any) -> int:
    """The number of elements along one axis, or the product for a tuple or list of names."""
    if isinstance(names, tuple | list):
        size = 1
        for n in names:
            size *= axis_size_of(n)
        return size
    return find_axis(names).size
