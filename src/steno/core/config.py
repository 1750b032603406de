"""Every knob: one declaration is an environment variable, a context manager and a name for `config.update`.

A knob's value is a thread-local override (inside its context manager) or else the process's value. Values are attributes of one
`threading.local` whose class holds the process's values, so that reading one is one attribute look-up. Knobs that change what a program
means form the configuration token, which is part of every cache key.
"""

from __future__ import annotations

import functools
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, final

from steno import _native
from steno.core.record import record


class _State(threading.local):
    """Class attributes: the process's values. Instance attributes: a thread's overrides."""

    enable_x64: bool
    numpy_dtype_promotion: str


def _bool(text: str) -> bool:
    low = text.strip().lower()
    if low in ("1", "true", "yes", "on", "y", "t"):
        return True
    if low in ("0", "false", "no", "off", "n", "f", ""):
        return False
    raise ValueError(f"invalid truth value {text!r}")


def _none_or(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: None if text.strip().lower() in ("", "none") else parse(text)


@final
@record(frozen=True)
class Knob:
    """One setting. Call it for a context manager: `with enable_x64(True): ...`. `traced`: part of the configuration token."""

    name: str
    default: Any
    doc: str
    parse: Callable[[str], Any]
    choices: tuple[Any, ...] | None
    traced: bool
    full_names: tuple[str, ...]
    on_change: list[Callable[[Any], None]]

    @property
    def value(self) -> Any:
        return getattr(_state, self.name)

    def __bool__(self) -> bool:
        raise TypeError(f"use steno.config.{self.full_names[0]} for the value of the knob {self.name}")

    def check(self, value: Any) -> Any:
        if self.choices is not None and value not in self.choices:
            raise ValueError(f"new value {value!r} of {self.full_names[0]} is not one of {', '.join(map(repr, self.choices))}")
        if self.parse is _bool and not isinstance(value, bool):
            if not isinstance(value, int) and value is not None:
                raise ValueError(f"new value of {self.full_names[0]} must be a bool, got {value!r} of type {type(value)}")
            return bool(value)
        return value

    def __call__(self, value: Any = True) -> _Override:
        return _Override(self, self.check(value))


@final
class _Override:
    """A context manager that sets a knob for the present thread; also a decorator. Re-entrant."""

    def __init__(self, knob: Knob, value: Any) -> None:
        self.knob, self.new, self._saved = knob, value, []

    def __enter__(self) -> None:
        self._saved.append(vars(_state).get(self.knob.name, _UNSET))
        _set_local(self.knob, self.new)

    def __exit__(self, *exc: object) -> None:
        _set_local(self.knob, self._saved.pop())

    def __call__(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with _Override(self.knob, self.new):
                return fun(*args, **kwargs)

        return functools.update_wrapper(wrapped, fun)


_UNSET: Final = object()
_state: Final = _State()
KNOBS: Final[dict[str, Knob]] = {}
_BY_NAME: Final[dict[str, Knob]] = {}
_TRACED: Final[list[str]] = []


def _set_local(knob: Knob, value: Any) -> None:
    if value is _UNSET:
        vars(_state).pop(knob.name, None)
    else:
        setattr(_state, knob.name, value)
    if knob.traced:
        _refresh_token()
    for f in knob.on_change:
        f(value)


def _token() -> tuple[Any, ...] | None:
    """The traced values that are not the defaults; None if all are."""
    changed = tuple((n, v) for n in _TRACED if (v := getattr(_state, n)) != KNOBS[n].default)
    return changed or None


def _refresh_token() -> None:
    """Native keys compare tokens by equality. A thread with overrides has its own token, others the process's."""
    local = any(n in vars(_state) for n in _TRACED)
    _native.swap_config_token(_token() if local else None)


def knob(
    name: str,
    default: Any,
    doc: str,
    *,
    env: Sequence[str] = (),
    parse: Callable[[str], Any] | None = None,
    choices: tuple[Any, ...] | None = None,
    traced: bool = False,
    prefix: str = "jax_",
) -> Knob:
    """Declares a knob. Environment: `JAX_NAME` and `STENO_NAME` (the latter wins); `prefix` makes its name for `config.update`."""
    if parse is None:
        parse = _bool if isinstance(default, bool) else int if isinstance(default, int) else str
    full = (prefix + name,) if prefix == "steno_" else (prefix + name, "steno_" + name)
    if name in KNOBS:
        raise ValueError(f"knob {name!r} is declared twice")
    k = Knob(name, default, doc, parse, choices, traced, full, [])
    KNOBS[name] = k
    for f in full:
        _BY_NAME[f] = k
    if traced:
        _TRACED.append(name)
    value = default
    for variable in (*(f.upper() for f in full), *env):
        text = os.environ.get(variable)
        if text is not None:
            try:
                value = k.check(k.parse(text))
            except ValueError as err:
                raise ValueError(f"environment variable {variable}={text!r}: {err}") from None
    setattr(_State, name, value)
    return k


@final
class Config:
    """`config.update("jax_enable_x64", True)`, `config.jax_enable_x64`, `config.values`. `config._state` is the fast way to read a
    value."""

    _state = _state

    def update(self, name: str, value: Any) -> None:
        """Sets a knob for the process. AttributeError for an unknown name, ValueError for a value it cannot have."""
        k = _BY_NAME.get(name)
        if k is None:
            raise AttributeError(f"Unrecognized config option: {name}")
        value = k.check(value)
        setattr(_State, k.name, value)
        if k.traced:
            _publish_process_token()
        for f in k.on_change:
            f(value)

    def read(self, name: str) -> Any:
        k = _BY_NAME.get(name)
        if k is None:
            raise AttributeError(f"Unrecognized config option: {name}")
        return k.value

    def parse_flags_with_absl(self) -> None:
        """Sets the knobs that the command line names, as absl writes flags: `--jax_enable_x64`, `--nojax_enable_x64`,
        `--jax_default_prng_impl=rbg`. Other arguments are left to others; `sys.argv` stays as it is. ValueError for an invalid value."""
        for argument in itertools.takewhile(lambda a: a != "--", sys.argv[1:]):
            name, equals, text = argument.lstrip("-").partition("=")
            off = name.startswith("no") and not equals
            k = _BY_NAME.get(name.removeprefix("no") if off else name)
            if k is None or not argument.startswith("-"):
                continue
            if not equals and k.parse is not _bool:
                raise ValueError(f"flag {argument} needs a value: {argument}=VALUE")
            self.update(k.full_names[0], k.parse(text) if equals else not off)

    @property
    def values(self) -> dict[str, Any]:
        return {n: k.value for n, k in _BY_NAME.items()}

    def __getattr__(self, name: str) -> Any:
        k = _BY_NAME.get(name)
        if k is None:
            raise AttributeError(f"'Config' object has no attribute {name!r}")
        return k.value

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *_BY_NAME]


def _publish_process_token() -> None:
    changed = tuple((n, v) for n in _TRACED if (v := getattr(_State, n)) != KNOBS[n].default)
    _native.swap_global_config_token(changed or None)
    _refresh_token()


config: Final = Config()

enable_x64 = knob("enable_x64", False, "64-bit types exist; else they become 32-bit ones", traced=True)
disable_jit = knob("disable_jit", False, "jit, and control flow, run op by op in Python", traced=True)
default_matmul_precision = knob(
    "default_matmul_precision", None, "precision of contractions that do not say one", parse=_none_or(str), traced=True,
    choices=(None, "default", "high", "highest", "bfloat16", "tensorfloat32", "float32", "ANY_F8_ANY_F8_F32", "F16_F16_F16", "F16_F16_F32",
             "BF16_BF16_BF16", "BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6", "BF16_BF16_F32_X9", "TF32_TF32_F32",
             "TF32_TF32_F32_X3", "F32_F32_F32", "F64_F64_F64"),
)  # fmt: skip
numpy_dtype_promotion = knob(
    "numpy_dtype_promotion", "standard", "implicit promotion of dtypes", choices=("standard", "strict"), traced=True
)
numpy_rank_promotion = knob(
    "numpy_rank_promotion", "allow", "broadcasting of operands of unequal rank", choices=("allow", "warn", "raise"), traced=True
)
debug_nans = knob("debug_nans", False, "raise FloatingPointError when an op makes a NaN", traced=True)
debug_infs = knob("debug_infs", False, "raise FloatingPointError when an op makes an infinity", traced=True)
check_static_indices = knob("check_static_indices", False, "raise IndexError for known positions out of bounds", traced=True)
enable_checks = knob("enable_checks", False, "check every jaxpr that is made")
check_tracer_leaks = knob("check_tracer_leaks", False, "raise at the end of a trace if a tracer of it is still referenced", traced=True)
log_compiles = knob("log_compiles", False, "log every trace and compilation at WARNING")
explain_cache_misses = knob("explain_cache_misses", False, "log why a jitted function was traced again, at WARNING")
threefry_partitionable = knob("threefry_partitionable", True, "random bits do not depend on how an array is cut up", traced=True)
default_prng_impl = knob(
    "default_prng_impl", "threefry2x32", "PRNG of keys that do not say one", choices=("threefry2x32", "rbg", "unsafe_rbg"), traced=True
)
legacy_prng_key = knob("legacy_prng_key", "allow", "use of raw uint32 keys", choices=("allow", "warn", "error"))
debug_key_reuse = knob("debug_key_reuse", False, "raise when a PRNG key is consumed twice", traced=True)
enable_custom_prng = knob("enable_custom_prng", False, "PRNGKey makes typed keys", traced=True)
disable_bwd_checks = knob("disable_bwd_checks", False, "no type checks of what custom derivatives return")
softmax_custom_jvp = knob("softmax_custom_jvp", True, "the derivative rule of softmax")
custom_vjp_disable_shape_check = knob("custom_vjp_disable_shape_check", False, "no shape checks of what custom derivatives return")
dynamic_shapes = knob("dynamic_shapes", False, "not available in steno", choices=(False,))
traceback_filtering = knob(
    "traceback_filtering",
    "auto",
    "accepted for compatibility",
    choices=("off", "tracebackhide", "remove_frames", "quiet_remove_frames", "auto"),
)
platforms = knob("platforms", None, "accepted for compatibility: there is one platform, cpu", parse=_none_or(str))
platform_name = knob("platform_name", "", "accepted for compatibility: there is one platform, cpu")
default_device = knob("default_device", None, "the device of new arrays: there is one", parse=_none_or(str))
transfer_guard = knob("transfer_guard", None, "accepted for compatibility", parse=_none_or(str))
enable_compilation_cache = knob("enable_compilation_cache", True, "keep compiled code on disk", env=("STENO_CACHE",))
compilation_cache_dir = knob(
    "compilation_cache_dir", None, "the folder for compiled code; None: `steno` in the user's cache folder", parse=_none_or(str),
    env=("STENO_CACHE_DIR",),
)  # fmt: skip
compilation_cache_max_size = knob(
    "compilation_cache_max_size", 1 << 28, "bytes of compiled code on disk; what was used last stays", env=("STENO_CACHE_BYTES",)
)
persistent_cache_min_compile_time_secs = knob("persistent_cache_min_compile_time_secs", 0.0, "accepted for compatibility", parse=float)
persistent_cache_min_entry_size_bytes = knob("persistent_cache_min_entry_size_bytes", 0, "accepted for compatibility")
cpu_enable_async_dispatch = knob("cpu_enable_async_dispatch", True, "run large programs behind the caller's back")
hlo_source_file_canonicalization_regex = knob(
    "hlo_source_file_canonicalization_regex", None, "accepted for compatibility", parse=_none_or(str)
)
axis_env = knob("axis_env", (), "internal: the named axes of the vmaps around the present code", traced=True)
no_tracing = knob("no_tracing", False, "raise when a function would be traced", traced=True)
array_garbage_collection_guard = knob("array_garbage_collection_guard", None, "accepted for compatibility", parse=_none_or(str))
pprint_use_color = knob("pprint_use_color", False, "accepted for compatibility: jaxprs print without colour")
remove_size_one_mesh_axis_from_type = knob("remove_size_one_mesh_axis_from_type", False, "accepted for compatibility")

backend = knob(
    "backend", "auto", "what runs programs: cpu or reference", choices=("auto", "cpu", "reference", "null"), prefix="steno_", traced=True
)
verify = knob("verify", False, "check the program after every pass of the compiler", prefix="steno_")
target_features = knob(
    "target_features", "host", "the vector instructions to use: host, avx512, avx2 or neon", prefix="steno_", traced=True
)
num_threads = knob("num_threads", 0, "threads of compiled programs; 0: all cores", prefix="steno_")


def _apply_num_threads(_: Any) -> None:
    """Native code keeps a bound for the process and one for the thread; 0: none."""
    _native.set_num_threads(vars(_State)["num_threads"])
    _native.swap_thread_limit(vars(_state).get("num_threads", 0))


num_threads.on_change.append(_apply_num_threads)


def _apply_async_dispatch(_: Any) -> None:
    _native.set_async_dispatch(vars(_State)["cpu_enable_async_dispatch"], vars(_state).get("cpu_enable_async_dispatch"))


cpu_enable_async_dispatch.on_change.append(_apply_async_dispatch)
_apply_async_dispatch(None)


def _overrides() -> dict[str, Any] | None:
    """This thread's overrides; None: there are none. Callbacks of a program that another thread runs see those of the program's caller."""
    return dict(vars(_state)) or None


def _swap_overrides(new: dict[str, Any]) -> dict[str, Any]:
    """Sets this thread's overrides; the previous ones."""
    old = dict(vars(_state))
    vars(_state).clear()
    vars(_state).update(new)
    _refresh_token()
    for name in old.keys() | new.keys():
        for f in KNOBS[name].on_change:
            f(None)
    return old


_native.set_overrides(_overrides, _swap_overrides)


@contextmanager
def checking_leaks() -> Iterator[None]:
    """Inside, a trace whose tracers outlive it raises."""
    with check_tracer_leaks(True):
        yield


_publish_process_token()


def documentation() -> str:
    """The table of all knobs, in Markdown: what `docs/configuration.md` holds."""
    rows = ["| name for `config.update` | default | choices | what it does |", "| --- | --- | --- | --- |"]
    for k in sorted(KNOBS.values(), key=lambda k: k.full_names[0]):
        if k.doc.startswith("internal"):
            continue
        choices = "" if k.choices is None else ", ".join(f"`{c}`" for c in k.choices)
        rows.append(f"| `{k.full_names[0]}` | `{k.default}` | {choices} | {k.doc}{'; part of every cache key' if k.traced else ''} |")
    return "\n".join(rows) + "\n"
