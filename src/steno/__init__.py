"""steno: JAX's programming model on the CPU, with a compiler of its own."""

import gc as _gc
import importlib as _importlib

# What an import makes stays: looking through it for garbage would be a tenth of the time.
_collecting = _gc.isenabled()
_gc.disable()
try:
    from steno import (
        dtypes as dtypes,
        errors as errors,
        lax as lax,
        numpy as numpy,
        ops as ops,
        sharding as sharding,
        stages as stages,
        tree as tree,
        tree_util as tree_util,
        typing as typing,
    )
    from steno.api import (
        clear_caches as clear_caches,
        disable_jit as disable_jit,
        eval_shape as eval_shape,
        explain_cache_misses as explain_cache_misses,
        jit as jit,
        make_jaxpr as make_jaxpr,
        named_call as named_call,
    )
    from steno.core.aval import typeof as typeof
    from steno.core.config import (
        check_tracer_leaks as check_tracer_leaks,
        checking_leaks as checking_leaks,
        config as config,
        debug_infs as debug_infs,
        debug_key_reuse as debug_key_reuse,
        debug_nans as debug_nans,
        default_device as default_device,
        default_matmul_precision as default_matmul_precision,
        default_prng_impl as default_prng_impl,
        enable_checks as enable_checks,
        enable_custom_prng as enable_custom_prng,
        enable_x64 as enable_x64,
        legacy_prng_key as legacy_prng_key,
        log_compiles as log_compiles,
        no_tracing as no_tracing,
        numpy_dtype_promotion as numpy_dtype_promotion,
        numpy_rank_promotion as numpy_rank_promotion,
        softmax_custom_jvp as softmax_custom_jvp,
        threefry_partitionable as threefry_partitionable,
        transfer_guard as transfer_guard,
    )
    from steno.core.dtypes import float0 as float0
    from steno.core.on_demand import on_demand as _on_demand
    from steno.core.trace import Array as Array, ensure_compile_time_eval as ensure_compile_time_eval, named_scope as named_scope
    from steno.device import (
        Device as Device,
        block_until_ready as block_until_ready,
        copy_to_host_async as copy_to_host_async,
        default_backend as default_backend,
        device_count as device_count,
        device_get as device_get,
        device_put as device_put,
        devices as devices,
        host_count as host_count,
        host_id as host_id,
        host_ids as host_ids,
        local_device_count as local_device_count,
        local_devices as local_devices,
        process_count as process_count,
        process_index as process_index,
        process_indices as process_indices,
    )
    from steno.stages import ShapeDtypeStruct as ShapeDtypeStruct
    from steno.version import __version__ as __version__, __version_info__ as __version_info__
finally:
    if _collecting:
        if not _gc.get_freeze_count():  # there and back: all that is young counts as old
            _gc.freeze()
            _gc.unfreeze()
        _gc.enable()

__getattr__, __dir__ = _on_demand(
    __name__,
    {
        "ad_checkpoint": ("checkpoint", "checkpoint_policies", "remat"),
        "callback": ("effects_barrier", "pure_callback"),
        "core.config": (
            "allow_f16_reductions", "array_garbage_collection_guard", "auto_pcast", "explicit_x64_dtypes", "make_user_context",
            "no_execution", "remove_size_one_mesh_axis_from_type", "thread_guard", "transfer_guard_device_to_device",
            "transfer_guard_device_to_host", "transfer_guard_host_to_device",
        ),
        "custom_derivatives": ("closure_convert", "custom_gradient", "custom_jvp", "custom_vjp"),
        "derivatives": ("jvp", "linear_transpose", "linearize", "vjp"),
        "device": (
            "Shard", "make_array_from_callback", "make_array_from_process_local_data", "make_array_from_single_device_arrays", "reshard",
        ),
        "device_mapping": ("pmap", "shard_map", "smap"),
        "environment": ("CompilerEffortLevel", "Inline", "print_environment_info"),
        "gradients": ("fwd_and_bwd", "grad", "hessian", "jacfwd", "jacobian", "jacrev", "value_and_grad"),
        "live": ("live_arrays",),
        "mapping": ("vmap",),
        "mesh": ("NamedSharding", "P", "get_abstract_mesh", "get_mesh", "make_mesh", "set_mesh", "use_abstract_mesh"),
        "numpy.dslice": ("ds",),
        "ref": ("Ref", "empty_ref", "free_ref", "freeze", "new_ref"),
    },
    submodules=(
        "ad", "ad_checkpoint", "api_util", "core", "custom_batching", "custom_derivatives", "debug", "distributed", "dlpack",
        "experimental", "export", "extend", "flatten_util", "interpreters", "lib", "memory", "monitoring", "nn", "profiler",
        "random", "ref", "scipy", "test_util", "version",
    ),
)  # fmt: skip


def _segment_function(name: str) -> object:
    """`jax.ops` has the name of the package of ops. Its functions are built on the faces, so they are put there from here, on first use."""
    if name not in ("segment_max", "segment_min", "segment_prod", "segment_sum"):
        raise AttributeError(f"module 'steno.ops' has no attribute {name!r}")
    value = getattr(_importlib.import_module("steno.indexed_folds"), name)
    setattr(ops, name, value)
    return value


ops.__getattr__ = _segment_function
