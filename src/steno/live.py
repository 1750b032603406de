"""Which arrays there are."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from typing import Any

from steno._native import ArrayImpl
from steno.device import devices


def live_arrays(platform: str | None = None) -> list[Any]:
    """The arrays that exist and have not been deleted: those that Python refers to from containers, objects, functions or variables.

    They are looked for, since nothing keeps a list of them: this takes time proportional to the number of Python's objects. RuntimeError
    for a platform there is not."""
    devices(platform)
    found: dict[int, Any] = {}
    _gather(gc.get_objects(), found, {})
    for frame in sys._current_frames().values():  # running functions are not among the objects
        while frame is not None:
            if frame.f_code is not live_arrays.__code__:  # its variables would keep what was found
                _gather([frame.f_locals], found, {})
            frame = frame.f_back
    return [x for x in found.values() if not x.is_deleted()]


def _gather(objects: Iterable[Any], found: dict[int, Any], seen: dict[int, Any]) -> None:
    """Adds the arrays that the objects refer to, also through containers that the garbage collector does not track."""
    for x in gc.get_referents(*objects):
        if type(x) is ArrayImpl:
            found[id(x)] = x
        elif isinstance(x, dict | tuple) and not gc.is_tracked(x) and id(x) not in seen:
            seen[id(x)] = x
            _gather([x], found, seen)
