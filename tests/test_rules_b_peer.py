"""Rules of the ops that move, join, index and contract, against the real JAX: the values of derivatives and of mapped functions, also where
elements collide or tie, and never more equations than JAX's programs have."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from peer import NO_JAX, Arr, Expr, Key, compare_all, peer, run_here

pytestmark = pytest.mark.skipif(peer() is None, reason=NO_JAX)

F32, I32 = np.float32, np.int32


def arr(*shape: int, seed: int = 0) -> Arr:
    return Arr(np.random.default_rng([seed, *shape]).standard_normal(shape).astype(F32))


def ints(*values: Any, dtype: Any = I32) -> Arr:
    return Arr(np.array(values, dtype))


def one(value: int) -> Arr:
    return Arr(np.int32(value))


X, Y, V = arr(3, 4), arr(3, 4, seed=1), arr(4, seed=2)
ROWS = "lax.GatherDimensionNumbers((1,), (0,), (0,))"
PUT = "lax.ScatterDimensionNumbers((1,), (0,), (0,))"
STARTS = "allow_negative_indices=False"


def scatter(name: str, unique: bool, mode: str = "drop") -> str:
    return f"lambda x, u: lax.{name}(x, i, u, {PUT}, unique_indices={unique}, mode={mode!r})"


I4 = ints([0], [2], [1], [7])
COLLIDING = ints([0], [2], [2], [7])
# name: (function, arguments that vary, others)
FUNCTIONS: dict[str, tuple[str, list[Arr], dict[str, Any]]] = {
    "reshape": ("lambda x: lax.reshape(x, (2, 6))", [X], {}),
    "reshape permuted": ("lambda x: lax.reshape(x, (2, 6), (1, 0))", [X], {}),
    "transpose": ("lambda x: lax.transpose(x, (2, 0, 1))", [arr(2, 3, 4)], {}),
    "broadcast": ("lambda x: lax.broadcast_in_dim(x, (2, 3, 4), (1, 2))", [X], {}),
    "broadcast stretched": ("lambda x: lax.broadcast_in_dim(x, (2, 3, 4), (1, 2))", [arr(1, 4)], {}),
    "broadcast scalar": ("lambda x: lax.broadcast_in_dim(x, (2, 3), ())", [arr()], {}),
    "squeeze": ("lambda x: lax.squeeze(x, (0, 2))", [arr(1, 3, 1, 4)], {}),
    "expand_dims": ("lambda x: lax.expand_dims(x, (1,))", [X], {}),
    "concatenate": ("lambda x, y: lax.concatenate([x, y, x], 1)", [X, Y], {}),
    "concatenate with constants": ("lambda x: lax.concatenate([c, x, c, x, c], 0)", [X], {"c": arr(2, 4)}),
    "stack": ("lambda x, y: lax.stack([x, y], 1)", [X, Y], {}),
    "stack with constants": ("lambda x: lax.stack([c, x, c])", [X], {"c": Y}),
    "split": ("lambda x: lax.split(x, (1, 2), 0)", [X], {}),
    "part of split": ("lambda x: lax.split(x, (1, 2, 1), 1)[1]", [X], {}),
    "unstack": ("lambda x: lax.unstack(x, 1)", [X], {}),
    "one of unstack": ("lambda x: lax.unstack(x, 1)[2]", [X], {}),
    "pad": ("lambda x: lax.pad(x, np.float32(1), ((1, 2, 0), (0, 3, 0)))", [X], {}),
    "pad within": ("lambda x: lax.pad(x, np.float32(1), ((1, 2, 1), (0, 0, 2)))", [X], {}),
    "pad away": ("lambda x: lax.pad(x, np.float32(1), ((-1, 2, 0), (2, -1, 1)))", [X], {}),
    "pad value": ("lambda x, v: lax.pad(x, v, ((1, 2, 1), (-1, 0, 0)))", [X, arr()], {}),
    "rev": ("lambda x: lax.rev(x, (1,))", [X], {}),
    "slice": ("lambda x: lax.slice(x, (1, 0), (3, 4), (1, 3))", [X], {}),
    "tile": ("lambda x: lax.tile(x, (2, 3))", [X], {}),
    "dynamic_slice": (f"lambda x: lax.dynamic_slice(x, (i, j), (2, 2), {STARTS})", [X], {"i": one(1), "j": one(9)}),
    "dynamic_update_slice": (
        f"lambda x, u: lax.dynamic_update_slice(x, u, (i, j), {STARTS})",
        [X, arr(2, 2)],
        {"i": one(5), "j": one(-3)},
    ),
    "dynamic_update_slice of a constant": (
        f"lambda u: lax.dynamic_update_slice(c, u, (i, i), {STARTS})",
        [arr(2, 2)],
        {"c": X, "i": one(1)},
    ),
    **{
        f"gather {mode}": (f"lambda x: lax.gather(x, i, {ROWS}, (1, 4), mode={mode!r})", [X], {"i": ints([0], [2], [2], [-1], [5])})
        for mode in ("fill", "clip")
    },
    "gather in bounds": (f"lambda x: lax.gather(x, i, {ROWS}, (1, 4), mode='promise_in_bounds')", [X], {"i": ints([0], [2], [2])}),
    **{f"{name} unique": (scatter(name, True), [X, arr(4, 4, seed=3)], {"i": I4}) for name in ("scatter", "scatter_add", "scatter_mul")},
    **{
        f"{name} colliding": (scatter(name, False), [X, arr(4, 4, seed=3)], {"i": COLLIDING})
        for name in ("scatter", "scatter_add", "scatter_sub", "scatter_min", "scatter_max")
    },
    "scatter clip": (scatter("scatter_add", False, "clip"), [X, arr(4, 4, seed=3)], {"i": ints([0], [-2], [2], [7])}),
    "scatter of a constant": (f"lambda u: lax.scatter_add(c, i, u, {PUT})", [arr(4, 4)], {"c": X, "i": COLLIDING}),
    "scatter into a variable": (f"lambda x: lax.scatter_add(x, i, c, {PUT})", [X], {"c": arr(4, 4), "i": COLLIDING}),
    "dot": ("lambda x, y: lax.dot_general(x, y, (((1,), (0,)), ((), ())))", [X, arr(4, 5)], {}),
    "dot of vectors": ("lambda x, y: lax.dot_general(x, y, (((0,), (0,)), ((), ())))", [V, arr(4, seed=5)], {}),
    "dot of a transposed": ("lambda x, y: lax.dot_general(x, y, (((0,), (1,)), ((), ())))", [X, arr(5, 3)], {}),
    "dot of batches": ("lambda x, y: lax.dot_general(x, y, (((2,), (1,)), ((0,), (2,))))", [arr(2, 3, 4), arr(5, 4, 2)], {}),
    "dot over two axes": ("lambda x, y: lax.dot_general(x, y, (((0, 2), (2, 0)), ((), ())))", [arr(2, 3, 4), arr(4, 5, 2)], {}),
    "outer": ("lambda x, y: lax.dot_general(x, y, (((), ()), ((), ())))", [V, arr(3)], {}),
    "dot in float32": (
        "lambda x, y: lax.dot_general(x, y, (((1,), (0,)), ((), ())), preferred_element_type=np.float32)",
        [Arr(X.value.astype(np.float16)), Arr(arr(4, 5).value.astype(np.float16))],
        {},
    ),
    "take": ("lambda x: jnp.take(x, i, axis=1)", [X], {"i": ints(0, 3, 3)}),
    "index": ("lambda x: x[i, 1:]", [X], {"i": ints(0, 2, 2)}),
    "at add": ("lambda x, u: x.at[i].add(u)", [X, arr(3, 4, seed=4)], {"i": ints(0, 2, 2)}),
    "at set": ("lambda x, u: x.at[i].set(u)", [X, arr(3, 4, seed=4)], {"i": ints(0, 2, 2)}),
    "flip and roll": ("lambda x: jnp.roll(jnp.flip(x, 0), 1, 1)", [X], {}),
    "einsum": ("lambda x, y: jnp.einsum('bij,bjk->ik', x, y)", [arr(2, 3, 4), arr(2, 4, 5)], {}),
    "uniform": (
        "lambda x, y: jax.random.uniform(key, (3,), minval=x, maxval=y)",
        [arr(), Arr(np.float32(3))],
        {"key": Key(np.array([1, 2], np.uint32))},
    ),
}
NARROW = "dot in float32"


def variables(args: list[Arr], others: dict[str, Any]) -> dict[str, Any]:
    return {f"a{k}": a for k, a in enumerate(args)} | others


def names(args: list[Arr]) -> str:
    return ", ".join(f"a{k}" for k in range(len(args)))


def jvp(name: str) -> tuple[str, dict[str, Any]]:
    """All arguments vary together."""
    f, args, others = FUNCTIONS[name]
    tangents = {f"t{k}": Arr(arr(*np.shape(a.value), seed=100 + k).value.astype(a.value.dtype)) for k, a in enumerate(args)}
    run = f"lambda {', '.join(tangents)}: jax.jvp({f}, ({names(args)},), ({', '.join(tangents)},))"
    return f"({run})", {"arguments": ", ".join(tangents)} | variables(args, others) | tangents


def vjp(name: str) -> tuple[str, dict[str, Any]]:
    f, args, others = FUNCTIONS[name]
    ones = "jax.tree_util.tree_map(lambda y: y * 0 + jnp.arange(y.size, dtype=y.dtype).reshape(y.shape) / 3, "
    run = f"lambda {names(args)}: (lambda y, back: back({ones}y)))(*jax.vjp({f}, {names(args)}))"
    return f"({run})", {"arguments": names(args)} | variables(args, others)


def value_of(made: tuple[str, dict[str, Any]]) -> Expr:
    source, given = made
    given = dict(given)
    return Expr(f"{source}({given.pop('arguments')})", **given)


def count_of(made: tuple[str, dict[str, Any]]) -> Expr:
    source, given = made
    given = dict(given)
    return Expr(f"live(jax.make_jaxpr({source})({given.pop('arguments')}))", **given)


def assert_not_more(calls: list[Expr]) -> None:
    server = peer()
    assert server is not None
    worse = []
    for call, ours, theirs in zip(calls, run_here(calls), server.batch(calls), strict=True):
        if not isinstance(getattr(ours, "value", None), int) or ours.value > theirs.value:
            worse.append(f"{call.source}: {ours}, JAX {theirs}")
    assert not worse, "\n".join(worse)


@pytest.mark.parametrize("transform", [jvp, vjp], ids=["jvp", "vjp"])
def test_derivatives(transform: Any) -> None:
    compare_all([value_of(transform(name)) for name in FUNCTIONS if name != NARROW])
    compare_all([value_of(transform(NARROW))], rtol=1e-3)


@pytest.mark.parametrize("transform", [jvp, vjp], ids=["jvp", "vjp"])
def test_derivatives_have_no_more_equations(transform: Any) -> None:
    assert_not_more([count_of(transform(name)) for name in FUNCTIONS])


def cotangent_count(name: str) -> Expr:
    """Of the pullback alone: what the forward pass computes is not counted."""
    f, args, others = FUNCTIONS[name]
    return Expr(
        f"(lambda y, back: live(jax.make_jaxpr(back)(jax.tree_util.tree_map(jnp.ones_like, y))))(*jax.vjp({f}, {names(args)}))",
        **variables(args, others),
    )


def test_pullbacks_have_no_more_equations() -> None:
    """Which updates are the last ones of their elements JAX finds out in the forward pass, with more equations in all; and it gathers
    from the array itself where `x[i, 1:]` is here a gather from a slice."""
    otherwise = {"scatter colliding", "at set", "index"}
    assert_not_more([cotangent_count(name) for name in FUNCTIONS if name not in otherwise])


def mapped(f: str, axes: tuple[int | None, ...], args: list[Any], **others: Any) -> tuple[str, dict[str, Any]]:
    return f"(jax.vmap({f}, in_axes={axes}))", {"arguments": names(args)} | variables(args, others)


def batches(f: str, args: list[Arr], choices: list[tuple[int | None, ...]], **others: Any) -> list[tuple[str, dict[str, Any]]]:
    """Functions mapped over batches of 2 or 3, for each choice of axes."""
    out = []
    for axes in choices:
        given = []
        for a, d in zip(args, axes, strict=True):
            value = np.asarray(a.value)
            if d is not None:
                moved = [value, np.roll(value, 1), np.roll(value, 2)] if value.ndim else [value, value + 1, value + 2]
                value = np.stack([m.astype(value.dtype) for m in moved], d)
            given.append(Arr(value))
        out.append(mapped(f, axes, given, **others))
    return out


def choices(count: int, axes: tuple[int | None, ...] = (0, None)) -> list[tuple[int | None, ...]]:
    return [c for c in itertools.product(axes, repeat=count) if any(d is not None for d in c)]


INDEX = one(1)
AT = ints([0], [2], [4], [1])
MAPPED: list[tuple[str, dict[str, Any]]] = [
    *(call for f, args, others in FUNCTIONS.values() for call in batches(f, args, choices(len(args)), **others)),
    *batches(f"lambda x, i: lax.dynamic_slice(x, (i, 1), (2, 2), {STARTS})", [X, INDEX], choices(2)),
    *batches(f"lambda x, i: lax.dynamic_slice(x, (i, 0), (2, 4), {STARTS})", [X, INDEX], choices(2)),
    *batches(f"lambda x, i: lax.dynamic_slice(x, (i, i), (1, 3), {STARTS})", [X, INDEX], [(1, 0), (2, 0), (2, None)]),
    *batches(f"lambda x, u, i: lax.dynamic_update_slice(x, u, (i, 0), {STARTS})", [X, arr(2, 4), INDEX], choices(3)),
    *batches(f"lambda x, u, i: lax.dynamic_update_slice(x, u, (i, i), {STARTS})", [X, arr(1, 3), INDEX], choices(3)),
    *batches("lambda x, i: lax.dynamic_index_in_dim(x, i, 0, False)", [X, INDEX], choices(2)),
    *batches(f"lambda x, i: lax.gather(x, i, {ROWS}, (1, 4), mode='fill')", [X, AT], [*choices(2), (1, 1), (2, None), (None, 2)]),
    *batches("lambda x, i: x[i]", [X, ints(2, 0)], choices(2)),
    *batches("lambda x, i: jnp.take_along_axis(x, i, 1)", [X, ints([0, 3], [1, 1], [2, 0])], choices(2)),
    *(
        call
        for name in ("scatter_add", "scatter_sub", "scatter_mul", "scatter_min", "scatter_max")
        for call in batches(f"lambda x, i, u: lax.{name}(x, i, u, {PUT})", [X, AT, arr(4, 4, seed=6)], choices(3))
    ),
    *batches(f"lambda x, i, u: lax.scatter(x, i, u, {PUT})", [X, AT, arr(4, 4, seed=6)], choices(3)),
    *batches("lambda x, i, u: x.at[i].add(u)", [X, ints(2, 0), arr(2, 4)], choices(3)),
    *batches("lambda x, y: lax.dot_general(x, y, (((1,), (0,)), ((), ())))", [X, arr(4, 5)], [*choices(2), (1, 2), (2, 1)]),
    *batches("lambda x, y: lax.dot_general(x, y, (((2,), (1,)), ((0,), (2,))))", [arr(2, 3, 4), arr(5, 4, 2)], choices(2)),
]


def test_mapped_functions() -> None:
    compare_all([value_of(call) for call in MAPPED])


def test_mapped_functions_have_no_more_equations() -> None:
    assert_not_more([count_of(call) for call in MAPPED])


TIES = np.array([[1, 2, 3, 4], [5, 5, 0, 0], [-0.0, np.inf, -np.inf, 7]], F32)
TIED_UPDATES = np.array([[1, 3, 3, 3], [1, 3, 3, 3], [5, 4, 0, 0], [0, np.inf, np.inf, 7]], F32)


@pytest.mark.parametrize("name", ["scatter_min", "scatter_max"])
@pytest.mark.parametrize("index", [ints([0], [0], [1], [2]), ints([0], [5], [0], [0])], ids=["tie", "drop"])
def test_ties_share_the_derivative(name: str, index: Arr) -> None:
    f = f"lambda x, u: lax.{name}(x, i, u, {PUT})"
    given = {"x": Arr(TIES), "u": Arr(TIED_UPDATES), "i": index, "t": arr(3, 4, seed=8), "s": arr(4, 4, seed=9)}
    compare_all(
        [
            Expr(f"jax.jvp({f}, (x, u), (t, s))", **given),
            Expr(f"jax.jvp(lambda x: ({f})(x, u), (x,), (t,))", **given),
            Expr(f"jax.jvp(lambda u: ({f})(x, u), (u,), (s,))", **given),
            Expr(f"jax.vjp({f}, x, u)[1](t)", **given),
        ]
    )


def test_what_has_no_derivative() -> None:
    given = {"x": X, "u": arr(4, 4), "i": COLLIDING}
    put = f"lambda u: lax.scatter_mul(x, i, u, {PUT}).sum()"
    callback = "jax.pure_callback(np.sin, jax.ShapeDtypeStruct((3, 4), np.float32), x"
    compare_all(
        [
            Expr(f"jax.grad({put})(u)", **given),
            Expr("jax.grad(lambda x: x.at[jnp.array([1, 2])].apply(jnp.sin).sum())(x)", **given),
            Expr(f"jax.grad(lambda x: {callback}).sum())(x)", **given),
            Expr(f"jax.vmap(lambda x: {callback}))(x[None])", **given),
            Expr(f"jax.vmap(lambda x: {callback}, vmap_method='broadcast_all'))(x[None])", **given),
        ]
    )


def test_random_ops() -> None:
    keys = Key(np.arange(12, dtype=np.uint32).reshape(3, 2, 2))
    functions = [
        "lambda k: jax.random.bits(k, (3,))",
        "lambda k: jax.random.bits(k, (), np.uint8)",
        "lambda k: jax.random.split(k, 3)",
        "lambda k: jax.random.fold_in(k, 7)",
        "lambda k: jax.random.key_data(k)",
        "lambda k: jax.random.uniform(k, (2, 2))",
        "lambda k: jax.random.permutation(k, 5)",
        "lambda k: jax.random.wrap_key_data(jax.random.key_data(k))",
    ]
    made = [
        (f"(jax.vmap(jax.vmap({f}, in_axes={a}), in_axes={b}))", {"arguments": "k", "k": keys})
        for f in functions
        for a, b in [(0, 0), (0, 1)]
    ]
    made += [
        ("(jax.vmap(jax.random.fold_in, in_axes=(None, 0)))", {"arguments": "k[0, 0], i", "k": keys, "i": ints(1, 2, 3)}),
        ("(jax.vmap(jax.random.fold_in, in_axes=(0, 0)))", {"arguments": "k[:, 0], i", "k": keys, "i": ints(1, 2, 3)}),
        ("(jax.vmap(jax.random.key))", {"arguments": "i", "i": ints(1, 2, 3)}),
        ("(jax.vmap(jax.random.wrap_key_data, in_axes=1))", {"arguments": "w", "w": ints([1, 2, 3], [4, 5, 6], dtype=np.uint32)}),
    ]
    compare_all([value_of(m) for m in made])
    assert_not_more([count_of(m) for m in made if "uniform" not in m[0] and "permutation" not in m[0]])
