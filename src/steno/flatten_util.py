"""Pytrees as vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, final

from steno import lax
from steno.core import dtypes
from steno.core.aval import typeof
from steno.core.record import record
from steno.numpy import asarray, ravel, reshape, zeros
from steno.tree_util import PyTreeDef, tree_flatten, tree_unflatten


def ravel_pytree(pytree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """All leaves as one vector, and the function from such a vector back to a tree with the leaves' shapes and dtypes.

    Leaves of different dtypes are promoted; then the function raises a TypeError for a vector of another dtype than the common one.
    A vector of another length is a ValueError."""
    leaves, tree = tree_flatten(pytree)
    if not leaves:
        return zeros(0, dtypes.default_float()), _Unravel(tree, (), (), False, None)
    avals = [typeof(x) for x in leaves]
    shapes, kinds = [a.shape for a in avals], [a.dtype for a in avals]
    common = dtypes.result_type(*leaves)
    mixed = any(d != common for d in kinds)
    vectors = [ravel(asarray(x, common) if mixed else x) for x in leaves]

    return lax.concatenate(vectors, 0), _Unravel(tree, tuple(shapes), tuple(kinds), mixed, common)


@final
@record(frozen=True)
class _Unravel:
    """From a vector to the tree. Those of equal trees are equal: as a static argument one costs no trace of its own."""

    tree: PyTreeDef
    shapes: tuple[tuple[int, ...], ...]
    kinds: tuple[Any, ...]
    mixed: bool
    common: Any

    def __call__(self, vector: Any) -> Any:
        got = typeof(vector)
        if not self.shapes:
            return tree_unflatten(self.tree, ())
        sizes = [math.prod(s) for s in self.shapes]
        if self.mixed and got.dtype != self.common:
            raise TypeError(
                f"unravel function given array of dtype {dtypes.name(got.dtype)}, but expected dtype {dtypes.name(self.common)}"
            )
        if got.shape != (sum(sizes),):
            raise ValueError(f"unravel function given array of shape {got.shape}, but expected shape {(sum(sizes),)}")
        parts = [reshape(p, s) for p, s in zip(lax.split(vector, sizes), self.shapes, strict=True)]
        return tree_unflatten(self.tree, [_as(p, d) for p, d in zip(parts, self.kinds, strict=True)] if self.mixed else parts)


def _as(x: Any, dtype: Any) -> Any:
    real = dtypes.kind(x.dtype) == "c" and dtypes.kind(dtype) != "c"
    return lax.convert_element_type(lax.real(x) if real else x, dtype)
