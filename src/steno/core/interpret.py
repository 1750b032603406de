"""Programs and ops evaluated in NumPy by the ops' oracles: the specification that compiled code is tested against.

Values are ndarrays of the avals' shapes and dtypes; a PRNG key is a uint64, its two words in memory order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from steno._native import ArrayImpl, ShapedArray
from steno.core import dtypes
from steno.core.aval import TypedScalar, scalar_value, typeof
from steno.core.errors import MissingRule
from steno.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, Literal, last_uses
from steno.core.op import Op
from steno.core.trace import Tracer, escaped, trace_to_jaxpr


def to_ndarray(x: Any) -> np.ndarray:
    """The value of an array, scalar or TypedScalar as an ndarray of its (canonical) dtype. UnexpectedTracerError for a tracer."""
    t = type(x)
    if t is ArrayImpl:
        return x._value.view(x.dtype.host)[..., 0] if isinstance(x.dtype, dtypes.KeyDType) else x._value
    if t is TypedScalar:
        return np.asarray(x.value)
    if t is np.ndarray or isinstance(x, np.generic):
        return np.asarray(x, typeof(x).dtype)
    if t is float or t is int or t is bool or t is complex:
        return np.asarray(scalar_value(x, typeof(x).dtype))
    if isinstance(x, Tracer):
        raise escaped(x)
    convert = getattr(t, "__jax_array__", None)
    if convert is not None:
        return to_ndarray(convert(x))
    return np.asarray(x, typeof(x).dtype)


def to_array(value: Any, aval: ShapedArray) -> ArrayImpl:
    """The ArrayImpl of an ndarray, given its aval (a copy)."""
    value = np.asarray(value)
    if isinstance(aval.dtype, dtypes.KeyDType):
        value = np.ascontiguousarray(value)[..., None].view(dtypes.uint32).reshape(*aval.shape, aval.dtype.words)
    return ArrayImpl.from_numpy(value, aval)


def apply_oracle(
    op: Op, args: Sequence[np.ndarray], avals: Sequence[ShapedArray], params: dict[str, Any]
) -> tuple[list[np.ndarray], list[ShapedArray]]:
    """The results of one op, by its oracle or else by its expansion, and their avals. The oracle's results are cast to the op's types."""
    types = op.types(tuple(avals), params)
    types = list(types) if op.multiple_results else [types]
    if op.oracle is not None:
        with np.errstate(all="ignore"):
            out = op.oracle(*args, **params)
        out = list(out) if op.multiple_results else [out]
    elif op.expand is not None:
        out = interpret(trace_to_jaxpr(expansion(op, params), avals), args)
    else:
        raise MissingRule(op, "evaluation", f"give Op({op.name!r}) an `oracle` or an `expand`")
    if len(out) != len(types):
        raise AssertionError(f"the oracle of {op.name} gave {len(out)} results, its typ {len(types)}")
    return [_as(op, y, t) for y, t in zip(out, types, strict=True)], types


def _as(op: Op, y: Any, aval: ShapedArray) -> np.ndarray:
    dtype = dtypes.host_dtype(aval.dtype)
    y = np.asarray(y)
    if y.shape != aval.shape:
        raise AssertionError(f"the oracle of {op.name} gave the shape {y.shape}, its typ {aval}")
    with np.errstate(all="ignore"):
        return y.astype(dtype, copy=False)


def expansion(op: Op, params: dict[str, Any]) -> Callable[..., list[Any]]:
    """`op.expand` as a function of flat arrays that returns a list."""

    expand: Any = op.expand

    def run(*args: Any) -> list[Any]:
        out = expand(*args, **params)
        return list(out) if op.multiple_results else [out]

    return run


def interpret(program: ClosedJaxpr | Jaxpr, args: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Runs a program on ndarrays by the ops' oracles."""
    jaxpr, consts = (program.jaxpr, program.consts) if isinstance(program, ClosedJaxpr) else (program, [])
    env: dict[Atom, np.ndarray] = dict(zip(jaxpr.constvars, map(to_ndarray, consts), strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))

    def read(a: Atom) -> np.ndarray:
        return np.asarray(a.val) if type(a) is Literal else env[a]

    for e, dying in zip(jaxpr.eqns, last_uses(jaxpr), strict=True):
        out, _ = apply_oracle(e.op, [read(a) for a in e.invars], [a.aval for a in e.invars], e.params)
        env.update(zip(e.outvars, out, strict=True))
        for v in dying:
            env.pop(v, None)
    return [read(a) for a in jaxpr.outvars]
