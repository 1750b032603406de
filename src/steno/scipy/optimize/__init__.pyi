# Made by `make stubs`.
from collections.abc import Callable, Mapping
from steno.scipy.optimize.minimize import OptimizeResults as OptimizeResults
from steno.typing import Array
from typing import Any

def minimize(fun: Callable[..., Any], x0: Array, args: tuple[Any, ...] = ..., *, method: str, tol: float | None = ..., options: Mapping[str, Any] | None = ...) -> OptimizeResults: ...
