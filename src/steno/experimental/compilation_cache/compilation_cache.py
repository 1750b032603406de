"""The folder that keeps compiled code, by the names of `jax.experimental.compilation_cache.compilation_cache`."""

from __future__ import annotations

from steno.core.config import config


def set_cache_dir(path: str) -> None:
    """Keeps compiled code in this folder."""
    config.update("jax_compilation_cache_dir", str(path))


def reset_cache() -> None:
    """What is in the folder stays; it is read again."""
