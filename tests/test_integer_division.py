"""Quotients, remainders and greatest common divisors of integers against Python's, where rounding in floats could show."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import steno
from steno import lax, numpy as jnp

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@pytest.fixture(autouse=True)
def _x64():
    with steno.enable_x64(True):
        yield


def numbers(dtype: str) -> list[int]:
    """Small ones, the ends, and neighbours of powers of two at which floats and halves end."""
    i = np.iinfo(dtype)
    powers = [s * 2**k + t for s in (1, -1) for k in (7, 12, 15, 24, 26, 31, 32, 51, 52, 53, 62, 63) for t in (-1, 0, 1)]
    return sorted(v for v in {*range(-9, 10), i.max, i.max - 1, i.min, i.min + 1, *powers} if i.min <= v <= i.max)


def operands(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of `numbers`; random ones of all lengths; multiples n m and n m - 1 of m."""
    i, rng = np.iinfo(dtype), np.random.default_rng(3)
    e = np.array(numbers(dtype), object)
    x, y = (m.ravel() for m in np.meshgrid(e, e))
    a, b = (
        rng.integers(i.min, i.max, 4000, dtype=dtype, endpoint=True) >> rng.integers(0, i.bits - 1, 4000).astype(dtype) for _ in range(2)
    )
    n, m = (rng.integers(1, 2 ** ((i.bits - 1) // 2), 4000).astype(object) for _ in range(2))
    out = np.concatenate([x, a.astype(object), n * m, n * m - 1]), np.concatenate([y, b.astype(object), m, m])
    return out[0].astype(dtype), out[1].astype(dtype)


def quotient(x: int, y: int, i: np.iinfo) -> int:
    if y == 0:
        return -1 if i.min else i.max
    q = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    return i.min if q > i.max else q


def remainder(x: int, y: int, i: np.iinfo) -> int:
    return x if y == 0 else abs(x) % abs(y) * (-1 if x < 0 else 1)


def divisor(x: int, y: int, i: np.iinfo) -> int:
    g = math.gcd(x, y)
    return -g if g > i.max else g


def wanted(f, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    i = np.iinfo(x.dtype)
    return np.array([f(a, b, i) for a, b in zip(x.tolist(), y.tolist(), strict=True)], x.dtype)


FUNCTIONS = [(lax.div, quotient), (lax.rem, remainder), (jnp.gcd, divisor)]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize(("function", "of_python"), FUNCTIONS, ids=lambda f: getattr(f, "__name__", None))
def test_arrays(function, of_python, dtype: str):
    x, y = operands(dtype)
    want = wanted(of_python, x, y)
    np.testing.assert_array_equal(function(x, y), want)
    np.testing.assert_array_equal(steno.jit(function)(x, y), want)
    np.testing.assert_array_equal(steno.jit(function, compiler_options={"fast_math": True})(x, y), want)
    # in scalar code
    got = steno.jit(lambda x, y: lax.map(lambda v: function(v[0], v[1]), (x, y)))(x[:500], y[:500])
    np.testing.assert_array_equal(got, want[:500])


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize(("function", "of_python"), FUNCTIONS[:2], ids=lambda f: getattr(f, "__name__", None))
def test_by_a_constant(function, of_python, dtype: str):
    x, _ = operands(dtype)
    for c in (3, 7, -7, 10, 1, -1, 8, -8, 0, 1_000_003, 2**40 + 1, np.iinfo(dtype).max, np.iinfo(dtype).min):
        if np.iinfo(dtype).min <= c <= np.iinfo(dtype).max:
            got = steno.jit(lambda v, c=c: function(v, np.dtype(dtype).type(c)))(x)
            np.testing.assert_array_equal(got, wanted(of_python, x, np.full_like(x, c)), err_msg=str(c))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_every_pair_of_bytes_has_its_divisor(dtype: str):
    v = np.arange(np.iinfo(dtype).min, np.iinfo(dtype).max + 1).astype(dtype)
    x, y = (m.ravel() for m in np.meshgrid(v, v))
    np.testing.assert_array_equal(jnp.gcd(x, y), wanted(divisor, x, y))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("factor", [1, 2])
def test_the_longest_chains_end(dtype: str, factor: int):
    """Neighbours of Fibonacci's and of Pell's sequence take the most steps with truncated and with nearest quotients."""
    i = np.iinfo(dtype)
    a = [0, 1]
    while factor * a[-1] + a[-2] <= i.max:
        a.append(factor * a[-1] + a[-2])
    x, y = (m.ravel() for m in np.meshgrid(np.array(a, object).astype(dtype), np.array(a, object).astype(dtype)))
    np.testing.assert_array_equal(jnp.gcd(x, y), wanted(divisor, x, y))


def test_least_common_multiples():
    x, y = np.array([0, 0, 4, -6, 21, 2**31 - 1], "int32"), np.array([0, 5, 6, 4, 6, 1], "int32")
    np.testing.assert_array_equal(jnp.lcm(x, y), np.lcm(x, y))


def test_another_instruction_set():
    env = dict(os.environ, STENO_TARGET_FEATURES="avx2", PYTHONPATH=str(Path(steno.__file__).parents[1]))
    chosen = [f"{__file__}::test_arrays", f"{__file__}::test_the_longest_chains_end"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen], env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
