"""k-means on three clouds of points: distances by broadcasting, means by scatter-add."""

import jax
import jax.numpy as jnp


@jax.jit
def iterate(points, centres):
    distance = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=-1)
    label = distance.argmin(axis=1)
    count = jnp.zeros(centres.shape[0]).at[label].add(1.0)
    total = jnp.zeros_like(centres).at[label].add(points)
    return total / jnp.maximum(count, 1.0)[:, None], label, distance.min(axis=1).sum()


def main():
    key = jax.random.key(1)
    middle = jnp.array([[0.0, 0.0], [5.0, 5.0], [-5.0, 4.0]])
    noise = jax.random.normal(key, (3, 200, 2)) * 0.7
    points = (middle[:, None, :] + noise).reshape(-1, 2)
    centres = points[jnp.array([0, 250, 450])]
    inertia = None
    for _ in range(10):
        centres, label, inertia = iterate(points, centres)
    print("centres:")
    for c in centres.tolist():
        print(f"  {c[0]:6.2f} {c[1]:6.2f}")
    print(f"inertia {float(inertia):.1f}")
    return centres


if __name__ == "__main__":
    main()
