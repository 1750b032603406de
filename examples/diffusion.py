"""Denoising diffusion on a ring of eight spots: a network learns the noise, a scan backwards in time turns noise into the ring."""

import jax
import jax.numpy as jnp
from jax import lax, random

STEPS = 40
BETA = jnp.linspace(1e-3, 0.2, STEPS)
ALPHA = 1 - BETA
SIGNAL = jnp.cumprod(ALPHA)


def ring(key, n):
    spot, noise = random.split(key)
    angle = random.randint(spot, (n,), 0, 8) * (jnp.pi / 4)
    return jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=-1) + 0.05 * random.normal(noise, (n, 2))


def features(t):
    frequency = 2.0 ** jnp.arange(4)
    angle = t[..., None] / STEPS * frequency
    return jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], axis=-1)


def init(key, width=64):
    sizes = [(2 + 8, width), (width, width), (width, 2)]
    return [(random.normal(k, s) * (2 / s[0]) ** 0.5, jnp.zeros(s[1])) for k, s in zip(random.split(key, 3), sizes)]


def noise_of(params, x, t):
    h = jnp.concatenate([x, features(t)], axis=-1)
    for w, b in params[:-1]:
        h = jax.nn.gelu(h @ w + b)
    w, b = params[-1]
    return h @ w + b


def loss(params, key):
    data_key, time_key, noise_key = random.split(key, 3)
    x = ring(data_key, 256)
    t = random.randint(time_key, (256,), 0, STEPS)
    noise = random.normal(noise_key, x.shape)
    signal = SIGNAL[t][:, None]
    noisy = jnp.sqrt(signal) * x + jnp.sqrt(1 - signal) * noise
    return jnp.mean((noise_of(params, noisy, t) - noise) ** 2)


@jax.jit
def train(params, keys):
    def step(carry, key):
        params, mean, square, average = carry
        value, grads = jax.value_and_grad(loss)(params, key)
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, grads)
        square = jax.tree.map(lambda s, g: 0.99 * s + 0.01 * g**2, square, grads)
        params = jax.tree.map(lambda p, m, s: p - 0.003 * m / (jnp.sqrt(s) + 1e-6), params, mean, square)
        average = jax.tree.map(lambda a, p: 0.98 * a + 0.02 * p, average, params)
        return (params, mean, square, average), value

    zeros = jax.tree.map(jnp.zeros_like, params)
    (_, _, _, average), values = lax.scan(step, (params, zeros, zeros, params), keys)
    return average, values


@jax.jit
def sample(params, key):
    def denoise(x, inputs):
        t, key = inputs
        predicted = noise_of(params, x, jnp.broadcast_to(t, x.shape[:1]))
        mean = (x - BETA[t] / jnp.sqrt(1 - SIGNAL[t]) * predicted) / jnp.sqrt(ALPHA[t])
        fresh = jnp.where(t > 0, random.normal(key, x.shape), 0.0)
        return mean + jnp.sqrt(BETA[t]) * fresh, None

    start, walk = random.split(key)
    x = random.normal(start, (500, 2))
    x, _ = lax.scan(denoise, x, (jnp.arange(STEPS), random.split(walk, STEPS)), reverse=True)
    return x


def main(steps=600):
    init_key, train_key, sample_key = random.split(random.key(0), 3)
    params, values = train(init(init_key), random.split(train_key, steps))
    print(f"loss {values[:50].mean():.2f} -> {values[-50:].mean():.2f}")
    x = sample(params, sample_key)
    radius = jnp.linalg.norm(x, axis=1)
    spot = jnp.round(jnp.arctan2(x[:, 1], x[:, 0]) / (jnp.pi / 4)).astype(int) % 8
    share = jnp.bincount(spot, length=8) / len(x)
    print(f"radius {radius.mean():.2f} +- {radius.std():.1f}; the rarest of eight spots has {share.min():.0%} of the points")
    return radius.mean(), values[-50:].mean()


if __name__ == "__main__":
    main()
