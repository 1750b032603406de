"""Shape, indexing, gather, scatter, contraction and structural ops, by their records: specification against lowered code and against
NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from steno._native import ArrayImpl
from steno.backends import cpu
from steno.core import dtypes
from steno.core.aval import ShapedArray
from steno.core.config import enable_x64
from steno.core.interpret import to_array, to_ndarray
from steno.core.op import Op
from steno.core.trace import trace_to_jaxpr
from steno.ir.index import LoopVar, var
from steno.ops import arithmetic, dot, gather, host, index, join, random, scatter, shape, structural
from steno.testing import assert_same_bits, logical, run_lowered, values

MODULES = (dot, gather, host, index, join, random, scatter, shape, structural)
RECORDS = [o for m in MODULES for o in vars(m).values() if isinstance(o, Op) and o not in vars(arithmetic).values()]
SAMPLED = [o for o in RECORDS if o.samples is not None]


def results(op: Op, out: Any) -> list[np.ndarray]:
    return list(out) if op.multiple_results else [out]


def test_every_record_has_samples() -> None:
    assert [o.name for o in RECORDS if o.samples is None] == ["debug_callback", "debug_print", "jit"]


@pytest.mark.parametrize("op", SAMPLED, ids=lambda o: o.name)
def test_oracle_has_the_type(op: Op) -> None:
    for args, params in op.samples():
        types = results(op, op.typ(*map(logical, args), **params))
        with np.errstate(all="ignore"):
            out = results(op, op.oracle(*values(args), **params))
        wanted = [(t.shape, dtypes.host_dtype(t.dtype)) for t in types]
        assert [(y.shape, y.dtype) for y in map(np.asarray, out)] == wanted, (params, [a.shape for a in args])


@pytest.mark.parametrize(
    "op",
    [o for o in SAMPLED if o.lower is not None and o not in (dot.dot_general, host.pure_callback, host.io_callback)],
    ids=lambda o: o.name,
)
def test_lowered_code_equals_oracle(op: Op) -> None:
    for args, params in op.samples():
        with np.errstate(all="ignore"):
            want = results(op, op.oracle(*values(args), **params))
        got = run_lowered(op, args, params)
        for g, w in zip(got, want, strict=True):
            assert_same_bits(g, w, f"{op.name}{params} of {[(a.shape, a.dtype) for a in args]}")


@pytest.mark.parametrize("op", SAMPLED, ids=lambda o: o.name)
def test_compiled_code_equals_oracle(op: Op) -> None:
    with enable_x64(True):
        for args, params in op.samples():
            with np.errstate(all="ignore"):
                want = results(op, op.oracle(*values(args), **params))
            arrays = [x if isinstance(x, ArrayImpl) else to_array(np.asarray(x), logical(x)) for x in args]
            for g, w in zip(results(op, cpu.eager(op, arrays, params)), want, strict=True):
                assert_same_bits(to_ndarray(g), w, f"{op.name}{params} of {[(a.shape, a.dtype) for a in args]}")


def aval(shape: tuple[int, ...] = (3, 4), dtype: str = "float32", weak: bool = False) -> ShapedArray:
    return ShapedArray(shape, np.dtype(dtype), weak)


def bad(op: Op, error: type[Exception], words: str, *avals: ShapedArray, **params: Any) -> Any:
    return pytest.param(op, error, words, avals, params, id=f"{op.name}-{words[:30]}")


X, N, S = aval(), aval((), "int32"), aval(())
DOT = dict(precision=None, preferred_element_type=None, out_sharding=None)
GATHER = dict(fill_value=None, indices_are_sorted=False, unique_indices=False, mode=gather.GatherScatterMode.CLIP)
SCATTER = dict(indices_are_sorted=False, unique_indices=False, mode=gather.GatherScatterMode.CLIP, update_jaxpr=None, update_consts=())
G, D = gather.GatherDimensionNumbers, scatter.ScatterDimensionNumbers
AT = aval((3, 1), "int32")
KEYS = random.key_aval((3,))


@pytest.mark.parametrize(
    ("op", "error", "words", "avals", "params"),
    [
        bad(shape.reshape, TypeError, "size 12", X, dimensions=None, new_sizes=(5, 3), sharding=None),
        bad(shape.reshape, TypeError, "negative", X, dimensions=None, new_sizes=(-1, 3), sharding=None),
        bad(shape.reshape, TypeError, "permutation", X, dimensions=(0, 0), new_sizes=(4, 3), sharding=None),
        bad(shape.transpose, TypeError, "permutation", X, permutation=(0, 0)),
        bad(shape.transpose, TypeError, "each axis of the operand once", X, permutation=(0,)),
        bad(shape.broadcast_in_dim, TypeError, "size 1 or", X, shape=(2, 3, 5), broadcast_dimensions=(1, 2), sharding=None),
        bad(shape.broadcast_in_dim, TypeError, "length equal to operand", X, shape=(2, 3, 4), broadcast_dimensions=(1,), sharding=None),
        bad(shape.broadcast_in_dim, TypeError, "subset of output dim", X, shape=(2, 3, 4), broadcast_dimensions=(1, 3), sharding=None),
        bad(shape.broadcast_in_dim, TypeError, "duplicates", aval((3, 3)), shape=(2, 3, 4), broadcast_dimensions=(1, 1), sharding=None),
        bad(shape.broadcast_in_dim, TypeError, "fewer axes", X, shape=(3,), broadcast_dimensions=(0, 1), sharding=None),
        bad(shape.squeeze, ValueError, "squeeze out", X, dimensions=(0,)),
        bad(shape.squeeze, ValueError, "must lie in", X, dimensions=(5,)),
        bad(shape.squeeze, ValueError, "not unique", aval((1, 3)), dimensions=(0, 0)),
        bad(join.concatenate, ValueError, "at least one", dimension=0),
        bad(join.concatenate, TypeError, "equal numbers of axes", X, aval((3,)), dimension=0),
        bad(join.concatenate, TypeError, "agree in all axes", X, aval((3, 5)), dimension=0),
        bad(join.concatenate, TypeError, "out of bounds", X, X, dimension=2),
        bad(join.concatenate, TypeError, "float32, int32", X, aval((3, 4), "int32"), dimension=0),
        bad(join.stack, ValueError, "equal shapes", X, aval((3,)), axis=0),
        bad(join.stack, ValueError, "axis 3", X, axis=3),
        bad(join.stack, TypeError, "float32, int32", X, aval((3, 4), "int32"), axis=0),
        bad(join.split, ValueError, "Sum of sizes 2", X, sizes=(1, 1), axis=0),
        bad(join.split, ValueError, "axis 2", X, sizes=(1, 2), axis=2),
        bad(join.split, ValueError, "negative", X, sizes=(-1, 4), axis=0),
        bad(join.unstack, IndexError, "axis 2", X, axis=2),
        bad(shape.pad, TypeError, "float32 and int32", X, N, padding_config=((1, 1, 0),) * 2),
        bad(shape.pad, ValueError, "for each axis", X, S, padding_config=((1, 1, 0),)),
        bad(shape.pad, ValueError, "interior padding", X, S, padding_config=((1, 1, -1),) * 2),
        bad(shape.pad, ValueError, "must be a scalar", X, aval((2,)), padding_config=((1, 1, 1),) * 2),
        bad(shape.pad, ValueError, "size after padding", X, S, padding_config=((-5, 1, 0),) * 2),
        bad(shape.rev, TypeError, "must lie in", X, dimensions=(2,)),
        bad(shape.rev, TypeError, "distinct", X, dimensions=(0, 0)),
        bad(shape.slice_, TypeError, "start <= limit <= size", X, start_indices=(0, 0), limit_indices=(4, 4), strides=None),
        bad(shape.slice_, TypeError, "start_indices must have one", X, start_indices=(0,), limit_indices=(3, 4), strides=None),
        bad(shape.slice_, TypeError, "0 <= start <= limit", X, start_indices=(2, 0), limit_indices=(1, 4), strides=None),
        bad(shape.slice_, TypeError, "positive", X, start_indices=(0, 0), limit_indices=(1, 4), strides=(0, 1)),
        bad(shape.iota, TypeError, "bool", dtype=np.dtype(bool), shape=(3,), dimension=0, sharding=None),
        bad(shape.iota, ValueError, "dimension must lie", dtype=np.dtype("int32"), shape=(3,), dimension=1, sharding=None),
        bad(shape.iota, TypeError, "negative", dtype=np.dtype("int32"), shape=(3, -2), dimension=0, sharding=None),
        bad(shape.tile, TypeError, "one entry for each axis", X, reps=(2,)),
        bad(shape.tile, TypeError, "negative", X, reps=(2, -2)),
        bad(index.dynamic_slice, ValueError, "one start index", X, N, slice_sizes=(1, 1)),
        bad(index.dynamic_slice, TypeError, "between 0 and", X, N, N, slice_sizes=(4, 1)),
        bad(index.dynamic_slice, TypeError, "float32, float32", X, S, S, slice_sizes=(1, 1)),
        bad(index.dynamic_slice, TypeError, "must be scalars", X, aval((2,), "int32"), N, slice_sizes=(1, 1)),
        bad(index.dynamic_slice, TypeError, "int32, int8", X, N, aval((), "int8"), slice_sizes=(1, 1)),
        bad(index.dynamic_update_slice, TypeError, "as many axes", X, aval((1,)), N, N),
        bad(index.dynamic_update_slice, TypeError, "not exceed", X, aval((4, 1)), N, N),
        bad(index.dynamic_update_slice, TypeError, "float32, int32", X, aval((1, 1), "int32"), N, N),
        bad(dot.dot_general, TypeError, "contracting dimensions to have the same shape, got .4,. and .3,.", X, X,
            dimension_numbers=(((1,), (0,)), ((), ())), **DOT),
        bad(dot.dot_general, TypeError, "must lie in", X, X, dimension_numbers=(((2,), (0,)), ((), ())), **DOT),
        bad(dot.dot_general, TypeError, "disjoint", X, X, dimension_numbers=(((1,), (1,)), ((0,), (1,))), **DOT),
        bad(dot.dot_general, TypeError, "distinct", X, X, dimension_numbers=(((1, 1), (1, 1)), ((), ())), **DOT),
        bad(dot.dot_general, TypeError, "narrower", *[aval((4,), "int32")] * 2, dimension_numbers=(((0,), (0,)), ((), ())), precision=None,
            preferred_element_type=np.dtype("int8"), out_sharding=None),
        bad(gather.gather, TypeError, "out of range", X, AT, dimension_numbers=G((1,), (0,), (0,)), slice_sizes=(1, 5), **GATHER),
        bad(gather.gather, TypeError, "collapse slice dims with bound 1, but bound is 2 for index 0 at position 0", X, AT,
            dimension_numbers=G((1,), (0,), (0,)), slice_sizes=(2, 4), **GATHER),
        bad(gather.gather, TypeError, "one slice size for every", X, AT, dimension_numbers=G((1,), (0,), (0,)), slice_sizes=(1,), **GATHER),
        bad(gather.gather, TypeError, "Offset dimension 0", X, AT, dimension_numbers=G((2,), (0,), (0,)), slice_sizes=(1, 4), **GATHER),
        bad(gather.gather, TypeError, "start_index_map", X, AT, dimension_numbers=G((1,), (0,), (0, 1)), slice_sizes=(1, 4), **GATHER),
        bad(gather.gather, TypeError, "collapsed_slice_dims in gather op must be sorted", X, AT,
            dimension_numbers=G((1,), (1, 0), (0,)), slice_sizes=(1, 4), **GATHER),
        bad(gather.gather, TypeError, "to have the same shape, got .3,. .* and .2,.", X, aval((2, 1), "int32"),
            dimension_numbers=G((), (1,), (1,), (0,), (0,)), slice_sizes=(1, 1), **GATHER),
        bad(gather.gather, TypeError, "batching dims with bound 0/1, but bound is 3 for index 0", X, AT,
            dimension_numbers=G((1,), (1,), (1,), (0,), (0,)), slice_sizes=(3, 1), **GATHER),
        bad(gather.gather, TypeError, "cannot have the index vector dimension", X, AT,
            dimension_numbers=G((), (1,), (1,), (0,), (1,)), slice_sizes=(1, 1), **GATHER),
        bad(gather.gather, TypeError, "equal numbers of operand_batching_dims", X, AT,
            dimension_numbers=G((1,), (0,), (0,), (), (0,)), slice_sizes=(1, 4), **GATHER),
        bad(scatter.scatter_add, TypeError, "cannot have the index vector dimension", X, AT, aval((3,)),
            dimension_numbers=D((), (1,), (1,), (0,), (1,)), **SCATTER),
        bad(scatter.scatter_add, TypeError, "equal numbers of operand_batching_dims", X, AT, X,
            dimension_numbers=D((1,), (0,), (0,), (), (0,)), **SCATTER),
        bad(gather.gather, ValueError, "integer type", X, aval((3, 1)),
            dimension_numbers=G((1,), (0,), (0,)), slice_sizes=(1, 4), **GATHER),
        bad(gather.gather, TypeError, "got a scalar", X, N, dimension_numbers=G((0,), (0,), (0,)), slice_sizes=(1, 4), **GATHER),
        bad(scatter.scatter_add, TypeError, "must be of rank 2", X, AT, aval((3, 4, 1)), dimension_numbers=D((1,), (0,), (0,)), **SCATTER),
        bad(scatter.scatter_add, TypeError, "Bounds of the scatter", X, aval((2, 1), "int32"), X,
            dimension_numbers=D((1,), (0,), (0,)), **SCATTER),
        bad(scatter.scatter_add, TypeError, "Bounds of the window", X, AT, aval((3, 5)), dimension_numbers=D((1,), (0,), (0,)), **SCATTER),
        bad(scatter.scatter_add, TypeError, "float32, int32", X, AT, aval((3, 4), "int32"),
            dimension_numbers=D((1,), (0,), (0,)), **SCATTER),
        bad(scatter.scatter_add, ValueError, "integer type", X, aval((3, 1)), X, dimension_numbers=D((1,), (0,), (0,)), **SCATTER),
        bad(scatter.scatter_add, TypeError, "window of size 1; doesn.t match operand of rank 2", X, AT, X,
            dimension_numbers=D((1,), (), (0,)), **SCATTER),
        bad(scatter.scatter_add, TypeError, "Invalid inserted_window_dims", X, AT, X, dimension_numbers=D((1,), (2,), (0,)), **SCATTER),
        bad(random.random_bits, TypeError, "PRNG keys", X, bit_width=32, shape=(3,)),
        bad(random.random_bits, TypeError, "bit_width", KEYS, bit_width=4, shape=(3,)),
        bad(random.random_split, ValueError, "negative", KEYS, shape=(-1,)),
        bad(random.random_seed, TypeError, "integers", S, impl=dtypes.key_fry),
        bad(random.random_wrap, TypeError, "size 2", aval((3,), "uint32"), impl=dtypes.key_fry),
        bad(random.random_fold_in, TypeError, "uint32", KEYS, N),
        bad(random.threefry2x32, TypeError, "uint32 operands", N, N, N, N),
    ],
)  # fmt: skip
def test_bad_operands(op: Op, error: type[Exception], words: str, avals: Any, params: Any) -> None:
    with pytest.raises(error, match=words) as caught:
        op.typ(*avals, **params)
    assert type(caught.value) is error and str(caught.value).startswith(op.name)


W = aval(weak=True)


@pytest.mark.parametrize(
    ("op", "avals", "params", "weak"),
    [
        (shape.reshape, [W], dict(dimensions=None, new_sizes=(12,), sharding=None), True),
        (shape.transpose, [W], dict(permutation=(1, 0)), True),
        (shape.broadcast_in_dim, [W], dict(shape=(3, 4), broadcast_dimensions=(0, 1), sharding=None), True),
        (join.concatenate, [W, W], dict(dimension=0), True),
        (join.concatenate, [W, X], dict(dimension=0), False),
        (shape.pad, [W, aval((), weak=True)], dict(padding_config=((0, 0, 0),) * 2), True),
        (shape.pad, [W, S], dict(padding_config=((0, 0, 0),) * 2), False),
        (shape.slice_, [W], dict(start_indices=(0, 0), limit_indices=(1, 1), strides=None), True),
        (index.dynamic_slice, [W, N, N], dict(slice_sizes=(1, 1)), True),
        (index.dynamic_update_slice, [W, W, N, N], {}, False),
        (gather.gather, [W, AT], dict(dimension_numbers=G((1,), (0,), (0,)), slice_sizes=(1, 4), **GATHER), True),
        (scatter.scatter_add, [W, AT, X], dict(dimension_numbers=D((1,), (0,), (0,)), **SCATTER), True),
        (scatter.scatter, [X, AT, W], dict(dimension_numbers=D((1,), (0,), (0,)), **SCATTER), False),
        (dot.dot_general, [W, W], dict(dimension_numbers=(((1,), (1,)), ((), ())), **DOT), True),
        (dot.dot_general, [W, X], dict(dimension_numbers=(((1,), (1,)), ((), ())), **DOT), False),
        (structural.copy, [W], {}, True),
        (shape.rev, [W], dict(dimensions=(0,)), True),
        (shape.tile, [W], dict(reps=(2, 2)), True),
        (join.stack, [W, W], dict(axis=0), True),
        (join.stack, [W, X], dict(axis=0), False),
    ],
    ids=lambda v: v.name if isinstance(v, Op) else None,
)  # fmt: skip
def test_weak_types(op: Op, avals: Any, params: Any, weak: bool) -> None:
    assert op.typ(*avals, **params).weak_type is weak


@pytest.mark.parametrize(
    "sizes", list(itertools.permutations([2, 3, 4])) + [(6, 4), (24,), (2, 1, 12), (1, 24, 1), (8, 3), (4, 6), (3, 8), (12, 2)]
)
def test_reshape_of_any_shape_to_any(sizes: tuple[int, ...]) -> None:
    x = np.arange(24, dtype=np.int32)
    for new in [(24,), (2, 12), (4, 6), (3, 2, 4), (1, 2, 3, 4), (8, 3), (2, 2, 2, 3), (6, 1, 4)]:
        params = dict(dimensions=None, new_sizes=new, sharding=None)
        assert_same_bits(run_lowered(shape.reshape, [x.reshape(sizes)], params)[0], x.reshape(new))


def test_reshape_divides_only_where_axes_differ() -> None:
    a, b, c = (LoopVar(n, e) for n, e in (("a", 6), ("b", 4), ("c", 5)))
    at = shape.reshape_indices([var(a), var(b), var(c)], (6, 4, 5), (2, 3, 20))
    assert [repr(i) for i in at] == ["(a // 3)", "(a % 3)", "5*b + c"]


@pytest.mark.parametrize("name", ["add", "sub", "mul", "min", "max"])
def test_scatters_equal_numpy(name: str) -> None:
    rng = np.random.default_rng(0)
    x, u = rng.integers(-9, 9, (5, 3)).astype(np.int32), rng.integers(-9, 9, (40, 3)).astype(np.int32)
    at = rng.integers(-1, 6, (40, 1)).astype(np.int32)
    want = x.copy()
    ufunc = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum, "max": np.maximum}[name]
    for i, row in zip(at[:, 0], u, strict=True):
        if 0 <= i < 5:
            want[i] = ufunc(want[i], row)
    params = SCATTER | dict(
        mode=gather.GatherScatterMode.FILL_OR_DROP, update_jaxpr=scatter.combination(name, x.dtype), dimension_numbers=D((1,), (0,), (0,))
    )
    op = getattr(scatter, f"scatter_{name}")
    assert np.array_equal(op.oracle(x, at, u, **params), want)
    assert np.array_equal(run_lowered(op, [x, at, u], params)[0], want)


def test_scatter_mode_names() -> None:
    mode = gather.GatherScatterMode
    assert [mode.from_any(m) for m in ("clip", "fill", "drop", "promise_in_bounds", None, mode.CLIP)] == [
        mode.CLIP, mode.FILL_OR_DROP, mode.FILL_OR_DROP, mode.PROMISE_IN_BOUNDS, mode.FILL_OR_DROP, mode.CLIP,
    ]  # fmt: skip
    assert str(mode.CLIP) == "GatherScatterMode.CLIP" and repr(mode.CLIP) == "<GatherScatterMode.CLIP: 1>"
    with pytest.raises(ValueError, match="'foo'"):
        mode.from_any("foo")


def test_random_words_are_the_published_ones() -> None:
    """Known answers of the Random123 distribution (kat_vectors): threefry2x32, 20 rounds."""
    for counter, key, want in [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
    ]:
        got = random.threefry_arrays(*key, *counter)
        assert tuple(map(int, got)) == want


def test_jit_op() -> None:
    closed = trace_to_jaxpr(lambda x, y: [arithmetic.add(x, y), x], [X, X])
    with pytest.raises(TypeError, match="takes 2 operands"):
        structural.jit.typ(X, jaxpr=closed, name="f")
    with pytest.raises(TypeError, match=r"operand 1 must be of type float32\[3,4\]"):
        structural.jit.typ(X, N, jaxpr=closed, name="f")
    x = np.ones((3, 4), np.float32)
    out = structural.jit.oracle(x, x, jaxpr=closed, name="f")
    assert out[0].tolist() == (2 * x).tolist() and structural.jit.typ(X, X, jaxpr=closed, name="f") == [X, X]
