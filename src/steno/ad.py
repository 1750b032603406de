"""What is said of gradients: `steno.ad`. Entries of the arguments of `with_refs`, and of what a VJP function returns then."""

from __future__ import annotations

from typing import final

from steno.core.pytree import register_pytree_node
from steno.core.record import record


@final
@record(frozen=True)
class GradValue:
    """The gradient of this argument is to be returned."""


@final
@record(frozen=True)
class DontWant:
    """The gradient of this argument is not wanted."""


@final
@record(frozen=True)
class GradRef:
    """The gradient was added to the reference that was given for it."""


@final
@record(frozen=True)
class DidntWant:
    """The gradient was not wanted."""


for _done in (GradRef, DidntWant):  # results without arrays
    register_pytree_node(_done, lambda _: ((), None), lambda _, __, cls=_done: cls())

__all__ = ["DidntWant", "DontWant", "GradRef", "GradValue"]
