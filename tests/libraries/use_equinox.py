"""Models of equinox, and its run-time errors."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

model = eqx.nn.MLP(2, 1, 32, 2, key=jax.random.key(0))
x = jax.random.normal(jax.random.key(1), (64, 2))
y = x[:, :1] * x[:, 1:]
optimiser = optax.adam(1e-2)
state = optimiser.init(eqx.filter(model, eqx.is_array))


@eqx.filter_value_and_grad
def loss(model):
    return jnp.mean((jax.vmap(model)(x) - y) ** 2)


@eqx.filter_jit
def step(model, state):
    value, g = loss(model)
    updates, state = optimiser.update(g, state, model)
    return eqx.apply_updates(model, updates), state, value


for _ in range(100):
    model, state, value = step(model, state)
assert value < 0.01, value

cell = eqx.nn.GRUCell(2, 4, key=jax.random.key(2))
assert jax.lax.scan(lambda h, v: (cell(v, h), None), jnp.zeros(4), x)[0].shape == (4,)
assert eqx.nn.Conv2d(3, 4, 3, key=jax.random.key(3))(jnp.ones((3, 8, 8))).shape == (4, 6, 6)
z = jax.random.normal(jax.random.key(5), (5, 8))
assert eqx.nn.MultiheadAttention(2, 8, key=jax.random.key(4))(z, z, z).shape == (5, 8)


@eqx.filter_jit
def positive(v):
    return eqx.error_if(v, v < 0, "negative!")


assert positive(jnp.float32(1.0)) == 1
try:
    positive(jnp.float32(-1.0))
except RuntimeError as err:
    assert "negative!" in str(err)
else:
    raise AssertionError("no error")
