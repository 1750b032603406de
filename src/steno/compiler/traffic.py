"""What statements read and write."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import final

from steno.compiler.loop_rewrites import stage_exprs
from steno.core.record import record
from steno.ir.expr import topological
from steno.ir.index import Index
from steno.ir.loops import Buffer, CallThen, Choice, CopyBuffer, Fixed, Kernel, LibraryCall, Loop, Row, Stage, Statement

PRODUCTS = frozenset(("steno_gemm", "steno_conv"))  # of two operands: the result, and a convolution's scratch, come behind them


@final
@record(frozen=True)
class Traffic:
    """The buffers that a statement reads and writes. `loads`: of a kernel, those of each stage."""

    reads: Set[Buffer]
    writes: Set[Buffer]
    loads: Sequence[Sequence[tuple[Buffer, Index]]] = ()


def loads_of(stage: Stage) -> list[tuple[Buffer, Index]]:
    return [(e.attr[0], e.attr[1]) for e in topological(stage_exprs(stage)) if e.op == "load"]


def traffic_of(statement: Statement) -> Traffic:
    if isinstance(statement, Kernel):
        loads = [loads_of(stage) for stage in statement.stages]
        writes = {x.buffer for stage in statement.stages for x in getattr(stage, "stores", ())}
        return Traffic({b for of_stage in loads for b, _ in of_stage}, writes, loads)
    if isinstance(statement, CallThen):
        call, then = traffic_of(statement.call), traffic_of(statement.kernel)
        return Traffic(call.reads | then.reads, call.writes | then.writes, then.loads)
    if isinstance(statement, CopyBuffer):
        return Traffic({statement.source}, {statement.target})
    if isinstance(statement, Loop):
        reads = {a.buffer for a in (*statement.inputs, *statement.cond_inputs) if isinstance(a, Fixed | Row)}
        writes = {a.buffer for a in statement.outputs if isinstance(a, Fixed | Row)} | {
            b for pair in statement.carries for b in pair if b is not None
        }
        writes.add(statement.scratch)
        if statement.flag is not None:
            writes.add(statement.flag)
        return Traffic(reads | writes, writes)
    if isinstance(statement, Choice):
        reads = {statement.index, statement.scratch, *(b for _, inputs in statement.branches for b in inputs)}
        return Traffic(reads, {statement.scratch, *statement.outputs})
    if isinstance(statement, LibraryCall) and statement.symbol in PRODUCTS:
        return Traffic(set(statement.buffers[:2]), set(statement.buffers[2:]))
    return Traffic(set(statement.buffers), set(statement.buffers))


__all__ = ["Traffic", "loads_of", "traffic_of"]
