"""Smoothing a noisy signal: a moving average by cumulative sums, against one by a window of slices."""

import functools

import jax
import jax.numpy as jnp


@functools.partial(jax.jit, static_argnums=1)
def by_cumsum(x, width):
    total = jnp.concatenate([jnp.zeros(1), jnp.cumsum(x)])
    return (total[width:] - total[:-width]) / width


@functools.partial(jax.jit, static_argnums=1)
def by_windows(x, width):
    n = x.shape[0] - width + 1
    return sum(x[k : k + n] for k in range(width)) / width


def main():
    t = jnp.linspace(0.0, 6.0, 601)
    noisy = jnp.sin(t) + 0.3 * jax.random.normal(jax.random.key(3), t.shape)
    a, b = by_cumsum(noisy, 25), by_windows(noisy, 25)
    truth = jnp.sin(t)[12:-12]
    difference = float(jnp.abs(a - b).max())
    before, after = float(jnp.std(noisy - jnp.sin(t))), float(jnp.std(a - truth))
    print(f"noise {before:.3f} before, {after:.3f} after; the two ways agree: {difference < 1e-5}")
    return before, after, difference


if __name__ == "__main__":
    main()
