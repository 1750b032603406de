"""What the process runs on, and choices that JAX offers and a CPU compiler of one level does not depend on."""

from __future__ import annotations

import enum
import os
import platform
import sys
from typing import Any, Final

import ml_dtypes
import numpy as np

from steno.device import device_count, devices, process_count
from steno.version import __version__


class Inline(enum.Enum):
    """When a jitted function is inlined into the one that calls it. JAX_EARLY: its ops are recorded instead of one `jit` op; else the
    compiler, which sees through all calls, decides."""

    JAX_EARLY = "jax_early"
    JAX_LATE = "jax_late"
    XLA_EARLY = "xla_early"
    XLA_LATE = "xla_late"
    AUTO = "auto"


class CompilerEffortLevel(enum.IntEnum):
    """How hard the compiler should try; accepted as a compiler option. There is one level."""

    UNKNOWN = 0
    O0 = 9
    O1 = 19
    O2 = 29
    O3 = 39


_FIELDS: Final = ("steno", "numpy", "ml_dtypes", "python", "device info", "process_count", "platform")


def print_environment_info(return_string: bool = False) -> str | None:
    """Prints versions, devices and the platform, for reports of errors; or returns the text."""
    values: tuple[Any, ...] = (
        __version__, np.__version__, ml_dtypes.__version__, sys.version.replace("\n", " "),
        f"{devices()[0].device_kind}, {device_count()} device, {os.cpu_count()} processors", process_count(), platform.uname(),
    )  # fmt: skip
    width = max(map(len, _FIELDS)) + 1
    text = "\n".join(f"{name + ':':{width}} {value}" for name, value in zip(_FIELDS, values, strict=True))
    if return_string:
        return text
    print(text)
    return None
