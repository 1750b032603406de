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
RNN = "lambda w, x: lax.scan({wrap}(lambda h, t: (jnp.tanh(h @ w + t), None)), jnp.zeros(3), x{more})[0].sum()"
WX = [normal(3, 3), normal(6, 3)]
RULE = (
    "[f for f in [jax.custom_vjp(lambda a, b: jnp.sin(a) * b)] for _ in [f.defvjp(lambda a, b: (f(a, b), (a, b)), lambda r, g: {rule})]][0]"
)
CUSTOM_VJP = RULE.format(rule="(g * jnp.cos(r[0]) * r[1], g * jnp.sin(r[0]))")
CUSTOM_JVP = "[f for f in [jax.custom_jvp(lambda a: jnp.sin(a) * a)] for _ in [f.defjvp(lambda p, t: (f(*p), t[0] * jnp.cos(p[0])))]][0]"
COND = "lambda p, x: lax.cond(p > 0, lambda x: jnp.sin(x) * x, lambda x: jnp.exp(x) * p, x).sum()"
SWITCH = "lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, lambda x: x * x], x).sum()"
FORI = "lambda w, x: lax.fori_loop(0, 5, lambda i, c: jnp.tanh(w @ c) + i * x, x).sum()"
WHILE = "lambda x, y: lax.while_loop(lambda c: c.sum() < 20., lambda c: c * 2. + jnp.sin(y), x)"
NESTED = "lambda w, x: lax.scan(lambda c, t: (lax.fori_loop(0, 3, lambda i, d: jnp.sin(w @ d) + t, c), c[0]), jnp.zeros(3), x)[0].sum()"
P3, ONE = Arr(np.float32(0.5)), Arr(np.int32(1))
PROGRAMS |= {
    "grad of a scan in reverse": (f"jax.grad({RNN.format(wrap='', more=', reverse=True')})", WX),
    "grad of a scan with checkpoint": (f"jax.grad({RNN.format(wrap='jax.checkpoint', more='')})", WX),
    "grad of a scan with stacked results": (
        "jax.grad(lambda w, x: lax.scan(lambda h, t: (jnp.tanh(h @ w + t),) * 2, jnp.zeros(3), x)[1].sum(), (0, 1))",
        WX,
    ),
    "vmap of grad of a scan": (f"jax.vmap(jax.grad({RNN.format(wrap='', more='')}), (None, 0))", [normal(3, 3), normal(2, 6, 3)]),
    "jvp of a scan": (f"lambda w, x: jax.jvp({RNN.format(wrap='', more='')}, (w, x), (w, x))", WX),
    "hessian of a scan": ("jax.hessian(lambda x: lax.scan(lambda c, _: (jnp.sin(c) * x, None), x, None, length=4)[0].sum())", [normal(3)]),
    "grad of grad of a scan": (
        "jax.grad(jax.grad(lambda x: lax.scan(lambda c, _: (jnp.sin(c) * x, None), x, None, length=4)[0]))",
        [P3],
    ),
    "vmap of a scan": ("jax.vmap(lambda c, x: lax.scan(lambda c, t: (c * t + 1., c), c, x), (0, None))", [normal(4), normal(6)]),
    "grad of a cond": (f"jax.grad({COND}, (0, 1))", [P3, normal(4)]),
    "hessian of a cond": (f"jax.hessian({COND}, 1)", [P3, normal(4)]),
    "jvp of a cond": (f"lambda p, x: jax.jvp({COND}, (p, x), (p, x))", [P3, normal(4)]),
    "vmap of a cond, one predicate": (f"jax.vmap({COND}, (None, 0))", [P3, normal(5, 4)]),
    "vmap of a cond": (f"jax.vmap({COND})", [normal(5), normal(5, 4)]),
    "vmap of grad of a cond": (f"jax.vmap(jax.grad({COND}, 1))", [normal(5), normal(5, 4)]),
    "grad of a switch": (f"jax.grad({SWITCH}, 1)", [ONE, normal(4)]),
    "vmap of a switch": (f"jax.vmap({SWITCH}, (None, 0))", [ONE, normal(5, 4)]),
    "grad of a fori loop": (f"jax.grad({FORI}, (0, 1))", [normal(3, 3), normal(3)]),
    "vmap of a fori loop": (f"jax.vmap({FORI}, (None, 0))", [normal(3, 3), normal(5, 3)]),
    "jvp of a while loop": (f"lambda x, y: jax.jvp({WHILE}, (x, y), (x, y))", [Arr(np.ones(3, np.float32)), normal(3)]),
    "vmap of a while loop": (f"jax.vmap({WHILE}, (0, None))", [Arr(np.ones((2, 3), np.float32)), normal(3)]),
    "vmap of a while loop over constants": (f"jax.vmap({WHILE}, (None, 0))", [Arr(np.ones(3, np.float32)), normal(2, 3)]),
    "jacfwd of a while loop": (f"jax.jacfwd({WHILE}, 1)", [Arr(np.ones(3, np.float32)), normal(3)]),
    "grad of a scan of fori loops": (f"jax.grad({NESTED}, (0, 1))", WX),
    "grad of a scan of conds": (
        "jax.grad(lambda w, x: lax.scan(lambda c, t: "
        "(lax.cond(t[0] > 0, lambda c: jnp.sin(w * c), lambda c: c * t, c), None), w, x)[0].sum())",
        [normal(3), normal(6, 3)],
    ),
    "grad of nested jits": ("jax.grad(jax.jit(lambda x: jax.jit(lambda y: jnp.sin(y) * x.sum())(x * 2.).sum()))", [normal(4)]),
    "grad of a jit called twice": (
        "jax.grad(lambda x: (lambda f: f(f(x)).sum())(jax.jit(lambda y: jnp.tanh(y) * y)))",
        [normal(4)],
    ),
    "custom_vjp in a scan": (
        f"jax.grad(lambda w, x: lax.scan(lambda c, t: ({CUSTOM_VJP}(c, t), c), w, x)[0].sum())",
        [normal(3), normal(6, 3)],
    ),
    "custom_jvp in a scan": (
        f"jax.grad(lambda w, x: lax.scan(lambda c, t: ({CUSTOM_JVP}(c) * t, None), w, x)[0].sum())",
        [normal(3), normal(6, 3)],
    ),
    "vmap of grad of a custom_vjp": (f"jax.vmap(jax.grad({CUSTOM_VJP}), (0, None))", [normal(5), P3]),
    "grad of a map": ("jax.grad(lambda w, x: lax.map(lambda t: jnp.sin(w @ t), x).sum())", WX),
    "grad of an associative scan": ("jax.grad(lambda x: lax.associative_scan(jnp.multiply, x)[-1].sum())", [normal(6, 3)]),
    "grad of running sums": ("jax.grad(lambda x: (jnp.cumsum(x, 1) * jnp.sort(x, 1)).sum())", [normal(4, 3)]),
    "grad of indexing": ("jax.grad(lambda x, i: (x[i] * x.at[i].set(2.)[::2].sum()).sum())", [normal(6), Arr(np.array([1, 3], np.int32))]),
    "grad of a scan that writes": (
        "jax.grad(lambda x: lax.fori_loop(1, 4, lambda i, a: a.at[i].set(jnp.sin(a[i - 1]) * a[i]), x).sum())",
        [normal(5)],
    ),
    "grad of a newton step": (
        "jax.grad(lambda a: lax.fori_loop(0, 5, lambda i, x: x - (x ** 3 - a) / (3. * x ** 2), a))",
        [Arr(np.float32(2.0))],
    ),
    "jvp of grad": (f"lambda p, x, y: jax.jvp(lambda x: jax.grad({MLP}, 1)(p, x, y), (x,), (x,))", [P, normal(5, 4), normal(5, 2)]),
    "linearize in jit": ("lambda x: jax.linearize(lambda x: jnp.sin(x) * x.sum(), x)[1](x)", [normal(4)]),
    "vjp of a convolution by hand": (
        "lambda x, k: jax.vjp(lambda x, k: sum(k[j] * x[j : j + 6] for j in range(3)), x, k)[1](x[:6])",
        [normal(8), normal(3)],
    ),
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
