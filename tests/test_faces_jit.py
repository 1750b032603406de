"""The calls of the tables of test_faces_against_jax_*, jitted: the same bits, types and weak types as evaluated at once."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import test_faces_against_jax_arrays as arrays
import test_faces_against_jax_indexing as indexing
from peer import Library

import steno

LIBRARY = Library("steno")
STATIC = (
    steno.errors.ConcretizationTypeError,
    steno.errors.TracerArrayConversionError,
    steno.errors.TracerIntegerConversionError,
    steno.errors.NonConcreteBooleanIndexError,
)


def _tables() -> list[tuple[str, dict[str, Any]]]:
    """The source lines of both modules' tables."""
    out = [(s, indexing.VARIABLES) for s in indexing.READS]
    for module in (arrays, indexing):
        for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" in node.value and "jnp." in node.value:
                out += [(line.strip(), module.VARIABLES) for line in node.value.splitlines() if line.strip()]
    return out


TABLES = _tables()
PARTS = 12


@pytest.mark.parametrize("part", range(PARTS))
def test_jitted_equals_eager(part: int) -> None:
    wrong, compared = [], 0
    for source, variables in TABLES[part::PARTS]:
        try:
            code = compile(source, "case", "eval")
        except SyntaxError:  # a line of prose in a docstring
            continue
        names = [*code.co_names, *(n for c in code.co_consts if hasattr(c, "co_names") for n in c.co_names)]
        used = {n: LIBRARY.value(variables[n]) for n in dict.fromkeys(names) if n in variables}
        traced = {n: v for n, v in used.items() if hasattr(v, "aval")}
        namespace = {**LIBRARY.namespace, **used}

        def run(values: dict[str, Any], code: Any = code, namespace: Any = namespace) -> Any:
            return eval(code, {**namespace, **values})

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                want = steno.tree.leaves(run(traced))
            except Exception:  # misuse is tested elsewhere
                continue
            if not traced or not all(hasattr(y, "aval") for y in want):
                continue
            try:
                got = steno.tree.leaves(steno.jit(run)(traced))
            except STATIC:  # needs the values
                continue
            except IndexError as e:
                assert "slice" in str(e), source
                continue
        compared += 1
        for a, b in zip(want, got, strict=True):
            if a.aval is not b.aval or np.asarray(a).tobytes() != np.asarray(b).tobytes():
                wrong.append(f"{source}\n    eager {a!r}\n    jit   {b!r}")
    assert not wrong, "\n".join(wrong)
    assert compared > 50
