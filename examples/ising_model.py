"""The Ising model: checkerboard Metropolis at eight temperatures at once; magnetisation is lost at the critical one."""

import functools

import jax
import jax.numpy as jnp
from jax import lax, random

CRITICAL = 2 / jnp.log(1 + jnp.sqrt(2.0))


def neighbours(spins):
    return sum(jnp.roll(spins, shift, axis) for shift in (1, -1) for axis in (0, 1))


def energy(spins):
    return -jnp.mean(spins * (jnp.roll(spins, 1, 0) + jnp.roll(spins, 1, 1)))


def half_sweep(spins, key, beta, colour):
    """Metropolis at the sites of one colour, which do not touch each other."""
    board = jnp.indices(spins.shape).sum(axis=0) % 2 == colour
    cost = 2 * spins * neighbours(spins)
    flip = board & (random.uniform(key, spins.shape) < jnp.exp(-beta * cost))
    return jnp.where(flip, -spins, spins)


@functools.partial(jax.jit, static_argnames=("n", "warm", "sweeps"))
def simulate(key, temperature, n, warm, sweeps):
    beta = 1 / temperature

    def sweep(spins, key):
        black, white = random.split(key)
        spins = half_sweep(half_sweep(spins, black, beta, 0), white, beta, 1)
        return spins, (jnp.abs(spins.mean()), energy(spins))

    spins, (magnetisation, energies) = lax.scan(sweep, jnp.ones((n, n)), random.split(key, warm + sweeps))
    return spins, magnetisation[warm:].mean(), energies[warm:].mean(), n * n * beta**2 * energies[warm:].var()


def main(n=32):
    temperature = jnp.linspace(1.5, 3.25, 8)
    run = jax.vmap(functools.partial(simulate, n=n, warm=200, sweeps=600))
    spins, magnetisation, energies, heat = run(random.split(random.key(0), 8), temperature)
    print(" T     |m|   onsager  energy")
    onsager = jnp.where(temperature < CRITICAL, jnp.maximum(0, 1 - jnp.sinh(2 / temperature) ** -4.0) ** 0.125, 0.0)
    for row in zip(temperature, magnetisation, onsager, energies):
        print("{:.2f}  {:.2f}    {:.2f}   {:6.2f}".format(*map(float, row)))
    near = jnp.abs(temperature - CRITICAL).argmin()
    for line in spins[near, ::2]:
        print("".join("#" if s > 0 else "." for s in line.tolist()))
    return magnetisation, energies, heat.max()


if __name__ == "__main__":
    main()
