"""The pieces of recorded programs, by the names of `jax.extend.core`."""

from steno.core.jaxpr import ClosedJaxpr as ClosedJaxpr
from steno.core.jaxpr import DebugInfo as DebugInfo
from steno.core.jaxpr import DropVar as DropVar
from steno.core.jaxpr import Jaxpr as Jaxpr
from steno.core.jaxpr import JaxprEqn as JaxprEqn
from steno.core.jaxpr import Literal as Literal
from steno.core.jaxpr import Var as Var
from steno.core.jaxpr import check_jaxpr as check_jaxpr
from steno.core.jaxpr import jaxpr_as_fun as jaxpr_as_fun
