"""checkify: what fails first is found under every transformation, as JAX finds it, and its message names the op and the line."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from peer import NO_JAX, Expr, Leaf, peer, run_here

import steno
import steno.numpy as jnp
from steno import lax
from steno.backends import cpu
from steno.core.jaxpr import ClosedJaxpr, eval_jaxpr, open_jaxpr, subjaxprs
from steno.experimental import checkify as c
from steno.ops.check import code_of
from steno.ops.checking import checked_program

x4 = np.arange(4, dtype=np.float32)


def positive(x: Any) -> Any:
    c.check(jnp.all(x > 0), "must be positive: {x}", x=x)
    return jnp.log(x)


def failure(f: Callable[..., Any], *args: Any, errors: Any = c.all_checks) -> str | None:
    """The message of the eager function, which is that of the jitted one and of the jitted function checked."""
    args = steno.tree_util.tree_map(jnp.asarray, args)
    eager, y = c.checkify(f, errors=errors)(*args)
    staged, z = steno.jit(c.checkify(f, errors=errors))(*args)
    of_jitted, w = c.checkify(steno.jit(f), errors=errors)(*args)
    assert eager.get() == staged.get() == of_jitted.get()
    for other in (z, w):
        for a, b in zip(steno.tree_util.tree_leaves(y), steno.tree_util.tree_leaves(other), strict=True):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5)
    return eager.get()


# against the real JAX: programs of x (four floats), i and s (integers); v: an array of positions

PROGRAMS = """
jax.grad(pos)(x[0])
jax.grad(pos)(x[1])
jax.jit(jax.grad(pos))(x[0] - 1)
jax.grad(lambda x: jnp.sum(x / x))(x)
jax.jvp(pos, (x[0],), (x[1],))
jax.hessian(jnp.sqrt)(x[0])
jax.linearize(jnp.sqrt, x[0])[1](x[1])
jax.grad(lambda x: lax.scan(lambda c, y: (jnp.log(c * y), c), 1.0, x)[0])(x)
jax.grad(jax.checkpoint(pos))(x[0])
jax.grad(lambda y: lax.scan(jax.checkpoint(lambda c, z: (pos(c * z), None)), y, jnp.ones(2))[0])(x[2])
lax.fori_loop(0, 3, lambda i, c: (C.check(c < 2, "i {i} c {c}", i=i, c=c), c + 1)[1], x[0])
lax.fori_loop(0, i, lambda k, c: (C.check(c < 2, "k {k}", k=k), c + 1)[1], 0)
lax.switch(s, [lambda: 1.0, lambda: (C.check(False, "b1"), 2.0)[1], lambda: jnp.log(-1.0 * s)])
lax.switch(s + 1, [lambda: 1.0, lambda: (C.check(False, "b1"), 2.0)[1], lambda: jnp.log(-1.0 * s)])
lax.switch(s - 1, [lambda: 1.0, lambda: (C.check(False, "b1"), 2.0)[1], lambda: jnp.log(-1.0 * s)])
lax.cond(x[0] > 0, lambda: jnp.log(-x), lambda: (C.check(x[3] < 3, "{x} and {y}", x=x, y=x[3]), x)[1])
lax.while_loop(lambda c: c < 3, lambda c: (C.check(c < 2, "c {}", c), c + 1)[1], x[0])
lax.while_loop(lambda c: 1 / c < 3, lambda c: c + 1, x[0])
lax.map(lambda y: 1 / y, x)
jax.vmap(lambda y: 1 / y)(x)
jax.vmap(lambda y: (C.check(y < 3, "big {y}", y=y), y)[1])(x)
jax.vmap(lambda y: (C.check(x[0] > 0, "unbatched {x}", x=x), y)[1])(x)
jax.vmap(lambda a: lax.scan(lambda c, y: (c + y, C.check(c < 4, "c {c}", c=c)), a, x)[0])(x)
jnp.where(x > 0, 1 / x, 0.0)
jnp.where(x > 0, x, 0.0)
jnp.cumsum(x - jnp.inf)
x[None] @ jnp.array([jnp.inf, 1, 1, 1.0])
i // (s - 1)
jnp.complex64(1) / 0j
jnp.sin(x / x[0])
lax.rem(x[1], x[0])
x * jnp.nan
jnp.mean(jnp.zeros((0,)))
jax.nn.softmax(x / x[0])
jax.nn.relu(x)
jax.grad(lambda x: jax.nn.relu(x).sum())(x)
jax.grad(jnp.linalg.norm)(x[:1])
jax.nn.logsumexp(jnp.array([-jnp.inf, -jnp.inf]))
x[i]
x[-i]
x[s]
x[-s]
x[9]
x[1:9]
x.reshape(2, 2)[s, i]
x.reshape(2, 2)[5]
x[v]
x.reshape(2, 2)[v[:2]]
x[v.astype(jnp.uint8)]
x.at[v].get(mode="fill", fill_value=0)
x.at[v].get(mode="clip")
x.at[v].set(1.0)
x.at[v].add(x[0], mode="drop")
x.at[9].set(1.0)
x.at[-i].multiply(2.0)
jnp.take(x, v, mode="clip")
jnp.take_along_axis(x.reshape(2, 2), v.reshape(2, 2), 1)
lax.dynamic_slice(x, (s + 2,), (2,))
lax.dynamic_slice(x, (s + 1,), (2,))
lax.dynamic_slice(x.reshape(2, 2), (s, s), (1, 2))
lax.dynamic_update_slice(x, x[:2], (s + 2,))
lax.dynamic_index_in_dim(x, i)
jax.vmap(lambda k: lax.dynamic_slice(x, (k,), (2,)))(v)
jax.grad(lambda x: x[v].sum())(x)
jnp.sort(x / x[0])[s]
jax.ops.segment_sum(x, v, 3)
jnp.unique(x, size=6)
jnp.nonzero(x, size=6)
jnp.searchsorted(x, 2.5)
jnp.interp(1.5, x, x)
jnp.roll(x, 1)
lax.top_k(x, 2)
jax.random.normal(jax.random.key(0), (3,))
jax.random.permutation(jax.random.key(0), x)
x.at[jnp.array([0, 1])].set(x[jnp.array([1, 0])])
"""

SETUP = """
C = __import__(jax.__name__ + '.experimental.checkify', fromlist=['checkify'])
def pos(x):
    C.check(jnp.all(x > 0), 'must be positive: {x}', x=x)
    return jnp.log(x)
"""
RUN = "(lambda names: (exec(setup, names), eval(line, names))[1])(dict(jax=jax, jnp=jnp, lax=lax, np=np, values=values))"
LINE = "C.checkify(jax.jit(lambda x, i, s, v: {}), errors=C.all_checks)(*map(jnp.asarray, values))[0].get()"


def brief(message: str | None) -> str | None:
    """A message without the place, and without what JAX leaves out."""
    if message is None:
        return None
    message = re.sub(r" \(`check` failed.*| at \S+:\d+:\d+ \(.*", "", message)
    return re.sub(r"(, in [\w-]+| in (div|rem)|\. *)$", "", message).strip()


@pytest.mark.skipif(peer() is None, reason=NO_JAX)
def test_what_fails_is_what_fails_in_jax() -> None:
    lines = PROGRAMS.strip().splitlines()
    values = (x4, np.int32(5), np.int32(1), np.array([0, 2, 7, 1], np.int32))
    calls = [Expr(RUN, setup=SETUP, line=LINE.format(line), values=values) for line in lines]
    for line, got, want in zip(lines, run_here(calls), peer().batch(calls), strict=True):
        assert isinstance(got, Leaf) and isinstance(want, Leaf), (line, got, want)
        assert brief(got.value) == brief(want.value), line


# messages


def here() -> int:
    """The number of the line that calls this."""
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return frame.f_back.f_lineno


def test_messages_name_op_and_line() -> None:
    line = here() + 3

    def f(x: Any, i: Any) -> Any:
        c.check(x[0] > 0, "x[0] is {}", x[0])
        y = x[i]
        return jnp.sin(y) / y

    at = rf"{__file__}:{{}}:\d+ \(test_messages_name_op_and_line.<locals>.f\)"
    cases = [
        (x4, 0, r"x\[0\] is 0\.0 \(`check` failed at " + at.format(line) + r"\)"),
        (x4 + 1, 9, r"out-of-bounds indexing for array of shape \(4,\): index 9 is .*axis 0 with size 4, in \S+ at " + at.format(line + 1)),
        (x4 + np.inf, 0, "nan generated by primitive: sin at " + at.format(line + 2)),
        (x4 + 1 - 1 * (x4 > 0) * (x4 + 1), 1, "division by zero in div at " + at.format(line + 2)),
    ]
    for x, i, text in cases:
        assert re.fullmatch(text, str(failure(f, x.astype(np.float32), jnp.int32(i)))), text


def test_places_in_nested_programs_are_their_own() -> None:
    """Not those of the calls around them, also in the backward pass."""

    @steno.jit
    def inner(x: Any) -> Any:
        return jnp.log(x)

    line = here() - 2

    def f(x: Any) -> Any:
        return steno.jit(lambda y: lax.scan(lambda s, z: (s + inner(y * z), None), y, jnp.ones(2))[0])(x)

    for g, x in ((f, -jnp.ones(())), (steno.vmap(f), -jnp.ones(2)), (steno.jit(f), -jnp.ones(()))):
        text = failure(g, x)
        assert text is not None and text.startswith(f"nan generated by primitive: log at {__file__}:{line}:"), text
    text = failure(steno.grad(lambda x: inner(x) * 0.0), jnp.zeros(()), errors=c.nan_checks)
    assert text is not None and f"{__file__}:" in text and "mul at" in text


def test_formats() -> None:
    def f(x: Any) -> None:
        c.check(False, "{:.3f} {a[1][b]} {k}", x[0], a=(x, {"b": jnp.int8(3)}), k=steno.random.key(0))

    text = failure(f, x4 + 0.12345)
    assert text is not None and text.startswith("0.123 3 Array((), dtype=key<fry>)")
    assert c.checkify(lambda: c.check(False, "{} {{}}", np.arange(3)))()[0].get().startswith("[0 1 2] {} (`check` failed at ")
    with pytest.raises(IndexError):
        c.checkify(lambda x: c.check(False, "{} {}", x))(x4)[0].get()


def test_arguments_of_check() -> None:
    for pred in (np.ones(2, bool), 1, 1.0, "yes", None, jnp.ones((1,), bool)):
        for name in ("check", "debug_check"):
            with pytest.raises(TypeError, match=f"{name} takes a scalar pred as argument, got"):
                getattr(c, name)(pred, "message")
    with pytest.raises(TypeError, match="Formatting arguments to checkify.check need to be PyTrees of arrays, but got 'a' of type"):
        c.check(True, "{}", "a")
    with pytest.raises(TypeError, match="the message must be a string, got 3"):
        c.check(True, 3)  # type: ignore[arg-type]
    for errors in (3, c.NaNError, [1], {c.nan_checks}, [ValueError]):
        with pytest.raises(TypeError, match="errors must be a set of categories"):
            c.checkify(positive, errors=errors)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be callable, got 3"):
        c.checkify(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="check_error takes an Error as argument, got type <class 'int'>"):
        c.check_error(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"returned a value of type <class 'str'> at output component \['a'\]"):
        c.checkify(lambda: {"a": "b"})()


# the error


def test_error_is_a_pytree_of_small_arrays() -> None:
    err, _ = c.checkify(lambda x: positive(x) / x, errors=c.all_checks)(x4)
    leaves, tree = steno.tree_util.tree_flatten(err)
    assert [x.shape for x in leaves] == [(), (), (4,)]
    again = steno.tree_util.tree_unflatten(tree, leaves)
    assert again.get() == err.get() and err.is_error is True and str(err) == f"Error({err.get()})"
    assert isinstance(err.get_exception(), c.FailedCheckError)
    with pytest.raises(c.JaxRuntimeError, match="must be positive") as raised:
        err.throw()
    assert isinstance(raised.value, ValueError)
    assert steno.jit(lambda e: e)(err).get() == err.get()
    assert bool(steno.jit(lambda e: e.is_error)(err)) and bool(steno.jit(lambda e: repr(e).startswith("Error(JitTracer"))(err))
    none, _ = c.checkify(jnp.sin)(x4)
    assert none.get() is None and none.throw() is None and none.is_error is False and steno.tree_util.tree_leaves(none) == []
    assert c.init_error.get() is None and steno.tree_util.tree_structure(c.init_error) == steno.tree_util.tree_structure(none)
    fine, _ = c.checkify(positive)(x4 + 1)
    assert fine.get() is None and fine.get_exception() is None and not fine.is_error


def test_mapped_errors_tell_each_element() -> None:
    def f(x: Any, i: Any) -> Any:
        c.check(i >= 0, "i is {i}", i=i)
        return x[i]

    checked = c.checkify(f, errors=c.all_checks)
    for g in (steno.vmap(checked), steno.jit(steno.vmap(checked))):
        errors, _ = g(jnp.ones((3, 5)), jnp.array([-1, 2, 100]))
        first, last = str(errors.get()).split("\n")
        assert first.startswith("at mapped index 0: i is -1 (`check`") and last.startswith("at mapped index 2: out-of-bounds indexing")
        assert isinstance(errors.get_exception(), c.BatchedError) and errors.is_error
        with pytest.raises(c.JaxRuntimeError, match="at mapped index 2"):
            c.check_error(errors)
    errors, _ = steno.vmap(steno.vmap(checked, (None, 0)), (0, None))(jnp.ones((2, 5)), jnp.array([1, 100]))
    assert [line[:24] for line in str(errors.get()).split("\n")] == ["at mapped index 0, 1: ou", "at mapped index 1, 1: ou"]


def test_the_first_failure_in_time_counts() -> None:
    """Not the first in the program: the division fails in an earlier iteration than the check before it."""

    def body(k: Any, x: Any) -> Any:
        c.check(k < 2, "k is {k}", k=k)
        return x + 1 / (1 - k)

    text = failure(lambda n: lax.fori_loop(0, n, body, 0.0), jnp.int32(4))
    assert text is not None and text.startswith("division by zero")


def test_categories() -> None:
    def f(x: Any) -> Any:
        c.check(jnp.all(x < 0), "must be negative")
        x = x / 0
        x = jnp.sin(x)
        return x[5]

    starts = {
        "user_checks": "must be negative", "div_checks": "division by zero", "nan_checks": "nan generated", "index_checks": "out-of-bounds",
        "float_checks": "division by zero", "automatic_checks": "division by zero", "all_checks": "must be negative",
    }  # fmt: skip
    for name, start in starts.items():
        text = failure(f, np.ones(2, np.float32), errors=getattr(c, name))
        assert text is not None and text.startswith(start)
    assert failure(f, np.ones(2, np.float32), errors=set()) is None
    text = failure(f, np.ones(2, np.float32), errors={*c.nan_checks, *c.index_checks})
    assert text is not None and text.startswith("nan generated by primitive: sin")


# checks that nobody makes values of


def test_checks_raise_where_nothing_is_traced() -> None:
    with pytest.raises(c.JaxRuntimeError, match=r"x is -1\.0 \(`check` failed at .*test_checkify.py"):
        c.check(jnp.float32(-1) > 0, "x is {x}", x=jnp.float32(-1))
    for f in (steno.grad(positive), lambda x: steno.jvp(positive, (x,), (x,)), lambda x: steno.vjp(positive, x), steno.hessian(positive)):
        with pytest.raises(c.JaxRuntimeError, match="must be positive: -1"):
            f(-1.0)
        f(1.0)
    with pytest.raises(c.JaxRuntimeError, match=r"must be positive: 0\.0"):
        steno.vmap(positive)(x4)
    steno.vmap(positive)(x4 + 1)
    program = steno.make_jaxpr(positive)(1.0)
    assert "check[debug=False]" in str(program)
    with pytest.raises(c.JaxRuntimeError, match="must be positive"):
        eval_jaxpr(program.jaxpr, program.consts, -1.0)


@pytest.mark.parametrize(
    "f",
    [
        steno.jit(positive),
        steno.jit(lambda x: c.check(x > 0, "no results")),
        lambda x: lax.cond(x > 0, positive, lambda x: x, x),
        lambda x: lax.scan(lambda s, _: (positive(s), None), x, None, 1),
        lambda x: lax.while_loop(lambda s: s < 3, lambda s: positive(s) + 3, x),
        lambda x: steno.jit(steno.grad(positive))(x),
        lambda x: steno.jit(lambda e: c.check_error(e))(c.checkify(positive)(x)[0]),
    ],
)
def test_programs_with_checks_are_not_compiled(f: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="Cannot abstractly evaluate a checkify.check which was not functionalized"):
        f(1.0)
    steno.eval_shape(f, 1.0)
    assert c.checkify(f)(2.0)[0].get() is None


def test_the_reference_backend_refuses_them_too() -> None:
    steno.config.update("steno_backend", "reference")
    try:
        with pytest.raises(ValueError, match="not functionalized"):
            steno.jit(positive)(1.0)
        with pytest.raises(c.JaxRuntimeError, match="must be positive"):
            positive(jnp.float32(-1))
        text = c.checkify(steno.jit(lambda x: x[7] / positive(x)), errors=c.all_checks)(x4)[0].get()
        assert text is not None and text.startswith("out-of-bounds indexing for array of shape (4,): index 7")
    finally:
        steno.config.update("steno_backend", "auto")


def test_debug_check_is_for_checkify_alone() -> None:
    def f(x: Any) -> Any:
        c.debug_check(jnp.all(x != x), "{x} is {x}", x=x)
        return x

    x = jnp.ones(())
    for g in (f, steno.jit(f), steno.vmap(f), steno.jit(steno.vmap(f)), steno.grad(lambda y: f(y).sum())):
        g(jnp.ones((2,)))
        text = c.checkify(g)(jnp.ones((2,)))[0].get()
        assert text is not None and " is " in text
    assert c.checkify(steno.jit(f), errors=c.float_checks)(x)[0].get() is None
    assert c.checkify(lambda: c.check(False, "debug", debug=True))()[0].get().startswith("debug (`check`")


# composition


def test_check_error_hands_failures_on() -> None:
    def ejit(f: Callable[..., Any]) -> Callable[..., Any]:
        checked = steno.jit(c.checkify(f))

        def run(*args: Any) -> Any:
            err, out = checked(*args)
            c.check_error(err)
            return out

        return run

    f = ejit(lambda x: positive(x))
    assert float(f(1.0)) == 0
    with pytest.raises(c.JaxRuntimeError, match="must be positive"):
        f(-1.0)
    text = failure(f, jnp.float32(-1), errors=c.user_checks)
    assert text is not None and text.startswith("must be positive: -1")
    text = failure(lambda x: steno.vmap(f)(x), x4 - 2, errors=c.user_checks)  # of several the first
    assert text is not None and text.startswith("must be positive: -2")

    def scanned(x: Any) -> Any:
        _, errors = lax.scan(lambda s, y: (s, c.checkify(positive)(y)[0]), None, x)
        c.check_error(errors)
        return x

    text = failure(scanned, jnp.array([1.0, 0.0, -1.0]), errors=c.user_checks)
    assert text is not None and text.startswith("must be positive: 0.0")
    assert failure(lambda: c.check_error(c.init_error)) is None


def test_nested_checkify() -> None:
    """Inner failures are values of the inner error; checks the inner one does not make are left out, as without checkify around it."""

    def inner(x: Any) -> Any:
        return 1 / positive(x)

    def outer(x: Any) -> Any:
        err, y = c.checkify(inner, errors=c.user_checks)(x)
        return err, y, c.checkify(inner, errors=c.div_checks)(x)[0]

    err, (user, _, division) = c.checkify(outer, errors=c.user_checks)(-1.0)
    assert err.get() is None and user.get().startswith("must be positive") and division.get() is None
    err, (user, _, division) = steno.jit(c.checkify(outer, errors=c.float_checks))(1.0)
    assert user.get() is None and err.get() == division.get() and err.get().startswith("division by zero")


def test_loops_give_what_they_gave() -> None:
    def body(s: Any, y: Any) -> Any:
        s = s - 1.0
        return s, y + jnp.sin(1 / s)

    for start, fails in ((3.0, False), (1.0, True), (2.0, True)):
        text = failure(lambda s, xs: lax.scan(body, s, xs), jnp.float32(start), np.ones(2, np.float32))
        assert (text is not None and text.startswith("division by zero")) == fails
    text = failure(lambda xs: lax.scan(body, 2.0, xs, reverse=True), x4)
    assert text is not None and text.startswith("division by zero")

    def down(x: Any) -> Any:
        return lax.while_loop(lambda s: jnp.logical_not(jnp.isnan(jnp.sin(1 / s))), lambda s: s - 1, x)

    for start in (0.0, 1.0, 3.0):
        text = failure(down, jnp.float32(start))
        assert text is not None and text.startswith("division by zero")


def test_a_checked_condition_is_computed_once_an_iteration() -> None:
    calls = []

    def condition(s: Any) -> Any:
        steno.debug.callback(lambda: calls.append(1))
        return 1 / s < 3

    assert float(c.checkify(lambda s: lax.while_loop(lambda s: condition(s) & (s < 4), lambda s: s + 1, s), errors=c.float_checks)(1.0)[1])
    assert len(calls) == 4


def test_only_the_branch_that_is_taken_fails() -> None:
    def f(p: Any, x: Any) -> Any:
        return lax.cond(p, lambda x: 1 / x, positive, x)

    text = failure(f, True, jnp.float32(0))
    assert text is not None and text.startswith("division by zero")
    text = failure(f, False, jnp.float32(-1))
    assert text is not None and text.startswith("must be positive")
    assert failure(f, True, jnp.float32(-1)) is None


def test_mapped_branches_fail_for_their_elements() -> None:
    """All branches run for all elements; a user's check holds for those that take its branch, nested programs included."""

    def f(x: Any) -> Any:
        def taken(x: Any) -> Any:
            def body(s: Any, y: Any) -> Any:
                c.check(s < 3, "s is {}", s)
                c.debug_check(s < 100, "never")
                return s + y, None

            return lax.scan(body, x, jnp.ones(3))[0]

        return lax.cond(x > 0, taken, lambda x: x * 2, x)

    assert failure(steno.vmap(f), np.array([-5, 0.1, -7, 0.5], np.float32)) is None
    text = failure(steno.vmap(f), np.array([100, 1.5, -7, 2.5], np.float32) * np.array([-1, 1, 1, 1], np.float32))
    assert text is not None and text.startswith("s is 3.5")
    g = steno.vmap(lambda p, x: lax.cond(p, lambda x: x, positive, x))
    with pytest.raises(c.JaxRuntimeError, match="must be positive: -1.0"):
        g(np.array([True, False]), np.array([-2, -1], np.float32))
    assert g(np.array([True, False]), np.array([-2, 1], np.float32)).tolist() == [-2, 0]


def test_mapped_while_loops() -> None:
    def f(x: Any) -> Any:
        return lax.while_loop(lambda s: s < 6, lambda s: (c.check(s >= 0, "s is {s}", s=s), s + 1)[1], x)

    x = np.array([1, 2, 5], np.float32)
    with pytest.raises(ValueError, match="checkify-of-vmap-of-while"):
        c.checkify(steno.vmap(f))(x)
    assert c.checkify(steno.vmap(f), errors=c.div_checks)(x)[0].get() is None  # nothing can fail
    errors, y = steno.jit(steno.vmap(c.checkify(f)))(x - 2)
    assert str(errors.get()).startswith("at mapped index 0: s is -1.0") and np.asarray(y).tolist() == [6, 6, 6]


def test_derivatives_of_checked_functions() -> None:
    """They are the function's: errors and their payloads, floats among them, have none."""

    def f(x: Any) -> Any:
        def body(s: Any, y: Any) -> Any:
            c.check(s < 1e9, "s is {s} {y}", s=s, y=y)
            return s * jnp.sin(y * x), s

        return jnp.sum(lax.scan(body, x, jnp.arange(1.0, 4.0))[1])

    checked = c.checkify(f, errors=c.all_checks)
    want = steno.grad(lambda x: lax.scan(lambda s, y: (s * jnp.sin(y * x), s), x, jnp.arange(1.0, 4.0))[1].sum())(0.7)
    for g in (
        steno.grad(lambda x: checked(x)[1]),
        steno.jit(steno.grad(lambda x: checked(x)[1])),
        lambda x: steno.jvp(lambda x: checked(x)[1], (x,), (1.0,))[1],
        steno.grad(lambda x: steno.jit(checked)(x)[1]),
        lambda x: c.checkify(steno.grad(f), errors=c.all_checks)(x)[1],
        steno.grad(lambda x: steno.checkpoint(checked)(x)[1]),
    ):
        assert abs(float(g(0.7)) - float(want)) < 1e-5
    (err, _), _ = steno.vjp(checked, 0.7)
    assert err.get() is None


# functions with rules


def with_rules() -> tuple[Any, Any]:
    @steno.custom_jvp
    def f(x: Any) -> Any:
        return jnp.sin(x)

    f.defjvp(lambda p, t: (f(*p), jnp.cos(p[0]) * t[0]))

    @steno.custom_vjp
    def g(x: Any) -> Any:
        return jnp.sin(x)

    g.defvjp(lambda x: (jnp.sin(x), 2.0 * x), lambda r, ct: (jnp.cos(r / 2.0) * ct,))
    return f, g


@pytest.mark.parametrize("which", [0, 1])
def test_functions_with_rules(which: int) -> None:
    f = with_rules()[which]
    assert failure(f, jnp.float32(3)) is None
    text = failure(f, jnp.float32(np.inf))
    assert text is not None and text.startswith("nan generated by primitive: sin")
    checked = c.checkify(f, errors=c.float_checks)
    # derivatives of the checked function are those of the rule, which is not checked
    for h in (
        steno.grad(lambda x: checked(x)[1]),
        steno.jit(steno.grad(lambda x: checked(x)[1])),
        steno.grad(lambda x: steno.jit(checked)(x)[1]),
    ):
        assert abs(float(h(3.0)) - np.cos(3.0)) < 1e-6
    (err, _), _ = steno.vjp(checked, 3.0)
    assert err.get() is None
    assert np.allclose(steno.vmap(steno.grad(lambda x: checked(x)[1]))(x4), np.cos(x4))
    assert np.allclose(steno.vmap(lambda x: checked(x)[1])(x4), np.sin(x4))
    # what the rule does inside of the checked function is
    text = failure(steno.grad(f), jnp.float32(np.inf))
    assert text is not None and text.startswith("nan generated by primitive: sin")
    assert failure(steno.vmap(steno.grad(f)), x4) is None


def test_checks_in_the_backward_pass() -> None:
    @steno.custom_vjp
    def f(x: Any) -> Any:
        return x

    def bwd(_: None, ct: Any) -> tuple[Any]:
        c.check(ct < 0, "cotangent {ct}", ct=ct)
        return (ct,)

    f.defvjp(lambda x: (f(x), None), bwd)
    text = failure(steno.grad(f), jnp.float32(1))
    assert text is not None and text.startswith("cotangent 1.0")
    assert failure(steno.grad(lambda x: -f(x)), jnp.float32(1)) is None
    text = failure(steno.grad(lambda x: lax.scan(lambda s, _: (f(s * 2), None), x, None, 3)[0]), jnp.float32(1))
    assert text is not None and text.startswith("cotangent 1.0")


def test_checks_in_solvers_and_linear_calls() -> None:
    def solved(b: Any) -> Any:
        def solve(matvec: Any, b: Any) -> Any:
            c.check(b[0] > 0, "first {}", b[0])
            return b / 2

        return lax.custom_linear_solve(lambda x: (c.check(True, "never"), 2 * x)[1], b, solve, symmetric=True)

    def root(x: Any) -> Any:
        def solve(f: Any, x: Any) -> Any:
            c.check(x > 0, "guess {}", x)
            return jnp.sqrt(2.0)

        return lax.custom_root(lambda x: x * x - 2, x, solve, lambda g, y: y / g(1.0))

    def linear(x: Any) -> Any:
        def scaled(r: Any, x: Any) -> Any:
            c.check(r > 0, "residual {}", r)
            return r * x

        return steno.custom_derivatives.linear_call(scaled, lambda r, ct: r * ct, x, x)

    b = np.array([1.0, 2.0], np.float32)
    for f, good, bad, says in ((solved, b, -b, "first "), (root, 1.0, -1.0, "guess "), (linear, 1.0, -1.0, "residual ")):
        assert failure(f, good) is None
        for g in (f, steno.grad(lambda x, f=f: jnp.sum(f(x))), lambda x, f=f: lax.fori_loop(0, 2, lambda _, x: -f(x), -x)):
            text = failure(g, bad)
            assert text is not None and text.startswith(says)
        error, _ = c.checkify(steno.vmap(f))(np.stack([good, bad, 2 * bad]))
        assert error.get().startswith(says)
        # what is outside sees derivatives alone
        steno.grad(lambda x, f=f: jnp.sum(c.checkify(f)(x)[1]))(jnp.asarray(bad))
    text = failure(lambda x: lax.custom_root(lambda y: y, x, lambda f, x: jnp.log(-x), lambda g, y: y), 1.0, errors=c.float_checks)
    assert text is not None and text.startswith("nan generated by primitive: log")


# costs


def equations(program: ClosedJaxpr) -> int:
    jaxpr = open_jaxpr(program)
    return len(jaxpr.eqns) + sum(equations(p) for e in jaxpr.eqns for p in subjaxprs(e.params))


def test_what_cannot_fail_stays_as_it_is() -> None:
    def f(x: Any) -> Any:
        return steno.jit(lambda y: lax.scan(lambda s, z: (s + z, s), y[0], y))(x)

    assert equations(steno.make_jaxpr(c.checkify(f))(x4)) == equations(steno.make_jaxpr(f)(x4))
    program = steno.make_jaxpr(f)(x4)
    assert checked_program(program, c.user_checks) == (program, None)


def test_programs_are_checked_and_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    f = c.checkify(steno.jit(lambda x: lax.cond(x[0] > 0, lambda: positive(x), lambda: x / x)), errors=c.all_checks)
    f(x4)
    compiled: list[Any] = []
    original = cpu.compile
    monkeypatch.setattr(cpu, "compile", lambda *args, **kwargs: (compiled.append(args), original(*args, **kwargs))[1])
    assert f(x4)[0].get().startswith("division by zero") and compiled == []


def test_sites_are_numbered_once() -> None:
    def number() -> int:
        return code_of(c.NaNError, "sin")

    assert len({number() for _ in range(3)}) == 1 and number() != code_of(c.NaNError, "sin")


def test_other_positions_than_int32() -> None:
    for dtype in (np.int8, np.uint8, np.int16, np.uint32):
        x = np.arange(200, dtype=np.float32)
        text = failure(lambda x, i: x.at[i].get(), x[:100], jnp.asarray(np.array(120, dtype)))
        assert text is not None and "index 120 is out of bounds for axis 0 with size 100" in text
        assert failure(lambda x, i: x.at[i].get(), x, jnp.asarray(np.array(120, dtype))) is None
    with steno.enable_x64(True):
        text = failure(lambda x, i: x[i], x4, jnp.asarray(np.array([1, 2**40])))
        assert text is not None and "axis 0 with size 4" in text


def test_values_stay_concrete() -> None:
    """A function that is checked, and not traced, may branch in Python."""
    err, y = c.checkify(lambda x: positive(x) if x > 0 else -x)(-3.0)
    assert err.get() is None and float(y) == 3
    assert c.checkify(lambda x: 1.0)("text")[1] == 1.0
    assert steno.jit(c.checkify(lambda x: None if x else x), static_argnums=(0,))(True)[1] is None
    with steno.checking_leaks():
        steno.jit(c.checkify(lambda x: with_rules()[0](positive(x)), errors=c.all_checks))(1.0)


def test_references() -> None:
    def f(x: Any) -> Any:
        r = steno.ref.new_ref(jnp.zeros(4))

        def body(k: Any, y: Any) -> Any:
            r[k] = y
            c.check(y < 2, "y is {}", y)
            return k + 1, jnp.log(y)

        lax.scan(body, 0, x)
        return r[...]

    text = failure(f, x4 + 1, errors=c.user_checks)
    assert text is not None and text.startswith("y is 2.0")
    text = failure(f, x4 - 1)
    assert text is not None and text.startswith("nan generated by primitive: log")
