"""The stages of a kernel as loops of vector code. Reductions follow the canonical order of `ir/loops.py` exactly, whatever the vector width.

A vector loop has a main part of whole vectors, several of them in one iteration if the body is short, and a tail: one masked vector, or, where the machine
has no masks for the sizes at hand, a loop over single elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

import numpy as np

from steno.compiler.emit_code import Bound, Code, power_above
from steno.compiler.emit_ops import BOOL, MEMORY, REGISTER, constant, typed, vector
from steno.ir.expr import Expr, index_values, topological
from steno.ir.index import LoopVar
from steno.ir.loops import BLOCK, LANES, Buffer, ColReduce, Cumulate, Fold, MapStage, RowReduce, Stage, Store, TreeReduce

LONG_BODY = 160  # operations; such a body is written once only, its loop is masked throughout
ROW_BODY = 12  # operations on an element beyond which lanes are kept in memory instead of writing the body for each of them
UNROLLED = 8  # elements of a column that are folded in registers
STREAM_BYTES = 1 << 24
FLAT_UNIT, COLUMN_UNIT = 256, 128  # elements of a flat kernel's vector variable that threads share out

Range = tuple["str | int", "str | int"]


def roots_of(stores: Sequence[Store]) -> list[Expr]:
    out: list[Expr] = []
    for s in stores:
        out.append(s.value)
        if s.guard is not None:
            out.append(s.guard)
        out += index_values(s.offset)
    return out


def loaded_by(stage: Stage) -> set[Buffer]:
    roots = [*getattr(stage, "elements", ()), *roots_of(getattr(stage, "stores", ()))]
    return {e.attr[0] for e in topological(roots) if e.op == "load"}


def stored_by(stage: Stage) -> frozenset[Buffer]:
    return frozenset(s.buffer for s in getattr(stage, "stores", ()))


def emit_stage(c: Code, stage: Stage, span: Range | None) -> None:
    """`span`: of the vector variable of a flat kernel, in elements, the start a multiple of LANES."""
    if isinstance(stage, MapStage):
        _map(c, stage, span)
    elif isinstance(stage, RowReduce):
        _RowReducer(c, stage).emit()
    elif isinstance(stage, TreeReduce):
        _tree(c, stage)
    elif isinstance(stage, ColReduce):
        _columns(c, stage, span)
    else:
        _cumulate(c, stage, span)


# ---- shared ----


def lane_dtypes(nodes: Sequence[Expr]) -> set[np.dtype]:
    """What decides on the number of lanes: loads and arithmetic, but not index arithmetic."""
    return {e.dtype for e in nodes if e.op not in ("const", "index") and (e.dtype.itemsize < 8 or e.dtype.kind == "f" or e.op == "load")}


def _dtypes(c: Code, roots: Sequence[Expr]) -> set[np.dtype]:
    return lane_dtypes(c.nodes(roots)) | {r.dtype for r in roots}


def _body_size(c: Code, order: Sequence[Expr], depth: int) -> int:
    return sum(1 for e in order if c.depth[e] >= depth and e.op != "const")


def _constant_or_op(c: Code, op: str, x: str | int, y: int) -> str | int:
    if isinstance(x, int):
        return {"add": x + y, "sub": x - y, "and": x & y, "lshr": x >> y, "mul": x * y}[op]
    return x if op in ("add", "sub") and y == 0 else c.op(f"{op} i64 {x}, {y}")


def _least(c: Code, x: str | int, y: int) -> str | int:
    return min(x, y) if isinstance(x, int) else c.call("smin", "i64", 1, (x, str(y)))


@final
class _Folder:
    """Writes the combining function of a Fold."""

    def __init__(self, c: Code, fold: Fold) -> None:
        self.c = c
        self.fold = fold
        self.nodes = topological(fold.combine)
        plain = any(e.op == "rare" for e in self.nodes)
        self.order = c._without_rare(list(fold.combine), set()) if plain else self.nodes
        self.dtypes = [e.dtype for e in fold.combine]
        self.count = len(fold.combine)

    def combine(self, accs: Sequence[str], elements: Sequence[str], lanes: int) -> list[str]:
        leaves = {e: (accs if e.op == "acc" else elements)[e.attr] for e in self.nodes if e.op in ("acc", "elt")}
        return self.c.inline(self.order, self.fold.combine, leaves, lanes)

    def identity(self, lanes: int) -> list[str]:
        return self.c.inline(topological(self.fold.identity), self.fold.identity, {}, lanes)

    def finish(self, outcome: Sequence[str], lanes: int) -> list[str]:
        """combine(identity, outcome)"""
        return self.combine(self.identity(lanes), outcome, lanes)

    def choose(self, mask: str | None, new: Sequence[str], old: Sequence[str], lanes: int) -> list[str]:
        """new where mask, else old."""
        if mask is None:
            return list(new)
        m = vector("i1", lanes)
        types = [typed(d, lanes) for d in self.dtypes]
        return [self.c.op(f"select {m} {mask}, {t} {x}, {t} {y}") for t, x, y in zip(types, new, old, strict=True)]


@final
class _Slots:
    """Accumulators in memory: for each of the fold's values an array of `count` vectors of `width` elements."""

    def __init__(self, c: Code, dtypes: Sequence[np.dtype], count: int, width: int) -> None:
        self.c = c
        self.width = width
        self.dtypes = dtypes
        if count * width * sum(d.itemsize for d in dtypes) > 1 << 20:
            raise NotImplementedError(
                f"a reduction needs {count} x {width} partial results on the stack; reduce blocks in parallel, then a TreeReduce"
            )
        self.arrays = [c.alloca(MEMORY[d], count * width) for d in dtypes]

    def _at(self, array: str, dtype: np.dtype, slot: str | int, element: int) -> str:
        offset = _constant_or_op(self.c, "add", _constant_or_op(self.c, "mul", slot, self.width) if self.width > 1 else slot, element)
        return array if offset == 0 else self.c.op(f"getelementptr {MEMORY[dtype]}, ptr {array}, i64 {offset}")

    def load(self, slot: str | int, element: int, lanes: int) -> list[str]:
        out = []
        for array, d in zip(self.arrays, self.dtypes, strict=True):
            p = self._at(array, d, slot, element)
            x = self.c.op(f"load {vector(MEMORY[d], lanes)}, ptr {p}, align {d.itemsize}")
            out.append(self.c.op(f"trunc {vector('i8', lanes)} {x} to {vector('i1', lanes)}") if d == BOOL else x)
        return out

    def store(self, slot: str | int, element: int, lanes: int, values: Sequence[str]) -> None:
        for array, d, v in zip(self.arrays, self.dtypes, values, strict=True):
            p = self._at(array, d, slot, element)
            x = self.c.to_memory(d, v, lanes)
            self.c.say(f"store {vector(MEMORY[d], lanes)} {x}, ptr {p}, align {d.itemsize}")

    def tree(self, folder: _Folder, n: str | int, most: int, elements: Sequence[int], lanes: int) -> None:
        """The halving tree over slots 0 .. n-1 (n <= most), for each vector at `elements`; the outcome is in slot 0."""
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
        for at in elements:
            self.store(i, at, lanes, folder.combine(self.load(i, at, lanes), self.load(j, at, lanes), lanes))
        c.close_loop(may_be_empty=isinstance(n, str))
        c.close_loop()


def run_stores(c: Code, stores: Sequence[Store], streaming: frozenset[Buffer] = frozenset()) -> None:
    """All values are known: the stores, in order. Two that interleave (complex numbers) become one."""
    k = 0
    pairs = tuple(range(0, 2 * c.lanes, 2))
    while k < len(stores):
        s = stores[k]
        t = stores[k + 1] if k + 1 < len(stores) else None
        stream = s.buffer in streaming and c.mask is None and s.guard is None
        if (
            t is not None
            and c.lanes > 1
            and t.buffer is s.buffer
            and t.guard is s.guard
            and t.offset == s.offset + 1
            and c.facts(s.offset).lanes == pairs
        ):
            c.store_pair(s.buffer, s.offset, (s.value, t.value), s.guard, stream)
            k += 2
        else:
            c.store(s.buffer, s.offset, s.value, s.guard, stream)
            k += 1


# ---- MapStage ----


def _map(c: Code, stage: MapStage, span: Range | None) -> None:
    variables = [v for v in stage.vars if v.extent != 1]
    if any(v.extent == 0 for v in variables):
        return
    roots = roots_of(stage.stores)
    written = stored_by(stage)
    dtypes = _dtypes(c, roots) | {b.dtype for b in written}
    masked = c.target.masked(_memory_dtypes(c, roots) | {b.dtype for b in written})
    vectorised = bool(variables) and not stage.sequential
    lanes = c.target.lanes(dtypes) if vectorised else 1
    if vectorised:
        n = variables[-1].extent
        lanes = min(lanes, power_above(n) if masked else power_above(n + 1) // 2)
    for v in variables[:-1] if lanes > 1 else variables:
        c.variables[v] = Bound(len(c.scopes), 0)
        c.variables[v].value = c.open_loop(0, v.extent) if span is None else c.open_loop(*span)
    if lanes == 1:
        inner = len(c.scopes) - 1 if variables else len(c.scopes)
        if not variables:
            c.open()
        c.begin(roots, 1, None, inner, written)
        c.run(c.order(roots))
        run_stores(c, stage.stores)
        if not variables:
            c.close()
        for _ in variables:
            c.close_loop(may_be_empty=span is not None)
        return
    v = variables[-1]
    depth = len(c.scopes)
    bound = c.variables[v] = Bound(depth, 0, lanes)

    def begin(width: int) -> list[Expr]:
        bound.align = width
        c.begin(roots, width, v if width > 1 else None, depth, written)
        return c.order(roots)

    order = begin(lanes)
    size = _body_size(c, order, depth)
    streamed = streaming(c, stage)

    def copy(at: str | int, mask: str | None) -> None:
        c.next_copy(v, at, mask)
        c.run(order)
        run_stores(c, stage.stores, streamed)

    def single(at: str | int) -> None:
        c.next_copy(v, at)
        c.run(order)
        run_stores(c, stage.stores)

    def scalars() -> None:
        nonlocal order
        order = begin(1)

    vector_loop(c, span if span is not None else (0, v.extent), lanes, size, masked, copy, single, scalars)
    for _ in variables[:-1]:
        c.close_loop()


def _memory_dtypes(c: Code, roots: Sequence[Expr]) -> set[np.dtype]:
    return {e.dtype for e in c.nodes(roots) if e.op == "load"}


def streaming(c: Code, stage: MapStage) -> frozenset[Buffer]:
    """Outputs so large that no cache would keep them, written in whole aligned vectors: their stores bypass the caches."""
    total = sum(s.buffer.size * s.buffer.dtype.itemsize for s in stage.stores)
    if total < STREAM_BYTES:
        return frozenset()
    loaded = {e.attr[0] for e in c.nodes(roots_of(stage.stores)) if e.op == "load"}

    def aligned(s: Store) -> bool:
        pairs = tuple(range(0, 2 * c.lanes, 2))
        step = 2 if c.facts(s.offset).lanes == pairs else 1
        if c.facts(s.offset).lanes != tuple(range(0, step * c.lanes, step)):
            return False
        return s.offset.const % (step * c.lanes) in range(step) and all(
            isinstance(a, LoopVar) and k * c.variables[a].align % (step * c.lanes) == 0 for a, k in s.offset.terms
        )

    return frozenset(s.buffer for s in stage.stores if s.buffer not in loaded and all(aligned(t) for t in stage.stores if t.buffer is s.buffer))


def unrolling(size: int) -> int:
    """Vectors in one iteration of a loop."""
    return 4 if size <= 12 else 2 if size <= 32 else 1


def vector_loop(
    c: Code, span: Range, lanes: int, size: int, masked: bool,
    copy: Callable[[str | int, str | None], None], single: Callable[[str | int], None], scalars: Callable[[], None],
) -> None:  # fmt: skip
    """Covers [start, end): `copy(at, mask)` writes one vector, `single(at)` one element after `scalars()` has switched to them."""
    start, end = span
    unroll = unrolling(size)
    if isinstance(start, int) and isinstance(end, int):
        whole, rest = divmod(end - start, lanes)
        if whole <= unroll:
            c.open()
            for k in range(whole):
                copy(start + k * lanes, None)
            if rest and masked:
                copy(start + whole * lanes, c.tail_mask(rest))
            c.close()
            _singles(c, start + whole * lanes, end if not masked else start + whole * lanes, single, scalars)
            return
        if rest and masked and size > LONG_BODY:
            _masked_loop(c, span, end - start, lanes, copy)
            return
        while whole % unroll and unroll > 1 and whole < 16:
            unroll //= 2
        main = whole // unroll * unroll
        _main_loop(c, (start, start + main * lanes), lanes, unroll, copy)
        at = start + main * lanes
        if whole > main or rest and masked:
            c.open()
            for _ in range(whole - main):
                copy(at, None)
                at += lanes
            if rest and masked:
                copy(at, c.tail_mask(rest))
            c.close()
        if not masked:
            _singles(c, at, end, single, scalars)
        return
    unroll = min(unroll, FLAT_UNIT // lanes)
    length = c.op(f"sub i64 {end}, {start}")
    whole_length = c.op(f"and i64 {length}, {-unroll * lanes}")
    main_end = c.op(f"add i64 {start}, {whole_length}")
    _main_loop(c, (start, main_end), lanes, unroll, copy)
    if masked:
        _masked_loop(c, (main_end, end), unroll * lanes, lanes, copy)
    else:
        _singles(c, main_end, end, single, scalars)


def _main_loop(c: Code, span: Range, lanes: int, unroll: int, copy: Callable[[str | int, str | None], None]) -> None:
    v = c.open_loop(*span, unroll * lanes)
    for k in range(unroll):
        copy(_constant_or_op(c, "add", v, k * lanes), None)
        c.lines = c.scopes[-1].lines
    c.close_loop(may_be_empty=isinstance(span[1], str))


def _masked_loop(c: Code, span: Range, most: int, lanes: int, copy: Callable[[str | int, str | None], None]) -> None:
    """`most`: the span's elements at most."""
    v = c.open_loop(*span, lanes)
    left = c.op(f"sub i64 {span[1]}, {v}")
    copy(v, c.tail_mask(left, most=most))
    c.close_loop(may_be_empty=isinstance(span[1], str))


def _singles(c: Code, start: str | int, end: str | int, single: Callable[[str | int], None], scalars: Callable[[], None]) -> None:
    if start == end:
        return
    scalars()
    v = c.open_loop(start, end)
    single(v)
    c.close_loop(may_be_empty=isinstance(end, str))


# ---- RowReduce ----


@final
class _RowReducer:
    """Lanes are kept as vectors in registers if the body is short, else in memory."""

    def __init__(self, c: Code, stage: RowReduce) -> None:
        self.c, self.stage = c, stage
        self.folder = _Folder(c, stage.fold)
        self.n = stage.var.extent
        self.width = self.vectors = 0
        self.exist: str | int = 0  # lanes of the block at hand that have an element
        self.order: list[Expr] = []

    def emit(self) -> None:
        c, stage, folder, n = self.c, self.stage, self.folder, self.n
        depth = len(c.scopes) - 1
        if n == 0:
            self.bind(depth, folder.identity(1))
            return
        self.width = min(c.target.lanes(_dtypes(c, stage.elements)), power_above(min(n, LANES)))
        self.vectors = min(LANES, power_above(n)) // self.width
        blocks = -(-n // BLOCK)
        if stage.block is not None:
            c.begin([*index_values(stage.block)], 1, None, depth)
            c.run(c.order([*index_values(stage.block)]))
            base = _constant_or_op(c, "mul", c.scalar(stage.block), BLOCK)
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
        return min(BLOCK, self.n - base) if isinstance(base, int) else _least(self.c, self.c.op(f"sub i64 {self.n}, {base}"), BLOCK)

    def block(self, base: str | int, m: str | int) -> list[str]:
        """The m elements from position `base` on, a multiple of BLOCK: one block's outcome. Present scope: the parent of what is opened here."""
        c, var = self.c, self.stage.var
        depth = len(c.scopes)
        c.variables[var] = Bound(depth, base, self.width)
        c.begin(self.stage.elements, self.width, var if self.width > 1 else None, depth)
        self.order = c.order(self.stage.elements)
        last = self.n % BLOCK or BLOCK  # elements of the last block
        self.exist = LANES if (self.n >= BLOCK and last >= LANES) else min(m, LANES) if isinstance(m, int) else _least(c, m, LANES)
        size = _body_size(c, self.order, depth) + len(self.folder.nodes) // 2
        chunks = -(-min(self.n, LANES) // self.width)
        if size <= ROW_BODY or chunks == 1 and self.n <= LANES or self.n <= LANES and size * chunks <= LONG_BODY:
            vectors = self.in_registers(base, m, last)
        else:
            vectors = self.in_memory(base, m)
        return self.lanes_tree(vectors)

    def elements(self, at: str | int, mask: str | None) -> list[str]:
        c = self.c
        c.next_copy(self.stage.var, at, mask)
        c.run(self.order)
        out = [c.vector_of(e) for e in self.stage.elements]
        c.lines = c.scopes[-1].lines
        return out

    def in_registers(self, base: str | int, m: str | int, last: int) -> list[list[str]]:
        c, folder, width = self.c, self.folder, self.width
        constant_m = isinstance(m, int)
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
            at = _constant_or_op(c, "add", base, j * width)
            vectors.append(self.elements(at, mask))
        c.close()
        rows: str | int = m // LANES if constant_m else c.op(f"lshr i64 {m}, {LANES.bit_length() - 1}")
        if not (constant_m and rows <= 1):
            carried = [[c.name() for _ in x] for x in vectors]
            end = _constant_or_op(c, "mul", rows, LANES)
            r = c.open_loop(LANES, end, LANES)
            following = self.row(base, r, carried)
            c.close_loop(self.phis(carried, vectors, following), may_be_empty=not constant_m)
            vectors = following if constant_m else carried
        rest = last % LANES
        if rest and not (constant_m and m < LANES):
            c.open()
            done = m - m % LANES if constant_m else self.rows_done(m)
            for j in range(len(vectors)):
                if isinstance(done, int):
                    left: str | int = m - done - j * width
                    if left <= 0:
                        break
                    mask = c.tail_mask(left) if left < width else None
                else:
                    mask = c.tail_mask(c.op(f"sub i64 {c.op(f'sub i64 {m}, {done}')}, {j * width}"))
                at = _constant_or_op(c, "add", self.plus(base, done), j * width)
                new = folder.combine(vectors[j], self.elements(at, mask), width)
                vectors[j] = folder.choose(mask, new, vectors[j], width)
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
        out = []
        for j, acc in enumerate(accs):
            at = _constant_or_op(c, "add", start, j * self.width)
            out.append(self.folder.combine(acc, self.elements(at, None), self.width))
        return out

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
        count = _constant_or_op(c, "sub", self.exist, start)
        if lanes == 1:
            return "true" if isinstance(count, int) else c.op(f"icmp sgt i64 {count}, 0")
        saved, c.lanes = c.lanes, lanes
        mask = c.tail_mask(count)
        c.lanes = saved
        return mask


# ---- TreeReduce ----


def _tree(c: Code, stage: TreeReduce) -> None:
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
            tile([_constant_or_op(c, "add", v, k * lanes) for k in range(count)], lanes, None)
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
        tile([_constant_or_op(c, "add", v, k * lanes) for k in range(most)], lanes, None)
        c.close_loop(may_be_empty=True)
        start = main_end
        dynamic = True
    width = lanes if masked else 1
    v = c.open_loop(start, end, width)
    mask = c.tail_mask(c.op(f"sub i64 {end}, {v}"), width, lane.extent) if masked else None
    tile([v], width, mask)
    c.close_loop(may_be_empty=dynamic)


def _columns(c: Code, stage: ColReduce, span: Range | None) -> None:
    lane, var, n = stage.lane, stage.var, stage.var.extent
    if lane.extent == 0:
        return
    folder = _Folder(c, stage.fold)
    store_roots, written = roots_of(stage.stores), stored_by(stage)
    memory = _memory_dtypes(c, [*stage.elements, *store_roots]) | {b.dtype for b in written}
    masked = c.target.masked(memory)
    lanes = min(c.target.lanes(_dtypes(c, stage.elements)), power_above(lane.extent) if masked else power_above(lane.extent + 1) // 2)
    size = len(c.nodes(stage.elements)) + len(folder.nodes)
    depth = len(c.scopes)
    most = column_vectors(size, lanes)

    def tile(starts: Sequence[str | int], width: int, mask: str | None) -> None:
        c.variables[lane] = Bound(depth, starts[0], width)
        vector_variable = lane if width > 1 else None
        memos: list[dict] = [{} for _ in starts]

        def at(j: int) -> None:
            c.switch_copy(lane, starts[j], memos[j], mask)

        if n == 0:
            outcome = [folder.identity(width) for _ in starts]
        elif n <= UNROLLED and n * size * len(starts) <= 2 * LONG_BODY:
            outcome = _columns_in_registers(c, stage, folder, starts, width, vector_variable, depth, at)
        else:
            outcome = _columns_in_memory(c, stage, folder, starts, width, vector_variable, depth, at, size)
        for name in stage.locals:
            c.locals[name] = depth, "", width > 1
        c.begin(store_roots, width, vector_variable, depth, written)
        order = c.order(store_roots)
        for j in range(len(starts)):
            at(j)
            values = outcome[j] if n == 0 else folder.finish(outcome[j], width)
            for name, v in zip(stage.locals, values, strict=True):
                c.locals[name] = depth, v, width > 1
            c.run(order)
            run_stores(c, stage.stores)
        c.lines = c.scopes[-1].lines

    _tiles(c, lane, span, lanes, most, masked, tile)


def column_vectors(size: int, lanes: int) -> int:
    """Neighbouring vectors reduced side by side: long stretches of memory for short bodies."""
    return max(1, min(8 if size <= 8 else 4 if size <= 24 else 2, COLUMN_UNIT // lanes))


def _columns_in_registers(
    c: Code, stage: ColReduce, folder: _Folder, starts: Sequence[str | int], width: int, vector_variable: LoopVar | None, depth: int, at: Callable[[int], None]
) -> list[list[str]]:  # fmt: skip
    """A short column, written out: the tree bottom up, so that few partial results are alive."""
    var, n = stage.var, stage.var.extent
    c.variables[var] = Bound(depth + 1, 0)
    c.begin(stage.elements, width, vector_variable, depth + 1)
    order = c.order(stage.elements)
    top = power_above(n)

    def subtree(i: int, step: int) -> list[str]:
        if step == top:
            c.variables[var].value = i
            c.open()
            c.run(order)
            out = [c.vector_of(e) for e in stage.elements]
            c.close()
            return out
        left = subtree(i, 2 * step)
        return folder.combine(left, subtree(i + step, 2 * step), width) if i + step < n else left

    outcome = []
    for j in range(len(starts)):
        at(j)
        outcome.append(subtree(0, 1))
    return outcome


def _columns_in_memory(
    c: Code, stage: ColReduce, folder: _Folder, starts: Sequence[str | int], width: int, vector_variable: LoopVar | None, depth: int, at: Callable[[int], None], size: int
) -> list[list[str]]:  # fmt: skip
    """LANES accumulators for each lane of the tile, in memory; rows in ascending order, so that memory is read in stretches."""
    var, n = stage.var, stage.var.extent
    count = len(starts)
    blocks = -(-n // BLOCK)
    several = blocks > 1
    tile_width = count * width
    slots = _Slots(c, folder.dtypes, min(n, LANES), tile_width)
    partial = _Slots(c, folder.dtypes, blocks, tile_width) if several else slots
    elements_at = [j * width for j in range(count)]
    base: str | int = 0
    m: str | int = n
    b = ""
    if several:
        b = c.open_loop(0, blocks)
        base = c.op(f"mul i64 {b}, {BLOCK}")
        m = BLOCK if n % BLOCK == 0 else _least(c, c.op(f"sub i64 {n}, {base}"), BLOCK)
    first_rows = _least(c, m, LANES)
    inner = len(c.scopes)
    c.variables[var] = Bound(inner, 0)

    def rows(start: str | int, end: str | int, may_be_empty: bool, work: Callable[[str, int, list[str]], None]) -> None:
        r = c.open_loop(start, end)
        c.variables[var].value = r if base == 0 else c.op(f"add i64 {base}, {r}")
        c.begin(stage.elements, width, vector_variable, inner)
        order = c.order(stage.elements)
        for j in range(count):
            at(j)
            c.run(order)
            values = [c.vector_of(e) for e in stage.elements]
            c.lines = c.scopes[-1].lines
            work(r, j, values)
        c.close_loop(may_be_empty=may_be_empty)

    def keep(r: str, j: int, values: list[str]) -> None:
        slots.store(r, elements_at[j], width, values)

    def add(r: str, j: int, values: list[str]) -> None:
        slot = c.op(f"and i64 {r}, {LANES - 1}")
        old = slots.load(slot, elements_at[j], width)
        slots.store(slot, elements_at[j], width, folder.combine(old, values, width))

    def keep_or_add(r: str, j: int, values: list[str]) -> None:
        slot = c.op(f"and i64 {r}, {LANES - 1}")
        old = slots.load(slot, elements_at[j], width)
        first = c.splat(c.op(f"icmp slt i64 {r}, {LANES}"), "i1", width)
        new = folder.choose(first, values, folder.combine(old, values, width), width)
        slots.store(slot, elements_at[j], width, new)

    if n > LANES and size > 2 * ROW_BODY:
        rows(0, m, False, keep_or_add)
    else:
        rows(0, first_rows, False, keep)
        if n > LANES:
            rows(LANES, m, isinstance(m, str), add)
    slots.tree(folder, first_rows, min(n, LANES), elements_at, width)
    if several:
        for e in elements_at:
            partial.store(b, e, width, slots.load(0, e, width))
        c.close_loop()
        partial.tree(folder, blocks, blocks, elements_at, width)
    return [partial.load(0, e, width) for e in elements_at]


def _cumulate(c: Code, stage: Cumulate, span: Range | None) -> None:
    lane, var, n = stage.lane, stage.var, stage.var.extent
    if n == 0 or lane is not None and lane.extent == 0:
        return
    folder = _Folder(c, stage.fold)
    written = stored_by(stage)
    roots = [*stage.elements, *roots_of(stage.stores)]
    depth = len(c.scopes)

    def tile(starts: Sequence[str | int], width: int, mask: str | None) -> None:
        vector_variable = lane if width > 1 else None
        if lane is not None:
            c.variables[lane] = Bound(depth, starts[0], width)
        memos: list[dict] = [{} for _ in starts]
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
    masked = c.target.masked(_memory_dtypes(c, roots) | {b.dtype for b in written})
    lanes = min(c.target.lanes(_dtypes(c, roots)), power_above(lane.extent) if masked else power_above(lane.extent + 1) // 2)
    size = len(c.nodes(roots)) + len(folder.nodes)
    _tiles(c, lane, span, lanes, min(4, column_vectors(size, lanes)), masked, tile)


__all__ = ["LANES", "constant", "emit_stage", "loaded_by", "stored_by", "unrolling", "vector_loop"]
