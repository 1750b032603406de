"""Loop programs -> LLVM IR text: a function for each different kernel, and the entry that runs the statements in order.

    void k(ptr buffers, i64 begin, i64 end)          outer points, or units of a flat kernel's vector variable
    i32 entry(ptr in, ptr out, ptr arena, ptr rt)    0, or the first status other than 0 of a call

A kernel's buffers are numbered by first use, and nothing in its text names the program, so that equal kernels are one function.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, final

import steno.compiler.emit_outline  # noqa: F401 - adds how outlined functions are called
from steno.compiler.cost import copy_ns, grain, is_for_threads, units_for_a_thread
from steno.compiler.emit_ahead import rows_ahead
from steno.compiler.emit_code import Code
from steno.compiler.emit_control import emit_choice, emit_loop
from steno.compiler.emit_folds import ColumnReducer, RowReducer, column_unit, emit_running, emit_tree
from steno.compiler.emit_interleaved import emit_interleaved, find_interleaving
from steno.compiler.emit_maps import FLAT_UNIT, SPAN_UNIT, Range, emit_map, loaded_by, stored_by
from steno.compiler.emit_ops import Declarations
from steno.compiler.emit_registers import emit_registers, fits
from steno.compiler.emit_scopes import Bound
from steno.compiler.emit_tiles import Tiling, emit_tiles, find_tiling
from steno.compiler.load import ENTRY
from steno.compiler.structure import structure
from steno.compiler.target import X86_TRIPLE, Target
from steno.core.config import config
from steno.ir.loops import (
    Buffer,
    CallThen,
    Choice,
    ColReduce,
    CopyBuffer,
    HostCall,
    Kernel,
    LibraryCall,
    Loop,
    MapStage,
    Poison,
    Program,
    RowReduce,
    Stage,
    TreeReduce,
    poison_byte,
)

COPY_UNIT = 1 << 16  # bytes

SHORT_ROW = 16  # elements, beside which finding a point's place costs
ENOUGH_POINTS = 64

# "@?" stands for the name.
_HEAD = """define hidden void @?(ptr noundef %buffers, i64 noundef %begin, i64 noundef %end) #0 {
entry:
"""
_BLOCK_HEAD = _HEAD.replace("%end)", "%end, i64 noundef %first, i64 noundef %last)")
_METADATA = """!0 = !{!"branch_weights", i32 1, i32 2000}
!1 = !{i32 1}"""


@final
@dataclass(frozen=True)
class Module:
    """LLVM IR text in parts that can be compiled on their own: each of `functions` with the declarations."""

    triple: str
    declarations: tuple[str, ...]
    functions: tuple[tuple[str, str], ...]  # (name, text)
    imports: frozenset[str]  # symbols of the runtime and of libraries
    straight: bool = False  # the entry, the last function, has no loops
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict, compare=False)  # function -> names of the kernels it is

    def text(self) -> str:
        return self.part(range(len(self.functions)))

    def part(self, which: Sequence[int]) -> str:
        """A module with some of the functions; the others are declared."""
        chosen = [self.functions[k][1] for k in which]
        names = {self.functions[k][0] for k in which}
        others = [f"declare{t[len('define') : t.index(')') + 1]}" for n, t in self.functions if n not in names and n != ENTRY]
        attributes = 'attributes #0 = { nounwind "frame-pointer"="none" "min-legal-vector-width"="512" }'
        # What runs once, calls apart, is not worth optimisation.
        once = attributes.replace("#0 = { ", "#1 = { noinline optnone ")
        return "\n".join([f'target triple = "{self.triple}"', *self.declarations, *others, *chosen, attributes, once, _METADATA, ""])


class Then(Enum):
    """How a kernel follows a product: on whole rows, or also on some of their columns, from %first to %last."""

    ROWS = auto()
    SPANS = auto()


@final
@dataclass(frozen=True)
class KernelCode:
    """`text` of the function, without its name; `buffers` in the order of their numbers; `units` of work."""

    text: str
    buffers: tuple[Buffer, ...]
    units: int


def emit_kernel(
    kernel: Kernel, target: Target, declarations: Declarations, extent_of: Buffer | None = None, then: Then | None = None
) -> KernelCode:
    """`extent_of`: holds the extent of a flat kernel's variable, whose own is but a bound. `then`: for a kernel on blocks of a product."""
    loaded = set().union(*map(loaded_by, kernel.stages)) if kernel.stages else set()
    stored = frozenset().union(*map(stored_by, kernel.stages)) if kernel.stages else frozenset()
    c = Code(target, declarations, stored & loaded)
    c.any_size = extent_of is not None
    outer = [v for v in kernel.outer if v.extent != 1]
    units = math.prod(v.extent for v in outer)
    span, unit = None, FLAT_UNIT
    flat = _flat_extent(kernel, target) if then is None else None
    if flat is not None:
        extent, unit = flat
        units = -(-extent // unit)
        start = c.op(f"mul i64 %begin, {unit}")
        end = c.op(f"mul i64 %end, {unit}")
        if extent % unit:
            n = str(extent) if extent_of is None else c.op(f"load i64, ptr {c.base(extent_of)}, align 8")
            end = c.call("smin", "i64", 1, (end, n))
        span = (start, end)
    elif then is Then.SPANS:
        span, unit = ("%first", "%last"), SPAN_UNIT
    plan = None if then is not None or c.any_size else find_interleaving(kernel, target) or find_tiling(kernel, target)
    if plan is None and then is None:
        kernel = _with_longer_rows(kernel)
        outer = [v for v in kernel.outer if v.extent != 1]
        units = units if span is not None else math.prod(v.extent for v in outer)
    loops = [(v, v.extent) for v in outer] if plan is None else plan.loops
    if loops:
        p: str = c.open_loop("%begin", "%end")
        if plan is not None:
            units = math.prod(n for _, n in loops)
        for v, n in reversed(loops[1:]):
            c.variables[v] = Bound(1, c.op(f"urem i64 {p}, {n}") if n > 1 else "0")
            p = c.op(f"udiv i64 {p}, {n}") if n > 1 else p
        c.variables[loops[0][0]] = Bound(1, p)
    else:
        c.open()
    if isinstance(plan, Tiling):
        emit_tiles(c, plan, str(c.variables[plan.across[0]].value), str(c.variables[plan.along].value))
    elif plan is not None:
        emit_interleaved(c, plan, str(c.variables[plan.along].value))
    else:
        for stage, c.ahead in zip(kernel.stages, rows_ahead(kernel) if then is None else [()] * len(kernel.stages), strict=True):
            _emit_stage(c, stage, span, unit)
            c.lines = c.scopes[-1].lines
            if stored_by(stage) & loaded:
                c.scopes[1].memo.clear()
    if loops:
        c.close_loop()
    else:
        c.close()
    assert len(c.scopes) == 1
    passed = [b for b in c.buffers if b.kind != "local"]
    lines = list(c.allocas)
    for k, b in enumerate(passed):
        at = "%buffers"
        if k:
            at = f"{c.buffers[b]}.at"
            lines.append(f"  {at} = getelementptr ptr, ptr %buffers, i64 {k}")
        lines.append(f"  {c.buffers[b]} = load ptr, ptr {at}, align 8")
    end = ["  ret void", "}"]
    if c.streamed and target.triple == X86_TRIPLE:  # such stores are ordered by nothing else
        end.insert(0, f"  call void @{declarations.add('llvm.x86.sse.sfence', 'void', ())}()")
    head = _HEAD if then is None else _BLOCK_HEAD
    return KernelCode(head + "\n".join([*lines, *c.scopes[0].lines, *end]), tuple(passed), units)


def _with_longer_rows(kernel: Kernel) -> Kernel:
    """A map whose rows are short runs the loop around them too at each outer point, if enough points are left for threads."""
    outer = [v for v in kernel.outer if v.extent != 1]
    stage = kernel.stages[0] if len(kernel.stages) == 1 else None
    if len(outer) < 2 or not isinstance(stage, MapStage) or stage.serial:
        return kernel
    row, points = math.prod(v.extent for v in stage.vars), math.prod(v.extent for v in outer[:-1])
    if row > SHORT_ROW or points < ENOUGH_POINTS:
        return kernel
    return Kernel(kernel.name, tuple(outer[:-1]), (MapStage((outer[-1], *stage.vars), stage.stores),), kernel.cost)


def _emit_stage(c: Code, stage: Stage, span: Range | None, unit: int) -> None:
    """`span`: of the vector variable of a flat kernel or of a block's columns, in elements; see `emit_map`."""
    if isinstance(stage, MapStage):
        emit_map(c, stage, span, unit)
    elif isinstance(stage, RowReduce):
        RowReducer(c, stage).emit()
    elif isinstance(stage, TreeReduce):
        emit_tree(c, stage)
    elif isinstance(stage, ColReduce):
        ColumnReducer(c, stage).emit(span)
    else:
        emit_running(c, stage)


def _flat_extent(kernel: Kernel, target: Target) -> tuple[int, int] | None:
    """(extent, unit) of the variable that a flat kernel is split along, if it has enough work for several threads."""
    if kernel.outer or len(kernel.stages) != 1 or not is_for_threads(kernel.cost):
        return None
    stage = kernel.stages[0]
    if isinstance(stage, MapStage) and len(stage.vars) == 1 and not stage.serial and stage.vars[0].extent > FLAT_UNIT:
        return stage.vars[0].extent, FLAT_UNIT
    if isinstance(stage, ColReduce) and stage.lane.extent > (unit := column_unit(stage, target)):
        return stage.lane.extent, unit
    return None


def emit(program: Program, target: Target, extent_of: Buffer | None = None) -> Module:
    """`extent_of`: the input that holds the extent of the program's only kernel; see `compiled.compile_for_any_size`."""
    shared = _Shared(target, extent_of)
    entry = _Emitter(program, shared).text(ENTRY)
    functions = [*shared.declarations.functions.items()]
    for texts in (shared.functions, shared.programs):
        functions += [(name, text.replace("@?(", f"@{name}(", 1)) for text, name in texts.items()]
    declared = (*shared.globals, *shared.declarations.text.values())
    labels = {name: tuple(given) for name, given in shared.labels.items()}
    return Module(target.triple, declared, (*functions, (ENTRY, entry)), frozenset(shared.imports), is_straight(program), labels)


def _kernels(program: Program) -> str:
    """What stands for a program in a name: its first two kernels."""
    kernels = (s.kernel if isinstance(s, CallThen) else s for s in program.statements)
    names = [s.name for s in kernels if isinstance(s, Kernel)]
    return "+".join(names[:2]) + ("+..." if len(names) > 2 else "") or "calls"


def is_straight(program: Program) -> bool:
    return not any(isinstance(s, (Loop, Choice)) for s in program.statements)


@final
class _Shared:
    """What the functions of a module have in common. `functions`, `programs`: text -> name of kernels and of nested programs."""

    def __init__(self, target: Target, extent_of: Buffer | None) -> None:
        self.target = target
        self.extent_of = extent_of
        self.declarations = Declarations()
        self.functions: dict[str, str] = {}
        self.kernels: dict[Any, tuple[str, tuple[int, ...], int]] = {}  # by structure: the function, which buffers it takes, its units
        self.programs: dict[str, str] = {}
        self.labels: dict[str, dict[str, None]] = {}
        self.globals: list[str] = []
        self.imports: set[str] = set()


@final
class _Emitter:
    """The entry function: for each statement a table of buffer addresses, then a call."""

    def __init__(self, program: Program, shared: _Shared) -> None:
        self.program = program
        self.shared = shared
        self.target = shared.target
        self.declarations = shared.declarations
        self.globals = shared.globals
        self.imports = shared.imports
        self.lines: list[str] = []
        self.tables: list[str] = []
        self.count = 0
        self.table = 1
        self.places: dict[Buffer, tuple[str, int]] = {}
        self.lent: dict[Buffer, tuple[Buffer, int]] = {}  # in the memory of an output
        for k, b in enumerate(program.inputs):
            self.places[b] = "in", k
        for k, b in enumerate(program.outputs):
            self.places[b] = "out", k
        for b, lender, offset in program.places():
            if lender is None:
                self.places[b] = "arena", offset
            else:
                self.lent[b] = lender, offset

    def text(self, name: str) -> str:
        """The function `name` for the program."""
        for s in self.program.statements:
            if isinstance(s, Kernel):
                self.kernel(s)
            elif isinstance(s, LibraryCall):
                self.library(s)
            elif isinstance(s, CallThen):
                self.call_then(s)
            elif isinstance(s, HostCall):
                self.host(s)
            elif isinstance(s, Loop) and fits(s):
                text, buffers = emit_registers(s, self.target, self.declarations)
                self.run(self.function(_HEAD + text, f"loop_of_{_kernels(s.body)}"), buffers, 1, 0.0)
            elif isinstance(s, Loop):
                emit_loop(self, s)
            elif isinstance(s, Choice):
                emit_choice(self, s)
            elif isinstance(s, Poison):
                self.poison(s)
            else:
                self.copy(s)
        linkage = "" if name == ENTRY else "hidden "
        once = name == ENTRY and is_straight(self.program)
        head = [
            f"define {linkage}i32 @{name}(ptr noundef %in, ptr noundef %out, ptr noundef %arena, ptr noundef %rt) #{int(once)} {{",
            "entry:",
            f"  %table = alloca [{self.table} x ptr], align 16",
            *self.tables,
        ]
        return "\n".join([*head, *self.lines, "  ret i32 0", "}"])

    def nested(self, program: Program) -> str:
        """The function of a nested program."""
        body = _Emitter(program, self.shared).text("?")
        return self.named(self.shared.programs.setdefault(body, f"p{len(self.shared.programs)}"), f"program_of_{_kernels(program)}")

    def new_table(self, size: int) -> str:
        name = f"%t{len(self.tables)}"
        self.tables.append(f"  {name} = alloca [{max(size, 1)} x ptr], align 16")
        return name

    def label(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def op(self, text: str) -> str:
        self.count += 1
        name = f"%e{self.count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def address(self, buffer: Buffer) -> str:
        if buffer in self.lent:
            lender, offset = self.lent[buffer]
            start = self.address(lender)
            return self.op(f"getelementptr i8, ptr {start}, i64 {offset}") if offset else start
        where = self.places.get(buffer)
        if where is None:
            raise ValueError(f"buffer {buffer.name} is neither an input, an output nor in the arena")
        kind, k = where
        if kind == "arena":
            return self.op(f"getelementptr i8, ptr %arena, i64 {k}") if k else "%arena"
        at = self.op(f"getelementptr ptr, ptr %{kind}, i64 {k}") if k else f"%{kind}"
        return self.op(f"load ptr, ptr {at}, align 8")

    def fill_table(self, buffers: Sequence[Buffer]) -> str:
        self.table = max(self.table, len(buffers))
        for k, b in enumerate(buffers):
            p = self.address(b)
            at = self.op(f"getelementptr ptr, ptr %table, i64 {k}") if k else "%table"
            self.lines.append(f"  store ptr {p}, ptr {at}, align 8")
        return "%table"

    def function(self, text: str, label: str) -> str:
        """The function with this text, which `label` says the sense of."""
        return self.named(self.shared.functions.setdefault(text, f"k{len(self.shared.functions)}"), label)

    def named(self, name: str, label: str) -> str:
        self.shared.labels.setdefault(name, {})[label] = None
        return name

    def kernel(self, kernel: Kernel) -> None:
        extent_of = self.shared.extent_of
        if extent_of is not None:
            code = emit_kernel(kernel, self.target, self.declarations, extent_of)
            self.run_units(self.function(code.text, kernel.name), code.buffers, extent_of, kernel.cost / code.units)
            return
        name, buffers, units = self.code(kernel)
        if units:
            self.run(name, buffers, units, kernel.cost)

    def code(self, kernel: Kernel, then: Then | None = None) -> tuple[str, Sequence[Buffer], int]:
        """The function of a kernel, the buffers it takes, its units."""
        key, buffers = structure(kernel)
        key = (then, key)
        found = self.shared.kernels.get(key)
        if found is None:
            code = emit_kernel(kernel, self.target, self.declarations, None, then)
            name = self.function(code.text, kernel.name) if code.units else ""
            found = self.shared.kernels[key] = name, tuple(map(buffers.index, code.buffers)), code.units
        elif config._state.verify:
            code = emit_kernel(kernel, self.target, self.declarations, None, then)
            same = self.shared.functions.get(code.text, "") if code.units else ""
            if (same, tuple(map(buffers.index, code.buffers)), code.units) != found:
                raise AssertionError(f"kernel {kernel.name} has the structure of {found[0]}, but other code")
        name, passed, units = found
        if units:
            self.named(name, kernel.name)
        return name, [buffers[k] for k in passed], units

    def run_units(self, name: str, buffers: Sequence[Buffer], extent_of: Buffer, cost: float) -> None:
        """As many units of FLAT_UNIT elements as there are; `cost`: of a unit."""
        table = self.fill_table(buffers)
        n = self.op(f"load i64, ptr {self.address(extent_of)}, align 8")
        units = self.op(f"sdiv i64 {self.op(f'add i64 {n}, {FLAT_UNIT - 1}')}, {FLAT_UNIT}")
        least = units_for_a_thread(cost)
        self.imports.add("steno_parallel_for")
        self.declarations.add("steno_parallel_for", "void", ("ptr", "ptr", "i64", "i64"))
        few = self.op(f"icmp slt i64 {units}, {2 * least}")
        self.lines += [
            f"  br i1 {few}, label %alone, label %shared",
            "alone:",
            f"  call void @{name}(ptr {table}, i64 0, i64 {units})",
            "  br label %done",
            "shared:",
            f"  call void @steno_parallel_for(ptr @{name}, ptr {table}, i64 {units}, i64 {least})",
            "  br label %done",
            "done:",
        ]

    def run(self, name: str, buffers: Sequence[Buffer], units: int, cost: float) -> None:
        table = self.fill_table(buffers)
        least = grain(units, cost)
        if least is None:
            self.lines.append(f"  call void @{name}(ptr {table}, i64 0, i64 {units})")
            return
        self.imports.add("steno_parallel_for")
        self.declarations.add("steno_parallel_for", "void", ("ptr", "ptr", "i64", "i64"))
        self.lines.append(f"  call void @steno_parallel_for(ptr @{name}, ptr {table}, i64 {units}, i64 {least})")

    def check(self, status: str) -> None:
        """A status other than 0 ends the program."""
        bad = self.op(f"icmp ne i32 {status}, 0")
        k = self.count
        self.lines += [f"  br i1 {bad}, label %fail{k}, label %next{k}, !prof !0", f"fail{k}:", f"  ret i32 {status}", f"next{k}:"]

    def library(self, call: LibraryCall) -> None:
        table = self.fill_table(call.buffers)
        self.imports.add(call.symbol)
        self.declarations.add(call.symbol, "i32", ("ptr", "ptr"))
        self.check(self.op(f"call i32 @{call.symbol}(ptr {table}, ptr {self.meta(call.meta)})"))

    def meta(self, numbers: Sequence[int]) -> str:
        if not numbers:
            return "null"
        meta = f"@meta{len(self.globals)}"
        values = ", ".join(f"i64 {v}" for v in numbers)
        self.globals.append(f"{meta} = private unnamed_addr constant [{len(numbers)} x i64] [{values}], align 8")
        return meta

    def call_then(self, s: CallThen) -> None:
        """The numbers that the function knows the kernel by come before those of the call (`then.h`)."""
        spans = s.by_columns and s.columns > SPAN_UNIT
        name, buffers, units = self.code(s.kernel, Then.SPANS if spans else Then.ROWS)
        if not units:
            return self.library(s.call)
        own = self.new_table(len(buffers))
        for k, b in enumerate(buffers):
            p = self.address(b)
            at = self.op(f"getelementptr ptr, ptr {own}, i64 {k}") if k else own
            self.lines.append(f"  store ptr {p}, ptr {at}, align 8")
        table = self.fill_table(s.call.buffers)
        symbol = f"{s.call.symbol}_then"
        self.imports.add(symbol)
        self.declarations.add(symbol, "i32", ("ptr", "ptr", "ptr", "ptr"))
        meta = self.meta((s.points, int(spans), s.result.dtype.itemsize, round(s.kernel.cost), *s.call.meta))
        self.check(self.op(f"call i32 @{symbol}(ptr {table}, ptr {meta}, ptr @{name}, ptr {own})"))

    def host(self, call: HostCall) -> None:
        table = self.fill_table(call.buffers)
        self.imports.add("steno_host_call")
        self.declarations.add("steno_host_call", "i32", ("ptr", "i64", "ptr"))
        self.check(self.op(f"call i32 @steno_host_call(ptr %rt, i64 {call.index}, ptr {table})"))

    def copy_bytes(self, to: str, source: str, size: int) -> None:
        name = self.declarations.add("llvm.memcpy.p0.p0.i64", "void", ("ptr", "ptr", "i64", "i1"))
        self.lines.append(f"  call void @{name}(ptr {to}, ptr {source}, i64 {size}, i1 false)")

    def poison(self, poison: Poison) -> None:
        name = self.declarations.add("llvm.memset.p0.i64", "void", ("ptr", "i8", "i64", "i1"))
        for b in poison.buffers:
            byte, size = poison_byte(b.dtype), b.size * b.dtype.itemsize
            self.lines.append(f"  call void @{name}(ptr {self.address(b)}, i8 {byte}, i64 {size}, i1 false)")

    def copy(self, copy: CopyBuffer) -> None:
        size = copy.source.size * copy.source.dtype.itemsize
        if size == 0:
            return
        cost = copy_ns(size)
        if not is_for_threads(cost):
            to, source = self.address(copy.target), self.address(copy.source)
            self.copy_bytes(to, source, size)
            return
        name = self.declarations.add("llvm.memcpy.p0.p0.i64", "void", ("ptr", "ptr", "i64", "i1"))
        self.declarations.add("llvm.smin.i64", "i64", ("i64", "i64"))
        body = f"""{_HEAD}  %from = load ptr, ptr %buffers, align 8
  %to.at = getelementptr ptr, ptr %buffers, i64 1
  %to = load ptr, ptr %to.at, align 8
  %start = mul i64 %begin, {COPY_UNIT}
  %beyond = mul i64 %end, {COPY_UNIT}
  %stop = call i64 @llvm.smin.i64(i64 %beyond, i64 {size})
  %length = sub i64 %stop, %start
  %p = getelementptr i8, ptr %from, i64 %start
  %q = getelementptr i8, ptr %to, i64 %start
  call void @{name}(ptr %q, ptr %p, i64 %length, i1 false)
  ret void
}}"""
        self.run(
            self.function(body, f"copy:{copy.source.dtype}[{copy.source.size}]"), (copy.source, copy.target), -(-size // COPY_UNIT), cost
        )


__all__ = ["KernelCode", "Module", "emit", "emit_kernel"]
