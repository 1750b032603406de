"""NumPy's indexing and functional updates against the real JAX; random indices against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from peer import NO_JAX, Arr, Expr, compare_all, peer

import steno.numpy as jnp

with_jax = pytest.mark.skipif(peer() is None, reason=NO_JAX)

VARIABLES = {
    "f": Arr(np.arange(3, dtype=np.float32)),
    "i": Arr(np.arange(3, dtype=np.int32)),
    "m": Arr(np.arange(6, dtype=np.float32).reshape(2, 3)),
    "t": Arr(np.arange(120, dtype=np.float32).reshape(4, 5, 6)),
    "s": Arr(np.float32(3)),
    "u": Arr(np.array([2, 0], np.uint8)),
    "k": Arr(np.array([5, -5, -1], np.int32)),
    "a": Arr(np.array([0, 1], np.int32)),
    "b3": Arr(np.array([True, False, True])),
    "z": Arr(np.zeros((0, 3), np.float32)),
    "w": Arr(np.arange(3, dtype=np.float32), weak=True),
    "j": Arr(np.int32(1)),
}

READS = """
f[0] f[-1] f[5] f[-5] f[j] f[jnp.array(5)] f[jnp.array(-5)] f[k] f[(0,),] f[([0,1],)] m[[0,1],[0,1]] m[([0,1],),] f[None] f[True]
f[False] m[True] m[True,0] m[:,True]
f[f>0] m[m>2] m[jnp.array([True,False])] m[:,b3] m[0,b3] m[jnp.array([True,False]),b3] f[np.array([True,False,True])]
f[jnp.array([],int)] f[np.int64(1)] f[np.array(1)]
f[1:5] f[::-2] f[5:1:-1] f[j:2] f[jnp.array(0):jnp.array(2)] f[2:1] m[1:1,0] t[0,:,a] t[:,0,a] t[a,:,0] t[a,None,a] t[None,a,a]
t[:,a[None],None,:] t[a[:,None],i] t[j,:,a] t[0,a] t[j]
t[...,a] t[a,...,0] t[a,...,a] t[jnp.array([[True]*5]*4)] t[0:2,jnp.array([[True]*6]*5)] f[u] f[u[0]] f[i,] f[slice(0,2)] f[a,...]
t[1,2,3] t[1,:,::2] t[a[None],1:3] t[1:3,a,::-1]
t[a,1:3,a] t[np.array([],int)] t[(slice(None),)*3] a[jnp.array([[0]])] s[()] s[None] s[...] s[True] t[:,:,-1] t[::2,::3,::-1]
t[-1:,1,None] m[...,0] m[0,...] m[:,j] m[j,1:] m[j,j]
m[j,::2] w[0] w[a] z[:,1] t[a,a,a] t[a,a] t[0,0,a] t[None,...,None] t[1:-1,None,2:,...] m[np.array([[0,1],[1,0]])] m[:,jnp.int8(-1)]
f[jnp.array([-1],'int8')] m.at[0].get() f.at[5].get()
""".split()
MODES = """
f.at[k].get()
f.at[k].get(mode="fill")
f.at[k].get(mode="fill", fill_value=-1)
f.at[k].get(mode="clip")
f.at[k].get(mode="drop")
f.at[k].get(wrap_negative_indices=False)
f.at[k].get(wrap_negative_indices=False, mode="fill")
i.at[k].get(mode="fill")
u.at[k].get(mode="fill")
f.at[5].get(mode="fill")
f.at[j].get(mode="fill")
m.at[j, k].get(mode="fill")
m.at[5, :].get(mode="fill", fill_value=7)
f.at[1:3].get(mode="fill")
m.at[:, k].get(mode="fill", fill_value=0)
t.at[k, 1:3, jnp.array([0, 9, 1])].get(mode="fill")
"""
WRITES = """
f.at[0].set(1)
f.at[5].set(1)
f.at[-5].set(1)
f.at[-1].set(9)
f.at[j].set(9)
f.at[k].set(7.0)
f.at[k].set(jnp.array([7.0, 8.0, 9.0]))
f.at[jnp.array([0, 5])].set(7.0, mode="clip")
f.at[jnp.array([0, 5])].set(7.0, mode="drop")
f.at[jnp.array([0, 5])].set(7.0, mode="fill")
f.at[jnp.array([0, 5])].set(7.0, mode="promise_in_bounds")
f.at[k].set(5, wrap_negative_indices=False)
f.at[jnp.array([0, 0])].add(1)
f.at[jnp.array([0, 1, 1])].multiply(3)
f.at[jnp.array([0, 1, 1])].mul(3)
f.at[1].divide(4)
f.at[2].power(3)
f.at[1].min(-1)
f.at[1].max(7)
f.at[jnp.array([1, 1])].max(jnp.array([3.0, 9.0]))
f.at[1].subtract(7)
f.at[jnp.array([1, 1, 2])].subtract(7)
f.at[1].apply(jnp.cos)
f.at[jnp.array([1, 1])].apply(lambda x: x + 1)
f.at[1:].apply(lambda x: x * 2)
f.at[f > 0].set(9)
m.at[m > 2].set(9)
m.at[m > 2].set(jnp.arange(3.0))
m.at[m > 2].add(1)
m.at[:, 1].set(jnp.arange(2.0))
m.at[:, 1:].add(jnp.array([10.0, 20.0]))
m.at[0].set(f)
m.at[j].set(f)
m.at[j, 1:].set(5)
m.at[j, ::2].set(5)
m.at[:, j].add(jnp.array([10.0, 20.0]))
m.at[::-1].set(jnp.array([[1.0], [2]]))
m.at[:, ::2].set(5)
m.at[:, ::-2].set(jnp.array([1.0, 2.0]))
m.at[a, a].set(jnp.array([7, 8]))
m.at[a, a].add(1)
t.at[0, :, a].set(jnp.zeros((2, 5)))
t.at[:, a, 0].set(jnp.zeros((4, 2)))
t.at[:, a, ::2].add(jnp.ones((4, 2, 3)))
t.at[a, 1:3, a].multiply(2)
t.at[0, None].set(0)
t.at[None, 0, ::2].set(jnp.zeros((1, 3, 6)))
t.at[a[:, None], i].set(-1)
t.at[a[:, None], i].set(jnp.ones((2, 3, 6)))
t.at[..., a].set(jnp.array([1.0, 2.0]))
t.at[1:3, 2:4].set(jnp.zeros((2, 2, 6)))
t.at[1:3, 2:4, 5].set(jnp.array([1.0, 2.0]))
f.at[...].set(0)
f.at[()].set(0)
f.at[:].set(jnp.ones(3))
f.at[None].set(0)
f.at[::-1].set(jnp.arange(3.0))
f.at[2:1].set(1)
s.at[()].add(1)
s.at[...].get()
s.at[()].set(9)
f.at[0:2].set([1, 2])
jnp.zeros(3, "int8").at[0].set(300)
jnp.zeros(3, "complex64").at[0].set(1)
jnp.zeros(3, bool).at[0].set(True)
jnp.zeros(3, bool).at[0].min(True)
jnp.zeros((3, 0)).at[0].set(1)
z.at[:, 0].set(5)
f.at[b3].mul(5)
f.at[0].set(1, unique_indices=True, indices_are_sorted=True)
f.at[u].set(5)
i.at[0].set(np.int32(7))
i.at[0].add(True)
w.at[0].set(1)
w.at[a].add(1.5)
m.at[0, a].min(2, mode="drop")
repr(f.at)
repr(f.at[0])
lax.dynamic_slice(f, (1,), (2,))
lax.dynamic_slice(f, (5,), (2,))
lax.dynamic_slice(f, (-1,), (2,))
lax.dynamic_slice(f, jnp.array([1]), (2,))
lax.dynamic_slice(m, (j, 1), (1, 2))
lax.dynamic_slice(m, (0, -1), (2, 1))
lax.dynamic_slice(m, jnp.array([1, 1], "uint8"), (1, 2))
lax.dynamic_slice_in_dim(f, -1, 1)
lax.dynamic_slice_in_dim(m, j, 2, axis=1)
lax.dynamic_index_in_dim(m, -1)
lax.dynamic_index_in_dim(m, -1, 1, False)
lax.dynamic_update_slice(f, f[:1], (1,))
lax.dynamic_update_slice(f, f[:1], (7,))
lax.dynamic_update_slice(m, jnp.ones((1, 2)), (j, 0))
lax.dynamic_update_index_in_dim(f, 9.0, 1, 0)
lax.dynamic_update_index_in_dim(m, f, -1, 0)
lax.dynamic_update_slice_in_dim(m, f[None], 1, 0)
lax.gather(m, jnp.array([[0], [1], [9]]), lax.GatherDimensionNumbers((1,), (0,), (0,)), (1, 3))
lax.gather(m, jnp.array([[0], [1], [9]]), lax.GatherDimensionNumbers((1,), (0,), (0,)), (1, 3), mode="clip")
lax.gather(m, jnp.array([[0], [9]]), lax.GatherDimensionNumbers((1,), (0,), (0,)), (1, 3), mode="fill", fill_value=5)
lax.gather(t, jnp.array([[[0, 1]], [[2, 3]]]), lax.GatherDimensionNumbers((2, 3), (0,), (0, 2)), (1, 5, 2))
lax.gather(m, jnp.array([[2], [0]]), lax.GatherDimensionNumbers((), (1,), (1,), (0,), (0,)), (1, 1))
lax.scatter(m, jnp.array([[1], [9]]), jnp.ones((2, 3)), lax.ScatterDimensionNumbers((1,), (0,), (0,)))
lax.scatter_add(m, jnp.array([[1], [1]]), jnp.ones((2, 3)), lax.ScatterDimensionNumbers((1,), (0,), (0,)))
lax.scatter_add(m, jnp.array([[1], [9]]), jnp.ones((2, 3)), lax.ScatterDimensionNumbers((1,), (0,), (0,)), mode="clip")
lax.scatter_sub(f, jnp.array([[1], [1]]), jnp.ones(2), lax.ScatterDimensionNumbers((), (0,), (0,)))
lax.scatter_mul(f, jnp.array([[1], [2]]), jnp.array([3.0, 4.0]), lax.ScatterDimensionNumbers((), (0,), (0,)))
lax.scatter_min(f, jnp.array([[1], [2]]), jnp.array([3.0, -4.0]), lax.ScatterDimensionNumbers((), (0,), (0,)))
lax.scatter_max(f, jnp.array([[1], [2]]), jnp.array([3.0, -4.0]), lax.ScatterDimensionNumbers((), (0,), (0,)))
lax.scatter_apply(f, jnp.array([[1], [1]]), lambda x: x + 1, lax.ScatterDimensionNumbers((), (0,), (0,)), update_shape=(2,))
"""


def _calls(sources: list[str]) -> list[Expr]:
    out = []
    for source in sources:
        code = compile(source, "case", "eval")
        names = [*code.co_names, *(n for c in code.co_consts if hasattr(c, "co_names") for n in c.co_names)]
        out.append(Expr(source, **{n: VARIABLES[n] for n in dict.fromkeys(names) if n in VARIABLES}))
    return out


@with_jax
def test_reads() -> None:
    compare_all(_calls(READS + [s for s in MODES.splitlines() if s]))


@with_jax
def test_writes() -> None:
    compare_all(_calls([s for s in WRITES.splitlines() if s]), rtol=1e-6)


# random indices against NumPy


def _random_index(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, ...]:
    idx: list[Any] = []
    axis = 0
    while axis < len(shape):
        n = shape[axis]
        kind = rng.integers(0, 10)
        if kind == 0:
            idx.append(None)
            continue
        if kind == 1:
            idx.append(int(rng.integers(-n, n)))
        elif kind in (2, 3):
            ends = [None if rng.random() < 0.4 else int(rng.integers(-7, 7)) for _ in range(2)]
            idx.append(slice(*ends, rng.choice([None, 1, 2, -1, -2, 3])))
        elif kind == 4:
            idx.append(rng.integers(-n, n, (2,)))
        elif kind == 5:
            idx.append(rng.integers(-n, n, (3, 1)))
        elif kind == 6:
            idx.append(jnp.array(rng.integers(-n, n, (2,))))
        elif kind == 7:
            idx.append(jnp.array(rng.integers(-n, n)))
        elif kind == 8 and rng.random() < 0.3:
            idx.append(rng.random(n) < 0.5)
        elif kind == 9 and axis < 2 and rng.random() < 0.2:
            idx.append(rng.random(shape[axis : axis + 2]) < 0.3)
            axis += 1
        else:
            idx.append(slice(None))
        axis += 1
        if rng.random() < 0.15:
            break
    if rng.random() < 0.2:
        idx.insert(rng.integers(0, len(idx) + 1), Ellipsis)
    return tuple(idx)


@pytest.mark.parametrize("seed", range(4))
def test_random_indices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = np.arange(120, dtype=np.float32).reshape(4, 5, 6)
    a = jnp.asarray(x)
    for _ in range(150):
        idx = _random_index(rng, x.shape)
        host = tuple(np.asarray(i) if hasattr(i, "aval") else i for i in idx)
        try:
            want = x[host]
        except IndexError:  # index arrays that do not broadcast
            with pytest.raises((IndexError, ValueError)):
                a[idx]
            continue
        got = np.asarray(a[idx])
        assert got.shape == want.shape and np.array_equal(got, want), idx
        values = rng.integers(0, 9, want.shape[rng.integers(0, want.ndim + 1) :]).astype(np.float32)
        added = x.copy()
        np.add.at(added, host, values)
        assert np.array_equal(np.asarray(a.at[idx].add(values)), added), idx
        count = np.zeros(x.shape, int)
        np.add.at(count, host, 1)
        if count.max() <= 1:
            replaced = x.copy()
            replaced[host] = values
            assert np.array_equal(np.asarray(a.at[idx].set(values)), replaced), idx


@pytest.mark.parametrize("shape", [(0,), (3,), (0, 2), (2, 0, 3)])
def test_no_positions_of_arrays_without_elements(shape):
    none = np.zeros(0, int)
    x = np.zeros(shape, np.float32)
    for index in [none, (..., none), (none[:, None], none), (none, None, slice(None)), (none.reshape(0, 2),)]:
        if isinstance(index, tuple) and sum(i is not None and i is not Ellipsis for i in index) > len(shape):
            continue
        got = jnp.asarray(x)[index]
        assert got.shape == x[index].shape and got.dtype == x.dtype
