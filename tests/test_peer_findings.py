"""Behaviour found by running JAX's own tests: one test for each kind of finding."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import steno
import steno.numpy as jnp
from steno.scipy import special


def test_flags_of_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys, "argv", ["prog", "--jax_default_prng_impl=rbg", "--nojax_softmax_custom_jvp", "--other=1", "--", "--jax_enable_x64"]
    )
    try:
        steno.config.parse_flags_with_absl()
        assert steno.config.jax_default_prng_impl == "rbg"
        assert not steno.config.jax_softmax_custom_jvp
        assert not steno.config.jax_enable_x64
        assert len(sys.argv) == 6
        monkeypatch.setattr(sys, "argv", ["prog", "--jax_default_prng_impl"])
        with pytest.raises(ValueError, match="needs a value"):
            steno.config.parse_flags_with_absl()
    finally:
        steno.config.update("jax_default_prng_impl", "threefry2x32")
        steno.config.update("jax_softmax_custom_jvp", True)


def test_narrow_floats_are_summed_wide() -> None:
    x = jnp.ones(10, jnp.float16)
    for fun, op in ((jnp.sum, "reduce_sum"), (jnp.prod, "reduce_prod")):
        names = [e.primitive.name for e in steno.make_jaxpr(fun)(x).eqns]
        assert names == ["convert_element_type", op, "convert_element_type"]
        assert [e.primitive.name for e in steno.make_jaxpr(lambda x, f=fun: f(x, dtype="float16"))(x).eqns] == [op]
    assert [e.primitive.name for e in steno.make_jaxpr(lambda x: jnp.mean(x, dtype="float16"))(x).eqns] == ["reduce_sum", "div"]
    assert jnp.sum(jnp.full(4096, 16, jnp.bfloat16)).dtype == jnp.bfloat16


def test_mean_of_more_than_int32_elements() -> None:
    out = steno.eval_shape(jnp.mean, steno.ShapeDtypeStruct((1 << 32,), jnp.dtype("float32")))
    assert out.shape == () and out.dtype == jnp.float32


def test_running_any() -> None:
    out = jnp.cumulative_sum(jnp.array([[0.1], [0.1], [0.0]]), axis=-1, dtype=jnp.bool_)
    np.testing.assert_array_equal(out, [[True], [True], [False]])


def test_statistics_under_strict_promotion() -> None:
    x = jnp.array([3, 1, 2], jnp.int16)
    with steno.numpy_dtype_promotion("strict"), steno.numpy_rank_promotion("raise"):
        assert jnp.median(x) == 2
        assert jnp.quantile(x, jnp.float32(0.5)) == 2
        w = jnp.array([1, 2, 3], jnp.int32)
        got = jnp.cov(jnp.arange(6.0).reshape(2, 3), fweights=w)
    np.testing.assert_allclose(got, np.cov(np.arange(6.0).reshape(2, 3), fweights=[1, 2, 3]), rtol=1e-5)


def test_cov_of_a_dtype() -> None:
    assert jnp.cov(jnp.arange(5), dtype="bfloat16").dtype == jnp.bfloat16
    assert np.isnan(jnp.cov(jnp.zeros((1, 0))))
    with pytest.raises(ValueError, match="float or complex"):
        jnp.cov(jnp.arange(5), dtype=int)


def test_gradient_of_nanvar() -> None:
    x = jnp.arange(5.0).at[0].set(jnp.nan)
    np.testing.assert_allclose(steno.grad(jnp.nanvar)(x), [0.0, -0.75, -0.25, 0.25, 0.75])


INDICES = [
    np.index_exp[True],
    np.index_exp[False],
    np.index_exp[..., True],
    np.index_exp[..., False],
    np.index_exp[0, :2, True],
    np.index_exp[0, :2, False],
    np.index_exp[:2, 0, True],
    np.index_exp[:2, 0, False],
    np.index_exp[:2, np.array([0, 2]), True],
    np.index_exp[np.array([1, 0]), :, True],
    np.index_exp[True, :, True, :, np.array(True)],
    np.index_exp[:, True, 0, None, 1],
    np.index_exp[True, None, 1],
    np.index_exp[np.array([[1], [0]]), True, np.array([0, 1, 2])],
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_bools_in_indices(index: tuple[object, ...]) -> None:
    x = np.arange(120, dtype=np.int32).reshape(2, 3, 4, 5)
    want = x[index]
    np.testing.assert_array_equal(jnp.asarray(x)[index], want, strict=True)
    changed = x.copy()
    changed[index] = -want
    np.testing.assert_array_equal(jnp.asarray(x).at[index].set(-want), changed)


def test_masks_without_elements() -> None:
    assert jnp.arange(12).reshape(3, 4)[np.empty((3, 0), bool)].shape == (0,)
    with pytest.raises(IndexError, match="boolean index"):
        jnp.arange(3)[np.empty(2, bool)]


def test_a_python_int_beyond_int32_is_written() -> None:
    assert int(jnp.zeros(1, jnp.uint32).at[0].set(2**32 - 1)[0]) == 2**32 - 1
    with pytest.raises(OverflowError):
        jnp.zeros(1, jnp.int32).at[0].set(2**32 - 1)


def test_known_positions_are_checked_when_asked() -> None:
    x = jnp.zeros((2, 3))
    assert x[:, 4].shape == (2,)
    with steno.core.config.check_static_indices(True):
        for index, message in (((slice(None), 4), "index 4 out of bounds for axis 1 with size 3"), (-4, "index -4 .* axis 0 with size 2")):
            for read in (lambda x, i: x[i], lambda x, i: x.at[i].get(), lambda x, i: steno.jit(lambda x: x[i])(x)):
                with pytest.raises(IndexError, match=message):
                    read(x, index)


def test_folds_of_functions() -> None:
    less = jnp.frompyfunc(lambda x, y: x - y, 2, 1, identity=None)
    x = np.arange(12, dtype=np.float32).reshape(3, 4) ** 2
    want = np.frompyfunc(lambda x, y: x - y, 2, 1)
    mask = x % 3 == 0
    for axis in (0, 1):
        np.testing.assert_array_equal(less.reduce(x, axis=axis), want.reduce(x, axis=axis).astype(np.float32))
        np.testing.assert_array_equal(less.accumulate(x, axis=axis), want.accumulate(x, axis=axis).astype(np.float32))
        got = steno.jit(lambda x, w, a=axis: less.reduce(x, axis=a, initial=1, where=w))(x, mask)
        np.testing.assert_array_equal(got, want.reduce(x, axis=axis, initial=1, where=mask).astype(np.float32))
        for starts in ([0, 2, 1], [2], []):
            i = np.array(starts, np.int32)
            got = steno.jit(lambda x, i, a=axis: less.reduceat(x, i, axis=a))(x, i)
            np.testing.assert_array_equal(got, want.reduceat(x, i, axis=axis).astype(np.float32))
    assert less.reduce(x, axis=None, keepdims=True).shape == (1, 1)
    with pytest.raises(ValueError, match="no identity"):
        less.reduce(jnp.zeros((0, 2)))


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "bitwise_and", "bitwise_xor", "logical_and", "logical_xor", "subtract"])
def test_folds_with_an_initial_value(name: str) -> None:
    x, mask = np.array([[5, 6, 0], [4, 13, 9]], np.int32), np.array([[True, False, True], [False, True, True]])
    want = getattr(np, name).reduce(x, axis=1, initial=3, where=mask)
    got = getattr(jnp, name).reduce(x, axis=1, initial=3, where=mask)
    np.testing.assert_array_equal(got, want)
    with steno.numpy_rank_promotion("raise"):
        np.testing.assert_array_equal(getattr(jnp, name).outer(x, x[0]), getattr(np, name).outer(x, x[0]))


def test_ufuncs_are_values() -> None:
    def f(x: object, y: object) -> object:
        return x

    made = jnp.frompyfunc(f, 2, 1)
    assert made == jnp.frompyfunc(f, 2, 1) and hash(made) == hash(jnp.frompyfunc(f, 2, 1)) and made != jnp.add
    with pytest.raises(AttributeError, match="nin"):
        made.nin = 3


@pytest.mark.parametrize("bucket_size", [None, 2])
def test_segments(bucket_size: int | None) -> None:
    x, ids = np.arange(6, dtype=np.float32) + 1, np.array([0, 2, -1, 2, 5, 0])
    for name, want in (
        ("sum", [7, 0, 6, 0]),
        ("prod", [6, 1, 8, 1]),
        ("min", [1, np.inf, 2, np.inf]),
        ("max", [6, -np.inf, 4, -np.inf]),
    ):
        fun = getattr(steno.ops, "segment_" + name)
        np.testing.assert_array_equal(fun(x, ids, 4, bucket_size=bucket_size), np.array(want, np.float32))
        np.testing.assert_array_equal(
            steno.jit(lambda x, i, f=fun: f(x, i, 4, bucket_size=bucket_size))(x, ids), np.array(want, np.float32)
        )
    assert steno.ops.segment_sum(x, ids).shape == (6,)
    assert steno.ops.segment_max(jnp.ones((6, 2), jnp.int8), ids, 3)[1, 0] == -128
    with pytest.raises(ValueError, match="num_segments"):
        steno.ops.segment_sum(x, ids, -1)
    with pytest.raises(steno.errors.ConcretizationTypeError, match="num_segments"):
        steno.jit(steno.ops.segment_sum)(x, ids)


def test_index_tricks() -> None:
    a, b = [1, 2, 3], [4, 5, 6]
    np.testing.assert_array_equal(jnp.c_["c", a, b], np.array([a, b]).T)
    assert jnp.mgrid[()].shape == (0,) and jnp.ogrid[()] == []
    np.testing.assert_array_equal(jnp.mgrid[:], np.mgrid[:])
    np.testing.assert_array_equal(jnp.ogrid[3:], np.ogrid[3:])


def test_functions_of_arrays_like_numpys() -> None:
    assert jnp.array_equal([1, 2], [1, 2]) and not jnp.array_equal([1, 2], [1, 4]) and jnp.array_equiv([1, 1], [[1, 1]])
    y, dx = np.arange(15, dtype=np.float32).reshape(3, 5), np.array([1, 2, 3, 4], np.float32)
    np.testing.assert_allclose(jnp.trapezoid(y, dx=dx), np.trapezoid(y, dx=dx), rtol=1e-6)
    np.testing.assert_allclose(jnp.trapezoid(y, dx=dx[:2, None], axis=0), np.trapezoid(y, dx=dx[:2, None], axis=0), rtol=1e-6)
    assert jnp.gradient(y, axis=(0,)).shape == (3, 5)
    i = jnp.array([0, 1], jnp.int8)
    assert jnp.ravel_multi_index((i, i), (2, 3), mode="ignore").dtype == jnp.int8
    with steno.numpy_dtype_promotion("strict"):
        weights = np.array([1, 2, 3], np.int8)
        counts, _ = jnp.histogramdd(y[:, :2], bins=2, weights=weights, density=True)
    np.testing.assert_allclose(counts, np.histogramdd(y[:, :2], bins=2, weights=weights, density=True)[0], rtol=1e-5)


def test_ways_back_from_a_vector_are_values() -> None:
    traces = 0

    def run(flat: object, unravel: object) -> object:
        nonlocal traces
        traces += 1
        return unravel(flat)  # type: ignore[operator]

    fun = steno.jit(run, static_argnums=1)
    for tree in ((jnp.array([1, 2]), jnp.array([3])), (jnp.array([5, 6]), jnp.array([7]))):
        fun(*steno.flatten_util.ravel_pytree(tree))
    assert traces == 1
    assert steno.flatten_util.ravel_pytree({})[1](jnp.zeros(0)) == {}


def test_pure_callbacks_run_for_their_results_only() -> None:
    calls = []

    def callback(x: object) -> object:
        calls.append(x)
        return x

    @steno.jit
    def f(x: object) -> object:
        steno.pure_callback(callback, x, x)
        return x * 2.0  # type: ignore[operator]

    assert f(2.0) == 4.0 and not calls
    assert steno.jit(lambda x: steno.pure_callback(callback, x, x) + 1.0)(2.0) == 3.0 and len(calls) == 1


def test_types_of_values() -> None:
    made = steno.ShapeDtypeStruct.like(jnp.ones((2, 3), jnp.int8))
    assert made == steno.ShapeDtypeStruct((2, 3), jnp.int8)
    assert steno.ShapeDtypeStruct.like(1.0).weak_type


def test_keys_are_named_once() -> None:
    dtype = steno.random.key_dtype("threefry2x32")
    for make in (lambda **k: steno.random.key(0, **k), lambda **k: steno.random.wrap_key_data(jnp.zeros(2, jnp.uint32), **k)):
        assert make(dtype=dtype).dtype == make(impl="threefry2x32").dtype == dtype
        with pytest.raises(ValueError, match="`impl` and `dtype`"):
            make(impl="threefry2x32", dtype=dtype)
    with steno.legacy_prng_key("warn"), pytest.warns(UserWarning, match="uint32 key"):
        steno.random.uniform(jnp.zeros(2, jnp.uint32))


def test_membership() -> None:
    assert 1 in jnp.arange(4) and 100 not in jnp.arange(4)
    for item, x, error in ((1, jnp.array(1), ValueError), (jnp.arange(2), jnp.arange(2), ValueError), (None, jnp.arange(2), TypeError)):
        with pytest.raises(error, match="__contains__"):
            _ = item in x


def test_monitoring() -> None:
    seen: list[str] = []

    def listener(event: str, duration: float, **kwargs: object) -> None:
        assert duration >= 0 and kwargs["fun_name"] == "f"
        seen.append(event.rsplit("/", 1)[1])

    def f(x: object) -> object:
        return x

    fun = steno.jit(f)
    steno.monitoring.register_event_duration_secs_listener(listener)
    try:
        fun(1.0), fun(2.0)
        assert seen == ["jaxpr_trace_duration", "jaxpr_to_mlir_module_duration", "backend_compile_duration"]
    finally:
        steno.monitoring.unregister_event_duration_listener(listener)
    fun(1)
    assert len(seen) == 3
    values: list[object] = []
    steno.monitoring.register_scalar_listener(lambda *a, **k: values.append((a, k)))
    steno.monitoring.record_scalar("size", 3, unit="m")
    assert values == [(("size", 3), {"unit": "m"})]
    steno.monitoring.clear_event_listeners()
    steno.monitoring.record_scalar("size", 4)
    assert len(values) == 1


def test_vectorize_of_none_and_unequal_ranks() -> None:
    f = jnp.vectorize(lambda x, y: x if y is None else x + y)
    x = jnp.arange(3)
    np.testing.assert_array_equal(f(x, None), x)
    np.testing.assert_array_equal(f(x, x), x + x)
    with pytest.raises(ValueError, match="None"):
        jnp.vectorize(lambda x, y: x, signature="(k),(k)->(k)")(x, None)
    with steno.numpy_rank_promotion("raise"):
        assert f(jnp.zeros((2, 3)), jnp.zeros(())).shape == (2, 3)
        with pytest.raises(ValueError, match="rank"):
            f(jnp.zeros((2, 3)), x)


def test_what_jit_does_not_take() -> None:
    def generator(x: object) -> object:
        yield x

    class Wrapped:
        def __jax_array__(self) -> object:
            return jnp.arange(4)

    with pytest.raises(TypeError, match="generator"):
        steno.jit(generator)
    with pytest.raises(TypeError, match="staticmethod"):
        steno.jit(staticmethod(lambda x: x))
    with pytest.raises(ValueError, match="__jax_array__"):
        steno.jit(lambda x: x)(Wrapped())
    masked = np.ma.array([1, 2], mask=[True, False])
    with pytest.raises(ValueError, match="masked"):
        steno.jit(lambda x: x)(masked)
    np.testing.assert_array_equal(jnp.array(masked), [1, 2])


def test_shapes_of_anything_with_a_shape() -> None:
    class Described:
        def __init__(self, *shape: int) -> None:
            self.shape, self.dtype = shape, np.dtype("float32")

    out = steno.eval_shape(lambda a, b: jnp.dot(a, b["x"]), Described(3, 4), {"x": Described(4, 5)})
    assert out == steno.ShapeDtypeStruct((3, 5), "float32")
    assert steno.eval_shape(lambda a: a + 1, steno.core.ShapedArray((2,), np.float32)).shape == (2,)


def test_promotion_of_types_keeps_their_width() -> None:
    assert jnp.promote_types("float32", "complex128") == np.complex128
    assert jnp.promote_types(int, int) == np.int64 and jnp.promote_types(float, "float16") == np.float16
    assert jnp.result_type("float32", "complex128") == np.complex64
    assert jnp.result_type(None) == np.float32


def test_loops_of_functions_run_in_python_without_jit() -> None:
    x, lam = jnp.array([-0.5, 2.0]), jnp.float32(2.5)
    calls = (
        lambda: special.expi(x),
        lambda: special.expn(2, jnp.abs(x)),
        lambda: steno.random.poisson(steno.random.key(0), lam, (3,), method="approximate"),
    )
    for call in calls:
        want = call()
        with steno.disable_jit():
            np.testing.assert_allclose(call(), want, rtol=1e-5)
