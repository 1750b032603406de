"""Taylor series: every op against nested jvp, functions against the real JAX, programs of loops, branches and custom rules, and errors."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import test_rules_a
import test_rules_b
from peer import NO_JAX, Arr, Expr, Ref, compare_all, peer

import steno as jax
import steno.numpy as jnp
from steno import lax
from steno.core.op import OPS
from steno.experimental.jet import fact, jet, jet_rules, zero_series
from steno.transforms.rules import is_differentiable, rule_of

ORDER = 3


@pytest.fixture(autouse=True)
def x64() -> Any:
    with jax.enable_x64(True):
        yield


def curve(x: np.ndarray, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng([seed, *x.shape])
    terms = [0.1 * rng.normal(size=x.shape) for _ in range(ORDER)]
    return [t + 0.05j * rng.normal(size=x.shape) if x.dtype.kind == "c" else t for t in terms]


def nested(fun: Callable[..., Any], xs: list[Any], series: list[list[Any]]) -> tuple[Any, list[Any]]:
    """The derivatives of fun along the curves, by jvp of jvp of jvp."""

    def along(t: Any) -> Any:
        moved = []
        for x, terms in zip(xs, series, strict=True):
            y = x
            for n, c in enumerate(terms, 1):
                y = y + c * (t**n / math.factorial(n))
            moved.append(y)
        return fun(*moved)

    out, fs = along(0.0), []
    f = along
    for _ in range(len(series[0])):
        f = functools.partial(lambda g, t: jax.jvp(g, (t,), (1.0,))[1], f)
        fs.append(f(0.0))
    return out, [list(v) for v in zip(*map(jax.tree.leaves, fs), strict=True)]


def check(fun: Callable[..., Any], *xs: Any, tol: float = 1e-8, eager: bool = True) -> None:
    """jet, also under jit, against nested jvp."""
    xs = tuple(np.asarray(x) for x in xs)
    series = [curve(x, k) for k, x in enumerate(xs)]
    _, want = jax.jit(lambda xs, s: nested(fun, xs, s))(list(xs), series)
    value = jax.tree.leaves(fun(*xs))
    for run in (jet, jax.jit(jet, static_argnums=0))[not eager :]:
        out, got = run(fun, xs, series)
        for y, v in zip(jax.tree.leaves(out), value, strict=True):
            np.testing.assert_allclose(y, v, rtol=1e-12, atol=1e-12)
        got = jax.tree.leaves(got, is_leaf=lambda x: isinstance(x, list))
        for terms, wanted in zip(got, want, strict=True):
            for t, w in zip(terms, wanted, strict=True):
                np.testing.assert_allclose(t, w, rtol=tol, atol=tol)


def test_zero_series_and_fact() -> None:
    """An argument that does not move; the factors between derivatives and coefficients."""
    x, terms = np.float64(0.3), [np.float64(1.0), np.float64(0.5), np.float64(0.0)]
    want = jet(lambda x: x * jnp.sin(x * 2.0), (x,), (terms,))
    out, got = jet(lambda x, y: x * jnp.sin(x * y), (x, np.float64(2.0)), (terms, zero_series))
    np.testing.assert_allclose([out, *got], [want[0], *want[1]], rtol=1e-14)
    assert jet(jnp.sin, (x,), (zero_series,))[1] == []
    np.testing.assert_allclose(fact(np.arange(5.0)), [1, 1, 2, 6, 24], rtol=1e-14)
    assert fact(3) == 6.0 and fact(3).weak_type


OTHERS = {o.name for o in test_rules_b.DERIVED}
SKIPPED = {"scan", "while", "cond", "jit", "custom_lin", "custom_jvp_call", "custom_vjp_call", "linear_call"}  # programs: below
NAMES = sorted(n for n in {*test_rules_a.NAMES, *OTHERS} if n not in SKIPPED and rule_of(OPS[n], "jvp") is not None)


@pytest.mark.parametrize("name", NAMES)
def test_ops(name: str) -> None:
    op, done = OPS[name], 0
    for args, params in test_rules_b.samples_of(op) if name in OTHERS else test_rules_a.cases(name):
        args = [np.asarray(a) if isinstance(a, np.ndarray | np.generic) else a for a in args]
        fixed = name in ("polygamma", "zeta")  # no derivative by the order
        where = [k for k, a in enumerate(args) if isinstance(a, np.ndarray) and a.dtype.kind in "fc"][fixed:]
        if not where or any(args[k].dtype.itemsize < 8 for k in where) or done == 2:
            continue
        done += 1

        def fun(*xs: Any, args: list[Any] = args, where: list[int] = where, params: dict[str, Any] = params) -> Any:
            full = list(args)
            for k, x in zip(where, xs, strict=True):
                full[k] = x
            out = op(*[jnp.asarray(a) for a in full], **params)
            out = out if op.multiple_results else [out]
            return tuple(y for y in out if is_differentiable(y.aval))

        check(fun, *[args[k] for k in where], tol=1e-7, eager=False)


FUNCTIONS = """
jnp.sin cos:cos jnp.tanh jnp.exp jnp.exp2 jnp.expm1 jnp.log jnp.log2 jnp.log1p jnp.sqrt lax.rsqrt jnp.sinh jnp.cosh lax.logistic jnp.arcsinh
jnp.abs lax.erf lax.erfc jnp.square jnp.negative jnp.cumsum jnp.cumprod jnp.sum jnp.max jnp.min jnp.sign jnp.floor jnp.arccosh
""".split()


@pytest.mark.skipif(peer() is None, reason=NO_JAX)
def test_functions_against_jax() -> None:
    x = Arr(np.array([1.3, 2.2, 1.7]))
    series = [Arr(np.array(t)) for t in ([1.0, -2.0, 0.3], [0.5, 0.1, -0.7], [0.0, 1.0, 2.0], [-1.0, 0.2, 0.0])]
    j = Ref("jax.experimental.jet.jet")
    sources = [f.split(":")[-1] if ":" not in f else "jnp.cos" for f in FUNCTIONS]
    sources += [
        "lambda x: jnp.arctanh(x / 4)",
        "lambda x: lax.erf_inv(x / 4)",
        "lambda x: x ** 3",
        "lambda x: x ** -2",
        "lambda x: x ** 2.5",
    ]
    sources += ["lambda x: 2. ** x", "lambda x: x ** x", "lambda x: 1 / x", "lambda x: jnp.arctan2(x, 2.)", "lambda x: x @ x"]
    sources += ["lambda x: jnp.where(x > 1.5, x, x * x)", "lambda x: x[::-1][:2] * 3", "lambda x: jnp.concatenate([x, x * x])"]
    sources += ["lambda x: jnp.outer(x, jnp.sin(x)) @ x", "lambda x: x.at[0].add(x[1])", "lambda x: jnp.clip(x, 1.5, 2.)"]
    sources += ["lambda x: jax.nn.softmax(x)", "lambda x: jnp.mean((x - x.mean()) ** 2)", "jax.jit(lambda x: jnp.sin(x) / x)"]
    calls: list[Any] = []
    for f in sources:
        calls.append(Expr(f"jet({f}, (x,), (s,))", jet=j, x=x, s=series, x64=True))
    calls += [
        Expr(f"jet(jnp.sin, (x,), (s,), factorial_scaled={scaled})", jet=j, x=x, s=series[:n], x64=True)
        for scaled in (True, False)
        for n in (0, 1, 2, 4)
    ]
    calls += [
        Expr("jet(lambda x, y: {'a': x * y, 'b': [jnp.sin(x) / y]}, (x, x), (s, r))", jet=j, x=x, s=series, r=series[::-1], x64=True),
        Expr("jet(lambda x: (x, 3.), (x,), (s,))[1][0]", jet=j, x=x, s=series, x64=True),
        Expr("jet(lambda x, y: x, (x, x), (s, s[:2]))", jet=j, x=x, s=series),
        Expr("jet(lambda x: x, ({'a': 1.},), ([{'a': 1.}],))", jet=j),
        Expr("jet(lambda x: x, ('a',), ([1.],))", jet=j),
        Expr("jet(3, (1.,), ([1.],))", jet=j),
        Expr("jet(jnp.sin, 1., ([1.],))", jet=j),
        # at ties, and at 0
        Expr("jet(jnp.max, (jnp.array([1., 1., 0.]),), (s,))", jet=j, s=series, x64=True),
        Expr("jet(lambda x: jnp.maximum(x, 0.), (jnp.zeros(3),), (s,))", jet=j, s=series, x64=True),
        Expr("jet(jnp.abs, (jnp.zeros(3),), (s,))", jet=j, s=series, x64=True),
        Expr("jet(lambda x: x ** 3, (jnp.zeros(3),), (s,))", jet=j, s=series, x64=True),
        Expr("jax.vmap(lambda x: jet(jnp.sin, (x,), ((1., 0.),)))(x)", jet=j, x=x, x64=True),
        Expr("jax.grad(lambda x: jet(jnp.sin, (x,), ((1., 0.),))[1][1])(.3)", jet=j, x64=True),
        Expr("jet(lambda x: jet(jnp.sin, (x,), ((1., 0.),))[1][1], (.3,), ((1., 0.),))", jet=j, x64=True),
        Expr("jet(jax.grad(lambda x: jnp.sin(x) * x), (.3,), ((1., 0.),))", jet=j, x64=True),
    ]
    compare_all(calls, rtol=1e-9, atol=1e-9, weak=False)


def test_programs() -> None:
    x = np.array([0.3, -0.8])

    @jax.custom_jvp
    def with_jvp(x: Any) -> Any:
        return jnp.sin(x)

    @with_jvp.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        return with_jvp(*primals), jnp.cos(primals[0]) * tangents[0]

    @jax.custom_vjp
    def with_vjp(x: Any) -> Any:
        return jnp.sin(x) * x

    with_vjp.defvjp(lambda x: (with_vjp(x), x), lambda x, ct: (ct,))
    check(lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.sin(c) * x, x), x)
    check(lambda x: lax.scan(lambda c, a: (c * a + x, c), x, jnp.arange(3.0)), x)
    check(lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * x), (0, x))[1], x)
    check(lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.exp, x), x)
    check(lambda x: lax.switch(1, [jnp.sin, jnp.tanh], x), x)
    check(lambda x: jax.jit(jnp.tanh)(jax.jit(jnp.sin)(x)), x)
    check(with_jvp, x)
    check(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x))), x)
    check(lambda x: jax.vmap(lambda y: y * x)(x), x)
    check(lambda x: jnp.linalg.norm(x) if hasattr(jnp, "linalg") else x, x)
    check(lambda x: lax.custom_root(lambda y: y**3 - jnp.sum(x**2), 1.0, _newton, lambda g, y: y / g(1.0)), x)
    # a function with a rule for reverse mode is taken as it is
    out, terms = jet(with_vjp, (x,), (curve(x, 0),))
    want = nested(lambda x: jnp.sin(x) * x, [x], [curve(x, 0)])
    np.testing.assert_allclose(out, want[0])
    np.testing.assert_allclose(terms, want[1][0], rtol=1e-10)


def _newton(f: Any, x: Any) -> Any:
    return lax.fori_loop(0, 30, lambda _, x: x - f(x) / jax.jvp(f, (x,), (1.0,))[1], x)


def test_high_order() -> None:
    """Series known in closed form: 1 / (1 - t), and the tangent numbers."""
    ones = [1.0] + [0.0] * 9
    _, terms = jet(lambda t: 1 / (1 - t), (0.0,), (ones,), factorial_scaled=False)
    np.testing.assert_allclose(terms, np.ones(10), rtol=1e-12)
    _, terms = jet(jnp.tan, (0.0,), (ones,))
    np.testing.assert_allclose(terms, [1, 0, 2, 0, 16, 0, 272, 0, 7936, 0], rtol=1e-10)
    _, terms = jet(lambda t: jnp.arctan(t), (0.0,), (ones,), factorial_scaled=False)
    np.testing.assert_allclose(terms, [1, 0, -1 / 3, 0, 1 / 5, 0, -1 / 7, 0, 1 / 9, 0], atol=1e-12)
    _, terms = jet(lax.lgamma, (1.0,), (ones[:4],))
    np.testing.assert_allclose(terms, [-0.5772156649015329, math.pi**2 / 6, -2 * 1.2020569031595942, math.pi**4 / 15], rtol=1e-9)


def test_constant_terms_cost_nothing() -> None:
    """A product by a constant is one product for each coefficient that is not zero."""
    jaxpr = jax.make_jaxpr(lambda x, t: jet(lambda x: x @ np.ones((3, 3)), (x,), ([t, t, t],), factorial_scaled=False))(
        np.ones(3), np.ones(3)
    )
    assert sum(e.primitive.name == "dot_general" for e in jaxpr.eqns) == 4


def test_rules_of_the_user() -> None:
    seen = []

    def rule(primals: Any, series: Any, **params: Any) -> Any:
        seen.append(series)
        return primals[0], series[0]

    saved = jet_rules[OPS["sin"]]
    jet_rules[OPS["sin"]] = rule
    try:
        out, terms = jet(lax.sin, (1.0,), ((1.0, 2.0, 3.0),))
    finally:
        jet_rules[OPS["sin"]] = saved
    np.testing.assert_allclose(jnp.stack(seen[0][0]), [1.0, 1.0, 0.5])
    np.testing.assert_allclose(jnp.stack(terms), [1.0, 2.0, 3.0])
    y, terms = jet_rules[OPS["mul"]]([2.0, 3.0], [[1.0], [1.0]])
    assert float(y) == 6 and float(terms[0]) == 5


def test_errors() -> None:
    with pytest.raises(ValueError, match="inconsistent lengths"):
        jet(lambda x, y: x * y, (1.0, 2.0), ((1.0, 0.0), (1.0,)))
    with pytest.raises(ValueError, match="primal value at position 1 is not an array"):
        jet(lambda x, y: x, (1.0, [2.0]), ((1.0,), (1.0,)))
    with pytest.raises(ValueError, match=r"term 1 of the series at position 0 must have its primal's shape \(3,\), got \(2,\)"):
        jet(jnp.sin, (np.ones(3),), ((np.ones(3), np.ones(2)),))
    with pytest.raises(ValueError, match="a series for each primal"):
        jet(jnp.sin, (1.0,), ((1.0,), (1.0,)))
