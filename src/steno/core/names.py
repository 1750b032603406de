"""The names that equations carry: the scopes around them, and the transformations they went through.

Each recording trace keeps the names of what is recorded next, `names`, a tuple of scopes (texts) and `Transformation`s. A scope entered
while a function is transformed concerns every recorder there is up to and including the innermost one: what is evaluated goes to that
one, tangents to those of linearizations on the way. A program keeps only the names within it: whoever evaluates its equations puts his
own in front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, final

from steno._native import current_trace

NO_NAMES: Final[tuple[str, ...]] = ()


@final
class Transformation(str):
    """A transformation among names: it goes around the scope that follows."""

    __slots__ = ()


JVP: Final = Transformation("jvp")
TRANSPOSE: Final = Transformation("transpose")
VMAP: Final = Transformation("vmap")


def text(names: Sequence[str]) -> str:
    """`foo/transpose(jvp(bar))/baz`: scopes separated by slashes, transformations around the scope they were applied to."""
    out: list[str] = []
    for name in reversed(names):
        if type(name) is Transformation:
            out.append(f"{name}({out.pop() if out else ''})")
        else:
            out.append(name)
    return "/".join(reversed(out))


@final
class NameStack:
    """The names of an equation; `str` gives their text."""

    __slots__ = ("names",)

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def __str__(self) -> str:
        return text(self.names)

    def __repr__(self) -> str:
        return f"NameStack({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NameStack) and self.names == other.names

    def __hash__(self) -> int:
        return hash(self.names)

    def __bool__(self) -> bool:
        return bool(self.names)


def recorders() -> list[Any]:
    """What records in this thread now: the innermost recording trace, and before it those of the tangents that are being recorded."""
    trace: Any = current_trace()
    out = []
    while trace is not None:
        if trace.recorder is not None:
            out.append(trace.recorder)
        trace = trace.parent
    return out


def set_names(recording: Sequence[Any], outer: Sequence[tuple[str, ...]], names: tuple[str, ...]) -> None:
    """What the recorders record next has their `outer` names, then `names`."""
    for r, before in zip(recording, outer, strict=True):
        r.names = before + names if names else before


class named:
    """`with named(name): ...`: what is recorded inside carries the name. May be entered again while it is entered."""

    __slots__ = ("_saved", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._saved: list[list[tuple[Any, tuple[str, ...]]]] = []

    def __enter__(self) -> None:
        saved = [(r, r.names) for r in recorders()] if current_trace() is not None else []
        self._saved.append(saved)
        for r, names in saved:
            r.names = (*names, self.name)

    def __exit__(self, *exc: object) -> None:
        for r, names in self._saved.pop():
            r.names = names
