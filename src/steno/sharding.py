"""Meshes and shardings, by the names of `jax.sharding`. There is one device, so that they only say how arrays are meant to lie."""

from steno.core.on_demand import on_demand as _on_demand
from steno.device import reshard as reshard
from steno.mesh import (
    AbstractMesh as AbstractMesh,
    AxisType as AxisType,
    Mesh as Mesh,
    NamedSharding as NamedSharding,
    PartitionSpec as PartitionSpec,
    Sharding as Sharding,
    SingleDeviceSharding as SingleDeviceSharding,
    UnreducedKind as UnreducedKind,
    get_abstract_mesh as get_abstract_mesh,
    get_mesh as get_mesh,
    make_single_device_sharding as make_single_device_sharding,
    set_mesh as set_mesh,
    use_abstract_mesh as use_abstract_mesh,
)

__getattr__, __dir__ = _on_demand(__name__, {})
