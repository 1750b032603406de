"""Compiled objects on disk, so that the next process need not compile them again.

An entry is one file, named by a digest of all that its content depends on: the LLVM IR, the target, the level of optimisation and the
versions that turn one into the other. It is written under another name and renamed, so readers see whole files or none, in whatever
order processes come; a file that is damaged all the same (its digest tells), or another's, counts as missing and is replaced.

Whoever can write into the folder decides what code we run: a folder of another user, or one that others may write, is not used.
Nothing here raises for want of a disk: without a place to keep code, programs are compiled each time.
"""

from __future__ import annotations

import functools
import os
import stat
import struct
import time
import warnings
from collections.abc import Iterable
from contextlib import suppress
from typing import final

from steno.core.config import config

try:
    from _blake2 import blake2b  # `hashlib` would load OpenSSL, which takes longer than to find a program here
except ImportError:
    from hashlib import blake2b

MAGIC = b"steno objects 2\n"
DIGEST = 32  # bytes of one
SUFFIX = ".steno"
UNFINISHED = ".part"
ABANDONED_S = 3600.0  # a file that is still unfinished after this time never will be
TOUCHED_S = 60.0  # what was used is marked as used when the last mark is older
LOOKS = 32  # how often the folder is measured while as many bytes as it may hold are written
TRIM_TO = 0.75


@final
class ObjectCache:
    """The entries in `folder`, some `limit` bytes of them at most (below 0: no limit); those that were read or written last stay."""

    def __init__(self, folder: str | os.PathLike[str], limit: int) -> None:
        self.folder = os.fspath(folder)
        self.limit = limit

    def _path(self, key: bytes) -> str:
        return f"{self.folder}/{key.hex()}{SUFFIX}"

    def get(self, key: bytes) -> tuple[bytes, ...] | None:
        """The objects that were put under `key`."""
        path = self._path(key)
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            status = os.fstat(handle)
            data = os.read(handle, status.st_size)
        except OSError:
            return None
        finally:
            os.close(handle)
        if not status.st_mtime > time.time() - TOUCHED_S:
            with suppress(OSError):
                os.utime(path)
        return _unpacked(data, key)

    def put(self, key: bytes, objects: Iterable[bytes]) -> None:
        data = _packed(key, objects)
        unfinished = f"{self.folder}/{os.urandom(8).hex()}{UNFINISHED}"
        try:
            handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError:
            return
        try:
            try:
                with open(handle, "wb") as file:
                    file.write(data)
                os.replace(unfinished, self._path(key))
            except BaseException:
                with suppress(OSError):
                    os.unlink(unfinished)
                raise
        except OSError:  # the disk is full, for instance
            return
        # Measuring the folder takes a while. A sample of the writes does it, in proportion to their bytes.
        if int.from_bytes(key[:8]) * max(self.limit, 0) < 2**64 * LOOKS * len(data):
            self.trim()

    def trim(self) -> None:
        """Removes what was not used for longest while there is too much, and what a process left that was killed as it wrote."""
        entries = []
        try:
            with os.scandir(self.folder) as found:
                for f in found:
                    with suppress(OSError):
                        if f.name.endswith((SUFFIX, UNFINISHED)):
                            status = f.stat(follow_symlinks=False)
                            entries.append((status.st_mtime, status.st_size, f.path))
        except OSError:
            return
        abandoned = time.time() - ABANDONED_S
        total = sum(size for _, size, _ in entries)
        keep = total if self.limit < 0 or total <= self.limit else TRIM_TO * self.limit
        for used, size, path in sorted(entries):
            unfinished = path.endswith(UNFINISHED)
            if used < abandoned if unfinished else total > keep:
                with suppress(OSError):
                    os.unlink(path)
                    total -= size


def _packed(key: bytes, objects: Iterable[bytes]) -> bytes:
    objects = tuple(objects)
    body = b"".join((key, struct.pack(f"<I{len(objects)}Q", len(objects), *map(len, objects)), *objects))
    return MAGIC + blake2b(body, digest_size=DIGEST).digest() + body


def _unpacked(data: bytes, key: bytes) -> tuple[bytes, ...] | None:
    body = len(MAGIC) + DIGEST
    if not data.startswith(MAGIC) or blake2b(memoryview(data)[body:], digest_size=DIGEST).digest() != data[len(MAGIC) : body]:
        return None
    at = body + len(key)
    if data[body:at] != key:
        return None
    (count,) = struct.unpack_from("<I", data, at)
    sizes = struct.unpack_from(f"<{count}Q", data, at + 4)
    at += 4 + 8 * count
    objects = []
    for size in sizes:
        objects.append(data[at : at + size])
        at += size
    return tuple(objects)


def digest(*parts: str | bytes) -> bytes:
    """The key of what depends on these."""
    h = blake2b(digest_size=DIGEST)
    for p in parts:
        data = p.encode() if isinstance(p, str) else p
        h.update(struct.pack("<Q", len(data)))
        h.update(data)
    return h.digest()


def _default_folder() -> str:
    """As the XDG base directory specification says: a relative path there is none. OSError if there is no home."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.expanduser("~/.cache")
        if not os.path.isabs(base):
            raise OSError("the user has no home")
    return os.path.join(base, "steno")


@functools.cache
def _opened(chosen: str | None, limit: int) -> ObjectCache | None:
    try:
        folder = chosen if chosen is not None else _default_folder()
        os.makedirs(folder, mode=0o700, exist_ok=True)
        status = os.stat(folder)
    except OSError as err:
        if chosen is not None:
            warnings.warn(f"no compiled code is kept in {chosen}: {err}", RuntimeWarning, stacklevel=2)
        return None
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        if chosen is not None:
            why = "others may write into it" if status.st_uid == os.geteuid() else "it belongs to another user"
            warnings.warn(f"no compiled code is kept in {chosen}: {why}", RuntimeWarning, stacklevel=2)
        return None
    return ObjectCache(folder, limit)


def object_cache() -> ObjectCache | None:
    """The cache under the present configuration; None: there is none."""
    state = config._state
    if not state.enable_compilation_cache:
        return None
    return _opened(state.compilation_cache_dir, state.compilation_cache_max_size)
