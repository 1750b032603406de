"""Transformed functions of haiku."""

import haiku as hk
import jax
import jax.numpy as jnp


def f(x, train):
    x = hk.Sequential([hk.Linear(16), jax.nn.relu])(x)
    return hk.Linear(1)(hk.BatchNorm(True, True, 0.9)(x, train))


net = hk.transform_with_state(f)
x = jax.random.normal(jax.random.key(0), (32, 4))
params, state = net.init(jax.random.PRNGKey(1), x, True)
out, state = jax.jit(net.apply, static_argnums=4)(params, state, None, x, True)
assert out.shape == (32, 1)


def unrolled(x):
    core = hk.LSTM(8)
    return hk.dynamic_unroll(core, x, core.initial_state(2))[0]


rnn = hk.transform(unrolled)
params = rnn.init(jax.random.PRNGKey(0), jnp.ones((5, 2, 3)))
assert rnn.apply(params, None, jnp.ones((5, 2, 3))).shape == (5, 2, 8)
