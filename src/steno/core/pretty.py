"""A pretty printer after Wadler ("A prettier printer", 2003): a document lays itself out in as few lines as the width allows.

Doc ::= str | Concat(Doc*) | Nest(n, Doc) | Group(Doc) | Break(text)        Break: the text if its group fits in a line, else a line end
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from steno.core.record import record


@final
@record(frozen=True, slots=True)
class Break:
    flat: str = " "


@final
@record(frozen=True, slots=True)
class Concat:
    parts: tuple[Doc, ...]


@final
@record(frozen=True, slots=True)
class Nest:
    indent: int
    doc: Doc


@final
@record(frozen=True, slots=True)
class Group:
    doc: Doc


@final
@record(frozen=True, slots=True)
class Annotated:
    """`doc`, with a note in a column to the right of all text, on the line where it begins."""

    doc: Doc
    note: str


Doc = str | Break | Concat | Nest | Group | Annotated
SPACE = Break()
SOFT = Break("")


def concat(*parts: Doc) -> Doc:
    return Concat(parts)


def join(separator: Doc, docs: Iterable[Doc]) -> Doc:
    out: list[Doc] = []
    for d in docs:
        if out:
            out.append(separator)
        out.append(d)
    return Concat(tuple(out))


def _fits(width: int, doc: Doc) -> bool:
    """Whether a group fits in `width` columns in one line. What follows it on the line is not looked at, as in JAX's printer."""
    todo = [doc]
    while todo:
        d = todo.pop()
        if isinstance(d, str):
            width -= len(d)
        elif isinstance(d, Break):
            width -= len(d.flat)
        elif isinstance(d, Concat):
            todo += reversed(d.parts)
        else:
            todo.append(d.doc)
        if width < 0:
            return False
    return True


def layout(doc: Doc, width: int = 80) -> str:
    """The document as text."""
    lines: list[tuple[str, list[str]]] = []
    line: list[str] = []
    notes: list[str] = []
    column = 0
    stack: list[tuple[int, bool, Doc]] = [(0, False, doc)]
    while stack:
        indent, flat, d = stack.pop()
        if isinstance(d, str):
            line.append(d)
            column += len(d)
        elif isinstance(d, Break):
            if flat:
                line.append(d.flat)
                column += len(d.flat)
            else:
                lines.append(("".join(line), notes))
                line, notes, column = [" " * indent], [], indent
        elif isinstance(d, Concat):
            stack += [(indent, flat, part) for part in reversed(d.parts)]
        elif isinstance(d, Nest):
            stack.append((indent + d.indent, flat, d.doc))
        elif isinstance(d, Annotated):
            notes.append(d.note)
            stack.append((indent, flat, d.doc))
        else:
            flat = flat or _fits(width - column, d.doc)
            stack.append((indent, flat, d.doc))
    lines.append(("".join(line), notes))
    if not any(n for _, n in lines):
        return "\n".join(text for text, _ in lines)
    margin = max(len(text) for text, _ in lines)
    return "\n".join(f"{text:<{margin}} # {'; '.join(n)}" if n else text for text, n in lines)
