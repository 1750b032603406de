"""`steno run` and `steno.asjax`: programs that say `import jax`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import steno
from steno import asjax
from steno.__main__ import main


def python(*args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    path = str(Path(steno.__file__).parents[1])
    return subprocess.run([sys.executable, *args], capture_output=True, text=True, cwd=cwd, env={"PYTHONPATH": path}, timeout=120)


def run(tmp_path: Path, program: str, *args: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "program.py").write_text(program)
    return python("-m", "steno", "run", "program.py", *args, cwd=tmp_path)


def test_jax_is_steno(tmp_path):
    (tmp_path / "beside.py").write_text("value = 7")
    done = run(
        tmp_path,
        """
import sys, jax, jax.tree_util as tu, jax.errors
from jax import jit, lax
from jax.tree_util import tree_map
import beside
print(__name__, sys.argv, beside.value, jax.__version_info__ >= (0, 4), jit is jax.jit, tree_map is tu.tree_map, lax is jax.lax)
import steno
print(jax.jit is steno.jit, tu is steno.tree_util, "jit" in dir(jax), steno.tree_util.__name__, steno.tree_util.__spec__.name)
""",
        "a",
        "-b",
    )
    assert done.stderr == ""
    first, second = done.stdout.splitlines()
    assert first == "__main__ ['program.py', 'a', '-b'] 7 True True True True"
    assert second == "True True True steno.tree_util steno.tree_util"


def test_what_steno_has_not(tmp_path):
    done = run(tmp_path, "import jax\ntry: jax.nope\nexcept AttributeError as e: print(e)\nimport jax.nowhere")
    assert "module 'jax' (steno" in done.stdout and "has no attribute 'nope'" in done.stdout
    assert done.returncode == 1 and "No module named 'jax.nowhere': steno has no module 'steno.nowhere'" in done.stderr


def test_exit_status(tmp_path):
    assert run(tmp_path, "import sys; sys.exit(7)").returncode == 7
    assert run(tmp_path, "import sys; sys.exit('words')").returncode == 1
    assert run(tmp_path, "pass").returncode == 0


def test_tracebacks_begin_in_the_program(tmp_path):
    done = run(tmp_path, "def f():\n    raise KeyError('mine')\nf()")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0].startswith("Traceback") and "program.py" in lines[1] and lines[-1] == "KeyError: 'mine'" and "runpy" not in done.stderr


def test_modules(tmp_path):
    (tmp_path / "mod.py").write_text("import jax, sys; print(__name__, sys.argv[1:], jax.jit.__module__)")
    done = python("-m", "steno", "run", "-m", "mod", "x", cwd=tmp_path)
    assert done.stdout.strip() == "__main__ ['x'] steno.api", done.stderr


def test_install_after_the_real_jax(tmp_path):
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text("")
    done = python("-c", "import sys; sys.path.insert(0, '.'); import jax, steno.asjax; steno.asjax.install()", cwd=tmp_path)
    assert "RuntimeError: steno.asjax.install(): the real jax is already imported (from " in done.stderr


def test_install_and_uninstall():
    asjax.install()
    asjax.install()
    try:
        import jax  # noqa: PLC0415 - what is tested

        assert jax.jit is steno.jit and sys.meta_path.count(asjax._finder) == 1
    finally:
        asjax.uninstall()
    assert "jax" not in sys.modules and asjax._finder not in sys.meta_path


def test_usage(capsys):
    assert main(["--version"]) == 0 and "steno " in capsys.readouterr().out
    assert main(["--help"]) == 0 and "usage: steno run FILE" in capsys.readouterr().out
    assert main(["frobnicate"]) == 2 and "usage" in capsys.readouterr().err
    assert main(["run", "/no/such/file.py"]) == 2 and "no such file" in capsys.readouterr().err


@pytest.mark.parametrize("name", "core debug dtypes errors lax numpy random sharding stages tree tree_util typing".split())
def test_modules_of_jax(name):
    assert getattr(steno, name).__name__ == f"steno.{name}"
