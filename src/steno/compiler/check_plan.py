"""The checker of buffer plans: that nothing is read after its memory has become another's. It shares no code with what makes the plans.

`check_versions(graph, schedule)`: values that share a buffer. A step that reads a value comes while the buffer holds that value.
`check_plan(program, shared)`: memory. Buffers of the arena, and outputs that lend their memory, that live at the same time lie apart; what
takes over the memory of another, an input or a buffer that ends there, is written when that is read no more, or element by element in
place of what was read; where a kernel reads what it also writes, no
two points that may run at the same time, or in any order, touch the same element.
`poisoned(program, shared)`: the program with `Poison` statements, which fill memory that holds nothing, so that reading it shows.

InvalidPlan says where and why. Accesses at positions or under guards that only the run knows, and divisions that hide how loops cut an
array up, are left to the poison.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn, final

import numpy as np

from steno.compiler.emit_registers import fits
from steno.compiler.expressions import Schedule
from steno.compiler.graph import Graph, Input, Value
from steno.core.record import record, replace
from steno.ir.expr import Expr, index_values, topological
from steno.ir.index import FloorDiv, Index, LoopVar, Mod
from steno.ir.interp import evaluate, evaluate_index
from steno.ir.loops import (
    Argument,
    Buffer,
    CallThen,
    Carried,
    Choice,
    ColReduce,
    CopyBuffer,
    Cumulate,
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
)

ENUMERATED = 1 << 16  # so many points are looked at one by one

Pairs = Sequence[tuple[int, int]]
"""(output, input) positions whose memory is one"""


class InvalidPlan(ValueError):
    """A buffer plan by which something is read after it was overwritten: a fault of the compiler."""


@final
@record(frozen=True)
class Accesses:
    """What a statement reads and writes, each buffer once, in the order in which they are found."""

    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]

    def all(self) -> Iterator[Buffer]:
        yield from self.reads
        yield from self.writes


def accesses(s: Statement) -> Accesses:
    reads: dict[Buffer, None] = {}
    writes: dict[Buffer, None] = {}
    if isinstance(s, Kernel):
        for stage in s.stages:
            reads.update((b, None) for b, _, _ in _loads(stage) if b.kind != "local")
            writes.update((x.buffer, None) for x in getattr(stage, "stores", ()) if x.buffer.kind != "local")
    elif isinstance(s, CallThen):
        for part in (accesses(s.call), accesses(s.kernel)):
            reads.update(dict.fromkeys(part.reads))
            writes.update(dict.fromkeys(part.writes))
    elif isinstance(s, CopyBuffer):
        reads[s.source] = writes[s.target] = None
    elif isinstance(s, Poison):
        writes.update(dict.fromkeys(s.buffers))
    elif isinstance(s, Loop):
        reads.update((a.buffer, None) for a in (*s.inputs, *s.cond_inputs) if not isinstance(a, Carried))
        reads.update((home, None) for home, _ in s.carries)
        writes.update((b, None) for pair in s.carries for b in pair if b is not None)
        writes.update((a.buffer, None) for a in s.outputs if not isinstance(a, Carried))
        writes.update((b, None) for b in (s.scratch, s.flag) if b is not None)
    elif isinstance(s, Choice):
        reads[s.index] = None
        reads.update((b, None) for _, inputs in s.branches for b in inputs)
        writes.update(dict.fromkeys((*s.outputs, s.scratch)))
    else:  # a library or a callback: which of its buffers it changes is its own affair
        reads.update(dict.fromkeys(s.buffers))
        writes.update((b, None) for b in s.buffers if b.kind != "input")
    return Accesses(tuple(reads), tuple(writes))


def _loads(stage: Stage) -> list[tuple[Buffer, Index, Expr | None]]:
    """What is read, where, and the guard of that."""
    roots: list[Expr] = [*getattr(stage, "elements", ())]
    for x in getattr(stage, "stores", ()):
        roots += [x.value, *index_values(x.offset)]
        if x.guard is not None:
            roots.append(x.guard)
    if isinstance(stage, RowReduce) and stage.block is not None:
        roots += index_values(stage.block)
    return [e.attr for e in topological(roots) if e.op == "load"]


# values that share a buffer


def check_versions(graph: Graph, schedule: Schedule) -> None:
    """InvalidPlan where a step reads a value whose buffer holds another by then, or where an output is overwritten in the end."""
    buffers = {v: b for v, b in schedule.buffers.items() if v.size}
    made: dict[int, list[Value]] = {}
    for v, step in schedule.producer.items():
        if v in buffers:
            made.setdefault(id(step), []).append(v)
    holds: dict[Buffer, set[Value]] = {buffers[v]: {v} for v in graph.inputs if v in buffers}
    belongs = set(buffers.values())
    for k, step in enumerate(schedule.steps):
        own = set(made.get(id(step), ()))
        results = {buffers[v] for v in own}
        read: set[Buffer] = set()
        written: set[Buffer] = set()
        for s in step.statements:
            a = accesses(s)
            read.update(a.reads)
            written.update(results.intersection(a.writes) if isinstance(s, LibraryCall | HostCall) else a.writes)
        noted: dict[Buffer, set[Value]] = {}
        for v in step.reads:
            if v in buffers:
                noted.setdefault(buffers[v], set()).add(v)
        # A note may be left from an attempt that was given up; what is read in fact has one, but for what the step itself has written.
        for b in read & belongs if step.statements else noted:
            if b not in noted and b not in written or b in noted and noted[b].isdisjoint(own | holds.get(b, set())):
                what = " or ".join(map(_name, noted[b])) if b in noted else "a value without a note"
                _invalid(f"step {k}", f"reads {what} from buffer {b.name}, which {_what_holds(holds.get(b))}")
        for b in written:
            holds[b] = set()
        for v in own:
            holds.setdefault(buffers[v], set()).add(v)
    for v in graph.outputs:
        if v in buffers and not isinstance(v.node.kind, Input) and v not in holds.get(buffers[v], ()):
            _invalid("the end", f"output {_name(v)} is not in buffer {buffers[v].name}, which {_what_holds(holds.get(buffers[v]))}")


def _name(v: Value) -> str:
    return f"{v.node.name}:{v.aval.str_short()}"


def _what_holds(values: set[Value] | None) -> str:
    return "holds " + " and ".join(map(_name, values)) if values else "holds no whole value"


# memory


def check_plan(program: Program, shared: Pairs = (), where: str = "program") -> None:
    """InvalidPlan unless the plan is sound. `shared`: outputs that take over inputs."""
    touched = [accesses(s) for s in program.statements]
    olds = _check_arena(program, touched, shared, where)
    for name, number in (("input", 1), ("output", 0)):
        taken = [pair[number] for pair in shared]
        if len(set(taken)) != len(taken):
            _invalid(where, f"an {name} shares memory with two others: {sorted(taken)}")
    for o, i in shared:
        old, new = program.inputs[i], program.outputs[o]
        if (old.size, old.dtype) != (new.size, new.dtype):
            _invalid(where, f"output {new.name} {new.dtype}[{new.size}] takes over input {old.name} {old.dtype}[{old.size}]")
        olds[new] = old
        _check_taken_over(program, touched, old, new, where)
    for k, (s, a) in enumerate(zip(program.statements, touched, strict=True)):
        here = f"{where}, statement {k}"
        for b in a.writes:
            if b in program.inputs and b not in program.outputs:
                _invalid(here, f"writes input {b.name}")
        if isinstance(s, Kernel):
            _check_kernel(s, olds, f"{here}, kernel {s.name}")
        elif isinstance(s, CallThen):
            _check_then(s, f"{here}, kernel {s.kernel.name}")
            _check_kernel(s.kernel, olds, f"{here}, kernel {s.kernel.name}")
        elif isinstance(s, Loop):
            _check_loop(s, here)
        elif isinstance(s, Choice):
            for n, (branch, inputs) in enumerate(s.branches):
                pairs = [(o, i) for o, b in enumerate(s.outputs) for i, x in enumerate(inputs) if x is b and b.size]
                check_plan(branch, pairs, f"{here}, branch {n}")


def _lifetimes(touched: Sequence[Accesses]) -> dict[Buffer, tuple[int, int]]:
    """The first and the last statement that uses each buffer of the arena."""
    out: dict[Buffer, tuple[int, int]] = {}
    for k, a in enumerate(touched):
        for b in a.all():
            if b.kind == "arena":
                out[b] = out.get(b, (k, k))[0], k
    return out


def _lives_of_all(program: Program, touched: Sequence[Accesses]) -> dict[Buffer, tuple[int, int]]:
    """The lifetimes of the arena's buffers, and of outputs that lend their memory: what these hold is nobody else's to the end."""
    lives = _lifetimes(touched)
    for lender in dict.fromkeys(lender for _, lender, _ in program.places() if lender is not None):
        used = [k for k, a in enumerate(touched) if lender in a.reads or lender in a.writes]
        lives[lender] = min(used, default=len(touched)), len(touched)
    return lives


def _places_of_all(program: Program) -> dict[Buffer, tuple[Buffer | None, int]]:
    places: dict[Buffer, tuple[Buffer | None, int]] = {lender: (lender, 0) for _, lender, _ in program.places() if lender is not None}
    places.update((b, (lender, offset)) for b, lender, offset in program.places())
    return places


def _handed_over(program: Program, touched: Sequence[Accesses]) -> dict[Buffer, Buffer]:
    """new -> old: the kernel that reads `old` for the last time writes `new` for the first time, in its place. Whether it does so element
    by element, `_check_kernel` finds out."""
    lives, places = _lives_of_all(program, touched), _places_of_all(program)
    ends: dict[tuple[int, Buffer | None, int, int, int], Buffer] = {}
    for b, (first, last) in lives.items():
        if b in places and first < last:
            ends[last, *places[b], b.size, b.dtype.itemsize] = b
    out: dict[Buffer, Buffer] = {}
    for b, (first, _) in lives.items():
        old = ends.get((first, *places[b], b.size, b.dtype.itemsize)) if b in places else None
        if old is None or not isinstance(program.statements[first], Kernel):
            continue
        if old in touched[first].reads and old not in touched[first].writes and b in touched[first].writes:
            out[b] = old
    return out


def _check_arena(program: Program, touched: Sequence[Accesses], shared: Pairs, where: str) -> dict[Buffer, Buffer]:
    """A sweep over the statements: what is alive lies in order of its place, and each newcomer between its neighbours. Returns what
    takes over the memory of another."""
    lives, places, handed = _lives_of_all(program, touched), _places_of_all(program), _handed_over(program, touched)
    for b, lender, offset in program.places():
        room = program.arena_bytes if lender is None else _nbytes(lender)
        if offset < 0 or offset + _nbytes(b) > room:
            space = f"an arena of {room} bytes" if lender is None else f"output {lender.name} of {room} bytes"
            _invalid(where, f"buffer {b.name} at [{offset}, {offset + _nbytes(b)}) of {space}")
        if lender is not None and (lender in program.inputs or any(program.outputs[o] is lender for o, _ in shared)):
            _invalid(where, f"buffer {b.name} lies in output {lender.name}, which is an input's memory")
    begins: dict[int, list[Buffer]] = {}
    ends: dict[int, list[Buffer]] = {}
    for b, (first, last) in lives.items():
        if b not in places:
            _invalid(where, f"buffer {b.name} has no place in the arena")
        if b.size:
            begins.setdefault(first, []).append(b)
            ends.setdefault(last, []).append(b)
    alive: dict[Buffer | None, list[tuple[int, int, int]]] = {}  # of the arena and of outputs: begin, end, number
    numbered = list(lives)
    number = {b: n for n, b in enumerate(numbered)}

    def place_of(b: Buffer) -> tuple[int, int, int]:
        return places[b][1], places[b][1] + _nbytes(b), number[b]

    for k in range(len(touched) + 1):
        ending = ends.get(k, [])
        for b in begins.get(k, ()):
            there = alive.setdefault(places[b][0], [])
            if b in handed:
                there.remove(place_of(handed[b]))
                ending.remove(handed[b])
            place = place_of(b)
            insort(there, place)
            at = there.index(place)
            for before, after in zip(there[max(at - 1, 0) : at + 1], there[max(at - 1, 0) + 1 : at + 2], strict=False):
                if before[1] > after[0]:
                    x, y = numbered[before[2]], numbered[after[2]]
                    _invalid(
                        f"{where}, statement {k}",
                        f"{x.name} (alive in statements {lives[x]}) at [{before[0]}, {before[1]}) and {y.name} (in {lives[y]}) at "
                        f"[{after[0]}, {after[1]}) overlap",
                    )
        for b in ending:
            alive[places[b][0]].remove(place_of(b))
    return handed


def _nbytes(b: Buffer) -> int:
    return b.size * b.dtype.itemsize


def _check_taken_over(program: Program, touched: Sequence[Accesses], old: Buffer, new: Buffer, where: str) -> None:
    """`new` is `old`'s memory: nothing reads `old` behind the first change; that one is a kernel (see `_check_kernel`) or a copy."""
    first = next((k for k, a in enumerate(touched) if new in a.writes), None)
    if first is None or not new.size:
        return
    for k, a in enumerate(touched):
        s = program.statements[k]
        in_turn = isinstance(s, Kernel | CopyBuffer) or isinstance(s, CallThen) and not {old, new} & set(s.call.buffers)
        if old in a.reads and (k > first or k == first and not in_turn):
            _invalid(f"{where}, statement {k}", f"reads input {old.name}, which statement {first} changes: output {new.name} takes it over")


def _check_loop(s: Loop, where: str) -> None:
    changing = {b for pair in s.carries for b in pair if b is not None} | {s.scratch}
    given = [*s.inputs, *s.cond_inputs]
    for a in given:
        if not isinstance(a, Carried) and a.buffer in changing and a.buffer.size:
            _invalid(where, f"the loop reads {a.buffer.name} as an argument and changes it")
    rows = {a.buffer for a in s.outputs if isinstance(a, Row)}
    for b in rows & ({a.buffer for a in given if not isinstance(a, Carried)} | changing):
        _invalid(where, f"the loop reads or changes {b.name} and also writes its rows")
    if len({id(b) for pair in s.carries for b in pair if b is not None}) != sum(1 + (p is not None) for _, p in s.carries):
        _invalid(where, "two carries of the loop are one buffer")
    check_plan(s.body, _in_place(s.carries, s.inputs, s.outputs), f"{where}, body")
    if s.cond is not None:
        check_plan(s.cond, (), f"{where}, test")


def _in_place(carries: Sequence[tuple[Buffer, Buffer | None]], inputs: Sequence[Argument], outputs: Sequence[Argument]) -> Pairs:
    at = {a.position: i for i, a in enumerate(inputs) if isinstance(a, Carried)}
    return [
        (o, at[a.position]) for o, a in enumerate(outputs) if isinstance(a, Carried) and carries[a.position][1] is None and a.position in at
    ]


def _check_kernel(kernel: Kernel, olds: dict[Buffer, Buffer], where: str) -> None:
    """Every pair of a store and a load of the same memory."""
    loads = [(n, *load) for n, stage in enumerate(kernel.stages) for load in _loads(stage)]
    for n, stage in enumerate(kernel.stages):
        for x in getattr(stage, "stores", ()):
            old = olds.get(x.buffer)
            for m, b, at, guard in loads:
                if b is not x.buffer and b is not old or b.kind == "local" or not b.size:
                    continue
                if b is old and m > n:
                    _invalid(where, f"stage {m} reads {b.name}, which stage {n} overwrites: {x.buffer.name} takes it over")
                if m == n and at == x.offset:
                    continue  # a point reads its own element before it changes it
                points = [*kernel.outer, *(_points(stage) if m == n else ())]
                if _meet(points, at, x.offset) and _guards_let_meet(points, at, guard, x.offset, x.guard):
                    _invalid(where, f"a point reads {b.name}[{at}], which another one writes at [{x.offset}], in any order")


def _check_then(s: CallThen, where: str) -> None:
    """The kernel runs on rows that are done while the call computes others: it keeps off those, and off what the call reads."""
    for b in accesses(s.kernel).writes:
        if b in s.call.buffers and b is not s.result:
            _invalid(where, f"writes {b.name}, which the call reads")
    extents = [v.extent for v in s.kernel.outer]
    if math.prod(extents) % s.rows:
        _invalid(where, f"has outer loops {extents} for {s.rows} rows")
    share = s.rows * s.columns // math.prod(extents)
    strides = [share * math.prod(extents[k + 1 :]) for k in range(len(extents))]
    for stage in s.kernel.stages:
        places = [at for b, at, _ in _loads(stage) if b is s.result]
        places += [x.offset for x in getattr(stage, "stores", ()) if x.buffer is s.result]
        for at in places:
            inside = at
            for v, stride in zip(s.kernel.outer, strides, strict=True):
                inside = inside - Index(0, ((v, stride),))
            if inside.lo < 0 or inside.hi >= share:
                _invalid(where, f"touches {s.result.name}[{at}], which may be in another row")


def _points(stage: Stage) -> Iterable[LoopVar]:
    """The loops of a stage whose points come in any order, or in one vector: at each, loads come before stores."""
    if isinstance(stage, MapStage):
        return stage.vars[stage.serial :]
    if isinstance(stage, ColReduce):
        return (stage.lane,)
    if isinstance(stage, Cumulate):
        return (stage.var,) if stage.lane is None else (stage.lane, stage.var)
    return ()


def _meet(points: Iterable[LoopVar], load: Index, store: Index) -> bool:
    """Whether `load` at one of the points may be `store` at another. False also where that is not known: see the text of the module."""
    moving = [v for v in points if v.extent > 1]
    if not moving or load.hi < store.lo or store.hi < load.lo:
        return False
    inside = {*_variables(load), *_variables(store)}
    if None in inside:
        return False
    if any(isinstance(a, FloorDiv | Mod) for i in (load, store) for a, _ in i.terms):
        loops = list(dict.fromkeys([*moving, *(v for v in inside if v is not None)]))
        return math.prod(v.extent for v in loops) <= ENUMERATED and _found_to_meet(moving, loops, load, store)
    if any(load.coefficient(v) != store.coefficient(v) for v in moving):
        return True
    away: dict[Any, Index] = {v: Index(0) for v in moving}
    apart = load.substitute(away) - store.substitute(away)
    reach = max(abs(apart.lo), abs(apart.hi))
    for c, extent in sorted((abs(store.coefficient(v)), v.extent) for v in moving):
        if c <= reach:
            return True
        reach += c * (extent - 1)
    return False


def _variables(index: Index) -> Iterator[LoopVar | None]:
    """The loop variables it depends on; None: it depends on what is in memory."""
    for atom, _ in index.terms:
        if isinstance(atom, FloorDiv | Mod):
            yield from _variables(atom.index)
        else:
            yield atom if isinstance(atom, LoopVar) else None


def _guards_let_meet(points: Iterable[LoopVar], load: Index, load_guard: Expr | None, store: Index, store_guard: Expr | None) -> bool:
    """For accesses that would meet if they had no guards. False also where what the guards say is not known."""
    guards = [g for g in (load_guard, store_guard) if g is not None]
    if not guards:
        return True
    leaves = [e for e in topological(guards) if not e.args and e.op != "const"]
    if any(e.op != "index" for e in leaves):
        return False
    moving = [v for v in points if v.extent > 1]
    used = dict.fromkeys([*moving, *(v for i in (load, store, *(e.attr for e in leaves)) for v in _variables(i))])
    loops = [v for v in used if v is not None]
    if None in used or math.prod(v.extent for v in loops) > ENUMERATED:
        return False
    return _found_to_meet(moving, loops, load, store, load_guard, store_guard)


def _found_to_meet(
    points: Sequence[LoopVar], loops: Sequence[LoopVar], load: Index, store: Index, load_guard: Expr | None = None,
    store_guard: Expr | None = None,
) -> bool:  # fmt: skip
    """By looking at all of them."""
    grid = np.indices([v.extent for v in loops]).reshape(len(loops), -1)
    at = dict(zip(loops, grid, strict=True))
    point = np.ravel_multi_index([at[v] for v in points], [v.extent for v in points])

    def known(e: Expr) -> np.ndarray:
        raise AssertionError(f"{e} is in memory")

    def holds(guard: Expr | None) -> np.ndarray:
        if guard is None:
            return np.ones(point.size, bool)
        return evaluate([guard], point.size, lambda e, _: evaluate_index(e.attr, at, known))[0]

    low = min(load.lo, store.lo)
    loaded, stored = (np.broadcast_to(evaluate_index(i, at, known), point.shape) - low for i in (load, store))
    reads, writes = holds(load_guard), holds(store_guard)
    first = np.full(max(load.hi, store.hi) - low + 1, point.size)
    last = np.full(first.size, -1)
    np.minimum.at(first, stored[writes], point[writes])
    np.maximum.at(last, stored[writes], point[writes])
    there = reads & (last[loaded] >= 0)
    return bool((there & ((first[loaded] != point) | (last[loaded] != point))).any())


def _invalid(where: str, why: str) -> NoReturn:
    raise InvalidPlan(f"{where}: {why}")


# poison


def poisoned(program: Program, shared: Pairs = ()) -> Program:
    """Outputs (those apart that take over inputs) are filled first; each buffer of the arena before its first use and after its last."""
    touched = [accesses(s) for s in program.statements]
    lives = _lifetimes(touched)
    handed = _handed_over(program, touched)
    kept = set(handed.values())
    begins: dict[int, list[Buffer]] = {}
    ends: dict[int, list[Buffer]] = {}
    for b, (first, last) in lives.items():
        if b.size and b not in handed:
            begins.setdefault(first, []).append(b)
        if b.size and b not in kept:
            ends.setdefault(last, []).append(b)
    taken = {o for o, _ in shared}
    fresh = tuple(b for o, b in enumerate(program.outputs) if o not in taken and b.size and b not in program.inputs)
    statements: list[Statement] = [Poison(fresh)] if fresh else []
    for k, s in enumerate(program.statements):
        if k in begins:
            statements.append(Poison(tuple(begins[k])))
        statements.append(_inside_poisoned(s))
        if k in ends:
            statements.append(Poison(tuple(ends[k])))
    return replace(program, statements=tuple(statements))


def _inside_poisoned(s: Statement) -> Statement:
    if isinstance(s, Loop) and not fits(s):
        body = poisoned(s.body, _in_place(s.carries, s.inputs, s.outputs))
        return replace(s, body=body, cond=None if s.cond is None else poisoned(s.cond))
    if isinstance(s, Choice):
        branches = []
        for branch, inputs in s.branches:
            pairs = [(o, i) for o, b in enumerate(s.outputs) for i, x in enumerate(inputs) if x is b]
            branches.append((poisoned(branch, pairs), inputs))
        return replace(s, branches=tuple(branches))
    return s


__all__ = ["InvalidPlan", "accesses", "check_plan", "check_versions", "poisoned"]
