"""Arguments that make a shape or choose an axis must be known while tracing: a traced one raises ConcretizationTypeError, as in JAX."""

from __future__ import annotations

import numpy as np
import pytest

import steno as jax
import steno.numpy as jnp

X, V = np.arange(12.0).reshape(3, 4), np.arange(4.0)

CALLS = {
    "split": lambda n: jnp.split(X, n),
    "split at": lambda n: jnp.split(X, [n]),
    "expand_dims": lambda n: jnp.expand_dims(X, n),
    "squeeze": lambda n: jnp.squeeze(X, n),
    "moveaxis": lambda n: jnp.moveaxis(X, n, 0),
    "sum": lambda n: jnp.sum(X, axis=n),
    "cumsum": lambda n: jnp.cumsum(X, axis=n),
    "softmax": lambda n: jax.nn.softmax(X, axis=n),
    "bincount": lambda n: jnp.bincount(np.array([1, 2]), length=n),
    "nonzero": lambda n: jnp.nonzero(V, size=n),
    "unique": lambda n: jnp.unique(V, size=n),
    "histogram": lambda n: jnp.histogram(V, bins=n),
    "pad": lambda n: jnp.pad(V, n),
    "pad pair": lambda n: jnp.pad(V, (0, n)),
    "hanning": lambda n: jnp.hanning(n),
    "bartlett": lambda n: jnp.bartlett(n),
    "kaiser": lambda n: jnp.kaiser(n, 1.0),
    "linspace": lambda n: jnp.linspace(0, 1, n),
    "permutation": lambda n: jax.random.permutation(jax.random.key(0), n),
    "choice": lambda n: jax.random.choice(jax.random.key(0), n),
    "ball": lambda n: jax.random.ball(jax.random.key(0), n),
}


SHAPES = {
    "zeros": lambda n: jnp.zeros(n),
    "reshape": lambda n: jnp.reshape(V, (n, 4)),
    "broadcast_to": lambda n: jnp.broadcast_to(V, (n, 4)),
    "lax.reshape": lambda n: jax.lax.reshape(jnp.ones(4), (n, 4)),
    "lax.broadcast": lambda n: jax.lax.broadcast(jnp.ones(4), (n,)),
    "lax.full": lambda n: jax.lax.full((2, n), 1.0),
    "normal": lambda n: jax.random.normal(jax.random.key(0), (n,)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_traced_sizes(name: str) -> None:
    message = "Shapes must be 1D sequences of concrete values of integer type, got .*\n.*static_argnums"
    with pytest.raises(jax.errors.ConcretizationTypeError, match=message):
        jax.jit(SHAPES[name])(1)


@pytest.mark.parametrize("name", CALLS)
def test_traced(name: str) -> None:
    with pytest.raises(jax.errors.ConcretizationTypeError):
        jax.jit(CALLS[name])(1)
