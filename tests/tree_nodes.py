"""Classes that are pytree nodes, one for each way to become one."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any, NamedTuple

import steno.tree_util as tu
from steno.tree_util import GetAttrKey

OrderedDict, defaultdict = collections.OrderedDict, collections.defaultdict

Pair = collections.namedtuple("Pair", "a b")


class SubPair(Pair):
    pass


class Typed(NamedTuple):
    a: Any
    b: Any = 4


class Picky(Pair):
    """A named tuple with a constructor of its own."""

    def __new__(cls, a, b):
        return super().__new__(cls, a, frozenset([b]))


class Reduced(Pair):
    """A named tuple that is registered, with fewer children than fields."""


tu.register_pytree_node(Reduced, lambda x: ((x.a,), x.b), lambda b, children: Reduced(*children, b))


class Box:
    def __init__(self, *children, aux=None):
        self.children, self.aux = children, aux

    def __eq__(self, other):
        return type(self) is type(other) and (self.children, self.aux) == (other.children, other.aux)

    def __repr__(self):
        return f"Box{self.children}"


tu.register_pytree_node(Box, lambda x: (x.children, x.aux), lambda aux, children: Box(*children, aux=aux))


class SubBox(Box):
    """A subclass of a registered class is a leaf."""


@tu.register_pytree_with_keys_class
class Keyed:
    def __init__(self, **fields):
        self.fields = fields

    def __eq__(self, other):
        return isinstance(other, Keyed) and self.fields == other.fields

    def tree_flatten_with_keys(self):
        return [(GetAttrKey(k), v) for k, v in self.fields.items()], tuple(self.fields)

    @classmethod
    def tree_unflatten(cls, keys, children):
        return cls(**dict(zip(keys, children, strict=True)))


@tu.register_pytree_node_class
class Unkeyed:
    def __init__(self, *children):
        self.children = children

    def __eq__(self, other):
        return isinstance(other, Unkeyed) and self.children == other.children

    def tree_flatten(self):
        return iter(self.children), None

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)


@tu.register_dataclass
@dataclasses.dataclass
class Point:
    x: Any
    y: Any
    unit: Any = dataclasses.field(default="m", metadata={"static": True})


@tu.register_static
class Const(int):
    pass


@tu.register_static
class Holder:
    """Static, and equal to everything of its class with an equal value."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, Holder) and self.value == other.value

    def __hash__(self):
        return hash(self.value)


def add(a, b):
    return a + b


def registered(flatten=lambda x: ((), None), unflatten=lambda aux, children: children, with_keys=None):
    """An object of a new class with these functions."""
    cls = type("Fresh", (), {})
    tu.register_pytree_node(cls, flatten, unflatten, with_keys)
    return cls()
