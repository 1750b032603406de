"""Loops whose bodies are straight-line scalar code (`points.py`): the carries stay in registers.

void k(ptr buffers, i64, i64):   buffers: the carries' homes, then the other buffers
  load the carries and what is constant
  head: test; body: load this iteration's rows, compute, store rows; latch: back to head
  store the carries
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from steno.compiler.emit_code import Code
from steno.compiler.emit_ops import MEMORY, REGISTER, Declarations
from steno.compiler.target import Target
from steno.ir.expr import Expr, topological
from steno.ir.loops import Argument, Buffer, Carried, Fixed, Kernel, Loop, MapStage, Program, Row, Store

MOST_CARRIED = 24  # elements, each a register or a slot of the stack


def _straight(program: Program) -> tuple[Store, ...] | None:
    """The stores of a program that is one kernel of scalar code with constant indices."""
    if len(program.statements) != 1:
        return None
    (kernel,) = program.statements
    if not isinstance(kernel, Kernel) or kernel.outer or len(kernel.stages) != 1:
        return None
    (stage,) = kernel.stages
    if not isinstance(stage, MapStage) or stage.vars or any(s.offset.terms or s.guard is not None for s in stage.stores):
        return None
    for e in topological(s.value for s in stage.stores):
        if e.op in ("local", "acc", "elt") or e.op == "index" or e.op == "load" and (e.attr[1].terms or e.attr[2] is not None):
            return None
    return stage.stores


def fits(loop: Loop) -> bool:
    body = _straight(loop.body)
    test = None if loop.cond is None else _straight(loop.cond)
    if body is None or loop.cond is not None and test is None:
        return False
    if sum(home.size for home, _ in loop.carries) > MOST_CARRIED:
        return False
    # each element of each carry has a next value, and everything else that is stored is a row
    position = {b: a for b, a in zip(loop.body.outputs, loop.outputs, strict=True)}
    next_values = {(a.position, s.offset.const) for s in body if isinstance(a := position.get(s.buffer), Carried)}
    wanted = {(k, at) for k, (home, _) in enumerate(loop.carries) for at in range(home.size)}
    return next_values == wanted and all(isinstance(position.get(s.buffer), Carried | Row) for s in body)


class _Loop:
    def __init__(self, loop: Loop, target: Target, declarations: Declarations) -> None:
        self.loop = loop
        self.c = Code(target, declarations, frozenset())
        self.buffers: list[Buffer] = [home for home, _ in loop.carries]
        self.carried: dict[tuple[int, int], str] = {}
        self.fixed: dict[tuple[Buffer, int], str] = {}
        self.bases: dict[Buffer, str] = {}

    def base(self, buffer: Buffer) -> str:
        """The address of a whole buffer, loaded before the loop."""
        found = self.bases.get(buffer)
        if found is None:
            if buffer not in self.buffers:
                self.buffers.append(buffer)
            k = self.buffers.index(buffer)
            at = self.c.op(f"getelementptr ptr, ptr %buffers, i64 {k}")
            found = self.bases[buffer] = self.c.op(f"load ptr, ptr {at}, align 8")
        return found

    def element(self, base: str, dtype: Any, at: int) -> str:
        return self.c.op(f"getelementptr {MEMORY[dtype]}, ptr {base}, i64 {at}") if at else base

    def load(self, base: str, dtype: Any, at: int) -> str:
        p = self.element(base, dtype, at)
        return self.c.from_memory(dtype, self.c.op(f"load {MEMORY[dtype]}, ptr {p}, align {dtype.itemsize}"), 1)

    def store(self, base: str, dtype: Any, at: int, value: str) -> None:
        p = self.element(base, dtype, at)
        self.c.say(f"store {MEMORY[dtype]} {self.c.to_memory(dtype, value, 1)}, ptr {p}, align {dtype.itemsize}")

    def compute(self, program: Program, arguments: Sequence[Argument], stores: Sequence[Store], rows: dict[Buffer, str]) -> list[str]:
        """The stores' values. `rows`: the addresses of this iteration's rows."""
        given = dict(zip(program.inputs, arguments, strict=True))
        roots = [s.value for s in stores]
        leaves: dict[Expr, str] = {}
        for e in topological(roots):
            if e.op == "load":
                buffer, offset, _ = e.attr
                a = given[buffer]
                if isinstance(a, Carried):
                    leaves[e] = self.carried[a.position, offset.const]
                elif isinstance(a, Fixed):
                    leaves[e] = self.fixed[a.buffer, offset.const]
                else:
                    leaves[e] = self.load(rows[buffer], e.dtype, offset.const)
        return self.c.inline(self.c.without_rare(roots, set()), roots, leaves, 1)

    def row_addresses(self, program_buffers: Iterable[Buffer], arguments: Sequence[Argument], number: str) -> dict[Buffer, str]:
        out = {}
        for b, a in zip(program_buffers, arguments, strict=True):
            if isinstance(a, Row):
                offset = self.c.op(f"mul i64 {number}, {a.size * a.buffer.dtype.itemsize}")
                out[b] = self.c.op(f"getelementptr i8, ptr {self.bases[a.buffer]}, i64 {offset}")
        return out

    def write(self) -> str:
        loop, c = self.loop, self.c
        body = _straight(loop.body)
        test = None if loop.cond is None else _straight(loop.cond)
        assert body is not None
        initial = {}
        for k, (home, _) in enumerate(loop.carries):
            for at in range(home.size):
                initial[k, at] = self.load(self.base(home), home.dtype, at)
                self.carried[k, at] = f"%c{k}.{at}"
        programs = [(loop.body, loop.inputs, body)] + ([(loop.cond, loop.cond_inputs, test)] if loop.cond is not None and test else [])
        for program, arguments, stores in programs:
            given = dict(zip(program.inputs, arguments, strict=True))
            for e in topological(s.value for s in stores):
                if e.op == "load" and isinstance(a := given[e.attr[0]], Fixed) and (a.buffer, e.attr[1].const) not in self.fixed:
                    self.fixed[a.buffer, e.attr[1].const] = self.load(self.base(a.buffer), e.dtype, e.attr[1].const)
        for a in (*loop.inputs, *loop.outputs):
            if isinstance(a, Row):
                self.base(a.buffer)
        c.say("br label %before")
        c.lines.append("before:")
        c.say("br label %head")
        scope = c.open()
        scope.label = "head"
        c.lines.append("head:")
        c.lines.append("  %i = phi i64 [ 0, %before ], [ %i.next, %latch ]")
        phis = len(c.lines)
        if test is not None and loop.cond is not None:
            (more,) = self.compute(loop.cond, loop.cond_inputs, test, {})
        else:
            more = c.op(f"icmp slt i64 %i, {loop.length}")
        c.say(f"br i1 {more}, label %body, label %done")
        c.lines.append("body:")
        scope.label = "body"
        number = "%i" if not loop.reverse else c.op(f"sub i64 {(loop.length or 0) - 1}, %i")
        rows = self.row_addresses(loop.body.inputs, loop.inputs, number)
        written = self.row_addresses(loop.body.outputs, loop.outputs, number)
        values = self.compute(loop.body, loop.inputs, body, rows)
        position = dict(zip(loop.body.outputs, loop.outputs, strict=True))
        following = {}
        for s, value in zip(body, values, strict=True):
            a = position[s.buffer]
            if isinstance(a, Carried):
                following[a.position, s.offset.const] = value
            else:
                self.store(written[s.buffer], s.buffer.dtype, s.offset.const, value)
        c.say("br label %latch")
        c.lines += ["latch:", "  %i.next = add nsw i64 %i, 1", "  br label %head", "done:"]
        for (k, at), name in self.carried.items():
            t = REGISTER[loop.carries[k][0].dtype]
            c.lines.insert(phis, f"  {name} = phi {t} [ {initial[k, at]}, %before ], [ {following[k, at]}, %latch ]")
        scope.label = "done"
        for k, (home, _) in enumerate(loop.carries):
            for at in range(home.size):
                self.store(self.bases[home], home.dtype, at, self.carried[k, at])
        c.close()
        return "\n".join([*c.allocas, *c.scopes[0].lines, "  ret void", "}"])


def emit_registers(loop: Loop, target: Target, declarations: Declarations) -> tuple[str, Sequence[Buffer]]:
    """(the function's text without its head, the buffers of its table) of a loop that `fits`."""
    made = _Loop(loop, target, declarations)
    text = made.write()
    return text, made.buffers
