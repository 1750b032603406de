"""`steno.nn` against the real JAX, and what must hold of it without one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from peer import NO_JAX, Arr, Expr, Key, Ref, differences, peer, run_here

import steno
from steno import nn, numpy as jnp, random

needs_jax = pytest.mark.skipif(peer() is None, reason=NO_JAX)

rng = np.random.default_rng(0)
Q, K = rng.standard_normal((2, 3, 4, 8)).astype(np.float32), rng.standard_normal((2, 5, 4, 8)).astype(np.float32)
POINTS = np.array([-7, -3, -1, -0.5, -0.0, 0.0, 0.5, 1, 2, 3, 6, 7, 40, -40, np.nan, np.inf, -np.inf], np.float32)
LINE = np.linspace(-8, 8, 41, dtype=np.float32)
VARIABLES = {
    "nn": Ref("jax.nn"),
    "init": Ref("jax.nn.initializers"),
    "key": Key(np.array([1, 2], np.uint32)),
    "q": Arr(Q),
    "k": Arr(K),
    "x": Arr(LINE),
    "i": Arr(np.arange(-2, 3, dtype=np.int32)),
    "b": Arr(np.array([True, False])),
    "c": Arr(np.array([1 + 2j, -0.5 - 3j], np.complex64)),
    "points": Arr(POINTS),
    "special": Arr(np.array([np.inf, -np.inf, np.nan, -0.0, 0.0, 1e-40, 3e38, -3e38, 100.0, -100.0], np.float32)),
}
# Values pass through exp, tanh, erf and others, which differ by a few units in the last place; narrow types are rounded from float32.
RTOL, ATOL, NARROW = 3e-6, 1e-6, 1e-2


def compare(sources: list[str], atol: float = ATOL) -> None:
    """Each expression, here and on JAX: values, dtypes, weak types, shapes, error classes."""
    calls = [Expr(s, **{n: v for n, v in VARIABLES.items() if n in s}) for s in sources]
    server = peer()
    assert server is not None
    found = []
    for call, got, want in zip(calls, run_here(calls), server.batch(calls), strict=True):
        rtol = NARROW if "float16" in call.source else RTOL
        found += [f"{call.source}\n  {d}" for d in differences(got, want, rtol=rtol, atol=atol)]
    assert not found, "\n".join(found)


ACTIVATIONS = (
    "celu", "elu", "gelu", "glu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "identity", "leaky_relu", "log1mexp",
    "log_sigmoid", "log_softmax", "logmeanexp", "logsumexp", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "soft_sign", "softmax",
    "softplus", "sparse_plus", "sparse_sigmoid", "squareplus", "standardize", "swish", "tanh",
)  # fmt: skip
ARGUMENTS = (
    "2", "2.5", "True", "i", "b", "c", "x", "special", "q", "jnp.zeros((0,))", "jnp.float16(1.5)", "x.astype('bfloat16')", "[1.0, 2.0]",
    "np.ones(2)",
)  # fmt: skip


@needs_jax
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_functions_of_one_argument(name):
    compare([f"nn.{name}({a})" for a in ARGUMENTS])


@needs_jax
def test_parameters_of_activations():
    compare([
        "nn.leaky_relu(i, 2)", "nn.leaky_relu(x, 0.3)", "nn.elu(i, 2)", "nn.elu(i, alpha=jnp.float32(2))", "nn.celu(i, 2)",
        "nn.squareplus(i, 2)", "nn.gelu(i, approximate=False)", "nn.gelu(x, False)", "nn.gelu(2.0, False)",
        "nn.gelu(x.astype('bfloat16'), False)", "nn.gelu(c, False)", "nn.relu('a')", "nn.softmax('a')", "nn.tanh(x=1.0)",
        "nn.sigmoid(x=1.0)", "nn.glu(jnp.ones(3))", "nn.glu(q, axis=0)", "nn.glu(q, axis=9)",
    ])  # fmt: skip


ALONG_AXES = ("glu", "log_softmax", "logmeanexp", "logsumexp", "softmax", "standardize")


@needs_jax
@pytest.mark.parametrize("name", [n for n in ACTIVATIONS if n not in ALONG_AXES])
def test_derivatives_of_activations(name):
    """First and second, at kinks and limits too. The second of mish loses digits to cancellation in both."""
    compare(
        [f"jax.vmap(jax.grad(nn.{name}))(points)", f"jax.vmap(jax.grad(jax.grad(nn.{name})))(points)"],
        atol=5e-6 if name == "mish" else ATOL,
    )


@needs_jax
def test_derivatives_along_axes():
    compare([
        "jax.grad(lambda q: (nn.softmax(q)**2).sum())(q)", "jax.grad(lambda q: (nn.log_softmax(q)**2).sum())(q)",
        "jax.grad(lambda q: (nn.logsumexp(q, axis=0)**2).sum())(q)", "jax.grad(lambda q: (nn.standardize(q)**3).sum())(q)",
        "jax.grad(lambda q: (nn.softmax(q, where=q > 0)**2).sum())(q)", "jax.grad(nn.logmeanexp)(q)",
        "jax.jacobian(nn.softmax)(q[0, 0, 0])",
        "jax.hessian(nn.logsumexp)(q[0, 0, 0])", "jax.grad(lambda q: (nn.glu(q)**2).sum())(q)",
        "jax.grad(lambda q: (nn.gelu(q, False)**2).sum())(q)", "jax.grad(nn.logsumexp)(jnp.array([-jnp.inf, 1.0]))",
        "jax.grad(nn.logsumexp)(jnp.array([-jnp.inf, -jnp.inf]))", "jax.vmap(nn.softmax)(q)", "jax.vmap(lambda i: nn.one_hot(i, 3))(i)",
    ])  # fmt: skip


@needs_jax
def test_one_hot():
    compare([
        "nn.one_hot(i, 3)", "nn.one_hot(i, 3, dtype=int)", "nn.one_hot(1.5, 3)", "nn.one_hot(1, 3)", "nn.one_hot(i, 3, axis=0)",
        "nn.one_hot(i, 3, axis=5)", "nn.one_hot(jnp.ones((2, 2), int), 3, axis=1)", "nn.one_hot(i, 3.5)", "nn.one_hot(i, jnp.int32(3))",
        "nn.one_hot([1, 2], 3)", "nn.one_hot(i, -1)", "nn.one_hot(i, 0)", "nn.one_hot(i, 3, axis='x')",
        "nn.one_hot(jnp.array([-1, 0]), 3)", "nn.one_hot(i, 3, dtype='float64')", "jax.jit(nn.one_hot)(i, 3)",
        "nn.one_hot(i, 5, dtype=bool)", "nn.one_hot(b, 2)", "nn.one_hot('a', 2)", "nn.one_hot(i, np.int64(3))", "nn.one_hot(i, True)",
    ])  # fmt: skip


@needs_jax
def test_softmax_and_relatives():
    compare([
        "nn.softmax(q, axis=(0, 1))", "nn.softmax(q, axis=None)", "nn.softmax(q, axis=[0, 1])", "nn.softmax(q, axis=4)",
        "nn.softmax(q, initial=0.0)", "nn.softmax(jnp.ones((2, 3)), where=jnp.array([1, 0, 1]))",
        "nn.softmax(jnp.ones((2, 3)), where=jnp.array([True, False, False]))",
        "nn.softmax(jnp.arange(3), where=jnp.array([True, False, True]))", "nn.softmax(jnp.ones((2, 3)), where=jnp.zeros(3, bool))",
        "nn.log_softmax(jnp.ones((2, 3)), where=jnp.zeros(3, bool))", "nn.log_softmax(q, axis=(1, 2), where=q > 0)",
        "nn.softmax(q, axis=(1, 2), where=q > 0)", "nn.softmax(jnp.array([-jnp.inf, -jnp.inf]))", "nn.softmax(jnp.zeros((3, 0)))",
        "nn.log_softmax(q, 0)", "nn.log_softmax(jnp.zeros((0, 3)), 0)",
    ])  # fmt: skip


@needs_jax
def test_logsumexp():
    compare([
        "nn.logsumexp(jnp.array([jnp.inf, 1]))", "nn.logsumexp(jnp.array([-jnp.inf]))", "nn.logsumexp(q, axis=0, b=2.0)",
        "nn.logsumexp(q, keepdims=True)", "nn.logsumexp(q, b=-1.0)", "nn.logsumexp(q, b=-1.0, return_sign=True)",
        "nn.logsumexp(q, axis=(0, -1), b=abs(k[:, :3]), where=q > 0, return_sign=True, keepdims=True)",
        "nn.logsumexp(q[0, 0, 0], axis=0, b=q[..., :1])", "nn.logsumexp(q, where=jnp.zeros(8, bool))",
        "nn.logsumexp(q[0, 0, 0], where=q > 0)", "nn.logsumexp(jnp.zeros((0, 3)), axis=0)", "nn.logsumexp(c, return_sign=True)",
        "nn.logsumexp(c, b=1j)", "nn.logsumexp(i, b=2)", "nn.logsumexp(q, axis=[1, 2])", "nn.logsumexp(q, axis=7)",
        "nn.logmeanexp(q, axis=1, keepdims=True)", "nn.logmeanexp(q, axis=(1, 2), where=q > 0)",
        "nn.logmeanexp(q[0, 0], axis=0, where=q[0, 0] > 0, keepdims=True)", "nn.logmeanexp(i.astype('float16'))",
    ])  # fmt: skip


@needs_jax
def test_standardize():
    compare([
        "nn.standardize(q, mean=0.0)", "nn.standardize(q, mean=0.0, variance=2.0)", "nn.standardize(q, variance=2.0, axis=0)",
        "nn.standardize(q, algorithm='stable')", "nn.standardize(q, algorithm='two')", "nn.standardize(q, epsilon=1)",
        "nn.standardize(q, where=q > -1, epsilon=0.1)", "nn.standardize(q, axis=(1, 2), where=q > 0, algorithm='stable')",
        "nn.standardize(q, axis=None)", "nn.standardize(i.astype('bfloat16'))",
    ])  # fmt: skip


@needs_jax
def test_attention():
    compare(["nn.dot_product_attention(" + arguments + ")" for arguments in (
        "q, k, k", "q[0], k[0], k[0]", "np.asarray(q), np.asarray(k), np.asarray(k)", "q, k[:, :, :2], k[:, :, 2:]",
        "q, k, k, scale=jnp.float32(2)", "q, k, k, jnp.ones((3, 5))",
        "q, k[:, :, :1], k[:, :, :1], bias=jnp.ones((2, 1, 3, 5)), mask=jnp.ones((1, 4, 3, 5), bool)",
        "q, k[:, :, :2], k[:, :, 2:], is_causal=True, query_seq_lengths=jnp.array([1, 2]), key_value_seq_lengths=jnp.array([3, 4]), "
        "local_window_size=(1, 2), return_residual=True",
        "q, k[:, :, :2], k[:, :, 2:], bias=q[:, :, :, :5].transpose(0, 2, 1, 3), mask=k[:, :3, :, :5].transpose(0, 2, 1, 3) > 0, "
        "scale=2, return_residual=True",
        "q[0].astype('bfloat16'), k[0].astype('bfloat16'), k[0].astype('bfloat16'), return_residual=True",
        "q[0].astype('float16'), k[0].astype('float16'), k[0].astype('float16'), bias=jnp.ones((1, 3, 5)), local_window_size=1, "
        "return_residual=True",
        "q, k, k, key_value_seq_lengths=jnp.array([0, 4])", "q, k, k, local_window_size=-1",
        "q[0], k[0], k[0], query_seq_lengths=jnp.array([1])",
        "jnp.ones((2, 3, 4, 8), int), jnp.ones((2, 3, 4, 8), int), jnp.ones((2, 3, 4, 8), int)",
        # misuse
        "q, k, k, implementation='cudnn'", "q, k, k, implementation='foo'", "q[0, 0], k, k", "q, k[0], k", "q, k[:, :, :3], k[:, :, :3]",
        "q, k[:, :, :2], k", "q, k[..., :4], k", "q, k.astype('bfloat16'), k", "q, k, k[..., :3]", "q, k, k, mask=jnp.ones((2, 4, 3, 5))",
        "q, k, k, jnp.ones((2, 4, 3, 6))", "q, k, k, jnp.ones((1, 2, 4, 3, 5))", "q, k, k, query_seq_lengths=jnp.array([1.0, 2])",
        "q, k, k, query_seq_lengths=jnp.array([1, 2, 3])", "q, k, k, local_window_size=(1, 2, 3)",
    )])  # fmt: skip


@needs_jax
def test_scaled_matmul():
    f8, e8 = ".astype('float8_e4m3fn')", ".astype('float8_e8m0fnu')"
    keys, scales = "k[0].transpose(1, 0, 2)", "(k[0]**2).transpose(1, 0, 2)[..., :2]"
    compare([
        f"nn.scaled_matmul(q[0]{f8}, {keys}[:3]{f8}, (q[0]**2)[..., :2]{e8}, {scales}[:3]{e8})",
        f"nn.scaled_matmul(q[0]{f8}, {keys}[:3]{f8}, (q[0]**2)[..., :2]{e8}, {scales}[:3]{e8}, 'bfloat16')",
    ])  # fmt: skip


@needs_jax
def test_initializers():
    names = [f"{author}_{shape}" for author in ("glorot", "xavier", "lecun", "he", "kaiming") for shape in ("uniform", "normal")]
    compare([f"init.{name}()(key, (3, 4))" for name in names] + [
        "init.zeros(key, (2,))", "init.zeros(key, (2,), 'bfloat16')", "init.zeros(key, 2)", "init.zeros(None, (2,))",
        "init.zeros(key, (2,), 'float64')", "init.zeros(key, (-1,))", "init.ones(key, (2,), jnp.int32)", "init.constant(3.0)(key, (2,))",
        "init.constant(jnp.arange(3))(key, (2, 3))", "init.constant(3, jnp.int8)(key, (2,))",
        "init.constant(3)(key, (2,), jnp.complex64)", "init.constant([1, 2])(key, (2,))", "init.uniform()(key, (2,))",
        "init.uniform(1)(key, [2])", "init.uniform(1)(key, 2)", "init.uniform(2.0, 'float16')(key, (2,))",
        "init.uniform(1)(key, (2,), jnp.int32)", "init.uniform(1)(key, (2,), jnp.complex64)", "init.normal()(key, (3,))",
        "init.normal(1.0, 'complex64')(key, (3,))", "init.normal()(key, (3,), 'bfloat16')", "init.normal()(key, (3,), 'int32')",
        "init.normal()(1.5, (2,))", "init.truncated_normal()(key, (3,))", "init.truncated_normal(1.0, lower=-1.0, upper=0.5)(key, (3,))",
        "init.truncated_normal(1.0, 'complex64')(key, (3,))", "init.truncated_normal(1.0)(key, (3,), 'int32')",
        "init.he_normal()(key, (3, 3, 4, 5))", "init.he_normal(in_axis=(0, 1), out_axis=2, batch_axis=3)(key, (3, 3, 4, 5))",
        "init.he_normal(in_axis=0, out_axis=(1, 2))(key, (3, 3, 4, 5))", "init.he_normal()(key, (4,))", "init.he_normal()(key, ())",
        "init.he_normal()(key, (0, 4))", "init.he_normal(in_axis=3)(key, (2, 4))", "init.he_normal(in_axis=-3)(key, (2, 4))",
        "init.he_normal(in_axis=0, out_axis=0)(key, (2, 4))", "init.glorot_normal()(key, (np.int64(3), 4))",
        "init.he_normal()(jax.random.PRNGKey(0), (3, 4))", "jax.jit(lambda key: init.he_normal()(key, (3, 4)))(key)",
        "init.variance_scaling(2.0, 'fan_geo_avg', 'normal')(key, (3, 4))",
        "init.variance_scaling(2.0, 'fan_foo', 'normal')(key, (3, 4))", "init.variance_scaling(2.0, 'fan_in', 'foo')(key, (3, 4))",
        "init.variance_scaling(-2.0, 'fan_out', 'truncated_normal')(key, (3, 4))",
        "init.variance_scaling(2.0, 'fan_out', 'truncated_normal')(key, (3, 4), 'bfloat16')",
        "init.variance_scaling(2.0, 'fan_out', 'truncated_normal')(key, (3, 4), 'int32')",
        "init.variance_scaling(2.0, 'fan_in', 'normal', in_axis=(), out_axis=())(key, (3, 4))",
        *(f"init.variance_scaling(2.0, 'fan_in', '{d}')(key, (3, 4), 'complex64')" for d in ("uniform", "normal", "truncated_normal")),
        "init.xavier_uniform is init.glorot_uniform", "isinstance(init.zeros, init.Initializer)", "init.orthogonal()(key, (3,))",
        "init.delta_orthogonal()(key, (3, 4))",
    ])  # fmt: skip


@needs_jax
def test_every_name_of_jax_is_here():
    server = peer()
    assert server is not None
    _, names = server.call(
        Expr("[n for n in dir(nn) + dir(init) if not n.startswith('_')]", nn=Ref("jax.nn"), init=Ref("jax.nn.initializers"))
    )
    later: set[str] = set()
    missing = [n.value for n in names if not hasattr(nn, n.value) and not hasattr(nn.initializers, n.value)]
    assert set(missing) == later
    for name in later:
        with pytest.raises(AttributeError, match="not implemented yet"):
            getattr(nn, name)


# without JAX


@pytest.mark.parametrize("name", [n for n in ACTIVATIONS if n != "glu"])
def test_jitted_and_eager_are_the_same_bits(name):
    f = getattr(nn, name)
    x = jnp.asarray(Q)
    np.testing.assert_array_equal(np.asarray(steno.jit(lambda x: f(x) * 1.0)(x)), np.asarray(f(x)))


def test_softmax_rows_are_distributions():
    p = np.asarray(nn.softmax(jnp.asarray(Q) * 30))
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(-1), 1, rtol=1e-6)  # 8 roundings of a float32


def test_attention_is_the_formula():
    q, k = Q.astype(np.float64), K.astype(np.float64)
    logits = np.einsum("btnh,bsnh->bnts", q, k) / math.sqrt(8)
    p = np.exp(logits - logits.max(-1, keepdims=True))
    want = np.einsum("bnts,bsnh->btnh", p / p.sum(-1, keepdims=True), k)
    np.testing.assert_allclose(np.asarray(nn.dot_product_attention(Q, K, K)), want, rtol=1e-5, atol=1e-6)  # float32 against float64


def test_positions_of_narrow_integers_do_not_wrap():
    hot = np.asarray(nn.one_hot(jnp.array([1], jnp.int8), 300))
    assert hot.sum() == 1 and hot[0, 1] == 1


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("distribution", ["truncated_normal", "normal", "uniform"])
def test_variance_scaling_has_the_variance(distribution, dtype):
    w = np.asarray(nn.initializers.variance_scaling(2.0, "fan_in", distribution)(random.key(0), (400, 500), dtype))
    # 200,000 numbers: the variance's standard error is below 0.4 %; JAX's constant for truncated complex numbers is 2 % off
    assert abs(np.mean(np.abs(w) ** 2) * 400 / 2 - 1) < 0.03
    assert abs(w.mean()) < 4 * math.sqrt(2 / 400 / w.size)


def test_initializers_under_strict_promotion():
    """Every initializer gives the dtype asked for, real or complex, without implicit promotion."""
    names = ("glorot_normal", "he_uniform", "lecun_normal", "orthogonal", "normal")
    made = [getattr(nn.initializers, name)() for name in names]
    with steno.numpy_dtype_promotion("strict"), steno.numpy_rank_promotion("raise"):
        for init in [*made, nn.initializers.zeros, nn.initializers.variance_scaling(1.0, "fan_in", "normal")]:
            for dtype in ("float32", "complex64"):
                assert init(random.key(0), (3, 4), dtype).dtype == np.dtype(dtype)
        assert nn.initializers.delta_orthogonal()(random.key(0), (3, 3, 4)).shape == (3, 3, 4)
    for shape in [(0, 3), (3, 0), (0, 0)]:
        assert nn.initializers.orthogonal()(random.key(0), shape).shape == shape
