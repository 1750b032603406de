"""A wave packet meets a wall: half steps in space and full steps in frequency; how much tunnels through, against the textbook."""

import functools

import jax
import jax.numpy as jnp


@functools.partial(jax.jit, static_argnames="steps")
def evolve(psi, potential, frequency, dt, steps):
    half = jnp.exp(-0.5j * dt * potential)
    full = jnp.exp(-0.5j * dt * frequency**2)

    def step(_, psi):
        return half * jnp.fft.ifft(full * jnp.fft.fft(half * psi))

    return jax.lax.fori_loop(0, steps, step, psi)


def transmission(energy, height, width):
    """The chance to pass a wall of this height and width (units in which mass and Planck's constant are 1)."""
    inside = jnp.sqrt(2 * (height - energy) + 0j)
    return 1 / (1 + jnp.abs(height**2 * jnp.sinh(inside * width) ** 2) / (4 * energy * jnp.abs(height - energy)))


def main(n=1024, length=200.0):
    x = (jnp.arange(n) - n / 2) * (length / n)
    frequency = 2 * jnp.pi * jnp.fft.fftfreq(n, length / n)
    wall = jnp.where((x >= 0) & (x < 1), 2.0, 0.0)
    width = jnp.count_nonzero(wall) * length / n
    print("momentum   through   textbook   norm")
    shares = []
    for momentum in (1.0, 1.5, 2.0, 2.5):
        psi = jnp.exp(-(((x + 40) / 12) ** 2) + 1j * momentum * x)
        psi /= jnp.linalg.norm(psi)
        after = evolve(psi, wall, frequency, 0.02, steps=int(80 / momentum / 0.02))
        share = jnp.sum(jnp.abs(after[n // 2 :]) ** 2)
        spectrum = jnp.abs(jnp.fft.fft(psi)) ** 2
        waves = jnp.where(frequency > 0, spectrum / spectrum.sum(), 0.0)
        textbook = jnp.sum(waves * transmission(jnp.maximum(frequency, 0.01) ** 2 / 2 + 1e-4, 2.0, width))
        print(f"{momentum:8.1f} {share:9.3f} {textbook:10.3f} {jnp.linalg.norm(after):6.3f}")
        shares.append(share)
    return jnp.stack(shares)


if __name__ == "__main__":
    main()
