"""`steno bench FILE:FUNCTION` (or `python -m steno.bench ...`): times a function of a file, measured so that the number means something.

Each of two processes of their own imports the file and calls the function for the first time, one with an empty folder of compiled code,
one with what the other left there: tracing, compiling and running are timed apart. The second then goes on: it warms up, calls in batches
of some milliseconds, waits for the results of each batch, and reports the median and the quartiles over the batches. The time is set
against the least that this machine could take for as many bytes and operations (`steno.limits`).
"""

from __future__ import annotations

import argparse
import difflib
import gc
import importlib.util
import inspect
import json
import operator
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import steno
from steno import _native, asjax, limits
from steno._native import JitFunction
from steno.core.aval import typeof
from steno.ir.loops import CallThen, Choice, CopyBuffer, Kernel, LibraryCall, Loop, Program
from steno.tree_util import tree_flatten, tree_leaves, tree_unflatten

BATCH_S = 5e-3
WARM_S, SETTLED = 0.3, 0.03  # warm-up ends when two batches are this near, or after this time
LEAST = 15  # batches
ALONE = 200  # calls that are waited for one by one, at most
COPIES = 1 << 28  # bytes of donated arguments that are prepared for a batch, at most
CALL_S = 2e-7  # work that is less than this is lost in the time of a call
UNSTEADY = 0.1  # a spread of the quartiles that is worth a word
HELP = """what is timed

  FUNCTION is wrapped in steno.jit unless it is jitted already (--eager: called as it is). A file that imports jax gets steno.

  Its arguments come from a function of the file without parameters, which returns a tuple of them (or a pair of a tuple and a dict of
  keyword arguments): the one that --args names, else FUNCTION_args, else args. A function without parameters needs none.

      def step(params, x): ...

      def step_args():
          return make_params(), jnp.ones((128, 784))
"""


class Refused(Exception):
    """What the user is told, instead of a traceback."""


class Failed(Exception):
    """The user's code raised `__cause__`."""

    def __init__(self, what: str, path: str) -> None:
        super().__init__(what)
        self.path = path


# the function and its arguments


def load(target: str, args: str | None) -> tuple[str, Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """The file, the function, and what it is called with."""
    path, colon, name = target.rpartition(":")
    if not colon or not path or not name:
        raise Refused(f"expected FILE:FUNCTION, as in model.py:step, got {target!r}")
    if not os.path.isfile(path):
        raise Refused(f"there is no file {path!r}")
    asjax.install()
    file = os.path.abspath(path)
    sys.path.insert(0, os.path.dirname(file))
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    if spec is None or spec.loader is None:
        raise Refused(f"{path!r} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    _users(lambda: spec.loader.exec_module(module), f"importing {path}", file)  # type: ignore[union-attr]  # it is not None
    try:
        function = operator.attrgetter(name)(module)
    except AttributeError:
        names = [n for n, x in vars(module).items() if callable(x) and getattr(x, "__module__", None) == module.__name__]
        near = difflib.get_close_matches(name, names, 1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(names)}" if names else ""
        raise Refused(f"{path} has no function {name!r}{hint}") from None
    if not callable(function):
        raise Refused(f"{name!r} in {path} is {_a(function)}, not a function")
    positional, keywords = _arguments(module, path, file, name, function, args)
    return file, function, positional, keywords


def _arguments(module: Any, path: str, file: str, name: str, function: Any, given: str | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # it does not say
        parameters = None
    own = f"{name.rpartition('.')[2]}_args"
    for source in (given,) if given is not None else (own,) if parameters == [] else (own, "args"):
        make = getattr(module, source, None)
        if callable(make):
            made = _users(make, f"calling {source}()", file)
            if isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], tuple) and isinstance(made[1], dict):
                return made
            if isinstance(made, tuple | list):
                return tuple(made), {}
            raise Refused(f"{source}() of {path} must return a tuple of arguments (or a tuple and a dict of keyword ones), got {_a(made)}")
    if given is not None:
        raise Refused(f"--args {given}: {path} has no function of that name")
    wanted = [p.name for p in parameters or () if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if wanted:
        raise Refused(
            f"{name} takes {', '.join(wanted)}: write a function {own}() (or args()) into {path} that returns a tuple of them, "
            "or name one by --args"
        )
    return (), {}


def _a(x: Any) -> str:
    return f"an object of type {type(x).__name__}"


def _users(run: Callable[[], Any], what: str, file: str) -> Any:
    try:
        return run()
    except Exception as err:
        raise Failed(what, file) from err


# one process: the first call, and many


def first_call(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[str, float], Any]:
    """Seconds of its parts, and the compiled program."""
    start = time.perf_counter()
    traced = f.trace(*args, **kwargs)
    after_trace = time.perf_counter()
    compiled = traced.lower().compile()
    after_compile = time.perf_counter()
    args, kwargs = _Fresh(compiled, args, kwargs).one()
    before = time.perf_counter()
    steno.block_until_ready(f(*args, **kwargs))
    end = time.perf_counter()
    parts = {"trace": after_trace - start, "compile": after_compile - after_trace, "run": end - before}
    stages = getattr(getattr(compiled.runtime_executable(), "compiled", None), "seconds", {})
    return {**parts, "total": sum(parts.values()), **{f"compile/{n}": s for n, s in stages.items()}}, compiled


class _Fresh:
    """Arguments for calls, of which donated arrays are copies made beforehand, since a call deletes them."""

    def __init__(self, compiled: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.given = args, kwargs
        self.leaves, self.tree = tree_flatten((args, kwargs))
        self.donated = compiled.donate_argnums if compiled is not None else ()

    def one(self) -> Any:
        if not self.donated:
            return self.given
        leaves = list(self.leaves)
        for k in self.donated:
            leaves[k] = steno.numpy.array(leaves[k], copy=True)
        return tree_unflatten(self.tree, steno.block_until_ready(leaves))

    def most(self) -> int | None:
        """How many calls may be prepared at a time."""
        nbytes = sum(typeof(self.leaves[k]).nbytes for k in self.donated)
        return max(1, min(1000, COPIES // nbytes)) if nbytes else None


def _batch(f: Any, fresh: _Fresh, n: int) -> float:
    """Seconds for n calls in a row whose last result is waited for: one behind the other, that is when all are done."""
    if not fresh.donated:
        args, kwargs = fresh.given
        start = time.perf_counter()
        for _ in range(n - 1):
            f(*args, **kwargs)
        steno.block_until_ready(f(*args, **kwargs))
        return time.perf_counter() - start
    calls = [fresh.one() for _ in range(n)]
    start = time.perf_counter()
    for args, kwargs in calls:
        out = f(*args, **kwargs)
    steno.block_until_ready(out)
    return time.perf_counter() - start


def steady(f: Any, fresh: _Fresh, seconds: float) -> dict[str, Any]:
    """Seconds a call takes: statistics over batches, and of calls that are waited for one by one."""
    n, previous, end = 1, 0.0, time.perf_counter() + WARM_S
    most = fresh.most()
    while True:  # warm up, and find how many calls make a batch
        each = _batch(f, fresh, n) / n
        near = previous and abs(each - previous) < SETTLED * previous
        if n * each >= BATCH_S / 2 and near or time.perf_counter() > end and n * each >= BATCH_S / 4 or most is not None and n >= most:
            break
        n, previous = max(1, min(2 * n if n * each < BATCH_S / 4 else int(BATCH_S / each), most or 10**9)), each
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        times: list[float] = []
        end = time.perf_counter() + seconds
        while len(times) < LEAST or time.perf_counter() < end:
            times.append(_batch(f, fresh, n) / n)
        alone: list[float] = []
        end = time.perf_counter() + seconds / 4
        while len(alone) < 5 or len(alone) < ALONE and time.perf_counter() < end:
            alone.append(_batch(f, fresh, 1))
    finally:
        if collecting:
            gc.enable()
    low, middle, high = statistics.quantiles(times, n=4)
    return {
        "median": middle, "quartiles": [low, high], "fastest": min(times), "slowest": max(times), "batches": len(times), "calls": n,
        "alone": statistics.median(alone),
    }  # fmt: skip


def _statements(program: Program) -> dict[str, int]:
    """How many of each kind the program has, nested ones included."""
    out = dict.fromkeys(("kernel", "library call", "copy", "loop", "branch"), 0)
    for s in program.statements:
        inner: Sequence[Program] = ()
        if isinstance(s, Kernel):
            out["kernel"] += 1
        elif isinstance(s, LibraryCall):
            out["library call"] += 1
        elif isinstance(s, CallThen):
            out["kernel"] += 1
            out["library call"] += 1
        elif isinstance(s, CopyBuffer):
            out["copy"] += 1
        elif isinstance(s, Loop):
            out["loop"] += 1
            inner = [p for p in (s.body, s.cond) if p is not None]
        elif isinstance(s, Choice):
            out["branch"] += 1
            inner = [p for p, _ in s.branches]
        for p in inner:
            for kind, count in _statements(p).items():
                out[kind] += count
    return out


def describe(compiled: Any) -> dict[str, Any]:
    """Memory and work of a compiled program."""
    m, cost = compiled.memory_analysis(), compiled.cost_analysis()
    arguments, results = m.argument_size_in_bytes, m.output_size_in_bytes - m.alias_size_in_bytes
    made = getattr(compiled.runtime_executable(), "compiled", None)
    captured = 0 if made is None else sum(typeof(c).nbytes for c in made.captured)
    return {
        "arguments": arguments, "captured": captured, "results": m.output_size_in_bytes, "shared": m.alias_size_in_bytes,
        "temporary": m.temp_size_in_bytes, "peak": arguments + captured + results + m.temp_size_in_bytes, "flops": cost["flops"],
        "read": arguments + captured, "written": m.output_size_in_bytes,
        "statements": {} if made is None else _statements(made.program),
        "dtypes": sorted({str(a.dtype) for a in compiled._program.closed.out_avals}),
    }  # fmt: skip


def against_limits(work: Mapping[str, Any], seconds: float, threads: int) -> dict[str, Any]:
    """The machine's limits for this work, and which part of them it reaches."""
    out: dict[str, Any] = {"threads": threads}
    least = []
    if work["read"] + work["written"]:
        speed = limits.bandwidth(work["read"], work["written"], threads)
        least.append((work["read"] + work["written"]) / speed)
        out |= {"bandwidth": speed, "of bandwidth": least[-1] / seconds}
    if work["flops"]:
        dtype = "float64" if {"float64", "complex128"} & set(work["dtypes"]) else "float32"
        speed = limits.peak_flops(dtype, threads)
        least.append(work["flops"] / speed)
        out |= {"flops": speed, "of flops": least[-1] / seconds, "dtype": dtype}
    return out | {"least": max(least, default=0.0)}


def measure(o: argparse.Namespace) -> dict[str, Any]:
    """What a process of its own finds out."""
    if o.threads:
        steno.config.update("steno_num_threads", o.threads)
    file, f, args, kwargs = load(o.target, o.args)
    steno.block_until_ready((args, kwargs))
    out: dict[str, Any] = {"arguments": [typeof(x).str_short() for x in tree_leaves((args, kwargs)) if _is_array(x)]}
    out["threads"] = _native.num_threads()
    jitted = isinstance(f, JitFunction)
    out["how"] = "called as it is" if o.eager else "jitted already" if jitted else "in steno.jit"
    compiled = None
    if o.eager:
        start = time.perf_counter()
        _users(lambda: steno.block_until_ready(f(*args, **kwargs)), "calling the function", file)
        out["first"] = {"total": time.perf_counter() - start}
    else:
        f = f if jitted else steno.jit(f)
        out["first"], compiled = _users(lambda: first_call(f, args, kwargs), "calling the function under jit", file)
    if o.measure == "first":
        return out
    _forget_peak()
    before = _resident("VmRSS")
    fresh = _Fresh(compiled, args, kwargs)
    out["steady"] = _users(lambda: steady(f, fresh, o.seconds), "calling the function", file)
    out["resident"] = {"before": before, "peak": _resident("VmHWM"), "process": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
    if compiled is not None:
        out["work"] = describe(compiled)
        if o.limits:
            out["limits"] = against_limits(out["work"], out["steady"]["median"], out["threads"])
    return out


def _is_array(x: Any) -> bool:
    try:
        typeof(x)
    except TypeError:
        return False
    return True


def _resident(field: str) -> int:
    """VmRSS or VmHWM of this process, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0


def _forget_peak() -> None:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:  # then the peak is the process's
        pass


# the report


def seconds(t: float) -> str:
    """Three digits, in the unit that suits."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if t * scale >= 0.9995:
            return f"{t * scale:#.4g}".rstrip(".") + f" {unit}"
    return f"{t * 1e9:.0f} ns"


def size(n: float) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n >= scale:
            return f"{n / scale:.3g} {unit}"
    return f"{n:.0f} B"


def report(target: str, cold: Mapping[str, Any] | None, warm: Mapping[str, Any]) -> str:
    shown = warm["arguments"][:8] + ([f"and {len(warm['arguments']) - 8} more"] if len(warm["arguments"]) > 8 else [])
    lines = [f"{target}, {warm['how']}, {warm['threads']} threads; arguments: {', '.join(shown) or 'none'}"]
    columns = [("cold cache", cold), ("warm cache", warm)] if cold is not None else [("", warm)]
    lines.append(row("first call", "".join(f"{head:>14}" for head, _ in columns)).rstrip())
    for part in ("trace", "compile", "run", "total"):
        if part in warm["first"]:
            lines.append(f"  {part:20}" + "".join(f"{seconds(w['first'][part]):>14}" for _, w in columns if w is not None))
    stages = {n.partition("/")[2]: s for n, s in (cold or warm)["first"].items() if "/" in n}
    if stages:
        lines.append(f"  {'of compile' + (', cold' if cold else ''):20}  " + ", ".join(f"{n} {seconds(s)}" for n, s in stages.items()))
    s = warm["steady"]
    low, high = s["quartiles"]
    lines.append(
        row("each call", f"median {seconds(s['median'])}, quartiles {seconds(low)} to {seconds(high)}, fastest {seconds(s['fastest'])}")
    )
    lines.append(row("", f"{s['batches']} batches of {s['calls']} calls; a call that is waited for: {seconds(s['alone'])}"))
    spread = (high - low) / s["median"]
    if spread > UNSTEADY:
        lines.append(row("", f"the quartiles are {spread:.0%} of the median apart: is the machine busy? (load {os.getloadavg()[0]:.1f})"))
    if "work" in warm:
        lines += _work(warm)
    r = warm["resident"]
    lines.append(row("resident", f"{size(r['peak'] - r['before'])} more than before at most; the process {size(r['process'])}"))
    return "\n".join(lines)


def row(label: str, text: str) -> str:
    return f"{label:22}{text}"


def _work(found: Mapping[str, Any]) -> list[str]:
    w = found["work"]
    parts = [f"arguments {size(w['arguments'])}", f"results {size(w['results'])}", f"temporary {size(w['temporary'])}"]
    if w["captured"]:
        parts.insert(1, f"captured {size(w['captured'])}")
    if w["shared"]:
        parts.append(f"{size(w['shared'])} of the results in arguments' memory")
    plural = {"copy": "copies", "branch": "branches"}
    made = ", ".join(f"{n} {kind if n == 1 else plural.get(kind, kind + 's')}" for kind, n in w["statements"].items() if n)
    moved = f"{size(w['read'])} read, {size(w['written'])} written"
    lines = [
        row("memory", f"{', '.join(parts)}: {size(w['peak'])} in all"),
        row("work", f"{w['flops']:.4g} operations, {moved}; {made or 'nothing to do'}"),
    ]
    limit = found.get("limits")
    if limit and 0 < limit["least"] < CALL_S:
        lines.append(row("limit", "there is so little to do that the time is that of a call"))
    elif limit and limit["least"]:
        part = limit["least"] / found["steady"]["median"]
        lines.append(row("limit", f"{seconds(limit['least'])}: the call reaches {part:.0%} of what this machine can do"))
        if "bandwidth" in limit:
            speed = f"{size(limit['bandwidth'])}/s, measured for this mix of reads and writes"
            lines.append(row("", f"{limit['of bandwidth']:.0%} of {speed}"))
        if "flops" in limit:
            speed = f"{limit['flops'] / 1e9:.0f} GFLOP/s, the measured peak of multiply-adds in {limit['dtype']}"
            lines.append(row("", f"{limit['of flops']:.0%} of {speed}"))
    return lines


# the command


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="steno bench", description="Times a function of a file: first call, steady state, memory, part of the machine's limit.",
        epilog=HELP, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("target", metavar="FILE:FUNCTION")
    parser.add_argument("--args", metavar="NAME", help="the function of FILE that gives the arguments")
    parser.add_argument("--eager", action="store_true", help="call the function as it is, without jit")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long to measure the steady state (default: 1)")
    parser.add_argument("--threads", type=int, default=0, help="threads of compiled programs (default: all)")
    parser.add_argument("--no-cold", dest="cold", action="store_false", help="leave the first call with a cold cache out")
    parser.add_argument("--no-limits", dest="limits", action="store_false", help="do not measure the machine's limits")
    parser.add_argument("--json", metavar="PATH", help="write everything that was measured to a file, too")
    parser.add_argument("--measure", choices=("first", "all"), help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    o = parser.parse_args(argv)
    if o.seconds <= 0 or o.threads < 0:
        parser.error("--seconds must be above 0, --threads 0 or more")
    if o.measure:
        return _child(o)
    with tempfile.TemporaryDirectory(prefix="steno-bench-") as folder:
        found: list[Any] = []
        for what in ("first", "all") if o.cold else ("all",):
            out = os.path.join(folder, f"{what}.json")
            cache = {"STENO_CACHE_DIR": os.path.join(folder, "cache")} if o.cold else {}
            child = [sys.executable, "-m", "steno.bench", *(sys.argv[1:] if argv is None else argv), "--measure", what, "--out", out]
            package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
            paths = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
            status = subprocess.run(child, env=os.environ | cache | {"PYTHONPATH": paths}).returncode
            if status:
                return status if status > 0 else 1
            found.append(json.loads(Path(out).read_text()))
    cold, warm = (found[0], found[1]) if o.cold else (None, found[0])
    print(report(o.target, cold, warm))
    if o.json:
        Path(o.json).write_text(json.dumps({"target": o.target, "cold": cold, "warm": warm}, indent=1))
    return 0


def _child(o: argparse.Namespace) -> int:
    try:
        found = measure(o)
    except Refused as err:
        return _say(str(err))
    except Failed as err:
        cause = err.__cause__
        tb = None if cause is None else cause.__traceback__
        while tb is not None and os.path.abspath(tb.tb_frame.f_code.co_filename) != err.path:
            tb = tb.tb_next
        traceback.print_exception(type(cause), cause, tb)
        hint = "; --eager times it without jit" if "under jit" in str(err) else ""
        return _say(f"the error above came from {err}{hint}")
    Path(o.out).write_text(json.dumps(found))
    return 0


def _say(text: str) -> int:
    print(f"steno bench: {text}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
