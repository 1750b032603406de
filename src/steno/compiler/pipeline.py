"""jaxpr -> executable: the passes in order, each level kept for printing.

jaxpr --to_graph--> graph --schedule, assign--> loops --emit--> LLVM IR --link--> machine code
"""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import Any, final

from steno._native import ShapedArray
from steno.compiler.buffers import Assigned, assign
from steno.compiler.emit import Module, emit
from steno.compiler.graph import Graph, to_graph
from steno.compiler.link import OPT_LEVEL, Linked, assembly, link
from steno.compiler.schedule import schedule
from steno.compiler.target import host_target
from steno.compiler.vecmath import FUNCTIONS as FUNCTIONS  # importing them fills the Builder's table
from steno.core.config import config
from steno.core.jaxpr import ClosedJaxpr
from steno.ir.check_loops import check
from steno.ir.loops import Choice, Kernel, LibraryCall, Loop, Program
from steno.ir.print_loops import show
from steno.ops.host import refuse_effects

LIBRARY_NS = 1000.0
QUICK_NS, TINY_NS = 10_000.0, 100.0
CALL_NS, PRESUMED_ITERATIONS = 20.0, 100


@final
class Compiled:
    """A compiled program and its levels.

    in_avals: the jaxpr's arguments; captured: arrays closed over, which follow them; results: where each output of the jaxpr is:
    ("output", position among the machine code's outputs), ("input", position) or ("constant", scalar).
    """

    __slots__ = ("assigned", "captured", "graph", "in_avals", "jaxpr", "linked", "module", "out_avals", "seconds")

    def __init__(self, jaxpr: ClosedJaxpr, graph: Graph, assigned: Assigned, module: Module, linked: Linked, seconds: Mapping[str, float]):
        self.jaxpr = jaxpr
        self.in_avals: Sequence[ShapedArray] = [v.aval for v in jaxpr.jaxpr.invars]
        self.captured: Sequence[Any] = graph.captured
        self.graph = graph
        self.assigned = assigned
        self.out_avals: Sequence[ShapedArray] = [v.aval for v in assigned.output_values]
        self.module = module
        self.linked = linked
        self.seconds = seconds

    @property
    def program(self) -> Program:
        return self.assigned.program

    @property
    def results(self) -> tuple[tuple[str, Any], ...]:
        return self.assigned.results

    @property
    def nanoseconds(self) -> float:
        """Estimated run time on one thread."""
        return estimated_ns(self.program)

    @property
    def aliases(self) -> tuple[tuple[int, int], ...]:
        """(output, donated input) pairs that share memory."""
        return self.assigned.aliases

    def as_text(self, level: str = "loops") -> str:
        """The program at a level: jaxpr, graph, loops, llvm or asm."""
        if level == "jaxpr":
            return str(self.jaxpr)
        if level == "graph":
            return str(self.graph)
        if level == "loops":
            return show(self.program)
        if level == "llvm":
            return self.module.text()
        if level == "asm":
            return assembly(self.module)
        raise ValueError(f"as_text: level must be one of 'jaxpr', 'graph', 'loops', 'llvm', 'asm', got {level!r}")


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
    return assign(graph, schedule(graph, lower, nested, in_place, carried), carried=carried)


def estimated_ns(program: Program) -> float:
    total = 0.0
    for s in program.statements:
        if isinstance(s, Kernel):
            total += s.cost
        elif isinstance(s, LibraryCall):
            total += LIBRARY_NS + sum(b.size for b in s.buffers)
        elif isinstance(s, Loop):
            total += (s.length if s.length is not None else PRESUMED_ITERATIONS) * (CALL_NS + estimated_ns(s.body))
        elif isinstance(s, Choice):
            total += max(estimated_ns(p) for p, _ in s.branches)
    return total


def compile_jaxpr(closed: ClosedJaxpr, donated: frozenset[int] = frozenset(), quick: bool = False) -> Compiled:
    """Machine code for `closed` on this CPU. `donated`: positions of arguments whose memory results may take over.
    `quick`: programs of little work are compiled without optimisation, which takes a quarter of the time (and gives the same results); for
    ops that are evaluated one by one. ValueError for effects that no other program can have."""
    if not quick:
        refuse_effects(closed)
    with _no_garbage_collection():
        return _compiled(closed, donated, quick)


@contextmanager
def _no_garbage_collection() -> Any:
    """What a compilation makes is in use until its end: to look through it again and again takes more than linear time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _compiled(closed: ClosedJaxpr, donated: frozenset[int], quick: bool) -> Compiled:
    clock = _Clock()
    with clock("graph"):
        graph = to_graph(closed)
    with clock("loops"):
        assigned = assign(graph, schedule(graph, lower, in_place=donated), donated)
    if config._state.verify:
        check(assigned.program)
    with clock("llvm"):
        module = emit(assigned.program, host_target())
    libraries_only = not any(isinstance(s, (Kernel, Loop, Choice)) for s in assigned.program.statements)
    opt = 0 if libraries_only or estimated_ns(assigned.program) < (QUICK_NS if quick else TINY_NS) else OPT_LEVEL
    with clock("code"):
        linked = link(module, opt=opt)
    return Compiled(closed, graph, assigned, module, linked, clock.seconds)
