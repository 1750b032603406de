"""LLVM IR text -> object files, by llvmlite -> executable code, by load.py.

The way is the same whether objects come from the compiler or from a cache: `compile_objects` gives their bytes, `load` loads them.

A large module is compiled in parts, in threads. llvmlite's functions share one lock; the C functions underneath need none if each
thread has a context and a target machine of its own, so the parts call those.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, final

from steno import _native
from steno.compiler.emit import Module, emit
from steno.compiler.load import CompileError, Linked, load
from steno.compiler.object_cache import digest, object_cache
from steno.compiler.target import Target, host_target
from steno.core.config import config
from steno.ir.loops import Program

OPT_LEVEL = 2
PART = 4_000  # characters of LLVM IR that are worth a thread: some 5 ms of work

_lock = threading.Lock()  # of the machine
_parallel = threading.Lock()  # of the machines of `compile_objects`


@functools.cache
def llvm_library() -> Any:
    import llvmlite.binding as llvm  # noqa: PLC0415 - heavy, on first need

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm


def new_machine(target: Target, opt: int) -> Any:
    llvm = llvm_library()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu="", features=target.features, opt=opt, reloc="pic", codemodel="small"
    )


_machine = functools.cache(new_machine)


@functools.cache
def _versions() -> str:
    """Of what makes objects out of text."""
    import llvmlite  # noqa: PLC0415 - heavy, on first need

    return f"{llvmlite.__version__} {llvm_library().llvm_version_info}"


def _rejected(message: str, text: str) -> CompileError:
    """With LLVM's message and, if it names a line, the lines around it."""
    for part in message.split(":"):
        if part.isdigit() and 0 < int(part) <= text.count("\n"):
            n = int(part)
            message += "\n" + "\n".join(text.splitlines()[max(0, n - 3) : n + 2])
            break
    return CompileError(f"LLVM does not accept the generated code: {message}")


def _parse(text: str) -> Any:
    llvm = llvm_library()
    try:
        module = llvm.parse_assembly(text, llvm.create_context())  # of its own, so that types and constants go with the module
        if config._state.verify:
            module.verify()
    except RuntimeError as err:
        raise _rejected(str(err), text) from None
    return module


def _compile(text: str, target: Target, opt: int) -> bytes:
    with _lock:
        parsed = _parse(text)
        try:
            return _machine(target, opt).emit_object(parsed)
        finally:
            parsed.close()


@final
class _Unlocked:
    """The C functions, called without llvmlite's lock (and without the GIL). AttributeError if llvmlite has changed."""

    def __init__(self) -> None:
        llvm_library()
        import llvmlite.binding.ffi as ffi  # noqa: PLC0415 - with llvmlite

        def function(name: str) -> Any:
            return getattr(ffi.lib, name)._cfn

        self.output = ffi.OutputString
        self.new_context, self.drop_context = function("LLVMPY_ContextCreate"), function("LLVMPY_ContextDispose")
        self.parse, self.drop_module = function("LLVMPY_ParseAssembly"), function("LLVMPY_DisposeModule")
        self.emit = function("LLVMPY_TargetMachineEmitToMemory")
        self.start, self.size, self.drop_buffer = (
            function(f"LLVMPY_{n}") for n in ("GetBufferStart", "GetBufferSize", "DisposeMemoryBuffer")
        )

    def compile(self, text: str, machine: Any) -> bytes:
        context = self.new_context()
        try:
            with self.output() as err:
                module = self.parse(context, text.encode(), err)
                if err:
                    raise _rejected(str(err), text)
            with self.output() as err:
                buffer = self.emit(machine, module, 1, err)
                if not buffer:
                    raise _rejected(str(err), text)
            image = ctypes.string_at(self.start(buffer), self.size(buffer))
            self.drop_buffer(buffer)
            self.drop_module(module)
            return image
        finally:
            self.drop_context(context)


@functools.cache
def _unlocked() -> _Unlocked | None:
    try:
        return _Unlocked()
    except AttributeError:
        return None


@functools.cache
def _thread_machine(target: Target, opt: int, slot: int) -> Any:
    return new_machine(target, opt)


def _parts(module: Module, most: int, opt: int) -> list[tuple[list[int], int]]:
    """The functions in parts of like size, none much smaller than PART, with the level for each: some `most` parts at most."""
    sizes = [len(text) for _, text in module.functions]
    *others, entry = range(len(sizes))
    if others and opt and module.straight and sizes[entry] > PART:  # LLVM takes more than linear time for a long function, but for level 0
        return [([entry], 0), *((part, opt) for part in _balanced(sizes, others, most))]
    return [(part, opt) for part in _balanced(sizes, [*others, entry], most)]


def _balanced(sizes: Sequence[int], which: Sequence[int], most: int) -> list[list[int]]:
    for count in range(min(most, sum(sizes[k] for k in which) // PART), 1, -1):
        loads, parts = [0] * count, [[] for _ in range(count)]
        for k in sorted(which, key=lambda k: -sizes[k]):
            j = loads.index(min(loads))
            loads[j] += sizes[k]
            parts[j].append(k)
        if min(loads) >= PART // 2:
            return [sorted(p) for p in parts]
    return [list(which)]


_compiling = 0
_options = threading.Lock()


@contextmanager
def _loops_as_written() -> Iterator[None]:
    """LLVM's loop strength reduction takes a third of its time, and our addresses are reduced when it sees them. It is off while we
    compile; not longer, as an option of the whole process, which another user of LLVM may share."""
    global _compiling
    with _options:
        if _compiling == 0:
            llvm_library().set_option("steno", "-disable-lsr=true")
        _compiling += 1
    try:
        yield
    finally:
        with _options:
            _compiling -= 1
            if _compiling == 0:
                llvm_library().set_option("steno", "-disable-lsr=false")


def compile_objects(module: Module, target: Target, opt: int = OPT_LEVEL, whole: bool = False) -> tuple[bytes, ...]:
    """The object files, as bytes that another process may load. `whole`: one of them."""
    with _loops_as_written() if opt else nullcontext():
        return _compiled_objects(module, target, opt, whole)


def _compiled_objects(module: Module, target: Target, opt: int, whole: bool) -> tuple[bytes, ...]:
    parts = [] if whole else _parts(module, _native.num_threads(), opt)
    free = _unlocked() if len(parts) > 1 else None
    if free is None:
        return (_compile(module.text(), target, opt),)
    with _parallel:  # the machines are in use
        machines = [_thread_machine(target, level, k) for k, (_, level) in enumerate(parts)]
        jobs = [functools.partial(_compile_part, free, module, which, m) for (which, _), m in zip(parts, machines, strict=True)]
        return _in_threads(jobs)


def _compile_part(free: _Unlocked, module: Module, which: Sequence[int], machine: Any) -> bytes:
    return free.compile(module.part(which), machine)


def _in_threads(jobs: Sequence[Callable[[], bytes]]) -> tuple[bytes, ...]:
    """What the jobs give: each of them but the last in a thread of its own. All have ended when it returns or raises: what the first that
    fails has raised, or an interrupt."""
    results: list[Any] = [None] * len(jobs)

    def work(k: int) -> None:
        try:
            results[k] = jobs[k]()
        except BaseException as err:
            results[k] = err

    threads = [threading.Thread(target=work, args=(k,), name="steno-compile") for k in range(len(jobs) - 1)]
    for t in threads:
        t.start()
    work(len(jobs) - 1)
    for t in threads:
        while t.is_alive():
            try:
                t.join()
            except KeyboardInterrupt as err:
                results.append(err)
    for r in results:
        if isinstance(r, BaseException):
            raise r
    return tuple(results)


def link(module: Module, target: Target | None = None, opt: int = OPT_LEVEL, keep: bool = True, whole: bool = False) -> Linked:
    """Code of this process. The level of optimisation changes no result. `keep`: objects are looked for, and left, on disk by the text.
    `whole`: all is one object."""
    target = target or host_target()
    cache = object_cache() if keep else None
    if cache is None:
        return load(compile_objects(module, target, opt, whole), target, module.imports)
    key = digest(module.text(), repr(target), str(opt), _versions(), *(["whole"] if whole else ()))
    objects = cache.get(key)
    if objects is not None:
        with suppress(CompileError):  # they are whole, and yet no objects of ours
            return load(objects, target, module.imports)
    objects = compile_objects(module, target, opt, whole)
    linked = load(objects, target, module.imports)
    cache.put(key, objects)
    return linked


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


__all__ = ["asm", "assembly", "compile_objects", "link", "llvm"]
