"""Pseudo-random numbers from explicit keys. The same names as `jax.random`, and the same algorithms: `key`, `split`, `fold_in`, `bits`,
`uniform`, `randint`, `bernoulli` and `permutation` give JAX's numbers bit for bit, the others within rounding of the elementary functions
they pass through.

A key is a typed key array (`key`) or, as in older programs, two uint32 words (`PRNGKey`); functions that make keys return them in the form
they got. The one generator there is is threefry2x32 (see `steno.ops.random`)."""

from __future__ import annotations

import functools
import math
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from steno import lax
from steno.api import jit
from steno.core import dtypes
from steno.core.aval import typed_scalar, typeof
from steno.core.config import config
from steno.lax.operands import as_array, as_operand, canonical_axis, check_dtype, convert, elementwise, shape_argument, spread
from steno.ops import random as ops
from steno.ops.gather import GatherDimensionNumbers, GatherScatterMode

Array = Any
ArrayLike = Any
DTypeLike = Any
Shape = tuple[int, ...]

_THREEFRY = "threefry2x32"
_OTHER_GENERATORS = ("rbg", "unsafe_rbg", "philox2x32", "philox4x32", "threefry4x32")
_RANDINT_SHUFFLE_EXPONENT = 3


def _compiled(*static: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return functools.partial(jit, static_argnames=static)


# Checks and conversions


def _generator(fun: str, impl: Any) -> dtypes.KeyDType:
    """What a user says for `impl`. ValueError for unknown names, TypeError for other types, NotImplementedError for generators there are
    not."""
    if impl is None:
        impl = config._state.default_prng_impl
    if isinstance(impl, dtypes.KeyDType):
        return impl
    if not isinstance(impl, str):
        raise TypeError(f"{fun}: a PRNG implementation is named by a string, got {impl!r} of type {type(impl)}")
    if impl == _THREEFRY:
        return dtypes.key_fry
    if impl in _OTHER_GENERATORS:
        raise NotImplementedError(f"{fun}: the PRNG implementation {impl!r} is not implemented; there is {_THREEFRY!r}")
    raise ValueError(f"{fun}: unrecognized PRNG implementation {impl!r}; there is {_THREEFRY!r}")


def _chosen(fun: str, impl: Any, dtype: Any) -> dtypes.KeyDType:
    """`impl` and `dtype` say the same thing. ValueError if both are given."""
    if dtype is None:
        return _generator(fun, impl)
    if impl is not None:
        raise ValueError(f"{fun}: only one of impl and dtype may be given, got {impl!r} and {dtype!r}")
    if not isinstance(dtype, dtypes.KeyDType):
        raise TypeError(f"{fun}: dtype must be a PRNG key dtype, got {dtype!r}")
    return dtype


def _as_keys(fun: str, keys: Any) -> tuple[Array, bool]:
    """(typed keys, whether they came as uint32 words)."""
    if not hasattr(keys, "dtype") or not hasattr(keys, "shape"):
        raise TypeError(
            f"{fun}: a PRNG key must be a key array, or an array of uint32 whose last axis has size 2; got {keys!r} of type {type(keys)}"
        )
    keys = as_operand(fun, keys)
    if isinstance(keys.dtype, dtypes.KeyDType):
        return keys, False
    if keys.dtype != np.uint32 or keys.ndim < 1 or keys.shape[-1] != 2:
        raise TypeError(
            f"{fun}: a PRNG key must be a key array, or an array of uint32 whose last axis has size 2; got {typeof(keys).str_short()}"
        )
    mode = config._state.legacy_prng_key
    if mode == "error":
        raise ValueError(f"{fun}: a raw uint32 key was passed while jax_legacy_prng_key='error'; make keys with jax.random.key")
    if mode == "warn":
        warnings.warn(f"{fun}: a raw uint32 key was passed; make keys with jax.random.key", UserWarning, stacklevel=4)
    return ops.random_wrap(keys, impl=dtypes.key_fry), True


def _one_key(fun: str, key: Any) -> tuple[Array, bool]:
    """As `_as_keys`, for one key. ValueError for an array of several."""
    typed, raw = _as_keys(fun, key)
    if typed.ndim:
        raise ValueError(
            f"{fun} accepts a single key, but was given a key array of shape {np.shape(key)} != {(2,) if raw else ()}. Use jax.vmap for "
            f"batching."
        )
    return typed, raw


def _key(fun: str, key: Any) -> Array:
    return _one_key(fun, key)[0]


def _in_form(keys: Array, raw: bool) -> Array:
    return ops.random_unwrap(keys) if raw else keys


def _no_sharding(fun: str, out_sharding: Any) -> None:
    if out_sharding is not None:
        raise NotImplementedError(f"{fun}: out_sharding: there is one device, arrays are not sharded")


def _dtype(fun: str, dtype: DTypeLike | None, kinds: str = "f", default: Any = None) -> Any:
    """A dtype argument of one of these kinds, canonicalised; by default a float. ValueError for other kinds."""
    d = (dtypes.default_float() if default is None else default) if dtype is None else check_dtype(dtype, fun)
    if isinstance(d, dtypes.KeyDType) or dtypes.kind(d) not in kinds:
        what = {"f": "float", "fc": "float or complex", "u": "unsigned integer", "iuf": "integer or float", "iu": "integer"}[kinds]
        raise ValueError(f"dtype argument to `{fun}` must be a {what} dtype, got {dtypes.name(d)}")
    return d


def _shape(fun: str, shape: Any, *parameters: Shape) -> Shape:
    """A shape argument; None is the parameters' common shape. ValueError if the parameters do not broadcast to it."""
    if shape is None:
        return lax.broadcast_shapes(*parameters) if parameters else ()
    shape = shape_argument(fun, shape)
    if parameters and lax.broadcast_shapes(shape, *parameters) != shape:
        raise ValueError(
            f"{fun}: the shape must be that of the result, got {shape} for parameters of shapes {', '.join(map(str, parameters))}"
        )
    return shape


def _parameter(fun: str, x: ArrayLike, dtype: Any) -> Array:
    return convert(as_operand(fun, x), dtype)


def _to(x: Array, shape: Shape) -> Array:
    """x broadcast to a shape; a scalar stays one, for it goes with any shape."""
    return x if not x.aval.shape or x.aval.shape == shape else spread(x, shape)


def _full(x: Array, shape: Shape) -> Array:
    return x if x.aval.shape == shape else spread(x, shape)


def _rank(x: Array, rank: int) -> Array:
    """New leading axes of size 1."""
    return x if x.aval.ndim in (0, rank) else spread(x, (1,) * (rank - x.aval.ndim) + x.aval.shape)


def _c(value: Any, x: Any) -> Any:
    """A constant of x's dtype."""
    return typed_scalar(np.array(value)[()], x.dtype)


def _eps(dtype: Any) -> float:
    return float(dtypes.finfo(dtype).eps)


def _tiny(dtype: Any) -> float:
    return float(dtypes.finfo(dtype).tiny)


# Keys


def _seed(fun: str, seed: Any) -> Array:
    """A seed as an integer scalar. A Python int wraps around to the default integer type."""
    if isinstance(getattr(seed, "dtype", None), dtypes.KeyDType):
        raise TypeError(f"{fun} accepts a scalar seed, but was given a PRNG key.")
    if isinstance(seed, int):
        if not -(1 << 63) <= seed < 1 << 63:
            raise OverflowError(f"{fun}: the seed {seed} does not fit into 64 bits")
        seed = np.int64(seed).astype(dtypes.default_int())
    x = as_operand(fun, seed)
    if x.ndim:
        raise TypeError(f"{fun} accepts a scalar seed, but was given an array of shape {x.shape} != (). Use jax.vmap for batching")
    if dtypes.kind(x.dtype) not in "iu":
        raise TypeError(f"{fun}: the seed must be an integer, got {seed!r} of dtype {dtypes.name(x.dtype)}")
    return x


def key(seed: int | ArrayLike, *, impl: Any = None, dtype: Any = None) -> Array:
    """The typed key of an integer seed."""
    return ops.random_seed(_seed("key", seed), impl=_chosen("key", impl, dtype))


def PRNGKey(seed: int | ArrayLike, *, impl: Any = None) -> Array:
    """The key of an integer seed, as two uint32 words (as a typed key if jax_enable_custom_prng is set)."""
    typed = ops.random_seed(_seed("PRNGKey", seed), impl=_generator("PRNGKey", impl))
    return typed if config._state.enable_custom_prng else ops.random_unwrap(typed)


def key_data(keys: ArrayLike) -> Array:
    """The words of keys: uint32 with a trailing axis of size 2."""
    return ops.random_unwrap(_as_keys("key_data", keys)[0])


def wrap_key_data(key_bits_array: Array, *, impl: Any = None, dtype: Any = None) -> Array:
    """Typed keys of the given words."""
    words = as_operand("wrap_key_data", key_bits_array)
    return ops.random_wrap(words, impl=_chosen("wrap_key_data", impl, dtype))


def key_impl(keys: ArrayLike) -> str:
    """The name of the keys' generator."""
    return _as_keys("key_impl", keys)[0].dtype.impl


def key_dtype(impl_spec: Any = None) -> dtypes.KeyDType:
    """The dtype of the keys of a generator."""
    return _generator("key_dtype", impl_spec)


def clone(key: Array) -> Array:
    """The same key, to be used a second time on purpose."""
    typed, raw = _as_keys("clone", key)
    return _in_form(ops.random_clone(typed), raw)


def split(key: ArrayLike, num: int | tuple[int, ...] = 2) -> Array:
    """`num` new keys (an array of that shape)."""
    typed, raw = _one_key("split", key)
    shape = tuple(num) if isinstance(num, tuple | list) else (operator.index(num),)
    return _in_form(_split(typed, shape_argument("split", shape)), raw)


def fold_in(key: ArrayLike, data: int | ArrayLike) -> Array:
    """A new key that depends on the key and an integer of 32 bits."""
    typed, raw = _one_key("fold_in", key)
    if isinstance(data, int) and not isinstance(data, bool):
        if not 0 <= data < 1 << 32:
            raise OverflowError(f"fold_in: Python integer {data} out of bounds for uint32")
        word = typed_scalar(np.uint32(data), np.uint32)
    else:
        x = as_operand("fold_in", data)
        if x.ndim:
            raise TypeError(f"fold_in accepts a scalar, but was given an array of shape {x.shape} != (). Use jax.vmap for batching.")
        word = convert(x, dtypes.uint32)
    return _in_form(ops.random_fold_in(typed, word), raw)


# Bits, uniform numbers, integers, booleans


def _split(key: Array, shape: Shape) -> Array:
    return ops.random_split(key, shape=shape, partitionable=config._state.threefry_partitionable)


def _bits(key: Array, width: int, shape: Shape) -> Array:
    return ops.random_bits(key, bit_width=width, shape=shape, partitionable=config._state.threefry_partitionable)


def bits(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """Uniform unsigned integers over the whole range of the dtype (uint32 by default)."""
    _no_sharding("bits", out_sharding)
    k = _key("bits", key)
    d = _dtype("bits", dtype, "u", dtypes.canonical(dtypes.uint64))
    return _bits(k, dtypes.itemsize_bits(d), _shape("bits", shape))


def uniform(
    key: ArrayLike,
    shape: Any = (),
    dtype: DTypeLike | None = None,
    minval: ArrayLike = 0.0,
    maxval: ArrayLike = 1.0,
    *,
    out_sharding: Any = None,
) -> Array:
    """Uniform floats in [minval, maxval)."""
    _no_sharding("uniform", out_sharding)
    k, d = _key("uniform", key), _dtype("uniform", dtype)
    low, high = as_operand("uniform", minval), as_operand("uniform", maxval)
    return _uniform(k, low, high, shape=_shape("uniform", shape, low.shape, high.shape), dtype=d)


@_compiled("shape", "dtype")
def _uniform(key: Array, minval: Array, maxval: Array, *, shape: Shape, dtype: Any) -> Array:
    low, high = (_rank(convert(x, dtype), len(shape)) for x in (minval, maxval))
    info = dtypes.finfo(dtype)
    width, mantissa = info.bits, info.nmant
    drawn = 8 if mantissa < 8 else width
    unsigned = np.dtype(f"uint{width}")
    x = convert(_bits(key, drawn, shape), unsigned)
    # the mantissa of a number in [1, 2) is random
    x = lax.shift_right_logical(x, _c(drawn - mantissa, x))
    x = lax.bitwise_or(x, _c(int(np.ones((), dtype).view(unsigned)), x))
    x = lax.bitcast_convert_type(x, dtype)
    x = lax.sub(x, _c(1, x))
    # not `mul`, then `add`: JAX's compiled code rounds once. `max`: rounding may give less than minval
    span = lax.sub(high, low)
    return lax.max(low, elementwise(ops.fma, x, span, low))


def randint(
    key: ArrayLike, shape: Any, minval: ArrayLike, maxval: ArrayLike, dtype: DTypeLike | None = None, *, out_sharding: Any = None
) -> Array:
    """Uniform integers in [minval, maxval)."""
    _no_sharding("randint", out_sharding)
    k = _key("randint", key)
    d = dtypes.default_int() if dtype is None else check_dtype(dtype, "randint")
    if isinstance(d, dtypes.KeyDType) or dtypes.kind(d) not in "iu":
        raise TypeError(f"randint only accepts integer dtypes, got {dtypes.name(d)}")
    low, high = as_operand("randint", minval), as_operand("randint", maxval)
    shape = _shape("randint", shape, low.shape, high.shape)
    if dtypes.itemsize_bits(d) >= 32:
        return _randint(k, low, high, shape=shape, dtype=d)
    # narrow integers are drawn as int32 in the range they have
    info, i32 = dtypes.iinfo(d), dtypes.int32
    least, greatest = int(info.min), int(info.max)
    low, high = _clip(convert(low, i32), least, greatest), _clip(convert(high, i32), least, greatest + 1)
    return convert(_randint(k, low, high, shape=shape, dtype=i32), d)


def _clip(x: Array, low: int, high: int) -> Array:
    return lax.min(lax.max(x, _c(low, x)), _c(high, x))


@_compiled("shape", "dtype")
def _randint(key: Array, minval: Array, maxval: Array, *, shape: Shape, dtype: Any) -> Array:
    if dtypes.kind(minval.dtype) not in "iu":
        minval = convert(minval, dtype)
    if dtypes.kind(maxval.dtype) not in "iu":
        maxval = convert(maxval, dtype)
    info = dtypes.iinfo(dtype)

    def limited(x: Array) -> Array:
        own = dtypes.iinfo(x.dtype)
        return _rank(convert(_clip(x, max(int(info.min), int(own.min)), min(int(info.max), int(own.max))), dtype), len(shape))

    greatest = min(int(info.max), int(dtypes.iinfo(maxval.dtype).max))
    beyond = _rank(lax.gt(maxval, _c(greatest, maxval)), len(shape))
    low, high = limited(minval), limited(maxval)

    width = info.bits
    unsigned = np.dtype(f"uint{width}")
    k1, k2 = _pair(key)
    upper, lower = (_bits(k, width, shape) for k in (k1, k2))
    span = convert(lax.sub(high, low), unsigned)
    # an empty range gives minval; a maxval beyond the dtype's greatest number includes that
    span = _select(lax.le(high, low), _c(1, span), span)
    span = _select(lax.bitwise_and(beyond, lax.gt(high, low)), lax.add(span, _c(1, span)), span)
    # (upper * 2**width + lower) mod span, with 2**width mod span by squaring
    half = lax.rem(_c(1 << (width // 2), span), span)
    factor = lax.rem(lax.mul(half, half), span)
    offset = lax.add(lax.mul(lax.rem(upper, span), factor), lax.rem(lower, span))
    return _full(lax.add(low, convert(lax.rem(offset, span), dtype)), shape)


def _select(which: Array, x: Array, y: Array) -> Array:
    """x where `which`, else y, broadcast as elementwise ops do."""
    shapes = [v.aval.shape for v in (which, x, y) if v.aval.shape]
    shape = lax.broadcast_shapes(*shapes) if shapes else ()
    return lax.select_n(_full(which, shape), _full(y, shape), _full(x, shape))


def _pair(key: Array) -> tuple[Array, ...]:
    return tuple(lax.unstack(_split(key, (2,))))


def bernoulli(key: ArrayLike, p: ArrayLike = 0.5, shape: Any = None, mode: str = "low", *, out_sharding: Any = None) -> Array:
    """True with probability p. `mode="high"` spends twice the bits for p near 0."""
    _no_sharding("bernoulli", out_sharding)
    if mode not in ("high", "low"):
        raise ValueError(f"bernoulli: mode must be 'high' or 'low', got {mode!r}")
    k, probability = _key("bernoulli", key), as_operand("bernoulli", p)
    d = probability.dtype
    if isinstance(d, dtypes.KeyDType) or not dtypes.is_float(d):
        raise TypeError(f"bernoulli probability `p` must have a floating dtype, got {dtypes.name(d)}.")
    return _bernoulli(k, convert(probability, d), shape=_shape("bernoulli", shape, probability.shape), mode=mode)


@_compiled("shape", "mode")
def _bernoulli(key: Array, p: Array, *, shape: Shape, mode: str) -> Array:
    p = _to(p, shape)
    if mode == "low":
        return lax.lt(_draw(key, shape, p.dtype), p)
    high, low = lax.unstack(_draw(key, (2, *shape), p.dtype))
    return lax.lt(lax.mul(low, _c(_eps(p.dtype), low)), lax.sub(p, high))


def _draw(key: Array, shape: Shape, dtype: Any, low: float = 0.0, high: float = 1.0) -> Array:
    """`_uniform` between constants."""
    return _uniform(key, typed_scalar(low, dtype), typed_scalar(high, dtype), shape=shape, dtype=dtype)


# Permutations and choices


def permutation(key: ArrayLike, x: int | ArrayLike, axis: int = 0, independent: bool = False, *, out_sharding: Any = None) -> Array:
    """The elements along an axis in random order, all slices alike or each on its own (`independent`); of an integer n, of 0 ... n - 1."""
    _no_sharding("permutation", out_sharding)
    k, x = _key("permutation", key), as_array("permutation", x)
    if not x.ndim:
        if dtypes.kind(x.dtype) not in "iu":
            raise TypeError(f"permutation: x must be an integer or at least 1-dimensional, got a scalar of dtype {dtypes.name(x.dtype)}")
        canonical_axis(axis, 1)
        return _shuffle(k, lax.iota(dtypes.default_int(), max(operator.index(x), 0)), axis=0)
    axis = canonical_axis(axis, x.ndim)
    if independent or x.ndim == 1:
        return _shuffle(k, x, axis=axis)
    order = _shuffle(k, lax.iota(dtypes.default_int(), x.shape[axis]), axis=0)
    return _take(x, order, axis)


@_compiled("axis")
def _shuffle(key: Array, x: Array, *, axis: int) -> Array:
    """Sorts by random 32-bit numbers; as often as it takes to make ties unlikely."""
    rounds = math.ceil(_RANDINT_SHUFFLE_EXPONENT * math.log(max(1, x.size)) / math.log((1 << 32) - 1))
    for _ in range(rounds):
        key, now = _pair(key)
        _, x = lax.sort_key_val(_bits(now, 32, x.shape), x, axis)
    return x


def _take(x: Array, indices: Array, axis: int) -> Array:
    """`x` at the (valid) indices along an axis, which is replaced by the axes of `indices`."""
    rank, n = indices.ndim, x.ndim
    if not x.shape[axis]:
        return lax.reshape(x, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))
    numbers = GatherDimensionNumbers((*range(axis), *range(axis + rank, n + rank - 1)), (axis,), (axis,))
    return lax.gather(
        x,
        lax.expand_dims(indices, (rank,)),
        numbers,
        tuple(1 if d == axis else s for d, s in enumerate(x.shape)),
        mode=GatherScatterMode.CLIP,
    )


def choice(
    key: ArrayLike,
    a: int | ArrayLike,
    shape: Any = (),
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: int = 0,
    mode: str | None = None,
) -> Array:
    """Random elements of `a` along an axis (of 0 ... a - 1 for an integer), uniformly or with probabilities p."""
    k, a = _key("choice", key), as_array("choice", a)
    if not isinstance(shape, Sequence):
        raise TypeError(f"choice: shape must be a sequence of integers, got {shape!r}")
    shape = _shape("choice", shape)
    draws = math.prod(shape)
    if not a.ndim:
        n, axis = operator.index(a) if dtypes.is_integer(a.dtype) else int(a), 0
        canonical_axis(axis, 1)
    else:
        axis = canonical_axis(axis, a.ndim)
        n = a.shape[axis]
    if draws and n <= 0:
        raise ValueError("choice: a must be greater than 0 unless no samples are taken")
    if not replace and draws > n:
        raise ValueError(f"choice: cannot take a larger sample (size {draws}) than population (size {n}) when 'replace=False'")
    out_shape = shape if not a.ndim else (*a.shape[:axis], *shape, *a.shape[axis + 1 :])
    if p is None and not replace:
        mixed = permutation(k, n if not a.ndim else a, axis)
        return lax.reshape(lax.slice_in_dim(mixed, 0, draws, axis=axis), out_shape)
    if p is None:
        indices = randint(k, shape, 0, n)
    else:
        indices = lax.reshape(_weighted(k, p, n, shape, replace, mode), shape)
    return indices if not a.ndim else _take(a, indices, axis)


def _weighted(key: Array, p: ArrayLike, n: int, shape: Shape, replace: bool, mode: str | None) -> Array:
    """Indices below n with probabilities p: by the inverse of the running sums, or, all different, by the Gumbel trick."""
    weights = as_array("choice", p)
    if not dtypes.is_inexact(weights.dtype):
        weights = convert(weights, dtypes.default_float())
    if weights.shape != (n,):
        raise ValueError(
            f"choice: p must be None or a 1D vector with the same size as a.shape[axis]. p has shape {weights.shape} and a.shape[axis] "
            f"is {n}."
        )
    if replace:
        sums = lax.cumsum(weights)
        total = lax.squeeze(lax.slice_in_dim(sums, n - 1, n), (0,))
        u = _draw(key, shape, sums.dtype)
        return _search(sums, lax.mul(total, lax.sub(_c(1, u), u)))
    noisy = lax.add(_gumbel(key, shape=(n,), dtype=weights.dtype, mode=_gumbel_mode("choice", mode)), lax.log(weights))
    return convert(lax.top_k(noisy, math.prod(shape))[1], dtypes.default_int())


@_compiled()
def _search(ascending: Array, x: Array) -> Array:
    """How many elements of `ascending` are below x: binary search, one halving after the other."""
    n = ascending.shape[0]
    flat = lax.reshape(x, (x.size,))
    low, high = (lax.full((flat.size,), v, dtypes.default_int()) for v in (0, n))
    for _ in range(n.bit_length()):
        middle = lax.add(low, lax.div(lax.sub(high, low), _c(2, low)))
        below = lax.bitwise_and(lax.lt(low, high), lax.lt(_take(ascending, lax.min(middle, _c(n - 1, middle)), 0), flat))
        low, high = lax.select(below, lax.add(middle, _c(1, low)), low), lax.select(below, high, middle)
    return lax.reshape(low, x.shape)


def categorical(
    key: ArrayLike,
    logits: ArrayLike,
    axis: int = -1,
    shape: Any = None,
    replace: bool = True,
    mode: str | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Positions along an axis of unnormalised log-probabilities; `shape` may have more leading axes: several draws, different ones unless
    `replace`."""
    _no_sharding("categorical", out_sharding)
    k, logits = _key("categorical", key), as_array("categorical", logits)
    mode = _gumbel_mode("categorical", mode)
    if not dtypes.is_float(logits.dtype):
        raise ValueError(f"categorical: logits must be floats, got dtype {dtypes.name(logits.dtype)}")
    axis = canonical_axis(axis, logits.ndim)
    batch = logits.shape[:axis] + logits.shape[axis + 1 :]
    shape = batch if shape is None else _shape("categorical", shape, batch)
    prefix, inner = shape[: len(shape) - len(batch)], shape[len(shape) - len(batch) :]
    n = logits.shape[axis]
    if replace:
        drawn = (*prefix, *inner[:axis], n, *inner[axis:])
        noise = _gumbel(k, shape=drawn, dtype=logits.dtype, mode=mode)
        noisy = lax.add(noise, _full(logits, drawn))
        return lax.argmax(noisy, axis + len(prefix), dtypes.default_int())
    count = math.prod(prefix)
    if count > n:
        raise ValueError(f"categorical: number of samples without replacement ({count}) cannot exceed number of categories ({n}).")
    noisy = lax.add(logits, _gumbel(k, shape=logits.shape, dtype=logits.dtype, mode=mode))
    order = lax.top_k(noisy, count, axis=axis)[1]
    moved = lax.transpose(order, (axis, *(d for d in range(order.ndim) if d != axis)))
    return lax.reshape(moved, shape)


# Continuous distributions


def normal(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """Standard normal numbers; complex ones have independent parts of variance 1/2."""
    _no_sharding("normal", out_sharding)
    return _normal(_key("normal", key), shape=_shape("normal", shape), dtype=_dtype("normal", dtype, "fc"))


@_compiled("shape", "dtype")
def _normal(key: Array, *, shape: Shape, dtype: Any) -> Array:
    if not dtypes.is_complex(dtype):
        return _normal_real(key, shape=shape, dtype=dtype)
    real = dtypes.float32 if dtype == dtypes.complex64 else dtypes.float64
    x, y = (_normal_real(k, shape=shape, dtype=real) for k in _pair(key))
    root = typed_scalar(math.sqrt(2), real)
    return lax.complex(lax.div(x, root), lax.div(y, root))


@_compiled("shape", "dtype")
def _normal_real(key: Array, *, shape: Shape, dtype: Any) -> Array:
    """sqrt(2) * erf_inv(u) for u uniform in (-1, 1)."""
    above = np.nextafter(np.array(-1, dtype), np.array(0, dtype), dtype=dtype)
    return _mul_root2(lax.erf_inv(_draw(key, shape, dtype, float(above), 1.0)))


def _mul_root2(x: Array) -> Array:
    return lax.mul(_c(math.sqrt(2), x), x)


def truncated_normal(
    key: ArrayLike, lower: ArrayLike, upper: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None, *, out_sharding: Any = None
) -> Array:
    """Standard normal numbers under the condition that they lie between lower and upper."""
    name = "truncated_normal"
    _no_sharding(name, out_sharding)
    k, d = _key(name, key), _dtype(name, dtype)
    low, high = _parameter(name, lower, d), _parameter(name, upper, d)
    return _truncated_normal(k, low, high, shape=_shape(name, shape, low.shape, high.shape), dtype=d)


@_compiled("shape", "dtype")
def _truncated_normal(key: Array, lower: Array, upper: Array, *, shape: Shape, dtype: Any) -> Array:
    root = typed_scalar(math.sqrt(2), dtype)
    a, b = (lax.erf(lax.div(x, root)) for x in (lower, upper))
    out = _mul_root2(lax.erf_inv(_uniform(key, a, b, shape=shape, dtype=dtype)))
    # rounding must not take it to the bounds
    least, greatest = (
        _rank(lax.nextafter(lax.stop_gradient(x), _c(to, x)), len(shape)) for x, to in ((lower, math.inf), (upper, -math.inf))
    )
    return lax.min(lax.max(out, least), greatest)


def lognormal(
    key: ArrayLike, sigma: ArrayLike = 1.0, shape: Any = None, dtype: DTypeLike | None = None, *, out_sharding: Any = None
) -> Array:
    """exp(sigma * x) for standard normal x."""
    _no_sharding("lognormal", out_sharding)
    k, d = _key("lognormal", key), _dtype("lognormal", dtype)
    s = _parameter("lognormal", sigma, d)
    shape = _shape("lognormal", shape, s.shape)
    return lax.exp(lax.mul(_normal(k, shape=shape, dtype=d), _to(s, shape)))


def exponential(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """Exponentially distributed numbers of mean 1."""
    _no_sharding("exponential", out_sharding)
    return _exponential(_key("exponential", key), shape=_shape("exponential", shape), dtype=_dtype("exponential", dtype))


@_compiled("shape", "dtype")
def _exponential(key: Array, *, shape: Shape, dtype: Any) -> Array:
    return lax.neg(lax.log1p(lax.neg(_draw(key, shape, dtype))))


def gumbel(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None, mode: str | None = None, *, out_sharding: Any = None) -> Array:
    """Standard Gumbel numbers. `mode="high"` spends twice the bits for a longer upper tail."""
    _no_sharding("gumbel", out_sharding)
    mode = _gumbel_mode("gumbel", mode)
    return _gumbel(_key("gumbel", key), shape=_shape("gumbel", shape), dtype=_dtype("gumbel", dtype), mode=mode)


def _gumbel_mode(fun: str, mode: str | None) -> str:
    if mode not in (None, "high", "low"):
        raise ValueError(f"{fun}: mode must be 'high' or 'low', got {mode!r}")
    return mode or "low"


@_compiled("shape", "dtype", "mode")
def _gumbel(key: Array, *, shape: Shape, dtype: Any, mode: str) -> Array:
    if mode == "low":
        return lax.neg(lax.log(lax.neg(lax.log(_draw(key, shape, dtype, _tiny(dtype), 1.0)))))
    eps = _eps(dtype)
    high, low = lax.unstack(_draw(key, (2, *shape), dtype))
    fine = lax.add(lax.add(high, lax.mul(_c(eps, low), low)), _c(eps * eps / 2, low))
    u = lax.select(lax.ge(high, _c(0.5, high)), high, fine)
    return lax.neg(lax.log(lax.neg(lax.log1p(lax.neg(u)))))


def laplace(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """Standard Laplace numbers."""
    _no_sharding("laplace", out_sharding)
    return _laplace(_key("laplace", key), shape=_shape("laplace", shape), dtype=_dtype("laplace", dtype))


@_compiled("shape", "dtype")
def _laplace(key: Array, *, shape: Shape, dtype: Any) -> Array:
    u = _draw(key, shape, dtype, -1.0 + float(dtypes.finfo(dtype).epsneg), 1.0)
    return lax.mul(lax.sign(u), lax.log1p(lax.neg(lax.abs(u))))


def logistic(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """Standard logistic numbers."""
    _no_sharding("logistic", out_sharding)
    return _logistic(_key("logistic", key), shape=_shape("logistic", shape), dtype=_dtype("logistic", dtype))


@_compiled("shape", "dtype")
def _logistic(key: Array, *, shape: Shape, dtype: Any) -> Array:
    u = _draw(key, shape, dtype, _tiny(dtype), 1.0)
    return lax.sub(lax.log(u), lax.log1p(lax.neg(u)))


def cauchy(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """Standard Cauchy numbers."""
    _no_sharding("cauchy", out_sharding)
    return _cauchy(_key("cauchy", key), shape=_shape("cauchy", shape), dtype=_dtype("cauchy", dtype))


@_compiled("shape", "dtype")
def _cauchy(key: Array, *, shape: Shape, dtype: Any) -> Array:
    u = _draw(key, shape, dtype, _eps(dtype), 1.0)
    return lax.tan(lax.mul(_c(math.pi, u), lax.sub(u, _c(0.5, u))))


def pareto(key: ArrayLike, b: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """Pareto numbers of shape parameter b, from 1 upwards."""
    _no_sharding("pareto", out_sharding)
    k, d = _key("pareto", key), _dtype("pareto", dtype)
    power = _parameter("pareto", b, d)
    return _pareto(k, power, shape=_shape("pareto", shape, power.shape), dtype=d)


@_compiled("shape", "dtype")
def _pareto(key: Array, b: Array, *, shape: Shape, dtype: Any) -> Array:
    return lax.exp(lax.div(_exponential(key, shape=shape, dtype=dtype), _to(b, shape)))


def rayleigh(key: ArrayLike, scale: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """Rayleigh numbers of the given scale."""
    _no_sharding("rayleigh", out_sharding)
    k, d = _key("rayleigh", key), _dtype("rayleigh", dtype)
    s = _parameter("rayleigh", scale, d)
    return _rayleigh(k, s, shape=_shape("rayleigh", shape, s.shape), dtype=d)


@_compiled("shape", "dtype")
def _rayleigh(key: Array, scale: Array, *, shape: Shape, dtype: Any) -> Array:
    u = _draw(key, shape, dtype)
    return lax.mul(_to(scale, shape), lax.sqrt(lax.mul(lax.log(u), _c(-2, u))))


def maxwell(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """Lengths of standard normal vectors in three dimensions."""
    _no_sharding("maxwell", out_sharding)
    return _maxwell(_key("maxwell", key), shape=_shape("maxwell", shape), dtype=_dtype("maxwell", dtype))


@_compiled("shape", "dtype")
def _maxwell(key: Array, *, shape: Shape, dtype: Any) -> Array:
    x = _normal(key, shape=(*shape, 3), dtype=dtype)
    return lax.sqrt(lax.reduce_sum(lax.mul(x, x), (len(shape),)))


def double_sided_maxwell(key: ArrayLike, loc: ArrayLike, scale: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None) -> Array:
    """loc + scale * x for Maxwell numbers x of random sign. `shape`: axes in front of the parameters' own."""
    name = "double_sided_maxwell"
    k, d = _key(name, key), _dtype(name, dtype)
    loc, scale = _parameter(name, loc, d), _parameter(name, scale, d)
    full = (*_shape(name, shape), *lax.broadcast_shapes(loc.shape, scale.shape))
    return _double_sided_maxwell(k, loc, scale, shape=full, dtype=d)


@_compiled("shape", "dtype")
def _double_sided_maxwell(key: Array, loc: Array, scale: Array, *, shape: Shape, dtype: Any) -> Array:
    k1, k2 = _pair(key)
    x = lax.mul(_rademacher(k2, shape=shape, dtype=dtype), _maxwell(k1, shape=shape, dtype=dtype))
    return lax.add(lax.mul(x, _to(scale, shape)), _to(loc, shape))


def weibull_min(key: ArrayLike, scale: ArrayLike, concentration: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None) -> Array:
    """Weibull numbers of the given scale and concentration."""
    k, d = _key("weibull_min", key), _dtype("weibull_min", dtype)
    s, c = _parameter("weibull_min", scale, d), _parameter("weibull_min", concentration, d)
    shape = lax.broadcast_shapes(_shape("weibull_min", shape), s.shape, c.shape)
    return _weibull_min(k, s, c, shape=_shape("weibull_min", shape), dtype=d)


@_compiled("shape", "dtype")
def _weibull_min(key: Array, scale: Array, concentration: Array, *, shape: Shape, dtype: Any) -> Array:
    x = _exponential(key, shape=shape, dtype=dtype)
    power = lax.div(_c(1, concentration), concentration)
    return lax.mul(lax.pow(x, _full(power, shape)), _to(scale, shape))


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
    _no_sharding(name, out_sharding)
    k, d = _key(name, key), _dtype(name, dtype)
    parameters = [_parameter(name, x, d) for x in (left, mode, right)]
    return _triangular(k, *parameters, shape=_shape(name, shape, *(x.shape for x in parameters)), dtype=d)


@_compiled("shape", "dtype")
def _triangular(key: Array, left: Array, mode: Array, right: Array, *, shape: Shape, dtype: Any) -> Array:
    left, mode, right = (_full(x, shape) for x in (left, mode, right))
    width, rise, fall = lax.sub(right, left), lax.sub(mode, left), lax.sub(right, mode)
    u = _draw(key, shape, dtype)
    below = lax.add(left, lax.sqrt(lax.mul(lax.mul(u, width), rise)))
    above = lax.sub(right, lax.sqrt(lax.mul(lax.mul(lax.sub(_c(1, u), u), width), fall)))
    return lax.select(lax.lt(u, lax.div(rise, width)), below, above)


def wald(key: ArrayLike, mean: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """Inverse Gaussian numbers of the given mean and scale 1 (J. Michael, W. Schucany, R. Haas, The American Statistician 30(2), 1976)."""
    _no_sharding("wald", out_sharding)
    k, d = _key("wald", key), _dtype("wald", dtype)
    m = _parameter("wald", mean, d)
    return _wald(k, m, shape=_shape("wald", shape, m.shape), dtype=d)


@_compiled("shape", "dtype")
def _wald(key: Array, mean: Array, *, shape: Shape, dtype: Any) -> Array:
    k1, k2 = _pair(key)
    mean = _full(mean, shape)
    v, u = _normal(k1, shape=shape, dtype=dtype), _draw(k2, shape, dtype)
    y, squared = lax.square(v), lax.square(mean)
    root = lax.sqrt(lax.add(lax.mul(lax.mul(_c(4, mean), mean), y), lax.mul(squared, lax.square(y))))
    x = lax.add(mean, lax.div(lax.mul(squared, y), _c(2, y)))
    x = lax.sub(x, lax.mul(lax.div(mean, _c(2, mean)), root))
    return lax.select(lax.le(u, lax.div(mean, lax.add(mean, x))), x, lax.div(squared, x))


# Discrete distributions


def rademacher(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """-1 or 1."""
    _no_sharding("rademacher", out_sharding)
    d = dtypes.default_int() if dtype is None else check_dtype(dtype, "rademacher")
    return _rademacher(_key("rademacher", key), shape=_shape("rademacher", shape), dtype=d)


@_compiled("shape", "dtype")
def _rademacher(key: Array, *, shape: Shape, dtype: Any) -> Array:
    x = convert(_bernoulli(key, typed_scalar(0.5, dtypes.default_float()), shape=shape, mode="low"), dtype)
    return lax.sub(lax.mul(_c(2, x), x), _c(1, x))


def geometric(key: ArrayLike, p: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None, *, out_sharding: Any = None) -> Array:
    """How many trials of success probability p it takes to the first success."""
    _no_sharding("geometric", out_sharding)
    d = dtypes.default_int() if dtype is None else check_dtype(dtype, "geometric")
    if isinstance(d, dtypes.KeyDType) or dtypes.kind(d) not in "iu":
        raise ValueError(f"dtype argument to `geometric` must be an integer dtype, got {dtypes.name(d)}")
    k, probability = _key("geometric", key), as_operand("geometric", p)
    if not dtypes.is_float(probability.dtype):
        probability = convert(probability, dtypes.default_float())
    return _geometric(k, convert(probability, probability.dtype), shape=_shape("geometric", shape, probability.shape), dtype=d)


@_compiled("shape", "dtype")
def _geometric(key: Array, p: Array, *, shape: Shape, dtype: Any) -> Array:
    u = _draw(key, shape, p.dtype)
    u = _select(lax.eq(u, _c(0, u)), _c(1, u), u)
    count = lax.floor(lax.div(lax.log(u), _to(lax.log1p(lax.neg(p)), shape)))
    return convert(lax.add(count, _c(1, count)), dtype)


# What needs loops or linear algebra


def _missing(name: str, needs: str) -> Callable[..., NoReturn]:
    def fun(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"random.{name} is not implemented: it needs {needs}")

    fun.__name__ = fun.__qualname__ = name
    fun.__doc__ = f"Not implemented: needs {needs}."
    return fun


_LOOPS = "while loops"
ball = _missing("ball", _LOOPS)
beta = _missing("beta", _LOOPS)
binomial = _missing("binomial", _LOOPS)
chisquare = _missing("chisquare", _LOOPS)
dirichlet = _missing("dirichlet", _LOOPS)
f = _missing("f", _LOOPS)
gamma = _missing("gamma", _LOOPS)
generalized_normal = _missing("generalized_normal", _LOOPS)
loggamma = _missing("loggamma", _LOOPS)
multinomial = _missing("multinomial", _LOOPS)
poisson = _missing("poisson", _LOOPS)
t = _missing("t", _LOOPS)
multivariate_normal = _missing("multivariate_normal", "the Cholesky decomposition")
orthogonal = _missing("orthogonal", "the QR decomposition")
