"""The steps of jit, one by one: `f.trace(*args).lower().compile()`."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, final, runtime_checkable

from steno import backends
from steno._native import ArrayImpl, JitEntry, JitFunction, ShapedArray
from steno.backends import finite
from steno.core import dtypes
from steno.core.aval import HasShape, register_aval_type, shape_only, typeof
from steno.core.config import config
from steno.core.jaxpr import ClosedJaxpr, Jaxpr, open_jaxpr, subjaxprs
from steno.core.record import field, record
from steno.core.refs import AbstractRef
from steno.core.sizes import size_of
from steno.core.trace import Tracer
from steno.places import CPU, SingleDeviceSharding
from steno.tracing import argument_avals, argument_names
from steno.tree_util import PyTreeDef, tree_flatten, tree_map, tree_unflatten


class Executable(Protocol):
    """A compiled program, as a backend gives it."""

    def run(self, args: Sequence[Any], donated: Iterable[int] = ()) -> list[Any]: ...


CompilerOptions = dict[str, Any]


@runtime_checkable
class Wrapped(Protocol):
    """What jit gives: a function that can also be traced and lowered."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def trace(self, *args: Any, **kwargs: Any) -> Any: ...

    def lower(self, *args: Any, **kwargs: Any) -> Any: ...


@final
class ShapeDtypeStruct(HasShape):
    """The shape, dtype and weak type of an array without its values; accepted wherever only the type matters. `is_ref`: of a reference to
    a mutable array."""

    __slots__ = ("dtype", "is_ref", "shape", "sharding", "weak_type")

    def __init__(
        self, shape: Any, dtype: Any, *, sharding: Any = None, weak_type: bool = False, is_ref: bool = False, **ignored: Any
    ) -> None:
        if dtype is None:
            raise ValueError("ShapeDtypeStruct: dtype must be specified.")
        shape = tuple(shape)
        if any(n is None for n in shape):
            raise ValueError(f"ShapeDtypeStruct: `shape` must consist of integers; it cannot have None. Got {shape}")
        self.shape = tuple(map(_dimension, shape))
        self.dtype = dtypes.as_dtype(dtype)
        self.sharding, self.weak_type, self.is_ref = sharding, weak_type, is_ref

    @property
    def aval(self) -> Any:
        dtype = self.dtype if config._state.explicit_x64_dtypes == "allow" else dtypes.canonical(self.dtype)
        array = ShapedArray(self.shape, dtype, self.weak_type)
        return AbstractRef(array) if self.is_ref else array

    @classmethod
    def like(cls, x: Any) -> ShapeDtypeStruct:
        """The type of an array or a number."""
        aval = typeof(x)
        placed = type(x) is ShapeDtypeStruct or (type(x) is ArrayImpl and x.committed)
        sharding = x.sharding if placed else None
        return cls(aval.shape, aval.dtype, weak_type=aval.weak_type, sharding=sharding)

    def update(self, **changes: Any) -> ShapeDtypeStruct:
        fields = {n: changes.pop(n, getattr(self, n)) for n in ("shape", "dtype", "sharding", "weak_type", "is_ref")}
        if changes:
            raise TypeError(f"ShapeDtypeStruct.update: unknown fields {sorted(changes)}")
        return ShapeDtypeStruct(**fields)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.shape, self.dtype, self.sharding, self.weak_type, self.is_ref

    def __repr__(self) -> str:
        parts = [f"shape={self.shape}", f"dtype={dtypes.name(self.dtype)}"]
        if self.sharding is not None:
            parts.append(f"sharding={self.sharding}")
        if self.weak_type:
            parts.append("weak_type=True")
        if self.is_ref:
            parts.append("is_ref=True")
        return f"ShapeDtypeStruct({', '.join(parts)})"


shape_only[ShapeDtypeStruct] = lambda x: x.aval


def _dimension(n: Any) -> Any:
    try:
        return size_of(n)
    except TypeError:
        raise TypeError(f"ShapeDtypeStruct: shapes must be sequences of integers, got the dimension {n!r} of type {type(n)}") from None


register_aval_type(ShapeDtypeStruct)


@final
@record(frozen=True)
class ArgInfo:
    """What is known of one argument of a traced function."""

    _aval: ShapedArray
    donated: bool

    @property
    def aval(self) -> ShapedArray:
        return self._aval

    @property
    def shape(self) -> tuple[int, ...]:
        return self._aval.shape

    @property
    def dtype(self) -> Any:
        return self._aval.dtype


@final
@record(frozen=True)
class CompiledMemoryStats:
    """Bytes a compiled program needs: of its arguments, results, results that take over arguments, and intermediates."""

    generated_code_size_in_bytes: int = 0
    argument_size_in_bytes: int = 0
    output_size_in_bytes: int = 0
    alias_size_in_bytes: int = 0
    temp_size_in_bytes: int = 0
    host_generated_code_size_in_bytes: int = 0
    host_argument_size_in_bytes: int = 0
    host_output_size_in_bytes: int = 0
    host_alias_size_in_bytes: int = 0
    host_temp_size_in_bytes: int = 0


@final
@record(eq=False)
class Program:
    """A traced function for one kind of call. `donated`: positions of the flat arguments whose memory results may take over.

    `compile_program(self)` is the backend's compiler with jit's options."""

    fun: Callable[[], Any]  # gives the function while it lives
    name: str
    closed: ClosedJaxpr
    in_tree: PyTreeDef
    out_tree: PyTreeDef
    donated: frozenset[int]
    positions: tuple[int, ...] | None  # of the arguments that are not static
    compile_program: Callable[[Program, Mapping[str, Any] | None], Executable] = field(repr=False)
    executable: Executable | None = field(default=None, repr=False)
    usable: frozenset[int] = frozenset()  # the donated inputs that results take over; known once compiled
    record: Any = field(default=None, repr=False)  # of the trace (retrace.TraceRecord)

    def argument_names(self) -> tuple[str, ...]:
        return argument_names(self.fun(), self.in_tree, self.positions)


@final
@record(frozen=True)
class HoistedConstants:
    """Arrays that a compiled program is handed besides its arguments: none, those it captures are its own."""

    const_args: tuple[Any, ...] = ()


def _format(shape: Sequence[int]) -> Any:
    return importlib.import_module("steno.mesh").Format.of(shape)


class Stage:
    """What the stages have in common: the types and trees of arguments and results."""

    def __init__(self, program: Program) -> None:
        self._program = program

    @property
    def in_tree(self) -> PyTreeDef:
        return self._program.in_tree

    @property
    def out_tree(self) -> PyTreeDef:
        return self._program.out_tree

    @property
    def in_avals(self) -> Any:
        """The types of the arguments, as (args, kwargs)."""
        return tree_unflatten(self.in_tree, self._program.closed.in_avals)

    @property
    def out_avals(self) -> Any:
        return tree_unflatten(self.out_tree, self._program.closed.out_avals)

    @property
    def args_info(self) -> Any:
        """Types and donation of the arguments, as (args, kwargs)."""
        donated = self._program.donated
        return tree_unflatten(self.in_tree, [ArgInfo(a, k in donated) for k, a in enumerate(self._program.closed.in_avals)])

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """Positions of the donated flat arguments."""
        return tuple(sorted(self._program.donated))

    @property
    def out_info(self) -> Any:
        """The results as ShapeDtypeStructs."""
        avals = self._program.closed.out_avals
        return tree_unflatten(self.out_tree, [ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in avals])


@final
class Traced(Stage):
    """A function traced for one kind of call: has a jaxpr."""

    @property
    def jaxpr(self) -> ClosedJaxpr:
        return self._program.closed

    @property
    def fun_name(self) -> str:
        return self._program.name

    @property
    def effects(self) -> frozenset[Any]:
        return self._program.closed.effects

    def lower(self, *, lowering_platforms: Any = None, **ignored: Any) -> Lowered:
        """The next stage. ValueError for other platforms than cpu."""
        if lowering_platforms is not None and tuple(lowering_platforms) != ("cpu",):
            raise ValueError(f"lower: lowering_platforms must be ('cpu',), got {lowering_platforms!r}")
        return Lowered(self._program)


@final
class Lowered(Stage):
    """A program on its way to machine code; its levels can be printed."""

    LEVELS = ("jaxpr", "graph", "loops", "llvm", "asm")
    OTHERS = ("hlo", "stablehlo")

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """The program at a level: "jaxpr", "graph", "loops" (the default), "llvm" or "asm". ValueError for another.

        `debug_info`: a jaxpr shows where its equations come from, followed by a line for the path of each operation: the calls, scopes,
        transformations, loops and branches it stands in. The text is for reading: to programs that ask for XLA's languages, "hlo" and
        "stablehlo", it shows the jaxpr, the level that comes closest."""
        level = "loops" if dialect is None else "jaxpr" if dialect in self.OTHERS else dialect
        if level not in self.LEVELS:
            raise ValueError(f"unknown dialect: {dialect}; the levels are {', '.join(self.LEVELS)}")
        if level != "jaxpr":
            return _text_of(executable_of(self._program), level)
        closed = self._program.closed
        text = closed.pretty_print(source_info=debug_info)
        if not debug_info:
            return text
        return f"{text}\n{importlib.import_module('steno.core.locations').locations_text(closed, self._program.name)}"

    def compiler_ir(self, dialect: str | None = None) -> Any:
        """`as_text`."""
        return self.as_text(dialect)

    def cost_analysis(self) -> dict[str, float]:
        """Estimates: `flops`, and `bytes accessed` by arguments and results."""
        return _cost(self._program.closed)

    def compile(self, compiler_options: Mapping[str, Any] | None = None, **ignored: Any) -> Compiled:
        """Machine code. `compiler_options` go over those of jit."""
        return Compiled(self._program, executable_of(self._program, compiler_options))


@final
class Compiled(Stage):
    """Machine code for one kind of call: called with the arguments that are not static, of exactly the types it was compiled for."""

    def __init__(self, program: Program, executable: Executable) -> None:
        super().__init__(program)
        self._executable = executable
        self._call = JitFunction(program.name, self._first_call)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    def _first_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[JitEntry | None, Any]:
        """A call that is checked in Python; if it is fine, native code answers those like it."""
        leaves, tree = tree_flatten((args, kwargs))
        if tree != self.in_tree:
            raise TypeError(
                "Function compiled with input pytree does not match the input pytree it was called with: "
                f"it was compiled with {self.in_tree}, and called with {tree}"
            )
        if any(isinstance(x, Tracer) for x in leaves):
            raise TypeError(
                "Cannot apply JAX transformations to a function lowered and compiled for a particular signature. Detected an argument of "
                f"{self._program.name} that is a {next(type(x).__name__ for x in leaves if isinstance(x, Tracer))}"
            )
        given = argument_avals(self._program.fun() or self._program.name, leaves, tree, self._program.positions)
        wanted = self._program.closed.in_avals
        wrong = [k for k, (g, w) in enumerate(zip(given, wanted, strict=True)) if g.str_short() != w.str_short()]
        if wrong:
            names = self._program.argument_names()
            listed = [f"Argument '{names[k]}' compiled with {wanted[k].str_short()} and called with {given[k].str_short()}" for k in wrong]
            raise TypeError(
                "Argument types differ from the types for which this computation was compiled. The mismatches are:\n" + "\n".join(listed)
            )
        out = run(self._program, self._executable, leaves)
        return plan(self._program, self._executable), tree_unflatten(self.out_tree, out)

    call = __call__

    def as_text(self, level: str = "asm") -> str:
        """The program at a level: "graph", "loops", "llvm", or "asm" (the default)."""
        if level not in Lowered.LEVELS:
            raise ValueError(f"unknown level: {level}; the levels are {', '.join(Lowered.LEVELS)}")
        return str(self._program.closed) if level == "jaxpr" else _text_of(self._executable, level)

    def cost_analysis(self) -> dict[str, float]:
        """Estimates: `flops`, and `bytes accessed` by arguments and results."""
        return _cost(self._program.closed)

    def memory_analysis(self) -> CompiledMemoryStats:
        """Bytes of arguments, results and intermediates."""
        closed = self._program.closed
        compiled = getattr(self._executable, "compiled", None)
        return CompiledMemoryStats(
            argument_size_in_bytes=sum(a.nbytes for a in closed.in_avals),
            output_size_in_bytes=sum(a.nbytes for a in closed.out_avals),
            alias_size_in_bytes=0 if compiled is None else sum(compiled.in_avals[i].nbytes for _, i in compiled.aliases),
            temp_size_in_bytes=0 if compiled is None else compiled.plan.arena_bytes,
        )

    @property
    def input_shardings(self) -> Any:
        return tree_map(lambda _: SingleDeviceSharding(CPU), self.args_info, is_leaf=lambda x: isinstance(x, ArgInfo))

    @property
    def output_shardings(self) -> Any:
        return tree_map(lambda _: SingleDeviceSharding(CPU), self.out_info)

    @property
    def input_formats(self) -> Any:
        """Where and how the arguments lie, as (args, kwargs): arrays are C-contiguous."""
        return tree_map(lambda a: _format(a.shape), self.args_info, is_leaf=lambda x: isinstance(x, ArgInfo))

    @property
    def output_formats(self) -> Any:
        return tree_map(lambda x: _format(x.shape), self.out_info)

    @property
    def _params(self) -> HoistedConstants:
        return HoistedConstants()

    def runtime_executable(self) -> Executable:
        return self._executable


def plan(program: Program, executable: Any) -> JitEntry | None:
    """How native code answers calls of the program; None if its backend has no native code, or results are looked at in Python."""
    native = getattr(executable, "native", None)
    if native is None or finite.watching():
        return None
    closed = program.closed
    inputs = range(len(closed.in_avals))
    return JitEntry(native, program.out_tree, executable.results, closed.out_avals, inputs, sorted(program.usable))


def run(program: Program, executable: Executable, leaves: Sequence[Any]) -> list[Any]:
    """The flat results; arrays whose donation is of use are deleted. ValueError if such an array is passed twice."""
    given = Counter(id(x) for x in leaves if isinstance(x, ArrayImpl)) if program.usable else None
    for k in program.usable:
        if given is not None and given[id(leaves[k])] > 1:
            name = program.argument_names()[k]
            raise ValueError(
                f"{program.name}: the array donated as {name} is also another argument of the same call, as in `f(donate(a), a)`"
            )
    if finite.watching():  # the arguments are needed again if something turns up
        out = executable.run(leaves)
        finite.check_program(program.closed, leaves, out, program.name, program.argument_names, backends.current().eager)
    else:
        out = executable.run(leaves, program.usable)
    for k in program.usable:
        x = leaves[k]
        if isinstance(x, ArrayImpl) and not x.is_deleted():
            x.delete()
    return out


def executable_of(program: Program, options: Mapping[str, Any] | None = None) -> Executable:
    """The program compiled: once, but anew with other `options` than jit's."""
    if options:
        return program.compile_program(program, options)
    if program.executable is None:
        program.executable = program.compile_program(program, None)
    return program.executable


def _text_of(executable: Any, level: str) -> str:
    as_text = getattr(executable, "as_text", None)
    if as_text is None:
        raise NotImplementedError(f"as_text({level!r}): the backend's programs ({type(executable).__name__}) have no such level")
    return as_text(level)


def _cost(closed: ClosedJaxpr) -> dict[str, float]:
    moved = sum(a.nbytes for a in (*closed.in_avals, *closed.out_avals)) + sum(typeof(c).nbytes for c in closed.consts)
    return {"flops": float(_flops(closed.jaxpr)), "bytes accessed": float(moved)}


def _flops(jaxpr: Jaxpr) -> int:
    """What the ops' records count; of others one for each element of each result, or of what is reduced."""
    total = 0
    for e in jaxpr.eqns:
        inner = [_flops(open_jaxpr(j)) for j in subjaxprs(e.params)]
        if inner:
            total += sum(inner) * int(e.params.get("length", 1))
        elif e.op.cost is not None:
            total += round(e.op.cost([v.aval for v in e.invars], [v.aval for v in e.outvars], **e.params))
        else:
            sizes = [v.aval.size for v in e.outvars]
            if "axes" in e.params:
                sizes += [a.aval.size for a in e.invars]
            total += max(sizes, default=0)
    return total
