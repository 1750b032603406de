# Made by `make stubs`.
from collections.abc import Sequence
from steno.typing import Array, ArrayLike
from typing import Any

class RegularGridInterpolator:
    def __init__(self, points: Sequence[ArrayLike], values: ArrayLike, method: str = ..., bounds_error: bool = ..., fill_value: Any = ...) -> None: ...
    def __call__(self, xi: Any, method: str | None = ...) -> Array: ...
