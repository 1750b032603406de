"""What users read when traced values are used as Python values: JAX's classes and first lines, then where, why, and what to write."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import steno
from steno import errors
from steno.core.errors import concrete
from steno.ops.arithmetic import add, neg
from steno.ops.compare import gt


def message(f, *args, error) -> str:
    with pytest.raises(error) as e:
        steno.jit(f)(*args)
    return str(e.value)


def test_classes():
    tree = {
        errors.ConcretizationTypeError: TypeError, errors.TracerBoolConversionError: errors.ConcretizationTypeError,
        errors.TracerIntegerConversionError: TypeError, errors.TracerArrayConversionError: TypeError,
        errors.UnexpectedTracerError: TypeError, errors.NonConcreteBooleanIndexError: IndexError, errors.KeyReuseError: RuntimeError,
        errors.JaxRuntimeError: RuntimeError, errors.MissingRule: NotImplementedError, steno.dtypes.TypePromotionError: ValueError,
    }  # fmt: skip
    assert all(issubclass(c, base) for c, base in tree.items())
    assert issubclass(errors.TracerBoolConversionError, errors.JAXTypeError)


def test_bool():
    def relu_wrong(x, other):
        if gt(x, 0.0):
            return x
        return neg(x)

    text = message(relu_wrong, 3.0, 4.0, error=errors.TracerBoolConversionError)
    lines = text.splitlines()
    assert lines[0] == "Attempted boolean conversion of traced array with shape bool[]."
    assert lines[1] == (
        f"The error occurred while tracing the function relu_wrong at {__file__}:{relu_wrong.__code__.co_firstlineno} for jit. "
        "This concrete value was not available in Python because it depends on the value of the argument x."
    )
    assert f"{__file__}:{relu_wrong.__code__.co_firstlineno + 1}:" in text and "if gt(x, 0.0):" in text
    for way_out in ("jnp.where", "lax.cond", "static_argnums"):
        assert way_out in text


def test_bool_of_arrays():
    for n, words in ((0, "empty array"), (3, "more than one element")):
        with pytest.raises(ValueError, match=words):
            steno.jit(lambda x: bool(x))(np.ones(n))


def test_the_arguments_it_depends_on():
    def f(x, ys, z):
        while add(ys["a"], add(x, 1.0)):
            pass

    text = message(f, 1.0, {"a": 2.0}, 3.0, error=errors.TracerBoolConversionError)
    assert "it depends on the value of the arguments x and ys['a']." in text
    assert "The value was made here, by add:" not in text or "while add(" in text


def test_where_the_value_was_made():
    def f(x):
        y = add(x, 1.0)
        z = neg(y)
        return float(z)

    text = message(f, 1.0, error=errors.ConcretizationTypeError)
    first = f.__code__.co_firstlineno
    assert text.splitlines()[0] == "Abstract tracer value encountered where concrete value is expected: traced array with shape float32[]"
    assert "The problem arose with the `float` function." in text and "x.astype(float)" in text
    assert f"wanted here: {__file__}:{first + 3}:" in text and "return float(z)" in text
    assert f"made here, by neg: {__file__}:{first + 2}:" in text and "z = neg(y)" in text


@pytest.mark.parametrize("convert", [int, float, complex])
def test_scalar_conversions(convert):
    text = message(lambda x: convert(x), 1.0, error=errors.ConcretizationTypeError)
    assert f"`{convert.__name__}` function" in text and "argument x" in text
    with pytest.raises(TypeError, match="Only scalar arrays can be converted to Python scalars"):
        steno.jit(lambda x: convert(x))(np.ones(3))


def test_index():
    for use in (lambda i: [1, 2, 3][i], lambda i: range(i), lambda i: hex(i), lambda i: "ab" * i):
        text = message(use, 1, error=errors.TracerIntegerConversionError)
        assert text.splitlines()[0] == "The __index__() method was called on traced array with shape int32[]"
        assert "argument i" in text and "static_argnums" in text
    for wrong in (1.0, np.ones(3, np.int32)):
        with pytest.raises(TypeError, match="Only integer scalar arrays can be converted to a scalar index"):
            steno.jit(lambda i: [1, 2][i])(wrong)


def test_numpy():
    for use in (np.asarray, np.sin, lambda x: np.ones(3) @ np.array(x)):
        text = message(use, np.ones(3), error=errors.TracerArrayConversionError)
        assert text.splitlines()[0] == "The numpy.ndarray conversion method __array__() was called on traced array with shape float32[3]"
        assert "pure_callback" in text


def test_values_of_tracers():
    for name in ("item", "tolist", "tobytes", "unsafe_buffer_pointer", "delete"):
        text = message(lambda x, name=name: getattr(x, name)(), 1.0, error=errors.ConcretizationTypeError)
        assert name in text
    message(lambda x: pickle.dumps(x), 1.0, error=errors.ConcretizationTypeError)


def test_python_protocols():
    with pytest.raises(TypeError, match="unhashable type"):
        steno.jit(lambda x: hash(x))(1.0)
    with pytest.raises(TypeError, match=r"len\(\) of unsized object"):
        steno.jit(lambda x: len(x))(1.0)
    assert int(steno.jit(lambda x: len(x))(np.ones(3))) == 3


def test_values_that_depend_on_no_argument():
    text = message(lambda: bool(gt(steno.jit(lambda: 1.0)(), 0.0)), error=errors.TracerBoolConversionError)
    assert "argument" not in text.splitlines()[1] and "because of the operation jit" in text


def test_in_nested_functions_the_inner_one_is_named():
    def inner(y):
        return y if gt(y, 0.0) else neg(y)

    def outer(x):
        return steno.jit(inner)(add(x, 1.0))

    text = message(outer, 1.0, error=errors.TracerBoolConversionError)
    assert "tracing the function inner at" in text and "argument y" in text


def test_outer_values_in_inner_functions():
    def outer(x):
        def inner(y):
            return y if gt(x, 0.0) else neg(y)

        return steno.jit(inner)(2.0)

    text = message(outer, 1.0, error=errors.TracerBoolConversionError)
    assert text.startswith("Attempted boolean conversion")


def test_made_from_messages_and_tracers():
    assert str(errors.ConcretizationTypeError("text")) == "text" and str(errors.NonConcreteBooleanIndexError("text")) == "text"
    assert concrete(3) == 3
    text = message(lambda x: concrete(x, "The size must be static."), 1, error=errors.ConcretizationTypeError)
    assert text.splitlines()[1] == "The size must be static."

    def index(x):
        raise errors.NonConcreteBooleanIndexError(x)

    text = message(index, np.array([True]), error=errors.NonConcreteBooleanIndexError)
    assert text.splitlines()[0] == "Array boolean indices must be concrete; got bool[1]"


def test_too_large():
    with pytest.raises(MemoryError):
        steno.device_put(np.broadcast_to(np.float32(0), (1 << 40, 1 << 10)))
