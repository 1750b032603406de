"""Systems that are solved by substitution: triangular_solve, tridiagonal_solve."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from steno.core import dtypes
from steno.core.aval import ShapedArray
from steno.core.op import Op
from steno.ir.kinds import Library
from steno.ops import arithmetic as a, shape
from steno.ops.families import COMPLEX, FLOAT, converted
from steno.ops.matrices import (
    BATCHED,
    CODES,
    LAPACK,
    check_batches,
    check_matrix,
    conjugate,
    count,
    lapack_dtypes,
    lower as lower_part,
    matmul,
    matrices,
    per_matrix,
    same_dtypes,
    scale_rows,
    transposed,
    upper,
)
from steno.ops.oracle import Oracle
from steno.transforms.rules import Axis, Linear, Zero, move_axis, reshape, to_front, zero_of

ULPS, FLOOR = 1024.0, 4.0

# triangular_solve


def _triangular_typ(x: ShapedArray, b: ShapedArray, *, left_side: bool, **params: Any) -> ShapedArray:
    name = "triangular_solve"
    for k, y in enumerate((x, b)):
        check_matrix(name, y, 2, k, FLOAT | COMPLEX)
    same_dtypes(name, (x, b))
    check_batches(name, (x, b), (2, 2))
    if x.shape[-1] != x.shape[-2]:
        raise ValueError(f"The first input to {name} must be a square matrix. Got shape {x.shape}.")
    if b.shape[-2 if left_side else -1] != x.shape[-1]:
        raise ValueError(f"Incompatible shapes for arguments to {name}: {x.shape} and {b.shape}.")
    return ShapedArray(b.shape, b.dtype)


def _triangular_oracle(
    x: np.ndarray, b: np.ndarray, *, left_side: bool, lower: bool, transpose_a: bool, conjugate_a: bool, unit_diagonal: bool
) -> np.ndarray:
    x, out = np.broadcast_to(x, (*b.shape[:-2], *x.shape[-2:])), b.copy()
    x = x.conj() if conjugate_a else x
    if transpose_a != (not left_side):  # x a = b  -->  a^T x^T = b^T
        x, lower = x.swapaxes(-1, -2), not lower
    rows = out if left_side else out.swapaxes(-1, -2)
    n = x.shape[-1]
    for i in range(n) if lower else reversed(range(n)):
        done = slice(0, i) if lower else slice(i + 1, n)
        rows[..., i, :] -= np.einsum("...k,...kj->...j", x[..., i, done], rows[..., done, :])
        if not unit_diagonal:
            rows[..., i, :] /= x[..., i, i, None]
    return out


def _triangular_lower(
    avals_in: Sequence[ShapedArray],
    avals_out: Sequence[ShapedArray],
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> Library | None:
    x, b = avals_in
    conjugates = conjugate_a and x.dtype in dtypes.COMPLEX
    if x.dtype not in LAPACK or (conjugates and not transpose_a):
        return None
    m = b.shape[-1 if left_side else -2]
    operation = 2 * transpose_a if conjugates else int(transpose_a)
    meta = (CODES[x.dtype], count(x), x.shape[-1], m, int(left_side), int(lower), operation, int(unit_diagonal))
    return Library("steno_triangular_solve", meta, (1,))


def _triangular_expand(x: Any, b: Any, *, conjugate_a: bool, **params: Any) -> Any:
    """Narrow floats are solved in float32; the conjugate alone is taken beforehand."""
    if x.dtype not in LAPACK:
        wide = (converted(y, dtypes.float32) for y in (x, b))
        return converted(triangular_solve(*wide, conjugate_a=False, **params), b.dtype)
    return triangular_solve(conjugate(x) if conjugate_a else x, b, conjugate_a=False, **params)


def triangular(
    x: Any, b: Any, *, left_side: bool, lower: bool, transpose_a: bool = False, conjugate_a: bool = False, unit_diagonal: bool = False
) -> Any:
    """`triangular_solve` with most parameters left out."""
    return triangular_solve(
        x, b, left_side=left_side, lower=lower, transpose_a=transpose_a, conjugate_a=conjugate_a and dtypes.is_complex(x.dtype),
        unit_diagonal=unit_diagonal,
    )  # fmt: skip


def _triangular_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    """a dx = db - da x, or dx a = db - x da."""
    (x, b), (dx, db) = primals, tangents
    out = triangular_solve(x, b, **params)
    rest = db
    if type(dx) is not Zero:
        part = (lower_part if params["lower"] else upper)(dx, (-1 if params["lower"] else 1) if params["unit_diagonal"] else 0)
        part = conjugate(part) if params["conjugate_a"] else part
        part = transposed(part) if params["transpose_a"] else part
        moved = matmul(part, out) if params["left_side"] else matmul(out, part)
        rest = a.neg(moved) if type(db) is Zero else a.sub(db, moved)
    return out, triangular_solve(x, rest, **params)


def _triangular_transpose(ct: Any, x: Any, b: Any, *, transpose_a: bool, **params: Any) -> list[Any]:
    if type(x) is Linear or type(b) is not Linear:
        raise NotImplementedError("triangular_solve is linear in its second operand only")
    return [None, triangular_solve(x, ct, transpose_a=not transpose_a, **params)]


def _triangular_batch(axis: Axis, args: Sequence[Any], dims: Sequence[int | None], *, left_side: bool, **params: Any) -> tuple[Any, int]:
    """A batch of right hand sides of one matrix is one right hand side of more columns (or rows)."""
    (x, b), (d, e) = args, dims
    if d is not None or len(x.shape) != 2 or e is None:
        return triangular_solve(*(to_front(y, k, axis.size) for y, k in zip(args, dims, strict=True)), left_side=left_side, **params), 0
    if not left_side:
        b = move_axis(b, e, 0)
        out = triangular_solve(x, reshape(b, (b.shape[0] * b.shape[1], b.shape[2])), left_side=False, **params)
        return reshape(out, b.shape), 0
    b = move_axis(b, e, 2)
    out = triangular_solve(x, reshape(b, (b.shape[0], b.shape[1] * b.shape[2])), left_side=True, **params)
    return reshape(out, b.shape), 2


def _triangles(d: Any, *sizes: int) -> np.ndarray:
    return (matrices(d, *sizes) / np.sqrt(max(sizes[-1], 1)) + 3 * np.eye(sizes[-1])).astype(d)


def _triangular_samples() -> Iterable[Any]:
    for d in lapack_dtypes():
        for k in range(32):
            flags = dict(
                left_side=bool(k & 1), lower=bool(k & 2), transpose_a=bool(k & 4), conjugate_a=bool(k & 8), unit_diagonal=bool(k & 16)
            )
            for batch, n, m in [((2,), 4, 3), ((), 20, 5)]:
                sizes = (n, m) if k & 1 else (m, n)
                yield (_triangles(d, *batch, n, n), matrices(d, *batch, *sizes)), flags
    flags = dict(left_side=True, lower=True, transpose_a=False, conjugate_a=False, unit_diagonal=False)
    for n, m in [(0, 3), (3, 0), (1, 1), (3, 100), (40, 1)]:
        yield (_triangles("float64", n, n), matrices("float64", n, m)), flags
    yield (np.zeros((0, 2, 2)), np.zeros((0, 2, 3))), flags


def _triangular_cost(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], **params: Any) -> float:
    return float(avals_in[1].size * avals_in[0].shape[-1])


triangular_solve = Op(
    "triangular_solve",
    typ=_triangular_typ,
    oracle=Oracle(_triangular_oracle, ULPS, FLOOR, ULPS),
    lower=_triangular_lower,
    expand=_triangular_expand,
    samples=_triangular_samples,
    jvp=_triangular_jvp,
    transpose=_triangular_transpose,
    batch=_triangular_batch,
    cost=_triangular_cost,
)
"""x with op(a) x = b (`left_side`) or x op(a) = b, for the triangle `lower` of a, whose other triangle is not read, and, with
`unit_diagonal`, neither its diagonal. op transposes and conjugates."""

# tridiagonal_solve


def _tridiagonal_typ(dl: ShapedArray, d: ShapedArray, du: ShapedArray, b: ShapedArray, *, perturb_singular: bool) -> ShapedArray:
    name = "tridiagonal_solve"
    avals, ranks = (dl, d, du, b), (1, 1, 1, 2)
    for k, (x, rank) in enumerate(zip(avals, ranks, strict=True)):
        check_matrix(name, x, rank, k)
    same_dtypes(name, avals)
    check_batches(name, avals, ranks)
    if not dl.shape == d.shape == du.shape or b.shape[-2] != d.shape[-1]:
        raise TypeError(
            f"{name}: the diagonals must have equal sizes, and b as many rows, got shapes {dl.shape}, {d.shape}, {du.shape} and {b.shape}"
        )
    return ShapedArray(b.shape, b.dtype)


def _tridiagonal_oracle(dl: np.ndarray, d: np.ndarray, du: np.ndarray, b: np.ndarray, *, perturb_singular: bool) -> list[np.ndarray]:
    n = len(d)
    x = np.diag(d) + np.diag(dl[1:], -1) + np.diag(du[:-1], 1)
    if not n:
        return [b]
    try:
        return [np.linalg.solve(x, b)]
    except np.linalg.LinAlgError:
        if not perturb_singular:
            return [np.full_like(b, np.nan * (1 + 1j) if b.dtype.kind == "c" else np.nan)]
        tiny = np.finfo(x.dtype).tiny
        return [np.linalg.solve(x + np.diag(np.where(d == 0, tiny, 0)).astype(x.dtype), b)]


def _tridiagonal_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, perturb_singular: bool) -> Library:
    b = avals_in[3]
    return Library("steno_tridiagonal_solve", (CODES[b.dtype], count(b), *b.shape[-2:], int(perturb_singular)), (3,))


def _shifted(x: Any, by: int) -> Any:
    """Element k + by at position k; zeros where there is none."""
    config = (*((0, 0, 0) for _ in x.shape[:-1]), (-by, by, 0))
    return shape.pad(x, shape.scalar_zero(x.dtype), padding_config=config)


def _row_shifted(x: Any, by: int) -> Any:
    return transposed(_shifted(transposed(x), by))


def _off_diagonals(dl: Any, du: Any) -> tuple[Any, Any]:
    """Those of the transposed matrix."""
    return _shifted(du, -1), _shifted(dl, 1)


def _tridiagonal_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    """A dx = db - dA x."""
    *diagonals, b = primals
    *changes, rest = tangents
    out = tridiagonal_solve(*diagonals, b, **params)
    for change, by in zip(changes, (-1, 0, 1), strict=True):
        if type(change) is not Zero:
            moved = scale_rows(_row_shifted(out, by) if by else out, change)
            rest = a.neg(moved) if type(rest) is Zero else a.sub(rest, moved)
    return out, zero_of(out) if type(rest) is Zero else tridiagonal_solve(*diagonals, rest, **params)


def _tridiagonal_transpose(ct: Any, dl: Any, d: Any, du: Any, b: Any, **params: Any) -> list[Any]:
    if type(b) is not Linear or any(type(x) is Linear for x in (dl, d, du)):
        raise NotImplementedError("tridiagonal_solve is linear in its last operand only")
    below, above = _off_diagonals(dl, du)
    return [None, None, None, tridiagonal_solve(below, d, above, ct, **params)]


def _tridiagonal_samples() -> Iterable[Any]:
    for d in lapack_dtypes():
        for batch, n, m in [((), 5, 2), ((2,), 4, 3), ((), 1, 1), ((), 2, 1), ((), 40, 2), ((), 0, 2), ((0,), 3, 2)]:
            dl, mid, du = (matrices(d, *batch, n, seed=k) for k in range(3))
            yield (dl, mid, du, matrices(d, *batch, n, m)), {"perturb_singular": False}
    zero = np.zeros(3)
    yield (zero, zero, zero, np.ones((3, 2))), {"perturb_singular": False}
    yield (zero, zero, zero, np.ones((3, 2))), {"perturb_singular": True}


tridiagonal_solve = Op(
    "tridiagonal_solve",
    typ=_tridiagonal_typ,
    oracle=Oracle(lambda *xs, **params: per_matrix(_tridiagonal_oracle, 1, 1, 1, 2)(*xs, **params)[0], ULPS, FLOOR, ULPS),
    lower=_tridiagonal_lower,
    samples=_tridiagonal_samples,
    jvp=_tridiagonal_jvp,
    transpose=_tridiagonal_transpose,
    batch=BATCHED,
)
"""x with A x = b, for A with the diagonals dl (from position 1), d and du (up to the last but one position), by elimination with partial
pivoting. NaN where a pivot is zero, which `perturb_singular` replaces by the least normal number."""
