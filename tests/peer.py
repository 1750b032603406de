"""The real JAX as a peer: calls are described as data, run here on steno and in a server process on JAX, and compared.

    calls = [Call("jax.numpy.sum", Arr(x), axis=0), Expr("x.at[i].add(1)", x=Arr(x), i=3), Call("jax.numpy.add", 1, 2, x64=True)]
    for call, want, got in zip(calls, peer().batch(calls), run_here(calls)): assert_same(call, got, want)

A call's arguments are NumPy arrays and scalars, Python values, containers of these, and markers: `Arr` (an array of the library, weak
or not), `Key` (a typed PRNG key array), `Ref` (something found by its path), nested `Call` and `Expr`. `Expr` is Python source over the
names `jax jnp lax np live` and its own variables. Paths start with `jax`; here they are looked up in steno.

The server is the interpreter named by STENO_JAX_PYTHON (default `.venv-jax/bin/python` in the project's root). Where it does not exist,
tests skip, unless STENO_REQUIRE_JAX is set: `pytestmark = pytest.mark.skipif(peer() is None, reason=NO_JAX)`. Answers are kept in
`build/peer-cache` by the content of the call and JAX's version, since JAX takes some 30 ms to compile each call.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import importlib
import os
import pickle
import struct
import subprocess
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
BATCH = 64
FORMAT = 1  # of calls and answers: another number makes cached answers void
NO_JAX = "no interpreter with JAX (STENO_JAX_PYTHON)"


# what a call is made of


class Call:
    """`path(*args, **kwargs)`; `x64` says in which mode the outermost call runs (no argument of a function is called x64)."""

    __slots__ = ("args", "kwargs", "path", "x64")

    def __init__(self, path: str, *args: Any, x64: bool = False, **kwargs: Any) -> None:
        self.path, self.args, self.kwargs, self.x64 = path, args, kwargs, x64

    def __repr__(self) -> str:
        arguments = [repr(a) for a in self.args] + [f"{k}={v!r}" for k, v in self.kwargs.items()]
        return f"{self.path}({', '.join(arguments)})" + (" [x64]" if self.x64 else "")


class Expr:
    """The Python expression `source` over `jax jnp lax np` and `variables`."""

    __slots__ = ("source", "variables", "x64")

    def __init__(self, source: str, x64: bool = False, **variables: Any) -> None:
        self.source, self.variables, self.x64 = source, variables, x64

    def __repr__(self) -> str:
        return f"{self.source} where {self.variables}" + (" [x64]" if self.x64 else "")


@dataclass(frozen=True)
class Arr:
    """An array of the library, made of a NumPy value."""

    value: Any
    weak: bool = False

    def __repr__(self) -> str:
        v = np.asarray(self.value)
        text = np.array2string(v, separator=",", threshold=12).replace("\n", "") if v.size <= 12 else "..."
        return f"Arr({v.dtype}{list(v.shape)}{' weak' if self.weak else ''} {text})"


@dataclass(frozen=True)
class Key:
    """A typed PRNG key array of the uint32 words `data` (trailing axis 2)."""

    data: Any


@dataclass(frozen=True)
class Ref:
    """What is found at `path`: a function, a class, an enumeration's member."""

    path: str


# what comes back


@dataclass(frozen=True)
class Leaf:
    """`kind`: array, key, numpy, python, dtype, object. `value`: an ndarray, or a Python value, or a repr."""

    kind: str
    value: Any
    dtype: str = ""
    weak: bool = False
    shape: tuple[int, ...] = ()

    def __repr__(self) -> str:
        if self.kind in ("python", "dtype", "object"):
            return f"{self.kind} {self.value!r}"
        text = np.array2string(self.value, threshold=20).replace("\n", "")
        return f"{self.kind} {self.dtype}{list(self.shape)}{' weak' if self.weak else ''} {text}"


@dataclass(frozen=True)
class Failure:
    """An exception: its class, the names of its bases, its message, the end of the traceback."""

    name: str
    bases: tuple[str, ...]
    message: str
    trace: str = ""

    def __repr__(self) -> str:
        return f"{self.name}: {self.message}\n{self.trace}"


Outcome = Any  # Leaf, Failure, or a ("tuple" | "list", [outcomes]) or ("dict", {key: outcome}) pair


# running calls: the same code on both sides


def live(program: Any, used: Sequence[bool] | None = None) -> int:
    """The number of equations of a closed jaxpr that its results (those marked `used`) need; of a call, those inside."""
    jaxpr = program.jaxpr
    needed = {id(v) for v, u in zip(jaxpr.outvars, used or [True] * len(jaxpr.outvars), strict=True) if u}
    count = 0
    for e in reversed(jaxpr.eqns):
        wanted = [id(v) in needed for v in e.outvars]
        if any(wanted) or e.effects:
            needed.update(map(id, e.invars))
            count += live(e.params["jaxpr"], wanted) if e.primitive.name in ("jit", "pjit") else 1
    return count


class Library:
    """The functions of `root` ("jax" or "steno") by paths that start with `jax`."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.module = importlib.import_module(root)
        self.namespace = {
            "jax": self.module,
            "jnp": importlib.import_module(root + ".numpy"),
            "lax": importlib.import_module(root + ".lax"),
            "np": np,
            "live": live,
        }

    def find(self, path: str) -> Any:
        first, *names = path.split(".")
        if first != "jax":
            raise ValueError(f"paths start with 'jax', not {path!r}")
        found = self.module
        for k, name in enumerate(names):
            try:
                found = getattr(found, name)
            except AttributeError:
                try:
                    found = importlib.import_module(".".join([self.root, *names[: k + 1]]))
                except ImportError:
                    raise AttributeError(f"{self.root} has no {'.'.join(names)}") from None
        return found

    def value(self, x: Any) -> Any:
        if isinstance(x, Arr):
            return self.array(x)
        if isinstance(x, Key):
            return self.find("jax.random.wrap_key_data")(self.array(Arr(x.data)))
        if isinstance(x, Ref):
            return self.find(x.path)
        if isinstance(x, Call):
            return self.find(x.path)(*map(self.value, x.args), **{k: self.value(v) for k, v in x.kwargs.items()})
        if isinstance(x, Expr):
            return eval(x.source, {**self.namespace, **{k: self.value(v) for k, v in x.variables.items()}})
        if type(x) is dict:
            return {k: self.value(v) for k, v in x.items()}
        if type(x) in (list, tuple):
            return type(x)(map(self.value, x))
        return x

    def array(self, x: Arr) -> Any:
        value = self.namespace["jnp"].asarray(np.asarray(x.value))
        if not x.weak:
            return value
        if self.root == "jax":
            convert = importlib.import_module("jax._src.lax.lax")._convert_element_type
            return convert(value, value.dtype, weak_type=True)
        return value.with_aval(value.aval.update(weak_type=True))

    def describe(self, x: Any) -> Outcome:
        if isinstance(x, self.module.Array):
            if self.module.dtypes.issubdtype(x.dtype, self.module.dtypes.prng_key):
                data = np.asarray(self.module.random.key_data(x))
                return Leaf("key", data, str(x.dtype), False, tuple(x.shape))
            return Leaf("array", np.asarray(x), x.dtype.name, bool(x.aval.weak_type), tuple(x.shape))
        if isinstance(x, (np.ndarray, np.generic)) and x.dtype != object:
            return Leaf("numpy", np.asarray(x), x.dtype.name, False, x.shape)
        if isinstance(x, dict):
            return ("dict", {str(k): self.describe(v) for k, v in x.items()})
        if isinstance(x, (list, tuple)):
            return ("tuple" if isinstance(x, tuple) else "list", [self.describe(v) for v in x])
        if x is None or isinstance(x, (bool, int, float, complex, str, bytes, slice)):
            return Leaf("python", x)
        if isinstance(x, np.dtype):
            return Leaf("dtype", x.name)
        return Leaf("object", repr(x).replace(self.root, "jax"))

    def run(self, call: Call | Expr) -> Outcome:
        with contextlib.ExitStack() as stack:
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
            stack.enter_context(self.module.enable_x64(call.x64))
            try:
                return self.describe(self.value(call))
            except Exception as e:  # every exception is an answer
                return failure(e)


def failure(e: Exception) -> Failure:
    frames, tb = [], e.__traceback__
    while tb is not None:
        frames.append(f"  {tb.tb_frame.f_code.co_filename}:{tb.tb_lineno} {tb.tb_frame.f_code.co_name}")
        tb = tb.tb_next
    return Failure(type(e).__name__, tuple(c.__name__ for c in type(e).__mro__), str(e), "\n".join(frames[-6:]))


def run_here(calls: Iterable[Call | Expr]) -> list[Outcome]:
    """The calls, on steno."""
    here = Library("steno")
    return [here.run(c) for c in calls]


# the server


def serve() -> None:
    """Answers batches read from standard input until it ends. What JAX or a callback prints goes to standard error."""
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    library = Library("jax")
    while (size := source.read(8)) and len(size) == 8:
        calls = pickle.loads(source.read(struct.unpack("<q", size)[0]))
        answer = pickle.dumps([library.run(c) for c in calls])
        sink.write(struct.pack("<q", len(answer)) + answer)
        sink.flush()


class Peer:
    """The server process, started on the first call that the cache does not know."""

    def __init__(self, interpreter: Path) -> None:
        self.interpreter = interpreter
        packages = sorted(p.name for p in interpreter.parent.parent.glob("lib/python*/site-packages/jax*.dist-info"))
        self._salt = repr((packages, FORMAT)).encode()
        self._cache_path = ROOT / "build" / "peer-cache"
        self._process: subprocess.Popen[bytes] | None = None

    def batch(self, calls: Sequence[Call | Expr]) -> list[Outcome]:
        """The outcome of each call on JAX."""
        self._cache_path.mkdir(parents=True, exist_ok=True)
        paths = [self._cache_path / hashlib.sha256(self._salt + pickle.dumps(_canonical(c))).hexdigest() for c in calls]
        answers: dict[int, Outcome] = {}
        for k, path in enumerate(paths):
            with contextlib.suppress(OSError, EOFError, pickle.UnpicklingError):
                answers[k] = pickle.loads(path.read_bytes())
        missing = [k for k in range(len(calls)) if k not in answers]
        for start in range(0, len(missing), BATCH):
            chunk = missing[start : start + BATCH]
            for k, answer in zip(chunk, self._ask([calls[k] for k in chunk]), strict=True):
                answers[k] = answer
                temporary = paths[k].with_suffix(f".{os.getpid()}")
                temporary.write_bytes(pickle.dumps(answer))
                temporary.replace(paths[k])
        return [answers[k] for k in range(len(calls))]

    def call(self, call: Call | Expr) -> Outcome:
        return self.batch([call])[0]

    def _ask(self, calls: list[Call | Expr]) -> list[Outcome]:
        if self._process is None:
            environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "JAX_ENABLE_X64")}
            command = "import sys; sys.path.insert(0, sys.argv[1]); import peer; peer.serve()"
            self._process = subprocess.Popen(
                [str(self.interpreter), "-c", command, str(Path(__file__).parent)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**environment, "JAX_PLATFORMS": "cpu"},
            )
            atexit.register(self.close)
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        question = pickle.dumps(calls)
        stdin.write(struct.pack("<q", len(question)) + question)
        stdin.flush()
        size = stdout.read(8)
        if len(size) < 8:
            self.close()
            raise RuntimeError("the JAX server ended; its last words are on standard error")
        return pickle.loads(stdout.read(struct.unpack("<q", size)[0]))

    def close(self) -> None:
        if self._process is not None:
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
            self._process.wait()
            self._process = None


def _canonical(x: Any) -> Any:
    """A form whose pickle depends on the values alone (not on sharing, memory order or identity)."""
    if isinstance(x, (Call, Expr)):
        fields = (x.path, x.args, x.kwargs, x.x64) if isinstance(x, Call) else (x.source, x.variables, x.x64)
        return (type(x).__name__, *map(_canonical, fields))
    if isinstance(x, (Arr, Key, Ref)):
        return (type(x).__name__, *(_canonical(getattr(x, f)) for f in x.__dataclass_fields__))
    if isinstance(x, (np.ndarray, np.generic)):
        a = np.asarray(x)
        return ("numpy", isinstance(x, np.generic), a.dtype.name, repr(a.shape), a.tobytes() if a.dtype != object else repr(a))
    if isinstance(x, dict):
        return ("dict", tuple((repr(k), _canonical(v)) for k, v in x.items()))
    if isinstance(x, (list, tuple)):
        return (type(x).__name__, *map(_canonical, x))
    return (type(x).__name__, repr(x))


def interpreter() -> Path | None:
    """The interpreter that has JAX, or None."""
    path = Path(os.environ.get("STENO_JAX_PYTHON") or ROOT / ".venv-jax" / "bin" / "python")
    if path.exists():
        return path
    if os.environ.get("STENO_REQUIRE_JAX"):
        raise RuntimeError(f"STENO_REQUIRE_JAX is set, but there is no interpreter at {path} (STENO_JAX_PYTHON)")
    return None


_PEERS: dict[Path, Peer] = {}


def peer() -> Peer | None:
    """The one server of this process; None where there is no JAX."""
    path = interpreter()
    if path is None:
        return None
    return _PEERS.setdefault(path, Peer(path))


# comparing


def differences(got: Outcome, want: Outcome, *, rtol: float = 0.0, atol: float = 0.0, weak: bool = True, where: str = "") -> list[str]:
    """What is not equal, in words; empty if all is. Floats may differ by rtol * |want| + atol; NaNs are equal, -0.0 is 0.0.
    A failure must be of JAX's class or of a subclass of it."""
    if isinstance(want, Failure) or isinstance(got, Failure):
        if isinstance(want, Failure) and isinstance(got, Failure):
            return [] if want.name in got.bases else [f"{where}raised {got!r}\n  JAX raised {want.name}: {want.message[:300]}"]
        return [f"{where}gave {got!r}\n  JAX {'raised' if isinstance(want, Failure) else 'gave'} {want!r}"]
    if isinstance(want, tuple) or isinstance(got, tuple):
        if not (isinstance(want, tuple) and isinstance(got, tuple)) or want[0] != got[0] or len(want[1]) != len(got[1]):
            return [f"{where}structure: {got!r} != {want!r}"]
        keys = list(want[1]) if want[0] == "dict" else range(len(want[1]))
        if want[0] == "dict" and set(want[1]) != set(got[1]):
            return [f"{where}keys: {sorted(got[1])} != {sorted(want[1])}"]
        options = {"rtol": rtol, "atol": atol, "weak": weak}
        return [d for k in keys for d in differences(got[1][k], want[1][k], where=f"{where}[{k}] ", **options)]
    out = []
    for name in ("kind", "dtype", "shape") + (("weak",) if weak else ()):
        if getattr(got, name) != getattr(want, name):
            out.append(f"{where}{name}: {getattr(got, name)} != {getattr(want, name)}")
    if not out and not _equal(got.value, want.value, rtol, atol):
        out.append(f"{where}value: {got!r} != {want!r}")
    return out


def assert_same(call: Call | Expr, got: Outcome, want: Outcome, **options: Any) -> None:
    found = differences(got, want, **options)
    assert not found, f"{call}\n  " + "\n  ".join(found)


def _equal(got: Any, want: Any, rtol: float, atol: float) -> bool:
    if not isinstance(want, np.ndarray):
        same = type(got) is type(want) and (got == want or (got != got and want != want))
        return same or (isinstance(want, float) and isinstance(got, float) and abs(got - want) <= rtol * abs(want) + atol)
    if want.dtype.names:  # float0 holds nothing
        return True
    if want.dtype.kind in "biuS":
        return bool(np.array_equal(got, want))
    if want.dtype.kind != "c":
        if want.dtype.kind == "V" and want.dtype.name.startswith(("int", "uint")):
            return bool(np.array_equal(got.astype(np.int64), want.astype(np.int64)))
        got, want = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(all="ignore"):
        if want.dtype.kind == "c":  # parts apart: an infinite or NaN part must not hide the other
            return _equal(got.real, want.real, rtol, atol) and _equal(got.imag, want.imag, rtol, atol)
        close = np.abs(got - want) <= rtol * np.abs(want) + atol
        return bool(np.all(close | (got == want) | (np.isnan(got) & np.isnan(want))))


def compare_all(calls: Sequence[Call | Expr], *, rtol: float = 2e-5, atol: float = 1e-6, weak: bool = True) -> None:
    """Runs the calls on both sides; AssertionError that lists every difference. The tolerances are for floats only."""
    server = peer()
    assert server is not None, NO_JAX
    found = []
    for call, want, got in zip(calls, server.batch(calls), run_here(calls), strict=True):
        if d := differences(got, want, rtol=rtol, atol=atol, weak=weak):
            found.append(f"{call}\n    " + "\n    ".join(d))
    assert not found, f"{len(found)} of {len(calls)} calls differ:\n" + "\n".join(found)
