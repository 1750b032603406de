"""Loops, branches and implicit functions of JAX's `lax`."""

from steno.lax.control_flow.associative import associative_scan as associative_scan
from steno.lax.control_flow.conditionals import cond as cond
from steno.lax.control_flow.conditionals import platform_dependent as platform_dependent
from steno.lax.control_flow.conditionals import switch as switch
from steno.lax.control_flow.loops import fori_loop as fori_loop
from steno.lax.control_flow.loops import map as map
from steno.lax.control_flow.loops import scan as scan
from steno.lax.control_flow.loops import while_loop as while_loop
from steno.lax.control_flow.solves import custom_linear_solve as custom_linear_solve
from steno.lax.control_flow.solves import custom_root as custom_root
