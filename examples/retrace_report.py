"""Why did it trace again? What changed between calls is logged: a shape, a dtype, a static value."""

import functools

import jax
import jax.numpy as jnp


@functools.partial(jax.jit, static_argnames="power")
def f(x, power=2):
    return (x**power).sum()


def main():
    four, five, integers = jnp.ones(4), jnp.ones(5), jnp.ones(5, jnp.int32)
    with jax.explain_cache_misses(True):
        f(four)
        f(four)
        f(five)
        f(integers)
        f(five, power=3)
    print("traced", f._cache_size(), "times in 5 calls")
    return f._cache_size()


if __name__ == "__main__":
    main()
