"""Where in a program an equation comes from, by the names of `jax.extend.source_info_util`."""

from __future__ import annotations

from steno.core import source
from steno.core.on_demand import on_demand


def current() -> source.Location | None:
    """The line of the program that runs now, outside of the library."""
    at = source.place(2)
    return None if at is None else source.Location(at)


def summarize(location: source.Location | None, num_frames: int = 1) -> str:
    """`file:line:column (function)`, or "" for no place. An equation's is its `source_info`."""
    return "" if location is None else str(location)


def register_exclusion(path: str) -> None:
    """Lines of the file are not a user's: equations come from what calls them."""
    source.hide(path)


__getattr__, __dir__ = on_demand(__name__, {})
