"""Object files -> executable code of this process.

No address stands in an object. What `load` returns must outlive every run of the code."""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, final

from steno import _native
from steno.compiler import lapack
from steno.compiler.target import X86_TRIPLE, Target
from steno.core.record import record

ENTRY: Final = "entry"
LIBRARY: Final = ("memcpy", "memset", "memmove", "fmod", "fmodf")  # what LLVM may call of its own accord

SYMBOLS: dict[str, int] = {}
"""Entry points of libraries that compiled code may call, by name: added here by whoever loads a library. The runtime's own need not be."""


class CompileError(RuntimeError):
    """The generated code was not accepted by LLVM, or an object could not be linked: a fault of the compiler."""


@final
@record(frozen=True)
class Linked:
    """`address` of the entry; `keepalive` holds the code in memory; `objects`: the bytes that were linked."""

    address: int
    keepalive: Any
    objects: tuple[bytes, ...]


_runtime = functools.cache(_native.symbols)


def addresses(imports: Iterable[str]) -> dict[str, int]:
    """Of the symbols `imports` and LIBRARY. CompileError for one that nobody provides."""
    known = _runtime()
    out = {}
    for name in (*LIBRARY, *imports):
        address = known.get(name) or SYMBOLS.get(name) or lapack.symbols().get(name)
        if address is None:
            raise CompileError(f"the program calls {name}, which neither the runtime nor a library provides")
        out[name] = address
    return out


def load(objects: Sequence[bytes], target: Target, imports: Iterable[str] = ()) -> Linked:
    """Loads objects that call the symbols `imports`. CompileError for a broken object or a symbol that nobody provides.

    Our own loader knows what our objects need on x86-64, in some 0.1 ms; LLVM's linker has the last word, and is loaded for that only."""
    symbols = addresses(imports)
    if target.triple == X86_TRIPLE:
        with suppress(ValueError):
            code = _native.load_code(objects, symbols, ENTRY)
            return Linked(code.address, code, tuple(objects))
    return load_by_llvm(objects, target, symbols)


_serial = itertools.count()
_lock = threading.Lock()
_linkers: dict[Target, Any] = {}


def load_by_llvm(objects: Sequence[bytes], target: Target, symbols: dict[str, int]) -> Linked:
    """The same by LLVM. CompileError for a broken object."""
    from steno.compiler.link import OPT_LEVEL, llvm_library, new_machine  # noqa: PLC0415 - LLVM is heavy

    llvm = llvm_library()
    builder = llvm.JITLibraryBuilder().export_symbol(ENTRY)
    for image in objects:
        builder.add_object_img(image)
    for name, address in symbols.items():
        builder.import_symbol(name, address)
    with _lock:
        if target not in _linkers:
            _linkers[target] = llvm.create_lljit_compiler(new_machine(target, OPT_LEVEL))  # which takes the machine over
        try:
            tracker = builder.link(_linkers[target], f"steno{next(_serial)}")
        except RuntimeError as err:
            raise CompileError(f"the object cannot be linked: {err}") from None
    return Linked(tracker[ENTRY], tracker, tuple(objects))


__all__ = ["ENTRY", "SYMBOLS", "CompileError", "Linked", "addresses", "load", "load_by_llvm"]
