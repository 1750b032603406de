"""A mixture of Gaussians, fitted by expectation and maximisation from several starts at once; the best start is kept."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax, random
from jax.scipy.special import logsumexp
from jax.scipy.stats import multivariate_normal


class Mixture(NamedTuple):
    weight: jax.Array  # (k,)
    mean: jax.Array  # (k, d)
    cov: jax.Array  # (k, d, d)


TRUTH = Mixture(
    jnp.array([0.5, 0.3, 0.2]),
    jnp.array([[0.0, 0.0], [3.0, 2.0], [-2.0, 3.0]]),
    jnp.array([[[1.0, 0.5], [0.5, 1.0]], [[0.3, 0.0], [0.0, 0.8]], [[0.6, -0.4], [-0.4, 0.5]]]),
)


def draw(key, mixture, n):
    which, noise = random.split(key)
    label = random.choice(which, len(mixture.weight), (n,), p=mixture.weight)
    return random.multivariate_normal(noise, mixture.mean[label], mixture.cov[label])


def joint(mixture, x):
    """log p(x, component), (n, k)."""
    each = jax.vmap(multivariate_normal.logpdf, in_axes=(None, 0, 0), out_axes=1)
    return each(x, mixture.mean, mixture.cov) + jnp.log(mixture.weight)


def em_step(mixture, x):
    logp = joint(mixture, x)
    evidence = logsumexp(logp, axis=1, keepdims=True)
    share = jnp.exp(logp - evidence)  # expectation
    total = share.sum(axis=0)
    mean = share.T @ x / total[:, None]
    centred = x[:, None] - mean
    cov = jnp.einsum("nk,nki,nkj->kij", share, centred, centred) / total[:, None, None]
    return Mixture(total / len(x), mean, cov + 1e-4 * jnp.eye(x.shape[1])), evidence.mean()


@jax.jit
def fit(key, x):
    mean = random.choice(key, x, (3,), replace=False)
    start = Mixture(jnp.full(3, 1 / 3), mean, jnp.broadcast_to(jnp.cov(x.T), (3, 2, 2)))
    return lax.scan(lambda m, _: em_step(m, x), start, length=100)


def main():
    data_key, fit_key = random.split(random.key(11))
    x = draw(data_key, TRUTH, 1000)
    fits, evidence = jax.vmap(fit, in_axes=(0, None))(random.split(fit_key, 8), x)
    best = evidence[:, -1].argmax()
    mixture = jax.tree.map(lambda leaf: leaf[best], fits)
    order = jnp.argsort(-mixture.weight)
    print(f"log likelihood of a point {evidence[best, 0]:.3f} -> {evidence[best, -1]:.3f}")
    for k in order:
        (a, b), ((s, c), (_, t)) = mixture.mean[k], mixture.cov[k]
        print(f"weight {mixture.weight[k]:.2f}, mean ({a:5.2f}, {b:5.2f}), variances {s:.2f} and {t:.2f}, covariance {c:5.2f}")
    return evidence[best, -1], mixture.weight[order], mixture.mean[order]


if __name__ == "__main__":
    main()
