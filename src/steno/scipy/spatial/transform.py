"""scipy.spatial.transform: rotations of three-dimensional space, one or an array of them, as unit quaternions (x, y, z, w).

Leading axes of quaternions, vectors and angles are broadcast together. Where a quotient or a root has no derivative at the rotation by the
angle 0, power series take its place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from steno import numpy as jnp, random as _random
from steno.numpy.operands import Array, ArrayLike, promoted_inexact

_AXES: Final = {"x": 0, "y": 1, "z": 2}
_SMALL: Final = 1e-3
"""Half angles whose square is below this go by power series: the first term that is left out is then below float64's precision."""


def _parts(v: Array) -> list[Array]:
    return [v[..., k] for k in range(v.shape[-1])]


def _product(p: Array, q: Array) -> Array:
    """Hamilton's product: first q, then p."""
    jnp.broadcast_shapes(p.shape[:-1], q.shape[:-1])  # ValueError if they do not fit
    px, py, pz, pw = _parts(p)
    qx, qy, qz, qw = _parts(q)
    return jnp.stack(
        [
            pw * qx + qw * px + (py * qz - pz * qy),
            pw * qy + qw * py + (pz * qx - px * qz),
            pw * qz + qw * pz + (px * qy - py * qx),
            pw * qw - (px * qx + py * qy + pz * qz),
        ],
        axis=-1,
    )


def _unit(q: Array) -> Array:
    return q / jnp.sqrt(jnp.sum(q * q, axis=-1, keepdims=True))


def _canonical(q: Array) -> Array:
    """Of q and -q that with w > 0; if w is 0, the one whose first component that is not 0 is positive."""
    x, y, z, w = _parts(q)
    negative = (w < 0) | ((w == 0) & ((x < 0) | ((x == 0) & ((y < 0) | ((y == 0) & (z < 0))))))
    return jnp.where(negative[..., None], -q, q)


def _imaginary(q: Array) -> tuple[Array, Array, Array]:
    """The sum of squares of x, y, z; whether it is small; its square root, 1 where it is small."""
    n2 = jnp.sum(jnp.square(q[..., :3]), axis=-1)
    small = n2 < _SMALL**2
    return n2, small, jnp.sqrt(jnp.where(small, 1, n2))


def _axes_of(seq: str, count: tuple[int, ...]) -> tuple[list[int], bool]:
    """The axes of a sequence of Euler angles, and whether they turn with the body (capitals). ValueError for what is no sequence."""
    if len(seq) not in count:
        raise ValueError(f"Rotation: seq must name {'3' if count == (3,) else '1 to 3'} axes, got {seq!r}")
    if not (set(seq) <= set("xyz") or set(seq) <= set("XYZ")):
        raise ValueError(f"Rotation: the axes in seq must all be of 'xyz' or all of 'XYZ', got {seq!r}")
    if any(a == b for a, b in zip(seq, seq[1:], strict=False)):
        raise ValueError(f"Rotation: consecutive axes in seq must be different, got {seq!r}")
    return [_AXES[c] for c in seq.lower()], seq.isupper()


class Rotation(NamedTuple):
    """Rotations: `quat` has shape (4,) for a single one, (n, 4) for n of them. Made by `from_*`; `p * q` turns by q first."""

    quat: Array

    @classmethod
    def concatenate(cls, rotations: Sequence[Any]) -> Rotation:
        """The rotations of several objects in one."""
        return cls(jnp.concatenate([r.quat for r in rotations]))

    @classmethod
    def from_euler(cls, seq: str, angles: ArrayLike, degrees: bool = False) -> Rotation:
        """From 1 to 3 angles (..., len(seq)) about axes: lower case: axes that are fixed, upper case: axes that turn with the body."""
        axes, intrinsic = _axes_of(seq, (1, 2, 3))
        (a,) = promoted_inexact("Rotation.from_euler", jnp.asarray(angles))
        if a.ndim == 0:
            a = a[None]
        if a.shape[-1] != len(axes):
            raise ValueError(f"Rotation.from_euler: the last axis of angles must be of length {len(axes)} for {seq!r}, got shape {a.shape}")
        half = (jnp.deg2rad(a) if degrees else a) / 2
        sin, cos = jnp.sin(half), jnp.cos(half)
        out: Any = None
        for k, axis in enumerate(axes):
            parts = [jnp.zeros_like(sin[..., k])] * 3 + [cos[..., k]]
            parts[axis] = sin[..., k]
            q = jnp.stack(parts, axis=-1)
            out = q if out is None else _product(out, q) if intrinsic else _product(q, out)
        return cls(out)

    @classmethod
    def from_matrix(cls, matrix: ArrayLike) -> Rotation:
        """From orthogonal matrices (..., 3, 3) of determinant 1, by the largest of the four components (M. Shepperd, Quaternion from
        rotation matrix, J. Guidance and Control 1, 1978)."""
        (m,) = promoted_inexact("Rotation.from_matrix", jnp.asarray(matrix))
        if m.shape[-2:] != (3, 3):
            raise ValueError(f"Rotation.from_matrix: expected matrices of shape (3, 3), got shape {m.shape}")
        d = [m[..., k, k] for k in range(3)]
        trace = d[0] + d[1] + d[2]
        sums = {(i, j): m[..., i, j] + m[..., j, i] for i, j in ((0, 1), (0, 2), (1, 2))}
        turns = [m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1]]
        # rows: 4 times the component k of the quaternion, times the quaternion
        rows = [
            jnp.stack([1 - trace + 2 * d[i] if i == j else sums[min(i, j), max(i, j)] for j in range(3)] + [turns[i]], axis=-1)
            for i in range(3)
        ] + [jnp.stack([*turns, 1 + trace], axis=-1)]
        largest = jnp.argmax(jnp.stack([*d, trace], axis=-1), axis=-1)[..., None]
        quat = rows[0]
        for k in (1, 2, 3):
            quat = jnp.where(largest == k, rows[k], quat)
        return cls(_unit(quat))

    @classmethod
    def from_mrp(cls, mrp: ArrayLike) -> Rotation:
        """From modified Rodrigues parameters (..., 3): the axis times tan(angle / 4)."""
        (m,) = promoted_inexact("Rotation.from_mrp", jnp.asarray(mrp))
        square = jnp.sum(m * m, axis=-1, keepdims=True)
        return cls(jnp.concatenate([2 * m, 1 - square], axis=-1) / (1 + square))

    @classmethod
    def from_quat(cls, quat: ArrayLike) -> Rotation:
        """From quaternions (..., 4), which are normalized."""
        (q,) = promoted_inexact("Rotation.from_quat", jnp.asarray(quat))
        if q.ndim == 0 or q.shape[-1] != 4:
            raise ValueError(f"Rotation.from_quat: the last axis must be of length 4, got shape {q.shape}")
        return cls(_unit(q))

    @classmethod
    def from_rotvec(cls, rotvec: ArrayLike, degrees: bool = False) -> Rotation:
        """From vectors (..., 3): the axis times the angle."""
        (v,) = promoted_inexact("Rotation.from_rotvec", jnp.asarray(rotvec))
        if degrees:
            v = jnp.deg2rad(v)
        n2, small, n = _imaginary(v / 2)
        scale = jnp.where(small, 1 - n2 / 6 + n2 * n2 / 120, jnp.sin(n) / n)
        real = jnp.where(small, 1 - n2 / 2 + n2 * n2 / 24, jnp.cos(n))
        return cls(jnp.concatenate([v / 2 * scale[..., None], real[..., None]], axis=-1))

    @classmethod
    def identity(cls, num: int | None = None, dtype: Any = float) -> Rotation:
        """The rotation by nothing, or `num` of them."""
        unit = jnp.array([0, 0, 0, 1], dtype)
        return cls(unit if num is None else jnp.tile(unit, (num, 1)))

    @classmethod
    def random(cls, random_key: Array, num: int | None = None) -> Rotation:
        """A uniformly distributed rotation, or `num` of them."""
        return cls(_unit(_random.normal(random_key, (4,) if num is None else (num, 4))))

    def __getitem__(self, indexer: Any) -> Rotation:
        """Some of the rotations. TypeError for a single one."""
        if self.single:
            raise TypeError("Rotation: a single rotation is not subscriptable")
        return Rotation(self.quat[indexer])

    def __len__(self) -> int:
        """The number of rotations. TypeError for a single one."""
        if self.single:
            raise TypeError("Rotation: a single rotation has no len()")
        return self.quat.shape[0]

    def __mul__(self, other: Any) -> Rotation:
        """First `other`, then this one."""
        if not isinstance(other, Rotation):
            return NotImplemented
        return Rotation(_unit(_product(self.quat, other.quat)))

    @property
    def single(self) -> bool:
        """Whether this is one rotation, and no array of them."""
        return self.quat.ndim == 1

    def apply(self, vectors: ArrayLike, inverse: bool = False) -> Array:
        """Vectors (..., 3), turned; inverse: turned back."""
        v, quat = promoted_inexact("Rotation.apply", jnp.asarray(vectors), self.quat)
        if v.ndim == 0 or v.shape[-1] != 3:
            raise ValueError(f"Rotation.apply: the last axis of vectors must be of length 3, got shape {v.shape}")
        jnp.broadcast_shapes(v.shape[:-1], quat.shape[:-1])
        x, y, z, w = _parts(quat)
        if inverse:
            w = -w
        a, b, c = _parts(v)
        tx, ty, tz = 2 * (y * c - z * b), 2 * (z * a - x * c), 2 * (x * b - y * a)
        return jnp.stack([a + w * tx + (y * tz - z * ty), b + w * ty + (z * tx - x * tz), c + w * tz + (x * ty - y * tx)], axis=-1)

    def as_euler(self, seq: str, degrees: bool = False) -> Array:
        """Angles (..., 3) about the axes of `seq`, the second in [-pi/2, pi/2], or in [0, pi] if the first axis is also the third; where
        only the sum or the difference of the others is determined, the third is 0. By E. Bernardes and S. Viollet, Quaternion to Euler
        angles conversion: a direct, general and computationally efficient method, PLoS ONE 17, 2022."""
        axes, intrinsic = _axes_of(seq, (3,))
        if intrinsic:
            axes.reverse()
        i, j, k = axes
        proper = i == k
        if proper:
            k = 3 - i - j
        sign = (i - j) * (j - k) * (k - i) // 2
        q = _parts(self.quat)
        if proper:
            a, b, c, d = q[3], q[i], q[j], q[k] * sign
        else:
            a, b, c, d = q[3] - q[j], q[i] + q[k] * sign, q[j] + q[3], q[k] * sign - q[i]
        middle = 2 * jnp.arctan2(jnp.hypot(c, d), jnp.hypot(a, b))
        half_sum, half_difference = jnp.arctan2(b, a), jnp.arctan2(d, c)
        flat, folded = jnp.abs(middle) <= 1e-7, jnp.abs(middle - math.pi) <= 1e-7
        degenerate = flat | folded
        low, high = half_sum - half_difference, half_sum + half_difference
        first, third = (high, low) if intrinsic else (low, high)
        scaled = 1 if proper else sign
        # the angle that the sign of the axes' order belongs to is the third to be applied
        first, third = (first * scaled, third) if intrinsic else (first, third * scaled)
        alone = jnp.where(flat, 2 * half_sum, (2 if intrinsic else -2) * half_difference)
        first = jnp.where(degenerate, alone * scaled if intrinsic else alone, first)
        third = jnp.where(degenerate, 0, third)
        if not proper:
            middle = middle - math.pi / 2
        angles = jnp.stack([first, middle, third], axis=-1)
        angles = jnp.where(angles < -math.pi, angles + 2 * math.pi, jnp.where(angles > math.pi, angles - 2 * math.pi, angles))
        return jnp.rad2deg(angles) if degrees else angles

    def as_matrix(self) -> Array:
        """Matrices (..., 3, 3)."""
        x, y, z, w = _parts(self.quat)
        xx, yy, zz, ww = x * x, y * y, z * z, w * w
        xy, zw, xz, yw, yz, xw = x * y, z * w, x * z, y * w, y * z, x * w
        rows = (
            (xx - yy - zz + ww, 2 * (xy - zw), 2 * (xz + yw)),
            (2 * (xy + zw), yy - xx - zz + ww, 2 * (yz - xw)),
            (2 * (xz - yw), 2 * (yz + xw), zz - xx - yy + ww),
        )
        return jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)

    def as_mrp(self) -> Array:
        """Modified Rodrigues parameters (..., 3) of the angle that is at most pi."""
        q = _canonical(self.quat)
        return q[..., :3] / (1 + q[..., 3:])

    def as_rotvec(self, degrees: bool = False) -> Array:
        """Vectors (..., 3): the axis times the angle, which is at most pi."""
        q = _canonical(self.quat)
        n2, small, n = _imaginary(q)
        half = jnp.arctan2(n, q[..., 3])
        # arcsin's series: q[..., 3] = sqrt(1 - n2)
        scale = jnp.where(small, 2 + n2 / 3 + n2 * n2 * (3 / 20), 2 * half / n)
        out = q[..., :3] * scale[..., None]
        return jnp.rad2deg(out) if degrees else out

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Array:
        """The quaternions (..., 4); canonical: with w >= 0; scalar_first: as (w, x, y, z)."""
        q = _canonical(self.quat) if canonical else self.quat
        return jnp.roll(q, 1, axis=-1) if scalar_first else q

    def inv(self) -> Rotation:
        """The inverses."""
        return Rotation(jnp.concatenate([-self.quat[..., :3], self.quat[..., 3:]], axis=-1))

    def magnitude(self) -> Array:
        """The angles (...), from 0 to pi."""
        n2, small, n = _imaginary(self.quat)
        half = jnp.arctan2(n, jnp.abs(self.quat[..., 3]))
        zero = n2 == 0
        tiny = jnp.sqrt(jnp.where(zero, 1, n2))
        return jnp.where(small, jnp.where(zero, 0, tiny * (2 + n2 / 3 + n2 * n2 * (3 / 20))), 2 * half)

    def mean(self, weights: ArrayLike | None = None) -> Rotation:
        """The rotation whose squared distances to these, as quaternions and times the weights, have the least sum: an eigenvector
        (F. Markley et al., Averaging quaternions, J. Guidance, Control and Dynamics 30, 2007)."""
        count = len(self)
        (w,) = promoted_inexact("Rotation.mean", jnp.ones(count, self.quat.dtype) if weights is None else jnp.asarray(weights))
        if w.shape != (count,):
            raise ValueError(f"Rotation.mean: weights must have shape ({count},), one for each rotation, got {w.shape}")
        q = self.quat
        _, vectors = jnp.linalg.eigh(jnp.matmul((q * w.astype(q.dtype)[:, None]).T, q, precision="highest"))
        return Rotation(vectors[:, -1])


class Slerp(NamedTuple):
    """Interpolation between rotations at the least and constant angular velocity: `Slerp.init(times, rotations)(t)`."""

    times: Array
    timedelta: Array
    rotations: Rotation
    rotvecs: Array

    @classmethod
    def init(cls, times: ArrayLike, rotations: Rotation) -> Slerp:
        """times: (n,), ascending, for n >= 2 rotations."""
        if not isinstance(rotations, Rotation):
            raise TypeError(f"Slerp.init: rotations must be a Rotation, got {type(rotations)}")
        if rotations.single or len(rotations) == 1:
            raise ValueError("Slerp.init: rotations must hold at least 2 rotations")
        (t,) = promoted_inexact("Slerp.init", jnp.asarray(times))
        if t.ndim != 1:
            raise ValueError(f"Slerp.init: times must be 1-dimensional, got shape {t.shape}")
        if t.shape[0] != len(rotations):
            raise ValueError(f"Slerp.init: there must be as many times as rotations, got {t.shape[0]} times and {len(rotations)} rotations")
        first = rotations[:-1]
        return cls(t, jnp.diff(t), first, (first.inv() * rotations[1:]).as_rotvec())

    def __call__(self, times: ArrayLike) -> Rotation:
        """The rotation at a time, or the rotations at a vector of them; beyond the ends the first and the last motion go on."""
        (t,) = promoted_inexact("Slerp", jnp.asarray(times))
        if t.ndim > 1:
            raise ValueError(f"Slerp: times must be a number or a vector, got shape {t.shape}")
        t = t.astype(self.times.dtype)
        k = jnp.clip(jnp.searchsorted(self.times, t) - 1, 0, self.timedelta.shape[0] - 1)
        part = (t - self.times[k]) / self.timedelta[k]
        return self.rotations[k] * Rotation.from_rotvec(self.rotvecs[k] * part[..., None])


__all__ = ["Rotation", "Slerp"]
