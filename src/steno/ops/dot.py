"""dot_general: sums of products over contracting axes, for each point of the batch axes and of either operand's remaining axes."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from steno.core import dtypes
from steno.core.aval import ShapedArray
from steno.core.op import Op
from steno.ir.kinds import Contract
from steno.ops.samples import sample_dtypes, small
from steno.ops.shape import all_weak, inverse
from steno.transforms.rules import Axis, by_argument, by_operand, permute, shifted

Axes = tuple[int, ...]
DimensionNumbers = tuple[tuple[Axes, Axes], tuple[Axes, Axes]]


class Precision(enum.Enum):
    """What JAX lets a contraction round its operands to. Here products always have the operands' precision."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    def __str__(self) -> str:
        return f"Precision.{self.name}"

    def __repr__(self) -> str:
        return f"Precision.{self.name}"


# the result dtype of unequal operand dtypes is the later one
_RANK = {
    d: k
    for k, d in enumerate(
        [
            dtypes.bool_, dtypes.uint2, dtypes.int2, dtypes.uint4, dtypes.int4, dtypes.uint8, dtypes.int8, dtypes.uint16, dtypes.int16,
            dtypes.uint32, dtypes.int32, dtypes.uint64, dtypes.int64, *dtypes.NARROW_FLOATS, dtypes.float16, dtypes.bfloat16,
            dtypes.float32,
            dtypes.float64, dtypes.complex64, dtypes.complex128,
        ]
    )
}  # fmt: skip


def _natural(x: Any, y: Any) -> Any:
    """The result's dtype where none is preferred."""
    return max(x.dtype, y.dtype, key=_RANK.__getitem__)


def _check(x: ShapedArray, y: ShapedArray, dimension_numbers: DimensionNumbers) -> None:
    op = "dot_general"
    (x_contract, y_contract), (x_batch, y_batch) = dimension_numbers
    for name, a, contract, batch in [("lhs", x, x_contract, x_batch), ("rhs", y, y_contract, y_batch)]:
        if any(not 0 <= d < a.ndim for d in (*contract, *batch)):
            raise TypeError(
                f"{op}: {name} dimension numbers must lie in [0, {a.ndim}), got contracting {contract} and batch {batch} for {name} of "
                f"shape {a.shape}"
            )
        if len(set(contract)) != len(contract) or len(set(batch)) != len(batch):
            raise TypeError(f"{op}: {name} dimension numbers must be distinct, got contracting {contract} and batch {batch}")
        if set(contract) & set(batch):
            raise TypeError(f"{op}: {name} batch and contracting dimensions must be disjoint, got contracting {contract} and batch {batch}")
    for name, xs, ys in [("batch", x_batch, y_batch), ("contracting", x_contract, y_contract)]:
        x_sizes, y_sizes = tuple(x.shape[d] for d in xs), tuple(y.shape[d] for d in ys)
        if x_sizes != y_sizes:
            raise TypeError(
                f"{op} requires {name} dimensions to have the same shape, got {x_sizes} and {y_sizes}. They are axes {tuple(xs)} of lhs, "
                f"of shape {x.shape}, and {tuple(ys)} of rhs, of shape {y.shape}"
            )


def _free(rank: int, contract: Sequence[int], batch: Sequence[int]) -> list[int]:
    return [d for d in range(rank) if d not in contract and d not in batch]


def _typ(x: ShapedArray, y: ShapedArray, *, dimension_numbers: DimensionNumbers, preferred_element_type: Any, **_: Any) -> ShapedArray:
    _check(x, y, dimension_numbers)
    for a in (x, y):
        if a.dtype not in _RANK:
            raise TypeError(f"dot_general: expected operands of numeric dtypes, got {dtypes.name(x.dtype)} and {dtypes.name(y.dtype)}")
    (x_contract, y_contract), (x_batch, y_batch) = dimension_numbers
    shape = [x.shape[d] for d in x_batch]
    shape += [x.shape[d] for d in _free(x.ndim, x_contract, x_batch)]
    shape += [y.shape[d] for d in _free(y.ndim, y_contract, y_batch)]
    natural = _natural(x, y)
    if preferred_element_type is None:
        return ShapedArray(tuple(shape), natural, all_weak(x, y))
    wanted = preferred_element_type
    if wanted not in _RANK:
        raise TypeError(f"dot_general: preferred_element_type must be a numeric dtype, got {wanted}")
    if dtypes.kind(wanted) in "iu" and dtypes.kind(natural) in "iu" and dtypes.itemsize_bits(wanted) < dtypes.itemsize_bits(natural):
        raise TypeError(
            f"dot_general: preferred_element_type must not be narrower than the operands' dtype {dtypes.name(natural)}, got "
            f"{dtypes.name(wanted)}"
        )
    return ShapedArray(tuple(shape), wanted, all_weak(x, y))


def compute_dtype(x: Any, y: Any, out: Any) -> np.dtype:
    """What operands are converted to and sums are kept in: float32 for narrower floats; int32 at least for integers and bools (a bool
    result is true if the sum is not 0); the result's own dtype if that is wider."""
    natural = max(x, y, key=_RANK.__getitem__)
    wide = max(natural, out, key=_RANK.__getitem__)
    kind = dtypes.kind(wide)
    if kind == "f":
        return wide if wide in (dtypes.float32, dtypes.float64) else dtypes.float32
    if kind == "c":
        return dtypes.complex128 if dtypes.float64 in (x, y) or wide == dtypes.complex128 else wide
    if kind == "b":
        return dtypes.int32
    return wide if wide.itemsize >= 4 else dtypes.int32


def _oracle(x: np.ndarray, y: np.ndarray, *, dimension_numbers: DimensionNumbers, preferred_element_type: Any, **_: Any) -> np.ndarray:
    (x_contract, y_contract), (x_batch, y_batch) = dimension_numbers
    out = preferred_element_type or _natural(x, y)
    compute = compute_dtype(x.dtype, y.dtype, out)
    # one step more precise than the compiled sums, whose order is not specified
    exact = {np.dtype(np.float32): np.float64, np.dtype(np.complex64): np.complex128}.get(compute, compute)
    x_free, y_free = _free(x.ndim, x_contract, x_batch), _free(y.ndim, y_contract, y_batch)
    k = math.prod(x.shape[d] for d in x_contract)
    batch = [x.shape[d] for d in x_batch]
    left = x.transpose([*x_batch, *x_free, *x_contract]).reshape([*batch, math.prod(x.shape[d] for d in x_free), k])
    right = y.transpose([*y_batch, *y_contract, *y_free]).reshape([*batch, k, math.prod(y.shape[d] for d in y_free)])
    multiply = np.matmul if x_contract else np.multiply  # a product alone keeps the sign of its zeros
    product = multiply(left.astype(compute).astype(exact), right.astype(compute).astype(exact)).astype(compute)
    shape = [*batch, *(x.shape[d] for d in x_free), *(y.shape[d] for d in y_free)]
    if product.dtype.kind == "c" and dtypes.kind(out) != "c":
        product = product.real
    return product.astype(out).reshape(shape)


def _lower(
    avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, dimension_numbers: DimensionNumbers, **_: Any
) -> Contract:  # fmt: skip
    x, y = avals_in
    (xc, yc), (xb, yb) = dimension_numbers
    numbers = ((tuple(xc), tuple(yc)), (tuple(xb), tuple(yb)))
    return Contract(numbers, compute_dtype(x.dtype, y.dtype, avals_out[0].dtype))


def _cost(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, dimension_numbers: DimensionNumbers, **_: Any) -> float:
    k = math.prod(avals_in[0].shape[d] for d in dimension_numbers[0][0])
    return 2.0 * avals_out[0].size * k


def _samples() -> Iterable[Any]:
    def params(xc: Axes, yc: Axes, xb: Axes = (), yb: Axes = (), preferred: Any = None) -> dict[str, Any]:
        return dict(dimension_numbers=((xc, yc), (xb, yb)), precision=None, preferred_element_type=preferred, out_sharding=None)

    for d in sample_dtypes():
        yield (small((3, 4), d), small((4, 5), d, seed=1)), params((1,), (0,))
    f = "float32"
    i8, bf16 = small((4, 300), "int8"), small((7, 5), "bfloat16")
    yield (i8 * np.int8(40), i8 * np.int8(42)), params((1,), (1,))
    yield (i8 * np.int8(40), i8 * np.int8(42)), params((1,), (1,), preferred=np.dtype("int32"))
    yield (small((4, 300), "uint8"), i8), params((1,), (1,), preferred=np.dtype("int32"))
    yield (bf16, bf16), params((0,), (0,), preferred=np.dtype("float32"))
    yield (bf16, small((7, 5), "float16")), params((0,), (0,))
    yield (bf16, small((7, 5), "int32")), params((0,), (0,))
    yield (small((7, 5), f), small((7, 5), "complex64")), params((0,), (0,))
    yield (small((7, 5), "complex64"), small((7, 5), "complex64")), params((0,), (0,), preferred=np.dtype("float32"))
    yield (small((7, 5), f), small((7, 5), f)), params((0,), (0,), preferred=np.dtype(ml_dtypes.bfloat16))
    for xs, ys, p in [
        ((4,), (4,), params((0,), (0,))), ((3, 4), (4,), params((1,), (0,))), ((4,), (4, 3), params((0,), (0,))),
        ((3, 4), (3, 4), params((1,), (1,))),
        ((4, 3), (4, 5), params((0,), (0,))), ((2, 3, 4), (2, 4, 5), params((2,), (1,), (0,), (0,))),
        ((4, 2, 3), (5, 4, 2), params((0,), (1,), (1,), (2,))), ((2, 3, 4), (4, 3, 5), params((1, 2), (1, 0))), ((), (), params((), ())),
        ((3,), (4,), params((), ())), ((3, 0), (0, 4), params((1,), (0,))), ((0, 3), (3, 4), params((1,), (0,))),
        ((2, 3), (2, 3), params((1,), (1,), (0,), (0,))),
        ((2, 3), (2, 3), params((), (), (0, 1), (0, 1))), ((1, 1), (1, 1), params((1,), (0,))),
        ((0, 2, 3), (0, 3, 2), params((2,), (1,), (0,), (0,))),
        ((2, 2, 3, 4), (2, 2, 5, 4), params((3,), (3,), (0, 1), (0, 1))),
    ]:  # fmt: skip
        yield (small(xs, f), small(ys, f, seed=1)), p


def _show(params: dict[str, Any]) -> dict[str, Any]:
    (xc, yc), (xb, yb) = params["dimension_numbers"]
    shown: dict[str, Any] = {"dimension_numbers": (([*xc], [*yc]), ([*xb], [*yb]))}
    return shown | {k: params[k] for k in ("out_sharding", "precision", "preferred_element_type") if params[k] is not None}


def _transpose_of(side: int) -> Any:
    """The cotangent of operand `side`: the result's cotangent contracted with the other operand along that one's free axes, the two in the
    order that needs no transposition, if there is one."""

    def transpose(ct: Any, x: Any, y: Any, *, dimension_numbers: DimensionNumbers, preferred_element_type: Any, **params: Any) -> Any:
        own, other = (x, y)[side], (x, y)[1 - side]
        contract, other_contract = dimension_numbers[0][side], dimension_numbers[0][1 - side]
        batch, other_batch = dimension_numbers[1][side], dimension_numbers[1][1 - side]
        free, other_free = _free(len(own.shape), contract, batch), _free(len(other.shape), other_contract, other_batch)
        count = len(batch)
        begin = count + (len(free) if side == 0 else 0)
        numbers = (range(begin, begin + len(other_free)), other_free), (range(count), other_batch)
        # own's axes along the product's
        rest = [contract[other_contract.index(d)] for d in sorted(other_contract)]
        axes = [*batch, *free, *rest]
        operands = ct, other
        if axes != sorted(axes) and [*batch, *rest, *free] == sorted(axes):
            axes, operands, numbers = sorted(axes), (other, ct), (numbers[0][::-1], numbers[1][::-1])
        keep = preferred_element_type is not None and preferred_element_type == own.dtype  # NumPy: None == np.dtype("float64")
        wanted = own.dtype if keep or _natural(ct, other) != own.dtype else None
        tuples = tuple((tuple(a), tuple(b)) for a, b in numbers)
        return permute(dot_general(*operands, dimension_numbers=tuples, preferred_element_type=wanted, **params), inverse(axes))

    return transpose


def _shifted_numbers(contract: Axes, batch: Axes, dim: int | None) -> tuple[Axes, Axes]:
    return (contract, batch) if dim is None else (shifted(contract, dim), shifted(batch, dim))


def _batch(
    axis: Axis, args: Sequence[Any], dims: Sequence[int | None], *, dimension_numbers: DimensionNumbers, **params: Any
) -> tuple[Any, int]:
    """One more batch axis, or one more free axis of the operand that alone is batched."""
    (x, y), (d, e) = args, dims
    (x_contract, y_contract), (x_batch, y_batch) = dimension_numbers
    x_contract, x_batch = _shifted_numbers(x_contract, x_batch, d)
    y_contract, y_batch = _shifted_numbers(y_contract, y_batch, e)
    x_free, y_free = _free(len(x.shape), x_contract, x_batch), _free(len(y.shape), y_contract, y_batch)
    if d is not None and e is not None:
        out, x_batch, y_batch = 0, (d, *x_batch), (e, *y_batch)
    elif d is not None:
        out = len(x_batch) + x_free.index(d)
    else:
        out = len(x_batch) + len(x_free) + y_free.index(e)
    return dot_general(x, y, dimension_numbers=((x_contract, y_contract), (x_batch, y_batch)), **params), out


dot_general = Op(
    "dot_general",
    typ=_typ,
    oracle=_oracle,
    lower=_lower,
    cost=_cost,
    samples=_samples,
    show=_show,
    jvp=by_argument(
        lambda g, out, x, y, **params: dot_general(g, y, **params),
        lambda g, out, x, y, **params: dot_general(x, g, **params),
    ),
    transpose=by_operand(_transpose_of(0), _transpose_of(1)),
    batch=_batch,
)
"""`precision` is recorded and otherwise without effect: products have the operands' precision."""
