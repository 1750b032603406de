"""Pytrees: what `steno.tree_util` and `steno.tree` show, and what the other layers use to explain trees that do not fit.

The walking itself is native (`runtime/native/pytree.h`); this module imports nothing of steno but `_native` and `record`, so any
layer may import it. A *path* is a tuple of key entries (`DictKey`, `SequenceKey`, ...), from the root to a node.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

from steno._native import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    PyTreeDef,
    PyTreeRegistry,
    SequenceKey,
    default_registry,
    flatten_partial,
)
from steno.core.record import record

__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "KeyEntry",
    "KeyPath",
    "Partial",
    "PyTreeDef",
    "PyTreeRegistry",
    "SequenceKey",
    "all_leaves",
    "broadcast_flattened_prefix_with_treedef",
    "broadcast_prefix",
    "default_registry",
    "dispatch_registry",
    "equality_errors",
    "equality_errors_pytreedef",
    "flatten_one_level",
    "flatten_one_level_with_keys",
    "generate_key_paths",
    "is_tree_node",
    "keystr",
    "prefix_errors",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_pytree_with_keys_class",
    "register_static",
    "static",
    "tree_all",
    "tree_broadcast",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_with_path",
    "tree_reduce",
    "tree_reduce_associative",
    "tree_structure",
    "tree_transpose",
    "tree_unflatten",
    "treedef_children",
    "treedef_is_leaf",
    "treedef_is_strict_leaf",
    "treedef_tuple",
]

T = TypeVar("T")
Typ = TypeVar("Typ", bound=type)
KeyEntry = TypeVar("KeyEntry", bound=Hashable)
KeyPath = tuple[KeyEntry, ...]
IsLeaf = Callable[[Any], bool] | None

# One registry serves flattening and dispatch; the name is known to programs that look for it.
dispatch_registry = default_registry


class _Unspecified:
    """The default of an argument for which None is a value."""

    def __repr__(self) -> str:
        return "<unspecified>"


_UNSPECIFIED = _Unspecified()


# ----------------------------------------------------------------------------------------------------------------------
# Flattening and rebuilding


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], PyTreeDef]:
    """The leaves of `tree`, from left to right, and its structure.

    Nodes are the registered classes, and: tuple, list, dict (in the order of its sorted keys), named tuples, None,
    OrderedDict, defaultdict. `is_leaf(x)` may return True to stop at a node. Dict keys without an order: ValueError.

    >>> leaves, structure = steno.tree.flatten({'a': 1, 'b': [2]})
    >>> leaves, structure
    ([1, 2], PyTreeDef({'a': *, 'b': [*]}))
    """
    return default_registry.flatten(tree, is_leaf)


def tree_unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """The tree with this structure and these leaves. A wrong number of leaves: ValueError.

    >>> steno.tree.unflatten(steno.tree.structure({'a': 1}), [5])
    {'a': 5}
    """
    return treedef.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of `tree`, from left to right; see `tree_flatten`.

    >>> steno.tree.leaves({'b': 1, 'a': (2, None)})
    [2, 1]
    """
    return default_registry.leaves(tree, is_leaf)


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> PyTreeDef:
    """The structure of `tree`; see `tree_flatten`.

    >>> steno.tree.structure([1, {'a': 2}])
    PyTreeDef([*, {'a': *}])
    """
    return default_registry.structure(tree, is_leaf)


def _predicate_of_path(is_leaf: Callable[..., bool] | None, is_leaf_takes_path: bool) -> Callable[..., bool] | None:
    if is_leaf is None or is_leaf_takes_path:
        return is_leaf
    return lambda path, x: is_leaf(x)


def tree_flatten_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """Like `tree_flatten`, with pairs (path, leaf) for leaves. With `is_leaf_takes_path`, `is_leaf(path, x)` is called."""
    return default_registry.flatten_with_path(tree, _predicate_of_path(is_leaf, is_leaf_takes_path))


def tree_leaves_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath, Any]]:
    """The pairs (path, leaf) of `tree`; see `tree_flatten_with_path`."""
    return tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


generate_key_paths = tree_leaves_with_path


def flatten_one_level(tree: Any) -> tuple[Iterable[Any], Hashable]:
    """The children and the data of the root. A leaf: ValueError."""
    result = default_registry.flatten_one_level(tree)
    if result is None:
        raise ValueError(f"flatten_one_level: can't tree-flatten type: {type(tree)}, it is a leaf")
    return result


def flatten_one_level_with_keys(tree: Any) -> tuple[Iterable[tuple[Any, Any]], Hashable]:
    """The pairs (key, child) and the data of the root. A leaf: ValueError."""
    result = default_registry.flatten_one_level_with_keys(tree)
    if result is None:
        raise ValueError(f"flatten_one_level_with_keys: can't tree-flatten type: {type(tree)}, it is a leaf")
    return result


def is_tree_node(typ: type) -> bool:
    """Whether objects of class `typ` are nodes."""
    return default_registry.is_node(typ)


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf = None) -> bool:
    """Whether all elements are leaves."""
    if is_leaf is None:
        return not any(default_registry.is_node(type(x)) for x in iterable)
    elements = list(iterable)
    leaves = tree_leaves(elements, is_leaf)
    return len(leaves) == len(elements) and all(a is b for a, b in zip(leaves, elements, strict=True))


# ----------------------------------------------------------------------------------------------------------------------
# Structures


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple whose elements have these structures."""
    return PyTreeDef.from_node_data_and_children(default_registry, (tuple, None), treedefs)


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The structures of the children of the root."""
    return treedef.children()


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether the root has no children: a leaf, None or an empty container."""
    return treedef.num_nodes == 1


def treedef_is_strict_leaf(treedef: PyTreeDef) -> bool:
    """Whether this is the structure of a single leaf."""
    return treedef.num_nodes == 1 and treedef.num_leaves == 1


# The wire format of `serialize_using_proto` is a protocol buffer: field 1, repeated: a node, the nodes in post-order; field 2,
# repeated: the strings that are keys of dicts. A node: field 1: arity; 2: one of the numbers below; 3: a message whose field 1 is
# the packed indices of the keys among the strings. It holds no classes of programs, so it can be read without trust.
_PROTO_KINDS = {None: 1, list: 2, type(None): 3, tuple: 4, dict: 5}
_PROTO_CLASSES = {number: cls for cls, number in _PROTO_KINDS.items()}


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _read_fields(data: bytes) -> Iterable[tuple[int, Any]]:  # an int or bytes, by the number of the field
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        value, at = _read_varint(data, at)
        if tag & 7 == 0:
            yield tag >> 3, value
        elif tag & 7 == 2 and at + value <= len(data):
            yield tag >> 3, data[at : at + value]
            at += value
        else:
            raise ValueError(f"unknown field {tag}")


def _write_field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value) if value else b""
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _serialize_using_proto(self: PyTreeDef) -> bytes:
    """The structure as bytes. Only tuples, lists, None and dicts with keys of class str: ValueError otherwise."""
    nodes: list[bytes] = []
    strings: dict[str, int] = {}

    def write(treedef: PyTreeDef) -> None:
        cls, data = treedef.node_data() or (None, ())
        if cls not in _PROTO_KINDS:
            raise ValueError(f"PyTreeDef.serialize_using_proto: nodes of the class {cls} cannot be serialized; pickle them instead")
        children = treedef.children()
        for child in children:
            write(child)
        fields = _write_field(1, len(children)) + _write_field(2, _PROTO_KINDS[cls])
        if cls is dict:
            if not all(type(key) is str for key in data):
                raise ValueError(f"PyTreeDef.serialize_using_proto: the keys of a dict must be str, got {data}")
            indices = b"".join(_varint(strings.setdefault(key, len(strings))) for key in data)
            fields += _write_field(3, _write_field(1, indices)) if data else b""
        nodes.append(_write_field(1, fields))

    write(self)
    return b"".join(nodes) + b"".join(_write_field(2, text.encode()) for text in strings)


def _deserialize_using_proto(registry: PyTreeRegistry, data: bytes) -> PyTreeDef:
    """The inverse of `serialize_using_proto`. Other bytes: ValueError."""
    try:
        fields = list(_read_fields(data))
        strings = [value.decode() for number, value in fields if number == 2]
        stack: list[PyTreeDef] = []
        for node in (dict(_read_fields(value)) for number, value in fields if number == 1):
            cls, arity = _PROTO_CLASSES[node[2]], node.get(1, 0)
            if arity > len(stack):
                raise ValueError("a node has more children than there are")
            children = stack[len(stack) - arity :]
            del stack[len(stack) - arity :]
            keys = None
            if cls is dict:
                packed, at, keys = dict(_read_fields(node.get(3, b""))).get(1, b""), 0, []
                while at < len(packed):
                    index, at = _read_varint(packed, at)
                    keys.append(strings[index])
            stack.append(PyTreeDef.from_node_data_and_children(registry, None if cls is None else (cls, keys), children))
        (result,) = stack
        return result
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(f"PyTreeDef.deserialize_using_proto: these bytes are no serialized PyTreeDef ({error})") from error


PyTreeDef.serialize_using_proto = _serialize_using_proto
PyTreeDef.deserialize_using_proto = staticmethod(_deserialize_using_proto)


# ----------------------------------------------------------------------------------------------------------------------
# Maps and reductions


def _flatten_up_to(treedef: PyTreeDef, tree: Any, rest: Any, is_leaf: Callable[[Any], bool] | None, name: str) -> list[Any]:
    """`treedef.flatten_up_to(rest)`; if that fails, a ValueError with the path at which `tree` is no prefix of `rest`."""
    try:
        return treedef.flatten_up_to(rest)
    except ValueError:
        for error in prefix_errors(tree, rest, is_leaf):
            raise error(name) from None
        raise


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """`f` of each leaf of `tree`, as a tree of the same structure.

    `tree` must be a prefix of each tree in `rest`; `f` gets the subtrees that stand there as further arguments.
    A tree that does not fit: ValueError with the path. See `tree_flatten` for `is_leaf`.

    >>> steno.tree.map(lambda x: x + 1, {'a': 1, 'b': (2, 3)})
    {'a': 2, 'b': (3, 4)}
    """
    leaves, treedef = tree_flatten(tree, is_leaf)
    columns = [leaves] + [_flatten_up_to(treedef, tree, r, is_leaf, "tree_map tree") for r in rest]
    return treedef.unflatten([f(*xs) for xs in zip(*columns, strict=True)])


def tree_map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """Like `tree_map`; `f(path, leaf, ...)` also gets the path of the leaf."""
    pairs, treedef = tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    paths, leaves = [path for path, _ in pairs], [leaf for _, leaf in pairs]
    ignores_path = None if is_leaf_takes_path else is_leaf
    columns = [paths, leaves] + [_flatten_up_to(treedef, tree, r, ignores_path, "tree_map_with_path tree") for r in rest]
    return treedef.unflatten([f(*xs) for xs in zip(*columns, strict=True)])


def tree_reduce(function: Callable[[T, Any], T], tree: Any, initializer: Any = _UNSPECIFIED, is_leaf: IsLeaf = None) -> T:
    """`functools.reduce` over the leaves, from left to right. No leaves and no initializer: TypeError.

    >>> steno.tree.reduce(lambda x, y: x + y, {'a': 1, 'b': (2, 3)})
    6
    """
    leaves = tree_leaves(tree, is_leaf)
    if initializer is _UNSPECIFIED:
        return functools.reduce(function, leaves)
    return functools.reduce(function, leaves, initializer)


def tree_reduce_associative(operation: Callable[[T, T], T], tree: Any, *, identity: Any = _UNSPECIFIED, is_leaf: IsLeaf = None) -> T:
    """Combines the leaves in a balanced tree, the left half first. No leaves and no identity: TypeError."""
    leaves = tree_leaves(tree, is_leaf)
    if not leaves:
        if identity is _UNSPECIFIED:
            raise TypeError("tree_reduce_associative: a tree without leaves needs an identity, got none")
        return identity

    def combine(begin: int, end: int) -> Any:
        if end - begin == 1:
            return leaves[begin]
        middle = begin + (end - begin) // 2
        return operation(combine(begin, middle), combine(middle, end))

    return combine(0, len(leaves))


def tree_all(tree: Any, *, is_leaf: IsLeaf = None) -> bool:
    """Whether all leaves are true."""
    return all(tree_leaves(tree, is_leaf))


def tree_transpose(outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any) -> Any:
    """A tree of structure outer(inner) --> a tree of structure inner(outer).

    Without `inner_treedef`, it is the structure that stands at the leaves of `outer_treedef`, the same at all of them.
    Another number of leaves than the two structures have together: TypeError.
    """
    inner: PyTreeDef
    if inner_treedef is None:
        subtrees = outer_treedef.flatten_up_to(pytree_to_transpose)
        if not subtrees:
            raise ValueError(f"tree_transpose: inner_treedef is needed, {outer_treedef} has no leaves to infer it from")
        inner = tree_structure(subtrees[0])
        leaves, treedef = tree_flatten(pytree_to_transpose)
        fits = treedef == outer_treedef.compose(inner)
    else:
        inner = inner_treedef
        # By number only: the data of a registered class may depend on what stands below it.
        leaves, treedef = tree_flatten(pytree_to_transpose)
        fits = treedef.num_leaves == outer_treedef.num_leaves * inner.num_leaves
    if not fits:
        raise TypeError(f"tree_transpose: Mismatch, expected the structure {outer_treedef.compose(inner)}, got {treedef}")
    if not leaves and inner.num_leaves:
        raise ValueError(f"tree_transpose: {outer_treedef} has no leaves, so there is nothing to put at the leaves of {inner}")
    width = inner.num_leaves
    return inner.unflatten([outer_treedef.unflatten(leaves[i::width]) for i in range(width)])


def tree_broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None) -> Any:
    """The tree of `full_tree`'s structure in which each leaf is the leaf of `prefix_tree` above it. No prefix: ValueError."""
    return tree_unflatten(tree_structure(full_tree, is_leaf), broadcast_prefix(prefix_tree, full_tree, is_leaf))


def broadcast_prefix(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of `tree_broadcast(prefix_tree, full_tree)`."""
    leaves, treedef = tree_flatten(prefix_tree, is_leaf)
    subtrees = _flatten_up_to(treedef, prefix_tree, full_tree, is_leaf, "broadcast_prefix prefix_tree")
    return [leaf for leaf, t in zip(leaves, subtrees, strict=True) for _ in range(tree_structure(t, is_leaf).num_leaves)]


def broadcast_flattened_prefix_with_treedef(leaves: list[Any], prefix: PyTreeDef, full: PyTreeDef) -> list[Any]:
    """Like `broadcast_prefix`, for structures: the leaves of `full`, each the leaf of `prefix` above it. No prefix: ValueError."""
    counts = prefix.flatten_up_to(full.unflatten(_LeafMark() for _ in range(full.num_leaves)))
    return [leaf for leaf, t in zip(leaves, counts, strict=True) for _ in range(tree_structure(t).num_leaves)]


class _LeafMark:
    """Stands for a leaf."""

    def __repr__(self) -> str:
        return "*"


# ----------------------------------------------------------------------------------------------------------------------
# Paths


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """A path as text: `['a'][0].x`; with `simple` only what stands inside the entries, as `a/0/x` for the separator "/"."""
    return separator.join(map(_simple_entry if simple else str, keys))


def _simple_entry(key: Any) -> str:
    match key:
        case SequenceKey(idx=value) | DictKey(key=value) | GetAttrKey(name=value) | FlattenedIndexKey(key=value):
            return str(value)
        case _:
            return str(key)


# ----------------------------------------------------------------------------------------------------------------------
# Why two trees differ


@record(frozen=True)
class _Difference:
    """The difference at one node. `kind` is type, length, children or data; `first` and `second` are the nodes, or their data."""

    path: KeyPath
    kind: str
    first: Any
    second: Any


def _child_keys(tree: Any) -> list[Any]:
    return [key for key, _ in default_registry.flatten_one_level_with_keys(tree)[0]]


def _compare_nodes(path: KeyPath, first: Any, second: Any, of_prefix: bool, is_leaf: IsLeaf) -> Iterable[_Difference]:
    """The differences of two trees, at most one on each path; with `of_prefix`, a leaf of `first` fits any subtree."""
    if of_prefix and is_leaf is not None and is_leaf(first):
        return
    one = default_registry.flatten_one_level_with_keys(first)
    if one is None and of_prefix:
        return
    two = default_registry.flatten_one_level_with_keys(second)
    if type(first) is not type(second):
        if one is not None or two is not None:
            yield _Difference(path, "type", first, second)
        return
    if one is None or two is None:
        return
    pairs, others = list(one[0]), list(two[0])
    if len(pairs) != len(others):
        yield _Difference(path, "length" if isinstance(first, list | tuple) else "children", first, second)
        return
    try:
        same_data = bool(one[1] == two[1])
    except Exception as error:
        raise ValueError(f"comparing the pytree metadata of {type(first)} at {keystr(path) or 'the root'} raised {error!r}") from error
    if not same_data:
        yield _Difference(path, "data", one[1], two[1])
        return
    for (key, a), (_, b) in zip(pairs, others, strict=True):
        yield from _compare_nodes((*path, key), a, b, of_prefix, is_leaf)


def prefix_errors(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None) -> list[Callable[[str], ValueError]]:
    """The places at which `prefix_tree` is no prefix of `full_tree`: functions from the name of an argument to a ValueError."""
    return [functools.partial(_prefix_error, d) for d in _compare_nodes((), prefix_tree, full_tree, True, is_leaf)]


def check_prefix(name: str, prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None) -> None:
    """ValueError, with all the places, unless `prefix_tree`, called `name`, is a prefix of `full_tree`."""
    errors = [str(error(name)) for error in prefix_errors(prefix_tree, full_tree, is_leaf)]
    if errors:
        raise ValueError(
            f"{name} specification must be a tree prefix of the corresponding value; it is none. Mismatch details ({len(errors)} found):\n"
            + "\n".join(errors)
        )


def _prefix_error(difference: _Difference, name: str) -> ValueError:
    first, second = difference.first, difference.second
    where = f"{name}{keystr(difference.path)}"
    if difference.kind == "type":
        headline = "different types"
        detail = f"{name} has there a node of type\n    {type(first)}\nbut the full tree has\n    {type(second)}"
    elif difference.kind == "length":
        headline = f"different lengths of {type(first).__name__}"
        detail = f"{name} has there a {type(first).__name__} of length {len(first)}, but the full tree has one of length {len(second)}"
    elif difference.kind == "children":
        headline = "different numbers of pytree children"
        keys, others = _child_keys(first), _child_keys(second)
        only_one = [k for k in keys if k not in others] + [k for k in others if k not in keys]
        detail = (
            f"{name} has there a {type(first)} with {len(keys)} children, at\n    {_keys_text(keys)}\n"
            f"but the full tree has one with {len(others)}, at\n    {_keys_text(others)}\n"
            f"so the symmetric difference on key sets is\n    {_keys_text(only_one)}"
        )
    else:
        headline = "different pytree metadata"
        detail = f"{name} has there a node with metadata\n    {first}\nbut the full tree has one with\n    {second}"
    return ValueError(f"pytree structure error: {headline} at key path\n    {where}\n{detail}")


def _keys_text(keys: Sequence[Any]) -> str:
    return " ".join(map(str, keys))


def equality_errors(tree1: Any, tree2: Any) -> Iterable[tuple[KeyPath, str, str, str]]:
    """The places at which the structures of two trees differ: (path, what the first has, what the second has, explanation)."""
    return map(_describe, _compare_nodes((), tree1, tree2, False, None))


def equality_errors_pytreedef(tree1: PyTreeDef, tree2: PyTreeDef) -> Iterable[tuple[KeyPath, str, str, str]]:
    """`equality_errors` of two structures."""
    return equality_errors(*(t.unflatten(_LeafMark() for _ in range(t.num_leaves)) for t in (tree1, tree2)))


def _describe(difference: _Difference) -> tuple[KeyPath, str, str, str]:
    first, second = difference.first, difference.second
    if difference.kind == "type":
        return difference.path, str(type(first)), str(type(second)), "their Python types differ"
    if difference.kind == "length":
        one, two = (f"{type(x).__name__} of length {len(x)}" for x in (first, second))
        return difference.path, one, two, "the lengths differ"
    if difference.kind == "children":
        keys, others = _child_keys(first), _child_keys(second)
        one, two = (f"{type(first)} with {len(k)} child{'' if len(k) == 1 else 'ren'}" for k in (keys, others))
        only = ", ".join(str(k) for k in [*keys, *others] if k not in keys or k not in others)
        return difference.path, one, two, f"only one of them has the children {only}"
    return difference.path, f"pytree metadata {first}", f"pytree metadata {second}", "the pytree metadata differ"


# ----------------------------------------------------------------------------------------------------------------------
# Registration


def register_pytree_node(
    nodetype: type[T],
    flatten_func: Callable[[T], tuple[Iterable[Any], Hashable]],
    unflatten_func: Callable[[Any, Any], T],
    flatten_with_keys_func: Callable[[T], tuple[Iterable[tuple[Any, Any]], Hashable]] | None = None,
) -> None:
    """Makes a class a node.

    `flatten_func(x)` gives (children, data), `unflatten_func(data, children)` the object; `flatten_with_keys_func(x)` gives
    ((key, child)..., data). The data must have `==` and hash. A class that is a node already: ValueError.
    """
    default_registry.register_node(nodetype, flatten_func, unflatten_func, flatten_with_keys_func)


def register_pytree_node_class(cls: Typ) -> Typ:
    """Class decorator: `register_pytree_node` with the methods `tree_flatten` and (a class method) `tree_unflatten`."""
    register_pytree_node(cls, lambda x: x.tree_flatten(), cls.tree_unflatten)  # type: ignore[attr-defined]
    return cls


def register_pytree_with_keys(
    nodetype: type[T],
    flatten_with_keys: Callable[[T], tuple[Iterable[tuple[Any, Any]], Hashable]],
    unflatten_func: Callable[[Any, Iterable[Any]], T],
    flatten_func: Callable[[T], tuple[Iterable[Any], Hashable]] | None = None,
) -> None:
    """Like `register_pytree_node`, with keys for the paths; `flatten_func` defaults to `flatten_with_keys` without them."""
    if flatten_func is None:

        def without_keys(x: T) -> tuple[Iterable[Any], Hashable]:
            pairs, data = flatten_with_keys(x)
            return [child for _, child in pairs], data

        flatten_func = without_keys
    register_pytree_node(nodetype, flatten_func, unflatten_func, flatten_with_keys)


def register_pytree_with_keys_class(cls: Typ) -> Typ:
    """Class decorator: `register_pytree_with_keys` with `tree_flatten_with_keys`, `tree_unflatten` and, if there, `tree_flatten`."""
    flatten_func = (lambda x: x.tree_flatten()) if "tree_flatten" in dir(cls) else None
    register_pytree_with_keys(cls, lambda x: x.tree_flatten_with_keys(), cls.tree_unflatten, flatten_func)  # type: ignore[attr-defined]
    return cls


def register_dataclass(
    nodetype: Typ,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> Typ:
    """Makes a dataclass (or a class with such attributes and such keywords in its constructor) a node.

    The attributes in `data_fields` are the children, those in `meta_fields` the data. A dataclass may leave them out: its
    fields are then data fields, except those with `metadata={"static": True}` (see `steno.tree.static`). Together with
    `drop_fields` they must be all the fields of a dataclass that its constructor takes: ValueError otherwise.
    Returns the class, so that it serves as a decorator.
    """
    import dataclasses  # noqa: PLC0415  steno itself has records: who calls this has imported it

    if (data_fields is None) != (meta_fields is None):
        raise TypeError(
            "register_dataclass: data_fields and meta_fields must both be specified when either is specified. "
            f"Got {data_fields=} {meta_fields=}."
        )
    is_dataclass = dataclasses.is_dataclass(nodetype)
    if data_fields is None or meta_fields is None:
        if not is_dataclass:
            raise TypeError(
                f"register_dataclass: data_fields and meta_fields are required when nodetype is not a dataclass. Got {nodetype=}."
            )
        fields = [f for f in dataclasses.fields(nodetype) if f.name not in drop_fields]
        meta_fields = [f.name for f in fields if f.metadata.get("static", False)]
        data_fields = [f.name for f in fields if f.name not in meta_fields]
    if overlap := set(data_fields) & set(meta_fields):
        raise ValueError(f"register_dataclass: data_fields and meta_fields must not overlap. Overlapping fields: {overlap}.")
    if is_dataclass:
        taken = {f.name for f in dataclasses.fields(nodetype) if f.init}
        given = {*data_fields, *meta_fields}
        missing, unexpected = taken - given - set(drop_fields), given - taken
        if missing or unexpected:
            raise ValueError(
                f"register_dataclass: data_fields and meta_fields must include all dataclass fields of {nodetype} with init=True, and "
                "no others."
                + (f" Missing fields: {missing}. Name them in drop_fields if they are meant to be left out." if missing else "")
                + (f" Unexpected fields: {unexpected}." if unexpected else "")
            )
    default_registry.register_dataclass_node(nodetype, list(data_fields), list(meta_fields))
    return nodetype


def register_static(cls: Typ) -> Typ:
    """Class decorator: objects of the class have no children, and are part of the structure. They need `==` and a hash."""
    default_registry.register_static_node(cls)
    return cls


def static(**kwargs: Any) -> Any:
    """`dataclasses.field(**kwargs)` of a field that `register_dataclass` takes as data, not as a child."""
    import dataclasses  # noqa: PLC0415  steno itself has records

    return dataclasses.field(**{**kwargs, "metadata": {"static": True, **(kwargs.get("metadata") or {})}})


class _OpaqueCallable:
    """Equal to the callable it wraps, and no `functools.partial`, so that `functools.partial` does not merge with it."""

    __slots__ = ("fun",)

    def __init__(self, fun: Callable[..., Any]):
        self.fun = fun

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fun(*args, **kwargs)

    def __hash__(self) -> int:
        return hash(self.fun)

    def __eq__(self, other: object) -> bool:
        return self.fun == (other.fun if isinstance(other, _OpaqueCallable) else other)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.fun!r})"


class Partial(functools.partial):
    """A `functools.partial` that is a node: its arguments are the children, its function is the data."""

    def __new__(cls, func: Callable[..., Any], *args: Any, **kw: Any) -> Partial:
        # functools.partial would merge a partial into this one, and the function would no longer be equal to itself.
        if isinstance(func, functools.partial):
            func = _OpaqueCallable(func)
        return super().__new__(cls, func, *args, **kw)


Partial.__module__ = "steno.tree_util"


def _unflatten_partial(func: Callable[..., Any], children: tuple[tuple[Any, ...], dict[str, Any]]) -> Partial:
    args, keywords = children
    return Partial(func, *args, **keywords)


register_pytree_node(Partial, flatten_partial, _unflatten_partial)
