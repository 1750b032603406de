"""Loops change arrays in place: structure, not time. In a program that writes a few elements of a large array in each iteration, nothing
inside the loop is of the array's size, and no carry of that size has a partner."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import steno
import steno.numpy as snp
from steno import lax
from steno.backends import cpu
from steno.core.aval import ShapedArray
from steno.core.trace import trace_to_jaxpr
from steno.ir.loops import Choice, CopyBuffer, Kernel, LibraryCall, Loop, Program

N, COLUMNS, WRITES = 700, 20, 9
LARGE = N * COLUMNS // 4


def inner_programs(program: Program) -> Iterator[Program]:
    """The programs that loops repeat, and those inside them."""
    for s in program.statements:
        if isinstance(s, Loop):
            yield s.body
            if s.cond is not None:
                yield s.cond
            yield from nested(s.body)
        elif isinstance(s, Choice):
            for branch, _ in s.branches:
                yield from inner_programs(branch)


def nested(program: Program) -> Iterator[Program]:
    for s in program.statements:
        inside = [s.body] if isinstance(s, Loop) else [b for b, _ in s.branches] if isinstance(s, Choice) else []
        for p in inside:
            yield p
            yield from nested(p)


def points(kernel: Kernel) -> int:
    """The most points of one of its stages."""
    outer = int(np.prod([v.extent for v in kernel.outer]))
    return outer * max(int(np.prod([v.extent for v in getattr(s, "vars", ())])) for s in kernel.stages)


def faults(program: Program) -> list[str]:
    """What costs an array's size in each iteration."""
    out = []
    loops = [s for s in program.statements if isinstance(s, Loop)]
    for p in inner_programs(program):
        loops += [s for s in p.statements if isinstance(s, Loop)]
        for s in p.statements:
            if isinstance(s, Kernel) and points(s) >= LARGE:
                out.append(f"kernel {s.name} of {points(s)} points")
            if isinstance(s, CopyBuffer) and s.source.size >= LARGE:
                out.append(f"copy of {s.source.size}")
            if isinstance(s, LibraryCall):
                out.append(f"call of {s.symbol}")
    out += [f"carry {home.name} has a partner" for s in loops for home, partner in s.carries if partner is not None and home.size >= LARGE]
    return out


def compiled(f, *args, donated=(0,)):
    avals = [ShapedArray(np.shape(x), np.asarray(x).dtype) for x in args]
    return cpu.compile(trace_to_jaxpr(lambda *a: list(steno.tree.leaves(f(*a))), avals), donated=frozenset(donated)).compiled


def at(x, i, more=0):
    return (i * 7919 + more) % x.shape[0]


def row(x):
    return snp.full((1, *x.shape[1:]), 2.0)


STEPS = {
    "set": lambda x, i: x.at[at(x, i)].set(i * 1.0),
    "add": lambda x, i: x.at[at(x, i)].add(i * 1.0),
    "dynamic_update_slice": lambda x, i: lax.dynamic_update_slice(x, row(x), (at(x, i), 0)),
    "set of a function of the array": lambda x, i: x.at[at(x, i)].set(x[at(x, i, 5)] * 0.5 + 1),
    "updates in a row": lambda x, i: x.at[at(x, i)].add(1.0).at[at(x, i, 3)].max(x[at(x, i, 1)]).at[0, 0].mul(0.5),
    "swap of rows": lambda x, i: x.at[at(x, i)].set(x[at(x, i, 9)]).at[at(x, i, 9)].set(x[at(x, i)]),
    "loop inside": lambda x, i: lax.fori_loop(0, 3, lambda j, x: x.at[at(x, i * 3 + j)].add(1.0), x),
    "where": lambda x, i: x.at[at(x, i)].set(snp.where(i % 2 == 0, 1.0, x[at(x, i)])),
}
AROUND = {
    "plain": lambda step: step,
    "cond": lambda step: lambda x, i: lax.cond(i % 2 == 0, step, lambda x, i: x, x, i),
    "cond of two": lambda step: lambda x, i: lax.cond(x[at(x, i), 0] > 0.5, step, lambda x, i: step(x, i + 1), x, i),
    "cond closing over it": lambda step: lambda x, i: lax.cond(i % 2 == 0, lambda: step(x, i), lambda: x),
    "switch": lambda step: lambda x, i: lax.switch(i % 3, [step, lambda x, i: x, lambda x, i: step(step(x, i), i + 1)], x, i),
    "cond in cond": lambda step: lambda x, i: lax.cond(i > 2, AROUND["cond"](step), lambda x, i: x, x, i),
}
LOOPS = {
    "scan": lambda step: lambda x: lax.scan(lambda x, i: (step(x, i), None), x, snp.arange(WRITES))[0],
    "fori_loop": lambda step: lambda x: lax.fori_loop(0, WRITES, lambda i, x: step(x, i), x),
    "while_loop": lambda step: lambda x: lax.while_loop(lambda s: s[0] < WRITES, lambda s: (s[0] + 1, step(s[1], s[0])), (0, x))[1],
}


def data(*shape):
    return np.random.default_rng(0).random(shape).astype(np.float32)


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("name", STEPS)
def test_steps_and_branches(name, around):
    step = AROUND[around](STEPS[name])
    x = data(N, COLUMNS)
    want = x
    for i in range(WRITES):
        want = step(snp.asarray(want), snp.int32(i))
    for loop in ("scan",) if around != "plain" else LOOPS:
        f = LOOPS[loop](step)
        assert faults(compiled(f, x).program) == [], loop
        np.testing.assert_array_equal(np.asarray(steno.jit(f)(x)), np.asarray(want))


@pytest.mark.parametrize("donated", [True, False])
def test_the_only_copy_is_of_an_array_that_is_kept(donated):
    made = compiled(LOOPS["scan"](AROUND["cond"](STEPS["add"])), data(N, COLUMNS), donated=(0,) if donated else ())
    copies = [s for s in made.program.statements if isinstance(s, CopyBuffer) and s.source.size >= LARGE]
    assert len(copies) == (not donated) and bool(made.aliases) == donated


def old_values(x):
    def body(carry, i):
        x, s = carry
        y = x.at[at(x, i)].set(i * 1.0)
        return (y, s + x[at(x, i, 1)]), x[at(x, i)] * 2

    return lax.scan(body, (x, snp.zeros(COLUMNS)), snp.arange(WRITES))


def several(x):
    def body(i, c):
        return {"a": c["a"].at[at(x, i)].set(c["b"][0, 0]), "b": c["b"].at[0].add(c["a"][at(x, i)] * 0.5), "n": c["n"] + 1}

    return lax.fori_loop(0, WRITES, body, {"a": x, "b": x * 2, "n": 0})["a"]


def condition_reads(x):
    start = (snp.int32(0), x)
    return lax.while_loop(
        lambda s: (s[0] < WRITES) & (s[1][at(s[1], s[0]), 0] < 1e9), lambda s: (s[0] + 1, STEPS["add"](s[1], s[0])), start
    )


def both_arrays(x):
    def body(i, c):
        one = lambda a, b: (a.at[at(a, i)].set(b[at(b, i), 0]), b)  # noqa: E731
        return lax.cond(i % 2 == 0, one, lambda a, b: (a, b.at[at(b, i)].add(a[at(a, i)])), *c)

    return lax.fori_loop(0, WRITES, body, (x, x + 1))


def stacked(x):
    return lax.scan(lambda c, i: (c + 1, x[at(x, i)]), 0, snp.arange(WRITES * 1000))[1]


def batched(x):
    def each(x, k):
        return lax.fori_loop(0, WRITES, lambda i, x: x.at[at(x, i * k)].add(x[at(x, i)]), x)

    return steno.vmap(each)(x.reshape(4, -1, COLUMNS), snp.arange(4)).reshape(x.shape)


def batched_slices(x):
    def each(x, k):
        return lax.fori_loop(0, WRITES, lambda i, x: lax.dynamic_update_slice(x, row(x), (at(x, i * k), 0)), x)

    return steno.vmap(each)(x.reshape(4, -1, COLUMNS), snp.arange(4)).reshape(x.shape)


def sum_of_rows(x):
    return lax.scan(lambda s, i: (s + (x[at(x, i)] ** 2).sum() + x[at(x, i, 1)][3], None), 0.0, snp.arange(WRITES))[0]


def sum_of_taken(x):
    def body(s, i):
        several = (snp.stack([i, i + 1, i]) * 7919) % N
        return s + (snp.take(x, several, axis=0) ** 2).sum(), None

    return lax.scan(body, 0.0, snp.arange(WRITES))[0]


def sum_of_carry(x):
    def body(c, i):
        s, x = c
        return (s + (x[at(x, i)] ** 2).sum(), x), None

    return lax.scan(body, (0.0, x), snp.arange(WRITES))[0][0]


def sum_of_writes(x):
    return lax.scan(lambda x, i: (x.at[at(x, i)].set(x[at(x, i, 1)] * 2.0), None), x, snp.arange(WRITES))[0].sum()


PROGRAMS = [old_values, several, condition_reads, both_arrays, batched, batched_slices]
LOSSES = [sum_of_rows, sum_of_taken, sum_of_carry, sum_of_writes]


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_programs(f):
    x = data(N, COLUMNS)
    assert faults(compiled(f, x).program) == []
    for got, want in zip(steno.tree.leaves(steno.jit(f)(x)), steno.tree.leaves(without_jit(f, x)), strict=True):
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


def without_jit(f, x):
    with steno.disable_jit():
        return f(snp.asarray(x))


@pytest.mark.parametrize("f", LOSSES, ids=lambda f: f.__name__)
def test_gradients(f):
    """Each iteration of the backward pass adds to the few elements that its iteration read."""
    x = data(N, COLUMNS)
    assert faults(compiled(steno.grad(f), x).program) == []
    got = np.asarray(steno.jit(steno.grad(f))(x))
    np.testing.assert_array_equal(got, np.asarray(steno.grad(f)(x)))
    unrolled = without_jit(steno.grad(f), x)
    np.testing.assert_allclose(got, np.asarray(unrolled), rtol=1e-6)
    both = steno.vmap(steno.grad(f))(np.stack([x, 2 * x]))
    np.testing.assert_allclose(np.asarray(both[0]), got, rtol=1e-6)


def test_results_are_written_where_they_lie():
    program = compiled(stacked, data(N, COLUMNS), donated=()).program
    assert faults(program) == []
    assert not any(isinstance(s, CopyBuffer) and s.source.size >= LARGE for s in program.statements)


def test_an_array_that_is_read_later_is_kept():
    """Branches, loops and updates of an array that is still needed leave it alone."""
    x = data(50, 3)

    def f(x):
        y = x * 2
        z = lax.cond(x[0, 0] < 2.0, lambda y: y.at[1].set(7.0), lambda y: y, y)
        w = y.at[2].add(1.0)
        v = lax.fori_loop(0, 3, lambda i, y: y.at[i].mul(0.0), y)
        return y + z, z, w, v, y.reshape(-1), y.reshape(3, 50).at[0].set(1.0)

    for got, want in zip(steno.jit(f)(x), without_jit(f, x), strict=True):
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


def test_checkpoint_in_scan_keeps_carries_only():
    """`memory_analysis` of the gradient of a scan: without `checkpoint` it keeps what each op of each iteration leaves, with it only what
    the policy saves: the carries, or the products besides."""
    d, rows, length, depth = 32, 16, 50, 4

    def layers(w, h):
        for _ in range(depth):
            h = snp.tanh(h @ w) * 1.1 + snp.sin(h)
        return h

    def bytes_of(wrap):
        body = wrap(layers)

        def loss(w, h):
            return (lax.scan(lambda h, _: (body(w, h), None), h, None, length=length)[0] ** 2).sum()

        lowered = steno.jit(steno.grad(loss)).lower(np.eye(d, dtype=np.float32), np.ones((rows, d), np.float32))
        return lowered.compile().memory_analysis().temp_size_in_bytes

    carry = rows * d * 4
    plain = bytes_of(lambda f: f)
    kept = bytes_of(steno.checkpoint)
    products = bytes_of(lambda f: steno.checkpoint(f, policy=steno.checkpoint_policies.dots_saveable))
    everything = bytes_of(lambda f: steno.checkpoint(f, policy=steno.checkpoint_policies.everything_saveable))
    assert kept < length * carry + 30 * carry
    assert (depth + 1) * length * carry <= products < (depth + 1) * length * carry + 30 * carry
    assert kept < products < plain and plain >= (2 * depth + 1) * length * carry
    assert everything > products
