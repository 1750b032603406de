"""What the formats of sparse arrays share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from steno import numpy as jnp
from steno.core import dtypes
from steno.core.aval import HasShape
from steno.core.errors import ConcretizationTypeError
from steno.core.trace import Tracer
from steno.mapping import vmap
from steno.tree_util import register_pytree_node

Array = Any
Shape = tuple[int, ...]


class SparseEfficiencyWarning(UserWarning):
    """A program does something that takes more memory or time than the same thing on dense arrays."""


class SparseEfficiencyError(ValueError):
    """As SparseEfficiencyWarning, where the program is not to go on."""


class CuSparseEfficiencyWarning(SparseEfficiencyWarning):
    """As SparseEfficiencyWarning, of cuSPARSE: never given here."""


class JAXSparse(HasShape, ABC):
    """A sparse array: arrays of its stored elements and of their positions, which are the leaves it has as a pytree, and a `shape`.

    Operators and methods are attached by `operators`; those that a format does not have raise TypeError or NotImplementedError."""

    data: Array
    shape: Shape

    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 100

    @property
    @abstractmethod
    def nse(self) -> int:
        """The number of stored elements, for each batch."""

    @abstractmethod
    def todense(self) -> Array:
        """The dense array."""

    @abstractmethod
    def transpose(self, axes: Sequence[int] | None = None) -> Any:
        """With its axes in another order."""

    @abstractmethod
    def tree_flatten(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The leaves, and what else there is to know."""

    @property
    def dtype(self) -> Any:
        """The dtype of the stored elements."""
        return self.data.dtype

    @property
    def T(self) -> Any:
        """With its axes in reverse order."""
        return self.transpose()

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a sparse array without axes")
        return self.shape[0]

    def __repr__(self) -> str:
        name = type(self).__name__
        try:
            layout = "".join(f", {n}={v}" for n, v in self.layout().items() if v)
            text = f"{name}({dtypes.name(self.dtype)}{list(self.shape)}, nse={self.nse}{layout})"
        except Exception:  # leaves may be anything while a tree is rebuilt
            return f"{name}(<invalid>)"
        return f"{type(self.data).__name__}[{text}]" if isinstance(self.data, Tracer) else text

    def layout(self) -> dict[str, int]:
        """What a format says about its axes beside its shape."""
        return {}

    def block_until_ready(self) -> Any:
        """Waits until the leaves are computed."""
        for leaf in self.tree_flatten()[0]:
            leaf.block_until_ready()
        return self


def over_batch(f: Callable[..., Any], n_batch: int) -> Callable[..., Any]:
    """f, mapped over the first n_batch axes of all its arguments."""
    for _ in range(n_batch):
        f = vmap(f)
    return f


def stored_mask(mat: Array, n_batch: int, n_dense: int) -> Array:
    """Which elements are stored: those with something that is not 0 in their dense axes; of the shape without the dense axes."""
    return (mat != 0).any(tuple(range(mat.ndim - n_dense, mat.ndim)))


def known_nse(name: str, mask: Array, n_batch: int) -> int:
    """The greatest number of stored elements of any batch. ConcretizationTypeError if it depends on traced values."""
    if isinstance(mask, Tracer):
        raise ConcretizationTypeError(mask, f"{name}: nse, the number of stored elements, must be given where the array is traced.")
    counts = np.asarray(mask).sum(tuple(range(n_batch, mask.ndim)))
    return int(counts.max()) if counts.size else 0


def check_layout(name: str, ndim: int, n_batch: int, n_dense: int) -> int:
    """The number of sparse axes. ValueError if there are too few axes."""
    if n_batch < 0 or n_dense < 0 or n_batch + n_dense > ndim:
        raise ValueError(f"{name}: n_batch={n_batch} and n_dense={n_dense} do not fit an array of {ndim} axes")
    return ndim - n_batch - n_dense


def as_dense(x: Any) -> Array:
    """x as an array. TypeError for sparse ones."""
    if isinstance(x, JAXSparse):
        raise TypeError(f"expected a dense array, got {x!r}")
    return jnp.asarray(x)


def matrix_shape(name: str, shape: Sequence[int]) -> tuple[int, int]:
    out = tuple(int(n) for n in shape)
    if len(out) != 2:
        raise ValueError(f"{name}: a matrix must have two axes, got shape {out}")
    return out


def turned(name: str, axes: Sequence[int] | None) -> bool:
    """Whether a transposition does anything."""
    order = (1, 0) if axes is None else tuple(a % 2 for a in axes)
    if sorted(order) != [0, 1]:
        raise ValueError(f"{name}.transpose: {axes} is no permutation of two axes")
    return order == (1, 0)


def register_matrix(cls: type, leaves: tuple[str, ...], attributes: tuple[str, ...]) -> None:
    """A class of matrices becomes a pytree of its leaves."""

    def unflatten(aux: Any, children: Any) -> Any:
        out = object.__new__(cls)
        for name, value in (*zip(leaves, children, strict=True), *zip(attributes, aux, strict=True)):
            setattr(out, name, value)
        return out

    register_pytree_node(cls, lambda m: (tuple(getattr(m, n) for n in leaves), tuple(getattr(m, n) for n in attributes)), unflatten)


def rebuilt_shape(shape: Shape, had: int, n_batch: int, *leaves: Array) -> Shape:
    """The shape of an array whose leaves had `had` batch axes and now have n_batch: under vmap they have lost some, after it they have new
    ones. Trees are also rebuilt while axes are not yet where they belong; then the first leaf counts."""
    if n_batch < 0 or n_batch == had or not all(hasattr(x, "shape") for x in leaves):
        return shape
    try:
        batch = jnp.broadcast_shapes(*(x.shape[:n_batch] for x in leaves))
    except ValueError:
        batch = leaves[0].shape[:n_batch]
    return (*batch, *shape[had:])
