"""The order of a graph's nodes where it matters: what reads an array comes before what changes it in place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from steno.ir.kinds import Library, Map, Pieces, Update

if TYPE_CHECKING:
    from steno.compiler.graph import Node, Value

FEW = 16  # elements that may well be kept for a later reader


def is_passed_on(v: Value, readers: Sequence[Node]) -> bool:
    """Whether a value that might be inlined is not worth keeping: it is large, and some reader wants little of it."""
    if not isinstance(v.node.kind, Map | Pieces) or v.size <= FEW:
        return False
    return any(u.size * 4 <= v.size for reader in readers for u in reader.results)


def readers_last(changed: Value, readers: dict[Value, list[Node]]) -> Iterator[Node]:
    """Everything that reads elements of `changed`, also by way of values that are not worth keeping."""
    waiting, seen = [changed], {changed}
    while waiting:
        for reader in readers.get(waiting.pop(), ()):
            yield reader
            further = [u for u in reader.results if u not in seen and is_passed_on(u, readers.get(u, ()))]
            seen.update(further)
            waiting += further


def changed_operands(node: Node) -> list[Value]:
    kind = node.kind
    if isinstance(kind, Update):
        return [node.operands[0]]
    if isinstance(kind, Library):
        return [node.operands[k] for k in kind.in_place if k >= 0]
    return node.carried_operands()


def updates_last(nodes: list[Node]) -> list[Node]:
    """`nodes`, which are in an order of dependence, in another: what reads an array that a node may change in place comes before the node,
    unless it depends on it."""
    nodes = list(nodes)
    position: dict[Node, int] = {}
    readers: dict[Value, list[Node]] = {}
    for k, n in enumerate(nodes):
        position[n] = k
        for v in dict.fromkeys(n.operands):
            readers.setdefault(v, []).append(n)
    for node in list(nodes):
        at = position[node]
        late = [
            reader for v in changed_operands(node) if len(readers[v]) > 1 for reader in readers_last(v, readers) if position[reader] > at
        ]
        moved = _before(node, late, position)
        if moved:
            end = max(position[n] for n in moved) + 1
            part = nodes[at:end]
            nodes[at:end] = [*(n for n in part if n in moved), *(n for n in part if n not in moved)]
            position.update((n, at + k) for k, n in enumerate(nodes[at:end]))
    return nodes


def _before(node: Node, late: Sequence[Node], position: dict[Node, int]) -> set[Node]:
    """Those of `late`, and what they depend on, that can come before `node`: not what depends on it."""
    out: set[Node] = set()
    for reader in late:
        needed, waiting = {reader}, [reader]
        while waiting and node not in needed:
            for v in waiting.pop().operands:
                n = v.node
                if n not in needed and n not in out and position.get(n, -1) >= position[node]:
                    needed.add(n)
                    waiting.append(n)
        if node not in needed and not any(n.has_effects for n in needed):
            out |= needed
    return out
