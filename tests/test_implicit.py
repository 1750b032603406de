"""Functions whose derivatives come from what the user says of them: custom_linear_solve, custom_root, linear_call. Derivatives of both
modes, first and second, against finite differences and the explicit formula; with pytrees, auxiliary results, vmap, jit and loops. And
what the faces of transformations offer besides: collectives of groups and of several axes, results that vmap sums, arguments that vjp does
not keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from peer import NO_JAX, Arr, Expr, compare_all, peer

import steno as jax
import steno.numpy as jnp
from steno import lax
from steno.custom_derivatives import linear_call


@pytest.fixture(autouse=True)
def x64() -> Any:
    with jax.enable_x64(True):
        yield


RNG = np.random.default_rng(0)
N = 4
A = RNG.normal(size=(N, N)) * 0.2 + np.eye(N) * 2
S = A + A.T
B = RNG.normal(size=N)


def numeric(f: Callable[[Any], Any], x: np.ndarray, v: np.ndarray, h: float = 1e-4) -> np.ndarray:
    """The derivative of f at x in the direction v, of order 4."""
    ys = [np.asarray(f(x + k * h * v)) for k in (-2, -1, 1, 2)]
    return np.asarray((ys[0] - 8 * ys[1] + 8 * ys[2] - ys[3]) / (12 * h))


def check(f: Callable[[Any], Any], x: np.ndarray, tol: float = 1e-7) -> None:
    """First and second derivatives of f in both modes, with and without jit, and a batch of values and gradients."""
    rng = np.random.default_rng(1)
    v = rng.normal(size=x.shape)
    want = numeric(f, x, v)
    out, forward = jax.jvp(f, (x,), (v,))
    np.testing.assert_allclose(out, f(x), rtol=1e-9)
    np.testing.assert_allclose(forward, want, rtol=tol, atol=tol)
    ct = rng.normal(size=out.shape)
    np.testing.assert_allclose(np.sum(np.asarray(jax.vjp(f, x)[1](ct)[0]) * v), np.sum(ct * want), rtol=tol, atol=tol)

    def scalar(x: Any) -> Any:
        return jnp.sum(jnp.sin(f(x)))

    for run in (lambda g: g, jax.jit):
        gradient = run(jax.grad(scalar))
        second = numeric(gradient, x, v)
        np.testing.assert_allclose(run(lambda x: jax.jvp(jax.grad(scalar), (x,), (v,))[1])(x), second, rtol=10 * tol, atol=10 * tol)
        np.testing.assert_allclose(run(jax.grad(lambda x: jnp.sum(jax.grad(scalar)(x) * v)))(x), second, rtol=10 * tol, atol=10 * tol)
    xs = np.stack([x, x + 0.05 * v, x - 0.03 * v])
    for g in (f, jax.grad(scalar), lambda x: jax.jvp(f, (x,), (v,))[1]):
        rows = np.stack([np.asarray(g(x)) for x in xs])
        for run in (lambda g: g, jax.jit):
            np.testing.assert_allclose(run(jax.vmap(g))(xs), rows, rtol=1e-7, atol=1e-7)


# custom_linear_solve


def iterate(matvec: Callable[[Any], Any], b: Any) -> Any:
    """Richardson's iteration, on pytrees."""

    def better(_: Any, x: Any) -> Any:
        return jax.tree.map(lambda x, b, r: x + 0.35 * (b - r), x, b, matvec(x))

    return lax.fori_loop(0, 120, better, jax.tree.map(jnp.zeros_like, b))


def gauss(matvec: Callable[[Any], Any], b: Any) -> Any:
    """Elimination without pivots, for vectors."""
    matrix = jnp.stack([matvec(e) for e in np.eye(N)], 1)
    rows = jnp.concatenate([matrix, b[:, None]], 1)
    for k in range(N):
        pivot = rows[k] / rows[k, k]
        rows = jnp.stack([pivot if j == k else rows[j] - rows[j, k] * pivot for j in range(N)])
    return rows[:, N]


def test_solve_by_the_right_hand_side() -> None:
    for solver in (iterate, gauss):
        check(lambda b, s=solver: lax.custom_linear_solve(lambda x: A @ x, b, s, s), B)
        check(lambda b, s=solver: lax.custom_linear_solve(lambda x: S @ x, b * b, s, symmetric=True), B)


def test_solve_by_the_matrix() -> None:
    np.testing.assert_allclose(lax.custom_linear_solve(lambda x: A @ x, B, gauss), np.linalg.solve(A, B), rtol=1e-10)
    check(lambda a: lax.custom_linear_solve(lambda x: a @ x, B, gauss, gauss), A)
    check(lambda a: lax.custom_linear_solve(lambda x: (a + a.T) @ x, jnp.sin(a[0]), gauss, symmetric=True), A)

    def power(t: Any) -> Any:
        return lax.custom_linear_solve(lambda x: A @ x + t * x, B * t, gauss, gauss)

    check(lambda t: power(t[0]), np.array([0.7]))
    # the formula: d(A^-1 b) = -A^-1 dA A^-1 b
    v = RNG.normal(size=(N, N))
    got = jax.jvp(lambda a: lax.custom_linear_solve(lambda x: a @ x, B, gauss), (A,), (v,))[1]
    np.testing.assert_allclose(got, -np.linalg.solve(A, v @ np.linalg.solve(A, B)), rtol=1e-9)


def test_solve_trees_with_auxiliary_results() -> None:
    def matvec(t: Any, x: Any) -> Any:
        u, v = x["u"], x["v"][0]
        return {"u": 2 * u + 0.3 * v.sum() * t, "v": [3 * v - 0.4 * t * u[:2]]}

    def with_count(matvec: Callable[[Any], Any], b: Any) -> Any:
        return iterate(matvec, b), {"steps": 120, "size": jnp.abs(b["u"]).max()}

    def solution(t: Any) -> Any:
        b = {"u": jnp.arange(3.0) * t[0], "v": [jnp.ones(2) * t[1]]}
        x, aux = lax.custom_linear_solve(lambda x: matvec(t[0], x), b, with_count, with_count, has_aux=True)
        assert set(aux) == {"steps", "size"}
        return jnp.concatenate([x["u"], x["v"][0]])

    check(solution, np.array([0.6, 1.3]))
    # what comes besides has no derivative
    aux = lambda t: lax.custom_linear_solve(lambda x: 2 * x, t, lambda m, b: (b / 2, b.sum()), has_aux=True)[1]  # noqa: E731
    np.testing.assert_allclose(jax.jvp(aux, (B,), (B,))[1], 0)


def test_solve_without_a_transpose() -> None:
    f = lambda b: lax.custom_linear_solve(lambda x: A @ x, b, gauss)  # noqa: E731
    np.testing.assert_allclose(jax.jacfwd(f)(B), np.linalg.inv(A), rtol=1e-9)
    with pytest.raises(TypeError, match="transpose_solve"):
        jax.jacrev(f)(B)
    # only an own solver for the transposed equation
    g = lambda b: lax.custom_linear_solve(lambda x: S @ x, b, gauss, lambda m, b: 7 * b, symmetric=True)  # noqa: E731
    np.testing.assert_allclose(jax.vjp(g, B)[1](B)[0], 7 * B)


def test_solve_in_a_loop() -> None:
    def f(a: Any) -> Any:
        return lax.scan(lambda x, _: (lax.custom_linear_solve(lambda y: a @ y, x, gauss, gauss),) * 2, B, None, 3)[0]

    np.testing.assert_allclose(f(A), np.linalg.solve(A, np.linalg.solve(A, np.linalg.solve(A, B))), rtol=1e-9)
    v = RNG.normal(size=(N, N))
    np.testing.assert_allclose(jnp.sum(jax.grad(lambda a: jnp.sum(f(a)))(A) * v), np.sum(numeric(f, A, v)), rtol=1e-7)


# custom_root


def newton(f: Callable[[Any], Any], x: Any) -> Any:
    def step(_: Any, x: Any) -> Any:
        slope = jnp.stack([jax.jvp(f, (x,), (e,))[1] for e in np.eye(x.size)], 1)
        return x - _solve2(slope, f(x))

    return lax.fori_loop(0, 12, step, x)


def _solve2(m: Any, y: Any) -> Any:
    """Cramer's rule for two unknowns."""
    det = m[0, 0] * m[1, 1] - m[0, 1] * m[1, 0]
    return jnp.stack([y[0] * m[1, 1] - y[1] * m[0, 1], m[0, 0] * y[1] - m[1, 0] * y[0]]) / det


def tangent(g: Callable[[Any], Any], y: Any) -> Any:
    return _solve2(jnp.stack([g(e) for e in np.eye(2)], 1), y)


def test_root() -> None:
    def root(t: Any) -> Any:
        def f(x: Any) -> Any:
            return jnp.stack([x[0] ** 3 + t[0] * x[1] - 2, x[1] * jnp.exp(x[0] * t[1]) - t[0]])

        return lax.custom_root(f, jnp.ones(2), newton, tangent)

    t = np.array([0.8, 0.3])
    x = np.asarray(root(t))
    np.testing.assert_allclose([x[0] ** 3 + t[0] * x[1], x[1] * np.exp(x[0] * t[1])], [2, t[0]], rtol=1e-12)
    check(root, t)
    # the guess has no derivative
    np.testing.assert_allclose(jax.grad(lambda g: lax.custom_root(lambda x: x * x - t, g, newton, tangent).sum())(np.ones(2)), 0)


def test_root_of_trees_with_auxiliary_results() -> None:
    def solve(f: Callable[[Any], Any], guess: Any) -> Any:
        return lax.fori_loop(0, 60, lambda _, x: jax.tree.map(lambda a, r: a - 0.2 * r, x, f(x)), guess), 60

    def tangent_solve(g: Callable[[Any], Any], y: Any) -> Any:
        return lax.custom_linear_solve(g, y, iterate_slowly, iterate_slowly)

    def iterate_slowly(g: Callable[[Any], Any], b: Any) -> Any:
        step = lambda _, x: jax.tree.map(lambda x, b, r: x + 0.2 * (b - r), x, b, g(x))  # noqa: E731
        return lax.fori_loop(0, 120, step, jax.tree.map(jnp.zeros_like, b))

    def root(t: Any) -> Any:
        def f(x: Any) -> Any:
            return {"a": x["a"] ** 3 - t, "b": 2 * x["b"] - x["a"]}

        x, count = lax.custom_root(f, {"a": jnp.ones_like(t), "b": jnp.zeros_like(t)}, solve, tangent_solve, has_aux=True)
        return jnp.concatenate([x["a"], x["b"] * count])

    t = np.array([0.9, 1.4])
    np.testing.assert_allclose(root(t), np.concatenate([np.cbrt(t), 30 * np.cbrt(t)]), rtol=1e-9)
    check(root, t, 1e-6)


# linear_call


def test_linear_call() -> None:
    def scaled(r: Any, x: Any) -> Any:
        return linear_call(lambda r, x: {"y": jnp.sin(r) * x}, lambda r, ct: jnp.sin(r) * ct["y"], r, x)["y"]

    x, r = np.array([0.3, -1.2]), np.array([0.7, 0.4])
    check(lambda x: scaled(r, x), x)
    check(lambda r: scaled(r, x), r)
    check(lambda z: scaled(z, z * z), x)
    check(lambda z: scaled(z[0], z), x)
    # the transpose is the one that is given
    odd = lambda x: linear_call(lambda r, x: r * x, lambda r, ct: 10 * ct, 2.0, x)  # noqa: E731
    assert float(jax.grad(odd)(1.0)) == 10 and float(jax.jvp(odd, (1.0,), (1.0,))[1]) == 2
    assert float(jax.linear_transpose(lambda t: jax.linear_transpose(odd, 1.0)(t)[0], 1.0)(1.0)[0]) == 2


def test_linear_call_errors() -> None:
    with pytest.raises(TypeError, match="pytree structure"):
        linear_call(lambda r, x: x, lambda r, ct: (ct,), 1.0, 2.0)
    with pytest.raises(ValueError, match="expected cotangent type"):
        linear_call(lambda r, x: x, lambda r, ct: jnp.stack([ct, ct]), 1.0, 2.0)


# references


def scratch(solution: Any) -> Any:
    """What is written into a reference that lives here."""
    r = jax.new_ref(jnp.zeros_like(solution))
    r[...] = solution
    return r[...]


LOCAL: dict[str, Callable[[Any], Any]] = {
    "custom_linear_solve": lambda b: lax.custom_linear_solve(
        lambda x: scratch(2 * x), b, lambda m, b: scratch(b / 2), lambda m, b: scratch(b / 2)
    ),
    "custom_root": lambda b: lax.custom_root(lambda x: scratch(2 * x - b), b, lambda f, x: scratch(x - f(x) / 2), lambda g, y: y / 2),
    "linear_call": lambda b: linear_call(lambda r, x: scratch(x / r), lambda r, ct: scratch(ct / r), 2.0, b),
}


@pytest.mark.parametrize("name", LOCAL)
def test_references_inside(name: str) -> None:
    f = LOCAL[name]
    for run in (lambda g: g, jax.jit):
        np.testing.assert_allclose(run(f)(B), B / 2)
        np.testing.assert_allclose(run(jax.jacrev(f))(B), np.eye(N) / 2)
        np.testing.assert_allclose(run(jax.vmap(f))(np.stack([B, -B])), np.stack([B, -B]) / 2)


def _counting(b: Any) -> Any:
    """Solves a a a x = b with a matrix that is read from a reference; the solver counts its calls and keeps what it was given."""
    a, calls, last = jax.new_ref(jnp.asarray(A)), jax.new_ref(jnp.array(0.0)), jax.new_ref(jnp.zeros(N))

    def solve(matvec: Any, b: Any) -> Any:
        calls[...] += 1
        last[...] = lax.stop_gradient(b)
        return jnp.linalg.solve(a[...], b)

    def back(vecmat: Any, b: Any) -> Any:
        return jnp.linalg.solve(a[...].T, b)

    x = lax.fori_loop(0, 3, lambda _, b: lax.custom_linear_solve(lambda x: a[...] @ x, b, solve, back), b)
    return x, (calls[...], last[...])


def test_references_outside() -> None:
    inverse = np.linalg.inv(A)
    for run in (lambda g: g, jax.jit):
        x, (calls, last) = run(_counting)(B)
        np.testing.assert_allclose(x, inverse @ inverse @ inverse @ B)
        np.testing.assert_allclose(last, inverse @ inverse @ B)
        assert calls == 3
        gradient, (calls, _) = run(jax.grad(lambda b: (_counting(b)[0].sum(), _counting(b)[1]), has_aux=True))(B)
        np.testing.assert_allclose(gradient, (inverse @ inverse @ inverse).sum(0))
        assert calls == 3

    def root(t: Any) -> Any:
        target, found = jax.new_ref(t), jax.new_ref(0.0)

        def solve(f: Any, x: Any) -> Any:
            x = lax.fori_loop(0, 20, lambda _, x: x - f(x) / (2 * x), x)
            found[...] = x
            return x

        return lax.custom_root(lambda x: x * x - target[...], t, solve, lambda g, y: y / g(1.0)) * found[...]

    np.testing.assert_allclose(jax.vmap(root)(np.array([2.0, 9.0])), [2, 9])
    r = jax.new_ref(3.0)
    call = lambda x: linear_call(lambda _, x: r[...] * x, lambda _, ct: r[...] * ct, (), x)  # noqa: E731
    assert call(2.0) == 6 and jax.grad(call)(1.0) == 3 and jax.jit(call)(4.0) == 12


def test_references_that_are_refused() -> None:
    r = jax.new_ref(jnp.ones(2))

    def write(x: Any) -> Any:
        r[...] = lax.stop_gradient(x)
        return x

    with pytest.raises(TypeError, match="custom_linear_solve: b must hold arrays, got a reference"):
        lax.custom_linear_solve(lambda x: x, r, lambda m, b: b)
    with pytest.raises(TypeError, match="custom_root: initial_guess must hold arrays, got a reference"):
        lax.custom_root(lambda x: x, r, lambda f, x: x, lambda g, y: y)
    with pytest.raises(NotImplementedError, match="custom_linear_solve: matvec writes to a reference"):
        lax.custom_linear_solve(write, jnp.ones(2), lambda m, b: b)
    with pytest.raises(NotImplementedError, match="custom_root: f writes to a reference"):
        lax.custom_root(write, jnp.ones(2), lambda f, x: x, lambda g, y: y)
    with pytest.raises(NotImplementedError, match="linear_call: a function that writes to a reference"):
        linear_call(lambda _, x: write(x), lambda _, ct: ct, (), jnp.ones(2))


@pytest.mark.skipif(peer() is None, reason=NO_JAX)
def test_against_jax() -> None:
    inverse = "jnp.array([[a[1, 1], -a[0, 1]], [-a[1, 0], a[0, 0]]]) / (a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0])"
    solve = f"lambda a, b: lax.custom_linear_solve(lambda x: a @ x, b, lambda m, b: ({inverse}) @ b, lambda m, b: ({inverse}).T @ b)"
    root = (
        "lambda t: lax.custom_root(lambda x: x ** 3 - t, 1., lambda f, x: lax.fori_loop(0, 40, lambda _, x: x - f(x) / (3 * x * x), x), "
        "lambda g, y: y / g(1.))"
    )
    a, b, t = Arr(A[:2, :2]), Arr(B[:2]), Arr(np.array([0.5, 2.0]))
    calls = [
        Expr(f"({solve})(a, b)", a=a, b=b, x64=True),
        Expr(f"jax.jacrev({solve}, (0, 1))(a, b)", a=a, b=b, x64=True),
        Expr(f"jax.jacfwd({solve}, (0, 1))(a, b)", a=a, b=b, x64=True),
        Expr(f"jax.vmap({solve}, (None, 0))(a, jnp.stack([b, 2 * b]))", a=a, b=b, x64=True),
        Expr(f"jax.hessian(lambda a: ({solve})(a, b).sum())(a)", a=a, b=b, x64=True),
        Expr(f"jax.vmap({root})(t)", t=t, x64=True),
        Expr(f"jax.vmap(jax.grad({root}))(t)", t=t, x64=True),
        Expr(f"jax.vmap(jax.hessian({root}))(t)", t=t, x64=True),
        Expr("lax.custom_linear_solve(lambda x: x[:1], b, lambda m, b: b)", b=b),
        Expr("lax.custom_linear_solve(lambda x: x, b, lambda m, b: b[:1])", b=b),
        Expr("lax.custom_linear_solve(lambda x: (x,), b, lambda m, b: b)", b=b),
        Expr("lax.custom_linear_solve(lambda x: x, b, lambda m, b: b, has_aux=True)", b=b),
        Expr("lax.custom_root(lambda x: (x,), 1., lambda f, x: x, lambda g, y: y)"),
        Expr("jax.jacrev(lambda b: lax.custom_linear_solve(lambda x: x, b, lambda m, b: b))(b)", b=b),
    ]
    compare_all(calls, rtol=1e-9, atol=1e-9)


# collectives of groups, and of several axes


def over(f: Callable[[Any], Any], x: Any) -> Any:
    return jax.vmap(jax.vmap(f, axis_name="j"), axis_name="i")(x)


GROUPS = [[0, 3], [5, 1], [2, 4]]


def test_groups() -> None:
    x = RNG.normal(size=(6, 4))
    group_of = {k: g for g in GROUPS for k in g}
    mapped = lambda f: jax.vmap(f, axis_name="i")(x)  # noqa: E731
    rows = lambda k: x[group_of[k]]  # noqa: E731
    cases: list[tuple[Callable[[Any], Any], Callable[[int], Any]]] = [
        (lambda y: lax.psum(y, "i", axis_index_groups=GROUPS), lambda k: rows(k).sum(0)),
        (lambda y: lax.pmean(y, "i", axis_index_groups=GROUPS), lambda k: rows(k).mean(0)),
        (lambda y: lax.pmax(y, "i", axis_index_groups=GROUPS), lambda k: rows(k).max(0)),
        (lambda y: lax.pmin(y, "i", axis_index_groups=GROUPS), lambda k: rows(k).min(0)),
        (lambda y: lax.all_gather(y, "i", axis_index_groups=GROUPS), rows),
        (lambda y: lax.all_gather(y, "i", axis_index_groups=GROUPS, axis=-1), lambda k: rows(k).T),
        (lambda y: lax.all_gather(y, "i", axis_index_groups=GROUPS, tiled=True), lambda k: rows(k).reshape(-1)),
        (
            lambda y: lax.psum_scatter(y, "i", axis_index_groups=GROUPS, tiled=True),
            lambda k: rows(k).sum(0).reshape(2, 2)[group_of[k].index(k)],
        ),
        (
            lambda y: lax.psum_scatter(y.reshape(2, 2), "i", axis_index_groups=GROUPS),
            lambda k: rows(k).sum(0).reshape(2, 2)[group_of[k].index(k)],
        ),
        (
            lambda y: lax.all_to_all(y, "i", 0, 0, axis_index_groups=GROUPS, tiled=True),
            lambda k: rows(k).reshape(2, 2, 2)[:, group_of[k].index(k)].reshape(-1),
        ),
        (
            lambda y: lax.all_to_all(y.reshape(2, 2), "i", 0, 1, axis_index_groups=GROUPS),
            lambda k: rows(k).reshape(2, 2, 2)[:, group_of[k].index(k)].T,
        ),
    ]
    for f, want in cases:
        want = np.stack([want(k) for k in range(6)])
        np.testing.assert_allclose(mapped(f), want, rtol=1e-12)
        np.testing.assert_allclose(mapped(jax.jit(f)), want, rtol=1e-12)
        # they are linear, but for extrema: derivatives by the dot product test
        g = lambda x, f=f: jnp.sin(jax.vmap(f, axis_name="i")(x))  # noqa: E731
        v, ct = RNG.normal(size=x.shape), RNG.normal(size=want.shape)
        np.testing.assert_allclose(np.sum(jax.vjp(g, x)[1](ct)[0] * v), np.sum(ct * numeric(g, x, v)), rtol=1e-6, atol=1e-8)
    uneven = [[0], [1, 2, 3], [4, 5]]
    sizes = np.array([1, 3, 3, 3, 2, 2])
    np.testing.assert_array_equal(mapped(lambda y: lax.psum(1, "i", axis_index_groups=uneven)), sizes)
    got = mapped(lambda y: lax.pmean(y, "i", axis_index_groups=uneven))
    np.testing.assert_allclose(got, np.stack([x[next(g for g in uneven if k in g)].mean(0) for k in range(6)]), rtol=1e-12)
    assert lax.psum(1, (), axis_index_groups=None) == 1


def test_several_axes() -> None:
    x = RNG.normal(size=(2, 3, 6))
    flat = x.reshape(6, 6)
    turn = [(k, (k + 2) % 6) for k in range(6)]
    cases: list[tuple[Callable[[Any], Any], np.ndarray]] = [
        (lambda y: lax.ppermute(y, ("i", "j"), turn), np.roll(flat, 2, 0)),
        (lambda y: lax.ppermute(y, ("i", "j"), [(0, 5), (3, 1)]), np.stack([0 * flat[0], flat[3], *[0 * flat[0]] * 3, flat[0]])),
        (lambda y: lax.pshuffle(y, ("i", "j"), [3, 0, 1, 2, 5, 4]), flat[[3, 0, 1, 2, 5, 4]]),
        (lambda y: lax.psum_scatter(y, ("i", "j")), flat.sum(0)),
        (lambda y: lax.psum_scatter(y, ("i", "j"), tiled=True), flat.sum(0)[:, None]),
        (lambda y: lax.all_to_all(y, ("i", "j"), 0, 0), flat.T),
        (lambda y: lax.pswapaxes(y, ("i", "j"), 0), flat.T),
        (lambda y: lax.all_to_all(y, ("i", "j"), 0, 0, tiled=True), flat.T),
        (lambda y: lax.psum(y, ("i", "j"), axis_index_groups=GROUPS), flat[[0, 1, 2, 0, 2, 1]] + flat[[3, 5, 4, 3, 4, 5]]),
    ]
    for f, want in cases:
        np.testing.assert_allclose(over(f, x), want.reshape(2, 3, *want.shape[1:]), rtol=1e-12)
        g = lambda x, f=f: over(f, x)  # noqa: E731
        v, ct = RNG.normal(size=x.shape), RNG.normal(size=(2, 3, *want.shape[1:]))
        np.testing.assert_allclose(np.sum(jax.vjp(g, x)[1](ct)[0] * v), np.sum(ct * jax.jvp(g, (x,), (v,))[1]), rtol=1e-9)
    with pytest.raises(ValueError, match="all_to_all: the size of axis 0, 6"):
        over(lambda y: lax.all_to_all(y, ("j",), 0, 0, axis_index_groups=[[0, 1, 2]]), x)


def test_sum_match() -> None:
    x = RNG.normal(size=(3, 2))
    f = lambda x, y: (2 * x, y * 3, {"sum": x * y})  # noqa: E731
    out = jax.vmap(f, (0, None), (0, None, None), sum_match=True)(x, 5.0)
    np.testing.assert_allclose(out[0], 2 * x)
    assert float(out[1]) == 15
    np.testing.assert_allclose(out[2]["sum"], 5 * x.sum(0))
    # it is the transpose of a repeated argument
    np.testing.assert_allclose(jax.grad(lambda x: jax.vmap(lambda x: x * x, out_axes=None, sum_match=True)(x).sum())(x), 2 * x)
    with pytest.raises(ValueError, match="out_axes is None"):
        jax.vmap(lambda x: x, out_axes=None)(x)


def test_saveable_args() -> None:
    f = lambda d, y: jnp.sin(d["a"]) * y * d["b"]  # noqa: E731
    d, y = {"a": jnp.float32(2), "b": jnp.float32(5)}, jnp.float32(3)
    want = jax.vjp(f, d, y)[1](jnp.float32(1))
    for wanted in (False, ({"a": True, "b": False}, True), ((True, False), False)):
        out, pull = jax.vjp(f, d, y, saveable_args=wanted)
        assert out == f(d, y)
        assert repr(pull.args_res[0]["b"]) == "NotSaveable()" and repr(pull.args_res[0]["a"]) == "NotNeeded()"
        if wanted is not False and wanted[1]:
            assert float(pull.args_res[1]) == 3
        with pytest.raises(ValueError, match="before its arguments were restored"):
            pull(jnp.float32(1))
        pull.args_res = [d, y]
        for a, b in zip(jax.tree.leaves(pull(jnp.float32(1))), jax.tree.leaves(want), strict=True):
            assert float(a) == float(b)
    # through jit, with values put back one by one
    pull = jax.jit(lambda d, y: jax.vjp(f, d, y, saveable_args=(True, False))[1])(d, y)
    pull.args_res[1] = y
    assert float(pull(jnp.float32(1))[1]) == float(want[1])
    assert len(jax.tree.leaves(jax.vjp(f, d, y, saveable_args=False)[1])) < len(jax.tree.leaves(jax.vjp(f, d, y)[1]))
    _, pull = jax.vjp(f, d, y)
    with pytest.raises(ValueError, match="argument number 2 was of type"):
        pull.args_res[1] = jnp.ones(2)
        pull(jnp.float32(1))
    with pytest.raises(ValueError, match="1 children where the arguments have 2"):
        jax.vjp(f, d, y, saveable_args=(True,))
    with pytest.raises(ValueError, match="tree of bools"):
        jax.vjp(f, d, y, saveable_args=3)
