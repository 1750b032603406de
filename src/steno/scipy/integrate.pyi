# Made by `make stubs`.
from steno.typing import Array, ArrayLike

def trapezoid(y: ArrayLike, x: ArrayLike | None = ..., dx: ArrayLike = ..., axis: int = ...) -> Array: ...
