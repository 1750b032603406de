"""Rules of the ops that move, join, index and contract, of random ops and callbacks: derivatives against finite differences to second
order, transposes by dot products, batches against loops for each choice of batch axes; and what these rules promise beyond that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import steno
from steno import lax
from steno._native import ArrayImpl
from steno.callback import io_callback
from steno.core import dtypes
from steno.core.aval import ShapedArray
from steno.core.interpret import interpret, to_array
from steno.core.op import Op
from steno.core.trace import trace_to_jaxpr
from steno.ops import dot, gather, host, index, join, random, scatter, shape
from steno.ops.gather import GatherDimensionNumbers as G, GatherScatterMode as Mode
from steno.ops.inline import combination
from steno.ops.scatter import ScatterDimensionNumbers as S
from steno.testing import check_rules
from steno.transforms.batching import batch_flat
from steno.transforms.forward import jvp_flat
from steno.transforms.rules import Axis, Linear, Zero, rule_of, zero_of

OWN = {
    shape: ["reshape", "transpose", "broadcast_in_dim", "squeeze", "pad", "rev", "slice_", "tile", "iota"],
    join: ["concatenate", "stack", "split", "unstack"],
    index: ["dynamic_slice", "dynamic_update_slice"],
    gather: ["gather"],
    scatter: ["scatter", "scatter_add", "scatter_sub", "scatter_mul", "scatter_min", "scatter_max"],
    dot: ["dot_general"],
    random: [
        "threefry2x32",
        "random_seed",
        "random_wrap",
        "random_unwrap",
        "random_clone",
        "random_fold_in",
        "random_split",
        "random_bits",
        "fma",
    ],
    host: ["debug_callback", "debug_print", "pure_callback", "io_callback"],
}
RECORDS: list[Op] = [getattr(m, name) for m, names in OWN.items() for name in names]
DERIVED = [o for o in RECORDS if o.name != "iota" and o not in vars(random).values() and o not in vars(host).values()]
Case = tuple[tuple[Any, ...], dict[str, Any]]
F64, C128 = np.dtype(np.float64), np.dtype(np.complex128)


def smooth(*sizes: int, seed: int = 0) -> np.ndarray:
    return np.asarray(np.random.default_rng([seed, *sizes]).standard_normal(sizes))


def complexes(*sizes: int, seed: int = 0) -> np.ndarray:
    return smooth(*sizes, seed=seed) + 1j * smooth(*sizes, seed=seed + 1)


def test_every_record_has_its_rules() -> None:
    assert {o.name for o in RECORDS if rule_of(o, "batch") is None} == {"iota"}
    assert [o.name for o in DERIVED if rule_of(o, "jvp") is None] == []
    # linear through their jvp alone
    assert [o.name for o in DERIVED if rule_of(o, "transpose") is None] == ["scatter-min", "scatter-max"]


# every sample of every record, in float64


def wide(x: Any, seed: int) -> Any:
    """A sample's operand with smooth values of 64-bit types; other than floats as they are."""
    if isinstance(x, ArrayImpl):
        return x
    x = np.asarray(x)
    if x.dtype == np.float32:
        return smooth(*x.shape, seed=seed)
    return complexes(*x.shape, seed=seed) if x.dtype == np.complex64 else x


def samples_of(op: Op) -> Iterator[Case]:
    """Samples with float32, complex64 or no floats, made wide. Left out: indices that break the promise to be in bounds, and the derivative
    of scatter-mul in updates that collide, which there is not."""
    for args, params in op.samples():
        names = {str(x.dtype) for x in args if not isinstance(x, ArrayImpl)}
        if not names <= {"float32", "complex64", "int32", "uint32", "int8", "uint8", "uint64"} or len(args) > 5:
            continue
        if params.get("mode") is Mode.PROMISE_IN_BOUNDS or op is scatter.scatter_mul:
            continue
        args = tuple(wide(x, k) for k, x in enumerate(args))
        if params.get("update_jaxpr") is not None:
            params = params | {"update_jaxpr": combination(op.name.split("-")[1], args[0].dtype)}
        if op is gather.gather:
            params = params | {"fill_value": 7}
        if params.get("preferred_element_type") is not None:
            params = params | {"preferred_element_type": F64}
        yield args, params


@pytest.mark.parametrize(
    "op", [o for o in RECORDS if o.samples is not None and o.name not in ("iota", "pure_callback", "io_callback")], ids=str
)
def test_samples(op: Op) -> None:
    count = 0
    for args, params in samples_of(op):
        if op in (scatter.scatter_min, scatter.scatter_max) and args[0].dtype == C128:
            continue
        key = getattr(args[0], "dtype", None)
        by_first_key = key is dtypes.key_urbg or (key is dtypes.key_rbg and op.name == "random_bits")  # as in JAX, see ops/random.py
        check_rules(op, args, params, batch=not (by_first_key and op.name in ("random_bits", "random_split", "random_fold_in")))
        count += 1
    assert count or op is scatter.scatter_mul


# cases beyond the samples

X34, X234 = smooth(3, 4), smooth(2, 3, 4)
I = np.int32  # noqa: E741
ROWS = dict(indices_are_sorted=False, unique_indices=False)


def at(*rows: Any) -> np.ndarray:
    return np.array(rows, I)


def take(numbers: G, sizes: tuple[int, ...], mode: Mode = Mode.FILL_OR_DROP, fill: Any = 0) -> dict[str, Any]:
    return dict(dimension_numbers=numbers, slice_sizes=sizes, mode=mode, fill_value=fill, **ROWS)


def put(numbers: S, name: str | None, mode: Mode = Mode.FILL_OR_DROP, unique: bool = False) -> dict[str, Any]:
    jaxpr = None if name is None else combination(name, F64)
    return dict(
        dimension_numbers=numbers, mode=mode, indices_are_sorted=False, unique_indices=unique, update_jaxpr=jaxpr, update_consts=()
    )  # fmt: skip


def contract(xc: Any, yc: Any, xb: Any = (), yb: Any = (), preferred: Any = None) -> dict[str, Any]:
    return dict(dimension_numbers=((xc, yc), (xb, yb)), precision=None, preferred_element_type=preferred, out_sharding=None)


def scatter_cases(op: Op, name: str | None) -> Iterator[Case]:
    rows, plane = S((1,), (0,), (0,)), S((0,), (1,), (1,))
    unique = op is scatter.scatter_mul
    for mode in (Mode.CLIP, Mode.FILL_OR_DROP):
        indices = at([0], [2], [9]) if unique else at([0], [2], [2], [-1])
        if unique and mode is Mode.CLIP:
            indices = at([0], [2], [-1])[:2]
        yield (X34, indices, smooth(len(indices), 4, seed=5)), put(rows, name, mode, unique)
    columns = at([3], [1], [0]) if unique else at([3], [1], [3])
    yield (X34, columns, smooth(3, 3, seed=5)), put(plane, name, unique=unique)
    if not unique:
        # windows that overlap, of two axes
        yield (smooth(5, 4), at([0, 0], [1, 1], [1, 0]), smooth(3, 2, 3, seed=5)), put(S((1, 2), (), (1, 0)), name)
    # each of two batching positions has its own indices
    some = at([[0], [2]], [[1], [9]]) if unique else at([[0], [2]], [[1], [1]])
    yield (X234, some, smooth(2, 2, 4, seed=5)), put(S((2,), (1,), (1,), (0,), (0,)), name, unique=unique)
    yield (X234.transpose(1, 0, 2).copy(), some, smooth(2, 2, 4, seed=5)), put(S((2,), (0,), (0,), (1,), (0,)), name, unique=unique)
    yield (X34, at(1, 2), np.asarray(smooth(seed=5))), put(S((), (0, 1), (0, 1)), name, unique=unique)


CASES: dict[str, list[Case]] = {
    "reshape": [
        ((smooth(2, 1, 3),), dict(dimensions=None, new_sizes=(1, 6, 1), sharding=None)),
        ((smooth(4, 6),), dict(dimensions=None, new_sizes=(2, 2, 3, 2), sharding=None)),
        ((X234,), dict(dimensions=(1, 2, 0), new_sizes=(4, 6), sharding=None)),
    ],
    "transpose": [((smooth(2, 3, 1, 2),), dict(permutation=(3, 1, 0, 2)))],
    "broadcast_in_dim": [
        ((smooth(3, 1, 2),), dict(shape=(3, 5, 4, 2), broadcast_dimensions=(0, 2, 3), sharding=None)),
        ((smooth(3, 3),), dict(shape=(3, 2, 3), broadcast_dimensions=(2, 0), sharding=None)),
        ((smooth(1, 1),), dict(shape=(1, 2, 1), broadcast_dimensions=(0, 1), sharding=None)),
    ],
    "concatenate": [((complexes(2, 3), complexes(2, 1)), dict(dimension=1)), ((X34, smooth(0, 4), X34), dict(dimension=0))],
    "stack": [((complexes(2), complexes(2, seed=3)), dict(axis=1))],
    "split": [((smooth(2, 7),), dict(sizes=(2, 0, 4, 1), axis=1)), ((complexes(3),), dict(sizes=(1, 2), axis=0))],
    "unstack": [((smooth(3, 1, 2),), dict(axis=2)), ((complexes(2, 2),), dict(axis=0))],
    "pad": [
        ((X34, np.asarray(0.5)), dict(padding_config=((-1, 2, 2), (1, -2, 1)))),
        ((complexes(3), np.asarray(0.5 + 1j)), dict(padding_config=((-2, -2, 3),))),
        ((smooth(4), np.asarray(0.5)), dict(padding_config=((-3, 5, 2),))),
    ],
    "slice": [((smooth(7, 5),), dict(start_indices=(1, 0), limit_indices=(6, 5), strides=(3, 2)))],
    "tile": [((smooth(2, 1, 3),), dict(reps=(1, 3, 2)))],
    "dynamic_slice": [
        ((X34, I(-2), I(9)), dict(slice_sizes=(2, 3))),
        ((X34, np.uint8(200), np.uint8(1)), dict(slice_sizes=(1, 4))),
        ((X34, I(1), I(1)), dict(slice_sizes=(3, 4))),
        ((X34, I(1), I(1)), dict(slice_sizes=(3, 2))),
    ],
    "dynamic_update_slice": [
        ((X34, smooth(2, 4, seed=3), I(9), I(1)), {}),
        ((X34, smooth(3, 4, seed=3), I(9), I(1)), {}),
        ((complexes(4), complexes(2, seed=5), np.int8(-100)), {}),
    ],
    "gather": [
        ((X234, at([0, 1], [1, 3], [1, 3])), take(G((1,), (0, 2), (0, 2)), (1, 2, 1), Mode.CLIP)),
        ((X234, at([[0], [2]], [[1], [9]])), take(G((1,), (1,), (1,), (0,), (0,)), (1, 1, 3))),
        ((X234, at([[0], [2]], [[1], [1]], [[0], [0]])), take(G((), (2,), (2,), (0, 1), (1, 0)), (1, 1, 1))),
        ((X34, at([[0, 1], [2, 1]])), take(G((1, 3), (), (1, 0)), (2, 3), Mode.CLIP)),
        ((complexes(3, 4), at([0], [2], [-1])), take(G((1,), (0,), (0,)), (1, 4))),
        ((X34, at([0], [2], [1])), take(G((1,), (0,), (0,)), (1, 4), Mode.PROMISE_IN_BOUNDS, None)),
    ],
    "scatter": list(scatter_cases(scatter.scatter, None)),
    **{f"scatter-{n}": list(scatter_cases(getattr(scatter, f"scatter_{n}"), n)) for n in ("add", "sub", "mul", "min", "max")},
    "dot_general": [
        ((complexes(2, 3), complexes(3, 2, seed=4)), contract((1,), (0,))),
        ((X34, complexes(4, 2)), contract((1,), (0,))),
        ((complexes(3, 4), smooth(4, 2)), contract((1,), (0,), preferred=F64)),
        ((smooth(2, 3, 4, 2), smooth(2, 4, 5, 2, seed=4)), contract((2,), (1,), (0, 3), (3, 0))),
        ((smooth(2, 3, 4), smooth(4, 5, 3, seed=4)), contract((2, 1), (0, 2))),
        ((smooth(3, 4), smooth(4, seed=4)), contract((1,), (0,))),
        ((smooth(2, 3), smooth(2, 4, seed=4)), contract((), (), (0,), (0,))),
        ((smooth(3, 4), np.arange(8, dtype=I).reshape(4, 2)), contract((1,), (0,))),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("name", "number"), [(n, k) for n, cases in CASES.items() for k in range(len(cases))])
def test_cases(name: str, number: int) -> None:
    (op,) = (o for o in RECORDS if o.name == name)
    check_rules(op, *CASES[name][number])


def test_joining_many() -> None:
    xs = tuple(smooth(2, seed=k) for k in range(9))
    check_rules(join.concatenate, xs, dict(dimension=0), batch=False)
    check_rules(join.stack, xs, dict(axis=1), batch=False)


def test_operands_vary_among_elements() -> None:
    """Starts and indices of a batch that are not those of its first element."""
    x, u = smooth(5, 3), smooth(2, 3, seed=1)
    starts = [(x + k, I(s), I(s - 1)) for k, s in enumerate((4, -3, 1))]
    check_rules(index.dynamic_slice, starts[0], dict(slice_sizes=(2, 2)), elements=starts[1:], jvp=False)
    updates = [(x + k, u - k, I(s), I(0)) for k, s in enumerate((4, -3, 1))]
    check_rules(index.dynamic_update_slice, updates[0], {}, elements=updates[1:], jvp=False)
    rows = [at([a], [b], [b]) for a, b in ((0, 9), (4, 4), (-1, 2))]
    gathers = [(x + k, i) for k, i in enumerate(rows)]
    check_rules(gather.gather, gathers[0], take(G((1,), (0,), (0,)), (1, 3), fill=5), elements=gathers[1:], jvp=False)
    for op, name in [(scatter.scatter, None), (scatter.scatter_add, "add"), (scatter.scatter_max, "max")]:
        elements = [(x + k, i, smooth(3, 3, seed=k)) for k, i in enumerate(rows)]
        check_rules(op, elements[0], put(S((1,), (0,), (0,)), name), elements=elements[1:], jvp=False)
    keys = [(to_array(np.uint64(k * 2**33 + 5), ShapedArray((), dtypes.key_fry)),) for k in range(3)]
    check_rules(random.random_bits, keys[0], dict(bit_width=32, shape=(3,)), elements=keys[1:])
    check_rules(random.random_split, keys[0], dict(shape=(3,), partitionable=False), elements=keys[1:])
    folds = [(k, np.uint32(n)) for (k,), n in zip(keys, (0, 7, 2**32 - 1), strict=True)]
    check_rules(random.random_fold_in, folds[0], {}, elements=folds[1:])


# programs, where they are to be small


def equations(f: Any, *avals: Any) -> list[str]:
    """The names of the ops of f's program."""
    program = trace_to_jaxpr(f, [ShapedArray(a.shape, a.dtype) for a in map(np.asarray, avals)])
    return [e.op.name for e in program.jaxpr.eqns]


def tangent_ops(op: Op, args: tuple[Any, ...], varying: int, params: dict[str, Any]) -> list[str]:
    """What the tangent's program has beyond the op itself if one operand varies."""

    def run(*xs: Any) -> list[Any]:
        tangents = [zero_of(x) for x in xs]
        tangents[varying] = xs[varying]
        _, (t,), _ = jvp_flat(lambda *ys: ([op(*ys, **params)], ()), xs, tangents)
        return [t]

    return equations(run, *args)[1:]


def mapped_ops(op: Op, args: tuple[Any, ...], dims: tuple[int | None, ...], params: dict[str, Any]) -> list[str]:
    def run(*xs: Any) -> list[Any]:
        out = batch_flat(lambda *ys: op(*ys, **params) if op.multiple_results else [op(*ys, **params)], Axis(None, 3), xs, dims)[0]
        return list(out)

    return equations(run, *args)


X, B, STARTS = smooth(5, 4).astype(np.float32), smooth(3, 5, 4).astype(np.float32), np.zeros(3, I)
U = smooth(2, 4).astype(np.float32)
PUT = put(S((1,), (0,), (0,)), "add") | {"update_jaxpr": combination("add", np.dtype(np.float32))}


@pytest.mark.parametrize(
    ("op", "args", "dims", "params", "wanted"),
    [
        # the batch axis stays where it is
        (shape.reshape, (smooth(5, 3, 4),), (1,), dict(dimensions=None, new_sizes=(5, 2, 2), sharding=None), ["reshape"]),
        (shape.reshape, (smooth(5, 3, 4),), (1,), dict(dimensions=None, new_sizes=(20,), sharding=None), ["transpose", "reshape"]),
        (shape.transpose, (smooth(5, 3, 4),), (1,), dict(permutation=(1, 0)), ["transpose"]),
        (
            shape.broadcast_in_dim,
            (smooth(5, 3, 4),),
            (1,),
            dict(shape=(2, 5, 4), broadcast_dimensions=(1, 2), sharding=None),
            ["broadcast_in_dim"],
        ),
        # starts that are the same for all, or do not matter
        (index.dynamic_slice, (B, I(1), I(0)), (0, None, None), dict(slice_sizes=(2, 4)), ["dynamic_slice"]),
        (index.dynamic_slice, (B, I(1), STARTS), (0, None, 0), dict(slice_sizes=(2, 4)), ["dynamic_slice"]),
        (index.dynamic_slice, (X, STARTS, I(0)), (None, 0, None), dict(slice_sizes=(2, 4)), ["reshape", "gather"]),
        (index.dynamic_slice, (B, STARTS, STARTS), (0, 0, 0), dict(slice_sizes=(2, 2)), ["stack", "gather"]),
        (index.dynamic_update_slice, (B, U, I(1), I(0)), (0, None, None, None), {}, ["broadcast_in_dim", "dynamic_update_slice"]),
        (index.dynamic_update_slice, (B, smooth(3, 2, 4).astype(np.float32), STARTS, I(0)), (0, 0, 0, None), {}, ["reshape", "scatter"]),
        # any axis of operand and indices
        *(
            (gather.gather, (np.moveaxis(B, 0, d), np.zeros((7, 1), I)), (d, None), take(G((1,), (0,), (0,)), (1, 4)), ["gather"])
            for d in range(3)
        ),
        *(
            (gather.gather, (np.moveaxis(B, 0, d), np.zeros((7, 3, 1), I)), (d, 1), take(G((1,), (0,), (0,)), (1, 4)), ["gather"])
            for d in range(3)
        ),
        (scatter.scatter_add, (B, np.zeros((2, 1), I), smooth(3, 2, 4).astype(np.float32)), (0, None, 0), PUT, ["scatter-add"]),
        (
            scatter.scatter_add,
            (np.moveaxis(B, 0, 1).copy(), np.zeros((2, 3, 1), I), smooth(2, 3, 4).astype(np.float32)),
            (1, 1, 1),
            PUT,
            ["scatter-add"],
        ),
        (dot.dot_general, (B, X.T.copy()), (0, None), contract((1,), (0,)), ["dot_general"]),
        (dot.dot_general, (np.moveaxis(B, 0, 1).copy(), np.moveaxis(B, 0, 2).copy()), (1, 2), contract((1,), (1,)), ["dot_general"]),
    ],
)
def test_mapped_programs(op: Op, args: Any, dims: Any, params: Any, wanted: list[str]) -> None:
    assert mapped_ops(op, args, dims, params) == wanted


@pytest.mark.parametrize(
    ("op", "args", "varying", "params", "wanted"),
    [
        (join.concatenate, (X, X, X), 1, dict(dimension=0), ["pad"]),
        (shape.pad, (X, np.float32(1)), 0, dict(padding_config=((1, 1, 0), (0, 0, 0))), ["pad"]),
        (scatter.scatter_add, (X, np.zeros((2, 1), I), U), 0, PUT, []),
        (scatter.scatter_add, (X, np.zeros((2, 1), I), U), 2, PUT, ["broadcast_in_dim", "scatter-add"]),
        (dot.dot_general, (X, X.T.copy()), 1, contract((1,), (0,)), ["dot_general"]),
    ],
)  # fmt: skip
def test_tangent_programs(op: Op, args: Any, varying: int, params: Any, wanted: list[str]) -> None:
    assert tangent_ops(op, args, varying, params) == wanted


def test_contractions_are_transposed_without_transpositions() -> None:
    for x, y, numbers in [
        ((3, 4), (4, 5), ((1,), (0,))),
        ((4, 3), (4, 5), ((0,), (0,))),
        ((3, 4), (5, 4), ((1,), (1,))),
        ((3, 4), (4,), ((1,), (0,))),
    ]:
        for side in (0, 1):

            def pull(ct: Any, other: Any, side: int = side, numbers: Any = numbers, sizes: Any = (x, y)) -> list[Any]:
                own = Linear(ShapedArray(sizes[side], np.dtype(np.float32)))
                args = (own, other) if side == 0 else (other, own)
                return [rule_of(dot.dot_general, "transpose")(ct, *args, **contract(*numbers))[side]]

            known = np.zeros((x, y)[1 - side], np.float32)
            out = dot.dot_general.typ(*(ShapedArray(s, np.dtype(np.float32)) for s in (x, y)), **contract(*numbers))
            names = equations(pull, np.zeros(out.shape, np.float32), known)
            assert names == ["dot_general"], (x, y, side, names)


def test_contraction_of_narrow_floats_is_transposed_in_one_step() -> None:
    """bfloat16 operands and a float32 result: cotangents are rounded once."""
    x, y = (steno.numpy.ones(s, steno.numpy.bfloat16) for s in ((3, 4), (4, 5)))
    f = lambda x, y: lax.dot_general(x, y, (((1,), (0,)), ((), ())), preferred_element_type=np.float32)  # noqa: E731
    program = steno.make_jaxpr(lambda x, y, ct: steno.vjp(f, x, y)[1](ct))(x, y, steno.numpy.ones((3, 5)))
    assert [str(v.aval.dtype) for v in program.jaxpr.outvars] == ["bfloat16", "bfloat16"]
    assert "convert_element_type" not in str(program)


def test_zero_cotangents_of_pieces_are_padding() -> None:
    def pull(ct: Any) -> list[Any]:
        x = Linear(ShapedArray((6, 2), np.dtype(np.float32)))
        other = Zero(ShapedArray((2, 2), np.dtype(np.float32)))
        return rule_of(join.split, "transpose")([other, ct, other], x, sizes=(2, 2, 2), axis=0)

    assert equations(pull, np.zeros((2, 2), np.float32)) == ["pad"]


# collisions


def test_the_last_of_several_updates_counts() -> None:
    i = np.array([1, 0, 1, 1])
    f = lambda u: steno.numpy.zeros(3).at[i].set(u)  # noqa: E731
    u = steno.numpy.array([1.0, 2, 3, 4])
    assert f(u).tolist() == [2, 4, 0]
    assert steno.jacrev(f)(u).tolist() == steno.jacfwd(f)(u).tolist() == [[0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]]


def test_products_of_colliding_updates_have_no_derivative() -> None:
    x, u, i = steno.numpy.ones(3), steno.numpy.ones(2), np.array([[1], [1]])
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    put = lambda x, u: lax.scatter_mul(x, i, u, numbers).sum()  # noqa: E731
    with pytest.raises(NotImplementedError, match="unique_indices=True"):
        steno.grad(put, 1)(x, u)
    assert steno.grad(put)(x, u).tolist() == [1, 1, 1]


def test_a_scatter_that_applies_a_function_has_no_derivative() -> None:
    with pytest.raises(NotImplementedError, match="scatter_apply"):
        steno.grad(lambda x: x.at[np.array([0, 1])].apply(steno.numpy.sin).sum())(steno.numpy.ones(3))


# random numbers


def test_random_numbers_of_a_batch_of_keys_are_those_of_each_key() -> None:
    keys = steno.random.split(steno.random.key(3), (2, 3))
    for draw in (
        lambda k: steno.random.normal(k, (4,)),
        lambda k: steno.random.randint(k, (2, 2), 0, 10),
        lambda k: steno.random.bits(k, (3,), np.uint16),
        lambda k: steno.random.key_data(steno.random.split(k)),
        lambda k: steno.random.permutation(k, 6),
        lambda k: steno.random.key_data(steno.random.fold_in(k, 5)),
    ):
        want = [[np.asarray(draw(keys[a, b])) for b in range(3)] for a in range(2)]
        assert np.array_equal(steno.vmap(steno.vmap(draw))(keys), want)
        assert np.array_equal(steno.vmap(steno.vmap(draw, 0, 0), 1, 1)(keys), want)
        assert np.array_equal(steno.jit(steno.vmap(steno.vmap(draw)))(keys), want)


def test_bounds_of_random_numbers_vary() -> None:
    key = steno.random.key(0)
    low, high = steno.grad(lambda a, b: steno.random.uniform(key, (5,), minval=a, maxval=b).sum(), (0, 1))(0.5, 2.0)
    u = float(np.sum(np.asarray(steno.random.uniform(key, (5,)))))
    assert np.isclose(high, u, rtol=1e-5) and np.isclose(low, 5 - u, rtol=1e-5)


# callbacks


class Recorder:
    """A callback that remembers the shapes it was called with, and doubles its first argument."""

    def __init__(self) -> None:
        self.shapes: list[Any] = []

    def __call__(self, *arrays: Any) -> Any:
        assert all(isinstance(a, ArrayImpl) for a in arrays)
        self.shapes.append(tuple(a.shape for a in arrays))
        out = np.asarray(arrays[0]) * 2
        for a in arrays[1:]:
            out = out + np.asarray(a)
        return out


METHODS = {
    "sequential": [((4,), (4,))] * 3,
    "sequential_unrolled": [((4,), (4,))] * 3,
    "expand_dims": [((3, 4), (1, 4))],
    "broadcast_all": [((3, 4), (3, 4))],
    "legacy_vectorized": [((3, 4), (4,))],
}


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_mapped_pure_callbacks(method: str, jit: bool) -> None:
    x, y = steno.numpy.arange(12.0).reshape(3, 4), steno.numpy.ones(4)
    called = Recorder()
    out = steno.ShapeDtypeStruct((4,), np.float32)
    f = steno.vmap(lambda x, y: steno.pure_callback(called, out, x, y, vmap_method=method), in_axes=(1, None))
    got = (steno.jit(f) if jit else f)(x.T, y)
    assert np.array_equal(got, np.asarray(x) * 2 + 1)
    assert called.shapes == METHODS[method]


def test_callbacks_nest() -> None:
    x = steno.numpy.arange(6.0).reshape(2, 3)
    for method in METHODS:
        f = lambda v: steno.pure_callback(Recorder(), steno.ShapeDtypeStruct((), np.float32), v, vmap_method=method)  # noqa: B023, E731
        assert np.array_equal(steno.vmap(steno.vmap(f))(x), np.asarray(x) * 2)
        assert np.array_equal(steno.vmap(steno.vmap(f, 0, 0), 1, 1)(x), np.asarray(x) * 2)


def test_sequential_callbacks_of_keys_and_of_nothing() -> None:
    keys = steno.random.split(steno.random.key(0), 2)
    same = steno.vmap(lambda k: steno.pure_callback(lambda k: k, steno.ShapeDtypeStruct((), keys.dtype), k, vmap_method="sequential"))
    assert np.array_equal(steno.random.key_data(same(keys)), steno.random.key_data(keys))
    empty = steno.vmap(lambda v: steno.pure_callback(Recorder(), steno.ShapeDtypeStruct((2,), np.float32), v, vmap_method="sequential"))
    assert empty(steno.numpy.ones((0, 2))).shape == (0, 2)


def test_results_of_sequential_callbacks_are_checked() -> None:
    f = lambda v: steno.pure_callback(lambda v: np.ones(3, np.float32), steno.ShapeDtypeStruct((), np.float32), v, vmap_method="sequential")  # noqa: E731
    with pytest.raises(steno.errors.JaxRuntimeError, match=r"must have shape \(\), got \(3,\)"):
        steno.vmap(f)(steno.numpy.ones(2))


def test_callbacks_without_a_way_to_map_or_to_differentiate() -> None:
    x, out = steno.numpy.ones(3), steno.ShapeDtypeStruct((), np.float32)
    with pytest.raises(NotImplementedError, match="vmap_method"):
        steno.vmap(lambda v: steno.pure_callback(np.sin, out, v))(x)
    with pytest.raises(ValueError, match="pure_callback.*custom_jvp"):
        steno.grad(lambda v: steno.pure_callback(np.sin, out, v))(1.0)
    with pytest.raises(ValueError, match="ordered"):
        steno.vmap(lambda v: io_callback(np.sin, out, v, ordered=True))(x)
    with pytest.raises(ValueError, match="IO callbacks.*JVP"):
        steno.grad(lambda v: io_callback(np.sin, out, v))(1.0)


def test_mapped_io_callbacks_run_for_each_element() -> None:
    seen: list[float] = []

    def note(v: Any) -> Any:
        seen.append(float(v))
        return v

    f = steno.vmap(lambda v: io_callback(note, steno.ShapeDtypeStruct((), np.float32), v))
    for g in (f, steno.jit(f)):
        seen.clear()
        assert g(steno.numpy.arange(3.0)).tolist() == [0, 1, 2] == seen


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("jit", [False, True])
def test_prints_under_transformations(ordered: bool, jit: bool, capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any, y: Any) -> Any:
        steno.debug.print("x {} y {y} {}", x, "s", y=y, ordered=ordered)
        return x * y

    def shown(g: Any, *args: Any) -> list[str]:
        (steno.jit(g) if jit else g)(*args)
        return capsys.readouterr().out.splitlines()

    x, y = steno.numpy.arange(2.0), steno.numpy.float32(3)
    assert shown(steno.vmap(f, (0, None)), x, y) == ["x 0.0 y 3.0 s", "x 1.0 y 3.0 s"]
    assert shown(steno.vmap(lambda x, y: (steno.debug.print("once", ordered=ordered), x)[1], (0, None)), x, y) == ["once"]
    assert shown(lambda x: steno.jvp(lambda x: f(x, x), (x,), (x,)), y) == ["x 3.0 y 3.0 s"]
    assert shown(steno.grad(f), y, y) == ["x 3.0 y 3.0 s"]
    assert shown(steno.vmap(steno.grad(f), (0, None)), x, y) == ["x 0.0 y 3.0 s", "x 1.0 y 3.0 s"]
    assert shown(steno.grad(lambda x: steno.vmap(f, (0, None))(x, y).sum()), x) == ["x 0.0 y 3.0 s", "x 1.0 y 3.0 s"]
    assert shown(steno.vmap(steno.vmap(f, (0, None)), (None, 0)), x, x) == [f"x {a} y {b} s" for a in (0.0, 1.0) for b in (0.0, 1.0)]


def test_debug_callbacks_under_transformations() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        steno.debug.callback(lambda x: seen.append(np.asarray(x).tolist()), x)
        return (x**2).sum()

    x = steno.numpy.array([[1.0, 2], [3, 4]])
    for g in (
        steno.vmap(f, 1),
        steno.vmap(steno.grad(f), 1),
        steno.jit(steno.vmap(f, 1)),
        steno.jit(steno.vmap(steno.value_and_grad(f), 1)),
    ):
        seen.clear()
        g(x)
        assert seen == [[1, 3], [2, 4]]


def test_batches_of_nothing() -> None:
    """A batch of no elements keeps its types."""

    def run(x: Any, i: Any) -> list[Any]:
        return batch_flat(lambda x, i: [index.dynamic_slice(x, i, slice_sizes=(2,))], Axis(None, 0), [x, i], [0, 0])[0]

    program = trace_to_jaxpr(run, [ShapedArray((0, 3), F64), ShapedArray((0,), np.dtype(I))])
    (out,) = interpret(program, [np.zeros((0, 3)), np.zeros(0, I)])
    assert out.shape == (0, 2)
