"""Numbers of a generator that the process has: `rng_uniform`."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from steno.callback import io_callback
from steno.core import dtypes
from steno.lax.operands import Array, ArrayLike, as_array, shape_argument
from steno.stages import ShapeDtypeStruct

_GENERATOR: Final = np.random.default_rng(0)


def rng_uniform(a: ArrayLike, b: ArrayLike, shape: Any) -> Array:
    """Numbers in [a, b), integers or floats as `a` and `b` are, others each time, also when a compiled program runs again. For numbers that
    can be drawn again there is `random`.

    ValueError unless `a` and `b` are scalars of one dtype."""
    low, high = as_array("rng_uniform", a, 0), as_array("rng_uniform", b, 1)
    if low.dtype != high.dtype:
        raise ValueError(f"rng_uniform: the bounds must have identical dtypes, got {dtypes.name(low.dtype)} and {dtypes.name(high.dtype)}")
    if low.ndim or high.ndim:
        raise ValueError(f"rng_uniform: the bounds must be scalars; got shapes {low.shape} and {high.shape}")
    shape = shape_argument("rng_uniform", shape)

    def draw(low: Any, high: Any) -> np.ndarray:
        first, last = np.asarray(low), np.asarray(high)
        if dtypes.is_integer(first.dtype):
            return np.asarray(_GENERATOR.integers(int(first), int(last), shape), dtype=first.dtype)
        return np.asarray(_GENERATOR.random(shape) * (float(last) - float(first)) + float(first)).astype(first.dtype)

    return io_callback(draw, ShapeDtypeStruct(shape, low.dtype), low, high)
