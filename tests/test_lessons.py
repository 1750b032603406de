"""The three lesson programs, unmodified, by `steno run`, with their exact outputs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import steno

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = str(Path(steno.__file__).parents[1])  # what is tested, installed or not
LESSON = ROOT / "examples" / "lesson"
FIRST_LINE = "error: Attempted boolean conversion of traced array with shape bool[]."


def run(program: Path) -> str:
    """What the program prints; it must end well and print no warnings."""
    command = [sys.executable, "-W", "error", "-m", "steno", "run", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={"PYTHONPATH": PACKAGE})
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def variant(tmp_path: Path, name: str, *replacements: tuple[str, str]) -> Path:
    """A lesson program with pieces of its text replaced."""
    text = (LESSON / name).read_text()
    for old, new in replacements:
        assert text.count(old) == 1
        text = text.replace(old, new)
    program = tmp_path / name
    program.write_text(text)
    return program


def test_jit_speed():
    assert re.fullmatch(r"plain: \d+\.\d\d ms, jitted: \d+\.\d\d ms\n", run(LESSON / "jit_speed.py"))


def test_jit_speed_computes_the_same_both_ways(tmp_path):
    """Twenty steps: the norm falls to 1e-14. After fifty it has underflowed, and all is NaN, as on JAX."""
    check = "print(bool((step(x) == fast(x)).all()), bool(jnp.isfinite(fast(x)).all()))\nprint(f"
    assert run(variant(tmp_path, "jit_speed.py", ("range(50)", "range(20)"), ("print(f", check))).startswith("True True\n")


def test_see_tracer():
    assert run(LESSON / "see_tracer.py") == "tracing, x is: Traced<~float32[]>with<DynamicJaxprTrace>\n2.0\n10.0\n"


def test_debug_print_runs_on_each_call_and_print_once(tmp_path):
    program = variant(
        tmp_path,
        "see_tracer.py",
        ('    print("tracing, x is:", x)\n', '    print("tracing, x is:", x)\n    jax.debug.print("running, x = {}", x)\n'),
        ("print(f(jnp.array(5.0)))\n", "print(f(jnp.array(5.0)))\nprint(f(jnp.array(7.0)))\n"),
    )
    lines = run(program).splitlines()
    assert lines.count("tracing, x is: Traced<~float32[]>with<DynamicJaxprTrace>") == 1
    assert [line for line in lines if line.startswith("running")] == ["running, x = 1.0", "running, x = 5.0", "running, x = 7.0"]
    assert [line for line in lines if line[0].isdigit()] == ["2.0", "10.0", "14.0"]
    assert len(lines) == 7


def test_value_branch():
    assert run(LESSON / "value_branch.py") == FIRST_LINE + "\n"


def test_value_branch_explains_itself(tmp_path):
    program = variant(tmp_path, "value_branch.py", (".splitlines()[0][:80]", ""))
    lines = run(program).splitlines()
    assert lines[0] == FIRST_LINE
    rest = "\n".join(lines[1:])
    source = program.read_text().splitlines()
    function, branch = source.index("@jax.jit") + 1, source.index("    if x > 0:") + 1
    assert f"function relu_wrong at {program}:{function} for jit" in rest
    assert "argument x" in rest
    assert f"{program}:{branch}" in rest and "if x > 0:" in rest
    for way_out in ("jnp.where", "lax.cond", "static_argnums"):
        assert way_out in rest


def test_value_branch_with_a_static_argument(tmp_path):
    """One of the ways out, taken."""
    program = variant(
        tmp_path,
        "value_branch.py",
        ("@jax.jit\n", "@functools.partial(jax.jit, static_argnums=0)\n"),
        ("import jax\n", "import functools\n\nimport jax\n"),
        ("    relu_wrong(3.0)\n", "    print(relu_wrong(3.0), relu_wrong(-3.0))\n"),
    )
    assert run(program) == "3.0 0.0\n"
