"""Making decisions on an icy lake: value iteration until nothing changes, and policy iteration, which solves a linear system each time."""

import functools

import jax
import jax.numpy as jnp
from jax import lax

LAKE = """
S...H...
...H....
.H...H..
....H...
..H...H.
.H..H...
...H..H.
......HG
""".split()
ARROWS = "<v>^"
MOVES = jnp.array([[0, -1], [1, 0], [0, 1], [-1, 0]])
DISCOUNT = 0.97


def model():
    """The chances (action, state, next state): on ice a third of the moves goes to either side. And the reward of each state."""
    n = len(LAKE)
    tiles = jnp.array([[ord(c) for c in row] for row in LAKE])
    goal, hole = (tiles == ord("G")).ravel(), (tiles == ord("H")).ravel()
    place = jnp.stack(jnp.divmod(jnp.arange(n * n), n), axis=-1)

    def moved(move):
        row, column = jnp.clip(place + move, 0, n - 1).T
        return jax.nn.one_hot(row * n + column, n * n)

    straight = jax.vmap(moved)(MOVES)
    slipping = (straight + jnp.roll(straight, 1, axis=0) + jnp.roll(straight, -1, axis=0)) / 3
    ended = goal | hole
    return jnp.where(ended[None, :, None], 0.0, slipping), goal.astype(jnp.float32)


def action_values(value, chances, reward):
    return jnp.einsum("asn,n->as", chances, reward + DISCOUNT * value)


@jax.jit
def value_iteration(chances, reward):
    def unfinished(state):
        _, change, count = state
        return (change > 1e-4) & (count < 1000)

    def sweep(state):
        value, _, count = state
        new = action_values(value, chances, reward).max(axis=0)
        change = jnp.abs(new - value).max()
        report = functools.partial(jax.debug.print, "sweep {}: values change by {:.4f}", count, change)
        lax.cond(count % 50 == 0, report, lambda: None)
        return new, change, count + 1

    value, _, count = lax.while_loop(unfinished, sweep, (jnp.zeros_like(reward), jnp.inf, 0))
    return value, count


@jax.jit
def policy_iteration(chances, reward):
    n = reward.shape[0]

    def evaluate(policy):
        followed = chances[policy, jnp.arange(n)]
        return jnp.linalg.solve(jnp.eye(n) - DISCOUNT * followed, followed @ reward)

    def improve(state):
        policy, _, count = state
        values = action_values(evaluate(policy), chances, reward)
        better = values.max(axis=0) > jnp.take_along_axis(values, policy[None], axis=0)[0] + 1e-5
        return jnp.where(better, values.argmax(axis=0), policy), better.any(), count + 1

    policy, _, count = lax.while_loop(lambda s: s[1], improve, (jnp.zeros(n, int), True, 0))
    return policy, evaluate(policy), count


def main():
    chances, reward = model()
    value, sweeps = value_iteration(chances, reward)
    jax.effects_barrier()  # what it printed is printed
    policy, exact, improvements = policy_iteration(chances, reward)
    n = len(LAKE)
    for row, letters in enumerate(LAKE):
        arrows = [letters[c] if letters[c] in "HG" else ARROWS[int(policy[row * n + c])] for c in range(n)]
        print(" ".join(arrows), "  ", " ".join(f"{v:.2f}" for v in exact[row * n : (row + 1) * n]))
    print(f"{sweeps} sweeps; {improvements} improvements; their values differ by {jnp.abs(value - exact).max():.4f} at most")
    return exact, sweeps


if __name__ == "__main__":
    main()
