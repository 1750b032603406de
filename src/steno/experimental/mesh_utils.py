"""Meshes for the devices there are, by the names of `jax.experimental.mesh_utils`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from steno.mesh import array_of_devices
from steno.places import all_devices

device_kind_handler_dict: Final[dict[str, Any]] = {}
"""What orders devices of a kind: CPUs stand in the order of their numbers."""


def create_device_mesh(mesh_shape: Sequence[int], devices: Any = None, **options: Any) -> np.ndarray:
    """All devices, or those given, as an array of this shape. ValueError if the shape asks for more or fewer."""
    given = all_devices() if devices is None else list(devices)
    if math.prod(mesh_shape) != len(given):
        raise ValueError(f"create_device_mesh: a mesh of shape {tuple(mesh_shape)} needs {math.prod(mesh_shape)} devices, got {len(given)}")
    return array_of_devices(given, mesh_shape)


def create_hybrid_device_mesh(mesh_shape: Sequence[int], dcn_mesh_shape: Sequence[int], devices: Any = None, **options: Any) -> np.ndarray:
    """`create_device_mesh` of the products of the two shapes."""
    return create_device_mesh([a * b for a, b in zip(mesh_shape, dcn_mesh_shape, strict=True)], devices)
