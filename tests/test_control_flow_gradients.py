"""Gradients of loops and branches against the real JAX, under jit, vmap and grad again."""

from __future__ import annotations

import pytest
from control_flow_programs import DIFFERENTIABLE, FORWARD, variables
from peer import NO_JAX, Expr, compare_all, peer

pytestmark = pytest.mark.skipif(peer() is None, reason=NO_JAX)

LOSS = "lambda *a: sum(jnp.sum(jnp.cos(y * 0.5 + 1)) for y in jax.tree.leaves(f(*a)))"
GRADIENTS = {
    "grad": "jax.grad(g, all)(*a)",
    "jit of grad": "jax.jit(jax.grad(g, all))(*a)",
    "grad of jit": "jax.grad(jax.jit(g), all)(*a)",
    "vmap of grad": "jax.vmap(jax.grad(g, all))(*b)",
    "jit of vmap of grad": "jax.jit(jax.vmap(jax.grad(g)))(*b)",
    "grad of vmap": "jax.grad(lambda *b: jnp.sum(jax.vmap(g)(*b)), all)(*b)",
    "grad of vmap of jvp": "jax.grad(lambda *b: jnp.sum(jax.vmap(lambda *a: jax.jvp(g, a, a)[1])(*b)), all)(*b)",
    "hessian": "jax.jit(jax.hessian(g))(*a)",
    "grad of grad": "jax.grad(lambda *a: sum(jnp.sum(x ** 2) for x in jax.grad(g, all)(*a)))(*a)",
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients(name: str) -> None:
    v = variables(name)
    compare_all([Expr(t, g=Expr(LOSS, **v), **v) for t in GRADIENTS.values()], rtol=5e-4, atol=5e-5, weak=False)


@pytest.mark.parametrize("name", FORWARD)
def test_reverse_mode_of_while_is_an_error(name: str) -> None:
    v = variables(name)
    compare_all([Expr("jax.grad(g)(*a)", g=Expr(LOSS, **v), **v)])
