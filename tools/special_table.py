"""Measures the errors of scipy.special and nn and writes docs/special.md.

    PYTHONPATH=src python tools/special_table.py [points]

In every region of `tests/special_reference.py` at `points` arguments (default 200), against multiple precision; takes minutes.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import special_reference as reference  # noqa: E402

import steno  # noqa: E402

HEAD = """# Special functions

The largest errors seen of `scipy.special` and `nn` in units in the last place of the result, against multiple precision at {points}
arguments in each of the regions that `tests/special_reference.py` names, and those of SciPy at the same arguments (— where there is no
such function in SciPy). `tools/special_table.py` writes this table, `tests/test_special_accuracy.py` checks its bounds at fewer arguments.

Most functions are computed in float64 whatever the dtype of their operands, so that results in float32 are rounded once; some only as
far as float32 shows (`erfc`, `ndtr`, `log_ndtr`, the incomplete functions). Errors of
derivatives, in float64, are those by each operand in the first region; • where there is none, as by orders, or it is not measured.
`bessel_jn` is that of order 3, `multigammaln` of dimension 3, `sph_harm_y` the real part for n = 5, m = 2, `softmax` and its relatives
of two numbers.
"""
COLUMNS = """
| function | float64 | SciPy | bound | float32 | SciPy | bound | derivatives | bounds |
|---|---|---|---|---|---|---|---|---|
"""
TAIL = """
Functions that cross zero are measured in units in the last place of a number near it (`floor` in the table of regions) where their
results are smaller: {floors}.

What is worse than 4 units in the last place, and why: the incomplete functions, `beta` and `comb` where results are extreme or nearly
cancel; `poch`, `expn` and the exponential integrals by terms that cancel; `owens_t` far out; `softmax` of numbers that are far apart, whose
difference is rounded; the exact `gelu` of great negative numbers, as exp(-x**2 / 2) shows the rounding error of x / sqrt(2). Derivatives of
`expit`, `sigmoid`, `tanh` and `erf`-like functions are made of results near 1: their errors are absolute.

`betainc` at an infinite shape, or at 0: all probability is at one end; the values at x = 0 and x = 1 are 0 and 1 all the same.
"""


def shown(errors: np.ndarray) -> str:
    error = float(np.max(errors, initial=0))
    return f"{error:.2f}" if error < 100 else f"{error:.1e}"


def row(name: str, case: reference.Case, points: int) -> str:
    function = reference.function(name)
    cells = [name]
    for dtype, bound in ((np.float64, case.double), (np.float32, case.single)):
        xs = reference.arguments(case, dtype, points)
        want = reference.exact_values(case.exact, xs)
        cells.append(shown(reference.ulps(np.asarray(function(*xs)), want, case.floor)))
        if case.scipy is None:
            cells.append("—")
        else:
            theirs = reference.ulps(np.asarray(case.scipy(*xs)).astype(dtype), want, case.floor)
            cells.append(shown(theirs[np.isfinite(theirs)]))
        cells.append(f"{bound:g}")
    xs = reference.arguments(case, np.float64, max(points // 4, 1), regions=slice(1))
    which = [k for k, bound in enumerate(case.slopes) if bound is not None]
    errors = {
        k: shown(reference.ulps(np.asarray(got), reference.exact_values(case.slope(k), xs), case.slope_floor))
        for k, got in zip(which, reference.slopes(name, which)(*xs), strict=True)
    }
    cells.append(", ".join(errors.get(k, "•") for k in range(len(case.slopes))))
    cells.append(", ".join(f"{b:g}" if b is not None else "•" for b in case.slopes))
    return "| " + " | ".join(cells) + " |"


def main(points: int) -> None:
    warnings.simplefilter("ignore")
    tables = []
    with steno.enable_x64(True), np.errstate(all="ignore"):
        for title, table in (("scipy.special", reference.SPECIAL), ("nn", reference.NN)):
            rows = []
            for name, case in table.items():
                rows.append(row(name, case, points))
                print(rows[-1], flush=True)
            tables.append(f"\n## {title}\n" + COLUMNS + "\n".join(rows) + "\n")
    floors = [f"{name} {case.floor:g}" for name, case in (reference.SPECIAL | reference.NN).items() if case.floor]
    text = HEAD.format(points=points) + "".join(tables) + TAIL.format(floors=", ".join(floors))
    (ROOT / "docs/special.md").write_text(text)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
