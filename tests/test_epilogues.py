"""Products whose results are finished block by block: the same bits as one op after the other, whatever the threads and instructions, and
the plans are as they should be."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import steno
import steno.numpy as snp
from steno import _native, lax, nn
from steno.backends import cpu
from steno.compiler.check_plan import InvalidPlan, check_plan
from steno.core.aval import typeof
from steno.core.record import replace
from steno.core.trace import trace_to_jaxpr
from steno.ir.check_loops import InvalidProgram, check
from steno.ir.expr import Builder
from steno.ir.index import var
from steno.ir.interp_loops import run
from steno.ir.loops import CallThen, Kernel, LibraryCall, Loop, MapStage, Program, Store
from steno.ir.parse_loops import parse
from steno.ir.print_loops import show

PACKAGE = str(Path(steno.__file__).parents[1])


def array(*shape: int, dtype: str = "float32", scale: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(list(shape) + [7])
    if np.dtype(dtype).kind in "iu":
        return rng.integers(-9, 10, shape).astype(dtype)
    return (rng.normal(size=shape) * scale).astype(dtype)


def dense(x, w, b):
    return snp.tanh(x @ w + b)


def scores(q, k):
    return snp.einsum("bqd,bkd->bqk", q, k) * 0.125


def split_heads(x, w, b):
    return (x @ w + b).reshape(4, 75, 3, 7).transpose(0, 2, 1, 3)


def conv(x, w, b):
    return nn.relu(lax.conv_general_dilated(x, w, (1, 1), ((1, 1), (1, 1)), dimension_numbers=("NHWC", "HWIO", "NHWC")) + b)


BF16 = np.dtype(ml_dtypes.bfloat16).name
# name -> (function, arguments): each is one call with a kernel on its blocks
FUSED: dict[str, tuple[Callable, tuple[np.ndarray, ...]]] = {
    "columns": (dense, (array(40, 70), array(70, 300), array(300))),
    "rows": (dense, (array(200, 70), array(70, 100), array(100))),
    "many blocks": (lambda x, w: nn.relu(x @ w), (array(700, 30), array(30, 1500))),
    "wide blocks": (lambda x, w: nn.relu(x @ w), (array(300, 20), array(20, 2200))),
    "narrow": (dense, (array(300, 40), array(40, 3), array(3))),
    "residual": (lambda x, w, r: r + 2 * (x @ w), (array(130, 60), array(60, 90), array(130, 90))),
    "row bias": (lambda x, w, b: x @ w + b[:, None], (array(130, 60), array(60, 90), array(130))),
    "transposed operands": (lambda x, w, b: nn.relu(x.T @ w.T + b), (array(60, 100), array(80, 60), array(80))),
    "scalar": (lambda x, w, s: (x @ w) / s, (array(64, 64), array(64, 64), array())),
    "batch": (scores, (array(5, 120, 16), array(5, 130, 16))),
    "batch of small ones": (scores, (array(900, 9, 6), array(900, 5, 6))),
    "batch of tiny ones": (lambda x, y: x @ y * 1e-20, (array(300, 3, 3, scale=1e-20), array(300, 3, 3))),
    "batch of columns": (lambda x, y: nn.relu(x @ y), (array(7, 150, 20), array(7, 20, 1))),
    "softmax": (lambda q, k: nn.softmax(scores(q, k)), (array(6, 70, 16), array(6, 50, 16))),
    "mean": (lambda x, w: snp.mean(x @ w, axis=1), (array(150, 20), array(20, 30))),
    "column": (dense, (array(600, 50), array(50), array(600))),
    "row": (dense, (array(50), array(50, 700), array(700))),
    "nothing contracted": (dense, (array(100, 0), array(0, 80), array(80))),
    "subnormals": (lambda x, w: (x @ w) * 1e-20, (array(60, 40, scale=1e-12), array(40, 70, scale=1e-8))),
    "split heads": (split_heads, (array(300, 30), array(30, 21), array(21))),
    "integers": (lambda x, w, b: x @ w + b, (array(70, 30, dtype="int32"), array(30, 40, dtype="int32"), array(40, dtype="int32"))),
    BF16: (lambda x, w, b: nn.relu(x @ w + b), (array(90, 60, dtype=BF16), array(60, 200, dtype=BF16), array(200, dtype=BF16))),
    "float16": (lambda x, w: x @ w * 2, (array(90, 60, dtype="float16"), array(60, 20, dtype="float16"))),
    "two readers": (lambda x, w: (snp.exp(x @ w), x @ w), (array(70, 30), array(30, 100))),
    "two products": (lambda x, w, h, u: snp.tanh(x @ w + h @ u), (array(70, 30), array(30, 100), array(70, 40), array(40, 100))),
    "gradient": (lambda x, w, b: steno.grad(lambda w: snp.sum(dense(x, w, b)))(w), (array(70, 30), array(30, 100), array(100))),
}  # fmt: skip


def statements(program: Program) -> Iterator[object]:
    for s in program.statements:
        yield s
        if isinstance(s, Loop):
            yield from statements(s.body)


def compiled(f: Callable, *args: np.ndarray, donated: tuple[int, ...] = ()) -> Program:
    closed = trace_to_jaxpr(lambda *a: list(steno.tree.leaves(f(*a))), [typeof(x) for x in args])
    return cpu.compile(closed, donated=frozenset(donated)).compiled.program


def fused(f: Callable, *args: np.ndarray, donated: tuple[int, ...] = ()) -> list[CallThen]:
    return [s for s in statements(compiled(f, *args, donated=donated)) if isinstance(s, CallThen)]


def bits(f: Callable, args: Sequence[object]) -> list[bytes]:
    return [np.asarray(x).tobytes() for x in steno.tree.leaves(f(*args))]


@pytest.mark.parametrize("name", FUSED)
def test_bits_are_those_of_one_op_after_the_other(name):
    f, args = FUSED[name]
    assert fused(f, *args), compiled(f, *args)
    together = steno.jit(f)
    want = bits(f, [snp.asarray(x) for x in args])
    try:
        for threads in (1, 2, 3):
            _native.set_num_threads(threads)
            assert bits(together, args) == want, f"{threads} threads"
    finally:
        _native.set_num_threads(0)


def digest() -> str:
    return hashlib.sha256(b"".join(x for f, args in FUSED.values() for x in bits(steno.jit(f), args))).hexdigest()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="one kind of instructions")
def test_no_bit_depends_on_the_instructions():
    env = dict(os.environ, STENO_TARGET_FEATURES="avx2", PYTHONPATH=os.pathsep.join([PACKAGE, str(Path(__file__).parent)]))
    program = "import test_epilogues; print(test_epilogues.digest())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == digest()


# plans


@pytest.mark.parametrize("name", ["columns", "rows", "residual", "batch", "softmax", "column", "subnormals"])
def test_the_product_has_no_memory_of_its_own(name):
    f, args = FUSED[name]
    program = compiled(f, *args)
    (call,) = (s for s in program.statements if isinstance(s, CallThen))
    assert call.result is program.outputs[0]


def test_a_product_that_others_read_is_kept():
    for name in ("two readers", BF16):
        f, args = FUSED[name]
        (call,) = fused(f, *args)
        assert call.result not in {x.buffer for stage in call.kernel.stages for x in stage.stores}


def test_of_two_products_the_last_is_followed():
    f, args = FUSED["two products"]
    program = compiled(f, *args)
    assert [type(s) for s in program.statements] == [LibraryCall, CallThen]


def test_products_of_one_operand_are_each_followed():
    x, w = array(90, 40), [array(40, 50) + k for k in range(3)]
    assert len(fused(lambda x, *w: [nn.relu(x @ v) for v in w], x, *w)) == 3


def test_kernels_that_read_otherwise_are_not_fused():
    x, y = array(90, 40), array(40, 90)
    assert not fused(lambda x, y: (x @ y) + (x @ y).T, x, y)
    assert not fused(lambda x, y: snp.exp(x @ y).T, x, y)
    assert not fused(lambda x, y: snp.cumsum(x @ y, axis=0), x, y)
    assert not fused(lambda x, y: (x @ y)[::-1] * 2, x, y)
    assert not fused(lambda x, y: snp.sort(x @ y), x, y)
    assert not fused(lambda x, y: nn.softmax(x @ y), array(40, 30), array(30, 700))  # to be cut by columns
    assert not fused(conv, array(2, 20, 20, 8), array(3, 3, 8, 40), array(40))


def test_loops_fuse_in_their_bodies():
    def f(h, w, xs):
        def body(h, x):
            h = snp.tanh(h @ w + x)
            return h, h

        return lax.scan(body, h, xs)

    h, w, xs = snp.array(array(30, 40)), array(40, 40), array(7, 30, 40)
    assert len(fused(f, h, w, xs)) == 1
    for got, x in zip(steno.jit(f)(h, w, xs)[1], xs, strict=True):
        h = snp.tanh(h @ w + x)
        assert np.asarray(got).tobytes() == np.asarray(h).tobytes()


def test_donated_memory_is_taken_over_all_the_same():
    def step(w, x, g):
        return w - 0.1 * (x.T @ g)

    w, x, g = array(60, 70), array(50, 60), array(50, 70)
    assert len(fused(step, w, x, g, donated=(0,))) == 1
    given = snp.array(w)
    got = steno.jit(step, donate_argnums=0)(given, x, g)
    assert given.is_deleted()
    assert np.asarray(got).tobytes() == np.asarray(step(*map(snp.asarray, (w, x, g)))).tobytes()
    # here the product reads the memory until its end
    given, w = snp.array(array(60, 60)), array(60, 60) + 1
    want = np.asarray(snp.tanh(given @ w)).tobytes()
    assert np.asarray(steno.jit(lambda x, w: snp.tanh(x @ w), donate_argnums=0)(given, w)).tobytes() == want
    assert given.is_deleted()


# the statement


def a_program() -> Program:
    """relu of a product of 4 x 6 rows, in place."""
    return compiled(lambda x, w: nn.relu(x @ w), array(40, 20), array(20, 30))


def test_text_round_trips_and_runs():
    program = a_program()
    text = show(program)
    assert show(parse(text)) == text
    check(parse(text))

    def product(buffers, meta):
        x, w, out = buffers
        _, _, m, n, k, *_ = meta
        out[:] = (x.reshape(m, k) @ w.reshape(k, n)).ravel()
        return 0

    x, w = array(40, 20), array(20, 30)
    (got,) = run(parse(text), [x.ravel(), w.ravel()], {"steno_gemm": product})
    np.testing.assert_allclose(got.reshape(40, 30), np.maximum(x @ w, 0), rtol=1e-5)


def test_checkers_find_wrong_ones():
    program = a_program()
    (s,) = program.statements
    assert isinstance(s, CallThen)
    with pytest.raises(InvalidProgram, match="7 rows"):
        check(replace(program, statements=(replace(s, rows=7),)))
    check_plan(program)
    b = Builder()
    (row,), (stage,) = s.kernel.outer, s.kernel.stages
    (column,) = stage.vars

    def with_store(offset, buffer, value) -> Program:
        made = Kernel("k", s.kernel.outer, (MapStage(stage.vars, (Store(buffer, offset, value),)),))
        return replace(program, statements=(replace(s, kernel=made),))

    here = var(row) * 30 + var(column)
    check_plan(with_store(here, s.result, b.load(s.result, here, None, np.dtype("float32"))))
    backwards = var(row) * -30 + var(column) + 39 * 30
    with pytest.raises(InvalidPlan, match="another row"):
        check_plan(with_store(here, s.result, b.load(s.result, backwards, None, np.dtype("float32"))))
    other = replace(s.call.buffers[0], kind="output", size=1200)
    call = replace(s.call, buffers=(other, *s.call.buffers[1:]))
    wrong = with_store(here, other, b.load(s.result, here, None, np.dtype("float32")))
    wrong = replace(wrong, outputs=(*wrong.outputs, other), statements=(replace(wrong.statements[0], call=call),))
    with pytest.raises(InvalidPlan, match="which the call reads"):
        check_plan(wrong)
