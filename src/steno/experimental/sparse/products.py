"""Products of sparse arrays in batched coordinates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from steno import lax, numpy as jnp
from steno.experimental.sparse.bcoo import (
    BCOO,
    bcoo_extract,
    bcoo_sum_duplicates,
    bcoo_update_layout,
    elements,
    made,
    padded,
    scattered,
    selected,
    whole_batch,
    within,
)
from steno.experimental.sparse.util import JAXSparse, as_dense, over_batch
from steno.mapping import vmap

Array = Any
Dims = tuple[int, ...]


def _numbers(name: str, lhs: Any, rhs: Any, dimension_numbers: Any) -> tuple[Dims, Dims, Dims, Dims]:
    """(lhs contracting, rhs contracting, lhs batch, rhs batch) axes. TypeError for those that do not fit."""
    (lc, rc), (lb, rb) = (tuple(tuple(int(d) for d in dims) for dims in pair) for pair in dimension_numbers)
    for what, one, two in (("contracting", lc, rc), ("batch", lb, rb)):
        if [lhs.shape[d] for d in one] != [rhs.shape[d] for d in two]:
            raise TypeError(f"{name}: {what} axes {one} of {lhs.shape} and {two} of {rhs.shape} must have the same sizes")
    return lc, rc, lb, rb


def _others(ndim: int, *taken: Dims) -> list[int]:
    return [d for d in range(ndim) if not any(d in t for t in taken)]


def bcoo_dot_general(
    lhs: Any, rhs: Any, *, dimension_numbers: Any, precision: Any = None, preferred_element_type: Any = None, out_sharding: Any = None
) -> Any:  # fmt: skip
    """`lax.dot_general` of a sparse and a dense array, which is dense, or of two sparse arrays, which is sparse. Batch axes of the product
    must be batch axes of sparse arrays, and dense axes cannot be contracted (NotImplementedError)."""
    if out_sharding is not None:
        raise NotImplementedError("bcoo_dot_general: out_sharding is not supported")
    if isinstance(lhs, BCOO) and isinstance(rhs, BCOO):
        out = _sparse_product(lhs, rhs, _numbers("bcoo_dot_general", lhs, rhs, dimension_numbers))
        return out if preferred_element_type is None else out.astype(preferred_element_type)
    if isinstance(lhs, BCOO):
        out = _dense_product(lhs, as_dense(rhs), _numbers("bcoo_dot_general", lhs, rhs, dimension_numbers))
    elif isinstance(rhs, BCOO):
        lhs = as_dense(lhs)
        lc, rc, lb, rb = _numbers("bcoo_dot_general", lhs, rhs, dimension_numbers)
        out = _dense_product(rhs, lhs, (rc, lc, rb, lb))
        b, r = len(lb), rhs.ndim - len(rb) - len(rc)
        out = jnp.transpose(out, [*range(b), *range(b + r, out.ndim), *range(b, b + r)])
    else:
        return lax.dot_general(lhs, rhs, dimension_numbers, precision=precision, preferred_element_type=preferred_element_type)
    return out if preferred_element_type is None else out.astype(preferred_element_type)


def _dense_product(lhs: BCOO, rhs: Array, numbers: tuple[Dims, Dims, Dims, Dims]) -> Array:
    """Each stored element times the row of rhs that it meets, added up where it belongs."""
    lc, rc, lb, rb = numbers
    b, d = lhs.n_batch, lhs.n_batch + lhs.n_sparse
    if any(k >= b for k in lb):
        raise NotImplementedError(f"bcoo_dot_general: batch axes {lb} of the product must be batch axes of {lhs!r}")
    if any(k >= d for k in lc):
        raise NotImplementedError(f"bcoo_dot_general: contracting axes {lc} are dense axes of {lhs!r}")
    partner = {**dict(zip(lb, rb, strict=True)), **dict(zip(lc, rc, strict=True))}
    data, indices = whole_batch(lhs)
    dtype = jnp.result_type(data, rhs)
    contracted = [k - b for k in lc if k >= b]
    kept = [k for k in range(lhs.n_sparse) if k not in contracted]
    rest = _others(rhs.ndim, rc, rb)
    paired = [k for k in range(b) if k in partner]
    r = jnp.transpose(rhs, [*(partner[k] for k in paired), *(partner[b + k] for k in contracted), *rest]).astype(dtype)
    sizes = tuple(lhs.sizes[k] for k in kept)

    def one(data: Array, indices: Array, r: Array) -> Array:
        met = elements(r, selected(indices, contracted)) if contracted else r[None]
        if contracted and not kept and data.ndim == 1:  # a row times a matrix
            return jnp.tensordot(jnp.where(within(indices, lhs.sizes), data, 0), met, 1, precision="highest")
        wide = data.reshape(data.shape + (1,) * len(rest)) * met.reshape(met.shape[:1] + (1,) * (data.ndim - 1) + met.shape[1:])
        if not kept:
            wide = jnp.where(within(indices, lhs.sizes).reshape(-1, *(1,) * (wide.ndim - 1)), wide, 0) if lhs.n_sparse else wide
        return scattered(wide, selected(indices, kept), sizes)

    f: Callable[..., Array] = one
    for k in reversed(range(b)):
        f = vmap(f, in_axes=(0, 0, 0 if k in partner else None))
    out = f(data.astype(dtype), indices, r)  # (*batch axes, *kept sparse axes, *dense axes, *rest)
    summed = tuple(k for k in range(b) if k in lc)
    if summed:
        out = out.sum(summed, dtype=dtype)
    left = [k for k in range(b) if k not in summed]
    front = [left.index(k) for k in lb]
    return jnp.transpose(out, [*front, *(k for k in range(out.ndim) if k not in front)])


def _pairs(f: Callable[[Array, Array], Array], x: Array, y: Array) -> Array:
    """f of each of the n rows of x and each of the m of y: (n m, ...)."""
    out = f(x[:, None], y[None, :])
    return out.reshape(out.shape[0] * out.shape[1], *out.shape[2:])


def _sparse_product(lhs: BCOO, rhs: BCOO, numbers: tuple[Dims, Dims, Dims, Dims]) -> BCOO:
    """Every pair of stored elements, those that do not meet as padding; elements at one position are added up."""
    lc, rc, lb, rb = numbers
    if lhs.n_dense or rhs.n_dense:
        raise NotImplementedError(f"bcoo_dot_general: products of {lhs!r} and {rhs!r}, which have dense axes")
    if any(k >= x.n_batch for x, dims in ((lhs, lb), (rhs, rb)) for k in dims):
        raise NotImplementedError("bcoo_dot_general: batch axes of the product must be batch axes of both arrays")
    left, right = _with_batch(lhs, lb), _with_batch(rhs, rb)
    # after that the axes are in order: batch, then the others, all of which are sparse
    where = [{k: i for i, k in enumerate(_others(x.ndim, dims))} for x, dims in ((lhs, lb), (rhs, rb))]
    lk, rk = [where[0][k] for k in lc], [where[1][k] for k in rc]
    lf, rf = ([i for i in range(x.n_sparse) if i not in k] for x, k in ((left, lk), (right, rk)))
    sizes = (*(left.sizes[i] for i in lf), *(right.sizes[i] for i in rf))
    dtype = jnp.result_type(lhs.data, rhs.data)

    def one(x: Array, i: Array, y: Array, j: Array) -> tuple[Array, Array]:
        meet = _pairs(lambda a, b: (a == b).all(-1), selected(i, lk), selected(j, rk))
        meet &= _pairs(lambda a, b: a & b, within(i, left.sizes), within(j, right.sizes))
        data = jnp.where(meet, _pairs(lambda a, b: a * b, x.astype(dtype), y.astype(dtype)), 0)
        free = [selected(i, lf), selected(j, rf).astype(i.dtype)]
        n, m = x.shape[0], y.shape[0]
        wide = [jnp.repeat(free[0], m, axis=0), jnp.tile(free[1], (n, 1))]
        return data, padded(jnp.concatenate(wide, -1), ~meet, sizes)

    shape = (*left.shape[: left.n_batch], *sizes)
    out = made(*over_batch(one, left.n_batch)(*whole_batch(left), *whole_batch(right)), shape)
    count = 1
    for n in sizes:
        count *= n
    return bcoo_sum_duplicates(out, nse=min(out.nse, count))


def _with_batch(mat: BCOO, dims: Dims) -> BCOO:
    """The batch axes `dims` first and in this order; other batch axes become sparse."""
    others = [k for k in range(mat.n_batch) if k not in dims]
    order = [*dims, *others]
    data, indices = (jnp.transpose(x, [*order, *range(mat.n_batch, x.ndim)]) for x in whole_batch(mat))
    shape = [mat.shape[k] for k in [*order, *range(mat.n_batch, mat.ndim)]]
    return bcoo_update_layout(made(data, indices, shape, unique_indices=mat.unique_indices), n_batch=len(dims))


def bcoo_dot_general_sampled(A: Array, B: Array, indices: Array, *, dimension_numbers: Any) -> Array:
    """The elements of the product of two dense arrays at positions (*batch, nse, n_sparse): (*batch, nse, *dense). Where all axes of a
    product of matrices are sparse, only these elements are computed."""
    A, B, indices = as_dense(A), as_dense(B), jnp.asarray(indices)
    lc, rc, lb, rb = _numbers("bcoo_dot_general_sampled", A, B, dimension_numbers)
    af, bf = _others(A.ndim, lc, lb), _others(B.ndim, rc, rb)
    n_batch = indices.ndim - 2
    if n_batch == len(lb) and indices.shape[-1] == len(af) + len(bf) and af and bf:
        a, b = jnp.transpose(A, [*lb, *af, *lc]), jnp.transpose(B, [*rb, *bf, *rc])

        def one(a: Array, b: Array, at: Array) -> Array:
            x, y = elements(a, at[:, : len(af)]), elements(b, at[:, len(af) :])
            return (x * y).sum(tuple(range(1, x.ndim)), dtype=jnp.result_type(a, b))

        return over_batch(one, n_batch)(a, b, jnp.broadcast_to(indices, (*a.shape[:n_batch], *indices.shape[-2:])))
    product = lax.dot_general(A, B, dimension_numbers)
    nse, n_sparse = indices.shape[-2:]
    dense = product.shape[n_batch + n_sparse :]
    like = made(jnp.zeros((*(1,) * n_batch, nse, *dense), product.dtype), indices, product.shape)
    return bcoo_extract(like, product, assume_unique=True).data


def bcoo_multiply_dense(sp_mat: BCOO, v: Array) -> Array:
    """The stored elements of sp_mat times the elements of a dense array that they meet; v is broadcast."""
    v = jnp.asarray(v)
    dtype = jnp.result_type(sp_mat.data, v)
    if v.ndim == 0:
        return sp_mat.data.astype(dtype) * v.astype(dtype)
    if v.ndim > sp_mat.ndim:
        raise NotImplementedError(f"bcoo_multiply_dense: a dense array of shape {v.shape} has more axes than {sp_mat!r}")
    met = bcoo_extract(sp_mat, jnp.broadcast_to(v, sp_mat.shape), assume_unique=True).data
    return sp_mat.data.astype(dtype) * met.astype(dtype)


def bcoo_multiply_sparse(lhs: BCOO, rhs: BCOO) -> BCOO:
    """The elementwise product of sparse arrays of one shape: every pair of stored elements, those that do not meet as padding."""
    if lhs.shape != rhs.shape or lhs.n_dense != rhs.n_dense:
        raise NotImplementedError(f"bcoo_multiply_sparse: products of {lhs!r} and {rhs!r}")
    n_batch = min(lhs.n_batch, rhs.n_batch)
    left, right = (bcoo_update_layout(x, n_batch=n_batch) for x in (lhs, rhs))
    dtype = jnp.result_type(lhs.data, rhs.data)

    def one(x: Array, i: Array, y: Array, j: Array) -> tuple[Array, Array]:
        meet = _pairs(lambda a, b: (a == b).all(-1), i, j) & _pairs(lambda a, b: a & b, within(i, left.sizes), within(j, left.sizes))
        data = _pairs(lambda a, b: a * b, x.astype(dtype), y.astype(dtype))
        data = jnp.where(meet.reshape(meet.shape + (1,) * (data.ndim - 1)), data, 0)
        return data, padded(jnp.repeat(i, y.shape[0], axis=0), ~meet, left.sizes)

    data, indices = over_batch(one, n_batch)(*whole_batch(left), *whole_batch(right))
    return made(data, indices, lhs.shape, unique_indices=left.unique_indices and right.unique_indices)


def matmul(lhs: Any, rhs: Any) -> Any:
    """`@` where one side, or both, are in batched coordinates."""
    lhs, rhs = (x if isinstance(x, JAXSparse) else jnp.asarray(x) for x in (lhs, rhs))
    if lhs.ndim == 0 or rhs.ndim == 0:
        raise ValueError(f"matmul: arrays must have an axis, got shapes {lhs.shape} and {rhs.shape}")
    if not (lhs.ndim <= 2 or rhs.ndim <= 2 or lhs.shape[:-2] == rhs.shape[:-2]):
        raise NotImplementedError(f"matmul: batch axes of shapes {lhs.shape} and {rhs.shape} are not broadcast")
    axis = max(rhs.ndim - 2, 0)
    if lhs.ndim > 2 and rhs.ndim > 2:
        batch = tuple(range(lhs.ndim - 2))
        return bcoo_dot_general(lhs, rhs, dimension_numbers=(((lhs.ndim - 1,), (axis,)), (batch, batch)))
    out = bcoo_dot_general(lhs, rhs, dimension_numbers=(((lhs.ndim - 1,), (axis,)), ((), ())))
    if lhs.ndim == 2 and rhs.ndim > 2:  # (rows, batch, columns) --> (batch, rows, columns)
        order: Sequence[int] = [*range(1, rhs.ndim - 1), 0, rhs.ndim - 1]
        return jnp.transpose(out, order) if not isinstance(out, BCOO) else out.transpose(order)
    return out
