"""Random sparse arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from steno import numpy as jnp, random
from steno.experimental.sparse.bcoo import BCOO
from steno.experimental.sparse.util import check_layout, over_batch

Array = Any


def random_bcoo(
    key: Array,
    shape: Sequence[int],
    *,
    dtype: Any = jnp.float64,
    indices_dtype: Any = None,
    nse: float = 0.2,
    n_batch: int = 0,
    n_dense: int = 0,
    unique_indices: bool = True,
    generator: Callable[..., Array] = random.uniform,
    **kwds: Any,
) -> BCOO:
    """An array with elements drawn by `generator(key, shape, dtype, **kwds)` at random positions. nse: their number for each batch, or,
    below 1, their share of the sparse axes; unique_indices: no position twice."""
    shape = tuple(map(int, shape))
    n_sparse = check_layout("random_bcoo", len(shape), n_batch, n_dense)
    batch, sizes, dense = shape[:n_batch], shape[n_batch : n_batch + n_sparse], shape[n_batch + n_sparse :]
    total = math.prod(sizes)
    if nse < 0 or (unique_indices and nse > max(total, 1)):
        raise ValueError(f"random_bcoo: nse={nse} elements cannot lie at different positions of sparse axes of sizes {sizes}")
    count = int(math.ceil(nse * total)) if 0 < nse < 1 else int(nse)
    d = jnp.int32 if indices_dtype is None else indices_dtype
    at, values = random.split(key)

    def positions(key: Array) -> Array:
        if not n_sparse:
            return jnp.zeros((count, 0), d)
        flat = random.choice(key, total, (count,), replace=not unique_indices)
        return jnp.stack(jnp.unravel_index(flat, sizes), -1).astype(d)

    keys = random.split(at, batch) if batch else at
    indices = over_batch(positions, n_batch)(keys)
    data = generator(values, (*batch, count, *dense), dtype=dtype, **kwds)
    return BCOO((data, indices), shape=shape, unique_indices=unique_indices)
