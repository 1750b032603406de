"""scipy.sparse.linalg: iterative solvers of linear systems A x = b, where A is a function, and x and b are pytrees of arrays.

Derivatives and batches are those of the solution: they solve further systems, and do not go through the iterations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from steno import numpy as jnp
from steno.core import dtypes
from steno.core.config import numpy_dtype_promotion
from steno.flatten_util import ravel_pytree
from steno.lax.control_flow.loops import while_loop
from steno.lax.control_flow.solves import custom_linear_solve
from steno.lax.linalg import triangular_solve
from steno.numpy.operands import Array, convert, is_array, unwrap
from steno.tree_util import tree_leaves, tree_map, tree_structure

Tree = Any
Operator = Callable[[Tree], Tree]


def _vdot(x: Tree, y: Tree) -> Array:
    """The inner product, x conjugated."""
    return sum(jnp.vdot(a, b, precision="highest") for a, b in zip(tree_leaves(x), tree_leaves(y), strict=True))


def _square(x: Tree) -> Array:
    """The sum of squared magnitudes, a real number."""
    return sum(jnp.vdot(a.real, a.real, precision="highest") + _imaginary_square(a) for a in tree_leaves(x))


def _imaginary_square(a: Array) -> Any:
    return jnp.vdot(a.imag, a.imag, precision="highest") if dtypes.is_complex(a.dtype) else 0


def _scaled(x: Tree, factor: Array, y: Tree) -> Tree:
    """x + factor y, of x's types."""
    return tree_map(lambda a, b: a + (factor.astype(_common(factor, b)) * b.astype(_common(factor, b))).astype(a.dtype), x, y)


def _common(a: Array, b: Array) -> Any:
    with numpy_dtype_promotion("standard"):  # real and complex leaves of one tree
        return dtypes.promote_types(a.dtype, b.dtype)


def _minus(x: Tree, y: Tree) -> Tree:
    return tree_map(lambda a, b: a - b, x, y)


def _identity(x: Tree) -> Tree:
    return x


def _operator(name: str, a: Any) -> Operator:
    """A function from a function, a matrix, or an object with a shape and `@`."""
    if callable(a):
        return a
    a = unwrap(a)
    if not hasattr(a, "shape") or not hasattr(a, "__matmul__"):
        raise TypeError(f"{name}: a linear operator must be either a function or ndarray, got {a!r}")
    if len(a.shape) != 2 or a.shape[0] != a.shape[1]:
        raise ValueError(f"{name}: a linear operator must be a square matrix, got shape {tuple(a.shape)}")
    if not hasattr(a, "dtype"):
        return lambda x: a @ x
    return functools.partial(jnp.matmul, jnp.asarray(a)) if not is_array(a) else functools.partial(jnp.matmul, a)


def _inexact(x: Any) -> Any:
    a = jnp.asarray(x)
    return a if dtypes.is_inexact(a.dtype) else a.astype(dtypes.to_inexact(a.dtype))


def _solve(
    name: str, iterate: Callable[..., Tree], A: Any, b: Tree, x0: Tree, tol: Any, atol: Any, maxiter: Any, M: Any, symmetric: bool
) -> Tree:  # fmt: skip
    """`iterate(A, b, x0, M=..., bound=squared norm of the residual to be reached, maxiter=...)` as a solution with derivatives."""
    b = tree_map(_inexact, b)
    x0 = tree_map(jnp.zeros_like, b) if x0 is None else tree_map(_inexact, x0)
    if tree_structure(x0) != tree_structure(b):
        raise ValueError(f"{name}: x0 and b must have matching tree structure, got {tree_structure(x0)} and {tree_structure(b)}")
    shapes = [[a.shape for a in tree_leaves(t)] for t in (x0, b)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"{name}: x0 and b must have matching shape, got {shapes[0]} and {shapes[1]}")
    if maxiter is None:
        maxiter = 10 * sum(a.size for a in tree_leaves(b))
    A = _operator(name, A)
    M = _identity if M is None else _operator(name, M)

    def solution(operator: Operator, rhs: Tree, start: Tree) -> Tree:
        bound = jnp.maximum(jnp.square(tol) * _square(rhs), jnp.square(atol))
        x = iterate(operator, rhs, start, M=M, bound=bound, maxiter=maxiter)
        return tree_map(lambda a, like: convert(a, like.dtype, like.aval.weak_type), x, rhs)

    return custom_linear_solve(
        A,
        b,
        solve=lambda operator, rhs: solution(operator, rhs, x0),
        transpose_solve=lambda operator, rhs: solution(operator, rhs, tree_map(jnp.zeros_like, rhs)),
        symmetric=symmetric and not any(dtypes.is_complex(a.dtype) for a in tree_leaves(b)),
    )


class _ConjugateGradients(NamedTuple):
    x: Tree
    r: Tree
    p: Tree
    gamma: Array  # <r, M r>
    k: Any


def _cg(A: Operator, b: Tree, x: Tree, *, M: Operator, bound: Array, maxiter: Any) -> Tree:
    def proceed(s: _ConjugateGradients) -> Array:
        return ((s.gamma.real if M is _identity else _square(s.r)) > bound) & (s.k < maxiter)

    def step(s: _ConjugateGradients) -> _ConjugateGradients:
        ap = A(s.p)
        alpha = s.gamma / _vdot(s.p, ap).astype(s.gamma.dtype)
        x, r = _scaled(s.x, alpha, s.p), _scaled(s.r, -alpha, ap)
        z = M(r)
        gamma = _vdot(r, z).astype(s.gamma.dtype)
        return _ConjugateGradients(x, r, _scaled(z, gamma / s.gamma, s.p), gamma, s.k + 1)

    r = _minus(b, A(x))
    z = M(r)
    gamma = _vdot(r, z)
    return while_loop(proceed, step, _ConjugateGradients(x, r, z, gamma, 0)).x


class _Stabilized(NamedTuple):
    x: Tree
    r: Tree
    shadow: Tree
    alpha: Array
    omega: Array
    rho: Array
    p: Tree
    q: Tree
    k: Any  # below 0 after a breakdown


def _bicgstab(A: Operator, b: Tree, x: Tree, *, M: Operator, bound: Array, maxiter: Any) -> Tree:
    def proceed(s: _Stabilized) -> Array:
        return (_square(s.r) > bound) & (s.k < maxiter) & (s.k >= 0)

    def step(s: _Stabilized) -> _Stabilized:
        rho = _vdot(s.shadow, s.r).astype(s.rho.dtype)
        beta = rho / s.rho * s.alpha / s.omega
        p = _scaled(s.r, beta, _scaled(s.p, -s.omega, s.q))
        p_ = M(p)
        q = A(p_)
        alpha = rho / _vdot(s.shadow, q).astype(rho.dtype)
        half = _scaled(s.r, -alpha, q)
        early = _square(half) < bound
        half_ = M(half)
        t = A(half_)
        omega = _vdot(t, half).astype(rho.dtype) / _square(t).astype(rho.dtype)  # NaN where half is 0: `early` then
        x1 = _scaled(s.x, alpha, p_)
        x = tree_map(lambda a, c: jnp.where(early, a, c), x1, _scaled(x1, omega, half_))
        r = tree_map(lambda a, c: jnp.where(early, a, c), half, _scaled(half, -omega, t))
        broken = (rho == 0) | (alpha == 0) | ((omega == 0) & ~early)
        return _Stabilized(x, r, s.shadow, alpha, jnp.where(early, s.omega, omega), rho, p, q, jnp.where(broken, -1, s.k + 1))

    r = _minus(b, A(x))
    one = jnp.ones((), dtypes.result_type(*tree_leaves(b)))
    return while_loop(proceed, step, _Stabilized(x, r, r, one, one, one, r, tree_map(jnp.zeros_like, r), 0)).x


def cg(
    A: Any, b: Tree, x0: Tree = None, *, tol: Any = 1e-5, atol: Any = 0.0, maxiter: Any = None, M: Any = None
) -> tuple[Tree, None]:  # fmt: skip
    """The solution of A x = b for a Hermitian positive definite A by the method of conjugate gradients (M. Hestenes and E. Stiefel, 1952),
    and None.

    A: a function of pytrees like b, or a square matrix; x0: where to begin (zeros); M: an operator that is near the inverse of A.
    It ends when the norm of the residual is at most max(tol |b|, atol), or after maxiter (10 times the number of unknowns) steps.
    ValueError if x0 does not match b or a matrix is not square; TypeError for an A or M that is no operator."""
    return _solve("cg", _cg, A, b, x0, tol, atol, maxiter, M, symmetric=True), None


def bicgstab(
    A: Any, b: Tree, x0: Tree = None, *, tol: Any = 1e-5, atol: Any = 0.0, maxiter: Any = None, M: Any = None
) -> tuple[Tree, None]:  # fmt: skip
    """As `cg`, for any invertible A: by stabilized biconjugate gradients (H. van der Vorst, SIAM J. Sci. Stat. Comput. 13, 1992). It ends
    early where the method breaks down."""
    return _solve("bicgstab", _bicgstab, A, b, x0, tol, atol, maxiter, M, symmetric=False), None


class _Arnoldi(NamedTuple):
    """A basis of a Krylov space and the least squares problem in it, after k steps."""

    basis: Array  # (m + 1, n), the rows above k being 0
    turns: Array  # (m + 1, m + 1): the product of all Givens rotations
    triangle: Array  # (m, m): its columns are the columns of Hessenberg's matrix, turned; those above k are of the unit matrix
    rhs: Array  # (m + 1,), turned: |rhs[k]| is the norm of the residual
    k: Any


def _arnoldi_step(multiply: Callable[[Array], Array], s: _Arnoldi) -> _Arnoldi:
    k = s.k
    w = multiply(s.basis[k])
    size = jnp.linalg.norm(w)
    # Gram and Schmidt's method, twice (L. Giraud et al., The loss of orthogonality in the Gram-Schmidt process, Comp. Math. Appl. 50, 2005)
    column = jnp.zeros_like(s.rhs)
    for _ in range(2):
        h = jnp.matmul(jnp.conj(s.basis), w, precision="highest")
        w = w - jnp.matmul(h, s.basis, precision="highest")
        column = column + h
    norm = jnp.linalg.norm(w)
    norm = jnp.where(norm > dtypes.finfo(norm.dtype).eps * size, norm, 0)
    norm = norm.astype(w.dtype)
    row = jnp.where(norm == 0, 0, w / jnp.where(norm == 0, 1, norm))
    column = column.at[k + 1].set(norm)
    # one more rotation brings the last element of the column to 0
    turned = jnp.matmul(s.turns, column, precision="highest")
    a, b = turned[k], turned[k + 1]
    r = jnp.hypot(jnp.abs(a), jnp.abs(b)).astype(a.dtype)
    c, d = a / jnp.where(r == 0, 1, r), b / jnp.where(r == 0, 1, r)
    c = jnp.where(r == 0, 1, c)

    def rotated(x: Array) -> Array:
        return x.at[k].set(jnp.conj(c) * x[k] + jnp.conj(d) * x[k + 1]).at[k + 1].set(c * x[k + 1] - d * x[k])

    turned = jnp.where(jnp.arange(turned.shape[0]) == k, jnp.where(r == 0, 1, r), jnp.where(jnp.arange(turned.shape[0]) > k, 0, turned))
    return _Arnoldi(s.basis.at[k + 1].set(row), rotated(s.turns), s.triangle.at[:, k].set(turned[:-1]), rotated(s.rhs), k + 1)


def _krylov(multiply: Callable[[Array], Array], r: Array, m: int, bound: Any) -> Array:
    """The vector of the Krylov space of m dimensions that r belongs to which brings |r - multiply(x)| to its minimum, or, sooner, below
    `bound`, which is None for all m."""
    n = r.shape[0]
    norm = jnp.linalg.norm(r).astype(r.dtype)
    first = r / jnp.where(norm == 0, 1, norm)
    rhs = jnp.zeros(m + 1, r.dtype).at[0].set(norm)
    begin = _Arnoldi(jnp.zeros((m + 1, n), r.dtype).at[0].set(first), jnp.eye(m + 1, dtype=r.dtype), jnp.eye(m, dtype=r.dtype), rhs, 0)

    def proceed(s: _Arnoldi) -> Array:
        within = s.k < m
        return within if bound is None else within & (jnp.abs(s.rhs[s.k]) > bound)

    s = while_loop(proceed, functools.partial(_arnoldi_step, multiply), begin)
    wanted = jnp.where(jnp.arange(m) < s.k, s.rhs[:m], 0)
    y = triangular_solve(s.triangle, wanted[:, None], left_side=True, lower=False)[:, 0]
    return jnp.matmul(y, s.basis[:m], precision="highest")


def _gmres(A: Operator, b: Tree, x: Tree, *, M: Operator, bound: Array, maxiter: Any, restart: int, incremental: bool) -> Tree:
    _, unravel = ravel_pytree(b)
    limit = jnp.sqrt(bound)

    def multiply(v: Array) -> Array:
        return ravel_pytree(M(A(unravel(v))))[0].astype(v.dtype)

    def step(s: tuple[Tree, Tree, Array, Any]) -> tuple[Tree, Tree, Array, Any]:
        x, r, norm, k = s
        z = ravel_pytree(M(r))[0]
        within = limit / norm.astype(limit.dtype) * jnp.linalg.norm(z) if incremental else None
        update = unravel(_krylov(multiply, z, restart, within))
        x = tree_map(lambda a, d: a + d.astype(a.dtype), x, update)
        r = _minus(b, A(x))
        return x, r, jnp.sqrt(_square(r)), k + 1

    r = _minus(b, A(x))
    begin = (x, r, jnp.sqrt(_square(r)), 0)
    return while_loop(lambda s: (s[2] > limit) & (s[3] < maxiter), step, begin)[0]


def gmres(
    A: Any,
    b: Tree,
    x0: Tree = None,
    *,
    tol: Any = 1e-5,
    atol: Any = 0.0,
    restart: int = 20,
    maxiter: Any = None,
    M: Any = None,
    solve_method: str = "batched",
) -> tuple[Tree, Array]:
    """As `cg`, for any invertible A: by generalized minimal residuals (Y. Saad and M. Schultz, SIAM J. Sci. Stat. Comput. 7, 1986),
    beginning again after `restart` steps, at most `maxiter` times. The second result is 0, or -1 if the solution has a NaN.
    solve_method: "batched" makes all `restart` steps before it looks at the residual, "incremental" looks after each.
    ValueError for other methods."""
    if solve_method not in ("batched", "incremental"):
        raise ValueError(f"gmres: invalid solve_method {solve_method!r}, it must be 'batched' or 'incremental'")
    size = sum(jnp.size(a) for a in tree_leaves(b))
    iterate = functools.partial(_gmres, restart=max(min(restart, size), 1), incremental=solve_method == "incremental")
    x = _solve("gmres", iterate, A, b, x0, tol, atol, maxiter, M, symmetric=False)
    return x, jnp.where(jnp.isnan(_square(x)), -1, 0)


__all__ = ["bicgstab", "cg", "gmres"]
