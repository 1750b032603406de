"""Formats without machine arithmetic: float16, bfloat16, float8, float6, float4 and the integers below 8 bits as primitive expressions.

A scalar of such a dtype is held as its exact value in a wider primitive dtype (float32, int8 or uint8); `decode` makes the value
from the stored bits, `encode` the bits from a value that the format has, `round_to` the nearest value (ties to even) that the format
has from any wide value, with the format's own overflow and NaN rules. Integers wrap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, final

import ml_dtypes
import numpy as np

from steno.core.record import record

if TYPE_CHECKING:
    from steno.ir.expr import Builder, Expr

I8, U8, U16, U32, F16, F32 = (np.dtype(n) for n in ("int8", "uint8", "uint16", "uint32", "float16", "float32"))


@final
@record(frozen=True)
class IntFormat:
    """`bits` wide; the value is an int8 or uint8, the stored byte holds the low bits, its upper bits zero."""

    dtype: np.dtype
    bits: int
    value: np.dtype
    storage: np.dtype = U8


@final
@record(frozen=True)
class FloatFormat:
    """1 sign bit (none for `unsigned`), `exponent` and `mantissa` bits. `special`:
    ieee: exponent all ones is inf and NaN; fn: no inf, NaN is all ones; fnuz: no inf, no -0, NaN is the bits of -0;
    finite: neither inf nor NaN (which becomes -0); scale: powers of two only, halves rounded up, no zero, NaN is all ones."""

    dtype: np.dtype
    exponent: int
    mantissa: int
    bias: int
    special: Literal["ieee", "fn", "fnuz", "finite", "scale"]
    storage: np.dtype = U8
    value: np.dtype = F32

    @property
    def largest(self) -> float:
        """The greatest finite value."""
        return float(ml_dtypes.finfo(self.dtype).max)

    @property
    def smallest_exponent(self) -> int:
        """That of the smallest normal number."""
        return 1 - self.bias


Format = IntFormat | FloatFormat


def _formats() -> dict[np.dtype, Format]:
    out: dict[np.dtype, Format] = {F16: FloatFormat(F16, 5, 10, 15, "ieee", storage=F16)}
    table: list[tuple[str, int, int, int, Any]] = [
        ("bfloat16", 8, 7, 127, "ieee"),
        ("float8_e3m4", 3, 4, 3, "ieee"),
        ("float8_e4m3", 4, 3, 7, "ieee"),
        ("float8_e4m3fn", 4, 3, 7, "fn"),
        ("float8_e4m3fnuz", 4, 3, 8, "fnuz"),
        ("float8_e4m3b11fnuz", 4, 3, 11, "fnuz"),
        ("float8_e5m2", 5, 2, 15, "ieee"),
        ("float8_e5m2fnuz", 5, 2, 16, "fnuz"),
        ("float8_e8m0fnu", 8, 0, 127, "scale"),
        ("float6_e2m3fn", 2, 3, 1, "finite"),
        ("float6_e3m2fn", 3, 2, 3, "finite"),
        ("float4_e2m1fn", 2, 1, 1, "finite"),
    ]
    for name, exponent, mantissa, bias, special in table:
        if hasattr(ml_dtypes, name):
            d = np.dtype(getattr(ml_dtypes, name))
            out[d] = FloatFormat(d, exponent, mantissa, bias, special, storage=U16 if name == "bfloat16" else U8)
    for bits in (1, 2, 4):
        for name, value in ((f"int{bits}", I8), (f"uint{bits}", U8)):
            if hasattr(ml_dtypes, name):
                d = np.dtype(getattr(ml_dtypes, name))
                out[d] = IntFormat(d, bits, value)
    return out


FORMATS: dict[np.dtype, Format] = _formats()


def decode(b: Builder, f: Format, raw: Expr) -> Expr:
    """The value, in `f.value`, of the stored bits `raw` of dtype `f.storage`."""
    if isinstance(f, IntFormat):
        return wrap(b, f, b.bitcast(raw, f.value))
    if f.dtype == F16:
        return b.node("convert", F32, (raw,))
    bits = b.convert(raw, U32)
    if f.exponent == 8 and f.mantissa == 7:
        return b.bitcast(b.shl(bits, 16), F32)
    if f.special == "scale":
        # 2**(bits - 127): the exponent field, but 2**-127 is subnormal in float32
        x = b.select(b.eq(bits, 0), b.const(2.0**-127, F32), b.bitcast(b.shl(bits, 23), F32))
        return b.select(b.eq(bits, 255), b.const(np.nan, F32), x)
    width = 1 + f.exponent + f.mantissa
    magnitude = b.and_(bits, (1 << (width - 1)) - 1)
    field = b.shl(magnitude, 23 - f.mantissa)
    normal = b.bitcast(b.add(field, (127 - f.bias) << 23), F32)
    # 1.m * 2**emin - 2**emin --> 0.m * 2**emin
    anchor = (127 + f.smallest_exponent) << 23
    subnormal = b.sub(b.bitcast(b.add(field, anchor), F32), b.bitcast(b.const(anchor, U32), F32))
    x = b.select(b.lt(magnitude, 1 << f.mantissa), subnormal, normal)
    if f.special == "ieee":
        top = ((1 << f.exponent) - 1) << f.mantissa
        x = b.select(b.ge(magnitude, top), b.select(b.eq(magnitude, top), b.const(np.inf, F32), b.const(np.nan, F32)), x)
    elif f.special == "fn":
        x = b.select(b.eq(magnitude, (1 << (width - 1)) - 1), b.const(np.nan, F32), x)
    sign = b.shl(b.and_(bits, 1 << (width - 1)), 32 - width)
    x = b.bitcast(b.or_(b.bitcast(x, U32), sign), F32)
    if f.special == "fnuz":
        x = b.select(b.eq(bits, 1 << (width - 1)), b.const(np.nan, F32), x)
    return x


def encode(b: Builder, f: Format, x: Expr) -> Expr:
    """The stored bits of `x`, a value that the format has."""
    if isinstance(f, IntFormat):
        return b.and_(b.bitcast(x, U8), (1 << f.bits) - 1)
    if f.dtype == F16:
        return b.node("convert", F16, (x,))
    bits = b.bitcast(x, U32)
    if f.exponent == 8 and f.mantissa == 7:
        return b.convert(b.lshr(bits, 16), U16)
    nan = b.ne(x, x)
    if f.special == "scale":
        # the exponent field, 2**-127 has 0
        return b.convert(b.select(nan, b.const(255, U32), b.lshr(bits, 23)), U8)
    width = 1 + f.exponent + f.mantissa
    magnitude = b.and_(bits, 0x7FFFFFFF)
    normal = b.sub(b.lshr(magnitude, 23 - f.mantissa), (127 - f.bias) << f.mantissa)
    # 0.m * 2**emin + 2**emin --> 1.m * 2**emin
    anchor = (127 + f.smallest_exponent) << 23
    shifted = b.add(b.bitcast(magnitude, F32), b.bitcast(b.const(anchor, U32), F32))
    subnormal = b.lshr(b.sub(b.bitcast(shifted, U32), anchor), 23 - f.mantissa)
    code = b.select(b.lt(magnitude, anchor), subnormal, normal)
    sign = b.lshr(b.and_(bits, 0x80000000), 32 - width)
    if f.special == "ieee":
        top = ((1 << f.exponent) - 1) << f.mantissa
        code = b.select(b.eq(magnitude, 0x7F800000), b.const(top, U32), code)
        code = b.select(nan, b.const(top | 1 << max(f.mantissa - 1, 0), U32), code)
    elif f.special == "fn":
        code = b.select(nan, b.const((1 << (width - 1)) - 1, U32), code)
    code = b.or_(code, sign)
    if f.special == "fnuz":
        code = b.select(nan, b.const(1 << (width - 1), U32), code)
    return b.convert(code, U8)


def wrap(b: Builder, f: IntFormat, x: Expr) -> Expr:
    """`x` (of dtype `f.value`) modulo 2**bits, in the format's range."""
    shift = 8 - f.bits
    return b.ashr(b.shl(x, shift), shift) if f.value == I8 else b.and_(x, (1 << f.bits) - 1)


def round_to(b: Builder, f: Format, x: Expr) -> Expr:
    """The nearest value of the format, ties to even; integers wrap."""
    if isinstance(f, IntFormat):
        return wrap(b, f, x)
    if f.dtype == F16:
        return b.node("convert", F32, (b.node("convert", F16, (x,)),))
    bits = b.bitcast(x, U32)
    drop = 23 - f.mantissa
    if f.special == "scale":
        return _round_to_scale(b, x, bits)
    half = b.add(b.and_(b.lshr(bits, drop), 1), (1 << (drop - 1)) - 1)
    rounded = b.bitcast(b.and_(b.add(bits, half), -1 << drop & 0xFFFFFFFF), F32)
    nan = b.ne(x, x)
    if f.exponent == 8:
        return b.select(nan, x_quiet(b, bits, drop), rounded)
    # below the normal range: adding 1.5 * 2**(emin + 23 - mantissa) rounds at the last place of the subnormals
    anchor = b.const(1.5 * 2.0 ** (f.smallest_exponent + drop), F32)
    magnitude = b.abs(x)
    fixed = b.copysign(b.sub(b.add(magnitude, anchor), anchor), x)
    y = b.select(b.lt(magnitude, b.const(2.0**f.smallest_exponent, F32)), fixed, rounded)
    over = b.gt(b.abs(y), b.const(f.largest, F32))
    if f.special == "finite":
        y = b.select(over, b.copysign(b.const(f.largest, F32), x), y)
        return b.select(nan, b.const(-0.0, F32), y)
    y = b.select(over, b.copysign(b.const(np.inf if f.special == "ieee" else np.nan, F32), x), y)
    if f.special == "fnuz":
        y = b.add(y, 0.0)  # -0 --> 0
    return b.select(nan, x, y)


def x_quiet(b: Builder, bits: Expr, drop: int) -> Expr:
    """A NaN with the upper bits of another NaN, quiet, so that dropping the lower ones leaves a NaN."""
    return b.bitcast(b.and_(b.or_(bits, 0x00400000), -1 << drop & 0xFFFFFFFF), F32)


def _round_to_scale(b: Builder, x: Expr, bits: Expr) -> Expr:
    """Powers of two from 2**-127 to 2**127; zero, negative numbers, infinities and NaN become NaN."""
    # halves go up; 2**-127, subnormal in float32, has the bits of a half
    half = b.add(b.convert(b.ge(bits, 0x00800000), U32), 0x003FFFFF)
    field = b.and_(b.add(bits, half), 0x7F800000)
    y = b.select(b.eq(field, 0), b.const(2.0**-127, F32), b.bitcast(field, F32))
    bad = b.or_(b.not_(b.gt(x, 0.0)), b.eq(field, 0x7F800000))
    return b.select(bad, b.const(np.nan, F32), y)
