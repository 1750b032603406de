"""Three balls on a floor, drawn in characters: rays march through a field of distances, its gradient is the surface's direction."""

import jax
import jax.numpy as jnp
from jax import lax

BALLS = jnp.array([[-1.1, 0.7, 0.0], [0.4, 0.5, -0.8], [1.3, 0.9, 0.6]])
RADII = jnp.array([0.7, 0.5, 0.9])
LIGHT = jnp.array([-0.5, 0.8, -0.4])


def scene(point):
    """The distance to the nearest surface; the balls melt into each other."""
    balls = jnp.linalg.norm(point - BALLS, axis=-1) - RADII
    smooth = -0.15 * jax.nn.logsumexp(-balls / 0.15)
    return jnp.minimum(smooth, point[1])


def march(origin, direction, steps=60):
    def far(state):
        depth, distance, count = state
        return (distance > 1e-3) & (depth < 20.0) & (count < steps)

    def onward(state):
        depth, distance, count = state
        depth = depth + distance
        return depth, scene(origin + depth * direction), count + 1

    depth, _, _ = lax.while_loop(far, onward, (0.0, scene(origin), 0))
    return depth


def shade(pixel):
    """How bright a pixel is, from 0 to 1."""
    origin = jnp.array([0.0, 1.6, -4.0])
    direction = jnp.array([pixel[0], pixel[1] - 0.25, 1.6])
    direction /= jnp.linalg.norm(direction)
    depth = march(origin, direction)
    point = origin + depth * direction
    normal = jax.grad(scene)(point)
    light = LIGHT / jnp.linalg.norm(LIGHT)
    in_shadow = march(point + 0.02 * normal, light) < 20.0
    diffuse = jnp.clip(normal @ light, 0.0, 1.0) * jnp.where(in_shadow, 0.3, 1.0)
    checker = jnp.where((jnp.floor(point[0]) + jnp.floor(point[2])) % 2 == 0, 1.0, 0.6)
    colour = (0.15 + 0.85 * diffuse) * jnp.where(point[1] < 0.01, checker, 1.0)
    return jnp.where(depth < 20.0, colour * jnp.exp(-0.02 * depth), 0.0)


@jax.jit
def render(pixels):
    return jax.vmap(jax.vmap(shade))(pixels)


def main(width=72, height=28):
    x, y = jnp.meshgrid(jnp.linspace(-1.6, 1.6, width), jnp.linspace(0.9, -0.9, height))
    image = render(jnp.stack([x, y], axis=-1))
    shades = " .:-=+*#%@"
    for row in (image * 9.99).astype(int).tolist():
        print("".join(shades[k] for k in row))
    return image.mean(), image.max()


if __name__ == "__main__":
    main()
