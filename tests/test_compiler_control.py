"""Control flow as native code: values, and where carries and rows live. The kinds are used directly here; the ops over them have tests of
their own."""

from __future__ import annotations

import numpy as np
import pytest

from steno.backends import cpu
from steno.core.aval import ShapedArray
from steno.core.interpret import to_array, to_ndarray
from steno.core.op import OPS, Op
from steno.core.trace import trace_to_jaxpr
from steno.ir.check_loops import check
from steno.ir.interp_loops import run as interpret
from steno.ir.kinds import Branch, Scan, While
from steno.ir.loops import Choice, Loop
from steno.ir.parse_loops import parse
from steno.ir.print_loops import show
from steno.ops.arithmetic import add, mul
from steno.ops.compare import lt
from steno.ops.index import dynamic_slice, dynamic_update_slice
from steno.ops.join import concatenate
from steno.ops.reduce import reduce_sum
from steno.ops.shape import reshape
from steno.ops.transcendental import sin

F, INT = np.float32, np.int32


def f32(*shape):
    return ShapedArray(shape, np.dtype("float32"))


def i32(*shape):
    return ShapedArray(shape, np.dtype("int32"))


def program(f, *avals):
    return trace_to_jaxpr(lambda *args: list(out) if isinstance(out := f(*args), list | tuple) else [out], list(avals))


def _op(name, **fields):
    record = Op(name, multiple_results=True, **fields)
    del OPS[name]  # only of this file
    return record


def _scan_typ(*avals, body, consts, carries, length, reverse):
    out = body.out_avals
    return [*out[:carries], *(a.update(shape=(length, *a.shape)) for a in out[carries:])]


scan = _op("kind_scan", typ=_scan_typ, lower=lambda i, o, **p: Scan(**p))
loop = _op("kind_while", typ=lambda *a, body, **p: list(body.out_avals), lower=lambda i, o, **p: While(**p))
choose = _op("kind_branch", typ=lambda *a, branches: list(branches[0].out_avals), lower=lambda i, o, **p: Branch(**p))


def compiled(f, *arrays):
    return cpu.compile(program(f, *(ShapedArray(np.shape(x), np.asarray(x).dtype) for x in arrays)))


def results(f, *arrays):
    """Compiled; equal to the interpreter of loop programs; text and checker agree with both."""
    made = compiled(f, *arrays)
    check(made.compiled.program)
    text = show(made.compiled.program)
    assert show(parse(text)) == text
    out = [to_ndarray(y) for y in made.run(list(arrays))]
    flat = interpret(parse(text), [np.asarray(x).reshape(-1) for x in arrays])
    for (where, k), y in zip(made.results, out, strict=True):
        assert where == "output"
        np.testing.assert_array_equal(flat[k], y.reshape(-1))
    return out


def statements(f, *arrays, kind=Loop):
    return [s for s in compiled(f, *arrays).compiled.program.statements if isinstance(s, kind)]


def count_to(n, *carries):
    return program(lambda i, *c: lt(i, INT(n)), i32(), *carries)


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_carries_and_rows(reverse):
    body = program(lambda k, c, x: (add(mul(c, k), x), mul(c, x)), f32(), f32(3), f32(3))

    def f(k, c, xs):
        return scan(k, c, xs, body=body, consts=1, carries=1, length=5, reverse=reverse)

    rng = np.random.default_rng(0)
    k, c, xs = F(0.5), rng.random(3, dtype=F), rng.random((5, 3), dtype=F)
    got_c, got_rows = results(f, k, c, xs)
    rows = np.zeros((5, 3), F)
    for i in reversed(range(5)) if reverse else range(5):
        rows[i] = c * xs[i]
        c = c * k + xs[i]
    np.testing.assert_array_equal(got_c, c)
    np.testing.assert_array_equal(got_rows, rows)


def test_scan_of_no_rows_and_no_iterations():
    body = program(lambda c: (add(c, F(1)),), f32())
    (out,) = results(lambda c: scan(c, body=body, consts=0, carries=1, length=7, reverse=False), F(1))
    assert out == 8
    (out,) = results(lambda c: scan(c, body=body, consts=0, carries=1, length=0, reverse=False), F(1))
    assert out == 1


def test_while_with_a_scalar():
    body = program(lambda i, x: (add(i, INT(1)), mul(x, F(1.5))), i32(), f32())

    def f(x):
        return loop(INT(0), x, cond=count_to(10, f32()), body=body, cond_consts=0, body_consts=0)

    i, x = results(f, F(2))
    assert i == 10 and x == F(2) * F(1.5) ** 10


def test_carries_that_swap():
    """Each next value needs the other's present one."""
    body = program(lambda i, a, b: (add(i, INT(1)), b, add(a, b)), i32(), f32(3), f32(3))
    for n in (0, 1, 6, 7):
        _, a, b = results(
            lambda a, b, n=n: loop(INT(0), a, b, cond=count_to(n, f32(3), f32(3)), body=body, cond_consts=0, body_consts=0),
            np.zeros(3, F),
            np.ones(3, F),
        )
        x, y = 0, 1
        for _ in range(n):
            x, y = y, x + y
        assert (a == x).all() and (b == y).all()


def test_whole_row_dependence_takes_a_partner():
    """The sum is over the present carry, so the next one cannot be written over it."""
    body = program(lambda i, a: (add(i, INT(1)), mul(a, reduce_sum(a, axes=(0,)))), i32(), f32(300))

    def f(a):
        return loop(INT(0), a, cond=count_to(3, f32(300)), body=body, cond_consts=0, body_consts=0)

    a = np.full(300, 1 / 300, F)
    _, got = results(f, a)
    np.testing.assert_allclose(got, a, rtol=1e-5)


def test_update_of_a_carry_is_in_place():
    def step(i, a):
        return add(i, INT(1)), dynamic_update_slice(a, add(dynamic_slice(a, i, slice_sizes=(1,)), F(1)), i)

    def f(a):
        body = program(step, i32(), a.aval)
        return loop(INT(0), a, cond=count_to(40, a.aval), body=body, cond_consts=0, body_consts=0)

    a = np.zeros(100, F)
    (made,) = statements(f, a)
    assert made.carries[1][1] is None
    _, got = results(f, a)
    np.testing.assert_array_equal(got, np.r_[np.ones(40, F), np.zeros(60, F)])


def test_rows_of_a_carried_matrix_in_place():
    """Row i + 1 from row i: read and written in one array."""

    def step(i, a):
        row = dynamic_slice(a, i, INT(0), slice_sizes=(1, 8))
        return add(i, INT(1)), dynamic_update_slice(a, mul(row, F(2)), add(i, INT(1)), INT(0))

    def f(a):
        body = program(step, i32(), a.aval)
        return loop(INT(0), a, cond=count_to(9, a.aval), body=body, cond_consts=0, body_consts=0)

    a = np.zeros((10, 8), F)
    a[0] = 1
    (made,) = statements(f, a)
    assert made.carries[1][1] is None
    _, got = results(f, a)
    np.testing.assert_array_equal(got, 2.0 ** np.arange(10, dtype=F)[:, None] * np.ones((10, 8), F))


def test_carry_handed_on_is_no_carry():
    body = program(lambda i, a, b: (add(i, INT(1)), a, add(b, a)), i32(), f32(5), f32(5))

    def f(a, b):
        return loop(INT(0), a, b, cond=count_to(4, f32(5), f32(5)), body=body, cond_consts=0, body_consts=0)

    a, b = np.arange(5, dtype=F), np.zeros(5, F)
    (made,) = statements(f, a, b)
    assert len(made.carries) == 2
    _, got_a, got_b = results(f, a, b)
    np.testing.assert_array_equal(got_a, a)
    np.testing.assert_array_equal(got_b, 4 * a)


@pytest.mark.parametrize("index", [-3, 0, 1, 2, 9])
def test_choice_clamps_and_runs_one(index):
    branches = (
        program(lambda x: add(x, F(1)), f32(50)),
        program(lambda x: mul(x, F(10)), f32(50)),
        program(lambda x: x, f32(50)),
    )

    def f(i, x):
        return choose(i, x, branches=branches)

    x = np.arange(50, dtype=F)
    (got,) = results(f, INT(index), x)
    np.testing.assert_array_equal(got, [x + 1, 10 * x, x][min(max(index, 0), 2)])
    assert len(statements(f, INT(index), x, kind=Choice)) == 1


def test_nested_loops():
    inner = program(lambda c, x: (add(c, x),), f32(), f32())
    outer = program(lambda c, row: scan(c, row, body=inner, consts=0, carries=1, length=4, reverse=False), f32(), f32(4))

    def f(c, m):
        return scan(c, m, body=outer, consts=0, carries=1, length=3, reverse=False)

    (got,) = results(f, F(1), np.arange(12, dtype=F).reshape(3, 4))
    assert got == 67


def test_arrays_closed_over_by_a_body_are_inputs():
    big = np.arange(6, dtype=F)

    def f(c):
        held = to_array(big, f32(6))
        body = program(lambda c: (add(c, reduce_sum(held, axes=(0,))),), f32())
        return scan(c, body=body, consts=0, carries=1, length=2, reverse=False)

    made = compiled(f, F(1))
    assert len(made.compiled.captured) == 1
    (got,) = made.run([F(1)])
    assert to_ndarray(got) == 31


def test_reshape_between_loops():
    body = program(lambda c: (add(c, F(1)),), f32(6))

    def f(c):
        (once,) = scan(c, body=body, consts=0, carries=1, length=2, reverse=False)
        return scan(
            reshape(reshape(once, new_sizes=(2, 3), dimensions=None, sharding=None), new_sizes=(6,), dimensions=None, sharding=None),
            body=body,
            consts=0,
            carries=1,
            length=3,
            reverse=False,
        )

    (got,) = results(f, np.zeros(6, F))
    np.testing.assert_array_equal(got, np.full(6, 5, F))


def test_bodies_of_a_few_elements_are_scalar_code():
    """A stack of three, slices and arithmetic: one kernel without loops, the carry changed in place."""

    def step(s, x):
        a, b, c = (reshape(dynamic_slice(s, INT(k), slice_sizes=(1,)), new_sizes=(), dimensions=None, sharding=None) for k in range(3))
        parts = (reshape(v, new_sizes=(1,), dimensions=None, sharding=None) for v in (mul(a, b), add(c, x), add(a, F(1))))
        new = concatenate(*parts, dimension=0)
        return new, new

    body = program(step, f32(3), f32())

    def f(s, xs):
        return scan(s, xs, body=body, consts=0, carries=1, length=4, reverse=False)

    s, xs = np.array([1, 2, 3], F), np.arange(4, dtype=F)
    (made,) = statements(f, s, xs)
    (kernel,) = made.body.statements
    assert kernel.outer == () and [stage.vars for stage in kernel.stages] == [()]
    assert made.carries[0][1] is None
    got, rows = results(f, s, xs)
    for x, row in zip(xs, rows, strict=True):
        s = np.array([s[0] * s[1], s[2] + x, s[0] + 1], F)
        np.testing.assert_array_equal(row, s)
    np.testing.assert_array_equal(got, s)


@pytest.mark.parametrize(("size", "is_vector"), [(16, True), (8, True), (4, False), (1, False)])
def test_long_elementwise_bodies_are_vectors(size: int, is_vector: bool):
    """Sixteen sines in a row take four times as long as one vector of them; a few wait for each other no longer than one. Same bits."""

    def f(x):
        body = program(lambda i, a: (add(i, INT(1)), sin(add(mul(a, F(0.9)), F(0.1)))), i32(), f32(*x.shape))
        return loop(INT(0), x, cond=count_to(10, f32(*x.shape)), body=body, cond_consts=0, body_consts=0)[1]

    x = np.linspace(-2, 40000, size).astype(F)
    (made,) = statements(f, x)
    assert any(stage.vars for kernel in made.body.statements for stage in kernel.stages) == is_vector
    (got,) = results(f, x)
    alone = [results(f, x[k : k + 1])[0][0] for k in range(size)]
    np.testing.assert_array_equal(got, alone)


def test_short_elementwise_bodies_stay_in_registers():
    def f(x):
        body = program(lambda i, a: (add(i, INT(1)), add(mul(a, F(0.9)), F(0.1))), i32(), f32(16))
        return loop(INT(0), x, cond=count_to(10, f32(16)), body=body, cond_consts=0, body_consts=0)[1]

    (made,) = statements(f, np.zeros(16, F))
    (kernel,) = made.body.statements
    assert [stage.vars for stage in kernel.stages] == [()]


def test_small_bodies_with_reads_at_run_time_indices_stay_array_code():
    """The element wanted of a computed array is not known: there is no scalar for it."""

    def step(i, a):
        doubled = add(a, a)
        return add(i, INT(1)), mul(doubled, dynamic_slice(doubled, i, slice_sizes=(1,)))

    body = program(lambda i, a: (step(i, a)[0], concatenate(step(i, a)[1], dimension=0)), i32(), f32(1))

    def f(a):
        return loop(INT(0), a, cond=count_to(2, f32(1)), body=body, cond_consts=0, body_consts=0)

    _, got = results(f, np.array([0.5], F))
    np.testing.assert_array_equal(got, [4.0])


def test_scalar_loops_with_rare_code_bools_and_reversed_rows():
    """sin of huge arguments takes its rare branch; a bool is a byte in memory and a bit in a register."""

    def step(x, go, u):
        y = sin(mul(x, u))
        return mul(y, F(1e6)), lt(y, F(0)), y, go

    body = program(step, f32(), ShapedArray((), np.dtype(bool)), f32())

    def f(x, go, us):
        return scan(x, go, us, body=body, consts=0, carries=2, length=5, reverse=True)

    x, us = F(3), np.array([1.5, 1e3, 1e5, 2e5, 0.25], F)
    got_x, got_go, ys, gos = results(f, x, np.bool_(True), us)
    go = True
    for k in reversed(range(5)):
        y = np.sin(np.float64(x * us[k])).astype(F)
        np.testing.assert_allclose(ys[k], y, rtol=1e-6)
        assert gos[k] == go
        x, go = ys[k] * F(1e6), bool(ys[k] < 0)
    assert got_x == x and got_go == go


def test_while_loop_that_a_bool_ends():
    cond = program(lambda go, x: go, ShapedArray((), np.dtype(bool)), f32())
    body = program(lambda go, x: (lt(x, F(100)), mul(x, F(3))), ShapedArray((), np.dtype(bool)), f32())
    go, x = results(lambda x: loop(np.bool_(True), x, cond=cond, body=body, cond_consts=0, body_consts=0), F(1))
    assert not go and x == 3.0**6
