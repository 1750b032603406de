"""Linear systems and inverses."""

from __future__ import annotations

import math

import numpy as np

from steno import lax
from steno.api import jit
from steno.lax import linalg
from steno.numpy.linalg.operands import operand, square_operand
from steno.numpy.manipulation import broadcast_to, expand_dims, moveaxis, reshape
from steno.numpy.operands import Array, ArrayLike, promoted_inexact, strong
from steno.ops import matrices as m
from steno.ops.linalg_solve import triangular


def lu_substitution(factors: Array, permutation: Array, b: Array, adjoint: int = 0) -> Array:
    """The solution of `a @ x == b` (or with the transpose, 1, or the adjoint, 2, of a) from a's LU decomposition. All operands have the
    same batch axes."""
    if not adjoint:
        y = triangular(factors, m.take_rows(b, permutation), left_side=True, lower=True, unit_diagonal=True)
        return triangular(factors, y, left_side=True, lower=False)
    how = {"left_side": True, "transpose_a": True, "conjugate_a": adjoint == 2}
    y = triangular(factors, b, lower=False, **how)
    y = triangular(factors, y, lower=True, unit_diagonal=True, **how)
    return m.take_rows(y, inverse_permutation(permutation))


def inverse_permutation(permutation: Array) -> Array:
    """Where each position went."""
    n = permutation.ndim - 1
    return lax.sort_key_val(permutation, lax.broadcasted_iota(permutation.dtype, permutation.shape, n), n)[1]


@jit
def solve_matrices(a: Array, b: Array) -> Array:
    """a: (batch, n, n), b: (batch, n, k), with the same batch axes. The factors are found once, for derivatives too."""
    factors, _, permutation = linalg.lu(lax.stop_gradient(a))
    return lax.custom_linear_solve(
        lambda x: m.matmul(a, x),
        b,
        lambda _, y: lu_substitution(factors, permutation, y),
        lambda _, y: lu_substitution(factors, permutation, y, 1),
    )


def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """The x with `a @ x == b` for square matrices a. b is one vector, or matrices; leading axes are broadcast. Not finite for singular a.

    ValueError if shapes do not fit.

    >>> jnp.linalg.solve(jnp.array([[2.0, 0.0], [0.0, 4.0]]), jnp.array([2.0, 4.0]))
    Array([1., 1.], dtype=float32)
    """
    x, y = (strong(v) for v in promoted_inexact("linalg.solve", a, b))
    if x.ndim < 2:
        raise ValueError(f"linalg.solve: the left hand array must have at least two axes, got shape {x.shape}")
    if y.ndim < 1 or x.shape[-1] != x.shape[-2] or y.shape[-1 if y.ndim == 1 else -2] != x.shape[-1]:
        hint = ""
        if x.ndim == y.ndim + 1 and y.ndim > 1:
            hint = ". For one vector for each matrix, use solve(a, b[..., None])[..., 0]."
        raise ValueError(f"linalg.solve: shapes do not fit, got {x.shape} and {y.shape}; wanted (..., n, n) and (n,) or (..., n, k){hint}")
    vector = y.ndim == 1
    if vector:
        y = expand_dims(y, -1)
    n = x.shape[-1]
    try:
        batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    except ValueError:
        raise ValueError(f"linalg.solve: leading axes must be equal or 1, got shapes {x.shape} and {y.shape}") from None
    if x.ndim == 2 and y.ndim > 2:  # one matrix: the right hand sides are columns side by side
        wide = moveaxis(y, -2, 0)
        out = moveaxis(reshape(solve_matrices(x, reshape(wide, (n, -1 if wide.size else 0))), wide.shape), 0, -2)
    else:
        out = solve_matrices(broadcast_to(x, (*batch, n, n)), broadcast_to(y, (*batch, *y.shape[-2:])))
    return lax.squeeze(out, (out.ndim - 1,)) if vector else out


def inv(a: ArrayLike) -> Array:
    """The inverses of square matrices; not finite for singular ones.

    >>> jnp.linalg.inv(jnp.array([[2.0, 0.0], [0.0, 4.0]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    return _inv(square_operand("inv", a))


@jit
def _inv(x: Array) -> Array:
    return solve_matrices(x, m.identity_like(x))


# tensors


def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """The inverse of a as a map from its last axes to its first `ind` ones: `tensordot(tensorinv(a, ind), a, ind)` is an identity."""
    x = operand("tensorinv", a)
    if ind <= 0:
        raise ValueError(f"linalg.tensorinv: ind must be a positive integer, got {ind}")
    first, last = x.shape[:ind], x.shape[ind:]
    if math.prod(first) != math.prod(last):
        raise ValueError(
            "tensorinv is only possible when the product of the first `ind` dimensions equals that of the remaining dimensions. "
            f"got a.shape={x.shape} with ind={ind}."
        )
    n = math.prod(first)
    return reshape(inv(reshape(x, (n, n))), (*last, *first))


def tensorsolve(a: ArrayLike, b: ArrayLike, axes: tuple[int, ...] | None = None) -> Array:
    """The x with `tensordot(a, x, x.ndim) == b`. `axes` of a are moved to its end first."""
    x, y = (strong(v) for v in promoted_inexact("linalg.tensorsolve", a, b))
    if axes is not None:
        x = moveaxis(x, axes, tuple(range(x.ndim - len(axes), x.ndim)))
        if x.shape[: y.ndim] != y.shape:
            raise ValueError(
                "linalg.tensorsolve: after moving axes to the end, the leading shape of a must match the shape of b, got a of shape "
                f"{x.shape} and b of shape {y.shape}"
            )
    first, last = x.shape[: y.ndim], x.shape[y.ndim :]
    if math.prod(first) != math.prod(last) or math.prod(first) != y.size:
        raise ValueError(
            "linalg.tensorsolve: expected prod(a.shape[:b.ndim]) == prod(a.shape[b.ndim:]), got a of shape "
            f"{x.shape} and b of shape {y.shape}"
        )
    n = y.size
    return reshape(solve(reshape(x, (n, n)), reshape(y, (n,))), last)
