"""How arrays lie in memory, by the names of `jax.experimental.layout`: in the order of C."""

from __future__ import annotations

from typing import Any

from steno.device import put
from steno.mesh import Format as Format, Layout as Layout
from steno.tree_util import tree_map


def with_layout_constraint(x: Any, layouts: Any) -> Any:
    """The tree of arrays in these layouts, one for all or a tree of them. ValueError for a layout of another rank."""

    def leaf(v: Any, layout: Layout) -> Any:
        y = put(v)
        if len(layout.major_to_minor) != len(y.shape):
            raise ValueError(
                f"with_layout_constraint: {layout!r} is of rank {len(layout.major_to_minor)}, the array of rank {len(y.shape)}"
            )
        return y

    return tree_map(lambda v: leaf(v, layouts), x) if isinstance(layouts, Layout) else tree_map(leaf, x, layouts)
