"""Derivatives and batches of the elementwise, reduction, cumulative and sorting ops against the real JAX: values at ties, zeros, infinities
and NaN, and the number of equations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from peer import NO_JAX, Arr, Expr, compare_all, peer

import steno
import steno.numpy as snp
from steno import lax
from steno.core.jaxpr import dce_jaxpr

pytestmark = pytest.mark.skipif(peer() is None, reason=NO_JAX)

INF, NAN = np.inf, np.nan
POINTS = np.array([0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.5, -2.5, 40.0, -40.0, INF, -INF, NAN], np.float32)
SIDES = [0.0, 1.0, -1.0, 2.0, INF, -INF, NAN]


def grid(x: list[float], y: list[float]) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.meshgrid(x, y)
    return a.reshape(-1).astype(np.float32), b.reshape(-1).astype(np.float32)


PAIRS = grid([-0.0, 0.5, *SIDES], SIDES)
FINITE = grid([0.0, 1.0, -1.0, 2.0, 0.5], [0.0, 1.0, -1.0, 2.0, 3.0])
Z = np.array([0, 1, 1j, -1.5, 0.5 - 2j, -0.5 + 0.25j], np.complex64)


def derivatives(f: str, *args: Any, ct: str = "jnp.ones(y.shape, y.dtype)") -> list[Expr]:
    """jvp along ones and vjp of ones."""
    names = [f"x{k}" for k in range(len(args))]
    xs = "".join(f"{n}, " for n in names)
    ones = "".join(f"jnp.ones({n}.shape, {n}.dtype), " for n in names)
    variables = {n: Arr(x) for n, x in zip(names, args, strict=True)}
    return [
        Expr(f"jax.jvp({f}, ({xs}), ({ones}))[1]", **variables),
        Expr(f"[back({ct}) for y, back in [jax.vjp({f}, {xs})]][0]", **variables),
    ]


UNARY = (
    "abs acos acosh asin asinh atan atanh bessel_i0e bessel_i1e cbrt ceil cos cosh erf erf_inv erfc exp exp2 expm1 floor lgamma log log1p "
    "log2 logistic neg one_minus_square rsqrt sign sin sinh sqrt square tan tanh"
).split()


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_operand(name: str) -> None:
    compare_all(derivatives(f"lax.{name}", POINTS), rtol=1e-5)


@pytest.mark.parametrize("name", ["abs", "sign", "exp", "log", "sqrt", "tanh", "sin", "real", "imag", "conj", "square", "neg", "log1p"])
def test_functions_of_a_complex_operand(name: str) -> None:
    compare_all(derivatives(f"lax.{name}", Z), rtol=1e-5)


@pytest.mark.parametrize("name", ["max", "min", "add", "sub", "mul", "nextafter"])
def test_functions_of_two_operands(name: str) -> None:
    compare_all(derivatives(f"lax.{name}", *PAIRS), rtol=1e-5)


@pytest.mark.parametrize("name", ["rem", "atan2", "pow", "complex"])
def test_functions_of_two_finite_operands(name: str) -> None:
    compare_all(derivatives(f"lax.{name}", *FINITE), rtol=1e-5)


def test_quotients() -> None:
    """At poles JAX's tangent is a NaN, a difference of infinities."""
    whole, cotangents = derivatives("lax.div", *PAIRS), derivatives("lax.div", *FINITE)[1]
    regular = grid([-0.0, 0.5, *SIDES], [1.0, -1.0, 2.0, INF, -INF, NAN])
    compare_all([whole[1], cotangents, derivatives("lax.div", *regular)[0]], rtol=1e-5)
    compare_all(derivatives("lambda x: 1 / x", POINTS), rtol=1e-5)


def test_zeta_and_polygamma() -> None:
    s, q = grid([1.5, 2.0, 3.0, 7.0, 20.0], [0.1, 1.0, 2.5, 30.0, 1000.0])
    n, x = grid([0.0, 1.0, 2.0, 5.0], [0.1, 1.0, 2.5, 30.0, -0.5, -1.25])
    variables = {"s": Arr(s), "q": Arr(q), "n": Arr(n), "x": Arr(x)}
    calls = [Expr("lax.zeta(s, q)", **variables), Expr("lax.polygamma(n, x)", **variables)]
    calls += derivatives("lambda x: lax.polygamma(1.0, x)", x) + derivatives("lax.digamma", x)
    calls += [Expr("jax.grad(jax.grad(jax.grad(lax.lgamma)))(1.5)"), Expr("lax.zeta(2, 3.0)"), Expr("lax.polygamma(jnp.int32(1), 2.0)")]
    compare_all(calls, rtol=2e-5)


def test_powers() -> None:
    calls = []
    for n in (-2, -1, 0, 1, 2, 3):
        calls += derivatives(f"lambda x: lax.integer_pow(x, {n})", POINTS)
        calls += derivatives(f"lambda x: lax.pow(x, jnp.int32({n}))", POINTS)
        calls += derivatives(f"lambda x: x ** {n}", POINTS)
        calls += derivatives(f"lambda x: lax.pow(x, jnp.float32({n}))", POINTS)
    calls += [Expr(f"jax.grad(jax.grad(lambda x: x ** {n}))(0.0)") for n in (0, 1, 2, 3, 2.0, 3.0)]
    compare_all(calls, rtol=1e-5)


def test_choices() -> None:
    low, x, high = (np.array(v, np.float32) for v in ([0, 0, 0, 0, 0, 2, 0, 0], [0, 1, 0.5, -1, 2, 1, NAN, INF], [1, 1, 1, 1, 1, 1, 1, 1]))
    calls = [*derivatives("lax.clamp", low, x, high), *derivatives("lambda x: lax.clamp(0.0, x, 1.0)", x)]
    calls += derivatives("lambda x: jnp.where(x > 0, jnp.log(x), 0.0)", POINTS)  # NaN through the branch that is not taken
    calls += derivatives("lambda x: jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0)", POINTS)
    calls += derivatives("lambda x, y: lax.select_n(x > 0, x, y)", *PAIRS)
    calls += derivatives("lambda x, y: lax.select_n(jnp.int32(x > 0) + jnp.int32(y > 0), x, y, x * y)", *FINITE)
    calls += derivatives("lambda x: jnp.maximum(x, 0.0)", POINTS) + derivatives("jax.nn.relu", POINTS) + derivatives("jax.nn.relu6", POINTS)
    calls += derivatives("lambda x: jnp.clip(x, -1.0, 1.0)", POINTS)
    compare_all(calls, rtol=1e-5)


ROWS = np.array([[1, 1, 0, 2], [0, 0, 0, 0], [3, -1, 3, 3], [0.5, 0, 2, 0]], np.float32)
HARD = np.array([[1, NAN, 0, 2], [INF, 1, INF, -INF], [-INF, -INF, -INF, -INF], [-1, -0.0, 0, 5]], np.float32)


@pytest.mark.parametrize("name", ["reduce_sum", "reduce_max", "reduce_min", "reduce_prod"])
def test_reductions(name: str) -> None:
    calls = [c for axes in ("(1,)", "(0,)", "(0, 1)", "()") for c in derivatives(f"lambda x: lax.{name}(x, {axes})", ROWS)]
    if name != "reduce_prod":
        calls += derivatives(f"lambda x: lax.{name}(x, (1,))", HARD)
    compare_all(calls, rtol=1e-5)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"])
def test_running_folds(name: str) -> None:
    """At ties of two elements: JAX's shares of more depend on how it cuts the axis."""
    ct = "jnp.arange(1, 1 + y.size, dtype=y.dtype).reshape(y.shape)"
    x = np.array([[1, 1, 0, 2], [0, 0, -1, -1], [3, -1, 3, 1], [0.5, 0, 2, 0]], np.float32)
    calls = [
        c for axis in (0, 1) for reverse in (False, True) for c in derivatives(f"lambda x: lax.{name}(x, {axis}, {reverse})", x, ct=ct)
    ]
    if name == "cumlogsumexp":
        x = np.array([[1, -INF, 2], [0, 1, -INF]], np.float32)
        calls += derivatives("lambda x: lax.cumlogsumexp(x, 1)", x, ct=ct)
    compare_all(calls, rtol=1e-5)


def test_sorting() -> None:
    x = np.array([[1, NAN, 0, -0.0, 2, 1], [INF, 1, INF, -INF, 0, 0]], np.float32)
    ct = "jnp.arange(1, 1 + y.size, dtype=y.dtype).reshape(y.shape)"
    calls = derivatives("lambda x: lax.sort(x, dimension=1)", x, ct=ct)
    calls += derivatives("lambda x, y: jnp.stack(lax.sort((x, y), dimension=0))", x, x[::-1].copy(), ct=ct)
    calls += derivatives("lambda x: lax.top_k(x, 3)[0]", np.nan_to_num(x))
    calls += derivatives("lambda x: jnp.median(x, axis=1)", ROWS) + derivatives("lambda x: jnp.sort(x, axis=0)", ROWS)
    compare_all(calls, rtol=1e-5)


def test_norms() -> None:
    zero, x = np.zeros(3, np.float32), np.array([3, 0, -4], np.float32)
    calls = [c for v in (zero, x) for n in ("2", "1", "jnp.inf") for c in derivatives(f"lambda x: jnp.linalg.norm(x, ord={n})", v)]
    calls += derivatives("lambda x: jnp.abs(x).max()", x) + [Expr(f"jnp.linalg.norm(jnp.zeros({s}), ord=jnp.inf)") for s in ("0", "(2, 0)")]
    calls += derivatives("jax.nn.logsumexp", HARD[3]) + derivatives("jax.nn.softmax", HARD[3])
    compare_all(calls, rtol=1e-5)


def test_conversions() -> None:
    calls = []
    for d in ("bfloat16", "float16", "complex64", "int32"):
        calls += derivatives(f"lambda x: lax.convert_element_type(lax.convert_element_type(x, '{d}'), 'float32')", POINTS[:8])
    calls += [
        Expr("jax.grad(lambda x: x.astype('int32').astype('float32'))(1.5)"),
        Expr("jax.vjp(lambda n: n * 1.5, jnp.int32(3))[1](jnp.float32(1))"),
        Expr("jax.jvp(lambda x: lax.bitcast_convert_type(x, 'int32'), (1.5,), (1.0,))[1]"),
        Expr("jax.jvp(lambda x: jnp.argmax(x), (jnp.arange(3.0),), (jnp.ones(3),))[1]"),
        Expr("jax.jvp(lambda x: (jnp.floor(x), jnp.round(x), jnp.sign(x), x > 1), (1.5,), (1.0,))[1]"),
        *derivatives("lambda x: lax.reduce_precision(x, 5, 3)", POINTS[:8]),
    ]
    compare_all(calls)


# equations


def programs() -> Iterator[tuple[str, list[Any]]]:
    """Functions and their arguments."""
    v = np.array([0.3, 0.7, 0.9], np.float32)
    m = np.array([[0.3, 0.7, 0.9], [0.2, 0.5, 0.1]], np.float32)
    for name in [*UNARY, "digamma"]:
        yield f"lax.{name}", [v]
    for name in ("abs", "sign", "real", "imag", "conj", "exp", "tanh", "asinh", "acosh"):
        yield f"lax.{name}", [v + np.complex64(1j)]
    for name in ("add", "sub", "mul", "div", "rem", "max", "min", "pow", "atan2", "nextafter", "complex"):
        yield f"lax.{name}", [v, v[::-1].copy()]
        yield f"lambda x: lax.{name}(x, 2.0)", [v]
        yield f"lambda x: lax.{name}(2.0, x)", [v]
    yield "lambda x: lax.polygamma(1.0, x)", [v]
    yield from [(f"lambda x: lax.integer_pow(x, {n})", [v]) for n in (-2, -1, 0, 1, 2, 3)]
    yield "lambda x: lax.pow(x, jnp.int32(3))", [v]
    yield "lax.clamp", [v, v, v]
    yield "lambda x: lax.clamp(0.0, x, 1.0)", [v]
    yield "lambda x, y: lax.select_n(x > 0, x, y)", [v, v]
    yield "lambda x, y, z: lax.select_n(jnp.int32(1), x, y, z)", [v, v, v]
    yield "lambda x: lax.convert_element_type(x, 'float16')", [v]
    yield "lambda x: lax.convert_element_type(x, 'complex64')", [v]
    yield "lambda x: lax.reduce_precision(x, 5, 3)", [v]
    yield "lambda x: lax.round(x)", [v]
    for name in ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min"):
        yield from [(f"lambda x: lax.{name}(x, {axes})", [m]) for axes in ("(0,)", "(1,)", "(0, 1)")]
    for name in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"):
        yield f"lambda x: lax.{name}(x, 1)", [m]
    yield "lambda x: lax.sort(x, dimension=1)", [m]
    yield "lambda x: lax.top_k(x, 2)[0]", [m]


TRANSFORMS = {
    "jvp": "lambda *a: jax.jvp({f}, a[:{n}], a[{n}:])",
    "vjp": "lambda *a: (lambda y, back: back(jnp.ones(y.shape, y.dtype)))(*jax.vjp({f}, *a[:{n}]))",
    "vjp of vjp": (
        "lambda *a: (lambda y, back: back(jnp.ones(y.shape, y.dtype)))"
        "(*jax.vjp(lambda *b: (lambda y, back: back(jnp.ones(y.shape, y.dtype)))(*jax.vjp({f}, *b))[0], *a[:{n}]))"
    ),
    "jvp of jvp": "lambda *a: jax.jvp(lambda *b: jax.jvp({f}, b[:{n}], b[{n}:])[1], a, a)[1]",
    "vmap": "lambda *a: jax.vmap({f})(*a[:{n}])",
    "vmap along the last axis": "lambda *a: jax.vmap({f}, in_axes=-1, out_axes=-1)(*a[:{n}])",
    "vmap of the first": "lambda *a: jax.vmap({f}, in_axes=(0,) + (None,) * {less})(*a[:{n}])",
}
DCE = "jax.interpreters.partial_eval.dce_jaxpr(j.jaxpr, [True] * len(j.jaxpr.outvars))[0]"
COUNT = f"[len({DCE}.eqns) for j in [jax.make_jaxpr({{f}})({{xs}})]][0]"


def count_here(f: str, xs: list[Any]) -> int:
    jaxpr = steno.make_jaxpr(eval(f, {"jax": steno, "jnp": snp, "lax": lax}))(*xs).jaxpr
    return len(dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))[0].eqns)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_no_more_equations_than_jax(transform: str) -> None:
    calls, here = [], []
    for f, args in programs():
        g = TRANSFORMS[transform].format(f=f"({f})", n=len(args), less=len(args) - 1)
        if transform == "vmap of the first":
            xs = [np.stack([args[0]] * 2), *args[1:]]
        else:
            xs = [np.stack([x, x]) for x in args] if transform.startswith("vmap") else [*args, *args]
        names = {f"x{k}": Arr(x) for k, x in enumerate(xs)}
        calls.append(Expr(COUNT.format(f=g, xs=", ".join(names)), **names))
        here.append((f, count_here(g, xs)))
    server = peer()
    assert server is not None
    more = []
    for (f, count), answer in zip(here, server.batch(calls), strict=True):
        if not isinstance(answer.value, int) or count > answer.value:
            more.append(f"{f}: {count} equations, JAX {answer.value}")
    assert not more, "\n".join(more)
