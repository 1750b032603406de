"""JAX's `scipy.stats`. Its modules are imported when they are first used."""

from steno.core.on_demand import on_demand as _on_demand

__getattr__, __dir__ = _on_demand(
    __name__,
    {"kde": ("gaussian_kde",), "samples": ("mode", "rankdata", "sem")},
    submodules=(
        "bernoulli", "beta", "betabinom", "binom", "cauchy", "chi2", "dirichlet", "expon", "gamma", "gennorm", "geom", "gumbel_l",
        "gumbel_r", "laplace", "logistic", "multinomial", "multivariate_normal", "nbinom", "norm", "pareto", "poisson", "t",
        "truncnorm", "uniform", "vonmises", "wrapcauchy",
    ),
)  # fmt: skip
