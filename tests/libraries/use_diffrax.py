"""Differential equations and their gradients by diffrax."""

import diffrax
import jax
import jax.numpy as jnp


@jax.jit
def solve(y0, rate):
    return diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, a: -a * y),
        diffrax.Tsit5(),
        0.0,
        2.0,
        0.1,
        y0,
        args=rate,
        stepsize_controller=diffrax.PIDController(1e-6, 1e-6),
        saveat=diffrax.SaveAt(ts=jnp.linspace(0, 2, 5)),
    ).ys


y0 = jnp.array([1.0, 2.0])
assert jnp.allclose(solve(y0, 0.5), y0 * jnp.exp(-0.5 * jnp.linspace(0, 2, 5))[:, None], atol=1e-5)
assert jnp.allclose(jax.grad(lambda a: solve(y0, a)[-1].sum())(0.5), -6 * jnp.exp(-1.0), atol=1e-4)
