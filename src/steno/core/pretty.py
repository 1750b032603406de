"""A pretty printer after Wadler ("A prettier printer", 2003): a document lays itself out in as few lines as the width allows.

    Doc ::= str | Concat(Doc*) | Nest(n, Doc) | Group(Doc) | Break(text)        Break: the text if its group fits in a line, else a line end
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Union, final


@final
@dataclass(frozen=True, slots=True)
class Break:
    flat: str = " "


@final
@dataclass(frozen=True, slots=True)
class Concat:
    parts: tuple[Doc, ...]


@final
@dataclass(frozen=True, slots=True)
class Nest:
    indent: int
    doc: Doc


@final
@dataclass(frozen=True, slots=True)
class Group:
    doc: Doc


@final
@dataclass(frozen=True, slots=True)
class Annotated:
    """`doc`, with a note in a column to the right of all text, on the line where it begins."""

    doc: Doc
    note: str


Doc = Union[str, Break, Concat, Nest, Group, Annotated]
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


def fill(docs: Sequence[Doc]) -> Doc:
    """As many in a line as fit: each break is a group of its own, with the item after it."""
    if not docs:
        return ""
    return Concat((docs[0], *(Group(Concat((SPACE, d))) for d in docs[1:])))


def _fits(width: int, todo: list[tuple[int, bool, Doc]], rest: list[tuple[int, bool, Doc]]) -> bool:
    """Whether what comes up to the next possible line end fits in `width` columns."""
    k = len(rest)
    while width >= 0:
        if not todo:
            if k == 0:
                return True
            k -= 1
            todo.append(rest[k])
        indent, flat, doc = todo.pop()
        if isinstance(doc, str):
            width -= len(doc)
        elif isinstance(doc, Break):
            if not flat:
                return True
            width -= len(doc.flat)
        elif isinstance(doc, Concat):
            todo += [(indent, flat, d) for d in reversed(doc.parts)]
        elif isinstance(doc, Nest):
            todo.append((indent + doc.indent, flat, doc.doc))
        elif isinstance(doc, Annotated):
            todo.append((indent, flat, doc.doc))
        else:
            todo.append((indent, flat, doc.doc))
    return False


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
            flat = flat or _fits(width - column, [(indent, True, d.doc)], stack)
            stack.append((indent, flat, d.doc))
    lines.append(("".join(line), notes))
    if not any(n for _, n in lines):
        return "\n".join(text for text, _ in lines)
    margin = max(len(text) for text, _ in lines)
    return "\n".join(f"{text:<{margin}} # {'; '.join(n)}" if n else text for text, n in lines)
