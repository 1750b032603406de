"""Decompositions found by iteration, and the reductions these begin with: eigh, eig, svd, schur, hessenberg, tridiagonal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from steno.core import dtypes
from steno.core.aval import ShapedArray
from steno.core.op import Op
from steno.ir.kinds import Library
from steno.ops import arithmetic as a, compare
from steno.ops.arithmetic import complex_for, real_of
from steno.ops.families import converted, number
from steno.ops.linalg_factor import FLOOR, cubic, library, lu, reflect, reflector
from steno.ops.linalg_solve import triangular
from steno.ops.matrices import (
    BATCHED,
    CODES,
    adjoint,
    as_dtype_of,
    check_matrix,
    check_square,
    conjugate,
    count,
    diagonal,
    hermitian,
    identity_like,
    lapack_dtypes,
    like,
    matmul,
    matrices,
    per_matrix,
    real_part,
    scale_columns,
    scale_rows,
    symmetrized,
    take_rows,
)
from steno.ops.oracle import Oracle
from steno.ops.reduce import reduce_max
from steno.transforms.rules import broadcast, instantiate, sum_over, zeros

LOOSE = 2048.0


def _differences(values: Any) -> Any:
    """F[i, j] = 1 / (w[j] - w[i]) off the diagonal, 0 on it."""
    n = values.shape[-1]
    square = (*values.shape, n)
    batch = range(len(values.shape) - 1)
    d = a.sub(broadcast(values, square, (*batch, len(square) - 1)), broadcast(values, square, (*batch, len(square) - 2)))
    unit = identity_like(d)
    return a.sub(a.div(broadcast(number(d, 1), d.shape), a.add(d, unit)), unit)


def _solved(x: Any, b: Any) -> Any:
    """x^-1 b"""
    factors, _, order = lu(x)
    y = triangular(factors, take_rows(b, order), left_side=True, lower=True, unit_diagonal=True)
    return triangular(factors, y, left_side=True, lower=False)


def _nan(x: np.ndarray) -> np.ndarray:
    return np.full_like(x, complex(np.nan, np.nan) if x.dtype.kind == "c" else np.nan)


def _or_nan(fun: Any, *results: np.ndarray) -> list[np.ndarray]:
    """NumPy's results; NaN, of the shapes and dtypes given, where it finds none."""
    try:
        return [np.asarray(y, r.dtype) for y, r in zip(fun(), results, strict=True)]
    except np.linalg.LinAlgError:
        return [_nan(r) for r in results]


# eigh


def _eigh_typ(x: ShapedArray, *, subset_by_index: Any, **params: Any) -> list[ShapedArray]:
    n = check_square("eigh", x)
    if subset_by_index is not None and tuple(subset_by_index) != (0, n):
        raise NotImplementedError("subset_by_index not supported on CPU and GPU")
    return [ShapedArray(x.shape, x.dtype), like(x, n, dtype=real_of(x.dtype))]


def _eigh_oracle(x: np.ndarray, *, lower: bool, **params: Any) -> list[np.ndarray]:
    def run() -> Any:
        if not np.isfinite(np.tril(x) if lower else np.triu(x)).all():
            raise np.linalg.LinAlgError
        return np.linalg.eigh(x, "L" if lower else "U")[::-1]

    return _or_nan(run, x, np.diag(x).real)


def _eigh_samples() -> Iterable[Any]:
    for d in lapack_dtypes():
        for k, sizes in enumerate([(4, 4), (3, 3, 3), (1, 1), (0, 0), (2, 0, 0), (0, 3, 3)]):
            yield (hermitian(d, *sizes),), _EIGH | {"lower": bool(k % 2)}
    yield (np.full((3, 3), np.nan),), _EIGH


_EIGH = {"lower": True, "sort_eigenvalues": True, "subset_by_index": None, "algorithm": None}


def _eigh_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[list[Any], list[Any]]:
    """With D = V^H dA V: dw = diag(D), dV = V (F o D). Without meaning where eigenvalues coincide."""
    (x,), (g,) = primals, tangents
    v, w = eigh(x, **params)
    inner = matmul(adjoint(v), matmul(symmetrized(instantiate(g), params["lower"]), v))
    turn = a.mul(as_dtype_of(_differences(w), inner), inner)
    return [v, w], [matmul(v, turn), real_part(diagonal(inner))]


eigh = Op(
    "eigh",
    typ=_eigh_typ,
    oracle=Oracle(per_matrix(_eigh_oracle, 2), LOOSE, FLOOR, LOOSE),
    lower=lambda avals_in, avals_out, *, lower, **params: Library(
        "steno_eigh", (CODES[avals_in[0].dtype], count(avals_in[0]), avals_in[0].shape[-1], int(lower))
    ),
    multiple_results=True,
    samples=_eigh_samples,
    jvp=_eigh_jvp,
    batch=BATCHED,
    cost=cubic(9),
)
"""[eigenvectors in columns, eigenvalues ascending] of the Hermitian matrix of which one triangle is read. The other parameters are JAX's
and have no effect."""

# eig


def _eig_typ(
    x: ShapedArray, *, compute_left_eigenvectors: bool, compute_right_eigenvectors: bool, **params: Any
) -> list[ShapedArray]:  # fmt: skip
    n = check_square("eig", x)
    d = complex_for(real_of(x.dtype))
    return [like(x, n, dtype=d), *[like(x, n, n, dtype=d)] * (compute_left_eigenvectors + compute_right_eigenvectors)]


def _eig_oracle(x: np.ndarray, *, compute_left_eigenvectors: bool, compute_right_eigenvectors: bool, **params: Any) -> list[np.ndarray]:
    d = np.result_type(x.dtype, np.complex64)
    shapes = [np.empty(len(x), d), *[np.empty(x.shape, d)] * (compute_left_eigenvectors + compute_right_eigenvectors)]

    def run() -> Any:
        if not np.isfinite(x).all():
            raise np.linalg.LinAlgError
        w, v = np.linalg.eig(x)
        left = np.linalg.inv(v).conj().T if x.size else v
        left = left / np.linalg.norm(left, axis=0)
        for j in range(len(w)):  # the phase LAPACK chooses: the greatest component is real
            big = left[np.argmax(np.abs(left[:, j])), j]
            turned = left[:, j] * np.conj(big) / np.abs(big)
            left[:, j] = turned if w[j].imag or x.dtype.kind == "c" else left[:, j].real
        return [w, *[left] * compute_left_eigenvectors, *[v] * compute_right_eigenvectors]

    return _or_nan(run, *shapes)


def _eig_samples() -> Iterable[Any]:
    for d in ("float64", "complex128"):
        for sizes in [(4, 4), (2, 3, 3), (1, 1), (0, 0), (0, 3, 3)]:
            yield (matrices(d, *sizes),), _EIG
    for d in ("float32", "complex64"):  # which the specification computes more precisely, so that signs and the order may differ
        yield (np.triu(matrices(d, 4, 4)) + np.diag(np.arange(4) * 4).astype(d),), _EIG | {"compute_right_eigenvectors": False}
    yield (np.full((3, 3), np.nan),), _EIG


_EIG = {
    "compute_left_eigenvectors": False, "compute_right_eigenvectors": True, "enable_eigvec_derivs": False, "implementation": None
}  # fmt: skip


def _unit_change(v: Any, dv: Any) -> Any:
    """The change of eigenvectors that keeps length 1 and the greatest component real, given any change of their directions."""
    n = len(v.shape)
    size = a.abs_(v)
    along = sum_over(a.mul(conjugate(v), dv), (n - 2,))
    dv = a.sub(dv, scale_columns(v, as_dtype_of(a.real(along), v)))
    greatest = compare.eq(size, broadcast(reduce_max(size, axes=(n - 2,), out_sharding=None), size.shape, (*range(n - 2), n - 1)))
    # v real and dv imaginary at the greatest component (of several equal ones, their mean)
    chosen = converted(greatest, real_of(v.dtype))
    total = sum_over(chosen, (n - 2,))
    lead, change = (sum_over(a.mul(as_dtype_of(chosen, v), y), (n - 2,)) for y in (v, dv))
    share = a.div(lead, as_dtype_of(total, lead))
    turn = a.imag(a.div(a.div(change, as_dtype_of(total, change)), share))
    return a.sub(dv, scale_columns(v, a.complex_(zeros(turn.aval), turn)))


def _eig_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, compute_left_eigenvectors: bool, compute_right_eigenvectors: bool, **params: Any
) -> tuple[list[Any], list[Any]]:
    """With D = V^-1 dA V: dw = diag(D), and dV = V (F o D) up to the choice of lengths and phases."""
    if (compute_left_eigenvectors or compute_right_eigenvectors) and not params["enable_eigvec_derivs"]:
        raise NotImplementedError(
            "Derivatives of non-symmetric eigenvectors are only valid under assumptions on the input that cannot be checked (that "
            "eigenvalues are distinct, and how eigenvectors are normalized). Pass enable_eigvec_derivs=True to lax.linalg.eig to opt in."
        )
    (x,), (g,) = primals, tangents
    params["enable_eigvec_derivs"] = True  # second derivatives of eigenvalues need the first of eigenvectors, not of their lengths
    w, *lefts, right = eig(x, compute_left_eigenvectors=compute_left_eigenvectors, compute_right_eigenvectors=True, **params)
    dx = converted(instantiate(g), right.dtype)
    inner = _solved(right, matmul(dx, right))
    out, dout = [w], [diagonal(inner)]
    if compute_left_eigenvectors:
        (left,) = lefts
        turned = _solved(left, matmul(adjoint(dx), left))
        out.append(left)
        dout.append(_unit_change(left, matmul(left, a.mul(_differences(conjugate(w)), turned))))
    if compute_right_eigenvectors:
        out.append(right)
        dout.append(_unit_change(right, matmul(right, a.mul(_differences(w), inner))))
    return out, dout


eig = Op(
    "eig",
    typ=_eig_typ,
    oracle=Oracle(per_matrix(_eig_oracle, 2), LOOSE, FLOOR, LOOSE),
    lower=lambda avals_in, avals_out, *, compute_left_eigenvectors, compute_right_eigenvectors, **params: Library(
        "steno_eig",
        (
            CODES[avals_in[0].dtype], count(avals_in[0]), avals_in[0].shape[-1], int(compute_left_eigenvectors),
            int(compute_right_eigenvectors),
        ),
    ),
    multiple_results=True,
    samples=_eig_samples,
    jvp=_eig_jvp,
    batch=BATCHED,
    cost=cubic(25),
)  # fmt: skip
"""[eigenvalues, left eigenvectors?, right eigenvectors?] of square matrices: A v = w v, u^H A = w u^H, in columns of length 1."""

# svd


def _svd_typ(x: ShapedArray, *, full_matrices: bool, compute_uv: bool, subset_by_index: Any, algorithm: Any) -> list[ShapedArray]:
    check_matrix("svd", x)
    m, n = x.shape[-2:]
    k = min(m, n)
    if subset_by_index is not None:
        if full_matrices and tuple(subset_by_index) != (0, k):
            raise ValueError("full_matrices and subset_by_index cannot both be set")
        if tuple(subset_by_index) != (0, k):
            raise NotImplementedError("subset_by_index not implemented for CPU and GPU")
    s = like(x, k, dtype=real_of(x.dtype))
    return [s, like(x, m, m if full_matrices else k), like(x, n if full_matrices else k, n)] if compute_uv else [s]


def _svd_oracle(x: np.ndarray, *, full_matrices: bool, compute_uv: bool, **params: Any) -> list[np.ndarray]:
    m, n = x.shape
    k = min(m, n)
    shapes = [np.empty(k, x.real.dtype)]
    if compute_uv:
        shapes += [np.empty((m, m if full_matrices else k), x.dtype), np.empty((n if full_matrices else k, n), x.dtype)]

    def run() -> Any:
        if not np.isfinite(x).all():
            raise np.linalg.LinAlgError
        if not compute_uv:
            return [np.linalg.svd(x, compute_uv=False)]
        u, s, vh = np.linalg.svd(x, full_matrices=full_matrices)
        return [s, u, vh]

    return _or_nan(run, *shapes)


def _svd_samples() -> Iterable[Any]:
    """Singular vectors are unique up to signs alone, so the specification gives values only here; properties are tested elsewhere."""
    for d in lapack_dtypes():
        for sizes in [(4, 4), (2, 5, 3), (3, 5), (30, 30), (1, 1), (0, 3), (3, 0), (0, 3, 3)]:
            yield (matrices(d, *sizes),), _SVD
    for sizes in [(0, 3), (3, 0), (2, 0, 0)]:
        for full in (True, False):
            yield (matrices("float64", *sizes),), _SVD | {"compute_uv": True, "full_matrices": full}
    yield (np.full((3, 3), np.nan),), _SVD | {"compute_uv": True}


_SVD = {"full_matrices": True, "compute_uv": False, "subset_by_index": None, "algorithm": None}


def _svd_lower(
    avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, full_matrices: bool, compute_uv: bool, algorithm: Any, **_: Any
) -> Library:
    x = avals_in[0]
    vectors = 0 if not compute_uv else 2 if full_matrices else 1
    by_iteration = getattr(algorithm, "name", algorithm) == "QR"
    return Library("steno_svd", (CODES[x.dtype], count(x), *x.shape[-2:], vectors, int(by_iteration)))


def _svd_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, full_matrices: bool, compute_uv: bool, **params: Any
) -> tuple[list[Any], list[Any]]:
    """With D = U^H dA V: ds = Re diag(D), dU = U (G o (D S + S D^H)), dV = V (G o (S D + D^H S)) with G[i, j] = 1 / (s[j]^2 - s[i]^2), and
    what lies outside the spaces of U and V. Without meaning where singular values coincide."""
    (x,), (g,) = primals, tangents
    s, u, vh = svd(x, full_matrices=False, compute_uv=True, **params)
    m, n = x.shape[-2:]
    if compute_uv and full_matrices and m != n:
        raise NotImplementedError("Singular value decomposition JVP not implemented for full matrices")
    g, v, uh = instantiate(g), adjoint(vh), adjoint(u)
    inner = matmul(uh, matmul(g, v))
    ds = real_part(diagonal(inner))
    if not compute_uv:
        return [s], [ds]
    sc = as_dtype_of(s, inner)
    gaps = as_dtype_of(_squared_differences(s), inner)
    right, left = scale_columns(inner, sc), scale_rows(inner, sc)
    du = matmul(u, a.mul(gaps, a.add(right, adjoint(right))))
    dv = matmul(v, a.mul(gaps, a.add(left, adjoint(left))))
    safe = compare.select_n(compare.eq(s, zeros(s.aval)), s, broadcast(number(s, 1), s.shape))
    inverse = as_dtype_of(a.div(broadcast(number(s, 1), s.shape), safe), inner)
    if dtypes.is_complex(x.dtype):  # imaginary parts of the diagonal turn pairs of vectors
        phase = a.mul(identity_like(inner), a.mul(a.sub(inner, adjoint(inner)), number(inner, 0.5)))
        du = a.add(du, matmul(u, scale_columns(phase, inverse)))
    if m > n:
        moved = matmul(g, v)
        du = a.add(du, scale_columns(a.sub(moved, matmul(u, matmul(uh, moved))), inverse))
    if n > m:
        moved = matmul(adjoint(g), u)
        dv = a.add(dv, scale_columns(a.sub(moved, matmul(v, matmul(vh, moved))), inverse))
    return [s, u, vh], [ds, du, adjoint(dv)]


def _squared_differences(s: Any) -> Any:
    """G[i, j] = 1 / (s[j]^2 - s[i]^2) off the diagonal, 0 on it; the difference as (s[j] + s[i]) (s[j] - s[i])."""
    square = (*s.shape, s.shape[-1])
    batch = range(len(s.shape) - 1)
    columns, rows = broadcast(s, square, (*batch, len(square) - 1)), broadcast(s, square, (*batch, len(square) - 2))
    d = a.mul(a.add(columns, rows), a.sub(columns, rows))
    unit = identity_like(d)
    return a.sub(a.div(broadcast(number(d, 1), d.shape), a.add(d, unit)), unit)


svd = Op(
    "svd",
    typ=_svd_typ,
    oracle=Oracle(per_matrix(_svd_oracle, 2), LOOSE, FLOOR, LOOSE),
    lower=_svd_lower,
    multiple_results=True,
    samples=_svd_samples,
    jvp=_svd_jvp,
    batch=BATCHED,
    cost=cubic(20),
)
"""[singular values descending, U?, V^H?] with A = U diag(s) V^H. `full_matrices`: U and V square."""

# schur


def _schur_typ(x: ShapedArray, *, compute_schur_vectors: bool, sort_eig_vals: bool, select_callable: Any) -> list[ShapedArray]:
    check_square("schur", x)
    if sort_eig_vals:
        raise NotImplementedError("The sort feature of LAPACK's gees routine is not implemented.")
    return [ShapedArray(x.shape, x.dtype)] * (1 + compute_schur_vectors)


def _schur_oracle(x: np.ndarray, *, compute_schur_vectors: bool, **params: Any) -> list[np.ndarray]:
    """By deflation: an orthonormal basis of the invariant space of an eigenvalue (of a pair of them for real matrices), completed; and on
    with the rest. Blocks of pairs are not brought to LAPACK's standard form."""
    n = len(x)
    if not np.isfinite(x).all():
        return [_nan(x)] * (1 + compute_schur_vectors)
    d = np.result_type(x.dtype, np.float64)
    t, z = x.astype(d), np.eye(n, dtype=d)
    k = 0
    while k < n - 1:
        values, vectors = np.linalg.eig(t[k:, k:])
        first = vectors[:, 0]
        pair = d.kind == "f" and np.iscomplexobj(values) and values[0].imag != 0
        space = np.stack([first.real, first.imag], 1) if pair else (first.real if d.kind == "f" else first)[:, None]
        q = np.eye(n, dtype=d)
        q[k:, k:], r = np.linalg.qr(space, mode="complete")
        signs = np.where(np.diag(r) == 0, 1, np.diag(r) / np.where(np.diag(r) == 0, 1, np.abs(np.diag(r))))
        q[k:, k : k + len(signs)] *= signs
        t, z = q.conj().T @ t @ q, z @ q
        k += 2 if pair else 1
        t[k:, k - (2 if pair else 1) : k] = 0
    return [t.astype(x.dtype), z.astype(x.dtype)][: 1 + compute_schur_vectors]


def _schur_samples() -> Iterable[Any]:
    """Schur forms are not unique: here matrices that have theirs; properties are tested elsewhere."""
    for d in lapack_dtypes():
        for n in (0, 1, 4):
            x = np.triu(matrices(d, n, n)) + np.diag(np.arange(n) * 4.0)
            yield (x.astype(d),), _SCHUR
    yield (np.zeros((0, 3, 3)),), _SCHUR
    yield (np.full((3, 3), np.nan),), _SCHUR


_SCHUR = {"compute_schur_vectors": True, "sort_eig_vals": False, "select_callable": None}

schur = Op(
    "schur",
    typ=_schur_typ,
    oracle=Oracle(per_matrix(_schur_oracle, 2), LOOSE, FLOOR, LOOSE),
    lower=lambda avals_in, avals_out, *, compute_schur_vectors, **params: Library(
        "steno_schur",
        (CODES[avals_in[0].dtype], count(avals_in[0]), avals_in[0].shape[-1], int(compute_schur_vectors)),
        (0, -1) if compute_schur_vectors else (0,),
    ),
    multiple_results=True,
    samples=_schur_samples,
    batch=BATCHED,
    cost=cubic(25),
)
"""[T, Z?] with A = Z T Z^H: T upper triangular, for real matrices but for 2 x 2 blocks of conjugate eigenvalues, Z unitary."""

# hessenberg, tridiagonal


def _hessenberg_typ(x: ShapedArray) -> list[ShapedArray]:
    check_matrix("hessenberg", x)
    n = x.shape[-1]
    if x.shape[-2] != n:
        raise ValueError(f"Argument to Hessenberg reduction must have shape [..., n, n], got shape {x.shape}")
    return [ShapedArray(x.shape, x.dtype), like(x, max(n - 1, 0))]


def _conjugated(x: np.ndarray, tau: Any, rest: np.ndarray) -> np.ndarray:
    """H^H x H for a reflection of the last axes' ends."""
    n = len(rest) + 1
    x = x.copy()
    x[-n:] = reflect(x[-n:], np.conj(tau), rest)
    x[:, -n:] = reflect(x[:, -n:].conj().T, np.conj(tau), rest).conj().T
    return x


def _hessenberg_oracle(x: np.ndarray) -> list[np.ndarray]:
    n = len(x)
    x, taus, stored = x.copy(), np.zeros(max(n - 1, 0), x.dtype), np.zeros_like(x)
    for k in range(n - 1):
        beta, taus[k], rest = reflector(x[k + 1, k], x[k + 2 :, k])
        x = _conjugated(x, taus[k], rest)
        x[k + 1, k], x[k + 2 :, k], stored[k + 2 :, k] = beta, 0, rest
    return [x + stored, taus]


def _square_samples() -> Iterable[Any]:
    for d in lapack_dtypes():
        for sizes in [(5, 5), (3, 4, 4), (40, 40), (2, 2), (1, 1), (0, 0), (0, 3, 3)]:
            yield (matrices(d, *sizes),), {}


hessenberg = Op(
    "hessenberg",
    typ=_hessenberg_typ,
    oracle=Oracle(per_matrix(_hessenberg_oracle, 2), LOOSE, FLOOR, LOOSE),
    lower=library("steno_hessenberg", -1, in_place=(0, -1)),
    multiple_results=True,
    samples=_square_samples,
    batch=BATCHED,
    cost=cubic(10 / 3),
)
"""[H, taus] with A = Q H Q^H, H zero below its first subdiagonal; there stand the vectors of the reflections that make up Q."""


def _tridiagonal_typ(x: ShapedArray, *, lower: bool) -> list[ShapedArray]:
    n = check_square("tridiagonal", x)
    if not n:
        raise ValueError(f"The input to tridiagonal must be a square matrix. Got shape {x.shape}.")
    d = real_of(x.dtype)
    return [ShapedArray(x.shape, x.dtype), like(x, n, dtype=d), like(x, n - 1, dtype=d), like(x, n - 1)]


def _tridiagonal_oracle(x: np.ndarray, *, lower: bool) -> list[np.ndarray]:
    n = len(x)
    given = np.tril(x) if lower else np.triu(x)
    off = np.tril(given, -1) if lower else np.triu(given, 1)
    h, taus = off + off.conj().T + np.diag(np.diag(x).real).astype(x.dtype), np.zeros(n - 1, x.dtype)
    out, e = x.copy(), np.zeros(n - 1, x.real.dtype)
    if lower:
        for k in range(n - 1):
            beta, taus[k], rest = reflector(h[k + 1, k], h[k + 2 :, k])
            h = _conjugated(h, taus[k], rest)
            out[k + 1, k], out[k + 2 :, k], e[k] = beta, rest, np.real(beta)
    else:
        for k in reversed(range(n - 1)):
            column = h[: k + 1, k + 1][::-1]
            beta, taus[k], rest = reflector(column[0], column[1:])
            v = np.append(rest[::-1], np.ones(1, x.dtype))
            block = np.eye(n, dtype=x.dtype)
            block[: k + 1, : k + 1] -= taus[k] * np.outer(v, v.conj())
            h = block.conj().T @ h @ block
            out[k, k + 1], out[:k, k + 1], e[k] = beta, rest[::-1], np.real(beta)
    d = np.diag(h).real.copy()
    np.fill_diagonal(out, d)
    return [out, d, e, taus]


def _tridiagonal_samples() -> Iterable[Any]:
    for d in lapack_dtypes():
        for sizes in [(5, 5), (3, 4, 4), (12, 12), (2, 2), (1, 1), (0, 3, 3)]:
            for lower in (True, False):
                yield (hermitian(d, *sizes),), {"lower": lower}


tridiagonal = Op(
    "tridiagonal",
    typ=_tridiagonal_typ,
    oracle=Oracle(per_matrix(_tridiagonal_oracle, 2), LOOSE, FLOOR, LOOSE),
    lower=lambda avals_in, avals_out, *, lower: Library(
        "steno_tridiagonal", (CODES[avals_in[0].dtype], count(avals_in[0]), avals_in[0].shape[-1], int(lower)), (0, -1, -1, -1)
    ),
    multiple_results=True,
    samples=_tridiagonal_samples,
    batch=BATCHED,
    cost=cubic(4 / 3),
)
"""[reflections, diagonal, off-diagonal, taus] of the tridiagonal matrix Q^H A Q for a Hermitian A, of which one triangle is read and
overwritten."""
