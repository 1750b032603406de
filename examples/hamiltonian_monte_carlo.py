"""Hamiltonian Monte Carlo for the eight-schools model, with the step size learned by dual averaging while warming up."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy import stats

EFFECT = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERROR = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def log_joint(q):
    """Non-centred: school effect = mu + tau * z."""
    tau = jnp.exp(q["log_tau"])
    theta = q["mu"] + tau * q["z"]
    prior = stats.norm.logpdf(q["mu"], 0, 5) + stats.cauchy.logpdf(tau, 0, 5) + q["log_tau"] + stats.norm.logpdf(q["z"]).sum()
    return prior + stats.norm.logpdf(EFFECT, theta, ERROR).sum()


def leapfrog(q, p, step, count):
    def half_kick(q, p):
        return jax.tree.map(lambda p, g: p + 0.5 * step * g, p, jax.grad(log_joint)(q))

    def body(_, state):
        q, p = state
        p = half_kick(q, p)
        q = jax.tree.map(lambda q, p: q + step * p, q, p)
        return q, half_kick(q, p)

    return jax.lax.fori_loop(0, count, body, (q, p))


def energy(q, p):
    return -log_joint(q) + 0.5 * sum(jnp.vdot(x, x) for x in jax.tree.leaves(p))


class DualAveraging(NamedTuple):
    log_step: float
    log_average: float
    error: float
    count: float

    def update(self, acceptance, target=0.8, shrink=0.05, delay=10.0, power=0.75, start=0.0):
        count = self.count + 1
        error = self.error + (target - acceptance - self.error) / (count + delay)
        log_step = start - jnp.sqrt(count) / shrink * error
        weight = count**-power
        return DualAveraging(log_step, weight * log_step + (1 - weight) * self.log_average, error, count)


def transition(q, step, key):
    momentum_key, accept_key = jax.random.split(key)
    leaves, treedef = jax.tree.flatten(q)
    keys = jax.random.split(momentum_key, len(leaves))
    p = treedef.unflatten([jax.random.normal(k, x.shape) for k, x in zip(keys, leaves)])
    new_q, new_p = leapfrog(q, p, step, 10)
    acceptance = jnp.nan_to_num(jnp.exp(jnp.minimum(0.0, energy(q, p) - energy(new_q, new_p))))
    take = jax.random.uniform(accept_key) < acceptance
    return jax.tree.map(functools.partial(jnp.where, take), new_q, q), acceptance


@functools.partial(jax.jit, static_argnums=(1, 2))
def sample(key, warmup, draws):
    def warm(carry, key):
        q, tuning = carry
        q, acceptance = transition(q, jnp.exp(tuning.log_step), key)
        return (q, tuning.update(acceptance)), None

    def draw(q, key):
        q, acceptance = transition(q, step, key)
        return q, (q, acceptance)

    first, second = jax.random.split(key)
    q = {"mu": jnp.array(0.0), "log_tau": jnp.array(0.0), "z": jnp.zeros(8)}
    tuning = DualAveraging(*map(jnp.float32, (-1.0, 0.0, 0.0, 0.0)))
    (q, tuning), _ = jax.lax.scan(warm, (q, tuning), jax.random.split(first, warmup))
    step = jnp.exp(tuning.log_average)
    _, (samples, acceptance) = jax.lax.scan(draw, q, jax.random.split(second, draws))
    return samples, acceptance, step


def main():
    samples, acceptance, step = jax.vmap(lambda key: sample(key, 300, 700))(jax.random.split(jax.random.key(8), 16))
    mu, tau = samples["mu"], jnp.exp(samples["log_tau"])
    theta = mu[..., None] + tau[..., None] * samples["z"]
    print(f"step size {step.mean():.1f}, acceptance {acceptance.mean():.1f}")
    print(f"mu {mu.mean():.0f}, median tau {jnp.median(tau):.0f}")
    print("schools:", " ".join(f"{t:.0f}" for t in theta.mean(axis=(0, 1))))
    return mu.mean(), jnp.median(tau), acceptance.mean(), theta.mean()


if __name__ == "__main__":
    main()
