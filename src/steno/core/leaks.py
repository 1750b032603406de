"""Who keeps an object alive, in words: for messages about values that should be gone."""

from __future__ import annotations

import gc
import types
from collections.abc import Sequence
from typing import Any, Final

from steno.core import source

_DEPTH: Final = 5
_CONTAINERS: Final = (list, tuple, set, frozenset, dict)


def holders(x: Any, ignored: Sequence[Any] = (), depth: int = _DEPTH) -> list[str]:
    """What refers to `x`, but for frames of this package and the objects `ignored`: `a list, held by the global saved of __main__`."""
    referrers = gc.get_referrers(x)
    skipped = {id(referrers), *map(id, ignored)}
    out = []
    for r in referrers:
        if isinstance(r, types.FrameType):
            name = _key(r.f_locals, x) if source.is_user_code(r.f_code) else None
            if name is not None:
                out.append(f"the local variable {name} of the function {_where(r.f_code)}")
        elif id(r) not in skipped:
            out.append(_holder(r, x, [*ignored, referrers], depth))
    return list(dict.fromkeys(out))


# No function below closes over what it looks at: its own cells would be among what refers to it.


def _holder(r: Any, x: Any, ignored: Sequence[Any], depth: int) -> str:
    if type(r) is types.CellType:
        return _of_cell(r)
    if type(r) is types.GeneratorType and r.gi_frame is not None:
        return f"the local variable {_key(r.gi_frame.f_locals, x)} of the generator {_where(r.gi_code)}"
    name = _described(r)
    if type(r) is dict:
        owner = _owner(r)
        if isinstance(owner, types.ModuleType):
            return f"the global {_key(r, x)} of {owner.__name__}"
        if owner is not None:
            return f"the attribute {_key(r, x)} of {_described(owner)}"
    elif not isinstance(r, _CONTAINERS):
        attribute = _attribute(r, x)
        return name if attribute is None else f"the attribute {attribute} of {name}"
    further = holders(r, [*ignored, x], depth - 1) if depth > 1 else []
    return f"{name}, held by {further[0]}" if further else name


def _key(d: dict[Any, Any], x: Any) -> Any:
    for k, v in d.items():
        if v is x:
            return k
    return None


def _owner(d: dict[Any, Any]) -> Any:
    """The object whose attributes these are."""
    for o in gc.get_referrers(d):
        if getattr(o, "__dict__", None) is d:
            return o
    return None


def _attribute(r: Any, x: Any) -> str | None:
    for n, member in vars(type(r)).items():
        if isinstance(member, types.MemberDescriptorType) and getattr(r, n, None) is x:  # a slot
            return n
    return _key(getattr(r, "__dict__", {}), x)


def _of_cell(cell: types.CellType) -> str:
    for closure in gc.get_referrers(cell):
        for f in gc.get_referrers(closure) if type(closure) is tuple else ():
            if isinstance(f, types.FunctionType) and f.__closure__ is closure:
                name = f.__code__.co_freevars[closure.index(cell)]
                return f"the variable {name}, which the function {_where(f.__code__)} sees"
    return "a variable of a function"


def _where(code: types.CodeType) -> str:
    return f"{code.co_qualname} at {code.co_filename}:{code.co_firstlineno}"


def _described(r: Any) -> str:
    name = type(r).__qualname__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
