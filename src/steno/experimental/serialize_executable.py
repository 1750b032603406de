"""Compiled programs as bytes, by the names of `jax.experimental.serialize_executable`, as `export` keeps them: compiled on loading."""

from __future__ import annotations

from typing import Any

from steno.api import jit
from steno.core.refs import is_ref_type
from steno.export import deserialize, exported
from steno.stages import Compiled, ShapeDtypeStruct
from steno.tree_util import PyTreeDef, tree_unflatten


def serialize(compiled: Compiled) -> tuple[bytes, PyTreeDef, PyTreeDef]:
    """Bytes, and the structures of arguments and results. ValueError for a program that changes mutable arrays of its surroundings."""
    program = compiled._program
    if any(is_ref_type(v.aval) for v in program.closed.constvars):
        raise ValueError("serialize: the program is a closure over references to mutable arrays, which belong to this process")
    out = exported(program.name, program.closed, program.in_tree, program.out_tree)
    return bytes(out.serialize()), program.in_tree, program.out_tree


def deserialize_and_load(serialized: bytes, in_tree: PyTreeDef, out_tree: PyTreeDef, **options: Any) -> Compiled:
    """The compiled program."""
    program = deserialize(serialized)
    args, kwargs = tree_unflatten(in_tree, [ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in program.in_avals])
    return jit(program.call).lower(*args, **kwargs).compile()
