"""The transpose of a scan: its body run backwards, and the cotangents of constants, which are sums over all iterations.

Such a sum is taken of as little as possible: linear functions that are the same in all iterations are applied to the sum, not to each
term, and a sum of products of matrices is one product of the matrices of all iterations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, final

from steno.core.aval import ShapedArray
from steno.core.jaxpr import Atom, ClosedJaxpr, JaxprEqn, Literal, Var
from steno.core.record import record
from steno.core.sizes import surely
from steno.ops.control import chosen, evaluate_into, others, program, read, split, spread, union
from steno.ops.dot import dot_general
from steno.transforms.backward import transpose_jaxpr
from steno.transforms.programs import Flags, remembered, remove_dead
from steno.transforms.rules import add


@final
@record(frozen=True)
class Backward:
    """The transpose of a scan that is linear in all its carries.

    body        known constants; sums, cotangents of carries; known rows, cotangents of rows
                --> sums, cotangents of carries; cotangents of linear rows, further rows
    sums        the types of the sums, which begin with zeros: for some constants (`_begun`) these are cotangents, changed in place
    after       known constants, sums, arrays of rows --> cotangents of linear constants
    given, got  which of the arrays that the scan gets and gives `after` takes
    constants, carries, arrays    which of the linear constants, the carries and the linear arrays have cotangents
    """

    body: ClosedJaxpr
    sums: tuple[ShapedArray, ...]
    after: ClosedJaxpr
    given: tuple[int, ...]
    got: tuple[int, ...]
    constants: Flags
    carries: Flags
    arrays: Flags


@remembered
def transposed(closed: ClosedJaxpr, n: int, c: int, linear: Flags, ct_nonzero: Flags, length: int) -> Backward:
    """`linear`: which inputs of the body, all carries among them; `ct_nonzero`: which results have cotangents."""
    linear_constants, _, linear_arrays = split(linear, n, c)
    k, rows = sum(linear_constants), sum(linear_arrays)
    nz, ct_rows = split(ct_nonzero, c)
    while True:
        back, found = transpose_jaxpr(closed, linear, [*nz, *ct_rows], [*[False] * k, *nz, *[False] * rows])
        constants, carries, arrays = split(found, k, c)
        if union(nz, carries) == nz:
            break
        nz = union(nz, carries)
    begun = _begun(closed, [v for v, lin in zip(closed.jaxpr.invars[:n], linear_constants, strict=True) if lin], found[:k])
    if begun:
        positions = [closed.jaxpr.invars.index(v) for v in begun]
        back, found = transpose_jaxpr(closed, linear, [*nz, *ct_rows], [*[False] * k, *nz, *[False] * rows], positions)
    in_place = [v in begun for v, lin in zip(closed.jaxpr.invars[:n], linear_constants, strict=True) if lin]
    in_place = chosen(in_place, constants)
    known_constants, known_rows = n - k, len(linear) - n - c - rows
    j = back.jaxpr
    # constants, rows, cotangents of carries, of rows, of constants
    inputs = split(j.invars, known_constants, known_rows, sum(nz), len(j.invars) - known_constants - known_rows - sum(nz) - len(begun))
    totals = j.outvars[: sum(constants)]
    sums = _Sums(back, inputs[0], [*inputs[1], *inputs[3]], others(totals, in_place))
    rest = list(j.outvars[sum(constants) :])
    rest += [v for v in sums.stacked if v not in rest[sum(nz) :]]

    def body(*args: Any) -> list[Any]:
        known, so_far, changing, cts, xs = split(args, known_constants, len(sums.leaves), len(begun), sum(nz))
        variables = (*j.constvars, *inputs[0], *inputs[4], *inputs[2], *inputs[1], *inputs[3])
        env: dict[Any, Any] = dict(zip(variables, (*back.consts, *known, *changing, *cts, *xs), strict=True))
        evaluate_into(env, j.eqns)
        new = [add(s, read(env, v)) for s, v in zip(so_far, sums.leaves, strict=True)]
        return [*new, *(read(env, v) for v in (*chosen(totals, in_place), *rest))]

    def after(*args: Any) -> list[Any]:
        known, summed, changed, taken = split(args, known_constants, len(sums.leaves), len(begun))
        return spread(in_place, changed, sums.total(known, summed, taken))

    types = [[v.aval for v in vs] for vs in inputs]
    leaves = [v.aval.strip_weak_type() for v in (*sums.leaves, *inputs[4])]
    arrays_after = [v.aval.update(shape=(length, *v.aval.shape)) for v in (*sums.given, *sums.stacked)]
    row_inputs, row_results = [*inputs[1], *inputs[3]], rest[sum(nz) :]
    return Backward(
        remove_dead(program(body, [*types[0], *leaves, *types[2], *types[1], *types[3]], back)),
        tuple(leaves),
        remove_dead(program(after, [*types[0], *leaves, *arrays_after], back)),
        tuple(row_inputs.index(v) for v in sums.given),
        tuple(row_results.index(v) for v in sums.stacked),
        tuple(constants),
        tuple(nz),
        tuple(arrays),
    )


def _begun(closed: ClosedJaxpr, constants: Sequence[Var], nonzero: Sequence[bool]) -> list[Var]:
    """The constants of which each iteration only reads a few elements: their cotangents are one array each, to which it adds as many."""
    reads: dict[Any, bool] = {}
    for e in closed.jaxpr.eqns:
        for k, a in enumerate(e.invars):
            if type(a) is not Literal:
                reads[a] = reads.get(a, True) and k == 0 and e.op.accumulate is not None and _fits(2 * e.outvars[0].aval.size, a)
    reads.update((a, False) for a in closed.jaxpr.outvars if type(a) is not Literal)
    return [v for v, there in zip(constants, nonzero, strict=True) if there and reads.get(v, False)]


def _fits(size: int, v: Atom) -> bool:
    """Whether an array of this size is not larger than `v`, as far as is known."""
    return surely(lambda: size <= v.aval.size)


_LINEAR: Final = frozenset(("broadcast_in_dim", "convert_element_type", "copy", "neg", "reshape", "squeeze", "transpose"))
_BILINEAR: Final = frozenset(("dot_general", "mul"))
_SUMS: Final = frozenset(("add", "add_any"))


@final
class _Sums:
    """How the sums over all iterations of some values of a body are taken.

    leaves     variables to be summed in the loop
    given      rows the loop gets, and
    stacked    variables it has to give as rows, that are factors of products to be taken after the loop
    """

    def __init__(self, closed: ClosedJaxpr, constants: Sequence[Var], rows: Sequence[Var], terms: Sequence[Atom]) -> None:
        j = closed.jaxpr
        self.closed, self.constants, self.terms = closed, constants, terms
        self.maker = {v: e for e in j.eqns for v in e.outvars}
        self.uses = Counter(a for e in j.eqns for a in e.invars if type(a) is not Literal)
        self.uses.update(a for a in j.outvars if type(a) is not Literal)
        self.same: set[Any] = {*j.constvars, *constants}
        self.invariant: list[JaxprEqn] = []
        for e in j.eqns:
            if not e.effects and all(type(a) is Literal or a in self.same for a in e.invars):
                self.same.update(e.outvars)
                self.invariant.append(e)
        self.rows = set(rows)
        self.leaves: list[Atom] = []
        self.given: list[Var] = []
        self.stacked: list[Var] = []
        self.products: set[Var] = set()
        for v in terms:
            self.visit(v)

    def visit(self, v: Atom) -> None:
        """Finds what has to be summed, or kept, for the sum of `v`."""
        inner = self.inner(v)
        if inner is not None:
            for a in inner:
                self.visit(a)
        elif v in self.products or self.is_product(v):
            self.products.add(v)
            for a in self.maker[v].invars:
                into = self.given if a in self.rows else self.stacked
                if a not in into:
                    into.append(a)
        elif v not in self.leaves:
            self.leaves.append(v)

    def inner(self, v: Atom) -> list[Atom] | None:
        """The operands whose sums give the sum of `v`; None if that has to be taken of `v` itself."""
        e = self.maker.get(v) if type(v) is not Literal and self.uses[v] == 1 and v not in self.same else None
        if e is None:
            return None
        name, varying = e.op.name, [a for a in e.invars if type(a) is not Literal and a not in self.same]
        if name in _SUMS:
            return varying if len(varying) == 2 and all(a.aval.shape == v.aval.shape for a in varying) else None
        if len(varying) != 1 or name not in _LINEAR and name not in _BILINEAR:
            return None
        (x,) = varying
        narrower = x.aval.dtype.itemsize < v.aval.dtype.itemsize  # a sum in fewer bits is another sum
        if narrower or x.aval.dtype.kind != v.aval.dtype.kind or name != "dot_general" and not _fits(x.aval.size, v):
            return None
        return [x]

    def is_product(self, v: Atom) -> bool:
        """Whether the sum of `v` is better taken as one product of the factors of all iterations: if they are not larger than it."""
        e = self.maker.get(v) if type(v) is not Literal and self.uses[v] == 1 else None
        if e is None or e.op is not dot_general or any(type(a) is Literal or a in self.same for a in e.invars):
            return False
        return _fits(sum(a.aval.size for a in {*e.invars} if a not in self.rows and a not in self.stacked), v)

    def total(self, known: Sequence[Any], sums: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
        """The sums of the terms, of the sums of `leaves` and the arrays of `given` and `stacked`."""
        j = self.closed.jaxpr
        env: dict[Any, Any] = dict(zip((*j.constvars, *self.constants), (*self.closed.consts, *known), strict=True))
        evaluate_into(env, self.invariant)
        summed = {v: s for v, s in zip(self.leaves, sums, strict=True)}
        array_of = dict(zip((*self.given, *self.stacked), arrays, strict=True))

        def total(v: Atom) -> Any:
            inner = self.inner(v)
            if inner is None:
                return self.product(v, array_of) if v in self.products else summed[v]
            e = self.maker[v]
            if e.op.name in _SUMS:
                return add(total(inner[0]), total(inner[1]))
            (x,) = inner
            return e.bind([total(a) if a is x else read(env, a) for a in e.invars])[0]

        return [total(v) for v in self.terms]

    def product(self, v: Var, array_of: dict[Var, Any]) -> Any:
        """`sum_t dot_general(x[t], y[t])` --> a dot_general of x and y."""
        e = self.maker[v]
        (lc, rc), (lb, rb) = e.params["dimension_numbers"]
        inner = tuple((0, *(d + 1 for d in dims)) for dims in (lc, rc))
        outer = tuple(tuple(d + 1 for d in dims) for dims in (lb, rb))
        return dot_general(*(array_of[a] for a in e.invars), **e.params | {"dimension_numbers": (inner, outer)})
