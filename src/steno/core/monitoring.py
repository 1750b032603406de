"""What is told of what happens inside: events, to listeners, under JAX's names; and the log of the logger `steno`, at DEBUG, or at
WARNING where the knob `log_compiles` asks for it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Final, final

from steno.core.config import config

Listener = Callable[..., None]

TRACE: Final = "/jax/core/compile/jaxpr_trace_duration"
LOWER: Final = "/jax/core/compile/jaxpr_to_mlir_module_duration"
COMPILE: Final = "/jax/core/compile/backend_compile_duration"

_events: Final[list[Listener]] = []
_durations: Final[list[Listener]] = []
_spans: Final[list[Listener]] = []
_scalars: Final[list[Listener]] = []


def register_event_listener(callback: Listener) -> None:
    """From now on `callback(event, **kwargs)` is called for each event without a value."""
    _events.append(callback)


def register_event_duration_secs_listener(callback: Listener) -> None:
    """From now on `callback(event, seconds, **kwargs)` is called for each event with a duration."""
    _durations.append(callback)


def register_event_time_span_listener(callback: Listener) -> None:
    """From now on `callback(event, start, end, **kwargs)` is called for each event with a beginning and an end."""
    _spans.append(callback)


def register_scalar_listener(callback: Listener) -> None:
    """From now on `callback(event, value, **kwargs)` is called for each event with a number."""
    _scalars.append(callback)


def unregister_event_listener(callback: Listener) -> None:
    """Undoes `register_event_listener`. ValueError if it is not registered."""
    _events.remove(callback)


def unregister_event_duration_listener(callback: Listener) -> None:
    """Undoes `register_event_duration_secs_listener`. ValueError if it is not registered."""
    _durations.remove(callback)


def unregister_event_time_span_listener(callback: Listener) -> None:
    """Undoes `register_event_time_span_listener`. ValueError if it is not registered."""
    _spans.remove(callback)


def unregister_scalar_listener(callback: Listener) -> None:
    """Undoes `register_scalar_listener`. ValueError if it is not registered."""
    _scalars.remove(callback)


def clear_event_listeners() -> None:
    """Unregisters all."""
    for listeners in (_events, _durations, _spans, _scalars):
        listeners.clear()


def record_event(event: str, **kwargs: Any) -> None:
    """Tells the listeners of an event."""
    for f in tuple(_events):
        f(event, **kwargs)


def record_event_duration_secs(event: str, duration: float, **kwargs: Any) -> None:
    """Tells the listeners of an event and how long it took."""
    for f in tuple(_durations):
        f(event, duration, **kwargs)


def record_event_time_span(event: str, start_time: float, end_time: float, **kwargs: Any) -> None:
    """Tells the listeners of an event and when it began and ended."""
    for f in tuple(_spans):
        f(event, start_time, end_time, **kwargs)


def record_scalar(event: str, value: float, **kwargs: Any) -> None:
    """Tells the listeners of an event and a number."""
    for f in tuple(_scalars):
        f(event, value, **kwargs)


# Traces and compilations


DEBUG: Final = 10
WARNING: Final = 30
ERROR: Final = 40


_logger: Any = None


def log(level: int, message: str, *args: Any) -> None:
    """To the logger. Where `logging` was not imported nobody listens at DEBUG."""
    global _logger
    if _logger is None:
        if level <= DEBUG and "logging" not in sys.modules:
            return
        import logging  # noqa: PLC0415  a tenth of the time that steno's import takes, for messages that are rarely asked for

        _logger = logging.getLogger("steno")
    if _logger.isEnabledFor(level):
        _logger.log(level, message, *args)


def _level() -> int:
    return WARNING if config._state.log_compiles else DEBUG


def traced(name: str, seconds: float) -> None:
    """A function was traced."""
    record_event_duration_secs(TRACE, seconds, fun_name=name)
    log(_level(), "Finished tracing %s for jit in %.1f ms", name, seconds * 1e3)


@final
class compilation:
    """`with compilation(name) as timer: ...`: a program is compiled. `timer.seconds` is what it took."""

    __slots__ = ("_start", "name", "seconds")

    def __init__(self, name: str) -> None:
        self.name, self.seconds = name, 0.0

    def __enter__(self) -> compilation:
        log(_level(), "Compiling jit(%s)", self.name)
        self._start = time.perf_counter()
        return self

    def __exit__(self, kind: object, *exc: object) -> None:
        if kind is not None:
            return
        self.seconds = time.perf_counter() - self._start
        record_event_duration_secs(LOWER, 0.0, fun_name=self.name)  # lowering is a part of compiling
        record_event_duration_secs(COMPILE, self.seconds, fun_name=self.name)
        log(_level(), "Finished compiling jit(%s) in %.1f ms", self.name, self.seconds * 1e3)
