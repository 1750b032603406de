"""How the functions of distributions take their operands: promoted and broadcast, computed in float64, rounded to their dtype."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final

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


DOCS: Final = {
    "pdf": "The density.",
    "logpdf": "The logarithm of the density.",
    "pmf": "The probability of k.",
    "cdf": "The distribution function.",
    "logcdf": "The logarithm of the distribution function.",
    "sf": "1 - cdf(x), precise where that is small.",
    "logsf": "The logarithm of sf(x).",
    "isf": "The inverse of sf.",
}


def _composed(like: Function, name: str, function: Function, module: str | None = None) -> Function:
    """`function`, with the parameters of `like`, as the function of that name of a distribution."""
    body = inspect.unwrap(like)

    @functools.wraps(body)
    def composed(*xs: Array) -> Array:
        return function(*xs)

    composed.__name__ = composed.__qualname__ = name
    composed.__module__ = body.__module__ if module is None else module
    composed.__doc__ = DOCS[name]
    return elementwise(composed)


def of(function: Function, name: str, then: Function = jnp.exp) -> Function:
    """then(function(...)), under the name."""
    return _composed(function, name, lambda *xs: then(function(*xs)))


def mirrored(function: Function, name: str, module: str | None = None) -> Function:
    """function(-x, -loc, scale): of the distribution of -x. Where that is the same one, the sf of its cdf."""
    return _composed(function, name, lambda x, loc, scale: function(-x, -loc, scale), module)


def upper_quantile(ppf: Function) -> Function:
    """The isf of a distribution that is symmetric about loc."""
    return _composed(ppf, "isf", lambda q, loc, scale: -ppf(q, -loc, scale))


def logarithm(near: Function, far: Function, name: str) -> Function:
    """log(near(...)): by log(1 - far(...)) where that is precise."""

    def log(*xs: Array) -> Array:
        p, q = near(*xs), far(*xs)
        great = p > 0.5
        return jnp.where(great, jnp.log1p(-jnp.where(great, q, 0.0)), jnp.log(jnp.where(great, 1.0, p)))

    return _composed(near, name, log)


def within(inside: Array, value: Array, beyond: float = -jnp.inf) -> Array:
    return jnp.where(inside, value, beyond)


__all__ = ["elementwise", "logarithm", "mirrored", "of", "upper_quantile", "within"]
