from typing import Any

from steno.core.dtypes import KeyDType as ExtendedDType  # noqa: F401 - what dtypes that are none of NumPy's are
from steno.dtypes import *  # noqa: F403
from steno.dtypes import TypePromotionError as TypePromotionError, extended as extended, finfo as finfo, issubdtype as issubdtype

DType = Any
