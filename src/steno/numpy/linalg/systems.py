"""Linear systems, inverses, determinants, and least squares."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from steno import lax
from steno.api import jit
from steno.core import dtypes
from steno.custom_derivatives import custom_jvp
from steno.lax import linalg, records as p
from steno.numpy import elementwise as e, reductions as r
from steno.numpy.linalg.factors import eigh, operand, square_operand
from steno.numpy.manipulation import broadcast_to, expand_dims, moveaxis, reshape
from steno.numpy.operands import Array, ArrayLike, as_array, promoted_inexact, strong
from steno.numpy.selection import where
from steno.ops import matrices as m
from steno.ops.linalg_factor import geqrf
from steno.ops.linalg_solve import triangular


class SlogdetResult(NamedTuple):
    """What `slogdet` gives."""

    sign: Array
    logabsdet: Array


# solve, inv


def lu_substitution(factors: Array, permutation: Array, b: Array, adjoint: int = 0) -> Array:
    """The solution of `a @ x == b` (or with the transpose, 1, or the adjoint, 2, of a) from a's LU decomposition. All operands have the
    same batch axes."""
    if not adjoint:
        y = triangular(factors, m.take_rows(b, permutation), left_side=True, lower=True, unit_diagonal=True)
        return triangular(factors, y, left_side=True, lower=False)
    how = {"left_side": True, "transpose_a": True, "conjugate_a": adjoint == 2}
    y = triangular(factors, b, lower=False, **how)
    y = triangular(factors, y, lower=True, unit_diagonal=True, **how)
    return m.take_rows(y, inverse_permutation(permutation))


def inverse_permutation(permutation: Array) -> Array:
    """Where each position went."""
    n = permutation.ndim - 1
    return lax.sort_key_val(permutation, lax.broadcasted_iota(permutation.dtype, permutation.shape, n), n)[1]


@jit
def _solve_matrices(a: Array, b: Array) -> Array:
    """a: (batch, n, n), b: (batch, n, k), with the same batch axes. The factors are found once, for derivatives too."""
    factors, _, permutation = linalg.lu(lax.stop_gradient(a))
    return lax.custom_linear_solve(
        lambda x: m.matmul(a, x),
        b,
        lambda _, y: lu_substitution(factors, permutation, y),
        lambda _, y: lu_substitution(factors, permutation, y, 1),
    )


def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """The x with `a @ x == b` for square matrices a. b is one vector, or matrices; leading axes are broadcast. Not finite for singular a.

    ValueError if shapes do not fit.

    >>> jnp.linalg.solve(jnp.array([[2.0, 0.0], [0.0, 4.0]]), jnp.array([2.0, 4.0]))
    Array([1., 1.], dtype=float32)
    """
    x, y = (strong(v) for v in promoted_inexact("linalg.solve", a, b))
    if x.ndim < 2:
        raise ValueError(f"linalg.solve: the left hand array must have at least two axes, got shape {x.shape}")
    if y.ndim < 1 or x.shape[-1] != x.shape[-2] or y.shape[-1 if y.ndim == 1 else -2] != x.shape[-1]:
        hint = ""
        if x.ndim == y.ndim + 1 and y.ndim > 1:
            hint = ". For one vector for each matrix, use solve(a, b[..., None])[..., 0]."
        raise ValueError(f"linalg.solve: shapes do not fit, got {x.shape} and {y.shape}; wanted (..., n, n) and (n,) or (..., n, k){hint}")
    vector = y.ndim == 1
    if vector:
        y = expand_dims(y, -1)
    n = x.shape[-1]
    try:
        batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    except ValueError:
        raise ValueError(f"linalg.solve: leading axes must be equal or 1, got shapes {x.shape} and {y.shape}") from None
    if x.ndim == 2 and y.ndim > 2:  # one matrix: the right hand sides are columns side by side
        wide = moveaxis(y, -2, 0)
        out = moveaxis(reshape(_solve_matrices(x, reshape(wide, (n, -1 if wide.size else 0))), wide.shape), 0, -2)
    else:
        out = _solve_matrices(broadcast_to(x, (*batch, n, n)), broadcast_to(y, (*batch, *y.shape[-2:])))
    return lax.squeeze(out, (out.ndim - 1,)) if vector else out


def inv(a: ArrayLike) -> Array:
    """The inverses of square matrices; not finite for singular ones.

    >>> jnp.linalg.inv(jnp.array([[2.0, 0.0], [0.0, 4.0]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    return _inv(square_operand("inv", a))


@jit
def _inv(x: Array) -> Array:
    return _solve_matrices(x, m.identity_like(x))


# det, slogdet


def det(a: ArrayLike) -> Array:
    """The determinants of square matrices. Their derivatives hold for singular matrices too.

    >>> jnp.linalg.det(jnp.array([[2.0, 0.0], [0.0, 4.0]]))
    Array(8., dtype=float32)
    """
    x = operand("det", a)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(f"Argument to linalg.det must have shape [..., n, n], got {x.shape}")
    return (_det_by_formula if x.shape[-1] in (2, 3) else _det)(x)


@jit
def _det_by_formula(x: Array) -> Array:
    n = x.shape[-1]
    c = [[lax.index_in_dim(lax.index_in_dim(x, i, -2, False), j, -1, False) for j in range(n)] for i in range(n)]

    def minor(i: int, j: int) -> Array:
        return p.sub_p(p.mul_p(c[0][i], c[1][j]), p.mul_p(c[0][j], c[1][i]))

    if n == 2:
        return minor(0, 1)
    return p.add_p(p.sub_p(p.mul_p(minor(0, 1), c[2][2]), p.mul_p(minor(0, 2), c[2][1])), p.mul_p(minor(1, 2), c[2][0]))


@jit
@custom_jvp
def _det(x: Array) -> Array:
    factors, pivots, _ = linalg.lu(x)
    return p.mul_p(r.prod(m.diagonal(factors), -1), m.as_dtype_of(_parity(pivots), x))


@_det.__wrapped__.defjvp
def _det_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    (x,), (g,) = primals, tangents
    return det(x), r.sum(m.diagonal(_adjugate_times(x, g)), -1)


def _parity(pivots: Array) -> Array:
    """1 or -1 (int32): the determinant of the permutation that the exchanges amount to."""
    positions = lax.broadcasted_iota(pivots.dtype, pivots.shape, pivots.ndim - 1)
    exchanges = r.sum(e.not_equal(pivots, positions), -1, dtype=np.int32)
    return e.subtract(1, e.multiply(2, e.remainder(exchanges, 2)))


def _adjugate_times(x: Array, b: Array) -> Array:
    """adj(x) @ b, where adj(x) = det(x) inv(x) for regular x, and continuous: it is zero below rank n - 1.

    With x = P^T L U and U = [[U1, u], [0, w]], adj(U) = [[w adj(U1), -adj(U1) u], [0, det(U1)]], so that adj(U) y solves
    [[U1, u], [0, 1]] z = det(U1) [w y1, y2]. Of a matrix of rank n - 1 elimination with pivoting leaves w = 0 alone, but for rare cases."""
    factors, pivots, permutation = linalg.lu(x)
    n = x.shape[-1]
    diagonal = m.diagonal(factors)
    position = lax.broadcasted_iota(np.int32, diagonal.shape, diagonal.ndim - 1)
    last = e.equal(position, n - 1)
    one = lax.full_like(diagonal, 1)
    others = r.prod(lax.select(last, one, diagonal), -1)
    scale = p.mul_p(others, m.as_dtype_of(_parity(pivots), x))
    replaced = lax.select(e.logical_or(last, e.equal(diagonal, 0)), one, diagonal)
    upper = p.add_p(m.upper(factors, 1), p.mul_p(m.identity_like(factors), expand_dims(replaced, -1)))
    y = triangular(factors, m.take_rows(b, permutation), left_side=True, lower=True, unit_diagonal=True)
    weights = lax.select(last, one, broadcast_to(lax.index_in_dim(diagonal, n - 1, -1), diagonal.shape))
    y = m.scale_rows(y, p.mul_p(weights, broadcast_to(expand_dims(scale, -1), weights.shape)))
    return triangular(upper, y, left_side=True, lower=False)


def slogdet(a: ArrayLike, *, method: str | None = None) -> SlogdetResult:
    """(sign, log(abs(det(a)))) of square matrices; (0, -inf) for singular ones. The sign of a complex determinant is a number of modulus 1.

    method    "lu" (as None), or "qr", for real matrices"""
    x = operand("slogdet", a)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(f"Argument to linalg.slogdet must have shape [..., n, n], got {x.shape}")
    if method not in (None, "lu", "qr"):
        raise ValueError(f"Unknown slogdet method '{method}'. Supported methods are 'lu' (`None`), and 'qr'.")
    if method == "qr" and dtypes.is_complex(x.dtype):
        raise NotImplementedError("slogdet method='qr' not implemented for complex inputs")
    return SlogdetResult(*(_slogdet_qr if method == "qr" else _slogdet_lu)(x))


@jit
@custom_jvp
def _slogdet_lu(x: Array) -> tuple[Array, Array]:
    factors, pivots, _ = linalg.lu(x)
    d = m.diagonal(factors)
    return _sign_and_log(d, m.as_dtype_of(_parity(pivots), x))


@jit
@custom_jvp
def _slogdet_qr(x: Array) -> tuple[Array, Array]:
    factors, taus = geqrf(x)
    reflections = r.prod(where(e.equal(taus, 0), 1, -1), -1, dtype=np.int32)
    return _sign_and_log(m.diagonal(factors), m.as_dtype_of(reflections, x))


def _sign_and_log(factors: Array, sign: Array) -> tuple[Array, Array]:
    """Of the product of the factors along the last axis, and of `sign`."""
    return p.mul_p(sign, r.prod(p.sign_p(factors), -1)), r.sum(p.log_p(p.abs_p(factors), accuracy=None), -1)


def _slogdet_jvp(primals: Any, tangents: Any) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    (x,), (g,) = primals, tangents
    sign, size = _slogdet_lu(x)
    change = r.sum(m.diagonal(_solve_matrices(x, g)), -1)
    if not dtypes.is_complex(x.dtype):
        return (sign, size), (lax.full_like(sign, 0), change)
    turn = p.complex_p(lax.full_like(size, 0), p.imag_p(change))
    return (sign, size), (p.mul_p(turn, sign), p.real_p(change))


_slogdet_lu.__wrapped__.defjvp(_slogdet_jvp)
_slogdet_qr.__wrapped__.defjvp(_slogdet_jvp)


# pinv, lstsq


def pinv(a: ArrayLike, rtol: ArrayLike | None = None, hermitian: bool = False, *, rcond: ArrayLike | None = None) -> Array:
    """The pseudo-inverses of matrices. Singular values up to `rtol` (default: 10 times the greater extent and the dtype's epsilon) times
    the greatest one count as zero; `rcond` is another name for it. `hermitian`: a is."""
    if rtol is not None and rcond is not None:
        raise ValueError("pinv: only one of rtol and rcond may be specified.")
    x = operand("pinv", a)
    if x.ndim < 2:
        raise ValueError(f"linalg.pinv: expected matrices, got shape {x.shape}")
    bound = rtol if rtol is not None else rcond
    if bound is None:
        bound = 10.0 * max(x.shape[-2:]) * float(dtypes.finfo(x.dtype).eps)
    return _pinv(x, as_array("linalg.pinv", bound), bool(hermitian))


def _pinv_of(x: Array, rtol: Array, hermitian: bool) -> Array:
    if not x.size:
        return lax.full((*x.shape[:-2], x.shape[-1], x.shape[-2]), 0, x.dtype)
    if hermitian:
        w, u = eigh(x)
        s, vh = w, m.adjoint(u)
    else:
        u, s, vh = linalg.svd(x, full_matrices=False)  # type: ignore[misc]
    size = p.abs_p(s)
    bound = e.multiply(expand_dims(rtol, -1), r.amax(size, -1, keepdims=True))
    inverse = where(e.greater(size, bound), e.reciprocal(s), 0)
    return m.matmul(m.adjoint(vh), m.scale_rows(m.adjoint(u), m.as_dtype_of(broadcast_to(inverse, s.shape), u)))


_pinv = jit(custom_jvp(_pinv_of, nondiff_argnums=(2,)), static_argnums=(2,))


@_pinv.__wrapped__.defjvp
def _pinv_jvp(hermitian: bool, primals: Any, tangents: Any) -> tuple[Array, Array]:
    """Golub and Pereyra, The differentiation of pseudo-inverses and nonlinear least squares problems, 1973, for a constant rank:
    -P dA P + P P^H dA^H (1 - A P) + (1 - P A) dA^H P^H P."""
    (x, rtol), (g, _) = primals, tangents
    out = _pinv(x, rtol, hermitian)
    if not x.size:
        return out, lax.full_like(out, 0)
    outh, gh = m.adjoint(out), m.adjoint(g)
    change = p.neg_p(m.matmul(out, m.matmul(g, out)))
    rows = m.matmul(m.matmul(out, outh), gh)
    change = p.add_p(change, p.sub_p(rows, m.matmul(m.matmul(rows, x), out)))
    columns = m.matmul(gh, m.matmul(outh, out))
    return out, p.add_p(change, p.sub_p(columns, m.matmul(out, m.matmul(x, columns))))


def lstsq(a: ArrayLike, b: ArrayLike, rcond: float | None = None, *, numpy_resid: bool = False) -> tuple[Array, Array, Array, Array]:
    """(x, residuals, rank, singular values): the shortest x that minimizes `norm(b - a @ x)`, for one matrix a and one or more columns b.

    rcond          singular values up to rcond times the greatest one count as zero (None: the greater extent times the dtype's epsilon; -1:
                   the dtype's epsilon)
    numpy_resid    residuals are empty unless a has more rows than columns and full rank, as in NumPy; this cannot be jitted"""
    return (_lstsq if numpy_resid else _jitted_lstsq)(a, b, rcond, numpy_resid)


def _lstsq(a: ArrayLike, b: ArrayLike, rcond: float | None, numpy_resid: bool) -> tuple[Array, Array, Array, Array]:
    x, y = (strong(v) for v in promoted_inexact("linalg.lstsq", a, b))
    if x.shape[:1] != y.shape[:1]:
        raise ValueError(f"linalg.lstsq: leading dimensions of input arrays must match, got shapes {x.shape} and {y.shape}")
    if x.ndim != 2:
        raise TypeError(f"linalg.lstsq: a must have two dimensions, got shape {x.shape}")
    vector = y.ndim == 1
    if y.ndim not in (1, 2):
        raise TypeError(f"linalg.lstsq: b must have one or two dimensions, got shape {y.shape}")
    if vector:
        y = expand_dims(y, -1)
    rows, columns = x.shape
    real = m.real_part(x).dtype
    if not x.size:
        s, rank = lax.full((0,), 0, real), as_array("lstsq", np.asarray(0, dtypes.default_int()))
        solution = lax.full((columns, y.shape[1]), 0, x.dtype)
    else:
        eps = float(dtypes.finfo(real).eps)
        cut = eps * max(rows, columns) if rcond is None else where(e.less(rcond, 0), eps, rcond)
        u, s, vh = linalg.svd(x, full_matrices=False)  # type: ignore[misc]
        kept = e.greater(s, e.multiply(lax.convert_element_type(as_array("lstsq", cut), real), lax.index_in_dim(s, 0)))
        rank = r.sum(kept)
        inverse = lax.select(kept, e.reciprocal(lax.select(kept, s, lax.full_like(s, 1))), lax.full_like(s, 0))
        solution = m.matmul(m.adjoint(vh), m.scale_rows(m.matmul(m.adjoint(u), y), m.as_dtype_of(inverse, u)))
    if numpy_resid and (int(rank) < columns or rows <= columns):
        residuals = lax.full((0,), 0, real)
    else:
        size = p.abs_p(p.sub_p(y, m.matmul(x, solution)))
        residuals = r.sum(p.mul_p(size, size), 0)
    return (lax.squeeze(solution, (1,)) if vector else solution), residuals, rank, s


_jitted_lstsq = jit(_lstsq, static_argnums=(3,))


# tensors


def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """The inverse of a as a map from its last axes to its first `ind` ones: `tensordot(tensorinv(a, ind), a, ind)` is an identity."""
    x = operand("tensorinv", a)
    if ind <= 0:
        raise ValueError(f"linalg.tensorinv: ind must be a positive integer, got {ind}")
    first, last = x.shape[:ind], x.shape[ind:]
    if math.prod(first) != math.prod(last):
        raise ValueError(
            "tensorinv is only possible when the product of the first `ind` dimensions equals that of the remaining dimensions. "
            f"got a.shape={x.shape} with ind={ind}."
        )
    n = math.prod(first)
    return reshape(inv(reshape(x, (n, n))), (*last, *first))


def tensorsolve(a: ArrayLike, b: ArrayLike, axes: tuple[int, ...] | None = None) -> Array:
    """The x with `tensordot(a, x, x.ndim) == b`. `axes` of a are moved to its end first."""
    x, y = (strong(v) for v in promoted_inexact("linalg.tensorsolve", a, b))
    if axes is not None:
        x = moveaxis(x, axes, tuple(range(x.ndim - len(axes), x.ndim)))
        if x.shape[: y.ndim] != y.shape:
            raise ValueError(
                "linalg.tensorsolve: after moving axes to the end, the leading shape of a must match the shape of b, got a of shape "
                f"{x.shape} and b of shape {y.shape}"
            )
    first, last = x.shape[: y.ndim], x.shape[y.ndim :]
    if math.prod(first) != math.prod(last) or math.prod(first) != y.size:
        raise ValueError(
            "linalg.tensorsolve: expected prod(a.shape[:b.ndim]) == prod(a.shape[b.ndim:]), got a of shape "
            f"{x.shape} and b of shape {y.shape}"
        )
    n = y.size
    return reshape(solve(reshape(x, (n, n)), reshape(y, (n,))), last)
