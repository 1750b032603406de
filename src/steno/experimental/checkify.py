"""Errors at run time, as values: `checkify(f)` is `f` with its first error as a further result.

    err, y = jit(checkify(f, errors=user_checks | float_checks))(x)
    err.throw()

`check(pred, "x must be positive, got {x}", x=x)` asserts in code that will be traced. The automatic checks look at every op: NaNs,
divisions by zero, positions out of bounds. A message names the op and the line it comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, final

import numpy as np

from steno._native import ShapedArray, current_trace
from steno.core import dtypes, source
from steno.core.aval import is_value, typed_scalar, typeof
from steno.core.boundary import boundary
from steno.core.pytree import GetAttrKey
from steno.core.trace import Tracer
from steno.lax.operands import as_array, as_operand
from steno.ops.bitwise import not_
from steno.ops.check import (
    BatchedError as BatchedError,
    CheckFailure,
    DivisionByZeroError as DivisionByZeroError,
    FailedCheckError as FailedCheckError,
    JaxRuntimeError as JaxRuntimeError,
    Layout,
    NaNError as NaNError,
    OOBError as OOBError,
    bind_check,
    code_of,
    exception_of,
    first_failed,
)
from steno.ops.checking import Failure, categories_in, for_message, run_checked, signature_of
from steno.ops.reduce import reduce_or
from steno.transforms.rules import reshape
from steno.tree_util import keystr, register_pytree_with_keys_class, tree_flatten, tree_flatten_with_path, tree_unflatten

ErrorCategory = type[CheckFailure]

user_checks: Final[frozenset[ErrorCategory]] = frozenset({FailedCheckError})
nan_checks: Final[frozenset[ErrorCategory]] = frozenset({NaNError})
index_checks: Final[frozenset[ErrorCategory]] = frozenset({OOBError})
div_checks: Final[frozenset[ErrorCategory]] = frozenset({DivisionByZeroError})
float_checks: Final[frozenset[ErrorCategory]] = nan_checks | div_checks
automatic_checks: Final[frozenset[ErrorCategory]] = float_checks | index_checks
all_checks: Final[frozenset[ErrorCategory]] = automatic_checks | user_checks


@final
@register_pytree_with_keys_class
class Error:
    """What has failed first, if anything: a pytree of a few small arrays, which transformations handle like any others.

    Under vmap there is one for each element. Of a function in which nothing can fail it has no leaves."""

    __slots__ = ("_layout", "_leaves")

    def __init__(self, leaves: Sequence[Any], layout: Layout) -> None:
        """`leaves`: whether something failed, its code, payloads as in `layout`; or nothing."""
        self._leaves, self._layout = tuple(leaves), layout

    @property
    def is_error(self) -> Any:
        """Whether anything has failed, in any element of a batch: a bool, or an array of it while this is traced."""
        if not self._leaves:
            return False
        pred = self._leaves[0]
        if isinstance(pred, Tracer):
            return reduce_or(pred, axes=tuple(range(pred.ndim)), out_sharding=None)
        return bool(np.any(pred))

    def get_exception(self) -> CheckFailure | None:
        """The failure as an exception that tells it; None if nothing failed."""
        if not self._leaves:
            return None
        pred, code, *values = self._leaves
        return exception_of(pred, code, values, self._layout)

    def get(self) -> str | None:
        """What failed, in words; None if nothing did. For a batch a line for each element where something did."""
        failure = self.get_exception()
        return None if failure is None else str(failure)

    def throw(self) -> None:
        """JaxRuntimeError, a ValueError, with that text; nothing if nothing failed."""
        message = self.get()
        if message is not None:
            raise JaxRuntimeError(message)

    def __repr__(self) -> str:
        if any(isinstance(x, Tracer) for x in self._leaves):
            return f"Error({', '.join(map(repr, self._leaves))})"
        return f"Error({self.get()})"

    def tree_flatten_with_keys(self) -> tuple[list[tuple[Any, Any]], Layout]:
        names = ["pred", "code", *(f"payload{k}" for k in range(len(self._leaves) - 2))]
        return [(GetAttrKey(n), x) for n, x in zip(names, self._leaves, strict=False)], self._layout

    def tree_flatten(self) -> tuple[tuple[Any, ...], Layout]:
        return self._leaves, self._layout

    @classmethod
    def tree_unflatten(cls, layout: Layout, leaves: Iterable[Any]) -> Error:
        return cls(tuple(leaves), layout)


init_error: Final = Error((), ())


def _error(failure: Failure | None) -> Error:
    return init_error if failure is None else Error(failure.leaves, failure.layout)


def checkify(f: Callable[..., Any], errors: Iterable[ErrorCategory] = user_checks) -> Callable[..., tuple[Error, Any]]:
    """A function that takes `f`'s arguments and returns `(error, f's result)`.

    errors      which checks are made: a union of `user_checks` (calls of `check`), `nan_checks`, `div_checks`, `index_checks`. Checks of
                users that are not asked for are left out

    What fails first, in the order of execution, is the error; the function runs on regardless. A check inside of jit, cond, scan,
    while_loop, vmap, derivatives and functions with custom rules is found; what a custom rule computes is checked if the derivative is
    taken inside `f`. A vmapped while_loop cannot be checked (ValueError), but `vmap(checkify(f))` of a loop can. In a vmapped cond all
    branches run for all elements, so automatic checks report what happens in branches that an element does not take.
    TypeError for errors that are no categories, or a result that is no tree of arrays."""
    if not callable(f):
        raise TypeError(f"checkify: the first argument must be callable, got {f!r}")
    if isinstance(errors, type) or not isinstance(errors, Iterable):
        raise TypeError(f"checkify: errors must be a set of categories, such as checkify.user_checks, got {errors!r}")
    categories = frozenset(categories_in(errors))

    @source.wraps(f, updated=())
    @boundary
    def checked(*args: Any, **kwargs: Any) -> tuple[Error, Any]:
        out, failure = run_checked(lambda: f(*args, **kwargs), categories)
        leaves, tree = tree_flatten(out)
        if not all(map(is_value, leaves)):
            _raise_no_array(f, out)
        return _error(failure), tree_unflatten(tree, [as_array("checkify", x) for x in leaves])

    return checked


def _raise_no_array(f: Callable[..., Any], out: Any) -> None:
    for path, x in tree_flatten_with_path(out)[0]:
        if not is_value(x):
            where = f" at output component {keystr(path)}" if path else ""
            name = getattr(f, "__name__", repr(f))
            raise TypeError(f"function {name} traced for checkify returned a value of type {type(x)}{where}, which is not a valid JAX type")


def check(pred: Any, msg: str, *fmt_args: Any, debug: bool = False, **fmt_kwargs: Any) -> None:
    """Fails unless `pred`, a bool, is true, with the message `msg.format(*fmt_args, **fmt_kwargs)`.

    Under `checkify` with `user_checks` the failure becomes part of the error it returns. Where nothing is traced it is raised at once, as
    JaxRuntimeError. In a program that is compiled without checkify around it a check is an error: ValueError when it is compiled.
    fmt_args, fmt_kwargs     trees of arrays, traced or not, whose values the message shows
    debug                    as `debug_check`

    TypeError for a predicate that is no scalar bool, arguments that are no arrays, or a message that is no string."""
    _check("debug_check" if debug else "check", pred, msg, fmt_args, fmt_kwargs, debug)


def debug_check(pred: Any, msg: str, *fmt_args: Any, **fmt_kwargs: Any) -> None:
    """A `check` that does nothing at all unless `checkify` makes user checks around it."""
    _check("debug_check", pred, msg, fmt_args, fmt_kwargs, True)


def _check(name: str, pred: Any, msg: str, fmt_args: tuple[Any, ...], fmt_kwargs: dict[str, Any], debug: bool) -> None:
    if not is_value(pred) or typeof(pred).strip_weak_type() is not _BOOL:
        raise TypeError(f"{name} takes a scalar pred as argument, got {pred}: a bool, such as jnp.all(x > 0), is wanted")
    if not isinstance(msg, str):
        raise TypeError(f"{name}: the message must be a string, got {msg!r} of type {type(msg)}")
    leaves, tree = tree_flatten((fmt_args, fmt_kwargs))
    for x in leaves:
        if not is_value(x):
            raise TypeError(
                f"Formatting arguments to checkify.{name} need to be PyTrees of arrays, but got {x!r} of type {type(x)}. Text that is "
                "known when the function is traced can be put into the message itself."
            )
    if current_trace() is None and (debug or bool(pred)):
        return
    failed = not_(as_operand(name, pred))
    values = for_message(as_operand(name, x) for x in leaves)
    signature = signature_of(values)
    code = code_of(FailedCheckError, msg, signature, tree=tree)
    bind_check([failed, typed_scalar(code, dtypes.int32), *values], (signature,) if signature else (), debug)


_BOOL: Final = ShapedArray((), dtypes.bool_)


def check_error(error: Error) -> None:
    """Fails if `error` holds a failure, with what that says: as `check` does, it raises where nothing is traced, and under `checkify` the
    failure becomes part of the error. Of a batch of errors the first failure counts there. TypeError for what is no Error."""
    if not isinstance(error, Error):
        raise TypeError(f"check_error takes an Error as argument, got type {type(error)} instead.")
    if not error._leaves:
        return
    if current_trace() is None:
        error.throw()
        return
    pred, *rest = error._leaves
    batch = np.shape(pred)
    if 0 in batch:
        return
    if batch:
        n, k = int(np.prod(batch)), len(batch)
        pred, rest = first_failed(reshape(pred, (n,)), [reshape(x, (n, *x.shape[k:])) for x in rest])
    bind_check([pred, *rest], error._layout, False)


__all__ = [
    "Error", "ErrorCategory", "JaxRuntimeError", "all_checks", "automatic_checks", "check", "check_error", "checkify", "debug_check",
    "div_checks", "float_checks", "index_checks", "init_error", "nan_checks", "user_checks",
]  # fmt: skip
