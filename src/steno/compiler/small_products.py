"""Contractions that are not worth a call of the matrix product, as elementwise code, which fuses with what is around it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from steno._native import ShapedArray
from steno.ir.expr import F32, F64, Builder, Scalar
from steno.ir.index import ZERO, Index
from steno.ir.kinds import Contract, Map

if TYPE_CHECKING:
    from steno.compiler.graph import Value

TINY, SHALLOW = 512, 16
"""Products of at most so many multiplications, and so many for each element, are written out. `steno_gemm` knows these numbers too: it
keeps subnormals in such products, as this code does."""


def inlined(kind: Contract, operands: Sequence[Value], out: ShapedArray) -> Contract | Map:
    """The contraction as elementwise code, if that is better.

    Each element is one chain of fused multiply-adds in ascending order from zero, as `steno_gemm` has it, so that not a bit tells which of
    them it was."""
    lhs, rhs = operands
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = kind.dimension_numbers
    sizes = [lhs.shape[d] for d in lhs_contract]
    depth = math.prod(sizes)
    at = _Places(kind, lhs.aval.ndim, rhs.aval.ndim)
    if depth == 1:  # an outer product
        return Map(lambda b, indices, reads: _term(b, kind, out, *at(reads, indices, [ZERO] * len(sizes))))
    rows = math.prod(lhs.shape[d] for d in at.lhs_free)
    columns = math.prod(rhs.shape[d] for d in at.rhs_free)
    if kind.compute not in (F32, F64) or any(v.aval.dtype != kind.compute for v in operands) or out.dtype != kind.compute:
        return kind
    if lhs_batch or not 0 < depth <= SHALLOW or not 0 < rows * columns * depth <= TINY:
        return kind

    def body(b: Builder, indices: Sequence[Index], reads: Sequence[Any]) -> Scalar:
        acc: Any = b.const(0.0, kind.compute)
        for p in product(*map(range, sizes)):
            x, y = at(reads, indices, [Index(q) for q in p])
            acc = b.fma(x, y, acc)
        return acc

    return Map(body, stores_operands=True)


def _term(b: Builder, kind: Contract, out: ShapedArray, x: Any, y: Any) -> Scalar:
    return b.convert(b.mul(b.convert(x, kind.compute), b.convert(y, kind.compute)), out.dtype)


class _Places:
    """Which elements of the operands a product multiplies."""

    def __init__(self, kind: Contract, lhs_rank: int, rhs_rank: int) -> None:
        (self.lhs_contract, self.rhs_contract), (self.lhs_batch, self.rhs_batch) = kind.dimension_numbers
        self.lhs_free = [d for d in range(lhs_rank) if d not in self.lhs_contract and d not in self.lhs_batch]
        self.rhs_free = [d for d in range(rhs_rank) if d not in self.rhs_contract and d not in self.rhs_batch]

    def __call__(self, reads: Sequence[Any], indices: Sequence[Index], contracted: Sequence[Index]) -> tuple[Any, Any]:
        batch, rest = indices[: len(self.lhs_batch)], indices[len(self.lhs_batch) :]
        n = len(self.lhs_free)
        lhs = dict(zip([*self.lhs_batch, *self.lhs_free, *self.lhs_contract], [*batch, *rest[:n], *contracted], strict=True))
        rhs = dict(zip([*self.rhs_batch, *self.rhs_free, *self.rhs_contract], [*batch, *rest[n:], *contracted], strict=True))
        return reads[0]([lhs[d] for d in range(len(lhs))]), reads[1]([rhs[d] for d in range(len(rhs))])


__all__ = ["inlined"]
