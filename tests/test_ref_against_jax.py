"""References to mutable arrays against the real JAX: values of functions that use them inside, under every transformation; what callers see
of the references they pass; programs as text; errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from peer import NO_JAX, Arr, Expr, Failure, compare_all, peer, run_here

pytestmark = pytest.mark.skipif(peer() is None, reason=NO_JAX)

X = np.array([0.3, -0.7, 1.1], np.float32)
W = np.array([[0.2, -0.4, 0.1], [0.5, 0.3, -0.2], [-0.1, 0.6, 0.4], [0.3, 0.3, 0.8]], np.float32)

DEFINED = "(lambda names: (exec(code, names), names['f'])[1])(dict(jax=jax, jnp=jnp, lax=lax, np=np))"

# f is a pure function of x (3) and w (4, 3); its references live and die inside
PURE = {
    "rows": """
def f(x, w):
    r = jax.new_ref(w)
    r[1] = jnp.sin(x) * w[0]
    r[2:] += r[:2] * x
    r[0, 1] = x[2] * r[1, 0]
    return jax.freeze(r)""",
    "zeros that are written": """
def f(x, w):
    r = jax.new_ref(jnp.zeros(3))
    r[...] = x * w[1]
    r[...] = r[...] * r[...]
    return r[...] + w""",
    "arrays of indices": """
def f(x, w):
    r = jax.new_ref(w)
    i = jnp.array([0, 2, 0])
    jax.ref.addupdate(r, (i, jnp.array([1, 1, 1])), x)
    r[jnp.array([3, 1])] = jnp.stack([x, jnp.cos(x)])
    return r[i] * r[:, jnp.array([0, 1])][0, 1] + jax.freeze(r)[0]""",
    "dynamic indices": """
def f(x, w):
    r = jax.new_ref(w)
    i = jnp.argmax(x)
    r[i] = r[i - 1] * x
    r[i, 1:] = jnp.sin(r[1, :2])
    return r[...] * r[-i, i]""",
    "views": """
def f(x, w):
    r = jax.new_ref(w)
    r.at[1:].at[0][1:] = x[1:] * 2.
    r.at[:, 1][...] += jnp.sum(x)
    return r.at[2][...] * jax.ref.swap(r.at[0], slice(None), x) + r[0]""",
    "swap": """
def f(x, w):
    r = jax.new_ref(x)
    old = jax.ref.swap(r, 1, w[0, 0])
    older = jax.ref.swap(r, slice(None), w[1] * old)
    return older * jax.freeze(r)""",
    "jit inside": """
def f(x, w):
    r = jax.new_ref(x)
    @jax.jit
    def g(y):
        r[...] = jnp.sin(r[...]) * y
        return r[0]
    return g(w[0]) * g(w[1]) + r[...]""",
    "passed to jit": """
def f(x, w):
    r = jax.new_ref(x)
    @jax.jit
    def g(q, y):
        q[1] = y[2] * q[0]
        return q[...]
    return g(r, w[0]) * g(r, w[1]) + r[...]""",
    "scan": """
def f(x, w):
    r = jax.new_ref(x)
    def body(c, row):
        r[...] = jnp.sin(r[...]) * row + c
        return c * r[0], r[1]
    return lax.scan(body, x[0], w), jax.freeze(r)""",
    "scan over rows of a reference": """
def f(x, w):
    r = jax.new_ref(w)
    def body(c, row):
        row[...] = row[...] * c
        return c + row[0], jnp.sum(row[...])
    return lax.scan(body, x, r), jax.freeze(r)""",
    "scan in reverse": """
def f(x, w):
    r = jax.new_ref(w)
    def body(c, row):
        c = c * jnp.cos(row[...])
        row[0] = c[1]
        return c, None
    return lax.scan(body, x, r, reverse=True)[0] + r[0]""",
    "a reference of each iteration": """
def f(x, w):
    def body(c, row):
        r = jax.new_ref(row)
        r[0] *= c[1]
        return r[...], jnp.sum(r[...])
    return lax.scan(body, x, w)""",
    "fori": """
def f(x, w):
    r = jax.new_ref(w)
    def body(i, c):
        r[i] = r[i - 1] * c
        return c + r[i]
    return lax.fori_loop(1, 4, body, x), r[...]""",
    "cond": """
def f(x, w):
    r = jax.new_ref(x)
    def yes():
        r[0] = w[0, 0] * r[1]
        return r[2]
    def no():
        return r[1] * 2
    return lax.cond(x[0] > 0, yes, no) * lax.cond(x[1] > 0, yes, no) + r[...]""",
    "cond in scan": """
def f(x, w):
    r = jax.new_ref(w)
    def body(c, i):
        lax.cond(i % 2 == 0, lambda: r.__setitem__(i, c * r[0]), lambda: r.at[i].__setitem__(1, c[0]))
        return c + r[i], None
    return lax.scan(body, x, jnp.arange(4))[0] * jax.freeze(r)""",
    "checkpoint": """
def f(x, w):
    @jax.checkpoint
    def g(x):
        r = jax.new_ref(x)
        r[1] = jnp.sin(r[0]) * r[2]
        return r[...]
    return g(g(x)) * w""",
    "two references": """
def f(x, w):
    a, b = jax.new_ref(x), jax.new_ref(w)
    def body(i, _):
        a[...] = a[...] * b[i]
        b[i] = a[...] + 1.
    lax.fori_loop(0, 4, body, None)
    return a[...], b[...]""",
}
FORWARD = {
    "while": """
def f(x, w):
    r = jax.new_ref(jnp.abs(x))
    def body(i):
        r[...] = r[...] * 1.5 + w[0] ** 2
        return i + 1
    i = lax.while_loop(lambda i: i < 3, body, 0)
    return r[...] + i""",
}
LOSS = "lambda *a: sum(jnp.sum(jnp.cos(y * 0.5 + 1)) for y in jax.tree.leaves(f(*a)))"
VALUES = (
    "f(*a)",
    "jax.jit(f)(*a)",
    "jax.jvp(f, a, a)[1]",
    "jax.jit(lambda *a: jax.jvp(jax.jit(f), a, a))(*a)",
    "jax.vmap(f)(*b)",
    "jax.jit(jax.vmap(f, (0, None)))(b[0], a[1])",
    "jax.vmap(jax.jit(f), (None, 0))(a[0], b[1])",
)
GRADIENTS = (
    "jax.grad(g, (0, 1))(*a)",
    "jax.jit(jax.grad(g, (0, 1)))(*a)",
    "jax.grad(jax.jit(g), (0, 1))(*a)",
    "jax.linearize(f, *a)[1](*a)",
    "jax.jit(jax.vmap(jax.grad(g, (0, 1))))(*b)",
    "jax.grad(lambda *a: sum(jnp.sum(x ** 2) for x in jax.grad(g, (0, 1))(*a)))(*a)",
)


def variables(code: str) -> dict[str, Any]:
    batches = [np.stack([x, -x, x * 0.5]) for x in (X, W)]
    return {"f": Expr(DEFINED, code=code), "a": [Arr(X), Arr(W)], "b": [Arr(x) for x in batches]}


def compare_where_jax_can(calls: list[Expr], at_least: int) -> None:
    """Compares what JAX has an answer to: transformations of views, and some of loops over references, it has not. Here all have one."""
    server = peer()
    assert server is not None
    answers = server.batch(calls)
    here = run_here(calls)
    assert not [c for c, y in zip(calls, here, strict=True) if isinstance(y, Failure)], here
    possible = [c for c, y in zip(calls, answers, strict=True) if not isinstance(y, Failure)]
    assert len(possible) >= at_least
    compare_all(possible, rtol=5e-4, atol=5e-5, weak=False)


@pytest.mark.parametrize("name", PURE | FORWARD)
def test_values(name: str) -> None:
    v = variables((PURE | FORWARD)[name])
    compare_where_jax_can([Expr(t, **v) for t in VALUES], at_least=2)


@pytest.mark.parametrize("name", PURE)
def test_gradients(name: str) -> None:
    v = variables(PURE[name])
    compare_where_jax_can([Expr(t, g=Expr(LOSS, **v), **v) for t in GRADIENTS], at_least=0)


# f(r, x): a reference comes from outside; what it holds afterwards is seen by the caller
PASSED = {
    "writes": "def f(r, x):\n    r[...] += x\n    r[1] = 7.\n    return r[0] * x",
    "twice": "def f(r, x):\n    old = jax.ref.swap(r, 0, 2.)\n    r[0] += old\n    return r[...]",
    "loop": "def f(r, x):\n    lax.fori_loop(0, 3, lambda i, c: r.__setitem__(i, r[i - 1] * x[i]), None)\n    return r[1]",
    "while": "def f(r, x):\n    def b(i):\n        r[i] = x[i]\n        return i + 1\n    return lax.while_loop(lambda i: i < 3, b, 0)",
    "branch": "def f(r, x):\n    return lax.cond(r[0] > 0, lambda: r.__setitem__(0, 9.), lambda: r.__setitem__(1, 9.))",
    "reads": "def f(r, x):\n    return r[1:] * r[jnp.array([0, 2, 2])][1]",
}
AROUND = (
    "f",
    "jax.jit(f)",
    "jax.jit(jax.jit(f))",
    "lambda r, x: jax.jit(lambda x: f(r, x))(x)",
    "lambda r, x: lax.scan(lambda c, _: (c, f(r, x)), 0, None, length=2)[1]",
    "lambda r, x: jax.jvp(lambda x: f(jax.new_ref(r[...] * 1.), x), (x,), (x,))",
)


@pytest.mark.parametrize("name", PASSED)
def test_what_the_caller_sees(name: str) -> None:
    """Two calls in a row, so that the second one runs what the first one compiled."""
    source = "(lambda r: (g(r, x), g(r, x), r[...]))(jax.new_ref(jnp.arange(4.)[:3]))"
    f = Expr(DEFINED, code=PASSED[name])
    compare_where_jax_can([Expr(source, g=Expr(g, f=f), x=Arr(X)) for g in AROUND], at_least=5)


BATCHED = (
    "def f(r, x):\n    r[...] += x\n    return r[0]",
    "def f(r, x):\n    r[1] = jnp.sum(x)\n    return r[:2]",
    "def f(r, x):\n    i = jnp.argmax(x)\n    r[i] = 5.\n    return r[i - 1]",
    "def f(r, x):\n    jax.ref.addupdate(r, jnp.argsort(x), x)\n    return r[jnp.array([0, 0, 2])]",
    "def f(r, x):\n    return lax.fori_loop(0, 3, lambda i, c: (r.__setitem__(i, c * x[i]), c + r[i])[1], 1.)",
    "def f(r, x):\n    lax.cond(x[0] > 0, lambda: r.__setitem__(0, 1.), lambda: r.__setitem__(1, 2.))",
)


@pytest.mark.parametrize("code", BATCHED)
def test_batches_of_references(code: str) -> None:
    source = "(lambda r: (g(r, x), r[...]))(jax.new_ref(jnp.arange(9.).reshape(3, 3)))"
    around = ("jax.vmap(f)", "jax.jit(jax.vmap(f, (1, 0)))", "jax.vmap(jax.jit(f), (1, None))")
    f, x = Expr(DEFINED, code=code), np.array([[0.1, 2, -1], [1, -2, 0.5], [-1, 0, 3]], np.float32)
    calls = [Expr(source, g=Expr(g, f=f), x=Arr(x[0] if "None" in g else x)) for g in around]
    compare_where_jax_can(calls, at_least=0)


# Programs as text

TEXTS = (
    "lambda r, x: r[...]",
    "lambda r, x: r[0]",
    "lambda r, x: r[:, x]",
    "lambda r, x: r[1:, :2]",
    "lambda r, x: r[x, 1:3]",
    "lambda r, x: r.at[x].at[1:][0]",
    "lambda r, x: r.__setitem__((0, 1), 2.)",
    "lambda r, x: jax.ref.swap(r, (x, 1), 2.)",
    "lambda r, x: jax.ref.addupdate(r, (x, 1), 2.)",
    "lambda r, x: r.__setitem__(Ellipsis, r[...] * 2)",
    "lambda r, x: jax.freeze(jax.new_ref(r[0]))",
    "lambda r, x: jax.new_ref(r[0])[1:]",
    "lambda r, x: jax.jit(lambda r: r[0])(r)",
    "lambda r, x: jax.jit(lambda: r[0, x])()",
    "lambda r, x: lax.cond(x > 0, lambda: r[0, 0], lambda: r[1, x])",
    "jax.vmap(lambda r, x: r[0], (0, None))",
    "jax.vmap(lambda r, x: r[1:], (1, None))",
    "jax.vmap(lambda r, x: r[x], (0, None))",
)


@pytest.mark.parametrize("source", TEXTS)
def test_programs_print_alike(source: str) -> None:
    compare_all([Expr("str(jax.make_jaxpr(f)(jax.new_ref(jnp.ones((3, 4))), 1))", f=Expr(source))])


# Bad input

ERRORS = (
    "jax.jit(lambda a, b: a[...] + b[...])(r, r)",
    "jax.jit(lambda a: r[...] + a[...])(r)",
    "jax.jit(lambda a: a)(r)",
    "jax.jit(lambda: jax.new_ref(1.))()",
    "lax.scan(lambda c, x: (jax.new_ref(c), x), 0, jnp.arange(3))",
    "lax.scan(lambda c, _: (None, None), (r, r), None, length=1)",
    "lax.scan(lambda c, _: (r[...] + c[...], None), r, None, length=1)",
    "lax.cond(True, lambda a, b: None, lambda a, b: None, r, r)",
    "lax.cond(True, lambda: jax.new_ref(1.), lambda: jax.new_ref(2.))",
    "lax.while_loop(lambda c: True, lambda c: c, r)",
    "jax.vmap(lambda a, b: None)(r, r)",
    "jax.grad(lambda r: r[0])(r)",
    "r[5]",
    "r[0, 0]",
    "r[::-1]",
    "r[jnp.arange(2.)]",
    "r.__setitem__(0, jnp.int32(1))",
    "r.__setitem__(0, 1)",
    "r.__setitem__(slice(None), jnp.ones(2))",
    "r.__setitem__(slice(None), 1.)",
    "jax.ref.addupdate(r, 0, jnp.ones(1))",
    "jax.ref.get(jnp.arange(3), 0)",
    "r + 1",
    "jnp.sin(r)",
    "jax.jit(jnp.sin)(r)",
    "jax.new_ref('a')",
    "len(jax.new_ref(1.))",
)


@pytest.mark.parametrize("source", ERRORS)
def test_errors(source: str) -> None:
    compare_all([Expr(source, r=Expr("jax.new_ref(jnp.arange(3.))"))])
