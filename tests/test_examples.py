"""Each program of `examples/`, unmodified, on steno and on the real JAX: the numbers it computes are the ones JAX computed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
from peer import NO_JAX, interpreter

import steno

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = str(Path(steno.__file__).parents[1])  # what is tested, installed or not
EXAMPLES = ROOT / "examples"


@dataclass(frozen=True)
class Example:
    """`numbers`: an expression for some numbers of what `main()` returned, `r`, over `a = numpy.asarray`. `want`: what JAX 0.12 computed.
    `rtol`: relative to the greatest of them; `why` says where the numbers may differ."""

    numbers: str
    want: tuple[float, ...]
    rtol: float
    why: str


CASES = {
    "black_scholes": Example("[r[0], r[1] < 1e-4]", (21.3686352, 1.0), 1e-5, "log, exp and erf, and the order of a sum of a million"),
    "game_of_life": Example("[r]", (1.0,), 0.0, "integers"),
    "heat_equation": Example("[a(r).mean(), a(r)[8, 32], a(r)[32, 32]]", (22.8501739, 72.7292938, 18.8154697), 1e-5, "2000 roundings"),
    "kmeans": Example(
        "a(r).ravel()", (0.03500852, -0.00088214, 4.93101788, 4.96202278, -4.96385002, 3.93321562), 1e-5, "sums of 200 in another order"
    ),
    "mandelbrot": Example("[a(r).mean(), (a(r) == 30).mean()]", (9.73163265, 0.22959184), 1e-3, "rounding decides when some points escape"),
    "monte_carlo_pi": Example("[r]", (3.1445761,), 5e-6, "the same darts; one on the rim is 4e-6"),
    "moving_average": Example("[*r[:2], r[2] < 1e-5]", (0.32278204, 0.0661215, 1.0), 1e-5, "running sums of 600 in another order"),
    "neural_net_forward": Example(
        "[*a(r)[0, :4], a(r).max(), a(r).sum()]",
        (0.07089331, 0.11158364, 0.21923411, 0.07471915, 0.27566266, 32.0),
        1e-6,
        "matrix products",
    ),
    "pagerank": Example("a(r)", (0.36668462, 0.18584083, 0.37472454, 0.04274999, 0.03), 1e-5, "28 roundings"),
    "random_walks": Example("[r]", (412.702057,), 1e-5, "sin and cos, and running sums of 400"),
    "retrace_report": Example("[r]", (4.0,), 0.0, "a count of traces"),
}

DRIVER = """
import contextlib, json, runpy, sys
import numpy
folder, library, cases = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
if library == "steno":
    import steno.asjax
    steno.asjax.install()
for name, numbers in cases.items():
    with contextlib.redirect_stdout(sys.stderr):
        result = runpy.run_path(f"{folder}/{name}.py")["main"]()
    cases[name] = [float(x) for x in eval(numbers, {"r": result, "a": numpy.asarray})]
print(json.dumps(cases))
"""


def compute(python: str | Path, library: str, names: Iterable[str], env: dict[str, str]) -> dict[str, list[float]]:
    """The numbers of these examples, computed in one process."""
    cases = json.dumps({name: CASES[name].numbers for name in names})
    warnings = "error" if library == "steno" else "default"
    command = [str(python), "-W", warnings, "-c", DRIVER, str(EXAMPLES), library, cases]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check(name: str, got: list[float]) -> None:
    case = CASES[name]
    assert len(got) == len(case.want)
    scale = max(map(abs, case.want))
    assert all(abs(g - w) <= case.rtol * scale for g, w in zip(got, case.want, strict=True)), f"{got} != {case.want} ({case.why})"


def test_every_example_is_tested():
    assert {p.stem for p in EXAMPLES.glob("*.py")} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_on_steno(name):
    check(name, compute(sys.executable, "steno", [name], {"PYTHONPATH": PACKAGE})[name])


@pytest.mark.skipif(interpreter() is None, reason=NO_JAX)
def test_on_jax():
    found = interpreter()
    assert found is not None
    for name, got in compute(found, "jax", CASES, {"JAX_PLATFORMS": "cpu", "HOME": os.environ.get("HOME", "/")}).items():
        check(name, got)


@pytest.mark.parametrize("name", ["game_of_life", "retrace_report"])
def test_by_steno_run(name):
    command = [sys.executable, "-m", "steno", "run", str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={"PYTHONPATH": PACKAGE})
    assert done.returncode == 0, done.stderr
    if name == "game_of_life":
        assert done.stdout.endswith("the glider moved by one cell: True\n")
    else:
        assert done.stdout == "traced 4 times in 5 calls\n"
        for reason in ("first call", "(4,) became (5,)", "float32[5] became int32[5]", "power was absent, is 3"):
            assert reason in done.stderr
