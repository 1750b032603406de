"""Meshes of devices, and how arrays lie on them: PartitionSpec, Sharding and its kinds."""

from __future__ import annotations

import enum
import functools
import math
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any, Final, final

import numpy as np

from steno.core.record import record
from steno.places import CPU, Device, Sharding, SingleDeviceSharding, all_devices, memory_kind_of


class Space(enum.Enum):
    """Kinds of memory, as `device_put` takes them."""

    Device = "device"
    Host = "pinned_host"
    Any = "any"


class AxisType(enum.Enum):
    """Who decides how arrays lie along an axis of a mesh: the compiler, types, or the program. As arrays lie whole in one memory, only
    Manual differs."""

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__


@final
@record(frozen=True)
class AbstractDevice:
    """The kind of device that an abstract mesh is of."""

    device_kind: str
    num_cores: int | None
    platform: str

    def __repr__(self) -> str:
        return f"AbstractDevice(device_kind={self.device_kind}, num_cores={self.num_cores}, platform={self.platform})"


class UnreducedKind(enum.Enum):
    """What would still have to be done along an unreduced axis."""

    sum = enum.auto()
    max = enum.auto()
    min = enum.auto()


@final
@record(frozen=True)
class ManualAxisType:
    """Along which axes of the mesh a value in `shard_map` differs from device to device, and along which it is still to be reduced."""

    varying: frozenset[Any] = frozenset()
    unreduced: frozenset[Any] = frozenset()
    reduced: frozenset[Any] = frozenset()
    unreduced_kind: UnreducedKind | None = None


# PartitionSpec


@final
class _Unconstrained:
    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> str:
        return "_UNCONSTRAINED"


_UNCONSTRAINED: Final = _Unconstrained()


def _partition(p: Any) -> Any:
    """`()` --> None, `("x",)` --> `"x"`. ValueError for a nested tuple."""
    if not isinstance(p, tuple | list):
        return p
    for name in p:
        if isinstance(name, tuple | list):
            raise ValueError(
                f"A tuple inside PartitionSpec cannot contain a nested tuple: it holds names of axes. Got {name!r} in the entry {p!r}"
            )
    return None if not p else p[0] if len(p) == 1 else tuple(p)


def _axis_names(what: str, names: Any) -> frozenset[Any]:
    if not isinstance(names, set | frozenset):
        raise TypeError(f"PartitionSpec: {what} must be a set, got {names!r} of type {type(names)}")
    if None in names:
        raise ValueError(f"PartitionSpec: {what} cannot contain None, its elements are names of axes: got {set(names)}")
    return frozenset(names)


class _Interned(type):
    """Equal PartitionSpecs are one object."""

    def __call__(cls, *partitions: Any, unreduced: Any = frozenset(), reduced: Any = frozenset(), unreduced_kind: Any = None) -> Any:
        for what, names in (("unreduced", unreduced), ("reduced", reduced)):
            _axis_names(what, names)
        if unreduced_kind is not None and not isinstance(unreduced_kind, UnreducedKind):
            raise TypeError(f"PartitionSpec: Expected unreduced_kind to be of type UnreducedKind, got {unreduced_kind!r}")
        if unreduced and unreduced_kind is None:
            unreduced_kind = UnreducedKind.sum
        return _make_spec(tuple(map(_partition, partitions)), frozenset(unreduced), frozenset(reduced), unreduced_kind)


@final
class PartitionSpec(metaclass=_Interned):
    """How the axes of an array are laid over the axes of a mesh: for each axis of the array a name, a tuple of names, or None. Further
    axes are not laid out.

    unreduced, reduced    names of axes along which a sum is still to be done, or has been"""

    __slots__ = ("__weakref__", "partitions", "reduced", "unreduced", "unreduced_kind")
    UNCONSTRAINED: Final = _UNCONSTRAINED

    partitions: tuple[Any, ...]
    unreduced: frozenset[Any]
    reduced: frozenset[Any]
    unreduced_kind: UnreducedKind | None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        raise TypeError("Subclassing `jax.P` is prohibited: there is one PartitionSpec")

    def names(self) -> list[Any]:
        """The names of axes in the partitions."""
        out: list[Any] = []
        for p in self.partitions:
            out += p if isinstance(p, tuple) else [p]
        return [n for n in out if n is not None and n is not _UNCONSTRAINED]

    def update(self, **changes: Any) -> PartitionSpec:
        """A copy with some of partitions, unreduced, reduced, unreduced_kind changed."""
        fields = {n: changes.pop(n, getattr(self, n)) for n in ("partitions", "unreduced", "reduced", "unreduced_kind")}
        if changes:
            raise TypeError(f"PartitionSpec.update: unknown fields {sorted(changes)}")
        return PartitionSpec(*fields.pop("partitions"), **fields)

    def __len__(self) -> int:
        return len(self.partitions)

    def __getitem__(self, i: Any) -> Any:
        return self.partitions[i]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.partitions)

    def index(self, value: Any) -> int:
        return self.partitions.index(_partition(value))

    def count(self, value: Any) -> int:
        return self.partitions.count(_partition(value))

    def _check_plain(self, method: str) -> None:
        if self.unreduced or self.reduced:
            raise TypeError(f"unreduced in `{method}` of PartitionSpec: a tuple cannot be joined to {self!r}, only a PartitionSpec")

    def __add__(self, other: Any) -> PartitionSpec:
        if isinstance(other, PartitionSpec):
            kind = self.unreduced_kind or other.unreduced_kind
            return PartitionSpec(
                *self, *other, unreduced=self.unreduced | other.unreduced, reduced=self.reduced | other.reduced, unreduced_kind=kind
            )
        if not isinstance(other, tuple):
            return NotImplemented
        self._check_plain("__add__")
        return PartitionSpec(*self, *other)

    def __radd__(self, other: Any) -> PartitionSpec:
        if not isinstance(other, tuple):
            return NotImplemented
        self._check_plain("__radd__")
        return PartitionSpec(*other, *self)

    def __repr__(self) -> str:
        parts = [repr(p) for p in self.partitions]
        parts += [f"{what}={{{', '.join(map(repr, sorted(v)))}}}" for what, v in self._sets() if v]
        if self.unreduced_kind is not None:
            parts.append(f"unreduced_kind={self.unreduced_kind.name}")
        return f"P({', '.join(parts)}{',' if len(parts) == len(self.partitions) == 1 else ''})"

    def _sets(self) -> tuple[tuple[str, frozenset[Any]], ...]:
        return ("unreduced", self.unreduced), ("reduced", self.reduced)

    def __reduce__(self) -> Any:
        return _make_spec, (self.partitions, self.unreduced, self.reduced, self.unreduced_kind)


@functools.cache
def _make_spec(
    partitions: tuple[Any, ...], unreduced: frozenset[Any], reduced: frozenset[Any], kind: UnreducedKind | None
) -> PartitionSpec:
    spec = object.__new__(PartitionSpec)
    spec.partitions, spec.unreduced, spec.reduced, spec.unreduced_kind = partitions, unreduced, reduced, kind
    for what, names in spec._sets():
        if overlap := set(spec.names()) & names:
            raise ValueError(f"PartitionSpec: partitions cannot overlap with {what} axes, but {sorted(overlap)} are in {partitions} too")
    return spec


P = PartitionSpec


# Meshes


def _types_of_axes(axis_names: Sequence[Any], axis_types: Any, default: AxisType, cls: str) -> tuple[AxisType, ...]:
    if axis_types is None:
        return (default,) * len(axis_names)
    types = (axis_types,) if isinstance(axis_types, AxisType | str) else tuple(axis_types)
    if not all(isinstance(t, AxisType) for t in types):
        raise TypeError(f"{cls}: axis_types passed must be of type jax.sharding.AxisType, got {axis_types!r}")
    if len(types) != len(axis_names):
        raise ValueError(
            f"{cls}: Number of axis names should match the number of axis_types, got axis_names={tuple(axis_names)} and axis_types={types}"
        )
    return types


def _names_of_axes(axis_names: Any, cls: str) -> tuple[Any, ...]:
    names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
    if None in names:
        raise ValueError(f"{cls}: Mesh axis names cannot be None. Got: {names}")
    return names


class AnyMesh:
    """What meshes of devices and abstract ones have in common."""

    axis_names: tuple[Any, ...]
    axis_sizes: tuple[int, ...]
    axis_types: tuple[AxisType, ...]

    @property
    def shape(self) -> OrderedDict[Any, int]:
        """Sizes by names of axes."""
        return OrderedDict(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def shape_tuple(self) -> tuple[tuple[Any, int], ...]:
        return tuple(self.shape.items())

    @property
    def empty(self) -> bool:
        return not self.axis_names

    @property
    def size(self) -> int:
        return math.prod(self.axis_sizes) if self.axis_names else 0

    def _of_type(self, t: AxisType) -> tuple[Any, ...]:
        return tuple(n for n, a in zip(self.axis_names, self.axis_types, strict=True) if a is t)

    @property
    def auto_axes(self) -> tuple[Any, ...]:
        return self._of_type(AxisType.Auto)

    @property
    def explicit_axes(self) -> tuple[Any, ...]:
        return self._of_type(AxisType.Explicit)

    @property
    def manual_axes(self) -> tuple[Any, ...]:
        return self._of_type(AxisType.Manual)

    @property
    def are_all_axes_auto(self) -> bool:
        return all(t is AxisType.Auto for t in self.axis_types)

    @property
    def are_all_axes_explicit(self) -> bool:
        return all(t is AxisType.Explicit for t in self.axis_types)

    @property
    def are_all_axes_manual(self) -> bool:
        return all(t is AxisType.Manual for t in self.axis_types)

    @property
    def are_all_axes_explicit_or_manual(self) -> bool:
        return all(t is not AxisType.Auto for t in self.axis_types)

    def _key(self) -> tuple[Any, ...]:
        return type(self), self.axis_names, self.axis_sizes, self.axis_types

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnyMesh) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _axes(self) -> str:
        axes = "".join(f"{n!r}: {s}, " for n, s in self.shape.items())
        return f"({axes}axis_types={self.axis_types})" if axes else "()"

    def __str__(self) -> str:
        return f"{type(self).__name__}{self._axes()}"


@final
class AbstractMesh(AnyMesh):
    """Names and sizes of axes, without devices. Sizes may be any."""

    def __init__(self, axis_sizes: Sequence[int], axis_names: Any, axis_types: Any = None, *, abstract_device: Any = None) -> None:
        self.axis_names = _names_of_axes(axis_names, "AbstractMesh")
        self.axis_sizes = tuple(axis_sizes)
        if len(self.axis_sizes) != len(self.axis_names):
            raise ValueError(f"AbstractMesh: {len(self.axis_sizes)} axis_sizes, but the axis_names {self.axis_names}")
        self.axis_types = _types_of_axes(self.axis_names, axis_types, AxisType.Explicit, "AbstractMesh")
        self.abstract_device = abstract_device

    @property
    def abstract_mesh(self) -> AbstractMesh:
        return self

    def update(self, axis_sizes: Any = None, axis_names: Any = None, axis_types: Any = None) -> AbstractMesh:
        """A copy with some of axis_sizes, axis_names and axis_types changed."""
        return AbstractMesh(
            self.axis_sizes if axis_sizes is None else axis_sizes,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
        )

    __repr__ = AnyMesh.__str__


class _InternedMesh(type):
    """Equal meshes are one object."""

    def __call__(cls, devices: Any, axis_names: Any, axis_types: Any = None) -> Any:
        mesh = super().__call__(devices, axis_names, axis_types)
        return _meshes.setdefault(mesh._key(), mesh)


_meshes: Final[weakref.WeakValueDictionary[Any, Any]] = weakref.WeakValueDictionary()


@final
class Mesh(AnyMesh, metaclass=_InternedMesh):
    """A mesh of devices with named axes."""

    def __init__(self, devices: Any, axis_names: Any, axis_types: Any = None) -> None:
        self.devices = np.asarray(devices, dtype=object)
        self.axis_names = _names_of_axes(axis_names, "Mesh")
        if self.devices.ndim != len(self.axis_names):
            raise ValueError(
                f"Mesh requires the ndim of its first argument, the devices ({self.devices.ndim}), to equal the number of axis names "
                f"{self.axis_names}"
            )
        self.axis_sizes = self.devices.shape
        self.axis_types = _types_of_axes(self.axis_names, axis_types, AxisType.Auto, "Mesh")
        self._entered: list[Any] = []

    @property
    def abstract_mesh(self) -> AbstractMesh:
        return AbstractMesh(self.axis_sizes, self.axis_names, self.axis_types)

    @property
    def local_mesh(self) -> Mesh:
        return self

    @property
    def local_devices(self) -> list[Device]:
        return list(self.devices.flat) if self.axis_names else []

    @property
    def device_ids(self) -> np.ndarray:
        return np.array([d.id for d in self.devices.flat], np.int64).reshape(self.devices.shape)

    is_multi_process = False

    def _key(self) -> tuple[Any, ...]:
        return *super()._key(), tuple(self.devices.flat)

    def update(self, devices: Any = None, axis_names: Any = None, axis_types: Any = None) -> Mesh:
        """A copy with some of devices, axis_names and axis_types changed."""
        return Mesh(
            self.devices if devices is None else devices,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
        )

    def __enter__(self) -> Mesh:
        self._entered.append(_swap_mesh(self))
        return self

    def __exit__(self, *exc: object) -> None:
        _swap_mesh(self._entered.pop())

    def __reduce__(self) -> Any:
        return Mesh, (self.devices, self.axis_names, self.axis_types)

    def __repr__(self) -> str:
        return f"Mesh(axis_sizes={self.axis_sizes}, axis_names={self.axis_names}, axis_types={self.axis_types})"


_NO_MESH: Final = Mesh(np.empty((), dtype=object), ())


class _Current(threading.local):
    mesh: AnyMesh = _NO_MESH


_current = _Current()


def _swap_mesh(mesh: Any) -> Any:
    previous, _current.mesh = _current.mesh, mesh
    return previous


@final
class set_mesh:
    """`with set_mesh(mesh): ...`, or from now on: the mesh that PartitionSpecs given without one refer to."""

    def __init__(self, mesh: Mesh) -> None:
        if not isinstance(mesh, Mesh):
            raise ValueError(f"set_mesh: expected a Mesh, got {mesh!r} of type {type(mesh)}")
        self._previous = _swap_mesh(mesh)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: object) -> None:
        _swap_mesh(self._previous)


@final
class use_abstract_mesh:
    """`with use_abstract_mesh(mesh): ...`: the mesh that PartitionSpecs refer to, without devices."""

    def __init__(self, mesh: AbstractMesh) -> None:
        self._mesh = mesh

    def __enter__(self) -> AbstractMesh:
        self._previous = _swap_mesh(self._mesh)
        return self._mesh

    def __exit__(self, *exc: object) -> None:
        _swap_mesh(self._previous)


def get_mesh() -> Any:
    """The mesh of `set_mesh`; an empty one if there is none."""
    return _current.mesh if isinstance(_current.mesh, Mesh) else _NO_MESH


def get_abstract_mesh() -> AbstractMesh:
    """The present mesh without its devices; an empty one if there is none."""
    return _current.mesh.abstract_mesh


def make_mesh(axis_sizes: Sequence[int], axis_names: Sequence[Any], axis_types: Any = None, *, devices: Any = None) -> Mesh:
    """A mesh of the first devices there are, or of `devices`, of explicit axes if `axis_types` says nothing. ValueError if there are not
    enough.

    >>> steno.make_mesh((1,), ('x',))
    Mesh(axis_sizes=(1,), axis_names=('x',), axis_types=(Explicit,))
    """
    shape = tuple(map(int, axis_sizes))
    given = all_devices() if devices is None else list(devices)
    names = _names_of_axes(axis_names, "make_mesh")
    if len(shape) != len(names):
        raise ValueError(f"make_mesh: axis_sizes {shape} and axis_names {names} must have the same number of axes")
    if len(given) < math.prod(shape) or (devices is not None and len(given) != math.prod(shape)):
        raise ValueError(f"make_mesh: a mesh of shape {shape} needs {math.prod(shape)} devices, there {are(len(given))}")
    types = _types_of_axes(names, axis_types, AxisType.Explicit, "make_mesh")
    return Mesh(array_of_devices(given[: math.prod(shape)], shape), names, types)


def are(n: int) -> str:
    """`is one`, `are 8`."""
    return "is one" if n == 1 else f"are {n}"


def array_of_devices(devices: Sequence[Any], shape: Sequence[int]) -> np.ndarray:
    """Devices as an array of this shape."""
    out = np.empty(len(devices), dtype=object)
    out[:] = devices
    return out.reshape(tuple(shape))


# Shardings


@final
class NamedSharding(Sharding):
    """By a mesh and a PartitionSpec."""

    def __init__(self, mesh: AnyMesh, spec: PartitionSpec, *, memory_kind: str | None = None) -> None:
        if not isinstance(mesh, AnyMesh):
            raise TypeError(f"NamedSharding: the mesh must be a Mesh or AbstractMesh, got {mesh!r} of type {type(mesh)}")
        if not isinstance(spec, PartitionSpec):
            raise TypeError(f"NamedSharding: the spec must be a PartitionSpec, got {spec!r} of type {type(spec)}")
        names = spec.names()
        for name in names:
            if name not in mesh.axis_names:
                raise ValueError(f"Resource axis: {name} of {spec!r} is not found in mesh: {mesh.axis_names}.")
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"NamedSharding: the axis {name!r} of the mesh stands for more than one axis of the array in {spec!r}")
        for name in spec.unreduced:
            if name not in mesh.axis_names:
                raise ValueError(f"Unreduced axes {sorted(spec.unreduced)} of {spec!r}: {name!r} is not found in mesh: {mesh.axis_names}")
            if name in mesh.auto_axes:
                raise ValueError(f"Unreduced axes can only refer to mesh axes of type Explicit or Manual, but {name!r} is Auto in {mesh}")
        self.mesh, self.spec = mesh, spec
        if isinstance(mesh, Mesh) and mesh.axis_names:
            self._device_assignment = tuple(mesh.devices.flat)
        self.memory_kind = memory_kind_of(memory_kind, "NamedSharding") or ("device" if isinstance(mesh, Mesh) else None)

    def with_memory_kind(self, kind: str) -> NamedSharding:
        return NamedSharding(self.mesh, self.spec, memory_kind=kind)

    def update(self, **changes: Any) -> NamedSharding:
        """A copy with some of mesh, spec and memory_kind changed."""
        return NamedSharding(
            changes.pop("mesh", self.mesh), changes.pop("spec", self.spec), memory_kind=changes.pop("memory_kind", self.memory_kind)
        )

    def check_compatible_aval(self, shape: Sequence[int]) -> None:
        if len(shape) < len(self.spec):
            scalars = " For scalars the PartitionSpec should be P()" if not shape else ""
            raise ValueError(
                f"Sharding {self!r} is only valid for values of rank at least {len(self.spec)}, but was applied to a value of rank "
                f"{len(shape)}.{scalars}"
            )
        super().check_compatible_aval(shape)

    def parts(self, ndim: int) -> tuple[int, ...]:
        return tuple(math.prod(self.mesh.shape[n] for n in names) for names in self.names_of_axes(ndim))

    def names_of_axes(self, ndim: int) -> list[tuple[Any, ...]]:
        """For each axis of an array the axes of the mesh along which it is cut."""
        entries = [p if isinstance(p, tuple) else () if p is None or p is _UNCONSTRAINED else (p,) for p in self.spec.partitions]
        return entries + [()] * (ndim - len(entries))

    @property
    def is_fully_replicated(self) -> bool:
        return all(self.mesh.shape[n] == 1 for n in self.spec.names())

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Device, tuple[slice, ...]]:
        self.check_compatible_aval(global_shape)
        if not isinstance(self.mesh, Mesh):
            raise ValueError(f"{self!r}: an abstract mesh has no devices")
        out = {}
        for position in np.ndindex(self.mesh.devices.shape):
            at = dict(zip(self.mesh.axis_names, position, strict=True))
            index = []
            for n, names in zip(global_shape, self.names_of_axes(len(global_shape)), strict=True):
                parts = [self.mesh.shape[name] for name in names]
                if math.prod(parts) == 1:
                    index.append(slice(None))
                    continue
                size = n // math.prod(parts)
                k = int(np.ravel_multi_index([at[name] for name in names], parts))
                index.append(slice(k * size, (k + 1) * size))
            out[self.mesh.devices[position]] = tuple(index)
        return out

    @property
    def replicated_axes(self) -> frozenset[Any]:
        """The axes of the mesh that the spec does not use."""
        return frozenset(self.mesh.axis_names) - frozenset(self.spec.names()) - self.spec.unreduced

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedSharding) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.mesh, self.spec, self.memory_kind

    def __repr__(self) -> str:
        return f"NamedSharding(mesh={self.mesh}, spec={self.spec!r}, memory_kind={self.memory_kind})"


@final
class Layout:
    """The order of an array's axes in memory, slowest first. There is one: that of C."""

    def __init__(self, major_to_minor: Sequence[int]) -> None:
        self.major_to_minor = tuple(major_to_minor)
        if self.major_to_minor != tuple(range(len(self.major_to_minor))):
            raise NotImplementedError(f"Layout: arrays have their axes in memory in the order of C, got major_to_minor={major_to_minor}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self.major_to_minor == other.major_to_minor

    def __hash__(self) -> int:
        return hash(self.major_to_minor)

    def __repr__(self) -> str:
        return f"Layout(major_to_minor={self.major_to_minor})"


@final
class Format:
    """Where an array lies, and in what layout; None: any."""

    def __init__(self, layout: Layout | None = None, sharding: Sharding | None = None) -> None:
        self.layout, self.sharding = layout, sharding

    @classmethod
    def of(cls, shape: Sequence[int], sharding: Sharding | None = None) -> Format:
        """Of an array of this shape; on the device, if `sharding` says nothing else."""
        return cls(Layout(range(len(shape))), SingleDeviceSharding(CPU) if sharding is None else sharding)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Format) and (self.layout, self.sharding) == (other.layout, other.sharding)

    def __hash__(self) -> int:
        return hash((self.layout, self.sharding))

    def __repr__(self) -> str:
        return f"Format(layout={self.layout!r}, sharding={self.sharding!r})"


def make_single_device_sharding(device: Device, *, memory_kind: str | None = None) -> SingleDeviceSharding:
    """On this device."""
    return SingleDeviceSharding(device, memory_kind=memory_kind)


def as_sharding(where: Any, fun: str) -> Sharding:
    """A Sharding, or a PartitionSpec of the present mesh. ValueError if there is none, TypeError for anything else."""
    if isinstance(where, Sharding):
        return where
    if isinstance(where, PartitionSpec):
        if _current.mesh.empty:
            raise ValueError(
                f"{fun}: {where!r} is a PartitionSpec, which needs a mesh: give a NamedSharding, or put it under `set_mesh(mesh)`"
            )
        return NamedSharding(_current.mesh, where)
    raise TypeError(f"{fun}: expected a Sharding or a PartitionSpec, got {where!r} of type {type(where)}")
