"""Modules of flax.linen: state, random streams, loops."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


class Net(nn.Module):
    @nn.compact
    def __call__(self, x, train=True):
        x = nn.relu(nn.Conv(8, (3, 3))(x))
        x = nn.max_pool(nn.BatchNorm(use_running_average=not train)(x), (2, 2), (2, 2))
        x = nn.Dropout(0.1, deterministic=not train)(x.reshape(x.shape[0], -1))
        return nn.Dense(4)(nn.gelu(nn.LayerNorm()(nn.Dense(16)(x))))


net = Net()
x = jax.random.normal(jax.random.key(0), (8, 12, 12, 1))
y = jnp.arange(8) % 4
variables = net.init({"params": jax.random.key(1), "dropout": jax.random.key(2)}, x)
optimiser = optax.adam(1e-2)
params, stats, state = variables["params"], variables["batch_stats"], optimiser.init(variables["params"])


@jax.jit
def step(params, stats, state, key):
    def loss(params):
        out, updated = net.apply({"params": params, "batch_stats": stats}, x, rngs={"dropout": key}, mutable=["batch_stats"])
        return optax.softmax_cross_entropy_with_integer_labels(out, y).mean(), updated["batch_stats"]

    (value, new_stats), g = jax.value_and_grad(loss, has_aux=True)(params)
    updates, new_state = optimiser.update(g, state, params)
    return optax.apply_updates(params, updates), new_stats, new_state, value


for i in range(40):
    params, stats, state, value = step(params, stats, state, jax.random.key(i))
assert value < 0.3, value

assert nn.RNN(nn.LSTMCell(8)).init_with_output(jax.random.key(0), jnp.ones((2, 5, 3)))[0].shape == (2, 5, 8)
assert nn.MultiHeadDotProductAttention(num_heads=2).init_with_output(jax.random.key(0), jnp.ones((2, 5, 8)))[0].shape == (2, 5, 8)
assert "Dense" in nn.tabulate(nn.Dense(3), jax.random.key(0))(jnp.ones((1, 2)))
