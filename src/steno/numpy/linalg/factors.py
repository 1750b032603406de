"""Decompositions of numpy.linalg that give several matrices."""

from __future__ import annotations

from typing import NamedTuple

from steno import lax
from steno.lax import linalg, records as p
from steno.numpy import elementwise as e
from steno.numpy.linalg.operands import operand, square_operand
from steno.numpy.manipulation import flip
from steno.numpy.operands import Array, ArrayLike
from steno.numpy.selection import where
from steno.numpy.sorting import argsort
from steno.numpy.taking import take_along_axis
from steno.ops.linalg_factor import geqrf
from steno.ops.matrices import adjoint, transposed


class EigResult(NamedTuple):
    """What `eig` gives."""

    eigenvalues: Array
    eigenvectors: Array


class EighResult(NamedTuple):
    """What `eigh` gives."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """What `qr` gives."""

    Q: Array
    R: Array


class SVDResult(NamedTuple):
    """What `svd` gives."""

    U: Array
    S: Array
    Vh: Array


def _triangle(name: str | None) -> bool:
    if name is not None and name not in ("L", "U"):
        raise ValueError(f"UPLO must be one of None, 'L', or 'U', got {name}")
    return name != "U"


def qr(a: ArrayLike, mode: str = "reduced") -> Array | QRResult:
    """(Q, R) with `a == Q @ R`: orthonormal columns, and an upper triangle.

    mode    "reduced": as few columns as will do; "complete": a square Q; "r": R alone; "raw": (reflections, taus) as LAPACK keeps them,
            transposed"""
    x = operand("qr", a)
    if mode == "raw":
        factors, taus = geqrf(x)
        return QRResult(transposed(factors), taus)
    if mode not in ("reduced", "r", "full", "complete"):
        raise ValueError(f"Unsupported QR decomposition mode '{mode}'")
    q, r = linalg.qr(x, full_matrices=mode == "complete")  # type: ignore[misc]
    return r if mode == "r" else QRResult(q, r)


def eig(a: ArrayLike) -> EigResult:
    """(eigenvalues, eigenvectors in columns of length 1) of square matrices, both complex."""
    w, v = linalg.eig(operand("eig", a), compute_left_eigenvectors=False)
    return EigResult(w, v)


def eigvals(a: ArrayLike) -> Array:
    """The eigenvalues of square matrices, complex."""
    return linalg.eig(operand("eigvals", a), compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]


def eigh(a: ArrayLike, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """(real eigenvalues ascending, eigenvectors in columns) of Hermitian matrices.

    UPLO                which triangle is read, "L" (as None) or "U", if not both are
    symmetrize_input    take the mean of a and its adjoint"""
    lower = _triangle(UPLO)
    v, w = linalg.eigh(square_operand("eigh", a), lower=lower, symmetrize_input=symmetrize_input)
    return EighResult(w, v)


def eigvalsh(a: ArrayLike, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Array:
    """The real eigenvalues of Hermitian matrices, ascending. Parameters as of `eigh`."""
    return eigh(a, UPLO, symmetrize_input).eigenvalues


def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Array | SVDResult:
    """(U, S, Vh) with `a == U * S @ Vh`, the real singular values descending; S alone without `compute_uv`.

    full_matrices    U and Vh are square
    hermitian        a is, so that its eigenvalues do"""
    if not hermitian:
        out = linalg.svd(operand("svd", a), full_matrices=full_matrices, compute_uv=compute_uv, subset_by_index=subset_by_index)
        return SVDResult(*out) if compute_uv else out
    if subset_by_index is not None:
        raise NotImplementedError("linalg.svd: subset_by_index is not implemented together with hermitian")
    v, w = linalg.eigh(square_operand("svd", a), symmetrize_input=True)
    size = p.abs_p(w)
    order = flip(argsort(size, -1), -1)
    s = take_along_axis(size, order, -1)
    if not compute_uv:
        return s
    u = take_along_axis(v, lax.expand_dims(order, (order.ndim - 1,)), -1)
    signs = where(e.less(take_along_axis(w, order, -1), 0), -1, 1)
    signed = e.multiply(u, lax.convert_element_type(lax.expand_dims(signs, (signs.ndim - 1,)), u.dtype))
    return SVDResult(u, s, adjoint(signed))


def svdvals(x: ArrayLike, /) -> Array:
    """The singular values of matrices, descending."""
    return linalg.svd(operand("svdvals", x), compute_uv=False)
