"""Small C programs compiled at test time: they stand for what the compiler emits."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import tempfile

import numpy as np
import pytest

from steno import _native
from steno._native import ArrayImpl, Executable, ShapedArray

SOURCE = r"""
#include <stdint.h>
#include <string.h>
#include <math.h>
#include <unistd.h>

typedef void (*body)(void **, int64_t, int64_t);
void (*parallel_for)(body, void **, int64_t, int64_t);
int32_t (*host_call)(void *, int64_t, void **);

void set_symbols(void *p, void *h) { parallel_for = p; host_call = h; }

/* out = in0 + in1, float32[3] */
int32_t add3(void **in, void **out, void *arena, void *rt) {
    float *a = in[0], *b = in[1], *c = out[0];
    for (int i = 0; i < 3; i++) c[i] = a[i] + b[i];
    return 0;
}
/* out0 = in0 + 1 in place, out1 = 2 * in1: float32[4] */
int32_t alias(void **in, void **out, void *arena, void *rt) {
    float *a = in[0], *b = in[1], *c = out[0], *d = out[1];
    for (int i = 0; i < 4; i++) { d[i] = 2 * b[i]; c[i] = a[i] + 1; }
    return 0;
}
/* scalar float32: x + 1 */
int32_t inc(void **in, void **out, void *arena, void *rt) {
    *(float *)out[0] = *(float *)in[0] + 1;
    return 0;
}
/* 16 float32[4][4]: a * 2 + 1 */
int32_t tree16(void **in, void **out, void *arena, void *rt) {
    for (int k = 0; k < 16; k++) {
        float *a = in[k], *c = out[k];
        for (int i = 0; i < 16; i++) c[i] = a[i] * 2 + 1;
    }
    return 0;
}
/* through the arena: out = in + 1, float32[1000] */
int32_t arena1000(void **in, void **out, void *arena, void *rt) {
    float *a = in[0], *t = arena, *c = out[0];
    for (int i = 0; i < 1000; i++) t[i] = a[i] + 1;
    memcpy(c, t, 4000);
    return 0;
}
int32_t fail(void **in, void **out, void *arena, void *rt) { return *(int32_t *)in[0]; }
/* out = callback(in) float32[2] */
int32_t host(void **in, void **out, void *arena, void *rt) {
    void *bufs[2] = {in[0], out[0]};
    return host_call(rt, 0, bufs);
}
int32_t subnormal(void **in, void **out, void *arena, void *rt) {
    volatile float x = *(float *)in[0];
    *(float *)out[0] = x * 0.5f;
    return 0;
}
int32_t nothing(void **in, void **out, void *arena, void *rt) { return 0; }
/* sleeps milliseconds, then copies int32 */
int32_t sleepy(void **in, void **out, void *arena, void *rt) {
    usleep(1000 * *(int32_t *)in[0]);
    *(int32_t *)out[0] = *(int32_t *)in[0];
    return 0;
}
/* out = in0 + 1, int32[1000], after in1 microseconds; in place if aliased */
int32_t slow_inc(void **in, void **out, void *arena, void *rt) {
    int32_t *a = in[0], *c = out[0];
    if (*(int32_t *)in[1]) usleep(*(int32_t *)in[1]);
    for (int i = 0; i < 1000; i++) c[i] = a[i] + 1;
    return 0;
}
/* the same through the arena */
int32_t slow_arena(void **in, void **out, void *arena, void *rt) {
    int32_t *a = in[0], *t = arena, *c = out[0];
    for (int i = 0; i < 1000; i++) t[i] = a[i];
    if (*(int32_t *)in[1]) usleep(*(int32_t *)in[1]);
    for (int i = 0; i < 1000; i++) c[i] = t[i] + 1;
    return 0;
}
/* out0 = in0, out1 = 2 * in0: int32; fails with the status in1 after in2 microseconds */
int32_t slow_fail(void **in, void **out, void *arena, void *rt) {
    usleep(*(int32_t *)in[2]);
    *(int32_t *)out[0] = *(int32_t *)in[0];
    *(int32_t *)out[1] = 2 * *(int32_t *)in[0];
    return *(int32_t *)in[1];
}
/* out = callback(in), float32[2], after 20 ms */
int32_t slow_host(void **in, void **out, void *arena, void *rt) {
    void *bufs[2] = {in[0], out[0]};
    usleep(20000);
    return host_call(rt, 0, bufs);
}
static void square(void **bufs, int64_t begin, int64_t end) {
    float *a = bufs[0], *c = bufs[1];
    for (int64_t i = begin; i < end; i++) c[i] = sqrtf(a[i]) * a[i];
}
/* float32[1000000], several regions */
int32_t parallel(void **in, void **out, void *arena, void *rt) {
    void *bufs[2] = {in[0], out[0]};
    for (int k = 0; k < 4; k++) parallel_for(square, bufs, 1000000, 1000);
    return 0;
}
static void count(void **bufs, int64_t begin, int64_t end) {
    int64_t *grain = bufs[1];
    int32_t *seen = bufs[0];
    if (begin % *grain) __atomic_fetch_add(&seen[0], 1000, __ATOMIC_RELAXED);
    for (int64_t i = begin; i < end; i++) seen[i]++;
}
static void inner(void **bufs, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
        void *b[2] = {(int32_t *)bufs[0] + 100 * i, bufs[1]};
        parallel_for(count, b, 100, 3);
    }
}
int32_t nested(void **in, void **out, void *arena, void *rt) {
    int64_t grain = 3;
    void *bufs[2] = {out[0], &grain};
    memset(out[0], 0, 400000);
    parallel_for(inner, bufs, 1000, 7);
    return 0;
}
void cover(int32_t *seen, int64_t n, int64_t grain) {
    void *bufs[2] = {seen, &grain};
    parallel_for(count, bufs, n, grain);
}
static void tick(void **bufs, int64_t begin, int64_t end) { }
void ticks(int64_t n) { void *b[1] = {0}; for (int64_t k = 0; k < n; k++) parallel_for(tick, b, 2, 1); }
"""


@functools.cache
def library() -> ctypes.CDLL:
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        pytest.skip("needs a C compiler")
    with tempfile.TemporaryDirectory() as folder:
        source, target = os.path.join(folder, "programs.c"), os.path.join(folder, "programs.so")
        with open(source, "w") as f:
            f.write(SOURCE)
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", target, source, "-lm"], check=True)
        lib = ctypes.CDLL(target)
    s = _native.symbols()
    lib.set_symbols(ctypes.c_void_p(s["steno_parallel_for"]), ctypes.c_void_p(s["steno_host_call"]))
    return lib


def address(name: str) -> int:
    return ctypes.cast(getattr(library(), name), ctypes.c_void_p).value


def aval(shape, dtype=np.float32, weak_type=False) -> ShapedArray:
    return ShapedArray(shape, np.dtype(dtype), weak_type)


def array(x, dtype=np.float32, weak_type=False) -> ArrayImpl:
    x = np.asarray(x, dtype)
    return ArrayImpl.from_numpy(x, aval(x.shape, x.dtype, weak_type))


def program(name: str, ins, outs, **kwargs) -> Executable:
    return Executable(address(name), ins, outs, kwargs.pop("arena_bytes", 0), **kwargs)
