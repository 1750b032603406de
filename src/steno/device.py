"""The one device, moving values to and from it, and what arrays say of where they lie. Everything lives in the memory of the CPU."""

from __future__ import annotations

import importlib
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final, final

import numpy as np

from steno._native import ArrayImpl
from steno.core import dtypes
from steno.core.aval import typeof
from steno.core.interpret import to_array, to_ndarray
from steno.core.pytree import broadcast_prefix, prefix_errors
from steno.core.trace import Tracer, install_methods
from steno.places import (
    CPU as CPU,
    Client,
    Device as Device,
    Sharding as Sharding,
    SingleDeviceSharding as SingleDeviceSharding,
)
from steno.tree_util import tree_leaves, tree_map


def devices(backend: Any = None) -> list[Device]:
    """The devices of a platform (`"cpu"`). RuntimeError for a platform there is not."""
    if backend not in (None, "cpu") and not isinstance(backend, Client):
        raise RuntimeError(
            f"Unknown backend: '{backend}' requested, but no platforms that are instances of {backend} are present. "
            "Platforms present are: cpu"
        )
    return [CPU]


def local_devices(process_index: int | None = None, backend: Any = None, host_id: int | None = None) -> list[Device]:
    """The devices of this process."""
    return devices(backend)


def default_backend() -> str:
    return "cpu"


def device_count(backend: Any = None) -> int:
    return len(devices(backend))


def local_device_count(backend: Any = None) -> int:
    return len(devices(backend))


def process_index(backend: Any = None) -> int:
    return 0


def process_count(backend: Any = None) -> int:
    return 1


def process_indices(backend: Any = None) -> list[int]:
    return [0]


def host_id(backend: Any = None) -> int:
    return 0


def host_ids(backend: Any = None) -> list[int]:
    return [0]


def host_count(backend: Any = None) -> int:
    return 1


def _mesh() -> Any:
    """`steno.mesh`, which few programs need."""
    return importlib.import_module("steno.mesh")


def _place(device: Any, fun: str) -> Sharding | None:
    """What a user may write for a place. ValueError for anything else."""
    if device is None or isinstance(device, Sharding):
        return device
    if isinstance(device, Device):
        return _SHARDING
    mesh = _mesh()
    if isinstance(device, mesh.PartitionSpec):
        return mesh.as_sharding(device, fun)
    if isinstance(device, mesh.Format):
        return device.sharding
    if isinstance(device, mesh.Space):
        return _SHARDING if device is mesh.Space.Any else SingleDeviceSharding(CPU, memory_kind=device.value)
    raise ValueError(f"{fun}: expected a Device, a Sharding, a PartitionSpec, a memory Space or None. Received invalid value: {device!r}")


def put(x: Any) -> Any:
    """One value as an array; a tracer stays, a number becomes a weakly typed array. TypeError for what is no array."""
    if isinstance(x, ArrayImpl | Tracer):
        if isinstance(x, ArrayImpl) and x.is_deleted():
            x._value  # noqa: B018 - raises, saying that the array has been deleted
        return x
    aval = typeof(x)
    convert = getattr(type(x), "__jax_array__", None)
    return put(convert(x)) if convert is not None else to_array(to_ndarray(x), aval)


@final
class _Given:
    """An entry of a tree of places, so that None is a leaf too."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _entries(name: str, spec: Any, full: Any) -> list[Any]:
    """The entry of `spec`, a tree or prefix of one, for each leaf of `full`. ValueError, with all paths, if it is no prefix."""
    partition = _mesh().PartitionSpec
    marked = tree_map(_Given, spec, is_leaf=lambda d: d is None or isinstance(d, partition))
    errors = [str(e(f"device_put {name}")) for e in prefix_errors(marked, full)]
    if errors:
        raise ValueError(
            f"device_put {name} must have the structure of the values, or of the upper part of it. Mismatches ({len(errors)} found):\n"
            + "\n".join(errors)
        )
    return [entry.value for entry in broadcast_prefix(marked, full)]


def device_put(x: Any, device: Any = None, *, src: Any = None, donate: Any = False, may_alias: Any = None) -> Any:
    """The tree with its leaves as arrays. NumPy arrays are copied; arrays are immutable and shared, unless `donate` is true: then the
    result is a copy and the array given is deleted.

    device      the device, a sharding, a PartitionSpec of the mesh that is set, or a tree of those, which is one for the upper part of the
                tree of values. There is only one place to put things, but the array says what was asked for: `x.sharding`
    may_alias   False: always a copy
    ValueError for what is no place, and for trees that do not fit."""
    leaves = tree_leaves(x)
    if device is None or isinstance(device, Device | Sharding):
        places = [_place(device, "device_put")] * len(leaves)
    else:
        places = [_place(d, "device_put") for d in _entries("device", device, x)]
    if src is not None:
        _entries("src", src, x)
    donated = [donate] * len(leaves) if isinstance(donate, bool) else _entries("donate", donate, x)
    alias = [may_alias] * len(leaves) if may_alias is None or isinstance(may_alias, bool) else _entries("may_alias", may_alias, x)
    if any(a is True and d for a, d in zip(alias, donated, strict=True)):
        raise ValueError("device_put: a value cannot be donated and stay shared: may_alias and donate are both True")
    given = iter(zip(places, donated, alias, strict=True))

    def leaf(v: Any) -> Any:
        place, give, share = next(given)
        y = put(v)
        if type(y) is not ArrayImpl:
            return y
        if place is not None:
            place.check_compatible_aval(y.shape)
        if give and y is v:
            y = to_array(to_ndarray(v), v.aval)
            v.delete()
        elif share is False and y is v:
            y = to_array(to_ndarray(v), v.aval)
        return y if place is None else _placed(y, place)

    return tree_map(leaf, x)


def make_array_from_callback(
    shape: Sequence[int], sharding: Sharding, data_callback: Callable[[tuple[slice, ...]], Any], dtype: Any = None
) -> Any:
    """The array of this shape whose part on each device is `data_callback(index)`: here all of it. ValueError if the shapes differ."""
    shape = tuple(shape)
    data = data_callback((slice(None),) * len(shape))
    if isinstance(data, Tracer):
        raise TypeError("make_array_from_callback: the callback must return known values, got a traced array")
    data = put(data if dtype is None else np.asarray(data, dtypes.as_dtype(dtype)))
    if data.shape != shape:
        raise ValueError(f"make_array_from_callback: the callback gave an array of shape {data.shape}, not {shape}")
    return device_put(data, sharding)


def make_array_from_process_local_data(sharding: Sharding, local_data: Any, global_shape: Any = None) -> Any:
    """The arrays of the tree of which each process has a part: here all of it. ValueError if `global_shape` says otherwise."""

    def leaf(data: Any, shape: Any) -> Any:
        y = put(data)
        wanted = y.shape if shape is None else tuple(n if s is None else s for s, n in zip(shape, y.shape, strict=True))
        if wanted != y.shape:
            raise ValueError(f"make_array_from_process_local_data: with one process the data has the global shape {wanted}, got {y.shape}")
        return device_put(y, sharding)

    if global_shape is None or all(n is None or hasattr(type(n), "__index__") for n in global_shape):
        return tree_map(lambda v: leaf(v, global_shape), local_data)
    return tree_map(leaf, local_data, global_shape, is_leaf=lambda v: v is None)


def make_array_from_single_device_arrays(shape: Sequence[int], sharding: Sharding, arrays: Sequence[Any], *, dtype: Any = None) -> Any:
    """The array made of its parts on each device: here one of the same shape. TypeError if `arrays` is no sequence of arrays."""
    if not isinstance(arrays, list | tuple):
        raise TypeError(f"make_array_from_single_device_arrays: `arrays` must be a list or tuple of arrays, got {type(arrays)}")
    if any(isinstance(x, Tracer) for x in arrays):
        raise ValueError("make_array_from_single_device_arrays: the arrays must be known, got traced ones")
    if not arrays and dtype is None:
        raise ValueError("make_array_from_single_device_arrays: without arrays the dtype must be given")
    if len(arrays) != 1:
        raise ValueError(f"make_array_from_single_device_arrays: there is one device, so one array, got {len(arrays)}")
    (x,) = arrays
    if not isinstance(x, ArrayImpl):
        raise TypeError(f"make_array_from_single_device_arrays: expected arrays, got {type(x)}")
    if x.shape != tuple(shape) or (dtype is not None and dtypes.as_dtype(dtype) != x.dtype):
        wanted = f"shape {tuple(shape)}" + ("" if dtype is None else f" and dtype {dtypes.name(dtypes.as_dtype(dtype))}")
        raise ValueError(f"make_array_from_single_device_arrays: expected an array of {wanted}, got {x.aval}")
    return device_put(x, sharding)


def device_get(x: Any) -> Any:
    """The tree with its arrays as NumPy arrays; keys and other leaves stay."""

    def leaf(v: Any) -> Any:
        return np.asarray(v) if isinstance(v, ArrayImpl | Tracer) and not dtypes.is_key(v.dtype) else v

    return tree_map(leaf, x)


def block_until_ready(x: Any) -> Any:
    """Waits until every array in the tree is computed; returns the tree."""
    for v in tree_leaves(x):
        if isinstance(v, ArrayImpl):
            v.block_until_ready()
        else:
            wait = getattr(v, "block_until_ready", None)
            if wait is not None:
                wait()
    return x


def copy_to_host_async(x: Any) -> Any:
    """Arrays are in host memory already; other leaves that have a method of this name are asked. Returns the tree."""
    for v in tree_leaves(x):
        copy = None if type(v) is ArrayImpl else getattr(v, "copy_to_host_async", None)
        if copy is not None:
            copy()
    return x


def reshard(xs: Any, out_shardings: Any) -> Any:
    """The tree laid out otherwise. There is one device, so that known arrays only say so, and traced ones stay as they are. ValueError for
    a PartitionSpec while no mesh is set."""
    as_sharding = _mesh().as_sharding
    places = [as_sharding(s, "reshard") for s in _entries("out_shardings", out_shardings, xs)]
    leaves = iter(places)

    def leaf(v: Any) -> Any:
        place = next(leaves)
        y = put(v)
        place.check_compatible_aval(y.shape)
        return _placed(y, place) if type(y) is ArrayImpl else y

    return tree_map(leaf, xs)


_SHARDING: Final = SingleDeviceSharding(CPU)
_places: Final[dict[int, tuple[weakref.ref[Any], Sharding]]] = {}
"""Where arrays were put that were put somewhere, by their ids."""


def _placed(x: ArrayImpl, place: Sharding) -> ArrayImpl:
    """The array, which says that it lies there; another object over the same memory, unless it says so already."""
    i = id(x)
    found = _places.get(i)
    if found is not None and found[1] == place:
        return x
    y = x.with_aval(x.aval)
    key = id(y)
    _places[key] = weakref.ref(y, lambda _, table=_places: table.pop(key, None)), place
    return y


def _sharding_of(x: Any) -> Sharding:
    if type(x) is not ArrayImpl:
        raise AttributeError(f"a traced array has no sharding before it is computed; its type is typeof(x), {x.aval.str_short()}")
    found = _places.get(id(x)) if _places else None
    return _SHARDING if found is None else found[1]


@final
class Shard:
    """The part of an array on one device: all of it."""

    index: tuple[slice, ...]
    replica_id = 0
    device = CPU

    def __init__(self, data: Any) -> None:
        self.data, self.index = data, (slice(None),) * data.ndim

    def __repr__(self) -> str:
        return f"Shard(device={CPU!r}, index={self.index}, replica_id=0, data={self.data})"


def _format_of(x: Any) -> Any:
    return _mesh().Format.of(x.shape, _sharding_of(x))


def _to_device(self: Any, device: Any, *, stream: Any = None) -> Any:
    """The array on a device (the one it is on)."""
    if stream is not None:
        raise NotImplementedError("to_device: stream is not supported")
    place = _place(device, "to_device")
    return _placed(self, place) if place is not None and type(self) is ArrayImpl else self


def _unpickled(value: np.ndarray, aval: Any) -> ArrayImpl:
    """An array from its value; 64-bit types become 32-bit ones unless x64 is enabled."""
    dtype = aval.dtype if isinstance(aval.dtype, dtypes.KeyDType) else dtypes.canonical(aval.dtype)
    if dtype != aval.dtype:
        value, aval = value.astype(dtype), aval.update(dtype=dtype)
    return ArrayImpl.from_numpy(value, aval)


def _check_if_deleted(self: Any) -> None:
    """RuntimeError if the array has been deleted."""
    if self.is_deleted():
        self._value  # noqa: B018 - raises, saying that the array has been deleted


install_methods(
    {
        "sharding": property(_sharding_of, doc="Where the array lies."),
        "device": property(lambda self: CPU, doc="The array's device."),
        "devices": lambda self: {CPU},
        "committed": property(lambda self: id(self) in _places, doc="Whether the array was put somewhere by device_put."),
        "is_fully_addressable": property(lambda self: True),
        "is_fully_replicated": property(lambda self: True),
        "platform": lambda self: "cpu",
        "format": property(_format_of, doc="Where and how the array lies."),
        "to_device": _to_device,
    }
)
install_methods(
    {
        "addressable_shards": property(lambda self: [Shard(self)]),
        "global_shards": property(lambda self: [Shard(self)]),
        "addressable_data": lambda self, index: self,
        "_committed": property(lambda self: id(self) in _places),
        "_check_if_deleted": _check_if_deleted,
        "__reduce__": lambda self: (_unpickled, (self._value, self.aval)),
    },
    (ArrayImpl,),
)
