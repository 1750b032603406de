"""Sinkhorn's algorithm moves one cloud onto another; its derivative comes from the solution, not from the iterations: a `custom_vjp`."""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.special import logsumexp


def costs(x, y):
    return jnp.sum((x[:, None, :] - y[None, :, :]) ** 2, axis=-1)


def sinkhorn(cost, epsilon, tolerance=1e-4, limit=500):
    """The potentials of the transport between uniform weights, and the number of iterations."""
    n, m = cost.shape

    def unfinished(state):
        _, _, change, count = state
        return (change > tolerance) & (count < limit)

    def iterate(state):
        f, _, _, count = state
        g = -epsilon * logsumexp((f[:, None] - cost) / epsilon, axis=0, b=1 / n)
        new = -epsilon * logsumexp((g[None, :] - cost) / epsilon, axis=1, b=1 / m)
        return new, g, jnp.abs(new - f).max(), count + 1

    f, g, _, count = lax.while_loop(unfinished, iterate, (jnp.zeros(n), jnp.zeros(m), jnp.inf, 0))
    return f, g, count


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def transport_cost(x, y, epsilon):
    """The regularised cost, by its dual."""
    f, g, _ = sinkhorn(costs(x, y), epsilon)
    return f.mean() + g.mean()


def transport_forward(x, y, epsilon):
    cost = costs(x, y)
    f, g, _ = sinkhorn(cost, epsilon)
    plan = jnp.exp((f[:, None] + g[None, :] - cost) / epsilon) / cost.size
    return f.mean() + g.mean(), (x, y, plan)


def transport_backward(epsilon, residuals, cotangent):
    """At the optimum only the cost itself depends on the points: the gradient is the plan's (Danskin's theorem)."""
    x, y, plan = residuals
    pull = jax.vjp(lambda x, y: jnp.vdot(plan, costs(x, y)), x, y)[1]
    return pull(cotangent)


transport_cost.defvjp(transport_forward, transport_backward)


@functools.partial(jax.jit, static_argnames=("epsilon", "steps"))
def flow(x, y, epsilon, steps):
    """x, moved down the gradient of the cost, without the regularisation's pull to the middle (Feydy et al., 2019)."""

    def divergence(x):
        return transport_cost(x, y, epsilon) - 0.5 * transport_cost(x, x, epsilon)

    def step(x, _):
        value, grad = jax.value_and_grad(divergence)(x)
        return x - 0.5 * len(x) * 0.3 * grad, value

    return lax.scan(step, x, length=steps)


def main(n=60):
    blob, turn = jax.random.split(jax.random.key(2))
    x = 0.3 * jax.random.normal(blob, (n, 2))
    angle = 2 * jnp.pi * jax.random.uniform(turn, (n,))
    y = jnp.stack([2 + jnp.cos(angle), jnp.sin(angle)], axis=1)
    _, _, count = jax.jit(sinkhorn)(costs(x, y), 0.1)
    before = jax.jit(transport_cost, static_argnums=2)(x, y, 0.1)
    moved, _ = flow(x, y, 0.05, 15)
    after = transport_cost(moved, y, 0.1)
    radius = jnp.linalg.norm(moved - jnp.array([2.0, 0.0]), axis=1)
    print(f"{'fewer' if count < 100 else 'more'} than 100 iterations")
    print(f"cost {before:.3f} -> {after:.3f}; distance from the ring's middle {radius.mean():.2f} +- {radius.std():.2f}")
    direction = jax.random.normal(jax.random.key(3), x.shape)
    slope = (transport_cost(x + 0.01 * direction, y, 0.1) - transport_cost(x - 0.01 * direction, y, 0.1)) / 0.02
    print(f"slope along a direction {jnp.vdot(jax.grad(transport_cost)(x, y, 0.1), direction):.2f}, by differences {slope:.1f}")
    return before, after, radius.mean()


if __name__ == "__main__":
    main()
