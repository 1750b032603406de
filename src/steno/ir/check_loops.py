"""The checker of loop programs: everything the code generator takes for granted.

`check(program)` raises InvalidProgram, which says where and why.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NoReturn, final

import numpy as np

from steno.ir.expr import OUTLINED, PRIMITIVE, Expr, index_values, topological
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
    Kernel,
    Loop,
    MapStage,
    Poison,
    Program,
    Row,
    RowReduce,
    Stage,
    Statement,
    Store,
)

BOOL, I64, F16, F32 = (np.dtype(n) for n in ("bool", "int64", "float16", "float32"))
LOCAL_BYTES = 1 << 16

_FLOAT, _INTEGER, _NUMBER, _BITS = "f", "iu", "iuf", "biu"
# op -> (kinds of the result, number of operands) where operands and result have one dtype
_UNIFORM = {
    **dict.fromkeys(("add", "sub", "mul", "div", "rem"), (_NUMBER, 2)),
    **dict.fromkeys(("min", "max"), ("biuf", 2)),
    **dict.fromkeys(("neg", "abs"), (_NUMBER, 1)),
    **dict.fromkeys(("sqrt", "floor", "ceil", "round_even", "trunc"), (_FLOAT, 1)),
    **dict.fromkeys(("and", "or", "xor"), (_BITS, 2)),
    **dict.fromkeys(("shl", "lshr", "ashr"), (_INTEGER, 2)),
    **dict.fromkeys(("clz", "popcnt"), (_INTEGER, 1)),
    "fma": (_FLOAT, 3),
    "scale": (_FLOAT, 2),
    "copysign": (_FLOAT, 2),
    "not": (_BITS, 1),
    "mulhi": ("u", 2),
}
_COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))


class InvalidProgram(ValueError):
    """A loop program that breaks a rule of `ir/loops.py` or `ir/expr.py`."""


def check(program: Program) -> None:
    """InvalidProgram unless the program is well-formed."""
    _Checker(program).run()


@final
class _Checker:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.where = "program"
        self.readable: set[Buffer] = {*program.inputs, *program.outputs, *program.arena}
        self.writable: set[Buffer] = {*program.outputs, *program.arena}
        self.written: set[Buffer] = set()  # of the arena, so far
        self.variables: set[LoopVar] = set()
        self.locals: dict[str, np.dtype] = {}
        self.checked: set[Expr] = set()

    def fail(self, why: str) -> NoReturn:
        raise InvalidProgram(f"{self.where}: {why}")

    def run(self, outside: str = "") -> None:
        p = self.program
        self.where = outside + self.where
        if len(p.arena) != len(p.offsets):
            self.fail(f"{len(p.arena)} arena buffers, {len(p.offsets)} offsets")
        if p.lenders and len(p.lenders) != len(p.arena):
            self.fail(f"{len(p.arena)} arena buffers, {len(p.lenders)} lenders")
        for b, lender, offset in p.places():
            end = offset + b.size * b.dtype.itemsize
            room = p.arena_bytes if lender is None else lender.size * lender.dtype.itemsize
            if offset % 64 or offset < 0 or end > room:
                where = "an arena" if lender is None else f"output {lender.name}"
                self.fail(f"buffer {b.name} at [{offset}, {end}) of {where} of {room} bytes; offsets are multiples of 64")
            if lender is not None and (lender not in p.outputs or lender in p.inputs or not lender.aligned):
                self.fail(f"buffer {b.name} lies in {lender.name}, which is no aligned output with memory of its own")
        for b in self.readable:
            if b.dtype not in PRIMITIVE and b.dtype != F16 or b.size < 0:
                self.fail(f"buffer {b.name} is {b.dtype}[{b.size}]; a primitive dtype and a size of 0 or more are wanted")
        for k, s in enumerate(p.statements):
            self.where = f"{outside}statement {k}"
            self.flow(s)
            if isinstance(s, Kernel):
                self.where += f", kernel {s.name}"
                self.kernel(s)
            elif isinstance(s, CallThen):
                self.then(s)
            elif isinstance(s, CopyBuffer):
                self.has(self.readable, s.source)
                self.has(self.writable, s.target)
                if (s.source.dtype, s.source.size) != (s.target.dtype, s.target.size):
                    self.fail(f"copies {s.source.dtype}[{s.source.size}] to {s.target.dtype}[{s.target.size}]")
            elif isinstance(s, Loop):
                self.loop(s)
            elif isinstance(s, Poison):
                for b in s.buffers:
                    self.has(self.writable, b)
            elif isinstance(s, Choice):
                self.has(self.readable, s.index)
                for program, inputs in s.branches:
                    self.fit(program, inputs, s.outputs, s.scratch)
            else:
                for b in s.buffers:
                    self.has(self.readable, b)

    def then(self, s: CallThen) -> None:
        for b in s.call.buffers:
            self.has(self.readable, b)
        points = math.prod(v.extent for v in s.kernel.outer)
        if s.rows < 1 or s.columns < 1 or s.result.size != s.rows * s.columns or points % s.rows:
            self.fail(f"{points} points of kernel {s.kernel.name} on {s.rows} rows of {s.columns} in {s.result.size} elements")
        self.where += f", kernel {s.kernel.name}"
        self.kernel(s.kernel)

    def loop(self, s: Loop) -> None:
        def buffers(arguments: Sequence[Argument], role: int) -> list[Buffer | Row]:
            out: list[Buffer | Row] = []
            for a in arguments:
                if isinstance(a, Carried):
                    home, partner = s.carries[a.position]
                    out.append(home if role == 0 or partner is None else partner)
                else:
                    out.append(a if isinstance(a, Row) else a.buffer)
            return out

        if (s.cond is None) != (s.flag is None) or (s.cond is None) != (s.length is not None):
            self.fail("a loop has a length, or a test and a flag")
        for home, partner in s.carries:
            self.has(self.writable, home)
            if partner is not None and (partner.size, partner.dtype) != (home.size, home.dtype):
                self.fail(f"carry {home.name} and its partner {partner.name} differ")
        self.fit(s.body, buffers(s.inputs, 0), buffers(s.outputs, 1), s.scratch, s.length)
        if s.cond is not None and s.flag is not None:
            self.fit(s.cond, buffers(s.cond_inputs, 0), [s.flag], s.scratch)

    def fit(
        self, program: Program, inputs: Sequence[Buffer | Row], outputs: Sequence[Buffer | Row], scratch: Buffer, length: int | None = None
    ) -> None:
        """A nested program, and whether these may be its arguments."""
        where = self.where
        self.has(self.writable, scratch)
        if scratch.size * scratch.dtype.itemsize < program.arena_bytes:
            self.fail(f"{scratch.name} is too small for an arena of {program.arena_bytes} bytes")
        for given, wanted, writes in ((inputs, program.inputs, False), (outputs, program.outputs, True)):
            if len(given) != len(wanted):
                self.fail(f"{len(given)} arguments for {len(wanted)} of the nested program")
            for a, b in zip(given, wanted, strict=True):
                buffer = a.buffer if isinstance(a, Row) else a
                self.has(self.writable if writes else self.readable, buffer)
                if (
                    buffer.dtype != b.dtype
                    or a.size != b.size
                    or isinstance(a, Row)
                    and length is not None
                    and a.size * length > buffer.size
                ):
                    self.fail(f"{buffer.dtype}[{a.size}] of {buffer.name} for {b.dtype}[{b.size}] {b.name}")
                if b.aligned and isinstance(a, Row):
                    self.fail(f"a row of {buffer.name} for {b.name}, which counts as aligned")
        _Checker(program).run(where + ", nested ")

    def known(self, b: Buffer) -> None:
        if b.size and b.kind == "arena" and b not in self.written:
            self.fail(f"buffer {b.name} is read before anything is written there")

    def flow(self, s: Statement) -> None:
        """Intermediates are written before they are read."""
        if isinstance(s, Kernel):
            for stage in s.stages:
                stores = getattr(stage, "stores", ())
                roots = [*getattr(stage, "elements", ()), *(x.value for x in stores), *(x.guard for x in stores if x.guard is not None)]
                roots += [e for x in stores for e in index_values(x.offset)]
                for e in topological(roots):
                    if e.op == "load":
                        self.known(e.attr[0])
                self.written.update(x.buffer for x in stores)
        elif isinstance(s, CallThen):
            self.flow(s.call)
            self.flow(s.kernel)
        elif isinstance(s, CopyBuffer):
            self.known(s.source)
            self.written.add(s.target)
        elif isinstance(s, Poison):
            self.written.difference_update(s.buffers)
        elif isinstance(s, Loop):
            for a in (*s.inputs, *s.cond_inputs):
                if not isinstance(a, Carried):
                    self.known(a.buffer)
            for home, partner in s.carries:
                self.known(home)
                self.written.update(b for b in (home, partner) if b is not None)
            self.written.update(a.buffer for a in s.outputs if isinstance(a, Row))
        elif isinstance(s, Choice):
            for b in (s.index, *(x for _, inputs in s.branches for x in inputs)):
                self.known(b)
            self.written.update(s.outputs)
        else:
            self.written.update(s.buffers)

    def has(self, buffers: set[Buffer], b: Buffer) -> None:
        if b not in buffers:
            self.fail(f"buffer {b.name} ({b.kind}) is not among those it may {'read' if buffers is self.readable else 'write'}")

    def bind(self, variables: Iterable[LoopVar]) -> None:
        for v in variables:
            if v.extent < 0:
                self.fail(f"loop {v} has extent {v.extent}")
            if v in self.variables:
                self.fail(f"loop variable {v} is bound twice")
            self.variables.add(v)

    def kernel(self, kernel: Kernel) -> None:
        saved = self.readable, self.writable
        local = {s.buffer for stage in kernel.stages for s in getattr(stage, "stores", ()) if s.buffer.kind == "local"}
        if sum(b.size * b.dtype.itemsize for b in local) > LOCAL_BYTES:
            self.fail(f"local buffers of more than {LOCAL_BYTES} bytes")
        self.readable, self.writable = saved[0] | local, saved[1] | local
        self.variables, self.locals = set(), {}
        self.bind(kernel.outer)
        kernel_name = self.where
        for k, stage in enumerate(kernel.stages):
            self.where = f"{kernel_name}, stage {k} ({type(stage).__name__})"
            self.checked = set()
            self.stage(stage, set(self.variables))
        self.readable, self.writable = saved

    def stage(self, stage: Stage, outer: set[LoopVar]) -> None:
        if isinstance(stage, MapStage):
            self.bind(stage.vars)
            self.stores(stage.stores)
            self.variables = outer
            return
        fold, count = stage.fold, len(stage.locals)
        if not len(fold.identity) == len(fold.combine) == len(stage.elements) == count:
            self.fail(f"{len(stage.elements)} elements, {len(fold.identity)} identities, {len(fold.combine)} combinations, {count} locals")
        if isinstance(stage, RowReduce) and stage.block is not None:
            self.index(stage.block)
        self.bind([stage.var])
        lane = getattr(stage, "lane", None)
        if lane is not None:
            self.bind([lane])
        dtypes = [e.dtype for e in stage.elements]
        self.exprs(stage.elements, None)
        self.exprs(fold.combine, dtypes)
        for e in topological(fold.identity):
            if e.op in ("load", "index", "local", "acc", "elt"):
                self.fail(f"the identity {e} is not constant")
        for d, c, i in zip(dtypes, fold.combine, fold.identity, strict=True):
            if c.dtype != d or i.dtype != d:
                self.fail(f"elements of {d}, combination of {c.dtype}, identity of {i.dtype}")
        before = dict(self.locals)
        self.locals.update(zip(stage.locals, dtypes, strict=True))
        if isinstance(stage, ColReduce | Cumulate):
            if isinstance(stage, ColReduce):
                self.variables.discard(stage.var)
            self.checked = set()
            self.stores(stage.stores)
            self.locals = before
        self.variables = outer

    def stores(self, stores: Iterable[Store]) -> None:
        for s in stores:
            self.has(self.writable, s.buffer)
            self.exprs([s.value], None)
            if s.value.dtype != s.buffer.dtype:
                self.fail(f"stores {s.value.dtype} to buffer {s.buffer.name} of {s.buffer.dtype}")
            self.guarded_index(s.buffer, s.offset, s.guard)

    def guarded_index(self, buffer: Buffer, offset: Index, guard: Expr | None) -> None:
        self.index(offset)
        if guard is not None:
            self.exprs([guard], None)
            if guard.dtype != BOOL:
                self.fail(f"a guard of dtype {guard.dtype}")
        elif (offset.hi < 0 or offset.lo >= buffer.size) and all(v.extent for v in self.variables):
            self.fail(f"offset {offset} lies in [{offset.lo}, {offset.hi}], outside buffer {buffer.name} of {buffer.size}")

    def index(self, i: Index) -> None:
        for atom, _ in i.terms:
            if isinstance(atom, LoopVar):
                if atom not in self.variables:
                    self.fail(f"loop variable {atom} is not bound here")
            elif isinstance(atom, FloorDiv | Mod):
                if atom.divisor <= 0:
                    self.fail(f"division by {atom.divisor}")
                self.index(atom.index)
            elif isinstance(atom, Value):
                if atom.expr.dtype != I64:
                    self.fail(f"an index value of dtype {atom.expr.dtype}")
        self.exprs(list(index_values(i)), None)

    def exprs(self, roots: Iterable[Expr], fold: list[np.dtype] | None) -> None:
        for e in topological(roots):
            if e not in self.checked:
                self.checked.add(e)
                self.expr(e, fold)

    def expr(self, e: Expr, fold: list[np.dtype] | None) -> None:
        if e.dtype not in PRIMITIVE and e.dtype != F16:
            self.fail(f"{e.op} of dtype {e.dtype}, which is not primitive")
        if e.dtype == F16 and e.op not in ("load", "convert", "bitcast", "select", "rare", "const"):
            self.fail(f"{e.op} of float16, which has storage and conversion only")
        op, kinds = e.op, [a.dtype for a in e.args]
        if op == "load":
            buffer, offset, guard = e.attr
            self.has(self.readable, buffer)
            if buffer.dtype != e.dtype:
                self.fail(f"load of {e.dtype} from buffer {buffer.name} of {buffer.dtype}")
            self.guarded_index(buffer, offset, guard)
        elif op == "index":
            self.index(e.attr)
            self.wanted(e, e.dtype == I64)
        elif op == "local":
            if self.locals.get(e.attr) != e.dtype:
                self.fail(
                    f"local {e.attr} of {e.dtype}: {'not bound here' if e.attr not in self.locals else f'it is {self.locals[e.attr]}'}"
                )
        elif op in ("acc", "elt"):
            if fold is None or not 0 <= e.attr < len(fold) or fold[e.attr] != e.dtype:
                self.fail(f"{op} {e.attr} of {e.dtype} {'outside a fold' if fold is None else f'in a fold over {fold}'}")
        elif op in _UNIFORM:
            allowed, count = _UNIFORM[op]
            self.wanted(e, len(kinds) == count and e.dtype.kind in allowed and all(k == e.dtype for k in kinds))
        elif op in _COMPARISONS:
            self.wanted(e, e.dtype == BOOL and len(kinds) == 2 and kinds[0] == kinds[1])
        elif op in ("select", "rare"):
            self.wanted(e, len(kinds) == 3 and kinds[0] == BOOL and kinds[1] == kinds[2] == e.dtype)
        elif op == "convert":
            self.wanted(e, len(kinds) == 1 and (F16 not in (e.dtype, *kinds) or {e.dtype, *kinds} <= {F16, F32}))
        elif op == "bitcast":
            self.wanted(e, len(kinds) == 1 and BOOL not in (e.dtype, *kinds) and kinds[0].itemsize == e.dtype.itemsize)
        elif op == "outline":
            if e.attr not in OUTLINED:
                self.fail(f"there is no outlined function {e.attr}")
        elif op != "const":
            self.fail(f"there is no op {op}")

    def wanted(self, e: Expr, well: bool) -> None:
        if not well:
            self.fail(f"{e.op} : {e.dtype} of operands {', '.join(str(a.dtype) for a in e.args)}")
