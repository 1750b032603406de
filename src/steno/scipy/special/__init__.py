"""JAX's `scipy.special`. Its parts are imported when they are first used.

All functions but those of `steno.nn`, `erf` and their like are computed in float64, and rounded to the dtype of the operands."""

from steno.core.on_demand import on_demand as _on_demand

__getattr__, __dir__ = _on_demand(
    __name__,
    {
        "gammas": (
            "bernoulli", "beta", "betainc", "betaln", "comb", "digamma", "factorial", "gamma", "gammainc", "gammaincc", "gammaln",
            "gammasgn", "loggamma", "multigammaln", "poch", "polygamma", "zeta",
        ),
        "normal": (
            "dawsn", "erf", "erfc", "erfcinv", "erfcx", "erfinv", "fresnel", "log_ndtr", "ndtr", "ndtri", "owens_t", "wofz",
        ),
        "integrals": ("exp1", "expi", "expn", "sici", "spence"),
        "series": ("bessel_jn", "hyp1f1", "hyp2f1", "i0", "i0e", "i1", "i1e", "sph_harm_y"),
        "logarithms": (
            "boxcox", "boxcox1p", "entr", "expit", "kl_div", "log_softmax", "logit", "logsumexp", "rel_entr", "softmax", "xlog1py", "xlogy",
        ),
    },
)  # fmt: skip
