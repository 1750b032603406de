"""Maps that change the layout of memory: transposes in tiles, short axes that interleave, divided loops. Emitted code = the interpreter."""

from __future__ import annotations

import ctypes
import mmap
import random
from itertools import permutations

import numpy as np
import pytest
from random_loops import PARALLEL, Code, same, values

from steno.compiler.emit_interleaved import find_interleaving
from steno.compiler.emit_tiles import find_tiling
from steno.compiler.nests import map_kernel
from steno.compiler.target import AVX2, NEON, host_target
from steno.ir import interp_loops
from steno.ir.expr import Builder
from steno.ir.index import Index, LoopVar, Value, linear, var
from steno.ir.loops import Buffer, Kernel, MapStage, Program, Store

B, I8, F32, F64 = (np.dtype(n) for n in ("bool", "int8", "float32", "float64"))
HOST = host_target()
TARGETS = [HOST] if HOST in (AVX2, NEON) else [HOST, AVX2]

targets = pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
layouts = pytest.mark.parametrize("dtype", [I8, F32, F64, B], ids=str)


def compare(kernel, inputs, outputs, target):
    program = Program(tuple(inputs), tuple(outputs), (), (), 0, (kernel,))
    data = list(inputs.values())
    want = interp_loops.run(program, data)
    code = Code(program, target)
    for n in (1, 2):
        for k, (x, y) in enumerate(zip(code(data, n), want, strict=True)):
            assert same(x, y), f"{outputs[k]}, {n} threads: {np.nonzero(x != y)[0][:5]}"


def nest(loops, stores, cost=PARALLEL):
    return Kernel("k", tuple(loops[:-1]), (MapStage((loops[-1],), tuple(stores)),), cost)


@targets
@layouts
def test_tiles_across_any_loop(target, dtype):
    """Every order of three axes, some of four, also of sizes that tiles do not divide, and with an operand in the result's order."""
    rng = random.Random(0)
    orders = [*permutations(range(3)), (3, 2, 1, 0), (0, 3, 2, 1), (3, 0, 1, 2), (1, 3, 0, 2)]
    shapes = {3: [(33, 5, 70), (6, 16, 32)], 4: [(17, 2, 3, 19)]}
    for order in orders:
        for shape in shapes[len(order)]:
            b = Builder()
            size = int(np.prod(shape))
            out = tuple(shape[a] for a in order)
            loops = [LoopVar(f"i{k}", n) for k, n in enumerate(out)]
            x, y, z = Buffer("x", dtype, size, "input"), Buffer("y", dtype, size, "input"), Buffer("z", dtype, size, "output")
            at = linear([var(v) for v in loops], out)
            source = linear([var(loops[order.index(a)]) for a in range(len(order))], shape)
            kernel = nest(loops, [Store(z, at, b.max(b.load(x, source), b.load(y, at)))])
            compare(kernel, {x: values(rng, dtype, size), y: values(rng, dtype, size)}, [z], target)


def test_the_loops_that_loads_run_with_are_found():
    b = Builder()
    for n, m in ((64, 1), (30, 2)):
        loops = i, j, k = LoopVar("i", n), LoopVar("j", 40), LoopVar("k", 64)
        x, z = Buffer("x", F32, n * 40 * 64, "input"), Buffer("z", F32, n * 40 * 64, "output")
        source = linear([var(v) for v in (k, j, i)], (64, 40, n))
        tiling = find_tiling(nest(loops, [Store(z, linear([var(v) for v in loops], (n, 40, 64)), b.load(x, source))]), HOST)
        assert tiling is not None and tiling.across == (i, j)[:m] and tiling.along is k


def interleaving(b, dtype, n, m):
    """(name, loops, input sizes, function of the inputs giving the stores' offset and value) of maps with an axis of size n < m."""
    i, j = LoopVar("i", m), LoopVar("j", n)

    def choice(x, y):
        first = b.lt(b.index(var(j)), n // 2)
        return b.select(first, b.load(x, var(i), first), b.load(y, var(i) + 1, b.not_(first)))

    def looked_up(x, y):
        row = b.convert(b.rem(b.convert(b.load(y, var(k)), np.dtype("uint8")), 3), np.dtype("int64"))
        return b.load(x, Index(0, ((Value(row, 0, 2), m * n),)) + var(i) * n + (n - 1) - var(j))

    k = LoopVar("k", 2)
    dense = var(i) * n + var(j)
    turned = var(j) * m + var(i)
    return [
        ("stack", [i, j], (m, m + 1), dense, choice),
        ("reversed", [i, j], (m * n, n), dense, lambda x, y: b.max(b.load(x, var(i) * n - var(j) + (n - 1)), b.load(y, var(j)))),
        ("backwards", [i, j], (m * n, m), dense, lambda x, y: b.max(b.load(x, Index(m * n - n) - var(i) * n + var(j)), b.load(y, var(i)))),
        ("short rows", [j, i], (m * n, m), turned, lambda x, y: b.max(b.load(x, dense), b.load(y, var(i)))),
        ("short columns", [i, j], (m * n, n), dense, lambda x, y: b.max(b.load(x, turned), b.load(y, var(j)))),
        ("at rows looked up", [k, i, j], (3 * m * n, 2), var(k) * (m * n) + dense, looked_up),
        ("of wider rows", [i, j], (m * (n + 2), 1), dense, lambda x, y: b.load(x, var(i) * (n + 2) + var(j) + 1)),
    ]


@targets
@layouts
def test_short_axes_interleave(target, dtype):
    rng = random.Random(1)
    for n, m in ((2, 19), (3, 1091), (6, 64), (7, 19), (12, 70)):
        b = Builder()
        for name, loops, sizes, at, value in interleaving(b, dtype, n, m):
            inputs = {(x := Buffer(f"x{k}", dtype, size, "input")): values(rng, dtype, x.size) for k, size in enumerate(sizes)}
            z = Buffer("z", dtype, at.hi + 1, "output")
            kernel = nest(loops, [Store(z, at, value(*inputs))])
            assert find_interleaving(kernel, target) is not None, (name, n, m)
            compare(kernel, inputs, [z], target)


@targets
@layouts
def test_interleaved_pairs_and_two_short_axes(target, dtype):
    """Complex numbers, whose components are stored side by side; and matrices of 2 x 3 turned."""
    rng = random.Random(2)
    m = 333
    b = Builder()
    i, j, k = LoopVar("i", m), LoopVar("j", 3), LoopVar("k", 2)
    x, z = Buffer("x", dtype, 6 * m, "input"), Buffer("z", dtype, 6 * m, "output")
    data = {x: values(rng, dtype, 6 * m)}
    at, source = var(i) * 6 + var(j) * 2, var(i) * 6 - var(j) * 2 + 4
    pairs = nest([i, j], [Store(z, at, b.load(x, source + 1)), Store(z, at + 1, b.load(x, source))])
    turned = nest([i, j, k], [Store(z, at + var(k), b.load(x, var(i) * 6 + var(k) * 3 + var(j)))])
    for kernel in (pairs, turned):
        assert find_interleaving(kernel, target) is not None
        compare(kernel, data, [z], target)


@targets
def test_interleaved_maps_in_the_memory_of_an_operand(target):
    """z[i, j] = x[i, j] + 1 to the bits, where y[i] > x[i, j], in x's memory: no element is computed twice."""
    b = Builder()
    rng = random.Random(3)
    for m in (64, 70, 1100):
        i, j = LoopVar("i", m), LoopVar("j", 3)
        x, y, z = Buffer("x", F32, 3 * m, "input"), Buffer("y", F32, m, "input"), Buffer("z", F32, 3 * m, "output")
        at = var(i) * 3 + var(j)
        old = b.load(x, at)
        more = b.bitcast(b.add(b.bitcast(old, np.dtype("int32")), 1), F32)
        kernel = nest([i, j], [Store(z, at, b.select(b.gt(b.load(y, var(i)), old), more, old))])
        assert find_interleaving(kernel, target) is not None
        program = Program((x, y), (z,), (), (), 0, (kernel,))
        data = [values(rng, F32, 3 * m), values(rng, F32, m)]
        (want,) = interp_loops.run(program, data)
        memory = [v.copy() for v in data]
        ins, outs = (ctypes.c_void_p * 2)(*[v.ctypes.data for v in memory]), (ctypes.c_void_p * 1)(memory[0].ctypes.data)
        assert Code(program, target).entry(ctypes.addressof(ins), ctypes.addressof(outs), None, None) == 0
        assert same(memory[0], want)


@targets
@layouts
def test_columns_in_an_order_known_at_run_time(target, dtype):
    """z[i, j] = x[i, order[j]], where x ends with its last element read, and stands at the end of accessible memory."""
    b = Builder()
    rng = random.Random(4)
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 3 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None)
    for at in (0, 2 * page):
        assert libc.mprotect(ctypes.c_void_p(start + at), ctypes.c_size_t(page), 0) == 0
    for n, m in ((3, page // (3 * dtype.itemsize)), (2, 64)):
        i, j = LoopVar("i", m), LoopVar("j", n)
        size = n * m
        x, order, z = Buffer("x", dtype, size, "input"), Buffer("order", np.dtype("int32"), n, "input"), Buffer("z", dtype, size, "output")
        column = Index(0, ((Value(b.convert(b.load(order, var(j)), np.dtype("int64")), 0, n - 1), 1),))
        kernel = nest([i, j], [Store(z, var(i) * n + var(j), b.load(x, var(i) * n + column))], 0.0)
        data = [values(rng, dtype, size), np.arange(n, dtype=np.int32)[::-1].copy()]
        program = Program((x, order), (z,), (), (), 0, (kernel,))
        (want,) = interp_loops.run(program, data)
        code = Code(program, target)
        for place in (page, 2 * page - data[0].nbytes):  # at the begin, at the end
            ctypes.memmove(start + place, data[0].ctypes.data, data[0].nbytes)
            out = np.zeros(size, dtype)
            ins, outs = (ctypes.c_void_p * 2)(start + place, data[1].ctypes.data), (ctypes.c_void_p * 1)(out.ctypes.data)
            assert code.entry(ctypes.addressof(ins), ctypes.addressof(outs), None, None) == 0
            assert same(out, want)
    for at in (0, 2 * page):
        libc.mprotect(ctypes.c_void_p(start + at), ctypes.c_size_t(page), 3)


@targets
@layouts
def test_short_rows(target, dtype):
    """Two outer loops around rows of a few elements, which lie in another order than the rows of the result."""
    b = Builder()
    rng = random.Random(5)
    for n in (1, 4, 5, 17):
        i, j, k = LoopVar("i", 70), LoopVar("j", 3), LoopVar("k", n)
        x, y, z = Buffer("x", dtype, 210 * n, "input"), Buffer("y", dtype, 70, "input"), Buffer("z", dtype, 210 * n, "output")
        value = b.max(b.load(x, var(j) * (70 * n) + var(i) * n + var(k)), b.load(y, var(i)))
        kernel = nest([i, j, k], [Store(z, var(i) * (3 * n) + var(j) * n + var(k), value)])
        compare(kernel, {x: values(rng, dtype, x.size), y: values(rng, dtype, y.size)}, [z], target)


@targets
def test_interleaved_maps_that_store_at_places_known_at_run_time(target):
    """z[i + start, j] = x[i, 2 - j], and the same with another start for each j, which does not interleave."""
    b = Builder()
    i, j = LoopVar("i", 100), LoopVar("j", 3)
    x, starts, z = Buffer("x", F32, 300, "input"), Buffer("starts", np.dtype("int32"), 3, "input"), Buffer("z", F32, 360, "output")
    data = {x: np.arange(300, dtype=np.float32), starts: np.array([7, 3, 20], np.int32)}
    for at, fits in ((Index(1), True), (var(j), False)):
        start = Index(0, ((Value(b.convert(b.load(starts, at), np.dtype("int64")), 0, 20), 3),))
        kernel = nest([i, j], [Store(z, var(i) * 3 + var(j) + start, b.load(x, var(i) * 3 - var(j) + 2))], 0.0)
        assert (find_interleaving(kernel, target) is not None) == fits
        compare(kernel, data, [z], target)


def test_what_does_not_interleave_stays():
    """Loads at places that are looked up for each row, rows that are far apart, and stores under guards."""
    b = Builder()
    i, j = LoopVar("i", 100), LoopVar("j", 3)
    x, ids, z = Buffer("x", F32, 3 * 100, "input"), Buffer("ids", np.dtype("int32"), 100, "input"), Buffer("z", F32, 300, "output")
    at = var(i) * 3 + var(j)
    place = Index(0, ((Value(b.convert(b.load(ids, var(i)), np.dtype("int64")), 0, 99), 3),))
    far = Buffer("far", F32, 100 * 100, "input")
    for stores in (
        [Store(z, at, b.load(x, place + var(j)))],
        [Store(z, at, b.load(far, var(i) * 100 + var(j)))],
        [Store(z, at, b.load(x, at), b.gt(b.index(var(i)), 3))],
    ):
        assert find_interleaving(nest([i, j], stores), HOST) is None


@targets
@layouts
@pytest.mark.parametrize("period", [2, 3, 12, 17, 48, 100])
def test_divided_loops(target, dtype, period):
    """Rows and elements repeated: z[v] = max(x[v // period], y[v % period])."""
    rng = random.Random(period)
    b = Builder()
    n = period * 21
    u, v = LoopVar("u", 4), LoopVar("v", n)
    x, y, z = Buffer("x", dtype, 4 * n // period, "input"), Buffer("y", dtype, period, "input"), Buffer("z", dtype, 4 * n, "output")
    data = {x: values(rng, dtype, x.size), y: values(rng, dtype, y.size)}
    each, whole = b.load(y, var(v) % period), b.load(x, var(u) * (n // period) + var(v) // period)
    first = b.lt(b.index(var(v) % period), 1)
    for value in (each, b.max(whole, each), b.select(first, whole, each)):
        stage = MapStage((u, v), (Store(z, var(u) * n + var(v), value),))
        compare(map_kernel(b, "k", stage, PARALLEL), data, [z], target)
