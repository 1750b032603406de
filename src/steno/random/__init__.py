"""Pseudo-random numbers from explicit keys. The same names as `jax.random`, and the same algorithms: `key`, `split`, `fold_in`, `bits`,
`uniform`, `randint`, `bernoulli` and `permutation` give JAX's numbers bit for bit, the others within rounding of the elementary functions
they pass through.

A key is a typed key array (`key`) or, as in older programs, its uint32 words (`PRNGKey`); functions that make keys return them in the form
they got. The generators are threefry2x32, which is the default, threefry4x32, philox2x32, philox4x32, rbg and unsafe_rbg (see
`steno.ops.random`), and those that `steno.extend.random.define_prng_impl` makes."""

from typing import Any as _Any, NewType as _NewType

from steno.core.on_demand import on_demand as _on_demand
from steno.random.choices import (
    categorical as categorical,
    choice as choice,
    permutation as permutation,
)
from steno.random.continuous import (
    cauchy as cauchy,
    double_sided_maxwell as double_sided_maxwell,
    exponential as exponential,
    geometric as geometric,
    gumbel as gumbel,
    laplace as laplace,
    logistic as logistic,
    lognormal as lognormal,
    maxwell as maxwell,
    normal as normal,
    pareto as pareto,
    rademacher as rademacher,
    rayleigh as rayleigh,
    triangular as triangular,
    truncated_normal as truncated_normal,
    wald as wald,
    weibull_min as weibull_min,
)
from steno.random.draws import (
    bernoulli as bernoulli,
    bits as bits,
    randint as randint,
    uniform as uniform,
)
from steno.random.keys import (
    PRNGKey as PRNGKey,
    clone as clone,
    fold_in as fold_in,
    key as key,
    key_data as key_data,
    key_dtype as key_dtype,
    key_impl as key_impl,
    split as split,
    wrap_key_data as wrap_key_data,
)

Key = _NewType("Key", _Any)
"""What an annotation calls a key."""

__getattr__, __dir__ = _on_demand(
    __name__,
    {
        "matrices": ("multivariate_normal", "orthogonal"),
        "rejection": (
            "ball", "beta", "binomial", "chisquare", "dirichlet", "f", "gamma", "generalized_normal", "loggamma", "multinomial",
            "poisson", "t",
        ),
    },
)  # fmt: skip
