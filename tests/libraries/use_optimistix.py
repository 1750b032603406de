"""Roots, minima and linear systems by optimistix and lineax."""

import jax
import jax.numpy as jnp
import lineax
import optimistix as optx

root = optx.root_find(lambda y, a: y - jnp.tanh(y + a), optx.Newton(1e-6, 1e-6), jnp.array(0.0), args=1.0).value
assert jnp.allclose(root, jnp.tanh(root + 1), atol=1e-5)
assert jnp.allclose(optx.minimise(lambda y, a: jnp.sum((y - 3) ** 2), optx.BFGS(1e-6, 1e-6), jnp.zeros(2)).value, 3, atol=1e-3)
fit = optx.least_squares(lambda y, a: y**2 - jnp.array([1.0, 4.0]), optx.LevenbergMarquardt(1e-6, 1e-6), jnp.ones(2) * 2).value
assert jnp.allclose(fit, jnp.array([1.0, 2.0]), atol=1e-3)
A = jax.random.normal(jax.random.key(0), (4, 4))
assert jnp.allclose(A @ lineax.linear_solve(lineax.MatrixLinearOperator(A), jnp.ones(4)).value, 1, atol=1e-4)
