"""Rules of vmap of a user's own ops, by the names of `jax.interpreters.batching`.

`primitive_batchers[p] = rule`          `rule(args, dims, **params) -> (out, out dim)`; `dims[k]`: batch axis of `args[k]`, or `not_mapped`
`fancy_primitive_batchers[p] = rule`    the same with the mapped `Axis` (`name`, `size`) as its first argument"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from steno.core.jaxpr import ClosedJaxpr
from steno.core.on_demand import on_demand
from steno.core.op import Op
from steno.interpreters.rule_tables import RuleTable, operands
from steno.transforms.batching import BatchTrace as BatchTrace, BatchTracer as BatchTracer, batch_with_dims
from steno.transforms.rules import ELEMENTWISE, Axis as AxisData, insert_axis, reduction, rule_of, to_front

not_mapped = None
"""The batch axis of a value that is the same for all elements."""


@final
class ZeroIfMapped:
    """In place of an axis: the front, for what is mapped."""


zero_if_mapped = ZeroIfMapped()


def _with_axis(op: Op, rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda axis, args, dims, **params: rule(operands(args), dims, **params)


def _with_arrays(op: Op, rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda axis, args, dims, **params: rule(axis, operands(args), dims, **params)


def _without_axis(op: Op, rule: Callable[..., Any]) -> Callable[..., Any]:
    def call(args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
        sizes = [x.shape[d] for x, d in zip(args, dims, strict=True) if d is not None]
        if not sizes:
            raise ValueError(f"the batching rule of {op.name}: none of the operands is mapped")
        return rule(AxisData(None, sizes[0]), args, dims, **params)

    return call


primitive_batchers = RuleTable("batch", _with_axis, _without_axis)
fancy_primitive_batchers = RuleTable("batch", _with_arrays)
axis_primitive_batchers = fancy_primitive_batchers


def defvectorized(prim: Op) -> None:
    """Of an op that works element by element on operands of one shape."""
    prim.batch = ELEMENTWISE
    rule_of(prim, "batch")


defbroadcasting = defvectorized


def defreducer(prim: Op) -> None:
    """Of an op that reduces over the axes in its parameter `axes`."""
    prim.batch = reduction("axes")
    rule_of(prim, "batch")


def bdim_at_front(x: Any, bdim: int | None, size: int, mesh_axis: Any = None) -> Any:
    """The value with its batch axis in front; one that has none is repeated `size` times."""
    return to_front(x, bdim, size)


def broadcast(x: Any, sz: int, axis: int, mesh_axis: Any = None) -> Any:
    """The value repeated `sz` times along a new axis."""
    return insert_axis(x, axis, sz)


def batch_jaxpr_axes(
    closed_jaxpr: ClosedJaxpr, axis_data: AxisData, in_axes: Sequence[int | None], out_axes_dest: Sequence[Any]
) -> tuple[ClosedJaxpr, list[int | None]]:
    """The program on a batch. `out_axes_dest`: for each result 0, or `zero_if_mapped`: in front, if it is batched at all. Also the axes."""
    for wanted in out_axes_dest:
        if wanted not in (0, zero_if_mapped):
            raise NotImplementedError(f"batch_jaxpr_axes: results have their batch axis in front, not at {wanted!r}")
    program, dims = batch_with_dims(closed_jaxpr, axis_data, tuple(in_axes), True, tuple(d == 0 for d in out_axes_dest))
    return program, list(dims)


__getattr__, __dir__ = on_demand(__name__, {})
