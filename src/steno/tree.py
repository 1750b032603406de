"""Pytrees under short names. The same names as `jax.tree`."""

from __future__ import annotations

from steno.core.pytree import static as static
from steno.core.pytree import tree_all as all
from steno.core.pytree import tree_broadcast as broadcast
from steno.core.pytree import tree_flatten as flatten
from steno.core.pytree import tree_flatten_with_path as flatten_with_path
from steno.core.pytree import tree_leaves as leaves
from steno.core.pytree import tree_leaves_with_path as leaves_with_path
from steno.core.pytree import tree_map as map
from steno.core.pytree import tree_map_with_path as map_with_path
from steno.core.pytree import tree_reduce as reduce
from steno.core.pytree import tree_reduce_associative as reduce_associative
from steno.core.pytree import tree_structure as structure
from steno.core.pytree import tree_transpose as transpose
from steno.core.pytree import tree_unflatten as unflatten

__all__ = [
    "all",
    "broadcast",
    "flatten",
    "flatten_with_path",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "reduce",
    "reduce_associative",
    "static",
    "structure",
    "transpose",
    "unflatten",
]
