"""scipy.optimize and scipy.sparse.linalg: solutions, derivatives, and the steps of the real JAX."""

from __future__ import annotations

import numpy as np
import pytest
from peer import NO_JAX, Arr, Expr, Ref, differences, peer, run_here

import steno
from steno import numpy as jnp
from steno.scipy import optimize, sparse

LBFGS = "l-bfgs-experimental-do-not-rely-on-this"
METHODS = ("BFGS", LBFGS)


def rosenbrock(x):
    return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("x64", [False, True])
def test_minima(method, x64):
    with steno.enable_x64(x64):
        start = jnp.array([-1.2, 1.0, 0.5])
        found = steno.jit(lambda x: optimize.minimize(rosenbrock, x, method=method, tol=1e-6 if x64 else 1e-3))(start)
        assert found.success and found.status == 0 and found.x.dtype == start.dtype
        np.testing.assert_allclose(found.x, 1, atol=1e-6 if x64 else 1e-3)
        np.testing.assert_allclose(found.jac, steno.grad(rosenbrock)(found.x), atol=1e-3)
        assert found.nfev == found.njev >= found.nit


@pytest.mark.skipif(peer() is None, reason=NO_JAX)
def test_bfgs_goes_jax_s_way():
    # the same points, as long as rounding does not tell one way from the other
    source = (
        "list(minimize(lambda x: jnp.sum(100.0 * jnp.diff(x) ** 2 + (1.0 - x[:-1]) ** 2), x, method='BFGS', options=dict(maxiter=2))[:3])"
    )
    values = {"minimize": Ref("jax.scipy.optimize.minimize"), "x": Arr(np.array([0.3, -0.4, 2.0], np.float32))}
    call = Expr(source, **values)
    (got,), (want,) = run_here([call]), peer().batch([call])
    assert not differences(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_badly_scaled_functions(method):
    found = optimize.minimize(lambda x: jnp.mean((1e4 * x) ** 2), jnp.ones(2), method=method)
    np.testing.assert_allclose(found.x, 0, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_what_has_no_minimum_ends(method):
    start = jnp.array([-1.0, 1.0])
    found = optimize.minimize(lambda x: -x.sum(), start, method=method)
    assert not found.success and found.status == 5
    np.testing.assert_array_equal(found.x, start)
    found = optimize.minimize(lambda x: jnp.log(x).sum(), start, method=method)
    assert not found.success and found.status == 5 and jnp.isnan(found.fun)


def test_options_end_the_search():
    start = jnp.array([-1.2, 1.0, 0.5])
    codes = {"maxiter": 1, "maxfun": 2, "maxgrad": 3}
    for option, code in codes.items():
        assert optimize.minimize(rosenbrock, start, method=LBFGS, options={option: 2}).status == code
    assert optimize.minimize(rosenbrock, start, method="BFGS", options={"maxiter": 2}).nit == 2


@pytest.mark.parametrize("method", METHODS)
def test_complex_variables(method):
    z0 = jnp.array([1.0, 2.0 - 3.0j])
    found = optimize.minimize(lambda z: jnp.sum(jnp.abs(z - z0) ** 2), jnp.zeros_like(z0), method=method)
    np.testing.assert_allclose(found.x, z0, atol=1e-5)
    np.testing.assert_allclose(found.jac, 0, atol=1e-5)


def test_minima_in_batches_and_their_derivatives():
    def at(a):
        return optimize.minimize(lambda x, a: jnp.sum((x - a) ** 4 + (x - a) ** 2), jnp.zeros(1), (a,), method="BFGS").x[0]

    np.testing.assert_allclose(steno.vmap(at)(jnp.array([0.5, -2.0])), [0.5, -2.0], atol=1e-4)
    np.testing.assert_allclose(steno.jvp(at, (0.5,), (1.0,))[1], 1.0, atol=1e-2)


# linear systems

rng = np.random.default_rng(1)
SOLVERS = ("cg", "bicgstab", "gmres")
GENERAL = rng.standard_normal((4, 4)) * 0.3 + 2 * np.eye(4)
SYSTEMS = {  # a matrix each method is for
    "cg": GENERAL @ GENERAL.T,
    "bicgstab": GENERAL,
    "gmres": GENERAL,
}
B = rng.standard_normal(4)


def solver(name, **kwargs):
    return lambda a, b: getattr(sparse.linalg, name)(a, b, tol=1e-6, **kwargs)[0]


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("complex_", [False, True])
def test_solutions_and_their_derivatives(name, complex_):
    a, b = jnp.asarray(SYSTEMS[name], jnp.float32), jnp.asarray(B, jnp.float32)
    if complex_:
        skew = 0.3j * jnp.triu(a, 1)
        a, b = a + skew - skew.T, b + 1j * b[::-1]  # Hermitian if a was
    solve = solver(name)
    np.testing.assert_allclose(solve(a, b), jnp.linalg.solve(a, b), atol=2e-5)

    def size(solve):
        return lambda a, b: jnp.sum(jnp.abs(solve((a + a.T.conj()) / 2 if name == "cg" else a, b)) ** 2)

    for k in (0, 1):
        got, want = (steno.grad(size(f), k)(a, b) for f in (solve, jnp.linalg.solve))
        np.testing.assert_allclose(got, want, atol=2e-4)


@pytest.mark.parametrize("name", SOLVERS)
def test_operators_trees_and_preconditioners(name):
    def multiply(x):
        return {"a": x["a"] + 0.5 * x["b"], "b": 0.5 * x["a"] + x["b"]}

    x, _ = getattr(sparse.linalg, name)(multiply, {"a": 1.0, "b": -4.0})
    np.testing.assert_allclose([x["a"], x["b"]], [4.0, -6.0], rtol=1e-4)
    assert x["a"].weak_type
    a = jnp.asarray(SYSTEMS[name], jnp.float32)
    exact = solver(name, M=jnp.linalg.inv(a), maxiter=1)(a, jnp.asarray(B, jnp.float32))
    np.testing.assert_allclose(exact, jnp.linalg.solve(a, B.astype(np.float32)), atol=1e-4)


@pytest.mark.parametrize("name", SOLVERS)
def test_a_solution_is_its_own_beginning(name):
    a, b = SYSTEMS[name].astype(np.float32), B.astype(np.float32)
    x = jnp.linalg.solve(a, b)
    np.testing.assert_array_equal(getattr(sparse.linalg, name)(a, b, x0=x)[0], x)
    np.testing.assert_array_equal(getattr(sparse.linalg, name)(a, np.zeros_like(b))[0], np.zeros_like(b))


@pytest.mark.parametrize("method", ["batched", "incremental"])
def test_gmres_begins_again(method):
    a, b = jnp.asarray(GENERAL, jnp.float32), jnp.asarray(B, jnp.float32)
    x, info = sparse.linalg.gmres(a, b, restart=2, tol=1e-6, solve_method=method)
    assert info == 0
    np.testing.assert_allclose(x, jnp.linalg.solve(a, b), atol=1e-4)
    # a space that cannot grow: b is an eigenvector
    np.testing.assert_allclose(sparse.linalg.gmres(2 * jnp.eye(4), b, solve_method=method)[0], b / 2, rtol=1e-5)


def test_linear_solutions_in_batches():
    a = jnp.asarray(SYSTEMS["cg"], jnp.float32)
    got = steno.vmap(lambda b: solver("cg")(a, b))(jnp.eye(4))
    np.testing.assert_allclose(got, jnp.linalg.inv(a), atol=1e-4)


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (ValueError, lambda: optimize.minimize(rosenbrock, jnp.ones(2), method="CG")),
        (TypeError, lambda: optimize.minimize(rosenbrock, jnp.ones(2), 3.0, method="BFGS")),
        (TypeError, lambda: optimize.minimize(rosenbrock, jnp.ones(2), method="BFGS", options={"depth": 1})),
        (TypeError, lambda: optimize.minimize(rosenbrock, jnp.ones(2, int), method="BFGS")),
        (ValueError, lambda: optimize.minimize(rosenbrock, jnp.ones((2, 2)), method="BFGS")),
        (ValueError, lambda: sparse.linalg.cg(jnp.ones((2, 3)), jnp.ones(2))),
        (TypeError, lambda: sparse.linalg.cg([[1.0]], jnp.ones(1))),
        (TypeError, lambda: sparse.linalg.gmres(jnp.eye(2), jnp.ones(2), M=[1])),
        (ValueError, lambda: sparse.linalg.bicgstab(jnp.eye(2), jnp.ones(2), x0=jnp.ones(3))),
        (ValueError, lambda: sparse.linalg.cg(lambda x: x, {"a": 1.0}, x0={"b": 1.0})),
        (ValueError, lambda: sparse.linalg.gmres(jnp.eye(2), jnp.ones(2), solve_method="fast")),
    ],
)
def test_errors(error, call):
    with pytest.raises(error):
        call()
