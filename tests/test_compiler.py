"""What the scheduler makes of programs: which values get buffers, which kernels fuse, where results are written; and that all of it
computes what the reference backend does."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import steno
import steno.numpy as snp
from steno import jit
from steno.backends import cpu, reference
from steno.compiler.graph_builder import to_graph
from steno.compiler.materialize import materialize
from steno.core.aval import ShapedArray
from steno.core.config import verify
from steno.core.interpret import to_ndarray
from steno.core.trace import trace_to_jaxpr
from steno.ir.loops import ColReduce, CopyBuffer, Kernel, LibraryCall, RowReduce
from steno.lax import fori_loop
from steno.numpy import asarray
from steno.ops.arithmetic import add, div, max_, mul, sub
from steno.ops.cumulative import cumsum
from steno.ops.dot import dot_general
from steno.ops.index import dynamic_update_slice
from steno.ops.join import concatenate
from steno.ops.reduce import reduce_max, reduce_sum
from steno.ops.shape import broadcast_in_dim, pad, reshape, rev, slice_, transpose
from steno.ops.sort import sort
from steno.ops.transcendental import exp, sqrt

RNG = np.random.default_rng(0)


def f32(*shape):
    return ShapedArray(shape, np.dtype("float32"))


def program(f, *avals):
    return trace_to_jaxpr(lambda *args: list(out) if isinstance(out := f(*args), list | tuple) else [out], list(avals))


def compiled(f, *avals, donated=()):
    return cpu.compile(program(f, *avals), donated=frozenset(donated))


def statements(f, *avals, **options):
    return compiled(f, *avals, **options).compiled.program.statements


def stages(statement):
    return [type(s).__name__ for s in statement.stages]


def check(f, *arrays, ulps=16):
    """Compiled equals the reference backend: to a few units in the last place of the result's largest element for reordered sums."""
    avals = [ShapedArray(x.shape, x.dtype) for x in arrays]
    p = program(f, *avals)
    got, want = cpu.compile(p).run(arrays), reference.compile(p).run(arrays)
    for g, w in zip(got, want, strict=True):
        assert g.aval == w.aval
        g, w = to_ndarray(g), to_ndarray(w)
        if g.dtype.kind == "f":
            np.testing.assert_allclose(g, w, rtol=ulps * 2.0**-23, atol=ulps * 2.0**-23 * np.abs(w).max(initial=1e-30))
        else:
            np.testing.assert_array_equal(g, w)


def spread(x, shape, dims):
    return broadcast_in_dim(x, shape=shape, broadcast_dimensions=dims, sharding=None)


def total(x, axes):
    return reduce_sum(x, axes=axes)


def softmax(x):
    e = exp(sub(x, spread(reduce_max(x, axes=(1,)), x.shape, (0,))))
    return div(e, spread(total(e, (1,)), x.shape, (0,)))


def layer_norm(x, g, b):
    n, m = x.shape
    mean = div(spread(total(x, (1,)), (n, 1), (0,)), np.float32(m))
    d = sub(x, spread(mean, (n, m), (0, 1)))
    variance = div(spread(total(mul(d, d), (1,)), (n, 1), (0,)), np.float32(m))
    scale = sqrt(add(variance, np.float32(1e-5)))
    return add(mul(div(d, spread(scale, (n, m), (0, 1))), spread(g, (n, m), (1,))), spread(b, (n, m), (1,)))


def test_elementwise_chain_is_one_flat_kernel():
    def f(x, y):
        return add(mul(exp(x), y), np.float32(1))

    (kernel,) = statements(f, f32(7, 5, 3), f32(7, 5, 3))
    assert kernel.outer == () and [v.extent for v in kernel.stages[0].vars] == [105]
    check(f, *RNG.standard_normal((2, 7, 5, 3), dtype=np.float32))


def test_softmax_reads_its_rows_once():
    (kernel,) = statements(softmax, f32(64, 1024))
    assert stages(kernel) == ["RowReduce", "MapStage", "RowReduce", "MapStage"]
    assert [v.extent for v in kernel.outer] == [64]
    kinds = [s.buffer.kind for stage in kernel.stages if stages(kernel) for s in getattr(stage, "stores", ())]
    assert kinds == ["local", "output"]  # the exponentials stay in the thread's own row
    check(softmax, RNG.standard_normal((64, 1024), dtype=np.float32))


def test_layer_norm_is_one_kernel():
    (kernel,) = statements(layer_norm, f32(64, 1024), f32(1024), f32(1024))
    assert stages(kernel) == ["RowReduce", "RowReduce", "MapStage"]
    check(layer_norm, *(RNG.standard_normal(s, dtype=np.float32) for s in [(64, 1024), (1024,), (1024,)]))


def test_reduction_takes_over_the_map_it_follows():
    """The exponentials are stored before the sum is known; they move into the sum's kernel."""

    def f(x):
        e = exp(x)
        return div(e, spread(total(e, (1,)), x.shape, (0,)))

    (kernel,) = statements(f, f32(64, 512))
    assert stages(kernel) == ["MapStage", "RowReduce", "MapStage"]
    check(f, RNG.standard_normal((64, 512), dtype=np.float32))


def test_long_reduction_is_cut_in_blocks():
    def f(x):
        return div(x, total(x, (0, 1)))

    blocks, tree, scale = statements(f, f32(500, 400))
    assert isinstance(blocks.stages[0], RowReduce) and blocks.stages[0].block is not None
    assert [v.extent for v in blocks.outer] == [-(-200_000 // 4096)]
    check(f, RNG.random((500, 400), dtype=np.float32))


def test_leading_axis_reduces_by_columns():
    def f(x):
        return total(x, (0,))

    (kernel,) = statements(f, f32(300, 40))
    assert isinstance(kernel.stages[0], ColReduce)
    check(f, RNG.standard_normal((300, 40), dtype=np.float32))


def test_few_elements_reduce_where_they_are_read():
    def f(x):
        return sqrt(total(mul(x, x), (1,)))

    (kernel,) = statements(f, f32(100, 3))
    assert stages(kernel) == ["MapStage"]
    check(f, RNG.standard_normal((100, 3), dtype=np.float32))


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2), ()])
def test_reductions_over_any_axes(axes):
    check(lambda x: total(x, axes), RNG.standard_normal((9, 33, 70), dtype=np.float32))


def test_row_kernel_ends_where_rows_mix():
    """The reversal along the rows' axis reads other rows, so it cannot join their kernel."""

    def f(x):
        s = softmax(x)
        return add(rev(s, dimensions=(0,)), s)

    assert len(statements(f, f32(32, 256))) == 2
    check(f, RNG.standard_normal((32, 256), dtype=np.float32))


def test_views_cost_nothing():
    def f(x):
        y = transpose(reshape(x, new_sizes=(6, 4), dimensions=None, sharding=None), permutation=(1, 0))
        z = slice_(y, start_indices=(1, 0), limit_indices=(4, 6), strides=None)
        return mul(z, np.float32(2))

    assert len(statements(f, f32(24))) == 1
    check(f, RNG.standard_normal(24, dtype=np.float32))


def test_pad_and_concatenate_fuse():
    def f(x, y):
        return exp(concatenate(pad(x, np.float32(0.5), padding_config=((1, 2, 1),)), mul(y, y), dimension=0))

    assert len(statements(f, f32(5), f32(9))) <= 2
    check(f, RNG.standard_normal(5, dtype=np.float32), RNG.standard_normal(9, dtype=np.float32))


def pieces(*shapes, dtype=np.float32):
    return [RNG.integers(0, 99, s).astype(dtype) for s in shapes]


def kernels(f, *avals):
    found = statements(f, *avals)
    assert all(isinstance(s, Kernel) for s in found)
    return found


@pytest.mark.parametrize("axis", [0, 1])
def test_each_piece_of_a_stored_concatenation_is_a_kernel(axis):
    def f(x, y):
        return concatenate(x, mul(y, y), dimension=axis)

    found = kernels(f, f32(80, 70), f32(80, 70))
    assert [s.name for s in found] == ["pieces_concatenate"] * 2
    assert all(store.guard is None for s in found for stage in s.stages for store in stage.stores)
    check(f, *pieces((80, 70), (80, 70)))


def test_a_concatenation_that_is_read_is_a_selection():
    def f(x, y):
        return exp(concatenate(x, y, dimension=0))

    assert len(kernels(f, f32(80, 70), f32(80, 70))) == 1
    x, y = (RNG.standard_normal((80, 70), dtype=np.float32) for _ in range(2))
    check(f, x, y)


def test_pieces_that_alternate_are_selected():
    def f(*xs):
        return concatenate(*xs, dimension=1)

    assert len(kernels(f, *[f32(5000, 1)] * 3)) == 1
    check(f, *pieces(*[(5000, 1)] * 3))
    check(f, *pieces(*[(700, 1)] * 17))


@pytest.mark.parametrize("count", [5, 40, 300])
def test_small_pieces_of_one_shape_share_kernels(count):
    def f(*xs):
        return concatenate(*xs, dimension=0)

    assert len(kernels(f, *[f32(7)] * count)) == -(-count // 16)
    check(f, *pieces(*[(7,)] * count))


def test_pieces_of_expensive_operands_stay_apart():
    def f(x):
        parts = []
        for k in range(40):
            y = mul(x, np.float32(k))
            for _ in range(6):
                y = exp(mul(y, np.float32(0.01)))
            parts.append(y)
        return concatenate(*parts, dimension=0)

    check(f, RNG.standard_normal(9, dtype=np.float32))


@pytest.mark.parametrize("dtype", ["bool", "int8", "bfloat16", "float64", "complex64"])
def test_pieces_of_all_kinds(dtype):
    d = np.dtype(getattr(ml_dtypes, dtype, dtype))
    shapes = [(2, 3), (2, 0), (2, 1), (2, 3), (2, 5), (2, 3), (2, 0)]

    def f(*xs):
        return [concatenate(*xs, dimension=1), concatenate(xs[0], xs[0], xs[3], xs[0], xs[0], xs[5], dimension=0)]

    check(f, *pieces(*shapes, dtype=d))


def test_a_concatenation_is_updated_in_place():
    def f(x, y, i):
        return dynamic_update_slice(concatenate(*[x] * 6, dimension=0), y, i)

    found = statements(f, f32(2000), f32(3), ShapedArray((), np.dtype(np.int32)))
    assert not any(isinstance(s, CopyBuffer) for s in found)
    check(f, *pieces((2000,), (3,)), np.asarray(4, np.int32))


def test_pieces_do_not_overwrite_what_they_read():
    def f(x):
        return concatenate(
            *[slice_(x, start_indices=(k,), limit_indices=(k + 1000,), strides=None) for k in (3000, 1000, 0, 4000, 2000)], dimension=0
        )

    (x,) = pieces((5000,))
    assert cpu.compile(program(f, f32(5000)), donated=frozenset([0])).compiled.aliases == ()

    def loop(x):
        return fori_loop(0, 3, lambda i, x: f(x) + 1, x)

    want = x
    for _ in range(3):
        want = np.concatenate([want[k : k + 1000] for k in (3000, 1000, 0, 4000, 2000)]) + 1
    np.testing.assert_array_equal(jit(loop)(x), want)
    np.testing.assert_array_equal(jit(loop, donate_argnums=0)(asarray(x)), want)


def test_large_borders_are_not_read_through():
    """Rows of a pad or a concatenation that lie far outside of an operand."""

    def f(x, y):
        wide = pad(y, np.float32(1), padding_config=((3000, 4000, 0), (0, 0, 0)))
        return mul(concatenate(x, wide, x, dimension=0), np.float32(2))

    check(f, *pieces((3000, 21), (50, 21)))


def test_broadcast_expensive_value_is_stored_once():
    def f(x):
        return spread(exp(exp(x)), (50, 40), (1,))

    graph = to_graph(program(f, f32(40)))
    names = {v.node.name for v in materialize(graph)}
    assert names == {"exp", "broadcast_in_dim"}
    check(f, RNG.random(40, dtype=np.float32))


def test_contraction_takes_layouts_as_strides():
    dims = (((1,), (0,)), ((), ()))

    def f(x, y):
        t = transpose(x, permutation=(1, 0))
        return dot_general(t, y, dimension_numbers=dims, precision=None, preferred_element_type=np.dtype("float32"), out_sharding=None)

    (call,) = statements(f, f32(30, 20), f32(30, 10))
    assert isinstance(call, LibraryCall)
    check(f, RNG.standard_normal((30, 20), dtype=np.float32), RNG.standard_normal((30, 10), dtype=np.float32))


def test_small_siblings_share_a_kernel():
    def f(*xs):
        return [add(mul(x, np.float32(2)), np.float32(1)) for x in xs]

    (kernel,) = statements(f, *[f32(4, 4)] * 16)
    assert len(kernel.stages[0].stores) == 16


def test_long_programs_are_cut():
    def f(x):
        for k in range(400):
            x = add(mul(exp(x), np.float32(0.5)), np.float32(k % 3))
        return x

    made = statements(f, f32(100))
    assert 2 <= len(made) <= 100
    assert all(isinstance(s, Kernel) for s in made)


def test_update_of_a_dying_value_is_in_place():
    def f(x, u):
        y = exp(x)
        return dynamic_update_slice(y, u, np.int32(2))

    made = statements(f, f32(100), f32(5))
    assert not any(isinstance(s, CopyBuffer) for s in made)
    check(f, RNG.random(100, dtype=np.float32), RNG.random(5, dtype=np.float32))


def test_update_of_an_argument_copies_unless_donated():
    def f(x, u):
        return dynamic_update_slice(x, u, np.int32(2))

    assert any(isinstance(s, CopyBuffer) for s in statements(f, f32(100), f32(5)))
    made = compiled(f, f32(100), f32(5), donated=[0])
    assert not any(isinstance(s, CopyBuffer) for s in made.compiled.program.statements)
    assert made.compiled.aliases == ((0, 0),)
    check(f, RNG.random(100, dtype=np.float32), RNG.random(5, dtype=np.float32))


def test_donated_argument_gives_its_memory_only_where_that_is_safe():
    elementwise = compiled(lambda x: mul(x, np.float32(2)), f32(10, 10), donated=[0])
    assert elementwise.compiled.aliases == ((0, 0),)
    mixing = compiled(lambda x: add(x, transpose(x, permutation=(1, 0))), f32(10, 10), donated=[0])
    assert mixing.compiled.aliases == ()


def test_arena_is_reused():
    def f(x, y):
        for _ in range(6):
            x = dot_general(
                x,
                y,
                dimension_numbers=(((1,), (0,)), ((), ())),
                precision=None,
                preferred_element_type=np.dtype("float32"),
                out_sharding=None,
            )
        return x

    made = compiled(f, f32(32, 32), f32(32, 32)).compiled.program
    assert len(made.arena) == 5 and made.arena_bytes == 32 * 32 * 4  # the result's memory is used in turn with the arena


def test_results_that_are_arguments_constants_or_equal():
    made = compiled(lambda x: [x, mul(x, x), mul(x, x)], f32(4))
    assert [where for where, _ in made.results] == ["input", "output", "output"]
    x = np.arange(4, dtype=np.float32)
    a, b, c = made.run([x])
    np.testing.assert_array_equal(to_ndarray(a), x)
    np.testing.assert_array_equal(to_ndarray(b), x * x)
    assert b is c


def test_cumulative_and_empty():
    check(lambda x: cumsum(x, axis=0, reverse=False), RNG.random((5, 7), dtype=np.float32))
    check(lambda x: cumsum(x, axis=1, reverse=True), RNG.random((5, 7), dtype=np.float32))
    check(lambda x: [total(x, (0,)), exp(x)], np.zeros((0, 3), np.float32))
    check(lambda x: max_(x, np.float32(0)), np.zeros((2, 0), np.float32))


def test_outer_products_fuse():
    dims = (((), ()), ((0,), (0,)))

    def f(x, y):
        p = dot_general(x, y, dimension_numbers=dims, precision=None, preferred_element_type=np.dtype("float32"), out_sharding=None)
        return add(p, np.float32(1))

    (kernel,) = statements(f, f32(7, 20), f32(7, 30))
    assert isinstance(kernel, Kernel)
    check(f, RNG.standard_normal((7, 20), dtype=np.float32), RNG.standard_normal((7, 30), dtype=np.float32))


def test_narrow_product_is_read_by_what_joins_its_rounding():
    dims = (((1,), (1,)), ((), ()))
    bf16 = np.dtype("bfloat16")

    def f(x):
        p = dot_general(x, x, dimension_numbers=dims, precision=None, preferred_element_type=bf16, out_sharding=None)
        return [div(p, np.asarray(4, bf16)), mul(p, p)]

    x = RNG.standard_normal((11, 5), dtype=np.float32).astype(bf16)
    p = program(f, ShapedArray(x.shape, bf16))
    for g, w in zip(cpu.compile(p).run([x]), reference.compile(p).run([x]), strict=True):
        np.testing.assert_allclose(to_ndarray(g).astype(np.float32), to_ndarray(w).astype(np.float32), rtol=2**-6, atol=2**-6)


def test_an_array_changes_in_place_after_a_row_kernel_that_took_its_reader_over():
    """The elementwise kernel that a reduction takes over is no reader any more: nothing waits for it."""

    def f(x):
        y = exp(x)
        (z,) = sort(x, dimension=1, is_stable=True, num_keys=1)
        return [y, reduce_sum(y, axes=(1,), out_sharding=None), z]

    x = RNG.standard_normal((30, 40), dtype=np.float32)
    got = jit(f, donate_argnums=0)(asarray(x))
    for g, w in zip(got, [np.exp(x), np.exp(x).sum(1), np.sort(x, 1)], strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-5)


def test_kernels_of_one_structure_are_made_once(monkeypatch):
    from steno.compiler import emit  # noqa: PLC0415 - what is patched

    made = []
    inner = emit.emit_kernel
    monkeypatch.setattr(emit, "emit_kernel", lambda kernel, *rest: made.append(kernel) or inner(kernel, *rest))
    with verify(False):

        def layers(x, zeros):
            for k in range(8):
                x = snp.sort(snp.where(x > 1, zeros[k], x))
            return x

        x = np.linspace(-2, 2, 40, dtype=np.float32)
        same = steno.jit(lambda x: layers(x, [0.0] * 8))
        assert np.array_equal(np.asarray(same(x)), np.where(x > 1, 0, x)[np.argsort(np.where(x > 1, 0, x), kind="stable")])
        count = len(made)
        assert count <= 3
        made.clear()
        signs = np.signbit(np.asarray(steno.jit(lambda x: layers(x, [-0.0, 0.0] * 4))(x)))
        assert len(made) == count + 1 and signs[np.asarray(same(x)) == 0].all()
