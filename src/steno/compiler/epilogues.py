"""A product and the kernel that reads it become one statement: bias, activation, residual and scale are done on each block of the product
while it is in the cache, by the thread that computed it.

    call product (a b t); ...; kernel k: t -> y        -->  call product (a b t) then k: t -> y         for each block of rows or columns
    the same, and nobody else reads t                  -->  call product (a b y) then k: y -> y         if y is t's like

Nothing is computed otherwise than before, so not a bit changes.
"""

from __future__ import annotations

from collections.abc import Container, Sequence, Set

from steno.compiler.emit_tiles import crosses
from steno.compiler.loop_rewrites import replace_buffer, split
from steno.compiler.traffic import Traffic, loads_of, traffic_of
from steno.core.record import replace
from steno.ir.expr import Builder, topological
from steno.ir.index import Index, var
from steno.ir.loops import Buffer, CallThen, Kernel, LibraryCall, MapStage, Statement

LEAST_ROWS = 384  # of a product that may be cut by rows although it has more columns


def fuse(statements: Sequence[Statement], b: Builder, donated: Set[Buffer]) -> list[Statement]:
    """`donated`: inputs whose memory outputs may take over. A call that reads one until its end is not fused with what could."""
    out: list[Statement | None] = list(statements)
    traffic = [traffic_of(s) for s in statements]
    fresh: dict[Buffer, int] = {}  # results that nobody has read yet, and where the calls are
    for j, s in enumerate(statements):
        here = traffic[j]
        if isinstance(s, Kernel):
            for i in sorted((fresh[t] for t in here.reads if t in fresh), reverse=True):
                call = out[i]
                assert isinstance(call, LibraryCall)
                at = _meeting(traffic, i, j)
                if at is None or any(x in donated and _like(x, y) for x in traffic[i].reads for y in here.writes if y.kind == "output"):
                    continue
                together = _together(b, call, s)
                if together is not None:
                    out[i] = out[j] = None
                    out[at] = together
                    traffic[i] = traffic[j] = Traffic(frozenset(), frozenset())
                    traffic[at] = traffic_of(together)
                    break
        for t in here.reads | here.writes:
            fresh.pop(t, None)
        if isinstance(s, LibraryCall) and s.symbol == "steno_gemm":
            fresh[s.buffers[2]] = j
    return [s for s in out if s is not None]


def _like(x: Buffer, y: Buffer) -> bool:
    return (x.size, x.dtype) == (y.size, y.dtype)


def _meeting(traffic: Sequence[Traffic], i: int, j: int) -> int | None:
    """Where the statements i and j can be one: j if what i reads is still there then, or i if what j reads is there by then."""
    call, kernel, between = traffic[i], traffic[j], traffic[i + 1 : j]
    if call.reads & kernel.writes:
        return None
    if all(call.reads.isdisjoint(t.writes) for t in between):
        return j
    if all(kernel.reads.isdisjoint(t.writes) and kernel.writes.isdisjoint(t.reads | t.writes) for t in between):
        return i
    return None


def _together(b: Builder, call: LibraryCall, kernel: Kernel) -> CallThen | None:
    """The kernel on the rows of the product, if it is one that reads it so."""
    result = call.buffers[2]
    _, batch, m, n, *_ = call.meta
    rows, columns = (batch, m) if n == 1 else (batch * m, n)
    cut_by_columns = n == 1 or m < n and batch * m < LEAST_ROWS
    if columns <= 1 or result.size != rows * columns:
        return None
    found = _by_rows(b, kernel, result, columns)
    if found is None or not _stays_in_rows(found, result, rows, columns):
        return None
    out = CallThen(call, found, rows, columns)
    return out if out.by_columns or not cut_by_columns else None


def _by_rows(b: Builder, kernel: Kernel, result: Buffer, columns: int) -> Kernel | None:
    """A kernel that is one map, with its loops in the order of the result's elements, the last one within a row; others as they are."""
    stage = kernel.stages[0]
    if len(kernel.stages) > 1 or not isinstance(stage, MapStage) or stage.serial:
        return kernel
    offsets = {at for x, at in loads_of(stage) if x is result}
    if len(offsets) != 1 or len(stage.vars) != 1:
        return None
    (offset,) = offsets
    loops = sorted((*kernel.outer, *stage.vars), key=lambda v: -offset.coefficient(v))
    if loops[-1] is not stage.vars[0] or offset.coefficient(loops[-1]) != 1:
        return None
    outer = loops[:-1]
    if loops[-1].extent > columns and loops[-1].extent % columns == 0:
        over, stage = split(b, stage, columns)
        outer.append(over)
    read = [e for e in topological(s.value for s in stage.stores) if e.op == "load"]
    if any(crosses(e, v, stage.vars[0]) for v in outer for e in read):
        return None  # better done in tiles of its own
    return Kernel(kernel.name, tuple(outer), (stage,), kernel.cost)


def _accesses(kernel: Kernel, buffer: Buffer) -> list[tuple[int, Index, bool]]:
    """(stage, offset, whether it is a store) of each access to the buffer."""
    out = []
    for k, stage in enumerate(kernel.stages):
        out += [(k, at, False) for x, at in loads_of(stage) if x is buffer]
        out += [(k, s.offset, True) for s in getattr(stage, "stores", ()) if s.buffer is buffer]
    return out


def _stays_in_rows(kernel: Kernel, buffer: Buffer, rows: int, columns: int) -> bool:
    """Whether the outer points are parts of rows, in order, and touch no elements but their own."""
    width = rows * columns
    places = Index(0)
    for v in kernel.outer:
        if v.extent < 1 or width % v.extent:
            return False
        width //= v.extent
        places = places + var(v) * width
    if columns % width:
        return False
    rests = [at - places for _, at, _ in _accesses(kernel, buffer)]
    return all(0 <= r.lo and r.hi < width for r in rests)


def computed_in_place(statements: Sequence[Statement], b: Builder, barred: Container[Buffer]) -> list[Statement]:
    """Products that only their kernels read are computed where the kernel's result will be, unless that is `barred`."""
    touched: dict[Buffer, list[int]] = {}
    for k, s in enumerate(statements):
        t = traffic_of(s)
        for x in t.reads | t.writes:
            touched.setdefault(x, []).append(k)
    out = list(statements)
    for k, s in enumerate(statements):
        if isinstance(s, CallThen) and s.result.kind == "arena" and touched[s.result] == [k]:
            for y in traffic_of(s.kernel).writes:
                if y not in barred and y not in s.call.buffers and touched[y][0] == k and _replaces(s, y):
                    call = replace(s.call, buffers=(*s.call.buffers[:2], y, *s.call.buffers[3:]))
                    out[k] = replace(s, call=call, kernel=replace_buffer(b, s.kernel, s.result, y))
                    break
    return out


def _replaces(s: CallThen, y: Buffer) -> bool:
    """Whether the kernel reads the product's rows no more when it stores `y` there."""
    accesses = _accesses(s.kernel, s.result)
    if not _like(s.result, y) or any(is_store for _, _, is_store in accesses) or not _stays_in_rows(s.kernel, y, s.rows, s.columns):
        return False
    stores = _accesses(s.kernel, y)
    if not all(is_store for _, _, is_store in stores):
        return False
    last, first = max(k for k, _, _ in accesses), min(k for k, _, _ in stores)
    if last != first:
        return last < first
    same = {at for k, at, _ in (*accesses, *stores) if k == first}
    return isinstance(s.kernel.stages[first], MapStage) and len(same) == 1


__all__ = ["computed_in_place", "fuse"]
