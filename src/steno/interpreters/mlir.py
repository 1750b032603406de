"""How a user's own ops become part of compiled programs, by the names of `jax.interpreters.mlir`.

steno does not compile by way of MLIR: the one way of saying what an op does in compiled programs is by other ops:
`register_lowering(p, lower_fun(f, multiple_results=False))`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from steno.core.aval import typeof
from steno.core.on_demand import on_demand
from steno.core.op import OPS, Op
from steno.core.trace import trace_to_jaxpr
from steno.interpreters.rule_tables import operands
from steno.ops.control import evaluate
from steno.transforms.discharge import pure


@final
class LoweringByOps:
    """What `lower_fun` gives: the function that says an op in terms of others."""

    def __init__(self, fun: Callable[..., Any], multiple_results: bool) -> None:
        self.fun, self.multiple_results = fun, multiple_results

    def __call__(self, ctx: Any, *args: Any, **params: Any) -> Any:
        raise NotImplementedError("lower_fun: steno makes no MLIR; hand the result of lower_fun itself to register_lowering")


def lower_fun(fun: Callable[..., Any], multiple_results: bool = True) -> LoweringByOps:
    """`fun(*args, **params)` as a lowering; with `multiple_results` it returns a sequence."""
    return LoweringByOps(fun, multiple_results)


def register_lowering(prim: Op, rule: Any, platform: str | None = None, inline: bool = True, cacheable: bool = True) -> Any:
    """Sets how compiled programs compute the op, for the platform cpu or all. What `lower_fun` gives works. A function that builds MLIR can
    be registered, but a program with the op is a NotImplementedError when it is compiled. ValueError for an op that is not a user's own."""
    if OPS.get(prim.name) is prim:
        raise ValueError(f"register_lowering: {prim.name} is an op of steno's own, whose lowering cannot be replaced")
    if platform not in (None, "cpu"):
        return rule
    if type(rule) is LoweringByOps:
        prim.lower = None
        prim.expand = _expansion(prim, rule)
        return rule

    def refuse(*avals: Any, **params: Any) -> Any:
        raise NotImplementedError(
            f"MLIR translation rule for primitive '{prim.name}' not found for platform cpu: the one that is registered, {rule!r}, builds "
            "MLIR, which steno does not use; register interpreters.mlir.lower_fun(f), with f written with jax.numpy and jax.lax"
        )

    prim.expand, prim.lower = None, refuse
    return rule


def _expansion(prim: Op, rule: LoweringByOps) -> Callable[..., Any]:
    def expand(*args: Any, **params: Any) -> Any:
        def run(*xs: Any) -> list[Any]:
            out = rule.fun(*xs, **params)
            return list(out) if rule.multiple_results else [out]

        xs = operands(args)
        out = evaluate(pure(trace_to_jaxpr(run, [typeof(x) for x in xs])), xs)
        if prim.multiple_results:
            return out
        (out,) = out
        return out

    return expand


__getattr__, __dir__ = on_demand(__name__, {})
