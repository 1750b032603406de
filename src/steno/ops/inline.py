"""Programs over scalars inside ops (scatter's and reduce's computations): as functions of the Builder, and of NumPy lanes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from steno.core.aval import ShapedArray
from steno.core.errors import MissingRule
from steno.core.jaxpr import ClosedJaxpr, Jaxpr, Literal, Var, open_jaxpr
from steno.core.op import OPS, Op, rule
from steno.core.trace import trace_to_jaxpr
from steno.ir.expr import Builder, Expr, Scalar
from steno.ir.index import Index
from steno.ir.kinds import Map


@functools.cache
def combination(name: str, dtype: Any) -> Jaxpr:
    """The `update_jaxpr` of `scatter-<name>`: `{ lambda ; a b. let c = <name> a b in (c,) }`. One object for each name and dtype."""
    op = OPS[name]
    scalar = ShapedArray((), dtype)
    return trace_to_jaxpr(lambda old, update: [op(old, update)], [scalar, scalar]).jaxpr


def scalar_function(program: Jaxpr | ClosedJaxpr) -> Callable[..., list[Scalar]]:
    """`f(b, *scalars) -> [scalars]` for a program whose values are all of rank 0. Constants must be scalars of the program's own."""
    jaxpr = open_jaxpr(program)
    consts = program.consts if isinstance(program, ClosedJaxpr) else []

    def run(b: Builder, *args: Scalar) -> list[Scalar]:
        env: dict[Var, Scalar] = {}
        for v, c in zip(jaxpr.constvars, consts, strict=True):
            env[v] = b.const(c._value[()], v.aval.dtype)
        env.update(zip(jaxpr.invars, args, strict=True))

        def read(a: Any) -> Scalar:
            return b.const(a.val, a.aval.dtype) if isinstance(a, Literal) else env[a]

        for e in jaxpr.eqns:
            env.update(
                zip(
                    e.outvars,
                    _apply(b, e.op, [read(a) for a in e.invars], [a.aval for a in e.invars], [v.aval for v in e.outvars], e.params),
                    strict=True,
                )
            )
        return [read(a) for a in jaxpr.outvars]

    return run


def _apply(b: Builder, op: Op, scalars: list[Scalar], avals_in: list[Any], avals_out: list[Any], params: dict[str, Any]) -> list[Scalar]:
    kind = None if op.lower is None else op.lower(avals_in, avals_out, **params)
    if kind is not None:
        if not isinstance(kind, Map):
            raise NotImplementedError(f"{op.name} inside a scalar computation: it works on whole arrays")
        out = kind.body(b, (), [_constant_read(s) for s in scalars])
        return list(out) if op.multiple_results else [out]
    if op.subprograms is not None:
        (nested,) = op.subprograms(params)
        return scalar_function(nested)(b, *scalars)
    if op.expand is not None:
        return scalar_function(trace_to_jaxpr(lambda *args: op.expand(*args, **params), avals_in))(b, *scalars)
    raise MissingRule(op, "compile", hint=f"give Op({op.name!r}) a `lower` or an `expand`")


def _constant_read(value: Scalar) -> Callable[..., Scalar]:
    def read(indices: Sequence[Index], guard: Expr | None = None) -> Scalar:
        return value

    return read


def lanes_function(program: Jaxpr | ClosedJaxpr) -> Callable[..., list[np.ndarray]]:
    """`f(*ndarrays) -> [ndarrays]`: the same program on many lanes at once (arrays of one shape), each op by its oracle."""
    jaxpr = open_jaxpr(program)
    consts = program.consts if isinstance(program, ClosedJaxpr) else []

    def run(*args: np.ndarray) -> list[np.ndarray]:
        env: dict[Var, np.ndarray] = {v: np.asarray(c) for v, c in zip(jaxpr.constvars, consts, strict=True)}
        env.update(zip(jaxpr.invars, args, strict=True))

        def read(a: Any) -> np.ndarray:
            return np.asarray(a.val) if isinstance(a, Literal) else env[a]

        for e in jaxpr.eqns:
            operands = [read(a) for a in e.invars]
            if e.op.subprograms is not None:
                (nested,) = e.op.subprograms(e.params)
                out: Any = lanes_function(nested)(*operands)
            else:
                out = rule(e.op, "oracle", "evaluation")(*operands, **e.params)
            env.update(zip(e.outvars, out if e.op.multiple_results else [out], strict=True))
        return [read(a) for a in jaxpr.outvars]

    return run
