"""`scipy.stats`: distributions against SciPy, derivatives against differences, statistics of samples and densities against the real JAX."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest
import scipy.stats as ss
from peer import NO_JAX, Arr, Expr, compare_all, peer
from scipy_samples import uniform, whole, worst

import steno
from steno import numpy as jnp, random
from steno.scipy import stats

pytestmark = pytest.mark.usefixtures("x64")

# the distributions' shapes
SHAPES: dict[str, tuple[np.ndarray, ...]] = {
    **dict.fromkeys(["norm", "cauchy", "expon", "gumbel_l", "gumbel_r", "laplace", "logistic", "uniform"], ()),
    "beta": (uniform(0.3, 9, 1), uniform(0.3, 9, 2)),
    "gamma": (uniform(0.1, 30, 1),),
    "chi2": (uniform(0.1, 30, 1),),
    "pareto": (uniform(0.1, 9, 1),),
    "t": (uniform(0.1, 30, 1),),
    "gennorm": (uniform(0.3, 5, 1),),
    "vonmises": (uniform(0.1, 30, 1),),
    "wrapcauchy": (uniform(0.01, 0.99, 1),),
    "truncnorm": (uniform(-3, -1, 1), uniform(0.5, 3, 2)),
    "betabinom": (whole(1, 30, 1), uniform(0.3, 9, 2), uniform(0.3, 9, 3)),
    "binom": (whole(1, 30, 1), uniform(0, 1, 2)),
    "nbinom": (whole(1, 30, 1), uniform(0, 1, 2)),
    "geom": (uniform(0, 1, 1),),
    "poisson": (uniform(0.1, 30, 1),),
    "bernoulli": (uniform(0, 1, 1),),
}
DISCRETE = {"betabinom", "binom", "nbinom", "geom", "poisson", "bernoulli"}


def arguments(name: str, function: str) -> list[np.ndarray]:
    names = list(inspect.signature(getattr(getattr(stats, name), function)).parameters)
    if function == "entropy":
        x = []
    elif function in ("ppf", "isf"):
        x = [uniform(0, 1, 5)]
    elif name in DISCRETE:
        x = [whole(-1, 20, 5)]
    else:
        x = [uniform(-1, 7, 5) if name == "wrapcauchy" else uniform(-4, 6, 5)]
    moved = [uniform(-1, 1, 6), uniform(0.5, 2, 7)] if "loc" in names and name not in DISCRETE else []
    return [*x, *SHAPES[name], *moved]


@pytest.mark.parametrize("name", SHAPES)
def test_distributions(name: str):
    """All functions of a distribution in one program."""
    ours, theirs = getattr(stats, name), getattr(ss, name)
    functions = ours.__all__
    compiled = steno.jit(lambda args: {f: getattr(ours, f)(*xs) for f, xs in args.items()})
    args = {f: arguments(name, f) for f in functions}
    narrow = {f: [x.astype(np.float32) for x in xs] for f, xs in args.items()}
    wide, single = compiled(args), compiled(narrow)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for f in functions:
            assert worst(wide[f], getattr(theirs, f)(*args[f]), 1e-3) < 1e-11, f
            exact = getattr(theirs, f)(*(x.astype(np.float64) for x in narrow[f]))
            assert single[f].dtype == np.float32
            inside = (np.abs(exact) > 1.2e-38) | (exact == 0)
            assert worst(single[f][inside], exact[inside], 1e-10) <= 4 * 2.0**-23, f


def test_names():
    for name in SHAPES:
        module = getattr(stats, name)
        for f in module.__all__:
            function = getattr(module, f)
            assert function.__name__ == f and function.__module__ == module.__name__ and function.__doc__, (name, f)
    with pytest.raises(ValueError, match="gumbel_l.sf"):
        stats.gumbel_l.sf(1j)


@pytest.mark.parametrize("name", sorted(set(SHAPES) - DISCRETE - {"uniform"}))
def test_derivatives(name: str):
    """By every operand, and the differences, in one program."""
    f, h = getattr(stats, name).logpdf, 1e-6
    shapes = [float(np.mean(s)) for s in SHAPES[name]]
    point = np.array([{"beta": 0.4, "truncnorm": 0.3, "pareto": 1.7}.get(name, 0.7), *shapes])
    steps = h * np.eye(len(point))
    slopes, high, low = steno.jit(lambda p: (steno.grad(lambda v: f(*v))(p), f(*(p + steps).T), f(*(p - steps).T)))(point)
    np.testing.assert_allclose(slopes, (high - low) / (2 * h), rtol=0, atol=1e-6)


def test_tails():
    assert stats.norm.sf(30.0) == pytest.approx(ss.norm.sf(30.0), rel=1e-12)
    assert stats.norm.logcdf(-300.0) == pytest.approx(ss.norm.logcdf(-300.0), rel=1e-13)
    assert stats.gumbel_r.logsf(-5.0) == pytest.approx(ss.gumbel_r.logsf(-5.0), rel=1e-12)
    assert stats.truncnorm.logpdf(21.0, 20.0, 25.0) == pytest.approx(ss.truncnorm.logpdf(21.0, 20.0, 25.0), rel=1e-11)
    assert stats.expon.logcdf(1e-20) == pytest.approx(np.log(1e-20))
    assert stats.poisson.entropy(200.0) == pytest.approx(ss.poisson.entropy(200.0), rel=1e-8)
    assert np.isnan(stats.truncnorm.pdf(0.0, 1.0, -1.0)) and stats.beta.logpdf(-1.0, 2.0, 2.0) == -np.inf


def test_vectors():
    x = np.random.default_rng(0).normal(size=(5, 3))
    a = np.random.default_rng(1).normal(size=(3, 3))
    cov, mean = a @ a.T + np.eye(3), np.arange(3.0)
    np.testing.assert_allclose(stats.multivariate_normal.logpdf(x, mean, cov), ss.multivariate_normal.logpdf(x, mean, cov), rtol=1e-12)
    batched = stats.multivariate_normal.pdf(x, mean, np.broadcast_to(cov, (5, 3, 3)))
    np.testing.assert_allclose(batched, ss.multivariate_normal.pdf(x, mean, cov), rtol=1e-12)
    p = np.array([0.2, 0.3, 0.5])
    np.testing.assert_allclose(stats.dirichlet.logpdf(p, np.array([1.0, 2, 3])), ss.dirichlet.logpdf(p, [1.0, 2, 3]), rtol=1e-13)
    np.testing.assert_allclose(stats.dirichlet.pdf(p[:2], np.array([1.0, 2, 3])), ss.dirichlet.pdf(p, [1.0, 2, 3]), rtol=1e-13)
    assert stats.dirichlet.logpdf(p * 2, np.array([1.0, 2, 3])) == -np.inf
    counts = np.array([[1, 2, 3], [0, 0, 6], [1, 1, 1]])
    np.testing.assert_allclose(stats.multinomial.logpmf(counts, 6, p), ss.multinomial.logpmf(counts, 6, p), rtol=1e-13)
    with pytest.raises(ValueError, match="incompatible shapes"):
        stats.multivariate_normal.logpdf(x, mean, np.ones((2, 2)))
    with pytest.raises(NotImplementedError, match="allow_singular"):
        stats.multivariate_normal.logpdf(x, mean, cov, allow_singular=True)
    with pytest.raises(ValueError, match="one-dimensional"):
        stats.dirichlet.logpdf(p, np.ones((3, 3)))
    with pytest.raises(ValueError, match="number of entries"):
        stats.dirichlet.logpdf(p, np.ones(5))


def test_samples():
    x = np.array([[3.0, 1, 3, 2], [1, 1, 2, 2]])
    for method in ("average", "min", "max", "dense", "ordinal"):
        for axis in (None, 0, 1):
            np.testing.assert_array_equal(stats.rankdata(x, method, axis=axis), ss.rankdata(x, method, axis=axis))
    assert np.isnan(stats.rankdata(np.array([1.0, np.nan]))).all()
    for axis in (None, 0, 1):
        for keepdims in (False, True):
            got, want = stats.mode(x, axis, keepdims=keepdims), ss.mode(x, axis, keepdims=keepdims)
            np.testing.assert_array_equal(got.mode, want.mode)
            np.testing.assert_array_equal(got.count, want.count)
        np.testing.assert_allclose(stats.sem(x, axis), ss.sem(x, axis))
    gap = np.array([3, 1, np.nan, 2])
    np.testing.assert_allclose(stats.sem(gap, nan_policy="omit"), ss.sem(gap, nan_policy="omit"))
    for call, error in (
        (lambda: stats.mode(x, nan_policy="omit"), NotImplementedError),
        (lambda: stats.mode(x, nan_policy="none"), ValueError),
        (lambda: stats.rankdata(x, "none"), ValueError),
        (lambda: stats.rankdata(x, nan_policy="omit"), NotImplementedError),
        (lambda: stats.sem(x, nan_policy="raise"), ValueError),
    ):
        with pytest.raises(error):
            call()


@pytest.mark.parametrize("d", [1, 2])
def test_gaussian_kde(d: int):
    data, weights = np.random.default_rng(0).normal(size=(d, 30)), uniform(0.1, 1)[:30]
    points = np.random.default_rng(1).normal(size=(d, 7))
    for options in ({}, {"bw_method": "silverman"}, {"bw_method": 0.4}, {"weights": weights}, {"bw_method": lambda k: 0.3}):
        got, want = stats.gaussian_kde(data, **options), ss.gaussian_kde(data, **options)
        np.testing.assert_allclose(got(points), want(points), rtol=1e-10)
        np.testing.assert_allclose(got.logpdf(points), want.logpdf(points), rtol=1e-10)
        np.testing.assert_allclose(got.covariance, want.covariance, rtol=1e-10)
        mean, cov = np.zeros(d), np.eye(d)
        np.testing.assert_allclose(got.integrate_gaussian(mean, cov), want.integrate_gaussian(mean, cov), rtol=1e-10)
        np.testing.assert_allclose(got.integrate_kde(got), want.integrate_kde(want), rtol=1e-10)
        if d == 1:
            np.testing.assert_allclose(got.integrate_box_1d(-1.0, 0.5), want.integrate_box_1d(-1.0, 0.5), rtol=1e-10)
    assert (got.d, got.n) == (d, 30)
    assert got.resample(random.key(0), (4,)).shape == (d, 4)
    np.testing.assert_allclose(steno.jit(lambda k, x: k.pdf(x))(got, points), got(points), rtol=1e-12)
    for call, error in (
        (lambda: stats.gaussian_kde(np.zeros(1)), ValueError),
        (lambda: stats.gaussian_kde(data, "none"), ValueError),
        (lambda: stats.gaussian_kde(data, weights=np.ones(3)), ValueError),
        (lambda: stats.gaussian_kde(data + 1j), NotImplementedError),
        (lambda: got.evaluate(np.zeros((5, 3))), ValueError),
        (lambda: got.integrate_box(0, 1), NotImplementedError),
        (lambda: got.set_bandwidth(1.0), NotImplementedError),
    ):
        with pytest.raises(error):
            call()


def test_types():
    with steno.enable_x64(False):
        assert stats.norm.logpdf(1).weak_type and not stats.norm.logpdf(jnp.float32(1)).weak_type
        assert stats.norm.cdf(jnp.arange(3)).dtype == np.float32
        assert stats.norm.logpdf(jnp.float16(1)).dtype == np.float16
        assert stats.norm.logpdf(jnp.zeros((2, 1)), jnp.zeros(3)).shape == (2, 3)
        assert stats.rankdata(jnp.array([3, 1, 3, 2])).dtype == np.float32


@pytest.mark.skipif(peer() is None, reason=NO_JAX)
def test_against_jax():
    x, k = Arr(np.linspace(0.1, 0.9, 7)), Arr(np.arange(7))
    sources = [f"T.{n}.logpdf(x)" for n in ("norm", "cauchy", "expon", "gumbel_l", "gumbel_r", "laplace", "logistic", "uniform")]
    sources += [f"T.{n}.logpdf(x, 2.5)" for n in ("gamma", "chi2", "pareto", "t", "gennorm", "vonmises")]
    sources += ["T.beta.cdf(x, 2.0, 3.0)", "T.truncnorm.logcdf(x, -1.0, 2.0)", "T.wrapcauchy.pdf(x, 0.3)"]
    sources += ["T.norm.cdf(k)", "T.poisson.cdf(k, 2.0)"]
    sources += ["T.binom.logpmf(k, 6, 0.3)", "T.nbinom.pmf(k, 6, 0.3)", "T.geom.pmf(k, 0.3)", "T.betabinom.pmf(k, 6, 2.0, 3.0)"]
    sources += [
        "T.bernoulli.ppf(x, 0.4)",
        "T.bernoulli.cdf(k, 0.4)",
        "tuple(T.mode(k))",
        "T.rankdata(x)",
        "T.rankdata(k, 'min')",
        "T.sem(x)",
    ]
    sources += ["T.gaussian_kde(x).evaluate(x)", "T.gaussian_kde(x).resample(jax.random.key(0), (3,))"]
    sources += ["T.multivariate_normal.logpdf(x, 0.0, 2.0)", "T.multivariate_normal.pdf(x, jnp.zeros(7), 2.0)"]
    variables = {"x": x, "k": k}
    calls = [Expr(s.replace("T.", "jax.scipy.stats."), x64=True, **{n: v for n, v in variables.items() if f"{n}" in s}) for s in sources]
    compare_all(calls, rtol=1e-6, atol=1e-7, weak=False)
