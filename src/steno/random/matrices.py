"""Random vectors and matrices that need decompositions."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from steno import lax
from steno.core import dtypes
from steno.lax import linalg
from steno.numpy import elementwise as e
from steno.numpy.manipulation import broadcast_to, expand_dims
from steno.ops.matrices import as_dtype_of, diagonal, matmul, scale_columns, transposed
from steno.random.continuous import normal
from steno.random.keys import Array, ArrayLike, DTypeLike, dtype_of, parameter, placed, shape_of, the_key


def multivariate_normal(
    key: ArrayLike,
    mean: ArrayLike,
    cov: ArrayLike,
    shape: Any = None,
    dtype: DTypeLike | None = None,
    method: str = "cholesky",
    *,
    out_sharding: Any = None,
) -> Array:
    """Vectors of normal numbers of these means and covariances; NaN where cov is not positive definite.

    shape     the result's without its last axis (default: that of the batch axes of mean and cov)
    method    the square root of cov that is taken: "cholesky", "eigh" or "svd" """
    checked = the_key("multivariate_normal", key)
    given = dtype_of("multivariate_normal", dtype, "f")
    if method not in ("svd", "eigh", "cholesky"):
        raise ValueError(f"multivariate_normal: method must be one of 'svd', 'eigh', 'cholesky', got {method!r}")
    mu, c = parameter("multivariate_normal", mean, given), parameter("multivariate_normal", cov, given)
    if mu.aval.ndim < 1:
        raise ValueError(f"multivariate_normal requires mean.ndim >= 1, got mean.ndim == {mu.aval.ndim}")
    if c.aval.ndim < 2:
        raise ValueError(f"multivariate_normal requires cov.ndim >= 2, got cov.ndim == {c.aval.ndim}")
    n = mu.shape[-1]
    if c.shape[-2:] != (n, n):
        raise ValueError(f"multivariate_normal requires cov.shape == (..., n, n) for n={n}, but got cov.shape == {c.shape}.")
    batch = np.broadcast_shapes(mu.shape[:-1], c.shape[:-2])
    if shape is None:
        wanted = batch
    else:
        wanted = shape_of("multivariate_normal", shape)
        try:
            fits = np.broadcast_shapes(wanted, batch) == wanted
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(f"multivariate_normal: shape must be one that {batch}, of mean and cov, can be broadcast to, got {wanted}")
    narrow = given in (dtypes.float16, dtypes.bfloat16)
    c = lax.convert_element_type(c, dtypes.float32) if narrow else c
    z = normal(checked, (*wanted, n), given)
    factor = lax.convert_element_type(_root(c, method), given)
    # factor @ z for each vector
    moved = matmul(broadcast_to(factor, (*wanted, n, n)), expand_dims(z, -1))
    return placed(e.add(broadcast_to(mu, (*wanted, n)), lax.squeeze(moved, (moved.ndim - 1,))), out_sharding)


def _root(cov: Array, method: str) -> Array:
    """F with F F^T = cov."""
    if method == "cholesky":
        return linalg.cholesky(cov)
    if method == "eigh":
        v, w = linalg.eigh(cov)
    else:
        v, w, _ = linalg.svd(cov)  # type: ignore[misc]
    return scale_columns(v, e.sqrt(w))


def orthogonal(
    key: ArrayLike, n: int, shape: Any = (), dtype: DTypeLike | None = None, m: int | None = None, *, out_sharding: Any = None
) -> Array:
    """Orthogonal (unitary, for complex dtypes) matrices, uniformly distributed (F. Mezzadri, How to generate random matrices from the
    classical compact groups, 2007). `m`: matrices of the shape (n, m) with orthonormal rows or columns."""
    rows = operator.index(n)
    columns = rows if m is None else operator.index(m)
    if rows < 0 or columns < 0:
        raise ValueError(f"orthogonal: negative dimensions are not allowed, got {n} and {m}")
    given = dtype_of("orthogonal", dtype, "fc")
    z = normal(the_key("orthogonal", key), (*shape_of("orthogonal", shape), max(rows, columns), min(rows, columns)), given)
    q, r = linalg.qr(z, full_matrices=False)  # type: ignore[misc]
    signs = _signs(r)
    q = scale_columns(q, signs)
    return placed(transposed(q) if rows < columns else q, out_sharding)


def _signs(r: Array) -> Array:
    d = diagonal(r)
    size = e.abs(d)
    return e.divide(d, as_dtype_of(size, d))
