"""vmap: a function of elements becomes a function of arrays of elements, op by op."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, final

from steno._native import ShapedArray, current_trace, swap_trace
from steno.core.config import config
from steno.core.errors import MissingRule
from steno.core.jaxpr import NO_DEBUG_INFO, ClosedJaxpr, Jaxpr, eval_jaxpr, open_jaxpr
from steno.core.op import Op
from steno.core.trace import Trace, Tracer, check_leaks, register_aval_type, trace_to_jaxpr
from steno.transforms.axes import named_axis
from steno.transforms.discharge import call_on_values, pure, works_on_refs
from steno.transforms.forward import explain_inner, table_of_places
from steno.transforms.programs import Flags, anonymous, flags, remembered
from steno.transforms.rules import Axis, as_value, inserted, rule_of, to_front, typeof

Dims = tuple[int | None, ...]


def element_aval(aval: ShapedArray, dim: int) -> ShapedArray:
    """The type of one element of a batch along `dim`."""
    return aval.update(shape=(*aval.shape[:dim], *aval.shape[dim + 1 :]))


def batched_aval(aval: ShapedArray, dim: int | None, size: int) -> ShapedArray:
    return aval if dim is None else aval.update(shape=inserted(aval.shape, dim, size))


@final
class BatchTracer(Tracer):
    """One element of `value`, which has the elements along axis `dim`."""

    __slots__ = ("dim", "value")

    def __init__(self, trace: BatchTrace, value: Any, dim: int) -> None:
        self.aval = element_aval(typeof(value), dim)
        self._trace = trace
        self.value, self.dim = value, dim

    def __repr__(self) -> str:
        return f"VmapTracer(aval={self.aval}, batched={typeof(self.value)})"


register_aval_type(BatchTracer)


@functools.cache
def _no_names() -> frozenset[Any]:
    return frozenset()


def used_axis_names(op: Op, params: dict[str, Any]) -> frozenset[Any]:
    """The mapped axes an op refers to, its programs included."""
    if op.axis_names is not None:
        return frozenset(op.axis_names(params))
    if op.subprograms is None:
        return _no_names()
    out = _no_names()
    for sub in op.subprograms(params):
        out |= axis_names_of(sub)
    return out


_names_of: dict[int, Any] = {}


def axis_names_of(program: ClosedJaxpr | Jaxpr) -> frozenset[Any]:
    """The mapped axes that a program's collectives refer to."""
    if isinstance(program, ClosedJaxpr):
        table = program.__dict__
        found = table.get("axis_names")
        if found is None:
            found = table["axis_names"] = _find_names(program.jaxpr)
        return found
    return _find_names(open_jaxpr(program))


def _find_names(jaxpr: Jaxpr) -> frozenset[Any]:
    out = _no_names()
    for e in jaxpr.eqns:
        if e.op.axis_names is not None or e.op.subprograms is not None:
            out |= used_axis_names(e.op, e.params)
    return out


@final
class BatchTrace(Trace):
    """`tag`: what the values of this map have in common. A rule that runs later for the same map does so under another trace of that tag,
    so that it may refer to the map's values."""

    __slots__ = ("axis", "over", "parent", "places", "tag")

    def __init__(self, parent: Trace | None, axis: Axis, tag: object = None) -> None:
        self.parent, self.axis, self.over = parent, axis, False
        self.tag = object() if tag is None else tag
        self.places = table_of_places()

    def __repr__(self) -> str:
        return "BatchTrace"

    def is_over(self) -> bool:
        return self.over

    def explain(self, tracer: Any) -> str:
        return explain_inner(
            tracer.value, f"a function that is mapped by vmap over an axis of size {self.axis.size}: it stands for many elements at once"
        )

    def split(self, args: Sequence[Any]) -> tuple[list[Any], list[int | None]]:
        """Values and their batch axes."""
        values: list[Any] = []
        dims: list[int | None] = []
        tag = self.tag
        for x in args:
            if type(x) is BatchTracer and x._trace.tag is tag:
                values.append(x.value)
                dims.append(x.dim)
            else:
                values.append(as_value(x))
                dims.append(None)
        return values, dims

    def join(self, value: Any, dim: int | None) -> Any:
        if dim is None:
            return value
        out = BatchTracer(self, value, dim)
        if self.places is not None:
            self.note(out)
        return out

    def process(self, op: Op, args: Sequence[Any], params: dict[str, Any]) -> Any:
        tag = self.tag
        batched = any(type(x) is BatchTracer and x._trace.tag is tag for x in args)
        if not batched and not op.makes_ref and not (self.axis.name is not None and self.axis.name in used_axis_names(op, params)):
            previous = swap_trace(self.parent)
            try:
                return op(*args, **params)
            finally:
                swap_trace(previous)
        if op.subprograms is not None and works_on_refs(op, args, params):
            return call_on_values(op, args, params)
        rule = rule_of(op, "batch")
        if rule is None:
            if op.expand is not None:
                return op.expand(*args, **params)
            raise MissingRule(op, "Batching rule", hint=f"give Op({op.name!r}) a `batch` or an `expand`")
        values, dims = self.split(args)
        previous = swap_trace(self.parent)
        try:
            out, out_dims = rule(self.axis, values, dims, **params)
        finally:
            swap_trace(previous)
        if op.multiple_results:
            return [self.join(y, d) for y, d in zip(out, out_dims, strict=True)]
        return self.join(out, out_dims)


def batch_flat(
    fun: Callable[..., Sequence[Any]], axis: Axis, args: Sequence[Any], dims: Sequence[int | None], tag: object = None
) -> tuple[list[Any], list[int | None]]:
    """Runs `fun`, a function of flat values that returns a flat sequence, on each element of the batch. The results and their batch
    axes. `tag`: that of the map this belongs to, if it has one."""
    trace = BatchTrace(current_trace(), axis, tag)
    previous = swap_trace(trace)
    try:
        with named_axis(axis):
            outs = fun(*[trace.join(x, d) for x, d in zip(args, dims, strict=True)])
    finally:
        swap_trace(previous)
        trace.over = True
    result = trace.split(outs)
    if config._state.check_tracer_leaks:
        del outs
        check_leaks(trace, NO_DEBUG_INFO)
    return result


@remembered
def batch_with_dims(closed: ClosedJaxpr, axis: Axis, in_dims: Dims, front: bool, instantiate: Flags) -> tuple[ClosedJaxpr, Dims]:
    out_dims: Dims = ()
    closed = pure(closed)

    def run(*args: Any) -> list[Any]:
        nonlocal out_dims
        outs, dims = batch_flat(lambda *xs: eval_jaxpr(closed.jaxpr, closed.consts, *xs), axis, args, in_dims)
        move = [wanted or (front and d is not None) for d, wanted in zip(dims, instantiate, strict=True)]
        outs = [to_front(y, d, axis.size) if m else y for y, d, m in zip(outs, dims, move, strict=True)]
        out_dims = tuple(0 if m else d for d, m in zip(dims, move, strict=True))
        return outs

    avals = [batched_aval(a, d, axis.size) for a, d in zip(closed.in_avals, in_dims, strict=True)]
    return trace_to_jaxpr(run, avals, anonymous(closed.jaxpr, "vmap")), out_dims


def batch_program(closed: ClosedJaxpr, axis: Axis, dims: Sequence[int | None]) -> tuple[ClosedJaxpr, Dims]:
    """The program on a batch, with the batch axes of inputs and outputs wherever they are."""
    return batch_with_dims(closed, axis, tuple(dims), False, (False,) * len(closed.jaxpr.outvars))


def batch_jaxpr(
    closed: ClosedJaxpr, axis: Axis, in_batched: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[ClosedJaxpr, Flags]:
    """The program on a batch, batch axes in front. Also returns which outputs are batched; those to be `instantiate`d always are."""
    dims = tuple(0 if b else None for b in in_batched)
    out, out_dims = batch_with_dims(closed, axis, dims, True, flags(instantiate, len(closed.jaxpr.outvars)))
    return out, tuple(d is not None for d in out_dims)
