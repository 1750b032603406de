"""Dtypes, by the names of `jax.dtypes`."""

from ml_dtypes import bfloat16 as bfloat16

from steno.core.dtypes import canonicalize_dtype as canonicalize_dtype
from steno.core.dtypes import extended as extended
from steno.core.dtypes import finfo as finfo
from steno.core.dtypes import float0 as float0
from steno.core.dtypes import iinfo as iinfo
from steno.core.dtypes import issubdtype as issubdtype
from steno.core.dtypes import itemsize_bits as itemsize_bits
from steno.core.dtypes import prng_key as prng_key
from steno.core.dtypes import result_type as result_type
from steno.core.dtypes import scalar_type_of as scalar_type_of
from steno.core.errors import TypePromotionError as TypePromotionError
