"""Meshes and shardings, by the names of `jax.sharding`. There is one device, so that they only say how arrays are meant to lie."""

from steno.core.on_demand import on_demand as _on_demand
from steno.device import reshard as reshard
from steno.places import Sharding as Sharding, SingleDeviceSharding as SingleDeviceSharding

__getattr__, __dir__ = _on_demand(
    __name__,
    {
        "steno.mesh": (
            "AbstractMesh", "AxisType", "Mesh", "NamedSharding", "PartitionSpec", "UnreducedKind", "get_abstract_mesh", "get_mesh",
            "make_single_device_sharding", "set_mesh", "use_abstract_mesh",
        ),
    },
)  # fmt: skip
