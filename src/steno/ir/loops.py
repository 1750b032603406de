"""Loop programs: what the scheduler makes and the code generator reads.

grammar
    Program   ::= inputs, outputs, arena buffers (with offsets), Statement*
    Statement ::= Kernel | LibraryCall | CallThen | HostCall | CopyBuffer | Loop | Choice | Poison
    Loop      ::= `length` times, or while a program gives true: a program, on carried buffers and on rows of arrays
    Choice    ::= one of several programs, by an index in memory
    Kernel    ::= for outer point (row-major, split over threads): Stage*
    Stage     ::= MapStage | RowReduce | ColReduce | TreeReduce | Cumulate
    Expr      as in ir/expr.py; leaves: const | load(Buffer, offset Index, guard) | index(Index) | local(name) | acc k | elt k

Buffers hold one primitive dtype; a complex array of n elements is a float buffer of 2n, a key array a uint32 buffer of 2n.
Bools are bytes 0 or 1 in memory, int4 and int2 kinds one byte each.

The canonical order of reductions (`Fold`): the position r in row-major order over the reduced axes is cut into blocks of BLOCK;
in a block, LANES lanes (r mod LANES) fold their elements in ascending order, starting with their first element; a halving tree combines
the lanes (lane i with lane i + h, for h = 32, 16, ..., 1, skipping lanes that do not exist); a halving tree of the same kind, over the
number of blocks rounded up to a power of two, combines the blocks; last, the identity is combined with the outcome: combine(identity, x).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal, final

from steno.core.record import field, record
from steno.ir.expr import Expr
from steno.ir.index import Index, LoopVar

BLOCK = 4096
LANES = 64


@final
@record(frozen=True, eq=False)
class Buffer:
    """`size` elements of the primitive `dtype`, by identity. kind: input (read only), output, arena (intermediate of the whole program),
    local (a thread's scratch for one outer point, on the stack, at most 64 KiB in all for a kernel). Inputs and outputs of a nested program
    may be rows of arrays: `aligned` is False, their address is a multiple of an element's size only."""

    name: str
    dtype: Any
    size: int
    kind: Literal["input", "output", "arena", "local"]
    aligned: bool = True


@final
@record(frozen=True)
class Store:
    """buffer[offset] = value, where `guard` holds."""

    buffer: Buffer
    offset: Index
    value: Expr
    guard: Expr | None = None


@final
@record(frozen=True)
class Fold:
    """One or more accumulators folded together. `combine[k]` is an Expr over leaves acc 0..n-1 and elt 0..n-1."""

    identity: tuple[Expr, ...]
    combine: tuple[Expr, ...]


@final
@record(frozen=True)
class MapStage:
    """for vars (row-major): the stores, in order. The first `serial` vars run one after the other, in order, because points that differ
    there may store to the same element. Those that differ only in the other vars may not; the last of these is the vector loop. With no
    vars: once. At one point (and in one vector of points) all values are computed before the first store, so what a point stores is not
    seen by its own loads."""

    vars: tuple[LoopVar, ...]
    stores: tuple[Store, ...]
    serial: int = 0


@final
@record(frozen=True)
class RowReduce:
    """Fold `elements` (Exprs of `var`, 0 <= var < var.extent) in the canonical order, vector loop along `var`;
    the outcome is bound to `locals` (names of local leaves), to be used by later stages at the same outer point.
    With `block` (an Index, a multiple of 1): only positions [block*BLOCK, min((block+1)*BLOCK, extent)) are folded, identity not combined
    in (a partial result, for TreeReduce)."""

    var: LoopVar
    elements: tuple[Expr, ...]
    fold: Fold
    locals: tuple[str, ...]
    block: Index | None = None


@final
@record(frozen=True)
class TreeReduce:
    """The halving tree over the `var.extent` partial results `elements` (of `var`), then the identity; bound to `locals`."""

    var: LoopVar
    elements: tuple[Expr, ...]
    fold: Fold
    locals: tuple[str, ...]


@final
@record(frozen=True)
class ColReduce:
    """For each point of `lane` (vector loop; parallel): fold `elements` over `var` in the canonical order, then `stores`, which may use
    the outcome as the local leaves `locals` (here one value for each lane) and `lane`.
    An outer axis is reduced with unit-stride vectors along a kept axis this way."""

    lane: LoopVar
    var: LoopVar
    elements: tuple[Expr, ...]
    fold: Fold
    locals: tuple[str, ...]
    stores: tuple[Store, ...]


@final
@record(frozen=True)
class Cumulate:
    """For each point of `lane` (vector loop if given): acc = identity; for var ascending: acc = combine(acc, elements); stores
    (using acc as the local leaves `locals`). Reversal is in the elements' and stores' indices."""

    lane: LoopVar | None
    var: LoopVar
    elements: tuple[Expr, ...]
    fold: Fold
    locals: tuple[str, ...]
    stores: tuple[Store, ...]


Stage = MapStage | RowReduce | TreeReduce | ColReduce | Cumulate


@final
@record(frozen=True)
class Kernel:
    """For each point of the outer loops (row-major, the flattened range split over threads): the stages in order.
    A kernel with no outer loops and a single MapStage over one var, not serial, is *flat*: its vector loop is split over threads,
    in multiples of 64; a single ColReduce with no outer loops likewise along `lane`. `cost`: estimated nanoseconds of the whole kernel on
    one thread; a kernel of little work is not split."""

    name: str
    outer: tuple[LoopVar, ...]
    stages: tuple[Stage, ...]
    cost: float = 0.0


@final
@record(frozen=True)
class LibraryCall:
    """`int32_t symbol(void** buffers, const int64_t* meta)`; a status other than 0 ends the program with it. `operations`: arithmetic ones
    (comparisons of a sort), as the op's record counts them; 0: few for each element."""

    symbol: str
    buffers: tuple[Buffer, ...]
    meta: tuple[int, ...]
    operations: float = 0.0


@final
@record(frozen=True)
class CallThen:
    """A call whose result is `rows` rows of `columns` elements, and a kernel that reads it row by row: block for block, the kernel runs as
    soon as the block is computed, on the same thread. `int32_t symbol_then(buffers, meta, kernel, kernel's buffers)`.

    The outer points of the kernel, in their order, are shared out evenly to the rows, and what a point reads of the result (or writes
    there) lies in its row. The kernel changes nothing that the call reads."""

    call: LibraryCall
    kernel: Kernel
    rows: int
    columns: int

    @property
    def result(self) -> Buffer:
        return self.call.buffers[2]

    @property
    def points(self) -> int:
        """Outer points of the kernel in a row."""
        return math.prod(v.extent for v in self.kernel.outer) // self.rows

    @property
    def by_columns(self) -> bool:
        """Whether the kernel is one map along the columns, so that a block may also be some of those."""
        stage = self.kernel.stages[0]
        whole = len(self.kernel.stages) == 1 and isinstance(stage, MapStage) and not stage.serial and self.points == 1
        return whole and [v.extent for v in stage.vars] == [self.columns]


@final
@record(frozen=True)
class HostCall:
    """`steno_host_call(rt, index, buffers)`: operands then results; status as for LibraryCall."""

    index: int
    buffers: tuple[Buffer, ...]


@final
@record(frozen=True)
class CopyBuffer:
    source: Buffer
    target: Buffer


@final
@record(frozen=True)
class Poison:
    """Fills buffers that hold nothing yet, or no longer, with `poison_byte`: what reads them all the same gives NaN, or numbers far off."""

    buffers: tuple[Buffer, ...]


def poison_byte(dtype: Any) -> int:
    return 0xFF if dtype.kind == "f" else 0xA5


@final
@record(frozen=True)
class Fixed:
    """An argument of a nested program: a whole buffer, the same in every iteration."""

    buffer: Buffer


@final
@record(frozen=True)
class Carried:
    """An argument of a nested program: the present (as an input) or next (as an output) buffer of carry `position`."""

    position: int


@final
@record(frozen=True)
class Row:
    """An argument of a nested program: the iteration's part of `buffer`, `size` elements from element `size` * iteration."""

    buffer: Buffer
    size: int


Argument = Fixed | Carried | Row


@final
@record(frozen=True)
class Loop:
    """`body` on `inputs` and `outputs`, `length` times (iterations numbered downwards with `reverse`), or, without a length, while `cond`
    on `cond_inputs` stores true in its one output, `flag`. `carries[k]`: (buffer, partner). At the start and at the end the carry is in
    `buffer`. Without a partner the body changes it in place (input and output are one memory); with one, the two swap roles after each
    iteration. `scratch` holds the nested programs' arenas."""

    length: int | None
    reverse: bool
    carries: tuple[tuple[Buffer, Buffer | None], ...]
    body: Program
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    cond: Program | None
    cond_inputs: tuple[Argument, ...]
    flag: Buffer | None
    scratch: Buffer


@final
@record(frozen=True)
class Choice:
    """Branch number `index[0]` (int32, clamped into range) of `branches`, each with its inputs' buffers, all with the same outputs."""

    index: Buffer
    branches: tuple[tuple[Program, tuple[Buffer, ...]], ...]
    outputs: tuple[Buffer, ...]
    scratch: Buffer


Statement = Kernel | LibraryCall | CallThen | HostCall | CopyBuffer | Loop | Choice | Poison


@final
@record(frozen=True)
class Program:
    """`arena[k]` lies at byte `offsets[k]` (multiples of 64) of an arena of `arena_bytes`; they may overlap where lifetimes do not. The
    lifetimes of two of one size may meet in a kernel that reads the one, each element before it writes that of the other. `lenders`, where
    not empty: `lenders[k]` is the output that lends its memory to `arena[k]` before it is written, or None. It takes over no input.
    `inputs[k]`, `outputs[k]` are the pointer tables of the entry, in order. An output that is an input's buffer taken over is
    the output's Buffer; the runtime passes equal pointers."""

    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    arena: tuple[Buffer, ...]
    offsets: tuple[int, ...]
    arena_bytes: int
    statements: tuple[Statement, ...]
    meta: dict[str, Any] = field(default_factory=dict, compare=False)
    lenders: tuple[Buffer | None, ...] = ()

    def places(self) -> Iterator[tuple[Buffer, Buffer | None, int]]:
        """Each buffer of the arena, the output that it lies in (None: the arena), the byte where it begins there."""
        yield from zip(self.arena, self.lenders or (None,) * len(self.arena), self.offsets, strict=True)


def halving(n: int) -> Sequence[tuple[int, int]]:
    """The pairs (i, i + h) of the halving tree over n items, in order; item 0 ends with the outcome."""
    size = 1 << max(n - 1, 0).bit_length()
    pairs = []
    h = size // 2
    while h:
        pairs += [(i, i + h) for i in range(h) if i + h < n]
        h //= 2
    return pairs
