"""How the functions of `scipy.special` take their operands."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from steno import numpy as jnp
from steno.api import jit
from steno.core import dtypes
from steno.lax.in_double import with_derivatives
from steno.numpy.operands import convert, promoted_inexact, strong, weak_type_of

Array = Any
ArrayLike = Any


def operands(fun: str, *xs: ArrayLike) -> list[Array]:
    """Arrays of one float dtype and one shape. ValueError for complex ones."""
    out = promoted_inexact(fun, *xs)
    if dtypes.kind(out[0].dtype) == "c":
        raise ValueError(f"{fun} does not support complex-valued inputs.")
    return [strong(x) for x in jnp.broadcast_arrays(*out)]


def special(
    *partials: Callable[..., Array] | None, weak: bool = True, own: bool = False
) -> Callable[[Callable[..., Array]], Callable[..., Array]]:
    """A function of floats in float64 as one of arrays: with its partial derivatives (`partial(out, *xs)`; None: see `with_derivatives`).
    `weak`: operands that are all weakly typed give a result that is. `own`: see `with_derivatives`."""

    def decorate(body: Callable[..., Array]) -> Callable[..., Array]:
        core = with_derivatives(body, *partials, own=own)
        signature = inspect.signature(body)

        @functools.wraps(body)
        def call(*args: ArrayLike, **named: ArrayLike) -> Array:
            xs = signature.bind(*args, **named).args
            out = core(*operands(body.__name__.lstrip("_"), *xs))
            return convert(out, out.dtype, True) if weak and all(map(weak_type_of, xs)) else out

        return jit(call)

    return decorate


def floats(fun: str, x: ArrayLike) -> Array:
    """An array of float32 or float64. TypeError for other dtypes."""
    x = jnp.asarray(x)
    if x.dtype not in (dtypes.float32, dtypes.float64):
        raise TypeError(f"{fun}: x.dtype={dtypes.name(x.dtype)} is not supported: it takes float32 and float64")
    return x


__all__ = ["floats", "operands", "special"]
