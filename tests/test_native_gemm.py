"""Matrix products: exact on integers for every layout and remainder of the tiles; not a bit depends on layout, threads or instructions."""

from __future__ import annotations

import hashlib
import itertools
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import steno
from steno import lax

PACKAGE = str(Path(steno.__file__).parents[1])
SIZES = (1, 2, 3, 11, 12, 13, 16, 25, 31, 33, 49, 65, 100)
DEPTHS = (0, 1, 2, 15, 17, 255, 256, 257, 600)
LAYOUTS = ((0, 0), (1, 0), (0, 1), (1, 1))


def product(a: np.ndarray, b: np.ndarray, layout: tuple[int, int]) -> np.ndarray:
    """a @ b, each operand given transposed where `layout` says so."""
    x = np.ascontiguousarray(a.T) if layout[0] else a
    y = np.ascontiguousarray(b.T) if layout[1] else b
    contract = ((0 if layout[0] else 1,), (1 if layout[1] else 0,))
    return np.asarray(lax.dot_general(x, y, (contract, ((), ()))))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_exact_on_integers(dtype, layout):
    rng = np.random.default_rng(0)
    shapes = [(m, n, k) for m, n in itertools.product(SIZES, SIZES) for k in rng.choice(DEPTHS, 3)]
    shapes += [(1, 1030, 300), (1030, 1, 300), (13, 1030, 258), (205, 70, 40), (1, 1, 2048), (1, 1, 5000), (1, 1, 200_001)]
    with steno.enable_x64(True):
        for m, n, k in shapes:
            a, b = rng.integers(-8, 9, (m, k)), rng.integers(-8, 9, (k, n))
            np.testing.assert_array_equal(product(a.astype(dtype), b.astype(dtype), layout), a @ b, err_msg=f"{m} x {k} by {k} x {n}")


NARROW = list(itertools.product(("int8", "uint8"), repeat=2))


def other_product(
    dtypes: tuple[str, str], rng: np.random.Generator, m: int, n: int, k: int, layout: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Of bytes, sums in int32; of int32, whose sums wrap around; of complex numbers with small integers as parts: and the exact result."""
    if dtypes[0].startswith("complex"):
        a, b = (rng.integers(-8, 9, s) + 1j * rng.integers(-8, 9, s) for s in ((m, k), (k, n)))
    elif dtypes[0] in ("int32", "int64"):
        a, b = rng.integers(-(2**31), 2**31, (m, k)), rng.integers(-(2**31), 2**31, (k, n))
        if dtypes[0] == "int64":
            a, b = a * 2**31 + a, b * 2**30 - b
    else:
        a, b = (rng.integers(np.iinfo(d).min, np.iinfo(d).max + 1, s) for d, s in zip(dtypes, ((m, k), (k, n)), strict=True))
    x, y = a.astype(dtypes[0]), b.astype(dtypes[1])
    x = np.ascontiguousarray(x.T) if layout[0] else x
    y = np.ascontiguousarray(y.T) if layout[1] else y
    contract = ((0 if layout[0] else 1,), (1 if layout[1] else 0,))
    wanted = "int32" if dtypes in NARROW else dtypes[0]
    got = np.asarray(lax.dot_general(x, y, (contract, ((), ())), preferred_element_type=wanted))
    return got, (a @ b).astype(wanted)


@pytest.mark.parametrize(
    "dtypes", [*NARROW, ("int32", "int32"), ("int64", "int64"), ("complex64", "complex64"), ("complex128", "complex128")], ids="-".join
)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_other_dtypes_are_exact(dtypes, layout):
    rng = np.random.default_rng(4)
    shapes = [(m, n, int(rng.choice(DEPTHS))) for m, n in itertools.product((1, 2, 15, 16, 33, 49), (1, 3, 16, 31, 40))]
    shapes += [(1, 530, 300), (530, 1, 300), (100, 520, 1030), (33, 34, 5000)]
    with steno.enable_x64(True):
        for m, n, k in shapes:
            got, want = other_product(dtypes, rng, m, n, k, layout)
            np.testing.assert_array_equal(got, want, err_msg=f"{m} x {k} by {k} x {n}")


def chain(a: np.ndarray, b: np.ndarray) -> np.float64:
    """The canonical order for one element: ascending fused multiply-adds in blocks of 256. Products are exact in long double, and sums
    but for cases too rare for these inputs."""
    total = None
    for p in range(0, len(a), 256):
        acc = np.float32(0)
        for x, y in zip(a[p : p + 256], b[p : p + 256], strict=True):
            acc = np.float32(np.longdouble(x) * np.longdouble(y) + np.longdouble(acc))
        total = acc if total is None else np.float32(total + acc)
    return total


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(1, 37, 300), (37, 1, 300), (1, 70, 1100), (19, 1, 5000), (13, 33, 300), (16, 5, 300), (1, 1, 4700)])
def test_the_order_is_the_canonical_one(shape, layout):
    rng = np.random.default_rng(1)
    m, n, k = shape
    a, b = rng.normal(size=(m, k)).astype(np.float32), rng.normal(size=(k, n)).astype(np.float32)
    want = np.array([[chain(a[i], b[:, j]) for j in range(n)] for i in range(m)])
    np.testing.assert_array_equal(product(a, b, layout), want)


@pytest.mark.parametrize("k", [17, 256, 700])
def test_inner_products_of_many_rows(k):
    """Also of one row with each of the others, under what follows the product, and of rows that are columns."""
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(37, k)).astype(np.float32), rng.normal(size=(37, k)).astype(np.float32)
    dots = steno.vmap(lambda x, y: lax.dot(x, y))
    want = np.array([chain(x, y) for x, y in zip(a, b, strict=True)], np.float32)
    np.testing.assert_array_equal(dots(a, b), want)
    np.testing.assert_array_equal(steno.jit(lambda a, b: dots(a, b) * 2 + 1)(a, b), want * 2 + 1)
    np.testing.assert_array_equal(steno.jit(lambda a, b: dots(a.T, b))(np.ascontiguousarray(a.T), b), want)
    np.testing.assert_array_equal(steno.vmap(lax.dot, (0, None))(a, b[0]), [chain(x, b[0]) for x in a])
    with steno.enable_x64(True):
        whole = rng.integers(-9, 9, (2, 300, k)).astype(np.float64)
        np.testing.assert_array_equal(dots(*whole), (whole[0] * whole[1]).sum(1))


def bits() -> str:
    """A digest of products of many shapes, with the settings of this process."""
    rng = np.random.default_rng(2)
    h = hashlib.sha256()
    for dtype, (m, n, k) in itertools.product(
        ("float32", "float64"),
        [
            (7, 9, 5),
            (64, 64, 64),
            (1, 300, 520),
            (300, 1, 520),
            (130, 70, 257),
            (260, 280, 300),
            (5, 2100, 40),
            (1, 1, 3000),
            (1, 1, 200_001),
            (1, 2, 3000),
            (21, 1, 4500),
        ],
    ):
        a, b = rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(k, n)).astype(dtype)
        results = {product(a, b, layout).tobytes() for layout in LAYOUTS}
        assert len(results) == 1, f"{m} x {k} by {k} x {n}: the layout changes bits"
        h.update(results.pop())
    a, b = rng.normal(size=(2, 300, 700)).astype(np.float32)
    h.update(np.asarray(steno.vmap(lax.dot)(a, b)).tobytes())
    for m, n, k in [(3, 4, 5), (40, 50, 70), (130, 70, 257), (1, 300, 520)]:
        for dtypes in NARROW:
            h.update(other_product(dtypes, rng, m, n, k, (0, 1))[0].tobytes())
        for dtype, real in (("complex64", "float32"), ("complex128", "float64")):
            a, b = (rng.normal(size=(*s, 2)).astype(real).view(dtype)[..., 0] for s in ((m, k), (k, n)))
            results = {product(a, b, layout).tobytes() for layout in LAYOUTS}
            assert len(results) == 1, f"{dtype} {m} x {k} by {k} x {n}: the layout changes bits"
            h.update(results.pop())
    return h.hexdigest()


def test_no_bit_depends_on_threads_or_instructions():
    program = "import steno, test_native_gemm; steno.config.update('jax_enable_x64', True); print(test_native_gemm.bits())"
    found = {}
    for features, threads in itertools.product(("host", "avx2") if platform.machine() == "x86_64" else ("host",), ("1", "2", "3")):
        env = dict(
            os.environ, STENO_TARGET_FEATURES=features, STENO_NUM_THREADS=threads,
            PYTHONPATH=os.pathsep.join([PACKAGE, str(Path(__file__).parent)]),
        )  # fmt: skip
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, timeout=300)
        assert done.returncode == 0, done.stderr
        found[features, threads] = done.stdout.strip()
    assert len(set(found.values())) == 1, found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(3, 3, 3), (1, 4, 4), (4, 1, 4), (8, 4, 16), (1, 1, 2), (2, 16, 16), (32, 16, 1), (5, 0, 3)])
def test_products_that_are_written_out_have_the_bits_of_the_others(shape, dtype):
    """Subnormals too, which larger products flush. Among a batch a product is not written out."""
    m, n, k = shape
    rng = np.random.default_rng(3)
    tiny = np.finfo(dtype).tiny
    with steno.enable_x64(True):
        for scale in (1.0, tiny, tiny**0.5):
            a, b = ((rng.normal(size=s) * scale).astype(dtype) for s in ((m, k), (k, n)))
            whole = np.asarray(lax.dot_general(np.stack([a, a]), np.stack([b, b]), (((2,), (1,)), ((0,), (0,)))))
            for layout in LAYOUTS:
                assert product(a, b, layout).tobytes() == whole[1].tobytes()


def test_which_products_are_written_out():
    def calls(*shapes) -> bool:
        return "steno_gemm" in steno.jit(lambda x, y: x @ y).lower(*(np.ones(s, np.float32) for s in shapes)).compile().as_text("loops")

    assert not any(calls(*s) for s in [((3, 3), (3,)), ((3, 3), (3, 3)), ((8, 8), (8, 8)), ((16,), (16,)), ((2, 1), (1, 999))])
    assert all(calls(*s) for s in [((17,), (17,)), ((9, 8), (8, 8)), ((2, 3, 3), (2, 3, 3))])
