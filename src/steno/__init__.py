"""steno: JAX's programming model on the CPU, with a compiler of its own."""

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING

from steno import dtypes as dtypes
from steno import errors as errors
from steno import lax as lax
from steno import numpy as numpy
from steno import sharding as sharding
from steno import stages as stages
from steno import tree as tree
from steno import tree_util as tree_util
from steno import typing as typing
from steno.api import clear_caches as clear_caches
from steno.api import disable_jit as disable_jit
from steno.api import eval_shape as eval_shape
from steno.api import explain_cache_misses as explain_cache_misses
from steno.api import jit as jit
from steno.api import live_arrays as live_arrays
from steno.api import make_jaxpr as make_jaxpr
from steno.api import named_call as named_call
from steno.core.aval import typeof as typeof
from steno.core.config import check_tracer_leaks as check_tracer_leaks
from steno.core.config import checking_leaks as checking_leaks
from steno.core.config import config as config
from steno.core.config import debug_infs as debug_infs
from steno.core.config import debug_key_reuse as debug_key_reuse
from steno.core.config import debug_nans as debug_nans
from steno.core.config import default_device as default_device
from steno.core.config import default_matmul_precision as default_matmul_precision
from steno.core.config import default_prng_impl as default_prng_impl
from steno.core.config import enable_checks as enable_checks
from steno.core.config import enable_custom_prng as enable_custom_prng
from steno.core.config import enable_x64 as enable_x64
from steno.core.config import legacy_prng_key as legacy_prng_key
from steno.core.config import log_compiles as log_compiles
from steno.core.config import no_tracing as no_tracing
from steno.core.config import numpy_dtype_promotion as numpy_dtype_promotion
from steno.core.config import numpy_rank_promotion as numpy_rank_promotion
from steno.core.config import softmax_custom_jvp as softmax_custom_jvp
from steno.core.config import threefry_partitionable as threefry_partitionable
from steno.core.config import transfer_guard as transfer_guard
from steno.core.dtypes import float0 as float0
from steno.core.trace import Array as Array
from steno.core.trace import ensure_compile_time_eval as ensure_compile_time_eval
from steno.core.trace import named_scope as named_scope
from steno.custom_derivatives import closure_convert as closure_convert
from steno.custom_derivatives import custom_gradient as custom_gradient
from steno.custom_derivatives import custom_jvp as custom_jvp
from steno.custom_derivatives import custom_vjp as custom_vjp
from steno.derivatives import fwd_and_bwd as fwd_and_bwd
from steno.derivatives import grad as grad
from steno.derivatives import hessian as hessian
from steno.derivatives import jacfwd as jacfwd
from steno.derivatives import jacobian as jacobian
from steno.derivatives import jacrev as jacrev
from steno.derivatives import jvp as jvp
from steno.derivatives import linear_transpose as linear_transpose
from steno.derivatives import linearize as linearize
from steno.derivatives import value_and_grad as value_and_grad
from steno.derivatives import vjp as vjp
from steno.device import Device as Device
from steno.device import NamedSharding as NamedSharding
from steno.device import P as P
from steno.device import block_until_ready as block_until_ready
from steno.device import copy_to_host_async as copy_to_host_async
from steno.device import default_backend as default_backend
from steno.device import device_count as device_count
from steno.device import device_get as device_get
from steno.device import device_put as device_put
from steno.device import devices as devices
from steno.device import host_count as host_count
from steno.device import host_id as host_id
from steno.device import host_ids as host_ids
from steno.device import local_device_count as local_device_count
from steno.device import local_devices as local_devices
from steno.device import make_mesh as make_mesh
from steno.device import process_count as process_count
from steno.device import process_index as process_index
from steno.device import process_indices as process_indices
from steno.mapping import vmap as vmap
from steno.stages import ShapeDtypeStruct as ShapeDtypeStruct
from steno.version import __version__ as __version__
from steno.version import __version_info__ as __version_info__

if _TYPE_CHECKING:
    from steno import ad_checkpoint as ad_checkpoint
    from steno import custom_batching as custom_batching
    from steno import debug as debug
    from steno import flatten_util as flatten_util
    from steno import nn as nn
    from steno import random as random
    from steno import test_util as test_util
    from steno.ad_checkpoint import checkpoint as checkpoint
    from steno.ad_checkpoint import checkpoint_policies as checkpoint_policies
    from steno.ad_checkpoint import remat as remat
    from steno.callback import effects_barrier as effects_barrier
    from steno.callback import pure_callback as pure_callback

_ON_DEMAND = {
    **dict.fromkeys(("ad_checkpoint", "custom_batching", "debug", "flatten_util", "nn", "random", "test_util"), ""),
    **dict.fromkeys(("checkpoint", "checkpoint_policies", "remat"), "ad_checkpoint"),
    **dict.fromkeys(("effects_barrier", "pure_callback"), "callback"),
}
"""Names that are imported when they are first used, for a quick import: the submodule of that name, or a member of the one given."""


def __getattr__(name: str) -> object:
    if name not in _ON_DEMAND:
        raise AttributeError(f"module 'steno' has no attribute {name!r}")
    module = _importlib.import_module(f"steno.{_ON_DEMAND[name] or name}")
    value = globals()[name] = getattr(module, name) if _ON_DEMAND[name] else module
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_ON_DEMAND})
