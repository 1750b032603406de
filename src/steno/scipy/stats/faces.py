"""How the functions of distributions take their operands: promoted and broadcast, computed in float64, rounded to their dtype."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from steno import numpy as jnp
from steno.api import jit
from steno.lax.in_double import in_double
from steno.numpy.operands import convert, weak_type_of
from steno.scipy.special.faces import operands

Array = Any
ArrayLike = Any
Function = Callable[..., Array]


def elementwise(body: Function) -> Function:
    """`body`, a function of float64 arrays of one shape, as one of arrays that broadcast together; weakly typed where all of them are."""
    signature = inspect.signature(body)
    name = f"{body.__module__.rpartition('.')[2]}.{body.__name__}"

    @functools.wraps(body)
    def call(*args: ArrayLike, **named: ArrayLike) -> Array:
        bound = signature.bind(*args, **named)
        bound.apply_defaults()
        xs = bound.args
        out = in_double(body, *operands(name, *xs))
        return convert(out, out.dtype, True) if all(map(weak_type_of, xs)) else out

    return jit(call)


def of(function: Function, name: str, doc: str, then: Function = jnp.exp) -> Function:
    """then(function(...)), under the name."""
    body = inspect.unwrap(function)

    @functools.wraps(body)
    def composed(*xs: Array) -> Array:
        return then(function(*xs))

    composed.__name__ = composed.__qualname__ = name
    composed.__doc__ = doc
    return elementwise(composed)


def logarithm(near: Function, far: Function, name: str) -> Function:
    """log(near(...)): by log(1 - far(...)) where that is precise."""
    body = inspect.unwrap(near)

    @functools.wraps(body)
    def composed(*xs: Array) -> Array:
        p, q = near(*xs), far(*xs)
        great = p > 0.5
        return jnp.where(great, jnp.log1p(-jnp.where(great, q, 0.0)), jnp.log(jnp.where(great, 1.0, p)))

    composed.__name__ = composed.__qualname__ = name
    composed.__doc__ = f"The logarithm of {near.__name__}(...)."
    return elementwise(composed)


def within(inside: Array, value: Array, beyond: float = -jnp.inf) -> Array:
    return jnp.where(inside, value, beyond)


__all__ = ["elementwise", "logarithm", "of", "within"]
