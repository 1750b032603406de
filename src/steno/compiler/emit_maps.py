"""MapStage as loops of vector code, and what all stages share.

A vector loop has a main part of whole vectors, several of them in one iteration if the body is short, and a tail: one masked vector, or,
where the machine has no masks for the sizes at hand, a loop over single elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from steno.compiler.emit_code import Code, power_above
from steno.compiler.emit_scopes import Bound
from steno.ir.expr import Expr, index_values, topological
from steno.ir.index import LoopVar
from steno.ir.loops import Buffer, MapStage, Stage, Store

SHORT_BODY, UNROLLED = 20, 64  # a loop over single elements does several at once if it has so few operations, so many iterations
ONCE_BODY = 64  # a body of more operations is written once only, its loop is masked throughout
STREAM_BYTES = 1 << 24
FLAT_UNIT = 256  # elements of a flat kernel's vector variable that threads share out
SPAN_UNIT = 64  # of a row, that the blocks of a product share out

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


def lane_dtypes(nodes: Sequence[Expr]) -> set[np.dtype]:
    """What decides on the number of lanes: loads and arithmetic, but not index arithmetic."""
    return {e.dtype for e in nodes if e.op not in ("const", "index") and (e.dtype.itemsize < 8 or e.dtype.kind == "f" or e.op == "load")}


def dtypes_of(c: Code, roots: Sequence[Expr]) -> set[np.dtype]:
    return lane_dtypes(c.nodes(roots)) | {r.dtype for r in roots}


def body_size(c: Code, order: Sequence[Expr], depth: int) -> int:
    return sum(1 for e in order if c.depth[e] >= depth and e.op != "const")


def constant_or_op(c: Code, op: str, x: str | int, y: int) -> str | int:
    if isinstance(x, int):
        return {"add": x + y, "sub": x - y, "and": x & y, "lshr": x >> y, "mul": x * y}[op]
    return x if op in ("add", "sub") and y == 0 else c.op(f"{op} i64 {x}, {y}")


def least(c: Code, x: str | int, y: int) -> str | int:
    return min(x, y) if isinstance(x, int) else c.call("smin", "i64", 1, (x, str(y)))


def hide(c: Code, positions: Sequence[str | int], stores: Sequence[Store]) -> Sequence[str | int]:
    """Constant positions could make a guard a constant mask, on which LLVM 22 miscompiles stores of truncated integers: then hidden."""
    if any(s.guard is not None and s.buffer.dtype.kind in "iu" and s.buffer.dtype.itemsize < 8 for s in stores):
        return [c.opaque(p) if isinstance(p, int) else p for p in positions]
    return positions


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


def fetch_ahead(c: Code) -> None:
    """The present vector's part of the rows ahead."""
    for buffer, offset, level in c.ahead:
        name = c.declarations.add("llvm.prefetch.p0", "void", ["ptr", "i32", "i32", "i32"])
        p = c.pointer(buffer, offset)
        c.lines = c.scopes[-1].lines
        c.say(f"call void @{name}(ptr {p}, i32 0, i32 {level}, i32 1)")


def emit_map(c: Code, stage: MapStage, span: Range | None, unit: int = FLAT_UNIT) -> None:
    """`span`: of the vector variable, known at run time: it begins at a multiple of `unit`, and ends at one or at the variable's end."""
    variables = [v for v in stage.vars if v.extent != 1]
    if any(v.extent == 0 for v in variables):
        return
    roots = roots_of(stage.stores)
    written = stored_by(stage)
    dtypes = dtypes_of(c, roots) | {b.dtype for b in written}
    masked = c.target.masked(memory_dtypes(c, roots) | {b.dtype for b in written})
    vectorised = bool(variables) and variables[-1] in stage.vars[stage.serial :]
    lanes = c.target.lanes(dtypes) if vectorised else 1
    if vectorised:
        n = variables[-1].extent
        lanes = min(lanes, power_above(n) if masked else power_above(n + 1) // 2)
    for v in variables[:-1]:
        c.variables[v] = Bound(len(c.scopes), 0)
        c.variables[v].value = c.open_loop(0, v.extent)
    if lanes == 1:
        if variables:
            scalar_loop(c, stage, variables[-1], span, roots, written)
        else:
            c.open()
            c.begin(roots, 1, None, len(c.scopes) - 1, written)
            run_scalars(c, stage, roots)
            c.close()
        for _ in variables[:-1]:
            c.close_loop()
        return
    v = variables[-1]
    depth = len(c.scopes)
    bound = c.variables[v] = Bound(depth, 0, lanes)

    def begin(width: int) -> list[Expr]:
        bound.align = width
        c.begin(roots, width, v if width > 1 else None, depth, written)
        return c.order(roots)

    order = begin(lanes)
    size = body_size(c, order, depth)
    streamed = streaming(c, stage)

    def copy(at: str | int, mask: str | None) -> None:
        (at,) = hide(c, [at], stage.stores)
        c.next_copy(v, at, mask)
        fetch_ahead(c)
        c.run(order)
        run_stores(c, stage.stores, streamed)

    def single(at: str | int) -> None:
        c.next_copy(v, at)
        c.run(order)
        run_stores(c, stage.stores)

    def scalars() -> None:
        nonlocal order
        order = begin(1)

    whole = span if span is not None else (0, v.extent)
    c.where(common_guard(c, stage, depth - 1), lambda: vector_loop(c, whole, v.extent, unit, lanes, size, masked, copy, single, scalars))
    for _ in variables[:-1]:
        c.close_loop()


def scalar_loop(
    c: Code, stage: MapStage, v: LoopVar, span: Range | None, roots: Sequence[Expr], written: frozenset[Buffer]
) -> None:  # fmt: skip
    """One element after the other; several in one iteration if they are many and the body is short."""
    depth = len(c.scopes)
    c.variables[v] = Bound(depth, 0)
    c.begin(roots, 1, v, depth, written)
    unroll = 4 if span is None and v.extent >= UNROLLED and body_size(c, c.order(roots), depth) <= SHORT_BODY else 1
    whole = v.extent // unroll * unroll
    start = c.open_loop(*(span or (0, whole)), unroll)
    for k in range(unroll):
        c.next_copy(v, constant_or_op(c, "add", start, k))
        run_scalars(c, stage, roots)
    c.close_loop(may_be_empty=span is not None)
    if whole < v.extent:
        c.open()
        for at in range(whole, v.extent):
            c.next_copy(v, at)
            run_scalars(c, stage, roots)
        c.close()


def run_scalars(c: Code, stage: MapStage, roots: Sequence[Expr]) -> None:
    def run() -> None:
        c.run(c.order(roots))
        run_stores(c, stage.stores)

    c.where(common_guard(c, stage, len(c.scopes) - 1), run)
    c.lines = c.scopes[-1].lines


def common_guard(c: Code, stage: MapStage, depth: int) -> Expr | None:
    """The guard of all stores, if it is a scalar of scope `depth`: then one branch there does for all of them."""
    guards = {s.guard for s in stage.stores}
    if len(guards) != 1 or any(s.buffer.kind == "local" for s in stage.stores):
        return None
    (guard,) = guards
    return guard if guard is not None and c.depth[guard] == depth and not c.varies[guard] else None


def memory_dtypes(c: Code, roots: Sequence[Expr]) -> set[np.dtype]:
    return {e.dtype for e in c.nodes(roots) if e.op == "load"}


def streaming(c: Code, stage: MapStage) -> frozenset[Buffer]:
    """Outputs so large that no cache would keep them, written in whole aligned vectors: their stores bypass the caches."""
    total = sum(s.buffer.size * s.buffer.dtype.itemsize for s in stage.stores)
    if total < STREAM_BYTES or c.any_size:
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

    fit = {s.buffer for s in stage.stores if s.buffer.aligned} - loaded - {s.buffer for s in stage.stores if not aligned(s)}
    return frozenset(fit)


def unrolling(size: int) -> int:
    """Vectors in one iteration of a loop."""
    return 4 if size <= 12 else 2 if size <= 32 else 1


def vector_loop(
    c: Code, span: Range, extent: int, unit: int, lanes: int, size: int, masked: bool,
    copy: Callable[[str | int, str | None], None], single: Callable[[str | int], None], scalars: Callable[[], None],
) -> None:  # fmt: skip
    """Covers [start, end): `copy(at, mask)` writes one vector, `single(at)` one element after `scalars()` has switched to them.
    Bounds known at run time only are multiples of `unit`, or `extent`."""
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
        if rest and masked and size > ONCE_BODY:
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
    rest = extent % lanes
    if rest and masked and size > ONCE_BODY:
        _masked_loop(c, span, 1 << 62, lanes, copy)
        return
    unroll = min(unroll, unit // lanes)
    if extent % (unroll * lanes) == 0:
        _main_loop(c, span, lanes, unroll, copy)
        return
    length = c.op(f"sub i64 {end}, {start}")
    whole_length = c.op(f"and i64 {length}, {-unroll * lanes}")
    main_end = c.op(f"add i64 {start}, {whole_length}")
    _main_loop(c, (start, main_end), lanes, unroll, copy)
    if not rest:
        _main_loop(c, (main_end, end), lanes, 1, copy)
    elif masked:
        _masked_loop(c, (main_end, end), unroll * lanes, lanes, copy)
    else:
        _singles(c, main_end, end, single, scalars)


def _main_loop(c: Code, span: Range, lanes: int, unroll: int, copy: Callable[[str | int, str | None], None]) -> None:
    v = c.open_loop(*span, unroll * lanes)
    for k in range(unroll):
        copy(constant_or_op(c, "add", v, k * lanes), None)
        c.lines = c.scopes[-1].lines
    c.close_loop(may_be_empty=isinstance(span[1], str))


def _masked_loop(c: Code, span: Range, most: int, lanes: int, copy: Callable[[str | int, str | None], None]) -> None:
    """`most`: the span's elements at most, as far as that is known."""
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
