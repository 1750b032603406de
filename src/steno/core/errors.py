"""The classes of errors users meet, of JAX's names and bases; messages begin with JAX's first line, then say where and what to write
instead."""

from __future__ import annotations

from typing import Any


class JAXTypeError(TypeError):
    """A TypeError about traced values."""


class JAXIndexError(IndexError):
    """An IndexError about traced values."""


class ConcretizationTypeError(JAXTypeError):
    """A traced value was used where Python needs to know it. Made from a tracer and a context, or from a message alone."""

    def __init__(self, tracer: Any, context: str = "") -> None:
        if isinstance(tracer, str):
            super().__init__(tracer)
            return
        lines = [f"Abstract tracer value encountered where concrete value is expected: {described(tracer)}"]
        super().__init__("\n".join([*lines, *([context] if context else []), tracer._origin()]))


class TracerBoolConversionError(ConcretizationTypeError):
    """`bool(tracer)`: a Python `if`, `while`, `and`, `or` or `not` on a traced value."""

    def __init__(self, tracer: Any) -> None:
        JAXTypeError.__init__(
            self,
            f"Attempted boolean conversion of {described(tracer)}.\n{tracer._origin()}\n"
            "While a function is traced its values are unknown, so Python cannot branch on them. What to write instead:\n"
            "  * jnp.where(condition, a, b) chooses element by element, both sides being computed;\n"
            "  * lax.cond(condition, f, g, *operands) runs one of two functions (lax.while_loop for a loop);\n"
            "  * jit(..., static_argnums=...) or static_argnames makes the argument a Python value, at one compilation for each value.",
        )


class TracerIntegerConversionError(JAXTypeError):
    """`__index__` of a tracer: a Python list, range or shape indexed by a traced value."""

    def __init__(self, tracer: Any) -> None:
        super().__init__(
            f"The __index__() method was called on {described(tracer)}\n{tracer._origin()}\n"
            "A Python list, range or shape needs an integer that is known while tracing. What to write instead:\n"
            "  * jnp.asarray(values)[i] indexes an array by a traced value;\n"
            "  * lax.fori_loop or lax.scan loops over traced indices;\n"
            "  * jit(..., static_argnums=...) or static_argnames makes the argument a Python value."
        )


class TracerArrayConversionError(JAXTypeError):
    """`np.asarray(tracer)`: a NumPy function on a traced value."""

    def __init__(self, tracer: Any) -> None:
        super().__init__(
            f"The numpy.ndarray conversion method __array__() was called on {described(tracer)}\n{tracer._origin()}\n"
            "NumPy computes at once and needs values. What to write instead:\n"
            "  * the function of the same name in jax.numpy;\n"
            "  * jax.pure_callback(f, result_type, x) calls NumPy when the program runs;\n"
            "  * jit(..., static_argnums=...) or static_argnames makes the argument a Python value."
        )


class UnexpectedTracerError(JAXTypeError):
    """A tracer was used after, or outside, the trace it belongs to."""


class NonConcreteBooleanIndexError(JAXIndexError):
    """A boolean mask that is traced was used as an index, so that the result's shape would depend on values."""

    def __init__(self, tracer: Any) -> None:
        if isinstance(tracer, str):
            super().__init__(tracer)
            return
        super().__init__(
            f"Array boolean indices must be concrete; got {tracer.aval.str_short()}\n{tracer._origin()}\n"
            "The number of elements such an index selects is unknown while tracing. What to write instead:\n"
            "  * jnp.where(mask, x, 0) keeps the shape;\n"
            "  * x.at[...].set with jnp.where for a masked update;\n"
            "  * jnp.nonzero(mask, size=n) gives a fixed number of indices."
        )


class KeyReuseError(RuntimeError):
    """A PRNG key was consumed twice."""


class JaxRuntimeError(RuntimeError):
    """A compiled program failed while it ran."""


class TypePromotionError(ValueError):
    """No implicit promotion leads from the given dtypes to a common one."""


class InconclusiveDimensionOperation(Exception):
    """What a comparison of symbolic dimensions (`export.symbolic_shape`) says depends on their values."""


class JaxprTypeError(TypeError):
    """A jaxpr breaks the rules of its grammar or types."""


class MissingRule(NotImplementedError):
    """An op lacks the rule a transformation or backend needs."""

    def __init__(self, op: Any, what: str, hint: str = "") -> None:
        super().__init__(f"{what} for {op.name!r} not implemented" + (f": {hint}" if hint else ""))
        self.op, self.what = op, what


def described(tracer: Any) -> str:
    """`traced array with shape float32[3]`."""
    a = tracer.aval
    return f"traced array with shape {a.strip_weak_type()}"


def concrete(x: Any, context: str = "") -> Any:
    """`x` itself, unless it is a tracer, which has no value yet: ConcretizationTypeError with `context` as its second line."""
    if hasattr(x, "_origin"):
        raise ConcretizationTypeError(x, context)
    return x
