"""Times that show which loops write in place: n rows written into arrays of N, 10 N and 100 N rows.

    python benchmarks/in_place.py [part of a name ...]

`donated`: the array is given away, so a loop that writes in place takes the same time whatever the size. `kept`: one copy of the array is
made before the loop; the first line is the time of one pass over the array. A line ends with `grows` where the time beyond a few passes
depends on the size.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import steno
import steno.numpy as snp
from steno import lax

WRITES, COLUMNS = 500, 16
SIZES = (1_000, 10_000, 100_000)
REPEAT = 5
Step = Callable[[Any, Any], Any]


def place(x: Any, i: Any) -> Any:
    return i * 7919 % x.shape[0]


def row_of(i: Any) -> Any:
    return snp.full((1, COLUMNS), i, snp.float32)


STEPS: dict[str, Step] = {
    "set": lambda x, i: x.at[place(x, i)].set(i * 1.0),
    "add": lambda x, i: x.at[place(x, i)].add(i * 1.0),
    "dynamic_update_slice": lambda x, i: lax.dynamic_update_slice(x, row_of(i), (place(x, i), 0)),
    "set of what was read": lambda x, i: x.at[place(x, i)].set(x[place(x, i + 1)] * 0.5 + 1),
    "two updates": lambda x, i: x.at[place(x, i)].add(1.0).at[place(x, i + 3)].max(x[place(x, i + 1)]),
}

BRANCHES: dict[str, Callable[[Step], Step]] = {
    "": lambda step: step,
    "cond, ": lambda step: lambda x, i: lax.cond(i % 2 == 0, step, lambda x, i: x, x, i),
    "cond on a row, ": lambda step: lambda x, i: lax.cond(x[place(x, i), 0] < 1e9, step, lambda x, i: step(x, i + 1), x, i),
    "switch, ": lambda step: lambda x, i: lax.switch(i % 3, [step, lambda x, i: x, lambda x, i: step(step(x, i), i + 1)], x, i),
}

LOOPS: dict[str, Callable[[Step], Callable[[Any], Any]]] = {
    "scan": lambda step: lambda x: lax.scan(lambda x, i: (step(x, i), None), x, snp.arange(WRITES))[0],
    "fori_loop": lambda step: lambda x: lax.fori_loop(0, WRITES, lambda i, x: step(x, i), x),
    "while_loop": lambda step: lambda x: lax.while_loop(lambda s: s[0] < WRITES, lambda s: (s[0] + 1, step(s[1], s[0])), (0, x))[1],
}


def stacked(x: Any) -> Any:
    """A scan that reads rows and gives as many: its results are as long as it is, whatever it reads from."""
    return lax.scan(lambda c, i: (c + 1, x[place(x, i)] * 2), 0, snp.arange(WRITES))[1]


def batched(x: Any) -> Any:
    def each(x: Any, k: Any) -> Any:
        return lax.fori_loop(0, WRITES, lambda i, x: x.at[place(x, i * k)].add(1.0), x)

    return steno.vmap(each)(x.reshape(4, -1, COLUMNS), snp.arange(4)).reshape(x.shape)


def gradient(x: Any) -> Any:
    """The gradient in an array of which each iteration reads a row: it adds one row in the backward pass."""
    return steno.grad(lambda x: lax.scan(lambda s, i: (s + (x[place(x, i)] ** 2).sum(), None), 0.0, snp.arange(WRITES))[0])(x)


def gradient_of_writes(x: Any) -> Any:
    def loss(x: Any) -> Any:
        return lax.scan(lambda x, i: (x.at[place(x, i)].set(x[place(x, i + 1)] * 2), None), x, snp.arange(WRITES))[0].sum()

    return steno.grad(loss)(x)


def programs() -> Iterator[tuple[str, Callable[[Any], Any], bool]]:
    """Name, function, and whether it makes an array of its argument's size even if that is donated."""
    for loop, make in LOOPS.items():
        for branch, around in BRANCHES.items():
            for name, step in STEPS.items():
                yield f"{loop}: {branch}{name}", make(around(step)), False
    yield "scan: stacked results", stacked, False
    yield "vmap of fori_loop: add", batched, False
    yield "grad of scan that reads rows", gradient, True
    yield "grad of scan that writes rows", gradient_of_writes, True


def best(f: Callable[[Any], Any], rows: int) -> float:
    """Microseconds of a call on an array that nobody else holds."""
    times = []
    for _ in range(REPEAT + 1):
        x = steno.block_until_ready(snp.full((rows, COLUMNS), 0.25))
        start = time.perf_counter()
        steno.block_until_ready(f(x))
        times.append(time.perf_counter() - start)
    return min(times[1:]) * 1e6


def main(wanted: list[str]) -> None:
    copies = [best(steno.jit(lambda x: x + 1), n) for n in SIZES]
    print(f"{WRITES} writes of {COLUMNS} float32; microseconds for arrays of {', '.join(map(str, SIZES))} rows")
    print(f"{'one pass over the array':52}{'':10}" + "".join(f"{t:10.1f}" for t in copies))
    for name, f, makes in programs():
        if wanted and not any(w in name for w in wanted):
            continue
        for kind, options in (("donated", {"donate_argnums": 0}), ("kept", {})):
            times = [best(steno.jit(f, **options), n) for n in SIZES]
            passes = 8 if makes else 4 if kind == "kept" else 1  # pages of fresh memory count, too
            grows = times[-1] - passes * copies[-1] > 3 * times[0] + 50
            print(f"{name:52}{kind:10}" + "".join(f"{t:10.1f}" for t in times) + ("   grows" if grows else ""), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
