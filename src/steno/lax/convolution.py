"""Convolutions, and the shapes they have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from steno.core.sizes import UnknownSize
from steno.lax.contraction import PrecisionLike, canonical_precision, dot_general
from steno.lax.operands import Array, ArrayLike, DTypeLike, Shape, as_operand, check_dtype, integers
from steno.lax.shape import reshape, rev, transpose
from steno.ops.convolution import ConvDimensionNumbers, conv_general_dilated as conv_general_dilated_p, standard
from steno.ops.reduce_window import window_patches
from steno.ops.sliding import dilated, padtype_to_pads, slid

ConvGeneralDilatedDimensionNumbers = Any
"""None (batch or out feature, feature, spatial axes in order), three strings such as ("NHWC", "HWIO", "NHWC"), or ConvDimensionNumbers."""

Padding = str | Sequence[tuple[int, int]]


def conv_general_permutations(dimension_numbers: Sequence[str]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Three strings, one for each of lhs, rhs and the result, as the axes of (batch or out feature, feature, spatial axes in rhs's order).
    TypeError for strings that do not agree."""
    lhs, rhs, out = dimension_numbers
    for k, (text, letters) in enumerate(zip(dimension_numbers, (("N", "C"), ("O", "I"), ("N", "C")), strict=True)):
        if len(set(text)) != len(text):
            raise TypeError(f"convolution dimension_numbers[{k}] cannot have duplicate characters, got {text}.")
        if any(c not in text for c in letters):
            raise TypeError(
                f"convolution dimension_numbers[{k}] must contain the characters '{letters[0]}' and '{letters[1]}', got {text}."
            )
    if not set(lhs) - {"N", "C"} == set(rhs) - {"O", "I"} == set(out) - {"N", "C"}:
        raise TypeError(
            f"convolution dimension_numbers elements must each have the same set of spatial characters, got {tuple(dimension_numbers)}."
        )
    spatial = [c for c in rhs if c not in "OI"]
    return (
        tuple(lhs.index(c) for c in ("N", "C", *spatial)),
        tuple(rhs.index(c) for c in ("O", "I", *spatial)),
        tuple(out.index(c) for c in ("N", "C", *spatial)),
    )


def conv_dimension_numbers(lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Any) -> ConvDimensionNumbers:
    """What says which axis is what, in its one form. TypeError if it does not fit the shapes."""
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return ConvDimensionNumbers(*map(tuple, dimension_numbers))
    if len(lhs_shape) != len(rhs_shape):
        raise TypeError(f"convolution requires lhs and rhs ndim to be equal, got {len(lhs_shape)} and {len(rhs_shape)}.")
    if dimension_numbers is None:
        return standard(len(lhs_shape) - 2)
    if not isinstance(dimension_numbers, list | tuple):
        raise TypeError(f"convolution dimension_numbers must be tuple/list or None, got {type(dimension_numbers)}.")
    if len(dimension_numbers) != 3:
        raise TypeError(f"convolution dimension_numbers list/tuple must be length 3, got {len(dimension_numbers)}.")
    if not all(isinstance(e, str) for e in dimension_numbers):
        raise TypeError(f"convolution dimension_numbers elements must be strings, got {tuple(map(type, dimension_numbers))}.")
    for k, e in enumerate(dimension_numbers):
        if len(e) != len(lhs_shape):
            raise TypeError(
                f"convolution dimension_numbers[{k}] must have len equal to the ndim of lhs and rhs, got {len(e)} for lhs and rhs shapes "
                f"{tuple(lhs_shape)} and {tuple(rhs_shape)}."
            )
    return ConvDimensionNumbers(*conv_general_permutations(dimension_numbers))


def _per_axis(name: str, given: Sequence[int] | None, rank: int) -> Shape:
    out = (1,) * rank if given is None else integers("conv_general_dilated", name, given)
    if "dilation" in name and any(n < 1 for n in out):
        raise TypeError(f"conv_general_dilated: all dilations must be positive, got {name} {out}")
    return out


def _width(n: Any) -> Any:
    return n if isinstance(n, UnknownSize) else int(n)


def _pairs(fun: str, padding: Any, rank: int) -> tuple[tuple[int, int], ...]:
    try:
        pads = tuple((_width(low), _width(high)) for low, high in padding)
    except (TypeError, ValueError):
        raise ValueError(f"padding argument to {fun} should be a string or a sequence of (low, high) pairs, got {padding}") from None
    if len(pads) != rank:
        raise TypeError(f"Wrong number of explicit pads for convolution: expected {rank}, got {len(pads)}.")
    return pads


def conv_general_dilated(
    lhs: Array,
    rhs: Array,
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """Sums of products of windows of `lhs` with `rhs`, over the window and the features (of a group).

    padding: "VALID", "SAME", "SAME_LOWER" or (low, high) of each spatial axis, negative ones crop; lhs_dilation, rhs_dilation: distances of
    neighbours. feature_group_count: features of lhs are cut into groups, each with its part of rhs's out features; batch_group_count: the
    batch is. The result has the operands' dtype, or `preferred_element_type`; its axes are as `dimension_numbers` says."""
    fun = "conv_general_dilated"
    x, y = as_operand(fun, lhs, 0), as_operand(fun, rhs, 1)
    dn = conv_dimension_numbers(x.aval.shape, y.aval.shape, dimension_numbers)
    if x.aval.ndim != y.aval.ndim or x.aval.ndim < 2:
        raise ValueError(
            f"{fun} lhs and rhs must have the same number of dimensions, two at least, got shapes {x.aval.shape} and {y.aval.shape}"
        )
    rank = x.aval.ndim - 2
    strides = integers(fun, "window_strides", window_strides)
    if len(strides) != rank:
        raise ValueError(f"{fun} window and window_strides must have the same number of dimensions, but got {rank} and {len(strides)}")
    bases, dilations = _per_axis("lhs_dilation", lhs_dilation, rank), _per_axis("rhs_dilation", rhs_dilation, rank)
    if isinstance(padding, str) or hasattr(padding, "name"):
        if any(n != 1 for n in bases):
            raise ValueError(
                "String padding is not implemented for transposed convolution using this op. Please either exactly specify the required "
                "padding or use conv_transpose."
            )
        sizes = [x.aval.shape[d] for d in dn.lhs_spec[2:]]
        windows = [dilated(y.aval.shape[d], k) for d, k in zip(dn.rhs_spec[2:], dilations, strict=False)]
        pads = tuple(padtype_to_pads(sizes, windows, strides, padding))
    else:
        pads = _pairs(fun, padding, rank)
    wanted = None if preferred_element_type is None else check_dtype(preferred_element_type, fun)
    return conv_general_dilated_p(
        x, y, window_strides=strides, padding=pads, lhs_dilation=bases, rhs_dilation=dilations, dimension_numbers=dn,
        feature_group_count=int(feature_group_count), batch_group_count=int(batch_group_count), precision=canonical_precision(precision),
        preferred_element_type=wanted, out_sharding=None,
    )  # fmt: skip


def conv(
    lhs: Array,
    rhs: Array,
    window_strides: Sequence[int],
    padding: str,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """`conv_general_dilated` of (batch, feature, spatial...) with (out feature, feature, spatial...)."""
    return conv_general_dilated(lhs, rhs, window_strides, padding, precision=precision, preferred_element_type=preferred_element_type)


def conv_with_general_padding(
    lhs: Array,
    rhs: Array,
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """`conv` with explicit padding and dilations."""
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, precision=precision, preferred_element_type=preferred_element_type
    )


def _transposed_padding(window: int, stride: int, padding: str) -> tuple[int, int]:
    """The padding of the dilated operand that undoes a convolution with this one."""
    if padding == "SAME":
        total = window + stride - 2
        before = window - 1 if stride > window - 1 else -(-total // 2)
    elif padding == "VALID":
        total = window + stride - 2 + max(window - stride, 0)
        before = window - 1
    else:
        raise ValueError(f"conv_transpose: padding must be 'SAME', 'VALID' or pairs of integers, got {padding!r}")
    return before, total - before


def conv_transpose(
    lhs: Array,
    rhs: Array,
    strides: Sequence[int],
    padding: Padding,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    transpose_kernel: bool = False,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    use_consistent_padding: bool = False,
) -> Array:
    """A convolution of `lhs`, its elements `strides` apart: what the derivative of a convolution with these strides computes.

    dimension_numbers: None means channels last. transpose_kernel: rhs is that of the convolution that is transposed: its window is turned
    and its features change places. Pairs of padding are those of the dilated operand, or with `use_consistent_padding` of the convolution
    that is transposed."""
    x, y = as_operand("conv_transpose", lhs, 0), as_operand("conv_transpose", rhs, 1)
    if not (x.aval.ndim == y.aval.ndim and x.aval.ndim >= 2):
        raise ValueError(f"conv_transpose: lhs and rhs must have equal numbers of axes, two at least, got {x.aval.ndim} and {y.aval.ndim}")
    rank = x.aval.ndim - 2
    one = (1,) * rank
    if dimension_numbers is None:
        last = (0, rank + 1, *range(1, rank + 1))
        dimension_numbers = ConvDimensionNumbers(last, (rank + 1, rank, *range(rank)), last)
    dn = conv_dimension_numbers(x.aval.shape, y.aval.shape, dimension_numbers)
    strides = integers("conv_transpose", "strides", strides)
    dilations = one if rhs_dilation is None else integers("conv_transpose", "rhs_dilation", rhs_dilation)
    windows = [dilated(y.aval.shape[d], k) for d, k in zip(dn.rhs_spec[2:], dilations, strict=True)]
    if isinstance(padding, str):
        pads: Any = [_transposed_padding(k, s, padding) for k, s in zip(windows, strides, strict=True)]
    else:
        pads = _pairs("conv_transpose", padding, rank)
        if use_consistent_padding:
            pads = [(k - 1 - low, k - 1 - high) for k, (low, high) in zip(windows, pads, strict=True)]
    if transpose_kernel:
        for d in dn.rhs_spec[2:]:
            y = rev(y, (d,))
        order = list(range(rank + 2))
        order[dn.rhs_spec[0]], order[dn.rhs_spec[1]] = dn.rhs_spec[1], dn.rhs_spec[0]
        y = transpose(y, order)
    return conv_general_dilated(
        x, y, one, pads, strides, dilations, dn, precision=precision, preferred_element_type=preferred_element_type
    )  # fmt: skip


def conv_general_dilated_patches(
    lhs: ArrayLike,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers | None = None,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The windows of `lhs`, each as the features of one result: for each feature its window in row-major order."""
    fun = "conv_general_dilated_patches"
    x = as_operand(fun, lhs)
    window = integers(fun, "filter_shape", filter_shape)
    rank = x.aval.ndim - 2
    dn = conv_dimension_numbers(x.aval.shape, (1, 1, *window), dimension_numbers)
    strides = integers(fun, "window_strides", window_strides)
    bases, dilations = _per_axis("lhs_dilation", lhs_dilation, rank), _per_axis("rhs_dilation", rhs_dilation, rank)
    if isinstance(padding, str) or hasattr(padding, "name"):
        sizes = [dilated(x.aval.shape[d], k) for d, k in zip(dn.lhs_spec[2:], bases, strict=True)]
        pads = tuple(padtype_to_pads(sizes, [dilated(n, k) for n, k in zip(window, dilations, strict=True)], strides, padding))
    else:
        pads = _pairs(fun, padding, rank)
    patches = window_patches(
        transpose(x, dn.lhs_spec), fill="zero", window_dimensions=(1, 1, *window), window_strides=(1, 1, *strides),
        padding=((0, 0), (0, 0), *pads), base_dilation=(1, 1, *bases), window_dilation=(1, 1, *dilations),
    )  # fmt: skip
    # (1, 1, window..., batch, features, spatial...)
    order = [rank + 2, rank + 3, *range(2, rank + 2), *range(rank + 4, 2 * rank + 4), 0, 1]
    moved = transpose(patches, order)
    shape = moved.shape
    out = reshape(moved, (shape[0], shape[1] * math.prod(window), *shape[rank + 2 : 2 * rank + 2]))
    out = transpose(out, sorted(range(rank + 2), key=dn.out_spec.__getitem__))
    return out if preferred_element_type is None else out.astype(check_dtype(preferred_element_type, fun))


def conv_general_dilated_local(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: Padding,
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers | None = None,
    precision: PrecisionLike = None,
) -> Array:
    """A convolution whose weights differ from place to place: rhs's spatial axes are the result's, its in features those of
    `conv_general_dilated_patches`."""
    x, y = as_operand("conv_general_dilated_local", lhs, 0), as_operand("conv_general_dilated_local", rhs, 1)
    dn = conv_dimension_numbers(x.aval.shape, y.aval.shape, dimension_numbers)
    patches = conv_general_dilated_patches(
        x, filter_shape, window_strides, padding, lhs_dilation, rhs_dilation, ConvDimensionNumbers(dn.lhs_spec, dn.rhs_spec, dn.out_spec)
    )
    batch_and_spatial = tuple(dn.out_spec[2:]), tuple(dn.rhs_spec[2:])
    product = dot_general(
        patches, y, (((dn.out_spec[1],), (dn.rhs_spec[1],)), batch_and_spatial), precision
    )  # (spatial..., batch, feature)
    rank = len(dn.out_spec) - 2
    order = [0] * (rank + 2)
    order[dn.out_spec[0]], order[dn.out_spec[1]] = rank, rank + 1
    for k, d in enumerate(dn.out_spec[2:]):
        order[d] = k
    return transpose(product, order)


# shapes


def conv_shape_tuple(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], strides: Sequence[int], pads: Padding, batch_group_count: int = 1
) -> Shape:
    """The shape of a convolution of (batch, feature, spatial...) with (out feature, feature, spatial...)."""
    given = [] if isinstance(pads, str) else list(pads)
    if isinstance(pads, str):
        given = padtype_to_pads(lhs_shape[2:], rhs_shape[2:], strides, pads)
    if len(given) != len(lhs_shape) - 2:
        raise TypeError(f"Wrong number of explicit pads for convolution: expected {len(lhs_shape) - 2}, got {len(given)}.")
    if lhs_shape[0] % batch_group_count:
        raise ValueError(f"batch_group_count must divide the batch size, got {batch_group_count} and {lhs_shape[0]}")
    spatial = [slid(n, k, s, (p[0], p[1]), 1, 1) for n, k, s, p in zip(lhs_shape[2:], rhs_shape[2:], strides, given, strict=True)]
    return (lhs_shape[0] // batch_group_count, rhs_shape[0], *spatial)


def _laid_out(shape: Sequence[int], spec: Sequence[int]) -> Shape:
    out = [0] * len(spec)
    for n, d in zip(shape, spec, strict=True):
        out[d] = n
    return tuple(out)


def conv_general_shape_tuple(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], window_strides: Sequence[int], padding: Padding, dimension_numbers: Sequence[str]
) -> Shape:
    """The shape of `conv_general_dilated` without dilations."""
    lhs, rhs, out = conv_general_permutations(dimension_numbers)
    shape = conv_shape_tuple([lhs_shape[d] for d in lhs], [rhs_shape[d] for d in rhs], window_strides, padding)
    return _laid_out(shape, out)


def conv_transpose_shape_tuple(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], window_strides: Sequence[int], padding: Padding, dimension_numbers: Sequence[str]
) -> Shape:
    """The shape of `conv_transpose`."""
    lhs, rhs, out = conv_general_permutations(dimension_numbers)
    sizes, windows = [lhs_shape[d] for d in lhs], [rhs_shape[d] for d in rhs]
    pads = (
        [_transposed_padding(k, s, padding) for k, s in zip(windows[2:], window_strides, strict=True)]
        if isinstance(padding, str)
        else list(padding)
    )
    spatial = [
        slid(n, k, 1, (p[0], p[1]), s, 1) for n, k, s, p in zip(sizes[2:], windows[2:], window_strides, pads, strict=True)
    ]  # fmt: skip
    return _laid_out((sizes[0], windows[0], *spatial), out)


__all__ = [
    "ConvDimensionNumbers", "ConvGeneralDilatedDimensionNumbers", "conv", "conv_dimension_numbers",
    "conv_general_dilated", "conv_general_dilated_local", "conv_general_dilated_p", "conv_general_dilated_patches",
    "conv_general_permutations", "conv_general_shape_tuple", "conv_shape_tuple", "conv_transpose", "conv_transpose_shape_tuple",
    "conv_with_general_padding",
]  # fmt: skip
