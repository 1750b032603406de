"""What complex functions give for infinite and NaN components, held against C's Annex G as NumPy's functions have it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import steno as jax
import steno.numpy as jnp

PARTS = (0.0, -0.0, 1.0, -1.0, 2.5, -2.5, np.inf, -np.inf, np.nan)
NAMES = ("exp", "sinh", "cosh", "tanh", "arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_against_annex_g(name: str, dtype: type) -> None:
    z = np.array([complex(x, y) for x, y in itertools.product(PARTS, PARTS)], dtype)
    odd = ~np.isfinite(z.real) | ~np.isfinite(z.imag)
    z = z[odd]
    with jax.enable_x64(True), np.errstate(all="ignore"):
        got, wanted = np.asarray(getattr(jnp, name)(z)), getattr(np, name)(z)
    for point, g, w in zip(z, got, wanted, strict=True):
        for a, b in ((g.real, w.real), (g.imag, w.imag)):
            assert np.isnan(a) == np.isnan(b), (point, g, w)
            np.testing.assert_allclose(abs(a), abs(b), rtol=1e-6, atol=0, err_msg=f"{point}: {g}, {w}")
            if name != "cosh" and not np.isnan(point) and not np.isnan(w) and np.isfinite(point.imag):
                assert np.signbit(a) == np.signbit(b), (point, g, w)


def test_exponentials_without_a_direction() -> None:
    inf, nan = np.inf, np.nan
    z = np.array([complex(x, y) for x in (inf, -inf) for y in (inf, nan)], np.complex64)
    for f, below in ((jnp.exp, 0), (jnp.expm1, -1)):
        out = np.asarray(f(z))
        assert np.isposinf(out.real[:2]).all() and np.isnan(out.imag[:2]).all()
        np.testing.assert_array_equal(out[2:], below)
