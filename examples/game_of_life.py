"""Conway's game of life: a stencil by jnp.roll; a glider is the same shape one cell further after four steps."""

import jax
import jax.numpy as jnp


@jax.jit
def step(world):
    neighbours = sum(jnp.roll(world, (dy, dx), (0, 1)) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if (dy, dx) != (0, 0))
    return ((neighbours == 3) | ((world == 1) & (neighbours == 2))).astype(jnp.int32)


def show(world):
    return "\n".join("".join(".#"[int(c)] for c in row) for row in world.tolist())


def main():
    world = jnp.zeros((12, 12), jnp.int32)
    glider = jnp.array([[0, 1, 0], [0, 0, 1], [1, 1, 1]], jnp.int32)
    world = world.at[1:4, 1:4].set(glider)
    start = world
    for _ in range(4):
        world = step(world)
    print(show(world))
    moved = bool((world == jnp.roll(start, (1, 1), (0, 1))).all())
    print("the glider moved by one cell:", moved)
    return moved


if __name__ == "__main__":
    main()
