"""The greatest common divisor of integers."""

from __future__ import annotations

import functools
import math

import numpy as np

from steno.core import dtypes
from steno.ir.expr import F32, F64, OUTLINED, Builder, Expr
from steno.ir.kinds import Scalar
from steno.ops.families import INT, UNSIGNED, binary
from steno.ops.oracle import direct
from steno.ops.wholes import magnitude, small_whole, whole_bits

STEPS_AT_ONCE = 4
"""Steps between two looks at whether all lanes have their divisor."""


def longest_chain(bits: int) -> int:
    """The most steps of Euclid's algorithm with nearest quotients, for numbers below 2**bits: each pair of neighbours of the sequence
    0, 1, 2, 5, 12, ... (times 1 + sqrt(2), nearly) takes one more."""
    return math.ceil(bits / math.log2(1 + math.sqrt(2))) + 2


def _step(b: Builder, x: Expr, y: Expr) -> tuple[Expr, Expr]:
    """(x, y) --> (y, x - q y) for the whole number q nearest to x / y; (x, 0) stays. Any whole q leaves the common divisors what they are:
    the rounding of the quotient does not matter, nor do signs."""
    rest = b.fma(b.neg(b.round_even(b.div(x, y))), y, x)
    done = b.eq(y, 0.0)
    return b.select(done, x, y), b.select(done, 0.0, rest)


def _of_floats(b: Builder, x: Expr, y: Expr, steps: int, at_once: int) -> Expr:
    """Of whole numbers as floats that hold them and their sums exactly; in lanes whose chain ends earlier nothing changes any more."""
    for _ in range(min(steps, at_once)):
        x, y = _step(b, x, y)
    if steps <= at_once:
        return b.abs(x)
    return b.rare(b.ne(y, 0.0), b.abs(x), _of_floats(b, x, y, steps - at_once, at_once))


def _of_large(b: Builder, x: Expr, y: Expr) -> Expr:
    """Of any uint64. Euclid's steps with truncated quotients, until both are below 2**52: the numbers fall at least as fast as those of
    Fibonacci, by 0.694 bits a step."""
    for _ in range(math.ceil(12 / math.log2((1 + math.sqrt(5)) / 2)) + 2):
        done = b.eq(y, 0)
        x, y = b.select(done, x, y), b.select(done, y, b.rem(x, y))
    steps = longest_chain(52)
    last = b.eq(y, 0)  # x may be the divisor, and large
    found = _of_floats(b, small_whole(b, b.select(last, 0, x)), small_whole(b, y), steps, steps)
    return b.select(last, x, whole_bits(b, found))


OUTLINED["gcd_of_large"] = _of_large


def _gcd(b: Builder, x: Scalar, y: Scalar) -> Scalar:
    bits, dtype = dtypes.itemsize_bits(x.dtype), x.dtype
    x, y = magnitude(b, x), magnitude(b, y)
    unsigned = x.dtype
    if bits < 64:
        f = F32 if bits <= 16 else F64
        out = b.convert(_of_floats(b, b.convert(x, f), b.convert(y, f), longest_chain(bits), STEPS_AT_ONCE), unsigned)
    else:
        found = _of_floats(b, small_whole(b, x), small_whole(b, y), longest_chain(52), STEPS_AT_ONCE)
        out = b.rare(b.ge(b.or_(x, y), 1 << 52), whole_bits(b, found), b.outline("gcd_of_large", x, y))
    return out if dtype == unsigned else b.bitcast(out, dtype)


@functools.partial(np.vectorize, otypes=[object])
def _gcd_of_python(x: int, y: int) -> int:
    return math.gcd(int(x), int(y))


def _gcd_oracle(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    bits = dtypes.itemsize_bits(x.dtype)
    out = _gcd_of_python(x, y) if x.size and y.size else np.zeros(np.broadcast_shapes(x.shape, y.shape), object)
    if x.dtype not in UNSIGNED:  # that of least integers has no positive one
        out = np.where(out == 1 << (bits - 1), -out, out)
    return np.asarray(out, object).astype(np.int64 if x.dtype not in UNSIGNED else np.uint64).astype(x.dtype)


gcd = binary("gcd", INT, oracle=direct(_gcd_oracle), scalar=_gcd, exact=True)
"""Not negative, save that of least integers, which stays the least integer; gcd(x, 0) is |x|."""
