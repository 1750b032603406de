"""The pieces of recorded programs, by the names of `jax.extend.core`."""

from steno.core.jaxpr import (
    ClosedJaxpr as ClosedJaxpr,
    DebugInfo as DebugInfo,
    DropVar as DropVar,
    Jaxpr as Jaxpr,
    JaxprEqn as JaxprEqn,
    Literal as Literal,
    Var as Var,
    check_jaxpr as check_jaxpr,
    jaxpr_as_fun as jaxpr_as_fun,
)
