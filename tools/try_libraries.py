"""Runs programs that use libraries written for JAX (tests/libraries/) on steno.

    python tools/try_libraries.py [NAME ...]

The libraries are installed into build/libraries, without their dependencies, since these name the real JAX. The last line counts; exit
status 1 if a program failed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "build" / "libraries"
PACKAGES = (
    "absl-py", "attrs", "beartype", "blackjax", "chex", "cloudpickle", "decorator", "diffrax", "distrax", "dm-env", "dm-haiku", "dm-tree",
    "equinox", "etils", "evosax", "fastprogress", "flax", "gast", "jaxopt", "jaxtyping", "jmp", "jraph", "lineax", "markdown-it-py", "mctx",
    "mdurl", "msgpack", "multipledispatch", "numpyro", "optax", "optimistix", "orbax-checkpoint", "ott-jax", "pygments", "pyyaml", "rich",
    "rlax", "scipy", "six", "tabulate", "tensorflow-probability", "tinygp", "toolz", "tqdm", "treescope", "typing-extensions",
    "wadler-lindig", "wrapt",
)  # fmt: skip


def main() -> int:
    if not TARGET.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target", str(TARGET)]
        subprocess.run([*pip, *PACKAGES], check=True)
    wanted = sys.argv[1:]
    programs = [p for p in sorted((ROOT / "tests" / "libraries").glob("use_*.py")) if not wanted or p.stem.removeprefix("use_") in wanted]
    failed = 0
    for program in programs:
        start = time.perf_counter()
        env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(TARGET)))}
        run = [sys.executable, "-W", "ignore", "-m", "steno", "run", str(program)]
        done = subprocess.run(run, env=env, capture_output=True, text=True)
        failed += bool(done.returncode)
        print(
            f"{program.stem.removeprefix('use_'):12} {'failed' if done.returncode else 'ok':6} {time.perf_counter() - start:6.1f} s",
            flush=True,
        )
        if done.returncode:
            print(done.stderr[-2000:])
    print(f"{len(programs)} programs, {failed} failed")
    return 1 if failed or not programs else 0


if __name__ == "__main__":
    sys.exit(main())
