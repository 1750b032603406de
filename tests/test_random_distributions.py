"""Distributions by rejection: numbers and their derivatives against the real JAX for the same keys, the derivative of gamma numbers against
the definition, moments, maps over keys and parameters, and errors."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import mpmath
import numpy as np
import pytest
from peer import NO_JAX, Arr, Call, Expr, Key, compare_all, peer, run_here

import steno as jax
from steno import lax, random

needs_jax = pytest.mark.skipif(peer() is None, reason=NO_JAX)

K = Key(np.array([123456789, 987654321], np.uint32))
RAW = Arr(np.array([17, 42], np.uint32))
ROW = Arr(np.array([0.02, 0.4, 1.0, 3.5, 60.0], np.float32))
N = 300


def R(name: str, *args: object, **kwargs: Any) -> Call:
    return Call(f"jax.random.{name}", *args, **kwargs)


FLOATS = [
    ("gamma", (0.3,)), ("gamma", (4.0,)), ("loggamma", (0.01,)), ("loggamma", (7.0,)), ("beta", (0.5, 2.5)), ("chisquare", (3.0,)),
    ("f", (3.0, 8.0)), ("t", (2.5,)), ("generalized_normal", (3.0,)), ("generalized_normal", (2,)), ("ball", (3,)), ("ball", (2, 1.5)),
    ("ball", (2, 1)), ("dirichlet", (Arr(np.array([0.1, 1.0, 5.0], np.float32)),)),
]  # fmt: skip


@needs_jax
def test_floats_against_jax() -> None:
    calls = [R(name, K, *args, shape=(N,)) for name, args in FLOATS]
    calls += [R(name, K, 2.0, x64=True, shape=(5,)) for name in ("gamma", "loggamma", "t", "generalized_normal")]
    calls += [R("gamma", K, ROW), R("loggamma", RAW, ROW, shape=(4, 5)), R("chisquare", K, 2), R("t", K, ROW, shape=(0, 5))]
    calls += [R("beta", K, ROW, 2), R("f", K, ROW, ROW, (2, 5)), R("dirichlet", K, Arr(np.ones((2, 3))), (4, 2)), R("ball", K, 2)]
    compare_all(calls, rtol=1e-5, atol=1e-6)


@needs_jax
def test_edges_against_jax() -> None:
    edges = Arr(np.array([0.0, -1.0, np.nan, np.inf, 1e-6, 1e6], np.float32))
    calls = [R("gamma", K, edges), R("loggamma", K, Arr(np.array([1e-6, 1e-3, 1e6], np.float32)))]
    calls += [R("gamma", K, 2.0, shape=(50,), dtype=np.float16), R("poisson", K, Arr(np.array([0.0, -1.0, np.nan, 1e10], np.float32)))]
    n = Arr(np.array([-1.0, 10, np.inf, np.nan, 5.5, 0, 100], np.float32))
    calls += [R("binomial", K, n, p) for p in (0.5, 0.99, 1.5, -0.3)] + [R("binomial", K, n.value[1], Arr(np.float32([0.0, 1.0])))]
    compare_all(calls, rtol=2e-3, atol=1e-3)


def mostly_equal(calls: list[Call]) -> None:
    """Whole numbers: all but a few in ten thousand are equal (where rounding decides whether a number is accepted)."""
    server = peer()
    assert server is not None
    for call, want, got in zip(calls, server.batch(calls), run_here(calls), strict=True):
        assert (got.kind, got.dtype, got.shape, got.weak) == (want.kind, want.dtype, want.shape, want.weak), f"{call}: {got} {want}"
        assert np.sum(got.value != want.value) <= 5e-4 * got.value.size, call


@needs_jax
def test_counts_against_jax() -> None:
    means = Arr(np.array([0.1, 1.0, 9.9, 10.0, 30.0, 1000.0, 0.0], np.float32))
    chances = Arr(np.array([0.01, 0.3, 0.5, 0.7, 0.999], np.float32))
    calls = [R("poisson", K, means, (2000, 7)), R("poisson", RAW, 3), R("poisson", K, 12.5, x64=True, shape=(50,))]
    calls += [R("poisson", K, 4.0, (2000,), dtype=t) for t in (np.uint8, np.int64)] + [R("poisson", K, 3e3, (2000,))]
    calls += [R("binomial", K, n, chances, (2000, 5)) for n in (12, 40.0, 1e5)]
    calls += [R("binomial", RAW, 30, chances, x64=True), R("binomial", K, 100, 0.9, (5,), dtype=np.float16)]
    p = Arr(np.array([0.2, 0.3, 0.5], np.float32))
    calls += [R("multinomial", K, 300, p, shape=(500,)), R("multinomial", K, 9, Arr(np.float32([0, 1, 0])), unroll=3)]
    calls += [R("multinomial", K, Arr(np.array([20.0, 5.0], np.float32)), Arr(np.full((2, 3), 1 / 3, np.float32)))]
    calls += [R("geometric", K, chances, (2000, 5))]
    mostly_equal(calls)


@needs_jax
def test_derivatives_against_jax() -> None:
    a = Arr(np.linspace(0.05, 30, 40))
    calls = [
        Expr("jax.vmap(jax.grad(jax.random.gamma, 1), (None, 0))(k, a)", k=K, a=a),
        Expr("jax.vmap(jax.grad(jax.random.loggamma, 1), (None, 0))(k, a)", k=K, a=a, x64=True),
        Expr("jax.grad(lambda a: (jax.random.dirichlet(k, a) * jnp.arange(3)).sum())(jnp.array([.3, 2., 5.]))", k=K),
        Expr("jax.grad(lambda a, b: jax.random.f(k, a, b, (20,)).sum(), (0, 1))(5., 3.)", k=K),
        Expr("jax.grad(lambda p: jax.random.generalized_normal(k, p, (20,)).sum())(3.)", k=K),
        Expr("jax.jvp(lambda a: jax.random.t(k, a, (20,)), (3.,), (2.,))", k=K),
        Expr("jax.jit(jax.grad(lambda a: jax.random.gamma(k, a, (3, 2)).sum()))(jnp.array([.3, 2.]))", k=K),
        Expr("lax.random_gamma_grad(a, x)", a=a, x=Arr(np.linspace(0.1, 25, 40)), x64=True),
    ]
    compare_all(calls, rtol=5e-5, atol=1e-5)


def quantile_slope(a: float, x: float) -> float:
    """-(dP/da) / (dP/dx) from the definition, by differences in high precision."""
    with mpmath.workdps(40):
        a, x = mpmath.mpf(a), mpmath.mpf(x)
        h = a * mpmath.mpf(10) ** -12
        lower, upper = (mpmath.gammainc(v, 0, x, regularized=True) for v in (a - h, a + h))
        density = mpmath.exp((a - 1) * mpmath.log(x) - x - mpmath.loggamma(a))
        return float(-(upper - lower) / (2 * h) / density)


def test_gamma_derivative_from_the_definition() -> None:
    pairs = [(a, a * r) for a in (1e-3, 0.1, 0.9, 1.0, 2.0, 7.3, 100.0, 3000.0) for r in (0.3, 0.97, 1.0, 1.02, 2.5)]
    pairs += [(0.1, 8.0), (1e-3, 5.0), (0.5, 1e-30), (2.0, 40.0)]
    pairs = [p for p in pairs if abs(p[1] - p[0]) < 8 * p[0] ** 0.5 + 10]
    a, x = map(np.array, zip(*pairs, strict=True))
    want = np.array([quantile_slope(*p) for p in pairs])
    with jax.enable_x64(True):
        np.testing.assert_allclose(lax.random_gamma_grad(a, x), want, rtol=1e-12)
        # great shapes by the cube of a normal number agree with the series where the two meet
        meet = np.array([0.999e6, 1.001e6])
        for z in (-3.0, 0.0, 2.0):
            low, high = np.asarray(lax.random_gamma_grad(meet, meet + z * 1e3))
            assert abs(high - low) < 1e-5
    a, x = a.astype(np.float32), x.astype(np.float32)
    want = np.array([quantile_slope(float(b), float(y)) for b, y in zip(a, x, strict=True)])
    got = lax.random_gamma_grad(a, x)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, want, rtol=3e-7)
    np.testing.assert_array_equal(
        lax.random_gamma_grad(np.float32([1, -1, 1, np.nan]), np.float32([0, 1, -1, 1])), [0, np.nan, np.nan, np.nan]
    )


def test_loggamma_derivative_where_the_number_underflows() -> None:
    key, a = random.key(3), 1e-5
    y, slope = jax.value_and_grad(random.loggamma, 1)(key, a)
    assert y < -1000
    # x = (u Gamma(a + 1))^(1 / a) there
    np.testing.assert_allclose(slope, -y / a, rtol=1e-3)


def test_moments() -> None:
    key, n = random.key(0), 40_000
    for name, args, mean, variance in [
        ("gamma", (0.4,), 0.4, 0.4), ("gamma", (6.0,), 6.0, 6.0), ("beta", (2.0, 3.0), 0.4, 0.04), ("chisquare", (5.0,), 5.0, 10.0),
        ("t", (9.0,), 0.0, 9 / 7), ("poisson", (3.5,), 3.5, 3.5), ("poisson", (200.0,), 200.0, 200.0), ("binomial", (12, 0.3), 3.6, 2.52),
        ("binomial", (400, 0.8), 320.0, 64.0), ("generalized_normal", (2.0,), 0.0, 0.5), ("geometric", (0.25,), 4.0, 12.0),
    ]:  # fmt: skip
        x = np.asarray(getattr(random, name)(key, *args, shape=(n,)), np.float64)
        assert abs(x.mean() - mean) < 5 * (variance / n) ** 0.5, name
        assert abs(x.var() / variance - 1) < 0.12, name
    inside = np.asarray(random.ball(key, 3, 1.5, (n,)))
    radius = (np.abs(inside) ** 1.5).sum(-1)
    assert radius.max() <= 1 + 1e-5 and abs((radius ** (1 / 1.5) <= 0.5).mean() - 0.5**3) < 0.01
    counts = np.asarray(random.multinomial(key, 10, np.array([0.2, 0.3, 0.5]), shape=(n,)))
    assert (counts.sum(-1) == 10).all()
    np.testing.assert_allclose(counts.mean(0), [2, 3, 5], atol=0.05)
    np.testing.assert_allclose(
        np.asarray(random.dirichlet(key, np.array([1.0, 2.0, 5.0]), (n,))).mean(0), np.array([1, 2, 5]) / 8, atol=0.01
    )


def test_maps() -> None:
    keys = random.split(random.key(5), 3)
    a = np.float32([0.4, 1.0, 20.0])
    for f in (
        random.gamma,
        lambda k, a: random.beta(k, a, 1.5),
        lambda k, a: random.poisson(k, a, (4,)),
        lambda k, a: random.binomial(k, 10 * a, 0.3),
        jax.grad(random.gamma, 1),
    ):
        rows = np.stack([np.asarray(f(k, x)) for k, x in zip(keys, a, strict=True)])
        np.testing.assert_allclose(jax.vmap(f)(keys, a), rows, rtol=1e-5)
        np.testing.assert_allclose(jax.jit(jax.vmap(f))(keys, a), rows, rtol=1e-5)
    same = jax.vmap(random.gamma, (None, 0))(keys[0], a)
    np.testing.assert_allclose(same, [random.gamma(keys[0], x) for x in a], rtol=1e-5)


def test_narrow_floats() -> None:
    x = random.gamma(random.key(0), 3.0, (200,), ml_dtypes.bfloat16)
    assert x.dtype == ml_dtypes.bfloat16 and abs(np.asarray(x, np.float32).mean() - 3) < 0.6
    slope = jax.grad(lambda a: random.gamma(random.key(0), a, dtype=np.float16))(np.float16(3))
    assert slope.dtype == np.float16 and np.isfinite(slope)


@needs_jax
def test_errors_against_jax() -> None:
    three = Arr(np.ones(3, np.float32))
    calls: list[Any] = [
        R("gamma", K, 2, dtype=np.int32), R("gamma", K, three, (2,)), R("beta", K, three, Arr(np.ones(2))), R("gamma", K, 2.0, method="x"),
        R("poisson", K, 2.0, method="x"), R("poisson", K, 2.0, dtype=np.float32), R("poisson", K, three, (2,)), R("dirichlet", K, 2.0),
        R("dirichlet", K, Arr(np.ones((2, 3))), (3,)), R("binomial", K, 10, 0.3, dtype=np.int32), R("ball", K, 3.5), R("t", K, three, (2,)),
        Expr("jax.random.gamma(jax.random.split(k), 2.)", k=K), R("chisquare", 3, 2.0),
    ]  # fmt: skip
    compare_all(calls)


def test_errors() -> None:
    key = random.key(0)
    with pytest.raises(NotImplementedError, match="cannot be differentiated further"):
        jax.grad(jax.grad(random.gamma, 1), 1)(key, 2.0)
    with pytest.raises(TypeError, match="float dtypes"):
        lax.random_gamma_grad(1, 2)


@needs_jax
def test_bit_generators_against_jax() -> None:
    state = Arr(np.array([1, 2, 2**32 - 2, 4], np.uint32))
    calls = [
        Expr("lax.rng_bit_generator(k, shape, dtype=dtype, algorithm=a)", k=state, shape=shape, dtype=dtype, a=a)
        for a in (0, 1, 2)
        for shape, dtype in (
            ((6,), np.uint32), ((), np.uint32), ((2, 4), np.uint32), ((3, 4), np.uint32), ((3, 5), np.uint32), ((7, 3), np.uint32),
            ((4, 5, 3), np.uint32), ((5, 2, 3), np.uint16), ((9,), np.uint8), ((0,), np.uint32),
        )
    ]  # fmt: skip
    wide = Arr(np.array([1 << 40 | 5, 2**64 - 1], np.uint64))
    calls += [
        Expr("lax.rng_bit_generator(k, (3, 2), dtype=dtype, algorithm=a)", k=k, dtype=dtype, a=a, x64=True)
        for a in (0, 1)
        for k in (state, wide)
        for dtype in (np.uint64, np.uint32)
    ]
    calls += [
        Expr("lax.rng_bit_generator(k, (4,), algorithm=lax.RandomAlgorithm.RNG_THREE_FRY)", k=state),
        Expr("lax.rng_bit_generator(k, (4,), dtype=np.int32)", k=state),
    ]
    compare_all(calls)


def test_bit_generators() -> None:
    states = np.arange(8, dtype=np.uint32).reshape(2, 4)
    for algorithm in lax.RandomAlgorithm:
        after, bits = jax.vmap(lambda s, a=algorithm: lax.rng_bit_generator(s, (5,), algorithm=a))(states)
        for k in range(2):
            one = lax.rng_bit_generator(states[k], (5,), algorithm=algorithm)
            np.testing.assert_array_equal(after[k], one[0])
            np.testing.assert_array_equal(bits[k], one[1])
    with pytest.raises(TypeError, match=r"must be of type uint32\[4\] or uint64\[2\], got uint32\[2\]"):
        lax.rng_bit_generator(states[0, :2], (3,))
