"""Contractions in block-scaled formats: both operands are rounded to few bits, with a scale for each block along the contracted axis.

The formats mxfp8 and mxfp4 are those of the OCP Microscaling specification (1.0, 2023), but that scales are rounded up, so that nothing is
cut off; nvfp4 has blocks of 16 with scales of float8_e4m3fn and one scale of the whole array."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, Final, final

import numpy as np

from steno import lax, numpy as jnp
from steno.api import jit
from steno.core import dtypes
from steno.custom_derivatives import custom_vjp
from steno.nn.attention import scaled_matmul
from steno.numpy.operands import as_array

Array = Any
ArrayLike = Any


@final
@dataclasses.dataclass(frozen=True, eq=False)
class BlockScaleConfig:
    """How an operand is rounded: the dtypes of elements and of scales, the size of a block, and the scale of the whole (nvfp4)."""

    mode: str
    block_size: int
    data_type: Any
    scale_type: Any
    global_scale: Array | None = None
    infer_only: bool = False


_MODES: Final = {
    "mxfp8": (32, dtypes.float8_e4m3fn, dtypes.float8_e8m0fnu),
    "mxfp4": (32, dtypes.float4_e2m1fn, dtypes.float8_e8m0fnu),
    "nvfp4": (16, dtypes.float4_e2m1fn, dtypes.float8_e4m3fn),
}


def get_scaled_dot_general_config(mode: str, global_scale: Array | None = None) -> BlockScaleConfig:
    """The config of the format "mxfp8", "mxfp4" or "nvfp4" (the only one with a `global_scale`, 1 by default). ValueError for others."""
    if mode not in _MODES:
        raise ValueError(f"get_scaled_dot_general_config: unsupported mode {mode!r}; there are {', '.join(map(repr, _MODES))}")
    block, data, scale = _MODES[mode]
    if mode == "nvfp4" and global_scale is None:
        global_scale = jnp.ones((1,), dtypes.float32)
    return BlockScaleConfig(mode, block, data.type, scale.type, global_scale if mode == "nvfp4" else None)


def _quantized(x: Array, config: BlockScaleConfig) -> tuple[Array, Array]:
    """(..., K) --> the rounded elements and the scales of their blocks; K is filled up with zeros to whole blocks."""
    block, wide = config.block_size, x.astype(dtypes.float32)
    missing = -x.shape[-1] % block
    if missing:
        wide = jnp.pad(wide, [(0, 0)] * (x.ndim - 1) + [(0, missing)])
    blocks = wide.reshape(*wide.shape[:-1], wide.shape[-1] // block, block)
    greatest = float(dtypes.finfo(config.data_type).max)
    wanted = jnp.abs(blocks).max(-1) / greatest
    if config.global_scale is None:  # powers of 2, rounded up
        mantissa, exponent = jnp.frexp(wanted)
        exponent = jnp.clip(exponent - (mantissa == 0.5), -126, 127)
        scales = jnp.ldexp(jnp.ones_like(wanted), exponent)
        whole: Any = 1.0
    else:
        whole = jnp.asarray(config.global_scale, dtypes.float32).reshape(())
        scales = jnp.clip(wanted / whole, 0, float(dtypes.finfo(config.scale_type).max))
        scales = scales.astype(config.scale_type).astype(dtypes.float32)
    by = scales * whole
    rounded = jnp.clip(blocks / jnp.where(by > 0, by, 1)[..., None], -greatest, greatest).astype(config.data_type)
    return rounded.reshape(wide.shape), scales.astype(config.scale_type)


def _product(a: Array, b: Array, left: BlockScaleConfig, right: BlockScaleConfig, dtype: Any) -> Array:
    """(B, M, K), (B, N, K) --> (B, M, N)."""
    if left.block_size != right.block_size:
        raise ValueError(
            f"scaled_dot_general: the blocks of both operands must have one size, got {left.block_size} and {right.block_size}"
        )
    (qa, sa), (qb, sb) = _quantized(a, left), _quantized(b, right)
    out = scaled_matmul(qa, qb, sa, sb, preferred_element_type=dtypes.float32)
    for config in (left, right):
        if config.global_scale is not None:
            out = out * jnp.asarray(config.global_scale, dtypes.float32).reshape(())
    return out.astype(dtype)


def scaled_dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: Any,
    preferred_element_type: Any = np.float32,
    configs: Sequence[BlockScaleConfig] | None = None,
    implementation: str | None = None,
) -> Array:
    """`lax.dot_general` of operands that are rounded to a block-scaled format first, and so are the operands of its derivative.

    configs   three of `get_scaled_dot_general_config`: of lhs, of rhs, and of cotangents; None: nothing is rounded

    The result has the batch axes, then lhs's own, then rhs's own, in `preferred_element_type`."""
    a, b = as_array("scaled_dot_general", lhs, 0), as_array("scaled_dot_general", rhs, 1)
    dtype = dtypes.check_valid(preferred_element_type, "scaled_dot_general")
    if configs is None:
        return lax.dot_general(a, b, dimension_numbers, preferred_element_type=dtype)
    if len(configs) != 3:
        raise ValueError(f"scaled_dot_general: expected three configs (of lhs, of rhs, of cotangents), got {len(configs)}")
    (contract_a, contract_b), (batch_a, batch_b) = ([tuple(x) for x in pair] for pair in dimension_numbers)

    def matrices(x: Array, contract: tuple[int, ...], batch: tuple[int, ...]) -> tuple[Array, tuple[int, ...], tuple[int, ...]]:
        own = tuple(d for d in range(x.ndim) if d not in contract and d not in batch)
        sizes = [tuple(x.shape[d] for d in axes) for axes in (batch, own, contract)]
        moved = lax.transpose(x, (*batch, *own, *contract))
        return lax.reshape(moved, tuple(map(math.prod, sizes))), sizes[0], sizes[1]

    left, batch, rows = matrices(a, contract_a, batch_a)
    right, _, columns = matrices(b, contract_b, batch_b)
    scales = tuple(c.global_scale for c in configs)
    out = _contraction(left, right, scales, tuple(dataclasses.replace(c, global_scale=None) for c in configs), dtype)
    return lax.reshape(out, (*batch, *rows, *columns))


def _contraction(left: Array, right: Array, scales: Any, plain: tuple[BlockScaleConfig, ...], dtype: Any) -> Array:
    def configs(scales: Any) -> list[BlockScaleConfig]:
        return [dataclasses.replace(c, global_scale=s) for c, s in zip(plain, scales, strict=True)]

    @custom_vjp
    def product(a: Array, b: Array, scales: Any) -> Array:
        of_a, of_b, _ = configs(scales)
        return _product(a, b, of_a, of_b, dtype)

    def forward(a: Array, b: Array, scales: Any) -> tuple[Array, Any]:
        return product(a, b, scales), (a, b, scales)

    def backward(kept: Any, ct: Array) -> tuple[Any, ...]:
        a, b, scales = kept
        of_a, of_b, of_ct = configs(scales)
        turned = functools.partial(lax.transpose, permutation=(0, 2, 1))
        to_a = _product(ct, turned(b), of_ct, of_b, a.dtype)
        to_b = _product(turned(ct), turned(a), of_ct, of_a, b.dtype)
        return to_a, to_b, [None if s is None else jnp.zeros_like(s) for s in scales]

    product.defvjp(forward, backward)
    return jit(product)(left, right, list(scales))
