"""scipy.cluster.vq: vector quantization."""

from __future__ import annotations

from steno import numpy as jnp
from steno.api import jit
from steno.numpy.operands import Array, ArrayLike, promoted_inexact


@jit
def _nearest(obs: Array, code_book: Array) -> tuple[Array, Array]:
    distances = jnp.linalg.norm(obs[:, None, :] - code_book[None, :, :], axis=-1)
    return jnp.argmin(distances, axis=-1).astype("int32"), jnp.min(distances, axis=-1)


def vq(obs: ArrayLike, code_book: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """For each row of `obs` (m, n) the index (int32) of the nearest row of `code_book` (k, n) and the Euclidean distance to it; the first
    of equally near ones. Vectors of one feature may be given as 1-d arrays. `check_finite` has no effect.
    ValueError for ranks that differ or are not 1 or 2, TypeError for rows of different lengths."""
    x, book = promoted_inexact("vq", obs, code_book)
    if x.ndim != book.ndim:
        raise ValueError(f"vq: obs and code_book must have the same rank, got shapes {x.shape} and {book.shape}")
    if x.ndim not in (1, 2):
        raise ValueError(f"vq: obs and code_book must be of rank 1 or 2 (ndim different than that is not supported), got shape {x.shape}")
    if x.ndim == 1:
        x, book = x[:, None], book[:, None]
    if x.shape[1] != book.shape[1]:
        raise TypeError(f"vq: rows of obs and code_book must have one length, got shapes {x.shape} and {book.shape}")
    return _nearest(x, book)


__all__ = ["vq"]
