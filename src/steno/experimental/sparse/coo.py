"""COO: sparse matrices of coordinates, in SciPy's format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from steno import numpy as jnp
from steno.experimental.sparse.bcoo import BCOO, bcoo_fromdense, bcoo_todense, made
from steno.experimental.sparse.products import matmul
from steno.experimental.sparse.util import JAXSparse, as_dense, matrix_shape, register_matrix, turned

Array = Any


@final
class COO(JAXSparse):
    """A sparse matrix of coordinates: `COO((data, row, col), shape=...)`, each of shape (nse,)."""

    def __init__(
        self, args: tuple[Array, Array, Array], *, shape: Sequence[int], rows_sorted: bool = False, cols_sorted: bool = False
    ) -> None:  # fmt: skip
        self.data, self.row, self.col = map(jnp.asarray, args)
        self.shape = matrix_shape("COO", shape)
        self._rows_sorted, self._cols_sorted = rows_sorted, cols_sorted

    @property
    def nse(self) -> int:
        return self.data.size

    @classmethod
    def fromdense(cls, mat: Array, *, nse: int | None = None, index_dtype: Any = np.int32) -> COO:
        """`coo_fromdense`."""
        return coo_fromdense(mat, nse=nse, index_dtype=index_dtype)

    def to_bcoo(self) -> BCOO:
        """The same matrix in batched coordinates."""
        return made(self.data, jnp.stack([self.row, self.col], -1), self.shape)

    def todense(self) -> Array:
        return bcoo_todense(self.to_bcoo())

    def transpose(self, axes: Sequence[int] | None = None) -> COO:
        if not turned("COO", axes):
            return self
        return COO((self.data, self.col, self.row), shape=self.shape[::-1], rows_sorted=self._cols_sorted, cols_sorted=self._rows_sorted)

    def tree_flatten(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (self.data, self.row, self.col), {"shape": self.shape, "rows": self._rows_sorted, "cols": self._cols_sorted}


register_matrix(COO, ("data", "row", "col"), ("shape", "_rows_sorted", "_cols_sorted"))


def coo_fromdense(mat: Array, *, nse: int | None = None, index_dtype: Any = jnp.int32) -> COO:
    """A dense matrix as coordinates; nse as in `bcoo_fromdense`."""
    mat = as_dense(mat)
    matrix_shape("coo_fromdense", mat.shape)
    out = bcoo_fromdense(mat, nse=nse, index_dtype=index_dtype)
    return COO((out.data, out.indices[:, 0], out.indices[:, 1]), shape=mat.shape, rows_sorted=True)


def coo_todense(mat: COO) -> Array:
    """The dense matrix."""
    return mat.todense()


def coo_matvec(mat: COO, v: Array, transpose: bool = False) -> Array:
    """The product of a matrix, or its transpose, and a vector."""
    return matmul((mat.T if transpose else mat).to_bcoo(), as_dense(v))


def coo_matmat(mat: COO, B: Array, *, transpose: bool = False) -> Array:
    """The product of a matrix, or its transpose, and a dense matrix."""
    return matmul((mat.T if transpose else mat).to_bcoo(), as_dense(B))
