"""The reference interpreter of loop programs: NumPy, point by point in the stated order, every index checked.

`run(program, inputs)` -> outputs. Reductions follow the canonical order of `ir/loops.py` literally. A load whose guard is false gives 0.
IndexError names the buffer and the offset of an access outside its buffer; RuntimeError a store that another point of a parallel loop
also makes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from steno.ir.expr import Expr, index_values
from steno.ir.index import LoopVar
from steno.ir.interp import evaluate, evaluate_index
from steno.ir.loops import (
    BLOCK,
    LANES,
    Argument,
    Buffer,
    CallThen,
    Carried,
    Choice,
    ColReduce,
    CopyBuffer,
    Cumulate,
    Fixed,
    Fold,
    HostCall,
    Kernel,
    LibraryCall,
    Loop,
    MapStage,
    Poison,
    Program,
    RowReduce,
    Stage,
    Statement,
    Store,
    TreeReduce,
    poison_byte,
)

Memory = dict[Buffer, np.ndarray]
Variables = dict[LoopVar, np.ndarray]
Locals = dict[str, np.ndarray]
Library = Mapping[str, Callable[[Sequence[np.ndarray], Sequence[int]], int]]
Host = Callable[[int, Sequence[np.ndarray]], int] | None


def run(
    program: Program,
    inputs: Sequence[np.ndarray],
    library: Library = MappingProxyType({}),
    host: Host = None,
) -> list[np.ndarray]:
    """`inputs`: one flat array of the buffer's dtype and size each. `library[symbol](buffers, meta)` and `host(index, buffers)` return a
    status; one other than 0 raises RuntimeError."""
    memory: Memory = {}
    for b, x in zip(program.inputs, inputs, strict=True):
        if x.shape != (b.size,) or x.dtype != b.dtype:
            raise TypeError(f"run: input {b.name} is {b.dtype}[{b.size}], got {x.dtype}{list(x.shape)}")
        memory[b] = x.copy()
    for b in program.outputs:
        memory.setdefault(b, np.zeros(b.size, b.dtype))
    _run(program, memory, library, host)
    return [memory[b] for b in program.outputs]


def _run(program: Program, memory: Memory, library: Library, host: Host) -> None:
    """`memory`: arrays of the inputs and outputs; outputs are written in place."""
    arena = np.zeros(program.arena_bytes, np.uint8)
    for b, lender, offset in program.places():
        memory[b] = (arena if lender is None else memory[lender].view(np.uint8))[offset : offset + b.size * b.dtype.itemsize].view(b.dtype)
    for s in _in_turn(program.statements):
        if isinstance(s, Kernel):
            _kernel(s, memory)
        elif isinstance(s, CopyBuffer):
            memory[s.target][:] = memory[s.source]
        elif isinstance(s, Poison):
            for b in s.buffers:
                memory[b].view(np.uint8)[:] = poison_byte(b.dtype)
        elif isinstance(s, Loop):
            _loop(s, memory, library, host)
        elif isinstance(s, Choice):
            k = min(max(int(memory[s.index][0]), 0), len(s.branches) - 1)
            branch, inputs = s.branches[k]
            _nested(branch, [memory[b] for b in inputs], [memory[b] for b in s.outputs], library, host)
        else:
            buffers = [memory[b] for b in s.buffers]
            if isinstance(s, LibraryCall):
                status = library[s.symbol](buffers, s.meta)
            else:
                assert isinstance(s, HostCall) and host is not None
                status = host(s.index, buffers)
            if status:
                raise RuntimeError(f"{s} ended with status {status}")


def _in_turn(statements: Iterable[Statement]) -> Iterator[Statement]:
    for s in statements:
        if isinstance(s, CallThen):
            yield s.call
            yield s.kernel
        else:
            yield s


def _nested(program: Program, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], library: Library, host: Host) -> None:
    memory: Memory = dict(zip(program.inputs, inputs, strict=True))
    memory.update(zip(program.outputs, outputs, strict=True))
    _run(program, memory, library, host)


def _loop(loop: Loop, memory: Memory, library: Library, host: Host) -> None:
    present = [memory[b] for b, _ in loop.carries]
    following = [memory[b if p is None else p] for b, p in loop.carries]

    def arrays(arguments: Sequence[Argument], carries: Sequence[np.ndarray], iteration: int) -> list[np.ndarray]:
        out = []
        for a in arguments:
            if isinstance(a, Carried):
                out.append(carries[a.position])
            elif isinstance(a, Fixed):
                out.append(memory[a.buffer])
            else:
                out.append(memory[a.buffer][a.size * iteration : a.size * (iteration + 1)])
        return out

    step = 0
    while True:
        if loop.cond is not None:
            assert loop.flag is not None
            _nested(loop.cond, arrays(loop.cond_inputs, present, step), [memory[loop.flag]], library, host)
            if not memory[loop.flag][0]:
                break
        elif step == loop.length:
            break
        number = loop.length - 1 - step if loop.reverse and loop.length is not None else step
        _nested(loop.body, arrays(loop.inputs, present, number), arrays(loop.outputs, following, number), library, host)
        for k, (_, partner) in enumerate(loop.carries):
            if partner is not None:
                present[k], following[k] = following[k], present[k]
        step += 1
    for (home, _), x in zip(loop.carries, present, strict=True):
        if x is not memory[home]:
            memory[home][:] = x


def _kernel(kernel: Kernel, memory: Memory) -> None:
    shape = tuple(v.extent for v in kernel.outer)
    for point in np.ndindex(*shape):
        variables: Variables = {v: np.asarray([i]) for v, i in zip(kernel.outer, point, strict=True)}
        here = memory | {b: np.zeros(b.size, b.dtype) for stage in kernel.stages for b in _locals_of(stage)}
        locals_: Locals = {}
        for stage in kernel.stages:
            _stage(stage, here, variables, locals_)


def _locals_of(stage: Stage) -> set[Buffer]:
    return {s.buffer for s in getattr(stage, "stores", ()) if s.buffer.kind == "local"}


def _values(roots: Sequence[Expr], lanes: int, memory: Memory, variables: Variables, locals_: Locals) -> list[np.ndarray]:
    def leaf(e: Expr, value: Callable[[Expr], np.ndarray]) -> np.ndarray:
        if e.op == "load":
            buffer, offset, guard = e.attr
            at = np.broadcast_to(evaluate_index(offset, variables, value), (lanes,))
            on = np.ones(lanes, bool) if guard is None else np.broadcast_to(value(guard), (lanes,))
            _check(buffer, at, on, "load")
            out = np.zeros(lanes, e.dtype)
            out[on] = memory[buffer][at[on]]
            return out
        if e.op == "index":
            return evaluate_index(e.attr, variables, value)
        if e.op == "local":
            return locals_[e.attr]
        raise TypeError(f"{e} outside a fold")

    return evaluate(roots, lanes, leaf)


def _check(buffer: Buffer, at: np.ndarray, on: np.ndarray, what: str) -> None:
    bad = on & ((at < 0) | (at >= buffer.size))
    if bad.any():
        raise IndexError(f"{what} of element {at[bad][0]} of buffer {buffer.name}, which has {buffer.size}")


def _store_all(stores: Sequence[Store], lanes: int, memory: Memory, variables: Variables, locals_: Locals, collide: bool) -> None:
    """At each of the points in the lanes: all values first, then the stores in order."""
    roots: list[Expr] = []
    for s in stores:
        roots += [s.value, *index_values(s.offset)] + ([] if s.guard is None else [s.guard])
    values = dict(zip(roots, _values(roots, lanes, memory, variables, locals_), strict=True))
    for s in stores:
        at = np.broadcast_to(evaluate_index(s.offset, variables, values.__getitem__), (lanes,))
        on = np.ones(lanes, bool) if s.guard is None else values[s.guard]
        _check(s.buffer, at, on, "store")
        if not collide and len(np.unique(at[on])) != on.sum():
            raise RuntimeError(f"points of a parallel loop store to the same element of {s.buffer.name}")
        memory[s.buffer][at[on]] = values[s.value][on]


def _grid(variables: Sequence[LoopVar]) -> Variables:
    """All points of the loops, row-major, in lanes."""
    shape = tuple(v.extent for v in variables)
    grid = np.indices(shape).reshape(len(shape), math.prod(shape))
    return {v: grid[k].astype(np.int64) for k, v in enumerate(variables)}


def _stage(stage: Stage, memory: Memory, outer: Variables, locals_: Locals) -> None:
    if isinstance(stage, MapStage):
        points = _grid(stage.vars)
        lanes = math.prod(v.extent for v in stage.vars[stage.serial :])
        for k in range(0, math.prod(v.extent for v in stage.vars), max(lanes, 1)):
            here = {v: x[k : k + lanes] for v, x in points.items()}
            _store_all(stage.stores, lanes, memory, outer | here, locals_, lanes == 1)
    elif isinstance(stage, RowReduce):
        n = stage.var.extent
        block = None
        if stage.block is not None:
            block = int(evaluate_index(stage.block, outer, lambda e: _values([e], 1, memory, outer, locals_)[0])[0])
        span = np.arange(n) if block is None else np.arange(block * BLOCK, min((block + 1) * BLOCK, n))
        elements = _values(stage.elements, len(span), memory, outer | {stage.var: span}, locals_)
        columns = [e[:, None] for e in elements]
        outcome = canonical(stage.fold, columns) if block is None else fold_block(stage.fold, columns)
        locals_.update(zip(stage.locals, outcome, strict=True))
    elif isinstance(stage, TreeReduce):
        n = stage.var.extent
        elements = _values(stage.elements, n, memory, outer | {stage.var: np.arange(n)}, locals_)
        outcome = _with_identity(stage.fold, tree(stage.fold, [e[:, None] for e in elements]) if n else None, 1)
        locals_.update(zip(stage.locals, outcome, strict=True))
    elif isinstance(stage, ColReduce):
        m, n = stage.lane.extent, stage.var.extent
        if not m:
            return
        points = _grid((stage.var, stage.lane))
        elements = _values(stage.elements, n * m, memory, outer | points, locals_)
        outcome = canonical(stage.fold, [e.reshape(n, m) for e in elements])
        own = locals_ | dict(zip(stage.locals, outcome, strict=True))
        _store_all(stage.stores, m, memory, outer | {stage.lane: np.arange(m)}, own, False)
    else:
        _cumulate(stage, memory, outer, locals_)


def _cumulate(stage: Cumulate, memory: Memory, outer: Variables, locals_: Locals) -> None:
    m = 1 if stage.lane is None else stage.lane.extent
    if not m:
        return
    lane: Variables = {} if stage.lane is None else {stage.lane: np.arange(m)}
    acc = _identity(stage.fold, m)
    for k in range(stage.var.extent):
        here = outer | lane | {stage.var: np.asarray([k])}
        elements = _values(stage.elements, m, memory, here, locals_)
        acc = combine(stage.fold, acc, elements)
        own = locals_ | dict(zip(stage.locals, acc, strict=True))
        _store_all(stage.stores, m, memory, here, own, False)


# ---- folds: lists of arrays, one for each accumulator; positions along axis 0 ----


def combine(fold: Fold, acc: Sequence[np.ndarray], elements: Sequence[np.ndarray]) -> list[np.ndarray]:
    shape = acc[0].shape
    flat = {"acc": [a.reshape(-1) for a in acc], "elt": [e.reshape(-1) for e in elements]}
    lanes = int(np.prod(shape))
    out = evaluate(fold.combine, lanes, lambda e, value: flat[e.op][e.attr])
    return [o.reshape(shape) for o in out]


def _identity(fold: Fold, lanes: int) -> list[np.ndarray]:
    def leaf(e: Expr, value: Any) -> np.ndarray:
        raise TypeError(f"an identity must be constant, got {e}")

    return evaluate(fold.identity, lanes, leaf)


def _with_identity(fold: Fold, outcome: Sequence[np.ndarray] | None, lanes: int) -> list[np.ndarray]:
    first = _identity(fold, lanes)
    return first if outcome is None else combine(fold, first, outcome)


def tree(fold: Fold, items: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The halving tree over axis 0."""
    items = [x.copy() for x in items]
    n = len(items[0])
    h = (1 << max(n - 1, 0).bit_length()) // 2
    while h:
        count = min(h, n - h)
        if count > 0:
            new = combine(fold, [x[:count] for x in items], [x[h : h + count] for x in items])
            for x, y in zip(items, new, strict=True):
                x[:count] = y
        h //= 2
    return [x[0] for x in items]


def fold_block(fold: Fold, elements: Sequence[np.ndarray]) -> list[np.ndarray]:
    """At most BLOCK elements: lanes, then the tree over them."""
    lanes = [e[:LANES].copy() for e in elements]
    for start in range(LANES, len(elements[0]), LANES):
        row = [e[start : start + LANES] for e in elements]
        count = len(row[0])
        new = combine(fold, [x[:count] for x in lanes], row)
        for x, y in zip(lanes, new, strict=True):
            x[:count] = y
    return tree(fold, lanes)


def canonical(fold: Fold, elements: Sequence[np.ndarray]) -> list[np.ndarray]:
    n, lanes = elements[0].shape
    if n == 0:
        return _identity(fold, lanes)
    blocks = [fold_block(fold, [e[k : k + BLOCK] for e in elements]) for k in range(0, n, BLOCK)]
    return _with_identity(fold, tree(fold, [np.stack(x) for x in zip(*blocks, strict=True)]), lanes)


__all__ = ["canonical", "combine", "fold_block", "run", "tree"]
