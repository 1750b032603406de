"""The one device, its shardings, and moving values to and from it. Everything lives in the memory of the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, final

import numpy as np

from steno._native import ArrayImpl, memory_info
from steno.core.aval import typeof
from steno.core.interpret import to_array, to_ndarray
from steno.core.trace import Tracer, install_methods
from steno.tree_util import tree_leaves, tree_map


@final
class Client:
    """What devices say they belong to."""

    platform = "cpu"
    platform_version = "steno"
    runtime_type = "steno"

    def devices(self) -> list[Device]:
        return [CPU]

    def local_devices(self) -> list[Device]:
        return [CPU]

    def device_count(self) -> int:
        return 1

    def process_index(self) -> int:
        return 0


@final
class Device:
    """A CPU. There is one object of this class."""

    id = 0
    platform = "cpu"
    device_kind = "cpu"
    process_index = 0
    host_id = 0
    task_id = 0
    local_hardware_id = 0
    client = Client()

    def memory_stats(self) -> dict[str, int] | None:
        return dict(memory_info())

    def __repr__(self) -> str:
        return "CpuDevice(id=0)"

    def __str__(self) -> str:
        return "cpu:0"

    def __reduce__(self) -> Any:
        return _the_device, ()


CPU: Final = Device()


def _the_device() -> Device:
    return CPU


class Sharding:
    """Where an array lies. With one device all shardings are equivalent."""

    device_set = frozenset({CPU})
    addressable_devices = device_set
    is_fully_replicated = True
    is_fully_addressable = True
    num_devices = 1
    memory_kind = "device"

    def is_equivalent_to(self, other: Any, ndim: int) -> bool:
        return isinstance(other, Sharding)

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        return tuple(global_shape)

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Device, tuple[slice, ...]]:
        return {CPU: (slice(None),) * len(global_shape)}

    addressable_devices_indices_map = devices_indices_map


@final
class SingleDeviceSharding(Sharding):
    """On one device."""

    def __init__(self, device: Device, *, memory_kind: str | None = None) -> None:
        if device is not CPU:
            raise ValueError(f"SingleDeviceSharding: expected a device, got {device!r}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SingleDeviceSharding)

    def __hash__(self) -> int:
        return hash(SingleDeviceSharding)

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={CPU!r}, memory_kind=device)"


@final
class PartitionSpec(tuple):
    """How the axes of an array are laid over the axes of a mesh: a tuple of names, tuples of names, and None."""

    def __new__(cls, *partitions: Any) -> PartitionSpec:
        return tuple.__new__(cls, partitions)

    def __repr__(self) -> str:
        return f"PartitionSpec{tuple.__repr__(self)}"

    def __reduce__(self) -> Any:
        return PartitionSpec, tuple(self)


P = PartitionSpec


@final
class Mesh:
    """A mesh of devices with named axes; here every axis has size 1."""

    def __init__(self, devices: Any, axis_names: Any, axis_types: Any = None) -> None:
        self.devices = np.asarray(devices, dtype=object)
        self.axis_names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        if self.devices.ndim != len(self.axis_names):
            raise ValueError(
                f"Mesh requires the ndim of its devices ({self.devices.ndim}) to equal the number of axis names {self.axis_names}"
            )
        self._entered = 0

    @property
    def shape(self) -> dict[str, int]:
        return dict(zip(self.axis_names, self.devices.shape, strict=True))

    @property
    def size(self) -> int:
        return self.devices.size

    empty = False

    def __enter__(self) -> Mesh:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mesh) and self.shape == other.shape

    def __hash__(self) -> int:
        return hash((self.axis_names, self.devices.shape))

    def __repr__(self) -> str:
        return f"Mesh({', '.join(f'{n!r}: {s}' for n, s in self.shape.items())})"


@final
class NamedSharding(Sharding):
    """By a mesh and a PartitionSpec."""

    def __init__(self, mesh: Mesh, spec: PartitionSpec, *, memory_kind: str | None = None) -> None:
        for names in spec:
            for name in names if isinstance(names, tuple) else (names,):
                if name is not None and name not in mesh.axis_names:
                    raise ValueError(f"Resource axis: {name} of {spec!r} is not found in mesh: {mesh.axis_names}.")
        self.mesh, self.spec = mesh, spec

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedSharding) and self.mesh == other.mesh and self.spec == other.spec

    def __hash__(self) -> int:
        return hash((self.mesh, self.spec))

    def __repr__(self) -> str:
        return f"NamedSharding(mesh={self.mesh!r}, spec={self.spec!r}, memory_kind=device)"


def make_mesh(axis_shapes: Sequence[int], axis_names: Sequence[str], axis_types: Any = None, *, devices: Any = None) -> Mesh:
    """A mesh of the one device. ValueError if the shape asks for more."""
    if int(np.prod(axis_shapes)) != 1:
        raise ValueError(f"make_mesh: a mesh of shape {tuple(axis_shapes)} needs {int(np.prod(axis_shapes))} devices, there is one")
    return Mesh(np.full(tuple(axis_shapes), CPU, dtype=object), axis_names)


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


def _check_device(device: Any, fun: str) -> None:
    if device is None or isinstance(device, Device | Sharding):
        return
    if device == "cpu":
        return
    raise ValueError(f"{fun} argument must be a device, a sharding or None, got {device!r} of type {type(device)}")


def put(x: Any) -> Any:
    """One value as an array; a tracer stays, a number becomes a weakly typed array. TypeError for what is no array."""
    if isinstance(x, ArrayImpl | Tracer):
        if isinstance(x, ArrayImpl) and x.is_deleted():
            x._value  # noqa: B018 - raises, saying that the array has been deleted
        return x
    aval = typeof(x)
    convert = getattr(type(x), "__jax_array__", None)
    return put(convert(x)) if convert is not None else to_array(to_ndarray(x), aval)


def device_put(x: Any, device: Any = None, *, src: Any = None, donate: Any = False, may_alias: Any = None) -> Any:
    """The tree with its leaves as arrays. NumPy arrays are copied; arrays are immutable and shared, unless `donate` is true: then the
    result is a copy and the array given is deleted. `device`: the device, a sharding, or a tree of those (there is only one place to put
    things)."""
    for d in tree_leaves(device, is_leaf=lambda d: d is None or isinstance(d, Device | Sharding)):
        _check_device(d, "device_put")
    donated = donate if isinstance(donate, bool) else any(tree_leaves(donate))

    def leaf(v: Any) -> Any:
        y = put(v)
        if donated and y is v and isinstance(v, ArrayImpl):
            y = to_array(to_ndarray(v), v.aval)
            v.delete()
        elif may_alias is False and y is v and isinstance(v, ArrayImpl):
            y = to_array(to_ndarray(v), v.aval)
        return y

    return tree_map(leaf, x)


def device_get(x: Any) -> Any:
    """The tree with its arrays as NumPy arrays; other leaves stay."""

    def leaf(v: Any) -> Any:
        return np.asarray(v) if isinstance(v, ArrayImpl | Tracer) else v

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
    """Arrays are in host memory already; returns the tree."""
    return x


_SHARDING: Final = SingleDeviceSharding(CPU)


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


def _to_device(self: Any, device: Any, *, stream: Any = None) -> Any:
    """The array on a device (the one it is on)."""
    if stream is not None:
        raise NotImplementedError("to_device: stream is not supported")
    _check_device(device, "to_device")
    return self


install_methods(
    {
        "sharding": property(lambda self: _SHARDING, doc="Where the array lies."),
        "device": property(lambda self: CPU, doc="The array's device."),
        "devices": lambda self: {CPU},
        "committed": property(lambda self: False),
        "is_fully_addressable": property(lambda self: True),
        "is_fully_replicated": property(lambda self: True),
        "platform": lambda self: "cpu",
        "to_device": _to_device,
    }
)
install_methods(
    {
        "addressable_shards": property(lambda self: [Shard(self)]),
        "global_shards": property(lambda self: [Shard(self)]),
        "addressable_data": lambda self, index: self,
    },
    (ArrayImpl,),
)
