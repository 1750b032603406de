"""Maps that read across their vectors, tile by tile.

    for i: for j: out[i, j] = f(x[j, i], ...)  -->  for tiles of H x W: x's rows are read along i, turned in registers into a small array,
                                                    and the body reads that along j

so that each cache line of x is read whole and once, instead of one element of it at a time, and those of `out` are written whole. i may be
any of the outer loops, or several that step through x without gaps. Some tiles side by side along i are done together, and each writes
several lines of a row one after the other: memory likes neighbouring lines, above all if rows are powers of two apart, which caches keep
few lines of. Results too large for the caches bypass them, line by line.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from steno.compiler.emit_code import Code
from steno.compiler.emit_maps import STREAM_BYTES, lane_dtypes, roots_of, run_stores, stored_by, streaming
from steno.compiler.emit_ops import MEMORY, vector
from steno.compiler.emit_scopes import Bound
from steno.compiler.target import Target
from steno.ir.expr import Expr, topological
from steno.ir.index import LoopVar
from steno.ir.loops import Kernel, MapStage

LINE = 64  # bytes
LEAST_SIDE, MOST_SIDE = 4, 16  # of a square that is turned in registers
RUN = 32  # tiles one after the other, that a thread does at least
ENOUGH_STRIPS = 16  # of which the last may be partly empty
MOST_VECTORS, MOST_NODES = 4, 64  # of a row of a tile, and of a body that is written so many times
FEW_TWICE = 1.125  # elements computed, the overlaps with them, for each one stored
STRIP_LINES = 4  # of a load, that the tiles side by side read


@final
@dataclass(frozen=True)
class Tiling:
    """`loads` run across `along` (the vector loop) and with `across` (some of the `outer` loops, the innermost first, as one). A tile is
    `side` by `columns`."""

    stage: MapStage
    outer: tuple[LoopVar, ...]
    across: tuple[LoopVar, ...]
    along: LoopVar
    loads: tuple[Expr, ...]
    side: int
    lanes: int
    columns: int  # some vectors of `lanes`
    group: int  # tiles side by side
    once: bool  # an element may be read and written in one memory, so it may not be computed twice

    @property
    def width(self) -> int:
        """Elements along `across` of the tiles side by side."""
        return self.side * self.group

    @property
    def extent(self) -> int:
        """Of `across`."""
        return math.prod(v.extent for v in self.across)

    @property
    def loops(self) -> list[tuple[LoopVar, int]]:
        """The outer loops of the function, with their extents; that of `across` counts strips, that of `along` runs of tiles."""
        first, *others = self.across
        strips, runs = -(-self.extent // self.width), -(-self.along.extent // (RUN * self.lanes))
        return [*((v, strips if v is first else v.extent) for v in self.outer if v not in others), (self.along, runs)]


def find_tiling(kernel: Kernel, target: Target) -> Tiling | None:
    """The tiling of a kernel that is one map with loads across its vectors; None for others."""
    outer = [v for v in kernel.outer if v.extent != 1]
    if not outer or len(kernel.stages) != 1:
        return None
    stage = kernel.stages[0]
    if (
        not isinstance(stage, MapStage)
        or stage.serial
        or [v for v in stage.vars if v.extent != 1] != list(stage.vars)
        or len(stage.vars) != 1
    ):
        return None
    along = stage.vars[0]
    nodes = topological(roots_of(stage.stores))
    read = [e for e in nodes if e.op == "load"]
    # Most loads decide; among equals the innermost loop.
    first = max(reversed(outer), key=lambda v: sum(crosses(e, v, along) for e in read))
    loads = tuple(e for e in read if crosses(e, first, along))
    lanes = target.lanes(lane_dtypes(nodes) | {s.buffer.dtype for s in stage.stores})
    while lanes > along.extent:
        lanes //= 2
    if not loads or stored_by(stage) & {e.attr[0] for e in read}:
        return None
    side = min(MOST_SIDE, lanes)
    group = max(STRIP_LINES * LINE // (side * max(e.dtype.itemsize for e in loads)), 1)
    across = _without_gaps(first, outer, loads, side * group)
    extent = math.prod(v.extent for v in across)
    while side > extent:
        side //= 2
    if side < LEAST_SIDE:
        return None
    while group * side > extent:
        group //= 2
    places = {s.offset for s in stage.stores}
    once = any(e.op == "load" and e.attr[1] in places for e in nodes)
    columns = lanes
    # What bypasses the caches is written line by line; else some lines of a row, one after the other.
    large = sum(s.buffer.size * s.buffer.dtype.itemsize for s in stage.stores) >= STREAM_BYTES
    most = min(MOST_VECTORS * lanes, along.extent) if len(nodes) <= MOST_NODES and not large else lanes
    while 2 * columns <= most and -(-along.extent // (2 * columns)) * 2 * columns <= along.extent * FEW_TWICE:
        columns *= 2
    return Tiling(stage, tuple(outer), across, along, loads, side, lanes, columns, group, once)


def _without_gaps(first: LoopVar, outer: Sequence[LoopVar], loads: Sequence[Expr], width: int) -> tuple[LoopVar, ...]:
    """The loop `first` and those that go on where it ends, in all loads, until strips of `width` elements fit them well."""
    across, extent = [first], first.extent
    while extent % width and extent < ENOUGH_STRIPS * width:
        following = [v for v in outer if v not in across and all(e.attr[1].coefficient(v) == extent for e in loads)]
        if not following:
            break
        across.append(following[0])
        extent *= following[0].extent
    return tuple(across)


def crosses(e: Expr, across: LoopVar, along: LoopVar) -> bool:
    """Whether a load's neighbours in memory are those along `across`, far from each other along `along`."""
    buffer, offset, guard = e.attr
    plain = guard is None and all(isinstance(a, LoopVar) for a, _ in offset.terms)
    return plain and offset.coefficient(across) == 1 and abs(offset.coefficient(along)) * buffer.dtype.itemsize >= LINE


def emit_tiles(c: Code, tiling: Tiling, strip: str, run: str) -> None:
    """The tiles of one strip along `across` and one run along `along`. The last ones overlap their neighbours, or are masked if `once`."""
    stage, along, side, lanes, width, extent = tiling.stage, tiling.along, tiling.side, tiling.lanes, tiling.width, tiling.extent
    left = c.op(f"mul i64 {strip}, {width}")
    if not tiling.once and extent % width:
        left = c.call("smin", "i64", 1, (left, str(extent - width)))
    columns = tiling.columns
    arrays = [c.alloca(MEMORY[e.dtype], side * columns) for e in tiling.loads]
    depth = len(c.scopes) + 1
    begin = c.op(f"mul i64 {run}, {RUN * lanes}")
    step = c.open_loop(begin, c.call("smin", "i64", 1, (c.op(f"add i64 {begin}, {RUN * lanes}"), str(along.extent))), columns)
    rest = along.extent % columns
    start = c.call("smin", "i64", 1, (step, str(along.extent - columns))) if rest and not tiling.once else step
    end: str | int = width
    if tiling.once and extent % width:
        end = c.call("smin", "i64", 1, (c.op(f"sub i64 {extent}, {left}"), str(width)))
    g = c.open_loop(0, end, side)
    first = c.op(f"add i64 {left}, {g}")
    _bind(c, tiling, first, depth)
    k = c.open_loop(0, columns, side) if columns > side else "0"
    c.variables[along] = Bound(len(c.scopes) - 1, c.op(f"add i64 {start}, {k}"))
    for e, array in zip(tiling.loads, arrays, strict=True):
        _turn(c, e, c.op(f"getelementptr {MEMORY[e.dtype]}, ptr {array}, i64 {k}"), tiling, first)
    if columns > side:
        c.close_loop()
    rows: str | int = side
    if tiling.once and extent % side:
        rows = c.call("smin", "i64", 1, (c.op(f"sub i64 {extent}, {first}"), str(side)))
    m = c.open_loop(0, rows)
    _bind(c, tiling, c.op(f"add i64 {first}, {m}"), depth + 1)
    c.variables[along] = Bound(depth + 1, start, 1 if rest and not tiling.once else lanes)
    roots = roots_of(stage.stores)
    c.begin(roots, lanes, along, depth + 1, stored_by(stage))
    row = c.op(f"mul i64 {m}, {columns}")
    for k in range(0, columns, lanes):
        here = c.op(f"add i64 {start}, {k}") if k else start
        mask = c.tail_mask(c.op(f"sub i64 {along.extent}, {here}"), lanes) if rest and tiling.once else None
        c.next_copy(along, here, mask)
        at = c.op(f"add i64 {row}, {k}") if k else row
        for e, array in zip(tiling.loads, arrays, strict=True):
            t = MEMORY[e.dtype]
            p = c.op(f"getelementptr {t}, ptr {array}, i64 {at}")
            x = c.op(f"load {vector(t, lanes)}, ptr {p}, align {e.dtype.itemsize}")
            c.scopes[depth + 1].memo[e] = c.from_memory(e.dtype, x, lanes)
        c.run(c.order(roots))
        run_stores(c, stage.stores, streaming(c, stage))
        c.lines = c.scopes[-1].lines
    c.close_loop()
    c.close_loop()
    c.close_loop()


def _bind(c: Code, tiling: Tiling, at: str, depth: int) -> None:
    """Binds the loops across to the place `at`."""
    for v in tiling.across[:-1]:
        c.variables[v] = Bound(depth, c.op(f"urem i64 {at}, {v.extent}"))
        at = c.op(f"udiv i64 {at}, {v.extent}")
    c.variables[tiling.across[-1]] = Bound(depth, at)


def _turn(c: Code, e: Expr, array: str, tiling: Tiling, first: str) -> None:
    """The square of a load's tile at the place that the loops are bound to, transposed (Eklundh 1972: log2(W) rounds of exchanging half
    blocks), into the columns that begin at `array`. `first`: the place along `across`."""
    buffer, offset, _ = e.attr
    along, side, t = tiling.along, tiling.side, MEMORY[e.dtype]
    v = vector(t, side)
    start = c.variables[along].value
    c.begin((), side, tiling.across[0], len(c.scopes) - 1)
    stride = offset.coefficient(along)
    mask = None
    if tiling.once and tiling.extent % side:
        mask = c.tail_mask(c.op(f"sub i64 {tiling.extent}, {first}"), side, tiling.extent)
    origin = c.pointer(buffer, offset)
    c.lines = c.scopes[-1].lines
    rows = []
    for k in range(side):
        p = origin
        if tiling.once and along.extent % tiling.columns:  # rows that do not exist: the last one again
            row = c.call("smin", "i64", 1, (c.op(f"sub i64 {along.extent - 1}, {start}"), str(k)))
            p = c.op(f"getelementptr {t}, ptr {origin}, i64 {c.op(f'mul i64 {row}, {stride}')}")
        elif k:
            p = c.op(f"getelementptr {t}, ptr {origin}, i64 {k * stride}")
        rows.append(c.vector_load(t, side, p, e.dtype.itemsize, mask))
    half = side // 2
    while half:
        low = [k if not k & half else side + k - half for k in range(side)]
        high = [k + half if not k & half else side + k for k in range(side)]
        for r in range(side):
            if not r & half:
                a, b = rows[r], rows[r + half]
                rows[r], rows[r + half] = (c.op(f"shufflevector {v} {a}, {v} {b}, {_mask(m)}") for m in (low, high))
        half //= 2
    for k, x in enumerate(rows):
        p = c.op(f"getelementptr {t}, ptr {array}, i64 {k * tiling.columns}")
        c.say(f"store {v} {x}, ptr {p}, align {e.dtype.itemsize}")


def _mask(which: Sequence[int]) -> str:
    return f"<{len(which)} x i32> <" + ", ".join(f"i32 {k}" for k in which) + ">"


__all__ = ["Tiling", "emit_tiles", "find_tiling"]
