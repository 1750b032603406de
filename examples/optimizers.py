"""Five optimisers, written out as pairs of functions over pytrees, train one small network to tell two spirals apart."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Optimizer(NamedTuple):
    init: callable
    update: callable  # (gradients, state, parameters) -> (steps, state)


def momentum(rate, decay=0.9):
    def update(grads, velocity, params):
        velocity = jax.tree.map(lambda v, g: decay * v - rate * g, velocity, grads)
        return velocity, velocity

    return Optimizer(lambda params: jax.tree.map(jnp.zeros_like, params), update)


def sgd(rate):
    return Optimizer(lambda params: (), lambda grads, state, params: (jax.tree.map(lambda g: -rate * g, grads), state))


def rmsprop(rate, decay=0.9, eps=1e-6):
    def update(grads, square, params):
        square = jax.tree.map(lambda s, g: decay * s + (1 - decay) * g**2, square, grads)
        return jax.tree.map(lambda g, s: -rate * g * jax.lax.rsqrt(s + eps), grads, square), square

    return Optimizer(lambda params: jax.tree.map(jnp.zeros_like, params), update)


class AdamState(NamedTuple):
    count: jax.Array
    mean: dict
    square: dict


def adamw(rate, b1=0.9, b2=0.999, eps=1e-6, weight_decay=1e-4):
    def init(params):
        mean, square = (jax.tree.map(jnp.zeros_like, params) for _ in range(2))
        return AdamState(jnp.zeros((), jnp.int32), mean, square)

    def update(grads, state, params):
        count = state.count + 1
        mean = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state.mean, grads)
        square = jax.tree.map(lambda s, g: b2 * s + (1 - b2) * g * g, state.square, grads)

        def step(m, s, p):
            return -rate * (m / (1 - b1**count) / (jnp.sqrt(s / (1 - b2**count)) + eps) + weight_decay * p)

        return jax.tree.map(step, mean, square, params), AdamState(count, mean, square)

    return Optimizer(init, update)


def lion(rate, b1=0.9, b2=0.99):
    def update(grads, mean, params):
        steps = jax.tree.map(lambda m, g: -rate * jnp.sign(b1 * m + (1 - b1) * g), mean, grads)
        return steps, jax.tree.map(lambda m, g: b2 * m + (1 - b2) * g, mean, grads)

    return Optimizer(lambda params: jax.tree.map(jnp.zeros_like, params), update)


def spirals(key, n):
    turn = jnp.linspace(0.3, 1.5, n) * jnp.pi
    arm = turn[:, None] * jnp.stack([jnp.cos(turn), jnp.sin(turn)], axis=1) / 4
    points = jnp.concatenate([arm, -arm]) + 0.03 * jax.random.normal(key, (2 * n, 2))
    return points, jnp.repeat(jnp.array([1.0, -1.0]), n)


def network(params, x):
    for w, b in params["hidden"]:
        x = jnp.tanh(x @ w + b)
    return x @ params["out"]


def loss(params, x, y):
    return jax.nn.softplus(-y * network(params, x)).mean()


def train(optimizer, params, x, y, steps):
    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def step(params, state):
        value, grads = jax.value_and_grad(loss)(params, x, y)
        steps, state = optimizer.update(grads, state, params)
        return jax.tree.map(jnp.add, params, steps), state, value

    params = jax.tree.map(jnp.copy, params)  # what is donated is gone
    state = optimizer.init(params)
    for _ in range(steps):
        params, state, value = step(params, state)
    return float(value), float((jnp.sign(network(params, x)) == y).mean())


def main():
    data, *keys = jax.random.split(jax.random.key(0), 4)
    x, y = spirals(data, 100)
    glorot = jax.nn.initializers.glorot_normal()
    sizes = [(2, 16), (16, 16)]
    params = {
        "hidden": [(glorot(k, s), jnp.zeros(s[1])) for k, s in zip(keys, sizes)],
        "out": jax.random.normal(keys[-1], (16,)) / 4,
    }
    optimizers = {"sgd": sgd(0.5), "momentum": momentum(0.1), "rmsprop": rmsprop(0.01), "adamw": adamw(0.02), "lion": lion(0.003)}
    results = {name: train(o, params, x, y, steps=200) for name, o in optimizers.items()}
    for name, (value, accuracy) in results.items():
        print(f"{name:9s} loss {value:.4f}  accuracy {accuracy:.3f}")
    return results


if __name__ == "__main__":
    main()
