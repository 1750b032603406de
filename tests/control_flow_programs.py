"""Programs of loops and branches that the tests of control flow run: source over `jax jnp lax np`, and arguments (float32 arrays)."""

from __future__ import annotations

from typing import Any

import numpy as np
from peer import Arr, Expr

X = np.array([0.3, -0.7, 1.1], np.float32)
S = np.float32(0.8)
W = np.array([[0.2, -0.4, 0.1], [0.5, 0.3, -0.2], [-0.1, 0.6, 0.4]], np.float32)
ROWS = np.array([[0.1, 0.5, -0.3], [0.9, -0.2, 0.4], [-0.6, 0.7, 0.2], [0.3, 0.3, 0.8]], np.float32)

# differentiable in forward and reverse mode
DIFFERENTIABLE: dict[str, tuple[str, tuple[Any, ...]]] = {
    "cond": ("lambda p, x: lax.cond(p > 0.5, lambda x: jnp.sin(x) * x, lambda x: x ** 2, x)", (S, X)),
    "cond of closures": ("lambda p, x: lax.cond(p > 1, lambda: x * p, lambda: jnp.exp(x) * p)", (S, X)),
    "cond of trees": (
        "lambda p, x: lax.cond(p > 0, lambda t: {'a': t['x'] * t['p'], 'b': t['x'][0]}, lambda t: {'a': t['x'], 'b': t['p']}, "
        "{'x': x, 'p': p})",
        (S, X),
    ),
    "cond of a constant branch": ("lambda p, x: lax.cond(p > 1, lambda x: jnp.ones(3), lambda x: x * p, x)", (S, X)),
    "cond in cond": (
        "lambda p, x: lax.cond(p > 0, lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x) * p, lambda x: x, x)",
        (S, X),
    ),
    "switch": ("lambda p, x: lax.switch((p * 3).astype(int), [jnp.sin, jnp.cos, lambda x: x * p, lambda x: x ** 3], x)", (S, X)),
    "scan": ("lambda c, xs: lax.scan(lambda c, x: (c * jnp.sin(x) + c, c * x), c, xs)", (X, ROWS)),
    "scan in reverse": ("lambda c, xs: lax.scan(lambda c, x: (jnp.tanh(c) * x, (c, x * 2)), c, xs, reverse=True)", (X, ROWS)),
    "scan without xs": ("lambda c, w: lax.scan(lambda c, _: (jnp.tanh(w @ c), None), c, None, length=5)", (X, W)),
    "scan without a carry": ("lambda w, xs: lax.scan(lambda _, x: (None, jnp.sin(w @ x)), None, xs)[1]", (W, ROWS)),
    "scan that forwards": ("lambda c, xs: lax.scan(lambda c, x: ((c[0], c[1] * c[0] + x), (x, c[0], c[1])), (c, c * 2), xs)", (X, ROWS)),
    "scan of length 0": ("lambda c, w: lax.scan(lambda c, _: (w @ c, c), c, None, length=0)", (X, W)),
    "scan of length 1": ("lambda c, xs: lax.scan(lambda c, x: (c * x, c), c, xs[:1])", (X, ROWS)),
    "scan unrolled": ("lambda c, xs: lax.scan(lambda c, x: (c * x + 1, c), c, xs, unroll=2)", (X, ROWS)),
    "scan with a counter": (
        "lambda c, xs: lax.scan(lambda t, x: ((t[0] + 1, t[1] * x + t[0]), t[1] / (t[0] + 1)), (0, c), xs)[1]",
        (X, ROWS),
    ),
    "rnn": (
        "lambda w, u, h, xs: lax.scan(lambda h, x: (jnp.tanh(jnp.sin(w) @ h + u @ x),) * 2, h, xs)",
        (W, W.T.copy(), X, ROWS),
    ),
    "gru": (
        "lambda w, h, xs: lax.scan(lambda h, x: ((lambda z: (1 - z) * h + z * jnp.tanh(w @ (z * h) + x))"
        "(1 / (1 + jnp.exp(-(w.T @ h) - x))), h), h, xs)[0]",
        (W, X, ROWS),
    ),
    "sum of squares": ("lambda w, xs: lax.scan(lambda s, x: (s + jnp.sum((w @ x - x) ** 2), None), 0.0, xs)[0]", (W, ROWS)),
    "fori": ("lambda x, y: lax.fori_loop(0, 4, lambda i, c: c * y + i * x, x)", (X, X * 0.5)),
    "fori over rows": ("lambda xs: lax.fori_loop(1, 4, lambda i, c: c * xs[i] + xs[i - 1], xs[0])", (ROWS,)),
    "fori that writes": ("lambda xs: lax.fori_loop(1, 4, lambda i, a: a.at[i].set(a[i] * a[i - 1] + 1), xs)", (ROWS,)),
    "map": ("lambda w, xs: lax.map(lambda x: jnp.sin(w @ x), xs)", (W, ROWS)),
    "map in batches": ("lambda w, xs: lax.map(lambda x: jnp.sin(w @ x), xs, batch_size=3)", (W, ROWS)),
    "associative scan": ("lambda xs: lax.associative_scan(lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (xs, xs + 1))", (ROWS,)),
    "associative scan in reverse": ("lambda xs: lax.associative_scan(jnp.multiply, xs, reverse=True, axis=1)", (ROWS,)),
    "scan in scan": (
        "lambda w, xs: lax.scan(lambda c, x: lax.scan(lambda d, y: (d * y + c, d), jnp.sum(x), w @ x), 0.5, xs)",
        (W, ROWS),
    ),
    "cond in scan": (
        "lambda c, xs: lax.scan(lambda c, x: (lax.cond(x[0] > 0, lambda c: c * jnp.sin(x), lambda c: c + x, c), c[0]), c, xs)",
        (X, ROWS),
    ),
    "scan in cond": (
        "lambda p, c, xs: lax.cond(p > 0, lambda c: lax.scan(lambda c, x: (c * x + p, c[0]), c, xs), lambda c: (c, c[0] * xs[:, 0]), c)",
        (S, X, ROWS),
    ),
    "fori in switch in scan": (
        "lambda c, xs: lax.scan(lambda c, x: (lax.switch((x[0] * 4).astype(int), "
        "[jnp.sin, lambda c: lax.fori_loop(0, 2, lambda i, d: d * x, c), jnp.cos], c), c), c, xs)",
        (X, ROWS),
    ),
    "jit in scan": ("lambda c, xs: lax.scan(lambda c, x: (jax.jit(lambda c: jnp.sin(c) * x)(c), c), c, xs)", (X, ROWS)),
    "scan of linear constants": ("lambda w, b, xs: lax.scan(lambda s, x: (s + w @ x + b, None), b, xs)[0]", (W, X, ROWS)),
    "grad in scan": (
        "lambda w, xs: lax.scan(lambda w, x: (w - 0.1 * jax.grad(lambda w: jnp.sum(jnp.tanh(w @ x)))(w), None), w, xs)[0]",
        (W, ROWS),
    ),
    "custom_linear_solve": (
        "lambda d, b: lax.custom_linear_solve(lambda x: d * x, b, lambda mv, b: b / mv(jnp.ones(3)), lambda mv, b: b / mv(jnp.ones(3)))",
        (X + 2, X),
    ),
    "custom_root": (
        "lambda a: lax.custom_root(lambda x: x ** 3 - a, a + 1, "
        "lambda f, x: lax.fori_loop(0, 30, lambda i, x: x - f(x) / (3 * x ** 2), x), lambda g, y: y / g(jnp.ones(3)))",
        (X + 2,),
    ),
}

# differentiable in forward mode only
FORWARD: dict[str, tuple[str, tuple[Any, ...]]] = {
    "while": ("lambda x, y: lax.while_loop(lambda c: jnp.sum(c) < 20, lambda c: c * 2 + jnp.sin(y), jnp.abs(x))", (X, X * 0.5)),
    "while of trees": (
        "lambda x, y: lax.while_loop(lambda c: c['i'] < 5, lambda c: {'i': c['i'] + 1, 'v': jnp.sin(c['v']) * y}, {'i': 0, 'v': x})['v']",
        (X, X * 0.5),
    ),
    "while whose condition closes over": ("lambda x, y: lax.while_loop(lambda c: jnp.sum(c) < y[2], lambda c: c + y, x)", (X, X + 1)),
    "while that never runs": ("lambda x: lax.while_loop(lambda c: jnp.sum(c) > 100, lambda c: c * c, x)", (X,)),
    "while with constants carried": (
        "lambda x, y: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * c[2], c[2]), (0, x, y))[1:]",
        (X, X * 0.5),
    ),
    "fori of unknown length": ("lambda n, x: lax.fori_loop(0, (n * 5).astype(int), lambda i, c: c * jnp.sin(x) + i, x)", (S, X)),
    "scan in while": (
        "lambda x, xs: lax.while_loop(lambda c: jnp.sum(c) < 3, lambda c: lax.scan(lambda c, r: (c + jnp.abs(r), None), c, xs)[0], x)",
        (X, ROWS),
    ),
    "while in scan": (
        "lambda x, xs: lax.scan(lambda c, r: (lax.while_loop(lambda d: jnp.sum(d) < 2, lambda d: d + jnp.abs(r), c * 0.5), c), x, xs)",
        (X, ROWS),
    ),
    "while in cond": (
        "lambda p, x: lax.cond(p > 0, lambda x: lax.while_loop(lambda c: jnp.sum(c) < 9, lambda c: c + p * p + 1, x), lambda x: x, x)",
        (S, X),
    ),
}

ALL = DIFFERENTIABLE | FORWARD


def variables(name: str) -> dict[str, Any]:
    """For source that is to be evaluated: `f` the program, `a` its arguments, `b` batches of three, `all` the numbers of the arguments."""
    source, args = ALL[name]
    factors = np.array([1.0, -0.5, 1.5], np.float32)
    batches = [factors.reshape(3, *[1] * np.ndim(x)) * x for x in args]
    if name.startswith("custom"):  # of positive numbers
        batches = [np.abs(b) for b in batches]
    return {"f": Expr(source), "a": [Arr(x) for x in args], "b": [Arr(x) for x in batches], "all": tuple(range(len(args)))}
