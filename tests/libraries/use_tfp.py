"""Distributions and samplers of TensorFlow Probability on JAX, of distrax, and rlax."""

import distrax
import jax
import jax.numpy as jnp
import rlax
from tensorflow_probability.substrates import jax as tfp

tfd = tfp.distributions
assert tfd.Normal(0.0, 2.0).sample(3, seed=jax.random.PRNGKey(0)).shape == (3,)
assert jnp.allclose(jax.grad(lambda m: tfd.Normal(m, 1.0).log_prob(1.0))(0.0), 1)
normal = tfd.MultivariateNormalTriL(jnp.zeros(2), jnp.array([[1.0, 0.0], [0.5, 1.0]]))
assert jnp.allclose(normal.log_prob(jnp.ones(2)), -2.462877)
assert jax.jit(lambda key: normal.sample(2, seed=key))(jax.random.PRNGKey(1)).shape == (2, 2)
mixture = tfd.MixtureSameFamily(tfd.Categorical(logits=jnp.zeros(2)), tfd.Normal(jnp.array([-1.0, 1.0]), 1.0))
assert jnp.allclose(mixture.log_prob(0.3), -1.4195977)


@jax.jit
def chain(key):
    kernel = tfp.mcmc.HamiltonianMonteCarlo(lambda x: -0.5 * x**2, 0.5, 3)
    return tfp.mcmc.sample_chain(200, jnp.array(0.0), kernel=kernel, num_burnin_steps=50, trace_fn=None, seed=key)


samples = chain(jax.random.PRNGKey(2))
assert abs(samples.mean()) < 0.5 and abs(samples.std() - 1) < 0.4

bijector = distrax.Chain([distrax.ScalarAffine(1.0, 2.0), distrax.Tanh()])
y, log_det = bijector.forward_and_log_det(jnp.float32(0.3))
assert jnp.allclose(y, 1 + 2 * jnp.tanh(0.3)) and jnp.allclose(log_det, jnp.log(2 * (1 - jnp.tanh(0.3) ** 2)), atol=1e-5)
assert jnp.allclose(rlax.td_learning(jnp.float32(1.0), jnp.float32(1.0), jnp.float32(0.9), jnp.float32(2.0)), 1.8)
