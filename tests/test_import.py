"""What `import steno` loads, and what it does not."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import steno

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = str(Path(steno.__file__).parents[1])  # what is tested, installed or not
HEAVY = ("llvmlite", "opt_einsum", "scipy", "scipy_openblas32", "jax", "jaxlib", "nanobind")
SLOW = ("dataclasses", "fractions", "decimal", "logging", "string", "asyncio", "unittest", "subprocess", "multiprocessing", "ctypes.util")
FACES = ("steno", "steno.numpy", "steno.lax", "steno.nn", "steno.random", "steno.tree_util", "steno.debug", "steno.errors", "steno.dtypes")


def new_modules(statements: str) -> set[str]:
    """The modules that a fresh process has after these statements, and had not after `import numpy, ml_dtypes`."""
    program = f"""
import json, sys
import numpy, ml_dtypes
before = set(sys.modules)
{statements}
print(json.dumps(sorted(set(sys.modules) - before)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={"PYTHONPATH": PACKAGE}, timeout=120)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("face", FACES)
def test_no_heavy_library_is_imported(face):
    modules = new_modules(f"import {face}")
    assert not {m.split(".")[0] for m in modules} & set(HEAVY)
    assert not [m for m in modules if m.startswith("steno.compiler")], "the compiler is loaded by the first program"


def test_standard_library_is_imported_sparingly():
    assert not new_modules("import steno, steno.numpy, steno.lax") & set(SLOW)


def test_tracing_needs_no_compiler():
    modules = new_modules(
        "import steno, steno.numpy as snp; steno.make_jaxpr(lambda x: snp.sin(x).sum())(steno.ShapeDtypeStruct((3,), 'float32'))"
    )
    assert "llvmlite" not in modules


def test_the_first_program_loads_the_compiler():
    modules = new_modules("import steno, numpy; steno.jit(lambda x: x + 1)(numpy.float32(1))")
    assert {"llvmlite", "steno.compiler"} <= modules
    assert not modules & {"opt_einsum", "scipy", "scipy_openblas32"}


@pytest.mark.parametrize("before", ["enable", "disable"])
def test_the_garbage_collector_is_as_before(before):
    program = f"import gc; gc.{before}(); import steno; print(gc.isenabled())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={"PYTHONPATH": PACKAGE}, timeout=120)
    assert done.stdout.strip() == str(before == "enable"), done.stderr


def test_names_on_demand():
    program = """
import steno
assert {"nn", "random", "debug", "pure_callback", "effects_barrier"} <= set(dir(steno)) and "random" not in vars(steno)
assert steno.random.key is steno.random.key and "random" in vars(steno)
assert callable(steno.pure_callback) and steno.nn.relu(-1.0) == 0
from steno import debug
from steno import *
try:
    steno.nothing
except AttributeError as err:
    assert str(err) == "module 'steno' has no attribute 'nothing'"
else:
    raise AssertionError
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, env={"PYTHONPATH": PACKAGE})
    assert done.returncode == 0, done.stderr


def test_version_is_the_distributions():
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert (
        data["project"]["dynamic"] == ["version"] and data["tool"]["scikit-build"]["metadata"]["version"]["input"] == "src/steno/version.py"
    )
    assert steno.__version__ == ".".join(map(str, steno.__version_info__))


def test_dependencies_are_the_ones_imported():
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())
    names = {d.split(">")[0].split("<")[0] for d in data["project"]["dependencies"]}
    assert names == {"numpy", "ml_dtypes", "llvmlite", "scipy-openblas32", "opt_einsum"}
