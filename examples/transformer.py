"""A small causal transformer learns to write a sequence backwards; it is then asked token by token."""

import functools

import jax
import jax.numpy as jnp
from jax import lax, nn

VOCABULARY, HALF, WIDTH, HEADS, LAYERS = 8, 6, 32, 4, 2
SEPARATOR = VOCABULARY


def init(key):
    def dense(key, *shape):
        return nn.initializers.variance_scaling(1.0, "fan_in", "normal")(key, shape)

    def layer(key):
        k = jax.random.split(key, 4)
        return {
            "attention": {"qkv": dense(k[0], WIDTH, 3 * WIDTH), "out": dense(k[1], WIDTH, WIDTH)},
            "mlp": {"up": dense(k[2], WIDTH, 4 * WIDTH), "down": dense(k[3], 4 * WIDTH, WIDTH)},
            "scale": jnp.ones((2, WIDTH)),
        }

    embed, place, layers = jax.random.split(key, 3)
    return {
        "embed": 0.1 * jax.random.normal(embed, (VOCABULARY + 1, WIDTH)),
        "place": 0.1 * jax.random.normal(place, (2 * HALF + 1, WIDTH)),
        "layers": jax.vmap(layer)(jax.random.split(layers, LAYERS)),  # one pytree, its leaves stacked: for `scan`
    }


def rms_norm(x, scale):
    return x * lax.rsqrt(jnp.mean(x**2, axis=-1, keepdims=True) + 1e-6) * scale


def attention(params, x):
    q, k, v = (a.reshape(*x.shape[:-1], HEADS, -1) for a in jnp.split(x @ params["qkv"], 3, axis=-1))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(q.shape[-1])
    causal = jnp.tril(jnp.ones((x.shape[1],) * 2, bool))
    weights = nn.softmax(jnp.where(causal, scores, -jnp.inf), axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape) @ params["out"]


def logits(params, tokens):
    def layer(x, p):
        x = x + attention(p["attention"], rms_norm(x, p["scale"][0]))
        x = x + nn.gelu(rms_norm(x, p["scale"][1]) @ p["mlp"]["up"]) @ p["mlp"]["down"]
        return x, None

    x = params["embed"][tokens] + params["place"][: tokens.shape[1]]
    x, _ = lax.scan(layer, x, params["layers"])
    return rms_norm(x, 1.0) @ params["embed"].T


def batch(key, size):
    half = jax.random.randint(key, (size, HALF), 0, VOCABULARY)
    return jnp.concatenate([half, jnp.full((size, 1), SEPARATOR), half[:, ::-1]], axis=1)


def loss(params, sequence):
    logp = nn.log_softmax(logits(params, sequence[:, :-1]))
    picked = jnp.take_along_axis(logp, sequence[:, 1:, None], axis=-1)[..., 0]
    return -picked[:, HALF:].mean()  # the first half cannot be foretold


@jax.jit
def train_step(params, mean, square, count, key):
    value, grads = jax.value_and_grad(loss)(params, batch(key, 64))
    norm = jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(grads)))
    grads = jax.tree.map(lambda g: g * jnp.minimum(1.0, 1.0 / norm), grads)
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, grads)
    square = jax.tree.map(lambda s, g: 0.98 * s + 0.02 * g**2, square, grads)
    rate = 0.005 * jnp.minimum(1.0, count / 50)
    params = jax.tree.map(lambda p, m, s: p - rate * m / (jnp.sqrt(s / (1 - 0.98**count)) + 1e-6), params, mean, square)
    return params, mean, square, value


@functools.partial(jax.jit, static_argnames="length")
def generate(params, prompt, length):
    """The prompt (batch, n), filled up to `length` by the likeliest tokens."""

    def write(place, tokens):
        best = jnp.argmax(logits(params, tokens)[:, place - 1, :VOCABULARY], axis=-1)
        return tokens.at[:, place].set(best.astype(tokens.dtype))

    tokens = jnp.pad(prompt, ((0, 0), (0, length - prompt.shape[1])))
    return lax.fori_loop(prompt.shape[1], length, write, tokens)


def main(steps=150):
    init_key, train_key, test_key = jax.random.split(jax.random.key(0), 3)
    params = init(init_key)
    mean = square = jax.tree.map(jnp.zeros_like, params)
    for count, key in enumerate(jax.random.split(train_key, steps), start=1):
        params, mean, square, value = train_step(params, mean, square, count, key)
        if count % 50 == 0:
            print(f"step {count}: loss {value:.1f}")
    test = batch(test_key, 100)
    answer = generate(params, test[:, : HALF + 1], 2 * HALF + 1)
    correct = (answer[:, HALF + 1 :] == test[:, HALF + 1 :]).mean()
    print("asked ", *test[0, :HALF].tolist())
    print("answer", *answer[0, HALF + 1 :].tolist())
    print(f"{correct:.0%} of the tokens are right")
    return correct, value


if __name__ == "__main__":
    main()
