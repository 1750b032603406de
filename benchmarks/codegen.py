"""Micro benchmarks of emitted kernels: best time of many, bytes a second, compile time. `python benchmarks/codegen.py [name ...]`."""

from __future__ import annotations

import ctypes
import sys
import time

import numpy as np

import steno.compiler.vecmath  # noqa: F401 - registers the elementary functions
from steno import _native
from steno.compiler.emit import emit
from steno.compiler.link import compile_objects
from steno.compiler.load import load
from steno.compiler.target import host_target
from steno.ir.expr import Builder
from steno.ir.index import LoopVar, var
from steno.ir.loops import BLOCK, Buffer, ColReduce, Fold, Kernel, MapStage, Program, RowReduce, Store, TreeReduce

F32, B = np.dtype("float32"), np.dtype("bool")
COST = 1e9


def _sum(b):
    return Fold((b.const(0, F32),), (b.add(b.acc(0, F32), b.elt(0, F32)),))


def _elementwise(n, function, dtypes=(F32,), out=F32):
    b, v = Builder(), LoopVar("v", n)
    inputs = [Buffer(f"x{k}", d, n, "input") for k, d in enumerate(dtypes)]
    o = Buffer("o", out, n, "output")
    e = function(b, *(b.load(x, var(v)) for x in inputs))
    return Program(tuple(inputs), (o,), (), (), 0, (Kernel("k", (), (MapStage((v,), (Store(o, var(v), e),)),), COST),))


def axpy_10m():
    return _elementwise(10_000_000, lambda b, x, y: b.add(b.mul(x, 2.0), y), (F32, F32))


def axpy_100k():
    return _elementwise(100_000, lambda b, x, y: b.add(b.mul(x, 2.0), y), (F32, F32))


def exp_1m():
    return _elementwise(1_000_000, lambda b, x: b.call("exp", x))


def select_1m():
    return _elementwise(1_000_000, lambda b, c, x, y: b.select(c, x, y), (B, F32, F32))


def greater_1m():
    return _elementwise(1_000_000, lambda b, x, y: b.gt(x, y), (F32, F32), B)


def softmax(n=2048, m=1024):
    b = Builder()
    i, v, r, q, w = LoopVar("i", n), LoopVar("v", m), LoopVar("r", m), LoopVar("q", m), LoopVar("w", m)
    x, o, row = Buffer("x", F32, n * m, "input"), Buffer("o", F32, n * m, "output"), Buffer("row", F32, m, "local")
    top = Fold((b.const(-np.inf, F32),), (b.max(b.acc(0, F32), b.elt(0, F32)),))
    stages = (
        RowReduce(r, (b.load(x, var(i) * m + var(r)),), top, ("top",)),
        MapStage((v,), (Store(row, var(v), b.call("exp", b.sub(b.load(x, var(i) * m + var(v)), b.local("top", F32)))),)),
        RowReduce(q, (b.load(row, var(q)),), _sum(b), ("total",)),
        MapStage((w,), (Store(o, var(i) * m + var(w), b.div(b.load(row, var(w)), b.local("total", F32))),)),
    )
    return Program((x,), (o,), (), (), 0, (Kernel("softmax", (i,), stages, COST),))


def softmax_recomputed(n=2048, m=1024):
    """exp in the reduction and again in the map."""
    b = Builder()
    i, r, q, w = LoopVar("i", n), LoopVar("r", m), LoopVar("q", m), LoopVar("w", m)
    x, o = Buffer("x", F32, n * m, "input"), Buffer("o", F32, n * m, "output")
    top = Fold((b.const(-np.inf, F32),), (b.max(b.acc(0, F32), b.elt(0, F32)),))

    def e(z):
        return b.call("exp", b.sub(b.load(x, var(i) * m + var(z)), b.local("top", F32)))

    stages = (
        RowReduce(r, (b.load(x, var(i) * m + var(r)),), top, ("top",)),
        RowReduce(q, (e(q),), _sum(b), ("total",)),
        MapStage((w,), (Store(o, var(i) * m + var(w), b.div(e(w), b.local("total", F32))),)),
    )
    return Program((x,), (o,), (), (), 0, (Kernel("softmax", (i,), stages, COST),))


def layernorm(n=2048, m=1024):
    b = Builder()
    i, r, q, w = LoopVar("i", n), LoopVar("r", m), LoopVar("q", m), LoopVar("w", m)
    x, g, c = Buffer("x", F32, n * m, "input"), Buffer("g", F32, m, "input"), Buffer("c", F32, m, "input")
    o = Buffer("o", F32, n * m, "output")

    def centred(z):
        return b.sub(b.load(x, var(i) * m + var(z)), b.div(b.local("s", F32), float(m)))

    scaled = b.div(centred(w), b.sqrt(b.add(b.div(b.local("t", F32), float(m)), 1e-5)))
    stages = (
        RowReduce(r, (b.load(x, var(i) * m + var(r)),), _sum(b), ("s",)),
        RowReduce(q, (b.mul(centred(q), centred(q)),), _sum(b), ("t",)),
        MapStage((w,), (Store(o, var(i) * m + var(w), b.add(b.mul(scaled, b.load(g, var(w))), b.load(c, var(w)))),)),
    )
    return Program((x, g, c), (o,), (), (), 0, (Kernel("layernorm", (i,), stages, COST),))


def sum_10m():
    b, n = Builder(), 10_000_000
    blocks = -(-n // BLOCK)
    k, r, y = LoopVar("k", blocks), LoopVar("r", n), LoopVar("y", blocks)
    x, p, o = Buffer("x", F32, n, "input"), Buffer("p", F32, blocks, "arena"), Buffer("o", F32, 1, "output")
    first = Kernel(
        "blocks",
        (k,),
        (RowReduce(r, (b.load(x, var(r)),), _sum(b), ("s",), var(k)), MapStage((), (Store(p, var(k), b.local("s", F32)),))),
        COST,
    )
    second = Kernel(
        "tree", (), (TreeReduce(y, (b.load(p, var(y)),), _sum(b), ("s",)), MapStage((), (Store(o, var(y) * 0, b.local("s", F32)),)))
    )
    return Program((x,), (o,), (p,), (0,), 4 * blocks + 64, (first, second))


def sum_axis0(n=4096, m=1024):
    b, lane, r = Builder(), LoopVar("lane", m), LoopVar("r", n)
    x, o = Buffer("x", F32, n * m, "input"), Buffer("o", F32, m, "output")
    stage = ColReduce(lane, r, (b.load(x, var(r) * m + var(lane)),), _sum(b), ("s",), (Store(o, var(lane), b.local("s", F32)),))
    return Program((x,), (o,), (), (), 0, (Kernel("columns", (), (stage,), COST),))


def sum_axis1(n=4096, m=1024):
    b, i, r = Builder(), LoopVar("i", n), LoopVar("r", m)
    x, o = Buffer("x", F32, n * m, "input"), Buffer("o", F32, n, "output")
    stages = (RowReduce(r, (b.load(x, var(i) * m + var(r)),), _sum(b), ("s",)), MapStage((), (Store(o, var(i), b.local("s", F32)),)))
    return Program((x,), (o,), (), (), 0, (Kernel("rows", (i,), stages, COST),))


def complex_mul_1m():
    b, n = Builder(), 1_000_000
    v = LoopVar("v", n)
    C = np.dtype("complex64")
    x, y, o = (Buffer(name, F32, 2 * n, k) for name, k in (("x", "input"), ("y", "input"), ("o", "output")))
    z = b.mul(b.load(x, var(v), dtype=C), b.load(y, var(v), dtype=C))
    return Program(
        (x, y),
        (o,),
        (),
        (),
        0,
        (Kernel("k", (), (MapStage((v,), (Store(o, var(v) * 2, z.first), Store(o, var(v) * 2 + 1, z.second))),), COST),),
    )


def transpose_2k(n=2048):
    b, i, j = Builder(), LoopVar("i", n), LoopVar("j", n)
    x, o = Buffer("x", F32, n * n, "input"), Buffer("o", F32, n * n, "output")
    return Program(
        (x,),
        (o,),
        (),
        (),
        0,
        (Kernel("k", (i,), (MapStage((j,), (Store(o, var(i) * n + var(j), b.add(b.load(x, var(j) * n + var(i)), 1.0)),)),), COST),),
    )


ALL = [
    axpy_10m,
    axpy_100k,
    exp_1m,
    select_1m,
    greater_1m,
    softmax,
    softmax_recomputed,
    layernorm,
    sum_10m,
    sum_axis0,
    sum_axis1,
    complex_mul_1m,
    transpose_2k,
]


def measure(make, threads):
    program = make()
    t1 = time.perf_counter()
    module = emit(program, host_target())
    t2 = time.perf_counter()
    images = compile_objects(module, host_target())
    t3 = time.perf_counter()
    linked = load(images, host_target(), module.imports)
    t4 = time.perf_counter()
    rng = np.random.default_rng(0)
    arrays = []
    for b in (*program.inputs, *program.outputs):
        raw = np.zeros(b.size * b.dtype.itemsize + 64, np.uint8)
        at = -raw.ctypes.data % 64
        x = raw[at : at + b.size * b.dtype.itemsize].view(b.dtype)
        x[:] = rng.standard_normal(b.size) if b.dtype != B else rng.random(b.size) < 0.5
        arrays.append(x)
    n = len(program.inputs)
    ins = (ctypes.c_void_p * n)(*[x.ctypes.data for x in arrays[:n]])
    outs = (ctypes.c_void_p * (len(arrays) - n))(*[x.ctypes.data for x in arrays[n:]])
    arena = np.zeros(program.arena_bytes + 64, np.uint8)
    entry = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(linked.address)
    args = ctypes.addressof(ins), ctypes.addressof(outs), arena.ctypes.data, None
    _native.set_num_threads(threads)
    best, spent = 1e9, 0.0
    while spent < 0.8:
        a = time.perf_counter()
        entry(*args)
        d = time.perf_counter() - a
        best, spent = min(best, d), spent + d
    total = sum(x.nbytes for x in arrays)
    lines = module.text().count("\n")
    print(f"{make.__name__:20s} {threads} thread  {best * 1e6:10.1f} us  {total / best / 1e9:7.1f} GB/s   "
          f"emit {1e3 * (t2 - t1):6.2f} ms ({lines} lines)  code {1e3 * (t3 - t2):6.2f} ms  link {1e3 * (t4 - t3):5.2f} ms")  # fmt: skip


if __name__ == "__main__":
    chosen = [f for f in ALL if not sys.argv[1:] or f.__name__ in sys.argv[1:]]
    measure(axpy_100k, 1)
    print("(the first includes loading LLVM)")
    for f in chosen:
        for threads in (1, 2):
            measure(f, threads)
