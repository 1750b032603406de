"""scipy.ndimage, scipy.interpolate, scipy.integrate, scipy.cluster.vq and image: against SciPy and the real JAX."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.cluster.vq
import scipy.interpolate
import scipy.ndimage
from peer import NO_JAX, Arr, Expr, Ref, differences, peer, run_here

import steno
from steno import image, numpy as jnp
from steno.scipy import cluster, integrate, interpolate, ndimage

rng = np.random.default_rng(0)
MODES = ("constant", "nearest", "wrap", "mirror", "reflect")
PLANE = rng.standard_normal((3, 4)).astype(np.float32)


def beyond(x: np.ndarray, mode: str, cval: float) -> np.ndarray:
    """x within three of its periods: what lies outside as NumPy's `pad` has it."""
    pad = {"nearest": "edge", "mirror": "reflect", "reflect": "symmetric"}.get(mode, mode)
    kwargs = {"constant_values": cval} if mode == "constant" else {}
    return np.pad(x, [(n, n) for n in x.shape], pad, **kwargs)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", [0, 1])
def test_map_coordinates(mode, order):
    at = [(rng.random(6) * 2.2 - 0.7) * n for n in PLANE.shape]
    got = ndimage.map_coordinates(PLANE, [c.astype(np.float32) for c in at], order, mode, cval=2.0)
    inner = [c + n for c, n in zip(at, PLANE.shape, strict=True)]
    want = scipy.ndimage.map_coordinates(beyond(PLANE, mode, 2.0), inner, order=order, mode="nearest")
    np.testing.assert_allclose(got, want, atol=2e-5)


def test_map_coordinates_of_integers_are_rounded():
    x, at = np.array([-3, -2, 1, 2]), [np.array([0.5, 1.5, 2.5, 0.25])]
    got = ndimage.map_coordinates(x, at, 1)
    assert got.dtype == jnp.int32
    np.testing.assert_array_equal(got, [-3, -1, 2, -3])
    np.testing.assert_array_equal(ndimage.map_coordinates(x, [np.array([3, 0])], 1), [2, -3])


def test_map_coordinates_has_derivatives():
    line = jnp.arange(8.0) ** 2
    slope = steno.grad(lambda c: ndimage.map_coordinates(line, [c[None]], 1)[0])(2.25)
    np.testing.assert_allclose(slope, 5.0, rtol=1e-6)
    shares = steno.grad(lambda x: ndimage.map_coordinates(x, [jnp.array([2.25])], 1)[0])(line)
    np.testing.assert_allclose(shares, [0, 0, 0.75, 0.25, 0, 0, 0, 0], atol=1e-6)


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (NotImplementedError, lambda: ndimage.map_coordinates(PLANE, [PLANE[0]] * 2, 2)),
        (NotImplementedError, lambda: ndimage.map_coordinates(PLANE, [PLANE[0]] * 2, 1, "grid-wrap")),
        (ValueError, lambda: ndimage.map_coordinates(PLANE, [PLANE[0]], 1)),
        (ValueError, lambda: interpolate.RegularGridInterpolator((np.arange(3.0),), np.ones(4))),
        (ValueError, lambda: interpolate.RegularGridInterpolator((np.array([0.0, 2.0, 1.0]),), np.ones(3))),
        (ValueError, lambda: interpolate.RegularGridInterpolator((np.arange(3.0),) * 2, np.ones(3))),
        (ValueError, lambda: interpolate.RegularGridInterpolator((np.arange(3.0),), np.ones(3), "cubic")),
        (NotImplementedError, lambda: interpolate.RegularGridInterpolator((np.arange(3.0),), np.ones(3), bounds_error=True)),
        (ValueError, lambda: cluster.vq.vq(np.ones((2, 2)), np.ones(2))),
        (TypeError, lambda: cluster.vq.vq(np.ones((2, 2)), np.ones((2, 3)))),
        (ValueError, lambda: image.resize(PLANE, (3,), "linear")),
        (ValueError, lambda: image.resize(PLANE, (3, 3), "sinc")),
        (TypeError, lambda: image.resize(PLANE, (3, 2.5), "linear")),
        (ValueError, lambda: image.resize(np.ones((0, 2)), (3, 3), "nearest")),
        (ValueError, lambda: image.scale_and_translate(PLANE, (3, 3), (1,), np.ones(1), np.ones(1), "nearest")),
        (ValueError, lambda: image.scale_and_translate(PLANE, (3, 3), (1,), np.ones(2), np.ones(1), "linear")),
    ],
)
def test_errors(error, call):
    with pytest.raises(error):
        call()


@pytest.mark.parametrize("method", ["linear", "nearest"])
@pytest.mark.parametrize("fill_value", [-1.0, None])
def test_interpolation_on_a_grid(method, fill_value):
    grid = (np.array([0.0, 1.0, 3.0]), np.array([5.0, 4.0, 2.0, 1.0]))  # the second one descends
    values = rng.standard_normal((3, 4, 2))
    points = np.concatenate([rng.random((6, 2)) * [4, 6] - 0.5, [[0, 1], [3, 5], [1, np.nan]]])
    got = interpolate.RegularGridInterpolator(grid, values, method, fill_value=fill_value)(points)
    want = scipy.interpolate.RegularGridInterpolator(grid, values, method, bounds_error=False, fill_value=fill_value)(points)
    np.testing.assert_allclose(got, want, atol=1e-5)


def test_interpolators_are_pytrees():
    @steno.jit
    def f(r, x):
        return r((x, 0.5))

    r = interpolate.RegularGridInterpolator((jnp.arange(3.0), jnp.arange(2.0)), jnp.arange(6.0).reshape(3, 2))
    np.testing.assert_allclose(f(r, jnp.array([0.5, 1.5])), [1.5, 3.5])
    np.testing.assert_allclose(steno.grad(lambda r: f(r, jnp.array([0.5])).sum())(r).values, [[0.25, 0.25], [0.25, 0.25], [0, 0]])


@pytest.mark.parametrize("shapes", [((5, 2), (3, 2)), ((5,), (3,))])
def test_nearest_codes(shapes):
    obs, book = (rng.standard_normal(s).astype(np.float32) for s in shapes)
    codes, distances = cluster.vq.vq(obs, book)
    want = scipy.cluster.vq.vq(obs, book)
    assert codes.dtype == jnp.int32
    np.testing.assert_array_equal(codes, want[0])
    np.testing.assert_allclose(distances, want[1], rtol=1e-5)


def test_trapezoid():
    np.testing.assert_allclose(integrate.trapezoid(jnp.arange(5.0) ** 2, dx=0.5), np.trapezoid(np.arange(5.0) ** 2, dx=0.5))


# images

METHODS = ("nearest", "linear", "lanczos3", "lanczos5", "cubic", "cubic-pytorch", "area")
IMAGES = {"image": Ref("jax.image"), "x": Arr(PLANE), "v": Arr(np.arange(9, dtype=np.float32) ** 2)}


@pytest.mark.skipif(peer() is None, reason=NO_JAX)
def test_images_are_jax_s():
    sources = [f"image.resize(v, (4,), {m!r})" for m in METHODS]
    sources += [f"image.resize(v, (4,), {m!r}, antialias=False)" for m in ("cubic", "cubic-pytorch", "area")]
    sources += [f"image.resize(v, (13,), {m!r}, antialias=False)" for m in ("nearest", "lanczos3", "cubic-pytorch", "area")]
    sources += [f"image.scale_and_translate(v, (12,), (0,), jnp.array([1.3]), jnp.array([-1.4]), {m!r})" for m in ("lanczos5", "area")]
    sources += [
        "image.resize(x, (5, 2), 'bilinear')",
        "image.resize(x.astype(int), (5, 3), 'cubic')",
        "image.resize(x + 1j, (3, 7), 'cubic')",
        "image.resize(x.astype('float16'), (6, 4), image.ResizeMethod.LINEAR)",
        "image.resize(x > 0, (6, 2), 'nearest')",
        "image.resize(x, (3, 0), 'linear')",
        "image.scale_and_translate(x, (3, 6), (-1,), jnp.array([2.0]), jnp.array([0.5]), 'triangle', antialias=False)",
    ]
    calls = [Expr(s, **IMAGES) for s in sources]
    found = []
    for call, got, want in zip(calls, run_here(calls), peer().batch(calls), strict=True):
        found += [f"{call.source}\n  {d}" for d in differences(got, want, rtol=2e-5, atol=2e-4)]
    assert not found, "\n".join(found)


def test_resizing_is_linear_and_has_derivatives_by_its_scale():
    x = jnp.asarray(PLANE)
    w = steno.jacobian(lambda v: image.resize(v, (5,), "cubic"))(x[0])
    np.testing.assert_allclose(w.sum(1), np.ones(5), rtol=1e-5)  # an even image stays even

    def f(s, t):
        return image.scale_and_translate(x[0], (6,), (0,), s[None], t[None], "linear").sum()

    at, h = (jnp.float32(1.37), jnp.float32(0.21)), 1e-2
    for k in (0, 1):
        moved = [[a + d * (j == k) for j, a in enumerate(at)] for d in (h, -h)]
        np.testing.assert_allclose(steno.grad(f, k)(*at), (f(*moved[0]) - f(*moved[1])) / (2 * h), rtol=0.05, atol=0.02)
