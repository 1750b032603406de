"""Exact elementwise ops: arithmetic, rounding, complex parts, extrema, neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from steno.core import dtypes
from steno.core.aval import ShapedArray
from steno.core.op import Op
from steno.ir.expr import Builder, Expr, Pair, component
from steno.ir.kinds import Scalar
from steno.ir.narrow import FORMATS
from steno.ops.families import (
    ANY,
    COMPLEX,
    FLOAT,
    INT,
    NUMBER,
    SIGNED,
    and_,
    binary,
    check_domain,
    converted,
    edges,
    elementwise,
    elementwise_typ,
    from_raw_bits,
    ge,
    given,
    gt,
    lt,
    nary_samples,
    number,
    one_shape,
    ordered,
    pairs,
    raw_bits,
    raw_dtype,
    same,
    select_n,
    to_bool,
    unary,
    unary_samples,
    where,
)
from steno.ops.oracle import Oracle, complex_mul, complex_of, direct, earlier, later, primitive, widen, wider
from steno.ops.samples import filled
from steno.ops.structural import unchanged
from steno.ops.wholes import magnitude, small_whole, whole_bits
from steno.transforms.rules import ELEMENTWISE, LINEAR, ZERO, ForOp, Zero, broadcast, full, zero_of


def real_of(dtype: Any) -> Any:
    """complex64 --> float32, complex128 --> float64; others stay."""
    return component(dtype) if dtypes.is_complex(dtype) else dtype


def complex_for(dtype: Any) -> Any:
    """float32 --> complex64, float64 --> complex128; complex dtypes stay."""
    return {dtypes.float32: dtypes.complex64, dtypes.float64: dtypes.complex128}.get(dtype, dtype)


SINGLE_DOUBLE = frozenset((dtypes.float32, dtypes.float64))


# sign, magnitude, rounding

neg = unary(
    "neg",
    NUMBER,
    oracle=direct(lambda x: primitive("neg")(x) if x.dtype.kind != "c" else -x),
    scalar=lambda b, x: b.neg(x),
    exact=True,
    jvp=LINEAR,
    transpose=lambda ct, x: neg(ct),
)


def _sign_oracle(x: np.ndarray) -> np.ndarray:
    """-1, 0 or 1; NaN and zeros stay; complex: x / |x|, zeros stay."""
    if x.dtype.kind == "c":
        size = np.hypot(x.real, x.imag)
        return np.where(x == 0, x, complex_of(x.real / size, x.imag / size))
    if x.dtype.kind == "f":
        return np.where((x == 0) | np.isnan(x), x, np.copysign(np.ones_like(x), x))
    return np.sign(x)


def _sign(b: Builder, x: Scalar) -> Scalar:
    if not isinstance(x, Pair):
        return b.sign(x)
    size = b.abs(x)
    return b.select(b.eq(x, 0), x, b.pair(x.dtype, b.div(x.first, size), b.div(x.second, size)))


def _sign_tangent(g: Any, out: Any, x: Any) -> Any:
    """Complex: i u Im(conj(u) g) / |x| for u = x / |x|; zero at 0."""
    if not dtypes.is_complex(x.dtype):
        return zero_of(out)
    size = abs_(x)
    turn = div(imag(mul(_conjugate(out), g)), select_n(gt(size, number(size, 0)), full(size.shape, 1, size.dtype), size))
    return mul(out, complex_(number(turn, 0), turn))


sign = unary(
    "sign",
    NUMBER,
    oracle=lambda x: (wider if x.dtype.kind == "c" else direct)(_sign_oracle)(x),
    scalar=_sign,
    exact=True,
    complex_ulps=2,
    jvp=_sign_tangent,
)


def _abs_oracle(x: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "c":
        return np.hypot(x.real.astype(np.longdouble), x.imag.astype(np.longdouble)).astype(x.real.dtype)
    return direct(primitive("abs"))(x)


def _abs_tangent(g: Any, out: Any, x: Any) -> Any:
    """At 0 that of x; complex: Re(g conj(x) / |x|), zero at 0."""
    if dtypes.is_complex(x.dtype):
        return real(mul(g, _conjugate(sign(x))))
    return select_n(ge(x, number(x, 0)), neg(g), g)


abs_ = unary(
    "abs",
    SIGNED | FLOAT | COMPLEX,
    oracle=_abs_oracle,
    scalar=lambda b, x: b.abs(x),
    exact=True,
    result=real_of,
    complex_ulps=1,
    jvp=_abs_tangent,
)
"""The magnitude. The least integer stays as it is."""

floor = unary("floor", FLOAT, oracle=direct(np.floor), scalar=lambda b, x: b.floor(x), jvp=ZERO)
ceil = unary("ceil", FLOAT, oracle=direct(np.ceil), scalar=lambda b, x: b.ceil(x), jvp=ZERO)


def _round_away(x: np.ndarray) -> np.ndarray:
    whole = np.trunc(x)
    return np.copysign(np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(np.ones_like(x), x), whole), x)


def _round(b: Builder, x: Expr, *, rounding_method: int) -> Expr:
    """0: halves away from zero, 1: halves to even."""
    if rounding_method == 1:
        return b.round_even(x)
    whole = b.trunc(x)
    # x - trunc(x) is exact
    away = b.select(b.ge(b.abs(b.sub(x, whole)), 0.5), b.add(whole, b.copysign(b.const(1, x.dtype), x)), whole)
    return b.copysign(away, x)


round_ = unary(
    "round",
    FLOAT,
    oracle=lambda x, *, rounding_method: direct(_round_away if rounding_method == 0 else np.rint)(x),
    scalar=_round,
    samples=unary_samples(FLOAT, [{"rounding_method": 0}, {"rounding_method": 1}]),
    jvp=ZERO,
)

is_finite = unary(
    "is_finite", FLOAT, oracle=lambda x: np.isfinite(x.astype(np.float64)), scalar=lambda b, x: b.is_finite(x), exact=True, result=to_bool
)

# sums and products

_SUM_RULES: dict[str, Any] = {
    "jvp": (lambda g, out, x, y: g, lambda g, out, x, y: g),
    "transpose": (lambda ct, x, y: ct, lambda ct, x, y: ct),
}

add = binary("add", NUMBER, oracle=direct(np.add), scalar=lambda b, x, y: b.add(x, y), **_SUM_RULES)


def _sub_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    out = sub(*primals)
    g, h = tangents
    if type(h) is Zero:
        return out, zero_of(out) if type(g) is Zero else broadcast(g, out.shape)
    return out, broadcast(neg(h) if type(g) is Zero else sub(g, h), out.shape)


sub = binary(
    "sub",
    NUMBER,
    oracle=direct(np.subtract),
    scalar=lambda b, x, y: b.sub(x, y),
    jvp=ForOp(lambda op: _sub_jvp),
    transpose=(lambda ct, x, y: ct, lambda ct, x, y: neg(ct)),
)


def _logical_or_sum(b: Builder, x: Scalar, y: Scalar) -> Scalar:
    return b.or_(x, y) if x.dtype == dtypes.bool_ else b.add(x, y)


add_any = binary("add_any", ANY, oracle=direct(np.add), scalar=_logical_or_sum, **_SUM_RULES)
"""The sum of two cotangents."""


def _product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return complex_mul(x, y) if x.dtype.kind == "c" else np.multiply(x, y)


_mul_types = elementwise_typ("mul", NUMBER, NUMBER)


def _mul_typ(x: ShapedArray, y: ShapedArray, *, out_dtype: Any = None) -> ShapedArray:
    out = _mul_types(x, y)
    if out_dtype is None or out_dtype == out.dtype:
        return out
    if out_dtype not in NUMBER:
        raise TypeError(f"mul: out_dtype must be a number type, got {out_dtype}")
    return ShapedArray(out.shape, out_dtype)


def _mul_oracle(x: np.ndarray, y: np.ndarray, *, out_dtype: Any = None) -> np.ndarray:
    if out_dtype is not None:
        x, y = widen(x).astype(out_dtype), widen(y).astype(out_dtype)
    return direct(_product)(x, y)


def _mul(b: Builder, x: Scalar, y: Scalar, *, out_dtype: Any = None) -> Scalar:
    if out_dtype is not None and out_dtype != x.dtype:
        x, y = b.convert(x, out_dtype), b.convert(y, out_dtype)
    return b.mul(x, y)


def _mul_samples() -> Iterable[Any]:
    yield from nary_samples((NUMBER, NUMBER))()
    for d, out in [(dtypes.bfloat16, dtypes.float32), (dtypes.int8, dtypes.int32), (dtypes.float32, dtypes.complex64)]:
        yield pairs(edges(d), edges(d)), {"out_dtype": out}


def _product_with(ct: Any, y: Any, dtype: Any) -> Any:
    """The cotangent of a factor of this dtype, where y is the other one."""
    return converted(mul(ct, converted(y, ct.dtype)), dtype)


mul = elementwise(
    "mul",
    NUMBER,
    NUMBER,
    oracle=_mul_oracle,
    scalar=_mul,
    exact=True,
    typ=_mul_typ,
    samples=_mul_samples,
    show=given,
    jvp=(lambda g, out, x, y, **params: mul(g, y, **params), lambda g, out, x, y, **params: mul(x, g, **params)),
    transpose=(lambda ct, x, y, **_: _product_with(ct, y, x.dtype), lambda ct, x, y, **_: _product_with(ct, x, y.dtype)),
)
"""The product; with `out_dtype` the operands are converted to it first."""

square = unary(
    "square",
    NUMBER,
    oracle=direct(lambda x: _product(x, x)),
    scalar=lambda b, x: b.mul(x, x),
    jvp=lambda g, out, x: mul(g, mul(number(x, 2), x)),
)


def _one_minus_square_oracle(x: np.ndarray) -> np.ndarray:
    one = np.ones((), x.dtype)
    return _product(one - x, one + x)


one_minus_square = unary(
    "one_minus_square",
    NUMBER,
    oracle=direct(_one_minus_square_oracle),
    scalar=lambda b, x: b.mul(b.sub(b.const(1, x.dtype), x), b.add(x, 1)),
    jvp=lambda g, out, x: mul(g, mul(number(x, -2), x)),
)
"""(1 - x)(1 + x), which keeps its accuracy near 1 and -1."""


def _complex_div_oracle(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The quotient in a wider format, and the limits of C's Annex G where an operand is infinite or the divisor zero."""
    out = np.asarray(_DIVIDE_WIDE(x, y))
    a, b, c, d = x.real, x.imag, y.real, y.imag
    nan_x = np.isnan(a) & np.isnan(b)
    zero = (c == 0) & (d == 0) & ~nan_x
    inf = np.copysign(np.full_like(c, np.inf), c)
    infinite = (np.isinf(a) | np.isinf(b)) & np.isfinite(c) & np.isfinite(d) & ~zero
    ua, ub = (np.copysign(np.isinf(v).astype(v.dtype), v) for v in (a, b))
    vanishing = np.isfinite(a) & np.isfinite(b) & (np.isinf(c) | np.isinf(d))
    uc, ud = (np.copysign(np.isinf(v).astype(v.dtype), v) for v in (c, d))
    out = np.where(zero, complex_of(inf * a, inf * b), out)
    out = np.where(infinite, complex_of(np.inf * (ua * c + ub * d), np.inf * (ub * c - ua * d)), out)
    return np.where(vanishing, complex_of(0 * (a * uc + b * ud), 0 * (b * uc - a * ud)), out)


def _divide_wide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    a, b, c, d = x.real, x.imag, y.real, y.imag
    size = c * c + d * d
    return complex_of((a * c + b * d) / size, (b * c - a * d) / size)


_DIVIDE_WIDE = wider(_divide_wide)


def _div_oracle(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return _complex_div_oracle(x, y) if x.dtype.kind == "c" else direct(primitive("div"))(x, y)


def _div_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """(g - h x / y) / y"""
    out, y = div(*primals), primals[1]
    g, h = tangents
    if type(h) is Zero:
        return out, zero_of(out) if type(g) is Zero else broadcast(div(g, y), out.shape)
    if type(g) is Zero:
        return out, mul(h, neg(mul(primals[0], integer_pow(y, y=-2))))
    return out, div(sub(g, mul(h, out)), y)


def _is_wide(x: Scalar, y: Scalar) -> bool:
    """Whether these are integers whose quotients no vector instruction tells, nor shifts."""
    if not isinstance(x, Expr) or not isinstance(y, Expr) or x.dtype not in (dtypes.int64, dtypes.uint64):
        return False
    return y.op != "const" or bool(y.attr and abs(y.attr) & (abs(y.attr) - 1))


def _quotient_by_floats(b: Builder, x: Expr, y: Expr) -> tuple[Expr, Expr, Expr]:
    """(whether |x| or |y| has more than 52 bits, or y is 0; else the truncated |x| / |y| and the rest, as floats). The rest of a quotient
    that is rounded to a whole number is exact, and tells whether that is one too many (by a reciprocal under `fast_math`: too few)."""
    m, n = magnitude(b, x), magnitude(b, y)
    seldom = b.or_(b.ge(b.or_(m, n), 1 << 52), b.eq(n, 0))
    f, g = small_whole(b, m), small_whole(b, n)
    quotient = b.floor(b.div(f, g))
    rest = b.fma(b.neg(quotient), g, f)
    over, under = b.lt(rest, 0.0), b.ge(rest, g)
    quotient = b.select(over, b.sub(quotient, 1.0), b.select(under, b.add(quotient, 1.0), quotient))
    return seldom, quotient, b.select(over, b.add(rest, g), b.select(under, b.sub(rest, g), rest))


def _signed_whole(b: Builder, size: Expr, negative: Expr, dtype: np.dtype) -> Expr:
    bits = whole_bits(b, size)
    return bits if dtype == dtypes.uint64 else b.bitcast(b.select(negative, b.neg(bits), bits), dtype)


def _div(b: Builder, x: Scalar, y: Scalar) -> Scalar:
    if not _is_wide(x, y):
        return b.div(x, y)
    seldom, quotient, _ = _quotient_by_floats(b, x, y)
    return b.rare(seldom, _signed_whole(b, quotient, b.lt(b.xor(x, y), 0), x.dtype), b.div(x, y))


div = binary(
    "div",
    NUMBER,
    oracle=_div_oracle,
    scalar=_div,
    complex_ulps=4,
    jvp=ForOp(lambda op: _div_jvp),
    transpose=(lambda ct, x, y: div(ct, y), None),
)
"""Integers: truncates; x / 0 is -1 (all bits set), the least integer / -1 is itself."""


def _whole_quotient(x: Any, y: Any) -> Any:
    """x / y, rounded towards zero."""
    q = div(x, y)
    return mul(sign(q), floor(abs_(q)))


def _rem(b: Builder, x: Scalar, y: Scalar) -> Scalar:
    """C's fmod takes a step for each few bits of the quotient. A whole number q below 2**22 is found at once: the rounded quotient may
    reach the next one (by a reciprocal under `fast_math` also the one before), so that |x| - q |y| is exact, but off by |y|."""
    if _is_wide(x, y):
        seldom, _, rest = _quotient_by_floats(b, x, y)
        return b.rare(seldom, _signed_whole(b, rest, b.lt(x, 0), x.dtype), b.rem(x, y))
    if not isinstance(x, Expr) or x.dtype.kind != "f":
        return b.rem(x, y)
    a, c = b.abs(x), b.abs(y)
    quotient = b.div(a, c)
    rest = b.fma(b.neg(b.floor(quotient)), c, a)
    rest = b.select(b.lt(rest, 0.0), b.add(rest, c), b.select(b.lt(rest, c), rest, b.sub(rest, c)))
    return b.rare(b.not_(b.lt(quotient, 2.0**22)), b.copysign(b.select(b.lt(a, c), a, rest), x), b.rem(x, y))


rem = binary(
    "rem",
    INT | FLOAT,
    oracle=direct(primitive("rem")),
    scalar=_rem,
    jvp=(lambda g, out, x, y: g, lambda g, out, x, y: mul(g, neg(_whole_quotient(x, y)))),
)
"""The remainder with the sign of the dividend. Integers: x rem 0 is x."""


def _mulhi_oracle(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    bits = dtypes.itemsize_bits(x.dtype)
    x, y = np.broadcast_arrays(x, y)
    high = [int(v) * int(w) >> bits for v, w in zip(x.flat, y.flat, strict=True)]
    return np.array(high, np.int64 if x.dtype in SIGNED else np.uint64).reshape(x.shape).astype(x.dtype)


def _mulhi(b: Builder, x: Scalar, y: Scalar) -> Scalar:
    d = x.dtype
    bits = dtypes.itemsize_bits(d)
    signed = d in SIGNED
    if bits < 64:
        wide = np.dtype(f"{'int' if signed else 'uint'}{max(2 * bits, 8)}")
        product = b.mul(b.convert(x, wide), b.convert(y, wide))
        return b.convert(b.ashr(product, bits) if signed else b.lshr(product, bits), d)
    if not signed:
        return b.mulhi(x, y)
    u = dtypes.uint64
    high = b.bitcast(b.mulhi(b.bitcast(x, u), b.bitcast(y, u)), d)
    # x = ux - 2**64 if negative
    high = b.sub(high, b.select(b.lt(x, 0), y, b.const(0, d)))
    return b.sub(high, b.select(b.lt(y, 0), x, b.const(0, d)))


mulhi = binary("mulhi", INT, oracle=_mulhi_oracle, scalar=_mulhi, exact=True)
"""The high half of the double-width product."""


# powers by integers


def _power(one: Any, x: Any, n: int, times: Any) -> Any:
    """x**n for n >= 0 by squaring: one order of products for the specification and the code."""
    acc = None
    while n:
        if n & 1:
            acc = x if acc is None else times(acc, x)
        n >>= 1
        if n:
            x = times(x, x)
    return one if acc is None else acc


def _integer_pow_oracle(x: np.ndarray, *, y: int) -> np.ndarray:
    p = _power(np.ones_like(x), x, abs(y), _product)
    if y >= 0:
        return p
    return _complex_div_oracle(np.ones_like(p), p) if x.dtype.kind == "c" else 1 / p


def _integer_pow(b: Builder, x: Scalar, *, y: int) -> Scalar:
    p = _power(b.const(1, x.dtype), x, abs(y), b.mul)
    return b.div(b.const(1, x.dtype), p) if y < 0 else p


def _integer_pow_typ(x: ShapedArray, *, y: int) -> ShapedArray:
    check_domain("integer_pow", x, NUMBER)
    if y < 0 and x.dtype in INT:
        raise TypeError(f"integer_pow: integers cannot be raised to negative powers, got an operand of dtype {x.dtype.name} and y={y}")
    return x


def _integer_pow_samples() -> Iterable[Any]:
    yield from unary_samples(NUMBER, [{"y": n} for n in (0, 1, 2, 3, 7)])()
    yield from unary_samples(FLOAT | COMPLEX, [{"y": n} for n in (-1, -2, -5)])()


def _integer_pow_tangent(g: Any, out: Any, x: Any, *, y: int) -> Any:
    if y == 0:
        return zero_of(out)
    if y == 1:
        return g
    return mul(g, mul(number(x, y), x if y == 2 else integer_pow(x, y=y - 1)))


integer_pow = unary(
    "integer_pow",
    NUMBER,
    oracle=direct(_integer_pow_oracle),
    scalar=_integer_pow,
    typ=_integer_pow_typ,
    samples=_integer_pow_samples,
    complex_ulps=4,
    jvp=_integer_pow_tangent,
)
"""x**y for a constant integer y."""

# extrema


def less(b: Builder, x: Scalar, y: Scalar) -> Expr:
    """x < y for every dtype: bools as numbers, complex numbers by real, then by imaginary part (False if a NaN decides)."""
    if isinstance(x, Pair):
        below = b.and_(b.eq(x.first, y.first), b.lt(x.second, y.second))
        return b.or_(b.lt(x.first, y.first), below)
    return b.and_(b.not_(x), y) if x.dtype == dtypes.bool_ else b.lt(x, y)


def maximum(b: Builder, x: Scalar, y: Scalar) -> Scalar:
    if isinstance(x, Pair):
        return b.select(less(b, y, x), x, y)
    return b.or_(x, y) if x.dtype == dtypes.bool_ else b.max(x, y)


def minimum(b: Builder, x: Scalar, y: Scalar) -> Scalar:
    if isinstance(x, Pair):
        return b.select(less(b, x, y), x, y)
    return b.and_(x, y) if x.dtype == dtypes.bool_ else b.min(x, y)


def share(x: Any, y: Any) -> Any:
    """The part of x in the derivative of max(x, y): 1 where it is greater, 1/2 where the two are equal, else 0."""
    ones = add(converted(gt(x, y), x.dtype), converted(ge(x, y), x.dtype))
    return mul(number(x, 0.5), ones)


max_ = binary(
    "max",
    ANY,
    oracle=direct(later),
    scalar=maximum,
    exact=True,
    jvp=(lambda g, out, x, y: mul(g, share(x, y)), lambda g, out, x, y: mul(g, share(y, x))),
)
"""A NaN operand gives NaN, and -0 < +0. Complex: x if it comes after y in lexicographic order, else y."""
min_ = binary(
    "min",
    ANY,
    oracle=direct(earlier),
    scalar=minimum,
    exact=True,
    jvp=(lambda g, out, x, y: mul(g, share(y, x)), lambda g, out, x, y: mul(g, share(x, y))),
)


def _clamp_typ(low: ShapedArray, x: ShapedArray, high: ShapedArray) -> ShapedArray:
    for k, a in enumerate((low, x, high)):
        check_domain("clamp", a, ANY, k)
    if len({low.dtype, x.dtype, high.dtype}) > 1:
        given = ", ".join(dtypes.name(a.dtype) for a in (low, x, high))
        raise TypeError(f"lax.clamp requires arguments to have the same dtypes, got {given}.")
    for name, bound in (("min", low), ("max", high)):
        if bound.shape not in ((), x.shape):
            raise TypeError(f"clamp: {name} must have the operand's shape or none, got {name}.shape={bound.shape}, operand.shape={x.shape}")
    return ShapedArray(x.shape, x.dtype, low.weak_type and x.weak_type and high.weak_type)


def _clamp_samples() -> Iterable[Any]:
    for d in ordered(ANY):
        x, low = pairs(edges(d)[:40], edges(d)[:40])
        yield (low, x, np.roll(low, 5)), {}
        yield (filled((), d, 1), filled((3, 4), d), filled((), d, 2)), {}
    yield (filled((0,), "float32"),) * 3, {}
    yield (filled((), "float32"), filled((), "float32", 1), filled((), "float32", 2)), {}


def _tangent_of_low(g: Any, out: Any, low: Any, x: Any, high: Any) -> Any:
    return where(and_(gt(low, x), lt(low, high)), broadcast(g, out.shape))


def _tangent_of_clamped(g: Any, out: Any, low: Any, x: Any, high: Any) -> Any:
    return where(and_(gt(x, low), lt(x, high)), g)


def _tangent_of_high(g: Any, out: Any, low: Any, x: Any, high: Any) -> Any:
    return where(lt(high, x), broadcast(g, out.shape))


clamp = elementwise(
    "clamp",
    ANY,
    ANY,
    ANY,
    oracle=direct(lambda low, x, high: earlier(later(x, low), high)),
    scalar=lambda b, low, x, high: minimum(b, maximum(b, x, low), high),
    exact=True,
    typ=_clamp_typ,
    samples=_clamp_samples,
    jvp=(_tangent_of_low, _tangent_of_clamped, _tangent_of_high),
    batch=one_shape(0, 2),
)
"""min(max(x, low), high)"""

# neighbours


def _nextafter_oracle(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """NumPy's, but that y is given where the two are equal (NumPy's float16 gives x)."""
    return np.where(x == y, y, np.nextafter(x, y))


def _nextafter(b: Builder, x: Scalar, y: Scalar) -> Scalar:
    """Steps in the stored bits, which are a sign and a magnitude."""
    d = x.dtype
    f = FORMATS.get(d)
    width = dtypes.itemsize_bits(d)
    raw = raw_dtype(d)
    top = 1 << (width - 1)
    at, goal = raw_bits(b, x), raw_bits(b, y)
    negative = b.ne(b.and_(at, top), 0)
    outward = b.ne(b.lt(x, y), negative)  # up from a positive number, down from a negative one
    step = b.select(outward, b.add(at, 1), b.sub(at, 1))
    if f is not None and f.special == "fnuz":
        step = b.select(b.eq(step, top), b.const(0, raw), step)
    if f is not None and f.special == "finite":
        step = b.select(b.eq(b.and_(step, top - 1), 0), b.select(outward, at, step), step)
    from_zero = b.or_(b.const(1, raw), b.and_(goal, top))
    step = b.select(b.eq(x, 0), from_zero, step)
    out = b.select(b.eq(x, y), goal, step)
    nan = b.or_(b.is_nan(x), b.is_nan(y))
    return b.select(nan, b.const(np.nan, d), from_raw_bits(b, d, out))


_STEPPED = FLOAT - {dtypes.float8_e8m0fnu}
nextafter = binary("nextafter", _STEPPED, oracle=_nextafter_oracle, scalar=_nextafter, exact=True, jvp=(lambda g, out, x, y: g, None))
"""The next number after x towards y; y itself if they are equal."""

# complex numbers

complex_ = binary(
    "complex",
    SINGLE_DOUBLE,
    oracle=complex_of,
    scalar=lambda b, x, y: b.pair(complex_for(x.dtype), x, y),
    exact=True,
    result=complex_for,
    jvp=LINEAR,
    transpose=(lambda ct, x, y: real(ct), lambda ct, x, y: neg(imag(ct))),
)
real = unary(
    "real",
    COMPLEX,
    oracle=lambda x: x.real,
    scalar=lambda b, x: b.real(x),
    exact=True,
    result=real_of,
    jvp=LINEAR,
    transpose=lambda ct, x: complex_(ct, number(ct, 0)),
)
imag = unary(
    "imag",
    COMPLEX,
    oracle=lambda x: x.imag,
    scalar=lambda b, x: b.imag(x),
    exact=True,
    result=real_of,
    jvp=LINEAR,
    transpose=lambda ct, x: complex_(number(ct, 0), neg(ct)),
)


def _conj_oracle(x: np.ndarray, *, input_dtype: Any) -> np.ndarray:
    return complex_of(x.real, -x.imag if x.dtype.kind == "c" else np.zeros_like(x))


def _conj(b: Builder, x: Scalar, *, input_dtype: Any) -> Scalar:
    return b.conj(x) if isinstance(x, Pair) else b.pair(complex_for(x.dtype), x, b.const(0, x.dtype))


def _conj_samples() -> Iterable[Any]:
    for d in ordered(COMPLEX | SINGLE_DOUBLE):
        yield (edges(d),), {"input_dtype": d}
        yield (filled((2, 0), d),), {"input_dtype": d}


conj = unary(
    "conj",
    COMPLEX | SINGLE_DOUBLE,
    oracle=_conj_oracle,
    scalar=_conj,
    exact=True,
    result=complex_for,
    samples=_conj_samples,
    jvp=LINEAR,
    transpose=lambda ct, x, *, input_dtype: _conjugate(ct) if input_dtype in COMPLEX else real(ct),
)
"""The conjugate, as a complex number also of a real one; `input_dtype` is the operand's."""


def _conjugate(x: Any) -> Any:
    return conj(x, input_dtype=x.dtype)


# identities


stop_gradient = Op(
    "stop_gradient", typ=same, oracle=Oracle(np.copy), lower=unchanged, samples=unary_samples(ANY), jvp=ZERO, batch=ELEMENTWISE
)
"""The operand, with derivatives zero."""
