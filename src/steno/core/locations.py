"""Where the operations of a program come from: the path of each, and its place in the user's code.

A path has the names around an operation (core/names.py) and the calls, loops and branches it stands in:
`jit(f)/transpose(jvp(layer))/while/body/mul`. Loops of every kind are `while`, with a `cond` and a `body`, as profilers call them."""

from __future__ import annotations

from collections.abc import Iterator

from steno.core import source
from steno.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, open_jaxpr, subjaxprs
from steno.core.names import text

_PARTS = {
    "while": {"cond_jaxpr": "while/cond", "body_jaxpr": "while/body"},
    "scan": {"jaxpr": "while/body"},
}


def locations(program: Jaxpr | ClosedJaxpr, name: str) -> Iterator[tuple[str, source.Place | None]]:
    """(path, place) of each operation in order, those of nested programs before the operation they belong to."""
    return _of(open_jaxpr(program), (f"jit({name})",))


def _of(jaxpr: Jaxpr, around: tuple[str, ...]) -> Iterator[tuple[str, source.Place | None]]:
    for e in jaxpr.eqns:
        names = around + e.names
        at = text(names)
        if e.op.name == "jit":
            yield from _of(open_jaxpr(e.params["jaxpr"]), (*names, f"jit({e.params['name']})"))
        else:
            for part, inner in _nested(e):
                yield from _of(inner, (at, part))
        yield f"{at}/{e.op.name}", e.place


def _nested(e: JaxprEqn) -> Iterator[tuple[str, Jaxpr]]:
    """The programs of an equation, with what they are called on a path."""
    if e.op.name == "cond":
        for k, branch in enumerate(e.params["branches"]):
            yield f"cond/branch_{k}_fun", open_jaxpr(branch)
        return
    parts = _PARTS.get(e.op.name, {})
    for key, value in e.params.items():
        for inner in subjaxprs({key: value}):
            yield parts.get(key, e.op.name), open_jaxpr(inner)


def locations_text(program: Jaxpr | ClosedJaxpr, name: str) -> str:
    """One line for each path and place."""
    lines = dict.fromkeys(f'loc "{path}" at {source.summary(place) or "unknown"}' for path, place in locations(program, name))
    return "\n".join(lines)
