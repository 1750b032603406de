"""Attention, and products of matrices in block-scaled formats."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from steno import lax, numpy as jnp
from steno.api import jit
from steno.core import dtypes
from steno.nn.along_axes import logsumexp, softmax
from steno.numpy.operands import as_array

Array = Any
ArrayLike = Any


def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: ArrayLike | None = None,
    key_value_seq_lengths: ArrayLike | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Any:
    """softmax(scale * query @ key + bias) @ value for each head, the logits and the softmax in float32.

    Shapes, with batch B, queries T, keys S, query heads N, key heads K (N a multiple of K: each key head serves N / K query heads) and
    H features: query (B, T, N, H), key and value (B, S, K, H), bias and mask broadcastable to (B, N, T, S); without B if query has rank 3.
    The result has query's shape and dtype; with `return_residual` comes the logsumexp of the logits, of shape (B, T, N).

    A query sees the keys that the boolean `mask` admits, no later ones if `is_causal`, those within `local_window_size` (one number for
    both sides, or left and right), and those before `key_value_seq_lengths` (int32, of shape (B,)); results of queries from
    `query_seq_lengths` on are 0. `scale` is 1 / sqrt(H) by default.

    ValueError for shapes and dtypes that do not fit; NotImplementedError for the implementation "cudnn".
    """
    if implementation == "cudnn":
        raise NotImplementedError("dot_product_attention: the implementation 'cudnn' needs a GPU")
    if implementation not in (None, "xla"):
        raise ValueError(f"dot_product_attention: implementation must be None, 'xla' or 'cudnn', got {implementation!r}")
    query, key, value = (jnp.asarray(x) for x in (query, key, value))
    batched = query.ndim == 4
    if query.ndim == 3:
        query = query[None]
    key, value = (x[None] if x.ndim == 3 else x for x in (key, value))
    _check(query, key, value)
    batch, length, heads, features = query.shape

    def spread(name: str, x: ArrayLike | None, dtype: Any) -> Array | None:
        if x is None:
            return None
        x = jnp.asarray(x)
        if x.ndim > 4:
            raise ValueError(f"dot_product_attention: {name} must have at most 4 axes, got shape {x.shape}")
        if dtype is not None and x.dtype != dtype:
            raise ValueError(f"dot_product_attention: {name} must have dtype {dtype.name}, got {x.dtype.name}")
        x = x.reshape((1,) * (4 - x.ndim) + x.shape)
        full = (batch, heads, length, key.shape[1])
        if any(n not in (1, m) for n, m in zip(x.shape, full, strict=True)):
            raise TypeError(f"dot_product_attention: {name} must be broadcastable to (B, N, T, S) = {full}, got shape {x.shape}")
        return x

    def lengths(name: str, x: ArrayLike | None) -> Array | None:
        if x is None:
            return None
        x = jnp.asarray(x)
        if x.dtype != dtypes.int32 or x.shape != (batch,):
            raise ValueError(f"dot_product_attention: {name} must be int32 of shape {(batch,)}, got {x.dtype.name} of shape {x.shape}")
        return x

    if local_window_size is None:
        window = None
    else:
        left, right = local_window_size if isinstance(local_window_size, tuple) else (local_window_size, local_window_size)
        window = (int(left), int(right))
    out, residual = _attention(
        query,
        key,
        value,
        spread("bias", bias, None),
        spread("mask", mask, dtypes.bool_),
        1.0 / math.sqrt(features) if scale is None else scale,
        lengths("query_seq_lengths", query_seq_lengths),
        lengths("key_value_seq_lengths", key_value_seq_lengths),
        is_causal=bool(is_causal),
        window=window,
        with_residual=bool(return_residual),
    )
    if not batched:
        out, residual = out[0], None if residual is None else residual[0]
    return (out, residual) if return_residual else out


def _check(query: Array, key: Array, value: Array) -> None:
    """ValueError for shapes and dtypes that do not fit together."""
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.ndim != 4:
            raise ValueError(f"dot_product_attention: {name} must have 3 or 4 axes, got shape {x.shape}")
        if x.dtype != query.dtype:
            raise ValueError(f"dot_product_attention: {name} must have query's dtype {query.dtype.name}, got {x.dtype.name}")
    batch, _, heads, features = query.shape
    groups = key.shape[2]
    wanted = (batch, key.shape[1], groups, features)
    for name, x in (("key", key), ("value", value)):
        if x.shape != wanted:
            raise ValueError(f"dot_product_attention: {name} must have shape (B, S, K, H) = {wanted}, got {x.shape}")
    if key.shape[2] == 0 or heads % key.shape[2]:
        raise ValueError(
            f"dot_product_attention: the number of query heads must be a multiple of key/value heads, got {heads} and {key.shape[2]}"
        )


@functools.partial(jit, static_argnames=("is_causal", "window", "with_residual"))
def _attention(
    query: Array,
    key: Array,
    value: Array,
    bias: Array | None,
    mask: Array | None,
    scale: Any,
    query_lengths: Array | None,
    key_lengths: Array | None,
    *,
    is_causal: bool,
    window: tuple[int, int] | None,
    with_residual: bool,
) -> tuple[Array, Array | None]:
    batch, length, heads, features = query.shape
    size, groups = key.shape[1], key.shape[2]
    each = heads // groups

    def grouped(x: Array) -> Array:
        """(B, N, T, S) --> (B, K, N / K, T, S)."""
        b, n, t, s = x.shape
        return x.reshape((b, groups, each, t, s) if n == heads else (b, 1, 1, t, s))

    wide = dtypes.promote_types(query.dtype, dtypes.float32)
    q = query.reshape(batch, length, groups, each, features)
    # (B, K, T, N / K, S) --> (B, K, N / K, T, S)
    logits = lax.dot_general(q, key, (((4,), (3,)), ((0, 2), (0, 2))), preferred_element_type=wide).transpose(0, 1, 3, 2, 4)
    logits = logits * scale
    if bias is not None:
        logits = (logits + grouped(bias)).astype(logits.dtype)
    seen = _seen(length, size, is_causal, window, query_lengths, key_lengths)
    for admitted in (None if mask is None else grouped(mask), seen):
        if admitted is not None:
            # finite, so that a row without any key is no NaN
            logits = jnp.where(admitted, logits, 0.7 * float(dtypes.finfo(logits.dtype).min))
    shares = softmax(logits).astype(key.dtype)
    out = lax.dot_general(shares, value, (((4,), (1,)), ((0, 1), (0, 2))))  # (B, K, N / K, T, H)
    out = out.transpose(0, 3, 1, 2, 4).reshape(query.shape)
    if query_lengths is not None:
        out = out * (jnp.arange(length)[None, :] < query_lengths[:, None])[:, :, None, None].astype(out.dtype)
    if not with_residual:
        return out, None
    residual = logsumexp(logits, axis=-1).astype(query.dtype)
    return out, lax.stop_gradient(residual.transpose(0, 3, 1, 2).reshape(batch, length, heads))


def _seen(
    length: int, size: int, is_causal: bool, window: tuple[int, int] | None, query_lengths: Array | None, key_lengths: Array | None
) -> Array | None:
    """Which keys each query may see by position, broadcastable to (B, K, N / K, T, S); None: all of them."""
    t, s = jnp.arange(length).reshape(1, 1, 1, length, 1), jnp.arange(size).reshape(1, 1, 1, 1, size)
    conditions = []
    if is_causal:
        conditions.append(t >= s)
    if window is not None:
        conditions += [t - s <= window[0], s - t <= window[1]]
    if query_lengths is not None:
        conditions.append(t < query_lengths[:, None, None, None, None])
    if key_lengths is not None:
        conditions.append(s < key_lengths[:, None, None, None, None])
    return functools.reduce(jnp.logical_and, conditions) if conditions else None


def scaled_matmul(
    lhs: ArrayLike, rhs: ArrayLike, lhs_scales: ArrayLike, rhs_scales: ArrayLike, preferred_element_type: Any = np.float32
) -> Array:
    """The products of matrices whose blocks of consecutive elements have scales of their own.

    lhs (B, M, K), rhs (B, N, K), lhs_scales (B, M, K / block), rhs_scales (B, N, K / block) --> (B, M, N). ValueError for other shapes.
    """
    a, b, sa, sb = (as_array("scaled_matmul", x, k) for k, x in enumerate((lhs, rhs, lhs_scales, rhs_scales)))
    if not all(x.ndim == 3 for x in (a, b, sa, sb)):
        raise ValueError(f"scaled_matmul: all operands must have 3 axes, got shapes {a.shape}, {b.shape}, {sa.shape}, {sb.shape}")
    blocks = sa.shape[2]
    fits = (
        (a.shape[0], a.shape[2]) == (b.shape[0], b.shape[2])
        and sa.shape[:2] == a.shape[:2]
        and sb.shape == (*b.shape[:2], blocks)
        and blocks > 0
        and a.shape[2] % blocks == 0
    )
    if not fits:
        raise ValueError(
            "scaled_matmul: expected lhs (B, M, K), rhs (B, N, K), lhs_scales (B, M, K / block) and rhs_scales (B, N, K / block), "
            f"got shapes {a.shape}, {b.shape}, {sa.shape}, {sb.shape}"
        )
    return _scaled_matmul(a, b, sa, sb, dtype=dtypes.check_valid(preferred_element_type, "scaled_matmul"))


@functools.partial(jit, static_argnames="dtype")
def _scaled_matmul(a: Array, b: Array, sa: Array, sb: Array, *, dtype: Any) -> Array:
    def scaled(x: Array, scales: Array) -> Array:
        split = x.astype(np.float32).reshape(*scales.shape, x.shape[2] // scales.shape[2])
        return (split * scales.astype(np.float32)[..., None]).reshape(x.shape)

    return lax.dot_general(scaled(a, sa), scaled(b, sb), (((2,), (2,)), ((0,), (0,)))).astype(dtype)
