"""Every test runs with steno's defaults, whatever the environment says, and with programs checked after every pass of the compiler."""

from __future__ import annotations

import gc
import os
import platform
from collections.abc import Iterator

KEPT = (
    "STENO_CACHE", "STENO_CACHE_DIR", "STENO_DEBUG_BUFFERS", "STENO_JAX_PYTHON", "STENO_NUM_THREADS", "STENO_REQUIRE_JAX", "STENO_VERIFY",
)  # fmt: skip
for _name in [n for n in os.environ if n.startswith(("STENO_", "JAX_", "XLA_")) and n not in KEPT]:
    del os.environ[_name]
os.environ.setdefault("STENO_VERIFY", "1")
os.environ.setdefault("STENO_CACHE", "0")  # what is tested is compiled here and now

import numpy as np  # noqa: E402  the environment is read when steno is imported
import peer  # noqa: E402
import pytest  # noqa: E402

import steno  # noqa: E402
from steno import _native  # noqa: E402


def pytest_report_header() -> list[str]:
    found = peer.interpreter()
    return [
        f"steno {steno.__version__} on {platform.machine()}, {len(os.sched_getaffinity(0))} processors, numpy {np.__version__}",
        f"the real JAX: {found}" if found is not None else peer.NO_JAX,
    ]


@pytest.fixture
def x64() -> Iterator[None]:
    with steno.enable_x64(True):
        yield


@pytest.fixture(params=[True, False], ids=["avx512", "portable"])
def instruction_set(request: pytest.FixtureRequest) -> Iterator[None]:
    """Sorts and selections with AVX-512, and without."""
    before = _native.swap_sort_avx512(request.param)
    try:
        if _native.swap_sort_avx512(request.param) != request.param:
            pytest.skip("no AVX-512 here")
        yield
    finally:
        _native.swap_sort_avx512(before)


@pytest.fixture
def small_heap() -> Iterator[None]:
    """The collector sees only what is made from here on: looking for leaks walks through all there is after every trace."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
