"""The values that `debug_nans` and `debug_infs` forbid."""

from __future__ import annotations

from typing import Any

import numpy as np

from steno._native import ArrayImpl
from steno.core import dtypes
from steno.core.config import config


def forbidden(x: Any) -> str | None:
    """`nan` or `inf`, if the array holds such values and the configuration forbids them."""
    if not isinstance(x, ArrayImpl) or isinstance(x.dtype, dtypes.KeyDType) or not dtypes.is_inexact(x.dtype):
        return None
    wide = x._value.astype(np.complex128 if dtypes.is_complex(x.dtype) else np.float64)
    if config._state.debug_nans and np.isnan(wide).any():
        return "nan"
    if config._state.debug_infs and np.isinf(wide).any():
        return "inf"
    return None


def check(out: Any, where: str) -> None:
    """FloatingPointError if one of the arrays (one, or a list) holds a forbidden value."""
    for x in out if isinstance(out, list) else (out,):
        bad = forbidden(x)
        if bad is not None:
            raise FloatingPointError(f"invalid value ({bad}) encountered in {where}")
