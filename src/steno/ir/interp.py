"""The reference interpreter of scalar expressions: evaluates a DAG on NumPy lanes.

`evaluate(roots, lanes, leaf)`: each root as an array of `lanes` elements. Constants are built in; every other leaf is asked of
`leaf(e, value) -> array of shape (lanes,)` (or what broadcasts to it); `value(child)` is that of an Expr inside an index or a guard.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from steno.ir.expr import Expr, outlined, topological
from steno.ir.index import FloorDiv, Index, LoopVar, Mod
from steno.ir.primitives import apply

Leaf = Callable[[Expr, Callable[[Expr], np.ndarray]], np.ndarray]


def evaluate(roots: Sequence[Expr], lanes: int, leaf: Leaf) -> list[np.ndarray]:
    """The values of `roots`, each a fresh or shared array of shape (lanes,) and the root's dtype."""
    values: dict[Expr, np.ndarray] = {}

    def value(e: Expr) -> np.ndarray:
        return values[e]

    for e in topological(roots):
        if e.op == "const":
            out = np.asarray([e.attr], e.dtype)
        elif e.op == "outline":
            body, _ = outlined(e)
            given = [values[a] for a in e.args]
            (out,) = evaluate([body], max(map(len, given)), lambda x, _, given=given: given[x.attr])
        elif e.args:
            out = apply(e.op, e.dtype, [values[a] for a in e.args])
        else:
            out = np.asarray(leaf(e, value))
            if out.dtype != e.dtype:
                raise TypeError(f"evaluate: leaf {e} was given as {out.dtype}")
        values[e] = out
    return [np.broadcast_to(values[r], (lanes,)) for r in roots]


def evaluate_locals(roots: Sequence[Expr], arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
    """`evaluate` where every leaf is `local(name)`, the lanes being those of `arrays[name]`."""
    lanes = max((len(a) for a in arrays.values()), default=1)
    return evaluate(roots, lanes, lambda e, value: arrays[e.attr])


def evaluate_index(index: Index, variables: dict[LoopVar, np.ndarray], value: Callable[[Expr], np.ndarray]) -> np.ndarray:
    """An Index as int64 lanes."""
    out = np.asarray([index.const], np.int64)
    for atom, c in index.terms:
        if isinstance(atom, LoopVar):
            term = variables[atom]
        elif isinstance(atom, FloorDiv):
            term = evaluate_index(atom.index, variables, value) // atom.divisor
        elif isinstance(atom, Mod):
            term = evaluate_index(atom.index, variables, value) % atom.divisor
        else:
            term = value(atom.expr)
        out = out + c * np.asarray(term, np.int64)
    return out
