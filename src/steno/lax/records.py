"""JAX's names for the op records: `lax.add_p` is the record of `add`."""

from __future__ import annotations

from steno.core.op import OPS
from steno.ops import (
    arithmetic,
    bitwise,
    compare,
    convert,
    cumulative,
    divisors,
    dot,
    gather,
    index,
    join,
    reduce,
    scatter,
    shape,
    sort,
    structural,
    transcendental,
    zeta,
)

# importing a family declares its ops
FAMILIES = (
    arithmetic,
    bitwise,
    compare,
    convert,
    cumulative,
    divisors,
    dot,
    gather,
    index,
    join,
    reduce,
    scatter,
    shape,
    sort,
    structural,
    transcendental,
    zeta,
)

abs_p = OPS["abs"]
acos_p = OPS["acos"]
acosh_p = OPS["acosh"]
add_p = OPS["add"]
and_p = OPS["and"]
argmax_p = OPS["argmax"]
argmin_p = OPS["argmin"]
asin_p = OPS["asin"]
asinh_p = OPS["asinh"]
atan_p = OPS["atan"]
atan2_p = OPS["atan2"]
atanh_p = OPS["atanh"]
bessel_i0e_p = OPS["bessel_i0e"]
bessel_i1e_p = OPS["bessel_i1e"]
bitcast_convert_type_p = OPS["bitcast_convert_type"]
broadcast_in_dim_p = OPS["broadcast_in_dim"]
cbrt_p = OPS["cbrt"]
ceil_p = OPS["ceil"]
clamp_p = OPS["clamp"]
clz_p = OPS["clz"]
complex_p = OPS["complex"]
concatenate_p = OPS["concatenate"]
conj_p = OPS["conj"]
convert_element_type_p = OPS["convert_element_type"]
copy_p = OPS["copy"]
cos_p = OPS["cos"]
cosh_p = OPS["cosh"]
cumlogsumexp_p = OPS["cumlogsumexp"]
cummax_p = OPS["cummax"]
cummin_p = OPS["cummin"]
cumprod_p = OPS["cumprod"]
cumsum_p = OPS["cumsum"]
digamma_p = OPS["digamma"]
div_p = OPS["div"]
dot_general_p = OPS["dot_general"]
dynamic_slice_p = OPS["dynamic_slice"]
dynamic_update_slice_p = OPS["dynamic_update_slice"]
eq_p = OPS["eq"]
eq_to_p = OPS["eq_to"]
erf_p = OPS["erf"]
erf_inv_p = OPS["erf_inv"]
erfc_p = OPS["erfc"]
exp_p = OPS["exp"]
exp2_p = OPS["exp2"]
expm1_p = OPS["expm1"]
floor_p = OPS["floor"]
gather_p = OPS["gather"]
gcd_p = OPS["gcd"]
ge_p = OPS["ge"]
gt_p = OPS["gt"]
imag_p = OPS["imag"]
integer_pow_p = OPS["integer_pow"]
iota_p = OPS["iota"]
is_finite_p = OPS["is_finite"]
le_p = OPS["le"]
le_to_p = OPS["le_to"]
lgamma_p = OPS["lgamma"]
log_p = OPS["log"]
log1p_p = OPS["log1p"]
log2_p = OPS["log2"]
logistic_p = OPS["logistic"]
lt_p = OPS["lt"]
lt_to_p = OPS["lt_to"]
max_p = OPS["max"]
min_p = OPS["min"]
mul_p = OPS["mul"]
mulhi_p = OPS["mulhi"]
ne_p = OPS["ne"]
neg_p = OPS["neg"]
nextafter_p = OPS["nextafter"]
not_p = OPS["not"]
one_minus_square_p = OPS["one_minus_square"]
optimization_barrier_p = OPS["optimization_barrier"]
or_p = OPS["or"]
pad_p = OPS["pad"]
polygamma_p = OPS["polygamma"]
polynomial_p = OPS["polynomial"]
population_count_p = OPS["population_count"]
pow_p = OPS["pow"]
real_p = OPS["real"]
reduce_p = OPS["reduce"]
reduce_and_p = OPS["reduce_and"]
reduce_max_p = OPS["reduce_max"]
reduce_min_p = OPS["reduce_min"]
reduce_or_p = OPS["reduce_or"]
reduce_precision_p = OPS["reduce_precision"]
reduce_prod_p = OPS["reduce_prod"]
reduce_sum_p = OPS["reduce_sum"]
reduce_xor_p = OPS["reduce_xor"]
rem_p = OPS["rem"]
reshape_p = OPS["reshape"]
rev_p = OPS["rev"]
round_p = OPS["round"]
rsqrt_p = OPS["rsqrt"]
scatter_p = OPS["scatter"]
scatter_add_p = OPS["scatter-add"]
scatter_max_p = OPS["scatter-max"]
scatter_min_p = OPS["scatter-min"]
scatter_mul_p = OPS["scatter-mul"]
scatter_sub_p = OPS["scatter-sub"]
select_n_p = OPS["select_n"]
shift_left_p = OPS["shift_left"]
shift_right_arithmetic_p = OPS["shift_right_arithmetic"]
shift_right_logical_p = OPS["shift_right_logical"]
sign_p = OPS["sign"]
sin_p = OPS["sin"]
sinh_p = OPS["sinh"]
slice_p = OPS["slice"]
sort_p = OPS["sort"]
split_p = OPS["split"]
sqrt_p = OPS["sqrt"]
square_p = OPS["square"]
squeeze_p = OPS["squeeze"]
stack_p = OPS["stack"]
stop_gradient_p = OPS["stop_gradient"]
sub_p = OPS["sub"]
tan_p = OPS["tan"]
tanh_p = OPS["tanh"]
tile_p = OPS["tile"]
top_k_p = OPS["top_k"]
transpose_p = OPS["transpose"]
unstack_p = OPS["unstack"]
xor_p = OPS["xor"]
zeta_p = OPS["zeta"]
