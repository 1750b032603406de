"""Four strategies for a ten-armed bandit, each played 200 times at once: what do they lose against knowing the best arm?"""

import functools

import jax
import jax.numpy as jnp
from jax import lax, random

ARMS, ROUNDS = 10, 400


def greedy(key, t, pulls, wins, epsilon):
    explore, arm_key = random.split(key)
    best = jnp.argmax(jnp.where(pulls > 0, wins / jnp.maximum(pulls, 1), jnp.inf))
    return jnp.where(random.uniform(explore) < epsilon, random.randint(arm_key, (), 0, ARMS), best)


def ucb(key, t, pulls, wins):
    bonus = jnp.sqrt(jnp.log(t + 1.0) / (2 * jnp.maximum(pulls, 1)))
    return jnp.argmax(jnp.where(pulls > 0, wins / jnp.maximum(pulls, 1) + bonus, jnp.inf))


def thompson(key, t, pulls, wins):
    return jnp.argmax(random.beta(key, 1 + wins, 1 + pulls - wins))


def softmax(key, t, pulls, wins):
    return random.categorical(key, (wins + 1) / (pulls + 2) * jnp.sqrt(t + 1.0))


STRATEGIES = {"greedy": functools.partial(greedy, epsilon=0.1), "ucb": ucb, "thompson": thompson, "softmax": softmax}


@functools.partial(jax.jit, static_argnames="strategy")
@functools.partial(jax.vmap, in_axes=(None, 0))
def play(strategy, key):
    """The regret summed up to each round."""
    arms_key, rounds_key = random.split(key)
    chance = random.uniform(arms_key, (ARMS,))

    def pull(state, inputs):
        pulls, wins = state
        t, key = inputs
        choose, outcome = random.split(key)
        arm = STRATEGIES[strategy](choose, t, pulls, wins)
        win = random.bernoulli(outcome, chance[arm])
        return (pulls.at[arm].add(1), wins.at[arm].add(win)), chance.max() - chance[arm]

    start = (jnp.zeros(ARMS), jnp.zeros(ARMS))
    _, regret = lax.scan(pull, start, (jnp.arange(ROUNDS), random.split(rounds_key, ROUNDS)))
    return jnp.cumsum(regret)


def main():
    keys = random.split(random.key(0), 200)
    regret = {name: play(name, keys) for name in STRATEGIES}
    print("strategy   after 100   after 400")
    for name, r in sorted(regret.items(), key=lambda item: item[1][:, -1].mean()):
        print(f"{name:9s} {r[:, 99].mean():10.1f} {r[:, -1].mean():11.1f}")
    return {name: r[:, -1].mean() for name, r in regret.items()}


if __name__ == "__main__":
    main()
