"""Functions made of logarithms: entropies, logit, the transformation of Box and Cox; and softmax and its relatives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from steno import lax, numpy as jnp
from steno.api import jit
from steno.core import dtypes
from steno.custom_derivatives import custom_jvp
from steno.lax.gammas import log1p_rest
from steno.lax.in_double import in_double, polynomial
from steno.nn.along_axes import log_softmax as _log_softmax, logsumexp, softmax as _softmax
from steno.numpy.operands import convert, promoted_inexact, weak_type_of
from steno.scipy.special.faces import operands, special

Array = Any
ArrayLike = Any


def softmax(x: ArrayLike, /, *, axis: Any = None) -> Array:
    """exp(x), divided by its sum over `axis`; None: all axes."""
    return _softmax(x, axis)


def log_softmax(x: ArrayLike, /, *, axis: Any = None) -> Array:
    """The logarithm of softmax(x)."""
    return _log_softmax(x, axis)


@jit
def expit(x: ArrayLike) -> Array:
    """The logistic function 1 / (1 + exp(-x))."""
    (x,) = promoted_inexact("expit", x)
    return lax.logistic(x)


ATANH_REST = (0.6666666667320383, 0.39999992834942943, 0.2857268086369271, 0.22146002204342277, 0.20053935957589125)
"""(2 atanh(s) - 2 s) / s**3 as a polynomial of s**2 up to 0.2135**2; as part of 2 atanh(s) to 39 bits."""


def _logit_to_single(p: Array) -> Array:
    """Of a float64 that came from a shorter format, as precise as float32 shows: log(p / q) for q = 1 - p by
    k log(2) + 2 atanh((p - 2**k q) / (p + 2**k q)), 2**k near p / q."""

    def bits(x: Array) -> Array:
        return lax.bitcast_convert_type(x, dtypes.int64)

    def of_bits(n: Array) -> Array:
        return lax.bitcast_convert_type(n, dtypes.float64)

    q = 1 - p
    k = (bits(p) - bits(q) + (1 << 51)) >> 52  # the bits of floats, as integers, are logarithms: linear between powers of two
    scaled = q * of_bits((k + 1023) << 52)
    s = (p - scaled) / (p + scaled)
    y = s * s
    whole = of_bits(k + 0x4338000000000000) - 1.5 * 2.0**52  # k as a float: few targets convert from int64
    out = whole * math.log(2) + (2 * s + s * y * polynomial(y, ATANH_REST))
    ends = jnp.where(p == 0, -math.inf, jnp.where(p == 1, math.inf, math.nan))
    return jnp.where((p > 0) & (p < 1), out, ends)


def _logit_to_double(p: Array) -> Array:
    middle = jnp.abs(p - 0.5) < 0.25
    s = jnp.where(middle, 2 * (p - 0.5), 0.0)
    return jnp.where(middle, jnp.log1p(s) - jnp.log1p(-s), jnp.log(p) - jnp.log1p(-p))


@special(lambda out, p: 1 / (p * (1 - p)), own=True)
def logit(p: ArrayLike) -> Array:
    """log(p / (1 - p)), the inverse of expit."""
    return in_double(_logit_to_double if dtypes.itemsize_bits(p.dtype) > 32 else _logit_to_single, p)


@custom_jvp
def _xlogy(x: Array, y: Array) -> Array:
    zero = (x == 0) & ~jnp.isnan(y)
    return jnp.where(zero, jnp.zeros_like(x), x * jnp.log(jnp.where(zero, jnp.ones_like(y), y)))


_xlogy.defjvps(lambda g, out, x, y: (g * jnp.log(y)).astype(g.dtype), lambda g, out, x, y: (g * x / y).astype(g.dtype))


@jit
def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    """x log(y), 0 for x = 0 unless y is NaN."""
    x, y = jnp.broadcast_arrays(*promoted_inexact("xlogy", x, y))
    return _xlogy(x, y)


@custom_jvp
def _xlog1py(x: Array, y: Array) -> Array:
    zero = (x == 0) & ~jnp.isnan(y)
    return jnp.where(zero, jnp.zeros_like(x), x * jnp.log1p(jnp.where(zero, jnp.zeros_like(y), y)))


_xlog1py.defjvps(lambda g, out, x, y: (g * jnp.log1p(y)).astype(g.dtype), lambda g, out, x, y: (g * x / (1 + y)).astype(g.dtype))


@jit
def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    """x log(1 + y), 0 for x = 0 unless y is NaN."""
    x, y = jnp.broadcast_arrays(*promoted_inexact("xlog1py", x, y))
    return _xlog1py(x, y)


@custom_jvp
def _entr(x: Array) -> Array:
    return jnp.where(x < 0, -np.inf, -_xlogy(x, x))


_entr.defjvps(lambda g, out, x: (g * (-jnp.log(x) - 1)).astype(g.dtype))


@jit
def entr(x: ArrayLike) -> Array:
    """-x log(x); 0 at 0, -inf for negative x."""
    (x,) = promoted_inexact("entr", x)
    return _entr(x)


def _rel_entr(p: Array, q: Array) -> Array:
    both = (p > 0) & (q > 0)
    v, w = jnp.where(both, p, 1.0), jnp.where(both, q, 1.0)
    near = jnp.abs(v - w) < 0.5 * w
    log = jnp.where(near, jnp.log1p((v - w) / w), jnp.log(v / w))
    out = jnp.where(both, v * log, jnp.where((p == 0) & (q >= 0), 0.0, jnp.inf))
    return jnp.where(jnp.isnan(p) | jnp.isnan(q), jnp.nan, out)


def _kl_div(p: Array, q: Array) -> Array:
    """p log(p / q) - p + q; p (r - log(1 + r)) with r = (q - p) / p for q < 2 p."""
    out = _rel_entr(p, q)
    near = (p > 0) & (q > 0) & (q < 2 * p)
    v, w = jnp.where(near, p, 1.0), jnp.where(near, q, 1.0)
    return jnp.where(near, v * log1p_rest((w - v) / v, w / v), jnp.where(jnp.isinf(out), out, out - p + q))


@jit
def rel_entr(p: ArrayLike, q: ArrayLike) -> Array:
    """p log(p / q) for positive p and q, 0 for p = 0 and q >= 0, infinite elsewhere."""
    out = in_double(_rel_entr, *operands("rel_entr", p, q))
    return convert(out, out.dtype, weak_type_of(p) and weak_type_of(q))


@jit
def kl_div(p: ArrayLike, q: ArrayLike) -> Array:
    """rel_entr(p, q) - p + q."""
    out = in_double(_kl_div, *operands("kl_div", p, q))
    return convert(out, out.dtype, weak_type_of(p) and weak_type_of(q))


def _power_less_1(log: Array, power: Array) -> Array:
    """(exp(power * log) - 1) / power, log for the power 0."""
    zero = power == 0
    k = jnp.where(zero, 1.0, power)
    return jnp.where(zero, log, jnp.expm1(k * log) / k)


def _by_power(log: Array, power: Array) -> Array:
    """d/dk (exp(k l) - 1) / k = l**2 (t exp(t) - exp(t) + 1) / t**2 with t = k l; near 0 by its series, the sum of t**n / (n! (n + 2))."""
    t = power * log
    near = jnp.abs(t) < 1
    u, k = jnp.where(near, t, 0.0), jnp.where(near, 1.0, power)
    series = log * log * polynomial(u, [1 / (math.factorial(n) * (n + 2)) for n in range(19)])
    return jnp.where(near, series, (log * jnp.exp(k * log) - jnp.expm1(k * log) / k) / k)


@special(lambda out, x, k: lax.pow(x, k - 1), lambda out, x, k: _by_power(jnp.log(x), k))
def boxcox(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """The transformation of Box and Cox (1964): (x**lmbda - 1) / lmbda, log(x) for lmbda = 0."""
    return _power_less_1(jnp.log(x), lmbda)


@special(lambda out, x, k: lax.pow(1 + x, k - 1), lambda out, x, k: _by_power(jnp.log1p(x), k))
def boxcox1p(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """boxcox(1 + x, lmbda)."""
    return _power_less_1(jnp.log1p(x), lmbda)


__all__ = [
    "boxcox", "boxcox1p", "entr", "expit", "kl_div", "log_softmax", "logit", "logsumexp", "rel_entr", "softmax", "xlog1py", "xlogy",
]  # fmt: skip
