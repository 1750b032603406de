"""Gaussian-process regression: kernels by two `vmap`s, the marginal likelihood climbed by its gradient in double precision."""

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_factor, cho_solve, solve_triangular


def kernel(params, a, b):
    """A smooth trend plus something periodic."""
    smooth = jnp.exp(2 * params["amplitude"] - 0.5 * ((a - b) * jnp.exp(-params["length"])) ** 2)
    wave = jnp.sin(jnp.pi * (a - b) * jnp.exp(-params["period"]))
    return smooth + jnp.exp(2 * params["seasonal"] - 2 * wave**2)


def gram(params, x, z):
    return jax.vmap(lambda a: jax.vmap(lambda b: kernel(params, a, b))(z))(x)


def covariance(params, x):
    return gram(params, x, x) + jnp.exp(2 * params["noise"]) * jnp.eye(x.size, dtype=x.dtype)


@jax.jit
def negative_log_likelihood(params, x, y):
    factor = cho_factor(covariance(params, x), lower=True)
    fit = 0.5 * y @ cho_solve(factor, y)
    return fit + jnp.log(jnp.diag(factor[0])).sum() + 0.5 * y.size * jnp.log(2 * jnp.pi)


@jax.jit
def predict(params, x, y, z):
    lower = jnp.linalg.cholesky(covariance(params, x))
    cross = solve_triangular(lower, gram(params, x, z), lower=True)
    mean = cross.T @ solve_triangular(lower, y, lower=True)
    variance = jax.vmap(lambda t: kernel(params, t, t))(z) - jnp.einsum("ij,ij->j", cross, cross)
    return mean, jnp.sqrt(variance + jnp.exp(2 * params["noise"]))


def truth(x):
    return 0.3 * x + jnp.sin(2 * jnp.pi * x / 1.5)


def main():
    with jax.enable_x64(True):
        where, noise = jax.random.split(jax.random.key(0))
        x = jnp.sort(jax.random.uniform(where, (60,), minval=-3.0, maxval=3.0))
        y = truth(x) + 0.2 * jax.random.normal(noise, x.shape)
        params = {"amplitude": 0.0, "length": 0.5, "seasonal": 0.0, "period": 0.5, "noise": -1.0}
        value_and_grad = jax.jit(jax.value_and_grad(negative_log_likelihood))
        for iteration in range(201):
            value, grads = value_and_grad(params, x, y)
            if iteration % 50 == 0:
                print(f"iteration {iteration:3d}: negative log likelihood {value:.3f}")
            params = jax.tree.map(lambda p, g: p - 0.01 * jnp.clip(g, -5.0, 5.0), params, grads)
        z = jnp.linspace(-3.0, 4.0, 8)
        mean, std = predict(params, x, y, z)
        print(f"noise {jnp.exp(params['noise']):.3f} (true 0.2), period {jnp.exp(params['period']):.3f} (true 1.5)")
        for row in zip(z, mean, std, truth(z)):
            print("x {:5.2f}   predicted {:6.3f} +- {:.3f}   true {:6.3f}".format(*map(float, row)))
        return value, jnp.exp(params["period"]), mean, std


if __name__ == "__main__":
    main()
