"""Programs found again by what they are, and objects loaded without a linker."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import steno
import steno.numpy as snp
from steno import _native, lax
from steno.backends import cpu
from steno.compiler import compiled as stored, fingerprint as fingerprints, version
from steno.compiler.fingerprint import Unknown, fingerprint
from steno.compiler.load import ENTRY, CompileError, addresses, load, load_by_llvm
from steno.compiler.target import ARM_TRIPLE, host_target
from steno.core.config import compilation_cache_dir, enable_compilation_cache, verify
from steno.extend.core import Primitive
from steno.extend.random import define_prng_impl

X = np.arange(6, dtype=np.float32).reshape(2, 3)
A, B = snp.full((2, 3), 1, np.float32), snp.full((2, 3), 2, np.float32)


def text(f, *args):
    return fingerprint(steno.make_jaxpr(f)(*(args or (X,))))[0]


def test_the_same_program_twice():
    def make():
        def f(x):
            y, _ = lax.scan(lambda c, r: (c + snp.sin(r) @ A.T, None), snp.zeros(2), x)
            return steno.jit(lambda z: z * 2)(y), steno.nn.relu(y), lax.cond(y[0] > 0, lambda a: a, lambda a: -a, y)

        return f

    assert text(make()) == text(make())


DIFFERENT = [
    lambda x: x + 1,
    lambda x: x + 2,
    lambda x: 1 - x,
    lambda x: x - 1,
    lambda x: (x + 1, x),
    lambda x: (x, x + 1),
    lambda x: (x + 1, x + 1),
    lambda x: x + A,
    lambda x: x + A + A,
    lambda x: x + A + B,
    lambda x: x.sum(0),
    lambda x: x.sum(1),
    lambda x: x.reshape(3, 2),
    lambda x: x.astype(np.int32),
    lambda x: x.astype(np.float16),
    lambda x: lax.fori_loop(0, 3, lambda i, a: a * 2, x),
    lambda x: lax.fori_loop(0, 4, lambda i, a: a * 2, x),
    lambda x: lax.fori_loop(0, 3, lambda i, a: a + a, x),
    lambda x: lax.cond(x[0, 0] > 0, lambda a: a, lambda a: -a, x),
    lambda x: lax.cond(x[0, 0] > 0, lambda a: -a, lambda a: a, x),
    lambda x: x.at[0].add(1),
    lambda x: x.at[0].add(1, mode="clip"),
    lambda x: steno.random.normal(steno.random.key(0)),
    lambda x: steno.random.normal(steno.random.key(0, impl="rbg")),
    lambda x: steno.grad(lambda y: (y**2).sum())(x),
]


def test_different_programs():
    texts = [text(f) for f in DIFFERENT] + [text(DIFFERENT[0], X[0]), text(DIFFERENT[0], X.astype(np.int32)), text(DIFFERENT[0], 1.0)]
    assert len(set(texts)) == len(texts)


def test_values_of_captured_arrays_do_not_matter():
    assert text(lambda x: x + A) == text(lambda x: x + B)


def test_a_program_used_twice_is_written_once():
    g = steno.jit(lambda x: snp.sin(x) * 2)
    once, twice = text(g), text(lambda x: g(g(x)))
    assert twice.count(b"sin") == once.count(b"sin") == 1


def test_temporary_programs_are_not_taken_for_each_other():
    """An identity is a name only while its object lives."""
    programs = [steno.make_jaxpr(lambda x, k=k: x + k)(1.0) for k in range(4)]
    op = fingerprints.OPS["jit"]
    jaxpr = steno.make_jaxpr(lambda x: [steno.jit(lambda y, k=k: y + k)(x) for k in range(4)])(1.0)
    assert [e.op for e in jaxpr.eqns] == [op] * 4
    assert len({fingerprint(p)[0] for p in programs}) == 4 and b"\x02\0\0\0@" not in fingerprint(jaxpr)[0]  # a str of two characters


@pytest.mark.parametrize(
    "f",
    [
        lambda x: steno.pure_callback(lambda y: y, steno.ShapeDtypeStruct((2, 3), np.float32), x),
        lambda x: steno.debug.print("{}", x),
        lambda x: _mine.bind(x),
        lambda x: lax.while_loop(lambda c: c.sum() < 9, lambda c: _mine.bind(c), x),
    ],
)
def test_what_has_no_lasting_name_has_no_fingerprint(f):
    with pytest.raises(Unknown):
        text(f)


def test_keys_of_a_generator_that_a_program_defined_have_no_lasting_name():
    with pytest.raises(Unknown):
        text(lambda x: x, steno.random.key(0, impl=_generator))
    with pytest.raises(Unknown):
        text(lambda x: steno.random.bits(steno.random.key(0, impl=_generator)))


_generator = define_prng_impl(
    key_shape=(2,),
    seed=lambda s: snp.stack([s, s]).astype(np.uint32),
    split=lambda key, shape: snp.broadcast_to(key, (*shape, 2)),
    random_bits=lambda key, width, shape: snp.zeros(shape, f"uint{width}"),
    fold_in=lambda key, data: key + data.astype(np.uint32),
    name="mine",
    tag="mine",
)
_mine = Primitive("mine")
_mine.def_abstract_eval(lambda x: x)
_mine.def_impl(lambda x: x)


@contextmanager
def _cache(folder: Path) -> Iterator[None]:
    with enable_compilation_cache(True), compilation_cache_dir(str(folder)), verify(False):
        yield


RESTORED = {
    "captured": lambda x: (x @ B.T + A[0, 0], A, x - B, B),
    "forwarded": lambda x: (x, snp.float32(3.5), x + 1, x + 1, True, snp.bfloat16(2)),
    "loop": lambda x: lax.scan(lambda c, r: (c + r @ A[0], c), 0.0, x),
    "sorted": lambda x: snp.sort(x * -1),
    "factored": lambda x: snp.linalg.cholesky(x @ x.T + 9 * snp.eye(2)),
    "keys": lambda x: steno.random.split(steno.random.key(3)),
    "remainder": lambda x: snp.fmod(x, 2),
}


@pytest.mark.parametrize("name", RESTORED)
def test_a_program_from_the_disk(name, tmp_path, monkeypatch):
    with _cache(tmp_path):
        closed = steno.make_jaxpr(RESTORED[name])(X)
        first = cpu.compile(closed)
        assert len(list(tmp_path.iterdir())) == 1
        with monkeypatch.context() as patch:
            patch.setattr(stored, "_compile", None)
            again = cpu.compile(steno.make_jaxpr(RESTORED[name])(X))
        assert again.out_avals == first.out_avals and again.compiled.seconds == {}
        for a, b in zip(first.run([X]), again.run([X]), strict=True):
            a, b = (snp.asarray(steno.random.key_data(v) if snp.issubdtype(v.dtype, steno.dtypes.prng_key) else v) for v in (a, b))
            assert a.dtype == b.dtype and np.asarray(a).tobytes() == np.asarray(b).tobytes()
        assert again.as_text("loops") == first.as_text("loops")


def test_what_the_compiler_is_belongs_to_the_key(tmp_path, monkeypatch):
    with _cache(tmp_path):
        closed = steno.make_jaxpr(lambda x: x + 1)(X)
        cpu.compile(closed)
        with monkeypatch.context() as patch:
            patch.setattr(stored, "compiler_version", lambda: "another")
            stored._surroundings.cache_clear()
            cpu.compile(closed)
        stored._surroundings.cache_clear()
        cpu.compile(closed, donated=frozenset([0]))
        with steno.numpy_dtype_promotion("strict"):
            cpu.compile(closed)
        assert len(list(tmp_path.iterdir())) == 4


def test_an_op_that_a_face_defines_belongs_to_the_version_of_the_package(monkeypatch):
    """The compiler's version covers only what the compiler may import."""
    face, other = (lambda x: lax.igamma(x, x)), (lambda x: snp.sin(x).sum())
    before = text(face), text(other)
    monkeypatch.setattr(fingerprints, "package_version", lambda: "another")
    assert text(face) != before[0] and text(other) == before[1]


def test_the_version_tells_of_every_edit(tmp_path):
    for folder in ("ops", "ops/deeper", "numpy"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.py").write_text("x = 1\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(version, "_ROOT", str(tmp_path))
        patch.setattr(version, "COMPILING", ("ops",))
        seen = []
        for change in (None, "ops/a.py", "ops/deeper/a.py", "ops/deeper/b.py", "numpy/a.py", "core.so"):
            if change is not None:
                with open(tmp_path / change, "a") as f:
                    f.write("y = 2\n")
            seen.append((version.compiler_version.__wrapped__(), version.package_version.__wrapped__()))
    compilers, packages = zip(*seen, strict=True)
    assert len(set(packages)) == 6
    assert len(set(compilers)) == 5 and compilers[3] == compilers[4], "a face is no part of the compiler"


def test_a_file_of_another_meaning_is_compiled_again(tmp_path, monkeypatch):
    with _cache(tmp_path):
        closed = steno.make_jaxpr(lambda x: x + 1)(X)
        key = []
        monkeypatch.setattr(stored, "digest", lambda *parts: key.append(stored_digest(*parts)) or key[-1])
        cpu.compile(closed)
        for objects in (
            (),
            (b"",),
            (b"nonsense", b"more"),
            (stored.marshal.dumps((1, 2)),),
            (stored.marshal.dumps(((), [], (), 0, 0.0, ())), b"x"),
        ):
            stored.object_cache().put(key[-1], objects)
            assert np.array_equal(cpu.compile(closed).run([X])[0], X + 1)


stored_digest = stored.digest


# The loader


def objects_of(f):
    made = cpu.compile(steno.make_jaxpr(f)(X)).compiled
    return made.linked.objects, made.plan.imports


def test_our_loader_and_llvms():
    f = lambda x: (snp.fmod(snp.sin(x), 0.3) @ x.T, snp.sort(x), lax.fori_loop(0, 9, lambda i, a: a @ a.T @ a * 0.1, x))  # noqa: E731
    made = cpu.compile(steno.make_jaxpr(f)(X))
    want = made.run([X])
    if host_target().triple != ARM_TRIPLE:
        assert type(made.compiled.linked.keepalive) is _native.Code
    other = load_by_llvm(made.compiled.linked.objects, host_target(), addresses(made.compiled.plan.imports))
    native = made.native
    executable = _native.Executable(other.address, native.in_avals, native.out_avals, native.arena_bytes, keepalive=other.keepalive)
    for a, b in zip(want, executable.run([X]), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.skipif(host_target().triple == ARM_TRIPLE, reason="LLVM's linker loads code there")
def test_damaged_objects_are_refused():
    objects, imports = objects_of(lambda x: snp.fmod(snp.sin(x), 0.3) @ x.T)
    symbols = addresses(imports)
    _native.load_code(objects, symbols, ENTRY)
    whole = objects[0]
    for length in (0, 1, 63, 64, 200, len(whole) // 2, len(whole) - 1):
        with pytest.raises(ValueError, match="cannot be loaded"):
            _native.load_code([whole[:length], *objects[1:]], symbols, ENTRY)
    with pytest.raises(ValueError, match="nobody provides"):
        _native.load_code(objects, {}, ENTRY)
    with pytest.raises(ValueError, match="no object defines other"):
        _native.load_code(objects, symbols, "other")
    with pytest.raises(TypeError):
        _native.load_code(["text"], symbols, ENTRY)
    with pytest.raises(CompileError):
        load([whole[:100]], host_target(), imports)
    rng = random.Random(0)
    for _ in range(3000):  # nothing is read beyond the object, whatever stands in it
        damaged = bytearray(whole)
        for _ in range(rng.randrange(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        try:
            _native.load_code([bytes(damaged), *objects[1:]], symbols, ENTRY)
        except (ValueError, MemoryError):
            pass


def test_code_is_unmapped_with_its_last_user():
    made = cpu.compile(steno.make_jaxpr(lambda x: x * 3)(X))
    code = made.compiled.linked.keepalive
    if type(code) is not _native.Code:
        pytest.skip("LLVM's linker loads code here")
    start, size = code.memory
    assert start <= code.address < start + size and size % 4096 == 0
    before = sys.getrefcount(code)
    native = made.native
    del made
    assert sys.getrefcount(code) <= before and np.array_equal(native.run([X])[0], X * 3)


def test_features_under_llvms_names():
    llvm = pytest.importorskip("llvmlite.binding")
    have = {k for k, on in llvm.get_host_cpu_features().items() if on}
    assert set(_native.cpu_features()) <= have
    if host_target().triple != ARM_TRIPLE:
        assert {"avx2", "fma", "bmi2"} <= set(_native.cpu_features())
