"""Support vector machines: a linear one by subgradients, and one with a kernel by ascending the dual one coordinate at a time."""

import functools

import jax
import jax.numpy as jnp
from jax import lax, random


def moons(key, n):
    """Two interleaved half circles."""
    angle_key, noise_key = random.split(key)
    angle = jnp.pi * random.uniform(angle_key, (n,))
    upper = jnp.arange(n) % 2 == 0
    x = jnp.where(upper, jnp.cos(angle), 1 - jnp.cos(angle))
    y = jnp.where(upper, jnp.sin(angle), 0.5 - jnp.sin(angle))
    return jnp.stack([x, y], axis=1) + 0.1 * random.normal(noise_key, (n, 2)), jnp.where(upper, 1.0, -1.0)


@jax.jit
def pegasos(x, y, key, penalty=0.01, steps=5000):
    """Shalev-Shwartz, Singer and Srebro (2007): one example a step."""
    x = jnp.hstack([x, jnp.ones((len(x), 1))])

    def step(t, w):
        k = random.randint(random.fold_in(key, t), (), 0, len(x))
        hinge = jax.grad(lambda w: jax.nn.relu(1 - y[k] * (x[k] @ w)))(w)
        return w - (penalty * w + hinge) / (penalty * (t + 1))

    w = lax.fori_loop(0, steps, step, jnp.zeros(x.shape[1]))
    return jnp.sign(x @ w)


def rbf(a, b, gamma=2.0):
    square = jnp.sum(a**2, axis=1)[:, None] - 2 * a @ b.T + jnp.sum(b**2, axis=1)
    return jnp.exp(-gamma * square)


@functools.partial(jax.jit, static_argnames=("kernel", "sweeps"))
def fit_dual(x, y, kernel=rbf, bound=10.0, sweeps=30):
    """Maximises sum(a) - a Q a / 2 over 0 <= a <= bound, where Q = y y' (K + 1)."""
    q = (kernel(x, x) + 1) * jnp.outer(y, y)

    def coordinate(a, i):
        new = jnp.clip(a[i] + (1 - q[i] @ a) / q[i, i], 0, bound)
        return a.at[i].set(new), jnp.abs(new - a[i])

    def sweep(a, _):
        a, change = lax.scan(coordinate, a, jnp.arange(len(a)))
        return a, change.max()

    return lax.scan(sweep, jnp.zeros_like(y), length=sweeps)


def main():
    train_key, test_key, sgd_key = random.split(random.key(5), 3)
    x, y = moons(train_key, 200)
    test_x, test_y = moons(test_key, 500)
    linear = jnp.mean(pegasos(x, y, sgd_key) == y)
    a, change = fit_dual(x, y)
    predicted = jnp.sign((rbf(test_x, x) + 1) @ (a * y))
    accuracy = jnp.mean(predicted == test_y)
    support = jnp.count_nonzero(a > 1e-3)
    print(f"linear: accuracy {linear:.3f}")
    print(f"kernel: accuracy {accuracy:.3f} on new points, {support} of {len(y)} points support, last change {change[-1]:.2f}")
    return linear, accuracy, support / len(y), jnp.sum(a)


if __name__ == "__main__":
    main()
