"""What code is generated for: a triple, CPU features, and what follows from them for vector code.

Decided on the features of a CPU, never on its name: in virtual machines the name lies. The knob `STENO_TARGET_FEATURES` narrows the host to
`avx512` or `avx2`.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from typing import final

import numpy as np

from steno import _native
from steno.core.config import config
from steno.core.record import record, replace
from steno.ir.loops import LANES

_X86_BASE = ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3", "cx16")
_AVX512_BASE = ("avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")
_AVX512_MORE = ("avx512bitalg", "avx512vbmi", "avx512vbmi2", "avx512vpopcntdq")
_NEON_BASE = ("neon", "fp-armv8")


@final
@record(frozen=True)
class Target:
    """`masks`: loads and stores of any element size under a mask; `masks32`: of 4 and 8 bytes; `gathers`: of 4 and 8 bytes. `flags`: what
    LLVM may do to the program's additions, multiplications and divisions."""

    name: str
    triple: str
    features: str
    vector_bytes: int
    masks: bool
    masks32: bool
    gathers: bool
    flags: str = ""

    def fast(self) -> Target:
        """The same, for programs whose results may differ from those of their operations one by one: products fuse with sums, and
        divisions by one number become multiplications."""
        return replace(self, flags=" contract arcp")

    def lanes(self, dtypes: Iterable[np.dtype]) -> int:
        """Elements of the widest of `dtypes` in a vector register, at most LANES."""
        return min(LANES, self.vector_bytes // max((d.itemsize for d in dtypes), default=4))

    def masked(self, dtypes: Iterable[np.dtype]) -> bool:
        """Whether memory accesses of these dtypes can be masked in one instruction."""
        return self.masks or self.masks32 and all(d.itemsize >= 4 for d in dtypes)


def _features(*groups: Iterable[str]) -> str:
    return ",".join("+" + f for g in groups for f in g)


X86_TRIPLE, ARM_TRIPLE = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
AVX512 = Target("avx512", X86_TRIPLE, _features(_X86_BASE, _AVX512_BASE), 64, True, True, True)
AVX2 = Target("avx2", X86_TRIPLE, _features(_X86_BASE), 32, False, True, False)
NEON = Target("neon", ARM_TRIPLE, _features(_NEON_BASE), 16, False, False, False)


@functools.cache
def _host(wanted: str) -> Target:
    machine = os.uname().machine
    if machine in ("aarch64", "arm64"):
        if wanted not in ("host", "neon"):
            raise ValueError(f"STENO_TARGET_FEATURES={wanted!r}: this machine is {machine}, use host or neon")
        return NEON
    if machine != "x86_64":
        raise NotImplementedError(f"steno generates code for x86-64 and aarch64, this machine is {machine}")
    have = set(_native.cpu_features())
    missing = [f for f in _X86_BASE if f not in have]
    if missing:
        raise NotImplementedError(f"steno needs an x86-64 CPU with AVX2, FMA and F16C; this one lacks {', '.join(missing)}")
    wide = all(f in have for f in _AVX512_BASE)
    if wanted == "host":
        wanted = "avx512" if wide else "avx2"
    if wanted == "avx2":
        return AVX2
    if wanted != "avx512" or not wide:
        raise ValueError(f"STENO_TARGET_FEATURES={wanted!r} is not available on this CPU; use host, avx2{' or avx512' if wide else ''}")
    more = [f for f in _AVX512_MORE if f in have]
    return Target("avx512", X86_TRIPLE, _features(_X86_BASE, _AVX512_BASE, more), 64, True, True, True)


def host_target() -> Target:
    """The target of this process, under the knob `target_features`."""
    return _host(config._state.target_features)
