from typing import TypeVar

from steno.experimental.checkify import *  # noqa: F403
from steno.experimental.checkify import JaxRuntimeError as JaxException  # noqa: F401

Out = TypeVar("Out")
