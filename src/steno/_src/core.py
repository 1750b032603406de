"""Types and traces."""

from __future__ import annotations

from typing import Any

from steno._native import ShapedArray as ShapedArray, current_trace
from steno.core.aval import typeof as get_aval  # noqa: F401 - JAX's private name of it
from steno.core.jaxpr import ClosedJaxpr as ClosedJaxpr, Jaxpr as Jaxpr, JaxprEqn as JaxprEqn, Literal as Literal, Var as Var
from steno.core.trace import Tracer as Tracer


def trace_state_clean() -> bool:
    """Whether nothing is being traced."""
    return current_trace() is None


def physical_aval(aval: Any) -> Any:
    """The type of the array that holds an array of this type: arrays of all dtypes but keys are their own."""
    return aval
