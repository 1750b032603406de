"""Control flow: nested graphs become nested programs, carried values buffers that change in place or swap roles.

A carry's next value is written over the present one where the body allows it (`buffers.assign` decides, by the rule for donated arguments);
otherwise it has a partner buffer. A carry that the body hands on unchanged is no carry at all. Rows of scanned arrays are read, and rows
of results written, where they lie.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from steno.compiler.graph import Choose, Graph, Node, Repeat, Value, alive
from steno.ir.expr import storage
from steno.ir.loops import Argument, Buffer, Carried, Choice, CopyBuffer, Fixed, Loop, Program, Row

if TYPE_CHECKING:
    from steno.compiler.schedule import Scheduler

UINT8, BOOL = np.dtype("uint8"), np.dtype("bool")


def place_repeat(s: Scheduler, node: Node, kind: Repeat) -> None:
    body, first, carries = kind.body, kind.body_consts, kind.carries
    operands = list(node.operands)
    cond_consts, operands = operands[: kind.cond_consts], operands[kind.cond_consts :]
    consts, operands = operands[:first], operands[first:]
    initial, operands = operands[:carries], operands[carries:]
    n_rows = len(body.inputs) - first - carries - len(body.captured)
    scanned, operands = operands[:n_rows], operands[n_rows:]
    n_captured = len(kind.cond.captured) if kind.cond is not None else 0
    cond_captured, captured = operands[:n_captured], operands[n_captured:]

    moving = [k for k in range(carries) if not _hands_on(body, k, first + k)]
    outputs = [body.outputs[k] for k in moving] + body.outputs[carries:]
    reduced = Graph(body.inputs, body.captured, alive(body.nodes, outputs), outputs, body.host_calls)
    inner = s.lower(reduced, True, frozenset(first + k for k in moving), [(p, first + k) for p, k in enumerate(moving)])
    in_place = {p for p, _ in inner.aliases}

    copies = {s.begin_copy(r, x) for r, x in zip(node.results, initial, strict=False)}
    step = s.new_step()
    s.depend(step, copies)
    step.reads.update(node.results[:carries])
    if kind.length == 0:  # the carries as they came
        for v in node.results:
            s.buffer(v)
            s.producer[v] = step
        return

    def fixed(values: list[Value]) -> list[Argument]:
        return [Fixed(s.whole(v, step)) for v in values]

    def row(v: Value, buffer: Buffer) -> Argument:
        return Row(buffer, v.size // v.shape[0] * storage(v.aval.dtype)[1]) if v.size else Fixed(buffer)

    present: list[Argument] = [Carried(moving.index(k)) if k in moving else Fixed(s.buffer(node.results[k])) for k in range(carries)]
    pairs = []
    for p, k in enumerate(moving):
        home = s.buffer(node.results[k])
        partner = None if p in in_place else Buffer(f"{home.name}.next", home.dtype, home.size, "arena")
        pairs.append((home, partner))
    results = node.results[carries:]
    written: list[Argument] = [*(Carried(p) for p in range(len(moving))), *(row(v, s.buffer(v)) for v in results)]
    scratch_bytes = inner.program.arena_bytes
    test, flag = None, None
    cond_inputs: list[Argument] = []
    if kind.cond is not None:
        made = s.lower(kind.cond, True, frozenset(), [])
        test, flag = made.program, Buffer(f"go{node.name}", BOOL, 1, "arena")
        cond_inputs = [*fixed(cond_consts), *present, *fixed(cond_captured)]
        scratch_bytes = max(scratch_bytes, test.arena_bytes)
    rows = [row(v, s.whole(v, step)) for v in scanned]
    inputs = [*fixed(consts), *present, *rows, *fixed(captured)]
    scratch = Buffer("scratch", UINT8, scratch_bytes, "arena")
    step.statements.append(
        Loop(kind.length, kind.reverse, tuple(pairs), inner.program, tuple(inputs), tuple(written), test, tuple(cond_inputs), flag, scratch)
    )
    if node.has_effects:
        s.after_effects(step)
    s.produced(node, step)


def _hands_on(body: Graph, o: int, i: int) -> bool:
    """Whether output `o` is input `i`, copied."""
    out = body.outputs[o].node
    return out.name == "copy" and len(out.operands) == 1 and out.operands[0] is body.inputs[i]


def place_choose(s: Scheduler, node: Node, kind: Choose) -> None:
    index, *rest = node.operands
    shared, rest = rest[: kind.operands], rest[kind.operands :]
    programs, changed = _branches(s, node, kind, shared)
    copies = {s.begin_copy(node.results[o], shared[i]) for o, i in changed}
    step = s.new_step()
    s.depend(step, copies)
    index_buffer = s.whole(index, step)
    home = {i: node.results[o] for o, i in changed}
    step.reads.update(home.values())
    branches: list[Any] = []
    for g, program in zip(kind.branches, programs, strict=True):
        captured, rest = rest[: len(g.captured)], rest[len(g.captured) :]
        inputs = [s.buffer(home[i]) if i in home else s.whole(v, step) for i, v in enumerate(shared)]
        branches.append((program, (*inputs, *(s.whole(v, step) for v in captured))))
    scratch = Buffer("scratch", UINT8, max(p.arena_bytes for p in programs), "arena")
    step.statements.append(Choice(index_buffer, tuple(branches), tuple(s.buffer(v) for v in node.results), scratch))
    if node.has_effects:
        s.after_effects(step)
    s.produced(node, step)


def _branches(s: Scheduler, node: Node, kind: Choose, shared: list[Value]) -> tuple[list[Program], list[tuple[int, int]]]:
    """The branches' programs, and the (result, operand) pairs of arrays that all of them begin to change as a copy: these are copied before
    the choice, if at all, and changed in place by whichever branch is taken."""
    plain = [s.lower(g, True, frozenset(), []).program for g in kind.branches]
    graphs = list(zip(kind.branches, plain, strict=True))
    changed: list[tuple[int, int]] = []
    for o, result in enumerate(node.results):
        taken = {i for _, i in changed}
        for i, x in enumerate(shared):
            if i not in taken and (x.shape, x.aval.dtype) == (result.shape, result.aval.dtype) and all(_copies(*b, o, i) for b in graphs):
                changed.append((o, i))
                break
    if not changed:
        return plain, []
    made = [s.lower(g, True, frozenset(i for _, i in changed), changed) for g in kind.branches]
    both = [pair for pair in changed if all(pair in m.aliases for m in made)]
    if not both:
        return plain, []
    if both != changed:
        made = [s.lower(g, True, frozenset(i for _, i in both), both) for g in kind.branches]
    return [m.program for m in made], both


def _copies(graph: Graph, program: Program, o: int, i: int) -> bool:
    """Whether output `o` is input `i`, handed on or changed in parts."""
    if _hands_on(graph, o, i):
        return True
    source, target = program.inputs[i], program.outputs[o]
    return any(isinstance(t, CopyBuffer) and t.source is source and t.target is target for t in program.statements)
