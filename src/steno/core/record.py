"""Classes that are their fields: `@record` means what `@dataclass` means, at a tenth of the cost to define.

A dataclass writes and compiles its methods when it is defined, half a millisecond each; with fifty of them that is most of the time an
import may take. A record does by its fields what its methods would do, and writes them when they have been used a few times: to write one
takes as long as twenty uses of it without."""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from typing import Any, Final, TypeVar, dataclass_transform, final

T = TypeVar("T", bound=type)
_MISSING: Final = object()


@final
class Field:
    """What `field(...)` says of a field."""

    __slots__ = ("compare", "default", "default_factory", "init", "repr")

    def __init__(self, default: Any, default_factory: Any, init: bool, repr: bool, compare: bool) -> None:
        self.default, self.default_factory, self.init, self.repr, self.compare = default, default_factory, init, repr, compare


def field(*, default: Any = _MISSING, default_factory: Any = _MISSING, init: bool = True, repr: bool = True, compare: bool = True) -> Any:
    """As `dataclasses.field`."""
    return Field(default, default_factory, init, repr, compare)


class FrozenRecordError(AttributeError):
    """A field of a frozen record was set."""


@dataclass_transform(field_specifiers=(field,))
def record(*, frozen: bool = False, eq: bool = True, slots: bool = False) -> Callable[[T], T]:
    """As `dataclasses.dataclass` with these arguments, for classes without record bases. Frozen records with `eq` hash by their fields."""

    def make(original: T) -> T:
        cls: Any = original
        names = [n for n, t in cls.__dict__.get("__annotations__", {}).items() if not str(t).startswith(("ClassVar", "typing.ClassVar"))]
        fields: dict[str, Field] = {}
        for n in names:
            given = cls.__dict__.get(n, _MISSING)
            fields[n] = given if isinstance(given, Field) else Field(given, _MISSING, True, True, True)
        if slots:
            body = {k: v for k, v in cls.__dict__.items() if k not in fields and k not in ("__dict__", "__weakref__")}
            cls = type(cls)(cls.__name__, cls.__bases__, {**body, "__slots__": tuple(names)})
            if frozen:
                cls.__getstate__ = _getstate
                cls.__setstate__ = _setstate
        else:
            for n, f in fields.items():
                if f.default is not _MISSING:
                    setattr(cls, n, f.default)
                elif n in cls.__dict__:
                    delattr(cls, n)
        cls.__record_fields__ = fields
        cls.__match_args__ = tuple(n for n, f in fields.items() if f.init)
        cls.__init__ = _first_uses(cls, "__init__", frozen, slots)
        if "__repr__" not in cls.__dict__:
            cls.__repr__ = _repr
        if eq:
            if "__eq__" not in cls.__dict__:
                cls.__eq__ = _first_uses(cls, "__eq__", frozen, slots)
            if cls.__dict__.get("__hash__") is None:
                cls.__hash__ = _first_uses(cls, "__hash__", frozen, slots) if frozen else None
        if frozen:
            cls.__setattr__ = _refuse_set
            cls.__delattr__ = _refuse_delete
        return cls

    return make


def replace(x: Any, **changes: Any) -> Any:
    """A copy of a record with some fields changed."""
    values = {n: getattr(x, n) for n, f in type(x).__record_fields__.items() if f.init}
    return type(x)(**values | changes)


WRITTEN_AFTER: Final = 16
"""Uses of a method by one class."""


def _first_uses(cls: type, name: str, frozen: bool, slots: bool) -> Any:
    """A method that writes itself when it has been used a few times."""
    unwritten, uses = _UNWRITTEN[name], 0

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal uses
        uses += 1
        if uses <= WRITTEN_AFTER:
            done = unwritten(cls, self, args, kwargs)
            if done is not _MISSING:
                return done
        real = _WRITERS[name](cls, frozen, slots)
        if cls.__dict__[name] is method:
            setattr(cls, name, real)
        return real(self, *args, **kwargs)

    method.__qualname__ = f"{cls.__qualname__}.{name}"
    return method


def _unwritten_init(cls: Any, self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """_MISSING, and nothing done, where the arguments are not those of the fields: the written method has the message."""
    names, fields = cls.__match_args__, cls.__record_fields__
    rest = names[len(args) :]
    if len(args) > len(names) or not kwargs.keys() <= set(rest):
        return _MISSING
    if any(n not in kwargs and fields[n].default is _MISSING and fields[n].default_factory is _MISSING for n in rest):
        return _MISSING
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    for n, f in fields.items():
        if n in given:
            value = given[n]
        elif f.default_factory is not _MISSING:
            value = f.default_factory()
        elif f.init:
            value = f.default
        else:
            continue
        object.__setattr__(self, n, value)
    if "__post_init__" in cls.__dict__:
        self.__post_init__()
    return None


def _compared(cls: Any, x: Any) -> tuple[Any, ...]:
    return tuple([getattr(x, n) for n, f in cls.__record_fields__.items() if f.compare])


def _unwritten_eq(cls: Any, self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if len(args) != 1 or kwargs:
        return _MISSING
    (other,) = args
    if self is other:
        return True
    return _compared(cls, self) == _compared(cls, other) if other.__class__ is self.__class__ else NotImplemented


def _unwritten_hash(cls: Any, self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return _MISSING if args or kwargs else hash(_compared(cls, self))


def _compiled(name: str, source: str, globals_: dict[str, Any], cls: type) -> Any:
    namespace: dict[str, Any] = {}
    exec(source, globals_, namespace)
    method = namespace[name]
    method.__qualname__ = f"{cls.__qualname__}.{name}"
    return method


def _write_init(cls: Any, frozen: bool, slots: bool) -> Any:
    fields: dict[str, Field] = cls.__record_fields__
    parameters, body, globals_ = ["self"], [], {"_missing": _MISSING}
    if frozen and not slots:
        body.append("_d = self.__dict__")
    for n, f in fields.items():
        if frozen and slots:
            globals_[f"_set_{n}"] = cls.__dict__[n].__set__
            store = f"_set_{n}(self, {{}})"
        else:
            store = f"_d[{n!r}] = {{}}" if frozen else f"self.{n} = {{}}"
        if f.default_factory is not _MISSING:
            globals_[f"_make_{n}"] = f.default_factory
            value = f"_make_{n}()" if not f.init else f"_make_{n}() if {n} is _missing else {n}"
            parameters += [f"{n}=_missing"] if f.init else []
        elif f.init:
            globals_[f"_default_{n}"] = f.default
            parameters.append(n if f.default is _MISSING else f"{n}=_default_{n}")
            value = n
        else:
            continue
        body.append(store.format(value))
    if "__post_init__" in cls.__dict__:
        body.append("self.__post_init__()")
    return _compiled("__init__", f"def __init__({', '.join(parameters)}):\n  " + "\n  ".join(body or ["pass"]), globals_, cls)


def _tuple(owner: str, cls: Any) -> str:
    return "(" + "".join(f"{owner}.{n}, " for n, f in cls.__record_fields__.items() if f.compare) + ")"


def _write_eq(cls: Any, frozen: bool, slots: bool) -> Any:
    source = (
        "def __eq__(self, other):\n  if self is other: return True\n  if other.__class__ is not self.__class__: return NotImplemented\n"
        f"  return {_tuple('self', cls)} == {_tuple('other', cls)}"
    )
    return _compiled("__eq__", source, {}, cls)


def _write_hash(cls: Any, frozen: bool, slots: bool) -> Any:
    return _compiled("__hash__", f"def __hash__(self):\n  return hash({_tuple('self', cls)})", {}, cls)


_WRITERS: Final[dict[str, Callable[[Any, bool, bool], Any]]] = {"__init__": _write_init, "__eq__": _write_eq, "__hash__": _write_hash}
_UNWRITTEN: Final[dict[str, Callable[[Any, Any, tuple[Any, ...], dict[str, Any]], Any]]] = {
    "__init__": _unwritten_init,
    "__eq__": _unwritten_eq,
    "__hash__": _unwritten_hash,
}


@reprlib.recursive_repr()
def _repr(self: Any) -> str:
    shown = [f"{n}={getattr(self, n)!r}" for n, f in type(self).__record_fields__.items() if f.repr]
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse_set(self: Any, name: str, value: Any) -> None:
    raise FrozenRecordError(f"cannot assign to the field {name!r} of a {type(self).__name__}")


def _refuse_delete(self: Any, name: str) -> None:
    raise FrozenRecordError(f"cannot delete the field {name!r} of a {type(self).__name__}")


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, n) for n in type(self).__record_fields__]


def _setstate(self: Any, state: list[Any]) -> None:
    for n, value in zip(type(self).__record_fields__, state, strict=True):
        object.__setattr__(self, n, value)
