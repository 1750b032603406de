"""Scatters as native code: in which order and in which loops the points of an Update run."""

from __future__ import annotations

import random

import numpy as np
import pytest

import steno
from steno.backends import cpu
from steno.core.aval import ShapedArray
from steno.core.interpret import interpret, to_array, to_ndarray
from steno.core.op import OPS
from steno.core.trace import trace_to_jaxpr
from steno.ir.check_loops import check
from steno.ir.interp_loops import run as run_loops
from steno.ir.loops import Kernel, MapStage, Program
from steno.ir.parse_loops import parse
from steno.ir.print_loops import show
from steno.ops.gather import GatherScatterMode
from steno.ops.inline import combination
from steno.ops.windows import ScatterDimensionNumbers

NAMES = ("scatter", "scatter-add", "scatter-mul", "scatter-min", "scatter-max")
DTYPES = ("float32", "float32", "float64", "int8", "int32", "uint16", "float16", "bfloat16", "complex64", "bool")


def nest(program: Program) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The extents of the outer, the serial and the other loops of a program's last kernel."""
    kernel = program.statements[-1]
    assert isinstance(kernel, Kernel)
    (stage,) = kernel.stages
    assert isinstance(stage, MapStage)
    extents = [v.extent for v in stage.vars]
    return tuple(v.extent for v in kernel.outer), tuple(extents[: stage.serial]), tuple(extents[stage.serial :])


def scattered(rng: random.Random, name: str, dtype: str):
    """A random scatter: (operand, indices, updates), parameters. Axes of all sorts in any order; few places, many updates."""
    rank = rng.randrange(1, 4)
    axes = list(range(rank))
    batching = [rng.choice(axes)] if rank > 1 and rng.random() < 0.3 else []
    inserted = [d for d in axes if d not in batching and rng.random() < 0.5]
    shape = [rng.choice([1, 2, 3, 5, 20, 40]) for _ in axes]
    window = [d for d in axes if d not in batching and d not in inserted]
    sizes = [shape[d] if rng.random() < 0.6 else rng.randrange(1, shape[d] + 1) for d in window]
    index_rank = rng.randrange(1, 3)
    index_shape = [rng.choice([1, 2, 7, 30]) for _ in range(index_rank)]
    index_batching = [rng.randrange(index_rank)] if batching else []
    for d, k in zip(batching, index_batching, strict=True):
        index_shape[k] = shape[d]
    moving = [d for d in axes if d not in batching and (d in inserted or rng.random() < 0.7)]
    rng.shuffle(moving)
    update_window = sorted(rng.sample(range(index_rank + len(window)), len(window)))
    leading, inner = iter(index_shape), iter(sizes)
    updates = [next(inner) if a in update_window else next(leading) for a in range(index_rank + len(window))]
    data = np.random.default_rng(rng.randrange(1 << 30))

    def fill(s):
        return (data.integers(-3, 4, s) if dtype != "uint16" else data.integers(0, 9, s)).astype(dtype)

    top = max([shape[d] for d in moving], default=1)
    indices = data.integers(-1, min(top, 4) + 1, (*index_shape, len(moving))).astype(np.int32)
    params = dict(
        dimension_numbers=ScatterDimensionNumbers(
            tuple(update_window), tuple(inserted), tuple(moving), tuple(batching), tuple(index_batching)
        ),
        mode=rng.choice([GatherScatterMode.CLIP, GatherScatterMode.FILL_OR_DROP]),
        indices_are_sorted=False,
        unique_indices=False,
        update_jaxpr=None if name == "scatter" else combination(name.partition("-")[2], np.dtype(dtype)),
        update_consts=(),
    )
    return (fill(shape), indices, fill(updates)), params


@pytest.mark.parametrize("block", range(6))
def test_random_scatters(block):
    """The oracle, the compiled code and the interpreter of loop programs agree; the interpreter also finds points that run at once and
    meet."""
    for seed in range(25):
        rng = random.Random(1000 * block + seed)
        dtype = rng.choice(DTYPES)
        name = rng.choice(
            [n for n in NAMES if (dtype not in ("complex64",) or n[-3:] not in ("min", "max")) and (dtype != "bool" or n == "scatter")]
        )
        args, params = scattered(rng, name, dtype)
        with steno.enable_x64(True):
            avals = [ShapedArray(np.shape(x), x.dtype) for x in args]
            jaxpr = trace_to_jaxpr(lambda *a, name=name, params=params: [OPS[name](*a, **params)], avals)
            done = cpu.compile(jaxpr)
            program = done.compiled.program
            check(program)
            assert show(parse(show(program))) == show(program)
            (want,) = interpret(jaxpr, list(args))
            (got,) = (to_ndarray(x) for x in done.run([to_array(x, a) for x, a in zip(args, avals, strict=True)]))
            assert got.tobytes() == want.astype(got.dtype).tobytes(), (block, seed, name, dtype, params)
            if dtype not in ("float16", "bfloat16", "complex64", "bool"):
                (flat,) = run_loops(program, [x.reshape(-1) for x in args])
                assert flat.tobytes() == got.tobytes(), (block, seed)


def text_of(f, *args) -> Program:
    return cpu.compile(trace_to_jaxpr(lambda *a: [f(*a)], [ShapedArray(np.shape(x), np.asarray(x).dtype) for x in args])).compiled.program


X, ROWS = np.zeros((100, 64), np.float32), np.zeros((5000, 64), np.float32)
IDS, FEW = np.zeros(5000, np.int32), np.zeros(3, np.int32)


def test_rows_are_added_by_vector_code_and_threads_share_the_columns():
    assert nest(text_of(lambda x, i, u: x.at[i].add(u), X, IDS, ROWS)) == ((2,), (5000,), (32,))
    assert nest(text_of(lambda x, i, u: x.at[i].max(u), X, FEW, ROWS[:3])) == ((), (3,), (64,))  # too little work for threads
    deep = np.zeros((100, 3, 4), np.float32)
    assert nest(text_of(lambda x, i, u: x.at[i].add(u), deep, FEW, deep[:3])) == ((), (3,), (12,))


def test_columns_and_batches_are_apart():
    assert nest(text_of(lambda x, i, u: x.at[:, i].add(u), X, FEW, X[:, :3])) == ((100,), (3,), ())
    batch = np.zeros((7, 100, 64), np.float32)
    ids = np.zeros((7, 3), np.int32)
    program = text_of(steno.vmap(lambda x, i, u: x.at[i].add(u)), batch, ids, batch[:, :3])
    assert nest(program) == ((7,), (3,), (64,))


def test_single_elements_and_windows_that_move():
    assert nest(text_of(lambda x, i, u: x.at[i].add(u), X[:, 0], IDS, ROWS[:, 0])) == ((), (5000,), ())

    def moving(x, i, u):
        numbers = ScatterDimensionNumbers((1,), (), (0,))
        return steno.lax.scatter_add(x, i[:, None], u, numbers)

    assert nest(text_of(moving, X[:, 0], FEW, ROWS[:3, :16])) == ((), (3,), (16,))


def test_unique_indices_need_no_order():
    outer, serial, _ = nest(text_of(lambda x, i, u: x.at[i].add(u, unique_indices=True), X, IDS[:50], ROWS[:50]))
    assert outer == (50,) and not serial


def test_segment_sum_and_gradient_of_rows():
    data, ids = ROWS, IDS
    program = text_of(lambda d, s: steno.ops.segment_sum(d, s, num_segments=10), data, ids)
    assert nest(program) == ((2,), (5000,), (32,))
    program = text_of(steno.grad(lambda e, i: (e[i] ** 2).sum()), X, ids)
    assert nest(program) == ((2,), (5000,), (32,))


def test_indices_that_count_are_apart():
    def diagonal(x, u):
        i = steno.numpy.arange(40)
        return x.at[i, 2 * i % 7].add(u)

    outer, serial, _ = nest(text_of(diagonal, X, X[:40, 0]))
    assert not outer and not serial

    def labels(x, y, u):
        return x.at[steno.numpy.arange(100), y].add(u)

    assert nest(text_of(labels, X, IDS[:100], X[:, 0])) == ((), (), (100,))

    def shifted_rows(x, u):
        return x.at[steno.numpy.arange(3) + 1].add(u)

    assert nest(text_of(shifted_rows, X, X[:3]))[1] == ()

    def wraps(x, u):  # 200 + i is negative as int8
        return x.at[(steno.numpy.arange(100) + 100).astype(np.int8)].add(u)

    assert nest(text_of(wraps, X, X))[1] == (100,)
    x = np.arange(100 * 64, dtype=np.float32).reshape(100, 64)
    got = steno.jit(wraps)(x, x)
    want = np.array(x)
    for k, i in enumerate((np.arange(100) + 100).astype(np.int8).tolist()):
        if -100 <= i < 100:
            want[i] += x[k]
    np.testing.assert_array_equal(np.asarray(got), want)


@pytest.mark.parametrize("count", [1, 63, 64, 65, 66, 67, 200])
def test_single_elements_in_order(count):
    """Loops over single elements do several at once: sums of different sizes show a wrong order."""
    rng = np.random.default_rng(count)
    x, i = np.zeros(5, np.float32), rng.integers(-7, 7, count).astype(np.int32)
    u = (rng.standard_normal(count) * 10.0 ** rng.integers(-4, 5, count)).astype(np.float32)
    want = x.copy()
    for k, v in zip(i, u, strict=True):
        if -5 <= k < 5:
            want[k] += v
    np.testing.assert_array_equal(np.asarray(steno.jit(lambda x, i, u: x.at[i].add(u))(x, i, u)), want)
