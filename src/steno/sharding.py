"""Shardings, by the names of `jax.sharding`. There is one device, so that they only say so."""

from steno.device import (
    Mesh as Mesh,
    NamedSharding as NamedSharding,
    PartitionSpec as PartitionSpec,
    Sharding as Sharding,
    SingleDeviceSharding as SingleDeviceSharding,
)
