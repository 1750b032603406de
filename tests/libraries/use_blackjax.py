"""Window adaptation and NUTS of blackjax."""

import blackjax
import jax
import jax.numpy as jnp


def log_density(x):
    return -0.5 * jnp.sum((x["a"] - 1) ** 2 / 0.25)


warmup = blackjax.window_adaptation(blackjax.nuts, log_density)
(state, parameters), _ = warmup.run(jax.random.key(0), {"a": jnp.zeros(2)}, num_steps=200)
kernel = blackjax.nuts(log_density, **parameters)


@jax.jit
def chain(key, state):
    def step(state, key):
        state, _ = kernel.step(key, state)
        return state, state.position["a"]

    return jax.lax.scan(step, state, jax.random.split(key, 300))[1]


samples = chain(jax.random.key(1), state)
assert jnp.allclose(samples.mean(0), 1, atol=0.2) and jnp.allclose(samples.std(0), 0.5, atol=0.15)
