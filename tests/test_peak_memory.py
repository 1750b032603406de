"""What `memory_analysis` says of small programs, one for each way of keeping intermediates small: structure, not time."""

from __future__ import annotations

import math

import numpy as np
import pytest
from check_transforms import backend

import steno
import steno.numpy as snp
from steno import lax
from steno.backends import cpu
from steno.compiler.check_plan import check_plan
from steno.core.aval import ShapedArray
from steno.core.config import debug_buffers
from steno.core.trace import trace_to_jaxpr

N = 48
MATRIX = N * N * 4


def data(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def temp(f, *args):
    return steno.jit(f).lower(*args).compile().memory_analysis().temp_size_in_bytes


def products(x):
    for _ in range(5):
        x = snp.tanh(x @ x)
    return x


def normalised(x):
    for _ in range(5):
        x = (x @ x) / snp.sqrt((x * x).sum())
    return x


def rows_normalised(x):
    for _ in range(4):
        x = x @ x
        x = snp.exp(x - x.max(1, keepdims=True))
        x = x / x.sum(1, keepdims=True)
    return x


def training_step(w, x):
    def loss(w):
        return (snp.maximum(snp.maximum(x @ w[0], 0) @ w[1], 0) ** 2).sum()

    return [p - 0.1 * g for p, g in zip(w, steno.grad(loss)(w), strict=True)]


def distances(x):
    d = x[:, None, :] - x[None, :, :]
    r = (d * d).sum(-1) + 1e-3
    return (d / (r * snp.sqrt(r))[..., None]).sum(1)


def weighted(x, y):
    """Rows of weights, each used for several columns."""
    e = snp.exp(x - x.max(1, keepdims=True))
    return ((e / e.sum(1, keepdims=True))[:, :, None] * y).sum(1)


def result_is_large(x):
    a = x @ x
    b = a @ a
    return snp.tile(b @ (b @ a), (2, 1))


CASES = {
    # A result takes over the operand's memory; of two that alternate one is the output's.
    "elementwise of products": (products, [data(N, N)], MATRIX),
    "with a norm between": (normalised, [data(N, N)], MATRIX + 128),
    "rows": (rows_normalised, [data(N, N)], MATRIX),
    # The gradients' memory, and that of all before them, is the outputs'.
    "outputs lend memory": (training_step, [[data(N, 2 * N), data(2 * N, N)], data(8, N)], 8 * 3 * N * 4),
    "a large output lends memory": (result_is_large, [data(N, N)], MATRIX),
    # A row that several columns are made with is nobody else's.
    "rows for columns": (distances, [data(N, 3)], 0),
    "rows of weights": (weighted, [data(N, 32), data(N, 32, 20)], 0),
}


@pytest.mark.parametrize("name", CASES)
def test_intermediates(name):
    f, args, most = CASES[name]
    args = steno.tree.map(snp.array, args)
    assert temp(f, *args) <= most
    flat, tree = steno.tree.flatten(args)
    with debug_buffers(True):  # the plan is checked, and what holds nothing is poisoned
        checked = steno.jit(lambda *a: f(*steno.tree.unflatten(tree, a)))(*flat)
    for got, want in zip(steno.tree.leaves(checked), steno.tree.leaves(f(*args)), strict=True):
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


def test_a_donated_argument_of_rows_is_taken_over():
    """As an intermediate is: softmax reads its row several times, before it is written."""

    def softmax(x):
        e = snp.exp(x - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    closed = trace_to_jaxpr(lambda x: [softmax(x)], [ShapedArray((N, N), np.dtype(np.float32))])
    made = cpu.compile(closed, donated=frozenset([0])).compiled
    assert made.aliases == ((0, 0),)
    check_plan(made.program, made.aliases)
    x = data(N, N)
    want = np.asarray(softmax(x))
    np.testing.assert_array_equal(np.asarray(steno.jit(softmax, donate_argnums=0)(snp.array(x))), want)


@pytest.mark.parametrize(
    ("shape", "window", "stride", "dilation", "padding"),
    [
        ((4, 24, 25, 32), (3, 3, 32, 24), 1, 1, "SAME"),
        ((4, 24, 25, 32), (3, 3, 32, 24), 2, 1, "SAME"),
        ((4, 24, 25, 32), (3, 3, 32, 24), 1, 2, [(2, 3), (1, 2)]),
        ((4, 24, 25, 32), (3, 3, 32, 24), 1, 1, [(-1, 2), (0, 0)]),
        ((4, 300, 16), (5, 16, 24), 1, 1, "SAME"),
        ((4, 300, 16), (4, 16, 24), 1, 1, [(3, 0)]),
        ((4, 300, 16), (2, 16, 24), 1, 301, [(301, 0)]),
    ],
)
def test_zeros_around_a_convolution_are_not_made(shape, window, stride, dilation, padding):
    x, w = data(*shape), data(*window)
    rank = len(shape) - 2
    numbers = ("NHWC", "HWIO", "NHWC") if rank == 2 else ("NWC", "WIO", "NWC")

    def f(x, w):
        return lax.conv_general_dilated(x, w, (stride,) * rank, padding, rhs_dilation=(dilation,) * rank, dimension_numbers=numbers)

    assert temp(f, x, w) == 0
    with backend("reference"):
        want = np.asarray(f(x, w))
    np.testing.assert_allclose(np.asarray(f(x, w)), want, rtol=1e-4, atol=1e-4)


def test_zeros_around_a_convolution_are_made_for_some_samples_at_a_time():
    """Where vectors run along positions."""
    x, w = data(8, 32, 24, 25), data(64, 32, 3, 3)

    def f(x, w):
        return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "CHWN"))

    assert temp(f, x, w) == 2 * 32 * 26 * 27 * 4
    with backend("reference"):
        want = np.asarray(f(x, w))
    np.testing.assert_allclose(np.asarray(f(x, w)), want, rtol=1e-4, atol=1e-3)


def test_residuals_of_a_scan_that_follow_from_others_are_not_kept():
    """Of 1 / (1 + exp(-x)) the exponential is kept, from which the quotient and its derivative are computed again."""
    length, width = 20, 64

    def loss(w, xs):
        def body(h, x):
            return (1 / (1 + snp.exp(-(h * w + x)))) * h, None

        return lax.scan(body, snp.ones(width), xs)[0].sum()

    row = length * width * 4
    assert temp(steno.grad(loss), data(width), data(length, width)) < 3 * row
    got = steno.jit(steno.grad(loss))(data(width), data(length, width))
    assert math.isfinite(float(got.sum()))
