"""The values that `debug_nans` and `debug_infs` forbid, and which op made one.

A program is looked at where it ends. If a result holds a forbidden value the program is run again op by op, into the calls, branches and
iterations that give such values, until an op makes one of operands that hold none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from steno._native import ArrayImpl, ShapedArray
from steno.core import dtypes, source
from steno.core.aval import typeof
from steno.core.config import config
from steno.core.interpret import to_array, to_ndarray
from steno.core.jaxpr import ClosedJaxpr, Literal, literal_value
from steno.core.op import Op
from steno.ops.structural import jit

Eager = Callable[[Op, Sequence[Any], dict[str, Any]], Any]


def watching() -> bool:
    return config._state.debug_nans or config._state.debug_infs


def forbidden(x: Any) -> str | None:
    """`nan` or `inf`, if the value holds some and the configuration forbids them."""
    aval = typeof(x)
    dtype = aval.dtype
    if type(aval) is not ShapedArray or isinstance(dtype, dtypes.KeyDType) or not dtypes.is_inexact(dtype):
        return None
    wide = to_ndarray(x).astype(np.complex128 if dtypes.is_complex(dtype) else np.float64)
    if config._state.debug_nans and np.isnan(wide).any():
        return "nan"
    if config._state.debug_infs and np.isinf(wide).any():
        return "inf"
    return None


def check_op(op: Op, args: Sequence[Any], params: dict[str, Any], out: Any, eager: Eager) -> None:
    """FloatingPointError if one of an op's results holds a forbidden value."""
    bad = _first(out if op.multiple_results else [out])
    if bad is not None:
        if op.subprograms is not None:
            _look_inside(op, args, params, eager)
        raise _error(bad, f"{op.name}{_at(source.place())}")


def check_program(
    closed: ClosedJaxpr, args: Sequence[Any], out: Sequence[Any], name: str, arg_names: Callable[[], Sequence[str]], eager: Eager
) -> None:
    """FloatingPointError if one of the results of a jitted function holds a forbidden value: it names the op that made it, or else the
    argument that brought it."""
    bad = _first(out)
    if bad is None:
        return
    _run(closed, args, eager)
    brought = [n for n, x in zip(arg_names(), args, strict=True) if forbidden(x) is not None]
    about = f"in the input {', '.join(brought)}" if brought else "a literal or a constant of the function"
    raise _error(bad, f"jit({name}): run op by op, the de-optimized function did not produce any invalid value. It is {about}")


def _first(values: Sequence[Any]) -> str | None:
    return next((bad for bad in map(forbidden, values) if bad is not None), None)


def _error(bad: str, where: str) -> FloatingPointError:
    return FloatingPointError(f"invalid value ({bad}) encountered in {where}")


def _at(place: source.Place | None) -> str:
    return "" if place is None else f" at {source.summary(place)}"


def _run(closed: ClosedJaxpr, args: Sequence[Any], eager: Eager) -> None:
    """Runs a program op by op; FloatingPointError at the first op that makes a forbidden value."""
    jaxpr = closed.jaxpr
    env: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*closed.consts, *args), strict=True))
    for e in jaxpr.eqns:
        inputs = [literal_value(a) if type(a) is Literal else env[a] for a in e.invars]
        out = eager(e.op, inputs, e.params)
        out = out if e.op.multiple_results else [out]
        bad = _first(out)
        if bad is not None:
            if e.op.subprograms is not None:
                _look_inside(e.op, inputs, e.params, eager)
            if _first(inputs) is None:
                raise _error(bad, f"{e.op.name}{_at(e.place)}")
        env.update(zip(e.outvars, out, strict=True))


_CALLS: Final = ("jit", "remat2", "custom_jvp_call", "custom_vjp_call", "custom_vmap_call")


def _look_inside(op: Op, args: Sequence[Any], params: dict[str, Any], eager: Eager) -> None:
    """FloatingPointError if the programs of an op, run on its operands, show who makes a forbidden value."""
    if op.name in _CALLS:
        assert op.subprograms is not None
        _run(op.subprograms(params)[0], args, eager)
    elif op.name == "cond":
        branches = params["branches"]
        _run(branches[min(max(int(to_ndarray(args[0])), 0), len(branches) - 1)], args[1:], eager)
    elif op.name == "scan":
        _look_inside_scan(args, params, eager)
    elif op.name == "while":
        _look_inside_while(args, params, eager)


def _step(closed: ClosedJaxpr, args: Sequence[Any], eager: Eager) -> list[Any]:
    """The results of an iteration, as compiled; FloatingPointError if one of its ops makes a forbidden value."""
    out = eager(jit, args, {"jaxpr": closed, "name": "iteration"})
    if _first(out) is not None:
        _run(closed, args, eager)
    return out


def _look_inside_scan(args: Sequence[Any], params: dict[str, Any], eager: Eager) -> None:
    n, c, length = params["num_consts"], params["num_carry"], params["length"]
    constants, carries, arrays = args[:n], args[n : n + c], args[n + c :]
    for i in reversed(range(length)) if params["reverse"] else range(length):
        carries = _step(params["jaxpr"], [*constants, *carries, *(_row(x, i) for x in arrays)], eager)[:c]


def _look_inside_while(args: Sequence[Any], params: dict[str, Any], eager: Eager) -> None:
    n, m = params["cond_nconsts"], params["body_nconsts"]
    conditions, constants, carries = args[:n], args[n : n + m], args[n + m :]
    while (running := to_ndarray(_step(params["cond_jaxpr"], [*conditions, *carries], eager)[0])).any():
        if running.ndim:
            carries = _step_of_batch(params["body_jaxpr"], constants, carries, running, eager)
        else:
            carries = _step(params["body_jaxpr"], [*constants, *carries], eager)


def _step_of_batch(
    closed: ClosedJaxpr, constants: Sequence[Any], carries: Sequence[Any], running: np.ndarray, eager: Eager
) -> list[ArrayImpl]:
    """An iteration of a loop under vmap, where elements that are done stay as they are."""
    out = eager(jit, [*constants, *carries], {"jaxpr": closed, "name": "iteration"})
    kept = []
    for old, new in zip(carries, out, strict=True):
        mask = running.reshape(running.shape + (1,) * (new.ndim - running.ndim))
        kept.append(to_array(np.where(mask, to_ndarray(new), to_ndarray(old)), new.aval))
    if _first(kept) is not None:
        _run(closed, [*constants, *carries], eager)
    return kept


def _row(x: Any, i: int) -> ArrayImpl:
    aval = typeof(x)
    return to_array(to_ndarray(x)[i], aval.update(shape=aval.shape[1:]))
