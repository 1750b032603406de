"""CSR and CSC: sparse matrices of compressed rows and columns, in SciPy's formats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from steno import numpy as jnp
from steno.experimental.sparse.bcoo import BCOO, bcoo_todense
from steno.experimental.sparse.bcsr import BCSR
from steno.experimental.sparse.products import matmul
from steno.experimental.sparse.util import JAXSparse, as_dense, matrix_shape, register_matrix, turned

Array = Any


@final
class CSR(JAXSparse):
    """A sparse matrix of compressed rows: `CSR((data, indices, indptr), shape=...)`."""

    def __init__(self, args: tuple[Array, Array, Array], *, shape: Sequence[int]) -> None:
        self.data, self.indices, self.indptr = map(jnp.asarray, args)
        self.shape = matrix_shape("CSR", shape)

    @property
    def nse(self) -> int:
        return self.data.size

    @classmethod
    def fromdense(cls, mat: Array, *, nse: int | None = None, index_dtype: Any = np.int32) -> CSR:
        """`csr_fromdense`."""
        return csr_fromdense(mat, nse=nse, index_dtype=index_dtype)

    def to_bcoo(self) -> BCOO:
        """The same matrix in batched coordinates."""
        return BCSR((self.data, self.indices, self.indptr), shape=self.shape).to_bcoo()

    def todense(self) -> Array:
        return bcoo_todense(self.to_bcoo())

    def transpose(self, axes: Sequence[int] | None = None) -> CSR | CSC:
        return CSC((self.data, self.indices, self.indptr), shape=self.shape[::-1]) if turned("CSR", axes) else self

    def tree_flatten(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (self.data, self.indices, self.indptr), {"shape": self.shape}


@final
class CSC(JAXSparse):
    """A sparse matrix of compressed columns: `CSC((data, indices, indptr), shape=...)`."""

    def __init__(self, args: tuple[Array, Array, Array], *, shape: Sequence[int]) -> None:
        self.data, self.indices, self.indptr = map(jnp.asarray, args)
        self.shape = matrix_shape("CSC", shape)

    @property
    def nse(self) -> int:
        return self.data.size

    @classmethod
    def fromdense(cls, mat: Array, *, nse: int | None = None, index_dtype: Any = np.int32) -> CSC:
        """The transpose of the compressed rows of the transpose."""
        out = csr_fromdense(jnp.transpose(as_dense(mat)), nse=nse, index_dtype=index_dtype)
        return cls((out.data, out.indices, out.indptr), shape=out.shape[::-1])

    def to_bcoo(self) -> BCOO:
        """The same matrix in batched coordinates."""
        return self.transpose().to_bcoo().transpose()

    def todense(self) -> Array:
        return bcoo_todense(self.to_bcoo())

    def transpose(self, axes: Sequence[int] | None = None) -> CSR | CSC:
        return CSR((self.data, self.indices, self.indptr), shape=self.shape[::-1]) if turned("CSC", axes) else self

    def tree_flatten(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (self.data, self.indices, self.indptr), {"shape": self.shape}


register_matrix(CSR, ("data", "indices", "indptr"), ("shape",))
register_matrix(CSC, ("data", "indices", "indptr"), ("shape",))


def csr_fromdense(mat: Array, *, nse: int | None = None, index_dtype: Any = np.int32) -> CSR:
    """A dense matrix as compressed rows; nse as in `bcoo_fromdense`."""
    mat = as_dense(mat)
    matrix_shape("csr_fromdense", mat.shape)
    out = BCSR.fromdense(mat, nse=nse, index_dtype=index_dtype)
    return CSR((out.data, out.indices, out.indptr), shape=mat.shape)


def csr_todense(mat: CSR) -> Array:
    """The dense matrix."""
    return mat.todense()


def csr_matvec(mat: CSR, v: Array, transpose: bool = False) -> Array:
    """The product of a matrix, or its transpose, and a vector."""
    return matmul((mat.T if transpose else mat).to_bcoo(), as_dense(v))


def csr_matmat(mat: CSR, B: Array, *, transpose: bool = False) -> Array:
    """The product of a matrix, or its transpose, and a dense matrix."""
    return matmul((mat.T if transpose else mat).to_bcoo(), as_dense(B))
