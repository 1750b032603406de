"""Loop programs as text. `parse_loops.parse` reads it back.

    program arena 128
    input x float32[1000]
    output y float32[10]
    arena t float32[100] @ 64                         in the memory of output y: `@ 64 of y`
    kernel k cost 20000.0 outer i:10
      local row float32[100]
      map v:100                                      `serial n` at the end: the first n loops are
        %0 = load float32 x[100*i + v]               offsets: sums of c*atom; atoms: v, (index // d), (index % d), value(%k, low, high)
        %1 = const float32 0x1.8p+0
        %2 = mul float32 %0 %1
        row[v] = %2                                  `if %k` at the end: the guard
      row r:100 -> s                                 `block index` at the end of a partial one; also tree r:n, column lane:n r:n,
                                                     running [lane:n] r:n
        %3 = load float32 row[r]
        elements %3
        %4 = acc float32 0
        %5 = elt float32 0
        %6 = add float32 %4 %5
        %7 = const float32 0x0.0p+0
        fold %6 from %7
      map
        %8 = local float32 s
        y[i] = %8
    call sort (x t) meta 3 1 operations 9000.0      operations: left out if 0
    call gemm (x y t) meta 4 8 then rows 4 columns 8
    kernel k ...                                    what runs on each of its rows
    host 0 (x y)
    copy x -> t
    poison t
    loop 10 reverse carries a,b c scratch s inputs x carry:0 row:t:16 outputs carry:0 carry:1
      carry a has partner b, c is changed in place; row:t:16 is the iteration's 16 elements of t; the body follows:
    | program arena 0 ...
    loop while f ...                                 f: the flag; the body follows, then
    test x carry:0
    | program arena 0 ...
    choice i scratch s outputs y
    branch x t                                       for each branch its inputs, then its program
    | program arena 0 ...

Buffers of a nested program are its own; one that may be the row of an array has `~` before its size. A buffer that is an input and an
output is `inout`. Expressions are numbered within a kernel, each written in the first stage that uses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, final

from steno.ir.expr import Expr, index_values, topological
from steno.ir.index import FloorDiv, Index, LoopVar, Value
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
    HostCall,
    Kernel,
    LibraryCall,
    Loop,
    MapStage,
    Poison,
    Program,
    RowReduce,
    Stage,
    Statement,
    Store,
)


def show(program: Program) -> str:
    return _Printer(program).text()


@final
class _Names:
    """Names made unique: the first bearer keeps it, others get a number."""

    def __init__(self) -> None:
        self.of: dict[Any, str] = {}
        self.taken: set[str] = set()

    def __call__(self, thing: Any) -> str:
        name = self.of.get(thing)
        if name is None:
            name, k = thing.name, 1
            while name in self.taken:
                k += 1
                name = f"{thing.name}.{k}"
            self.of[thing] = name
            self.taken.add(name)
        return name


@final
class _Printer:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.lines: list[str] = []
        self.buffers = _Names()
        self.variables = _Names()
        self.exprs: dict[Expr, str] = {}

    def text(self) -> str:
        p = self.program
        self.lines.append(f"program arena {p.arena_bytes}")
        both = set(p.inputs) & set(p.outputs)
        for b in p.inputs:
            self.lines.append(f"{'inout' if b in both else 'input'} {self.buffer(b)}")
        for b in p.outputs:
            self.lines.append(f"{'inout' if b in both else 'output'} {self.buffer(b)}")
        for b, lender, offset in p.places():
            self.lines.append(f"arena {self.buffer(b)} @ {offset}" + ("" if lender is None else f" of {self.buffers(lender)}"))
        for s in p.statements:
            self.statement(s)
        return "\n".join(self.lines) + "\n"

    def buffer(self, b: Buffer) -> str:
        return f"{self.buffers(b)} {b.dtype}[{'' if b.aligned else '~'}{b.size}]"

    def argument(self, a: Argument) -> str:
        if isinstance(a, Fixed):
            return self.buffers(a.buffer)
        return f"carry:{a.position}" if isinstance(a, Carried) else f"row:{self.buffers(a.buffer)}:{a.size}"

    def nested(self, program: Program) -> None:
        self.lines += ["| " + line for line in show(program).splitlines()]

    def loop(self, s: Loop) -> None:
        def words(arguments: Iterable[Argument]) -> str:
            return "".join(" " + self.argument(a) for a in arguments)

        times = f"while {self.buffers(s.flag)}" if s.flag is not None else str(s.length)
        pairs = "".join(f" {self.buffers(b)}" + (f",{self.buffers(p)}" if p is not None else "") for b, p in s.carries)
        scratch = self.buffers(s.scratch)
        head = f"loop {times}{' reverse' if s.reverse else ''} carries{pairs} scratch {scratch}"
        self.lines.append(f"{head} inputs{words(s.inputs)} outputs{words(s.outputs)}")
        self.nested(s.body)
        if s.cond is not None:
            self.lines.append(f"test{words(s.cond_inputs)}")
            self.nested(s.cond)

    def choice(self, s: Choice) -> None:
        outputs = "".join(" " + self.buffers(b) for b in s.outputs)
        self.lines.append(f"choice {self.buffers(s.index)} scratch {self.buffers(s.scratch)} outputs{outputs}")
        for program, inputs in s.branches:
            self.lines.append("branch" + "".join(" " + self.buffers(b) for b in inputs))
            self.nested(program)

    def statement(self, s: Statement) -> None:
        if isinstance(s, Kernel):
            self.kernel(s)
        elif isinstance(s, CallThen):
            self.statement(s.call)
            self.lines[-1] += f" then rows {s.rows} columns {s.columns}"
            self.kernel(s.kernel)
        elif isinstance(s, LibraryCall):
            meta = " meta " + " ".join(map(str, s.meta)) if s.meta else ""
            operations = f" operations {float(s.operations)}" if s.operations else ""
            self.lines.append(f"call {s.symbol} ({' '.join(map(self.buffers, s.buffers))}){meta}{operations}")
        elif isinstance(s, HostCall):
            self.lines.append(f"host {s.index} ({' '.join(map(self.buffers, s.buffers))})")
        elif isinstance(s, Loop):
            self.loop(s)
        elif isinstance(s, Choice):
            self.choice(s)
        elif isinstance(s, Poison):
            self.lines.append(f"poison {' '.join(map(self.buffers, s.buffers))}")
        else:
            assert isinstance(s, CopyBuffer)
            self.lines.append(f"copy {self.buffers(s.source)} -> {self.buffers(s.target)}")

    def kernel(self, kernel: Kernel) -> None:
        self.variables, self.exprs = _Names(), {}
        outer = " outer " + self.loops(kernel.outer) if kernel.outer else ""
        self.lines.append(f"kernel {kernel.name} cost {float(kernel.cost)}{outer}")
        for b in local_buffers(kernel):
            self.lines.append(f"  local {self.buffer(b)}")
        for stage in kernel.stages:
            self.stage(stage)

    def loops(self, variables: Iterable[LoopVar]) -> str:
        return " ".join(f"{self.variables(v)}:{v.extent}" for v in variables)

    def stage(self, stage: Stage) -> None:
        at = len(self.lines)
        if isinstance(stage, MapStage):
            head = f"map {self.loops(stage.vars)}{f' serial {stage.serial}' if stage.serial else ''}"
            self.stores(stage.stores)
        else:
            if isinstance(stage, RowReduce):
                head = f"row {self.loops((stage.var,))}"
            elif isinstance(stage, ColReduce):
                head = f"column {self.loops((stage.lane, stage.var))}"
            elif isinstance(stage, Cumulate):
                head = f"running {self.loops((stage.var,) if stage.lane is None else (stage.lane, stage.var))}"
            else:
                head = f"tree {self.loops((stage.var,))}"
            head += f" -> {' '.join(stage.locals)}"
            if isinstance(stage, RowReduce) and stage.block is not None:
                self.define(index_values(stage.block))
                head += f" block {self.index(stage.block)}"
            self.lines.append(f"    elements {self.define(stage.elements)}")
            combine, identity = self.define(stage.fold.combine), self.define(stage.fold.identity)
            self.lines.append(f"    fold {combine} from {identity}")
            if isinstance(stage, ColReduce | Cumulate):
                self.stores(stage.stores)
        self.lines.insert(at, "  " + head.rstrip())

    def stores(self, stores: Sequence[Store]) -> None:
        for s in stores:
            value = self.define((s.value,))
            self.define(index_values(s.offset))
            guard = "" if s.guard is None else f" if {self.define((s.guard,))}"
            self.lines.append(f"    {self.buffers(s.buffer)}[{self.index(s.offset)}] = {value}{guard}")

    def define(self, roots: Iterable[Expr]) -> str:
        """The names of `roots`, after writing what has none."""
        roots = list(roots)
        for e in topological(roots):
            if e not in self.exprs:
                self.exprs[e] = f"%{len(self.exprs)}"
                self.lines.append(f"    {self.exprs[e]} = {self.expr(e)}")
        return " ".join(self.exprs[r] for r in roots)

    def expr(self, e: Expr) -> str:
        words = [e.op, str(e.dtype), *(self.exprs[a] for a in e.args)]
        if e.op == "load":
            buffer, offset, guard = e.attr
            words.append(f"{self.buffers(buffer)}[{self.index(offset)}]")
            if guard is not None:
                words.append(f"if {self.exprs[guard]}")
        elif e.op == "index":
            words.append(f"[{self.index(e.attr)}]")
        elif e.op == "const":
            words.append(float(e.attr).hex() if e.dtype.kind == "f" else str(e.attr))
        elif e.attr is not None:
            words.append(str(e.attr))
        return " ".join(words)

    def index(self, i: Index) -> str:
        parts = [self.atom(a) if c == 1 else f"{c}*{self.atom(a)}" for a, c in i.terms]
        if i.const or not parts:
            parts.append(str(i.const))
        return " + ".join(parts)

    def atom(self, a: Any) -> str:
        if isinstance(a, LoopVar):
            return self.variables(a)
        if isinstance(a, Value):
            return f"value({self.exprs[a.expr]}, {a.low}, {a.high})"
        return f"({self.index(a.index)} {'//' if isinstance(a, FloorDiv) else '%'} {a.divisor})"


def local_buffers(kernel: Kernel) -> list[Buffer]:
    """In order of first use by a store."""
    found: dict[Buffer, None] = {}
    for stage in kernel.stages:
        for s in getattr(stage, "stores", ()):
            if s.buffer.kind == "local":
                found[s.buffer] = None
    return list(found)
