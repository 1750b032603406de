"""What an op's `lower` says: the handful of kinds the compiler knows. It never asks for an op's name.

`Op.lower(avals_in, avals_out, **params) -> Kind`.  Bodies are functions of indices, after Halide: they build scalar
expressions (`ir/expr.py`) from reads of the operands at index tuples (`ir/index.py`), so fusing a producer into a
consumer is calling the producer's body where the consumer reads.

    Map(body)                        out[i] = body(b, i, reads)            elementwise, broadcasts, slices, pads, gathers, iota
    Reduce(axes, element, combine..) out[o] = fold of elements over the reduced axes, in the canonical order
    Cumulative(axis, reverse, ...)   out[.., k, ..] = fold of elements 0..k, in ascending order
    Contract(dimension_numbers)      dot_general
    Pieces(axis)                     the operands one after the other along an axis
    Update(space, target, value)     out = operand, with some elements overwritten or combined (scatter, dynamic_update_slice)
    Library(symbol, meta, ...)       a C function over whole contiguous buffers (sort, LAPACK)
    Host(...)                        a Python callback
    Branch(branches)                 one of several programs, chosen at run time
    While(cond, body)                a program repeated as long as another gives true
    Scan(body)                       a program repeated over the leading axis of arrays

A `Scalar` (ir/expr.py) is an `Expr`, a `Narrow` for dtypes without machine arithmetic, or a `Pair` for those of two components.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, final

from steno.core.jaxpr import ClosedJaxpr
from steno.core.record import record
from steno.ir.expr import Builder, Expr, Scalar
from steno.ir.index import Index


class Read(Protocol):
    """An operand as a function of its indices. Where `guard` (a bool Expr) is false the value is unspecified and nothing is
    loaded, so the indices need only be in range where it is true."""

    def __call__(self, indices: Sequence[Index], guard: Expr | None = None) -> Scalar: ...


@final
@record(frozen=True)
class Map:
    """`body(b, indices, reads) -> Scalar` (or a list of them for several results of one shape).
    `view`: no arithmetic, a single operand element moved (free to repeat).
    `flat`: operands of nonzero rank are read at the row-major position of the result's element, and nowhere else
    (elementwise ops; with `view`: reshapes).
    `stores_operands`: each of their elements is read many times, so they are not computed where they are read."""

    body: Callable[[Builder, Sequence[Index], Sequence[Read]], Any]
    view: bool = False
    flat: bool = False
    stores_operands: bool = False


@final
@record(frozen=True)
class Reduce:
    """Fold over `axes`. All operands have one shape; results have it without `axes`.

    element(b, reduced_position, values) -> tuple of Scalars    values: the operands at the index; reduced_position: int64 Expr,
                                                                 row-major within the reduced axes (None element: the values themselves)
    identity(b) -> tuple of Scalars                              the neutral element(s)
    combine(b, acc, x) -> tuple of Scalars                       associative up to rounding
    result(b, acc) -> tuple of Scalars                           one for each output (None: the accumulators themselves)
    """

    axes: tuple[int, ...]
    identity: Callable[[Builder], tuple[Scalar, ...]]
    combine: Callable[[Builder, tuple[Scalar, ...], tuple[Scalar, ...]], tuple[Scalar, ...]]
    element: Callable[[Builder, Expr, tuple[Scalar, ...]], tuple[Scalar, ...]] | None = None
    result: Callable[[Builder, tuple[Scalar, ...]], tuple[Scalar, ...]] | None = None


@final
@record(frozen=True)
class Cumulative:
    """Running fold along `axis`, each output element the fold up to and including its position, in ascending order
    (descending with `reverse`)."""

    axis: int
    reverse: bool
    identity: Callable[[Builder], tuple[Scalar, ...]]
    combine: Callable[[Builder, tuple[Scalar, ...], tuple[Scalar, ...]], tuple[Scalar, ...]]


@final
@record(frozen=True)
class Contract:
    """dot_general: ((lhs contracting, rhs contracting), (lhs batch, rhs batch)); the result dtype is the output aval's;
    operands are converted to `compute` before multiplying, sums are kept in `compute`. `fast`: a matrix unit may sum in an order of its
    own."""

    dimension_numbers: tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]]
    compute: Any
    fast: bool = False


@final
@record(frozen=True)
class Pieces:
    """The operands, joined along `axis`. Stored, each fills its part of the result. Where the result is read without being stored, `body`,
    as of a Map, selects among the operands; None: there are too many of them."""

    axis: int
    body: Callable[[Builder, Sequence[Index], Sequence[Read]], Any] | None = None


@final
@record(frozen=True)
class Update:
    """The result is operand 0, changed at `target(i)` for each i of `space` in row-major order.

    target(b, i, reads) -> (indices, guard)          guard: bool Expr (None: always); indices in range where it holds
    value(b, i, reads, old) -> Scalar                old: the present value there (a Scalar); the new one is stored
    `apart`: axes of `space` along which points never meet: two that differ there write different elements, whatever their other places.
    `trailing`: how many of the last axes are free of collisions: two points that differ only there write different elements.
    The order of points that cannot meet does not matter: their code may be vector and parallel code.
    """

    space: tuple[int, ...]
    target: Callable[[Builder, Sequence[Index], Sequence[Read]], tuple[Sequence[Index], Expr | None]]
    value: Callable[[Builder, Sequence[Index], Sequence[Read], Scalar], Scalar]
    apart: tuple[int, ...]
    trailing: int


@final
@record(frozen=True)
class Library:
    """`int32_t symbol(void** buffers, const int64_t* meta)`: buffers are the operands, then the results, all contiguous.
    `in_place`: result k starts as a copy of operand in_place[k] (-1: uninitialised); such an operand is not passed."""

    symbol: str
    meta: tuple[int, ...]
    in_place: tuple[int, ...] = ()


@final
@record(frozen=True)
class Host:
    """Calls `callback(*ArrayImpls) -> sequence of arrays` with the GIL. `ordered`: keeps program order among ordered ones.
    `pure`: runs only for its results, and once for all equal calls."""

    callback: Callable[..., Any]
    ordered: bool
    pure: bool = False


@final
@record(frozen=True)
class Branch:
    """Operands: an int32 scalar (clamped into range), then those of the branches. Results: those of the chosen one; no other runs."""

    branches: tuple[ClosedJaxpr, ...]


@final
@record(frozen=True)
class While:
    """Operands: constants of `cond`, constants of `body`, initial carries. While cond(constants, carries) (a bool scalar): carries =
    body(constants, carries). Results: the carries."""

    cond: ClosedJaxpr
    body: ClosedJaxpr
    cond_consts: int
    body_consts: int


@final
@record(frozen=True)
class Scan:
    """Operands: constants, initial carries, arrays with leading axis `length`. For each i (descending with `reverse`): (carries, rows) =
    body(constants, carries, row i of the arrays). Results: the carries, then for each of the rows an array of them, row i at position i."""

    body: ClosedJaxpr
    consts: int
    carries: int
    length: int
    reverse: bool


Kind = Map | Reduce | Cumulative | Contract | Pieces | Update | Library | Host | Branch | While | Scan


def elementwise(scalar: Callable[..., Scalar]) -> Callable[..., Map]:
    """`lower` of an elementwise op: `scalar(b, *operands, **params)`. Operands of rank 0 are read once, without indices."""

    def lower(avals_in: Sequence[Any], avals_out: Sequence[Any], **params: Any) -> Map:
        ranks = [a.ndim for a in avals_in]

        def body(b: Builder, indices: Sequence[Index], reads: Sequence[Read]) -> Any:
            return scalar(b, *(r(indices if n else ()) for r, n in zip(reads, ranks, strict=True)), **params)

        return Map(body, flat=True)

    return lower
