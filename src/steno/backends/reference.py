"""The reference backend: NumPy, through the ops' oracles. Slow, simple, and what every other backend is compared with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, final

from steno._native import ArrayImpl
from steno.backends.state import compile_stateful, single_op
from steno.core.aval import typeof
from steno.core.interpret import apply_oracle, interpret, to_array, to_ndarray
from steno.core.jaxpr import ClosedJaxpr
from steno.core.op import Op
from steno.ops.host import refuse_effects
from steno.transforms.discharge import has_ref, stateful, takes_refs


def eager(op: Op, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """One op on concrete values: an ArrayImpl, or a list of them for an op of multiple results."""
    if op.makes_ref or has_ref(args):
        out = compile(single_op(op, [typeof(x) for x in args], params)).run(args)
        return out if op.multiple_results else out[0]
    values = [to_ndarray(x) for x in args]
    out, types = apply_oracle(op, values, [typeof(x) for x in args], params)
    arrays = [to_array(y, t) for y, t in zip(out, types, strict=True)]
    return arrays if op.multiple_results else arrays[0]


@final
class Executable:
    """A program to be interpreted; `run(args)` takes one value for each input of the program. Memory of donated ones is not reused."""

    def __init__(self, program: ClosedJaxpr) -> None:
        self.program = program
        self.in_avals, self.out_avals = program.in_avals, program.out_avals

    def run(self, args: Sequence[Any], donated: Iterable[int] = ()) -> list[ArrayImpl]:
        out = interpret(self.program, [to_ndarray(x) for x in args])
        return [to_array(y, t) for y, t in zip(out, self.out_avals, strict=True)]


def compile(program: ClosedJaxpr, *, donated: frozenset[int] = frozenset(), options: Any = ()) -> Executable:
    """`donated` and `options` are of no use here. ValueError for effects that no program can have."""
    refuse_effects(program)
    if takes_refs(program) or stateful(program):
        return compile_stateful(compile, program, donated)
    return Executable(program)


def clear_cache() -> None:
    """There is nothing to forget."""
