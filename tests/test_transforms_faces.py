"""Around transformations: what a function keeps, policies, vectors of trees, checks of derivatives, leaks, forbidden values, scopes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import steno
import steno.numpy as snp
from steno import lax
from steno.ad_checkpoint import checkpoint_name, print_saved_residuals, saved_residuals
from steno.core.jaxpr import subjaxprs
from steno.flatten_util import ravel_pytree
from steno.test_util import check_grads

P = steno.checkpoint_policies


def names(program: Any) -> list[str]:
    """The ops of a program and of those inside it."""
    out = []
    for e in program.eqns:
        out.append(e.op.name)
        for sub in subjaxprs(e.params):
            out += names(sub)
    return out


# checkpoint


def three(x: Any) -> Any:
    y = checkpoint_name(snp.sin(x), "first")
    z = checkpoint_name(snp.exp(y), "second")
    return snp.tanh(z)


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        (None, ["from the argument x"]),
        (P.nothing_saveable, ["from the argument x"]),
        (P.save_only_these_names("first"), ["from the argument x", "named 'first'"]),
        (P.save_any_names_but_these("first"), ["from the argument x", "named 'second'"]),
        (P.save_from_both_policies(P.save_only_these_names("first"), P.save_only_these_names("second")), 3),
        (
            P.save_and_offload_only_these_names(
                names_which_can_be_saved=["first"], names_which_can_be_offloaded=["second"], offload_src="device", offload_dst="host"
            ),
            3,
        ),
    ],
)
def test_policies_decide_what_is_kept(policy: Any, kept: Any) -> None:
    found = [where for _, where in saved_residuals(steno.checkpoint(three, policy=policy), 1.0)]
    if isinstance(kept, int):
        assert len(found) == kept
    else:
        assert len(found) == len(kept) and all(f.startswith(k) for f, k in zip(found, kept, strict=True)), found
    want = steno.grad(three)(1.0)
    np.testing.assert_allclose(steno.grad(steno.checkpoint(three, policy=policy))(1.0), want, rtol=1e-6)


def test_everything_saveable_repeats_nothing() -> None:
    f = steno.checkpoint(three, policy=P.everything_saveable)
    (call,) = [e for e in steno.make_jaxpr(steno.grad(f))(1.0).eqns if e.op.name == "remat2"]
    assert not {"sin", "cos", "exp", "tanh"} & set(names(call.params["jaxpr"]))


def test_without_policy_everything_is_repeated() -> None:
    (call,) = [e for e in steno.make_jaxpr(steno.grad(steno.checkpoint(three)))(1.0).eqns if e.op.name == "remat2"]
    assert {"sin", "exp", "tanh"} <= set(names(call.params["jaxpr"])) and call.params["differentiated"]


def test_user_policies_are_asked_for_each_op() -> None:
    asked = []

    def policy(op: Any, *avals: Any, **params: Any) -> bool:
        asked.append((op.name, avals[0].str_short()))
        return op.name == "exp"

    steno.grad(steno.checkpoint(steno.jit(three), policy=policy))(1.0)
    assert ("exp", "float32[]") in asked and not any(name == "jit" for name, _ in asked)


def test_names_in_both_lists() -> None:
    with pytest.raises(ValueError, match="exclusive"):
        P.save_and_offload_only_these_names(
            names_which_can_be_saved=["a"], names_which_can_be_offloaded=["a"], offload_src="device", offload_dst="host"
        )


def test_programs_of_checkpoints_are_traced_once() -> None:
    traced = []

    def f(x: Any) -> Any:
        traced.append(1)
        return snp.sin(x)

    g = steno.grad(steno.checkpoint(f))
    for _ in range(3):
        g(snp.float32(1))
    assert len(traced) == 1


def test_memory_of_checkpoint_in_scan() -> None:
    """The compiled program keeps the carries alone, not what each iteration computes."""

    def run(step: Any) -> int:
        def f(x: Any) -> Any:
            return lax.scan(lambda c, _: (step(c), None), x, None, length=64)[0].sum()

        compiled = steno.jit(steno.grad(f)).lower(snp.ones(1000)).compile()
        np.testing.assert_allclose(compiled(snp.ones(1000)), steno.jit(steno.grad(f))(snp.ones(1000)))
        return compiled.memory_analysis().temp_size_in_bytes

    def step(c: Any) -> Any:
        for _ in range(6):
            c = snp.sin(c) * snp.exp(-c)
        return c

    plain, checkpointed = run(step), run(steno.checkpoint(step))
    assert checkpointed < 0.5 * plain and checkpointed < 64 * 4000 + 20 * 4000


def test_print_saved_residuals(capsys: pytest.CaptureFixture[str]) -> None:
    print_saved_residuals(lambda d: snp.sin(d["a"]) * d["b"], {"a": 1.0, "b": snp.ones(2)})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "f32[2] from the argument d['b']" and any("f32[] output of cos from " in line and __file__ in line for line in lines)


# trees as vectors


def test_ravel_pytree() -> None:
    tree = {"a": snp.arange(4.0).reshape(2, 2), "b": (3.0, snp.ones(0)), "c": None}
    vector, unravel = ravel_pytree(tree)
    np.testing.assert_array_equal(vector, [0, 1, 2, 3, 3])
    back = unravel(vector * 2)
    assert back["c"] is None and back["b"][1].shape == (0,)
    np.testing.assert_array_equal(back["a"], [[0, 2], [4, 6]])
    mixed, unravel = ravel_pytree([snp.ones(2, snp.float16), snp.arange(2), snp.complex64(1j)])
    assert mixed.dtype == snp.complex64 and [x.dtype for x in unravel(mixed)] == [np.float16, np.int32, np.complex64]
    with pytest.raises(TypeError, match="given array of dtype float32, but expected dtype complex64"):
        unravel(snp.ones(5))
    with pytest.raises(ValueError, match=r"of shape \(2,\), but expected shape \(5,\)"):
        unravel(snp.ones(2, snp.complex64))
    assert ravel_pytree([])[0].shape == (0,)
    grads = steno.grad(lambda t: (ravel_pytree(t)[0] ** 2).sum())({"a": snp.ones(2), "b": 3.0})
    assert grads["b"] == 6


# checks


def test_check_grads() -> None:
    check_grads(lambda x, y: snp.sin(x) * y["k"], (snp.arange(3.0), {"k": 2.0}), 2)
    check_grads(lambda z: (z * z).real, (snp.complex64(1 + 2j),), 1)
    wrong = steno.custom_jvp(lambda x: snp.sin(x))
    wrong.defjvp(lambda p, t: (wrong(*p), 2 * t[0]))
    for mode in ("fwd", "rev"):
        with pytest.raises(AssertionError, match=f"{'jvp' if mode == 'fwd' else 'vjp'} of order 1"):
            check_grads(wrong, (1.0,), 1, modes=[mode])
    with pytest.raises(ValueError, match="modes"):
        check_grads(wrong, (1.0,), 1, modes=["backward"])


@pytest.mark.usefixtures("small_heap")
def test_leaks_are_found() -> None:
    saved: list[Any] = []

    def leaky(x: Any) -> Any:
        saved.append(x)
        return x

    x = snp.ones(2)
    with steno.checking_leaks():
        steno.vmap(steno.hessian(lambda x: snp.sin(x) * x))(x)
        steno.jit(steno.vmap(steno.grad(steno.checkpoint(lambda x: snp.sin(x)))))(x)
        for transformed in (steno.grad(leaky), lambda x: steno.jvp(leaky, (x,), (x,)), lambda x: steno.vmap(leaky)(snp.ones(2))):
            with pytest.raises(Exception, match="Leaked trace .* are still referenced"):
                transformed(1.0)


def bad(x: Any) -> Any:
    return snp.log(x) * 0.0


@pytest.mark.parametrize("wrap", [steno.grad, lambda f: steno.jit(steno.grad(f)), lambda f: steno.grad(steno.jit(f))])
def test_forbidden_values_are_placed_in_the_backward_pass(wrap: Any) -> None:
    """0 * inf appears in the derivative alone: the message names the op and the line of the function."""
    with (
        steno.debug_nans(True),
        pytest.raises(FloatingPointError, match=rf"invalid value \(nan\) encountered in mul at .*{__file__}.*\(bad\)"),
    ):
        wrap(bad)(0.0)


def test_named_scopes_reach_programs_through_transformations() -> None:
    def f(x: Any) -> Any:
        with steno.named_scope("inner"):
            return snp.sin(x)

    for name, g in (("vmap", steno.vmap(f)), ("jvp", lambda x: steno.jvp(f, (x,), (x,))), ("jvp", lambda x: steno.vjp(f, x)[0])):
        assert f"# [{name}(inner)]" in steno.make_jaxpr(g)(snp.ones(3)).pretty_print(name_stack=True)


def test_gradients_that_are_not_wanted_are_not_computed() -> None:
    def pulled(*entries: Any) -> Any:
        def g(x: Any, w: Any) -> Any:
            return steno.vjp(lambda x, w: snp.sin(x) * w, x, w)[1].with_refs(*entries)(snp.float32(1))

        jaxpr = steno.make_jaxpr(g)(snp.float32(1), snp.float32(2)).jaxpr
        return [e.primitive.name for e in jaxpr.eqns][3:]  # behind sin, cos and mul

    value, none = steno.ad.GradValue(), steno.ad.DontWant()
    assert sorted(pulled(value, value)) == ["mul", "mul", "mul"]
    assert sorted(pulled(value, none)) == ["mul", "mul"] and sorted(pulled(none, value)) == ["mul"] and pulled(none, none) == []


def test_tracers_tell_what_they_are() -> None:
    with pytest.raises(steno.errors.TracerBoolConversionError, match="mapped by vmap over an axis of size 3"):
        steno.vmap(lambda x: x if x > 0 else -x)(snp.ones(3))
    with pytest.raises(steno.errors.ConcretizationTypeError, match="differentiated"):
        steno.grad(lambda x: x * float(x))(1.0)


@pytest.mark.parametrize("around", [lambda f: f, steno.jit, lambda f: steno.vmap(f, axis_size=2, in_axes=None)])
def test_what_elements_share_is_passed_as_it_is(around: Any) -> None:
    """Also within other transformations: a number may be a shape, an array of NumPy a table of indices."""
    given = (3, 0.5, np.arange(2), "word", None)
    seen = []

    def f(x: Any, *rest: Any) -> Any:
        seen.extend(rest)
        return x + snp.arange(rest[0])

    mapped = steno.vmap(f, in_axes=(0, None, None, None, None, None))
    assert around(lambda x: mapped(x, *given))(snp.ones(2)).shape[-2:] == (2, 3)
    assert all(a is b for a, b in zip(seen, given, strict=True))
