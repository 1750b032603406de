"""Tracebacks that show users their own lines: the frames of this package are left out, as the knob `traceback_filtering` says.

A function that calls users' functions is a boundary. What is raised below the outermost boundary of a thread's stack is filtered there."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any, Final, TypeVar, cast

from steno.core import source
from steno.core.config import config

F = TypeVar("F", bound=Callable[..., Any])


class UnfilteredStackTrace(Exception):
    """The cause of an exception whose traceback was filtered: it has the whole traceback."""


_NOTE: Final = "For simplicity, steno's own frames were left out of this traceback; JAX_TRACEBACK_FILTERING=off shows them."


def boundary(fun: F) -> F:
    """`fun`, which calls functions of users: exceptions that leave it show the frames of users alone.

    The `raise` without an operand is what keeps the traceback as it was set: it adds no entry for this frame."""

    @source.wraps(fun)
    def bounded(*args: Any, **kwargs: Any) -> Any:
        try:
            return fun(*args, **kwargs)
        except Exception as err:
            _filter(err, sys._getframe(1))
            raise

    return cast(F, bounded)


_BOUNDED: Final = boundary(len).__code__  # all boundaries share it


def _filter(err: BaseException, frame: FrameType | None) -> None:
    """Filters the tracebacks of `err` and of what led to it, unless a boundary stands further up the stack, from `frame` on."""
    mode = config._state.traceback_filtering
    if mode == "off":
        return
    while frame is not None:
        if frame.f_code is _BOUNDED:
            return
        frame = frame.f_back
    if mode == "auto":
        mode = "tracebackhide" if hasattr(builtins, "__IPYTHON__") else "quiet_remove_frames"
    if mode == "tracebackhide":
        tb = err.__traceback__
        while tb is not None:
            if not source.is_user_code(tb.tb_frame.f_code):
                tb.tb_frame.f_locals["__tracebackhide__"] = True
            tb = tb.tb_next
        return
    whole = err.__traceback__
    if mode == "remove_frames":
        unfiltered = UnfilteredStackTrace(f"the traceback above has all frames of this {type(err).__name__}")
        unfiltered.__cause__, unfiltered.__context__ = err.__cause__, err.__context__
        err.__cause__ = unfiltered.with_traceback(whole)
        err.__traceback__ = _users(whole)
        return
    for e in _chain(err):
        e.__traceback__ = _users(e.__traceback__)
    if err.__traceback__ is not whole and _NOTE not in getattr(err, "__notes__", ()):
        err.add_note(_NOTE)


def _chain(err: BaseException) -> Iterator[BaseException]:
    """The exception, and those it came from."""
    seen: set[int] = set()
    todo: list[BaseException | None] = [err]
    while todo:
        e = todo.pop()
        if e is not None and id(e) not in seen:
            seen.add(id(e))
            yield e
            todo += [e.__cause__, e.__context__]


def _users(tb: TracebackType | None) -> TracebackType | None:
    """The traceback without this package's frames; itself if it has none."""
    entries = []
    own = False
    while tb is not None:
        if source.is_user_code(tb.tb_frame.f_code):
            entries.append(tb)
        else:
            own = True
        tb = tb.tb_next
    if not own:
        return entries[0] if entries else None
    out: TracebackType | None = None
    for e in reversed(entries):
        out = TracebackType(out, e.tb_frame, e.tb_lasti, e.tb_lineno)
    return out
