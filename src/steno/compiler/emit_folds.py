"""Reductions and running folds as loops of vector code: the canonical order of `ir/loops.py` exactly, whatever the vector width."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from steno.compiler.emit_code import Code, power_above
from steno.compiler.emit_maps import (
    Range,
    body_size,
    constant_or_op,
    dtypes_of,
    fetch_ahead,
    hide,
    lane_dtypes,
    least,
    memory_dtypes,
    roots_of,
    run_stores,
    stored_by,
)
from steno.compiler.emit_ops import BOOL, MEMORY, REGISTER, has_ordered_extremum, ordered_extremum, splat_constant, typed, vector
from steno.compiler.emit_scopes import Bound
from steno.compiler.target import Target
from steno.ir.expr import Expr, index_values, topological
from steno.ir.index import LoopVar
from steno.ir.loops import BLOCK, LANES, ColReduce, Cumulate, Fold, RowReduce, TreeReduce

ROW_BODY = 12  # operations on an element beyond which lanes are kept in memory instead of writing the body for each of them
LONG_BODY = 160  # operations up to which a row or column is written out instead of looped over
UNROLLED = 8  # elements of a column that are folded in registers
COLUMN_UNIT = 128  # lanes that threads share out, of columns that are reduced few at a time
SCRATCH_BYTES = 1 << 20
WIDE_ROWS, WIDE_BYTES = 4 * LANES, 1 << 20  # from how many rows and bytes on columns are reduced by long pieces of rows
WIDE_UNIT, WIDE_SCRATCH = 512, 1 << 19  # columns of such a piece at least, bytes of accumulators at most


@final
class _Folder:
    """Writes the combining function of a Fold."""

    def __init__(self, c: Code, fold: Fold) -> None:
        self.c = c
        self.fold = fold
        self.nodes = topological(fold.combine)
        rare = any(e.op == "rare" for e in self.nodes)
        self.order = c.without_rare(list(fold.combine), set()) if rare else self.nodes
        self.dtypes = [e.dtype for e in fold.combine]
        self.count = len(fold.combine)
        self.ordered = False  # no value is a NaN

    def combine(self, accs: Sequence[str], elements: Sequence[str], lanes: int) -> list[str]:
        if self.ordered and has_ordered_extremum(self.c.target, self.dtypes[0], lanes):
            return [ordered_extremum(self.c, self.nodes[-1].op, self.dtypes[0], lanes, accs[0], elements[0])]
        given = {"acc": accs, "elt": elements}
        leaves: dict[Expr, str] = {e: given[e.op][int(e.attr)] for e in self.nodes if e.op in given}
        return self.c.inline(self.order, self.fold.combine, leaves, lanes)

    def identity(self, lanes: int) -> list[str]:
        return self.c.inline(topological(self.fold.identity), self.fold.identity, {}, lanes)

    @property
    def is_extremum(self) -> bool:
        """Whether it keeps the greatest or the least of floats, which an order-preserving instruction can do unless one is a NaN."""
        (last,) = self.fold.combine if self.count == 1 else (None,)
        return last is not None and last.op in ("max", "min") and last.dtype.kind == "f" and {a.op for a in last.args} == {"acc", "elt"}

    def finish(self, outcome: Sequence[str], lanes: int) -> list[str]:
        """combine(identity, outcome)"""
        return (
            list(outcome) if self.is_extremum and _is_infinite(self.fold.identity) else self.combine(self.identity(lanes), outcome, lanes)
        )

    def choose(self, mask: str | None, new: Sequence[str], old: Sequence[str], lanes: int) -> list[str]:
        """new where mask, else old."""
        if mask is None:
            return list(new)
        m = vector("i1", lanes)
        types = [typed(d, lanes) for d in self.dtypes]
        return [self.c.op(f"select {m} {mask}, {t} {x}, {t} {y}") for t, x, y in zip(types, new, old, strict=True)]


def _is_infinite(identity: Sequence[Expr]) -> bool:
    return all(e.op == "const" and math.isinf(e.attr) for e in identity)


@final
class _Slots:
    """Accumulators in memory: for each of the fold's values an array of `count` vectors of `width` elements."""

    def __init__(self, c: Code, dtypes: Sequence[np.dtype], count: int, width: int) -> None:
        self.c = c
        self.width = width
        self.dtypes = dtypes
        if count * width * sum(d.itemsize for d in dtypes) > SCRATCH_BYTES:
            raise NotImplementedError(
                f"a reduction needs {count} x {width} partial results on the stack; reduce blocks in parallel, then a TreeReduce"
            )
        self.arrays = [c.alloca(MEMORY[d], count * width) for d in dtypes]

    def _at(self, array: str, dtype: np.dtype, slot: str | int, element: str | int) -> str:
        first = constant_or_op(self.c, "mul", slot, self.width) if self.width > 1 else slot
        if isinstance(element, int):
            offset = constant_or_op(self.c, "add", first, element)
        else:
            offset = constant_or_op(self.c, "add", element, first) if isinstance(first, int) else self.c.op(f"add i64 {first}, {element}")
        return array if offset == 0 else self.c.op(f"getelementptr {MEMORY[dtype]}, ptr {array}, i64 {offset}")

    def load(self, slot: str | int, element: str | int, lanes: int) -> list[str]:
        out = []
        for array, d in zip(self.arrays, self.dtypes, strict=True):
            p = self._at(array, d, slot, element)
            x = self.c.op(f"load {vector(MEMORY[d], lanes)}, ptr {p}, align {d.itemsize}")
            out.append(self.c.op(f"trunc {vector('i8', lanes)} {x} to {vector('i1', lanes)}") if d == BOOL else x)
        return out

    def store(self, slot: str | int, element: str | int, lanes: int, values: Sequence[str]) -> None:
        for array, d, v in zip(self.arrays, self.dtypes, values, strict=True):
            p = self._at(array, d, slot, element)
            x = self.c.to_memory(d, v, lanes)
            self.c.say(f"store {vector(MEMORY[d], lanes)} {x}, ptr {p}, align {d.itemsize}")

    def tree(
        self, folder: _Folder, n: str | int, most: int, elements: Sequence[int], lanes: int, across: Callable[[], str] | None = None
    ) -> None:
        """The halving tree over slots 0 .. n-1 (n <= most), for each vector at `elements`, or at those of the loop that `across` opens;
        the outcome is in slot 0."""
        c = self.c
        if most <= 1:
            return
        top = power_above(most) // 2
        k = c.open_loop(0, top.bit_length())
        h = c.op(f"lshr i64 {top}, {k}")
        rest = c.op(f"sub i64 {n}, {h}")
        bound = c.call("smin", "i64", 1, (h, rest))
        i = c.open_loop(0, bound)
        j = c.op(f"add i64 {i}, {h}")
        for at in elements if across is None else (across(),):
            self.store(i, at, lanes, folder.combine(self.load(i, at, lanes), self.load(j, at, lanes), lanes))
        if across is not None:
            c.close_loop()
        c.close_loop(may_be_empty=isinstance(n, str))
        c.close_loop()


# ---- RowReduce ----


@final
class RowReducer:
    """Lanes are kept as vectors in registers if the body is short, else in memory."""

    def __init__(self, c: Code, stage: RowReduce) -> None:
        self.c, self.stage = c, stage
        self.folder = _Folder(c, stage.fold)
        self.n = stage.var.extent
        self.width = self.vectors = 0
        self.exist: str | int = 0  # lanes of the block at hand that have an element
        self.order: list[Expr] = []
        self.ordered: list[str] | None = None  # while there must be no NaN: masks of where there was none

    def emit(self) -> None:
        c, stage, folder, n = self.c, self.stage, self.folder, self.n
        depth = len(c.scopes) - 1
        if n == 0:
            self.bind(depth, folder.identity(1))
            return
        self.width = min(c.target.lanes(dtypes_of(c, stage.elements)), power_above(min(n, LANES)))
        self.vectors = min(LANES, power_above(n)) // self.width
        blocks = -(-n // BLOCK)
        if stage.block is not None:
            c.begin([*index_values(stage.block)], 1, None, depth)
            c.run(c.order([*index_values(stage.block)]))
            base = constant_or_op(c, "mul", c.scalar(stage.block), BLOCK)
            c.lines = c.scopes[-1].lines
            self.bind(depth, self.block(base, self.block_size(base)))
            return
        if blocks == 1:
            self.bind(depth, folder.finish(self.block(0, n), 1))
            return
        slots = _Slots(c, folder.dtypes, blocks, 1)
        b = c.open_loop(0, blocks)
        base = c.op(f"mul i64 {b}, {BLOCK}")
        outcome = self.block(base, self.block_size(base))
        slots.store(b, 0, 1, outcome)
        c.close_loop()
        slots.tree(folder, blocks, blocks, [0], 1)
        self.bind(depth, folder.finish(slots.load(0, 0, 1), 1))

    def bind(self, depth: int, values: Sequence[str]) -> None:
        for name, v in zip(self.stage.locals, values, strict=True):
            self.c.locals[name] = depth, v, False

    def block_size(self, base: str | int) -> str | int:
        if self.n % BLOCK == 0:
            return BLOCK
        return min(BLOCK, self.n - base) if isinstance(base, int) else least(self.c, self.c.op(f"sub i64 {self.n}, {base}"), BLOCK)

    def block(self, base: str | int, m: str | int) -> list[str]:
        """The m elements from position `base` on, a multiple of BLOCK: one block's outcome."""
        c, var = self.c, self.stage.var
        depth = len(c.scopes)
        c.variables[var] = Bound(depth, base, self.width)
        c.begin(self.stage.elements, self.width, var if self.width > 1 else None, depth)
        self.order = c.order(self.stage.elements)
        last = self.n % BLOCK or BLOCK  # elements of the last block
        self.exist = LANES if (self.n >= BLOCK and last >= LANES) else min(m, LANES) if isinstance(m, int) else least(c, m, LANES)
        size = body_size(c, self.order, depth) + len(self.folder.nodes) // 2
        chunks = -(-min(self.n, LANES) // self.width)
        if size <= ROW_BODY or chunks == 1 and self.n <= LANES or self.n <= LANES and size * chunks <= LONG_BODY:
            several = self.n >= 4 * LANES and has_ordered_extremum(c.target, self.folder.dtypes[0], self.width)
            if several and self.folder.is_extremum and not any(e.op == "rare" for e in self.order):
                return self.extremum(base, m, last)
            vectors = self.in_registers(base, m, last)
        else:
            vectors = self.in_memory(base, m)
        return self.lanes_tree(vectors)

    def extremum(self, base: str | int, m: str | int, last: int) -> list[str]:
        """As if there were no NaN; if there is one, again."""
        c = self.c
        self.folder.ordered, self.ordered = True, []
        (best,) = self.lanes_tree(self.in_registers(base, m, last))
        mask = vector("i1", self.width)
        fine = self.ordered[0]
        for other in self.ordered[1:]:
            fine = c.op(f"and {mask} {fine}, {other}")
        self.folder.ordered, self.ordered = False, None
        nan = c.any_lane(c.op(f"xor {mask} {fine}, {splat_constant('true', 'i1', self.width)}"), self.width)
        return [c.unlikely(nan, best, REGISTER[self.folder.dtypes[0]], lambda: self.lanes_tree(self.in_registers(base, m, last))[0])]

    def check(self, values: Sequence[list[str]]) -> None:
        """No element may be a NaN, two vectors with one comparison."""
        if self.ordered is None:
            return
        c, t, mask = self.c, typed(self.folder.dtypes[0], self.width), vector("i1", self.width)
        for k in range(0, len(values), 2):
            x, y = values[k][0], values[min(k + 1, len(values) - 1)][0]
            fine = c.op(f"fcmp ord {t} {x}, {y}")
            if k // 2 < len(self.ordered):
                self.ordered[k // 2] = c.op(f"and {mask} {self.ordered[k // 2]}, {fine}")
            else:
                self.ordered.append(fine)

    def elements(self, at: str | int, mask: str | None) -> list[str]:
        c = self.c
        c.next_copy(self.stage.var, at, mask)
        fetch_ahead(c)
        c.run(self.order)
        out = [c.vector_of(e) for e in self.stage.elements]
        c.lines = c.scopes[-1].lines
        return out

    def in_registers(self, base: str | int, m: str | int, last: int) -> list[list[str]]:
        c, folder, width = self.c, self.folder, self.width
        vectors: list[list[str]] = []
        c.open()
        for j in range(self.vectors):
            mask = None
            if isinstance(self.exist, int):
                left = self.exist - j * width
                if left <= 0:
                    break
                if left < width:
                    mask = c.tail_mask(left)
            else:
                mask = c.tail_mask(c.op(f"sub i64 {self.exist}, {j * width}"))
            at = constant_or_op(c, "add", base, j * width)
            vectors.append(self.elements(at, mask))
        self.check(vectors)
        c.close()
        rows: str | int = m // LANES if isinstance(m, int) else c.op(f"lshr i64 {m}, {LANES.bit_length() - 1}")
        if not (isinstance(rows, int) and rows <= 1):
            carried = [[c.name() for _ in x] for x in vectors]
            end = constant_or_op(c, "mul", rows, LANES)
            first, marks = self.ordered or [], [c.name() for _ in self.ordered or []]
            if self.ordered is not None:
                self.ordered = list(marks)
            r = c.open_loop(LANES, end, LANES)
            following = self.row(base, r, carried)
            phis = self.phis(carried, vectors, following)
            phis += [(n, vector("i1", self.width), f, g) for n, f, g in zip(marks, first, self.ordered or [], strict=True)]
            c.close_loop(phis, may_be_empty=isinstance(m, str))
            vectors = following if isinstance(m, int) else carried
            if self.ordered is not None and not isinstance(m, int):
                self.ordered = marks
        rest = last % LANES
        if rest and not (isinstance(m, int) and m < LANES):
            c.open()
            done = m - m % LANES if isinstance(m, int) else self.rows_done(m)
            elements: list[list[str]] = []
            for j in range(len(vectors)):
                if isinstance(done, int) and isinstance(m, int):
                    left: str | int = m - done - j * width
                    if left <= 0:
                        break
                    mask = c.tail_mask(left) if left < width else None
                else:
                    mask = c.tail_mask(c.op(f"sub i64 {c.op(f'sub i64 {m}, {done}')}, {j * width}"))
                at = constant_or_op(c, "add", self.plus(base, done), j * width)
                elements.append(self.elements(at, mask))
                vectors[j] = folder.choose(mask, folder.combine(vectors[j], elements[j], width), vectors[j], width)
            self.check(elements)
            c.close()
        return vectors

    def rows_done(self, m: str | int) -> str:
        whole = self.c.op(f"and i64 {m}, {-LANES}")
        return self.c.call("smax", "i64", 1, (whole, str(LANES)))

    def plus(self, x: str | int, y: str | int) -> str | int:
        if isinstance(x, int) and isinstance(y, int):
            return x + y
        return y if x == 0 else self.c.op(f"add i64 {x}, {y}")

    def row(self, base: str | int, r: str, accs: list[list[str]]) -> list[list[str]]:
        c = self.c
        start = self.plus(base, r)
        elements = [self.elements(constant_or_op(c, "add", start, j * self.width), None) for j in range(len(accs))]
        self.check(elements)
        return [self.folder.combine(acc, new, self.width) for acc, new in zip(accs, elements, strict=True)]

    def phis(self, names: list[list[str]], first: list[list[str]], following: list[list[str]]) -> list[tuple[str, str, str, str]]:
        types = [typed(d, self.width) for d in self.folder.dtypes]
        return [q for n, f, g in zip(names, first, following, strict=True) for q in zip(n, types, f, g, strict=True)]

    def in_memory(self, base: str | int, m: str | int) -> list[list[str]]:
        """The body once, for one vector: lane accumulators live in an array of LANES; the first row is stored, later ones are combined."""
        c, folder, width = self.c, self.folder, self.width
        slots = _Slots(c, folder.dtypes, LANES // width, width)
        q = c.open_loop(0, m, width)
        mask = None
        if self.n % width:
            mask = c.tail_mask(c.op(f"sub i64 {m}, {q}"), most=BLOCK)
        new = self.elements(self.plus(base, q), mask)
        slot = c.op(f"and i64 {c.op(f'lshr i64 {q}, {width.bit_length() - 1}')}, {LANES // width - 1}")
        if self.n > LANES:
            old = slots.load(slot, 0, width)
            both = folder.choose(mask, folder.combine(old, new, width), old, width)
            first = c.splat(c.op(f"icmp slt i64 {q}, {LANES}"), "i1", width)
            new = folder.choose(first, new, both, width)
        slots.store(slot, 0, width, new)
        c.close_loop()
        count = -(-self.exist // width) if isinstance(self.exist, int) else self.vectors
        return [slots.load(j, 0, width) for j in range(count)]

    def lanes_tree(self, vectors: list[list[str]]) -> list[str]:
        """The halving tree over the lanes: whole vectors while the halves are that large, then halves of the one that remains."""
        c, folder, width = self.c, self.folder, self.width
        h = self.vectors * width // 2
        while h >= width:
            half = h // width
            for j in range(half):
                if j + half >= len(vectors):
                    break
                mask = self.exists(h + j * width, width)
                new = folder.combine(vectors[j], vectors[j + half], width)
                vectors[j] = folder.choose(mask, new, vectors[j], width)
            vectors = vectors[:half]
            h //= 2
        (values,) = vectors
        while h:
            low = [c.shuffle(v, REGISTER[d], 2 * h, range(h)) for v, d in zip(values, folder.dtypes, strict=True)]
            if not isinstance(self.exist, int) or self.exist > h:
                high = [c.shuffle(v, REGISTER[d], 2 * h, range(h, 2 * h)) for v, d in zip(values, folder.dtypes, strict=True)]
                low = folder.choose(self.exists(h, h), folder.combine(low, high, h), low, h)
            values = low
            h //= 2
        return values

    def exists(self, start: int, lanes: int) -> str | None:
        """Mask of the lanes start, start + 1, ... that exist; None if all do."""
        c = self.c
        if isinstance(self.exist, int) and self.exist >= start + lanes:
            return None
        count = constant_or_op(c, "sub", self.exist, start)
        if lanes == 1:
            return "true" if isinstance(count, int) else c.op(f"icmp sgt i64 {count}, 0")
        saved, c.lanes = c.lanes, lanes
        mask = c.tail_mask(count)
        c.lanes = saved
        return mask


# ---- TreeReduce ----


def emit_tree(c: Code, stage: TreeReduce) -> None:
    folder = _Folder(c, stage.fold)
    depth = len(c.scopes) - 1
    n = stage.var.extent
    if n == 0:
        outcome = folder.identity(1)
    else:
        slots = _Slots(c, folder.dtypes, n, 1)
        c.variables[stage.var] = Bound(depth + 1, 0)
        i = c.open_loop(0, n)
        c.variables[stage.var].value = i
        c.begin(stage.elements, 1, None, depth + 1)
        c.run(c.order(stage.elements))
        values = [c.value(e) for e in stage.elements]
        c.lines = c.scopes[-1].lines
        slots.store(i, 0, 1, values)
        c.close_loop()
        slots.tree(folder, n, n, [0], 1)
        outcome = folder.finish(slots.load(0, 0, 1), 1)
    for name, v in zip(stage.locals, outcome, strict=True):
        c.locals[name] = depth, v, False


# ---- ColReduce, Cumulate: tiles of lanes ----


Tile = Callable[[Sequence["str | int"], int, "str | None"], None]


def _tiles(c: Code, lane: LoopVar, span: Range | None, lanes: int, most: int, masked: bool, tile: Tile) -> None:
    """Covers the lanes: `tile(starts, lanes, mask)` writes the work of several neighbouring vectors at the present place, in a scope of the
    lane's depth that is opened here."""
    start, end = span if span is not None else (0, lane.extent)
    if isinstance(end, int) and isinstance(start, int):
        n = end - start
        count = most
        while count > 1 and count * lanes > n:
            count //= 2
        main = n // (count * lanes) * count * lanes
        if main == count * lanes:
            c.open()
            tile([k * lanes for k in range(count)], lanes, None)
            c.close()
        elif main:
            v = c.open_loop(0, main, count * lanes)
            tile([constant_or_op(c, "add", v, k * lanes) for k in range(count)], lanes, None)
            c.close_loop()
        if n - main == 0:
            return
        if masked and n - main < lanes:
            c.open()
            tile([main], lanes, c.tail_mask(n - main, lanes))
            c.close()
            return
        start = main
        dynamic = False
    else:
        length = c.op(f"sub i64 {end}, {start}")
        whole = c.op(f"and i64 {length}, {-most * lanes}")
        main_end = c.op(f"add i64 {start}, {whole}")
        v = c.open_loop(start, main_end, most * lanes)
        tile([constant_or_op(c, "add", v, k * lanes) for k in range(most)], lanes, None)
        c.close_loop(may_be_empty=True)
        start = main_end
        dynamic = True
    width = lanes if masked else 1
    v = c.open_loop(start, end, width)
    mask = c.tail_mask(c.op(f"sub i64 {end}, {v}"), width, lane.extent) if masked else None
    tile([v], width, mask)
    c.close_loop(may_be_empty=dynamic)


def column_vectors(size: int, lanes: int) -> int:
    """Neighbouring vectors reduced side by side: LANES accumulators for each take a third of the first-level cache."""
    return max(1, min(4 if size <= 24 else 2, COLUMN_UNIT // lanes))


def wide_columns(stage: ColReduce, target: Target) -> int:
    """How many columns are reduced side by side if it should be many; else 0.

    Rows that come from memory are read along, in long pieces: memory likes that, and pages are met once. The accumulators of all those
    columns fill much of the second-level cache. So that they are seldom loaded and stored, several rows of one accumulator are folded at
    once, LANES apart, and so in ascending order.
    """
    nodes, n, extent = topological(stage.elements), stage.var.extent, stage.lane.extent
    lanes = target.lanes(lane_dtypes(nodes) | {e.dtype for e in stage.elements})
    if (
        lanes == 1
        or extent % lanes
        or extent < 2 * WIDE_UNIT
        or n < WIDE_ROWS
        or len(nodes) + len(topological(stage.fold.combine)) > 2 * ROW_BODY
    ):
        return 0
    loads = [e.attr for e in nodes if e.op == "load" and (e.attr[2] is not None or e.attr[1].coefficient(stage.var))]
    if any(guard is not None or offset.coefficient(stage.lane) not in (0, 1) for _, offset, guard in loads):
        return 0
    far = [b.dtype.itemsize for b, offset, _ in loads if offset.coefficient(stage.lane) and b.kind != "local"]
    if n * extent * max(far, default=0) < WIDE_BYTES:
        return 0
    accumulators = sum(e.dtype.itemsize for e in stage.fold.combine) * (LANES + -(-n // BLOCK))
    width = min(WIDE_SCRATCH // accumulators, extent) // COLUMN_UNIT * COLUMN_UNIT
    return width if width >= WIDE_UNIT else 0


def column_unit(stage: ColReduce, target: Target) -> int:
    """The lanes that threads share out: an even number of pieces if they are long."""
    if not wide_columns(stage, target):
        return COLUMN_UNIT
    pieces = stage.lane.extent // (2 * WIDE_UNIT) * 2
    return -(-stage.lane.extent // (pieces * COLUMN_UNIT)) * COLUMN_UNIT


def _lanes_of(c: Code, dtypes: set[np.dtype], lane: LoopVar, masked: bool) -> int:
    return min(c.target.lanes(dtypes), power_above(lane.extent) if masked else power_above(lane.extent + 1) // 2)


@final
class ColumnReducer:
    """A tile of neighbouring vectors at a time."""

    def __init__(self, c: Code, stage: ColReduce) -> None:
        self.c, self.stage = c, stage
        self.folder = _Folder(c, stage.fold)
        self.n = stage.var.extent
        self.roots, self.written = roots_of(stage.stores), stored_by(stage)
        self.size = len(c.nodes(stage.elements)) + len(self.folder.nodes)
        self.depth = len(c.scopes)  # of the lane
        # of the tile at hand
        self.starts: Sequence[str | int] = ()
        self.width = 1
        self.mask: str | None = None
        self.memos: list[dict[Any, Any]] = []

    def emit(self, span: Range | None) -> None:
        c, stage = self.c, self.stage
        if stage.lane.extent == 0:
            return
        masked = c.target.masked(memory_dtypes(c, [*stage.elements, *self.roots]) | {b.dtype for b in self.written})
        lanes = _lanes_of(c, dtypes_of(c, stage.elements), stage.lane, masked)
        width = 0 if c.any_size else wide_columns(stage, c.target)
        if width:
            self.width = lanes
            self.wide(span if span is not None else (0, stage.lane.extent), width)
        else:
            _tiles(c, stage.lane, span, lanes, column_vectors(self.size, lanes), masked, self.tile)

    def wide(self, span: Range, width: int) -> None:
        c, folder, n = self.c, self.folder, self.n
        left = c.open_loop(*span, width)
        right = c.call("smin", "i64", 1, (c.op(f"add i64 {left}, {width}"), str(span[1])))

        def across() -> str:
            """Opens the loop over the columns at hand; their number from the left."""
            v = c.open_loop(left, right, self.width)
            c.variables[self.stage.lane] = Bound(len(c.scopes) - 1, v, self.width)
            return c.op(f"sub i64 {v}, {left}")

        slots = _Slots(c, folder.dtypes, LANES, width)
        blocks = -(-n // BLOCK)
        partial = _Slots(c, folder.dtypes, blocks, width) if blocks > 1 else slots
        if blocks == 1:
            self.wide_block(slots, 0, n, across)
        else:
            b = c.open_loop(0, blocks)
            base = c.op(f"mul i64 {b}, {BLOCK}")
            self.wide_block(slots, base, BLOCK if n % BLOCK == 0 else least(c, c.op(f"sub i64 {n}, {base}"), BLOCK), across)
            at = across()
            partial.store(b, at, self.width, slots.load(0, at, self.width))
            c.close_loop()
            c.close_loop()
            partial.tree(folder, blocks, blocks, (), self.width, across)
        at = across()
        depth = len(c.scopes) - 1
        outcome = folder.finish(partial.load(0, at, self.width), self.width)
        for name, x in zip(self.stage.locals, outcome, strict=True):
            c.locals[name] = depth, x, True
        c.begin(self.roots, self.width, self.stage.lane, depth, self.written)
        c.run(c.order(self.roots))
        run_stores(c, self.stage.stores)
        c.lines = c.scopes[-1].lines
        c.close_loop()
        c.close_loop()

    def wide_block(self, slots: _Slots, base: str | int, m: str | int, across: Callable[[], str]) -> None:
        """The m rows from `base` on, folded into slot 0."""
        c, n, folder = self.c, self.n, self.folder
        rest = min(n, BLOCK) // LANES - 1
        together = max(range(4, 9), key=lambda k: (rest // k * k, k)) if rest >= 4 else 1
        first = least(c, m, LANES)
        r = c.open_loop(0, first)
        self.wide_rows(slots, base, r, [r], across, keep=True)
        c.close_loop(may_be_empty=isinstance(m, str))
        done: str | int = LANES
        if together > 1:
            step = together * LANES
            more = constant_or_op(c, "sub", m, LANES)
            if isinstance(more, int):
                done = LANES + more // step * step
            else:
                whole = c.op(f"mul i64 {c.op(f'sdiv i64 {more}, {step}')}, {step}")
                done = c.op(f"add i64 {whole}, {LANES}")
            q = c.open_loop(LANES, done, step)
            r = c.open_loop(0, LANES)
            start = c.op(f"add i64 {q}, {r}")
            self.wide_rows(slots, base, r, [constant_or_op(c, "add", start, k * LANES) for k in range(together)], across)
            c.close_loop()
            c.close_loop(may_be_empty=isinstance(done, str))
        if isinstance(m, str) or isinstance(done, str) or done < m:
            r = c.open_loop(done, m)
            self.wide_rows(slots, base, c.op(f"and i64 {r}, {LANES - 1}"), [r], across)
            c.close_loop(may_be_empty=isinstance(m, str))
        slots.tree(folder, first, LANES, (), self.width, across)

    def wide_rows(
        self, slots: _Slots, base: str | int, slot: str, rows: Sequence[str | int], across: Callable[[], str], keep: bool = False
    ) -> None:
        """Folds rows of one slot, or keeps the one that is its first."""
        c, stage, width = self.c, self.stage, self.width
        outer = len(c.scopes) - 1  # of the rows
        numbers = [r if base == 0 else c.op(f"add i64 {base}, {r}") for r in rows]
        bound = c.variables[stage.var] = Bound(outer, numbers[0])
        at = across()
        c.begin(stage.elements, width, stage.lane, outer + 1)
        order = c.order(stage.elements)
        accs = [] if keep else slots.load(slot, at, width)
        for number in numbers:
            bound.value = number
            c.scopes[outer].memo, c.scopes[outer + 1].memo = {}, {}
            c.run(order)
            values = [c.vector_of(e) for e in stage.elements]
            c.lines = c.scopes[-1].lines
            accs = values if keep else self.folder.combine(accs, values, width)
        slots.store(slot, at, width, accs)
        c.close_loop()

    def tile(self, starts: Sequence[str | int], width: int, mask: str | None) -> None:
        c, stage = self.c, self.stage
        starts = hide(c, starts, stage.stores)
        self.starts, self.width, self.mask = starts, width, mask
        self.memos = [{} for _ in starts]
        c.variables[stage.lane] = Bound(self.depth, starts[0], width)
        if self.n == 0:
            outcome = [self.folder.identity(width) for _ in starts]
        elif self.n <= UNROLLED and self.n * self.size * len(starts) <= 2 * LONG_BODY:
            outcome = self.in_registers()
        else:
            outcome = self.in_memory()
        for name in stage.locals:
            c.locals[name] = self.depth, "", width > 1
        c.begin(self.roots, width, self.vector_variable, self.depth, self.written)
        order = c.order(self.roots)
        for j in range(len(starts)):
            self.at(j)
            values = outcome[j] if self.n == 0 else self.folder.finish(outcome[j], width)
            for name, v in zip(stage.locals, values, strict=True):
                c.locals[name] = self.depth, v, width > 1
            c.run(order)
            run_stores(c, stage.stores)
        c.lines = c.scopes[-1].lines

    @property
    def vector_variable(self) -> LoopVar | None:
        return self.stage.lane if self.width > 1 else None

    def at(self, j: int) -> None:
        """To vector j of the tile."""
        self.c.switch_copy(self.stage.lane, self.starts[j], self.memos[j], self.mask)

    def in_registers(self) -> list[list[str]]:
        """A short column, written out: the tree bottom up, so that few partial results are alive."""
        c, stage, n = self.c, self.stage, self.n
        c.variables[stage.var] = Bound(self.depth + 1, 0)
        c.begin(stage.elements, self.width, self.vector_variable, self.depth + 1)
        order = c.order(stage.elements)
        top = power_above(n)

        def subtree(i: int, step: int) -> list[str]:
            if step == top:
                c.variables[stage.var].value = i
                c.open()
                c.run(order)
                out = [c.vector_of(e) for e in stage.elements]
                c.close()
                return out
            left = subtree(i, 2 * step)
            return self.folder.combine(left, subtree(i + step, 2 * step), self.width) if i + step < n else left

        outcome = []
        for j in range(len(self.starts)):
            self.at(j)
            outcome.append(subtree(0, 1))
        return outcome

    def in_memory(self) -> list[list[str]]:
        """LANES accumulators for each lane of the tile, in memory; rows in ascending order, so that memory is read in stretches."""
        c, folder, n, width = self.c, self.folder, self.n, self.width
        places = [j * width for j in range(len(self.starts))]
        blocks = -(-n // BLOCK)
        slots = _Slots(c, folder.dtypes, min(n, LANES), len(places) * width)
        if blocks == 1:
            self.block(slots, 0, n, places)
            return [slots.load(0, p, width) for p in places]
        partial = _Slots(c, folder.dtypes, blocks, len(places) * width)
        b = c.open_loop(0, blocks)
        base = c.op(f"mul i64 {b}, {BLOCK}")
        self.block(slots, base, BLOCK if n % BLOCK == 0 else least(c, c.op(f"sub i64 {n}, {base}"), BLOCK), places)
        for p in places:
            partial.store(b, p, width, slots.load(0, p, width))
        c.close_loop()
        partial.tree(folder, blocks, blocks, places, width)
        return [partial.load(0, p, width) for p in places]

    def block(self, slots: _Slots, base: str | int, m: str | int, places: Sequence[int]) -> None:
        """The m rows from `base` on, folded into slot 0."""
        c, folder, n, width = self.c, self.folder, self.n, self.width

        def keep(r: str, p: int, values: list[str]) -> None:
            slots.store(r, p, width, values)

        def add(r: str, p: int, values: list[str]) -> None:
            slot = c.op(f"and i64 {r}, {LANES - 1}")
            slots.store(slot, p, width, folder.combine(slots.load(slot, p, width), values, width))

        def keep_or_add(r: str, p: int, values: list[str]) -> None:
            slot = c.op(f"and i64 {r}, {LANES - 1}")
            both = folder.combine(slots.load(slot, p, width), values, width)
            first = c.splat(c.op(f"icmp slt i64 {r}, {LANES}"), "i1", width)
            slots.store(slot, p, width, folder.choose(first, values, both, width))

        first_rows = least(c, m, LANES)
        if n > LANES and self.size > 2 * ROW_BODY:
            self.rows(base, 0, m, places, keep_or_add)
        else:
            self.rows(base, 0, first_rows, places, keep)
            if n > LANES:
                self.rows(base, LANES, m, places, add)
        slots.tree(folder, first_rows, min(n, LANES), places, width)

    def rows(self, base: str | int, start: int, end: str | int, places: Sequence[int], work: Callable[[str, int, list[str]], None]) -> None:
        c, stage = self.c, self.stage
        inner = len(c.scopes)
        r = c.open_loop(start, end)
        c.variables[stage.var] = Bound(inner, r if base == 0 else c.op(f"add i64 {base}, {r}"))
        c.begin(stage.elements, self.width, self.vector_variable, inner)
        order = c.order(stage.elements)
        for j, p in enumerate(places):
            self.at(j)
            c.run(order)
            values = [c.vector_of(e) for e in stage.elements]
            c.lines = c.scopes[-1].lines
            work(r, p, values)
        c.close_loop(may_be_empty=isinstance(end, str))


def emit_running(c: Code, stage: Cumulate) -> None:
    lane, var, n = stage.lane, stage.var, stage.var.extent
    if n == 0 or lane is not None and lane.extent == 0:
        return
    folder = _Folder(c, stage.fold)
    written = stored_by(stage)
    roots = [*stage.elements, *roots_of(stage.stores)]
    depth = len(c.scopes)

    def tile(starts: Sequence[str | int], width: int, mask: str | None) -> None:
        starts = hide(c, starts, stage.stores)
        vector_variable = lane if width > 1 else None
        if lane is not None:
            c.variables[lane] = Bound(depth, starts[0], width)
        memos: list[dict[Any, Any]] = [{} for _ in starts]
        inner = len(c.scopes)
        carried = [[c.name() for _ in range(folder.count)] for _ in starts]
        first = folder.identity(width)
        r = c.open_loop(0, n)
        c.variables[var] = Bound(inner, r)
        for name in stage.locals:
            c.locals[name] = inner, "", width > 1
        c.begin(roots, width, vector_variable, inner, written)
        order, store_order = c.order(stage.elements), c.order(roots)
        following = []
        for j in range(len(starts)):
            if lane is not None:
                c.switch_copy(lane, starts[j], memos[j], mask)
            c.run(order)
            values = [c.vector_of(e) for e in stage.elements]
            c.lines = c.scopes[-1].lines
            accs = folder.combine(carried[j], values, width)
            for name, v in zip(stage.locals, accs, strict=True):
                c.locals[name] = inner, v, width > 1
            c.run(store_order)
            run_stores(c, stage.stores)
            c.lines = c.scopes[-1].lines
            following.append(accs)
        types = [typed(d, width) for d in folder.dtypes]
        c.close_loop([q for names, nexts in zip(carried, following, strict=True) for q in zip(names, types, first, nexts, strict=True)])

    if lane is None or lane.extent == 1:
        c.open()
        if lane is not None:
            c.variables[lane] = Bound(depth, 0)
        tile([0], 1, None)
        c.close()
        return
    masked = c.target.masked(memory_dtypes(c, roots) | {b.dtype for b in written})
    lanes = _lanes_of(c, dtypes_of(c, roots), lane, masked)
    size = len(c.nodes(roots)) + len(folder.nodes)
    _tiles(c, lane, None, lanes, min(4, column_vectors(size, lanes)), masked, tile)
