"""Distributions whose numbers are functions of a fixed number of uniform ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from steno import lax
from steno.core import dtypes
from steno.core.aval import typed_scalar
from steno.lax.operands import as_operand, convert
from steno.random.draws import bernoulli, draw, select, uniform
from steno.random.keys import (
    Array,
    ArrayLike,
    DTypeLike,
    Shape,
    compiled,
    const,
    eps_of,
    full_shape,
    pair,
    sampler,
    shape_of,
    tiny_of,
    to_shape,
    with_rank,
)


@sampler("fc")
def normal(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """Standard normal numbers; complex ones have independent parts of variance 1/2.

    >>> random.normal(random.key(0), (2,)).shape
    (2,)
    """
    if not dtypes.is_complex(dtype):
        return _normal_real(key, shape=shape, dtype=dtype)
    real = dtypes.float32 if dtype == dtypes.complex64 else dtypes.float64
    x, y = (_normal_real(k, shape=shape, dtype=real) for k in pair(key))
    root = typed_scalar(math.sqrt(2), real)
    return lax.complex(lax.div(x, root), lax.div(y, root))


@compiled("shape", "dtype")
def _normal_real(key: Array, *, shape: Shape, dtype: Any) -> Array:
    """sqrt(2) * erf_inv(u) for u uniform in (-1, 1)."""
    above = np.nextafter(np.array(-1, dtype), np.array(0, dtype), dtype=dtype)
    return _mul_root2(lax.erf_inv(draw(key, shape, dtype, float(above), 1.0)))


def _mul_root2(x: Array) -> Array:
    return lax.mul(const(math.sqrt(2), x), x)


@sampler()
def truncated_normal(
    key: ArrayLike, lower: ArrayLike, upper: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None, *, out_sharding: Any = None
) -> Array:
    """Standard normal numbers under the condition that they lie between lower and upper."""
    root = typed_scalar(math.sqrt(2), dtype)
    a, b = (lax.erf(lax.div(x, root)) for x in (lower, upper))
    out = _mul_root2(lax.erf_inv(uniform(key, shape, dtype, a, b)))
    # rounding must not take it to the bounds
    least, greatest = (
        with_rank(lax.nextafter(lax.stop_gradient(x), const(to, x)), len(shape)) for x, to in ((lower, math.inf), (upper, -math.inf))
    )
    return lax.min(lax.max(out, least), greatest)


@sampler()
def lognormal(
    key: ArrayLike, sigma: ArrayLike = 1.0, shape: Any = None, dtype: DTypeLike | None = None, *, out_sharding: Any = None
) -> Array:
    """exp(sigma * x) for standard normal x."""
    return lax.exp(lax.mul(normal(key, shape, dtype), to_shape(sigma, shape)))


@sampler()
def exponential(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """Exponentially distributed numbers of mean 1."""
    return lax.neg(lax.log1p(lax.neg(draw(key, shape, dtype))))


def gumbel_mode(fun: str, mode: str | None) -> str:
    if mode not in (None, "high", "low"):
        raise ValueError(f"{fun}: mode must be 'high' or 'low', got {mode!r}")
    return mode or "low"


@sampler(mode=gumbel_mode)
def gumbel(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None, mode: str | None = None, *, out_sharding: Any = None) -> Array:
    """Standard Gumbel numbers. `mode="high"` spends twice the bits for a longer upper tail."""
    if mode == "low":
        return lax.neg(lax.log(lax.neg(lax.log(draw(key, shape, dtype, tiny_of(dtype), 1.0)))))
    eps = eps_of(dtype)
    high, low = lax.unstack(draw(key, (2, *shape), dtype))
    fine = lax.add(lax.add(high, lax.mul(const(eps, low), low)), const(eps * eps / 2, low))
    u = lax.select(lax.ge(high, const(0.5, high)), high, fine)
    return lax.neg(lax.log(lax.neg(lax.log1p(lax.neg(u)))))


@sampler()
def laplace(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """Standard Laplace numbers."""
    u = draw(key, shape, dtype, -1.0 + float(dtypes.finfo(dtype).epsneg), 1.0)
    return lax.mul(lax.sign(u), lax.log1p(lax.neg(lax.abs(u))))


@sampler()
def logistic(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """Standard logistic numbers."""
    u = draw(key, shape, dtype, tiny_of(dtype), 1.0)
    return lax.sub(lax.log(u), lax.log1p(lax.neg(u)))


@sampler()
def cauchy(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """Standard Cauchy numbers."""
    u = draw(key, shape, dtype, eps_of(dtype), 1.0)
    return lax.tan(lax.mul(const(math.pi, u), lax.sub(u, const(0.5, u))))


@sampler()
def pareto(key: ArrayLike, b: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """Pareto numbers of shape parameter b, from 1 upwards."""
    return lax.exp(lax.div(exponential(key, shape, dtype), to_shape(b, shape)))


@sampler()
def rayleigh(key: ArrayLike, scale: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """Rayleigh numbers of the given scale."""
    u = draw(key, shape, dtype)
    return lax.mul(to_shape(scale, shape), lax.sqrt(lax.mul(lax.log(u), const(-2, u))))


@sampler()
def maxwell(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """Lengths of standard normal vectors in three dimensions."""
    x = normal(key, (*shape, 3), dtype)
    return lax.sqrt(lax.reduce_sum(lax.mul(x, x), (len(shape),)))


@sampler(shape=lambda fun, shape, *parameters: (*shape_of(fun, shape), *lax.broadcast_shapes(*parameters)))
def double_sided_maxwell(key: ArrayLike, loc: ArrayLike, scale: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None) -> Array:
    """loc + scale * x for Maxwell numbers x of random sign. `shape`: axes in front of the parameters' own."""
    k1, k2 = pair(key)
    x = lax.mul(rademacher(k2, shape, dtype), maxwell(k1, shape, dtype))
    return lax.add(lax.mul(x, to_shape(scale, shape)), to_shape(loc, shape))


@sampler(shape=lambda fun, shape, *parameters: lax.broadcast_shapes(shape_of(fun, shape), *parameters))
def weibull_min(key: ArrayLike, scale: ArrayLike, concentration: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None) -> Array:
    """Weibull numbers of the given scale and concentration."""
    x = exponential(key, shape, dtype)
    power = lax.div(const(1, concentration), concentration)
    return lax.mul(lax.pow(x, full_shape(power, shape)), to_shape(scale, shape))


@sampler()
def triangular(
    key: ArrayLike,
    left: ArrayLike,
    mode: ArrayLike,
    right: ArrayLike,
    shape: Any = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Numbers of triangular density between left and right, with its peak at mode."""
    left, mode, right = (full_shape(x, shape) for x in (left, mode, right))
    width, rise, fall = lax.sub(right, left), lax.sub(mode, left), lax.sub(right, mode)
    u = draw(key, shape, dtype)
    below = lax.add(left, lax.sqrt(lax.mul(lax.mul(u, width), rise)))
    above = lax.sub(right, lax.sqrt(lax.mul(lax.mul(lax.sub(const(1, u), u), width), fall)))
    return lax.select(lax.lt(u, lax.div(rise, width)), below, above)


@sampler()
def wald(key: ArrayLike, mean: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """Inverse Gaussian numbers of the given mean and scale 1 (J. Michael, W. Schucany, R. Haas, The American Statistician 30(2), 1976)."""
    k1, k2 = pair(key)
    mean = full_shape(mean, shape)
    v, u = normal(k1, shape, dtype), draw(k2, shape, dtype)
    y, squared = lax.square(v), lax.square(mean)
    root = lax.sqrt(lax.add(lax.mul(lax.mul(const(4, mean), mean), y), lax.mul(squared, lax.square(y))))
    x = lax.add(mean, lax.div(lax.mul(squared, y), const(2, y)))
    x = lax.sub(x, lax.mul(lax.div(mean, const(2, mean)), root))
    return lax.select(lax.le(u, lax.div(mean, lax.add(mean, x))), x, lax.div(squared, x))


# Discrete distributions


@sampler("iuf")
def rademacher(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """-1 or 1."""
    x = convert(bernoulli(key, typed_scalar(0.5, dtypes.default_float()), shape), dtype)
    return lax.sub(lax.mul(const(2, x), x), const(1, x))


def _as_float(fun: str, x: ArrayLike, dtype: Any) -> Array:
    x = as_operand(fun, x)
    return convert(x, x.dtype if dtypes.is_float(x.dtype) else dtypes.default_float())


@sampler("iu", parameter=_as_float)
def geometric(key: ArrayLike, p: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """How many trials of success probability p it takes to the first success."""
    u = draw(key, shape, p.dtype)
    u = select(lax.eq(u, const(0, u)), const(1, u), u)
    count = lax.floor(lax.div(lax.log(u), to_shape(lax.log1p(lax.neg(p)), shape)))
    return convert(lax.add(count, const(1, count)), dtype)
