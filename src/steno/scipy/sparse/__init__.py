"""scipy.sparse: solvers of linear systems that are given by products. Sparse arrays are in `experimental.sparse`."""

from steno.scipy.sparse import linalg as linalg

__all__ = ["linalg"]
