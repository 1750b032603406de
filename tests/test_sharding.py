"""Meshes, shardings and functions over devices, on one and on several; tokens; layouts."""

from __future__ import annotations

import gc
import importlib
import pickle

import numpy as np
import pytest

import steno
import steno.numpy as snp
from steno import device, lax
from steno.experimental import mesh_utils, multihost_utils
from steno.experimental.layout import Format, Layout
from steno.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding

MESH = steno.make_mesh((1, 1), ("x", "y"))
PLACE = NamedSharding(MESH, P("x"))
X3 = np.ones(3)


def test_partition_specs_are_sequences_and_interned():
    assert P("x") is P(("x",)) and P(()) is P(None) and P("x") != ("x",) and P("x") != P("x", None)
    assert list(P("x", None)) == ["x", None] and P("x", "y").index("y") == 1 and P("x") + ("y",) is P("x", "y")
    assert ("y",) + P("x") is P("y", "x") and P("x", unreduced={"z"}) + P("a", unreduced={"b"}) == P("x", "a", unreduced={"z", "b"})
    assert repr(P("a", None, unreduced={"c"})) == "P('a', None, unreduced={'c'}, unreduced_kind=sum)" and repr(P("a")) == "P('a',)"
    assert pickle.loads(pickle.dumps(P("x"))) is P("x") and pickle.loads(pickle.dumps(PLACE)) == PLACE


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: P("x", ("a", ("b",))), ValueError, "tuple"),
        (lambda: P("x", unreduced={"x"}), ValueError, "overlap"),
        (lambda: P(unreduced={None}), ValueError, "cannot contain None"),
        (lambda: P(unreduced="x"), TypeError, "must be a set"),
        (lambda: NamedSharding(MESH, P("q")), ValueError, "not found in mesh"),
        (lambda: NamedSharding(MESH, P("x", "x")), ValueError, "more than one axis"),
        (lambda: NamedSharding(MESH, ("x",)), TypeError, "must be a PartitionSpec"),
        (lambda: NamedSharding(MESH, P(), memory_kind="tape"), ValueError, "memory kind"),
        (lambda: PLACE.check_compatible_aval(()), ValueError, "rank 0"),
        (lambda: Mesh(np.array(steno.devices()), (None,)), ValueError, "cannot be None"),
        (lambda: steno.make_mesh((2,), ("x",)), ValueError, "there is one"),
        (lambda: AbstractMesh((2,), ("x",), axis_types="explicit"), TypeError, "must be of type"),
        (lambda: AbstractMesh((2, 2), ("x", "y"), axis_types=AxisType.Auto), ValueError, "should match"),
        (lambda: steno.set_mesh(3), ValueError, "expected a Mesh"),
        (lambda: steno.device_put(1.0, P("x")), ValueError, "needs a mesh"),
        (lambda: steno.device_put(1.0, "cpu"), ValueError, "Received invalid value"),
        (lambda: steno.device_put(1.0, PLACE), ValueError, "rank 0"),
        (lambda: steno.device_put({"a": 1, "b": 2}, {"a": [None], "b": (None,)}), ValueError, r"Mismatch details \(2 found\)"),
        (lambda: steno.device_put(snp.ones(1), may_alias=True, donate=True), ValueError, "at the same time"),
        (lambda: steno.make_array_from_single_device_arrays((3,), PLACE, snp.ones(3)), TypeError, "list or tuple"),
        (lambda: steno.make_array_from_single_device_arrays((3,), PLACE, [snp.ones(4)]), ValueError, r"shape \(3,\)"),
        (lambda: steno.make_array_from_callback((3,), PLACE, lambda i: np.ones(4)), ValueError, "shape"),
        (lambda: steno.pmap(lambda x: x)(np.ones((2, 3))), ValueError, "2 devices"),
        (lambda: steno.shard_map(lambda x: x, out_specs=P())(1.0), ValueError, "there is no mesh"),
        (lambda: steno.shard_map(lambda x: x, mesh=MESH, in_specs=P("x"), out_specs=P())(1.0), ValueError, "rank 0"),
        (lambda: steno.shard_map(lambda x: x, mesh=AbstractMesh((2,), "x"), in_specs=P("x"), out_specs=P())(X3), ValueError, "divisible"),
        (lambda: steno.shard_map(lambda x: x, mesh=AbstractMesh((3,), "x"), in_specs=P("x"), out_specs=P())(X3), ValueError, "can't be"),
        (lambda: steno.shard_map(lambda x: x, mesh=MESH, in_specs=P("x"), out_specs=P(), axis_names={"y"})(X3), ValueError, "axis_names"),
        (lambda: steno.shard_map(lambda x: x, mesh=MESH, in_specs=P("x"), out_specs=P(), axis_names={"z"})(X3), ValueError, "not in the"),
        (lambda: steno.make_mesh((1, 1), ("x",)), ValueError, "same number"),
        (lambda: steno.distributed.initialize(num_processes=2), NotImplementedError, "num_processes=2"),
        (lambda: Layout((1, 0)), NotImplementedError, "order of C"),
        (lambda: lax.after_all(1), TypeError, "token"),
    ],
)  # fmt: skip
def test_misuse(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_arrays_say_where_they_were_put():
    x = steno.device_put(np.arange(4.0), PLACE)
    assert x.sharding == PLACE and x.committed and steno.device_put(x, PLACE) is x and steno.device_put(x) is x
    y = x + 1
    assert isinstance(y.sharding, SingleDeviceSharding) and not y.committed
    tree = steno.device_put({"a": 1, "b": (2, np.ones(3))}, {"a": steno.devices()[0], "b": None})
    assert tree["a"].committed and not tree["b"][0].committed
    assert steno.device_put(x, Format(Layout((0,)), PLACE)).sharding == PLACE
    known = len(device._places)
    del x, tree
    gc.collect()
    assert len(device._places) < known


def test_the_mesh_that_is_set():
    assert steno.get_mesh().empty and steno.get_abstract_mesh().size == 0
    with steno.set_mesh(MESH):
        assert steno.get_mesh() == MESH and steno.get_abstract_mesh() == MESH.abstract_mesh
        assert steno.reshard(np.arange(4.0), P("x")).sharding == PLACE
        assert lax.with_sharding_constraint({"a": np.ones(2)}, P())["a"].sharding == NamedSharding(MESH, P())
        assert steno.jit(lambda x: lax.with_sharding_constraint(x, P("x")) * 2)(np.ones(2)).shape == (2,)
    assert steno.get_mesh().empty
    assert str(MESH) == "Mesh('x': 1, 'y': 1, axis_types=(Explicit, Explicit))" and MESH.shape == {"x": 1, "y": 1}
    assert Mesh(np.array(steno.devices()), "x").auto_axes == ("x",) and MESH.explicit_axes == ("x", "y")
    assert mesh_utils.create_device_mesh((1, 1)).shape == (1, 1)


def test_pmap_over_one_device():
    f = steno.pmap(lambda x, y: lax.psum(x, "i") * y + lax.axis_index("i"), axis_name="i", in_axes=(0, None))
    np.testing.assert_array_equal(f(np.ones((1, 3), np.float32), 2.0), 2 * np.ones((1, 3)))
    assert steno.pmap(lambda x: x, out_axes=None)(np.ones((1, 8), np.float32)).shape == (8,)
    g = steno.pmap(lambda x, n: x * n, static_broadcasted_argnums=1)
    np.testing.assert_array_equal(g(np.ones((1, 2), np.float32), 3), 3 * np.ones((1, 2)))
    assert steno.grad(lambda x: steno.pmap(lambda y: y * y)(x).sum())(np.ones((1, 2), np.float32)).tolist() == [[2.0, 2.0]]


def test_shard_map_binds_the_axes_of_the_mesh():
    def f(a):
        return lax.psum(a, "x") + lax.axis_index("y") + lax.all_gather(a, "y", tiled=True)

    g = steno.shard_map(f, mesh=MESH, in_specs=P("x"), out_specs=P("x"))
    x = snp.arange(3.0)
    np.testing.assert_array_equal(g(x), 2 * x)
    np.testing.assert_array_equal(steno.jit(steno.grad(lambda a: g(a).sum()))(x), 2 * np.ones(3))
    with steno.set_mesh(MESH):
        np.testing.assert_array_equal(steno.smap(lambda a: lax.pmean(a, "x"), axis_name="x")(x), x)


def test_tokens_pass_through_programs():
    token = lax.create_token()
    x, out = steno.jit(lambda x, t: (x + 1, t))(1.0, lax.after_all(token, token))
    assert x == 2 and isinstance(out, steno.extend.core.Token) and out is not token
    assert steno.vmap(lambda x: (lax.dce_sink(x), x)[1])(np.ones(2)).shape == (2,)


def test_one_process():
    assert multihost_utils.process_allgather(np.ones(3)).shape == (1, 3)
    assert multihost_utils.process_allgather(np.ones(3), tiled=True).shape == (3,)
    assert not steno.distributed.is_initialized()
    steno.distributed.initialize()
    assert steno.distributed.is_initialized()
    steno.distributed.shutdown()


def test_shardings_are_shown(capsys):
    seen = []
    x = steno.device_put(np.arange(4.0), PLACE)
    steno.debug.inspect_array_sharding(x, callback=seen.append)
    steno.jit(lambda x: steno.debug.inspect_array_sharding(x, callback=seen.append))(x)
    assert seen == [PLACE, SingleDeviceSharding(steno.devices()[0])]
    steno.debug.visualize_array_sharding(x)
    assert "CPU 0" in capsys.readouterr().out
    with pytest.raises(ValueError, match="one or two axes"):
        steno.debug.visualize_sharding((), PLACE)


def test_types_of_arrays_tell_where_they_were_put():
    assert steno.ShapeDtypeStruct.like(snp.ones(3)).sharding is None
    assert steno.ShapeDtypeStruct.like(steno.device_put(snp.ones(3), PLACE)).sharding == PLACE
    with pytest.raises(TypeError, match="Subclassing"):
        type("Mine", (P,), {})


def test_a_traced_array_has_no_sharding():
    def f(x):
        with pytest.raises(AttributeError, match="typeof"):
            x.sharding  # noqa: B018
        return x

    steno.jit(f)(1.0)
    with pytest.raises(TypeError, match="in_axes"):
        steno.pmap(lambda x: x, in_axes=True)


@pytest.fixture
def eight_devices():
    steno.config.update("jax_num_cpu_devices", 8)
    yield steno.devices()
    steno.config.update("jax_num_cpu_devices", -1)


def test_arrays_on_several_devices(eight_devices, capsys):
    mesh = steno.make_mesh((2, 4), ("x", "y"))
    place = NamedSharding(mesh, P("x", "y"))
    want = np.arange(32.0, dtype=np.float32).reshape(4, 8)
    x = steno.device_put(want, place)
    assert steno.device_count() == 8 and x.devices() == set(eight_devices) and not x.is_fully_replicated
    assert mesh.device_ids.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]] and place.shard_shape(x.shape) == (2, 2)
    for shard in x.addressable_shards:
        np.testing.assert_array_equal(shard.data, want[shard.index])
        assert shard.data.device is shard.device and shard.replica_id == 0
    assert x.addressable_shards[6].index == (slice(2, 4), slice(4, 6))
    rows = steno.device_put(x, NamedSharding(mesh, P("x")))
    assert [s.replica_id for s in rows.addressable_shards] == [0, 1, 2, 3] * 2
    assert rows.sharding.is_equivalent_to(NamedSharding(mesh, P("x", None)), 2) and not rows.sharding.is_equivalent_to(place, 2)
    again = steno.make_array_from_single_device_arrays((4, 8), place, [s.data for s in x.addressable_shards][::-1])
    np.testing.assert_array_equal(again, want)
    np.testing.assert_array_equal(steno.make_array_from_callback((4, 8), place, lambda i: want[i]), want)
    with pytest.raises(ValueError, match="divisible"):
        steno.device_put(np.ones((3, 8)), place)
    with pytest.raises(ValueError, match="needs 16 devices, there are 8"):
        steno.make_mesh((16,), ("x",))
    steno.debug.visualize_array_sharding(rows)
    assert "CPU 4,5,6,7" in capsys.readouterr().out
    assert mesh_utils.create_device_mesh((4, 2)).shape == (4, 2)
    y = steno.device_put(1.0, eight_devices[3])
    assert y.device is eight_devices[3] and pickle.loads(pickle.dumps(y.device)) is eight_devices[3]


def test_pmap_over_several_devices(eight_devices):
    x = np.arange(12.0, dtype=np.float32).reshape(4, 3)
    f = steno.pmap(lambda x, y: (lax.psum(x, "i") * y + lax.axis_index("i"), x), axis_name="i", in_axes=(0, None), out_axes=(1, 0))
    a, b = f(x, 2.0)
    np.testing.assert_array_equal(a, (2 * x.sum(0) + np.arange(4)[:, None]).T)
    assert a.sharding.spec == P(None, "i") and b.sharding.spec == P("i") and b.sharding.num_devices == 4
    assert steno.pmap(lambda x: x.sum(), in_axes=1, out_axes=None)(x) == x[:, 0].sum()
    assert steno.pmap(lambda: 3, axis_size=2)().tolist() == [3, 3]
    with pytest.raises(ValueError, match="there are 8"):
        steno.pmap(lambda x: x)(np.ones(9))
    with pytest.raises(ValueError, match="same size"):
        steno.pmap(lambda x, y: x)(np.ones(2), np.ones(3))


def test_shard_map_over_several_devices(eight_devices):
    mesh = steno.make_mesh((2, 4), ("x", "y"))
    a, b = (np.random.default_rng(0).standard_normal(s).astype(np.float32) for s in ((4, 8), (8, 5)))
    product = steno.shard_map(
        lambda a, b: lax.psum(a @ b, "y"), mesh=mesh, in_specs=(P("x", "y"), P("y", None)), out_specs=P("x", None)
    )  # fmt: skip
    c = product(a, b)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-5)
    assert c.sharding == NamedSharding(mesh, P("x", None)) and c.addressable_data(0).shape == (2, 5)
    np.testing.assert_allclose(steno.jit(steno.grad(lambda a: product(a, b).sum()))(a), np.ones((4, 5)) @ b.T, rtol=1e-4, atol=1e-5)
    x = np.arange(16.0, dtype=np.float32)

    def over(f, in_specs, out_specs, **options):
        return steno.shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, **options)(x)

    np.testing.assert_array_equal(over(lambda v: 2 * v, P(("y", "x")), P(("y", "x"))), 2 * x)
    np.testing.assert_array_equal(over(lambda v: lax.ppermute(v, "x", [(0, 1), (1, 0)]), P("x"), P("x")), np.roll(x, 8))
    np.testing.assert_array_equal(over(lambda v: lax.all_gather(v, "x", tiled=True), P("x"), P()), x)
    np.testing.assert_array_equal(over(lambda v: v[:1] + lax.axis_index("y"), P("x"), P("y"), check_vma=False), np.arange(4))
    np.testing.assert_array_equal(over(lambda v: lax.psum(1.0, "x") * v, P("x"), P("x"), axis_names={"x"}), 2 * x)
    np.testing.assert_array_equal(over(lambda v: v, P(), P("y")), np.concatenate([x] * 4))
    with steno.set_mesh(mesh):
        total = steno.smap(lambda v: lax.psum(v, "x"), in_axes=0, out_axes=None, axis_name="x")(x)
        np.testing.assert_array_equal(total, x[:8] + x[8:])
        placed = steno.device_put(x, P("x"))
        np.testing.assert_array_equal(steno.shard_map(lambda v: v - v[0], out_specs=P("x"))(placed), x - 8 * (x >= 8))


def test_axes_of_another_type(eight_devices):
    mesh = steno.make_mesh((8,), ("x",))
    x = np.arange(8.0)
    with pytest.raises(ValueError, match="no mesh"):
        steno.sharding.auto_axes(lambda v: v, out_sharding=P("x"))(x)
    with steno.set_mesh(mesh):
        double = steno.sharding.auto_axes(lambda v: 2 * v * steno.get_abstract_mesh().are_all_axes_auto, axes="x")
        y = double(x, out_sharding=P("x"))
        assert y.sharding == NamedSharding(mesh, P("x")) and y[1] == 2
        with pytest.raises(TypeError, match="out_sharding"):
            double(x)
        with pytest.raises(ValueError, match="not in the mesh"):
            steno.sharding.auto_axes(lambda v: v, axes="z", out_sharding=P())(x)
        seen = steno.sharding.explicit_axes(lambda v: v.sharding, in_sharding=(P("x"),))(x)
        assert seen == NamedSharding(mesh, P("x"))
        with pytest.raises(TypeError, match="in_sharding"):
            steno.sharding.explicit_axes(lambda v: v)(x)


def test_results_of_jitted_functions_lie_as_they_are_to(eight_devices):
    mesh = steno.make_mesh((8,), ("x",))
    place = NamedSharding(mesh, P("x"))
    f = steno.jit(lambda x: (2 * x, x.sum()), out_shardings=(place, None))
    y, total = f(np.arange(8.0))
    assert y.sharding == place and not total.committed and f.lower(np.ones(8)).compile() is not None
    with pytest.raises(ValueError, match="divisible"):
        f(np.ones(7))
    with steno.set_mesh(mesh):
        g = steno.jit(out_shardings=P("x"), static_argnames="n")(lambda x, n: x * n)
        assert g(np.ones(8), n=3).sharding == place and g.eval_shape(np.ones(8), n=3).sharding == place
    assert [s.sharding for s in f.eval_shape(np.ones(8))] == [place, None]
    assert steno.grad(lambda x: f(x)[0].sum())(np.ones(8))[0] == 2


def test_arrays_like_an_array_lie_where_it_does(eight_devices):
    place = NamedSharding(steno.make_mesh((4, 2), ("x", "y")), P("x", "y"))
    a = steno.device_put(np.arange(16).reshape(8, 2), place)
    like = (
        snp.zeros_like, snp.ones_like, snp.empty_like, lambda a: snp.full_like(a, 3), lambda a: steno.lax.full_like(a, 3), snp.copy,
        snp.array, lambda a: snp.array(a, "int8"), lambda a: a.astype("float32"), lambda a: a.copy(),
        lambda a: steno.lax.full(a.shape, 1, sharding=place),
    )  # fmt: skip
    for f in like:
        assert f(a).sharding == place and len(f(a).addressable_shards) == 8 and f(a).committed
        assert f(snp.ones((8, 2))).committed == (f is like[-1])
    assert not snp.zeros_like(a, shape=(3,)).committed and steno.jit(snp.zeros_like)(a).shape == a.shape
    one = steno.devices()[1]
    assert snp.zeros_like(a, device=one).devices() == {one}


def test_hints_are_accepted(eight_devices):
    names = ("compute_on", "overlap", "scheduling_groups", "topologies")
    compute_on, overlap, groups, topologies = (importlib.import_module(f"steno.experimental.{n}") for n in names)
    f = compute_on.compute_on(compute_type="device_host", out_memory_spaces=steno.memory.Space.Host)(lambda x: x + 1)
    assert f(1.0) == 2 and groups.scheduling_group("a")(lambda x: x + 1)(1.0) == 2
    assert overlap.program_order(enforce=True)(lambda x: x + 1)(1.0) == 2
    with pytest.raises(ValueError, match="compute type"):
        compute_on.compute_on(lambda x: x, compute_type="moon", out_memory_spaces=None)
    topology = topologies.get_attached_topology()
    assert topologies.make_mesh(topology, (2, 4), ("x", "y")).size == 8 == len(topologies.get_topology_desc().devices)
    with pytest.raises(ValueError, match="needs 4 devices"):
        topologies.make_mesh(topology, (4,), ("x",))


def test_custom_partitioning_keeps_its_rules():
    cp = importlib.import_module("steno.experimental.custom_partitioning")
    f = cp.custom_partitioning(lambda x, n: n * x**2, static_argnums=(1,))
    with pytest.raises(AttributeError, match="def_partition"):
        f(1.0, 2)
    with pytest.raises(ValueError, match="must be given"):
        f.def_partition(None)
    f.def_partition(None, sharding_rule="i -> i")
    assert f(3.0, 2) == 18 and steno.grad(f)(3.0, 2) == 12 and steno.vmap(lambda x: f(x, 2))(np.ones(2)).tolist() == [2, 2]
    i, ij = cp.ArrayMapping("i"), cp.ArrayMapping(cp.BATCHING, cp.CompoundFactor("i", "j"))
    assert repr(ij) == "ArrayMapping('…', CompoundFactor('i', 'j'))"
    cp.SdyShardingRule((ij,), (ij,), i=2, reduction_factors=("j",))
    for bad in (lambda: cp.SdyShardingRule((i,), (i,), i=3), lambda: cp.CompoundFactor("i"), lambda: cp.ArrayMapping(1)):
        with pytest.raises(ValueError):
            bad()
