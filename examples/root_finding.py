"""Kepler's equation M = E - e sin E: Newton in a while loop, bisection, and derivatives by the implicit function theorem."""

import functools

import jax
import jax.numpy as jnp
from jax import lax


def kepler(anomaly, mean, eccentricity):
    return anomaly - eccentricity * jnp.sin(anomaly) - mean


def newton(f, x, tolerance=1e-6, limit=50):
    def unfinished(state):
        x, step, count = state
        return (jnp.abs(step) > tolerance) & (count < limit)

    def improve(state):
        x, _, count = state
        value, slope = jax.jvp(f, (x,), (jnp.ones_like(x),))
        step = value / slope
        return x - step, step, count + 1

    x, _, count = lax.while_loop(unfinished, improve, (x, jnp.full_like(x, jnp.inf), 0))
    return x, count


def bisect(f, low, high, count=30):
    def halve(_, ends):
        low, high = ends
        middle = 0.5 * (low + high)
        return jnp.where(f(low) * f(middle) <= 0, jnp.array([low, middle]), jnp.array([middle, high]))

    return lax.fori_loop(0, count, halve, jnp.array([low, high])).mean()


@jax.custom_jvp
def eccentric_anomaly(mean, eccentricity):
    start = mean + eccentricity * jnp.sin(mean)
    return newton(lambda x: kepler(x, mean, eccentricity), start)[0]


@eccentric_anomaly.defjvp
def _(primals, tangents):
    root = eccentric_anomaly(*primals)
    slope, by_rest = jax.grad(kepler)(root, *primals), jax.jvp(functools.partial(kepler, root), primals, tangents)[1]
    return root, -by_rest / slope


@jax.jit
def by_custom_root(mean, eccentricity):
    """The same derivatives, by the library's own `custom_root`."""
    return lax.custom_root(
        lambda x: kepler(x, mean, eccentricity),
        mean,
        lambda f, x: newton(f, x)[0],
        lambda linear, y: y / linear(jnp.ones_like(y)),
    )


def main():
    mean, eccentricity = jnp.meshgrid(jnp.linspace(0.1, 3.0, 30), jnp.array([0.1, 0.5, 0.9]))
    solve = jnp.vectorize(lambda m, e: newton(lambda x: kepler(x, m, e), m + e * jnp.sin(m)))
    root, count = jax.jit(solve)(mean, eccentricity)
    halved = jax.jit(jax.vmap(jax.vmap(lambda m, e: bisect(lambda x: kepler(x, m, e), 0.0, jnp.pi))))(mean, eccentricity)
    print(f"at most {count.max()} steps of Newton; bisection differs by less than 1e-5: {jnp.abs(root - halved).max() < 1e-5}")
    grads = jax.vmap(jax.grad(eccentric_anomaly, argnums=(0, 1)))(mean[:, 9], eccentricity[:, 9])
    for e, by_mean, by_eccentricity in zip(eccentricity[:, 9], *grads):
        print(f"e = {e:.1f}: dE/dM = {by_mean:.4f}, dE/de = {by_eccentricity:.4f}")
    again = jax.vmap(jax.grad(by_custom_root, argnums=(0, 1)))(mean[:, 9], eccentricity[:, 9])
    agree = jax.tree.all(jax.tree.map(lambda a, b: jnp.allclose(a, b, rtol=1e-4), grads, again))
    print(f"custom_root agrees: {agree}")
    return root.sum(), jnp.stack(grads), agree


if __name__ == "__main__":
    main()
