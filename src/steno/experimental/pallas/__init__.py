"""Kernels over blocks of arrays, by the names of `jax.experimental.pallas`: what is for any machine. They are compiled as loops."""

from steno.core import config as _config
from steno.core.on_demand import on_demand as _on_demand
from steno.experimental.pallas.blocks import (
    ANY as ANY,
    BlockDim as BlockDim,
    Blocked as Blocked,
    BlockSpec as BlockSpec,
    Buffered as Buffered,
    CostEstimate as CostEstimate,
    Element as Element,
    GridSpec as GridSpec,
    MemoryRef as MemoryRef,
    MemorySpace as MemorySpace,
    RevisitMode as RevisitMode,
    Squeezed as Squeezed,
    no_block_spec as no_block_spec,
    squeezed as squeezed,
)
from steno.experimental.pallas.calls import (
    align_to as align_to,
    broadcast_to as broadcast_to,
    cdiv as cdiv,
    debug_check as debug_check,
    debug_print as debug_print,
    delay as delay,
    empty as empty,
    empty_like as empty_like,
    empty_ref_like as empty_ref_like,
    loop as loop,
    multiple_of as multiple_of,
    next_power_of_2 as next_power_of_2,
    num_programs as num_programs,
    pallas_call as pallas_call,
    program_id as program_id,
    run_scoped as run_scoped,
    run_state as run_state,
    strides_from_shape as strides_from_shape,
    when as when,
    with_scoped as with_scoped,
)
from steno.mesh import Space as _Space
from steno.numpy.dslice import Slice as Slice, ds as ds, dslice as dslice

HOST = _Space.Host
enable_debug_checks = _config.pallas_enable_debug_checks
enable_poison_buffers = _config.pallas_poison_buffers

__getattr__, __dir__ = _on_demand(__name__, {})
