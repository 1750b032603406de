"""Elementary and special functions, each an op of one operand (atan2 and pow: two), and polynomials.

The code calls the compiler's vector functions by name (`Builder.call`); those of complex numbers are in `complex_functions`. The
specifications compute in a wider format; the bounds on errors, in units in the last place, are part of the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from steno.core import dtypes
from steno.core.aval import ShapedArray
from steno.core.op import Op
from steno.ir.expr import Builder, Narrow, Pair
from steno.ir.kinds import Scalar
from steno.ops import complex_functions, oracle
from steno.ops.families import (
    COMPLEX,
    FLOAT,
    INT,
    NUMBER,
    binary,
    check_domain,
    check_equal_dtypes,
    common_shape,
    edges,
    elementwise_lower,
    finite_complex,
    given,
    nary_samples,
    ordered,
    pairs,
    unary,
    unary_samples,
)
from steno.ops.oracle import Oracle, complex_mul, complex_of, direct, widen, wider
from steno.ops.samples import filled, small

INEXACT = FLOAT | COMPLEX


def function(name: str) -> Callable[..., Scalar]:
    """Scalar code that calls a function of real or complex arguments; `accuracy` asks for no more than there is."""

    def scalar(b: Builder, *xs: Scalar, accuracy: Any = None) -> Scalar:
        return complex_functions.FUNCTIONS[name](b, *xs) if isinstance(xs[0], Pair) else b.call(name, *xs)

    return scalar


def _specify(fun: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    computed = wider(fun)
    return lambda *xs, accuracy=None: computed(*xs)


def elementary(
    name: str, domain: Any, fun: Callable[..., np.ndarray], ulps: float, floor: float = 0.0, sampled: Any = None, **fields: Any
) -> Op:
    """An op of the function `name`, specified by `fun` in a wider format."""
    samples = unary_samples(sampled or domain, clean=finite_complex)
    bounds = {"ulps": ulps, "floor": floor, "complex_ulps": 8.0}
    return unary(name, domain, oracle=_specify(fun), scalar=function(name), samples=samples, show=given, **bounds, **fields)


exp = elementary("exp", INEXACT, np.exp, 1)
exp2 = elementary("exp2", INEXACT, np.exp2, 1)
expm1 = elementary("expm1", INEXACT, np.expm1, 1)
log = elementary("log", INEXACT, np.log, 1)
log2 = elementary("log2", INEXACT, np.log2, 1)
log1p = elementary("log1p", INEXACT, np.log1p, 1)
sin = elementary("sin", INEXACT, np.sin, 1)
cos = elementary("cos", INEXACT, np.cos, 1)
tan = elementary("tan", INEXACT, np.tan, 1)
asin = elementary("asin", INEXACT, np.arcsin, 1)
acos = elementary("acos", INEXACT, np.arccos, 1)
atan = elementary("atan", INEXACT, np.arctan, 1)
sinh = elementary("sinh", INEXACT, np.sinh, 1)
cosh = elementary("cosh", INEXACT, np.cosh, 1)
tanh = elementary("tanh", INEXACT, np.tanh, 1)
asinh = elementary("asinh", INEXACT, np.arcsinh, 1)
acosh = elementary("acosh", INEXACT, np.arccosh, 1)
atanh = elementary("atanh", INEXACT, np.arctanh, 1)
logistic = elementary("logistic", INEXACT, lambda x: 1 / (1 + np.exp(-x)), 1)
cbrt = elementary("cbrt", FLOAT, np.cbrt, 1)
erf = elementary("erf", FLOAT, oracle.erf, 1)
erfc = elementary("erfc", FLOAT, oracle.erfc, 1)
erf_inv = elementary("erf_inv", FLOAT, oracle.erf_inv, 1)
# float8_e8m0fnu has no zero, so an error near a zero of the function is not one near a number of the format
_CROSSING = FLOAT - {dtypes.float8_e8m0fnu}
lgamma = elementary("lgamma", FLOAT, oracle.lgamma, 4, floor=1.0, sampled=_CROSSING)
digamma = elementary("digamma", FLOAT, oracle.digamma, 8, floor=1.0, sampled=_CROSSING)
bessel_i0e = elementary("bessel_i0e", FLOAT, oracle.bessel_i0e, 4)
bessel_i1e = elementary("bessel_i1e", FLOAT, oracle.bessel_i1e, 4)


def _sqrt(b: Builder, x: Scalar, *, accuracy: Any = None) -> Scalar:
    return b.sqrt(x)


def _rsqrt(b: Builder, x: Scalar, *, accuracy: Any = None) -> Scalar:
    return complex_functions.complex_rsqrt(b, x) if isinstance(x, Pair) else b.div(b.const(1, x.dtype), b.sqrt(x))


def _sqrt_oracle(x: np.ndarray, *, accuracy: Any = None) -> np.ndarray:
    return (wider if x.dtype.kind == "c" else direct)(np.sqrt)(x)


def _complex_rsqrt(x: np.ndarray) -> np.ndarray:
    return 1 / np.sqrt(x)


def _rsqrt_oracle(x: np.ndarray, *, accuracy: Any = None) -> np.ndarray:
    return wider(_complex_rsqrt)(x) if x.dtype.kind == "c" else direct(lambda v: 1 / np.sqrt(v))(x)


_ROOT_SAMPLES = unary_samples(INEXACT, clean=finite_complex)
sqrt = unary("sqrt", INEXACT, oracle=_sqrt_oracle, scalar=_sqrt, complex_ulps=4, samples=_ROOT_SAMPLES, show=given)
rsqrt = unary("rsqrt", INEXACT, oracle=_rsqrt_oracle, scalar=_rsqrt, complex_ulps=4, samples=_ROOT_SAMPLES, show=given)
"""1 / sqrt(x), two roundings."""

# two operands


def _atan2_oracle(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    if y.dtype.kind != "c":
        return np.arctan2(y, x)
    # -i log((x + iy) / sqrt(x**2 + y**2))
    r = np.log((x + 1j * y) / np.sqrt(x * x + y * y))
    return complex_of(r.imag, -r.real)


def _atan2_samples() -> Iterable[Any]:
    yield from nary_samples((FLOAT, FLOAT))()
    for d in ordered(COMPLEX):
        yield (small((5, 7), d), np.full((5, 7), 0.75 - 0.5j, d)), {}


atan2 = binary(
    "atan2", INEXACT, oracle=wider(_atan2_oracle), scalar=function("atan2"), ulps=1, complex_ulps=64, floor=1.0, samples=_atan2_samples
)


def _pow_typ(x: ShapedArray, y: ShapedArray) -> ShapedArray:
    check_domain("pow", x, INEXACT, 0)
    check_domain("pow", y, NUMBER, 1)
    if y.dtype not in INT and x.dtype != y.dtype:
        raise TypeError(
            f"pow: the exponent must have an integer dtype or that of the base, got {dtypes.name(x.dtype)} and {dtypes.name(y.dtype)}"
        )
    return ShapedArray(common_shape("pow", (x, y)), x.dtype, x.weak_type and y.weak_type)


def _pow_oracle(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "c":
        return wider(_complex_pow)(x, y.astype(x.dtype))
    if y.dtype not in INT:
        return wider(np.power)(x, y)
    odd = widen(y) % 2 != 0
    size = wider(np.power)(np.abs(widen(x)).astype(x.dtype), y)
    return np.where(odd & np.signbit(widen(x)), np.negative(size), size).astype(x.dtype)


def _complex_pow(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """exp(y log x); x**0 is 1, and 0**y is 0 for Re y > 0, else NaN."""
    out = np.exp(complex_mul(y, np.log(x)))
    of_zero = np.where(y.real > 0, 0, complex(np.nan, np.nan))
    return np.where(y == 0, 1, np.where(x == 0, of_zero, out))


def _pow(b: Builder, x: Scalar, y: Scalar) -> Scalar:
    if isinstance(x, Pair):
        return complex_functions.complex_pow(b, x, b.convert(y, x.dtype))
    if y.dtype not in INT:
        return b.call("pow", x, y)
    # the parity of an integer exponent is lost in a float
    exponent = y.value if isinstance(y, Narrow) else y
    odd = b.ne(b.and_(exponent, 1), 0)
    compute = dtypes.float64 if dtypes.itemsize_bits(exponent.dtype) > 24 else x.dtype
    size = b.convert(b.call("pow", b.convert(b.abs(x), compute), b.convert(exponent, compute)), x.dtype)
    return b.select(b.and_(odd, b.sign_bit(x)), b.neg(size), size)


def _pow_samples() -> Iterable[Any]:
    for d in ordered(INEXACT):
        yield pairs(finite_complex(edges(d)), finite_complex(edges(d))), {}
        yield (np.abs(finite_complex(filled((5, 7), d))).astype(d), finite_complex(filled((5, 7), d, 1))), {}
    for d in ordered(INT):
        yield pairs(edges("float32"), edges(d)), {}
    for base in ordered(INEXACT):
        yield pairs(finite_complex(edges(base)), np.arange(-9, 10, dtype=np.int32) if base in COMPLEX else edges("int32")), {}
    yield pairs(edges("float64"), edges("int64")), {}
    yield (filled((2, 3), "float32"), np.array(3, np.int32)), {}
    yield (filled((0, 3), "float32"), filled((0, 3), "float32")), {}
    yield (filled((), "float32"), filled((), "float32", 1)), {}


pow_ = Op(
    "pow",
    typ=_pow_typ,
    oracle=Oracle(_pow_oracle, ulps=1, complex_ulps=256),
    lower=elementwise_lower(_pow, exact=False),
    samples=_pow_samples,
)
"""x**y; y may be an integer. Complex: exp(y log x), whose error grows with |y log x|."""

# polynomials


def _polynomial_typ(x: ShapedArray, *coefficients: ShapedArray, unroll: int | None = None) -> ShapedArray:
    avals = (x, *coefficients)
    for k, a in enumerate(avals):
        check_domain("polynomial", a, NUMBER, k)
    check_equal_dtypes("polynomial", avals)
    return ShapedArray(common_shape("polynomial", avals), x.dtype, all(a.weak_type for a in avals))


def _polynomial_oracle(x: np.ndarray, *coefficients: np.ndarray, unroll: int | None = None) -> np.ndarray:
    shape = np.broadcast_shapes(x.shape, *(c.shape for c in coefficients))
    acc = np.zeros(shape, x.dtype)
    for k, c in enumerate(reversed(coefficients)):
        acc = np.broadcast_to(c, shape) if k == 0 else (complex_mul(acc, x) if x.dtype.kind == "c" else acc * x) + c
    return acc


def _polynomial(b: Builder, x: Scalar, *coefficients: Scalar, unroll: int | None = None) -> Scalar:
    acc = None
    for c in reversed(coefficients):
        acc = c if acc is None else b.add(b.mul(acc, x), c)
    return b.const(0, x.dtype) if acc is None else acc


def _polynomial_samples() -> Iterable[Any]:
    for d in ordered(NUMBER):
        yield (filled((5, 7), d), filled((), d, 1), filled((), d, 2), filled((5, 7), d, 3)), {}
    yield (filled((3,), "float32"),), {}
    yield (filled((), "float32"), filled((4,), "float32", 1)), {"unroll": 2}
    yield (filled((2, 0), "float32"), filled((), "float32", 1), filled((1, 1), "float32")), {}


polynomial = Op(
    "polynomial",
    typ=_polynomial_typ,
    oracle=Oracle(direct(_polynomial_oracle)),
    lower=elementwise_lower(_polynomial, exact=False),
    samples=_polynomial_samples,
    show=given,
)
"""c0 + c1 x + c2 x**2 + ... by Horner's rule."""
