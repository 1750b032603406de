"""LLVM IR text -> object file -> executable code, by llvmlite.

The way is the same whether an object comes from the compiler or from a cache: `compile_object` gives its bytes, `load` loads them. No
address stands in an object. What `load` returns must outlive every run of the code.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, final

from steno import _native
from steno.compiler.emit import ENTRY, Module, emit
from steno.compiler.target import Target, host_target
from steno.ir.loops import Program

OPT_LEVEL = 2

# What LLVM may call of its own accord: copies, and the float remainder, which no instruction gives.
LIBRARY = {
    None: ("memcpy", "memset", "memmove"),
    "libm.so.6": ("fmod", "fmodf"),
}


class CompileError(RuntimeError):
    """The generated code was not accepted by LLVM, or an object could not be linked: a fault of the compiler."""


@final
@dataclass(frozen=True)
class Linked:
    """`address` of the entry; `keepalive` holds the code in memory; `object` the bytes that were linked."""

    address: int
    keepalive: Any
    object: bytes


_serial = itertools.count()
_lock = threading.Lock()  # of the lazily made LLVM objects below; llvmlite serialises its own calls


@functools.cache
def _llvm() -> Any:
    import llvmlite.binding as llvm  # noqa: PLC0415 - heavy, on first need

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm


def _new_machine(target: Target, opt: int) -> Any:
    llvm = _llvm()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu="", features=target.features, opt=opt, reloc="pic", codemodel="small"
    )


_machine = functools.cache(_new_machine)


@functools.cache
def _jit(target: Target) -> Any:
    return _llvm().create_lljit_compiler(_new_machine(target, OPT_LEVEL))  # which takes the machine over


@functools.cache
def _library_symbols() -> dict[str, int]:
    out = {}
    for library, names in LIBRARY.items():
        handle = ctypes.CDLL(library)
        for n in names:
            address = ctypes.cast(getattr(handle, n), ctypes.c_void_p).value
            assert address is not None
            out[n] = address
    return out


def _parse(text: str) -> Any:
    llvm = _llvm()
    try:
        # A context of its own: types and constants go with the module.
        module = llvm.parse_assembly(text, llvm.create_context())
    except RuntimeError as err:
        raise CompileError(f"LLVM does not accept the generated code: {_with_line(str(err), text)}") from None
    return module


def _with_line(message: str, text: str) -> str:
    """LLVM's message and, if it names a line, the lines around it."""
    for part in message.split(":"):
        if part.isdigit() and 0 < int(part) <= text.count("\n"):
            n = int(part)
            return message + "\n" + "\n".join(text.splitlines()[max(0, n - 3) : n + 2])
    return message


def compile_object(module: Module, target: Target, opt: int = OPT_LEVEL) -> bytes:
    """The object file, as bytes that another process may link."""
    with _lock:
        parsed = _parse(module.text())
        try:
            return _machine(target, opt).emit_object(parsed)
        finally:
            parsed.close()


SYMBOLS: dict[str, int] = {}
"""Entry points of libraries that compiled code may call, by name: added here by whoever loads a library. The runtime's own need not be."""


def load(image: bytes, target: Target, imports: Iterable[str] = ()) -> Linked:
    """Loads an object that calls the symbols `imports`. CompileError for a broken object or a symbol that nobody provides."""
    llvm = _llvm()
    known = _native.symbols()
    builder = llvm.JITLibraryBuilder().add_object_img(image).export_symbol(ENTRY)
    for name, address in _library_symbols().items():
        builder.import_symbol(name, address)
    for name in imports:
        address = known.get(name) or SYMBOLS.get(name)
        if address is None:
            raise CompileError(f"the program calls {name}, which neither the runtime nor a library provides")
        builder.import_symbol(name, address)
    with _lock:
        try:
            tracker = builder.link(_jit(target), f"steno{next(_serial)}")
        except RuntimeError as err:
            raise CompileError(f"the object cannot be linked: {err}") from None
    return Linked(tracker[ENTRY], tracker, image)


def link(module: Module, target: Target | None = None, opt: int = OPT_LEVEL) -> Linked:
    """Code of this process. The level of optimisation changes no result."""
    target = target or host_target()
    return load(compile_object(module, target, opt), target, module.imports)


def assembly(module: Module, target: Target | None = None) -> str:
    """The machine code, to read."""
    target = target or host_target()
    with _lock:
        parsed = _parse(module.text())
        try:
            return _machine(target, OPT_LEVEL).emit_assembly(parsed)
        finally:
            parsed.close()


def llvm(program: Program, target: Target | None = None) -> str:
    """The LLVM IR of a loop program, to read."""
    return emit(program, target or host_target()).text()


def asm(program: Program, target: Target | None = None) -> str:
    """The machine code of a loop program, to read."""
    target = target or host_target()
    return assembly(emit(program, target), target)


__all__ = ["SYMBOLS", "CompileError", "Linked", "asm", "assembly", "compile_object", "link", "llvm", "load"]
