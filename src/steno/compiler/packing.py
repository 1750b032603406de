"""Where intermediates lie: each in the arena, or in the memory of an output, before the output is written there.

1. A kernel's result takes over the memory of an operand that dies there, where each element is read before it is written (`own_places`).
   Buffers that follow each other so are a `chain`, which lies at one place; one that ends in an output lies there.
2. The other chains, the largest first, each at the first place that is free while they live (first fit): in an output that is written
   later, if there is one, or else in the arena.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence, Set
from typing import final

from steno.compiler.traffic import Traffic
from steno.core.record import field, record
from steno.ir.index import Atom, Index, LoopVar
from steno.ir.loops import Buffer, Kernel, Statement

ALIGN = 64
BRIEF = 16  # statements
LENDERS = 16  # outputs whose memory is lent: the largest


@final
@record(frozen=True)
class Packing:
    """`arena[k]` lies at byte `offsets[k]` of `lenders[k]`, an output, or of the arena of `size` bytes where that is None."""

    arena: tuple[Buffer, ...]
    offsets: tuple[int, ...]
    lenders: tuple[Buffer | None, ...]
    size: int


def pack(statements: Sequence[Statement], traffic: Sequence[Traffic], outputs: Sequence[Buffer]) -> Packing:
    """`outputs`: those that are in memory of their own, aligned, and hold nothing before they are written."""
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    for k, t in enumerate(traffic):
        for b in t.reads | t.writes:
            first.setdefault(b, k)
            last[b] = k
    following = _followers(statements, traffic, first, last, frozenset(outputs))
    leader = {b: b for b in first if b.kind == "arena"}
    heads = sorted(leader.keys() - following.values(), key=lambda b: (first[b], b.name))
    until = {b: first[b] for b in outputs if b in first}
    spaces: dict[Buffer | None, _Space] = {None: _Space()}
    at: dict[Buffer, tuple[Buffer | None, int]] = {}
    chains: list[tuple[Buffer, int]] = []  # the first of each, and the last statement
    for head in heads:
        b = head
        while b.kind == "arena" and b in following:
            b = following[b]
            leader[b] = head
        if b.kind == "arena":
            chains.append((head, last[b]))
        else:
            at[head] = b, 0
            until[b] = first[head]
    lent = sorted((b for b in until if until[b]), key=lambda b: (-_nbytes(b), b.name))[:LENDERS]
    lent.sort(key=lambda b: until[b])  # what is free for a short time only is used first
    # The latest first: what is alive when an output is written cannot lie there, so it is what lives before that does.
    chains.sort(key=lambda c: (-_nbytes(c[0]), -c[1], c[0].name))
    for head, end in chains:
        begin, size = first[head], _nbytes(head)
        for lender in (*(b for b in lent if until[b] > end and _nbytes(b) >= size), None):
            space = spaces.get(lender) or spaces.setdefault(lender, _Space())
            offset = space.free(size, begin, end)
            if lender is None or offset + size <= _nbytes(lender):
                space.take(offset, size, begin, end)
                at[head] = lender, offset
                break
    arena = tuple(sorted((b for b in first if b.kind == "arena"), key=lambda b: (first[b], b.name)))
    places = [at[leader[b]] for b in arena]
    return Packing(arena, tuple(offset for _, offset in places), tuple(lender for lender, _ in places), spaces[None].size)


def _nbytes(b: Buffer) -> int:
    return b.size * b.dtype.itemsize


@final
@record(eq=False)
class _Space:
    """Memory that is given away for lifetimes. Places: (offset, end, first statement, last statement)."""

    size: int = 0
    placed: list[tuple[int, int, int, int]] = field(default_factory=list)
    lasting: list[tuple[int, int, int, int]] = field(default_factory=list)  # those that live long; the others are also found by statement
    brief: dict[int, list[tuple[int, int, int, int]]] = field(default_factory=dict)

    def free(self, size: int, begin: int, end: int) -> int:
        """The first place that is free in all these statements."""
        need, offset = _rounded(size), 0
        lives = range(begin, end + 1)
        among = sorted({*self.lasting, *(p for k in lives for p in self.brief.get(k, ()))}) if len(lives) <= BRIEF else self.placed
        for o, e, f, t in among:
            if o >= offset + need:
                break
            if offset < e and f <= end and begin <= t:
                offset = e
        return offset

    def take(self, offset: int, size: int, begin: int, end: int) -> None:
        place = (offset, offset + _rounded(size), begin, end)
        self.size = max(self.size, place[1])
        insort(self.placed, place)
        if end - begin < BRIEF:
            for k in range(begin, end + 1):
                self.brief.setdefault(k, []).append(place)
        else:
            insort(self.lasting, place)


def _rounded(size: int) -> int:
    return -(-max(size, 1) // ALIGN) * ALIGN


def _followers(
    statements: Sequence[Statement],
    traffic: Sequence[Traffic],
    first: Mapping[Buffer, int],
    last: Mapping[Buffer, int],
    outputs: Set[Buffer],
) -> dict[Buffer, Buffer]:
    """Of each intermediate the buffer that takes over its memory in the kernel that reads it last."""
    out: dict[Buffer, Buffer] = {}
    for k, (s, t) in enumerate(zip(statements, traffic, strict=True)):
        if not isinstance(s, Kernel):
            continue
        dying = [b for b in t.reads if b.kind == "arena" and last[b] == k and first[b] < k]
        born = [b for b in t.writes if first[b] == k and (b.kind == "arena" or b in outputs)] if dying else []
        dying.sort(key=lambda b: (first[b], b.name))
        for new in sorted(born, key=lambda b: (b.kind == "arena", -last[b], b.name)):
            for old in dying:
                if old.size == new.size and old.dtype.itemsize == new.dtype.itemsize and own_places(s, t.loads, old, new):
                    out[old] = new
                    dying.remove(old)
                    break
    return out


def own_places(kernel: Kernel, loads: Sequence[Sequence[tuple[Buffer, Index]]], old: Buffer, new: Buffer) -> bool:
    """Whether `new` may be `old`'s memory: each element of `old` is read before that of `new` is written. So it is where one stage stores
    `new`, reads `old` at those very places alone, and stages before it read `old` in the outer point's own row alone."""
    stages = [n for n, stage in enumerate(kernel.stages) if any(x.buffer is new for x in getattr(stage, "stores", ()))]
    if len(stages) != 1 or any(b is old for later in loads[stages[0] + 1 :] for b, _ in later):
        return False
    (n,) = stages
    stage = kernel.stages[n]
    if any(x.buffer is old for s in kernel.stages for x in getattr(s, "stores", ())):
        return False
    places = {x.offset for x in getattr(stage, "stores", ()) if x.buffer is new}
    if not kernel.outer and len(kernel.stages) == 1 and not getattr(stage, "vars", True):  # one point: it is read before it is written
        return True
    if len(places) != 1 or any(offset not in places for b, offset in loads[n] if b is old):
        return False
    before = {offset for earlier in loads[:n] for b, offset in earlier if b is old}
    return not before or _in_one_row(kernel, [*before, *places])


def _in_one_row(kernel: Kernel, offsets: Sequence[Index]) -> bool:
    """Whether each outer point has a range of places for itself, in which all `offsets` lie."""
    if any(not isinstance(a, LoopVar) for at in offsets for a, _ in at.terms):
        return False
    outer = [v for v in kernel.outer if v.extent > 1]
    away: dict[Atom, Index] = {v: Index(0) for v in outer}
    reach = 0  # of an outer point
    for at in offsets:
        if any(at.coefficient(v) != offsets[0].coefficient(v) for v in outer):
            return False
        rest = at.substitute(away)
        if rest.lo < 0:
            return False
        reach = max(reach, rest.hi)
    for c, extent in sorted((offsets[0].coefficient(v), v.extent) for v in outer):
        if c <= reach:
            return False
        reach += c * (extent - 1)
    return True


__all__ = ["Packing", "own_places", "pack"]
