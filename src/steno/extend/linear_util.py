"""Functions with transformations put around them, by the names of `jax.extend.linear_util`.

A transformation is a function `(f, *static, *args, **kwargs)` that calls `f` (`transformation2`), or a generator that yields the arguments
for `f`, is sent its results, and yields its own (`transformation`). One with an auxiliary result hands out a pair."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, final

_EMPTY: Final = object()


class StoreException(Exception):
    """An auxiliary result was stored twice, or read before it was there."""


@final
class Store:
    """The place for one auxiliary result."""

    def __init__(self) -> None:
        self._value: Any = _EMPTY

    def store(self, value: Any) -> None:
        if self._value is not _EMPTY:
            raise StoreException("Store occupied: the function has been called before")
        self._value = value

    @property
    def val(self) -> Any:
        if self._value is _EMPTY:
            raise StoreException("Store empty: the function has not been called yet")
        return self._value

    def __bool__(self) -> bool:
        return self._value is not _EMPTY


@final
class WrappedFun:
    """A function with transformations around it, the last one outermost; called by `call_wrapped`."""

    def __init__(self, f: Callable[..., Any], call: Callable[..., Any], transforms: tuple[Any, ...], params: Any, debug_info: Any) -> None:
        self.f, self.f_transformed, self.transforms, self.params, self.debug_info = f, call, transforms, params, debug_info

    @property
    def __name__(self) -> str:
        return getattr(self.f, "__name__", "<unnamed wrapped function>")

    def call_wrapped(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function through its transformations."""
        return self.f_transformed(*args, **kwargs)

    def wrap(self, transform: Callable[..., Any], static: tuple[Any, ...], call: Callable[..., Any]) -> WrappedFun:
        """`call` as the function with `transform` around it."""
        return WrappedFun(self.f, call, ((transform, static), *self.transforms), self.params, self.debug_info)

    def __hash__(self) -> int:
        return hash((self.f, self.transforms))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WrappedFun) and (self.f, self.transforms, self.params) == (other.f, other.transforms, other.params)

    def __repr__(self) -> str:
        names = ", ".join(getattr(t, "__name__", str(t)) for t, _ in self.transforms)
        return f"WrappedFun({self.__name__}; transformed by {names or 'nothing'})"


def _curried(wrapper: Callable[..., Any]) -> Callable[..., Any]:
    """`wrapper(transform)(fun, *static)`: so that it decorates `transform`."""

    @functools.wraps(wrapper)
    def decorate(transform: Callable[..., Any], *rest: Any, **options: Any) -> Any:
        made = functools.partial(wrapper, transform, **options)
        return made(*rest) if rest else functools.update_wrapper(made, transform)

    return decorate


def wrap_init(f: Callable[..., Any], params: dict[str, Any] | None = None, *, debug_info: Any = None) -> WrappedFun:
    """A function without transformations; `params`: keyword arguments of all its calls."""
    params = {} if params is None else params
    return WrappedFun(f, functools.partial(f, **params) if params else f, (), tuple(sorted(params.items())), debug_info)


@_curried
def transformation2(transform: Callable[..., Any], fun: WrappedFun, *static: Any) -> WrappedFun:
    """`transform(fun, *static, *args, **kwargs)` around a function."""
    return fun.wrap(transform, static, functools.partial(transform, fun.f_transformed, *static))


@_curried
def transformation_with_aux2(
    transform: Callable[..., Any], fun: WrappedFun, *static: Any, use_eq_store: bool = False, unk_names: bool = False
) -> tuple[WrappedFun, Callable[[], Any]]:
    """`transform(fun, store, *static, *args, **kwargs)`, which calls `store.store(aux)`; also a function that gives that result."""
    store = Store()
    call = functools.partial(transform, fun.f_transformed, store, *static)
    return fun.wrap(transform, static, call), lambda: store.val


def _driven(generator: Callable[..., Any], inner: Callable[..., Any], static: tuple[Any, ...], args: Any, kwargs: Any) -> Any:
    gen = generator(*static, *args, **kwargs)
    inner_args, inner_kwargs = next(gen)
    out = gen.send(inner(*inner_args, **inner_kwargs))
    gen.close()
    return out


@_curried
def transformation(generator: Callable[..., Any], fun: WrappedFun, *static: Any) -> WrappedFun:
    """A generator `(*static, *args, **kwargs)` around a function: it yields (args, kwargs) for it, then its own result."""
    inner = fun.f_transformed
    return fun.wrap(generator, static, lambda *args, **kwargs: _driven(generator, inner, static, args, kwargs))


@_curried
def transformation_with_aux(generator: Callable[..., Any], fun: WrappedFun, *static: Any) -> tuple[WrappedFun, Callable[[], Any]]:
    """`transformation` by a generator whose last yield is (result, aux); also a function that gives `aux`."""
    store, inner = Store(), fun.f_transformed

    def call(*args: Any, **kwargs: Any) -> Any:
        out, aux = _driven(generator, inner, static, args, kwargs)
        store.store(aux)
        return out

    return fun.wrap(generator, static, call), lambda: store.val


def merge_linear_aux(aux1: Callable[[], Any], aux2: Callable[[], Any]) -> tuple[bool, Any]:
    """(True, the first auxiliary result), or (False, the second one), whichever is there."""
    try:
        return True, aux1()
    except StoreException:
        return False, aux2()


def cache(call: Callable[..., Any], *, explain: Any = None) -> Callable[..., Any]:
    """`call(fun, *args)` remembered by equality of the WrappedFun and of the arguments."""
    return functools.lru_cache(maxsize=4096)(call)
