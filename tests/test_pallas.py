"""Kernels over blocks of arrays, against the real JAX's interpreter of them."""

from __future__ import annotations

import numpy as np
import pytest
from peer import NO_JAX, Arr, Expr, compare_all, peer

import steno
import steno.numpy as jnp
from steno.experimental import pallas as pl

X = np.arange(8, dtype=np.float32)
DEFINED = "(lambda names: (exec(code, names), names['f'])[1])(dict(jax=jax, jnp=jnp, lax=lax, np=np, pl=pl))"
HEAD = """
import functools, importlib
pl = importlib.import_module(jax.__name__ + ".experimental.pallas")
S = jax.ShapeDtypeStruct
call = functools.partial(pl.pallas_call, interpret=True)
"""
PROGRAMS = {
    "sum": """
def kernel(x, y, o): o[...] = x[...] + y[...]
def f(x): return call(kernel, out_shape=S((8,), jnp.float32))(x, x)""",
    "blocks": """
def kernel(x, o): o[...] = x[...] * pl.program_id(0) + pl.num_programs(0)
spec = pl.BlockSpec((4,), lambda i: (i,))
def f(x): return call(kernel, out_shape=S((7,), jnp.float32), grid=(2,), in_specs=[spec], out_specs=spec)(x[:7])""",
    "accumulated": """
def kernel(x, o):
    @pl.when(pl.program_id(0) == 0)
    def _(): o[...] = jnp.zeros_like(o)
    o[...] += x[...]
def f(x):
    return call(kernel, out_shape=S((4,), jnp.float32), grid=2, in_specs=[pl.BlockSpec((4,), lambda i: (i,))],
                out_specs=pl.BlockSpec((4,), lambda i: (0,)))(x)""",
    "squeezed axes": """
def kernel(x, o): o[...] = x[...] + 1
spec = pl.BlockSpec((None, 4), lambda i: (i, 0))
def f(x): return call(kernel, out_shape=S((2, 4), jnp.float32), grid=(2,), in_specs=[spec], out_specs=spec)(x.reshape(2, 4))""",
    "a product": """
def kernel(x, y, o):
    @pl.when(pl.program_id(2) == 0)
    def _(): o[...] = jnp.zeros_like(o)
    o[...] += x[...] @ y[...]
def f(x):
    a = jnp.outer(x, x[:6] + 1)
    return call(kernel, out_shape=S((8, 8), jnp.float32), grid_spec=pl.GridSpec(grid=(2, 2, 3),
        in_specs=[pl.BlockSpec((4, 2), lambda i, j, k: (i, k)), pl.BlockSpec((2, 4), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((4, 4), lambda i, j, k: (i, j))))(a, a.T)""",
    "parts": """
def kernel(x, o):
    o[0] = x[1]
    o[pl.ds(1, 2)] = x[pl.ds(3, 2)]
    @pl.loop(3, 6)
    def _(i): o[i] = 2 * x[i]
def f(x): return call(kernel, out_shape=S((8,), jnp.float32))(x)""",
    "several results": """
def kernel(x, a, b): a[...], b[...] = x[...], jnp.sum(x[...], keepdims=True)
def f(x): return call(kernel, out_shape=(S((8,), jnp.float32), S((1,), jnp.float32)))(x)""",
    "in place": """
def kernel(x, o): o[0] = x[1]
def f(x): return call(kernel, out_shape=S((8,), jnp.float32), input_output_aliases={0: 0})(x)""",
    "mapped": """
def kernel(x, o): o[...] = x[...] * 2
def f(x): return jax.vmap(call(kernel, out_shape=S((4,), jnp.float32)))(x.reshape(2, 4))""",
    "forward": """
def kernel(x, o): o[...] = jnp.sin(x[...])
def f(x): return jax.jvp(call(kernel, out_shape=S((8,), jnp.float32)), (x,), (x,))""",
    "elements": """
def kernel(x, o): o[...] = x[...]
def f(x):
    return call(kernel, out_shape=S((4,), jnp.float32), grid=(2,), in_specs=[pl.BlockSpec((pl.Element(2),), lambda i: (3 * i,))],
                out_specs=pl.BlockSpec((2,), lambda i: (i,)))(x)""",
    "helpers": """
def f(x):
    return [pl.cdiv(7, 4), pl.align_to(5, 4), pl.next_power_of_2(5), list(pl.strides_from_shape((2, 3, 4)))]""",
}


@pytest.mark.skipif(peer() is None, reason=NO_JAX)
def test_kernels_against_jax():
    compare_all([Expr(f"{DEFINED}(x)".replace(", pl=pl", ""), code=HEAD + code, x=Arr(X)) for code in PROGRAMS.values()])


def test_scratch_memory_lives_over_the_grid():
    def kernel(x, o, total):
        @pl.when(pl.program_id(0) == 0)
        def _():
            total[...] = jnp.zeros_like(total)

        total[...] += x[...]
        o[...] = total[...]

    spec = pl.BlockSpec((2,), lambda i: (i,))
    options = dict(grid=(4,), in_specs=[spec], out_specs=spec, scratch_shapes=[pl.ANY((2,), "float32")])
    out = pl.pallas_call(kernel, steno.ShapeDtypeStruct((8,), "float32"), **options)(X)
    np.testing.assert_array_equal(out, X.reshape(4, 2).cumsum(0).ravel())

    def scoped(x, o):
        pl.run_scoped(lambda r: (r.__setitem__(0, x[3]), o.__setitem__(..., r[...]))[0], pl.ANY((1,), "float32"))

    assert pl.pallas_call(scoped, steno.ShapeDtypeStruct((1,), "float32"))(X) == 3
    assert pl.run_state(lambda r: r.__setitem__(0, 7.0))(jnp.zeros(2))[0] == 7


def test_derivatives():
    def kernel(x, o):
        o[...] = x[...] ** 2

    spec = pl.BlockSpec((2,), lambda i: (i,))
    f = pl.pallas_call(kernel, steno.ShapeDtypeStruct((8,), "float32"), grid=(4,), in_specs=[spec], out_specs=spec)
    np.testing.assert_array_equal(steno.grad(lambda x: f(x).sum())(X), 2 * X)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda k: pl.pallas_call(k, S8, in_specs=[pl.BlockSpec((4, 4), lambda i: (i, 0))])(X), ValueError, "rank"),
        (lambda k: pl.pallas_call(k, S8, in_specs=["all"])(X), TypeError, "BlockSpec"),
        (lambda k: pl.pallas_call(k, S8, grid=2, grid_spec=pl.GridSpec(2)), ValueError, "not both"),
        (lambda k: pl.pallas_call(k, S8, grid=2, in_specs=[pl.BlockSpec((4,), lambda i: (i, i))])(X), ValueError, "2 positions"),
        (lambda k: pl.pallas_call(lambda x, o: x[...], S8)(X), ValueError, "return None"),
        (lambda k: pl.program_id(0), ValueError, "kernels"),
        (lambda k: pl.semaphore, AttributeError, "GPUs or TPUs"),
    ],
)
def test_misuse(call, error, text):
    with pytest.raises(error, match=text):
        call(lambda x, o: None)


S8 = steno.ShapeDtypeStruct((8,), "float32")
