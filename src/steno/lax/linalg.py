"""JAX's `lax.linalg`: decompositions of the matrices in the last two axes, strict about dtypes (float32, float64, complex64, complex128).

What does not exist, or is not found, is NaN: nothing is raised for values."""

from __future__ import annotations

import enum
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from steno.core import dtypes
from steno.core.aval import ShapedArray
from steno.core.op import OPS
from steno.lax.operands import Array, ArrayLike, as_array, convert
from steno.ops import linalg_eigen, linalg_factor, linalg_solve, matrices as m
from steno.ops.arithmetic import add, mul, square, sub
from steno.ops.families import number
from steno.transforms.rules import broadcast, sum_over, zeros

FAMILIES = (linalg_eigen, linalg_factor, linalg_solve)  # importing them declares their ops

cholesky_p = OPS["cholesky"]
cholesky_update_p = OPS["cholesky_update"]
eig_p = OPS["eig"]
eigh_p = OPS["eigh"]
hessenberg_p = OPS["hessenberg"]
householder_product_p = OPS["householder_product"]
lu_p = OPS["lu"]
lu_pivots_to_permutation_p = OPS["lu_pivots_to_permutation"]
ormqr_p = OPS["ormqr"]
qr_p = OPS["qr"]
schur_p = OPS["schur"]
svd_p = OPS["svd"]
symmetric_product_p = OPS["symmetric_product"]
triangular_solve_p = OPS["triangular_solve"]
tridiagonal_p = OPS["tridiagonal"]
tridiagonal_solve_p = OPS["tridiagonal_solve"]


class EigImplementation(enum.Enum):
    """Libraries that find eigenvalues. Here there is LAPACK."""

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


class EighImplementation(enum.Enum):
    """Algorithms for eigenvalues of Hermitian matrices. Here there is QR (divide and conquer)."""

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


class SvdAlgorithm(enum.Enum):
    """Algorithms for singular values. Here there are QR and divide and conquer, the default."""

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


def _operand(fun: str, x: Any, position: int = 0) -> Array:
    x = as_array(fun, x, position)
    aval = x.aval
    return convert(x, aval.dtype) if aval.weak_type else x


def _square(fun: str, x: Any) -> Array:
    x = _operand(fun, x)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(f"The input to linalg.{fun} must have shape [..., n, n], got shape {x.shape}")
    return x


def symmetrize(x: Array) -> Array:
    """The mean of x and its adjoint; integers become floats."""
    if dtypes.kind(x.aval.dtype) not in "fc":
        x = convert(x, dtypes.to_inexact(x.aval.dtype))
    return mul(add(x, m.adjoint(x)), number(x, 0.5))


def cholesky(x: ArrayLike, *, symmetrize_input: bool = True) -> Array:
    """The lower triangular L with `L @ L.conj().T == x`, for Hermitian positive definite matrices; NaN for others.

    symmetrize_input    take the mean of x and its adjoint; otherwise the lower triangle alone is read"""
    a = _square("cholesky", x)
    return cholesky_p(symmetrize(a) if symmetrize_input else a)


def cholesky_update(r_matrix: ArrayLike, w_vector: ArrayLike) -> Array:
    """The upper triangular S with `S.T @ S == R.T @ R + outer(w, w)` for an upper triangular real matrix R."""
    return cholesky_update_p(_operand("cholesky_update", r_matrix), _operand("cholesky_update", w_vector, 1))


def symmetric_product(
    a_matrix: ArrayLike, c_matrix: ArrayLike, *, alpha: float = 1.0, beta: float = 0.0, symmetrize_output: bool = False
) -> Array:
    """`alpha * a @ a.T + beta * c` for real matrices and a symmetric c; `symmetrize_output`: of its lower triangle alone."""
    out = symmetric_product_p(
        _operand("symmetric_product", a_matrix), _operand("symmetric_product", c_matrix, 1), alpha=float(alpha), beta=float(beta)
    )
    return add(m.lower(out), m.transposed(m.lower(out, -1))) if symmetrize_output else out


def lu(x: ArrayLike) -> list[Array]:
    """[factors, pivots, permutation] with `x[permutation] == L @ U`: U is the upper triangle of the factors, L what is below, with ones
    on the diagonal; pivots are int32 and count from 0. Matrices of any shape."""
    return lu_p(_operand("lu", x))


def lu_pivots_to_permutation(pivots: ArrayLike, permutation_size: int) -> Array:
    """The permutation (int32) that exchanging rows k and pivots[k], for ascending k, amounts to."""
    return lu_pivots_to_permutation_p(_operand("lu_pivots_to_permutation", pivots), permutation_size=int(permutation_size))


def qr(
    x: ArrayLike, *, pivoting: bool = False, full_matrices: bool = True, use_magma: bool | None = None
) -> tuple[Array, Array] | tuple[Array, Array, Array]:
    """(Q, R) with `x == Q @ R`: orthonormal columns, and an upper triangle.

    pivoting         (Q, R, order) with `x[..., order] == Q @ R`, the diagonal of R descending in size
    full_matrices    Q is square"""
    return tuple(qr_p(_operand("qr", x), pivoting=bool(pivoting), full_matrices=bool(full_matrices), use_magma=use_magma))


def householder_product(a: ArrayLike, taus: ArrayLike) -> Array:
    """The first columns of the product of reflections `I - tau v v^H`, whose v are the columns of a below the diagonal, after a 1 on it."""
    return householder_product_p(_operand("householder_product", a), _operand("householder_product", taus, 1))


def ormqr(a: ArrayLike, taus: ArrayLike, c: ArrayLike, *, left: bool = True, transpose: bool = False) -> Array:
    """`Q @ c`, or `c @ Q` if not `left`, for the square Q of `householder_product(a, taus)`; `transpose`: for Q's adjoint."""
    operands = (_operand("ormqr", y, k) for k, y in enumerate((a, taus, c)))
    return ormqr_p(*operands, left=bool(left), transpose=bool(transpose))


def eigh(
    x: ArrayLike,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    implementation: EighImplementation | None = None,
) -> tuple[Array, Array]:
    """(eigenvectors in columns, real eigenvalues ascending) of Hermitian matrices.

    symmetrize_input    take the mean of x and its adjoint; otherwise one triangle alone is read, the one that `lower` says
    NotImplementedError for a proper subset of eigenvalues, and for implementations other than QR."""
    if implementation not in (None, EighImplementation.QR):
        raise NotImplementedError(f"linalg.eigh: {implementation} is not implemented on the CPU")
    a = _square("eigh", x)
    if symmetrize_input:
        a = symmetrize(a)
    v, w = eigh_p(
        a, lower=bool(lower), sort_eigenvalues=bool(sort_eigenvalues), subset_by_index=_indices(subset_by_index), algorithm=implementation
    )
    return v, w


def _indices(subset: Any) -> tuple[int, ...] | None:
    return None if subset is None else tuple(map(int, subset))


def eig(
    x: ArrayLike,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
    implementation: EigImplementation | None = None,
    use_magma: bool | None = None,
) -> list[Array]:
    """[eigenvalues, left eigenvectors?, right eigenvectors?] of square matrices, all complex: `x @ v == v * w`,
    `u.conj().T @ x == w[:, None] * u.conj().T`, columns of length 1.

    enable_eigvec_derivs    allow derivatives of eigenvectors, which exist for distinct eigenvalues only"""
    if use_magma is not None:
        warnings.warn("lax.linalg.eig: use_magma is deprecated; use implementation", DeprecationWarning, stacklevel=2)
        if use_magma:
            implementation = EigImplementation.MAGMA
    if implementation not in (None, EigImplementation.LAPACK):
        raise ValueError("Only the lapack implementation is supported on CPU.")
    return eig_p(
        _operand("eig", x), compute_left_eigenvectors=bool(compute_left_eigenvectors),
        compute_right_eigenvectors=bool(compute_right_eigenvectors), enable_eigvec_derivs=bool(enable_eigvec_derivs),
        implementation=implementation,
    )  # fmt: skip


def svd(
    x: ArrayLike,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Array | tuple[Array, Array, Array]:
    """(U, s, V^H) with `x == U * s @ V^H`, the real singular values descending; s alone without `compute_uv`.

    full_matrices    U and V are square
    NotImplementedError for a proper subset of singular values, and for the algorithms JACOBI and POLAR."""
    if algorithm in (SvdAlgorithm.JACOBI, SvdAlgorithm.POLAR):
        raise NotImplementedError("The SVD Jacobi and Polar algorithms are not implemented on CPU.")
    s, *vectors = svd_p(
        _operand("svd", x), full_matrices=bool(full_matrices), compute_uv=bool(compute_uv), subset_by_index=_indices(subset_by_index),
        algorithm=algorithm,
    )  # fmt: skip
    return (vectors[0], s, vectors[1]) if vectors else s


def schur(
    x: ArrayLike, *, compute_schur_vectors: bool = True, sort_eig_vals: bool = False, select_callable: Callable[..., Any] | None = None
) -> list[Array]:
    """[T, Z] with `x == Z @ T @ Z.conj().T`, or [T]: Z is unitary, T upper triangular, for real x with 2 x 2 blocks on the diagonal for
    pairs of conjugate eigenvalues. NotImplementedError for `sort_eig_vals`."""
    return schur_p(
        _operand("schur", x), compute_schur_vectors=bool(compute_schur_vectors), sort_eig_vals=bool(sort_eig_vals),
        select_callable=select_callable,
    )  # fmt: skip


def hessenberg(a: ArrayLike) -> list[Array]:
    """[reflections and H in one matrix, taus]: a is similar to H, which is zero below its first subdiagonal."""
    return hessenberg_p(_operand("hessenberg", a))


def tridiagonal(a: ArrayLike, *, lower: bool = True) -> list[Array]:
    """[reflections, diagonal, off-diagonal, taus]: the Hermitian a, of which one triangle is read, is similar to that real matrix."""
    return tridiagonal_p(_operand("tridiagonal", a), lower=bool(lower))


def triangular_solve(
    a: ArrayLike,
    b: ArrayLike,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """The x with `op(a) @ x == b`, or `x @ op(a) == b` if not `left_side`. b may be one vector.

    lower           a's lower triangle counts, else the upper; the other is not read
    transpose_a, conjugate_a   what op does
    unit_diagonal   the diagonal counts as ones"""
    x, y = _operand("triangular_solve", a), _operand("triangular_solve", b, 1)
    vector = y.ndim == x.ndim - 1
    if vector:
        at = y.ndim if left_side else y.ndim - 1
        y = broadcast(y, (*y.shape[:at], 1, *y.shape[at:]), tuple(d for d in range(y.ndim + 1) if d != at))
    conjugates = bool(conjugate_a) and dtypes.is_complex(x.aval.dtype)
    out = triangular_solve_p(
        x, y, left_side=bool(left_side), lower=bool(lower), transpose_a=bool(transpose_a), conjugate_a=conjugates,
        unit_diagonal=bool(unit_diagonal),
    )  # fmt: skip
    return OPS["squeeze"](out, dimensions=(out.ndim - 1 if left_side else out.ndim - 2,)) if vector else out


def tridiagonal_solve(dl: ArrayLike, d: ArrayLike, du: ArrayLike, b: ArrayLike, *, perturb_singular: bool = False) -> Array:
    """The x with `A @ x == b` for the tridiagonal A with diagonals dl (dl[0] does not count), d and du (du[-1] does not count). b has the
    shape (..., n, m). NaN for a singular A; `perturb_singular` replaces pivots that are zero by the least normal number."""
    operands = (_operand("tridiagonal_solve", x, k) for k, x in enumerate((dl, d, du, b)))
    return tridiagonal_solve_p(*operands, perturb_singular=bool(perturb_singular))


def qdwh(
    x: ArrayLike,
    *,
    is_hermitian: bool = False,
    max_iterations: int | None = None,
    eps: float | None = None,
    dynamic_shape: tuple[int, int] | None = None,
) -> tuple[Array, Array, Array, Array]:
    """(U, H, number of iterations, whether it converged) with `x == U @ H`: the polar decomposition of a matrix with at least as many rows
    as columns, by dynamically weighted Halley iterations, in the form of QR decompositions (Nakatsukasa, Bai and Gygi, Optimizing Halley's
    iteration for computing the matrix polar decomposition, 2010). The weights, and so the number of iterations, follow from the dtype's
    precision alone. `dynamic_shape`: the part of x that counts, the rest being zero.

    ValueError for other shapes, and for a max_iterations below 1."""
    a = _operand("qdwh", x)
    if a.ndim != 2 or a.shape[0] < a.shape[1]:
        raise ValueError(f"The input matrix of shape M x N must have M >= N, got shape {a.shape}.")
    limit = 10 if max_iterations is None else max_iterations
    if limit < 1:
        raise ValueError(f"qdwh: max_iterations must be at least 1, got {max_iterations}")
    rows, columns = a.shape
    real = m.real_part(a).aval.dtype
    if dynamic_shape is not None:
        a = _masked(a, dynamic_shape)
    precision = float(eps) if eps is not None else float(dtypes.finfo(real).eps)
    size = OPS["abs"](a)
    norm1 = OPS["reduce_max"](sum_over(size, (0,)), axes=(0,), out_sharding=None) if a.size else number(size, 1)
    norm2 = OPS["reduce_max"](sum_over(size, (1,)), axes=(0,), out_sharding=None) if a.size else number(size, 1)
    scale = OPS["sqrt"](mul(norm1, norm2), accuracy=None)
    scale = OPS["select_n"](OPS["eq"](scale, number(scale, 0)), scale, number(scale, 1))
    u = previous = OPS["div"](a, broadcast(m.as_dtype_of(scale, a), a.shape))
    identity = m.identity_like(zeros(ShapedArray((columns, columns), a.aval.dtype)))
    bound, done = precision, 0
    while done < limit:
        weights, bound = _halley(bound)
        previous, u = u, _halley_step(u, identity, *weights)
        done += 1
        if abs(1 - bound) <= 5 * precision:
            break
    h = m.matmul(m.adjoint(u), a)
    h = symmetrize(h)
    if is_hermitian and rows == columns:
        u = symmetrize(u)
    moved = OPS["sqrt"](sum_over(square(OPS["abs"](sub(u, previous))), (0, 1)), accuracy=None)
    converged = OPS["le"](moved, number(moved, (4 * precision) ** (1 / 3) * max(1.0, math.sqrt(columns))))
    return u, h, as_array("qdwh", np.asarray(done, dtypes.default_int())), converged


def _masked(a: Array, dynamic_shape: Any) -> Array:
    for axis, count in enumerate(dynamic_shape):
        position = OPS["iota"](dtype=dtypes.int32, shape=a.shape, dimension=axis, sharding=None)
        inside = OPS["lt"](position, convert(as_array("qdwh", count), dtypes.int32))
        a = OPS["select_n"](inside, zeros(ShapedArray(a.shape, a.aval.dtype)), a)
    return a


def _halley(bound: float) -> tuple[tuple[float, float, float], float]:
    """The weights of an iteration for singular values of at least `bound`, and the bound after it."""
    square = bound * bound
    d = (4 * (1 - square) / (square * square)) ** (1 / 3) if bound < 1 else 0.0
    root = math.sqrt(1 + d)
    a = root + math.sqrt(8 - 4 * d + 8 * (2 - square) / (square * root)) / 2
    b = (a - 1) ** 2 / 4
    c = a + b - 1
    return (a, b, c), min(1.0, bound * (a + b * square) / (1 + c * square))


def _halley_step(x: Array, identity: Array, a: float, b: float, c: float) -> Array:
    """x (a + b x^H x) (1 + c x^H x)^-1"""
    rows = x.shape[0]
    stacked = OPS["concatenate"](mul(x, number(x, math.sqrt(c))), identity, dimension=0)
    q, _ = qr(stacked, full_matrices=False)
    q1 = m.leading(q, rows, q.shape[1])
    q2 = OPS["slice"](q, start_indices=(rows, 0), limit_indices=q.shape, strides=None)
    turned = m.matmul(q1, m.adjoint(q2))
    return add(mul(x, number(x, b / c)), mul(turned, number(x, (a - b / c) / math.sqrt(c))))


__all__ = [
    "EigImplementation", "EighImplementation", "SvdAlgorithm", "cholesky", "cholesky_p", "cholesky_update", "cholesky_update_p", "eig",
    "eig_p", "eigh", "eigh_p", "hessenberg", "hessenberg_p", "householder_product", "householder_product_p", "lu", "lu_p",
    "lu_pivots_to_permutation", "lu_pivots_to_permutation_p", "ormqr", "ormqr_p", "qdwh", "qr", "qr_p", "schur", "schur_p", "svd",
    "svd_p", "symmetric_product", "symmetric_product_p", "triangular_solve", "triangular_solve_p", "tridiagonal", "tridiagonal_p",
    "tridiagonal_solve", "tridiagonal_solve_p",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__
