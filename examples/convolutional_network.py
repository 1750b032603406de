"""A convolutional network tells circles, squares and crosses apart in noisy pictures."""

import jax
import jax.numpy as jnp
from jax import lax


def picture(key):
    """A picture (16, 16, 1) of a shape of a random kind, size and place, and its kind."""
    kind_key, place_key, size_key, noise_key = jax.random.split(key, 4)
    kind = jax.random.randint(kind_key, (), 0, 3)
    centre = jax.random.uniform(place_key, (2,), minval=5.0, maxval=11.0)
    size = jax.random.uniform(size_key, minval=3.0, maxval=5.0)
    y, x = jnp.abs(jnp.mgrid[:16, :16] - centre[:, None, None])

    def circle():
        return jnp.abs(jnp.hypot(x, y) - size) < 0.8

    def square():
        return jnp.abs(jnp.maximum(x, y) - size) < 0.8

    def cross():
        return (jnp.minimum(x, y) < 0.8) & (jnp.maximum(x, y) < size)

    shape = lax.switch(kind, [circle, square, cross])
    return (shape + 0.3 * jax.random.normal(noise_key, shape.shape))[..., None], kind


def init(key):
    k1, k2, k3 = jax.random.split(key, 3)
    he = jax.nn.initializers.he_normal(in_axis=(0, 1, 2))
    return {
        "conv1": {"kernel": he(k1, (3, 3, 1, 8)), "bias": jnp.zeros(8)},
        "conv2": {"kernel": he(k2, (3, 3, 8, 16)), "bias": jnp.zeros(16)},
        "dense": {"kernel": jax.nn.initializers.zeros(k3, (16, 3)), "bias": jnp.zeros(3)},
    }


def conv(params, x):
    y = lax.conv_general_dilated(x, params["kernel"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return y + params["bias"]


def max_pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def logits(params, x):
    x = max_pool(jax.nn.relu(conv(params["conv1"], x)))
    x = max_pool(jax.nn.relu(conv(params["conv2"], x)))
    x = x.max(axis=(1, 2))
    return x @ params["dense"]["kernel"] + params["dense"]["bias"]


def loss(params, x, labels):
    targets = jax.nn.one_hot(labels, 3) * 0.9 + 0.1 / 3
    logp = jax.nn.log_softmax(logits(params, x))
    return -(targets * logp).sum(axis=-1).mean()


@jax.jit
def train_step(params, velocity, key):
    images, labels = jax.vmap(picture)(jax.random.split(key, 64))
    value, grads = jax.value_and_grad(loss)(params, images, labels)
    velocity = jax.tree.map(lambda v, g: 0.9 * v - 0.05 * g, velocity, grads)
    return jax.tree.map(jnp.add, params, velocity), velocity, value


def main(steps=150):
    init_key, train_key, test_key = jax.random.split(jax.random.key(0), 3)
    params = init(init_key)
    velocity = jax.tree.map(jnp.zeros_like, params)
    for count, key in enumerate(jax.random.split(train_key, steps), start=1):
        params, velocity, value = train_step(params, velocity, key)
        if count % 50 == 0:
            print(f"step {count}: loss {value:.2f}")
    images, labels = jax.vmap(picture)(jax.random.split(test_key, 500))
    predicted = logits(params, images).argmax(axis=-1)
    confusion = jnp.zeros((3, 3), int).at[labels, predicted].add(1)
    accuracy = jnp.trace(confusion) / confusion.sum()
    print(f"accuracy {accuracy:.2f}")
    return accuracy, value


if __name__ == "__main__":
    main()
