"""Matrices with a structure: constants, and ones made of vectors (of the last axis; leading axes make batches)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from steno import lax
from steno.core import dtypes
from steno.numpy import elementwise as e
from steno.numpy.manipulation import broadcast_to, concatenate, expand_dims
from steno.numpy.operands import Array, ArrayLike, DTypeLike, as_array, check_dtype, promoted, promoted_inexact
from steno.numpy.taking import take
from steno.ops import matrices as m


def _vector(fun: str, x: Any, position: int = 0) -> Array:
    a = as_array(fun, x, position)
    return lax.reshape(a, (1,)) if not a.ndim else a


def _constant(fun: str, x: np.ndarray, dtype: Any = None) -> Array:
    return as_array(fun, np.asarray(x, dtypes.default_float() if dtype is None else dtype))


def _matrix(rows: list[Array]) -> Array:
    return concatenate([expand_dims(row, -2) for row in rows], axis=-2)


def block_diag(*arrs: ArrayLike) -> Array:
    """The matrix with these blocks along its diagonal. Scalars are of size 1, vectors are rows."""
    if not arrs:
        return lax.full((1, 0), 0, dtypes.default_float())
    blocks = promoted("block_diag", *arrs)
    for k, b in enumerate(blocks):
        if b.ndim > 2:
            raise ValueError(f"block_diag: arguments must have at most 2 dimensions, got shape {b.shape} at argument {k}")
    blocks = [lax.reshape(b, (1,) * (2 - b.ndim) + b.shape) for b in blocks]
    rows, columns = (sum(b.shape[d] for b in blocks) for d in (0, 1))
    zero = lax.full((), 0, blocks[0].dtype)
    out, i, j = [], 0, 0
    for b in blocks:
        n, k = b.shape
        out.append(lax.pad(b, zero, ((0, 0, 0), (j, columns - j - k, 0))))
        i, j = i + n, j + k
    assert i == rows
    return concatenate(out, axis=0)


def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """The matrix with the first column c and constant diagonals; its first row is r (r[0] does not count), or the conjugate of c."""
    if r is None:
        x = _vector("toeplitz", c)
        y = e.conj(x) if dtypes.is_complex(x.dtype) else x
    else:
        x, y = promoted("toeplitz", _vector("toeplitz", c), _vector("toeplitz", r, 1))
    n, k = x.shape[-1], y.shape[-1]
    batch = np.broadcast_shapes(x.shape[:-1], y.shape[:-1])
    if not n or not k:
        return lax.full((*batch, n, k), 0, x.dtype)
    x, y = broadcast_to(x, (*batch, n)), broadcast_to(y, (*batch, k))
    line = concatenate([lax.rev(x, (x.ndim - 1,)), lax.slice_in_dim(y, 1, k, axis=-1)], axis=-1)  # from the lower left corner on
    return take(line, np.arange(n)[::-1, None] + np.arange(k), axis=-1)


def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """The matrix with the first column c and constant antidiagonals; its last row is r (r[0] does not count), or zeros."""
    x = _vector("hankel", c)
    x, y = (x, lax.full_like(x, 0)) if r is None else promoted("hankel", x, _vector("hankel", r, 1))
    n, k = x.shape[-1], y.shape[-1]
    batch = np.broadcast_shapes(x.shape[:-1], y.shape[:-1])
    if not n or not k:
        return lax.full((*batch, n, k), 0, x.dtype)
    x, y = broadcast_to(x, (*batch, n)), broadcast_to(y, (*batch, k))
    line = concatenate([x, lax.slice_in_dim(y, 1, k, axis=-1)], axis=-1)
    return take(line, np.arange(n)[:, None] + np.arange(k), axis=-1)


def circulant(c: ArrayLike) -> Array:
    """The matrix whose columns are c, turned on by one from each to the next."""
    x = _vector("circulant", c)
    n = x.shape[-1]
    return take(x, (np.arange(n)[:, None] - np.arange(n)) % n, axis=-1) if n else lax.full((*x.shape, 0), 0, x.dtype)


def companion(a: ArrayLike) -> Array:
    """The companion matrix of the polynomial with these coefficients, the highest power first: it has the polynomial's zeros."""
    (x,) = promoted_inexact("companion", a)
    if not x.ndim:
        x = lax.reshape(x, (1,))
    n = x.shape[-1] - 1
    if n < 1:
        raise ValueError(f"The length of `a` along the last axis must be at least 2; got shape {x.shape}.")
    row = e.divide(e.negative(lax.slice_in_dim(x, 1, n + 1, axis=-1)), lax.slice_in_dim(x, 0, 1, axis=-1))
    below = broadcast_to(_constant("companion", np.eye(n - 1, n), x.dtype), (*x.shape[:-1], n - 1, n))
    return concatenate([expand_dims(row, -2), below], axis=-2)


def convolution_matrix(a: ArrayLike, n: int, mode: str = "full") -> Array:
    """The matrix A with `A @ v == convolve(a, v, mode)` for vectors v of length n."""
    x = as_array("convolution_matrix", a)
    if not x.ndim:
        raise ValueError("convolution_matrix: a must be at least 1-dimensional, got shape ()")
    if n < 1:
        raise ValueError(f"n must be a positive integer; got {n}.")
    if x.shape[-1] < 1:
        raise ValueError(f"len(a) must be at least 1; got shape {x.shape}.")
    if mode not in ("full", "valid", "same"):
        raise ValueError(f"mode must be one of 'full', 'valid', 'same'; got {mode!r}.")
    k = x.shape[-1]
    zero = lax.full((), 0, x.dtype)
    widths = (*((0, 0, 0) for _ in x.shape[:-1]), (n - 1, n - 1, 0))
    padded = lax.pad(x, zero, widths)
    full = take(padded, np.arange(k + n - 1)[:, None] - np.arange(n) + n - 1, axis=-1)
    least, most = min(k, n), max(k, n)
    if mode == "full":
        return full
    first, count = (least - 1, most - least + 1) if mode == "valid" else ((least - 1) // 2, most)
    return lax.slice_in_dim(full, first, first + count, axis=-2)


def dft(n: int, scale: str | None = None, *, dtype: DTypeLike | None = None) -> Array:
    """The matrix of the discrete Fourier transform, divided by sqrt(n) ("sqrtn") or n ("n") as `scale` says."""
    if scale not in (None, "sqrtn", "n"):
        raise ValueError(f"scale must be None, 'sqrtn', or 'n'; got {scale!r}.")
    given = m.complex_dtype(dtypes.default_float()) if dtype is None else check_dtype(dtype, "dft")
    if not dtypes.is_complex(given):
        raise ValueError(f"dtype must be a complex floating-point type; got {dtypes.name(given)}.")
    k = np.arange(max(n, 0))
    turns = np.outer(k, k) % max(n, 1) / max(n, 1)
    return _constant("dft", np.exp(-2j * np.pi * turns) / {None: 1.0, "sqrtn": math.sqrt(max(n, 1)), "n": max(n, 1)}[scale], given)


def fiedler(a: ArrayLike) -> Array:
    """The matrix of absolute differences of the elements of a."""
    x = _vector("fiedler", a)
    return e.abs(e.subtract(expand_dims(x, -1), expand_dims(x, -2)))


def fiedler_companion(a: ArrayLike) -> Array:
    """The pentadiagonal matrix that has the zeros of the polynomial with these coefficients, the highest power first (M. Fiedler, A note on
    companion matrices, 2003)."""
    (x,) = promoted_inexact("fiedler_companion", a)
    if not x.ndim:
        x = lax.reshape(x, (1,))
    if not x.shape[-1]:
        raise ValueError(f"fiedler_companion requires the last axis of 'a' to have nonzero length, got an array of shape {x.shape}.")
    n = x.shape[-1] - 1
    out = lax.full((*x.shape[:-1], n, n), 0, x.dtype)
    if not n:
        return out
    c = e.negative(e.divide(lax.slice_in_dim(x, 1, n + 1, axis=-1), lax.slice_in_dim(x, 0, 1, axis=-1)))
    out = out.at[..., 0, 0].set(c[..., 0])
    for k in range(1, n):  # coefficient k stands in row 0 or in an even row, ones beside
        row = k - 1 if k % 2 else k
        column = k if k % 2 else k - 1
        out = out.at[..., row, column].set(c[..., k])
    for k in range(0, n - 2, 2):
        out = out.at[..., k, k + 2].set(1)
    out = out.at[..., 1, 0].set(1) if n > 1 else out
    for k in range(3, n, 2):
        out = out.at[..., k, k - 2].set(1)
    return out


def hadamard(n: int, dtype: DTypeLike = int) -> Array:
    """Sylvester's matrix of +1 and -1 with orthogonal rows; n is a power of 2."""
    if n < 1 or n & (n - 1):
        raise ValueError(f"n must be a positive power of 2; got {n}.")
    x = np.ones((1, 1), np.int8)
    while len(x) < n:
        x = np.block([[x, x], [x, -x]])
    return _constant("hadamard", x, check_dtype(dtype, "hadamard"))


def helmert(n: int, full: bool = False) -> Array:
    """Helmert's orthogonal matrix without its first row, or with it (`full`)."""
    if n < 1:
        raise ValueError(f"n must be a positive integer; got {n}.")
    k = np.arange(n)
    x = np.tril(np.ones((n, n)), -1) - np.diag(k)
    x[0] = 1
    length = np.sqrt(np.where(k == 0, n, k * (k + 1)))
    return _constant("helmert", (x / length[:, None])[0 if full else 1 :])


def hilbert(n: int) -> Array:
    """The matrix of 1 / (i + j + 1)."""
    k = np.arange(n)
    return _constant("hilbert", 1 / (k[:, None] + k + 1.0))


def invhilbert(n: int) -> Array:
    """The inverse of `hilbert(n)`, from binomial coefficients, rounded once."""
    x = np.zeros((max(n, 0), max(n, 0)))
    for i in range(n):
        for j in range(n):
            value = (i + j + 1) * math.comb(n + i, n - j - 1) * math.comb(n + j, n - i - 1) * math.comb(i + j, i) ** 2
            x[i, j] = float(-value if (i + j) % 2 else value)
    return _constant("invhilbert", x)


_KINDS = ("symmetric", "lower", "upper")


def _pascal(fun: str, n: int, kind: str | None, signed: bool) -> Array:
    kind = "symmetric" if kind is None else kind
    if kind not in _KINDS:
        raise ValueError(f"{fun}: Expected kind to be one of {[*_KINDS]}, got {kind}")
    size = max(n, 0)
    lower = [[math.comb(i, j) * (-1 if signed and (i + j) % 2 else 1) for j in range(size)] for i in range(size)]
    if kind == "symmetric" and not signed:
        exact = [[math.comb(i + j, i) for j in range(size)] for i in range(size)]
    elif kind == "symmetric":  # (L L^T)^-1 = L^-T L^-1
        exact = [[sum(lower[k][i] * lower[k][j] for k in range(max(i, j), size)) for j in range(size)] for i in range(size)]
    else:
        exact = lower
    x = np.array([[float(v) for v in row] for row in exact]).reshape(size, size)
    return _constant(fun, x.T if kind == "upper" else x)


def pascal(n: int, kind: str | None = None) -> Array:
    """Binomial coefficients: as a lower or an upper triangular matrix, or their product, which is symmetric (as None)."""
    return _pascal("pascal", n, kind, False)


def invpascal(n: int, kind: str | None = None) -> Array:
    """The inverse of `pascal(n, kind)`."""
    return _pascal("invpascal", n, kind, True)


def leslie(f: ArrayLike, s: ArrayLike) -> Array:
    """Leslie's matrix: fecundities f in the first row, survival rates s below the diagonal."""
    x, y = promoted_inexact("leslie", _vector("leslie", f), _vector("leslie", s, 1))
    n = x.shape[-1]
    if y.shape[-1] != n - 1:
        raise ValueError(
            "Incorrect lengths for f and s. The length of s along the last axis must be one less than the length of f; "
            f"got f shape {x.shape} and s shape {y.shape}."
        )
    if n < 2:
        raise ValueError(f"The length of f along the last axis must be at least 2; got shape {x.shape}.")
    batch = np.broadcast_shapes(x.shape[:-1], y.shape[:-1])
    x, y = broadcast_to(x, (*batch, n)), broadcast_to(y, (*batch, n - 1))
    below = m.scale_rows(broadcast_to(_constant("leslie", np.eye(n - 1, n), x.dtype), (*batch, n - 1, n)), y)
    return concatenate([expand_dims(x, -2), below], axis=-2)
