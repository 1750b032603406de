"""Ragged products and exchanges, approximate extremes, scaled products, and `rng_uniform`, against the real JAX where it has them."""

from __future__ import annotations

import numpy as np
import peer
import pytest
from peer import NO_JAX, Arr, Expr

import steno
import steno.numpy as snp
from steno import lax

needs_jax = pytest.mark.skipif(peer.peer() is None, reason=NO_JAX)
GENERAL = "lax.ragged_dot_general(x, y, s, lax.RaggedDotDimensionNumbers(({c}, {b}), {r}, {g}))"
CASES = (
    # shapes of the operands, sizes, contracted axes, batch axes, ragged axes, axes of groups
    ((300, 3), (5, 3, 4), [100, 0, 150, 3, 20], ([1], [1]), ([], []), [0], [0]),
    ((300, 3), (5, 3, 4), [100, 0, 250, 3, 20], ([1], [1]), ([], []), [0], [0]),
    ((3, 3), (2, 3, 4), [0, 0], ([1], [1]), ([], []), [0], [0]),
    ((4, 3), (4, 2), [1, 2], ([0], [0]), ([], []), [0], []),
    ((2, 4, 3), (2, 4, 5), [[1, 2], [3, 1]], ([1], [1]), ([0], [0]), [1], []),
    ((3, 4, 3), (3, 3, 5), [1, 1], ([2], [1]), ([0], [0]), [0], []),
    ((2, 4, 3), (2, 2, 3, 5), [[1, 2], [3, 1]], ([2], [2]), ([0], [0]), [1], [1]),
    ((2, 4, 3), (2, 3, 5), [[1, 2], [3, 1]], ([2], [1]), ([], []), [1], [0]),
    ((4, 2, 3), (2, 3, 5), [1, 2], ([2], [1]), ([], []), [0], [0]),
    ((4, 3), (2, 4, 5), [1, 2], ([1], [1]), ([], []), [0], [0]),
    ((4, 3), (2, 3, 5), [1, 2, 1], ([1], [1]), ([], []), [0], [0]),
    ((4, 3), (4, 5), [1, 2], ([0], [0]), ([], []), [0], [0]),
    ((4, 3), (2, 3, 5), [1.0, 2.0], ([1], [1]), ([], []), [0], [0]),
)


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@needs_jax
def test_ragged_products_against_jax():
    calls = [
        Expr(GENERAL.format(c=c, b=b, r=r, g=g), x=Arr(normal(*x)), y=Arr(normal(*y)), s=Arr(np.array(s))) for x, y, s, c, b, r, g in CASES
    ]
    x, y, s = Arr(normal(150, 3)), Arr(normal(3, 3, 4)), Arr(np.array([100, 0, 30]))
    calls += [
        Expr("jax.grad(lambda x, y: (lax.ragged_dot(x, y, s) ** 2).sum(), (0, 1))(x, y)", x=x, y=y, s=s),
        Expr("jax.vmap(lax.ragged_dot)(jnp.stack([x, x]), jnp.stack([y, 2 * y]), jnp.stack([s, s]))", x=x, y=y, s=s),
        Expr("lax.ragged_dot(x.astype('bfloat16'), y.astype('bfloat16'), s)", x=x, y=y, s=s),
        Expr("lax.ragged_dot((9 * x).astype('int8'), y.astype('int8'), s, preferred_element_type='int32')", x=x, y=y, s=s),
    ]
    peer.compare_all(calls, rtol=1e-4, atol=1e-5)


@needs_jax
def test_others_against_jax():
    x = Arr(normal(4, 20))
    peer.compare_all(
        [
            Expr("lax.approx_max_k(x, 3)", x=x),
            Expr("lax.approx_min_k(x, 2, reduction_dimension=0)", x=x),
            Expr("jax.jvp(lambda x: lax.approx_max_k(x, 2)[0], (x,), (x,))", x=x),
            Expr("lax.approx_max_k(x.astype(int), 3)", x=x),
            Expr("lax.approx_max_k(x, 30)", x=x),
            Expr("lax.scaled_dot(x, x.T, lhs_scale=x[:, :3])", x=x),
            Expr("lax.composite(lambda x, *, k: x * k, 'times')(x, k=3)", x=x),
            Expr("lax.stage(3)"),
            Expr("lax.rng_uniform(jnp.float32(0), jnp.int32(1), (3,))"),
            Expr("lax.rng_uniform(jnp.ones(2), jnp.ones(2), (3,))"),
        ]
    )
    scaled = "lax.scaled_dot(x, x.T, lhs_scale=x[:, :5], rhs_scale=x.T[:2], preferred_element_type='float32')"
    peer.compare_all([Expr(scaled, x=x)], rtol=3e-2, atol=3e-2)  # JAX rounds the operands to bfloat16 first


def test_ragged_all_to_all():
    def exchange(*args):
        return lax.ragged_all_to_all(*args, axis_name="i")

    x, out = np.arange(8.0).reshape(2, 4), np.full((2, 4), -1.0)
    starts, sizes, places = [[0, 1], [0, 2]], [[1, 2], [2, 1]], [[0, 0], [1, 2]]
    got = steno.vmap(exchange, axis_name="i")(x, out, *map(np.array, (starts, sizes, places, np.transpose(sizes))))
    want = out.copy()
    for i in range(2):
        for j in range(2):
            want[j, places[i][j] : places[i][j] + sizes[i][j]] = x[i, starts[i][j] : starts[i][j] + sizes[i][j]]
    np.testing.assert_array_equal(got, want)


def test_rng_uniform_draws_anew():
    f = steno.jit(lambda a, b: lax.rng_uniform(a, b, (3,)))
    a, b = f(2.0, 3.0), f(2.0, 3.0)
    assert not np.array_equal(a, b) and snp.all((a >= 2) & (a < 3)) and lax.rng_uniform(0, 4, (50,)).max() == 3


def test_composites_have_their_name():
    jaxpr = steno.make_jaxpr(lambda x: lax.composite(lambda x, *, k: x * k, "times")(x, k=3.0))(1.0)
    assert "name=times" in str(jaxpr)
