"""Programs of several processes, by the names of `jax.distributed`: there is one process."""

from __future__ import annotations

from typing import Any

_initialized = False


def initialize(
    coordinator_address: str | None = None, num_processes: int | None = None, process_id: int | None = None, **options: Any
) -> None:
    """Does nothing for one process. NotImplementedError for several; RuntimeError the second time."""
    global _initialized
    if _initialized:
        raise RuntimeError("distributed.initialize has been called already")
    if num_processes not in (None, 1) or process_id not in (None, 0):
        raise NotImplementedError(f"distributed.initialize: a program is one process here, got num_processes={num_processes}")
    _initialized = True


def is_initialized() -> bool:
    """Whether `initialize` has been called."""
    return _initialized


def shutdown() -> None:
    """Undoes `initialize`."""
    global _initialized
    _initialized = False
