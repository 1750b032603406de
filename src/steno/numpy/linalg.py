"""Norms and products of numpy.linalg. Decompositions, and what rests on them, are not here yet."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from steno import lax
from steno.core import dtypes
from steno.lax import records as p
from steno.numpy import elementwise as e, linear, manipulation, reductions as r
from steno.numpy.operands import Array, ArrayLike, DTypeLike, as_array, canonical_axes, promoted, promoted_inexact, strong

_LATER: Final = frozenset((
    "cholesky", "cond", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "matrix_rank", "pinv", "qr", "slogdet", "solve", "svd",
    "svdvals", "tensorinv", "tensorsolve",
))  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _LATER:
        raise AttributeError(f"steno.numpy.linalg.{name} is not implemented yet")
    raise AttributeError(f"module 'steno.numpy.linalg' has no attribute {name!r}")


def _squares(x: Array) -> Array:
    if dtypes.is_complex(x.aval.dtype):
        re, im = p.real_p(x), p.imag_p(x)
        return p.add_p(p.mul_p(re, re), p.mul_p(im, im))
    return p.mul_p(x, x)


def norm(x: ArrayLike, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Array:
    """The norm of a vector or matrix along one or two axes. Orders: of vectors any number, inf, -inf, 0; of matrices "fro", 1, -1, inf,
    -inf.

    ValueError for orders that do not exist; NotImplementedError for the matrix orders 2, -2 and "nuc", which need singular values."""
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
        raise ValueError(f"linalg.norm: there is no vector norm of order {order!r}")
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
        raise ValueError(f"linalg.norm: there is no matrix norm of order {order!r}")
    if order in (2, -2, "nuc"):
        raise NotImplementedError(f"linalg.norm: the matrix norm of order {order!r} needs singular values, which are not implemented")
    if order not in (1, -1, np.inf, -np.inf):
        raise ValueError(f"linalg.norm: there is no matrix norm of order {order!r}")
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


def matrix_power(a: ArrayLike, n: int) -> Array:
    """A square matrix to a power that is not negative, by repeated squaring."""
    (x,) = promoted_inexact("linalg.matrix_power", a)
    if x.ndim < 2:
        raise TypeError(f"linalg.matrix_power: expected matrices, got shape {x.shape}")
    if x.shape[-2] != x.shape[-1]:
        raise TypeError(f"linalg.matrix_power: expected square matrices, got shape {x.shape}")
    try:
        k = operator.index(n)
    except TypeError as err:
        raise TypeError(f"linalg.matrix_power: the exponent must be an integer, got {n!r}") from err
    if k < 0:
        raise NotImplementedError("linalg.matrix_power: negative powers need the inverse, which is not implemented")
    if k == 0:
        unit = np.eye(x.shape[-1], dtype=np.float32)
        return lax.broadcast_in_dim(
            lax.convert_element_type(as_array("matrix_power", unit), x.aval.dtype), x.shape, (x.ndim - 2, x.ndim - 1)
        )
    out = None
    while k:
        if k & 1:
            out = x if out is None else linear.matmul(out, x)
        k >>= 1
        if k:
            x = linear.matmul(x, x)
    assert out is not None
    return out


def multi_dot(arrays: Sequence[ArrayLike], *, precision: Any = None) -> Array:
    """The product of matrices (the first and last may be vectors), in the cheapest order."""
    xs = promoted("linalg.multi_dot", *arrays)
    if len(xs) < 2:
        raise ValueError(f"linalg.multi_dot: expected at least two arrays, got {len(xs)}")
    if xs[0].ndim not in (1, 2) or xs[-1].ndim not in (1, 2):
        raise ValueError(
            f"linalg.multi_dot: the first and the last array must be vectors or matrices, got shapes {xs[0].shape} and {xs[-1].shape}"
        )
    for k, x in enumerate(xs[1:-1]):
        if x.ndim != 2:
            raise ValueError(f"linalg.multi_dot: array {k + 1} must be a matrix, got shape {x.shape}")
    if any(a.shape[-1] != b.shape[0] for a, b in zip(xs[:-1], xs[1:], strict=True)):
        raise ValueError(f"linalg.multi_dot: neighbours' sizes must fit, got shapes {[x.shape for x in xs]}")
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    terms = [letters[k : k + 2] for k in range(len(xs))]
    if xs[0].ndim == 1:
        terms[0] = terms[0][1]
    if xs[-1].ndim == 1:
        terms[-1] = terms[-1][0]
    result = (terms[0][0] if xs[0].ndim == 2 else "") + (terms[-1][-1] if xs[-1].ndim == 2 else "")
    return linear.einsum(",".join(terms) + "->" + result, *xs, optimize="auto", precision=precision)


def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """The vector product along an axis of size 3."""
    a, b = promoted("linalg.outer", x1, x2)
    if a.shape[axis] != 3 or b.shape[axis] != 3:
        raise ValueError(f"linalg.cross: expected vectors of length 3 along axis {axis}, got shapes {a.shape} and {b.shape}")
    return linear.cross(a, b, axis=axis)


def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """All products of the elements of two vectors."""
    a, b = promoted("linalg.outer", x1, x2)
    if a.ndim != 1 or b.ndim != 1:
        raise ValueError(f"linalg.outer: expected vectors, got shapes {a.shape} and {b.shape}")
    return linear.outer(a, b)


def matmul(x1: ArrayLike, x2: ArrayLike, /, *, precision: Any = None, preferred_element_type: DTypeLike | None = None) -> Array:
    """As `numpy.matmul`."""
    return linear.matmul(x1, x2, precision=precision, preferred_element_type=preferred_element_type)


def tensordot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axes: Any = 2,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """As `numpy.tensordot`."""
    return linear.tensordot(x1, x2, axes, precision=precision, preferred_element_type=preferred_element_type)


def vecdot(
    x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1, precision: Any = None, preferred_element_type: DTypeLike | None = None
) -> Array:
    """As `numpy.vecdot`."""
    return linear.vecdot(x1, x2, axis=axis, precision=precision, preferred_element_type=preferred_element_type)


def matrix_transpose(x: ArrayLike, /) -> Array:
    """As `numpy.matrix_transpose`."""
    return manipulation.matrix_transpose(x)


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """The diagonals of the matrices in the last two axes."""
    return manipulation.diagonal(x, offset, -2, -1)


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Array:
    """The sums of the diagonals of the matrices in the last two axes."""
    return manipulation.trace(x, offset, -2, -1, dtype)
