"""Reads the text of `print_loops.show`. SyntaxError with the line for what it does not understand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NoReturn, final

import numpy as np

from steno.ir.expr import Expr
from steno.ir.index import FloorDiv, Index, LoopVar, Mod, Value
from steno.ir.loops import (
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
    Row,
    RowReduce,
    Stage,
    Statement,
    Store,
    TreeReduce,
)

_BUFFER = re.compile(r"(\S+) (\w+)\[(~?)(\d+)\](?: @ (\d+)(?: of (\S+))?)?$")
_LOOP = re.compile(r"loop (while \S+|\d+)( reverse)? carries(.*) scratch (\S+) inputs(.*) outputs(.*)$")
_CHOICE = re.compile(r"choice (\S+) scratch (\S+) outputs(.*)$")
_TOKEN = re.compile(r"\s*(//|%\d+|[\w.]+|[-+*%(),])")
_ACCESS = re.compile(r"([^\[\s]+)\[(.*)\]$")


def parse(text: str) -> Program:
    """The program; its Exprs are shared as in the text."""
    return _Parser(text).program()


@final
class _Parser:
    def __init__(self, text: str) -> None:
        self.lines = [line.rstrip() for line in text.splitlines() if line.strip()]
        self.at = 0
        self.buffers: dict[str, Buffer] = {}
        self.variables: dict[str, LoopVar] = {}
        self.exprs: dict[str, Expr] = {}

    def fail(self, why: str) -> NoReturn:
        raise SyntaxError(
            f"loop program, line {self.at + 1}: {why}: {self.lines[self.at].strip() if self.at < len(self.lines) else 'end of text'}"
        )

    def peek(self) -> str:
        return self.lines[self.at] if self.at < len(self.lines) else ""

    def program(self) -> Program:
        if not self.peek().startswith("program arena "):
            self.fail("`program arena N` wanted")
        arena_bytes = int(self.peek().split()[2])
        self.at += 1
        inputs: list[Buffer] = []
        outputs: list[Buffer] = []
        arena: list[Buffer] = []
        offsets: list[int] = []
        lenders: list[Buffer | None] = []
        while (word := self.peek().partition(" ")[0]) in ("input", "output", "inout", "arena"):
            b, offset, lender = self.buffer(self.peek().partition(" ")[2], "output" if word == "inout" else word)
            if word in ("input", "inout") and not (word == "inout" and b in inputs):
                inputs.append(b)
            elif word in ("output", "inout"):
                outputs.append(b)
            else:
                arena.append(b)
                offsets.append(offset)
                lenders.append(lender)
            self.at += 1
        statements: list[Statement] = []
        while self.peek():
            statements.append(self.statement())
        return Program(
            tuple(inputs),
            tuple(outputs),
            tuple(arena),
            tuple(offsets),
            arena_bytes,
            tuple(statements),
            lenders=tuple(lenders) if any(lenders) else (),
        )

    def buffer(self, text: str, kind: Any) -> tuple[Buffer, int, Buffer | None]:
        m = _BUFFER.match(text)
        if m is None:
            self.fail("a buffer `name dtype[size]` wanted")
        name, dtype, row, size, offset, lender = m.groups()
        if name not in self.buffers:
            self.buffers[name] = Buffer(name, np.dtype(dtype), int(size), kind, not row)
        return self.buffers[name], int(offset or 0), None if lender is None else self.named(lender)

    def named(self, name: str) -> Buffer:
        b = self.buffers.get(name)
        if b is None:
            self.fail(f"no buffer {name}")
        return b

    def statement(self) -> Statement:
        line = self.peek()
        word = line.split()[0]
        if word == "kernel":
            return self.kernel()
        if word == "loop":
            return self.loop()
        if word == "choice":
            return self.choice()
        if word == "poison":
            filled = Poison(tuple(self.named(n) for n in line.split()[1:]))
            self.at += 1
            return filled
        m = re.match(r"(call|host) (\S+) \(([^)]*)\)(?: meta ([-\d ]*\d))?(?: operations (\S+))?(?: then rows (\d+) columns (\d+))?$", line)
        if m is not None:
            what, name, names, meta, operations, rows, columns = m.groups()
            found = tuple(self.named(n) for n in names.split())
            self.at += 1
            if what == "host":
                return HostCall(int(name), found)
            call = LibraryCall(name, found, tuple(map(int, (meta or "").split())), float(operations or 0))
            return call if rows is None else CallThen(call, self.kernel(), int(rows), int(columns))
        m = re.match(r"copy (\S+) -> (\S+)$", line)
        if m is None:
            self.fail("a statement wanted")
        out = CopyBuffer(self.named(m[1]), self.named(m[2]))
        self.at += 1
        return out

    def argument(self, word: str) -> Argument:
        kind, _, rest = word.partition(":")
        if kind == "carry" and rest.isdigit():
            return Carried(int(rest))
        if kind == "row":
            name, _, size = rest.rpartition(":")
            return Row(self.named(name), int(size))
        return Fixed(self.named(word))

    def nested(self) -> Program:
        """The program in the lines that begin with a bar."""
        lines = []
        while self.peek().startswith("| "):
            lines.append(self.peek()[2:])
            self.at += 1
        return parse("\n".join(lines))

    def loop(self) -> Loop:
        m = _LOOP.match(self.peek())
        if m is None:
            self.fail("`loop N carries ... scratch s inputs ... outputs ...` wanted")
        times, reverse, carries, scratch, inputs, outputs = m.groups()
        flag = self.named(times[len("while ") :]) if times.startswith("while ") else None
        pairs = []
        for word in carries.split():
            home, _, partner = word.partition(",")
            pairs.append((self.named(home), self.named(partner) if partner else None))
        ins, outs = (tuple(self.argument(w) for w in text.split()) for text in (inputs, outputs))
        memory = self.named(scratch)
        self.at += 1
        body = self.nested()
        cond, cond_inputs = None, ()
        if flag is not None:
            if self.peek().split()[:1] != ["test"]:
                self.fail("`test` wanted")
            cond_inputs = tuple(self.argument(w) for w in self.peek().split()[1:])
            self.at += 1
            cond = self.nested()
        length = None if flag is not None else int(times)
        return Loop(length, reverse is not None, tuple(pairs), body, ins, outs, cond, cond_inputs, flag, memory)

    def choice(self) -> Choice:
        m = _CHOICE.match(self.peek())
        if m is None:
            self.fail("`choice i scratch s outputs ...` wanted")
        index, scratch, outputs = self.named(m[1]), self.named(m[2]), tuple(self.named(w) for w in m[3].split())
        self.at += 1
        branches = []
        while self.peek().split()[:1] == ["branch"]:
            inputs = tuple(self.named(w) for w in self.peek().split()[1:])
            self.at += 1
            branches.append((self.nested(), inputs))
        return Choice(index, tuple(branches), outputs, scratch)

    def loops(self, words: Sequence[str]) -> list[LoopVar]:
        out = []
        for w in words:
            name, _, extent = w.partition(":")
            if not extent.isdigit():
                self.fail(f"a loop `name:extent` wanted, got {w!r}")
            v = self.variables[name] = LoopVar(name, int(extent))
            out.append(v)
        return out

    def kernel(self) -> Kernel:
        m = re.match(r"kernel (\S+) cost (\S+)(?: outer (.*))?$", self.peek())
        if m is None:
            self.fail("`kernel name cost ns` wanted")
        self.variables, self.exprs = {}, {}
        outer = self.loops((m[3] or "").split())
        self.at += 1
        while self.peek().startswith("  local "):
            self.buffer(self.peek().strip().partition(" ")[2], "local")
            self.at += 1
        stages = []
        while self.peek().startswith("  ") and not self.peek().startswith("   "):
            stages.append(self.stage())
        return Kernel(m[1], tuple(outer), tuple(stages), float(m[2]))

    def stage(self) -> Stage:
        head = self.peek().strip()
        word, _, rest = head.partition(" ")
        if word == "map":
            loops, _, serial = rest.partition("serial")
            variables = self.loops(loops.split())
            self.at += 1
            _, _, stores = self.body()
            return MapStage(tuple(variables), stores, int(serial or 0))
        m = re.match(r"([^-]*) -> ([^:]*?)(?: block (.*))?$", rest)
        if word not in ("row", "tree", "column", "running") or m is None:
            self.fail("a stage wanted")
        variables = self.loops(m[1].split())
        names, block_text, block_line = tuple(m[2].split()), m[3], self.at
        self.at += 1
        elements, fold, stores = self.body()
        if fold is None:
            self.fail("`elements` and `fold` wanted in the stage before")
        if word == "row":
            end, self.at = self.at, block_line
            block = None if block_text is None else self.index(block_text)
            self.at = end
            return RowReduce(variables[0], elements, fold, names, block)
        if word == "tree":
            return TreeReduce(variables[0], elements, fold, names)
        if word == "column":
            return ColReduce(variables[0], variables[1], elements, fold, names, stores)
        return Cumulate(variables[0] if len(variables) > 1 else None, variables[-1], elements, fold, names, stores)

    def body(self) -> tuple[tuple[Expr, ...], Fold | None, tuple[Store, ...]]:
        elements: tuple[Expr, ...] = ()
        fold: Fold | None = None
        stores: list[Store] = []
        while self.peek().startswith("    "):
            line = self.peek().strip()
            if line.startswith("%"):
                name, _, text = line.partition(" = ")
                self.exprs[name] = self.expr(text)
            elif line.startswith("elements "):
                elements = tuple(self.known(n) for n in line.split()[1:])
            elif line.startswith("fold "):
                combine, _, identity = line[5:].partition(" from ")
                fold = Fold(tuple(map(self.known, identity.split())), tuple(map(self.known, combine.split())))
            else:
                target, _, value = line.partition(" = ")
                buffer, offset = self.access(target)
                value, _, guard = value.partition(" if ")
                stores.append(Store(buffer, offset, self.known(value), self.known(guard) if guard else None))
            self.at += 1
        return elements, fold, tuple(stores)

    def known(self, name: str) -> Expr:
        e = self.exprs.get(name)
        if e is None:
            self.fail(f"no expression {name!r}")
        return e

    def expr(self, text: str) -> Expr:
        op, dtype_name, *words = text.split(" ")
        dtype = np.dtype(dtype_name)
        rest = " ".join(words)
        if op == "load":
            where, _, guard = rest.partition(" if ")
            return Expr(op, dtype, (), (*self.access(where), self.known(guard) if guard else None))
        if op == "index":
            return Expr(op, dtype, (), self.index(rest[1:-1]))
        if op == "const":
            value: Any = float.fromhex(rest) if dtype.kind == "f" else rest == "True" if dtype.kind == "b" else int(rest)
            return Expr(op, dtype, (), value)
        if op == "local":
            return Expr(op, dtype, (), rest)
        if op in ("acc", "elt"):
            return Expr(op, dtype, (), int(rest))
        if op == "outline":
            return Expr(op, dtype, tuple(map(self.known, words[:-1])), words[-1])
        return Expr(op, dtype, tuple(map(self.known, words)))

    def access(self, text: str) -> tuple[Buffer, Index]:
        m = _ACCESS.match(text)
        if m is None:
            self.fail("`buffer[index]` wanted")
        return self.named(m[1]), self.index(m[2])

    # index ::= term (+ term)* ; term ::= int | [int *] atom ; atom ::= name | (index // int) | (index % int) | value(%k, int, int)

    def index(self, text: str) -> Index:
        tokens = _TOKEN.findall(text)
        out, rest = self.sum(tokens)
        if rest:
            self.fail(f"index: {' '.join(rest)!r} left over")
        return out

    def sum(self, tokens: list[str]) -> tuple[Index, list[str]]:
        const = 0
        terms: list[tuple[Any, int]] = []
        while True:
            sign = 1
            if tokens and tokens[0] == "-":
                sign, tokens = -1, tokens[1:]
            if not tokens:
                self.fail("index: a term wanted")
            if tokens[0].isdigit() and tokens[1:2] != ["*"]:
                const += sign * int(tokens[0])
                tokens = tokens[1:]
            else:
                c = sign
                if tokens[0].isdigit():
                    c, tokens = sign * int(tokens[0]), tokens[2:]
                a, tokens = self.atom(tokens)
                terms.append((a, c))
            if tokens[:1] != ["+"]:
                return Index(const, tuple(terms)), tokens
            tokens = tokens[1:]

    def atom(self, tokens: list[str]) -> tuple[Any, list[str]]:
        if tokens[0] == "(":
            inner, rest = self.sum(tokens[1:])
            kind = {"//": FloorDiv, "%": Mod}.get(rest[0] if rest else "")
            if kind is None or len(rest) < 3 or rest[2] != ")":
                self.fail("index: `(index // int)` or `(index % int)` wanted")
            return kind(inner, int(rest[1])), rest[3:]
        if tokens[0] == "value":
            words: list[str] = []
            rest = tokens[1:]
            while rest and rest[0] != ")":
                words.append(rest[0])
                rest = rest[1:]
            name, low, high = "".join(words[1:]).split(",")
            return Value(self.known(name), int(low), int(high)), rest[1:]
        v = self.variables.get(tokens[0])
        if v is None:
            self.fail(f"no loop variable {tokens[0]!r}")
        return v, tokens[1:]
