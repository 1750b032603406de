"""Balancing a pole by policy gradients: the cart's physics, the episodes and the learning are one compiled scan."""

import jax
import jax.numpy as jnp
from jax import lax, random

GRAVITY, CART, POLE, LENGTH, FORCE, DT = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
EPISODE = 200


def physics(state, action):
    """One step of the cart and its pole (Barto, Sutton and Anderson, 1983)."""
    x, speed, angle, turn = state
    force = jnp.where(action == 1, FORCE, -FORCE)
    sin, cos = jnp.sin(angle), jnp.cos(angle)
    push = (force + POLE * LENGTH * turn**2 * sin) / (CART + POLE)
    bend = (GRAVITY * sin - cos * push) / (LENGTH * (4 / 3 - POLE * cos**2 / (CART + POLE)))
    pull = push - POLE * LENGTH * bend * cos / (CART + POLE)
    return jnp.array([x + DT * speed, speed + DT * pull, angle + DT * turn, turn + DT * bend])


def policy(params, state):
    hidden = jnp.tanh(params["in"] @ state)
    return params["out"] @ hidden


def episode(params, key):
    """The states, actions and rewards of an episode; after the fall the rewards are 0."""
    start_key, action_keys = random.split(key)

    def step(carry, key):
        state, alive = carry
        action = random.categorical(key, policy(params, state))
        new = physics(state, action)
        still = alive & (jnp.abs(new[0]) < 2.4) & (jnp.abs(new[2]) < 0.2095)
        return (jnp.where(still, new, state), still), (state, action, alive.astype(jnp.float32))

    start = random.uniform(start_key, (4,), minval=-0.05, maxval=0.05)
    return lax.scan(step, (start, jnp.array(True)), random.split(action_keys, EPISODE))[1]


def surrogate(params, states, actions, advantages, alive):
    logits = jax.vmap(jax.vmap(policy, (None, 0)), (None, 0))(params, states)
    logp = jnp.take_along_axis(jax.nn.log_softmax(logits), actions[..., None], axis=-1)[..., 0]
    entropy = -jnp.sum(jax.nn.softmax(logits) * jax.nn.log_softmax(logits), axis=-1)
    return -jnp.sum(alive * (logp * advantages + 0.01 * entropy)) / jnp.sum(alive)


@jax.jit
def train(params, keys):
    def iterate(carry, key):
        params, mean, square = carry
        states, actions, alive = jax.vmap(episode, (None, 0))(params, random.split(key, 32))
        _, to_go = lax.scan(lambda g, r: (r + 0.99 * g,) * 2, jnp.zeros(32), alive.T, reverse=True)
        returns = to_go.T
        baseline = returns.sum(axis=0) / jnp.maximum(alive.sum(axis=0), 1)
        advantages = (returns - baseline) / (returns.std() + 1e-6)
        grads = jax.grad(surrogate)(params, states, actions, advantages, alive)
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, grads)
        square = jax.tree.map(lambda s, g: 0.95 * s + 0.05 * g**2, square, grads)
        params = jax.tree.map(lambda p, m, s: p - 0.03 * m / (jnp.sqrt(s) + 1e-6), params, mean, square)
        return (params, mean, square), alive.sum(axis=1).mean()

    zeros = jax.tree.map(jnp.zeros_like, params)
    (params, _, _), lengths = lax.scan(iterate, (params, zeros, zeros), keys)
    return params, lengths


def main(iterations=60):
    init_key, train_key, test_key = random.split(random.key(0), 3)
    params = {"in": random.normal(init_key, (16, 4)), "out": jnp.zeros((2, 16))}
    params, lengths = train(params, random.split(train_key, iterations))
    print(f"untrained, the pole stands for {lengths[0]:.0f} steps")
    _, _, alive = jax.vmap(episode, (None, 0))(params, random.split(test_key, 100))
    after = alive.sum(axis=1).mean()
    print(f"trained, for more than 190 of {EPISODE}: {after > 190}")
    return lengths[0], after > 190


if __name__ == "__main__":
    main()
