"""Bayesian inference by numpyro: NUTS and variational."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal

x = jnp.linspace(-1, 1, 30)
y = 2 * x + 1 + 0.1 * jax.random.normal(jax.random.PRNGKey(0), (30,))


def model(x, y=None):
    a, b = numpyro.sample("a", dist.Normal(0, 5)), numpyro.sample("b", dist.Normal(0, 5))
    s = numpyro.sample("s", dist.HalfNormal(1))
    with numpyro.plate("data", len(x)):
        numpyro.sample("y", dist.Normal(a * x + b, s), obs=y)


mcmc = MCMC(NUTS(model), num_warmup=200, num_samples=200, progress_bar=False)
mcmc.run(jax.random.PRNGKey(1), x, y)
means = {k: float(v.mean()) for k, v in mcmc.get_samples().items()}
assert abs(means["a"] - 2) < 0.1 and abs(means["b"] - 1) < 0.1 and abs(means["s"] - 0.1) < 0.05, means
svi = SVI(model, AutoNormal(model), numpyro.optim.Adam(0.05), Trace_ELBO())
losses = svi.run(jax.random.PRNGKey(0), 500, x, y, progress_bar=False).losses
assert losses[-1] < losses[0] - 20
