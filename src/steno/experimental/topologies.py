"""Which devices there are, by the names of `jax.experimental.topologies`: the ones of this process."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, final

from steno.device import Device, devices
from steno.mesh import Mesh, array_of_devices

__all__ = ["TopologyDescription", "get_attached_topology", "get_topology_desc", "make_mesh"]


@final
class TopologyDescription:
    """Devices that belong together."""

    def __init__(self, devices: Sequence[Device]) -> None:
        self.devices = list(devices)

    def __repr__(self) -> str:
        return f"TopologyDescription(devices={self.devices})"


def get_attached_topology(platform: str | None = None) -> TopologyDescription:
    """The devices of a platform. RuntimeError for one there is not."""
    return TopologyDescription(devices(platform))


def get_topology_desc(topology_name: str = "", platform: str | None = None, **kwargs: Any) -> TopologyDescription:
    """The devices of a topology that is described and not there. NotImplementedError for one with a name."""
    if topology_name or kwargs:
        raise NotImplementedError(f"get_topology_desc: there is the topology of this process alone, got {topology_name!r} and {kwargs}")
    return get_attached_topology(platform)


def make_mesh(
    topo: TopologyDescription, mesh_shape: Sequence[int], axis_names: Sequence[str], *, contiguous_submeshes: bool = False
) -> Mesh:
    """A mesh of a topology's devices. ValueError if the shape asks for more or fewer."""
    if math.prod(mesh_shape) != len(topo.devices):
        raise ValueError(f"make_mesh: a mesh of shape {tuple(mesh_shape)} needs {math.prod(mesh_shape)} devices, got {len(topo.devices)}")
    return Mesh(array_of_devices(topo.devices, mesh_shape), tuple(axis_names))
