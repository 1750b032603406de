"""`experimental.random`: draws are those of the keys that the counter folds in, in any transformation."""

from __future__ import annotations

import numpy as np
import pytest

import steno as jax
import steno.numpy as jnp
from steno.experimental.random import StatefulPRNG, stateful_rng


def nth(n: int):
    return jax.random.fold_in(jax.random.key(3), n)


def test_draws() -> None:
    rng = stateful_rng(3)
    np.testing.assert_array_equal(rng.uniform(size=2), jax.random.uniform(nth(0), (2,)))
    np.testing.assert_allclose(rng.normal(1.0, jnp.array([2.0, 3]), (2, 2)), jax.random.normal(nth(1), (2, 2)) * jnp.array([2.0, 3]) + 1)
    np.testing.assert_array_equal(rng.integers(5, size=3), jax.random.randint(nth(2), (3,), 0, 5))
    assert rng.random().shape == () and rng.uniform(dtype="float16").dtype == np.float16
    assert (rng.key(2) == jax.random.split(nth(5), 2)).all() and rng._counter[...] == 6
    for child, key in zip(rng.spawn(2), jax.random.split(nth(6), 2), strict=True):
        assert child._base_key == key and child._counter[...] == 0


def test_in_transformed_code() -> None:
    rng = stateful_rng(3)
    drawn = [jax.jit(lambda r: r.uniform())(rng) for _ in range(2)]
    drawn += jax.lax.scan(lambda _, x: (None, rng.uniform()), None, length=2)[1].tolist()
    np.testing.assert_array_equal(drawn, [jax.random.uniform(nth(n)) for n in range(4)])
    several = jax.vmap(lambda r, x: x + r.uniform())(stateful_rng(3).split(3), jnp.zeros(3))
    np.testing.assert_array_equal(several, [child.uniform() for child in stateful_rng(3).spawn(3)])


def test_errors() -> None:
    with pytest.raises(TypeError, match="explicit seed"):
        jax.jit(lambda: stateful_rng().uniform())()
    assert stateful_rng().uniform(size=2).shape == (2,)
    with pytest.raises(ValueError, match="split"):
        stateful_rng(3).split(2).key()
    with pytest.raises(ValueError, match="typed PRNG key"):
        StatefulPRNG(jnp.zeros(2, "uint32"), jax.new_ref(0))
    with pytest.raises(ValueError, match="integer ref"):
        StatefulPRNG(jax.random.key(0), 0)
