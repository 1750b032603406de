"""How arrays lie in memory, by the names of `jax.experimental.layout`: in the order of C."""

from __future__ import annotations

from typing import Any

from steno.device import put
from steno.mesh import Format as Format, Layout as Layout


def with_layout_constraint(x: Any, layout: Layout) -> Any:
    """The array, in this layout. ValueError for a layout of another rank."""
    y = put(x)
    if len(layout.major_to_minor) != len(y.shape):
        raise ValueError(f"with_layout_constraint: {layout!r} is of rank {len(layout.major_to_minor)}, the array of rank {len(y.shape)}")
    return y
