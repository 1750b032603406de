"""checkpoint: what a function needs for its backward pass is computed again there, but for what a policy says to keep.

A policy is asked for each equation, `policy(op, *operand avals, **params)`: whether its results may be kept. The op's name in programs is
JAX's, `remat2`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, final

from steno._native import ShapedArray, current_trace
from steno.core.interpret import interpret
from steno.core.jaxpr import ClosedJaxpr, JaxprEqn, Literal, dce_jaxpr, eval_jaxpr, literal_value
from steno.core.names import named
from steno.core.op import Op
from steno.core.record import record
from steno.core.trace import trace_to_jaxpr
from steno.ops.structural import optimization_barrier
from steno.transforms.backward import transpose_jaxpr
from steno.transforms.batching import batch_program
from steno.transforms.calls import thin_call
from steno.transforms.forward import jvp_jaxpr
from steno.transforms.linearize import linearize_jaxpr
from steno.transforms.partial import PartialTrace, partial_eval_jaxpr
from steno.transforms.programs import Flags, Split, anonymous, remembered, remove_dead
from steno.transforms.rules import ELEMENTWISE, Axis, Linear, Zero, by_argument, tangent_aval, zero_of, zeros

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


LOG: Final = "backward_log"


def LOGGED(prim: Op, *_: Any, **__: Any) -> bool:
    """The policy that keeps what backward passes log."""
    return prim.name == LOG


@remembered
def without_calls(closed: ClosedJaxpr, policy: Policy = None) -> ClosedJaxpr:
    """The program with its calls of jitted functions inlined, so that a policy sees their equations; for `LOGGED` those of checkpointed
    ones too."""
    calls = ("jit", "remat2") if policy is LOGGED else ("jit",)

    def run(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
        env: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args), strict=True))
        for e in jaxpr.eqns:
            operands = [_read(a, env) for a in e.invars]
            if e.op.name in calls:
                inner = e.params["jaxpr"]
                out = run(inner.jaxpr, inner.consts, operands)
            else:
                out = e.bind(operands)
            env.update(zip(e.outvars, out, strict=True))
        return [_read(a, env) for a in jaxpr.outvars]

    if not any(e.op.name in calls for e in closed.eqns):
        return closed
    return trace_to_jaxpr(lambda *xs: run(closed.jaxpr, closed.consts, xs), closed.in_avals, closed.jaxpr.debug_info)


def _read(a: Any, env: dict[Any, Any]) -> Any:
    return literal_value(a) if type(a) is Literal else env[a]


def _kept(policy: Policy, e: JaxprEqn) -> bool:
    """Whether the results of an equation stay in memory. What has effects must not be done twice. Scans and branches are not asked for as a
    whole, but what they do."""
    if policy is LOGGED:
        return e.op.name == LOG
    if e.effects or policy is None or e.op.name in ("scan", "cond"):
        return bool(e.effects)
    return bool(policy(e.op, *(a.aval for a in e.invars), **e.params))


@final
@record(frozen=True)
class _Cut:
    """A program, or what an op's programs are to be, cut by a policy: `first` gives what the whole gives, then what is kept, of the types
    `kept`; `again` takes what the whole takes, then what is kept, and gives what the whole gives."""

    first: Any
    again: Any
    kept: tuple[ShapedArray, ...]


@remembered
def cut_program(closed: ClosedJaxpr, policy: Policy) -> _Cut:
    """Of the equations that `again` does again those that nothing needs are left to be found dead. With `LOGGED` the index of a branch in
    which something is kept is kept behind that."""
    if policy is not None:
        closed = without_calls(closed, policy)
    j, consts = closed.jaxpr, closed.consts
    inside = [None if policy is None or _kept(policy, e) else cut_inside(e, policy) for e in j.eqns]

    def run(args: Sequence[Any], kept: Iterator[Any] | None) -> tuple[list[Any], list[Any]]:
        env: dict[Any, Any] = dict(zip((*j.constvars, *j.invars), (*consts, *args), strict=True))
        keep: list[Any] = []
        for e, cut in zip(j.eqns, inside, strict=True):
            operands = [_read(a, env) for a in e.invars]
            if cut is not None and kept is None:
                out = e.op(*operands, **e.params | cut.first)
                keep += out[len(e.outvars) :]
                keep += operands[: _indices(e, policy)]
            elif cut is not None and kept is not None:
                out = e.op(*operands, *(next(kept) for _ in cut.kept), **e.params | cut.again)
                for _ in range(_indices(e, policy)):
                    next(kept)
            elif not _kept(policy, e):
                out = e.bind(operands)
            else:
                bound = operands if e.op.name == LOG else e.bind(operands) if kept is None else ()
                out = bound if kept is None else [next(kept) for _ in e.outvars]
                keep += out
            env.update(zip(e.outvars, out, strict=False))
        return [_read(a, env) for a in j.outvars], keep

    count = len(j.invars)
    first = trace_to_jaxpr(lambda *xs: [y for part in run(xs, None) for y in part], closed.in_avals, anonymous(j, "checkpoint"))
    kept = tuple(first.out_avals[len(j.outvars) :])
    again = trace_to_jaxpr(lambda *xs: run(xs[:count], iter(xs[count:]))[0], [*closed.in_avals, *kept], anonymous(j, "checkpoint"))
    return _Cut(first, again, kept)


def _indices(e: JaxprEqn, policy: Policy) -> int:
    return int(policy is LOGGED and e.op.name == "cond")


def cut_inside(e: JaxprEqn, policy: Policy) -> _Cut | None:
    """Parameters of a loop or branch of whose programs the policy keeps values; None if it keeps none."""
    if e.op.name == "scan":
        cut = cut_program(e.params["jaxpr"], policy)
        rows = tuple(a.update(shape=(e.params["length"], *a.shape)) for a in cut.kept)
        return _Cut({"jaxpr": cut.first}, {"jaxpr": cut.again}, rows) if rows else None
    if e.op.name != "cond":
        return None
    cuts = [cut_program(b, policy) for b in e.params["branches"]]
    kept = tuple(a for cut in cuts for a in cut.kept)
    first, again, before = [], [], 0
    for b, cut in zip(e.params["branches"], cuts, strict=True):
        first.append(_with_zeros(cut.first, kept, len(b.jaxpr.outvars), before))
        again.append(_taking_part(cut.again, kept, len(b.jaxpr.invars), before))
        before += len(cut.kept)
    return _Cut({"branches": tuple(first)}, {"branches": tuple(again)}, kept) if kept else None


def _with_zeros(first: ClosedJaxpr, kept: Sequence[ShapedArray], results: int, before: int) -> ClosedJaxpr:
    """A branch that gives what all branches keep: zeros for that of the others, of which so many stand before its own."""

    def run(*xs: Any) -> list[Any]:
        out = eval_jaxpr(first.jaxpr, first.consts, *xs)
        after = before + len(out) - results
        return [*out[:results], *map(zeros, kept[:before]), *out[results:], *map(zeros, kept[after:])]

    return trace_to_jaxpr(run, first.in_avals, first.jaxpr.debug_info)


def _taking_part(again: ClosedJaxpr, kept: Sequence[ShapedArray], inputs: int, before: int) -> ClosedJaxpr:
    """A branch that takes what all branches keep."""
    own = slice(inputs + before, inputs + before + len(again.in_avals) - inputs)

    def run(*xs: Any) -> list[Any]:
        return eval_jaxpr(again.jaxpr, again.consts, *xs[:inputs], *xs[own])

    return trace_to_jaxpr(run, [*again.in_avals[:inputs], *kept], again.jaxpr.debug_info)


def _rematerialised(split: Split, results: int, policy: Policy) -> tuple[ClosedJaxpr, ClosedJaxpr, tuple[int, ...]]:
    """A program cut in two, of which the first part has so many results --> the same, where the second part computes again what it needs.

    The first part gives its results, then what is kept; the second takes some of the first's inputs (at the positions that are the last
    result), what is kept, and its own."""
    known, rest = split.known, split.unknown
    cut = cut_program(known, policy)
    count, more, found = len(known.in_avals), len(cut.kept), len(split.residuals)

    def second(*args: Any) -> list[Any]:
        with named("rematted_computation"):
            out = eval_jaxpr(cut.again.jaxpr, cut.again.consts, *args[: count + more])
        return eval_jaxpr(rest.jaxpr, rest.consts, *split.residual_values(args, out), *args[count + more :])

    own = rest.in_avals[found:]
    program = trace_to_jaxpr(second, [*known.in_avals, *cut.kept, *own], anonymous(known.jaxpr, "checkpoint"))
    jaxpr, used = dce_jaxpr(program.jaxpr, [True] * len(program.jaxpr.outvars), [False] * (count + more) + [True] * len(own))
    outvars = cut.first.jaxpr.outvars
    kept = [v for v, u in zip(outvars[len(known.jaxpr.outvars) :], used[count : count + more], strict=True) if u]
    first = remove_dead(ClosedJaxpr(cut.first.jaxpr.replace(outvars=[*outvars[:results], *kept]), cut.first.consts))
    return first, remove_dead(ClosedJaxpr(jaxpr, program.consts)), tuple(k for k, u in enumerate(used[:count]) if u)


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

remat.def_impl(lambda *args, jaxpr, **_: eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, *args))  # op by op: to compile it would not pay
