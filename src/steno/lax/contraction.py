"""Contractions: dot_general, dot, batch_matmul, and the types that say how precise they should be."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

from steno.core import dtypes
from steno.core.config import config
from steno.lax import records as p
from steno.lax.operands import Array, ArrayLike, DTypeLike, as_operand, check_dtype, integers
from steno.ops.dot import Precision

DotDimensionNumbers = tuple
PrecisionLike = Any


class DotAlgorithm(NamedTuple):
    """An algorithm for a contraction: the types it rounds operands to, and the type it sums in. steno's sums are at least that precise."""

    lhs_precision_type: DTypeLike
    rhs_precision_type: DTypeLike
    accumulation_type: DTypeLike
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


class DotAlgorithmPreset(enum.Enum):
    """Named algorithms."""

    DEFAULT = enum.auto()
    ANY_F8_ANY_F8_F32 = enum.auto()
    ANY_F8_ANY_F8_F32_FAST_ACCUM = enum.auto()
    ANY_F8_ANY_F8_ANY = enum.auto()
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = enum.auto()
    F16_F16_F16 = enum.auto()
    F16_F16_F32 = enum.auto()
    BF16_BF16_BF16 = enum.auto()
    BF16_BF16_F32 = enum.auto()
    BF16_BF16_F32_X3 = enum.auto()
    BF16_BF16_F32_X6 = enum.auto()
    BF16_BF16_F32_X9 = enum.auto()
    TF32_TF32_F32 = enum.auto()
    TF32_TF32_F32_X3 = enum.auto()
    F32_F32_F32 = enum.auto()
    F64_F64_F64 = enum.auto()


_PRECISIONS = {
    "highest": Precision.HIGHEST, "float32": Precision.HIGHEST,
    "high": Precision.HIGH, "bfloat16_3x": Precision.HIGH, "tensorfloat32": Precision.HIGH,
    "default": Precision.DEFAULT, "bfloat16": Precision.DEFAULT, "fastest": Precision.DEFAULT,
}  # fmt: skip


def _one_precision(x: Any) -> Precision:
    if isinstance(x, Precision):
        return x
    if x is None:
        return Precision.DEFAULT
    if isinstance(x, str) and x in _PRECISIONS:
        return _PRECISIONS[x]
    raise ValueError(f"precision: expected None, a Precision or one of {', '.join(_PRECISIONS)}, got {x!r}")


def canonical_precision(precision: PrecisionLike) -> Any:
    """None, a DotAlgorithm(Preset), or a pair of Precisions, one for each operand. ValueError for what is none of what JAX takes."""
    if precision is None:
        precision = config._state.default_matmul_precision
        if precision is None or precision == "default":
            return None
    if isinstance(precision, DotAlgorithm | DotAlgorithmPreset):
        return precision
    if isinstance(precision, str) and precision in DotAlgorithmPreset.__members__:
        return DotAlgorithmPreset[precision]
    if isinstance(precision, str) and precision not in _PRECISIONS:
        raise ValueError(
            f"precision: expected None, one of {', '.join(_PRECISIONS)}, a Precision, a pair of these, a DotAlgorithm or a preset's name, "
            f"got {precision!r}"
        )
    if isinstance(precision, list | tuple):
        if len(precision) != 2:
            raise ValueError(f"precision: a pair has one value for each operand, got {precision}")
        return tuple(map(_one_precision, precision))
    one = _one_precision(precision)
    return (one, one)


def dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: Any,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Sums of products: `((lhs contracting, rhs contracting), (lhs batch, rhs batch))`.

    The result's axes are the batch axes, lhs's others, rhs's others. Its dtype is `preferred_element_type`, or that of the wider
    operand."""
    (lc, rc), (lb, rb) = dimension_numbers
    numbers = (
        (integers("dot_general", "contracting dimensions", lc), integers("dot_general", "contracting dimensions", rc)),
        (integers("dot_general", "batch dimensions", lb), integers("dot_general", "batch dimensions", rb)),
    )
    wanted = None if preferred_element_type is None else check_dtype(preferred_element_type, "dot_general")
    return p.dot_general_p(
        as_operand("dot_general", lhs, 0),
        as_operand("dot_general", rhs, 1),
        dimension_numbers=numbers,
        precision=canonical_precision(precision),
        preferred_element_type=wanted,
        out_sharding=None,
    )


def dot(
    lhs: Array,
    rhs: Array,
    *args: Any,
    dimension_numbers: Any = None,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """Vector and matrix products; other contractions with `dimension_numbers` as of `dot_general`."""
    if args:
        raise TypeError("dot() takes 2 positional arguments; precision and preferred_element_type are keywords")
    x, y = as_operand("dot", lhs, 0), as_operand("dot", rhs, 1)
    if dimension_numbers is None:
        m, n = x.aval.ndim, y.aval.ndim
        if not (1 <= m <= 2 and 1 <= n <= 2 and (m >= n or x.aval.shape[-1] == y.aval.shape[0])) or x.aval.shape[-1] != y.aval.shape[0]:
            error = ValueError if not (1 <= m <= 2 and 1 <= n <= 2) or (m, n) == (1, 2) else TypeError
            raise error(
                f"dot: without dimension_numbers, operands must be vectors or matrices that fit, got shapes {x.aval.shape} "
                f"and {y.aval.shape}"
            )
        dimension_numbers = (((m - 1,), (0,)), ((), ()))
    return dot_general(x, y, dimension_numbers, precision, preferred_element_type)


def batch_matmul(lhs: Array, rhs: Array, precision: PrecisionLike = None) -> Array:
    """Products of matrices in the last two axes, for each index of the leading ones, which are equal."""
    x, y = as_operand("batch_matmul", lhs, 0), as_operand("batch_matmul", rhs, 1)
    n, m = x.aval.ndim, y.aval.ndim
    if min(n, m) < 2:
        raise ValueError(f"batch_matmul: expected matrices, got shapes {x.aval.shape} and {y.aval.shape}")
    if n != m:
        raise ValueError(f"batch_matmul: operands must have equal numbers of axes, got shapes {x.aval.shape} and {y.aval.shape}")
    batch = tuple(range(n - 2))
    return dot_general(x, y, (((n - 1,), (n - 2,)), (batch, batch)), precision)


def result_dtype(*xs: Any) -> Any:
    return dtypes.result_type(*xs)


def contracting(pairs: Sequence[tuple[int, int]]) -> Any:
    """((lhs axes), (rhs axes)) of pairs of axes."""
    return tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
