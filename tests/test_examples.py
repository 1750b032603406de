"""Each program of `examples/`, unmodified, on steno and on the real JAX: it prints what JAX printed, up to rounding.

`data/examples.json` holds what JAX 0.12 printed, by program, with the digest of the program's text. It is made anew, where there is JAX, by
`python tests/test_examples.py NAME ...` (without names: for the programs that were changed)."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from peer import NO_JAX, interpreter

import steno

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = str(Path(steno.__file__).parents[1])  # what is tested, installed or not
EXAMPLES = ROOT / "examples"
RECORD = Path(__file__).parent / "data" / "examples.json"
NAMES = sorted(p.stem for p in EXAMPLES.glob("*.py"))
GROUPS = [NAMES[k : k + 4] for k in range(0, len(NAMES), 4)]  # run in one process
LIVE = ("burgers_equation", "game_of_life", "retrace_report", "root_finding")  # run on JAX each time, which is slow to compile

NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]\d+)?")
LOOSE = {
    "diffusion": (0.02, "thousands of roundings of a training"),
    "policy_gradient": (0.1, "an episode may go another way"),
}
"""How far numbers may differ, relatively, beyond one unit of their last place; and why."""

DRIVER = """
import contextlib, io, json, runpy, sys, traceback
folder, library, names = sys.argv[1], sys.argv[2], sys.argv[3:]
if library == "steno":
    import steno.asjax
    steno.asjax.install()
printed = {}
for name in names:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            runpy.run_path(f"{folder}/{name}.py", run_name="__main__")
        except Exception:
            print(traceback.format_exc())
    printed[name] = out.getvalue()
print(json.dumps(printed))
"""


def digest(name: str) -> str:
    return hashlib.sha256((EXAMPLES / f"{name}.py").read_bytes()).hexdigest()[:16]


def run(python: str | Path, library: str, names: Iterable[str], env: dict[str, str]) -> dict[str, str]:
    """What these examples print, or the traceback of one that fails, run in one process."""
    warnings = "error" if library == "steno" else "default"
    command = [str(python), "-W", warnings, "-c", DRIVER, str(EXAMPLES), library, *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def run_on_jax(names: Iterable[str]) -> dict[str, str]:
    found = interpreter()
    assert found is not None
    return run(found, "jax", names, {"JAX_PLATFORMS": "cpu", "HOME": os.environ.get("HOME", "/")})


def check(name: str, got: str, want: str) -> None:
    """The same text around the same numbers: equal but for one unit of the last place."""
    assert NUMBER.split(got) == NUMBER.split(want), f"{got}\nand JAX:\n{want}"
    loose, _ = LOOSE.get(name, (0.0, ""))
    for a, b in zip(NUMBER.findall(got), NUMBER.findall(want), strict=True):
        digits, _, power = b.partition("e")
        unit = 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
        allowed = (1.01 * unit if "." in b or loose else 0.0) + loose * abs(float(b))
        assert abs(float(a) - float(b)) <= allowed, f"{a} != {b} in\n{got}\nand JAX:\n{want}"


@pytest.fixture(scope="module")
def record() -> dict[str, dict[str, str]]:
    return json.loads(RECORD.read_text())


def test_the_record_is_of_these_programs(record):
    assert {name: r["digest"] for name, r in record.items()} == {name: digest(name) for name in NAMES}


@pytest.mark.parametrize("names", GROUPS, ids=", ".join)
def test_on_steno(names, record):
    for name, printed in run(sys.executable, "steno", names, {"PYTHONPATH": PACKAGE}).items():
        check(name, printed, record[name]["printed"])


@pytest.mark.skipif(interpreter() is None, reason=NO_JAX)
def test_on_jax(record):
    for name, printed in run_on_jax(LIVE).items():
        check(name, printed, record[name]["printed"])


def test_the_table_names_every_example():
    rows = re.findall(r"^\| `(\w+)` \|", (EXAMPLES / "README.md").read_text(), re.MULTILINE)
    assert rows == NAMES


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


def make_record(names: list[str]) -> None:
    known = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    names = names or [n for n in NAMES if known.get(n, {}).get("digest") != digest(n)]
    for name in names:
        known[name] = {"digest": digest(name), "printed": run_on_jax([name])[name]}
        print(name, known[name]["printed"], sep="\n")
    RECORD.write_text(json.dumps({n: known[n] for n in NAMES}, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    make_record(sys.argv[1:])
