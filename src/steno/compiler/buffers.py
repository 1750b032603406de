"""Buffer assignment: the schedule's steps in order, a place for each intermediate (`packing.py`), outputs in donated inputs where safe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from steno.compiler.epilogues import computed_in_place, fuse
from steno.compiler.graph import Constant, Graph, Input, Value
from steno.compiler.packing import own_places, pack
from steno.compiler.schedule import Schedule
from steno.compiler.traffic import Traffic, traffic_of
from steno.ir.loops import Buffer, CallThen, CopyBuffer, Kernel, Program, Statement


@final
@dataclass(frozen=True)
class Assigned:
    """`results[k]`: where output k of the jaxpr is: ("output", position in program.outputs), ("input", position) or ("constant", scalar).
    `aliases`: (output, donated input) whose memory it takes over."""

    program: Program
    results: tuple[tuple[str, Any], ...]
    output_values: tuple[Value, ...]
    aliases: tuple[tuple[int, int], ...]


def assign(graph: Graph, schedule: Schedule, donated: frozenset[int] = frozenset(), carried: Sequence[tuple[int, int]] = ()) -> Assigned:
    """`donated`: inputs whose memory any fitting output may take over; `carried`: pairs (output, input), for a nested program."""
    inputs = tuple(schedule.buffers[v] for v in graph.inputs)
    in_order: list[Statement] = [s for step in schedule.steps for s in step.statements]
    statements = fuse(in_order, schedule.builder, {inputs[i] for i in donated})
    results: list[tuple[str, Any]] = []
    output_values: list[Value] = []
    for v in graph.outputs:
        kind = v.node.kind
        if isinstance(kind, Input):
            results.append(("input", kind.position))
        elif isinstance(kind, Constant):
            results.append(("constant", kind.value))
        else:
            if v not in output_values:
                output_values.append(v)
            results.append(("output", output_values.index(v)))
    outputs = tuple(schedule.buffers[v] for v in output_values)
    traffic = [traffic_of(s) for s in statements]
    aliases = _aliases(graph, statements, traffic, inputs, output_values, outputs, donated)
    aliases += tuple((o, i) for o, i in carried if _safe(statements, traffic, inputs[i], outputs[o]))
    taken = {outputs[o]: inputs[i] for o, i in aliases}
    kept = [k for k, s in enumerate(statements) if not (isinstance(s, CopyBuffer) and taken.get(s.target) is s.source)]
    statements = computed_in_place([statements[k] for k in kept], schedule.builder, {*inputs, *taken})
    traffic = [traffic_of(s) for s in statements]
    # Rows of arrays are no memory for others, and what is an input's holds something from the start.
    taking = {*inputs, *taken}
    own = [b for b in outputs if b.aligned and b not in taking]
    p = pack(statements, traffic, own)
    program = Program(inputs, outputs, p.arena, p.offsets, p.size, tuple(statements), lenders=p.lenders if any(p.lenders) else ())
    return Assigned(program, tuple(results), tuple(output_values), aliases)


def _aliases(
    graph: Graph,
    statements: Sequence[Statement],
    traffic: Sequence[Traffic],
    inputs: Sequence[Buffer],
    values: Sequence[Value],
    outputs: Sequence[Buffer],
    donated: frozenset[int],
) -> tuple[tuple[int, int], ...]:
    returned = {v.node.kind.position for v in graph.outputs if isinstance(v.node.kind, Input)}
    out: list[tuple[int, int]] = []
    free = list(range(len(outputs)))
    for i in sorted(donated - returned):
        aval = graph.inputs[i].aval
        for o in free:
            v = values[o].aval
            if v.shape == aval.shape and v.dtype == aval.dtype and _safe(statements, traffic, inputs[i], outputs[o]):
                out.append((o, i))
                free.remove(o)
                break
    return tuple(out)


def _safe(statements: Sequence[Statement], traffic: Sequence[Traffic], source: Buffer, target: Buffer) -> bool:
    """Nothing reads `source` once `target` is written there; in one kernel, each element is read before it is written, at its own place."""
    writes = [k for k, t in enumerate(traffic) if target in t.writes]
    reads = [k for k, t in enumerate(traffic) if source in t.reads]
    if not writes or not reads or reads[-1] < writes[0]:
        return True
    if reads[-1] > writes[0]:
        return False
    s = statements[writes[0]]
    if isinstance(s, CopyBuffer):
        return True
    if isinstance(s, CallThen):  # which may be under way in some rows when its kernel runs on others
        if source in s.call.buffers or target in s.call.buffers:
            return False
        s = s.kernel
    return isinstance(s, Kernel) and own_places(s, traffic[writes[0]].loads, source, target)
