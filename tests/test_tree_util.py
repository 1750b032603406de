"""`steno.tree_util` and `steno.tree`: golden tables of what JAX answers, errors, paths."""

from __future__ import annotations

import collections
import copy
import functools
import gc
import inspect
import operator
import pickle
import re
from typing import Any, NamedTuple

import numpy as np
import pytest
from tree_nodes import (
    Box,
    Const,
    Keyed,
    OrderedDict,
    Pair,
    Picky,
    Point,
    Reduced,
    SubBox,
    SubPair,
    Typed,
    Unkeyed,
    defaultdict,
)

import steno.tree
import steno.tree_util as tu
from steno.core import pytree as core_pytree
from steno.core.pytree import broadcast_flattened_prefix_with_treedef, broadcast_prefix, equality_errors, prefix_errors
from steno.tree_util import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    Partial,
    PyTreeDef,
    SequenceKey,
    default_registry,
    tree_structure as structure,
)

# ----------------------------------------------------------------------------------------------------------------------
# What is there


TREE_UTIL_NAMES = """
DictKey FlattenedIndexKey GetAttrKey KeyEntry KeyPath Partial PyTreeDef SequenceKey all_leaves default_registry flatten_one_level
flatten_one_level_with_keys is_tree_node keystr register_dataclass register_pytree_node register_pytree_node_class
register_pytree_with_keys register_pytree_with_keys_class register_static tree_all tree_broadcast tree_flatten
tree_flatten_with_path tree_leaves tree_leaves_with_path tree_map tree_map_with_path tree_reduce tree_reduce_associative
tree_structure tree_transpose tree_unflatten treedef_children treedef_is_leaf treedef_tuple
""".split()

TREE_NAMES = """
all broadcast flatten flatten_with_path leaves leaves_with_path map map_with_path reduce reduce_associative static structure
transpose unflatten
""".split()

PARAMETERS = {
    "tree_flatten": "tree is_leaf",
    "tree_leaves": "tree is_leaf",
    "tree_structure": "tree is_leaf",
    "tree_unflatten": "treedef leaves",
    "tree_map": "f tree rest is_leaf",
    "tree_map_with_path": "f tree rest is_leaf is_leaf_takes_path",
    "tree_flatten_with_path": "tree is_leaf is_leaf_takes_path",
    "tree_leaves_with_path": "tree is_leaf is_leaf_takes_path",
    "tree_reduce": "function tree initializer is_leaf",
    "tree_reduce_associative": "operation tree identity is_leaf",
    "tree_all": "tree is_leaf",
    "tree_transpose": "outer_treedef inner_treedef pytree_to_transpose",
    "tree_broadcast": "prefix_tree full_tree is_leaf",
    "all_leaves": "iterable is_leaf",
    "flatten_one_level": "tree",
    "flatten_one_level_with_keys": "tree",
    "is_tree_node": "typ",
    "keystr": "keys simple separator",
    "register_dataclass": "nodetype data_fields meta_fields drop_fields",
    "register_pytree_node": "nodetype flatten_func unflatten_func flatten_with_keys_func",
    "register_pytree_node_class": "cls",
    "register_pytree_with_keys": "nodetype flatten_with_keys unflatten_func flatten_func",
    "register_pytree_with_keys_class": "cls",
    "register_static": "cls",
    "treedef_children": "treedef",
    "treedef_is_leaf": "treedef",
    "treedef_tuple": "treedefs",
}


def test_the_public_names():
    public = {name for name in dir(tu) if not name.startswith("_")} - {"annotations"}
    assert public == set(TREE_UTIL_NAMES)
    assert set(steno.tree.__all__) == set(TREE_NAMES)


def test_parameters_have_the_known_names():
    for name, parameters in PARAMETERS.items():
        assert list(inspect.signature(getattr(tu, name)).parameters) == parameters.split(), name


def test_the_modules_share_their_functions():
    for name in TREE_NAMES:
        if name != "static":
            assert getattr(steno.tree, name) is getattr(tu, f"tree_{name}"), name


# ----------------------------------------------------------------------------------------------------------------------
# Golden: reprs, counts, node data, paths


GOLDEN = [
    # tree, repr, leaves, nodes, keystr of each leaf
    (1, "*", 1, 1, [""]),
    (None, "None", 0, 1, []),
    ((), "()", 0, 1, []),
    ((1,), "(*,)", 1, 2, ["[0]"]),
    ((1, 2), "(*, *)", 2, 3, ["[0]", "[1]"]),
    ([], "[]", 0, 1, []),
    ([1, None], "[*, None]", 1, 3, ["[0]"]),
    ({}, "{}", 0, 1, []),
    ({"b": 1, "a": 2}, "{'a': *, 'b': *}", 2, 3, ["['a']", "['b']"]),
    ({2.5: 1, 1: 2}, "{1: *, 2.5: *}", 2, 3, ["[1]", "[2.5]"]),
    ({(1, 2): 1}, "{(1, 2): *}", 1, 2, ["[(1, 2)]"]),
    ({True: 1, 0: 2}, "{0: *, True: *}", 2, 3, ["[0]", "[True]"]),
    ({"a'b": 1}, '{"a\'b": *}', 1, 2, ['["a\'b"]']),
    ({None: 1}, "{None: *}", 1, 2, ["[None]"]),
    ({"Z": 1, "é": 2, "a": 3, "😀": 4}, "{'Z': *, 'a': *, 'é': *, '😀': *}", 4, 5, ["['Z']", "['a']", "['é']", "['😀']"]),
    (Pair(1, [2]), "CustomNode(namedtuple[Pair], [*, [*]])", 2, 4, [".a", ".b[0]"]),
    (SubPair(1, 2), "CustomNode(namedtuple[SubPair], [*, *])", 2, 3, [".a", ".b"]),
    (Typed(1), "CustomNode(namedtuple[Typed], [*, *])", 2, 3, [".a", ".b"]),
    (OrderedDict(b=1, a=2), "CustomNode(OrderedDict[('b', 'a')], [*, *])", 2, 3, ["['b']", "['a']"]),
    (OrderedDict(), "CustomNode(OrderedDict[()], [])", 0, 1, []),
    (OrderedDict([("b", 1), (3, 2)]), "CustomNode(OrderedDict[('b', 3)], [*, *])", 2, 3, ["['b']", "[3]"]),
    (
        defaultdict(int, b=1, a=2),
        "CustomNode(defaultdict[(<class 'int'>, ('a', 'b'))], [*, *])",
        2,
        3,
        ["['a']", "['b']"],
    ),
    (defaultdict(None, a=1), "CustomNode(defaultdict[(None, ('a',))], [*])", 1, 2, ["['a']"]),
    ({"a": {"b": (1, [2, None])}}, "{'a': {'b': (*, [*, None])}}", 2, 7, ["['a']['b'][0]", "['a']['b'][1][0]"]),
    (
        Box(1, Box(2), aux="q"),
        "CustomNode(Box[q], [*, CustomNode(Box[None], [*])])",
        2,
        4,
        ["[<flat index 0>]", "[<flat index 1>][<flat index 0>]"],
    ),
    (Box(aux=[4, "foo"]), "CustomNode(Box[[4, 'foo']], [])", 0, 1, []),
    (Keyed(p=1, q=(2,)), "CustomNode(Keyed[('p', 'q')], [*, (*,)])", 2, 4, [".p", ".q[0]"]),
    (Unkeyed(1, 2), "CustomNode(Unkeyed[None], [*, *])", 2, 3, ["[<flat index 0>]", "[<flat index 1>]"]),
    (Point(1, [2]), "CustomNode(Point[('m',)], [*, [*]])", 2, 4, [".x", ".y[0]"]),
    (Const(4), "CustomNode(Const[4], [])", 0, 1, []),
    (
        Partial(print, 1, 2, a=3),
        "CustomNode(Partial[<built-in function print>], [(*, *), {'a': *}])",
        3,
        6,
        ["[<flat index 0>][0]", "[<flat index 0>][1]", "[<flat index 1>]['a']"],
    ),
]

# Leaves, though they look like containers.
LEAVES = [
    0.1,
    "foo",
    object(),
    slice(1, 2),
    frozenset([1]),
    {1, 2},
    range(3),
    np.arange(3),
    type("D", (dict,), {})(a=1),
    type("L", (list,), {})([1]),
    type("T", (tuple,), {})([1]),
    type("O", (OrderedDict,), {})(a=1),
    SubBox(1),
    functools.partial(print, 1),
    int,
]


@pytest.mark.parametrize("tree, text, num_leaves, num_nodes, keys", GOLDEN, ids=[g[1][:40] for g in GOLDEN])
def test_golden(tree, text, num_leaves, num_nodes, keys):
    leaves, treedef = tu.tree_flatten(tree)
    assert repr(treedef) == str(treedef) == f"PyTreeDef({text})"
    assert (treedef.num_leaves, treedef.num_nodes, len(leaves)) == (num_leaves, num_nodes, num_leaves)
    assert [tu.keystr(path) for path, _ in tu.tree_leaves_with_path(tree)] == keys
    assert [leaf for _, leaf in tu.tree_leaves_with_path(tree)] == leaves == tu.tree_leaves(tree)
    assert tu.tree_flatten_with_path(tree)[1] == treedef == structure(tree)
    assert treedef.flatten_up_to(tree) == leaves
    rebuilt = tu.tree_unflatten(treedef, leaves)
    assert type(rebuilt) is type(tree)
    if not isinstance(tree, Partial):
        assert rebuilt == tree
    for same in (structure(copy.copy(tree)), pickle.loads(pickle.dumps(treedef)), copy.copy(treedef), copy.deepcopy(treedef)):
        assert same == treedef and not same != treedef and hash(same) == hash(treedef)
    if treedef.num_leaves != 1 or treedef.num_nodes != 1:
        assert tu.is_tree_node(type(tree))
        rebuilt_def = PyTreeDef.from_node_data_and_children(default_registry, treedef.node_data(), treedef.children())
        assert rebuilt_def == treedef and hash(rebuilt_def) == hash(treedef)


def test_golden_structures_differ_from_each_other():
    treedefs = [structure(tree) for tree, *_ in GOLDEN]
    for i, a in enumerate(treedefs):
        for j, b in enumerate(treedefs):
            assert (a == b) == (i == j), (a, b)


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda x: type(x).__name__)
def test_leaves(leaf):
    leaves, treedef = tu.tree_flatten(leaf)
    assert leaves[0] is leaf and len(leaves) == 1
    assert repr(treedef) == "PyTreeDef(*)" and treedef == structure(1) and treedef.node_data() is None and treedef.children() == []
    assert treedef.unflatten([leaf]) is leaf
    assert tu.all_leaves([leaf]) and not tu.is_tree_node(type(leaf))
    assert default_registry.flatten_one_level(leaf) is None and default_registry.flatten_one_level_with_keys(leaf) is None
    with pytest.raises(ValueError, match="can't tree-flatten type: <class"):
        tu.flatten_one_level(leaf)
    with pytest.raises(ValueError, match="can't tree-flatten type: <class"):
        tu.flatten_one_level_with_keys(leaf)


NODE_DATA = [
    (None, (type(None), None)),
    ((1, 2), (tuple, None)),
    ([1], (list, None)),
    ({"b": 1, "a": 2}, (dict, ["a", "b"])),
    (Pair(1, 2), (Pair, None)),
    (OrderedDict(b=1, a=2), (OrderedDict, ("b", "a"))),
    (defaultdict(int, b=1, a=2), (defaultdict, (int, ("a", "b")))),
    (Box(1, aux="q"), (Box, "q")),
    (Point(1, 2), (Point, ("m",))),
    (Const(3), (Const, Const(3))),
]


@pytest.mark.parametrize("tree, data", NODE_DATA, ids=[d[0].__name__ for _, d in NODE_DATA])
def test_node_data(tree, data):
    assert structure(tree).node_data() == data


ONE_LEVEL = [
    # tree, children, their keys, data
    (None, (), (), None),
    ((1, [2]), (1, [2]), (SequenceKey(0), SequenceKey(1)), None),
    ([1, [2]], [1, [2]], (SequenceKey(0), SequenceKey(1)), None),
    ({"b": 1, "a": [2]}, ([2], 1), (DictKey("a"), DictKey("b")), ("a", "b")),
    (Pair(1, 2), [1, 2], (GetAttrKey("a"), GetAttrKey("b")), Pair),
    (OrderedDict(b=1, a=2), [1, 2], (DictKey("b"), DictKey("a")), ("b", "a")),
    (defaultdict(int, b=1, a=2), [2, 1], (DictKey("a"), DictKey("b")), (int, ("a", "b"))),
    (Box(1, 2, aux=3), (1, 2), (FlattenedIndexKey(0), FlattenedIndexKey(1)), 3),
    (Keyed(p=1), [1], (GetAttrKey("p"),), ("p",)),
    (Point(1, 2, "s"), [1, 2], (GetAttrKey("x"), GetAttrKey("y")), ("s",)),
    (Const(4), [], (), 4),
]


@pytest.mark.parametrize("tree, children, keys, data", ONE_LEVEL, ids=[type(x[0]).__name__ for x in ONE_LEVEL])
def test_one_level(tree, children, keys, data):
    assert tu.flatten_one_level(tree) == (children, data)
    pairs, same_data = tu.flatten_one_level_with_keys(tree)
    assert list(pairs) == list(zip(keys, children, strict=True)) and same_data == data
    assert default_registry.flatten_one_level(tree) == (children, data)


def test_dict_order_is_that_of_the_sorted_keys():
    leaves, treedef = tu.tree_flatten({"b": 2, "a": 1, "c": {"b": 4, "a": 3}})
    assert leaves == [1, 2, 3, 4]
    assert list(treedef.unflatten(leaves)) == ["a", "b", "c"]
    many = {f"k{i}": i for i in range(100)}
    assert tu.tree_leaves(many) == [many[k] for k in sorted(many)]
    moved = OrderedDict.fromkeys("abc", 0)
    moved.move_to_end("a")
    assert [tu.keystr(p) for p, _ in tu.tree_leaves_with_path(moved)] == ["['b']", "['c']", "['a']"]
    assert list(structure(moved).unflatten([1, 2, 3])) == ["b", "c", "a"]


def test_equal_keys_of_other_classes_are_the_same_structure():
    assert structure({1: 0}) == structure({True: 0}) == structure({1.0: 0})
    assert hash(structure({1: 0})) == hash(structure({True: 0})) == hash(structure({1.0: 0}))
    assert structure({1: 0}).flatten_up_to({1.0: 7}) == [7]


def test_compared_with_something_else():
    assert structure(1) != 3 and structure(1) != None  # noqa: E711
    with pytest.raises(TypeError):
        structure(1) < structure(2)  # noqa: B015
    with pytest.raises(TypeError):
        PyTreeDef()


def test_named_tuples():
    class Wide(NamedTuple):
        a: Any

        def twice(self):
            return self.a * 2

    assert structure(Wide(1)).unflatten([5]).twice() == 10
    assert structure(Picky(1, 2)).unflatten([1, 2]) == (1, frozenset([2]))  # its constructor runs
    rebuilt = structure(Pair(1, 2)).unflatten([[], {}])
    assert type(rebuilt) is Pair and rebuilt == ([], {}) and gc.is_tracked(rebuilt)
    other = collections.namedtuple("Pair", "a b")
    assert structure(Pair(1, 2)) != structure(other(1, 2))
    bad = type("Bad", (tuple,), {"_fields": ("q",)})
    with pytest.raises(ValueError, match="_fields"):
        tu.tree_leaves_with_path(bad((1, 2)))
    assert repr(structure(bad((1,)))) == "PyTreeDef(CustomNode(namedtuple[Bad], [*]))"

    class Odd(type):
        def __getattr__(cls, name):
            raise RuntimeError(name)

    assert tu.all_leaves([Odd("Odd", (tuple,), {})()])  # it has no fields, and nobody is told why


def test_registered_namedtuple_is_flattened_as_registered():
    assert tu.tree_leaves(Reduced(1, 2)) == [1]
    assert [p for p, _ in tu.tree_leaves_with_path(Reduced(1, 2))] == [(FlattenedIndexKey(0),)]
    assert structure(Reduced(1, 2)).unflatten([7]) == Reduced(7, 2)


# ----------------------------------------------------------------------------------------------------------------------
# Structures


def test_children_and_counts():
    treedef = structure(((1, 2, 3), (4,)))
    assert treedef.children() == tu.treedef_children(treedef) == [structure((0, 0, 0)), structure((7,))]
    assert structure(1).children() == structure(None).children() == []


def test_treedef_tuple():
    treedef = structure(((1, 2, (3, 4)), (5,)))
    again = tu.treedef_tuple(treedef.children())
    assert again == treedef and hash(again) == hash(treedef) and (again.num_leaves, again.num_nodes) == (5, 9)
    assert tu.treedef_tuple([]) == structure(())
    assert tu.treedef_tuple(iter([structure(1)])) == structure((1,))
    with pytest.raises(TypeError, match="expected a PyTreeDef"):
        tu.treedef_tuple([structure(1), 3])


def test_is_leaf_of_treedefs():
    assert [tu.treedef_is_leaf(structure(x)) for x in (1, None, (), {}, (1,))] == [True, True, True, True, False]
    assert [core_pytree.treedef_is_strict_leaf(structure(x)) for x in (1, None, (), (1,))] == [True, False, False, False]


def test_compose():
    assert repr(structure([1, (2,)]).compose(structure({"a": 1, "b": None}))) == (
        "PyTreeDef([{'a': *, 'b': None}, ({'a': *, 'b': None},)])"
    )
    assert structure(None).compose(structure([1])) == structure(None)
    assert structure(Box(1)).compose(structure(1)) == structure(Box(1))
    with pytest.raises(TypeError, match="compose: expected a PyTreeDef, got 3"):
        structure([1]).compose(3)


def test_walk():
    treedef = structure((1, [2, {"a": 3}], None, Box(4, aux="x"), Pair(5, 6)))
    seen = []

    def node(children, data):
        seen.append((children, data))
        return "n", children, data

    result = treedef.walk(node, lambda x: -x, [1, 2, 3, 4, 5, 6])
    assert seen == [
        ((-3,), ["a"]),
        ((-2, ("n", (-3,), ["a"])), None),
        ((), None),
        ((-4,), "x"),
        ((-5, -6), Pair),
        (result[1], None),
    ]
    assert structure(1).walk(node, lambda x: ("leaf", x), [7]) == ("leaf", 7)
    assert structure([1, 2]).walk(lambda c, _: c, None, iter([3, 4])) == (3, 4)
    with pytest.raises(ValueError, match="Too few leaves"):
        treedef.walk(node, None, [1])
    with pytest.raises(ValueError, match="Too many leaves"):
        treedef.walk(node, None, range(7))
    with pytest.raises(TypeError, match="f_node must be callable"):
        treedef.walk(3, None, [1])
    with pytest.raises(ZeroDivisionError):
        treedef.walk(lambda c, d: 1 / 0, None, range(6))


def test_from_iterable_tree():
    treedef = structure((1, [2, {"a": 3}], None, Box(4, aux="x")))
    assert treedef.from_iterable_tree([1, (2, [3]), [], iter([4])]) == (1, [2, {"a": 3}], None, Box(4, aux="x"))
    assert structure(1).from_iterable_tree([1, 2]) == [1, 2]
    with pytest.raises(ValueError, match="Arity mismatch"):
        treedef.from_iterable_tree([1, (2, [3]), []])
    with pytest.raises(TypeError, match="not iterable"):
        structure([1]).from_iterable_tree(3)


def test_from_node_data_and_children():
    make = functools.partial(PyTreeDef.from_node_data_and_children, default_registry)
    leaf = structure(1)
    assert make(None, []) == leaf
    assert make((tuple, None), [leaf, structure([1])]) == structure((1, [2]))
    assert make((dict, ("a", "b")), [leaf, leaf]) == structure({"a": 1, "b": 2})
    assert make((Point, ("m",)), [leaf, leaf]) == structure(Point(1, 2))
    assert make(node_data=(Pair, None), children=iter([leaf, leaf])) == structure(Pair(1, 2))
    with pytest.raises(TypeError, match="missing"):  # the class's own constructor says so
        make((Pair, None), [leaf]).unflatten([1])
    for data, children in [
        ((dict, ["a"]), [leaf, leaf]),
        ((dict, None), [leaf]),
        ((type(None), None), [leaf]),
        (None, [leaf]),
        ((Const, Const(1)), [leaf]),
        ((Point, ()), [leaf, leaf]),
        ((Point, ("m",)), [leaf]),
        ((defaultdict, 3), [leaf]),
    ]:
        with pytest.raises(ValueError, match="from_node_data_and_children"):
            make(data, children)
    with pytest.raises(RuntimeError, match="<class 'int'> is not registered"):
        make((int, None), [leaf])
    for data, children in [(5, [leaf]), ((tuple, None), [1]), ((tuple, None), 3), ((3, None), [])]:
        with pytest.raises(TypeError):
            make(data, children)


def test_serialize_using_proto():
    cases = {
        b"\n\x02\x10\x03": None,
        b"\n\x02\x10\x05": {},
        b"\n\x02\x10\x01\n\t\x08\x01\x10\x05\x1a\x03\n\x01\x00\x12\x01a": {"a": 1},
        b"\n\x02\x10\x01\n\x02\x10\x01\n\x02\x10\x01\n\x02\x10\x01\n\n\x08\x02\x10\x05\x1a\x04\n\x02\x00\x01\n\x02\x10\x03\n\x04\x08\x03"
        b"\x10\x04\n\x04\x08\x02\x10\x02\x12\x01a\x12\x01b": [1, (2, {"b": 3, "a": 4}, None)],
    }
    for data, tree in cases.items():
        assert structure(tree).serialize_using_proto() == data
        assert PyTreeDef.deserialize_using_proto(default_registry, data) == structure(tree)
    long = {f"key {i}": [1] * i for i in range(200)}
    assert PyTreeDef.deserialize_using_proto(default_registry, structure(long).serialize_using_proto()) == structure(long)
    for tree in (Box(1), {1: 2}, Pair(1, 2), OrderedDict(a=1)):
        with pytest.raises(ValueError, match="serialize_using_proto"):
            structure(tree).serialize_using_proto()
    for bad in (b"abc", b"", b"\n\x02\x10\x09", b"\n\x04\x08\x03\x10\x04", b"\n\x02\x10\x01\n\x02\x10\x01", b"\n\x7f", b"\xff"):
        with pytest.raises(ValueError, match="deserialize_using_proto"):
            PyTreeDef.deserialize_using_proto(default_registry, bad)


# ----------------------------------------------------------------------------------------------------------------------
# Errors


FLATTEN_UP_TO_ERRORS = [
    ([1, 2], [7], "List arity mismatch: 1 != 2; list: [7]."),
    ((1,), (7, 8), "Tuple arity mismatch: 2 != 1; tuple: (7, 8)."),
    ({"a": 1}, {"a": 7, "b": 8}, "Dict key mismatch; expected keys: ['a']; present keys: ['a', 'b']."),
    ({"a": 1}, {"b": 7}, "Dict key mismatch; expected keys: ['a']; present keys: ['b']."),
    ([1], {"a": 7}, "Expected list, got {'a': 7}."),
    ((1,), [7], "Expected tuple, got [7]."),
    ({"a": 1}, (7,), "Expected dict, got (7,)."),
    ({"a": 1}, defaultdict(int, a=1), "Expected dict, got defaultdict(<class 'int'>, {'a': 1})."),
    ([[1]], [7], "Expected list, got 7."),
    (({"a": 1},), ([7],), "Expected dict, got [7]."),
    ((1, 2), Pair(1, 2), "Expected tuple, got Pair(a=1, b=2)."),
    (Pair(1, 2), (1, 2), "Expected named tuple, got (1, 2)."),
    (Pair(1, 2), SubPair(1, 2), "Named tuple type mismatch"),
    (Pair(1, 2), Reduced(1, 2), "Named tuple type mismatch"),
    (Box([1], aux=1), [1], "Custom node type mismatch"),
    (Box(1), SubBox(1), "Custom node type mismatch"),
    (Box(1, 2), Box(1), "Custom type arity mismatch: 1 != 2; value: Box(1,)."),
    (Box(1, aux=3), Box(1, aux=4), "Mismatch custom node data: 3 != 4; value: Box(1,)."),
    (OrderedDict(a=1, b=2), OrderedDict(b=1, a=2), "Mismatch custom node data: ('a', 'b') != ('b', 'a')"),
    (OrderedDict(a=1), {"a": 1}, "Custom node type mismatch"),
    (defaultdict(int, a=1), defaultdict(float, a=1), "Mismatch custom node data"),
    (defaultdict(int, a=1), {"a": 1}, "Custom node type mismatch"),
    (Point(1, 2), Point(1, 2, "s"), "Mismatch custom dataclass node data"),
    (Point(1, 2), 5, "Custom dataclass node type mismatch"),
    (Const(3), Const(4), "Mismatch custom node data: 3 != 4"),
    (Const(3), 3, "Custom node type mismatch"),
    (None, 3, "Expected None, got 3."),
    (None, [], "Expected None, got []."),
]


@pytest.mark.parametrize("tree, other, message", FLATTEN_UP_TO_ERRORS, ids=[m[:36] for *_, m in FLATTEN_UP_TO_ERRORS])
def test_flatten_up_to_errors(tree, other, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        structure(tree).flatten_up_to(other)
    with pytest.raises(ValueError, match="pytree structure error: different .* at key path\n    tree_map tree"):
        tu.tree_map(lambda *xs: xs, tree, other)
    with pytest.raises(ValueError, match="pytree structure error: different .* at key path\n    tree_map_with_path tree"):
        tu.tree_map_with_path(lambda *xs: xs, tree, other)
    with pytest.raises(ValueError, match="pytree structure error: different .* at key path\n    broadcast_prefix prefix_tree"):
        tu.tree_broadcast(tree, other)


def test_flatten_up_to():
    cases = [
        ([(1, 2), None, Pair(3, 7)], [({"foo": 7}, (3, 4)), None, Pair((11, 9), None)], [{"foo": 7}, (3, 4), (11, 9), None]),
        ({"a": 1, "b": (2, 3)}, {"a": [7], "b": ([8], (9,))}, [[7], [8], (9,)]),
        (1, [1, 2], [[1, 2]]),
        (None, None, []),
        (Point(1, [2]), Point((3,), [None]), [(3,), None]),
        (OrderedDict(b=1, a=2), OrderedDict(b=[3], a=[4]), [[3], [4]]),
    ]
    for tree, other, expected in cases:
        assert structure(tree).flatten_up_to(other) == expected


def test_wrong_numbers_of_leaves():
    treedef = structure((1, [2, 3]))
    with pytest.raises(ValueError, match="Too few leaves for PyTreeDef; expected 3, got 1"):
        treedef.unflatten([1])
    with pytest.raises(ValueError, match="Too many leaves for PyTreeDef; expected 3"):
        tu.tree_unflatten(treedef, range(4))
    with pytest.raises(TypeError, match="not iterable"):
        treedef.unflatten(5)
    with pytest.raises(ZeroDivisionError):
        treedef.unflatten(1 // 0 for _ in range(3))
    assert treedef.unflatten(x for x in range(3)) == (0, [1, 2])
    assert structure(1).unflatten([[1]]) == [1]


class NoOrder:
    def __init__(self, value):
        self.value = value

    def __hash__(self):
        return hash(self.value)

    def __eq__(self, other):
        return self.value == other.value

    def __lt__(self, other):
        raise KeyError("no order")


@pytest.mark.parametrize("tree", [{"a": 1, 2: 3}, {None: 1, 2: 3}, {1j: 1, 2j: 3}, {NoOrder(1): 1, NoOrder(2): 2}])
def test_keys_without_an_order(tree):
    for f in (tu.tree_flatten, tu.tree_leaves, structure, tu.tree_leaves_with_path, tu.flatten_one_level, tu.flatten_one_level_with_keys):
        with pytest.raises(ValueError, match="Comparator raised exception while sorting pytree dictionary keys") as info:
            f([tree] if f not in (tu.flatten_one_level, tu.flatten_one_level_with_keys) else tree)
        assert isinstance(info.value.__cause__, TypeError | KeyError)
    with pytest.raises((TypeError, KeyError)):
        tu.tree_flatten(defaultdict(int, tree))
    assert tu.tree_leaves(OrderedDict(tree)) == list(tree.values())


def test_is_leaf():
    tree = [(1, 2), (3, 4), (5, 6)]
    assert tu.tree_leaves(tree, is_leaf=lambda x: isinstance(x, tuple)) == tree
    assert tu.tree_leaves(tree, is_leaf=lambda x: True) == [tree]
    assert tu.tree_leaves(tree, is_leaf=lambda x: None) == [1, 2, 3, 4, 5, 6]
    assert tu.tree_leaves([1, None], is_leaf=lambda x: x is None) == [1, None]
    assert repr(structure([1, None], is_leaf=lambda x: x is None)) == "PyTreeDef([*, *])"
    assert tu.tree_map(lambda x: 7, {"a": 1, "b": None}, is_leaf=lambda x: x is None) == {"a": 7, "b": 7}
    seen = []
    tu.tree_leaves([1, (2, None)], is_leaf=lambda x: seen.append(x))
    assert seen == [[1, (2, None)], 1, (2, None), 2, None]
    with pytest.raises(ZeroDivisionError):
        tu.tree_leaves([1], is_leaf=lambda x: 1 / 0)
    for bad in ([1], np.bool_(True), 1):
        with pytest.raises(ValueError, match="is_leaf predicate returned a non-boolean value"):
            tu.tree_leaves([1], is_leaf=lambda x, bad=bad: bad)
    with pytest.raises(TypeError, match="must be callable"):
        tu.tree_leaves([1], is_leaf=3)


def test_is_leaf_with_path():
    tree = ((1, 2), [3, {4: 4, 5: 5}])
    pairs, treedef = tu.tree_flatten_with_path(tree, is_leaf=lambda path, x: len(path) >= 2, is_leaf_takes_path=True)
    assert pairs == [
        ((SequenceKey(0), SequenceKey(0)), 1),
        ((SequenceKey(0), SequenceKey(1)), 2),
        ((SequenceKey(1), SequenceKey(0)), 3),
        ((SequenceKey(1), SequenceKey(1)), {4: 4, 5: 5}),
    ]
    assert repr(treedef) == "PyTreeDef(((*, *), [*, *]))"
    assert tu.tree_leaves_with_path([1, (2,)], is_leaf=lambda x: isinstance(x, tuple)) == [
        ((SequenceKey(0),), 1),
        ((SequenceKey(1),), (2,)),
    ]
    assert tu.tree_map_with_path(
        lambda path, *xs: (path[0].idx, *xs),
        ((1, 2), [3, 4]),
        (([3], 0), ([0], 7)),
        is_leaf=lambda _, x: isinstance(x, list),
        is_leaf_takes_path=True,
    ) == (((0, 1, [3]), (0, 2, 0)), (1, [3, 4], ([0], 7)))


# ----------------------------------------------------------------------------------------------------------------------
# Maps and reductions


def test_tree_map():
    assert tu.tree_map(lambda x: x + 1, {"a": 1, "b": None, "c": (2,)}) == {"a": 2, "b": None, "c": (3,)}
    assert tu.tree_map(lambda *xs: xs, ((1, 2), (3,)), (([3], None), ({"foo": "bar"},))) == (((1, [3]), (2, None)), ((3, {"foo": "bar"}),))
    assert tu.tree_map(lambda *xs: xs, [1], [2], [3]) == [(1, 2, 3)]
    with pytest.raises(TypeError, match="not callable"):
        tu.tree_map(3, [1])
    with pytest.raises(ZeroDivisionError):
        tu.tree_map(lambda x: 1 / 0, [1])


def test_tree_map_with_path():
    tree = [{i: i for i in range(10)}]
    assert tu.tree_map_with_path(lambda path, x: x - path[1].key + path[0].idx, tree) == [dict.fromkeys(range(10), 0)]
    assert tu.tree_map_with_path(lambda path, a, b: (tu.keystr(path), a, b), [1], [{2: 3}]) == [("[0]", 1, {2: 3})]


def test_tree_map_errors_name_the_path():
    with pytest.raises(ValueError, match=re.escape("different types at key path\n    tree_map tree['a'][1]\n")):
        tu.tree_map(lambda *xs: xs, {"a": [1, (2, 3)]}, {"a": [1, [2, 3]]})


def test_tree_reduce():
    assert tu.tree_reduce(operator.add, [1, (2, 3)]) == 6
    assert tu.tree_reduce(lambda a, b: (a, b), [1, 2, 3, 4]) == (((1, 2), 3), 4)
    assert tu.tree_reduce(operator.add, [], 0) == 0
    assert tu.tree_reduce(operator.add, [(1, 2), [(3,)]], is_leaf=lambda x: isinstance(x, tuple)) == (1, 2, 3)
    with pytest.raises(TypeError):
        tu.tree_reduce(operator.add, [])
    with pytest.raises(TypeError):
        tu.tree_reduce(operator.add, [1], None)  # None is an initializer


def test_tree_reduce_associative():
    pair = lambda a, b: (a, b)  # noqa: E731
    assert tu.tree_reduce_associative(pair, [1, 2, 3, 4, 5, 6, 7]) == ((1, (2, 3)), ((4, 5), (6, 7)))
    assert tu.tree_reduce_associative(pair, [1, 2, 3, 4, 5], identity=0) == ((1, 2), (3, (4, 5)))
    assert tu.tree_reduce_associative(pair, [1], identity=9) == 1
    assert tu.tree_reduce_associative(pair, [], identity=9) == 9
    with pytest.raises(TypeError, match="identity"):
        tu.tree_reduce_associative(pair, [])


def test_tree_all():
    assert tu.tree_all([]) and tu.tree_all([1, [3]]) and not tu.tree_all([1, [0]])
    assert not tu.tree_all({"a": [], "b": 1}, is_leaf=lambda x: isinstance(x, list))
    with pytest.raises(ValueError, match="ambiguous"):
        tu.tree_all([np.ones(3)])


def test_all_leaves():
    assert tu.all_leaves([1, 2]) and tu.all_leaves([]) and tu.all_leaves(x for x in (1, 2))
    assert not tu.all_leaves([1, [2]]) and not tu.all_leaves([None]) and not tu.all_leaves([1, ()])
    assert tu.all_leaves([(1,), 2], is_leaf=lambda x: isinstance(x, tuple))


def test_tree_transpose():
    outer, inner, tree = structure([0, 0, 0]), structure((0, 0)), [(1, 2), (3, 4), (5, 6)]
    assert tu.tree_transpose(outer, inner, tree) == tu.tree_transpose(outer, None, tree) == ([1, 3, 5], [2, 4, 6])
    assert tu.tree_transpose(structure([1]), structure(()), [()]) == ()
    for o, i, t in [
        ([0, 0], (0, 0), tree),
        ([0, 0, 0], (0, 0, 0), tree),
        ([0, 0, 0], None, [(1, 2), (3, 4), (5, 6, 7)]),
        ({"a": 1, "b": 2, "c": 3}, [1, 2], {"a": [1, 2], "b": [3, 4]}),
    ]:
        with pytest.raises(TypeError, match="Mismatch"):
            tu.tree_transpose(structure(o), i and structure(i), t)
    with pytest.raises(ValueError, match="Expected list, got 5"):
        tu.tree_transpose(outer, None, 5)
    for i in (inner, None):
        with pytest.raises(ValueError, match="no leaves"):
            tu.tree_transpose(structure([]), i, [])


def test_tree_broadcast():
    assert tu.tree_broadcast((1, 2, 3), (0, {"a": 0, "b": 0}, (0, 0))) == (1, {"a": 2, "b": 2}, (3, 3))
    assert tu.tree_broadcast(1, (0, {"a": 2}, None)) == (1, {"a": 1}, None)
    assert tu.tree_broadcast((1, None), (0, {"a": 2}), is_leaf=lambda x: x is None) == (1, {"a": None})
    assert broadcast_prefix((1, 2), (0, {"a": 0, "b": 0})) == [1, 2, 2]
    assert broadcast_flattened_prefix_with_treedef([1, 2], structure((1, 2)), structure((0, {"a": 0, "b": 0}))) == [1, 2, 2]
    for prefix, full in [
        ((1, 2, 3), (0, {"a": 0})),
        ((1, 2), (0, 1, 2)),
        ((1, {"a": 0}), (0, {"a": 0, "b": 0})),
        ((1, None), (0, {"a": 2})),
    ]:
        with pytest.raises(ValueError, match="pytree structure error"):
            tu.tree_broadcast(prefix, full)
        with pytest.raises(ValueError):
            broadcast_flattened_prefix_with_treedef(tu.tree_leaves(prefix), structure(prefix), structure(full))


# ----------------------------------------------------------------------------------------------------------------------
# Why trees differ


def errors_of(prefix, full, **options):
    return [str(error("in_axes")) for error in prefix_errors(prefix, full, **options)]


def test_prefix_errors():
    assert errors_of((1, 2), ((11, 12), 2)) == errors_of(1, [2]) == errors_of([None], [None]) == []
    head = "pytree structure error: different {} at key path\n    in_axes{}\n"
    cases = [
        ((1, 2), [1, 2], [("types", "")]),
        (((1,), (2,)), ([3], [4]), [("types", "[0]"), ("types", "[1]")]),
        ((1,), (2, 3), [("lengths of tuple", "")]),
        ([[1]], [[2, 3]], [("lengths of list", "[0]")]),
        ({"hi": 1}, {"hi": 2, "bye": 3}, [("numbers of pytree children", "")]),
        ({}, {"a": []}, [("numbers of pytree children", "")]),
        ([{1: 2}, {3: 4}], [{3: 4}, {5: 6}], [("pytree metadata", "[0]"), ("pytree metadata", "[1]")]),
        (Unkeyed(1, [2]), Unkeyed(3, 4), [("types", "[<flat index 1>]")]),
        (Point(1, 2), Point(1, 2, "s"), [("pytree metadata", "")]),
        ({"{oops}": {"{a}": 1}}, {"{oops}": {"{b}": 1}}, [("pytree metadata", "['{oops}']")]),
        ([None], [[1]], [("types", "[0]")]),
    ]
    for prefix, full, expected in cases:
        got = errors_of(prefix, full)
        assert len(got) == len(expected), (prefix, full, got)
        for text, (what, where) in zip(got, expected, strict=True):
            assert text.startswith(head.format(what, where)), text
    assert errors_of([None], [1], is_leaf=lambda x: x is None) == []


def test_prefix_errors_say_what_differs():
    (text,) = errors_of({"a": 1}, {"a": 2, "b": 3})
    assert "so the symmetric difference on key sets is\n    ['b']" in text
    (text,) = errors_of(Keyed(a=1), Keyed(a=2, b=3))
    assert "so the symmetric difference on key sets is\n    .b" in text
    (text,) = errors_of((1,), (2, 3))
    assert "length 1" in text and "length 2" in text
    (text,) = errors_of({1: 2}, {3: 4})
    assert "    (1,)\n" in text and text.endswith("    (3,)")
    with pytest.raises(ValueError, match="metadata of <class '.*Box'> at \\[0\\]"):
        errors_of([Box(aux=np.arange(3))], [Box(aux=np.arange(3))])


def test_equality_errors():
    def paths(a, b):
        return [(tu.keystr(path), why) for path, _, _, why in equality_errors(a, b)]

    assert paths((1, [2]), (3, [4])) == []
    assert paths([1, (2,)], [1, [2]]) == [("[1]", "their Python types differ")]
    assert paths((1, [2]), (1, 3)) == [("[1]", "their Python types differ")]
    assert [p for p, _ in paths({"a": (1,)}, {"a": (1, 2)})] == ["['a']"]
    assert [p for p, _ in paths(Box(1, aux=1), Box(1, aux=2))] == [""]
    assert "['b']" in paths({"a": 1, "b": 2}, {"a": 1})[0][1]
    assert [tu.keystr(e[0]) for e in core_pytree.equality_errors_pytreedef(structure([1, 2]), structure([1]))] == [""]


# ----------------------------------------------------------------------------------------------------------------------
# Path entries


KEYS = [
    (SequenceKey(1), "[1]", "SequenceKey(idx=1)", "idx", 1),
    (DictKey("foo"), "['foo']", "DictKey(key='foo')", "key", "foo"),
    (GetAttrKey("bar"), ".bar", "GetAttrKey(name='bar')", "name", "bar"),
    (FlattenedIndexKey(1), "[<flat index 1>]", "FlattenedIndexKey(key=1)", "key", 1),
]


@pytest.mark.parametrize("key, text, representation, field, value", KEYS, ids=[k[2] for k in KEYS])
def test_key_entries(key, text, representation, field, value):
    assert (str(key), repr(key), getattr(key, field)) == (text, representation, value)
    assert type(key).__match_args__ == (field,)
    same = type(key)(**{field: value})
    assert same == key and hash(same) == hash(key) and not same != key
    assert pickle.loads(pickle.dumps(key)) == key == copy.deepcopy(key)
    assert sum(key == other for other, *_ in KEYS) == 1
    assert len({k for k, *_ in KEYS}) == 4 and hash(FlattenedIndexKey(1)) != hash(SequenceKey(1))
    assert key != value
    for name in (field, "other"):
        with pytest.raises(AttributeError):
            setattr(key, name, 3)
    with pytest.raises(TypeError):
        type(key)()
    with pytest.raises(TypeError):
        key < same  # noqa: B015
    sub = type("Sub", (type(key),), {})
    assert sub(value) == key


def test_key_arguments():
    assert SequenceKey(True).idx == 1 and SequenceKey(np.int64(3)).idx == 3
    for make in (
        lambda: SequenceKey("a"),
        lambda: SequenceKey(1.0),
        lambda: SequenceKey(2**70),
        lambda: GetAttrKey(3),
        lambda: FlattenedIndexKey("a"),
    ):
        with pytest.raises(TypeError):
            make()
    with pytest.raises(TypeError, match="unhashable"):
        hash(DictKey([1]))
    assert DictKey(1) == DictKey(True)


def test_key_patterns():
    match [DictKey("foo"), SequenceKey(2), GetAttrKey("x"), FlattenedIndexKey(3)]:
        case [DictKey("foo"), SequenceKey(idx=i), GetAttrKey(name), FlattenedIndexKey(key=k)]:
            assert (i, name, k) == (2, "x", 3)
        case _:
            pytest.fail("not matched")


def test_keystr():
    path = (DictKey("a"), DictKey(3), SequenceKey(1), GetAttrKey("x"), FlattenedIndexKey(2), "foo", 7)
    assert tu.keystr(path) == "['a'][3][1].x[<flat index 2>]foo7"
    assert tu.keystr(path, separator="/") == "['a']/[3]/[1]/.x/[<flat index 2>]/foo/7"
    assert tu.keystr(path, simple=True, separator="/") == "a/3/1/x/2/foo/7"
    assert tu.keystr(()) == ""
