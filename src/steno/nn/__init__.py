"""JAX's `nn`: activation functions, softmax and its relatives, attention, initializers."""

from __future__ import annotations

from typing import Any, Final

from steno.nn import initializers as initializers
from steno.nn.activations import celu as celu
from steno.nn.activations import elu as elu
from steno.nn.activations import gelu as gelu
from steno.nn.activations import hard_sigmoid as hard_sigmoid
from steno.nn.activations import hard_silu as hard_silu
from steno.nn.activations import hard_swish as hard_swish
from steno.nn.activations import hard_tanh as hard_tanh
from steno.nn.activations import identity as identity
from steno.nn.activations import leaky_relu as leaky_relu
from steno.nn.activations import log1mexp as log1mexp
from steno.nn.activations import log_sigmoid as log_sigmoid
from steno.nn.activations import mish as mish
from steno.nn.activations import relu as relu
from steno.nn.activations import relu6 as relu6
from steno.nn.activations import selu as selu
from steno.nn.activations import sigmoid as sigmoid
from steno.nn.activations import silu as silu
from steno.nn.activations import soft_sign as soft_sign
from steno.nn.activations import softplus as softplus
from steno.nn.activations import sparse_plus as sparse_plus
from steno.nn.activations import sparse_sigmoid as sparse_sigmoid
from steno.nn.activations import squareplus as squareplus
from steno.nn.activations import swish as swish
from steno.nn.activations import tanh as tanh
from steno.nn.along_axes import glu as glu
from steno.nn.along_axes import log_softmax as log_softmax
from steno.nn.along_axes import logmeanexp as logmeanexp
from steno.nn.along_axes import logsumexp as logsumexp
from steno.nn.along_axes import one_hot as one_hot
from steno.nn.along_axes import softmax as softmax
from steno.nn.along_axes import standardize as standardize
from steno.nn.attention import dot_product_attention as dot_product_attention
from steno.nn.attention import scaled_matmul as scaled_matmul

_LATER: Final = frozenset(("get_scaled_dot_general_config", "scaled_dot_general"))
"""JAX's names that are not here yet."""


def __getattr__(name: str) -> Any:
    if name in _LATER:
        raise AttributeError(f"steno.nn.{name} is not implemented yet")
    raise AttributeError(f"module 'steno.nn' has no attribute {name!r}")
