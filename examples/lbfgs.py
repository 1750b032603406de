"""L-BFGS, written out: the two-loop recursion over a ring buffer and a backtracking line search, all in one compiled `while_loop`."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax


class Memory(NamedTuple):
    steps: jax.Array  # (history, n)
    changes: jax.Array  # (history, n), of the gradient
    curvature: jax.Array  # (history,), 1 / (step . change), 0 where there is none yet


def direction(memory, gradient, count):
    """Minus the inverse Hessian, as far as it is known, times the gradient."""
    history = memory.curvature.shape[0]
    order = (count - 1 - jnp.arange(history)) % history  # newest first

    def newest_first(q, k):
        alpha = memory.curvature[k] * jnp.vdot(memory.steps[k], q)
        return q - alpha * memory.changes[k], alpha

    def oldest_first(r, inputs):
        k, alpha = inputs
        beta = memory.curvature[k] * jnp.vdot(memory.changes[k], r)
        return r + (alpha - beta) * memory.steps[k], None

    q, alphas = lax.scan(newest_first, gradient, order)
    curvature, change = memory.curvature[order[0]], memory.changes[order[0]]
    scale = jnp.where(curvature > 0, 1 / jnp.where(curvature > 0, curvature * jnp.vdot(change, change), 1.0), 1e-3)
    r, _ = lax.scan(oldest_first, scale * q, (order, alphas), reverse=True)
    return -r


def line_search(f, x, value, slope, p):
    """Halves the step until the value falls enough (Armijo)."""

    def too_long(t):
        return (f(x + t * p) > value + 1e-4 * t * slope) & (t > 1e-10)

    return lax.while_loop(too_long, lambda t: 0.5 * t, jnp.ones_like(value))


@functools.partial(jax.jit, static_argnames=("f", "history", "limit"))
def minimize(f, x, *, history=8, limit=200, tolerance=1e-5):
    value_and_grad = jax.value_and_grad(f)

    def unfinished(state):
        _, _, gradient, _, count = state
        return (jnp.linalg.norm(gradient) > tolerance) & (count < limit)

    def iterate(state):
        x, value, gradient, memory, count = state
        p = direction(memory, gradient, count)
        t = line_search(f, x, value, jnp.vdot(gradient, p), p)
        new_x = x + t * p
        new_value, new_gradient = value_and_grad(new_x)
        step, change = new_x - x, new_gradient - gradient
        curved = jnp.vdot(step, change)
        new = Memory(step, change, jnp.where(curved > 1e-12, 1 / curved, 0.0))
        memory = jax.tree.map(lambda old, new: old.at[count % history].set(new), memory, new)
        return new_x, new_value, new_gradient, memory, count + 1

    empty = Memory(jnp.zeros((history, x.size)), jnp.zeros((history, x.size)), jnp.zeros(history))
    x, value, gradient, _, count = lax.while_loop(unfinished, iterate, (x, *value_and_grad(x), empty, 0))
    return x, value, jnp.linalg.norm(gradient), count


def rosenbrock(x):
    return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def styblinski_tang(x):
    return 0.5 * jnp.sum(x**4 - 16 * x**2 + 5 * x)


def chain(x):
    """A hanging chain of springs between two walls."""
    ends = jnp.concatenate([jnp.zeros(1), x, jnp.zeros(1)])
    return jnp.sum(jnp.diff(ends) ** 2) * (x.size + 1) + 2.0 * x.mean()


def main():
    results = {}
    for f, x in ((rosenbrock, jnp.full(20, -0.5)), (styblinski_tang, -jnp.ones(10)), (chain, jnp.zeros(31))):
        with jax.enable_x64(True):
            x, value, norm, count = minimize(f, x.astype(float))
        print(f"{f.__name__:16s} value {value:11.5f}, {'converged' if norm < 1e-5 else 'not converged'}, x[:3] = {jnp.round(x[:3], 3)}")
        results[f.__name__] = value
    return results


if __name__ == "__main__":
    main()
