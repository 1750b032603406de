"""Meshes for the devices there are, by the names of `jax.experimental.mesh_utils`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from steno.places import CPU

device_kind_handler_dict: Final[dict[str, Any]] = {}
"""What orders devices of a kind: CPUs stand in the order of their numbers."""


def create_device_mesh(mesh_shape: Sequence[int], devices: Any = None, **options: Any) -> np.ndarray:
    """The one device as an array of this shape. ValueError if the shape asks for more."""
    if math.prod(mesh_shape) != 1:
        raise ValueError(f"create_device_mesh: a mesh of shape {tuple(mesh_shape)} needs {math.prod(mesh_shape)} devices, there is one")
    return np.full(tuple(mesh_shape), CPU, dtype=object)


def create_hybrid_device_mesh(mesh_shape: Sequence[int], dcn_mesh_shape: Sequence[int], devices: Any = None, **options: Any) -> np.ndarray:
    """`create_device_mesh` of the products of the two shapes."""
    return create_device_mesh([a * b for a, b in zip(mesh_shape, dcn_mesh_shape, strict=True)], devices)
