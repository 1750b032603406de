# Made by `make stubs`.
from typing import Any, NamedTuple

class Rotation(NamedTuple):
    quat: Any
class Slerp(NamedTuple):
    times: Any
    timedelta: Any
    rotations: Any
    rotvecs: Any
