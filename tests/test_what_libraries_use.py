"""What libraries written for JAX do that its documentation hardly mentions. tools/try_libraries.py runs the libraries themselves."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import steno as jax
import steno.numpy as jnp
from steno import lax
from steno.core.trace import Tracer
from steno.extend.core import set_current_trace, take_current_trace
from steno.interpreters import partial_eval as pe


def known_sum(x):
    """Of known values, whatever is traced; adds them to x, whatever x is."""
    with jax.ensure_compile_time_eval():
        total = jnp.arange(4.0).sum() + jnp.linalg.norm(jnp.ones(4))
        assert not isinstance(total, Tracer) and float(total) == 8
        y = x + total
        assert isinstance(y, Tracer) == isinstance(x, Tracer)
        loop = lax.fori_loop(0, 3, lambda i, c: c + 1, jnp.zeros(()))
        assert float(loop) == 3
        return jnp.where(y > 0, y * y, 0.0)


@pytest.mark.parametrize(
    "transformed",
    [
        lambda f: f,
        jax.jit,
        lambda f: lambda x: jax.jvp(f, (x,), (x,))[0],
        lambda f: lambda x: jax.vmap(f)(jnp.stack([x, x]))[1],
        lambda f: lambda x: jax.jit(jax.vmap(f))(jnp.stack([x, x]))[0],
        lambda f: lambda x: lax.cond(True, f, f, x),
        lambda f: lambda x: lax.scan(lambda c, _: (f(x), None), x, None, length=2)[0],
        lambda f: lambda x: jax.vjp(f, x)[0],
    ],
)
def test_known_values_are_evaluated_and_tracers_traced(transformed):
    assert float(transformed(known_sum)(jnp.float32(1.0))) == 81


def test_known_values_in_derivatives():
    assert float(jax.grad(known_sum)(1.0)) == 18 and float(jax.jit(jax.hessian(known_sum))(1.0)) == 2
    with jax.ensure_compile_time_eval():
        assert float(jnp.ones(3).sum()) == 3


@pytest.mark.parametrize("transformed", [lambda f: f, jax.jit, lambda f: lambda x: jax.vmap(f)(jnp.stack([x, x]))[0], jax.checkpoint])
def test_residuals_that_are_numbers_stay_numbers(transformed):
    seen = []

    def fwd(x, y):
        return x.value * y.value, (x.perturbed, y.value, 3, x.perturbed and 2.5, y.perturbed)

    def bwd(residuals, ct):
        perturbed, y, three, number, other = residuals
        seen.append((perturbed, three, number, other))
        assert type(perturbed) is bool and type(three) is int and type(number) is float
        return (ct * y * three if perturbed else None), None

    f = jax.custom_vjp(lambda x, y: x * y)
    f.defvjp(fwd, bwd, symbolic_zeros=True)
    assert float(jax.grad(transformed(lambda x: f(x, 2.0)))(1.0)) == 6
    assert float(transformed(jax.grad(lambda x: f(x, 2.0)))(1.0)) == 6
    assert set(seen) == {(True, 3, 2.5, False)}


def test_types_without_values_are_constants_of_programs_that_do_not_run():
    s = jax.ShapeDtypeStruct((3,), jnp.float32)
    assert jax.eval_shape(lambda: (s, 1.0))[0] == s
    assert len(jax.make_jaxpr(lambda: s)().consts) == 1
    with pytest.raises(TypeError, match="ShapeDtypeStruct"):
        jax.jit(lambda: s)()
    with pytest.raises(TypeError, match="ShapeDtypeStruct"):
        jnp.sin(s)


def test_the_current_trace_is_put_aside():
    def f(x):
        with take_current_trace() as trace:
            assert isinstance(jnp.ones(3).sum(), jax.Array) and not isinstance(jnp.ones(3).sum(), Tracer)
            with set_current_trace(trace):
                return x + jnp.ones(3).sum()

    assert float(jax.jit(f)(1.0)) == 4 and float(f(1.0)) == 4


def test_partial_evaluation_of_what_is_known():
    known, unknown = pe.PartialVal.known(jnp.arange(3.0)), pe.PartialVal.unknown(jax.typeof(jnp.ones(3)))
    assert known.is_known() and not unknown.is_known() and known.get_aval() == unknown.get_aval()
    jaxpr, outs, residuals = pe.trace_to_jaxpr_nounits(lambda x, y: [x * 2, jnp.sin(x) * y, y], [known, unknown])
    assert [o.is_known() for o in outs] == [True, False, False] and outs[0].get_known().tolist() == [0, 2, 4]
    y = jnp.full(3, 2.0)
    got = jax.core.eval_jaxpr(jaxpr, [], *residuals, y)
    np.testing.assert_allclose(got[0], np.sin(np.arange(3)) * 2, rtol=1e-6)
    np.testing.assert_array_equal(got[1], y)


def test_callables_of_any_kind_of_name():
    class Model:
        __name__ = property(lambda self: 3)
        __doc__ = None
        scale = 2.0

        def __call__(self, x):
            return x * self.scale

    model = Model()
    for transformation in (jax.jit, jax.vmap, jax.checkpoint, lambda f: jax.grad(lambda x: f(x).sum()), jax.pmap):
        assert np.asarray(transformation(model)(jnp.ones(1)))[0] == 2
    assert jax.jacfwd(model)(jnp.ones(1)).shape == (1, 1) and jax.make_jaxpr(model)(1.0).in_avals


def test_names():
    assert jnp.dtype is np.dtype and (jax.Array | jnp.dtype)
    aval = jax.core.ShapedArray((2,), jnp.float32, sharding=None, weak_type=True)
    assert aval.sharding is None and aval.weak_type
    with pytest.raises(TypeError, match="unexpected keyword"):
        jax.core.ShapedArray((2,), jnp.float32, colour=1)


def test_private_modules_under_jaxs_name():
    program = """
from steno import asjax
asjax.install()
from jax._src import checkify, core, dispatch, dtypes, flatten_util, traceback_util, tree_util
from jax._src.ad_util import stop_gradient_p
from jax._src.state.types import AbstractRef
import jax, jax.interpreters.xla
from jax.extend.core.primitives import call_p, closed_call_p
assert core.trace_state_clean() and not jax.jit(lambda: core.trace_state_clean(), inline=True).eval_shape().shape
assert dict in tree_util._registry and int not in tree_util._registry and traceback_util.api_boundary(len)([1]) == 1
assert stop_gradient_p is jax.lax.stop_gradient_p and call_p.name == "core_call"
import importlib.metadata, jaxlib
assert importlib.metadata.version("jax") == jax.__version__ == jaxlib.__version__ and jax._src.pjit.jit_p.name == "jit"
import numpy as np
class Mine:
    dtype, shape = np.dtype("float32"), (2,)
    def __array__(self, dtype=None, copy=None):
        return np.ones(2, np.float32)
jax.core.pytype_aval_mappings[Mine] = jax.interpreters.xla.pytype_aval_mappings[np.ndarray]
jax.interpreters.xla.canonicalize_dtype_handlers[Mine] = jax.interpreters.xla.canonicalize_dtype_handlers[np.ndarray]
assert jax.typeof(Mine()).shape == (2,) and jax.jit(lambda x: x.sum())(Mine()) == 2
try:
    import jax._src.xla_bridge
except ModuleNotFoundError as err:
    print(err)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "steno._src.xla_bridge" in done.stdout, done.stderr
