"""`record` means what `dataclass` means."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any, ClassVar

import pytest

from steno.core import record as module
from steno.core.record import field, record, replace


@record(frozen=True)
class Point:
    x: int
    y: int = 2
    rest: list = field(default_factory=list, compare=False)
    total: int = field(init=False, compare=False)
    KIND: ClassVar[str] = "point"

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", self.x + self.y)


@record(frozen=True, slots=True)
class Slotted:
    a: Any
    b: Any = None


@record(eq=False)
class Mutable:
    items: list = field(default_factory=list, repr=False)
    name: str = "n"


@record()
class Comparable:
    v: int


def test_construction():
    p = Point(1)
    assert (p.x, p.y, p.rest, p.total, p.KIND) == (1, 2, [], 3, "point") and Point.__match_args__ == ("x", "y", "rest")
    assert Point(1).rest is not Point(1).rest and Point(1, y=5, rest=[1]).rest == [1]
    assert repr(p) == "Point(x=1, y=2, rest=[], total=3)" and repr(Mutable()) == "Mutable(name='n')"
    match p:
        case Point(x, y):
            assert (x, y) == (1, 2)
    for wrong in ((), (1, 2, [], 4)):
        with pytest.raises(TypeError, match=r"Point\.__init__\(\)"):
            Point(*wrong)
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        Point(1, z=2)


def test_equality_and_hash():
    assert Point(1) == Point(1, rest=[7]) and hash(Point(1)) == hash(Point(1, rest=[7])) and Point(1) != Point(2) and Point(1) != (1, 2)
    assert Slotted(1) == Slotted(1) and Slotted(1) != Slotted(2) and {Slotted(1): 1}[Slotted(1)] == 1
    assert Mutable() != Mutable() and hash(Mutable())
    assert Comparable(1) == Comparable(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Comparable(1))


def test_frozen():
    for x, name in ((Point(1), "x"), (Slotted(1), "a"), (Point(1), "new")):
        with pytest.raises(AttributeError, match=f"cannot assign to the field '{name}'"):
            setattr(x, name, 3)
        with pytest.raises(AttributeError, match="cannot delete"):
            delattr(x, name)
    m = Mutable()
    m.name = "other"
    assert m.name == "other"


def test_copies():
    for x in (Point(1, 3), Slotted([1], 2)):
        assert pickle.loads(pickle.dumps(x)) == x == copy.deepcopy(x) == copy.copy(x)
    assert replace(Point(1, 3), y=4) == Point(1, 4) and not hasattr(Slotted(1), "__dict__")


def test_methods_are_written_after_a_few_uses():
    """They do the same before and after."""

    @record(frozen=True)
    class C:
        v: int
        rest: list = field(default_factory=list, compare=False)
        total: int = field(init=False, compare=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "total", self.v + 1)

    names = ("__init__", "__eq__", "__hash__")
    first = [C.__dict__[n] for n in names]
    seen = set()
    for _ in range(module.WRITTEN_AFTER + 2):
        a, b = C(1), C(1, rest=[2])
        seen.add((a == b, hash(a) == hash((1,)), a == C(v=2), a != 1, str(a), str(b)))
    assert seen == {(True, True, False, True, "test_methods_are_written_after_a_few_uses.<locals>.C(v=1, rest=[], total=2)",
                     "test_methods_are_written_after_a_few_uses.<locals>.C(v=1, rest=[2], total=2)")}  # fmt: skip
    assert all(C.__dict__[n] is not f for n, f in zip(names, first, strict=True))
    for init in (first[0], C.__init__):  # the message is Python's
        with pytest.raises(TypeError, match=r"C\.__init__\(\) got multiple values for argument 'v'"):
            init(C(1), 1, v=2)


def test_same_as_dataclass():
    body = {"__annotations__": {"a": "int", "b": "float"}, "b": 1.5, "__module__": __name__}
    real, ours = dataclasses.dataclass(frozen=True)(type("R", (), dict(body))), module.record(frozen=True)(type("R", (), dict(body)))
    for args in ((1,), (1, 2.0)):
        assert repr(real(*args)).split(".")[-1] == repr(ours(*args)).split(".")[-1] and hash(real(*args)) == hash(ours(*args))
