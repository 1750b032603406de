"""`scipy.special`: functions of complex numbers and pairs, special values, types and errors; `test_special_accuracy.py` has the others'
values and derivatives."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import scipy.special as sp
from peer import NO_JAX, Arr, Expr, compare_all, peer
from scipy_samples import SIZE, decades, uniform, whole, worst

import steno
from steno import lax, numpy as jnp
from steno.scipy import special

pytestmark = pytest.mark.usefixtures("x64")


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
        lambda s: special.zeta(s, 0.7),
    ):
        slope, high, low = steno.jit(lambda x, f=f: (steno.grad(f)(x), f(x + 1e-5), f(x - 1e-5)))(3.0)
        assert slope == pytest.approx(float(high - low) / 2e-5, rel=1e-7)
    with pytest.raises(NotImplementedError, match="by the order"):
        steno.grad(special.expn)(2.0, 1.0)


def test_special_values():
    inf, nan = np.inf, np.nan
    shapes, ends = np.array([0.0, 0, 1, -1, 1, inf, 1, inf]), np.array([0.0, 1, 0, 1, -1, 1, inf, inf])
    edges = np.meshgrid(*[[nan, -0.5, inf, 0, 1e-7, 1]] * 2, [nan, -0.5, 0, 0.5, 1, 1.5])
    cases = [
        (special.gamma, (np.array([0.0, -0.0, -1, -inf, inf, 5, nan]),), [inf, -inf, nan, nan, inf, 24, nan]),
        (special.gammasgn, (np.array([0.0, -0.0, -1, -inf, inf, 5, -0.5, nan]),), [1, -1, nan, nan, 1, 1, -1, nan]),
        (special.gammainc, (shapes, ends), [nan, 1, 0, nan, nan, 0, 1, nan]),
        (special.gammaincc, (shapes, ends), [nan, 0, 1, nan, nan, 1, 0, nan]),
        (special.betainc, tuple(v.ravel() for v in edges), sp.betainc(*edges).ravel()),
        (special.exp1, (np.array([0.0, -1, inf, nan]),), [inf, nan, 0, nan]),
        (special.expi, (np.array([0.0, inf, nan]),), [-inf, inf, nan]),
        (special.expn, (np.array([0, 1, 2, -1]), np.zeros(4)), [inf, inf, 1, nan]),
        (special.ndtri, (np.array([0.0, 1, 0.5, 2, -1]),), [-inf, inf, 0, nan, nan]),
        (special.erfcinv, (np.array([0.0, 1, 2, 3, -1]),), [inf, 0, -inf, nan, nan]),
        (special.logit, (np.array([0.0, 1, 2]),), [-inf, inf, nan]),
        (lambda x: special.sici(x)[0], (np.array([0.0, inf, -inf]),), [0, np.pi / 2, -np.pi / 2]),
        (lambda x: special.sici(x)[1], (np.array([0.0, inf, -inf]),), [-inf, 0, nan]),
        (lambda x: special.fresnel(x)[0], (np.array([inf, -inf]),), [0.5, -0.5]),
        (special.comb, (np.array([5, -1, 3]), np.array([2, 1, 5])), [10, 0, 0]),
        (special.hyp2f1, (np.ones(3), np.full(3, 2.0), np.full(3, 3.0), np.array([0.0, 1, 2])), [1, inf, inf]),
        (special.spence, (np.array([-1.0, 0, 1]),), [nan, np.pi**2 / 6, 0]),
        (special.xlogy, (np.array([0.0, 0]), np.array([0.0, nan])), [0, nan]),
        (special.erfcx, (np.array([inf, -inf, nan]),), [0, inf, nan]),
        (special.gamma, (np.array([0.0, -1, -5]) + 0j,), np.full(3, complex(nan, nan))),
        (special.polygamma, (np.array([1, 2, -1]), np.array([0.0, 0, 2])), [inf, -inf, nan]),
    ]
    results = steno.jit(lambda args: [f(*xs) for (f, _, _), xs in zip(cases, args, strict=True)])([xs for _, xs, _ in cases])
    for k, (got, (_, _, want)) in enumerate(zip(results, cases, strict=True)):
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-14, atol=1e-15, err_msg=f"case {k}")


def test_types():
    with steno.enable_x64(False):
        calls = (("gamma", (5,)), ("betaln", (2, 3)), ("gammainc", (2, 3)), ("factorial", (5,)), ("i0", (1,)), ("logit", (1,)))
        types = steno.eval_shape(lambda: [getattr(special, name)(*args) for name, args in calls])
        for (name, _), out in zip(calls, types, strict=True):
            assert out.dtype == np.float32 and out.weak_type, name
        exact = special.gammainc(np.float32(0.7), np.float32(0.3))
        assert exact.dtype == np.float32 and exact == np.float32(sp.gammainc(np.float64(np.float32(0.7)), np.float64(np.float32(0.3))))
        for dtype in ("float16", "bfloat16"):
            out = special.boxcox(jnp.ones(3, dtype), 2.0)
            assert out.dtype == dtype and out.shape == (3,)
        assert special.boxcox(jnp.ones((2, 1)), jnp.ones(3)).shape == (2, 3)
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


def test_logit_in_single_precision_is_rounded_once():
    rng = np.random.default_rng(0)
    tiny, near = 10.0 ** rng.uniform(-44, -1, 20000), 10.0 ** rng.uniform(-7, -1, 20000)
    for p in (rng.random(20000), tiny, 1 - near, 0.5 + near, 0.5 - near):
        p = p.astype(np.float32)
        p = p[(p > 0) & (p < 1) & (p != 0.5)]
        wide = p.astype(np.longdouble)
        small = np.minimum(wide, 1 - wide)
        want = np.where(wide < 0.5, -1, 1) * np.log1p((1 - 2 * small) / small)
        got = np.asarray(special.logit(p))
        assert got.dtype == np.float32
        assert np.max(np.abs(got - want) / np.spacing(np.abs(want).astype(np.float32))) < 0.501
    ends = np.array([0.0, -0.0, 1.0, 0.5, -1e-40, 1.0000001, math.inf, -math.inf, math.nan], np.float32)
    np.testing.assert_array_equal(special.logit(ends), np.array([-math.inf, -math.inf, math.inf, 0] + 5 * [math.nan], np.float32))
    short = np.array([0.25, 0.75, 2**-7], np.float32)
    assert special.logit(short.astype("float16")).tolist() == [np.float16(v) for v in (-math.log(3), math.log(3), -math.log(127))]
