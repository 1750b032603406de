"""jaxpr -> machine code: the passes in order, each level kept for printing.

jaxpr --to_graph--> graph --schedule, assign--> loops --emit--> LLVM IR --link--> machine code
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, final

from steno.compiler import cost
from steno.compiler.buffers import Assigned, assign
from steno.compiler.check_plan import check_plan, check_versions, poisoned
from steno.compiler.compiled import Plan
from steno.compiler.emit import emit
from steno.compiler.graph import Graph
from steno.compiler.graph_builder import to_graph
from steno.compiler.link import OPT_LEVEL, assembly, link
from steno.compiler.load import Linked
from steno.compiler.schedule import Schedule, schedule
from steno.compiler.target import host_target
from steno.compiler.vecmath import FUNCTIONS as FUNCTIONS  # importing them fills the Builder's table
from steno.core.config import config
from steno.core.jaxpr import ClosedJaxpr
from steno.ir.check_loops import check
from steno.ir.loops import CallThen, Choice, CopyBuffer, Kernel, LibraryCall, Loop, Program, Statement
from steno.ir.print_loops import show


class _Clock:
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Any:
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start


def lower(graph: Graph, nested: bool, in_place: frozenset[int], carried: Sequence[tuple[int, int]]) -> Assigned:
    """The program of a loop's body or a branch: its outputs take over the inputs they are paired with, where that is safe."""
    return assign(graph, scheduled(graph, nested, in_place, carried), carried=carried)


def scheduled(
    graph: Graph, nested: bool = False, in_place: frozenset[int] = frozenset(), carried: Sequence[tuple[int, int]] = ()
) -> Schedule:
    made = schedule(graph, lower, nested, in_place, carried)
    if config._state.debug_buffers:
        check_versions(graph, made)
    return made


def planned(graph: Graph, donated: frozenset[int], any_size: bool) -> Assigned:
    """The program with its buffer plan. With the knob `debug_buffers` the plan is checked, and the program fills memory that holds nothing
    (not of any size: how much there is it does not know)."""
    assigned = assign(graph, scheduled(graph, in_place=donated), donated)
    if config._state.debug_buffers and not any_size:
        check_plan(assigned.program, assigned.aliases)
        assigned = replace(assigned, program=poisoned(assigned.program, assigned.aliases))
    return assigned


def estimated_ns(program: Program) -> float:
    return sum(map(_statement_ns, program.statements), 0.0)


def is_bounded(program: Program) -> bool:
    """Whether every loop has a known number of iterations."""
    for s in program.statements:
        if isinstance(s, Loop) and (s.length is None or not is_bounded(s.body)):
            return False
        if isinstance(s, Choice) and not all(is_bounded(p) for p, _ in s.branches):
            return False
    return True


def _statement_ns(s: Statement) -> float:
    if isinstance(s, Kernel):
        return s.cost
    if isinstance(s, LibraryCall):
        return cost.library_ns(s.symbol, s.operations, [(b.dtype, b.size) for b in s.buffers])
    if isinstance(s, CallThen):
        return _statement_ns(s.call) + s.kernel.cost
    if isinstance(s, Loop):
        return (s.length if s.length is not None else cost.PRESUMED_ITERATIONS) * (cost.CALL_NS + estimated_ns(s.body))
    if isinstance(s, Choice):
        return max(estimated_ns(p) for p, _ in s.branches)
    if isinstance(s, CopyBuffer):
        return cost.copy_ns(s.source.size * s.source.dtype.itemsize)
    return 0.0


@final
class Levels:
    """A program at each level; `seconds`: what each pass took. `quick`, `fast`: see `compile_jaxpr`; `any_size`: see
    `compile_for_any_size`."""

    def __init__(
        self, closed: ClosedJaxpr, donated: frozenset[int], quick: bool = False, any_size: bool = False, fast: bool = False
    ) -> None:
        self.quick = quick
        self.origin = closed.jaxpr.debug_info
        clock = _Clock()
        self.seconds = clock.seconds
        with clock("graph"):
            self.graph: Graph = to_graph(closed, fast)
        with clock("loops"):
            self.assigned = planned(self.graph, donated, any_size)
        if config._state.verify:
            check(self.assigned.program)
        with clock("llvm"):
            program = self.assigned.program
            target = host_target().fast() if fast else host_target()
            self.module = emit(program, target, program.inputs[-1] if any_size else None)
        self.nanoseconds = estimated_ns(self.assigned.program)
        self._clock = clock

    def link(self, keep: bool) -> Linked:
        """The machine code. `keep`: on disk, by its text."""
        libraries_only = not any(isinstance(s, Kernel | CallThen | Loop | Choice) for s in self.assigned.program.statements)
        opt = 0 if libraries_only or self.nanoseconds < (cost.QUICK_NS if self.quick else cost.TINY_NS) else OPT_LEVEL
        with self._clock("code"):
            linked = link(self.module, opt=opt, keep=keep, whole=config._state.perf_map)
        if config._state.perf_map:
            from steno.compiler import perf_map  # noqa: PLC0415 - on first need

            perf_map.record(linked, self.module, self.origin.func_name.replace("<unknown>", "op"))
        return linked

    def plan(self) -> Plan:
        a = self.assigned
        imports = tuple(sorted(self.module.imports))
        return Plan(imports, a.results, a.aliases, a.program.arena_bytes, self.nanoseconds, is_bounded(a.program))

    def as_text(self, level: str) -> str:
        if level == "graph":
            return str(self.graph)
        if level == "loops":
            return show(self.assigned.program)
        if level == "llvm":
            return self.module.text()
        if level == "asm":
            return assembly(self.module)
        raise ValueError(f"as_text: level must be one of 'jaxpr', 'graph', 'loops', 'llvm', 'asm', got {level!r}")
