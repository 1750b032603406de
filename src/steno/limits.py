"""What this machine can do at most, measured: multiply-adds a second, and bytes a second for a mix of reads and writes.

The kernels are loops of vector instructions with nothing else in them, in the vectors and on the threads that compiled programs use. The
fastest of many runs counts: a limit is what nothing exceeds, and other work on the machine only takes away from it.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple, final

from steno import _native
from steno.compiler.emit import Module
from steno.compiler.link import compile_objects
from steno.compiler.load import ENTRY, load
from steno.compiler.target import host_target

SECONDS = 0.2  # of one measurement
LARGEST = 1 << 29  # bytes of one of its arrays
STREAMED = 1 << 23  # arrays from this size on may be written past the caches
SHORT = 2_000_000  # bytes of one run, which makes several passes over less: long against what starting it takes
MIX = 16  # a mix is a ratio of whole numbers up to this
UNIT = 16  # vectors that one pass of the loop moves, or more
FMAS = {
    64: 24,
    32: 12,
    16: 16,
}  # chains of multiply-adds that fill the pipelines, by the bytes of a vector; they leave registers for the operands
_FLOATS = {"float32": ("float", 4), "float64": ("double", 8)}


def _memory(nbytes: int) -> tuple[Any, int]:
    """Memory in huge pages where the system has them, and its address."""
    memory = mmap.mmap(-1, max(nbytes, 4096) + (1 << 21))
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    view = ctypes.c_char.from_buffer(memory)
    address = (ctypes.addressof(view) + (1 << 21) - 1) // (1 << 21) * (1 << 21)
    ctypes.memset(address, 1, max(nbytes, 4096))
    return view, address


@final
class _Kernel:
    """void entry(ptr bufs, i64 begin, i64 end), run over `n` units by the pool of threads."""

    def __init__(self, text: str) -> None:
        target = host_target()
        module = Module(target.triple, (), ((ENTRY, text),), frozenset())
        self.linked = load(compile_objects(module, target), target)
        run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        self.parallel_for = run(_native.symbols()["steno_parallel_for"])

    def run(self, bufs: Any, n: int) -> None:
        self.parallel_for(self.linked.address, ctypes.addressof(bufs), n, max(1, n // 64))


def _pointers(*addresses: int) -> Any:
    return (ctypes.c_void_p * len(addresses))(*addresses)


def fastest(run: Callable[[], None], seconds: float = SECONDS) -> float:
    """The least time of a run, in seconds; there are some at least."""
    best, end, count = float("inf"), time.perf_counter() + seconds, 0
    while count < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
        count += 1
    return best


def _on(threads: int, measure: Callable[[], float]) -> float:
    before = _native.swap_thread_limit(threads)
    try:
        return measure()
    finally:
        _native.swap_thread_limit(before)


class Limit(NamedTuple):
    """What nothing exceeds: a run of some milliseconds, and how many operations it does or bytes it moves. The run takes the threads that
    programs may use when it is called."""

    run: Callable[[], None]
    amount: float
    memory: object  # that the run uses

    def speed(self, threads: int) -> float:
        """The amount a second in the fastest of many runs, on so many threads."""
        return self.amount / _on(threads, lambda: fastest(self.run))


# multiply-adds


@functools.cache
def _fma_kernel(dtype: str) -> _Kernel:
    name, size = _FLOATS[dtype]
    width = host_target().vector_bytes // size
    chains = FMAS[host_target().vector_bytes]
    vector = f"<{width} x {name}>"
    lines = [
        f"declare {vector} @llvm.fma.v{width}f{size * 8}({vector}, {vector}, {vector})",
        f"define void @{ENTRY}(ptr %bufs, i64 %begin, i64 %end) #0 {{",
        "start:",
        "  %p = load ptr, ptr %bufs",
        f"  %x = load {vector}, ptr %p, align 64",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [ %begin, %start ], [ %next, %loop ]",
        *(f"  %a{k} = phi {vector} [ %x, %start ], [ %b{k}, %loop ]" for k in range(chains)),
        *(f"  %b{k} = call {vector} @llvm.fma.v{width}f{size * 8}({vector} %a{k}, {vector} %x, {vector} %x)" for k in range(chains)),
        "  %next = add i64 %i, 1",
        "  %more = icmp slt i64 %next, %end",
        "  br i1 %more, label %loop, label %done",
        "done:",
    ]
    total = "%b0"
    for k in range(1, chains):
        lines.append(f"  %s{k} = fadd {vector} {total}, %b{k}")
        total = f"%s{k}"
    lines += ["  %q = getelementptr i8, ptr %p, i64 64", f"  store {vector} {total}, ptr %q, align 64", "  ret void", "}"]
    return _Kernel("\n".join(lines))


@functools.cache
def multiply_adds(dtype: str = "float32") -> Limit:
    """Floating point operations in registers, a multiply-add being two. ValueError for other dtypes than float32 and float64."""
    if dtype not in _FLOATS:
        raise ValueError(f"multiply_adds: dtype must be float32 or float64, got {dtype!r}")
    kernel = _fma_kernel(dtype)
    view, address = _memory(4096)
    bufs = _pointers(address)
    n = 400_000
    each = 2 * host_target().vector_bytes // _FLOATS[dtype][1] * FMAS[host_target().vector_bytes]
    return Limit(lambda: kernel.run(bufs, n), n * each, view)


@functools.cache
def peak_flops(dtype: str = "float32", threads: int = 1) -> float:
    """Floating point operations a second, a multiply-add being two, on so many threads. ValueError for other dtypes than float32 and
    float64."""
    return multiply_adds(dtype).speed(threads)


# bytes


@functools.cache
def _stream_kernel(reads: int, writes: int, streamed: bool) -> _Kernel:
    """Each unit reads so many vectors and writes so many. bufs: what is read, what is written, 64 bytes for sums, the number of passes."""
    width = host_target().vector_bytes // 4
    vector = f"<{width} x i32>"
    hint = ", !nontemporal !1" if streamed else ""
    sums = min(reads, 8)
    lines = [
        f"define void @{ENTRY}(ptr %bufs, i64 %begin, i64 %end) #0 {{",
        "start:",
        "  %r = load ptr, ptr %bufs",
        "  %w.at = getelementptr ptr, ptr %bufs, i64 1",
        "  %w = load ptr, ptr %w.at",
        "  %sink.at = getelementptr ptr, ptr %bufs, i64 2",
        "  %sink = load ptr, ptr %sink.at",
        "  %passes.at = getelementptr ptr, ptr %bufs, i64 3",
        "  %passes = load i64, ptr %passes.at",
        "  br label %pass",
        "pass:",
        "  %pass.number = phi i64 [ 1, %start ], [ %pass.next, %done ]",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [ %begin, %pass ], [ %next, %loop ]",
        *(f"  %s{k} = phi {vector} [ zeroinitializer, %pass ], [ %t{k}, %loop ]" for k in range(sums)),
        f"  %ri = mul i64 %i, {4 * width * reads}",
        f"  %wi = mul i64 %i, {4 * width * writes}",
        "  %rp = getelementptr i8, ptr %r, i64 %ri",
        "  %wp = getelementptr i8, ptr %w, i64 %wi",
    ]
    latest = [f"%s{k}" for k in range(sums)]
    for k in range(reads):
        last = k + sums >= reads
        name = f"%t{k % sums}" if last else f"%u{k}"
        lines += [
            f"  %p{k} = getelementptr i8, ptr %rp, i64 {4 * width * k}",
            f"  %v{k} = load {vector}, ptr %p{k}, align 64",
            f"  {name} = xor {vector} {latest[k % sums]}, %v{k}",
        ]
        latest[k % sums] = name
    for k in range(writes):
        value = f"%v{k % reads}" if reads else "zeroinitializer"
        lines += [
            f"  %q{k} = getelementptr i8, ptr %wp, i64 {4 * width * k}",
            f"  store {vector} {value}, ptr %q{k}, align 64{hint}",
        ]
    lines += ["  %next = add i64 %i, 1", "  %more = icmp slt i64 %next, %end", "  br i1 %more, label %loop, label %done", "done:"]
    total = ""
    for k in range(sums):
        if total:
            lines.append(f"  %z{k} = xor {vector} {total}, %t{k}")
        total = f"%z{k}" if total else f"%t{k}"
    if total:  # that the loads are there for something
        lines.append(f"  store {vector} {total}, ptr %sink, align 64")
    lines += [
        "  %pass.next = add i64 %pass.number, 1",
        "  %again = icmp sle i64 %pass.next, %passes",
        "  br i1 %again, label %pass, label %exit",
        "exit:",
    ]
    return _Kernel("\n".join([*lines, "  ret void", "}"]))


def mix(read: int, written: int) -> tuple[int, int]:
    """The ratio as whole numbers up to MIX."""
    if not read or not written:
        return int(read > 0), int(written > 0)
    ratio = Fraction(read, written)
    if ratio > MIX or ratio < Fraction(1, MIX):
        return (1, 0) if ratio > 1 else (0, 1)
    near = ratio.limit_denominator(MIX) if ratio <= 1 else 1 / (1 / ratio).limit_denominator(MIX)
    return near.numerator, near.denominator


@functools.cache
def passes(read: int, written: int, threads: int = 1) -> Limit:
    """Bytes of passes, one after the other, that read `read` bytes and write `written`, past the caches if that is faster on so many
    threads. ValueError if there are none."""
    if read < 0 or written < 0 or not read + written:
        raise ValueError(f"passes: bytes to read and to write are wanted, got {read} and {written}")
    reads, writes = mix(read, written)
    times = -(-UNIT // (reads + writes))
    reads, writes = reads * times, writes * times
    vector = host_target().vector_bytes
    scale = min(1.0, LARGEST / max(read, written))
    units = max(1, int(max(read if reads else 0, written if writes else 0) * scale) // (vector * max(reads, writes)))
    source, destination, sink = _memory(units * vector * reads), _memory(units * vector * writes), _memory(64)
    moved = units * vector * (reads + writes)
    count = max(1, SHORT // moved)
    bufs = _pointers(source[1], destination[1], sink[1], count)

    def limit(streamed: bool) -> Limit:
        kernel = _stream_kernel(reads, writes, streamed)
        return Limit(lambda: kernel.run(bufs, units), moved * count, (source, destination, sink))

    ways = [limit(streamed) for streamed in ((False, True) if writes and units * vector * writes >= STREAMED else (False,))]
    return max(ways, key=lambda way: way.speed(threads)) if len(ways) > 1 else ways[0]


@functools.cache
def bandwidth(read: int, written: int, threads: int = 1) -> float:
    """Bytes a second of passes, one after the other, that read `read` bytes and write `written`, on so many threads: of the caches where
    all of it fits into them, else of memory. ValueError if there are none."""
    return passes(read, written, threads).speed(threads)


__all__ = ["Limit", "bandwidth", "fastest", "mix", "multiply_adds", "passes", "peak_flops"]
