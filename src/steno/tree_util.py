"""Pytrees: nested containers seen as leaves and structure. The same names as `jax.tree_util`."""

from __future__ import annotations

from steno.core.pytree import DictKey as DictKey
from steno.core.pytree import FlattenedIndexKey as FlattenedIndexKey
from steno.core.pytree import GetAttrKey as GetAttrKey
from steno.core.pytree import KeyEntry as KeyEntry
from steno.core.pytree import KeyPath as KeyPath
from steno.core.pytree import Partial as Partial
from steno.core.pytree import PyTreeDef as PyTreeDef
from steno.core.pytree import SequenceKey as SequenceKey
from steno.core.pytree import all_leaves as all_leaves
from steno.core.pytree import default_registry as default_registry
from steno.core.pytree import flatten_one_level as flatten_one_level
from steno.core.pytree import flatten_one_level_with_keys as flatten_one_level_with_keys
from steno.core.pytree import is_tree_node as is_tree_node
from steno.core.pytree import keystr as keystr
from steno.core.pytree import register_dataclass as register_dataclass
from steno.core.pytree import register_pytree_node as register_pytree_node
from steno.core.pytree import register_pytree_node_class as register_pytree_node_class
from steno.core.pytree import register_pytree_with_keys as register_pytree_with_keys
from steno.core.pytree import register_pytree_with_keys_class as register_pytree_with_keys_class
from steno.core.pytree import register_static as register_static
from steno.core.pytree import tree_all as tree_all
from steno.core.pytree import tree_broadcast as tree_broadcast
from steno.core.pytree import tree_flatten as tree_flatten
from steno.core.pytree import tree_flatten_with_path as tree_flatten_with_path
from steno.core.pytree import tree_leaves as tree_leaves
from steno.core.pytree import tree_leaves_with_path as tree_leaves_with_path
from steno.core.pytree import tree_map as tree_map
from steno.core.pytree import tree_map_with_path as tree_map_with_path
from steno.core.pytree import tree_reduce as tree_reduce
from steno.core.pytree import tree_reduce_associative as tree_reduce_associative
from steno.core.pytree import tree_structure as tree_structure
from steno.core.pytree import tree_transpose as tree_transpose
from steno.core.pytree import tree_unflatten as tree_unflatten
from steno.core.pytree import treedef_children as treedef_children
from steno.core.pytree import treedef_is_leaf as treedef_is_leaf
from steno.core.pytree import treedef_tuple as treedef_tuple
