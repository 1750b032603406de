"""Flow past a cylinder by the lattice Boltzmann method: nine directions stream and collide; drag by the exchange of momentum."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

DIRECTIONS = np.array([[0, 0], [1, 0], [0, 1], [-1, 0], [0, -1], [1, 1], [-1, 1], [-1, -1], [1, -1]])
WEIGHTS = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4, np.float32)
OPPOSITE = np.array([0, 3, 4, 1, 2, 7, 8, 5, 6])


def equilibrium(density, velocity):
    along = jnp.einsum("dk,kxy->dxy", DIRECTIONS, velocity)
    square = jnp.sum(velocity**2, axis=0)
    return WEIGHTS[:, None, None] * density * (1 + 3 * along + 4.5 * along**2 - 1.5 * square)


def moments(f):
    density = f.sum(axis=0)
    return density, jnp.einsum("dk,dxy->kxy", DIRECTIONS, f) / density


def stream(f):
    return jnp.stack([jnp.roll(layer, shift, axis=(0, 1)) for layer, shift in zip(f, map(tuple, DIRECTIONS))])


@functools.partial(jax.jit, static_argnames="steps", donate_argnames="f")
def simulate(f, solid, inflow, relaxation, steps):
    def step(f, _):
        density, velocity = moments(f)
        collided = f + (equilibrium(density, velocity) - f) / relaxation
        bounced = jnp.where(solid, f[OPPOSITE], collided)
        force = 2 * jnp.einsum("dk,dxy->k", DIRECTIONS, jnp.where(solid, f, 0.0))
        f = stream(bounced)
        f = f.at[:, 0].set(equilibrium(jnp.ones((1, f.shape[2])), inflow[:, None, None] * jnp.ones((2, 1, f.shape[2])))[:, 0])
        return f.at[:, -1].set(f[:, -2]), force

    return jax.lax.scan(step, f, length=steps)


def main(nx=96, ny=40, speed=0.1, reynolds=40.0):
    radius = ny / 8
    x, y = jnp.meshgrid(jnp.arange(nx), jnp.arange(ny), indexing="ij")
    solid = (x - nx / 4) ** 2 + (y - ny / 2 + 0.5) ** 2 < radius**2
    inflow = jnp.array([speed, 0.0])
    relaxation = 3 * speed * 2 * radius / reynolds + 0.5
    start = equilibrium(jnp.ones((nx, ny)), jnp.broadcast_to(inflow[:, None, None], (2, nx, ny)))
    f, force = simulate(start, solid, inflow, relaxation, steps=800)
    _, velocity = moments(f)
    flow = jnp.where(solid, 0.0, velocity[0])
    drag = force[-100:, 0].mean() / (speed**2 * radius)
    shades = " .:-=+*#%@"
    for row in jnp.clip(flow[::2, ::3].T / flow.max() * 9.99, 0, 9).astype(int).tolist():
        print("".join(shades[k] for k in row))
    print(f"drag coefficient {drag:.2f}, fastest {flow.max() / speed:.2f}, slowest {flow.min() / speed:.2f} of the inflow")
    return drag, flow.max(), flow.min()


if __name__ == "__main__":
    main()
