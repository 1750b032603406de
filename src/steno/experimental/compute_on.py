"""Where functions run, by the name of `jax.experimental.compute_on`: there is one place."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

from steno.api import jit
from steno.derivatives import check_callable

__all__ = ["compute_on"]


def compute_on(
    f: Callable[..., Any] | None = None, *, compute_type: str, out_memory_spaces: Any, compiler_options: Any = None
) -> Callable[..., Any]:
    """`f` as a jitted function; without it a decorator. The other arguments say where it is to run, and where its results go.

    ValueError for a `compute_type` other than "device_host", "device", "tpu_sparsecore" and "gpu_stream:#"."""
    if f is None:
        options = {"compute_type": compute_type, "out_memory_spaces": out_memory_spaces, "compiler_options": compiler_options}
        return functools.partial(compute_on, **options)
    if not re.fullmatch(r"device_host|device|tpu_sparsecore|gpu_stream:\d+", compute_type):
        raise ValueError(
            f"compute_on: Invalid compute type {compute_type!r}; there are 'device_host', 'device', 'tpu_sparsecore' and 'gpu_stream:#'"
        )
    check_callable(f)
    return jit(f)
