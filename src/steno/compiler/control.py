"""Control flow: nested graphs become nested programs, carried values buffers that change in place or swap roles.

A carry's next value is written over the present one where the body allows it (`buffers.assign` decides, by the rule for donated arguments);
otherwise it has a partner buffer. A carry that the body hands on unchanged is no carry at all. Rows of scanned arrays are read, and rows
of results written, where they lie.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from steno.compiler.graph import Choose, Graph, Input, Node, Repeat, Value, alive, hands_on
from steno.ir.expr import storage
from steno.ir.kinds import Library, Update
from steno.ir.loops import Argument, Buffer, Carried, Choice, Fixed, Loop, Program, Row

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

    moving = [k for k in range(carries) if not hands_on(body, k, first + k)]
    outputs = [body.outputs[k] for k in moving] + body.outputs[carries:]
    reduced = Graph(body.inputs, body.captured, alive(body.nodes, outputs), outputs, body.host_calls)
    inner = s.lower(reduced, True, frozenset(first + k for k in moving), [(p, first + k) for p, k in enumerate(moving)])
    in_place = {p for p, _ in inner.aliases}

    copies = {s.begin_copy(r, x) for r, x in zip(node.results, initial, strict=False)}
    step = s.new_step()
    s.depend(step, copies)
    for v in node.results[:carries]:
        s.note_read(step, v)
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


def place_choose(s: Scheduler, node: Node, kind: Choose) -> None:
    index, *rest = node.operands
    shared, rest = rest[: kind.operands], rest[kind.operands :]
    programs, changed = s.choices[node]
    copies = {s.begin_copy(node.results[o], shared[i]) for o, i in changed}
    step = s.new_step()
    s.depend(step, copies)
    index_buffer = s.whole(index, step)
    home = {i: node.results[o] for o, i in changed}
    for v in home.values():
        s.note_read(step, v)
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


def lower_branches(s: Scheduler, node: Node, kind: Choose, dies: Callable[[Value], bool]) -> tuple[list[Program], list[tuple[int, int]]]:
    """The branches' programs, and the (result, operand) pairs that share memory, which the branch taken changes in place, or leaves alone.
    An operand that is still needed (`dies` says no) is copied beforehand; so it is no such pair, unless every branch would copy it."""
    shared = node.operands[1 : 1 + kind.operands]
    pairs: list[tuple[int, int]] = []
    for o, result in enumerate(node.results):
        origins = [origin(g.outputs[o]) for g in kind.branches]
        found = {i for i in origins if i is not None and i < kind.operands}
        if len(found) != 1:
            continue
        (i,) = found
        x = shared[i]
        if (x.shape, x.aval.dtype) != (result.shape, result.aval.dtype) or node.operands.count(x) > 1 or i in (k for _, k in pairs):
            continue
        if dies(x) or None not in origins and not any(hands_on(g, o, i) for g in kind.branches):
            pairs.append((o, i))
    while True:
        made = [s.lower(g, True, frozenset(i for _, i in pairs), pairs) for g in kind.branches]
        safe = [pair for pair in pairs if all(pair in m.aliases for m in made)]
        if safe == pairs:
            return [m.program for m in made], pairs
        pairs = safe


def origin(v: Value) -> int | None:
    """The input of its graph that a value is, with some elements changed."""
    while True:
        node, kind = v.node, v.node.kind
        if isinstance(kind, Input):
            return kind.position
        if isinstance(kind, Update) or node.name == "copy":
            v = node.operands[0]
        elif isinstance(kind, Library) and v.position < len(kind.in_place) and kind.in_place[v.position] >= 0:
            v = node.operands[kind.in_place[v.position]]
        elif isinstance(kind, Repeat) and v.position < kind.carries:
            v = node.operands[kind.cond_consts + kind.body_consts + v.position]
        elif isinstance(kind, Choose):
            found = {origin(g.outputs[v.position]) for g in kind.branches} - {None}
            i = found.pop() if len(found) == 1 else None
            if i is None or i >= kind.operands:
                return None
            v = node.operands[1 + i]
        else:
            return None
