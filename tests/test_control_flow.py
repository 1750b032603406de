"""Loops and branches against the real JAX: values and types, alone and under jvp, grad, vmap, jit and their compositions."""

from __future__ import annotations

import pytest
from control_flow_programs import ALL, variables
from peer import NO_JAX, Expr, compare_all, peer

pytestmark = pytest.mark.skipif(peer() is None, reason=NO_JAX)

# what is made of a program f and its arguments a; b are batches of three
VALUES = {
    "value": "f(*a)",
    "jit": "jax.jit(f)(*a)",
    "jvp": "jax.jvp(f, a, [x * 0.5 + 1 for x in a])[1]",
    "jit of jvp": "jax.jit(lambda *a: jax.jvp(f, a, a))(*a)",
    "linearize": "jax.linearize(f, *a)[1](*a)",
    "vmap": "jax.vmap(f)(*b)",
    "jit of vmap": "jax.jit(jax.vmap(f))(*b)",
    "vmap over the first argument": "jax.vmap(f, (0, *[None] * (len(a) - 1)))(b[0], *a[1:])",
    "vmap of vmap": "jax.vmap(jax.vmap(f, (0, *[None] * (len(a) - 1))), (None, *[0] * (len(a) - 1)))(b[0], *b[1:])",
    "jvp of vmap": "jax.jvp(jax.vmap(f), b, b)[1]",
    "vmap of jvp": "jax.vmap(lambda *a: jax.jvp(f, a, a)[1])(*b)",
}


@pytest.mark.parametrize("name", ALL)
def test_values(name: str) -> None:
    left_out = {"vmap of vmap"} if len(ALL[name][1]) == 1 else set()
    compare_all([Expr(t, **variables(name)) for k, t in VALUES.items() if k not in left_out], rtol=2e-4, atol=2e-5, weak=False)
