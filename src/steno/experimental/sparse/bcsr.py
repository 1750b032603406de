"""BCSR: batched compressed rows. An array has n_batch batch axes, two sparse ones and n_dense dense ones.

`data` (*batch, nse, *dense), `indices` (*batch, nse): the columns, `indptr` (*batch, rows + 1): where each row's elements begin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from steno import numpy as jnp
from steno.experimental.sparse import products, structure
from steno.experimental.sparse.bcoo import (
    BCOO,
    bcoo_extract,
    bcoo_fromdense,
    bcoo_sort_indices,
    bcoo_todense,
    made,
    whole_batch,
)
from steno.experimental.sparse.util import JAXSparse, as_dense, over_batch, rebuilt_shape
from steno.tree_util import register_pytree_node

Array = Any


@final
class BCSR(JAXSparse):
    """A sparse array of batched compressed rows: `BCSR((data, indices, indptr), shape=...)`. ValueError for arrays that do not fit."""

    def __init__(
        self, args: tuple[Array, Array, Array], *, shape: Sequence[int], indices_sorted: bool = False, unique_indices: bool = False
    ) -> None:
        self.data, self.indices, self.indptr = map(jnp.asarray, args)
        self.shape = tuple(int(n) for n in shape)
        self.indices_sorted = bool(indices_sorted)
        self.unique_indices = bool(unique_indices)
        b = self.n_batch
        fits = (
            b >= 0
            and self.indptr.ndim == b + 1
            and self.data.ndim > b
            and len(self.shape) == self.data.ndim + 1
            and self.indptr.shape[b] == self.shape[b] + 1
            and self.data.shape[b + 1 :] == self.shape[b + 2 :]
        )
        if not fits:
            shapes = (self.data.shape, self.indices.shape, self.indptr.shape)
            raise ValueError(f"BCSR: data, indices and indptr of shapes {shapes} are no array of shape {self.shape}")

    @property
    def nse(self) -> int:
        return self.indices.shape[-1]

    @property
    def n_batch(self) -> int:
        """The number of batch axes."""
        return self.indices.ndim - 1

    @property
    def n_sparse(self) -> int:
        """The number of sparse axes."""
        return 2

    @property
    def n_dense(self) -> int:
        """The number of dense axes."""
        return self.data.ndim - 1 - self.n_batch

    def layout(self) -> dict[str, int]:
        return {"n_batch": self.n_batch, "n_dense": self.n_dense}

    @classmethod
    def fromdense(
        cls, mat: Array, *, nse: int | None = None, index_dtype: Any = np.int32, n_dense: int = 0, n_batch: int = 0
    ) -> BCSR:  # fmt: skip
        """`bcsr_fromdense`."""
        return bcsr_fromdense(mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch)

    @classmethod
    def from_scipy_sparse(cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0) -> BCSR:
        """A sparse matrix of SciPy."""
        if n_dense or n_batch:
            raise NotImplementedError("BCSR.from_scipy_sparse: batch and dense axes are not supported")
        csr = mat.tocsr()
        parts = [csr.indices, csr.indptr] if index_dtype is None else [x.astype(index_dtype) for x in (csr.indices, csr.indptr)]
        return cls((csr.data, *parts), shape=mat.shape)

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> BCSR:
        """An array in batched coordinates with two sparse axes."""
        if arr.n_sparse != 2:
            raise NotImplementedError(f"BCSR.from_bcoo: {arr!r} has not two sparse axes")
        ordered = bcoo_sort_indices(arr)
        data, indices = whole_batch(ordered)
        rows = arr.sizes[0]

        def begins(row: Array) -> Array:
            return jnp.searchsorted(row, jnp.arange(rows + 1, dtype=row.dtype)).astype(row.dtype)

        indptr = over_batch(begins, arr.n_batch)(indices[..., 0])
        return cls((data, indices[..., 1], indptr), shape=arr.shape, indices_sorted=True, unique_indices=arr.unique_indices)

    def to_bcoo(self) -> BCOO:
        """The same array in batched coordinates."""
        rows, columns = self.shape[self.n_batch : self.n_batch + 2]
        nse = self.nse

        def coordinates(indices: Array, indptr: Array) -> Array:
            k = jnp.arange(nse, dtype=indptr.dtype)
            row = (jnp.searchsorted(indptr, k, side="right") - 1).astype(indices.dtype)
            # behind the last row there is padding
            stored = k < indptr[-1]
            return jnp.stack([jnp.where(stored, row, rows), jnp.where(stored, indices, columns)], -1)

        at = over_batch(coordinates, self.n_batch)(*self._whole()[1:])
        return made(self.data, at, self.shape, self.indices_sorted, self.unique_indices)

    def _whole(self) -> tuple[Array, Array, Array]:
        batch = self.shape[: self.n_batch]
        return tuple(jnp.broadcast_to(x, (*batch, *x.shape[self.n_batch :])) for x in (self.data, self.indices, self.indptr))  # type: ignore[return-value]

    def todense(self) -> Array:
        return bcsr_todense(self)

    def transpose(self, axes: Sequence[int] | None = None) -> BCSR:
        return BCSR.from_bcoo(self.to_bcoo().transpose(axes))

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCSR:
        """`bcsr_sum_duplicates`; remove_zeros: stored zeros are dropped."""
        return BCSR.from_bcoo(self.to_bcoo().sum_duplicates(nse, remove_zeros))

    def tree_flatten(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        aux = {"shape": self.shape, "indices_sorted": self.indices_sorted, "unique_indices": self.unique_indices}
        return (self.data, self.indices, self.indptr), aux


def _flatten(mat: BCSR) -> tuple[tuple[Any, ...], Any]:
    aux = (mat.shape, getattr(mat.indices, "ndim", 1) - 1, mat.indices_sorted, mat.unique_indices)
    return (mat.data, mat.indices, mat.indptr), aux


def _unflatten(aux: Any, children: Any) -> BCSR:
    out = object.__new__(BCSR)
    out.data, out.indices, out.indptr = children
    shape, had, out.indices_sorted, out.unique_indices = aux
    out.shape = rebuilt_shape(shape, had, getattr(out.indices, "ndim", 0) - 1, out.data, out.indices)
    return out


register_pytree_node(BCSR, _flatten, _unflatten)


def bcsr_fromdense(
    mat: Array, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0, index_dtype: Any = jnp.int32
) -> BCSR:  # fmt: skip
    """A dense array as a sparse one; nse as in `bcoo_fromdense`. ValueError unless two axes are left to be sparse."""
    mat = as_dense(mat)
    if mat.ndim - n_batch - n_dense != 2:
        raise ValueError(f"bcsr_fromdense: two axes of an array of shape {mat.shape} must be sparse, got {n_batch=} and {n_dense=}")
    return BCSR.from_bcoo(bcoo_fromdense(mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype))


def bcsr_todense(mat: BCSR) -> Array:
    """The dense array."""
    return bcoo_todense(mat.to_bcoo())


def bcsr_extract(indices: Array, indptr: Array, mat: Array) -> Array:
    """The elements of a dense array at positions."""
    mat, indices = as_dense(mat), jnp.asarray(indices)
    b = indices.ndim - 1
    like = BCSR((jnp.zeros((*indices.shape, *mat.shape[b + 2 :]), mat.dtype), indices, indptr), shape=mat.shape)
    return bcoo_extract(like.to_bcoo(), mat, assume_unique=True).data


def bcsr_dot_general(
    lhs: Any, rhs: Any, *, dimension_numbers: Any, precision: Any = None, preferred_element_type: Any = None, out_sharding: Any = None
) -> Any:  # fmt: skip
    """As `bcoo_dot_general`; a product of two sparse arrays is in batched coordinates."""
    lhs, rhs = (x.to_bcoo() if isinstance(x, BCSR) else x for x in (lhs, rhs))
    return products.bcoo_dot_general(
        lhs, rhs, dimension_numbers=dimension_numbers, precision=precision, preferred_element_type=preferred_element_type,
        out_sharding=out_sharding,
    )  # fmt: skip


def bcsr_broadcast_in_dim(mat: BCSR, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: Any = None) -> BCSR:
    """As `bcoo_broadcast_in_dim`, for new batch and dense axes."""
    return BCSR.from_bcoo(structure.bcoo_broadcast_in_dim(mat.to_bcoo(), shape=shape, broadcast_dimensions=broadcast_dimensions))


def bcsr_concatenate(operands: Sequence[BCSR], *, dimension: int) -> BCSR:
    """As `bcoo_concatenate`."""
    return BCSR.from_bcoo(structure.bcoo_concatenate([m.to_bcoo() for m in operands], dimension=dimension))


def bcsr_sum_duplicates(mat: BCSR, nse: int | None = None) -> BCSR:
    """As `bcoo_sum_duplicates`."""
    return mat.sum_duplicates(nse)
