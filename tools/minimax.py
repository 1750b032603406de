"""Minimax polynomials for `steno.compiler.vecmath`, by Remez' exchange in multiple precision; coefficients are float32 or float64 numbers.

    python tools/minimax.py            lists the fits
    python tools/minimax.py NAME...    computes those whose names begin so and writes them to src/steno/compiler/vecmath/coefficients.py

A fit is `f(x) ~ sum(c[k] * x**e[k])` on an interval, minimising `max |weight(x) * (f(x) - p(x))|`. Coefficients are rounded one after the
other, lowest power first (it matters most), and the remaining ones fitted anew each time. N. Brisebarre, J.-M. Muller, A. Tisserand,
"Computing machine-efficient polynomial approximations", ACM TOMS 32(2), 2006, do this optimally; here it is within a few percent.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import mpmath as mp
import numpy as np

mp.mp.dps = 120


@dataclass
class Fit:
    """`points`: grid size; `fixed`: coefficients given beforehand, by power."""

    f: Callable
    low: float
    high: float
    powers: Sequence[int]
    weight: Callable
    dtype: type = np.float32
    fixed: dict[int, float] | None = None
    points: int = 600


def chebyshev_grid(low: float, high: float, n: int) -> list:
    a, b = mp.mpf(low), mp.mpf(high)
    return [(a + b) / 2 - (b - a) / 2 * mp.cos(mp.pi * k / (n - 1)) for k in range(n)]


def exchange(xs: list, fs: list, ws: list, powers: Sequence[int]) -> tuple[list, object]:
    """The minimax coefficients on the grid, and the error."""
    n = len(powers)
    nodes = [round(k * (len(xs) - 1) / n) for k in range(n + 1)]  # of a Chebyshev grid, so already dense at the ends
    basis = [[x**p for p in powers] for x in xs]
    coefficients, best = [], None
    for _ in range(400):
        matrix = mp.matrix(n + 1, n + 1)
        rhs = mp.matrix(n + 1, 1)
        for row, k in enumerate(nodes):
            for col in range(n):
                matrix[row, col] = basis[k][col]
            matrix[row, n] = (-1) ** row / ws[k]
            rhs[row] = fs[k]
        solution = mp.lu_solve(matrix, rhs)
        coefficients = [solution[k] for k in range(n)]
        errors = [w * (f - sum(c * v for c, v in zip(coefficients, row, strict=True))) for f, w, row in zip(fs, ws, basis, strict=True)]
        peak = max(range(len(xs)), key=lambda k: abs(errors[k]))
        best = abs(errors[peak])
        if best <= abs(solution[n]) * mp.mpf("1.001"):
            break
        nodes = swap(nodes, errors, peak)
    return coefficients, best


def swap(nodes: list[int], errors: list, peak: int) -> list[int]:
    """One node gives way to the peak, signs kept alternating."""

    def agree(n: int) -> bool:
        return (errors[n] > 0) == (errors[peak] > 0)

    right = next((k for k, n in enumerate(nodes) if n >= peak), len(nodes))
    if right == 0:
        return [peak, *nodes[1:]] if agree(nodes[0]) else [peak, *nodes[:-1]]
    if right == len(nodes):
        return [*nodes[:-1], peak] if agree(nodes[-1]) else [*nodes[1:], peak]
    k = right if agree(nodes[right]) else right - 1
    return [*nodes[:k], peak, *nodes[k + 1 :]]


def rounded(c: object, dtype: type) -> float:
    """The nearest float of `dtype`, from multiple precision directly."""
    if dtype is np.float64:
        return float(c)
    with mp.workprec(24):
        return float(+mp.mpf(c))


def solve(fit: Fit) -> tuple[list[float], float]:
    """(coefficients in the order of `powers`, largest weighted error with the rounded ones)"""
    xs = chebyshev_grid(fit.low, fit.high, fit.points)
    fs = [fit.f(x) for x in xs]
    ws = [fit.weight(x) for x in xs]
    done: dict[int, float] = dict(fit.fixed or {})
    free = [p for p in fit.powers if p not in done]
    # the weight may vanish or blow up at 0; such points carry no information
    largest = max(w for w in ws if mp.isfinite(w))
    keep = [k for k, (f, w) in enumerate(zip(fs, ws, strict=True)) if mp.isfinite(f) and mp.isfinite(w) and w > largest * 1e-9]
    xs, fs, ws = ([v[k] for k in keep] for v in (xs, fs, ws))
    while free:
        rest = [f - sum(mp.mpf(c) * x**p for p, c in done.items()) for f, x in zip(fs, xs, strict=True)]
        # divided by the lowest free power, so that the basis keeps the Haar property on intervals around 0
        k = free[0]
        points = [(x, r / x**k, w * abs(x) ** k) for x, r, w in zip(xs, rest, ws, strict=True) if x]
        coefficients, _ = exchange(*map(list, zip(*points, strict=True)), [p - k for p in free])
        done[free[0]] = rounded(coefficients[0], fit.dtype)
        free = free[1:]
    error = max(abs(w * (f - sum(mp.mpf(done[p]) * x**p for p in done))) for f, w, x in zip(fs, ws, xs, strict=True))
    return [done[p] for p in fit.powers], error


# ---- the fits ----

OUTPUT = Path(__file__).parent.parent / "src/steno/compiler/vecmath/coefficients.py"
HEADER = '''"""Coefficients, constant term first, written by tools/minimax.py. Comments: log2 of the largest weighted error."""

# ruff: noqa: E501
# fmt: off
'''
LN2, PI = mp.log(2), mp.pi
FITS: dict[str, Fit] = {}


def fit(
    name: str,
    f: Callable,
    low: object,
    high: object,
    weight: Callable,
    single: int,
    double: int,
    fixed: dict | None = None,
    points: int = 300,
) -> None:
    """`name`_32 and `name`_64, with so many coefficients (0: none)."""
    if single:
        FITS[name + "_32"] = Fit(f, low, high, range(single), weight, np.float32, fixed, points)
    if double:
        FITS[name + "_64"] = Fit(f, low, high, range(double), weight, np.float64, fixed, points)


def near(limit: object, f: Callable) -> Callable:
    """f, with its limit at 0 where it cancels."""
    return lambda x: f(x) if abs(x) > mp.mpf(10) ** -40 else mp.mpf(limit)


def root(f: Callable) -> Callable:
    """f as a function of z = x**2."""
    return lambda z: f(mp.sqrt(z))


HALF_LN2 = LN2 / 2 * mp.mpf("1.0005")
fit("EXP", near(0.5, lambda r: (mp.expm1(r) - r) / r**2), -HALF_LN2, HALF_LN2, lambda r: r**2 / mp.exp(r), 5, 10)
fit("EXP2", near(LN2, lambda r: mp.expm1(r * LN2) / r), -0.5, 0.5, lambda r: abs(r) / 2**r, 6, 11)
Z_EXP = HALF_LN2**2
fit(
    "SINH",
    near(1 / mp.mpf(6), root(lambda x: (mp.sinh(x) - x) / x**3)),
    0,
    Z_EXP,
    root(lambda x: x**3 / mp.sinh(x) if x else mp.mpf(0)),
    2,
    5,
)
fit("COSH", near(0.5, root(lambda x: (mp.cosh(x) - 1) / x**2)), 0, Z_EXP, root(lambda x: x**2 / mp.cosh(x)), 3, 6)
TANH = near(-1 / mp.mpf(3), root(lambda x: (mp.tanh(x) - x) / x**3))
fit("TANH", TANH, 0, 0.9**2, root(lambda x: x**3 / mp.tanh(x) if x else mp.mpf(0)), 7, 0)
fit("TANH", TANH, 0, 0.8**2, root(lambda x: x**3 / mp.tanh(x) if x else mp.mpf(0)), 0, 14)
SQRT_HALF, SQRT_TWO = mp.sqrt(0.5) - 1, mp.sqrt(2) - 1
LOG = near(1 / mp.mpf(3), lambda f: (mp.log1p(f) - f + f * f / 2) / f**3)


def log_weight(f: object) -> object:
    return abs(f**3 / mp.log1p(f)) if f else mp.mpf(0)


fit("LOG", LOG, SQRT_HALF, SQRT_TWO, log_weight, 8, 19)


def log2_weight(f: object) -> object:
    return abs(f**2 / mp.log1p(f) * LN2) if f else mp.mpf(0)


fit("LOG_SHORT", LOG, SQRT_HALF, SQRT_TWO, log_weight, 0, 11)
fit("LOG2", near(-1 / (2 * LN2), lambda f: (mp.log1p(f) - f) / LN2 / f**2), SQRT_HALF, SQRT_TWO, log2_weight, 9, 20)
Z_QUADRANT = (PI / 4 * mp.mpf("1.001")) ** 2
fit(
    "SIN",
    near(-1 / mp.mpf(6), root(lambda x: (mp.sin(x) - x) / x**3)),
    0,
    Z_QUADRANT,
    root(lambda x: x**3 / mp.sin(x) if x else mp.mpf(0)),
    3,
    6,
)
# cos x = 1 - (x**2 + x**4 Q(x**2)) / 2
fit(
    "COS",
    near(-1 / mp.mpf(12), root(lambda x: (2 - 2 * mp.cos(x) - x**2) / x**4)),
    0,
    Z_QUADRANT,
    root(lambda x: x**4 / 2 / mp.cos(x)),
    3,
    6,
)
fit(
    "TAN",
    near(1 / mp.mpf(3), root(lambda x: (mp.tan(x) - x) / x**3)),
    0,
    Z_QUADRANT,
    root(lambda x: x**3 / mp.tan(x) if x else mp.mpf(0)),
    7,
    14,
)
fit(
    "ATAN",
    near(-1 / mp.mpf(3), root(lambda x: (mp.atan(x) - x) / x**3)),
    0,
    1,
    root(lambda x: x**3 / mp.atan(x) if x else mp.mpf(0)),
    9,
    20,
)
fit(
    "ASIN",
    near(1 / mp.mpf(6), root(lambda x: (mp.asin(x) - x) / x**3)),
    0,
    0.2501,
    root(lambda x: x**3 / mp.asin(x) if x else mp.mpf(0)),
    5,
    12,
)

ERF = near(2 / mp.sqrt(PI) - 1, root(lambda x: mp.erf(x) / x - 1))
fit("ERF", ERF, 0, 1, root(lambda x: x / mp.erf(x) if x else mp.sqrt(PI) / 2), 7, 13)
# log2(erfc(a)) + 3, up to where erf is 1; weighted by its effect on erf
fit("ERFC_LOG2", lambda a: mp.log(mp.erfc(a), 2) + 3, 1, 4, lambda a: mp.erfc(a) * LN2, 7, 0)
# float32 pow computes in float64
fit("POW_LOG2", near(-1 / (2 * LN2), lambda f: (mp.log1p(f) - f) / LN2 / f**2), SQRT_HALF, SQRT_TWO, log2_weight, 0, 13)
fit("POW_EXP2", near(LN2, lambda r: mp.expm1(r * LN2) / r), -0.5, 0.5, lambda r: abs(r) / 2**r, 0, 7)
# log m = 2 s + s**3 (2/3 + s**2 Q(s**2)), s = (m - 1) / (m + 1)
S_MAX = (mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)
fit(
    "POW_ATANH",
    near(mp.mpf(2) / 5, root(lambda s: (2 * mp.atanh(s) - 2 * s - 2 * s**3 / 3) / s**5)),
    0,
    S_MAX**2,
    root(lambda s: s**4),
    0,
    8,
)


# (1 + 2 a) exp(a**2) erfc(a) for a >= 1/2, as a polynomial of q = (a - 4) / (a + 4) (after N. Juffa)
def scaled_erfc(q: object) -> object:
    a = 4 * (1 + q) / (1 - q)
    return (1 + 2 * a) * mp.exp(a**2) * mp.erfc(a)


Q_LOW = -mp.mpf(7) / 9 - mp.mpf("0.0001")
fit("ERFC_SCALED", scaled_erfc, Q_LOW, 0.75, lambda q: 1 / scaled_erfc(q), 0, 23)
fit("ERFC_SCALED_SHORT", scaled_erfc, Q_LOW, 0.75, lambda q: 1 / scaled_erfc(q), 0, 11)


# erf_inv(x) / x as a function of w = -log(1 - x**2); its square root in the tail
def erf_inv_ratio(w: object) -> object:
    x = mp.sqrt(-mp.expm1(-w))
    return mp.erfinv(x) / x if x else mp.sqrt(PI) / 2


# less 1 (in the tail 2), which is added by itself: erf_inv(x) = x + x P
def erf_inv_fit(name: str, f: Callable, whole: int, centre: float, low: object, high: object, single: int, double: int) -> None:
    def ratio(t: object) -> object:
        return f(t + mp.mpf(centre))

    fit(name, lambda t: ratio(t) - whole, mp.mpf(low) - centre, mp.mpf(high) - centre, lambda t: 1 / ratio(t), single, double)


erf_inv_fit("ERF_INV", erf_inv_ratio, 1, 1.5, 0, 5.001, 10, 0)
erf_inv_fit("ERF_INV", erf_inv_ratio, 1, 1.5, 0, 6.251, 0, 25)
erf_inv_fit("ERF_INV_SHORT", erf_inv_ratio, 1, 1.5, 0, 6.251, 0, 15)
erf_inv_fit("ERF_INV_TAIL", lambda s: erf_inv_ratio(s * s), 2, 3, mp.sqrt(5), 4.1, 10, 0)
erf_inv_fit("ERF_INV_TAIL", lambda s: erf_inv_ratio(s * s), 2, 3.5, 2.5, 6.03, 0, 29)


# erfc_inv(y) / ((1 - y) s), s = sqrt(-log(y (2 - y))), less 1, far out, as a polynomial of q = (s - 4) / (s + 4)
def erfc_inv_far(q: object) -> object:
    s = 4 * (1 + q) / (1 - q)
    y = -mp.expm1(mp.log1p(-mp.exp(-s * s)) / 2)
    z = s * mp.mpf("0.95")
    for _ in range(12):
        z += (mp.log(mp.erfc(z)) - mp.log(y)) * mp.sqrt(PI) / 2 * mp.exp(z * z) * mp.erfc(z)
    return z / ((1 - y) * s) - 1


fit("ERFC_INV_FAR", erfc_inv_far, (mp.mpf(6) - 4) / 10, mp.mpf("23.4") / mp.mpf("31.4"), lambda q: 1 / (1 + erfc_inv_far(q)), 0, 20)

# I0(x) and I1(x) / x up to 8 as polynomials of x**2 / 4; beyond, times exp(-x) sqrt(x), of 16/x - 1
for name, order in (("I0", 0), ("I1", 1)):

    def inner(z: object, order: int = order) -> object:
        x = 2 * mp.sqrt(z)
        return mp.besseli(order, x) / x**order if x else 1 / mp.mpf(2) ** order

    def outer(t: object, order: int = order) -> object:
        x = 16 / (t + 1)
        return mp.sqrt(x) * mp.exp(-x) * mp.besseli(order, x)

    fit(name, inner, 0, 16, lambda z, f=inner: 1 / f(z), 11, 18)
    fit(name + "_TAIL", outer, mp.mpf("-0.9999"), 1, lambda t, f=outer: 1 / f(t), 7, 26)


def main(names: Sequence[str]) -> None:
    if not names:
        for name, f in FITS.items():
            print(f"{name}: {len(f.powers)} coefficients on [{float(f.low):.6g}, {float(f.high):.6g}]")
        return
    for name in (n for n in FITS if any(n.startswith(prefix) for prefix in names)):
        coefficients, error = solve(FITS[name])
        text = ", ".join(repr(c) if FITS[name].dtype is np.float64 else str(np.float32(c)) for c in coefficients)
        save(name, f"({text})  # {float(mp.log(error, 2)):.1f}")


def save(name: str, text: str) -> None:
    print(f"{name} = {text}", flush=True)
    old = OUTPUT.read_text() if OUTPUT.exists() else HEADER
    entries = dict(re.findall(r"^(\w+) = (.*?\)  # .*)$", old, re.MULTILINE)) | {name: text}
    OUTPUT.write_text(HEADER + "\n".join(f"{n} = {entries[n]}" for n in FITS if n in entries) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
