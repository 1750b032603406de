"""scan: a program repeated over the leading axis of arrays.

Operands: constants, initial carries, arrays of leading axis `length`. Results: the last carries, then an array of `length` rows for each
further result of the program. Positions go down with `reverse`; rows stand where their arguments stood."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from steno._native import current_trace
from steno.core import dtypes
from steno.core.aval import ShapedArray
from steno.core.interpret import interpret
from steno.core.jaxpr import ClosedJaxpr, JaxprEqn, dce_jaxpr
from steno.core.op import Op
from steno.core.sizes import UnknownSize
from steno.core.trace import trace_to_jaxpr
from steno.ir.kinds import Scan
from steno.ops.arithmetic import add, mul
from steno.ops.control import (
    check_param,
    check_types,
    chosen,
    evaluate,
    is_nonzero,
    made,
    others,
    reordered,
    split,
    spread,
    union,
    with_zero_tangents,
)
from steno.ops.samples import filled
from steno.ops.scan_backward import transposed
from steno.ops.scan_cut import Cut, linearized, partly_evaluated
from steno.transforms.batching import batch_jaxpr
from steno.transforms.forward import jvp_jaxpr
from steno.transforms.partial import PartialTrace
from steno.transforms.programs import Flags, remembered, remove_dead
from steno.transforms.rules import Axis, Linear, tangent_aval, to_dim, to_front, zeros


def stacked(aval: ShapedArray, length: int) -> ShapedArray:
    """The type of an array of `length` rows."""
    return aval.update(shape=(length, *aval.shape))


def parts(xs: Sequence[Any], params: dict[str, Any]) -> tuple[list[Any], list[Any], list[Any]]:
    """Of one entry for each operand, or input of the program: those of constants, carries, arrays."""
    constants, carries, arrays = split(xs, params["num_consts"], params["num_carry"])
    return constants, carries, arrays


def out_avals(params: dict[str, Any]) -> list[ShapedArray]:
    """The types of the results."""
    out = params["jaxpr"].out_avals
    return [a if k < params["num_carry"] else stacked(a, params["length"]) for k, a in enumerate(out)]


_PARAMS: Final = (
    ("jaxpr", ClosedJaxpr, "closed Jaxpr"),
    ("length", int | UnknownSize, "int"),
    ("reverse", bool, "bool"),
    ("num_consts", int, "int"),
    ("num_carry", int, "int"),
)


def _typ(*avals: ShapedArray, **params: Any) -> list[ShapedArray]:
    for name, kind, what in _PARAMS:
        check_param("scan", name, params[name], kind, what)
    constants, carries, arrays = parts(avals, params)
    wanted = parts(params["jaxpr"].in_avals, params)
    check_types("scan: constants and carries", [*constants, *carries], [*wanted[0], *wanted[1]])
    check_types("scan: arrays", arrays, [stacked(a, params["length"]) for a in wanted[2]])
    out = out_avals(params)
    check_types("scan: carries its program returns", out[: params["num_carry"]], carries)
    return out


def _oracle(
    *args: np.ndarray, jaxpr: ClosedJaxpr, length: int, reverse: bool, num_consts: int, num_carry: int, **_: Any
) -> list[np.ndarray]:
    constants, carries, arrays = split(args, num_consts, num_carry)
    out = jaxpr.out_avals[num_carry:]
    rows = [np.empty((length, *a.shape), dtypes.host_dtype(a.dtype)) for a in out]
    for i in reversed(range(length)) if reverse else range(length):
        out = interpret(jaxpr, [*constants, *carries, *(x[i] for x in arrays)])
        carries = out[:num_carry]
        for r, y in zip(rows, out[num_carry:], strict=True):
            r[i] = y
    return [*carries, *rows]


def _lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], **params: Any) -> Scan:
    return Scan(params["jaxpr"], params["num_consts"], params["num_carry"], params["length"], params["reverse"])


@remembered
def _thinned(closed: ClosedJaxpr, n: int, c: int, used: Flags) -> tuple[ClosedJaxpr, list[bool], list[bool]]:
    """The program without rows nobody uses, carries that neither results nor carries that stay depend on, and what only these read. Which
    inputs and outputs stay."""
    stays, rows = split(used, c)
    while True:
        needed = dce_jaxpr(closed.jaxpr, [*stays, *rows])[1]
        if union(stays, needed[n : n + c]) == stays:
            break
        stays = union(stays, needed[n : n + c])
    inputs = [*needed[:n], *stays, *needed[n + c :]]
    outputs = [*stays, *rows]
    return remove_dead(ClosedJaxpr(dce_jaxpr(closed.jaxpr, outputs, inputs)[0], closed.consts)), inputs, outputs


def _dce(used: Sequence[bool], e: JaxprEqn) -> tuple[list[bool], JaxprEqn | None]:
    jaxpr: ClosedJaxpr = e.params["jaxpr"]
    thin, inputs, outputs = _thinned(jaxpr, e.params["num_consts"], e.params["num_carry"], tuple(used))
    if all(inputs) and all(outputs) and len(thin.eqns) == len(jaxpr.eqns):
        return inputs, e
    constants, carries, _ = parts(inputs, e.params)
    params = e.params | {"jaxpr": thin, "num_consts": sum(constants), "num_carry": sum(carries)}
    return inputs, e.replace(invars=chosen(e.invars, inputs), outvars=chosen(e.outvars, outputs), params=params, effects=thin.effects)


@remembered
def _with_tangents(closed: ClosedJaxpr, n: int, c: int, nonzero: Flags) -> tuple[ClosedJaxpr, list[bool], list[bool]]:
    """The program of values and tangents, which carries have tangents, and which results.

    Inputs: constants, their tangents, carries, their tangents, arrays, their tangents; results likewise."""
    constants, nz, arrays = split(nonzero, n, c)
    outs = len(closed.jaxpr.outvars)
    while True:
        both, out_nonzero = jvp_jaxpr(closed, [*constants, *nz, *arrays], [*nz, *[False] * (outs - c)])
        if union(nz, out_nonzero[:c]) == nz:
            break
        nz = union(nz, out_nonzero[:c])
    k = len(closed.jaxpr.invars)
    p = split(range(k), n, c)
    t = split(range(k, k + sum(constants) + sum(nz) + sum(arrays)), sum(constants), sum(nz))
    order = (*p[0], *t[0], *p[1], *t[1], *p[2], *t[2])
    changed = outs + sum(nz)
    results = (*range(c), *range(outs, changed), *range(c, outs), *range(changed, outs + sum(out_nonzero)))
    return reordered(both, order, results), nz, list(out_nonzero)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[list[Any], list[Any]]:
    n, c = params["num_consts"], params["num_carry"]
    both, nz, out_nonzero = _with_tangents(params["jaxpr"], n, c, is_nonzero(tangents))
    p, t = parts(primals, params), parts(tangents, params)
    constants, arrays = made(t[0], is_nonzero(t[0])), made(t[2], is_nonzero(t[2]))
    out = scan(
        *p[0], *constants, *p[1], *made(t[1], nz), *p[2], *arrays,
        **params | {"jaxpr": both, "num_consts": n + len(constants), "num_carry": c + sum(nz)},
    )  # fmt: skip
    avals = out_avals(params)
    carries, carry_tangents, ys, y_tangents = split(out, c, sum(nz), len(avals) - c)
    return [*carries, *ys], with_zero_tangents(out_nonzero, [*carry_tangents, *y_tangents], avals)


def _run_known(
    cut: Cut, constants: Sequence[Any], carries: Sequence[Any], arrays: Sequence[Any], params: dict[str, Any]
) -> tuple[list[Any], list[Any], list[Any]]:
    """Runs the known scan of a cut on its operands. Its results (residuals behind them), then the residuals that are the same in all
    iterations, and those that are rows of arrays."""
    before = evaluate(cut.before, constants)
    taken = [*before, *chosen(constants, cut.constants)]
    out = scan(*taken, *carries, *arrays, **params | {"jaxpr": cut.known, "num_consts": len(taken), "num_carry": len(carries)})
    places = {"constant": constants, "before": before, "array": arrays, "row": out[len(carries) :]}
    return out, [places[where][k] for where, k in cut.fixed], [places[where][k] for where, k in cut.rows]


def _linearize(nonzero: Flags, *primals: Any, **params: Any) -> tuple[list[Any], Any]:
    n, c = params["num_consts"], params["num_carry"]
    cut = linearized(params["jaxpr"], n, c, nonzero)
    out, fixed, rows = _run_known(cut, *parts(primals, params), params)
    out_nonzero = [*cut.carries_rest, *cut.rows_rest]

    def lin(*tangents: Any) -> list[Any]:
        trace: Any = current_trace()
        t, nz = parts(tangents, params), parts(nonzero, params)
        constants, carries, arrays = made(t[0], nz[0]), made(t[1], cut.carries_rest), made(t[2], nz[2])
        changed = {"jaxpr": cut.rest, "num_consts": len(fixed) + len(constants), "num_carry": len(carries)}
        moved = trace.record(scan, [*fixed, *constants, *carries, *rows, *arrays], params | changed) if any(out_nonzero) else []
        return with_zero_tangents(out_nonzero, moved, out_avals(params))

    return out[: len(out_nonzero)], lin


def _split_operands(
    cut: Cut, unknown: Sequence[bool], args: Sequence[Any], params: dict[str, Any]
) -> tuple[list[Any], list[Any], dict[str, Any]]:
    """Runs what the known operands decide. Its results; operands and parameters of the scan that gives the others."""
    (constants, carries, arrays), uk = parts(args, params), parts(unknown, params)
    given = others(constants, uk[0]), others(carries, cut.carries_rest), others(arrays, uk[2])
    out, fixed, rows = _run_known(cut, *given, params)
    constants, carries, arrays = chosen(constants, uk[0]), chosen(carries, cut.carries_rest), chosen(arrays, uk[2])
    changed = {"jaxpr": cut.rest, "num_consts": len(fixed) + len(constants), "num_carry": len(carries)}
    known = len(cut.carries_rest) + len(cut.rows_rest) - sum(cut.carries_rest) - sum(cut.rows_rest)
    return out[:known], [*fixed, *constants, *carries, *rows, *arrays], params | changed


def _partial_eval(trace: PartialTrace, unknown: Flags, *args: Any, **params: Any) -> list[Any]:
    cut = partly_evaluated(params["jaxpr"], params["num_consts"], params["num_carry"], unknown)
    out_unknown = [*cut.carries_rest, *cut.rows_rest]
    if all(out_unknown) and not cut.known.eqns and not cut.before.eqns or params["jaxpr"].effects:
        return trace.record(scan, args, params)
    known, operands, rest = _split_operands(cut, unknown, args, params)
    return spread(out_unknown, trace.record(scan, operands, rest) if any(out_unknown) else [], known)


def _transpose(cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
    n, c = params["num_consts"], params["num_carry"]
    linear = [type(x) is Linear for x in args]
    if not all(linear[n : n + c]):
        # known carries that stay known run ahead; a known initial value of one that does not is no concern of the transpose
        cut = partly_evaluated(params["jaxpr"], n, c, tuple(linear))
        if not all(cut.carries_rest):
            _, operands, rest = _split_operands(cut, linear, args, params)
            moved = _transpose(chosen(cts, [*cut.carries_rest, *cut.rows_rest]), *operands, **rest)
            there = iter(ct for x, ct in zip(operands, moved, strict=True) if type(x) is Linear)
            return [next(there) if w else None for w in linear]
    constants, carries, arrays = parts(args, params)
    ct_carries, ct_rows = split(cts, c)
    flags = [*linear[:n], *[True] * c, *linear[n + c :]]
    back = transposed(params["jaxpr"], n, c, tuple(flags), is_nonzero(cts), params["length"])
    known = others(constants, linear[:n]), others(arrays, linear[n + c :])
    types = [[tangent_aval(x.aval) for x in chosen(xs, lin)] for xs, lin in ((constants, linear[:n]), (arrays, linear[n + c :]))]
    sums, moving = [zeros(a) for a in back.sums], made(ct_carries, back.carries)
    rows = [*known[1], *chosen(ct_rows, is_nonzero(ct_rows))]
    out = scan(
        *known[0], *sums, *moving, *rows,
        jaxpr=back.body, length=params["length"], reverse=not params["reverse"], unroll=params["unroll"],
        num_consts=len(known[0]), num_carry=len(sums) + len(moving),
    )  # fmt: skip
    summed, ct_carries, got = split(out, len(sums), len(moving))
    ct_constants = evaluate(back.after, [*known[0], *summed, *(rows[k] for k in back.given), *(got[k] for k in back.got)])
    carry_avals = [x.aval for x in carries]
    each = [
        *spread(linear[:n], with_zero_tangents(back.constants, ct_constants, types[0]), [None] * n),
        *with_zero_tangents(back.carries, ct_carries, carry_avals),
        *spread(linear[n + c :], with_zero_tangents(back.arrays, got, types[1]), [None] * len(arrays)),
    ]
    return [ct if w else None for ct, w in zip(each, linear, strict=True)]


def _batch(axis: Axis, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> tuple[list[Any], list[Any]]:
    jaxpr: ClosedJaxpr = params["jaxpr"]
    c = params["num_carry"]
    constants, carries, arrays = parts([d is not None for d in dims], params)
    while True:
        instantiate = [*carries, *[False] * (len(jaxpr.outvars) - c)]
        each, out_batched = batch_jaxpr(jaxpr, axis, [*constants, *carries, *arrays], instantiate)
        if union(carries, out_batched[:c]) == carries:
            break
        carries = union(carries, out_batched[:c])
    x, d = parts(args, params), parts(dims, params)
    out = scan(
        *(a if k is None else to_front(a, k, axis.size) for a, k in zip(x[0], d[0], strict=True)),
        *(to_front(a, k, axis.size) if b else a for a, k, b in zip(x[1], d[1], carries, strict=True)),
        *(a if k is None else to_dim(a, k, 1, axis.size) for a, k in zip(x[2], d[2], strict=True)),
        **params | {"jaxpr": each},
    )
    return out, [(0 if k < c else 1) if b else None for k, b in enumerate(out_batched)]


def _samples() -> Iterable[Any]:
    f32, i32 = np.dtype("float32"), np.dtype("int32")
    row, scalar = ShapedArray((3,), f32), ShapedArray((), i32)

    def body(w: Any, n: Any, c: Any, x: Any) -> list[Any]:
        y = add(mul(c, w), x)
        return [add(n, n), y, mul(x, w), n]

    jaxpr = trace_to_jaxpr(body, [row, scalar, row, row])
    for length in (0, 1, 4):
        for reverse in (False, True):
            args = (filled((3,), f32), np.int32(3), filled((3,), f32, 1), filled((length, 3), f32, 2))
            yield args, {"jaxpr": jaxpr, "length": length, "reverse": reverse, "unroll": 1, "num_consts": 1, "num_carry": 2}


scan = Op(
    "scan",
    typ=_typ,
    oracle=_oracle,
    lower=_lower,
    multiple_results=True,
    jvp=_jvp,
    linearize=_linearize,
    partial_eval=_partial_eval,
    transpose=_transpose,
    batch=_batch,
    dce=_dce,
    effects=lambda *avals, jaxpr, **_: jaxpr.effects,
    subprograms=lambda params: (params["jaxpr"],),
    samples=_samples,
)
"""jaxpr: a ClosedJaxpr that takes `num_consts` constants, `num_carry` carries and one row of each array, and returns carries and rows.
`unroll` is recorded as given; compiled loops are unrolled as it suits them."""
