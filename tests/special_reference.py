"""The functions of `scipy.special` and `nn` beside exact values: arguments over wide ranges, mpmath's functions, and distances in units in
the last place. `tools/special_table.py` measures with it, `tests/test_special_accuracy.py` checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import mpmath as mp
import numpy as np
import scipy.special as sp

import steno
from steno import nn, numpy as jnp
from steno.scipy import special

DIGITS = 50
Draw = Callable[[np.random.Generator, int], np.ndarray]


def uniform(low: float, high: float) -> Draw:
    return lambda rng, n: rng.uniform(low, high, n)


def decades(low: float, high: float) -> Draw:
    return lambda rng, n: 10 ** rng.uniform(low, high, n)


def both_signs(low: float, high: float) -> Draw:
    return lambda rng, n: 10 ** rng.uniform(low, high, n) * rng.choice([-1, 1], n)


def near(center: float, low: float, high: float) -> Draw:
    """`center` and numbers whose distance from it is 10**low to 10**high."""
    return lambda rng, n: center + both_signs(low, high)(rng, n)


def whole(low: int, high: int) -> Draw:
    return lambda rng, n: rng.integers(low, high, n, endpoint=True).astype(float)


@final
@dataclass(frozen=True)
class Case:
    """regions: the arguments, each a draw for every operand; exact, scipy: the function; double, single: the bounds of its errors in
    float64 and float32; floor: errors of smaller results are in units in the last place of it (where a function crosses zero); slopes: the
    bounds of the errors of the derivatives in float64 and in the first region, by operand, None where there is none to measure;
    exact_slopes: those that `mpmath.diff` is not to find; slope_floor: as `floor`; call: what is measured, if it is not the function of
    that name."""

    regions: tuple[tuple[Draw, ...], ...]
    exact: Callable[..., Any]
    scipy: Callable[..., Any] | None = None
    double: float = 4
    single: float = 1
    floor: float = 0.0
    slopes: tuple[float | None, ...] = ()
    exact_slopes: dict[int, Callable[..., Any]] = field(default_factory=dict)
    slope_floor: float = 0.0
    call: Callable[..., Any] | None = None

    def slope(self, k: int) -> Callable[..., Any]:
        """The derivative by operand k."""
        if k in self.exact_slopes:
            return self.exact_slopes[k]
        return lambda *xs: mp.diff(lambda x: self.exact(*xs[:k], x, *xs[k + 1 :]), xs[k])


def arguments(case: Case, dtype: Any, count: int, seed: int = 0, regions: slice = slice(None)) -> list[np.ndarray]:
    """`count` arguments in every region, as numbers of the dtype."""
    rng = np.random.default_rng([seed, 5])
    rows = [[np.asarray(draw(rng, count)).astype(dtype) for draw in region] for region in case.regions[regions]]
    return [np.concatenate(column) for column in zip(*rows, strict=True)]


def exact_values(function: Callable[..., Any], xs: list[np.ndarray]) -> list[Any]:
    """mpmath's numbers; None where it finds none, or one that is not real."""
    out: list[Any] = []
    with mp.workdps(DIGITS):
        for args in zip(*(x.tolist() for x in xs), strict=True):
            try:
                value = function(*(mp.mpf(a) for a in args))
            except (ValueError, ZeroDivisionError, OverflowError, mp.libmp.NoConvergence, AssertionError):
                value = None
            if isinstance(value, mp.mpc):
                value = value.real if value.imag == 0 else None
            out.append(value)
    return out


def ulps(got: np.ndarray, want: list[Any], floor: float) -> np.ndarray:
    """Distances in units in the last place of the exact value in the dtype; 0 where that is out of its range, infinite for a NaN."""
    dtype = got.dtype.type
    info = np.finfo(dtype)
    out = np.zeros(len(want))
    for k, value in enumerate(want):
        if value is None or not mp.isfinite(value) or abs(value) > float(info.max) * (1 - 2.0**-20) or 0 < abs(value) < float(info.tiny):
            continue
        unit = float(np.spacing(dtype(max(abs(float(value)), floor, float(info.tiny)))))
        out[k] = float(abs(mp.mpf(float(got[k])) - value) / unit) if np.isfinite(got[k]) else np.inf
    return out


# exact values


def _log_gamma(x: Any) -> Any:
    return mp.re(mp.loggamma(x))


def _log_beta(a: Any, b: Any) -> Any:
    with mp.workdps(100):
        return _log_gamma(a) + _log_gamma(b) - _log_gamma(a + b)


def _hurwitz(s: Any, q: Any) -> Any:
    """By Euler and Maclaurin's formula: that of mpmath loses digits for great arguments. For q < 0 the first terms one by one."""
    total = mp.mpf(0)
    while q < 30 + s:
        total += mp.power(q, -s)
        q += 1
    rest, rising = mp.mpf(1) / 2 + q / (s - 1), s
    for j in range(1, 30):
        rest += mp.bernoulli(2 * j) / mp.factorial(2 * j) * rising / q ** (2 * j - 1)
        rising *= (s + 2 * j - 1) * (s + 2 * j)
    return total + mp.power(q, -s) * rest


def _gamma_ratio_by_shape(a: Any, x: Any) -> Any:
    """dP/da: of P or of Q = 1 - P, whichever is small."""
    if x < a:
        return mp.diff(lambda t: mp.gammainc(t, 0, x, regularized=True), a)
    return -mp.diff(lambda t: mp.gammainc(t, x, regularized=True), a)


def _gamma_density(a: Any, x: Any) -> Any:
    return mp.exp((a - 1) * mp.log(x) - x - mp.loggamma(a))


def _erfc_inverse(y: Any) -> Any:
    """Newton's method on log(erfc), from a double."""
    if y > 1:
        return -_erfc_inverse(2 - y)
    x = mp.mpf(float(sp.erfcinv(float(y))))
    for _ in range(3):
        value = mp.erfc(x)
        x = x + mp.log(value / y) * value / (2 / mp.sqrt(mp.pi) * mp.exp(-x * x))
    return x


def _normal(x: Any) -> Any:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def _density(x: Any) -> Any:
    return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)


def _owens(h: Any, a: Any) -> Any:
    h2 = h * h / 2
    return mp.exp(-h2) * mp.quad(lambda t: mp.exp(-h2 * t * t) / (1 + t * t), mp.linspace(0, a, 5)) / (2 * mp.pi)


def _scaled_bessel(n: int) -> Callable[[Any], Any]:
    return lambda x: mp.besseli(n, x) * mp.exp(-abs(x))


def _x_log(x: Any, y: Any) -> Any:
    return mp.mpf(0) if x == 0 else x * mp.log(y)


def _box_cox(log: Any, k: Any) -> Any:
    return log if k == 0 else mp.expm1(k * log) / k


def _gelu_by_tanh(x: Any) -> Any:
    return x / 2 * (1 + mp.tanh(mp.sqrt(2 / mp.pi) * (x + mp.mpf("0.044715") * x**3)))


def _softplus(x: Any) -> Any:
    return mp.log1p(mp.exp(x)) if x < 0 else x + mp.log1p(mp.exp(-x))


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x))


SELU_ALPHA, SELU_SCALE = mp.mpf("1.6732632423543772848170429916717"), mp.mpf("1.0507009873554804934193349852946")


def _pair(function: Callable[..., Any]) -> Callable[..., Any]:
    """The first element of what a function of vectors gives for [x, y]."""

    def call(x: Any, y: Any) -> Any:
        out = function(jnp.stack([x, y]))
        return out[0] if out.ndim else out

    return steno.vmap(call)


POSITIVE = (uniform(0.01, 30), decades(-12, 8))
SPECIAL: dict[str, Case] = {
    "gamma": Case(
        ((uniform(0.5, 10),), (uniform(-20, 171.6),), (both_signs(-300, 0),), (uniform(-170, 0),)),
        mp.gamma,
        sp.gamma,
        double=5,
        slopes=(16,),
        slope_floor=1.0,
    ),
    "gammaln": Case(
        ((uniform(-20, 40),), (decades(-300, 300),), (near(1, -8, -1),), (near(2, -8, -1),)),
        _log_gamma,
        sp.gammaln,
        floor=1.0,
        slopes=(16,),
        slope_floor=1.0,
    ),
    "digamma": Case(
        ((uniform(0.001, 40),), (decades(-300, 300),), (uniform(-12, 0),)), mp.digamma, sp.digamma, floor=1.0, double=16, slopes=(4,)
    ),
    "polygamma": Case(
        (
            (whole(1, 8), uniform(0.05, 40)),
            (whole(1, 30), decades(-2, 3)),
            (lambda rng, n: 2 * rng.integers(0, 3, n) + 1.0, uniform(-6, 0)),
        ),
        lambda n, x: mp.digamma(x) if n == 0 else (-1) ** (int(n) + 1) * mp.factorial(n) * _hurwitz(n + 1, x),
        sp.polygamma,
        call=lambda n, x: special.polygamma(n.astype(int), x),
        slopes=(None, 16),
        double=8,
        single=1,
    ),
    "zeta": Case(
        (
            (uniform(1.01, 40), uniform(0.05, 40)),
            (decades(0.01, 2), decades(-2, 2)),
            (lambda rng, n: 1 + decades(-6, -1)(rng, n), uniform(0.5, 5)),
        ),
        _hurwitz,
        sp.zeta,
        slopes=(32, 64),
        double=16,
    ),
    "beta": Case(
        ((uniform(0.1, 30), uniform(0.1, 30)), (decades(-8, 2), decades(-8, 2)), (decades(-3, 5), decades(-3, 1))),
        mp.beta,
        sp.beta,
        double=8,
        slopes=(128, 128),
    ),
    "betaln": Case(
        ((uniform(0.1, 30), uniform(0.1, 30)), (decades(-8, 20), decades(-8, 20)), (decades(0, 30), uniform(0.5, 3))),
        _log_beta,
        sp.betaln,
        floor=1.0,
        slopes=(128, 128),
    ),
    "gammainc": Case(
        ((decades(-3, 2), decades(-3, 2)), (uniform(0.1, 30), uniform(0.1, 60)), (decades(0, 4), decades(0, 4))),
        lambda a, x: mp.gammainc(a, 0, x, regularized=True),
        sp.gammainc,
        double=32,
        slopes=(128, 32),
        exact_slopes={0: lambda a, x: _gamma_ratio_by_shape(a, x), 1: lambda a, x: _gamma_density(a, x)},
    ),
    "gammaincc": Case(
        ((decades(-3, 2), decades(-3, 2)), (uniform(0.1, 30), uniform(0.1, 60)), (decades(0, 4), decades(0, 4))),
        lambda a, x: mp.gammainc(a, x, regularized=True),
        sp.gammaincc,
        double=64,
        slopes=(128, 32),
        exact_slopes={0: lambda a, x: -_gamma_ratio_by_shape(a, x), 1: lambda a, x: -_gamma_density(a, x)},
    ),
    "betainc": Case(
        (
            (decades(-3, 2), decades(-3, 2), uniform(0, 1)),
            (uniform(0.1, 30), uniform(0.1, 30), uniform(0, 1)),
            (decades(0, 3), decades(0, 3), uniform(0, 1)),
            (decades(-2, 2), decades(-2, 2), decades(-9, 0)),
        ),
        lambda a, b, x: mp.betainc(a, b, 0, x, regularized=True),
        sp.betainc,
        double=128,
        slopes=(None, None, 64),
    ),
    "factorial": Case(((uniform(0, 170.6),), (whole(0, 170),)), mp.factorial, sp.factorial, double=5, slopes=(16,), slope_floor=1.0),
    "comb": Case(
        ((uniform(40, 60), uniform(1, 15)), (whole(0, 60), whole(0, 30)), (uniform(1, 60), uniform(0, 30)), (decades(1, 8), whole(0, 5))),
        lambda n, k: mp.binomial(n, k) if 0 <= k <= n else mp.mpf(0),
        sp.comb,
        double=32,
        slopes=(256, 256),
    ),
    "poch": Case(
        ((uniform(0.1, 30), uniform(-0.1, 6)), (decades(-3, 6), whole(0, 12)), (uniform(-10, 0), whole(0, 9))),
        mp.rf,
        sp.poch,
        double=8,
        slopes=(512, 64),
    ),
    "multigammaln": Case(
        ((uniform(1.01, 40),), (decades(0.1, 8),)),
        lambda a: mp.log(mp.pi) * 3 / 2 + sum(_log_gamma(a - mp.mpf(j) / 2) for j in range(3)),
        lambda a: np.array([sp.multigammaln(v, 3) for v in a]),
        floor=1.0,
        call=lambda a: special.multigammaln(a, 3),
        slopes=(16,),
        single=4,
        double=8,
    ),
    "erf": Case(((uniform(-7, 7),), (both_signs(-300, 2),)), mp.erf, sp.erf, slopes=(4,), single=1),
    "erfc": Case(((uniform(-7, 27),), (both_signs(-300, 1),)), mp.erfc, sp.erfc, slopes=(4,), single=1),
    "erfinv": Case(
        ((uniform(-1, 1),), (both_signs(-300, 0),), (lambda rng, n: 1 - decades(-15, 0)(rng, n),)),
        lambda x: mp.sign(x) * _erfc_inverse(1 - abs(x)) if abs(x) > 0.5 else mp.erfinv(x),
        sp.erfinv,
        exact_slopes={0: lambda x: mp.sqrt(mp.pi) / 2 * mp.exp((_erfc_inverse(1 - abs(x)) if abs(x) > 0.5 else mp.erfinv(x)) ** 2)},
        slopes=(8,),
        single=2,
    ),
    "erfcinv": Case(
        ((uniform(0, 2),), (decades(-300, 0),), (near(1, -9, -1),)),
        _erfc_inverse,
        sp.erfcinv,
        exact_slopes={0: lambda y: -mp.sqrt(mp.pi) / 2 * mp.exp(_erfc_inverse(y) ** 2)},
        slopes=(16,),
    ),
    "erfcx": Case(
        ((uniform(-26, 50),), (both_signs(-10, 1.4),), (decades(0, 300),)),
        lambda x: mp.exp(x * x) * mp.erfc(x),
        sp.erfcx,
        exact_slopes={0: lambda x: 2 * x * mp.exp(x * x) * mp.erfc(x) - 2 / mp.sqrt(mp.pi)},
        slopes=(8,),
    ),
    "ndtr": Case(((uniform(-37, 9),), (both_signs(-10, 1),)), _normal, sp.ndtr, exact_slopes={0: _density}, slopes=(4,)),
    "ndtri": Case(
        ((uniform(0, 1),), (decades(-300, 0),), (near(0.5, -9, -1),)),
        lambda p: -mp.sqrt(2) * _erfc_inverse(2 * p),
        sp.ndtri,
        exact_slopes={0: lambda p: 1 / _density(mp.sqrt(2) * _erfc_inverse(2 * p))},
        slopes=(16,),
    ),
    "log_ndtr": Case(
        ((uniform(-40, 9),), (both_signs(-10, 3),), (uniform(-3, 3),)),
        lambda x: mp.log1p(-_normal(-x)) if x > 0 else mp.log(_normal(x)),
        sp.log_ndtr,
        exact_slopes={0: lambda x: _density(x) / _normal(x)},
        slopes=(8,),
    ),
    "dawsn": Case(
        ((uniform(-30, 30),), (both_signs(-300, 8),)),
        lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x),
        sp.dawsn,
        double=8,
        slopes=(1024,),
    ),
    "owens_t": Case(
        ((uniform(-4, 4), uniform(-6, 6)), (both_signs(-2, 1), both_signs(-3, 1))),
        _owens,
        sp.owens_t,
        exact_slopes={
            0: lambda h, a: -_density(h) * mp.erf(a * h / mp.sqrt(2)) / 2,
            1: lambda h, a: mp.exp(-h * h * (1 + a * a) / 2) / (2 * mp.pi * (1 + a * a)),
        },
        double=64,
        slopes=(16, 256),
    ),
    "fresnel_s": Case(
        ((uniform(-10, 10),), (both_signs(-90, 3),)),
        mp.fresnels,
        lambda x: sp.fresnel(x)[0],
        call=lambda x: special.fresnel(x)[0],
        slope_floor=0.1,
        slopes=(128,),
    ),
    "fresnel_c": Case(
        ((uniform(-10, 10),), (both_signs(-90, 3),)),
        mp.fresnelc,
        lambda x: sp.fresnel(x)[1],
        call=lambda x: special.fresnel(x)[1],
        slope_floor=0.1,
        slopes=(128,),
    ),
    "exp1": Case(((decades(-300, 2.8),), (uniform(0.1, 10),)), mp.e1, sp.exp1, slopes=(4,), exact_slopes={0: lambda x: -mp.exp(-x) / x}),
    "expi": Case(
        ((uniform(0.01, 60),), (both_signs(-10, 2.8),)),
        mp.ei,
        sp.expi,
        floor=1.0,
        slopes=(4,),
        exact_slopes={0: lambda x: mp.exp(x) / x},
        double=16,
    ),
    "expn": Case(
        ((whole(0, 30), decades(-3, 2.5)), (whole(1, 100), uniform(0.1, 10)), (whole(0, 6), uniform(0.5, 3))),
        lambda n, x: mp.expint(int(n), x),
        sp.expn,
        slopes=(None, 16),
        exact_slopes={1: lambda n, x: -mp.expint(int(n) - 1, x)},
        double=16,
    ),
    "si": Case(
        ((uniform(-30, 30),), (both_signs(-300, 6),)), mp.si, lambda x: sp.sici(x)[0], call=lambda x: special.sici(x)[0], slopes=(4,)
    ),
    "ci": Case(
        ((uniform(0.01, 30),), (decades(-300, 6),)),
        mp.ci,
        lambda x: sp.sici(x)[1],
        floor=0.1,
        call=lambda x: special.sici(x)[1],
        double=32,
        slopes=(4,),
    ),
    "spence": Case(
        ((uniform(0, 5),), (decades(-300, 300),), (near(1, -9, -1),)),
        lambda x: mp.re(mp.polylog(2, 1 - x)),
        sp.spence,
        exact_slopes={0: lambda x: mp.log(x) / (1 - x)},
        slopes=(4,),
    ),
    "hyp1f1": Case(
        ((uniform(0.1, 8), uniform(0.3, 8), uniform(-15, 20)), (uniform(0.1, 30), uniform(0.3, 30), uniform(-60, 60))),
        mp.hyp1f1,
        sp.hyp1f1,
        floor=1e-2,
        double=4,
        slope_floor=0.01,
        slopes=(None, None, 16),
    ),
    "hyp2f1": Case(
        (
            (uniform(0.1, 4), uniform(0.1, 4), uniform(1, 9), uniform(-3, 0.9)),
            (uniform(-3, 3), uniform(-3, 3), uniform(0.5, 6), uniform(-0.9, 0.9)),
        ),
        mp.hyp2f1,
        sp.hyp2f1,
        floor=1e-2,
        double=8,
        slopes=(None, None, None, 32),
        slope_floor=0.01,
    ),
    "i0": Case(((uniform(-20, 20),), (both_signs(-10, 2.8),)), lambda x: mp.besseli(0, x), sp.i0, slopes=(4,)),
    "i1": Case(((uniform(-20, 20),), (both_signs(-300, 2.8),)), lambda x: mp.besseli(1, x), sp.i1, slopes=(8,)),
    "i0e": Case(((uniform(-50, 50),), (both_signs(-10, 6),)), _scaled_bessel(0), sp.i0e, slopes=(256,), single=4),
    "i1e": Case(((uniform(-50, 50),), (both_signs(-300, 6),)), _scaled_bessel(1), sp.i1e, slopes=(256,), single=4),
    "bessel_jn": Case(
        ((uniform(-20, 20),), (both_signs(-3, 1.3),)),
        lambda x: mp.besselj(3, x),
        lambda x: sp.jv(3, x),
        floor=0.1,
        call=lambda x: special.bessel_jn(x, v=3)[3],
        double=32,
    ),
    "sph_harm_y": Case(
        ((uniform(0, 3.1), uniform(0, 6)),),
        lambda t, p: mp.re(mp.spherharm(5, 2, t, p)),
        lambda t, p: sp.sph_harm_y(5, 2, t, p).real,
        floor=0.1,
        double=16,
        call=lambda t, p: special.sph_harm_y(jnp.full(t.shape, 5), jnp.full(t.shape, 2), t, p, n_max=5).real,
    ),
    "logit": Case(((uniform(0, 1),), (decades(-300, 0),), (near(0.5, -9, -1),)), lambda p: mp.log(p / (1 - p)), sp.logit, slopes=(4,)),
    "expit": Case(((uniform(-40, 40),), (both_signs(-10, 2.5),)), _sigmoid, sp.expit, slopes=(4,), slope_floor=1.0),
    "xlogy": Case(
        ((uniform(-5, 5), uniform(0, 5)), (both_signs(-8, 8), decades(-300, 300))), _x_log, sp.xlogy, slopes=(4, 4), single=2, double=2
    ),
    "xlog1py": Case(
        ((uniform(-5, 5), uniform(-1, 5)), (both_signs(-8, 8), decades(-300, 300))),
        lambda x, y: _x_log(x, 1 + y) if abs(y) > 0.1 else x * mp.log1p(y),
        sp.xlog1py,
        slopes=(4, 4),
        single=2,
        double=2,
    ),
    "entr": Case(((uniform(0, 5),), (decades(-300, 300),)), lambda x: -_x_log(x, x), sp.entr, single=2, slope_floor=0.1, slopes=(16,)),
    "rel_entr": Case(
        ((uniform(0, 5), uniform(0, 5)), (decades(-8, 8), decades(-8, 8))),
        lambda p, q: p * mp.log(p / q),
        sp.rel_entr,
        double=4,
        slope_floor=0.1,
        slopes=(32, 8),
    ),
    "kl_div": Case(
        ((uniform(0, 5), uniform(0, 5)), (decades(-8, 8), decades(-8, 8))),
        lambda p, q: p * mp.log(p / q) - p + q,
        sp.kl_div,
        slopes=(32, 32),
        double=32,
    ),
    "boxcox": Case(
        ((decades(-3, 3), uniform(-3, 3)), (decades(-3, 3), both_signs(-12, 0))),
        lambda x, k: _box_cox(mp.log(x), k),
        sp.boxcox,
        double=16,
        slopes=(32, 32),
    ),
    "boxcox1p": Case(
        ((decades(-3, 3), uniform(-3, 3)), (decades(-12, 3), both_signs(-12, 0))),
        lambda x, k: _box_cox(mp.log1p(x), k),
        sp.boxcox1p,
        double=16,
        slopes=(32, 32),
    ),
    "logsumexp": Case(
        ((uniform(-5, 5), uniform(-5, 5)), (both_signs(-3, 3), both_signs(-3, 3))),
        lambda x, y: mp.log(mp.exp(x) + mp.exp(y)),
        lambda x, y: sp.logsumexp(np.stack([x, y]), axis=0),
        floor=1.0,
        call=_pair(lambda v: special.logsumexp(v)),
        single=2,
    ),
    "softmax": Case(
        ((uniform(-5, 5), uniform(-5, 5)), (both_signs(-3, 1.8), both_signs(-3, 1.5))),
        lambda x, y: _sigmoid(x - y),
        lambda x, y: sp.softmax(np.stack([x, y]), axis=0)[0],
        call=_pair(lambda v: special.softmax(v)),
        double=128,
        single=128,
    ),
    "log_softmax": Case(
        ((uniform(-5, 5), uniform(-5, 5)), (both_signs(-3, 3), both_signs(-3, 3))),
        lambda x, y: -_softplus(y - x),
        lambda x, y: sp.log_softmax(np.stack([x, y]), axis=0)[0],
        single=4,
        call=_pair(lambda v: special.log_softmax(v)),
        floor=1.0,
    ),
}
ANY = ((uniform(-8, 8),), (both_signs(-30, 2),))
NN: dict[str, Case] = {
    "celu": Case(ANY, lambda x: x if x > 0 else mp.expm1(x), slopes=(4,)),
    "elu": Case(ANY, lambda x: x if x > 0 else mp.expm1(x), slopes=(4,)),
    "gelu": Case(((uniform(-5, 8),), (both_signs(-30, 0),)), _gelu_by_tanh, floor=1.0, single=4, slopes=(32,), slope_floor=1.0),
    "gelu_exact": Case(
        ((uniform(-35, 8),), (both_signs(-30, 1),)),
        lambda x: x * _normal(x),
        call=lambda x: nn.gelu(x, approximate=False),
        double=1024,
        single=128,
        slopes=(1024,),
        slope_floor=0.0,
    ),
    "hard_sigmoid": Case(ANY, lambda x: min(max(x + 3, mp.mpf(0)), mp.mpf(6)) / 6),
    "hard_silu": Case(ANY, lambda x: x * min(max(x + 3, mp.mpf(0)), mp.mpf(6)) / 6),
    "leaky_relu": Case(ANY, lambda x: x if x >= 0 else x * mp.mpf(0.01)),
    "log1mexp": Case(
        ((decades(-30, 2),), (uniform(0.01, 5),)),
        lambda x: mp.log(-mp.expm1(-x)) if x < 1 else mp.log1p(-mp.exp(-x)),
        single=4,
        slopes=(4,),
    ),
    "log_sigmoid": Case(((uniform(-8, 8),), (both_signs(-30, 1.9),)), lambda x: -_softplus(-x), single=4, slopes=(8,)),
    "mish": Case(
        ((uniform(-8, 8),), (both_signs(-30, 1.8),)), lambda x: x * mp.tanh(_softplus(x)), slopes=(64,), double=4, single=4, slope_floor=1.0
    ),
    "selu": Case(ANY, lambda x: SELU_SCALE * (x if x > 0 else SELU_ALPHA * mp.expm1(x)), single=4, slopes=(4,)),
    "sigmoid": Case(((uniform(-40, 40),), (both_signs(-10, 1.9),)), _sigmoid, sp.expit, slopes=(4,), slope_floor=1.0),
    "silu": Case(((uniform(-40, 40),), (both_signs(-30, 1.9),)), lambda x: x * _sigmoid(x), single=4, slopes=(32,), slope_floor=1.0),
    "soft_sign": Case(ANY, lambda x: x / (abs(x) + 1), single=2, slopes=(16,)),
    "softplus": Case(((uniform(-40, 40),), (both_signs(-30, 1.9),)), _softplus, single=4, slopes=(32,)),
    "squareplus": Case(
        ((uniform(-1, 8),), (both_signs(-30, 0),), (decades(0, 10),)), lambda x: (x + mp.sqrt(x * x + 4)) / 2, single=4, slopes=(4,)
    ),
    "tanh": Case(ANY, mp.tanh, np.tanh, slopes=(4,), slope_floor=1.0),
}


def function(name: str) -> Callable[..., Any]:
    """What is measured."""
    case = SPECIAL.get(name) or NN[name]
    return case.call or getattr(special if name in SPECIAL else nn, name)


def slopes(name: str, which: Sequence[int]) -> Callable[..., tuple[Any, ...]]:
    """The derivatives by these operands, of arrays."""
    f = function(name)
    if not which:
        return lambda *xs: ()
    one = (lambda *xs: f(*(x[None] for x in xs))[0]) if (SPECIAL.get(name) or NN[name]).call else f
    return steno.jit(steno.vmap(steno.grad(one, tuple(which))))
