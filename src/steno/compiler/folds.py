"""Reductions and running folds as kernels: rows, columns, or blocks of a long one and the tree over them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from steno.compiler.cost import FOLDED, ORDERED_NS
from steno.compiler.expressions import Group, NotInRow
from steno.compiler.graph import Node, Value
from steno.compiler.materialize import REGION, reduced_size
from steno.ir.expr import Expr, Scalar
from steno.ir.index import Index, LoopVar, linear, var
from steno.ir.kinds import Cumulative, Reduce
from steno.ir.loops import BLOCK, Buffer, ColReduce, Cumulate, Fold, Kernel, MapStage, RowReduce, Store, TreeReduce

if TYPE_CHECKING:
    from steno.compiler.schedule import Scheduler

# Beyond this many elements a row does not stay in the first-level caches, so its stages gain nothing from sharing a kernel.
ROW = 1 << 15
# A kernel over one point (a full reduction, and what follows it) runs on one thread: only small ones join it.
SERIAL = 1 << 14
# So many bundles of columns, and more, are points of a kernel that makes what they are folded from: few would not do for two threads.
BUNDLES = 16
# Stages of a kernel that reductions may still join: LLVM takes more than linear time for a long function.
STAGES = 64


def place_reduce(s: Scheduler, node: Node) -> None:
    operand = node.operands[0].shape
    reduced = node.of(Reduce).axes
    axes = sorted(a for a in reduced if operand[a] != 1)
    kept = [a for a in range(len(operand)) if a not in reduced]
    big_kept = [a for a in kept if operand[a] != 1]
    size, points = reduced_size(node), node.results[0].size
    if not axes or not big_kept or big_kept[-1] < axes[-1]:
        if points <= 2 and size > 4 * BLOCK:
            add_block_reduce(s, node)
        else:
            place_row_reduce(s, node, size)
    elif not joins_rows(s, node):
        add_column_reduce(s, node)


def place_row_reduce(s: Scheduler, node: Node, size: int) -> None:
    shape = node.results[0].shape
    front = s.frontier(node.operands)
    for g in s.candidates(front, node.results[0]):
        if len(g.stages) >= STAGES or g.flat or g.shape != shape or size > ROW or math.prod(shape) == 1 and size > SERIAL:
            continue
        if (g.stages or len(g.shape) == 0) and s.attempt(lambda g=g: add_row_reduce(s, g, node)):
            return
    if size <= ROW and (math.prod(shape) > 1 or size <= SERIAL) and take_over(s, node, shape, front, add_row_reduce):
        return
    add_row_reduce(s, s.new_group(shape, False), node)


def take_over(
    s: Scheduler, node: Node, shape: tuple[int, ...], front: dict[Value, None], add: Callable[[Scheduler, Group, Node], None]
) -> bool:
    """Elementwise groups whose values this reduction reads row by row become stages of its kernel."""
    old = []
    for u in front:
        g = s.group_of.get(u)
        if g is None or g in old:
            continue
        rows = all(m.results[0].shape[: len(shape)] == shape and m.results[0].aval.ndim > len(shape) for m in g.members)
        if not g.stages and rows and g.scalars:
            old.append(g)
    if len(old) != 1:
        return False
    (g,) = old
    step = s.new_step(g.step.order)
    s.serial += 1
    new = Group(step, shape, False, s.serial)
    saved = {v: (s.producer[v], s.group_of[v]) for m in g.members for v in m.results}
    for v in saved:
        del s.producer[v], s.group_of[v]
    try:
        for m in g.members:
            s.add_map(new, m)
        add(s, new, node)
        if step.after & g.step.bit:
            raise NotInRow
    except NotInRow:
        s.drop_step(step)
        for other in s.steps:
            other.after &= ~step.bit
        for v, (producer, group) in saved.items():
            s.producer[v], s.group_of[v] = producer, group
        for v in node.results:
            s.producer.pop(v, None)
            s.group_of.pop(v, None)
        return False
    for other in s.steps:
        if other.after & g.step.bit:
            other.after &= ~g.step.bit
            s.depend(other, {step})
    s.drop_step(g.step)
    s.groups[s.groups.index(g)] = new
    return True


def add_row_reduce(s: Scheduler, g: Group, node: Node) -> None:
    shape = node.operands[0].shape
    size = reduced_size(node)
    x = g.inner.setdefault(("reduce", size), [LoopVar(f"r{len(g.inner)}", size)])[0]
    fold, results = s.fold_of(node)
    elements = s.elements(g, node, s.spread(node, g.index, var(x), shape), var(x))
    names, locals_ = new_locals(s, fold)
    g.stages.append(RowReduce(x, s.flatten(elements), fold, names))
    bind_reduction(s, g, node, results(locals_))
    g.cost += math.prod(g.shape) * size * s.cost(g, elements, node.operands) * FOLDED
    s.owned(g, node)


def new_locals(s: Scheduler, fold: Fold) -> tuple[tuple[str, ...], tuple[Expr, ...]]:
    s.serial += 1
    names = tuple(f"t{s.serial}_{k}" for k in range(len(fold.identity)))
    return names, tuple(s.b.local(n, e.dtype) for n, e in zip(names, fold.identity, strict=True))


def bind_reduction(s: Scheduler, g: Group, node: Node, results: Sequence[Scalar]) -> None:
    for v, scalar in zip(node.results, results, strict=True):
        g.scalars[v] = scalar
        if v in s.stored:
            g.stores.append((v, s.b.to_storage(scalar), linear(g.index, v.shape)))


def add_block_reduce(s: Scheduler, node: Node) -> None:
    """A long reduction at few points: blocks in parallel, then the tree over them."""
    shape, kept = node.operands[0].shape, node.results[0].shape
    size = reduced_size(node)
    blocks = -(-size // BLOCK)
    g = s.new_group((*kept, blocks), False)
    x = LoopVar("r", size)
    fold, results = s.fold_of(node)
    elements = s.elements(g, node, s.spread(node, g.index[:-1], var(x), shape), var(x))
    names, locals_ = new_locals(s, fold)
    g.stages.append(RowReduce(x, s.flatten(elements), fold, names, block=g.index[-1]))
    s.serial += 1
    partial = [Buffer(f"p{s.serial}_{k}", e.dtype, math.prod(g.shape), "arena") for k, e in enumerate(fold.identity)]
    offset = linear(g.index, g.shape)
    stage = MapStage((), tuple(Store(p, offset, e) for p, e in zip(partial, locals_, strict=True)))
    g.cost = size * math.prod(kept) * s.cost(g, elements, node.operands) * FOLDED
    g.step.statements.append(Kernel(s.kernel_name("blocks_", [node]), tuple(v for v in g.vars if v.extent > 1), (*g.stages, stage), g.cost))
    s.groups.remove(g)
    second = s.new_group(kept, False)
    s.depend(second.step, {g.step})
    y = LoopVar("r", blocks)
    at = linear([*second.index, var(y)], (*kept, blocks))
    parts_ = tuple(s.b.load(p, at, None, p.dtype) for p in partial)
    names, locals_ = new_locals(s, fold)
    second.stages.append(TreeReduce(y, s.flatten(parts_), fold, names))
    bind_reduction(s, second, node, results(locals_))
    s.owned(second, node)


def joins_rows(s: Scheduler, node: Node) -> bool:
    """A reduction of columns, one bundle of them for each point of the axes before the last kept one, as a stage of the kernel that makes
    what it reads row by row: then a row is in the caches, and need not be kept for the others."""
    kept = node.results[0].shape
    shape = kept[: max(k for k, n in enumerate(kept) if n != 1)]
    if math.prod(shape) < BUNDLES or reduced_size(node) > ROW:
        return False
    front = s.frontier(node.operands)
    for g in dict.fromkeys(s.group_of[u] for u in front if u in s.group_of):
        fits = not g.flat and g.shape == shape and 0 < len(g.stages) < STAGES
        if fits and g.operations <= REGION and s.attempt(lambda g=g: add_column_stage(s, g, node)):
            return True
    members = [m for u in front if u in s.group_of for m in s.group_of[u].members]
    small = all(v.size <= ROW * math.prod(shape) for m in members for v in m.results)
    return small and take_over(s, node, shape, front, add_column_stage)


def add_column_stage(s: Scheduler, g: Group, node: Node) -> None:
    shape, kept = node.operands[0].shape, node.results[0].shape
    s.serial += 1
    row = [LoopVar(f"c{s.serial}_{k}", n) for k, n in enumerate(kept[len(g.shape) :])]
    (lane,) = (v for v in row if v.extent > 1)
    x = LoopVar(f"r{s.serial}", reduced_size(node))
    at = [*g.index, *(var(v) for v in row)]
    fold, results = s.fold_of(node)
    elements = s.elements(g, node, s.spread(node, at, var(x), shape), var(x))
    names, locals_ = new_locals(s, fold)
    stores = s.stores_of_results(node, results(locals_), linear(at, kept))
    g.stages.append(ColReduce(lane, x, s.flatten(elements), fold, names, tuple(stores)))
    g.rows.update(v for v in node.results if v in s.stored)
    g.cost += math.prod(shape) * s.cost(g, elements, node.operands) * FOLDED
    s.owned(g, node)


def add_column_reduce(s: Scheduler, node: Node) -> None:
    shape, kept = node.operands[0].shape, node.results[0].shape
    size = reduced_size(node)
    g = s.new_group(kept, False)
    lane = max((v for v in g.vars if v.extent > 1), key=g.vars.index)
    x = LoopVar("r", size)
    fold, results = s.fold_of(node)
    elements = s.elements(g, node, s.spread(node, g.index, var(x), shape), var(x))
    names, locals_ = new_locals(s, fold)
    stores = s.stores_of_results(node, results(locals_), linear(g.index, kept))
    stage = ColReduce(lane, x, s.flatten(elements), fold, names, tuple(stores))
    outer = tuple(v for v in g.vars if v is not lane and v.extent > 1)
    cost = math.prod(shape) * s.cost(g, elements, node.operands) * FOLDED
    g.step.statements.append(Kernel(s.kernel_name("columns_", [node]), outer, (stage,), cost))
    s.groups.remove(g)
    s.produced(node, g.step)


def place_cumulative(s: Scheduler, node: Node) -> None:
    shape = node.results[0].shape
    kind = node.of(Cumulative)
    axis = kind.axis
    g = s.new_group(shape, False)
    s.groups.remove(g)
    x = g.vars[axis]
    at = list(g.index)
    if kind.reverse and x.extent:
        at[axis] = Index(x.extent - 1) - at[axis]
    fold, results = s.fold_of(node)
    elements = s.elements(g, node, at, at[axis])
    names, locals_ = new_locals(s, fold)
    stores = s.stores_of_results(node, results(locals_), linear(at, shape))
    others = [v for v in g.vars if v is not x and v.extent > 1]
    lane = others.pop() if others and g.vars.index(others[-1]) > axis else None
    stage = Cumulate(lane, x, s.flatten(elements), fold, names, tuple(stores))
    cost = math.prod(shape) * (s.cost(g, elements, node.operands) + ORDERED_NS)
    g.step.statements.append(Kernel(s.kernel_name("running_", [node]), tuple(others), (stage,), cost))
    s.produced(node, g.step)
