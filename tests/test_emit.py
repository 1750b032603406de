"""Emitted code = the reference interpreter, bit for bit, on every target that this machine runs, with one thread and two."""

from __future__ import annotations

import ctypes
import mmap
import random
import re

import numpy as np
import pytest
from random_loops import DTYPES, PARALLEL, Code, random_program, same, values

from steno import _native
from steno.compiler import emit_folds
from steno.compiler.emit import Module, emit
from steno.compiler.link import asm, compile_objects, llvm
from steno.compiler.load import SYMBOLS, CompileError, load
from steno.compiler.target import AVX2, NEON, host_target
from steno.ir import interp_loops
from steno.ir.expr import Builder, Expr
from steno.ir.index import Index, LoopVar, Value, var
from steno.ir.loops import (
    BLOCK,
    Buffer,
    ColReduce,
    CopyBuffer,
    Cumulate,
    Fold,
    HostCall,
    Kernel,
    LibraryCall,
    MapStage,
    Program,
    RowReduce,
    Store,
)

B, F16, F32, F64, I32, I64 = (np.dtype(n) for n in ("bool", "float16", "float32", "float64", "int32", "int64"))
HOST = host_target()
TARGETS = [HOST] if HOST in (AVX2, NEON) else [HOST, AVX2]
KINDS = {"map_kernel": 14, "row_kernel": 12, "column_kernel": 12, "running_kernel": 10, "block_kernels": 6}

targets = pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)


def compare(program, inputs, target, threads=(1, 2)):
    want = interp_loops.run(program, inputs)
    code = Code(program, target)
    for n in threads:
        for k, (x, y) in enumerate(zip(code(inputs, n), want, strict=True)):
            assert same(x, y), f"{program.outputs[k]}, {n} threads: {x[x != y][:5]} for {y[x != y][:5]}\n"


def single(stages, inputs, outputs, outer=(), cost=0.0, target=HOST):
    """One kernel against the interpreter; inputs: {Buffer: array}."""
    stages = stages if isinstance(stages, tuple) else (stages,)
    program = Program(tuple(inputs), tuple(outputs), (), (), 0, (Kernel("k", tuple(outer), stages, cost),))
    compare(program, list(inputs.values()), target)
    return program


@pytest.mark.parametrize("seed_block", range(3))
@pytest.mark.parametrize("kind", KINDS)
@targets
def test_random_programs(target, kind, seed_block):
    for seed in range(1000 + seed_block, 1000 + seed_block + 3 * KINDS[kind] // 3, 3):
        program, inputs = random_program(seed, kind)
        compare(program, inputs, target)


@pytest.mark.parametrize("kind", KINDS)
def test_the_level_of_optimisation_changes_no_result(kind):
    for seed in range(3):
        program, inputs = random_program(seed, kind)
        for x, y in zip(Code(program, HOST, 0)(inputs), Code(program, HOST)(inputs), strict=True):
            assert same(x, y)


# ---- every op ----

BINARY = {
    **dict.fromkeys(("add", "sub", "mul", "div", "rem"), "fiu"),
    **dict.fromkeys(("min", "max", "eq", "ne", "lt", "le", "gt", "ge"), "fiub"),
    **dict.fromkeys(("and_", "or_", "xor"), "iub"),
    **dict.fromkeys(("shl", "lshr", "ashr"), "iu"),
    "copysign": "f",
}
UNARY = {
    "neg": "fiu",
    "abs": "fiu",
    "sqrt": "f",
    "floor": "f",
    "ceil": "f",
    "round_even": "f",
    "trunc": "f",
    "not_": "iub",
    "clz": "iu",
    "popcnt": "iu",
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@targets
def test_every_op_at_every_dtype(target, dtype):
    """On special and random values: as vectors, as scalars, with constant operands."""
    rng = random.Random(str(dtype))
    n = 1200
    special = np.unique(values(rng, dtype, 400).astype(dtype))[:30]
    a = np.concatenate([np.repeat(special, len(special)), values(rng, dtype, n)])[: n + 300]
    c = np.concatenate([np.tile(special, len(special)), values(rng, dtype, n)])[: n + 300]
    m = min(len(a), len(c))
    x, y, z = (Buffer(name, dtype, m, "input") for name in "xyz")
    inputs = {x: a[:m], y: c[:m], z: values(rng, dtype, m)}
    b = Builder()
    v = LoopVar("v", m)
    i = var(v)
    ex, ey, ez = b.load(x, i), b.load(y, i), b.load(z, i)
    results = [getattr(b, f)(ex, ey) for f, kinds in BINARY.items() if dtype.kind in kinds]
    results += [getattr(b, f)(ex) for f, kinds in UNARY.items() if dtype.kind in kinds]
    results += [b.convert(ex, d) for d in DTYPES if d != dtype]
    results += [b.select(b.lt(ex, ey), ey, ez), b.rare(b.lt(ex, ey), ey, b.select(b.eq(ez, ex), ex, ez))]
    for k in special[::5]:
        for f in ("min", "max", "div", "rem"):
            if dtype.kind in BINARY[f]:
                results += [getattr(b, f)(ex, b.const(k.item(), dtype))]
        results += [b.max(b.const(k.item(), dtype), ex)]
    if dtype.kind == "f":
        results += [b.fma(ex, ey, ez), b.add(b.mul(ex, ey), ez)]
        results += [b.bitcast(ex, np.dtype(f"uint{8 * dtype.itemsize}"))]
        power = b.max(b.min(b.round_even(ey), 2044 if dtype == F64 else 252), -2044 if dtype == F64 else -252)
        results += [b.scale(b.select(b.lt(ex, 0), b.const(-1.7, dtype), b.const(0.3, dtype)), b.select(b.eq(power, power), power, 0.0))]
    if dtype.kind in "iu":
        results += [f(ex, k) for f in (b.shl, b.lshr, b.ashr) for k in (1, 8 * dtype.itemsize - 1)]
    if dtype.kind == "u" and dtype.itemsize >= 4:
        results += [b.mulhi(ex, ey)]
    outputs = [Buffer(f"o{k}", r.dtype, m, "output") for k, r in enumerate(results)]
    stores = [Store(o, i, r) for o, r in zip(outputs, results, strict=True)]
    programs = []
    for serial in (0, 1):
        stages = [MapStage((v,), tuple(stores[k : k + 4]), serial) for k in range(0, len(stores), 4)]
        programs.append(Program(tuple(inputs), tuple(outputs), (), (), 0, tuple(Kernel("k", (), (s,)) for s in stages)))
    want = interp_loops.run(programs[0], list(inputs.values()))
    for program in programs:
        for k, (got, right) in enumerate(zip(Code(program, target)(list(inputs.values())), want, strict=True)):
            assert same(got, right), (results[k], got[got != right][:5], right[got != right][:5])


@targets
def test_float16_storage(target):
    every = np.arange(65536, dtype=np.uint16).view(np.float16)
    rng = np.random.default_rng(0)
    singles = np.concatenate(
        [rng.standard_normal(3000) * 10.0 ** rng.integers(-9, 6, 3000), [np.nan, np.inf, -np.inf, 65519.9, 65520.0, 5.9e-8, 2.98e-8, -0.0]]
    ).astype(np.float32)
    b = Builder()
    x, y = Buffer("x", F16, len(every), "input"), Buffer("y", F32, len(singles), "input")
    outputs = [Buffer("o", F32, len(every), "output"), Buffer("p", F16, len(singles), "output")]
    v, w = LoopVar("v", len(every)), LoopVar("w", len(singles))
    half = Expr("load", F16, (), (x, var(v), None))
    program = Program((x, y), tuple(outputs), (), (), 0, (
        Kernel("up", (), (MapStage((v,), (Store(outputs[0], var(v), b.node("convert", F32, (half,))),)),)),
        Kernel("down", (), (MapStage((w,), (Store(outputs[1], var(w), b.node("convert", F16, (b.load(y, var(w)),))),)),)),
    ))  # fmt: skip
    compare(program, [every, singles], target)


# ---- addresses ----


@targets
@pytest.mark.parametrize("dtype", [np.dtype("int8"), np.dtype("int16"), F32, F64, B], ids=str)
def test_access_patterns(target, dtype):
    """Reversed, strided, repeated, tiled, transposed, gathered, at and beyond the ends of buffers of exactly the needed size."""
    rng = random.Random(1)
    b = Builder()
    for n in (1, 2, 7, 16, 33, 100, 257):
        v = LoopVar("v", n)
        at = [
            var(v) * 2,
            var(v) * 2 + 1,
            var(v) * 3,
            Index(n - 1) - var(v),
            Index(2 * n - 2) - var(v) * 2,
            var(v) // 2,
            var(v) // 3,
            var(v) % 4,
            var(v) % 3,
            var(v) // 16,
            var(v) % 64,
            (var(v) * 5) % 7,
            var(v) // 4 + var(v) % 4,
        ]
        inputs, stores, outputs = {}, [], []
        for k, i in enumerate(at):
            x = Buffer(f"x{k}", dtype, i.hi + 1, "input")
            inputs[x] = values(rng, dtype, x.size)
            outputs.append(Buffer(f"o{k}", dtype, n, "output"))
            stores.append(Store(outputs[-1], var(v), b.load(x, i)))
            if len(i.terms) == 1 and i.terms[0][0] is v:  # also as the target
                outputs.append(Buffer(f"p{k}", dtype, i.hi + 1, "output"))
                stores.append(Store(outputs[-1], i, b.load(x, i)))
        single(MapStage((v,), tuple(stores)), inputs, outputs, target=target)


@targets
@pytest.mark.parametrize("dtype", [np.dtype("int8"), np.dtype("int16"), F32, F64, B], ids=str)
def test_maps_across_their_vectors(target, dtype):
    """out[k, i, j] = max(x[k, j, i], y[k, i, j]), tile by tile, also where tiles do not divide the extents, and out in y's memory."""
    b = Builder()
    rng = random.Random(2)
    for o, n, m in ((1, 64, 64), (2, 70, 33), (3, 64, 130), (1, 300, 17)):
        k, i, j = LoopVar("k", o), LoopVar("i", n), LoopVar("j", m)
        x, y, z = Buffer("x", dtype, o * n * m, "input"), Buffer("y", dtype, o * n * m, "input"), Buffer("z", dtype, o * n * m, "output")
        at = var(k) * (n * m) + var(i) * m + var(j)
        turned = b.load(x, var(k) * (n * m) + var(j) * n + var(i))
        data = {x: values(rng, dtype, x.size), y: values(rng, dtype, y.size)}
        for other in (b.load(y, at), b.load(y, var(i))):
            program = single(MapStage((j,), (Store(z, at, b.max(turned, other)),)), data, [z], [k, i], PARALLEL, target)
            assert llvm(program, target).count("alloca") == 2, "no tiles"
        step = b.bitcast(b.add(b.bitcast(b.load(y, at), np.dtype("int32")), 1), F32) if dtype == F32 else b.load(y, at)
        program = Program((x, y), (z,), (), (), 0, (Kernel("k", (k, i), (MapStage((j,), (Store(z, at, b.max(turned, step)),)),)),))
        (want,) = interp_loops.run(program, list(data.values()))
        code = Code(program, target)
        memory = [v.copy() for v in data.values()]
        ins, outs = (ctypes.c_void_p * 2)(*[v.ctypes.data for v in memory]), (ctypes.c_void_p * 1)(memory[1].ctypes.data)
        assert code.entry(ctypes.addressof(ins), ctypes.addressof(outs), None, None) == 0
        assert same(memory[1], want)


@targets
def test_gather_and_scatter(target):
    b = Builder()
    rng = np.random.default_rng(0)
    n = 130
    for itype in ("int32", "int64", "uint8"):
        ids = Buffer("ids", np.dtype(itype), n, "input")
        x, o, p = Buffer("x", F32, 200, "input"), Buffer("o", F32, n, "output"), Buffer("p", F32, 200, "output")
        v = LoopVar("v", n)
        at = Index(0, ((Value(b.convert(b.load(ids, var(v)), I64), 0, 199), 1),))
        stores = (Store(o, var(v), b.load(x, at)), Store(p, at, b.load(x, at + 0, b.gt(b.index(at), 3)), b.gt(b.index(at), 3)))
        single(
            MapStage((v,), stores),
            {ids: rng.permutation(200)[:n].astype(itype), x: rng.standard_normal(200).astype("f")},
            [o, p],
            target=target,
        )


@targets
def test_colliding_stores_happen_in_order(target):
    b = Builder()
    n = 300
    ids, x, o = Buffer("ids", I32, n, "input"), Buffer("x", F32, n, "input"), Buffer("o", F32, 10, "output")
    v = LoopVar("v", n)
    at = Index(0, ((Value(b.convert(b.load(ids, var(v)), I64), 0, 9), 1),))
    inside = b.lt(b.load(ids, var(v)), 10)
    rng = np.random.default_rng(0)
    data = {ids: rng.integers(0, 13, n).astype(np.int32), x: rng.standard_normal(n).astype("f")}
    single(MapStage((v,), (Store(o, at, b.add(b.load(o, at, inside), b.load(x, var(v))), inside),), 1), data, [o], target=target)


@targets
def test_update_in_place_of_an_input(target):
    """An output that is an input's buffer."""
    b = Builder()
    n = 333
    x = Buffer("x", F32, n, "output")
    v = LoopVar("v", n)
    program = Program((x,), (x,), (), (), 0, (Kernel("k", (), (MapStage((v,), (Store(x, var(v), b.mul(b.load(x, var(v)), 3.0)),)),)),))
    compare(program, [np.arange(n, dtype=np.float32)], target)


@targets
def test_nothing_is_read_where_a_guard_is_false(target):
    """Only element 0 of the buffer is in accessible memory (which scalar code may read instead)."""
    b = Builder()
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None)
    assert libc.mprotect(ctypes.c_void_p(start + page), ctypes.c_size_t(page), 0) == 0
    for n, dtype in ((100, F32), (64, B), (3, F64), (50, np.dtype("int16"))):
        v = LoopVar("v", n)
        x, o = Buffer("x", dtype, 1 << 40, "input"), Buffer("o", dtype, n, "output")
        never = b.lt(b.load(o, var(v)), b.const(0, dtype)) if dtype != B else b.load(o, var(v))  # not known to the builder
        for step in (1, 2, 3, -1):
            offset = var(v) * step + (1000 if step > 0 else 5000)
            e = b.select(never, b.load(x, offset, never), b.const(1, dtype))
            code = Code(Program((x, o), (o,), (), (), 0, (Kernel("k", (), (MapStage((v,), (Store(o, var(v), e),)),)),)), target)
            out = np.zeros(n, dtype)
            ins = (ctypes.c_void_p * 2)(start + page - dtype.itemsize, out.ctypes.data)
            outs = (ctypes.c_void_p * 1)(out.ctypes.data)
            assert code.entry(ctypes.addressof(ins), ctypes.addressof(outs), None, None) == 0
            assert (out == np.ones(n, dtype)).all()
    libc.mprotect(ctypes.c_void_p(start + page), ctypes.c_size_t(page), 3)


# ---- reductions ----


def _sum_fold(b, dtype):
    return Fold((b.const(0, dtype),), (b.add(b.acc(0, dtype), b.elt(0, dtype)),))


@targets
@pytest.mark.parametrize("dtype", [F32, F64, np.dtype("int8")], ids=str)
def test_row_sums_of_every_length(target, dtype):
    b = Builder()
    rng = np.random.default_rng(0)
    for n in [
        *range(1, 20),
        31,
        32,
        33,
        47,
        63,
        64,
        65,
        66,
        100,
        127,
        128,
        129,
        191,
        192,
        193,
        250,
        1000,
        BLOCK - 1,
        BLOCK,
        BLOCK + 1,
        BLOCK + 63,
        BLOCK + 64,
        BLOCK + 65,
        2 * BLOCK,
        3 * BLOCK - 5,
    ]:
        i, r = LoopVar("i", 3), LoopVar("r", n)
        x, o = Buffer("x", dtype, 3 * n, "input"), Buffer("o", dtype, 3, "output")
        stages = (
            RowReduce(r, (b.load(x, var(i) * n + var(r)),), _sum_fold(b, dtype), ("s",)),
            MapStage((), (Store(o, var(i), b.local("s", dtype)),)),
        )
        data = (rng.standard_normal(3 * n) * 100).astype(dtype)
        single(stages, {x: data}, [o], [i], PARALLEL, target)


@targets
def test_column_sums_equal_row_sums(target):
    """The canonical order does not depend on which axis lies along the vectors."""
    b = Builder()
    rng = np.random.default_rng(0)
    for n, m in ((5, 70), (64, 33), (200, 129), (BLOCK + 70, 17)):
        data = rng.standard_normal((n, m)).astype("f")
        x, y = Buffer("x", F32, n * m, "input"), Buffer("y", F32, n * m, "input")
        o, p = Buffer("o", F32, m, "output"), Buffer("p", F32, m, "output")
        lane, r, i, q = LoopVar("lane", m), LoopVar("r", n), LoopVar("i", m), LoopVar("q", n)
        columns = Kernel(
            "columns",
            (),
            (
                ColReduce(
                    lane, r, (b.load(x, var(r) * m + var(lane)),), _sum_fold(b, F32), ("s",), (Store(o, var(lane), b.local("s", F32)),)
                ),
            ),
            PARALLEL,
        )
        rows = Kernel(
            "rows",
            (i,),
            (
                RowReduce(q, (b.load(y, var(i) * n + var(q)),), _sum_fold(b, F32), ("s",)),
                MapStage((), (Store(p, var(i), b.local("s", F32)),)),
            ),
            PARALLEL,
        )
        program = Program((x, y), (o, p), (), (), 0, (columns, rows))
        a, c = Code(program, target)([data.reshape(-1), data.T.reshape(-1).copy()], 2)
        assert same(a, c)
        assert same(a, interp_loops.run(program, [data.reshape(-1), data.T.reshape(-1).copy()])[0])


@targets
@pytest.mark.parametrize("shape", [(256, 656), (BLOCK - 1, 256), (BLOCK + 321, 272)], ids=str)
def test_columns_by_long_pieces_of_rows(target, shape, monkeypatch):
    """Wide arrays from far: many columns side by side, several rows of an accumulator at once."""
    monkeypatch.setattr(emit_folds, "WIDE_BYTES", 0)
    monkeypatch.setattr(emit_folds, "WIDE_UNIT", 128)
    monkeypatch.setattr(emit_folds, "WIDE_SCRATCH", 1 << 18)
    b, (n, m) = Builder(), shape
    x, y, o, p = (
        Buffer("x", F32, n * m, "input"),
        Buffer("y", F32, n, "input"),
        Buffer("o", F32, m, "output"),
        Buffer("p", I64, m, "output"),
    )
    lane, r = LoopVar("lane", m), LoopVar("r", n)
    element = b.mul(b.load(x, var(r) * m + var(lane)), b.load(y, var(r)))
    greater = b.gt(b.elt(0, F32), b.acc(0, F32))
    fold = Fold(
        (b.const(-np.inf, F32), b.const(0, I64)),
        (b.select(greater, b.elt(0, F32), b.acc(0, F32)), b.select(greater, b.elt(1, I64), b.acc(1, I64))),
    )
    most = ColReduce(
        lane,
        r,
        (element, b.index(var(r))),
        fold,
        ("v", "k"),
        (Store(o, var(lane), b.local("v", F32)), Store(p, var(lane), b.local("k", I64))),
    )
    total = ColReduce(lane, r, (element,), _sum_fold(b, F32), ("s",), (Store(o, var(lane), b.add(b.local("s", F32), 1.0)),))
    rng = np.random.default_rng(0)
    inputs = {x: rng.standard_normal(n * m).astype("f"), y: rng.standard_normal(n).astype("f")}
    assert emit_folds.wide_columns(total, target)
    single(most, inputs, [o, p], cost=PARALLEL, target=target)
    single(total, inputs, [o], cost=PARALLEL, target=target)


@targets
def test_softmax_rows_with_local_memory(target):
    b = Builder()
    n, m = 5, 1000
    i, v, r, q, w = LoopVar("i", n), LoopVar("v", m), LoopVar("r", m), LoopVar("q", m), LoopVar("w", m)
    x, o, row = Buffer("x", F32, n * m, "input"), Buffer("o", F32, n * m, "output"), Buffer("row", F32, m, "local")
    top = Fold((b.const(-np.inf, F32),), (b.max(b.acc(0, F32), b.elt(0, F32)),))
    stages = (
        RowReduce(r, (b.load(x, var(i) * m + var(r)),), top, ("top",)),
        MapStage((v,), (Store(row, var(v), b.mul(b.sub(b.load(x, var(i) * m + var(v)), b.local("top", F32)), 0.5)),)),
        RowReduce(q, (b.load(row, var(q)),), _sum_fold(b, F32), ("total",)),
        MapStage((w,), (Store(o, var(i) * m + var(w), b.div(b.load(row, var(w)), b.local("total", F32))),)),
    )
    program = single(stages, {x: np.random.default_rng(0).standard_normal(n * m).astype("f")}, [o], [i], PARALLEL, target)
    assert "alloca [1064 x float]" in llvm(program, target)


@targets
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_quotients_by_one_divisor(target, dtype):
    """Rows divided by a number each: as if every element were divided, also where there is no reciprocal to do it with."""
    b, rng, fi = Builder(), np.random.default_rng(0), np.finfo(dtype)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, fi.max, -fi.max, fi.tiny, -fi.tiny, fi.smallest_subnormal, 1e30, 1e-30, 2.0**-100]
    divisors = [*special, -3.0, 1.0, 3.0, 2.0**20, 2.0**20 + 1, 2.0**-20, np.nextafter(dtype.type(1), 0), np.nextafter(dtype.type(2), 0)]
    divisors = np.array([*divisors, *np.exp2(rng.uniform(-22, 22, 11))], dtype)
    n, m = len(divisors), 512
    data = (rng.standard_normal((n, m)) * np.exp2(rng.integers(-3, 4, (n, 1)) * rng.integers(0, 30, (n, 1)))).astype(dtype)
    data[:, 100 : 100 + len(special)] = special
    data[:, 200:300] = rng.integers(0, 2 ** (8 * dtype.itemsize) - 1, (n, 100), f"u{dtype.itemsize}").view(dtype)
    i, v = LoopVar("i", n), LoopVar("v", m)
    x, y, o = Buffer("x", dtype, n * m, "input"), Buffer("y", dtype, n, "input"), Buffer("o", dtype, n * m, "output")
    e = b.div(b.load(x, var(i) * m + var(v)), b.load(y, var(i)))
    with np.errstate(all="ignore"):
        single(MapStage((v,), (Store(o, var(i) * m + var(v), e),)), {x: data.reshape(-1), y: divisors}, [o], [i], PARALLEL, target)


@targets
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("name", ["max", "min"])
def test_extrema_of_rows_with_nan_and_zeros(target, dtype, name):
    b, rng = Builder(), np.random.default_rng(0)
    fold = Fold((b.const(-np.inf if name == "max" else np.inf, dtype),), (getattr(b, name)(b.acc(0, dtype), b.elt(0, dtype)),))
    for m in (256, 300, BLOCK, BLOCK + 400):
        data = rng.standard_normal((9, m)).astype(dtype)
        data[1, m // 3] = np.nan
        data[2, -1], data[2, 70] = -np.nan, np.nan
        data[3:5] = (-1 if name == "max" else 1) * np.abs(data[3:5])
        data[3, ::3], data[4, ::5], data[4, 9] = -0.0, 0.0, -0.0
        data[5], data[6] = -0.0, np.inf
        data[7] = fold.identity[0].attr
        i, r = LoopVar("i", 9), LoopVar("r", m)
        x, o = Buffer("x", dtype, 9 * m, "input"), Buffer("o", dtype, 9, "output")
        stages = (
            RowReduce(r, (b.load(x, var(i) * m + var(r)),), fold, ("best",)),
            MapStage((), (Store(o, var(i), b.local("best", dtype)),)),
        )
        single(stages, {x: data.reshape(-1)}, [o], [i], PARALLEL, target)


@targets
def test_rows_ahead_are_fetched(target):
    """Of what a kernel reads far from the caches the next row; never anything else."""
    b = Builder()

    def text(n, m):
        i, r, w = LoopVar("i", n), LoopVar("r", m), LoopVar("w", m)
        x, o = Buffer("x", F32, n * m, "input"), Buffer("o", F32, n * m, "output")
        element = b.load(x, var(i) * m + var(r))
        stages = (
            RowReduce(r, (element,), _sum_fold(b, F32), ("total",)),
            MapStage((w,), (Store(o, var(i) * m + var(w), b.sub(b.load(x, var(i) * m + var(w)), b.local("total", F32))),)),
        )
        return llvm(Program((x,), (o,), (), (), 0, (Kernel("k", (i,), stages, PARALLEL),)), target)

    assert "call void @llvm.prefetch" in text(1024, 1024)
    assert "prefetch" not in text(16, 1024) and "prefetch" not in text(1 << 16, 16)


@targets
def test_rare_code_is_skipped(target):
    """A region that only a rare lane needs is reached by a branch, and nodes of both sides are shared."""
    b = Builder()
    n = 200
    v = LoopVar("v", n)
    x, o = Buffer("x", F32, n, "input"), Buffer("o", F32, n, "output")
    ex = b.load(x, var(v))
    common = b.mul(ex, 2.0)
    inner = b.rare(b.gt(ex, 100.0), b.sqrt(b.add(common, 1.0)), b.div(b.const(7.0, F32), ex))
    e = b.add(b.rare(b.gt(ex, 10.0), common, inner), b.floor(ex))
    data = np.where(np.arange(n) % 50 == 49, np.arange(n), 1.0).astype("f")
    program = single(MapStage((v,), (Store(o, var(v), e),)), {x: data}, [o], target=target)
    assert llvm(program, target).count("!prof !0") >= 2


@targets
def test_cumulate_with_and_without_lanes(target):
    b = Builder()
    n, m = 37, 45
    x, o, p = Buffer("x", F64, n * m, "input"), Buffer("o", F64, n * m, "output"), Buffer("p", F64, n * m, "output")
    data = np.random.default_rng(0).standard_normal(n * m)
    lane, r = LoopVar("lane", m), LoopVar("r", n)
    i, q = LoopVar("i", n), LoopVar("q", m)
    down = Cumulate(
        lane, r, (b.load(x, var(r) * m + var(lane)),), _sum_fold(b, F64), ("s",), (Store(o, var(r) * m + var(lane), b.local("s", F64)),)
    )
    along = Cumulate(
        None, q, (b.load(x, var(i) * m + var(q)),), _sum_fold(b, F64), ("s",), (Store(p, var(i) * m + var(q), b.local("s", F64)),)
    )
    program = Program((x,), (o, p), (), (), 0, (Kernel("down", (), (down,)), Kernel("along", (i,), (along,), PARALLEL)))
    compare(program, [data], target)
    a, c = Code(program, target)([data])
    assert np.allclose(a.reshape(n, m), data.reshape(n, m).cumsum(0)) and np.allclose(c.reshape(n, m), data.reshape(n, m).cumsum(1))


# ---- whole programs ----


def _scaled(b, source, target, n, factor):
    v = LoopVar("v", n)
    return Kernel("scale", (), (MapStage((v,), (Store(target, var(v), b.mul(b.load(source, var(v)), factor)),)),))


def test_equal_kernels_are_one_function():
    b, n = Builder(), 100
    buffers = [Buffer(f"t{k}", F32, n, "arena") for k in range(3)]
    x, o = Buffer("x", F32, n, "input"), Buffer("o", F32, n, "output")
    chain = [x, *buffers, o]
    kernels = [_scaled(b, s, t, n, 2.0) for s, t in zip(chain, chain[1:], strict=False)]
    program = Program((x,), (o,), tuple(buffers), (0, 448, 896), 1344, tuple(kernels))
    assert llvm(program).count("define hidden void @k") == 1
    compare(program, [np.arange(n, dtype=np.float32)], HOST)


def test_library_host_and_copies():
    b, n = Builder(), 1 << 20
    x, t, o = Buffer("x", F32, n, "input"), Buffer("t", F32, n, "arena"), Buffer("o", F32, n, "output")
    small, y = Buffer("small", F32, 10, "arena"), Buffer("y", F32, 10, "output")
    seen = []

    @ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int64))
    def negate(buffers, meta):
        seen.append([meta[k] for k in range(2)])
        data = np.frombuffer((ctypes.c_float * n).from_address(buffers[1]), np.float32)
        data *= -1
        return seen[-1][1]

    SYMBOLS["test_negate"] = ctypes.cast(negate, ctypes.c_void_p).value
    try:
        statements = (
            CopyBuffer(x, t),
            LibraryCall("test_negate", (x, t), (n, 0)),
            CopyBuffer(t, o),
            _scaled(b, x, small, 10, 5.0),
            CopyBuffer(small, y),
        )
        program = Program((x,), (o, y), (t, small), (0, 4 * n), 4 * n + 64, statements)
        data = np.arange(n, dtype=np.float32)
        for threads in (1, 2):
            out, other = Code(program, HOST)([data], threads)
            assert (out == -data).all() and (other == 5 * data[:10]).all()
        failing = Program((x,), (o,), (t,), (0,), 4 * n, (CopyBuffer(x, t), LibraryCall("test_negate", (x, t), (n, 7)), CopyBuffer(t, o)))
        with pytest.raises(AssertionError):
            Code(failing, HOST)([data])
        assert seen[-1] == [n, 7]
    finally:
        del SYMBOLS["test_negate"]
    with pytest.raises(CompileError, match="test_negate"):
        Code(program, HOST)


def test_host_call_declares_the_runtime():
    x = Buffer("x", F32, 4, "input")
    text = llvm(Program((x,), (), (), (), 0, (HostCall(3, (x,)),)))
    assert "call i32 @steno_host_call(ptr %rt, i64 3, ptr %table)" in text


def test_objects_can_be_linked_again_and_broken_ones_are_refused():
    b, n = Builder(), 50
    x, o = Buffer("x", F32, n, "input"), Buffer("o", F32, n, "output")
    program = Program((x,), (o,), (), (), 0, (_scaled(b, x, o, n, 2.0),))
    module = emit(program, HOST)
    (image,) = compile_objects(module, HOST)
    assert (image,) == compile_objects(emit(program, HOST), HOST)
    for _ in range(2):
        assert load([image], HOST).address
    for broken in (b"", b"nonsense", image[: len(image) // 2]):
        with pytest.raises(CompileError, match="cannot be linked"):
            load([broken], HOST)


def test_large_modules_are_compiled_in_parts():
    """By several threads, each with a context of its own; the parts call each other."""
    b, n = Builder(), 1000
    x = Buffer("x", F32, n, "input")
    outputs, kernels = [], []
    for k in range(60):
        outputs.append(Buffer(f"o{k}", F32, n, "output"))
        v = LoopVar("v", n)
        e = b.load(x, var(v))
        for j in range(20):
            e = b.add(b.mul(e, float(k + 2)), float(j))
        kernels.append(Kernel("k", (), (MapStage((v,), (Store(outputs[-1], var(v), e),)),), PARALLEL))
    program = Program((x,), tuple(outputs), (), (), 0, tuple(kernels))
    before = _native.num_threads()
    try:
        _native.set_num_threads(3)
        assert len(compile_objects(emit(program, HOST), HOST)) == 4  # three of kernels, one of the long entry
        compare(program, [np.linspace(0, 1, n, dtype=np.float32)], HOST)
        whole = "define hidden void @a() #0 {\n  ret void\n}\n; " + "x" * 100_000
        bad = "define hidden void @b() #0 {\n  bogus\n}\n" + " " * 100_000
        broken = Module("x86_64-unknown-linux-gnu", (), (("a", whole), ("b", bad)), frozenset())
        with pytest.raises(CompileError, match="bogus"):
            compile_objects(broken, HOST)
    finally:
        _native.set_num_threads(before)


def test_nothing_is_contracted_or_reordered():
    b, n = Builder(), 64
    x, y, o = Buffer("x", F32, n, "input"), Buffer("y", F32, n, "input"), Buffer("o", F32, n, "output")
    v = LoopVar("v", n)
    e = b.add(b.mul(b.load(x, var(v)), b.load(y, var(v))), b.load(y, var(v)))
    text = asm(Program((x, y), (o,), (), (), 0, (Kernel("k", (), (MapStage((v,), (Store(o, var(v), e),)),)),)))
    assert "fma" not in text and "fmadd" not in text


@pytest.mark.parametrize("kind", KINDS)
def test_aarch64_is_emitted_and_assembled(kind):
    for seed in range(4):
        program, _ = random_program(seed, kind)
        text = asm(program, NEON)
        assert "entry:" in text and re.search(r"\bret\b", text)


def test_vector_widths():
    b, n = Builder(), 4096
    x, o = Buffer("x", F32, n, "input"), Buffer("o", F32, n, "output")
    program = Program((x,), (o,), (), (), 0, (_scaled(b, x, o, n, 2.0),))
    for target in {*TARGETS, AVX2, NEON}:
        assert f"<{target.vector_bytes // 4} x float>" in llvm(program, target)


@targets
def test_single_lane_masks_of_truncated_integers(target):
    """LLVM 22 makes of a masked store of truncated lanes, one of them known to be on, a store of the wide element."""
    b = Builder()
    rng = random.Random(3)
    for n in (9, 17, 33):
        x = Buffer("x", I64, n, "input")
        v = LoopVar("v", n)
        e = b.load(x, var(v))
        outputs, stores = [], []
        for d in ("int8", "int16", "int32", "uint8"):
            for guard in (None, b.eq(b.index(var(v)), 3)):
                outputs.append(Buffer(f"o{len(outputs)}", np.dtype(d), n, "output"))
                stores.append(Store(outputs[-1], var(v), b.convert(b.mul(e, 3), np.dtype(d)), guard))
        single(MapStage((v,), tuple(stores)), {x: values(rng, I64, n)}, outputs, target=target)
        lane, r = LoopVar("lane", n), LoopVar("r", 3)
        o = Buffer("o", np.dtype("int16"), n, "output")
        stored = Store(o, var(lane), b.convert(b.local("s", I64), np.dtype("int16")), b.eq(b.index(var(lane)), 4))
        single(
            ColReduce(lane, r, (b.add(b.load(x, var(lane)), b.index(var(r))),), _sum_fold(b, I64), ("s",), (stored,)),
            {x: values(rng, I64, n)},
            [o],
            target=target,
        )
