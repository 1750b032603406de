"""Positive definite matrices."""

from __future__ import annotations

from steno.lax import linalg
from steno.numpy.linalg.operands import square_operand
from steno.numpy.operands import Array, ArrayLike
from steno.ops.matrices import adjoint


def cholesky(a: ArrayLike, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """The lower triangular L with `L @ L.conj().T == a`, or the upper one U with `U.conj().T @ U == a`; NaN where a is not Hermitian
    positive definite.

    symmetrize_input    take the mean of a and its adjoint; otherwise one triangle alone is read, the upper one for `upper`

    >>> jnp.linalg.cholesky(jnp.array([[4.0, 0.0], [0.0, 9.0]]))
    Array([[2., 0.],
           [0., 3.]], dtype=float32)
    """
    x = square_operand("cholesky", a)
    if upper and not symmetrize_input:
        x = adjoint(x)
    out = linalg.cholesky(x, symmetrize_input=symmetrize_input)
    return adjoint(out) if upper else out
