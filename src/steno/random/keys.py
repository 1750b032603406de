"""Keys: how they are made, and the checks and conversions that all functions of keys share."""

from __future__ import annotations

import functools
import inspect
import types
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from steno import lax
from steno.api import jit
from steno.core import dtypes
from steno.core.aval import TypedScalar, typed_scalar, typeof
from steno.core.config import config
from steno.core.sizes import size_of
from steno.device import reshard
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
        raise TypeError(f"{fun}: {impl!r} is of an unrecognized type {type(impl)} for a PRNG implementation: it is named by a string")
    if impl in _GENERATORS:
        return _GENERATORS[impl]
    there = ", ".join(map(repr, _GENERATORS))
    raise ValueError(f"{fun}: unrecognized PRNG implementation {impl!r}; there are {there}")


def _chosen(fun: str, impl: Any, dtype: Any) -> dtypes.KeyDType:
    """`impl` and `dtype` say the same thing. ValueError if both are given."""
    if dtype is None:
        return _generator(fun, impl)
    if impl is not None:
        raise ValueError(f"{fun}: Cannot specify both `impl` and `dtype`, which say the same; got {impl!r} and {dtype!r}")
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
        raise ValueError(_LEGACY.format(fun) + " (jax_legacy_prng_key='error')")
    if mode == "warn":
        warnings.warn(_LEGACY.format(fun), UserWarning, stacklevel=4)
    return ops.random_wrap(keys, impl=impl), True


_LEGACY = "{}: Legacy uint32 key array passed as key to jax.random function; make keys with jax.random.key"


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
    return words_of(keys) if raw else keys


def words_of(keys: Array) -> Array:
    """Their uint32 words, in the shape that one key has behind that of the array."""
    words, shape = ops.random_unwrap(keys), keys.dtype.key_shape
    return words if len(shape) == 1 else lax.reshape(words, (*keys.shape, *shape))


def of_words(fun: str, words: Array, impl: dtypes.KeyDType) -> Array:
    """The inverse of `words_of`. TypeError for words of another shape or dtype."""
    shape = impl.key_shape
    if len(shape) > 1:
        if words.shape[max(words.ndim - len(shape), 0) :] != shape:
            raise TypeError(f"{fun}: key data of {impl} must have the trailing shape {shape}, got {words.shape}")
        words = lax.reshape(words, (*words.shape[: words.ndim - len(shape)], impl.words))
    return ops.random_wrap(words, impl=impl)


def placed(x: Array, out_sharding: Any) -> Array:
    return x if out_sharding is None else reshard(x, out_sharding)


_KINDS = {
    "f": ("a float", dtypes.default_float),
    "fc": ("a float or complex", dtypes.default_float),
    "iu": ("an integer", dtypes.default_int),
    "iuf": ("an integer or float", dtypes.default_int),
    "u": ("an unsigned int", lambda: dtypes.canonical(dtypes.uint64)),
}


def dtype_of(fun: str, dtype: DTypeLike | None, kinds: str = "f") -> Any:
    """A dtype argument of one of these kinds, canonicalised; by default that of the first one. ValueError for other kinds."""
    what, default = _KINDS[kinds]
    d = default() if dtype is None else check_dtype(dtype, fun)
    if isinstance(d, dtypes.KeyDType) or dtypes.kind(d) not in kinds:
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
    x = convert(as_operand(fun, x), dtype)
    return x.value if type(x) is TypedScalar else x  # a NumPy scalar: cached calls of compiled functions take it as it is


def as_given(fun: str, x: ArrayLike, dtype: Any) -> Array:
    """A parameter of its own dtype."""
    return x if type(x) is float else as_operand(fun, x)


def own_shape(fun: str, shape: Any, *parameters: Shape) -> Shape:
    """A shape argument that the parameters' shapes say nothing about."""
    return shape_of(fun, shape)


Sampler = TypeVar("Sampler", bound=Callable[..., Any])


def sampler(
    kinds: str = "f",
    *,
    parameter: Callable[[str, Any, Any], Array] = parameter,
    shape: Callable[..., Shape] = shape_of,
    **static: Callable[[str, Any], Any],
) -> Callable[[Sampler], Sampler]:
    """A function `(key, parameters ..., shape, dtype, options ...)` as a sampler: it is compiled, and sees a typed key, arrays, and the
    shape and dtype of the result. What a user passes is checked and converted before, by the name of the function:

    kinds       the kinds that the dtype may be of; that of the first one is the default
    parameter   `(name, given, dtype)` --> the array
    shape       `(name, given, shapes of the parameters ...)` --> the shape
    static      of the options and parameters that are not arrays: `(name, given)` --> what the function sees

    An option `out_sharding` says where the result lies; the function itself does not see it."""

    def decorate(body: Sampler) -> Sampler:
        fun = body.__name__
        signature = inspect.signature(body)
        names, known = tuple(signature.parameters), frozenset(signature.parameters)
        by_position = tuple(n for n, p in signature.parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD)
        by_name = tuple(n for n in names if n not in by_position and n != "out_sharding")
        defaults = {n: p.default for n, p in signature.parameters.items() if p.default is not p.empty}
        arrays = tuple(n for n in by_position if n not in ("key", "shape", "dtype", *static))
        core = types.FunctionType(body.__code__, body.__globals__, f"_{fun}", body.__defaults__, body.__closure__)
        core.__kwdefaults__ = body.__kwdefaults__
        drawn = jit(core, static_argnames=("shape", "dtype", *static))

        @functools.wraps(body)
        def sample(*args: Any, **named: Any) -> Array:
            v = {**defaults, **dict(zip(names, args, strict=False)), **named}
            if len(args) > len(by_position) or v.keys() != known or not named.keys().isdisjoint(names[: len(args)]):
                signature.bind(*args, **named)  # TypeError, saying why
            d = dtype_of(fun, v["dtype"], kinds)
            v["key"], v["dtype"] = the_key(fun, v["key"]), d
            for n, check in static.items():
                v[n] = check(fun, v[n])
            for n in arrays:
                v[n] = parameter(fun, v[n], d)
            v["shape"] = shape(fun, v["shape"], *(getattr(v[n], "shape", ()) for n in arrays))
            out = drawn(*(v[n] for n in by_position), **{n: v[n] for n in by_name})
            return placed(out, v.get("out_sharding"))

        return sample  # type: ignore[return-value]

    return decorate


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
        raise TypeError(f"{fun}: the PRNG key seed must be an integer, got {seed!r} of dtype {dtypes.name(x.dtype)}")
    return x


def _seeded(fun: str, seed: Any, impl: dtypes.KeyDType) -> Array:
    x = _seed(fun, seed)
    offset = config._state.random_seed_offset
    x = lax.add(x, const(offset, x)) if offset else x
    return of_words(fun, impl.made.seed(x), impl) if impl.made else ops.random_seed(x, impl=impl)


def key(seed: int | ArrayLike, *, impl: Any = None, dtype: Any = None) -> Array:
    """The typed key of an integer seed.

    >>> random.key(0)
    Array((), dtype=key<fry>) overlaying:
    [0 0]
    """
    return _seeded("key", seed, _chosen("key", impl, dtype))


def PRNGKey(seed: int | ArrayLike, *, impl: Any = None) -> Array:
    """The key of an integer seed, as uint32 words (as a typed key if jax_enable_custom_prng is set).

    >>> random.PRNGKey(0)
    Array([0, 0], dtype=uint32)
    """
    typed = _seeded("PRNGKey", seed, _generator("PRNGKey", impl))
    return typed if config._state.enable_custom_prng else words_of(typed)


def key_data(keys: ArrayLike) -> Array:
    """The words of keys: uint32 with a trailing axis of size 2 (4 for "rbg" and "unsafe_rbg")."""
    return words_of(as_keys("key_data", keys)[0])


def wrap_key_data(key_bits_array: Array, *, impl: Any = None, dtype: Any = None) -> Array:
    """Typed keys of the given words."""
    words = as_operand("wrap_key_data", key_bits_array)
    return of_words("wrap_key_data", words, _chosen("wrap_key_data", impl, dtype))


def key_impl(keys: ArrayLike) -> Any:
    """The keys' generator, as `impl` takes it: its name, or what `define_prng_impl` made."""
    dtype = as_keys("key_impl", keys)[0].dtype
    return dtype if dtype.made else dtype.impl


def key_dtype(impl_spec: Any = None) -> dtypes.KeyDType:
    """The dtype of the keys of a generator."""
    return _generator("key_dtype", impl_spec)


def clone(key: Array) -> Array:
    """The same key, to be used a second time on purpose."""
    typed, raw = as_keys("clone", key)
    return in_form(ops.random_clone(typed), raw)


def split(key: ArrayLike, num: int | tuple[int, ...] = 2) -> Array:
    """`num` new keys (an array of that shape).

    >>> a, b = random.split(random.key(0))
    >>> a
    Array((), dtype=key<fry>) overlaying:
    [1797259609 2579123966]
    """
    typed, raw = one_key("split", key)
    shape = tuple(num) if isinstance(num, tuple | list) else (size_of(num),)
    return in_form(split_key(typed, shape_argument("split", shape)), raw)


def fold_in(key: ArrayLike, data: int | ArrayLike) -> Array:
    """A new key that depends on the key and an integer of 32 bits.

    >>> random.fold_in(random.key(0), 7)
    Array((), dtype=key<fry>) overlaying:
    [2716826189  292468403]
    """
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
    made = typed.dtype.made
    return in_form(of_words("fold_in", made.fold_in(words_of(typed), word), typed.dtype) if made else ops.random_fold_in(typed, word), raw)


def bits_of(key: Array, width: int, shape: Shape) -> Array:
    if key.dtype.made:
        return key.dtype.made.random_bits(words_of(key), width, shape)
    return ops.random_bits(key, bit_width=width, shape=shape, partitionable=config._state.threefry_partitionable)


def split_key(key: Array, shape: Shape) -> Array:
    if key.dtype.made:
        return of_words("split", key.dtype.made.split(words_of(key), shape), key.dtype)
    return ops.random_split(key, shape=shape, partitionable=config._state.threefry_partitionable)


def pair(key: Array) -> tuple[Array, ...]:
    return tuple(lax.unstack(split_key(key, (2,))))
