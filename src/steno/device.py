"""Devices, moving values to and from them, and what arrays say of where they lie. Everything lives in the memory of the CPU."""

from __future__ import annotations

import importlib
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final, final

import numpy as np

from steno._native import ArrayImpl
from steno.core import dtypes
from steno.core.aval import typeof
from steno.core.errors import UnexpectedTracerError
from steno.core.interpret import to_array, to_ndarray
from steno.core.pytree import broadcast_prefix, check_prefix
from steno.core.trace import Tracer, install_methods
from steno.places import (
    CPU as CPU,
    Client,
    Device as Device,
    Sharding as Sharding,
    SingleDeviceSharding as SingleDeviceSharding,
    all_devices,
)
from steno.tree_util import tree_leaves, tree_map


def devices(backend: Any = None) -> list[Device]:
    """The devices of a platform (`"cpu"`). RuntimeError for a platform there is not.

    >>> steno.devices()
    [CpuDevice(id=0)]
    """
    if backend not in (None, "cpu") and not isinstance(backend, Client):
        raise RuntimeError(
            f"Unknown backend: '{backend}' requested, but no platforms that are instances of {backend} are present. "
            "Platforms present are: cpu"
        )
    return all_devices()


def local_devices(process_index: int | None = None, backend: Any = None, host_id: int | None = None) -> list[Device]:
    """The devices of this process."""
    return devices(backend)


def default_backend() -> str:
    """The platform that runs programs: "cpu"."""
    return "cpu"


def device_count(backend: Any = None) -> int:
    """How many devices there are."""
    return len(devices(backend))


def local_device_count(backend: Any = None) -> int:
    """How many devices this process has: all."""
    return len(devices(backend))


def process_index(backend: Any = None) -> int:
    """The number of this process: 0, there being one."""
    return 0


def process_count(backend: Any = None) -> int:
    """How many processes there are: one."""
    return 1


def process_indices(backend: Any = None) -> list[int]:
    """The numbers of the processes: 0."""
    return [0]


def host_id(backend: Any = None) -> int:
    """`process_index`, by an older name."""
    return 0


def host_ids(backend: Any = None) -> list[int]:
    """`process_indices`, by an older name."""
    return [0]


def host_count(backend: Any = None) -> int:
    """`process_count`, by an older name."""
    return 1


def _mesh() -> Any:
    """`steno.mesh`, which few programs need."""
    return importlib.import_module("steno.mesh")


def _place(device: Any, fun: str) -> Sharding | None:
    """What a user may write for a place. ValueError for anything else."""
    if device is None or isinstance(device, Sharding):
        return device
    if isinstance(device, Device):
        return _SHARDING if device is CPU else SingleDeviceSharding(device)
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
    check_prefix(f"device_put {name}", marked, full)
    return [entry.value for entry in broadcast_prefix(marked, full)]


def device_put(x: Any, device: Any = None, *, src: Any = None, donate: Any = False, may_alias: Any = None) -> Any:
    """The tree with its leaves as arrays. NumPy arrays are copied; arrays are immutable and shared, unless `donate` is true: then the
    result is a copy and the array given is deleted.

    device      the device, a sharding, a PartitionSpec of the mesh that is set, or a tree of those, which is one for the upper part of the
                tree of values. There is one memory, where arrays lie whole; the array says what was asked for: `x.sharding`
    may_alias   False: always a copy
    ValueError for what is no place, and for trees that do not fit.

    >>> steno.device_put({'a': 1.0})
    {'a': Array(1., dtype=float32, weak_type=True)}
    """
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
        raise ValueError("device_put: may_alias and donate cannot be True at the same time: a value that is given away is not shared")
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
    """The array of this shape whose part on each device is `data_callback(index)`: called once for each part. ValueError if the shapes
    differ."""
    shape = tuple(shape)
    parts: dict[Any, tuple[tuple[slice, ...], Any]] = {}
    for index in sharding.devices_indices_map(shape).values():
        if (key := _bounds(index, shape)) not in parts:
            part = data_callback(index)
            if isinstance(part, Tracer):
                raise UnexpectedTracerError(
                    "jax.make_array_from_callback cannot be called within a traced context where the callback gives a traced array, whose "
                    "parts are not known"
                )
            parts[key] = index, put(part if dtype is None else np.asarray(part, dtypes.as_dtype(dtype)))
    return device_put(_assembled("make_array_from_callback", shape, list(parts.values())), sharding)


def _bounds(index: Sequence[slice], shape: Sequence[int]) -> tuple[Any, ...]:
    return tuple(i.indices(n) for i, n in zip(index, shape, strict=True))


def _assembled(fun: str, shape: tuple[int, ...], parts: Sequence[tuple[tuple[slice, ...], Any]]) -> Any:
    """The array of these parts. ValueError for a part of another shape than its index has."""
    for index, part in parts:
        wanted = tuple(len(range(*b)) for b in _bounds(index, shape))
        if part.shape != wanted:
            raise ValueError(
                f"{fun}: Expected shard shape {wanted} doesn't match the single device array shape {part.shape}, at {index} of an array of "
                f"shape {shape}"
            )
    if len(parts) == 1:
        return parts[0][1]
    first = parts[0][1]
    whole = np.empty(shape, to_ndarray(first).dtype)
    for index, part in parts:
        whole[index] = to_ndarray(part)
    return to_array(whole, first.aval.update(shape=shape))


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
    """The array made of its parts on each device, in the order of the devices. TypeError if `arrays` is no sequence of arrays, ValueError
    for parts that do not fit."""
    if not isinstance(arrays, list | tuple):
        raise TypeError(f"jax.make_array_from_single_device_arrays `arrays` argument must be a list or tuple of arrays, got {type(arrays)}")
    if any(isinstance(x, Tracer) for x in arrays):
        raise ValueError("jax.make_array_from_single_device_arrays requires a list of concrete arrays, got traced ones")
    if not arrays and dtype is None:
        raise ValueError("make_array_from_single_device_arrays: without arrays the dtype must be given")
    where = sharding.devices_indices_map(tuple(shape))
    if len(arrays) != len(where):
        raise ValueError(f"make_array_from_single_device_arrays: {len(where)} devices need an array each, got {len(arrays)}")
    for x in arrays:
        if not isinstance(x, ArrayImpl):
            raise TypeError(f"make_array_from_single_device_arrays: expected arrays, got {type(x)}")
        if len(x.devices()) != 1:
            raise ValueError(f"make_array_from_single_device_arrays: arrays must lie on one device, got one on {len(x.devices())}")
        if x.dtype != arrays[0].dtype or (dtype is not None and dtypes.as_dtype(dtype) != x.dtype):
            wanted = dtypes.name(arrays[0].dtype if dtype is None else dtypes.as_dtype(dtype))
            raise ValueError(f"make_array_from_single_device_arrays: expected arrays of dtype {wanted}, got {x.aval}")
    by_device = {x.device: x for x in arrays if isinstance(x.device, Device)}
    ordered = [by_device[d] for d in where] if by_device.keys() == where.keys() else arrays
    parts = list({_bounds(i, shape): (i, x) for i, x in zip(where.values(), ordered, strict=True)}.values())
    return device_put(_assembled("make_array_from_single_device_arrays", tuple(shape), parts), sharding)


def device_get(x: Any) -> Any:
    """The tree with its arrays as NumPy arrays; keys and other leaves stay.

    >>> steno.device_get(jnp.arange(3))
    array([0, 1, 2], dtype=int32)
    """

    def leaf(v: Any) -> Any:
        return np.asarray(v) if isinstance(v, ArrayImpl | Tracer) and not dtypes.is_key(v.dtype) else v

    return tree_map(leaf, x)


def block_until_ready(x: Any) -> Any:
    """Waits until every array in the tree is computed; returns the tree.

    >>> steno.block_until_ready(jnp.ones(2))
    Array([1., 1.], dtype=float32)
    """
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
    """The tree laid out otherwise. Arrays lie whole in one memory, so that known ones only say so, and traced ones stay as they are.
    ValueError for a PartitionSpec while no mesh is set."""
    as_sharding = _mesh().as_sharding
    places = [as_sharding(s, "reshard") for s in _entries("out_shardings", out_shardings, xs)]
    leaves = iter(places)

    def leaf(v: Any) -> Any:
        place = next(leaves)
        y = put(v)
        place.check_compatible_aval(y.shape)
        return _placed(y, place) if type(y) is ArrayImpl else y

    return tree_map(leaf, xs)


def places_of(fun: str, xs: Any, out_shardings: Any) -> list[Sharding | None]:
    """Where the leaves of the tree are to lie. ValueError for what does not fit."""
    return [_place(s, fun) for s in _entries("out_shardings", out_shardings, xs)]


def laid_out(fun: str, xs: Any, out_shardings: Any) -> Any:
    """The tree, whose known arrays say that they lie so, where `out_shardings` says anything. ValueError for what does not fit."""
    places = iter(places_of(fun, xs, out_shardings))

    def leaf(v: Any) -> Any:
        place = next(places)
        if place is not None and type(v) is ArrayImpl:
            place.check_compatible_aval(v.shape)
            return _placed(v, place)
        return v

    return tree_map(leaf, xs)


_SHARDING: Final = SingleDeviceSharding(CPU)
_places: Final[dict[int, tuple[weakref.ref[Any], Sharding]]] = {}
"""Where arrays were put that were put somewhere, by their ids."""


def placed_like(x: Any, other: Any) -> Any:
    """A known array, which says that it lies where `other`, an array of its shape, was put, if that was put somewhere."""
    found = _places.get(id(other))
    return x if found is None or type(x) is not ArrayImpl or x.shape != other.shape else _placed(x, found[1])


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
    """The part of an array on one device. `replica_id` counts the devices that have the same part."""

    def __init__(self, device: Device, index: tuple[slice, ...], replica_id: int, data: Any) -> None:
        self.device, self.index, self.replica_id, self.data = device, index, replica_id, data

    def __repr__(self) -> str:
        return f"Shard(device={self.device!r}, index={self.index}, replica_id={self.replica_id}, data={self.data})"


def _shards_of(x: Any) -> list[Shard]:
    place = _sharding_of(x)
    if place is _SHARDING:
        return [Shard(CPU, (slice(None),) * x.ndim, 0, x)]
    replicas: dict[Any, int] = {}
    out = []
    for device, index in place.devices_indices_map(x.shape).items():
        key = _bounds(index, x.shape)
        replica = replicas[key] = replicas.get(key, -1) + 1
        part = x if all(i == slice(None) for i in index) else x[index]
        out.append(Shard(device, index, replica, _placed(part, SingleDeviceSharding(device))))
    return out


def _device_of(x: Any) -> Any:
    place = _sharding_of(x) if type(x) is ArrayImpl else _SHARDING
    return place._device_assignment[0] if place.num_devices == 1 else place


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
        "device": property(_device_of, doc="The array's device; its sharding, if it is on several."),
        "devices": lambda self: _sharding_of(self).device_set if type(self) is ArrayImpl else {CPU},
        "committed": property(lambda self: id(self) in _places, doc="Whether the array was put somewhere by device_put."),
        "is_fully_addressable": property(lambda self: True),
        "is_fully_replicated": property(lambda self: type(self) is not ArrayImpl or _sharding_of(self).is_fully_replicated),
        "platform": lambda self: "cpu",
        "format": property(_format_of, doc="Where and how the array lies."),
        "to_device": _to_device,
    }
)
install_methods(
    {
        "addressable_shards": property(_shards_of, doc="The parts of the array, one for each device."),
        "global_shards": property(_shards_of, doc="The parts of the array, one for each device."),
        "addressable_data": lambda self, index: _shards_of(self)[index].data,
        "_committed": property(lambda self: id(self) in _places),
        "_check_if_deleted": _check_if_deleted,
        "__reduce__": lambda self: (_unpickled, (self._value, self.aval)),
    },
    (ArrayImpl,),
)
