"""Types, ops, traces and recorded programs. Knows no particular op and no backend.

The names below are those of `jax.core`."""

from steno._native import ShapedArray as ShapedArray
from steno.core.aval import pytype_aval_mappings as pytype_aval_mappings
from steno.core.jaxpr import eval_jaxpr as eval_jaxpr
from steno.core.trace import Trace as Trace, Tracer as Tracer, ensure_compile_time_eval as ensure_compile_time_eval
from steno.core.values import (
    AbstractValue as AbstractValue,
    Atom as Atom,
    ParamDict as ParamDict,
    Value as Value,
    eval_context as eval_context,
    max_dim as max_dim,
    min_dim as min_dim,
)
