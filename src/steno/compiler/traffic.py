"""What statements read and write."""

from __future__ import annotations

from typing import Any

from steno.compiler.loop_rewrites import stage_exprs
from steno.ir.expr import topological
from steno.ir.index import Index
from steno.ir.loops import Buffer, CallThen, Choice, CopyBuffer, Fixed, Kernel, LibraryCall, Loop, Row, Statement

PRODUCTS = frozenset(("steno_gemm", "steno_conv"))  # of two operands: the result, and a convolution's scratch, come behind them


def loads_of(stage: Any) -> list[tuple[Buffer, Index]]:
    return [(e.attr[0], e.attr[1]) for e in topological(stage_exprs(stage)) if e.op == "load"]


def uses(statement: Statement) -> tuple[set[Buffer], set[Buffer]]:
    """The buffers a statement reads and writes."""
    if isinstance(statement, Kernel):
        reads = {b for stage in statement.stages for b, _ in loads_of(stage)}
        writes = {s.buffer for stage in statement.stages for s in getattr(stage, "stores", ())}
        return reads, writes
    if isinstance(statement, CallThen):
        (reads, writes), (more_reads, more_writes) = uses(statement.call), uses(statement.kernel)
        return reads | more_reads, writes | more_writes
    if isinstance(statement, CopyBuffer):
        return {statement.source}, {statement.target}
    if isinstance(statement, Loop):
        reads = {a.buffer for a in (*statement.inputs, *statement.cond_inputs) if isinstance(a, Fixed | Row)}
        writes = {a.buffer for a in statement.outputs if isinstance(a, Fixed | Row)} | {
            b for pair in statement.carries for b in pair if b is not None
        }
        writes.add(statement.scratch)
        if statement.flag is not None:
            writes.add(statement.flag)
        return reads | writes, writes
    if isinstance(statement, Choice):
        reads = {statement.index, statement.scratch, *(b for _, inputs in statement.branches for b in inputs)}
        return reads, {statement.scratch, *statement.outputs}
    if isinstance(statement, LibraryCall) and statement.symbol in PRODUCTS:
        return set(statement.buffers[:2]), set(statement.buffers[2:])
    return set(statement.buffers), set(statement.buffers)
