# Made by `make stubs`.
from steno.typing import Array, ArrayLike

def vq(obs: ArrayLike, code_book: ArrayLike, check_finite: bool = ...) -> tuple[Array, Array]: ...
