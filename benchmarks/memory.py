"""Peak memory of workloads, side by side with the real JAX: what the compiled programs say, and what the process holds.

    python benchmarks/memory.py --workloads DIR --a PYTHON:LIB --b PYTHON:LIB [--only NAME,NAME] [--json PATH]

DIR has `workloads.py`: a table W of functions that take a library (attributes jax, jnp, lax, random) and give (function, arguments). Each
workload runs in a process of its own for each library. temp: bytes of intermediates by `memory_analysis`; all: with arguments and results.
resident: by how much the process grows at most while the function runs, after it was called once. Ratios are b / a: above 1, a needs less.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

CALLS = 5
PAGE = 4096  # bytes; less is noise


def resident(field: str) -> int:
    """VmRSS or VmHWM of this process, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


def measure(folder: str, library: str, name: str) -> dict[str, int]:
    """One workload on one library, in this process."""
    sys.path.insert(0, folder)
    jax = importlib.import_module(library)
    parts = {"jnp": "numpy", "lax": "lax", "random": "random"}
    lib = SimpleNamespace(jax=jax, **{n: importlib.import_module(f"{library}.{m}") for n, m in parts.items()})
    f, args = importlib.import_module("workloads").W[name](lib)
    jax.block_until_ready(args)
    out: dict[str, int] = {}
    if hasattr(f, "lower"):
        m = f.lower(*args).compile().memory_analysis()
        out["temp"] = m.temp_size_in_bytes
        out["all"] = m.temp_size_in_bytes + m.argument_size_in_bytes + m.output_size_in_bytes - m.alias_size_in_bytes
    before = resident("VmRSS")
    jax.block_until_ready(f(*args))  # compiles
    out["first"] = resident("VmHWM") - before
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak
    for _ in range(CALLS):
        jax.block_until_ready(f(*args))
    out["resident"] = max(resident("VmHWM") - before, 0)
    out["process"] = resident("VmHWM")
    return out


def child(spec: str, folder: str, name: str) -> dict[str, Any]:
    python, library = spec.rsplit(":", 1)
    command = [python, os.path.abspath(__file__), "--workloads", folder, "--measure", f"{library}:{name}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["it ended without a word"])[-1][:200]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def names_of(folder: str, python: str) -> list[str]:
    code = "import json, workloads; print(json.dumps(list(workloads.W)))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, cwd=folder, check=True)
    return json.loads(done.stdout)


def megabytes(n: int | None) -> str:
    return "" if n is None else f"{n / 1e6:.3f}" if n < 1e6 else f"{n / 1e6:.1f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", required=True, metavar="DIR")
    parser.add_argument("--a", metavar="PYTHON:LIB")
    parser.add_argument("--b", metavar="PYTHON:LIB")
    parser.add_argument("--only", default="", help="parts of names, with commas between")
    parser.add_argument("--json", help="a file for what was measured")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    o = parser.parse_args()
    folder = os.path.abspath(o.workloads)
    if o.measure:
        library, name = o.measure.split(":")
        print(json.dumps(measure(folder, library, name)))
        return 0
    if not o.a or not o.b:
        parser.error("--a and --b are wanted")
    wanted = [w for w in o.only.split(",") if w]
    out: dict[str, Any] = {}
    more: list[str] = []
    failed = 0
    columns = ("temp", "all", "resident", "process")
    print(f"{'MB':24}" + "".join(f"{f'{c} a':>13}{f'{c} b':>13}" for c in columns) + f"{'b/a all':>10}")
    for name in names_of(folder, o.a.rsplit(":", 1)[0]):
        if wanted and not any(w in name for w in wanted):
            continue
        a, b = child(o.a, folder, name), child(o.b, folder, name)
        out[name] = {"a": a, "b": b}
        if "error" in a or "error" in b:
            failed += 1
            print(f"{name:24}" + "; ".join(f"{who} fails: {x['error']}" for who, x in (("a", a), ("b", b)) if "error" in x), flush=True)
            continue
        cells = "".join(f"{megabytes(a.get(c)):>13}{megabytes(b.get(c)):>13}" for c in columns)
        ratio = b["all"] / max(a["all"], 1) if "all" in a and "all" in b else None
        print(f"{name:24}{cells}{'' if ratio is None else f'{ratio:10.2f}'}", flush=True)
        if a.get("all", 0) > b.get("all", math.inf) + PAGE or a["resident"] > b["resident"] + PAGE * 64:
            more.append(name)
    print(f"workloads {len(out)}, failed {failed}; a needs more than b: {', '.join(more) or 'none'}")
    if o.json:
        Path(o.json).write_text(json.dumps(out, indent=1))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
