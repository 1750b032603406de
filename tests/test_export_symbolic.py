"""Programs of symbolic shapes: what sizes are, what programs of them compute at several sizes, and what is refused.

The oracle of a program is the function itself, called with arrays of the same sizes."""

from __future__ import annotations

import copy
import random

import numpy as np
import pytest

import steno
import steno.numpy as snp
from steno import export, lax, nn
from steno.core.size_bounds import lower_bound, not_negative, upper_bound
from steno.core.sizes import max_size, min_size, slice_bounds, slice_length, surely
from steno.core.symbolic import read_size
from steno.errors import InconclusiveDimensionOperation as Inconclusive
from steno.extend.core import ShapedArray

F32 = np.dtype("float32")
KEY = steno.random.key(0)


def spec(text, dtype=F32, **how):
    return steno.ShapeDtypeStruct(export.symbolic_shape(text, **how), dtype)


def exported(f, *texts, constraints=()):
    scope = export.SymbolicScope(constraints)
    return export.export(steno.jit(f))(*(spec(t, scope=scope) for t in texts))


def shapes(e, **sizes):
    return [tuple(n if isinstance(n, int) else n.evaluate(sizes) for n in a.shape) for a in e.in_avals]


# Sizes


def test_arithmetic_has_one_form_for_equal_sizes():
    b, n = export.symbolic_shape("b, n")
    assert b + n is n + b and (b + 1) * (b - 1) is b * b - 1 and 2 * b // 2 is b and b - b == 0 and type(b - b + 3) is int
    assert (4 * b * n + 2 * b) // (2 * b) is 2 * n + 1 and (b * b - n * n) // (b + n) is b - n and (3 * b + 5) % 3 == 2
    assert -(-b // 2) is (b + 1) // 2 and b // 2 * 2 is b - b % 2 and b // 2 // 3 is b // 6
    assert b - min_size(b, 3) is max_size(b, 3) - 3 and max_size(b - 1, 1) is max_size(b, 2) - 1
    assert np.int32(3) * b is 3 * b and b + np.int64(4) is b + 4 and b**2 is b * b and divmod(2 * b + 1, 2) == (b, 1)
    assert b != n and b != 1 and {b: 1}[b] == 1 and copy.deepcopy(b) is b and hash(b) == hash(b + 1 - 1)
    assert [str(e) for e in (2 * b * n - 3, b % 4, n // b, -b, b * b)] == ["2*b*n - 3", "mod(b, 4)", "floordiv(n, b)", "-b", "b^2"]
    assert export.is_symbolic_dim(b) and not export.is_symbolic_dim(3)


def test_comparisons_are_decided_by_bounds_and_constraints():
    b, n = export.symbolic_shape("b, n")
    assert b >= 1 and b + n > 1 and b * n >= n and (b + 1) // 2 <= b and b % 5 <= 4 and n * (b // n) <= b and not b < 1
    assert max_size(b, 3) >= 3 and min_size(b, 5) <= 5 and slice_length(*slice_bounds(slice(None, None, 2), b)) is (b + 1) // 2
    for undecided in (lambda: b > 2, lambda: b >= n, lambda: max(b, n), lambda: b - 2 < 0):
        with pytest.raises(Inconclusive, match="inconclusive"):
            undecided()
    assert not surely(lambda: b > 2) and export.symbolic_dim_bounds((b + 3) // 2) == (2, np.inf)
    c, d, e = export.symbolic_shape("c, d, e", constraints=["c >= d + 2", "d >= 3", "c <= 9", "mod(e, 4) == 0", "2*c == e - 1"])
    assert c >= 5 and d <= 7 and e % 4 == 0 and 4 * (e // 4) is e and 2 * c is e - 1
    assert export.symbolic_shape("p, q", constraints=["q == 5", "p == q + 1"]) == (6, 5)
    for constraints in (["b >= 2", "b <= 1"], ["1 >= 2"], ["b == b + 1"]):
        with pytest.raises(ValueError, match="(?i)unsatisfiable|hold"):
            export.symbolic_shape("b", constraints=constraints)


def test_sizes_are_no_ints():
    (b,) = export.symbolic_shape("b")
    with pytest.raises(Inconclusive):
        int(b)
    for use in (lambda: range(b), lambda: np.zeros((b,)), lambda: float(b)):
        with pytest.raises(TypeError):
            use()
    for use in (lambda: [0] * b, lambda: b * snp.ones(3), lambda: snp.zeros((b,)), lambda: steno.jit(lambda x: x)(spec("b"))):
        with pytest.raises(NotImplementedError):
            use()
    with pytest.raises(ValueError, match="mixing of symbolic scopes"):
        b + export.symbolic_shape("b")[0]


@pytest.mark.parametrize("text", ["b,+", "b n", "f(b)", "b^n", "floordiv(b)", "(b", "_", "..."])
def test_text_that_is_no_shape(text):
    with pytest.raises(ValueError, match="symbolic_shape"):
        export.symbolic_shape(text)


def test_shapes_from_text():
    b, n = export.symbolic_shape("b, n")
    scope = b.scope
    assert export.symbolic_shape("(b + 2*n)*b, max(b, n), 3", scope=scope) == (b * b + 2 * n * b, max_size(b, n), 3)
    assert export.symbolic_shape("(b, _, ...)", scope=scope, like=(7, 8, 9, 4)) == (b, 8, 9, 4)
    assert export.symbolic_shape(None, like=(2, 3)) == (2, 3) and export.symbolic_shape("") == ()
    with pytest.raises(ValueError):
        export.symbolic_shape("7", like=(3,))
    args = ({"a": np.ones((2, 3), F32)}, np.ones(3, F32))
    d, v = export.symbolic_args_specs(args, ({"a": "b, ..."}, "n"), constraints=["b >= n"])
    assert [str(k) for k in (*d["a"].shape, *v.shape)] == ["b", "3", "n"] and d["a"].shape[0] >= v.shape[0]
    assert [s.shape for s in export.symbolic_args_specs((args[1], args[1]), None)] == [(3,), (3,)]
    with pytest.raises(ValueError):
        export.symbolic_args_specs(args, ({"c": "b"}, None))


def test_types_hold_sizes():
    b, n = export.symbolic_shape("b, n")
    a = ShapedArray((b, 2 * n, 3), F32)
    assert a is ShapedArray([b, n + n, 3], F32) and a is not ShapedArray((b, n, 3), F32) and a.size is 6 * b * n
    assert str(a) == "float32[b,2*n,3]" and a.update(weak_type=True).shape == a.shape and a.update(shape=(2,)) is ShapedArray((2,), F32)
    assert a.nbytes is 24 * b * n and repr(a) == "ShapedArray(float32[b,2*n,3])"


def test_random_expressions():
    """Arithmetic, bounds and text against ints."""
    rng = random.Random(0)
    scope = export.SymbolicScope(["a >= c", "mod(e, 4) == 0", "d <= 8"])
    names = dict(zip("acde", export.symbolic_shape("a, c, d, e", scope=scope), strict=True))
    values = [dict(a=a, c=c, d=d, e=e) for a, c in ((1, 1), (3, 2), (9, 5), (30, 17)) for d in (1, 8) for e in (4, 12)]

    def made(depth):
        if not depth:
            leaf = rng.choice([*names, *"1235"])
            return names.get(leaf, None) or int(leaf), lambda v: v[leaf] if leaf in v else int(leaf)
        (x, fx), (y, fy) = made(depth - 1), made(depth - 1)
        k = rng.choice([1, 2, 3, 4, 6])
        return rng.choice((
            (x + y, lambda v: fx(v) + fy(v)), (x - y, lambda v: fx(v) - fy(v)), (x * y, lambda v: fx(v) * fy(v)),
            (x // k, lambda v: fx(v) // k), (x % k, lambda v: fx(v) % k), (x // names["a"], lambda v: fx(v) // v["a"]),
            (max_size(x, y), lambda v: max(fx(v), fy(v))), (min_size(x, y), lambda v: min(fx(v), fy(v))),
        ))  # fmt: skip

    for _ in range(120):
        x, f = made(rng.choice([1, 2, 3]))
        low, high, sure = lower_bound(x), upper_bound(x), not_negative(x)
        assert isinstance(x, int) or read_size(scope, str(x)) is x
        for v in values:
            got = x if isinstance(x, int) else x.evaluate(v)
            assert got == f(v) and low <= got <= high and (got >= 0 or not sure), (x, v)


# Programs

PROGRAMS = {
    "values": (lambda x: (x * x.shape[0] - x.shape[0] / 2, x.size, snp.array(x.shape), snp.full(x.shape, x.shape[0])), "b, 3"),
    "ranges": (lambda x: x + snp.arange(x.shape[0]) + lax.iota(F32, x.shape[0]) + snp.arange(0, 2 * x.shape[0], 2), "b"),
    "reshapes": (lambda x: (x.reshape(-1), x.reshape(-1, 4), x.reshape(x.shape[0] * x.shape[1], 2, 2), x.ravel()), "b, c, 4"),
    "slices": (lambda x: (x[1:], x[:-1], x[::2], x[::-1], x[:5], x[-2:], x[1:5], x[-1], x[x.shape[0] - 1], x[: x.shape[0] // 2]), "b"),
    "joins": (lambda x: (snp.concatenate([x, x[1:], snp.ones(2)]), snp.pad(x, (1, x.shape[0])), snp.tile(x, 2), snp.stack([x, x])), "b"),
    "reductions": (lambda x: (x.mean(), x.var(0), nn.softmax(x), nn.logsumexp(x, 0), snp.argmax(x, 0), snp.cumsum(x, 0)), "b, c"),
    "products": (lambda x, y: (x @ y, snp.einsum("ij,kj->ik", x, x), snp.outer(x[0], y[0])), "b, c", "c, 4"),
    "windows": (
        lambda x, k: (
            lax.conv_general_dilated(x, k, (1, 1), "SAME"),
            lax.conv_general_dilated(x, k, (2, 2), "VALID"),
            lax.reduce_window(x, 0.0, lax.add, (1, 1, 2, 2), (1, 1, 2, 2), "SAME"),
        ),
        "b, 2, h + 2, w + 2",
        "3, 2, 3, 3",
    ),
    "order": (lambda x: (snp.sort(x), snp.argsort(x), lax.top_k(x, x.shape[0]), x[snp.argsort(-x)], snp.median(x)), "b"),
    "updates": (lambda x: (x.at[0].set(1), x.at[-1].add(1), x.at[1:].mul(2), lax.dynamic_update_slice(x, x[:1], (x.shape[0] - 1,))), "b"),
    "scan": (lambda x: lax.scan(lambda c, y: (snp.tanh(c + y), c), snp.zeros(x.shape[1]), x), "t, c"),
    "loops": (
        lambda x: (
            lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i], 0.0),
            lax.while_loop(lambda c: c[0] < x.shape[0], lambda c: (c[0] + 1, 2 * c[1]), (0, 1.0)),
            lax.map(snp.sin, x),
        ),
        "b",
    ),
    "bits": (lambda x: (steno.random.uniform(KEY, x.shape) + x, steno.random.split(KEY, x.shape[0])), "b, 3"),
    "inner": (lambda x: (steno.jit(lambda y: y + y.size)(x), steno.vmap(lambda r: r @ r)(x), lax.cond(True, snp.sin, snp.cos, x)), "b, 3"),
    "gradients": (
        steno.grad(lambda x: (x[::2] ** 2).sum() + (x[:-1] * x[1:]).sum() + snp.pad(x, (1, 2)).mean() + snp.sort(x)[-1] * x.max()),
        "b",
    ),
    "gradient of a loop": (
        steno.grad(lambda w: lax.scan(lambda h, _: (snp.tanh(h @ w), None), snp.ones(w.shape[0]), length=3)[0].sum()),
        "b, b",
    ),
    "gradient of a window": (steno.grad(lambda x: (lax.reduce_window(x, -snp.inf, lax.max, (2,), (2,), "VALID") ** 2).sum()), "2*h"),
    "linear algebra": (lambda x: (snp.linalg.inv(x @ x.T + 9 * snp.eye(x.shape[0])), snp.trace(x), snp.tril(x)), "b, b"),
}  # fmt: skip
SIZES = (dict(b=3, c=2, h=4, w=5, t=3), dict(b=1, c=1, h=1, w=1, t=1))


def check(program, f, args):
    want = map(snp.asarray, steno.tree.leaves(f(*map(snp.asarray, args))))
    for x, y in zip(steno.tree.leaves(program.call(*args)), want, strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        if not snp.issubdtype(x.dtype, steno.dtypes.prng_key):
            np.testing.assert_allclose(x, y, rtol=2e-5, atol=1e-5)


@pytest.fixture
def reference():
    steno.config.update("steno_backend", "reference")
    yield
    steno.config.update("steno_backend", "cpu")


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, reference):
    f, *texts = PROGRAMS[name]
    program = exported(f, *texts)
    loaded = export.deserialize(program.serialize())
    assert [str(a) for a in loaded.out_avals] == [str(a) for a in program.out_avals]
    rng = np.random.default_rng(0)
    for sizes, p in zip(SIZES, (loaded, program), strict=True):
        check(p, f, [rng.standard_normal(s).astype(F32) for s in shapes(program, **sizes)])


def test_compiled_once_for_each_sizes():
    def f(x):
        return nn.softmax(x) @ x.T * x.shape[0]

    program = exported(f, "b, 3")
    for n in (2, 4, 2):
        check(program, f, [np.arange(3.0 * n, dtype=F32).reshape(n, 3)])
    assert program._call._cache_size() == 2


def test_calls_under_transformations(reference):
    def f(x):
        return snp.tanh(x @ x.T).sum(0) * x.shape[0]

    x = np.linspace(-1, 1, 6, dtype=F32).reshape(2, 3)
    loaded = export.deserialize(exported(f, "b, 3").serialize(vjp_order=1))
    assert [str(a) for a in loaded.vjp().in_avals] == ["float32[b,3]", "float32[b]"]
    ct = np.array([1, 2], F32)
    np.testing.assert_allclose(loaded.vjp().call(x, ct)[0], steno.vjp(f, x)[1](ct)[0], rtol=1e-5)
    np.testing.assert_allclose(steno.grad(lambda x: loaded.call(x).sum())(x), steno.grad(lambda x: f(x).sum())(x), rtol=1e-5)
    np.testing.assert_allclose(steno.vmap(loaded.call)(np.stack([x, 2 * x])), [f(x), f(2 * x)], rtol=1e-5)
    np.testing.assert_allclose(steno.jit(loaded.call)(x), f(x), rtol=1e-5)


def test_an_exported_program_within_another(reference):
    inner = exported(lambda x: x.reshape(-1) * x.shape[1], "b, 2*n")
    outer = exported(lambda x: inner.call(x) + 1, "a, 4")
    assert str(outer.out_avals[0]) == "float32[4*a]"
    check(outer, lambda x: x.reshape(-1) * 4 + 1, [np.ones((3, 4), F32)])
    with pytest.raises(ValueError, match="remainder"):
        exported(inner.call, "a, c")


def test_constraints_decide_while_tracing(reference):
    program = exported(lambda x: lax.dynamic_slice_in_dim(x, 1, 2), "b", constraints=["b >= 2"])
    check(program, lambda x: lax.dynamic_slice_in_dim(x, 1, 2), [np.arange(5, dtype=F32)])
    even = exported(lambda x: x.reshape(-1, 2).sum(1), "b", constraints=["mod(b, 2) == 0"])
    assert str(even.out_avals[0]) == "float32[floordiv(b, 2)]"
    check(export.deserialize(even.serialize()), lambda x: x.reshape(-1, 2).sum(1), [np.arange(6, dtype=F32)])
    with pytest.raises(Inconclusive):
        exported(lambda x: lax.dynamic_slice_in_dim(x, 1, 2), "b")
    with pytest.raises(Inconclusive, match="reshape"):
        exported(lambda x: x.reshape(-1, 2), "b")


@pytest.mark.parametrize(
    ("texts", "constraints", "called", "message"),
    [
        (("b, 2*n",), (), ((2, 5),), "remainder 1"),
        (("b, 2*n",), (), ((0, 4),), "Expected value >= 1"),
        (("b, b",), (), ((2, 4),), "inconsistency"),
        (("b, 3",), (), ((2, 4),), "inconsistency"),
        (("b", "b + 1"), (), ((2,), (2,)), "inconsistency"),
        (("b, n",), ("b >= n",), ((2, 4),), "b >= n"),
        (("b",), ("mod(b, 2) == 0",), ((3,),), r"mod\(b, 2\) == 0"),
        (("b, n",), (), ((2,),), "was exported for"),
    ],
)
def test_arguments_that_do_not_fit(texts, constraints, called, message):
    program = exported(lambda *xs: xs[0], *texts, constraints=constraints)
    with pytest.raises(ValueError, match=message):
        program.call(*(np.ones(s, F32) for s in called))


def test_what_cannot_be_exported():
    for text in ("b*n", "floordiv(b, 2)", "b + n, b - n"):
        with pytest.raises(ValueError, match="Cannot solve"):
            exported(lambda x: x, text)
    with pytest.raises(ValueError, match="scopes when exporting"):
        export.export(steno.jit(lambda x, y: (x, y)))(spec("b"), spec("b"))
    with pytest.raises((TypeError, ValueError), match="broadcast"):
        exported(lambda x, y: x + y, "b", "n")
    with pytest.raises(ValueError, match="squeeze"):
        exported(snp.squeeze, "b, 1")
    with pytest.raises(NotImplementedError, match="associative_scan"):
        exported(lambda x: lax.associative_scan(snp.add, x), "b")
    program = exported(lambda x: x.reshape(x.shape[0] // 2, 2), "b")
    with pytest.raises(TypeError, match="no reshape for the sizes b = 5"):
        program.call(np.ones(5, F32))
