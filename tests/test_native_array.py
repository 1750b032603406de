"""The native types: ShapedArray, ArrayImpl, the slots of a thread."""

from __future__ import annotations

import copy
import ctypes
import gc
import itertools
import pickle
import threading
import weakref

import ml_dtypes
import numpy as np
import pytest

from steno import _native
from steno._native import ArrayImpl, ShapedArray
from steno.core import config


class KeyDType:
    """Stands for `core.dtypes.KeyDType`."""

    name = "key<fry>"
    itemsize = 8


KEY = KeyDType()
NUMPY_DTYPES = [np.dtype(c) for c in "?bhilBHILefdFD"]
ML_DTYPES = [
    np.dtype(getattr(ml_dtypes, n)) for n in ("bfloat16", "int4", "uint4", "int2", "uint2", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn")
]
ALL_DTYPES = NUMPY_DTYPES + ML_DTYPES


def array(x, dtype=None, weak_type=False) -> ArrayImpl:
    x = np.asarray(x, dtype)
    return ArrayImpl.from_numpy(x, ShapedArray(x.shape, x.dtype, weak_type))


# ---- ShapedArray ------------------------------------------------------------------------------------------------------------


def test_avals_are_interned():
    a = ShapedArray((2, 3), np.dtype("float32"))
    assert a is ShapedArray([2, np.int64(3)], np.float32) is ShapedArray(shape=(2, 3), dtype="float32", weak_type=False)
    assert a is a.update() is pickle.loads(pickle.dumps(a)) is copy.copy(a) is copy.deepcopy([a])[0]
    assert a is not ShapedArray((2, 3), np.dtype("float32"), True)
    assert a is not ShapedArray((3, 2), np.dtype("float32"))
    assert a is not ShapedArray((2, 3), np.dtype("int32"))
    assert a.update(shape=(3,)) is ShapedArray((3,), np.float32)
    assert a.update(weak_type=True).weak_type
    assert a.update(dtype=np.int8).dtype == np.int8
    assert hash(a) == hash(ShapedArray((2, 3), np.float32))


def test_aval_attributes():
    a = ShapedArray((2, 3), ml_dtypes.bfloat16, weak_type=True)
    assert (a.shape, a.dtype, a.weak_type, a.ndim, a.size, a.itemsize, a.nbytes) == (
        (2, 3),
        np.dtype(ml_dtypes.bfloat16),
        True,
        2,
        6,
        2,
        12,
    )
    assert repr(a) == "ShapedArray(bfloat16[2,3], weak_type=True)"
    assert repr(ShapedArray((), np.float32)) == "ShapedArray(float32[])"
    k = ShapedArray((4,), KEY)
    assert k.dtype is KEY and k.nbytes == 32 and repr(k) == "ShapedArray(key<fry>[4])"
    big = ShapedArray((2**40, 2**40), np.float32)
    assert big.size == 2**80 and big.nbytes == 2**82
    assert ShapedArray((2**40, 2**40, 0), np.float32).size == 0
    with pytest.raises(AttributeError):
        a.shape = (1,)


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_aval_dtype_spellings(dtype):
    assert ShapedArray((), dtype) is ShapedArray((), dtype.type) is ShapedArray((), dtype.newbyteorder())
    assert ShapedArray((), dtype).dtype is dtype


def test_aval_errors():
    with pytest.raises(TypeError, match="1D sequences of concrete values of integer type"):
        ShapedArray((1.5,), np.float32)
    with pytest.raises(TypeError):
        ShapedArray(3, np.float32)
    with pytest.raises(ValueError, match="negative"):
        ShapedArray((-1,), np.float32)
    with pytest.raises(TypeError):
        ShapedArray((1,), 7)
    with pytest.raises(TypeError, match="unexpected keyword"):
        ShapedArray((1,), np.float32, colour=None)
    with pytest.raises(TypeError, match="shape and dtype"):
        ShapedArray((1,))


def test_avals_die():
    a = ShapedArray((123, 457), np.float32)
    r = weakref.ref(a)
    del a
    assert r() is None
    for _ in range(3):
        many = [ShapedArray((k, 3), np.int16) for k in range(5000)]
        assert all(m is ShapedArray((k, 3), np.int16) for k, m in enumerate(many))


def test_methods_can_be_attached(monkeypatch):
    """Undone afterwards: arrays that have their operators already must keep them."""
    monkeypatch.setattr(ShapedArray, "answer", lambda self: self.ndim + 42, raising=False)
    monkeypatch.setattr(ArrayImpl, "__add__", lambda self, other: ("add", other), raising=False)
    assert ShapedArray((1,), np.int8).answer() == 43
    assert array(1.0) + 2 == ("add", 2)


# ---- ArrayImpl --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 2), (1, 1, 2)], ids=str)
def test_round_trip(dtype, shape):
    x = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    a = array(x)
    for y in (a._value, np.asarray(a), np.array(a), a.__array__()):
        assert y.dtype == dtype and y.shape == shape
        np.testing.assert_array_equal(y, x)
    assert not a._value.flags.writeable and not np.asarray(a).flags.writeable and np.array(a).flags.writeable
    assert a._value.ctypes.data == a.unsafe_buffer_pointer() and a.unsafe_buffer_pointer() % 64 == 0
    assert (a.shape, a.dtype, a.ndim, a.size, a.itemsize, a.nbytes, a.weak_type) == (
        shape,
        dtype,
        x.ndim,
        x.size,
        x.itemsize,
        x.nbytes,
        False,
    )
    assert a.on_device_size_in_bytes() == x.nbytes
    assert a.tolist() == x.tolist()
    with config.enable_x64(True):
        loaded = pickle.loads(pickle.dumps(a))
    for b in (loaded, copy.copy(a), copy.deepcopy(a)):
        assert b.aval is a.aval
        assert b.unsafe_buffer_pointer() != a.unsafe_buffer_pointer()
        np.testing.assert_array_equal(b._value, x)


def test_from_numpy_makes_contiguous_and_native():
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for y in (x.T, x[:, ::-1, ::2], x.astype(">f4"), np.broadcast_to(x[:1], (5, 3, 4))):
        np.testing.assert_array_equal(ArrayImpl.from_numpy(y, ShapedArray(y.shape, np.float32))._value, y)
    a = array(x)
    x[:] = 0
    assert a._value.sum() == 276


def test_from_numpy_errors():
    with pytest.raises(ValueError, match="float32"):
        ArrayImpl.from_numpy(np.ones(3), ShapedArray((3,), np.float32))
    with pytest.raises(ValueError):
        ArrayImpl.from_numpy(np.ones(3, np.int32), ShapedArray((3,), np.float32))
    with pytest.raises(ValueError):
        ArrayImpl.from_numpy(np.ones(3, np.float32), ShapedArray((4,), np.float32))
    with pytest.raises(TypeError, match="ShapedArray"):
        ArrayImpl.from_numpy(np.ones(3), 3)
    with pytest.raises(TypeError, match="cannot create"):
        ArrayImpl()
    with pytest.raises(MemoryError):
        ArrayImpl.from_numpy(np.broadcast_to(np.float32(0), (2**45,)), ShapedArray((2**45,), np.float32))


def test_keys():
    data = np.arange(6, dtype=np.uint32).reshape(3, 2)
    k = ArrayImpl.from_numpy(data, ShapedArray((3,), KEY))
    assert k._value.dtype == np.uint32 and k._value.shape == (3, 2) and len(k) == 3
    np.testing.assert_array_equal(k._value, data)
    with pytest.raises(TypeError, match="PRNGKey dtype cannot be converted"):
        np.asarray(k)
    one = ArrayImpl.from_numpy(data[0], ShapedArray((), KEY))
    for f in (bool, int, float, complex, lambda x: x.item(), lambda x: x.tolist(), memoryview, lambda x: [1][x]):
        with pytest.raises((TypeError, BufferError)):
            f(one)


def test_adopt():
    x = np.arange(5, dtype=np.float32)
    a = ArrayImpl.adopt(x, ShapedArray((5,), np.float32))
    assert a.unsafe_buffer_pointer() == x.ctypes.data
    r = weakref.ref(x)
    del x
    assert r() is not None
    np.testing.assert_array_equal(a._value, np.arange(5))
    del a
    assert r() is None
    y = np.arange(10, dtype=np.float32)[::2]
    b = ArrayImpl.adopt(y, ShapedArray((5,), np.float32))
    y[:] = 0
    assert b._value[4] == 8
    with pytest.raises(ValueError):
        ArrayImpl.adopt(y[::1].copy(), ShapedArray((6,), np.float32))


def test_with_aval():
    a = array(np.arange(6, dtype=np.float32))
    b = a.with_aval(ShapedArray((2, 3), np.int32, True))
    assert b.unsafe_buffer_pointer() == a.unsafe_buffer_pointer() and b.weak_type and b.shape == (2, 3)
    a.delete()
    assert b._value.view(np.float32)[1, 2] == 5
    with pytest.raises(ValueError):
        b.with_aval(ShapedArray((2, 2), np.int32))


def test_array_protocol_of_numpy():
    a = array([1.0, 2.0], np.float32)
    assert np.asarray(a, np.float64).dtype == np.float64
    assert a.__array__(np.int32).tolist() == [1, 2]
    assert a.__array__(copy=True).flags.writeable and not a.__array__(copy=False).flags.writeable
    with pytest.raises(ValueError, match="Unable to avoid copy"):
        a.__array__(np.int32, copy=False)
    b = array([1.0, 2.0], ml_dtypes.bfloat16)
    assert np.asarray(b).dtype == ml_dtypes.bfloat16 and np.asarray(b, np.float32).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_buffer_protocol(dtype):
    x = np.ones((2, 3), dtype)
    a = array(x)
    if dtype in ML_DTYPES:
        with pytest.raises(BufferError, match=f"{dtype.name} are not supported"):
            memoryview(a)
        return
    m, n = memoryview(a), memoryview(x)
    assert (m.format, m.shape, m.strides, m.itemsize, m.nbytes, m.readonly, m.c_contiguous) == (
        n.format,
        (2, 3),
        n.strides,
        n.itemsize,
        n.nbytes,
        True,
        True,
    )
    assert bytes(m) == bytes(n)
    a.delete()
    assert bytes(m) == bytes(n)
    with pytest.raises(BufferError, match="deleted"):
        memoryview(a)
    with pytest.raises((BufferError, TypeError)):
        ctypes.c_char.from_buffer(array(x))


SCALARS = [
    (True, np.bool_),
    (-3, np.int8),
    (200, np.uint8),
    (2**63, np.uint64),
    (-7, ml_dtypes.int4),
    (1.5, np.float16),
    (1.5, ml_dtypes.bfloat16),
    (2.5, np.float32),
    (2.5, np.float64),
    (0.5, ml_dtypes.float8_e4m3fn),
    (1 + 2j, np.complex64),
    (1 + 2j, np.complex128),
]


@pytest.mark.parametrize("value,dtype", SCALARS, ids=lambda x: getattr(x, "__name__", str(x)))
def test_scalar_conversions(value, dtype):
    a = array(value, dtype)
    assert a.item() == value and type(a.item()) is type(value)
    assert bool(a) is True and complex(a) == value
    if isinstance(value, complex):
        for f in (int, float):
            with pytest.raises(TypeError, match="complex"):
                f(a)
    else:
        assert float(a) == float(value) and int(a) == int(value)
    if type(value) is int:
        assert a.__index__() == value
    else:
        with pytest.raises(TypeError, match="Only integer scalar arrays can be converted to a scalar index"):
            a.__index__()


def test_scalar_conversion_errors():
    v = array([1.0, 2.0])
    for f in (int, float, complex):
        with pytest.raises(TypeError, match=r"Only scalar arrays can be converted to Python scalars; got arr.ndim=1"):
            f(v)
        with pytest.raises(TypeError, match=r"got arr.ndim=2"):
            f(array([[1.0]]))
    with pytest.raises(ValueError, match="more than one element is ambiguous"):
        bool(v)
    with pytest.raises(ValueError, match="truth value of an empty array is ambiguous"):
        bool(array([]))
    assert bool(array([[1]])) and not bool(array(np.float32(0)))
    with pytest.raises(ValueError, match="can only convert an array of size 1"):
        v.item()
    assert v.item(1) == 2.0 and array([[5]]).item() == 5
    with pytest.raises(ValueError, match="NaN"):
        int(array(np.nan))
    with pytest.raises(OverflowError):
        int(array(np.inf))
    with pytest.raises(TypeError, match="unsized"):
        len(array(1))
    with pytest.raises(TypeError, match="unhashable type: 'steno._native.ArrayImpl'"):
        hash(v)
    with pytest.raises(TypeError):
        array([1, 2]).__index__()
    assert [10, 20][array(1)] == 20


def test_delete():
    a = array([1.0, 2.0, 3.0], np.float32)
    view, r = a._value, weakref.ref(a)
    assert not a.is_deleted() and a.block_until_ready() is a and a.copy_to_host_async() is None
    a.delete()
    a.delete()
    assert a.is_deleted() and a.shape == (3,) and len(a) == 3 and view.tolist() == [1, 2, 3]
    for f in (
        np.asarray,
        pickle.dumps,
        copy.copy,
        lambda x: x._value,
        lambda x: x.item(),
        lambda x: x.tolist(),
        lambda x: x.block_until_ready(),
        lambda x: x.unsafe_buffer_pointer(),
        lambda x: x.with_aval(x.aval),
        lambda x: x.copy_to_host_async(),
    ):
        with pytest.raises(RuntimeError, match=r"Array has been deleted with shape=float32\[3\]\."):
            f(a)
    del a
    assert r() is None


def test_memory_used_again_and_again_holds_what_was_written():
    """Large blocks move into huge pages after some reuses; two are in use in turn, each with its own values."""
    x = np.arange(1 << 20, dtype=np.float32)
    before, addresses = array(x), set()
    for k in range(40):
        a = array(x * k)
        addresses.add(a.unsafe_buffer_pointer())
        np.testing.assert_array_equal(np.asarray(before), x * max(k - 1, 0) if k else x)
        before = a
    np.testing.assert_array_equal(np.asarray(before), x * 39)
    assert len(addresses) <= 3


def test_freed_memory_has_room_for_arrays_of_other_sizes():
    """What is freed joins its neighbours again, in whatever order it is freed."""
    mb = 1 << 18  # elements
    _native.trim_pool()
    large = array(np.zeros(16 * mb, np.float32))
    start = large.unsafe_buffer_pointer()
    del large
    for order in itertools.permutations(range(3)):
        parts = [array(np.full(size * mb, size, np.float32)) for size in (2, 4, 6)]
        addresses = [p.unsafe_buffer_pointer() for p in parts]
        assert all(start <= a < start + (16 << 20) for a in addresses) and len(set(addresses)) == 3
        for size, p in zip((2, 4, 6), parts, strict=True):
            assert (np.asarray(p) == size).all()
        del p
        for k in order:
            parts[k] = None
        assert _native.memory_info()["cached"] >= 16 << 20
    again = array(np.zeros(16 * mb, np.float32))
    assert again.unsafe_buffer_pointer() == start


def test_the_limit_of_what_waits_holds_for_parts_of_ranges():
    _native.trim_pool()
    limit = _native.memory_info()["limit"]
    a, b = (array(np.zeros(1 << 20, np.float32)) for _ in range(2))
    try:
        _native.set_pool_limit(6 << 20)
        del a
        assert 4 << 20 <= _native.memory_info()["cached"] <= 6 << 20
        del b
        assert _native.memory_info()["cached"] <= 6 << 20
        assert (np.asarray(array(np.arange(1 << 20))) == np.arange(1 << 20)).all()
    finally:
        _native.set_pool_limit(limit)


def test_memory_is_reused_and_bounded():
    _native.trim_pool()
    before = _native.memory_info()["in_use"]
    a = array(np.zeros(1 << 20, np.float32))
    p = a.unsafe_buffer_pointer()
    assert _native.memory_info()["in_use"] >= before + (4 << 20)
    del a
    assert _native.memory_info()["in_use"] == before
    b = array(np.zeros(1 << 20, np.float32))
    assert b.unsafe_buffer_pointer() == p
    limit = _native.memory_info()["limit"]
    try:
        _native.set_pool_limit(1 << 20)
        del b
        assert _native.memory_info()["cached"] < 4 << 20
    finally:
        _native.set_pool_limit(limit)
    with pytest.raises(ValueError):
        _native.set_pool_limit(-1)


def test_no_leaks():
    x = np.arange(1000, dtype=np.float32)
    aval = ShapedArray(x.shape, x.dtype)
    gc.collect()
    before = _native.memory_info()["in_use"]
    for _ in range(50):
        a = ArrayImpl.from_numpy(x, aval)
        memoryview(a), a._value, np.asarray(a), copy.copy(a), pickle.loads(pickle.dumps(a)), a.with_aval(aval.update(weak_type=True))
    del a
    assert _native.memory_info()["in_use"] == before


# ---- the slots of a thread ----------------------------------------------------------------------------------------------------


def test_trace_slot_is_thread_local():
    t = object()
    assert _native.current_trace() is None
    assert _native.swap_trace(t) is None
    seen = []
    thread = threading.Thread(target=lambda: seen.append(_native.current_trace()))
    thread.start()
    thread.join()
    assert seen == [None] and _native.current_trace() is t
    assert _native.swap_trace(None) is t and _native.current_trace() is None


def test_config_tokens_are_interned():
    a, b = ("x64", 1), tuple(["x64", 1])
    assert a is not b
    assert _native.swap_config_token(a) is None
    assert _native.swap_config_token(b) is a
    assert _native.config_token() is a
    assert _native.swap_config_token(None) is a and _native.config_token() is None
    with pytest.raises(TypeError):
        _native.swap_config_token([])
    previous = _native.swap_global_config_token(b)
    assert _native.global_config_token() is a
    assert _native.swap_global_config_token(previous) is a


# ---- DLPack -------------------------------------------------------------------------------------------------------------------

DLPACK_ML = [np.dtype(getattr(ml_dtypes, n)) for n in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float8_e3m4")]


@pytest.mark.parametrize("dtype", NUMPY_DTYPES + DLPACK_ML, ids=str)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 2)], ids=str)
def test_dlpack_round_trip(dtype, shape):
    a = array(np.ones(shape, dtype))
    assert a.__dlpack_device__() == (1, 0)
    b = _native.from_dlpack(a)
    assert b.aval is a.aval and b.unsafe_buffer_pointer() == a.unsafe_buffer_pointer()
    if dtype in NUMPY_DTYPES:
        n = np.from_dlpack(a)
        assert n.dtype == dtype and n.shape == shape and not n.flags.writeable and n.ctypes.data == a.unsafe_buffer_pointer()
    c = _native.from_dlpack(a, copy=True)
    assert c.unsafe_buffer_pointer() != a.unsafe_buffer_pointer()
    a.delete()
    np.testing.assert_array_equal(b._value, np.ones(shape, dtype))


def test_dlpack_from_numpy():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    r = weakref.ref(x)
    a = _native.from_dlpack(x)
    assert a.unsafe_buffer_pointer() == x.ctypes.data
    for view in (x.T, x[::2], x[:, 1:3], x[::-1], x[:, ::-2], np.broadcast_to(x[0], (3, 4)), x[1:], x[:0]):
        np.testing.assert_array_equal(_native.from_dlpack(view)._value, view)
    assert _native.from_dlpack(x[1:], copy=False).unsafe_buffer_pointer() == x[1:].ctypes.data
    with pytest.raises(ValueError, match="row-major"):
        _native.from_dlpack(x.T, copy=False)
    b = _native.from_dlpack(x, copy=True)
    x[0, 0] = 100
    assert b._value[0, 0] == 0 and a._value[0, 0] == 100
    del x, view
    assert r() is not None
    del a
    assert r() is None


def test_dlpack_misaligned():
    x = np.frombuffer(b"x" + np.float32([1, 2, 3]).tobytes(), np.uint8)[1:].view(np.float32)
    assert not x.flags.aligned
    a = _native.from_dlpack(x)
    assert a.unsafe_buffer_pointer() % 64 == 0 and a._value.tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="aligned"):
        _native.from_dlpack(x, copy=False)

    class Old:  # a producer of before max_version
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self):
            return np.arange(3).__dlpack__()

    assert _native.from_dlpack(Old())._value.tolist() == [0, 1, 2]


def test_dlpack_errors():
    a = array([1.0, 2.0])
    with pytest.raises(ValueError, match="stream"):
        a.__dlpack__(stream=1)
    with pytest.raises(BufferError, match="device"):
        a.__dlpack__(dl_device=(2, 0))
    with pytest.raises(TypeError):
        a.__dlpack__(1)
    with pytest.raises(TypeError):
        a.__dlpack__(max_version=3)
    for name in ("int4", "uint2", "float4_e2m1fn"):
        with pytest.raises(BufferError, match=f"{name} have no DLPack"):
            array(np.ones(2, getattr(ml_dtypes, name))).__dlpack__()
    with pytest.raises(BufferError):
        ArrayImpl.from_numpy(np.zeros(2, np.uint32), ShapedArray((), KEY)).__dlpack__()
    with pytest.raises(TypeError, match="must have __dlpack__ and __dlpack_device__"):
        _native.from_dlpack(3)
    with pytest.raises(TypeError, match="must have __dlpack__ and __dlpack_device__"):
        _native.from_dlpack(np.ones(3).__dlpack__())
    with pytest.raises(BufferError):
        _native.from_dlpack(np.ones(3, np.longdouble))

    class Elsewhere:
        def __dlpack_device__(self):
            return (2, 0)

        def __dlpack__(self, **_):
            raise AssertionError

    with pytest.raises(BufferError, match=r"device \(2, 0\)"):
        _native.from_dlpack(Elsewhere())

    class Broken(Elsewhere):
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **_):
            return 3

    with pytest.raises(TypeError, match="no unused DLPack capsule"):
        _native.from_dlpack(Broken())
    a.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        a.__dlpack__()


def test_dlpack_capsules_are_released():
    gc.collect()
    before = _native.memory_info()["in_use"]
    a = array(np.zeros(1000, np.float32))
    for version in (None, (1, 0)):
        a.__dlpack__(max_version=version)
        a.__dlpack__(max_version=version, copy=True)
    n = np.from_dlpack(a)
    del a
    assert n[999] == 0
    del n
    assert _native.memory_info()["in_use"] == before
