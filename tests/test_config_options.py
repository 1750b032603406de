"""Options that change what programs mean or whether they run: explicit_x64_dtypes, no_execution, allow_f16_reductions, a program's own
contexts; options that are accepted; float0; compiler options."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

import steno
import steno.numpy as snp
from steno import lax
from steno.core import config as knobs


def test_64_bit_dtypes_by_name():
    asked = (lambda: snp.array([1, 2], dtype="int64"), lambda: lax.full((2,), 1, np.int64), lambda: snp.int64(1))
    for make in asked:
        with pytest.warns(UserWarning, match="64-bit types are off"):
            assert make().dtype == np.int32
        with steno.explicit_x64_dtypes("error"), pytest.raises(ValueError, match="int64 is not available"):
            make()
        with steno.explicit_x64_dtypes("allow"), warnings.catch_warnings():
            warnings.simplefilter("error")
            assert make().dtype == np.int64
    with steno.explicit_x64_dtypes("allow"):
        assert int(snp.int64(1 << 40)) == 1 << 40 and snp.array([1], dtype=int).dtype == np.int32
        assert snp.max(snp.array([0, 1], dtype=np.int64)).dtype == np.int64
        wide = snp.array([1 << 40], dtype=np.int64)
        for f in (lambda x: x * 2, lambda x: x + x):
            assert f(wide).dtype == np.int64 and f(wide).tolist() == [1 << 41] == steno.jit(f)(wide).tolist()


def test_no_execution():
    f = steno.jit(lambda x: x + 1)
    assert f(1) == 2
    with steno.no_execution(), pytest.raises(RuntimeError, match="no_execution"):
        f(1)
    with steno.no_execution():
        with pytest.raises(RuntimeError, match="no_execution"):
            snp.sin(1.0)
        assert f.lower(1).compile() is not None
    assert f(1) == 2


def test_sums_of_16_bit_floats():
    x = snp.ones((1, 3), "bfloat16")
    assert lax.reduce_sum(x, (0, 1)) == 3
    with steno.allow_f16_reductions(False):
        assert lax.reduce_sum(x, (0,)).shape == (3,)
        with pytest.raises(ValueError, match="not allowed"):
            lax.reduce_sum(x, (1,))


def test_contexts_of_a_program():
    mine = steno.make_user_context(0)
    traces = []

    @steno.jit
    def f(x):
        traces.append(mine.value)
        return x + mine.value

    assert f(1) == 1
    with mine(2):
        assert f(1) == 3 and mine.value == 2
        with mine(4):
            assert f(1) == 5
    assert f(1) == 1 and traces == [0, 2, 4]
    mine.set_global(7)
    assert mine.get_global() == 7 and f(1) == 8
    with pytest.raises(TypeError, match="unhashable"):
        steno.make_user_context([])


def test_options_without_effect_are_declared_when_they_are_asked_for():
    assert steno.config.jax_use_shardy_partitioner is True
    steno.config.update("jax_remat3", True)
    try:
        assert steno.config.read("jax_remat3") is True and steno.config.values["jax_pgle_profiling_runs"] == 3
    finally:
        steno.config.update("jax_remat3", False)
    with steno.transfer_guard_host_to_device("disallow"):
        assert knobs.transfer_guard_host_to_device.value == "disallow"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        knobs.nothing  # noqa: B018
    with pytest.raises(AttributeError, match="Unrecognized"):
        steno.config.update("jax_nothing", 1)
    with pytest.raises(ValueError, match="jax_explicit_x64_dtypes"):
        steno.config.update("jax_explicit_x64_dtypes", "never")


def test_float0_results_of_programs():
    f = steno.grad(lambda x, i: x[i], argnums=(0, 1), allow_int=True)
    for g in (f, steno.jit(f)):
        _, d = g(np.ones(2, np.float32), 1)
        assert d.dtype == steno.float0 and d.shape == ()
    for op in (lambda: d + snp.zeros(()), lambda: snp.sin(d), lambda: lax.add(d, 1.0)):
        with pytest.raises(TypeError, match="float0"):
            op()


def test_compiler_options():
    options = {"xla_embed_ir_in_executable": True, "optimization_level": steno.CompilerEffortLevel.O1, "fast_math": True}
    assert steno.jit(lambda x: x + 1, compiler_options=options)(1) == 2
    with pytest.raises(steno.errors.JaxRuntimeError, match="No such compile option: 'nothing'"):
        steno.jit(lambda x: x, compiler_options={"nothing": 1})(1)
    assert "jit" not in str(steno.make_jaxpr(steno.jit(lambda x: x * 2, inline=steno.Inline.JAX_EARLY))(1))
    assert "jit" in str(steno.make_jaxpr(steno.jit(lambda x: x * 2, inline=steno.Inline.XLA_LATE))(1))


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: steno.jit(lambda a, /, b: a, static_argnames=("a",)), ValueError, "by position only"),
        (lambda: steno.jit(lambda *args: args, static_argnames=("args",)), ValueError, "by position only"),
        (lambda: steno.jit(int.__add__, donate_argnames=("z",))(1, 2), ValueError, "donate"),
        (lambda: steno.ShapeDtypeStruct((None, 2), np.int32), ValueError, "None"),
        (lambda: steno.jit(staticmethod(abs)), TypeError, "not supported"),
    ],
)
def test_misuse(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_positions_before_the_first_argument_are_nobody_s():
    assert steno.jit(lambda a, *rest: a, static_argnums=(0, -999))(1) == 1


def test_representations_that_fail():
    class Sullen:
        def __call__(self):
            return None

        def __repr__(self):
            raise ValueError("no")

    assert repr(steno.jit(Sullen())) == "<PjitFunction>"
    named = steno.make_jaxpr(lambda x: x)
    assert named.__name__ == "make_jaxpr(<lambda>)"
    before = len(steno.devices()[0].client.live_executables())
    f = steno.jit(lambda x: x - 3)
    f(1)
    assert len(steno.devices()[0].client.live_executables()) == before + 1
    f.clear_cache()
    assert len(steno.devices()[0].client.live_executables()) == before


def test_arrays_from_bytes_have_the_types_there_are():
    with steno.enable_x64(True):
        blob = pickle.dumps(snp.array([1.5, 2.5], dtype="float64"))
        assert pickle.loads(blob).dtype == np.float64
    y = pickle.loads(blob)
    assert y.dtype == np.float32 and y.tolist() == [1.5, 2.5]
    keys = steno.random.split(steno.random.key(0))
    np.testing.assert_array_equal(steno.random.key_data(pickle.loads(pickle.dumps(keys))), steno.random.key_data(keys))
    with pytest.raises(ValueError, match="array is no dtype"):
        snp.zeros(3, dtype=y)


def test_functions_of_two_names_say_their_own():
    for name in ("abs", "amax", "atan2", "conj", "invert", "mod", "pow", "true_divide", "degrees", "around"):
        assert getattr(snp, name).__name__ == name == getattr(snp, name).__qualname__
    assert snp.abs(-1.0) == 1 and snp.mod(5, 3) == 2 and snp.amax(snp.arange(3)) == 2


@pytest.mark.parametrize("name", ["print", "log", "callback"])
def test_calls_with_options_alone_take_no_arguments(name):
    function = getattr(steno.debug, name)
    for call in (lambda: function(ordered=True, a=42), lambda: function(None, 42)):
        with pytest.raises(TypeError, match=rf"debug[._]{name}.*42"):
            call()
    assert callable(function(ordered=True))


def test_what_has_a_shape_and_a_dtype_is_a_type():
    class Described:
        shape, dtype = (3,), np.dtype(np.float32)

    (z,) = steno.linear_transpose(lambda x: 2 * x, Described())(snp.arange(3.0))
    np.testing.assert_array_equal(z, [0, 2, 4])
    assert steno.make_jaxpr(lambda x: x + 2.0)(Described()).in_avals[0].shape == (3,)
