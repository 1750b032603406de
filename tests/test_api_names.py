"""The public names of JAX's modules: each is here, or there is a reason why it is not, which the AttributeError says; docs/api.md tells."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import steno
from steno.core.absent import DIFFERENCES, REASONS

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = str(Path(steno.__file__).parents[1])  # what is tested, installed or not
PYTHON = Path(os.environ.get("STENO_JAX_PYTHON", ROOT / ".venv-jax" / "bin" / "python"))
TOOL = ROOT / "tools" / "api_table.py"
_spec = importlib.util.spec_from_file_location("api_table", TOOL)
assert _spec is not None and _spec.loader is not None
api_table = importlib.util.module_from_spec(_spec)
sys.modules["api_table"] = api_table
_spec.loader.exec_module(api_table)


@pytest.fixture(scope="module")
def entries():
    return api_table.entries()


def module(name: str):
    return importlib.import_module("steno" + (f".{name}" if name else ""))


def test_the_list_is_that_of_jax():
    if not PYTHON.exists():
        pytest.skip("no interpreter with JAX (STENO_JAX_PYTHON)")
    done = subprocess.run([str(PYTHON), str(TOOL), "--collect"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    wanted, kept = done.stdout, api_table.NAMES.read_text()
    if wanted.splitlines()[0] != kept.splitlines()[0]:
        pytest.skip(f"docs/jax_names.txt is of another version: {kept.splitlines()[0]}")
    assert wanted.splitlines() == kept.splitlines(), f"docs/jax_names.txt: {PYTHON} tools/api_table.py --collect"


def test_every_name_is_here_or_explained(entries):
    assert not [(e.name.full, e.notes) for e in entries if e.state == "missing"]


def test_every_name_has_a_docstring(entries):
    found = [(e.name.full, api_table.find(e.name)[1]) for e in entries if e.state in ("done", "differs") and e.name.kind != "value"]
    assert not [name for name, value in found if not (inspect.getdoc(value) or "").strip()]


def test_the_table_is_up_to_date(entries):
    assert api_table.TABLE.read_text() == api_table.table(entries), "docs/api.md: make api-table"


def test_reasons_are_for_what_is_not_here():
    for full in REASONS:
        name, _, n = full.rpartition(".")
        try:
            owner = module(name)
        except ModuleNotFoundError:
            assert name in REASONS, full
            continue
        assert not hasattr(owner, n), f"{full} is here, and core/absent.py has a reason for its absence"


def test_differences_are_of_what_is_here(entries):
    assert not set(DIFFERENCES) - {e.name.full.removeprefix("jax.") for e in entries if e.state == "differs"}


@pytest.mark.parametrize(
    ("wanted", "got", "said"),
    [
        ("(x, /, axis, *, where)", "(x, axis, where)", None),
        ("(x, y)", "(a, b, /)", "no parameter `x`, `y`"),
        ("(a, b, c)", "(a, *, c, b)", "by keyword only: `b`, `c`"),
        ("(a, b)", "(b, a)", "the order of parameters is `b`, `a`"),
        ("(a, b)", "(*args, **kwargs)", None),
    ],
)
def test_differences_of_parameters(wanted, got, said):
    assert api_table.parameter_difference(wanted, got) == said


def test_stubs_are_found():
    def stub(x):
        """Nothing."""
        raise NotImplementedError("stub")

    def partly(x):
        if x:
            raise NotImplementedError("partly")
        return x

    assert api_table.is_stub(stub) and not api_table.is_stub(partly)


@pytest.mark.parametrize("full", ["interpreters.ad.jvp", "ffi", "lib.xla_client", "extend.mlir"])
def test_the_error_says_why(full):
    name, _, n = full.rpartition(".")
    with pytest.raises(AttributeError) as caught:
        getattr(module(name), n)
    assert str(caught.value).endswith(f"has no attribute {n!r}: {REASONS[full]}")


def test_names_that_share_modules_stay_what_they_are():
    # the first use of one name imports its module, which must not take the place of another name
    for n in ("shard_map", "pmap", "vmap", "export", "profiler", "reshard"):
        getattr(steno, n)
    assert callable(steno.pmap) and callable(steno.shard_map) and callable(steno.export.export)


def test_modules_that_are_not_here_say_why():
    program = "import steno.asjax; steno.asjax.install(); import jax.experimental.mosaic"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={"PYTHONPATH": PACKAGE}, timeout=60)
    assert done.stderr.strip().endswith(f"steno has no module 'steno.experimental.mosaic': {REASONS['experimental.mosaic']}")
