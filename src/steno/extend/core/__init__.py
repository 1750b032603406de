"""The pieces of recorded programs, and ops of users, by the names of `jax.extend.core`."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, final

import numpy as np

from steno._native import ArrayImpl, ShapedArray, current_trace
from steno.core.aval import is_value
from steno.core.errors import (
    InconclusiveDimensionOperation as InconclusiveDimensionOperation,
    JaxprTypeError as JaxprTypeError,
    MissingRule,
    TracerArrayConversionError,
    concrete,
)
from steno.core.jaxpr import (
    NO_EFFECTS as no_effects,
    ClosedJaxpr as ClosedJaxpr,
    DebugInfo as DebugInfo,
    DropVar as DropVar,
    Jaxpr as Jaxpr,
    JaxprEqn as JaxprEqn,
    Literal as Literal,
    Var as Var,
    check_jaxpr as check_jaxpr,
    jaxpr_as_fun as jaxpr_as_fun,
    open_jaxpr,
    subjaxprs as _programs_in,
)
from steno.core.on_demand import on_demand
from steno.core.op import Op
from steno.core.trace import JaxprTrace, set_current_trace as set_current_trace
from steno.transforms.axes import axis_env
from steno.transforms.batching import BatchTrace, batched_aval as _batched, element_aval as _element
from steno.transforms.rules import tangent_aval


@contextmanager
def take_current_trace() -> Iterator[Any]:
    """Within it nothing is traced; gives the trace that was current (None: none was), for `set_current_trace`."""
    trace = current_trace()
    with set_current_trace(None):
        yield trace


Effect = object
"""What an equation's effects are instances of: any hashable object is an effect."""
Effects = frozenset
array_types: set[type] = {ArrayImpl, np.ndarray, *(t for t in np.sctypeDict.values() if issubclass(t, np.number | np.bool_))}


class _AllOps(type):
    """Every op counts as a Primitive: those of `jax.lax` too."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Op)


@final
class Primitive(Op, metaclass=_AllOps):
    """An op of a user's own, known by identity alone.

    `def_impl(f)`                        `f(*args, **params)` evaluates it when nothing is traced
    `def_abstract_eval(f)`               `f(*avals, **params)` gives the type of the result (a list, for `multiple_results`)
    `interpreters.mlir.register_lowering(p, interpreters.mlir.lower_fun(f))`    `f` says it in terms of other ops, for compiled programs

    Its rules of derivatives and of vmap are those of `interpreters.ad` and `interpreters.batching`; without them they are derived from the
    lowering, if there is one."""

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"Primitive: the name must be a str, got {name!r}")
        super().__init__(name, typ=self._without_type, listed=False, override=self._without_impl, lower=self._without_lowering)

    def _without_type(self, *avals: Any, **params: Any) -> Any:
        raise MissingRule(self, "Abstract evaluation")

    def _without_impl(self, *args: Any, **params: Any) -> Any:
        raise MissingRule(self, "Evaluation rule")

    def _without_lowering(self, *avals: Any, **params: Any) -> Any:
        raise NotImplementedError(
            f"MLIR translation rule for primitive '{self.name}' not found for platform cpu: compiled programs need one, "
            "interpreters.mlir.register_lowering(p, interpreters.mlir.lower_fun(f)), where f computes the op by others"
        )

    def def_abstract_eval(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Sets what gives the types of results; returns it. A rule that gives a list for an op of one result, or the reverse, is a
        ValueError when it is used."""

        def typ(*avals: Any, **params: Any) -> Any:
            return _checked(self, rule(*avals, **params))

        self.typ = typ
        self._types.clear()
        return rule

    def def_effectful_abstract_eval(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """`def_abstract_eval` of a rule that gives a pair: types, and a set of effects."""
        self.def_abstract_eval(lambda *avals, **params: rule(*avals, **params)[0])
        self.effects = lambda *avals, **params: rule(*avals, **params)[1]
        return rule

    def abstract_eval(self, *avals: Any, **params: Any) -> tuple[Any, Any]:
        """The types of results and the effects."""
        return self.typ(*avals, **params), no_effects if self.effects is None else frozenset(self.effects(*avals, **params))


def _checked(op: Op, out: Any) -> Any:
    if isinstance(out, tuple | list) is not op.multiple_results:
        raise ValueError(
            f"{op.name}.abstract_eval() method should return a tuple or a list if the op has multiple_results, and a single type if not: "
            f"multiple_results is {op.multiple_results}, it gave {out!r}"
        )
    return list(out) if op.multiple_results else out


def gensym(suffix: str = "") -> Callable[[ShapedArray], Var]:
    """A maker of fresh variables: `new_var(aval)`."""
    return Var


def new_jaxpr_eqn(
    invars: Any, outvars: Any, primitive: Op, params: dict[str, Any], effects: Any = no_effects, source_info: Any = None, ctx: Any = None
) -> JaxprEqn:
    """An equation; `source_info` is that of another one, or None."""
    return JaxprEqn(primitive, list(invars), list(outvars), params, frozenset(effects), getattr(source_info, "place", None))


def jaxprs_in_params(params: dict[str, Any]) -> Iterator[Jaxpr]:
    """The programs among an equation's parameters."""
    return map(open_jaxpr, _programs_in(params))


def subjaxprs(jaxpr: Jaxpr) -> Iterator[Jaxpr]:
    """The programs in the parameters of a program's equations."""
    return itertools.chain.from_iterable(jaxprs_in_params(e.params) for e in open_jaxpr(jaxpr).eqns)


def mapped_aval(size: int, axis: int | None, aval: ShapedArray) -> ShapedArray:
    """The type of one element of a batch along `axis`. ValueError if that axis has another size."""
    if axis is None:
        return aval
    if aval.shape[axis] != size:
        raise ValueError(f"mapped_aval: axis {axis} of {aval} has size {aval.shape[axis]}, not {size}")
    return _element(aval, axis % aval.ndim)


def unmapped_aval(size: int, axis: int | None, aval: ShapedArray, explicit_mesh_axis: Any = None) -> ShapedArray:
    """The type of a batch whose elements have this type."""
    return _batched(aval, axis, size)


def valid_jaxtype(x: Any) -> bool:
    """Whether `x` may be an argument of an op."""
    return is_value(x)


def concrete_or_error(force: Any, val: Any, context: str = "") -> Any:
    """`force(val)` of a value that is known (None: `val` itself). ConcretizationTypeError, with `context`, for a tracer."""
    known = val._known() if hasattr(val, "_known") else val
    value = concrete(val, context) if known is None and val is not None else known
    try:
        return value if force is None else force(value)
    except TracerArrayConversionError:
        return concrete(val, context)


def primal_dtype_to_tangent_dtype(dtype: Any) -> Any:
    """The dtype of tangents: itself, or float0."""
    return tangent_aval(ShapedArray((), np.dtype(dtype))).dtype


@final
class OpaqueTraceState:
    """Compares equal while the same traces are current."""

    def __init__(self) -> None:
        self._state = (current_trace(), axis_env())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueTraceState) and self._state[0] is other._state[0] and self._state[1] == other._state[1]

    def __hash__(self) -> int:
        return hash((id(self._state[0]), self._state[1]))


def get_opaque_trace_state(convention: Any = None) -> OpaqueTraceState:
    """What is being traced now."""
    return OpaqueTraceState()


def find_top_trace(_: Any = None) -> Any:
    """The current trace; None: nothing is traced."""
    return current_trace()


def _traces() -> Iterator[Any]:
    trace = current_trace()
    while trace is not None:
        yield trace
        trace = trace.parent


def nonempty_axis_env_DO_NOT_USE() -> bool:
    """Whether an axis has a name here."""
    return bool(axis_env())


def unsafe_am_i_under_a_jit_DO_NOT_USE() -> bool:
    """Whether a program is being recorded."""
    return any(isinstance(t, JaxprTrace) for t in _traces())


def unsafe_am_i_under_a_vmap_DO_NOT_USE() -> bool:
    """Whether a vmap runs the present code."""
    return any(isinstance(t, BatchTrace) for t in _traces())


def unsafe_get_axis_names_DO_NOT_USE() -> list[Any]:
    """The names of the mapped axes."""
    return [a.name for a in axis_env()]


_later, __dir__ = on_demand(__name__, {}, submodules=("primitives",))


def __getattr__(name: str) -> Any:
    return importlib.import_module("steno.lax.placement").Token if name == "Token" else _later(name)
