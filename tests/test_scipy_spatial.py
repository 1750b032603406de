"""scipy.spatial.transform against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import transform as sp

import steno
from steno import numpy as jnp, random
from steno.scipy.spatial import transform

rng = np.random.default_rng(0)
QUATS = np.concatenate([rng.standard_normal((5, 4)), [[0, 0, 0, 1], [0, 0, 0, -1], [1, 0, 0, 0], [0, 1e-5, 0, 1], [0.5, 0.5, 0.5, 0.5]]])
OURS, THEIRS = transform.Rotation.from_quat(QUATS.astype(np.float32)), sp.Rotation.from_quat(QUATS)
VECTORS = rng.standard_normal((10, 3)).astype(np.float32)


def same(ours, theirs):
    """Equal rotations, whatever the sign of the quaternions."""
    q = theirs.as_quat()
    np.testing.assert_allclose(np.abs(np.sum(np.asarray(ours.quat) * q, -1)), np.ones(q.shape[:-1]), atol=1e-6)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("as_matrix", ()),
        ("as_rotvec", ()),
        ("as_rotvec", (True,)),
        ("as_mrp", ()),
        ("as_quat", ()),
        ("as_quat", (True,)),
        ("magnitude", ()),
        ("apply", (VECTORS,)),
        ("apply", (VECTORS, True)),
    ],
)
def test_what_a_rotation_is(name, args):
    got, want = getattr(OURS, name)(*args), getattr(THEIRS, name)(*args)
    assert got.dtype == jnp.float32
    # the axis of a half turn has no sign
    got, want = (np.abs(x[:]) if name in ("as_rotvec", "as_mrp") else x for x in (np.asarray(got), want))
    np.testing.assert_allclose(got, want, atol=1e-4 if name == "as_rotvec" and args else 3e-6)
    np.testing.assert_allclose(
        getattr(OURS[1], name)(*(a[1] if a is VECTORS else a for a in args)), getattr(OURS, name)(*args)[1], rtol=1e-5
    )


@pytest.mark.parametrize("seq", ["xyz", "zyx", "XYZ", "ZXZ", "yzy", "YXZ"])
def test_euler_angles(seq):
    got, want = OURS[:5].as_euler(seq), THEIRS[:5].as_euler(seq)
    np.testing.assert_allclose(got, want, atol=1e-5)
    np.testing.assert_allclose(OURS[0].as_euler(seq, degrees=True), np.rad2deg(want[0]), atol=1e-3)
    same(transform.Rotation.from_euler(seq, want.astype(np.float32)), THEIRS[:5])
    assert not jnp.isnan(OURS.as_euler(seq)).any()


def test_angles_that_only_their_sum_determines():
    with steno.enable_x64(True):
        turned = transform.Rotation.from_euler("xyz", np.array([0.3, np.pi / 2, 0.4]))
        angles = turned.as_euler("xyz")
        assert angles[2] == 0
        np.testing.assert_allclose(transform.Rotation.from_euler("xyz", angles).as_matrix(), turned.as_matrix(), atol=1e-7)


@pytest.mark.parametrize("seq", ["x", "Y", "zx", "ZX"])
def test_few_angles(seq):
    angles = rng.standard_normal((3, len(seq))).astype(np.float32)
    same(transform.Rotation.from_euler(seq, angles, True), sp.Rotation.from_euler(seq, angles, True))


def test_where_rotations_come_from():
    same(transform.Rotation.from_matrix(THEIRS.as_matrix().astype(np.float32)), THEIRS)
    same(transform.Rotation.from_rotvec(VECTORS), sp.Rotation.from_rotvec(VECTORS))
    same(transform.Rotation.from_rotvec(VECTORS[0] * 50, degrees=True), sp.Rotation.from_rotvec(VECTORS[0] * 50, degrees=True))
    same(transform.Rotation.from_mrp(VECTORS), sp.Rotation.from_mrp(VECTORS))
    assert transform.Rotation.identity(3).quat.shape == (3, 4) and transform.Rotation.identity().single
    drawn = transform.Rotation.random(random.key(0), 100)
    np.testing.assert_allclose(jnp.linalg.norm(drawn.quat, axis=-1), 1, rtol=1e-5)
    assert np.abs(drawn.as_matrix().mean(0)).max() < 0.2


def test_rotations_together():
    same(OURS * OURS[::-1], THEIRS * THEIRS[::-1])
    same(OURS * OURS[0], THEIRS * THEIRS[0])
    same(OURS.inv(), THEIRS.inv())
    same(transform.Rotation.concatenate([OURS[:2], OURS[3:]]), sp.Rotation.concatenate([THEIRS[:2], THEIRS[3:]]))
    weights = np.abs(VECTORS[:5, 0])
    same(OURS[:5].mean(weights), THEIRS[:5].mean(weights))
    assert len(OURS) == 10 and not OURS.single and OURS[0].single


def test_rotations_are_pytrees():
    back = steno.jit(lambda r: r.inv())(OURS)
    assert isinstance(back, transform.Rotation) and len(back) == 10
    turned = steno.vmap(lambda q, v: transform.Rotation.from_quat(q).apply(v))(OURS.quat, VECTORS)
    np.testing.assert_allclose(turned, OURS.apply(VECTORS), atol=1e-6)


def test_derivatives_at_the_rotation_by_nothing():
    zero, unit = jnp.zeros(3), jnp.array([0.0, 0.0, 0.0, 1.0])
    generators = steno.jacobian(lambda v: transform.Rotation.from_rotvec(v).as_matrix())(zero)
    np.testing.assert_allclose(generators[..., 0], [[0, 0, 0], [0, 0, -1], [0, 1, 0]], atol=1e-6)
    np.testing.assert_allclose(steno.jacobian(lambda q: transform.Rotation.from_quat(q).as_rotvec())(unit), 2 * np.eye(3, 4), atol=1e-6)
    assert jnp.isfinite(steno.grad(lambda q: transform.Rotation.from_quat(q).magnitude())(unit)).all()


def test_interpolation_of_rotations():
    times, at = np.array([0.0, 1.0, 3.0]), np.array([0.0, 0.4, 1.0, 2.5, 3.0])
    ours = transform.Slerp.init(times.astype(np.float32), OURS[:3])
    same(ours(at.astype(np.float32)), sp.Slerp(times, THEIRS[:3])(at))
    assert ours(0.5).single


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (ValueError, lambda: transform.Rotation.from_euler("xyZ", np.ones(3))),
        (ValueError, lambda: transform.Rotation.from_euler("xxy", np.ones(3))),
        (ValueError, lambda: transform.Rotation.from_euler("xyz", np.ones(2))),
        (ValueError, lambda: OURS.as_euler("xy")),
        (ValueError, lambda: transform.Rotation.from_quat(np.ones(3))),
        (ValueError, lambda: OURS * OURS[:3]),
        (ValueError, lambda: OURS.apply(np.ones(4))),
        (TypeError, lambda: OURS[0][0]),
        (TypeError, lambda: len(OURS[0])),
        (TypeError, lambda: OURS * 2),
        (ValueError, lambda: OURS.mean(np.ones(3))),
        (ValueError, lambda: transform.Slerp.init(np.arange(2.0), OURS)),
        (ValueError, lambda: transform.Slerp.init(np.zeros(1), OURS[0])),
    ],
)
def test_errors(error, call):
    with pytest.raises(error):
        call()
