"""Specifications in NumPy: how exactly results have to agree with them, dtypes without machine arithmetic, the canonical order of
reductions, and the special functions that NumPy lacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, final

import ml_dtypes
import numpy as np

from steno.core import dtypes
from steno.core.record import record
from steno.ir.loops import BLOCK, LANES, halving
from steno.ir.narrow import FORMATS, FloatFormat
from steno.ir.primitives import apply

Array = np.ndarray


@final
@record(frozen=True)
class Oracle:
    """An op's specification. A result may differ from `fun`'s by `ulps` units in the last place of the result's dtype, taken at
    max(|result|, `floor`); with complex operands by `complex_ulps`, taken at the modulus. With 0 results are equal bit for bit, but for
    NaNs' signs and payloads."""

    fun: Callable[..., Any]
    ulps: float = 0.0
    floor: float = 0.0
    complex_ulps: float = 0.0

    def bound(self, operands: Sequence[Any]) -> float:
        """The units for operands of these dtypes."""
        return self.complex_ulps if any(map(dtypes.is_complex, operands)) else self.ulps

    def __call__(self, *args: Array, **params: Any) -> Any:
        with np.errstate(all="ignore"):
            return self.fun(*args, **params)


# dtypes


def widen(x: Array) -> Array:
    """Narrow floats as float32, narrow integers as int8 or uint8: exact."""
    f = FORMATS.get(x.dtype)
    return x if f is None else x.astype(f.value)


def as_dtype(x: Array, dtype: Any) -> Array:
    """The value of a computation in `widen`ed operands as `dtype`: rounded, or taken modulo the width. float4 has no NaN, but -0."""
    x = np.asarray(x)
    if dtype == dtypes.float4_e2m1fn:
        x = np.where(np.isnan(x), np.float32(np.nan), x)
    return x.astype(dtype)


def direct(fun: Callable[..., Array]) -> Callable[..., Array]:
    """`fun` computes in the dtype itself, in float32 for narrow floats, and in 8 bits for narrow integers."""

    def run(*xs: Array, **params: Any) -> Array:
        return as_dtype(fun(*map(widen, xs), **params), xs[0].dtype)

    return run


_WIDER = {
    np.dtype(np.float32): np.dtype(np.float64),
    np.dtype(np.float64): np.dtype(np.longdouble),
    np.dtype(np.complex64): np.dtype(np.complex128),
    np.dtype(np.complex128): np.dtype(np.clongdouble),
}


def wider(fun: Callable[..., Array]) -> Callable[..., Array]:
    """`fun` computes in float64 for float32 and the narrow floats, in long double for float64: the result is rounded almost correctly.
    Integer operands become floats."""

    def run(*xs: Array, **params: Any) -> Array:
        d = xs[0].dtype
        computed = _WIDER[widen(xs[0]).dtype]
        y = fun(*(widen(x).astype(computed) for x in xs), **params)
        return as_dtype(y.astype(widen(xs[0]).dtype), d)

    return run


def primitive(name: str) -> Callable[..., Array]:
    """A primitive op of scalar expressions, as `ir/primitives.py` has it, elementwise."""

    def run(*xs: Array) -> Array:
        xs = tuple(np.broadcast_arrays(*map(np.asarray, xs)))
        return apply(name, xs[0].dtype, xs)

    return run


def complex_of(re: Array, im: Array) -> Array:
    """re + im*i with each part kept as it is (1j * inf would make NaNs)."""
    re, im = np.broadcast_arrays(re, im)
    out = np.empty(re.shape, np.result_type(re.dtype, np.complex64))
    out.real, out.imag = re, im
    return out


def complex_mul(x: Array, y: Array) -> Array:
    """(a + bi)(c + di) = (ac - bd) + (ad + bc)i, each product and sum rounded (NumPy's own may use fused operations)."""
    return complex_of(x.real * y.real - x.imag * y.imag, x.real * y.imag + x.imag * y.real)


def lexicographic_less(x: Array, y: Array) -> Array:
    """The order of complex numbers: by real part, then by imaginary part. False if a NaN decides."""
    return (x.real < y.real) | ((x.real == y.real) & (x.imag < y.imag))


def later(x: Array, y: Array) -> Array:
    """The greater one, a NaN if there is one, +0 rather than -0; of complex numbers x if it comes after y in order, else y."""
    return np.where(lexicographic_less(y, x), x, y) if x.dtype.kind == "c" else primitive("max")(x, y)


def earlier(x: Array, y: Array) -> Array:
    """The lesser one, in the same way."""
    return np.where(lexicographic_less(x, y), x, y) if x.dtype.kind == "c" else primitive("min")(x, y)


def total_order(x: Array) -> Array:
    """Integers in the order of the floats `x`: -NaN < -inf < ... < -0 < +0 < ... < inf < NaN. Integers and bools are themselves.
    The one NaN of formats that have only one is positive."""
    f = FORMATS.get(x.dtype)
    x = widen(x)
    if isinstance(f, FloatFormat) and f.special in ("fnuz", "scale"):
        x = np.where(np.isnan(x), np.float32(np.nan), x)
    if x.dtype.kind != "f":
        return x.astype(np.uint8) if x.dtype == bool else x
    signed = np.dtype(f"int{8 * x.dtype.itemsize}")
    bits = np.ascontiguousarray(x).view(signed).reshape(x.shape)
    return np.where(bits < 0, bits ^ np.iinfo(signed).max, bits)


# reductions


def lowest(dtype: Any) -> Any:
    """The neutral element of max: -inf, or the least value of dtypes without it."""
    return _extreme(dtype, -1)


def highest(dtype: Any) -> Any:
    """The neutral element of min."""
    return _extreme(dtype, 1)


def _extreme(dtype: Any, sign: int) -> Any:
    if dtype == np.bool_:
        return sign > 0
    if dtypes.is_complex(dtype):
        return complex(sign * np.inf, 0)
    if dtypes.is_integer(dtype):
        info = ml_dtypes.iinfo(dtype)
        return int(info.max if sign > 0 else info.min)
    info = ml_dtypes.finfo(dtype)
    if np.isposinf(np.asarray(np.inf).astype(dtype).astype(np.float32)):
        return sign * np.inf
    return float(info.max if sign > 0 else info.min)


Group = tuple[Array, ...]


def fold(values: Group, axes: Sequence[int], identity: Sequence[Any], combine: Callable[[Group, Group], Group]) -> Group:
    """The fold over `axes` of arrays of one shape, in the canonical order (ir/loops.py)."""
    shape = values[0].shape
    axes = sorted(axes)
    kept = [a for a in range(len(shape)) if a not in axes]
    n = math.prod(shape[a] for a in axes)
    flat = tuple(v.transpose([*kept, *axes]).reshape([shape[a] for a in kept] + [n]) for v in values)
    start = tuple(np.full(flat[0].shape[:-1], i, v.dtype) for i, v in zip(identity, values, strict=True))
    if not n:
        return start
    whole = n // BLOCK
    parts = []
    if whole:
        body = tuple(v[..., : whole * BLOCK].reshape(*v.shape[:-1], whole, BLOCK) for v in flat)
        parts.append(_fold_block(body, combine))
    if n % BLOCK:
        tail = tuple(v[..., None, whole * BLOCK :] for v in flat)
        parts.append(_fold_block(tail, combine))
    blocks = tuple(np.concatenate(p, axis=-1) for p in zip(*parts, strict=True))
    return combine(start, _fold_tree(blocks, combine))


def _fold_block(values: Group, combine: Callable[[Group, Group], Group]) -> Group:
    """(..., n) --> (...): lanes in ascending order, then their tree. n <= BLOCK."""
    n = values[0].shape[-1]
    acc = tuple(v[..., :LANES].copy() for v in values)
    for begin in range(LANES, n, LANES):
        width = min(LANES, n - begin)
        out = combine(tuple(a[..., :width] for a in acc), tuple(v[..., begin : begin + width] for v in values))
        for a, o in zip(acc, out, strict=True):
            a[..., :width] = o
    return _fold_tree(acc, combine)


def _fold_tree(values: Group, combine: Callable[[Group, Group], Group]) -> Group:
    """(..., n) --> (...): the halving tree."""
    items = [tuple(v[..., k] for v in values) for k in range(values[0].shape[-1])]
    for i, j in halving(len(items)):
        items[i] = combine(items[i], items[j])
    return items[0]


def accumulate(value: Array, axis: int, reverse: bool, identity: Any, combine: Callable[[Array, Array], Array]) -> Array:
    """The running fold along an axis, element after element."""
    moved = np.moveaxis(value, axis, 0)
    out = np.empty_like(moved)
    acc = np.full(moved.shape[1:], identity, value.dtype)
    for k in range(len(moved) - 1, -1, -1) if reverse else range(len(moved)):
        out[k] = acc = combine(acc, moved[k])
    return np.moveaxis(out, 0, axis)


# special functions


def _by_element(f: Callable[[float], float]) -> Callable[[Array], Array]:
    """A function of one Python float as one of arrays of float64; the result has the operand's dtype."""
    each = np.frompyfunc(f, 1, 1)

    def run(x: Array) -> Array:
        return np.asarray(each(np.asarray(x, np.float64)), np.float64).astype(x.dtype)

    return run


erf = _by_element(math.erf)
erfc = _by_element(math.erfc)


def _lgamma(x: float) -> float:
    if math.isinf(x) or x <= 0 and x == math.floor(x):
        return math.inf
    try:
        return math.lgamma(x)
    except OverflowError:
        return math.inf


lgamma = _by_element(_lgamma)


def _erf_inv(x: float) -> float:
    """Winitzki's approximation, then Halley's method on erf, or on erfc near 1."""
    y = abs(x)
    if not y < 1:
        return math.copysign(math.inf, x) if y == 1 else math.nan
    if y < 1e-10:
        return x * (math.sqrt(math.pi) / 2)
    a, rest = 0.147, 1 - y
    log = math.log1p(-y * y) if y < 0.9 else math.log(rest * (1 + y))
    t = 2 / (math.pi * a) + log / 2
    w = math.sqrt(math.sqrt(t * t - log / a) - t)
    for _ in range(4):
        residue = math.erf(w) - y if y < 0.5 else rest - math.erfc(w)
        step = residue * (math.sqrt(math.pi) / 2) * math.exp(w * w)
        w -= step / (1 + w * step)
    return math.copysign(w, x)


erf_inv = _by_element(_erf_inv)


def _erfc_inv(y: float) -> float:
    """For y < 1/2 Newton's method on log erfc = log s - w**2, s by its continued fraction (Abramowitz & Stegun 7.1.14), else by erf_inv."""
    if not 0 < y < 2:
        return {0.0: math.inf, 2.0: -math.inf}.get(y, math.nan)
    if y > 1.5:
        return -_erfc_inv(2 - y)
    if y >= 0.5:
        return _erf_inv(1 - y)
    log, w = math.log(y), math.sqrt(-math.log(y * (2 - y))) * 0.95
    for _ in range(12):
        rest = 0.0
        for k in range(120, 0, -1):
            rest = (k / 2) / (w + rest)
        scaled = math.erfc(w) * math.exp(w * w) if w < 2 else 1 / (math.sqrt(math.pi) * (w + rest))
        w += (math.log(scaled) - w * w - log) * scaled * math.sqrt(math.pi) / 2
    return w


erfc_inv = _by_element(_erfc_inv)
ndtri = _by_element(lambda p: -math.sqrt(2) * _erfc_inv(2 * p))


def _upper_normal(a: float) -> tuple[float, float]:
    """(s, e) for a >= 0: s e is the probability of more than a, e = exp(-a**2 / 2), the square in two parts."""
    head = math.floor(min(a, 60.0) * 2**16) / 2**16
    decay = math.exp(-head * head / 2) * math.exp(-(min(a, 60.0) - head) * (min(a, 60.0) + head) / 2)
    if a < 2:
        return math.erfc(a * math.sqrt(0.5)) / 2 / decay, decay
    rest = 0.0
    for k in range(200, 0, -1):
        rest = k / (a + rest)
    return 1 / (math.sqrt(2 * math.pi) * min(a + rest, 1e200)), decay


def _ndtr(x: float) -> float:
    if math.isnan(x):
        return x
    tail = math.prod(_upper_normal(abs(x)))
    return tail if x < 0 else 1 - tail


def _log_ndtr(x: float) -> float:
    if math.isnan(x) or x == -math.inf:
        return x
    if x < -1:
        return math.log(_upper_normal(-x)[0]) - x * x / 2
    return math.log1p(-_ndtr(-x))


ndtr = _by_element(_ndtr)
log_ndtr = _by_element(_log_ndtr)

_PI = np.longdouble("3.14159265358979323846264338327950288")
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


def digamma(x: Array) -> Array:
    """Reflection for negative arguments, recurrence to 12 and the asymptotic series (Abramowitz & Stegun 6.3.6, 6.3.7, 6.3.18).
    -inf at zero of either sign, NaN at the other poles and at -inf."""
    wide = x.astype(np.longdouble)
    pole = (wide <= 0) & (wide == np.floor(wide))
    safe = np.where(pole | ~np.isfinite(wide), 1.0, wide)
    y = np.where(safe < 0, 1 - safe, safe)
    below = np.zeros_like(y)
    for _ in range(12):
        small = y < 12
        below += np.where(small, 1 / y, 0)
        y = np.where(small, y + 1, y)
    series = np.zeros_like(y)
    for k, bernoulli in reversed(list(enumerate(_BERNOULLI, 1))):
        series = (series + np.longdouble(bernoulli) / (2 * k)) / (y * y)
    psi = np.log(y) - 1 / (2 * y) - series - below
    fraction = safe - np.round(safe)
    reflected = psi - _PI / np.tan(_PI * fraction)
    out = np.where(safe < 0, reflected, psi)
    out = np.where(np.isposinf(wide), np.inf, np.where(pole | ~np.isfinite(wide), np.nan, out))
    return np.where(wide == 0, -np.inf, out).astype(x.dtype)


def bessel_i0(x: Array) -> Array:
    """I0(x)"""
    return _grown(x, bessel_i0e)


def bessel_i1(x: Array) -> Array:
    """I1(x)"""
    return _grown(x, bessel_i1e)


def _grown(x: Array, scaled: Callable[[Array], Array]) -> Array:
    """exp(|x|) scaled(x), in long double."""
    wide = x.astype(np.longdouble)
    with np.errstate(over="ignore", invalid="ignore"):
        out = np.exp(np.abs(wide)) * scaled(wide)
    return np.where(np.isinf(wide), np.copysign(wide, scaled(wide)), out).astype(x.dtype)


def bessel_i0e(x: Array) -> Array:
    """exp(-|x|) I0(x)"""
    return _bessel(x, 0)


def bessel_i1e(x: Array) -> Array:
    """exp(-|x|) I1(x)"""
    return np.copysign(_bessel(x, 1), x)


def _bessel(x: Array, order: int) -> Array:
    """The power series up to 30, then Hankel's asymptotic one (Abramowitz & Stegun 9.6.10, 9.7.1), in long double."""
    z = np.abs(x.astype(np.longdouble))
    near = np.where(z <= 30, z, 0)
    term = (near / 2) ** order
    series = term.copy()
    for k in range(1, 80):
        term = term * (near / 2) ** 2 / (k * (k + order))
        series += term
    far = np.where(z > 30, z, 31)
    term = np.ones_like(far)
    tail = term.copy()
    for k in range(1, 31):
        term = -term * (4 * order**2 - (2 * k - 1) ** 2) / (8 * k * far)
        tail += term
    out = np.where(z <= 30, series * np.exp(-near), tail / np.sqrt(2 * _PI * far))
    return np.where(np.isnan(z), np.nan, out).astype(x.dtype)
