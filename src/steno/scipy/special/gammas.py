"""Gamma and beta functions, and what is made of them."""

from __future__ import annotations

import math
import operator
from fractions import Fraction
from typing import Any

import numpy as np

from steno import lax, numpy as jnp
from steno.api import jit
from steno.core import dtypes
from steno.lax import gammas as g
from steno.lax.in_double import in_double, polynomial
from steno.lax.incomplete import incomplete_beta, lower_gamma, upper_gamma
from steno.numpy.operands import convert, promoted_inexact, static, weak_type_of
from steno.scipy.special.faces import operands, special

Array = Any
ArrayLike = Any


@special(lambda out, x: out * lax.digamma(x))
def _gamma(x: Array) -> Array:
    return g.gamma(x)


@jit
def gamma(x: ArrayLike) -> Array:
    """The gamma function: infinite at zeros, with their signs; NaN at negative integers and -inf. Complex numbers, too."""
    (x,) = promoted_inexact("gamma", x)
    return in_double(_gamma_of_complex, x) if dtypes.kind(x.dtype) == "c" else _gamma(x)


def _gamma_of_complex(z: Array) -> Array:
    pole = (jnp.imag(z) == 0) & (jnp.real(z) <= 0) & (jnp.floor(jnp.real(z)) == jnp.real(z))
    return jnp.where(pole, complex(math.nan, math.nan), jnp.exp(_log_gamma(jnp.where(pole, 1.0, z))))


@jit
def gammaln(x: ArrayLike) -> Array:
    """log |Gamma(x)|, of floats."""
    (x,) = promoted_inexact("gammaln", x)
    return lax.lgamma(x)


@jit
def gammasgn(x: ArrayLike) -> Array:
    """The sign of Gamma(x); that of x at zeros, NaN at negative integers and -inf."""
    (x,) = promoted_inexact("gammasgn", x)
    return g.gamma_sign(x)


def _log_gamma(z: Array) -> Array:
    """Stirling's series at z + n, less the logarithms of z, z + 1, ... (Abramowitz and Stegun 6.1.40, 6.1.15); below the real part 1/2 by
    reflection: log Gamma(z) = log(pi) - log sin(pi z) - log Gamma(1 - z), the branch cut along the negative axis."""
    low = jnp.real(z) < 0.5
    upper = jnp.imag(z) >= 0
    w = jnp.where(low, 1 - z, z)
    steps = 12
    total = jnp.zeros_like(w)
    for k in range(steps):
        total = total + jnp.log(w + k)
    v = w + steps
    y = 1 / v
    value = (v - 0.5) * jnp.log(v) - v + g.HALF_LOG_TAU + y * polynomial(y * y, g.STIRLING) - total
    # log sin(pi z) for z in the upper half plane: -i pi z + i pi / 2 + log(1 - exp(2 i pi z)) - log 2
    t = jnp.where(upper, z, jnp.conj(z))
    r = jnp.real(t) - jnp.floor(jnp.real(t))
    wave = jnp.exp(-2 * math.pi * jnp.imag(t)) * lax.complex(jnp.cos(2 * math.pi * r), jnp.sin(2 * math.pi * r))
    log_sin = -1j * math.pi * t + 1j * math.pi / 2 + jnp.log1p(-wave) - math.log(2)
    log_sin = jnp.where(upper, log_sin, jnp.conj(log_sin))
    return jnp.where(low, math.log(math.pi) - log_sin - value, value)


@jit
def loggamma(x: ArrayLike) -> Array:
    """The principal branch of log Gamma; of negative reals NaN, as their gamma function may be negative. Complex numbers, too."""
    (x,) = promoted_inexact("loggamma", x)
    if dtypes.kind(x.dtype) == "c":
        return in_double(_log_gamma, x)
    return jnp.where(x < 0, np.nan, lax.lgamma(x))


@jit
def digamma(x: ArrayLike) -> Array:
    """The derivative of log Gamma(x), of floats."""
    (x,) = promoted_inexact("digamma", x)
    return lax.digamma(x)


def _order(out: Array, n: Array, x: Array) -> Array:
    raise NotImplementedError("polygamma: no derivative by the order, its first operand; `stop_gradient` makes that a constant")


@special(_order, lambda out, n, x: _polygamma(n + 1, x))
def _polygamma(n: Array, x: Array) -> Array:
    """(-1)**(n + 1) n! zeta(n + 1, x); NaN for orders that are no natural numbers."""
    m = jnp.maximum(n, 0)
    size = _factorial(m) * lax.zeta(m + 1, x)
    out = jnp.where(n == 0, lax.digamma(x), jnp.where(jnp.floor(n / 2) * 2 == n, -size, size))
    return jnp.where((n >= 0) & (jnp.floor(n) == n), out, jnp.nan)


@jit
def polygamma(n: ArrayLike, x: ArrayLike) -> Array:
    """The n-th derivative of digamma. ValueError for an order that is no integer."""
    order = jnp.asarray(n)
    if not dtypes.is_integer(order.dtype):
        raise ValueError(f"Argument `n` to polygamma must be of integer type. Got dtype {dtypes.name(order.dtype)}.")
    return _polygamma(n, x)


def _zeta_by_order(out: Array, s: Array, q: Array) -> Array:
    """d/ds of the formula of Euler and Maclaurin (23.1.30): the terms of 15 numbers and the rest; NaN for q < 0."""
    count, bernoulli = 15, (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160)
    total = sum(jnp.log(q + k) * lax.pow(q + k, -s) for k in range(count))
    a = q + count
    log, above = jnp.log(a), s - 1
    rest = a / above * (log + 1 / above) + log / 2
    rising, slope = s, jnp.ones_like(s)  # s (s + 1) ... (s + 2 j), and its derivative
    for j, c in enumerate(bernoulli):
        rest = rest + c * (log * rising - slope) / lax.pow(a, jnp.full_like(a, 2 * j + 1))
        for k in (2 * j + 1, 2 * j + 2):
            slope, rising = slope * (s + k) + rising, rising * (s + k)
    slope = -(total + rest * lax.pow(a, -s))
    return jnp.where((q > 0) & (s > 1), slope, jnp.nan)


@special(_zeta_by_order, lambda out, s, q: -s * lax.zeta(s + 1, q))
def _zeta(x: Array, q: Array) -> Array:
    return lax.zeta(x, q)


def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    """The Hurwitz zeta function: the sum of (q + k)**-x over k >= 0. NotImplementedError without q, as in JAX."""
    if q is None:
        raise NotImplementedError("zeta: Riemann's zeta function of one argument is not here; pass q=1")
    return _zeta(x, q)


@special(lambda out, a, b: lax.digamma(a) - lax.digamma(a + b), lambda out, a, b: lax.digamma(b) - lax.digamma(a + b))
def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    """log |B(a, b)|."""
    return g.log_beta(a, b)


@special(
    lambda out, a, b: out * (lax.digamma(a) - lax.digamma(a + b)), lambda out, a, b: out * (lax.digamma(b) - lax.digamma(a + b)), weak=False
)
def beta(a: ArrayLike, b: ArrayLike) -> Array:
    """B(a, b) = Gamma(a) Gamma(b) / Gamma(a + b)."""
    return g.beta(a, b)


def _weakly(out: Array, *xs: ArrayLike) -> Array:
    return convert(out, out.dtype, True) if all(map(weak_type_of, xs)) else out


@jit
def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The regularised incomplete beta function. Its derivatives by a and b, which JAX does not have, may be differentiated in the forward
    direction only."""
    return _weakly(incomplete_beta(*operands("betainc", a, b, x)), a, b, x)


@jit
def gammainc(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularised lower incomplete gamma function."""
    return _weakly(lower_gamma(*operands("gammainc", a, x)), a, x)


@jit
def gammaincc(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularised upper incomplete gamma function."""
    return _weakly(upper_gamma(*operands("gammaincc", a, x)), a, x)


@special(lambda out, n: out * lax.digamma(n + 1))
def _factorial(n: Array) -> Array:
    return jnp.where(n < 0, 0, jnp.where(n > 1, n * g.gamma(n), g.gamma(n + 1)))


def factorial(n: ArrayLike, exact: bool = False) -> Array:
    """Gamma(n + 1), 0 for negative n. NotImplementedError for `exact`."""
    if exact:
        raise NotImplementedError("factorial: exact=True, integers of any size, is not there: use math.factorial")
    return _factorial(n)


_FACTORS = 20


def _comb_by(sign: int) -> Any:
    def partial(out: Array, n: Array, k: Array) -> Array:
        top = lax.digamma(n + 1) if sign > 0 else lax.digamma(k + 1)
        slope = top - lax.digamma(n - k + 1)
        return jnp.where(out == 0, 0, out * slope * sign)

    return partial


@special(_comb_by(1), _comb_by(-1))
def _comb(n: Array, k: Array) -> Array:
    possible = (n >= 0) & (k >= 0) & (k <= n)
    m, j = jnp.where(possible, n, 1), jnp.where(possible, k, 1)
    value = 1 / ((m + 1) * g.beta(m - j + 1, j + 1))
    # small natural k: the product (n - k + 1) / 1 (n - k + 2) / 2 ... n / k
    product = jnp.ones_like(m)
    for i in range(1, _FACTORS + 1):
        product = jnp.where(i <= j, product * (m - j + i) / i, product)
    value = jnp.where((jnp.floor(j) == j) & (j <= _FACTORS), product, value)
    whole = (jnp.floor(m) == m) & (jnp.floor(j) == j) & (value < 2.0**50)
    return jnp.where(possible, jnp.where(whole, jnp.round(value), value), jnp.where(jnp.isnan(n + k), jnp.nan, 0))


def comb(N: ArrayLike, k: ArrayLike, *, repetition: bool = False) -> Array:
    """The number of ways to choose k of N, with `repetition` or without; 0 where k > N or one is negative."""
    if repetition:
        return jnp.where(jnp.equal(N, 0) & jnp.equal(k, 0), 1.0, _comb(jnp.subtract(jnp.add(N, k), 1), k))
    return _comb(N, k)


@special(lambda out, z, m: out * (lax.digamma(z + m) - lax.digamma(z)), lambda out, z, m: out * lax.digamma(z + m), weak=False)
def poch(z: ArrayLike, m: ArrayLike) -> Array:
    """Pochhammer's symbol Gamma(z + m) / Gamma(z); 1 for m = 0."""
    n, lost = g.total(z, m)
    above, below = g.gamma(n), g.gamma(z)
    above = jnp.where(n > 1, above * (1 + lost * (jnp.log(jnp.maximum(n, 1)) - 0.5 / jnp.maximum(n, 1))), above)
    plain = (jnp.abs(z) < 150) & (jnp.abs(z + m) < 170)
    sign = g.gamma_sign(z + m) * g.gamma_sign(z)
    ratio = jnp.where(plain, above / below, sign * jnp.exp(lax.lgamma(z + m) - lax.lgamma(z)))
    # small natural m: the product z (z + 1) ... (z + m - 1), also at poles
    product = jnp.ones_like(z)
    for k in range(32):
        product = jnp.where(k < m, product * (z + k), product)
    return jnp.where((m >= 0) & (m <= 32) & (jnp.floor(m) == m), product, ratio)


def multigammaln(a: ArrayLike, d: ArrayLike) -> Array:
    """The logarithm of the multivariate gamma function of dimension d, which must be known: d (d - 1) / 4 log(pi) + the sum of
    log Gamma(a - j / 2) over 0 <= j < d."""
    n = static("multigammaln", d, "d")
    if n.ndim:
        raise TypeError(f"multigammaln: d must be a scalar, got an array of shape {n.shape}")
    return _multigammaln(a, int(n))


def _multigammaln_of(a: ArrayLike, d: int) -> Array:
    (a,) = promoted_inexact("multigammaln", a)
    halves = np.arange(d).astype(a.dtype) / np.asarray(2, a.dtype)
    constant = np.asarray(d * (d - 1) / 4 * math.log(math.pi), a.dtype)
    shifted = [lax.lgamma(a - half) for half in halves.tolist()]
    return sum(shifted, start=jnp.full_like(a, constant))


_multigammaln = jit(_multigammaln_of, static_argnums=1)


def bernoulli(n: int) -> Array:
    """The Bernoulli numbers B(0), ... B(n), with B(1) = -1/2, by way of the tangent numbers (D. Knuth, T. Buckholtz, Computation of
    tangent, Euler, and Bernoulli numbers, 1967). ValueError for negative n."""
    n = operator.index(n)
    if n < 0:
        raise ValueError(f"bernoulli: n must be a non-negative integer, got {n}")
    out = np.zeros(n + 1)
    out[0] = 1
    out[1:2] = -0.5
    half = n // 2
    tangents = [0, 1, *[0] * half]
    for k in range(2, half + 1):
        tangents[k] = (k - 1) * tangents[k - 1]
    for k in range(2, half + 1):
        for j in range(k, half + 1):
            tangents[j] = (j - k) * tangents[j - 1] + (j - k + 2) * tangents[j]
    for k in range(1, half + 1):
        ratio = Fraction(2 * k * tangents[k], 4**k * (4**k - 1))
        out[2 * k] = (-1) ** (k - 1) * (math.inf if ratio > 1.7e308 else float(ratio))
    return jnp.asarray(out)


__all__ = [
    "bernoulli", "beta", "betainc", "betaln", "comb", "digamma", "factorial", "gamma", "gammainc", "gammaincc", "gammaln", "gammasgn",
    "loggamma", "multigammaln", "poch", "polygamma", "zeta",
]  # fmt: skip
