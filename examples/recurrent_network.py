"""A gated recurrent unit learns to add the two marked numbers of a sequence: `scan` over time, `checkpoint` around its body."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
from jax import lax


@functools.partial(jax.tree_util.register_dataclass, data_fields=["input", "state", "bias", "readout"], meta_fields=["width"])
@dataclasses.dataclass(frozen=True)
class GRU:
    input: jax.Array  # (features, 3 * width): for reset, update and candidate
    state: jax.Array  # (width, 3 * width)
    bias: jax.Array
    readout: jax.Array
    width: int

    @classmethod
    def init(cls, key, features, width):
        k1, k2, k3 = jax.random.split(key, 3)
        orthogonal = jax.nn.initializers.orthogonal()
        return cls(
            input=jax.nn.initializers.lecun_normal()(k1, (features, 3 * width)),
            state=jnp.concatenate([orthogonal(k, (width, width)) for k in jax.random.split(k2, 3)], axis=1),
            bias=jnp.zeros(3 * width),
            readout=jax.random.normal(k3, (width,)) / width**0.5,
            width=width,
        )

    def step(self, h, x):
        from_input = jnp.split(x @ self.input + self.bias, 3)
        from_state = jnp.split(h @ self.state, 3)
        reset, update = (jax.nn.sigmoid(a + b) for a, b in zip(from_input[:2], from_state[:2]))
        candidate = jnp.tanh(from_input[2] + reset * from_state[2])
        return update * h + (1 - update) * candidate

    def __call__(self, xs):
        body = jax.checkpoint(lambda h, x: (self.step(h, x), None))
        h, _ = lax.scan(body, jnp.zeros(self.width), xs)
        return h @ self.readout


def adding_problem(key, batch, length):
    """Sequences (batch, length, 2) of numbers and marks, and the sums of the two marked numbers of each."""
    values_key, first_key, second_key = jax.random.split(key, 3)
    values = jax.random.uniform(values_key, (batch, length))
    first = jax.random.randint(first_key, (batch,), 0, length // 2)
    second = jax.random.randint(second_key, (batch,), length // 2, length)
    marks = jax.nn.one_hot(first, length) + jax.nn.one_hot(second, length)
    return jnp.stack([values, marks], axis=-1), (values * marks).sum(axis=1)


def loss(model, xs, ys):
    return jnp.mean((jax.vmap(model)(xs) - ys) ** 2)


@jax.jit
def train_step(model, mean, square, key, count):
    xs, ys = adding_problem(key, 64, 16)
    value, grads = jax.value_and_grad(loss)(model, xs, ys)
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, grads)
    square = jax.tree.map(lambda s, g: 0.99 * s + 0.01 * g**2, square, grads)
    scale = 0.01 * jnp.sqrt(1 - 0.99**count) / (1 - 0.9**count)
    model = jax.tree.map(lambda p, m, s: p - scale * m / (jnp.sqrt(s) + 1e-6), model, mean, square)
    return model, mean, square, value


def main(steps=300):
    model_key, data_key, test_key = jax.random.split(jax.random.key(0), 3)
    model = GRU.init(model_key, features=2, width=24)
    mean = square = jax.tree.map(jnp.zeros_like, model)
    for count, key in enumerate(jax.random.split(data_key, steps), start=1):
        model, mean, square, value = train_step(model, mean, square, key, count)
        if count % 100 == 0:
            print(f"step {count}: loss {value:.3f}")
    xs, ys = adding_problem(test_key, 256, 16)
    error = jnp.sqrt(loss(model, xs, ys))
    print(f"error of a sum {error:.2f}; always saying 1.0 errs by {jnp.sqrt(jnp.mean((ys - 1) ** 2)):.2f}")
    return error


if __name__ == "__main__":
    main()
