"""A thousand random walks: after n steps the mean squared distance is n."""

import functools

import jax
import jax.numpy as jnp


@functools.partial(jax.jit, static_argnames=("walkers", "steps"))
def walk(key, walkers, steps):
    angle = jax.random.uniform(key, (walkers, steps), maxval=2.0 * jnp.pi)
    return jnp.cumsum(jnp.cos(angle), axis=1), jnp.cumsum(jnp.sin(angle), axis=1)


def main():
    x, y = walk(jax.random.key(7), walkers=1000, steps=400)
    squared = (x**2 + y**2).mean(axis=0)
    for n in (100, 200, 400):
        print(f"after {n} steps: mean squared distance {float(squared[n - 1]):.1f}")
    return float(squared[-1])


if __name__ == "__main__":
    main()
