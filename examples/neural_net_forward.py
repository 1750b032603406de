"""A forward pass of a small network over a nested dict of parameters: pytrees in, pytrees out."""

import itertools

import jax
import jax.numpy as jnp


def init(key, sizes):
    params = {}
    for k, (n_in, n_out) in enumerate(itertools.pairwise(sizes)):
        key, sub = jax.random.split(key)
        params[f"layer{k}"] = {"w": jax.random.normal(sub, (n_in, n_out)) / jnp.sqrt(n_in), "b": jnp.zeros(n_out)}
    return params


@jax.jit
def forward(params, x):
    *hidden, last = [params[k] for k in sorted(params)]
    for layer in hidden:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    return jax.nn.softmax(x @ last["w"] + last["b"])


def main():
    params = init(jax.random.key(0), [784, 256, 128, 10])
    x = jax.random.normal(jax.random.key(1), (32, 784))
    p = forward(params, x)
    count = sum(leaf.size for leaf in jax.tree.leaves(params))
    print(f"{count:,} parameters; output {p.shape}, rows sum to {float(p.sum(axis=1).min()):.6f} .. {float(p.sum(axis=1).max()):.6f}")
    return p


if __name__ == "__main__":
    main()
