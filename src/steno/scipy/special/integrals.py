"""Exponential, sine and cosine integrals, and Spence's function."""

from __future__ import annotations

import math
from typing import Any

from steno import lax, numpy as jnp
from steno.api import jit
from steno.core import dtypes
from steno.lax.gammas import EULER
from steno.lax.in_double import polynomial, with_derivatives
from steno.scipy.special.faces import floats, operands, special

Array = Any
ArrayLike = Any


_DEPTH = 110


def _fraction(n: Array, x: Array) -> Array:
    """E_n(x) exp(x) for x >= 1: 1 / (x + n - 1 n / (x + n + 2 - 2 (n + 1) / (x + n + 4 - ...))) (Abramowitz and Stegun 5.1.22), from an
    end that is far enough at 1."""

    def step(i: Array, f: Array) -> Array:
        k = _DEPTH - jnp.asarray(i, f.dtype)
        return x + n + 2 * (k - 1) - k * (n - 1 + k) / f

    return 1 / lax.fori_loop(0, _DEPTH, step, x + n + 2 * _DEPTH)


def _entire(x: Array, terms: int) -> Array:
    """The sum of x**k / (k k!) over k >= 1."""
    return x * polynomial(x, [1 / (k * math.factorial(k)) for k in range(1, terms)])


def _e1(x: Array) -> Array:
    near = x <= 1
    v = jnp.where(near, x, 1.0)
    w = jnp.where(near | (x == jnp.inf), 2.0, x)
    out = jnp.where(near, -EULER - jnp.log(v) - _entire(-v, 22), jnp.exp(-w) * _fraction(jnp.ones_like(w), w))
    out = jnp.where(x == jnp.inf, 0.0, jnp.where(x == 0, jnp.inf, out))
    return jnp.where((x < 0) | jnp.isnan(x), jnp.nan, out)


@special(lambda out, x: -jnp.exp(-x) / x, weak=False)
def exp1(x: ArrayLike) -> Array:
    """The exponential integral E1, int_x^inf exp(-t) / t dt; NaN for negative x."""
    return _e1(x)


def _ei(x: Array) -> Array:
    """Series up to 40, beyond it the asymptotic one (Abramowitz and Stegun 5.1.10, 5.1.51)."""
    v = jnp.clip(x, 0.0, 40.0)
    w = jnp.where((x > 40) & (x < 800), x, 40.0)
    far = polynomial(1 / w, [float(math.factorial(k)) for k in range(38)]) * (jnp.exp(w) / w)
    out = jnp.where(x <= 40, EULER + jnp.log(v) + _entire(v, 135), jnp.where(x >= 800, jnp.inf, far))
    out = jnp.where(x == 0, -jnp.inf, jnp.where(x < 0, -_e1(jnp.where(x < 0, -x, 1.0)), out))
    return jnp.where(jnp.isnan(x), jnp.nan, out)


@special(lambda out, x: jnp.exp(x) / x, weak=False)
def expi(x: ArrayLike) -> Array:
    """The exponential integral Ei, the principal value of int_-inf^x exp(t) / t dt."""
    return _ei(x)


def _en(n: Array, x: Array) -> Array:
    """For n >= 1; up to 1 by the series (Abramowitz and Stegun 5.1.12)."""
    near = x <= 1
    v = jnp.where(near & (x > 0), x, 1.0)
    w = jnp.where(near | (x == jnp.inf), 2.0, x)
    above = n - 1
    total = jnp.zeros_like(v)
    term = jnp.ones_like(v)
    for k in range(22):
        hit = above == k
        total = total + jnp.where(hit, 0.0, -term / jnp.where(hit, 1.0, k - above))
        term = term * (-v / (k + 1))
    # (-x)**(n - 1) / (n - 1)! (digamma(n) - log x)
    size = jnp.exp(above * jnp.log(v) - lax.lgamma(jnp.maximum(n, 1.0)))
    odd = jnp.floor(above / 2) * 2 != above
    head = jnp.where(odd, -size, size) * (lax.digamma(jnp.maximum(n, 1.0)) - jnp.log(v))
    out = jnp.where(near, head + total, jnp.exp(-w) * _fraction(n, w))
    out = jnp.where(x == jnp.inf, 0.0, out)
    return jnp.where(x == 0, jnp.where(n > 1, 1 / jnp.where(n > 1, above, 1.0), jnp.inf), out)


def _expn_of(n: Array, x: Array) -> Array:
    whole = jnp.floor(n) == n
    out = jnp.where(n == 0, jnp.exp(-x) / x, _en(jnp.where(n >= 1, n, 1.0), x))
    return jnp.where((n < 0) | (x < 0) | jnp.isnan(x) | ~whole, jnp.nan, out)


def _expn_by_x(out: Array, n: Array, x: Array) -> Array:
    return jnp.where(n == 0, -jnp.exp(-x) * (1 + 1 / x) / x, -_expn(jnp.maximum(n - 1, 0.0), x))


def _no_order(out: Array, n: Array, x: Array) -> Array:
    raise NotImplementedError("expn: no derivative by the order n; `stop_gradient` makes that a constant")


_expn = with_derivatives(_expn_of, _no_order, _expn_by_x)


@jit
def expn(n: ArrayLike, x: ArrayLike) -> Array:
    """The exponential integral E_n(x), int_1^inf exp(-x t) / t**n dt, for integers n >= 0; NaN for others, and for negative x."""
    return _expn(*operands("expn", n, x))


def _sici(x: Array) -> tuple[Array, Array]:
    """Series up to 4 (Abramowitz and Stegun 5.2.14, 5.2.16), beyond it -E1(i x) = Ci(x) + i (Si(x) - pi / 2) by its continued fraction."""
    a = jnp.abs(x)
    near = a <= 4
    v = jnp.where(near, a, 1.0)
    y = v * v
    s = v * polynomial(y, [(-1.0) ** k / ((2 * k + 1) * math.factorial(2 * k + 1)) for k in range(20)])
    c = EULER + jnp.log(v) + y * polynomial(y, [(-1.0) ** k / (2 * k * math.factorial(2 * k)) for k in range(1, 20)])
    w = jnp.where(near | (a > 1e9), 5.0, a)
    # 1 / (1 + i w - 1 / (3 + i w - 4 / (5 + i w - ...))), from its end
    z = lax.complex(jnp.zeros_like(w), w)
    f = z + 121
    for k in range(60, 0, -1):
        f = z + (2 * k - 1) - (k * k) / f
    cos, sin = jnp.cos(w), jnp.sin(w)
    e = lax.complex(cos, -sin) / f
    far = a > 1e9
    si = jnp.where(near, s, jnp.where(far, math.pi / 2 - jnp.cos(a) / a, math.pi / 2 + jnp.imag(e)))
    ci = jnp.where(near, c, jnp.where(far, jnp.sin(a) / a, -jnp.real(e)))
    si = jnp.where(a == jnp.inf, math.pi / 2, si)
    ci = jnp.where(x == jnp.inf, 0.0, jnp.where(x == -jnp.inf, jnp.nan, jnp.where(a == 0, -jnp.inf, ci)))
    return jnp.where(x < 0, -si, jnp.where(x == 0, x, si)), ci


_si = with_derivatives(lambda x: _sici(x)[0], lambda out, x: jnp.where(x == 0, 1.0, jnp.sin(x) / jnp.where(x == 0, 1.0, x)))
_ci = with_derivatives(lambda x: _sici(x)[1], lambda out, x: jnp.cos(x) / x)


@jit
def sici(x: ArrayLike) -> tuple[Array, Array]:
    """The integrals of sine and cosine: int_0^x sin(t) / t dt, and Euler's constant + log |x| + int_0^x (cos(t) - 1) / t dt, NaN for -inf.
    ValueError for complex x."""
    if dtypes.kind(jnp.asarray(x).dtype) == "c":
        raise ValueError(f"Argument `x` to sici must be real-valued. Got dtype {jnp.asarray(x).dtype}.")
    (x,) = operands("sici", x)
    return _si(x), _ci(x)


_BERNOULLI = (1.0, 1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330)


def _dilogarithm(x: Array) -> Array:
    """Li2(1 - x) for x in [1/2, 2]: with u = -log(x), u - u**2 / 4 + sum of B(2 k) u**(2 k + 1) / (2 k + 1)! (G. 't Hooft, M. Veltman,
    Scalar one-loop integrals, 1979)."""
    u = -jnp.log(x)
    y = u * u
    return 0.0 + u * polynomial(y, [b / math.factorial(2 * k + 1) for k, b in enumerate(_BERNOULLI)]) - y / 4


def _spence_of(x: Array) -> Array:
    low, high = x < 0.5, x > 2
    v = jnp.where(low, jnp.where(x > 0, x, 0.25), 0.25)
    w = jnp.where(high, x, 3.0)
    middle = _dilogarithm(jnp.where(low | high, 1.0, x))
    below = math.pi**2 / 6 - jnp.log(v) * jnp.log1p(-v) - _dilogarithm(1 - v)
    # 1 / w may be below 1/2 again
    inverse = 1 / w
    log = jnp.log(w)
    above = -log * log / 2 - (math.pi**2 / 6 + log * jnp.log1p(-inverse) - _dilogarithm(1 - inverse))
    out = jnp.where(low, below, jnp.where(high, above, middle))
    out = jnp.where(x == 0, math.pi**2 / 6, jnp.where(x == jnp.inf, -jnp.inf, out))
    return jnp.where((x < 0) | jnp.isnan(x), jnp.nan, out)


def _spence_slope(out: Array, x: Array) -> Array:
    near = jnp.abs(x - 1) < 1e-3
    d = x - 1
    v = jnp.where(near, 2.0, x)
    return jnp.where(near, -1 + d * (1 / 2 - d * (1 / 3 - d * (1 / 4 - d / 5))), jnp.log(v) / (1 - v))


_spence = with_derivatives(_spence_of, _spence_slope)


@jit
def spence(x: ArrayLike) -> Array:
    """Spence's function, the integral of log(t) / (1 - t) from 1 to x; float32 or float64, TypeError for others. NaN for negative x."""
    return _spence(floats("spence", x))


__all__ = ["exp1", "expi", "expn", "sici", "spence"]
