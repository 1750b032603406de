"""The sun and the outer planets for two thousand years: forces are the gradient of the potential, energy must be kept."""

import functools

import jax
import jax.numpy as jnp

G = 2.95912208286e-4  # astronomical units, days, masses of the sun
NAMES = ("sun", "jupiter", "saturn", "uranus", "neptune")
MASS = [1.00000597682, 9.54786104043e-4, 2.85583733151e-4, 4.37273164546e-5, 5.17759138449e-5]
# On day 0: Hairer, Lubich and Wanner, Geometric Numerical Integration, section I.2.
POSITION = [
    [0.0, 0.0, 0.0],
    [-3.5023653, -3.8169847, -1.5507963],
    [9.0755314, -3.0458353, -1.6483708],
    [8.3101420, -16.2901086, -7.2521278],
    [11.4707666, -25.7294829, -10.8169456],
]
VELOCITY = [
    [0.0, 0.0, 0.0],
    [0.00565429, -0.00412490, -0.00190589],
    [0.00168318, 0.00483525, 0.00192462],
    [0.00354178, 0.00137102, 0.00055029],
    [0.00288930, 0.00114527, 0.00039677],
]


def potential(x, mass):
    i, j = jnp.triu_indices(len(mass), k=1)
    return -G * jnp.sum(mass[i] * mass[j] / jnp.linalg.norm(x[i] - x[j], axis=-1))


def energy(x, v, mass):
    return 0.5 * jnp.sum(mass * (v**2).sum(axis=-1)) + potential(x, mass)


def verlet(carry, _, mass, dt):
    x, v, force = carry
    v = v + dt / 2 * force / mass[:, None]
    x = x + dt * v
    force = -jax.grad(potential)(x, mass)
    v = v + dt / 2 * force / mass[:, None]
    return (x, v, force), (energy(x, v, mass), jnp.linalg.norm(x[1:] - x[0], axis=-1))


@functools.partial(jax.jit, static_argnames="steps")
def simulate(x, v, mass, dt, steps):
    start = (x, v, -jax.grad(potential)(x, mass))
    return jax.lax.scan(functools.partial(verlet, mass=mass, dt=dt), start, length=steps)


def main():
    with jax.enable_x64(True):
        x, v, mass = jnp.array(POSITION), jnp.array(VELOCITY), jnp.array(MASS)
        before = energy(x, v, mass)
        (x, v, _), (energies, distance) = simulate(x, v, mass, dt=100.0, steps=7305)
        drift = jnp.abs(energies / before - 1).max()
        print(f"energy {before:.6e}, greatest relative error {drift:.1e}")
        for name, near, far in zip(NAMES[1:], distance.min(axis=0), distance.max(axis=0)):
            print(f"{name:8s} {near:6.2f} .. {far:6.2f} au")
        return drift, distance.min(axis=0), distance.max(axis=0)


if __name__ == "__main__":
    main()
