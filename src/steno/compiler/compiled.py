"""A compiled program, and where it comes from: the disk, where another process left it, or the compiler.

A program is found by its fingerprint before anything of the compiler is imported: what a second process pays for a program is tracing it,
reading a file and loading the code in it."""

from __future__ import annotations

import gc
import marshal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, final

import numpy as np

from steno._native import ShapedArray
from steno.compiler.fingerprint import Unknown, fingerprint
from steno.compiler.load import CompileError, Linked, load
from steno.compiler.object_cache import digest, object_cache
from steno.compiler.target import Target, host_target
from steno.compiler.version import compiler_version
from steno.core.config import config, settings
from steno.core.jaxpr import ClosedJaxpr
from steno.core.record import record
from steno.ops.host import refuse_effects


@final
@record(frozen=True)
class Plan:
    """What to know of machine code to run it.

    imports       symbols of the runtime and of libraries that it calls
    results       where each output of the jaxpr is: ("output", position among the code's outputs), ("input", position) or
                  ("constant", scalar)
    aliases       (output, donated input) pairs that share memory
    arena_bytes   scratch memory of one run
    nanoseconds   estimated run time on one thread
    bounded       whether that is known: no loop goes on until something happens
    """

    imports: tuple[str, ...]
    results: tuple[tuple[str, Any], ...]
    aliases: tuple[tuple[int, int], ...]
    arena_bytes: int
    nanoseconds: float
    bounded: bool


@final
class Compiled:
    """A compiled program. in_avals: the jaxpr's arguments; captured: arrays closed over, which follow them; out_avals: what the code
    returns; host_calls: (callback, operand avals, result avals) by number; seconds: what each pass took, none if it came from the disk.

    `levels` (a compiler.pipeline.Levels) are made again when somebody looks at a program from the disk."""

    __slots__ = ("_levels", "captured", "host_calls", "in_avals", "jaxpr", "linked", "out_avals", "plan", "seconds")

    def __init__(
        self,
        jaxpr: ClosedJaxpr,
        plan: Plan,
        captured: Sequence[Any],
        host_calls: Sequence[Any],
        linked: Linked,
        levels: Callable[[], Any],
        seconds: Mapping[str, float],
    ) -> None:
        self.jaxpr, self.plan, self.captured, self.host_calls, self.linked, self.seconds = (
            jaxpr,
            plan,
            captured,
            host_calls,
            linked,
            seconds,
        )
        self._levels = levels
        self.in_avals: Sequence[ShapedArray] = jaxpr.in_avals
        produced = {}
        for (where, k), aval in zip(plan.results, jaxpr.out_avals, strict=True):
            if where == "output":
                produced.setdefault(k, aval)
        self.out_avals: Sequence[ShapedArray] = [produced[k] for k in range(len(produced))]

    @property
    def results(self) -> tuple[tuple[str, Any], ...]:
        return self.plan.results

    @property
    def aliases(self) -> tuple[tuple[int, int], ...]:
        return self.plan.aliases

    @property
    def levels(self) -> Any:
        return self._levels()

    @property
    def program(self) -> Any:
        """The loop program."""
        return self.levels.assigned.program

    def as_text(self, level: str = "loops") -> str:
        """The program at a level: jaxpr, graph, loops, llvm or asm."""
        if level == "jaxpr":
            return str(self.jaxpr)
        return self.levels.as_text(level)


def compile_jaxpr(closed: ClosedJaxpr, donated: frozenset[int] = frozenset(), quick: bool = False, fast: bool = False) -> Compiled:
    """Machine code for `closed` on this CPU. `donated`: positions of arguments whose memory results may take over.
    `quick`: programs of little work are compiled without optimisation, which takes a quarter of the time (and gives the same results); for
    ops that are evaluated one by one. `fast`: results may differ from those of the ops one by one, in ways that docs/configuration.md
    lists. ValueError for effects that no other program can have."""
    if not quick:
        refuse_effects(closed)
    return _found_or_compiled(closed, donated, _Kind(quick, fast=fast))


NOMINAL = (1 << 40) + 1
"""The extent of a program for any size: a bound that all sizes stay below, with a remainder whatever it is divided by."""


def compile_for_any_size(closed: ClosedJaxpr) -> Compiled:
    """Machine code for an elementwise program on vectors of NOMINAL elements (and scalars) that takes vectors of any size: the number of
    elements is the code's last argument, an int64 of rank 0, as it is the last of the program's, which does not read it."""
    return _found_or_compiled(closed, frozenset(), _Kind(quick=False, any_size=True))


@final
@record(frozen=True)
class _Kind:
    quick: bool
    any_size: bool = False
    fast: bool = False


def _found_or_compiled(closed: ClosedJaxpr, donated: frozenset[int], kind: _Kind) -> Compiled:
    collecting = gc.isenabled()
    gc.disable()  # what a compilation makes is in use until its end: to look through it again and again takes more than linear time
    try:
        kept = object_cache()
        if kept is None or config._state.verify or config._state.debug_buffers or config._state.perf_map:
            return _compile(closed, donated, kind)
        try:
            identity, constants = fingerprint(closed)
        except Unknown:
            return _compile(closed, donated, kind)
        key = digest(identity, f"{sorted(donated)} {kind.quick} {kind.any_size}", _surroundings(host_target(), settings()))
        found = kept.get(key)
        if found is not None:
            with suppress(CompileError, ValueError, EOFError, TypeError, LookupError):  # it is whole, and yet not what we wrote
                return _restored(found, closed, constants, donated, kind)
        compiled = _compile(closed, donated, kind, keep=False)
        numbers = {id(c): k for k, c in enumerate(constants)}
        if not compiled.host_calls and all(id(c) in numbers for c in compiled.captured):
            kept.put(key, (_described(compiled.plan, [numbers[id(c)] for c in compiled.captured]), *compiled.linked.objects))
        return compiled
    finally:
        if collecting:
            gc.enable()


@cache
def _surroundings(target: Target, configuration: tuple[tuple[str, Any], ...] | None) -> str:
    """What code depends on besides the program, as a short text."""
    return digest(repr(target), repr(configuration), compiler_version()).hex()


def _levels(closed: ClosedJaxpr, donated: frozenset[int], kind: _Kind) -> Any:
    from steno.compiler.pipeline import Levels  # noqa: PLC0415 - heavy, on first need

    return Levels(closed, donated, kind.quick, kind.any_size, kind.fast)


def _compile(closed: ClosedJaxpr, donated: frozenset[int], kind: _Kind, keep: bool = True) -> Compiled:
    levels = _levels(closed, donated, kind)
    linked = levels.link(keep)
    return Compiled(closed, levels.plan(), levels.graph.captured, levels.graph.host_calls, linked, lambda: levels, levels.seconds)


def _described(plan: Plan, captured: Sequence[int]) -> bytes:
    results = [(where, (value.dtype.name, value.tobytes()) if isinstance(value, np.generic) else value) for where, value in plan.results]
    return marshal.dumps((plan.imports, results, plan.aliases, plan.arena_bytes, plan.nanoseconds, plan.bounded, tuple(captured)))


def _restored(found: Sequence[bytes], closed: ClosedJaxpr, constants: Sequence[Any], donated: frozenset[int], kind: _Kind) -> Compiled:
    imports, results, aliases, arena_bytes, nanoseconds, bounded, captured = marshal.loads(found[0])
    results = tuple(
        (where, np.frombuffer(value[1], np.dtype(value[0]))[0] if where == "constant" and type(value) is tuple else value)
        for where, value in results
    )
    linked = load(found[1:], host_target(), imports)

    plan = Plan(imports, results, aliases, arena_bytes, nanoseconds, bounded)
    return Compiled(closed, plan, [constants[k] for k in captured], (), linked, cache(lambda: _levels(closed, donated, kind)), {})


__all__ = ["NOMINAL", "Compiled", "Plan", "compile_for_any_size", "compile_jaxpr"]
