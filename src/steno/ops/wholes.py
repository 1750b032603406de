"""Integers as floats and back, where these hold them exactly."""

from __future__ import annotations

from typing import Any

from steno.core import dtypes
from steno.ir.expr import F64, U64, Builder, Expr
from steno.ir.kinds import Scalar


def small_whole(b: Builder, x: Expr) -> Expr:
    """The float64 of an uint64 below 2**52: the mantissa of 2**52 + x. Not every instruction set converts integers of 64 bits."""
    return b.sub(b.bitcast(b.or_(x, 0x4330000000000000), F64), 2.0**52)


def whole_bits(b: Builder, x: Expr) -> Expr:
    """The uint64 of a whole float64 from 0 to 2**52."""
    return b.sub(b.bitcast(b.add(x, 2.0**52), U64), 0x4330000000000000)


def magnitude(b: Builder, x: Scalar) -> Any:
    """|x|, unsigned: also of the least integer."""
    return x if x.dtype in dtypes.UNSIGNED else b.bitcast(b.abs(x), dtypes.UNSIGNED[dtypes.SIGNED.index(x.dtype)])
