"""The body of one kernel function: values of expressions, indices, memory accesses.

Addresses follow from an index's lane offsets (see `emit_scopes`): a scalar load, a vector load, a load and a shuffle, or a gather.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

import numpy as np

from steno.compiler.emit_ops import (
    BOOL,
    I32,
    I64,
    MEMORY,
    OPS,
    REGISTER,
    Declarations,
    booleans,
    compare,
    constant,
    convert,
    has_divisors,
    integers,
    near_quotient,
    number,
    prepared_divisor,
    select,
    typed,
    vector,
)
from steno.compiler.emit_scopes import IndexFacts, Scopes
from steno.compiler.target import Target
from steno.ir.expr import Expr
from steno.ir.index import Atom, FloorDiv, Index, LoopVar, Mod, Value
from steno.ir.loops import LANES, Buffer

COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))
ON_DEMAND = frozenset(("const", "index", "local"))
LEAST, MOST = -(1 << 31), (1 << 31) - 1
MOST_WINDOW = 4  # vectors
DIVIDED = 8  # vectors for which it pays to prepare their common divisor


def is_small(i: Index) -> bool:
    return i.lo >= LEAST and i.hi <= MOST


def power_above(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()


@final
class Code(Scopes):
    """Writes one kernel function."""

    def __init__(self, target: Target, declarations: Declarations, pinned: frozenset[Buffer]) -> None:
        super().__init__(target, declarations, pinned)
        self.buffers: dict[Buffer, str] = {}
        self.any_size = False  # extents are bounds only
        self.n_bases = 0
        self.allocas: list[str] = []
        self._hidden_zero: str | None = None
        self._rows: dict[tuple[Buffer, int, int], str] = {}  # local memory that is also in registers
        self.ahead: Sequence[tuple[Buffer, Index, int]] = ()  # see emit_ahead.py; of the stage at hand
        self.streamed = False  # some store bypasses the caches
        self._known: set[Expr] = set()  # computed by the order that is being run, and those around it
        self._holds: Expr | None = None  # a guard that is true at the present place

    # ---- values ----

    def run(self, order: Iterable[Expr]) -> None:
        """Writes what is not known yet."""
        depth, scopes = self.depth, self.scopes
        for e in order:
            if e.op not in ON_DEMAND and e not in scopes[depth[e]].memo:
                self._write(e, order)

    def where(self, guard: Expr | None, act: Callable[[], None]) -> None:
        """if guard: act(), in the innermost scope, whose values may depend on the branch; accesses under `guard` need it no more."""
        if guard is None:
            act()
            return
        self.run(self.order([guard]))
        scope = self.scopes[-1]
        known = len(scope.memo)

        def body() -> None:
            self._holds = guard
            act()
            self._holds = None

        self.when(self.value(guard), body)
        for key in list(scope.memo)[known:]:
            del scope.memo[key]  # does not dominate what follows

    def next_copy(self, variable: LoopVar, value: str | int, mask: str | None = None) -> None:
        """The vector variable moves on: what depends on it is forgotten, in its scope and those inside."""
        bound = self.variables[variable]
        bound.value = value
        self.mask = mask
        for scope in self.scopes[bound.depth :]:
            scope.memo = {k: v for k, v in scope.memo.items() if isinstance(k, Expr) and not self.uses.get(k, True)}

    def switch_copy(self, variable: LoopVar, value: str | int, memo: dict[Any, Any], mask: str | None) -> None:
        """To another of several vectors that are in work side by side; `memo` is its own in the variable's scope."""
        self.next_copy(variable, value, mask)
        self.scopes[self.variables[variable].depth].memo = memo

    def value(self, e: Expr) -> str:
        """The scalar value of an Expr that does not vary."""
        if e.op == "const":
            return number(e.attr, e.dtype)
        if e.op == "local":
            return self.locals[e.attr][1]
        memo = self.scopes[self.depth[e]].memo
        found = memo.get(e)
        if found is None:
            assert e.op == "index", e
            found = memo[e] = str(self.scalar(e.attr))
        return found

    def vector_of(self, e: Expr) -> str:
        """The value of any Expr in all lanes."""
        if self.lanes == 1:
            return self.value(e)
        if e.op == "const":
            return constant(e.attr, e.dtype, self.lanes)
        if not self.varies[e]:
            return self.spread(self.value(e), REGISTER[e.dtype], self.depth[e])
        if e.op == "local":
            return self.locals[e.attr][1]
        memo = self.scopes[self.depth[e]].memo
        found = memo.get(e)
        if found is None:
            assert e.op == "index", e
            found = memo[e] = self.index_vector(e.attr, 64)
        return found

    def spread(self, value: str, scalar: str, depth: int) -> str:
        """A scalar of scope `depth` in every lane."""
        if self.lanes == 1 or value[0] != "%":
            return self.splat(value, scalar, self.lanes)
        memo = self.scopes[depth].memo
        key = ("splat", value, self.lanes)
        found = memo.get(key)
        if found is None:
            self.lines = self.scopes[depth].lines
            found = memo[key] = self.splat(value, scalar, self.lanes)
        return found

    def _write(self, e: Expr, order: Iterable[Expr]) -> None:
        depth, varies = self.depth[e], self.varies[e]
        op = e.op
        if op == "load":
            out = self._load(e, depth, varies)
        elif op == "rare":
            out = self._rare(e, depth, varies, order)
        elif not varies:
            args = [self.value(a) for a in e.args]
            self.lines = self.scopes[depth].lines
            out = OPS[op](self, e, 1, args)
        else:
            out = self._by_one_divisor(e, depth) if op == "div" else self._narrow_index(e, depth)
            if out is None:
                args = [self.vector_of(a) for a in e.args]
                self.lines = self.scopes[depth].lines
                out = OPS[op](self, e, self.lanes, args)
        self.scopes[depth].memo[e] = out

    def _by_one_divisor(self, e: Expr, depth: int) -> str | None:
        """A quotient whose divisor is the same for many vectors: the divisor's scope prepares it."""
        y, v, lanes = e.args[1], self.vector_variable, self.lanes
        if (
            self.varies[y]
            or self.depth[y] >= depth
            or v is None
            or v.extent < DIVIDED * lanes
            or not has_divisors(self.target, e.dtype, lanes)
        ):
            return None
        x, divisor, scope = self.vector_of(e.args[0]), self.value(y), self.scopes[self.depth[y]]
        key = ("divisor", divisor, lanes)
        found = scope.memo.get(key)
        if found is None:
            self.lines = scope.lines
            found = scope.memo[key] = prepared_divisor(self, e.dtype, lanes, divisor)
        self.lines = self.scopes[depth].lines
        near, unfit = near_quotient(self, e.dtype, lanes, x, found)
        t = typed(e.dtype, lanes)
        return self.unlikely(self.any_lane(unfit, lanes), near, t, lambda: self.op(f"fdiv {t} {x}, {found.divisor}"))

    def _narrow_index(self, e: Expr, depth: int) -> str | None:
        """Arithmetic on indices that fit in 32 bits is done in 32 bits: conversions and comparisons."""

        def fits(a: Expr) -> bool:
            if a.op == "index":
                return is_small(a.attr)
            return a.op == "const" and LEAST <= a.attr <= MOST

        def small(a: Expr) -> str:
            return constant(a.attr, I32, self.lanes) if a.op == "const" else self.index_vector(a.attr, 32)

        if e.op == "convert" and e.dtype != I64 and e.dtype != BOOL and e.args[0].op == "index" and fits(e.args[0]):
            x = small(e.args[0])
            self.lines = self.scopes[depth].lines
            return convert(self, I32, e.dtype, self.lanes, x)
        if e.op in COMPARISONS and e.args[0].dtype == I64 and fits(e.args[0]) and fits(e.args[1]):
            x, y = small(e.args[0]), small(e.args[1])
            self.lines = self.scopes[depth].lines
            return compare(self, e.op, I32, self.lanes, x, y)
        return None

    def _rare(self, e: Expr, depth: int, varies: bool, order: Iterable[Expr]) -> str:
        lanes = self.lanes if varies else 1
        give = self.vector_of if varies else self.value
        condition, common = give(e.args[0]), give(e.args[1])
        scope = self.scopes[depth]
        self.lines = scope.lines
        outer = self._known
        self._known = outer | set(order)
        inner = self.without_rare([e.args[2]], self._known)

        def region() -> str:
            self.run(inner)
            seldom = give(e.args[2])
            self.lines = scope.lines
            return select(self, e.dtype, lanes, condition, seldom, common)

        out = self.unlikely(self.any_lane(condition, lanes), common, typed(e.dtype, lanes), region)
        self._known = outer
        return out

    def inline(self, order: Sequence[Expr], roots: Sequence[Expr], leaves: dict[Expr, str], lanes: int) -> list[str]:
        """Straight-line text for `roots` with given leaves (acc, elt), at the present place, all values in `lanes` lanes."""
        values = dict(leaves)

        def get(a: Expr) -> str:
            return constant(a.attr, a.dtype, lanes) if a.op == "const" else values[a]

        def write(nodes: Sequence[Expr], known: set[Expr]) -> None:
            for e in nodes:
                if e in values or e.op == "const":
                    continue
                if e.op == "rare":
                    outside = dict(values)
                    out = self._rare_inline(e, lanes, get, write, known | set(nodes))
                    values.clear()  # what the skipped region computed is not there behind it
                    values.update(outside)
                    values[e] = out
                else:
                    values[e] = OPS[e.op](self, e, lanes, [get(a) for a in e.args])

        write(order, set())
        return [get(r) for r in roots]

    def _rare_inline(
        self, e: Expr, lanes: int, get: Callable[[Expr], str], write: Callable[[Sequence[Expr], set[Expr]], None], known: set[Expr]
    ) -> str:
        condition, common = get(e.args[0]), get(e.args[1])

        def region() -> str:
            write(self.without_rare([e.args[2]], known), known)
            return select(self, e.dtype, lanes, condition, get(e.args[2]), common)

        return self.unlikely(self.any_lane(condition, lanes), common, typed(e.dtype, lanes), region)

    # ---- indices ----

    def scalar(self, index: Index) -> str | int:
        """The value of an Index in lane 0, as i64."""
        if not index.terms:
            return index.const
        f = self.facts(index)
        memo = self.scopes[f.depth].memo
        found = memo.get(f)
        if found is None:
            own = [(a, c) for a, c in index.terms if self.atom_depth(a) == f.depth]
            rest = (
                Index(index.const, tuple((a, c) for a, c in index.terms if self.atom_depth(a) != f.depth))
                if len(own) < len(index.terms)
                else None
            )
            total: str | int = index.const if rest is None else self.scalar(rest)
            for a, c in own:
                v = self._scaled(a, c, f.depth)
                self.lines = self.scopes[f.depth].lines
                total = self._sum(total, v)
            found = memo[f] = total
        return found

    def _sum(self, x: str | int, y: str | int) -> str | int:
        if isinstance(x, int) and isinstance(y, int):
            return x + y
        if x == 0:
            return y
        if y == 0:
            return x
        return self.op(f"add i64 {x}, {y}")

    def _scaled(self, a: Atom, c: int, depth: int) -> str | int:
        v = self._atom(a)
        if c == 1:
            return v
        if isinstance(v, int):
            return v * c
        memo = self.scopes[depth].memo
        key = ("times", v, c)
        found = memo.get(key)
        if found is None:
            self.lines = self.scopes[depth].lines
            found = memo[key] = self.op(f"mul i64 {v}, {c}")
        return found

    def _atom(self, a: Atom) -> str | int:
        if isinstance(a, LoopVar):
            return self.variables[a].value
        if isinstance(a, Value):
            return self.value(a.expr)
        memo = self.scopes[self.facts(a.index).depth].memo
        found = memo.get(a)
        if found is None:
            x = self.scalar(a.index)
            self.lines = self.scopes[self.facts(a.index).depth].lines
            found = memo[a] = self._divide(x, a)
        return found

    def _divide(self, x: str | int, a: FloorDiv | Mod) -> str | int:
        quotient = isinstance(a, FloorDiv)
        if isinstance(x, int):
            return x // a.divisor if quotient else x % a.divisor
        return self._floor_division(x, a, "i64", 1, 64)

    def _floor_division(self, x: str, a: FloorDiv | Mod, t: str, lanes: int, bits: int) -> str:
        d = integers([a.divisor] * lanes, bits)
        if a.index.lo >= 0:
            return self.op(f"{'udiv' if isinstance(a, FloorDiv) else 'urem'} {t} {x}, {d}")
        # x < 0: floor(x / d) = ~(~x / d)
        sign = self.op(f"ashr {t} {x}, {integers([bits - 1] * lanes, bits)}")
        flipped = self.op(f"xor {t} {x}, {sign}")
        q = self.op(f"udiv {t} {flipped}, {d}")
        q = self.op(f"xor {t} {q}, {sign}")
        if isinstance(a, FloorDiv):
            return q
        product = self.op(f"mul {t} {q}, {d}")
        return self.op(f"sub {t} {x}, {product}")

    def parts_by_lanes(self, index: Index) -> tuple[Index, Index]:
        """index == what has lane offsets + what has none."""
        regular: list[tuple[Atom, int]] = []
        wild: list[tuple[Atom, int]] = []
        for a, c in index.terms:
            (wild if self.atom_uses(a) and self.atom_offsets(a) is None else regular).append((a, c))
        return Index(index.const, tuple(regular)), Index(0, tuple(wild))

    def index_vector(self, index: Index, bits: int) -> str:
        """The lanes of an Index, modulo 2**bits."""
        f = self.facts(index)
        memo = self.scopes[f.depth].memo
        key = ("lanes", f, bits)
        found = memo.get(key)
        if found is None:
            found = memo[key] = self._index_vector(index, bits, f)
        return found

    def _index_vector(self, index: Index, bits: int, f: IndexFacts) -> str:
        lanes, scalar = self.lanes, f"i{bits}"
        t = vector(scalar, lanes)
        regular, wild = self.parts_by_lanes(index)
        base = self.scalar(regular)
        rf = self.facts(regular)
        offsets = rf.lanes
        assert offsets is not None
        out: str | None = None
        if isinstance(base, int):
            if any(offsets) or base or not wild.terms:
                out = integers([_wrap(base + o, bits) for o in offsets], bits)
        else:
            if bits == 32:
                key = ("i32", base)
                memo = self.scopes[rf.depth].memo
                narrow = memo.get(key)
                if narrow is None:
                    self.lines = self.scopes[rf.depth].lines
                    narrow = memo[key] = self.op(f"trunc i64 {base} to i32")
                base = narrow
            out = self.spread(base, scalar, rf.depth)
            if any(offsets):
                self.lines = self.scopes[rf.depth].lines
                out = self.op(f"add {t} {out}, {integers([_wrap(o, bits) for o in offsets], bits)}")
        for a, c in wild.terms:
            v = self._atom_vector(a, bits)
            self.lines = self.scopes[f.depth].lines
            if c != 1:
                v = self.op(f"mul {t} {v}, {integers([_wrap(c, bits)] * lanes, bits)}")
            out = v if out is None else self.op(f"add {t} {out}, {v}")
        assert out is not None
        return out

    def _atom_vector(self, a: Atom, bits: int) -> str:
        """The lanes, modulo 2**bits, of an atom without constant offsets."""
        if isinstance(a, Value):
            e = a.expr
            if bits == 32 and e.op == "convert" and e.args[0].dtype == I32:
                return self.vector_of(e.args[0])
            x = self.vector_of(e)
            self.lines = self.scopes[self.depth[e]].lines
            return x if bits == 64 else self.op(f"trunc {vector('i64', self.lanes)} {x} to {vector('i32', self.lanes)}")
        assert isinstance(a, FloorDiv | Mod)
        depth = self.facts(a.index).depth
        memo = self.scopes[depth].memo
        key = ("lanes", a, bits)
        found = memo.get(key)
        if found is None:
            inside = 32 if is_small(a.index) else 64
            x = self.index_vector(a.index, inside)
            self.lines = self.scopes[depth].lines
            found = self._floor_division(x, a, vector(f"i{inside}", self.lanes), self.lanes, inside)
            if inside != bits:
                found = self.op(
                    f"{'sext' if bits > inside else 'trunc'} {vector(f'i{inside}', self.lanes)} {found} to {vector(f'i{bits}', self.lanes)}"
                )
            memo[key] = found
        return found

    # ---- memory ----

    def base(self, buffer: Buffer) -> str:
        found = self.buffers.get(buffer)
        if found is None:
            if buffer.kind == "local":
                found = self.alloca(MEMORY[buffer.dtype], buffer.size + LANES)  # whole vectors may be read and written
            else:
                found = f"%b{self.n_bases}"
                self.n_bases += 1
            self.buffers[buffer] = found
        return found

    def alloca(self, t: str, size: int) -> str:
        name = f"%s{len(self.allocas)}"  # also counts other lines
        self.allocas.append(f"  {name} = alloca [{max(size, 1)} x {t}], align 64")
        return name

    def pointer(self, buffer: Buffer, index: Index) -> str:
        """The address of an element in lane 0: the constant last, so that neighbours share the rest, which is built scope by scope."""
        t = MEMORY[buffer.dtype]
        p = self._pointer(buffer, Index(0, index.terms) if index.const and index.terms else index, t) if index.terms else self.base(buffer)
        if not index.const:
            return p
        self.lines = self.scopes[self.facts(index).depth].lines
        return self.op(f"getelementptr {t}, ptr {p}, i64 {index.const}")

    def _pointer(self, buffer: Buffer, index: Index, t: str) -> str:
        if not index.terms:
            return self.base(buffer)
        f = self.facts(index)
        memo = self.scopes[f.depth].memo
        key = (buffer, f)
        found = memo.get(key)
        if found is None:
            own = Index(0, tuple((a, c) for a, c in index.terms if self.atom_depth(a) == f.depth))
            rest = Index(0, tuple((a, c) for a, c in index.terms if self.atom_depth(a) != f.depth))
            p = self._pointer(buffer, rest, t)
            offset = self.scalar(own)
            self.lines = self.scopes[f.depth].lines
            found = memo[key] = p if offset == 0 else self.op(f"getelementptr {t}, ptr {p}, i64 {offset}")
        return found

    def from_memory(self, dtype: np.dtype, x: str, lanes: int) -> str:
        return self.op(f"icmp ne {vector('i8', lanes)} {x}, {integers([0] * lanes, 8)}") if dtype == BOOL else x

    def to_memory(self, dtype: np.dtype, x: str, lanes: int) -> str:
        return self.op(f"zext {vector('i1', lanes)} {x} to {vector('i8', lanes)}") if dtype == BOOL else x

    def _load(self, e: Expr, depth: int, varies: bool) -> str:
        buffer, offset, guard = e.attr
        guard = None if guard is self._holds else guard
        dtype = e.dtype
        if buffer.size == 0:
            return constant(0, dtype, self.lanes if varies else 1)
        t, bytes_ = MEMORY[dtype], dtype.itemsize
        lines = self.scopes[depth].lines
        if not varies:
            p = self.pointer(buffer, offset)
            if guard is not None:
                g = self.value(guard)
                self.lines = lines
                p = self.op(f"select i1 {g}, ptr {p}, ptr {self.base(buffer)}")
            self.lines = lines
            return self.from_memory(dtype, self.op(f"load {t}, ptr {p}, align {bytes_}"), 1)
        mask = self.mask
        pattern = self.facts(offset).lanes
        if (
            guard is not None
            and mask is None
            and pattern == tuple(range(self.lanes))
            and not self.varies[guard]
            and buffer.size >= self.lanes
        ):
            p = self.pointer(buffer, offset)  # all lanes or none: then those of the buffer's begin
            g = self.value(guard)
            self.lines = lines
            p = self.op(f"select i1 {g}, ptr {p}, ptr {self.base(buffer)}")
            return self.from_memory(dtype, self.vector_load(t, self.lanes, p, bytes_, None), self.lanes)
        if guard is not None:
            g = self.vector_of(guard)
            self.lines = lines
            mask = g if mask is None else self.op(f"and {vector('i1', self.lanes)} {mask}, {g}")
        if pattern is None:
            x = self._gather(buffer, offset, mask, lines)
        elif not any(pattern):
            p = self.pointer(buffer, offset)
            self.lines = lines
            if mask is not None:
                some = self.any_lane(mask, self.lanes)
                p = self.op(f"select i1 {some}, ptr {p}, ptr {self.base(buffer)}")
            x = self.splat(self.op(f"load {t}, ptr {p}, align {bytes_}"), t, self.lanes)
        elif pattern == tuple(range(self.lanes)):
            x = self._kept_row(buffer, offset) if buffer.kind == "local" else ""
            if not x:
                p = self.pointer(buffer, offset)
                self.lines = lines
                if guard is not None and mask is not None and not self.is_near(buffer, offset):
                    # no lane at all may be far outside, where the processor takes hundreds of cycles to find that nothing is wrong
                    some = self.any_lane(mask, self.lanes)
                    p = self.op(f"select i1 {some}, ptr {p}, ptr {self.base(buffer)}")
                x = self.vector_load(t, self.lanes, p, bytes_, None if buffer.kind == "local" and guard is None else mask)
        else:
            found = self._window(buffer, offset, pattern, depth) if mask is None else None
            x = self._gather(buffer, offset, mask, lines) if found is None else found
        self.lines = lines
        return self.from_memory(dtype, x, self.lanes)

    @staticmethod
    def is_near(buffer: Buffer, offset: Index) -> bool:
        """Whether an offset is always in a page of the buffer or next to one."""
        reach = 4096 // buffer.dtype.itemsize
        return offset.lo >= -reach and offset.hi < buffer.size + reach

    def vector_load(self, t: str, lanes: int, p: str, bytes_: int, mask: str | None) -> str:
        v = vector(t, lanes)
        if mask is None:
            return self.op(f"load {v}, ptr {p}, align {bytes_}")
        if _is_first_lane(mask):
            x = self.op(f"load {t}, ptr {p}, align {bytes_}")
            return self.op(f"insertelement {v} zeroinitializer, {t} {x}, i64 0")
        name = self.declarations.add(f"llvm.masked.load.{_mangled(t, lanes)}.p0", v, ["ptr", vector("i1", lanes), v])
        return self.op(f"call {v} @{name}(ptr align {bytes_} {p}, {vector('i1', lanes)} {mask}, {v} zeroinitializer)")

    def _window(self, buffer: Buffer, offset: Index, pattern: tuple[int, ...], depth: int) -> str | None:
        """All lanes from at most MOST_WINDOW neighbouring vectors by shuffles; None if there are more, or they reach beyond the buffer."""
        low, lanes = min(pattern), self.lanes
        n = max(pattern) - low + 1
        step = abs(pattern[1] - pattern[0]) or 1
        # accesses of one stride that interleave (complex numbers, pixels) share their loads if these start at a multiple of the stride
        shared = (offset.const + low) % step
        for front in dict.fromkeys((shared, 0, -1)):
            if n + max(front, 0) <= lanes:
                width = power_above(n + max(front, 0))
                count = 1
            else:
                width, count = lanes, -(-(n + max(front, 0)) // lanes)
            if front < 0:
                front = width * count - n
            back = width * count - n - front
            starts = [k * width for k in range(count)]
            if count <= MOST_WINDOW and offset.lo - front >= 0 and offset.hi + back < buffer.size:
                break
        else:  # without what lies around: the last vector overlaps the one before
            front, width, count = 0, lanes, -(-n // lanes)
            if n < lanes or count > MOST_WINDOW:
                return None
            starts = [*range(0, n - lanes, lanes), n - lanes]
        t, lines = MEMORY[buffer.dtype], self.scopes[depth].lines
        parts = [self._window_part(buffer, offset + (low - front + start), t, width, depth) for start in starts]
        self.lines = lines
        at = [x - low + front for x in pattern]
        out = self.shuffle(parts[0], t, width, [x if x < width else 0 for x in at]) if count == 1 else parts[0]
        v, owner = vector(t, lanes), [x // width for x in at]
        for k in range(1, count):  # lanes of part k join those of the parts before, which the first join puts in place
            own = [of == k for of in owner]
            which = [lanes + x - starts[k] if own[lane] else (x if k == 1 and x < width else lane) for lane, x in enumerate(at)]
            out = self.op(f"shufflevector {v} {out}, {v} {parts[k]}, <{lanes} x i32> {_shuffle_mask(which)}")
        return out

    def _window_part(self, buffer: Buffer, start: Index, t: str, width: int, depth: int) -> str:
        memo = self.scopes[depth].memo
        key = ("window", buffer, self.facts(start), width)
        found = memo.get(key)
        if found is None:
            p = self.pointer(buffer, start)
            self.lines = self.scopes[depth].lines
            found = memo[key] = self.vector_load(t, width, p, buffer.dtype.itemsize, None)
        return found

    def shuffle(self, x: str, scalar: str, lanes: int, which: Sequence[int]) -> str:
        """The lanes `which` of x."""
        t = vector(scalar, lanes)
        if len(which) == 1:
            return self.op(f"extractelement {t} {x}, i64 {which[0]}")
        if lanes == 1:
            return self.splat(x, scalar, len(which))
        return self.op(f"shufflevector {t} {x}, {t} poison, <{len(which)} x i32> {_shuffle_mask(which)}")

    def _addresses(self, buffer: Buffer, offset: Index, depth_lines: list[str]) -> tuple[str, Sequence[int] | None, str | None, int]:
        """(scalar address, constant lane offsets or None, vector of lane offsets or None, its bits)"""
        regular, wild = self.parts_by_lanes(offset)
        rf = self.facts(regular)
        pattern = rf.lanes
        if not wild.terms:
            return self.pointer(buffer, regular), pattern, None, 0
        assert pattern is not None
        if any(pattern):  # whatever has lanes goes into the vector
            moving = tuple((a, c) for a, c in regular.terms if self.atom_uses(a))
            wild = Index(0, wild.terms + moving)
            regular = Index(regular.const, tuple((a, c) for a, c in regular.terms if not self.atom_uses(a)))
        bits = 32 if is_small(wild) else 64
        p = self.pointer(buffer, regular)
        v = self.index_vector(wild, bits)
        self.lines = depth_lines
        return p, None, v, bits

    def _vector_pointers(self, buffer: Buffer, offset: Index, lines: list[str]) -> str:
        p, pattern, v, bits = self._addresses(buffer, offset, lines)
        self.lines = lines
        if v is None:
            assert pattern is not None
            bits = 32 if all(LEAST <= o <= MOST for o in pattern) else 64
            v = integers(pattern, bits)
        return self.op(f"getelementptr {MEMORY[buffer.dtype]}, ptr {p}, {vector(f'i{bits}', self.lanes)} {v}")

    def _gather(self, buffer: Buffer, offset: Index, mask: str | None, lines: list[str]) -> str:
        t, bytes_, lanes = MEMORY[buffer.dtype], buffer.dtype.itemsize, self.lanes
        vt = vector(t, lanes)
        if self.target.gathers and bytes_ >= 4:
            pointers = self._vector_pointers(buffer, offset, lines)
            pt, mt = vector("ptr", lanes), vector("i1", lanes)
            name = self.declarations.add(f"llvm.masked.gather.{_mangled(t, lanes)}.v{lanes}p0", vt, [pt, mt, vt])
            m = "splat (i1 true)" if mask is None else mask
            return self.op(f"call {vt} @{name}({pt} align {bytes_} {pointers}, {mt} {m}, {vt} zeroinitializer)")
        if mask is None:
            p, pattern, v, bits = self._addresses(buffer, offset, lines)
        else:  # lanes without a value read element 0
            bits = 32 if is_small(offset) else 64
            v = self.index_vector(offset, bits)
            self.lines = lines
            it = vector(f"i{bits}", lanes)
            v = self.op(f"select {vector('i1', lanes)} {mask}, {it} {v}, {it} zeroinitializer")
            p, pattern = self.base(buffer), None
        self.lines = lines
        out = "poison"
        for k in range(lanes):
            if v is None:
                assert pattern is not None
                at: str | int = pattern[k]
                bits = 64
            else:
                at = self.op(f"extractelement {vector(f'i{bits}', lanes)} {v}, i64 {k}")
            q = p if at == 0 else self.op(f"getelementptr {t}, ptr {p}, i{bits} {at}")
            x = self.op(f"load {t}, ptr {q}, align {bytes_}")
            out = self.op(f"insertelement {vt} {out}, {t} {x}, i64 {k}")
        return out

    # ---- stores ----

    def store(self, buffer: Buffer, offset: Index, value: Expr, guard: Expr | None, streaming: bool = False) -> None:
        """One element or one vector of them at the present place, which is the innermost scope."""
        lines = self.scopes[-1].lines
        t, bytes_, lanes = MEMORY[buffer.dtype], buffer.dtype.itemsize, self.lanes
        guard = None if guard is self._holds else guard
        x = self.vector_of(value)
        g = None if guard is None else self.vector_of(guard)
        self.lines = lines
        x = self.to_memory(buffer.dtype, x, lanes)
        mask = self._and(self.mask, g)
        if buffer.kind == "local":
            mask = self._keep_row(buffer, offset, x, mask, g)
        if lanes == 1:
            p = self.pointer(buffer, offset)
            self.lines = lines
            if mask is None:
                self.say(f"store {t} {x}, ptr {p}, align {bytes_}")
            else:
                self.when(mask, lambda: self.say(f"store {t} {x}, ptr {p}, align {bytes_}"))
            return
        pattern = self.facts(offset).lanes
        if pattern == tuple(range(lanes)):
            p = self.pointer(buffer, offset)
            self.lines = lines
            self.vector_store(t, lanes, x, p, bytes_, mask, streaming)
        else:
            if pattern is not None and mask is None and pattern == tuple(range(0, -lanes, -1)):
                p = self.pointer(buffer, offset - (lanes - 1))
                self.lines = lines
                self.vector_store(t, lanes, self.shuffle(x, t, lanes, range(lanes - 1, -1, -1)), p, bytes_, None, False)
                return
            pointers = self._vector_pointers(buffer, offset, lines)
            pt, mt, vt = vector("ptr", lanes), vector("i1", lanes), vector(t, lanes)
            name = self.declarations.add(f"llvm.masked.scatter.{_mangled(t, lanes)}.v{lanes}p0", "void", [vt, pt, mt])
            self.say(f"call void @{name}({vt} {x}, {pt} align {bytes_} {pointers}, {mt} {mask or 'splat (i1 true)'})")

    def _constant_place(self, offset: Index) -> int | None:
        """Where a vector lies whose lanes are those of the vector variable, at a known position."""
        v = self.vector_variable
        if v is None or offset.terms != ((v, 1),):
            return None
        at = self.variables[v].value
        return offset.const + at if isinstance(at, int) else None

    def _kept_row(self, buffer: Buffer, offset: Index) -> str:
        place = self._constant_place(offset)
        return "" if place is None else self._rows.get((buffer, place, self.lanes), "")

    def _keep_row(self, buffer: Buffer, offset: Index, x: str, mask: str | None, guard: str | None) -> str | None:
        """A short row of local memory, written without a loop, stays in registers for the stages that follow. Returns the mask to store
        with: none if the lanes without a value lie beyond the row, where a local buffer has room (masked stores do not forward)."""
        v = self.vector_variable
        whole = guard is None and v is not None and v.extent == buffer.size and offset == Index(0, ((v, 1),))
        place = self._constant_place(offset) if whole or mask is None else None
        straight = len(self.scopes) == 3 and self.scopes[2].bounds is None
        if place is None or not straight:
            self._rows = {key: row for key, row in self._rows.items() if key[0] is not buffer}
        else:
            end, old = place + self.lanes, self._rows
            self._rows = {(b, at, n): y for (b, at, n), y in old.items() if b is not buffer or at + n <= place or end <= at}
            self._rows[buffer, place, self.lanes] = x
        return None if whole else mask

    def store_pair(self, buffer: Buffer, offset: Index, values: tuple[Expr, Expr], guard: Expr | None, streaming: bool = False) -> None:
        """Elements `offset` and `offset + 1`, two apart from lane to lane: interleaved into one store."""
        lines = self.scopes[-1].lines
        t, bytes_, lanes = MEMORY[buffer.dtype], buffer.dtype.itemsize, self.lanes
        guard = None if guard is self._holds else guard
        first, second = (self.vector_of(v) for v in values)
        g = None if guard is None else self.vector_of(guard)
        self.lines = lines
        first, second = (self.to_memory(buffer.dtype, x, lanes) for x in (first, second))
        self._rows = {k: v for k, v in self._rows.items() if k[0] is not buffer}
        mask = self._and(self.mask, g)
        zipped = [k // 2 + (k % 2) * lanes for k in range(2 * lanes)]
        vt = vector(t, lanes)
        both = self.op(f"shufflevector {vt} {first}, {vt} {second}, <{2 * lanes} x i32> {_shuffle_mask(zipped)}")
        if mask is not None:
            mt = vector("i1", lanes)
            mask = self.op(
                f"shufflevector {mt} {mask}, {mt} poison, <{2 * lanes} x i32> {_shuffle_mask([k // 2 for k in range(2 * lanes)])}"
            )
        p = self.pointer(buffer, offset)
        self.lines = lines
        self.vector_store(t, 2 * lanes, both, p, bytes_, mask, streaming)

    def vector_store(self, t: str, lanes: int, x: str, p: str, bytes_: int, mask: str | None, streaming: bool) -> None:
        v = vector(t, lanes)
        if mask is None:
            self.streamed = self.streamed or streaming
            self.say(f"store {v} {x}, ptr {p}, align {bytes_ * lanes if streaming else bytes_}{', !nontemporal !1' if streaming else ''}")
            return
        if _is_first_lane(
            mask
        ):  # LLVM 22 makes a masked store of truncated lanes into one of the wide element if it knows that one lane is on
            x = self.op(f"extractelement {v} {x}, i64 0")
            self.say(f"store {t} {x}, ptr {p}, align {bytes_}")
            return
        name = self.declarations.add(f"llvm.masked.store.{_mangled(t, lanes)}.p0", "void", [v, "ptr", vector("i1", lanes)])
        self.say(f"call void @{name}({v} {x}, ptr align {bytes_} {p}, {vector('i1', lanes)} {mask})")

    def opaque(self, value: int) -> str:
        """A constant that LLVM cannot see."""
        if self._hidden_zero is None:
            place = self.alloca("i64", 1)
            self._hidden_zero = f"{place}.value"
            self.allocas.append(f"  store i64 0, ptr {place}, align 8\n  {place}.value = load volatile i64, ptr {place}, align 8")
        return self.op(f"add i64 {self._hidden_zero}, {value}")

    def _and(self, x: str | None, y: str | None) -> str | None:
        if x is None or y is None:
            return y if x is None else x
        return self.op(f"and {vector('i1', self.lanes)} {x}, {y}")

    def tail_mask(self, count: str | int, lanes: int = 0, most: int = 0) -> str:
        """Lanes below `count` exist; of the stage's vectors, or of others. `most`: 0 < count <= most is known."""
        lanes = lanes or self.lanes
        if isinstance(count, int):
            return booleans([k < count for k in range(lanes)])
        bits = 8 if lanes > 16 else 32
        if not most or most > MOST or bits == 8 and most > 255:
            count = self.call("smin", "i64", 1, (count, str(lanes)))
        if not most:
            count = self.call("smax", "i64", 1, (count, "0"))
        n = self.op(f"trunc i64 {count} to i{bits}")
        s = self.splat(n, f"i{bits}", lanes)
        return self.op(f"icmp ult {vector(f'i{bits}', lanes)} {integers(range(lanes), bits)}, {s}")


def _wrap(v: int, bits: int) -> int:
    return (v + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def _is_first_lane(mask: str) -> bool:
    """Whether a constant mask has the first lane only."""
    return mask.startswith("<i1 true, ") and mask.count("true") == 1


def _mangled(t: str, lanes: int) -> str:
    return f"v{lanes}" + {"half": "f16", "float": "f32", "double": "f64"}.get(t, t)


def _shuffle_mask(which: Sequence[int]) -> str:
    return "<" + ", ".join(f"i32 {k}" for k in which) + ">"
