"""Loops and branches in float64: derivatives to second order against finite differences and each other, maps against loops, compiled
against interpreted programs; every construct, and every construct within every other."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from check_transforms import NAMESPACE, Written, check
from control_flow_programs import ALL, DIFFERENTIABLE

import steno as jax
import steno.numpy as jnp
from steno import lax

X = np.array([0.3, -0.7, 1.1])
Y = np.array([[0.4, 0.9, -0.3], [0.8, -0.6, 0.5]])
Inner = Callable[[Any, Any], Any]


def with_jvp(g: Inner) -> Inner:
    f = jax.custom_jvp(lambda x, y: g(x, y) * y[0])
    f.defjvp(lambda p, t: jax.jvp(lambda x, y: g(x, y) * y[0], p, t))
    return f


def with_vjp(g: Inner) -> Inner:
    f = jax.custom_vjp(lambda x, y: g(x, y) * y[0])
    f.defvjp(lambda *p: jax.vjp(lambda x, y: g(x, y) * y[0], *p), lambda back, ct: back(ct))
    return f


def affine(a: Any, b: Any) -> Any:
    return a[0] * b[0], b[0] * a[1] + b[1]


# functions of three numbers and of `y`, shape (2, 3), made of such functions
CONSTRUCTS: dict[str, Callable[[Inner], Inner]] = {
    "scan": lambda g: lambda x, y: (lambda c, ys: c + ys[0])(*lax.scan(lambda c, t: (g(c, y) * t, c * c), x, y)),
    "scan in reverse": lambda g: lambda x, y: lax.scan(lambda c, t: (c * 0.5, g(c + t, y)), x, y, reverse=True)[1].sum(0),
    "scan of trees": lambda g: (
        lambda x, y: lax.scan(lambda c, t: ({"a": g(t["p"], y) * c["a"], "n": None}, None), {"a": x, "n": None}, {"p": y + x, "n": None})[
            0
        ]["a"]
    ),
    "scan, unrolled": lambda g: lambda x, y: lax.scan(lambda c, _: (jnp.sin(g(c, y)) + y[1], None), x, None, length=3, unroll=2)[0],
    "scan without a carry": lambda g: lambda x, y: lax.scan(lambda _, t: (None, g(x * t, y)), None, y)[1][1],
    "scan of a checkpoint": lambda g: lambda x, y: lax.scan(jax.checkpoint(lambda c, t: (jnp.sin(g(c, y) + t), None)), x, y)[0],
    "scan of length 0": lambda g: lambda x, y: lax.scan(lambda c, _: (g(c, y), None), x * y[0], None, length=0)[0],
    "scan of what does not change": lambda g: lambda x, y: lax.scan(lambda c, t: (g(x, y), c * t), x, y)[1].sum(0),
    "fori": lambda g: lambda x, y: lax.fori_loop(0, 2, lambda i, c: jnp.sin(g(c, y)) + i * y[0], x),
    "fori that writes": lambda g: lambda x, y: lax.fori_loop(0, 2, lambda i, a: a.at[i].set(g(a[i] + x, y)), y)[1],
    "cond": lambda g: lambda x, y: lax.cond(x.sum() > 0.2, lambda x: g(x, y) * y[0], lambda x: jnp.cos(x), x),
    "switch": lambda g: lambda x, y: lax.switch(jnp.int32(x.sum() * 2), [jnp.sin, lambda x: g(x, y) + y[1], lambda x: g(x, y)], x * 0.9),
    "map": lambda g: lambda x, y: lax.map(lambda t: g(t * x, y), y)[0],
    "map in batches": lambda g: lambda x, y: lax.map(lambda t: g(t + x, y), jnp.concatenate([y, y[:1] * 0.5]), batch_size=2).sum(0),
    "associative scan": lambda g: lambda x, y: lax.associative_scan(affine, (y, g(x, y) * y), reverse=True)[1][0],
    "vmap": lambda g: lambda x, y: jax.vmap(lambda t: g(t * x, y), out_axes=1)(y)[:, 1],
    "jit": lambda g: lambda x, y: jax.jit(lambda t: g(t, y) * x)(x + y[0]),
    "checkpoint": lambda g: lambda x, y: jax.checkpoint(lambda t: jnp.sin(g(t, y) * t))(x + y[0]),
    "checkpoint that keeps products": lambda g: (
        lambda x, y: jax.checkpoint(lambda t: g(t, y) @ jnp.outer(t, t), policy=jax.checkpoint_policies.dots_saveable)(x + y[0])
    ),
    "custom_jvp": with_jvp,
    "custom_vjp": with_vjp,
    "grad": lambda g: lambda x, y: jax.grad(lambda t: jnp.sum(jnp.sin(g(t, y)) * y[0]))(x),
    "while": lambda g: lambda x, y: lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, jnp.sin(g(c[1], y)) + y[0]), (0, x))[1],
    "fori of unknown length": lambda g: (
        lambda x, y: lax.fori_loop(0, jnp.int32(jnp.sum(x * 3)), lambda i, c: jnp.sin(g(c, y)) + i * y[0], x)
    ),
}


NAMES = list(CONSTRUCTS)
FORWARD_ONLY, REVERSE_ONLY = {"while", "fori of unknown length"}, {"custom_vjp"}
NO_DERIVATIVE = {("grad", f) for f in FORWARD_ONLY} | {("custom_vjp", f) for f in FORWARD_ONLY} | {("custom_jvp", r) for r in REVERSE_ONLY}


def leaf(x: Any, y: Any) -> Any:
    return jnp.sin(x) * x


def mode_of(*names: str) -> str | None:
    """None: no derivative in either mode."""
    forward, reverse = not REVERSE_ONLY & set(names), not FORWARD_ONLY & set(names)
    if names in NO_DERIVATIVE or not (forward or reverse):
        return None
    return "both" if forward and reverse else "forward" if forward else "reverse"


@pytest.mark.parametrize("name", NAMES)
def test_one(name: str) -> None:
    mode = mode_of(name)
    assert mode is not None
    check(Written(CONSTRUCTS[name](leaf), (X, Y), mode))


INNER = [n for n in NAMES if n not in {"scan of trees", "scan, unrolled", "scan without a carry", "fori", "switch", "map", "vmap"}]


@pytest.mark.parametrize("outer", NAMES)
def test_within_each_other(outer: str) -> None:
    """Every third pair is compiled too, in forms that take turns."""
    failed = []
    for k, inner in enumerate(INNER):
        mode = mode_of(outer, inner)
        if mode is not None:
            try:
                check(
                    Written(CONSTRUCTS[outer](CONSTRUCTS[inner](leaf)), (X, Y), mode, 4 * k + 1),
                    quick=True,
                    compiling=(k + NAMES.index(outer)) % 3 == 0,
                )
            except Exception as e:
                failed.append(f"{inner}: {type(e).__name__}: {str(e)[:300]}")
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("name", ALL)
def test_programs(name: str) -> None:
    source, args = ALL[name]
    f = eval(source, dict(NAMESPACE))
    check(Written(f, tuple(np.asarray(x, np.float64) for x in args), "both" if name in DIFFERENTIABLE else "forward"))


def test_the_table_is_complete() -> None:
    pairs = [p for p in itertools.product(NAMES, NAMES) if mode_of(*p) is not None]
    assert len(pairs) > 0.9 * len(NAMES) ** 2
