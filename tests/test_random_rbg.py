"""Keys of generators other than the default one: the bits of the real JAX, alone, under vmap and jit, and through the distributions."""

from __future__ import annotations

import numpy as np
import pytest

import steno as jax
import steno.numpy as jnp
from steno.core import dtypes
from steno.extend.random import define_prng_impl

IMPLS = ("rbg", "unsafe_rbg")


def words(keys):
    return np.asarray(jax.random.key_data(keys)).tolist()


def test_bits_of_the_generator() -> None:
    for impl in IMPLS:
        key = jax.random.key(42, impl=impl)
        assert words(key) == [0, 42, 0, 42]
        np.testing.assert_array_equal(jax.random.bits(key, (5,)), [2620864722, 2991908441, 282133475, 2589630650, 1779689962])
        np.testing.assert_array_equal(jax.random.bits(key, (2, 3), np.uint8), [[210, 89, 227], [186, 234, 206]])
        np.testing.assert_array_equal(jax.random.bits(key, (3,), np.uint16), [14546, 58969, 995])
        _, same = jax.lax.rng_bit_generator(jax.random.key_data(key), (5, 3))
        np.testing.assert_array_equal(jax.random.bits(key, (5, 3)), same)
        with jax.enable_x64(True):
            np.testing.assert_array_equal(jax.random.bits(key, (2,), np.uint64), np.uint64([12850148909342210258, 11122378950751355875]))


def test_new_keys() -> None:
    rbg, unsafe = (jax.random.key(42, impl=impl) for impl in IMPLS)
    assert words(jax.random.split(rbg, 2)) == [
        [1832780943, 270669613, 1832780943, 270669613],
        [64467757, 2916123636, 64467757, 2916123636],
    ]
    assert words(jax.random.split(unsafe, 2)) == [
        [2620864722, 2991908441, 282133475, 2589630650],
        [4105776319, 298289174, 864345282, 274752888],
    ]
    assert words(jax.random.fold_in(rbg, 7)) == [2547012911, 1371500959, 2547012911, 1371500959]
    assert words(jax.random.fold_in(unsafe, 7)) == [2104303640, 250182049, 1106406590, 1983638428]


def test_vmap_draws_from_the_first_key() -> None:
    for impl, wanted in zip(IMPLS, ([3775815125, 3662903343], [429002668, 3594548429]), strict=True):
        keys = jax.random.split(jax.random.key(42, impl=impl), 3)
        drawn = jax.vmap(lambda k: jax.random.bits(k, (4,)))(keys)
        np.testing.assert_array_equal(drawn[0], jax.random.bits(keys[0], (4,)))
        np.testing.assert_array_equal(drawn[1, :2], wanted)
        np.testing.assert_array_equal(drawn, jax.jit(jax.vmap(lambda k: jax.random.bits(k, (4,))))(keys))
    folded = jax.vmap(lambda d: jax.random.fold_in(jax.random.key(42, impl="unsafe_rbg"), d))(jnp.arange(3))
    assert words(folded[1]) == [2700612817, 969135847, 60494963, 2586996962]


@pytest.mark.parametrize("impl", IMPLS)
def test_keys_are_arrays(impl: str) -> None:
    keys = jax.random.split(jax.random.key(1, impl=impl), 6)
    data = np.asarray(jax.random.key_data(keys))
    for f, g in (
        (lambda x: x.reshape(2, 3).T, lambda d: d.reshape(2, 3, 4).transpose(1, 0, 2)),
        (lambda x: x[::-1], lambda d: d[::-1]),
        (lambda x: jnp.concatenate([x, x[:1]]), lambda d: np.concatenate([d, d[:1]])),
        (lambda x: jnp.where(jnp.arange(6) < 2, x, x[5]), lambda d: np.where(np.arange(6)[:, None] < 2, d, d[5])),
        (lambda x: jax.lax.scan(lambda c, k: (k, c), x[0], x)[1], lambda d: np.concatenate([d[:1], d[:-1]])),
        (lambda x: x.at[9].get(mode="fill"), lambda d: np.full(4, 2**32 - 1, np.uint32)),
        (lambda x: x.at[1].set(x[0]), lambda d: np.concatenate([d[:1], d[:1], d[2:]])),
    ):
        assert words(f(keys)) == words(jax.jit(f)(keys)) == g(data).tolist()
    assert (keys == keys).all() and not (keys[:5] == keys[1:]).any()
    assert sorted(words(jax.random.permutation(jax.random.key(0), keys))) == sorted(data.tolist())
    assert words(jax.random.wrap_key_data(data, impl=impl)) == data.tolist()


@pytest.mark.parametrize("impl", IMPLS)
def test_distributions_and_raw_keys(impl: str) -> None:
    key = jax.random.key(3, impl=impl)
    assert abs(float(jax.random.normal(key, (20000,)).mean())) < 0.03
    assert abs(float(jax.random.gamma(key, 2.0, (5000,)).mean()) - 2) < 0.1
    with jax.default_prng_impl(impl):
        raw = jax.random.PRNGKey(3)
        assert raw.shape == (4,) and raw.dtype == np.uint32
        np.testing.assert_array_equal(jax.random.uniform(raw, (7,)), jax.random.uniform(key, (7,)))
        assert jax.random.split(raw).shape == (2, 4)
    with pytest.raises(TypeError, match="size 2"):
        jax.random.uniform(raw)
    with pytest.raises(ValueError, match="unrecognized"):
        jax.random.key(0, impl="foo")


def test_every_generator_may_be_the_default() -> None:
    for dtype in dtypes.KEYS:
        with jax.default_prng_impl(dtype.impl):
            raw, key = jax.random.PRNGKey(3), jax.random.key(3)
            assert key.dtype is dtype and raw.shape == (dtype.words,)
            np.testing.assert_array_equal(jax.random.bits(raw, (3,)), jax.random.bits(key, (3,)))


def test_filled_arrays_of_keys() -> None:
    for impl in ("threefry2x32", *IMPLS):
        dtype = jax.random.key_dtype(impl)
        assert jax.random.key(0, dtype=impl).dtype is dtype
        assert words(jnp.full((2,), 7, dtype)) == [[7] * dtype.words] * 2
        assert words(jnp.zeros((), dtype)) == [0] * dtype.words and words(jnp.ones_like(jax.random.key(3, impl=impl))) == [1] * dtype.words
        with pytest.raises(TypeError, match="add"):
            jax.random.key(3, impl=impl) + 1
    seeded = jax.random.key(17)
    jax.config.update("jax_random_seed_offset", 3)
    try:
        assert words(jax.random.key(14)) == words(seeded)
    finally:
        jax.config.update("jax_random_seed_offset", 0)


@pytest.mark.parametrize("a", [0.2, 1.0, 3.5, 50.0])
def test_approximate_gamma(a: float) -> None:
    stats = pytest.importorskip("scipy.stats")
    key = jax.random.key(5, impl="rbg")
    x = np.asarray(jax.random.gamma(key, a, (20000,), method="approximate"))
    assert stats.kstest(x, stats.gamma(a).cdf).pvalue > 1e-3
    np.testing.assert_allclose(
        np.exp(jax.random.loggamma(key, a, (9,), method="approximate")), jax.random.gamma(key, a, (9,), method="approximate"), rtol=1e-5
    )
    assert np.isfinite(jax.grad(lambda a: jax.random.gamma(key, a, (9,), method="approximate").sum())(a))
    b = np.asarray(jax.random.beta(key, a, 2.0, (5000,), method="approximate"))
    assert stats.kstest(b, stats.beta(a, 2.0).cdf).pvalue > 1e-3
    with pytest.raises(ValueError, match="method"):
        jax.random.gamma(key, a, method="foo")


@pytest.mark.parametrize("lam", [0.0, 0.3, 7.0, 19.5, 40.0, 1e4])
def test_approximate_poisson(lam: float) -> None:
    stats = pytest.importorskip("scipy.stats")
    x = np.asarray(jax.random.poisson(jax.random.key(6), lam, (30000,), method="approximate"))
    assert x.dtype == np.int32
    law = stats.poisson(lam)
    values, seen = np.unique(x, return_counts=True)
    assert abs(x.mean() - lam) < 5 * np.sqrt((lam + 1e-9) / x.size) and abs(x.var() - lam) < 0.04 * lam + 1e-9
    assert np.abs(np.cumsum(seen) / x.size - law.cdf(values)).max() < 0.012
    bad = jax.random.poisson(jax.random.key(6), np.float32([-1, np.nan]), method="approximate")
    np.testing.assert_array_equal(bad, [-1, -1])


# of the real JAX: the key of a seed of 64 bits, split number 1 of 2, fold_in of 7, the second one of 2 numbers of 32 and of 64 bits, 3 of 8
STREAMS = {
    "philox2x32": ([670861461], [4034996150], [1815696060], 2381841202, 17330176505841001604, [140, 50, 232]),
    "philox4x32": (
        [2416699810, 3952299808],
        [1733246947, 3303686739],
        [1868512593, 3405329033],
        198691825,
        1433518390808952572,
        [114, 241, 160],
    ),
    "threefry4x32": (
        [2203115169, 868404599, 2810897909, 2036646562],
        [3683071181, 3164783278, 1869207581, 3644001989],
        [1039066162, 3133209356, 1095130396, 3006806183],
        3196521538,
        10972321607070156828,
        [120, 66, 153],
    ),
}


@pytest.mark.parametrize("impl", STREAMS)
def test_streams_of_blocks(impl: str) -> None:
    seed, split, folded, *bits = STREAMS[impl]
    with jax.enable_x64(True):
        key = jax.random.key(0x1122334455667788, impl=impl)
        assert words(key) == seed and key.shape == () and jax.random.key_impl(key) == impl
        keys = jax.random.split(key, 2)
        assert words(keys)[1] == split and words(jax.random.fold_in(key, 7)) == folded
        assert words(jax.vmap(lambda n: jax.random.fold_in(key, n))(jnp.arange(6, 8)))[1] == folded
        b32, b64 = (jax.random.bits(key, (2,), dtype) for dtype in (np.uint32, np.uint64))
        assert [int(b32[1]), int(b64[1]), jax.random.bits(key, (3,), np.uint8).tolist()] == bits
    drawn = jax.jit(jax.vmap(lambda k: jax.random.bits(k, (2,))))(keys)
    assert drawn[1].tolist() == jax.random.bits(keys[1], (2,)).tolist()
    assert words(jnp.where(jnp.array([True, False]), keys, keys[::-1])) == [words(keys)[0]] * 2
    assert (keys == keys).all() and not (keys == keys[::-1]).any()
    raw = jax.random.PRNGKey(3, impl=impl)
    assert raw.shape == (len(seed),) and words(jax.random.wrap_key_data(raw, impl=impl)) == raw.tolist()


def test_a_generator_of_ones_own() -> None:
    """Two threefry keys side by side, of which the first one draws."""
    words_ = jax.random.key_data

    def one(w):
        return jax.random.wrap_key_data(w, impl="threefry2x32")

    impl = define_prng_impl(
        key_shape=(2, 2),
        seed=lambda s: jnp.stack([words_(jax.random.key(s, impl="threefry2x32"))] * 2),
        split=lambda w, shape: jnp.stack([words_(jax.random.split(one(k), shape)) for k in w], axis=len(shape)),
        random_bits=lambda w, width, shape: jax.random.bits(one(w[0]), shape, f"uint{width}"),
        fold_in=lambda w, data: jnp.stack([words_(jax.random.fold_in(one(k), data)) for k in w]),
        tag="twice",
    )
    key, single = jax.random.key(3, impl=impl), jax.random.key(3, impl="threefry2x32")
    assert str(key.dtype) == "key<twice>" and words(key) == [words(single)] * 2 and jax.random.key_impl(key) is impl
    np.testing.assert_array_equal(jax.random.normal(key, (3,)), jax.random.normal(single, (3,)))
    keys = jax.jit(lambda k: jax.random.split(k, 2))(key)
    assert words(jax.vmap(lambda k: jax.random.fold_in(k, 7))(keys))[1] == [words(jax.random.fold_in(jax.random.split(single)[1], 7))] * 2
    assert (jax.random.wrap_key_data(words_(keys), impl=impl) == keys).all()
    with pytest.raises(NotImplementedError, match="words"):
        define_prng_impl(key_shape=(3,), seed=id, split=id, random_bits=id, fold_in=id)
    with pytest.raises(TypeError, match="trailing shape"):
        jax.random.wrap_key_data(jnp.zeros(4, "uint32"), impl=impl)


def test_out_sharding() -> None:
    sharding = jax.sharding.NamedSharding(jax.make_mesh((1,), ("x",)), jax.sharding.PartitionSpec("x"))
    key = jax.random.key(0)
    for draw in (jax.random.normal, jax.random.uniform, jax.random.bits, lambda k, s, **o: jax.random.permutation(k, 4, **o)):
        assert draw(key, (4,), out_sharding=sharding).sharding == sharding
        assert jax.jit(lambda k, draw=draw: draw(k, (4,), out_sharding=sharding))(key).shape == (4,)


def test_errors_of_arguments() -> None:
    key = jax.random.key(0)
    for args, named, message in (
        ((), {}, "missing a required argument: 'b'"),
        ((1.0,), {"mode": "low"}, "unexpected keyword argument 'mode'"),
        ((1.0,), {"b": 2.0}, "multiple values for argument 'b'"),
        ((1.0, (), float, 3), {}, "too many positional arguments"),
    ):
        with pytest.raises(TypeError, match=message):
            jax.random.pareto(key, *args, **named)
