"""What leaves a loop, what stays, and that results do not change by a bit."""

from __future__ import annotations

import numpy as np
import pytest

import steno
import steno.numpy as snp
from steno import lax
from steno.compiler import hoist as hoisting
from steno.compiler.graph import Graph, Repeat
from steno.compiler.graph_builder import to_graph

rng = np.random.default_rng(3)
W = rng.standard_normal((32, 48)).astype(np.float32) * 0.2
SQUARE = rng.standard_normal((32, 32)).astype(np.float32) * 0.2


def names(graph: Graph) -> list[str]:
    return [n.name for n in graph.nodes]


def loop_of(f, *args) -> tuple[list[str], Repeat]:
    """The names of what surrounds the only loop of a function, and the loop."""
    graph = to_graph(steno.make_jaxpr(f)(*args))
    (repeat,) = [n.kind for n in graph.nodes if isinstance(n.kind, Repeat)]
    return [n for n in names(graph) if n not in ("scan", "while")], repeat


def scanned(body, steps=8):
    """scan of `body(carry, w) -> carry` over a carry of (rows, 32), `w` being a constant of the loop."""
    return lambda h, w: lax.scan(lambda h, _: (body(h, w), None), h, None, length=steps)[0]


def counted(body, steps=8):
    """The same, with `w` carried along."""
    return lambda h, w: lax.fori_loop(0, steps, lambda i, c: (body(*c), c[1]), (h, w))[0]


def ended(body, steps=8):
    def f(h, w):
        return lax.while_loop(lambda c: c[0] < steps, lambda c: (c[0] + 1, body(c[1], w)), (0, h))[1]

    return f


LOOPS = pytest.mark.parametrize("loop", [scanned, counted, ended])

BODIES = {
    "product": (lambda h, w: snp.tanh(h + (w.T @ w)[:, :32].sum(1)), SQUARE, 4, {"dot_general", "reduce_sum"}),
    "sum": (lambda h, w: h + snp.abs(w).sum() * 1e-3, W, 4, {"reduce_sum"}),
    "softmax": (lambda h, w: h @ steno.nn.softmax(w, -1), SQUARE, 4, {"reduce_max", "exp"}),
    "sorted": (lambda h, w: h + snp.sort(w, -1)[:, 0], SQUARE, 4, {"sort"}),
    "cumulative": (lambda h, w: h + snp.cumsum(w, 0)[3], SQUARE, 4, {"cumsum"}),
    "scattered": (lambda h, w: h + w.at[1].add(w[2])[1], SQUARE, 4, {"scatter-add"}),
    "transposed": (lambda h, w: snp.tanh(snp.tanh(h @ w) @ w.T), W, 4, {"transpose"}),
    "contracted by the last axis": (lambda h, w: snp.tanh(lax.dot_general(h, w, (((1,), (1,)), ((), ())))), SQUARE, 4, {"transpose"}),
    "matrix by vector": (lambda h, w: snp.tanh(w @ h[0])[None] + h, SQUARE, 4, {"transpose"}),
}


@LOOPS
@pytest.mark.parametrize("case", BODIES)
def test_what_leaves_a_loop(loop, case):
    body, w, rows, expected = BODIES[case]
    h = rng.standard_normal((rows, 32)).astype(np.float32)
    outside, repeat = loop_of(loop(body), h, w)
    assert expected <= set(outside)
    assert not (expected - {"transpose", "exp"}) & set(names(repeat.body)) or "dot_general" in expected
    got = steno.jit(loop(body))(h, w)
    for _ in range(8):
        h = steno.jit(body)(h, w)
    np.testing.assert_array_equal(got, h)


STAYS = {
    "cheap": lambda h, w: h + (w * 2.0 + 1.0)[0],
    "a view": lambda h, w: h + w[1] + w.T[2],
    "small": lambda h, w: h + snp.exp(w[0, :4]).sum() * snp.exp(w[0, 0]),
    "larger than what it comes from": lambda h, w: h + snp.sin(snp.broadcast_to(w[0], (300000, 32))).sum(0) * 1e-6,
    "varying": lambda h, w: h + snp.exp(w + h[0]).sum(),
}


@LOOPS
@pytest.mark.parametrize("case", STAYS)
def test_what_stays(loop, case):
    outside, repeat = loop_of(loop(STAYS[case]), np.zeros((4, 32), np.float32), SQUARE)
    if case == "larger than what it comes from":  # its sum leaves
        assert "reduce_sum" in outside and "reduce_sum" not in names(repeat.body)
    else:
        assert not {"exp", "mul", "transpose", "slice", "reduce_sum"} & set(outside)


def test_few_iterations_or_many_rows_prepare_nothing():
    body = BODIES["contracted by the last axis"][0]
    few = np.zeros((4, 32), np.float32)
    many = np.zeros((hoisting.ROWS + 1, 32), np.float32)
    assert "transpose" not in loop_of(scanned(body, hoisting.ITERATIONS - 1), few, SQUARE)[0]
    assert "transpose" not in loop_of(scanned(body), many, SQUARE)[0]


def test_out_of_nested_loops():
    def f(h, w):
        def outer(h, _):
            return lax.scan(lambda h, _: (snp.tanh(h + snp.exp(w).sum(0) * 0.1), None), h, None, length=5)[0], None

        return lax.scan(outer, h, None, length=6)[0]

    h = rng.standard_normal(32).astype(np.float32)
    outside, repeat = loop_of(f, h, SQUARE)
    assert {"exp", "reduce_sum"} <= set(outside)
    assert not {"exp", "reduce_sum"} & set(names(repeat.body))
    got = steno.jit(f)(h, SQUARE)
    for _ in range(30):
        h = steno.jit(lambda h, w: snp.tanh(h + snp.exp(w).sum(0) * 0.1))(h, SQUARE)
    np.testing.assert_array_equal(got, h)


def test_effects_and_invariant_results_stay():
    seen = []

    def f(x):
        def body(c, _):
            steno.debug.callback(lambda v: seen.append(float(v)), snp.exp(x).sum())
            return c + 1.0, snp.exp(x)

        return lax.scan(body, 0.0, None, length=5)

    x = snp.ones(100)
    total, rows = steno.jit(f)(x)
    steno.effects_barrier()
    assert float(total) == 5.0 and seen == [float(steno.jit(lambda x: snp.exp(x).sum())(x))] * 5
    np.testing.assert_array_equal(rows, np.stack([np.asarray(snp.exp(x))] * 5))


def test_derivatives_of_a_recurrent_network():
    def loss(w, xs):
        h, _ = lax.scan(lambda h, x: (snp.tanh(snp.concatenate([h, x], -1) @ w), None), snp.zeros((4, 32)), xs)
        return (h**2).sum()

    w = rng.standard_normal((48, 32)).astype(np.float32) * 0.2
    xs = rng.standard_normal((10, 4, 16)).astype(np.float32)

    def unrolled(w, xs):
        h = snp.zeros((4, 32))
        for x in xs:
            h = snp.tanh(snp.concatenate([h, x], -1) @ w)
        return (h**2).sum()

    np.testing.assert_allclose(steno.grad(loss)(w, xs), steno.grad(unrolled)(w, xs), rtol=2e-5, atol=1e-6)
    graph = to_graph(steno.make_jaxpr(steno.grad(loss))(w, xs))
    assert "transpose" in names(graph)
