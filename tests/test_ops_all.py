"""Every op, by its record: specification, lowered code, eager evaluation and jitted programs agree on the record's samples."""

from __future__ import annotations

import importlib
import os
import pkgutil

import numpy as np
import pytest

import steno.ops
from steno.core.config import enable_x64
from steno.core.op import OPS, Op
from steno.testing import check_op

for _family in pkgutil.iter_modules(steno.ops.__path__):
    importlib.import_module(f"steno.ops.{_family.name}")

# a compiled program takes some 20 ms: without STENO_TEST_ALL only so many samples of an op are compiled, spread over all of them
COMPILED = 10**9 if os.environ.get("STENO_TEST_ALL") else 4
SAMPLED = sorted((op for op in OPS.values() if op.samples is not None and op.oracle is not None), key=lambda op: op.name)


@pytest.mark.parametrize("op", SAMPLED, ids=lambda op: op.name)
def test_op(op: Op) -> None:
    samples = list(op.samples())
    chosen = set(np.linspace(0, len(samples) - 1, min(COMPILED, len(samples))).round().astype(int).tolist())
    with enable_x64(True):
        for k, (args, params) in enumerate(samples):
            check_op(op, args, params, compiled=k in chosen)
