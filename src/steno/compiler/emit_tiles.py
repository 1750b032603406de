"""Maps that read across their vectors, tile by tile.

    for i: for j: out[i, j] = f(x[j, i], ...)  -->  for tiles of W x W: x's rows are read along i, turned in registers into a small array,
                                                    and the body reads that along j

so that each cache line of x is read whole and once, instead of one element of it at a time. Some tiles side by side along i are done
together: memory likes neighbouring lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from steno.compiler.emit_code import Code
from steno.compiler.emit_maps import lane_dtypes, roots_of, run_stores, stored_by, streaming
from steno.compiler.emit_ops import MEMORY, vector
from steno.compiler.emit_scopes import Bound
from steno.compiler.target import Target
from steno.ir.expr import Expr, topological
from steno.ir.index import LoopVar
from steno.ir.loops import Kernel, MapStage

LINE = 64  # bytes
MOST_LANES, MOST_GROUP = 16, 4


@final
@dataclass(frozen=True)
class Tiling:
    """`loads` run across `along` (the vector loop) and with `across` (the innermost outer loop)."""

    stage: MapStage
    across: LoopVar
    along: LoopVar
    loads: tuple[Expr, ...]
    lanes: int
    group: int  # tiles side by side
    once: bool  # an element may be read and written in one memory, so it may not be computed twice

    @property
    def strips(self) -> int:
        return -(-self.across.extent // (self.lanes * self.group))


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
    across, along = outer[-1], stage.vars[0]
    nodes = topological(roots_of(stage.stores))
    lanes = min(MOST_LANES, target.lanes(lane_dtypes(nodes) | {s.buffer.dtype for s in stage.stores}))
    loads = tuple(e for e in nodes if e.op == "load" and crosses(e, across, along))
    if not loads or min(across.extent, along.extent) < lanes or stored_by(stage) & {e.attr[0] for e in nodes if e.op == "load"}:
        return None
    group = MOST_GROUP
    while group * lanes > across.extent:
        group //= 2
    places = {s.offset for s in stage.stores}
    once = any(e.op == "load" and e.attr[1] in places for e in nodes)
    return Tiling(stage, across, along, loads, lanes, group, once)


def crosses(e: Expr, across: LoopVar, along: LoopVar) -> bool:
    """Whether a load's neighbours in memory are those along `across`, far from each other along `along`."""
    buffer, offset, guard = e.attr
    plain = guard is None and all(isinstance(a, LoopVar) for a, _ in offset.terms)
    return plain and offset.coefficient(across) == 1 and abs(offset.coefficient(along)) * buffer.dtype.itemsize >= LINE


def emit_tiles(c: Code, tiling: Tiling, strip: str) -> None:
    """The tiles of one strip along `across`. The last ones overlap their neighbours, or are masked if `once`."""
    stage, across, along, lanes = tiling.stage, tiling.across, tiling.along, tiling.lanes
    width = lanes * tiling.group
    left = c.op(f"mul i64 {strip}, {width}")
    if not tiling.once and across.extent % width:
        left = c.call("smin", "i64", 1, (left, str(across.extent - width)))
    arrays = [c.alloca(MEMORY[e.dtype], lanes * lanes) for e in tiling.loads]
    depth = len(c.scopes) + 1
    step = c.open_loop(0, along.extent, lanes)
    rest = along.extent % lanes
    start = c.call("smin", "i64", 1, (step, str(along.extent - lanes))) if rest and not tiling.once else step
    end: str | int = width
    if tiling.once and across.extent % width:
        end = c.call("smin", "i64", 1, (c.op(f"sub i64 {across.extent}, {left}"), str(width)))
    g = c.open_loop(0, end, lanes)
    first = c.op(f"add i64 {left}, {g}")
    for e, array in zip(tiling.loads, arrays, strict=True):
        _turn(c, e, array, tiling, first, start, depth)
    c.variables[along] = Bound(depth - 1, start, 1 if rest and not tiling.once else lanes)
    mask = c.tail_mask(c.op(f"sub i64 {along.extent}, {start}"), lanes, along.extent) if rest and tiling.once else None
    rows: str | int = lanes
    if tiling.once and across.extent % lanes:
        rows = c.call("smin", "i64", 1, (c.op(f"sub i64 {across.extent}, {first}"), str(lanes)))
    m = c.open_loop(0, rows)
    c.variables[across] = Bound(depth + 1, c.op(f"add i64 {first}, {m}"))
    roots = roots_of(stage.stores)
    c.begin(roots, lanes, along, depth + 1, stored_by(stage))
    c.mask = mask
    row = c.op(f"mul i64 {m}, {lanes}")
    for e, array in zip(tiling.loads, arrays, strict=True):
        t = MEMORY[e.dtype]
        p = c.op(f"getelementptr {t}, ptr {array}, i64 {row}")
        x = c.op(f"load {vector(t, lanes)}, ptr {p}, align {e.dtype.itemsize}")
        c.scopes[depth + 1].memo[e] = c.from_memory(e.dtype, x, lanes)
    c.run(c.order(roots))
    run_stores(c, stage.stores, streaming(c, stage))
    c.close_loop()
    c.close_loop()
    c.close_loop()


def _turn(c: Code, e: Expr, array: str, tiling: Tiling, first: str, start: str, depth: int) -> None:
    """The tile of a load, transposed (Eklundh 1972: log2(W) rounds of exchanging half blocks), into `array`."""
    buffer, offset, _ = e.attr
    across, along, lanes, t = tiling.across, tiling.along, tiling.lanes, MEMORY[e.dtype]
    v = vector(t, lanes)
    c.variables[across], c.variables[along] = Bound(depth, first), Bound(depth, start)
    c.begin((), lanes, across, depth)
    stride = offset.coefficient(along)
    mask = None
    if tiling.once and across.extent % lanes:
        mask = c.tail_mask(c.op(f"sub i64 {across.extent}, {first}"), lanes, across.extent)
    origin = c.pointer(buffer, offset)
    c.lines = c.scopes[-1].lines
    rows = []
    for k in range(lanes):
        p = origin
        if k and tiling.once and along.extent % lanes:  # rows that do not exist: the last one again
            row = c.call("smin", "i64", 1, (c.op(f"sub i64 {along.extent - 1}, {start}"), str(k)))
            p = c.op(f"getelementptr {t}, ptr {origin}, i64 {c.op(f'mul i64 {row}, {stride}')}")
        elif k:
            p = c.op(f"getelementptr {t}, ptr {origin}, i64 {k * stride}")
        rows.append(c.vector_load(t, lanes, p, e.dtype.itemsize, mask))
    half = lanes // 2
    while half:
        low = [k if not k & half else lanes + k - half for k in range(lanes)]
        high = [k + half if not k & half else lanes + k for k in range(lanes)]
        for r in range(lanes):
            if not r & half:
                a, b = rows[r], rows[r + half]
                rows[r], rows[r + half] = (c.op(f"shufflevector {v} {a}, {v} {b}, {_mask(m)}") for m in (low, high))
        half //= 2
    for k, x in enumerate(rows):
        p = c.op(f"getelementptr {t}, ptr {array}, i64 {k * lanes}")
        c.say(f"store {v} {x}, ptr {p}, align {e.dtype.itemsize}")


def _mask(which: Sequence[int]) -> str:
    return f"<{len(which)} x i32> <" + ", ".join(f"i32 {k}" for k in which) + ">"


__all__ = ["Tiling", "emit_tiles", "find_tiling"]
