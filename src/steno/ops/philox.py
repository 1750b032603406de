"""The block function of Philox-4x32 with 10 rounds, on NumPy arrays and as scalar code.

J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. A state is four uint32 words
(k0, k1, c0, c1); block number n of it is that of key (k0, k1) and counter (c0, c1, k0, k1) + n, a number of 128 bits, low words first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steno.ir.expr import Builder, Expr

U32, U64 = np.dtype("uint32"), np.dtype("uint64")
ROUNDS = 10
MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
STEPS = 0x9E3779B9, 0xBB67AE85


def philox_arrays(state: Sequence[np.ndarray], n: np.ndarray) -> list[np.ndarray]:
    """The four words of each block; uint32 states and uint64 numbers that broadcast."""
    k0, k1, c0, c1 = (np.asarray(w, U32) for w in state)
    number = n.astype(U64)
    c, carry = [], np.zeros_like(number)
    for word, by in zip((c0, c1, k0, k1), (number & np.uint64(0xFFFFFFFF), number >> np.uint64(32), 0, 0), strict=True):
        total = word.astype(U64) + by + carry
        c.append(total.astype(U32))
        carry = total >> np.uint64(32)
    with np.errstate(over="ignore"):
        for _ in range(ROUNDS):
            first, second = (x.astype(U64) * np.uint64(m) for x, m in zip((c[0], c[2]), MULTIPLIERS, strict=True))
            (low0, high0), (low1, high1) = ((v.astype(U32), (v >> np.uint64(32)).astype(U32)) for v in (first, second))
            c = [high1 ^ c[1] ^ k0, low1, high0 ^ c[3] ^ k1, low0]
            k0, k1 = (k + np.uint32(s) for k, s in zip((k0, k1), STEPS, strict=True))
    return c


def philox_code(b: Builder, state: Sequence[Expr], n: Expr) -> list[Expr]:
    """The same on expressions: uint32 states, a number of dtype uint32 or int64."""
    k0, k1, c0, c1 = state
    low, high = b.convert(n, U32), b.constant(0, U32)
    if n.dtype != U32:
        high = b.convert(b.lshr(n, 32), U32)
    c = [b.add(c0, low)]
    carry = b.convert(b.lt(c[0], low), U32)
    wide = b.add(c1, high)
    c.append(b.add(wide, carry))
    carry = b.convert(b.or_(b.lt(wide, high), b.lt(c[1], carry)), U32)
    for word in (k0, k1):
        c.append(b.add(word, carry))
        carry = b.convert(b.lt(c[-1], carry), U32)
    for _ in range(ROUNDS):
        (high0, low0), (high1, low1) = ((b.mulhi(x, m), b.mul(x, m)) for x, m in ((c[0], MULTIPLIERS[0]), (c[2], MULTIPLIERS[1])))
        c = [b.xor(b.xor(high1, c[1]), k0), low1, b.xor(b.xor(high0, c[3]), k1), low0]
        k0, k1 = b.add(k0, STEPS[0]), b.add(k1, STEPS[1])
    return c
