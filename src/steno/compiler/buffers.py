"""Buffer assignment: the schedule's steps in order, each intermediate at an offset of one arena, outputs in donated inputs where safe."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from steno.compiler.epilogues import computed_in_place, fuse
from steno.compiler.graph import Constant, Graph, Input, Value
from steno.compiler.schedule import Schedule
from steno.compiler.traffic import loads_of, uses
from steno.ir.loops import Buffer, CallThen, CopyBuffer, Kernel, Program, Statement

ALIGN = 64
BRIEF = 16  # statements


@final
@dataclass(frozen=True)
class Assigned:
    """`results[k]`: where output k of the jaxpr is: ("output", position in program.outputs), ("input", position) or ("constant", scalar).
    `aliases`: (output, donated input) whose memory it takes over."""

    program: Program
    results: tuple[tuple[str, Any], ...]
    output_values: tuple[Value, ...]
    aliases: tuple[tuple[int, int], ...]


Place = tuple[int, int, int, int]
"""offset, end, first and last statement"""


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
    traffic = [uses(s) for s in statements]
    aliases = _aliases(graph, statements, traffic, inputs, output_values, outputs, donated)
    aliases += tuple((o, i) for o, i in carried if _safe(statements, traffic, inputs[i], outputs[o]))
    taken = {outputs[o]: inputs[i] for o, i in aliases}
    kept = [k for k, s in enumerate(statements) if not (isinstance(s, CopyBuffer) and taken.get(s.target) is s.source)]
    statements = computed_in_place([statements[k] for k in kept], schedule.builder, {*inputs, *taken})
    traffic = [uses(s) for s in statements]
    arena, offsets, total = _arena(statements, traffic)
    return Assigned(Program(inputs, outputs, arena, offsets, total, tuple(statements)), tuple(results), tuple(output_values), aliases)


def _arena(
    statements: Sequence[Statement], traffic: Sequence[tuple[set[Buffer], set[Buffer]]]
) -> tuple[tuple[Buffer, ...], tuple[int, ...], int]:
    """First fit, longest-lived and largest first: two buffers share memory only if no statement has both alive."""
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    for k, (reads, writes) in enumerate(traffic):
        for b in reads | writes:
            if b.kind == "arena":
                first.setdefault(b, k)
                last[b] = k
    placed: list[Place] = []
    lasting: list[Place] = []  # those that live long; the others are also found by statement
    brief: list[list[Place]] = [[] for _ in statements]
    where: dict[Buffer, int] = {}
    order = sorted(first, key=lambda b: (-b.size * b.dtype.itemsize, first[b], b.name))
    for b in order:
        need = -(-max(b.size * b.dtype.itemsize, 1) // ALIGN) * ALIGN
        begin, end = first[b], last[b]
        lives = range(begin, end + 1)
        is_brief = len(lives) <= BRIEF
        offset = 0
        for o, e, f, t in sorted({*lasting, *(p for k in lives for p in brief[k])}) if is_brief else placed:
            if o >= offset + need:
                break
            if offset < e and f <= end and begin <= t:
                offset = e
        place = (offset, offset + need, begin, end)
        insort(placed, place)
        if is_brief:
            for k in lives:
                brief[k].append(place)
        else:
            insort(lasting, place)
        where[b] = offset
    arena = tuple(sorted(first, key=lambda b: first[b]))
    return arena, tuple(where[b] for b in arena), max((p[1] for p in placed), default=0)


def _aliases(
    graph: Graph,
    statements: Sequence[Statement],
    traffic: Sequence[tuple[set[Buffer], set[Buffer]]],
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


def _safe(statements: Sequence[Statement], traffic: Sequence[tuple[set[Buffer], set[Buffer]]], source: Buffer, target: Buffer) -> bool:
    """Nothing reads `source` once `target` is written there; in one kernel, each element is read before it is written, at its own place."""
    writes = [k for k, (_, w) in enumerate(traffic) if target in w]
    reads = [k for k, (r, _) in enumerate(traffic) if source in r]
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
    if not isinstance(s, Kernel) or len(s.stages) != 1:
        return False
    (stage,) = s.stages
    if not s.outer and not getattr(stage, "vars", True):  # one point: it is read before it is written
        return True
    places = {x.offset for x in getattr(stage, "stores", ()) if x.buffer is target}
    return len(places) == 1 and all(offset in places for b, offset in loads_of(stage) if b is source)
