"""Pytrees: laws on random trees, and what must not crash, leak or run Python."""

from __future__ import annotations

import gc
import pickle
import sys
import threading
import weakref

import pytest
from hypothesis import given, settings, strategies as st
from tree_nodes import (
    Box,
    Const,
    Keyed,
    OrderedDict,
    Pair,
    Picky,
    Point,
    Typed,
    defaultdict,
    registered,
)

import steno.tree_util as tu
from steno.core.pytree import broadcast_flattened_prefix_with_treedef, equality_errors, prefix_errors
from steno.tree_util import DictKey, Partial, PyTreeDef, default_registry, tree_structure as structure

# ----------------------------------------------------------------------------------------------------------------------
# Laws on random trees


scalars = st.one_of(st.integers(-5, 5), st.floats(allow_nan=False), st.text(max_size=2), st.booleans())


def dicts(values):
    return st.one_of(
        st.dictionaries(st.text(max_size=3), values, max_size=4),
        st.dictionaries(st.integers(-3, 9), values, max_size=4),
        st.dictionaries(st.tuples(st.integers(0, 3)), values, max_size=3),
    )


def containers(children):
    return st.one_of(
        st.lists(children, max_size=4),
        st.lists(children, max_size=4).map(tuple),
        dicts(children),
        dicts(children).map(OrderedDict),
        st.builds(lambda f, d: defaultdict(f, d), st.sampled_from([int, list, None]), dicts(children)),
        st.builds(Pair, children, children),
        st.builds(Typed, children, children),
        st.builds(lambda c, aux: Box(*c, aux=aux), st.lists(children, max_size=3), st.integers(0, 2)),
        st.builds(lambda p, q: Keyed(p=p, q=q), children, children),
        st.builds(Point, children, children, st.sampled_from(["m", "s"])),
        st.builds(Const, st.integers(0, 3)),
    )


trees = st.recursive(st.one_of(st.none(), scalars), containers, max_leaves=20)
laws = settings(max_examples=150, deadline=None, derandomize=True)


@laws
@given(trees)
def test_law_round_trip(tree):
    leaves, treedef = tu.tree_flatten(tree)
    assert treedef.num_leaves == len(leaves) and tu.all_leaves(leaves)
    rebuilt = treedef.unflatten(leaves)
    assert rebuilt == tree and type(rebuilt) is type(tree)
    again, same = tu.tree_flatten(rebuilt)
    assert same == treedef and hash(same) == hash(treedef) and all(a is b for a, b in zip(again, leaves, strict=True))


@laws
@given(trees)
def test_law_paths(tree):
    pairs, treedef = tu.tree_flatten_with_path(tree)
    assert treedef == structure(tree)
    assert [x for _, x in pairs] == tu.tree_leaves(tree)
    assert len({tu.keystr(p) for p, _ in pairs}) == len(pairs) or any(isinstance(k, DictKey) for p, _ in pairs for k in p)
    for path, leaf in pairs:
        x = tree
        for key in path:
            children = dict(tu.flatten_one_level_with_keys(x)[0])
            x = children[key]
        assert x is leaf


@laws
@given(trees)
def test_law_map(tree):
    assert tu.tree_map(lambda x: x, tree) == tree
    f, g = repr, lambda x: (x,)
    composed = tu.tree_map(lambda x: g(f(x)), tree)
    assert composed == tu.tree_map(g, tu.tree_map(f, tree))
    assert structure(tu.tree_map(lambda x: 0, tree)) == structure(tree)
    assert tu.tree_map(lambda a, b: a is b, tree, tree) == tu.tree_map(lambda x: True, tree)


@laws
@given(trees, trees)
def test_law_compose(tree, inner):
    outer, inner_def = structure(tree), structure(inner)
    composed = outer.compose(inner_def)
    assert composed.num_leaves == outer.num_leaves * inner_def.num_leaves
    assert composed.num_nodes == outer.num_nodes - outer.num_leaves + outer.num_leaves * inner_def.num_nodes
    assert composed == structure(tu.tree_map(lambda _: inner, tree))
    assert outer.compose(structure(0)) == outer == structure(0).compose(outer)


@laws
@given(trees, st.integers(1, 3))
def test_law_transpose(tree, width):
    outer, inner = structure(tree), structure([0] * width)
    if not outer.num_leaves:
        return
    nested = tu.tree_map(lambda x: [x] * width, tree)
    transposed = tu.tree_transpose(outer, inner, nested)
    assert transposed == [tree] * width == tu.tree_transpose(outer, None, nested)
    assert tu.tree_transpose(inner, outer, transposed) == nested


@laws
@given(trees)
def test_law_broadcast(tree):
    nested = tu.tree_map(lambda x: [x, {"a": x}], tree)
    assert tu.tree_broadcast(tree, nested) == nested
    assert broadcast_flattened_prefix_with_treedef(tu.tree_leaves(tree), structure(tree), structure(nested)) == tu.tree_leaves(nested)
    assert structure(tree).flatten_up_to(nested) == [[x, {"a": x}] for x in tu.tree_leaves(tree)]
    assert prefix_errors(tree, nested) == []


@laws
@given(trees)
def test_law_structures(tree):
    treedef = structure(tree)
    assert pickle.loads(pickle.dumps(treedef)) == treedef
    assert sum(c.num_leaves for c in treedef.children()) == (0 if treedef == structure(0) else treedef.num_leaves)
    assert PyTreeDef.from_node_data_and_children(default_registry, treedef.node_data(), treedef.children()) == treedef
    iterables = treedef.walk(lambda children, _: iter(children), None, tu.tree_leaves(tree))
    assert treedef.from_iterable_tree(iterables) == tree


@laws
@given(trees, trees)
def test_law_equality(a, b):
    same = structure(a) == structure(b)
    assert same == (not list(equality_errors(a, b)))
    if same:
        assert hash(structure(a)) == hash(structure(b))
    try:
        structure(a).flatten_up_to(b)
        fits = True
    except ValueError:
        fits = False
    assert fits == (not prefix_errors(a, b))


# ----------------------------------------------------------------------------------------------------------------------
# Robustness


def nested_list(depth):
    x = 1
    for _ in range(depth):
        x = [x]
    return x


def test_deep_and_cyclic_trees():
    assert tu.tree_leaves(nested_list(500)) == [1]
    with pytest.raises(RecursionError, match="pytree"):
        tu.tree_leaves(nested_list(100_000))
    cyclic = []
    cyclic.append(cyclic)
    also_cyclic = {"a": OrderedDict()}
    also_cyclic["a"]["b"] = also_cyclic
    for tree in (cyclic, also_cyclic):
        for f in (tu.tree_flatten, tu.tree_leaves_with_path, lambda x: tu.tree_map(lambda y: y, x)):
            with pytest.raises(RecursionError):
                f(tree)


def test_deep_structures():
    treedef = structure([1])
    for _ in range(14):
        treedef = treedef.compose(treedef)
    assert treedef.num_nodes == 2**14 + 1 and len(repr(treedef)) == 2 * 2**14 + 12
    assert pickle.loads(pickle.dumps(treedef)) == treedef
    tree = treedef.unflatten([1])
    with pytest.raises(RecursionError):
        tu.tree_leaves(tree)
    with pytest.raises(RecursionError):
        treedef.flatten_up_to(tree)
    with pytest.raises(RecursionError):
        treedef.from_iterable_tree(tree)


def test_wide_trees():
    tree = [{"a": i, "b": (i,)} for i in range(10_000)]
    leaves, treedef = tu.tree_flatten(tree)
    assert len(leaves) == 20_000 and treedef.unflatten(leaves) == tree and treedef.num_nodes == 40_001
    assert len(tu.tree_leaves(list(range(1_000_000)))) == 1_000_000


@pytest.mark.parametrize(
    "make, change, error",
    [
        (lambda x: [x, [2], 3], lambda c: c.clear(), RuntimeError),
        (lambda x: [x, [2], 3], lambda c: c.append(1), RuntimeError),
        (lambda x: dict(a=x, b=[2], c=3), lambda c: c.clear(), ValueError),
        (lambda x: OrderedDict(a=x, b=[2], c=3), lambda c: c.clear(), None),
        (lambda x: defaultdict(int, a=x, b=[2], c=3), lambda c: c.clear(), ValueError),
    ],
)
def test_containers_that_change_while_they_are_flattened(make, change, error):
    x = registered(lambda _: (change(container), ((), None))[1])
    container = make(x)
    if error is RuntimeError:
        with pytest.raises(RuntimeError, match="changed"):
            tu.tree_leaves(container)
    else:
        assert tu.tree_leaves(container) == [2, 3]  # the items were read before
    node = PyTreeDef.from_node_data_and_children(default_registry, (type(x), None), [])
    data = structure(make(1)).node_data()
    prefix = PyTreeDef.from_node_data_and_children(default_registry, data, [node, structure([1]), structure(1)])
    container = make(x)
    if error is None:
        assert prefix.flatten_up_to(container) == [2, 3]
    else:
        with pytest.raises(error):
            prefix.flatten_up_to(container)


def test_sorting_that_changes_the_dict():
    class Evil:
        def __init__(self, n):
            self.n = n

        def __hash__(self):
            return self.n

        def __lt__(self, other):
            tree.clear()
            return self.n < other.n

    tree = {Evil(1): 1, Evil(2): 2}
    with pytest.raises(RuntimeError, match="changed"):
        tu.tree_leaves(tree)


def test_unflatten_functions_that_change_the_leaves():
    leaves = [object() for _ in range(3)]
    x = registered(lambda x: ((1,), None), lambda aux, children: leaves.clear())
    assert structure([x, 1, 2]).unflatten(leaves)[0] is None


class Token:
    """A leaf whose references are counted."""


def assert_no_leak(f):
    token = Token()
    gc.freeze()  # what other tests left need not be looked at
    try:
        for _ in range(3):
            f(token)
        gc.collect()
        before = sys.getrefcount(token)
        for _ in range(10):
            f(token)
        gc.collect()
    finally:
        gc.unfreeze()
    assert sys.getrefcount(token) == before


def tree_of(x):
    return [
        (x, x),
        {"a": x, "b": [x]},
        OrderedDict(b=x),
        defaultdict(int, k=x),
        Pair(x, [x]),
        Typed(x),
        Picky(x, x),
        Box(x, aux=None),
        Keyed(p=x),
        Point(x, x),
        Const(1),
        {3: x, 1: x},
        None,
    ]


@pytest.mark.parametrize(
    "use",
    [
        lambda x: tu.tree_flatten(tree_of(x)),
        lambda x: structure(tree_of(x)).unflatten([x] * structure(tree_of(0)).num_leaves),
        lambda x: tu.tree_leaves_with_path(tree_of(x)),
        lambda x: structure(tree_of(0)).flatten_up_to(tree_of(x)),
        lambda x: tu.tree_map(lambda y: y, tree_of(x)),
        lambda x: [tu.flatten_one_level_with_keys(t) for t in tree_of(x)],
        lambda x: structure(Box(aux=x)) == structure(Box(aux=x)),
        lambda x: structure(tree_of(0)).compose(structure(Box(1, aux=x))).children(),
        lambda x: structure(Box(1, aux=x)).node_data(),
        lambda x: structure(tree_of(0)).walk(lambda c, d: c, lambda _: x, range(structure(tree_of(0)).num_leaves)),
        lambda x: DictKey(x) == DictKey(x),
        lambda x: pytest.raises(ValueError, structure([1]).unflatten, [x, x]),
        lambda x: pytest.raises(ValueError, structure([[1], [1]]).flatten_up_to, [[x], x]),
        lambda x: pytest.raises(ValueError, tu.tree_leaves, [x, {"a": x, 1: x}]),
        lambda x: pytest.raises(ValueError, tu.tree_leaves, [x, [x]], is_leaf=lambda y: 3 if y is not x and len(y) == 1 else False),
        lambda x: pytest.raises(TypeError, structure((1, Picky(1, 2), 2)).walk, lambda c, d: c + 1, None, [x] * 4),
        lambda x: pytest.raises(TypeError, structure(1).compose, x),
        lambda x: structure([1, 2]).from_iterable_tree([x, x]),
    ],
)
def test_no_reference_leaks(use):
    assert_no_leak(use)


def test_cycles_through_structures_are_collected():
    class Node:
        pass

    node = Node()
    node.treedef = structure(Box(1, aux=node))
    node.key = DictKey(node)
    alive = weakref.ref(node)
    del node
    gc.collect()
    assert alive() is None


def test_structures_may_be_referenced_weakly():
    treedef = structure([1, 2])
    alive = weakref.ref(treedef)
    assert alive() is treedef
    del treedef
    assert alive() is None


def test_threads():
    tree = tree_of(1)
    expected = structure(tree)
    failures = []

    def work():
        for _ in range(200):
            leaves, treedef = tu.tree_flatten(tree)
            if treedef != expected or hash(treedef) != hash(expected) or structure(treedef.unflatten(leaves)) != expected:
                failures.append(treedef)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_no_python_runs_for_the_known_kinds():
    @tu.register_static
    class Marker(str):
        pass

    tree = [
        (1, 2),
        {"b": 3, "a": [None]},
        Pair(4, 5),
        OrderedDict(x=6),
        defaultdict(int, y=7),
        Const(1),
        Marker("m"),
        Partial(print, 8, k=9),
    ]
    flatten, treedef = default_registry.flatten, structure(tree)
    flatten_up_to, calls = treedef.flatten_up_to, []

    def profile(frame, event, argument):
        if event == "call":
            calls.append(frame.f_code.co_name)

    sys.setprofile(profile)
    try:
        flatten(tree)
        flatten_up_to(tree)
    finally:
        sys.setprofile(None)
    assert calls == []
