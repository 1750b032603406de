"""Counter-based random bits: the threefry2x32 block function and the ops on PRNG keys.

A key of threefry2x32 (`steno.ops.ciphers`) is two uint32 words. Which block an element takes depends on the parameter `partitionable`
(printed jaxprs leave it out, as JAX has it as a configuration):

partitionable   element number n takes the block of counter (n >> 32, n mod 2**32): both words of it (64 bits, keys), or their exclusive or
otherwise       all words wanted are numbered; with h half their number (rounded up), word j is the first word of block (j, j + h) for
                j < h, else the second word of block (j - h, j); a counter beyond the last word is 0. Elements of 8 and 16 bits are parts
                of words, the lowest first; those of 64 bits take word n (high) and word n + count (low)

Keys of the implementations "rbg" and "unsafe_rbg" are two threefry keys, which are also a state of Philox (`steno.ops.philox`):

bits            element number n is word n of the blocks (64 bits: words 2 n, low, and 2 n + 1), narrower ones its low part. An array of
                keys numbers its elements through, in the blocks of its first key: under vmap the others do not matter, as in JAX
rbg             seed, fold_in and split treat each half as threefry does
unsafe_rbg      split number n is block 10 n of the (first) key; fold_in is the exclusive or with block 9 of the key that is seeded with
                the data, or block 10 n + 9 of the first for number n of an array of data

Those of the other implementations are numbered as `Stream` says, whatever `partitionable`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from steno.core import dtypes
from steno.core.aval import ShapedArray
from steno.core.interpret import to_array
from steno.core.op import Op
from steno.ir.expr import Builder, Expr, Pair, Scalar
from steno.ir.index import Index, linear
from steno.ir.kinds import Map, Read
from steno.ops.arithmetic import mul
from steno.ops.ciphers import ARRAYS, STREAMS, U32, U64, threefry
from steno.ops.families import FLOAT, common_shape, elementwise, elementwise_lower
from steno.ops.oracle import direct, primitive
from steno.ops.philox import philox_arrays, philox_code
from steno.ops.structural import unchanged
from steno.transforms.rules import ELEMENTWISE, Axis, ForOp, align_elementwise, broadcast, by_argument, by_operand, to_front

BLOCK_OPERATIONS = 100.0  # 20 rounds of five, or about as many of Philox

Shape = tuple[int, ...]


UNSAFE = dtypes.key_urbg.host
UNSAFE_STRIDE = 10
U16 = np.dtype("uint16")
_STREAM_OF = {impl.host: stream for impl, stream in STREAMS.items()}

Half = tuple[Any, Any]  # the two words of a threefry key


def key_aval(shape: Shape, dtype: Any = dtypes.key_fry) -> ShapedArray:
    return ShapedArray(shape, dtype)


def check_keys(op: str, keys: ShapedArray) -> None:
    """TypeError unless the operand holds typed keys."""
    if not isinstance(keys.dtype, dtypes.KeyDType):
        raise TypeError(f"{op}: expected an array of PRNG keys, got {keys.str_short()}")


# The block function, on NumPy arrays and as scalar code


def threefry_arrays(k0: Any, k1: Any, x0: Any, x1: Any) -> tuple[np.ndarray, np.ndarray]:
    """The block of counter (x0, x1) under key (k0, k1); uint32 arrays that broadcast."""
    k0, k1, x0, x1 = (np.asarray(v, U32) for v in (k0, k1, x0, x1))
    with np.errstate(over="ignore"):
        first, second = threefry(ARRAYS, (k0, k1), (x0, x1))
    return first, second


def threefry_code(b: Builder, k0: Expr, k1: Expr, x0: Expr, x1: Expr) -> tuple[Expr, Expr]:
    """The same on uint32 expressions."""
    first, second = threefry(b, (k0, k1), (x0, x1))
    return first, second


def key_words(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Keys as oracles see them (uint64) --> their two words."""
    return (keys & np.uint64(0xFFFFFFFF)).astype(U32), (keys >> np.uint64(32)).astype(U32)


def join_words(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return first.astype(U64) | second.astype(U64) << np.uint64(32)


def words_of(keys: np.ndarray) -> list[np.ndarray]:
    """The words in keys as oracles see them."""
    columns = [keys[name] for name in keys.dtype.names or ()] or [keys]
    return [w for c in columns for w in (key_words(c) if c.dtype == U64 else (c,))]


def keys_of(host: np.dtype, words: Sequence[np.ndarray]) -> np.ndarray:
    """The inverse of `words_of`; `host`: the dtype that oracles see."""
    columns = words if len(words) == 1 else [join_words(*pair) for pair in _pairs(words)]
    if not host.names:
        return columns[0]
    out = np.empty(columns[0].shape, host)
    for name, column in zip(host.names, columns, strict=True):
        out[name] = column
    return out


def words_code(b: Builder, key: Pair) -> list[Expr]:
    """The words in a key."""
    if key.dtype.words == 2:
        return [key.first, key.second]
    if key.dtype.words == 1:
        return [b.or_(b.convert(key.first, U32), b.shl(b.convert(key.second, U32), 16))]
    return [b.convert(v, U32) for x in (key.first, key.second) for v in (x, b.lshr(x, 32))]


def key_code(b: Builder, dtype: Any, words: Sequence[Expr]) -> Pair:
    """The inverse of `words_code`."""
    if dtype.words == 2:
        return b.pair(dtype, *words)
    if dtype.words == 1:
        return b.pair(dtype, b.convert(words[0], U16), b.convert(b.lshr(words[0], 16), U16))
    return b.pair(dtype, *(b.or_(b.convert(low, U64), b.shl(b.convert(high, U64), 32)) for low, high in _pairs(words)))


def _pairs(words: Sequence[Any]) -> list[Half]:
    return list(zip(words[::2], words[1::2], strict=True))


def halves(keys: np.ndarray) -> list[Half]:
    """The threefry keys in keys as oracles see them: one, or two."""
    return _pairs(words_of(keys))


def join_halves(host: np.dtype, parts: Sequence[Half]) -> np.ndarray:
    return keys_of(host, [w for half in parts for w in half])


def halves_code(b: Builder, key: Pair) -> list[Half]:
    return _pairs(words_code(b, key))


def join_code(b: Builder, dtype: Any, parts: Sequence[Half]) -> Pair:
    return key_code(b, dtype, [w for half in parts for w in half])


def _first_state(keys: np.ndarray) -> list[np.ndarray]:
    """The Philox state of the first key, whose blocks all of them share."""
    return words_of(keys.reshape(-1)[:1])


def _number_code(b: Builder, indices: Sequence[Index], shape: Shape, times: int = 1, plus: int = 0) -> Expr:
    """times n + plus for an element's row-major number n, as uint32 if it fits."""
    number = linear(list(indices), shape) * times + plus
    return b.convert(b.index(number), U32) if number.hi < 1 << 32 else b.index(number)


def _counters(count: int) -> tuple[np.ndarray, np.ndarray]:
    """(high, low) words of 0, 1, ..., count - 1."""
    n = np.arange(count, dtype=U64)
    return (n >> np.uint64(32)).astype(U32), n.astype(U32)


def _words(k0: np.ndarray, k1: np.ndarray, total: int) -> np.ndarray:
    """The first `total` words of each key's stream (not partitionable), along the last axis, of size 1 in the keys."""
    half = (total + 1) // 2
    first = np.arange(half, dtype=U32)
    second = first + np.uint32(half)
    second[second >= total] = 0
    return np.concatenate(threefry_arrays(k0, k1, first, second), axis=-1)[..., :total]


def _counter_code(b: Builder, indices: Sequence[Index], shape: Shape) -> tuple[Expr, Expr]:
    """(high, low) words of an element's row-major number."""
    number = linear(list(indices), shape)
    if number.hi < 1 << 32:
        return b.constant(0, U32), b.convert(b.index(number), U32)
    n = b.index(number)
    return b.convert(b.lshr(n, 32), U32), b.convert(n, U32)


def _block_code(b: Builder, key: Half, p: Expr, total: int) -> tuple[Expr, Expr]:
    """Block number p of a stream of `total` words: words p and p + half."""
    half = (total + 1) // 2
    second = b.add(p, half)
    if total % 2:
        second = b.select(b.eq(p, half - 1), 0, second)
    return threefry_code(b, *key, p, second)


def _word_code(b: Builder, key: Half, j: Expr, total: int) -> Expr:
    """Word number j of a stream of `total` words."""
    half = (total + 1) // 2
    late = b.ge(j, half)
    first, second = _block_code(b, key, b.select(late, b.sub(j, half), j), total)
    return b.select(late, second, first)


def _check_stream(op: str, total: int) -> None:
    if total >= 1 << 32:
        raise NotImplementedError(
            f"{op}: {total} words from one key in the layout that is not partitionable; there are less than 2**32. Set "
            f"jax_threefry_partitionable=True, or split the key"
        )


# threefry2x32


def _threefry_typ(*avals: ShapedArray) -> list[ShapedArray]:
    if len(avals) != 4:
        raise TypeError(f"threefry2x32: expected four operands (two words of key, two of counter), got {len(avals)}")
    if any(a.dtype != U32 for a in avals):
        raise TypeError(f"threefry2x32: expected uint32 operands, got {', '.join(a.str_short() for a in avals)}")
    shapes = {a.shape for a in avals if a.shape}
    if len(shapes) > 1:
        raise TypeError(f"threefry2x32: operands must have one shape or be scalars, got {', '.join(str(a.shape) for a in avals)}")
    out = ShapedArray(shapes.pop() if shapes else (), U32)
    return [out, out]


def _threefry_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray]) -> Map:
    ranks = [a.ndim for a in avals_in]

    def body(b: Builder, indices: Sequence[Index], reads: Sequence[Read]) -> tuple[Expr, Expr]:
        return threefry_code(b, *(r(indices if n else ()) for r, n in zip(reads, ranks, strict=True)))

    return Map(body, flat=True)


def _uints(shape: Shape, seed: int, dtype: Any = U32) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def _threefry_samples() -> Iterable[Any]:
    for shapes in [((), (), (5,), (5,)), ((2, 3),) * 4, ((), (), (), ()), ((), (4,), (), (4,)), ((0,), (), (0,), (0,))]:
        yield tuple(_uints(s, k) for k, s in enumerate(shapes)), {}


def _threefry_batch(axis: Axis, args: Sequence[Any], dims: Sequence[int | None]) -> tuple[list[Any], list[int]]:
    args, dim = align_elementwise(axis, args, dims)
    shape = common_shape("threefry2x32", [x.aval for x in args])
    return threefry2x32(*(broadcast(x, shape) if x.shape else x for x in args)), [dim, dim]


threefry2x32 = Op(
    "threefry2x32",
    typ=_threefry_typ,
    oracle=lambda *xs: list(np.broadcast_arrays(*threefry_arrays(*xs))),
    lower=_threefry_lower,
    multiple_results=True,
    cost=lambda avals_in, avals_out: BLOCK_OPERATIONS * avals_out[0].size,
    samples=_threefry_samples,
    batch=_threefry_batch,
)


# random_seed, random_wrap, random_unwrap, random_clone


def _seed_typ(seeds: ShapedArray, *, impl: dtypes.KeyDType) -> ShapedArray:
    if dtypes.kind(seeds.dtype) not in "iu":
        raise TypeError(f"random_seed: seeds must be integers, got {seeds.str_short()}")
    return key_aval(seeds.shape, impl)


def _seed_oracle(seeds: np.ndarray, *, impl: dtypes.KeyDType) -> np.ndarray:
    wide = seeds.astype(np.int64 if seeds.dtype.kind != "u" else U64).view(U64)
    high = wide >> np.uint64(32) if seeds.dtype.itemsize == 8 else np.zeros_like(wide)
    words = high.astype(U32), wide.astype(U32)
    if impl in STREAMS:
        with np.errstate(over="ignore"):
            return keys_of(impl.host, STREAMS[impl].seed(ARRAYS, *words, np.zeros_like(words[0])))
    return join_halves(impl.host, [words] * (impl.words // 2))


def _seed_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, impl: dtypes.KeyDType) -> Map:
    wide = avals_in[0].itemsize == 8

    def body(b: Builder, indices: Sequence[Index], reads: Sequence[Read]) -> Pair:
        seed = reads[0](indices)
        high = b.convert(b.lshr(b.convert(seed, U64), 32), U32) if wide else b.constant(0, U32)
        words = high, b.convert(seed, U32)
        if impl in STREAMS:
            return key_code(b, impl, STREAMS[impl].seed(b, *words, b.constant(0, U32)))
        return join_code(b, impl, [words] * (impl.words // 2))

    return Map(body, flat=True)


def _seed_samples() -> Iterable[Any]:
    for d, seeds in [
        ("int32", [0, 1, -1, 2**31 - 1, -(2**31)]), ("uint32", [0, 2**32 - 1]), ("int8", [-1, 5]), ("uint8", [255]),
        ("int64", [-1, 2**40 + 5, -(2**63)]), ("uint64", [2**64 - 1, 7]),
    ]:  # fmt: skip
        for impl in dtypes.KEYS:
            yield (np.array(seeds, d),), dict(impl=impl)
    yield (np.int32(42),), dict(impl=dtypes.key_fry)
    yield (np.zeros((0, 2), np.int32),), dict(impl=dtypes.key_fry)


def _show_impl(params: dict[str, Any]) -> dict[str, Any]:
    return {"impl": params["impl"].tag}


random_seed = Op(
    "random_seed", typ=_seed_typ, oracle=_seed_oracle, lower=_seed_lower, samples=_seed_samples, show=_show_impl, batch=ELEMENTWISE
)
"""Integers --> keys (their high and low words, twice for the two halves, or a block of them)."""


def _wrap_typ(words: ShapedArray, *, impl: dtypes.KeyDType) -> ShapedArray:
    if words.dtype != U32 or words.ndim < 1 or words.shape[-1] != impl.words:
        raise TypeError(f"random_wrap: key data must be a uint32 array whose last axis has size {impl.words}, got {words.str_short()}")
    return key_aval(words.shape[:-1], impl)


def _wrap_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, impl: dtypes.KeyDType) -> Map:
    def body(b: Builder, indices: Sequence[Index], reads: Sequence[Read]) -> Pair:
        return key_code(b, impl, [reads[0]([*indices, Index(k)]) for k in range(impl.words)])

    return Map(body)


def _wrap_batch(axis: Axis, args: Sequence[Any], dims: Sequence[int], *, impl: dtypes.KeyDType) -> tuple[Any, int]:
    (words,), (d,) = args, dims
    if d == len(words.shape) - 1:
        words, d = to_front(words, d, axis.size), 0
    return random_wrap(words, impl=impl), d


def _keys_first(op: Op) -> Callable[..., tuple[Any, int]]:
    """batch of an op of keys whose result has the keys' axes, then others: what a key gives depends on itself alone."""
    return lambda axis, args, dims, **params: (op(*args, **params), dims[0])


random_wrap = Op(
    "random_wrap",
    typ=_wrap_typ,
    oracle=lambda words, *, impl: keys_of(impl.host, [words[..., k] for k in range(impl.words)]),
    lower=_wrap_lower,
    samples=lambda: (((_uints((*s, impl.words), 1),), dict(impl=impl)) for s in [(), (3,), (0,), (2, 1)] for impl in dtypes.KEYS),
    show=_show_impl,
    batch=_wrap_batch,
)
"""uint32 words --> keys."""


def _unwrap_typ(keys: ShapedArray) -> ShapedArray:
    check_keys("random_unwrap", keys)
    return ShapedArray((*keys.shape, keys.dtype.words), U32)


def _chosen_code(b: Builder, k: Expr, words: Sequence[Expr]) -> Expr:
    """words[k]."""
    out = words[-1]
    for j in reversed(range(len(words) - 1)):
        out = b.select(b.eq(k, j), words[j], out)
    return out


def _unwrap_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray]) -> Map:
    def body(b: Builder, indices: Sequence[Index], reads: Sequence[Read]) -> Expr:
        return _chosen_code(b, b.index(indices[-1]), words_code(b, reads[0](indices[:-1])))

    return Map(body)


def _sample_keys(shape: Shape, dtype: Any = dtypes.key_fry) -> Any:
    words = _uints((*shape, dtype.words), 3)
    return to_array(keys_of(dtype.host, [words[..., k] for k in range(dtype.words)]), key_aval(shape, dtype))


def _key_samples(*shapes: Shape, **params: Any) -> list[Any]:
    """Samples of ops on one array of keys."""
    return [((_sample_keys(s, d),), dict(params)) for d in dtypes.KEYS for s in shapes]


random_unwrap = Op(
    "random_unwrap",
    typ=_unwrap_typ,
    oracle=lambda keys: np.stack(words_of(keys), axis=-1),
    lower=_unwrap_lower,
    samples=lambda: _key_samples((), (3,), (0,), (2, 1)),
    batch=ForOp(_keys_first),
)
"""Keys --> their words."""


def _clone_typ(keys: ShapedArray) -> ShapedArray:
    check_keys("random_clone", keys)
    return keys


random_clone = Op(
    "random_clone",
    typ=_clone_typ,
    oracle=lambda keys: keys.copy(),
    lower=unchanged,
    samples=lambda: _key_samples((), (2, 3)),
    batch=ELEMENTWISE,
)
"""The same keys, to be used again on purpose."""


# random_fold_in


def _fold_in_typ(keys: ShapedArray, data: ShapedArray) -> ShapedArray:
    check_keys("random_fold_in", keys)
    if data.dtype != U32:
        raise TypeError(f"random_fold_in: data must be uint32, got {data.str_short()}")
    return key_aval(common_shape("random_fold_in", (keys, data)), keys.dtype)


def _fold_in_oracle(keys: np.ndarray, data: np.ndarray) -> np.ndarray:
    if stream := _STREAM_OF.get(keys.dtype):
        zero = np.zeros(np.broadcast_shapes(keys.shape, data.shape), U32)
        with np.errstate(over="ignore"):
            return keys_of(keys.dtype, stream.new_key(ARRAYS, words_of(keys), zero, data, zero))
    if keys.dtype != UNSAFE:
        return join_halves(keys.dtype, [threefry_arrays(*half, 0, data) for half in halves(keys)])
    n = np.arange(data.size, dtype=U64).reshape(data.shape) * np.uint64(UNSAFE_STRIDE) + np.uint64(UNSAFE_STRIDE - 1)
    seed = data.reshape(-1)[:1]
    if not data.size:
        seed = np.zeros(1, U32)
    zero = np.zeros_like(seed)
    w = philox_arrays([x.reshape(()) for x in (zero, seed, zero, seed)], n)
    return keys_of(UNSAFE, [x ^ y for x, y in zip(words_of(keys), w, strict=True)])


def _fold_in_code(b: Builder, key: Pair, word: Expr) -> Pair:
    if stream := STREAMS.get(key.dtype):
        zero = b.constant(0, U32)
        return key_code(b, key.dtype, stream.new_key(b, words_code(b, key), zero, word, zero))
    return join_code(b, key.dtype, [threefry_code(b, *half, b.constant(0, U32), word) for half in halves_code(b, key)])


_fold_in_elementwise = elementwise_lower(_fold_in_code)


def _fold_in_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray]) -> Map:
    if avals_in[0].dtype is not dtypes.key_urbg:
        return _fold_in_elementwise(avals_in, avals_out)
    keys, data = avals_in
    (out,) = avals_out

    def own(a: ShapedArray, indices: Sequence[Index]) -> list[Index]:
        return [i if n == m else Index(0) for i, n, m in zip(indices, a.shape, out.shape, strict=False)] if a.shape else []

    def body(b: Builder, indices: Sequence[Index], reads: Sequence[Read]) -> Pair:
        number = _number_code(b, own(data, indices), data.shape, UNSAFE_STRIDE, UNSAFE_STRIDE - 1)
        seed = reads[1]([Index(0)] * data.ndim)
        zero = b.constant(0, U32)
        block = philox_code(b, [zero, seed, zero, seed], number)
        words = words_code(b, reads[0](own(keys, indices)))
        return key_code(b, keys.dtype, [b.xor(x, y) for x, y in zip(words, block, strict=True)])

    return Map(body)


random_fold_in = Op(
    "random_fold_in",
    typ=_fold_in_typ,
    oracle=_fold_in_oracle,
    lower=_fold_in_lower,
    cost=lambda avals_in, avals_out: BLOCK_OPERATIONS * avals_out[0].size,
    samples=lambda: [
        ((_sample_keys(k, impl), _uints(d, 4)), {})
        for impl in dtypes.KEYS
        for k, d in [((), ()), ((3,), (3,)), ((), (4,)), ((2, 2), ()), ((0,), (0,)), ((2, 1), (1, 3))]
    ],
    batch=ELEMENTWISE,
)
"""The keys' blocks of counter (0, data), as keys."""


# random_split


def _split_typ(keys: ShapedArray, *, shape: Shape, partitionable: bool = True) -> ShapedArray:
    check_keys("random_split", keys)
    _check_shape("random_split", shape)
    return key_aval((*keys.shape, *shape), keys.dtype)


def _check_shape(op: str, shape: Shape) -> None:
    if any(n < 0 for n in shape):
        raise ValueError(f"{op}: shape must not hold negative sizes, got {tuple(shape)}")


def _split_oracle(keys: np.ndarray, *, shape: Shape, partitionable: bool = True) -> np.ndarray:
    count, full = math.prod(shape), (*keys.shape, *shape)
    if keys.dtype == UNSAFE:
        if not math.prod(full):
            return np.empty(full, keys.dtype)
        n = np.arange(math.prod(full), dtype=U64) * np.uint64(UNSAFE_STRIDE)
        return keys_of(UNSAFE, philox_arrays(_first_state(keys), n)).reshape(full)
    if stream := _STREAM_OF.get(keys.dtype):
        with np.errstate(over="ignore"):
            made = stream.new_key(ARRAYS, words_of(keys[..., None]), *_counters(count), np.zeros(count, U32))
        return keys_of(keys.dtype, made).reshape(full)
    parts: list[Half] = []
    for k0, k1 in halves(keys[..., None]):
        if partitionable:
            parts.append(threefry_arrays(k0, k1, *_counters(count)))
        else:
            _check_stream("random_split", 2 * count)
            words = _words(k0, k1, 2 * count)
            parts.append((words[..., 0::2], words[..., 1::2]))
    return join_halves(keys.dtype, parts).reshape(full)


def _split_lower(avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, shape: Shape, partitionable: bool = True) -> Map:
    (keys,), (out,) = avals_in, avals_out
    rank, total, unsafe = keys.ndim, 2 * math.prod(shape), keys.dtype is dtypes.key_urbg
    stream = STREAMS.get(keys.dtype)
    if not partitionable and not unsafe and not stream:
        _check_stream("random_split", total)

    def body(b: Builder, indices: Sequence[Index], reads: Sequence[Read]) -> Pair:
        if unsafe:
            state = words_code(b, reads[0]([Index(0)] * rank))
            return key_code(b, keys.dtype, philox_code(b, state, _number_code(b, indices, out.shape, UNSAFE_STRIDE)))
        high, low = _counter_code(b, indices[rank:], shape)
        if stream:
            words = words_code(b, reads[0](indices[:rank]))
            return key_code(b, keys.dtype, stream.new_key(b, words, high, low, b.constant(0, U32)))
        parts: list[Half] = []
        for half in halves_code(b, reads[0](indices[:rank])):
            if partitionable:
                parts.append(threefry_code(b, *half, high, low))
            else:
                j = b.shl(low, 1)
                parts.append((_word_code(b, half, j, total), _word_code(b, half, b.add(j, 1), total)))
        return join_code(b, keys.dtype, parts)

    return Map(body)


random_split = Op(
    "random_split",
    typ=_split_typ,
    oracle=_split_oracle,
    lower=_split_lower,
    cost=lambda avals_in, avals_out, **_: BLOCK_OPERATIONS * avals_out[0].size,
    samples=lambda: [
        s
        for partitionable in (True, False)
        for shape in [(2,), (), (2, 3), (0, 2), (5,)]
        for s in _key_samples((), (2, 1), (0,), shape=shape, partitionable=partitionable)
    ],
    show=lambda params: {"shape": params["shape"]},
    batch=ForOp(_keys_first),
)


# random_bits


def _bits_typ(keys: ShapedArray, *, bit_width: int, shape: Shape, partitionable: bool = True) -> ShapedArray:
    check_keys("random_bits", keys)
    if bit_width not in (8, 16, 32, 64):
        raise TypeError(f"random_bits: bit_width must be 8, 16, 32 or 64, got {bit_width}")
    _check_shape("random_bits", shape)
    return ShapedArray((*keys.shape, *shape), np.dtype(f"uint{bit_width}"))


def _bits_oracle(keys: np.ndarray, *, bit_width: int, shape: Shape, partitionable: bool = True) -> np.ndarray:
    count, dtype = math.prod(shape), np.dtype(f"uint{bit_width}")
    if stream := _STREAM_OF.get(keys.dtype):
        with np.errstate(over="ignore"):
            w = stream.bits(ARRAYS, words_of(keys[..., None]), *_counters(count), np.zeros(count, U32), bit_width == 64)
        return (join_words(w[1], w[0]) if bit_width == 64 else w[0].astype(dtype)).reshape((*keys.shape, *shape))
    if keys.dtype != U64:
        n = np.arange(math.prod((*keys.shape, *shape)), dtype=U64)
        if not n.size:
            return np.empty((*keys.shape, *shape), dtype)
        per_block = 2 if bit_width == 64 else 4
        w = philox_arrays(_first_state(keys), n // np.uint64(per_block))
        drawn = [join_words(w[0], w[1]), join_words(w[2], w[3])] if bit_width == 64 else w
        return np.choose((n % np.uint64(per_block)).astype(np.int64), drawn).astype(dtype).reshape((*keys.shape, *shape))
    if partitionable:
        k0, k1 = key_words(keys[..., None])
        first, second = threefry_arrays(k0, k1, *_counters(count))
        out = join_words(second, first) if bit_width == 64 else (first ^ second).astype(dtype)
    elif bit_width == 64:
        _check_stream("random_bits", 2 * count)
        words = _words(*key_words(keys[..., None]), 2 * count)
        out = join_words(words[..., count:], words[..., :count])
    else:
        total = -(-bit_width * count // 32)
        _check_stream("random_bits", total)
        parts = 32 // bit_width
        shifts = (np.arange(parts) * bit_width).astype(U32)
        split = _words(*key_words(keys[..., None]), total)[..., None] >> shifts
        out = split.reshape((*keys.shape, total * parts))[..., :count].astype(dtype)
    return out.reshape((*keys.shape, *shape))


def _philox_bits_lower(rank: int, shape: Shape, dtype: np.dtype) -> Map:
    wide = dtype == U64

    def body(b: Builder, indices: Sequence[Index], reads: Sequence[Read]) -> Expr:
        state = words_code(b, reads[0]([Index(0)] * rank))
        n = _number_code(b, indices, shape)
        words = philox_code(b, state, b.lshr(n, 1 if wide else 2))
        lane = b.and_(n, 1 if wide else 3)
        if wide:
            words = [b.or_(b.convert(low, U64), b.shl(b.convert(high, U64), 32)) for low, high in zip(words[::2], words[1::2], strict=True)]
        return b.convert(_chosen_code(b, lane, words), dtype)

    return Map(body)


def _bits_lower(
    avals_in: Sequence[ShapedArray], avals_out: Sequence[ShapedArray], *, bit_width: int, shape: Shape, partitionable: bool = True
) -> Map:
    rank, dtype = avals_in[0].ndim, avals_out[0].dtype
    total = -(-bit_width * math.prod(shape) // 32)
    stream = STREAMS.get(avals_in[0].dtype)
    if not stream and avals_in[0].dtype.words == 4:
        return _philox_bits_lower(rank, avals_out[0].shape, dtype)
    if not partitionable and not stream:
        _check_stream("random_bits", total)

    def body(b: Builder, indices: Sequence[Index], reads: Sequence[Read]) -> Expr:
        words = words_code(b, reads[0](indices[:rank]))
        high, low = _counter_code(b, indices[rank:], shape)
        if stream:
            w = stream.bits(b, words, high, low, b.constant(0, U32), bit_width == 64)
            return b.convert(w[0], dtype) if bit_width < 64 else b.or_(b.shl(b.convert(w[0], U64), 32), b.convert(w[1], U64))
        (key,) = _pairs(words)
        if partitionable or bit_width == 64:
            first, second = threefry_code(b, *key, high, low) if partitionable else _block_code(b, key, low, total)
            if bit_width == 64:
                return b.or_(b.shl(b.convert(first, U64), 32), b.convert(second, U64))
            return b.convert(b.xor(first, second), dtype)
        if bit_width == 32:
            return _word_code(b, key, low, total)
        per_word = (32 // bit_width).bit_length() - 1
        word = _word_code(b, key, b.lshr(low, per_word), total)
        shift = b.mul(b.and_(low, (1 << per_word) - 1), bit_width)
        return b.convert(b.lshr(word, shift), dtype)

    return Map(body)


random_bits = Op(
    "random_bits",
    typ=_bits_typ,
    oracle=_bits_oracle,
    lower=_bits_lower,
    cost=lambda avals_in, avals_out, **_: BLOCK_OPERATIONS * avals_out[0].size,
    samples=lambda: [
        s
        for partitionable in (True, False)
        for width in (8, 16, 32, 64)
        for shape in [(), (1,), (5,), (2, 3), (0,), (7, 3)]
        for s in _key_samples((), (2,), bit_width=width, shape=shape, partitionable=partitionable)
    ],
    show=lambda params: {k: params[k] for k in ("bit_width", "shape")},
    batch=ForOp(_keys_first),
)
"""Uniform unsigned integers of `bit_width` bits, `shape` of them for each key."""


# fma


def _fma_oracle(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    if x.dtype in (np.float32, np.float64):
        return primitive("fma")(x, y, z)
    return direct(np.add)(direct(np.multiply)(x, y), z)


def _fma_code(b: Builder, x: Scalar, y: Scalar, z: Scalar) -> Scalar:
    if isinstance(x, Expr):
        return b.fma(x, y, z)
    return b.add(b.mul(x, y), z)


fma = elementwise(
    "fma",
    FLOAT,
    FLOAT,
    FLOAT,
    oracle=_fma_oracle,
    scalar=_fma_code,
    exact=True,
    jvp=by_argument(lambda g, out, x, y, z: mul(g, y), lambda g, out, x, y, z: mul(x, g), lambda g, out, x, y, z: g),
    transpose=by_operand(lambda ct, x, y, z: mul(ct, y), lambda ct, x, y, z: mul(x, ct), lambda ct, x, y, z: ct),
    batch=ELEMENTWISE,
)
"""x * y + z as JAX's compiled `uniform` computes it on most CPUs: rounded once; 16 bits and fewer round the product too (where the
processor has arithmetic of float16, JAX rounds that once as well)."""
