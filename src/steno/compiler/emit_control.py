"""Loops and choices in an entry function: nested programs are functions of the entry's own type, called on tables of addresses.

Loop:   tables of the inputs and outputs, filled once; head: test; fill in the rows; call; swap the carries' entries; back to head
Choice: a switch; each case fills its table and calls
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from steno.ir.loops import Argument, Buffer, Carried, Choice, Fixed, Loop, Program, Row


class AbstractEntry(Protocol):
    """What this module needs of the entry that is being written."""

    lines: list[str]

    def op(self, text: str) -> str: ...
    def address(self, buffer: Buffer) -> str: ...
    def new_table(self, size: int) -> str: ...
    def nested(self, program: Program) -> str: ...
    def check(self, status: str) -> None: ...
    def label(self, stem: str) -> str: ...
    def copy_bytes(self, to: str, source: str, size: int) -> None: ...


def _entry(e: AbstractEntry, table: str, k: int) -> str:
    return e.op(f"getelementptr ptr, ptr {table}, i64 {k}") if k else table


def _put(e: AbstractEntry, table: str, k: int, address: str) -> None:
    at = _entry(e, table, k)
    e.lines.append(f"  store ptr {address}, ptr {at}, align 8")


def _fill(e: AbstractEntry, arguments: Sequence[Argument], carries: Sequence[str]) -> str:
    """A table with all addresses that do not depend on the iteration; carries start with the given ones."""
    table = e.new_table(len(arguments))
    for k, a in enumerate(arguments):
        if isinstance(a, Fixed):
            _put(e, table, k, e.address(a.buffer))
        elif isinstance(a, Carried):
            _put(e, table, k, carries[a.position])
    return table


def emit_loop(e: AbstractEntry, loop: Loop) -> None:
    homes = [e.address(b) for b, _ in loop.carries]
    partners = [h if p is None else e.address(p) for h, (_, p) in zip(homes, loop.carries, strict=True)]
    ins = _fill(e, loop.inputs, homes)
    outs = _fill(e, loop.outputs, partners)
    rows = [
        (t, k, a, e.address(a.buffer))
        for t, args in ((ins, loop.inputs), (outs, loop.outputs))
        for k, a in enumerate(args)
        if isinstance(a, Row)
    ]
    scratch = e.address(loop.scratch)
    tests, flag = "", ""
    if loop.cond is not None:
        assert loop.flag is not None
        tests, flag = _fill(e, loop.cond_inputs, homes), e.new_table(1)
        _put(e, flag, 0, e.address(loop.flag))
    counter = e.new_table(1)
    e.lines.append(f"  store i64 0, ptr {counter}, align 8")
    head, body, done = e.label("head"), e.label("body"), e.label("done")
    e.lines += [f"  br label %{head}", f"{head}:"]
    i = e.op(f"load i64, ptr {counter}, align 8")
    if loop.cond is None:
        more = e.op(f"icmp slt i64 {i}, {loop.length}")
    else:
        e.check(e.op(f"call i32 @{e.nested(loop.cond)}(ptr {tests}, ptr {flag}, ptr {scratch}, ptr %rt)"))
        assert loop.flag is not None
        value = e.op(f"load i8, ptr {e.address(loop.flag)}, align 1")
        more = e.op(f"icmp ne i8 {value}, 0")
    e.lines += [f"  br i1 {more}, label %{body}, label %{done}", f"{body}:"]
    number = i
    if loop.reverse:
        assert loop.length is not None
        number = e.op(f"sub i64 {loop.length - 1}, {i}")
    for table, k, a, base in rows:
        offset = e.op(f"mul i64 {number}, {a.size * a.buffer.dtype.itemsize}")
        _put(e, table, k, e.op(f"getelementptr i8, ptr {base}, i64 {offset}"))
    e.check(e.op(f"call i32 @{e.nested(loop.body)}(ptr {ins}, ptr {outs}, ptr {scratch}, ptr %rt)"))
    for position, (_, partner) in enumerate(loop.carries):
        if partner is not None:
            _swap(e, loop, position, ins, outs, tests)
    following = e.op(f"add i64 {i}, 1")
    e.lines += [f"  store i64 {following}, ptr {counter}, align 8", f"  br label %{head}", f"{done}:"]
    for position, (home, partner) in enumerate(loop.carries):
        if partner is not None:
            _bring_home(e, loop, position, ins, homes[position], home)


def _places(arguments: Sequence[Argument], position: int) -> list[int]:
    return [k for k, a in enumerate(arguments) if isinstance(a, Carried) and a.position == position]


def _swap(e: AbstractEntry, loop: Loop, position: int, ins: str, outs: str, tests: str) -> None:
    (i,), (o,) = _places(loop.inputs, position), _places(loop.outputs, position)
    present = e.op(f"load ptr, ptr {_entry(e, ins, i)}, align 8")
    following = e.op(f"load ptr, ptr {_entry(e, outs, o)}, align 8")
    _put(e, ins, i, following)
    _put(e, outs, o, present)
    for k in _places(loop.cond_inputs, position):
        _put(e, tests, k, following)


def _bring_home(e: AbstractEntry, loop: Loop, position: int, ins: str, address: str, home: Buffer) -> None:
    """After an odd number of swaps the carry is in the partner."""
    (i,) = _places(loop.inputs, position)
    at = e.op(f"load ptr, ptr {_entry(e, ins, i)}, align 8")
    away = e.op(f"icmp ne ptr {at}, {address}")
    move, stay = e.label("move"), e.label("stay")
    e.lines += [f"  br i1 {away}, label %{move}, label %{stay}", f"{move}:"]
    e.copy_bytes(address, at, home.size * home.dtype.itemsize)
    e.lines += [f"  br label %{stay}", f"{stay}:"]


def emit_choice(e: AbstractEntry, choice: Choice) -> None:
    last = len(choice.branches) - 1
    outs = _fill(e, [Fixed(b) for b in choice.outputs], ())
    scratch = e.address(choice.scratch)
    value = e.op(f"load i32, ptr {e.address(choice.index)}, align 4")
    labels = [e.label(f"case{k}") for k in range(last + 1)]
    below = e.op(f"icmp slt i32 {value}, 0")
    index = e.op(f"select i1 {below}, i32 0, i32 {value}")
    cases = " ".join(f"i32 {k}, label %{labels[k]}" for k in range(last))
    done = e.label("chosen")
    e.lines.append(f"  switch i32 {index}, label %{labels[last]} [{cases}]")
    for name, (program, inputs) in zip(labels, choice.branches, strict=True):
        e.lines.append(f"{name}:")
        ins = _fill(e, [Fixed(b) for b in inputs], ())
        e.check(e.op(f"call i32 @{e.nested(program)}(ptr {ins}, ptr {outs}, ptr {scratch}, ptr %rt)"))
        e.lines.append(f"  br label %{done}")
    e.lines.append(f"{done}:")
