"""Random numbers without keys to pass on: a generator that counts, in a reference, what was drawn from it. The names of
`jax.experimental.random`."""

from __future__ import annotations

import operator
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from steno import lax, numpy as jnp, random, ref
from steno._native import current_trace
from steno.core import dtypes
from steno.core.refs import is_ref
from steno.tree_util import register_dataclass

Array = Any
ArrayLike = Any
DTypeLike = Any
Size = int | Sequence[int] | None


@final
@register_dataclass
@dataclass(frozen=True)
class StatefulPRNG:
    """A generator of random numbers like NumPy's. Each draw takes the key that `_base_key` folded with `_counter` gives, and increases that
    reference to an integer. `stateful_rng` makes one. It may be passed to functions that `jit` compiles, and closed over by them and by
    bodies of loops; under `vmap` every element needs one of its own: see `split`.

    ValueError for a base key that is no typed key, and for a counter that is no reference to an integer."""

    _base_key: Array
    _counter: Any

    def __post_init__(self) -> None:
        # trees of placeholders are neither keys nor references
        if hasattr(self._base_key, "dtype") and not dtypes.is_key(self._base_key.dtype):
            raise ValueError(f"Expected base_key to be a typed PRNG key; got {self._base_key}")
        if isinstance(self._counter, int | float | np.ndarray | np.generic):
            raise ValueError(f"Expected counter to be a scalar integer ref; got {self._counter}")

    def key(self, shape: int | Sequence[int] = ()) -> Array:
        """A new key, or an array of new keys. ValueError for what `split` returned: it holds several generators."""
        if self._base_key.shape or (is_ref(self._counter) and self._counter.shape):
            raise ValueError("cannot operate on split stateful generator: it is for vmap to take apart")
        drawn = random.fold_in(self._base_key, self._counter[...])
        ref.addupdate(self._counter, ..., 1)
        return random.split(drawn, _shape(shape)) if shape != () else drawn

    def random(self, size: Size = None, dtype: DTypeLike = float) -> Array:
        """Uniform numbers in [0, 1) of the shape `size`."""
        return self.uniform(size=size, dtype=dtype)

    def uniform(self, low: ArrayLike = 0, high: ArrayLike = 1, size: Size = None, *, dtype: DTypeLike = float) -> Array:
        """Uniform numbers in [low, high); the shape is `size` broadcast with those of the bounds."""
        return random.uniform(self.key(), _full(size, low, high), minval=low, maxval=high, dtype=dtype)

    def normal(self, loc: ArrayLike = 0, scale: ArrayLike = 1, size: Size = None, *, dtype: DTypeLike = float) -> Array:
        """Normal numbers of the mean `loc` and the standard deviation `scale`; the shape is `size` broadcast with theirs."""
        drawn = random.normal(self.key(), _full(size, loc, scale), dtype)
        moved = (jnp.asarray(x).astype(drawn.dtype) for x in (scale, loc))
        return next(moved) * drawn + next(moved)

    def integers(self, low: ArrayLike, high: ArrayLike | None = None, size: Size = None, *, dtype: DTypeLike = int) -> Array:
        """Uniform integers in [low, high), or in [0, low) without `high`; the shape is `size` broadcast with those of the bounds."""
        if high is None:
            low, high = 0, low
        return random.randint(self.key(), _full(size, low, high), low, high, dtype)

    def spawn(self, n_children: int) -> list[StatefulPRNG]:
        """New generators, independent of one another and of what this one draws later."""
        return [StatefulPRNG(key, ref.new_ref(0)) for key in self.key(operator.index(n_children))]

    def split(self, num: int | Sequence[int]) -> StatefulPRNG:
        """An array of generators in one: for vmap, whose elements draw as those of `spawn` would."""
        keys = self.key(num)
        return StatefulPRNG(keys, ref.new_ref(jnp.zeros(keys.shape, int)))


def stateful_rng(seed: ArrayLike | None = None, *, impl: Any = None) -> StatefulPRNG:
    """A generator of an integer seed; without one, of a seed that the operating system draws. TypeError within transformed code without a
    seed: it would be a constant of the program."""
    if seed is None:
        if current_trace() is not None:
            raise TypeError("When used within transformed code, stateful_rng() needs an explicit seed; got none")
        seed = np.int64(secrets.randbits(63)).astype(dtypes.default_int())
    return StatefulPRNG(random.key(seed, impl=impl), ref.new_ref(0))


def _shape(size: int | Sequence[int]) -> tuple[int, ...]:
    return tuple(size) if isinstance(size, Sequence) else (operator.index(size),)


def _full(size: Size, *operands: ArrayLike) -> tuple[int, ...]:
    return lax.broadcast_shapes(() if size is None else _shape(size), *map(np.shape, operands))


__all__ = ["StatefulPRNG", "stateful_rng"]
