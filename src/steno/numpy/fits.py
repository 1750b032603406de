"""Polynomials by linear algebra: roots, and fits to points."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from steno import lax
from steno.core import dtypes
from steno.lax.records import neg_p
from steno.numpy import elementwise as e, linalg, reductions as r
from steno.numpy.creation import vander
from steno.numpy.linear import dot
from steno.numpy.manipulation import expand_dims, roll
from steno.numpy.operands import Array, ArrayLike, as_array, convert, promoted, promoted_inexact, static, strong
from steno.numpy.selection import where
from steno.numpy.sorting import argsort
from steno.numpy.taking import take
from steno.ops.matrices import complex_dtype


def roots(p: ArrayLike, *, strip_zeros: bool = True) -> Array:
    """The zeros of the polynomial with these coefficients, the highest power first: eigenvalues of its companion matrix.

    strip_zeros    leave out leading zeros, whose number must be known while tracing; otherwise each is a NaN at the end"""
    (x,) = promoted_inexact("roots", p)
    x = strong(x)
    if x.ndim != 1:
        raise ValueError(f"roots: the coefficients must be a vector, got shape {x.shape}")
    given = complex_dtype(x.dtype)
    if x.shape[0] < 2:
        return lax.full((0,), 0, given)
    n = x.shape[0] - 1
    if strip_zeros:
        nonzero = np.nonzero(static("roots", x, "p"))[0]
        if not nonzero.size:
            return lax.full((0,), 0, given)
        first, last = int(nonzero[0]), int(nonzero[-1])
        return lax.concatenate([lax.full((n - last,), 0, given), _companion_values(lax.slice_in_dim(x, first, last + 1))], 0)
    leading = r.sum(r.cumprod(e.equal(x, 0).astype(np.int32)))
    values = _companion_values(roll(x, e.negative(leading)))
    values = take(values, argsort(e.equal(values, 0)))  # the moved zeros are roots too
    return where(e.less(np.arange(n), e.subtract(n, leading)), values, convert(as_array("roots", complex(np.nan, np.nan)), given))


def _companion_values(x: Array) -> Array:
    n = x.shape[0] - 1
    if n < 1:
        return lax.full((0,), 0, complex_dtype(x.dtype))
    below = lax.convert_element_type(as_array("roots", np.eye(n, k=-1, dtype=np.float32)), x.dtype)
    row = e.divide(neg_p(lax.slice_in_dim(x, 1, n + 1)), lax.index_in_dim(x, 0))
    return linalg.eigvals(lax.dynamic_update_slice_in_dim(below, expand_dims(row, 0), 0, 0))


def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: ArrayLike | None = None,
    cov: bool | str = False,
) -> Any:
    """Coefficients, the highest power first, of the polynomial of degree `deg` nearest to the points (x, y) in the sense of least
    squares. y may have a second axis: one polynomial for each column.

    rcond    singular values of the scaled Vandermonde matrix up to this times the greatest count as zero (default: the epsilon of x's dtype
             times the number of points)
    full     give (coefficients, residuals, rank, singular values, rcond)
    w        weights, which residuals are multiplied by
    cov      give (coefficients, their covariances), scaled by chi2 / degrees of freedom unless "unscaled" """
    a, b = promoted("polyfit", x, y)
    a, b = strong(a), strong(b)
    degree = operator.index(deg)
    if degree < 0:
        raise ValueError(f"polyfit: expected deg >= 0, got {degree}")
    if a.ndim != 1:
        raise TypeError(f"polyfit: expected 1D vector for x, got shape {a.shape}")
    if not a.size:
        raise TypeError("polyfit: expected non-empty vector for x")
    if b.ndim not in (1, 2):
        raise TypeError(f"polyfit: expected 1D or 2D array for y, got shape {b.shape}")
    if a.shape[0] != b.shape[0]:
        raise TypeError(f"polyfit: expected x and y to have same length, got shapes {a.shape} and {b.shape}")
    if dtypes.kind(a.dtype) not in "fc":
        raise ValueError(f"polyfit: points must be floats or complex numbers, got {dtypes.name(a.dtype)}")
    if rcond is None:
        rcond = a.shape[0] * float(dtypes.finfo(a.dtype).eps)
    lhs, rhs = vander(a, degree + 1), b
    if w is not None:
        _, weights = promoted("polyfit", a, w)
        if weights.ndim != 1:
            raise TypeError(f"polyfit: expected a 1-d array for weights, got shape {weights.shape}")
        if weights.shape[0] != b.shape[0]:
            raise TypeError(f"polyfit: expected w and y to have the same length, got shapes {weights.shape} and {b.shape}")
        lhs = e.multiply(lhs, expand_dims(weights, 1))
        rhs = e.multiply(rhs, expand_dims(weights, 1)) if b.ndim == 2 else e.multiply(rhs, weights)
    scale = e.sqrt(r.sum(e.multiply(lhs, lhs), 0))
    c, residuals, rank, s = linalg.lstsq(e.divide(lhs, expand_dims(scale, 0)), rhs, rcond)
    c = e.divide(c, expand_dims(scale, 1)) if b.ndim == 2 else e.divide(c, scale)
    if full:
        return c, residuals, rank, s, as_array("polyfit", rcond)
    if not cov:
        return c
    spread = linalg.inv(dot(lhs.T, lhs))
    if b.ndim == 2:
        spread = expand_dims(spread, -1)
    if cov == "unscaled":
        return c, spread
    if a.shape[0] <= degree + 1:
        raise ValueError("polyfit: the number of data points must exceed order to scale the covariance matrix")
    factor = e.divide(residuals, a.shape[0] - degree - 1)  # one for each column of y
    return c, e.multiply(spread, lax.reshape(factor, (1,) * (spread.ndim - 1) + factor.shape) if b.ndim == 2 else lax.squeeze(factor, (0,)))
