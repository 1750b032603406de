"""The normal distribution cut to [loc + a scale, loc + b scale]."""

from __future__ import annotations

from typing import Any

from steno import numpy as jnp
from steno.scipy.special.normal import log_ndtr_core, ndtr_core
from steno.scipy.stats import norm
from steno.scipy.stats.faces import elementwise, of, within

Array = Any
ArrayLike = Any


def _less(p: Array, q: Array) -> Array:
    """log(exp(p) - exp(q)) for p >= q."""
    d = jnp.where(p == q, -1.0, q - p)
    near = d > -0.7
    rest = jnp.where(near, jnp.log(-jnp.expm1(jnp.where(near, d, -1.0))), jnp.log1p(-jnp.exp(jnp.where(near, -1.0, d))))
    return jnp.where(p == q, -jnp.inf, p + rest)


def _log_mass(a: Array, b: Array) -> Array:
    """The logarithm of the probability of [a, b] under the normal distribution: of intervals in a tail by the tail's logarithms."""
    right = a > 0
    low, high = jnp.where(right, -b, a), jnp.where(right, -a, b)
    across = high > 0
    u, v = jnp.where(across, -1.0, low), jnp.where(across, 0.0, high)
    tail = _less(log_ndtr_core(v), log_ndtr_core(u))
    return jnp.where(across, jnp.log1p(-ndtr_core(low) - ndtr_core(-high)), tail)


@elementwise
def logpdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density; -inf outside of the support, NaN for a >= b."""
    y = (x - loc) / scale
    out = within((y >= a) & (y <= b), norm.logpdf(y) - _log_mass(a, b) - jnp.log(scale))
    return jnp.where(a >= b, jnp.nan, out)


pdf = of(logpdf, "pdf")


@elementwise
def logcdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the distribution function; NaN for a >= b."""
    y = (x - loc) / scale
    inside = (y > a) & (y < b)
    v = jnp.where(inside, y, b)
    out = jnp.where(inside, _log_mass(a, v) - _log_mass(a, b), jnp.where(y <= a, -jnp.inf, 0.0))
    # near the upper end by what is missing to 1
    missing = jnp.exp(_log_mass(v, b) - _log_mass(a, b))
    close = inside & (out > -0.1)
    out = jnp.where(close, jnp.log1p(-jnp.where(close, missing, 0.0)), out)
    return jnp.where((a >= b) | jnp.isnan(y), jnp.nan, out)


cdf = of(logcdf, "cdf")


@elementwise
def logsf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of sf(x)."""
    return logcdf(-(x - loc) / scale, -b, -a)


sf = of(logsf, "sf")


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]
