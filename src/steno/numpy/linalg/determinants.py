"""Determinants."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from steno import lax
from steno.api import jit
from steno.core import dtypes
from steno.custom_derivatives import custom_jvp
from steno.lax import linalg, records as p
from steno.numpy import elementwise as e, reductions as r
from steno.numpy.linalg.operands import operand
from steno.numpy.linalg.systems import solve_matrices
from steno.numpy.manipulation import broadcast_to, expand_dims
from steno.numpy.operands import Array, ArrayLike
from steno.numpy.selection import where
from steno.ops import matrices as m
from steno.ops.linalg_factor import geqrf
from steno.ops.linalg_solve import triangular


class SlogdetResult(NamedTuple):
    """What `slogdet` gives."""

    sign: Array
    logabsdet: Array


def det(a: ArrayLike) -> Array:
    """The determinants of square matrices. Their derivatives hold for singular matrices too.

    >>> jnp.linalg.det(jnp.array([[2.0, 0.0], [0.0, 4.0]]))
    Array(8., dtype=float32)
    """
    x = operand("det", a)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(f"Argument to linalg.det must have shape [..., n, n], got {x.shape}")
    return (_det_by_formula if x.shape[-1] in (2, 3) else _det)(x)


@jit
def _det_by_formula(x: Array) -> Array:
    n = x.shape[-1]
    c = [[lax.index_in_dim(lax.index_in_dim(x, i, -2, False), j, -1, False) for j in range(n)] for i in range(n)]

    def minor(i: int, j: int) -> Array:
        return p.sub_p(p.mul_p(c[0][i], c[1][j]), p.mul_p(c[0][j], c[1][i]))

    if n == 2:
        return minor(0, 1)
    return p.add_p(p.sub_p(p.mul_p(minor(0, 1), c[2][2]), p.mul_p(minor(0, 2), c[2][1])), p.mul_p(minor(1, 2), c[2][0]))


@jit
@custom_jvp
def _det(x: Array) -> Array:
    factors, pivots, _ = linalg.lu(x)
    return p.mul_p(r.prod(m.diagonal(factors), -1), m.as_dtype_of(_parity(pivots), x))


@_det.__wrapped__.defjvp
def _det_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    (x,), (g,) = primals, tangents
    return det(x), r.sum(m.diagonal(_adjugate_times(x, g)), -1)


def _parity(pivots: Array) -> Array:
    """1 or -1 (int32): the determinant of the permutation that the exchanges amount to."""
    positions = lax.broadcasted_iota(pivots.dtype, pivots.shape, pivots.ndim - 1)
    exchanges = r.sum(e.not_equal(pivots, positions), -1, dtype=np.int32)
    return e.subtract(1, e.multiply(2, e.remainder(exchanges, 2)))


def _adjugate_times(x: Array, b: Array) -> Array:
    """adj(x) @ b, where adj(x) = det(x) inv(x) for regular x, and continuous: it is zero below rank n - 1.

    With x = P^T L U and U = [[U1, u], [0, w]], adj(U) = [[w adj(U1), -adj(U1) u], [0, det(U1)]], so that adj(U) y solves
    [[U1, u], [0, 1]] z = det(U1) [w y1, y2]. Of a matrix of rank n - 1 elimination with pivoting leaves w = 0 alone, but for rare cases."""
    factors, pivots, permutation = linalg.lu(x)
    n = x.shape[-1]
    diagonal = m.diagonal(factors)
    position = lax.broadcasted_iota(np.int32, diagonal.shape, diagonal.ndim - 1)
    last = e.equal(position, n - 1)
    one = lax.full_like(diagonal, 1)
    others = r.prod(lax.select(last, one, diagonal), -1)
    scale = p.mul_p(others, m.as_dtype_of(_parity(pivots), x))
    replaced = lax.select(e.logical_or(last, e.equal(diagonal, 0)), one, diagonal)
    upper = p.add_p(m.upper(factors, 1), p.mul_p(m.identity_like(factors), expand_dims(replaced, -1)))
    y = triangular(factors, m.take_rows(b, permutation), left_side=True, lower=True, unit_diagonal=True)
    weights = lax.select(last, one, broadcast_to(lax.index_in_dim(diagonal, n - 1, -1), diagonal.shape))
    y = m.scale_rows(y, p.mul_p(weights, broadcast_to(expand_dims(scale, -1), weights.shape)))
    return triangular(upper, y, left_side=True, lower=False)


def slogdet(a: ArrayLike, *, method: str | None = None) -> SlogdetResult:
    """(sign, log(abs(det(a)))) of square matrices; (0, -inf) for singular ones. The sign of a complex determinant is a number of modulus 1.

    method    "lu" (as None), or "qr", for real matrices"""
    x = operand("slogdet", a)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(f"Argument to linalg.slogdet must have shape [..., n, n], got {x.shape}")
    if method not in (None, "lu", "qr"):
        raise ValueError(f"Unknown slogdet method '{method}'. Supported methods are 'lu' (`None`), and 'qr'.")
    if method == "qr" and dtypes.is_complex(x.dtype):
        raise NotImplementedError("slogdet method='qr' not implemented for complex inputs")
    return SlogdetResult(*(_slogdet_qr if method == "qr" else _slogdet_lu)(x))


@jit
@custom_jvp
def _slogdet_lu(x: Array) -> tuple[Array, Array]:
    factors, pivots, _ = linalg.lu(x)
    d = m.diagonal(factors)
    return _sign_and_log(d, m.as_dtype_of(_parity(pivots), x))


@jit
@custom_jvp
def _slogdet_qr(x: Array) -> tuple[Array, Array]:
    factors, taus = geqrf(x)
    reflections = r.prod(where(e.equal(taus, 0), 1, -1), -1, dtype=np.int32)
    return _sign_and_log(m.diagonal(factors), m.as_dtype_of(reflections, x))


def _sign_and_log(factors: Array, sign: Array) -> tuple[Array, Array]:
    """Of the product of the factors along the last axis, and of `sign`."""
    return p.mul_p(sign, r.prod(p.sign_p(factors), -1)), r.sum(p.log_p(p.abs_p(factors), accuracy=None), -1)


def _slogdet_jvp(primals: Any, tangents: Any) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    (x,), (g,) = primals, tangents
    sign, size = _slogdet_lu(x)
    change = r.sum(m.diagonal(solve_matrices(x, g)), -1)
    if not dtypes.is_complex(x.dtype):
        return (sign, size), (lax.full_like(sign, 0), change)
    turn = p.complex_p(lax.full_like(size, 0), p.imag_p(change))
    return (sign, size), (p.mul_p(turn, sign), p.real_p(change))


_slogdet_lu.__wrapped__.defjvp(_slogdet_jvp)
_slogdet_qr.__wrapped__.defjvp(_slogdet_jvp)
