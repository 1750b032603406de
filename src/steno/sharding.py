"""Shardings, by the names of `jax.sharding`. There is one device, so that they only say so."""

from steno.device import Mesh as Mesh
from steno.device import NamedSharding as NamedSharding
from steno.device import PartitionSpec as PartitionSpec
from steno.device import Sharding as Sharding
from steno.device import SingleDeviceSharding as SingleDeviceSharding
