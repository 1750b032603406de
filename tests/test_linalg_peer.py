"""`lax.linalg`, `numpy.linalg` and `scipy.linalg` against the real JAX: values, types, derivatives and errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from peer import NO_JAX, Arr, Expr, Key, compare_all, peer

pytestmark = pytest.mark.skipif(peer() is None, reason=NO_JAX)


def arr(*shape: int, seed: int = 0, kind: str = "f") -> Arr:
    rng = np.random.default_rng([seed, *shape])
    x = rng.standard_normal(shape)
    return Arr((x + 1j * rng.standard_normal(shape)) if kind == "c" else x)


def positive(n: int, kind: str = "f", seed: int = 0) -> Arr:
    x = arr(n, n, kind=kind, seed=seed).value
    return Arr(x @ x.conj().T / n + np.eye(n))


A, B, T, W = arr(3, 3), arr(3, 3, seed=1), arr(4, 3), arr(3, 4)
C, D = arr(3, 3, kind="c"), arr(3, 3, kind="c", seed=1)
S, H = positive(3), positive(3, "c")
V, M = arr(3), arr(3, 2)
STACK = arr(2, 3, 3)
P, Q = Arr(arr(4, 4).value + 4 * np.eye(4)), Arr(arr(3, 4, 4).value + 4 * np.eye(4))
R, U = arr(4), arr(3, 4)
X = {"A": A, "B": B, "T": T, "W": W, "C": C, "D": D, "S": S, "H": H, "V": V, "M": M, "K": STACK, "P": P, "Q": Q, "R": R, "U": U}


def run(sources: Sequence[str], x64: bool = True, **options: Any) -> None:
    calls = []
    for s in sources:
        used = {k: v for k, v in X.items() if k in s}
        text = s.replace("L.", "lax.linalg.").replace("N.", "jnp.linalg.").replace("Z.", "jax.scipy.linalg.")
        calls.append(Expr(text, x64=x64, **used))
    compare_all(calls, **{"rtol": 1e-9, "atol": 1e-10, **options})


def each(template: str, names: str) -> list[str]:
    return [template.replace("@", n) for n in names.split()]


LAX = [
    *each("L.cholesky(@)", "S H"),
    "L.cholesky(S, symmetrize_input=False)",
    "L.cholesky(-S)",
    "L.cholesky(jnp.stack([S, -S]))",
    *each("L.lu(@)", "A C T W K"),
    "L.lu(0 * A)",
    "L.lu_pivots_to_permutation(jnp.array([2, 1, 2], 'int32'), 4)",
    *each("L.qr(@)", "A C T W K"),
    *each("L.qr(@, full_matrices=False)", "A T W"),
    *each("L.qr(@, pivoting=True)", "A C T W"),
    *each("L.eigh(@)", "S H A"),
    "L.eigh(A, symmetrize_input=False)",
    "L.eigh(A, symmetrize_input=False, lower=False)",
    *each("L.eig(@)", "A C K"),
    *each("L.eig(@, compute_left_eigenvectors=False)", "A C"),
    "L.eig(A, compute_left_eigenvectors=False, compute_right_eigenvectors=False)",
    *each("L.svd(@)", "A C T W K"),
    *each("L.svd(@, full_matrices=False)", "A T W"),
    *each("L.svd(@, compute_uv=False)", "A C T W"),
    "L.svd(A, algorithm=lax.linalg.SvdAlgorithm.QR)",
    *each("L.schur(@)", "A K"),
    "L.schur(A, compute_schur_vectors=False)",
    *each("L.hessenberg(@)", "A C K"),
    *each("L.tridiagonal(@)", "S H"),
    *each("L.tridiagonal(@, lower=False)", "S H"),
    *[
        f"L.triangular_solve(@, @, left_side={left}, lower={lower}, transpose_a={t}, conjugate_a={c}, unit_diagonal={u})".replace("@", n)
        for n in "AC"
        for left in (True, False)
        for lower in (True, False)
        for t in (True, False)
        for c in (True, False)
        for u in (True, False)
    ],
    "L.triangular_solve(A, V, left_side=True)",
    "L.triangular_solve(A, V, left_side=False)",
    "L.triangular_solve(K, K)",
    "L.tridiagonal_solve(V, V, V, M)",
    "L.tridiagonal_solve(0 * V, 0 * V, 0 * V, M)",
    "L.cholesky_update(jnp.triu(S), V)",
    "L.symmetric_product(T, jnp.ones((4, 4)), alpha=2.0, beta=0.5)",
    "L.symmetric_product(T, jnp.ones((4, 4)), symmetrize_output=True)",
    "L.householder_product(T, V)",
    "L.ormqr(T, V, T)",
    "L.ormqr(T, V, W, left=False, transpose=True)",
    "L.qdwh(A)[:2]",
    "L.qdwh(T)[:2]",
]


def test_lax() -> None:
    run(LAX)


def test_lax_empty() -> None:
    shapes = [(0, 0), (0, 3), (3, 0), (2, 0, 0), (0, 3, 3)]
    run([f"L.{f}(jnp.zeros({s}))" for f in ("cholesky", "lu", "qr", "eigh", "eig", "svd", "schur") for s in shapes])
    run([f"N.{f}(jnp.zeros({s}))" for f in ("inv", "det", "slogdet", "pinv", "svdvals", "eigvals", "eigvalsh", "qr") for s in shapes])
    run(["L.lu(jnp.zeros((3, 0)))", "N.lstsq(jnp.zeros((3, 0)), jnp.ones(3))", "N.lstsq(jnp.zeros((0, 3)), jnp.ones(0))"])


def test_single_precision() -> None:
    run(
        [
            s.replace("@", f"{n}.astype('{d}')")
            for n, d in (("A", "float32"), ("C", "complex64"))
            for s in (
                "N.inv(@)",
                "N.det(@)",
                "N.slogdet(@)",
                "N.svdvals(@)",
                "L.lu(@)",
                "N.qr(@)",
                "N.pinv(@)",
                "Z.expm(@)",
                "N.eigvals(@)",
            )
        ],
        rtol=1e-4,
        atol=1e-4,
    )


NUMPY = [
    "N.solve(A, V)",
    "N.solve(A, M)",
    "N.solve(C, M)",
    "N.solve(K, V)",
    "N.solve(K, M)",
    "N.solve(A, jnp.ones((2, 3, 1)))",
    *each("N.inv(@)", "A C K"),
    *each("N.det(@)", "A C K S"),
    "N.det(jnp.ones((2, 2)))",
    *each("N.slogdet(@)", "A C K"),
    "N.slogdet(0 * A)",
    "N.slogdet(A, method='qr')",
    *each("N.eigvals(@)", "A C"),
    *each("N.eigvalsh(@)", "S H"),
    *each("N.eigh(@)", "S H"),
    "N.eigh(A, 'U', symmetrize_input=False)",
    "N.eigvalsh(A, 'L', symmetrize_input=False)",
    *each("N.eig(@)", "A C"),
    *each("N.svd(@)", "A C T W"),
    "N.svd(-S, hermitian=True, compute_uv=False)",
    *each("N.svdvals(@)", "A T"),
    *each("N.pinv(@)", "A C T W K"),
    "N.pinv(S, hermitian=True)",
    "N.pinv(A, rtol=0.5)",
    "N.pinv(A, rcond=0.5)",
    *each("N.matrix_rank(@)", "A T V K"),
    "N.matrix_rank(A, tol=0.5)",
    "N.matrix_rank(jnp.ones((3, 3)))",
    "N.matrix_rank(S, hermitian=True)",
    "N.lstsq(T, jnp.ones(4))",
    "N.lstsq(T, jnp.ones((4, 2)))",
    "N.lstsq(T, jnp.ones(4), numpy_resid=True)",
    "N.lstsq(T, jnp.ones(4), rcond=0.5)",
    "N.lstsq(W, V)",
    "N.lstsq(W, V, rcond=-1)",
    *[f"N.qr(T, {m!r})" for m in ("reduced", "complete", "r", "raw")],
    "N.cholesky(S)",
    "N.cholesky(H, upper=True)",
    *[f"N.cond({x}, {p})" for x in "AC" for p in (None, 2, -2, "'fro'", 1, -1, "jnp.inf", "-jnp.inf", "'nuc'")],
    "N.cond(0 * A)",
    "N.cond(A.at[0, 0].set(jnp.nan))",
    *[f"N.norm(T, {p})" for p in (2, -2, "'nuc'")],
    "N.norm(K, 2, axis=(1, 2), keepdims=True)",
    "N.norm(K, 'nuc', axis=(2, 0))",
    "N.matrix_norm(K, ord=2)",
    "N.matrix_power(A, -1)",
    "N.matrix_power(A, -3)",
    "N.matrix_power(jnp.eye(3, dtype='int32'), 2)",
    "N.tensorinv(jnp.eye(24).reshape(4, 6, 8, 3))",
    "N.tensorinv(jnp.eye(24).reshape(24, 8, 3), ind=1)",
    "N.tensorsolve(jnp.eye(24).reshape(6, 4, 2, 3, 4), jnp.ones((6, 4)))",
    "N.tensorsolve(jnp.eye(24).reshape(2, 6, 4, 3, 4), jnp.ones((6, 4)), axes=(0,))",
    "N.multi_dot([A, B, M])",
    "N.inv(jnp.eye(3, dtype='int32'))",
    "jnp.roots(jnp.array([1.0, -3, 2]))",
    "jnp.roots(jnp.array([0.0, 0, 1, 2, 5, 0]))",
    "jnp.roots(jnp.array([0.0, 1, 2, 5, 0]), strip_zeros=False)",
    "jnp.poly(S)",
    "jnp.polyfit(jnp.arange(6.0), jnp.arange(6.0) ** 2, 3)",
    "jnp.polyfit(jnp.arange(3.0), V, 1, full=True)",
    "jnp.polyfit(jnp.arange(3.0), M, 1, cov=True)",
    "jnp.polyfit(jnp.arange(3.0), V, 1, w=1 + jnp.arange(3.0), cov='unscaled')",
]


def test_numpy() -> None:
    run(NUMPY, rtol=1e-8, atol=1e-9)


SCIPY = [
    "Z.block_diag(A, T, V, 1)",
    "Z.block_diag()",
    "Z.cho_factor(S)",
    "Z.cho_factor(H, lower=True)",
    "Z.cho_solve(Z.cho_factor(S), V)",
    "Z.cho_solve(Z.cho_factor(H, lower=True), M)",
    "Z.cholesky(S)",
    "Z.cholesky(H, lower=True)",
    "Z.circulant(K)",
    "Z.companion(K)",
    *[f"Z.convolution_matrix(V, {n}, {m!r})" for n in (2, 5) for m in ("full", "valid", "same")],
    "Z.det(A)",
    "Z.dft(5)",
    "Z.dft(4, 'sqrtn')",
    "Z.dft(3, 'n')",
    "Z.eigh(S)",
    "Z.eigh(S, eigvals_only=True)",
    *[f"Z.eigh(S, B @ B.T + jnp.eye(3), type={t}, eigvals_only=True)" for t in (1, 2, 3)],
    "abs(Z.eigh(S, B @ B.T + jnp.eye(3))[1])",
    "Z.eigh_tridiagonal(V, V[1:], eigvals_only=True)",
    "abs(Z.eigh_tridiagonal(V, V[1:])[1])",
    "Z.eigh_tridiagonal(V, V[1:], eigvals_only=True, select='i', select_range=(1, 2))",
    *each("Z.expm(@)", "A C K"),
    "Z.expm(1e-3 * A)",
    "Z.expm(30 * A)",
    "Z.expm(1e8 * A)",
    "Z.expm(jnp.triu(A), upper_triangular=True)",
    "Z.expm_frechet(A, B)",
    "Z.expm_frechet(A, B, compute_expm=False)",
    "Z.fiedler(V)",
    "Z.fiedler(K)",
    *[f"Z.fiedler_companion(jnp.arange(1.0, {n}))" for n in range(2, 9)],
    "Z.funm(S, jnp.sin)",
    "Z.funm(A, jnp.exp)",
    "Z.hadamard(8)",
    "Z.hadamard(4, 'float32')",
    "Z.hankel(V)",
    "Z.hankel(V, jnp.arange(5.0))",
    "Z.helmert(5)",
    "Z.helmert(3, full=True)",
    "Z.hessenberg(A)",
    "Z.hessenberg(C, calc_q=True)",
    "Z.hessenberg(K, calc_q=True)",
    "Z.hilbert(4)",
    "Z.inv(A)",
    "Z.invhilbert(6)",
    "Z.pascal(6).astype(float)",
    *[f"Z.pascal(4, {k!r}).astype(float)" for k in ("lower", "upper")],
    "Z.invpascal(6)",
    "Z.leslie(V, V[1:])",
    *each("Z.lu(@)", "A C T W"),
    "Z.lu(T, permute_l=True)",
    "Z.lu_factor(A)",
    *[f"Z.lu_solve(Z.lu_factor({x}), M, trans={t})" for x in "AC" for t in (0, 1, 2)],
    "Z.polar(A)",
    "Z.polar(C)",
    "Z.polar(T)",
    "Z.polar(T, method='svd')",
    "Z.polar(W, side='left')",
    "Z.polar(W, method='svd')",
    *[f"Z.qr({x}, mode={m!r}, pivoting={p})" for x in "TW" for m in ("full", "economic", "r") for p in (True, False)],
    *[
        f"Z.qr_multiply(T, {c}, mode={m!r}, pivoting={p}, conjugate={k})"
        for m, c in (("right", "W"), ("left", "M"), ("right", "jnp.ones(4)"), ("left", "V"))
        for p in (True, False)
        for k in (True, False)
    ],
    "Z.qr_multiply(C, D, conjugate=True)",
    "Z.rsf2csf(*Z.schur(A))",
    "Z.schur(A, output='complex')",
    *[f"Z.solve(S, V, assume_a={k!r})" for k in ("gen", "pos", "sym", "her")],
    "Z.solve(H, M, assume_a='pos', lower=True)",
    "Z.solve_sylvester(A, S, B)",
    "Z.solve_sylvester(A, S, B, method='eigen')",
    "Z.solve_sylvester(C, D, C)",
    "Z.solve_sylvester(A, -A, B)",
    *[f"Z.solve_triangular({x}, M, trans={t!r}, lower={low})" for x in "AC" for t in (0, 1, 2) for low in (True, False)],
    "Z.solve_triangular(A, V, unit_diagonal=True)",
    "Z.sqrtm(S)",
    "Z.sqrtm(A)",
    "Z.sqrtm(C)",
    "Z.svd(T)",
    "Z.svd(T, full_matrices=False, lapack_driver='gesvd')",
    "Z.toeplitz(V)",
    "Z.toeplitz(V, jnp.arange(4.0))",
    "Z.toeplitz(K)",
    "Z.toeplitz(jnp.array([1j, 2]))",
]


def test_scipy() -> None:
    run(SCIPY, rtol=1e-7, atol=1e-8, weak=False)


# derivatives: functions of one matrix; the value's pullback of ones, and a tangent

DERIVATIVES = [
    ("lambda x: L.cholesky(x)", "S H"),
    ("lambda x: L.lu(x)[0]", "A C T W"),
    ("lambda x: L.qr(x, full_matrices=False)", "A C T W"),
    ("lambda x: L.qr(x)", "T"),
    ("lambda x: L.eigh(x)", "S H"),
    ("lambda x: L.svd(x, full_matrices=False)", "A C T W"),
    ("lambda x: L.svd(x, compute_uv=False)", "A C T W"),
    ("lambda x: N.eigvals(x)", "A C"),
    ("lambda x: L.eig(x, compute_left_eigenvectors=False, enable_eigvec_derivs=True)", "A C"),
    ("lambda x: L.triangular_solve(x, 2 * x, left_side=True, lower=True)", "A C"),
    ("lambda x: L.triangular_solve(x, 2 * x, transpose_a=True, conjugate_a=True, unit_diagonal=True)", "A C"),
    ("lambda x: L.tridiagonal_solve(x[0], x[1] + 3, x[2], x)", "A"),
    ("lambda x: N.solve(x, 2 * x[:, :2])", "A C"),
    ("lambda x: N.inv(x)", "A C K"),
    ("lambda x: N.det(x)", "A C K"),
    ("lambda x: N.slogdet(x)", "A C K"),
    ("lambda x: N.slogdet(x, method='qr')", "A"),
    ("lambda x: N.pinv(x)", "A C T W"),
    ("lambda x: N.lstsq(x, x[:, 0])[0]", "T"),
    ("lambda x: N.norm(x, 2)", "A T"),
    ("lambda x: N.norm(x, 'nuc')", "A T"),
    ("lambda x: N.cond(x)", "A"),
    ("lambda x: Z.expm(x)", "A C"),
    ("lambda x: Z.solve(x, x, assume_a='pos')", "S H"),
    ("lambda x: Z.lu(x)[1:]", "A C"),
    ("lambda x: Z.cho_solve(Z.cho_factor(x), 2 * x)", "S H"),
    ("lambda x: Z.polar(x, method='svd')", "A"),
    ("lambda x: Z.lu_solve(Z.lu_factor(x), 2 * x, 1)", "A"),
]


def test_tangents() -> None:
    run([f"jax.jvp({f}, ({x},), (jnp.cos({x} + 1),))[1]" for f, names in DERIVATIVES for x in names.split()], rtol=1e-7, atol=1e-8)


def test_cotangents() -> None:
    sources = []
    for f, names in DERIVATIVES:
        for x in names.split():
            pull = "lambda y, back: back(jax.tree.map(lambda z: jnp.sin(z.real + 1).astype(z.dtype), y))[0]"
            sources.append(f"({pull})(*jax.vjp({f}, {x}))")
    run(sources, rtol=1e-7, atol=1e-8)


def test_det_of_singular_matrices() -> None:
    ones = "jnp.ones((4, 4))"
    singular = ["jnp.arange(9.0).reshape(3, 3)", f"{ones}.at[0, 0].set(2.0).at[1, 1].set(4.0).at[2, 2].set(3.0)", ones, f"0 * {ones}"]
    run([f"jax.grad(jnp.linalg.det)({x})" for x in singular])


# errors: the class


ERRORS = [
    *[f"L.{f}(jnp.ones({s}))" for f in ("cholesky", "eigh", "eig", "schur", "hessenberg", "tridiagonal") for s in ((3, 4), (3,))],
    *[f"L.{f}(jnp.ones(3))" for f in ("lu", "qr", "svd")],
    *[f"L.{f}([1, 2])" for f in ("cholesky", "lu", "qr", "svd", "eig")],
    *[f"L.{f}(jnp.eye(3, dtype={d!r}))" for f in ("lu", "qr", "eig", "svd", "schur") for d in ("bfloat16", "int32", "bool")],
    "L.triangular_solve(T, T)",
    "L.triangular_solve(A, jnp.ones((4, 4)))",
    "L.triangular_solve(A, K)",
    "L.triangular_solve(A, A.astype('float32'))",
    "L.triangular_solve(jnp.eye(3, dtype=int), jnp.eye(3, dtype=int))",
    "L.householder_product(W, V)",
    "L.householder_product(T, jnp.ones(4))",
    "L.householder_product(T, jnp.ones((2, 3)))",
    "L.lu_pivots_to_permutation(V, 4)",
    "L.lu_pivots_to_permutation(jnp.ones(3, 'int32'), 2)",
    "L.tridiagonal_solve(V, V, V, V)",
    "L.cholesky_update(A, V[:2])",
    "L.cholesky_update(K, V)",
    "L.symmetric_product(T, A)",
    "L.ormqr(T, V, A)",
    "L.qdwh(W)",
    "L.eigh(S, subset_by_index=(0, 2))",
    "L.svd(A, subset_by_index=(0, 2))",
    "L.svd(A, subset_by_index=(0, 2), full_matrices=False)",
    "L.schur(A, sort_eig_vals=True)",
    "L.svd(A, algorithm=lax.linalg.SvdAlgorithm.JACOBI)",
    "L.eigh(S, implementation=lax.linalg.EighImplementation.QDWH)",
    "L.eig(A, implementation=lax.linalg.EigImplementation.MAGMA)",
    "jax.jvp(L.eig, (A,), (A,))",
    "jax.jvp(L.svd, (T,), (T,))",
    "jax.jvp(L.schur, (A,), (A,))",
    "jax.jvp(L.hessenberg, (A,), (A,))",
    "jax.jvp(L.tridiagonal, (S,), (S,))",
    "N.solve(A, jnp.ones(4))",
    "N.solve(A, jnp.ones(()))",
    "N.solve(K, jnp.ones((4, 3, 1)))",
    "N.solve(K, jnp.ones((2, 3)))",
    "N.solve(V, V)",
    *[f"N.{f}(jnp.ones((3, 4)))" for f in ("inv", "det", "slogdet", "eigvals", "eigvalsh", "cholesky", "eigh")],
    *[f"N.{f}([[1.0, 0], [0, 1]])" for f in ("inv", "det", "svd", "pinv", "qr", "eigh", "norm", "matrix_rank", "cond")],
    "N.qr(T, 'bad')",
    "N.cond(T, 'fro')",
    "N.cond(V)",
    "N.cond(jnp.ones((0, 0)))",
    "N.norm(T, 3)",
    "N.norm(T, 'x')",
    "N.norm(V, 'inf')",
    "N.pinv(A, rtol=0.1, rcond=0.1)",
    "N.pinv(V)",
    "N.matrix_rank(A, 0.1, tol=0.1)",
    "N.slogdet(A, method='x')",
    "N.slogdet(C, method='qr')",
    "N.eigh(A, 'X')",
    "N.lstsq(V, V)",
    "N.lstsq(T, V)",
    "N.tensorinv(A, ind=0)",
    "N.tensorinv(T, ind=1)",
    "N.tensorsolve(W, V)",
    "N.matrix_power(T, -1)",
    "N.matrix_power(A, 1.5)",
    "jnp.poly(T)",
    "jnp.polyfit(V, V, -1)",
    "jnp.polyfit(V, jnp.ones(4), 1)",
    "jax.jit(jnp.roots)(V)",
    "Z.cho_factor(T)",
    "Z.cho_solve(Z.cho_factor(S), T)",
    "Z.lu_solve(Z.lu_factor(A), V, trans='T')",
    "Z.lu_solve(Z.lu_factor(A), T)",
    "Z.solve(S, V, assume_a='x')",
    "Z.solve_triangular(A, T)",
    "Z.solve_triangular(A, V, trans='x')",
    "Z.solve_triangular(V, V)",
    "Z.qr(T, mode='raw')",
    "Z.qr_multiply(T, V, mode='x')",
    "Z.qr_multiply(T, jnp.ones((2, 5)))",
    "Z.eigh(S, type=4)",
    "Z.eigh(S, eigvals=(0, 1))",
    "Z.eigh_tridiagonal(V, V[1:], select='v', select_range=(0.0, 1.0))",
    "Z.eigh_tridiagonal(V, V[1:], select='x')",
    "Z.eigh_tridiagonal(V, V[1:], select='i')",
    "Z.schur(A, output='x')",
    "Z.rsf2csf(T, T)",
    "Z.rsf2csf(A, T)",
    "Z.expm(T)",
    "Z.expm_frechet(A, T)",
    "Z.sqrtm(T)",
    "Z.sqrtm(S, blocksize=2)",
    "Z.funm(T, jnp.exp)",
    "Z.solve_sylvester(A, T, A)",
    "Z.solve_sylvester(A, A, A, method='x')",
    "Z.polar(A, side='x')",
    "Z.polar(A, method='x')",
    "Z.polar(W)",
    "Z.companion(jnp.ones(1))",
    "Z.convolution_matrix(V, 0)",
    "Z.convolution_matrix(V, 2, 'x')",
    "Z.dft(3, 'x')",
    "Z.dft(3, dtype='float32')",
    "Z.hadamard(3)",
    "Z.helmert(0)",
    "Z.pascal(3, 'x')",
    "Z.invpascal(3, 'x')",
    "Z.leslie(V, V)",
    "Z.leslie(jnp.ones(1), jnp.ones(0))",
    "Z.block_diag(K)",
    "Z.circulant([1, 2])",
]


def test_errors() -> None:
    run(ERRORS)


# batches of maps


def test_vmap() -> None:
    functions = [
        "L.cholesky",
        "L.lu",
        "L.qr",
        "L.eigh",
        "L.svd",
        "L.schur",
        "N.inv",
        "N.det",
        "N.slogdet",
        "N.pinv",
        "Z.expm",
        "lambda x: N.solve(x, x)",
        "lambda x: L.triangular_solve(x, jnp.eye(3))",
        "lambda x: L.triangular_solve(jnp.eye(3), x, left_side=True)",
        "lambda x: L.triangular_solve(jnp.eye(3), x)",
        "lambda x: N.solve(jnp.eye(3) + 1, x)",
        "jax.jacfwd(N.inv)",
        "jax.jacrev(N.det)",
    ]
    run(
        [
            f"jax.vmap({f}, in_axes={d})(K @ jnp.swapaxes(K, 1, 2) if {d} == 0 else jnp.moveaxis(K @ jnp.swapaxes(K, 1, 2), 0, 2))"
            for f in functions
            for d in (0, 2)
        ],
        rtol=1e-6,
        atol=1e-7,
    )


COMBINATIONS = [
    "jax.vmap(N.solve, (0, None))(Q, R)",
    "jax.vmap(N.solve, (None, 0))(P, U)",
    "jax.vmap(N.solve)(Q, U)",
    "jax.vmap(jax.grad(lambda a, b: N.solve(a, b).sum()), (0, None))(Q, R)",
    "jax.grad(lambda a: jax.vmap(lambda b: N.solve(a, b))(U).sum())(P)",
    "jax.hessian(lambda a: N.slogdet(a)[1])(P)",
    "jax.hessian(N.det)(P)",
    "jax.hessian(lambda a: N.eigvalsh(a)[0])(P @ P.T)",
    "jax.hessian(lambda a: N.norm(a, 2))(P)",
    "jax.jacfwd(jax.jacrev(N.cholesky))(P @ P.T)",
    "jax.grad(jax.checkpoint(lambda a: N.inv(N.cholesky(a @ a.T)).sum()))(P)",
    "jax.grad(lambda a: lax.scan(lambda c, _: (N.solve(a, c), c.sum()), R, None, length=3)[0].sum())(P)",
    "jax.linearize(lambda a: N.lstsq(a[:, :2], R)[0], P)[1](P)",
    "jax.jvp(lambda a: jax.jvp(N.inv, (a,), (a,))[1], (P,), (P @ P.T,))",
    "jax.linear_transpose(lambda x: N.solve(P, x), R)(R)",
    "jax.hessian(lambda t: Z.expm(t * P)[0, 1])(0.3)",
    "jax.vmap(jax.grad(lambda a: Z.expm(a).sum()))(Q / 4)",
    "jax.vmap(lambda b: N.lstsq(P[:, :2], b))(U)",
    "jax.vmap(lambda y: jnp.polyfit(jnp.arange(4.0), y, 2))(U)",
    "jax.vmap(jax.vmap(N.inv))(jnp.stack([Q, Q]))",
    "jax.jit(lambda a, p: lax.cond(p, N.inv, N.pinv, a))(P, True)",
    "lax.while_loop(lambda s: s[1] < 3, lambda s: (N.qr(s[0])[1], s[1] + 1), (P, 0))",
    "jax.grad(lambda a: N.eigvalsh(a).sum())(jnp.eye(3))",
    "jax.grad(lambda a: N.svd(a, compute_uv=False).sum())(jnp.eye(3))",
    "jax.grad(lambda a: N.norm(a, 'nuc'))(jnp.zeros((3, 3)))",
    "jax.vmap(jax.grad(lambda a: N.pinv(a).sum()))(Q[:, :3])",
    "jax.grad(lambda a: jnp.abs(N.solve(a + 1j * (P @ P.T), R)).sum())(P)",
    "jax.vmap(lambda c, b: Z.cho_solve((c, True), b), (None, 0))(N.cholesky(P @ P.T), U)",
    "jax.vmap(lambda a, b: Z.solve_triangular(a, b, lower=True), (2, 1))(jnp.moveaxis(Q, 0, 2), U.T)",
    "jax.jvp(lambda a, b: N.det(a) * b, (P, 1.0), (jnp.zeros_like(P), 1.0))",
    "N.inv(2.0 * jnp.eye(2))",
    "N.inv(np.eye(3) * 2)",
    "jax.jit(N.matrix_rank)(P)",
]


def test_combinations() -> None:
    run(COMBINATIONS, rtol=1e-7, atol=1e-8)


def test_random_matrices() -> None:
    key = Key(np.array([1, 2], np.uint32))
    mean, cov = Arr(np.zeros(2, np.float32)), Arr(np.array([[2, 0.5], [0.5, 1]], np.float32))
    calls = [
        *(
            Expr(f"jax.random.multivariate_normal(k, m, c, shape=(3,), method={how!r})", k=key, m=mean, c=cov)
            for how in ("cholesky", "eigh", "svd", "x")
        ),
        *(
            Expr(f"jax.random.orthogonal(k, {n}, {s}, m={m})", k=key)
            for n, s, m in [(3, (), None), (3, (2,), None), (2, (), 3), (3, (), 2), (0, (), None)]
        ),
        Expr("jax.random.orthogonal(k, 2, dtype='complex64')", k=key),
        Expr("jax.random.multivariate_normal(k, m, c[0])", k=key, m=mean, c=cov),
        *(
            Expr(f"jax.nn.initializers.orthogonal(2.0, {axis})(k, {s})", k=key)
            for axis in (-1, 0)
            for s in [(3, 3), (2, 3), (3, 2), (2, 2, 3), (3,)]
        ),
        *(
            Expr(f"jax.nn.initializers.delta_orthogonal()(k, {s})", k=key)
            for s in [(3, 2, 2), (2, 2, 3), (3, 3, 2, 4), (3, 3, 4, 2), (2, 3)]
        ),
    ]
    compare_all(calls, rtol=1e-4, atol=1e-5)
