"""Derivatives of functions of the faces where they are not smooth, against the real JAX: at ties, at 0, at infinities and NaN; first and
second order."""

from __future__ import annotations

import numpy as np
import pytest
from peer import NO_JAX, Arr, Expr, compare_all, peer

import steno
import steno.numpy as snp

pytestmark = pytest.mark.skipif(peer() is None, reason=NO_JAX)

INF, NAN = np.inf, np.nan
POINTS = np.array([0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 6.0, INF, -INF, NAN], np.float32)
SIDES = np.array([0.0, -0.0, 1.0, -1.0, 2.0, INF, -INF, NAN], np.float32)
A, B = (np.ascontiguousarray(v.reshape(-1)) for v in np.meshgrid(SIDES, SIDES))
ROWS = np.array([[1, 1, 0, 2], [0, 0, 0, 0], [3, -1, 3, 3], [0.5, 0, 2, 0]], np.float32)
HARD = np.array([[1, NAN, 0, 2], [INF, 1, INF, -INF], [-INF, -INF, -INF, -INF], [NAN, NAN, NAN, NAN], [-1, -0.0, 0, 5]], np.float32)
Z = np.array([0, 1, 1j, -1.5, 0.5 - 2j, -0.5 + 0.25j], np.complex64)


def derivatives(f: str, *args: np.ndarray, second: bool = True) -> list[Expr]:
    """jvp along ones, vjp of increasing numbers, and the jvp of that."""
    names = [f"x{k}" for k in range(len(args))]
    xs = "".join(f"{n}, " for n in names)
    ones = "".join(f"jnp.ones_like({n}), " for n in names)
    variables = {n: Arr(x) for n, x in zip(names, args, strict=True)}
    ct = "(jnp.arange(1, 1 + y.size) * 0.5).astype(y.dtype).reshape(y.shape)"
    back = f"lambda {', '.join(names)}: [back({ct}) for y, back in [jax.vjp({f}, {xs})]][0]"
    out = [Expr(f"jax.jvp({f}, ({xs}), ({ones}))[1]", **variables), Expr(f"({back})({xs})", **variables)]
    return [*out, Expr(f"jax.jvp({back}, ({xs}), ({ones}))[1]", **variables)] if second else out


ONE = """
jnp.abs jnp.sign jnp.sqrt jnp.cbrt jnp.square jnp.reciprocal jnp.exp2 jnp.expm1 jnp.log1p jnp.log10 jnp.sinc jnp.i0 jnp.fabs jnp.floor
jnp.rint jnp.trunc jnp.nan_to_num jnp.deg2rad jnp.tanh jnp.arctan jnp.arcsinh jnp.arctanh jnp.arccosh jnp.arcsin jnp.positive
jax.nn.relu jax.nn.relu6 jax.nn.leaky_relu jax.nn.elu jax.nn.selu jax.nn.celu jax.nn.silu jax.nn.gelu jax.nn.softplus jax.nn.sigmoid
jax.nn.log_sigmoid jax.nn.hard_tanh jax.nn.hard_sigmoid jax.nn.hard_silu jax.nn.soft_sign jax.nn.mish jax.nn.squareplus
jax.nn.sparse_plus jax.nn.sparse_sigmoid
""".split()
ONE_WRITTEN = [
    "lambda x: jnp.clip(x, -1.0, 1.0)",
    "lambda x: jnp.clip(x, 1.0, -1.0)",
    "lambda x: jnp.where(x > 0, jnp.log(x), 0.0)",
    "lambda x: jnp.where(x > 0, jnp.sqrt(x), -x)",
    "lambda x: jnp.where(x == 0, 1.0, jnp.sin(x) / jnp.where(x == 0, 1.0, x))",
    "lambda x: jnp.select([x > 0, x == 0], [x * x, x * 3.0], -x)",
    "lambda x: jnp.piecewise(x, [x < 0, x > 1], [lambda v: v * v, jnp.sin, lambda v: v * 3.0])",
    "lambda x: jnp.interp(x, jnp.array([-1.0, 0.0, 2.0]), jnp.array([1.0, 5.0, 3.0]))",
    "lambda x: x ** 2",
    "lambda x: x ** 0",
    "lambda x: x ** 1",
    "lambda x: x ** 3",
    "lambda x: x ** -1",
    "lambda x: x ** 2.0",
    "lambda x: x ** 1.5",
    "lambda x: 2.0 ** x",
    "lambda x: 0.0 ** x",
    "lambda x: x % 1.0",
    "lambda x: x // 1.0 + x",
    "lambda x: jnp.hypot(x, 0.0)",
    "lambda x: jnp.arctan2(x, 1.0)",
    "lambda x: jnp.heaviside(x, 0.5) * x",
    "lambda x: jnp.copysign(x, 1.0)",
    "lambda x: jnp.ldexp(x, 2)",
    "lambda x: jnp.logaddexp(x, 0.0)",
    "lambda x: jnp.maximum(x, 0.0) * jnp.minimum(x, 1.0)",
    "lambda x: jnp.fmax(x, 0.0)",
    "lambda x: jnp.modf(x)[0]",
    "lambda x: jax.nn.gelu(x, approximate=False)",
    "lambda x: jax.nn.leaky_relu(x, 0.3)",
]
TWO = """
jnp.maximum jnp.minimum jnp.fmax jnp.fmin jnp.multiply jnp.subtract jnp.logaddexp jnp.logaddexp2 jnp.hypot jnp.copysign jnp.remainder
jnp.fmod jnp.heaviside jnp.nextafter
""".split()
ALONG = """
jnp.max jnp.min jnp.sum jnp.prod jnp.mean jnp.var jnp.std jnp.ptp jnp.median jnp.cumsum jnp.cumprod jnp.sort jnp.nansum jnp.nanprod
jnp.nanmax jnp.nanmin jnp.nanmean jnp.nanvar jnp.nanmedian jnp.nancumsum jnp.nancumprod jax.nn.logsumexp jax.nn.softmax jax.nn.log_softmax
jnp.linalg.norm jnp.diff jnp.flip jax.nn.standardize jax.nn.logmeanexp
""".split()
DIFFERENT = {  # name: why JAX's values are not wanted
    "jnp.cumprod": "second derivatives beside several zeros",
}


def compare_finite(calls: list[Expr]) -> None:
    compare_all(calls, rtol=5e-5, atol=1e-5, weak=False)


@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_operand(name: str) -> None:
    compare_finite(derivatives(name, POINTS))


@pytest.mark.parametrize("f", ONE_WRITTEN)
def test_expressions_of_one_operand(f: str) -> None:
    compare_finite(derivatives(f, POINTS))


@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_operands(name: str) -> None:
    compare_finite(derivatives(name, A, B))


@pytest.mark.parametrize("name", ["jnp.divide", "jnp.power", "jnp.arctan2", "jnp.float_power"])
def test_functions_of_two_finite_operands(name: str) -> None:
    a, b = (
        np.ascontiguousarray(v.reshape(-1)).astype(np.float32) for v in np.meshgrid([0.0, 0.5, 1.0, -1.0, 2.0], [0.5, 1.0, -1.0, 2.0, 3.0])
    )
    compare_finite(derivatives(name, a, b))


@pytest.mark.parametrize("name", ALONG)
def test_functions_along_an_axis(name: str) -> None:
    calls = [c for axis in (0, 1) for c in derivatives(f"lambda x: {name}(x, axis={axis})", ROWS, second=name not in DIFFERENT)]
    if "prod" not in name:
        calls += derivatives(f"lambda x: {name}(x, axis=1)", HARD, second=False)
    compare_finite(calls)


@pytest.mark.parametrize(
    "f",
    [
        "lambda x: jnp.linalg.norm(x)",
        "lambda x: jnp.linalg.norm(x, ord=1, axis=1)",
        "lambda x: jnp.linalg.norm(x, ord=jnp.inf, axis=1)",
        "lambda x: jnp.linalg.norm(x, ord=-jnp.inf, axis=1)",
        "lambda x: jnp.linalg.norm(x, ord=3, axis=1)",
        "lambda x: jnp.linalg.norm(x, ord=0, axis=1)",
        "lambda x: jnp.quantile(x, 0.3, axis=1)",
        "lambda x: jnp.percentile(x, 50.0, axis=0, method='nearest')",
        "lambda x: jnp.quantile(x, jnp.array([0.0, 1.0]), axis=1)",
        "lambda x: lax.top_k(x, 3)[0]",
        "lambda x: lax.cummax(x, 0)",
        "lambda x: lax.cummin(x, 0, reverse=True)",
        "lambda x: jnp.take_along_axis(x, jnp.argsort(x, axis=1), axis=1)",
        "lambda x: x.at[jnp.array([0, 0, 1])].max(x[1:])",
        "lambda x: x.at[jnp.array([0, 2])].min(x[:2])",
        "lambda x: jax.nn.softmax(jnp.where(x > 0, x, -jnp.inf), axis=1, where=x > 0)",
        "lambda x: jax.nn.logsumexp(x, axis=1, b=x)",
        "lambda x: jnp.average(x, axis=1, weights=jnp.abs(x) + 1)",
        "lambda x: jnp.cov(x)",
        "lambda x: jnp.trapezoid(x, axis=1)",
        "lambda x: jnp.gradient(x, axis=1)",
        "lambda x: jnp.max(x, axis=1, where=x < 3, initial=-1.0)",
        "lambda x: jnp.outer(x[0], x[1]).max()",
    ],
)
def test_expressions_of_rows(f: str) -> None:
    compare_finite(derivatives(f, ROWS, second="cumm" not in f))


def test_complex_functions() -> None:
    names = "abs angle real imag sqrt exp square conj sign reciprocal tanh sin".split()
    calls = [c for n in names for c in derivatives(f"jnp.{n}", Z[1:], second=False)]
    calls += derivatives("lambda z: jnp.abs(z)", Z, second=False)
    calls += derivatives("jnp.logaddexp", Z[1:], Z[:0:-1].copy(), second=False)
    compare_finite(calls)


def test_higher_derivatives_of_sinc() -> None:
    f = "jnp.sinc"
    calls = []
    for _ in range(4):
        f = f"jax.grad({f})"
        calls += [Expr(f"jax.vmap({f})(x)", x=Arr(np.array([0.0, 0.25, 1.0, -2.5], np.float32)))]
    compare_all(calls, rtol=2e-4, atol=2e-4)


def test_partition_moves_the_derivative_with_the_elements() -> None:
    """JAX's gives several places of its result the derivative of one of several equal elements."""
    y, back = steno.vjp(lambda x: snp.partition(x, 1), snp.zeros(4))
    assert sorted(np.asarray(back(snp.arange(4.0))[0])) == [0, 1, 2, 3]
