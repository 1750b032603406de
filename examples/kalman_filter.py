"""A target is tracked through noise: Kalman's filter by `scan`, the smoother backwards, and the filter once more in parallel."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

DT = 0.1
F = jnp.kron(jnp.array([[1.0, DT], [0.0, 1.0]]), jnp.eye(2))  # state: x, y and their speeds
Q = jnp.kron(jnp.array([[DT**3 / 3, DT**2 / 2], [DT**2 / 2, DT]]), 0.5 * jnp.eye(2))
H = jnp.eye(2, 4)
R = 0.25 * jnp.eye(2)


class Gaussian(NamedTuple):
    mean: jax.Array
    cov: jax.Array


def simulate(key, steps):
    first, states, sights = jax.random.split(key, 3)
    noise = jax.random.multivariate_normal(states, jnp.zeros(4), Q, (steps,))

    def move(x, w):
        x = F @ x + w
        return x, x

    _, path = lax.scan(move, jax.random.normal(first, (4,)), noise)
    return path, path @ H.T + 0.5 * jax.random.normal(sights, (steps, 2))


def predict(belief):
    return Gaussian(F @ belief.mean, F @ belief.cov @ F.T + Q)


def update(belief, y):
    innovation = H @ belief.cov @ H.T + R
    gain = jnp.linalg.solve(innovation, H @ belief.cov).T
    mean = belief.mean + gain @ (y - H @ belief.mean)
    logp = jax.scipy.stats.multivariate_normal.logpdf(y, H @ belief.mean, innovation)
    return Gaussian(mean, belief.cov - gain @ innovation @ gain.T), logp


@jax.jit
def kalman_filter(prior, ys):
    def step(belief, y):
        belief, logp = update(predict(belief), y)
        return belief, (belief, logp)

    _, (beliefs, logps) = lax.scan(step, prior, ys)
    return beliefs, logps.sum()


@jax.jit
def smoother(beliefs):
    def step(after, belief):
        ahead = predict(belief)
        gain = jnp.linalg.solve(ahead.cov, F @ belief.cov).T
        smooth = Gaussian(belief.mean + gain @ (after.mean - ahead.mean), belief.cov + gain @ (after.cov - ahead.cov) @ gain.T)
        return smooth, smooth

    last = jax.tree.map(lambda a: a[-1], beliefs)
    _, rest = lax.scan(step, last, jax.tree.map(lambda a: a[:-1], beliefs), reverse=True)
    return jax.tree.map(lambda a, b: jnp.concatenate([a, b[None]]), rest, last)


@jax.jit
def parallel_filter(prior, ys):
    """Särkkä and García-Fernández, Temporal parallelization of Bayesian smoothers (2021): filtering is an associative operation."""

    def element(y, m, p):
        """What one sight says, when the state before it is Gaussian (m, p); p = 0 stands for: it is known."""
        cov = F @ p @ F.T + Q
        s = H @ cov @ H.T + R
        gain = jnp.linalg.solve(s, H @ cov).T
        keep = jnp.eye(4) - gain @ H
        back = F.T @ H.T @ jnp.linalg.inv(s)
        return keep @ F, keep @ F @ m + gain @ y, keep @ cov, back @ y, back @ H @ F

    def t(a):
        return jnp.swapaxes(a, -1, -2)

    def mul(a, x):
        return jnp.einsum("...ij,...j->...i", a, x)

    def combine(first, second):
        a1, b1, c1, e1, j1 = first
        a2, b2, c2, e2, j2 = second
        left = t(jnp.linalg.solve(t(jnp.eye(4) + c1 @ j2), t(a2)))
        right = t(a1) @ jnp.linalg.inv(jnp.eye(4) + j2 @ c1)
        b = mul(left, b1 + mul(c1, e2)) + b2
        e = mul(right, e2 - mul(j2, b1)) + e1
        return left @ a1, b, left @ c1 @ t(a2) + c2, e, right @ j2 @ a1 + j1

    start = element(ys[0], prior.mean, prior.cov)
    start = (jnp.zeros((4, 4)), *start[1:3], jnp.zeros(4), jnp.zeros((4, 4)))
    rest = jax.vmap(element, in_axes=(0, None, None))(ys[1:], jnp.zeros(4), jnp.zeros((4, 4)))
    elements = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), start, tuple(rest))
    _, mean, cov, _, _ = lax.associative_scan(combine, elements)
    return Gaussian(mean, cov)


def main(steps=200):
    path, ys = simulate(jax.random.key(1), steps)
    prior = Gaussian(jnp.zeros(4), 4 * jnp.eye(4))
    filtered, logp = kalman_filter(prior, ys)
    smoothed = smoother(filtered)
    parallel = parallel_filter(prior, ys)

    def error(estimate):
        return jnp.sqrt(jnp.mean((estimate[:, :2] - path[:, :2]) ** 2))

    print(f"log likelihood {logp:.2f}")
    print(f"error of sights {error(ys):.3f}, filtered {error(filtered.mean):.3f}, smoothed {error(smoothed.mean):.3f}")
    agree = jnp.allclose(filtered.mean, parallel.mean, atol=1e-2) & jnp.allclose(filtered.cov, parallel.cov, atol=1e-3)
    print(f"the parallel filter agrees: {agree}")
    return logp, error(filtered.mean), error(smoothed.mean), agree


if __name__ == "__main__":
    main()
