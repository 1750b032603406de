"""The errors users meet, by JAX's names."""

from steno.core.errors import ConcretizationTypeError as ConcretizationTypeError
from steno.core.errors import JAXIndexError as JAXIndexError
from steno.core.errors import JaxprTypeError as JaxprTypeError
from steno.core.errors import JaxRuntimeError as JaxRuntimeError
from steno.core.errors import JAXTypeError as JAXTypeError
from steno.core.errors import KeyReuseError as KeyReuseError
from steno.core.errors import MissingRule as MissingRule
from steno.core.errors import NonConcreteBooleanIndexError as NonConcreteBooleanIndexError
from steno.core.errors import TracerArrayConversionError as TracerArrayConversionError
from steno.core.errors import TracerBoolConversionError as TracerBoolConversionError
from steno.core.errors import TracerIntegerConversionError as TracerIntegerConversionError
from steno.core.errors import UnexpectedTracerError as UnexpectedTracerError
