"""`shard_map`, by its older place."""

from steno.device_mapping import shard_map as shard_map
