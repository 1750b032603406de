"""Elementary and special functions, each an op of one operand (atan2 and pow: two), and polynomials.

The code calls the compiler's vector functions by name (`Builder.call`); those of complex numbers are in `complex_functions`. The
specifications compute in a wider format; the bounds on errors, in units in the last place, are part of the records.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from steno.core import dtypes
from steno.core.aval import ShapedArray
from steno.core.dtypes import finfo
from steno.core.op import OPS, Op
from steno.ir.expr import Builder, Expr, Narrow, Pair
from steno.ir.kinds import Scalar
from steno.ops import complex_functions, oracle
from steno.ops.arithmetic import (
    abs_,
    add,
    clamp,
    div,
    integer_pow,
    mul,
    neg,
    one_minus_square,
    sign,
    square,
    stop_gradient,
    sub,
)
from steno.ops.compare import eq, gt, ne, select_n
from steno.ops.families import (
    COMPLEX,
    FLOAT,
    INT,
    NUMBER,
    binary,
    check_domain,
    check_equal_dtypes,
    common_shape,
    converted,
    edges,
    elementwise_lower,
    finite_complex,
    given,
    nary_samples,
    number,
    ordered,
    pairs,
    unary,
    unary_samples,
)
from steno.ops.oracle import Oracle, complex_mul, complex_of, direct, widen, wider
from steno.ops.samples import filled, small
from steno.transforms.rules import (
    ELEMENTWISE,
    ForOp,
    Linear,
    Zero,
    add as sum_of_tangents,
    broadcast,
    by_argument,
    full,
    unbroadcast,
    zero_of,
)

INEXACT = FLOAT | COMPLEX


def function(name: str) -> Callable[..., Scalar]:
    """Scalar code that calls a function of real or complex arguments; `accuracy` asks for no more than there is."""

    def scalar(b: Builder, *xs: Scalar, accuracy: Any = None) -> Scalar:
        return complex_functions.FUNCTIONS[name](b, *xs) if isinstance(xs[0], Pair) else b.call(name, *xs)

    return scalar


def _specify(fun: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    computed = wider(fun)
    return lambda *xs, accuracy=None: computed(*xs)


def of_operand(jvp: Callable[..., Any]) -> ForOp:
    """A jvp by `jvp(g, out, x)`; `accuracy` makes no difference."""
    return by_argument(lambda g, out, x, accuracy=None: jvp(g, out, x))


def elementary(
    name: str,
    domain: Any,
    fun: Callable[..., np.ndarray],
    ulps: float,
    *,
    jvp: Callable[..., Any],
    floor: float = 0.0,
    sampled: Any = None,
) -> Op:
    """An op of the function `name`, specified by `fun` in a wider format. `jvp(g, out, x)`: its tangent."""
    samples = unary_samples(sampled or domain, clean=finite_complex)
    bounds = {"ulps": ulps, "floor": floor, "complex_ulps": 8.0}
    return unary(name, domain, oracle=_specify(fun), scalar=function(name), samples=samples, show=given, jvp=of_operand(jvp), **bounds)


# parameters of calls in rules are those of calls of the faces, so that equal calls are found to be equal


def _one_plus(x: Any) -> Any:
    return add(number(x, 1), x)


def _root_of(x: Any) -> Any:
    """1 / sqrt(x)"""
    return rsqrt(x, accuracy=None)


LOG_2 = math.log(2.0)

exp = elementary("exp", INEXACT, np.exp, 1, jvp=lambda g, out, x: mul(g, out))
exp2 = elementary("exp2", INEXACT, np.exp2, 1, jvp=lambda g, out, x: mul(g, mul(number(x, LOG_2), out)))
expm1 = elementary("expm1", INEXACT, np.expm1, 1, jvp=lambda g, out, x: mul(g, exp(x, accuracy=None)))
log = elementary("log", INEXACT, np.log, 1, jvp=lambda g, out, x: div(g, x))
log2 = elementary("log2", INEXACT, np.log2, 1, jvp=lambda g, out, x: div(g, mul(number(x, LOG_2), x)))
log1p = elementary("log1p", INEXACT, np.log1p, 1, jvp=lambda g, out, x: div(g, _one_plus(x)))
sin = elementary("sin", INEXACT, np.sin, 1, jvp=lambda g, out, x: mul(g, cos(x, accuracy=None)))
cos = elementary("cos", INEXACT, np.cos, 1, jvp=lambda g, out, x: neg(mul(g, sin(x, accuracy=None))))
tan = elementary("tan", INEXACT, np.tan, 1, jvp=lambda g, out, x: mul(g, _one_plus(square(out))))
asin = elementary("asin", INEXACT, np.arcsin, 1, jvp=lambda g, out, x: mul(g, _root_of(one_minus_square(x))))
acos = elementary("acos", INEXACT, np.arccos, 1, jvp=lambda g, out, x: mul(g, neg(_root_of(one_minus_square(x)))))
atan = elementary("atan", INEXACT, np.arctan, 1, jvp=lambda g, out, x: div(g, _one_plus(square(x))))
sinh = elementary("sinh", INEXACT, np.sinh, 1, jvp=lambda g, out, x: mul(g, cosh(x)))
cosh = elementary("cosh", INEXACT, np.cosh, 1, jvp=lambda g, out, x: mul(g, sinh(x)))
tanh = elementary("tanh", INEXACT, np.tanh, 1, jvp=lambda g, out, x: mul(g, one_minus_square(out)))


def _asinh_tangent(g: Any, out: Any, x: Any) -> Any:
    """1 / sqrt(1 + x**2), both terms divided by a power of m, about |x| where the square would overflow, or else 1. Complex:
    1 / (sqrt(1 + ix) sqrt(1 - ix)), whose branch cuts are those of asinh."""
    if dtypes.is_complex(x.dtype):
        ix = mul(number(x, 1j), x)
        return mul(g, mul(_root_of(_one_plus(ix)), _root_of(sub(number(x, 1), ix))))
    half = finfo(x.dtype).maxexp // 2
    m = clamp(number(x, 1), mul(number(x, 2.0 ** (2 - half)), abs_(x)), number(x, 2.0 ** (2 + half)))
    scale = stop_gradient(integer_pow(m, y=-1))
    return mul(g, mul(scale, _root_of(add(square(mul(x, scale)), square(scale)))))


def _acosh_tangent(g: Any, out: Any, x: Any) -> Any:
    return mul(g, mul(_root_of(sub(x, number(x, 1))), _root_of(_one_plus(x))))


asinh = elementary("asinh", INEXACT, np.arcsinh, 1, jvp=_asinh_tangent)
acosh = elementary("acosh", INEXACT, np.arccosh, 1, jvp=_acosh_tangent)
atanh = elementary("atanh", INEXACT, np.arctanh, 1, jvp=lambda g, out, x: div(g, one_minus_square(x)))


def _logistic_tangent(g: Any, out: Any, x: Any) -> Any:
    return mul(g, mul(out, sub(number(x, 1), out)))


logistic = elementary("logistic", INEXACT, lambda x: 1 / (1 + np.exp(-x)), 1, jvp=_logistic_tangent)
cbrt = elementary("cbrt", FLOAT, np.cbrt, 1, jvp=lambda g, out, x: mul(g, mul(number(x, 1 / 3), integer_pow(out, y=-2))))

# functions of statistics


def _exp_neg_square(b: Builder, x: Expr) -> Expr:
    """exp(-h - l) = exp(-h) - exp(-h) l, where h + l = x**2; beyond 40 it is 0."""
    x = b.min(b.abs(x), 40.0)
    high = b.mul(x, x)
    low = b.fma(x, x, b.neg(high))
    e = b.call("exp", b.neg(high))
    return b.sub(e, b.mul(e, low))


exp_neg_square = unary(
    "exp_neg_square",
    FLOAT,
    oracle=wider(lambda x: np.exp(-x * x)),
    scalar=_exp_neg_square,
    ulps=2,
    jvp=lambda g, out, x: mul(g, mul(mul(number(x, -2), x), out)),
)
"""exp(-x**2), accurate also where rounding the square would spoil it. Of use to the derivatives of erf and erfc."""


def _gauss(x: Any, factor: float) -> Any:
    return mul(number(x, factor), exp_neg_square(x))


TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)

erf = elementary("erf", FLOAT, oracle.erf, 1, jvp=lambda g, out, x: mul(g, _gauss(x, TWO_OVER_ROOT_PI)))
erfc = elementary("erfc", FLOAT, oracle.erfc, 1, jvp=lambda g, out, x: mul(g, _gauss(x, -TWO_OVER_ROOT_PI)))


def _erf_inv_tangent(g: Any, out: Any, x: Any) -> Any:
    return mul(number(x, 1 / TWO_OVER_ROOT_PI), mul(g, exp(square(out), accuracy=None)))


erf_inv = elementary("erf_inv", FLOAT, oracle.erf_inv, 1, jvp=_erf_inv_tangent)
erfc_inv = elementary("erfc_inv", FLOAT, oracle.erfc_inv, 3, jvp=lambda g, out, y: neg(_erf_inv_tangent(g, out, y)))


def _normal_density(x: Any) -> Any:
    return mul(number(x, 1 / math.sqrt(2 * math.pi)), exp_neg_square(mul(number(x, math.sqrt(0.5)), x)))


def _log_ndtr_tangent(g: Any, out: Any, x: Any) -> Any:
    """exp(log(density) - out)"""
    log_density = sub(mul(number(x, -0.5), square(x)), number(x, 0.5 * math.log(2 * math.pi)))
    return mul(g, exp(sub(log_density, out), accuracy=None))


ndtr = elementary("ndtr", FLOAT, oracle.ndtr, 4, jvp=lambda g, out, x: mul(g, _normal_density(x)))
ndtri = elementary(
    "ndtri",
    FLOAT,
    oracle.ndtri,
    4,
    jvp=lambda g, out, p: mul(number(p, math.sqrt(2 * math.pi)), mul(g, exp(mul(number(p, 0.5), square(out)), accuracy=None))),
)
log_ndtr = elementary("log_ndtr", FLOAT, oracle.log_ndtr, 4, jvp=_log_ndtr_tangent)
# float8_e8m0fnu has no zero, so an error near a zero of the function is not one near a number of the format
_CROSSING = FLOAT - {dtypes.float8_e8m0fnu}
lgamma = elementary("lgamma", FLOAT, oracle.lgamma, 4, floor=1.0, sampled=_CROSSING, jvp=lambda g, out, x: mul(g, digamma(x)))
digamma = elementary(
    "digamma", FLOAT, oracle.digamma, 8, floor=1.0, sampled=_CROSSING, jvp=lambda g, out, x: mul(g, OPS["polygamma"](number(x, 1), x))
)


def _bessel_i0e_tangent(g: Any, out: Any, x: Any) -> Any:
    return mul(g, sub(bessel_i1e(x), mul(sign(x), out)))


def _bessel_i1e_tangent(g: Any, out: Any, x: Any) -> Any:
    """i0e(x) - i1e(x) (sign(x) + 1/x); 1/2 near 0."""
    eps = number(x, finfo(x.dtype).eps)
    far = gt(abs_(x), eps)
    safe = select_n(far, broadcast(eps, x.shape), x)
    factor = sub(bessel_i0e(safe), mul(out, add(sign(safe), integer_pow(safe, y=-1))))
    return mul(g, select_n(far, full(x.shape, 0.5, x.dtype), factor))


bessel_i0e = elementary("bessel_i0e", FLOAT, oracle.bessel_i0e, 4, jvp=_bessel_i0e_tangent)
bessel_i1e = elementary("bessel_i1e", FLOAT, oracle.bessel_i1e, 4, jvp=_bessel_i1e_tangent)


def _bessel_i1_tangent(g: Any, out: Any, x: Any) -> Any:
    """I0(x) - I1(x) / x; 1/2 at 0."""
    zero = eq(x, number(x, 0))
    safe = select_n(zero, x, full(x.shape, 1, x.dtype))
    return mul(g, select_n(zero, sub(bessel_i0(safe), div(bessel_i1(safe), safe)), full(x.shape, 0.5, x.dtype)))


bessel_i0 = elementary("bessel_i0", FLOAT, oracle.bessel_i0, 5, jvp=lambda g, out, x: mul(g, bessel_i1(x)))
bessel_i1 = elementary("bessel_i1", FLOAT, oracle.bessel_i1, 5, jvp=_bessel_i1_tangent)

# roots


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
sqrt = unary(
    "sqrt",
    INEXACT,
    oracle=_sqrt_oracle,
    scalar=_sqrt,
    complex_ulps=4,
    samples=_ROOT_SAMPLES,
    show=given,
    jvp=of_operand(lambda g, out, x: mul(g, div(number(x, 0.5), out))),
)
rsqrt = unary(
    "rsqrt",
    INEXACT,
    oracle=_rsqrt_oracle,
    scalar=_rsqrt,
    complex_ulps=4,
    samples=_ROOT_SAMPLES,
    show=given,
    jvp=of_operand(lambda g, out, x: mul(g, mul(number(x, -0.5), div(out, x)))),
)
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


def _sum_of_squares(x: Any, y: Any) -> Any:
    return add(square(x), square(y))


atan2 = binary(
    "atan2",
    INEXACT,
    oracle=wider(_atan2_oracle),
    scalar=function("atan2"),
    ulps=1,
    complex_ulps=64,
    floor=1.0,
    samples=_atan2_samples,
    jvp=(
        lambda g, out, y, x: mul(g, div(x, _sum_of_squares(y, x))),
        lambda g, out, y, x: mul(g, div(neg(y), _sum_of_squares(y, x))),
    ),
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


def _tangent_of_base(g: Any, out: Any, x: Any, y: Any) -> Any:
    """y x**(y - 1). An integer y = 0 gives 0, whatever x is."""
    if y.dtype not in INT:
        return mul(g, mul(y, pow_(x, sub(y, number(y, 1)))))
    if dtypes.itemsize_bits(y.dtype) < 32:  # y - 1 must not wrap around
        y = converted(y, dtypes.int32)
    below = sub(y, converted(ne(y, number(y, 0)), y.dtype))
    return mul(g, mul(converted(y, x.dtype), pow_(x, below)))


def _tangent_of_exponent(g: Any, out: Any, x: Any, y: Any) -> Any:
    """x**y log x; 0 at x = 0 where x**y is."""
    zero = eq(x, number(x, 0))
    return mul(g, mul(log(select_n(zero, x, full(x.shape, 1, x.dtype)), accuracy=None), out))


pow_ = Op(
    "pow",
    typ=_pow_typ,
    oracle=Oracle(_pow_oracle, ulps=1, complex_ulps=256),
    lower=elementwise_lower(_pow, exact=False),
    samples=_pow_samples,
    jvp=by_argument(_tangent_of_base, _tangent_of_exponent),
    batch=ELEMENTWISE,
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


def _polynomial_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    """g p'(x), and the polynomial of the coefficients' tangents."""
    out = polynomial(*primals, **params)
    x, *coefficients = primals
    g, *parts = tangents
    total: Any = zero_of(out)
    if type(g) is not Zero and len(coefficients) > 1:
        slopes = [c if k == 1 else mul(number(x, k), c) for k, c in enumerate(coefficients) if k]
        slope = polynomial(x, *slopes, **params) if len(slopes) > 1 else slopes[0]
        total = mul(g, slope)
    while parts and type(parts[-1]) is Zero:
        parts.pop()
    if parts:
        given = [number(x, 0) if type(t) is Zero else t for t in parts]
        total = sum_of_tangents(total, polynomial(x, *given, **params) if len(given) > 1 else given[0])
    return out, total if type(total) is Zero else broadcast(total, out.shape)


def _polynomial_transpose(ct: Any, x: Any, *coefficients: Any, **_: Any) -> list[Any]:
    """Linear in coefficients: ct x**k for the k-th."""
    out: list[Any] = [None, *(None for _ in coefficients)]
    for k, c in enumerate(coefficients):
        if type(c) is Linear:
            out[1 + k] = unbroadcast(ct, c.aval)
        if any(type(later) is Linear for later in coefficients[k + 1 :]):
            ct = mul(ct, x)
    return out


polynomial = Op(
    "polynomial",
    typ=_polynomial_typ,
    oracle=Oracle(direct(_polynomial_oracle)),
    lower=elementwise_lower(_polynomial, exact=False),
    samples=_polynomial_samples,
    show=given,
    jvp=_polynomial_jvp,
    transpose=_polynomial_transpose,
    batch=ELEMENTWISE,
)
"""c0 + c1 x + c2 x**2 + ... by Horner's rule."""
