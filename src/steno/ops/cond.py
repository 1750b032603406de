"""cond: one of several programs, chosen at run time by an index.

Operands: an int32 scalar, kept in range, then those that every branch takes. The functions `cond` and `switch` are this op; of `cond` the
branch for False comes first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, final

import numpy as np

from steno._native import current_trace
from steno.core import dtypes
from steno.core.aval import ShapedArray, TypedScalar, typed_scalar
from steno.core.interpret import interpret
from steno.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, dce_jaxpr
from steno.core.op import Op
from steno.core.record import record
from steno.core.trace import set_current_trace, trace_to_jaxpr
from steno.ir.kinds import Branch
from steno.ops.arithmetic import add
from steno.ops.check import check, has_checks
from steno.ops.compare import eq, select_n
from steno.ops.control import check_types, chosen, evaluate, is_nonzero, others, program, read, same_type, spread, union, with_zero_tangents
from steno.ops.families import ANY, unary_samples
from steno.ops.samples import filled
from steno.ops.structural import jit, unchanged
from steno.ops.transcendental import sin
from steno.transforms.backward import transpose_jaxpr
from steno.transforms.batching import BatchTracer, batch_flat, batch_jaxpr, batched_aval
from steno.transforms.forward import jvp_jaxpr
from steno.transforms.linearize import linearize_jaxpr
from steno.transforms.partial import PartialTrace, partial_eval_jaxpr
from steno.transforms.programs import Flags, Split, remembered, remove_dead
from steno.transforms.rules import (
    ELEMENTWISE,
    ZERO,
    Axis,
    Linear,
    Zero,
    as_value,
    broadcast,
    is_differentiable,
    tangent_aval,
    to_front,
    zeros,
)

Branches = tuple[ClosedJaxpr, ...]


unchosen = Op(
    "unchosen",
    typ=lambda x: x,
    oracle=np.copy,
    lower=unchanged,
    jvp=ZERO,
    transpose=lambda ct, x: [Zero(tangent_aval(x.aval))],
    batch=ELEMENTWISE,
    samples=unary_samples(ANY),
)
"""An operand where a batched branch is not chosen: its value, so that the branch meets no other, without influence on derivatives, which
may be infinite there. Tangents go through it too: those of a `cond` that was differentiated before it was batched."""


def _typ(index: ShapedArray, *avals: ShapedArray, branches: Branches) -> list[ShapedArray]:
    if type(branches) is not tuple or not all(isinstance(b, ClosedJaxpr) for b in branches):
        raise TypeError(f"invalid cond param branches of type {type(branches).__name__}, tuple of closed Jaxpr required: {branches}")
    if index.shape or index.dtype != dtypes.int32:
        raise TypeError(f"cond: the index must be a scalar of dtype int32, got {index.str_short()}")
    first = branches[0].out_avals
    for k, b in enumerate(branches):
        check_types(f"cond: operands of branch {k}", avals, b.in_avals)
        check_types(f"cond: results of branch {k}", b.out_avals, first)
    return first


def _oracle(index: np.ndarray, *args: np.ndarray, branches: Branches) -> list[np.ndarray]:
    return interpret(branches[min(max(int(index), 0), len(branches) - 1)], args)


def _effects(*avals: ShapedArray, branches: Branches) -> frozenset[Any]:
    return frozenset().union(*(b.effects for b in branches))


@remembered
def _thinned(first: ClosedJaxpr, branches: Branches, used: Flags) -> tuple[Branches, list[bool]]:
    needed = union(*(dce_jaxpr(b.jaxpr, used)[1] for b in branches))
    return tuple(remove_dead(ClosedJaxpr(dce_jaxpr(b.jaxpr, used, needed)[0], b.consts)) for b in branches), needed


def _dce(used: Sequence[bool], e: JaxprEqn) -> tuple[list[bool], JaxprEqn | None]:
    """Results nobody uses are dropped from the branches, then operands that no branch needs."""
    branches: Branches = e.params["branches"]
    thin, needed = _thinned(branches[0], branches, tuple(used))
    if all(used) and all(needed) and all(len(t.eqns) == len(b.eqns) for t, b in zip(thin, branches, strict=True)):
        return [True, *needed], e
    invars = [e.invars[0], *chosen(e.invars[1:], needed)]
    params = {"branches": thin}
    return [True, *needed], e.replace(invars=invars, outvars=chosen(e.outvars, used), params=params, effects=_effects(**params))


# Derivatives


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, branches: Branches) -> tuple[list[Any], list[Any]]:
    nonzero = is_nonzero(tangents[1:])
    out_nonzero = union(*(jvp_jaxpr(b, nonzero)[1] for b in branches))
    both = tuple(jvp_jaxpr(b, nonzero, out_nonzero)[0] for b in branches)
    out = cond(*primals, *chosen(tangents[1:], nonzero), branches=both)
    n = len(out_nonzero)
    return out[:n], with_zero_tangents(out_nonzero, out[n:], branches[0].out_avals)


@final
@record(frozen=True)
class _Cut:
    """Branches cut in two. `known`: operands --> results, then slots; `rest`: slots, some of these operands, further ones --> the other
    results."""

    known: Branches
    rest: Branches
    operands: tuple[int, ...]

    def residuals(self, args: Sequence[Any], slots: Sequence[Any]) -> list[Any]:
        return [*slots, *(args[k] for k in self.operands)]


def _cut(splits: Sequence[Split], results: int) -> _Cut:
    """Residuals of different branches share slots where their types agree; one that is an operand needs none."""
    slots: list[ShapedArray] = []
    passed: list[int] = []
    wiring: list[list[tuple[str, int]]] = []
    for s in splits:
        free = list(range(len(slots)))
        wires = []
        for r in s.residuals:
            if r.where == "in":
                if r.position not in passed:
                    passed.append(r.position)
                wires.append(("operand", passed.index(r.position)))
                continue
            aval = s.known.out_avals[r.position]
            k = next((k for k in free if same_type(slots[k], aval)), None)
            if k is None:
                k = len(slots)
                slots.append(aval.strip_weak_type())
            else:
                free.remove(k)
            wires.append(("slot", k))
        wiring.append(wires)

    def known(s: Split, wires: Sequence[tuple[str, int]]) -> ClosedJaxpr:
        def run(*args: Any) -> list[Any]:
            out = evaluate(s.known, args)
            filled = {k: out[r.position] for (where, k), r in zip(wires, s.residuals, strict=True) if where == "slot"}
            return out[:results] + [filled[k] if k in filled else zeros(a) for k, a in enumerate(slots)]

        return program(run, s.known.in_avals, s.known)

    def rest(s: Split, wires: Sequence[tuple[str, int]]) -> ClosedJaxpr:
        def run(*args: Any) -> list[Any]:
            here = {"slot": 0, "operand": len(slots)}
            return evaluate(s.unknown, [*(args[here[where] + k] for where, k in wires), *args[len(slots) + len(passed) :]])

        operands = [s.known.in_avals[k] for k in passed]
        return program(run, [*slots, *operands, *s.unknown.in_avals[len(wires) :]], s.unknown)

    return _Cut(
        tuple(known(s, w) for s, w in zip(splits, wiring, strict=True)),
        tuple(rest(s, w) for s, w in zip(splits, wiring, strict=True)),
        tuple(passed),
    )


@remembered
def _linearized(first: ClosedJaxpr, branches: Branches, nonzero: Flags) -> tuple[_Cut, list[bool]]:
    out_nonzero = union(*(linearize_jaxpr(b, nonzero).out_nonzero for b in branches))
    return _cut([linearize_jaxpr(b, nonzero, out_nonzero).split for b in branches], len(out_nonzero)), out_nonzero


def _linearize(nonzero: Flags, index: Any, *args: Any, branches: Branches) -> tuple[list[Any], Any]:
    cut, out_nonzero = _linearized(branches[0], branches, nonzero[1:])
    n = len(out_nonzero)
    outs = cond(index, *args, branches=cut.known)
    residuals = cut.residuals(args, outs[n:])

    def lin(*tangents: Any) -> list[Any]:
        trace: Any = current_trace()
        operands = [index, *residuals, *chosen(tangents, nonzero)]
        moved = trace.record(cond, operands, {"branches": cut.rest}) if any(out_nonzero) else []
        return with_zero_tangents(out_nonzero, moved, branches[0].out_avals)

    return outs[:n], lin


@remembered
def _partly_evaluated(first: ClosedJaxpr, branches: Branches, unknown: Flags) -> tuple[_Cut, list[bool]]:
    out_unknown = union(*(partial_eval_jaxpr(b, unknown).out_unknown for b in branches))
    splits = [partial_eval_jaxpr(b, unknown, out_unknown).split for b in branches]
    return _cut(splits, len(out_unknown) - sum(out_unknown)), out_unknown


def _partial_eval(trace: PartialTrace, unknown: Flags, index: Any, *args: Any, branches: Branches) -> list[Any]:
    if unknown[0]:
        return trace.record(cond, [index, *args], {"branches": branches})
    cut, out_unknown = _partly_evaluated(branches[0], branches, unknown[1:])
    if all(out_unknown) and not any(b.eqns for b in cut.known):
        return trace.record(cond, [index, *args], {"branches": branches})
    n = len(out_unknown) - sum(out_unknown)
    given = others(args, unknown[1:])
    outs = cond(index, *given, branches=cut.known)
    operands = [index, *cut.residuals(given, outs[n:]), *chosen(args, unknown[1:])]
    rest = trace.record(cond, operands, {"branches": cut.rest}) if any(out_unknown) else []
    return spread(out_unknown, rest, outs[:n])


def _transpose(cts: Sequence[Any], index: Any, *args: Any, branches: Branches) -> list[Any]:
    linear = [type(x) is Linear for x in args]
    ct_nonzero = is_nonzero(cts)
    out_nonzero = union(*(transpose_jaxpr(b, linear, ct_nonzero)[1] for b in branches))
    backward = tuple(transpose_jaxpr(b, linear, ct_nonzero, out_nonzero)[0] for b in branches)
    known = others(args, linear)
    out = cond(index, *known, *chosen(cts, ct_nonzero), branches=backward) if any(out_nonzero) else []
    moved = with_zero_tangents(out_nonzero, out, [x.aval for x in chosen(args, linear)])
    return [None, *spread(linear, moved, [None] * len(known))]


# Batching


def _batch(axis: Axis, args: Sequence[Any], dims: Sequence[int | None], *, branches: Branches) -> tuple[list[Any], list[Any]]:
    index, *operands = args
    batched = [d is not None for d in dims[1:]]
    operands = [x if d is None else to_front(x, d, axis.size) for x, d in zip(operands, dims[1:], strict=True)]
    if dims[0] is not None:
        return _select(axis, index, operands, batched, branches)
    out_batched = union(*(batch_jaxpr(b, axis, batched)[1] for b in branches))
    each = tuple(batch_jaxpr(b, axis, batched, out_batched)[0] for b in branches)
    out = cond(index, *operands, branches=each)
    return out, [0 if b else None for b in out_batched]


def _select(axis: Axis, index: Any, operands: Sequence[Any], batched: Sequence[bool], branches: Branches) -> tuple[list[Any], list[Any]]:
    """Each element may take another branch: all of them run, and each result is chosen from theirs. Elements that do not take a branch give
    it no cotangents, which may well be NaN there."""
    if any(e.ordered for b in branches for e in b.effects if hasattr(e, "ordered")):
        raise NotImplementedError(
            "vmap of cond with a batched predicate: the branches have ordered side effects, and only those of the branch taken may happen"
        )
    outs = []
    for k, b in enumerate(branches):
        mine = eq(index, typed_scalar(k, dtypes.int32))
        if has_checks(b):
            outs.append(evaluate(_masked(check.guarded(b), axis, (True, *batched)), [mine, mine, *operands]))
        else:
            outs.append(evaluate(_masked(b, axis, tuple(batched)), [mine, *operands]))
    out = [select_n(broadcast(index, cases[0].shape, (0,)), *cases) for cases in zip(*outs, strict=True)]
    return out, [0] * len(out)


@remembered
def _masked(closed: ClosedJaxpr, axis: Axis, batched: Flags) -> ClosedJaxpr:
    """A branch on a batch, batch axes in front. The first input says which elements take the branch: to the others flow no cotangents.

    Where a value that is the same for all elements meets batched ones, that is done to the smaller: the value, or the result (so that a
    matrix that all elements share remains one)."""
    dims = [0, *(0 if b else None for b in batched)]

    def element(mine: Any, *args: Any) -> list[Any]:
        trace: Any = current_trace()

        def masked(x: Any) -> Any:
            if not is_differentiable(x.aval):
                return x
            if x.aval.ndim and not is_batched(x):  # repeated here, not for each of the two cases
                with set_current_trace(trace.parent):
                    repeated = to_front(x, None, axis.size)
                x = trace.join(repeated, 0)
            return select_n(mine, unchosen(x), x)

        def is_batched(x: Any) -> bool:
            return type(x) is BatchTracer and x._trace is trace

        shared: dict[int, tuple[Any, Any]] = {}  # by id: the value, which must live for its id to be its own, and its masked form

        def run(jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
            env: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args), strict=True))
            for e in jaxpr.eqns:
                xs = [read(env, a) for a in e.invars]
                late = False
                if any(map(is_batched, xs)):
                    size = sum(v.aval.size for v in e.outvars)
                    for k, x in enumerate(xs):
                        if not is_batched(x) and type(x) is not TypedScalar and is_differentiable(x.aval):
                            if x.aval.size > size or e.op.subprograms is not None:
                                late = True
                            else:
                                if id(x) not in shared:
                                    shared[id(x)] = x, masked(x)
                                xs[k] = shared[id(x)][1]
                if e.op is jit:
                    out = run(e.params["jaxpr"].jaxpr, e.params["jaxpr"].consts, xs)
                else:
                    out = [masked(y) if late and is_batched(y) else y for y in e.bind(xs)]
                env.update(zip(e.outvars, out, strict=True))
            return [read(env, a) for a in jaxpr.outvars]

        return run(closed.jaxpr, closed.consts, [masked(x) if is_batched(x) else x for x in map(as_value, args)])

    def run_batch(*args: Any) -> list[Any]:
        outs, out_dims = batch_flat(element, axis, args, dims)
        return [to_front(y, d, axis.size) for y, d in zip(outs, out_dims, strict=True)]

    mine = ShapedArray((axis.size,), dtypes.bool_)
    avals = [mine, *(batched_aval(a, d, axis.size) for a, d in zip(closed.in_avals, dims[1:], strict=True))]
    return program(run_batch, avals, closed)


# The record


def _samples() -> Iterable[Any]:
    aval = ShapedArray((2, 3), np.dtype("float32"))
    scalar = ShapedArray((), np.dtype("int32"))
    branches = tuple(
        trace_to_jaxpr(f, [aval, scalar])
        for f in (lambda x, n: [sin(x), n], lambda x, n: [x, add(n, n)], lambda x, n: [add(x, x), typed_scalar(7, dtypes.int32)])
    )
    for k in (-1, 0, 1, 2, 5):
        yield (np.int32(k), filled((2, 3), "float32"), np.int32(4)), {"branches": branches}
    yield (np.int32(1), filled((2, 3), "float32"), np.int32(4)), {"branches": branches[1:2]}


cond = Op(
    "cond",
    typ=_typ,
    oracle=_oracle,
    lower=lambda avals_in, avals_out, *, branches: Branch(branches),
    multiple_results=True,
    jvp=_jvp,
    linearize=_linearize,
    partial_eval=_partial_eval,
    transpose=_transpose,
    batch=_batch,
    dce=_dce,
    effects=_effects,
    subprograms=lambda params: params["branches"],
    samples=_samples,
)
"""branches: ClosedJaxprs of equal operand and result types."""
