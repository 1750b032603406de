"""checkpoint: what a function needs for its backward pass is computed again there, but for what a policy says to keep.

A policy is asked for each equation, `policy(op, *operand avals, **params)`: whether its results may be kept. The op's name in programs is
JAX's, `remat2`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from steno._native import ShapedArray, current_trace
from steno.core.interpret import interpret
from steno.core.jaxpr import ClosedJaxpr, JaxprEqn, Literal, eval_jaxpr, literal_value
from steno.core.op import Op
from steno.core.trace import trace_to_jaxpr
from steno.ops.structural import jit, optimization_barrier
from steno.transforms.backward import transpose_jaxpr
from steno.transforms.batching import batch_program
from steno.transforms.calls import thin_call
from steno.transforms.forward import jvp_jaxpr
from steno.transforms.linearize import linearize_jaxpr
from steno.transforms.partial import PartialTrace, partial_eval_jaxpr
from steno.transforms.programs import Flags, Split, anonymous, remembered, remove_dead
from steno.transforms.rules import ELEMENTWISE, Axis, Linear, Zero, by_argument, tangent_aval, zero_of

Policy = Callable[..., Any] | None


# name


name = Op(
    "name",
    typ=lambda x, *, name: x,
    oracle=lambda x, *, name: x.copy(),
    expand=lambda x, *, name: x,
    jvp=by_argument(lambda g, out, x, *, name: g),
    batch=ELEMENTWISE,
)
"""The operand, under a name that policies refer to."""


# What is kept, and what is computed again


@remembered
def without_calls(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with its calls of jitted functions inlined, so that a policy sees their equations."""

    def run(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
        env: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args), strict=True))
        for e in jaxpr.eqns:
            operands = [literal_value(a) if type(a) is Literal else env[a] for a in e.invars]
            if e.op is jit:
                inner = e.params["jaxpr"]
                out = run(inner.jaxpr, inner.consts, operands)
            else:
                out = e.bind(operands)
            env.update(zip(e.outvars, out, strict=True))
        return [literal_value(a) if type(a) is Literal else env[a] for a in jaxpr.outvars]

    if not any(e.op is jit for e in closed.eqns):
        return closed
    return trace_to_jaxpr(lambda *xs: run(closed.jaxpr, closed.consts, xs), closed.in_avals, closed.jaxpr.debug_info)


def _kept(policy: Policy, e: JaxprEqn) -> bool:
    """Whether the results of an equation stay in memory. What has effects must not be done twice."""
    return bool(e.effects) or (policy is not None and bool(policy(e.op, *(a.aval for a in e.invars), **e.params)))


def _rematerialised(split: Split, results: int, policy: Policy) -> tuple[ClosedJaxpr, ClosedJaxpr, tuple[int, ...]]:
    """A program cut in two, of which the first part has so many results --> the same, where the second part computes again what it needs.

    The first part gives its results, then what is kept; the second takes some of the first's inputs (at the positions that are the last
    result), what is kept, and its own."""
    known, rest = split.known, split.unknown
    j = known.jaxpr
    wanted = [j.invars[r.position] if r.where == "in" else j.outvars[r.position] for r in split.residuals]
    maker = {v: e for e in j.eqns for v in e.outvars}
    inputs: set[Any] = set()
    kept: list[Any] = []
    again: set[int] = set()
    seen: set[Any] = set()
    stack = [a for a in reversed(wanted) if type(a) is not Literal]
    while stack:
        a = stack.pop()
        if a in seen:
            continue
        seen.add(a)
        e = maker.get(a)
        if e is None:
            inputs.add(a)  # or a constant
        elif _kept(policy, e):
            kept.append(a)
        else:
            again.add(id(e))
            stack += [b for b in e.invars if type(b) is not Literal]
    positions = tuple(k for k, v in enumerate(j.invars) if v in inputs)

    def second(*args: Any) -> list[Any]:
        env: dict[Any, Any] = dict(zip(j.constvars, known.consts, strict=True))
        env.update(zip((*(j.invars[k] for k in positions), *kept), args, strict=False))
        for e in j.eqns:
            if id(e) in again:
                for v, y in zip(e.outvars, e.bind([_read(a, env) for a in e.invars]), strict=True):
                    env.setdefault(v, y)  # what is kept stays
        return eval_jaxpr(rest.jaxpr, rest.consts, *(_read(a, env) for a in wanted), *args[len(positions) + len(kept) :])

    avals = [*(j.invars[k].aval for k in positions), *(v.aval for v in kept), *rest.in_avals[len(wanted) :]]
    program = trace_to_jaxpr(second, avals, anonymous(j, "checkpoint"))
    first = remove_dead(ClosedJaxpr(j.replace(outvars=[*j.outvars[:results], *kept]), known.consts))
    return first, program, positions


def _read(a: Any, env: dict[Any, Any]) -> Any:
    return literal_value(a) if type(a) is Literal else env[a]


@remembered
def _linearized(closed: ClosedJaxpr, nonzero: Flags, policy: Policy) -> tuple[ClosedJaxpr, ClosedJaxpr, tuple[int, ...], Flags]:
    cut = linearize_jaxpr(closed if policy is None else without_calls(closed), nonzero)
    return *_rematerialised(cut.split, len(cut.out_nonzero), policy), cut.out_nonzero


@remembered
def _cut(closed: ClosedJaxpr, unknown: Flags, policy: Policy) -> tuple[ClosedJaxpr, ClosedJaxpr, tuple[int, ...], Flags]:
    cut = partial_eval_jaxpr(closed if policy is None else without_calls(closed), unknown)
    return *_rematerialised(cut.split, cut.out_unknown.count(False), policy), cut.out_unknown


# remat2


def _typ(*avals: ShapedArray, jaxpr: ClosedJaxpr, **_: Any) -> list[ShapedArray]:
    return jaxpr.out_avals


def _oracle(*args: Any, jaxpr: ClosedJaxpr, **_: Any) -> list[Any]:
    return interpret(jaxpr, args)


def _expand(*args: Any, jaxpr: ClosedJaxpr, prevent_cse: bool, differentiated: bool, policy: Policy) -> list[Any]:
    """What is computed again reads its inputs through a barrier, or it would be found to have been computed already."""
    if differentiated and prevent_cse:
        args = tuple(optimization_barrier(*args))
    return eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, *args)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: ClosedJaxpr, **rest: Any) -> tuple[list[Any], list[Any]]:
    program, out_nonzero = jvp_jaxpr(jaxpr, [type(t) is not Zero for t in tangents])
    outs = remat(*primals, *(t for t in tangents if type(t) is not Zero), jaxpr=program, **rest)
    n = len(out_nonzero)
    given = iter(outs[n:])
    return outs[:n], [next(given) if nz else zero_of(y) for y, nz in zip(outs[:n], out_nonzero, strict=True)]


def _linearize(
    nonzero: Flags, *primals: Any, jaxpr: ClosedJaxpr, policy: Policy, **rest: Any
) -> tuple[list[Any], Callable[..., list[Any]]]:
    first, second, positions, out_nonzero = _linearized(jaxpr, nonzero, policy)
    values = eval_jaxpr(first.jaxpr, first.consts, *primals)
    n = len(out_nonzero)
    outs = values[:n]
    residuals = [*(primals[k] for k in positions), *values[n:]]

    def lin(*tangents: Any) -> list[Any]:
        trace: Any = current_trace()
        moving = [t for t in tangents if type(t) is not Zero]
        params = {"jaxpr": second, "policy": policy, **rest, "differentiated": True}
        given = iter(trace.record(remat, [*residuals, *moving], params) if any(out_nonzero) else ())
        return [next(given) if nz else zero_of(y) for y, nz in zip(outs, out_nonzero, strict=True)]

    return outs, lin


def _partial_eval(trace: PartialTrace, unknown: Flags, *args: Any, jaxpr: ClosedJaxpr, policy: Policy, **rest: Any) -> list[Any]:
    first, second, positions, out_unknown = _cut(jaxpr, unknown, policy)
    known_args = [x for x, u in zip(args, unknown, strict=True) if not u]
    values = eval_jaxpr(first.jaxpr, first.consts, *known_args)
    n = out_unknown.count(False)
    operands = [*(known_args[k] for k in positions), *values[n:], *(x for x, u in zip(args, unknown, strict=True) if u)]
    params = {"jaxpr": second, "policy": policy, **rest, "differentiated": True}
    given = iter(trace.record(remat, operands, params) if any(out_unknown) else ())
    known_outs = iter(values[:n])
    return [next(given) if u else next(known_outs) for u in out_unknown]


def _transpose(cts: Sequence[Any], *args: Any, jaxpr: ClosedJaxpr, **rest: Any) -> list[Any]:
    linear = [type(x) is Linear for x in args]
    program, out_nonzero = transpose_jaxpr(jaxpr, linear, [type(ct) is not Zero for ct in cts])
    known = [x for x in args if type(x) is not Linear]
    outs = iter(remat(*known, *(ct for ct in cts if type(ct) is not Zero), jaxpr=program, **rest) if any(out_nonzero) else ())
    nonzero = iter(out_nonzero)
    return [(next(outs) if next(nonzero) else Zero(tangent_aval(x.aval))) if lin else None for x, lin in zip(args, linear, strict=True)]


def _batch(
    axis: Axis, args: Sequence[Any], dims: Sequence[int | None], *, jaxpr: ClosedJaxpr, **rest: Any
) -> tuple[list[Any], list[int | None]]:
    program, out_dims = batch_program(jaxpr, axis, dims)
    return remat(*args, jaxpr=program, **rest), list(out_dims)


remat = Op(
    "remat2",
    typ=_typ,
    oracle=_oracle,
    expand=_expand,
    multiple_results=True,
    jvp=_jvp,
    linearize=_linearize,
    partial_eval=_partial_eval,
    transpose=_transpose,
    batch=_batch,
    dce=thin_call,
    effects=lambda *avals, jaxpr, **_: jaxpr.effects,
    subprograms=lambda params: (params["jaxpr"],),
)
"""A call of `jaxpr`. `differentiated`: it is part of a backward pass, and computes again what it needs; with `prevent_cse` it may not use
what has been computed already."""
