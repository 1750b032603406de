"""From the loops of one map stage to a kernel: which are split over threads, which run in order, which is the vector loop."""

from __future__ import annotations

from collections.abc import Sequence, Set

from steno.compiler.cost import is_for_threads
from steno.compiler.loop_rewrites import collapse, divisor_of, split
from steno.ir.expr import Builder
from steno.ir.index import Atom, LoopVar
from steno.ir.loops import LANES, Kernel, MapStage, Store

STRIPS = 8  # at most so many threads share the rows of a scatter
STRIP_BYTES = 128
LEAST_PERIOD = 16  # elements that are worth a loop of their own


def map_kernel(b: Builder, name: str, stage: MapStage, cost: float) -> Kernel:
    """The last loop is the vector loop, the others are the outer ones. A last loop whose variable is divided, as in what repeats rows,
    becomes two: vectors then run along an undivided one."""
    stage = collapse(b, stage)
    outer = stage.vars[:-1]
    if stage.vars and (d := divisor_of(stage)) is not None and d >= LEAST_PERIOD and d % LANES:
        over, stage = split(b, stage, d)
        outer = (*outer, over)
    if len(stage.vars) <= 1 and not outer:
        return Kernel(name, (), (stage,), cost)
    return Kernel(name, outer, (MapStage(stage.vars[-1:], stage.stores),), cost)


def update_kernel(
    b: Builder, name: str, variables: Sequence[LoopVar], apart: Set[Atom], trailing: Sequence[LoopVar], stores: Sequence[Store], cost: float
) -> Kernel:
    """The loops of an Update over its space (see `kinds.Update`). Where points may meet, in the program's order:

    for the axes apart, over threads: for those along which points may meet, in order: for the trailing ones, in vectors

    Rows that are apart from end to end are cut into strips, each a thread's work: the threads read the same indices, and each changes its
    own columns, so that every element sees its updates in order.
    """
    loops = [v for v in variables if v.extent > 1]
    inner = [v for v in loops if v in trailing]
    serial = [v for v in loops if v not in inner and v not in apart]
    if not serial:
        return map_kernel(b, name, MapStage(tuple(loops), tuple(stores)), cost)
    if inner and stores[0].offset.coefficient(inner[-1]) != len(stores):  # vectors would be scattered
        serial += [v for v in inner if v not in apart]
        inner = []
    outer = [v for v in loops if v in apart and v not in inner]
    stage = collapse(b, MapStage((*serial, *inner), tuple(stores), len(serial)))
    if inner and not outer and is_for_threads(cost) and all(v in apart for v in inner):
        columns = stage.vars[-1].extent
        fitting = [n for n in range(2, STRIPS + 1) if columns % n == 0 and columns // n * stores[0].buffer.dtype.itemsize >= STRIP_BYTES]
        if fitting:
            strip, stage = split(b, stage, columns // fitting[-1])
            outer = [strip]
    return Kernel(name, tuple(outer), (stage,), cost)
