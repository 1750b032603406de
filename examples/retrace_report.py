"""Why did it trace again? Print what changed between calls: a shape, a dtype, a static value."""

import functools

import jax
import jax.numpy as jnp


@functools.partial(jax.jit, static_argnames="power")
def f(x, power=2):
    return (x**power).sum()


def main():
    f(jnp.ones(4))
    f(jnp.ones(4))
    f(jnp.ones(5))
    f(jnp.ones(5, jnp.int32))
    f(jnp.ones(5), power=3)
    print("traced", f._cache_size(), "times in 5 calls")
    return f._cache_size()


if __name__ == "__main__":
    main()
