"""Behaviour of lax found by running JAX's own tests: one test for each kind of finding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import steno
import steno.numpy as jnp
from steno import lax
from steno.experimental import xla_metadata
from steno.test_util import check_grads

E, ROWS, COLUMNS = np.zeros(0, np.float32), np.zeros((0, 3), np.float32), np.zeros((3, 0), np.float32)


@pytest.mark.parametrize("x", [E, ROWS, COLUMNS], ids=str)
def test_empty_arrays_have_derivatives(x: np.ndarray) -> None:
    for f in (lax.sort, lambda x: lax.sort((x, 2 * x), num_keys=1), lambda x: lax.top_k(x, 0)[0], lax.cumsum, lax.cummax):
        check_grads(f, (x,), 2)


def test_python_integers_of_any_size_are_converted() -> None:
    for n, dtype, want in (
        (2**70, "int32", 0), (2**31, "int32", -(2**31)), (-(2**31) - 1, "int8", -1), (2**32 - 1, "uint32", 2**32 - 1), (300, "uint8", 44),
        (2**40, "bool", True), (2**40, "float32", 2.0**40),
    ):  # fmt: skip
        out = lax.convert_element_type(n, dtype)
        assert out.item() == want and out.dtype == dtype and not out.weak_type


@pytest.mark.parametrize("bad", [(1.5, 2.0), "ab", (np.array([3, 1]),), 1.5, [[3]]], ids=str)
def test_what_is_no_shape(bad: Any) -> None:
    x = jnp.ones(3)
    for f in (lax.reshape, jnp.reshape, lax.broadcast, jnp.broadcast_to, lambda x, s: lax.full(s, x[0]), lambda x, s: jnp.zeros(s)):
        with pytest.raises(TypeError, match="Shapes must be 1D sequences of concrete values of integer type, got "):
            f(x, bad)


@pytest.mark.parametrize(
    ("lhs_ragged", "groups", "contracted", "words"),
    [
        ([0, 1], [0], ([1], [1]), "exactly one lhs ragged dimension, got .0, 1."),
        ([2], [0], ([1], [1]), "nonnegative and less than the number of axes of the lhs, got .2,. for 2 axes"),
        ([0], [3], ([1], [1]), "rhs group dimension numbers must lie in .0, 3., got .3,."),
        ([0], [1], ([1], [1]), "distinct from contracting and batch dimensions, got .1,. and .1,."),
        ([0], [], ([1], [1]), "exactly one rhs group dimension when lhs ragged dimension is noncontracting, got .."),
        ([1], [0], ([1], [1]), "zero group dimensions in the rhs when lhs ragged dimension is contracting or batch, got .0,."),
    ],
)
def test_dimension_numbers_of_ragged_products(lhs_ragged: list[int], groups: list[int], contracted: Any, words: str) -> None:
    numbers = lax.RaggedDotDimensionNumbers((contracted, ([], [])), lhs_ragged, groups)
    with pytest.raises(TypeError, match=words):
        lax.ragged_dot_general(jnp.ones((4, 3)), jnp.ones((2, 3, 5)), jnp.array([1, 3]), numbers)


def test_weak_types() -> None:
    weak, firm = lax.full((3,), 2), jnp.arange(3)
    assert not lax.bitcast_convert_type(weak, "int32").weak_type
    for computation in (lax.add, lambda a, b: a * b + a):
        for x in (weak, firm):
            for start in (1, jnp.int32(1)):
                out = lax.reduce(x, start, computation, (0,))
                assert out.weak_type == (x.weak_type and steno.typeof(start).weak_type)


def test_finite_differences_take_exact_steps() -> None:
    """Rounding of the step alone would differ by more than the tolerance here."""
    x, y = np.random.default_rng(3).uniform(7, 9, (2, 50)).astype(np.float32)
    check_grads(lambda x, y: x + 0 * y, (x, y), 1, atol=6e-3, rtol=1e-4)


INCOMPLETE = {"igamma_p": 2, "igammac_p": 2, "igamma_grad_a_p": 2, "regularized_incomplete_beta_p": 3}


@pytest.mark.parametrize("name", INCOMPLETE)
def test_incomplete_functions_are_ops(name: str) -> None:
    op = getattr(lax, name)
    args = np.meshgrid(*[np.array([0.25, 0.75], np.float32)] * INCOMPLETE[name], indexing="ij")
    assert [e.primitive for e in steno.make_jaxpr(op)(*args).eqns] == [op]
    assert [e.primitive for e in steno.make_jaxpr(steno.vmap(op, (None, *[0] * (len(args) - 1))))(args[0][:, 0], *args[1:]).eqns][-1] == op
    eager = op(*args)
    assert eager.dtype == np.float32
    np.testing.assert_array_equal(op(np.float32(0.75), *(x[-1:] for x in args[1:])), eager[-1:])
    if name == "igammac_p":
        with steno.enable_x64(True):
            check_grads(lambda x: op(2.5, x), (np.array([1.25, 3.0]),), 2, "rev", atol=1e-6, rtol=1e-6)


def test_hints_for_xla_change_nothing() -> None:
    @xla_metadata.xla_metadata_call(inlineable="false", level=2)
    def cube(x: Any) -> Any:
        return {"y": x**3}

    with xla_metadata.set_xla_metadata(a="b"), xla_metadata.fuse_limit():
        assert steno.grad(lambda x: xla_metadata.must_fuse_call("f")(cube)(x)["y"])(2.0) == 12
    assert steno.tree.leaves(xla_metadata.set_xla_metadata((1, 2.0), a=1)) == [1, 2]
    with pytest.raises(TypeError, match="metadata must be strings"):
        xla_metadata.xla_metadata_call(cube, a=object())


S = lax.ScatterDimensionNumbers
G = lax.GatherDimensionNumbers
X, AT = np.ones((3, 4), np.float32), np.zeros((2, 1), np.int32)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: lax.dynamic_slice(X, (np.int32(1), np.int16(2)), (2, 2)), TypeError, "dynamic_slice must be integers of the same type"),
        (lambda: lax.dynamic_update_slice(X, X, (np.int32(1), np.uint8(2))), TypeError, "integers of the same type, got int32"),
        (lambda: steno.eval_shape(lambda x: lax.top_k(x, 2), steno.ShapeDtypeStruct((2**31,), "int8")), ValueError, "will overflow"),
        (lambda: lax.gather(X, AT, G((2,), (0,), (0,)), (1, 4)), TypeError, "Offset dimension 0 in gather op is out of bounds"),
        (lambda: lax.gather(X, AT, G((1,), (0, 5), (0,)), (1, 4)), TypeError, r"Invalid collapsed_slice_dims set in gather op.* \[0, 2\)"),
        (lambda: lax.gather(X, AT, G((1,), (0,), (0, 0)), (1, 4)), TypeError, "start_index_map in gather op must not repeat"),
        (lambda: lax.gather(X, AT, G((), (0,), (1,), (0,), (0,)), (1, 1)), TypeError, "must be disjoint"),
        (lambda: lax.gather(X, AT, G((1,), (0,), (0,)), (1, 5)), TypeError, "Slice size at index 1 in gather op is out of range"),
        (lambda: lax.scatter(X, AT, X[:2], S((1,), (0,), (1,), (1, 0))), TypeError, "operand_batching_dims in scatter op must be sorted"),
        (lambda: lax.scatter(X, AT, np.ones((2, 5), np.float32), S((1,), (0,), (0,))), TypeError, "Bounds of the window dimensions"),
        (lambda: lax.reduce({"a": X}, {"b": 0.0}, lax.add, (0,)), ValueError, "must have the same tree structure as init_values"),
        (lambda: lax.reduce(X, X, lax.add, (0,)), ValueError, "non-scalar initial value"),
        (lambda: lax.argmax(ROWS, 0, "int32"), ValueError, "require non-empty reduced dimensions"),
        (lambda: lax.pad(E, np.float32(0), [(-1, 0, 0)]), ValueError, "after padding is not at least 0"),
        (lambda: lax.split(X, (1, 1)), ValueError, "Sum of sizes 2 must be equal to the size of axis 0"),
    ],
)
def test_messages(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()
