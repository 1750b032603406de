"""How a gamma distributed number moves with the distribution's shape parameter.

A number x drawn from the gamma distribution of shape a is the quantile of some fixed level u: P(a, x) = u, where P is the regularised lower
incomplete gamma function. So dx/da = -(dP/da) / (dP/dx) (M. Figurnov, S. Mohamed, A. Mnih, Implicit reparameterization gradients, 2018),
with

    x <= max(a, 1)   P = x^a e^-x / Gamma(a + 1) (1 + x / (a + 1) + x^2 / ((a + 1) (a + 2)) + ...)
    else         1 - P = x^a e^-x / Gamma(a) / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / (x + 5 - a - ...)))

(Abramowitz and Stegun 6.5.29 and 6.5.31), both differentiated term by term, the latter by the modified Lentz algorithm. Where a is so great
that these take thousands of terms, x = d v^3 with d = a - 1/3 and v = 1 + z / sqrt(9 d) for a z that hardly depends on a (G. Marsaglia,
W. Tsang, A simple method for generating gamma variables, 2000)."""

from __future__ import annotations

from typing import Any

from steno import lax, numpy as jnp
from steno.core import dtypes
from steno.core.config import enable_x64
from steno.custom_derivatives import custom_jvp
from steno.lax.elementwise import digamma
from steno.lax.operands import as_array, elementwise
from steno.ops.arithmetic import add
from steno.ops.convert import convert_element_type

Array = Any

_GREAT = 1e6
"""Shapes from here on go by the cube: its error is of the order a^-3/2."""
_EPS = 1e-15
_TERMS = 20_000
_TINY = 1e-300


def random_gamma_grad(a: Array, x: Array) -> Array:
    """The derivative of a sample `x` of the gamma distribution of shape `a` by `a`; floats of one dtype, elementwise. It cannot be
    differentiated further. TypeError for other dtypes."""
    a, x = as_array("random_gamma_grad", a), as_array("random_gamma_grad", x)
    out = elementwise(add, a, x)  # their common type, or an error that says why there is none
    if not dtypes.is_float(out.dtype):
        raise TypeError(f"random_gamma_grad requires arguments of float dtypes, got {dtypes.name(a.dtype)} and {dtypes.name(x.dtype)}")
    with enable_x64(True):  # the terms cancel to a few digits less than they have
        a, x = (_as(jnp.broadcast_to(v, out.shape), dtypes.float64) for v in (a, x))
        return _as(jnp.where(x == 0, 0, log_rate(a, jnp.log(x), x) * x), out.dtype)


def _as(x: Array, dtype: Any) -> Array:
    return x if x.dtype == dtype else convert_element_type(x, new_dtype=dtype, weak_type=False, sharding=None)


@custom_jvp
def log_rate(a: Array, log_x: Array, x: Array) -> Array:
    """d log(x) / da of samples x, given also as logarithms, for they may underflow. float64, all of one shape."""
    flat = [v.reshape(-1) for v in (a, log_x, x)]
    return lax.map(lambda row: _log_rate(*row), tuple(flat)).reshape(a.shape)


def _log_rate(a: Array, log_x: Array, x: Array) -> Array:
    """Of one sample."""
    which = jnp.where(a >= _GREAT, 2, jnp.where(x <= jnp.maximum(a, 1), 0, 1))
    proper = (a > 0) & (x >= 0) & (x < jnp.inf)
    return lax.switch(jnp.where(proper, which, 3), (_by_series, _by_fraction, _by_cube, lambda a, log_x, x: a * jnp.nan), a, log_x, x)


def _by_series(a: Array, log_x: Array, x: Array) -> Array:
    total, slope = _series(a, x)
    return -(total * (log_x - digamma(a + 1)) + slope) / a


def _by_fraction(a: Array, log_x: Array, x: Array) -> Array:
    fraction, slope = _fraction(a, x)
    return fraction * (log_x - digamma(a)) + slope


def _by_cube(a: Array, log_x: Array, x: Array) -> Array:
    d = a - 1 / 3
    v = jnp.cbrt(x / d)
    return (v - 1.5 * (v - 1)) / (v * d)


@log_rate.defjvp
def _(primals: Any, tangents: Any) -> Any:
    raise NotImplementedError("random_gamma_grad, the derivative of gamma distributed numbers, cannot be differentiated further")


def _until(unfinished: Any, step: Any, state: Any) -> Any:
    return lax.while_loop(lambda s: (s[0] < _TERMS) & unfinished(*s), lambda s: (s[0] + 1, *step(*s)), (1, *state))


def _series(a: Array, x: Array) -> tuple[Array, Array]:
    """S = 1 + x / (a + 1) + x^2 / ((a + 1) (a + 2)) + ..., and dS/da."""

    def unfinished(n: Array, term: Array, change: Array, total: Array, slope: Array) -> Array:
        return (term > _EPS * total) | (jnp.abs(change) > _EPS * jnp.abs(slope))

    def step(n: Array, term: Array, change: Array, total: Array, slope: Array) -> tuple[Array, ...]:
        below = a + _as(n, a.dtype)
        change = x / below * (change - term / below)
        term = x / below * term
        return term, change, total + term, slope + change

    one = a * 0 + 1
    _, _, _, total, slope = _until(unfinished, step, (one, one * 0, one, one * 0))
    return total, slope


def _fraction(a: Array, x: Array) -> tuple[Array, Array]:
    """F = 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ...)), and dF/da: the product of the ratios c d of convergents, and the sum of the
    derivatives of their logarithms."""
    b0 = x + 1 - a

    def unfinished(n: Array, c: Array, dc: Array, d: Array, dd: Array, f: Array, log_slope: Array, ratio: Array, change: Array) -> Array:
        return (jnp.abs(ratio - 1) > _EPS) | (jnp.abs(change) > _EPS * (jnp.abs(log_slope) + jnp.abs(dc / c)))

    def step(n: Array, c: Array, dc: Array, d: Array, dd: Array, f: Array, log_slope: Array, *_: Array) -> tuple[Array, ...]:
        k = _as(n, a.dtype)
        top, b = -k * (k - a), b0 + 2 * k  # their derivatives by a: k and -1
        c, dc = b + top / c, -1 + k / c - top * dc / (c * c)
        last, d = d, 1 / (b + top * d)
        dd = -d * d * (-1 + k * last + top * dd)
        ratio, change = c * d, dc / c + dd / d
        return c, dc, d, dd, f * ratio, log_slope + change, ratio, change

    none, one = a * 0, a * 0 + 1
    start = (one / _TINY, none, one / b0, one / (b0 * b0), one / b0, one / b0, none, one)
    *_, f, log_slope, _, _ = _until(unfinished, step, start)
    return f, f * log_slope


__all__ = ["log_rate", "random_gamma_grad"]
