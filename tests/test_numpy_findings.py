"""What JAX's own tests of `jax.numpy` found: each a kind of behaviour, with numbers from the real JAX or from NumPy."""

from __future__ import annotations

import io

import numpy as np
import pytest

import steno as jax
import steno.numpy as jnp


def test_integer_powers_beyond_six_bits() -> None:
    x, y = jnp.arange(-1, 3), jnp.full(4, 64)
    np.testing.assert_array_equal(jnp.power(x, y), [1, 0, 1, 1])
    np.testing.assert_array_equal(jnp.power(0, jnp.array([0, 1, 64, 128])), [1, 0, 0, 0])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64"])
@pytest.mark.parametrize("decimals", [50, 100, 1000])
def test_round_to_digits_that_are_not_there(dtype: str, decimals: int) -> None:
    x = jnp.array([1.8, -2.5, 1e4], dtype)
    assert (jnp.round(x, decimals) == x).all()


def test_full_wraps_around() -> None:
    np.testing.assert_array_equal(jnp.full(1, 2**32 - 1, "uint32"), np.uint32([2**32 - 1]))
    np.testing.assert_array_equal(jnp.full(1, -1, "uint8"), np.uint8([255]))
    np.testing.assert_array_equal(jnp.full_like(np.zeros(1, np.uint32), 2**32 - 1), np.uint32([2**32 - 1]))
    assert float(jnp.full((), 2**40, "float32")) == 2.0**40


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool", "complex64"])
def test_one_hot_along_an_axis(dtype: str) -> None:
    x = (np.arange(12).reshape(3, 4) - 5).astype(dtype)
    i = np.array([[-1, 0, 1, 2], [0, 0, -3, 1]])
    for f in (jnp.take_along_axis, jax.jit(jnp.take_along_axis, static_argnames=("axis", "mode"))):
        np.testing.assert_array_equal(f(x, i, axis=0, mode="one_hot"), np.take_along_axis(x, i, 0))
    assert not np.asarray(jnp.take_along_axis(x, np.full((1, 4), 7), axis=0, mode="one_hot")).any()


def test_promised_positions_are_taken_as_they_are() -> None:
    def primitives(wrap: bool) -> list[str]:
        f = jax.make_jaxpr(lambda x, i: jnp.take_along_axis(x, i, axis=0, mode="promise_in_bounds", wrap_negative_indices=wrap))
        return [eqn.primitive.name for eqn in f(np.ones(3, np.float32), np.ones(2, np.int8)).eqns]

    assert "select_n" in primitives(True)
    assert set(primitives(False)) <= {"reshape", "gather"}


def test_derivative_of_frexp() -> None:
    for x in (5.0, -0.3, 1e30, 1e-38):
        m, e = jnp.frexp(x)
        _, tangent = jax.jvp(lambda x: jnp.frexp(x)[0], (x,), (2.0,))
        np.testing.assert_allclose(tangent, 2.0 * 2.0 ** -float(e), rtol=1e-6)


def test_unravel_index_of_traced_sizes() -> None:
    i = jnp.array([3, -1, 100, -100])
    out = jax.jit(jnp.unravel_index)(i, (2, 3))
    np.testing.assert_array_equal(out, [[1, 1, 1, 0], [0, 2, 2, 0]])
    np.testing.assert_array_equal(out, jnp.unravel_index(i, (2, 3)))


def test_batches_of_one_are_no_batches() -> None:
    a, b = np.ones((1, 5, 4), np.float32), np.ones((1, 4, 3), np.float32)
    (dot,) = (eqn for eqn in jax.make_jaxpr(jnp.matmul)(a, b).eqns if eqn.primitive.name == "dot_general")
    assert dot.params["dimension_numbers"] == (((1,), (0,)), ((), ()))
    for left, right in [
        ((1, 2, 3), (1, 3, 4)),
        ((1, 5, 2, 3), (1, 1, 3, 4)),
        ((1, 1, 2, 3), (6, 1, 3, 4)),
        ((1, 1, 3), (3,)),
        ((3,), (1, 1, 3, 2)),
    ]:
        x, y = np.random.default_rng(0).standard_normal(left), np.random.default_rng(1).standard_normal(right)
        np.testing.assert_allclose(jnp.matmul(x, y), np.matmul(x, y), rtol=1e-5, atol=1e-6)


def test_scalars_have_no_axes() -> None:
    for f in (jnp.nonzero, jnp.where, lambda x: x.nonzero()):
        with pytest.raises(ValueError, match="nonzero"):
            f(jnp.array(3))
    assert jnp.argwhere(jnp.array(3)).shape == (1, 0) and jnp.argwhere(jnp.array(0)).shape == (0, 0)


def test_repeat_of_nothing() -> None:
    for shape, counts, axis in [((0,), [], None), ((0, 2), [], 0), ((3,), [0, 0, 0], None), ((3, 0), [1, 2, 0], 0)]:
        x, n = np.zeros(shape), np.array(counts, int)
        assert jnp.repeat(x, n, axis=axis).shape == np.repeat(x, n, axis=axis).shape


def test_complex_numbers_with_nan_are_one() -> None:
    x = np.array([complex(i, j) for i in (-0.0, 0.0, 1.0, np.nan) for j in (0.0, np.nan)], np.complex64)
    values, first, inverse, counts = jnp.unique(x, True, True, True)
    assert values.shape == (3,) and np.isnan(values[2]) and counts.tolist() == [2, 1, 5]
    assert jnp.unique(x, equal_nan=False).shape == (7,)


def test_deprecated_arguments() -> None:
    for f in (jnp.shape, jnp.ndim, jnp.size):
        with pytest.warns(DeprecationWarning, match=f.__name__):
            f([1, 2, 3])
    with pytest.warns(DeprecationWarning, match="imaginary"):
        jnp.array([1 + 2j]).astype("float32")
    with pytest.warns(np.exceptions.ComplexWarning):
        jnp.array(np.array([1j]), dtype="float32")
    with pytest.warns(DeprecationWarning, match="one_hot"):
        jax.nn.one_hot(jnp.array([1.5]), 3)


def test_copies_and_files() -> None:
    x = jnp.ones(3)
    y, t = jax.jvp(lambda x: jnp.array(x, copy=True), (x,), (x,))
    assert y is not x and (y == x).all()
    assert jax.vmap(lambda x: jnp.array(x, copy=True))(x) is not x
    with io.BytesIO() as f:
        np.save(f, np.array([1.5, "a"], object), allow_pickle=True)
        f.seek(0)
        assert jnp.load(f, allow_pickle=True).tolist() == [1.5, "a"]


def test_the_namespace_about_itself() -> None:
    info = jnp.__array_namespace_info__()
    assert set(info.capabilities()) == {"boolean indexing", "data-dependent shapes", "max dimensions"}
    assert info.default_dtypes()["real floating"] == np.float32 and info.dtypes(kind="bool") == {"bool": np.dtype(bool)}
    with jax.enable_x64(True):
        assert info.default_dtypes()["integral"] == np.int64 and "complex128" in info.dtypes(kind=("complex floating", "bool"))
    with pytest.raises(ValueError, match="kind"):
        info.dtypes(kind="foo")
    assert jnp.ones(2).__array_namespace__() is jnp and info.devices()[1:] == tuple(jax.devices())


def test_dtypes_without_arrays() -> None:
    for d in (jnp.int1, jnp.uint1, jnp.float6_e2m3fn, jnp.float6_e3m2fn):
        assert np.dtype(d) == d
        with pytest.raises(TypeError, match="only supports"):
            jnp.zeros(3, d)


INDICES = ["x[ds(i, 2)]", "x[:, ds(i, 2)]", "x[..., ds(i, 2)]", "x[None, 1, ds(i, 2)]", "x[ds(i, 2), a]", "x[i, ds(i, 2)]"]


@pytest.mark.parametrize("index", INDICES)
def test_slices_of_traced_starts(index: str) -> None:
    x, a = jnp.arange(12).reshape(3, 4), np.array([0, 1])
    part = index[2:-1]
    for i in (0, 1, 2, -2):  # read: moved into the array; negative starts count from the end
        start = min(i, 1 if part.startswith("ds") else 2) if i >= 0 else i + (3 if part.startswith("ds") else 4)
        piece = slice(start, start + 2)
        np.testing.assert_array_equal(
            jax.jit(lambda i: eval(index, {"x": x, "ds": jax.ds, "i": i, "a": a}))(i),
            eval(index, {"x": np.asarray(x), "ds": lambda i, n, piece=piece: piece, "i": i, "a": a}),
        )
    for i in (0, 1, 2, -2):  # written: left out where it does not lie within the array
        expected = np.array(x)
        size = 3 if part.startswith("ds") else 4
        if 0 <= i <= size - 2:
            expected[eval(f"np.index_exp[{part}]", {"np": np, "ds": lambda i, n: slice(i, i + n), "i": i, "a": a})] += 5
        got = jax.jit(lambda i: eval(f"x.at[{part}].add(5)", {"x": x, "ds": jax.ds, "i": i, "a": a}))(i)
        np.testing.assert_array_equal(got, expected)


def test_slices_by_start_and_size() -> None:
    x = jnp.arange(10)
    assert jax.ds(None) == slice(None) and jax.ds(None, stride=2) == slice(None, None, 2)
    assert repr(jax.ds(3)) == "Slice(start=0, size=3, stride=1)" and jax.ds(1, 3) == jax.ds(np.int8(1), 3)
    assert x[jax.ds(1, 4, 2)].tolist() == [1, 3] and x[jax.ds(8, 5)].tolist() == [8, 9]
    assert jax.tree.leaves(jax.ds(1, 3)) == [] and len(jax.tree.leaves(jax.ds(jnp.array(1), 3))) == 1
    with pytest.raises(ValueError, match="stride"):
        jax.ds(0, 2, -1)


def test_sets_of_a_size() -> None:
    a, b = jnp.array([1, 2, 9]), jnp.array([9, 8])
    np.testing.assert_array_equal(jnp.intersect1d(a, b, size=3), [9, 9, 9])
    np.testing.assert_array_equal(jnp.setxor1d(a, b, size=5), [1, 2, 8, 1, 1])
    np.testing.assert_array_equal(jnp.intersect1d(a, jnp.array([7]), size=2), [0, 0])
    for size in (None, 3):  # the dtype of the first
        assert jnp.setdiff1d(a.astype("int16"), b.astype("float16"), size=size).dtype == "int16"


def test_dtypes_of_reductions() -> None:
    bools, x = jnp.array([True, True]), jnp.array([1, 2, 3j])
    for f in (jnp.sum, jnp.prod):
        assert f(bools, promote_integers=False).dtype == "int32"
    for f in (jnp.var, jnp.nanvar, jnp.std, jnp.nanstd):
        assert f(x).dtype == "float32" and f(x, dtype="complex64").dtype == "complex64"
    with jax.numpy_rank_promotion("raise"):
        for f in (jnp.nanmean, jnp.nanvar):
            f(jnp.ones((2, 3)), where=jnp.array([True, False, True]))
    assert jnp.cov(jnp.ones((1, 3)), rowvar=False, ddof=0).shape == (3, 3)


def test_quotients_and_remainders_of_special_values() -> None:
    """The array API standard's cases; remainders also as NumPy has them."""
    inf = np.inf
    cases = [
        (0.0, -2.0, -0.0), (-0.0, 2.0, -0.0), (-0.0, -2.0, 0.0), (-1.0, -3.0, 0.0), (1.0, inf, 0.0), (1.0, -inf, -0.0), (-1.0, inf, -0.0),
        (inf, 2.0, inf), (inf, -2.0, -inf), (-7.0, 2.0, -4.0), (1.0, 0.0, inf), (inf, inf, np.nan),
    ]  # fmt: skip
    x, y, quotients = np.array(cases, np.float32).T
    for f in (jnp.floor_divide, jax.jit(jnp.floor_divide)):
        q = np.asarray(f(x, y))
        assert [str(v) for v in q] == [str(v) for v in quotients]  # the signs of zeros
    with np.errstate(all="ignore"):
        for r, expected in ((jnp.remainder(x, y), np.remainder(x, y)), (jnp.divmod(x, y)[1], np.divmod(x, y)[1])):
            assert [str(v) for v in np.asarray(r)] == [str(v) for v in expected]
    for at, by in ((0.0, 2.0), (0.0, -2.0), (-2.0, 2.0), (4.0, -2.0)):
        assert jax.grad(jnp.floor_divide)(at, by) == 0.0
        assert jax.grad(lambda v, by=by: jnp.remainder(v, by))(at) == 1.0


def test_integer_exponents_of_numpy() -> None:
    x = jnp.array([3], "int8")
    for y in (np.int32(2), np.array(2)):
        assert (x**y).dtype == "int8" and (x**y).tolist() == [9]
        assert "integer_pow" in str(jax.make_jaxpr(lambda v, y=y: v**y)(1.5))
    with pytest.raises(TypeError, match="negative"):
        x ** np.int32(-1)


def test_small_faults() -> None:
    assert jnp.spacing(jnp.array([-1.0], "float16")).item() == np.spacing(np.float16(-1))
    with jax.numpy_dtype_promotion("strict"):
        assert jnp.sort_complex(jnp.array([3, 1])).tolist() == [1, 3]
    assert [x.size for x in jnp.split(jnp.arange(4), 2.0)] == [2, 2]
    file = io.BytesIO()
    jnp.save(file, jnp.ones(3, "bfloat16"))
    file.seek(0)
    assert jnp.load(file).dtype == "bfloat16"
    with pytest.raises(NotImplementedError, match="simultaneous"):
        jnp.einsum("ij,ik,il->jkl", *(jnp.ones((2, n)) for n in (2, 3, 4)), optimize=[(0, 1, 2)])
    with pytest.raises(jax.errors.ConcretizationTypeError, match="size"):
        jax.jit(jnp.compress)(jnp.array([True]), jnp.ones(1))
    assert jnp.from_dlpack(np.arange(3, dtype="int32")).tolist() == [0, 1, 2]


def test_numpy_takes_arrays() -> None:
    """Host arrays come of NumPy's functions, the library's of operators in either order; NumPy's scalars and arrays do not take over."""
    x, n = jnp.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0])
    assert not np.asarray(x).flags.writeable and np.array(x).flags.writeable and x.__array_priority__ == 100
    for y in (np.sin(x), np.add(x, n), np.add(n, x), np.concatenate([x, n]), np.where(x > 1, x, 0), np.linalg.norm(x, keepdims=True)):
        assert type(y) is np.ndarray
    for a, b in ((n, x), (x, n), (np.float64(2), x), (x, np.float32(2)), (2, x), (np.int8(2), x)):
        for y in (a + b, a - b, a * b, a / b, a // b, a % b, a**b, a < b, a == b, divmod(a, b)[1]):
            assert isinstance(y, jax.Array) and y.dtype in (np.float32, np.bool_)
    np.testing.assert_allclose(x, n)
    with pytest.raises(AssertionError, match="Not equal"):
        np.testing.assert_allclose(x, x + 1)
    with pytest.raises(ValueError, match="masked"):
        jnp.asarray(np.ma.masked_array(n, [0, 1, 0]))
    assert np.arange(5)[jnp.array([0, 1])].tolist() == [0, 1] and n[x > 1].tolist() == [2, 3] and [1, 2][jnp.int32(1)] == 2
    if np.lib.NumpyVersion(np.__version__) >= "2.4.0":
        with pytest.warns(DeprecationWarning, match="x.dtype"):
            np.dtype(x)


def test_weak_types_of_composed_functions() -> None:
    weak, whole = (jax.lax.broadcast(jnp.asarray(v), (3,)) for v in (1.5, 2))
    assert not jnp.copysign(weak, jnp.ones(3)).weak_type and jnp.copysign(weak, weak).weak_type
    assert not jnp.power(whole, jnp.arange(3)).weak_type and not jnp.logical_and(weak, weak).weak_type
    assert not jnp.vander(whole).weak_type


def test_dtypes_that_no_array_has() -> None:
    assert jnp.issubdtype(jnp.int1, np.signedinteger) and jnp.issubdtype(jnp.float6_e2m3fn, np.floating)
    assert jnp.promote_types(jnp.int1, int) == jnp.int1 and jnp.promote_types(jnp.float6_e3m2fn, float) == jnp.float6_e3m2fn
    assert jnp.finfo(jnp.float6_e2m3fn).max == 7.5 and jnp.isdtype(jnp.uint1, "unsigned integer")
    for a, b, bits in (
        (jnp.float6_e2m3fn, "float32", "6-bit floats"),
        ("int4", "int8", "4-bit integers"),
        ("float8_e5m2", "float32", "8-bit"),
    ):
        with pytest.raises(jax.dtypes.TypePromotionError, match=bits):
            jnp.promote_types(a, b)


def test_numbers_out_of_range() -> None:
    for x, dtype in ((300.0, "int8"), (np.inf, "int32"), (-1.5, "uint8"), (200, "int8"), (3e9, "int32"), (9.0, "int4")):
        for given in (x, [x]):
            with pytest.raises(OverflowError):
                jnp.array(given, dtype)
    with pytest.raises(ValueError, match="NaN"):
        jnp.array(np.nan, "int32")
    for x, dtype, expected in (
        (300.0, "int8", 127),
        (-1.0, "uint8", 0),
        (np.nan, "int32", 0),
        (-np.inf, "int4", -8),
        (1e20, "uint32", 2**32 - 1),
    ):
        assert jnp.full(2, x, dtype).tolist() == [expected] * 2  # as conversions have it
        assert jax.lax.convert_element_type(x, dtype).item() == expected


def test_made_on_a_device() -> None:
    device, x = jax.devices()[0], jnp.ones(2)
    made = [f(2, device=device) for f in (jnp.zeros, jnp.ones, jnp.empty, jnp.eye, jnp.arange, jnp.array, jnp.asarray, jnp.fft.fftfreq)]
    made += [f(x, device=device) for f in (jnp.zeros_like, jnp.ones_like, jnp.empty_like, jnp.array, jnp.asarray)]
    made += [jnp.full(2, 3, device=device), jnp.full_like(x, 3, device=device), jnp.linspace(0, 1, device=device)]
    made += [x.astype(int, device=device), jnp.astype(x, int, device=device), jnp.from_dlpack(np.ones(2), device=device)]
    assert all(y.committed and y.device is device for y in made) and not jnp.zeros(2).committed
    with pytest.raises(ValueError, match="Device"):
        jnp.zeros(2, device="somewhere")


def test_shapes_and_dtypes_at_the_edge() -> None:
    assert jnp.broadcast_shapes(2, (3, 1)) == (3, 2)
    for bad, error in (((2,), 3), ValueError), (((1, -1),), TypeError):
        with pytest.raises(error, match="broadcast"):
            jnp.broadcast_shapes(*bad)
    assert jnp.linspace(jnp.ones((2, 2)), 2, 1, retstep=True)[1].shape == ()
    assert jnp.unwrap(jnp.ones((0,), "int16")).dtype == "float32"
    assert jax.jit(lambda x: jnp.iscomplexobj([x]))(1j) and not jnp.iscomplexobj([1, [2.0]])
    x = jnp.geomspace(jnp.array(-6.3, "bfloat16"), jnp.array(-30.0, "bfloat16"), 7)
    np.testing.assert_allclose(x.astype("float32"), np.geomspace(-6.3125, -30, 7), rtol=2**-8)
    with pytest.raises(ValueError, match="invalid entry"):
        jnp.ravel_multi_index((jnp.array([3]), jnp.array([-1])), (3, 1))


def test_dtypes_with_x64() -> None:
    """Integers narrower than 64 bits have float32 averages and quantiles; the type inside a variance is no promotion of the caller's."""
    with jax.enable_x64(True):
        for dtype, expected in (("int8", "float32"), ("int32", "float32"), ("int64", "float64"), ("float32", "float32")):
            x = jnp.array([1, 2, 4], dtype)
            for f in (jnp.median, jnp.mean, jnp.std, jnp.nanmedian):
                assert f(x).dtype == expected
            assert jnp.quantile(x, 0.5).dtype == expected
        assert jnp.sum(jnp.array([True]), promote_integers=False).dtype == "int32" and jnp.sum(jnp.array([True])).dtype == "int64"
        with jax.numpy_dtype_promotion("strict"):
            assert jnp.var(jnp.ones(3, "float32"), dtype="complex128").dtype == "complex128"


def test_quantiles_of_no_rows() -> None:
    x = jnp.zeros((0, 3))
    for f in (jnp.median, jnp.nanmedian, lambda x, axis: jnp.quantile(x, 0.3, axis=axis), lambda x, axis: jnp.percentile(x, 30, axis=axis)):
        assert f(x, axis=-1).shape == (0,)
    assert jnp.quantile(x, jnp.array([0.3, 0.5]), axis=-1).shape == (2, 0)


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "wrap"])
def test_pads_that_copy_runs_or_look_up_positions(mode: str) -> None:
    """Short and long axes, wider than the axis and not, behind and in front of others."""
    for shape, widths in (
        ((40,), (30, 100)),
        ((5, 90), ((7, 1), (0, 60))),
        ((30, 3), ((31, 2), (0, 0))),
        ((3, 2, 40), (1, 5)),
        ((1, 1), (3, 2)),
    ):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        expected = np.pad(x, widths, mode)  # type: ignore[call-overload]
        for pad in (jnp.pad, jax.jit(jnp.pad, static_argnums=(1, 2))):
            np.testing.assert_array_equal(pad(x, widths, mode), expected)
