"""Functions with rules for cutting them up: `custom_partitioning`. Arrays lie whole in one memory, so that nothing is cut up: the rules are
checked and kept, and the function is called as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, final

from steno.api import jit
from steno.core import source
from steno.core.record import record
from steno.derivatives import check_callable

BATCHING: Final = "…"
"""In a mapping of dimensions: further leading axes."""


@final
class CompoundFactor(tuple[str, ...]):
    """A dimension made of several factors, the slowest first. ValueError for fewer than two."""

    def __new__(cls, *factors: str) -> CompoundFactor:
        if len(factors) < 2:
            raise ValueError(f"CompoundFactor: there must be at least two factors, got {factors}")
        return super().__new__(cls, factors)

    def __repr__(self) -> str:
        return f"CompoundFactor({', '.join(map(repr, self))})"


@final
class ArrayMapping(tuple[Any, ...]):
    """The factors of each dimension of an array: names, CompoundFactors, or in front BATCHING."""

    def __new__(cls, *dim_mappings: str | CompoundFactor) -> ArrayMapping:
        for d in dim_mappings:
            if not isinstance(d, str | CompoundFactor):
                raise ValueError(f"ArrayMapping: each dimension is a name or a CompoundFactor, got {d!r} of type {type(d)}")
        return super().__new__(cls, dim_mappings)

    def __repr__(self) -> str:
        return f"ArrayMapping({', '.join(map(repr, self))})"


@final
class SdyShardingRule:
    """How the dimensions of operands and results belong together. ValueError for sizes of factors that are no parts of a dimension."""

    def __init__(
        self,
        operand_mappings: tuple[ArrayMapping, ...],
        result_mappings: tuple[ArrayMapping, ...],
        *,
        reduction_factors: tuple[str, ...] = (),
        need_replication_factors: tuple[str, ...] = (),
        permutation_factors: tuple[str, ...] = (),
        **factor_sizes: int,
    ) -> None:
        self.operand_mappings, self.result_mappings, self.factor_sizes = operand_mappings, result_mappings, factor_sizes
        self.reduction_factors, self.need_replication_factors = reduction_factors, need_replication_factors
        self.permutation_factors = permutation_factors
        dims = [d for m in (*operand_mappings, *result_mappings) for d in m]
        whole = {d for d in dims if isinstance(d, str)}
        parts = {f for d in dims if isinstance(d, CompoundFactor) for f in d}
        for f in factor_sizes:
            if f not in parts:
                kind = "is a whole dimension, whose size the arrays say" if f in whole else "is no factor of a dimension"
                raise ValueError(f"SdyShardingRule: the factor {f} {kind}")
        for f in (*reduction_factors, *need_replication_factors, *permutation_factors):
            if f not in whole | parts:
                raise ValueError(f"SdyShardingRule: the factor {f} is no factor of a dimension")


@final
@record(frozen=True)
class _Rules:
    """What `def_partition` was given."""

    partition: Callable[..., Any] | None
    infer_sharding_from_operands: Callable[..., Any] | None
    propagate_user_sharding: Callable[..., Any] | None
    sharding_rule: Any


class custom_partitioning:
    """`fun`, with rules by which a compiler could cut it up: `f = custom_partitioning(fun); f.def_partition(partition, ...)`.

    static_argnums    arguments that are Python values
    Its derivatives and maps are those of `fun`."""

    def __init__(self, fun: Callable[..., Any], static_argnums: Iterable[int] = ()) -> None:
        check_callable(fun)
        self.fun, self.static_argnums = fun, tuple(static_argnums)
        self.rules: _Rules | None = None
        self._call = jit(fun, static_argnums=self.static_argnums)
        source.wraps(fun)(self)

    def def_partition(
        self,
        partition: Callable[..., Any] | None,
        infer_sharding_from_operands: Callable[..., Any] | None = None,
        propagate_user_sharding: Callable[..., Any] | None = None,
        decode_shardings: bool = True,
        sharding_rule: Any = None,
        *,
        reduction_factors: tuple[str, ...] = (),
        need_replication_factors: tuple[str, ...] = (),
        permutation_factors: tuple[str, ...] = (),
        **factor_sizes: int,
    ) -> None:
        """Keeps the rules. ValueError if neither `infer_sharding_from_operands` nor a `sharding_rule` (an SdyShardingRule, a text, or a
        function) is given, or factors beside an SdyShardingRule."""
        if infer_sharding_from_operands is None and sharding_rule is None:
            raise ValueError("def_partition: infer_sharding_from_operands or a sharding_rule must be given")
        factors = reduction_factors or need_replication_factors or permutation_factors or factor_sizes
        if isinstance(sharding_rule, SdyShardingRule) and factors:
            raise ValueError("def_partition: an SdyShardingRule has its factors itself")
        self.rules = _Rules(partition, infer_sharding_from_operands, propagate_user_sharding, sharding_rule)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """`fun(*args, **kwargs)`. AttributeError if there are no rules yet."""
        if self.rules is None:
            raise AttributeError(f"custom_partitioning: {self.fun} has no rules; call def_partition first")
        return self._call(*args, **kwargs)
