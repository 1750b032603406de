"""What runs programs, by the names of `jax.extend.backend`: there is one platform."""

from __future__ import annotations

from typing import Any

from steno.api import clear_caches
from steno.core.on_demand import on_demand
from steno.device import devices
from steno.places import CPU, Client, Device


def backends() -> dict[str, Client]:
    """Platforms by name."""
    return {"cpu": CPU.client}


def get_backend(platform: Any = None) -> Client:
    """The platform of that name. RuntimeError for one there is not."""
    return devices(platform)[0].client


def get_default_device() -> Device:
    """The device of new arrays."""
    return CPU


def clear_backends() -> None:
    """Forgets all programs."""
    clear_caches()


clear_in_memory_compilation_cache = clear_backends

__getattr__, __dir__ = on_demand(__name__, {})
