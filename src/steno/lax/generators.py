"""Random bits of generators whose state is a key and a counter: `rng_bit_generator`.

A state of four uint32 words (k0, k1, c0, c1) holds a key and the number of the next block, low words first. Philox-4x32 with 10 rounds
gives four words for each block, those of counter (c0, c1, k0, k1), a number of 128 bits; Threefry-2x32 with 20 rounds two, those of
(c0, c1): J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011."""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from steno.api import jit
from steno.core import dtypes
from steno.core.aval import typed_scalar
from steno.core.op import OPS
from steno.lax.elementwise import add, bitwise_or, bitwise_xor, lt, mul, shift_left, shift_right_logical
from steno.lax.operands import as_array, check_dtype, convert, shape_argument
from steno.lax.shape import iota, reshape, slice_in_dim, stack, unstack

Array = Any
Shape = tuple[int, ...]


class RandomAlgorithm(enum.IntEnum):
    """Generators. The default one is Philox."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2

    def __str__(self) -> str:
        return self.name


def rng_bit_generator(
    key: Array, shape: Sequence[int], dtype: Any = np.uint32, algorithm: Any = RandomAlgorithm.RNG_DEFAULT, *, out_sharding: Any = None
) -> tuple[Array, Array]:
    """The state after the draw, and random bits as unsigned integers.

    key        the state: uint32[4], or uint64[2] of the same bits
    dtype      uint8, uint16 (parts of words), uint32 or uint64

    TypeError for other keys and dtypes. Under vmap each element has its own state."""
    if out_sharding is not None:
        raise NotImplementedError("rng_bit_generator: out_sharding: there is one device, arrays are not sharded")
    state = as_array("rng_bit_generator", key)
    if (state.shape, state.dtype) not in (((4,), dtypes.uint32), ((2,), dtypes.uint64)):
        raise TypeError(f"rng_bit_generator: the key must be of type uint32[4] or uint64[2], got {state.aval.str_short()}")
    d = check_dtype(dtype, "rng_bit_generator")
    if d not in (dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64):
        raise TypeError(f"rng_bit_generator: unsupported dtype {dtypes.name(d)}")
    which = RandomAlgorithm(int(algorithm))
    return _bits(state, shape=shape_argument("rng_bit_generator", shape), dtype=d, threefry=which is RandomAlgorithm.RNG_THREE_FRY)


@functools.partial(jit, static_argnames=("shape", "dtype", "threefry"))
def _bits(state: Array, *, shape: Shape, dtype: Any, threefry: bool) -> tuple[Array, Array]:
    words = unstack(state) if state.dtype == dtypes.uint32 else [w for x in unstack(state) for w in _halves(x)]
    wide = dtype == dtypes.uint64
    if threefry:
        used, bits = _threefry(words, shape, wide)
    else:
        count = math.prod(shape) * (2 if wide else 1)
        used = -(-count // 4)
        block = reshape(stack(_philox_blocks(words, used), 1), (4 * used,))
        bits = slice_in_dim(block, 0, count)
        bits = _joined(*unstack(reshape(bits, (count // 2, 2)), 1)) if wide else bits
        bits = reshape(bits, shape)
    c0, c1 = _advanced(words[2:], typed_scalar(np.uint32(used), dtypes.uint32))
    after = stack([words[0], words[1], c0, c1])
    if state.dtype == dtypes.uint64:
        after = stack([_joined(words[0], words[1]), _joined(c0, c1)])
    return after, bits if bits.dtype == dtype else convert(bits, dtype)


def _halves(x: Array) -> tuple[Array, Array]:
    return convert(x, dtypes.uint32), convert(shift_right_logical(x, typed_scalar(np.uint64(32), dtypes.uint64)), dtypes.uint32)


def _joined(low: Array, high: Array) -> Array:
    low, high = (OPS["convert_element_type"](v, new_dtype=dtypes.uint64, weak_type=False, sharding=None) for v in (low, high))
    return bitwise_or(low, shift_left(high, typed_scalar(np.uint64(32), dtypes.uint64)))


def _advanced(words: Sequence[Array], by: Array) -> list[Array]:
    """The counter, a number of as many words as there are, low words first, further on."""
    out = [add(words[0], by)]
    carry = convert(lt(out[0], words[0]), dtypes.uint32)
    for w in words[1:]:
        out.append(add(w, carry))
        carry = convert(lt(out[-1], carry), dtypes.uint32)
    return out


def _philox_blocks(words: Sequence[Array], count: int) -> list[Array]:
    k0, k1 = words[:2]
    c = _advanced([*words[2:], k0, k1], iota(dtypes.uint32, count))
    one, two, step0, step1 = (typed_scalar(np.uint32(v), dtypes.uint32) for v in (0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85))
    for _ in range(10):
        high0, low0, high1, low1 = OPS["mulhi"](c[0], one), mul(c[0], one), OPS["mulhi"](c[2], two), mul(c[2], two)
        c = [bitwise_xor(bitwise_xor(high1, c[1]), k0), low1, bitwise_xor(bitwise_xor(high0, c[3]), k1), low0]
        k0, k1 = add(k0, step0), add(k1, step1)
    return c


def _threefry(words: Sequence[Array], shape: Shape, wide: bool) -> tuple[int, Array]:
    """The two words of a block stand side by side along the first axis of even size; without one, along the greatest, one longer."""
    if wide:
        n = math.prod(shape)
        return n, reshape(_joined(*_threefry_blocks(words, n)), shape)
    drawn = list(shape) or [1]
    axis = next((k for k, n in enumerate(drawn) if n % 2 == 0), max(range(len(drawn)), key=drawn.__getitem__))
    drawn[axis] += drawn[axis] % 2
    halved = (*drawn[:axis], drawn[axis] // 2, *drawn[axis + 1 :])
    used = math.prod(halved)
    pair = [reshape(x, halved) for x in _threefry_blocks(words, used)]
    bits = reshape(stack(pair, axis + 1), tuple(drawn))
    return used, reshape(slice_in_dim(bits, 0, shape[axis] if shape else 1, axis=axis), shape)


def _threefry_blocks(words: Sequence[Array], count: int) -> list[Array]:
    c0, c1 = _advanced(words[2:], iota(dtypes.uint32, count))
    return OPS["threefry2x32"](words[0], words[1], c0, c1)


__all__ = ["RandomAlgorithm", "rng_bit_generator"]
