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
from steno.ops.shape import all_weak

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
                f"{op}: {name} dimensions must have the same shape on both sides, got {x_sizes} (axes {tuple(xs)} of lhs, of shape "
                f"{x.shape}) "
                f"and {y_sizes} (axes {tuple(ys)} of rhs, of shape {y.shape})"
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
    natural = max(x.dtype, y.dtype, key=_RANK.__getitem__)
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
    out = preferred_element_type or max(x.dtype, y.dtype, key=_RANK.__getitem__)
    compute = compute_dtype(x.dtype, y.dtype, out)
    # one step more precise than the compiled sums, whose order is not specified
    exact = {np.dtype(np.float32): np.float64, np.dtype(np.complex64): np.complex128}.get(compute, compute)
    x_free, y_free = _free(x.ndim, x_contract, x_batch), _free(y.ndim, y_contract, y_batch)
    k = math.prod(x.shape[d] for d in x_contract)
    batch = [x.shape[d] for d in x_batch]
    left = x.transpose([*x_batch, *x_free, *x_contract]).reshape([*batch, math.prod(x.shape[d] for d in x_free), k])
    right = y.transpose([*y_batch, *y_contract, *y_free]).reshape([*batch, k, math.prod(y.shape[d] for d in y_free)])
    product = np.matmul(left.astype(compute).astype(exact), right.astype(compute).astype(exact)).astype(compute)
    shape = [*batch, *(x.shape[d] for d in x_free), *(y.shape[d] for d in y_free)]
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
    return avals_out[0].size * k / 16


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


dot_general = Op(
    "dot_general",
    typ=_typ,
    oracle=_oracle,
    lower=_lower,
    cost=_cost,
    samples=_samples,
    show=_show,
)
"""`precision` is recorded and otherwise without effect: products have the operands' precision."""
