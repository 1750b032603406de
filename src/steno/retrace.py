"""Why a jitted function was traced again: a record of each trace, compared with the trace before it that is most alike."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final, final

from steno._native import ShapedArray
from steno.core import monitoring, source
from steno.core.record import field, record
from steno.tracing import argument_names, leaf_paths, parameters
from steno.tree_util import PyTreeDef, tree_unflatten

_PAD_ADVICE_AT = 5  # shapes of one argument


@final
@record(frozen=True)
class Change:
    """One difference between two calls. `kind`: shape, dtype, weak type, rank, static, tree, arguments, config or function. `path`: the
    argument."""

    kind: str
    path: str
    old: str
    new: str

    def __str__(self) -> str:
        if self.kind == "function":
            return self.new
        if self.kind == "static":
            return f"static argument {self.path} was {self.old}, is {self.new}"
        if self.kind == "config":
            return f"configuration {self.path} was {self.old}, is {self.new}"
        if self.kind in ("tree", "arguments"):
            return f"the structure of {self.path} was {self.old}, is {self.new}"
        return f"{self.path}: {self.old} became {self.new}"


@final
@record()
class TraceRecord:
    """One trace of a function: when, how long it and the compilation took, and what differs from the most similar trace before.

    `first`: there was no trace before. `place`: of the call in the user's code."""

    function: str
    place: source.Place | None = field(repr=False)
    first: bool
    changes: tuple[Change, ...]
    in_avals: tuple[ShapedArray, ...]
    trace_seconds: float
    compile_seconds: float = 0.0
    time: float = 0.0
    key: Any = field(default=None, repr=False)

    @property
    def call(self) -> str:
        """Where the call stands in the user's code."""
        return source.summary(self.place)

    @property
    def reason(self) -> str:
        if self.first and not self.changes:
            return "first call"
        return "; ".join(map(str, self.changes)) or "the cache was cleared"

    @property
    def seconds(self) -> float:
        return self.trace_seconds + self.compile_seconds

    def __str__(self) -> str:
        return (
            f"{self.call}: {self.reason} ({_milliseconds(self.trace_seconds)} to trace, {_milliseconds(self.compile_seconds)} to compile)"
        )


@final
@record(frozen=True)
class CallKey:
    """What decides whether a call is like another: the structure of the arguments, their types, the static values, the configuration."""

    tree: PyTreeDef
    avals: tuple[ShapedArray, ...]
    statics: tuple[tuple[Any, type, Any], ...]  # (position or name, type, value)
    token: tuple[Any, ...]
    dynamic: tuple[int, ...]  # positions of the arguments that are not static


def _milliseconds(s: float) -> str:
    return f"{s * 1e3:.1f} ms"


def _typename(a: ShapedArray) -> str:
    return ("weak " if a.weak_type else "") + a.str_short()


def _aval_change(path: str, old: ShapedArray, new: ShapedArray) -> Change:
    if old.dtype == new.dtype and old.shape == new.shape:
        return Change("weak type", path, _typename(old), _typename(new))
    if old.dtype == new.dtype and old.weak_type == new.weak_type:
        kind = "shape" if old.ndim == new.ndim else "rank"
        return Change(kind, path, str(old.shape), str(new.shape))
    return Change("dtype" if old.shape == new.shape else "shape", path, _typename(old), _typename(new))


def differences(fun: Any, old: CallKey, new: CallKey) -> list[Change]:
    """What changed between two calls, argument by argument."""
    out: list[Change] = []
    if old.tree is not new.tree and old.tree != new.tree:
        out += _tree_changes(fun, old, new)
    else:
        names: Sequence[str] | None = None
        for k, (a, b) in enumerate(zip(old.avals, new.avals, strict=True)):
            if a is not b:
                names = names or argument_names(fun, new.tree, new.dynamic)
                out.append(_aval_change(names[k], a, b))
    before = {w: (t, v) for w, t, v in old.statics}
    for where, kind, value in new.statics:
        if where not in before:
            out.append(Change("static", parameter_name(fun, where), "absent", _short(value)))
        elif before[where] != (kind, value):
            out.append(Change("static", parameter_name(fun, where), _short(before[where][1]), _short(value)))
    if old.token != new.token:
        a, b = dict(_settings(old.token)), dict(_settings(new.token))
        out += [Change("config", n, repr(a.get(n, "default")), repr(b.get(n, "default"))) for n in {**a, **b} if a.get(n) != b.get(n)]
    return out


def parameter_name(fun: Any, where: int | str) -> str:
    """The name of the parameter at a position."""
    if isinstance(where, str):
        return where
    found = parameters(fun)
    return found.positional[where] if found is not None and where < len(found.positional) else f"number {where}"


def _settings(token: tuple[Any, ...]) -> list[tuple[str, Any]]:
    return [pair for part in token if part for pair in part]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _tree_changes(fun: Any, old: CallKey, new: CallKey) -> list[Change]:
    a, b = set(argument_names(fun, old.tree, old.dynamic)), set(argument_names(fun, new.tree, new.dynamic))
    gone, came = sorted(a - b), sorted(b - a)
    if gone or came:
        base = {n.split("[")[0].split(".")[0] for n in gone + came}
        path = next(iter(base)) if len(base) == 1 else "the arguments"
        return [Change("tree", path, _listed(sorted(a)) if not gone else _listed(gone), _listed(came) if came else _listed(sorted(b)))]
    by_position = [{path[1].idx for path in leaf_paths(k.tree) if path[0].idx == 0} for k in (old, new)]
    if by_position[0] != by_position[1]:
        return [Change("arguments", "the call", *(_call_shape(k) for k in (old, new)))]
    return [Change("tree", "the arguments", str(old.tree), str(new.tree))]


def _call_shape(key: CallKey) -> str:
    args, kwargs = tree_unflatten(key.tree, range(key.tree.num_leaves))
    return f"{len(args)} arguments by position" + (f" and {', '.join(kwargs)} by keyword" if kwargs else "")


def _listed(names: Sequence[str]) -> str:
    return "{" + ", ".join(names[:6]) + (", ..." if len(names) > 6 else "") + "}"


def explain(fun: Any, key: CallKey, before: Sequence[TraceRecord], same_code: int) -> tuple[Change, ...]:
    """Why a call with `key` was traced, given the records of traces before. `same_code`: function objects of the same code traced
    before."""
    candidates = [differences(fun, r.key, key) for r in reversed(before[-16:])]
    if candidates:
        return tuple(min(candidates, key=lambda changes: sum(3 if c.kind in ("tree", "arguments") else 1 for c in changes)))
    if same_code:
        text = (
            f"the function object is new: {source.function_info(fun)} is defined again for each call (seen {same_code} times before); "
            "define it once, outside of the loop or function that calls it"
        )
        return (Change("function", "", "", text),)
    return ()


def advice(fun: Any, records: Sequence[TraceRecord]) -> list[str]:
    """What to do about the retraces: pad varying shapes, convert weak types, keep function objects."""
    out: list[str] = []
    shapes: dict[str, set[str]] = {}
    statics: dict[str, int] = {}
    for r in records:
        for c in r.changes:
            if c.kind == "shape":
                shapes.setdefault(c.path, set()).update((c.old, c.new))
            elif c.kind == "static":
                statics[c.path] = statics.get(c.path, 0) + 1
    for path, seen in shapes.items():
        if len(seen) >= _PAD_ADVICE_AT:
            out.append(
                f"{path} came in {len(seen)} shapes, and each was traced and compiled: pad it to a few fixed sizes (the next power of two, "
                "say) and mask what was added"
            )
    for path, n in statics.items():
        if n >= _PAD_ADVICE_AT:
            out.append(
                f"the static argument {path} changed {n} times: if the program does not depend on it in Python, make it an array argument"
            )
    if any(c.kind == "weak type" for r in records for c in r.changes):
        out.append("a Python number has a weak type, an array has not: pass jnp.asarray(x, dtype), or a number, always the same way")
    return out


def explain_text(fun: Any, records: Sequence[TraceRecord]) -> str:
    """All traces of a function with their reasons, the seconds they cost, and advice."""
    name = source.function_info(fun)
    if not records:
        return f"{name} has not been traced yet"
    total = sum(r.seconds for r in records)
    lines = [f"{name} was traced {_times(len(records))} ({_milliseconds(total)} in all):"]
    lines += [f"  {k + 1}. {r}" for k, r in enumerate(records)]
    lines += [f"advice: {a}" for a in advice(fun, records)]
    return "\n".join(lines)


def _times(n: int) -> str:
    return {1: "once", 2: "twice"}.get(n, f"{n} times")


def _headline(record: TraceRecord) -> str:
    """What kind of thing differs, in the words that people search for."""
    kinds = {c.kind for c in record.changes}
    if not kinds:
        return "never seen function: " if record.first else ""
    if "function" in kinds:
        return "another function defined on the same line: "
    found = [text for text, those in _HEADLINES.items() if kinds & those]
    return f"{', '.join(found)}: " if found else ""


_HEADLINES: Final = {
    "different input pytree": {"tree", "arguments"},
    "different input types": {"shape", "dtype", "weak type", "rank"},
    "different static arguments": {"static"},
    "different tracing context": {"config"},
}


def log(fun: Any, record: TraceRecord, records: Sequence[TraceRecord]) -> None:
    """Logs a trace and its reason at WARNING."""
    reason = _headline(record) + record.reason
    monitoring.log(monitoring.WARNING, "TRACING CACHE MISS at %s\n  %s: %s", record.call, record.function, reason)
    for a in advice(fun, records):
        monitoring.log(monitoring.WARNING, "advice: %s", a)


def now() -> float:
    return time.perf_counter()
