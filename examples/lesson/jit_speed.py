import time

import jax
import jax.numpy as jnp


def step(m):
    for _ in range(50):
        m = (m @ m) / jnp.linalg.norm(m)
    return m


fast = jax.jit(step)
x = jax.random.normal(jax.random.key(0), (200, 200))
fast(x).block_until_ready()

start = time.perf_counter()
step(x).block_until_ready()
plain = time.perf_counter() - start

start = time.perf_counter()
fast(x).block_until_ready()
jitted = time.perf_counter() - start

print(f"plain: {plain * 1e3:.2f} ms, jitted: {jitted * 1e3:.2f} ms")
