"""Maps whose memory interleaves short axes: their loops are unrolled inside a vector loop along a long one.

    for i: for j < 3: out[3*i + j] = f(j, x[3*i + 2 - j], ...)
        -->  for vectors of i: x's three vectors are read and taken apart, f(0, ...), f(1, ...), f(2, ...) computed, interleaved and stored

so that every vector is full, every access is one of neighbours, and what depends on j only (which operand of a stack, which product of a
cross product) is decided while compiling. Also where only the loads or only the stores interleave: transposes of short axes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import final

from steno.compiler.emit_code import Code
from steno.compiler.emit_maps import STREAM_BYTES, lane_dtypes, roots_of, stored_by
from steno.compiler.emit_ops import MEMORY, vector
from steno.compiler.emit_scopes import Bound
from steno.compiler.loop_rewrites import divisor_of, reindexed, rewrite, split
from steno.compiler.target import Target
from steno.ir.expr import Builder, Expr, index_values, topological
from steno.ir.index import Atom, FloorDiv, Index, LoopVar, Mod, Value
from steno.ir.loops import Buffer, Kernel, MapStage, Store

MOST_STRIDE = 16  # elements that interleave
MOST_NODES = 400  # of all copies of a body
LEAST_LANES = 4
STRIP = 1024  # of the long axis, that threads share out


@final
@dataclass(frozen=True)
class Interleaving:
    """`along`: the vector loop. `outer`: the other loops that stay. `groups`: the stores whose vectors interleave, in the order of their
    places, each of as many as their stride."""

    along: LoopVar
    outer: tuple[LoopVar, ...]
    stores: tuple[Store, ...]
    groups: tuple[tuple[Store, ...], ...]
    lanes: int
    once: bool  # an element may be read and written in one memory, so it may not be computed twice

    @property
    def loops(self) -> list[tuple[LoopVar, int]]:
        """The outer loops of the function, with their extents; that of `along` counts strips."""
        return [*((v, v.extent) for v in self.outer), (self.along, -(-self.along.extent // STRIP))]


def find_interleaving(kernel: Kernel, target: Target) -> Interleaving | None:
    """How to unroll short loops of a kernel that is one map, if that makes strided accesses contiguous."""
    if len(kernel.stages) != 1:
        return None
    (stage,) = kernel.stages
    loops = [v for v in kernel.outer if v.extent != 1]
    if not isinstance(stage, MapStage) or stage.serial or any(s.guard is not None for s in stage.stores):
        return None
    d = divisor_of(stage) if stage.vars else None
    if d is not None and 1 < d <= MOST_STRIDE and stage.vars[-1].extent > d:  # elements in groups of d
        over, stage = split(Builder(), stage, d)
        loops.append(over)
    loops += [v for v in stage.vars if v.extent != 1]
    if len(loops) < 2 or not all(v.extent for v in loops):
        return None
    roots = roots_of(stage.stores)
    nodes = topological(roots)
    places = [s.offset for s in stage.stores]
    offsets = [*places, *(e.attr[1] for e in nodes if e.op == "load")]
    if any(e.op == "rare" for e in nodes) or stored_by(stage) & {e.attr[0] for e in nodes if e.op == "load"}:
        return None
    lanes = target.lanes(lane_dtypes(nodes) | {s.buffer.dtype for s in stage.stores})
    for along in sorted(loops, key=lambda v: -v.extent):
        short = _short_axes(loops, along, places, offsets)
        copies = math.prod(v.extent for v in short)
        if not short or copies * len(nodes) > MOST_NODES or any(e.op == "index" and _is_in_atoms(e.attr, along) for e in nodes):
            continue
        stores = tuple(_copies(stage.stores, short))
        groups = _groups(stores, along)
        while lanes > along.extent:
            lanes //= 2
        if groups is None or lanes < LEAST_LANES or _guards_neighbours(stores, along):
            continue
        once = any(e.op == "load" and e.attr[1] in places for e in nodes)
        return Interleaving(along, tuple(v for v in loops if v is not along and v not in short), stores, groups, lanes, once)
    return None


def _short_axes(loops: Sequence[LoopVar], along: LoopVar, places: Sequence[Index], offsets: Sequence[Index]) -> list[LoopVar]:
    """The loops that step between the neighbours along `along` of some access; none if an access could not be done in whole vectors."""
    found: dict[LoopVar, None] = {}
    for i in offsets:
        stride = abs(i.coefficient(along))
        if stride > MOST_STRIDE or _is_in_atoms(i, along):
            return []
        if stride > 1:
            found |= dict.fromkeys(v for v in loops if 0 < abs(i.coefficient(v)) < stride)
    if any(i.coefficient(along) < 1 for i in places) or math.prod(v.extent for v in found) > MOST_STRIDE:
        return []
    return list(found)


def _is_in_atoms(i: Index, v: LoopVar) -> bool:
    """Whether `v` is inside a division or a value of the index."""
    return any(_uses(a, v) for a, _ in i.terms if not isinstance(a, LoopVar))


def _uses(a: Atom, v: LoopVar) -> bool:
    if isinstance(a, LoopVar):
        return a is v
    if isinstance(a, Value):
        inside = (e.attr[1] if e.op == "load" else e.attr for e in topological((a.expr,)) if e.op in ("load", "index"))
        return any(_uses(x, v) for i in inside for x, _ in i.terms)
    assert isinstance(a, FloorDiv | Mod)
    return any(_uses(x, v) for x, _ in a.index.terms)


def _copies(stores: Sequence[Store], short: Sequence[LoopVar]) -> Iterator[Store]:
    """The stores at every point of the short loops."""
    b = Builder()
    roots = roots_of(stores)
    for point in product(*(range(v.extent) for v in short)):
        place: dict[Atom, Index] = {v: Index(k) for v, k in zip(short, point, strict=True)}

        def change(i: Index, place: dict[Atom, Index] = place) -> Index:
            return i.substitute(place)

        new = rewrite(b, roots, change, lambda buffer, i: (buffer, i))
        for s in stores:
            yield Store(s.buffer, reindexed(s.offset, change, new), new[s.value])


def _groups(stores: Sequence[Store], along: LoopVar) -> tuple[tuple[Store, ...], ...] | None:
    """Stores to neighbouring places, as many as their stride; None if some have no such neighbours."""
    kinds: dict[tuple[Buffer, Index], list[Store]] = {}
    for s in stores:
        kinds.setdefault((s.buffer, s.offset - s.offset.const), []).append(s)
    out = []
    for (_, offset), members in kinds.items():
        stride = offset.coefficient(along)
        members.sort(key=lambda s: s.offset.const)
        for k in range(0, len(members), stride):
            group = tuple(members[k : k + stride])
            first = group[0].offset.const
            if [s.offset.const for s in group] != list(range(first, first + stride)):
                return None
            out.append(group)
    return tuple(out)


def _guards_neighbours(stores: Sequence[Store], along: LoopVar) -> bool:
    """Whether a guard is left on a load that is not of neighbours along `along`: it would be done lane by lane."""
    loads = (e.attr for e in topological(roots_of(stores)) if e.op == "load")
    return any(guard is not None and abs(offset.coefficient(along)) > 1 for _, offset, guard in loads)


def emit_interleaved(c: Code, plan: Interleaving, strip: str) -> None:
    """The vectors of one strip. The last one overlaps its neighbour, or is masked if elements may be computed once only."""
    along, lanes = plan.along, plan.lanes
    start = c.op(f"mul i64 {strip}, {STRIP}")
    end: str | int = c.call("smin", "i64", 1, (c.op(f"add i64 {start}, {STRIP}"), str(along.extent)))
    rest = along.extent % lanes
    if not plan.once or not rest:
        at = c.open_loop(start, end, lanes)
        _emit_vector(c, plan, c.call("smin", "i64", 1, (at, str(along.extent - lanes))) if rest else at, None)
        c.close_loop()
        return
    whole = along.extent - rest
    at = c.open_loop(start, c.call("smin", "i64", 1, (end, str(whole))), lanes)
    _emit_vector(c, plan, at, None)
    c.close_loop(may_be_empty=True)
    at = c.open_loop(c.call("smax", "i64", 1, (start, str(whole))), end, lanes)
    _emit_vector(c, plan, at, rest)
    c.close_loop(may_be_empty=True)


def _emit_vector(c: Code, plan: Interleaving, at: str, rest: int | None) -> None:
    """All copies of the body at one vector, of which `rest` lanes exist, or all."""
    along, lanes = plan.along, plan.lanes
    depth = len(c.scopes) - 1
    c.variables[along] = Bound(depth, at, 1 if along.extent % lanes else lanes)
    roots = roots_of(plan.stores)
    c.begin(roots, lanes, along, depth, frozenset(s.buffer for s in plan.stores))
    c.mask = None if rest is None else c.tail_mask(rest)
    if rest is None:
        _take_apart(c, roots, along)
    c.run(c.order(roots))
    values = [[c.vector_of(s.value) for s in group] for group in plan.groups]
    c.lines = c.scopes[-1].lines
    total = sum(s.buffer.size * s.buffer.dtype.itemsize for s in {s.buffer: s for s in plan.stores}.values())
    for group, xs in zip(plan.groups, values, strict=True):
        first = group[0]
        t, bytes_ = MEMORY[first.buffer.dtype], first.buffer.dtype.itemsize
        vectors = _interleaved(c, t, [c.to_memory(first.buffer.dtype, x, lanes) for x in xs])
        p = c.pointer(first.buffer, first.offset)
        c.lines = c.scopes[-1].lines
        others = (first.offset.const, *(k for a, k in first.offset.terms if a is not along))
        aligned = first.buffer.aligned and not along.extent % lanes and not any(k % lanes for k in others)
        for k, x in enumerate(vectors):
            mask = None if rest is None else c.tail_mask(max(rest * len(xs) - k * lanes, 0))
            q = c.op(f"getelementptr {t}, ptr {p}, i64 {k * lanes}") if k else p
            c.vector_store(t, lanes, x, q, bytes_, mask, aligned and total >= STREAM_BYTES)


def _take_apart(c: Code, roots: Sequence[Expr], along: LoopVar) -> None:
    """Loads whose neighbours along `along` are some elements apart: what lies between is read with them, in whole vectors."""
    depth, lanes = len(c.scopes) - 1, c.lanes
    known: dict[tuple[Buffer, Index, int], list[str]] = {}
    for e in c.nodes(roots):
        if e.op != "load":
            continue
        buffer, offset, guard = e.attr
        stride = offset.coefficient(along)
        n = abs(stride)
        if n < 2 or guard is not None or c.depth[e] != depth:
            continue
        k = offset.const % n
        start = offset - k  # of the first lane's neighbours
        if start.lo < 0 or start.hi + n > buffer.size:
            continue
        t = MEMORY[e.dtype]
        key = (buffer, start, n)
        if key not in known:
            c.run(c.order(list(index_values(start))))
            p = c.pointer(buffer, start if stride > 0 else start - n * (lanes - 1))
            c.lines = c.scopes[depth].lines
            parts = []
            for m in range(n):
                q = c.op(f"getelementptr {t}, ptr {p}, i64 {m * lanes}") if m else p
                parts.append(c.vector_load(t, lanes, q, e.dtype.itemsize, None))
            parts = _taken_apart(c, t, parts)
            known[key] = parts if stride > 0 else [c.shuffle(x, t, lanes, range(lanes - 1, -1, -1)) for x in parts]
        c.scopes[depth].memo[e] = c.from_memory(e.dtype, known[key][k], lanes)


def _factor(n: int) -> int:
    return next(p for p in range(2, n + 1) if n % p == 0)


def _taken_apart(c: Code, t: str, parts: Sequence[str]) -> list[str]:
    """n vectors of neighbours -> n vectors of every n-th, a prime factor of n at a time: as a mixed-radix FFT permutes its input, in
    (sum of the factors - their number) shuffles for each vector."""
    n, lanes = len(parts), c.lanes
    if n == 1:
        return list(parts)
    p = _factor(n)
    apart = [[_picked(c, t, parts[g : g + p], [p * lane + r for lane in range(lanes)]) for g in range(0, n, p)] for r in range(p)]
    out = [""] * n
    for r, every in enumerate(apart):
        out[r::p] = _taken_apart(c, t, every)
    return out


def _interleaved(c: Code, t: str, parts: Sequence[str]) -> list[str]:
    """The inverse of `_taken_apart`."""
    n, lanes = len(parts), c.lanes
    if n == 1:
        return list(parts)
    p = _factor(n)
    rows = [_interleaved(c, t, parts[r::p]) for r in range(p)]
    out = []
    for g in range(n // p):
        for k in range(p):
            at = range(k * lanes, (k + 1) * lanes)
            out.append(_picked(c, t, [row[g] for row in rows], [x % p * lanes + x // p for x in at]))
    return out


def _picked(c: Code, t: str, parts: Sequence[str], at: Sequence[int]) -> str:
    """The elements `at` of all parts, part after part: each shuffle adds those of one more."""
    lanes, v = c.lanes, vector(t, c.lanes)
    out = parts[0]
    for k in range(1, len(parts)):
        which = [lanes + x - k * lanes if x // lanes == k else (x if k == 1 and x < lanes else lane) for lane, x in enumerate(at)]
        mask = ", ".join(f"i32 {x}" for x in which)
        out = c.op(f"shufflevector {v} {out}, {v} {parts[k]}, <{lanes} x i32> <{mask}>")
    return out


__all__ = ["Interleaving", "emit_interleaved", "find_interleaving"]
