"""Ops that transforms themselves need: calls of nested programs, copies, barriers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from steno.core.aval import ShapedArray
from steno.core.interpret import interpret
from steno.core.jaxpr import ClosedJaxpr
from steno.core.op import Op
from steno.ir.kinds import Map
from steno.ops.samples import filled, sample_dtypes

# jit


def _jit_typ(*avals: ShapedArray, jaxpr: ClosedJaxpr, name: str, **_: Any) -> list[ShapedArray]:
    wanted = jaxpr.in_avals
    if len(avals) != len(wanted):
        raise TypeError(f"jit of {name}: its program takes {len(wanted)} operands, got {len(avals)}")
    for k, (a, w) in enumerate(zip(avals, wanted, strict=True)):
        if a.shape != w.shape or a.dtype != w.dtype:
            raise TypeError(f"jit of {name}: operand {k} must be of type {w.str_short()}, got {a.str_short()}")
    return jaxpr.out_avals


def _jit_oracle(*args: np.ndarray, jaxpr: ClosedJaxpr, **_: Any) -> list[np.ndarray]:
    return interpret(jaxpr, args)


jit = Op(
    "jit",
    typ=_jit_typ,
    oracle=_jit_oracle,
    multiple_results=True,
    effects=lambda *avals, jaxpr, **_: jaxpr.effects,
    subprograms=lambda params: (params["jaxpr"],),
    show=lambda params: {"name": params["name"], "jaxpr": params["jaxpr"]},
)
"""A call of `jaxpr`, a ClosedJaxpr; `name` is the Python function's. Compiled programs inline it."""


# copy, optimization_barrier


def unchanged(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], **params: Any) -> Map:
    """The `lower` of an op whose result is its operand."""
    return Map(lambda b, indices, reads: reads[0](indices), view=True, flat=True)


def _copy_samples() -> Iterable[Any]:
    for d in sample_dtypes():
        yield (filled((2, 3), d),), {}
    yield (filled((), "float32"),), {}
    yield (filled((0, 1), "float32"),), {}


copy = Op("copy", typ=lambda x: x, oracle=lambda x: x.copy(), lower=unchanged, samples=_copy_samples)


def _barrier_samples() -> Iterable[Any]:
    yield (filled((2, 3), "float32"), filled((), "int32"), filled((0,), "bool")), {}
    yield (), {}


def _barrier_expand(*xs: Any) -> list[Any]:
    return [optimization_barrier(x)[0] for x in xs]


def _barrier_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray]) -> Map | None:
    """One operand: a node of its own, so that what is computed from it is not found to have been computed from the operand."""
    return Map(lambda b, indices, reads: [reads[0](indices)], view=True, flat=True) if len(avals_in) == 1 else None


optimization_barrier = Op(
    "optimization_barrier",
    typ=lambda *xs: list(xs),
    oracle=lambda *xs: list(xs),
    lower=_barrier_lower,
    expand=_barrier_expand,
    multiple_results=True,
    samples=_barrier_samples,
)
"""The operands, kept from transformations that would move or share work across it."""
