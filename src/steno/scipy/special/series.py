"""Bessel and hypergeometric functions, spherical harmonics."""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import numpy as np

from steno import lax, numpy as jnp
from steno.api import jit
from steno.core import dtypes
from steno.core.config import enable_x64
from steno.lax.gammas import fused, gamma, total
from steno.lax.in_double import converted, until, with_derivatives
from steno.numpy.operands import promoted_inexact, static
from steno.ops.transcendental import bessel_i0, bessel_i1
from steno.scipy.special.faces import operands, special

Array = Any
ArrayLike = Any


@jit
def i0e(x: ArrayLike) -> Array:
    """exp(-|x|) i0(x)."""
    (x,) = promoted_inexact("i0e", x)
    return lax.bessel_i0e(x)


@jit
def i1e(x: ArrayLike) -> Array:
    """exp(-|x|) i1(x)."""
    (x,) = promoted_inexact("i1e", x)
    return lax.bessel_i1e(x)


@special(lambda out, x: bessel_i1(x), own=True)
def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of order 0."""
    return bessel_i0(x)


def _i1_slope(out: Array, x: Array) -> Array:
    v = jnp.where(x == 0, 1.0, x)
    return jnp.where(x == 0, 0.5, bessel_i0(v) - bessel_i1(v) / v)


@special(_i1_slope, own=True)
def i1(x: ArrayLike) -> Array:
    """The modified Bessel function of order 1."""
    return bessel_i1(x)


def bessel_jn(z: ArrayLike, *, v: int, n_iter: int = 50) -> Array:
    """The Bessel functions of the orders 0, 1, ... v, at the front of the result: by J. Miller's backward recurrence from the order n_iter
    (Abramowitz and Stegun 9.12), which must be above |z| by some; for |z| < 1 by their power series."""
    order, top = (int(operator.index(static("bessel_jn", n, name))) for n, name in ((v, "v"), (n_iter, "n_iter")))
    return _bessel_jn(z, order, max(top, order + 1))


def _bessel_of(z: ArrayLike, v: int, n_iter: int) -> Array:
    (z,) = operands("bessel_jn", z)
    if v < 0:
        return jnp.zeros((0, *z.shape), z.dtype)
    with enable_x64(True):
        x = converted(z, dtypes.float64)
        near = jnp.abs(x) < 1
        w = jnp.where(near, 2.0, x)
        after, here = jnp.zeros_like(w), jnp.full_like(w, 1e-300)
        values = [here]
        for k in range(n_iter, 0, -1):
            after, here = here, 2 * k / w * here - after
            values.append(here)
        values.reverse()
        norm = values[0] + 2 * sum(values[2::2])
        y = jnp.where(near, x, 0.0)
        q = -y * y / 4
        rows = []
        for n in range(v + 1):
            term = total = jnp.ones_like(y)
            for k in range(1, 10):
                term = term * q / (k * (k + n))
                total = total + term
            factor = 1 / math.factorial(n) if n < 170 else 0.0
            rows.append(jnp.where(near, (y / 2) ** n * factor * total, values[n] / norm))
        return converted(jnp.stack(rows), z.dtype)


_bessel_jn = jit(_bessel_of, static_argnums=(1, 2))


Number = tuple[Array, Array]  # and what rounding took from it


def _scaled(x: Number, y: Number) -> Number:
    high = x[0] * y[0]
    return total(high, fused(x[0], y[0], -high) + (x[0] * y[1] + x[1] * y[0]))


def _divided(x: Number, y: Number) -> Number:
    high = x[0] / y[0]
    return high, (fused(-high, y[0], x[0]) + x[1] - high * y[1]) / y[0]


def _increased(x: Number, y: Number) -> Number:
    high, low = total(x[0], y[0])
    return total(high, low + x[1] + y[1])


def _precise_sum(above: list[Number], below: list[Number], v: Number, limit: int) -> Array:
    """1 + r(0) + r(0) r(1) + ... with r(n) = product of (a + n) / product of (b + n) v / (n + 1), in twice the digits of a float64, as
    terms may cancel."""

    def step(n: Array, *state: Array) -> tuple[Array, ...]:
        term, sum_ = state[:2], state[2:4]
        k = jnp.full_like(v[0], 0) + (n - 1), jnp.zeros_like(v[0])
        for a in above:
            term = _scaled(term, _increased(a, k))
        for b in below:
            term = _divided(term, _increased(b, k))
        term = _divided(_scaled(term, v), (k[0] + 1, k[1]))
        quiet = jnp.abs(term[0]) <= 1e-17 * jnp.abs(sum_[0])
        return *term, *_increased(sum_, term), jnp.where(quiet, state[4] - 1, 2.0)

    one, none = jnp.ones_like(v[0]), jnp.zeros_like(v[0])
    start = (one, none, one, none, one * 2)
    return until(limit, lambda t, _, s, __, more: (more > 0) & (jnp.abs(t) < jnp.inf) & ~jnp.isnan(s), step, start)[2]


def _sum_of_terms(above: list[Number], below: list[Number], v: Number, limit: int) -> Array:
    """The same in float64, until 200 terms in a row change nothing: for derivatives. Where a number above is a negative integer the series
    ends, but its derivative does not."""

    def step(n: Array, term: Array, sum_: Array, more: Array) -> tuple[Array, ...]:
        factor = v[0] / n
        for a in above:
            factor = factor * (a[0] + (n - 1))
        for b in below:
            factor = factor / (b[0] + (n - 1))
        term = term * factor
        quiet = jnp.abs(term) <= 1e-17 * jnp.abs(sum_)
        return term, sum_ + term, jnp.where(quiet, more - 1, 200.0)

    one = jnp.ones_like(v[0])
    return until(limit, lambda term, _, more: (more > 0) & (jnp.abs(term) < jnp.inf), step, (one, one, one * 200))[1]


def _hyp1f1_of(a: Array, b: Array, x: Array, series: Any = _precise_sum) -> Array:
    """The series, after Kummer's transformation for negative x (Abramowitz and Stegun 13.1.2, 13.1.27)."""
    flip = (x < 0) & ~((a <= 0) & (jnp.floor(a) == a))
    p, low = total(b, -a)
    p, low, v = jnp.where(flip, p, a), jnp.where(flip, low, 0.0), jnp.where(flip, -x, x)
    none = jnp.zeros_like(x)
    out = series([(p, low)], [(b, none)], (v, none), 2000)
    out = jnp.where(flip, jnp.exp(x) * out, out)
    pole = (b <= 0) & (jnp.floor(b) == b) & ~((a <= 0) & (a >= b) & (jnp.floor(a) == a))
    return jnp.where(pole, jnp.inf, jnp.where(x == 0, 1.0, out))


_hyp1f1 = with_derivatives(
    _hyp1f1_of,
    *(None, None, lambda out, a, b, x: a / b * _hyp1f1(a + 1, b + 1, x)),
    slow=functools.partial(_hyp1f1_of, series=_sum_of_terms),
)


@jit
def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Kummer's confluent hypergeometric function, by its series. Derivatives by a and b may be differentiated in the forward direction
    only."""
    return _hyp1f1(*operands("hyp1f1", a, b, x))


def _hyp2f1_of(a: Array, b: Array, c: Array, x: Array, series: Any = _precise_sum) -> Array:
    """The series; for x < 0 after Pfaff's transformation, for x > 0 after Euler's where c < a + b; Gauss's value at 1 (Abramowitz and
    Stegun 15.1.1, 15.1.20, 15.3.3-5)."""

    def natural(v: Array) -> Array:
        return (v <= 0) & (jnp.floor(v) == v)

    def chosen(which: Array, x: Number, y: Number) -> Number:
        return jnp.where(which, x[0], y[0]), jnp.where(which, x[1], y[1])

    ends = natural(a) | natural(b)
    pfaff = (x < 0) & ~ends
    euler = (x > 0) & (c < a + b) & ~ends
    none = jnp.zeros_like(x)
    p = chosen(euler, total(c, -a), (a, none))
    q = chosen(pfaff | euler, total(c, -b), (b, none))
    v = chosen(pfaff, _divided((jnp.where(pfaff, x, -1.0), none), total(jnp.where(pfaff, x, -1.0), -jnp.ones_like(x))), (x, none))
    inside = (v[0] < 1) | ends
    sum_ = series([p, q], [(c, none)], chosen(inside, v, (none, none)), 20000)
    base = jnp.where(inside, 1 - x, 1.0)
    factor = jnp.where(pfaff, lax.pow(base, -a), jnp.where(euler, lax.pow(base, c - a - b), 1.0))
    rest = c - a - b
    gauss = jnp.where(rest > 0, gamma(c) / gamma(c - a) * gamma(jnp.where(rest > 0, rest, 1.0)) / gamma(c - b), jnp.inf)
    out = jnp.where(inside, factor * sum_, jnp.where(x == 1, gauss, jnp.inf))
    pole = natural(c) & ~(natural(a) & (a >= c)) & ~(natural(b) & (b >= c))
    out = jnp.where(x == 0, 1.0, jnp.where(pole, jnp.inf, out))
    return jnp.where(jnp.isnan(a + b + c + x), jnp.nan, out)


_hyp2f1 = with_derivatives(
    _hyp2f1_of,
    *(None, None, None, lambda out, a, b, c, x: a * b / c * _hyp2f1(a + 1, b + 1, c + 1, x)),
    slow=functools.partial(_hyp2f1_of, series=_sum_of_terms),
)


@jit
def hyp2f1(a: ArrayLike, b: ArrayLike, c: ArrayLike, x: ArrayLike) -> Array:
    """Gauss's hypergeometric function of real x <= 1, infinite beyond, by its series, which near 1 takes long.
    Derivatives by a, b and c may be differentiated in the forward direction only."""
    return _hyp2f1(*operands("hyp2f1", a, b, c, x))


def _harmonics_of(n: Array, m: Array, theta: Array, phi: Array, n_max: int) -> Array:
    """Normalised associated Legendre functions by the recurrence in the degree, which is stable (NIST Digital Library of Mathematical
    Functions, 14.10.3), with the phase of Condon and Shortley, times exp(i m phi)."""
    dtype = theta.dtype
    with enable_x64(True):
        polar, azimuth = converted(theta, dtypes.float64), converted(phi, dtypes.float64)
        degree, signed = (converted(v, dtypes.float64) for v in (n, m))
        order = jnp.abs(signed)
        x, s = jnp.cos(polar), jnp.abs(jnp.sin(polar))

        def diagonal(value: Array, k: Array) -> tuple[Array, None]:
            return jnp.where(k <= order, value * (-s * jnp.sqrt((2 * k + 1) / (2 * k))), value), None

        def upward(state: Any, k: Array) -> tuple[Any, None]:
            last, here = state
            going = (k > order) & (k <= degree)
            square = jnp.where(going, k * k - order * order, 1.0)
            before = (k - 1) * (k - 1) - order * order
            scale = jnp.sqrt((4 * k * k - 1) / square)
            back = jnp.sqrt(jnp.where(going, jnp.maximum(before, 0.0), 0.0) / jnp.maximum(4 * (k - 1) * (k - 1) - 1, 1.0))
            value = scale * (x * here - back * last)
            return (jnp.where(going, here, last), jnp.where(going, value, here)), None

        degrees = jnp.arange(1, n_max + 1, dtype=dtypes.float64)
        start, _ = lax.scan(diagonal, jnp.full_like(x, math.sqrt(0.25 / math.pi)), degrees)
        (_, value), _ = lax.scan(upward, (jnp.zeros_like(x), start), degrees)
        value = jnp.where(order > degree, 0.0, value)
        odd = jnp.floor(order / 2) * 2 != order
        value = jnp.where((signed < 0) & odd, -value, value)
        angle = signed * azimuth
        re, im = (converted(value * f(angle), dtype) for f in (jnp.cos, jnp.sin))
    return lax.complex(re, im)


_harmonics = jit(_harmonics_of, static_argnums=4)


def sph_harm_y(n: Array, m: Array, theta: Array, phi: Array, diff_n: int | None = None, n_max: int | None = None) -> Array:
    """Spherical harmonics of the degrees n and the orders m at the polar angles theta and the azimuths phi, arrays that broadcast together.
    n_max: the greatest degree; by default that of n, which then must be known while tracing. NotImplementedError for
    `diff_n`, as in JAX."""
    if diff_n is not None:
        raise NotImplementedError("sph_harm_y: diff_n, derivatives beside the values, is not there; use grad or jvp")
    top = int(np.max(static("sph_harm_y", n, "n"), initial=0)) if n_max is None else int(operator.index(n_max))
    theta, phi = promoted_inexact("sph_harm_y", theta, phi)
    n, m = jnp.minimum(jnp.asarray(n), top), jnp.asarray(m)
    return _harmonics(*jnp.broadcast_arrays(n, m, theta, phi), top)


__all__ = ["bessel_jn", "hyp1f1", "hyp2f1", "i0", "i0e", "i1", "i1e", "sph_harm_y"]
