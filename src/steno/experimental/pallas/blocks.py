"""How the operands of a kernel are cut into blocks: BlockSpec, GridSpec and what they are made of."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any, Final, final

from steno._native import ShapedArray
from steno.core import dtypes
from steno.core.record import record


@final
@record(frozen=True)
class Blocked:
    """An axis is cut into blocks of this size; `index_map` gives the number of the block."""

    block_size: int


@final
@record(frozen=True)
class Element:
    """An axis of which a block has this many elements; `index_map` gives the first one. `padding`: elements before and behind the array."""

    block_size: int
    padding: tuple[int, int] = (0, 0)


@final
@record(frozen=True)
class Squeezed:
    """An axis of which a block has one element, and the kernel's reference none."""


squeezed: Final = Squeezed()
BlockDim = Element | Squeezed | Blocked


@final
class _NoBlockSpec:
    """Stands for a spec that says nothing: the block is the whole array."""

    def __repr__(self) -> str:
        return "NoBlockSpec"


no_block_spec: Final = _NoBlockSpec()


class RevisitMode(enum.Enum):
    """What a pipeline would do with a block that comes again. It is accepted."""

    ANY = "any"
    IMMEDIATE = "immediate"


@final
@record(frozen=True)
class Buffered:
    """How many copies of a block a pipeline would have. It is accepted."""

    buffer_count: int | tuple[int, int]
    use_lookahead: bool = False
    revisit: RevisitMode | None = None
    prefetched_count: int = 0


class MemorySpace(enum.Enum):
    """Kinds of memory; for a CPU they are one. `MemorySpace.ANY((8, 8), "float32")` is scratch memory."""

    ANY = "any"
    DEFAULT = "default"
    ERROR = "error"
    INDEX = "index"
    KEY = "key"

    def __call__(self, shape: Sequence[int], dtype: Any) -> MemoryRef:
        return MemoryRef(ShapedArray(tuple(shape), dtypes.canonicalize_dtype(dtype)), self)


ANY: Final = MemorySpace.ANY


@final
@record(frozen=True)
class MemoryRef:
    """A reference to memory of a type, to be made when a kernel runs."""

    inner_aval: Any
    memory_space: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.inner_aval.shape)

    @property
    def dtype(self) -> Any:
        return self.inner_aval.dtype


@final
@record(frozen=True)
class CostEstimate:
    """What a kernel costs, as its author says. It is accepted."""

    flops: int
    transcendentals: int
    bytes_accessed: int
    remote_bytes_transferred: int = 0


@final
class BlockSpec:
    """Which block of an operand each program of the grid gets.

    block_shape    for each axis a size, a Blocked or Element, or None or `squeezed` for one element without an axis; None: the whole array
    index_map      from the program's position to the position of the block: numbers of blocks (of elements, for Element). None: the first
    pipeline_mode, memory_space    accepted"""

    def __init__(
        self,
        block_shape: Sequence[Any] | None = None,
        index_map: Callable[..., Any] | None = None,
        pipeline_mode: Buffered | None = None,
        *,
        memory_space: Any = None,
    ) -> None:
        self.block_shape = None if block_shape is None else tuple(block_shape)
        self.index_map, self.pipeline_mode, self.memory_space = index_map, pipeline_mode, memory_space

    def __repr__(self) -> str:
        return f"BlockSpec(block_shape={self.block_shape}, index_map={self.index_map}, memory_space={self.memory_space})"


@final
class GridSpec:
    """A grid of programs, with the specs of what they read and write.

    grid              the sizes of its axes; the last one is fastest
    scratch_shapes    memory that programs share, one after the other: a tree of MemoryRefs"""

    def __init__(self, grid: Any = (), in_specs: Any = no_block_spec, out_specs: Any = no_block_spec, scratch_shapes: Any = ()) -> None:
        self.grid = (grid,) if isinstance(grid, int) else tuple(grid)
        self.in_specs, self.out_specs, self.scratch_shapes = in_specs, out_specs, scratch_shapes


@final
class Cut:
    """How one array is cut up: a block for each position in the grid."""

    def __init__(self, what: str, spec: Any, shape: Sequence[int]) -> None:
        self.shape = tuple(shape)
        given = None if spec is None or spec is no_block_spec else spec
        if given is not None and not isinstance(given, BlockSpec):
            raise TypeError(f"pallas_call: the spec of {what} must be a BlockSpec, got {given!r} of type {type(given)}")
        dims = self.shape if given is None or given.block_shape is None else given.block_shape
        if len(dims) != len(self.shape):
            raise ValueError(f"pallas_call: the block shape {dims} of {what} must have the rank of the array, whose shape is {self.shape}")
        self.dims: list[BlockDim] = [squeezed if d is None else Blocked(d) if isinstance(d, int) else d for d in dims]
        if unknown := [d for d in self.dims if not isinstance(d, BlockDim)]:
            raise NotImplementedError(f"pallas_call: the block shape of {what} has the entry {unknown[0]!r}")
        self.index_map = None if given is None else given.index_map
        self.sizes = tuple(1 if isinstance(d, Squeezed) else d.block_size for d in self.dims)

    @property
    def block(self) -> tuple[int, ...]:
        """The shape of the kernel's reference."""
        return tuple(n for n, d in zip(self.sizes, self.dims, strict=True) if not isinstance(d, Squeezed))

    @property
    def padding(self) -> list[tuple[int, int, int]]:
        """What is missing before and behind the array, so that all blocks are whole."""
        return [
            (*d.padding, 0) if isinstance(d, Element) else (0, -n % max(size, 1), 0)
            for n, size, d in zip(self.shape, self.sizes, self.dims, strict=True)
        ]

    def starts(self, ids: Sequence[Any]) -> list[Any]:
        """Where the block of a program begins in the padded array."""
        if self.index_map is None:
            return [0] * len(self.dims)
        found = self.index_map(*ids)
        position = tuple(found) if isinstance(found, tuple | list) else (found,)
        if len(position) != len(self.dims):
            raise ValueError(f"pallas_call: an index_map gave {len(position)} positions for a block of {len(self.dims)} axes")
        return [p * n if isinstance(d, Blocked) else p for p, n, d in zip(position, self.sizes, self.dims, strict=True)]
