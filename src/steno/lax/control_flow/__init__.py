"""Loops, branches and implicit functions of JAX's `lax`. Its parts are imported when they are first used."""

from steno.core.on_demand import on_demand as _on_demand

__getattr__, __dir__ = _on_demand(
    __name__,
    {
        "associative": ("associative_scan",),
        "conditionals": ("cond", "cond_p", "platform_dependent", "switch"),
        "loops": ("fori_loop", "map", "scan", "scan_p", "while_loop", "while_p"),
        "solves": ("custom_linear_solve", "custom_root", "linear_solve_p"),
    },
)
