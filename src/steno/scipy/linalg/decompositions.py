"""Decompositions and solves of scipy.linalg. Arguments that say what may be overwritten or should be checked (`overwrite_a`,
`check_finite`, ...) have no effect."""

from __future__ import annotations

from typing import Any

import numpy as np

from steno import lax
from steno.api import jit
from steno.core import dtypes
from steno.lax import linalg as ll
from steno.mapping import vmap
from steno.numpy import elementwise as e, linalg
from steno.numpy.functional import vectorize
from steno.numpy.linalg.operands import operand, square_operand
from steno.numpy.linalg.systems import lu_substitution
from steno.numpy.manipulation import broadcast_to, expand_dims
from steno.numpy.operands import Array, ArrayLike, as_array, promoted_inexact, strong
from steno.numpy.selection import where
from steno.numpy.taking import take
from steno.ops import matrices as m
from steno.ops.linalg_factor import geqp3, geqrf
from steno.transforms.rules import zeros


def right_hand_side(fun: str, a: Array, b: Array) -> tuple[Array, Array, bool]:
    """a and b with the batch axes both are broadcast to, b as matrices, and whether it is vectors: one, or one for each matrix of a."""
    vector = b.ndim == 1 or b.shape == a.shape[:-1]
    if a.ndim < 2 or b.ndim < 1 or a.shape[-1] != a.shape[-2] or b.shape[-1 if vector else -2] != a.shape[-1]:
        raise ValueError(f"{fun}: shapes do not fit, got {a.shape} and {b.shape}; wanted (..., n, n), and (..., n) or (..., n, k)")
    if vector:
        b = expand_dims(b, -1)
    try:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        raise ValueError(f"{fun}: leading axes must be equal or 1, got shapes {a.shape} and {b.shape}") from None
    return broadcast_to(a, (*batch, *a.shape[-2:])), broadcast_to(b, (*batch, *b.shape[-2:])), vector


def _finish(x: Array, vector: bool) -> Array:
    return lax.squeeze(x, (x.ndim - 1,)) if vector else x


# cholesky


def cholesky(a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The upper triangular U with `U.conj().T @ U == a`, or the lower triangular L with `L @ L.conj().T == a`. The other triangle of a is
    not read."""
    x = square_operand("cholesky", a)
    return ll.cholesky(x, symmetrize_input=False) if lower else m.adjoint(ll.cholesky(m.adjoint(x), symmetrize_input=False))


def cho_factor(a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Array, bool]:
    """(Cholesky factor, lower): for `cho_solve`."""
    return cholesky(a, lower), lower


def cho_solve(c_and_lower: tuple[ArrayLike, bool], b: ArrayLike, overwrite_b: bool = False, check_finite: bool = True) -> Array:
    """The x with `a @ x == b`, given `cho_factor(a)`."""
    factor, lower = c_and_lower
    c, y = (strong(v) for v in promoted_inexact("cho_solve", factor, b))
    c, y, vector = right_hand_side("cho_solve", c, y)
    first = {"left_side": True, "lower": lower}
    second = {**first, "transpose_a": True, "conjugate_a": True}
    y = ll.triangular_solve(c, y, **(first if lower else second))
    return _finish(ll.triangular_solve(c, y, **(second if lower else first)), vector)


# lu


def lu_factor(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Array, Array]:
    """(L and U in one matrix, pivots): for `lu_solve`."""
    factors, pivots, _ = ll.lu(operand("lu_factor", a))
    return factors, pivots


def lu_solve(
    lu_and_piv: tuple[Array, ArrayLike], b: ArrayLike, trans: int = 0, overwrite_b: bool = False, check_finite: bool = True
) -> Array:  # fmt: skip
    """The x with `a @ x == b` (trans 0), `a.T @ x == b` (1) or `a.conj().T @ x == b` (2), given `lu_factor(a)`."""
    if trans not in (0, 1, 2):
        raise ValueError(f"'trans' value must be 0, 1, or 2, got {trans}")
    factors, pivots = lu_and_piv
    x, y = (strong(v) for v in promoted_inexact("lu_solve", factors, b))
    permutation = ll.lu_pivots_to_permutation(pivots, x.shape[-2])
    x, y, vector = right_hand_side("lu_solve", x, y)
    return _finish(lu_substitution(x, broadcast_to(permutation, x.shape[:-1]), y, trans), vector)


def lu(
    a: ArrayLike, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, Array] | tuple[Array, Array, Array]:
    """(P, L, U) with `a == P @ L @ U`: a permutation, a lower triangle with ones on its diagonal, an upper one. `permute_l`: (P @ L, U)."""
    x = operand("lu", a)
    factors, _, permutation = ll.lu(x)
    rows, columns = x.shape[-2:]
    k = min(rows, columns)
    left = m.lower(m.leading(factors, rows, k), -1)
    left = e.add(left, m.identity_like(left))
    right = m.upper(m.leading(factors, k, columns))
    real = m.real_part(x).dtype
    order = e.equal(expand_dims(permutation, -2), expand_dims(np.arange(rows, dtype=np.int32), -1))
    p = lax.convert_element_type(order, real)
    return (m.matmul(m.as_dtype_of(p, left), left), right) if permute_l else (p, left, right)


# qr


def qr(
    a: ArrayLike,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Array] | tuple[Array, Array] | tuple[Array, Array, Array]:
    """(Q, R) with `a == Q @ R`; pivoting, (Q, R, order) with `a[:, order] == Q @ R`.

    mode    "full": Q is square; "economic": as few columns as will do; "r": as full, without Q"""
    if mode not in ("full", "r", "economic"):
        raise ValueError(f"Unsupported QR decomposition mode '{mode}'")
    q, *rest = ll.qr(operand("qr", a), pivoting=pivoting, full_matrices=mode != "economic")
    return tuple(rest) if mode == "r" else (q, *rest)  # type: ignore[return-value]


def qr_multiply(
    a: ArrayLike,
    c: ArrayLike,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Array, Array] | tuple[Array, Array, Array]:
    """(`c @ Q`, R), or (`Q @ c`, R) for the mode "left", with the Q and R of `qr(a, mode="economic")`, without forming Q. c may be a
    vector.

    pivoting     as of `qr`: the order of columns comes last
    conjugate    the conjugate of Q"""
    if mode not in ("right", "left"):
        raise ValueError(f"mode must be 'right' or 'left', got '{mode}'")
    x, y = (strong(v) for v in promoted_inexact("qr_multiply", a, c))
    if x.ndim < 2:
        raise ValueError(f"qr_multiply: expected matrices, got shape {x.shape}")
    rows, columns = x.shape[-2:]
    k = min(rows, columns)
    vector = y.ndim == 1
    if vector:
        y = expand_dims(y, 0 if mode == "right" else -1)
    wanted = rows if mode == "right" else k
    if y.shape[-1 if mode == "right" else -2] != wanted:
        raise ValueError(f"qr_multiply: Q has the shape ({rows}, {k}), which does not fit c of shape {y.shape} in the mode {mode!r}")
    order = []
    if pivoting:
        factors, positions, taus = geqp3(x, zeros(m.like(x.aval, columns, dtype=dtypes.int32)))
        order = [e.subtract(positions, 1)]
    else:
        factors, taus = geqrf(x)
    r = m.upper(m.leading(factors, k, columns))
    if mode == "left":
        y = m.padded(y, rows, y.shape[-1])
    if conjugate:
        y = m.conjugate(y)
    out = ll.ormqr(m.leading(factors, rows, k), taus, y, left=mode == "left")
    if conjugate:
        out = m.conjugate(out)
    if mode == "right":
        out = m.leading(out, out.shape[-2], k)
    if vector:
        out = lax.squeeze(out, (out.ndim - 2 if mode == "right" else out.ndim - 1,))
    return (out, r, *order)  # type: ignore[return-value]


# solve


def solve(
    a: ArrayLike,
    b: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Array:
    """The x with `a @ x == b`. assume_a: "gen", "sym", "her", or "pos", for which a Cholesky decomposition serves."""
    if assume_a not in ("gen", "sym", "her", "pos"):
        raise ValueError(f"Expected assume_a to be one of ['gen', 'sym', 'her', 'pos']; got '{assume_a}'")
    if assume_a != "pos":
        return linalg.solve(a, b)
    x, y = (strong(v) for v in promoted_inexact("solve", a, b))
    if x.ndim > 2 and y.ndim == 1:
        raise ValueError(f"solve: wanted a of shape (..., n, n) and b of shape (..., n, k) or (..., n), got {x.shape} and {y.shape}")
    x, y, vector = right_hand_side("solve", x, y)
    factor = cho_factor(lax.stop_gradient(x), lower)
    out = lax.custom_linear_solve(
        lambda v: m.matmul(x, v),
        y,
        lambda _, v: cho_solve(factor, v),
        lambda _, v: m.conjugate(cho_solve(factor, m.conjugate(v))),
    )
    return _finish(out, vector)


_TRANSPOSED = {0: (False, False), "N": (False, False), 1: (True, False), "T": (True, False), 2: (True, True), "C": (True, True)}


def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> Array:
    """The x with `op(a) @ x == b` for a triangular a, whose other triangle is not read; op does nothing (0 or "N"), transposes (1, "T") or
    takes the adjoint (2, "C")."""
    if trans not in _TRANSPOSED:
        raise ValueError(f"Invalid 'trans' value {trans}")
    transposes, conjugates = _TRANSPOSED[trans]
    x, y = (strong(v) for v in promoted_inexact("solve_triangular", a, b))
    flags = {"left_side": True, "lower": lower, "transpose_a": transposes, "conjugate_a": conjugates, "unit_diagonal": unit_diagonal}
    x, y, vector = right_hand_side("solve_triangular", x, y)
    return _finish(ll.triangular_solve(x, y, **flags), vector)


def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The determinants of square matrices."""
    return linalg.det(a)


def inv(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The inverses of square matrices."""
    return linalg.inv(a)


# eigenvalues, singular values


def eigh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Array | tuple[Array, Array]:
    """(eigenvalues ascending, eigenvectors in columns) of Hermitian matrices: `a @ v == v * w`.

    b       a positive definite matrix. type 1: `a @ v == b @ v * w`; 2: `a @ b @ v == v * w`; 3: `b @ a @ v == v * w`
    NotImplementedError for `eigvals`, a range of eigenvalues."""
    if eigvals is not None:
        raise NotImplementedError("Only the eigvals=None case of eigh is implemented.")
    if type not in (1, 2, 3):
        raise ValueError("type must be 1, 2, or 3.")
    if b is None:
        v, w = ll.eigh(operand("eigh", a), lower=lower)
        return w if eigvals_only else (w, v)
    x, y = (strong(v) for v in promoted_inexact("eigh", a, b))
    x = ll.symmetrize(x)
    c = ll.cholesky(y)
    adjoint = {"transpose_a": True, "conjugate_a": True}
    if type == 1:
        x = ll.triangular_solve(c, x, left_side=True, lower=True)
        x = ll.triangular_solve(c, x, left_side=False, lower=True, **adjoint)
    else:
        x = m.matmul(m.matmul(m.adjoint(c), x), c)
    v, w = ll.eigh(x)
    if eigvals_only:
        return w
    return w, (m.matmul(c, v) if type == 3 else ll.triangular_solve(c, v, left_side=True, lower=True, **adjoint))


def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[float, float] | None = None,
    tol: float | None = None,
    key: Array | None = None,
) -> Array | tuple[Array, Array]:
    """(eigenvalues ascending, eigenvectors in columns) of the Hermitian matrix with the diagonal d and the elements e below it.

    select    "a": all; "i": those at the positions `select_range`, both ends included
    NotImplementedError for "v". `tol` and `key` have no effect."""
    if select not in ("a", "i", "v"):
        raise ValueError(f"select must have a value in {{'a', 'i', 'v'}}, got {select!r}")
    if select != "a" and select_range is None:
        raise ValueError(f"for select='{select}', select_range must be specified.")
    if select == "v":
        raise NotImplementedError("eigh_tridiagonal(..., select='v') is not implemented")
    diagonal, off = as_array("eigh_tridiagonal", d, 0), as_array("eigh_tridiagonal", e, 1)
    if diagonal.dtype != off.dtype:
        raise TypeError(f"diagonal and off-diagonal values must have same dtype, got {diagonal.dtype} and {off.dtype}")
    if diagonal.dtype not in m.LAPACK:
        raise TypeError(f"eigh_tridiagonal: only float and complex inputs are supported, got {diagonal.dtype} and {off.dtype}")
    if diagonal.ndim != 1 or off.shape != (max(diagonal.shape[0] - 1, 0),):
        raise TypeError(f"eigh_tridiagonal: e must have one element less than the vector d, got shapes {diagonal.shape} and {off.shape}")
    n = diagonal.shape[0]
    first, last = 0, n - 1
    if select_range is not None and select == "i":
        first, last = map(int, select_range)
        if first > last:
            raise ValueError("Got empty index range in select_range.")
        if first < 0 or last >= n:
            raise ValueError(f"select_range must lie in [0, {n}), got {select_range}")
    x = lax.full((n, n), 0, diagonal.dtype)
    positions = np.arange(n)
    x = x.at[positions, positions].set(diagonal).at[positions[1:], positions[:-1]].set(off)
    v, w = ll.eigh(x, symmetrize_input=False)
    w = lax.slice_in_dim(w, first, last + 1)
    return w if eigvals_only else (w, lax.slice_in_dim(v, first, last + 1, axis=1))


def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Array | tuple[Array, Array, Array]:
    """(U, s, V^H) with `a == U * s @ V^H`; s alone without `compute_uv`. `lapack_driver`: "gesdd" or "gesvd", which is slower."""
    algorithm = ll.SvdAlgorithm.QR if lapack_driver == "gesvd" else None
    return ll.svd(operand("svd", a), full_matrices=full_matrices, compute_uv=compute_uv, algorithm=algorithm)


def schur(a: ArrayLike, output: str = "real") -> list[Array]:
    """[T, Z] with `a == Z @ T @ Z.conj().T`: see `lax.linalg.schur`. output "complex": T is upper triangular also for real a."""
    if output not in ("real", "complex"):
        raise ValueError(f"Expected 'output' to be either 'real' or 'complex', got output='{output}'.")
    x = operand("schur", a)
    if output == "complex":
        x = lax.convert_element_type(x, m.complex_dtype(x.dtype))
    return ll.schur(x)


def rsf2csf(T: ArrayLike, Z: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """The complex Schur form (upper triangular) for a real one: a rotation for each 2 x 2 block."""
    t, z = (strong(v) for v in promoted_inexact("rsf2csf", T, Z))
    for name, x in (("T", t), ("Z", z)):
        if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
            raise ValueError(f"Input '{name}' must be square, got shape {x.shape}")
    if t.shape[-1] != z.shape[-1]:
        raise ValueError(f"Input array shapes must match: Z: {z.shape} vs. T: {t.shape}")
    given = m.complex_dtype(t.dtype)
    t, z = lax.convert_element_type(t, given), lax.convert_element_type(z, given)
    return _triangularized(t, z) if t.shape[-1] > 1 else (t, z)


def _triangularize(t: Array, z: Array) -> tuple[Array, Array]:
    n = t.shape[0]
    eps = float(dtypes.finfo(t.dtype).eps)

    def rotate(i: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        t, z = state
        k = e.subtract(n - 1, i)  # rows and columns k - 1 and k
        pair = lax.stack([e.subtract(k, 1), k])
        block = take(take(t, pair, axis=0), pair, axis=1)
        a, c, d = block[0, 0], block[1, 0], block[1, 1]
        mu = e.subtract(linalg.eigvals(block)[0], d)
        length = e.sqrt(e.add(e.square(e.abs(mu)), e.square(e.abs(c))))
        small = e.less_equal(e.abs(c), e.multiply(eps, e.add(e.abs(a), e.abs(d))))
        safe = m.as_dtype_of(where(small, 1.0, length), c)
        cos, sin = where(small, 1.0, e.divide(mu, safe)), where(small, 0.0, e.divide(c, safe))
        zero = lax.full_like(cos, 0)
        g = lax.reshape(lax.stack([e.conj(cos), sin, e.negative(sin), cos]), (2, 2))
        beyond = e.greater_equal(np.arange(n, dtype=np.int32)[None], e.subtract(k, 1))
        rows = take(t, pair, axis=0)
        t = t.at[pair].set(where(beyond, m.matmul(g, rows), rows))
        above = e.less_equal(np.arange(n, dtype=np.int32)[:, None], k)
        columns = take(t, pair, axis=1)
        t = t.at[:, pair].set(where(above, m.matmul(columns, m.adjoint(g)), columns))
        z = z.at[:, pair].set(m.matmul(take(z, pair, axis=1), m.adjoint(g)))
        return t.at[k, e.subtract(k, 1)].set(zero), z

    return lax.fori_loop(np.int32(0), np.int32(n - 1), rotate, (t, z))


_triangularized = vectorize(_triangularize, signature="(n,n),(n,n)->(n,n),(n,n)")


def hessenberg(
    a: ArrayLike, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Array | tuple[Array, Array]:  # fmt: skip
    """H, or (H, Q) with `a == Q @ H @ Q.conj().T`: H is zero below its first subdiagonal."""
    x = operand("hessenberg", a)
    if x.ndim >= 2 and x.shape[-1] == x.shape[-2] and not x.shape[-1]:
        return (x, x) if calc_q else x
    factors, taus = ll.hessenberg(x)
    h = m.upper(factors, -1)
    if not calc_q:
        return h
    n = x.shape[-1]
    inner = lax.slice(factors, (*(0 for _ in x.shape[:-2]), 1, 0), (*x.shape[:-2], n, n - 1))
    q = ll.householder_product(inner, taus)
    config = (*((0, 0, 0) for _ in x.shape[:-2]), (1, 0, 0), (1, 0, 0))
    first = m.identity_like(x).at[..., 1:, 1:].set(0)
    return h, e.add(lax.pad(q, lax.full((), 0, x.dtype), config), first)


_qdwh = jit(ll.qdwh, static_argnames=("max_iterations", "eps"))


def polar(
    a: ArrayLike, side: str = "right", *, method: str = "qdwh", eps: float | None = None, max_iterations: int | None = None
) -> tuple[Array, Array]:
    """(U, P) with `a == U @ P`, or `a == P @ U` for the side "left": orthonormal rows or columns, and a positive semidefinite matrix.

    method    "qdwh": Halley's iteration (`eps` and `max_iterations` are its), for matrices with at least as many rows as columns (left: at
              most as many); "svd": by singular values"""
    x = operand("polar", a)
    if x.ndim < 2:
        raise ValueError(f"polar: the input must be a matrix, got shape {x.shape}")
    if x.ndim > 2:
        return vmap(lambda y: polar(y, side, method=method, eps=eps, max_iterations=max_iterations))(x)
    if side not in ("right", "left"):
        raise ValueError("The argument `side` must be either 'right' or 'left'.")
    rows, columns = x.shape
    if method == "qdwh":
        if rows < columns if side == "right" else rows > columns:
            raise NotImplementedError(
                f"polar: method='qdwh' needs at least as many rows as columns for side='right', and at most as many for side='left', got "
                f"{x.shape} with side={side!r}"
            )
        u, p, *_ = _qdwh(x if side == "right" else m.adjoint(x), max_iterations=max_iterations, eps=eps)
        return (u, p) if side == "right" else (m.adjoint(u), p)
    if method != "svd":
        raise ValueError(f"Unknown polar decomposition method {method}.")
    u, s, vh = ll.svd(x, full_matrices=False)  # type: ignore[misc]
    s = m.as_dtype_of(s, u)
    p = m.matmul(m.scale_columns(m.adjoint(vh), s), vh) if side == "right" else m.matmul(m.scale_columns(u, s), m.adjoint(u))
    return m.matmul(u, vh), p
