"""Factorizations by elimination and by reflections: cholesky, lu, qr and what they are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from steno.core import dtypes
from steno.core.aval import ShapedArray
from steno.core.op import Op, op
from steno.core.sizes import min_size
from steno.ir.kinds import Library
from steno.ops import arithmetic as a, shape
from steno.ops.families import number
from steno.ops.linalg_solve import triangular
from steno.ops.matrices import (
    BATCHED,
    CODES,
    adjoint,
    as_dtype_of,
    check_batches,
    check_dtype,
    check_matrix,
    check_square,
    count,
    halved_diagonal,
    hermitian,
    identity_like,
    lapack_dtypes,
    leading,
    like,
    lower,
    matmul,
    matrices,
    padded,
    per_matrix,
    real_part,
    same_dtypes,
    symmetrized,
    take_rows,
    transposed,
    upper,
)
from steno.ops.oracle import Oracle
from steno.transforms.rules import ZERO, instantiate, zero_of, zeros

REAL = frozenset((dtypes.float32, dtypes.float64))
ULPS, FLOOR = 256.0, 2.0  # results depend on the order of sums and on the library


def only(fun: Any, *ranks: int) -> Any:
    """The specification of an op of one result."""
    many = per_matrix(lambda *xs, **params: [fun(*xs, **params)], *ranks)
    return lambda *xs, **params: many(*xs, **params)[0]


def library(symbol: str, *extents: int, in_place: tuple[int, ...] = (), operand: int = 0) -> Any:
    """`lower` as a call: meta is the dtype's code, the number of matrices, and these axes' sizes of operand `operand`."""

    def lower_(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], **params: Any) -> Library:
        x = avals_in[operand]
        return Library(symbol, (CODES[x.dtype], count(x), *(x.shape[e] for e in extents)), in_place)

    return lower_


def cubic(factor: float) -> Any:
    """`cost` of an algorithm of `factor` m n min(m, n) operations for an m x n matrix."""

    def cost(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], **params: Any) -> float:
        m, n = avals_in[0].shape[-2:]
        return count(avals_in[0]) * factor * m * n * min_size(m, n)

    return cost


# cholesky


def _square_typ(name: str) -> Any:
    def typ(x: ShapedArray, **params: Any) -> ShapedArray:
        check_square(name, x)
        return ShapedArray(x.shape, x.dtype)

    return typ


def _cholesky_oracle(x: np.ndarray) -> np.ndarray:
    h = np.tril(x, -1)
    h = h + h.conj().T + np.diag(np.diag(x).real).astype(x.dtype)
    try:
        return np.linalg.cholesky(h)
    except np.linalg.LinAlgError:
        return np.tril(np.full_like(x, np.nan * (1 + 1j) if x.dtype.kind == "c" else np.nan))


def _cholesky_samples() -> Iterable[Any]:
    for d in lapack_dtypes():
        for sizes in [(5, 5), (3, 4, 4), (33, 33), (1, 1), (0, 0), (2, 0, 0), (0, 3, 3)]:
            yield (hermitian(d, *sizes, positive=True),), {}
    yield (-np.eye(3),), {}
    yield (-np.eye(20),), {}


def _cholesky_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """L^-1 dA L^-H = P + P^H with P = L^-1 dL lower triangular."""
    (x,), (g,) = primals, tangents
    factor = cholesky(x)
    inner = triangular(factor, symmetrized(instantiate(g)), left_side=False, lower=True, transpose_a=True, conjugate_a=True)
    inner = triangular(factor, inner, left_side=True, lower=True)
    return factor, matmul(factor, halved_diagonal(lower(inner)))


cholesky = Op(
    "cholesky",
    typ=_square_typ("cholesky"),
    oracle=Oracle(only(_cholesky_oracle, 2), ULPS, FLOOR, ULPS),
    lower=library("steno_cholesky", -1, in_place=(0,)),
    samples=_cholesky_samples,
    jvp=_cholesky_jvp,
    batch=BATCHED,
    cost=cubic(1 / 3),
)
"""The lower triangular L with L L^H = A, of which the lower triangle is read. NaN where A is not positive definite."""


def _cholesky_update_typ(r: ShapedArray, w: ShapedArray) -> ShapedArray:
    for k, (x, rank) in enumerate(((r, 2), (w, 1))):
        check_dtype("cholesky_update", x, REAL, k)
        if x.ndim != rank:
            raise TypeError(f"Input {k} to cholesky_update must have a rank of exactly {rank}, but got shape={x.shape}")
    if r.shape != (*w.shape, *w.shape):
        raise ValueError(
            f"Rank-1 update to Cholesky decomposition takes a square matrix and a vector of the same size as input. Got shapes {r.shape} "
            f"and {w.shape} instead"
        )
    same_dtypes("cholesky_update", (r, w))
    return ShapedArray(r.shape, r.dtype)


def _cholesky_update_oracle(r: np.ndarray, w: np.ndarray) -> np.ndarray:
    r, w = np.triu(r), w.copy()
    for k in range(len(w)):
        length = np.hypot(r[k, k], w[k])
        c, s = (r[k, k] / length, w[k] / length) if length else (r.dtype.type(1), r.dtype.type(0))
        r[k, k:], w[k:] = c * r[k, k:] + s * w[k:], c * w[k:] - s * r[k, k:]
    return r


def _cholesky_update_samples() -> Iterable[Any]:
    for d in (np.float32, np.float64):
        for n in (0, 1, 4, 20):
            yield (np.triu(matrices(d, n, n)) + 3 * np.eye(n, dtype=d), matrices(d, n, seed=1)), {}


cholesky_update = Op(
    "cholesky_update",
    typ=_cholesky_update_typ,
    oracle=Oracle(_cholesky_update_oracle, ULPS, FLOOR),
    lower=lambda avals_in, avals_out: Library("steno_cholesky_update", (CODES[avals_in[0].dtype], avals_in[0].shape[0]), (0,)),
    samples=_cholesky_update_samples,
)
"""The upper triangular S with S^T S = R^T R + w w^T, for an upper triangular R, by Givens rotations."""


def _symmetric_product_typ(x: ShapedArray, c: ShapedArray, *, alpha: float, beta: float) -> ShapedArray:
    for k, y in enumerate((x, c)):
        check_matrix("symmetric_product", y, 2, k, REAL)
    same_dtypes("symmetric_product", (x, c))
    check_batches("symmetric_product", (x, c), (2, 2))
    m = x.shape[-2]
    if c.shape[-2:] != (m, m):
        raise ValueError(
            f"symmetric_product expects a matrix of shape (m, n) and a square matrix of shape (m, m). Got shapes {x.shape} and {c.shape}."
        )
    return ShapedArray(c.shape, c.dtype)


@op("symmetric_product", typ=_symmetric_product_typ)
def symmetric_product(x: Any, c: Any, *, alpha: float, beta: float) -> Any:
    """alpha x x^T + beta c."""
    product = matmul(x, transposed(x))
    return a.add(a.mul(product, number(product, alpha)), a.mul(c, number(c, beta)))


# lu


def _lu_typ(x: ShapedArray) -> list[ShapedArray]:
    check_matrix("lu", x)
    m, n = x.shape[-2:]
    return [ShapedArray(x.shape, x.dtype), like(x, min_size(m, n), dtype=dtypes.int32), like(x, m, dtype=dtypes.int32)]


def _permutation(pivots: np.ndarray, size: int) -> np.ndarray:
    order = np.arange(size, dtype=np.int32)
    for k, p in enumerate(pivots):
        order[[k, p]] = order[[p, k]]
    return order


def _lu_oracle(x: np.ndarray) -> list[np.ndarray]:
    x = x.copy()
    m, n = x.shape
    pivots = np.zeros(min_size(m, n), np.int32)
    for k in range(min_size(m, n)):
        column = x[k:, k]
        p = k + int(np.argmax(np.abs(column.real) + np.abs(column.imag)))
        pivots[k] = p
        if x[p, k] == 0:
            continue
        x[[k, p]] = x[[p, k]]
        x[k + 1 :, k] /= x[k, k]
        x[k + 1 :, k + 1 :] -= np.outer(x[k + 1 :, k], x[k, k + 1 :])
    return [x, pivots, _permutation(pivots, m)]


def _lu_samples() -> Iterable[Any]:
    for d in lapack_dtypes():
        for sizes in [(5, 5), (3, 4, 4), (33, 33), (5, 3), (3, 5), (20, 7), (7, 20), (0, 0), (0, 3), (3, 0), (0, 3, 3)]:
            yield (matrices(d, *sizes),), {}
    yield (np.zeros((3, 3)),), {}
    yield (np.zeros((20, 20)),), {}


def _lu_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """L^-1 P dA U^-1 = L^-1 dL + dU U^-1, the one strictly lower, the other upper triangular. Factors that are not square are completed by
    the identity."""
    (x,), (g,) = primals, tangents
    factors, pivots, order = lu(x)
    m, n = x.shape[-2:]
    k = min_size(m, n)
    left = padded(lower(leading(factors, m, k), -1), m, m)
    left = a.add(left, identity_like(left))
    u = padded(upper(leading(factors, k, n)), n, n)
    if n > k:
        rest = identity_like(u)
        u = a.add(u, a.sub(rest, padded(leading(rest, k, k), n, n)))
    inner = triangular(left, take_rows(instantiate(g), order), left_side=True, lower=True, unit_diagonal=True)
    inner = triangular(u, inner, left_side=False, lower=False)
    out = a.add(matmul(left, lower(inner, -1)), matmul(upper(inner), u))
    return [factors, pivots, order], [out, zero_of(pivots), zero_of(order)]


lu = Op(
    "lu",
    typ=_lu_typ,
    oracle=Oracle(per_matrix(_lu_oracle, 2), ULPS, FLOOR, ULPS),
    lower=library("steno_lu", -2, -1, in_place=(0, -1, -1)),
    multiple_results=True,
    samples=_lu_samples,
    jvp=_lu_jvp,
    batch=BATCHED,
    cost=cubic(2 / 3),
)
"""[L and U in one matrix, pivots, permutation]: A[permutation] = L U, L with a unit diagonal that is not stored; row k was exchanged with
row pivots[k]."""


def _pivots_typ(pivots: ShapedArray, *, permutation_size: int) -> ShapedArray:
    name = "lu_pivots_to_permutation"
    check_matrix(name, pivots, 1, 0, frozenset((dtypes.int32,)))
    if permutation_size < pivots.shape[-1]:
        raise ValueError(
            f"Output permutation size {permutation_size} has to exceed the trailing dimension of the pivots. "
            f"Got pivots size {pivots.shape[-1]}"
        )
    return like(pivots, permutation_size, rank=1)


def _pivots_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, permutation_size: int) -> Library:
    x = avals_in[0]
    return Library("steno_pivots_to_permutation", (count(x, 1), x.shape[-1], permutation_size))


def _pivots_samples() -> Iterable[Any]:
    for pivots, size in [([2, 3, 2, 3], 4), ([2, 1], 3), ([], 2), ([[1, 1], [0, 1]], 2), (np.zeros((0, 2)), 3)]:
        yield (np.array(pivots, np.int32),), {"permutation_size": size}


lu_pivots_to_permutation = Op(
    "lu_pivots_to_permutation",
    typ=_pivots_typ,
    oracle=Oracle(only(lambda pivots, *, permutation_size: _permutation(pivots, permutation_size), 1)),
    lower=_pivots_lower,
    samples=_pivots_samples,
    jvp=ZERO,
    batch=BATCHED,
)
"""The permutation that the exchanges of rows amount to."""


# reflections: H = I - tau v v^H


def reflector(alpha: Any, x: np.ndarray) -> tuple[Any, Any, np.ndarray]:
    """(beta, tau, rest of v): H^H (alpha, x) = (beta, 0) with v = (1, rest), as LAPACK's larfg chooses them."""
    length = np.sqrt(np.abs(alpha) ** 2 + np.sum(np.abs(x) ** 2))
    if not np.any(x) and np.imag(alpha) == 0:
        return alpha, x.dtype.type(0), np.zeros_like(x)
    beta = -np.copysign(length, np.real(alpha))
    return beta, (beta - alpha) / beta, x / (alpha - beta)


def reflect(x: np.ndarray, tau: Any, rest: np.ndarray) -> np.ndarray:
    """H x"""
    v = np.concatenate([np.ones(1, rest.dtype), rest])
    return x - tau * np.outer(v, v.conj() @ x)


def _geqrf_typ(x: ShapedArray) -> list[ShapedArray]:
    check_matrix("geqrf", x)
    return [ShapedArray(x.shape, x.dtype), like(x, min_size(*x.shape[-2:]))]


def _geqrf_oracle(x: np.ndarray) -> list[np.ndarray]:
    x = x.copy()
    taus = np.zeros(min(x.shape), x.dtype)
    for k in range(len(taus)):
        beta, taus[k], rest = reflector(x[k, k], x[k + 1 :, k])
        x[k:, k + 1 :] = reflect(x[k:, k + 1 :], np.conj(taus[k]), rest)
        x[k, k], x[k + 1 :, k] = beta, rest
    return [x, taus]


def _rectangular_samples() -> Iterable[Any]:
    for d in lapack_dtypes():
        for sizes in [(5, 5), (3, 4, 2), (6, 3), (3, 6), (40, 40), (1, 1), (0, 3), (3, 0), (0, 2, 2)]:
            yield (matrices(d, *sizes),), {}


geqrf = Op(
    "geqrf",
    typ=_geqrf_typ,
    oracle=Oracle(per_matrix(_geqrf_oracle, 2), ULPS, FLOOR, ULPS),
    lower=library("steno_geqrf", -2, -1, in_place=(0, -1)),
    multiple_results=True,
    samples=_rectangular_samples,
    batch=BATCHED,
    cost=cubic(2),
)
"""[R, with the reflections' vectors below the diagonal; their factors tau]: the QR decomposition as LAPACK keeps it."""


def _geqp3_typ(x: ShapedArray, jpvt: ShapedArray) -> list[ShapedArray]:
    check_matrix("geqp3", x)
    check_matrix("geqp3", jpvt, 1, 1, frozenset((dtypes.int32,)))
    check_batches("geqp3", (x, jpvt), (2, 1))
    if jpvt.shape[-1] != x.shape[-1]:
        raise ValueError(f"geqp3: there must be one entry of jpvt for each column, got shapes {x.shape} and {jpvt.shape}")
    return [ShapedArray(x.shape, x.dtype), ShapedArray(jpvt.shape, jpvt.dtype), like(x, min_size(*x.shape[-2:]))]


def _geqp3_oracle(x: np.ndarray, jpvt: np.ndarray) -> list[np.ndarray]:
    x, order = x.copy(), np.argsort(jpvt == 0, kind="stable")
    fixed, x = int(np.count_nonzero(jpvt)), x[:, order]
    taus = np.zeros(min(x.shape), x.dtype)
    for k in range(len(taus)):
        if k >= fixed:
            p = k + int(np.argmax(np.sum(np.abs(x[k:, k:]) ** 2, axis=0)))
            x[:, [k, p]], order[[k, p]] = x[:, [p, k]], order[[p, k]]
        beta, taus[k], rest = reflector(x[k, k], x[k + 1 :, k])
        x[k:, k + 1 :] = reflect(x[k:, k + 1 :], np.conj(taus[k]), rest)
        x[k, k], x[k + 1 :, k] = beta, rest
    return [x, (order + 1).astype(np.int32), taus]


def _geqp3_samples() -> Iterable[Any]:
    for (x,), _ in _rectangular_samples():
        yield (x, np.zeros(x.shape[:-2] + x.shape[-1:], np.int32)), {}


geqp3 = Op(
    "geqp3",
    typ=_geqp3_typ,
    oracle=Oracle(per_matrix(_geqp3_oracle, 2, 1), ULPS, FLOOR, ULPS),
    lower=library("steno_geqp3", -2, -1, in_place=(0, 1, -1)),
    multiple_results=True,
    samples=_geqp3_samples,
    batch=BATCHED,
    cost=cubic(3),
)
"""As `geqrf` of the columns in an order that makes the diagonal of R decrease; columns with jpvt != 0 come first. Result 1: that order,
counted from 1."""


def _householder_typ(x: ShapedArray, taus: ShapedArray) -> ShapedArray:
    name = "householder_product"
    check_matrix(name, x)
    check_matrix(name, taus, 1, 1)
    same_dtypes(name, (x, taus))
    check_batches(name, (x, taus), (2, 1))
    m, n = x.shape[-2:]
    if m < n:
        raise ValueError(f"The first argument to {name} must have at least as many rows as columns, got shape {x.shape}")
    if taus.shape[-1] > n:
        raise ValueError(
            f"The second argument to {name} must not have more rows than the minimum of the first argument's rows and columns, got shapes "
            f"{x.shape} and {taus.shape}"
        )
    return ShapedArray(x.shape, x.dtype)


def _householder_oracle(x: np.ndarray, taus: np.ndarray) -> np.ndarray:
    q = np.eye(*x.shape, dtype=x.dtype)
    for k in reversed(range(len(taus))):
        q[k:] = reflect(q[k:], taus[k], x[k + 1 :, k])
    return q


def _reflections(d: Any, *sizes: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    *batch, m, n = sizes
    x, taus = per_matrix(_geqrf_oracle, 2)(matrices(d, *sizes))
    return x, taus[..., :count]


def _householder_samples() -> Iterable[Any]:
    for d in lapack_dtypes():
        for sizes, c in [((5, 5), 5), ((3, 4, 2), 2), ((6, 3), 2), ((40, 40), 39), ((3, 0), 0), ((0, 0), 0), ((0, 2, 2), 1)]:
            yield _reflections(d, *sizes, count=c), {}


def _householder_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray]) -> Library:
    x, taus = avals_in
    return Library("steno_householder_product", (CODES[x.dtype], count(x), *x.shape[-2:], taus.shape[-1]), (0,))


householder_product = Op(
    "householder_product",
    typ=_householder_typ,
    oracle=Oracle(only(_householder_oracle, 2, 1), ULPS, FLOOR, ULPS),
    lower=_householder_lower,
    samples=_householder_samples,
    batch=BATCHED,
    cost=cubic(2),
)
"""The first columns of the product of the reflections that `geqrf` gives."""


def _ormqr_typ(x: ShapedArray, taus: ShapedArray, c: ShapedArray, *, left: bool, transpose: bool) -> ShapedArray:
    name = "ormqr"
    for k, (y, rank) in enumerate(((x, 2), (taus, 1), (c, 2))):
        check_matrix(name, y, rank, k)
    same_dtypes(name, (x, taus, c))
    check_batches(name, (x, taus, c), (2, 1, 2))
    m, n = x.shape[-2:]
    if m < n:
        raise ValueError(f"The first argument to {name} must have at least as many rows as columns, got shape {x.shape}")
    if taus.shape[-1] > n:
        raise ValueError(f"{name}: there must be at most as many taus as columns of a, got shapes {x.shape} and {taus.shape}")
    if c.shape[-2 if left else -1] != m:
        what = "rows" if left else "columns"
        raise ValueError(
            f"{name} with left={left} expects c to have the same number of {what} as the Householder matrix a has rows. Got a shape "
            f"{x.shape} and c shape {c.shape}."
        )
    return ShapedArray(c.shape, c.dtype)


def _ormqr_oracle(x: np.ndarray, taus: np.ndarray, c: np.ndarray, *, left: bool, transpose: bool) -> np.ndarray:
    q = _householder_oracle(np.pad(x, ((0, 0), (0, x.shape[0] - x.shape[1]))), taus)
    q = q.conj().T if transpose else q
    return (q @ c if left else c @ q).astype(c.dtype)


def _ormqr_lower(
    avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, left: bool, transpose: bool
) -> Library:  # fmt: skip
    x, taus, c = avals_in
    return Library("steno_ormqr", (CODES[x.dtype], count(x), *x.shape[-2:], taus.shape[-1], *c.shape[-2:], int(left), int(transpose)), (2,))


def _ormqr_samples() -> Iterable[Any]:
    for d in lapack_dtypes():
        for left in (True, False):
            for transpose in (True, False):
                x, taus = _reflections(d, 2, 5, 3, count=3)
                yield (x, taus, matrices(d, 2, *((5, 4) if left else (4, 5)))), {"left": left, "transpose": transpose}


ormqr = Op(
    "ormqr",
    typ=_ormqr_typ,
    oracle=Oracle(only(_ormqr_oracle, 2, 1, 2), ULPS, FLOOR, ULPS),
    lower=_ormqr_lower,
    samples=_ormqr_samples,
    batch=BATCHED,
    cost=cubic(2),
)
"""Q c, or c Q (`left`), or these with the adjoint of Q (`transpose`), where Q is the product of the reflections that `geqrf` gives."""


# qr


def _qr_typ(x: ShapedArray, *, pivoting: bool, full_matrices: bool, use_magma: Any) -> list[ShapedArray]:
    check_matrix("qr", x)
    m, n = x.shape[-2:]
    k = m if full_matrices else min_size(m, n)
    out = [like(x, m, k), like(x, k, n)]
    return [*out, like(x, n, dtype=dtypes.int32)] if pivoting else out


def _after(x: Any, columns: int, before: int) -> Any:
    """The matrices with `before` columns of zeros in front, `columns` in all."""
    config = (*((0, 0, 0) for _ in x.shape[:-1]), (before, columns - before - x.shape[-1], 0))
    return shape.pad(x, shape.scalar_zero(x.dtype), padding_config=config)


def _qr_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, pivoting: bool, full_matrices: bool, use_magma: Any
) -> tuple[list[Any], list[Any]]:
    """For Q R = A with R square, W = Q^H dQ is antihermitian, and Q^H dA R^-1 - W = dR R^-1 is upper triangular with a real diagonal.
    Columns of A beyond the square part change R alone; columns of Q beyond it turn against the others and not among themselves."""
    (x,), (g,) = primals, tangents
    q, r, *order = qr(x, pivoting=pivoting, full_matrices=full_matrices, use_magma=use_magma)
    g = instantiate(g)
    if pivoting:
        g = transposed(take_rows(transposed(g), order[0]))
    m, n = x.shape[-2:]
    k = min_size(m, n)
    q1 = leading(q, m, k)
    outer = triangular(leading(r, k, k), leading(g, m, k), left_side=False, lower=False)
    inner = matmul(adjoint(q1), outer)
    below = lower(inner, -1)
    turn = a.sub(below, adjoint(below))
    if dtypes.is_complex(x.dtype):
        turn = a.add(turn, a.mul(identity_like(inner), a.sub(inner, as_dtype_of(real_part(inner), inner))))
    dq = a.add(matmul(q1, a.sub(turn, inner)), outer)
    dr = upper(matmul(adjoint(q1), a.sub(g, matmul(dq, leading(r, k, n)))))
    if full_matrices and m > n:
        q2 = shape.slice_(q, start_indices=(*(0 for _ in q.shape[:-1]), k), limit_indices=q.shape, strides=None)
        dq2 = a.neg(matmul(q1, matmul(adjoint(dq), q2)))
        dq = a.add(padded(dq, m, m), _after(dq2, m, k))
        dr = padded(dr, m, n)
    return [q, r, *order], [dq, dr, *map(zero_of, order)]


@op("qr", typ=_qr_typ, multiple_results=True, jvp=_qr_jvp, batch=BATCHED)
def qr(x: Any, *, pivoting: bool, full_matrices: bool, use_magma: Any) -> list[Any]:
    """[Q, R] or, pivoting, [Q, R, order]: Q R = A, or the columns of A in that order. Q has orthonormal columns, R is upper triangular.
    `use_magma` has no effect."""
    m, n = x.shape[-2:]
    order = []
    if pivoting:
        factors, positions, taus = geqp3(x, zeros(like(x.aval, n, dtype=dtypes.int32)))
        order = [a.sub(positions, number(positions, 1))]
    else:
        factors, taus = geqrf(x)
    k = m if full_matrices else min_size(m, n)
    q = householder_product(padded(leading(factors, m, min_size(k, n)), m, k), taus)
    return [q, upper(leading(factors, k, n)), *order]
