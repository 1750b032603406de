"""Which frames tracebacks show."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any

from steno.core import source
from steno.core.boundary import boundary


def api_boundary(fun: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """`fun`, at which tracebacks are filtered. `options`: names for JAX's crash reports."""
    return boundary(fun)


def register_exclusion(path: str) -> None:
    """Frames of the file `path` count as internal."""
    source.hide(path)


def include_frame(frame: FrameType) -> bool:
    """Whether a filtered traceback shows the frame."""
    return source.is_user_code(frame.f_code)
