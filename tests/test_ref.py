"""References to mutable arrays: what is shared with whom, what is done in place, life and death, gradients that go into references."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import steno
import steno.numpy as jnp
from steno import lax
from steno.core.config import backend as backend_knob
from steno.core.jaxpr import check_jaxpr
from steno.core.refs import STATE, AbstractRef


def ref_of(*values: float) -> Any:
    return steno.new_ref(jnp.array(values, jnp.float32))


def equal(x: Any, *values: Any) -> None:
    np.testing.assert_array_equal(np.asarray(x), np.asarray(values if len(values) != 1 else values[0], np.float32))


# Memory


def test_a_reference_is_a_copy() -> None:
    x = jnp.arange(3.0)
    r = steno.new_ref(x)
    r[0] = 9.0
    steno.jit(lambda r: r.__setitem__(1, 8.0))(r)
    equal(x, 0, 1, 2)
    equal(r[...], 9, 8, 2)


def test_memory_of_numpy_is_not_written() -> None:
    n = np.zeros((64,), np.float32)
    for x in (n, jnp.asarray(n)):
        r = steno.new_ref(x)
        del x
        r[3] = 1.0
        steno.jit(lambda r: r.__setitem__(4, 2.0))(r)
        equal(r[3:5], 1, 2)
    assert not n.any()


def test_what_was_read_stays() -> None:
    r = ref_of(1, 2, 3)
    before = r[...]
    view = np.asarray(before)
    f = steno.jit(lambda: r.__setitem__(0, r[0] + 1))
    for _ in range(3):
        f()
    equal(before, 1, 2, 3)
    equal(view, 1, 2, 3)
    equal(r[...], 4, 2, 3)


def test_a_result_that_is_also_the_new_value() -> None:
    r = ref_of(1, 2)

    @steno.jit
    def f(r: Any) -> Any:
        r[...] += 1
        return r[...]

    first = f(r)
    second = f(r)
    equal(first, 2, 3)
    equal(second, 3, 4)
    equal(r[...], 3, 4)


def test_copies_are_references_of_their_own() -> None:
    r = ref_of(1, 2)
    copies = copy.copy(r), copy.deepcopy(r), pickle.loads(pickle.dumps(r))
    r[0] = 5.0
    steno.jit(lambda r: r.__setitem__(1, 6.0))(copies[0])
    equal(r[...], 5, 2)
    equal(copies[0][...], 1, 6)
    equal(copies[1][...], 1, 2)
    equal(copies[2][...], 1, 2)


def test_arrays_may_go_before_the_reference() -> None:
    x = jnp.ones(3)
    r = steno.new_ref(x)
    x.delete()
    equal(r[...], 1, 1, 1)


def test_frozen_arrays_stay() -> None:
    r = ref_of(1, 2)
    x = steno.freeze(r)
    r[0] = 5.0
    equal(x, 1, 2)


@pytest.mark.parametrize("jitted", [False, True])
def test_writes_are_in_place(jitted: bool) -> None:
    """The buffer is the same one after many writes, unless the array that was read still lives."""
    r = steno.new_ref(jnp.zeros((64, 8)))

    def write(r: Any, i: Any) -> None:
        r[i] = jnp.ones(8)

    f = steno.jit(write) if jitted else write
    f(r, 0)
    where = r.value.unsafe_buffer_pointer()
    for i in range(5):
        f(r, i)
    assert r.value.unsafe_buffer_pointer() == where
    held = r[...]
    f(r, 7)
    assert r.value.unsafe_buffer_pointer() != where
    assert held[7].sum() == 0
    assert r[7].sum() == 8


LOOPS = {
    "fori": lambda r, w: lax.fori_loop(0, 8, lambda i, c: w(r, i), None),
    "scan": lambda r, w: lax.scan(lambda c, i: (c, w(r, i)), None, jnp.arange(8))[0],
    "while": lambda r, w: lax.while_loop(lambda i: i < 8, lambda i: (w(r, i), i + 1)[1], 0),
}
WRITES = {
    "row": lambda r, i: r.__setitem__(i, jnp.ones(4)),
    "element": lambda r, i: r.__setitem__((i, 2), 1.0),
    "from another row": lambda r, i: r.__setitem__(i, r[i - 1] + 1),
    "view": lambda r, i: r.at[i].__setitem__(slice(1, None), jnp.ones(3)),
    "cond": lambda r, i: lax.cond(i % 2 == 0, lambda: r.__setitem__(i, jnp.ones(4)), lambda: None),
    "cond with two": lambda r, i: lax.cond(i % 2 == 0, lambda: r.__setitem__(i, jnp.ones(4)), lambda: r.__setitem__((i, 0), 2.0)),
}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("write", WRITES)
def test_loops_write_in_place(loop: str, write: str) -> None:
    """No program copies the array: n writes cost O(n)."""
    n = 4096
    f = steno.jit(lambda r: LOOPS[loop](r, WRITES[write]))
    r = steno.new_ref(jnp.zeros((n, 4)))
    f(r)
    (program,) = f._traces.programs.values()
    text = program.executable.as_text("loops")
    whole = [line for line in text.splitlines() if "next" in line and f"[{n * 4}]" in line or "copy in" in line]
    assert not [line for line in whole if f"{n * 4}" in line], text
    where = r.value.unsafe_buffer_pointer()
    f(r)
    assert r.value.unsafe_buffer_pointer() == where


def test_branches_update_in_place_without_references() -> None:
    def body(i: Any, x: Any) -> Any:
        return lax.cond(i % 2 == 0, lambda x: x.at[i].set(1.0), lambda x: x.at[i, 0].add(x[i, 1] + 2), x)

    f = steno.jit(lambda x: lax.fori_loop(0, 6, body, x), donate_argnums=0)
    x = np.zeros((512, 3), np.float32)
    want = x.copy()
    for i in range(6):
        if i % 2 == 0:
            want[i] = 1
        else:
            want[i, 0] += want[i, 1] + 2
    np.testing.assert_array_equal(f(jnp.array(x)), want)
    text = f.lower(jnp.array(x)).as_text("loops")
    assert "copy in" not in text, text


# Traces


def test_calls_are_traced_once() -> None:
    count = 0

    @steno.jit
    def f(r: Any, x: Any) -> Any:
        nonlocal count
        count += 1
        r[0] += x
        return r[1]

    for k in range(3):
        f(ref_of(1, 2), float(k))
    assert count == 1
    f(ref_of(1, 2, 3), 1.0)
    assert count == 2


def test_references_and_arrays_are_different_arguments() -> None:
    f = steno.jit(lambda x: x[0] * 2)
    assert f(jnp.ones(2)) == f(ref_of(1, 2)) == 2
    assert f._cache_size() == 2


def test_internal_references_cost_nothing_when_called() -> None:
    """Native code answers calls of functions whose references live and die inside."""

    @steno.jit
    def f(x: Any) -> Any:
        r = steno.new_ref(x)
        r[0] = 5.0
        return steno.freeze(r)

    equal(f(jnp.zeros(2)), 5, 0)
    assert len(f._entries()) == 1


def test_effects_are_those_of_references_from_outside() -> None:
    inside = steno.make_jaxpr(lambda x: steno.new_ref(x)[0])(jnp.ones(2))
    outside = steno.make_jaxpr(lambda r: r[0])(ref_of(1, 2))
    assert STATE not in inside.effects
    assert STATE in outside.effects
    assert outside.in_avals == [AbstractRef(jnp.ones(2).aval)]
    check_jaxpr(inside)
    check_jaxpr(outside)
    unused = steno.jit(lambda x: (steno.jit(lambda y: steno.new_ref(y)[0])(x), x)[1])
    assert "new_ref" not in str(unused.lower(jnp.ones(2)).as_text("graph"))


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_backends(backend: str) -> None:
    with backend_knob(backend):
        r = ref_of(1, 2, 3)

        @steno.jit
        def f(r: Any) -> Any:
            return lax.fori_loop(0, 3, lambda i, c: (r.__setitem__(i, r[i] * 2), c + r[i])[1], 0.0)

        assert f(r) == 12
        r[0] += 1
        equal(r[...], 3, 4, 6)


def test_compiled_ahead_of_time() -> None:
    r = ref_of(0, 0)
    compiled = steno.jit(lambda r, x: r.__setitem__(1, x)).lower(r, 1.0).compile()
    compiled(r, 3.0)
    compiled(r, 4.0)
    equal(r[...], 0, 4)


def test_lowered_for_a_type() -> None:
    f = steno.jit(lambda r, x: r.__setitem__(1, x))
    struct = steno.ShapeDtypeStruct((2,), jnp.float32, is_ref=True)
    assert struct == struct.update(shape=(2,)) != steno.ShapeDtypeStruct((2,), jnp.float32)
    compiled = f.lower(struct, 1.0).compile()
    r = ref_of(0, 0)
    compiled(r, 3.0)
    equal(r[...], 0, 3)
    assert compiled.memory_analysis().alias_size_in_bytes == 8
    with pytest.raises(TypeError, match="compiled with Ref"):
        compiled(jnp.zeros(2), 3.0)


def test_donated_references_stay() -> None:
    r = ref_of(1, 2)
    f = steno.jit(lambda r: (r[...] * 2, r[0]), donate_argnums=0)
    f(r)
    equal(f(r)[0], 2, 4)
    equal(r[...], 1, 2)


def test_without_jit() -> None:
    def f(r: Any, rows: Any) -> Any:
        def body(c: Any, x: Any) -> Any:
            r[0] += c
            x[...] += 1
            return c + x[0], r[0]

        return lax.scan(body, 1.0, rows)

    a, b = ref_of(1, 2), steno.new_ref(jnp.arange(4.0).reshape(2, 2))
    want = steno.jit(f)(a, b)
    c, d = ref_of(1, 2), steno.new_ref(jnp.arange(4.0).reshape(2, 2))
    with steno.disable_jit():
        got = f(c, d)
    equal(got[1], want[1])
    equal(c[...], a[...])
    equal(d[...], b[...])


@pytest.mark.parametrize("transform", ["vjp", "linearize", "jvp", "vmap", "jit", "custom_vjp"])
def test_one_name_each(transform: str) -> None:
    r, t = ref_of(1, 2), ref_of(1, 1)

    def f(x_ref: Any, y_ref: Any) -> Any:
        return x_ref[0] * y_ref[0]

    calls = {
        "vjp": lambda: steno.vjp(f, r, r),
        "linearize": lambda: steno.linearize(f, r, r),
        "jvp": lambda: steno.jvp(f, (r, r), (t, t)),
        "vmap": lambda: steno.vmap(f)(r, r),
        "jit": lambda: steno.jit(f)(r, r),
        "custom_vjp": lambda: with_rule(f)(r, r),
    }
    with pytest.raises(ValueError, match="x_ref and y_ref"):
        calls[transform]()


def with_rule(f: Any) -> Any:
    g = steno.custom_vjp(f)
    g.defvjp(lambda *args: (f(*args), ()), lambda residuals, ct: (None, None))
    return g


def test_debug_nans() -> None:
    """The op is named, and the references are as they were."""
    r = ref_of(1, 2)

    @steno.jit
    def f(x: Any) -> None:
        r[0] += 1
        r[1] = jnp.log(x)

    with steno.debug_nans(True):
        f(1.0)
        with pytest.raises(FloatingPointError, match=r"nan.*log"):
            f(-1.0)
    equal(r[...], 2, 0)


def test_condition_of_a_loop_reads_what_its_body_wrote() -> None:
    def f(r: Any) -> Any:
        def body(i: Any) -> Any:
            r[...] = r[...] * 2
            return i + 1

        return lax.while_loop(lambda i: r[0] < 20, body, 0)

    r = ref_of(1, 3)
    assert f(r) == 5
    equal(r[...], 32, 96)
    assert steno.jit(f)(ref_of(1, 3)) == 5
    (count,) = steno.vmap(f)(steno.new_ref(jnp.array([[1.0, 3.0]])))
    assert count == 5


def test_while_loop_whose_condition_writes_is_refused() -> None:
    r = ref_of(1, 2)
    with pytest.raises(NotImplementedError, match="condition"):
        lax.while_loop(lambda i: steno.ref.swap(r, 0, 1.0) < 3, lambda i: i + 1, 0)


def test_nested_loops_and_calls() -> None:
    def f(r: Any, x: Any) -> Any:
        @steno.jit
        def inner(i: Any, j: Any) -> None:
            r[i, j] += x * r[j, i]

        lax.fori_loop(0, 3, lambda i, c: lax.fori_loop(0, 3, lambda j, d: inner(i, j), c), None)
        return r[0]

    def plain(a: np.ndarray, x: float) -> np.ndarray:
        for i in range(3):
            for j in range(3):
                a[i, j] += x * a[j, i]
        return a

    start = np.arange(9, dtype=np.float32).reshape(3, 3)
    want = plain(start.copy(), 0.5)
    for g in (f, steno.jit(f)):
        r = steno.new_ref(start)
        equal(g(r, 0.5), want[0])
        equal(r[...], want)


# What references are


def test_attributes() -> None:
    r = steno.new_ref(jnp.ones((2, 3), jnp.int8))
    assert (r.shape, r.dtype, r.ndim, r.size, len(r)) == ((2, 3), np.int8, 2, 6, 2)
    assert str(r.aval) == "Ref{int8[2,3]}" == str(steno.typeof(r))
    assert repr(steno.new_ref(1.5)) == "Ref(1.5, dtype=float32)"
    assert isinstance(r, steno.Ref)
    assert not isinstance(r, steno.Array)
    assert not isinstance(jnp.ones(2), steno.Ref)
    assert r.at[1].at[:2].shape == (2,)
    assert copy.copy(r.aval) is r.aval

    @steno.jit
    def f(r: Any) -> None:
        assert isinstance(r, steno.Ref)
        assert not isinstance(r, steno.Array)
        assert r.shape == (2, 3)

    f(r)


def test_death() -> None:
    r = ref_of(1, 2)
    steno.free_ref(r)
    for use in (lambda: r[0], lambda: r.__setitem__(0, 1.0), lambda: steno.free_ref(r), lambda: steno.jit(lambda r: r[0])(r)):
        with pytest.raises(RuntimeError, match="free"):
            use()
    assert repr(r) == "Ref(freed, float32[2])"

    def twice(x: Any) -> None:
        r = steno.new_ref(x)
        steno.free_ref(r)
        steno.free_ref(r)

    def after(x: Any) -> Any:
        r = steno.new_ref(x)
        steno.free_ref(r)
        return r[0]

    for f in (twice, after):
        with pytest.raises(ValueError, match="free"):
            steno.jit(f)(jnp.ones(2))


def test_values_of_other_types() -> None:
    r = steno.new_ref(jnp.zeros(2, jnp.bfloat16))
    r[0] = 1.5
    r[...] += 1.0
    assert r[...].dtype == jnp.bfloat16
    u = steno.new_ref(jnp.zeros(2, jnp.uint32))
    u[1] = 3
    assert u[1] == 3
    for ref, value in ((r, np.float32(1)), (r, 1), (u, 1.0), (u, True), (r, 1j), (r, r)):
        with pytest.raises(ValueError, match="swap"):
            ref[0] = value
    key = steno.new_ref(steno.random.key(0))
    key[...] = steno.random.fold_in(key[...], 1)
    assert key[...] == steno.random.fold_in(steno.random.key(0), 1)


@pytest.mark.parametrize("index", [(None,), (0, None), (slice(None), slice(None), 0)])
def test_indices_there_are_not(index: Any) -> None:
    with pytest.raises((NotImplementedError, ValueError), match="index"):
        steno.new_ref(jnp.ones((2, 2)))[index]


def test_values_of_transformations_do_not_leave_them() -> None:
    r = ref_of(1, 2)
    with pytest.raises(Exception, match="unbatched array reference"):
        steno.vmap(lambda x: r.__setitem__(0, x))(jnp.ones(3))
    with pytest.raises(Exception, match="Move the array reference"):
        steno.jvp(lambda x: r.__setitem__(0, x), (1.0,), (1.0,))
    with pytest.raises(Exception, match="Move the array reference"):
        steno.grad(lambda x: (steno.ref.addupdate(r, 0, x), x)[1])(1.0)
    equal(r[...], 1, 2)


# Gradients


def test_gradients_go_into_references() -> None:
    x, w = jnp.arange(3.0), jnp.ones((2, 3))
    _, pull = steno.vjp(lambda x, w: (w * x).sum() + x[0], x, w)
    into = steno.new_ref(jnp.full(3, 10.0))
    for k in (1, 2):
        a, b = pull.with_refs(into, steno.ad.GradValue())(1.0)
        assert a == steno.ad.GradRef()
        equal(b, np.broadcast_to(np.arange(3), (2, 3)))
        equal(into[...], np.array([10, 10, 10]) + k * np.array([3, 2, 2]))
    a, b = pull.with_refs(steno.ad.DontWant(), steno.ad.GradValue())(1.0)
    assert a == steno.ad.DidntWant()
    done = steno.jit(lambda pull, ct: pull(ct))(pull.with_refs(into, steno.ad.DontWant()), 1.0)
    assert done == (steno.ad.GradRef(), steno.ad.DidntWant())
    equal(into[...], 19, 16, 16)
    with pytest.raises(ValueError, match="with_refs"):
        pull.with_refs(into)
    with pytest.raises(ValueError, match="with_refs"):
        pull.with_refs(steno.new_ref(jnp.ones(2)), 0)


def test_gradients_by_references() -> None:
    def f(r: Any, y: Any) -> Any:
        out = r[...] * y
        r[0] = y * y
        return out.sum() + r[0]

    r = ref_of(1, 2)
    out, pull = steno.vjp(f, r, 3.0)
    assert out == 18
    with pytest.raises(ValueError, match="with_refs"):
        pull(1.0)
    into = ref_of(0, 0)
    _, g = pull.with_refs(into, steno.ad.GradValue())(1.0)
    assert g == 3 + 6
    equal(into[...], 3, 3)


def test_accumulation_in_a_loop() -> None:
    w = jnp.array([0.5, -1.0])
    xs = jnp.arange(6.0).reshape(3, 2)

    def loss(w: Any, x: Any) -> Any:
        return jnp.sum(jnp.sin(w * x))

    @steno.jit
    def total(w: Any, xs: Any) -> Any:
        acc = steno.new_ref(jnp.zeros_like(w))

        def step(_: None, x: Any) -> Any:
            out, pull = steno.vjp(lambda w: loss(w, x), w)
            pull.with_refs(acc)(jnp.ones_like(out))
            return None, out

        lax.scan(step, None, xs)
        return steno.freeze(acc)

    want = steno.grad(lambda w: sum(loss(w, x) for x in xs))(w)
    np.testing.assert_allclose(total(w, xs), want, rtol=1e-5)


@pytest.mark.parametrize("around", ["plain", "jit", "scan", "remat", "scan of remat", "jit of scan"])
def test_references_carry_what_backward_passes_see(around: str) -> None:
    """A reference is handed to a function with a rule of its own, whose backward rule writes to it."""

    @steno.custom_vjp
    def stash(seen: Any, x: Any) -> Any:
        return x

    def bwd(seen: Any, g: Any) -> Any:
        seen[...] = g
        return None, g

    stash.defvjp(lambda seen, x: (x, seen), bwd)

    def once(seen: Any, x: Any) -> Any:
        return jnp.sin(stash(seen, jnp.sin(x)))

    inner = steno.remat(once) if "remat" in around else once

    def f(seen: Any, x: Any) -> Any:
        if "scan" in around:
            return lax.scan(lambda c, _: (inner(seen, c), None), x, None, length=1)[0]
        return inner(seen, x)

    g = steno.jit(f) if "jit" in around else f
    seen = steno.new_ref(jnp.float32(0.0))
    for _ in range(2):
        got = steno.grad(g, 1)(seen, jnp.float32(1.0))
        np.testing.assert_allclose(seen[...], np.cos(np.sin(1.0)), rtol=1e-6)
        np.testing.assert_allclose(got, np.cos(np.sin(1.0)) * np.cos(1.0), rtol=1e-6)
        seen[...] = jnp.float32(0.0)


def test_statistics_without_gradients() -> None:
    """What is written to a reference of the kind `no_grad` has no tangent there."""
    r = steno.new_ref(1.0, kind="no_grad")

    def f(y: Any) -> Any:
        out = y * y
        r[...] += out
        return out * r[...]

    assert steno.grad(f)(2.0) == 4 * 5
    assert r[...] == 5


def test_views_under_transformations() -> None:
    def f(x: Any, w: Any) -> Any:
        r = steno.new_ref(w)
        r.at[1:].at[0][1:] = x[1:] * 2.0
        r.at[:, 1][...] += jnp.sum(x)
        return r.at[2][...] * r[0]

    def pure(x: Any, w: Any) -> Any:
        w = w.at[1, 1:].set(x[1:] * 2.0)
        w = w.at[:, 1].add(jnp.sum(x))
        return w[2] * w[0]

    x, w = jnp.array([0.3, -0.7, 1.1]), jnp.arange(12.0).reshape(4, 3)
    xs = jnp.stack([x, -x])
    for t in (
        lambda f: f(x, w),
        lambda f: steno.jvp(f, (x, w), (x, w))[1],
        lambda f: steno.jacrev(f, (0, 1))(x, w),
        lambda f: steno.vmap(f, (0, None))(xs, w),
        lambda f: steno.jit(steno.vmap(steno.jacfwd(f), (0, None)))(xs, w),
    ):
        for got, want in zip(steno.tree.leaves(t(f)), steno.tree.leaves(t(pure)), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6)


def test_slices_from_traced_positions() -> None:
    r = steno.new_ref(jnp.arange(20.0).reshape(4, 5))
    x = np.arange(20.0).reshape(4, 5)

    @steno.jit
    def f(r: Any, i: Any) -> Any:
        r[steno.ds(i, 2), 1] += 1.0
        return r[steno.ds(i, 2), steno.ds(1, 3)], r.at[1:][0, steno.ds(i, 2)]

    a, b = f(r, 2)
    x[2:4, 1] += 1
    np.testing.assert_array_equal(a, x[2:4, 1:4])
    np.testing.assert_array_equal(b, x[1, 2:4])
    np.testing.assert_array_equal(r[steno.ds(2), steno.ds(0, 3, 2)], x[:2, ::2])
    with pytest.raises(ValueError, match="out of bounds"):
        r[steno.ds(3, 2)]
    i = jnp.int32(1)
    assert steno.tree.leaves(steno.ds(i, 2)) == [i]


@steno.custom_vjp
def _read(ref):
    return ref[...] * 2


_read.defvjp(lambda ref: (_read(ref), None), lambda _, ct: (ct * 5,))


@steno.custom_vjp
def _doubled(ref):
    ref[...] = ref[...] * 2
    return ref[...]


_doubled.defvjp(lambda ref: (_doubled(ref), None), lambda _, ct: (ct * 5,))


@steno.custom_vjp
def _product(ref, x):
    return ref[...] * x


_product.defvjp(lambda ref, x: (_product(ref, x), (ref, x)), lambda res, ct: (ct * res[1], 10 * ct * res[0][...]))


@steno.custom_jvp
def _forward(ref):
    return ref[...] * 2


@_forward.defjvp
def _forward_jvp(primals, tangents):
    return _forward(*primals), tangents[0][...] * 5


def _sum_of_reads(x):
    ref = steno.new_ref(x)
    return steno.lax.scan(lambda c, _: (c + _read(ref), None), jnp.float32(0), None, length=3)[0]


def _read_and_rest(x):
    ref = steno.new_ref(x)
    return _doubled(ref) + steno.freeze(ref)


def _twice_read(x):
    ref = steno.new_ref(x)
    first = _read(ref)
    ref[...] = ref[...] * x
    return first + _read(ref)


@pytest.mark.parametrize(
    ("f", "want"),
    [
        (lambda x: _read(steno.new_ref(x)), 5), (_sum_of_reads, 15), (_read_and_rest, 6), (_twice_read, 35),
        (lambda x: _product(steno.new_ref(x), x), 33), (lambda x: _forward(steno.new_ref(x)), 5),
        (lambda x: steno.lax.cond(x > 0, _read, lambda ref: ref[...], steno.new_ref(x)), 5),
    ],
    ids=["read", "scan", "written", "twice", "residual", "forward", "cond"],
)  # fmt: skip
def test_rules_of_functions_of_references_hold_wherever_the_reference_lives(f, want):
    x = jnp.float32(3)
    for g in (steno.grad(f), steno.grad(steno.jit(f)), steno.jit(steno.grad(f)), steno.grad(steno.checkpoint(f))):
        assert g(x) == want
    assert steno.vmap(steno.grad(steno.jit(f)))(jnp.full(2, x)).tolist() == [want] * 2
    assert steno.jit(f)(x) == f(x)
