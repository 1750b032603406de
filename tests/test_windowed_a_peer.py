"""Sliding windows, convolutions and Fourier transforms against the real JAX: values, dtypes, weak types, errors and jaxprs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from peer import NO_JAX, Arr, Expr, Failure, compare_all, peer, run_here

import steno
import steno.numpy as snp
from steno import lax

pytestmark = pytest.mark.skipif(peer() is None, reason=NO_JAX)

rng = np.random.default_rng(11)


def normal(*shape: int, dtype: Any = np.float32) -> Arr:
    return Arr(rng.standard_normal(shape).astype(dtype))


VARIABLES = {
    "x": normal(2, 6, 7, 3), "w": normal(3, 2, 3, 4), "d": normal(3, 3, 1, 6), "g": normal(3, 2, 1, 6), "c": normal(2, 3, 9),
    "k": normal(4, 3, 2), "m": normal(4, 6), "v": normal(9), "u": normal(4), "h": normal(4, 6, dtype=np.float16),
    "z": Arr((rng.standard_normal(6) + 1j * rng.standard_normal(6)).astype(np.complex64)), "cube": normal(2, 3, 4, 5),
    "i": Arr(np.arange(12, dtype=np.int32).reshape(3, 4)), "b": Arr(np.array([[True, False, True], [False, False, True]])),
}  # fmt: skip

NHWC = "dimension_numbers=('NHWC', 'HWIO', 'NHWC')"

WINDOWS = """
lax.reduce_window(m, 0., lax.add, (2, 3), (1, 2), 'VALID')
lax.reduce_window(m, 0., lax.add, (2, 3), (2, 2), 'SAME')
lax.reduce_window(m, 0., lax.add, (2, 3), (2, 2), 'SAME_LOWER')
lax.reduce_window(m, 0., lax.add, (2, 3))
lax.reduce_window(m, 0., lax.add, (2, 2), (1, 1), ((1, 0), (2, 1)), (2, 1), (1, 2))
lax.reduce_window(m, 0., lax.add, (2, 2), (2, 1), 'SAME', (2, 3), (1, 2))
lax.reduce_window(m, 0., lax.add, (3, 2), (1, 3), ((-1, 0), (0, 2)))
lax.reduce_window(m, 0., lax.add, (5, 2), (1, 1), 'VALID')
lax.reduce_window(m, -np.inf, lax.max, (2, 2), (2, 2), 'SAME')
lax.reduce_window(m, -np.inf, jnp.maximum, (2, 2), (1, 1), ((1, 1), (0, 0)), (2, 1))
lax.reduce_window(m, np.inf, lax.min, (3, 3), (2, 1), 'SAME')
lax.reduce_window(m, 1., lax.mul, (2, 2), (1, 1), 'SAME')
lax.reduce_window(m, 2., lax.add, (2, 2), (1, 1), 'SAME')
lax.reduce_window(m, 0.5, lambda p, x: p * 0.5 + x, (2, 3), (1, 2), 'SAME', (1, 2), (2, 1))
lax.reduce_window(i, 0, lax.add, (2, 2), (1, 1), 'SAME')
lax.reduce_window(i, -2**31, lax.max, (2, 2), (1, 1), 'SAME')
lax.reduce_window(b, False, lax.bitwise_or, (1, 2), (1, 1), 'SAME')
lax.reduce_window(b, True, lax.bitwise_and, (2, 2), (1, 1), 'SAME')
lax.reduce_window(b, False, lax.max, (1, 2), (1, 1), 'SAME')
lax.reduce_window(h, np.float16(-np.inf), lax.max, (2, 3), (1, 1), 'SAME')
lax.reduce_window((m, m), (0., -np.inf), lambda p, x: (p[0] + x[0], lax.max(p[1], x[1])), (2, 2), (1, 1), 'SAME')
lax.reduce_window({'a': v}, {'a': 0.}, lambda p, x: {'a': p['a'] + x['a'] ** 2}, (3,), (2,), 'SAME')
lax.reduce_window(v[0], 0., lax.add, ())
lax.reduce_window_shape_tuple((5, 6), (2, 3), (2, 2), ((1, 1), (0, 0)), (2, 1), (1, 2))
lax.padtype_to_pads((5, 6), (2, 3), (2, 2), 'SAME')
lax.padtype_to_pads((5, 6), (2, 3), (2, 2), 'SAME_LOWER')
lax.padtype_to_pads((5, 6), (2, 3), (2, 2), 'VALID')
jax.grad(lambda m: (lax.reduce_window(m, 0., lax.add, (2, 3), (2, 2), 'SAME', (1, 2), (2, 1)) ** 2).sum())(m)
jax.grad(lambda m: (lax.reduce_window(m, -np.inf, lax.max, (2, 3), (2, 2), 'SAME') ** 2).sum())(m)
jax.grad(lambda m: (lax.reduce_window(m, np.inf, lax.min, (2, 3), (1, 1), 'SAME') ** 2).sum())(m)
jax.grad(lambda m: lax.reduce_window(m, -np.inf, lax.max, (2, 2), base_dilation=(1, 2)).sum())(m)
jax.jvp(lambda m: lax.reduce_window(m, -np.inf, lax.max, (2, 3), (2, 2), 'SAME'), (m,), (m * 2,))
jax.jvp(lambda m: lax.reduce_window(m, 1., lax.mul, (2, 2)), (m,), (m * 2,))
jax.hessian(lambda m: (lax.reduce_window(m, -np.inf, lax.max, (2, 3), (2, 2), 'SAME') ** 3).sum())(m)
jax.vmap(lambda v: lax.reduce_window(v, 0., lax.add, (3,), (2,), 'SAME'), 1, 1)(m)
jax.vmap(lambda v: lax.reduce_window(v, -np.inf, lax.max, (3,), (2,), 'SAME'))(m)
jax.vmap(jax.grad(lambda v: (lax.reduce_window(v, -np.inf, lax.max, (3,), (2,), 'SAME') ** 2).sum()))(m)
"""

WINDOW_ERRORS = """
lax.reduce_window(m, 0., lax.add, (2,), (1, 1), 'VALID')
lax.reduce_window(m, 0., lax.add, (2, 2), (1,), 'VALID')
lax.reduce_window(m, 0., lax.add, (2, 2), (0, 1), 'VALID')
lax.reduce_window(m, 0., lax.add, (0, 2), (1, 1), 'VALID')
lax.reduce_window(m, 0., lax.add, (2, 2), (1, 1), 'FOO')
lax.reduce_window(m, 0., lax.add, (2, 2), (1, 1), ((0, 0),))
lax.reduce_window(m, 0., lax.add, (2, 2), (1, 1), 'VALID', (0, 1))
lax.reduce_window(m, jnp.zeros(2), lax.add, (2, 2), (1, 1), 'VALID')
lax.reduce_window((m, m), (0.,), lambda a, b: a, (2, 2), (1, 1), 'VALID')
lax.reduce_window(m, 0., lambda a, b: [a], (2, 2), (1, 1), 'VALID')
lax.padtype_to_pads((5, 6), (2, 3), (2, 2), 'bad')
"""

CONVOLUTIONS = """
lax.conv_general_dilated(x, w, (1, 1), 'SAME', NHWC)
lax.conv_general_dilated(x, w, (2, 1), 'VALID', NHWC)
lax.conv_general_dilated(x, w, (1, 1), 'SAME_LOWER', NHWC)
lax.conv_general_dilated(x, w, (2, 3), ((1, 2), (-1, 3)), (2, 1), (1, 2), NHWC)
lax.conv_general_dilated(x, d, (1, 1), 'SAME', NHWC, feature_group_count=3)
lax.conv_general_dilated(x, g, (1, 2), 'SAME', NHWC, feature_group_count=3)
lax.conv_general_dilated(x, jnp.concatenate([w, w], 3), (1, 2), 'SAME', NHWC, batch_group_count=2)
lax.conv_general_dilated(c, k, (1,), 'SAME')
lax.conv_general_dilated(c, k, (2,), ((1, 1),), preferred_element_type=np.float32, precision='highest')
lax.conv_general_dilated(c[..., 0], k[..., 0], (), ())
lax.conv_general_dilated(cube[None, :, :, :, :2], jnp.ones((4, 2, 2, 2, 1)), (1, 1, 2), 'SAME')
lax.conv_general_dilated(i[None, None], i[None, None, :2, :3], (1, 1), 'SAME')
(lambda j: lax.conv_general_dilated(j, j[:, :, :2, :3], (1, 1), 'SAME', preferred_element_type=np.int32))(i[None, None].astype(np.int8))
lax.conv_general_dilated(h[None], h[:, :, None], (1,), 'SAME', dimension_numbers=('NCW', 'IOW', 'NCW'))
lax.conv_general_dilated(z[None, None], z[None, None, :3], (1,), 'SAME')
lax.conv(c, k, (1,), 'SAME')
lax.conv_with_general_padding(c, k, (1,), ((2, 0),), (2,), (3,))
lax.conv_transpose(x, w, (2, 3), 'SAME')
lax.conv_transpose(x, w, (2, 3), 'VALID', rhs_dilation=(2, 1))
lax.conv_transpose(x, jnp.swapaxes(w, 2, 3), (2, 2), 'SAME', transpose_kernel=True)
lax.conv_transpose(x, w, (2, 2), ((1, 2), (0, 1)), use_consistent_padding=True)
lax.conv_transpose(x, w, (2, 2), ((1, 2), (0, 1)))
lax.conv_general_dilated_patches(x, (2, 3), (1, 2), 'VALID', NHWC)
lax.conv_general_dilated_patches(c, (2,), (1,), 'SAME', rhs_dilation=(2,))
lax.conv_general_dilated_local(c, jnp.ones((4, 6, 8)), (1,), 'VALID', (2,))
[int(n) for n in lax.conv_general_shape_tuple((2, 8, 9, 3), (3, 3, 3, 4), (1, 2), 'SAME', ('NHWC', 'HWIO', 'NHWC'))]
[int(n) for n in lax.conv_transpose_shape_tuple((2, 8, 9, 3), (3, 3, 3, 4), (1, 2), 'SAME', ('NHWC', 'HWIO', 'NHWC'))]
[int(n) for n in lax.conv_shape_tuple((2, 3, 8, 9), (4, 3, 3, 3), (1, 2), ((0, 0), (1, 1)))]
tuple(lax.conv_dimension_numbers((1, 2, 3, 4), (1, 2, 3, 4), ('NHWC', 'HWIO', 'NHWC')))
lax.conv_general_permutations(('NHWC', 'HWIO', 'NHWC'))
jax.grad(lambda x, w: (lax.conv_general_dilated(x, w, (2, 1), 'SAME', NHWC) ** 2).sum(), (0, 1))(x, w)
jax.grad(lambda x, w: (lax.conv_general_dilated(x, w, (2, 3), ((1, 2), (-1, 3)), (2, 1), (1, 2), NHWC) ** 2).sum(), (0, 1))(x, w)
jax.grad(lambda x, w: (lax.conv_general_dilated(x, w, (1, 2), 'SAME', NHWC, feature_group_count=3) ** 2).sum(), (0, 1))(x, g)
jax.grad(lambda x, w: (lax.conv_general_dilated(x, w, (1, 2), 'SAME', NHWC, batch_group_count=2) ** 2).sum(), (0, 1))(x, w)
jax.vmap(lambda a, b: lax.conv(a, b, (1,), 'SAME'))(jnp.stack([c, c + 1]), jnp.stack([k, k * 2]))
jax.vmap(lambda a: lax.conv(a, k, (1,), 'SAME'), 3)(jnp.stack([c, c + 1], 3))
jax.vmap(lambda b: lax.conv(c, b, (1,), 'SAME'), 1, 2)(jnp.stack([k, k * 2], 1))
jax.vmap(lambda b: lax.conv_general_dilated(x, b, (1, 1), 'SAME', NHWC, feature_group_count=3))(jnp.stack([g, g * 2]))
jax.vmap(lambda a: lax.conv_general_dilated(a, w, (1, 1), 'SAME', NHWC, batch_group_count=2), 1)(jnp.stack([x, x * 2], 1))
jnp.convolve(v, u)
jnp.convolve(u, v, 'same')
jnp.convolve(v, u, 'valid')
jnp.correlate(v, u, 'full')
jnp.correlate(u, v, 'same')
jnp.correlate(z, z[:3] * 1j, 'full')
jnp.convolve(i[0], i[1])
jax.scipy.signal.convolve(m, m[:2, :3])
jax.scipy.signal.convolve(m[:2, :3], m, 'same')
jax.scipy.signal.convolve(m, m[:2, :3], 'valid')
jax.scipy.signal.convolve(m, m[:2, :3], method='fft')
jax.scipy.signal.correlate(m, m[:2, :3], 'same')
jax.scipy.signal.correlate(z, z[:3] * 1j)
jax.scipy.signal.convolve2d(m, m[:2, :3], 'same')
jax.scipy.signal.correlate2d(m, m[:2, :3], 'same')
jax.scipy.signal.correlate2d(m[:2, :3], m, 'full')
jax.scipy.signal.fftconvolve(m, m[:2, :3], 'same')
jax.scipy.signal.fftconvolve(m, m[:, :3], axes=1)
jax.scipy.signal.detrend(m)
jax.scipy.signal.detrend(v, bp=4)
jax.scipy.signal.detrend(m, axis=0, type='constant')
jax.scipy.signal.stft(v, 2., 'hamming', 4)
jax.scipy.signal.stft(m, nperseg=4, noverlap=1, nfft=6, detrend='linear', boundary='even', return_onesided=False)
jax.scipy.signal.istft(jax.scipy.signal.stft(v, nperseg=4)[2], nperseg=4)
jax.scipy.signal.istft(jax.scipy.signal.stft(m, nperseg=4)[2])
jax.scipy.signal.welch(v, 2., nperseg=4, scaling='spectrum')
jax.scipy.signal.welch(m, nperseg=4, axis=0, average='median')
jax.scipy.signal.csd(v, v ** 2, nperseg=4)
jax.scipy.signal.csd(z, z[::-1], nperseg=4, detrend=False, return_onesided=False)
"""

CONVOLUTION_ERRORS = """
lax.conv_general_dilated(c, k, (1, 1), 'SAME')
lax.conv_general_dilated(c, k, (1,), 'FOO')
lax.conv_general_dilated(c, k, (1,), ((1, 1), (0, 0)))
lax.conv_general_dilated(c, k, (1,), 3)
lax.conv_general_dilated(c, k, (1,), 'SAME', (2,))
lax.conv_general_dilated(c, k, (1,), 'SAME', (1,), (0,))
lax.conv_general_dilated(c, k[0], (1,), 'SAME')
lax.conv_general_dilated(c, k[:, :2], (1,), 'SAME')
lax.conv_general_dilated(c, k[:, :1], (1,), 'SAME', feature_group_count=3)
lax.conv_general_dilated(c, k, (1,), 'SAME', feature_group_count=0)
lax.conv_general_dilated(c, k, (1,), 'SAME', batch_group_count=3)
lax.conv_general_dilated(c, k.astype(int), (1,), 'SAME')
lax.conv_general_dilated(c, k, (1,), 'SAME', preferred_element_type=np.float16)
lax.conv_general_dilated(c, k, (1,), 'SAME', preferred_element_type=np.int32)
lax.conv_general_dilated(c, k, (1,), 'SAME', dimension_numbers=('NCW', 'OIW'))
lax.conv_general_dilated(c, k, (1,), 'SAME', dimension_numbers=('NCW', 'OIW', 'NCC'))
lax.conv_general_dilated(c, k, (1,), 'SAME', dimension_numbers=('NCW', 'OIX', 'NCW'))
lax.conv_dimension_numbers((1, 2, 3), (1, 2, 3), 3)
jnp.convolve(m, m)
jnp.convolve(v, v, 'foo')
jnp.convolve(v[:0], v)
jax.scipy.signal.convolve(m, v)
jax.scipy.signal.convolve(m, m[:2].T)
jax.scipy.signal.convolve2d(m, m, boundary='wrap')
jax.scipy.signal.convolve2d(v, m)
"""

TRANSFORMS = """
lax.fft(z, 'fft', (6,))
lax.fft(m, jax.lax.FftType.RFFT, (4, 6))
lax.fft(cube, 'RFFT', (3, 4, 5))
lax.fft(z, jax.lax.FftType.IRFFT, (11,))
lax.fft(i, 'ifft', (4,))
jnp.fft.fft(v)
jnp.fft.fft(m, 3, 0)
jnp.fft.fft(m, 9, norm='ortho')
jnp.fft.ifft(z, norm='forward')
jnp.fft.rfft(v, 12)
jnp.fft.irfft(z)
jnp.fft.irfft(z, 7, norm='ortho')
jnp.fft.hfft(z)
jnp.fft.ihfft(v, norm='forward')
jnp.fft.fft2(m)
jnp.fft.ifft2(m, (3, 8), (1, 0))
jnp.fft.rfft2(m, norm='ortho')
jnp.fft.irfft2(m)
jnp.fft.fftn(cube)
jnp.fft.ifftn(cube, axes=(0, 2))
jnp.fft.rfftn(cube)
jnp.fft.irfftn(cube)
jnp.fft.irfftn(cube, (3, 5, 2), (0, 3, 1), 'forward')
jnp.fft.rfftn(cube[None])
jnp.fft.fft(i)
jnp.fft.fft(h)
jnp.fft.fftn(m, axes=())
jnp.fft.fftfreq(7)
jnp.fft.fftfreq(8, 0.25)
jnp.fft.rfftfreq(7, 2., dtype=np.float16)
jnp.fft.fftshift(m)
jnp.fft.ifftshift(m, 1)
jnp.fft.fftshift(v, (0,))
jax.grad(lambda v: (jnp.abs(jnp.fft.rfft(v, 12)) ** 2).sum())(v)
jax.grad(lambda v: (jnp.abs(jnp.fft.fft(v)) ** 3).sum())(v)
jax.grad(lambda m: (jnp.fft.irfft2(m) ** 3).sum())(m)
jax.grad(lambda z: (jnp.fft.irfft(z, 7) ** 3).sum())(z)
jax.vmap(jnp.fft.fft, 1, 1)(m)
jax.vmap(jnp.fft.rfft2, 2)(cube)
jax.scipy.fft.dct(m)
jax.scipy.fft.dct(m, n=4, axis=0, norm='ortho')
jax.scipy.fft.dct(z)
jax.scipy.fft.idct(m)
jax.scipy.fft.idct(v, n=5, norm='ortho')
jax.scipy.fft.dctn(m, s=(3, 7))
jax.scipy.fft.idctn(cube, axes=(1, 3), norm='ortho')
"""

TRANSFORM_ERRORS = """
lax.fft(m, 'foo', (6,))
lax.fft(m, 'fft', (5,))
lax.fft(m, 'fft', (2, 4, 6))
lax.fft(z, 'rfft', (6,))
lax.fft(h, 'rfft', (6,))
lax.fft(m, 1, (6,))
jnp.fft.fft(m, 0)
jnp.fft.fft(m, axis=5)
jnp.fft.fft(m, norm='foo')
jnp.fft.fft(m, axis=(0, 1))
jnp.fft.rfft(z)
jnp.fft.fftn(m, axes=(0, 0))
jnp.fft.fftn(m, (2, 3), (0,))
jnp.fft.fft2(m, axes=(0,))
jnp.fft.fftfreq([1, 2])
jnp.fft.fft(v[0])
jax.scipy.fft.dct(m, 3)
jax.scipy.fft.dct(m, norm='foo')
jax.scipy.fft.dctn(v, s=(2, 3))
"""


def calls(table: str) -> list[Expr]:
    out = []
    for line in table.strip().splitlines():
        if "'NHWC'" not in line:
            line = line.replace("NHWC", NHWC)
        out.append(Expr(line, **VARIABLES))
    return out


@pytest.mark.parametrize("table", [WINDOWS, CONVOLUTIONS, TRANSFORMS], ids=["windows", "convolutions", "transforms"])
def test_values(table: str) -> None:
    compare_all(calls(table), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("table", [WINDOW_ERRORS, CONVOLUTION_ERRORS, TRANSFORM_ERRORS], ids=["windows", "convolutions", "transforms"])
def test_errors(table: str) -> None:
    """JAX's class, and a message that names something."""
    programs = calls(table)
    server = peer()
    assert server is not None
    found = []
    for call, want, got in zip(programs, server.batch(programs), run_here(programs), strict=True):
        assert isinstance(want, Failure), f"{call} works in JAX: {want}"
        if not isinstance(got, Failure) or want.name not in got.bases or not got.message:
            found.append(f"{call}\n  {got!r}\n  JAX: {want.name}: {want.message[:200]}")
    assert not found, "\n".join(found)


def test_derivatives_have_no_more_equations_than_jaxs() -> None:
    """JAX 0.12: convolution 2 and its two transposes, one `rev`; pooling one op for each derivative."""
    x, w = snp.ones((2, 6, 7, 3)), snp.ones((3, 2, 3, 4))
    nhwc = ("NHWC", "HWIO", "NHWC")

    def ops(f: Any, *args: Any) -> list[str]:
        return [e.primitive.name if hasattr(e, "primitive") else e.op.name for e in steno.make_jaxpr(f)(*args).eqns]

    conv = steno.grad(lambda x, w: lax.conv_general_dilated(x, w, (1, 2), "SAME", dimension_numbers=nhwc).sum(), (0, 1))
    assert sorted(n for n in ops(conv, x, w) if n != "reduce_sum") == ["broadcast_in_dim"] + ["conv_general_dilated"] * 3 + ["rev"]
    pool = steno.grad(lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME").sum())
    assert [n for n in ops(pool, x) if n != "reduce_sum"] == ["reduce_window_max", "broadcast_in_dim", "select_and_scatter_add"]
    mean = steno.grad(lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "SAME").sum())
    assert [n for n in ops(mean, x) if n != "reduce_sum"] == ["reduce_window_sum", "broadcast_in_dim", "reduce_window_sum"]
