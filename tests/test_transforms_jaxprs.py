"""Programs of derivatives and maps have no more equations than those of the real JAX, after dead code is gone from both.

Counted are the equations that compute: calls (of jitted functions, of functions with rules of their own, of checkpoints) count as what they
hold, loops and branches as one more than that."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from peer import NO_JAX, Arr, Expr, Library, peer

from steno.core.jaxpr import dce_jaxpr, open_jaxpr, subjaxprs

pytestmark = pytest.mark.skipif(peer() is None, reason=NO_JAX)

CALLS = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat", "remat2", "checkpoint", "eval_jaxpr")

COUNT_IN_JAX = f"""
from jax._src.interpreters.partial_eval import dce_jaxpr
from jax._src.core import subjaxprs
def count(jaxpr):
    jaxpr = getattr(jaxpr, 'jaxpr', jaxpr)
    total = 0
    for e in jaxpr.eqns:
        values = [v for p in e.params.values() for v in (p if isinstance(p, (tuple, list)) else [p])]
        inner = [v for v in values if hasattr(getattr(v, 'jaxpr', v), 'eqns')]
        total += (e.primitive.name not in {CALLS!r}) + sum(map(count, inner))
    return total
closed = jax.make_jaxpr(program)(*args)
out = count(dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars))[0])
"""


def count(program: Any) -> int:
    total = 0
    for e in open_jaxpr(program).eqns:
        total += (e.op.name not in CALLS) + sum(map(count, subjaxprs(e.params)))
    return total


def normal(*shape: int, seed: int = 0) -> Arr:
    return Arr(np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32))


MLP = "lambda p, x, y: ((jnp.tanh(jnp.tanh(x @ p['a'] + p['b']) @ p['c'] + p['d']) - y) ** 2).mean()"
P = {"a": normal(4, 8), "b": normal(8), "c": normal(8, 2), "d": normal(2)}
LSTM_CELL = """
lambda p, x: lax.scan(lambda c, t: (lambda z: (lambda i, f, g, o: (lambda s: ((jax.nn.sigmoid(o) * jnp.tanh(s), s), None))(
    jax.nn.sigmoid(f) * c[1] + jax.nn.sigmoid(i) * jnp.tanh(g)))(*jnp.split(z, 4)))(t @ p['wx'] + c[0] @ p['wh'] + p['b']),
    (jnp.zeros(3), jnp.zeros(3)), x)[0][0].sum()
"""
LSTM = {"wx": normal(2, 12), "wh": normal(3, 12), "b": normal(12)}

PROGRAMS: dict[str, tuple[str, list[Any]]] = {
    "grad of a multi-layer perceptron": (f"jax.grad({MLP})", [P, normal(5, 4), normal(5, 2)]),
    "per-example gradients": (f"jax.vmap(jax.grad({MLP}), (None, 0, 0))", [P, normal(5, 4), normal(5, 2)]),
    "grad of softmax cross entropy": (
        "jax.grad(lambda w, x, y: -(jax.nn.log_softmax(x @ w) * y).sum(-1).mean())",
        [normal(4, 3), normal(5, 4), normal(5, 3)],
    ),
    "grad of layer normalisation": (
        "jax.grad(lambda x, g: ((x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * g).sum())",
        [normal(5, 4), normal(4)],
    ),
    "grad of attention": (
        "jax.grad(lambda q, k, v: (jax.nn.softmax(q @ k.T / 2., -1) @ v).sum(), (0, 1, 2))",
        [normal(5, 4), normal(5, 4), normal(5, 4)],
    ),
    "grad of a recurrent network": (
        "jax.grad(lambda w, x: lax.scan(lambda h, t: (jnp.tanh(h @ w + t), None), jnp.zeros(3), x)[0].sum())",
        [normal(3, 3), normal(6, 3)],
    ),
    "grad of an lstm": (f"jax.grad({LSTM_CELL.strip()})", [LSTM, normal(6, 2)]),
    "hessian of a small function": ("jax.hessian(lambda x: (jnp.sin(x) * jnp.exp(x)).sum() * x.sum())", [normal(4)]),
    "vmap of a jitted product": ("jax.vmap(jax.jit(lambda a, b: jnp.sin(a @ b).sum(-1)), (0, None))", [normal(5, 3, 4), normal(4, 2)]),
    "grad of jit of vmap": (
        "jax.grad(jax.jit(lambda w, x: jax.vmap(lambda a: jnp.tanh(a @ w).sum())(x).sum()))",
        [normal(4, 3), normal(5, 4)],
    ),
    "jacfwd": ("jax.jacfwd(lambda x: jnp.sin(x) * x.sum())", [normal(4)]),
    "checkpoint": ("jax.grad(jax.checkpoint(lambda x, w: jnp.sin(jnp.sin(x @ w) @ w).sum()))", [normal(5, 4), normal(4, 4)]),
    "batched normalisation": ("jax.vmap(lambda x: (x - x.mean()) / (x.std() + 1.), in_axes=1, out_axes=1)", [normal(5, 4)]),
    "vmap of vmap": ("jax.vmap(jax.vmap(lambda a, b: jnp.maximum(a, b) * 2., (0, None)), (None, 0))", [normal(5), normal(4)]),
    "grad of a polynomial": ("jax.grad(lambda x: x ** 3 + 2. * x ** 2 - x / 3.)", [Arr(np.float32(2.0))]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_more_equations(name: str) -> None:
    source, args = PROGRAMS[name]
    here = Library("steno")
    program = eval(source, dict(here.namespace))
    closed = here.module.make_jaxpr(program)(*[here.value(a) for a in args])
    mine = count(dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars))[0])
    server = peer()
    assert server is not None
    run = "(lambda names: (exec(code, names), names['out'])[1])(dict(jax=jax, jnp=jnp, lax=lax, args=args))"
    theirs = server.call(Expr(run, code=f"program = {source}\n{COUNT_IN_JAX}", args=args))
    assert mine <= theirs.value, f"{mine} equations, JAX has {theirs.value}:\n{closed}"
