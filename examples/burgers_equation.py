"""Burgers' equation by Fourier's method and an integrating factor: a sine wave steepens to a shock. Drawn in characters."""

import functools

import jax
import jax.numpy as jnp


@functools.partial(jax.jit, static_argnames=("steps", "every"))
def solve(u, viscosity, dt, steps, every):
    """The waves (steps // every + 1, n) at equal times, by the fourth-order method of Runge and Kutta."""
    n = u.shape[0]
    wave = jnp.fft.rfftfreq(n, 1 / n) * 1j
    damping = jnp.exp(viscosity * wave**2 * dt / 2)
    kept = jnp.abs(wave) < n / 3  # against aliasing

    def slope(v):
        return -0.5 * wave * kept * jnp.fft.rfft(jnp.fft.irfft(v, n) ** 2)

    def step(_, v):
        a = slope(v)
        b = slope(damping * (v + dt / 2 * a))
        c = slope(damping * v + dt / 2 * b)
        d = slope(damping**2 * v + dt * damping * c)
        return damping**2 * v + dt / 6 * (damping**2 * a + 2 * damping * (b + c) + d)

    def record(v, _):
        v = jax.lax.fori_loop(0, every, step, v)
        return v, jnp.fft.irfft(v, n)

    _, history = jax.lax.scan(record, jnp.fft.rfft(u), length=steps // every)
    return jnp.concatenate([u[None], history])


def main(n=128):
    x = jnp.linspace(0, 2 * jnp.pi, n, endpoint=False)
    history = solve(jnp.sin(x), viscosity=0.05, dt=0.005, steps=400, every=100)
    shades = " .:-=+*#%@"
    for u in history:
        level = jnp.clip((u + 1) / 2 * 9.99, 0, 9).astype(int)
        print("".join(shades[k] for k in level[::2].tolist()))
    steepest = jnp.gradient(history, 2 * jnp.pi / n, axis=1).min(axis=1)
    energy = 0.5 * jnp.mean(history**2, axis=1)
    for k in range(len(history)):
        print(f"t = {0.5 * k:.1f}: steepest slope {steepest[k]:6.2f}, energy {energy[k]:.4f}")
    return steepest, energy


if __name__ == "__main__":
    main()
