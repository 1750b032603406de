"""steno_top_k against a stable argsort: every dtype of keys, all paths, ties, sizes around a chunk, threads; and `lax.top_k` on it."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import steno
import steno.numpy as jnp
from steno import _native, lax
from steno.ops.sort import SELECTED

INTS = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
INF, NAN = np.inf, np.nan


def least(keys: np.ndarray, k: int) -> np.ndarray:
    out = np.full((*keys.shape[:-1], k), -1, np.int32)
    meta = np.array([out.size // max(k, 1), keys.shape[-1], k, _native.sort_code(keys.dtype)], np.int64)
    buffers = (ctypes.c_void_p * 2)(keys.ctypes.data, out.ctypes.data)
    f = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(_native.symbols()["steno_top_k"])
    assert f(buffers, meta.ctypes.data) == 0
    return out


def check(keys: np.ndarray, k: int) -> None:
    assert (least(keys, k) == np.argsort(keys, axis=-1, kind="stable")[..., :k]).all(), (keys.dtype, keys.shape, k)


def keys_of(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> np.ndarray:
    if name == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    d = np.dtype(name)
    wide = rng.integers(np.iinfo(d).min, np.iinfo(d).max, shape, dtype=d, endpoint=True)
    return np.where(rng.random(shape) < 0.5, wide, wide % d.type(7)).astype(d)


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("name", INTS)
def test_dtypes_and_sizes(name: str) -> None:
    rng = np.random.default_rng(0)
    for n in (1, 2, 31, 32, 33, 64, 65, 66, 67, 95, 96, 97, 98, 129, 1000, 20_000):
        keys = keys_of(rng, name, (3, n))
        for k in sorted({0, 1, min(2, n), min(17, n), n // 2, n - 1, n}):
            check(keys, k)


@pytest.mark.usefixtures("instruction_set")
@pytest.mark.parametrize("name", ["int8", "int32", "uint64"])
def test_arrangements(name: str) -> None:
    """Equal keys, extreme keys, keys of which each is below all before it, or all behind it."""
    d, n = np.dtype(name), 5000
    i = np.arange(n)
    for x in (0 * i, i, n - i, i % 2, np.minimum(i, n - i), i // 100, -(i // 100), (i == n - 1) - 1):
        for k in (1, 10, 63, 500, n):
            check((x % 128 if d.itemsize == 1 else x).astype(d), k)
    for value in (np.iinfo(d).min, np.iinfo(d).max):
        check(np.full((2, 300), value, d), 5)
        check(np.where(i % 97 == 96, np.iinfo(d).min, np.full(n, value, d)), 60)


@pytest.mark.usefixtures("instruction_set")
def test_threads() -> None:
    """Rows shared among threads, and a long row, parts of which have fewer than k elements."""
    rng = np.random.default_rng(1)
    for shape in ((500, 200), (1, 70_000), (2, 70_000)):
        for name in ("int32", "int64"):
            keys = keys_of(rng, name, shape)
            for k in (3, 150, shape[1] - 100):
                before = _native.swap_thread_limit(1)
                try:
                    alone = least(keys, k)
                    _native.swap_thread_limit(3)
                    together = least(keys, k)
                finally:
                    _native.swap_thread_limit(before)
                assert (alone == together).all()
            check(keys, k)


def reference(x: np.ndarray, k: int, axis: int) -> list[np.ndarray]:
    """By pairs of sign and magnitude: NaN, inf, ..., +0, -0, ..., -inf, -NaN."""
    bits = x.view(np.int32)
    order = np.argsort(~np.where(bits < 0, bits ^ 0x7FFFFFFF, bits), axis=axis, kind="stable")
    order = np.take(order, np.arange(k), axis=axis).astype(np.int32)
    return [np.take_along_axis(x, order, axis=axis), order]


def same(got: list, wanted: list[np.ndarray]) -> bool:
    return all(np.asarray(g).tobytes() == w.tobytes() for g, w in zip(got, wanted, strict=True))


@pytest.mark.parametrize(("shape", "axis"), [((3, 100), 1), ((100, 3), 0), ((2, 100, 2), 1)])
def test_order_on_both_sides_of_the_crossover(shape: tuple[int, ...], axis: int) -> None:
    rng = np.random.default_rng(2)
    x = rng.choice(np.array([NAN, -NAN, INF, -INF, 0.0, -0.0, 1.5, -2.0, 3.25], np.float32), shape)
    few = int(SELECTED * 100)
    for k in (0, few, few + 1):
        wanted = reference(x, k, axis)
        assert same(lax.top_k(x, k, axis=axis), wanted)
        assert same(steno.jit(lambda x, k=k: lax.top_k(x, k, axis=axis))(x), wanted)


def test_transformations_select() -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((4, 60)).astype(np.float32)
    values, positions = reference(x, 5, 1)
    assert same(steno.vmap(lambda row: lax.top_k(row, 5))(x), [values, positions])
    assert same([y.T for y in steno.jit(steno.vmap(lambda row: lax.top_k(row, 5), in_axes=1, out_axes=1))(x.T)], [values, positions])
    wanted = np.zeros_like(x)
    np.put_along_axis(wanted, positions, 2 * values, 1)
    assert (np.asarray(steno.grad(lambda x: jnp.sum(lax.top_k(x, 5)[0] ** 2))(x)) == wanted).all()


def test_wide_integers() -> None:
    x = np.random.default_rng(4).integers(-(1 << 63), (1 << 63) - 1, 200)
    x[::7] = x[0]
    with steno.enable_x64(True):
        for d in (np.int64, np.uint64):
            y = x.astype(d)
            order = np.argsort(np.invert(y), kind="stable")[:20]
            values, positions = lax.top_k(jnp.asarray(y), 20)
            assert (np.asarray(values) == y[order]).all() and (np.asarray(positions) == order).all()
