"""Pi by throwing darts: random numbers, a jitted kernel, an error that falls like 1/sqrt(n)."""

import functools

import jax
import jax.numpy as jnp


@functools.partial(jax.jit, static_argnames="n")
def estimate(key, n):
    xy = jax.random.uniform(key, (n, 2), minval=-1.0, maxval=1.0)
    inside = (xy**2).sum(axis=1) < 1.0
    return 4.0 * inside.mean()


def main():
    key = jax.random.key(42)
    result = None
    for n in (1_000, 10_000, 100_000, 1_000_000):
        key, sub = jax.random.split(key)
        result = estimate(sub, n=n)
        print(f"n = {n:>9,}: pi is about {float(result):.5f}, off by {abs(float(result) - jnp.pi):.5f}")
    return float(result)


if __name__ == "__main__":
    main()
