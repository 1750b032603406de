"""Shape, indexing, gather, scatter, contraction and structural ops, by their records: specification against lowered code and against NumPy."""

from __future__ import annotations

from typing import Any

import lowering
import numpy as np
import pytest

from steno.core import dtypes
from steno.core.op import Op
from steno.ops import arithmetic, dot, gather, index, random, scatter, shape, structural

MODULES = (dot, gather, index, random, scatter, shape, structural)
RECORDS = [o for m in MODULES for o in vars(m).values() if isinstance(o, Op) and o not in vars(arithmetic).values()]
SAMPLED = [o for o in RECORDS if o.samples is not None]


def results(op: Op, out: Any) -> list[np.ndarray]:
    return list(out) if op.multiple_results else [out]


def test_every_record_has_samples() -> None:
    assert [o.name for o in RECORDS if o.samples is None] == ["jit"]


@pytest.mark.parametrize("op", SAMPLED, ids=lambda o: o.name)
def test_oracle_has_the_type(op: Op) -> None:
    for args, params in op.samples():
        types = results(op, op.typ(*map(lowering.logical, args), **params))
        with np.errstate(all="ignore"):
            out = results(op, op.oracle(*lowering.values(args), **params))
        wanted = [(t.shape, np.uint64 if isinstance(t.dtype, dtypes.KeyDType) else t.dtype) for t in types]
        assert [(y.shape, y.dtype) for y in map(np.asarray, out)] == wanted, (params, [a.shape for a in args])


@pytest.mark.parametrize("op", [o for o in SAMPLED if o.lower is not None and o is not dot.dot_general], ids=lambda o: o.name)
def test_lowered_code_equals_oracle(op: Op) -> None:
    for args, params in op.samples():
        with np.errstate(all="ignore"):
            want = results(op, op.oracle(*lowering.values(args), **params))
        got = lowering.run_lowered(op, args, params)
        for g, w in zip(got, want, strict=True):
            lowering.assert_same_bits(g, w, f"{op.name}{params} of {[(a.shape, a.dtype) for a in args]}")

