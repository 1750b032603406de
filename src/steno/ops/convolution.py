"""Convolutions: sums of products over sliding windows and the features of a group, for any layout, strides, dilations and groups.

Each result is, for each block of 256 consecutive k, one chain of fused multiply-adds in ascending k that starts at zero, and the blocks are
added in order; k runs over the window's taps in row-major order and for each over the features of the group (`runtime/native/conv.h`). So
the result does not depend on layout, threads or vector width. Narrow floats are multiplied and summed in float32, integers of fewer than 32
bits in int32. Padding is zero: a weight that is infinite or NaN meets it as it meets any zero.

Few products for each result become straight-line code, which fuses with what is around it; the rest calls `steno_conv` with a plan in which
all layouts are strides, so that nothing but padding moves in memory.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from steno.core import dtypes
from steno.core.aval import ShapedArray
from steno.core.op import Op
from steno.core.record import record, replace
from steno.ir.expr import Builder, Expr, Scalar
from steno.ir.index import Index, row_major
from steno.ir.kinds import Library, Map, Read
from steno.ops.dot import compute_dtype
from steno.ops.families import converted
from steno.ops.reduce_window import _patches_oracle
from steno.ops.samples import sample_dtypes, small
from steno.ops.shape import all_weak, rev
from steno.ops.sliding import Shape, Sliding, axes_of, both, counts, dilated, taps_at_most
from steno.transforms import rules
from steno.transforms.rules import Axis, Linear, by_argument, by_operand

UNROLLED, FEW_FEATURES, LITTLE = 64, 8, 1 << 15
"""Up to `UNROLLED` products for a result are straight-line code where a group has too few features to share operands, or all is little work
(in products)."""
PROGRAM_POSITIONS, PROGRAM_WORK = 16, 1 << 18
"""A plan of n programs is worth it from so many times n * n positions and n products on."""
BLOCK_POSITIONS, BLOCK_WORK = 1 << 10, 1 << 24
"""So many positions and products are worth padding some samples apart: they pack the weights again."""
DTYPE_CODES = {
    n: k
    for k, n in enumerate(
        ("float32", "float64", "complex64", "complex128", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")
    )
}


class ConvDimensionNumbers(NamedTuple):
    """Which axis is what. lhs_spec: (batch, feature, spatial...); rhs_spec: (out feature, in feature, spatial...); out_spec as lhs_spec."""

    lhs_spec: Sequence[int]
    rhs_spec: Sequence[int]
    out_spec: Sequence[int]


@final
@record(frozen=True)
class Geometry:
    """A convolution of arrays of these shapes. `groups` are of features, or of the batch (`by_batch`)."""

    lhs: Shape
    rhs: Shape
    out: Shape
    numbers: ConvDimensionNumbers
    axes: tuple[Sliding, ...]  # spatial
    groups: int
    by_batch: bool

    @property
    def channels(self) -> int:
        """Features of lhs in a group."""
        return self.rhs[self.numbers.rhs_spec[1]]

    @property
    def features(self) -> int:
        """Features of the result in a group."""
        return self.out[self.numbers.out_spec[1]] // self.groups

    @property
    def batch(self) -> int:
        return self.out[self.numbers.out_spec[0]]


def geometry(
    lhs: Shape,
    rhs: Shape,
    *,
    window_strides: Shape,
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Shape,
    rhs_dilation: Shape,
    dimension_numbers: ConvDimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
    **_: Any,
) -> Geometry:
    dn = dimension_numbers
    sizes = tuple(lhs[d] for d in dn.lhs_spec[2:])
    window = tuple(rhs[d] for d in dn.rhs_spec[2:])
    axes = axes_of(sizes, window, window_strides, padding, lhs_dilation, rhs_dilation)
    out = [0] * len(lhs)
    out[dn.out_spec[0]] = lhs[dn.lhs_spec[0]] // batch_group_count
    out[dn.out_spec[1]] = rhs[dn.rhs_spec[0]]
    for d, n in zip(dn.out_spec[2:], counts(axes), strict=True):
        out[d] = n
    return Geometry(lhs, rhs, tuple(out), dn, axes, feature_group_count * batch_group_count, batch_group_count > 1)


# types


def _check(x: ShapedArray, y: ShapedArray, params: dict[str, Any]) -> None:
    op = "conv_general_dilated"
    dn: ConvDimensionNumbers = params["dimension_numbers"]
    groups, batches = params["feature_group_count"], params["batch_group_count"]
    if x.ndim != y.ndim or x.ndim < 2:
        raise TypeError(f"convolution requires lhs and rhs ndim to be equal, and two at least, got {x.ndim} and {y.ndim}.")
    rank = x.ndim - 2
    for name in ("window_strides", "padding", "lhs_dilation", "rhs_dilation"):
        given = params[name]
        if len(given) != rank:
            error = TypeError if name == "padding" else ValueError
            raise error(f"{op}: {name} must have one entry for each of {rank} spatial axes, got {given}")
        if name != "padding" and any(n < 1 for n in given):
            error = TypeError if "dilation" in name else ValueError
            raise error(f"{op}: every element of {name} must be strictly positive, got {given}")
    for name, count in (("feature_group_count", groups), ("batch_group_count", batches)):
        if not count > 0:
            raise ValueError(f"{op} {name} must be a positive integer, got {count}.")
    features, out = x.shape[dn.lhs_spec[1]], y.shape[dn.rhs_spec[0]]
    if features % groups:
        raise ValueError(f"{op} feature_group_count must divide lhs feature dimension size, but {groups} does not divide {features}.")
    if features // groups != y.shape[dn.rhs_spec[1]]:
        raise ValueError(
            f"{op} lhs feature dimension size divided by feature_group_count must equal the rhs input feature dimension size, but "
            f"{features} // {groups} != {y.shape[dn.rhs_spec[1]]}."
        )
    for name, count in (("feature_group_count", groups), ("batch_group_count", batches)):
        if out % count:
            raise ValueError(
                f"{op} rhs output feature dimension size must be a multiple of {name}, but {out} is not a multiple of {count}."
            )
    if x.shape[dn.lhs_spec[0]] % batches:
        raise ValueError(
            f"{op} batch_group_count must divide lhs batch dimension size, but {batches} does not divide {x.shape[dn.lhs_spec[0]]}."
        )
    if groups > 1 and batches > 1:
        raise ValueError(f"At most one of batch_group_count and feature_group_count may be > 1, got {batches} and {groups}")


def _typ(x: ShapedArray, y: ShapedArray, *, preferred_element_type: Any, **params: Any) -> ShapedArray:
    op = "conv_general_dilated"
    _check(x, y, params)
    if x.dtype != y.dtype:
        raise TypeError(f"lax.{op} requires arguments to have the same dtypes, got {dtypes.name(x.dtype)}, {dtypes.name(y.dtype)}.")
    if dtypes.kind(x.dtype) not in "biufc":
        raise TypeError(f"{op}: expected operands of numeric dtypes, got {dtypes.name(x.dtype)}")
    shape = geometry(x.shape, y.shape, **params).out
    if preferred_element_type is None:
        return ShapedArray(shape, x.dtype, all_weak(x, y))
    wanted = preferred_element_type
    own, given = dtypes.kind(x.dtype), dtypes.kind(wanted)
    if (own in "biu") != (given in "biu") and not (own in "iu" and given == "f") or (own == "c") != (given == "c"):
        raise TypeError(
            f"{op}: preferred_element_type must be of the operands' kind (or floating, for integers), got {dtypes.name(wanted)} for "
            f"{dtypes.name(x.dtype)}"
        )
    if own in "iu" and given in "iu" and own != given:
        raise TypeError(
            f"{op}: `preferred_element_type` must have the same signedness as the original type, got {dtypes.name(wanted)} for "
            f"{dtypes.name(x.dtype)}"
        )
    if dtypes.itemsize_bits(wanted) < dtypes.itemsize_bits(x.dtype):
        raise TypeError(
            f"{op}: `preferred_element_type` must not be narrower than the original type, got {dtypes.name(wanted)} for "
            f"{dtypes.name(x.dtype)}"
        )
    return ShapedArray(shape, wanted, all_weak(x, y))


# the specification


def _oracle(x: np.ndarray, y: np.ndarray, *, preferred_element_type: Any, **params: Any) -> np.ndarray:
    g = geometry(x.shape, y.shape, **params)
    dn = g.numbers
    out = preferred_element_type or x.dtype
    compute = compute_dtype(x.dtype, y.dtype, out)
    exact = {np.dtype(np.float32): np.float64, np.dtype(np.complex64): np.complex128}.get(compute, compute)
    lhs = x.astype(compute).astype(exact).transpose(dn.lhs_spec)
    rhs = y.astype(compute).astype(exact).transpose(dn.rhs_spec)
    n, rank = g.batch, len(g.axes)
    if g.by_batch:  # groups of the batch become groups of features
        lhs = np.moveaxis(lhs.reshape(g.groups, n, *lhs.shape[1:]), 0, 1).reshape(n, -1, *lhs.shape[2:])
    patches = _patches_oracle(
        lhs, fill="zero", window_dimensions=(1, 1, *(a.window for a in g.axes)), window_strides=(1, 1, *params["window_strides"]),
        padding=((0, 0), (0, 0), *params["padding"]), base_dilation=(1, 1, *params["lhs_dilation"]),
        window_dilation=(1, 1, *params["rhs_dilation"]),
    )  # fmt: skip
    spatial = counts(g.axes)
    patches = patches.reshape(*(a.window for a in g.axes), n, g.groups, g.channels, *spatial)
    weights = rhs.reshape(g.groups, g.features, g.channels, *(a.window for a in g.axes))
    w, s = "stuv"[:rank], "wxyz"[:rank]
    product = np.einsum(f"{w}ngc{s},goc{w}->ngo{s}", patches, weights, optimize=True)
    product = product.reshape(n, g.groups * g.features, *spatial).astype(compute)
    return np.ascontiguousarray(product.astype(out).transpose(_inverse(dn.out_spec)))


def _inverse(spec: Sequence[int]) -> list[int]:
    return sorted(range(len(spec)), key=spec.__getitem__)


# straight-line code


def _unrolled_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], **params: Any) -> Map:
    g = geometry(avals_in[0].shape, avals_in[1].shape, **params)
    dn, dtype = g.numbers, avals_out[0].dtype
    fused = dtypes.kind(dtype) == "f"

    def body(b: Builder, indices: Sequence[Index], reads: Sequence[Read]) -> Scalar:
        sample, feature = (indices[d] for d in dn.out_spec[:2])
        group = feature // g.features if g.groups > 1 else Index(0)
        sample = sample + group * g.batch if g.by_batch else sample
        first = Index(0) if g.by_batch else group * g.channels
        zero, acc = b.const(0, dtype), b.const(0, dtype)
        for taps in itertools.product(*(a.taps(b, indices[d]) for a, d in zip(g.axes, dn.out_spec[2:], strict=True))):
            guard: Expr | None = None
            for t in taps:
                guard = both(b, guard, t.guard)
            for c in range(g.channels):
                at = _placed(dn.lhs_spec, [sample, first + c, *(t.at for t in taps)])
                x = reads[0](at, guard)
                x = x if guard is None else b.select(guard, x, zero)
                place = _placed(dn.rhs_spec, [feature, Index(c), *(t.element for t in taps)])
                if all(t.element.hi < a.window for t, a in zip(taps, g.axes, strict=True)):
                    y = reads[1](place)
                else:  # where there is no tap the element may not exist
                    assert guard is not None
                    y = b.select(guard, reads[1](place, guard), zero)
                acc = b.fma(x, y, acc) if fused else b.add(acc, b.mul(x, y))
        return acc

    return Map(body)


def _placed(spec: Sequence[int], indices: Sequence[Index]) -> list[Index]:
    out = [Index(0)] * len(spec)
    for d, i in zip(spec, indices, strict=True):
        out[d] = i
    return out


def _same_typ(x: ShapedArray, y: ShapedArray, **params: Any) -> ShapedArray:
    return x.update(shape=geometry(x.shape, y.shape, **params).out)


# plans for steno_conv


@final
@record(frozen=True)
class Plan:
    """`meta` as `steno_conv` reads it; `padded`: the shape of lhs with zeros around it, None where there is no padding."""

    meta: tuple[int, ...]
    padded: Shape | None


@final
@record(frozen=True)
class _Phase:
    """Results first, first + every, ... along an axis, and their taps: pairs (place in lhs for the first result, element of the window)."""

    first: int
    every: int
    count: int
    step: int  # in lhs, from one result to the next
    taps: tuple[tuple[int, int], ...]


def _phases(a: Sliding) -> list[_Phase]:
    every = a.base // math.gcd(a.stride, a.base)
    out = []
    for first in range(min(every, a.count)):
        count, step = -(-(a.count - first) // every), every * a.stride // a.base
        taps = []
        for j in range(a.window):
            position = first * a.stride + j * a.dilation - a.low
            if position % a.base == 0:
                at = position // a.base
                if at + step * (count - 1) >= 0 and at < a.size:
                    taps.append((at, j))
        out.append(_Phase(first, every, count, step, tuple(taps)))
    return out


def _without_zeros(p: _Phase, size: int) -> list[_Phase]:
    """The phase in parts, of each of which all results have the same taps within the array: the zeros around it are left out."""
    ends = {p.count}
    for at, _ in p.taps:  # it is in the array for the results from the first of these to before the second
        ends.update((-(at // p.step), -((at - size) // p.step)))
    out, begin = [], 0
    for end in sorted(e for e in ends if 0 < e <= p.count):
        taps = [(at + begin * p.step, j) for at, j in p.taps]
        inside = tuple(t for t in taps if 0 <= t[0] < size)
        out.append(_Phase(p.first + begin * p.every, p.every, end - begin, p.step, inside))
        begin = end
    return out


def _are_few(g: Geometry, phases: Sequence[Sequence[_Phase]]) -> bool:
    """Whether there is enough work for so many programs: each packs its weights, and is handed to the threads."""
    positions, programs = g.batch * math.prod(counts(g.axes)), math.prod(map(len, phases))
    return positions >= PROGRAM_POSITIONS * programs**2 and _work(g) >= PROGRAM_WORK * programs


def plan(g: Geometry, dtype: Any) -> Plan:
    """Where there are zeros around the array, the results are cut up where the taps that meet them change, and those taps are left out: a
    weight that is not finite spoils no result that it has no part in. If that makes too many programs, or features are no neighbours in the
    result, the array is copied with its zeros, some samples at a time."""
    phases = [_phases(a) for a in g.axes]
    made = _planned(g, dtype, phases)
    if made.padded is None:
        return made
    parts = [[q for p in of_axis for q in _without_zeros(p, a.size)] for a, of_axis in zip(g.axes, phases, strict=True)]
    if g.numbers.out_spec[1] == len(g.out) - 1 and _are_few(g, parts):
        return _planned(g, dtype, parts)
    if g.by_batch or g.numbers.lhs_spec[0] != 0:
        return made
    least = max(BLOCK_POSITIONS / max(math.prod(counts(g.axes)), 1), BLOCK_WORK * g.batch / max(_work(g), 1))
    block = next((n for n in range(1, g.batch) if g.batch % n == 0 and n >= least), g.batch)
    return made if block == g.batch else _planned(g, dtype, phases, block)


def _work(g: Geometry) -> int:
    """Products of elements, those with zeros counted."""
    return g.batch * math.prod(counts(g.axes)) * g.groups * g.features * g.channels * math.prod(a.window for a in g.axes)


def _planned(g: Geometry, dtype: Any, phases: Sequence[Sequence[_Phase]], block: int | None = None) -> Plan:
    """The plan, `block` samples at a time where there is padding."""
    out, batches = row_major(g.out), g.numbers.out_spec[0]
    blocks = 1
    if block is not None:
        blocks = g.batch // block
        g = replace(g, lhs=(block, *g.lhs[1:]), out=(*g.out[:batches], block, *g.out[batches + 1 :]))
    dn, rank = g.numbers, len(g.lhs)
    low, padded = [0] * rank, list(g.lhs)
    for a, d, of_axis in zip(g.axes, dn.lhs_spec[2:], phases, strict=True):
        places = [at + k for p in of_axis for at, _ in p.taps for k in (0, p.step * (p.count - 1))]
        low[d] = max(0, -min(places, default=0))
        padded[d] = low[d] + max(a.size, max(places, default=0) + 1)
    lhs, rhs = row_major(tuple(padded)), row_major(g.rhs)
    batch = (g.batch, lhs[dn.lhs_spec[0]], out[dn.out_spec[0]])
    split = g.batch * lhs[dn.lhs_spec[0]] if g.by_batch else g.channels * lhs[dn.lhs_spec[1]]
    programs = []
    for chosen in itertools.product(*phases):
        axes = [batch]
        lhs0 = out0 = 0
        for p, d, e in zip(chosen, dn.lhs_spec[2:], dn.out_spec[2:], strict=True):
            axes.append((p.count, p.step * lhs[d], p.every * out[e]))
            lhs0 += low[d] * lhs[d]
            out0 += p.first * out[e]
        rows = _merged(axes)
        by_positions = dtypes.kind(dtype) == "f" and any(_lanes_are_positions(g.features, out[dn.out_spec[1]] == 1, *r) for r in rows)
        taps = [
            [(at * lhs[d], j * rhs[e]) for at, j in p.taps] for p, d, e in zip(chosen, dn.lhs_spec[2:], dn.rhs_spec[2:], strict=True)
        ]  # fmt: skip
        programs.append((by_positions, lhs0, out0, rows, taps))
    meta = [
        DTYPE_CODES[dtype.name], g.groups, split if g.groups > 1 else 0, g.features * rhs[dn.rhs_spec[0]],
        g.features * out[dn.out_spec[1]], g.features, rhs[dn.rhs_spec[0]], out[dn.out_spec[1]], g.channels, lhs[dn.lhs_spec[1]],
        rhs[dn.rhs_spec[1]],
    ]  # fmt: skip
    pads = tuple(padded) != g.lhs
    meta.append(int(pads))
    if pads:
        meta += [blocks, math.prod(g.lhs), g.batch * out[batches]]
        meta += [dtype.itemsize, rank, *(v for d in range(rank) for v in (g.lhs[d], padded[d], low[d]))]
    meta += [len(programs), len(g.axes)]
    for by_positions, lhs0, out0, rows, taps in programs:
        row = max(rows, key=lambda r: (r[1] == 1 and r[0] >= 12, r[0]) if by_positions else r[0])
        meta += [int(by_positions), lhs0, out0, len(rows), *(v for r in rows if r is not row for v in r), *row]
        for pairs in taps:
            meta += [len(pairs), *(v for pair in pairs for v in pair)]
    return Plan(tuple(meta), tuple(padded) if pads else None)


def _lanes_are_positions(features: int, features_are_neighbours: bool, count: int, step: int, out_step: int) -> bool:
    """Whether vectors had better run along an axis of positions than along the features: they must be neighbours in lhs, and should be in
    the result. Sixteen lanes are presumed."""
    if step != 1 or count < 12:
        return False
    if features_are_neighbours or out_step != 1:
        return features < 2 * FEW_FEATURES and count >= 16
    return _filled(count) >= 0.7 * _filled(features)


def _filled(n: int) -> float:
    """What part of the lanes of vectors of sixteen n elements fill."""
    return n / (-(-n // 16) * 16)


def _merged(axes: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Axes of positions, (count, step in lhs, step in the result); two that are steps of one become one."""
    out: list[tuple[int, int, int]] = []
    for a in sorted((a for a in axes if a[0] != 1), key=lambda a: (-a[2], -a[1])):
        if out and out[-1][1] == a[0] * a[1] and out[-1][2] == a[0] * a[2]:
            out[-1] = (out[-1][0] * a[0], a[1], a[2])
        else:
            out.append(a)
    return out or [(1, 1, 1)]


def _planned_typ(x: ShapedArray, y: ShapedArray, **params: Any) -> list[ShapedArray]:
    g = geometry(x.shape, y.shape, **params)
    scratch = plan(g, x.dtype).padded
    return [x.update(shape=g.out), *([] if scratch is None else [x.update(shape=scratch)])]


def _planned_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], **params: Any) -> Library:
    x, y = avals_in
    return Library("steno_conv", plan(geometry(x.shape, y.shape, **params), x.dtype).meta)


def _operations(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], **params: Any) -> float:
    """A multiplication and an addition for each channel and each tap; zeros around the array count."""
    g = geometry(avals_in[0].shape, avals_in[1].shape, **params)
    return 2.0 * math.prod(g.out) * g.channels * math.prod(g.rhs[d] for d in g.numbers.rhs_spec[2:])


unrolled_conv = Op("unrolled_conv", typ=_same_typ, lower=_unrolled_lower)
"""A convolution as straight-line code; operands and result have the dtype that is computed in."""
planned_conv = Op("planned_conv", typ=_planned_typ, lower=_planned_lower, multiple_results=True, cost=_operations)
"""A convolution by `steno_conv`: the result and, where there is padding, the memory for it."""


def _expand(x: Any, y: Any, *, preferred_element_type: Any, precision: Any, out_sharding: Any, **params: Any) -> Any:
    out = x.dtype if preferred_element_type is None else preferred_element_type
    compute = compute_dtype(x.dtype, y.dtype, out)
    lhs, rhs = converted(x, compute), converted(y, compute)
    g = geometry(x.shape, y.shape, **params)
    products = taps_at_most(g.axes) * g.channels
    few = g.features == 1 or g.features < FEW_FEATURES and (g.groups > 1 or products * math.prod(g.out) <= LITTLE)
    if products <= UNROLLED and (few or compute.name not in ("float32", "float64")):
        return converted(unrolled_conv(lhs, rhs, **params), out)
    return converted(planned_conv(lhs, rhs, **params)[0], out)


# derivatives


def _swapped(spec: Sequence[int]) -> tuple[int, ...]:
    return (spec[1], spec[0], *spec[2:])


def _split_axis(x: Any, axis: int, size: int) -> Any:
    """An axis of n becomes two of size and n // size."""
    return rules.reshape(x, (*x.shape[:axis], size, x.shape[axis] // size, *x.shape[axis + 1 :]))


def _merge_axis(x: Any, source: int, target: int) -> Any:
    """Axis `source` goes in front of the axis that is `target` without it, and the two become one."""
    moved = rules.move_axis(x, source, target)
    return rules.reshape(moved, (*moved.shape[:target], moved.shape[target] * moved.shape[target + 1], *moved.shape[target + 2 :]))


def _common(x: Any, y: Any) -> tuple[Any, Any]:
    """Two operands of one dtype: the wider one's."""
    wide = max((x.dtype, y.dtype), key=lambda d: d.itemsize)
    return converted(x, wide), converted(y, wide)


def _conv(x: Any, y: Any, like: Linear, **params: Any) -> Any:
    x, y = _common(x, y)
    return converted(conv_general_dilated(x, y, preferred_element_type=None, **params), like.dtype)


def _transpose_lhs(
    ct: Any, x: Linear, y: Any, *, window_strides: Shape, padding: Sequence[tuple[int, int]], lhs_dilation: Shape, rhs_dilation: Shape,
    dimension_numbers: ConvDimensionNumbers, feature_group_count: int, batch_group_count: int, preferred_element_type: Any, **params: Any,
) -> Any:  # fmt: skip
    """The convolution of the cotangent with the turned window, strides and lhs dilation exchanged."""
    dn = dimension_numbers
    pads = []
    for d, e, o, s, p, ld, rd in zip(
        dn.lhs_spec[2:], dn.rhs_spec[2:], dn.out_spec[2:], window_strides, padding, lhs_dilation, rhs_dilation, strict=True
    ):
        window, room = dilated(y.shape[e], rd), dilated(x.shape[d], ld)
        before = window - p[0] - 1
        pads.append((before, room + window - 1 - dilated(ct.shape[o], s) - before))
    groups = feature_group_count * batch_group_count
    w = y
    if groups > 1:
        out, into = dn.rhs_spec[:2]
        w = _merge_axis(_split_axis(w, out, groups), out, into)
    w = rev(w, dimensions=tuple(dn.rhs_spec[2:])) if len(dn.rhs_spec) > 2 else w
    numbers = ConvDimensionNumbers(dn.out_spec, _swapped(dn.rhs_spec), dn.lhs_spec)
    out = _conv(
        ct, w, x, window_strides=lhs_dilation, padding=tuple(pads), lhs_dilation=window_strides, rhs_dilation=rhs_dilation,
        dimension_numbers=numbers, feature_group_count=groups, batch_group_count=1, **params,
    )  # fmt: skip
    if batch_group_count > 1:
        batch, feature = dn.lhs_spec[:2]
        out = _merge_axis(_split_axis(out, feature, batch_group_count), feature, batch)
    return out


def _transpose_rhs(
    ct: Any, x: Any, y: Linear, *, window_strides: Shape, padding: Sequence[tuple[int, int]], lhs_dilation: Shape, rhs_dilation: Shape,
    dimension_numbers: ConvDimensionNumbers, feature_group_count: int, batch_group_count: int, preferred_element_type: Any, **params: Any,
) -> Any:  # fmt: skip
    """The convolution of lhs with the cotangent as its window: batch and features change places."""
    dn = dimension_numbers
    pads = []
    for d, e, o, s, p, ld, rd in zip(
        dn.lhs_spec[2:], dn.rhs_spec[2:], dn.out_spec[2:], window_strides, padding, lhs_dilation, rhs_dilation, strict=True
    ):
        room = dilated(ct.shape[o], s) - dilated(x.shape[d], ld)
        pads.append((p[0], room + dilated(y.shape[e], rd) - p[0] - 1))
    if 0 in ct.shape or 0 in x.shape:
        return rules.zeros(y.aval)
    numbers = ConvDimensionNumbers(_swapped(dn.lhs_spec), _swapped(dn.out_spec), _swapped(dn.rhs_spec))
    return _conv(
        x, ct, y, window_strides=rhs_dilation, padding=tuple(pads), lhs_dilation=lhs_dilation, rhs_dilation=window_strides,
        dimension_numbers=numbers, feature_group_count=batch_group_count, batch_group_count=feature_group_count, **params,
    )  # fmt: skip


# batches


def _batch(axis: Axis, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> tuple[Any, int]:
    """One more group of features, or a larger batch, or more features of the result."""
    (x, y), (d, e) = args, dims
    dn: ConvDimensionNumbers = params["dimension_numbers"]
    lhs_batch, lhs_feature = dn.lhs_spec[:2]
    rhs_out = dn.rhs_spec[0]
    out_batch, out_feature = dn.out_spec[:2]
    groups, batches = params["feature_group_count"], params["batch_group_count"]
    size = axis.size
    if not size:
        elements = [x.aval.update(shape=tuple(n for k, n in enumerate(x.shape) if k != dim)) for x, dim in zip(args, dims, strict=True)]
        one = _typ(*elements, **params)
        return rules.full((0, *one.shape), 0, one.dtype), 0
    if d is not None and e is not None:
        w = _merge_axis(y, e, rhs_out)
        if batches > 1:
            z = conv_general_dilated(_merge_axis(x, d, lhs_batch), w, **params | {"batch_group_count": batches * size})
        else:
            z = conv_general_dilated(_merge_axis(x, d, lhs_feature), w, **params | {"feature_group_count": groups * size})
        return _split_axis(z, out_feature, size), out_feature
    if d is not None:
        if batches == 1:
            z = conv_general_dilated(_merge_axis(x, d, lhs_batch), y, **params)
        else:  # the new axis goes inside the groups of the batch
            moved = rules.move_axis(x, d, lhs_batch + 1)
            split = rules.reshape(
                moved, (*moved.shape[:lhs_batch], batches, moved.shape[lhs_batch] // batches, *moved.shape[lhs_batch + 1 :])
            )
            z = conv_general_dilated(_flat(rules.move_axis(split, lhs_batch + 2, lhs_batch + 1), lhs_batch, 3), y, **params)
        return _split_axis(z, out_batch, size), out_batch
    count = groups * batches
    if count == 1:
        z = conv_general_dilated(x, _merge_axis(y, e, rhs_out), **params)
        return _split_axis(z, out_feature, size), out_feature
    moved = rules.move_axis(y, e, rhs_out + 1)
    split = _split_axis(moved, rhs_out, count)  # (groups, features, the new axis)
    w = _flat(rules.move_axis(split, rhs_out + 2, rhs_out + 1), rhs_out, 3)
    z = _split_axis(_split_axis(conv_general_dilated(x, w, **params), out_feature, count), out_feature + 1, size)
    return _flat(rules.move_axis(z, out_feature + 1, out_feature), out_feature + 1, 2), out_feature


def _flat(x: Any, first: int, count: int) -> Any:
    """`count` axes from `first` on become one."""
    return rules.reshape(x, (*x.shape[:first], math.prod(x.shape[first : first + count]), *x.shape[first + count :]))


# samples


def standard(rank: int) -> ConvDimensionNumbers:
    """All arrays (batch or out feature, feature, spatial...)."""
    spec = tuple(range(rank + 2))
    return ConvDimensionNumbers(spec, spec, spec)


def _params(rank: int, **given: Any) -> dict[str, Any]:
    one = (1,) * rank
    default = dict(
        window_strides=one, padding=((0, 0),) * rank, lhs_dilation=one, rhs_dilation=one, dimension_numbers=standard(rank),
        feature_group_count=1, batch_group_count=1, precision=None, preferred_element_type=None, out_sharding=None,
    )  # fmt: skip
    return default | given


LAST = ConvDimensionNumbers((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
"""NHWC, HWIO, NHWC."""


def _samples() -> Iterable[Any]:
    for d in sample_dtypes():
        yield (small((2, 2, 5), d), small((3, 2, 3), d, 1)), _params(1, padding=((1, 1),))
        yield (small((2, 2, 5), d), small((3, 2, 5), d, 1)), _params(1, padding=((40, 1),), lhs_dilation=(9,), rhs_dilation=(8,))
    i8, bf16 = small((1, 30, 9), "int8"), small((1, 30, 9), "bfloat16")
    yield (i8, small((2, 30, 3), "int8", 1)), _params(1, preferred_element_type=np.dtype("int32"))
    yield (bf16, small((2, 30, 3), "bfloat16", 1)), _params(1, preferred_element_type=np.dtype("float32"))
    yield (i8, small((2, 30, 3), "int8", 1)), _params(1, preferred_element_type=np.dtype("float32"))
    f = "float32"
    shapes = [
        ((2, 3), (4, 3), _params(0)),
        ((2, 3), (40, 3), _params(0)),
        ((2, 3, 7), (4, 3, 3), _params(1, window_strides=(2,))),
        ((1, 1, 400), (1, 1, 90), _params(1, padding=((89, 89),))),
        ((2, 1, 300), (3, 1, 70), _params(1, padding=((3, 5),))),
        ((2, 3, 6, 7), (20, 3, 3, 2), _params(2, padding=((1, 1), (0, 2)))),
        ((2, 3, 6, 7), (20, 3, 3, 2), _params(2, padding=((1, 1), (0, 2)), window_strides=(2, 3))),
        ((2, 3, 6, 7), (20, 3, 3, 2), _params(2, padding=((4, 3), (2, 2)), lhs_dilation=(2, 3), window_strides=(1, 2))),
        ((2, 3, 6, 7), (20, 3, 3, 2), _params(2, padding=((4, 3), (2, 2)), lhs_dilation=(3, 2), rhs_dilation=(2, 3))),
        ((2, 3, 6, 7), (20, 3, 3, 2), _params(2, padding=((-1, 0), (0, -2)))),
        ((2, 6, 6, 7), (18, 2, 3, 2), _params(2, feature_group_count=3)),
        ((2, 6, 6, 7), (12, 1, 3, 2), _params(2, feature_group_count=6)),
        ((4, 3, 6, 7), (18, 3, 3, 2), _params(2, batch_group_count=2)),
        ((4, 30, 6, 7), (34, 30, 3, 2), _params(2, batch_group_count=2, padding=((1, 1), (1, 1)))),
        ((2, 6, 7, 3), (3, 2, 3, 20), _params(2, dimension_numbers=LAST, padding=((1, 1), (1, 0)))),
        ((2, 6, 7, 8), (3, 2, 1, 8), _params(2, dimension_numbers=LAST, padding=((1, 1), (1, 0)), feature_group_count=8)),
        ((2, 6, 7, 40), (3, 3, 40, 70), _params(2, dimension_numbers=LAST, padding=((1, 1), (1, 1)))),
        ((2, 6, 7, 8), (1, 1, 8, 33), _params(2, dimension_numbers=LAST)),
        ((6, 7, 8, 2), (5, 3, 3, 8), _params(2, dimension_numbers=ConvDimensionNumbers((3, 2, 0, 1), (0, 3, 1, 2), (2, 3, 1, 0)))),
        ((1, 2, 4, 5, 6), (17, 2, 2, 3, 2), _params(3, padding=((1, 0), (1, 1), (0, 1)))),
        ((0, 3, 6, 7), (20, 3, 3, 2), _params(2)),
        ((2, 0, 6, 7), (20, 0, 3, 2), _params(2)),
        ((2, 3, 6, 7), (0, 3, 3, 2), _params(2)),
        ((2, 30, 6, 7), (0, 30, 3, 2), _params(2, padding=((1, 1), (1, 1)))),
        ((2, 0, 6, 7), (20, 0, 3, 2), _params(2, padding=((1, 1), (1, 1)))),
        ((0, 30, 6, 7), (20, 30, 3, 2), _params(2, padding=((1, 1), (1, 1)))),
        ((2, 30, 6, 7), (20, 30, 0, 2), _params(2, padding=((1, 1), (1, 1)))),
        ((2, 3, 2, 7), (20, 3, 3, 2), _params(2)),
        ((2, 3, 0, 7), (20, 3, 3, 2), _params(2, padding=((2, 2), (0, 0)))),
    ]
    for xs, ys, params in shapes:
        for d in (f, "float64"):
            yield (small(xs, d), small(ys, d, 1)), params


conv_general_dilated = Op(
    "conv_general_dilated",
    typ=_typ,
    oracle=_oracle,
    expand=_expand,
    samples=_samples,
    jvp=by_argument(
        lambda g, out, x, y, **params: conv_general_dilated(g, y, **params),
        lambda g, out, x, y, **params: conv_general_dilated(x, g, **params),
    ),
    transpose=by_operand(_transpose_lhs, _transpose_rhs),
    batch=_batch,
    cost=_operations,
)
"""`precision` is recorded and otherwise without effect: products have the operands' precision."""
