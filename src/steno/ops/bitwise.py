"""Elementwise ops on bits: logic, shifts, counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from steno.core import dtypes
from steno.core.dtypes import itemsize_bits
from steno.ir.expr import Builder, Narrow
from steno.ir.kinds import Scalar
from steno.ops.families import BOOL, INT, UNSIGNED, binary, unary
from steno.ops.oracle import as_dtype, direct

not_ = unary("not", BOOL | INT, oracle=direct(np.invert), scalar=lambda b, x: b.not_(x), exact=True)
and_ = binary("and", BOOL | INT, oracle=direct(np.bitwise_and), scalar=lambda b, x, y: b.and_(x, y), exact=True)
or_ = binary("or", BOOL | INT, oracle=direct(np.bitwise_or), scalar=lambda b, x, y: b.or_(x, y), exact=True)
xor = binary("xor", BOOL | INT, oracle=direct(np.bitwise_xor), scalar=lambda b, x, y: b.xor(x, y), exact=True)

_SIGNED_OF = dict(zip(dtypes.UNSIGNED, dtypes.SIGNED, strict=True))


def _shift_oracle(shift: Callable[[int, int, int, bool], int]) -> Callable[..., np.ndarray]:
    """`shift(value, amount, width, signed)` on Python integers; amounts are taken as unsigned."""

    def run(x: np.ndarray, n: np.ndarray) -> np.ndarray:
        width, signed = itemsize_bits(x.dtype), x.dtype not in UNSIGNED
        x, n = np.broadcast_arrays(x, n)
        out = [shift(int(v), int(k) & ((1 << width) - 1), width, signed) & ((1 << width) - 1) for v, k in zip(x.flat, n.flat, strict=True)]
        sign = 1 << (width - 1)
        if signed:
            out = [v - (1 << width) if v & sign else v for v in out]
        return np.array(out, np.int64 if signed else np.uint64).reshape(x.shape).astype(x.dtype)

    return run


def _arithmetic(v: int, k: int, width: int, signed: bool) -> int:
    if v >> (width - 1) & 1 and v > 0:  # the highest bit of an unsigned number is a sign too
        v -= 1 << width
    return v >> min(k, width)


def _shift_right_arithmetic(b: Builder, x: Scalar, n: Scalar) -> Scalar:
    if isinstance(x, Narrow) and x.dtype in UNSIGNED:
        s = _SIGNED_OF[x.dtype]
        return b.bitcast(b.ashr(b.bitcast(x, s), b.bitcast(n, s)), x.dtype)
    return b.ashr(x, n)


shift_left = binary(
    "shift_left",
    INT,
    oracle=_shift_oracle(lambda v, k, width, signed: v << k if k < width else 0),
    scalar=lambda b, x, n: b.shl(x, n),
    exact=True,
)
"""Amounts (taken as unsigned) of the width or more give 0."""
shift_right_logical = binary(
    "shift_right_logical",
    INT,
    oracle=_shift_oracle(lambda v, k, width, signed: (v & ((1 << width) - 1)) >> k),
    scalar=lambda b, x, n: b.lshr(x, n),
    exact=True,
)
shift_right_arithmetic = binary(
    "shift_right_arithmetic", INT, oracle=_shift_oracle(_arithmetic), scalar=_shift_right_arithmetic, exact=True
)
"""Fills with the highest bit, of unsigned numbers as well; amounts of the width or more leave only that."""


def _count(count: Callable[[int, int], int]) -> Callable[[np.ndarray], np.ndarray]:
    def run(x: np.ndarray) -> np.ndarray:
        width = itemsize_bits(x.dtype)
        out = [count(int(v) & ((1 << width) - 1), width) for v in x.flat]
        return as_dtype(np.array(out, np.int8).reshape(x.shape), x.dtype)

    return run


def _exact(name: str, oracle: Any, method: str) -> Any:
    return unary(name, INT, oracle=oracle, scalar=lambda b, x: getattr(b, method)(x), exact=True)


population_count = _exact("population_count", _count(lambda v, width: v.bit_count()), "popcnt")
clz = _exact("clz", _count(lambda v, width: width - v.bit_length()), "clz")
"""Zero bits above the highest set one; of 0 the width."""
