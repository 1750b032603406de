"""Writes what editors and type checkers read of the faces whose names are found on demand, or made by other functions: their `.pyi` files.

usage: make_stubs.py            writes them, from the package as it is
       make_stubs.py --check    exit status 1 if one is out of date

A function stands there with the signature it has; annotations are those of its source, resolved. `TYPED` has what they do not say."""

from __future__ import annotations

import argparse
import ast
import builtins
import enum
import importlib
import inspect
import pkgutil
import sys
import types
import typing
from pathlib import Path
from typing import Any, Final, final

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCE: Final = ROOT / "src"
HEAD: Final = "# Made by `make stubs`.\n"

FACES: Final = (
    "steno", "steno.experimental", "steno.image", "steno.lax", "steno.lax.linalg", "steno.nn", "steno.nn.initializers", "steno.numpy",
    "steno.numpy.fft", "steno.numpy.linalg", "steno.ops", "steno.random", "steno.sharding", "steno.tree", "steno.typing",
)  # fmt: skip
BELOW: Final = ("steno.scipy",)
"""Packages of which every module with public names is a face."""

ABC: Final = frozenset(
    "Callable Collection Container Generator Hashable Iterable Iterator Mapping MutableMapping MutableSequence Sequence Set Sized".split()
)
TYPING: Final = frozenset("Any Literal NamedTuple Protocol TypeAlias".split())
OWN: Final = frozenset(("Array", "ArrayLike", "DTypeLike"))

_JIT = """
class _Jitted(Protocol[_P, _R_co]):
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R_co: ...
    def lower(self, *args: _P.args, **kwargs: _P.kwargs) -> Lowered: ...
    def trace(self, *args: _P.args, **kwargs: _P.kwargs) -> Traced: ...
    def eval_shape(self, *args: _P.args, **kwargs: _P.kwargs) -> Any: ...
    def clear_cache(self) -> None: ...
    def __get__(self, instance: Any, owner: Any = ...) -> Callable[..., _R_co]: ...
"""
_UFUNC = """
class ufunc:
    nin: int
    nout: int
    nargs: int
    identity: Any
    def __init__(self, func: Callable[..., Any], /, nin: int, nout: int, *, name: str | None = ..., identity: Any = ...) -> None: ...
    def __call__(self, *args: ArrayLike) -> Array: ...
    def reduce(self, a: ArrayLike, axis: int | None = ..., dtype: DTypeLike | None = ..., keepdims: builtins.bool = ...,
               initial: ArrayLike | None = ..., where: ArrayLike | None = ...) -> Array: ...
    def accumulate(self, a: ArrayLike, axis: int = ..., dtype: DTypeLike | None = ...) -> Array: ...
    def at(self, a: ArrayLike, indices: Any, b: ArrayLike | None = ..., /, *, inplace: builtins.bool = ...) -> Array: ...
    def reduceat(self, a: ArrayLike, indices: Any, axis: int = ..., dtype: DTypeLike | None = ...) -> Array: ...
    def outer(self, A: ArrayLike, B: ArrayLike, /) -> Array: ...
"""
TYPED: Final = {
    "steno": {
        "": "_P = ParamSpec('_P')\n_R = TypeVar('_R')\n_R_co = TypeVar('_R_co', covariant=True)\n_T = TypeVar('_T')\n"
        "_F = TypeVar('_F', bound=Callable[..., Any])\n" + _JIT,
        "jit": ("@overload\ndef jit(fun: Callable[_P, _R], /, {options}) -> _Jitted[_P, _R]: ...\n"
                "@overload\ndef jit(*, {keywords}) -> Callable[[Callable[_P, _R]], _Jitted[_P, _R]]: ..."),
        "vmap": "(fun: _F, {}) -> _F",
        "pmap": "(fun: _F, {}) -> _F",
        "block_until_ready": "(x: _T) -> _T",
        "copy_to_host_async": "(x: _T) -> _T",
        "pure_callback": "(callback: Callable[..., Any], result_shape_dtypes: Any, {}) -> Any",
        "checkpoint": "(fun: _F, {}) -> _F",
        "remat": "(fun: _F, {}) -> _F",
        "named_call": "(fun: Callable[_P, _R], {}) -> Callable[_P, _R]",
        "grad": "(fun: Callable[_P, Any], {}) -> Callable[_P, Any]",
        "value_and_grad": "(fun: Callable[_P, Any], {}) -> Callable[_P, tuple[Any, Any]]",
        "jacfwd": "(fun: Callable[_P, Any], {}) -> Callable[_P, Any]",
        "jacrev": "(fun: Callable[_P, Any], {}) -> Callable[_P, Any]",
        "jacobian": "(fun: Callable[_P, Any], {}) -> Callable[_P, Any]",
        "hessian": "(fun: Callable[_P, Any], {}) -> Callable[_P, Any]",
        "make_jaxpr": "(fun: Callable[_P, Any], {}) -> Callable[_P, Any]",
    },
    "steno.lax": {
        "": "_C = TypeVar('_C')\n_X = TypeVar('_X')\n_Y = TypeVar('_Y')\n_T = TypeVar('_T')\n",
        "cond": "(pred: ArrayLike, true_fun: Callable[..., _T], false_fun: Callable[..., _T], *operands: Any, operand: Any = ...) -> _T",
        "switch": "(index: ArrayLike, branches: Sequence[Callable[..., _T]], *operands: Any, operand: Any = ...) -> _T",
        "fori_loop": "(lower: Any, upper: Any, body_fun: Callable[[Any, _T], _T], init_val: _T, {}) -> _T",
        "while_loop": "(cond_fun: Callable[[_T], ArrayLike], body_fun: Callable[[_T], _T], init_val: _T) -> _T",
        "scan": "(f: Callable[[_C, _X], tuple[_C, _Y]], init: _C, xs: _X | None = ..., {}) -> tuple[_C, _Y]",
        "map": "(f: Callable[[_X], _Y], xs: _X, {}) -> _Y",
        "stop_gradient": "(x: _T) -> _T",
        "optimization_barrier": "(operand: _T, /) -> _T",
        "with_sharding_constraint": "(x: _T, shardings: Any) -> _T",
        **{n: "(x: _T, axis_name: Any, {}) -> _T" for n in "psum pmean pmax pmin ppermute pshuffle pbroadcast pcast".split()},
        "axis_index": "(axis_name: Any) -> Array",
    },
    "steno.typing": {
        "ArrayLike": "\nArrayLike: TypeAlias = Array | np.ndarray | np.bool_ | np.number | bool | int | float | complex",
        "DTypeLike": "\nDTypeLike: TypeAlias = str | type | np.dtype[Any] | KeyDType | SupportsDType",
        "SupportsDType": "\nclass SupportsDType(Protocol):\n    @property\n    def dtype(self) -> Any: ...",
    },
    "steno.numpy": {
        "": "class _Scalar:\n    dtype: np.dtype[Any]\n    def __new__(cls, x: ArrayLike = ...) -> Array: ...\n\n",
        "ufunc": _UFUNC,
        "where": ("@overload\ndef where(condition: ArrayLike, *, size: int | None = ..., fill_value: Any = ...) -> tuple[Array, ...]: ...\n"
                  "@overload\ndef where(condition: ArrayLike, x: ArrayLike, y: ArrayLike, /) -> Array: ..."),
    },
}  # fmt: skip
"""Signatures by face and name: `(parameters) -> result`, in which `{}` stands for the rest of the parameters; or whole definitions, with
`{options}` for the parameters by keyword, and `{keywords}` without the star. "": what stands in front of all."""

PROPERTIES: Final = {
    "T": "Array", "mT": "Array", "real": "Array", "imag": "Array", "shape": "tuple[int, ...]", "dtype": "np.dtype[Any]", "ndim": "int",
    "size": "int", "itemsize": "int", "nbytes": "int", "weak_type": "bool", "committed": "bool", "is_fully_addressable": "bool",
    "is_fully_replicated": "bool", "at": "_Updates",
}  # fmt: skip
RESULTS: Final = {"is_deleted": "bool", "is_ready": "bool", "block_until_ready": "Array", "delete": "None", "copy_to_host_async": "None"}
_AT: Final = """
class _Updates:
    def __getitem__(self, index: Any) -> _Update: ...

class _Update:
    def get(self, **options: Any) -> Array: ...
    def set(self, values: ArrayLike, **options: Any) -> Array: ...
    def add(self, values: ArrayLike, **options: Any) -> Array: ...
    def subtract(self, values: ArrayLike, **options: Any) -> Array: ...
    def multiply(self, values: ArrayLike, **options: Any) -> Array: ...
    def mul(self, values: ArrayLike, **options: Any) -> Array: ...
    def divide(self, values: ArrayLike, **options: Any) -> Array: ...
    def power(self, values: ArrayLike, **options: Any) -> Array: ...
    def min(self, values: ArrayLike, **options: Any) -> Array: ...
    def max(self, values: ArrayLike, **options: Any) -> Array: ...
    def apply(self, func: Callable[[Array], Array], **options: Any) -> Array: ...
"""
"""What `x.at` is."""


@final
class Stub:
    """The text of one module's stub, while it is made."""

    def __init__(self, module: types.ModuleType) -> None:
        self.module, self.name = module, module.__name__
        self.names = public(module)
        self.imports: dict[str, set[str]] = {}
        self.lines: list[str] = []
        self.typed = TYPED.get(self.name, {})

    def use(self, module: str, name: str) -> None:
        self.imports.setdefault(module, set()).add(name)

    def text(self) -> str:
        for n in self.names:
            self.add(n, getattr(self.module, n))
        front = self.typed.get("", "")
        if front:
            for n in ("ParamSpec", "Protocol", "TypeVar"):
                if f"{n}(" in front or f"{n}[" in front:
                    self.use("typing", n)
            for n in ("Lowered", "Traced"):
                if n in front:
                    self.use("steno.stages", n)
            self.note(front)
        body = "\n".join(self.lines)
        imports = [f"from {m} import {', '.join(sorted(ns))}" for m, ns in sorted(self.imports.items())]
        numpy = ["import numpy as np"] if "np." in body + front else []
        own = ["import builtins"] if "builtins." in body else []
        return HEAD + "\n".join([*own, *numpy, *imports]) + "\n\n" + front + body + "\n"

    def note(self, text: str) -> None:
        """Imports what a text of TYPED names."""
        for n in ast.walk(ast.parse(text)):
            if isinstance(n, ast.Name):
                self.known(n.id)

    def known(self, name: str) -> bool:
        if name in ABC:
            self.use("collections.abc", name)
        elif name in TYPING or name == "overload":
            self.use("typing", name)
        elif name in OWN:
            if self.name != "steno.typing":
                self.use("steno.typing", name)
        else:
            return hasattr(builtins, name)
        return True

    # entries

    def add(self, name: str, value: Any) -> None:
        if isinstance(value, types.ModuleType):
            package, _, last = value.__name__.rpartition(".")
            self.use(package, f"{last} as {name}")
        elif self.typed.get(name, "").startswith("\n"):
            self.note(self.typed[name])
            self.lines.append(self.typed[name].strip("\n"))
        elif value is importlib.import_module("steno.core.trace").Array:
            self.array(name)
        elif type(value).__name__ == "_ScalarMeta":
            self.lines.append(f"class {name}(_Scalar): ...")
        elif inspect.isclass(value) and value.__module__ == self.name:
            self.own_class(name, value)
        elif inspect.isclass(value) or (
            isinstance(getattr(value, "__module__", None), str) and value.__module__.partition(".")[0] == "numpy"
        ):
            self.elsewhere(name, value)
        elif name in self.typed:
            self.typed_function(name, value)
        elif type(value).__name__ == "ufunc":
            self.lines.append(f"{name}: ufunc")
        elif inspect.isfunction(value) or inspect.isbuiltin(value) or inspect.isfunction(getattr(value, "__wrapped__", None)):
            self.function(name, value)
        else:
            self.value(name, value)

    def elsewhere(self, name: str, value: Any) -> None:
        """Something that another module has."""
        own = getattr(value, "__name__", name)
        if value.__module__ != self.name and getattr(sys.modules.get(value.__module__), own, None) is value:
            self.use(value.__module__, f"{own} as {own if own != name else name}" if own in (name, *self.names) else own)
            if own != name:
                self.lines.append(f"{name} = {own}")
            return
        self.known("Any")
        self.lines.append(f"{name}: Any")

    def own_class(self, name: str, cls: Any) -> None:
        """A class that the face defines itself."""
        if issubclass(cls, enum.Enum):
            self.use("enum", "Enum")
            self.lines += [f"class {name}(Enum):", *(f"    {m} = ..." for m in cls.__members__)]
            return
        self.known("Any")
        fields = getattr(cls, "_fields", None)
        if fields is not None:
            self.use("typing", "NamedTuple")
            self.lines += [f"class {name}(NamedTuple):", *(f"    {f}: Any" for f in fields)]
            return
        protocol = getattr(cls, "_is_protocol", False)
        if protocol:
            self.use("typing", "Protocol")
        self.lines.append(f"class {name}{'(Protocol)' if protocol else ''}:")
        start = len(self.lines)
        self.lines += [f"    {n}: Any" for n in getattr(cls, "__annotations__", {}) if not n.startswith("_")]
        for n, member in vars(cls).items():
            if isinstance(member, classmethod | staticmethod) and not n.startswith("__"):  # protocols have some that nobody wrote
                self.lines.append(f"    @{type(member).__name__}\n    def {n}(*args: Any, **kwargs: Any) -> Any: ...")
            elif isinstance(member, property):
                self.lines.append(f"    @property\n    def {n}(self) -> Any: ...")
            elif inspect.isfunction(member) and (
                not n.startswith("_") or (n in ("__call__", "__init__") and not (protocol and n == "__init__"))
            ):
                self.function(n, member, "    ", method=True)
        if len(self.lines) == start:
            self.lines[-1] += " ..."

    def value(self, name: str, value: Any) -> None:
        cls = type(value)
        if cls.__module__ == "builtins" and cls in (int, float, str, bool, tuple, dict, list):
            self.lines.append(f"{name}: {cls.__name__}")
        elif value is None:
            self.lines.append(f"{name}: None")
        elif isinstance(value, types.UnionType | types.GenericAlias):
            self.known("Any")
            self.lines.append(f"{name} = {self.annotation(repr(value), {})}")
        elif cls.__module__.startswith("steno.") and not cls.__name__.startswith("<"):
            self.use(cls.__module__, cls.__name__)
            self.lines.append(f"{name}: {cls.__name__}")
        else:
            self.known("Any")
            self.lines.append(f"{name}: Any")

    # functions

    def typed_function(self, name: str, value: Any) -> None:
        text = self.typed[name]
        if text.startswith("@"):
            self.known("overload")
            keywords = self.parameters(value, skip=1, keyword_only=True)
            text = text.replace("{options}", "*, " + keywords).replace("{keywords}", keywords)
            self.note(text)
            self.lines.append(text)
            return
        given = [a.arg for a in ast.walk(ast.parse(f"def f{text.replace(', {}', '')}: ...")) if isinstance(a, ast.arg)]
        rest = self.parameters(value, skip=len(given), catch_up="/" in text)
        text = text.replace("{}", rest) if rest else text.replace(", {}", "")
        self.note(f"def {name}{text}: ...")
        self.lines.append(f"def {name}{text}: ...")

    def function(self, name: str, value: Any, indent: str = "", method: bool = False) -> None:
        try:
            signature = signature_of(value)
        except (TypeError, ValueError):
            self.known("Any")
            self.lines.append(f"{indent}def {name}({'self, ' if method else ''}*args: Any, **kwargs: Any) -> Any: ...")
            return
        result = self.annotation(signature.return_annotation, self.scope(value))
        if inspect.isgeneratorfunction(inspect.unwrap(value)) and not inspect.isgeneratorfunction(value):
            self.use("contextlib", "AbstractContextManager")
            result = "AbstractContextManager" + result.removeprefix("Iterator")
        self.lines.append(f"{indent}def {name}({self.parameters(value, method=method)}) -> {result}: ...")

    def scope(self, value: Any) -> dict[str, Any]:
        value = inspect.unwrap(value)
        return getattr(value, "__globals__", None) or vars(sys.modules.get(getattr(value, "__module__", ""), types))

    def parameters(self, value: Any, *, skip: int = 0, keyword_only: bool = False, method: bool = False, catch_up: bool = False) -> str:
        """The parameters as source, from number `skip` on."""
        scope = self.scope(value)
        given = list(inspect.signature(value).parameters.values())[skip:]
        out: list[str] = []
        kinds = inspect.Parameter
        star = keyword_only
        for k, p in enumerate(given):
            if keyword_only and p.kind not in (kinds.KEYWORD_ONLY, kinds.POSITIONAL_OR_KEYWORD):
                continue
            if p.kind is kinds.KEYWORD_ONLY and not star:
                out.append("*")
                star = True
            if p.kind is kinds.VAR_POSITIONAL:
                star = True
            if method and k == 0 and p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD):
                out.append("self")
            else:
                prefix = {kinds.VAR_POSITIONAL: "*", kinds.VAR_KEYWORD: "**"}.get(p.kind, "")
                default = "" if p.default is p.empty else " = ..."
                out.append(f"{prefix}{p.name}: {self.annotation(p.annotation, scope)}{default}")
            after = given[k + 1] if k + 1 < len(given) else None
            if p.kind is kinds.POSITIONAL_ONLY and (after is None or after.kind is not kinds.POSITIONAL_ONLY) and not skip:
                out.append("/")
        return ", ".join(out)

    def annotation(self, given: Any, scope: dict[str, Any]) -> str:
        """An annotation as source; `Any` for what cannot be named here."""
        if given is inspect.Parameter.empty:
            self.known("Any")
            return "Any"
        text = given if isinstance(given, str) else "None" if given is None else given.__name__ if inspect.isclass(given) else repr(given)
        try:
            return ast.unparse(self.resolved(ast.parse(text, mode="eval").body, scope))
        except (SyntaxError, LookupError):
            self.known("Any")
            return "Any"

    def resolved(self, node: ast.expr, scope: dict[str, Any]) -> ast.expr:
        """LookupError for what has no name here."""
        if isinstance(node, ast.Constant):
            return node
        if isinstance(node, ast.BinOp):
            return ast.BinOp(self.resolved(node.left, scope), node.op, self.resolved(node.right, scope))
        if isinstance(node, ast.Subscript):
            return ast.Subscript(self.resolved(node.value, scope), self.resolved(node.slice, scope))
        if isinstance(node, ast.Tuple | ast.List):
            return type(node)([self.resolved(e, scope) for e in node.elts], ast.Load())
        source = ast.unparse(node)
        last = source.rpartition(".")[2]
        if source in OWN or last in ABC or last in TYPING:
            self.known(last)
            return ast.Name(last)
        if source.startswith(("np.", "numpy.")):
            return ast.Name("np." + last)
        if hasattr(builtins, source) and inspect.isclass(getattr(builtins, source)):
            return ast.Name(f"builtins.{source}" if source in self.names else source)
        try:
            value = eval(source, dict(scope))
        except Exception as e:
            raise LookupError(source) from e
        if value is Any:
            self.known("Any")
            return ast.Name("Any")
        if inspect.isclass(value):
            return ast.Name(self.class_name(value))
        if isinstance(value, types.UnionType | types.GenericAlias) or typing.get_origin(value) is not None:
            return self.resolved(ast.parse(repr(value).replace("typing.Any", "Any"), mode="eval").body, {"steno": sys.modules["steno"]})
        raise LookupError(source)

    def class_name(self, cls: type) -> str:
        if cls.__module__ == "builtins":
            return cls.__name__
        if cls is importlib.import_module("steno.core.trace").Array:
            self.known("Array")
            return "Array"
        if cls.__module__ == "steno.tree_util":  # native, whatever it says
            self.use("steno._native", cls.__name__)
            return cls.__name__
        if getattr(sys.modules.get(cls.__module__), cls.__name__, None) is not cls:
            raise LookupError(cls.__name__)
        if cls.__module__ == self.name and cls.__name__ not in self.names:
            raise LookupError(cls.__name__)
        if cls.__name__ not in self.names:
            self.use(cls.__module__, cls.__name__)
        return cls.__name__

    # arrays

    def array(self, name: str) -> None:
        """The class of arrays: in steno.typing, what those have that are computed."""
        if self.name != "steno.typing":
            self.use("steno.typing", "Array as Array" if name == "Array" else "Array")
            if name != "Array":
                self.lines.append(f"{name} = Array")
            return
        impl = importlib.import_module("steno._native").ArrayImpl
        self.known("Any")
        self.lines.append(_AT.strip("\n") + "\n\nclass Array:")
        self.note(_AT)
        self.known("Iterator")
        for n in sorted(dir(impl)):
            if n.startswith("_") and n not in DUNDERS:
                continue
            member = inspect.getattr_static(impl, n)
            if isinstance(member, property) or not callable(member):
                self.lines.append(f"    @property\n    def {n}(self) -> {PROPERTIES.get(n, 'Any')}: ...")
            elif n in DUNDERS:
                ignored = "  # type: ignore[override]  # pyright: ignore" if n in ("__eq__", "__ne__") else ""
                self.lines.append(f"    def {n}{DUNDERS[n]}: ...{ignored}")
            else:
                self.method(n, member)

    def method(self, name: str, member: Any) -> None:
        try:
            signature = signature_of(member)
        except (TypeError, ValueError):
            result = RESULTS.get(name, "Any")
            self.lines.append(f"    def {name}(self, *args: Any, **kwargs: Any) -> {result}: ...")
            return
        result = self.annotation(signature.return_annotation, self.scope(member))
        function = getattr(importlib.import_module("steno.numpy"), name, None)
        if result == "Any" and inspect.isfunction(function):
            result = self.annotation(inspect.signature(function).return_annotation, self.scope(function))
        self.lines.append(f"    def {name}({self.parameters(member, method=True)}) -> {result}: ...")


_BINARY = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift divmod".split()
DUNDERS: Final = {
    **{f"__{r}{n}__": f"(self, other: Any) -> {'tuple[Array, Array]' if n == 'divmod' else 'Array'}" for n in _BINARY for r in ("", "r")},
    **{f"__{n}__": "(self, other: Any) -> Array" for n in ("lt", "le", "gt", "ge", "eq", "ne")},
    **{f"__{n}__": "(self) -> Array" for n in ("neg", "pos", "abs", "invert")},
    "__getitem__": "(self, index: Any) -> Array",
    "__iter__": "(self) -> Iterator[Array]",
    "__len__": "(self) -> int",
    "__bool__": "(self) -> bool",
    "__int__": "(self) -> int",
    "__index__": "(self) -> int",
    "__float__": "(self) -> float",
    "__complex__": "(self) -> complex",
    "__array__": "(self, dtype: Any = ..., copy: bool | None = ...) -> np.ndarray",
}


def signature_of(value: Any) -> inspect.Signature:
    """ValueError for native methods: they do not say theirs, but Python guesses it, from 3.13 on."""
    if isinstance(value, types.MethodDescriptorType):
        raise ValueError(f"{value} says no signature")
    return inspect.signature(value)


def jax_names() -> dict[str, set[str]]:
    """The names of docs/jax_names.txt, by steno's modules."""
    out: dict[str, set[str]] = {}
    module = ""
    for line in (ROOT / "docs" / "jax_names.txt").read_text().splitlines():
        if line.startswith("["):
            module = "steno" + line[1:-1].removeprefix("jax")
        elif line and not line.startswith("#"):
            out.setdefault(module, set()).add(line.partition(":")[0])
    return out


JAX_NAMES: Final = jax_names()


def public(module: types.ModuleType) -> list[str]:
    """The public names of a face: JAX's, and what it has for itself that is no module."""
    if module.__name__ == "steno.typing":
        return ["Array", "ArrayLike", "DTypeLike", "ExtendedDType", "SupportsDType"]
    listed = JAX_NAMES.get(module.__name__, set())
    own = [n for n in getattr(module, "__all__", ()) if not n.startswith("_") and not isinstance(getattr(module, n), types.ModuleType)]
    return sorted({n for n in listed if hasattr(module, n) or _exists(f"{module.__name__}.{n}")} | {*own})


def faces() -> list[str]:
    """The modules that have a stub."""
    out = [f for f in FACES if _exists(f)]
    for package in BELOW:
        out += [package, *(m.name for m in pkgutil.walk_packages(importlib.import_module(package).__path__, package + "."))]
    return [f for f in out if f in FACES or f in JAX_NAMES]


def _exists(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        return False
    return True


def path_of(name: str) -> Path:
    path = SOURCE.joinpath(*name.split("."))
    return path / "__init__.pyi" if path.is_dir() else path.with_suffix(".pyi")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = 0
    for name in faces():
        text = Stub(importlib.import_module(name)).text()
        path = path_of(name)
        if check:
            if not path.exists() or path.read_text() != text:
                print(f"{path.relative_to(ROOT)} is out of date: make stubs")
                stale = 1
        else:
            path.write_text(text)
    return stale


if __name__ == "__main__":
    sys.exit(main())
