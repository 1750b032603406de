# The native core (`runtime/native/*.cpp`); docs/notes/0001-interfaces.md describes it.
from typing import Any

def __getattr__(name: str) -> Any: ...
