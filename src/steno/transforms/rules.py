"""What the rules of ops are made of: symbolic zeros, placeholders, mapped axes, constructors of common rules, and the few ops that rules
of every family need. The contract is docs/notes/0004-transforms.md.

This module stands below `ops`: what it needs of ops it finds in `OPS` by name when a rule runs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, final

import numpy as np

from steno._native import ArrayImpl, ShapedArray, current_trace
from steno.core import dtypes
from steno.core.aval import HasAval, TypedScalar, python_scalar, scalar_aval, scalar_value, typed_scalar, typeof
from steno.core.interpret import to_array, to_ndarray
from steno.core.jaxpr import Literal
from steno.core.op import OPS, Op
from steno.core.record import record
from steno.core.refs import Ref
from steno.core.trace import JaxprTrace, JitTracer, Tracer

# Values


@final
class Zero(HasAval):
    """A tangent or cotangent that is zero, without an array. `aval`: the tangent's type (float0 for what has no derivative)."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"Zero({self.aval})"


@final
class Linear(HasAval):
    """In a transpose rule: an operand the op is linear in, whose value is not known, but for its type."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"Linear({self.aval})"


@final
@record(frozen=True)
class Axis:
    """A mapped axis: what collectives call it (None: nothing), its size, and what `spmd_axis_name` said. `devices`: its elements are what
    devices of their own do."""

    name: Hashable
    size: int
    spmd_name: Hashable = None
    devices: bool = False


def tangent_aval(aval: ShapedArray) -> ShapedArray:
    """The type of an aval's tangents: itself, or float0."""
    return aval.to_tangent_aval()


def zero_of(x: Any) -> Zero:
    """The zero tangent of a value."""
    return Zero(tangent_aval(typeof(x)))


def is_differentiable(aval: ShapedArray) -> bool:
    """Whether values of this type have tangents other than float0."""
    return dtypes.kind(aval.dtype) in "fc"


def as_value(x: Any) -> Any:
    """An argument of an op in a form that has `aval`, `shape` and `dtype`: array, tracer, reference or TypedScalar."""
    if isinstance(x, ArrayImpl | Tracer | TypedScalar) or type(x) is Ref:
        return x
    if type(x) in (float, int, bool, complex):
        return python_scalar(x)
    convert = getattr(type(x), "__jax_array__", None)
    if convert is not None:
        return as_value(convert(x))
    aval = typeof(x)
    if isinstance(x, np.generic | np.ndarray):
        return ArrayImpl.from_numpy(np.asarray(x, aval.dtype), aval)
    return typed_scalar(x, aval.dtype, aval.weak_type)


def as_array(x: Any) -> Any:
    """A leaf of arguments or results as an array, tracer or reference; numbers and NumPy arrays are converted. TypeError if it is none."""
    if isinstance(x, ArrayImpl | Tracer) or type(x) is Ref:
        return x
    if type(x) in (float, int, bool, complex):
        x = python_scalar(x)
    if type(x) is TypedScalar:
        trace = current_trace()
        if type(trace) is JaxprTrace:
            return JitTracer(trace, Literal(x.value, x.aval))
    return to_array(to_ndarray(x), typeof(x))


def materialize(x: Any) -> Any:
    """A tangent or cotangent for a user: an array, of NumPy's for float0."""
    x = instantiate(x)
    return x if isinstance(x, np.ndarray) else as_array(x)


# Ops that rules need


def zeros(aval: ShapedArray) -> Any:
    """An array of zeros of the type; of NumPy's for float0."""
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    return full(aval.shape, 0, aval.dtype, aval.weak_type)


def full(shape: Sequence[int], value: Any, dtype: Any, weak_type: bool = False) -> Any:
    """A number as an array."""
    number = TypedScalar(scalar_value(value, dtype), scalar_aval(dtype, weak_type))
    return broadcast(number, shape)


def full_like(x: Any, value: Any) -> Any:
    """A number as an array of the shape and dtype of `x`."""
    return full(x.shape, value, x.dtype)


def instantiate(x: Any) -> Any:
    """A `Zero` as an array; anything else as it is."""
    return zeros(x.aval) if type(x) is Zero else x


def add(x: Any, y: Any) -> Any:
    """The sum of two tangents or cotangents; either may be a `Zero`."""
    if type(x) is Zero:
        return y
    return x if type(y) is Zero else OPS["add_any"](x, y)


def broadcast(x: Any, shape: Sequence[int], dims: Sequence[int] | None = None) -> Any:
    """`broadcast_in_dim`; without `dims` the last axes, or, for equal ranks, those of size 1 are stretched."""
    shape = tuple(shape)
    if x.shape == shape:
        return x
    n = len(x.shape)
    dims = tuple(range(len(shape) - n, len(shape))) if dims is None else tuple(dims)
    return OPS["broadcast_in_dim"](x, shape=shape, broadcast_dimensions=dims, sharding=None)


def sum_over(x: Any, axes: Sequence[int]) -> Any:
    """`reduce_sum`, or `reduce_or` of bools."""
    if not axes:
        return x
    if x.dtype == dtypes.bool_:
        return OPS["reduce_or"](x, axes=tuple(axes), out_sharding=None)
    return OPS["reduce_sum"](x, axes=tuple(axes), out_sharding=None)


def reshape(x: Any, shape: Sequence[int]) -> Any:
    shape = tuple(shape)
    return x if x.shape == shape else OPS["reshape"](x, new_sizes=shape, dimensions=None, sharding=None)


def permute(x: Any, permutation: Sequence[int]) -> Any:
    """`transpose`; nothing for the identity."""
    permutation = tuple(permutation)
    return x if permutation == tuple(range(len(permutation))) else OPS["transpose"](x, permutation=permutation)


def move_axis(x: Any, source: int, target: int) -> Any:
    """Axis `source` becomes axis `target`; the others keep their order."""
    if source == target:
        return x
    order = [d for d in range(len(x.shape)) if d != source]
    order.insert(target, source)
    return permute(x, order)


def insert_axis(x: Any, dim: int, size: int = 1) -> Any:
    """A new axis `dim` of this size, along which `x` repeats."""
    shape = list(x.shape)
    shape.insert(dim, size)
    return broadcast(x, shape, [d for d in range(len(shape)) if d != dim])


def unbroadcast(ct: Any, aval: ShapedArray) -> Any:
    """The cotangent of an operand of this type that an elementwise op has stretched to `ct`'s shape: sums along the stretched axes."""
    if type(ct) is Zero:
        return Zero(tangent_aval(aval))
    shape = aval.shape
    if ct.shape == shape:
        return ct
    if not shape:
        return sum_over(ct, range(len(ct.shape)))
    stretched = [d for d, (n, m) in enumerate(zip(shape, ct.shape, strict=True)) if n == 1 != m]
    kept = [d for d in range(len(shape)) if d not in stretched]
    # sizes that are not known may be equal, although they are written otherwise
    return broadcast(reshape(sum_over(ct, stretched), [shape[d] for d in kept]), shape, kept)


# Rules that are completed by the op that has them


@final
class ForOp:
    """A rule still to be made for its op: `make(op)` gives the function the contract wants."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[Op], Callable[..., Any]]) -> None:
        self.make = make


def rule_of(op: Op, field: str) -> Any:
    """The op's rule of that field as a function; None if it has none."""
    rule = getattr(op, field)
    if type(rule) is ForOp:
        rule = rule.make(op)
        setattr(op, field, rule)
    return rule


# jvp


def by_argument(*derivatives: Callable[..., Any] | None) -> ForOp:
    """A jvp of an op of one result as a sum over its operands: `derivatives[k](g, out, *primals, **params)` is the part that operand k's
    tangent `g` contributes, linear in `g`, which is never a `Zero`. None: no derivative. A part of another shape than the result is
    broadcast to it."""

    def make(op: Op) -> Callable[..., Any]:
        def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
            out = op(*primals, **params)
            aval = typeof(out)
            total: Any = Zero(tangent_aval(aval))
            if not is_differentiable(aval):
                return out, total
            for derivative, g in zip(derivatives, tangents, strict=True):
                if derivative is None or type(g) is Zero:
                    continue
                part = derivative(g, out, *primals, **params)
                if type(part) is not Zero:
                    total = add(total, broadcast(part, aval.shape))
            return out, total

        return jvp

    return ForOp(make)


def _linear(op: Op) -> Callable[..., Any]:
    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        out = op(*primals, **params)
        if op.multiple_results:
            if not any(is_differentiable(typeof(y)) for y in out):
                return out, [zero_of(y) for y in out]
        elif not is_differentiable(typeof(out)):
            return out, zero_of(out)
        return out, op(*map(instantiate, tangents), **params)

    return jvp


def _constant(op: Op) -> Callable[..., Any]:
    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        out = op(*primals, **params)
        return out, [zero_of(y) for y in out] if op.multiple_results else zero_of(out)

    return jvp


LINEAR: Final = ForOp(_linear)
"""jvp of an op that is linear in all its operands together: the op of the tangents."""
ZERO: Final = ForOp(_constant)
"""jvp of an op whose derivative is zero wherever there is one."""


# transpose


def by_operand(*transposes: Callable[..., Any] | None) -> Callable[..., Any]:
    """A transpose of an op of one result, operand by operand: `transposes[k](ct, *args, **params)` is the cotangent of operand k where that
    is `Linear`; None if the op is never linear in it. A cotangent of an elementwise op is summed to its operand's shape."""

    def transpose(ct: Any, *args: Any, **params: Any) -> list[Any]:
        return [
            unbroadcast(f(ct, *args, **params), x.aval) if type(x) is Linear and f is not None else None
            for f, x in zip(transposes, args, strict=True)
        ]

    return transpose


# batch


def shifted(axes: Any, dim: int) -> Any:
    """Axes (an int or a sequence) of an element of the batch --> axes of the batched array, whose batch axis is `dim`."""
    if isinstance(axes, int):
        return axes + (axes >= dim)
    return type(axes)(a + (a >= dim) for a in axes)


def inserted(sizes: Sequence[int], dim: int, size: int) -> tuple[int, ...]:
    """A tuple with one entry for each axis of an element, with `size` for the batch axis."""
    return (*sizes[:dim], size, *sizes[dim:])


def to_dim(x: Any, dim: int | None, target: int, size: int) -> Any:
    """`x` with its batch axis at `target`; one that has none (None) is repeated."""
    return insert_axis(x, target, size) if dim is None else move_axis(x, dim, target)


def to_front(x: Any, dim: int | None, size: int) -> Any:
    return to_dim(x, dim, 0, size)


def align(axis: Axis, args: Sequence[Any], dims: Sequence[int | None]) -> tuple[list[Any], int]:
    """All operands with their batch axis at the place where the first batched one has it; unbatched ones are repeated."""
    dim = next(d for d in dims if d is not None)
    return [to_dim(x, d, dim, axis.size) for x, d in zip(args, dims, strict=True)], dim


def align_elementwise(axis: Axis, args: Sequence[Any], dims: Sequence[int | None]) -> tuple[list[Any], int]:
    """Operands of an elementwise op in forms that it stretches to one batched shape, and the batch axis of that. Unbatched operands get an
    axis of size 1, or stay as they are if they are of rank 0. Where operands disagree the axis goes to the foremost place, where programs
    want it in the end."""
    ranks = [len(x.shape) - (d is not None) for x, d in zip(args, dims, strict=True)]
    rank = max(ranks)
    dim = min((d for d, r in zip(dims, ranks, strict=True) if d is not None and r == rank), default=0)
    out = []
    for x, d, r in zip(args, dims, ranks, strict=True):
        if d is None:
            out.append(insert_axis(x, dim) if r else x)
        elif r == rank:
            out.append(move_axis(x, d, dim))
        else:  # a scalar of each element
            out.append(broadcast(x, inserted((1,) * rank, dim, axis.size), (dim,)))
    return out, dim


def _results(op: Op, out: Any, dim: int | None) -> tuple[Any, Any]:
    return (out, [dim] * len(out)) if op.multiple_results else (out, dim)


def _elementwise(op: Op) -> Callable[..., Any]:
    def batch(axis: Axis, args: Sequence[Any], dims: Sequence[int | None], /, **params: Any) -> tuple[Any, Any]:
        if len(args) == 1:
            return _results(op, op(*args, **params), dims[0])
        args, dim = align_elementwise(axis, args, dims)
        return _results(op, op(*args, **params), dim)

    return batch


ELEMENTWISE: Final = ForOp(_elementwise)
"""batch of an op that stretches operands of rank 0 and axes of size 1."""


def reduction(param: str = "axes") -> ForOp:
    """batch of an op that drops the axes in this parameter of its operands, which are of one shape."""

    def make(op: Op) -> Callable[..., Any]:
        def batch(axis: Axis, args: Sequence[Any], dims: Sequence[int | None], /, **params: Any) -> tuple[Any, Any]:
            args, dim = align(axis, args, dims)
            axes = params[param]
            dropped = (axes,) if isinstance(axes, int) else axes
            out = op(*args, **params | {param: shifted(axes, dim)})
            return _results(op, out, dim - sum(a < dim for a in dropped))

        return batch

    return ForOp(make)


def along(param: str) -> ForOp:
    """batch of an op that works along the axis or axes in this parameter of its operands, and keeps their number of axes."""

    def make(op: Op) -> Callable[..., Any]:
        def batch(axis: Axis, args: Sequence[Any], dims: Sequence[int | None], /, **params: Any) -> tuple[Any, Any]:
            args, dim = align(axis, args, dims)
            return _results(op, op(*args, **params | {param: shifted(params[param], dim)}), dim)

        return batch

    return ForOp(make)
