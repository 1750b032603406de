"""associative_scan: all partial folds of a sequence by an associative function, in logarithmic depth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from steno.core.aval import typed_scalar
from steno.core.boundary import boundary
from steno.core.sizes import UnknownSize
from steno.lax.control_flow.bodies import check_callable
from steno.lax.operands import as_array, canonical_axis
from steno.lax.shape import concatenate, pad, reshape, rev, slice_in_dim, stack
from steno.tree_util import tree_flatten, tree_unflatten

Arrays = list[Any]


@boundary
def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """Row k of the result is `fn(... fn(fn(x0, x1), x2) ..., xk)` for the rows x of `elems` along `axis`; of the rows from the last down to
    k with `reverse`.

    fn       an associative function of two pytrees of the structure of `elems`, of many rows at once: it works row by row along `axis`
    elems    a pytree of arrays whose sizes along `axis` are equal

    fn is called about 2 log2(n) times on n rows altogether, not in sequence (Blelloch, Prefix sums and their applications, 1990).
    ValueError for sizes that differ.

    >>> lax.associative_scan(jnp.add, jnp.arange(4))
    Array([0, 1, 3, 6], dtype=int32)
    """
    check_callable("associative_scan", "fn argument", fn)
    leaves, tree = tree_flatten(elems)
    arrays = [as_array("associative_scan", x) for x in leaves]
    if not arrays:
        return elems
    axis = canonical_axis(axis, arrays[0].ndim)
    if any(x.shape[canonical_axis(axis, x.ndim)] != arrays[0].shape[axis] for x in arrays):
        raise ValueError(f"Array inputs to associative_scan must have the same first dimension. (saw: {[x.shape for x in arrays]})")

    def combine(a: Arrays, b: Arrays) -> Arrays:
        out, out_tree = tree_flatten(fn(tree_unflatten(tree, a), tree_unflatten(tree, b)))
        if out_tree != tree:
            raise ValueError(f"associative_scan: fn must return the structure it gets, {tree}, but it returned {out_tree}")
        return [as_array("associative_scan", y) for y in out]

    if reverse:
        arrays = [rev(x, [axis]) for x in arrays]
    out = _folds(combine, arrays, axis)
    return tree_unflatten(tree, [rev(x, [axis]) for x in out] if reverse else out)


def _folds(combine: Callable[[Arrays, Arrays], Arrays], xs: Arrays, axis: int) -> Arrays:
    """Neighbours are combined, which leaves half as many rows to fold: their folds are those at odd positions, and one more row to each
    gives those at even ones."""
    n = xs[0].shape[axis]
    if isinstance(n, UnknownSize):
        raise NotImplementedError(f"associative_scan: how often rows are folded depends on their number, which must be known, got {n}")
    if n < 2:
        return xs
    odd = _folds(combine, combine(_every_other(xs, 0, n - 1, axis), _every_other(xs, 1, n, axis)), axis)
    first = [slice_in_dim(x, 0, 1, axis=axis) for x in xs]
    if n == 2:
        even = first
    else:
        before = odd if n % 2 else [slice_in_dim(y, 0, n // 2 - 1, axis=axis) for y in odd]
        rest = combine(before, _every_other(xs, 2, n, axis))
        even = [concatenate([a, b], axis) for a, b in zip(first, rest, strict=True)]
    return [_interleaved(a, b, axis) for a, b in zip(even, odd, strict=True)]


def _every_other(xs: Arrays, begin: int, end: int, axis: int) -> Arrays:
    return [slice_in_dim(x, begin, end, 2, axis=axis) for x in xs]


def _interleaved(even: Any, odd: Any, axis: int) -> Any:
    """Rows of the two by turns; `even` may have one more."""
    n, m = even.shape[axis], odd.shape[axis]
    if n > m:
        odd = pad(odd, typed_scalar(0, odd.dtype), [(0, int(k == axis), 0) for k in range(odd.ndim)])
    out = reshape(stack([even, odd], axis + 1), _with_size(even.shape, axis, 2 * n))
    return slice_in_dim(out, 0, n + m, axis=axis)


def _with_size(shape: Sequence[int], axis: int, size: int) -> tuple[int, ...]:
    return (*shape[:axis], size, *shape[axis + 1 :])
