# Made by `make stubs`.
from collections.abc import Sequence
from steno.typing import Array, ArrayLike

def map_coordinates(input: ArrayLike, coordinates: Sequence[ArrayLike], order: int, mode: str = ..., cval: ArrayLike = ...) -> Array: ...
