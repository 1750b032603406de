"""Measures the errors of the elementary functions and writes docs/vecmath.md.

    PYTHONPATH=src python tools/vecmath_table.py [points]

float32: `points` arguments (default 200000) of every exponent, as many near 0 and twice as many in the interesting range, against float64;
float64: a fiftieth of them, against multiple precision. The values are the interpreter's, which machine code equals bit for bit.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from vecmath_reference import ALL, BINARY, arguments, double, expression, interpret, ulps_double, ulps_single  # noqa: E402

from steno.compiler.vecmath.bounds import BOUNDS  # noqa: E402
from steno.ir.expr import F32, F64, topological  # noqa: E402

HEAD = """# Elementary functions

`steno.compiler.vecmath` has each function once, as a scalar expression of primitive operations; the compiler makes vector code of it, the
reference interpreter NumPy calls, and both give the same bits on every target. This table is written by `tools/vecmath_table.py`;
`tests/test_vecmath.py` checks the bounds.

Errors are in units in the last place of the result: the bound, and the largest seen on edge values, {single} float32 arguments or more
(against float64) and {double} float64 arguments or more (against multiple precision). float16, bfloat16 and float8 arguments are
computed in float32 and rounded. Signed zeros, infinities, NaN and subnormal numbers are respected; normal arguments make nothing subnormal
on the way, which would take a hundred times longer. Operations: of one float32 value, the rare
paths counted, but sin, cos and tan of large arguments, which are called.

| function | float32 bound | measured | float64 bound | measured | operations |
|---|---|---|---|---|---|
"""
TAIL = """
lgamma and digamma cross zero: for results below 1 their errors are in units in the last place of 1. Those of digamma are below 6 for
positive arguments; for negative ones two numbers as great as log|x| may cancel.

Not there, as they need loops: igamma, igammac and their derivatives, betainc (`lax/incomplete.py`), `random_gamma_grad`
(`lax/gamma_derivative.py`), and most of `scipy.special`. They are made of elementary functions in float64 and rounded to the dtype of
their operands: [special.md](special.md) has their errors.
"""


def count(name: str) -> int:
    return sum(e.op not in ("const", "local") for e in topological([expression(name, F32)]))


def main(points: int) -> None:
    rows = []
    for name in ALL:
        bound = BOUNDS[name]
        few = 4 if name in BINARY else 1
        xs = arguments(name, F32, points // few, seed=7)
        single = float(np.max(ulps_single(interpret(name, *xs), double(name, *xs), bound.floor)))
        xs = arguments(name, F64, points // 50 // few, seed=8)
        wide, _ = ulps_double(name, interpret(name, *xs), xs, bound.floor)
        row = f"| {name} | {bound.single:g} | {single:.2f} | {bound.double:g} | {wide:.2f} | {count(name)} |"
        print(row, flush=True)
        rows.append(row)
    head = HEAD.format(single=points // 4, double=points // 200)
    (ROOT / "docs/vecmath.md").write_text(head + "\n".join(rows) + "\n" + TAIL)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)
