"""A short tour of thirty towns by simulated annealing: many tours at once, a stretch of each reversed at every step."""

import functools

import jax
import jax.numpy as jnp
from jax import lax, random


def length(tour, towns):
    places = towns[tour]
    return jnp.linalg.norm(places - jnp.roll(places, -1, axis=0), axis=1).sum()


def reverse_stretch(tour, i, j):
    """The tour with the places from i to j in reverse."""
    k = jnp.arange(tour.size)
    return tour[jnp.where((k >= i) & (k <= j), i + j - k, k)]


@functools.partial(jax.jit, static_argnums=2)
@functools.partial(jax.vmap, in_axes=(0, None, None))
def anneal(key, towns, steps):
    n = len(towns)
    start_key, step_keys = random.split(key)

    def step(state, inputs):
        tour, best, now, shortest = state
        key, temperature = inputs
        ends, accept = random.split(key)
        i, j = jnp.sort(random.randint(ends, (2,), 0, n))
        new = reverse_stretch(tour, i, j)
        new_length = length(new, towns)
        take = random.uniform(accept) < jnp.exp((now - new_length) / temperature)
        tour, now = jnp.where(take, new, tour), jnp.where(take, new_length, now)
        better = now < shortest
        return (tour, jnp.where(better, tour, best), now, jnp.minimum(now, shortest)), None

    tour = random.permutation(start_key, n)
    now = length(tour, towns)
    temperature = jnp.geomspace(0.5, 0.01, steps)
    (_, best, _, shortest), _ = lax.scan(step, (tour, tour, now, now), (random.split(step_keys, steps), temperature))
    return best, shortest


def main(n=30):
    towns = random.uniform(random.key(4), (n, 2))
    tours, lengths = anneal(random.split(random.key(0), 32), towns, 4000)
    best = tours[lengths.argmin()]
    best = jnp.roll(best, -jnp.argmin(best))
    best = jnp.where(best[1] < best[-1], best, jnp.roll(best[::-1], 1))  # of the two directions the one with the lesser second town
    print(f"tours of length {lengths.min():.2f} to {lengths.max():.1f}; in the order given it is {length(jnp.arange(n), towns):.2f}")
    picture = [[" "] * 48 for _ in range(16)]
    for place, (x, y) in enumerate(towns[best].tolist()):
        picture[int(15.99 * y)][int(47.99 * x)] = chr(ord("A") + place % 26)
    print("\n".join("".join(row) for row in picture))
    return lengths.min()


if __name__ == "__main__":
    main()
