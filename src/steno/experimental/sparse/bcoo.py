"""BCOO: batched coordinates. The axes of an array are n_batch batch axes, then n_sparse sparse ones, then n_dense dense ones.

`data` (*batch, nse, *dense) holds the stored elements, `indices` (*batch, nse, n_sparse) where they are among the sparse axes. Elements
at one position count together; those at positions beyond the end of an axis do not count, and fill up batches that have fewer elements.
Batch axes of size 1 in data or indices are broadcast. Functions are made of gathers and scatters, and so have derivatives by `data`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from steno import lax, numpy as jnp
from steno.core import dtypes
from steno.core.errors import ConcretizationTypeError
from steno.core.trace import Tracer
from steno.experimental.sparse.util import (
    JAXSparse,
    SparseEfficiencyError,
    SparseEfficiencyWarning,
    as_dense,
    check_layout,
    known_nse,
    over_batch,
    rebuilt_shape,
    stored_mask,
)
from steno.tree_util import register_pytree_node

Array = Any
Shape = tuple[int, ...]


@final
class BCOO(JAXSparse):
    """A sparse array of batched coordinates: `BCOO((data, indices), shape=...)`. indices_sorted and unique_indices say what is known of the
    positions in every batch. ValueError for arrays that do not fit the shape."""

    def __init__(
        self, args: tuple[Array, Array], *, shape: Sequence[int], indices_sorted: bool = False, unique_indices: bool = False
    ) -> None:  # fmt: skip
        self.data, self.indices = map(jnp.asarray, args)
        self.shape = tuple(int(n) for n in shape)
        self.indices_sorted = bool(indices_sorted)
        self.unique_indices = bool(unique_indices)
        self._check()

    def _check(self) -> None:
        data, indices, b = self.data, self.indices, self.indices.ndim - 2
        fits = (
            b >= 0
            and dtypes.is_integer(indices.dtype)
            and data.ndim > b
            and data.shape[b] in (1, indices.shape[b])
            and len(self.shape) == b + indices.shape[-1] + data.ndim - b - 1
            and data.shape[b + 1 :] == self.shape[b + indices.shape[-1] :]
            and all(n in (1, m) for leaf in (data, indices) for n, m in zip(leaf.shape[:b], self.shape[:b], strict=True))
        )
        if not fits:
            raise ValueError(
                f"BCOO: data of shape {data.shape} and indices of shape {indices.shape} and dtype {indices.dtype} are no array of shape "
                f"{self.shape}: they must be (*batch, nse, *dense) and (*batch, nse, n_sparse)"
            )

    @property
    def nse(self) -> int:
        return self.indices.shape[-2]

    @property
    def n_batch(self) -> int:
        """The number of batch axes."""
        return self.indices.ndim - 2

    @property
    def n_sparse(self) -> int:
        """The number of sparse axes."""
        return self.indices.shape[-1]

    @property
    def n_dense(self) -> int:
        """The number of dense axes."""
        return self.data.ndim - 1 - self.n_batch

    @property
    def sizes(self) -> Shape:
        """The sizes of the sparse axes."""
        return self.shape[self.n_batch : self.n_batch + self.n_sparse]

    def layout(self) -> dict[str, int]:
        return {"n_batch": self.n_batch, "n_dense": self.n_dense}

    @classmethod
    def fromdense(
        cls, mat: Array, *, nse: int | None = None, index_dtype: Any = np.int32, n_dense: int = 0, n_batch: int = 0
    ) -> BCOO:  # fmt: skip
        """`bcoo_fromdense`."""
        return bcoo_fromdense(mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch)

    @classmethod
    def from_scipy_sparse(cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0) -> BCOO:
        """A sparse matrix of SciPy."""
        if n_dense or n_batch:
            raise NotImplementedError("BCOO.from_scipy_sparse: batch and dense axes are not supported")
        coo = mat.tocoo()
        indices = np.stack([coo.row, coo.col], 1)
        return cls((coo.data, indices if index_dtype is None else indices.astype(index_dtype)), shape=mat.shape)

    def todense(self) -> Array:
        return bcoo_todense(self)

    def tree_flatten(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        aux = {"shape": self.shape, "indices_sorted": self.indices_sorted, "unique_indices": self.unique_indices}
        return (self.data, self.indices), aux

    def transpose(self, axes: Sequence[int] | None = None) -> BCOO:
        order = range(self.ndim)[::-1] if axes is None else [a % self.ndim for a in axes]
        return bcoo_transpose(self, permutation=order)

    def sort_indices(self) -> BCOO:
        """`bcoo_sort_indices`."""
        return bcoo_sort_indices(self)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCOO:
        """`bcoo_sum_duplicates`; remove_zeros: stored zeros are dropped."""
        return _sum_duplicates(self, nse, remove_zeros)

    def update_layout(self, *, n_batch: int | None = None, n_dense: int | None = None, on_inefficient: str | None = "error") -> BCOO:
        """`bcoo_update_layout`."""
        return bcoo_update_layout(self, n_batch=n_batch, n_dense=n_dense, on_inefficient=on_inefficient)

    def astype(self, dtype: Any) -> BCOO:
        """With elements of another dtype."""
        return with_data(self, self.data.astype(dtype))


def _unflatten(aux: Any, children: Any) -> BCOO:
    out = object.__new__(BCOO)
    out.data, out.indices = children
    shape, had, out.indices_sorted, out.unique_indices = aux
    out.shape = rebuilt_shape(shape, had, getattr(out.indices, "ndim", 0) - 2, out.data, out.indices)
    return out


def _flatten(mat: BCOO) -> tuple[tuple[Any, ...], Any]:
    return (mat.data, mat.indices), (mat.shape, getattr(mat.indices, "ndim", 2) - 2, mat.indices_sorted, mat.unique_indices)


register_pytree_node(BCOO, _flatten, _unflatten)


def with_data(mat: BCOO, data: Array) -> BCOO:
    """Other elements at the same positions."""
    out = _unflatten(_flatten(mat)[1], (data, mat.indices))
    if data.shape[out.n_batch + 1 :] != mat.data.shape[out.n_batch + 1 :]:
        out.shape = (*mat.shape[: mat.n_batch + mat.n_sparse], *data.shape[out.n_batch + 1 :])
    return out


def made(data: Array, indices: Array, shape: Sequence[int], indices_sorted: bool = False, unique_indices: bool = False) -> BCOO:
    return BCOO((data, indices), shape=shape, indices_sorted=indices_sorted, unique_indices=unique_indices)


def whole_batch(mat: BCOO) -> tuple[Array, Array]:
    """data and indices with their batch axes broadcast, and all nse elements."""
    batch = mat.shape[: mat.n_batch]
    data = jnp.broadcast_to(mat.data, (*batch, mat.nse, *mat.data.shape[mat.n_batch + 1 :]))
    return data, jnp.broadcast_to(mat.indices, (*batch, mat.nse, mat.n_sparse))


def within(indices: Array, sizes: Shape) -> Array:
    """Which positions (..., n_sparse) are no padding."""
    inside = jnp.ones(indices.shape[:-1], bool)
    for k, n in enumerate(sizes):
        inside &= indices[..., k] < n
    return inside


def padded(indices: Array, outside: Array, sizes: Sequence[int]) -> Array:
    """Positions (..., n_sparse), those that are `outside` (...) as padding."""
    if not sizes:
        return indices
    return jnp.stack([jnp.where(outside, n, indices[..., k]) for k, n in enumerate(sizes)], -1)


def columns(indices: Array) -> tuple[Array, ...]:
    return tuple(indices[..., k] for k in range(indices.shape[-1]))


def selected(indices: Array, axes: Sequence[int]) -> Array:
    """Some of the sparse axes of positions (..., n_sparse)."""
    if list(axes) == list(range(indices.shape[-1])):
        return indices
    if not axes:
        return jnp.zeros((*indices.shape[:-1], 0), indices.dtype)
    return jnp.stack([indices[..., k] for k in axes], -1)


def elements(array: Array, indices: Array) -> Array:
    """The elements of an array (*sizes, ...) at positions (nse, n_sparse); 0 for padding."""
    if indices.shape[-1] == 0:
        return jnp.broadcast_to(array, (indices.shape[0], *array.shape))
    return array.at[columns(indices)].get(mode="fill", fill_value=0)


def scattered(data: Array, indices: Array, sizes: Shape) -> Array:
    """An array (*sizes, *dense) with data (nse, *dense) added at positions (nse, n_sparse)."""
    if indices.shape[-1] == 0:
        return data.any(0) if data.dtype == dtypes.bool_ else data.sum(0, dtype=data.dtype)
    at = jnp.zeros((*sizes, *data.shape[1:]), data.dtype).at[columns(indices)]
    return at.max(data, mode="drop") if data.dtype == dtypes.bool_ else at.add(data, mode="drop")


# from and to dense arrays


def bcoo_fromdense(
    mat: Array, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0, index_dtype: Any = jnp.int32
) -> BCOO:  # fmt: skip
    """A dense array as a sparse one. nse: how many elements are stored for each batch, what is beyond being cut off; by default as many as
    there are, which must be known."""
    mat = as_dense(mat)
    n_sparse = check_layout("bcoo_fromdense", mat.ndim, n_batch, n_dense)
    mask = stored_mask(mat, n_batch, n_dense)
    count = known_nse("bcoo_fromdense", mask, n_batch) if nse is None else int(nse)
    sizes = mat.shape[n_batch : n_batch + n_sparse]

    def one(mat: Array, mask: Array) -> tuple[Array, Array]:
        if n_sparse == 0:
            return jnp.zeros((count, *mat.shape), mat.dtype).at[:1].set(mat[None][:count]), jnp.zeros((count, 0), index_dtype)
        found = jnp.nonzero(mask, size=count, fill_value=sizes)
        indices = jnp.stack(found, -1).astype(index_dtype)
        return elements(mat, indices), indices

    data, indices = over_batch(one, n_batch)(mat, mask)
    return made(data, indices, mat.shape, indices_sorted=True, unique_indices=True)


def bcoo_todense(mat: BCOO) -> Array:
    """The dense array."""
    data, indices = whole_batch(mat)
    sizes = mat.sizes
    return over_batch(lambda data, indices: scattered(data, indices, sizes), mat.n_batch)(data, indices)


def bcoo_extract(sparr: BCOO, arr: Array, *, assume_unique: bool | None = None) -> BCOO:
    """The elements of a dense array of sparr's shape at sparr's positions. assume_unique: whether an element that is stored several times
    is taken each time, or only the first time; by default what sparr knows."""
    arr = as_dense(arr)
    if arr.shape != sparr.shape:
        raise ValueError(f"bcoo_extract: the arrays must have one shape, got {sparr.shape} and {arr.shape}")
    unique = sparr.unique_indices if assume_unique is None else assume_unique
    sizes = sparr.sizes

    def one(arr: Array, indices: Array) -> Array:
        out = elements(arr, indices)
        if unique:
            return out
        first = _first_of_each(indices, sizes)
        return jnp.where(first.reshape(first.shape + (1,) * (out.ndim - 1)), out, 0)

    _, indices = whole_batch(sparr)
    return with_data(sparr, over_batch(one, sparr.n_batch)(arr, indices))


# the order of elements


def _order(indices: Array) -> Array:
    """The permutation that sorts positions (nse, n_sparse), keeping the order of equal ones."""
    count = jnp.arange(indices.shape[0], dtype=jnp.int32)
    if indices.shape[1] == 0:
        return count
    return lax.sort([*columns(indices), count], num_keys=indices.shape[1])[-1]


def _begins(rows: Array) -> Array:
    """Of sorted positions, which differ from those before."""
    if rows.shape[0] == 0:
        return jnp.zeros(0, bool)
    return jnp.concatenate([jnp.ones(1, bool), (rows[1:] != rows[:-1]).any(-1)])


def _first_of_each(indices: Array, sizes: Shape) -> Array:
    order = _order(indices)
    return jnp.zeros(indices.shape[0], bool).at[order].set(_begins(indices[order])) & within(indices, sizes)


def bcoo_sort_indices(mat: BCOO) -> BCOO:
    """With its positions in ascending order."""
    if mat.indices_sorted:
        return mat

    def one(data: Array, indices: Array) -> tuple[Array, Array]:
        order = _order(indices)
        return data[order], indices[order]

    data, indices = over_batch(one, mat.n_batch)(*whole_batch(mat))
    return made(data, indices, mat.shape, True, mat.unique_indices)


def bcoo_sum_duplicates(mat: BCOO, nse: int | None = None) -> BCOO:
    """With elements at one position added up, in ascending order; nse: how many are kept, by default as many as there are, which must be
    known. Padding is dropped as well, and so are zeros."""
    return _sum_duplicates(mat, nse, True)


def _sum_duplicates(mat: BCOO, nse: int | None, remove_zeros: bool) -> BCOO:
    data, indices = whole_batch(mat)
    sizes = jnp.array(mat.sizes, indices.dtype)

    def prepared(data: Array, indices: Array) -> tuple[Array, Array, Array]:
        kept = within(indices, mat.sizes)
        if remove_zeros:
            kept &= (data != 0).any(tuple(range(1, data.ndim)))
        rows = padded(indices, ~kept, mat.sizes)
        order = _order(rows) if mat.n_sparse else jnp.argsort(~kept, stable=True)
        rows, kept = rows[order], kept[order]
        begins = (_begins(rows) if mat.n_sparse else jnp.arange(mat.nse) == 0) & kept
        # padding belongs to no group
        return data[order], rows, jnp.where(kept, jnp.cumsum(begins) - 1, mat.nse)

    data, rows, group = over_batch(prepared, mat.n_batch)(data, indices)
    if nse is not None:
        count = int(nse)
    elif isinstance(group, Tracer):
        raise ConcretizationTypeError(group, "sum_duplicates: nse, the number of elements, must be given where the array is traced.")
    else:
        count = int(np.max(np.where(group < mat.nse, np.asarray(group) + 1, 0), initial=0))

    def summed(data: Array, rows: Array, group: Array) -> tuple[Array, Array]:
        out = scattered(data, group[:, None], (count,))
        return out, jnp.broadcast_to(sizes, (count, mat.n_sparse)).at[group].set(rows, mode="drop")

    data, indices = over_batch(summed, mat.n_batch)(data, rows, group)
    return made(data, indices, mat.shape, True, True)


# the layout of axes


def bcoo_update_layout(
    mat: BCOO, *, n_batch: int | None = None, n_dense: int | None = None, on_inefficient: str | None = "error"
) -> BCOO:  # fmt: skip
    """The same array with other numbers of batch and dense axes. More of them store more elements: on_inefficient is "error"
    (SparseEfficiencyError), "warn" or None."""
    from_layout = (mat.n_batch, mat.n_dense)
    wanted = (mat.n_batch if n_batch is None else n_batch, mat.n_dense if n_dense is None else n_dense)
    check_layout("bcoo_update_layout", mat.ndim, *wanted)
    if any(w > h for w, h in zip(wanted, from_layout, strict=True)):
        _inefficient(on_inefficient, f"bcoo_update_layout: from (n_batch, n_dense) = {from_layout} to {wanted} stores more elements")
    while mat.n_dense > wanted[1]:
        mat = _dense_to_sparse(mat)
    while mat.n_batch > wanted[0]:
        mat = _batch_to_sparse(mat)
    while mat.n_dense < wanted[1]:
        mat = _sparse_to_dense(mat)
    while mat.n_batch < wanted[0]:
        mat = _sparse_to_batch(mat)
    return mat


def _inefficient(mode: str | None, message: str) -> None:
    if mode == "error":
        raise SparseEfficiencyError(message)
    if mode == "warn":
        warnings.warn(message, SparseEfficiencyWarning, stacklevel=3)
    elif mode is not None:
        raise ValueError(f"bcoo_update_layout: on_inefficient must be 'error', 'warn' or None, got {mode!r}")


def _batch_to_sparse(mat: BCOO) -> BCOO:
    """The last batch axis becomes the first sparse one."""
    data, indices = whole_batch(mat)
    b, n = mat.n_batch - 1, mat.shape[mat.n_batch - 1]
    batch = mat.shape[:b]
    own = lax.broadcasted_iota(indices.dtype, (*batch, n, mat.nse, 1), b)
    indices = jnp.concatenate([own, indices], -1)
    # padding stays padding, wherever its first position is
    count = n * mat.nse
    return made(
        data.reshape(*batch, count, *data.shape[b + 2 :]), indices.reshape(*batch, count, mat.n_sparse + 1), mat.shape,
        mat.indices_sorted and mat.n_sparse > 0, mat.unique_indices and mat.n_sparse > 0,
    )  # fmt: skip


def _dense_to_sparse(mat: BCOO) -> BCOO:
    """The first dense axis becomes the last sparse one."""
    data, indices = whole_batch(mat)
    b, n = mat.n_batch, mat.shape[mat.n_batch + mat.n_sparse]
    batch = mat.shape[:b]
    spread = jnp.broadcast_to(indices[..., None, :], (*batch, mat.nse, n, mat.n_sparse))
    indices = jnp.concatenate([spread, lax.broadcasted_iota(indices.dtype, (*batch, mat.nse, n, 1), b + 1)], -1)
    count = mat.nse * n
    return made(
        data.reshape(*batch, count, *data.shape[b + 2 :]), indices.reshape(*batch, count, mat.n_sparse + 1), mat.shape,
        mat.indices_sorted, mat.unique_indices,
    )  # fmt: skip


def _sparse_to_dense(mat: BCOO) -> BCOO:
    """The last sparse axis becomes the first dense one."""
    data, indices = whole_batch(mat)
    n = mat.sizes[-1]
    own = indices[..., -1:] == lax.broadcasted_iota(indices.dtype, (*indices.shape[:-1], n), indices.ndim - 1)
    own = own.reshape(own.shape + (1,) * mat.n_dense)
    wide = jnp.where(own, jnp.expand_dims(data, mat.n_batch + 1), 0)
    return made(wide, indices[..., :-1], mat.shape, mat.indices_sorted, False)


def _sparse_to_batch(mat: BCOO) -> BCOO:
    """The first sparse axis becomes the last batch one: every batch stores all elements, those of others as padding."""
    data, indices = whole_batch(mat)
    b, n = mat.n_batch, mat.sizes[0]
    own = lax.broadcasted_iota(indices.dtype, (*mat.shape[:b], n, mat.nse, 1), b) == jnp.expand_dims(indices[..., :1], b)
    rest = jnp.expand_dims(indices[..., 1:], b)
    rest = jnp.broadcast_to(rest, (*own.shape[:-1], mat.n_sparse - 1))
    rest = padded(rest, ~own[..., 0], mat.sizes[1:])
    wide = jnp.where(own.reshape(own.shape[:-1] + (1,) * mat.n_dense), jnp.expand_dims(data, b), 0)
    return made(wide, rest, mat.shape, False, mat.unique_indices and mat.n_sparse > 1)


def bcoo_transpose(mat: BCOO, *, permutation: Sequence[int]) -> BCOO:
    """With its axes in another order, in which batch, sparse and dense axes stay such. NotImplementedError for others."""
    order = [int(p) for p in permutation]
    if sorted(order) != list(range(mat.ndim)):
        raise ValueError(f"bcoo_transpose: {tuple(order)} is no permutation of {mat.ndim} axes")
    b, d = mat.n_batch, mat.n_batch + mat.n_sparse
    batch, sparse, dense = order[:b], order[b:d], order[d:]
    if any(p >= b for p in batch) or any(not b <= p < d for p in sparse):
        raise NotImplementedError(f"bcoo_transpose: the permutation {tuple(order)} mixes batch, sparse and dense axes of {mat!r}")
    data = jnp.transpose(mat.data, [*batch, b, *(p - d + b + 1 for p in dense)])
    indices = selected(jnp.transpose(mat.indices, [*batch, b, b + 1]), [p - b for p in sparse])
    keeps = sparse == sorted(sparse)
    return made(data, indices, [mat.shape[p] for p in order], mat.indices_sorted and keeps, mat.unique_indices)


def stored_elements(mat: Array, n_batch: int = 0, n_dense: int = 0) -> Array:
    """The greatest number of stored elements of any batch, as an array."""
    mask = stored_mask(as_dense(mat), n_batch, n_dense)
    counts = mask.sum(tuple(range(n_batch, mask.ndim)))
    return counts.max() if counts.size else jnp.zeros((), counts.dtype)
