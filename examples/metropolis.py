"""Random-walk Metropolis: 64 chains at once under `vmap` and `scan` sample a banana-shaped density; R-hat says whether they agree."""

import functools

import jax
import jax.numpy as jnp
from jax import lax, random


def log_density(x):
    return -0.5 * (x[0] ** 2 + (x[1] - x[0] ** 2) ** 2 / 0.5)


def metropolis_step(scale, state, key):
    x, logp, accepted = state
    propose, accept = random.split(key)
    candidate = x + scale * random.normal(propose, x.shape)
    candidate_logp = log_density(candidate)
    take = jnp.log(random.uniform(accept)) < candidate_logp - logp
    x, logp = lax.cond(take, lambda: (candidate, candidate_logp), lambda: (x, logp))
    return (x, logp, accepted + take), x


def run_chain(key, scale, steps, burn):
    start, walk = random.split(key)
    x = random.normal(start, (2,)) * 2
    state = (x, log_density(x), jnp.int32(0))
    (_, _, accepted), path = lax.scan(functools.partial(metropolis_step, scale), state, random.split(walk, steps))
    return path[burn:], accepted / steps


@functools.partial(jax.jit, static_argnames=("steps", "burn"))
def run_chains(keys, scale, *, steps, burn):
    return jax.vmap(functools.partial(run_chain, scale=scale, steps=steps, burn=burn))(keys)


def r_hat(samples):
    """Gelman and Rubin's ratio of each coordinate, of samples (chain, step, coordinate)."""
    n = samples.shape[1]
    within = samples.var(axis=1, ddof=1).mean(axis=0)
    between = n * samples.mean(axis=1).var(axis=0, ddof=1)
    return jnp.sqrt(((n - 1) / n * within + between / n) / within)


def main():
    keys = random.split(random.key(3), 64)
    samples, acceptance = run_chains(keys, 1.2, steps=3000, burn=500)
    mean = samples.mean(axis=(0, 1))
    std = samples.std(axis=(0, 1))
    ratio = r_hat(samples)
    print(f"acceptance {acceptance.mean():.2f}")
    print(f"mean {mean[0]:6.3f} {mean[1]:6.3f}   exact  0.000  1.000")
    print(f"std  {std[0]:6.3f} {std[1]:6.3f}   exact  1.000  {2.5**0.5:.3f}")
    print(f"R-hat {ratio[0]:.3f} {ratio[1]:.3f}")
    return jnp.concatenate([mean, std, ratio, acceptance.mean()[None]])


if __name__ == "__main__":
    main()
