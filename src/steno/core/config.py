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

    def __call__(self, new_val: Any = True) -> _Override:
        return _Override(self, self.check(new_val))

    def get_global(self) -> Any:
        """The process's value, whatever this thread has set for itself."""
        return getattr(_State, self.name)

    def set_global(self, value: Any) -> None:
        """Sets the process's value. ValueError for one it cannot have."""
        value = self.check(value)
        setattr(_State, self.name, value)
        if self.traced:
            _publish_process_token()
        for f in self.on_change:
            f(value)

    def get_local(self) -> Any:
        """What this thread has set for itself, or None."""
        return vars(_state).get(self.name)

    def set_local(self, value: Any) -> None:
        """Sets the value for this thread. ValueError for one it cannot have."""
        _set_local(self, self.check(value))


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


def settings() -> tuple[tuple[str, Any], ...] | None:
    """All that a program may depend on besides its function and arguments, under the present configuration; None: the defaults."""
    if _native.global_config_token() is None and _native.config_token() is None:
        return None
    return tuple((n, getattr(_state, n)) for n in _TRACED)


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
    vars(k)["__doc__"] = f"{doc[0].upper()}{doc[1:]}. `with {name}(value): ...` sets it for the present thread."
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
        k = _knob_named(name)
        if k is None:
            raise AttributeError(f"Unrecognized config option: {name}")
        k.set_global(value)

    def read(self, name: str) -> Any:
        k = _knob_named(name)
        if k is None:
            raise AttributeError(f"Unrecognized config option: {name}")
        return k.value

    _read = read  # what libraries call

    @property
    def x64_enabled(self) -> bool:
        return _state.enable_x64

    def parse_flags_with_absl(self) -> None:
        """Sets the knobs that the command line names, as absl writes flags: `--jax_enable_x64`, `--nojax_enable_x64`,
        `--jax_default_prng_impl=rbg`. Other arguments are left to others; `sys.argv` stays as it is. ValueError for an invalid value."""
        for argument in itertools.takewhile(lambda a: a != "--", sys.argv[1:]):
            name, equals, text = argument.lstrip("-").partition("=")
            off = name.startswith("no") and not equals
            k = _knob_named(name.removeprefix("no") if off else name)
            if k is None or not argument.startswith("-"):
                continue
            if not equals and k.parse is not _bool:
                raise ValueError(f"flag {argument} needs a value: {argument}=VALUE")
            self.update(k.full_names[0], k.parse(text) if equals else not off)

    @property
    def values(self) -> dict[str, Any]:
        _declare_compatible()
        return {n: k.value for n, k in _BY_NAME.items()}

    def __getattr__(self, name: str) -> Any:
        k = _knob_named(name)
        if k is None:
            raise AttributeError(f"'Config' object has no attribute {name!r}")
        return k.value

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *_BY_NAME, *(f"jax_{n}" for n in _COMPATIBLE)]


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
random_seed_offset = knob("random_seed_offset", 0, "added to the seeds of all keys", traced=True)
_GENERATORS = ("threefry2x32", "threefry4x32", "philox2x32", "philox4x32", "rbg", "unsafe_rbg")
default_prng_impl = knob("default_prng_impl", "threefry2x32", "PRNG of keys that do not say one", choices=_GENERATORS, traced=True)
legacy_prng_key = knob("legacy_prng_key", "allow", "use of raw uint32 keys", choices=("allow", "warn", "error"))
debug_key_reuse = knob("debug_key_reuse", False, "raise when a PRNG key is consumed twice", traced=True)
enable_custom_prng = knob("enable_custom_prng", False, "PRNGKey makes typed keys", traced=True)
disable_bwd_checks = knob("disable_bwd_checks", False, "no type checks of what custom derivatives return")
softmax_custom_jvp = knob("softmax_custom_jvp", False, "the derivative of softmax is computed from its result alone", traced=True)
custom_vjp_disable_shape_check = knob("custom_vjp_disable_shape_check", False, "no shape checks of what custom derivatives return")
dynamic_shapes = knob("dynamic_shapes", False, "not available in steno", choices=(False,))
traceback_filtering = knob(
    "traceback_filtering",
    "auto",
    "frames of steno in the tracebacks of what users' functions raise: off shows them, quiet_remove_frames leaves them out, "
    "remove_frames also makes the whole traceback the cause, tracebackhide marks them for IPython; auto: the latter there, "
    "quiet_remove_frames elsewhere",
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
explicit_x64_dtypes = knob(
    "explicit_x64_dtypes", "warn", "a 64-bit dtype asked for by name while x64 is off: 32 bits with a warning, an error, or 64 bits",
    choices=("warn", "error", "allow"), traced=True,
)  # fmt: skip
allow_f16_reductions = knob("allow_f16_reductions", True, "if not, a sum of 16-bit floats raises ValueError", traced=True)
num_cpu_devices = knob("num_cpu_devices", -1, "how many devices there are, by name: all of them are this CPU", parse=int)
no_execution = knob("no_execution", False, "raise RuntimeError when a program would run", traced=True)
no_tracing = knob("no_tracing", False, "raise when a function would be traced")
array_garbage_collection_guard = knob("array_garbage_collection_guard", None, "accepted for compatibility", parse=_none_or(str))
pprint_use_color = knob("pprint_use_color", False, "accepted for compatibility: jaxprs print without colour")
remove_size_one_mesh_axis_from_type = knob("remove_size_one_mesh_axis_from_type", False, "accepted for compatibility")

backend = knob(
    "backend", "auto", "what runs programs: cpu or reference", choices=("auto", "cpu", "reference", "null"), prefix="steno_", traced=True
)
verify = knob("verify", False, "check the program after every pass of the compiler", prefix="steno_")
debug_buffers = knob(
    "debug_buffers", False, "check the buffer plan of every program, and fill memory that holds nothing with NaN (0xA5 if not of floats)",
    prefix="steno_", traced=True,
)  # fmt: skip
perf_map = knob("perf_map", False, "name the code of compiled programs in /tmp/perf-PID.map, for perf", prefix="steno_")
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


def _apply_debug_buffers(_: Any) -> None:
    _native.poison_freed_memory(debug_buffers.value)


cpu_enable_async_dispatch.on_change.append(_apply_async_dispatch)
_apply_async_dispatch(None)
debug_buffers.on_change.append(_apply_debug_buffers)
_apply_debug_buffers(None)


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


# What JAX has for other devices, for XLA, or for ways of its own through a program: nothing here depends on it. Each becomes a knob when it
# is first asked for, so that importing costs nothing.
_COMPATIBLE: Final[dict[str, Any]] = {
    "accurate_erf_inv": False, "auto_pcast": True, "backend_target": "", "bcoo_cusparse_lowering": False,
    "captured_constants_report_frames": 0, "captured_constants_warn_bytes": 2_000_000_000, "check_proxy_envs": True,
    "compilation_cache_check_contents": False, "compilation_cache_expect_pgle": False, "compilation_cache_include_metadata_in_key": False,
    "compiler_detailed_logging_min_ops": 10, "compiler_enable_remat_pass": True, "cpu_collectives_implementation": "gloo",
    "cpu_get_global_topology_timeout_minutes": 5, "cpu_get_local_topology_timeout_minutes": 2, "cross_host_transfer_socket_address": "",
    "cross_host_transfer_timeout_seconds": None, "cross_host_transfer_transfer_size": None, "cross_host_transport_addresses": "",
    "cuda_visible_devices": "all", "custom_jvp3": False, "custom_vjp3": False, "debug_leaked_clients_on_clear_backends": False,
    "debug_log_modules": "", "disable_most_optimizations": False, "disable_vmap_shmap_error": False,
    "disallow_mesh_context_manager": False, "distributed_debug": False, "distributed_verify_secure_credentials": False,
    "dump_ir_modes": "stablehlo", "dump_ir_to": "", "embedded_constants_max_bytes": 32, "enable_pgle": False,
    "enable_preemption_service": True, "enable_recoverability": False, "error_checking_behavior_divide": "ignore",
    "error_checking_behavior_nan": "ignore", "error_checking_behavior_oob": "ignore", "experimental_unsafe_xla_runtime_errors": False,
    "export_calling_convention_version": 10, "export_deserialize_expired_versions": False, "export_ignore_forward_compatibility": False,
    "force_dcn_cross_host_transfers": False, "high_dynamic_range_gumbel": False, "include_debug_info_in_dumps": True,
    "include_full_tracebacks_in_locations": True, "log_checkpoint_residuals": False, "logging_level": "NOTSET",
    "memory_fitting_level": "O2", "mock_gpu_topology": "", "mosaic_allow_hlo": False, "mosaic_unzip_debug_locations": True,
    "mtls_ca_file": None, "mtls_cert_file": None, "mtls_key_file": None, "mtls_peer_uri_prefix": None, "mutable_array_checks": True,
    "no_collectives": None,
    "oneapi_visible_devices": "all", "optimization_level": "UNKNOWN", "pallas_auto_assign_collective_ids": "no",
    "pallas_auto_assign_collective_ids_limit": 25, "pallas_enable_debug_checks": False, "pallas_poison_buffers": False,
    "pallas_verbose_errors": False, "persistent_cache_enable_xla_caches": "xla_gpu_per_fusion_autotune_cache_dir",
    "pgle_aggregation_percentile": 90, "pgle_profiling_runs": 3, "pjrt_client_create_options": None,
    "ragged_dot_use_ragged_dot_instruction": True, "raise_on_ppermute_sort_diff": True, "raise_persistent_cache_errors": False,
    "remat3": False, "remat_barrier_no_cotangents": False, "remove_custom_partitioning_ptr_from_cache_key": False,
    "rocm_visible_devices": "all", "scan3": False, "send_traceback_to_runtime": "off", "serialization_version": 0,
    "share_binary_between_hosts": False, "share_binary_between_hosts_timeout_ms": 1_200_000, "sort_devices_by_process_index": True,
    "source_url_schema": None, "threefry_gpu_kernel_lowering": False, "traceback_in_locations_limit": 100,
    "tracer_error_num_traceback_frames": 5, "transfer_guard_device_to_device": None, "transfer_guard_device_to_host": None,
    "transfer_guard_host_to_device": None, "thread_guard": False, "use_cpp_shard_args": False, "use_direct_linearize": True,
    "use_emit_pipeline_primitive": False, "use_hlo_logistic_lowering": None, "use_magma": "auto", "use_rgv3": True,
    "use_shardy_partitioner": True, "use_simplified_jaxpr_constants": False, "xla_backend": "", "xla_profile_version": 0,
}  # fmt: skip
_lock = threading.Lock()


def _knob_named(full_name: str) -> Knob | None:
    found = _BY_NAME.get(full_name)
    if found is None and (name := full_name.removeprefix("jax_")) in _COMPATIBLE and name != full_name:
        with _lock:
            found = _BY_NAME.get(full_name)
            if found is None:
                default = _COMPATIBLE[name]
                found = knob(name, default, "accepted for compatibility", parse=_none_or(str) if default is None else None)
    return found


def _declare_compatible() -> None:
    for name in _COMPATIBLE:
        _knob_named(f"jax_{name}")


_user_contexts = itertools.count()


def make_user_context(default_value: Any = None) -> Knob:
    """A setting of the caller's own, hashable: `with my_context(value): ...`. It is part of the key of every program, so that functions are
    traced again for each value; `my_context.value` is what it is now."""
    hash(default_value)
    return knob(f"user_context_{next(_user_contexts)}", default_value, "internal: of a program's own", parse=str, traced=True)


def __getattr__(name: str) -> Knob:
    """The knobs for compatibility, by their names: `config.thread_guard`."""
    found = None if name.startswith("_") else _knob_named(f"jax_{name}")
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found


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
        if k.doc.startswith("internal") or k.name in _COMPATIBLE:
            continue
        choices = "" if k.choices is None else ", ".join(f"`{c}`" for c in k.choices)
        rows.append(f"| `{k.full_names[0]}` | `{k.default}` | {choices} | {k.doc}{'; part of every cache key' if k.traced else ''} |")
    rows += ["", "Accepted for compatibility, without effect: " + ", ".join(f"`jax_{n}`" for n in sorted(_COMPATIBLE)) + "."]
    return "\n".join(rows) + "\n"
