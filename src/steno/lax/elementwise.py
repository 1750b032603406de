"""Elementwise functions of lax: strict about dtypes and ranks, as JAX's are. Operands of rank 0, Python numbers included, go with any
shape."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

import numpy as np

from steno.core import dtypes
from steno.core.aval import TypedScalar, typed_scalar
from steno.core.pytree import tree_map
from steno.lax import records as p
from steno.lax.operands import Array, ArrayLike, DTypeLike, as_array, as_operand, check_dtype, convert, elementwise


class RoundingMethod(enum.IntEnum):
    """What `round` does with halves."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


class AccuracyMode(enum.Enum):
    """Accuracy wishes for elementary functions. steno has one implementation of each, at least as accurate as any of these."""

    HIGHEST = 1
    DEFAULT = 2


class Tolerance(NamedTuple):
    """An accuracy wish: absolute and relative error and units in the last place."""

    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0


def _check_accuracy(fun: str, accuracy: Any) -> None:
    """ValueError for what is neither None, nor an AccuracyMode, nor a Tolerance."""
    if accuracy is not None and not isinstance(accuracy, AccuracyMode | Tolerance):
        raise ValueError(f"{fun}: accuracy must be None, an AccuracyMode or a Tolerance, got {accuracy!r}")


# functions of one operand


def _unary(op: Any, doc: str) -> Any:
    def fun(x: ArrayLike) -> Array:
        return op(as_operand(op.name, x))

    fun.__name__ = fun.__qualname__ = op.name
    fun.__doc__ = doc
    return fun


def _elementary(op: Any, doc: str) -> Any:
    """With the argument `accuracy`, which is checked and makes no difference."""

    def fun(x: ArrayLike, *, accuracy: Tolerance | AccuracyMode | None = None) -> Array:
        if accuracy is not None:
            _check_accuracy(op.name, accuracy)
        return op(as_operand(op.name, x), accuracy=None)

    fun.__name__ = fun.__qualname__ = op.name
    fun.__doc__ = doc
    return fun


neg = _unary(p.neg_p, "-x, of numbers.")
sign = _unary(p.sign_p, "-1, 0 or 1; for complex numbers x / |x|.")
floor = _unary(p.floor_p, "The greatest integer not above x, of floats.")
ceil = _unary(p.ceil_p, "The least integer not below x, of floats.")
is_finite = _unary(p.is_finite_p, "Whether x is neither infinite nor NaN, of floats.")
abs = _unary(p.abs_p, "|x|, of signed integers, floats and complex numbers.")
square = _unary(p.square_p, "x * x, of numbers.")
one_minus_square = _unary(p.one_minus_square_p, "1 - x * x, of numbers.")
real = _unary(p.real_p, "The real part, of complex numbers.")
imag = _unary(p.imag_p, "The imaginary part, of complex numbers.")
population_count = _unary(p.population_count_p, "How many bits are set, of integers.")
clz = _unary(p.clz_p, "How many leading bits are 0, of integers.")
bitwise_not = _unary(p.not_p, "All bits inverted, of integers; logical negation of bools.")

exp = _elementary(p.exp_p, "e to the power x.")
exp2 = _elementary(p.exp2_p, "2 to the power x.")
expm1 = _elementary(p.expm1_p, "exp(x) - 1, exact for small x.")
log = _elementary(p.log_p, "The natural logarithm.")
log1p = _elementary(p.log1p_p, "log(1 + x), exact for small x.")
log2 = _elementary(p.log2_p, "The logarithm to base 2.")
tanh = _elementary(p.tanh_p, "The hyperbolic tangent.")
logistic = _elementary(p.logistic_p, "1 / (1 + exp(-x)).")
sin = _elementary(p.sin_p, "The sine.")
cos = _elementary(p.cos_p, "The cosine.")
tan = _elementary(p.tan_p, "The tangent.")
sqrt = _elementary(p.sqrt_p, "The square root.")
rsqrt = _elementary(p.rsqrt_p, "1 / sqrt(x).")
cbrt = _elementary(p.cbrt_p, "The real cube root.")

erf = _elementary(p.erf_p, "The error function.")
erfc = _elementary(p.erfc_p, "1 - erf(x).")
erf_inv = _elementary(p.erf_inv_p, "The inverse of the error function.")

asin = _unary(p.asin_p, "The inverse sine.")
acos = _unary(p.acos_p, "The inverse cosine.")
atan = _unary(p.atan_p, "The inverse tangent.")
sinh = _unary(p.sinh_p, "The hyperbolic sine.")
cosh = _unary(p.cosh_p, "The hyperbolic cosine.")
asinh = _unary(p.asinh_p, "The inverse hyperbolic sine.")
acosh = _unary(p.acosh_p, "The inverse hyperbolic cosine.")
atanh = _unary(p.atanh_p, "The inverse hyperbolic tangent.")
lgamma = _unary(p.lgamma_p, "The logarithm of |gamma(x)|.")
digamma = _unary(p.digamma_p, "The derivative of lgamma.")
bessel_i0e = _unary(p.bessel_i0e_p, "exp(-|x|) times the modified Bessel function of order 0.")
bessel_i1e = _unary(p.bessel_i1e_p, "exp(-|x|) times the modified Bessel function of order 1.")


def round(x: ArrayLike, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """The nearest integer, of floats; halves as the method says."""
    return p.round_p(as_operand("round", x), rounding_method=RoundingMethod(rounding_method))


def conj(x: ArrayLike) -> Array:
    """The complex conjugate; of a real x, the complex number x + 0i."""
    x = as_operand("conj", x)
    return p.conj_p(x, input_dtype=x.aval.dtype)


def integer_pow(x: ArrayLike, y: int) -> Array:
    """x to a power that is a Python int, by repeated squaring. TypeError for integers to negative powers."""
    return p.integer_pow_p(as_operand("integer_pow", x), y=y)


def reciprocal(x: ArrayLike) -> Array:
    """1 / x, of floats and complex numbers."""
    return integer_pow(x, -1)


def reduce_precision(operand: ArrayLike, exponent_bits: int, mantissa_bits: int) -> Array:
    """Floats rounded to what a format of so many exponent and mantissa bits can hold."""
    return p.reduce_precision_p(as_operand("reduce_precision", operand), exponent_bits=int(exponent_bits), mantissa_bits=int(mantissa_bits))


# functions of two operands


def _binary(op: Any, doc: str) -> Any:
    def fun(x: ArrayLike, y: ArrayLike) -> Array:
        return elementwise(op, x, y)

    fun.__name__ = fun.__qualname__ = op.name
    fun.__doc__ = doc
    return fun


add = _binary(p.add_p, "x + y, of numbers of one dtype.")
sub = _binary(p.sub_p, "x - y, of numbers of one dtype.")
div = _binary(p.div_p, "x / y, of numbers of one dtype; of integers, rounded towards zero.")
rem = _binary(p.rem_p, "The remainder of x / y rounded towards zero: it has the sign of x.")
max = _binary(p.max_p, "The greater of x and y; NaN if either is NaN.")
min = _binary(p.min_p, "The smaller of x and y; NaN if either is NaN.")
atan2 = _binary(p.atan2_p, "The angle of the point (y, x): of floats and complex numbers.")
nextafter = _binary(p.nextafter_p, "The neighbour of x in the direction of y.")
complex = _binary(p.complex_p, "x + iy, of float32 or float64.")
eq = _binary(p.eq_p, "x == y, of one dtype.")
ne = _binary(p.ne_p, "x != y, of one dtype.")
lt = _binary(p.lt_p, "x < y, of one real dtype.")
le = _binary(p.le_p, "x <= y, of one real dtype.")
gt = _binary(p.gt_p, "x > y, of one real dtype.")
ge = _binary(p.ge_p, "x >= y, of one real dtype.")
bitwise_and = _binary(p.and_p, "The bits set in both, of integers or bools of one dtype.")
bitwise_or = _binary(p.or_p, "The bits set in either, of integers or bools of one dtype.")
bitwise_xor = _binary(p.xor_p, "The bits set in one of the two, of integers or bools of one dtype.")
shift_left = _binary(p.shift_left_p, "x's bits moved up by y places.")
shift_right_logical = _binary(p.shift_right_logical_p, "x's bits moved down by y places, zeros coming in.")
shift_right_arithmetic = _binary(p.shift_right_arithmetic_p, "x's bits moved down by y places, copies of the sign coming in.")
zeta = _binary(p.zeta_p, "The sum of (q + k)**-x over k >= 0, of floats: the Hurwitz zeta function.")
polygamma = _binary(p.polygamma_p, "The m-th derivative of digamma, of floats.")
mulhi = _binary(p.mulhi_p, "The upper half of the full product, of integers of one dtype.")


def mul(x: ArrayLike, y: ArrayLike, *, out_dtype: DTypeLike | None = None) -> Array:
    """x * y, of numbers of one dtype; in `out_dtype` if it is given."""
    if out_dtype is None:
        return elementwise(p.mul_p, x, y)
    d = check_dtype(out_dtype, "mul")
    return elementwise(p.mul_p, convert(as_operand("mul", x, 0), d), convert(as_operand("mul", y, 1), d))


def pow(x: ArrayLike, y: ArrayLike) -> Array:
    """x to the power y. x is a float or complex; y has its dtype, or is an integer."""
    x = as_operand("pow", x, 0)
    if type(y) is int and dtypes.is_inexact(x.aval.dtype):
        return p.integer_pow_p(x, y=y)
    return elementwise(p.pow_p, x, as_operand("pow", y, 1))


def polynomial(x: ArrayLike, coeffs: Any, *, unroll: int | None = None) -> Array:
    """coeffs[0] + coeffs[1] x + ..., by Horner's rule, from the highest power down. `unroll` makes no difference."""
    return p.polynomial_p(as_operand("polynomial", x), *(as_operand("polynomial", c, k + 1) for k, c in enumerate(coeffs)))


def clamp(min: ArrayLike, x: ArrayLike, max: ArrayLike) -> Array:
    """`max(min(x, max), min)`, NaNs staying; the bounds are scalars or have x's shape, and x's dtype."""
    return p.clamp_p(as_operand("clamp", min, 0), as_operand("clamp", x, 1), as_operand("clamp", max, 2))


def select_n(which: ArrayLike, *cases: ArrayLike) -> Array:
    """`cases[which]`, element by element. `which`: bool (False is the first case) or int32, a scalar or of the cases' shape."""
    if not cases:
        raise ValueError("select_n: there are no cases")
    return p.select_n_p(as_operand("select_n", which), *(as_operand("select_n", c, k + 1) for k, c in enumerate(cases)))


def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    """`on_true` where pred, else `on_false`: both of one shape and dtype; pred a scalar or of their shape."""
    return select_n(pred, on_false, on_true)


# conversion


def convert_element_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """The operand in another dtype; complex to real keeps the real part. A Python type gives its default dtype."""
    d = check_dtype(new_dtype, "convert_element_type")
    if type(operand) is int and not isinstance(d, dtypes.KeyDType):  # of any size
        return as_array("convert_element_type", typed_scalar(_python_number(operand, d), d))
    x = as_operand("convert_element_type", operand)
    if isinstance(d, dtypes.KeyDType) != isinstance(x.aval.dtype, dtypes.KeyDType):
        raise ValueError(f"Cannot convert_element_type from {dtypes.name(x.aval.dtype)} to {dtypes.name(d)}: one of them is of PRNG keys")
    return as_array("convert_element_type", convert(x, d))


def _python_number(n: int, dtype: Any) -> int | float | bool:
    """An integer as a number of the dtype's kind; it wraps around into the range of integers."""
    if not dtypes.is_integer(dtype):
        return bool(n) if dtype == dtypes.bool_ else float(n)
    half = 1 << dtypes.itemsize_bits(dtype) - 1
    return (n + half) % (2 * half) - half


def bitcast_convert_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """The bits of the operand read as another dtype. A narrower dtype adds an axis at the end, a wider one takes it away."""
    d = check_dtype(new_dtype, "bitcast_convert_type")
    x = as_array("bitcast_convert_type", operand)
    if x.aval.dtype == d:
        return convert(x, d)
    return p.bitcast_convert_type_p(x, new_dtype=d)


def stop_gradient(x: Any) -> Any:
    """x (a tree), taken for a constant by derivatives.

    >>> steno.grad(lambda x: x * lax.stop_gradient(x))(3.0)
    Array(3., dtype=float32, weak_type=True)
    """

    def stop(leaf: Any) -> Any:
        leaf = as_array("stop_gradient", leaf) if type(leaf) is not TypedScalar else leaf
        return p.stop_gradient_p(leaf) if dtypes.is_inexact(leaf.aval.dtype) else leaf

    return tree_map(stop, x)


def dtype(x: Any) -> np.dtype:
    """The dtype of a value, canonicalised."""
    if isinstance(x, np.dtype | dtypes.KeyDType | type | str):
        d = dtypes.canonicalize_dtype(x, allow_extended_dtype=True)
        if not dtypes.is_valid(d):
            raise TypeError(f"lax.dtype: there are no arrays of dtype {x!r}")
        return d
    return as_operand("dtype", x).aval.dtype
