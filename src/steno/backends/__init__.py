"""What runs programs. A backend is a module with

    compile(closed_jaxpr, *, donated=frozenset(), options=()) -> an object with run(args) -> list of ArrayImpl
    eager(op, args, params) -> ArrayImpl, or a list of them
    clear_cache()

chosen by the knob `backend` (STENO_BACKEND) and imported when it is first needed, since the compiler is heavy."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from steno import _native
from steno._native import ShapedArray
from steno.backends import finite
from steno.core.aval import TypedScalar
from steno.core.config import config, debug_infs, debug_nans, no_execution
from steno.core.errors import JaxRuntimeError
from steno.core.interpret import to_array
from steno.core.op import Op, set_eager, set_operands
from steno.core.trace import Tracer, escaped

_AUTO: Final = "cpu"
_OPTIONS: Final = {"fast_math": bool}
_ACCEPTED: Final = ("optimization_level", "memory_fitting_level", "exec_time_optimization_effort", "memory_fitting_effort")
_loaded: dict[str, Any] = {}


def current() -> Any:
    """The backend the configuration asks for."""
    name = config._state.backend
    if name == "auto":
        name = _AUTO
    module = _loaded.get(name)
    if module is None:
        module = _loaded[name] = importlib.import_module(f"steno.backends.{name}")
    return module


def check_options(options: Mapping[str, Any] | None) -> tuple[tuple[str, Any], ...]:
    """Compiler options as sorted pairs; those of XLA are accepted, without effect. JaxRuntimeError for one there is not, TypeError for a
    value of a wrong type."""
    if not options:
        return ()
    out = []
    for name, value in sorted(options.items()):
        if name.startswith("xla_") or name in _ACCEPTED:
            hash(value)
            out.append((name, value))
            continue
        if name not in _OPTIONS:
            raise JaxRuntimeError(f"INVALID_ARGUMENT: No such compile option: '{name}' (there are: {', '.join(_OPTIONS)})")
        if not isinstance(value, _OPTIONS[name]):
            raise TypeError(f"compiler option {name} must be a {_OPTIONS[name].__name__}, got {value!r}")
        out.append((name, value))
    return tuple(out)


def clear_caches() -> None:
    """Forgets compiled eager ops."""
    _native.clear_operators()
    for module in _loaded.values():
        module.clear_cache()


def native_op(op: Op, avals: tuple[ShapedArray, ...]) -> Any:
    """The native executable that evaluates this op on operands of these types, without parameters, under the present configuration;
    None: something else does, or has to look at the values."""
    if finite.watching() or config._state.no_execution or op.override is not None:
        return None
    find = getattr(current(), "native_op", None)
    return None if find is None else find(op, avals)


def _eager(op: Op, args: Sequence[Any], params: dict[str, Any]) -> Any:
    try:
        return current().eager(op, args, params)
    except TypeError:
        for x in args:
            if isinstance(x, Tracer):
                raise escaped(x) from None  # nothing is traced, so its trace is over
        raise


def _operands(args: Sequence[Any]) -> list[Any]:
    return [to_array(x.value, x.aval) if type(x) is TypedScalar else x for x in args]


set_operands(_operands)


def check_execution() -> None:
    """RuntimeError while the knob no_execution is on."""
    if config._state.no_execution:
        raise RuntimeError("a program was to run, but no_execution is set")


def _checked_eager(op: Op, args: Sequence[Any], params: dict[str, Any]) -> Any:
    check_execution()
    out = _eager(op, args, params)
    if finite.watching():
        finite.check_op(op, args, params, out, current().eager)
    return out


def _watch(value: Any) -> None:
    """From the first time that values are forbidden, or running is, each eager op looks."""
    if value is True:
        set_eager(_checked_eager)


for _knob in (debug_nans, debug_infs, no_execution):
    _knob.on_change.append(_watch)
set_eager(_checked_eager if debug_nans.value or debug_infs.value or no_execution.value else _eager)
