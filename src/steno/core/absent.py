"""The names of JAX's public modules that steno has not, with the reason: what an AttributeError says of them, and docs/api.md."""

from __future__ import annotations

from typing import Final

_MLIR = "it builds or reads MLIR, and steno compiles from jaxprs to LLVM without it"
_XLA = "it is about XLA, which steno does not use"
_DEVICES = "it is about several machines or kinds of devices, and there is one CPU"
_ACCELERATOR = "it is about GPUs or TPUs"
_INSIDE = "it is a part of the inside of JAX's transformations, which steno's are built without"
_FFI = "functions of shared libraries are not called from compiled programs; pure_callback calls Python functions"
_PROFILE = "the format of XLA's profiler is not written or read; start_trace and stop_trace write a Chrome trace"
_MADE = "it is a function made of other ops"
_ASYNC = "collectives are not asynchronous"
_CALLS = "an op that holds a function of its own is made by custom_jvp, custom_vjp or custom_vmap here"

_COMPOSED = "approx_top_k_p ragged_all_to_all_p random_gamma_p rng_bit_generator_p rng_uniform_p"

_BY_REASON: Final[dict[str, dict[str, str]]] = {
    _MLIR: {
        "interpreters.mlir": "AxisContext ConstantHandler DEVICE_TO_DEVICE_TYPE LoweringParameters LoweringResult LoweringRule "
        "LoweringRuleContext Mesh MeshAxisName ModuleContext RECV_FROM_HOST_TYPE SEND_TO_HOST_TYPE SPMDAxisContext ShapePolyLoweringState "
        "ShardingContext Token TokenSet Value aval_to_ir_type aval_to_ir_types core_call_lowering dense_int_array dense_int_elements "
        "dtype_to_ir_type emit_python_callback flatten_ir_types flatten_ir_values i32_attr i64_attr ir_attribute ir_constant ir_constants "
        "ir_tree_registry ir_type_handlers jaxpr_subcomp lower_jaxpr_to_fun lower_jaxpr_to_module lowerable_effects make_ir_context "
        "merge_mlir_modules module_to_bytecode module_to_string register_constant_handler shape_tensor token_type "
        "unflatten_ir_values_like_types ir",
        "interpreters.partial_eval": "lower_jaxpr lower_jaxpr2",
        "extend": "mlir lowering",
        "extend.mlir": "deserialize_portable_artifact hlo_to_stablehlo lower_with_sharding_in_types refine_polymorphic_shapes "
        "serialize_portable_artifact",
        "experimental": "source_mapper fused buffer_callback",
        "experimental.pallas": "lower_as_mlir pallas_export_experimental",
    },
    _XLA: {
        "interpreters.xla": "Backend",
        "interpreters.pxla": "create_compile_options",
        "extend": "xla ifrt_programs",
        "extend.backend": "backend_xla_version get_compile_options register_backend_factory register_backend_cache",
        "extend.sharding": "GSPMDSharding get_hlo_sharding_from_serialized_proto get_op_sharding_from_serialized_proto "
        "get_serialized_proto_from_hlo_sharding",
        "experimental": "roofline profiler",
        "lib": "xla_client xla_bridge xla_extension",
    },
    _DEVICES: {
        "experimental": "colocated_python transfer array_serialization",
        "experimental.custom_partitioning": "custom_partitioning_p",
        "": "thread_resources",
    },
    _ACCELERATOR: {
        "experimental": "mosaic rnn thunky",
        "experimental.pallas": "BoundedSlice CompilerParams Indirect estimate_cost fuser get_global kernel mosaic_gpu ops select_ref "
        "semaphore semaphore_read semaphore_signal semaphore_wait tpu tpu_sc triton",
        "extend": "pallas",
    },
    _INSIDE: {
        "interpreters.ad": "jvp linearize",
        "interpreters.batching": "batch_subtrace register_vmappable unregister_vmappable",
        "interpreters.partial_eval": "JaxprTracer Val custom_partial_eval_rules dce_jaxpr_call_rule dce_jaxpr_closed_call_rule "
        "new_eqn_recipe partial_eval_jaxpr_custom_rules",
        "interpreters": "traceback_util",
        "extend.core": "AbstractToken TraceTag",
        "extend.source_info_util": "NameStack SourceInfo current_name_stack extend_name_stack new_name_stack new_source_info "
        "reset_name_stack set_name_stack transform_name_stack user_context",
        "experimental": "hijax EArray primal_tangent_dtype key_reuse",
        "debug": "DebugEffect OrderedDebugEffect",
        "custom_derivatives": "remat_opt_p",
        "ad_checkpoint": "checkpoint_name_fwd",
    },
    _FFI: {
        "": "ffi",
        "ffi": "abstract_token build_ffi_lowering_function ffi_call ffi_lowering include_dir pycapsule register_ffi_target "
        "register_ffi_target_as_batch_partitionable register_ffi_type register_ffi_type_id",
    },
    _PROFILE: {
        "profiler": "ProfileData ProfileEvent ProfileLine ProfileOptions ProfilePlane device_memory_profile export_profile_data "
        "register_subprocess save_device_memory_profile start_server stop_server",
    },
    _CALLS: {
        "extend.core": "create_call_primitive eval_jaxpr_transpose register_call_primitive_rules",
        "extend.core.primitives": "create_call_primitive eval_jaxpr_transpose register_call_primitive_rules",
    },
    "sparse arrays are computed with gathers and scatters, not by ops of their own": {
        "experimental.sparse": "bcoo_dot_general_p bcoo_dot_general_sampled_p bcoo_extract_p bcoo_fromdense_p bcoo_sort_indices_p "
        "bcoo_spdot_general_p bcoo_sum_duplicates_p bcoo_todense_p bcoo_transpose_p bcsr_dot_general_p "
        "bcsr_extract_p bcsr_fromdense_p bcsr_todense_p coo_fromdense_p coo_matmat_p coo_matvec_p "
        "coo_todense_p csr_fromdense_p csr_matmat_p csr_matvec_p csr_todense_p todense_p",
    },
    "sparse arrays are not convolved, and not gathered from at traced positions": {
        "experimental.sparse": "bcoo_conv_general_dilated bcoo_gather",
    },
    "functions are made sparse from their jaxprs, without tracers of their own": {"experimental.sparse": "SparseTracer"},
    "sparse matrices are not factorized; scipy.sparse.linalg solves with products, numpy.linalg dense ones": {
        "experimental.sparse": "linalg", "experimental.sparse.linalg": "lobpcg_standard spsolve",
    },
    "tokens hold nothing, effects being in the order of the program": {
        "lax": "after_all_p create_token_p",
        "extend.core.primitives": "after_all_p create_token_p",
    },
    "arrays lie whole in one memory, so that no op moves or lays them out": {
        "lax": "device_put_p sharding_constraint_p",
        "extend.core.primitives": "device_put_p sharding_constraint_p",
    },
    _MADE: {
        "experimental.pallas": "pallas_call_p",
        "lax": _COMPOSED,
        "extend.core.primitives": _COMPOSED,
    },
    "select_and_scatter_add and select_and_gather_add are what derivatives are made of": {
        "lax": "select_and_scatter_p",
        "extend.core.primitives": "select_and_scatter_p",
    },
    "a value becomes part of the program that uses it": {"lax": "stage_p"},
    _ASYNC: {"lax": "psum_scatter_start"},
    "arrays have one layout": {"experimental.layout": "explicit_layout"},
    "gamma numbers are drawn by loops of other ops": {"random": "random_gamma_p"},
    "it is an option of jax2tf, which converts to TensorFlow": {"": "jax2tf_associative_scan_reductions"},
}  # fmt: skip

REASONS: Final[dict[str, str]] = {
    f"{module}.{name}".lstrip("."): reason
    for reason, modules in _BY_REASON.items()
    for module, names in modules.items()
    for name in names.split()
}
"""`interpreters.ad.jvp` --> why there is no such name."""

DIFFERENCES: Final[dict[str, str]] = {
    "experimental.compute_on.compute_on": "a jitted function, which runs where all do",
    "experimental.overlap.program_order": "the function itself",
    "experimental.scheduling_groups.scheduling_group": "a jitted function",
    "custom_gradient": "`remat` and `with_accums` are refused",
    "reshard": "known arrays only say that they lie so, traced ones say nothing",
    "distributed.initialize": "there is one process: a greater `num_processes` is refused",
    "experimental.layout.Layout": "axes lie in memory in the order of C: others are refused",
    "experimental.sparse.sparsify": "`use_tracer=True` is refused, and so are ops whose result is not sparse",
    "export.export": "programs are for the CPU; `mlir_module` is refused; symbolic shapes are compiled for the sizes of each call",
    "lax.approx_max_k": "exact; the whole axis, in order, with `aggregate_to_topk=False`",
    "lax.approx_min_k": "exact; the whole axis, in order, with `aggregate_to_topk=False`",
    "lax.composite": "its calls are those of a jitted function of that name, and have derivatives",
    "lax.dce_sink": "what has no effect may be dropped all the same",
    "lax.gather": "the mode 'one_hot' is refused",
    "lax.rng_uniform": "other numbers than XLA's",
    "lax.scaled_dot": "operands are scaled in `preferred_element_type`; it has derivatives",
    "lax.with_sharding_constraint": "known arrays only say that they lie so, traced ones say nothing",
    "profiler.start_trace": "writes a Chrome trace",
    "profiler.trace": "writes a Chrome trace",
    "numpy.fromfile": "raises NotImplementedError, and so does JAX's",
    "numpy.fromiter": "raises NotImplementedError, and so does JAX's",
    "Array": "it lies whole in one memory; what is computed says that it lies on the first device, but for pmap, shard_map, reshard, "
    "out_shardings",
    "jit": "in_shardings and device are accepted and decide nothing",
    "make_mesh": "its devices are names of one CPU: config.jax_num_cpu_devices",
    "pmap": "computed side by side by one program, as vmap does",
    "shard_map": "computed side by side by one program; a result that cannot differ between devices need not be declared so",
    "typeof": "types do not say how arrays lie",
    "sharding.no_collectives": "accepted, and forbids nothing",
    "experimental.pallas.pallas_call": "a loop of the compiled program, whatever `interpret` says; it has derivatives as far as loops have",
    "experimental.custom_partitioning.custom_partitioning": "the rules are kept; nothing is cut up",
    "numpy.floor_divide": "of infinities it is the quotient, as the array API standard has it: inf // 1 is inf, -1 // inf is -0",
}
"""`device_put` --> what it does otherwise than JAX's, beyond what its parameters say."""


def reason(package: str, name: str) -> str | None:
    """Why `package` (`steno.interpreters.ad`) has not the name; None if JAX's has it not either."""
    return REASONS.get(f"{package}.{name}".removeprefix("steno.")) or REASONS.get(f"{package}.{name}".removeprefix("steno").lstrip("."))
