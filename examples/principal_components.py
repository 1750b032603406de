"""Principal components three ways (`svd`, `eigh`, power iteration by `qr`), and a picture compressed by its singular values."""

import jax
import jax.numpy as jnp
from jax import lax, random


def data(key, n=300, d=12):
    mixing, latent, noise = random.split(key, 3)
    directions, _ = jnp.linalg.qr(random.normal(mixing, (d, 3)))
    scores = random.normal(latent, (n, 3)) * jnp.array([5.0, 3.0, 1.5])
    return scores @ directions.T + 0.3 * random.normal(noise, (n, d)) + 2.0


def by_svd(x, k):
    _, s, vt = jnp.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    return s[:k] ** 2 / (len(x) - 1), vt[:k].T


def by_eigh(x, k):
    variance, vectors = jnp.linalg.eigh(jnp.cov(x, rowvar=False))
    return variance[::-1][:k], vectors[:, ::-1][:, :k]


def by_power_iteration(x, k, steps=50):
    centred = x - x.mean(axis=0)

    def step(q, _):
        q, r = jnp.linalg.qr(centred.T @ (centred @ q))
        return q, jnp.abs(jnp.diag(r)) / (len(x) - 1)

    q, variance = lax.scan(step, random.normal(random.key(1), (x.shape[1], k)), length=steps)
    return variance[-1], q


def compressed(image, rank):
    u, s, vt = jnp.linalg.svd(image, full_matrices=False)
    return (u * jnp.where(jnp.arange(s.size) < rank, s, 0.0)) @ vt


def main():
    x = data(random.key(0))
    variance, vectors = by_svd(x, 3)
    for method in (by_svd, by_eigh, by_power_iteration):
        found, directions = jax.jit(method, static_argnums=1)(x, 3)
        alike = jnp.abs(jnp.sum(directions * vectors, axis=0)).min()
        print(f"{method.__name__:18s}", " ".join(f"{v:6.3f}" for v in found), f"  alike {alike:.3f}")
    share = variance.sum() / jnp.trace(jnp.cov(x.T))
    print(f"three of {x.shape[1]} directions hold {share:.1%} of the variance")

    t = jnp.linspace(-1, 1, 64)
    image = jnp.exp(-4 * (t[:, None] ** 2 + t**2)) + 0.5 * (jnp.abs(t[:, None] + t) < 0.2)
    errors = jax.vmap(lambda r: jnp.linalg.norm(image - compressed(image, r)) / jnp.linalg.norm(image))(jnp.array([1, 4, 16]))
    for rank, error in zip((1, 4, 16), errors):
        print(f"a picture from {rank:2d} singular values: error {error:.3f}")
    return variance, errors


if __name__ == "__main__":
    main()
