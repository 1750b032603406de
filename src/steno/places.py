"""Devices, and the simplest sharding: on one of them. Meshes and what lies on them stand in `steno.mesh`.

There is one memory, that of the CPU, and every array lies in it whole. So devices are names: `jax_num_cpu_devices` says how many there are,
arrays say on which of them they are meant to lie, and functions over devices (`pmap`, `shard_map`) compute what each of them would."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Final, final

from steno._native import memory_info
from steno.core.config import config


@final
class Client:
    """What devices say they belong to."""

    platform = "cpu"
    platform_version = "steno"
    runtime_type = "steno"

    def devices(self) -> list[Device]:
        return all_devices()

    def local_devices(self) -> list[Device]:
        return all_devices()

    def device_count(self) -> int:
        return len(all_devices())

    def local_device_count(self) -> int:
        return len(all_devices())

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
        return all_devices()

    def __repr__(self) -> str:
        return f"CpuDeviceMemory(kind={self.kind!r})"


_MEMORIES: Final = {kind: Memory(kind) for kind in ("device", "pinned_host", "unpinned_host")}


@final
class Device:
    """A CPU device. Devices of equal numbers are one object."""

    platform = "cpu"
    device_kind = "cpu"
    process_index = 0
    host_id = 0
    task_id = 0
    client = Client()

    def __init__(self, number: int) -> None:
        self.id = self.local_hardware_id = number

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
        return f"CpuDevice(id={self.id})"

    def __str__(self) -> str:
        return f"cpu:{self.id}"

    def __reduce__(self) -> Any:
        return _device, (self.id,)


CPU: Final = Device(0)
_DEVICES: Final = [CPU]


def _device(number: int) -> Device:
    while len(_DEVICES) <= number:
        _DEVICES.append(Device(len(_DEVICES)))
    return _DEVICES[number]


def _forced() -> int:
    """How many devices XLA_FLAGS asks for, as programs for JAX do it."""
    option = "--xla_force_host_platform_device_count="
    counts = [w.removeprefix(option) for w in os.environ.get("XLA_FLAGS", "").split() if w.startswith(option)]
    return int(counts[-1]) if counts and counts[-1].isdigit() else 1


def all_devices() -> list[Device]:
    """The devices there are: as many as `jax_num_cpu_devices`, or else XLA_FLAGS, says."""
    given = config._state.num_cpu_devices
    count = max(given if given != -1 else _forced(), 1)
    _device(count - 1)
    return _DEVICES[:count]


class Sharding:
    """Where an array lies: on `_device_assignment`, on each of these a part. Final classes say which: `devices_indices_map`."""

    _device_assignment: tuple[Device, ...] = (CPU,)
    memory_kind: str | None = "device"
    has_addressable_devices = True
    is_fully_addressable = True

    @property
    def device_set(self) -> set[Device]:
        return set(self._device_assignment)

    @property
    def addressable_devices(self) -> set[Device]:
        return self.device_set

    @property
    def num_devices(self) -> int:
        return len(self._device_assignment)

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device has the whole array."""
        return self.num_devices == 1

    def parts(self, ndim: int) -> tuple[int, ...]:
        """Into how many parts each axis is cut. ValueError for a rank that does not fit."""
        return (1,) * ndim

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Device, tuple[slice, ...]]:
        """For each device the index of its part of an array of this shape."""
        return dict.fromkeys(self._device_assignment, (slice(None),) * len(global_shape))

    def addressable_devices_indices_map(self, global_shape: Sequence[int]) -> dict[Device, tuple[slice, ...]]:
        return self.devices_indices_map(global_shape)

    def is_equivalent_to(self, other: Any, ndim: int) -> bool:
        """Whether both lay out arrays of this rank alike."""
        if self == other:
            return True
        if not isinstance(other, Sharding) or self.memory_kind != other.memory_kind or self.num_devices != other.num_devices:
            return False
        parts = self.parts(ndim)
        return parts == other.parts(ndim) and self.devices_indices_map(parts) == other.devices_indices_map(parts)

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of each part. ValueError if an axis cannot be cut into equal parts."""
        self.check_compatible_aval(global_shape)
        return tuple(n // k for n, k in zip(global_shape, self.parts(len(global_shape)), strict=True))

    def check_compatible_aval(self, shape: Sequence[int]) -> None:
        """ValueError if an array of this shape cannot lie so."""
        for axis, (n, k) in enumerate(zip(shape, self.parts(len(shape)), strict=True)):
            if n % k:
                raise ValueError(
                    f"{self!r} implies that axis {axis} is partitioned {k} times, but its size {n} (of the shape {tuple(shape)}) is not "
                    f"divisible by {k}"
                )


def memory_kind_of(kind: str | None, cls: str) -> str | None:
    if kind is not None and kind not in _MEMORIES:
        raise ValueError(f"{cls}: Got invalid memory kind {kind!r}; there are {', '.join(_MEMORIES)}")
    return kind


@final
class SingleDeviceSharding(Sharding):
    """On one device."""

    def __init__(self, device: Device, *, memory_kind: str | None = None) -> None:
        if not isinstance(device, Device):
            raise ValueError(f"SingleDeviceSharding: expected a device, got {device!r}")
        self._device_assignment = (device,)
        self.memory_kind = memory_kind_of(memory_kind, "SingleDeviceSharding") or "device"

    def with_memory_kind(self, kind: str) -> SingleDeviceSharding:
        return SingleDeviceSharding(self._device_assignment[0], memory_kind=kind)

    def _key(self) -> tuple[Any, ...]:
        return self._device_assignment, self.memory_kind

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SingleDeviceSharding) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self._device_assignment[0]!r}, memory_kind={self.memory_kind})"
