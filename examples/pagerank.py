"""PageRank of a small web by power iteration, in a Python loop around a jitted step."""

import jax
import jax.numpy as jnp

LINKS = [(0, 1), (0, 2), (1, 2), (2, 0), (3, 2), (3, 0), (4, 3), (4, 2)]


@jax.jit
def step(rank, matrix, damping):
    new = damping * (matrix @ rank) + (1.0 - damping) / rank.shape[0]
    return new, jnp.abs(new - rank).sum()


def main():
    n = 5
    source, target = jnp.array(LINKS).T
    matrix = jnp.zeros((n, n)).at[target, source].add(1.0)
    matrix = matrix / matrix.sum(axis=0)
    rank = jnp.full(n, 1.0 / n)
    steps, change = 0, 1.0
    while change > 1e-6:
        rank, change = step(rank, matrix, 0.85)
        steps += 1
    order = jnp.argsort(-rank)
    print(f"after {steps} steps:", ", ".join(f"page {int(i)}: {float(rank[i]):.4f}" for i in order))
    return rank


if __name__ == "__main__":
    main()
