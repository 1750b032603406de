"""`scipy.special`: values against SciPy and multiple precision, derivatives against differences, special values, types and errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special as sp
from peer import NO_JAX, Arr, Expr, compare_all, peer

import steno
from steno import lax, numpy as jnp
from steno.scipy import special

SIZE = 400


@pytest.fixture(autouse=True)
def _x64() -> Iterator[None]:
    with steno.enable_x64(True):
        yield


def uniform(low: float, high: float, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, 7]).uniform(low, high, SIZE)


def decades(low: float, high: float, seed: int = 0) -> np.ndarray:
    return 10 ** uniform(low, high, seed)


def whole(low: int, high: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, 8]).integers(low, high, SIZE).astype(float)


def worst(got: Any, want: Any, floor: float) -> float:
    """The greatest error relative to the value, or to `floor` where that is greater; equal infinities and NaNs are right."""
    got, want = np.asarray(got), np.asarray(want)
    with np.errstate(all="ignore"):
        error = np.abs(got - want) / np.maximum(np.abs(want), floor)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    return float(np.max(np.where(same, 0, np.where(np.isnan(error), np.inf, error)), initial=0))


# name: the arguments, the bound on the relative error in float64, and the size below which errors are absolute
VALUES = {
    "gamma": ((uniform(-20, 170),), 1e-14, 0),
    "gammaln": ((uniform(-20, 170),), 1e-13, 1e-2),
    "gammasgn": ((uniform(-20, 20),), 0, 0),
    "digamma": ((uniform(0.1, 170),), 1e-14, 1),
    "betaln": ((decades(-3, 3), decades(-3, 3, 1)), 1e-11, 0.1),
    "beta": ((decades(-2, 1.5), decades(-2, 1.5, 1)), 1e-13, 0),
    "gammainc": ((decades(-2, 1.5), decades(-2, 1.5, 1)), 1e-12, 1e-30),
    "gammaincc": ((decades(-2, 1.5), decades(-2, 1.5, 1)), 1e-12, 1e-30),
    "betainc": ((decades(-1, 2), decades(-1, 2, 1), uniform(0, 1, 2)), 1e-12, 1e-3),
    "factorial": ((np.arange(-3, 170.0),), 1e-14, 0),
    "comb": ((whole(20, 60), whole(0, 30, 1)), 1e-14, 0),
    "poch": ((uniform(0.1, 30), uniform(-0.1, 6, 1)), 1e-12, 0),
    "zeta": ((uniform(1.1, 20), uniform(0.1, 20, 1)), 1e-13, 0),
    "erfcx": ((uniform(-25, 50),), 1e-13, 0),
    "erfc": ((uniform(-5, 25),), 1e-13, 0),
    "erfcinv": ((decades(-300, 0),), 1e-14, 1),
    "ndtr": ((uniform(-30, 30),), 1e-12, 0),
    "ndtri": ((uniform(0, 1) ** 4,), 1e-14, 1),
    "log_ndtr": ((uniform(-30, 20),), 1e-12, 0),
    "dawsn": ((uniform(-30, 30),), 1e-14, 0),
    "owens_t": ((uniform(-4, 4), uniform(-6, 6, 1)), 1e-12, 1e-6),
    "exp1": ((decades(-3, 2.5),), 1e-13, 0),
    "expi": ((np.concatenate([decades(0, 2.5), -decades(-3, 2.5)]),), 1e-13, 0),
    "expn": ((whole(0, 30), decades(-2, 2, 1)), 1e-13, 0),
    "spence": ((decades(-3, 3),), 1e-13, 0.1),
    "hyp1f1": ((uniform(0.1, 8), uniform(0.3, 8, 1), uniform(-15, 20, 2)), 1e-11, 1e-2),
    "hyp2f1": ((uniform(0.1, 4), uniform(0.1, 4, 1), uniform(1, 9, 2), uniform(-3, 0.9, 3)), 1e-11, 1e-2),
    "i0": ((uniform(-20, 20),), 1e-14, 0),
    "i1": ((uniform(-20, 20),), 1e-14, 0),
    "i0e": ((uniform(-20, 20),), 1e-14, 0),
    "i1e": ((uniform(-20, 20),), 1e-14, 0),
    "logit": ((uniform(0, 1),), 1e-14, 0),
    "expit": ((uniform(-40, 40),), 1e-14, 0),
    "boxcox": ((decades(-2, 2), uniform(-3, 3, 1)), 1e-12, 0),
    "boxcox1p": ((decades(-2, 2), uniform(-3, 3, 1)), 1e-12, 0),
    "entr": ((uniform(-1, 5),), 1e-14, 1e-2),
    "rel_entr": ((uniform(-1, 5), uniform(-1, 5, 1)), 1e-13, 1e-1),
    "kl_div": ((uniform(-1, 5), uniform(-1, 5, 1)), 1e-13, 1),
    "xlogy": ((uniform(-1, 5), uniform(0, 5, 1)), 1e-14, 1e-2),
    "xlog1py": ((uniform(-1, 5), uniform(-1, 5, 1)), 1e-14, 1e-2),
}
# their float32 results come from float32, not from rounding
SINGLE = {"gammaln", "digamma", "zeta", "erfc", "i0e", "i1e", "expit", "entr", "xlogy", "xlog1py"}


@pytest.mark.parametrize("name", VALUES)
def test_values(name: str):
    xs, bound, floor = VALUES[name]
    function, want = getattr(special, name), getattr(sp, name)
    assert worst(function(*xs), want(*xs), floor) <= bound
    xs = [x.astype(np.float32) for x in xs]
    got, exact = function(*xs), want(*(x.astype(np.float64) for x in xs))
    assert got.dtype == np.float32
    inside = (np.abs(exact) > 1.2e-38) & (np.abs(exact) < 3.4e38)
    assert worst(got[inside], exact[inside], floor if name in SINGLE else 0) <= 4 * 2.0**-23


def test_incomplete_functions_in_multiple_precision():
    with mpmath.workdps(50):
        a = np.concatenate([decades(-2, 3)[:25], decades(2, 3.3)[:25]])
        x = np.concatenate([decades(-2, 2, 1)[:25], a[25:] * uniform(0.6, 1.5)[:25]])
        for function, ends in ((lax.igamma, (0, None)), (lax.igammac, (None, mpmath.inf))):
            got = np.asarray(function(a, x))
            for k, (p, v) in enumerate(zip(a.tolist(), x.tolist(), strict=True)):
                want = mpmath.gammainc(p, 0, v, regularized=True) if ends[1] is None else mpmath.gammainc(p, v, regularized=True)
                if want > 1e-290:
                    assert abs(got[k] / want - 1) < 2e-13, (function.__name__, p, v)
        b = decades(-2, 2.3, 3)[:50]
        a = np.minimum(a, 300)
        u = np.clip(a / (a + b) * (1 + 0.1 * uniform(-3, 3, 4)[:50]), 1e-6, 0.9999)
        got = np.asarray(lax.betainc(a, b, u))
        for k, (p, q, v) in enumerate(zip(a.tolist(), b.tolist(), u.tolist(), strict=True)):
            want = mpmath.betainc(p, q, 0, v, regularized=True)
            if want > 1e-100:
                assert abs(got[k] / want - 1) < 2e-12, (p, q, v)


def test_functions_of_complex_numbers_and_pairs():
    z = uniform(-8, 8) + 1j * uniform(-5, 8, 1)
    assert worst(special.wofz(z), sp.wofz(z), 0) < 1e-13
    assert worst(special.loggamma(z), sp.loggamma(z), 0.1) < 1e-12
    assert worst(special.gamma(z), sp.gamma(z), 0) < 1e-11
    assert worst(special.erfcx(z), sp.erfcx(z), 0) < 1e-12
    assert special.wofz(z.astype(np.complex64)).dtype == np.complex64
    x = uniform(-10, 10)
    for got, want in zip(special.fresnel(x), sp.fresnel(x), strict=True):
        assert worst(got, want, 0) < 1e-13
    x = decades(-3, 3)
    for got, want in zip(special.sici(x), sp.sici(x), strict=True):
        assert worst(got, want, 1e-2) < 1e-13
    x = uniform(-20, 20)
    got = special.bessel_jn(x, v=4)
    assert got.shape == (5, SIZE) and worst(got, np.stack([sp.jv(k, x) for k in range(5)]), 1e-2) < 1e-12
    n, m = whole(0, 10), np.trunc(uniform(-1, 1, 2) * 6)
    n = np.maximum(n, np.abs(m)).astype(int)
    got = special.sph_harm_y(n, m.astype(int), uniform(0, 3), uniform(0, 6, 1))
    assert worst(got, sp.sph_harm_y(n, m.astype(int), uniform(0, 3), uniform(0, 6, 1)), 0.1) < 1e-13


def test_bernoulli_numbers():
    assert worst(special.bernoulli(40), [float(mpmath.bernoulli(n)) if n != 1 else -0.5 for n in range(41)], 0) < 1e-15
    assert special.bernoulli(0).tolist() == [1.0]
    with pytest.raises(ValueError, match="non-negative"):
        special.bernoulli(-1)


POINTS = {
    "gamma": (2.5,), "gammaln": (2.5,), "digamma": (2.5,), "betaln": (2.0, 3.0), "beta": (2.0, 3.5), "gammainc": (2.0, 3.0),
    "gammaincc": (2.5, 3.0), "betainc": (2.0, 3.0, 0.4), "factorial": (2.2,), "comb": (5.5, 2.2), "poch": (2.0, 1.5), "erfcx": (0.7,),
    "erfcinv": (0.3,),
    "ndtr": (0.3,), "ndtri": (0.2,), "log_ndtr": (-3.0,), "dawsn": (0.7,), "owens_t": (1.0, 0.7), "exp1": (1.3,), "expi": (-1.3,),
    "spence": (1.7,),
    "hyp1f1": (1.0, 2.0, 0.5), "hyp2f1": (1.0, 2.0, 3.0, 0.4), "i0": (1.2,), "i1": (1.2,), "logit": (0.2,), "boxcox": (2.0, 0.5),
    "boxcox1p": (2.0, 0.001), "entr": (0.3,), "rel_entr": (1.0, 2.0), "kl_div": (1.0, 2.0), "xlogy": (2.0, 3.0), "xlog1py": (2.0, 3.0),
}  # fmt: skip


@pytest.mark.parametrize("name", POINTS)
def test_derivatives(name: str):
    f, point, h = getattr(special, name), POINTS[name], 1e-5
    for k in range(len(point)):
        at = [np.array([point[i] - h, point[i] + h]) if i == k else np.full(2, point[i]) for i in range(len(point))]
        low, high = np.asarray(f(*at)).tolist()
        assert abs(steno.grad(f, k)(*point) - (high - low) / (2 * h)) < 1e-7


def test_derivatives_at_ends_and_of_higher_order():
    assert steno.grad(special.entr)(0.0) == np.inf
    assert steno.grad(special.expn, 1)(2, 1.0) == pytest.approx(-sp.exp1(1.0))
    assert steno.hessian(lambda x: special.gammainc(2.0, x))(3.0) == pytest.approx(-2 * np.exp(-3.0))
    assert steno.grad(special.i1)(0.0) == 0.5
    got = steno.grad(lambda z: special.sici(z)[0])(2.0), steno.grad(lambda z: special.fresnel(z)[1])(0.5)
    assert got == (pytest.approx(np.sin(2) / 2), pytest.approx(np.cos(np.pi / 8)))
    for f in (
        lambda b: special.betainc(2.0, b, 0.4),
        lambda a: special.hyp1f1(a - 5, 2.0, 0.5),
        lambda a: special.hyp2f1(a - 5, 0.7, 2.0, 0.5),
    ):
        h = 1e-5
        assert steno.grad(f)(3.0) == pytest.approx(float((f(3 + h) - f(3 - h)) / (2 * h)), rel=1e-7)
    with pytest.raises(NotImplementedError, match="by the order"):
        steno.grad(special.expn)(2.0, 1.0)


def test_special_values():
    inf, nan = np.inf, np.nan
    shapes, ends = np.array([0.0, 0, 1, -1, 1, inf, 1, inf]), np.array([0.0, 1, 0, 1, -1, 1, inf, inf])
    a, b = np.array([0.0, 1, 0, -1, 1, 1, inf, 1, 2, 2]), np.array([1.0, 0, 0, 1, 1, 1, 1, inf, 1, 1])
    cases = [
        (special.gamma(np.array([0.0, -0.0, -1, -inf, inf, 5, nan])), [inf, -inf, nan, nan, inf, 24, nan]),
        (special.gammasgn(np.array([0.0, -0.0, -1, -inf, inf, 5, -0.5, nan])), [1, -1, nan, nan, 1, 1, -1, nan]),
        (special.gammainc(shapes, ends), [nan, 1, 0, nan, nan, 0, 1, nan]),
        (special.gammaincc(shapes, ends), [nan, 0, 1, nan, nan, 1, 0, nan]),
        (special.betainc(a, b, np.array([0.5] * 4 + [0, 1, 0.5, 0.5, -1, 2])), [1, 0, nan, nan, 0, 1, 0, 1, nan, nan]),
        (special.exp1(np.array([0.0, -1, inf, nan])), [inf, nan, 0, nan]),
        (special.expi(np.array([0.0, inf, nan])), [-inf, inf, nan]),
        (special.expn(np.array([0, 1, 2, -1]), 0.0), [inf, inf, 1, nan]),
        (special.ndtri(np.array([0.0, 1, 0.5, 2, -1])), [-inf, inf, 0, nan, nan]),
        (special.erfcinv(np.array([0.0, 1, 2, 3, -1])), [inf, 0, -inf, nan, nan]),
        (special.logit(np.array([0.0, 1, 2])), [-inf, inf, nan]),
        (special.sici(np.array([0.0, inf, -inf]))[0], [0, np.pi / 2, -np.pi / 2]),
        (special.sici(np.array([0.0, inf, -inf]))[1], [-inf, 0, nan]),
        (special.fresnel(np.array([inf, -inf]))[0], [0.5, -0.5]),
        (special.comb(np.array([5, -1, 3]), np.array([2, 1, 5])), [10, 0, 0]),
        (special.hyp2f1(1.0, 2.0, 3.0, np.array([0.0, 1, 2])), [1, inf, inf]),
        (special.spence(np.array([-1.0, 0, 1])), [nan, np.pi**2 / 6, 0]),
        (special.xlogy(np.array([0.0, 0]), np.array([0.0, nan])), [0, nan]),
        (special.erfcx(np.array([inf, -inf, nan])), [0, inf, nan]),
    ]
    for k, (got, want) in enumerate(cases):
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-14, atol=1e-15, err_msg=f"case {k}")


def test_types():
    with steno.enable_x64(False):
        for name, args in (("gamma", (5,)), ("betaln", (2, 3)), ("gammainc", (2, 3)), ("factorial", (5,)), ("i0", (1,)), ("logit", (1,))):
            out = getattr(special, name)(*args)
            assert out.dtype == np.float32 and out.weak_type, name
        for dtype in ("float16", "bfloat16"):
            out = special.gammainc(jnp.ones(3, dtype), 2.0)
            assert out.dtype == dtype and out.shape == (3,)
        assert special.betainc(jnp.ones((2, 1)), jnp.ones(3), 0.5).shape == (2, 3)
        assert special.log_softmax(jnp.zeros((2, 2))).shape == (2, 2)
    assert steno.vmap(lambda x: special.betainc(2.0, 3.0, x))(jnp.linspace(0, 1, 3)).tolist() == [0, pytest.approx(0.6875), 1]


def test_errors():
    one = jnp.asarray(1)
    for name in ("ndtr", "ndtri", "log_ndtr", "spence"):
        with pytest.raises(TypeError, match="is not supported"):
            getattr(special, name)(one)
    for call, error in (
        (lambda: special.beta(1j, 1.0), ValueError),
        (lambda: special.sici(1j), ValueError),
        (lambda: special.polygamma(1.0, 2.0), ValueError),
        (lambda: special.log_ndtr(2.0, 1.5), TypeError),
        (lambda: special.log_ndtr(2.0, 31), ValueError),
        (lambda: special.zeta(2.0), NotImplementedError),
        (lambda: special.factorial(3, exact=True), NotImplementedError),
        (lambda: special.multigammaln(3.0, jnp.ones(2)), TypeError),
        (lambda: special.sph_harm_y(np.array([1]), np.array([1]), np.array([1.0]), np.array([1.0]), diff_n=1), NotImplementedError),
        (lambda: lax.igamma(2, 3.0), TypeError),
        (lambda: lax.betainc(1, 2.0, 0.3), TypeError),
    ):
        with pytest.raises(error):
            call()


@pytest.mark.skipif(peer() is None, reason=NO_JAX)
def test_against_jax():
    x, p = Arr(np.linspace(0.2, 6, 9)), Arr(np.linspace(0.05, 0.95, 9))
    variables = {"x": x, "p": p}
    one = ("gamma", "gammaln", "digamma", "exp1", "expi", "spence", "ndtr", "log_ndtr", "i0", "i1", "erfcx", "dawsn")
    two = ("gammainc", "gammaincc", "betaln", "beta", "rel_entr", "kl_div", "xlogy", "xlog1py", "boxcox")
    sources = [f"S.{n}(x)" for n in one]
    sources += [f"S.{n}(p)" for n in ("ndtri", "logit", "erfinv", "erfcinv", "entr")]
    sources += [f"S.{n}(x, p)" for n in two] + ["S.zeta(x + 1, p)"]
    sources += ["S.betainc(x, x[::-1], p)", "S.bernoulli(8)", "S.multigammaln(x + 2, 3)", "S.polygamma(2, x)", "S.expn(3, x)"]
    sources += ["S.hyp1f1(x, 2.0, p)"]
    sources += ["S.logsumexp(x)", "S.softmax(x)", "S.log_softmax(x)", "S.sici(x)", "S.fresnel(x)", "S.wofz(x)", "S.owens_t(x, p)"]
    sources += ["lax.igamma(x, p)", "lax.igammac(x, p)", "lax.igamma_grad_a(x, p)", "lax.betainc(x, x, p)"]
    sources += [f"jax.vmap(jax.grad(S.{n}, {k}))(x, p)" for n in ("gammainc", "gammaincc", "betaln", "xlogy") for k in (0, 1)]
    calls = [Expr(s.replace("S.", "jax.scipy.special."), x64=True, **{k: v for k, v in variables.items() if k in s}) for s in sources]
    compare_all(calls, rtol=1e-6, atol=1e-7, weak=False)
