"""A timeline of traces, compilations and the parts of a program that are annotated, by the names of `jax.profiler`.

`with trace(folder): ...` writes `folder/plugins/profile/<time>/steno.trace.json.gz` in the Chrome trace event format, which Perfetto and
chrome://tracing show."""

from __future__ import annotations

import gzip
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

from steno.core import monitoring, source
from steno.core.on_demand import on_demand


@final
class ProfileSession:
    """A recording that goes on. `stop()` ends it and gives the events."""

    def __init__(self, log_dir: os.PathLike[str] | str | None = None, **options: Any) -> None:
        self.log_dir = log_dir
        self.events: list[dict[str, Any]] = []
        self._begin = time.perf_counter()
        monitoring.register_event_duration_secs_listener(self._heard)

    def _heard(self, event: str, seconds: float, **details: Any) -> None:
        name = details.get("fun_name")
        self.add(event.rsplit("/", 1)[-1] + (f" {name}" if name else ""), time.perf_counter() - seconds, seconds, details)

    def add(self, name: str, start: float, seconds: float, details: dict[str, Any]) -> None:
        """An event: `start` by `time.perf_counter`."""
        self.events.append(
            {
                "name": name,
                "ph": "X",
                "pid": os.getpid(),
                "tid": threading.get_ident(),
                "ts": (start - self._begin) * 1e6,
                "dur": seconds * 1e6,
                "args": {k: str(v) for k, v in details.items()},
            }  # fmt: skip
        )

    def stop(self) -> list[dict[str, Any]]:
        """Ends the recording and writes it, if there is a folder to write to."""
        monitoring.unregister_event_duration_listener(self._heard)
        if self.log_dir is not None:
            folder = Path(self.log_dir) / "plugins" / "profile" / time.strftime("%Y_%m_%d_%H_%M_%S")
            folder.mkdir(parents=True, exist_ok=True)
            with gzip.open(folder / "steno.trace.json.gz", "wt") as out:
                json.dump({"traceEvents": self.events}, out)
        return self.events


_session: ProfileSession | None = None


def start_trace(log_dir: os.PathLike[str] | str, **options: Any) -> ProfileSession:
    """Begins to record; RuntimeError if a recording goes on. Options are accepted."""
    global _session
    if _session is not None:
        raise RuntimeError("start_trace: a recording goes on already; stop_trace() ends it")
    _session = ProfileSession(log_dir)
    return _session


def stop_trace() -> None:
    """Ends the recording and writes it. RuntimeError if there is none."""
    global _session
    if _session is None:
        raise RuntimeError("stop_trace: no recording goes on; start_trace(folder) begins one")
    session, _session = _session, None
    session.stop()


@contextmanager
def trace(log_dir: os.PathLike[str] | str, **options: Any) -> Iterator[ProfileSession]:
    """Records what happens inside."""
    session = start_trace(log_dir, **options)
    try:
        yield session
    finally:
        stop_trace()


class TraceAnnotation:
    """`with TraceAnnotation("name"): ...` is an event of the recording, if one goes on. `details`: shown with it. Nests."""

    def __init__(self, name: str, **details: Any) -> None:
        self._name, self._details = name, details

    def __enter__(self) -> TraceAnnotation:
        self._start = time.perf_counter()
        return self

    def __exit__(self, *exc: object) -> None:
        if _session is not None:
            _session.add(self._name, self._start, time.perf_counter() - self._start, self._details)


@final
class StepTraceAnnotation(TraceAnnotation):
    """`with StepTraceAnnotation("train", step_num=n): ...`: a step of a training loop."""


def annotate_function(func: Callable[..., Any], name: str | None = None, **details: Any) -> Callable[..., Any]:
    """The function, each call of which is an event under its name, or `name`."""
    label = getattr(func, "__qualname__", repr(func)) if name is None else name

    @source.wraps(func)
    def annotated(*args: Any, **kwargs: Any) -> Any:
        with TraceAnnotation(label, **details):
            return func(*args, **kwargs)

    return annotated


__getattr__, __dir__ = on_demand(__name__, {})
