"""Concatenations that are stored: each operand is computed into its part of the result, with nothing to select."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from steno.compiler.expressions import Group
from steno.compiler.graph import Node
from steno.compiler.materialize import REGION
from steno.compiler.nests import map_kernel
from steno.ir.index import linear
from steno.ir.kinds import Pieces
from steno.ir.loops import MapStage, Store

if TYPE_CHECKING:
    from steno.compiler.schedule import Scheduler

SMALL = 1 << 12
JOINED = 16  # so many small pieces are stored by one kernel
SHORT = 16  # runs of so many elements are worth a store of their own


def is_selected(node: Node) -> bool:
    """Whether one kernel selects each element among the operands: for a small result, since others may join that kernel; and for pieces
    that alternate quickly, which would be stored in strides."""
    kind, (result,) = node.of(Pieces), node.results
    if kind.body is None:
        return False
    count = sum(v.size > 0 for v in node.operands)
    return count <= 1 or result.size <= SMALL or math.prod(result.shape[kind.axis :]) < count * SHORT


def place_pieces(s: Scheduler, node: Node) -> None:
    """One kernel for each operand; small ones of one shape share kernels."""
    axis, (result,) = node.of(Pieces).axis, node.results
    step = s.new_step()
    unfinished: dict[tuple[int, ...], tuple[Group, list[Store]]] = {}

    def finish(shape: tuple[int, ...]) -> None:
        g, stores = unfinished.pop(shape)
        stage = MapStage(tuple(v for v in g.vars if v.extent > 1), tuple(stores))
        step.statements.append(map_kernel(s.b, s.kernel_name("pieces_", [node]), stage, g.cost))

    begin = 0
    for v in node.operands:
        first, begin = begin, begin + v.shape[axis]
        if not v.size:
            continue
        if v.shape not in unfinished:
            s.serial += 1
            unfinished[v.shape] = Group(step, v.shape, False, s.serial), []
        g, stores = unfinished[v.shape]
        s.read_deep(g, [v], g.index)
        scalar = s.read(g, v, g.index, None)
        place = [i + first if d == axis else i for d, i in enumerate(g.index)]
        stores += s.stores_of(result, s.b.to_storage(scalar), linear(place, result.shape))
        g.cost += v.size * s.cost(g, [scalar], [v])
        if len(stores) >= JOINED or v.size > SMALL or g.operations > REGION:
            finish(v.shape)
    for shape in list(unfinished):
        finish(shape)
    s.producer[result] = step
