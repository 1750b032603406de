"""debug_nans, debug_infs and checking_leaks: what they find under every transformation, the op and line they name, what they let be."""

from __future__ import annotations

import gc
import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import steno
import steno.numpy as jnp
from steno import custom_batching, lax
from steno.core.leaks import holders

x3 = np.arange(3, dtype=np.float32)


def line_of(fun: Callable[..., Any], text: str) -> int:
    """The number of the line of a function that holds the text."""
    lines, first = inspect.getsourcelines(fun)
    return first + next(k for k, line in enumerate(lines) if text in line)


def step(c: Any, y: Any) -> Any:
    root = jnp.sqrt(c)
    c = root * y
    return c, c * 0.0


def shifted(x: Any) -> Any:
    return jnp.log(x - 5)


@steno.custom_jvp
def doubled(x: Any) -> Any:
    return x * 2.0


@doubled.defjvp
def doubled_jvp(primals: Any, tangents: Any) -> Any:
    return doubled(*primals), tangents[0] * jnp.log(primals[0] - 5)


@steno.custom_vjp
def twice(x: Any) -> Any:
    return x * 2.0


def twice_bwd(x: Any, ct: Any) -> Any:
    return (ct * jnp.log(x - 5),)


twice.defvjp(lambda x: (x * 2.0, x), twice_bwd)


def bad(x: Any) -> Any:
    return jnp.sqrt(x) * 0.0


def in_while(x: Any) -> Any:
    return lax.while_loop(lambda c: c < 2, lambda c: shifted(c) + 3, x)


def in_cond(x: Any) -> Any:
    return lax.cond(x > 0, shifted, lambda x: x, x)


def over(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f` three times in a scan."""
    return lambda x: lax.scan(lambda c, _: (f(c), None), x, None, 3)[0]


def scanned(a: Any) -> Any:
    return lax.scan(step, a, np.zeros(3, np.float32))[0]


# name: (program, argument, the op, the function and line that make the NaN)
NANS: dict[str, tuple[Callable[..., Any], Any, str, Callable[..., Any], str]] = {
    "eager": (shifted, 1.0, "log", shifted, "jnp.log"),
    "jit": (steno.jit(shifted), 1.0, "log", shifted, "jnp.log"),
    "jit of jit": (steno.jit(lambda x: steno.jit(steno.jit(shifted))(x) + 1), 1.0, "log", shifted, "jnp.log"),
    "vmap": (steno.vmap(shifted), x3, "log", shifted, "jnp.log"),
    "vmap of jit": (steno.vmap(steno.jit(shifted)), x3, "log", shifted, "jnp.log"),
    "jit of vmap of vmap": (steno.jit(steno.vmap(steno.vmap(shifted))), np.ones((2, 2), np.float32), "log", shifted, "jnp.log"),
    "scan": (over(shifted), 7.0, "log", shifted, "jnp.log"),
    "jit of scan": (steno.jit(over(shifted)), 7.0, "log", shifted, "jnp.log"),
    "vmap of scan": (steno.vmap(over(shifted)), x3 + 7, "log", shifted, "jnp.log"),
    "reversed scan": (lambda x: lax.scan(lambda c, y: (c, shifted(y)), 0.0, x, reverse=True), x3 + 3.5, "log", shifted, "jnp.log"),
    "scan of scan": (steno.jit(over(over(shifted))), 7.0, "log", shifted, "jnp.log"),
    "while": (in_while, 1.0, "log", shifted, "jnp.log"),
    "jit of while": (steno.jit(in_while), 1.0, "log", shifted, "jnp.log"),
    "vmap of while": (steno.jit(steno.vmap(in_while)), x3, "log", shifted, "jnp.log"),
    "fori": (lambda x: lax.fori_loop(0, 4, lambda k, c: shifted(c) + k, x), 7.0, "log", shifted, "jnp.log"),
    "cond": (steno.jit(in_cond), 1.0, "log", shifted, "jnp.log"),
    "eager cond": (in_cond, 1.0, "log", shifted, "jnp.log"),
    "vmap of cond": (steno.jit(steno.vmap(in_cond)), x3, "log", shifted, "jnp.log"),
    "map": (lambda x: lax.map(shifted, x), x3, "log", shifted, "jnp.log"),
    "grad": (steno.grad(bad), 0.0, "mul", bad, "return"),
    "grad of jit": (steno.grad(steno.jit(bad)), 0.0, "mul", bad, "return"),
    "jit of grad": (steno.jit(steno.grad(bad)), 0.0, "mul", bad, "return"),
    "value_and_grad": (steno.value_and_grad(steno.jit(bad)), 0.0, "mul", bad, "return"),
    "vmap of grad of jit": (steno.vmap(steno.grad(steno.jit(bad))), x3, "mul", bad, "return"),
    "jit of jacrev": (steno.jit(steno.jacrev(bad)), x3, "mul", bad, "return"),
    "jvp": (lambda x: steno.jvp(jnp.sqrt, (x,), (0.0,)), 0.0, "mul", bad, ""),
    "grad of scan": (steno.grad(scanned), 1.0, "mul", step, "jnp.sqrt"),
    "jit of grad of scan": (steno.jit(steno.grad(scanned)), 1.0, "mul", step, "jnp.sqrt"),
    "grad of jit of scan": (steno.grad(steno.jit(scanned)), 1.0, "mul", step, "jnp.sqrt"),
    "grad of checkpoint": (steno.jit(steno.grad(steno.checkpoint(bad))), 0.0, "mul", bad, "return"),
    "checkpoint in scan": (
        steno.jit(steno.grad(lambda a: lax.scan(steno.checkpoint(step), a, np.zeros(3, np.float32))[0])), 1.0, "mul", step, "jnp.sqrt",
    ),
    "custom_jvp": (steno.grad(doubled), 1.0, "log", doubled_jvp, "jnp.log"),
    "custom_jvp in jit": (steno.grad(steno.jit(doubled)), 1.0, "log", doubled_jvp, "jnp.log"),
    "custom_jvp in scan": (steno.jit(steno.grad(over(doubled))), 0.5, "log", doubled_jvp, "jnp.log"),
    "vmap of custom_jvp": (steno.jit(steno.vmap(steno.grad(doubled))), x3, "log", doubled_jvp, "jnp.log"),
    "custom_vjp": (steno.grad(twice), 1.0, "log", twice_bwd, "jnp.log"),
    "custom_vjp in jit": (steno.jit(steno.grad(steno.jit(twice))), 1.0, "log", twice_bwd, "jnp.log"),
    "custom_vjp in scan": (steno.jit(steno.grad(over(twice))), 0.5, "log", twice_bwd, "jnp.log"),
    "several results": (steno.jit(lambda x: lax.top_k(shifted(x), 2)), x3, "log", shifted, "jnp.log"),
}  # fmt: skip


@pytest.mark.parametrize("name", NANS)
def test_the_op_that_makes_a_nan_is_named(name: str) -> None:
    f, x, op, fun, text = NANS[name]
    x = jnp.asarray(x)
    with steno.debug_nans(True), pytest.raises(FloatingPointError) as raised:
        f(x)
    message = str(raised.value)
    assert message.startswith(f"invalid value (nan) encountered in {op} at {__file__}:"), message
    if text:
        inner = inspect.unwrap(getattr(fun, "fun", fun))
        assert f":{line_of(inner, text)}:" in message and f"({inner.__name__})" in message, message
    f(x)  # elsewhere it is a number like others


def test_infinities() -> None:
    for f in (jnp.exp, steno.jit(jnp.exp), steno.jit(over(jnp.exp)), steno.vmap(steno.jit(jnp.exp))):
        x = jnp.full((2,), 1000.0)
        with steno.debug_infs(True), pytest.raises(FloatingPointError, match=r"invalid value \(inf\) encountered in exp at"):
            f(x)
        with steno.debug_nans(True):
            f(x)
    with (
        steno.debug_infs(True),
        steno.debug_nans(True),
        pytest.raises(FloatingPointError, match=r"invalid value \(nan\) encountered in log"),
    ):
        steno.jit(lambda x: (jnp.log(x - 5), x))(1.0)


def test_what_is_not_forbidden() -> None:
    with steno.debug_nans(True):
        assert steno.jit(lambda x: jnp.where(x > 5, jnp.log(x - 5), 0.0))(1.0) == 0  # only results are looked at
        assert steno.jit(lambda x: x // 2)(3) == 1
        steno.jit(lambda k: steno.random.split(k))(steno.random.key(0))
        assert steno.jit(lambda x: steno.jvp(jnp.log, (x,), (1.0,)))(0.0)[1] == np.inf
        assert jnp.sinc(0.0) == 1
        assert steno.jit(steno.vmap(lambda a: lax.cond(a >= 0, lambda: a, lambda: shifted(a))))(x3)[1] == 1


def test_values_that_come_from_elsewhere() -> None:
    nan = jnp.array([np.nan, 1.0])
    brought = r"encountered in jit\({}\): run op by op, the de-optimized function did not produce any invalid value. It is {}"
    cases: list[tuple[Callable[..., Any], tuple[Any, ...], str, str]] = [
        (lambda x: x * 3, (nan,), "<lambda>", "in the input x"),
        (lambda x: x, (np.nan,), "<lambda>", "in the input x"),
        (lambda y, x: (x["a"][0] * y,), (1.0, {"a": [nan]}), "<lambda>", re.escape("in the input x['a'][0]")),
        (lambda x: (jnp.nan, x * 2), (3.0,), "<lambda>", "a literal or a constant of the function"),
        (lambda x: nan * x, (3.0,), "<lambda>", "a literal or a constant of the function"),
    ]
    for f, args, name, where in cases:
        with steno.debug_nans(True), pytest.raises(FloatingPointError, match=brought.format(re.escape(name), where)):
            steno.jit(f)(*args)
    # an op that makes one is named although another one is brought
    with steno.debug_nans(True), pytest.raises(FloatingPointError, match="encountered in log at"):
        steno.jit(lambda x, y: (x * 3, jnp.log(y)))(nan, -1.0)
    # the branch that gives it has no op that makes it
    with steno.debug_nans(True), pytest.raises(FloatingPointError, match=r"encountered in cond at"):
        steno.jit(lambda x: lax.cond(x == 1, lambda: np.nan, lambda: 2.0))(1)


def test_donated_arguments_and_compiled_functions() -> None:
    with steno.debug_nans(True):
        f = steno.jit(shifted, donate_argnums=0)
        x = jnp.full((3,), 1.0)
        with pytest.raises(FloatingPointError, match="encountered in log at"):
            f(x)
        y = jnp.full((3,), 7.0)
        f(y)
        assert y.is_deleted()
        compiled = steno.jit(shifted).lower(1.0).compile()
        assert compiled(7.0) == np.float32(np.log(2))
        with pytest.raises(FloatingPointError, match="encountered in log at"):
            compiled(1.0)


def test_functions_compiled_before() -> None:
    """The knob is part of what decides which program runs, and a native call does not go past it."""
    f = steno.jit(shifted)
    for _ in range(2):
        f(1.0)
        with steno.debug_nans(True), pytest.raises(FloatingPointError):
            f(1.0)
    steno.config.update("jax_debug_nans", True)
    try:
        with pytest.raises(FloatingPointError):
            f(1.0)
        with steno.debug_nans(False):
            f(1.0)
    finally:
        steno.config.update("jax_debug_nans", False)
    with steno.debug_nans(True), steno.disable_jit(), pytest.raises(FloatingPointError, match="encountered in log at"):
        f(1.0)


# leaks


@steno.custom_jvp
def ruled(x: Any) -> Any:
    return jnp.sin(x)


ruled.defjvp(lambda p, t: (ruled(*p), jnp.cos(p[0]) * t[0]))


@custom_batching.custom_vmap
def mapped(x: Any) -> Any:
    return jnp.sin(x)


mapped.def_vmap(lambda size, batched, x: (jnp.sin(x), batched[0]))


def scan_closing(x: Any) -> Any:
    return lax.scan(lambda c, y: (ruled(c) + y * x.sum() + twice(c), jnp.sin(c)), 0.0, x)[0]


def root_of(a: Any) -> Any:
    def solve(f: Any, x: Any) -> Any:
        return lax.fori_loop(0, 9, lambda k, x: x - f(x) / 2, x)

    return lax.custom_root(lambda x: x * x - a, 1.0, solve, lambda g, y: y / g(1.0))


CLEAN: dict[str, Callable[[], Any]] = {
    "jit of rules": lambda: steno.jit(lambda x: ruled(x) + twice(x) + mapped(x))(2.0),
    "grad of rules": lambda: steno.grad(lambda x: ruled(x) + twice(x))(2.0),
    "jit of grad": lambda: steno.jit(steno.grad(lambda x: ruled(x) + twice(x)))(2.0),
    "grad of jit": lambda: steno.grad(steno.jit(lambda x: ruled(x) + twice(x)))(2.0),
    "vmap of rules": lambda: steno.vmap(lambda x: ruled(x) + twice(x) + mapped(x))(x3),
    "jit of vmap": lambda: steno.jit(steno.vmap(lambda x: ruled(x) + twice(x) + mapped(x)))(x3),
    "vmap of grad": lambda: steno.vmap(steno.grad(twice))(x3),
    "grad of vmap": lambda: steno.grad(lambda x: (steno.vmap(twice)(x) + steno.vmap(mapped)(x)).sum())(x3),
    "jvp": lambda: steno.jvp(ruled, (2.0,), (1.0,)),
    "hessian": lambda: steno.hessian(ruled)(2.0),
    "vjp": lambda: steno.vjp(lambda x: jnp.sin(x) * ruled(x), 2.0)[1](1.0),
    "linearize": lambda: steno.linearize(lambda x: jnp.sin(x) * ruled(x), 2.0)[1](1.0),
    "scan": lambda: steno.jit(scan_closing)(x3),
    "grad of scan": lambda: steno.grad(scan_closing)(x3),
    "while": lambda: steno.jit(lambda x: lax.while_loop(lambda c: c.sum() < 9, lambda c: c + x, x))(x3),
    "fori": lambda: steno.grad(lambda x: lax.fori_loop(0, 3, lambda k, c: c * x.sum(), 1.0))(x3),
    "cond": lambda: steno.grad(lambda x: lax.cond(x.sum() > 0, lambda: x.sum(), lambda: x.prod()))(x3),
    "vmap of cond": lambda: steno.vmap(lambda x: lax.cond(x > 0, lambda: x * 2, lambda: twice(x)))(x3),
    "checkpoint": lambda: steno.jit(steno.grad(steno.checkpoint(lambda x: jnp.sin(twice(x)).sum())))(1.0),
    "relu": lambda: steno.jit(steno.grad(lambda x: steno.nn.relu(x).sum()))(x3),
    "make_jaxpr": lambda: steno.make_jaxpr(lambda x: twice(ruled(x)))(1.0),
    "eval_shape": lambda: steno.eval_shape(lambda x: twice(ruled(x)), 1.0),
    "map": lambda: lax.map(lambda y: y * 2, x3),
    "associative_scan": lambda: lax.associative_scan(jnp.add, x3),
    "custom_root": lambda: steno.grad(root_of)(2.0),
    "collectives": lambda: steno.vmap(lambda x: lax.psum(x, "i"), axis_name="i")(x3),
}  # fmt: skip


@pytest.mark.usefixtures("small_heap")
@pytest.mark.parametrize("name", CLEAN)
def test_nothing_leaks_by_itself(name: str) -> None:
    with steno.checking_leaks():
        CLEAN[name]()


saved: list[Any] = []


class Box:
    value: Any = None


box = Box()


def leaky(x: Any) -> Any:
    y = jnp.sin(x) * 2
    saved.append(y)
    return y


LEAKS: dict[str, Callable[[], Any]] = {
    "jit": lambda: steno.jit(leaky)(1.0),
    "make_jaxpr": lambda: steno.make_jaxpr(leaky)(1.0),
    "grad": lambda: steno.grad(leaky)(1.0),
    "vjp": lambda: steno.vjp(leaky, 1.0),
    "linearize": lambda: steno.linearize(leaky, 1.0),
    "jvp": lambda: steno.jvp(leaky, (1.0,), (1.0,)),
    "vmap": lambda: steno.vmap(leaky)(x3),
    "hessian": lambda: steno.hessian(leaky)(1.0),
    "scan": lambda: lax.scan(lambda c, _: (leaky(c), None), 0.0, None, 3),
    "while": lambda: lax.while_loop(lambda c: c < 1, leaky, 2.0),
    "cond": lambda: lax.cond(True, leaky, lambda x: x, 1.0),
    "checkpoint": lambda: steno.grad(steno.checkpoint(leaky))(1.0),
}


@pytest.mark.parametrize("name", LEAKS)
def test_leaks_are_found_with_their_place_and_holder(name: str) -> None:
    with steno.checking_leaks(), pytest.raises(Exception, match="Leaked trace .* are still referenced") as raised:
        LEAKS[name]()
    saved.clear()
    message = str(raised.value)
    assert f"{__file__}:{line_of(leaky, 'jnp.sin')}:" in message and "y = jnp.sin(x) * 2" in message, message
    assert message.endswith(f"It is held by a list, held by the global saved of {__name__}."), message
    LEAKS[name]()  # nobody looks
    saved.clear()


def test_holders() -> None:
    def to_box(x: Any) -> Any:
        box.value = x + 1
        return x

    kept = None

    def to_variable(x: Any) -> Any:
        nonlocal kept
        kept = {"a": (x,)}
        return x

    def outer() -> Any:
        local = []

        def f(x: Any) -> Any:
            local.append(x)
            return x

        steno.vmap(f)(x3)

    def generated() -> Any:
        values = []

        def generate(x: Any) -> Any:
            y = x + 1
            yield y

        def f(x: Any) -> Any:
            g = generate(x)
            next(g)
            values.append(g)
            return x

        return f

    with steno.checking_leaks(), pytest.raises(Exception, match="a list, held by the variable local, which the function"):
        outer()
    with steno.checking_leaks(), pytest.raises(Exception, match=r"the local variable x of the generator test_holders.<locals>.generated"):
        steno.vmap(generated())(x3)
    for f, held in (
        (to_box, "It is held by the attribute value of a Box."),
        (
            to_variable,
            "It is held by a tuple, held by a dict, held by the variable kept, which the function test_holders.<locals>.to_variable",
        ),
    ):
        with steno.checking_leaks(), pytest.raises(Exception, match="Leaked trace") as raised:
            steno.vmap(f)(x3)
        assert held in str(raised.value)
        box.value = kept = None
    assert kept is None
    gc.collect()
    assert holders(object()) == []
