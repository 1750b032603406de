"""odeint against scipy, the real JAX and closed forms; its derivatives against finite differences, in both modes, twice, and under jit and
vmap; what it says of bad arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from peer import NO_JAX, Arr, Expr, Ref, compare_all, peer

import steno as jax
import steno.numpy as jnp
from steno import lax
from steno.experimental.ode import odeint


@pytest.fixture(autouse=True)
def x64() -> Any:
    with jax.enable_x64(True):
        yield


def lorenz(y: Any, t: Any, p: Any) -> Any:
    a, b, c = y
    return jnp.stack([p[0] * (b - a), a * (p[1] - c) - b, a * b - p[2] * c])


P = np.array([10.0, 28.0, 8 / 3])
Y0 = np.array([1.0, 1.2, 0.7])
T = np.linspace(0.1, 1.0, 5)


def forced(y: Any, t: Any, w: Any) -> Any:
    """A pendulum with friction and a force: all of y, t and w matter."""
    return {"x": y["v"], "v": -jnp.sin(y["x"]) - w["friction"] * y["v"] + jnp.cos(w["rate"][0] * t)}


START = {"x": np.array([0.3, -0.2]), "v": np.array([0.1, 0.9])}
W = {"friction": np.float64(0.2), "rate": [np.float64(1.3)]}


def numeric(f: Callable[[Any], Any], x: np.ndarray, v: np.ndarray, h: float = 1e-4) -> np.ndarray:
    """The derivative of f at x in the direction v, of order 4."""
    ys = [np.asarray(f(x + k * h * v)) for k in (-2, -1, 1, 2)]
    return np.asarray((ys[0] - 8 * ys[1] + 8 * ys[2] - ys[3]) / (12 * h))


def test_against_scipy() -> None:
    integrate = pytest.importorskip("scipy.integrate")
    want = integrate.solve_ivp(
        lambda t, y: np.array(lorenz(y, t, P)), (T[0], T[-1]), Y0, method="DOP853", t_eval=T, rtol=1e-12, atol=1e-12
    ).y.T
    np.testing.assert_allclose(odeint(lorenz, Y0, T, P), want, rtol=2e-6)
    np.testing.assert_allclose(jax.jit(lambda y, p: odeint(lorenz, y, T, p))(Y0, P), want, rtol=2e-6)
    np.testing.assert_allclose(odeint(lorenz, Y0, T, P, rtol=1e-11, atol=1e-11), want, rtol=2e-8)


def test_closed_forms() -> None:
    np.testing.assert_allclose(odeint(lambda y, t: -2 * t * y, 1.0, T, hmax=0.01), np.exp(T[0] ** 2 - T**2), rtol=1e-8)
    np.testing.assert_allclose(odeint(lambda y, t: 1j * y, 1.0 + 0j, T), np.exp(1j * (T - T[0])), rtol=1e-7)
    out = odeint(lambda y, t: (y[1], (-y[0][0], y[0][1])), ((0.0, jnp.ones(2)), (1.0, jnp.ones(2))), T)
    assert jax.tree.structure(out) == jax.tree.structure(((0, 0), (0, 0)))
    np.testing.assert_allclose(out[0][0], np.sin(T - T[0]), atol=1e-7)
    np.testing.assert_allclose(out[1][1], np.exp(T - T[0])[:, None] * np.ones(2), rtol=1e-7)
    # the slope may be another tree of as many numbers
    vector, pair = odeint(lambda y, t: [y[1], -y[0]], np.array([0.0, 1.0]), T), odeint(lambda y, t: jnp.stack([y[1], -y[0]]), [0.0, 1.0], T)
    np.testing.assert_allclose(vector, np.stack([np.sin(T - T[0]), np.cos(T - T[0])], 1), atol=1e-7)
    np.testing.assert_array_equal(np.stack(pair, 1), vector)
    # polynomials of degree 4 are exact, also between steps
    np.testing.assert_allclose(odeint(lambda y, t: 4 * t**3, 0.0, T), T**4 - T[0] ** 4, rtol=1e-13, atol=1e-15)


def test_dtypes() -> None:
    out = odeint(lambda y, t: {"a": y["a"], "b": y["b"]}, {"a": np.ones(2, np.float16), "b": np.ones((2, 2), np.float32)}, T)
    assert out["a"].dtype == np.float16 and out["b"].dtype == np.float32 and out["b"].shape == (5, 2, 2)
    assert odeint(lambda y, t: y, np.float32(1), T.astype(np.float32)).dtype == np.float32
    assert odeint(lambda y, t: y, np.float32(1), T).dtype == np.float32
    assert not odeint(lambda y, t: y, 1.0, T).weak_type


def test_times() -> None:
    np.testing.assert_allclose(odeint(lambda y, t: y, 1.0, np.array([0.5])), [1.0])
    assert odeint(lambda y, t: y, np.ones(2), np.zeros(0)).shape == (0, 2)
    np.testing.assert_allclose(odeint(lambda y, t: y, 1.0, np.array([0.0, 0.0, 1.0, 1.0])), np.exp([0, 0, 1, 1]), rtol=1e-7)
    # a singularity at t = 1: no result beyond, and no endless loop
    out = np.asarray(odeint(lambda y, t: y * y, 1.0, np.array([0.0, 0.5, 2.0])))
    np.testing.assert_allclose(out[:2], [1, 2], rtol=1e-7)
    assert np.isnan(out[2])
    assert np.isnan(np.asarray(odeint(lambda y, t: y * np.nan, 1.0, np.array([0.0, 1.0])))[1])


@pytest.mark.skipif(peer() is None, reason=NO_JAX)
def test_against_jax() -> None:
    o = Ref("jax.experimental.ode.odeint")
    t, y, p = Arr(T), Arr(Y0), Arr(P)
    f = "lambda y, t, p: jnp.stack([p[0] * (y[1] - y[0]), y[0] * (p[1] - y[2]) - y[1], y[0] * y[1] - p[2] * y[2]])"
    options = ["", ", rtol=1e-4, atol=1e-5", ", mxstep=3", ", mxstep=2.5", ", hmax=0.02", ", rtol=1e-3, atol=1e-3, hmax=.05, mxstep=4"]
    calls = [Expr(f"odeint({f}, y, t, p{more})", odeint=o, t=t, y=y, p=p, x64=True) for more in options]
    compare_all(calls, rtol=1e-7, atol=1e-7)  # where the last step's polynomial is prolonged far, rounding errors are magnified
    calls = [
        Expr(f"jax.grad(lambda y, t, p: jnp.sum(jnp.sin(odeint({f}, y, t, p))), (0, 1, 2))(y, t, p)", odeint=o, t=t, y=y, p=p, x64=True),
        Expr(f"jax.grad(lambda p: odeint(lambda y, t: ({f})(y, t, p), y, t)[-1].sum())(p)", odeint=o, t=t, y=y, p=p, x64=True),
        Expr(f"jax.jacrev(lambda y: odeint({f}, y, t, p))(y)", odeint=o, t=t, y=y, p=p, x64=True),
        Expr(f"jax.vmap(lambda y: odeint({f}, y, t, p))(jnp.stack([y, y + 1, y - 1]))", odeint=o, t=t, y=y, p=p, x64=True),
        Expr(f"jax.vmap(jax.grad(lambda y: odeint({f}, y, t, p).sum()))(jnp.stack([y, y + 1]))", odeint=o, t=t, y=y, p=p, x64=True),
    ]
    compare_all(calls, rtol=2e-6, atol=2e-6)
    calls = [
        Expr("odeint(lambda y, t, a: y, 1., t, 'x')", odeint=o, t=t),
        Expr("odeint(lambda y, t: y, 1., jnp.arange(3))", odeint=o, t=t),
        Expr("odeint(lambda y, t: y, jnp.ones(2, int), t)", odeint=o, t=t),
        Expr("odeint(lambda y, t: jnp.ones(2), 1., t)", odeint=o, t=t),
        Expr("odeint(lambda y, t: (y, y), 1., t)", odeint=o, t=t),
        Expr("odeint(3, 1., t)", odeint=o, t=t),
    ]
    compare_all(calls)


def flat(of: Callable[..., Any], run: Callable[..., Any] = lambda f: f) -> tuple[Callable[[Any], Any], np.ndarray]:
    """`of(start, times, parameters)` as a function of one vector."""
    from steno.flatten_util import ravel_pytree  # noqa: PLC0415

    x, unravel = ravel_pytree((START, T, W))
    return run(lambda x: ravel_pytree(of(*unravel(x)))[0]), np.asarray(x)


def test_derivatives() -> None:
    f, x = flat(lambda y, t, w: odeint(forced, y, t, w, forward_mode=True))
    rng = np.random.default_rng(0)
    v = rng.normal(size=x.shape)
    want = numeric(jax.jit(f), x, v)
    out, forward = jax.jvp(f, (x,), (v,))
    np.testing.assert_allclose(forward, want, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(jax.jit(lambda x, v: jax.jvp(f, (x,), (v,))[1])(x, v), want, rtol=1e-6, atol=1e-6)
    ct = rng.normal(size=out.shape)
    y, pull = jax.vjp(f, x)
    np.testing.assert_allclose(y, out)
    np.testing.assert_allclose(pull(ct)[0] @ v, ct @ want, rtol=1e-6)
    np.testing.assert_allclose(jax.linearize(f, x)[1](v), want, rtol=1e-6, atol=1e-6)
    jacobian = jax.jacrev(f)(x)
    np.testing.assert_allclose(jax.jacfwd(f)(x), jacobian, rtol=2e-6, atol=2e-6)
    np.testing.assert_array_equal(jax.jacrev(flat(lambda y, t, w: odeint(forced, y, t, w))[0])(x), jacobian)


def test_forward_mode_is_asked_for() -> None:
    def last(a: Any, **options: Any) -> Any:
        return odeint(lambda y, t: -a * y, 1.0, T, **options)[-1]

    for derivative in (jax.jacfwd(last), lambda a: jax.jvp(last, (a,), (a,)), lambda a: jax.jit(jax.jacfwd(last))(a)):
        with pytest.raises(TypeError, match="can't apply forward-mode"):
            derivative(0.5)
    h = T[-1] - T[0]
    np.testing.assert_allclose(jax.jacfwd(lambda a: last(a, forward_mode=True))(0.5), -h * math.exp(-0.5 * h), rtol=1e-6)
    np.testing.assert_allclose(jax.hessian(last)(0.5), h * h * math.exp(-0.5 * h), rtol=1e-6)


def test_derivatives_by_some_arguments() -> None:
    def total(y: Any, t: Any, w: Any) -> Any:
        return sum(jnp.sum(jnp.sin(x)) for x in jax.tree.leaves(odeint(forced, y, t, w)))

    everything = jax.grad(total, (0, 1, 2))(START, T, W)
    for k in range(3):
        one = jax.grad(total, k)(START, T, W)
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(everything[k]), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)
    # what does not vary, integers too, costs nothing and has no derivative
    f = lambda y, t, n, a: a * y * n[1]  # noqa: E731
    np.testing.assert_allclose(jax.grad(lambda a: odeint(f, 1.0, T, np.arange(3), a)[-1])(0.7), 0.9 * math.exp(0.63), rtol=1e-6)
    # only the last result is used; then only the first
    np.testing.assert_allclose(jax.grad(lambda t: odeint(lambda y, t: -y, 1.0, t)[0])(T), np.zeros(5), atol=1e-12)
    slope = -math.exp(T[0] - T[-1])
    np.testing.assert_allclose(jax.grad(lambda t: odeint(lambda y, t: -y, 1.0, t)[-1])(T), [-slope, 0, 0, 0, slope], rtol=1e-6, atol=1e-7)
    with pytest.raises(TypeError, match="float0|integer|int"):
        jax.grad(lambda n: odeint(lambda y, t, n: y * n, 1.0, T, n)[-1])(3)


def test_closures() -> None:
    p = jnp.asarray(P)

    def last(p: Any, q: Any) -> Any:
        return odeint(lambda y, t: lorenz(y, t, p) * q[0], Y0, T[:2], forward_mode=True)[-1]

    def direct(p: Any, q: Any) -> Any:
        return odeint(lambda y, t, p, q: lorenz(y, t, p) * q[0], Y0, T[:2], p, q)[-1]

    want = jax.jit(jax.jacrev(direct, (0, 1)))(p, jnp.ones(1))
    for got in (jax.jit(jax.jacrev(last, (0, 1))), jax.jit(jax.jacfwd(last, (0, 1))), jax.jacrev(jax.checkpoint(last), (0, 1))):
        for a, b in zip(got(p, jnp.ones(1)), want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    # integers from around, and a map around everything
    out = jax.vmap(lambda n: jax.grad(lambda a: odeint(lambda y, t: a * n * y, 1.0, T[:2])[-1])(0.5))(jnp.arange(3))
    h = T[1] - T[0]
    np.testing.assert_allclose(out, [n * h * math.exp(0.5 * n * h) for n in range(3)], rtol=1e-6)


def test_second_derivatives() -> None:
    def last(p: Any) -> Any:
        return odeint(lambda y, t: p[0] * y * (1 - y * p[1]), 0.3, T[:2], forward_mode=True)[-1]

    p, v = np.array([1.3, 0.7]), np.array([0.3, -0.2])
    want = numeric(jax.jit(jax.grad(last)), p, v, 1e-3)
    for first in (jax.jacfwd, jax.jacrev):
        for second in (jax.jacfwd, jax.jacrev):
            np.testing.assert_allclose(jax.jit(second(first(last)))(p) @ v, want, rtol=1e-6, atol=1e-6)


def test_vmap() -> None:
    ys = np.stack([Y0, Y0 + 1, Y0 - 1])
    ps = np.stack([P, P * 1.1, P * 0.9])
    ts = np.stack([T, T * 2, T * 0.5])
    f = jax.jit(lambda y, t, p: odeint(lorenz, y, t, p))
    g = jax.jit(jax.grad(lambda y, t, p: jnp.sin(odeint(lorenz, y, t, p)).sum(), (0, 1, 2)))
    for axes in ((0, 0, 0), (0, None, None), (None, 0, None)):
        args = [x if a == 0 else x[0] for x, a in zip((ys, ts, ps), axes, strict=True)]
        rows = [[x[k] if a == 0 else x for x, a in zip(args, axes, strict=True)] for k in range(3)]
        np.testing.assert_allclose(jax.vmap(f, axes)(*args), np.stack([f(*r) for r in rows]), rtol=1e-6)
        got = jax.vmap(g, axes)(*args)
        for a, b in zip(got, zip(*[g(*r) for r in rows], strict=True), strict=True):
            np.testing.assert_allclose(a, np.stack(b), rtol=1e-4, atol=1e-4)


def test_in_loops() -> None:
    def last(a: Any) -> Any:
        return lax.scan(lambda y, k: (odeint(lambda y, t: -a * y * (1 + k), y, T[:2])[-1],) * 2, 1.0, jnp.arange(3.0))[0]

    h = T[1] - T[0]
    np.testing.assert_allclose(last(0.3), math.exp(-0.3 * 6 * h), rtol=1e-7)
    np.testing.assert_allclose(jax.jit(jax.grad(last))(0.3), -6 * h * math.exp(-0.3 * 6 * h), rtol=1e-6)


def test_a_function_is_traced_once() -> None:
    traces = []

    def f(y: Any, t: Any, a: Any) -> Any:
        traces.append(1)
        return -a * y

    for k in range(3):
        odeint(f, np.float64(k), T, 2.0)
    assert len(traces) == 1


def test_errors() -> None:
    with pytest.raises(TypeError, match="t must be an array of floats"):
        odeint(lambda y, t: y, 1.0, [0.0, 1.0])
    with pytest.raises(ValueError, match=r"t must be an array of shape \(n,\), got one of shape \(\)"):
        odeint(lambda y, t: y, 1.0, np.float64(1))
    with pytest.raises(TypeError, match=r"y0 must hold floats or complex numbers, but got 1 of dtype int"):
        odeint(lambda y, t: y, 1, T)
    with pytest.raises(ValueError, match=r"func must give the 2 numbers of y0, of shapes \[\(2,\)\], but gave 1, of shapes \[\(\)\]"):
        odeint(lambda y, t: y.sum(), np.ones(2), T)
