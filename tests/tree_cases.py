"""Random pytrees, and what a `tree_util` module says about each of them, as text. Run as a script with the name of the module.

    python tree_cases.py jax.tree_util 200        prints a JSON list of records; a record is a dict from a question to the answer

The script imports nothing of steno by itself, so that an interpreter with JAX can run it.
"""

from __future__ import annotations

import collections
import dataclasses
import importlib
import json
import pickle
import random
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

Pair = collections.namedtuple("Pair", "a b")


class Triple(NamedTuple):
    x: Any
    y: Any
    z: Any


class SubPair(Pair):
    pass


class Box:
    """Registered without keys."""

    def __init__(self, children: Any, aux: Any):
        self.children, self.aux = list(children), aux


class KeyedBox(Box):
    """Registered with keys."""


@dataclasses.dataclass
class Data:
    p: Any
    q: Any
    m: Any = dataclasses.field(metadata={"static": True}, default=0)


class Static(str):
    """Registered static."""


CONTAINERS = [tuple, list, dict, collections.OrderedDict, collections.defaultdict, Pair, SubPair, Triple, Box, KeyedBox, Data, Static]


def register(tu: Any) -> None:
    tu.register_pytree_node(Box, lambda x: (x.children, x.aux), lambda aux, children: Box(children, aux))
    tu.register_pytree_with_keys(
        KeyedBox,
        lambda x: ([(tu.GetAttrKey(f"f{i}"), c) for i, c in enumerate(x.children)], x.aux),
        lambda aux, children: KeyedBox(children, aux),
    )
    tu.register_dataclass(Data)
    tu.register_static(Static)


KEYS = [
    ["a", "b", "zz", "B", "é", "k1", "k10", "k2", "", "a b"],
    [0, 5, -3, 17, 2, 9, 100, 1, 3, 4],
    [(0, 1), (1,), (), (2, "a"), (0,), (5, 5), (3,), (9,), (0, 0), (1, 2)],
]


def random_tree(r: random.Random, depth: int) -> Any:
    if depth == 0 or r.random() < 0.2:
        return r.choice([None, 1, 2.5, "s", True, frozenset(), object]) if r.random() < 0.9 else r.choice([(), [], {}])

    def children(n: int) -> list[Any]:
        return [random_tree(r, depth - 1) for _ in range(n)]

    n = r.randrange(4)
    kind = r.choice(CONTAINERS)
    if kind in (tuple, list):
        return kind(children(n))
    if kind in (dict, collections.OrderedDict, collections.defaultdict):
        items = list(zip(r.sample(r.choice(KEYS), n), children(n), strict=True))
        return kind(r.choice([int, list, None]), items) if kind is collections.defaultdict else kind(items)
    if kind in (Box, KeyedBox):
        return kind(children(n), r.randrange(2))
    if kind is Data:
        return Data(*children(2), r.randrange(2))
    if kind is Static:
        return Static(r.choice("ab"))
    return kind(*children(len(kind._fields)))


def mutate(r: random.Random, x: Any, p: float = 0.15) -> Any:
    """A tree that mostly has the structure of `x`, or extends it."""
    if r.random() < p:
        return random_tree(r, 2)
    values = lambda d: [(k, mutate(r, v, p)) for k, v in d.items() if r.random() > p / 2]  # noqa: E731
    if type(x) in (tuple, list):
        return type(x)([mutate(r, v, p) for v in x] + ([1] if r.random() < p / 2 else []))
    if type(x) in (dict, collections.OrderedDict):
        return type(x)(values(x))
    if type(x) is collections.defaultdict:
        return collections.defaultdict(x.default_factory, values(x))
    if isinstance(x, Pair | Triple):
        return type(x)(*[mutate(r, v, p) for v in x])
    if isinstance(x, Box):
        return type(x)([mutate(r, c, p) for c in x.children], x.aux if r.random() > p / 2 else 99)
    if isinstance(x, Data):
        return Data(mutate(r, x.p, p), mutate(r, x.q, p), x.m)
    return x


def text(x: Any) -> str:
    """Like repr, the same in every version of Python; containers show their classes."""
    if isinstance(x, dict):
        extra = f" {x.default_factory}" if isinstance(x, collections.defaultdict) else ""
        return f"{type(x).__name__}{extra}{{{', '.join(f'{text(k)}: {text(v)}' for k, v in x.items())}}}"
    if isinstance(x, tuple | list):
        return f"{type(x).__name__}({', '.join(map(text, x))})"
    if isinstance(x, Box):
        return f"{type(x).__name__}({text(x.children)}, {text(x.aux)})"
    if isinstance(x, Data):
        return f"Data({text(x.p)}, {text(x.q)}, {text(x.m)})"
    return repr(x)


def answer(f: Callable[[], Any]) -> str:
    try:
        return text(f())
    except Exception as error:
        return f"raises {type(error).__name__}"


def record(tu: Any, seed: int) -> dict[str, str]:
    r = random.Random(seed)
    t = random_tree(r, r.randrange(1, 5))
    u = mutate(r, t)
    predicate = r.choice([None, lambda x: isinstance(x, tuple), lambda x: x is None, lambda x: isinstance(x, dict)])
    td, ud, leaves, registry = tu.tree_structure(t), tu.tree_structure(u), tu.tree_leaves(t), tu.default_registry
    inner = tu.tree_structure((0, [0]))
    first_list = lambda pair: (list(pair[0]), pair[1])  # noqa: E731
    questions: dict[str, Callable[[], Any]] = {
        "treedef": lambda: (td, td.num_leaves, td.num_nodes),
        "leaves": lambda: leaves,
        "unflatten": lambda: tu.tree_unflatten(td, leaves),
        "paths": lambda: [(p, tu.keystr(p), tu.keystr(p, simple=True, separator="/"), x) for p, x in tu.tree_leaves_with_path(t)],
        "children": td.children,
        "node_data": td.node_data,
        "flatten_up_to": lambda: td.flatten_up_to(u),
        "map": lambda: tu.tree_map(lambda *xs: xs, t, u),
        "map_with_path": lambda: tu.tree_map_with_path(lambda p, *xs: (tu.keystr(p), xs), t, u),
        "equal": lambda: td == ud,
        "hash": lambda: td != ud or hash(td) == hash(ud),
        "compose": lambda: td.compose(ud),
        "pickle": lambda: pickle.loads(pickle.dumps(td)) == td,
        "is_leaf": lambda: (tu.tree_flatten(t, is_leaf=predicate), tu.tree_leaves(t, predicate), tu.tree_structure(t, predicate)),
        "is_leaf with path": lambda: tu.tree_flatten_with_path(t, is_leaf=predicate),
        "one level": lambda: first_list(tu.flatten_one_level(t)),
        "one level with keys": lambda: first_list(tu.flatten_one_level_with_keys(t)),
        "broadcast": lambda: tu.tree_broadcast(t, u),
        "walk": lambda: td.walk(lambda children, data: ("node", children, data), lambda x: ("leaf", x), leaves),
        "from_iterable_tree": lambda: td.from_iterable_tree(td.walk(lambda c, _: iter(c), lambda x: x, leaves)),
        "transpose": lambda: tu.tree_transpose(td, inner, tu.tree_map(lambda x: (x, [x]), t)),
        "transpose, other inner": lambda: tu.tree_transpose(td, ud, tu.tree_map(lambda _: u, t)),
        "reduce_associative": lambda: tu.tree_reduce_associative(lambda *xs: xs, t),
        "all": lambda: tu.tree_all(t),
        "all_leaves": lambda: (tu.all_leaves([t, u]), tu.all_leaves(leaves), tu.all_leaves([t, 1], is_leaf=predicate)),
        "serialize": td.serialize_using_proto,
        "deserialize": lambda: tu.PyTreeDef.deserialize_using_proto(registry, td.serialize_using_proto()) == td,
        "from_node_data": lambda: tu.PyTreeDef.from_node_data_and_children(registry, td.node_data(), td.children()) == td,
        "one leaf less": lambda: td.unflatten(leaves[1:] if leaves else [1]),
        "treedef_tuple": lambda: tu.treedef_tuple([td, ud]),
    }
    if not leaves:  # what JAX does there is an accident
        del questions["transpose"], questions["transpose, other inner"]
    return {"tree": text(t), "other": text(u)} | {name: answer(f) for name, f in questions.items()}


def records(module: str, n: int) -> list[dict[str, str]]:
    tu = importlib.import_module(module)
    register(tu)
    return [record(tu, seed) for seed in range(n)]


if __name__ == "__main__":
    json.dump(records(sys.argv[1], int(sys.argv[2])), sys.stdout)
