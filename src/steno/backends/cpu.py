"""The cpu backend: programs compiled to machine code; eager ops are programs of one op, compiled once for each signature."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable, Sequence
from typing import Any, Final, final

import numpy as np

from steno._native import ArrayImpl, Executable
from steno.backends.state import compile_stateful, single_op
from steno.compiler.compiled import NOMINAL, Compiled, compile_for_any_size, compile_jaxpr
from steno.compiler.cost import is_heavy
from steno.core import monitoring
from steno.core.aval import ShapedArray, shape_only, typeof
from steno.core.dtypes import float0
from steno.core.interpret import to_array, to_ndarray
from steno.core.jaxpr import ClosedJaxpr, Var, dce_jaxpr
from steno.core.op import Op
from steno.core.sizes import UnknownSize
from steno.core.trace import Tracer, escaped
from steno.ir.kinds import Map
from steno.transforms.discharge import stateful, takes_refs

LONG: Final = 1 << 60  # nanoseconds: longer runs are expected to take so long


@final
class CpuExecutable:
    """Machine code for a program. `run(args)` takes one value for each input of the jaxpr and returns one array for each output;
    `donated`: positions of the inputs whose memory may be taken over.

    The dispatcher of jitted functions uses `native` directly, with `results` saying where each output is (see `Compiled`).
    """

    __slots__ = ("as_produced", "compiled", "in_avals", "native", "out_avals", "results")

    def __init__(self, compiled: Compiled) -> None:
        for c in compiled.captured:
            if isinstance(c, Tracer):
                raise escaped(c)
            if type(c) in shape_only:
                raise TypeError(f"A {type(c).__name__} has no value and cannot be a constant of a program that runs: {c}")
        self.compiled = compiled
        self.in_avals = list(compiled.in_avals)
        self.out_avals = [v.aval for v in compiled.jaxpr.jaxpr.outvars]
        produced = list(compiled.out_avals)
        for (where, k), aval in zip(compiled.results, self.out_avals, strict=True):
            if where == "output" and produced[k].weak_type != aval.weak_type:  # simplification may have lost it
                produced[k] = produced[k].update(weak_type=aval.weak_type)
        self.native = Executable(
            compiled.linked.address,
            [*compiled.in_avals, *(typeof(c) for c in compiled.captured)],
            produced,
            compiled.plan.arena_bytes,
            list(compiled.aliases),
            list(compiled.captured),
            list(compiled.host_calls),
            compiled.linked.keepalive,
            is_heavy(compiled.plan.nanoseconds),
            int(min(compiled.plan.nanoseconds, LONG)) if compiled.plan.bounded else 0,
        )
        self.results = tuple(self._result(w, v, a) for (w, v), a in zip(compiled.results, self.out_avals, strict=True))
        self.as_produced = self.results == tuple(("output", k) for k in range(len(compiled.out_avals)))

    def _result(self, where: str, value: Any, aval: ShapedArray) -> tuple[str, Any]:
        n = len(self.in_avals)
        if where == "constant":
            return "constant", to_array(value, aval)
        if where == "input" and value >= n:  # a captured array is itself the result
            return "constant", self.compiled.captured[value - n]
        return where, value

    def add_float0(self, out_avals: Sequence[ShapedArray]) -> None:
        """All results' types, for a program compiled without its results of dtype float0: NumPy's arrays stand for these."""
        produced = iter(self.results)
        self.results = tuple(next(produced) if a.dtype != float0 else ("constant", _float0_array(a)) for a in out_avals)
        self.out_avals, self.as_produced = list(out_avals), False

    def run(self, args: Sequence[Any], donated: Iterable[int] = ()) -> list[Any]:
        produced = self.native.run(args, tuple(donated))
        if self.as_produced:
            return produced
        out = []
        for (where, value), aval in zip(self.results, self.out_avals, strict=True):
            if where == "output":
                out.append(produced[value])
            elif where == "constant":
                out.append(value)
            else:
                out.append(_forwarded(args[value], aval))
        return out

    def as_text(self, level: str = "loops") -> str:
        return self.compiled.as_text(level)


def _float0_array(aval: ShapedArray) -> np.ndarray:
    out = np.zeros(aval.shape, float0)
    out.flags.writeable = False
    return out


def _forwarded(x: Any, aval: ShapedArray) -> ArrayImpl:
    """An argument that is also a result: a new array over the same memory (the argument itself may be deleted, being donated)."""
    return x.with_aval(aval) if isinstance(x, ArrayImpl) else to_array(to_ndarray(x), aval)


def compile(program: ClosedJaxpr, *, donated: frozenset[int] = frozenset(), options: Any = None, quick: bool = False) -> Any:
    """A `CpuExecutable`, or, where references to mutable arrays go in or come out, a `StatefulExecutable`. `donated`: positions of the
    inputs whose memory results may take over. `options`: compiler options, a tuple of pairs. `quick`: of a single op. ValueError for
    effects that a compiled program cannot have, UnexpectedTracerError for tracers among its constants."""
    for a in (*program.in_avals, *program.out_avals):
        if any(isinstance(n, UnknownSize) for n in a.shape):
            raise NotImplementedError(
                f"a program with an array of type {a.str_short()} cannot run: programs of symbolic shapes are exported (export.export), "
                "and run when the Exported is called with arrays"
            )
    if takes_refs(program) or stateful(program):
        return compile_stateful(functools.partial(compile, options=options, quick=quick), program, donated)
    kept = [a.dtype != float0 for a in program.out_avals]
    fast = ("fast_math", True) in (options or ())
    if all(kept):
        return CpuExecutable(compile_jaxpr(program, donated, quick, fast))
    executable = CpuExecutable(compile_jaxpr(_without_float0(program, kept), donated, quick, fast))
    executable.add_float0(program.out_avals)
    return executable


def _without_float0(program: ClosedJaxpr, kept: Sequence[bool]) -> ClosedJaxpr:
    """The program with the results that are `kept`, without constants and equations of dtype float0."""
    smaller, _ = dce_jaxpr(program.jaxpr, kept, True)
    some = [(v, c) for v, c in zip(smaller.constvars, program.consts, strict=True) if v.aval.dtype != float0]
    return ClosedJaxpr(smaller.replace(constvars=[v for v, _ in some]), [c for _, c in some])


_eager_cache: dict[Any, CpuExecutable | SizedExecutable] = {}
_EAGER_LIMIT = 8192
_lock = threading.Lock()


def eager(op: Op, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """One op on concrete values: an ArrayImpl, or a list of them for an op of multiple results."""
    avals = tuple([typeof(x) for x in args])
    key = (op, avals, *params.items())
    # what is compiled for an op with programs inside is kept as long as these
    cache = _eager_cache if op.subprograms is None else op.subprograms(params)[0].__dict__.setdefault("executables", {})
    try:
        executable = cache.get(key)
    except TypeError:  # a parameter that cannot be hashed: compiled each time
        executable, key = None, None
    if executable is None:
        executable = _for_any_size(op, avals, params)
        if executable is None:
            with monitoring.compilation(params["name"] if op.name == "jit" else op.name):
                executable = compile(single_op(op, avals, params), quick=op.subprograms is None)
        if key is not None:
            with _lock:
                if len(cache) >= _EAGER_LIMIT:
                    cache.clear()
                cache[key] = executable
    out = executable.native.run(args) if executable.as_produced else executable.run(args)
    return out if op.multiple_results else out[0]


def native_op(op: Op, avals: tuple[ShapedArray, ...]) -> Executable | None:
    """What `eager` runs for an op without parameters and programs, if it has been compiled and gives one array as it is."""
    executable = _eager_cache.get((op, avals))
    return executable.native if executable is not None and executable.as_produced and not op.multiple_results else None


def clear_cache() -> None:
    """Forgets the executables of eager ops."""
    with _lock:
        _eager_cache.clear()
        _sized_code.clear()


# Elementwise ops are compiled once for arrays of all shapes: an executable for one shape is that code and a number of elements.

LARGE_BYTES = 8 << 20
"""Operands and results of more bytes are worth code of their own, which knows that no cache will keep what it writes."""

_COUNT: Final = ShapedArray((), np.int64)
_sized_code: dict[Any, Compiled] = {}


@final
class SizedExecutable:
    """Code for any size, run for one."""

    __slots__ = ("as_produced", "native")

    def __init__(self, code: Compiled, avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray], size: int) -> None:
        self.native = Executable(
            code.linked.address,
            [*avals, _COUNT],
            list(out_avals),
            0,
            (),
            [ArrayImpl.from_numpy(np.asarray(size), _COUNT)],
            (),
            code.linked.keepalive,
            is_heavy(code.plan.nanoseconds / NOMINAL * size),
            int(min(code.plan.nanoseconds / NOMINAL * size, LONG)),
        )
        self.as_produced = True


def _for_any_size(op: Op, avals: tuple[ShapedArray, ...], params: dict[str, Any]) -> SizedExecutable | None:
    """None for an op that is not elementwise on these operands, or on too much."""
    shapes = {a.shape for a in avals if a.shape}
    if len(shapes) != 1 or op.lower is None or op.effects is not None:
        return None
    types = op.types(avals, params)
    out_avals = types if op.multiple_results else [types]
    if any(a.shape not in shapes for a in out_avals) or sum(a.nbytes for a in (*avals, *out_avals)) > LARGE_BYTES:
        return None
    vectors = [ShapedArray((NOMINAL,), a.dtype, a.weak_type) if a.shape else a for a in avals]
    key = (op, *vectors, *params.items())
    code = _sized_code.get(key)
    if code is None:
        if not _is_elementwise(op.lower(avals, out_avals, **params)):
            return None
        program = single_op(op, vectors, params)
        if not _is_elementwise(op.lower(vectors, program.out_avals, **params)):
            return None
        j = program.jaxpr
        with monitoring.compilation(op.name):
            code = _sized_code[key] = compile_for_any_size(ClosedJaxpr(j.replace(invars=[*j.invars, Var(_COUNT)]), []))
    return SizedExecutable(code, avals, out_avals, out_avals[0].size)


def _is_elementwise(kind: Any) -> bool:
    return isinstance(kind, Map) and kind.flat and not kind.view
