"""Branches of a few scalar operations are all computed, and their results selected: the values are those of the branch taken."""

from __future__ import annotations

import numpy as np
import pytest

import steno
import steno.numpy as snp
from steno import lax
from steno.compiler.graph import Choose, Repeat
from steno.compiler.graph_builder import to_graph


def choices(f, *args) -> int:
    """How many branches are called, in loops too."""

    def count(graph) -> int:
        found = 0
        for n in graph.nodes:
            if isinstance(n.kind, Choose):
                found += 1 + sum(map(count, n.kind.branches))
            elif isinstance(n.kind, Repeat):
                found += count(n.kind.body)
        return found

    return count(to_graph(steno.make_jaxpr(f)(*args)))


def halve_or_add(c, x):
    return lax.cond(x > 0, lambda c: c + x, lambda c: c * 0.5, c)


def test_a_condition_in_a_loop():
    def f(xs):
        return lax.scan(lambda c, x: (halve_or_add(c, x), c), 0.0, xs)

    xs = np.random.default_rng(0).normal(size=200).astype(np.float32)
    assert choices(f, xs) == 0
    total, seen = steno.jit(f)(xs)
    c = np.float32(0)
    for x, s in zip(xs, np.asarray(seen), strict=True):
        assert s == c
        c = c + x if x > 0 else c * np.float32(0.5)
    assert total == c


@pytest.mark.parametrize("index", [-5, 0, 1, 2, 3, 100])
def test_the_index_is_clamped(index):
    branches = [lambda x, y: (x + 1, y), lambda x, y: (x * 2, y + 1), lambda x, y: (-x, y), lambda x, y: (x - 3, y * 7)]

    def f(i, x, y):
        return lax.switch(i, branches, x, y)

    args = (snp.int32(index), snp.arange(5, dtype=np.int8), snp.bfloat16(2.5))
    assert choices(f, *args) == 0
    want = branches[min(max(index, 0), 3)](*args[1:])
    for got, w in zip(steno.jit(f)(*args), want, strict=True):
        assert got.dtype == w.dtype
        np.testing.assert_array_equal(got, w)


def test_what_a_branch_that_is_not_taken_makes_does_not_show():
    def f(x):
        return lax.cond(x > 0, lambda x: snp.log(x), lambda x: snp.array(0.0), x)

    assert choices(f, snp.float32(1)) == 0
    assert steno.jit(f)(-1.0) == 0.0
    assert steno.jit(steno.grad(f))(-1.0) == 0.0
    with steno.debug_nans(True):
        assert steno.jit(f)(-1.0) == 0.0


def test_what_stays_a_branch():
    big = snp.ones(1000)

    def printing(x):
        return lax.cond(x > 0, lambda x: (steno.debug.print("{}", x), x)[1], lambda x: x, x)

    assert choices(lambda x: lax.cond(x[0] > 0, lambda x: x + 1, lambda x: x, x), big) == 1
    assert choices(printing, 1.0) == 1
    assert choices(lambda x: lax.cond(x > 0, lambda x: lax.fori_loop(0, 9, lambda i, x: x * 2, x), lambda x: x, x), 1.0) == 1
    assert choices(lambda x: lax.cond(x > 0, lambda x: snp.sin(snp.cos(snp.tan(snp.exp(x)))), lambda x: x, x), 1.0) == 1
    assert choices(lambda x: lax.cond(x > 0, lambda x: lax.cond(x > 1, lambda x: x, lambda x: -x, x), lambda x: x, x), 1.0) == 0
