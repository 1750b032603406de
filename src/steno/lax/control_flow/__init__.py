"""Loops, branches and implicit functions of JAX's `lax`."""

from steno.lax.control_flow.associative import associative_scan
from steno.lax.control_flow.conditionals import cond, platform_dependent, switch
from steno.lax.control_flow.loops import fori_loop, map, scan, while_loop
from steno.lax.control_flow.solves import custom_linear_solve, custom_root
from steno.ops.cond import cond as cond_p
from steno.ops.implicit import custom_linear_solve as linear_solve_p
from steno.ops.scan import scan as scan_p
from steno.ops.while_loop import while_ as while_p

__all__ = [
    "associative_scan",
    "cond",
    "cond_p",
    "custom_linear_solve",
    "custom_root",
    "fori_loop",
    "linear_solve_p",
    "map",
    "platform_dependent",
    "scan",
    "scan_p",
    "switch",
    "while_loop",
    "while_p",
]
