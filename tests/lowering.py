"""Runs the lowered code of Map and Update ops without a compiler: bodies are built by a Builder and evaluated on NumPy lanes
(`steno.ir.interp`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from steno._native import ArrayImpl

from steno.core import dtypes
from steno.core.aval import ShapedArray
from steno.core.interpret import expansion, to_ndarray
from steno.core.op import Op
from steno.core.trace import trace_to_jaxpr
from steno.ir.expr import Builder, Expr, storage
from steno.ir.index import Index, LoopVar, linear, var
from steno.ir.interp import evaluate, evaluate_index
from steno.ir.kinds import Map, Update
from steno.ir.loops import Buffer


def logical(x: Any) -> ShapedArray:
    """The aval of an ndarray, of its very dtype (64-bit ones too), or of an array of keys."""
    if isinstance(x, ArrayImpl):
        return x.aval
    x = np.asarray(x)
    return ShapedArray(x.shape, x.dtype)


def _words(x: np.ndarray, dtype: Any) -> np.ndarray:
    """The memory of an array as flat primitive elements."""
    primitive, _ = storage(dtype)
    return np.ascontiguousarray(x).reshape(-1).view(primitive)


def _array(words: Sequence[np.ndarray], aval: ShapedArray) -> np.ndarray:
    """The inverse of `_words`, from one array for each component. Keys are uint64."""
    flat = np.ascontiguousarray(np.stack([np.broadcast_to(w, (aval.size,)) for w in words], axis=-1)).reshape(-1)
    dtype = np.dtype(np.uint64) if isinstance(aval.dtype, dtypes.KeyDType) else aval.dtype
    return flat.view(dtype).reshape(aval.shape)


class _Lanes:
    """Operands in memory, and lanes of loop variables over an index space."""

    def __init__(self, args: Sequence[np.ndarray], avals: Sequence[ShapedArray], space: Sequence[int]) -> None:
        self.b = Builder()
        self.avals = avals
        self.buffers = [Buffer(f"in{k}", storage(a.dtype)[0], a.size * storage(a.dtype)[1], "input") for k, a in enumerate(avals)]
        self.memory = {id(buffer): _words(x, a.dtype) for buffer, x, a in zip(self.buffers, args, avals, strict=True)}
        self.vars = [LoopVar(f"i{k}", n) for k, n in enumerate(space)]
        self.indices = [var(v) for v in self.vars]
        grid = np.indices(tuple(space)).reshape(len(space), math.prod(space))
        self.lanes = dict(zip(self.vars, grid, strict=True))
        self.count = math.prod(space)
        self.locals: dict[str, np.ndarray] = {}

    def read(self, k: int) -> Any:
        aval, buffer = self.avals[k], self.buffers[k]

        def read(indices: Sequence[Index], guard: Expr | None = None) -> Any:
            assert len(indices) == aval.ndim, f"operand {k} of shape {aval.shape} read at {indices}"
            return self.b.load(buffer, linear(list(indices), aval.shape), guard, aval.dtype)

        return read

    def leaf(self, e: Expr, value: Any) -> np.ndarray:
        if e.op == "index":
            return evaluate_index(e.attr, self.lanes, value)
        if e.op == "local":
            return self.locals[e.attr]
        assert e.op == "load", e
        buffer, offset, guard = e.attr
        memory = self.memory[id(buffer)]
        at = np.broadcast_to(evaluate_index(offset, self.lanes, value), (self.count,))
        valid = np.ones(self.count, bool) if guard is None else np.broadcast_to(value(guard), (self.count,))
        assert ((0 <= at[valid]) & (at[valid] < memory.size)).all(), f"{buffer.name} of {memory.size} elements read at {at[valid]}"
        assert ((offset.lo <= at[valid]) & (at[valid] <= offset.hi)).all(), (
            f"bounds {offset.lo}..{offset.hi} of {offset} do not hold: {at[valid]}"
        )
        out = np.zeros(self.count, e.dtype)
        out[valid] = memory[at[valid]]
        return out

    def select(self, chosen: np.ndarray) -> None:
        """Keeps some of the lanes only."""
        self.lanes = {v: lanes[chosen] for v, lanes in self.lanes.items()}
        self.count = int(chosen.sum()) if chosen.dtype == bool else len(chosen)


def values(args: Sequence[Any]) -> list[np.ndarray]:
    """Samples as oracles take them."""
    return [to_ndarray(x) if isinstance(x, ArrayImpl) else np.asarray(x) for x in args]


def run_lowered(op: Op, args: Sequence[Any], params: dict[str, Any]) -> list[np.ndarray]:
    """The results of the op's lowered code (Map, Update) as ndarrays."""
    avals = [logical(x) for x in args]
    args = values(args)
    out = op.typ(*avals, **params)
    avals_out = list(out) if op.multiple_results else [out]
    assert op.lower is not None, f"{op.name} has no lower"
    kind = op.lower(avals, avals_out, **params)
    if kind is None:
        return _run_expanded(op, args, params, avals)
    if isinstance(kind, Map):
        return _run_map(kind, args, avals, avals_out, op.multiple_results)
    assert isinstance(kind, Update), kind
    return [_run_update(kind, args, avals)]


def _run_expanded(op: Op, args: Sequence[np.ndarray], params: dict[str, Any], avals: Sequence[ShapedArray]) -> list[np.ndarray]:
    """By the expansion, each op of it lowered."""
    jaxpr = trace_to_jaxpr(expansion(op, params), avals).jaxpr
    env: dict[Any, np.ndarray] = dict(zip(jaxpr.invars, args, strict=True))
    for e in jaxpr.eqns:
        env.update(zip(e.outvars, run_lowered(e.op, [env[a] for a in e.invars], e.params), strict=True))
    return [env[a] for a in jaxpr.outvars]


def _run_map(
    kind: Map, args: Sequence[np.ndarray], avals: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], several: bool
) -> list[np.ndarray]:
    if not avals_out:
        return []
    lanes = _Lanes(args, avals, avals_out[0].shape)
    if not lanes.count:
        return [np.zeros(a.shape, np.uint64 if isinstance(a.dtype, dtypes.KeyDType) else a.dtype) for a in avals_out]
    out = kind.body(lanes.b, lanes.indices, [lanes.read(k) for k in range(len(args))])
    scalars = list(out) if several else [out]
    results = []
    for s, a in zip(scalars, avals_out, strict=True):
        assert s.dtype == a.dtype, f"the body gives {s.dtype}, typ {a.dtype}"
        results.append(_array(evaluate(lanes.b.to_storage(s), lanes.count, lanes.leaf), a))
    return results


def _run_update(kind: Update, args: Sequence[np.ndarray], avals: Sequence[ShapedArray]) -> np.ndarray:
    """Rounds: the r-th update of every element, for r = 0, 1, ..."""
    target, dtype = avals[0], avals[0].dtype
    words = storage(dtype)[1]
    out = _words(args[0], dtype).copy().reshape(-1, words)
    everything = _Lanes(args, avals, kind.space)
    if not everything.count or not target.size:
        return args[0].copy()
    reads = [everything.read(k) for k in range(len(args))]
    at, guard = kind.target(everything.b, everything.indices, reads)
    assert len(at) == target.ndim
    roots = [everything.b.index(linear(list(at), target.shape)), *([] if guard is None else [guard])]
    values = evaluate(roots, everything.count, everything.leaf)
    chosen = np.flatnonzero(values[1]) if guard is not None else np.arange(everything.count)
    position = values[0][chosen]
    assert ((0 <= position) & (position < target.size)).all()
    counts: dict[int, int] = {}
    rank = np.array([counts.__setitem__(p, counts.get(p, -1) + 1) or counts[p] for p in position.tolist()], int)
    assert not kind.unique or not rank.any(), "unique, but an element is written twice"
    for r in range(int(rank.max(initial=-1)) + 1):
        lanes = _Lanes(args, avals, kind.space)
        lanes.select(chosen[rank == r])
        where = position[rank == r]
        b = lanes.b
        names = [f"old{k}" for k in range(words)]
        lanes.locals = {n: out[where, k] for k, n in enumerate(names)}
        old = b.from_storage(dtype, [b._leaf("local", storage(dtype)[0], n) for n in names])
        value = kind.value(b, lanes.indices, [lanes.read(k) for k in range(len(args))], old)
        assert value.dtype == dtype
        for k, w in enumerate(evaluate(b.to_storage(value), lanes.count, lanes.leaf)):
            out[where, k] = w
    return _array([out[:, k] for k in range(words)], target)


def assert_same_bits(got: Any, want: Any, context: str = "") -> None:
    """Equal shape, dtype and bits; any NaN equals any NaN."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape and got.dtype == want.dtype, f"{context}: {got.dtype}{got.shape} instead of {want.dtype}{want.shape}"
    same = (got == want) & (_zero_signs(got) == _zero_signs(want)) | (got != got) & (want != want)
    assert np.all(same), f"{context}\ngot  {got}\nwant {want}"


def _zero_signs(x: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "c":
        return np.signbit(x.real).astype(np.int8) + 2 * np.signbit(x.imag)
    if dtypes.kind(x.dtype) == "f":
        return np.signbit(x.astype(np.float64))
    return np.zeros(x.shape, bool)
