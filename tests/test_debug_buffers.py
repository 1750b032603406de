"""The debug mode of buffers: plans that are wrong are found before they run, and show if they run; random programs pass."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from check_transforms import Checker
from random_loops import Code
from random_transforms import random_program
from test_compiler import f32, program as traced
from test_random_programs import compare

import steno
import steno.numpy as snp
from steno import lax
from steno.compiler.buffers import assign
from steno.compiler.check_plan import InvalidPlan, check_plan, check_versions, poisoned
from steno.compiler.graph_builder import to_graph
from steno.compiler.pipeline import lower
from steno.compiler.schedule import schedule
from steno.compiler.target import host_target
from steno.core.aval import ShapedArray
from steno.core.config import debug_buffers
from steno.core.record import replace
from steno.ir.check_loops import InvalidProgram, check
from steno.ir.interp_loops import run
from steno.ir.loops import Choice, CopyBuffer, Loop, Poison, Program
from steno.ir.parse_loops import parse
from steno.ir.print_loops import show


def planned(f, *avals, donated=()):
    graph = to_graph(traced(f, *avals))
    made = schedule(graph, lower, in_place=frozenset(donated))
    return graph, made, assign(graph, made, frozenset(donated))


def chain(x):
    """Three intermediates of one size, two of which live at a time."""
    a = x.T @ x
    b = snp.sin(a) @ a
    return snp.cos(b) @ b, snp.exp(b).sum(0)


def reused(x):
    for _ in range(4):
        x = snp.cumsum(x)
        x = snp.cumsum(x[::-1])
    return x + 1


# plans made wrong


def test_intermediates_that_overlap_are_found():
    _, _, good = planned(chain, f32(40, 40))
    program = good.program
    check_plan(program)
    wrong = 0
    places = list(zip(program.lenders or (None,) * len(program.arena), program.offsets, strict=True))
    assert any(lender for lender, _ in places) and any(lender is None for lender, _ in places)
    for k, place in enumerate(places):
        for other in set(places) - {place}:
            lenders, offsets = zip(*places[:k], other, *places[k + 1 :], strict=True)
            moved = replace(program, offsets=offsets, lenders=lenders)
            try:
                check_plan(moved)
            except InvalidPlan as err:
                wrong += 1
                assert "overlap" in str(err) and program.arena[k].name in str(err)
    assert wrong


OVERLAPPING = """program arena 64
input x float32[4]
output y float32[4]
output z float32[4]
arena a float32[4] @ 0
arena b float32[4] @ {place}
kernel first cost 1.0
  map i:4
    %0 = load float32 x[i]
    %1 = add float32 %0 %0
    a[i] = %1
kernel second cost 1.0
  map i:4
    %0 = load float32 x[i]
    b[i] = %0
kernel last_of_b cost 1.0
  map i:4
    %0 = load float32 b[i]
    y[i] = %0
kernel last_of_a cost 1.0
  map i:4
    %0 = load float32 a[i]
    z[i] = %0
"""


def test_a_wrong_plan_that_runs_gives_no_plausible_numbers():
    """Two buffers that live together are put into one place: where one was given back, the other is read."""
    x = np.arange(4, dtype=np.float32)
    for place in (0, 64):
        program = replace(parse(OVERLAPPING.format(place=place)), arena_bytes=128)
        filled = poisoned(program)
        for y, z in (run(filled, [x]), Code(filled, host_target())([x])):
            np.testing.assert_array_equal(y, x)
            np.testing.assert_array_equal(z, 2 * x if place else np.full(4, np.nan))
        if not place:
            assert np.array_equal(run(program, [x])[1], x)  # which nobody would notice
            with pytest.raises(InvalidPlan, match=r"a \(alive in statements \(0, 3\)\).*overlap"):
                check_plan(program)


TAKING_OVER = """program arena 64
input x float32[4]
output y float32[4]
output z float32[4]
arena a float32[4] @ 0
arena b float32[4] @ 0{lender}
kernel first cost 1.0
  map i:4
    %0 = load float32 x[i]
    a[i] = %0
kernel second cost 1.0
  map i:4
    %0 = load float32 a[{read}]
    %1 = add float32 %0 %0
    b[i] = %1
kernel third cost 1.0
  map i:4
    %0 = load float32 b[i]
    %1 = load float32 {other}[i]
    %2 = add float32 %0 %1
    y[i] = %2
kernel last cost 1.0
  map i:4
    %0 = load float32 {late}[i]
    z[i] = %0
"""


@pytest.mark.parametrize(
    ("places", "why"),
    [
        ({}, None),
        ({"read": "-1*i + 3"}, "another one writes"),
        ({"other": "a"}, "overlap"),
        ({"lender": " of y"}, None),
        ({"lender": " of z"}, None),
        ({"lender": " of z", "late": "b"}, None),
        ({"lender": " of y", "late": "b"}, "overlap"),
    ],
)
def test_memory_is_taken_over_and_lent_only_where_that_is_safe(places, why):
    text = TAKING_OVER.format(**{"lender": "", "read": "i", "other": "x", "late": "x", **places})
    program = parse(text)
    assert show(program) == text
    check(program)
    if why is not None:
        with pytest.raises(InvalidPlan, match=why):
            check_plan(program)
        return
    check_plan(program)
    x = np.arange(4, dtype=np.float32)
    filled = poisoned(program)
    for y, z in (run(filled, [x]), Code(filled, host_target())([x])):
        np.testing.assert_array_equal(y, 3 * x)
        np.testing.assert_array_equal(z, 2 * x if places.get("late") == "b" else x)


def test_an_input_takes_over_no_memory_that_is_lent():
    program = parse(TAKING_OVER.format(lender=" of y", read="i", other="x", late="x"))
    with pytest.raises(InvalidPlan, match="is an input's memory"):
        check_plan(program, [(0, 0)])
    with pytest.raises(InvalidProgram, match="no aligned output"):
        check(replace(program, lenders=(None, program.inputs[0])))


def test_an_arena_that_is_too_small_is_found():
    program = planned(chain, f32(40, 40))[2].program
    with pytest.raises(InvalidPlan, match="of an arena of"):
        check_plan(replace(program, arena_bytes=program.arena_bytes - 64))


def test_an_output_that_takes_over_an_input_too_early_is_found():
    def late(x):
        y = x * 2.0
        return y, snp.cumsum(y) + x[::-1]

    _, _, good = planned(late, f32(64))
    check_plan(good.program)
    with pytest.raises(InvalidPlan, match="reads input in0|another one writes"):
        check_plan(good.program, [(0, 0)])


@pytest.mark.parametrize(
    ("f", "safe"),
    [
        (lambda x: x * 2.0, True),
        (lambda x: x + x[0], False),
        (lambda x: x + x[::-1], False),
        (lambda x: snp.where(x > 0, x, snp.roll(x, 1)), False),
        (lambda x: x.reshape(8, 8).T.reshape(64), False),
        (lambda x: snp.cumsum(x), True),
        (lambda x: snp.sort(x), True),
    ],
)  # fmt: skip
def test_a_kernel_that_reads_what_another_point_writes_is_found(f, safe):
    _, _, made = planned(f, f32(64), donated=[0])
    check_plan(made.program, made.aliases)
    if not safe:
        assert not made.aliases
        with pytest.raises(InvalidPlan, match="another one writes"):
            check_plan(made.program, [(0, 0)])


def test_guards_keep_points_apart():
    """Each row is read beyond its end only where a guard says that it is not; without the guard it would meet the next row."""
    text = """program arena 0
input in0 float32[24]
output b1 float32[24]
output b2 float32[48]
kernel padded cost 1.0 outer i0:2
  map i1:12
    %0 = load float32 in0[12*i0 + i1]
    b1[12*i0 + i1] = %0
  map i2:2 i3:12
    %1 = index int64 [12*i2 + i3]
    %3 = const int64 11
    %4 = le bool %1 %3
    %5 = load float32 b1[12*i0 + 12*i2 + i3]GUARD
    %6 = const float32 0x0.0p+0
    %7 = select float32 %4 %5 %6
    b2[24*i0 + 12*i2 + i3] = %7
"""
    check_plan(parse(text.replace("GUARD", " if %4")))
    with pytest.raises(InvalidPlan, match="another one writes"):
        check_plan(parse(text.replace("GUARD", "")))


def test_rows_may_be_overwritten_when_they_are_read_no_more():
    """More than the planner dares: each row's passes but the last read it, and the last writes it."""

    def softmax(x):
        e = snp.exp(x - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    program = planned(softmax, f32(30, 40))[2].program
    (kernel,) = program.statements
    assert len(kernel.stages) > 2
    check_plan(program, [(0, 0)])
    whole = planned(lambda x: x - x.max(), f32(300, 400))[2].program
    with pytest.raises(InvalidPlan):
        check_plan(replace(whole, statements=whole.statements[::-1]), [(0, 0)])


def test_loops_that_change_what_they_read_are_found():
    def f(x, w):
        return lax.fori_loop(0, 5, lambda i, c: c[::-1] * w + x, x)

    program = planned(f, f32(100), f32(100))[2].program
    check_plan(program)
    (k, loop), *_ = [(k, s) for k, s in enumerate(program.statements) if isinstance(s, Loop)]
    assert any(partner is not None for _, partner in loop.carries)
    wrong = replace(loop, carries=tuple((home, None) for home, _ in loop.carries))
    with pytest.raises(InvalidPlan, match="body"):
        check_plan(replace(program, statements=(*program.statements[:k], wrong, *program.statements[k + 1 :])))


def test_branches_that_change_their_operand_too_early_are_found():
    def f(p, x):
        return lax.cond(p, lambda x: x + x[::-1], lambda x: x * 2, x)

    program = planned(f, ShapedArray((), np.dtype(bool)), f32(50))[2].program
    check_plan(program)
    (k, choice), *_ = [(k, s) for k, s in enumerate(program.statements) if isinstance(s, Choice)]
    wrong = replace(choice, branches=tuple((p, tuple(choice.outputs[0] if b.size == 50 else b for b in i)) for p, i in choice.branches))
    with pytest.raises(InvalidPlan, match="branch"):
        check_plan(replace(program, statements=(*program.statements[:k], wrong, *program.statements[k + 1 :])))


def test_a_value_that_is_read_after_its_buffer_changed_is_found():
    def f(x, i):
        y = snp.cumsum(x)
        return y.at[i].set(0.0), snp.cumsum(y)

    graph, good, _ = planned(f, f32(60), ShapedArray((), np.dtype("int32")))
    check_versions(graph, good)
    update = next(k for k, s in enumerate(good.steps) if any(v.node.name == "scatter" and p is s for v, p in good.producer.items()))
    assert update == len(good.steps) - 1  # in place, when nobody reads the old values any more
    wrong = replace(good, steps=(*good.steps[: update - 1], good.steps[update], good.steps[update - 1]))
    with pytest.raises(InvalidPlan, match="reads cumsum"):
        check_versions(graph, wrong)


# poison


def test_poison_in_text_checker_and_interpreter():
    text = """program arena 64
input x float32[4]
output y float32[4]
arena t int32[4] @ 0
poison y t
kernel k cost 1.0
  map i:4
    %0 = load float32 x[i]
    y[i] = %0
"""
    program = parse(text)
    assert show(program) == text
    check(program)
    y = run(Program(program.inputs, program.outputs, program.arena, program.offsets, 64, program.statements[:1]), [np.ones(4, np.float32)])[
        0
    ]
    assert np.isnan(y).all()
    after = replace(program, statements=(*program.statements, Poison(program.arena), CopyBuffer(program.arena[0], program.arena[0])))
    with pytest.raises(InvalidProgram):
        check(after)


def test_programs_under_the_mode_fill_what_is_free():
    with debug_buffers(True):
        f = steno.jit(reused)
        text = f.lower(snp.ones(500)).as_text()
        assert text.count("poison") >= 8 and "poison b" in text
        np.testing.assert_array_equal(f(snp.ones(500)), reused(snp.ones(500)))
    assert "poison" not in steno.jit(reused).lower(snp.ones(500)).as_text()


def test_memory_that_is_given_back_is_filled():
    with debug_buffers(True):
        x = snp.arange(5000.0) + 1
        pointer, view = x.unsafe_buffer_pointer(), np.ctypeslib.as_array
        del x
        freed = view((ctypes.c_uint8 * 20000).from_address(pointer))
        assert (freed == 0xA5).all()


# programs that are right


@pytest.mark.parametrize("seed", range(5))
def test_random_programs(seed):
    with debug_buffers(True):
        compare(seed, 8 + 5 * seed)


@pytest.mark.parametrize("seed", range(2))
def test_random_programs_with_loops_and_derivatives(seed):
    with steno.enable_x64(True):
        checker = Checker(random_program(seed, 3))
        f = checker.jvp if checker.forward else checker.grad
        checker.weights = [np.ones(y.shape) for y in checker.f(*checker.x)]
        plain = steno.jit(lambda *x: f(*x))(*checker.x)
        with debug_buffers(True):
            checked = steno.jit(lambda *x: f(*x))(*checker.x)
    for a, b in zip(steno.tree.leaves(plain), steno.tree.leaves(checked), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("donate", [(), (0,)])
def test_updates_loops_and_branches_in_place(donate):
    def f(x, i):
        x = x.at[i].add(1.0)
        x = lax.fori_loop(0, 7, lambda k, x: x.at[k].set(x[k + 1] * 2), x)
        x = lax.cond(i > 2, lambda x: x.at[0].set(9.0), lambda x: x, x)
        c, rows = lax.scan(lambda c, r: (c.at[1].add(r.sum()), c * r), x[0], x)
        return x, snp.sort(x, axis=1) + c, rows

    x = np.random.default_rng(0).standard_normal((20, 30)).astype(np.float32)
    plain = steno.jit(f, donate_argnums=donate)(snp.array(x), 3)
    with debug_buffers(True):
        checked = steno.jit(f, donate_argnums=donate)(snp.array(x), 3)
    for a, b in zip(plain, checked, strict=True):
        np.testing.assert_array_equal(a, b)
