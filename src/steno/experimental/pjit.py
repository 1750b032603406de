"""`jit`, by its older name."""

from steno.api import jit as pjit

__all__ = ["pjit"]
