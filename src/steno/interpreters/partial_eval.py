"""Recording programs and cutting them up, by the names of `jax.interpreters.partial_eval`."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, final

from steno._native import ShapedArray
from steno.core.aval import typeof
from steno.core.jaxpr import NO_DEBUG_INFO, ClosedJaxpr, Jaxpr, dce_jaxpr as dce_jaxpr, eval_jaxpr, open_jaxpr
from steno.core.on_demand import on_demand
from steno.core.op import Op
from steno.core.trace import JaxprTrace as DynamicJaxprTrace, JitTracer as DynamicJaxprTracer, trace_to_jaxpr
from steno.extend.linear_util import WrappedFun
from steno.interpreters.rule_tables import RuleTable
from steno.transforms.partial import partial_eval_jaxpr


def _with_live_inputs(op: Op, rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda used_outputs, eqn: rule(used_outputs, [True] * len(eqn.invars), eqn)


def _without_live_inputs(op: Op, rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda used_outputs, live_inputs, eqn: rule(used_outputs, eqn)


dce_rules = RuleTable("dce", _with_live_inputs, _without_live_inputs)
"""`dce_rules[p] = rule`: `rule(used_outputs, live_inputs, eqn) -> (used_inputs, eqn | None)`: what is left of an equation of which only
these results are used."""


def trace_to_jaxpr_dynamic(fun: Any, in_avals: Sequence[ShapedArray], **options: Any) -> tuple[Jaxpr, list[ShapedArray], list[Any]]:
    """Records a function (or WrappedFun) of flat arrays that returns a flat sequence: the program, the types of its results, and the values
    of its constvars."""
    call = fun.call_wrapped if isinstance(fun, WrappedFun) else fun
    info = getattr(fun, "debug_info", None)
    closed = trace_to_jaxpr(call, in_avals, NO_DEBUG_INFO if info is None else info)
    return closed.jaxpr, closed.out_avals, closed.consts


def abstract_eval_fun(fun: Callable[..., Any], *avals: ShapedArray, debug_info: Any = None, **params: Any) -> list[ShapedArray]:
    """The types of what a function of flat arrays returns."""
    return trace_to_jaxpr(lambda *xs: fun(*xs, **params), avals, NO_DEBUG_INFO if debug_info is None else debug_info).out_avals


_closed: weakref.WeakKeyDictionary[Jaxpr, weakref.ref[ClosedJaxpr]] = weakref.WeakKeyDictionary()


def close_jaxpr(jaxpr: Jaxpr) -> ClosedJaxpr:
    """A program without constvars, closed: the same one each time while it lives."""
    j = open_jaxpr(jaxpr)
    known = _closed.get(j)
    closed = None if known is None else known()
    if closed is None:
        closed = ClosedJaxpr(j, ())
        _closed[j] = weakref.ref(closed)
    return closed


def convert_constvars_jaxpr(jaxpr: Jaxpr) -> Jaxpr:
    """`{ lambda c ; x . ...}` --> `{ lambda ; c x . ...}`: the constants become leading inputs."""
    j = open_jaxpr(jaxpr)
    return j.replace(constvars=(), invars=[*j.constvars, *j.invars])


def prune_closed_jaxpr_outputs(jaxpr: ClosedJaxpr, used_outputs: Sequence[bool]) -> ClosedJaxpr:
    """The program with some of its results only."""
    kept = [v for v, used in zip(jaxpr.jaxpr.outvars, used_outputs, strict=True) if used]
    return jaxpr.replace(jaxpr=jaxpr.jaxpr.replace(outvars=kept))


def move_binders_to_back(closed_jaxpr: ClosedJaxpr, to_move: Sequence[bool]) -> ClosedJaxpr:
    """The program with the inputs marked behind the others."""
    pairs = list(zip(closed_jaxpr.jaxpr.invars, to_move, strict=True))
    return closed_jaxpr.replace(jaxpr=closed_jaxpr.jaxpr.replace(invars=[*(v for v, m in pairs if not m), *(v for v, m in pairs if m)]))


def dce_jaxpr_consts(
    jaxpr: Jaxpr, used_outputs: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[bool], list[bool]]:
    """`dce_jaxpr`, which also drops constvars: the program, and which constvars and inputs it still has."""
    n = len(jaxpr.constvars)
    keep = [instantiate] * len(jaxpr.invars) if isinstance(instantiate, bool) else list(instantiate)
    smaller, used = dce_jaxpr(convert_constvars_jaxpr(jaxpr), used_outputs, [False] * n + keep)
    consts = sum(used[:n])
    return smaller.replace(constvars=smaller.invars[:consts], invars=smaller.invars[consts:]), used[:n], used[n:]


def partial_eval_jaxpr_nounits(
    jaxpr: ClosedJaxpr, unknowns: Sequence[bool], instantiate: bool | Sequence[bool]
) -> tuple[ClosedJaxpr, ClosedJaxpr, list[bool], list[ShapedArray]]:
    """Cuts a program in two: what the known inputs decide, whose outputs are the known results and the residuals; and the rest, whose
    inputs are the residuals and the unknown inputs. Also which results are unknown, and the residuals' types."""
    cut = partial_eval_jaxpr(jaxpr, unknowns, instantiate)
    known, rest = cut.split.known, cut.split.unknown
    results = len(cut.out_unknown) - sum(cut.out_unknown)
    residuals = [(known.invars if r.where == "in" else known.outvars)[r.position] for r in cut.split.residuals]
    known = known.replace(jaxpr=known.jaxpr.replace(outvars=[*known.outvars[:results], *residuals]))
    return known, rest, list(cut.out_unknown), rest.in_avals[: len(residuals)]


@final
class PartialVal(tuple[Any, Any]):
    """What is known of a value: (None, the value), or (its type, None)."""

    __slots__ = ()

    @classmethod
    def known(cls, const: Any) -> PartialVal:
        return cls((None, const))

    @classmethod
    def unknown(cls, aval: ShapedArray) -> PartialVal:
        return cls((aval, None))

    def is_known(self) -> bool:
        return self[0] is None

    def get_known(self) -> Any:
        """The value; None if it is not known."""
        return self[1]

    def get_aval(self) -> ShapedArray:
        return typeof(self[1]) if self.is_known() else self[0]


def trace_to_jaxpr_nounits(fun: Any, pvals: Sequence[PartialVal], instantiate: bool = False) -> tuple[Jaxpr, list[PartialVal], list[Any]]:
    """A function (or WrappedFun) of flat arrays, as far as the known arguments go: the program of the rest, which takes residuals and the
    unknown arguments and gives the unknown results; what is known of each result; the residuals. All that the known arguments decide is
    computed. The function sees tracers for all of them."""
    jaxpr, out_avals, consts = trace_to_jaxpr_dynamic(fun, [p.get_aval() for p in pvals])
    closed = ClosedJaxpr(jaxpr, consts)
    known, rest, out_unknown, residual_avals = partial_eval_jaxpr_nounits(closed, [not p.is_known() for p in pvals], instantiate)
    values = eval_jaxpr(known.jaxpr, known.consts, *(p.get_known() for p in pvals if p.is_known()))
    n = len(values) - len(residual_avals)
    given = iter(values[:n])
    outs = [PartialVal.unknown(a) if u else PartialVal.known(next(given)) for a, u in zip(out_avals, out_unknown, strict=True)]
    return convert_constvars_jaxpr(rest.jaxpr), outs, [*rest.consts, *values[n:]]


__all__ = ["DynamicJaxprTrace", "DynamicJaxprTracer"]
__getattr__, __dir__ = on_demand(__name__, {})
