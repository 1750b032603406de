"""Where in the user's code something was called, found without the cost of a traceback.

A place is (code object, index of the last instruction); lines and columns are computed from it only when somebody asks."""

from __future__ import annotations

import functools
import linecache
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import CodeType
from typing import Any, TypeVar, final

F = TypeVar("F")

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_user_file: dict[str, bool] = {}  # by the name of a code object's file: a str caches its hash, a code object does not
_extra: set[str] = set()

Place = tuple[CodeType, int]


def _is_user_file(name: str) -> bool:
    user = not (name.startswith(_PACKAGE) or name.startswith("<frozen") or name in _extra)
    _user_file[name] = user
    return user


def wraps(wrapped: Any, updated: tuple[str, ...] = functools.WRAPPER_UPDATES) -> Callable[[F], F]:
    """As `functools.wraps`, of any callable: attributes of an object that a function cannot have (a `__name__` that is no str) are left
    out."""

    def mark(wrapper: Any) -> Any:
        for name in functools.WRAPPER_ASSIGNMENTS:
            with suppress(AttributeError, TypeError):
                setattr(wrapper, name, getattr(wrapped, name))
        for name in updated:
            getattr(wrapper, name).update(getattr(wrapped, name, {}))
        wrapper.__wrapped__ = wrapped
        return wrapper

    return mark


def is_user_code(code: CodeType) -> bool:
    """Whether it is not this package's."""
    name = code.co_filename
    return _user_file[name] if name in _user_file else _is_user_file(name)


def hide(filename: str) -> None:
    """Frames of this file count as internal."""
    _extra.add(filename)
    _user_file.clear()


class _Override(threading.local):
    place: Place | None = None


override = _Override()


def swap_place(at: Place | None) -> Place | None:
    """While not None, `place()` gives `at` in this thread: what is done on behalf of an equation comes from where that came from.
    Returns what was set before."""
    previous, override.place = override.place, at
    return previous


def call(fun: Any, *args: Any, **kwargs: Any) -> Any:
    """`fun(*args, **kwargs)`, on behalf of an equation: what a user's function does comes from its own lines all the same."""
    at = override.place
    code = getattr(unwrapped(fun), "__code__", None) if at is not None else None
    if code is None or not is_user_code(code):
        return fun(*args, **kwargs)
    override.place = None
    try:
        return fun(*args, **kwargs)
    finally:
        override.place = at


def place(depth: int = 2) -> Place | None:
    """The innermost frame of user code; None if there is none. `depth`: how many frames up the search begins."""
    at = override.place
    if at is not None:
        return at
    frame = sys._getframe(depth)
    known = _user_file
    while frame is not None:
        code = frame.f_code
        name = code.co_filename
        if known[name] if name in known else _is_user_file(name):
            return code, frame.f_lasti
        frame = frame.f_back
    return None


def stacklevel() -> int:
    """What `warnings.warn(..., stacklevel=stacklevel())` needs to point at the user's line."""
    level, frame = 1, sys._getframe(1)
    while frame is not None and not is_user_code(frame.f_code):
        level, frame = level + 1, frame.f_back
    return level


@final
class Location:
    """file, line and column (1-based) of a place, and the qualified name of its function."""

    __slots__ = ("column", "file", "function", "line")

    def __init__(self, at: Place) -> None:
        code, lasti = at
        self.file, self.function = code.co_filename, code.co_qualname
        self.line, self.column = code.co_firstlineno, 1
        for k, (line, _, column, _) in enumerate(code.co_positions()):
            if k == lasti // 2:
                self.line = line or code.co_firstlineno
                self.column = (column or 0) + 1
                break

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column} ({self.function})"


def summary(at: Place | None) -> str:
    """`file:line:column (function)`, or "" for no place."""
    return "" if at is None else str(Location(at))


def unwrapped(fun: Any) -> Any:
    """The user's function inside wrappers, partials and bound methods."""
    while True:
        inner = getattr(fun, "__wrapped__", None) or (fun.func if isinstance(fun, functools.partial) else getattr(fun, "__func__", None))
        if inner is None:
            return fun
        fun = inner


def function_info(fun: Any) -> str:
    """`f at file.py:3` for a function, its type's name for another callable."""
    fun = unwrapped(fun)
    code = getattr(fun, "__code__", None)
    name = getattr(fun, "__name__", None) or type(fun).__name__
    return f"{name} at {code.co_filename}:{code.co_firstlineno}" if code is not None else name


def function_name(fun: Any) -> str:
    """The name a jaxpr gives the function."""
    fun = unwrapped(fun)
    return getattr(fun, "__name__", None) or type(fun).__name__


def line_text(at: Place) -> str:
    """The source line of a place, stripped; "" if it cannot be read."""
    location = Location(at)
    return linecache.getline(location.file, location.line).strip()
