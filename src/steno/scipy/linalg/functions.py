"""Functions of matrices, and Sylvester's equation."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from steno import lax
from steno.api import jit
from steno.core import dtypes
from steno.derivatives import jvp
from steno.lax import linalg as ll
from steno.mapping import vmap
from steno.numpy import elementwise as e, linalg, reductions as r
from steno.numpy.linalg.operands import operand
from steno.numpy.manipulation import broadcast_to, expand_dims
from steno.numpy.operands import Array, ArrayLike, promoted_inexact, strong
from steno.numpy.selection import where
from steno.ops import matrices as m
from steno.ops.families import number

# Coefficients of the diagonal Pade approximants of exp, and the norms up to which they are as precise as the dtype: N. J. Higham, The
# scaling and squaring method for the matrix exponential revisited, 2005.
_PADE = {
    7: (17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0),
    13: (
        64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0, 10559470521600.0,
        670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
    ),
}  # fmt: skip
_DEGREE = {dtypes.float32: (7, 3.925724783138660), dtypes.float64: (13, 5.371920351148152)}


def expm(A: ArrayLike, *, upper_triangular: bool = False, max_squarings: int = 16) -> Array:
    """The exponentials of square matrices, by scaling, a Pade approximant and squaring (Higham, 2005). NaN where more than `max_squarings`
    squarings are needed. `upper_triangular`: A is."""
    x = operand("expm", A)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(f"Expected A to be a (batched) square matrix, got A.shape={x.shape}.")
    if x.dtype not in m.LAPACK:
        raise TypeError(f"expm: A.dtype={x.dtype} is not supported.")
    return _expm(x, bool(upper_triangular), int(max_squarings)) if x.size else x


def _expm_of(x: Array, triangular: bool, max_squarings: int) -> Array:
    degree, bound = _DEGREE[m.real_part(x).dtype]
    size = r.amax(r.sum(e.abs(x), -2), -1)
    power = e.ceil(e.log2(e.divide(lax.stop_gradient(size), bound)))
    squarings = e.maximum(0.0, where(e.isfinite(power), power, 0.0))
    scale = e.exp2(e.negative(squarings))
    x = e.multiply(x, m.as_dtype_of(expand_dims(scale, (-2, -1)), x))
    odd, even = _pade(x, _PADE[degree])
    above, below = e.add(even, odd), e.subtract(even, odd)
    out = ll.triangular_solve(below, above, left_side=True) if triangular else linalg.solve(below, above)

    def square(out: Array, k: Array) -> tuple[Array, None]:
        wanted = e.less(lax.convert_element_type(k, squarings.dtype), squarings)
        product = lax.cond(r.any(wanted), lambda y: m.matmul(y, y), lambda y: y, out)
        return where(expand_dims(wanted, (-2, -1)), product, out), None

    out, _ = lax.scan(square, out, np.arange(max_squarings, dtype=np.int32))
    return where(expand_dims(e.greater(squarings, float(max_squarings)), (-2, -1)), np.nan, out)


_expm = jit(_expm_of, static_argnums=(1, 2))


def _pade(x: Array, c: tuple[float, ...]) -> tuple[Array, Array]:
    """The odd and the even part of the polynomial with these coefficients, the lowest power first, of degree 7 or 13."""
    unit = m.identity_like(x)
    powers = [unit]
    x2 = m.matmul(x, x)
    while len(powers) < 4:
        powers.append(m.matmul(powers[-1], x2) if len(powers) > 1 else x2)

    def polynomial(coefficients: Any) -> Array:
        out = None
        for f, y in zip(coefficients, powers, strict=False):
            term = e.multiply(y, number(y, f))
            out = term if out is None else e.add(out, term)
        return out

    if len(c) == 8:
        return m.matmul(x, polynomial(c[1::2])), polynomial(c[0::2])

    def long(first: int) -> Array:
        """c[first] + c[first + 2] x^2 + ... + c[first + 12] x^12, as a polynomial of degree 3 in x^2 and x^6 times another."""
        high = polynomial((0, *c[first + 8 :: 2]))
        return e.add(m.matmul(powers[3], high), polynomial(c[first : first + 8 : 2]))

    return m.matmul(x, long(1)), long(0)


def expm_frechet(A: ArrayLike, E: ArrayLike, *, method: str | None = None, compute_expm: bool = True) -> Array | tuple[Array, Array]:
    """(expm(A), its derivative in the direction E), or the derivative alone. `method` has no effect."""
    x, g = (strong(v) for v in promoted_inexact("expm_frechet", A, E))
    for name, y in (("A", x), ("E", g)):
        if y.ndim < 2 or y.shape[-1] != y.shape[-2]:
            raise ValueError(f"expected {name} to be a (batched) square matrix, got {name}.shape={y.shape}")
    if x.shape != g.shape:
        raise ValueError(f"expected A and E to be the same shape, got A.shape={x.shape} and E.shape={g.shape}")
    value, change = jvp(expm, (x,), (g,))
    return (value, change) if compute_expm else change


# by Schur's decomposition


def _by_columns(t: Array, diagonal: Array, system: Callable[[Array, Array], tuple[Array, Array]]) -> Array:
    """The upper triangular F with this diagonal, column after column: what stands above the diagonal in column j solves the triangular
    system `system(F, j) = (matrix, right-hand side)`, of which rows before j count; F has the columns before j."""
    n = t.shape[0]
    rows = np.arange(n, dtype=np.int32)

    def column(j: Array, f: Array) -> Array:
        matrix, rhs = system(f, j)
        inside = e.less(rows, j)
        pivots = m.diagonal(matrix)
        safe = where(e.logical_and(inside, e.not_equal(pivots, 0)), pivots, 1)
        matrix = e.add(m.upper(matrix, 1), m.scale_columns(m.identity_like(matrix), safe))
        solution = ll.triangular_solve(matrix, expand_dims(where(inside, rhs, 0), -1), left_side=True)
        return e.add(f, m.matmul(solution, expand_dims(lax.convert_element_type(e.equal(rows, j), f.dtype), 0)))

    start = m.scale_columns(m.identity_like(t), diagonal)
    return lax.fori_loop(np.int32(1), np.int32(n), column, start) if n > 1 else start


def _column(t: Array, j: Array) -> Array:
    return lax.dynamic_index_in_dim(t, j, 1, keepdims=False)


def _complex_schur(fun: str, x: Array) -> tuple[Array, Array]:
    t, z = ll.schur(lax.convert_element_type(x, m.complex_dtype(x.dtype)))
    return t, z


def _square_matrix(fun: str, A: ArrayLike) -> Array:
    x = operand(fun, A)
    if x.ndim != 2 or x.shape[0] != x.shape[1]:
        raise ValueError(f"{fun}: expected square_array_like input, got shape {x.shape}")
    return x


def sqrtm(A: ArrayLike, blocksize: int = 1) -> Array:
    """The principal square root of a square matrix, complex, by Schur's decomposition (Bjorck and Hammarling, A Schur method for the square
    root of a matrix, 1983). NotImplementedError for a blocksize above 1."""
    if blocksize > 1:
        raise NotImplementedError("Blocked version is not implemented yet.")
    x = _square_matrix("sqrtm", A)
    return _sqrtm(x) if x.size else _complex_schur("sqrtm", x)[0]


@jit
def _sqrtm(x: Array) -> Array:
    t, z = _complex_schur("sqrtm", x)
    roots = e.sqrt(m.diagonal(t))

    def system(f: Array, j: Array) -> tuple[Array, Array]:
        """(F + f[j, j]) F[:, j] = T[:, j]"""
        own = lax.dynamic_index_in_dim(roots, j, 0, keepdims=False)
        return e.add(f, e.multiply(m.identity_like(f), own)), _column(t, j)

    return m.matmul(m.matmul(z, _by_columns(t, roots, system)), m.adjoint(z))


def funm(A: ArrayLike, func: Callable[[Array], Array], disp: bool = True) -> Array | tuple[Array, Array]:
    """func, which is given a vector, of a square matrix, complex, by Schur's decomposition and Parlett's recurrence: precise if eigenvalues
    are well apart. Without `disp`: (func(A), an estimate of the relative error)."""
    x = _square_matrix("funm", A)
    t, z = _complex_schur("funm", x)
    values = func(m.diagonal(t))
    values = lax.convert_element_type(values, t.dtype)

    def system(f: Array, j: Array) -> tuple[Array, Array]:
        """(T - t[j, j]) F[:, j] = F T[:, j] - f[j, j] T[:, j], over the rows before j"""
        own, here = (lax.dynamic_index_in_dim(v, j, 0, keepdims=False) for v in (m.diagonal(t), values))
        column = where(e.less(np.arange(t.shape[0], dtype=np.int32), j), _column(t, j), 0)
        rhs = e.subtract(lax.squeeze(m.matmul(f, expand_dims(column, -1)), (1,)), e.multiply(here, column))
        return e.subtract(t, e.multiply(m.identity_like(t), own)), rhs

    f = _by_columns(t, values, system) if x.size else t
    out = m.matmul(m.matmul(z, f), m.adjoint(z))
    if disp:
        return out
    tolerance = float(dtypes.finfo(t.dtype).eps)
    eigenvalues = m.diagonal(t)
    gaps = e.abs(e.subtract(expand_dims(eigenvalues, 0), expand_dims(eigenvalues, 1)))
    least = r.amin(where(np.triu(np.ones(t.shape, bool), 1), gaps, 1.0), initial=1.0)
    least = where(e.equal(least, 0), tolerance, least)
    size = r.amax(r.sum(e.abs(m.upper(t, 1)), 0), initial=0)
    error = e.minimum(1.0, e.maximum(tolerance, e.multiply(e.divide(tolerance, least), size)))
    return out, where(r.all(e.isfinite(out)), error, np.inf)


def solve_sylvester(A: ArrayLike, B: ArrayLike, C: ArrayLike, *, method: str = "schur", tol: float = 1e-8) -> Array:
    """The X with `A @ X + X @ B == C`. NaN where an eigenvalue of A and one of -B are nearer than `tol`.

    method    "schur" (Bartels and Stewart, 1972), or "eigen", for matrices that can be diagonalized"""
    a, b, c = (strong(v) for v in promoted_inexact("solve_sylvester", A, B, C))
    shapes = f"got A {a.shape}, B {b.shape}, C {c.shape}; wanted (..., m, m), (..., n, n), (..., m, n)"
    if min(a.ndim, b.ndim, c.ndim) < 2 or a.shape[-2:] != (c.shape[-2],) * 2 or b.shape[-2:] != (c.shape[-1],) * 2:
        raise ValueError(f"Incompatible shapes for Sylvester equation: {shapes}")
    if method not in ("schur", "eigen"):
        raise ValueError(f'Unrecognized method {method}. The two valid methods are either "schur" or "eigen".')
    try:
        batch = np.broadcast_shapes(*(x.shape[:-2] for x in (a, b, c)))
    except ValueError:
        raise ValueError(f"Incompatible shapes for Sylvester equation: {shapes}") from None
    if not c.size:
        return c
    solve = functools.partial(_sylvester, method=method, tol=tol)
    if not batch:
        return solve(a, b, c)
    a, b, c = (broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b, c))
    for _ in batch:
        solve = vmap(solve)
    return solve(a, b, c)


@functools.partial(jit, static_argnames=("method", "tol"))
def _sylvester(a: Array, b: Array, c: Array, *, method: str, tol: float) -> Array:
    given = m.complex_dtype(c.dtype)
    rhs = lax.convert_element_type(c, given)
    if method == "eigen":
        (wa, va), (wb, vb) = linalg.eig(a), linalg.eig(b)
        sums = e.add(expand_dims(wa, 1), expand_dims(wb, 0))
        y = e.divide(m.matmul(linalg.solve(va, rhs), vb), sums)
        out = m.transposed(linalg.solve(m.transposed(vb), m.transposed(m.matmul(va, y))))
    else:
        (ta, za), (tb, zb) = _complex_schur("solve_sylvester", a), _complex_schur("solve_sylvester", b)
        sums = e.add(expand_dims(m.diagonal(ta), 1), expand_dims(m.diagonal(tb), 0))
        f = m.matmul(m.matmul(m.adjoint(za), rhs), zb)

        def column(j: Array, y: Array) -> Array:
            """(Ta + tb[j, j]) Y[:, j] = F[:, j] - Y Tb[:, j], over the columns before j"""
            above = where(e.less(np.arange(tb.shape[0], dtype=np.int32), j), _column(tb, j), 0)
            own = lax.dynamic_index_in_dim(m.diagonal(tb), j, 0, keepdims=False)
            rest = e.subtract(expand_dims(_column(f, j), 1), m.matmul(y, expand_dims(above, 1)))
            solved = ll.triangular_solve(e.add(ta, e.multiply(m.identity_like(ta), own)), rest, left_side=True)
            return lax.dynamic_update_slice_in_dim(y, solved, j, 1)

        y = lax.fori_loop(np.int32(0), np.int32(tb.shape[0]), column, lax.full_like(f, 0))
        out = m.matmul(m.matmul(za, y), m.adjoint(zb))
    out = out if dtypes.is_complex(c.dtype) else e.real(out)
    return where(e.less(r.amin(e.abs(sums)), tol), np.nan, out)
