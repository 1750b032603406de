"""Products of matrices and tensors."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from steno import lax
from steno.numpy import linalg, linear, manipulation
from steno.numpy.operands import Array, ArrayLike, DTypeLike, as_array, promoted, promoted_inexact


def matrix_power(a: ArrayLike, n: int) -> Array:
    """A square matrix to an integer power, by repeated squaring; to a negative one through its inverse."""
    try:
        k = operator.index(n)
    except TypeError as err:
        raise TypeError(f"linalg.matrix_power: the exponent must be an integer, got {n!r}") from err
    (x,) = (promoted if k >= 0 else promoted_inexact)("linalg.matrix_power", a)
    if x.ndim < 2:
        raise TypeError(f"linalg.matrix_power: expected matrices, got shape {x.shape}")
    if x.shape[-2] != x.shape[-1]:
        raise TypeError(f"linalg.matrix_power: expected square matrices, got shape {x.shape}")
    if k < 0:
        x, k = linalg.inv(x), -k
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
