"""Elementwise functions: NumPy's universal functions under JAX's promotion.

Composite functions work on operands that `binary` has brought to one dtype and one shape (or rank 0); they bind ops directly. Constants
in them are weakly typed scalars, so that they never make a result strongly typed."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from steno import lax
from steno.core import dtypes
from steno.core.aval import typed_scalar
from steno.core.sizes import UnknownSize
from steno.lax import records as p
from steno.numpy.operands import (
    PYTHON_SCALARS,
    Array,
    ArrayImpl,
    ArrayLike,
    Tracer,
    alias,
    as_array,
    binary,
    broadcast_shapes,
    broadcast_to,
    check_arraylike,
    convert,
    no_out,
    operand,
    promoted,
    promoted_inexact,
    settled,
    strong,
    to_inexact,
    to_numeric,
    type_of,
    unary_operand,
    unwrap,
)


def const(value: Any, dtype: Any) -> Any:
    """A weakly typed scalar of a dtype."""
    if isinstance(value, UnknownSize):
        return convert(value, dtype, True)
    return typed_scalar(value, dtype, True)


def kind_of(x: Any) -> str:
    return dtypes.kind(x.aval.dtype)


def where(condition: Any, x: Any, y: Any) -> Array:
    """`select_n` on operands of one dtype that are of one shape or of rank 0: scalars are broadcast as the op wants it."""
    shape = condition.aval.shape or x.aval.shape or y.aval.shape
    if shape:
        x, y = (broadcast_to(v, shape) if v.aval.shape != shape else v for v in (x, y))
    return p.select_n_p(condition, y, x)


# functions of one operand

_INEXACT = frozenset((*dtypes.FLOATS, *dtypes.COMPLEX))


def _inexact(name: str, op: Any, doc: str, **params: Any) -> Any:
    """Bools and integers become floats."""

    def fun(x: ArrayLike, /) -> Array:
        t = type(x)
        if (t is ArrayImpl or isinstance(x, Tracer)) and x.aval.dtype in _INEXACT:
            return op(x, **params)
        x = unary_operand(name, x)
        return op(convert(x, *to_inexact(*type_of(x))), **params)

    fun.__name__ = fun.__qualname__ = name
    fun.__doc__ = doc
    return fun


def _plain(name: str, op: Any, doc: str) -> Any:
    def fun(x: ArrayLike, /) -> Array:
        return op(unary_operand(name, x))

    fun.__name__ = fun.__qualname__ = name
    fun.__doc__ = doc
    return fun


exp = _inexact("exp", p.exp_p, "e to the power x.\n\n>>> jnp.exp(0.0)\nArray(1., dtype=float32, weak_type=True)", accuracy=None)
exp2 = _inexact("exp2", p.exp2_p, "2 to the power x.", accuracy=None)
_expm1 = _inexact("expm1", p.expm1_p, "", accuracy=None)
log = _inexact("log", p.log_p, "The natural logarithm.", accuracy=None)
log1p = _inexact("log1p", p.log1p_p, "log(1 + x), exact for small x.", accuracy=None)
log2 = _inexact("log2", p.log2_p, "The logarithm to base 2.", accuracy=None)
sin = _inexact("sin", p.sin_p, "The sine.\n\n>>> jnp.sin(0.0)\nArray(0., dtype=float32, weak_type=True)", accuracy=None)
cos = _inexact("cos", p.cos_p, "The cosine.\n\n>>> jnp.cos(0.0)\nArray(1., dtype=float32, weak_type=True)", accuracy=None)
tan = _inexact("tan", p.tan_p, "The tangent.", accuracy=None)
sinh = _inexact("sinh", p.sinh_p, "The hyperbolic sine.")
cosh = _inexact("cosh", p.cosh_p, "The hyperbolic cosine.")
tanh = _inexact("tanh", p.tanh_p, "The hyperbolic tangent.\n\n>>> jnp.tanh(0.0)\nArray(0., dtype=float32, weak_type=True)", accuracy=None)
arcsin = _inexact("arcsin", p.asin_p, "The inverse sine.")
arccos = _inexact("arccos", p.acos_p, "The inverse cosine.")
arctan = _inexact("arctan", p.atan_p, "The inverse tangent.")
arcsinh = _inexact("arcsinh", p.asinh_p, "The inverse hyperbolic sine.")
arccosh = _inexact("arccosh", p.acosh_p, "The inverse hyperbolic cosine.")
arctanh = _inexact("arctanh", p.atanh_p, "The inverse hyperbolic tangent.")
sqrt = _inexact("sqrt", p.sqrt_p, "The square root.\n\n>>> jnp.sqrt(jnp.array([4.0, 9.0]))\nArray([2., 3.], dtype=float32)", accuracy=None)
cbrt = _inexact("cbrt", p.cbrt_p, "The real cube root.", accuracy=None)
asin, acos, atan = alias(arcsin, "asin"), alias(arccos, "acos"), alias(arctan, "atan")
asinh, acosh, atanh = alias(arcsinh, "asinh"), alias(arccosh, "acosh"), alias(arctanh, "atanh")

negative = _plain("negative", p.neg_p, "-x.")
_sign = _plain("sign", p.sign_p, "")
bitwise_not = _plain("bitwise_not", p.not_p, "All bits inverted; logical negation of bools.")
bitwise_invert, invert = alias(bitwise_not, "bitwise_invert"), alias(bitwise_not, "invert")


def expm1(x: ArrayLike, /) -> Array:
    """exp(x) - 1, exact for small x."""
    out = _expm1(x)
    return p.add_p(out, const(0, out.aval.dtype)) if kind_of(out) == "c" else out  # a complex -0 becomes 0


def sign(x: ArrayLike, /) -> Array:
    """-1, 0 or 1; for complex numbers x / |x|.

    >>> jnp.sign(jnp.array([-3.0, 0.0, 2.0]))
    Array([-1.,  0.,  1.], dtype=float32)
    """
    out = _sign(x)
    return where(p.eq_p(out, const(0, out.aval.dtype)), const(0, out.aval.dtype), out) if kind_of(out) == "c" else out  # -0 becomes 0


def positive(x: ArrayLike, /) -> Array:
    """x itself."""
    return as_array("positive", x)


def absolute(x: ArrayLike, /) -> Array:
    "|x|; bools and unsigned integers stay as they are.\n\n>>> jnp.abs(jnp.array([-1, 2]))\nArray([1, 2], dtype=int32)"
    x = unary_operand("absolute", x)
    return as_array("absolute", x) if kind_of(x) in "bu" else p.abs_p(x)


abs = alias(absolute, "abs")


def fabs(x: ArrayLike, /) -> Array:
    """|x| as a float. TypeError for complex numbers."""
    x = unary_operand("fabs", x)
    if kind_of(x) == "c":
        raise TypeError(f"fabs: expected a real dtype, got {dtypes.name(x.aval.dtype)}")
    return p.abs_p(convert(x, *to_inexact(*type_of(x))))


def square(x: ArrayLike, /) -> Array:
    """x * x."""
    x = unary_operand("square", x)
    return p.square_p(convert(x, *to_numeric(*type_of(x))))


def reciprocal(x: ArrayLike, /) -> Array:
    """1 / x, of floats."""
    x = unary_operand("reciprocal", x)
    x = convert(x, *to_inexact(*type_of(x)))
    return p.div_p(const(1, x.aval.dtype), x)


def log10(x: ArrayLike, /) -> Array:
    """The logarithm to base 10."""
    x = unary_operand("log10", x)
    x = convert(x, *to_inexact(*type_of(x)))
    return strong(p.div_p(p.log_p(x, accuracy=None), const(math.log(10), x.aval.dtype)))


def deg2rad(x: ArrayLike, /) -> Array:
    """Degrees to radians."""
    v = unary_operand("deg2rad", x)
    v = convert(v, *to_inexact(*type_of(v)))
    return settled(p.mul_p(v, const(math.pi / 180, v.aval.dtype)), x)


def rad2deg(x: ArrayLike, /) -> Array:
    """Radians to degrees."""
    v = unary_operand("rad2deg", x)
    v = convert(v, *to_inexact(*type_of(v)))
    return settled(p.mul_p(v, const(180 / math.pi, v.aval.dtype)), x)


radians, degrees = alias(deg2rad, "radians"), alias(rad2deg, "degrees")


def floor(x: ArrayLike, /) -> Array:
    """The greatest integer not above x; integers and bools stay."""
    x = unary_operand("floor", x)
    return as_array("floor", x) if kind_of(x) in "biu" else p.floor_p(x)


def ceil(x: ArrayLike, /) -> Array:
    """The least integer not below x; integers and bools stay."""
    x = unary_operand("ceil", x)
    return as_array("ceil", x) if kind_of(x) in "biu" else p.ceil_p(x)


def trunc(x: ArrayLike) -> Array:
    """x without its fraction; integers and bools stay."""
    x = unary_operand("trunc", x)
    if kind_of(x) in "biu":
        return as_array("trunc", x)
    return where(p.lt_p(x, const(0, x.aval.dtype)), p.ceil_p(x), p.floor_p(x))


def rint(x: ArrayLike, /) -> Array:
    """The nearest integer, as a float; halves to even."""
    x = unary_operand("rint", x)
    k = kind_of(x)
    if k in "biu":
        return as_array("rint", convert(x, dtypes.default_float()))
    if k == "c":
        return p.complex_p(rint(p.real_p(x)), rint(p.imag_p(x)))
    return p.round_p(x, rounding_method=lax.RoundingMethod.TO_NEAREST_EVEN)


def round(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """a rounded to so many decimals, halves to even. NotImplementedError for integers to fewer than 0 decimals."""
    no_out("round", out)
    x = unary_operand("round", a)
    decimals = operator.index(decimals)
    k = kind_of(x)
    if k in "biu":
        if decimals < 0:
            raise NotImplementedError(f"round: integers to {decimals} decimals is not implemented")
        return as_array("round", x)
    if k == "c":
        return p.complex_p(round(p.real_p(x), decimals), round(p.imag_p(x), decimals))
    even = lax.RoundingMethod.TO_NEAREST_EVEN
    if decimals == 0:
        return p.round_p(x, rounding_method=even)
    # 10**decimals overflows float16 early
    dtype, weak = type_of(x)
    wide = convert(x, dtypes.float32, weak) if dtypes.itemsize_bits(dtype) < 32 else x
    info = dtypes.finfo(wide.aval.dtype)
    if decimals > math.log10(float(info.max)):  # there are no such digits
        return as_array("round", x)
    factor = const(10.0**decimals, wide.aval.dtype)
    return convert(p.div_p(p.round_p(p.mul_p(wide, factor), rounding_method=even), factor), dtype, weak)


around = alias(round, "around")


def conjugate(x: ArrayLike, /) -> Array:
    """The complex conjugate; what is not complex stays."""
    x = unary_operand("conj", x)
    return p.conj_p(x, input_dtype=x.aval.dtype) if kind_of(x) == "c" else as_array("conj", x)


conj = alias(conjugate, "conj")


def real(val: ArrayLike, /) -> Array:
    """The real part; what is not complex stays."""
    x = unary_operand("real", val)
    return p.real_p(x) if kind_of(x) == "c" else as_array("real", x)


def imag(val: ArrayLike, /) -> Array:
    """The imaginary part; zeros of what is not complex."""
    x = unary_operand("imag", val)
    return p.imag_p(x) if kind_of(x) == "c" else lax.full_like(x, 0)


def angle(z: ArrayLike, deg: bool = False) -> Array:
    """The argument of a complex number; 0 or pi for a real one."""
    x = unary_operand("angle", z)
    k = kind_of(x)
    if k == "c":
        re, im = p.real_p(x), p.imag_p(x)
    else:
        re = convert(x, *to_inexact(*type_of(x)))
        im = lax.full_like(re, 0)
    out = p.atan2_p(im, re)
    if type(z) in (int, float, bool) or k in "biu":
        out = strong(out)
    return rad2deg(out) if deg else out


def isnan(x: ArrayLike, /) -> Array:
    """Whether x is NaN.

    >>> jnp.isnan(jnp.array([1.0, jnp.nan]))
    Array([False,  True], dtype=bool)
    """
    x = unary_operand("isnan", x)
    return p.ne_p(x, x)


def isfinite(x: ArrayLike, /) -> Array:
    """Whether x is neither infinite nor NaN."""
    x = unary_operand("isfinite", x)
    k = kind_of(x)
    if k == "f":
        return p.is_finite_p(x)
    if k == "c":
        return p.and_p(p.is_finite_p(p.real_p(x)), p.is_finite_p(p.imag_p(x)))
    return strong(lax.full_like(x, True, dtypes.bool_))


def isinf(x: ArrayLike, /) -> Array:
    """Whether x is infinite."""
    x = unary_operand("isinf", x)
    k = kind_of(x)
    if k == "f":
        return strong(p.eq_p(p.abs_p(x), const(np.inf, x.aval.dtype)))
    if k == "c":
        return p.or_p(isinf(p.real_p(x)), isinf(p.imag_p(x)))
    return lax.full_like(x, False, dtypes.bool_)


def _is_signed_infinity(name: str, x: ArrayLike, value: float, out: Any) -> Array:
    no_out(name, out)
    x = unary_operand(name, x)
    k = kind_of(x)
    if k == "f":
        return strong(p.eq_p(x, const(value, x.aval.dtype)))
    if k == "c":
        raise ValueError(f"{name}: expected a real dtype, got {dtypes.name(x.aval.dtype)}")
    return lax.full_like(x, False, dtypes.bool_)


def isposinf(x: ArrayLike, /, out: None = None) -> Array:
    """Whether x is infinite and positive."""
    return _is_signed_infinity("isposinf", x, np.inf, out)


def isneginf(x: ArrayLike, /, out: None = None) -> Array:
    """Whether x is infinite and negative."""
    return _is_signed_infinity("isneginf", x, -np.inf, out)


def iscomplex(x: ArrayLike) -> Array:
    """Whether the imaginary part is not 0."""
    i = imag(x)
    return settled(p.ne_p(i, const(0, i.aval.dtype)), x)


def isreal(x: ArrayLike) -> Array:
    """Whether the imaginary part is 0."""
    i = imag(x)
    return settled(p.eq_p(i, const(0, i.aval.dtype)), x)


def signbit(x: ArrayLike, /) -> Array:
    """Whether the sign bit is set: x < 0, -0.0, or a NaN with that bit."""
    x = unary_operand("signbit", x)
    k, d = kind_of(x), x.aval.dtype
    if k == "c":
        raise ValueError(f"signbit: expected a real dtype, got {dtypes.name(d)}")
    if k in "bu":
        return lax.full_like(x, False, dtypes.bool_)
    if k == "f":
        bits = np.dtype(f"int{d.itemsize * 8}")
        x = p.bitcast_convert_type_p(x, new_dtype=bits)
        d = bits
    return strong(p.lt_p(x, const(0, d)))


def logical_not(x: ArrayLike, /) -> Array:
    """Whether x is 0."""
    return settled(p.not_p(as_bool(unary_operand("logical_not", x))), x)


def as_bool(x: Any) -> Any:
    """x != 0."""
    return x if x.aval.dtype == dtypes.bool_ else p.ne_p(x, const(0, x.aval.dtype))


def bitwise_count(x: ArrayLike, /) -> Array:
    """How many bits are set in |x|, as uint8."""
    x = unary_operand("bitwise_count", x)
    if kind_of(x) == "b":
        return as_array("bitwise_count", convert(x, dtypes.uint8))
    if kind_of(x) != "u":
        x = p.abs_p(x)
    return convert(p.population_count_p(x), dtypes.uint8)


def nan_to_num(x: ArrayLike, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Array:
    """NaN replaced by `nan`, infinities by the greatest and least finite numbers, or by `posinf` and `neginf`."""
    x = as_array("nan_to_num", x)
    k, d = kind_of(x), x.aval.dtype
    if k in "biu":
        return x
    if k == "c":
        return p.complex_p(nan_to_num(p.real_p(x), copy, nan, posinf, neginf), nan_to_num(p.imag_p(x), copy, nan, posinf, neginf))
    info = dtypes.finfo(d)
    high = float(info.max) if posinf is None else posinf
    low = float(info.min) if neginf is None else neginf
    values = (strong(convert(unwrap(v), d)) for v in (nan, high, low))
    conditions = (isnan(x), isposinf(x), isneginf(x))
    for condition, value in zip(conditions, values, strict=True):
        shape = broadcast_shapes(x.aval.shape, value.aval.shape)
        x = where(broadcast_to(condition, shape), broadcast_to(value, shape), broadcast_to(x, shape))
    return x


def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of order 0. ValueError for complex numbers."""
    x = unary_operand("i0", x)
    x = convert(x, *to_inexact(*type_of(x)))
    if kind_of(x) == "c":
        raise ValueError(f"i0: expected a real dtype, got {dtypes.name(x.aval.dtype)}")
    size = p.mul_p(x, p.stop_gradient_p(p.sign_p(x)))  # |x| with the derivative 0 at 0
    return p.mul_p(p.exp_p(size, accuracy=None), p.bessel_i0e_p(x))


def float_layout(d: Any) -> tuple[np.dtype, int, int, int]:
    """(integer dtype of the same width, exponent bits, mantissa bits, bias) of a float dtype."""
    info = dtypes.finfo(d)
    return np.dtype(f"int{d.itemsize * 8}"), int(info.nexp), int(info.nmant), (1 << (int(info.nexp) - 1)) - 1


def ldexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 * 2**x2, for integers x2. ValueError for other x2, and for complex x1."""
    check_arraylike("ldexp", x1, x2)
    x, e = operand_of("ldexp", x1, 0), operand_of("ldexp", x2, 1)
    if kind_of(x) == "c" or kind_of(e) not in "biu":
        raise ValueError(
            f"ldexp: expected a real x1 and an integer x2, got dtypes {dtypes.name(x.aval.dtype)} and {dtypes.name(e.aval.dtype)}"
        )
    d = to_inexact(*type_of(x))[0]
    x = strong(convert(x, d))
    e = convert(e, dtypes.int32) if dtypes.itemsize_bits(e.aval.dtype) < 32 or kind_of(e) != "i" else e
    shape = broadcast_shapes(x.aval.shape, e.aval.shape, fun="ldexp")
    x, e = broadcast_to(x, shape), broadcast_to(e, shape)
    work = d if dtypes.itemsize_bits(d) >= 32 else dtypes.float32
    x = convert(x, work)
    # 2**e in steps that are powers the format holds exactly
    _, nexp, nmant, bias = float_layout(work)
    ed = e.aval.dtype
    limit = bias - 1
    bound = 2 * bias + nmant
    e = p.clamp_p(const(-bound - limit, ed), e, const(bound + limit, ed))
    for _ in range(3):
        step = p.clamp_p(const(-limit, ed), e, const(limit, ed))
        x = p.mul_p(x, power_of_two(step, work))
        e = p.sub_p(e, step)
    return convert(x, d)


def power_of_two(e: Any, dtype: Any) -> Array:
    """2**e for integers e within the normal range of a float dtype."""
    bits_dtype, _, nmant, bias = float_layout(dtype)
    biased = p.add_p(convert(e, bits_dtype), const(bias, bits_dtype))
    return p.bitcast_convert_type_p(p.shift_left_p(biased, const(nmant, bits_dtype)), new_dtype=dtype)


def operand_of(fun: str, x: Any, position: int) -> Any:
    """As `operand`; Python numbers become weakly typed scalars."""
    return unary_operand(fun, x) if type(x) in PYTHON_SCALARS else operand(fun, x, position)


def modf(x: ArrayLike, /, out: None = None) -> tuple[Array, Array]:
    """(fraction, whole part); the fraction of an infinity is NaN, as in JAX."""
    no_out("modf", out)
    x = unary_operand("modf", x)
    x = convert(x, *to_inexact(*type_of(x)))
    whole = where(p.ge_p(x, const(0, x.aval.dtype)), p.floor_p(x), p.ceil_p(x))
    return p.sub_p(x, whole), whole


def spacing(x: ArrayLike, /) -> Array:
    """The distance to the next number away from 0, with the sign of x. Of float16, as NumPy has it, to the next larger number."""
    x = unary_operand("spacing", x)
    x = strong(convert(x, to_inexact(*type_of(x))[0]))
    if kind_of(x) == "c":
        raise ValueError(f"spacing: expected a real dtype, got {dtypes.name(x.aval.dtype)}")
    d = x.aval.dtype
    away = const(np.inf, d) if d == dtypes.float16 else copysign_ops(const(np.inf, d), x)
    return where(p.is_finite_p(x), p.sub_p(p.nextafter_p(x, away), x), strong(const(np.nan, d)))


# functions of two operands

Rule = Callable[[Any, bool], tuple[Any, Any, bool]]


def _same(op: Any, bools: Any = None) -> Rule:
    """The op on operands of the promoted dtype; another one (`bools`) on bools."""

    def rule(dtype: Any, weak: bool) -> tuple[Any, Any, bool]:
        return (bools if bools is not None and dtype == dtypes.bool_ else op), dtype, weak

    return rule


def floats(op: Any) -> Rule:
    def rule(dtype: Any, weak: bool) -> tuple[Any, Any, bool]:
        return op, *to_inexact(dtype, weak)

    return rule


def _numeric(op: Any) -> Rule:
    def rule(dtype: Any, weak: bool) -> tuple[Any, Any, bool]:
        return op, *to_numeric(dtype, weak)

    return rule


add = binary("add", _same(p.add_p, bools=p.or_p), doc="The sum.\n\n>>> jnp.add(jnp.arange(3), 1)\nArray([1, 2, 3], dtype=int32)")
multiply = binary("multiply", _same(p.mul_p, bools=p.and_p), doc="The product.")
subtract = binary("subtract", _same(p.sub_p), doc="The difference.")
divide = binary("divide", floats(p.div_p), doc="The quotient, in floats.")
true_divide = alias(divide, "true_divide")
maximum = binary("maximum", _same(p.max_p), doc="The greater one; NaN if one is.")
minimum = binary("minimum", _same(p.min_p), doc="The lesser one; NaN if one is.")
arctan2 = binary("arctan2", floats(p.atan2_p), doc="The angle of the point (y, x) = (first, second) from the axis of x, in (-pi, pi].")
atan2 = alias(arctan2, "atan2")
nextafter = binary("nextafter", floats(p.nextafter_p), doc="The next float after the first in the direction of the second.")

bitwise_and = binary("bitwise_and", _same(p.and_p), doc="The bits that both have; of bools, whether both hold.")
bitwise_or = binary("bitwise_or", _same(p.or_p), doc="The bits that one has; of bools, whether one holds.")
bitwise_xor = binary("bitwise_xor", _same(p.xor_p), doc="The bits that one has and the other has not.")
left_shift = binary("left_shift", _numeric(p.shift_left_p), doc="The bits of the first moved up by the second.")
equal = binary("equal", _same(p.eq_p), doc="Whether they are equal.")
not_equal = binary("not_equal", _same(p.ne_p), doc="Whether they differ.")
bitwise_left_shift = alias(left_shift, "bitwise_left_shift")


def _right_shift_rule(dtype: Any, weak: bool) -> tuple[Any, Any, bool]:
    dtype, weak = to_numeric(dtype, weak)
    return (p.shift_right_logical_p if dtypes.kind(dtype) == "u" else p.shift_right_arithmetic_p), dtype, weak


right_shift = binary("right_shift", _right_shift_rule, doc="The bits of the first moved down by the second; integers keep their sign.")
bitwise_right_shift = alias(right_shift, "bitwise_right_shift")


def _ordering(op: Any) -> Rule:
    """Complex numbers are compared by real part, then by imaginary part."""

    def lexicographic(x: Any, y: Any) -> Array:
        rx, ry = p.real_p(x), p.real_p(y)
        return where(p.eq_p(rx, ry), op(p.imag_p(x), p.imag_p(y)), op(rx, ry))

    def rule(dtype: Any, weak: bool) -> tuple[Any, Any, bool]:
        return (lexicographic if dtypes.kind(dtype) == "c" else op), dtype, weak

    return rule


less = binary("less", _ordering(p.lt_p), doc="Whether the first is less than the second.")
less_equal = binary("less_equal", _ordering(p.le_p), doc="Whether the first is at most the second.")
greater = binary("greater", _ordering(p.gt_p), doc="Whether the first is greater than the second.")
greater_equal = binary("greater_equal", _ordering(p.ge_p), doc="Whether the first is at least the second.")


def _logical(op: Any) -> Rule:
    def on_truth(x: Any, y: Any) -> Array:
        return op(as_bool(x), as_bool(y))

    def rule(dtype: Any, weak: bool) -> tuple[Any, Any, bool]:
        return (op if dtype == dtypes.bool_ else on_truth), dtype, weak

    return rule


def _logical_function(name: str, op: Any, doc: str) -> Any:
    same = binary(name, _logical(op))

    def fun(x: ArrayLike, y: ArrayLike, /) -> Array:
        a, b = operand_of(name, x, 0), operand_of(name, y, 1)
        if a.aval.dtype != b.aval.dtype:  # each by itself: promotion could overflow or be undefined
            a, b = as_bool(a), as_bool(b)
        return settled(same(a, b), x, y)

    fun.__name__ = fun.__qualname__ = name
    fun.__doc__ = doc
    return fun


logical_and = _logical_function("logical_and", p.and_p, "Whether both are true: not zero.")
logical_or = _logical_function("logical_or", p.or_p, "Whether one is true: not zero.")
logical_xor = _logical_function("logical_xor", p.xor_p, "Whether one is true, and the other is not.")


def _floor_divide_integers(x: Any, y: Any) -> Array:
    """The quotient rounded towards zero, less 1 where the signs differ and it is not exact."""
    d = x.aval.dtype
    q = p.div_p(x, y)
    inexact = p.ne_p(p.rem_p(x, y), const(0, d))
    apart = p.ne_p(p.sign_p(x), p.sign_p(y))
    return where(p.and_p(apart, inexact), p.sub_p(q, const(1, d)), q)


def _divmod_floats(x: Any, y: Any) -> tuple[Array, Array]:
    """(floor of x / y, x - y * floor(x / y)), the second exact and of the sign of y."""
    d = x.aval.dtype
    zero = const(0, d)
    rest = p.rem_p(x, y)
    q = p.div_p(p.sub_p(x, where(p.eq_p(y, zero), zero_like(rest), rest)), y)
    wrong = p.and_p(p.ne_p(rest, zero), p.ne_p(p.sign_p(y), p.sign_p(rest)))
    rest = where(wrong, p.add_p(rest, y), rest)
    q = where(wrong, p.sub_p(q, const(1, d)), q)
    return p.round_p(q, rounding_method=lax.RoundingMethod.AWAY_FROM_ZERO), _zeros_signed(rest, y)


def _floor_divide_floats(x: Any, y: Any) -> Array:
    """The floor of x / y, exact. Of zeros and infinities, which are their own doubles, the quotient itself: so the array API standard has
    it, where Python's `//` is NaN or -1 for infinities."""
    zero = const(0, x.aval.dtype)
    own = p.or_p(p.eq_p(p.add_p(x, x), x), p.eq_p(p.add_p(y, y), y))
    return where(own, p.floor_p(p.div_p(x, y)), p.add_p(_divmod_floats(x, y)[0], zero))  # -1 // -3 is 0, not -0


def _zeros_signed(rest: Any, y: Any) -> Array:
    """`rest`, which has the sign of y, also where it is 0. Written so that the derivative of a 0 is that of the other numbers."""
    zero = const(0, y.aval.dtype)
    return where(p.lt_p(y, zero), p.neg_p(p.sub_p(zero, rest)), p.add_p(rest, zero))


def zero_like(x: Any) -> Any:
    return const(0, x.aval.dtype)


def _floor_divide_rule(dtype: Any, weak: bool) -> tuple[Any, Any, bool]:
    dtype, weak = to_numeric(dtype, weak)
    k = dtypes.kind(dtype)
    if k == "c":
        raise TypeError(f"floor_divide: expected real operands, got dtype {dtypes.name(dtype)}")
    if k == "u":
        return p.div_p, dtype, weak
    return (_floor_divide_integers if k == "i" else _floor_divide_floats), dtype, weak


floor_divide = binary("floor_divide", _floor_divide_rule, doc="The quotient, rounded down.")


def _remainder(x: Any, y: Any) -> Array:
    """The remainder of the sign of y. x % 0 is 0 for integers, NaN for floats."""
    d = x.aval.dtype
    zero = const(0, d)
    if kind_of(x) in "iu":
        y = where(p.eq_p(y, zero), const(1, d), y)
    rest = p.rem_p(x, y)
    if kind_of(x) == "u":
        return rest
    wrong = p.and_p(p.ne_p(rest, zero), p.ne_p(p.lt_p(rest, zero), p.lt_p(y, zero)))
    rest = where(wrong, p.add_p(rest, y), rest)
    return _zeros_signed(rest, y) if kind_of(x) == "f" else rest


remainder = binary("remainder", _numeric(_remainder), doc="The remainder of `floor_divide`: it has the sign of the second.")
mod = alias(remainder, "mod")


def _fmod(x: Any, y: Any) -> Array:
    if kind_of(x) not in "iu":
        return p.rem_p(x, y)
    d = x.aval.dtype
    nothing = p.eq_p(y, const(0, d))
    return where(nothing, const(0, d), p.rem_p(x, where(nothing, const(1, d), y)))


def _fmod_rule(dtype: Any, weak: bool) -> tuple[Any, Any, bool]:
    return (p.rem_p if dtype == dtypes.bool_ else _fmod), *to_numeric(dtype, weak)  # of bools, True % False is True


fmod = binary("fmod", _fmod_rule, doc="The remainder of the quotient rounded towards zero: it has the sign of the first.")


def divmod(x1: ArrayLike, x2: ArrayLike, /) -> tuple[Array, Array]:
    """(x1 // x2, x1 % x2)."""
    x, y = promoted("divmod", x1, x2)
    if kind_of(x) == "f":
        shape = broadcast_shapes(x.shape, y.shape, fun="divmod")
        return _divmod_floats(broadcast_to(x, shape), broadcast_to(y, shape))
    return floor_divide(x, y), remainder(x, y)


def _integer_power(x: Any, y: Any) -> Array:
    """By repeated squaring, over the low six bits of y, as in JAX; 0 to any power but 0 is 0."""
    d = x.aval.dtype
    one, zero = const(1, d), const(0, d)
    bit = p.ne_p(p.and_p(y, one), zero)
    start = where(p.and_p(p.eq_p(x, zero), p.ne_p(y, zero)), zero, one)
    out = where(bit, p.mul_p(start, x), start)
    for _ in range(5):
        y = p.shift_right_logical_p(y, one)
        x = p.mul_p(x, x)
        out = where(p.ne_p(p.and_p(y, one), zero), p.mul_p(out, x), out)
    return strong(out)


def _power_rule(dtype: Any, weak: bool) -> tuple[Any, Any, bool]:
    dtype, weak = to_numeric(dtype, weak)
    return (_integer_power if dtypes.kind(dtype) in "iu" else p.pow_p), dtype, weak


_general_power = binary("power", _power_rule)


def power(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 to the power x2. A known integer as exponent means repeated multiplication, in x1's dtype. TypeError for integers to
    negative ones.

    >>> jnp.power(jnp.arange(4), 2)
    Array([0, 1, 4, 9], dtype=int32)
    """
    if isinstance(x2, np.integer | np.ndarray | ArrayImpl) and x2.ndim == 0 and x2.dtype.kind in "iu":
        x2 = int(x2)
    if type(x2) is int:
        x = operand_of("power", x1, 0)
        if kind_of(x) == "b":
            x = convert(x, dtypes.default_int())
        if x2 < 0 and kind_of(x) in "iu":
            raise TypeError(f"power: integers cannot be raised to negative powers, got an operand of type {x.aval} and the exponent {x2}")
        return p.integer_pow_p(x, y=x2)
    if type(x1) not in PYTHON_SCALARS and type(x2) not in PYTHON_SCALARS:
        x, y = operand("power", x1, 0), operand("power", x2, 1)
        if kind_of(x) in "fc" and kind_of(y) in "iu":  # the op takes integer exponents as they are
            shape = broadcast_shapes(x.aval.shape, y.aval.shape, fun="power")
            return p.pow_p(*(broadcast_to(v, shape) if v.aval.shape else v for v in (x, y)))
        return _general_power(x, y)
    return _general_power(x1, x2)


pow = alias(power, "pow")

_float_power = binary("float_power", floats(p.pow_p))


def float_power(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x to the power y, computed in floats."""
    return _float_power(x, y)


def _fmax(x: Any, y: Any) -> Array:
    return where(p.or_p(greater(x, y), isnan(y)), x, y)


def _fmin(x: Any, y: Any) -> Array:
    return where(p.or_p(less(x, y), isnan(y)), x, y)


fmax = binary("fmax", _same(_fmax), doc="The greater one; of a number and NaN the number.")
fmin = binary("fmin", _same(_fmin), doc="The lesser one; of a number and NaN the number.")


def copysign_ops(x: Any, y: Any) -> Array:
    size = p.abs_p(x)
    return where(signbit(y), p.neg_p(size), size)


def _copysign_rule(dtype: Any, weak: bool) -> tuple[Any, Any, bool]:
    dtype, weak = to_inexact(dtype, weak)
    if dtypes.kind(dtype) == "c":
        raise TypeError(f"copysign: expected real operands, got dtype {dtypes.name(dtype)}")
    return (lambda x, y: convert(copysign_ops(x, y), dtype, weak)), dtype, weak  # x alone may be weak


copysign = binary("copysign", _copysign_rule, doc="The first with the sign of the second.")


def _heaviside(x: Any, y: Any) -> Array:
    d = x.aval.dtype
    zero = const(0, d)
    out = where(p.lt_p(x, zero), zero, where(p.gt_p(x, zero), const(1, d), y))
    return where(p.ne_p(x, x), x, out)


_heaviside_of = binary("heaviside", floats(_heaviside))


def heaviside(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """0 below 0, 1 above, x2 at 0."""
    return settled(_heaviside_of(x1, x2), x1, x2)


def _integers(fun: str, x1: Any, x2: Any) -> tuple[Any, Any]:
    x, y = promoted(fun, x1, x2)
    if kind_of(x) not in "iu":
        raise ValueError(f"{fun}: expected integers, got dtype {dtypes.name(x.aval.dtype)}")
    shape = broadcast_shapes(x.aval.shape, y.aval.shape, fun=fun)
    return broadcast_to(x, shape), broadcast_to(y, shape)


def gcd(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The greatest common divisor."""
    return settled(p.gcd_p(*_integers("gcd", x1, x2)), x1, x2)


def lcm(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The least common multiple."""
    return settled(_lcm(*_integers("lcm", x1, x2)), x1, x2)


def _lcm(x: Any, y: Any) -> Array:
    d = x.aval.dtype
    if kind_of(x) == "i":
        x, y = p.abs_p(x), p.abs_p(y)
    divisor = p.gcd_p(x, y)
    zero = const(0, d)
    nothing = p.eq_p(divisor, zero)
    return where(nothing, zero, p.mul_p(x, p.div_p(y, where(nothing, const(1, d), divisor))))


def clip(arr: ArrayLike | None = None, /, min: ArrayLike | None = None, max: ArrayLike | None = None, **old: Any) -> Array:
    """Values below `min` raised to it, then values above `max` lowered to it. ValueError for complex numbers.

    >>> jnp.clip(jnp.arange(5), 1, 3)
    Array([1, 1, 2, 3, 3], dtype=int32)
    """
    if old:
        raise TypeError(f"clip() got an unexpected keyword argument {next(iter(old))!r}")
    if arr is None:
        raise ValueError("clip: the array is missing")
    bounds = [b for b in (min, max) if b is not None]
    check_arraylike("clip", arr, *bounds)
    if any(dtypes.kind(type_of(unwrap(x))[0]) == "c" for x in (arr, *bounds)):
        raise ValueError("clip: Complex values have no ordering and cannot be clipped; clip the real and the imaginary part each by itself")
    x = unary_operand("clip", arr)
    if min is not None:
        x = maximum(min, x)
    if max is not None:
        x = minimum(max, x)
    return as_array("clip", x)


def isclose(a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08, equal_nan: bool = False) -> Array:
    """|a - b| <= atol + rtol |b|; infinities equal themselves only, and NaN itself only with `equal_nan`."""
    x, y = promoted("isclose", a, b)
    if dtypes.is_key(x.aval.dtype):
        return equal(x, y)
    if kind_of(x) not in "fc":
        x, y = promoted_inexact("isclose", x, y)
    # the tolerances are those of b's own size
    magnitude = p.abs_p(y)
    close = less_equal(p.abs_p(subtract(x, y)), add(convert_weak(atol, magnitude), multiply(convert_weak(rtol, magnitude), magnitude)))
    out = logical_or(logical_and(close, isfinite(y)), equal(x, y))
    if equal_nan:
        out = logical_or(out, logical_and(isnan(x), isnan(y)))
    return strong(out)


def convert_weak(x: ArrayLike, like: Any) -> Any:
    """A tolerance in the dtype of what it is compared with."""
    return convert(unwrap(x) if type(x) not in PYTHON_SCALARS else x, like.aval.dtype, like.aval.weak_type)
