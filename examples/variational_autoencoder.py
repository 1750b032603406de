"""A variational autoencoder of stripes: it should find that two numbers, direction and phase, say all about a picture."""

import jax
import jax.numpy as jnp
from jax import random
from jax.flatten_util import ravel_pytree

SIDE, LATENT, HIDDEN = 8, 2, 64


def stripes(key):
    """A picture (SIDE * SIDE,) of bits."""
    direction, phase, noise = random.split(key, 3)
    angle = random.uniform(direction, maxval=jnp.pi)
    shift = random.uniform(phase, maxval=2 * jnp.pi)
    y, x = jnp.meshgrid(jnp.arange(SIDE), jnp.arange(SIDE), indexing="ij")
    brightness = jax.nn.sigmoid(4 * jnp.sin(x * jnp.cos(angle) + y * jnp.sin(angle) + shift))
    return random.bernoulli(noise, brightness).ravel().astype(jnp.float32)


def dense(key, n_in, n_out):
    return {"w": random.normal(key, (n_in, n_out)) / jnp.sqrt(n_in), "b": jnp.zeros((n_out,))}


def mlp(layers, x):
    *hidden, last = layers
    for p in hidden:
        x = jax.nn.silu(x @ p["w"] + p["b"])
    return x @ last["w"] + last["b"]


def negative_elbo(params, x, key):
    mean, log_var = jnp.split(mlp(params["encoder"], x), 2)
    z = mean + jnp.exp(0.5 * log_var) * random.normal(key, mean.shape)
    logits = mlp(params["decoder"], z)
    reconstruction = jnp.sum(jax.nn.softplus(logits) - x * logits)
    kl = -0.5 * jnp.sum(1 + log_var - mean**2 - jnp.exp(log_var))
    return reconstruction + kl, {"reconstruction": reconstruction, "kl": kl}


def main(steps=300, batch=128):
    k = random.split(random.key(0), 6)
    params = {
        "encoder": [dense(k[0], SIDE * SIDE, HIDDEN), dense(k[1], HIDDEN, 2 * LATENT)],
        "decoder": [dense(k[2], LATENT, HIDDEN), dense(k[3], HIDDEN, SIDE * SIDE)],
    }
    flat, unravel = ravel_pytree(params)
    data = jax.vmap(stripes)(random.split(k[4], 1024))

    def loss(flat, x, key):
        values, parts = jax.vmap(negative_elbo, in_axes=(None, 0, 0))(unravel(flat), x, random.split(key, len(x)))
        return values.mean(), jax.tree.map(jnp.mean, parts)

    @jax.jit
    def train(flat, key):
        def step(carry, key):
            flat, mean, square, count = carry
            pick, noise = random.split(key)
            x = random.choice(pick, data, (batch,), replace=False)
            grads, parts = jax.grad(loss, has_aux=True)(flat, x, noise)
            mean, square, count = 0.9 * mean + 0.1 * grads, 0.99 * square + 0.01 * grads**2, count + 1
            flat -= 0.01 * (mean / (1 - 0.9**count)) / (jnp.sqrt(square / (1 - 0.99**count)) + 1e-6)
            return (flat, mean, square, count), parts

        start = (flat, jnp.zeros_like(flat), jnp.zeros_like(flat), 0)
        (flat, *_), history = jax.lax.scan(step, start, random.split(key, steps))
        return flat, history

    trained, history = train(flat, k[5])
    for at in (0, steps // 2, steps - 1):
        print(f"step {at + 1:3d}: reconstruction {history['reconstruction'][at]:.0f} nats, KL {history['kl'][at]:.0f} nats")
    before, _ = loss(flat, data, random.key(1))
    after, _ = loss(trained, data, random.key(1))
    print(f"{flat.size} parameters; bound {before:.0f} -> {after:.0f} nats a picture; guessing bits costs {SIDE * SIDE * jnp.log(2):.0f}")
    return before, after


if __name__ == "__main__":
    main()
