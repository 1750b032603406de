"""The one device, and the simplest sharding: on it. Meshes and what lies on them stand in `steno.mesh`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, final

from steno._native import memory_info


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

    def local_device_count(self) -> int:
        return 1

    def process_index(self) -> int:
        return 0

    def live_executables(self) -> list[Any]:
        """The compiled programs of jitted functions."""
        return [e for programs in _programs for e in programs()]


_programs: Final[list[Callable[[], list[Any]]]] = []  # what keeps programs says so here


@final
class Memory:
    """A kind of memory; for a CPU all kinds are the same memory."""

    process_index = 0
    platform = "cpu"

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def attached_devices(self) -> list[Device]:
        return [CPU]

    def __repr__(self) -> str:
        return f"CpuDeviceMemory(kind={self.kind!r})"


_MEMORIES: Final = {kind: Memory(kind) for kind in ("device", "pinned_host", "unpinned_host")}


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

    def memory(self, kind: str) -> Memory:
        """The memory of that kind. ValueError for one there is not."""
        if kind not in _MEMORIES:
            raise ValueError(f"{self!r} has no memory of kind {kind!r}; there are {', '.join(_MEMORIES)}")
        return _MEMORIES[kind]

    def default_memory(self) -> Memory:
        return _MEMORIES["device"]

    def addressable_memories(self) -> list[Memory]:
        return list(_MEMORIES.values())

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
    has_addressable_devices = True
    is_fully_replicated = True
    is_fully_addressable = True
    num_devices = 1
    _device_assignment = (CPU,)
    memory_kind: str | None = "device"

    def is_equivalent_to(self, other: Any, ndim: int) -> bool:
        return isinstance(other, Sharding) and self.memory_kind == other.memory_kind

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        return tuple(global_shape)

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Device, tuple[slice, ...]]:
        return {CPU: (slice(None),) * len(global_shape)}

    addressable_devices_indices_map = devices_indices_map

    def check_compatible_aval(self, shape: Sequence[int]) -> None:
        """ValueError if an array of this shape cannot lie so."""


def memory_kind_of(kind: str | None, cls: str) -> str | None:
    if kind is not None and kind not in _MEMORIES:
        raise ValueError(f"{cls}: Got invalid memory kind {kind!r}; there are {', '.join(_MEMORIES)}")
    return kind


@final
class SingleDeviceSharding(Sharding):
    """On one device."""

    def __init__(self, device: Device, *, memory_kind: str | None = None) -> None:
        if device is not CPU:
            raise ValueError(f"SingleDeviceSharding: expected a device, got {device!r}")
        self.memory_kind = memory_kind_of(memory_kind, "SingleDeviceSharding") or "device"

    def withmemory_kind_of(self, kind: str) -> SingleDeviceSharding:
        return SingleDeviceSharding(CPU, memory_kind=kind)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SingleDeviceSharding) and self.memory_kind == other.memory_kind

    def __hash__(self) -> int:
        return hash((SingleDeviceSharding, self.memory_kind))

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={CPU!r}, memory_kind={self.memory_kind})"
