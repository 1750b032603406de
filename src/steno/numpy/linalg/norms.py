"""Norms of vectors and matrices, and what follows from singular values: condition numbers, ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from steno import lax
from steno.core import dtypes
from steno.lax import records as p
from steno.numpy import elementwise as e, linalg, reductions as r
from steno.numpy.manipulation import expand_dims, moveaxis
from steno.numpy.operands import Array, ArrayLike, as_array, canonical_axes, promoted_inexact, strong


def _squares(x: Array) -> Array:
    if dtypes.is_complex(x.aval.dtype):
        re, im = p.real_p(x), p.imag_p(x)
        return p.add_p(p.mul_p(re, re), p.mul_p(im, im))
    return p.mul_p(x, x)


def norm(x: ArrayLike, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Array:
    """The norm of a vector or matrix along one or two axes. Orders: of vectors any number, inf, -inf, 0; of matrices "fro", 1, -1, inf,
    -inf, and of singular values: 2 (the greatest), -2 (the least), "nuc" (their sum).

    ValueError for orders that do not exist.

    >>> jnp.linalg.norm(jnp.array([3.0, 4.0]))
    Array(5., dtype=float32)
    """
    (a,) = promoted_inexact("linalg.norm", x)
    a = strong(a)
    if axis is None:
        if ord is None:
            out = p.sqrt_p(r.sum(_squares(a)), accuracy=None)
            return r.keep(out, tuple(range(a.ndim)), a.shape) if keepdims else out
        axes = tuple(range(a.ndim))
    else:
        axes = canonical_axes(axis, a.ndim)
    if len(axes) == 1:
        return _vector_norm(a, ord, axes, keepdims)
    if len(axes) == 2:
        return _matrix_norm(a, ord, axes, keepdims)
    raise ValueError(f"linalg.norm: axis must name one axis (of vectors) or two (of matrices), got {axes} for shape {a.shape}")


def _vector_norm(a: Array, order: Any, axes: Sequence[int], keepdims: bool) -> Array:
    axes = tuple(axes)
    if order is None or (isinstance(order, int | float) and order == 2):
        return p.sqrt_p(r.sum(_squares(a), axes, keepdims=keepdims), accuracy=None)
    if isinstance(order, str):
        raise ValueError(f"linalg.norm: Invalid order {order!r} for vector norm.")
    size = p.abs_p(a)
    if not hasattr(order, "aval"):
        if order == np.inf:
            return r.amax(size, axes, keepdims=keepdims, initial=0)
        if order == -np.inf:
            return r.amin(size, axes, keepdims=keepdims)
        if order == 0:
            return r.sum(e.not_equal(a, 0), axes, dtype=dtypes.default_float(), keepdims=keepdims)
        if order == 1:
            return r.sum(size, axes, keepdims=keepdims)
    total = r.sum(e.power(size, order), axes, keepdims=keepdims)
    return e.power(total, e.divide(1, order) if hasattr(order, "aval") else 1 / order)


def _matrix_norm(a: Array, order: Any, axes: Sequence[int], keepdims: bool) -> Array:
    rows, columns = axes
    if order is None or order in ("f", "fro"):
        return p.sqrt_p(r.sum(_squares(a), tuple(axes), keepdims=keepdims), accuracy=None)
    if isinstance(order, str) and order != "nuc":
        raise ValueError(f"linalg.norm: Invalid order {order!r} for matrix norm.")
    if order in (2, -2, "nuc"):
        s = linalg.svdvals(moveaxis(a, axes, (-2, -1)))
        out = r.sum(s, -1) if order == "nuc" else r.amax(s, -1, initial=0) if order == 2 else r.amin(s, -1)
        return expand_dims(out, tuple(sorted(axes))) if keepdims else out
    if order not in (1, -1, np.inf, -np.inf):
        raise ValueError(f"linalg.norm: Invalid order {order!r} for matrix norm.")
    along, over = (rows, columns) if order in (1, -1) else (columns, rows)
    sums = r.sum(p.abs_p(a), along, keepdims=True)
    out = r.amax(sums, over, keepdims=True, initial=0) if order > 0 else r.amin(sums, over, keepdims=True)
    return out if keepdims else lax.squeeze(out, tuple(axes))


def vector_norm(x: ArrayLike, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Array:
    """The norm of vectors along axes (all by default)."""
    (a,) = promoted_inexact("linalg.vector_norm", x)
    a = strong(a)
    return _vector_norm(a, ord, canonical_axes(axis, a.ndim), keepdims)


def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """The norm of the matrices in the last two axes."""
    (a,) = promoted_inexact("linalg.matrix_norm", x)
    if a.ndim < 2:
        raise ValueError(f"linalg.matrix_norm: input must have at least two dimensions, got shape {a.shape}")
    return _matrix_norm(strong(a), ord, (a.ndim - 2, a.ndim - 1), keepdims)


def cond(x: ArrayLike, p: Any = None) -> Array:
    """The condition number of matrices: the quotient of their greatest and least singular values (p None or 2; -2: its inverse), or
    `norm(x, p) * norm(inv(x), p)`. Infinite for singular matrices. ValueError for empty ones, and where p needs square ones."""
    (a,) = promoted_inexact("cond", x)
    a = strong(a)
    if a.ndim < 2:
        raise ValueError(f"linalg.cond: input array must be at least 2D, got shape {a.shape}")
    if not a.size:
        raise ValueError(f"linalg.cond: input array must not be empty, got shape {a.shape}")
    if p is None or p in (2, -2):
        s = linalg.svdvals(a)
        first, last = lax.index_in_dim(s, 0, -1, keepdims=False), lax.index_in_dim(s, -1, -1, keepdims=False)
        out = e.divide(last, first) if p == -2 else e.divide(first, last)
    else:
        if a.shape[-1] != a.shape[-2]:
            raise ValueError(f"linalg.cond: for p={p!r}, array must be square, got shape {a.shape}")
        axes = (a.ndim - 2, a.ndim - 1)
        out = e.multiply(_matrix_norm(a, p, axes, False), _matrix_norm(linalg.inv(a), p, axes, False))
    # 0 / 0, or the inverse of a singular matrix; NaN in x stays
    unknown = e.logical_and(e.isnan(out), e.logical_not(r.any(e.isnan(a), (-2, -1))))
    return lax.select(unknown, lax.full_like(out, np.inf), out)


def matrix_rank(M: ArrayLike, rtol: ArrayLike | None = None, *, hermitian: bool = False, tol: ArrayLike | None = None) -> Array:
    """The number of singular values above a bound: `rtol` (default: the greater extent times the dtype's epsilon) times the greatest one,
    or `tol`. An array of less than two axes has rank 1 unless it is zero."""
    (a,) = promoted_inexact("linalg.matrix_rank", M)
    a = strong(a)
    if a.ndim < 2:
        return lax.convert_element_type(r.any(e.not_equal(a, 0)), np.int32)
    if rtol is not None and tol is not None:
        raise ValueError("matrix_rank: only one of tol or rtol may be specified.")
    s = p.abs_p(linalg.eigvalsh(a)) if hermitian else linalg.svdvals(a)
    if tol is not None:
        bound = as_array("linalg.matrix_rank", tol)
    else:
        if rtol is None:
            rtol = max(a.shape[-2:]) * float(dtypes.finfo(s.aval.dtype).eps)
        bound = e.multiply(r.amax(s, -1), rtol)
    return r.sum(e.greater(s, expand_dims(bound, -1)), -1)
