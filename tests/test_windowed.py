"""Sliding windows (pooling), convolutions and Fourier transforms: rules against finite differences, dot products and loops; random
geometries against the specification; results that do not depend on threads, vector width or jit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import steno
import steno.numpy as snp
from steno import lax
from steno.core.aval import ShapedArray
from steno.core.config import enable_x64
from steno.core.op import Op
from steno.core.trace import trace_to_jaxpr
from steno.ops import convolution, fft, reduce_window as rw, window_select as ws
from steno.ops.arithmetic import add, mul
from steno.testing import check_rules

F64 = np.dtype(np.float64)
ROOT = Path(__file__).resolve().parent.parent


def apart(x: np.ndarray, seed: int) -> np.ndarray:
    """Values of the shape that are far from each other, so that extrema do not change places."""
    rng = np.random.default_rng([seed, *x.shape])
    return np.asarray(rng.permutation(x.size).reshape(x.shape) * 0.37 + 0.1 * rng.random(x.shape))


def small_samples(op: Op, every: int) -> Iterable[tuple[list[Any], dict[str, Any]]]:
    for k, (args, params) in enumerate(op.samples()):
        if k % every == 0 and all(np.asarray(a).dtype in (np.float32, np.int32) and np.size(a) <= 200 for a in args):
            yield [apart(a, n) if a.dtype == np.float32 else a for n, a in enumerate(map(np.asarray, args))], params


@pytest.mark.parametrize(
    "op",
    [rw.window_patches, rw.window_unpatch, rw.reduce_window_sum, ws.window_put, ws.select_and_gather_add, ws.select_and_scatter_add],
    ids=lambda op: op.name,
)
def test_rules_of_windows(op: Op) -> None:
    for args, params in small_samples(op, 5):
        check_rules(op, args, params | {"fill": "zero"} if "fill" in params else params)


@pytest.mark.parametrize("op", [rw.reduce_window_max, rw.reduce_window_min], ids=lambda op: op.name)
def test_rules_of_extrema(op: Op) -> None:
    checked = 0
    for args, params in small_samples(op, 3):
        if np.isfinite(op.oracle(*args, **params)).all():
            check_rules(op, args, params)
            checked += 1
    assert checked > 3


def test_rules_of_taking() -> None:
    for args, params in small_samples(ws.window_take, 5):
        check_rules(ws.window_take, args, params, elements=[[args[0] + 1, args[1]]])


@pytest.mark.parametrize("fold", [lambda p, x: [mul(p, x)], lambda p, x: [add(p, mul(x, x))]], ids=["product", "squares"])
def test_rules_of_folds_by_a_computation(fold: Any) -> None:
    with enable_x64(True):
        jaxpr = trace_to_jaxpr(fold, [ShapedArray((), F64)] * 2)
        for k, (shape, params) in enumerate(rw._window_samples(((3, 4), (5,)))):
            if k % 5 == 0:
                x = apart(np.empty(shape), 1) * 0.3 + 0.5
                check_rules(rw.reduce_window, [x, np.float64(0.5)], dict(params, jaxpr=jaxpr, consts=()), order=1)


def test_rules_of_convolutions() -> None:
    rng = np.random.default_rng(0)
    samples = [(a, p) for a, p in convolution.conv_general_dilated.samples() if all(x.dtype == F64 and x.size <= 1500 for x in a)]
    assert len(samples) > 20
    for k, (args, params) in enumerate(samples):
        check_rules(convolution.conv_general_dilated, [rng.standard_normal(a.shape) for a in args], params, order=2 if k % 6 == 0 else 1)


def test_rules_of_transforms() -> None:
    for args, params in fft.fft.samples():
        if args[0].dtype in (np.float64, np.complex128) and args[0].size <= 40:
            check_rules(fft.fft, args, params, order=1)


def test_a_mapped_axis_of_no_elements() -> None:
    x, w = snp.ones((0, 1, 2, 5)), snp.ones((0, 3, 2, 2))
    f = lambda x, w: lax.conv(x, w, (1,), "SAME")  # noqa: E731
    assert steno.vmap(f)(x, w).shape == (0, 1, 3, 5)


# random geometries


def random_convolution(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    rank = int(rng.integers(0, 4))
    groups = int(rng.choice([1, 1, 1, 2, 3]))
    batches, features = (groups, 1) if rng.random() < 0.3 else (1, groups)
    c, o = int(rng.choice([1, 2, 3, 5, 20])), int(rng.choice([1, 2, 5, 9, 17, 40])) * groups
    sizes = [int(rng.integers(1, (0, 40, 12, 7)[rank] + 1)) for _ in range(rank)]
    window = [int(rng.integers(1, 6)) for _ in range(rank)]
    specs = [tuple(int(v) for v in rng.permutation(rank + 2)) for _ in range(3)]
    kind = rng.random()
    if kind < 0.4:
        specs = [tuple(range(rank + 2))] * 3
    elif kind < 0.7:
        last = (0, rank + 1, *range(1, rank + 1))
        specs = [last, (rank + 1, rank, *range(rank)), last]

    def laid_out(shape: tuple[int, ...], spec: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(shape[spec.index(d)] for d in range(len(spec)))

    params = convolution._params(
        rank,
        window_strides=tuple(int(rng.integers(1, 4)) for _ in range(rank)),
        padding=tuple((int(rng.integers(-2, 9)), int(rng.integers(-2, 9))) for _ in range(rank)),
        lhs_dilation=tuple(int(rng.choice([1, 1, 2, 3])) for _ in range(rank)),
        rhs_dilation=tuple(int(rng.choice([1, 1, 2, 3])) for _ in range(rank)),
        dimension_numbers=convolution.ConvDimensionNumbers(*specs),
        feature_group_count=features,
        batch_group_count=batches,
    )
    dtype = rng.choice(["float32", "float64"])
    x = rng.integers(-3, 4, laid_out((int(rng.integers(1, 4)) * batches, c * features, *sizes), specs[0])).astype(dtype)
    w = rng.integers(-3, 4, laid_out((o, c, *window), specs[1])).astype(dtype)
    return x, w, params


def test_random_convolutions() -> None:
    """Small integers, so that every order of sums is exact; memory that was freed before holds NaNs."""
    rng = np.random.default_rng(3)
    op = convolution.conv_general_dilated
    with enable_x64(True):
        for _ in range(250):
            x, w, params = random_convolution(rng)
            want = op.oracle(x, w, **params)
            poison = [snp.full((100_000,), np.nan) for _ in range(2)]
            del poison
            got = np.asarray(op(snp.asarray(x), snp.asarray(w), **params))
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want, err_msg=f"{x.shape} {w.shape} {params}")


PROGRAM = """
import hashlib, sys
import numpy as np
import steno, steno.numpy as snp
from steno import lax
rng = np.random.default_rng(5)
digest = hashlib.sha256()
def show(*arrays):
    for a in arrays:
        digest.update(np.ascontiguousarray(a).tobytes())
f = lambda shape: snp.asarray(rng.standard_normal(shape).astype(np.float32))
for numbers, x, w in [
    (("NHWC", "HWIO", "NHWC"), (3, 17, 19, 40), (3, 3, 40, 70)),
    (("NHWC", "HWIO", "NHWC"), (2, 33, 20, 3), (7, 7, 3, 33)),
    (("NCHW", "OIHW", "NCHW"), (2, 40, 28, 28), (20, 40, 3, 3)),
    (("NCHW", "OIHW", "NCHW"), (1, 1, 60, 70), (1, 1, 12, 11)),
    (("HWCN", "OHWI", "NCHW"), (12, 13, 9, 3), (18, 2, 3, 9)),
]:
    for strides, padding in [((1, 1), "SAME"), ((2, 2), "VALID")]:
        g = lambda a, b: lax.conv_general_dilated(a, b, strides, padding, dimension_numbers=numbers)
        a, b = f(x), f(w)
        y = g(a, b)
        assert np.array_equal(y, steno.jit(g)(a, b))
        da, db = steno.grad(lambda a, b: (g(a, b) ** 2).sum(), (0, 1))(a, b)
        show(y, da, db)
x = f((4, 40, 41, 9))
pool = lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
mean = lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 9, 9, 1), (1, 1, 1, 1), "SAME")
for h in (pool, mean):
    assert np.array_equal(h(x), steno.jit(h)(x))
    show(h(x), steno.grad(lambda x: (h(x) ** 3).sum())(x))
show(snp.fft.fft(f((37, 1000))), snp.fft.rfft2(f((60, 64))), snp.fft.ifft2(f((33, 91)) * 1j), snp.fft.irfft(f((19, 33)) + 0j))
show(snp.fft.fft(f((20000,))), snp.fft.ifft(f((20000,)) * 1j), snp.fft.irfft(f((2, 10001)) + 0j, 20000))
print(digest.hexdigest())
"""


def test_results_are_the_same_on_all_threads_and_vectors() -> None:
    found = {}
    for threads, features in [("1", "host"), ("2", "host"), ("2", "avx2")]:
        environment = os.environ | {
            "PYTHONPATH": str(ROOT / "src"), "STENO_NUM_THREADS": threads, "STENO_TARGET_FEATURES": features, "STENO_CACHE": "0",
        }  # fmt: skip
        done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, timeout=300)
        assert done.returncode == 0, done.stderr[-2000:]
        found[threads, features] = done.stdout
    assert len(set(found.values())) == 1, found


# what the lowering promises


def test_extrema_choose_the_first_of_equals_and_nothing_outside() -> None:
    pool = lambda x: lax.reduce_window(x, -np.inf, lax.max, (3,), (1,), "SAME").sum()  # noqa: E731
    assert steno.grad(pool)(snp.ones(6)).tolist() == [2, 1, 1, 1, 1, 0]
    assert steno.grad(pool)(snp.full(6, -np.inf)).tolist() == [2, 1, 1, 1, 1, 0]
    assert steno.grad(pool)(snp.asarray([1.0, 5.0, np.nan, 3.0, 2.0, np.nan])).tolist() == [0, 1, 1, 2, 0, 2]
    low = lambda x: lax.reduce_window(x, np.inf, lax.min, (2, 2), (2, 2), "VALID").sum()  # noqa: E731
    assert steno.grad(low)(snp.asarray([[3.0, 1.0], [1.0, 2.0]])).tolist() == [[0, 1], [0, 0]]


def test_large_windows_of_extrema() -> None:
    rng = np.random.default_rng(1)
    x = snp.asarray(rng.permutation(9 * 11).reshape(9, 11).astype(np.float32))
    pool = lambda x: lax.reduce_window(x, -np.inf, lax.max, (7, 8), (1, 2), "SAME")  # noqa: E731
    t = snp.asarray(rng.standard_normal((9, 11)).astype(np.float32))
    y, dy = steno.jvp(pool, (x,), (t,))
    flat = dict(zip(np.asarray(x).ravel().tolist(), np.asarray(t).ravel().tolist(), strict=True))
    assert np.array_equal(dy, np.vectorize(flat.__getitem__)(np.asarray(y)).astype(np.float32))
    (cotangent,) = steno.vjp(pool, x)[1](snp.ones_like(y))
    counts = {v: 0 for v in flat}
    for v in np.asarray(y).ravel().tolist():
        counts[v] += 1
    assert np.asarray(cotangent).ravel().tolist() == [counts[v] for v in np.asarray(x).ravel().tolist()]


def test_a_computation_may_close_over_a_number() -> None:
    scale = snp.float32(2)
    y = lax.reduce_window(snp.arange(4.0), 0.0, lambda p, x: p + scale * x, (2,), (1,), "VALID")
    assert y.tolist() == [2, 6, 10]


def test_infinite_weights_meet_padding_as_zeros() -> None:
    w = snp.asarray([[[np.inf, 1.0]]])
    y = lax.conv_general_dilated(snp.ones((1, 1, 2)), w, (1,), ((1, 0),))
    assert np.isnan(y[0, 0, 0]) and y[0, 0, 1] == np.inf


def test_transforms_of_real_numbers_are_half_the_work() -> None:
    text = str(steno.make_jaxpr(lambda x: snp.fft.fft(x))(snp.ones((3, 8))))
    assert "fft_type=0" in text and "convert_element_type" not in text
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 8, 15, 64, 101):
        x = rng.standard_normal((2, n)).astype(np.float32)
        np.testing.assert_allclose(snp.fft.fft(snp.asarray(x)), np.fft.fft(x), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(snp.fft.fft2(snp.asarray(x)), np.fft.fft2(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_transforms_of_all_kinds_of_lengths(dtype: str) -> None:
    """In lanes (small factors, at least 8 rows), as a matrix (long), by NumPy (the others); along the last axis and along others."""
    rng = np.random.default_rng(2)
    close = {"rtol": 0, "atol": 4 * np.finfo(dtype).eps}

    def check(name: str, x: np.ndarray, axis: int, **given: int) -> None:
        got = np.asarray(getattr(snp.fft, name)(snp.asarray(x), axis=axis, **given))
        want = getattr(np.fft, name)(x.astype(np.float64 if x.dtype.kind == "f" else np.complex128), axis=axis, **given)
        scale = np.abs(want).max()
        np.testing.assert_allclose(got / scale, want / scale, err_msg=f"{name} {x.shape} axis {axis} {given}", **close)

    with enable_x64(True):
        lengths = [1, 2, 3, 5, 7, 8, 11, 12, 13, 17, 26, 30, 49, 64, 91, 121, 169, 210, 512, 1000]
        cases = [(n, shape, axis) for n in lengths for shape, axis in [((9, n), 1), ((2, n, 19), 1), ((3, n), 1)]]
        cases += [(n, (n,), 0) for n in (4100, 4112, 6000, 20000, 32768, 59049)]
        for n, shape, axis in cases:
            x = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
            check("fft", x, axis)
            check("ifft", x, axis)
            check("rfft", x.real.copy(), axis)
            check("irfft", np.take(x, range(n // 2 + 1), axis), axis, n=n)
