"""Listeners of what happens inside: events by name, some with a duration. Traces and compilations are reported under JAX's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

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
