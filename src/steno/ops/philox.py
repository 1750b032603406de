"""Philox-4x32 as a stream of blocks, on NumPy arrays and as scalar code. A state is four uint32 words (k0, k1, c0, c1); block number n of
it is that of key (k0, k1) and counter (c0, c1, k0, k1) + n, a number of 128 bits, low words first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steno.ir.expr import Builder, Expr
from steno.ops.ciphers import ARRAYS, U32, U64, philox


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
        return philox(ARRAYS, (k0, k1), c)


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
    return philox(b, (k0, k1), c)
