"""Functions with rules of their own, under every transformation: what they close over, collectives, structure, results that only a rule
batches, keyword-only arguments, methods of the function below."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import steno
import steno.numpy as snp
from steno import grad, jit, lax, vmap
from steno.core.jaxpr import subjaxprs
from steno.custom_batching import custom_vmap, sequential_vmap
from steno.errors import TracerBoolConversionError, UnexpectedTracerError
from steno.test_util import check_grads
from steno.tree_util import register_pytree_node, tree_leaves

XS = np.arange(3, dtype=np.float32)


# What a function and its rules close over


def closing_over_jvp(x: Any) -> Any:
    """y -> x y, whose derivative by its rule is 3 x."""

    @steno.custom_jvp
    def g(y: Any) -> Any:
        return x * y

    g.defjvp(lambda primals, tangents: (g(*primals), 3 * x * tangents[0]))
    return g


def closing_over_vjp(x: Any) -> Any:
    @steno.custom_vjp
    def g(y: Any) -> Any:
        return x * y

    g.defvjp(lambda y: (g(y), None), lambda _, ct: (3 * x * ct,))
    return g


def closing_over_residual(x: Any) -> Any:
    @steno.custom_vjp
    def g(y: Any) -> Any:
        return x * y

    g.defvjp(lambda y: (g(y), x), lambda x, ct: (3 * x * ct,))
    return g


MAKERS = [closing_over_jvp, closing_over_vjp, closing_over_residual]
PROGRAMS: list[tuple[str, Callable[[Any], Any], Any]] = [
    ("vmap", lambda g: vmap(lambda x: g(x)(2.0))(XS), 2 * XS),
    ("grad of vmap", lambda g: grad(lambda z: vmap(lambda x: g(x)(z))(XS).sum())(2.0), 9.0),
    ("vmap of grad", lambda g: vmap(lambda x: grad(lambda z: g(x)(z))(2.0))(XS), 3 * XS),
    ("vmap of jit of grad", lambda g: vmap(lambda x: jit(grad(lambda z: g(x)(z)))(2.0))(XS), 3 * XS),
    ("second derivative", lambda g: grad(grad(lambda z: vmap(lambda x: g(x)(z * z))(XS).sum()))(2.0), 18.0),
    ("vmap of grad of vmap", lambda g: vmap(lambda a: grad(lambda z: vmap(lambda x: g(x)(z))(XS * a).sum())(2.0))(XS), 9 * XS),
    ("grad of vmap of vmap", lambda g: grad(lambda z: vmap(lambda a: vmap(lambda x: g(x)(z * a))(XS))(XS).sum())(2.0), 27.0),
    ("both axes", lambda g: vmap(lambda a: vmap(lambda x: grad(lambda z: g(x * a)(z))(2.0))(XS))(XS), 3 * np.outer(XS, XS)),
]  # fmt: skip


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(("program", "wanted"), [p[1:] for p in PROGRAMS], ids=[p[0] for p in PROGRAMS])
def test_functions_and_rules_refer_to_values_of_a_map_around_them(program: Any, wanted: Any, make: Any, jitted: bool) -> None:
    run = functools.partial(program, make)
    np.testing.assert_allclose((steno.jit(run) if jitted else run)(), wanted, rtol=1e-6)


@pytest.mark.parametrize("make", MAKERS)
def test_what_is_closed_over_has_no_derivative(make: Any) -> None:
    with pytest.raises(UnexpectedTracerError, match="Encountered an unexpected tracer"):
        steno.grad(lambda x: make(x)(x))(3.0)


@pytest.mark.parametrize("make", MAKERS[1:])
def test_values_of_a_map_do_not_reach_rules_of_loops_within(make: Any) -> None:
    def f(x: Any, z: Any) -> Any:
        return lax.scan(lambda c, _: (make(x)(c), None), z, None, length=2)[0]

    with pytest.raises(UnexpectedTracerError, match="Encountered an unexpected tracer"):
        steno.grad(lambda z: steno.vmap(lambda x: f(x, z))(XS).sum())(2.0)


def test_arguments_without_derivatives_may_be_elements_of_a_batch() -> None:
    @functools.partial(steno.custom_jvp, nondiff_argnums=(0,))
    def f(x: Any, y: Any) -> Any:
        return x * y

    f.defjvp(lambda x, primals, tangents: (f(x, *primals), 5 * x * tangents[0]))
    y, t = steno.jvp(lambda y: steno.vmap(f)(XS, y), (XS,), (np.ones_like(XS),))
    np.testing.assert_allclose(y, XS * XS)
    np.testing.assert_allclose(t, 5 * XS)


# What is batched


def summed() -> Any:
    @steno.custom_jvp
    def f(x: Any) -> Any:
        return lax.psum(x, "i")

    f.defjvp(lambda primals, tangents: (lax.psum(primals[0], "i"), tangents[0]))
    return f


def summed_vjp() -> Any:
    @steno.custom_vjp
    def f(x: Any) -> Any:
        return lax.psum(x, "i")

    f.defvjp(lambda x: (lax.psum(x, "i"), None), lambda _, ct: (ct,))
    return f


@pytest.mark.parametrize("make", [summed, summed_vjp])
@pytest.mark.parametrize("jitted", [False, True])
def test_a_collective_of_what_is_not_batched_gives_what_is_not_batched(make: Any, jitted: bool) -> None:
    f = make()
    mapped = steno.vmap(lambda _, x: f(x), axis_name="i", in_axes=(0, None), out_axes=None)
    assert float((steno.jit(mapped) if jitted else mapped)(XS, 2.0)) == 6.0
    recorded = steno.make_jaxpr(f, axis_env=[("i", 3)])(2.0)
    run = steno.vmap(
        lambda _, x: steno.core.eval_jaxpr(recorded.jaxpr, recorded.consts, x)[0], axis_name="i", in_axes=(0, None), out_axes=None
    )
    assert float(run(XS, 2.0)) == 6.0


def test_a_rule_may_batch_what_the_function_does_not() -> None:
    @steno.custom_jvp
    def f(x: Any) -> Any:
        return np.zeros(x.shape, x.dtype)

    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
    total = lambda g: lambda x: g(steno.vmap(f))(x).sum()  # noqa: E731
    for derive in (
        steno.grad(total(lambda h: h)),
        steno.grad(total(steno.jit)),
        steno.jit(steno.grad(total(lambda h: h))),
        steno.vmap(steno.grad(f)),
        steno.jit(steno.vmap(steno.grad(f))),
    ):
        np.testing.assert_allclose(derive(XS), np.ones(3))


def test_a_rule_that_alone_is_batched_is_named() -> None:
    @steno.custom_jvp
    def f(x: Any) -> Any:
        return x + 1.0

    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * lax.axis_index("i")))

    def total(c: Any, call: Any) -> Any:
        return steno.vmap(lambda x: x * call(c), axis_name="i")(XS).sum()

    assert float(steno.grad(lambda c: total(c, f))(1.0)) == 5.0
    with pytest.raises(ValueError, match="custom rule of f: under vmap result 0 differs from element to element of the mapped axis 'i'"):
        steno.grad(lambda c: steno.jit(total, static_argnums=1)(c, f))(1.0)


# Structure and types of what rules return


def in_loop(f: Any) -> Any:
    return lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0]


WRONG = [(lambda x: (x, x), "structure"), (lambda x: snp.zeros(3), r"float32\[(2,)?3\]"), (lambda x: [x], "structure")]


@pytest.mark.parametrize(("result", "message"), WRONG)
@pytest.mark.parametrize("mapped", [False, True])
def test_rules_give_what_the_function_gives(result: Any, message: str, mapped: bool) -> None:
    @steno.custom_jvp
    def f(x: Any) -> Any:
        return x

    @f.defjvp
    def f_jvp(primals: Any, tangents: Any) -> Any:
        return result(primals[0]), result(tangents[0])

    @steno.custom_vjp
    def g(x: Any) -> Any:
        return x

    g.defvjp(lambda x: (result(x), None), lambda _, ct: (ct,))
    around = steno.vmap if mapped else lambda h: h
    x = np.ones(2, np.float32) if mapped else np.float32(1)
    with pytest.raises(TypeError, match=message):
        steno.jvp(around(in_loop(f)), (x,), (x,))
    with pytest.raises(TypeError, match=message):
        steno.grad(lambda x: snp.sum(around(in_loop(g))(x)))(x)


def test_cotangents_may_be_prefixes_and_containers_need_not_hold_none() -> None:
    class Strict(list[Any]):
        pass

    def unflatten(_: Any, children: Any) -> Strict:
        assert all(c is not None for c in children)
        return Strict(children)

    register_pytree_node(Strict, lambda x: (tuple(x), None), unflatten)

    @steno.custom_vjp
    def f(xs: Any, y: Any) -> Any:
        return xs[0] * y + xs[1]

    for bwd in (lambda _, ct: (Strict([2 * ct, 2 * ct]), None), lambda _, ct: (2 * ct, None)):
        f.defvjp(lambda xs, y: (f(xs, y), None), bwd)
        got, of_y = steno.grad(f, argnums=(0, 1))(Strict([1.0, 2.0]), 3.0)
        assert [float(x) for x in got] == [2.0, 2.0] and float(of_y) == 0.0


def test_symbolic_cotangents_have_the_shapes_of_arguments() -> None:
    @steno.custom_vjp
    def f(x: Any, y: Any, z: Any) -> Any:
        return x, y, z

    def bwd(_: Any, cts: Any) -> Any:
        x, y, z = cts
        return y, x, z

    f.defvjp(lambda x, y, z: (f(x.value, y.value, z.value), None), bwd, symbolic_zeros=True)
    with pytest.raises(ValueError, match="bwd rule bwd"):
        steno.grad(lambda x, y, z: f(x, y, z)[2].sum())(np.ones(1, np.float32), np.ones(2, np.float32), np.ones(3, np.float32))


# Arguments and methods


def test_keyword_only_arguments_keep_their_defaults() -> None:
    def fun(x: Any, y: Any, a: Any) -> Any:
        return x + y * a

    bound = functools.partial(fun, a=0.5)
    f = steno.custom_jvp(bound)
    f.defjvp(lambda primals, tangents: steno.jvp(bound, primals, tangents))
    assert [float(t) for t in steno.grad(lambda xs: f(*xs))((1.0, 2.0))] == [1.0, 0.5]
    with pytest.raises(TypeError, match="could not be resolved to positions: a"):
        f(1.0, 2.0, a=3.0)


@pytest.mark.parametrize("derivative", [steno.custom_jvp, steno.custom_vjp])
def test_methods_of_the_function_below_set_its_rules(derivative: Any) -> None:
    name = "defjvp" if derivative is steno.custom_jvp else "defvjp"
    for first, second in itertools.permutations([derivative, custom_vmap]):
        f = second(first(snp.sin))
        assert callable(f.def_vmap) and callable(getattr(f, name))
        with pytest.raises(AttributeError, match="no attribute 'define'"):
            getattr(f, "define")  # noqa: B009
    with pytest.raises(AttributeError, match="no attribute 'def_vmap'"):
        getattr(derivative(snp.sin), "def_vmap")  # noqa: B009


def test_custom_vmap_below_custom_vjp() -> None:
    @steno.custom_vjp
    @custom_vmap
    def f(x: Any, y: Any) -> Any:
        return snp.sin(x) * y

    @f.def_vmap
    def rule(size: int, batched: Any, x: Any, y: Any) -> Any:
        return snp.cos(x) * y, True

    f.defvjp(lambda x, y: (f(x, y), (x, y)), lambda res, ct: (5 * ct, res[0] * ct))
    np.testing.assert_allclose(steno.vmap(f)(XS, XS), np.cos(XS) * XS, rtol=1e-6)
    assert float(steno.grad(f)(1.0, 2.0)) == 5.0


# custom_vmap and derivatives


def test_rules_of_maps_see_what_is_batched_in_value_and_tangent() -> None:
    seen: list[list[bool]] = []

    @custom_vmap
    def f(x: Any, y: Any) -> Any:
        return snp.sin(x) * y

    @f.def_vmap
    def rule(size: int, batched: list[bool], x: Any, y: Any) -> Any:
        seen.append(list(batched))
        return snp.cos(x) * y, any(batched)

    np.testing.assert_allclose(steno.jacfwd(f)(XS, 2.0), np.diag(-2 * np.sin(XS)), atol=1e-6)
    along = lambda a, b, c, d: steno.jvp(f, (a, b), (c, d))  # noqa: E731
    for axes, wanted in [((0, None, None, 0), [False, False]), ((0, 0, 0, 0), [True, True]), ((None, 0, None, 0), [False, True])]:
        args = [XS if a == 0 else 2.0 for a in axes]
        y, t = steno.vmap(along, in_axes=axes)(*args)
        a, b, c, d = np.broadcast_arrays(*args)
        np.testing.assert_allclose(y, np.cos(a) * b, rtol=1e-6)
        np.testing.assert_allclose(t, -np.sin(a) * b * c + np.cos(a) * d, atol=1e-6)
        assert seen[-1] == wanted


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("shape", [(), (3,)])
def test_rules_of_maps_that_call_everything_batched(shape: Any, spread: bool) -> None:
    @custom_vmap
    def f(x: Any) -> Any:
        return snp.sin(x)

    @f.def_vmap
    def rule(size: int, batched: Any, x: Any) -> Any:
        y = snp.cos(x)
        return snp.broadcast_to(y, (size, *y.shape)) if spread and not batched[0] else y, True

    got = vmap(lambda t: steno.jvp(f, (snp.ones(shape),), (snp.full(shape, t),))[1])(XS)
    np.testing.assert_allclose(got, np.broadcast_to((-np.sin(1.0) * XS).reshape(3, *(1,) * len(shape)), (3, *shape)), rtol=1e-6)


def test_sequential_vmap_under_forward_mode() -> None:
    f = sequential_vmap(snp.sin)
    np.testing.assert_allclose(steno.jacfwd(f)(XS), np.diag(np.cos(XS)), atol=1e-6)


def test_linear_rules_leave_tangents_unbatched() -> None:
    @custom_vmap
    def f(x: Any) -> Any:
        return 7.0 * x

    f.def_vmap(lambda size, batched, x: (11.0 * x, batched[0]))
    _, t = steno.vmap(lambda x, t: steno.jvp(f, (x,), (t,)), in_axes=(0, None), out_axes=(0, None))(XS, np.float32(4))
    assert float(t) == 44.0


# vmap's arguments and axes, and what derivatives show of themselves


def test_arguments_that_are_not_mapped_may_be_any_object() -> None:
    np.testing.assert_allclose(vmap(lambda x, f: f(x), in_axes=(0, None))(XS, snp.sin), np.sin(XS), rtol=1e-6)
    with pytest.raises(TypeError, match="not a valid JAX type"):
        vmap(lambda x, f: f(x))(XS, snp.sin)


@pytest.mark.parametrize("name", ["in_axes", "out_axes"])
@pytest.mark.parametrize("axes", [(np.ones(2),), (snp.ones(2),), ("a",), (True,), (0.0,)])
def test_axes_are_positions(name: str, axes: Any) -> None:
    with pytest.raises(TypeError, match=f"vmap {name} must be an int"):
        vmap(lambda x: x, **{name: axes})(XS)


def test_derivatives_show_programs_and_residuals() -> None:
    _, linear = steno.linearize(snp.sin, 1.0)
    assert names(linear.func.args[0]) == ["mul"]
    assert len(steno.vjp(snp.sin, 1.0)[1].opaque_residuals) == 1
    assert not steno.vjp(snp.multiply, 2.0, 3.0)[1].opaque_residuals


def test_arguments_are_put_back_after_jit() -> None:
    @jit
    def forward(x: Any, y: Any) -> Any:
        out, pull = steno.vjp(lambda x, y: x * y, x, y)
        pull.args_res = [None, None]
        return out, pull

    @jit
    def backward(pull: Any, x: Any, y: Any) -> Any:
        pull.args_res = [x, y]
        return pull(1.0)

    out, pull = forward(2.0, 3.0)
    assert float(out) == 6.0
    assert [float(g) for g in backward(pull, 2.0, 3.0)] == [3.0, 2.0]
    with pytest.raises(ValueError, match="applied before its arguments were restored"):
        pull(1.0)


# checkpoint


def test_checkpoint_traces_once() -> None:
    count = 0

    @steno.checkpoint
    def f(x: Any) -> Any:
        nonlocal count
        count += 1
        return snp.sin(x), 3.0

    for k in range(4):
        y, c = f(float(k))
        np.testing.assert_allclose(y, np.sin(k), rtol=1e-6)
        assert float(c) == 3.0
    assert count == 1


def test_checkpoint_has_no_values_to_branch_on() -> None:
    @steno.checkpoint
    def f(x: Any) -> Any:
        return x if x > 0 else -x

    with pytest.raises(TracerBoolConversionError):
        f(3.0)


def names(program: Any) -> list[str]:
    """The ops of a program and of those inside it."""
    return [n for e in program.eqns for n in (e.op.name, *(n for sub in subjaxprs(e.params) for n in names(sub)))]


def keeps(*ops: str) -> Any:
    return lambda prim, *_, **__: str(prim) in ops


def two_sines(c: Any) -> Any:
    return jit(lambda c: snp.sin(snp.sin(c * 1.1)))(c)


def looped(c: Any) -> Any:
    return lax.scan(lambda c, x: (two_sines(c) + x, snp.cos(c) * x), c, XS, reverse=True)


def branched(c: Any) -> Any:
    return lax.cond(c > 0, lambda c: two_sines(c), lambda c: snp.exp(c) * 2, c)


def nested(c: Any) -> Any:
    return lax.scan(lambda c, x: (branched(c) + lax.scan(lambda d, _: (two_sines(d), d), c * x, None, length=2)[0], c), c, XS)


POLICIES = [keeps(), keeps("sin"), keeps("cos"), keeps("mul", "exp"), keeps("scan"), keeps("cond"), lambda *_, **__: True]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("fun", [looped, branched, nested])
def test_policies_inside_loops_and_branches_change_no_derivatives(fun: Any, policy: Any) -> None:
    total = lambda f: lambda x: sum(snp.sum(y) for y in tree_leaves(f(x)))  # noqa: E731
    f = steno.checkpoint(total(fun), policy=policy)
    points = XS - 0.4  # both branches
    np.testing.assert_allclose(jit(vmap(grad(f)))(points), jit(vmap(grad(total(fun))))(points), rtol=1e-5)
    if fun is not nested:
        np.testing.assert_allclose(jit(grad(grad(f)))(0.7), jit(grad(grad(total(fun))))(0.7), rtol=1e-4)


KEPT: list[tuple[Any, Any, int, int]] = [
    (looped, (), 3, 2),
    (looped, ("sin",), 0, 2),
    (looped, ("cos",), 3, 0),
    (looped, ("sin", "cos"), 0, 0),
    (branched, (), 1, 2),
    (branched, ("sin",), 0, 2),
    (branched, ("cos",), 0, 0),
]


@pytest.mark.parametrize(("fun", "kept", "sines", "cosines"), KEPT)
def test_what_policies_keep_inside_loops_and_branches_is_not_computed_again(fun: Any, kept: Any, sines: int, cosines: int) -> None:
    pull = steno.vjp(steno.checkpoint(lambda c: fun(c * 1.0), policy=keeps(*kept)), 0.7)
    ct = steno.tree.map(snp.ones_like, pull[0])
    found = names(steno.make_jaxpr(pull[1])(ct))
    assert (found.count("sin"), found.count("cos")) == (sines, cosines)


def test_checkpoint_of_functions_with_rules() -> None:
    for make in MAKERS:
        f = steno.checkpoint(lambda z, make=make: snp.sin(make(np.float32(2))(z)))
        np.testing.assert_allclose(f(1.0), np.sin(2.0), rtol=1e-6)
        np.testing.assert_allclose(steno.grad(f)(1.0), 6 * np.cos(2.0), rtol=1e-5)
    check_grads(steno.checkpoint(lambda x: snp.sin(snp.sin(x))), (1.0,), order=2)


def test_compiled_gradients_have_the_weak_types_of_the_program() -> None:
    for f in (lambda x: steno.checkpoint(snp.sin)(x) ** 2, lambda x: snp.sin(x) ** 2):
        program = jit(grad(f)).trace(3.2).jaxpr
        assert jit(grad(f))(3.2).weak_type == program.out_avals[0].weak_type == grad(f)(3.2).weak_type


# Logs of backward passes


def logging_sine(key: Any = "a", entries: Any = lambda ct: {"ct": ct}) -> Any:
    @steno.custom_vjp
    def f(x: Any) -> Any:
        return snp.sin(x)

    f.defvjp_with_logs(lambda x: (f(x), x), lambda x, ct: ((snp.cos(x) * ct,), {key: entries(ct)}))
    return f


def test_backward_passes_give_what_rules_log() -> None:
    f = logging_sine()
    pull = steno.vjp(lambda x: 2 * f(x), 1.0)[1]
    for run in (pull.with_logs, jit(pull.with_logs), jit(lambda ct: steno.vjp(jit(lambda x: 2 * f(x)), 1.0)[1].with_logs(ct))):
        (ct,), logs = run(3.0)
        assert float(ct) == pytest.approx(6 * np.cos(1.0), rel=1e-6)
        assert list(logs) == ["a"] and float(logs["a"]["ct"]) == 6.0
    assert float(pull(3.0)[0]) == float(ct)
    assert float(grad(f)(1.0)) == pytest.approx(np.cos(1.0), rel=1e-6)
    assert "backward_log" not in names(steno.make_jaxpr(grad(f))(1.0))
    assert steno.vjp(snp.sin, 1.0)[1].with_logs(1.0)[1] == {}


def test_logs_of_loops_and_maps_are_rows() -> None:
    f = logging_sine(entries=lambda ct: {"ct": ct, "one": snp.float32(1)})
    for step in (f, jit(f), steno.checkpoint(f)):
        (ct,), logs = steno.vjp(lambda x, step=step: lax.scan(lambda c, _: (step(c), None), x, None, length=3)[0], 1.0)[1].with_logs(1.0)
        x = [1.0, np.sin(1.0), np.sin(np.sin(1.0))]
        np.testing.assert_allclose(logs["a"]["ct"], [np.cos(x[1]) * np.cos(x[2]), np.cos(x[2]), 1.0], rtol=1e-6)
        np.testing.assert_allclose(ct, np.prod(np.cos(x)), rtol=1e-6)
    for run in (steno.vjp(vmap(f), XS)[1].with_logs, vmap(lambda ct: steno.vjp(f, 1.0)[1].with_logs(ct))):
        _, logs = run(XS)
        np.testing.assert_allclose(logs["a"]["ct"], XS)
        np.testing.assert_allclose(logs["a"]["one"], np.ones(3))


def test_logs_of_branches() -> None:
    """The index of the branch taken, and for each branch what it logs by the key, zeros where it was not taken."""
    f, g = logging_sine(entries=lambda ct: ct), logging_sine("b", entries=lambda ct: {"twice": 2 * ct})
    for branch in (g, jit(g), steno.checkpoint(g)):
        pull = steno.vjp(lambda x, b=branch: lax.switch(x.astype(int), [snp.cos, b, lambda x: b(f(x))], x), 1.0)[1]
        for run in (pull.with_logs, jit(pull.with_logs)):
            (ct,), logs = run(3.0)
            assert float(ct) == pytest.approx(3 * np.cos(1.0), rel=1e-6)
            a, b = logs["a"], logs["b"]
            assert list(map(int, (a.index, b.index))) == [1, 1]
            assert a.branches[:2] == [None, None] and float(a.branches[2]) == 0
            assert b.branches[0] is None and [float(x["twice"]) for x in b.branches[1:]] == [6, 0]
    rows = lambda x: lax.scan(lambda c, i: (lax.cond(i > 1, f, lambda x: 2 * x, c), None), x, snp.arange(3))[0]  # noqa: E731
    _, logs = steno.vjp(rows, 1.0)[1].with_logs(1.0)
    np.testing.assert_array_equal(logs["a"].index, [0, 0, 1])
    np.testing.assert_array_equal(logs["a"].branches[1], [0, 0, 1])
    inner = lambda x: lax.cond(x > 1, f, lambda x: x, x)  # noqa: E731
    _, logs = steno.vjp(lambda x: lax.cond(x > 0, inner, lambda x: x, x), 2.0)[1].with_logs(1.0)
    assert repr(logs["a"].branches[1].branches[0]) == "None" and float(logs["a"].branches[1].branches[1]) == 1
    assert len(steno.tree.leaves(logs)) == 3


def test_logs_have_derivatives() -> None:
    f = logging_sine(entries=lambda ct: ct * ct)
    assert float(grad(lambda y: steno.vjp(f, 1.0)[1].with_logs(y)[1]["a"])(3.0)) == 6.0


def test_custom_gradient_logs() -> None:
    @functools.partial(steno.custom_gradient, with_logs=True)
    def f(x: Any, y: Any) -> Any:
        return x * y, lambda ct: ((ct * y, ct * x), {"x": x})

    @steno.custom_gradient(with_logs=True)
    def g(x: Any) -> Any:
        return x**2, lambda ct: (ct * 2 * x, None)

    (a, b), logs = steno.vjp(f, 3.0, 4.0)[1].with_logs(1.0)
    assert (float(a), float(b), float(logs["x"])) == (4.0, 3.0, 3.0)
    assert float(grad(g)(3.0)) == 6.0 and steno.vjp(g, 3.0)[1].with_logs(1.0)[1] == {}


def test_logs_that_do_not_fit() -> None:
    f, g = logging_sine(), logging_sine()
    with pytest.raises(ValueError, match="key 'a' is logged twice"):
        steno.vjp(lambda x: f(g(x)), 1.0)[1].with_logs(1.0)
    with pytest.raises(ValueError, match="key 'a' is logged twice"):
        steno.vjp(lambda x: lax.cond(x > 0, lambda x: f(g(x)), lambda x: x, x), 1.0)[1].with_logs(1.0)
    assert float(grad(lambda x: lax.cond(x > 0, f, lambda x: x, x))(0.0)) == 1.0
    for out, message in [(lambda ct: (ct,), "must produce a pair"), (lambda ct: ((ct,), [1.0]), "None or a dict")]:
        h = steno.custom_vjp(lambda x: x)
        h.defvjp_with_logs(lambda x: (x, None), lambda _, ct, out=out: out(ct))
        with pytest.raises(TypeError, match=message):
            grad(h)(1.0)
    bad = steno.custom_gradient(lambda x: (x, lambda ct: (ct,)), with_logs=True)
    with pytest.raises(TypeError, match="pair"):
        grad(bad)(1.0)


# optimize_remat


def test_what_checkpoint_does_first_is_the_function_itself() -> None:
    @steno.custom_vjp
    def f(x: Any) -> Any:
        return snp.tan(x)

    f.defvjp(lambda x: (snp.sin(x), x), lambda x, ct: (snp.cos(x) * ct,), optimize_remat=True)  # not what is promised, to tell them apart
    remade = lambda x: steno.checkpoint(f)(x) * 2.0  # noqa: E731
    for around in (lambda g: g, jit, lambda g: lambda x: vmap(g)(snp.full(3, x))):
        value, _ = around(steno.value_and_grad(remade))(0.5)
        assert float(snp.ravel(value)[0]) == pytest.approx(2 * np.tan(0.5), rel=1e-6)
    assert float(grad(f)(0.5)) == pytest.approx(np.cos(0.5), rel=1e-6)
    assert float(grad(grad(f))(0.5)) == pytest.approx(-np.sin(0.5), rel=1e-6)
    looped = steno.checkpoint(lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0])
    value, _ = steno.value_and_grad(looped)(0.5)
    assert float(value) == pytest.approx(np.tan(np.tan(0.5)), rel=1e-6)
    z = snp.float32(2)  # closed over under a map
    got = vmap(lambda z: steno.value_and_grad(steno.checkpoint(lambda x: f(x * z)))(0.5)[0])(z * XS)
    np.testing.assert_allclose(got, np.tan(XS), rtol=1e-6)


def test_rules_have_the_dtypes_of_the_call() -> None:
    """A function that computes in float64 within one of float32: its rules run after x64 has been switched off again."""

    def double(x: Any) -> Any:
        return 2.0 * x * snp.ones(3).sum() / 3

    forward, backward = steno.custom_jvp(double), steno.custom_vjp(double)
    forward.defjvp(lambda primals, tangents: (double(*primals), 2.0 * tangents[0] * snp.ones(())))
    backward.defvjp(lambda x: (double(x), snp.ones(())), lambda one, ct: (2.0 * ct * one * snp.ones(()),))
    for f in (forward, backward):

        def narrow(x: Any, f: Any = f) -> Any:
            with steno.enable_x64(True):
                return lax.convert_element_type(f(lax.convert_element_type(x, np.float64)), np.float32)

        for g in (narrow, steno.jit(narrow)):
            assert steno.grad(g)(snp.float32(1.5)) == 2.0
