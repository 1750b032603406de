"""Functions of every sparse format: making arrays, and making them dense."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from steno import numpy as jnp
from steno.core import dtypes
from steno.experimental.sparse.bcoo import BCOO, bcoo_fromdense
from steno.experimental.sparse.bcsr import BCSR
from steno.experimental.sparse.coo import COO
from steno.experimental.sparse.csr import CSC, CSR
from steno.experimental.sparse.util import JAXSparse

Array = Any
_FORMATS: Final[dict[str, Any]] = {"bcoo": BCOO, "bcsr": BCSR, "coo": COO, "csr": CSR, "csc": CSC}


def _format(name: str, sparse_format: str) -> Any:
    if sparse_format not in _FORMATS:
        raise ValueError(f"{name}: sparse_format must be one of {', '.join(map(repr, _FORMATS))}, got {sparse_format!r}")
    return _FORMATS[sparse_format]


def todense(arr: Any) -> Array:
    """A sparse array made dense; a dense one as it is."""
    return arr.todense() if isinstance(arr, JAXSparse) else jnp.asarray(arr)


def empty(
    shape: Sequence[int], dtype: Any = None, index_dtype: Any = "int32", sparse_format: str = "bcoo", **kwds: Any
) -> JAXSparse:  # fmt: skip
    """An array of zeros, none of which is stored. kwds: n_batch and n_dense, of "bcoo" and "bcsr"; nse, of "bcoo"."""
    cls = _format("empty", sparse_format)
    shape = tuple(map(int, shape))
    d = dtypes.default_float() if dtype is None else dtypes.canonicalize_dtype(dtype)
    if cls is BCOO:
        return _empty_bcoo(shape, d, index_dtype, **kwds)
    if cls is BCSR:
        return BCSR.from_bcoo(_empty_bcoo(shape, d, index_dtype, **kwds))
    if kwds or len(shape) != 2:
        raise NotImplementedError(f"empty: matrices of format {sparse_format!r} have two axes and no options, got {shape} and {kwds}")
    return cls.fromdense(jnp.zeros(shape, d), nse=0, index_dtype=jnp.dtype(index_dtype))


def _empty_bcoo(shape: Sequence[int], dtype: Any, index_dtype: Any, *, n_batch: int = 0, n_dense: int = 0, nse: int = 0) -> BCOO:
    n_sparse = len(shape) - n_batch - n_dense
    if min(n_sparse, n_batch, n_dense) < 0:
        raise ValueError(f"empty: n_batch={n_batch} and n_dense={n_dense} do not fit shape {tuple(shape)}")
    sizes = jnp.array(shape[n_batch : n_batch + n_sparse], index_dtype)
    data = jnp.zeros((*shape[:n_batch], nse, *shape[n_batch + n_sparse :]), dtype)
    indices = jnp.broadcast_to(sizes, (*shape[:n_batch], nse, n_sparse))
    return BCOO((data, indices), shape=shape, indices_sorted=True, unique_indices=True)


def eye(
    N: int, M: int | None = None, k: int = 0, dtype: Any = None, index_dtype: Any = "int32", sparse_format: str = "bcoo", **kwds: Any
) -> JAXSparse:  # fmt: skip
    """Ones on the k-th diagonal of an (N, M) matrix. kwds: n_batch and n_dense, of "bcoo"."""
    cls = _format("eye", sparse_format)
    m = N if M is None else M
    d = dtypes.default_float() if dtype is None else dtypes.canonicalize_dtype(dtype)
    if kwds:
        if cls is not BCOO:
            raise NotImplementedError(f"eye: options {kwds} of format {sparse_format!r}")
        return bcoo_fromdense(jnp.eye(N, m, k, dtype=d), index_dtype=jnp.dtype(index_dtype), **kwds)
    count = max(0, min(N, m - k) if k >= 0 else min(N + k, m))
    at = jnp.arange(count, dtype=index_dtype)
    rows, columns = (at, at + k) if k >= 0 else (at - k, at)
    out = BCOO((jnp.ones(count, d), jnp.stack([rows, columns], -1)), shape=(N, m), indices_sorted=True, unique_indices=True)
    if cls is BCOO:
        return out
    if cls is COO:
        return COO((out.data, rows, columns), shape=out.shape, rows_sorted=True, cols_sorted=True)
    turned = BCSR.from_bcoo(out.T if cls is CSC else out)
    if cls is BCSR:
        return turned
    return cls((turned.data, turned.indices, turned.indptr), shape=out.shape)
