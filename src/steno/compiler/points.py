"""Programs on a handful of elements: every element is a scalar of one straight-line kernel.

The body of a loop over small states (an ODE's three coordinates, a counter and an accumulator) is called a million times. As array code
each of its values would be a kernel of one masked vector; as scalars they stay in registers, and reads at constant indices (a stack, a
slice) resolve while the code is made. Where all elements take the same way, each on its own, and that is long, one vector is faster.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from steno.compiler.expressions import Group, NotInRow
from steno.compiler.graph import Graph
from steno.compiler.materialize import REGION, is_inlinable, node_cost
from steno.compiler.nests import map_kernel
from steno.ir.index import Index, linear
from steno.ir.kinds import Map
from steno.ir.loops import MapStage, Store

if TYPE_CHECKING:
    from steno.compiler.schedule import Scheduler

MOST_ELEMENTS = 16  # of a value
MOST_OUTPUTS = 48  # elements of all outputs
# So many elements take as long as one, whose operations wait for each other; a vector costs as much as so many operations more, on its
# way from an iteration to the next through memory.
HIDDEN_ELEMENTS, VECTOR_COST = 4, 64.0


def is_small(graph: Graph) -> bool:
    """Whether all that the graph computes is a few elements, by scalar code, and not too much work in all."""
    if sum(v.size for v in graph.outputs) > MOST_OUTPUTS or any(not v.size for v in graph.outputs):
        return False
    cost = 0.0
    beyond = 0.0  # of the elements that a vector computes beside others
    for n in graph.nodes:
        if n.has_effects or any(v.size > MOST_ELEMENTS for v in n.results) or not is_inlinable(n.results[0]):
            return False
        size, element = max(v.size for v in n.results), node_cost(n)
        cost += element * size
        beyond += element * max(size - HIDDEN_ELEMENTS, 0)
    return cost <= 2 * REGION and not (beyond > VECTOR_COST and _is_elementwise(graph))


def _is_elementwise(graph: Graph) -> bool:
    """Whether elements of one size of arrays each go their own way, beside scalars."""
    sizes = {v.size for n in graph.nodes for v in n.results} - {1}
    if len(sizes) != 1:
        return False
    for n in graph.nodes:
        if not isinstance(n.kind, Map) or any(v.size not in (1, n.results[0].size) for v in n.operands):
            return False
        if not n.kind.flat and not (n.kind.view and all(v.size == 1 for v in n.operands)):
            return False
    return True


def place_points(s: Scheduler) -> bool:
    """Makes the one kernel. False, and nothing changed, if some read is not at a constant index of a value of the same program."""
    outputs = list(s.graph.outputs)
    stored = s.stored
    s.stored = set(outputs)
    g = Group(s.new_step(), (), False, 0)
    try:
        stores: list[Store] = []
        for n in s.graph.nodes:
            for v in n.results:
                s.group_of[v] = g  # a read of it that finds no element below is refused
            if not any(v in s.stored for v in n.results) and isinstance(n.kind, Map) and n.kind.view:
                continue  # resolved where it is read
            for point in np.ndindex(*n.results[0].shape):
                index = [Index(int(k)) for k in point]
                scalars = s.body(g, n, index)
                for v, scalar in zip(n.results, scalars, strict=True):
                    g.memo[v, tuple(index), None] = scalar
                    if v in s.stored:
                        stores += s.stores_of(v, s.b.to_storage(scalar), linear(index, v.shape))
                    s.cost(g, [scalar], [v])
    except NotInRow:
        s.stored = stored
        s.group_of.clear()
        s.steps.clear()
        return False
    total = math.fsum(v.size for v in outputs) + g.operations * 0.5
    g.step.statements.append(map_kernel(s.b, "points", MapStage((), tuple(stores)), total))
    for v in outputs:
        s.producer[v] = g.step
    return True
