"""`steno.random` against the real JAX: keys, bits, uniform numbers, integers, booleans and permutations bit for bit, the rest within
1e-5."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from peer import NO_JAX, Arr, Call, Expr, Key, assert_same, peer, run_here

from steno import random

pytestmark = pytest.mark.skipif(peer() is None, reason=NO_JAX)

K = Key(np.array([123456789, 987654321], np.uint32))
RAW = Arr(np.array([17, 42], np.uint32))
KEYS = Key(np.arange(6, dtype=np.uint32).reshape(3, 2))
SHAPES = [(), (1,), (7,), (2, 3), (0,), (4, 1, 5), (33, 9)]
NARROW = {"bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "float8_e4m3", "float8_e3m4", "int4", "uint4", "int2", "uint2"}


def dtype(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name)) if name in NARROW else np.dtype(name)


def check(calls: list[Call | Expr], **options: float) -> None:
    server = peer()
    assert server is not None
    for call, got, want in zip(calls, run_here(calls), server.batch(calls), strict=True):
        assert_same(call, got, want, **options)


def R(name: str, *args: object, **kwargs: object) -> Call:
    return Call(f"jax.random.{name}", *args, **kwargs)


def test_keys() -> None:
    calls = []
    for x64 in (False, True):
        for seed in (0, 1, -1, 42, 2**31 - 1, 2**31, 2**32 - 1, 2**33 + 3, -(2**40), 2**63 - 1):
            calls += [R("key", seed, x64=x64), R("PRNGKey", seed, x64=x64)]
        for seed in (
            np.int8(-3),
            np.uint8(200),
            np.int32(-7),
            np.uint32(2**32 - 1),
            np.int64(2**40 + 1),
            np.uint64(2**63 + 9),
            np.bool_(True),
        ):
            calls += [R("key", seed, x64=x64), R("key", Arr(seed), x64=x64)]
    calls += [R("key", True), R("key", 3, impl="threefry2x32"), R("PRNGKey", 3, impl="threefry2x32")]
    check(calls)


def test_split_and_fold_in() -> None:
    calls = []
    for k in (K, RAW):
        calls += [R("split", k), *(R("split", k, n) for n in (0, 1, 3, 7, (), (2,), (2, 3), (0, 2)))]
        calls += [
            R("fold_in", k, d)
            for d in (0, 1, 7, 2**32 - 1, np.int32(-1), np.uint32(9), Arr(np.int32(-5)), Arr(np.uint8(255)), True, np.int8(-1), 2.5)
        ]
        calls += [R("clone", k), R("key_data", k), R("key_impl", k)]
    words = Arr(np.arange(12, dtype=np.uint32).reshape(2, 3, 2))
    calls += [R("wrap_key_data", words), R("wrap_key_data", words, impl="threefry2x32"), R("key_data", KEYS), R("clone", KEYS)]
    check(calls)


def test_original_layout() -> None:
    def original(source: str) -> Expr:
        return Expr(
            f"[jax.config.update('jax_threefry_partitionable', False), {source}, jax.config.update('jax_threefry_partitionable', True)]",
            k=K,
            x64=True,
        )

    calls = [original(f"jax.random.split(k, {n})") for n in (1, 2, 3, 5, (2, 3))]
    calls += [original(f"jax.random.bits(k, {shape}, 'uint{w}')") for shape in SHAPES for w in (8, 16, 32, 64)]
    check(calls)


@pytest.mark.parametrize("x64", [False, True])
def test_bits(x64: bool) -> None:
    names = ["uint8", "uint16", "uint32"] + ["uint64"] * x64
    calls = [R("bits", k, shape, dtype(d), x64=x64) for k in (K, RAW) for shape in SHAPES for d in names]
    check([*calls, R("bits", K, x64=x64), R("bits", K, 3, x64=x64), R("bits", RAW, (2,), x64=x64)])


@pytest.mark.parametrize(
    "name",
    ["float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "float8_e4m3", "float8_e3m4"],
)
def test_uniform(name: str) -> None:
    d, x64 = dtype(name), name == "float64"
    calls = [R("uniform", K, shape, d, x64=x64) for shape in SHAPES]
    for low, high in [(0, 1), (-0.37, 2.1), (3.0, 7.3), (1.0, 1.0), (2.0, -1.0), (-5, 5)]:
        calls += [R("uniform", K, (257,), d, low, high, x64=x64), R("uniform", RAW, (3, 5), d, minval=low, maxval=high, x64=x64)]
    low = Arr(np.array([-1, 0, 0.5], np.float32))
    calls += [R("uniform", K, (4, 3), d, low, 3.0, x64=x64), R("uniform", K, (4, 3), d, low, Arr(np.ones((4, 1), np.float32) * 3), x64=x64)]
    # with processors that have arithmetic of float16 JAX rounds x * (high - low) + low once, with others twice
    check(calls, atol=2**-8 if name == "float16" else 0.0)


def test_uniform_float16_rounds_each_operation() -> None:
    key = random.key(7)
    u = np.asarray(random.uniform(key, (1000,), np.float16))
    low, high = np.float16(-0.37), np.float16(2.1)
    want = np.maximum(u * (high - low) + low, low)
    np.testing.assert_array_equal(random.uniform(key, (1000,), np.float16, low, high), want)


def test_uniform_defaults() -> None:
    calls = [
        R("uniform", K),
        R("uniform", K, 5),
        R("uniform", K, (3,), float),
        R("uniform", K, (3,), np.float64),
        R("uniform", K, x64=True),
    ]
    check([*calls, R("uniform", K, (3,), minval=Arr(np.float16(0.5))), R("uniform", K, (3,), minval=Arr(0.25, weak=True))])


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("name", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "int4", "uint4"])
def test_randint(name: str, x64: bool) -> None:
    if name.endswith("64") and not x64:
        pytest.skip("no 64-bit integers")
    d = dtype(name)
    info = ml_dtypes.iinfo(d)
    low, high = max(int(info.min), -(2**31)), min(int(info.max), 2**31 - 1)
    calls = [R("randint", K, shape, 0, 5, d, x64=x64) for shape in SHAPES]
    for a, b in [(0, 1), (-7, 7), (low, high), (0, high), (low, 0), (3, 3), (5, 2), (0, 100), (-1000, 1000), (0, 256), (0, 70000)]:
        calls += [R("randint", K, (100,), a, b, d, x64=x64), R("randint", RAW, (3, 4), minval=a, maxval=b, dtype=d, x64=x64)]
    a, b = Arr(np.array([0, 1, 2], np.int8)), Arr(np.array([[7], [200]], np.uint8))
    calls += [R("randint", K, (2, 3), a, b, d, x64=x64), R("randint", K, (2, 3), 0.5, 10.7, d, x64=x64)]
    calls += [R("randint", K, (50,), Arr(np.uint32(0)), Arr(np.uint32(2**32 - 1)), d, x64=x64)]
    calls += [R("randint", K, (50,), Arr(np.int32(-5)), Arr(np.uint32(9)), d, x64=x64)]
    if x64:
        calls += [
            R("randint", K, (50,), -(2**62), 2**63 - 1, d, x64=True),
            R("randint", K, (50,), np.int64(3), np.int64(2**40), d, x64=True),
        ]
        calls += [R("randint", K, (50,), Arr(np.uint64(5)), Arr(np.uint64(2**64 - 1)), d, x64=True)]
    check(calls)


def test_randint_defaults() -> None:
    check(
        [
            R("randint", K, (5,), 0, 10),
            R("randint", K, (5,), 0, 10, x64=True),
            R("randint", K, 5, 0, 10),
            R("randint", K, (5,), np.int64(3), np.int64(2**40)),
        ]
    )


def test_bernoulli() -> None:
    calls = [
        R("bernoulli", K),
        R("bernoulli", RAW, 0.3),
        R("bernoulli", K, 0.3, (100,)),
        R("bernoulli", K, x64=True),
        R("bernoulli", K, 0.3, (9,), x64=True),
    ]
    p = np.linspace(0, 1, 12).reshape(3, 4)
    for d in ("float32", "float16", "bfloat16", "float64"):
        x = Arr(p.astype(dtype(d)))
        for mode in ("low", "high"):
            calls += [R("bernoulli", K, x, mode=mode, x64=d == "float64"), R("bernoulli", K, x, (5, 3, 4), mode=mode, x64=d == "float64")]
    check(
        [
            *calls,
            R("bernoulli", K, 1e-8, (1000,), "high"),
            R("bernoulli", K, Arr(0.7, weak=True), (3,)),
            R("bernoulli", K, 0.0),
            R("bernoulli", K, 1.0),
        ]
    )


def test_permutation() -> None:
    calls = [R("permutation", K, n) for n in (0, 1, 2, 10, 1000, np.int64(7), Arr(np.int32(5)), Arr(np.uint8(9)), -3)]
    calls += [R("permutation", K, 10, x64=True), R("permutation", RAW, 6, independent=True), R("permutation", K, 3000)]
    x = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    for axis in (0, 1, 2, -1, -3):
        calls += [R("permutation", K, Arr(x), axis), R("permutation", K, Arr(x), axis, True)]
    for d in ("int8", "bfloat16", "bool", "complex64", "int32"):
        calls += [R("permutation", K, Arr(np.arange(9).astype(dtype(d))))]
    check([*calls, R("permutation", K, Arr(np.zeros((0, 3), np.float32))), R("permutation", K, Arr(np.zeros((3, 0), np.float32)), 0)])


def test_choice() -> None:
    x, p = Arr(np.arange(12.0, dtype=np.float32).reshape(4, 3)), Arr(np.array([0.1, 0.2, 0.3, 0.4], np.float32))
    calls = [
        R("choice", K, 5),
        R("choice", K, 5, (3,)),
        R("choice", K, 5, (2, 2), replace=False),
        R("choice", RAW, x),
        R("choice", K, 7, (0,)),
    ]
    calls += [R("choice", K, x, shape, replace) for shape in ((), (3,), (2, 2)) for replace in (True, False)]
    calls += [R("choice", K, x, (6,), axis=1), R("choice", K, x, (3,), False, axis=1), R("choice", K, x, (2, 1), axis=-1)]
    calls += [R("choice", K, x, shape, replace, p) for shape in ((), (3,), (2, 2)) for replace in (True, False)]
    calls += [R("choice", K, 4, (50,), p=p), R("choice", K, 4, (3,), False, p, mode="high"), R("choice", K, x, (2,), False, p, 0, "low")]
    calls += [R("choice", K, Arr(np.arange(10)), (4,)), R("choice", K, 1000, (100,), p=Arr(np.full(1000, 1e-3, np.float32)))]
    check([*calls, R("choice", K, 4, (3,), p=p, x64=True), R("choice", K, 4, (3,), x64=True), R("choice", K, 4, (3,), False, p, x64=True)])


def test_categorical() -> None:
    x = Arr(np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32))
    calls = [
        R("categorical", K, x),
        R("categorical", K, x, 0),
        R("categorical", K, x, 0, (5, 4)),
        R("categorical", K, x, shape=(2, 5, 3)),
        R("categorical", RAW, x, -2),
    ]
    calls += [
        R("categorical", K, x, shape=(2, 3), replace=False),
        R("categorical", K, x, 0, (3, 4), False),
        R("categorical", K, x, 0, (3, 4), False, x64=True),
        R("categorical", K, x, mode="high"),
    ]
    calls += [
        R("categorical", K, Arr(np.zeros(5, np.float32)), shape=(100,)),
        R("categorical", K, x, x64=True),
        R("categorical", K, Arr(np.zeros((2, 3), np.float16))),
    ]
    check(calls)


LOC = Arr(np.array([0.5, 1.0, 2.0], np.float32))


@pytest.mark.parametrize("d", ["float32", "float64"])
def test_continuous(d: str) -> None:
    t, x64 = dtype(d), d == "float64"
    calls: list[Call] = []
    for name in ("normal", "exponential", "gumbel", "laplace", "logistic", "cauchy", "maxwell"):
        calls += [R(name, K, shape, t, x64=x64) for shape in ((), (5,), (2, 3), (0,), (200,))] + [
            R(name, RAW, (4,), x64=x64),
            R(name, K, x64=x64),
        ]
    for name in ("pareto", "rayleigh", "lognormal", "wald"):
        calls += [
            R(name, K, 1.5, (9,), t, x64=x64),
            R(name, K, LOC, dtype=t, x64=x64),
            R(name, K, LOC, (4, 3), t, x64=x64),
            R(name, K, 2, x64=x64),
        ]
    calls += [R("gumbel", K, (50,), t, "high", x64=x64), R("lognormal", K, x64=x64)]
    calls += [R("truncated_normal", K, a, b, (50,), t, x64=x64) for a, b in ((-1, 1), (0.5, 3.0), (-np.inf, 0.0), (2.0, 2.5))]
    calls += [R("truncated_normal", K, LOC, 3.0, (4, 3), t, x64=x64), R("truncated_normal", K, LOC, 3.0, x64=x64)]
    calls += [R("double_sided_maxwell", K, 1.0, 2.0, (5,), t, x64=x64), R("double_sided_maxwell", K, LOC, 2.0, (4,), t, x64=x64)]
    calls += [R("weibull_min", K, 1.0, 2.0, (5,), t, x64=x64), R("weibull_min", K, 2, 3, (5,), x64=x64)]
    calls += [R("triangular", K, 0.0, 0.5, 1.0, (50,), t, x64=x64), R("triangular", K, 0, LOC, 3, dtype=t, x64=x64)]
    check(calls, rtol=1e-5 if d == "float32" else 1e-12, atol=1e-5 if d == "float32" else 1e-12)


@pytest.mark.parametrize("d", ["complex64", "complex128"])
def test_complex_normal(d: str) -> None:
    check([R("normal", K, shape, dtype(d), x64=d == "complex128") for shape in ((), (50,))], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("d", ["bfloat16", "float16"])
def test_narrow_floats(d: str) -> None:
    step = float(ml_dtypes.finfo(dtype(d)).eps)
    check(
        [R(name, K, (100,), dtype(d)) for name in ("normal", "exponential", "laplace", "maxwell", "logistic", "gumbel")],
        rtol=4 * step,
        atol=4 * step,
    )


def test_discrete() -> None:
    calls = [
        R("rademacher", K, (50,)),
        R("rademacher", K, (5,), np.dtype("float32")),
        R("rademacher", K, x64=True),
        R("rademacher", RAW, 3),
    ]
    calls += [
        R("geometric", K, 0.3, (50,)),
        R("geometric", K, LOC, (4, 3)),
        R("geometric", K, 0.5, x64=True),
        R("geometric", K, 0.1, (9,), np.dtype("int16")),
    ]
    check(calls)


def test_errors() -> None:
    x = Arr(np.zeros((3, 4), np.float32))
    check(
        [
            R("key", 1.5), R("key", np.arange(3)), R("key", "a"), R("key", 2**65), R("key", 0, impl="foo"), R("key", 0, impl=3),
            R("key", K), R("PRNGKey", K),
            R("split", KEYS), R("split", x), R("split", Arr(np.zeros(2, np.int32))), R("split", 3), R("split", K, 2.5),
            R("fold_in", K, -1), R("fold_in", K, 2**32), R("fold_in", K, np.arange(3)), R("fold_in", KEYS, 1), R("fold_in", 3, 1),
            R("bits", K, (3,), np.dtype("int32")), R("bits", K, (3,), np.dtype("float32")), R("bits", KEYS),
            R("uniform", K, (3,), int), R("uniform", K, (3,), np.dtype("complex64")), R("uniform", K, (5,), minval=x),
            R("uniform", KEYS, (5,)),
            R("uniform", K, (1.5,)), R("normal", K, (), int), R("normal", 3), R("normal", K, (1.5,)), R("exponential", K, (2,), int),
            R("randint", K, (3,), 0, 10, float), R("randint", K, (3,), 0, 10, bool),
            R("randint", K, (2,), Arr(np.zeros((3, 4), np.int32)), 10),
            R("randint", K, (3,), 0, 2**40), R("bernoulli", K, x, (2,)), R("bernoulli", K, 1), R("bernoulli", K, 1j),
            R("bernoulli", K, 0.5, (3,), mode="foo"),
            R("permutation", K, 2.5), R("permutation", K, Arr(np.float32(3))), R("permutation", K, x, 2),
            R("choice", K, 0, (3,)), R("choice", K, 5, 4),
            R("choice", K, 5, (6,), replace=False), R("choice", K, x, (6,), replace=False),
            R("choice", K, x, (6,), axis=1, p=Arr(np.ones(3, np.float32) / 3)),
            R("categorical", K, x, 0, (5,)), R("categorical", K, x, replace=False, shape=(5, 3)),
            R("truncated_normal", K, 0.0, 1.0, dtype=int),
            R("wrap_key_data", x), R("wrap_key_data", Arr(np.zeros(3, np.uint32))), R("wrap_key_data", K), R("key_data", x),
            R("wrap_key_data", Arr(np.zeros((5, 2), np.uint32)), impl="foo"), R("laplace", K, (3,), int), R("gumbel", K, (3,), int),
        ]
    )  # fmt: skip
