"""Compiled code on disk: found again by another process, never believed when damaged, harmless when the disk or another process fails."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

import steno
from steno.compiler import object_cache
from steno.compiler.object_cache import MAGIC, SUFFIX, UNFINISHED, ObjectCache, digest

PACKAGE = str(Path(steno.__file__).parents[1])

# Prints how many programs LLVM compiled, and the results.
PROGRAM = """
import numpy as np
import steno as jax, steno.numpy as jnp
from steno.compiler import link
compiled = 0
inner = link.compile_objects
def counting(*args, **kwargs):
    global compiled
    compiled += 1
    return inner(*args, **kwargs)
link.compile_objects = counting
f = jax.jit(lambda x: jnp.tanh(x).sum() + jnp.sort(x)[0])
g = jax.jit(lambda x: (x @ x.T).max())
x = np.arange(12, dtype=np.float32).reshape(3, 4) / 7
print(float(f(x[0])).hex(), float(g(x)).hex(), compiled)
"""


def run(folder: Path | str, program: str = PROGRAM, **more: str) -> subprocess.CompletedProcess[str]:
    env = {"PYTHONPATH": PACKAGE, "STENO_CACHE_DIR": str(folder), "HOME": str(folder), **more}
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, timeout=120)


def outcome(done: subprocess.CompletedProcess[str]) -> tuple[list[str], int]:
    assert done.returncode == 0, done.stderr
    *values, compiled = done.stdout.split()
    return values, int(compiled)


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{SUFFIX}"))


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """(folder with the code of PROGRAM, its results)"""
    folder = tmp_path_factory.mktemp("cache") / "made" / "on demand"
    values, compiled = outcome(run(folder))
    assert compiled == len(entries(folder)) >= 2
    return folder, values


def copied(filled, tmp_path: Path) -> tuple[Path, list[str]]:
    folder = tmp_path / "copy"
    folder.mkdir(mode=0o700)
    for f in entries(filled[0]):
        (folder / f.name).write_bytes(f.read_bytes())
    return folder, filled[1]


def test_another_process_compiles_nothing(filled):
    folder, values = filled
    assert outcome(run(folder)) == (values, 0)


def test_a_process_that_compiles_nothing_loads_no_compiler(tmp_path):
    program = """
import sys
import numpy as np
before = set(sys.modules)
import steno as jax, steno.numpy as jnp
print(float(jax.jit(lambda x: jnp.tanh(x).sum() + jnp.sort(x)[0] + (x @ x))(np.arange(4, dtype=np.float32))).hex())
print(*sorted(m for m in sys.modules if m in ("llvmlite", "steno.compiler.pipeline", "steno.compiler.emit", "steno.compiler.schedule")))
print(*sorted({"_hashlib", "concurrent.futures", "dataclasses", "logging", "pathlib", "string", "tempfile"} & set(sys.modules) - before))
"""
    first, second = (run(tmp_path / "cache", program).stdout.splitlines() for _ in range(2))
    assert first[0] == second[0] and first[1].startswith("llvmlite") and second[1:] == ["", ""]


def test_the_folder_is_the_users_alone(filled):
    assert filled[0].stat().st_mode & 0o777 == 0o700
    assert all(f.stat().st_mode & 0o777 == 0o600 for f in entries(filled[0]))


def test_the_default_is_the_users_cache_folder(tmp_path):
    for more, where in (
        ({}, ".cache/steno"),
        ({"XDG_CACHE_HOME": str(tmp_path / "x")}, "x/steno"),
        ({"XDG_CACHE_HOME": "x"}, ".cache/steno"),
    ):
        env = {"PYTHONPATH": PACKAGE, "HOME": str(tmp_path), **more}
        program = "from steno.compiler.object_cache import object_cache; print(object_cache().folder)"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, timeout=120)
        assert done.stdout.strip() == str(tmp_path / where), done.stderr


def test_switched_off(tmp_path):
    outcome(run(tmp_path, STENO_CACHE="0"))
    assert not entries(tmp_path)


def test_other_instructions_are_other_code(filled, tmp_path):
    _, compiled = outcome(run(copied(filled, tmp_path)[0], STENO_TARGET_FEATURES="avx2"))
    assert compiled or steno.compiler.target.host_target().name != "avx512"


DAMAGE = {
    "empty": lambda data: b"",
    "the mark alone": lambda data: MAGIC,
    "half": lambda data: data[: len(data) // 2],
    "without its last byte": lambda data: data[:-1],
    "longer": lambda data: data + b"x",
    "a bit in the mark": lambda data: bytes([data[0] ^ 1]) + data[1:],
    "a bit in the digest": lambda data: data[: len(MAGIC)] + bytes([data[len(MAGIC)] ^ 1]) + data[len(MAGIC) + 1 :],
    "a bit in the code": lambda data: data[:-100] + bytes([data[-100] ^ 16]) + data[-99:],
    "a text": lambda data: b"not code at all\n" * 100,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_is_replaced(filled, tmp_path, damage):
    folder, values = copied(filled, tmp_path)
    whole = {f.name: f.read_bytes() for f in entries(folder)}
    for f in entries(folder):
        f.write_bytes(damage(f.read_bytes()))
    assert outcome(run(folder)) == (values, len(whole))
    assert {f.name: f.read_bytes() for f in entries(folder)} == whole


def test_files_of_other_programs_are_refused(filled, tmp_path):
    folder, values = copied(filled, tmp_path)
    first, second = (f.read_bytes() for f in entries(folder)[:2])
    entries(folder)[0].write_bytes(second)
    entries(folder)[1].write_bytes(first)
    assert outcome(run(folder)) == (values, 2)


def test_whole_files_that_are_no_objects_are_replaced(filled, tmp_path):
    folder, values = copied(filled, tmp_path)
    count = len(entries(folder))
    cache = ObjectCache(folder, 1 << 30)
    for f in entries(folder):
        cache.put(bytes.fromhex(f.name.removesuffix(SUFFIX)), [b"\x7fELF and then nothing"])
    assert outcome(run(folder)) == (values, count)
    assert outcome(run(folder)) == (values, 0)


def test_processes_may_race(filled, tmp_path):
    env = {"PYTHONPATH": PACKAGE, "STENO_CACHE_DIR": str(tmp_path)}
    started = [subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True, env=env) for _ in range(4)]
    results = [p.communicate(timeout=240)[0].split()[:-1] for p in started]
    assert results == [filled[1]] * 4
    assert len(entries(tmp_path)) == len(entries(filled[0]))
    assert not list(tmp_path.glob(f"*{UNFINISHED}"))
    assert outcome(run(tmp_path)) == (filled[1], 0)


def test_a_process_killed_as_it_writes_leaves_no_entry(filled, tmp_path):
    done = run(tmp_path, f"import os, signal\nos.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n{PROGRAM}")
    assert done.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.name.endswith(UNFINISHED)
    assert outcome(run(tmp_path))[0] == filled[1]
    ObjectCache(tmp_path, 1 << 30).trim()
    assert left.exists(), "it could be another's that is still being written"
    long_ago = time.time() - 2 * object_cache.ABANDONED_S
    os.utime(left, (long_ago, long_ago))
    ObjectCache(tmp_path, 1 << 30).trim()
    assert not left.exists()
    assert outcome(run(tmp_path)) == (filled[1], 0)


def test_a_full_disk_is_no_error(filled, tmp_path):
    limited = (
        "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nresource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
    )
    values, compiled = outcome(run(tmp_path, limited + PROGRAM))
    assert values == filled[1] and compiled >= 2
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("place", ["/proc/nowhere", "/dev/null"])
def test_without_a_folder_programs_are_compiled(filled, place):
    done = run(place)
    assert outcome(done)[0] == filled[1]
    assert "no compiled code is kept in" in done.stderr


def test_a_folder_that_others_may_write_is_not_used(filled, tmp_path):
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    done = run(folder)
    assert outcome(done)[0] == filled[1]
    assert "others may write into it" in done.stderr
    assert not list(folder.iterdir())


def test_what_was_used_last_stays(tmp_path):
    cache = ObjectCache(tmp_path, 100_000)
    keys = [digest(str(k)) for k in range(40)]
    for age, k in enumerate(reversed(keys)):
        ObjectCache(tmp_path, -1).put(k, [bytes(5_000)])
        used = time.time() - 100 - age
        os.utime(cache._path(k), (used, used))
    assert len(entries(tmp_path)) == 40, "without a limit nothing goes"
    assert cache.get(keys[0]) == (bytes(5_000),)  # the one that was used longest ago
    cache.trim()
    kept = [k for k in keys if cache.get(k) is not None]
    assert sum(f.stat().st_size for f in entries(tmp_path)) <= 75_000
    assert kept == [keys[0], *keys[-len(kept) + 1 :]]


def test_the_folder_stays_near_its_limit(tmp_path):
    cache = ObjectCache(tmp_path, 200_000)
    largest = 0
    for k in range(600):
        cache.put(digest(str(k)), [bytes(2_000)])
        if k % 20 == 0:
            largest = max(largest, sum(f.stat().st_size for f in entries(tmp_path)))
    assert 100_000 < largest < 300_000


def test_trimming_bears_other_files(tmp_path):
    (tmp_path / "folder.steno").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    cache = ObjectCache(tmp_path, 0)
    cache.put(digest("x"), [b"code"])
    assert {f.name for f in tmp_path.iterdir()} == {"folder.steno", "notes.txt"}


def test_keys_tell_their_parts_apart():
    assert len({digest(*p) for p in (("a", "bc"), ("ab", "c"), ("abc",), ("abc", ""), ("", "abc"))}) == 5


def test_the_knobs(tmp_path):
    config = steno.config
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = {
            n: config.read(n) for n in ("jax_compilation_cache_dir", "jax_enable_compilation_cache", "jax_compilation_cache_max_size")
        }
        try:
            config.update("jax_enable_compilation_cache", True)
            config.update("jax_compilation_cache_dir", str(tmp_path))
            config.update("jax_compilation_cache_max_size", 12345)
            cache = object_cache.object_cache()
            assert cache is not None and (cache.folder, cache.limit) == (str(tmp_path), 12345)
            steno.jit(lambda x: x * 3 + 1)(1.0)
            assert len(entries(tmp_path)) == 1 and re.fullmatch(r"[0-9a-f]{64}\.steno", entries(tmp_path)[0].name)
        finally:
            for name, value in before.items():
                config.update(name, value)
