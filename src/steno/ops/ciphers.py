"""The block functions of counter-based generators: Threefry of two and of four words, 20 rounds; Philox of two and of four, 10 rounds.

J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Each is written once, in the arithmetic
`m` of uint32 that it is given: a `Builder` makes scalar code of it, `ARRAYS` NumPy's calls.

A `Stream` says how a generator whose keys are the first words of blocks numbers its blocks. As in JAX, with (h, l) the high and the low
word of an element's number, the counter is

bits        (h, l, 0, ...): the exclusive or of all words of the block
split       (..., 0, h, l)
fold_in     (..., 0, data)
seed        the block of the seed's two words: as a counter under the key 0, or as a key at the counter 0"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from steno.core import dtypes

U32, U64 = np.dtype("uint32"), np.dtype("uint64")
Words = Sequence[Any]

PARITY: Final = 0x1BD11BDA
ROTATIONS: Final = {
    2: ((13, 15, 26, 6), (17, 29, 16, 24)),
    4: (((10, 26), (11, 21), (13, 27), (23, 5)), ((6, 20), (17, 11), (25, 10), (18, 20))),
}
MULTIPLIERS: Final = {2: (0xD256D193,), 4: (0xD2511F53, 0xCD9E8D57)}
STEPS: Final = (0x9E3779B9, 0xBB67AE85)


@final
class _Arrays:
    """The arithmetic of uint32 arrays; overflows are to be ignored by the caller's `errstate`."""

    add, mul, xor, or_, shl, lshr = map(staticmethod, (np.add, np.multiply, np.bitwise_xor, np.bitwise_or, np.left_shift, np.right_shift))

    @staticmethod
    def mulhi(x: Any, y: Any) -> Any:
        return (np.asarray(x).astype(U64) * np.uint64(y) >> np.uint64(32)).astype(U32)


ARRAYS: Final = _Arrays()


def threefry(m: Any, key: Words, counter: Words) -> list[Any]:
    """The block of a counter; as many words as the key has, two or four."""
    n = len(key)
    schedule = (*key, functools.reduce(m.xor, key[1:], m.xor(key[0], PARITY)))
    x = [m.add(c, k) for c, k in zip(counter, key, strict=True)]

    def mix(i: int, j: int, by: int) -> None:
        x[i] = m.add(x[i], x[j])
        x[j] = m.xor(m.or_(m.shl(x[j], by), m.lshr(x[j], 32 - by)), x[i])

    for r in range(5):
        for turn, by in enumerate(ROTATIONS[n][r % 2]):
            if n == 2:
                mix(0, 1, by)
            else:
                mix(0, 3 if turn % 2 else 1, by[0])
                mix(2, 1 if turn % 2 else 3, by[1])
        x = [m.add(v, schedule[(r + 1 + i) % (n + 1)]) for i, v in enumerate(x)]
        x[-1] = m.add(x[-1], r + 1)
    return x


def philox(m: Any, key: Words, counter: Words) -> list[Any]:
    """The block of a counter of twice as many words as the key has, one or two."""
    key, c = list(key), list(counter)
    for _ in range(10):
        high, low = ([f(x, by) for x, by in zip(c[::2], MULTIPLIERS[len(c)], strict=True)] for f in (m.mulhi, m.mul))
        odd = [m.xor(x, k) for x, k in zip(c[1::2], key, strict=True)]
        c = [w for p, o, q in zip(reversed(high), odd, reversed(low), strict=True) for w in (m.xor(p, o), q)]
        key = [m.add(k, step) for k, step in zip(key, STEPS, strict=False)]
    return c


@final
@dataclass(frozen=True)
class Stream:
    """A generator of `key` words in a key and `size` words in a block. `seed_is_key`: else seeds are counters; `folds`: both halves of a
    block count for 64 bits, else its first two words."""

    block: Callable[[Any, Words, Words], list[Any]]
    key: int
    size: int
    seed_is_key: bool
    folds: bool

    def seed(self, m: Any, high: Any, low: Any, zero: Any) -> list[Any]:
        """The key of a seed."""
        key = [high, low, zero, zero] if self.seed_is_key else [zero] * self.key
        counter = [zero] * self.size if self.seed_is_key else [high, low, zero, zero][: self.size]
        return self.block(m, key, counter)[: self.key]

    def new_key(self, m: Any, key: Words, high: Any, low: Any, zero: Any) -> list[Any]:
        """Number (high, low) of the keys that are made of one."""
        return self.block(m, key, [zero, zero, high, low][-self.size :])[: self.key]

    def bits(self, m: Any, key: Words, high: Any, low: Any, zero: Any, wide: bool) -> list[Any]:
        """The word of element number (high, low); if it is `wide`, of 64 bits, its two words, the high one first."""
        words = self.block(m, key, [high, low, zero, zero][: self.size])
        if not wide:
            return [functools.reduce(m.xor, words)]
        return [m.xor(words[0], words[2]), m.xor(words[1], words[3])] if self.folds else words[:2]


STREAMS: Final = {
    dtypes.key_fry4: Stream(threefry, 4, 4, seed_is_key=True, folds=True),
    dtypes.key_phx2: Stream(philox, 1, 2, seed_is_key=False, folds=False),
    dtypes.key_phx4: Stream(philox, 2, 4, seed_is_key=False, folds=False),
}
