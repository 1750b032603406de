"""Exact values of the elementary functions, arguments to try them on, and the distance in units in the last place."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import scipy.special as special

from steno.compiler.vecmath import FUNCTIONS
from steno.ir.expr import F32, Builder
from steno.ir.interp import evaluate_locals

BINARY = ("atan2", "hypot", "pow")
# where a function is defined, and where most of it happens
DOMAINS: dict[str, tuple[float, float]] = {
    "exp": (-110, 92), "exp2": (-155, 130), "expm1": (-20, 90), "logistic": (-106, 40), "sinh": (-91, 91), "cosh": (-91, 91),
    "tanh": (-12, 12), "log": (0, 10), "log2": (0, 10), "log1p": (-1, 10), "acosh": (1, 10), "asin": (-1, 1), "acos": (-1, 1),
    "atanh": (-1, 1), "rsqrt": (0, 10), "erf": (-7, 7), "erfc": (-7, 12), "erf_inv": (-1, 1), "erfc_inv": (0, 2), "ndtri": (0, 1),
    "ndtr": (-15, 7), "log_ndtr": (-60, 15), "lgamma": (-12, 40),
    "digamma": (-12, 40), "bessel_i0": (-90, 90), "bessel_i1": (-90, 90), "bessel_i0e": (-50, 50), "bessel_i1e": (-50, 50),
}  # fmt: skip
LIMITS = {
    "log": (0, np.inf),
    "log2": (0, np.inf),
    "log1p": (-1, np.inf),
    "acosh": (1, np.inf),
    "rsqrt": (0, np.inf),
    "asin": (-1, 1),
    "acos": (-1, 1),
}
LIMITS |= {"atanh": (-1, 1), "erf_inv": (-1, 1), "erfc_inv": (0, 2), "ndtri": (0, 1)}
# float64 overflows elsewhere
WIDE = {
    "exp": (-746, 710),
    "exp2": (-1075, 1025),
    "expm1": (-40, 710),
    "logistic": (-746, 40),
    "sinh": (-711, 711),
    "cosh": (-711, 711),
    "erfc": (-7, 28),
    "bessel_i0": (-710, 710),
    "ndtr": (-38, 9),
    "log_ndtr": (-100, 38),
    "bessel_i1": (-710, 710),
}


def _erfc_inv(y: Any) -> Any:
    """By mpmath's erfinv where 1 - y has all digits that count, else by Newton's method on log erfc."""
    if not 0 < y < mp.mpf("1e-3"):
        return mp.erfinv(1 - y)
    return mp.findroot(lambda x: mp.log(mp.erfc(x)) - mp.log(y), mp.sqrt(-mp.log(y)) * mp.mpf("0.95"))


EXACT: dict[str, Callable] = {
    "exp2": lambda x: mp.mpf(2) ** x,
    "log2": lambda x: mp.log(x, 2),
    "logistic": lambda x: 1 / (1 + mp.exp(-x)),
    "rsqrt": lambda x: 1 / mp.sqrt(x),
    "pow": lambda x, y: mp.power(x, y),
    "erf_inv": lambda x: mp.erfinv(x),
    "erfc_inv": lambda y: _erfc_inv(y),
    "ndtri": lambda p: -mp.sqrt(2) * _erfc_inv(2 * p),
    "ndtr": lambda x: mp.erfc(-x / mp.sqrt(2)) / 2,
    "log_ndtr": lambda x: mp.log(mp.erfc(-x / mp.sqrt(2)) / 2) if x < -1 else mp.log1p(-mp.erfc(x / mp.sqrt(2)) / 2),
    "lgamma": lambda x: mp.re(mp.loggamma(x)),
    "bessel_i0": lambda x: mp.besseli(0, x),
    "bessel_i1": lambda x: mp.besseli(1, x),
    "bessel_i0e": lambda x: mp.besseli(0, x) * mp.exp(-abs(x)),
    "bessel_i1e": lambda x: mp.besseli(1, x) * mp.exp(-abs(x)),
}
DOUBLE: dict[str, Callable] = {
    "logistic": lambda x: np.where(x < 0, np.exp(-np.abs(x)), 1) / (1 + np.exp(-np.abs(x))),
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "pow": np.power, "rsqrt": lambda x: 1 / np.sqrt(x), "erf": special.erf, "erfc": special.erfc,
    "erf_inv": lambda x: np.copysign(special.erfinv(x), x), "erfc_inv": lambda y: special.erfcinv(y) + 0.0,
    "ndtri": lambda p: -math.sqrt(2) * (special.erfcinv(2 * p) + 0.0),
    "ndtr": special.ndtr, "log_ndtr": special.log_ndtr,
    "lgamma": lambda x: np.where(x == -np.inf, np.inf, special.gammaln(x)),
    "digamma": lambda x: np.where(x == 0, -np.inf, special.digamma(x)),
    "bessel_i0": lambda x: np.where(np.isinf(x), np.abs(x), special.i0(x)), "bessel_i1": lambda x: np.where(np.isinf(x), x, special.i1(x)),
    "bessel_i0e": special.i0e, "bessel_i1e": special.i1e,
}  # fmt: skip


def exact(name: str, *xs: float) -> mp.mpf:
    """In multiple precision."""
    f = EXACT.get(name) or getattr(mp, name)
    return f(*(mp.mpf(x) for x in xs))


def double(name: str, *xs: np.ndarray) -> np.ndarray:
    """float32 arguments, the value to about float64's precision."""
    f = DOUBLE.get(name) or getattr(np, name)
    with np.errstate(all="ignore"):
        return f(*(x.astype(np.float64) for x in xs))


@functools.cache
def expression(name: str, dtype: np.dtype):
    b = Builder()
    return b.call(name, *(b.local(n, dtype) for n in ("x", "y")[: 2 if name in BINARY else 1]))


def interpret(name: str, *xs: np.ndarray) -> np.ndarray:
    """The function as the interpreter evaluates it."""
    arrays = dict(zip("xy", xs, strict=False))
    return evaluate_locals([expression(name, xs[0].dtype)], arrays)[0]


def edges(dtype: np.dtype) -> np.ndarray:
    """Zeros, infinities, NaN, subnormals, and numbers around which something changes."""
    info = np.finfo(dtype)
    values = [
        0,
        info.smallest_subnormal,
        info.tiny,
        info.eps,
        0.25,
        0.5,
        0.625,
        0.8,
        0.9,
        1,
        1.1,
        1.5,
        2,
        3,
        8,
        10,
        np.pi,
        np.pi / 2,
        88.7,
        103.9,
        709.7,
    ]
    values += [745.1, 2.0**15, 2.0**28, 1e10, 2.0**60, info.max, np.inf]
    with np.errstate(all="ignore"):
        v = np.array(values).astype(dtype)
        v = np.concatenate([v, np.nextafter(v, dtype.type(0)), np.nextafter(v, dtype.type(np.inf))])
    return np.unique(np.concatenate([v, -v, [np.nan]]).astype(dtype))


def arguments(name: str, dtype: np.dtype, count: int, seed: int = 0) -> list[np.ndarray]:
    """Edges, all exponents alike, and the interesting range; inside the domain (the edges apart)."""
    rng = np.random.default_rng(seed)
    bits = np.dtype(f"uint{8 * dtype.itemsize}")

    def one(low: float, high: float) -> np.ndarray:
        anything = rng.integers(0, np.iinfo(bits).max, count, dtype=bits, endpoint=True).view(dtype)
        small = (rng.standard_normal(count) * np.exp(rng.normal(0, 2, count))).astype(dtype)
        with np.errstate(all="ignore"):
            x = np.concatenate([anything, small, rng.uniform(low, high, 2 * count).astype(dtype)])
        limits = LIMITS.get(name, (-np.inf, np.inf))
        return x[(x >= limits[0]) & (x <= limits[1])]

    domain = DOMAINS.get(name, (-5, 5))
    if dtype != F32:
        domain = WIDE.get(name, domain)
    if name not in BINARY:
        return [np.concatenate([edges(dtype), one(*domain)])]
    x, y = (v.ravel() for v in np.meshgrid(edges(dtype), edges(dtype)))
    p, q = one(-5, 5), rng.permutation(one(-5, 5))
    n = min(len(p), len(q))
    p, q = p[:n], q[:n]
    if name == "pow":  # also near 1, with large exponents
        r, s = np.abs(1 + rng.normal(0, 1e-3, count)).astype(dtype), rng.normal(0, 3e4, count).astype(dtype)
        p, q = np.concatenate([np.abs(p), r]), np.concatenate([q, s])
    return [np.concatenate([x, p]), np.concatenate([y, q])]


def ulps_single(got: np.ndarray, want: np.ndarray, floor: float) -> np.ndarray:
    """Distances of float32 values from float64 ones; infinite where one is not finite and the other another, or zeros differ in sign."""
    with np.errstate(all="ignore"):
        nearest = want.astype(np.float32)
        unit = np.spacing(np.minimum(np.maximum(np.abs(nearest), np.float32(floor)), np.finfo(np.float32).max)).astype(np.float64)
        error = np.abs(got.astype(np.float64) - want) / unit
        agree = (got == nearest) | (np.isnan(got) & np.isnan(nearest))
        error = np.where(np.isfinite(nearest) & np.isfinite(got), error, np.where(agree, 0, np.inf))
    return np.where((got == 0) & (want == 0) & (np.signbit(got) != np.signbit(want)), np.inf, error)


def ulps_double(name: str, got: np.ndarray, xs: list[np.ndarray], floor: float) -> tuple[float, tuple[float, ...]]:
    """(the largest distance of finite float64 values from the exact ones, where)"""
    worst, where = 0.0, ()
    with mp.workdps(60):
        for *args, g in zip(*xs, got, strict=True):
            args = tuple(float(a) for a in args)
            if not all(np.isfinite(args)) or not np.isfinite(g):
                continue
            try:
                want = exact(name, *args)
            except (ValueError, ZeroDivisionError, OverflowError):  # what mpmath says at poles and far out
                continue
            if isinstance(want, mp.mpc) or not mp.isfinite(want) or abs(want) >= mp.mpf(2) ** 1024:
                continue
            error = float(abs(mp.mpf(float(g)) - want) / mp.mpf(float(np.spacing(max(abs(float(want)), floor)))))
            if error > worst:
                worst, where = error, args
    return worst, where


ALL = sorted(n for n in FUNCTIONS if not n.startswith("complex_"))
