"""Bits, uniform numbers, integers and booleans."""

from __future__ import annotations

from typing import Any

import numpy as np

from steno import lax
from steno.core import dtypes
from steno.core.aval import typed_scalar
from steno.lax.operands import as_operand, check_dtype, convert, elementwise
from steno.ops import random as ops
from steno.random.keys import (
    Array,
    ArrayLike,
    DTypeLike,
    Shape,
    as_given,
    bits_of,
    compiled,
    const,
    dtype_of,
    eps_of,
    full_shape,
    pair,
    placed,
    sampler,
    shape_of,
    the_key,
    to_shape,
    with_rank,
)


def bits(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """Uniform unsigned integers over the whole range of the dtype (uint32 by default)."""
    k = the_key("bits", key)
    d = dtype_of("bits", dtype, "u")
    return placed(bits_of(k, dtypes.itemsize_bits(d), shape_of("bits", shape)), out_sharding)


@sampler(parameter=as_given)
def uniform(
    key: ArrayLike,
    shape: Any = (),
    dtype: DTypeLike | None = None,
    minval: ArrayLike = 0.0,
    maxval: ArrayLike = 1.0,
    *,
    out_sharding: Any = None,
) -> Array:
    """Uniform floats in [minval, maxval).

    >>> random.uniform(random.key(0), (2,), minval=-1.0).dtype
    dtype('float32')
    """
    low, high = (with_rank(convert(x, dtype), len(shape)) for x in (minval, maxval))
    info = dtypes.finfo(dtype)
    width, mantissa = info.bits, info.nmant
    drawn = 8 if mantissa < 8 else width
    unsigned = np.dtype(f"uint{width}")
    x = convert(bits_of(key, drawn, shape), unsigned)
    # the mantissa of a number in [1, 2) is random
    x = lax.shift_right_logical(x, const(drawn - mantissa, x))
    x = lax.bitwise_or(x, const(int(np.ones((), dtype).view(unsigned)), x))
    x = lax.bitcast_convert_type(x, dtype)
    x = lax.sub(x, const(1, x))
    # not `mul`, then `add`: JAX's compiled code rounds once. `max`: rounding may give less than minval
    span = lax.sub(high, low)
    return lax.max(low, elementwise(ops.fma, x, span, low))


def randint(
    key: ArrayLike, shape: Any, minval: ArrayLike, maxval: ArrayLike, dtype: DTypeLike | None = None, *, out_sharding: Any = None
) -> Array:
    """Uniform integers in [minval, maxval).

    >>> random.randint(random.key(0), (3,), 0, 10)
    Array([9, 0, 2], dtype=int32)
    """
    k = the_key("randint", key)
    d = dtypes.default_int() if dtype is None else check_dtype(dtype, "randint")
    if isinstance(d, dtypes.KeyDType) or dtypes.kind(d) not in "iu":
        raise TypeError(f"randint only accepts integer dtypes, got {dtypes.name(d)}")
    low, high = as_operand("randint", minval), as_operand("randint", maxval)
    shape = shape_of("randint", shape, low.shape, high.shape)
    if dtypes.itemsize_bits(d) >= 32:
        return placed(_randint(k, low, high, shape=shape, dtype=d), out_sharding)
    # narrow integers are drawn as int32 in the range they have
    info, i32 = dtypes.iinfo(d), dtypes.int32
    least, greatest = int(info.min), int(info.max)
    low, high = clip(convert(low, i32), least, greatest), clip(convert(high, i32), least, greatest + 1)
    return placed(convert(_randint(k, low, high, shape=shape, dtype=i32), d), out_sharding)


def clip(x: Array, low: int, high: int) -> Array:
    return lax.min(lax.max(x, const(low, x)), const(high, x))


@compiled("shape", "dtype")
def _randint(key: Array, minval: Array, maxval: Array, *, shape: Shape, dtype: Any) -> Array:
    if dtypes.kind(minval.dtype) not in "iu":
        minval = convert(minval, dtype)
    if dtypes.kind(maxval.dtype) not in "iu":
        maxval = convert(maxval, dtype)
    info = dtypes.iinfo(dtype)

    def limited(x: Array) -> Array:
        own = dtypes.iinfo(x.dtype)
        return with_rank(convert(clip(x, max(int(info.min), int(own.min)), min(int(info.max), int(own.max))), dtype), len(shape))

    greatest = min(int(info.max), int(dtypes.iinfo(maxval.dtype).max))
    beyond = with_rank(lax.gt(maxval, const(greatest, maxval)), len(shape))
    low, high = limited(minval), limited(maxval)

    width = info.bits
    unsigned = np.dtype(f"uint{width}")
    k1, k2 = pair(key)
    upper, lower = (bits_of(k, width, shape) for k in (k1, k2))
    span = convert(lax.sub(high, low), unsigned)
    # an empty range gives minval; a maxval beyond the dtype's greatest number includes that
    span = select(lax.le(high, low), const(1, span), span)
    span = select(lax.bitwise_and(beyond, lax.gt(high, low)), lax.add(span, const(1, span)), span)
    # (upper * 2**width + lower) mod span, with 2**width mod span by squaring
    half = lax.rem(const(1 << (width // 2), span), span)
    factor = lax.rem(lax.mul(half, half), span)
    offset = lax.add(lax.mul(lax.rem(upper, span), factor), lax.rem(lower, span))
    return full_shape(lax.add(low, convert(lax.rem(offset, span), dtype)), shape)


def select(which: Array, x: Array, y: Array) -> Array:
    """x where `which`, else y, broadcast as elementwise ops do."""
    shapes = [v.aval.shape for v in (which, x, y) if v.aval.shape]
    shape = lax.broadcast_shapes(*shapes) if shapes else ()
    return lax.select_n(full_shape(which, shape), full_shape(y, shape), full_shape(x, shape))


def bernoulli(key: ArrayLike, p: ArrayLike = 0.5, shape: Any = None, mode: str = "low", *, out_sharding: Any = None) -> Array:
    """True with probability p. `mode="high"` spends twice the bits for p near 0.

    >>> random.bernoulli(random.key(0), 0.5, (4,))
    Array([False, False,  True,  True], dtype=bool)
    """
    if mode not in ("high", "low"):
        raise ValueError(f"bernoulli: mode must be 'high' or 'low', got {mode!r}")
    k, probability = the_key("bernoulli", key), as_operand("bernoulli", p)
    d = probability.dtype
    if isinstance(d, dtypes.KeyDType) or not dtypes.is_float(d):
        raise TypeError(f"bernoulli probability `p` must have a floating dtype, got {dtypes.name(d)}.")
    full = shape_of("bernoulli", shape, probability.shape)
    return placed(_bernoulli(k, convert(probability, d), shape=full, mode=mode), out_sharding)


@compiled("shape", "mode")
def _bernoulli(key: Array, p: Array, *, shape: Shape, mode: str) -> Array:
    p = to_shape(p, shape)
    if mode == "low":
        return lax.lt(draw(key, shape, p.dtype), p)
    high, low = lax.unstack(draw(key, (2, *shape), p.dtype))
    return lax.lt(lax.mul(low, const(eps_of(p.dtype), low)), lax.sub(p, high))


def draw(key: Array, shape: Shape, dtype: Any, low: float = 0.0, high: float = 1.0) -> Array:
    """`uniform` between constants."""
    return uniform(key, shape, dtype, typed_scalar(low, dtype), typed_scalar(high, dtype))
