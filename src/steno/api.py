"""jit and its relatives: from Python functions of pytrees to programs, and from calls to runs."""

from __future__ import annotations

import enum
import functools
import importlib
import operator
import threading
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Final, final

from steno import backends, places, retrace
from steno._native import ArrayImpl, JitEntry, JitFunction, config_token, current_trace, global_config_token
from steno.core import monitoring, source
from steno.core.aval import is_value
from steno.core.boundary import boundary
from steno.core.config import config, disable_jit as _disable_jit, explain_cache_misses as _log_cache_misses
from steno.core.jaxpr import ClosedJaxpr, Jaxpr, eval_jaxpr
from steno.core.record import record
from steno.core.refs import Ref, is_ref_type
from steno.core.trace import Tracer, escaped, named_scope
from steno.ops.structural import jit as jit_op
from steno.stages import Lowered, Program, ShapeDtypeStruct, Traced, executable_of, plan, run
from steno.tracing import argument_avals, argument_names, check_captured, check_references, parameters, trace_tree, weakly
from steno.transforms.axes import bound_axes, named_axis
from steno.transforms.rules import Axis
from steno.tree_util import tree_flatten, tree_map, tree_unflatten

_NOT_GIVEN: Final = object()


# What jit is told


@final
@record(frozen=True)
class Options:
    """The arguments of jit, normalised: positions are not negative, a static or donated parameter stands under its position and its
    name."""

    static_argnums: tuple[int, ...] = ()
    static_argnames: tuple[str, ...] = ()
    donate_argnums: tuple[int, ...] = ()
    donate_argnames: tuple[str, ...] = ()
    keep_unused: bool = False
    inline: bool = False
    compiler_options: tuple[tuple[str, Any], ...] = ()


def _argnums(value: Any) -> tuple[int, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        raise TypeError(f"argnums must be an int or a sequence of ints, got {value!r}: 'str' object cannot be interpreted as an integer")
    return tuple(map(operator.index, value)) if isinstance(value, Iterable) else (operator.index(value),)


def _argnames(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    names = tuple(value)
    for n in names:
        if not isinstance(n, str):
            raise TypeError(f"argnames must be a str or a sequence of str, got {n!r}")
    return names


def _resolve(fun: Any, nums: Any, names: Any, what: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """argnums and argnames, each derived from the other where only one is given. ValueError for parameters that do not exist."""
    out_nums, out_names = _argnums(nums), _argnames(names)
    if not out_nums and not out_names:
        return (), ()
    found = parameters(fun)
    if found is None:
        if what == "donate" and out_names and not out_nums:
            raise ValueError(
                f"jit: {fun!r} does not tell the names of its parameters, so that donate_argnums is needed, not donate_argnames"
            )
        return out_nums, out_names
    n = len(found.positional)
    if found.var_positional is None and any(not -n <= k < n for k in out_nums):
        raise ValueError(f"Jitted function has {what}_argnums={out_nums}, but only accepts {n} positional arguments.")
    out_nums = tuple(k if k >= 0 else k + n for k in out_nums if k >= -n)  # with *args nothing is known of positions before the first
    if by_position := set(out_names) & {*found.positional[: found.positional_only], found.var_positional}:
        raise ValueError(f"jit: {what}_argnames has {by_position}, which the function takes by position only: use {what}_argnums")
    if found.var_keyword is None and (unknown := set(out_names) - set(found.named)):
        raise ValueError(f"Jitted function has invalid argnames {unknown} in {what}_argnames. Function does not take these args.")
    if names is None:
        out_names = tuple(found.positional[k] for k in out_nums if found.positional_only <= k < n)
    elif nums is None:
        out_nums = tuple(k for k, name in enumerate(found.positional) if name in out_names)
    return out_nums, out_names


def _make_options(
    fun: Any,
    static_argnums: Any,
    static_argnames: Any,
    donate_argnums: Any,
    donate_argnames: Any,
    keep_unused: bool,
    inline: Any,
    compiler_options: Any,
) -> Options:
    statics, static_names = _resolve(fun, static_argnums, static_argnames, "static")
    donated, donated_names = _resolve(fun, donate_argnums, donate_argnames, "donate")
    if both := set(static_names) & set(donated_names):
        raise ValueError(
            f"static_argnames and donate_argnames cannot intersect. Argument names {both} appear in both static_argnames and "
            "donate_argnames"
        )
    if both_nums := set(statics) & set(donated):
        raise ValueError(f"static_argnums and donate_argnums cannot intersect. Argument positions {both_nums} appear in both")
    early = inline.value == "jax_early" if isinstance(inline, enum.Enum) else bool(inline)
    return Options(statics, static_names, donated, donated_names, bool(keep_unused), early, backends.check_options(compiler_options))


# Traces of one function


@final
class Traces:
    """The programs of one function under one set of options: shared by all jitted callables of that function and those options."""

    def __init__(self, fun: Any, options: Options) -> None:
        self._fun = weakly(fun)  # the table of all Traces must not keep functions alive
        self.options = options
        self.programs: dict[retrace.CallKey, Program] = {}
        self.records: list[retrace.TraceRecord] = []
        self.callables: weakref.WeakSet[JitFunction] = weakref.WeakSet()
        self._busy: dict[retrace.CallKey, threading.Lock] = {}
        _living.add(self)

    @property
    def fun(self) -> Any:
        return self._fun()

    def clear(self) -> None:
        self.programs.clear()
        for f in self.callables:
            f._clear_cache()

    def split(self, fun: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], retrace.CallKey]:
        """The flat dynamic arguments, and what decides which program a call runs."""
        o = self.options
        statics: list[tuple[Any, type, Any]] = []
        if o.static_argnums or o.static_argnames:
            positions = tuple(i for i in range(len(args)) if i not in o.static_argnums)
            statics += [(i, type(args[i]), args[i]) for i in range(len(args)) if i in o.static_argnums]
            statics += [(k, type(v), v) for k, v in sorted(kwargs.items()) if k in o.static_argnames]
            for where, _, value in statics:
                _check_static(where, value)
            dynamic = (tuple(args[i] for i in positions), {k: v for k, v in kwargs.items() if k not in o.static_argnames})
        else:
            positions = tuple(range(len(args)))
            dynamic = (tuple(args), dict(kwargs))
        leaves, tree = tree_flatten(dynamic)
        avals = argument_avals(fun, leaves, tree, positions)
        if any(map(is_ref_type, avals)):
            check_references(fun, leaves, lambda: argument_names(fun, tree, positions), "jit")
        return leaves, retrace.CallKey(tree, avals, tuple(statics), (global_config_token(), config_token(), bound_axes()), positions)

    def program(self, fun: Any, key: retrace.CallKey) -> Program:
        """The program for calls like `key`, traced if need be. Of several threads that want it at once one traces and the others wait,
        unless they are tracing themselves (waiting could then wait for itself)."""
        found = self.programs.get(key)
        if found is not None:
            return found
        if current_trace() is not None:
            return self._trace(fun, key)
        mine = threading.Lock()
        with mine:
            busy = self._busy.setdefault(key, mine)
            if busy is mine:
                try:
                    return self._trace(fun, key)
                finally:
                    del self._busy[key]
        with busy:  # until the other thread is done
            pass
        found = self.programs.get(key)
        return found if found is not None else self._trace(fun, key)

    def _trace(self, fun: Any, key: retrace.CallKey) -> Program:
        o, name = self.options, source.function_name(fun)
        start = retrace.now()
        closed, out_tree = trace_tree(
            _with_statics(fun, key), key.tree, key.avals, "jit", user_fun=fun, positions=key.dynamic if key.statics else None
        )
        seconds = retrace.now() - start
        monitoring.traced(name, seconds)
        program = Program(
            fun=weakly(fun),
            name=name,
            closed=closed,
            in_tree=key.tree,
            out_tree=out_tree,
            donated=self._donated(key),
            positions=key.dynamic if key.statics else None,
            compile_program=functools.partial(_compile, options=o),
        )
        if any(isinstance(c, Tracer) for c in closed.consts):
            return program  # it belongs to the trace around it
        record = retrace.TraceRecord(
            function=source.function_info(fun),
            place=source.place(1),
            first=not self.records,
            changes=retrace.explain(fun, key, self.records, _seen_code(fun)),
            in_avals=key.avals,
            trace_seconds=seconds,
            time=start,
            key=key,
        )
        self.records.append(record)
        if len(self.records) > _RECORDS_LIMIT:
            del self.records[1]
        self.programs[key] = program
        program.record = record
        if config._state.explain_cache_misses:
            retrace.log(fun, record, self.records)
        return program

    def _donated(self, key: retrace.CallKey) -> frozenset[int]:
        """Positions of the donated leaves."""
        o = self.options
        if not o.donate_argnums and not o.donate_argnames:
            return frozenset()
        args, kwargs = tree_unflatten(key.tree, range(len(key.avals)))
        chosen = [args[k] for k, i in enumerate(key.dynamic) if i in o.donate_argnums]
        chosen += [v for name, v in kwargs.items() if name in o.donate_argnames]
        return frozenset(tree_flatten(chosen)[0])


_RECORDS_LIMIT: Final = 256


def _with_statics(fun: Any, key: retrace.CallKey) -> Callable[..., Any]:
    """`fun` as a function of the dynamic arguments."""
    if not key.statics:
        return fun
    fixed = {where: value for where, _, value in key.statics}

    def call(*args: Any, **kwargs: Any) -> Any:
        n = len(args) + sum(isinstance(w, int) for w in fixed)
        rest = iter(args)
        full = [fixed[i] if i in fixed else next(rest) for i in range(n)]
        return fun(*full, **kwargs, **{k: v for k, v in fixed.items() if isinstance(k, str)})

    return call


def _check_static(where: Any, value: Any) -> None:
    if isinstance(value, Hashable):
        try:
            hash(value)
            return
        except TypeError as err:
            reason = str(err)
    else:
        reason = f"unhashable type: {type(value).__name__!r}"
    raise ValueError(
        f"Non-hashable static arguments are not supported. An error occurred while trying to hash an object of type {type(value)}, "
        f"{value}, the static argument {where}. The error was:\nTypeError: {reason}"
    )


_living: weakref.WeakSet[Traces] = weakref.WeakSet()


def _executables() -> list[Any]:
    return [p.executable for t in list(_living) for p in list(t.programs.values()) if p.executable is not None]


places._programs.append(_executables)
_all_traces: dict[int, tuple[Any, dict[Options, Traces]]] = {}
_codes: dict[int, tuple[Any, Callable[[], Any], int]] = {}
"""By the id of a code object: this object, the last function of it that was traced, and how many others were before."""


def _traces_of(fun: Any, options: Options) -> Traces:
    """The Traces of a function; forgotten when the function dies."""
    i = id(fun)
    entry = _all_traces.get(i)
    if entry is None or entry[0]() is not fun:
        try:
            ref = weakref.ref(fun, lambda _, table=_all_traces: table.pop(i, None))
        except TypeError:
            return Traces(fun, options)
        if type(fun).__name__ == "method":
            return Traces(fun, options)  # a bound method is a new object at each access: its callable owns the traces
        entry = _all_traces[i] = (ref, {})
    table = entry[1]
    found = table.get(options)
    if found is None:
        found = table[options] = Traces(fun, options)
    return found


def _seen_code(fun: Any) -> int:
    """How many other function objects of the same code have been traced, while a closure or lambda is made anew each time."""
    inner = source.unwrapped(fun)
    code = getattr(inner, "__code__", None)
    if code is None:
        return 0
    if len(_codes) > 4096:
        _codes.clear()
    _, last, count = _codes.get(id(code), (code, lambda: inner, 0))
    if last() is not inner:
        count += 1
    _codes[id(code)] = code, weakly(inner), count
    return count


# Running


def _compile(program: Program, overrides: Mapping[str, Any] | None = None, *, options: Options) -> Any:
    """The backend's executable for a traced function. Warns of donations that cannot be used, naming the arguments."""
    compiler_options = dict(options.compiler_options)
    if overrides:
        compiler_options.update(backends.check_options(overrides))
    program.usable = usable_donations(program)
    with monitoring.compilation(program.name) as timer:
        executable = backends.current().compile(program.closed, donated=program.usable, options=tuple(compiler_options.items()))
    if program.record is not None:
        program.record.compile_seconds += timer.seconds
    return executable


def usable_donations(program: Program) -> frozenset[int]:
    """The donated inputs for which there is a result of the same shape and dtype to take over the memory. Warns of the others."""
    if not program.donated:
        return program.donated
    results = Counter((a.shape, a.dtype) for a in program.closed.out_avals)
    usable, useless = [], []
    for k in sorted(program.donated):
        a = program.closed.in_avals[k]
        if is_ref_type(a):
            continue  # its memory is always handed to the program
        if results[a.shape, a.dtype]:
            results[a.shape, a.dtype] -= 1
            usable.append(k)
        else:
            useless.append(k)
    if useless:
        names = program.argument_names()
        listed = ", ".join(f"{names[k]}: {program.closed.in_avals[k].str_short()}" for k in useless)
        warnings.warn(
            f"Some donated buffers were not usable: {listed}. The function {program.name} has no result of the same shape and dtype that "
            "could take over their memory, so they are kept.",
            stacklevel=source.stacklevel(),
        )
    return frozenset(usable)


def call_program(program: Program, leaves: Sequence[Any], inline: bool = False) -> list[Any]:
    """The traced function as one `jit` op of the current trace (or its ops one by one, if `inline`)."""
    closed = program.closed
    if inline:
        return eval_jaxpr(closed.jaxpr, closed.consts, *leaves)
    captured = [k for k, c in enumerate(closed.consts) if isinstance(c, Tracer | Ref)]
    if not captured:
        return jit_op(*leaves, name=program.name, jaxpr=closed)
    j = closed.jaxpr
    rest = [k for k in range(len(closed.consts)) if k not in captured]
    n = len(captured)
    info = j.debug_info
    inner = Jaxpr(
        [j.constvars[k] for k in rest],
        [*(j.constvars[k] for k in captured), *j.invars],
        j.outvars,
        j.eqns,
        j.effects,
        info.with_names(lambda: None if info.arg_names is None else ("",) * n + info.arg_names, lambda: info.result_paths),
    )
    return jit_op(
        *(closed.consts[k] for k in captured), *leaves, name=program.name, jaxpr=ClosedJaxpr(inner, [closed.consts[k] for k in rest])
    )


# The jitted callable is native: known signatures are answered without Python. What follows are its misses and methods.


@boundary
def _miss(traces: Traces, fun: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[JitEntry | None, Any]:
    """A call that the native cache cannot answer: (the plan that answers calls like it, or None; the result)."""
    if config._state.disable_jit:
        return None, fun(*args, **kwargs)
    leaves, key = traces.split(fun, args, kwargs)
    traced = current_trace() is not None
    for x in leaves:
        if isinstance(x, Tracer) and (not traced or x._trace.is_over()):
            raise escaped(x)
        if not isinstance(x, Tracer | ArrayImpl) and hasattr(type(x), "__jax_array__"):
            raise ValueError(f"jit: an argument of type {type(x)} has to be converted first, by its __jax_array__ or jax.numpy.asarray")
    program = traces.program(fun, key)
    if any(map(is_ref_type, key.avals)):
        check_captured(fun, program.closed.consts, leaves, program.argument_names, "jit")
    if traced:
        return None, tree_unflatten(program.out_tree, call_program(program, leaves, traces.options.inline))
    executable = executable_of(program)
    backends.check_execution()
    out = run(program, executable, leaves)
    return plan(program, program.executable), tree_unflatten(program.out_tree, out)


@boundary
def _trace_method(self: JitFunction, *args: Any, **kwargs: Any) -> Traced:
    """Traces for arguments (arrays, or ShapeDtypeStructs) without compiling."""
    _, key = self._traces.split(self._fun, args, kwargs)
    return Traced(self._traces.program(self._fun, key))


@boundary
def _lower_method(self: JitFunction, *args: Any, **kwargs: Any) -> Lowered:
    """`trace(...).lower()`."""
    return _trace_method(self, *args, **kwargs).lower()


@boundary
def _eval_shape_method(self: JitFunction, *args: Any, **kwargs: Any) -> Any:
    """The results' ShapeDtypeStructs."""
    return _trace_method(self, *args, **kwargs).out_info


def _clear_cache_method(self: JitFunction) -> None:
    """Forgets the programs of this function."""
    self._traces.clear()


def _traces_property(self: JitFunction) -> list[retrace.TraceRecord]:
    """One record for each time the function was traced: why, and what it cost. See `explain_cache_misses`."""
    return list(self._traces.records)


def _repr(self: JitFunction) -> str:
    try:
        return f"<PjitFunction of {self.__wrapped__!r}>"
    except Exception:
        return "<PjitFunction>"


for _name, _method in {
    "__repr__": _repr,
    "trace": _trace_method,
    "lower": _lower_method,
    "eval_shape": _eval_shape_method,
    "clear_cache": _clear_cache_method,
    "traces": property(_traces_property),
}.items():
    setattr(JitFunction, _name, _method)


def jit(
    fun: Any = _NOT_GIVEN,
    /,
    *,
    in_shardings: Any = None,
    out_shardings: Any = None,
    static_argnums: Any = None,
    static_argnames: Any = None,
    donate_argnums: Any = None,
    donate_argnames: Any = None,
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: Any = False,
    compiler_options: Mapping[str, Any] | None = None,
) -> Any:
    """`fun` compiled: traced once for each kind of call (structure, shapes, dtypes and weak types of the arguments, static values), then
    run as machine code.

    static_argnums, static_argnames   arguments that are Python values to the function; each value is a program of its own. Must be hashable
    donate_argnums, donate_argnames   arguments whose memory the results may take over; such arrays are deleted by the call
    inline                            under another trace, its ops are recorded instead of one `jit` op: True or Inline.JAX_EARLY
    compiler_options                  {"fast_math": True} lets results round otherwise (docs/configuration.md); XLA's are accepted
    out_shardings                     where the results say that they lie: a tree, or the upper part of one, of shardings and None
    in_shardings, device, backend, keep_unused    accepted; arrays lie whole in one memory, and unused arguments cost nothing

    Without `fun` a decorator. ValueError for argnums and argnames that the function does not have.

    >>> f = steno.jit(lambda x: x * 2 + 1)
    >>> f(3.0)
    Array(7., dtype=float32, weak_type=True)
    """
    if fun is _NOT_GIVEN:
        return functools.partial(
            jit, in_shardings=in_shardings, out_shardings=out_shardings, static_argnums=static_argnums, static_argnames=static_argnames,
            donate_argnums=donate_argnums, donate_argnames=donate_argnames, keep_unused=keep_unused, device=device, backend=backend,
            inline=inline, compiler_options=compiler_options,
        )  # fmt: skip
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun}")
    if isinstance(fun, staticmethod):
        raise TypeError(f"staticmethod arguments are not supported by jit: the staticmethod must be made of the jitted function, got {fun}")
    if getattr(getattr(fun, "__code__", None), "co_flags", 0) & _GENERATOR:
        raise TypeError(f"Expected a function, got a generator function, which jit cannot trace: {fun}")
    options = _make_options(fun, static_argnums, static_argnames, donate_argnums, donate_argnames, keep_unused, inline, compiler_options)
    traces = _traces_of(fun, options)
    jitted = JitFunction(fun, functools.partial(_miss, traces, fun), options.static_argnums, options.static_argnames, options)
    source.wraps(fun)(jitted)
    jitted._traces = traces
    jitted._cache_size = traces.programs.__len__  # with any backend, not only one whose programs are native
    traces.callables.add(jitted)
    return jitted if out_shardings is None else importlib.import_module("steno.placed_jit").PlacedJit(jitted, out_shardings)


_GENERATOR: Final = 0x20  # the flag of a code object with a yield in it


# Relatives of jit


def _check_callable(fun: Any, name: str) -> None:
    if not callable(fun):
        raise TypeError(f"{name}: the first argument must be callable, got {fun!r}")


def make_jaxpr(fun: Any, static_argnums: Any = (), axis_env: Any = None, return_shape: bool = False) -> Callable[..., Any]:
    """A function that takes `fun`'s arguments (or ShapeDtypeStructs) and returns the program `fun` records, with `return_shape` also the
    results' ShapeDtypeStructs. `axis_env`: (name, size) pairs of mapped axes that collectives in `fun` refer to.

    >>> steno.make_jaxpr(lambda x: jnp.sin(x) * 2)(1.0)
    { lambda ; a:f32[]. let b:f32[] = sin a; c:f32[] = mul b 2.0:f32[] in (c,) }
    """
    _check_callable(fun, "make_jaxpr")
    options = _make_options(fun, static_argnums, None, None, None, False, False, None)

    @source.wraps(fun, updated=())
    @boundary
    def jaxpr_maker(*args: Any, **kwargs: Any) -> Any:
        traces = Traces(fun, options)
        args, kwargs = tree_map(_described, (args, kwargs))
        _, key = traces.split(fun, args, kwargs)
        with ExitStack() as stack:
            for name, size in axis_env or ():
                stack.enter_context(named_axis(Axis(name, size)))
            closed, out_tree = trace_tree(_with_statics(fun, key), key.tree, key.avals, "jit", user_fun=fun, positions=key.dynamic)
        if not return_shape:
            return closed
        return closed, tree_unflatten(out_tree, [ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in closed.out_avals])

    name = source.function_name(fun)
    jaxpr_maker.__module__ = "jax"
    jaxpr_maker.__name__, jaxpr_maker.__qualname__ = f"make_jaxpr({name})", f"make_jaxpr({getattr(fun, '__qualname__', name)})"
    return jaxpr_maker


@boundary
def eval_shape(fun: Any, *args: Any, **kwargs: Any) -> Any:
    """The shapes, dtypes and weak types of `fun(*args, **kwargs)` as ShapeDtypeStructs, computing nothing.

    An argument may be anything with a shape and a dtype.

    >>> steno.eval_shape(lambda x: x @ x.T, steno.ShapeDtypeStruct((3, 4), 'float32'))
    ShapeDtypeStruct(shape=(3, 3), dtype=float32)
    """
    _check_callable(fun, "eval_shape")
    inner = fun if isinstance(fun, JitFunction) else jit(fun)
    args, kwargs = tree_map(_described, (args, kwargs))
    return inner.eval_shape(*args, **kwargs)


def _described(x: Any) -> Any:
    """What only has a shape and a dtype, as a ShapeDtypeStruct."""
    if is_value(x) or not (hasattr(x, "shape") and hasattr(x, "dtype")):
        return x
    return ShapeDtypeStruct(x.shape, x.dtype, weak_type=getattr(x, "weak_type", False))


def named_call(fun: Any, *, name: str | None = None) -> Callable[..., Any]:
    """`fun`, with the ops it records under a name (the function's own by default)."""
    _check_callable(fun, "named_call")
    label = name if name is not None else fun.__name__

    @source.wraps(fun)
    def named(*args: Any, **kwargs: Any) -> Any:
        with named_scope(label):
            return fun(*args, **kwargs)

    return named


def disable_jit(disable: bool = True) -> AbstractContextManager[None]:
    """Inside, jitted functions run op by op in Python."""
    return _disable_jit(disable)


def clear_caches() -> None:
    """Forgets all programs of all jitted functions, and compiled eager ops."""
    for traces in list(_living):
        traces.clear()
    backends.clear_caches()


def explain_cache_misses(what: Any = True) -> Any:
    """`explain_cache_misses(f)`: why the jitted function was traced, each time, as text (`f.traces` has it as data).

    `with explain_cache_misses(True):` logs every trace with its reason at WARNING, like JAX_EXPLAIN_CACHE_MISSES=1."""
    if isinstance(what, bool):
        return _log_cache_misses(what)
    traces = getattr(what, "_traces", None)
    if traces is None:
        raise TypeError(f"explain_cache_misses: expected a jitted function or a bool, got {what!r}")
    return retrace.explain_text(traces.fun, traces.records)
