"""Contractions in block-scaled formats."""

from __future__ import annotations

import numpy as np
import pytest

import steno as jax
import steno.numpy as jnp
from steno import nn

NUMBERS = (((2,), (2,)), ((0,), (0,)))
ROW = np.float32([1.0, 0.3, -7.7, 500.0, 1e-3, 448.0, 449.0, 0.0] + [0.1] * 24).reshape(1, 1, 32)


def configs(mode: str, scale: float = 0.5):
    return [nn.get_scaled_dot_general_config(mode, *([jnp.array([scale])] if mode == "nvfp4" else []))] * 3


@pytest.mark.parametrize(
    "mode, wanted",
    [
        ("mxfp8", [1, 0.3125, -7.5, 512, 0, 448, 448, 0, 0.1015625]),
        ("mxfp4", [0, 0, 0, 512, 0, 512, 512, 0, 0]),
        ("nvfp4", [0, 0, 0, 495, 0, 495, 495, 0, 0]),
    ],
)
def test_rounding(mode: str, wanted: list[float]) -> None:
    out = nn.scaled_dot_general(ROW, np.eye(32, dtype=np.float32)[None], NUMBERS, configs=configs(mode))
    np.testing.assert_array_equal(out.ravel()[:9], np.float32(wanted))
    assert not np.asarray(nn.scaled_dot_general(0 * ROW, 0 * ROW, NUMBERS, configs=configs(mode))).any()


@pytest.mark.parametrize("mode, error", [("mxfp8", 0.07), ("mxfp4", 0.3), ("nvfp4", 0.2)])
def test_product_and_derivative(mode: str, error: float) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 3, 40, 4), np.float32), rng.standard_normal((2, 40, 4, 7), np.float32)
    numbers = (((2, 3), (1, 2)), ((0,), (0,)))

    def loss(f):
        return lambda a, b: jnp.sum(jnp.sin(f(a, b)))

    def exact(a, b):
        return jax.lax.dot_general(a, b, numbers)

    def scaled(a, b):
        return nn.scaled_dot_general(a, b, numbers, configs=configs(mode, 0.02))

    got, want = np.asarray(scaled(a, b)), np.asarray(exact(a, b))
    assert got.shape == want.shape == (2, 3, 7)
    assert np.linalg.norm(got - want) < error * np.linalg.norm(want)
    linear = jax.grad(lambda a, b: jnp.sum(scaled(a, b)), (0, 1))(a, b), jax.grad(lambda a, b: jnp.sum(exact(a, b)), (0, 1))(a, b)
    for g, w in zip(*linear, strict=True):
        assert np.linalg.norm(g - w) < 2 * error * np.linalg.norm(w)
    assert nn.scaled_dot_general(a, b, numbers, preferred_element_type=jnp.bfloat16, configs=configs(mode)).dtype == jnp.bfloat16
    np.testing.assert_array_equal(nn.scaled_dot_general(a, b, numbers), want)
    assert np.isfinite(jax.jit(jax.grad(loss(scaled)))(a, b)).all()


def test_errors() -> None:
    with pytest.raises(ValueError, match="mxfp8"):
        nn.get_scaled_dot_general_config("fp8")
    with pytest.raises(ValueError, match="three configs"):
        nn.scaled_dot_general(ROW, ROW, NUMBERS, configs=configs("mxfp8")[:2])
