"""What `jax.experimental` offers, as far as it is here."""

from steno.callback import io_callback as io_callback
from steno.core.on_demand import on_demand as _on_demand

__getattr__, __dir__ = _on_demand(
    __name__,
    {},
    submodules=(
        "checkify", "compilation_cache", "compute_on", "custom_partitioning", "jet", "layout", "mesh_utils", "multihost_utils", "ode",
        "overlap", "pallas", "pjit", "random", "scheduling_groups", "serialize_executable", "shard_map", "sparse", "topologies",
        "xla_metadata",
    ),
)  # fmt: skip
