"""The generators of random bits, by the names of `jax.extend.random`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

import steno.numpy as snp
from steno.core import dtypes
from steno.core.on_demand import on_demand
from steno.core.op import OPS
from steno.random import key

threefry2x32_p = OPS["threefry2x32"]
threefry_prng_impl, rbg_prng_impl, unsafe_rbg_prng_impl = dtypes.key_fry, dtypes.key_rbg, dtypes.key_urbg
"""Generators, by the dtypes of their keys."""


@final
@dataclass(frozen=True, eq=False)
class _Functions:
    """Of an implementation: of the words of one key."""

    seed: Callable[[Any], Any]
    split: Callable[[Any, tuple[int, ...]], Any]
    random_bits: Callable[[Any, int, tuple[int, ...]], Any]
    fold_in: Callable[[Any, Any], Any]


def define_prng_impl(
    *,
    key_shape: tuple[int, ...],
    seed: Callable[[Any], Any],
    split: Callable[[Any, tuple[int, ...]], Any],
    random_bits: Callable[[Any, int, tuple[int, ...]], Any],
    fold_in: Callable[[Any, Any], Any],
    name: str = "<unnamed>",
    tag: str = "?",
) -> Any:
    """A generator of random bits by functions of uint32 arrays of the shape `key_shape`, the words of one key; to be passed as `impl`.

    seed         (integer scalar) --> the words of a key
    split        (words, shape) --> the words of new keys: shape + key_shape
    random_bits  (words, bit_width, shape) --> unsigned integers
    fold_in      (words, uint32 scalar) --> the words of another key

    NotImplementedError unless a key has 1, 2 or 4 words."""
    words = math.prod(key_shape)
    if words not in (1, 2, 4):
        raise NotImplementedError(f"define_prng_impl: keys have 1, 2 or 4 words, got the key_shape {key_shape}")
    return dtypes.KeyDType(tag, name, words, tuple(key_shape), _Functions(seed, split, random_bits, fold_in))


def seed_with_impl(impl: Any, seeds: Any) -> Any:
    """The key of a generator for a seed."""
    return key(seeds, impl=impl)


def random_seed(seeds: Any, impl: Any) -> Any:
    """The key of a generator for a seed."""
    return seed_with_impl(impl, seeds)


def threefry_2x32(keypair: Any, count: Any) -> Any:
    """The block function of 20 rounds on a counter: uint32 of any shape, the first half of which are the first words of the blocks.
    `keypair`: two uint32 scalars, or an array of two. TypeError for another dtype."""
    k0, k1 = keypair
    x = snp.asarray(count)
    if x.dtype != np.uint32:
        raise TypeError(f"threefry_2x32: the counter must be uint32, got {x.dtype}")
    n = math.prod(x.shape)
    flat = snp.pad(snp.ravel(x), (0, n % 2))
    half = flat.shape[0] // 2
    words = threefry2x32_p.bind(snp.asarray(k0), snp.asarray(k1), flat[:half], flat[half:])
    return snp.concatenate(words)[:n].reshape(x.shape)


__getattr__, __dir__ = on_demand(__name__, {})
