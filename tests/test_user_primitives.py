"""Ops of users: extend.core.Primitive with rules from interpreters.{ad,batching,mlir}; the other functions of these modules."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import steno
import steno.numpy as snp
from steno import api_util, lax
from steno.extend import core, linear_util, source_info_util
from steno.extend.core import primitives
from steno.interpreters import ad, batching, mlir, partial_eval, xla


def squares(rules: bool = True) -> core.Primitive:
    """x -> x * x with a parameter, of one result."""
    p = core.Primitive("my_square")
    p.def_impl(lambda x, *, scale: x * x * scale)
    p.def_abstract_eval(lambda x, *, scale: x)
    if rules:
        mlir.register_lowering(p, mlir.lower_fun(lambda x, *, scale: x * x * scale, multiple_results=False))
        ad.defjvp(p, lambda t, x, *, scale: 2 * scale * x * t)
        batching.defvectorized(p)
    return p


def test_evaluation_program_derivative_and_batch():
    p = squares()
    f = lambda x: p.bind(x, scale=3.0)  # noqa: E731
    x = snp.arange(4.0)
    np.testing.assert_allclose(f(x), 3 * np.arange(4.0) ** 2)
    np.testing.assert_allclose(steno.jit(f)(x), f(x))
    np.testing.assert_allclose(steno.vmap(f)(x), f(x))
    np.testing.assert_allclose(steno.jit(steno.vmap(steno.grad(f)))(x), 6 * np.arange(4.0))
    np.testing.assert_allclose(steno.grad(lambda x: f(x).sum())(x), 6 * np.arange(4.0))
    assert "my_square[scale=3.0]" in str(steno.make_jaxpr(f)(x))
    assert f(2.0) == 12 and steno.jit(f)(2.0) == 12  # numbers reach rules as arrays


def test_rules_are_derived_from_the_lowering():
    p = core.Primitive("my_pair")
    p.multiple_results = True
    p.def_impl(lambda x: [x + 1, x * 2])
    p.def_abstract_eval(lambda x: [x, x])
    mlir.register_lowering(p, mlir.lower_fun(lambda x: [x + 1, x * 2]))
    x = snp.arange(3.0)
    a, b = steno.vmap(p.bind)(x)
    np.testing.assert_array_equal(a, x + 1)
    np.testing.assert_array_equal(b, x * 2)
    assert steno.grad(lambda x: sum(p.bind(x)))(1.0) == 3


def test_a_lowering_may_change_an_array_of_its_own():
    p = core.Primitive("my_twice")
    p.def_abstract_eval(lambda x: x)

    def lowering(x):
        ref = steno.new_ref(x)
        ref[...] += x
        return steno.freeze(ref)

    mlir.register_lowering(p, mlir.lower_fun(lowering, multiple_results=False))
    assert steno.jit(p.bind)(3.0) == 6 and steno.jit(steno.vmap(p.bind))(snp.arange(3.0)).tolist() == [0, 2, 4]


def test_linear_and_bilinear():
    scaled = core.Primitive("twice")
    scaled.def_impl(lambda x: 2 * x)
    scaled.def_abstract_eval(lambda x: x)
    ad.deflinear2(scaled, lambda ct, x: [scaled.bind(ct)])
    assert steno.grad(lambda x: scaled.bind(x) * 3)(1.0) == 6

    seen = []
    times = core.Primitive("times")
    times.def_impl(lambda x, y: x * y)
    times.def_abstract_eval(lambda x, y: x)

    def left(ct, x, y):
        seen.append(ad.is_undefined_primal(x))
        return times.bind(ct, y)

    ad.defbilinear(times, left, lambda ct, x, y: times.bind(x, ct))
    assert steno.grad(times.bind, (0, 1))(2.0, 5.0) == (5.0, 2.0)
    assert seen == [True]


def test_batching_rule_with_dims():
    seen = []
    p = core.Primitive("outer_sum")
    p.def_impl(lambda x: x.sum())
    p.def_abstract_eval(lambda x: x.update(shape=()))

    def rule(args, dims):
        seen.append(dims)
        (x,), (d,) = args, dims
        return x.sum(axis=1 - d), 0

    batching.primitive_batchers[p] = rule
    np.testing.assert_array_equal(steno.vmap(p.bind, in_axes=1)(snp.arange(6.0).reshape(3, 2)), [6.0, 9.0])
    assert list(map(tuple, seen)) == [(1,)]
    assert batching.primitive_batchers[p] is rule and p in batching.primitive_batchers
    out, dim = batching.primitive_batchers[lax.sin_p]((snp.ones(3),), (0,))
    assert dim == 0 and out.shape == (3,)


@pytest.mark.parametrize("transform", [lambda f: f, steno.jit, steno.grad, steno.vmap])
def test_missing_rules_are_named(transform):
    p = core.Primitive("foo")
    with pytest.raises(NotImplementedError, match="'foo'"):
        transform(p.bind)(np.ones(2) if transform is steno.vmap else 1.0)


def test_a_lowering_that_builds_mlir_is_refused_when_it_is_needed():
    p = squares(rules=False)
    mlir.register_lowering(p, lambda ctx, x, **_: [x])
    assert p.bind(3.0, scale=1.0) == 9
    with pytest.raises(NotImplementedError, match=r"lower_fun"):
        steno.jit(lambda x: p.bind(x, scale=1.0))(3.0)
    with pytest.raises(ValueError, match="steno's own"):
        mlir.register_lowering(lax.add_p, mlir.lower_fun(lambda x, y: x))


def test_types_that_do_not_fit_multiple_results():
    p = core.Primitive("foo")
    p.def_abstract_eval(lambda x: [x])
    with pytest.raises(ValueError, match="multiple_results is False"):
        steno.jit(p.bind)(1.0)


def test_every_op_is_a_primitive_and_two_of_a_name_are_two():
    assert isinstance(lax.add_p, core.Primitive) and not isinstance(lax.add, core.Primitive)
    assert squares() is not squares() and primitives.add_p is lax.add_p and primitives.scatter_add_p.name == "scatter-add"
    assert pickle.loads(pickle.dumps(lax.add_p)) is lax.add_p
    with pytest.raises(TypeError, match="user's own"):
        pickle.dumps(squares())
    assert xla.apply_primitive(lax.add_p, 1.0, 2.0) == 3


def test_tables_are_views_of_the_records():
    p = squares()
    assert p in ad.primitive_jvps and p not in ad.primitive_transposes
    with pytest.raises(KeyError):
        ad.primitive_transposes[p]
    del ad.primitive_jvps[p]
    assert p not in ad.primitive_jvps and lax.sin_p in set(ad.primitive_jvps)
    with pytest.raises(TypeError, match="Primitive"):
        ad.primitive_jvps["sin"] = lambda: None


def test_dead_code_rule():
    p = core.Primitive("pair")
    p.multiple_results = True
    p.def_abstract_eval(lambda x, y: [x, y])
    partial_eval.dce_rules[p] = lambda used, live, eqn: (used, None if not any(used) else eqn)
    jaxpr, _, _ = partial_eval.trace_to_jaxpr_dynamic(lambda x, y: p.bind(x, y), [steno.typeof(1.0)] * 2)
    smaller, used = partial_eval.dce_jaxpr(jaxpr, [True, False])
    assert used == [True, False] and len(smaller.eqns) == 1


def test_programs_cut_in_two():
    closed = steno.make_jaxpr(lambda x, y: (lax.sin(x), lax.sin(x) * y))(1.0, 2.0)
    known, rest, unknown, residuals = partial_eval.partial_eval_jaxpr_nounits(closed, [False, True], False)
    assert unknown == [False, True] and len(residuals) == 1
    a, r = core.jaxpr_as_fun(known)(1.0)
    (b,) = core.jaxpr_as_fun(rest)(r, 2.0)
    np.testing.assert_allclose([a, b], [np.sin(1.0), 2 * np.sin(1.0)], rtol=1e-6)


def test_flat_functions_of_trees():
    fun = linear_util.wrap_init(lambda x, y: {"sum": x + y["z"]})
    _, tree = steno.tree.flatten(((1, {"z": 2}), {}))
    flat, out_tree = api_util.flatten_fun(fun, tree)
    with pytest.raises(linear_util.StoreException):
        out_tree()
    assert flat.call_wrapped(1, 2) == [3] and out_tree() == steno.tree.structure({"sum": 0})
    fixed, dynamic = api_util.argnums_partial(linear_util.wrap_init(lambda *xs: xs), (1,), (10, 20, 30))
    assert dynamic == (20,) and fixed.call_wrapped(99) == (10, 99, 30)
    assert api_util.flatten_axes("in_axes", steno.tree.structure({"a": 1, "b": (2, 3)}), {"a": 0, "b": None}) == [0, None, None]
    with pytest.raises(ValueError, match="in_axes"):
        api_util.flatten_axes("in_axes", steno.tree.structure({"a": 1, "b": (2, 3)}), {"a": 0})
    assert api_util.donation_vector((1,), ("k",), steno.tree.structure(((1, (2, 5)), {"k": 1, "z": 2}))) == (False, True, True, True, False)
    assert api_util.rebase_donate_argnums((2,), (0,)) == (1,)
    info = api_util.debug_info("jit", lambda a, *, k: a, ({"x": 1},), {"k": 2})
    assert info.arg_names == ("a['x']", "k")


def test_generator_transformations():
    @linear_util.transformation_with_aux
    def counted(*args):
        out = yield args, {}
        yield out + 1, len(args)

    fun, aux = counted(linear_util.wrap_init(lambda x, y: x * y))
    assert fun.call_wrapped(3, 4) == 13 and aux() == 2


def test_what_is_being_traced():
    seen = []

    def f(x):
        seen.append((core.unsafe_am_i_under_a_jit_DO_NOT_USE(), core.unsafe_am_i_under_a_vmap_DO_NOT_USE()))
        seen.append((core.unsafe_get_axis_names_DO_NOT_USE(), core.get_opaque_trace_state() == state))
        return x

    state = core.get_opaque_trace_state()
    steno.jit(steno.vmap(f, axis_name="i"))(np.ones(2))
    assert seen == [(True, True), (["i"], False)]
    assert state == core.get_opaque_trace_state()
    assert "test_user_primitives" in source_info_util.summarize(source_info_util.current())
    assert core.mapped_aval(3, 0, steno.typeof(np.ones((3, 2), np.float32))).shape == (2,)
    assert core.concrete_or_error(int, 3.0) == 3
    with pytest.raises(steno.errors.ConcretizationTypeError, match="the axis"):
        steno.jit(lambda x: core.concrete_or_error(int, x, "the axis"))(1)


def test_the_page_on_extending_runs():
    page = Path(__file__).resolve().parent.parent / "docs" / "extending.md"
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.S):
        exec(block, {})


def test_what_evaluates_an_op_can_be_watched():
    calls = []
    plain = lax.sin_p.impl
    lax.sin_p.def_impl(lambda x, **params: calls.append(1) or plain(x, **params))
    try:
        assert snp.sin(0.0) == 0 and len(calls) == 1
        assert steno.jit(snp.sin)(0.0) == 0 and len(calls) == 1
        steno.grad(lambda x: lax.sin(x) * 2)(1.0)
        assert len(calls) == 2
    finally:
        lax.sin_p.override = None
    assert snp.sin(0.0) == 0 and len(calls) == 2
