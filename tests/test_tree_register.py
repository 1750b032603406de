"""Registering classes as pytree nodes; `Partial`."""

from __future__ import annotations

import dataclasses
import functools
import pickle
import re
from typing import Any

import numpy as np
import pytest
from tree_nodes import (
    Box,
    Const,
    Holder,
    Keyed,
    OrderedDict,
    Point,
    Unkeyed,
    add,
    defaultdict,
    registered,
)

import steno.tree
import steno.tree_util as tu
from steno.tree_util import FlattenedIndexKey, Partial, tree_structure as structure

# ----------------------------------------------------------------------------------------------------------------------
# Registration


def test_a_class_is_registered_once():
    class Fresh:
        pass

    register = functools.partial(tu.register_pytree_node, flatten_func=lambda x: ((), None), unflatten_func=lambda aux, children: Fresh())
    register(Fresh)
    for cls in (Fresh, list, dict, tuple, type(None), OrderedDict, defaultdict, Box, Point, Const, Partial):
        with pytest.raises(ValueError, match="Duplicate custom PyTreeDef type registration for <class"):
            register(cls)
        with pytest.raises(ValueError, match="Duplicate"):
            tu.register_static(cls)
    with pytest.raises(ValueError, match="Duplicate custom dataclass PyTreeDef"):
        tu.register_dataclass(Point)


def test_registration_wants_classes_and_functions():
    class Fresh:
        pass

    for arguments in [(3, id, id), (Fresh, 1, id), (Fresh, id, 2), (Fresh, id, id, 3)]:
        with pytest.raises(TypeError):
            tu.register_pytree_node(*arguments)
    with pytest.raises(TypeError):
        tu.register_static(3)
    with pytest.raises(AttributeError, match="tree_unflatten"):
        tu.register_pytree_node_class(Fresh)
    with pytest.raises(AttributeError, match="tree_unflatten"):
        tu.register_pytree_with_keys_class(Fresh)
    assert not tu.is_tree_node(Fresh) and not tu.is_tree_node(3)


@pytest.mark.parametrize(
    "result, message",
    [
        ("hello", "should return a (children, aux_data) tuple, got 'hello'"),
        ((2, 3, 4), "should return a (children, aux_data) tuple, got (2, 3, 4)"),
        ([[1], 2], "should return a (children, aux_data) tuple, got [[1], 2]"),
        ((7, 7), "should return a (children, aux_data) tuple where 'children' is iterable, got (7, 7)"),
    ],
)
def test_bad_flatten_functions(result, message):
    x = registered(lambda _: result)
    for f in (tu.tree_flatten, tu.tree_leaves_with_path):
        with pytest.raises(ValueError, match=re.escape(f"The to_iterable function for a custom PyTree node {message}")):
            f(x)


@pytest.mark.parametrize("result", [[1, 2], ([1, 2], None), ([(1, 2, 3)], None), (3, None)])
def test_bad_flatten_functions_with_keys(result):
    x = registered(lambda _: ([1], None), with_keys=lambda _: result)
    with pytest.raises(ValueError, match="The to_iterable_with_keys function for a custom PyTree node should return a"):
        tu.tree_leaves_with_path(x)
    with pytest.raises(ValueError, match="to_iterable_with_keys"):
        tu.flatten_one_level_with_keys(x)


def test_exceptions_of_registered_functions_pass_through():
    with pytest.raises(ZeroDivisionError):
        tu.tree_flatten(registered(lambda x: 1 / 0))
    with pytest.raises(ZeroDivisionError):
        tu.tree_flatten([1, registered(lambda x: ((1 / 0 for _ in range(2)), None))])
    with pytest.raises(ZeroDivisionError):
        tu.tree_flatten_with_path(registered(with_keys=lambda x: 1 / 0))
    with pytest.raises(ZeroDivisionError):
        structure([1, registered(unflatten=lambda aux, children: 1 / 0), 2]).unflatten([3, 4])
    with pytest.raises(TypeError):
        tu.tree_flatten(registered(lambda: None))


def test_children_may_be_any_iterable_and_reach_unflatten_as_a_tuple():
    x = registered(lambda x: ((i for i in range(3)), "aux"), lambda aux, children: (aux, children))
    leaves, treedef = tu.tree_flatten(x)
    assert leaves == [0, 1, 2] and treedef.unflatten(leaves) == ("aux", (0, 1, 2))


def test_keys_default_to_flat_indices_and_back():
    assert [p for p, _ in tu.tree_leaves_with_path(Unkeyed(5))] == [(FlattenedIndexKey(0),)]
    x = registered(lambda x: ((7, 8, 9), None), with_keys=lambda x: ((("a", 1), ("b", 2)), None))
    assert tu.tree_leaves(x) == [7, 8, 9] and tu.tree_leaves_with_path(x) == [(("a",), 1), (("b",), 2)]
    assert tu.tree_leaves(Keyed(a=1, b=2)) == [1, 2]  # made from the function with keys


def test_metadata_without_a_plain_equality():
    a, b = structure(Box(aux=np.arange(3))), structure(Box(aux=np.arange(3)))
    assert hash(a) == hash(b) and a == a
    with pytest.raises(
        ValueError, match="Exception raised while checking equality of metadata fields of pytree node of type <class '.*Box'>"
    ):
        a == b  # noqa: B015
    with pytest.raises(ValueError, match="Box"):
        a.flatten_up_to(Box(aux=np.arange(3)))
    with pytest.raises(ValueError, match="Point"):
        structure(Point(1, 2, np.arange(3))) == structure(Point(1, 2, np.arange(3)))  # noqa: B015


def test_static():
    assert tu.tree_leaves([Const(3), 4]) == [4]
    assert structure(Const(3)) == structure(Const(3)) != structure(Const(4))
    assert structure(Holder("a")) == structure(Holder("a")) != structure(Holder("b"))
    x = Holder([1])
    assert structure(x).unflatten([]) is x
    assert Const.__name__ == "Const"


def test_register_dataclass():
    assert tu.tree_leaves(Point([1], (2, None))) == [1, 2]
    assert tu.tree_map(lambda x: x + 1, Point(1, 2, "s")) == Point(2, 3, "s")
    assert structure(Point(1, 2, "s")) != structure(Point(1, 2))

    @functools.partial(tu.register_dataclass, data_fields=["b", "a"], meta_fields=("c",))
    class Plain:
        def __init__(self, *, a, b, c):
            self.a, self.b, self.c = a, b, c

    assert tu.tree_leaves(Plain(a=1, b=2, c=3)) == [2, 1]
    assert structure(Plain(a=1, b=2, c=3)).unflatten([5, 6]).__dict__ == {"a": 6, "b": 5, "c": 3}
    x = Plain(a=1, b=2, c=3)
    del x.a
    with pytest.raises(AttributeError, match="'a'"):
        tu.tree_leaves(x)


def test_register_dataclass_runs_post_init_and_raises_what_it_raises():
    @tu.register_dataclass
    @dataclasses.dataclass
    class Positive:
        x: Any

        def __post_init__(self):
            if self.x < 0:
                raise ValueError("negative")

    assert structure(Positive(1)).unflatten([2]) == Positive(2)
    with pytest.raises(ValueError, match="negative"):
        structure(Positive(1)).unflatten([-1])


def test_register_dataclass_fields():
    class Plain:
        x: int

    with pytest.raises(TypeError, match="register_dataclass: data_fields and meta_fields are required when nodetype is not a dataclass"):
        tu.register_dataclass(Plain)
    message = "register_dataclass: data_fields and meta_fields must both be specified when either is specified."
    with pytest.raises(TypeError, match=re.escape(f"{message} Got data_fields=['x'] meta_fields=None.")):
        tu.register_dataclass(Plain, data_fields=["x"])
    with pytest.raises(TypeError, match=re.escape(f"{message} Got data_fields=None meta_fields=['y'].")):
        tu.register_dataclass(Plain, meta_fields=["y"])

    @dataclasses.dataclass
    class Three:
        x: int
        y: int = 1
        z: float = dataclasses.field(init=False, default=0)

    with pytest.raises(ValueError, match="must include all dataclass fields.*Missing fields: {'y'}"):
        tu.register_dataclass(Three, data_fields=["x"], meta_fields=[])
    with pytest.raises(ValueError, match="must include all dataclass fields.*Unexpected fields: {'w'}"):
        tu.register_dataclass(Three, data_fields=["x"], meta_fields=["y", "w"])
    with pytest.raises(ValueError, match="must not overlap.*Overlapping fields: {'x'}"):
        tu.register_dataclass(Three, data_fields=["x", "y"], meta_fields=["x"])
    with pytest.raises(ValueError, match="Unexpected fields: {'z'}"):
        tu.register_dataclass(Three)
    tu.register_dataclass(Three, drop_fields=["y", "z"])
    assert structure(Three(5, 6)).unflatten([7]) == Three(7, 1)
    with pytest.raises(TypeError):
        tu.register_dataclass(Plain, data_fields=[3], meta_fields=[])


def test_tree_static():
    assert steno.tree.static().metadata == {"static": True} and steno.tree.static().default is dataclasses.MISSING
    assert steno.tree.static(default="abc").default == "abc"
    assert steno.tree.static(metadata={"key": 1}).metadata == {"static": True, "key": 1}
    assert steno.tree.static(metadata={"static": False}).metadata == {"static": False}
    with pytest.raises(TypeError):
        steno.tree.static(foo=3)

    @tu.register_dataclass
    @dataclasses.dataclass
    class Layer:
        w: Any
        name: str = steno.tree.static(default="n")

    assert tu.tree_leaves(Layer(1)) == [1] and structure(Layer(1)).node_data() == (Layer, ("n",))


# ----------------------------------------------------------------------------------------------------------------------
# Partial


def test_partial():
    def f(a, b, c=3):
        return a, b, c

    p = Partial(f, 1, c=4)
    assert p(2) == (1, 2, 4) and (p.func, p.args, p.keywords) == (f, (1,), {"c": 4}) and isinstance(p, functools.partial)
    assert repr(p).endswith("Partial(" + repr(f) + ", 1, c=4)")
    assert tu.tree_map(lambda x: x + 1, p)(2) == (2, 2, 5)
    assert structure(Partial(f, 1)) == structure(Partial(f, 2)) != structure(Partial(print, 1))
    assert pickle.loads(pickle.dumps(Partial(add, 2)))(3) == 5
    assert not hasattr(Partial(f), "args2") and Partial(f).args == ()
    for bad in (lambda: Partial(3), lambda: Partial()):
        with pytest.raises(TypeError):
            bad()


def test_partial_of_a_partial_does_not_merge():
    def f(a, b, c=3):
        return a, b, c

    inner = functools.partial(f, 1)
    p, q = Partial(inner, 2), Partial(inner, 2)
    assert p.args == (2,) and p() == (1, 2, 3)
    assert p.func == q.func == inner and inner == p.func and hash(p.func) == hash(q.func) == hash(inner)
    assert p.func != functools.partial(f, 1)
    assert structure(p) == structure(q)
    assert Partial(Partial(f, 1), 2).args == (2,)
    assert Partial(Partial(f, 1), 2)() == (1, 2, 3)
