"""The machinery of transformations: rules and what is derived without them, residuals, programs inside programs, remembered results."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import steno
import steno.numpy as snp
from steno import lax
from steno.ad_checkpoint import saved_residuals
from steno.core import config
from steno.core.errors import MissingRule
from steno.core.jaxpr import ClosedJaxpr, eval_jaxpr
from steno.core.op import OPS, Op
from steno.core.trace import trace_to_jaxpr
from steno.ops.arithmetic import add, mul, neg
from steno.ops.transcendental import cos, sin
from steno.transforms.backward import transpose_jaxpr
from steno.transforms.batching import batch_jaxpr, batch_program
from steno.transforms.forward import jvp_jaxpr
from steno.transforms.linearize import linearize_jaxpr
from steno.transforms.partial import partial_eval_jaxpr
from steno.transforms.rules import LINEAR, ZERO, Axis, Linear, Zero, along, by_argument, by_operand, reduction, unbroadcast


@pytest.fixture
def scratch() -> Iterator[None]:
    """Ops made by a test are forgotten."""
    yield
    for name in [n for n in OPS if n.startswith("test_")]:
        del OPS[name]


def primitive(name: str, oracle: Any = None, **rules: Any) -> Op:
    return Op(name, typ=lambda *xs, **_: xs[0], oracle=oracle, **rules)


def record(f: Any, *args: Any) -> ClosedJaxpr:
    return trace_to_jaxpr(f, [steno.typeof(x) for x in args])


def ops_of(closed: ClosedJaxpr) -> list[str]:
    return [e.op.name for e in closed.eqns]


# rules, and what is derived


def test_rules_by_argument(scratch: None) -> None:
    """Parts of operands without tangent are not asked for; the result's shape is that of the result."""
    asked: list[int] = []

    def part(k: int) -> Any:
        def f(g: Any, out: Any, x: Any, y: Any) -> Any:
            asked.append(k)
            return mul(g, y if k == 0 else x)

        return f

    times = Op("test_times", typ=lambda x, y: x if x.ndim else y, expand=mul, jvp=by_argument(part(0), part(1)))
    x = snp.arange(3.0)
    y, t = steno.jvp(lambda x: times(x, snp.float32(2)), (x,), (x,))
    assert asked == [0]
    np.testing.assert_array_equal(t, 2 * np.arange(3))
    y, t = steno.jvp(lambda a: times(x, a), (snp.float32(2),), (snp.float32(1),))
    assert asked == [0, 1] and t.shape == y.shape == (3,)


def test_linear_and_constant_rules(scratch: None) -> None:
    twice = primitive("test_twice", expand=lambda x: add(x, x), jvp=LINEAR, transpose=by_operand(lambda ct, x: add(ct, ct)))
    step = primitive("test_step", expand=lambda x: x, jvp=ZERO)
    assert steno.grad(twice)(3.0) == 2
    assert steno.grad(lambda x: step(x) * x)(3.0) == 3
    assert ops_of(steno.make_jaxpr(lambda x: steno.jvp(step, (x,), (x,)))(3.0)) == ["test_step"]


def test_derived_from_expansion(scratch: None) -> None:
    """An op with nothing but an expansion has every derivative and maps."""
    f = primitive("test_expanded", expand=lambda x: mul(sin(x), x))
    x = snp.arange(3.0)
    for transformed in (steno.vmap, lambda f: steno.vmap(steno.grad(f)), lambda f: steno.vmap(steno.grad(steno.grad(steno.jit(f))))):
        np.testing.assert_allclose(transformed(f)(x), transformed(lambda x: snp.sin(x) * x)(x), rtol=1e-6)
    linear = primitive("test_linear", expand=lambda x: add(x, neg(mul(x, x.dtype.type(3)))))
    (ct,) = steno.linear_transpose(linear, x)(x)
    np.testing.assert_allclose(ct, -2 * np.arange(3))


def test_missing_rules_say_what_to_add(scratch: None) -> None:
    bare = primitive("test_bare", oracle=lambda x: x)
    x = snp.arange(3.0)
    with pytest.raises(MissingRule, match=r"Differentiation rule for 'test_bare' not implemented: give Op\('test_bare'\) a `jvp`"):
        steno.jvp(bare, (x,), (x,))
    with pytest.raises(MissingRule, match="Differentiation rule for 'test_bare'"):
        steno.vjp(bare, x)
    with pytest.raises(MissingRule, match="Batching rule for 'test_bare' not implemented: .*`batch`"):
        steno.vmap(bare)(x)
    with pytest.raises(MissingRule, match="Transpose rule .* for 'test_bare' not implemented"):
        steno.linear_transpose(bare, x)(x)
    assert issubclass(MissingRule, NotImplementedError)


def test_rules_that_mix_values_and_tangents_are_named(scratch: None) -> None:
    both = Op("test_both", typ=lambda *xs: list(xs), multiple_results=True, oracle=lambda *xs: list(xs))

    def jvp(primals: Any, tangents: Any) -> Any:
        y, t = both(*primals, *tangents)
        return [y], [t]

    both.jvp = jvp
    assert ops_of(steno.make_jaxpr(lambda x: steno.jvp(lambda x: both(x)[0], (x,), (x,)))(1.0)) == ["test_both"]
    with pytest.raises(MissingRule, match="linearization for 'test_both' not implemented: its jvp mixes values and tangents"):
        steno.grad(lambda x: both(x)[0])(1.0)


def test_enable_checks_looks_at_tangents(scratch: None) -> None:
    wrong = primitive("test_wrong", expand=lambda x: x, jvp=lambda primals, tangents: (primals[0], snp.zeros(7)))
    with steno.enable_checks(True), pytest.raises(TypeError, match="the jvp rule of test_wrong gave a tangent of type"):
        steno.jvp(wrong, (1.0,), (1.0,))


def test_unbroadcast() -> None:
    ct = snp.ones((2, 3))
    for shape, value in [((2, 3), 1), ((1, 3), 2), ((2, 1), 3), ((1, 1), 6), ((), 6)]:
        out = unbroadcast(ct, steno.typeof(snp.zeros(shape)))
        assert out.shape == shape
        np.testing.assert_array_equal(out, value)
    zero = unbroadcast(Zero(steno.typeof(ct)), steno.typeof(snp.zeros(())))
    assert type(zero) is Zero and zero.shape == ()


def test_batch_constructors(scratch: None) -> None:
    total = Op(
        "test_total",
        typ=lambda x, *, axes: x.update(shape=tuple(n for k, n in enumerate(x.shape) if k not in axes)),
        oracle=lambda x, *, axes: x.sum(axes),
        batch=reduction("axes"),
    )
    running = Op("test_running", typ=lambda x, *, axis: x, oracle=lambda x, *, axis: x.cumsum(axis), batch=along("axis"))
    x = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    with config.KNOBS["backend"]("reference"):
        for dim in range(3):
            moved = snp.moveaxis(snp.asarray(x), 0, dim)
            out = steno.vmap(lambda a: total(a, axes=(1,)), in_axes=dim)(moved)
            np.testing.assert_allclose(out, x.sum(2))
            out = steno.vmap(lambda a: running(a, axis=1), in_axes=dim)(moved)
            np.testing.assert_allclose(out, x.cumsum(2))


def test_elementwise_batches_move_only_what_disagrees() -> None:
    """One equation where axes agree; the front one where they do not; unbatched operands get an axis of size 1."""

    def names(in_axes: Any, *shapes: tuple[int, ...], out_axes: int = 1) -> list[str]:
        return ops_of(steno.make_jaxpr(steno.vmap(mul, in_axes=in_axes, out_axes=out_axes))(*(snp.ones(s) for s in shapes)))

    assert names((1, 1), (3, 2), (3, 2)) == ["mul"]
    assert names((1, None), (3, 2), ()) == ["mul"]
    assert names((1, None), (3, 2), (3,)) == ["broadcast_in_dim", "mul"]
    assert names((1, 0), (3, 2), (2, 3), out_axes=0) == ["transpose", "mul"]
    assert names((1, 0), (3, 2), (2,)) == ["broadcast_in_dim", "mul"]


# residuals


def test_residuals_are_what_the_transposed_program_reads() -> None:
    x, w = snp.ones((2, 3)), snp.ones((2, 3))
    assert [str(a) for a, _ in saved_residuals(lambda x: snp.sin(x), x)] == ["float32[2,3]"]
    assert saved_residuals(lambda x: x + 1.0, x) == []
    assert saved_residuals(lambda x: 2.0 * x - x, x) == []
    assert saved_residuals(lambda x: (snp.sin(x), 3.0 * x)[1], x) == []  # what is not returned needs nothing
    assert [where for _, where in saved_residuals(lambda x, w: x * w, x, w)] == ["from the argument x", "from the argument w"]
    kept = saved_residuals(lambda x: snp.exp(snp.exp(x)), x)
    assert len(kept) == 2 and all("output of exp" in where for _, where in kept)


def test_nothing_known_is_computed_in_the_backward_pass() -> None:
    _, pullback = steno.vjp(lambda x: snp.sin(snp.exp(x) * snp.cos(3.0) + snp.sqrt(2.0)), 1.0)
    names = ops_of(steno.make_jaxpr(pullback)(1.0))
    assert set(names) <= {"mul", "neg"}


def test_known_parts_of_jitted_functions_run_in_the_forward_pass() -> None:
    f = steno.jit(lambda x, n: (snp.sin(x) * snp.exp(n), snp.exp(n)))
    _, pullback = steno.vjp(lambda x: f(x, 2.0)[0], 1.0)
    (call,) = steno.make_jaxpr(pullback)(1.0).eqns
    assert call.op.name == "jit" and set(ops_of(call.params["jaxpr"])) == {"mul"}


def test_forwarded_residuals_are_no_outputs() -> None:
    """Inputs and results of a program that its linear part reads are not returned again."""
    closed = record(lambda x, y: [mul(x, y), sin(x)], 1.0, 2.0)
    cut = linearize_jaxpr(closed, (True, False))
    assert [r.where for r in cut.split.residuals] == ["in", "out"]
    assert len(cut.split.known.jaxpr.outvars) == 3  # two results and cos(x)
    closed = record(lambda x: [OPS["exp"](x, accuracy=None)], 1.0)
    cut = linearize_jaxpr(closed, (True,))
    assert [(r.where, r.position) for r in cut.split.residuals] == [("out", 0)] and len(cut.split.known.jaxpr.outvars) == 1


# whole programs


def test_jvp_jaxpr() -> None:
    closed = record(lambda x, y: [mul(x, y), sin(y), x], 1.0, 2.0)
    program, out_nonzero = jvp_jaxpr(closed, (True, False))
    assert out_nonzero == (True, False, True) and len(program.in_avals) == 3 and len(program.out_avals) == 5
    program, out_nonzero = jvp_jaxpr(closed, (True, False), True)
    assert out_nonzero == (True, True, True)
    values = eval_jaxpr(program.jaxpr, program.consts, 3.0, 4.0, 1.0)
    np.testing.assert_allclose([np.asarray(v) for v in values], [12, np.sin(4), 3, 4, 0, 1], rtol=1e-6)


def test_linearize_and_transpose_jaxpr() -> None:
    closed = record(lambda x, y: [mul(sin(x), y), cos(y)], 1.0, 2.0)
    cut = linearize_jaxpr(closed, (True, False))
    assert cut.out_nonzero == (True, False)
    known = eval_jaxpr(cut.split.known.jaxpr, cut.split.known.consts, 3.0, 4.0)
    residuals = cut.split.residual_values([3.0, 4.0], known)
    (t,) = eval_jaxpr(cut.split.unknown.jaxpr, cut.split.unknown.consts, *residuals, 1.0)
    np.testing.assert_allclose(t, np.cos(3) * 4, rtol=1e-6)
    linear = [False] * len(residuals) + [True]
    transposed, out_nonzero = transpose_jaxpr(cut.split.unknown, linear, (True,))
    assert out_nonzero == (True,)
    (ct,) = eval_jaxpr(transposed.jaxpr, transposed.consts, *residuals, 1.0)
    np.testing.assert_allclose(ct, np.cos(3) * 4, rtol=1e-6)
    transposed, out_nonzero = transpose_jaxpr(cut.split.unknown, linear, (False,))
    assert out_nonzero == (False,) and not transposed.eqns
    transposed, out_nonzero = transpose_jaxpr(cut.split.unknown, linear, (False,), True)
    assert out_nonzero == (True,) and len(transposed.out_avals) == 1


def test_partial_eval_jaxpr() -> None:
    closed = record(lambda x, y: [mul(sin(x), y), cos(x), y], 1.0, 2.0)
    cut = partial_eval_jaxpr(closed, (False, True))
    assert cut.out_unknown == (True, False, True)
    assert ops_of(cut.split.known) == ["sin", "cos"] and ops_of(cut.split.unknown) == ["mul"]
    cut = partial_eval_jaxpr(closed, (False, True), (False, True, False))
    assert cut.out_unknown == (True, True, True) and ops_of(cut.split.unknown) == ["mul"]


def test_batch_jaxpr() -> None:
    closed = record(lambda x, y: [mul(x, y), sin(y)], snp.ones(3), snp.ones(3))
    axis = Axis(None, 2)
    program, batched = batch_jaxpr(closed, axis, (True, False))
    assert batched == (True, False) and [a.shape for a in program.out_avals] == [(2, 3), (3,)]
    program, batched = batch_jaxpr(closed, axis, (True, False), True)
    assert batched == (True, True) and [a.shape for a in program.out_avals] == [(2, 3), (2, 3)]
    program, dims = batch_program(closed, axis, (1, None))
    assert dims == (1, None) and [a.shape for a in program.out_avals] == [(3, 2), (3,)]


def test_programs_are_transformed_once(scratch: None) -> None:
    calls = []

    def jvp(primals: Any, tangents: Any) -> Any:
        calls.append(1)
        return sin(*primals), mul(tangents[0], cos(*primals))

    counted = primitive("test_counted", expand=lambda x: sin(x), jvp=jvp)
    f = steno.jit(lambda x: counted(x))

    def many(x: Any) -> Any:
        for _ in range(10):
            x = f(x)
        return x

    one, two = snp.float32(1), snp.float32(2)
    steno.grad(many)(one)
    steno.grad(many)(two)
    assert len(calls) == 1
    steno.jvp(many, (one,), (one,))
    assert len(calls) == 2
    steno.vmap(steno.grad(many))(snp.ones(3))
    assert len(calls) == 2


def test_derived_programs_die_with_their_program() -> None:
    f = steno.jit(lambda x: snp.sin(x) * 2.0)
    steno.vmap(steno.grad(f))(snp.ones(3))
    (program,) = f._traces.programs.values()
    ref = weakref.ref(program.closed)
    del f, program
    gc.collect()
    assert ref() is None


def test_long_programs_do_not_recurse() -> None:
    def f(x: Any) -> Any:
        for _ in range(3000):
            x = x + x * 1e-4
        return x

    closed = steno.make_jaxpr(steno.grad(f))(1.0)
    assert len(closed.eqns) < 3000 * 6


# dead code


def test_unused_results_of_calls_cost_nothing() -> None:
    f = steno.jit(lambda x: (snp.sin(x), snp.exp(x)))
    closed = steno.make_jaxpr(steno.grad(lambda x: f(x)[0]))(1.0)
    text = str(closed)
    assert text.count("exp") == 1  # in the forward pass, which computes all results


# zeros, integers


def test_zero_cotangents_are_not_computed() -> None:
    names = ops_of(steno.make_jaxpr(steno.grad(lambda x: (snp.sin(x), x * 2.0)[1]))(1.0))
    assert names == ["sin", "mul", "mul"] or names == ["sin", "cos", "mul", "mul"]
    assert steno.grad(lambda x: snp.float32(2))(1.0) == 0
    (ct,) = steno.vjp(lambda x: (x, snp.arange(3)), 1.0)[1]((snp.float32(2), np.zeros(3, steno.float0)))
    assert ct == 2


def test_integers_have_float0_tangents() -> None:
    g = steno.grad(lambda n, x: x * n, allow_int=True)(2, 3.0)
    assert g.dtype == steno.float0 and g.shape == ()
    y, t = steno.jvp(lambda n: n * 2, (3,), (np.zeros((), steno.float0),))
    assert int(y) == 6 and t.dtype == steno.float0
    assert steno.jit(steno.grad(lambda n, x: x * n, argnums=1))(2, 3.0) == 2


# axes


def test_axis_sizes_are_part_of_what_a_program_is() -> None:
    """The same jitted function under maps of different sizes, and under none."""
    f = steno.jit(lambda x: x * lax.psum(1, "i") + lax.axis_index("i"))
    for n in (2, 3, 2):
        out = steno.vmap(f, axis_name="i")(snp.ones(n))
        np.testing.assert_array_equal(out, n + np.arange(n))
    with pytest.raises(NameError, match="unbound axis name: i"):
        f(1.0)
    with pytest.raises(NameError, match="available: j; `vmap"):
        steno.vmap(f, axis_name="j")(snp.ones(2))


def test_inner_axes_hide_outer_ones_of_the_same_name() -> None:
    out = steno.vmap(steno.vmap(lambda x: lax.psum(x, "i"), axis_name="i"), axis_name="i")(snp.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(out, [[3, 3, 3], [12, 12, 12]])


def test_collectives_that_cannot_be() -> None:
    x = snp.arange(12.0).reshape(3, 4)

    def mapped(f: Any) -> Any:
        return steno.vmap(f, axis_name="i")(x)

    np.testing.assert_array_equal(mapped(lambda x: lax.ppermute(x, "i", [(0, 1)])), [[0] * 4, [0, 1, 2, 3], [0] * 4])
    np.testing.assert_array_equal(mapped(lambda x: lax.pbroadcast(x, "i", 1)), np.tile(np.asarray(x)[1], (3, 1)))
    with pytest.raises(ValueError, match="unique"):
        mapped(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 1)]))
    with pytest.raises(ValueError, match="must hold positions"):
        mapped(lambda x: lax.ppermute(x, "i", [(0, 3)]))
    with pytest.raises(ValueError, match="does not represent a permutation"):
        mapped(lambda x: lax.pshuffle(x, "i", [0, 0, 1]))
    with pytest.raises(ValueError, match="psum_scatter: the size of axis 0, 4"):
        mapped(lambda x: lax.psum_scatter(x, "i"))
    with pytest.raises(ValueError, match="all_to_all requires the size"):
        mapped(lambda x: lax.all_to_all(x, "i", 0, 0))
    with pytest.raises(ValueError, match="axis_index_groups must hold each of the positions 0 ... 2 along 'i' once"):
        mapped(lambda x: lax.pmax(x, "i", axis_index_groups=[[0], [1, 1]]))
    with pytest.raises(ValueError, match="axis_index_groups must all be of one size"):
        mapped(lambda x: lax.all_gather(x, "i", axis_index_groups=[[0], [1, 2]]))


def test_transpose_placeholders_show_their_type() -> None:
    a = steno.typeof(snp.ones((2, 3)))
    assert repr(Linear(a)) == f"Linear({a})" and Linear(a).ndim == 2
    assert repr(Zero(a)) == f"Zero({a})" and Zero(a).dtype == np.float32
