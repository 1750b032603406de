"""Further names of `jax.core`."""

from __future__ import annotations

from typing import Any, final

from steno._native import ShapedArray
from steno.core.jaxpr import Atom as Atom
from steno.core.refs import AbstractRef
from steno.core.sizes import max_size as max_dim, min_size as min_dim
from steno.core.trace import ensure_compile_time_eval as eval_context

Value = Any
ParamDict = dict[str, Any]


class _AllTypes(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, ShapedArray | AbstractRef)


@final
class AbstractValue(metaclass=_AllTypes):
    """What types of values are instances of: those of arrays and of references."""


__all__ = ["AbstractValue", "Atom", "ParamDict", "Value", "eval_context", "max_dim", "min_dim"]
