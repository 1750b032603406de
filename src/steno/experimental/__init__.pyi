# Made by `make stubs`.
from collections.abc import Callable
from steno.experimental import checkify as checkify, compilation_cache as compilation_cache, compute_on as compute_on, custom_partitioning as custom_partitioning, jet as jet, layout as layout, mesh_utils as mesh_utils, multihost_utils as multihost_utils, ode as ode, overlap as overlap, pallas as pallas, pjit as pjit, random as random, scheduling_groups as scheduling_groups, serialize_executable as serialize_executable, shard_map as shard_map, sparse as sparse, topologies as topologies, xla_metadata as xla_metadata
from typing import Any

def io_callback(callback: Callable[..., Any], result_shape_dtypes: Any, *args: Any, sharding: Any = ..., ordered: bool = ..., **kwargs: Any) -> Any: ...
