"""The value of a size that is not known while a program is traced: `dim_as_value[dim=2*n]`. It has no operands; with the sizes known it is
a number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from steno.core import dtypes
from steno.core.aval import ShapedArray, scalar_aval
from steno.core.op import Op
from steno.core.sizes import UnknownSize
from steno.core.symbolic import set_as_value
from steno.transforms.rules import full


def _typ(*, dim: Any) -> ShapedArray:
    return scalar_aval(dtypes.default_int(), True)


def _known(dim: Any) -> int:
    if isinstance(dim, UnknownSize):
        raise NotImplementedError(
            f"the symbolic dimension '{dim}' has no value where nothing is traced: programs of symbolic shapes run when the Exported that "
            "export.export makes of them is called"
        )
    return dim


def _samples() -> Iterable[Any]:
    yield (), dict(dim=7)


dim_as_value = Op(
    "dim_as_value",
    typ=_typ,
    oracle=lambda *, dim: np.asarray(_known(dim)),
    expand=lambda *, dim: full((), _known(dim), dtypes.default_int(), True),
    samples=_samples,
)

set_as_value(lambda size: dim_as_value(dim=size))
