"""while: a program repeated as long as another gives true.

Operands: constants of the condition, constants of the body, the initial carries. A condition that is an array (a loop under vmap) has the
leading axes of every carry for axes: each of its elements stops by itself, its part of the carries stays as it is from then on, and
the loop ends with the last of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from steno._native import current_trace
from steno.core import dtypes
from steno.core.aval import ShapedArray, typed_scalar
from steno.core.interpret import interpret
from steno.core.jaxpr import ClosedJaxpr, JaxprEqn, dce_jaxpr
from steno.core.op import Op
from steno.core.trace import trace_to_jaxpr
from steno.ir.kinds import While
from steno.ops.arithmetic import add, mul
from steno.ops.bitwise import and_
from steno.ops.compare import lt, select_n
from steno.ops.control import (
    check_param,
    check_types,
    chosen,
    evaluate,
    inverted,
    is_nonzero,
    made,
    others,
    program,
    reordered,
    split,
    spread,
    union,
    with_zero_tangents,
)
from steno.ops.reduce import reduce_or
from steno.ops.samples import filled
from steno.transforms.batching import batch_jaxpr
from steno.transforms.forward import jvp_jaxpr
from steno.transforms.partial import PartialTrace, partial_eval_jaxpr
from steno.transforms.programs import Flags, remembered, remove_dead
from steno.transforms.rules import Axis, broadcast, instantiate, tangent_aval, to_front

REVERSE_ERROR = (
    "Reverse-mode differentiation does not work for lax.while_loop or lax.fori_loop with dynamic start/stop values. Try using lax.scan, or "
    "using fori_loop with static start/stop.\n"
    "The backward pass goes through the iterations in reverse and needs what each of them computed; how many there will be is not known "
    "when memory for that is set aside. What to write instead:\n"
    "  * lax.fori_loop with bounds that are Python integers or known while tracing (it becomes a scan);\n"
    "  * lax.scan over a fixed number of iterations, with lax.cond or jnp.where in the body for those after the last;\n"
    "  * jax.jvp, jax.jacfwd or jax.linearize: forward mode works;\n"
    "  * lax.custom_root or jax.custom_vjp for a loop that ends at a fixed point: its derivative needs no iterations."
)


def _parts(xs: Sequence[Any], params: dict[str, Any]) -> tuple[list[Any], list[Any], list[Any]]:
    """Of one entry for each operand: those of the condition's constants, of the body's, of the carries."""
    conditions, constants, carries = split(xs, params["cond_nconsts"], params["body_nconsts"])
    return conditions, constants, carries


def _typ(*avals: ShapedArray, **params: Any) -> list[ShapedArray]:
    condition, body = params["cond_jaxpr"], params["body_jaxpr"]
    check_param("while", "cond_jaxpr", condition, ClosedJaxpr, "closed Jaxpr")
    check_param("while", "body_jaxpr", body, ClosedJaxpr, "closed Jaxpr")
    conditions, constants, carries = _parts(avals, params)
    check_types("while: operands of the condition", [*conditions, *carries], condition.in_avals)
    check_types("while: operands of the body", [*constants, *carries], body.in_avals)
    check_types("while: results of the body", body.out_avals, carries)
    predicate = condition.out_avals
    if len(predicate) != 1 or predicate[0].dtype != dtypes.bool_:
        raise TypeError(f"while: the condition must give one bool, got {', '.join(a.str_short() for a in predicate)}")
    shape = predicate[0].shape
    if any(c.shape[: len(shape)] != shape for c in carries):
        raise TypeError(f"while: the condition's axes {shape} must be the leading ones of each carry, got {carries}")
    return body.out_avals


def _oracle(*args: np.ndarray, **params: Any) -> list[np.ndarray]:
    conditions, constants, carries = _parts(args, params)
    while True:
        (running,) = interpret(params["cond_jaxpr"], [*conditions, *carries])
        if not np.any(running):
            return carries
        new = interpret(params["body_jaxpr"], [*constants, *carries])
        carries = [np.where(_over(running, c), n, c) for n, c in zip(new, carries, strict=True)] if np.ndim(running) else new


def _over(running: np.ndarray, carry: np.ndarray) -> np.ndarray:
    return running.reshape(running.shape + (1,) * (carry.ndim - running.ndim))


def _lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], **params: Any) -> While | None:
    condition, body = params["cond_jaxpr"], params["body_jaxpr"]
    if condition.out_avals[0].shape:
        return None
    return While(condition, body, params["cond_nconsts"], params["body_nconsts"])


@remembered
def _scalar_loop(body: ClosedJaxpr, condition: ClosedJaxpr, n: int, m: int) -> tuple[ClosedJaxpr, ClosedJaxpr]:
    """Condition and body of the loop that carries the array of conditions, and chooses element by element."""
    (running,) = condition.out_avals
    axes = tuple(range(running.ndim))

    def any_running(*xs: Any) -> list[Any]:
        return [reduce_or(xs[0], axes=axes, out_sharding=None)]

    def step(*xs: Any) -> list[Any]:
        conditions, constants, (running, *carries) = split(xs, n, m)
        new = evaluate(body, [*constants, *carries])
        kept = [select_n(broadcast(running, c.shape, axes), c, y) for c, y in zip(carries, new, strict=True)]
        (still,) = evaluate(condition, [*conditions, *kept])
        return [and_(running, still), *kept]

    carried = [running, *body.in_avals[m:]]
    return program(any_running, carried, condition), program(step, [*condition.in_avals[:n], *body.in_avals[:m], *carried], body)


def _expand(*args: Any, **params: Any) -> list[Any]:
    condition, body, n, m = params["cond_jaxpr"], params["body_jaxpr"], params["cond_nconsts"], params["body_nconsts"]
    conditions, constants, carries = _parts(args, params)
    test, step = _scalar_loop(body, condition, n, m)
    running = evaluate(condition, [*conditions, *carries])
    return while_(*args[: n + m], *running, *carries, cond_jaxpr=test, body_jaxpr=step, cond_nconsts=0, body_nconsts=n + m)[1:]


def _effects(*avals: ShapedArray, cond_jaxpr: ClosedJaxpr, body_jaxpr: ClosedJaxpr, **_: Any) -> frozenset[Any]:
    return cond_jaxpr.effects | body_jaxpr.effects


@remembered
def _thinned(body: ClosedJaxpr, condition: ClosedJaxpr, n: int, m: int, used: Flags) -> tuple[ClosedJaxpr, ClosedJaxpr, list[list[bool]]]:
    """Condition and body without the carries that neither the results used, nor the condition, nor any carry that stays, depends on. Which
    of the conditions' constants, the body's constants and the carries stay."""
    needed = dce_jaxpr(condition.jaxpr, [True])[1]
    conditions, stays = needed[:n], union(used, needed[n:])
    while True:
        needed = dce_jaxpr(body.jaxpr, stays)[1]
        if union(stays, needed[m:]) == stays:
            break
        stays = union(stays, needed[m:])
    test = ClosedJaxpr(dce_jaxpr(condition.jaxpr, [True], [*conditions, *stays])[0], condition.consts)
    step = ClosedJaxpr(dce_jaxpr(body.jaxpr, stays, [*needed[:m], *stays])[0], body.consts)
    return remove_dead(test), remove_dead(step), [conditions, needed[:m], stays]


def _dce(used: Sequence[bool], e: JaxprEqn) -> tuple[list[bool], JaxprEqn | None]:
    old = e.params["cond_jaxpr"], e.params["body_jaxpr"]
    condition, body, stay = _thinned(old[1], old[0], e.params["cond_nconsts"], e.params["body_nconsts"], tuple(used))
    conditions, constants, carries = stay
    used_inputs = [*conditions, *constants, *carries]
    if all(used_inputs) and len(condition.eqns) == len(old[0].eqns) and len(body.eqns) == len(old[1].eqns):
        return used_inputs, e
    params = {"cond_jaxpr": condition, "body_jaxpr": body, "cond_nconsts": sum(conditions), "body_nconsts": sum(constants)}
    return used_inputs, e.replace(
        invars=chosen(e.invars, used_inputs), outvars=chosen(e.outvars, carries), params=params, effects=_effects(**params)
    )


# Derivatives


def _passed_on(body: ClosedJaxpr, constants: int) -> list[bool]:
    """Which carries the body leaves as they are."""
    return [v is w for v, w in zip(body.invars[constants:], body.outvars, strict=True)]


@remembered
def _with_tangents(
    body: ClosedJaxpr, condition: ClosedJaxpr, n: int, m: int, constants: Flags, carries: Flags
) -> tuple[dict[str, Any], list[bool], list[bool]]:
    """Parameters of the loop that carries tangents too, which carries have one, and which of those never change.

    Operands: constants of the condition; constants of the body, tangents of these and of carries that never change; carries, tangents."""
    nz = list(carries)
    while True:
        both, out_nonzero = jvp_jaxpr(body, [*constants, *nz], nz)
        if union(nz, out_nonzero) == nz:
            break
        nz = union(nz, out_nonzero)
    fixed = [p and w for p, w in zip(_passed_on(body, m), nz, strict=True)]
    still = chosen(fixed, nz)
    # of `both`: constants, carries, tangents of constants, tangents of carries
    c, k, t = len(nz), sum(nz), sum(constants)
    p, places = m + c, range(m + c + t, m + c + t + k)
    order = (*range(m), *range(p, p + t), *chosen(places, still), *range(m, p), *others(places, still))
    body_ = reordered(both, order, (*range(c), *others(range(c, c + k), still)))

    def test(*xs: Any) -> list[Any]:
        return evaluate(condition, xs[: n + c])

    tangents = [tangent_aval(a) for a, w, f in zip(body.in_avals[m:], nz, fixed, strict=True) if w and not f]
    params = {
        "cond_jaxpr": program(test, [*condition.in_avals, *tangents], condition),
        "body_jaxpr": body_,
        "cond_nconsts": n,
        "body_nconsts": m + t + sum(still),
    }
    return params, nz, fixed


def _tangent_operands(
    primals: Sequence[Any], tangents: Sequence[Any], nz: Sequence[bool], fixed: Sequence[bool], params: dict[str, Any]
) -> list[Any]:
    conditions, constants, carries = _parts(primals, params)
    _, constant_tangents, carry_tangents = _parts(tangents, params)
    changing = [w and not f for w, f in zip(nz, fixed, strict=True)]
    there = made(constant_tangents, is_nonzero(constant_tangents))
    return [*conditions, *constants, *there, *made(carry_tangents, fixed), *carries, *made(carry_tangents, changing)]


def _out_tangents(
    changed: Iterable[Any], tangents: Sequence[Any], nz: Sequence[bool], fixed: Sequence[bool], params: dict[str, Any]
) -> list[Any]:
    rest = iter(changed)
    _, _, carry_tangents = _parts(tangents, params)
    out = [instantiate(t) if f else next(rest) for t, w, f in zip(carry_tangents, nz, fixed, strict=True) if w]
    return with_zero_tangents(nz, out, params["body_jaxpr"].out_avals)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[list[Any], list[Any]]:
    loop, nz, fixed = _loop_with_tangents(is_nonzero(tangents), params)
    out = while_(*_tangent_operands(primals, tangents, nz, fixed, params), **loop)
    c = len(nz)
    return out[:c], _out_tangents(out[c:], tangents, nz, fixed, params)


def _loop_with_tangents(nonzero: Flags, params: dict[str, Any]) -> tuple[dict[str, Any], list[bool], list[bool]]:
    _, constants, carries = _parts(nonzero, params)
    n, m = params["cond_nconsts"], params["body_nconsts"]
    return _with_tangents(params["body_jaxpr"], params["cond_jaxpr"], n, m, tuple(constants), tuple(carries))


def _linearize(nonzero: Flags, *primals: Any, **params: Any) -> tuple[list[Any], Any]:
    """The tangents' loop computes what it needs of the primal one again: how much there would be to keep is not known."""
    out = while_(*primals, **params)
    loop, nz, fixed = _loop_with_tangents(nonzero, params)

    def lin(*tangents: Any) -> list[Any]:
        trace: Any = current_trace()
        changed: list[Any] = []
        if sum(nz) > sum(fixed):
            operands = _tangent_operands(primals, tangents, nz, fixed, params)
            changed = trace.record(while_, operands, loop)[len(nz) :]
        return _out_tangents(changed, tangents, nz, fixed, params)

    return out, lin


@remembered
def _known_part(body: ClosedJaxpr, condition: ClosedJaxpr, n: int, m: int, unknown: Flags) -> tuple[dict[str, Any] | None, list[bool]]:
    """Parameters of the loop of the carries that known operands decide, None if they do not decide the condition; which carries are not
    among them."""
    conditions, constants, uk = split(unknown, n, m)
    while True:
        out_unknown = partial_eval_jaxpr(body, [*constants, *uk], uk).out_unknown
        if union(uk, out_unknown) == uk:
            break
        uk = union(uk, out_unknown)
    if any(partial_eval_jaxpr(condition, [*conditions, *uk]).out_unknown):
        return None, uk
    known = inverted(uk)
    test = dce_jaxpr(condition.jaxpr, [True], [*inverted(conditions), *known])[0]
    step = dce_jaxpr(body.jaxpr, known, [*inverted(constants), *known])[0]
    params = {
        "cond_jaxpr": remove_dead(ClosedJaxpr(test, condition.consts)),
        "body_jaxpr": remove_dead(ClosedJaxpr(step, body.consts)),
        "cond_nconsts": n - sum(conditions),
        "body_nconsts": m - sum(constants),
    }
    return params, uk


def _partial_eval(trace: PartialTrace, unknown: Flags, *args: Any, **params: Any) -> list[Any]:
    """If the condition is known, the known carries are computed; the loop for the unknown ones computes them again."""
    n, m = params["cond_nconsts"], params["body_nconsts"]
    loop, uk = _known_part(params["body_jaxpr"], params["cond_jaxpr"], n, m, unknown)
    if loop is None or all(uk) or params["body_jaxpr"].effects:
        return trace.record(while_, args, params)
    keep = [*inverted(unknown[: n + m]), *inverted(uk)]
    out = while_(*chosen(args, keep), **loop)
    rest = trace.record(while_, args, params) if any(uk) else args[n + m :]
    return spread(uk, chosen(rest, uk), out)


def _transpose(cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
    raise ValueError(REVERSE_ERROR)


# Batching


def _batch(axis: Axis, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> tuple[list[Any], list[Any]]:
    condition, body = params["cond_jaxpr"], params["body_jaxpr"]
    conditions, constants, batched = _parts([d is not None for d in dims], params)
    passed_on = [p and not b for p, b in zip(_passed_on(body, params["body_nconsts"]), batched, strict=True)]
    while True:
        (test,) = batch_jaxpr(condition, axis, [*conditions, *batched])[1]
        if test or condition.out_avals[0].shape:  # elements stop at different times, so that each carry differs; or already did
            if any(passed_on):
                return _batch_without(passed_on, axis, args, dims, params)
            batched = [True] * len(batched)
        found = union(batched, batch_jaxpr(body, axis, [*constants, *batched], batched)[1])
        if found == batched:
            break
        batched = found
    test_program, _ = batch_jaxpr(condition, axis, [*conditions, *batched], test or bool(condition.out_avals[0].shape))
    step, _ = batch_jaxpr(body, axis, [*constants, *batched], batched)
    moved = [
        to_front(x, d, axis.size) if d is not None or b else x
        for x, d, b in zip(args, dims, [*conditions, *constants, *batched], strict=True)
    ]
    out = while_(*moved, **params | {"cond_jaxpr": test_program, "body_jaxpr": step})
    return out, [0 if b else None for b in batched]


@remembered
def _without_carries(body: ClosedJaxpr, condition: ClosedJaxpr, n: int, m: int, fixed: Flags) -> tuple[ClosedJaxpr, ClosedJaxpr]:
    """Condition and body with the carries that never change as their last constants."""
    carries = range(len(fixed))
    test_order = (*range(n), *(n + k for k in (*chosen(carries, fixed), *others(carries, fixed))))
    order = (*range(m), *(m + k for k in (*chosen(carries, fixed), *others(carries, fixed))))
    return reordered(condition, test_order, (0,)), reordered(body, order, tuple(others(carries, fixed)))


def _batch_without(
    fixed: Sequence[bool], axis: Axis, args: Sequence[Any], dims: Sequence[int | None], params: dict[str, Any]
) -> tuple[list[Any], list[Any]]:
    """Carries that never change stay one for all elements."""
    n, m = params["cond_nconsts"], params["body_nconsts"]
    test, step = _without_carries(params["body_jaxpr"], params["cond_jaxpr"], n, m, tuple(fixed))

    def moved(xs: Sequence[Any]) -> list[Any]:
        conditions, constants, carries = _parts(xs, params)
        return [*conditions, *chosen(carries, fixed), *constants, *chosen(carries, fixed), *others(carries, fixed)]

    new = {"cond_jaxpr": test, "body_jaxpr": step, "cond_nconsts": n + sum(fixed), "body_nconsts": m + sum(fixed)}
    out, out_dims = _batch(axis, moved(args), moved(dims), **new)
    carries, carry_dims = _parts(args, params)[2], _parts(dims, params)[2]
    return spread(fixed, chosen(carries, fixed), out), spread(fixed, chosen(carry_dims, fixed), out_dims)


# The record


def _samples() -> Iterable[Any]:
    f32, i32 = np.dtype("float32"), np.dtype("int32")
    limit, counter, array = ShapedArray((), i32), ShapedArray((), i32), ShapedArray((2, 3), f32)
    test = trace_to_jaxpr(lambda n, i, x: [lt(i, n)], [limit, counter, array])
    body = trace_to_jaxpr(lambda y, i, x: [add(i, typed_scalar(1, i32)), add(mul(x, y), y)], [array, counter, array])
    params = {"cond_jaxpr": test, "body_jaxpr": body, "cond_nconsts": 1, "body_nconsts": 1}
    for n in (0, 1, 5):
        yield (np.int32(n), filled((2, 3), f32), np.int32(0), filled((2, 3), f32, 1)), params
    counters, rows = ShapedArray((4,), i32), ShapedArray((4, 2), f32)
    test = trace_to_jaxpr(lambda i, x: [lt(i, typed_scalar(5, i32))], [counters, rows])
    body = trace_to_jaxpr(lambda i, x: [add(i, typed_scalar(2, i32)), add(x, x)], [counters, rows])
    params = {"cond_jaxpr": test, "body_jaxpr": body, "cond_nconsts": 0, "body_nconsts": 0}
    yield (np.array([0, 7, 3, 4], i32), filled((4, 2), f32)), params


while_ = Op(
    "while",
    typ=_typ,
    oracle=_oracle,
    lower=_lower,
    expand=_expand,
    multiple_results=True,
    jvp=_jvp,
    linearize=_linearize,
    partial_eval=_partial_eval,
    transpose=_transpose,
    batch=_batch,
    dce=_dce,
    effects=_effects,
    subprograms=lambda params: (params["cond_jaxpr"], params["body_jaxpr"]),
    samples=_samples,
)
"""cond_jaxpr, body_jaxpr: ClosedJaxprs that take cond_nconsts, body_nconsts constants, then the carries."""
