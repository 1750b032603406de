"""Distributions by rejection: loops that go on until every number is accepted.

Gamma numbers are made one by one, each from a key of its own; the others of an array together, from one key for each round."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from steno import lax, numpy as jnp
from steno.core import dtypes
from steno.core.config import enable_x64
from steno.custom_derivatives import custom_jvp
from steno.lax.gamma_derivative import log_rate
from steno.lax.operands import as_operand, convert, shape_argument
from steno.numpy.operands import static_index
from steno.random.approximate import log_gamma_numbers, poisson_counts
from steno.random.continuous import exponential, normal, rademacher
from steno.random.draws import draw
from steno.random.keys import (
    Array,
    ArrayLike,
    DTypeLike,
    Shape,
    as_given,
    compiled,
    dtype_of,
    full_shape,
    own_shape,
    pair,
    sampler,
    shape_of,
    split_key,
    the_key,
)

# Gamma, and what is made of it


def _method(fun: str, method: str) -> str:
    if method not in ("exact", "approximate"):
        raise ValueError(f"method argument to `{fun}` must be one of {{'exact', 'approximate'}}, got {method!r}")
    return method


@sampler(method=_method)
def gamma(
    key: ArrayLike, a: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None, *, method: str = "exact", out_sharding: Any = None
) -> Array:
    """Gamma distributed numbers of shape parameter a and scale 1; their derivative by a is that of quantiles (`lax.random_gamma_grad`)."""
    if method == "exact":
        return _samples(False, key, full_shape(a, shape))
    return jnp.exp(log_gamma_numbers(key, full_shape(a, shape), shape))


@sampler(method=_method)
def loggamma(
    key: ArrayLike, a: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None, *, method: str = "exact", out_sharding: Any = None
) -> Array:
    """Logarithms of gamma distributed numbers, also where these would underflow."""
    if method == "exact":
        return _samples(True, key, full_shape(a, shape))
    return log_gamma_numbers(key, full_shape(a, shape), shape)


def _samples(log_space: bool, key: Array, a: Array) -> Array:
    return (_log_gamma_samples if log_space else _gamma_samples)(key, a)


@custom_jvp
def _gamma_samples(key: Array, a: Array) -> Array:
    return _each(key, a, False)


@custom_jvp
def _log_gamma_samples(key: Array, a: Array) -> Array:
    return _each(key, a, True)


@_gamma_samples.defjvp
def _(primals: Any, tangents: Any) -> tuple[Array, Array]:
    key, a = primals
    x = _gamma_samples(key, a)
    return x, lax.random_gamma_grad(a, x) * tangents[1]


@_log_gamma_samples.defjvp
def _(primals: Any, tangents: Any) -> tuple[Array, Array]:
    key, a = primals
    y = _log_gamma_samples(key, a)
    with enable_x64(True):
        wide, log_x = (lax.convert_element_type(v, dtypes.float64) for v in (a, y))
        rate = lax.convert_element_type(log_rate(wide, log_x, jnp.exp(log_x)), a.dtype)
    return y, rate * tangents[1]


def _each(key: Array, a: Array, log_space: bool) -> Array:
    keys = split_key(key, (a.size,))
    numbers = lax.map(lambda row: _marsaglia_tsang(*row, log_space), (keys, a.reshape(-1)))
    return numbers.reshape(a.shape)


def _marsaglia_tsang(key: Array, a: Array, log_space: bool) -> Array:
    """One number, by G. Marsaglia and W. Tsang, A simple method for generating gamma variables, 2000: d v^3 with v = 1 + c x for normal x,
    accepted with the right probability. For a < 1 one of shape a + 1 times a uniform number to the power 1 / a."""
    dtype = a.dtype
    whole = a >= 1
    d = jnp.where(whole, a, a + 1) - 1 / 3
    c = (1 / 3) / jnp.sqrt(d)
    key, power_key = pair(key)

    def positive(state: Any) -> Any:
        key, x, v = state
        key, now = pair(key)
        x = normal(now, (), dtype)
        return key, x, 1 + x * c

    def refused(state: Any) -> Array:
        _, x2, v3, u = state
        return (u >= 1 - 0.0331 * (x2 * x2)) & (jnp.log(u) >= x2 * 0.5 + d * ((1 - v3) + jnp.log(v3)))

    def attempt(state: Any) -> Any:
        key, normals, uniforms = lax.unstack(split_key(state[0], (3,)))
        _, x, v = lax.while_loop(lambda s: s[2] <= 0, positive, (normals, _number(0, dtype), _number(-1, dtype)))
        return key, x * x, v * v * v, draw(uniforms, (), dtype)

    *_, v3, _ = lax.while_loop(refused, attempt, (key, _number(0, dtype), _number(1, dtype), _number(2, dtype)))
    if not log_space:
        return d * v3 * jnp.where(whole, 1, (1 - draw(power_key, (), dtype)) ** (1 / a))
    down = -exponential(power_key, (), dtype)
    return jnp.log(d) + jnp.log(v3) + jnp.where(whole | (down == 0), 0, down * (1 / a))


def _number(value: float, dtype: Any) -> Array:
    return lax.full((), value, dtype)


@sampler(method=_method)
def beta(
    key: ArrayLike,
    a: ArrayLike,
    b: ArrayLike,
    shape: Any = None,
    dtype: DTypeLike | None = None,
    *,
    method: str = "exact",
    out_sharding: Any = None,
) -> Array:
    """Beta distributed numbers: x / (x + y) for gamma numbers x, y of shapes a and b."""
    k1, k2 = pair(key)
    x, y = (loggamma(k, v, shape, dtype, method=method) for k, v in ((k1, a), (k2, b)))
    greatest = jnp.maximum(x, y)
    x, y = jnp.exp(x - greatest), jnp.exp(y - greatest)
    return x / (x + y)


def _vectors(fun: str, shape: Any, alpha: Shape) -> Shape:
    if not alpha:
        raise ValueError(f"{fun} requires alpha.ndim >= 1, got alpha.ndim == 0")
    return (*shape_of(fun, shape, alpha[:-1]), alpha[-1])


@sampler(shape=_vectors)
def dirichlet(key: ArrayLike, alpha: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """Dirichlet distributed vectors along the last axis, that of alpha; `shape` is that of the other axes. ValueError for a scalar
    alpha."""
    logs = loggamma(key, alpha, shape, dtype)
    x = jnp.exp(logs - lax.stop_gradient(jnp.max(logs, -1, keepdims=True, initial=-np.inf)))
    return x / jnp.sum(x, -1, keepdims=True)


@sampler(method=_method)
def chisquare(
    key: ArrayLike, df: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None, *, method: str = "exact", out_sharding: Any = None
) -> Array:
    """Sums of squares of df standard normal numbers; df need not be a whole number."""
    return 2 * jnp.exp(loggamma(key, df / 2, shape, dtype, method=method))


@sampler()
def f(
    key: ArrayLike, dfnum: ArrayLike, dfden: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None, *, out_sharding: Any = None
) -> Array:
    """Numbers of Fisher's F distribution: ratios of mean squares of dfnum and of dfden standard normal numbers."""
    below, above = pair(key)
    x = chisquare(above, dfnum, shape, dtype) / full_shape(dfnum, shape)
    return x / (chisquare(below, dfden, shape, dtype) / full_shape(dfden, shape))


@sampler()
def t(key: ArrayLike, df: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """Numbers of Student's t distribution of df degrees of freedom."""
    k1, k2 = pair(key)
    half = df / 2
    x = gamma(k2, half, shape, dtype)
    return normal(k1, shape, dtype) * jnp.sqrt(full_shape(half, shape) / x)


@sampler(parameter=as_given, shape=own_shape)
def generalized_normal(key: ArrayLike, p: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """Numbers of density proportional to exp(-|x|^p)."""
    k1, k2 = pair(key)
    power = convert(1 / p, dtype)
    x = gamma(k1, power, shape, dtype)
    return rademacher(k2, shape, dtype) * x**power


@sampler(parameter=as_given, shape=own_shape, d=lambda fun, d: static_index(fun, d, "d"))
def ball(key: ArrayLike, d: int, p: ArrayLike = 2, shape: Any = (), dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """Uniformly distributed vectors of d numbers whose absolute p-th powers have a sum of at most 1: (*shape, d). F. Barthe, O. Guedon,
    S. Mendelson, A. Naor, A probabilistic approach to the geometry of the l_p^n-ball, 2005."""
    k1, k2 = pair(key)
    x = generalized_normal(k1, p, (*shape, d), dtype)
    rest = exponential(k2, shape, dtype)
    norm = (jnp.sum(jnp.abs(x) ** p, -1) + rest) ** convert(1 / p, dtype)
    return x / norm[..., None]


# Counts


@sampler("iu", parameter=lambda fun, x, dtype: convert(as_operand(fun, x), dtypes.float32), method=_method)
def poisson(
    key: ArrayLike, lam: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None, *, method: str = "exact", out_sharding: Any = None
) -> Array:
    """Poisson distributed counts of mean lam, which is taken as float32; -1 for a mean that is negative or NaN."""
    lam = full_shape(lam, shape)
    if method != "exact":
        return poisson_counts(key, lam, shape, dtype)
    small = jnp.isnan(lam) | (lam < 10)
    few = _poisson_by_products(key, jnp.where(small, lam, 0), dtype)
    many = _poisson_by_rejection(key, jnp.where(small, 1e5, lam), dtype)
    return jnp.where(lam == 0, 0, jnp.where(small, few, many))


def _poisson_by_products(key: Array, lam: Array, dtype: Any) -> Array:
    """How many uniform numbers have a product above exp(-lam) (D. Knuth, The Art of Computer Programming 2, 3.4.1)."""

    def attempt(state: Any) -> Any:
        key, count, log_product = state
        key, now = pair(key)
        count = jnp.where(log_product > -lam, count + 1, count)
        return key, count, log_product + jnp.log(draw(now, lam.shape, lam.dtype))

    start = key, lax.full(lam.shape, 0, dtype), lax.full(lam.shape, 0, lam.dtype)
    return lax.while_loop(lambda s: jnp.any(s[2] > -lam), attempt, start)[1] - 1


def _poisson_by_rejection(key: Array, lam: Array, dtype: Any) -> Array:
    """For lam >= 10 the algorithm PTRS of W. Hormann, The transformed rejection method for generating Poisson random variables, 1993."""
    log_lam = jnp.log(lam)
    b = 0.931 + 2.53 * jnp.sqrt(lam)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)

    def attempt(state: Any) -> Any:
        key, found, accepted = state
        key, k1, k2 = lax.unstack(split_key(key, (3,)))
        u, v = draw(k1, lam.shape, lam.dtype) - 0.5, draw(k2, lam.shape, lam.dtype)
        us = 0.5 - jnp.abs(u)
        k = jnp.floor((2 * a / us + b) * u + lam + 0.43)
        ratio = jnp.log(v * inverse_alpha / (a / (us * us) + b))
        inside = (us >= 0.07) & (v <= v_r)
        outside = (k < 0) | ((us < 0.013) & (v > us))
        now = inside | (~outside & (ratio <= -lam + k * log_lam - lax.lgamma(k + 1)))
        return key, jnp.where(now, k, found), accepted | now

    start = key, lax.full(lam.shape, -1, lam.dtype), lax.full(lam.shape, False, bool)
    return convert(lax.while_loop(lambda s: ~jnp.all(s[2]), attempt, start)[1], dtype)


def binomial(key: ArrayLike, n: ArrayLike, p: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None) -> Array:
    """How many of n trials succeed, each with probability p: whole numbers as floats; NaN for n < 0 or p outside [0, 1]."""
    k, d = the_key("binomial", key), dtype_of("binomial", dtype)
    n, p = _promoted("binomial", n, p)
    return convert(_binomial(k, n, p, shape=shape_of("binomial", shape, n.shape, p.shape)), d)


def _promoted(fun: str, *parameters: ArrayLike) -> list[Array]:
    """Parameters as floats of their common type."""
    xs = [as_operand(fun, x) for x in parameters]
    common = dtypes.result_type(*xs)
    return [convert(x, common if dtypes.is_float(common) else dtypes.default_float()) for x in xs]


@compiled("shape")
def _binomial(key: Array, n: Array, p: Array, *, shape: Shape) -> Array:
    n, p = full_shape(n, shape), full_shape(p, shape)
    low = p < 0.5
    q = jnp.where(low, p, 1 - p)
    no_count, no_chance = jnp.isnan(n) | (n < 0), jnp.isnan(q) | (q < 0)
    endless = jnp.isinf(n)
    q = jnp.where(no_chance, 0.01, q)
    whole = jnp.where(endless, 0, jnp.floor(n))
    few = no_count | (whole * q <= 10)
    out = jnp.where(
        few,
        _binomial_by_gaps(key, jnp.where(few, whole, 0), q),
        _binomial_by_rejection(key, jnp.where(few, 1e4, whole), jnp.where(few, 0.5, q)),
    )
    out = jnp.where(no_chance | no_count, jnp.nan, out)
    out = jnp.where(endless & ~(no_chance | no_count), jnp.inf, out)
    return jnp.where(low | no_count | no_chance | endless, out, whole - out)


def _binomial_by_gaps(key: Array, n: Array, p: Array) -> Array:
    """How many gaps between successes, which are geometrically distributed, fit into n trials (L. Devroye, Non-Uniform Random Variate
    Generation, X.4.3)."""
    log_failure = jnp.log1p(-p)

    def attempt(state: Any) -> Any:
        key, count, trials = state
        now, key = pair(key)
        count = jnp.where(trials <= n, count + 1, count)
        return key, count, trials + jnp.ceil(jnp.log(draw(now, n.shape, n.dtype)) / log_failure)

    zero = lax.full(n.shape, 0, n.dtype)
    return lax.while_loop(lambda s: jnp.any(s[2] <= n), attempt, (key, zero, zero))[1] - 1


def _binomial_by_rejection(key: Array, n: Array, p: Array) -> Array:
    """For n p >= 10 and p <= 1/2 the algorithm BTRS of W. Hormann, The generation of binomial random variates, 1993."""
    deviation = jnp.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = n * p + 0.5
    v_r = 0.92 - 4.2 / b
    r = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * deviation
    m = jnp.floor((n + 1) * p)

    def attempt(state: Any) -> Any:
        key, found, accepted = state
        key, k1, k2 = lax.unstack(split_key(key, (3,)))
        u, v = draw(k1, n.shape, n.dtype), draw(k2, n.shape, n.dtype)
        u = u - 0.5
        us = 0.5 - jnp.abs(u)
        inside = (us >= 0.07) & (v <= v_r)
        k = jnp.floor((2 * a / us + b) * u + c)
        v = jnp.log(v * alpha / (a / (us * us) + b))
        bound = (
            (m + 0.5) * jnp.log((m + 1) / (r * (n - m + 1)))
            + (n + 1) * jnp.log((n - m + 1) / (n - k + 1))
            + (k + 0.5) * jnp.log(r * (n - k + 1) / (k + 1))
            + _stirling_rest(m)
            + _stirling_rest(n - m)
            - _stirling_rest(k)
            - _stirling_rest(n - k)
        )
        now = inside | (~((k < 0) | (k > n)) & (v <= bound))
        return key, jnp.where(now, k, found), accepted | now

    start = key, lax.full(n.shape, -1, n.dtype), lax.full(n.shape, False, bool)
    return lax.while_loop(lambda s: ~jnp.all(s[2]), attempt, start)[1]


_RESTS = tuple(math.lgamma(k + 1) - (k + 0.5) * math.log(k + 1) + (k + 1) - 0.5 * math.log(2 * math.pi) for k in range(10))


def _stirling_rest(k: Array) -> Array:
    """log(k!) less Stirling's formula for it."""
    low = jnp.clip(k, 0, 9)
    near = jnp.asarray(_RESTS, k.dtype)[jnp.floor(low).astype(dtypes.default_int())]
    x = low + 1
    x2 = x * x
    return jnp.where(k <= 9, near, (1 / 12 - (1 / 360 - 1 / 1260 / x2) / x2) / x)


def multinomial(
    key: ArrayLike,
    n: ArrayLike,
    p: ArrayLike,
    *,
    shape: Any = None,
    dtype: DTypeLike | None = None,
    unroll: int | bool = 1,
) -> Array:
    """How often each outcome comes in n trials: whole numbers as floats, (*shape, outcomes). The last axis of p holds the outcomes'
    probabilities; `shape` goes with its other axes and with n."""
    k, d = the_key("multinomial", key), dtype_of("multinomial", dtype)
    n, p = _promoted("multinomial", n, p)
    shape = p.shape[:-1] if shape is None else shape_argument("multinomial", shape)
    return convert(_multinomial(k, n, p, shape=lax.broadcast_shapes(shape, n.shape), unroll=unroll), d)


@compiled("shape", "unroll")
def _multinomial(key: Array, n: Array, p: Array, *, shape: Shape, unroll: int | bool) -> Array:
    """Outcome by outcome: how many of the trials that are left give it, and not one of those still to come."""
    left = jnp.cumsum(p[..., ::-1], -1)[..., ::-1]
    chance = jnp.moveaxis(p / jnp.where(left == 0, 1, left), -1, 0)

    def outcome(trials: Array, row: Any) -> tuple[Array, Array]:
        q, k = row
        count = _binomial(k, trials, jnp.clip(q, 0, 1), shape=shape)
        return trials - count, count

    rows = jnp.broadcast_to(chance.reshape(chance.shape[0], *(1,) * (len(shape) - p.ndim + 1), *chance.shape[1:]), (p.shape[-1], *shape))
    _, counts = lax.scan(outcome, full_shape(n, shape), (rows, split_key(key, (p.shape[-1],))), unroll=unroll)
    return jnp.moveaxis(counts, 0, -1)
