"""Pseudo-inverses and least squares."""

from __future__ import annotations

from typing import Any

import numpy as np

from steno import lax
from steno.api import jit
from steno.core import dtypes
from steno.custom_derivatives import custom_jvp
from steno.lax import linalg, records as p
from steno.numpy import elementwise as e, reductions as r
from steno.numpy.linalg.factors import eigh
from steno.numpy.linalg.operands import operand
from steno.numpy.manipulation import broadcast_to, expand_dims
from steno.numpy.operands import Array, ArrayLike, as_array, promoted_inexact, strong
from steno.numpy.selection import where
from steno.ops import matrices as m


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
