"""Traces and tracers: how a Python function becomes a recorded program.

The current trace is a thread-local slot of the native core (None: evaluate now). `op(*args)` hands an op to the current trace's `process`;
nothing looks for tracers among the arguments to decide. A transformation is a subclass of `Trace` with tracers of its own, current while
the function runs, whose rules bind ops under the trace that was current before (`with set_current_trace(parent): ...`).
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ContextDecorator, contextmanager
from types import TracebackType
from typing import Any, final

import numpy as np

from steno._native import ArrayImpl, ShapedArray, current_trace, swap_trace
from steno.core import source
from steno.core.aval import HasAval, TypedScalar, not_an_array, python_scalar, register_aval_type, scalar_value, shape_only, typeof
from steno.core.config import config
from steno.core.errors import (
    ConcretizationTypeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
)
from steno.core.jaxpr import NO_DEBUG_INFO, NO_EFFECTS, Atom, ClosedJaxpr, DebugInfo, Jaxpr, JaxprEqn, Literal, Var, check_jaxpr, eval_jaxpr
from steno.core.leaks import holders
from steno.core.names import NO_NAMES, named
from steno.core.op import Op, check_operands
from steno.core.refs import Ref, is_ref_type


class Trace:
    """What ops do while this is current. `process(op, args, params)` returns a value or, for ops of multiple results, a list.
    `parent`: the trace that was current before, if this one hands ops on to it."""

    __slots__ = ("__weakref__",)
    parent: Any = None
    places: Any = None
    recorder: Any = None
    """The `JaxprTrace` that records what this trace does not hand on; None: there is none."""

    def process(self, op: Op, args: Sequence[Any], params: dict[str, Any]) -> Any:
        raise NotImplementedError(f"{type(self).__name__}.process")

    def is_over(self) -> bool:
        """Whether the function that was traced has returned, so that tracers of this trace have escaped."""
        return False

    def evaluates(self) -> bool:
        """Whether ops on known values give known values, as where nothing is traced: no rule of a derivative or map will be asked for."""
        return False

    def note(self, tracer: Any) -> None:
        """Remembers where a tracer is made: in the table `places`, which a trace has while leaks are looked for."""
        self.places[id(tracer)] = source.place()

    def place_of(self, tracer: Any) -> source.Place | None:
        """Where a tracer of this trace was made, if that is known."""
        return None if self.places is None else self.places.get(id(tracer))

    def explain(self, tracer: Any) -> str:
        """Where the tracer's value comes from, in words: for error messages."""
        return f"The value belongs to a trace of type {type(self).__name__}."

    def __repr__(self) -> str:
        return type(self).__name__


@final
class set_current_trace:
    """`with set_current_trace(trace): ...`; None evaluates."""

    __slots__ = ("_previous", "_trace")

    def __init__(self, trace: Trace | None) -> None:
        self._trace = trace

    def __enter__(self) -> Trace | None:
        self._previous = swap_trace(self._trace)
        return self._trace

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        swap_trace(self._previous)


class Tracer(HasAval):
    """A stand-in for an array while a function is traced. Operators and methods are installed by `install_methods`.

    A subclass whose value may be known (a jvp of concrete arrays) gives `_known`, the value or None. That decides branches, indices and
    ints; where a float would lose the derivative (`float(x)`, `np.asarray(x)`) it is of no use if the class is `_differentiated`."""

    __slots__ = ("__weakref__", "_trace", "aval")
    __array_priority__ = 1000
    __hash__ = None  # type: ignore[assignment]

    _trace: Any
    _differentiated = False
    aval: ShapedArray

    def _as_constant(self) -> Any:
        return None if self._differentiated else self._known()

    @property
    def weak_type(self) -> bool:
        return self.aval.weak_type

    @property
    def itemsize(self) -> int:
        return self.aval.itemsize

    @property
    def nbytes(self) -> int:
        return self.aval.nbytes

    def _known(self) -> Any:
        return None

    def to_concrete_value(self) -> Any:
        return self._known()

    def _origin(self) -> str:
        return self._trace.explain(self)

    def __len__(self) -> int:
        if not self.aval.shape:
            raise TypeError("len() of unsized object")
        return self.aval.shape[0]

    def __bool__(self) -> bool:
        known = self._known()
        if known is None:
            if self.aval.size != 1:
                _check_bool_size(self.aval)
            raise TracerBoolConversionError(self)
        return bool(known)

    def __int__(self) -> int:
        return int(self._convert("int"))

    def __float__(self) -> float:
        return float(self._convert("float"))

    def __complex__(self) -> complex:
        return complex(self._convert("complex"))

    def _convert(self, kind: str) -> Any:
        known = self._known() if kind == "int" else self._as_constant()
        if known is None:
            _check_scalar_conversion(self.aval)
            raise ConcretizationTypeError(
                self,
                f"The problem arose with the `{kind}` function. If trying to convert the data type of a value, try using "
                f"`x.astype({kind})` or `jnp.array(x, {kind})` instead.",
            )
        return known

    def __index__(self) -> int:
        known = self._known()
        if known is None:
            if self.aval.shape or self.aval.dtype.kind not in "iu":
                raise TypeError("Only integer scalar arrays can be converted to a scalar index.")
            raise TracerIntegerConversionError(self)
        return known.__index__()

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        known = self._as_constant()
        if known is None:
            raise TracerArrayConversionError(self)
        return np.asarray(known, *args, **kwargs)

    def __hex__(self) -> str:
        return hex(self.__index__())

    def __oct__(self) -> str:
        return oct(self.__index__())

    def item(self, *args: int) -> Any:
        known = self._known()
        if known is None:
            raise ConcretizationTypeError(self, "This occurred in the item() method of jax.Array")
        return known.item(*args)

    def tolist(self) -> Any:
        known = self._as_constant()
        if known is None:
            raise ConcretizationTypeError(self, f"The tolist() method was called on traced array with shape {self.aval.strip_weak_type()}.")
        return known.tolist()

    def tobytes(self, order: Any = "C") -> bytes:
        known = self._as_constant()
        if known is None:
            raise ConcretizationTypeError(
                self, f"The tobytes() method was called on traced array with shape {self.aval.strip_weak_type()}."
            )
        return np.asarray(known).tobytes(order)

    def block_until_ready(self) -> Tracer:
        return self

    def copy_to_host_async(self) -> None:
        return None

    def is_deleted(self) -> bool:
        return False

    def delete(self) -> None:
        raise ConcretizationTypeError(self, "The delete() method was called on a traced array, which has no memory of its own.")

    def unsafe_buffer_pointer(self) -> int:
        raise ConcretizationTypeError(
            self, "The unsafe_buffer_pointer() method was called on a traced array, which has no memory of its own."
        )

    def __format__(self, spec: str) -> str:
        return format(str(self), spec) if spec == "" or spec[-1] == "s" else format(self._convert("float"), spec)

    def __str__(self) -> str:
        return f"Traced<{self.aval}>with<{self._trace!r}>"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.aval})"

    def __copy__(self) -> Tracer:
        return self

    def __deepcopy__(self, memo: Any) -> Tracer:
        return self

    def __reduce__(self) -> Any:
        raise ConcretizationTypeError(self, "A traced array cannot be pickled.")


def bad_shape(shape: Any, context: str = "") -> TypeError:
    """The error for what is no shape; for a traced one, or one of traced sizes, a ConcretizationTypeError."""
    text = f"Shapes must be 1D sequences of concrete values of integer type, got {shape}.{context and ' ' + context}"
    traced = [n for n in (shape if isinstance(shape, tuple | list) else (shape,)) if isinstance(n, Tracer)]
    if traced:
        return ConcretizationTypeError(
            traced[0], f"{text}\nIf using `jit`, try using `static_argnums` or applying `jit` to smaller subfunctions."
        )
    return TypeError(text)


def _check_bool_size(aval: ShapedArray) -> None:
    if aval.size == 0:
        raise ValueError("The truth value of an empty array is ambiguous. Use `array.size > 0` to check that an array is not empty.")
    if aval.size > 1:
        raise ValueError("The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()")


def _check_scalar_conversion(aval: ShapedArray) -> None:
    if aval.ndim > 0:
        raise TypeError(f"Only scalar arrays can be converted to Python scalars; got {aval.ndim=}")


@final
class JitTracer(Tracer):
    """A variable, or a scalar constant, of a program that is being recorded."""

    __slots__ = ("atom",)

    def __init__(self, trace: JaxprTrace, atom: Atom) -> None:
        self.aval = atom.aval
        self._trace = trace
        self.atom = atom


register_aval_type(JitTracer)


@final
class JaxprTrace(Trace):
    """Records ops as equations."""

    __slots__ = ("_const_of", "consts", "constvars", "debug_info", "effects", "eqns", "invars", "names", "over", "traced_for")

    def __init__(self, debug_info: DebugInfo = NO_DEBUG_INFO) -> None:
        self.eqns: list[JaxprEqn] = []
        self.invars: list[Var] = []
        self.constvars: list[Var] = []
        self.consts: list[Any] = []
        self._const_of: dict[int, tuple[Any, Var]] = {}  # by id; holds the object so that the id stays its own
        self.effects: frozenset[Any] = NO_EFFECTS
        self.debug_info = debug_info
        self.names: tuple[str, ...] = NO_NAMES
        self.over = False

    @property
    def recorder(self) -> JaxprTrace:
        return self

    def __repr__(self) -> str:
        return "DynamicJaxprTrace"

    def is_over(self) -> bool:
        return self.over

    def argument(self, aval: ShapedArray) -> JitTracer:
        """A new input of the program."""
        v = Var(aval)
        self.invars.append(v)
        return JitTracer(self, v)

    def process(self, op: Op, args: Sequence[Any], params: dict[str, Any]) -> Any:
        invars: list[Atom] = []
        avals = []
        for x in args:
            v: Any = x.atom if type(x) is JitTracer and x._trace is self else self.lift(x, op)
            invars.append(v)
            avals.append(v.aval)
        in_avals = tuple(avals)
        out = op.types(in_avals, params)
        effects = NO_EFFECTS
        if op.effects is not None:
            effects = frozenset(op.effects(*in_avals, **params))
            self.effects |= effects
        if op.multiple_results:
            outvars = [Var(a) for a in out]
            self.eqns.append(JaxprEqn(op, invars, outvars, params, effects, source.place(3), self.names))
            return [JitTracer(self, v) for v in outvars]
        var = Var(out)
        self.eqns.append(JaxprEqn(op, invars, [var], params, effects, source.place(3), self.names))
        return JitTracer(self, var)

    def lift(self, x: Any, op: Op | None = None) -> Atom:
        """A value that is no tracer of this trace: scalars become Literals, arrays and the tracers of outer traces constvars."""
        t = type(x)
        if t is TypedScalar:
            return Literal(x.value, x.aval)
        if t is float or t is int or t is bool or t is complex:
            x = python_scalar(x)
            return Literal(x.value, x.aval)
        found = self._const_of.get(id(x))
        if found is not None:
            return found[1]
        if t is JitTracer and type(x.atom) is Literal:
            return x.atom
        if isinstance(x, Tracer):
            check_not_escaped(x)
            return self._constant(x, x, x.aval)
        if isinstance(x, ArrayImpl) or t is Ref:
            return self._constant(x, x, x.aval)
        if isinstance(x, np.generic | np.ndarray):
            aval = typeof(x)
            if x.ndim == 0:
                value: Any = x
                return Literal(scalar_value(value[()], aval.dtype), aval)
            return self._constant(x, ArrayImpl.from_numpy(np.asarray(x, aval.dtype), aval), aval)  # a snapshot, taken once
        convert = getattr(t, "__jax_array__", None)
        if convert is not None:
            y = convert(x)
            return y.atom if type(y) is JitTracer and y._trace is self else self.lift(y, op)
        if t in shape_only:
            return self._constant(x, x, shape_only[t](x))
        if isinstance(x, bool | int | float | complex):
            aval = typeof(x)
            return Literal(scalar_value(x, aval.dtype), aval)
        if op is not None:
            check_operands(op.name, [x])
        raise not_an_array(x)

    def _constant(self, key: Any, value: Any, aval: ShapedArray) -> Var:
        v = Var(aval)
        self.constvars.append(v)
        self.consts.append(value)
        self._const_of[id(key)] = (key, v)
        return v

    def finish(self, outs: Iterable[Any]) -> ClosedJaxpr:
        """The recorded program with the given results."""
        outvars = [y.atom if type(y) is JitTracer and y._trace is self else self.lift(y) for y in outs]
        self.over = True
        jaxpr = Jaxpr(self.constvars, self.invars, outvars, self.eqns, self.effects, self.debug_info)
        closed = ClosedJaxpr(jaxpr, self.consts)
        if config._state.enable_checks:
            check_jaxpr(closed)
        return closed

    # What error messages say

    def explain(self, tracer: Any) -> str:
        info = self.debug_info
        lines = []
        arguments, first = self._dependence(tracer.atom)
        about = f"The error occurred while tracing the function {info.func_src_info} for {info.traced_for}."
        if arguments:
            names = [info.arg_name(k) for k in arguments]
            what = f"argument {names[0]}" if len(names) == 1 else "arguments " + ", ".join(names[:-1]) + " and " + names[-1]
            about += f" This concrete value was not available in Python because it depends on the value of the {what}."
        elif first is not None:
            about += f" This value became a tracer because of the operation {first.op.name}."
        lines.append(about)
        here = source.place(1)
        if here is not None:
            lines.append(f"It was wanted here: {source.summary(here)}{_line_of(here)}")
        made = self._equation_of(tracer.atom)
        if made is not None and made.place is not None and made.place != here:
            lines.append(f"The value was made here, by {made.op.name}: {source.summary(made.place)}{_line_of(made.place)}")
        return "\n".join(lines)

    def _equation_of(self, var: Atom) -> JaxprEqn | None:
        return next((e for e in reversed(self.eqns) if var in e.outvars), None)

    def _dependence(self, var: Atom) -> tuple[list[int], JaxprEqn | None]:
        """The positions of the inputs a variable depends on, and the first equation it depends on."""
        wanted: set[Any] = {var}
        first = None
        for e in reversed(self.eqns):
            if any(v in wanted for v in e.outvars):
                first = e
                wanted.update(a for a in e.invars if type(a) is not Literal)
        return [k for k, v in enumerate(self.invars) if v in wanted], first

    def escaped(self, tracer: Any) -> UnexpectedTracerError:
        info = self.debug_info
        lines = [
            "Encountered an unexpected tracer. A function transformed by JAX had a side effect, allowing for a reference to an "
            f"intermediate value with type {tracer.aval.str_short()} wrapped in a DynamicJaxprTracer to escape the scope of the "
            "transformation.",
            "A tracer stands for a value only while its function is traced: return such values from the function instead of saving them to "
            "global state, an attribute, a closure or a container that outlives the call.",
            f"The function being traced when the value leaked was {info.func_src_info} traced for {info.traced_for}.",
        ]
        made = self._equation_of(tracer.atom)
        if made is not None and made.place is not None:
            lines.append(f"The leaked value was created on line {source.summary(made.place)} by {made.op.name}{_line_of(made.place)}")
        elif tracer.atom in self.invars:
            lines.append(f"The leaked value is the argument {info.arg_name(self.invars.index(tracer.atom))} itself.")
        lines.append("To find the leak when it happens, set JAX_CHECK_TRACER_LEAKS=1 or use `with jax.checking_leaks():`.")
        return UnexpectedTracerError("\n".join(lines))


def _line_of(at: source.Place) -> str:
    text = source.line_text(at)
    return f"\n    {text}" if text else ""


def check_not_escaped(tracer: Tracer) -> None:
    """UnexpectedTracerError for a tracer whose trace is over."""
    trace = tracer._trace
    if trace.is_over():
        raise escaped(tracer)


def escaped(tracer: Tracer) -> UnexpectedTracerError:
    """The error for a tracer met where it has no meaning."""
    trace = tracer._trace
    if isinstance(trace, JaxprTrace):
        return trace.escaped(tracer)
    made = trace.place_of(tracer)
    where = "" if made is None else f"\nThe leaked value was created on line {source.summary(made)}{_line_of(made)}"
    return UnexpectedTracerError(
        f"Encountered an unexpected tracer. A value of type {tracer.aval.str_short()} of a {trace!r} was used outside of the function "
        f"that was transformed: return such values from the function instead of storing them.{where}"
    )


def trace_to_jaxpr(
    fun: Callable[..., Sequence[Any]], in_avals: Iterable[ShapedArray], debug_info: DebugInfo = NO_DEBUG_INFO
) -> ClosedJaxpr:
    """Records `fun`, a function of flat arrays that returns a flat sequence of arrays, on stand-ins of the given types."""
    trace = JaxprTrace(debug_info)
    return finish_trace(trace, lambda: fun(*[trace.argument(a) for a in in_avals]))


def finish_trace(trace: JaxprTrace, run: Callable[[], Sequence[Any]], check: Callable[[Sequence[Any]], None] | None = None) -> ClosedJaxpr:
    """Runs `run` with `trace` current and finishes the program with its results; `check` may complain about them first."""
    if config._state.no_tracing:
        raise RuntimeError(
            f"tracing the function {trace.debug_info.func_src_info} for {trace.debug_info.traced_for}, but no_tracing is set"
        )
    previous = swap_trace(trace)
    try:
        outs = run()
        try:
            closed = trace.finish(outs)
        except TypeError:
            if check is not None:
                check(outs)
            raise
    finally:
        trace.over = True
        swap_trace(previous)
    if config._state.check_tracer_leaks:
        del outs
        check_leaks(trace, trace.debug_info)
    return closed


def check_leaks(trace: Trace, info: DebugInfo) -> None:
    """An exception if tracers of a finished trace are still referenced."""
    gc.collect()
    leaked = [o for o in gc.get_objects() if issubclass(type(o), Tracer) and o._trace is trace]
    if leaked:
        about = "" if info is NO_DEBUG_INFO else f" of {info.func_src_info}"
        held = "; ".join(holders(leaked[0], [leaked])) or "a variable of a function that runs"
        raise Exception(
            f"Leaked trace {trace!r}{about}: {len(leaked)} tracers are still referenced.\n{escaped(leaked[0])}\nIt is held by {held}."
        )


@final
class FoldingTrace(Trace):
    """Evaluates ops on known values; what a tracer takes part in is the business of the trace that was current."""

    __slots__ = ("parent",)

    def __init__(self, parent: Any) -> None:
        self.parent = parent

    @property
    def recorder(self) -> Any:
        return self.parent.recorder

    def evaluates(self) -> bool:
        return True

    def is_over(self) -> bool:
        return self.parent.is_over()

    def process(self, op: Op, args: Sequence[Any], params: dict[str, Any]) -> Any:
        with set_current_trace(self.parent if any(isinstance(x, Tracer) for x in args) else None):
            return op(*args, **params)


@contextmanager
def ensure_compile_time_eval() -> Iterator[None]:
    """Inside, ops on concrete arrays are evaluated even while a function is traced; those on tracers are traced as ever."""
    trace = current_trace()
    with set_current_trace(None if trace is None else FoldingTrace(trace)):
        yield


@final
class named_scope(named, ContextDecorator):
    """Equations recorded inside carry the name. Also a decorator."""

    __slots__ = ()

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"named_scope name argument must be a string, got {name!r}")
        super().__init__(name)


class _ArrayMeta(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, ArrayImpl) or (isinstance(instance, Tracer) and not is_ref_type(instance.aval))

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, ArrayImpl | Tracer)


class Array(metaclass=_ArrayMeta):
    """The type of arrays for `isinstance`: concrete arrays and tracers. Not to be instantiated; `steno.numpy.array` makes arrays."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("Array cannot be instantiated; use steno.numpy.array or steno.numpy.asarray")


def install_methods(methods: dict[str, Any], classes: Sequence[type] = (Tracer, ArrayImpl)) -> None:
    """Gives tracers and arrays their operators, methods and properties."""
    for cls in classes:
        for name, method in methods.items():
            setattr(cls, name, method)


__all__ = [
    "Array", "JaxprTrace", "JitTracer", "Trace", "Tracer", "check_leaks", "check_not_escaped", "ensure_compile_time_eval", "escaped",
    "eval_jaxpr", "finish_trace", "install_methods", "named_scope", "set_current_trace", "trace_to_jaxpr",
]  # fmt: skip
