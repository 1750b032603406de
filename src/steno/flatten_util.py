"""Pytrees as vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from steno import lax
from steno.core import dtypes
from steno.core.aval import typeof
from steno.numpy import asarray, ravel, reshape, zeros
from steno.tree_util import Partial, tree_flatten, tree_unflatten


def ravel_pytree(pytree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """All leaves as one vector, and the function from such a vector back to a tree with the leaves' shapes and dtypes.

    Leaves of different dtypes are promoted; then the function raises a TypeError for a vector of another dtype than the common one.
    A vector of another length is a ValueError."""
    leaves, tree = tree_flatten(pytree)
    if not leaves:
        return zeros(0, dtypes.default_float()), Partial(lambda vector: tree_unflatten(tree, ()))
    avals = [typeof(x) for x in leaves]
    shapes, kinds = [a.shape for a in avals], [a.dtype for a in avals]
    sizes = [math.prod(s) for s in shapes]
    common = dtypes.result_type(*leaves)
    mixed = any(d != common for d in kinds)
    vectors = [ravel(asarray(x, common) if mixed else x) for x in leaves]

    def unravel(vector: Any) -> Any:
        got = typeof(vector)
        if mixed and got.dtype != common:
            raise TypeError(f"unravel function given array of dtype {dtypes.name(got.dtype)}, but expected dtype {dtypes.name(common)}")
        if got.shape != (sum(sizes),):
            raise ValueError(f"unravel function given array of shape {got.shape}, but expected shape {(sum(sizes),)}")
        pieces = lax.split(vector, sizes)
        parts = [reshape(p, s) for p, s in zip(pieces, shapes, strict=True)]
        return tree_unflatten(tree, [_as(p, d) for p, d in zip(parts, kinds, strict=True)] if mixed else parts)

    return lax.concatenate(vectors, 0), Partial(unravel)


def _as(x: Any, dtype: Any) -> Any:
    real = dtypes.kind(x.dtype) == "c" and dtypes.kind(dtype) != "c"
    return lax.convert_element_type(lax.real(x) if real else x, dtype)
