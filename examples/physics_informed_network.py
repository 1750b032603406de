"""A network is taught an equation, -u'' = f with u = 0 at the ends, by Gauss and Newton: Hessian-vector products inside CG."""

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.scipy.sparse.linalg import cg


def source(x):
    return jnp.pi**2 * jnp.sin(jnp.pi * x) + 4 * jnp.pi**2 * jnp.sin(2 * jnp.pi * x)


def exact(x):
    return jnp.sin(jnp.pi * x) + jnp.sin(2 * jnp.pi * x)


def init(key, width=20):
    keys = jax.random.split(key, 3)
    shapes = [(1, width), (width, width), (width, 1)]
    return [{"w": jax.random.normal(k, s) * jnp.sqrt(2 / sum(s)), "b": jnp.zeros(s[1])} for k, s in zip(keys, shapes)]


def network(params, x):
    h = jnp.array([2 * x - 1])
    for layer in params[:-1]:
        h = jnp.tanh(h @ layer["w"] + layer["b"])
    (out,) = h @ params[-1]["w"] + params[-1]["b"]
    return x * (1 - x) * out  # 0 at the ends


def residual(params, x):
    second = jax.grad(jax.grad(network, argnums=1), argnums=1)
    return second(params, x) + source(x)


def main(steps=40):
    x = jnp.linspace(0, 1, 40)
    flat, unravel = ravel_pytree(init(jax.random.key(0)))

    def residuals(flat):
        return jax.vmap(residual, in_axes=(None, 0))(unravel(flat), x) / jnp.sqrt(len(x))

    @jax.jit
    def levenberg_marquardt(flat, damping):
        r, push = jax.linearize(residuals, flat)
        pull = jax.linear_transpose(push, flat)

        def normal(v):
            return pull(push(v))[0] + damping * v

        (gradient,) = pull(r)
        step, _ = cg(normal, -gradient, maxiter=100)
        new = residuals(flat + step)
        better = new @ new < r @ r
        return jnp.where(better, flat + step, flat), jnp.where(better, damping / 3, damping * 4), jnp.minimum(new @ new, r @ r)

    damping = 1.0
    for count in range(steps + 1):
        flat, damping, value = levenberg_marquardt(flat, damping)
        if count in (0, steps):
            print(f"step {count:2d}: residual {'small' if value < 0.05 else 'large'}")
    points = jnp.linspace(0, 1, 9)
    found = jax.vmap(network, in_axes=(None, 0))(unravel(flat), points)
    for row in zip(points, found, exact(points)):
        print("u({:.3f}) = {:5.2f}, exact {:5.2f}".format(*map(float, row)))
    return found


if __name__ == "__main__":
    main()
