"""Random pytrees: steno and the real JAX (the interpreter named by STENO_JAX_PYTHON) say the same about each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
SCRIPT = HERE / "tree_cases.py"
JAX_PYTHON = Path(os.environ.get("STENO_JAX_PYTHON", HERE.parent / ".venv-jax/bin/python"))
COUNT = 1000


def records(python: Path | str, module: str, env: dict[str, str]) -> list[dict[str, str]]:
    command = [str(python), str(SCRIPT), module, str(COUNT)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout)


@pytest.mark.skipif(not JAX_PYTHON.exists() and "STENO_REQUIRE_JAX" not in os.environ, reason="no interpreter with JAX (STENO_JAX_PYTHON)")
def test_same_as_jax_on_random_trees():
    source = str(HERE.parent / "src")
    wanted = records(JAX_PYTHON, "jax.tree_util", {k: v for k, v in os.environ.items() if k != "PYTHONPATH"})
    got = records(sys.executable, "steno.tree_util", os.environ | {"PYTHONPATH": source})
    differences = [
        f"seed {seed}: {question} of {w['tree']} (other: {w['other']})\n  JAX   {w[question]}\n  steno {g[question]}"
        for seed, (w, g) in enumerate(zip(wanted, got, strict=True))
        for question in w
        if w[question] != g[question]
    ]
    assert not differences, f"{len(differences)} differences\n" + "\n".join(differences[:10])
