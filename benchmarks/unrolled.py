"""Seconds to trace, lower and compile unrolled programs, and how they grow with the program.

    python benchmarks/unrolled.py [--sizes 1000 3000] [--profile] [name ...]

Work linear in the length of a program makes the ratio of sizes; `--profile` lists the functions whose calls or time grow faster."""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import steno
import steno.numpy as snp

X = np.linspace(0.1, 0.9, 64, dtype=np.float32)
M = np.full((8, 8), 0.1, np.float32)


def chain(n: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Elementwise ops, each of the one before."""

    def f(x: Any) -> Any:
        for k in range(n // 2):
            x = snp.sin(x) * (1.0 + 1e-3 * k)
        return x

    return f, (X,)


def tree(n: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Elementwise ops of values used more than once."""

    def f(x: Any) -> Any:
        y = x
        for _ in range(n // 3):
            x, y = x + y, x * y - 0.5
        return x + y

    return f, (X,)


def reductions(n: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def f(x: Any) -> Any:
        for _ in range(n // 4):
            x = x - snp.sum(x) * 0.01
        return x

    return f, (X,)


def products(n: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def f(x: Any, m: Any) -> Any:
        for _ in range(n // 2):
            x = snp.tanh(m @ x)
        return x

    return f, (X[:8], M)


def indexing(n: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def f(x: Any) -> Any:
        for k in range(n // 6):
            x = x.at[k % 64].set(x[(7 * k) % 64] + x[1])
        return x

    return f, (X,)


def slices(n: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def f(x: Any) -> Any:
        for _ in range(n // 4):
            x = snp.concatenate([x[32:], x[:32] * 1.5])
        return x

    return f, (X,)


def outputs(n: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Many small results."""
    return lambda x: [snp.sum(x * k) for k in range(n // 2)], (X,)


def calls(n: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A jitted function, called again and again."""
    step = steno.jit(lambda x: snp.sin(x) * 2.0 + snp.sum(x))

    def f(x: Any) -> Any:
        for _ in range(n // 4):
            x = step(x)
        return x

    return f, (X,)


def gradient(n: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Reverse mode through n ops."""
    f, args = chain(n)
    return steno.grad(lambda x: snp.sum(f(x))), args


def batched(n: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    f, _ = products(n)
    return steno.vmap(f, (0, None)), (np.stack([X[:8]] * 3), M)


PROGRAMS = [chain, tree, reductions, products, indexing, slices, outputs, calls, gradient, batched]


def stages(make: Callable[..., Any], n: int, profile: cProfile.Profile | None = None) -> tuple[float, float, int]:
    """Seconds to trace and to compile, and how many equations there are."""
    f, args = make(n)
    gc.collect()
    if profile:
        profile.enable()
    start = time.perf_counter()
    traced = steno.jit(f).trace(*args)
    middle = time.perf_counter()
    traced.lower().compile()
    end = time.perf_counter()
    if profile:
        profile.disable()
    return middle - start, end - middle, len(traced.jaxpr.eqns)


def growth(make: Callable[..., Any], small: int, large: int) -> None:
    """The functions that cost most of what the larger program costs more than in proportion."""
    tables = []
    for n in (small, large):
        profile = cProfile.Profile()
        stages(make, n, profile)
        tables.append(pstats.Stats(profile).stats)
    factor = large / small
    rows = []
    for key, (_, calls_, own, total, _) in tables[1].items():
        before = tables[0].get(key, (0, 0, 0.0, 0.0, {}))
        rows.append((own - factor * before[2], calls_, calls_ / max(before[1], 1), own, own / max(before[2], 1e-9), total, key))
    for excess, calls_, more, own, slower, total, (file, line, name) in sorted(rows, reverse=True)[:14]:
        times = f"{excess:+7.3f} s  {own:7.3f} s own x{slower:<6.1f} {total:7.3f} s in all"
        print(f"    {times}  {calls_:9} calls x{more:<5.1f}  {file}:{line} {name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=", ".join(p.__name__ for p in PROGRAMS))
    parser.add_argument("--sizes", nargs=2, type=int, default=[1000, 3000])
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    small, large = options.sizes
    print(f"{'':12} {'equations':>13} {'trace':>15} {'compile':>17} {'ratio':>6}")
    stages(chain, 10)
    for make in PROGRAMS:
        if options.names and make.__name__ not in options.names:
            continue
        a, b = stages(make, small), stages(make, large)
        ratio = sum(b[:2]) / sum(a[:2])
        print(f"{make.__name__:12} {a[2]:6} {b[2]:6} {a[0]:7.3f} {b[0]:7.3f} {a[1]:8.3f} {b[1]:8.3f} {ratio:6.2f}", flush=True)
        if options.profile:
            growth(make, small, large)


if __name__ == "__main__":
    main()
