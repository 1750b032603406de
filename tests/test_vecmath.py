"""The elementary functions: errors against their bounds, special values, and the machine code against the interpreter bit for bit."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from random_loops import Code, same
from vecmath_reference import ALL, BINARY, DOUBLE, arguments, double, edges, expression, interpret, ulps_double, ulps_single

from steno.compiler.target import AVX2, NEON, host_target
from steno.compiler.vecmath.bounds import BOUNDS
from steno.ir.expr import C64, C128, F32, F64, Builder, Expr, Pair
from steno.ir.index import LoopVar, var
from steno.ir.interp import evaluate_locals
from steno.ir.loops import Buffer, Kernel, MapStage, Program, Store

HOST = host_target()
TARGETS = [HOST] if HOST in (AVX2, NEON) else [HOST, AVX2]
# in multiple precision
SLOW = (
    "erf_inv",
    "erfc_inv",
    "ndtri",
    "ndtr",
    "log_ndtr",
    "lgamma",
    "digamma",
    "bessel_i0",
    "bessel_i1",
    "bessel_i0e",
    "bessel_i1e",
    "erfc",
)


def test_every_function_has_a_bound():
    assert sorted(BOUNDS) == ALL


@pytest.mark.parametrize("name", ALL)
def test_float32(name: str):
    xs = arguments(name, F32, 8_000 if name in BINARY else 50_000)
    error = ulps_single(interpret(name, *xs), double(name, *xs), BOUNDS[name].floor)
    k = int(np.argmax(error))
    assert error[k] <= BOUNDS[name].single, f"{error[k]} ulp at {[x[k] for x in xs]}"


@pytest.mark.parametrize("name", ALL)
def test_float64(name: str):
    xs = arguments(name, F64, 100 if name in SLOW or name in BINARY else 400, seed=1)
    got = interpret(name, *xs)
    keep = np.arange(len(got)) if name not in BINARY else np.arange(len(got) - 400, len(got))
    error, where = ulps_double(name, got[keep], [x[keep] for x in xs], BOUNDS[name].floor)
    assert error <= BOUNDS[name].double, f"{error} ulp at {where}"


@pytest.mark.parametrize("name", ALL)
def test_float64_special_values(name: str):
    v = edges(F64)
    v = v[~np.isfinite(v) | (v == 0) | (np.abs(v) == 1)]
    xs = [v] if name not in BINARY else [m.ravel() for m in np.meshgrid(v, v)]
    got = interpret(name, *xs)
    f = DOUBLE.get(name) or getattr(np, name)
    with np.errstate(all="ignore"):
        want = f(*xs)
    special = ~np.isfinite(want) | (want == 0)
    assert same(got[special], want[special]) and np.isfinite(got[~special]).all()


@pytest.mark.parametrize("dtype", [F32, F64])
def test_sines_and_cosines_are_odd_and_even(dtype: np.dtype):
    """To the bit, zeros included: arguments of both signs are reduced as they are."""
    x = np.concatenate([edges(dtype), arguments("sin", dtype, 2000)[0], np.arange(1, 400).astype(dtype) * dtype.type(np.pi / 2)])
    x = x[~np.isnan(x)]
    assert same(interpret("sin", -x), -interpret("sin", x))
    assert same(interpret("cos", -x), interpret("cos", x))
    assert same(interpret("sin", np.array([0.0, -0.0], dtype)), np.array([0.0, -0.0], dtype))


def compiled(root, arrays: dict[str, np.ndarray], target) -> np.ndarray:
    """`root`, an Expr of `local` leaves, as a flat kernel."""
    n = len(next(iter(arrays.values())))
    i = LoopVar("i", n)
    inputs = {name: Buffer(name, a.dtype, n, "input") for name, a in arrays.items()}
    b = Builder()
    again = {}
    values = {name: b.load(buffer, var(i)) for name, buffer in inputs.items()}
    root = _with_leaves(b, root, values, again)
    out = Buffer("out", root.dtype, n, "output")
    kernel = Kernel("k", (), (MapStage((i,), (Store(out, var(i), root),)),))
    program = Program(tuple(inputs.values()), (out,), (), (), 0, (kernel,))
    return Code(program, target)(list(arrays.values()), 1)[0]


def _with_leaves(b, e, values, again):
    if e not in again:
        if e.op == "local":
            again[e] = values[e.attr]
        elif e.op == "const":
            again[e] = b.constant(e.attr, e.dtype)
        else:
            again[e] = b.rebuilt(e, tuple(_with_leaves(b, a, values, again) for a in e.args))
    return again[e]


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_machine_code_is_the_interpreter(dtype, target):
    for name in ALL:
        xs = arguments(name, dtype, 300, seed=2)
        arrays = {n: np.ascontiguousarray(x) for n, x in zip("xy", xs, strict=False)}
        got = compiled(expression(name, dtype), arrays, target)
        want = np.ascontiguousarray(interpret(name, *arrays.values()))
        assert same(got, want), f"{name}: {[x[got != want][:3] for x in arrays.values()]}"


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e4m3fn])
def test_narrow_arguments_are_computed_in_float32(dtype):
    dtype = np.dtype(dtype)
    x = np.float32([0.5, 1.25, -2, 0]).astype(dtype)
    b = Builder()
    out = b.call("exp", b.from_registers(dtype, (b.local("x", F32),)))
    assert out.dtype == dtype
    got = evaluate_locals([out.value], {"x": x.astype(np.float32)})[0]
    assert same(got, np.exp(x.astype(np.float32)).astype(dtype).astype(np.float32))


def _complex(name: str, dtype: np.dtype, *zs: np.ndarray) -> np.ndarray:
    part = F32 if dtype == C64 else F64
    b = Builder()
    operands, arrays = [], {}
    for k, z in enumerate(zs):
        arrays |= {f"r{k}": np.ascontiguousarray(z.real), f"i{k}": np.ascontiguousarray(z.imag)}
        operands.append(Pair(dtype, b.local(f"r{k}", part), b.local(f"i{k}", part)))
    out = b.call(name, *operands)
    re, im = evaluate_locals([out.first, out.second], arrays)
    z = np.empty(re.shape, dtype)
    z.real, z.imag = re, im
    return z


@pytest.mark.parametrize("dtype", [C64, C128], ids=str)
def test_complex_quotient_and_root(dtype):
    rng = np.random.default_rng(4)
    spread = 8 if dtype == C64 else 60
    parts = [(rng.standard_normal(2000) * np.exp(rng.normal(0, spread, 2000))).astype(dtype.type(0).real.dtype) for _ in range(4)]
    z, w = (np.empty(2000, dtype) for _ in range(2))
    z.real, z.imag, w.real, w.imag = parts
    eps = np.finfo(dtype).eps
    wide_z, wide_w = z.astype(np.clongdouble), w.astype(np.clongdouble)
    for got, want in ((_complex("complex_div", dtype, z, w), wide_z / wide_w), (_complex("complex_sqrt", dtype, z), np.sqrt(wide_z))):
        normal = (np.abs(want) < np.finfo(dtype).max / 4) & (np.abs(want) > 1e3 * np.finfo(dtype).tiny)
        assert np.all(np.abs(got - want)[normal] <= 2 * eps * np.abs(want)[normal])


def test_complex_infinities_are_those_of_annex_g():
    v = np.float64([0.0, -0.0, 1, -2, np.inf, -np.inf, np.nan])
    re, im = (m.ravel() for m in np.meshgrid(v, v))
    z = np.empty(re.shape, C128)
    z.real, z.imag = re, im
    with np.errstate(all="ignore"):
        want = np.sqrt(z)
    got = _complex("complex_sqrt", C128, z)
    for x, y in ((got.real, want.real), (got.imag, want.imag)):
        special = ~np.isfinite(y) | (y == 0)
        assert same(x[special], y[special]) and np.allclose(x[~special], y[~special], rtol=1e-15)
    # finite / infinite is zero, infinite / finite infinite, nonzero / zero infinite
    one, inf, zero = (np.full(1, c, C128) for c in (1 + 2j, complex(np.inf, np.nan), 0j))
    assert _complex("complex_div", C128, one, inf)[0] == 0
    assert np.isinf(_complex("complex_div", C128, inf, one)[0]) and np.isinf(_complex("complex_div", C128, one, zero)[0])


def common_path(root: Expr) -> list[Expr]:
    """What is computed for every argument: all but the rare regions."""
    seen: dict[Expr, None] = {}
    todo = [root]
    while todo:
        e = todo.pop()
        if e not in seen:
            seen[e] = None
            todo += e.args[:2] if e.op == "rare" else e.args
    return list(seen)


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("name", ALL)
def test_small_arguments_make_nothing_subnormal(name: str, dtype: np.dtype):
    """Processors take a hundred times longer for an operation with a subnormal outcome."""
    rng, info = np.random.default_rng(2), np.finfo(dtype)
    few = 2.0 ** (8 if dtype == F32 else 110)
    x = np.exp2(rng.uniform(np.log2(info.tiny * few), 0, 100)).astype(dtype)
    xs = [x] if name not in BINARY else [np.concatenate([x, np.ones_like(x), x]), np.concatenate([np.ones_like(x), x, x[::-1]])]
    if name == "pow":
        xs[1] = np.clip(xs[1], 2.0**-20, 0.5)
    root = expression(name, dtype)
    nodes = [e for e in common_path(root) if e is not root and e.dtype.kind == "f" and e.op != "const"]
    with np.errstate(all="ignore"):
        values = dict(zip(nodes, evaluate_locals(nodes, dict(zip("xy", xs, strict=False))), strict=True))
    constants = {e: np.array(e.attr) for node in nodes for e in node.args if e.op == "const"}
    for e in nodes:
        lost = (values[e] != 0) & (np.abs(values[e]) < np.finfo(e.dtype).tiny)
        if e.op == "mul":
            factors = [values.get(a, constants.get(a)) for a in e.args]
            lost |= (values[e] == 0) & (factors[0] != 0) & (factors[1] != 0)
        assert not lost.any(), f"{e.op} of {[str(a)[:200] for a in e.args]} at {[a[lost][:5] for a in xs]}"
