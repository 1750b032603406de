"""Optimisers of optax."""

import jax
import jax.numpy as jnp
import optax


def loss(p, x, y):
    return jnp.mean((jnp.tanh(x @ p["w1"] + p["b1"]) @ p["w2"] - y) ** 2)


keys = jax.random.split(jax.random.key(0), 4)
start = {"w1": jax.random.normal(keys[0], (3, 16)), "b1": jnp.zeros(16), "w2": jax.random.normal(keys[1], (16, 1))}
x = jax.random.normal(keys[2], (64, 3))
y = jnp.sin(x.sum(1, keepdims=True))

for optimiser in (
    optax.adam(1e-2),
    optax.sgd(1e-2, momentum=0.9, nesterov=True),
    optax.adamw(optax.cosine_decay_schedule(1e-2, 100)),
    optax.adafactor(1e-2),
    optax.chain(optax.clip_by_global_norm(1.0), optax.lamb(1e-2)),
):

    @jax.jit
    def step(p, state, optimiser=optimiser):
        value, g = jax.value_and_grad(loss)(p, x, y)
        updates, state = optimiser.update(g, state, p)
        return optax.apply_updates(p, updates), state, value

    p, state = start, optimiser.init(start)
    for _ in range(60):
        p, state, value = step(p, state)
    assert value < 0.5, value

lbfgs = optax.lbfgs()
value_and_grad = optax.value_and_grad_from_state(lambda p: loss(p, x, y))


@jax.jit
def lbfgs_step(p, state):
    value, g = value_and_grad(p, state=state)
    updates, state = lbfgs.update(g, state, p, value=value, grad=g, value_fn=lambda p: loss(p, x, y))
    return optax.apply_updates(p, updates), state, value


p, state = start, lbfgs.init(start)
for _ in range(20):
    p, state, value = lbfgs_step(p, state)
assert value < 0.05, value
