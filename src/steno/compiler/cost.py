"""What work costs, and from how much of it on another way of doing it pays: nanoseconds on one thread, roughly.

`tools/fit_cost_model.py` measures every constant and can write the values into this file (docs/benchmarking.md). Those here were set by
hand, from measurements on two cores of a Xeon with AVX-512 that were busy with other work. None of them changes a result: a reduction's
order does not depend on threads or vectors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

# A kernel: an element takes this for each scalar operation and each byte that is loaded or stored.
OPERATION_NS = 0.04
BYTE_NS = 0.06
FOLDED = 0.6  # an element that is folded away against one that is stored
ORDERED_NS = 1.0  # an element of what runs in order: updates, running folds
COPY_BYTE_NS = 0.1

# Calls: of a nested program, of a library.
CALL_NS = 20.0
LIBRARY_NS = 1000.0
PRESUMED_ITERATIONS = 100  # of a loop that ends when a test says so

# An operation of a library function, by the dtype that is computed with (None: any other). What the ops' records count (`Op.cost`).
LIBRARY_OPERATION_NS: dict[str, dict[str | None, float]] = {
    "steno_gemm": {"float32": 0.008, "float64": 0.016, None: 0.5},
    "steno_conv": {"float32": 0.012, "float64": 0.024, None: 0.5},
    "steno_fft": {"float32": 0.1, "float64": 0.2, None: 0.2},
    "steno_sort": {"float32": 0.4, None: 0.7},
    "steno_top_k": {None: 1.5},
}
LAPACK_OPERATION_NS = 0.12

# Two threads pay from here on: below, a kernel or a copy is not split. The pool's hand-over takes some microseconds.
PARALLEL_NS = 20_000.0
# A run pays to be queued from here on: to wake the queue's thread takes 12 to 15 microseconds of the caller's.
HEAVY_NS = 50_000.0
# Optimisation by LLVM takes some milliseconds a kernel: not worth it below these, for ops that run once and for programs.
QUICK_NS, TINY_NS = 10_000.0, 100.0

# In scalar operations of a kernel: to store an element that is computed elsewhere anyway, to load it, and of operations that are slower
# than an addition.
STORE, LOAD = 2.0, 1.0
WEIGHT = {"const": 0.0, "load": 0.0, "index": 0.5, "local": 0.0, "elt": 0.0, "acc": 0.0, "div": 6.0, "sqrt": 6.0, "rem": 20.0}


def element_ns(operations: float, moved: float) -> float:
    """An element of a kernel: `operations` by WEIGHT, and bytes loaded and stored."""
    return OPERATION_NS * operations + BYTE_NS * moved


def library_ns(symbol: str, operations: float, sizes: Sequence[tuple[Any, int]]) -> float:
    """A library call on arrays of these (dtype, size); it is bound by its operations or by memory."""
    rates = LIBRARY_OPERATION_NS.get(symbol)
    if rates is None:
        rate = LAPACK_OPERATION_NS
    else:
        dtype = sizes[0][0].name if sizes else None
        rate = rates.get(dtype, rates[None])
    return LIBRARY_NS + max(rate * operations, BYTE_NS * math.fsum(d.itemsize * n for d, n in sizes))


def copy_ns(nbytes: int) -> float:
    return nbytes * COPY_BYTE_NS


def is_for_threads(ns: float) -> bool:
    return ns >= PARALLEL_NS


def grain(units: int, ns: float) -> int | None:
    """The least number of `units` that is worth a thread, of work that takes `ns` in all; None: it is not worth a second thread."""
    return None if units <= 1 or not is_for_threads(ns) else units_for_a_thread(ns / units)


def units_for_a_thread(ns: float) -> int:
    """The least number of units that is worth a thread if each takes `ns`."""
    return max(1, int(PARALLEL_NS / 2 / ns))


def is_heavy(ns: float) -> bool:
    """Whether a program is queued, or else releases the GIL while it runs."""
    return ns > HEAVY_NS
