"""JAX's `lax`: operations that are strict about dtypes and shapes, each close to one op."""

from __future__ import annotations

from typing import Any, Final

from steno.lax.contraction import (
    DotAlgorithm as DotAlgorithm,
)
from steno.lax.contraction import (
    DotAlgorithmPreset as DotAlgorithmPreset,
)
from steno.lax.contraction import (
    DotDimensionNumbers as DotDimensionNumbers,
)
from steno.lax.contraction import (
    Precision as Precision,
)
from steno.lax.contraction import (
    PrecisionLike as PrecisionLike,
)
from steno.lax.contraction import (
    batch_matmul as batch_matmul,
)
from steno.lax.contraction import (
    dot as dot,
)
from steno.lax.contraction import (
    dot_general as dot_general,
)
from steno.lax.control_flow import (
    associative_scan as associative_scan,
)
from steno.lax.control_flow import (
    cond as cond,
)
from steno.lax.control_flow import (
    custom_linear_solve as custom_linear_solve,
)
from steno.lax.control_flow import (
    custom_root as custom_root,
)
from steno.lax.control_flow import (
    fori_loop as fori_loop,
)
from steno.lax.control_flow import (
    map as map,
)
from steno.lax.control_flow import (
    platform_dependent as platform_dependent,
)
from steno.lax.control_flow import (
    scan as scan,
)
from steno.lax.control_flow import (
    switch as switch,
)
from steno.lax.control_flow import (
    while_loop as while_loop,
)
from steno.lax.elementwise import (
    AccuracyMode as AccuracyMode,
)
from steno.lax.elementwise import (
    RoundingMethod as RoundingMethod,
)
from steno.lax.elementwise import (
    Tolerance as Tolerance,
)
from steno.lax.elementwise import (
    abs as abs,
)
from steno.lax.elementwise import (
    acos as acos,
)
from steno.lax.elementwise import (
    acosh as acosh,
)
from steno.lax.elementwise import (
    add as add,
)
from steno.lax.elementwise import (
    asin as asin,
)
from steno.lax.elementwise import (
    asinh as asinh,
)
from steno.lax.elementwise import (
    atan as atan,
)
from steno.lax.elementwise import (
    atan2 as atan2,
)
from steno.lax.elementwise import (
    atanh as atanh,
)
from steno.lax.elementwise import (
    bessel_i0e as bessel_i0e,
)
from steno.lax.elementwise import (
    bessel_i1e as bessel_i1e,
)
from steno.lax.elementwise import (
    bitcast_convert_type as bitcast_convert_type,
)
from steno.lax.elementwise import (
    bitwise_and as bitwise_and,
)
from steno.lax.elementwise import (
    bitwise_not as bitwise_not,
)
from steno.lax.elementwise import (
    bitwise_or as bitwise_or,
)
from steno.lax.elementwise import (
    bitwise_xor as bitwise_xor,
)
from steno.lax.elementwise import (
    cbrt as cbrt,
)
from steno.lax.elementwise import (
    ceil as ceil,
)
from steno.lax.elementwise import (
    clamp as clamp,
)
from steno.lax.elementwise import (
    clz as clz,
)
from steno.lax.elementwise import (
    complex as complex,
)
from steno.lax.elementwise import (
    conj as conj,
)
from steno.lax.elementwise import (
    convert_element_type as convert_element_type,
)
from steno.lax.elementwise import (
    cos as cos,
)
from steno.lax.elementwise import (
    cosh as cosh,
)
from steno.lax.elementwise import (
    digamma as digamma,
)
from steno.lax.elementwise import (
    div as div,
)
from steno.lax.elementwise import (
    dtype as dtype,
)
from steno.lax.elementwise import (
    eq as eq,
)
from steno.lax.elementwise import (
    erf as erf,
)
from steno.lax.elementwise import (
    erf_inv as erf_inv,
)
from steno.lax.elementwise import (
    erfc as erfc,
)
from steno.lax.elementwise import (
    exp as exp,
)
from steno.lax.elementwise import (
    exp2 as exp2,
)
from steno.lax.elementwise import (
    expm1 as expm1,
)
from steno.lax.elementwise import (
    floor as floor,
)
from steno.lax.elementwise import (
    ge as ge,
)
from steno.lax.elementwise import (
    gt as gt,
)
from steno.lax.elementwise import (
    imag as imag,
)
from steno.lax.elementwise import (
    integer_pow as integer_pow,
)
from steno.lax.elementwise import (
    is_finite as is_finite,
)
from steno.lax.elementwise import (
    le as le,
)
from steno.lax.elementwise import (
    lgamma as lgamma,
)
from steno.lax.elementwise import (
    log as log,
)
from steno.lax.elementwise import (
    log1p as log1p,
)
from steno.lax.elementwise import (
    log2 as log2,
)
from steno.lax.elementwise import (
    logistic as logistic,
)
from steno.lax.elementwise import (
    lt as lt,
)
from steno.lax.elementwise import (
    max as max,
)
from steno.lax.elementwise import (
    min as min,
)
from steno.lax.elementwise import (
    mul as mul,
)
from steno.lax.elementwise import (
    mulhi as mulhi,
)
from steno.lax.elementwise import (
    ne as ne,
)
from steno.lax.elementwise import (
    neg as neg,
)
from steno.lax.elementwise import (
    nextafter as nextafter,
)
from steno.lax.elementwise import (
    one_minus_square as one_minus_square,
)
from steno.lax.elementwise import (
    polygamma as polygamma,
)
from steno.lax.elementwise import (
    polynomial as polynomial,
)
from steno.lax.elementwise import (
    population_count as population_count,
)
from steno.lax.elementwise import (
    pow as pow,
)
from steno.lax.elementwise import (
    real as real,
)
from steno.lax.elementwise import (
    reciprocal as reciprocal,
)
from steno.lax.elementwise import (
    reduce_precision as reduce_precision,
)
from steno.lax.elementwise import (
    rem as rem,
)
from steno.lax.elementwise import (
    round as round,
)
from steno.lax.elementwise import (
    rsqrt as rsqrt,
)
from steno.lax.elementwise import (
    select as select,
)
from steno.lax.elementwise import (
    select_n as select_n,
)
from steno.lax.elementwise import (
    shift_left as shift_left,
)
from steno.lax.elementwise import (
    shift_right_arithmetic as shift_right_arithmetic,
)
from steno.lax.elementwise import (
    shift_right_logical as shift_right_logical,
)
from steno.lax.elementwise import (
    sign as sign,
)
from steno.lax.elementwise import (
    sin as sin,
)
from steno.lax.elementwise import (
    sinh as sinh,
)
from steno.lax.elementwise import (
    sqrt as sqrt,
)
from steno.lax.elementwise import (
    square as square,
)
from steno.lax.elementwise import (
    stop_gradient as stop_gradient,
)
from steno.lax.elementwise import (
    sub as sub,
)
from steno.lax.elementwise import (
    tan as tan,
)
from steno.lax.elementwise import (
    tanh as tanh,
)
from steno.lax.elementwise import (
    zeta as zeta,
)
from steno.lax.indexing import (
    GatherDimensionNumbers as GatherDimensionNumbers,
)
from steno.lax.indexing import (
    GatherScatterMode as GatherScatterMode,
)
from steno.lax.indexing import (
    ScatterDimensionNumbers as ScatterDimensionNumbers,
)
from steno.lax.indexing import (
    dynamic_index_in_dim as dynamic_index_in_dim,
)
from steno.lax.indexing import (
    dynamic_slice as dynamic_slice,
)
from steno.lax.indexing import (
    dynamic_slice_in_dim as dynamic_slice_in_dim,
)
from steno.lax.indexing import (
    dynamic_update_index_in_dim as dynamic_update_index_in_dim,
)
from steno.lax.indexing import (
    dynamic_update_slice as dynamic_update_slice,
)
from steno.lax.indexing import (
    dynamic_update_slice_in_dim as dynamic_update_slice_in_dim,
)
from steno.lax.indexing import (
    gather as gather,
)
from steno.lax.indexing import (
    index_take as index_take,
)
from steno.lax.indexing import (
    scatter as scatter,
)
from steno.lax.indexing import (
    scatter_add as scatter_add,
)
from steno.lax.indexing import (
    scatter_apply as scatter_apply,
)
from steno.lax.indexing import (
    scatter_max as scatter_max,
)
from steno.lax.indexing import (
    scatter_min as scatter_min,
)
from steno.lax.indexing import (
    scatter_mul as scatter_mul,
)
from steno.lax.indexing import (
    scatter_sub as scatter_sub,
)
from steno.lax.parallel import (
    all_gather as all_gather,
)
from steno.lax.parallel import (
    all_to_all as all_to_all,
)
from steno.lax.parallel import (
    axis_index as axis_index,
)
from steno.lax.parallel import (
    axis_size as axis_size,
)
from steno.lax.parallel import (
    pbroadcast as pbroadcast,
)
from steno.lax.parallel import (
    pcast as pcast,
)
from steno.lax.parallel import (
    pmax as pmax,
)
from steno.lax.parallel import (
    pmean as pmean,
)
from steno.lax.parallel import (
    pmin as pmin,
)
from steno.lax.parallel import (
    ppermute as ppermute,
)
from steno.lax.parallel import (
    pshuffle as pshuffle,
)
from steno.lax.parallel import (
    psum as psum,
)
from steno.lax.parallel import (
    psum_scatter as psum_scatter,
)
from steno.lax.parallel import (
    pswapaxes as pswapaxes,
)
from steno.lax.records import (
    abs_p as abs_p,
)
from steno.lax.records import (
    acos_p as acos_p,
)
from steno.lax.records import (
    acosh_p as acosh_p,
)
from steno.lax.records import (
    add_p as add_p,
)
from steno.lax.records import (
    and_p as and_p,
)
from steno.lax.records import (
    argmax_p as argmax_p,
)
from steno.lax.records import (
    argmin_p as argmin_p,
)
from steno.lax.records import (
    asin_p as asin_p,
)
from steno.lax.records import (
    asinh_p as asinh_p,
)
from steno.lax.records import (
    atan2_p as atan2_p,
)
from steno.lax.records import (
    atan_p as atan_p,
)
from steno.lax.records import (
    atanh_p as atanh_p,
)
from steno.lax.records import (
    bessel_i0e_p as bessel_i0e_p,
)
from steno.lax.records import (
    bessel_i1e_p as bessel_i1e_p,
)
from steno.lax.records import (
    bitcast_convert_type_p as bitcast_convert_type_p,
)
from steno.lax.records import (
    broadcast_in_dim_p as broadcast_in_dim_p,
)
from steno.lax.records import (
    cbrt_p as cbrt_p,
)
from steno.lax.records import (
    ceil_p as ceil_p,
)
from steno.lax.records import (
    clamp_p as clamp_p,
)
from steno.lax.records import (
    clz_p as clz_p,
)
from steno.lax.records import (
    complex_p as complex_p,
)
from steno.lax.records import (
    concatenate_p as concatenate_p,
)
from steno.lax.records import (
    cond_p as cond_p,
)
from steno.lax.records import (
    conj_p as conj_p,
)
from steno.lax.records import (
    convert_element_type_p as convert_element_type_p,
)
from steno.lax.records import (
    copy_p as copy_p,
)
from steno.lax.records import (
    cos_p as cos_p,
)
from steno.lax.records import (
    cosh_p as cosh_p,
)
from steno.lax.records import (
    cumlogsumexp_p as cumlogsumexp_p,
)
from steno.lax.records import (
    cummax_p as cummax_p,
)
from steno.lax.records import (
    cummin_p as cummin_p,
)
from steno.lax.records import (
    cumprod_p as cumprod_p,
)
from steno.lax.records import (
    cumsum_p as cumsum_p,
)
from steno.lax.records import (
    digamma_p as digamma_p,
)
from steno.lax.records import (
    div_p as div_p,
)
from steno.lax.records import (
    dot_general_p as dot_general_p,
)
from steno.lax.records import (
    dynamic_slice_p as dynamic_slice_p,
)
from steno.lax.records import (
    dynamic_update_slice_p as dynamic_update_slice_p,
)
from steno.lax.records import (
    eq_p as eq_p,
)
from steno.lax.records import (
    eq_to_p as eq_to_p,
)
from steno.lax.records import (
    erf_inv_p as erf_inv_p,
)
from steno.lax.records import (
    erf_p as erf_p,
)
from steno.lax.records import (
    erfc_p as erfc_p,
)
from steno.lax.records import (
    exp2_p as exp2_p,
)
from steno.lax.records import (
    exp_p as exp_p,
)
from steno.lax.records import (
    expm1_p as expm1_p,
)
from steno.lax.records import (
    floor_p as floor_p,
)
from steno.lax.records import (
    gather_p as gather_p,
)
from steno.lax.records import (
    ge_p as ge_p,
)
from steno.lax.records import (
    gt_p as gt_p,
)
from steno.lax.records import (
    imag_p as imag_p,
)
from steno.lax.records import (
    integer_pow_p as integer_pow_p,
)
from steno.lax.records import (
    iota_p as iota_p,
)
from steno.lax.records import (
    is_finite_p as is_finite_p,
)
from steno.lax.records import (
    le_p as le_p,
)
from steno.lax.records import (
    le_to_p as le_to_p,
)
from steno.lax.records import (
    lgamma_p as lgamma_p,
)
from steno.lax.records import (
    linear_solve_p as linear_solve_p,
)
from steno.lax.records import (
    log1p_p as log1p_p,
)
from steno.lax.records import (
    log2_p as log2_p,
)
from steno.lax.records import (
    log_p as log_p,
)
from steno.lax.records import (
    logistic_p as logistic_p,
)
from steno.lax.records import (
    lt_p as lt_p,
)
from steno.lax.records import (
    lt_to_p as lt_to_p,
)
from steno.lax.records import (
    max_p as max_p,
)
from steno.lax.records import (
    min_p as min_p,
)
from steno.lax.records import (
    mul_p as mul_p,
)
from steno.lax.records import (
    mulhi_p as mulhi_p,
)
from steno.lax.records import (
    ne_p as ne_p,
)
from steno.lax.records import (
    neg_p as neg_p,
)
from steno.lax.records import (
    nextafter_p as nextafter_p,
)
from steno.lax.records import (
    not_p as not_p,
)
from steno.lax.records import (
    one_minus_square_p as one_minus_square_p,
)
from steno.lax.records import (
    optimization_barrier_p as optimization_barrier_p,
)
from steno.lax.records import (
    or_p as or_p,
)
from steno.lax.records import (
    pad_p as pad_p,
)
from steno.lax.records import (
    polygamma_p as polygamma_p,
)
from steno.lax.records import (
    polynomial_p as polynomial_p,
)
from steno.lax.records import (
    population_count_p as population_count_p,
)
from steno.lax.records import (
    pow_p as pow_p,
)
from steno.lax.records import (
    real_p as real_p,
)
from steno.lax.records import (
    reduce_and_p as reduce_and_p,
)
from steno.lax.records import (
    reduce_max_p as reduce_max_p,
)
from steno.lax.records import (
    reduce_min_p as reduce_min_p,
)
from steno.lax.records import (
    reduce_or_p as reduce_or_p,
)
from steno.lax.records import (
    reduce_p as reduce_p,
)
from steno.lax.records import (
    reduce_precision_p as reduce_precision_p,
)
from steno.lax.records import (
    reduce_prod_p as reduce_prod_p,
)
from steno.lax.records import (
    reduce_sum_p as reduce_sum_p,
)
from steno.lax.records import (
    reduce_xor_p as reduce_xor_p,
)
from steno.lax.records import (
    rem_p as rem_p,
)
from steno.lax.records import (
    reshape_p as reshape_p,
)
from steno.lax.records import (
    rev_p as rev_p,
)
from steno.lax.records import (
    round_p as round_p,
)
from steno.lax.records import (
    rsqrt_p as rsqrt_p,
)
from steno.lax.records import (
    scan_p as scan_p,
)
from steno.lax.records import (
    scatter_add_p as scatter_add_p,
)
from steno.lax.records import (
    scatter_max_p as scatter_max_p,
)
from steno.lax.records import (
    scatter_min_p as scatter_min_p,
)
from steno.lax.records import (
    scatter_mul_p as scatter_mul_p,
)
from steno.lax.records import (
    scatter_p as scatter_p,
)
from steno.lax.records import (
    scatter_sub_p as scatter_sub_p,
)
from steno.lax.records import (
    select_n_p as select_n_p,
)
from steno.lax.records import (
    shift_left_p as shift_left_p,
)
from steno.lax.records import (
    shift_right_arithmetic_p as shift_right_arithmetic_p,
)
from steno.lax.records import (
    shift_right_logical_p as shift_right_logical_p,
)
from steno.lax.records import (
    sign_p as sign_p,
)
from steno.lax.records import (
    sin_p as sin_p,
)
from steno.lax.records import (
    sinh_p as sinh_p,
)
from steno.lax.records import (
    slice_p as slice_p,
)
from steno.lax.records import (
    sort_p as sort_p,
)
from steno.lax.records import (
    split_p as split_p,
)
from steno.lax.records import (
    sqrt_p as sqrt_p,
)
from steno.lax.records import (
    square_p as square_p,
)
from steno.lax.records import (
    squeeze_p as squeeze_p,
)
from steno.lax.records import (
    stack_p as stack_p,
)
from steno.lax.records import (
    stop_gradient_p as stop_gradient_p,
)
from steno.lax.records import (
    sub_p as sub_p,
)
from steno.lax.records import (
    tan_p as tan_p,
)
from steno.lax.records import (
    tanh_p as tanh_p,
)
from steno.lax.records import (
    tile_p as tile_p,
)
from steno.lax.records import (
    top_k_p as top_k_p,
)
from steno.lax.records import (
    transpose_p as transpose_p,
)
from steno.lax.records import (
    unstack_p as unstack_p,
)
from steno.lax.records import (
    while_p as while_p,
)
from steno.lax.records import (
    xor_p as xor_p,
)
from steno.lax.records import (
    zeta_p as zeta_p,
)
from steno.lax.reductions import (
    argmax as argmax,
)
from steno.lax.reductions import (
    argmin as argmin,
)
from steno.lax.reductions import (
    cumlogsumexp as cumlogsumexp,
)
from steno.lax.reductions import (
    cummax as cummax,
)
from steno.lax.reductions import (
    cummin as cummin,
)
from steno.lax.reductions import (
    cumprod as cumprod,
)
from steno.lax.reductions import (
    cumsum as cumsum,
)
from steno.lax.reductions import (
    reduce as reduce,
)
from steno.lax.reductions import (
    reduce_and as reduce_and,
)
from steno.lax.reductions import (
    reduce_max as reduce_max,
)
from steno.lax.reductions import (
    reduce_min as reduce_min,
)
from steno.lax.reductions import (
    reduce_or as reduce_or,
)
from steno.lax.reductions import (
    reduce_prod as reduce_prod,
)
from steno.lax.reductions import (
    reduce_sum as reduce_sum,
)
from steno.lax.reductions import (
    reduce_xor as reduce_xor,
)
from steno.lax.reductions import (
    sort as sort,
)
from steno.lax.reductions import (
    sort_key_val as sort_key_val,
)
from steno.lax.reductions import (
    top_k as top_k,
)
from steno.lax.shape import (
    broadcast as broadcast,
)
from steno.lax.shape import (
    broadcast_in_dim as broadcast_in_dim,
)
from steno.lax.shape import (
    broadcast_like as broadcast_like,
)
from steno.lax.shape import (
    broadcast_shapes as broadcast_shapes,
)
from steno.lax.shape import (
    broadcast_to_rank as broadcast_to_rank,
)
from steno.lax.shape import (
    broadcasted_iota as broadcasted_iota,
)
from steno.lax.shape import (
    collapse as collapse,
)
from steno.lax.shape import (
    concatenate as concatenate,
)
from steno.lax.shape import (
    empty as empty,
)
from steno.lax.shape import (
    expand_dims as expand_dims,
)
from steno.lax.shape import (
    full as full,
)
from steno.lax.shape import (
    full_like as full_like,
)
from steno.lax.shape import (
    index_in_dim as index_in_dim,
)
from steno.lax.shape import (
    iota as iota,
)
from steno.lax.shape import (
    optimization_barrier as optimization_barrier,
)
from steno.lax.shape import (
    pad as pad,
)
from steno.lax.shape import (
    reshape as reshape,
)
from steno.lax.shape import (
    rev as rev,
)
from steno.lax.shape import (
    shape_as_value as shape_as_value,
)
from steno.lax.shape import (
    slice as slice,
)
from steno.lax.shape import (
    slice_in_dim as slice_in_dim,
)
from steno.lax.shape import (
    split as split,
)
from steno.lax.shape import (
    squeeze as squeeze,
)
from steno.lax.shape import (
    stack as stack,
)
from steno.lax.shape import (
    tile as tile,
)
from steno.lax.shape import (
    transpose as transpose,
)
from steno.lax.shape import (
    unstack as unstack,
)

_LATER: Final = frozenset((
    "ConvDimensionNumbers", "ConvGeneralDilatedDimensionNumbers", "FftType", "RaggedDotDimensionNumbers", "RandomAlgorithm", "after_all",
    "after_all_p", "all_gather", "all_gather_p", "all_to_all", "all_to_all_p", "approx_max_k", "approx_min_k", "approx_top_k_p",
    "axis_index", "axis_index_p", "axis_size", "betainc", "composite", "conv",
    "conv_dimension_numbers", "conv_general_dilated", "conv_general_dilated_local", "conv_general_dilated_p",
    "conv_general_dilated_patches", "conv_general_permutations", "conv_general_shape_tuple", "conv_shape_tuple", "conv_transpose",
    "conv_transpose_shape_tuple", "conv_with_general_padding", "create_token", "create_token_p",
    "dce_sink", "device_put_p", "fft", "fft_p", "igamma", "igamma_grad_a", "igamma_grad_a_p", "igamma_p", "igammac",
    "igammac_p", "linalg", "padtype_to_pads", "pbroadcast", "pcast", "pmax", "pmax_p",
    "pmean", "pmin", "pmin_p", "ppermute", "ppermute_p", "pshuffle", "psum", "psum_p", "psum_scatter",
    "psum_scatter_start", "pswapaxes", "ragged_all_to_all", "ragged_all_to_all_p", "ragged_dot", "ragged_dot_general",
    "random_gamma_grad", "reduce_window", "reduce_window_max_p", "reduce_window_min_p", "reduce_window_p", "reduce_window_shape_tuple",
    "reduce_window_sum_p", "regularized_incomplete_beta_p", "rng_bit_generator", "rng_bit_generator_p", "rng_uniform", "rng_uniform_p",
    "scaled_dot", "select_and_gather_add_p", "select_and_scatter_add_p", "select_and_scatter_p",
    "sharding_constraint_p", "stage", "stage_p", "with_sharding_constraint",
))  # fmt: skip
"""JAX's names that are not here yet."""


def __getattr__(name: str) -> Any:
    if name in _LATER:
        raise AttributeError(f"steno.lax.{name} is not implemented yet")
    raise AttributeError(f"module 'steno.lax' has no attribute {name!r}")
