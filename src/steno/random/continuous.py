"""Distributions whose numbers are functions of a fixed number of uniform ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from steno import lax
from steno.core import dtypes
from steno.core.aval import typed_scalar
from steno.lax.operands import as_operand, check_dtype, convert
from steno.random.draws import _bernoulli, _uniform, draw, select
from steno.random.keys import (
    Array,
    ArrayLike,
    DTypeLike,
    Shape,
    compiled,
    const,
    dtype_of,
    eps_of,
    full_shape,
    no_sharding,
    pair,
    parameter,
    shape_of,
    the_key,
    tiny_of,
    to_shape,
    with_rank,
)


def normal(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """Standard normal numbers; complex ones have independent parts of variance 1/2."""
    no_sharding("normal", out_sharding)
    return _normal(the_key("normal", key), shape=shape_of("normal", shape), dtype=dtype_of("normal", dtype, "fc"))


@compiled("shape", "dtype")
def _normal(key: Array, *, shape: Shape, dtype: Any) -> Array:
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


def truncated_normal(
    key: ArrayLike, lower: ArrayLike, upper: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None, *, out_sharding: Any = None
) -> Array:
    """Standard normal numbers under the condition that they lie between lower and upper."""
    name = "truncated_normal"
    no_sharding(name, out_sharding)
    k, d = the_key(name, key), dtype_of(name, dtype)
    low, high = parameter(name, lower, d), parameter(name, upper, d)
    return _truncated_normal(k, low, high, shape=shape_of(name, shape, low.shape, high.shape), dtype=d)


@compiled("shape", "dtype")
def _truncated_normal(key: Array, lower: Array, upper: Array, *, shape: Shape, dtype: Any) -> Array:
    root = typed_scalar(math.sqrt(2), dtype)
    a, b = (lax.erf(lax.div(x, root)) for x in (lower, upper))
    out = _mul_root2(lax.erf_inv(_uniform(key, a, b, shape=shape, dtype=dtype)))
    # rounding must not take it to the bounds
    least, greatest = (
        with_rank(lax.nextafter(lax.stop_gradient(x), const(to, x)), len(shape)) for x, to in ((lower, math.inf), (upper, -math.inf))
    )
    return lax.min(lax.max(out, least), greatest)


def lognormal(
    key: ArrayLike, sigma: ArrayLike = 1.0, shape: Any = None, dtype: DTypeLike | None = None, *, out_sharding: Any = None
) -> Array:
    """exp(sigma * x) for standard normal x."""
    no_sharding("lognormal", out_sharding)
    k, d = the_key("lognormal", key), dtype_of("lognormal", dtype)
    s = parameter("lognormal", sigma, d)
    shape = shape_of("lognormal", shape, s.shape)
    return lax.exp(lax.mul(_normal(k, shape=shape, dtype=d), to_shape(s, shape)))


def exponential(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """Exponentially distributed numbers of mean 1."""
    no_sharding("exponential", out_sharding)
    return _exponential(the_key("exponential", key), shape=shape_of("exponential", shape), dtype=dtype_of("exponential", dtype))


@compiled("shape", "dtype")
def _exponential(key: Array, *, shape: Shape, dtype: Any) -> Array:
    return lax.neg(lax.log1p(lax.neg(draw(key, shape, dtype))))


def gumbel(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None, mode: str | None = None, *, out_sharding: Any = None) -> Array:
    """Standard Gumbel numbers. `mode="high"` spends twice the bits for a longer upper tail."""
    no_sharding("gumbel", out_sharding)
    mode = _gumbel_mode("gumbel", mode)
    return _gumbel(the_key("gumbel", key), shape=shape_of("gumbel", shape), dtype=dtype_of("gumbel", dtype), mode=mode)


def _gumbel_mode(fun: str, mode: str | None) -> str:
    if mode not in (None, "high", "low"):
        raise ValueError(f"{fun}: mode must be 'high' or 'low', got {mode!r}")
    return mode or "low"


@compiled("shape", "dtype", "mode")
def _gumbel(key: Array, *, shape: Shape, dtype: Any, mode: str) -> Array:
    if mode == "low":
        return lax.neg(lax.log(lax.neg(lax.log(draw(key, shape, dtype, tiny_of(dtype), 1.0)))))
    eps = eps_of(dtype)
    high, low = lax.unstack(draw(key, (2, *shape), dtype))
    fine = lax.add(lax.add(high, lax.mul(const(eps, low), low)), const(eps * eps / 2, low))
    u = lax.select(lax.ge(high, const(0.5, high)), high, fine)
    return lax.neg(lax.log(lax.neg(lax.log1p(lax.neg(u)))))


def laplace(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """Standard Laplace numbers."""
    no_sharding("laplace", out_sharding)
    return _laplace(the_key("laplace", key), shape=shape_of("laplace", shape), dtype=dtype_of("laplace", dtype))


@compiled("shape", "dtype")
def _laplace(key: Array, *, shape: Shape, dtype: Any) -> Array:
    u = draw(key, shape, dtype, -1.0 + float(dtypes.finfo(dtype).epsneg), 1.0)
    return lax.mul(lax.sign(u), lax.log1p(lax.neg(lax.abs(u))))


def logistic(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """Standard logistic numbers."""
    no_sharding("logistic", out_sharding)
    return _logistic(the_key("logistic", key), shape=shape_of("logistic", shape), dtype=dtype_of("logistic", dtype))


@compiled("shape", "dtype")
def _logistic(key: Array, *, shape: Shape, dtype: Any) -> Array:
    u = draw(key, shape, dtype, tiny_of(dtype), 1.0)
    return lax.sub(lax.log(u), lax.log1p(lax.neg(u)))


def cauchy(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """Standard Cauchy numbers."""
    no_sharding("cauchy", out_sharding)
    return _cauchy(the_key("cauchy", key), shape=shape_of("cauchy", shape), dtype=dtype_of("cauchy", dtype))


@compiled("shape", "dtype")
def _cauchy(key: Array, *, shape: Shape, dtype: Any) -> Array:
    u = draw(key, shape, dtype, eps_of(dtype), 1.0)
    return lax.tan(lax.mul(const(math.pi, u), lax.sub(u, const(0.5, u))))


def pareto(key: ArrayLike, b: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """Pareto numbers of shape parameter b, from 1 upwards."""
    no_sharding("pareto", out_sharding)
    k, d = the_key("pareto", key), dtype_of("pareto", dtype)
    power = parameter("pareto", b, d)
    return _pareto(k, power, shape=shape_of("pareto", shape, power.shape), dtype=d)


@compiled("shape", "dtype")
def _pareto(key: Array, b: Array, *, shape: Shape, dtype: Any) -> Array:
    return lax.exp(lax.div(_exponential(key, shape=shape, dtype=dtype), to_shape(b, shape)))


def rayleigh(key: ArrayLike, scale: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """Rayleigh numbers of the given scale."""
    no_sharding("rayleigh", out_sharding)
    k, d = the_key("rayleigh", key), dtype_of("rayleigh", dtype)
    s = parameter("rayleigh", scale, d)
    return _rayleigh(k, s, shape=shape_of("rayleigh", shape, s.shape), dtype=d)


@compiled("shape", "dtype")
def _rayleigh(key: Array, scale: Array, *, shape: Shape, dtype: Any) -> Array:
    u = draw(key, shape, dtype)
    return lax.mul(to_shape(scale, shape), lax.sqrt(lax.mul(lax.log(u), const(-2, u))))


def maxwell(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """Lengths of standard normal vectors in three dimensions."""
    no_sharding("maxwell", out_sharding)
    return _maxwell(the_key("maxwell", key), shape=shape_of("maxwell", shape), dtype=dtype_of("maxwell", dtype))


@compiled("shape", "dtype")
def _maxwell(key: Array, *, shape: Shape, dtype: Any) -> Array:
    x = _normal(key, shape=(*shape, 3), dtype=dtype)
    return lax.sqrt(lax.reduce_sum(lax.mul(x, x), (len(shape),)))


def double_sided_maxwell(key: ArrayLike, loc: ArrayLike, scale: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None) -> Array:
    """loc + scale * x for Maxwell numbers x of random sign. `shape`: axes in front of the parameters' own."""
    name = "double_sided_maxwell"
    k, d = the_key(name, key), dtype_of(name, dtype)
    loc, scale = parameter(name, loc, d), parameter(name, scale, d)
    full = (*shape_of(name, shape), *lax.broadcast_shapes(loc.shape, scale.shape))
    return _double_sided_maxwell(k, loc, scale, shape=full, dtype=d)


@compiled("shape", "dtype")
def _double_sided_maxwell(key: Array, loc: Array, scale: Array, *, shape: Shape, dtype: Any) -> Array:
    k1, k2 = pair(key)
    x = lax.mul(_rademacher(k2, shape=shape, dtype=dtype), _maxwell(k1, shape=shape, dtype=dtype))
    return lax.add(lax.mul(x, to_shape(scale, shape)), to_shape(loc, shape))


def weibull_min(key: ArrayLike, scale: ArrayLike, concentration: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None) -> Array:
    """Weibull numbers of the given scale and concentration."""
    k, d = the_key("weibull_min", key), dtype_of("weibull_min", dtype)
    s, c = parameter("weibull_min", scale, d), parameter("weibull_min", concentration, d)
    shape = lax.broadcast_shapes(shape_of("weibull_min", shape), s.shape, c.shape)
    return _weibull_min(k, s, c, shape=shape_of("weibull_min", shape), dtype=d)


@compiled("shape", "dtype")
def _weibull_min(key: Array, scale: Array, concentration: Array, *, shape: Shape, dtype: Any) -> Array:
    x = _exponential(key, shape=shape, dtype=dtype)
    power = lax.div(const(1, concentration), concentration)
    return lax.mul(lax.pow(x, full_shape(power, shape)), to_shape(scale, shape))


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
    name = "triangular"
    no_sharding(name, out_sharding)
    k, d = the_key(name, key), dtype_of(name, dtype)
    parameters = [parameter(name, x, d) for x in (left, mode, right)]
    return _triangular(k, *parameters, shape=shape_of(name, shape, *(x.shape for x in parameters)), dtype=d)


@compiled("shape", "dtype")
def _triangular(key: Array, left: Array, mode: Array, right: Array, *, shape: Shape, dtype: Any) -> Array:
    left, mode, right = (full_shape(x, shape) for x in (left, mode, right))
    width, rise, fall = lax.sub(right, left), lax.sub(mode, left), lax.sub(right, mode)
    u = draw(key, shape, dtype)
    below = lax.add(left, lax.sqrt(lax.mul(lax.mul(u, width), rise)))
    above = lax.sub(right, lax.sqrt(lax.mul(lax.mul(lax.sub(const(1, u), u), width), fall)))
    return lax.select(lax.lt(u, lax.div(rise, width)), below, above)


def wald(key: ArrayLike, mean: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """Inverse Gaussian numbers of the given mean and scale 1 (J. Michael, W. Schucany, R. Haas, The American Statistician 30(2), 1976)."""
    no_sharding("wald", out_sharding)
    k, d = the_key("wald", key), dtype_of("wald", dtype)
    m = parameter("wald", mean, d)
    return _wald(k, m, shape=shape_of("wald", shape, m.shape), dtype=d)


@compiled("shape", "dtype")
def _wald(key: Array, mean: Array, *, shape: Shape, dtype: Any) -> Array:
    k1, k2 = pair(key)
    mean = full_shape(mean, shape)
    v, u = _normal(k1, shape=shape, dtype=dtype), draw(k2, shape, dtype)
    y, squared = lax.square(v), lax.square(mean)
    root = lax.sqrt(lax.add(lax.mul(lax.mul(const(4, mean), mean), y), lax.mul(squared, lax.square(y))))
    x = lax.add(mean, lax.div(lax.mul(squared, y), const(2, y)))
    x = lax.sub(x, lax.mul(lax.div(mean, const(2, mean)), root))
    return lax.select(lax.le(u, lax.div(mean, lax.add(mean, x))), x, lax.div(squared, x))


# Discrete distributions


def rademacher(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """-1 or 1."""
    no_sharding("rademacher", out_sharding)
    d = dtypes.default_int() if dtype is None else check_dtype(dtype, "rademacher")
    return _rademacher(the_key("rademacher", key), shape=shape_of("rademacher", shape), dtype=d)


@compiled("shape", "dtype")
def _rademacher(key: Array, *, shape: Shape, dtype: Any) -> Array:
    x = convert(_bernoulli(key, typed_scalar(0.5, dtypes.default_float()), shape=shape, mode="low"), dtype)
    return lax.sub(lax.mul(const(2, x), x), const(1, x))


def geometric(key: ArrayLike, p: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """How many trials of success probability p it takes to the first success."""
    no_sharding("geometric", out_sharding)
    d = dtypes.default_int() if dtype is None else check_dtype(dtype, "geometric")
    if isinstance(d, dtypes.KeyDType) or dtypes.kind(d) not in "iu":
        raise ValueError(f"dtype argument to `geometric` must be an integer dtype, got {dtypes.name(d)}")
    k, probability = the_key("geometric", key), as_operand("geometric", p)
    if not dtypes.is_float(probability.dtype):
        probability = convert(probability, dtypes.default_float())
    return _geometric(k, convert(probability, probability.dtype), shape=shape_of("geometric", shape, probability.shape), dtype=d)


@compiled("shape", "dtype")
def _geometric(key: Array, p: Array, *, shape: Shape, dtype: Any) -> Array:
    u = draw(key, shape, p.dtype)
    u = select(lax.eq(u, const(0, u)), const(1, u), u)
    count = lax.floor(lax.div(lax.log(u), to_shape(lax.log1p(lax.neg(p)), shape)))
    return convert(lax.add(count, const(1, count)), dtype)
