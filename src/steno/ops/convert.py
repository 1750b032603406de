"""Conversions between dtypes: by value, by bits, and rounding to fewer bits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from steno.core import dtypes
from steno.core.aval import ShapedArray
from steno.core.dtypes import itemsize_bits
from steno.core.op import Op
from steno.ir.expr import F32, Builder, Expr, Pair
from steno.ir.index import Index
from steno.ir.kinds import Map, Read, Scalar
from steno.ops.families import (
    ANY,
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    check_domain,
    converted,
    edges,
    elementwise_lower,
    from_raw_bits,
    given,
    ordered,
    raw_bits,
    raw_dtype,
    unary,
    unary_samples,
)
from steno.ops.oracle import Oracle, as_dtype, widen
from steno.ops.samples import filled
from steno.ops.structural import unchanged
from steno.transforms.rules import ELEMENTWISE, LINEAR, ZERO, Axis, by_operand, is_differentiable, move_axis, zero_of

# convert_element_type


def _convert_typ(x: ShapedArray, *, new_dtype: Any, weak_type: bool = False, sharding: Any = None) -> ShapedArray:
    if dtypes.is_key(x.dtype) or dtypes.is_key(new_dtype):
        if x.dtype is not new_dtype:
            raise ValueError(f"convert_element_type: cannot convert from {dtypes.name(x.dtype)} to {dtypes.name(new_dtype)}")
    elif new_dtype not in ANY or x.dtype not in ANY:
        raise TypeError(f"convert_element_type: cannot convert from {dtypes.name(x.dtype)} to {dtypes.name(new_dtype)}")
    return ShapedArray(x.shape, new_dtype, weak_type)


def _convert_oracle(x: np.ndarray, *, new_dtype: Any, weak_type: bool = False, sharding: Any = None) -> np.ndarray:
    """Complex numbers lose their imaginary part. Floats to integers: truncated, saturated, NaN to 0. Integers wrap. float64 to float16 and
    float8 rounds once, to bfloat16 by way of float32; integers to narrow floats by way of float32."""
    if dtypes.is_key(new_dtype) or x.dtype == new_dtype:
        return x.copy()
    if x.dtype.kind == "c" and new_dtype not in COMPLEX:
        x = x.real
    source = widen(x)
    if new_dtype == np.bool_:
        return source != 0
    if new_dtype in INT and source.dtype.kind == "f":
        bits, signed = itemsize_bits(new_dtype), new_dtype in dtypes.SIGNED
        wide = np.dtype(f"{'int' if signed else 'uint'}{max(bits, 8)}")
        whole = _saturate(source, wide)
        if bits < 8:
            whole = np.clip(whole, *((-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)))
        return whole.astype(new_dtype)
    if new_dtype in INT and itemsize_bits(new_dtype) < 8:
        return source.astype(np.int8 if new_dtype in dtypes.SIGNED else np.uint8).astype(new_dtype)
    if new_dtype in dtypes.NARROW_FLOATS or new_dtype in (dtypes.bfloat16, dtypes.float16):
        if source.dtype == np.float64:
            source = _round_to_odd(source) if new_dtype != dtypes.bfloat16 else source.astype(np.float32)
        return as_dtype(source.astype(np.float32), new_dtype)
    return source.astype(new_dtype)


def _saturate(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    info = np.iinfo(dtype)
    whole = np.trunc(x)
    out = np.where(np.isnan(x) | (np.abs(whole) >= 2.0**63), 0, whole)
    low, high = whole <= float(info.min), whole >= float(info.max)
    inside = np.where(low | high, 0, out)
    if dtype == np.uint64:
        big = (whole >= 2.0**63) & ~high
        inside = (
            np.where(big, 0, inside).astype(np.uint64)
            + np.where(big, whole - 2.0**63, 0).astype(np.uint64)
            + big.astype(np.uint64) * np.uint64(2**63)
        )
    return np.where(low, info.min, np.where(high, info.max, inside.astype(dtype))).astype(dtype)


def _round_to_odd(x: np.ndarray) -> np.ndarray:
    """float64 as float32, so that rounding to fewer bits afterwards gives what rounding at once would."""
    y = x.astype(np.float32)
    bits = np.array(y).view(np.uint32)
    bits = np.where(np.abs(y.astype(np.float64)) > np.abs(x), bits - np.uint32(1), bits)
    odd = bits | (y.astype(np.float64) != x).astype(np.uint32)
    return np.where(np.isnan(x), y, np.asarray(odd, np.uint32).view(np.float32))


def _convert(b: Builder, x: Scalar, *, new_dtype: Any, weak_type: bool = False, sharding: Any = None) -> Scalar:
    if x.dtype == new_dtype:
        return x
    if isinstance(x, Pair) and new_dtype not in COMPLEX:
        x = x.first
    if isinstance(x, Expr) and x.dtype == dtypes.float64 and new_dtype in dtypes.NARROW_FLOATS:
        return b.narrow(new_dtype, round_to_odd(b, x))
    return b.convert(x, new_dtype)


def round_to_odd(b: Builder, x: Expr) -> Expr:
    """float64 --> float32 toward zero, with the last bit set if inexact."""
    y = b.convert(x, F32)
    back = b.convert(y, x.dtype)
    bits = b.bitcast(y, dtypes.uint32)
    bits = b.select(b.gt(b.abs(back), b.abs(x)), b.sub(bits, 1), bits)
    odd = b.or_(bits, b.convert(b.ne(back, x), dtypes.uint32))
    return b.select(b.is_nan(x), y, b.bitcast(odd, F32))


def _convert_samples() -> Iterable[Any]:
    for source in ordered(ANY):
        x = np.concatenate([edges(source), filled((30,), source)])
        for target in ordered(ANY):
            yield (x,), {"new_dtype": target, "weak_type": False, "sharding": None}
    large = np.array([1e10, -1e10, 300.0, -300.0, 2.0**31, -(2.0**31) - 1, 2.0**63, 2.0**64, -0.5, 255.9, 1 + 2.0**-4 + 2.0**-40, 3e38])
    for target in ordered(INT | FLOAT):
        yield (large,), {"new_dtype": target, "weak_type": False, "sharding": None}
        yield (large.astype(np.float32),), {"new_dtype": target, "weak_type": True, "sharding": None}
    for shape in [(), (0, 2), (1, 1)]:
        yield (filled(shape, "float32"),), {"new_dtype": dtypes.int32, "weak_type": False, "sharding": None}


def _convert_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    (x,), (g,) = primals, tangents
    out = convert_element_type(x, **params)
    return out, convert_element_type(g, **params) if is_differentiable(out.aval) else zero_of(out)


convert_element_type = Op(
    "convert_element_type",
    typ=_convert_typ,
    oracle=Oracle(_convert_oracle),
    lower=elementwise_lower(_convert),
    samples=_convert_samples,
    show=given,
    jvp=_convert_jvp,
    transpose=by_operand(lambda ct, x, **_: converted(ct, x.dtype)),
    batch=ELEMENTWISE,
)

# bitcast_convert_type


def _bitcast_typ(x: ShapedArray, *, new_dtype: Any) -> ShapedArray:
    op, old = "bitcast_convert_type", x.dtype
    if dtypes.is_key(old) or dtypes.is_key(new_dtype):
        raise ValueError(f"{op} does not take PRNG keys, got {dtypes.name(old)} and new_dtype {dtypes.name(new_dtype)}")
    if old == new_dtype:
        return x.strip_weak_type()
    if old in BOOL | COMPLEX or new_dtype in BOOL | COMPLEX:
        raise TypeError(
            f"{op}: bool and complex dtypes convert to themselves only, got an operand of dtype {old.name} and new_dtype {new_dtype.name}"
        )
    n, m = itemsize_bits(old), itemsize_bits(new_dtype)
    if n == m:
        return ShapedArray(x.shape, new_dtype)
    if n > m:
        return ShapedArray((*x.shape, n // m), new_dtype)
    if not x.shape or x.shape[-1] * n != m:
        last = x.shape[-1] if x.shape else 1
        raise ValueError(
            f"{op}: an element of {new_dtype.name} has {m} bits, but the last axis of an operand of shape {x.shape} and dtype {old.name} "
            f"holds {last} * {n} bits"
        )
    return ShapedArray(x.shape[:-1], new_dtype)


def _bitcast_oracle(x: np.ndarray, *, new_dtype: Any) -> np.ndarray:
    if x.dtype == new_dtype:
        return x.copy()
    n, m = itemsize_bits(x.dtype), itemsize_bits(new_dtype)
    raw = np.ascontiguousarray(x).view(raw_dtype(x.dtype)).reshape(x.shape)
    bits = (raw[..., None] >> np.arange(n, dtype=raw.dtype)) & raw.dtype.type(1)  # lowest first
    if n < m:
        bits = bits.reshape(*x.shape[:-1], m)
    elif n > m:
        bits = bits.reshape(*x.shape, n // m, m)
    out = np.zeros(bits.shape[:-1], raw_dtype(new_dtype))
    for k in range(m):
        out |= bits[..., k].astype(out.dtype) << out.dtype.type(k)
    if m < 8 and new_dtype in INT:
        return out.astype(np.int8 if new_dtype in dtypes.SIGNED else np.uint8).astype(new_dtype)
    return out.view(new_dtype).reshape(out.shape)


def _bitcast_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, new_dtype: Any) -> Map:
    old = avals_in[0].dtype
    if old == new_dtype:
        return unchanged(avals_in, avals_out)
    n, m = itemsize_bits(old), itemsize_bits(new_dtype)
    wide, thin = raw_dtype(old), raw_dtype(new_dtype)

    def equal(b: Builder, indices: Sequence[Index], reads: Sequence[Read]) -> Scalar:
        return from_raw_bits(b, new_dtype, raw_bits(b, reads[0](indices)))

    def split(b: Builder, indices: Sequence[Index], reads: Sequence[Read]) -> Scalar:
        *front, last = indices
        amount = b.convert(b.index(last * m), wide)
        bits = b.lshr(raw_bits(b, reads[0](front)), amount)
        if m < 8:
            bits = b.and_(bits, (1 << m) - 1)
        return from_raw_bits(b, new_dtype, b.convert(bits, thin))

    def join(b: Builder, indices: Sequence[Index], reads: Sequence[Read]) -> Scalar:
        out = b.const(0, thin)
        for k in range(m // n):
            piece = b.convert(raw_bits(b, reads[0]([*indices, Index(k)])), thin)
            out = b.or_(out, b.shl(piece, k * n))
        return from_raw_bits(b, new_dtype, out)

    if n == m:
        return Map(equal, flat=True)
    return Map(split if n > m else join)


def _bitcast_samples() -> Iterable[Any]:
    for source in ordered(ANY):
        n = itemsize_bits(source)
        for target in ordered(ANY):
            m = itemsize_bits(target)
            if source == target or (source in INT | FLOAT and target in INT | FLOAT):
                x = np.concatenate([edges(source), filled((32,), source)])
                if n < m:
                    k = m // n
                    x = x[: len(x) // k * k].reshape(-1, k)
                yield (x,), {"new_dtype": target}
    yield (filled((), "float32"),), {"new_dtype": dtypes.int32}
    yield (filled((), "float32"),), {"new_dtype": dtypes.uint8}
    yield (filled((4,), "uint8"),), {"new_dtype": dtypes.float32}
    yield (filled((0, 3), "float32"),), {"new_dtype": dtypes.int16}
    yield (filled((0, 2), "int16"),), {"new_dtype": dtypes.int32}


def _bitcast_batch(axis: Axis, args: Sequence[Any], dims: Sequence[int | None], *, new_dtype: Any) -> tuple[Any, int]:
    """The last axis may be that of the pieces of an element: the batch axis must not be last."""
    (x,), (dim,) = args, dims
    assert dim is not None
    if dim == len(x.shape) - 1 and itemsize_bits(x.dtype) < itemsize_bits(new_dtype):
        x, dim = move_axis(x, dim, 0), 0
    return bitcast_convert_type(x, new_dtype=new_dtype), dim


bitcast_convert_type = Op(
    "bitcast_convert_type",
    typ=_bitcast_typ,
    oracle=Oracle(_bitcast_oracle),
    lower=_bitcast_lower,
    samples=_bitcast_samples,
    jvp=ZERO,
    batch=_bitcast_batch,
)
"""The bits as another dtype. A narrower one adds a last axis (lowest bits first), a wider one takes it away."""

# reduce_precision


def _reduce_precision_typ(x: ShapedArray, *, exponent_bits: int, mantissa_bits: int) -> ShapedArray:
    check_domain("reduce_precision", x, FLOAT)
    if exponent_bits < 1:
        raise ValueError(f"reduce_precision: exponent_bits must be positive, got {exponent_bits}")
    if mantissa_bits < 0:
        raise ValueError(f"reduce_precision: mantissa_bits must not be negative, got {mantissa_bits}")
    return x


_MANTISSA = {np.dtype(np.float32): (8, 23), np.dtype(np.float64): (11, 52)}


def _reduce_precision_oracle(x: np.ndarray, *, exponent_bits: int, mantissa_bits: int) -> np.ndarray:
    """Rounds to even at the last mantissa bit (with none: at the exponent's last bit); beyond the exponent's range: infinity, below that of
    normal numbers: zero."""
    v = widen(x)
    exponent, mantissa = _MANTISSA[v.dtype]
    own, bias = (1 << (exponent - 1)) - 1, (1 << (exponent_bits - 1)) - 1
    raw = np.array(v).view(f"uint{8 * v.dtype.itemsize}")
    magnitude = raw & raw.dtype.type((1 << (exponent + mantissa)) - 1)
    drop = max(mantissa - mantissa_bits, 0)
    unit = raw.dtype.type(1 << drop)
    whole, rest = magnitude // unit, magnitude % unit
    up = (2 * rest > unit) | ((2 * rest == unit) & (whole % 2 == 1))
    magnitude = (whole + up.astype(raw.dtype)) * unit
    size = magnitude.view(v.dtype)
    if exponent_bits < exponent:
        size = np.where(magnitude >> mantissa > own + bias, np.inf, np.where(magnitude >> mantissa < own + 1 - bias, 0, size))
    return np.where(np.isnan(v), v, np.copysign(size, v).astype(v.dtype)).astype(x.dtype)


def _reduce_precision(b: Builder, x: Expr, *, exponent_bits: int, mantissa_bits: int) -> Expr:
    exponent, mantissa = _MANTISSA[x.dtype]
    u = np.dtype(f"uint{8 * x.dtype.itemsize}")
    bits = b.bitcast(x, u)
    sign = 1 << (8 * x.dtype.itemsize - 1)
    drop = mantissa - mantissa_bits
    if drop > 0:
        even = b.and_(b.lshr(bits, drop), 1)
        bits = b.and_(b.add(bits, b.add(even, (1 << (drop - 1)) - 1)), -1 << drop)
    if exponent_bits < exponent:
        bias, own = (1 << (exponent_bits - 1)) - 1, (1 << (exponent - 1)) - 1
        magnitude = b.and_(bits, sign - 1)
        zero = b.and_(bits, sign)
        infinity = b.or_(zero, ((1 << exponent) - 1) << mantissa)
        high = (own + bias + 1) << mantissa
        bits = b.select(b.ge(magnitude, high), infinity, b.select(b.lt(magnitude, (own + 1 - bias) << mantissa), zero, bits))
    return b.select(b.is_nan(x), x, b.bitcast(bits, x.dtype))


def _reduce_precision_samples() -> Iterable[Any]:
    formats = [(5, 10), (8, 7), (4, 3), (1, 0), (2, 1), (11, 52), (3, 30), (8, 0)]
    yield from unary_samples(FLOAT, [{"exponent_bits": e, "mantissa_bits": m} for e, m in formats])()
    close = np.array([1.1, 240, 247, 248, 449, 464, 500, 0.0176, 0.0117, 2.0**-6, 0.9999, 65519, 65520, 3.9, 0.49], np.float32)
    for e, m in formats:
        yield (close,), {"exponent_bits": e, "mantissa_bits": m}


reduce_precision = unary(
    "reduce_precision",
    FLOAT,
    oracle=_reduce_precision_oracle,
    scalar=_reduce_precision,
    typ=_reduce_precision_typ,
    samples=_reduce_precision_samples,
    jvp=LINEAR,
    transpose=lambda ct, x, **params: reduce_precision(ct, **params),
)
"""Rounds to a float format of fewer bits, without its subnormal numbers, and back."""
