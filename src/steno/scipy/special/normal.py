"""Error functions, the normal distribution's, and integrals that are made of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from steno import lax, numpy as jnp
from steno.api import jit
from steno.core import dtypes
from steno.custom_derivatives import custom_jvp
from steno.lax.in_double import in_double, polynomial, with_derivatives
from steno.numpy.operands import convert, promoted_inexact, strong, weak_type_of
from steno.ops import transcendental
from steno.scipy.special.faces import floats, operands, special

Array = Any
ArrayLike = Any

ROOT_PI = math.sqrt(math.pi)
ROOT_2 = math.sqrt(2)


def _of_record(name: str, record: Any, doc: str) -> Any:
    def call(x: ArrayLike) -> Array:
        (x,) = promoted_inexact(name, x)
        return record(x)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = doc
    return jit(call)


erf = _of_record("erf", lax.erf, "The error function, of floats.")
erfc = _of_record("erfc", lax.erfc, "1 - erf(x), of floats.")
erfinv = _of_record("erfinv", lax.erf_inv, "The inverse of erf, of floats.")


def _exp_square(x: Array, sign: float = 1.0) -> Array:
    """exp(x**2), or exp(-x**2): the square in two parts, as its rounding error would count."""
    v = jnp.clip(x, -40.0, 40.0)
    head = jnp.floor(v * 65536) / 65536
    return jnp.exp(sign * head * head) * jnp.exp(sign * (v - head) * (v + head))


def _gauss(x: Array) -> Array:
    """exp(-x**2 / 2), as `_exp_square`."""
    v = jnp.clip(x, -60.0, 60.0)
    head = jnp.floor(v * 65536) / 65536
    return jnp.exp(-head * head / 2) * jnp.exp(-(v - head) * (v + head) / 2)


def _density(x: Array) -> Array:
    return _gauss(x) / math.sqrt(2 * math.pi)


_ERFC_REST = (
    0.8363216119888284, 0.4526566931581167, -0.4066650273387171, 0.06708868576086754, 0.09240575584136275, -0.02502206513122287,
    -0.030274166194999293, 0.005875238608595366, 0.011152010714241056, 0.00033637670317060886, -0.005741306968126399,
    0.004372446686708672, -0.011264519056135834, 0.023680384186232993, -0.03368891821652918, 0.03755160428679231,
    -0.03273154813631723, 0.021136393873733474, -0.009616816252322762, 0.0029130923830287298, -0.0005301149396942185,
    4.418804238637521e-05,
)  # fmt: skip


def _fraction_rest(x: Array) -> Array:
    """r with 1 / (sqrt(pi) exp(x**2) erfc(x)) = x + r for x >= 2: 2 x r, near 1, as a polynomial of (x - 2) / (x + 2), the minimax one
    but for 2**-55."""
    return polynomial(1 - 4 / (x + 2), _ERFC_REST) / (2 * x)


def scaled_erfc(x: Array) -> Array:
    """exp(x**2) erfc(x) in float64."""
    far = x >= 2
    v = jnp.where(far, x, 2.0)
    near = jnp.where(far, 0.0, x)
    by_fraction = 1 / (ROOT_PI * (v + _fraction_rest(v)))
    return jnp.where(far, by_fraction, jnp.where(x < -27, jnp.inf, _exp_square(near) * lax.erfc(near)))


def _scaled_slope(out: Array, x: Array) -> Array:
    """2 x out - 2 / sqrt(pi), which cancel for great x."""
    far = x >= 2
    v = jnp.where(far, x, 2.0)
    r = _fraction_rest(v)
    return jnp.where(far, -2 / ROOT_PI * r / (v + r), 2 * x * out - 2 / ROOT_PI)


_erfcx = with_derivatives(scaled_erfc, _scaled_slope)


@special(lambda out, y: -ROOT_PI / 2 * _exp_square(out), weak=False, own=True)
def erfcinv(y: ArrayLike) -> Array:
    """The inverse of erfc."""
    return transcendental.erfc_inv(y)


ndtr_core = with_derivatives(lambda x: transcendental.ndtr(x), lambda out, x: _density(x), own=True)


@jit
def ndtr(x: ArrayLike) -> Array:
    """The integral of the normal density up to x; float32 or float64, TypeError for others."""
    return ndtr_core(floats("ndtr", x))


_ndtri = with_derivatives(lambda p: transcendental.ndtri(p), lambda out, p: math.sqrt(2 * math.pi) * _exp_square(out / ROOT_2), own=True)


@jit
def ndtri(p: ArrayLike) -> Array:
    """The inverse of ndtr; float32 or float64, TypeError for others."""
    x = floats("ndtri", p)
    out = _ndtri(x)
    return convert(out, out.dtype, True) if weak_type_of(p) else out


def _log_ndtr_slope(out: Array, x: Array) -> Array:
    """The density over the distribution function."""
    far = x < -1
    low = jnp.where(far, x, -1.0)
    return jnp.where(far, math.sqrt(2 / math.pi) / _erfcx(low / -ROOT_2), _density(x) / ndtr_core(jnp.where(far, 0.0, x)))


log_ndtr_core = with_derivatives(lambda x: transcendental.log_ndtr(x), _log_ndtr_slope, own=True)


def log_ndtr(x: ArrayLike, series_order: int = 3) -> Array:
    """log(ndtr(x)), also where ndtr underflows; float32 or float64, TypeError for others. `series_order` makes no difference to the result;
    TypeError if it is no int, ValueError outside of [0, 30]."""
    if not isinstance(series_order, int):
        raise TypeError(f"log_ndtr: series_order must be a Python integer, got {type(series_order)}")
    if not 0 <= series_order <= 30:
        raise ValueError(f"log_ndtr: series_order must be non-negative and at most 30, got {series_order}")
    return _log_ndtr(x)


@jit
def _log_ndtr(x: ArrayLike) -> Array:
    return log_ndtr_core(floats("log_ndtr", x))


def _dawson(x: Array) -> Array:
    """G. Rybicki, Dawson's integral and the sampling theorem, 1989, with the step 1/4; near 0 by its series."""
    step = 0.25
    a = jnp.abs(x)
    v = jnp.clip(a, 0.2, 1e8)
    n0 = 2 * jnp.round(v / (2 * step))
    rest = v - n0 * step
    total = jnp.zeros_like(v)
    for n in range(1, 27, 2):
        for m in (n, -n):
            total = total + jnp.exp(-jnp.square(rest - m * step)) / (n0 + m)
    coefficients = [1.0]
    for k in range(1, 12):
        coefficients.append(coefficients[-1] * -2 / (2 * k + 1))
    u = jnp.where(a < 0.2, x, 0.0)
    near = u * polynomial(u * u, coefficients)
    return jnp.where(a < 0.2, near, jnp.where(a > 1e8, 0.5 / x, jnp.copysign(total / ROOT_PI, x)))


def _dawson_slope(out: Array, x: Array) -> Array:
    """1 - 2 x out, which cancel for great x: there by their asymptotic series."""
    far = jnp.abs(x) > 7
    y = 1 / jnp.square(jnp.where(far, x, 7.0)) / 2
    series, coefficient = [0.0], -1.0
    for k in range(1, 26):
        coefficient *= 2 * k - 1
        series.append(coefficient)
    return jnp.where(far, polynomial(y, series), 1 - 2 * x * out)


@special(_dawson_slope, weak=False)
def dawsn(x: ArrayLike) -> Array:
    """Dawson's integral exp(-x**2) int_0^x exp(t**2) dt."""
    return _dawson(x)


_STEPS = 11
_H = math.sqrt(math.pi / (_STEPS + 1))


def faddeeva(x: Array, y: Array) -> tuple[Array, Array]:
    """The real and the imaginary part of w(x + i y) for x, y >= 0, float64: trapezoidal rules, the midpoints' or the integers', with the
    residue of the pole where that is needed (M. Al Azah, S. Chandler-Wilde, Computation of the complex error function using modified
    trapezoidal rules, 2021)."""
    z = lax.complex(x, y)
    z2 = z * z
    midpoints = sum(math.exp(-(((k + 0.5) * _H) ** 2)) / (z2 - ((k + 0.5) * _H) ** 2) for k in range(_STEPS + 1))
    integers = sum(math.exp(-((k * _H) ** 2)) / (z2 - (k * _H) ** 2) for k in range(1, _STEPS + 1))
    factor = 2j * _H / math.pi * z
    # exp(-2 i pi z / h) and exp(-z**2), of magnitude exp(2 pi y / h) and exp(y**2 - x**2)
    low = jnp.minimum(y, math.pi / _H)
    angle = 2 * math.pi * (x / _H - jnp.round(x / _H))
    size = jnp.exp(2 * math.pi / _H * low)
    wave = lax.complex(size * jnp.cos(angle), -size * jnp.sin(angle))
    product = 2 * x * low
    decay = _exp_square(low) * _exp_square(x, -1.0)
    gauss = lax.complex(decay * jnp.cos(product), -decay * jnp.sin(product))
    plain = factor * midpoints
    with_pole = plain + 2 * gauss / (1 + wave)
    shifted = 2 * gauss / (1 - wave) + 1j * _H / (math.pi * z) + factor * integers
    phase = x / _H - jnp.floor(x / _H)
    use_shifted = (y < x) & (phase >= 0.25) & (phase <= 0.75)
    out = jnp.where(y >= jnp.maximum(x, math.pi / _H), plain, jnp.where(use_shifted, shifted, with_pole))
    far = (x > 1e7) | (y > 1e7)
    big = jnp.where(far, z, 1.0)
    out = jnp.where(far, 1j / (ROOT_PI * big), out)
    return jnp.real(out), jnp.imag(out)


def _wofz_of(z: Array) -> Array:
    x, y = jnp.real(z), jnp.imag(z)
    re, im = faddeeva(jnp.abs(x), jnp.abs(y))
    w = lax.complex(re, jnp.where(x < 0, -im, im))
    # below the axis w(z) = 2 exp(-z**2) - w(-z)
    below = y < 0
    v = jnp.where(below, z, 0)
    size = 2 * _exp_square(jnp.imag(v)) * _exp_square(jnp.real(v), -1.0)
    angle = -2 * jnp.real(v) * jnp.imag(v)
    return jnp.where(below, lax.complex(size * jnp.cos(angle), size * jnp.sin(angle)) - jnp.conj(w), w)


@custom_jvp
def _wofz(z: Array) -> Array:
    return in_double(_wofz_of, z)


_wofz.defjvps(lambda g, w, z: g * (2j / ROOT_PI - 2 * z * w).astype(z.dtype))


@jit
def wofz(z: ArrayLike) -> Array:
    """The Faddeeva function exp(-z**2) erfc(-i z), of complex numbers (reals become such)."""
    (z,) = promoted_inexact("wofz", z)
    if dtypes.kind(z.dtype) != "c":
        z = lax.complex(z, jnp.zeros_like(z))
    return _wofz(z)


@jit
def erfcx(x: ArrayLike) -> Array:
    """exp(x**2) erfc(x). Complex numbers, too."""
    (x,) = promoted_inexact("erfcx", x)
    if dtypes.kind(x.dtype) == "c":
        return _wofz(lax.complex(-jnp.imag(x), jnp.real(x)))
    return _erfcx(strong(x))


def _half_pi_square(v: Array) -> Array:
    """pi v**2 / 2 less multiples of 2 pi, for v >= 0."""
    head = jnp.floor(v)
    part = v - head
    # v**2 without multiples of 4
    quarter = (head - 4 * jnp.floor(head / 4)) * head
    square = jnp.fmod(quarter, 4.0) + 2 * head * part + part * part
    return math.pi / 2 * (square - 4 * jnp.round(square / 4))


def _fresnel(x: Array) -> tuple[Array, Array]:
    """C + i S = (1 + i) / 2 (1 - exp(i pi x**2 / 2) w(sqrt(pi) (1 + i) x / 2)); near 0 by their series (A&S 7.3.22, 7.3.11-13)."""
    a = jnp.abs(x)
    near = a < 1.5
    u = jnp.where(near, x, 0.0)
    y = jnp.square(math.pi / 2 * u * u)
    s, c = [], []
    for k in range(18):
        s.append((-1.0) ** k / (math.factorial(2 * k + 1) * (4 * k + 3)))
        c.append((-1.0) ** k / (math.factorial(2 * k) * (4 * k + 1)))
    v = jnp.clip(jnp.where(near, 1.5, a), 0.0, 1e8)
    angle = _half_pi_square(v)
    re, im = faddeeva(ROOT_PI / 2 * v, ROOT_PI / 2 * v)
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    p, q = 1 - (cos * re - sin * im), -(cos * im + sin * re)
    far_c, far_s = (p - q) / 2, (p + q) / 2
    sine = jnp.where(near, u * u * u * (math.pi / 2) * polynomial(y, s), jnp.copysign(far_s, x))
    cosine = jnp.where(near, u * polynomial(y, c), jnp.copysign(far_c, x))
    half = jnp.copysign(0.5, x)
    return jnp.where(a == jnp.inf, half, sine), jnp.where(a == jnp.inf, half, cosine)


_fresnel_s = with_derivatives(lambda x: _fresnel(x)[0], lambda out, x: jnp.sin(_half_pi_square(jnp.abs(x))))
_fresnel_c = with_derivatives(lambda x: _fresnel(x)[1], lambda out, x: jnp.cos(_half_pi_square(jnp.abs(x))))


@jit
def fresnel(x: ArrayLike) -> tuple[Array, Array]:
    """Fresnel's integrals (S, C) of sin(pi t**2 / 2) and cos(pi t**2 / 2) from 0 to x."""
    (x,) = operands("fresnel", x)
    return _fresnel_s(x), _fresnel_c(x)


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)


def _owens_below(h: Array, a: Array) -> Array:
    """The integral over t in [0, a], a <= 1, h >= 0 by Gauss and Legendre's rule, cut where exp(-h**2 t**2 / 2) is nothing."""
    top = jnp.minimum(a, 9.0 / jnp.maximum(h, 1e-9))
    total = jnp.zeros_like(h)
    for node, weight in zip(_NODES.tolist(), _WEIGHTS.tolist(), strict=True):
        t2 = jnp.square(top * ((node + 1) / 2))
        total = total + weight / 2 * jnp.exp(-h * h * t2 / 2) / (1 + t2)
    return top * total * _gauss(h) / (2 * math.pi)


def _owens(h: Array, a: Array) -> Array:
    """M. Patefield, D. Tandy, Fast and accurate calculation of Owen's T-function, 2000: T(h, a) for a > 1 by T(a h, 1 / a)."""
    x, b = jnp.abs(h), jnp.abs(a)
    steep = b > 1
    c = jnp.where(steep, b, 1.0)
    bx = jnp.where(x == 0, 0.0, c * x)
    inner = _owens_below(jnp.where(steep, bx, x), jnp.where(steep, 1 / c, b))
    p, q = transcendental.ndtr(-x), transcendental.ndtr(-bx)
    out = jnp.where(steep, (p + q) / 2 - p * q - inner, inner)
    out = jnp.where(x == jnp.inf, 0.0, out)
    return jnp.where(jnp.isnan(h) | jnp.isnan(a), jnp.nan, jnp.where(a < 0, -out, out))


def _owens_by_h(out: Array, h: Array, a: Array) -> Array:
    return -_density(h) * lax.erf(a * h / ROOT_2) / 2


def _owens_by_a(out: Array, h: Array, a: Array) -> Array:
    return jnp.exp(-h * h * (1 + a * a) / 2) / (2 * math.pi * (1 + a * a))


@special(_owens_by_h, _owens_by_a, weak=False)
def owens_t(h: ArrayLike, a: ArrayLike) -> Array:
    """Owen's T function: the integral of exp(-h**2 (1 + t**2) / 2) / (1 + t**2) over t from 0 to a, over 2 pi."""
    return _owens(h, a)


__all__ = [
    "dawsn", "erf", "erfc", "erfcinv", "erfcx", "erfinv", "fresnel", "log_ndtr", "log_ndtr_core", "ndtr", "ndtr_core", "ndtri", "owens_t",
    "wofz",
]  # fmt: skip
