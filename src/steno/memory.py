"""Kinds of memory, by the name of `jax.memory`; for a CPU they are one."""

from steno.mesh import Space as Space
