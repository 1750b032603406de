"""Linear algebra: properties of decompositions at every size and dtype, rules of the records, NaN and singular operands, batches, threads,
what is loaded when."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import steno
import steno.numpy as jnp
from steno import _native, lax
from steno.core import config
from steno.core.op import OPS
from steno.lax import linalg as ll
from steno.ops.matrices import hermitian, matrices
from steno.scipy import linalg as sl
from steno.testing import check_rules

pytestmark = pytest.mark.usefixtures("x64")
N = jnp.linalg
DTYPES = ("float32", "float64", "complex64", "complex128")
SIZES = [(1, 1), (2, 5, 5), (40, 40), (0, 0)]
RECTANGLES = [(5, 3), (2, 3, 5), (40, 17), (3, 0), (0, 3)]


def near(got: Any, want: Any, scale: float = 100.0) -> None:
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape
    size = max(1.0, float(np.max(np.abs(want), initial=0)))
    tolerance = scale * max(got.shape[-1:] or (1,), default=1) * np.finfo(got.dtype).eps * size if got.size else 0
    assert np.max(np.abs(got - want), initial=0) <= tolerance


def H(x: Any) -> np.ndarray:
    return np.asarray(x).conj().swapaxes(-1, -2)


def eye_of(x: np.ndarray) -> np.ndarray:
    return np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), (*x.shape[:-2], x.shape[-1], x.shape[-1]))


def times(*factors: Any) -> np.ndarray:
    out = np.asarray(factors[0])
    for f in factors[1:]:
        out = np.matmul(out, np.asarray(f))
    return out


@pytest.mark.parametrize("dtype", DTYPES)
def test_factors(dtype: str) -> None:
    for sizes in SIZES:
        x = matrices(dtype, *sizes)
        p = hermitian(dtype, *sizes, positive=True) if x.size else x
        c = np.asarray(N.cholesky(p))
        near(times(c, H(c)), p)
        assert not np.triu(c, 1).any()
        v, w = (np.asarray(y) for y in ll.eigh(p))
        near(times(v * w[..., None, :], H(v)), p)
        near(times(H(v), v), eye_of(v))
        assert w.dtype == p.real.dtype and np.all(np.diff(w) >= 0)
        w, left, right = (np.asarray(y) for y in ll.eig(x))
        near(times(x, right), right * w[..., None, :])
        near(times(H(left), x), w[..., None] * H(left))
        t, z = ll.schur(x)
        near(times(z, t, H(z)), x)
        near(times(H(z), z), eye_of(x))
        assert not np.tril(np.asarray(t), -1 if np.iscomplexobj(x) else -2).any()
        h, q = sl.hessenberg(jnp.asarray(x), calc_q=True)
        near(times(q, h, H(q)), x)
        assert not np.tril(np.asarray(h), -2).any()
        near(times(N.inv(p), p), eye_of(p))
        near(N.solve(p, x), np.linalg.solve(p, x))


@pytest.mark.parametrize("dtype", DTYPES)
def test_rectangles(dtype: str) -> None:
    for sizes in [(3, 3), (17, 17), *RECTANGLES]:
        x = matrices(dtype, *sizes)
        m, n = x.shape[-2:]
        p, left, right = (np.asarray(y) for y in sl.lu(jnp.asarray(x)))
        near(times(p.astype(dtype), left, right), x)
        assert np.max(np.abs(left), initial=1) <= 2**0.5 + 1e-6
        for full in (True, False):
            q, r = ll.qr(x, full_matrices=full)
            near(times(q, r), x)
            near(times(H(q), q), eye_of(np.asarray(q)))
            assert not np.tril(np.asarray(r), -1).any()
            u, s, vh = (np.asarray(y) for y in ll.svd(x, full_matrices=full))
            near(times(u[..., : min(m, n)] * s[..., None, :], vh[..., : min(m, n), :]), x)
            near(times(H(u), u), eye_of(u))
            near(times(vh, H(vh)), eye_of(H(vh)))
            assert s.dtype == x.real.dtype and np.all(np.diff(s) <= 0) and np.all(s >= 0)
        q, r, order = (np.asarray(y) for y in ll.qr(x, pivoting=True))
        near(times(q, r), np.take_along_axis(x, order[..., None, :], -1))
        near(N.pinv(x), np.linalg.pinv(x) if x.size else np.zeros((*x.shape[:-2], n, m), x.dtype), 1000)


def test_tridiagonal() -> None:
    for dtype in DTYPES:
        for lower in (True, False):
            x = hermitian(dtype, 2, 9, 9)
            _, d, e, _ = (np.asarray(y) for y in ll.tridiagonal(x, lower=lower))
            for k in range(2):
                t = np.diag(d[k]) + np.diag(e[k], 1) + np.diag(e[k], -1)
                near(np.linalg.eigvalsh(t), np.linalg.eigvalsh(x[k]))


def test_against_numpy() -> None:
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 4, 20):
        x = rng.standard_normal((3, n, n))
        near(N.det(x), np.linalg.det(x), 1000)
        sign, size = N.slogdet(x)
        near(sign, np.linalg.slogdet(x)[0])
        near(size, np.linalg.slogdet(x)[1])
        near(N.matrix_power(x, -2), np.linalg.matrix_power(x, -2), 1e5)
        for p in (None, 2, -2, "fro", 1, -1, np.inf, -np.inf):
            near(N.cond(x, p), np.linalg.cond(x, p), 1e6)
        for p in (2, -2, "nuc"):
            near(N.norm(x, p, axis=(1, 2)), np.linalg.norm(x, p, axis=(1, 2)))
    a, b = rng.standard_normal((20, 4)), rng.standard_normal((20, 3))
    for got, want in zip(N.lstsq(a, b), np.linalg.lstsq(a, b, rcond=None), strict=True):
        near(np.asarray(got, float), np.asarray(want, float))


def test_against_scipy() -> None:
    scipy = pytest.importorskip("scipy.linalg")
    rng = np.random.default_rng(1)
    for n in (1, 5, 20):
        for size in (1e-3, 1.0, 20.0) if n == 5 else (2.0,):
            x = size * rng.standard_normal((n, n)) / n**0.5
            near(sl.expm(x), scipy.expm(x), 1e4)
            z = x + 1j * rng.standard_normal((n, n))
            near(sl.sqrtm(z), np.asarray(scipy.sqrtm(z)), 1e4)
            near(sl.expm_frechet(x, x.T, compute_expm=False), scipy.expm_frechet(x, x.T, compute_expm=False), 1e4)
        p = hermitian("float64", n, n, positive=True)
        near(np.real(sl.funm(p, jnp.log)), scipy.logm(p), 1e5)
        near(sl.solve_sylvester(p, p, p), scipy.solve_sylvester(p, p, p))
        for name in ("hilbert", "invhilbert", "pascal", "invpascal", "dft"):
            near(getattr(sl, name)(n), getattr(scipy, name)(n).astype(np.complex128 if name == "dft" else float))
        near(sl.helmert(n, full=True), scipy.helmert(n, full=True))
    for a in (np.arange(1.0, 8), np.array([2.0, 3.0])):
        near(sl.fiedler_companion(a), scipy.fiedler_companion(a))
        near(sl.companion(a), scipy.companion(a))
    for side in ("right", "left"):
        for got, want in zip(sl.polar(jnp.asarray(p), side), scipy.polar(p, side), strict=True):
            near(got, want)


def test_triangular_solve_sizes() -> None:
    for dtype in DTYPES:
        for n, m in [(3, 1), (16, 80), (17, 3), (40, 40)]:
            a = (matrices(dtype, n, n) / n + 3 * np.eye(n)).astype(dtype)
            b = matrices(dtype, n, m)
            for lower in (True, False):
                t = np.tril(a) if lower else np.triu(a)
                near(ll.triangular_solve(a, b, left_side=True, lower=lower), np.linalg.solve(t, b))
                near(ll.triangular_solve(a, b.T, lower=lower, transpose_a=True), np.linalg.solve(t, b).T)
    narrow = np.eye(3).astype(jnp.bfloat16)
    assert ll.triangular_solve(narrow, 2 * narrow).dtype == jnp.bfloat16


@pytest.mark.parametrize("dtype", ("float64", "complex128"))
def test_rules(dtype: str) -> None:
    m, p = matrices, hermitian(dtype, 3, 3, positive=True)
    h = hermitian("float64", 3, 3)  # the phases of complex eigenvectors are chosen, not derived
    qr = {"pivoting": False, "full_matrices": False, "use_magma": None}
    eigh = {"lower": True, "sort_eigenvalues": True, "subset_by_index": None, "algorithm": None}
    eig = {"compute_left_eigenvectors": False, "compute_right_eigenvectors": False, "enable_eigvec_derivs": False, "implementation": None}
    svd = {"full_matrices": False, "compute_uv": False, "subset_by_index": None, "algorithm": None}
    cases: list[tuple[str, tuple[Any, ...], dict[str, Any], int]] = [
        ("cholesky", (p,), {}, 2),
        *(("lu", (m(dtype, *s),), {}, 2) for s in [(3, 3), (2, 3), (3, 2)]),
        *(("qr", (m(dtype, *s),), qr, 2) for s in [(3, 3), (4, 2), (2, 4)]),
        ("qr", (m(dtype, 3, 3),), qr | {"pivoting": True}, 1),
        ("eigh", (h,), eigh, 2),
        ("eigh", (h,), eigh | {"lower": False}, 1),
        ("eig", (m(dtype, 3, 3),), eig, 2),
        ("eig", (m(dtype, 3, 3),), eig | {"compute_right_eigenvectors": True, "enable_eigvec_derivs": True}, 1),
        ("eig", (m(dtype, 3, 3, seed=4),), eig | {"compute_left_eigenvectors": True, "enable_eigvec_derivs": True}, 1),
        *(("svd", (m(dtype, *s),), svd, 2) for s in [(3, 3), (4, 2), (2, 4)]),
        *(("svd", (m("float64", *s),), svd | {"compute_uv": True}, 1) for s in [(3, 3), (4, 2), (2, 4)]),
        *(
            (
                "triangular_solve",
                (m(dtype, 3, 3) + 3 * np.eye(3), m(dtype, *((3, 2) if k & 1 else (2, 3)))),
                {
                    "left_side": bool(k & 1),
                    "lower": bool(k & 2),
                    "transpose_a": bool(k & 4),
                    "conjugate_a": bool(k & 8),
                    "unit_diagonal": bool(k & 16),
                },
                2 if k == 3 else 1,
            )
            for k in (3, 14, 25)
        ),
        ("tridiagonal_solve", (m(dtype, 4), m(dtype, 4) + 3, m(dtype, 4), m(dtype, 4, 2)), {"perturb_singular": False}, 2),
        ("symmetric_product", (m("float64", 3, 2), m("float64", 3, 3)), {"alpha": 2.0, "beta": 0.5}, 2),
    ]
    for name, args, params, order in cases:
        check_rules(OPS[name], args, params, order=order, batch=order == 2)
    for name, args, params in [
        ("schur", (m(dtype, 3, 3),), {"compute_schur_vectors": True, "sort_eig_vals": False, "select_callable": None}),
        ("hessenberg", (m(dtype, 3, 3),), {}),
        ("tridiagonal", (p,), {"lower": True}),
        ("geqrf", (m(dtype, 4, 2),), {}),
        ("householder_product", (m(dtype, 4, 2), m(dtype, 2)), {}),
    ]:
        check_rules(OPS[name], args, params, jvp=False)


FACES: dict[str, Any] = {
    "solve": lambda x: N.solve(x, x[:, :2] * 2),
    "inv": N.inv,
    "det": N.det,
    "logdet": lambda x: N.slogdet(x)[1],
    "pinv": N.pinv,
    "expm": sl.expm,
    "norm": lambda x: N.norm(x, "nuc"),
    "lstsq": lambda x: N.lstsq(x[:, :3], x[:, 3])[0],
    "cho_solve": lambda x: sl.cho_solve((x, True), x),
    "solve pos": lambda x: sl.solve(x @ x.T + jnp.eye(4), x, assume_a="pos"),
    "polar": lambda x: sl.polar(x)[0],
}


@pytest.mark.parametrize("name", FACES)
def test_gradients(name: str) -> None:
    """First and second derivatives against differences, and forward against reverse mode."""
    f = FACES[name]
    x = jnp.asarray(matrices("float64", 4, 4, seed=5) + 4 * np.eye(4))
    g = jnp.asarray(matrices("float64", 4, 4, seed=6))
    weight = jnp.asarray(matrices("float64", *f(x).shape, seed=7)) if f(x).ndim else 1.0
    loss = steno.jit(lambda y: (f(y) * weight).sum())
    first = steno.jit(steno.grad(loss))
    step = 1e-5
    slope = (loss(x + step * g) - loss(x - step * g)) / (2 * step)
    assert abs(float((first(x) * g).sum() - slope)) <= 1e-6 * max(1.0, abs(float(slope)))
    near(steno.jvp(loss, (x,), (g,))[1], (first(x) * g).sum(), 1e6)
    second = steno.jit(lambda y: steno.jvp(first, (y,), (g,))[1])(x)
    curve = (first(x + step * g) - first(x - step * g)) / (2 * step)
    near(second, curve, 1e9)


def test_singular_and_not_finite() -> None:
    """What does not exist is NaN, in that matrix of the batch alone."""
    for n in (5, 40):
        good = hermitian("float64", n, n, positive=True)
        for bad in (np.full((n, n), np.nan), np.where(np.eye(n) > 0, np.inf, good)):
            x = jnp.asarray(np.stack([good, bad, good]))
            for f in (ll.eigh, ll.eig, ll.svd, ll.schur, N.eigvals, N.svdvals):
                for y in steno.tree.leaves(f(x)):
                    assert np.isnan(np.asarray(y[1])).any() and np.isfinite(np.asarray(y[::2])).all(), f
            for f in (N.cholesky, N.inv, N.pinv, sl.expm, N.det):
                if np.isinf(bad).any():
                    break
                y = f(x)
                assert not np.isfinite(np.asarray(y[1])).all() and np.isfinite(np.asarray(y[::2])).all(), f
        c = np.asarray(N.cholesky(np.stack([-good, good])))
        assert np.isnan(c[0][np.tril_indices(n)]).all() and not np.triu(c[0], 1).any() and np.isfinite(c[1]).all()
    zero = jnp.zeros((4, 4))
    assert float(N.det(zero)) == 0 and not np.isfinite(np.asarray(N.inv(zero))).any()
    sign, size = N.slogdet(zero)
    assert (float(sign), float(size)) == (0.0, -np.inf)
    assert int(N.matrix_rank(zero)) == 0 and float(N.cond(zero)) == np.inf
    d = jnp.zeros(3)
    assert np.isnan(np.asarray(ll.tridiagonal_solve(d, d, d, jnp.ones((3, 1))))).all()
    assert np.isfinite(np.asarray(ll.tridiagonal_solve(d, d, d, jnp.ones((3, 1)), perturb_singular=True))).all()


def test_adjugate() -> None:
    """The gradient of det at matrices of any rank is the transposed adjugate."""
    rng = np.random.default_rng(3)
    for rank in range(5):
        x = rng.standard_normal((4, rank)) @ rng.standard_normal((rank, 4))
        cofactors = np.array([[(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(x, i, 0), j, 1)) for j in range(4)] for i in range(4)])
        near(steno.grad(N.det)(jnp.asarray(x)), cofactors, 1000)


def test_jit_equals_eager_and_threads() -> None:
    x = jnp.asarray(hermitian("float64", 8, 30, 30, positive=True))
    functions = [N.cholesky, lambda a: N.qr(a), N.inv, N.det, lambda a: ll.eigh(a), N.svdvals, lambda a: ll.lu(a), sl.expm]
    for f in functions:
        eager = [np.asarray(y) for y in steno.tree.leaves(f(x))]
        previous = _native.swap_thread_limit(1)
        try:
            alone = [np.asarray(y) for y in steno.tree.leaves(f(x))]
        finally:
            _native.swap_thread_limit(previous)
        for a, b, c in zip(eager, alone, steno.tree.leaves(steno.jit(f)(x)), strict=True):
            assert np.array_equal(a, b) and np.array_equal(a, np.asarray(c))


def test_batches_are_single_calls() -> None:
    x = matrices("float32", 9, 12, 12)
    for f in (lambda a: ll.lu(a), lambda a: ll.qr(a), N.inv, lambda a: ll.svd(a), lambda a: ll.eig(a)):
        whole = steno.tree.leaves(f(jnp.asarray(x)))
        for k in range(len(x)):
            for y, z in zip(whole, steno.tree.leaves(f(jnp.asarray(x[k]))), strict=True):
                assert np.array_equal(np.asarray(y[k]), np.asarray(z))


_SMALL = """
import hashlib, numpy as np
from steno.lax import linalg as ll
h = hashlib.sha256()
for d in ("float32", "float64"):
    for b, n in [(1, 3), (5, 7), (37, 16)]:
        x = np.random.default_rng(n).standard_normal((b, n, n)).astype(d)
        p = (x @ x.swapaxes(1, 2) + np.eye(n)).astype(d)
        solved = [ll.triangular_solve(p, x), ll.triangular_solve(p, x[:, :1]), ll.triangular_solve(p, x[..., :1], left_side=True)]
        for y in (ll.cholesky(p), *ll.lu(x), *solved):
            h.update(np.asarray(y).tobytes())
print(h.hexdigest())
"""


def test_small_matrices_are_the_same_bits_everywhere() -> None:
    """Alone or among others, in lanes of any number."""
    x = matrices("float64", 37, 11, 11)
    p = hermitian("float64", 37, 11, 11, positive=True)
    functions = (
        lambda a, b: ll.cholesky(b),
        lambda a, b: ll.lu(a)[0],
        lambda a, b: ll.triangular_solve(b, a, left_side=True),
        lambda a, b: ll.triangular_solve(b, a[..., :1], left_side=True, lower=True, transpose_a=True),
        lambda a, b: ll.triangular_solve(b, a[..., :2, :]),
    )
    for f in functions:
        whole = np.asarray(f(x, p))
        for k in (0, 7, 36):
            assert np.array_equal(whole[k], np.asarray(f(x[k], p[k])))
    digests = {
        subprocess.run(
            [sys.executable, "-c", _SMALL], env=os.environ | {"STENO_TARGET_FEATURES": t}, capture_output=True, check=True, timeout=120
        ).stdout
        for t in ("host", "avx2")
    }
    assert platform.machine() != "x86_64" or len(digests) == 1


def test_inside_loops_and_branches() -> None:
    x = jnp.asarray(hermitian("float64", 6, 6, positive=True))

    def step(y: Any, _: Any) -> tuple[Any, Any]:
        c = N.cholesky(y)
        return c.T @ c, N.eigvalsh(y)[0]

    y, lows = steno.jit(lambda a: lax.scan(step, a, None, length=20))(x)
    near(N.eigvalsh(y), N.eigvalsh(x), 1e4)
    assert np.allclose(np.asarray(lows), float(N.eigvalsh(x)[0]))
    z = steno.jit(lambda a, k: lax.switch(k, [N.inv, N.cholesky, lambda b: ll.lu(b)[0]], a))(x, 1)
    near(z, N.cholesky(x))
    near(steno.jit(lambda a: N.inv(a.T) + a)(x), np.linalg.inv(np.asarray(x).T) + np.asarray(x))


def test_reference_backend() -> None:
    x = hermitian("float64", 2, 5, 5, positive=True)
    with config.backend("reference"):
        results = [np.asarray(f(jnp.asarray(x))) for f in (N.cholesky, N.inv, N.det, N.eigvalsh, N.svdvals, N.pinv)]
        t, z = ll.schur(jnp.asarray(matrices("float64", 6, 6)))
        h, q = sl.hessenberg(jnp.asarray(matrices("complex128", 4, 4)), calc_q=True)
    near(times(z, t, H(z)), matrices("float64", 6, 6))
    near(times(q, h, H(q)), matrices("complex128", 4, 4))
    for got, f in zip(results, (N.cholesky, N.inv, N.det, N.eigvalsh, N.svdvals, N.pinv), strict=True):
        near(got, f(jnp.asarray(x)))


def test_float0_and_integers() -> None:
    x = jnp.asarray(matrices("float64", 3, 3))
    _, (factors, pivots, order) = steno.jvp(lambda a: ll.lu(a), (x,), (x,))
    assert pivots.dtype == order.dtype == steno.float0 and factors.dtype == np.float64
    _, pull = steno.vjp(lambda a: ll.lu(a)[0], x)
    assert pull(jnp.ones((3, 3)))[0].shape == (3, 3)


_LOADED = """
import sys, steno
before = set(sys.modules)
late = ("steno.ops.linalg", "steno.lax.linalg", "steno.numpy.linalg.", "steno.scipy", "scipy", "llvmlite")
assert not [n for n in before if n.startswith(late)], before
steno.jit(lambda x: x @ x)(steno.numpy.ones((3, 3)))
maps = open("/proc/self/maps").read()
assert "openblas" not in maps.replace("numpy.libs", "").replace("libscipy_openblas64", "")
steno.numpy.linalg.inv(steno.numpy.eye(3))
assert "scipy_openblas32" in open("/proc/self/maps").read()
assert "scipy_openblas32" not in sys.modules
"""


def test_the_library_is_loaded_by_the_first_program_that_needs_it() -> None:
    subprocess.run([sys.executable, "-c", _LOADED], check=True, timeout=120)


def test_names() -> None:
    for module in (N, ll, sl):
        for name in dir(module):
            if not name.startswith("_"):
                assert getattr(module, name) is not None
    assert {"lstsq", "tensorsolve", "svdvals"} <= set(dir(N)) and {"expm", "solve_sylvester", "leslie"} <= set(dir(sl))
