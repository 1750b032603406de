"""A map of compiled code for `perf`: which function is where, by names that say what it computes.

perf reads `/tmp/perf-PID.map`, one line for each function: address and size in hexadecimal digits, then the name. The file is the
process's own, and others (the interpreter, with `-X perf`) may write into it too, so lines are only ever added, each program's at once. The
code that is in it stays in memory for as long as the process lives, so that no address means two things.
"""

from __future__ import annotations

import os
import struct
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from steno.compiler.emit import Module
from steno.compiler.load import ENTRY, Linked

FOLDER = Path("/tmp")  # perf looks nowhere else
FUNCTION = 2  # STT_FUNC of ELF
MOST = 3  # names of one function that several kernels share

_lock = threading.Lock()
_lines: list[str] = []
_kept: list[Any] = []


def path() -> Path:
    return FOLDER / f"perf-{os.getpid()}.map"


def functions(image: bytes) -> Iterator[tuple[str, int, int]]:
    """(name, offset in its section, size) of each function in an ELF object of 64 bits."""
    (sections,) = struct.unpack_from("<Q", image, 0x28)
    size, count = struct.unpack_from("<HH", image, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", image, sections + k * size) for k in range(count)]
    for kind, offset, length, link in ((h[1], h[4], h[5], h[6]) for h in headers):
        if kind != 2:  # SHT_SYMTAB
            continue
        names = headers[link][4]
        for at in range(offset, offset + length, 24):
            name, info, _, section, value, extent = struct.unpack_from("<IBBHQQ", image, at)
            if info & 15 == FUNCTION and section:
                yield image[names + name : image.index(b"\0", names + name)].decode(), value, extent


def record(linked: Linked, module: Module, program: str) -> None:
    """Adds the functions of a program that is one object. A file that cannot be written is a RuntimeWarning."""
    (image,) = linked.objects
    found = list(functions(image))
    base = linked.address - next(offset for name, offset, _ in found if name == ENTRY)
    lines = [f"{base + offset:x} {size:x} {program}/{_label(name, module.labels)}" for name, offset, size in found]
    with _lock:
        _kept.append(linked.keepalive)
        _lines.extend(lines)
        _write(lines)


def _label(name: str, labels: Mapping[str, Sequence[str]]) -> str:
    given = labels.get(name, (name,))
    more = f"|{len(given) - MOST} more" if len(given) > MOST else ""
    return "|".join(given[:MOST]) + more


def _write(lines: Sequence[str]) -> None:
    text = "".join(line + "\n" for line in lines).encode()
    try:  # never through another user's link
        handle = os.open(path(), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.write(handle, text)
        finally:
            os.close(handle)
    except OSError as err:
        warnings.warn(f"no names for perf in {path()}: {err}", RuntimeWarning, stacklevel=2)


def _after_fork_in_child() -> None:
    """The child has the code, and a file of its own."""
    global _lock
    _lock = threading.Lock()
    if _lines:
        _write(_lines)


os.register_at_fork(after_in_child=_after_fork_in_child)

__all__ = ["functions", "path", "record"]
