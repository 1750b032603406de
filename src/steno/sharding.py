"""Meshes and shardings, by the names of `jax.sharding`. Arrays lie whole in one memory: these say how they are meant to lie."""

from steno.core.on_demand import on_demand as _on_demand
from steno.device import reshard as reshard
from steno.places import Sharding as Sharding, SingleDeviceSharding as SingleDeviceSharding

__getattr__, __dir__ = _on_demand(
    __name__,
    {
        "steno.axis_modes": ("auto_axes", "explicit_axes"),
        "steno.core.config": ("no_collectives",),
        "steno.mesh": (
            "AbstractDevice", "AbstractMesh", "AxisType", "ManualAxisType", "Mesh", "NamedSharding", "PartitionSpec", "UnreducedKind",
            "get_abstract_mesh", "get_mesh", "make_single_device_sharding", "set_mesh", "use_abstract_mesh",
        ),
    },
)  # fmt: skip
