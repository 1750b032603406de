"""Programs whose failures are values: checks become bools that are computed along, and the first failure is handed on.

`CheckTrace` hands each op to the trace below and computes there, by the op's rule, whether it failed. It has no tracers of its own: a value
is what it is below. An op with programs gets programs that give their failure as further results; loops carry it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, final

import ml_dtypes
import numpy as np

from steno._native import ArrayImpl, ShapedArray, current_trace, swap_trace
from steno.core import dtypes
from steno.core.aval import typed_scalar, typeof
from steno.core.jaxpr import ClosedJaxpr, eval_jaxpr
from steno.core.op import Op
from steno.core.record import record
from steno.core.trace import Trace, trace_to_jaxpr
from steno.ops.arithmetic import div, rem, stop_gradient
from steno.ops.bitwise import and_, or_
from steno.ops.check import (
    CheckFailure,
    DivisionByZeroError,
    FailedCheckError,
    Layout,
    NaNError,
    OOBError,
    Signature,
    bind_check,
    check,
    check_effect,
    code_of,
    first_failed,
    has_checks,
)
from steno.ops.compare import eq, gt, lt, ne, select_n
from steno.ops.cond import Branches, cond
from steno.ops.control import evaluate, program, reordered, split
from steno.ops.gather import gather
from steno.ops.implicit import custom_linear_solve, custom_root
from steno.ops.index import dynamic_slice, dynamic_update_slice
from steno.ops.join import stack
from steno.ops.reduce import reduce_or
from steno.ops.scan import scan
from steno.ops.scatter import scatter, scatter_add, scatter_max, scatter_min, scatter_mul, scatter_sub, window_sizes
from steno.ops.structural import jit
from steno.ops.while_loop import while_
from steno.transforms.custom import AbstractCustomJvp, AbstractCustomVjp, Pull, custom_jvp_call, custom_vjp_call
from steno.transforms.custom_linear import linear_call
from steno.transforms.programs import anonymous, remembered
from steno.transforms.remat import remat
from steno.transforms.rules import as_value, broadcast, is_differentiable, reshape, zero_of, zeros

Categories = frozenset[type[CheckFailure]]


# Failures as values


@final
@record(eq=False)
class Failure:
    """What has failed so far: `pred` (bool), `code` (int32), and the payloads that codes of each signature need."""

    pred: Any
    code: Any
    payload: dict[Signature, list[Any]]

    @property
    def layout(self) -> Layout:
        return tuple(self.payload)

    @property
    def leaves(self) -> list[Any]:
        return [self.pred, self.code, *(x for values in self.payload.values() for x in values)]


def failure_of(leaves: Sequence[Any], layout: Layout) -> Failure:
    """The inverse of `leaves`."""
    pred, code, *rest = leaves
    values = iter(rest)
    return Failure(pred, code, {s: [next(values) for _ in s] for s in layout})


def failing(pred: Any, code: int, signature: Signature = (), values: Sequence[Any] = ()) -> Failure:
    """What fails, with this code, if `pred` is true."""
    return Failure(pred, typed_scalar(code, dtypes.int32), {signature: list(values)} if signature else {})


def merged(first: Failure | None, second: Failure | None) -> Failure | None:
    """The first of two failures if there is one, else the second. None: nothing can fail."""
    if first is None or second is None:
        return second if first is None else first
    payload = dict(first.payload)
    for s, values in second.payload.items():
        payload[s] = [select_n(first.pred, y, x) for x, y in zip(payload[s], values, strict=True)] if s in payload else values
    return Failure(or_(first.pred, second.pred), select_n(first.pred, second.code, first.code), payload)


def no_failure(layout: Layout) -> Failure:
    return Failure(zeros(ShapedArray((), dtypes.bool_)), zeros(ShapedArray((), dtypes.int32)), {s: [zeros(a) for a in s] for s in layout})


def arranged(failure: Failure | None, layout: Layout) -> Failure:
    """The failure with payloads for all of `layout`."""
    if failure is None:
        return no_failure(layout)
    return Failure(failure.pred, failure.code, {s: failure.payload[s] if s in failure.payload else [zeros(a) for a in s] for s in layout})


def joined(layouts: Iterable[Layout | None]) -> Layout | None:
    """A layout for failures of all these; None if there are none."""
    there = [layout for layout in layouts if layout is not None]
    return tuple(dict.fromkeys(s for layout in there for s in layout)) if there else None


def avals_of(layout: Layout) -> list[ShapedArray]:
    """The types of the leaves."""
    return [ShapedArray((), dtypes.bool_), ShapedArray((), dtypes.int32), *(a for s in layout for a in s)]


def signature_of(values: Sequence[Any]) -> Signature:
    return tuple(typeof(x).strip_weak_type() for x in values)


def for_message(values: Iterable[Any]) -> list[Any]:
    """Values in a payload, which derivatives do not look at."""
    return [stop_gradient(x) if is_differentiable(x.aval) else x for x in map(as_value, values)]


# The trace


@final
class CheckTrace(Trace):
    __slots__ = ("categories", "failure", "over", "parent")

    def __init__(self, parent: Trace | None, categories: Categories) -> None:
        self.parent, self.categories, self.over = parent, categories, False
        self.failure: Failure | None = None

    def __repr__(self) -> str:
        return "CheckTrace"

    def is_over(self) -> bool:
        return self.over

    def evaluates(self) -> bool:
        return self.parent is None or self.parent.evaluates()

    def process(self, op: Op, args: Sequence[Any], params: dict[str, Any]) -> Any:
        previous = swap_trace(self.parent)
        try:
            out, failure = _RULES.get(op, _simple)(op, args, params, self.categories)
            self.failure = merged(self.failure, failure)
        finally:
            swap_trace(previous)
        return out


def run_checked(fun: Callable[..., Any], categories: Categories, *args: Any) -> tuple[Any, Failure | None]:
    """Runs `fun` on these values: its result, and what failed."""
    trace = CheckTrace(current_trace(), categories)
    previous = swap_trace(trace)
    try:
        out = fun(*args)
    finally:
        swap_trace(previous)
        trace.over = True
    return out, trace.failure


@remembered
def checked_program(closed: ClosedJaxpr, categories: Categories) -> tuple[ClosedJaxpr, Layout | None]:
    """The program with its failure as further results, and the layout of that; None if it cannot fail, and has no such results."""
    layout: Layout | None = None

    def run(*args: Any) -> list[Any]:
        nonlocal layout
        outs, failure = run_checked(lambda *xs: eval_jaxpr(closed.jaxpr, closed.consts, *xs), categories, *args)
        if failure is None:
            return outs
        layout = failure.layout
        return [*outs, *failure.leaves]

    checked = trace_to_jaxpr(run, closed.in_avals, anonymous(closed.jaxpr, closed.debug_info.traced_for))
    return (closed if layout is None and not has_checks(closed) else checked), layout


def _parted(outs: Sequence[Any], count: int, layout: Layout | None) -> tuple[list[Any], Failure | None]:
    """Results of a checked program of which the first `count` are those it had before."""
    return list(outs[:count]), None if layout is None else failure_of(outs[count:], layout)


# Ops


Outcome = tuple[Any, Failure | None]
Rule = Callable[[Op, Sequence[Any], dict[str, Any], Categories], Outcome]

_NO_NAN: Final = frozenset((
    "abs", "all_gather", "all_to_all", "bitcast_convert_type", "broadcast_in_dim", "ceil", "clamp", "complex", "concatenate", "conj",
    "convert_element_type", "copy", "cummax", "cummin", "custom_lin", "dynamic_slice", "dynamic_update_slice", "floor", "freeze",
    "gather", "get", "imag", "io_callback", "max", "min", "name", "neg", "optimization_barrier", "pad", "pmax", "pmin", "ppermute",
    "pure_callback", "real", "reduce_max", "reduce_min", "reduce_precision", "reshape", "rev", "round", "scatter", "scatter-max",
    "scatter-min", "select_n", "sign", "slice", "sort", "split", "squeeze", "stack", "stop_gradient", "swap", "tile", "top_k", "unchosen",
    "transpose", "unstack",
))  # fmt: skip
"""Ops whose NaNs are their operands', or chosen by the user."""


def _simple(op: Op, args: Sequence[Any], params: dict[str, Any], categories: Categories) -> Outcome:
    """An op without programs to look into: what its operands say, then what its results say."""
    if op.subprograms is not None and any(has_checks(p) for p in op.subprograms(params)):
        raise NotImplementedError(f"checkify: a check inside of {op.name} is not implemented")
    failure = None
    if OOBError in categories and op in _POSITIONS:
        failure = _out_of_bounds(op, args, params)
    if DivisionByZeroError in categories and (op is div or op is rem and dtypes.kind(typeof(args[1]).dtype) in "iu"):
        failure = merged(failure, _any_true([eq(args[1], typed_scalar(0, typeof(args[1]).dtype))], DivisionByZeroError, op))
    out = op(*args, **params)
    if NaNError in categories and op.name not in _NO_NAN:
        outs = [y for y in (out if op.multiple_results else [out]) if _is_array_of_floats(typeof(y))]
        failure = merged(failure, _any_true([ne(y, y) for y in outs], NaNError, op))
    return out, failure


def _is_array_of_floats(aval: Any) -> bool:
    return type(aval) is ShapedArray and dtypes.is_inexact(aval.dtype)


def _any_true(masks: Iterable[Any], category: type[CheckFailure], op: Op) -> Failure | None:
    found = [_any(m) for m in masks if m.aval.size]
    if not found:
        return None
    pred = found[0]
    for p in found[1:]:
        pred = or_(pred, p)
    return failing(pred, code_of(category, op.name))


def _any(mask: Any) -> Any:
    return reduce_or(mask, axes=tuple(range(mask.ndim)), out_sharding=None) if mask.ndim else mask


# Positions: index vectors, and for each component the axis it counts along and the last position that is good


def _of_starts(starts: Sequence[Any], shape: Sequence[int], sizes: Sequence[int]) -> tuple[Any, Sequence[int], list[int]]:
    vector = stack(*starts, axis=0) if starts else None
    return vector, range(len(shape)), [n - s for n, s in zip(shape, sizes, strict=True)]


def _of_slice(args: Sequence[Any], params: dict[str, Any]) -> tuple[Any, Sequence[int], list[int]]:
    x, *starts = args
    return _of_starts(starts, typeof(x).shape, params["slice_sizes"])


def _of_update(args: Sequence[Any], params: dict[str, Any]) -> tuple[Any, Sequence[int], list[int]]:
    x, update, *starts = args
    return _of_starts(starts, typeof(x).shape, typeof(update).shape)


def _of_gather(args: Sequence[Any], params: dict[str, Any]) -> tuple[Any, Sequence[int], list[int]]:
    axes, shape = params["dimension_numbers"].start_index_map, typeof(args[0]).shape
    return args[1], axes, [shape[d] - params["slice_sizes"][d] for d in axes]


def _of_scatter(args: Sequence[Any], params: dict[str, Any]) -> tuple[Any, Sequence[int], list[int]]:
    x, indices, updates = args
    numbers, shape = params["dimension_numbers"], typeof(x).shape
    sizes = window_sizes(shape, typeof(updates).shape, numbers)
    axes = numbers.scatter_dims_to_operand_dims
    return indices, axes, [shape[d] - sizes[d] for d in axes]


_POSITIONS: Final[dict[Op, Callable[..., tuple[Any, Sequence[int], list[int]]]]] = {
    dynamic_slice: _of_slice,
    dynamic_update_slice: _of_update,
    gather: _of_gather,
    **dict.fromkeys((scatter, scatter_add, scatter_sub, scatter_mul, scatter_min, scatter_max), _of_scatter),
}


def _out_of_bounds(op: Op, args: Sequence[Any], params: dict[str, Any]) -> Failure | None:
    """The first component, vector by vector, that lies outside. Payload: the component and its axis. All modes are checked: out of bounds
    is where a window is moved, filled, or left out."""
    vectors, axes, last = _POSITIONS[op](args, params)
    if vectors is None or not typeof(vectors).size:
        return None
    dtype, shape = typeof(vectors).dtype, typeof(vectors).shape
    greatest = int(ml_dtypes.iinfo(dtype).max)
    bounds = broadcast(_constant([min(b, greatest) for b in last], dtype), shape, (len(shape) - 1,))
    bad = gt(vectors, bounds)
    if dtypes.kind(dtype) == "i":
        bad = or_(bad, lt(vectors, typed_scalar(0, dtype)))
    count = typeof(vectors).size
    of_axes = broadcast(_constant(axes, dtypes.int32), shape, (len(shape) - 1,))
    pred, values = first_failed(reshape(bad, (count,)), [reshape(v, (count,)) for v in (vectors, of_axes)])
    signature = signature_of(values)
    return failing(pred, code_of(OOBError, op.name, signature, shape=typeof(args[0]).shape), signature, values)


def _constant(numbers: Sequence[int], dtype: Any) -> ArrayImpl:
    return ArrayImpl.from_numpy(np.asarray(list(numbers), dtype), ShapedArray((len(numbers),), dtype))


# Checks of users


def _check(op: Op, args: Sequence[Any], params: dict[str, Any], categories: Categories) -> Outcome:
    return [], failure_of(args, params["layout"]) if FailedCheckError in categories else None


# Calls


def _call(op: Op, args: Sequence[Any], params: dict[str, Any], categories: Categories) -> Outcome:
    closed, layout = checked_program(params["jaxpr"], categories)
    return _parted(op(*args, **params | {"jaxpr": closed}), len(params["jaxpr"].jaxpr.outvars), layout)


@final
class _CheckedJvp(AbstractCustomJvp):
    """A bundle for a checked function. Its rule is the user's: what that computes is not checked."""

    __slots__ = ("call", "layout", "name", "rule_name", "symbolic_zeros")

    def __init__(self, call: AbstractCustomJvp, layout: Layout) -> None:
        self.call, self.layout = call, layout
        self.name, self.rule_name, self.symbolic_zeros = call.name, call.rule_name, call.symbolic_zeros

    def run(self, *args: Any) -> list[Any]:
        return [*self.call.run(*args), *no_failure(self.layout).leaves]

    def rule(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        outs, out_tangents = self.call.rule(primals, tangents)
        none = no_failure(self.layout).leaves
        return [*outs, *none], [*out_tangents, *map(zero_of, none)]


@final
class _CheckedVjp(AbstractCustomVjp):
    """A bundle for a checked function. Its rules are the user's."""

    __slots__ = ("bwd_name", "call", "fwd_name", "layout", "name", "optimize_remat", "symbolic_zeros")

    def __init__(self, call: AbstractCustomVjp, layout: Layout) -> None:
        self.call, self.layout = call, layout
        self.name, self.fwd_name, self.bwd_name, self.symbolic_zeros = call.name, call.fwd_name, call.bwd_name, call.symbolic_zeros
        self.optimize_remat = call.optimize_remat

    def run(self, *args: Any) -> list[Any]:
        return [*self.call.run(*args), *no_failure(self.layout).leaves]

    def fwd(self, primals: Sequence[Any], nonzero: Sequence[bool]) -> tuple[list[Any], list[Any], Pull]:
        outs, residuals, pull = self.call.fwd(primals, nonzero)
        n = len(outs)
        return [*outs, *no_failure(self.layout).leaves], residuals, lambda res, cts: pull(res, cts[:n])


@remembered
def _checked_bundle(closed: ClosedJaxpr, bundle: Any, categories: Categories) -> Any:
    _, layout = checked_program(closed, categories)
    if layout is None:
        return bundle
    return _CheckedJvp(bundle, layout) if isinstance(bundle, AbstractCustomJvp) else _CheckedVjp(bundle, layout)


def _custom(op: Op, args: Sequence[Any], params: dict[str, Any], categories: Categories) -> Outcome:
    closed, layout = checked_program(params["call_jaxpr"], categories)
    field = "jvp" if op is custom_jvp_call else "fwd"
    bundle = _checked_bundle(params["call_jaxpr"], params[field], categories)
    outs = op(*args, **params | {"call_jaxpr": closed, field: bundle})
    return _parted(outs, len(params["call_jaxpr"].jaxpr.outvars), layout)


def _without_checks(closed: ClosedJaxpr) -> ClosedJaxpr:
    return checked_program(closed, frozenset())[0]


def _implicit(op: Op, args: Sequence[Any], params: dict[str, Any], categories: Categories) -> Outcome:
    """The solver is checked: its failure comes with the solution. What derivatives take of the other programs, and of the solver, is
    not."""
    jaxprs = params["jaxprs"]
    solve, layout = checked_program(jaxprs.solve, categories)
    programs = (solve if j is jaxprs.solve else j if j is None else _without_checks(j) for j in jaxprs)
    outs = op(*args, **params | {"jaxprs": type(jaxprs)(*programs)})
    return _parted(outs, len(jaxprs.solve.jaxpr.outvars), layout)


def _linear_call(op: Op, args: Sequence[Any], params: dict[str, Any], categories: Categories) -> Outcome:
    """The failure, which is not linear in anything, is computed beside the call."""
    callee = params["callee"]
    checked, layout = checked_program(callee, categories)
    outs = op(*args, **params | {"callee": _without_checks(callee), "transpose": _without_checks(params["transpose"])})
    if layout is None:
        return outs, None
    n = len(outs)
    failure = reordered(checked, tuple(range(len(args))), tuple(range(n, len(checked.jaxpr.outvars))))
    return outs, failure_of(evaluate(failure, for_message(args)), layout)


# Branches and loops


@remembered
def _checked_branches(first: ClosedJaxpr, branches: Branches, categories: Categories) -> tuple[Branches, Layout | None]:
    checked = [checked_program(b, categories) for b in branches]
    layout = joined(found for _, found in checked)
    if layout is None:
        return tuple(b for b, _ in checked), None
    n = len(first.jaxpr.outvars)

    def with_failure(closed: ClosedJaxpr, own: Layout | None) -> ClosedJaxpr:
        def run(*args: Any) -> list[Any]:
            outs, failure = _parted(evaluate(closed, args), n, own)
            return [*outs, *arranged(failure, layout).leaves]

        return program(run, closed.in_avals, closed)

    return tuple(with_failure(b, own) for b, own in checked), layout


def _cond(op: Op, args: Sequence[Any], params: dict[str, Any], categories: Categories) -> Outcome:
    branches = params["branches"]
    checked, layout = _checked_branches(branches[0], branches, categories)
    return _parted(cond(*args, branches=checked), len(branches[0].jaxpr.outvars), layout)


def _run(closed: ClosedJaxpr, categories: Categories, args: Sequence[Any], so_far: Failure) -> tuple[list[Any], Failure]:
    """The results of a program, and its failure unless there is one before."""
    checked, own = checked_program(closed, categories)
    outs, failure = _parted(evaluate(checked, args), len(closed.jaxpr.outvars), own)
    both = merged(so_far, failure)
    assert both is not None
    return outs, arranged(both, so_far.layout)


@remembered
def _checked_scan(closed: ClosedJaxpr, n: int, categories: Categories) -> tuple[ClosedJaxpr, Layout | None]:
    """The body with the failure as its first carry."""
    checked, layout = checked_program(closed, categories)
    if layout is None:
        return checked, None
    carried = avals_of(layout)

    def step(*xs: Any) -> list[Any]:
        constants, leaves, rest = split(xs, n, len(carried))
        outs, failure = _run(closed, categories, [*constants, *rest], failure_of(leaves, layout))
        return [*failure.leaves, *outs]

    return program(step, [*closed.in_avals[:n], *carried, *closed.in_avals[n:]], closed), layout


def _scan(op: Op, args: Sequence[Any], params: dict[str, Any], categories: Categories) -> Outcome:
    n = params["num_consts"]
    body, layout = _checked_scan(params["jaxpr"], n, categories)
    if layout is None:
        return scan(*args, **params | {"jaxpr": body}), None
    start = no_failure(layout).leaves
    outs = scan(*args[:n], *start, *args[n:], **params | {"jaxpr": body, "num_carry": params["num_carry"] + len(start)})
    return outs[len(start) :], failure_of(outs[: len(start)], layout)


@remembered
def _checked_while(
    body: ClosedJaxpr, condition: ClosedJaxpr, n: int, m: int, categories: Categories
) -> tuple[ClosedJaxpr, ClosedJaxpr, Layout | None, bool]:
    """Condition and body of the loop with the failure as its first carry, and whether what the condition says is one more, before it: it is
    checked where it is computed, once for each iteration."""
    step, of_body = checked_program(body, categories)
    test, of_test = checked_program(condition, categories)
    layout = joined((of_test, of_body))
    if layout is None:
        return test, step, None, False
    if condition.out_avals[0].shape:
        raise ValueError(
            "Checkify does not support batched while-loops (checkify-of-vmap-of-while): elements that are done still run along, so that a "
            "failure may be none.\nHint: if possible, move the vmap to the outer level to get vmap-of-checkify-of-while."
        )
    carried = avals_of(layout)
    k, carries = len(carried), body.in_avals[m:]
    if of_test is None:

        def plain_test(*xs: Any) -> list[Any]:
            conditions, _, rest = split(xs, n, k)
            return evaluate(test, [*conditions, *rest])

        def plain_step(*xs: Any) -> list[Any]:
            constants, leaves, rest = split(xs, m, k)
            outs, failure = _run(body, categories, [*constants, *rest], failure_of(leaves, layout))
            return [*failure.leaves, *outs]

        avals = [*carried, *carries]
        in_test, in_step = [*condition.in_avals[:n], *avals], [*body.in_avals[:m], *avals]
        return program(plain_test, in_test, condition), program(plain_step, in_step, body), layout, False

    def step_and_test(*xs: Any) -> list[Any]:
        conditions, constants, _, leaves, rest = split(xs, n, m, 1, k)
        outs, failure = _run(body, categories, [*constants, *rest], failure_of(leaves, layout))
        running, failure = _run(condition, categories, [*conditions, *outs], failure)
        return [*running, *failure.leaves, *outs]

    avals = [condition.out_avals[0], *carried, *carries]
    in_step = [*condition.in_avals[:n], *body.in_avals[:m], *avals]
    return program(lambda *xs: xs[:1], avals, condition), program(step_and_test, in_step, body), layout, True


def _while(op: Op, args: Sequence[Any], params: dict[str, Any], categories: Categories) -> Outcome:
    condition, body, n, m = params["cond_jaxpr"], params["body_jaxpr"], params["cond_nconsts"], params["body_nconsts"]
    test, step, layout, carries_test = _checked_while(body, condition, n, m, categories)
    programs = {"cond_jaxpr": test, "body_jaxpr": step}
    if layout is None:
        return while_(*args, **params | programs), None
    failure = no_failure(layout)
    constants, carries = args[: n + m], args[n + m :]
    if not carries_test:
        outs = while_(*constants, *failure.leaves, *carries, **params | programs)
    else:
        running, failure = _run(condition, categories, [*args[:n], *carries], failure)
        counts = {"cond_nconsts": 0, "body_nconsts": n + m}
        outs = while_(*constants, *running, *failure.leaves, *carries, **programs, **counts)[1:]
    k = len(failure.leaves)
    return outs[k:], failure_of(outs[:k], layout)


_RULES: Final[dict[Op, Rule]] = {
    check: _check,
    jit: _call,
    remat: _call,
    custom_jvp_call: _custom,
    custom_vjp_call: _custom,
    custom_linear_solve: _implicit,
    custom_root: _implicit,
    linear_call: _linear_call,
    cond: _cond,
    scan: _scan,
    while_: _while,
}


@remembered
def _guarded(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with a further first input, a bool: where that is false no check of the program fails."""
    checked, layout = checked_program(closed, frozenset({FailedCheckError}))
    if layout is None:
        return program(lambda _, *xs: evaluate(checked, xs), [_BOOL, *closed.in_avals], closed)
    debug = check_effect not in closed.effects

    def run(guard: Any, *xs: Any) -> list[Any]:
        outs, failure = _parted(evaluate(checked, xs), len(closed.jaxpr.outvars), layout)
        assert failure is not None
        pred, *rest = failure.leaves
        bind_check([and_(guard, pred), *rest], layout, debug)
        return outs

    return program(run, [_BOOL, *closed.in_avals], closed)


_BOOL: Final = ShapedArray((), dtypes.bool_)
check.guarded = _guarded  # type: ignore[attr-defined]


def categories_in(errors: Iterable[type[CheckFailure]]) -> Iterator[type[CheckFailure]]:
    """The categories asked for. TypeError for what is none."""
    for e in errors:
        if not (isinstance(e, type) and issubclass(e, CheckFailure)):
            raise TypeError(
                f"checkify: errors must be a set of categories, such as checkify.user_checks | checkify.float_checks, got {e!r} in it"
            )
        yield e
