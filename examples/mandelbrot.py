"""The Mandelbrot set as text: complex arithmetic on a grid, the loop unrolled by tracing."""

import jax
import jax.numpy as jnp


@jax.jit
def escape_time(c):
    z = jnp.zeros_like(c)
    count = jnp.zeros(c.shape, jnp.int32)
    for _ in range(30):
        z = jnp.where(jnp.abs(z) <= 2.0, z * z + c, z)
        count = count + (jnp.abs(z) <= 2.0)
    return count


def main():
    x, y = jnp.meshgrid(jnp.linspace(-2.1, 0.7, 70), jnp.linspace(-1.2, 1.2, 28))
    count = escape_time(x + 1j * y)
    for row in count.tolist():
        print("".join(" .:-=+*#%@"[min(n // 3, 9)] for n in row))
    return count


if __name__ == "__main__":
    main()
