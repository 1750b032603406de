"""What the rules of linear algebra are made of: products, adjoints, triangles and diagonals of the matrices in the last two axes, checks
of operands, and the batch rule of ops that work on matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np

from steno.core import dtypes
from steno.core.aval import ShapedArray
from steno.core.op import Op
from steno.ops import arithmetic as a, compare, dot, gather as g, shape
from steno.ops.families import converted, describe, number
from steno.transforms.rules import Axis, ForOp, broadcast, permute, reshape, sum_over, to_front, zeros

LAPACK: Final = frozenset((dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128))
CODES: Final = {dtypes.float32: 0, dtypes.float64: 1, dtypes.complex64: 2, dtypes.complex128: 3}
PRECISE: Final = (dot.Precision.HIGHEST, dot.Precision.HIGHEST)
Shape = tuple[int, ...]


# checks


def check_dtype(op: str, x: ShapedArray, domain: frozenset[Any] = LAPACK, position: int = 0) -> None:
    """TypeError unless the operand's dtype is in the domain."""
    if x.dtype not in domain:
        raise TypeError(
            f"{op} does not accept dtype {dtypes.name(x.dtype)} at position {position}. Accepted dtypes at position {position} are "
            f"{describe(domain)}."
        )


def check_matrix(op: str, x: ShapedArray, rank: int = 2, position: int = 0, domain: frozenset[Any] = LAPACK) -> None:
    """TypeError unless the operand has a dtype of the domain and at least this rank."""
    check_dtype(op, x, domain, position)
    if x.ndim < rank:
        raise TypeError(f"Input {position} to {op} must have rank at least {rank}, but got shape={x.shape}")


def check_square(op: str, x: ShapedArray) -> int:
    """The size of square matrices of LAPACK's dtypes. TypeError or ValueError if they are none."""
    check_matrix(op, x)
    if x.shape[-1] != x.shape[-2]:
        raise ValueError(f"The input to {op} must be a square matrix. Got shape {x.shape}.")
    return x.shape[-1]


def check_batches(op: str, avals: Sequence[ShapedArray], ranks: Sequence[int]) -> Shape:
    """The batch sizes that all operands have in front of their last `ranks` axes. TypeError if they differ."""
    counts = [x.ndim - r for x, r in zip(avals, ranks, strict=True)]
    if len(set(counts)) > 1:
        raise TypeError(
            f"All inputs to {op} must have the same number of batch dimensions, but got {counts} batch dimensions for the inputs."
        )
    batches = [x.shape[: counts[0]] for x in avals]
    if len(set(batches)) > 1:
        raise TypeError(f"All inputs to {op} must have the same batch dimensions, but got {batches} for the inputs.")
    return batches[0]


def same_dtypes(op: str, avals: Sequence[ShapedArray]) -> None:
    if len({x.dtype for x in avals}) > 1:
        raise TypeError(f"lax.{op} requires arguments to have the same dtypes, got {', '.join(dtypes.name(x.dtype) for x in avals)}.")


def like(x: ShapedArray, *last: int, dtype: Any = None, rank: int = 2) -> ShapedArray:
    """The type of a result: the batch axes of `x`, which come before `rank` others, then these sizes."""
    return ShapedArray((*x.shape[: x.ndim - rank], *last), x.dtype if dtype is None else dtype)


def count(x: ShapedArray, rank: int = 2) -> int:
    """The number of matrices in an operand."""
    out = 1
    for n in x.shape[: x.ndim - rank]:
        out *= n
    return out


# arithmetic


def adjoint(x: Any) -> Any:
    """The transpose, conjugated for complex matrices."""
    return conjugate(transposed(x))


def transposed(x: Any) -> Any:
    n = len(x.shape)
    return permute(x, (*range(n - 2), n - 1, n - 2))


def conjugate(x: Any) -> Any:
    return a.conj(x, input_dtype=x.dtype) if dtypes.is_complex(x.dtype) else x


def matmul(x: Any, y: Any) -> Any:
    """Products of matrices with the same batch axes."""
    n = len(x.shape)
    batch = tuple(range(n - 2))
    numbers = (((n - 1,), (n - 2,)), (batch, batch))
    return dot.dot_general(x, y, dimension_numbers=numbers, precision=PRECISE, preferred_element_type=x.dtype, out_sharding=None)


def scale_rows(x: Any, d: Any) -> Any:
    """diag(d) x"""
    return a.mul(broadcast(d, x.shape, range(len(x.shape) - 1)), x)


def scale_columns(x: Any, d: Any) -> Any:
    """x diag(d)"""
    return a.mul(x, broadcast(d, x.shape, (*range(len(x.shape) - 2), len(x.shape) - 1)))


def _band(x: Any, relation: Op, offset: int) -> Any:
    """For each element whether `row + offset` and `column` are related; of the shape of `x`."""
    sizes = x.shape[-2:]
    rows = shape.iota(dtype=dtypes.int32, shape=sizes, dimension=0, sharding=None)
    columns = shape.iota(dtype=dtypes.int32, shape=sizes, dimension=1, sharding=None)
    if offset:
        rows = a.add(rows, number(rows, offset))
    return broadcast(relation(rows, columns), x.shape)


def _chosen(mask: Any, x: Any) -> Any:
    return compare.select_n(mask, zeros(ShapedArray(x.shape, x.dtype)), x)


def lower(x: Any, offset: int = 0) -> Any:
    """x on and below the diagonal `offset`, elsewhere zero."""
    return _chosen(_band(x, compare.ge, offset), x)


def upper(x: Any, offset: int = 0) -> Any:
    """x on and above the diagonal `offset`, elsewhere zero."""
    return _chosen(_band(x, compare.le, offset), x)


def identity_like(x: Any) -> Any:
    """Ones on the diagonals of matrices of the shape and dtype of `x`."""
    return converted(_band(x, compare.eq, 0), x.dtype)


def diagonal(x: Any) -> Any:
    """The diagonals of square matrices."""
    return sum_over(_chosen(_band(x, compare.eq, 0), x), (len(x.shape) - 1,))


def halved_diagonal(x: Any) -> Any:
    """x with its diagonal divided by 2."""
    return a.mul(x, a.sub(broadcast(number(x, 1), x.shape), a.mul(identity_like(x), number(x, 0.5))))


def symmetrized(x: Any, from_lower: bool = True) -> Any:
    """The Hermitian matrix of which one triangle is given; imaginary parts of the diagonal do not count."""
    half = halved_diagonal(lower(x) if from_lower else upper(x))
    return a.add(half, adjoint(half))


def real_part(x: Any) -> Any:
    return a.real(x) if dtypes.is_complex(x.dtype) else x


def complex_dtype(dtype: Any) -> Any:
    """The complex dtype of a float's precision; of a complex dtype itself."""
    return a.complex_for(a.real_of(dtype))


def as_dtype_of(x: Any, y: Any) -> Any:
    """x, which may be real where y is complex, in y's dtype."""
    return converted(x, y.dtype)


def take_rows(x: Any, positions: Any) -> Any:
    """x[..., positions[..., i], :] for positions that are all different: one list for each matrix."""
    n = len(x.shape)
    if not x.aval.size and x.shape[-2] == positions.shape[-1]:
        return x
    batch = tuple(range(n - 2))
    numbers = g.GatherDimensionNumbers((n - 1,), (n - 2,), (n - 2,), batch, batch)
    return g.gather(
        x, reshape(positions, (*positions.shape, 1)), dimension_numbers=numbers, slice_sizes=(*(1 for _ in batch), 1, x.shape[-1]),
        indices_are_sorted=False, unique_indices=True, mode=g.GatherScatterMode.PROMISE_IN_BOUNDS, fill_value=None,
    )  # fmt: skip


def leading(x: Any, *sizes: int) -> Any:
    """The leading submatrices of these sizes."""
    limits = (*x.shape[:-2], *sizes)
    return x if limits == x.shape else shape.slice_(x, start_indices=(0,) * len(limits), limit_indices=limits, strides=None)


def padded(x: Any, rows: int, columns: int) -> Any:
    """The matrices, with zeros after them up to this size."""
    m, n = x.shape[-2:]
    if (m, n) == (rows, columns):
        return x
    config = (*((0, 0, 0) for _ in x.shape[:-2]), (0, rows - m, 0), (0, columns - n, 0))
    return shape.pad(x, shape.scalar_zero(x.dtype), padding_config=config)


# rules


def _front(op: Op) -> Any:
    def batch(axis: Axis, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> tuple[Any, Any]:
        out = op(*(to_front(x, d, axis.size) for x, d in zip(args, dims, strict=True)), **params)
        return out, [0] * len(out) if op.multiple_results else 0

    return batch


BATCHED: Final = ForOp(_front)
"""batch of an op that takes any number of leading axes."""


# samples and specifications


def matrices(dtype: Any, *sizes: int, seed: int = 0) -> np.ndarray:
    """Matrices of standard normal elements."""
    rng = np.random.default_rng([seed, *sizes])
    x = rng.standard_normal(sizes)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(sizes)
    return x.astype(dtype)


def hermitian(dtype: Any, *sizes: int, seed: int = 0, positive: bool = False) -> np.ndarray:
    """Hermitian matrices, with eigenvalues between 1 and n + 1 if they are to be positive."""
    x = matrices(dtype, *sizes, seed=seed)
    h = (x + x.conj().swapaxes(-1, -2)) / 2
    if positive:
        h = np.matmul(x, x.conj().swapaxes(-1, -2)) / sizes[-1] + np.eye(sizes[-1])
    return h.astype(dtype)


def per_matrix(fun: Callable[..., Sequence[np.ndarray]], *ranks: int) -> Callable[..., list[np.ndarray]]:
    """The specification of an op of several results as that of one set of matrices: `fun(*ndarrays, **params)`, where operand k has
    `ranks[k]` axes."""

    def run(*xs: np.ndarray, **params: Any) -> list[np.ndarray]:
        batch = xs[0].shape[: xs[0].ndim - ranks[0]]
        out = [fun(*(x[k] for x in xs), **params) for k in np.ndindex(*batch)]
        if not out:
            one = fun(*(np.zeros(x.shape[x.ndim - r :], x.dtype) for x, r in zip(xs, ranks, strict=True)), **params)
            return [np.zeros((*batch, *np.shape(y)), y.dtype) for y in one]
        return [np.stack([o[k] for o in out]).reshape(*batch, *np.shape(out[0][k])) for k in range(len(out[0]))]

    return run


def lapack_dtypes() -> Iterable[Any]:
    return (np.float32, np.float64, np.complex64, np.complex128)
