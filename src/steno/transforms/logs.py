"""What the backward rules of custom_vjp functions log: values that a backward pass gives besides gradients.

While `logging` is on, a rule's log becomes an equation of the op `backward_log`, whose effect keeps it alive. The whole pass is
recorded, and what is logged inside calls, loops and branches is handed out by cutting the program there, as policies of checkpoint do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, final

from steno._native import ShapedArray
from steno.core.jaxpr import ClosedJaxpr, DebugInfo, eval_jaxpr
from steno.core.op import Op
from steno.core.pytree import register_dataclass, tree_flatten, tree_unflatten
from steno.core.trace import trace_to_jaxpr
from steno.transforms.programs import logging
from steno.transforms.remat import LOGGED, cut_inside, cut_program, without_calls
from steno.transforms.rules import Axis, as_array, as_value, to_front, typeof


@final
class LogEffect:
    """Of equations whose operands a backward pass logs."""

    def __repr__(self) -> str:
        return "Log"


LOGS: Final = frozenset({LogEffect()})


@final
class CondSum:
    """What the branches of a `cond` or `switch` log by one key. index: the number of the branch that was taken; branches: what each of them
    has logged, None for those that log nothing by this key; zeros stand for what a branch that was not taken would have logged."""

    __slots__ = ("branches", "index")

    def __init__(self, index: Any, branches: list[Any]) -> None:
        self.index, self.branches = index, branches

    def __repr__(self) -> str:
        return f"CondSum(index={self.index!r}, branches={self.branches!r})"


register_dataclass(CondSum, ("index", "branches"), ())


def _typ(*avals: ShapedArray, tree: Any) -> list[ShapedArray]:
    return list(avals)


def _expand(*args: Any, tree: Any) -> list[Any]:
    return list(args)


def _batch(axis: Axis, args: Sequence[Any], dims: Sequence[int | None], *, tree: Any) -> tuple[list[Any], list[int | None]]:
    return backward_log(*(to_front(x, d, axis.size) for x, d in zip(args, dims, strict=True)), tree=tree), [0] * len(args)


backward_log = Op(
    "backward_log",
    typ=_typ,
    expand=_expand,
    multiple_results=True,
    batch=_batch,
    effects=lambda *avals, tree: LOGS,
)
"""Its operands, which are the leaves of a dict of the structure `tree`."""


def record_log(rule: str, entries: Any) -> None:
    """Records what a rule logged: a dict, or None. TypeError for anything else."""
    if entries is not None and not isinstance(entries, dict):
        raise TypeError(f"{rule}: the second half of what it returns must be None or a dict of what is logged, got {entries!r}")
    if entries and logging.on:
        leaves, tree = tree_flatten(entries)
        backward_log(*map(as_value, leaves), tree=tree)


def with_logs(run: Callable[..., list[Any]], args: Sequence[Any]) -> tuple[list[Any], dict[Any, Any]]:
    """What `run`, a backward pass as a function of flat values, gives, and what its rules log: rows of arrays for what is logged in loops,
    `CondSum`s for what is logged in branches. ValueError if two logs have the same key."""
    args = [as_value(x) for x in args]
    before, logging.on = logging.on, True
    try:
        program = trace_to_jaxpr(run, [typeof(x) for x in args], DebugInfo("with_logs", "backward pass"))
    finally:
        logging.on = before
    _check(program)
    cut = cut_program(program, LOGGED)
    outs = eval_jaxpr(cut.first.jaxpr, cut.first.consts, *args)
    count = len(program.jaxpr.outvars)
    return outs[:count], _logs(program, iter(outs[count:]))


def _check(closed: ClosedJaxpr) -> None:
    """NotImplementedError for programs that are not cut."""
    for e in without_calls(closed, LOGGED).eqns:
        if e.op.subprograms is not None and LOGS & e.effects:
            if e.op.name not in ("scan", "cond"):
                raise NotImplementedError(f"with_logs: what is logged inside {e.op.name}")
            for program in e.op.subprograms(e.params):
                _check(program)


def _logs(closed: ClosedJaxpr, values: Iterator[Any]) -> dict[Any, Any]:
    """What a program logs, of the values that are kept of it."""
    found: dict[Any, Any] = {}
    for e in without_calls(closed, LOGGED).eqns:
        entries: dict[Any, Any] = {}
        if e.op is backward_log:
            tree = e.params["tree"]
            entries = tree_unflatten(tree, [as_array(next(values)) for _ in range(tree.num_leaves)])
        elif e.op.name == "scan":
            entries = _logs(e.params["jaxpr"], values)
        elif e.op.name == "cond" and cut_inside(e, LOGGED) is not None:
            branches = [_logs(b, values) for b in e.params["branches"]]
            index = as_array(next(values))
            entries = {k: CondSum(index, [b.get(k) for b in branches]) for k in dict.fromkeys(k for b in branches for k in b)}
        for key, entry in entries.items():
            if key in found:
                raise ValueError(f"with_logs: the key {key!r} is logged twice in one backward pass; keys must differ")
            found[key] = entry
    return found
