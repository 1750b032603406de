"""The classes that are nodes of trees."""

from __future__ import annotations

from steno.core.pytree import default_registry


class _Registry:
    """`type in _registry`."""

    def __contains__(self, cls: object) -> bool:
        return isinstance(cls, type) and default_registry.is_node(cls)


_registry = _Registry()
