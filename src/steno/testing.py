"""Checks that op records keep their promises: specification, lowered code, eager evaluation and compiled programs agree.

    for args, params in op.samples():
        check_op(op, args, params)

Lowered code runs here without a compiler: bodies are built by a Builder and evaluated on NumPy lanes (`steno.ir.interp`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

import steno.compiler.vecmath  # noqa: F401  the scalar functions that lowered code calls
from steno._native import ArrayImpl
from steno.api import jit
from steno.core import config, dtypes
from steno.core.aval import ShapedArray
from steno.core.interpret import expansion, interpret, to_array, to_ndarray
from steno.core.jaxpr import ClosedJaxpr, Literal
from steno.core.op import Op
from steno.core.trace import trace_to_jaxpr
from steno.ir.expr import Builder, Expr, Scalar, registers, storage
from steno.ir.index import Index, LoopVar, linear, var
from steno.ir.interp import evaluate, evaluate_index
from steno.ir.kinds import Cumulative, Map, Pieces, Reduce, Update
from steno.ir.loops import Buffer
from steno.ops.oracle import Oracle, fold
from steno.transforms.backward import backward
from steno.transforms.batching import batch_flat
from steno.transforms.forward import jvp_flat
from steno.transforms.linearize import linearize_flat
from steno.transforms.rules import Axis, Linear, inserted, instantiate, is_differentiable, zero_of

# comparing


def ulp(x: np.ndarray, dtype: Any) -> np.ndarray:
    """The distance between neighbouring numbers of the (real) `dtype` at magnitude `x`, in long double."""
    info = ml_dtypes.finfo(dtype)
    _, e = np.frexp(np.maximum(np.abs(x), np.longdouble(float(info.smallest_normal))))
    return np.ldexp(np.longdouble(1), e - 1 - info.nmant)


def assert_same_bits(got: Any, want: Any, context: str = "") -> None:
    """Equal shape, dtype and bits; any NaN equals any NaN."""
    found = differences(got, want)
    assert not found, f"{context}: {found}"


def differences(got: Any, want: Any, ulps: float = 0.0, floor: float = 0.0, args: Sequence[Any] = ()) -> str:
    """In words, where `got` is not `want` (see `steno.ops.oracle.Oracle`); empty if it is. Any NaN equals any NaN."""
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"got {got.dtype}{got.shape} instead of {want.dtype}{want.shape}"
    good = same(got, want)
    if ulps and dtypes.kind(got.dtype) in "fc":
        good = good | _near(got, want, ulps, floor)
    if np.all(good):
        return ""
    at = np.argwhere(~good)[:5]
    lines = []
    for index in map(tuple, at):
        operands = ", ".join(str(np.asarray(a)[index]) for a in args if np.asarray(a).shape == got.shape)
        lines.append(f"at {list(map(int, index))}: got {got[index]!r}, want {want[index]!r}" + (f" for ({operands})" if operands else ""))
    return f"{np.count_nonzero(~good)} of {good.size} differ\n  " + "\n  ".join(lines)


def same(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Where two arrays of one dtype have equal bits, or both NaN."""
    if got.dtype.kind == "c":
        return same(got.real, want.real) & same(got.imag, want.imag)
    if got.dtype.names or dtypes.kind(got.dtype) != "f":
        return np.asarray(got == want)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        g, w = got.astype(np.float64), want.astype(np.float64)
    return (g == w) & (np.signbit(g) == np.signbit(w)) | np.isnan(g) & np.isnan(w)


def _near(got: np.ndarray, want: np.ndarray, ulps: float, floor: float) -> np.ndarray:
    if got.dtype.kind == "c":
        # error and unit by the modulus; NaN and infinite components must be those of the specification
        g, w = got.astype(np.clongdouble), want.astype(np.clongdouble)
        with np.errstate(all="ignore"):
            size = np.maximum(np.hypot(w.real, w.imag), floor)
            unit = ulp(size, got.real.dtype)
            near = [np.abs(a - b) <= ulps * unit for a, b in ((g.real, w.real), (g.imag, w.imag))]
        return (same(got.real, want.real) | near[0]) & (same(got.imag, want.imag) | near[1])
    g, w = got.astype(np.longdouble), want.astype(np.longdouble)
    with np.errstate(all="ignore"):
        return np.abs(g - w) <= ulps * ulp(np.maximum(np.abs(w), floor), got.dtype)


# lowered code on lanes


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
    """The inverse of `_words`, from one array for each component. Keys are as oracles see them."""
    flat = np.ascontiguousarray(np.stack([np.broadcast_to(w, (aval.size,)) for w in words], axis=-1)).reshape(-1)
    return flat.view(dtypes.host_dtype(aval.dtype)).reshape(aval.shape)


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


def run_lowered(op: Op, args: Sequence[Any], params: dict[str, Any]) -> list[np.ndarray] | None:
    """The results of the op's lowered code, or of that of its expansion, as ndarrays; None for kinds without scalar code (contractions,
    libraries, callbacks) and for ops with nested programs."""
    avals = [logical(x) for x in args]
    args = values(args)
    out = op.typ(*avals, **params)
    avals_out = list(out) if op.multiple_results else [out]
    kind = None if op.lower is None else op.lower(avals, avals_out, **params)
    if kind is None and op.expand is not None:
        return _run_expanded(op, args, params, avals)
    if isinstance(kind, Map):
        return _run_map(kind, args, avals, avals_out, op.multiple_results)
    if isinstance(kind, Reduce):
        return _run_reduce(kind, args, avals, avals_out)
    if isinstance(kind, Cumulative):
        return _run_cumulative(kind, args, avals, avals_out)
    if isinstance(kind, Pieces):
        return [np.concatenate(args, kind.axis)] if kind.body is None else _run_map(Map(kind.body), args, avals, avals_out, False)
    if isinstance(kind, Update):
        return [_run_update(kind, args, avals)]
    return None


def _run_expanded(op: Op, args: Sequence[np.ndarray], params: dict[str, Any], avals: Sequence[ShapedArray]) -> list[np.ndarray] | None:
    """By the expansion, each op of it lowered."""
    jaxpr = trace_to_jaxpr(expansion(op, params), avals).jaxpr
    env: dict[Any, np.ndarray] = dict(zip(jaxpr.invars, args, strict=True))

    def read(a: Any) -> np.ndarray:
        return np.asarray(a.val) if isinstance(a, Literal) else env[a]

    for e in jaxpr.eqns:
        out = run_lowered(e.op, [read(a) for a in e.invars], e.params)
        if out is None:
            return None
        env.update(zip(e.outvars, out, strict=True))
    return [read(a) for a in jaxpr.outvars]


def _run_map(
    kind: Map, args: Sequence[np.ndarray], avals: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], several: bool
) -> list[np.ndarray]:
    if not avals_out:
        return []
    lanes = _Lanes(args, avals, avals_out[0].shape)
    if not lanes.count:
        return [np.zeros(a.shape, dtypes.host_dtype(a.dtype)) for a in avals_out]
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
    coordinates = np.unravel_index(chosen, kind.space) if kind.space else ()
    for axis in kind.apart:
        pairs = np.unique(np.stack([position, coordinates[axis]]), axis=1)
        assert pairs.shape[1] == np.unique(position).size, f"apart along axis {axis}, but one element is written from two places there"
    leading = chosen // math.prod(kind.space[len(kind.space) - kind.trailing :])
    assert np.unique(np.stack([position, leading]), axis=1).shape[1] == position.size, "trailing axes that are not free of collisions"
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


def _scalars(b: Builder, dtypes_: Sequence[Any], prefix: str) -> tuple[Scalar, ...]:
    """Scalars whose registers are leaves `prefix0`, `prefix1`, ..."""
    names = (f"{prefix}{k}" for k in itertools.count())
    return tuple(b.from_registers(d, [b.local(next(names), primitive) for primitive in registers(d)]) for d in dtypes_)


def _lanes(roots: Sequence[Expr], memory: dict[str, np.ndarray]) -> tuple[np.ndarray, ...]:
    """The values of `roots`, the arrays of `memory` (broadcast to one shape) being those of local leaves."""
    arrays = np.broadcast_arrays(*memory.values())
    shape = arrays[0].shape
    flat = {k: v.reshape(-1) for k, v in zip(memory, arrays, strict=True)}
    if not math.prod(shape):
        return tuple(np.zeros(shape, e.dtype) for e in roots)
    return tuple(v.reshape(shape) for v in evaluate(roots, math.prod(shape), lambda e, value: flat[e.attr]))


class _Fold:
    """A Reduce or Cumulative as functions of register arrays."""

    def __init__(self, kind: Reduce | Cumulative, dtypes_in: Sequence[Any]) -> None:
        self.kind, self.dtypes_in = kind, dtypes_in
        self.b = b = Builder()
        identity = kind.identity(b)
        self.dtypes = [s.dtype for s in identity]
        self.identity = [e.attr for s in identity for e in b.to_registers(s)]
        combined = kind.combine(b, _scalars(b, self.dtypes, "p"), _scalars(b, self.dtypes, "q"))
        self.combined = [e for s in combined for e in b.to_registers(s)]

    def elements(self, args: Sequence[np.ndarray], position: np.ndarray) -> tuple[np.ndarray, ...]:
        b, memory, raw = self.b, {"position": position}, []
        for k, (x, d) in enumerate(zip(args, self.dtypes_in, strict=True)):
            primitive, count = storage(d)
            words = np.ascontiguousarray(x).reshape(*x.shape, 1).view(primitive) if x.size else np.zeros((*x.shape, count), primitive)
            leaves = []
            for c in range(count):
                memory[f"x{k}_{c}"] = words[..., c]
                leaves.append(b._leaf("local", primitive, f"x{k}_{c}"))
            raw.append(b.from_storage(d, leaves))
        element = self.kind.element if isinstance(self.kind, Reduce) else None
        scalars = tuple(raw) if element is None else element(b, b.local("position", np.int64), tuple(raw))
        return _lanes([e for s in scalars for e in b.to_registers(s)], memory)

    def combine(self, p: Sequence[np.ndarray], q: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        return _lanes(self.combined, {f"{name}{k}": v for name, values in (("p", p), ("q", q)) for k, v in enumerate(values)})

    def results(self, acc: Sequence[np.ndarray], avals: Sequence[ShapedArray]) -> list[np.ndarray]:
        b = self.b
        scalars = _scalars(b, self.dtypes, "p")
        if isinstance(self.kind, Reduce) and self.kind.result is not None:
            scalars = self.kind.result(b, scalars)
        assert [s.dtype for s in scalars] == [a.dtype for a in avals]
        words = iter(_lanes([e for s in scalars for e in b.to_storage(s)], {f"p{k}": v for k, v in enumerate(acc)}))
        return [_array([next(words).reshape(-1) for _ in range(storage(a.dtype)[1])], a) for a in avals]


def _run_reduce(
    kind: Reduce, args: Sequence[np.ndarray], avals: Sequence[ShapedArray], avals_out: Sequence[ShapedArray]
) -> list[np.ndarray]:
    f = _Fold(kind, [a.dtype for a in avals])
    shape = avals[0].shape
    reduced = [n if k in kind.axes else 1 for k, n in enumerate(shape)]
    position = np.broadcast_to(np.arange(math.prod(reduced)).reshape(reduced), shape)
    return f.results(fold(f.elements(args, position), kind.axes, f.identity, f.combine), avals_out)


def _run_cumulative(
    kind: Cumulative, args: Sequence[np.ndarray], avals: Sequence[ShapedArray], avals_out: Sequence[ShapedArray]
) -> list[np.ndarray]:
    f = _Fold(kind, [a.dtype for a in avals])
    elements = [np.moveaxis(v, kind.axis, 0) for v in f.elements(args, np.zeros((), np.int64))]
    acc = tuple(np.full(v.shape[1:], i, v.dtype) for i, v in zip(f.identity, elements, strict=True))
    out = [np.empty_like(v) for v in elements]
    steps = range(len(elements[0]))
    for k in reversed(steps) if kind.reverse else steps:
        acc = f.combine(acc, [v[k] for v in elements])
        for o, a in zip(out, acc, strict=True):
            o[k] = a
    return f.results([np.moveaxis(o, 0, kind.axis) for o in out], avals_out)


# records


def check_op(op: Op, args: Sequence[Any], params: dict[str, Any], *, backend: str = "cpu", compiled: bool = True) -> None:
    """AssertionError unless the op's results on these arguments (a sample of the record) are those of its specification: of the types `typ`
    promises, near enough by its `Oracle`; from its lowered code on lanes, and (with `compiled`) evaluated and jitted on the backend, these
    two bit for bit alike."""
    values = [to_ndarray(x) if isinstance(x, ArrayImpl) else np.asarray(x) for x in args]
    avals = [logical(x) for x in args]
    types = op.typ(*avals, **params)
    want = op.oracle(*values, **params)
    context = f"{op.name}{params} of ({', '.join(a.str_short() for a in avals)})"
    if not op.multiple_results:
        types, want = [types], [want]
    assert len(want) == len(types), f"{context}: the specification gives {len(want)} results, typ {len(types)}"
    for w, t in zip(map(np.asarray, want), types, strict=True):
        d = dtypes.host_dtype(t.dtype)
        assert (w.shape, w.dtype) == (t.shape, d), f"{context}: the specification gives {w.dtype}{w.shape}, typ {t}"
    _check("lowered code", run_lowered(op, args, params), want, op, values, context)
    if compiled:
        arrays = [x if isinstance(x, ArrayImpl) else to_array(x, a) for x, a in zip(args, avals, strict=True)]
        with config.backend(backend):
            eager = op(*arrays, **params)
            jitted = jit(lambda *xs: op(*xs, **params))(*arrays)
        if not op.multiple_results:
            eager, jitted = [eager], [jitted]
        for e, j, t in zip(eager, jitted, types, strict=True):
            assert e.aval is t and j.aval is t, f"{context}: eager gives {e.aval}, jit {j.aval}, typ {t}"
        eager, jitted = [to_ndarray(x) for x in eager], [to_ndarray(x) for x in jitted]
        _check("eager", eager, want, op, values, context)
        for e, j in zip(eager, jitted, strict=True):
            found = differences(j, e)
            assert not found, f"{context}: jit and eager: {found}"


def _check(what: str, got: Sequence[np.ndarray] | None, want: Sequence[Any], op: Op, args: Sequence[np.ndarray], context: str) -> None:
    if got is None:
        return
    for g, w in zip(got, want, strict=True):
        bounds = (op.oracle.bound([x.dtype for x in args]), op.oracle.floor) if isinstance(op.oracle, Oracle) else (0.0, 0.0)
        found = differences(g, w, *bounds, args)
        assert not found, f"{context}: {what}: {found}"


# rules of transformations


def check_rules(
    op: Op,
    args: Sequence[Any],
    params: dict[str, Any],
    *,
    elements: Sequence[Sequence[Any]] | None = None,
    order: int = 2,
    rtol: float = 1e-6,
    atol: float = 1e-8,
    step: float = 1e-4,
    jvp: bool = True,
    batch: bool = True,
) -> None:
    """AssertionError unless the op's rules (or those of its expansion) agree with its specification, at arguments of 64-bit dtypes.

    jvp        against finite differences, for each operand alone and all together, to second order (`order`)
    transpose  by the dot-product test on the linearized op, and the derivative of that in turn
    batch      against a loop of single calls, for each choice of batch axes. The batch is `args` and `elements`, argument tuples of the
               same types (default: two made by moving elements about and changing scalars)

    float64 and complex128 operands vary; the op must be smooth within 2 `step` of them. Everything is traced, so rules that look at values
    fail, and evaluated by the ops' oracles: no backend is involved."""
    with config.enable_x64(True), config.enable_checks(True):
        context = f"{op.name}{params} of ({', '.join(logical(x).str_short() for x in args)})"
        if jvp:
            _check_derivatives(_flat(op, params), values(args), [logical(x) for x in args], order, rtol, atol, step, context)
        if batch:
            _check_batch(_flat(op, params), [args, *(elements or _variants(args))], context)


def _flat(op: Op, params: dict[str, Any]) -> Callable[..., list[Any]]:
    def run(*args: Any) -> list[Any]:
        out = op(*args, **params)
        return list(out) if op.multiple_results else [out]

    return run


def _varies(aval: ShapedArray) -> bool:
    return aval.dtype in (dtypes.float64, dtypes.complex128)


Flat = Callable[..., list[Any]]


def _check_derivatives(
    f: Flat, point: Sequence[np.ndarray], avals: Sequence[ShapedArray], order: int, rtol: float, atol: float, step: float, context: str
) -> None:
    """`f`'s jvp against finite differences of `f` along random directions, and its vjp against its jvp; the same for these functions, for
    `order` > 1, at the directions that are arguments of theirs."""
    close = {"rtol": rtol, "atol": atol}
    moving = [k for k, a in enumerate(avals) if _varies(a)]
    program = trace_to_jaxpr(f, avals)
    kept = [j for j, a in enumerate(program.out_avals) if _varies(a)]
    if not moving or not kept:
        _check_no_derivative(f, program, avals, context)
        return
    rng = np.random.default_rng(len(point))
    directions = {k: _direction(rng, point[k]) for k in moving}
    for which in [moving, *([[k] for k in moving] if len(moving) > 1 else [])]:
        forward = _forward(f, which, kept)
        avals_forward = [*avals, *(avals[k] for k in which)]
        at = [*point, *(directions[k] for k in which)]
        derivative = trace_to_jaxpr(forward, avals_forward)
        got = interpret(derivative, at)
        _assert_close(got, _difference(program, point, {k: directions[k] for k in which}, step, kept), close, f"{context}: jvp by {which}")
        cts = [_direction(rng, y) for y in got]
        backward_ = _backward(f, which, kept)
        pulled = trace_to_jaxpr(backward_, [*avals, *(program.out_avals[j] for j in kept)])
        found = interpret(pulled, [*point, *cts])
        assert [(x.shape, x.dtype) for x in found] == [(point[k].shape, point[k].dtype) for k in which], f"{context}: types of cotangents"
        left, right = _dot(cts, got), _dot(found, [directions[k] for k in which])
        assert np.isclose(left, right, rtol=1e-9, atol=1e-9 * _size(cts, got)), f"{context}: transpose by {which}: {left} != {right}"
        if order > 1 and which == moving:
            _check_derivatives(forward, at, avals_forward, order - 1, rtol, atol, step, f"{context}: derivative of its jvp")
            at, avals_back = [*point, *cts], [*avals, *(program.out_avals[j] for j in kept)]
            _check_derivatives(backward_, at, avals_back, order - 1, rtol, atol, step, f"{context}: derivative of its vjp")


def _check_no_derivative(f: Flat, program: ClosedJaxpr, avals: Sequence[ShapedArray], context: str) -> None:
    """Operands of floating types, if any, have tangents that lead to none."""
    which = [k for k, a in enumerate(avals) if is_differentiable(a)]
    if which and not any(is_differentiable(a) for a in program.out_avals):
        trace_to_jaxpr(_forward(f, which, []), [*avals, *(avals[k] for k in which)])


def _forward(f: Flat, which: Sequence[int], kept: Sequence[int]) -> Flat:
    """Arguments, then tangents of those in `which` --> the tangents of the results `kept`."""

    def run(*args: Any) -> list[Any]:
        xs, given = args[: len(args) - len(which)], dict(zip(which, args[len(args) - len(which) :], strict=True))
        tangents = [given[k] if k in given else zero_of(x) for k, x in enumerate(xs)]
        _, out, _ = jvp_flat(lambda *ys: (f(*ys), ()), xs, tangents)
        return [instantiate(out[j]) for j in kept]

    return run


def _backward(f: Flat, which: Sequence[int], kept: Sequence[int]) -> Flat:
    """Arguments, then cotangents of the results `kept` --> cotangents of the arguments in `which`."""

    def run(*args: Any) -> list[Any]:
        xs, cts = args[: len(args) - len(kept)], args[len(args) - len(kept) :]
        _, varying, linear, _ = linearize_flat(lambda *ys: ([f(*ys)[j] for j in kept], ()), xs, [k in which for k in range(len(xs))])
        given = [ct for ct, v in zip(cts, varying, strict=True) if v]
        out = backward(linear.jaxpr, linear.consts, [Linear(v.aval) for v in linear.jaxpr.invars], given)
        return [instantiate(ct) for ct in out]

    return run


def _direction(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    out = rng.standard_normal(x.shape)
    return out + 1j * rng.standard_normal(x.shape) if x.dtype.kind == "c" else np.asarray(out)


def _difference(
    program: ClosedJaxpr, point: Sequence[np.ndarray], directions: dict[int, np.ndarray], step: float, kept: Sequence[int]
) -> list[np.ndarray]:
    """The derivative along the directions by central differences of fourth order."""

    def at(t: float) -> list[np.ndarray]:
        out = interpret(program, [x + t * directions[k] if k in directions else x for k, x in enumerate(point)])
        return [out[j] for j in kept]

    near = [(a - b) * (8 / (12 * step)) for a, b in zip(at(step), at(-step), strict=True)]
    far = [(a - b) / (12 * step) for a, b in zip(at(2 * step), at(-2 * step), strict=True)]
    return [a - b for a, b in zip(near, far, strict=True)]


def _dot(xs: Sequence[np.ndarray], ys: Sequence[np.ndarray]) -> float:
    """The pairing that transposition keeps: the real part of the sum of products, without conjugation."""
    return math.fsum(float(np.sum(x * y).real) for x, y in zip(xs, ys, strict=True))


def _size(xs: Sequence[np.ndarray], ys: Sequence[np.ndarray]) -> float:
    return 1 + math.fsum(float(np.sum(np.abs(x * y))) for x, y in zip(xs, ys, strict=True))


def _assert_close(got: Sequence[np.ndarray], want: Sequence[np.ndarray], close: dict[str, float], context: str) -> None:
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape, f"{context}: a tangent of shape {g.shape} for a result of shape {w.shape}"
        if not np.allclose(g, w, **close):
            raise AssertionError(f"{context}: got {g!r}, by differences {w!r}")


# batches


def _variants(args: Sequence[Any]) -> list[list[Any]]:
    """Two more elements of a batch whose first is `args`."""
    return [[_variant(x, k) for x in args] for k in (1, 2)]


def _variant(x: Any, k: int) -> Any:
    if isinstance(x, ArrayImpl):
        return x
    x = np.asarray(x)
    if x.size > 1:
        return np.roll(x.reshape(-1), k).reshape(x.shape)
    if x.dtype == np.bool_:
        return x ^ (k == 1)
    return (x + k if x.dtype.kind in "iu" else x * (1 + k / 16)).astype(x.dtype)


def _check_batch(f: Flat, elements: Sequence[Sequence[Any]], context: str) -> None:
    """Each choice of batch axes (of some 60 at most) gives what the loop gives."""
    avals = [logical(x) for x in elements[0]]
    size = len(elements)
    columns = [values(column) for column in zip(*elements, strict=True)]
    program = trace_to_jaxpr(f, avals)
    choices = [c for c in itertools.product(*([None, *range(a.ndim + 1)] for a in avals)) if any(d is not None for d in c)]
    known: dict[tuple[bool, ...], list[list[np.ndarray]]] = {}
    for dims in choices[:: max(1, len(choices) // 60)]:
        batched = tuple(d is not None for d in dims)
        if batched not in known:
            known[batched] = [interpret(program, [c[n] if b else c[0] for c, b in zip(columns, batched, strict=True)]) for n in range(size)]
        out_dims: list[int | None] = []

        def run(*xs: Any, dims: Any = dims, out_dims: list[int | None] = out_dims) -> list[Any]:
            outs, found = batch_flat(f, Axis(None, size), xs, dims)
            out_dims[:] = found
            return outs

        stacked = [c[0] if d is None else np.stack(c, d) for c, d in zip(columns, dims, strict=True)]
        batched_avals = [a if d is None else a.update(shape=inserted(a.shape, d, size)) for a, d in zip(avals, dims, strict=True)]
        outs = interpret(trace_to_jaxpr(run, batched_avals), stacked)
        for j, (y, d) in enumerate(zip(outs, out_dims, strict=True)):
            for n, single in enumerate(known[batched]):
                _assert_element(
                    y if d is None else np.take(y, n, axis=d), single[j], f"{context}: result {j} of element {n} for dims {dims}"
                )


def _assert_element(got: np.ndarray, want: np.ndarray, context: str) -> None:
    assert (got.shape, got.dtype) == (want.shape, want.dtype), f"{context}: {got.dtype}{got.shape}, by a loop {want.dtype}{want.shape}"
    if not same(got, want).all() and not (got.dtype.kind in "fc" and np.allclose(got, want, 1e-12, 1e-12, equal_nan=True)):
        raise AssertionError(f"{context}: got {got!r}, by a loop {want!r}")
