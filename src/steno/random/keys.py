"""Keys: how they are made, and the checks and conversions that all functions of keys share."""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from steno import lax
from steno.api import jit
from steno.core import dtypes
from steno.core.aval import typed_scalar, typeof
from steno.core.config import config
from steno.lax.operands import as_operand, check_dtype, convert, shape_argument, spread
from steno.ops import random as ops

Array = Any
ArrayLike = Any
DTypeLike = Any
Shape = tuple[int, ...]

_GENERATORS = {d.impl: d for d in dtypes.KEYS}


def compiled(*static: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
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
    if impl in _GENERATORS:
        return _GENERATORS[impl]
    there = ", ".join(map(repr, _GENERATORS))
    raise ValueError(f"{fun}: unrecognized PRNG implementation {impl!r}; there are {there}")


def _chosen(fun: str, impl: Any, dtype: Any) -> dtypes.KeyDType:
    """`impl` and `dtype` say the same thing. ValueError if both are given."""
    if dtype is None:
        return _generator(fun, impl)
    if impl is not None:
        raise ValueError(f"{fun}: only one of impl and dtype may be given, got {impl!r} and {dtype!r}")
    if isinstance(dtype, str):
        return _generator(fun, dtype)
    if not isinstance(dtype, dtypes.KeyDType):
        raise TypeError(f"{fun}: dtype must be a PRNG key dtype or the name of a PRNG implementation, got {dtype!r}")
    return dtype


def as_keys(fun: str, keys: Any) -> tuple[Array, bool]:
    """(typed keys, whether they came as uint32 words)."""
    if not hasattr(keys, "dtype") or not hasattr(keys, "shape"):
        raise TypeError(
            f"{fun}: a PRNG key must be a key array, or an array of uint32 words along the last axis; got {keys!r} of type {type(keys)}"
        )
    keys = as_operand(fun, keys)
    if isinstance(keys.dtype, dtypes.KeyDType):
        return keys, False
    impl = _generator(fun, None)
    if keys.dtype != np.uint32 or keys.ndim < 1 or keys.shape[-1] != impl.words:
        raise TypeError(
            f"{fun}: a PRNG key must be a key array, or an array of uint32 whose last axis has size {impl.words} (a key of {impl.impl}, "
            f"which jax_default_prng_impl says); got {typeof(keys).str_short()}"
        )
    mode = config._state.legacy_prng_key
    if mode == "error":
        raise ValueError(f"{fun}: a raw uint32 key was passed while jax_legacy_prng_key='error'; make keys with jax.random.key")
    if mode == "warn":
        warnings.warn(f"{fun}: a raw uint32 key was passed; make keys with jax.random.key", UserWarning, stacklevel=4)
    return ops.random_wrap(keys, impl=impl), True


def one_key(fun: str, key: Any) -> tuple[Array, bool]:
    """As `as_keys`, for one key. ValueError for an array of several."""
    typed, raw = as_keys(fun, key)
    if typed.ndim:
        wanted = (typed.dtype.words,) if raw else ()
        raise ValueError(
            f"{fun} accepts a single key, but was given a key array of shape {np.shape(key)} != {wanted}. Use jax.vmap for batching."
        )
    return typed, raw


def the_key(fun: str, key: Any) -> Array:
    return one_key(fun, key)[0]


def in_form(keys: Array, raw: bool) -> Array:
    return ops.random_unwrap(keys) if raw else keys


def no_sharding(fun: str, out_sharding: Any) -> None:
    if out_sharding is not None:
        raise NotImplementedError(f"{fun}: out_sharding: there is one device, arrays are not sharded")


def dtype_of(fun: str, dtype: DTypeLike | None, kinds: str = "f", default: Any = None) -> Any:
    """A dtype argument of one of these kinds, canonicalised; by default a float. ValueError for other kinds."""
    d = (dtypes.default_float() if default is None else default) if dtype is None else check_dtype(dtype, fun)
    if isinstance(d, dtypes.KeyDType) or dtypes.kind(d) not in kinds:
        what = {"f": "a float", "fc": "a float or complex", "u": "an unsigned int", "iuf": "an integer or float", "iu": "an integer"}[kinds]
        raise ValueError(f"dtype argument to `{fun}` must be {what} dtype, got {dtypes.name(d)}")
    return d


def shape_of(fun: str, shape: Any, *parameters: Shape) -> Shape:
    """A shape argument; None is the parameters' common shape. ValueError if the parameters do not broadcast to it."""
    if shape is None:
        return lax.broadcast_shapes(*parameters) if parameters else ()
    shape = shape_argument(fun, shape)
    if parameters and lax.broadcast_shapes(shape, *parameters) != shape:
        raise ValueError(
            f"{fun}: the shape must be that of the result, got {shape} for parameters of shapes {', '.join(map(str, parameters))}"
        )
    return shape


def parameter(fun: str, x: ArrayLike, dtype: Any) -> Array:
    return convert(as_operand(fun, x), dtype)


def to_shape(x: Array, shape: Shape) -> Array:
    """x broadcast to a shape; a scalar stays one, for it goes with any shape."""
    return x if not x.aval.shape or x.aval.shape == shape else spread(x, shape)


def full_shape(x: Array, shape: Shape) -> Array:
    return x if x.aval.shape == shape else spread(x, shape)


def with_rank(x: Array, rank: int) -> Array:
    """New leading axes of size 1."""
    return x if x.aval.ndim in (0, rank) else spread(x, (1,) * (rank - x.aval.ndim) + x.aval.shape)


def const(value: Any, x: Any) -> Any:
    """A constant of x's dtype."""
    return typed_scalar(np.array(value)[()], x.dtype)


def eps_of(dtype: Any) -> float:
    return float(dtypes.finfo(dtype).eps)


def tiny_of(dtype: Any) -> float:
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


def _seeded(fun: str, seed: Any, impl: dtypes.KeyDType) -> Array:
    x = _seed(fun, seed)
    offset = config._state.random_seed_offset
    return ops.random_seed(lax.add(x, const(offset, x)) if offset else x, impl=impl)


def key(seed: int | ArrayLike, *, impl: Any = None, dtype: Any = None) -> Array:
    """The typed key of an integer seed."""
    return _seeded("key", seed, _chosen("key", impl, dtype))


def PRNGKey(seed: int | ArrayLike, *, impl: Any = None) -> Array:
    """The key of an integer seed, as uint32 words (as a typed key if jax_enable_custom_prng is set)."""
    typed = _seeded("PRNGKey", seed, _generator("PRNGKey", impl))
    return typed if config._state.enable_custom_prng else ops.random_unwrap(typed)


def key_data(keys: ArrayLike) -> Array:
    """The words of keys: uint32 with a trailing axis of size 2 (4 for "rbg" and "unsafe_rbg")."""
    return ops.random_unwrap(as_keys("key_data", keys)[0])


def wrap_key_data(key_bits_array: Array, *, impl: Any = None, dtype: Any = None) -> Array:
    """Typed keys of the given words."""
    words = as_operand("wrap_key_data", key_bits_array)
    return ops.random_wrap(words, impl=_chosen("wrap_key_data", impl, dtype))


def key_impl(keys: ArrayLike) -> str:
    """The name of the keys' generator."""
    return as_keys("key_impl", keys)[0].dtype.impl


def key_dtype(impl_spec: Any = None) -> dtypes.KeyDType:
    """The dtype of the keys of a generator."""
    return _generator("key_dtype", impl_spec)


def clone(key: Array) -> Array:
    """The same key, to be used a second time on purpose."""
    typed, raw = as_keys("clone", key)
    return in_form(ops.random_clone(typed), raw)


def split(key: ArrayLike, num: int | tuple[int, ...] = 2) -> Array:
    """`num` new keys (an array of that shape)."""
    typed, raw = one_key("split", key)
    shape = tuple(num) if isinstance(num, tuple | list) else (operator.index(num),)
    return in_form(split_key(typed, shape_argument("split", shape)), raw)


def fold_in(key: ArrayLike, data: int | ArrayLike) -> Array:
    """A new key that depends on the key and an integer of 32 bits."""
    typed, raw = one_key("fold_in", key)
    if isinstance(data, int) and not isinstance(data, bool):
        if not 0 <= data < 1 << 32:
            raise OverflowError(f"fold_in: Python integer {data} out of bounds for uint32")
        word = typed_scalar(np.uint32(data), np.uint32)
    else:
        x = as_operand("fold_in", data)
        if x.ndim:
            raise TypeError(f"fold_in accepts a scalar, but was given an array of shape {x.shape} != (). Use jax.vmap for batching.")
        word = convert(x, dtypes.uint32)
    return in_form(ops.random_fold_in(typed, word), raw)


def split_key(key: Array, shape: Shape) -> Array:
    return ops.random_split(key, shape=shape, partitionable=config._state.threefry_partitionable)


def pair(key: Array) -> tuple[Array, ...]:
    return tuple(lax.unstack(split_key(key, (2,))))
