"""Contractions as calls of the matrix product."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from steno.compiler.expressions import Group, NotInRow, Step
from steno.compiler.graph import Node, Value
from steno.ir.expr import Builder, Expr, Scalar
from steno.ir.index import Index
from steno.ir.kinds import Contract, Library, Map
from steno.ir.loops import LibraryCall

if TYPE_CHECKING:
    from steno.compiler.schedule import Scheduler

GEMM_CODES = {
    n: k
    for k, n in enumerate(
        ("float32", "float64", "complex64", "complex128", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")
    )
}
NARROW_CODES = {
    ("int8", "int8", "int32"): 13, ("int8", "uint8", "int32"): 14, ("uint8", "int8", "int32"): 15, ("uint8", "uint8", "int32"): 16,
    ("bfloat16", "bfloat16", "float32"): 17,
}  # fmt: skip
"""Of operands that are multiplied as they are. Those of bfloat16 in no order that is said.

meta of `steno_gemm(lhs, rhs, result)`: code, batch, m, n, k, then for lhs and rhs: offset, batch stride, row stride, column stride, in
elements."""


def place_contract(s: Scheduler, node: Node) -> None:
    """result[b, m, n] = sum over k of lhs[b, m, k] * rhs[b, k, n]: layouts are strides, no operand is transposed in memory."""
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = node.of(Contract).dimension_numbers
    compute = node.of(Contract).compute
    lhs, rhs = node.operands
    (result,) = node.results
    step = s.new_step()
    lhs_free = [a for a in range(lhs.aval.ndim) if a not in lhs_contract and a not in lhs_batch]
    rhs_free = [a for a in range(rhs.aval.ndim) if a not in rhs_contract and a not in rhs_batch]
    narrow = NARROW_CODES.get((lhs.aval.dtype.name, rhs.aval.dtype.name, compute.name))
    if compute.name == "float32" and not node.of(Contract).fast:
        narrow = None
    code, wanted = (GEMM_CODES[compute.name], compute) if narrow is None else (narrow, None)
    a = matrix_operand(s, lhs, (lhs_batch, lhs_free, lhs_contract), wanted or lhs.aval.dtype, step)
    b = matrix_operand(s, rhs, (rhs_batch, rhs_contract, rhs_free), wanted or rhs.aval.dtype, step)
    batch = math.prod(lhs.shape[d] for d in lhs_batch)
    m, n = math.prod(lhs.shape[d] for d in lhs_free), math.prod(rhs.shape[d] for d in rhs_free)
    k = math.prod(lhs.shape[d] for d in lhs_contract)
    target = result
    if result.aval.dtype != compute:
        target = Node("product", Library("steno_gemm", ()), (), [result.aval.update(dtype=compute)]).results[0]
    meta = (code, batch, m, n, k, *a[1:], *b[1:])
    step.statements.append(LibraryCall("steno_gemm", (a[0], b[0], s.buffer(target)), meta, 2.0 * batch * m * n * k))
    s.producer[target] = step
    if target is not result:
        s.stored.add(target)
        rounded = Node("round", Map(lambda e, i, reads: e.convert(reads[0](i), result.aval.dtype), flat=True), (target,), [result.aval])
        (value,) = rounded.results
        s.buffers[value] = s.buffer(result)
        s.stored.add(value)
        g = s.new_group(result.shape, False)  # one that broadcasts can join too
        s.add_map(g, rounded)
        g.stores = [(result if v is value else v, x, at) for v, x, at in g.stores]  # which others read it by
        s.producer[result] = g.step
        s.group_of[result] = g
        g.scalars[result] = g.scalars[value]


def matrix_operand(
    s: Scheduler, v: Value, dims: tuple[Sequence[int], Sequence[int], Sequence[int]], compute: Any, step: Step
) -> tuple[Any, ...]:
    """(buffer, offset, strides of the three groups of dimensions) of an operand; a copy in that order if it has no such strides."""
    if v.aval.dtype == compute:
        found = strided(s, v)
        if found is not None:
            source, offset, strides = found
            merged = [merged_stride([v.shape[d] for d in group], [strides[d] for d in group]) for group in dims]
            if None not in merged:
                return (s.whole(source, step), offset, *merged)
    order = [d for group in dims for d in group]
    shape = tuple(v.shape[d] for d in order)

    def body(b: Builder, index: Sequence[Index], reads: Sequence[Any]) -> Scalar:
        at = [Index(0)] * len(order)
        for d, i in zip(order, index, strict=True):
            at[d] = i
        return b.convert(reads[0](at), compute)

    packed = Node("pack", Map(body), (v,), [v.aval.update(shape=shape, dtype=compute)])
    s.stored.add(packed.results[0])
    s.place_map(packed)
    sizes = [math.prod(v.shape[d] for d in group) for group in dims]
    return (s.whole(packed.results[0], step), 0, sizes[1] * sizes[2], sizes[2], 1)


def merged_stride(sizes: Sequence[int], strides: Sequence[int]) -> int | None:
    """The stride of several dimensions taken as one, if they have one."""
    pairs = [(n, s) for n, s in zip(sizes, strides, strict=True) if n != 1]
    if not pairs:
        return 0
    for (_, s), (n2, s2) in zip(pairs, pairs[1:], strict=False):
        if s != n2 * s2:
            return None
    return pairs[-1][1]


def strided(s: Scheduler, v: Value) -> tuple[Value, int, list[int]] | None:
    """(stored value, offset, stride of each dimension) if reading `v` is one unguarded load at an affine position."""
    g = Group(Step(-1, 0), v.shape, False, 0)
    try:
        e = s.read(g, v, g.index, None)
    except NotInRow:
        return None
    if not isinstance(e, Expr) or e.op != "load" or e.attr[2] is not None:
        return None
    offset = e.attr[1]
    strides = [offset.coefficient(x) for x in g.vars]
    if len(offset.terms) != sum(1 for s in strides if s):
        return None
    (source,) = g.step.reads
    return source, offset.const, strides
