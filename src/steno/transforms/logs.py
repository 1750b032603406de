"""What the backward rules of custom_vjp functions log: values that a backward pass gives besides gradients.

While `logging` is on, a rule's log becomes an equation of the op `backward_log`, whose effect keeps it alive. The whole pass is
recorded, and what is logged inside calls and loops is handed out by cutting the program there, as policies of checkpoint do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, final

from steno._native import ShapedArray
from steno.core.jaxpr import ClosedJaxpr, DebugInfo, eval_jaxpr
from steno.core.op import Op
from steno.core.pytree import tree_flatten, tree_unflatten
from steno.core.trace import trace_to_jaxpr
from steno.transforms.programs import logging
from steno.transforms.remat import LOGGED, cut_program, without_calls
from steno.transforms.rules import Axis, as_array, as_value, to_front, typeof


@final
class LogEffect:
    """Of equations whose operands a backward pass logs."""

    def __repr__(self) -> str:
        return "Log"


LOGS: Final = frozenset({LogEffect()})


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
    """What `run`, a backward pass as a function of flat values, gives, and what its rules log: rows of arrays for what is logged in loops.
    ValueError if two logs have the same key."""
    args = [as_value(x) for x in args]
    before, logging.on = logging.on, True
    try:
        program = trace_to_jaxpr(run, [typeof(x) for x in args], DebugInfo("with_logs", "backward pass"))
    finally:
        logging.on = before
    trees = list(_trees(program))
    cut = cut_program(program, LOGGED)
    outs = eval_jaxpr(cut.first.jaxpr, cut.first.consts, *args)
    count = len(program.jaxpr.outvars)
    values, found = iter(outs[count:]), {}
    for tree in trees:
        entries = tree_unflatten(tree, [as_array(next(values)) for _ in range(tree.num_leaves)])
        for key, entry in entries.items():
            if key in found:
                raise ValueError(f"with_logs: the key {key!r} is logged twice in one backward pass; keys must differ")
            found[key] = entry
    return outs[:count], found


def _trees(closed: ClosedJaxpr) -> Iterator[Any]:
    """The structures of the logs of a program, in the order in which it is cut."""
    for e in without_calls(closed, LOGGED).eqns:
        if e.op is backward_log:
            yield e.params["tree"]
        elif e.op.name == "scan":
            yield from _trees(e.params["jaxpr"])
        elif e.op.subprograms is not None and LOGS & e.effects:
            raise NotImplementedError(f"with_logs: what is logged inside {e.op.name}")
