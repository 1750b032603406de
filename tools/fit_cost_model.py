"""Measures this machine and prints the constants of src/steno/compiler/cost.py with what they were fitted to.

    python tools/fit_cost_model.py [--seconds 0.1] [--only PART] [--write]

Parts: kernels, calls, libraries, threads, queue, weights. On an idle machine; `--write` puts the values into the file. The constants of a
file that is there are what the programs are compiled by meanwhile, unless a part says otherwise.
"""

from __future__ import annotations

import argparse
import math
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

import steno  # noqa: E402  found by the line above
import steno.numpy as snp  # noqa: E402
from steno import _native, lax  # noqa: E402
from steno.compiler import cost  # noqa: E402

FILE = ROOT / "src" / "steno" / "compiler" / "cost.py"
SECONDS, NEVER = 0.1, 1e15
Found = dict[str, tuple[float, str]]
"""constant -> value, and what it was measured on"""


@contextmanager
def constants(**values: float) -> Iterator[None]:
    """Compiles by other constants; nothing that was compiled before is used."""
    before = {n: getattr(cost, n) for n in values}
    steno.clear_caches()
    for n, v in values.items():
        setattr(cost, n, v)
    try:
        yield
    finally:
        for n, v in before.items():
            setattr(cost, n, v)
        steno.clear_caches()


@contextmanager
def threads(n: int) -> Iterator[None]:
    before = _native.swap_thread_limit(n)
    try:
        yield
    finally:
        _native.swap_thread_limit(before)


def normal(*shape: int, seed: int = 0, dtype: str = "float32") -> Any:
    return snp.asarray(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


def executable(f: Callable[..., Any], *args: Any) -> Any:
    return steno.jit(f).lower(*args).compile().runtime_executable()


def nanoseconds(f: Callable[..., Any], *args: Any) -> float:
    """Of a run, without the dispatch: the fastest of many, called until some time has passed."""
    run = executable(f, *args)
    return best(lambda: steno.block_until_ready(run.run(args)))


def best(call: Callable[[], Any]) -> float:
    call()
    least, end = math.inf, time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - start)
    return least * 1e9


def overhead() -> float:
    """Of a run of next to nothing."""
    return nanoseconds(lambda x: x + 1, snp.float32(1.0))


# kernels: a scalar operation, a byte


def _polynomial(degree: int) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        y = x
        for _ in range(degree):
            y = y * x + 0.5
        return y

    return f


def kernels() -> Found:
    """OPERATION_NS and BYTE_NS, by least squares over relative errors: chains of multiplications and additions of several lengths on arrays
    near the caches' sizes; FOLDED, ORDERED_NS and COPY_BYTE_NS as ratios and rests against them."""
    rows, times, least = [], [], overhead()
    with threads(1), constants(PARALLEL_NS=NEVER, HEAVY_NS=NEVER):
        for n in (1 << 14, 1 << 16, 1 << 18, 1 << 20):  # where decisions fall
            x = normal(n)
            for degree in (1, 4, 16, 32):
                f = _polynomial(degree)
                rows.append((2.0 * degree * n, 8.0 * n))
                times.append(max(nanoseconds(f, x) - least, 1.0))
        a = np.array(rows) / np.array(times)[:, None]
        fitted = _not_negative(a)
        error = np.abs(a @ fitted - 1).mean()
        where = f"{len(times)} kernels of 2 to 64 operations on 64 kB to 4 MB; mean error {error:.0%}"
        x, y = normal(1 << 22), normal(2048, 2048)
        stored = nanoseconds(lambda x: x * 2, x)
        folded = [nanoseconds(lambda x: x.sum(), x), nanoseconds(lambda x: x.sum(1), y), nanoseconds(lambda x: x.max(0), y)]
        z = normal(1 << 16)
        positions = snp.asarray(np.random.default_rng(0).integers(0, 1000, z.size).astype(np.int32))
        ordered = [
            nanoseconds(lambda x: snp.cumsum(x), z) / z.size,
            nanoseconds(lambda x, i: snp.zeros(1000).at[i].add(x), z, positions) / z.size,
        ]
        copied = nanoseconds(lambda x: (x, x.at[0].set(1.0))[1], x) / x.nbytes
    return {
        "OPERATION_NS": (float(fitted[0]), where),
        "BYTE_NS": (float(fitted[1]), where),
        "FOLDED": (statistics.median(folded) / stored, "sum, sum of rows and max of columns of 4M float32 against 2 * x"),
        "ORDERED_NS": (statistics.median(ordered), "cumsum and scatter-add of 65536 float32"),
        "COPY_BYTE_NS": (copied, "a copy of 16 MB, one thread"),
    }


def _not_negative(a: np.ndarray) -> np.ndarray:
    """Least squares of a x = 1 with x >= 0, for two unknowns."""
    x = np.linalg.lstsq(a, np.ones(len(a)), rcond=None)[0]
    if (x >= 0).all():
        return x
    k = int(x.argmax())
    out = np.zeros(2)
    out[k] = a[:, k].sum() / (a[:, k] ** 2).sum()
    return out


# calls


def calls() -> Found:
    def loop(n: int) -> Callable[[Any], Any]:  # whose body is a function of its own, with a call inside
        return lambda x: lax.fori_loop(0, n, lambda i, x: snp.sort(x), x)

    def body(x: Any) -> Any:
        return lax.fori_loop(0, 1000, lambda i, x: x[::-1] * 0.5, x)

    x = normal(2)
    with threads(1):
        sorts = (nanoseconds(loop(2000), x) - nanoseconds(loop(1000), x)) / 1000
        nested = nanoseconds(body, normal(16)) / 1000
    return {
        "CALL_NS": (nested, "an iteration of a loop over an array of 16 float32"),
        "LIBRARY_NS": (sorts, "a sort of two numbers in a loop"),
    }


# libraries


def libraries() -> Found:
    """Nanoseconds for an operation, as the ops' records count them, on one thread."""
    n = 512
    with threads(1), constants(HEAVY_NS=NEVER):
        image, weights = normal(8, 32, 32, 64), normal(3, 3, 64, 64)

        def conv(x: Any, w: Any) -> Any:
            return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

        spd = normal(n, n) @ normal(n, n).T + n * snp.eye(n)
        cases: list[tuple[str, str, Callable[..., Any], Sequence[Any], str]] = [
            ("steno_gemm", "float32", lambda a, b: a @ b, (normal(n, n), normal(n, n)), f"a product of {n} x {n}"),
            ("steno_gemm", "None", lambda a, b: a @ b, (normal(96, 96).astype("int32"),) * 2, "a product of 96 x 96 int32"),
            ("steno_conv", "float32", conv, (image, weights), "8 images of 32 x 32 x 64, 64 filters of 3 x 3"),
            (
                "steno_fft",
                "float32",
                lambda x: lax.fft(x, "fft", (4096,)),
                (normal(64, 4096).astype("complex64"),),
                "64 transforms of 4096",
            ),
            ("steno_sort", "float32", lambda x: snp.sort(x), (normal(1 << 18),), "a sort of 262144"),
            ("steno_sort", "None", lambda x: snp.argsort(x), (normal(1 << 18),), "an argsort of 262144"),
            ("steno_top_k", "None", lambda x: lax.top_k(x, 10), (normal(1000, 1000),), "the 10 greatest of 1000, 1000 times"),
            ("LAPACK_OPERATION_NS", "", lambda a: lax.linalg.cholesky(a), (spd,), f"the Cholesky factor of {n} x {n}"),
            ("LAPACK_OPERATION_NS", "", lambda a: lax.linalg.qr(a), (normal(n, n),), f"QR of {n} x {n}"),
        ]
        found: dict[str, list[tuple[float, str]]] = {}
        for symbol, dtype, f, args, what in cases:
            operations = steno.jit(f).lower(*args).compile().cost_analysis()["flops"]
            name = f"LIBRARY_OPERATION_NS[{symbol!r}][{dtype if dtype == 'None' else repr(dtype)}]" if dtype else symbol
            found.setdefault(name, []).append((nanoseconds(f, *args) / operations, what))
    return {n: (statistics.geometric_mean(t for t, _ in pairs), ", ".join(w for _, w in pairs)) for n, pairs in found.items()}


# threads


def hand_over() -> list[tuple[float, float, float]]:
    """(time on one thread, on two, on two when the second sleeps) of kernels of rising work, in nanoseconds."""
    out = []
    for n in (1 << 13, 1 << 14, 1 << 15, 1 << 16, 1 << 17):
        x, f = normal(n), _polynomial(16)
        with constants(PARALLEL_NS=NEVER, HEAVY_NS=NEVER), threads(1):
            one = nanoseconds(f, x)
        with constants(PARALLEL_NS=1.0, HEAVY_NS=NEVER), threads(2):
            run = executable(f, x)
            awake = best(lambda run=run, x=x: run.run((x,)))
            asleep = []
            for _ in range(200):
                time.sleep(0.0005)
                start = time.perf_counter()
                run.run((x,))
                asleep.append((time.perf_counter() - start) * 1e9)
        out.append((one, awake, statistics.median(asleep)))
    return out


def parallel() -> Found:
    """Two threads gain where  t / 2 + hand-over < t,  that is from twice the hand-over on; a kernel is split from where they gain a third,
    the hand-over being the mean of that to a thread that spins and that to one that sleeps."""
    measured = hand_over()
    awake = statistics.median(two - one / 2 for one, two, _ in measured)
    asleep = statistics.median(two - one / 2 for one, _, two in measured)
    over = max((awake + asleep) / 2, 0.0)
    even = next((one for one, two, _ in measured if two < one), math.inf)
    what = f"hand-over {awake / 1e3:.1f} us to a thread that spins, {asleep / 1e3:.1f} to one that sleeps"
    return {"PARALLEL_NS": (6 * over, f"{what}; two threads win from {even / 1e3:.0f} us")}


def queue() -> Found:
    """What the caller pays to have a run queued, against the run: a tenth to a quarter of it."""
    x = normal(1 << 20)
    with constants(HEAVY_NS=0.0):
        run = executable(_polynomial(64), x)
        times = []
        for _ in range(100):
            time.sleep(0.001)  # the queue's thread sleeps
            start = time.perf_counter()
            out = run.run((x,))
            times.append((time.perf_counter() - start) * 1e9)
            steno.block_until_ready(out)
    wake = statistics.median(times)
    return {"HEAVY_NS": (4 * wake, f"the call of a run that is queued returns after {wake / 1e3:.1f} us")}


# weights


def weights() -> Found:
    """Of slow operations against an addition, on data in the first-level cache; STORE and LOAD by the fitted BYTE_NS."""
    x, n = normal(4096) ** 2 + 1.0, 24
    with threads(1), constants(HEAVY_NS=NEVER):
        least = overhead()

        def chain(step: Callable[[Any], Any]) -> float:
            def f(x: Any) -> Any:
                for _ in range(n):
                    x = step(x)
                return x

            return max(nanoseconds(f, x) - least, 1.0)

        added = chain(lambda y: y + x)
        out: Found = {}
        for name, step in {"div": lambda y: y / x, "sqrt": lambda y: lax.sqrt(y), "rem": lambda y: lax.rem(y, x)}.items():
            out[f"WEIGHT[{name!r}]"] = (chain(step) / added, f"a chain of {n} on 4096 float32, against additions")
    return out


PARTS: dict[str, Callable[[], Found]] = {
    "kernels": kernels, "calls": calls, "libraries": libraries, "threads": parallel, "queue": queue, "weights": weights,
}  # fmt: skip


def rounded(x: float) -> float:
    """Two digits: more would be noise."""
    if not math.isfinite(x) or x == 0:
        return x
    return round(x, 1 - math.floor(math.log10(abs(x))))


def present(name: str) -> Any:
    base, *keys = re.findall(r"^\w+|'[^']+'|None", name)
    value = getattr(cost, base)
    for k in keys:
        value = value[None if k == "None" else k.strip("'")]
    return value


def write(found: Found) -> None:
    text = FILE.read_text()
    for name, (value, _) in found.items():
        text = replaced(text, name, rounded(value))
    FILE.write_text(text)


def replaced(text: str, name: str, value: float) -> str:
    """The text of the file with another value of a constant, or of one item of a table. ValueError if it is not there."""
    base, *keys = re.findall(r"^\w+|'[^']+'|None", name)
    number = f"{value:_}" if value >= 1e4 else repr(value)
    at = re.search(rf"^{base}\b[^\n]*?=", text, re.MULTILINE)
    if at is None:
        raise ValueError(f"{FILE.name} has no constant {base}")
    begin = at.end()
    for k in keys:
        item = re.compile(re.escape(k.replace("'", '"')) + ":")
        found = item.search(text, begin)
        if found is None:
            raise ValueError(f"{base} has no item {k}")
        begin = found.end()
    old = re.compile(r"\s*[\d_.e+-]+").match(text, begin)
    if old is None:
        raise ValueError(f"{name} is no number in {FILE.name}")
    return f"{text[:begin]} {number}{text[old.end() :]}"


def main() -> int:
    global SECONDS
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each measurement")
    parser.add_argument("--only", choices=sorted(PARTS), help="one part")
    parser.add_argument("--write", action="store_true", help="put the values into cost.py")
    o = parser.parse_args()
    SECONDS = o.seconds
    steno.config.update("jax_enable_compilation_cache", False)  # which does not know of the constants that are tried
    found: Found = {}
    print(f"{'constant':50}{'present':>12}{'measured':>12}   on")
    for name in [o.only] if o.only else PARTS:
        for constant, (value, what) in PARTS[name]().items():
            found[constant] = value, what
            print(f"{constant:50}{present(constant):>12g}{rounded(value):>12g}   {what}", flush=True)
    if o.write:
        write(found)
        print(f"written to {FILE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
