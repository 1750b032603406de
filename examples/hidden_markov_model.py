"""The dishonest casino: Viterbi's path, the chances by forward and backward passes in parallel, and learning from the likelihood."""

import jax
import jax.numpy as jnp
from jax import lax, random
from jax.scipy.special import logsumexp

START = jnp.log(jnp.array([0.5, 0.5]))
MOVE = jnp.log(jnp.array([[0.95, 0.05], [0.10, 0.90]]))
ROLL = jnp.log(jnp.array([[1 / 6] * 6, [0.1] * 5 + [0.5]]))


def casino(key, n):
    """The hidden states (0 fair, 1 loaded) and the dice."""

    def step(state, key):
        move, roll = random.split(key)
        state = random.categorical(move, MOVE[state])
        return state, (state, random.categorical(roll, ROLL[state]))

    return lax.scan(step, 0, random.split(key, n))[1]


def log_matmul(a, b):
    return logsumexp(a[..., :, :, None] + b[..., None, :, :], axis=-2)


@jax.jit
def posterior(rolls):
    """The chance that the die is loaded at each roll; products of all prefixes and suffixes by `associative_scan`."""
    evidence = ROLL[:, rolls].T
    links = MOVE + evidence[1:, None, :]
    prefix = lax.associative_scan(log_matmul, links)
    suffix = lax.associative_scan(lambda a, b: log_matmul(b, a), links, reverse=True)
    first = START + evidence[0]
    alpha = jnp.vstack([first, logsumexp(first[:, None] + prefix, axis=1)])
    beta = jnp.vstack([logsumexp(suffix, axis=2), jnp.zeros(2)])
    return jax.nn.softmax(alpha + beta, axis=1)[:, 1]


@jax.jit
def viterbi(rolls):
    evidence = ROLL[:, rolls].T

    def forward(score, e):
        scores = score[:, None] + MOVE
        return scores.max(axis=0) + e, scores.argmax(axis=0)

    score, back = lax.scan(forward, START + evidence[0], evidence[1:])
    last = score.argmax()
    _, path = lax.scan(lambda state, pointers: (pointers[state], pointers[state]), last, back, reverse=True)
    return jnp.append(path, last)


def negative_log_likelihood(params, rolls):
    move, roll = jax.nn.log_softmax(params["move"]), jax.nn.log_softmax(params["roll"])

    def forward(alpha, x):
        return logsumexp(alpha[:, None] + move, axis=0) + roll[:, x], None

    alpha, _ = lax.scan(forward, START + roll[:, rolls[0]], rolls[1:])
    return -logsumexp(alpha) / len(rolls)


@jax.jit
def learn(params, rolls):
    def step(carry, _):
        params, velocity = carry
        value, grads = jax.value_and_grad(negative_log_likelihood)(params, rolls)
        velocity = jax.tree.map(lambda v, g: 0.9 * v - g, velocity, grads)
        return (jax.tree.map(jnp.add, params, velocity), velocity), value

    start = (params, jax.tree.map(jnp.zeros_like, params))
    (params, _), values = lax.scan(step, start, length=200)
    return jax.tree.map(jax.nn.softmax, params), values


def main():
    states, rolls = casino(random.key(6), 600)
    path, loaded = viterbi(rolls), posterior(rolls)
    for name, row in (("dice", rolls + 1), ("truth", states), ("path", path), ("> 50%", (loaded > 0.5).astype(int))):
        text = "".join(map(str, row[:70].tolist()))
        print(f"{name:6s}", text if name == "dice" else text.translate(str.maketrans("01", "FL")))
    right = jnp.mean(path == states), jnp.mean((loaded > 0.5) == states)
    print(f"right: {right[0]:.3f} of the path, {right[1]:.3f} of the likelier states")
    guess = {"move": 2 * jnp.eye(2), "roll": jnp.array([[0.0] * 6, [0.0] * 5 + [0.5]])}
    learned, values = learn(guess, rolls)
    print(f"nats a roll {values[0]:.4f} -> {values[-1]:.4f}; a six of the loaded die has chance {learned['roll'][1, 5]:.2f}")
    return *right, loaded.sum(), values[-1]


if __name__ == "__main__":
    main()
