"""Random loop programs, for comparing the code generator with the reference interpreter."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable, Sequence

import numpy as np

from steno import _native
from steno.compiler.emit import emit
from steno.compiler.link import OPT_LEVEL, link
from steno.compiler.load import Linked
from steno.compiler.target import Target
from steno.ir.expr import Builder, Expr
from steno.ir.index import FloorDiv, Index, LoopVar, Mod, Value, var
from steno.ir.loops import BLOCK, Buffer, ColReduce, Cumulate, Fold, Kernel, MapStage, Program, RowReduce, Store, TreeReduce

B, F16, F32, F64, I64 = (np.dtype(n) for n in ("bool", "float16", "float32", "float64", "int64"))
INTEGERS = [np.dtype(n) for n in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")]
DTYPES = [B, F32, F64, *INTEGERS]
PARALLEL = 1e9


class Code:
    """A linked program that can be called with NumPy arrays."""

    def __init__(self, program: Program, target: Target, opt: int = OPT_LEVEL) -> None:
        self.program = program
        self.linked: Linked = link(emit(program, target), target, opt)
        self.entry = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(self.linked.address)

    def __call__(self, inputs: Sequence[np.ndarray], threads: int = 1) -> list[np.ndarray]:
        memory = {}
        guards = []
        for b, x in zip(self.program.inputs, inputs, strict=True):
            memory[b] = x.copy()
        for b in self.program.outputs:
            if b not in memory:
                raw = np.full(b.size * b.dtype.itemsize + 128, 0xA5, np.uint8)
                guards.append((raw, b.size * b.dtype.itemsize))
                memory[b] = raw[64 : 64 + b.size * b.dtype.itemsize].view(b.dtype)
                memory[b][:] = 0
        arena = np.zeros(self.program.arena_bytes + 128, np.uint8)
        at = -arena.ctypes.data % 64
        tables = []
        for buffers in (self.program.inputs, self.program.outputs):
            tables.append((ctypes.c_void_p * max(1, len(buffers)))(*[memory[b].ctypes.data for b in buffers]))
        before = _native.num_threads()
        _native.set_num_threads(threads)
        try:
            status = self.entry(ctypes.addressof(tables[0]), ctypes.addressof(tables[1]), arena.ctypes.data + at, None)
        finally:
            _native.set_num_threads(before)
        assert status == 0
        for raw, n in guards:
            assert (raw[:64] == 0xA5).all() and (raw[64 + n :] == 0xA5).all(), "written outside the buffer"
        return [memory[b] for b in self.program.outputs]


def same(x: np.ndarray, y: np.ndarray) -> bool:
    """Equal bit for bit; any NaN equals any."""
    if x.dtype.kind != "f":
        return bool(np.array_equal(x, y))
    bits = np.dtype(f"u{x.dtype.itemsize}")
    return bool(((x.view(bits) == y.view(bits)) | np.isnan(x) & np.isnan(y)).all())


def values(rng: random.Random, dtype: np.dtype, n: int) -> np.ndarray:
    """Values with many special ones among them."""
    r = np.random.default_rng(rng.getrandbits(32))
    if dtype == B:
        return r.integers(0, 2, n).astype(bool)
    if dtype.kind == "f":
        x = (r.standard_normal(n) * 10.0 ** r.integers(-3, 4, n)).astype(dtype)
        with np.errstate(over="ignore"):
            special = np.array(
                [0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 1e-45, 5e-324, 3e38, 2147483648.0, -2147483649.0, 0.5, 1.5, 2.5]
            ).astype(dtype)
        return np.where(r.random(n) < 0.2, r.choice(special, n), x).astype(dtype)
    info = np.iinfo(dtype)
    x = r.integers(info.min, info.max, n, dtype=dtype, endpoint=True)
    small = r.integers(0, 5, n).astype(dtype)
    special = np.array([info.min, info.max, 0, 1, info.max // 2], dtype)
    return np.where(r.random(n) < 0.3, small, np.where(r.random(n) < 0.3, r.choice(special, n), x)).astype(dtype)


class Maker:
    """Random expressions over loop variables, with the input buffers they need."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.b = Builder()
        self.inputs: dict[Buffer, np.ndarray] = {}
        self.outputs: list[Buffer] = []

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def dtype(self) -> np.dtype:
        return self.rng.choice([F32, F32, F32, F64, B, *INTEGERS])

    def input(self, dtype: np.dtype, n: int, data: np.ndarray | None = None) -> Buffer:
        b = Buffer(f"in{len(self.inputs)}", dtype, n, "input")
        self.inputs[b] = values(self.rng, dtype, n) if data is None else data
        return b

    def output(self, dtype: np.dtype, n: int) -> Buffer:
        b = Buffer(f"out{len(self.outputs)}", dtype, n, "output")
        self.outputs.append(b)
        return b

    def index(self, variables: Sequence[LoopVar], depth: int = 2) -> Index:
        r = self.rng
        kind = r.randrange(8 if depth else 3)
        if not variables or kind == 0 and self.chance(0.3):
            return Index(r.randrange(4))
        if kind <= 2:
            return var(r.choice(variables)) * r.choice([1, 1, 1, 2, 3, -1, -2, 16, 17]) + r.randrange(3)
        if kind <= 4:
            return self.index(variables, depth - 1) + self.index(variables, depth - 1)
        d = r.choice([2, 3, 4, 7, 8, 16, 64, 100])
        inner = self.index(variables, depth - 1)
        if kind == 5:
            return inner // d * r.choice([1, 1, 2])
        if kind == 6:
            return inner % d
        low, high = 0, r.choice([1, 5, 100])
        at = self.load_at(self.rng.choice([np.dtype("int32"), I64]), self.index(variables, 0))
        at = self.b.convert(at, I64)
        at = self.b.max(self.b.min(at, high), low)
        return Index(0, ((Value(at, low, high), 1),))

    def load_at(self, dtype: np.dtype, index: Index) -> Expr:
        shift = -index.lo if self.chance(0.7) or index.lo < 0 else 0
        index = index + shift
        size = index.hi + 1 + self.rng.choice([0, 0, 1, 5, 70])
        same_kind = [b for b in self.inputs if b.dtype == dtype and b.size >= size]
        buffer = self.rng.choice(same_kind) if same_kind and self.chance(0.6) else self.input(dtype, size)
        return self.b.load(buffer, index)

    def guarded(self, dtype: np.dtype, variables: Sequence[LoopVar]) -> Expr:
        """An index partly out of range, read under a guard."""
        index = self.index(variables)
        span = index.hi - index.lo + 1
        cut = self.rng.randrange(span + 1)
        index = index - index.lo - self.rng.randrange(cut + 1)
        size = self.rng.randrange(0, span + 1) if self.chance(0.9) else 0
        buffer = self.input(dtype, size)
        i = self.b.index(index)
        guard = self.b.and_(self.b.ge(i, 0), self.b.lt(i, size))
        x = self.b.load(buffer, index, guard)
        return self.b.select(guard, x, self.b.const(1, dtype))

    def leaf(self, dtype: np.dtype, variables: Sequence[LoopVar]) -> Expr:
        r = self.rng.random()
        b = self.b
        if r < 0.1:
            return b.const(values(self.rng, dtype, 1)[0].item(), dtype)
        if r < 0.25:
            return b.convert(b.index(self.index(variables)), dtype)
        if r < 0.35:
            return self.guarded(dtype, variables)
        if r < 0.4 and dtype == F32:
            return b.bitcast(b.convert(self.load_at(np.dtype("uint16"), self.index(variables)), np.dtype("uint32")), F32)
        return self.load_at(dtype, self.index(variables))

    def expr(self, dtype: np.dtype, variables: Sequence[LoopVar], depth: int = 3) -> Expr:
        r, b = self.rng, self.b
        if depth == 0 or self.chance(0.15):
            return self.leaf(dtype, variables)

        def sub(d: np.dtype = dtype) -> Expr:
            return self.expr(d, variables, depth - 1)

        if self.chance(0.12):
            return b.select(sub(B), sub(), sub())
        if self.chance(0.08):
            return b.rare(sub(B), sub(), sub())
        if self.chance(0.2):
            other = self.dtype()
            if other != dtype:
                return b.convert(sub(other), dtype)
        if dtype == B:
            if self.chance(0.5):
                d = self.dtype()
                return getattr(b, r.choice(["eq", "ne", "lt", "le", "gt", "ge"]))(sub(d), sub(d))
            return r.choice(
                [
                    lambda: b.and_(sub(), sub()),
                    lambda: b.or_(sub(), sub()),
                    lambda: b.xor(sub(), sub()),
                    lambda: b.not_(sub()),
                    lambda: b.max(sub(), sub()),
                ]
            )()
        binary = [b.add, b.sub, b.mul, b.min, b.max, b.div, b.rem]
        unary: list[Callable] = [b.neg, b.abs]
        if dtype.kind == "f":
            unary += [b.sqrt, b.floor, b.ceil, b.round_even, b.trunc]
            binary += [b.copysign, lambda x, y: b.fma(x, y, sub())]
            limit = 252 if dtype == F32 else 2044

            def scaled(x: Expr) -> Expr:
                n = b.max(b.min(b.round_even(sub()), limit), -limit)
                return b.scale(b.add(b.convert(b.convert(x, B), dtype), 0.37), b.select(b.eq(n, n), n, 0.0))

            unary += [scaled]
            ints = np.dtype(f"{r.choice('iu')}{dtype.itemsize}")
            unary += [lambda x: b.bitcast(b.xor(b.bitcast(x, ints), 1), dtype)]
        else:
            unary += [b.not_, b.clz, b.popcnt]
            binary += [b.and_, b.or_, b.xor, b.shl, b.lshr]
            if dtype.kind == "i":
                binary += [b.ashr]
            if dtype.kind == "u" and dtype.itemsize >= 4:
                binary += [b.mulhi]
        if self.chance(0.25):
            return r.choice(unary)(sub())
        x = sub()
        y = b.const(r.choice([2, 3, 7]), dtype) if self.chance(0.15) else sub()
        return r.choice(binary)(x, y)

    def stores(
        self, variables: Sequence[LoopVar], count: int, extra: Callable[[np.dtype], Expr | None] = lambda d: None, depth: int = 3
    ) -> list[Store]:
        """Each to a buffer of its own, at the row-major position, reversed or with a stride."""
        out = []
        for _ in range(count):
            d = self.rng.choice([self.dtype(), F32])
            index, step = Index(0), 1
            for v in reversed(variables):
                index = index + var(v) * step
                step *= max(v.extent, 1)
            e = self.expr(d, variables, depth)
            more = extra(d)
            if more is not None and d != B:
                e = self.b.add(e, more)
            guard = self.expr(B, variables, 1) if self.chance(0.15) else None
            shape = self.rng.randrange(6)
            if shape == 0:
                index = Index(index.hi) - index
            elif shape == 1:
                index = index * 3 + 1
            if d == F32 and self.chance(0.1):
                out.append(
                    Store(
                        self.output(F16, index.hi + 1),
                        index,
                        self.b.convert(e, F16) if hasattr(self.b, "raw_convert") else self.b.node("convert", F16, (e,)),
                        guard,
                    )
                )
            elif self.chance(0.2):  # interleaved, as complex numbers are
                buffer = self.output(d, 2 * index.hi + 2)
                out += [Store(buffer, index * 2, e, guard), Store(buffer, index * 2 + 1, self.expr(d, variables, 1), guard)]
            else:
                out.append(Store(self.output(d, index.hi + 1), index, e, guard))
        return out

    def fold(self) -> tuple[Fold, list[np.dtype]]:
        b, r = self.b, self.rng
        d = self.dtype()
        kind = r.randrange(4)
        if kind == 3 and d != B:  # the position of the greatest, as argmax
            a, e = b.acc(0, d), b.elt(0, d)
            better = b.gt(e, a)
            pos_a, pos_e = b.acc(1, I64), b.elt(1, I64)
            return Fold((b.const(0, d), b.const(-1, I64)), (b.select(better, e, a), b.select(better, pos_e, pos_a))), [d, I64]
        if d == B:
            return Fold((b.const(False, B),), (b.or_(b.acc(0, B), b.elt(0, B)),)), [B]
        op = r.choice([b.add, b.add, b.mul, b.max, b.min])
        a, e = b.acc(0, d), b.elt(0, d)
        c = op(a, e)
        if self.chance(0.15):
            c = b.rare(b.lt(e, a), c, b.sub(c, e))
        return Fold((b.const(r.choice([0, 1]), d),), (c,)), [d]

    def extent(self) -> int:
        return self.rng.choice([1, 2, 3, 5, 8, 10, 15, 16, 17, 31, 33, 64, 65, 100, 127, 130, 200])

    def cost(self) -> float:
        return PARALLEL if self.chance(0.6) else 0.0

    def program(self, kernels: Sequence[Kernel]) -> Program:
        used = [b for b in self.inputs]
        return Program(tuple(used), tuple(self.outputs), (), (), 0, tuple(kernels))

    # ---- kernels ----

    def map_kernel(self) -> Kernel:
        r = self.rng
        outer = tuple(LoopVar(f"o{k}", r.choice([1, 2, 3, 7])) for k in range(r.randrange(3)))
        inner = tuple(LoopVar(f"i{k}", self.extent() if k == 0 else r.choice([1, 2, 9, 20])) for k in range(r.randrange(3)))
        if not outer and len(inner) == 1 and self.chance(0.5):
            inner = (LoopVar("v", r.choice([257, 300, 512, 1000, 1024, 2000])),)
        serial = r.randrange(len(inner) + 1) if self.chance(0.25) else 0
        return Kernel("map", outer, (MapStage(inner, tuple(self.stores([*outer, *inner], r.randrange(1, 4))), serial),), self.cost())

    def reduction_extent(self) -> int:
        return self.rng.choice(
            [
                0,
                1,
                2,
                3,
                10,
                16,
                40,
                63,
                64,
                65,
                100,
                128,
                200,
                1000,
                BLOCK - 1,
                BLOCK,
                BLOCK + 1,
                BLOCK + 64,
                BLOCK + 100,
                2 * BLOCK,
                3 * BLOCK + 77,
            ]
        )

    def elements(self, dtypes: Sequence[np.dtype], variables: Sequence[LoopVar], position: LoopVar, depth: int) -> tuple[Expr, ...]:
        out = [self.expr(dtypes[0], variables, depth)]
        if len(dtypes) == 2:
            out.append(self.b.index(var(position)))
        return tuple(out)

    def row_kernel(self) -> Kernel:
        r = self.rng
        outer = tuple(LoopVar(f"o{k}", r.choice([1, 2, 3])) for k in range(r.randrange(3)))
        stages: list = []
        names: dict[str, np.dtype] = {}
        buffers: list[Buffer] = []
        if self.chance(0.3):
            n = r.choice([3, 10, 16, 33, 100])
            v = LoopVar("w", n)
            buffer = Buffer("row", F32, n + r.choice([0, 0, 5]), "local")
            buffers.append(buffer)
            last = LoopVar("z", buffer.size)  # the end first, so that nothing is read before it is written
            stages.append(MapStage((last,), (Store(buffer, Index(buffer.size - 1) - var(last), self.expr(F32, [*outer, last], 1)),)))
            stages.append(MapStage((v,), (Store(buffer, var(v), self.expr(F32, [*outer, v], 2)),)))
        for k in range(r.randrange(1, 3)):
            fold, dtypes = self.fold()
            v = LoopVar(f"r{k}", buffers[0].size if buffers and self.chance(0.5) else self.reduction_extent())
            mine = tuple(f"t{k}_{j}" for j in range(len(dtypes)))
            elements = self.elements(dtypes, [*outer, v] if v.extent else outer, v, r.choice([0, 1, 1, 3]))
            if buffers and dtypes[0] == F32 and v.extent:
                elements = (self.b.add(elements[0], self.b.load(buffers[0], var(v) % buffers[0].size)), *elements[1:])
            if names and dtypes[0] != B:
                earlier = r.choice(list(names))
                elements = (self.b.add(elements[0], self.b.convert(self.b.local(earlier, names[earlier]), dtypes[0])), *elements[1:])
            stages.append(RowReduce(v, elements, fold, mine) if self.chance(0.8) else TreeReduce(v, elements, fold, mine))
            names |= dict(zip(mine, dtypes, strict=True))

        def extra(d: np.dtype) -> Expr:
            name = r.choice(list(names))
            return self.b.convert(self.b.local(name, names[name]), d)

        inner = tuple(LoopVar(f"i{k}", self.extent()) for k in range(r.randrange(2)))
        if buffers and self.chance(0.7):
            u = LoopVar("u", buffers[0].size)
            index, step = var(u), u.extent
            for x in reversed(outer):
                index, step = index + var(x) * step, step * x.extent
            stages.append(MapStage((u,), (Store(self.output(F32, step), index, self.b.mul(self.b.load(buffers[0], var(u)), 2.0)),)))
        stages.append(MapStage(inner, tuple(self.stores([*outer, *inner], r.randrange(1, 3), extra))))
        for name, d in names.items():  # each outcome is also seen
            index, step = Index(0), 1
            for v in reversed(outer):
                index, step = index + var(v) * step, step * v.extent
            stages.append(MapStage((), (Store(self.output(d, step), index, self.b.local(name, d)),)))
        return Kernel("row", outer, tuple(stages), self.cost())

    def block_kernels(self) -> list[Kernel]:
        """A long reduction: blocks, then the tree."""
        fold, dtypes = self.fold()
        n = self.rng.choice([BLOCK + 1, BLOCK + 64, 2 * BLOCK, 2 * BLOCK + 100, 5 * BLOCK + 17])
        blocks = -(-n // BLOCK)
        v, k = LoopVar("r", n), LoopVar("b", blocks)
        elements = self.elements(dtypes, [v], v, self.rng.choice([0, 1, 3]))
        names = tuple(f"p{j}" for j in range(len(dtypes)))
        partial = [self.output(d, blocks) for d in dtypes]
        first = Kernel("blocks", (k,), (
            RowReduce(v, elements, fold, names, block=var(k)),
            MapStage((), tuple(Store(p, var(k), self.b.local(name, p.dtype)) for p, name in zip(partial, names, strict=True))),
        ), self.cost())  # fmt: skip
        y = LoopVar("y", blocks)
        parts = tuple(self.b.load(p, var(y)) for p in partial)
        second = Kernel("tree", (), (
            TreeReduce(y, parts, fold, names),
            MapStage((), tuple(Store(self.output(d, 1), Index(0), self.b.local(name, d)) for d, name in zip(dtypes, names, strict=True))),
        ), self.cost())  # fmt: skip
        return [first, second]

    def column_kernel(self) -> Kernel:
        r = self.rng
        outer = tuple(LoopVar(f"o{k}", r.choice([1, 2, 3])) for k in range(r.randrange(2)))
        lane = LoopVar("lane", r.choice([1, 2, 3, 8, 15, 16, 17, 40, 64, 100, 129, 300]))
        v = LoopVar(
            "r", r.choice([0, 1, 2, 5, 8, 9, 30, 64, 65, 100, 130]) if self.chance(0.85) else r.choice([BLOCK, BLOCK + 5, BLOCK + 70])
        )
        fold, dtypes = self.fold()
        variables = [*outer, lane]
        elements = self.elements(dtypes, [*variables, v] if v.extent else variables, v, r.choice([0, 0, 1, 2]))
        names = tuple(f"t{j}" for j in range(len(dtypes)))

        def extra(d: np.dtype) -> Expr:
            j = r.randrange(len(dtypes))
            return self.b.convert(self.b.local(names[j], dtypes[j]), d)

        stores = self.stores(variables, r.randrange(1, 3), extra, 1)
        index, step = Index(0), 1
        for x in reversed(variables):
            index, step = index + var(x) * step, step * x.extent
        stores += [Store(self.output(d, step), index, self.b.local(name, d)) for d, name in zip(dtypes, names, strict=True)]
        return Kernel("columns", outer, (ColReduce(lane, v, elements, fold, names, tuple(stores)),), self.cost())

    def running_kernel(self) -> Kernel:
        r = self.rng
        outer = tuple(LoopVar(f"o{k}", r.choice([1, 2, 3])) for k in range(r.randrange(2)))
        lane = None if self.chance(0.4) else LoopVar("lane", r.choice([1, 2, 3, 8, 15, 16, 17, 40, 64, 100, 129]))
        v = LoopVar("r", r.choice([1, 2, 5, 30, 100]))
        fold, dtypes = self.fold()
        variables = [*outer, v] if lane is None else [*outer, v, lane]
        elements = self.elements(dtypes, variables, v, r.choice([0, 1, 2]))
        names = tuple(f"t{j}" for j in range(len(dtypes)))

        def extra(d: np.dtype) -> Expr:
            j = r.randrange(len(dtypes))
            return self.b.convert(self.b.local(names[j], dtypes[j]), d)

        return Kernel(
            "running",
            outer,
            (Cumulate(lane, v, elements, fold, names, tuple(self.stores(variables, r.randrange(1, 3), extra, 1))),),
            self.cost(),
        )


def random_program(seed: int, kind: str) -> tuple[Program, list[np.ndarray]]:
    m = Maker(seed)
    made = getattr(m, kind)()
    program = m.program(made if isinstance(made, list) else [made])
    return program, list(m.inputs.values())


__all__ = ["Code", "FloorDiv", "Mod", "random_program", "same", "values"]
