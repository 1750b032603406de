"""Arrays of other libraries, without copying, by the names of `jax.dlpack`."""

from __future__ import annotations

from typing import Any

import numpy as np

from steno import _native
from steno.core import dtypes
from steno.device import device_put


def from_dlpack(external_array: Any, device: Any = None, copy: bool | None = None) -> Any:
    """The array of another library (anything with `__dlpack__`), over the same memory where that is possible, unless `copy` is True.
    ValueError if `copy` is False and it is not possible."""
    out = _native.from_dlpack(external_array, copy=copy)
    return out if device is None else device_put(out, device)


def is_supported_dtype(dtype: Any) -> bool:
    """Whether arrays of this dtype can be handed over."""
    d = dtypes.as_dtype(dtype)
    return isinstance(d, np.dtype) and (d.kind in "biufc" or d == dtypes.bfloat16)
