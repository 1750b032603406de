"""How near kernels come to what the machine can do: products to its peak of multiply-adds, passes over memory to its bandwidth.

    python benchmarks/roofline.py [--threads 1,2] [--only PART] [--seconds 0.3] [--json PATH]

The limits are measured here (`steno.limits`): multiply-adds in registers, and passes that read and write as many bytes as the kernel does
at least, in the same proportion. Runs of a kernel and of its limit take turns, and the medians of both are compared: the clock of a
processor, and what is left of a busy machine, change from second to second by more than what is to be seen here.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import steno
import steno.numpy as snp
from steno import _native, limits, nn

Function = Callable[..., Any]
PRODUCTS = (64, 128, 256, 384, 512, 768, 1024, 1536, 2048)
MIXES = {"read": (1, 0), "write": (0, 1), "read 1, write 1": (1, 1), "read 2, write 1": (2, 1)}
LARGE = 40_000_000


def normal(*shape: int) -> Any:
    return snp.asarray(np.random.default_rng(0).standard_normal(shape, dtype=np.float32))


def softmax(x: Any) -> Any:
    e = snp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x: Any, g: Any, b: Any) -> Any:
    m = x.mean(-1, keepdims=True)
    return (x - m) / snp.sqrt(((x - m) ** 2).mean(-1, keepdims=True) + 1e-5) * g + b


def passes() -> dict[str, tuple[Function, tuple[Any, ...]]]:
    """Kernels that are bound by memory, and arguments out of the caches' reach; and the same where a large cache holds the arguments, so
    that its speed is the limit."""
    long = normal(10_000_000)
    out: dict[str, tuple[Function, tuple[Any, ...]]] = {
        "copy": (lambda x: snp.array(x, copy=True), (long,)),
        "axpy": (lambda x, y: 2.0 * x + y, (long, normal(10_000_000))),
        "sum": (lambda x: x.sum(), (long,)),
        "gelu": (lambda x: nn.gelu(x), (long,)),
    }
    for size, note in ((16384, ""), (2048, ", cached")):
        rows = normal(size, 1024)
        out |= {
            f"sum of columns{note}": (lambda x: x.sum(0), (rows,)),
            f"variance of rows{note}": (lambda x: x.var(1), (rows,)),
            f"softmax{note}": (softmax, (rows,)),
            f"layer norm{note}": (layer_norm, (rows, snp.ones(1024), snp.zeros(1024))),
            f"transpose{note}": (lambda x: x.T + 1.0, (rows,)),
            f"matrix-vector{note}": (lambda a, x: a @ x, (rows, normal(1024))),
        }
    return out


def medians(f: Function, args: tuple[Any, ...], limit: limits.Limit, seconds: float) -> tuple[float, float]:
    """Seconds of a run, the results waited for, and of one of its limit, in turns, each after untimed ones, so that neither pays for what
    the other left in the caches. Short runs are timed several at once."""
    call = steno.jit(f)

    def run(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            steno.block_until_ready(call(*args))
        return (time.perf_counter() - start) / count

    def run_limit() -> float:
        start = time.perf_counter()
        limit.run()
        return time.perf_counter() - start

    run(2)
    run_limit()
    count = max(1, round(run_limit() / run(3)))
    times: list[tuple[float, float]] = []
    end = time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        run(8)
        taken = run(count)
        for _ in range(8):
            run_limit()
        times.append((taken, run_limit()))
    return statistics.median(t for t, _ in times), statistics.median(u for _, u in times)


def bytes_of(f: Function, args: tuple[Any, ...]) -> tuple[int, int]:
    """What a kernel must read and write at least."""
    m = steno.jit(f).lower(*args).compile().memory_analysis()
    return m.argument_size_in_bytes, m.output_size_in_bytes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", default="1,2", help="numbers of threads, with commas between")
    parser.add_argument("--only", choices=("limits", "products", "passes"), help="one part")
    parser.add_argument("--seconds", type=float, default=0.3, help="for each measurement")
    parser.add_argument("--json", help="a file for what was measured")
    o = parser.parse_args()
    counts = [n for n in map(int, o.threads.split(",")) if n <= (os.cpu_count() or 1)]
    out: dict[str, Any] = {"limits": {}, "products": {}, "passes": {}}
    for n in counts:
        _native.set_num_threads(n)
        title = f"{n} thread{'s' if n > 1 else ''}"
        peak = limits.peak_flops("float32", n)
        found = out["limits"][n] = {"float32": peak, "float64": limits.peak_flops("float64", n)}
        if o.only in (None, "limits"):
            print(f"{title}: peak {peak / 1e9:.1f} GFLOP/s in float32, {found['float64'] / 1e9:.1f} in float64")
            for name, (r, w) in MIXES.items():
                found[name] = limits.bandwidth(r * LARGE, w * LARGE, n)
                print(f"  {name:22}{found[name] / 1e9:10.1f} GB/s on arrays of {LARGE // 10**6} MB", flush=True)
        if o.only in (None, "products"):
            print(f"{title}: products of float32 matrices\n  {'n':>22}{'us':>12}{'GFLOP/s':>10}{'limit':>10}{'of limit':>10}")
            for size in PRODUCTS:
                limit = limits.multiply_adds("float32")
                t, u = medians(lambda a, b: a @ b, (normal(size, size), normal(size, size)), limit, o.seconds)
                speed, top = 2 * size**3 / t, limit.amount / u
                out["products"].setdefault(n, {})[size] = speed / top
                print(f"  {size:>22}{t * 1e6:12.1f}{speed / 1e9:10.1f}{top / 1e9:10.1f}{speed / top:10.0%}", flush=True)
        if o.only in (None, "passes"):
            print(f"{title}: passes over memory\n  {'kernel':22}{'us':>12}{'GB/s':>10}{'limit':>10}{'of limit':>10}")
            for name, (f, args) in passes().items():
                read, written = bytes_of(f, args)
                limit = limits.passes(read, written, n)
                t, u = medians(f, args, limit, o.seconds)
                speed, top = (read + written) / t, limit.amount / u
                out["passes"].setdefault(n, {})[name] = speed / top
                print(f"  {name:22}{t * 1e6:12.1f}{speed / 1e9:10.1f}{top / 1e9:10.1f}{speed / top:10.0%}", flush=True)
    _native.set_num_threads(0)
    if o.json:
        Path(o.json).write_text(json.dumps(out, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
