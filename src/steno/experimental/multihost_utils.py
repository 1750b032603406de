"""Programs of several processes, by the names of `jax.experimental.multihost_utils`: there is one, which has everything."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from steno.core.on_demand import on_demand
from steno.device import CPU, Device, device_get, device_put
from steno.mesh import NamedSharding
from steno.tree_util import tree_map


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """The tree that the first process has, as NumPy arrays."""
    return tree_map(np.asarray, device_get(in_tree))


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """The trees of all processes, as NumPy arrays: along a new first axis, or joined along the first one."""
    return tree_map(lambda x: np.asarray(x) if tiled and np.ndim(x) else np.expand_dims(np.asarray(x), 0), device_get(in_tree))


def sync_global_devices(name: str) -> None:
    """Waits for the other processes."""


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """AssertionError if processes have different values."""


def reached_preemption_sync_point(step_id: int) -> bool:
    """Whether the processes should save their state, being about to be stopped: nobody says so here."""
    return False


class ProcessFailureError(Exception):
    """A process has failed that others depend on."""


@contextlib.contextmanager
def live_devices(devices: Sequence[Device]) -> Iterator[list[Device]]:
    """`with live_devices(devices) as alive: ...`: those of the devices whose processes run: all, as they are this process's."""
    yield list(devices)


def host_local_array_to_global_array(local_inputs: Any, global_mesh: Any, pspecs: Any) -> Any:
    """The arrays of which each process has a part."""
    return device_put(local_inputs, tree_map(lambda spec: NamedSharding(global_mesh, spec), pspecs))


def global_array_to_host_local_array(global_inputs: Any, global_mesh: Any, pspecs: Any) -> Any:
    """The parts of arrays that this process has."""
    return device_put(global_inputs, CPU)


__getattr__, __dir__ = on_demand(__name__, {})
