"""Ops on references to mutable arrays: make one, read it, swap or add to a part of it, end it.

`access` says which part: an `Access`, whose dynamic indices are further operands, or None for the whole array. Discharge
(transforms/discharge.py) makes reads and updates of values of all of them, so none of them has code of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, final

from steno._native import ShapedArray, current_trace
from steno.core.jaxpr import ClosedJaxpr, eval_jaxpr
from steno.core.op import Op
from steno.core.refs import STATE, AbstractRef, is_ref_type
from steno.core.trace import trace_to_jaxpr
from steno.transforms.batching import batch_program, batched_aval
from steno.transforms.discharge import Cell
from steno.transforms.programs import Flags
from steno.transforms.rules import Axis, Zero, add, insert_axis, instantiate, is_differentiable, to_dim, typeof, zero_of, zeros

Dim = int | None


class RefError(Exception):
    """A value of a transformation was written to a reference from outside of it."""


# Parts of arrays


@final
class Access:
    """A part of arrays of type `aval`, whose dynamic indices have the types `index_avals`. By identity: who makes one remembers it.

    `functions`: `read(x, *indices)` gives the part, `write(x, part, *indices)` and `add(x, part, *indices)` the array after it.
    `shown(names of indices)`: the entries of the index, one list for each time the array is indexed."""

    __slots__ = ("_batched", "_functions", "_programs", "aval", "index_avals", "shown")

    def __init__(
        self,
        aval: ShapedArray,
        index_avals: Sequence[ShapedArray],
        functions: tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]],
        shown: Callable[[Sequence[str]], list[list[str]]],
    ) -> None:
        self.aval, self.index_avals, self.shown = aval, tuple(index_avals), shown
        self._functions = functions
        self._programs: dict[int, ClosedJaxpr] = {}
        self._batched: dict[Any, Access] = {}

    def _program(self, k: int) -> ClosedJaxpr:
        found = self._programs.get(k)
        if found is None:
            function = self._functions[k]
            avals = [self.aval, *([self.part] if k else []), *self.index_avals]
            found = self._programs[k] = trace_to_jaxpr(lambda *xs: [function(*xs)], avals)
        return found

    @property
    def read(self) -> ClosedJaxpr:
        return self._program(0)

    @property
    def write(self) -> ClosedJaxpr:
        return self._program(1)

    @property
    def add(self) -> ClosedJaxpr:
        return self._program(2)

    @property
    def part(self) -> ShapedArray:
        """The type of the part."""
        return self.read.out_avals[0]

    def batched(self, axis: Axis, dim: Dim, dims: tuple[Dim, ...]) -> tuple[Access, int]:
        """The parts of all elements of a batch, and the batch axis among them. `dim`: the array's batch axis; `dims`: the indices'."""
        found = self._batched.get((axis, dim, dims))
        if found is None:
            found = self._batched[axis, dim, dims] = self._batch(axis, dim, dims)
        return found, self._part_dim(axis, dim, dims)

    def _part_dim(self, axis: Axis, dim: Dim, dims: tuple[Dim, ...]) -> int:
        (out,) = batch_program(self.read, axis, (dim, *dims))[1]
        return 0 if out is None else out

    def _batch(self, axis: Axis, dim: Dim, dims: tuple[Dim, ...]) -> Access:
        at = self._part_dim(axis, dim, dims)

        def batched(program: ClosedJaxpr, in_dims: Sequence[Dim], out_dim: int) -> Callable[..., Any]:
            def run(*args: Any) -> Any:
                each, (got,) = batch_program(program, axis, in_dims)
                (y,) = eval_jaxpr(each.jaxpr, each.consts, *args)
                return to_dim(y, got, out_dim, axis.size)

            return run

        whole = 0 if dim is None else dim
        functions = (
            batched(self.read, (dim, *dims), at),
            batched(self.write, (dim, at, *dims), whole),
            batched(self.add, (dim, at, *dims), whole),
        )

        def shown(names: Sequence[str]) -> list[list[str]]:
            out = self.shown(names)
            if dim is None or len(out) > 1 or any(d is not None for d in dims):
                return [[f"each {at}"], *out]
            return [[*out[0][:dim], ":", *out[0][dim:]]]

        indices = [batched_aval(a, d, axis.size) for a, d in zip(self.index_avals, dims, strict=True)]
        return Access(batched_aval(self.aval, dim, axis.size), indices, functions, shown)


def _evaluated(program: ClosedJaxpr, *args: Any) -> Any:
    (y,) = eval_jaxpr(program.jaxpr, program.consts, *args)
    return y


def read_part(x: Any, access: Access | None, indices: Sequence[Any]) -> Any:
    return x if access is None else _evaluated(access.read, x, *indices)


def written_part(x: Any, value: Any, access: Access | None, indices: Sequence[Any]) -> Any:
    return value if access is None else _evaluated(access.write, x, value, *indices)


def added_part(x: Any, value: Any, access: Access | None, indices: Sequence[Any]) -> Any:
    return add(x, value) if access is None else _evaluated(access.add, x, value, *indices)


def text_of(access: Access | None, names: Sequence[str]) -> str:
    """What stands behind a reference's name: `[0,1:][i]`."""
    return "[...]" if access is None else "".join(f"[{','.join(entries)}]" for entries in access.shown(names))


# Types


def _array_type(what: str, ref: Any) -> ShapedArray:
    if not is_ref_type(ref):
        raise ValueError(f"{what}: a reference is needed, got an array of type {ref.str_short()}")
    return ref.inner_aval


def _part_type(what: str, ref: Any, access: Access | None, indices: Sequence[ShapedArray]) -> ShapedArray:
    whole = _array_type(what, ref)
    if access is None:
        return whole
    if (access.aval.shape, access.aval.dtype) != (whole.shape, whole.dtype) or len(indices) != len(access.index_avals):
        raise TypeError(f"{what}: the index is one for arrays of type {access.aval.str_short()}, the reference is of type {ref}")
    return access.part


def _get_typ(ref: Any, *indices: ShapedArray, access: Access | None) -> ShapedArray:
    return _part_type("get", ref, access, indices)


def _written_typ(what: str, ref: Any, value: ShapedArray, indices: Sequence[ShapedArray], access: Access | None) -> ShapedArray:
    part = _part_type(what, ref, access, indices)
    if is_ref_type(value):
        raise ValueError(f"{what}: the value must be an array, got a reference of type {value}")
    if value.shape != part.shape:
        raise ValueError(
            f"{what}: this part of a reference of type {ref} has the shape {part.shape}, the value has the shape {value.shape}"
        )
    if value.dtype != part.dtype:
        raise ValueError(f"{what}: a reference of type {ref} takes values of its dtype, got {value.str_short()}")
    return part


def _swap_typ(ref: Any, value: ShapedArray, *indices: ShapedArray, access: Access | None) -> ShapedArray:
    return _written_typ("swap", ref, value, indices, access)


def _addupdate_typ(ref: Any, value: ShapedArray, *indices: ShapedArray, access: Access | None) -> list[ShapedArray]:
    _written_typ("addupdate", ref, value, indices, access)
    return []


def _new_ref_typ(x: ShapedArray, **params: Any) -> Any:
    if is_ref_type(x):
        raise TypeError(f"new_ref: a reference cannot hold another one, of type {x}")
    return AbstractRef(x, params["memory_space"], params["kind"])


def _free_typ(ref: Any) -> list[ShapedArray]:
    _array_type("free_ref", ref)
    return []


# Discharge. A reference that is no cell is kept, and its op with it.


def _get_discharge(ref: Any, *indices: Any, access: Access | None) -> Any:
    return read_part(ref.value, access, indices) if type(ref) is Cell else get(ref, *indices, access=access)


def _swap_discharge(ref: Any, value: Any, *indices: Any, access: Access | None) -> Any:
    if type(ref) is not Cell:
        return swap(ref, value, *indices, access=access)
    old = ref.value
    part = read_part(old, access, indices)
    ref.value = written_part(old, value, access, indices)
    return part


def _addupdate_discharge(ref: Any, value: Any, *indices: Any, access: Access | None) -> list[Any]:
    if type(ref) is not Cell:
        return addupdate(ref, value, *indices, access=access)
    ref.value = added_part(ref.value, value, access, indices)
    return []


def _free_discharge(ref: Any) -> list[Any]:
    if type(ref) is not Cell:
        return free_ref(ref)
    ref.free()
    return []


# Derivatives: beside a reference to values goes one to their tangents.


def _refuse(what: str, kind: str, ref: Any, where: str) -> NoReturn:
    raise RefError(
        f"{what}: a {kind} value cannot be written to a reference of type {typeof(ref)} from outside of the function that is {where}. "
        f"Move the array reference to be an argument of the function, or make it inside"
    )


def _has_tangents(ref: Any) -> bool:
    aval = typeof(ref)
    return is_differentiable(aval) and not (aval.kind or "").startswith("no_grad")


def _new_ref_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    (x,), (t,) = primals, tangents
    ref = new_ref(x, **params)
    return ref, new_ref(instantiate(t), **params) if _has_tangents(ref) else zero_of(ref)


def _new_ref_linearize(nonzero: Flags, x: Any, **params: Any) -> tuple[Any, Callable[..., Any]]:
    ref = new_ref(x, **params)

    def lin(t: Any) -> Any:
        trace: Any = current_trace()
        return trace.record(new_ref, [instantiate(t)], params) if _has_tangents(ref) else zero_of(ref)

    return ref, lin


def _empty_ref_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    ref = empty_ref(**params)
    aval = params["ty"]
    return ref, new_ref(zeros(aval), memory_space=None, kind=None, pin=False) if is_differentiable(aval) else zero_of(ref)


def _empty_ref_linearize(nonzero: Flags, **params: Any) -> tuple[Any, Callable[..., Any]]:
    ref = empty_ref(**params)

    def lin() -> Any:
        trace: Any = current_trace()
        kept = {"memory_space": None, "kind": None, "pin": False}
        return trace.record(new_ref, [zeros(params["ty"])], kept) if is_differentiable(params["ty"]) else zero_of(ref)

    return ref, lin


def _get_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, access: Access | None) -> tuple[Any, Any]:
    return get(*primals, access=access), get(tangents[0], *primals[1:], access=access)


def _written_tangent(what: str, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """The reference to tangents, which is a `Zero` if it takes none, and the tangent to write there."""
    if type(tangents[0]) is Zero and _has_tangents(primals[0]):
        _refuse(what, "differentiated", primals[0], "differentiated")
    return tangents[0], tangents[1]


def _swap_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, access: Access | None) -> tuple[Any, Any]:
    ref, t = _written_tangent("swap", primals, tangents)
    old = swap(*primals, access=access)
    return old, zero_of(old) if type(ref) is Zero else swap(ref, instantiate(t), *primals[2:], access=access)


def _addupdate_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, access: Access | None) -> tuple[list[Any], list[Any]]:
    ref, t = _written_tangent("addupdate", primals, tangents)
    addupdate(*primals, access=access)
    if type(t) is not Zero and type(ref) is not Zero:
        addupdate(ref, t, *primals[2:], access=access)
    return [], []


def _freeze_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    return freeze(primals[0]), freeze(tangents[0])


def _free_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    free_ref(primals[0])
    free_ref(tangents[0])
    return [], []


# Batches: a reference has its batch axis where its array has it.


def _new_ref_batch(axis: Axis, args: Sequence[Any], dims: Sequence[Dim], **params: Any) -> tuple[Any, Dim]:
    (x,), (d,) = args, dims
    return new_ref(insert_axis(x, 0, axis.size) if d is None else x, **params), 0 if d is None else d


def _empty_ref_batch(axis: Axis, args: Sequence[Any], dims: Sequence[Dim], **params: Any) -> tuple[Any, Dim]:
    return empty_ref(**params | {"ty": batched_aval(params["ty"], 0, axis.size)}), 0


def _get_batch(axis: Axis, args: Sequence[Any], dims: Sequence[Dim], *, access: Access | None) -> tuple[Any, Dim]:
    if access is None:
        return get(args[0], access=None), dims[0]
    each, at = access.batched(axis, dims[0], tuple(dims[1:]))
    return get(*args, access=each), at


def _batched_write(what: str, op: Op, axis: Axis, args: Sequence[Any], dims: Sequence[Dim], access: Access | None) -> tuple[Any, int]:
    ref, value, *indices = args
    if dims[0] is None:
        _refuse(what, "vmapped", ref, "mapped: it is an unbatched array reference")
    each, at = (None, dims[0]) if access is None else access.batched(axis, dims[0], tuple(dims[2:]))
    return op(ref, to_dim(value, dims[1], at, axis.size), *indices, access=each), at


def _swap_batch(axis: Axis, args: Sequence[Any], dims: Sequence[Dim], *, access: Access | None) -> tuple[Any, Dim]:
    return _batched_write("swap", swap, axis, args, dims, access)


def _addupdate_batch(axis: Axis, args: Sequence[Any], dims: Sequence[Dim], *, access: Access | None) -> tuple[list[Any], list[Any]]:
    _batched_write("addupdate", addupdate, axis, args, dims, access)
    return [], []


def _free_batch(axis: Axis, args: Sequence[Any], dims: Sequence[Dim]) -> tuple[list[Any], list[Any]]:
    free_ref(args[0])
    return [], []


# Printing


def _get_doc(results: Sequence[str], operands: Sequence[str], params: dict[str, Any]) -> str:
    return f"{results[0]} <- {operands[0]}{text_of(params['access'], operands[1:])}"


def _swap_doc(results: Sequence[str], operands: Sequence[str], params: dict[str, Any]) -> str:
    part = operands[0] + text_of(params["access"], operands[2:])
    return f"{part} <- {operands[1]}" if results[0].startswith("_:") else f"{results[0]}, {part} <- {part}, {operands[1]}"


def _addupdate_doc(results: Sequence[str], operands: Sequence[str], params: dict[str, Any]) -> str:
    return f"{operands[0]}{text_of(params['access'], operands[2:])} += {operands[1]}"


# The records


def _effects(*avals: Any, **_: Any) -> set[Any]:
    return {STATE}


new_ref = Op(
    "new_ref",
    typ=_new_ref_typ,
    jvp=_new_ref_jvp,
    linearize=_new_ref_linearize,
    batch=_new_ref_batch,
    effects=_effects,
    discharge=lambda x, **_: Cell(x),
    makes_ref=True,
)
"""A reference to a mutable array that begins as x. `memory_space`, `kind` and `pin` are recorded."""

empty_ref = Op(
    "empty_ref",
    typ=lambda *, ty, **_: AbstractRef(ty),
    jvp=_empty_ref_jvp,
    linearize=_empty_ref_linearize,
    batch=_empty_ref_batch,
    effects=_effects,
    discharge=lambda *, ty, **_: Cell(zeros(ty)),
    makes_ref=True,
)
"""A reference to an array of the type `ty` of which nothing may be read before it is written (here it begins with zeros)."""

get = Op("get", typ=_get_typ, jvp=_get_jvp, batch=_get_batch, effects=_effects, discharge=_get_discharge, doc=_get_doc)
"""The part of a reference's array."""

swap = Op("swap", typ=_swap_typ, jvp=_swap_jvp, batch=_swap_batch, effects=_effects, discharge=_swap_discharge, doc=_swap_doc)
"""Replaces the part; gives what was there."""

addupdate = Op(
    "addupdate",
    typ=_addupdate_typ,
    jvp=_addupdate_jvp,
    batch=_addupdate_batch,
    effects=_effects,
    discharge=_addupdate_discharge,
    doc=_addupdate_doc,
    multiple_results=True,
)
"""Adds to the part; positions that are named several times add up."""

freeze = Op(
    "freeze",
    typ=lambda ref: _array_type("freeze", ref),
    jvp=_freeze_jvp,
    batch=lambda axis, args, dims: (freeze(args[0]), dims[0]),
    effects=_effects,
    discharge=lambda ref: ref.value if type(ref) is Cell else freeze(ref),
)
"""The array at the end of the reference's life."""

free_ref = Op(
    "free_ref", typ=_free_typ, jvp=_free_jvp, batch=_free_batch, effects=_effects, discharge=_free_discharge, multiple_results=True
)
"""Ends the reference's life."""
