"""JAX's `nn`: activation functions, softmax and its relatives, attention, initializers."""

from __future__ import annotations

from steno.core.on_demand import on_demand as _on_demand
from steno.nn import initializers as initializers
from steno.nn.activations import (
    celu as celu,
    elu as elu,
    gelu as gelu,
    hard_sigmoid as hard_sigmoid,
    hard_silu as hard_silu,
    hard_swish as hard_swish,
    hard_tanh as hard_tanh,
    identity as identity,
    leaky_relu as leaky_relu,
    log1mexp as log1mexp,
    log_sigmoid as log_sigmoid,
    mish as mish,
    relu as relu,
    relu6 as relu6,
    selu as selu,
    sigmoid as sigmoid,
    silu as silu,
    soft_sign as soft_sign,
    softplus as softplus,
    sparse_plus as sparse_plus,
    sparse_sigmoid as sparse_sigmoid,
    squareplus as squareplus,
    swish as swish,
    tanh as tanh,
)
from steno.nn.along_axes import (
    glu as glu,
    log_softmax as log_softmax,
    logmeanexp as logmeanexp,
    logsumexp as logsumexp,
    one_hot as one_hot,
    softmax as softmax,
    standardize as standardize,
)
from steno.nn.attention import dot_product_attention as dot_product_attention, scaled_matmul as scaled_matmul

__getattr__, __dir__ = _on_demand(__name__, {"scaled_dot": ("get_scaled_dot_general_config", "scaled_dot_general")})
