"""vectorize, apply_along_axis, apply_over_axes, frompyfunc and piecewise against the real JAX.

A row whose ops cannot be batched yet is an expected failure, so that rows become tests as rules arrive."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from peer import NO_JAX, Arr, Expr, Failure, assert_same, peer, run_here

pytestmark = pytest.mark.skipif(peer() is None, reason=NO_JAX)

M = Arr(np.arange(6, dtype=np.float32).reshape(2, 3))
V = Arr(np.array([1.0, 2.0, -1.0], np.float32))
C = Arr(np.arange(24, dtype=np.int32).reshape(2, 3, 4))

ROWS = [
    "jnp.vectorize(lambda a: a + 1)(m)",
    "jnp.vectorize(lambda a, b: a * b)(m, v)",
    "jnp.vectorize(lambda a, b: a * b)(m, 2.0)",
    "jnp.vectorize(lambda a, b: (a + b, a - b))(m, v)",
    "jnp.vectorize(jnp.dot, signature='(n),(n)->()')(m, v)",
    "jnp.vectorize(jnp.dot, signature='(n),(n)->()')(v, v)",
    "jnp.vectorize(jnp.outer, signature='(n),(k)->(n,k)')(m, v)",
    "jnp.vectorize(lambda a: (a.sum(), a[::-1]), signature='(n)->(),(n)')(c)",
    "jnp.vectorize(lambda a, k: a * k, excluded=(1,))(m, 3.0)",
    "jnp.vectorize(lambda a, k: a * k, excluded=('k',))(m, k=3.0)",
    "jnp.vectorize(jnp.matmul, signature='(a,b),(b,c)->(a,c)')(c, jnp.ones((4, 2), jnp.int32))",
    "jnp.apply_along_axis(jnp.sum, 0, m)",
    "jnp.apply_along_axis(jnp.cumsum, 1, c)",
    "jnp.apply_along_axis(lambda a: jnp.outer(a, a), -1, m)",
    "jnp.apply_along_axis(lambda a, k: a[k], 1, c, 2)",
    "jnp.apply_over_axes(jnp.sum, c, (0, 2))",
    "jnp.apply_over_axes(jnp.max, c, [1])",
    "jnp.frompyfunc(lambda a, b: a + b, 2, 1)(m, v)",
    "jnp.frompyfunc(lambda a, b: a * b, 2, 1).outer(v, v)",
    "jnp.frompyfunc(jnp.add, 2, 1, identity=0).reduce(m, axis=1)",
    "jnp.frompyfunc(jnp.add, 2, 1, identity=0).accumulate(m, axis=1)",
    "jnp.piecewise(m, [m < 1, m > 3], [lambda a: -a, lambda a: a * 10, 7.0])",
    "jnp.piecewise(m, [m < 1, m > 3], [lambda a, k: a + k, 5.0, lambda a, k: a], 100.0)",
]

VARIABLES = {"m": M, "v": V, "c": C}


@pytest.fixture(scope="module")
def answers() -> list[Any]:
    server = peer()
    assert server is not None
    return server.batch([Expr(source, **VARIABLES) for source in ROWS])


@pytest.mark.parametrize("number", range(len(ROWS)), ids=[row.replace(" ", "") for row in ROWS])
def test_functional(answers: list[Any], number: int) -> None:
    call = Expr(ROWS[number], **VARIABLES)
    assert not isinstance(answers[number], Failure), answers[number]
    (got,) = run_here([call])
    if isinstance(got, Failure) and ("rule for" in got.message or "not implemented yet" in got.message):
        pytest.xfail(got.message)
    assert_same(call, got, answers[number], rtol=1e-6)
