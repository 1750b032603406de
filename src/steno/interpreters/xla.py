"""The names of `jax.interpreters.xla` that are not about XLA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from steno.core.aval import pytype_aval_mappings as pytype_aval_mappings, typeof
from steno.core.on_demand import on_demand
from steno.core.op import Op

canonicalize_dtype_handlers: dict[type, Callable[[Any], Any]] = {np.ndarray: lambda x: np.asarray(x, typeof(x).dtype)}
"""What makes an ndarray of one of our dtypes of an object. Libraries enter their classes; NumPy converts those here."""


def apply_primitive(prim: Op, *args: Any, **params: Any) -> Any:
    """Evaluates an op on known values, whatever is being traced."""
    return prim.evaluate(args, params)


__getattr__, __dir__ = on_demand(__name__, {})
