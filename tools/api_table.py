"""Every public name of JAX, and what steno makes of it: writes `docs/api.md`, and prints the counts.

usage: api_table.py                   the table: the names in docs/jax_names.txt, and the package as it is
       api_table.py --check           exit status 1 if docs/api.md is out of date, or a name has neither an object nor a reason
       api_table.py --collect         prints docs/jax_names.txt; run by a Python that has the real JAX

A line of docs/jax_names.txt is a name with its kind: `function(parameters)`, `class(parameters)`, `module`, or `value`. Of a module that
is a program rather than a list of names only what it defines counts, or what its `__all__` says."""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import pkgutil
import sys
import textwrap
import types
import typing
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, final

ROOT: Final = Path(__file__).resolve().parent.parent
NAMES: Final = ROOT / "docs" / "jax_names.txt"
TABLE: Final = ROOT / "docs" / "api.md"

# Modules whose names are not the user's: scripts, bindings made by a program, tests, what another module shows.
SKIPPED: Final = (
    "jax.collect_profile", "jax.tools", "jax.version", "jax.extend.mlir.dialects", "jax.extend.mlir.ir", "jax.extend.mlir.passmanager",
    "jax.experimental.array_serialization", "jax.experimental.jax2tf",
    *(f"jax.experimental.sparse.{n}" for n in ("ad", "api", "bcoo", "bcsr", "coo", "csr", "random", "test_util", "transform", "util")),
)  # fmt: skip
# Modules that count as one name, of the module they are in.
WHOLE: Final = (
    *(f"jax.experimental.{n}" for n in ("colocated_python", "hijax", "mosaic", "roofline", "rnn", "source_mapper", "thunky")),
    *(f"jax.experimental.pallas.{n}" for n in ("fuser", "mosaic_gpu", "ops", "tpu", "tpu_sc", "triton")),
)
# Modules that are programs: what they import is no name of theirs.
PROGRAMS: Final = ("jax.example_libraries", "jax.experimental", "jax.image", "jax.scipy", "jax.extend.mlir")
# Programs of which a few functions only are for others.
ONLY: Final = {
    "jax.experimental.jet": {"jet"},
    "jax.experimental.multihost_utils": {
        "ProcessFailureError", "assert_equal", "broadcast_one_to_all", "global_array_to_host_local_array",
        "host_local_array_to_global_array", "live_devices", "process_allgather", "reached_preemption_sync_point", "sync_global_devices",
    },
    "jax.experimental.ode": {"odeint"},
}  # fmt: skip


# the names of JAX


def collect() -> str:
    """The text of docs/jax_names.txt, from the JAX that this Python has."""
    warnings.simplefilter("ignore")
    jax = importlib.import_module("jax")
    lines = [f"# The public names of JAX {jax.__version__}: `tools/api_table.py --collect`"]
    for name in _modules("jax"):
        module = importlib.import_module(name)
        names = [n for n in sorted(_public(module)) if _counts(module, n)]
        if names:
            lines += ["", f"[{name}]", *(_described(n, vars(module).get(n, getattr(module, n, None))) for n in names)]
    return "\n".join(lines) + "\n"


def _modules(name: str) -> list[str]:
    if name in SKIPPED or name in WHOLE:
        return []
    try:
        module = importlib.import_module(name)
    except Exception:  # what cannot be imported has no names
        return []
    inner = sorted(m.name for m in pkgutil.iter_modules(getattr(module, "__path__", ())))
    return [name, *(m for n in inner if not n.startswith("_") for m in _modules(f"{name}.{n}"))]


def _public(module: types.ModuleType) -> set[str]:
    listed = getattr(module, "__all__", None)
    return {n for n in (dir(module) if listed is None else listed) if not n.startswith("_")}


def _counts(module: types.ModuleType, name: str) -> bool:
    value = getattr(module, name, None)
    if "__all__" in vars(module):
        return True
    own = module.__name__
    if own in ONLY:
        return name in ONLY[own]
    program = any(own == p or own.startswith(p + ".") for p in PROGRAMS)
    if isinstance(value, types.ModuleType) and program:
        return value.__name__ == f"{own}.{name}"
    if isinstance(value, types.ModuleType):
        return value.__name__ == f"{own}.{name}" or (value.__name__.startswith("jax.") and not value.__name__.startswith("jax._src"))
    if name in ("annotations", "TYPE_CHECKING", "Any", "Callable", "Sequence") or getattr(value, "__module__", "") == "typing":
        return name in ("ArrayLike", "DTypeLike")
    if isinstance(value, typing.TypeVar):
        return False
    if program:
        defined = getattr(value, "__module__", own)
        return not isinstance(defined, str) or defined.startswith("jax") and not (_is_program(module) and defined != own)
    return True


def _is_program(module: types.ModuleType) -> bool:
    """Whether the module defines functions itself."""
    return any(inspect.isfunction(v) and v.__module__ == module.__name__ for v in vars(module).values())


def _described(name: str, value: Any) -> str:
    return f"{name}: {_kind(value)}{_parameters(value)}"


def _kind(value: Any) -> str:
    if isinstance(value, types.ModuleType):
        return "module"
    if inspect.isclass(value):
        return "class"
    return "function" if callable(value) and not isinstance(value, types.GenericAlias) else "value"


def _parameters(value: Any) -> str:
    """`(x, /, axis, *, where)`; nothing for what is no function or does not say."""
    if _kind(value) not in ("function", "class"):
        return ""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    plain = [p.replace(default=p.empty, annotation=p.empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=plain, return_annotation=signature.empty))


@final
@dataclass(frozen=True)
class Name:
    """A public name of JAX. `parameters`: `(x, /, axis)`, or empty where JAX does not say."""

    module: str
    name: str
    kind: str
    parameters: str

    @property
    def full(self) -> str:
        return f"{self.module}.{self.name}"


def read_names(text: str) -> list[Name]:
    """The names in the text of docs/jax_names.txt."""
    out, module = [], ""
    for line in text.splitlines():
        if line.startswith("["):
            module = line[1:-1]
        elif line and not line.startswith("#"):
            name, _, rest = line.partition(": ")
            kind, bracket, parameters = rest.partition("(")
            out.append(Name(module, name, kind, bracket + parameters))
    return out


# what is here


@final
@dataclass
class Entry:
    """What steno has for a name: `state` is done, differs, absent, or missing, which the tests do not allow."""

    name: Name
    state: str
    notes: list[str] = field(default_factory=list)


def entries() -> list[Entry]:
    """An entry for each name, from the package as it is."""
    absent = importlib.import_module("steno.core.absent")
    return [_entry(name, absent.REASONS, absent.DIFFERENCES) for name in read_names(NAMES.read_text())]


def _entry(name: Name, reasons: dict[str, str], differences: dict[str, str]) -> Entry:
    found, value = find(name)
    key = name.full.removeprefix("jax.")
    if not found:
        why = reasons.get(key) or _reason_of_owner(name, reasons)
        return Entry(name, "missing" if why is None else "absent", [] if why is None else [why])
    notes = []
    if _kind(value) not in KINDS[name.kind]:
        notes.append(f"a {_kind(value)}, in JAX a {name.kind}")
    if is_stub(value) and key not in differences:
        return Entry(name, "missing", ["raises NotImplementedError, whatever it is given"])
    if (said := parameter_difference(name.parameters, _parameters(value))) and name.kind == "function":
        notes.append(said)
    if key in differences:
        notes.append(differences[key])
    return Entry(name, "differs" if notes else "done", notes)


def _reason_of_owner(name: Name, reasons: dict[str, str]) -> str | None:
    """The reason why the module of a name is not there."""
    module = name.module.removeprefix("jax.")
    while module and module != "jax":
        if module in reasons:
            return reasons[module]
        module = module.rpartition(".")[0]
    return None


def find(name: Name) -> tuple[bool, Any]:
    """Whether steno has the name, and what it is there."""
    own = "steno" + name.module[3:]
    try:
        module = importlib.import_module(own)
    except ModuleNotFoundError:
        return False, None
    try:
        return True, getattr(module, name.name)
    except AttributeError:
        pass
    try:
        return True, importlib.import_module(f"{own}.{name.name}")
    except ModuleNotFoundError:
        return False, None


def is_stub(value: Any) -> bool:
    """Whether a function does nothing but raise NotImplementedError."""
    value = inspect.unwrap(value) if callable(value) else value
    if not inspect.isfunction(value):
        return False
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(value)))
    except (OSError, TypeError, SyntaxError):
        return False
    (definition, *_) = tree.body
    if not isinstance(definition, ast.FunctionDef):
        return False
    body = [s for s in definition.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    raised = body[0].exc if body and isinstance(body[0], ast.Raise) else None
    called = raised.func if isinstance(raised, ast.Call) else raised
    return isinstance(called, ast.Name) and called.id == "NotImplementedError"


def parameter_difference(wanted: str, got: str) -> str | None:
    """What a call that JAX takes would not find, in words; None if there is nothing. Parameters steno has more of do no harm."""
    if not wanted or not got:
        return None
    there, here = _split(wanted), _split(got)
    said = []
    positional = {n for n, k in here if k in "pe"}
    keyword = {n for n, k in here if k in "ek"}
    catch_all = {k for _, k in here}
    lost = [n for n, k in there if k in "ek" and n not in keyword and "d" not in catch_all and not n.startswith("_")]
    if lost:
        said.append("no parameter " + ", ".join(f"`{n}`" for n in lost))
    order = [n for n, k in there if k in "pe"]
    mine = [n for n, k in here if k in "pe"]
    if "a" not in catch_all and len(mine) < len(order):
        rest = [n for n in order[len(mine) :] if n not in lost and not n.startswith("_")]
        if rest:
            said.append("by keyword only: " + ", ".join(f"`{n}`" for n in rest))
    shared = [n for n in order if n in positional]
    if [n for n in mine if n in shared] != shared:
        said.append(f"the order of parameters is {', '.join(f'`{n}`' for n in mine)}")
    return "; ".join(said) or None


def _split(parameters: str) -> list[tuple[str, str]]:
    """(name, kind) of each: p by position only, e either, k by keyword only, a and d the rest (`*args`, `**kwargs`)."""
    a = ast.parse(f"lambda {parameters[1:-1]}: 0", mode="eval").body.args  # type: ignore[attr-defined]
    out = [(x.arg, "p") for x in a.posonlyargs] + [(x.arg, "e") for x in a.args] + [(x.arg, "k") for x in a.kwonlyargs]
    return out + ([(a.vararg.arg, "a")] if a.vararg else []) + ([(a.kwarg.arg, "d")] if a.kwarg else [])


# the table

KINDS: Final = {
    "module": ("module",),
    "class": ("class",),
    "function": ("function", "class"),
    "value": ("value", "function", "class", "module"),
}
"""What a name may be here: more than it is in JAX does no harm."""
STATES: Final = {"done": "done", "differs": "differs", "absent": "not applicable", "missing": "missing"}

HEAD: Final = """# JAX's public names, and what they are here

Made by `make api-table`; `tests/test_api_names.py` keeps it true.

* **done**: the same kind of thing, and all of JAX's parameters by their names;
* **differs**: it is here, and the table says what is not as in JAX (what may be passed by position, or is refused, included);
* **not applicable**: looking it up, or importing the module, is an error that says why.

"""


def table(found: list[Entry]) -> str:
    """The text of docs/api.md."""
    modules = list(dict.fromkeys(e.name.module for e in found))
    total = Counter(e.state for e in found)
    shown = [s for s in STATES if total[s] or s != "missing"]
    lines = [HEAD + "| module | names | " + " | ".join(STATES[s] for s in shown) + " |", "| --- |" + " ---: |" * (len(shown) + 1)]
    for module in modules:
        counts = Counter(e.state for e in found if e.name.module == module)
        lines.append(f"| `{module}` | {counts.total()} | " + " | ".join(str(counts[s]) for s in shown) + " |")
    lines.append(f"| **all** | {len(found)} | " + " | ".join(str(total[s]) for s in shown) + " |")
    for module in modules:
        own = [e for e in found if e.name.module == module]
        lines += ["", f"## `{module}`", ""]
        done = [e.name.name for e in own if e.state == "done"]
        if done:
            lines += ["done: " + ", ".join(f"`{n}`" for n in done), ""]
        differing = [e for e in own if e.state == "differs"]
        if differing:
            lines += ["| differs | how |", "| --- | --- |", *(f"| `{e.name.name}` | {'; '.join(e.notes)} |" for e in differing), ""]
        by_reason: dict[str, list[str]] = {}
        for e in own:
            if e.state in ("absent", "missing"):
                by_reason.setdefault(e.notes[0] if e.notes else "missing", []).append(e.name.name)
        if by_reason:
            lines += ["| not applicable | why |", "| --- | --- |"]
            lines += [f"| {', '.join(f'`{n}`' for n in names)} | {why} |" for why, names in by_reason.items()]
            lines.append("")
        lines.pop()
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--collect", action="store_true")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    if given.collect:
        sys.stdout.write(collect())
        return 0
    found = entries()
    text = table(found)
    counts = Counter(e.state for e in found)
    print(f"{len(found)} names: " + ", ".join(f"{counts[s]} {STATES[s]}" for s in STATES))
    missing = [e for e in found if e.state == "missing"]
    for e in missing:
        print(f"missing: {e.name.full}" + "".join(f": {n}" for n in e.notes))
    if not given.check:
        TABLE.write_text(text)
        return 0
    if TABLE.read_text() != text:
        print("docs/api.md is not up to date: make api-table")
        return 1
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
