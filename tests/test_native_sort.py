"""steno_sort against lexsort: every dtype, all paths, special values, stability, threads."""

from __future__ import annotations

import ctypes

import ml_dtypes
import numpy as np
import pytest

from steno import _native

pytestmark = pytest.mark.usefixtures("instruction_set")

FLOATS = ["float16", "bfloat16", "float32", "float64"]
NARROW = [
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float4_e2m1fn",
]
INTS = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "int4", "uint4", "int2", "uint2"]
COMPLEX = ["complex64", "complex128"]


def dtype_of(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def sort(arrays: list[np.ndarray], num_keys: int = 1) -> list[np.ndarray]:
    out = [np.ascontiguousarray(a).copy() for a in arrays]
    n = out[0].shape[-1]
    meta = np.array([out[0].size // max(n, 1), n, num_keys, len(out), *(_native.sort_code(a.dtype) for a in out)], np.int64)
    buffers = (ctypes.c_void_p * len(out))(*(a.ctypes.data for a in out))
    f = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(_native.symbols()["steno_sort"])
    assert f(buffers, meta.ctypes.data) == 0
    return out


def ranks(x: np.ndarray) -> list[np.ndarray]:
    """Keys for lexsort, the foremost last."""
    if x.dtype.kind == "c":
        return [*ranks(x.imag), *ranks(x.real)]
    wide = x if x.dtype.kind in "iub" else x.astype(np.int64) if "int" in x.dtype.name else x.astype(np.float64)
    if wide.dtype.kind != "f":
        return [wide]
    return [np.where(np.isnan(wide), 0, wide) + 0.0, np.isnan(wide)]


def expected(arrays: list[np.ndarray], num_keys: int = 1) -> list[np.ndarray]:
    order = np.lexsort([r for x in reversed(arrays[:num_keys]) for r in ranks(x)], axis=-1)
    return [np.take_along_axis(x, order, axis=-1) for x in arrays]


def check(arrays: list[np.ndarray], num_keys: int = 1) -> None:
    for got, wanted in zip(sort(arrays, num_keys), expected(arrays, num_keys), strict=True):
        assert got.tobytes() == wanted.tobytes()


def data(rng: np.random.Generator, name: str, shape: tuple[int, ...], specials: bool = True) -> np.ndarray:
    d = dtype_of(name)
    if name == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if d.itemsize == 1 and d not in ("int8", "uint8"):
        bits = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2, "float4_e2m1fn": 4, "float6_e2m3fn": 6, "float6_e3m2fn": 6}.get(name, 8)
        raw = rng.integers(0, 1 << bits, shape, dtype=np.uint8)
        return raw.astype(np.int8).astype(d) if "int" in name else raw.view(d)
    if name in INTS:
        info = np.iinfo(d)
        wide = rng.integers(info.min, info.max, shape, dtype=d, endpoint=True)
        return np.where(rng.random(shape) < 0.5, wide, wide % d.type(7)).astype(d)
    if name in COMPLEX:
        part = "float32" if name == "complex64" else "float64"
        return (data(rng, part, (*shape, 2), specials).round(1)).view(d)[..., 0]
    x = rng.normal(size=shape).astype(d)
    if specials:
        with np.errstate(all="ignore"):
            for value, p in (
                (np.nan, 0.05),
                (-np.nan, 0.02),
                (0.0, 0.1),
                (-0.0, 0.1),
                (np.inf, 0.02),
                (-np.inf, 0.02),
                (1e-45, 0.01),
                (-1e-45, 0.01),
            ):
                x = np.where(rng.random(shape) < p, np.array(value).astype(d), x)
    return x


@pytest.mark.parametrize("name", INTS + FLOATS + NARROW + COMPLEX)
@pytest.mark.parametrize("shape", [(1, 0), (1, 1), (3, 2), (1, 37), (40, 5), (33, 100), (2, 200), (1, 1000), (17, 600), (3, 9000)], ids=str)
def test_dtypes(name, shape):
    rng = np.random.default_rng(sum(shape))
    x = data(rng, name, shape)
    position = np.broadcast_to(np.arange(shape[1], dtype=np.int32), shape)
    check([x])
    check([x, position])
    check([x, position.astype(np.int64), data(rng, "bfloat16", shape), data(rng, "complex128", shape), position.astype(np.int8)])


@pytest.mark.parametrize("shape", [(1, 30), (1, 5000), (50, 40), (20, 1500)], ids=str)
def test_several_keys(shape):
    rng = np.random.default_rng(0)
    position = np.broadcast_to(np.arange(shape[1], dtype=np.int32), shape)
    for names in (
        ["int8", "float32"],
        ["bool", "bool", "float16"],
        ["complex64", "int2"],
        ["float64", "uint64"],
        ["float8_e5m2", "int64", "float32"],
    ):
        keys = [data(rng, n, shape) for n in names]
        check([*keys, position], len(keys))
        check(keys, len(keys))


@pytest.mark.parametrize("name", ["float32", "float64", "int32", "int8", "bfloat16", "complex64"])
def test_long_rows_in_pieces(name):
    before = _native.num_threads()
    rng = np.random.default_rng(1)
    try:
        for threads in (1, 2, 5):
            _native.set_num_threads(threads)
            x = data(rng, name, (1, 200_000))
            check([x])
            check([x, np.arange(200_000, dtype=np.int32)[None]])
            check([x, data(rng, "int16", x.shape), np.arange(200_000, dtype=np.int64)[None]], 2)
            check([data(rng, name, (300, 700)), data(rng, "uint8", (300, 700))])
    finally:
        _native.set_num_threads(before)


def test_orders():
    n = 20_000
    rng = np.random.default_rng(2)
    for x in (
        np.arange(n),
        np.arange(n)[::-1],
        np.zeros(n),
        np.arange(n) % 3,
        rng.integers(0, 2, n),
        np.r_[np.zeros(n - 1), -1],
        np.full(n, np.nan),
    ):
        for d in (np.float32, np.float64):
            check([x.astype(d)])
            check([x.astype(d), np.arange(n, dtype=np.int32)])
    for bits in range(256):  # each byte of the key matters
        check([(rng.integers(0, 2**32, 300, dtype=np.uint32) & np.uint32(0x01010101 * bits))])


def test_every_short_length():
    rng = np.random.default_rng(3)
    for n in [*range(2, 70), 127, 128, 129, 255, 257, 511, 512, 513, 1023, 1024, 1025]:
        check([data(rng, "float32", (18, n))])
        check([data(rng, "float32", (18, n)), np.broadcast_to(np.arange(n, dtype=np.int32), (18, n))])
        check([rng.integers(0, 2, (16, n), dtype=np.int32)])


def test_adversarial_orders():
    """Values that make bad pivots: organ pipes, sawtooth, few distinct values, already merged runs."""
    n = 50_000
    k = np.arange(n)
    for x in (np.minimum(k, n - k), k % 1000, k // 1000, (k % 2) * k, np.where(k % 16 == 8, k, n + k), k ^ (k >> 3), (k * 7919) % n):
        for d in (np.uint32, np.uint64, np.float32):
            check([x.astype(d)])
            check([x.astype(d), k.astype(np.int32)])


def test_codes():
    assert [_native.sort_code(dtype_of(n)) for n in ("bool", "float32", "complex128", "int4")] == [0, 10, 13, 27]
    with pytest.raises(TypeError, match="no order"):
        _native.sort_code(np.dtype("M8[s]"))
    with pytest.raises(AttributeError):
        _native.sort_code(3)
