"""Types for annotations, by the names of `jax.typing`."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from steno.core.dtypes import KeyDType
from steno.core.trace import Array


@runtime_checkable
class SupportsDType(Protocol):
    """Has a dtype."""

    @property
    def dtype(self) -> Any: ...


ArrayLike = Array | np.ndarray | np.bool_ | np.number | bool | int | float | complex
DTypeLike = str | type | np.dtype | KeyDType | SupportsDType
ExtendedDType = KeyDType
