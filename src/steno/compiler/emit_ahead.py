"""Rows that a kernel will read at its next outer point, fetched while it computes on those it has.

    for i: max over j of x[i, j]; map j: e[j] = exp(x[i, j] - max); ...  -->  the map also fetches x[i + 1, j]

A stage that reads a row first waits for memory and computes little, the stages after it compute and leave memory idle: the processor looks
ahead along one row only, and not far enough for the next.
"""

from __future__ import annotations

from collections.abc import Sequence

from steno.compiler.emit_maps import roots_of
from steno.ir.expr import Expr, topological
from steno.ir.index import Index, LoopVar, var
from steno.ir.loops import Buffer, Kernel, MapStage, RowReduce, Stage

FAR = 1 << 20  # bytes of what a kernel reads: less stays in the caches
LEAST_ROW, MOST_ROW = 1 << 10, 1 << 16  # bytes: shorter rows are one to the processor, longer ones leave no room for the next
NEAR_ROW = 1 << 13  # bytes up to which the first cache has that room

Ahead = tuple[tuple[Buffer, Index, int], ...]
"""(buffer, offset, level of the cache, 3 the first) of what a stage fetches for each of its vectors."""


def rows_ahead(kernel: Kernel) -> tuple[Ahead, ...]:
    """For each stage."""
    nothing: tuple[Ahead, ...] = ((),) * len(kernel.stages)
    outer = [v for v in kernel.outer if v.extent != 1]
    if not outer or len(kernel.stages) < 2:
        return nothing
    first: dict[tuple[Buffer, Index], int] = {}  # the stage that reads a row first, which is named along `along`
    variables = [_along(stage) for stage in kernel.stages]
    along = next((v for v in variables if v is not None), None)
    if along is None:
        return nothing
    for k, (stage, v) in enumerate(zip(kernel.stages, variables, strict=True)):
        if v is not None and v.extent == along.extent:
            for buffer, offset in _rows(stage, v):
                first.setdefault((buffer, offset.substitute({v: var(along)})), k)
    far = [(b, o) for b, o in first if o.coefficient(outer[-1]) and LEAST_ROW <= along.extent * b.dtype.itemsize <= MOST_ROW]
    busy = {first[row] for row in far}
    free = [k for k, v in enumerate(variables) if v is not None and v.extent == along.extent and k not in busy]
    if not far or not free or sum(b.size * b.dtype.itemsize for b, _ in far) < FAR:
        return nothing
    most = max(free, key=lambda k: len(topological(_roots(kernel.stages[k]))))
    v = variables[most]
    assert v is not None
    ahead = tuple(
        (b, o.substitute({along: var(v)}) + o.coefficient(outer[-1]), 3 if along.extent * b.dtype.itemsize <= NEAR_ROW else 2)
        for b, o in far
    )
    return tuple(ahead if k == most else () for k in range(len(kernel.stages)))


def _along(stage: Stage) -> LoopVar | None:
    """The variable of a stage that goes along one row."""
    if isinstance(stage, RowReduce):
        return stage.var if stage.block is None else None
    if isinstance(stage, MapStage) and not stage.serial:
        variables = [v for v in stage.vars if v.extent != 1]
        return variables[0] if len(variables) == 1 else None
    return None


def _roots(stage: Stage) -> Sequence[Expr]:
    return stage.elements if isinstance(stage, RowReduce) else roots_of(stage.stores) if isinstance(stage, MapStage) else ()


def _rows(stage: Stage, v: LoopVar) -> list[tuple[Buffer, Index]]:
    """Whole rows that a stage reads."""
    loads = [e.attr for e in topological(_roots(stage)) if e.op == "load"]
    return [
        (b, o)
        for b, o, guard in loads
        if b.kind != "local" and guard is None and o.coefficient(v) == 1 and all(isinstance(a, LoopVar) for a, _ in o.terms)
    ]
