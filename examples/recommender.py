"""Films for people: factors of a sparse table of ratings by alternating least squares, sums by `segment_sum`."""

import functools

import jax
import jax.numpy as jnp
from jax import random

PEOPLE, FILMS, RANK = 60, 40, 3


def ratings(key, n):
    """Who, which and how good, of n different pairs."""
    pairs, person, film, noise = random.split(key, 4)
    flat = random.choice(pairs, PEOPLE * FILMS, (n,), replace=False)
    who, which = jnp.unravel_index(flat, (PEOPLE, FILMS))
    taste, style = random.normal(person, (PEOPLE, RANK)), random.normal(film, (FILMS, RANK))
    good = jnp.einsum("nr,nr->n", taste[who], style[which]) + 0.1 * random.normal(noise, (n,))
    return who, which, good


@functools.partial(jax.jit, static_argnames="count")
def solve(owner, features, good, count, penalty=0.1):
    """For each owner, the factors that explain the ratings best: a small linear system each, solved all at once."""
    total = functools.partial(jax.ops.segment_sum, segment_ids=owner, num_segments=count)
    gram = total(features[:, :, None] * features[:, None, :]) + penalty * jnp.eye(RANK)
    right = total(features * good[:, None])
    return jax.vmap(functools.partial(jax.scipy.linalg.solve, assume_a="pos"))(gram, right)


def error(taste, style, who, which, good):
    return jnp.sqrt(jnp.mean((jnp.sum(taste[who] * style[which], axis=1) - good) ** 2))


def main():
    data_key, init_key = random.split(random.key(0))
    who, which, good = ratings(data_key, 1200)
    known, unknown = ((who[s], which[s], good[s]) for s in (slice(None, 1000), slice(1000, None)))
    style = random.normal(init_key, (FILMS, RANK))
    for count in range(1, 16):
        taste = solve(known[0], style[known[1]], known[2], PEOPLE)
        style = solve(known[1], taste[known[0]], known[2], FILMS)
        if count % 5 == 0:
            print(f"round {count:2d}: error {error(taste, style, *known):.3f}, of new ratings {error(taste, style, *unknown):.2f}")
    seen = jnp.zeros((PEOPLE, FILMS), bool).at[known[:2]].set(True)
    _, best = jax.lax.top_k(jnp.where(seen, -jnp.inf, taste @ style.T)[:5], 3)
    for person, films in enumerate(best.tolist()):
        print(f"person {person}: films", *films)
    return error(taste, style, *known), error(taste, style, *unknown)


if __name__ == "__main__":
    main()
