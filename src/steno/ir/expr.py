"""Scalar expressions: the body language of kernels. A DAG of interned nodes, one `Builder` per kernel or program.

grammar of primitive expressions (what the code generator and the interpreter read)
    Expr ::= (op, dtype, args, attr)
    dtype: bool, int8..int64, uint8..uint64, float16 (storage and conversion only), float32, float64.
           Other storage dtypes (bfloat16, float8_*, int4, uint4, int2, uint2) occur only as `load` dtype's raw form: see `Builder.load`.
    op:
      const(attr: Python number)                      load(attr: (Buffer, offset Index, guard Expr | None))
      index(attr: Index) : int64                       local(attr: name)     acc(attr: k)     elt(attr: k)
      add sub mul                                      wrap-around for integers; one rounding for floats, never contracted
      div rem                                          floats: IEEE, C fmod. Integers: truncating; x / 0 = -1, x rem 0 = x, INT_MIN / -1 = INT_MIN
      fma                                              floats, one rounding
      neg abs sqrt floor ceil round_even trunc copysign
      min max                                          floats: a NaN operand gives NaN (the first one, if both), -0 < +0
      and or xor not                                   bool and integers
      shl lshr ashr                                    integers; shift amounts at or beyond the width: 0, 0, sign fill
      eq ne lt le gt ge : bool                         IEEE for floats (ne is true with NaN)
      select(bool, x, y)
      convert                                          numeric conversion; float to integer truncates, saturates, NaN -> 0; integer to narrower integer wraps; to bool: != 0
      bitcast                                          same width
      clz popcnt                                       integers
      mulhi                                            uint32, uint64: the high half of the product
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final


@final
@dataclass(frozen=True, eq=False, slots=True)
class Expr:
    op: str
    dtype: Any
    args: tuple["Expr", ...] = ()
    attr: Any = None


@final
@dataclass(frozen=True, slots=True)
class Pair:
    """A scalar of two components: complex (re, im), or a PRNG key (two uint32). `dtype` is the logical dtype."""

    dtype: Any
    first: Expr
    second: Expr
