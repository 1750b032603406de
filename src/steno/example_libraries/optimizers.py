"""Gradient methods as triples of functions.

An optimizer is `Optimizer(init_fn, update_fn, params_fn)`: `init_fn(params) -> state`, `update_fn(step, gradients, state) -> state`,
`params_fn(state) -> params`, where params are a pytree. Step sizes are numbers or schedules, functions of the step."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, final

from steno import numpy as jnp
from steno.tree_util import register_pytree_node, tree_flatten, tree_leaves, tree_map, tree_unflatten

Array = Any
Params = Any
State = Any
Updates = Params
Step = int
InitFn = Callable[[Params], "OptimizerState"]
UpdateFn = Callable[[Step, Updates, "OptimizerState"], "OptimizerState"]
ParamsFn = Callable[["OptimizerState"], Params]
Schedule = Callable[[Step], float]


class OptimizerState(NamedTuple):
    """The state of an optimizer: for each leaf of the params, in the order of `tree_def`, the leaves of its own state, whose structure is
    in `subtree_defs`."""

    packed_state: Any
    tree_def: Any
    subtree_defs: Any


register_pytree_node(
    OptimizerState,
    lambda s: ((s.packed_state,), (s.tree_def, s.subtree_defs)),
    lambda aux, children: OptimizerState(children[0], *aux),
)


class Optimizer(NamedTuple):
    """What the functions of this module make."""

    init_fn: InitFn
    update_fn: UpdateFn
    params_fn: ParamsFn


def _packed(states: list[Any], tree: Any) -> OptimizerState:
    flat = [tree_flatten(s) for s in states]
    return OptimizerState(tuple(leaves for leaves, _ in flat), tree, tuple(t for _, t in flat))


def _states(s: OptimizerState) -> list[Any]:
    return [tree_unflatten(t, leaves) for t, leaves in zip(s.subtree_defs, s.packed_state, strict=True)]


def optimizer(opt_maker: Callable[..., tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]]) -> Callable[..., Optimizer]:
    """Makes of an optimizer of single arrays one of pytrees: `opt_maker(...)` gives functions `init(x) -> state`,
    `update(step, gradient, state) -> state` and `get_params(state) -> x`. TypeError if gradients or states have another structure."""

    @functools.wraps(opt_maker)
    def made(*args: Any, **kwargs: Any) -> Optimizer:
        init, update, get_params = opt_maker(*args, **kwargs)

        def tree_init(params: Params) -> OptimizerState:
            leaves, tree = tree_flatten(params)
            return _packed([init(x) for x in leaves], tree)

        def tree_update(i: Step, gradients: Updates, state: OptimizerState) -> OptimizerState:
            leaves, tree = tree_flatten(gradients)
            if tree != state.tree_def:
                raise TypeError(f"{opt_maker.__name__}: the gradients must have the structure of the params, {state.tree_def}, got {tree}")
            new = _packed([update(i, g, s) for g, s in zip(leaves, _states(state), strict=True)], tree)
            for before, after in zip(state.subtree_defs, new.subtree_defs, strict=True):
                if before != after:
                    raise TypeError(f"{opt_maker.__name__}: update must keep the structure of a state, {before}, it gave {after}")
            return new

        def tree_params(state: OptimizerState) -> Params:
            return tree_unflatten(state.tree_def, [get_params(s) for s in _states(state)])

        return Optimizer(tree_init, tree_update, tree_params)

    return made


# methods: `update` of one array


def _beside_zeros(count: int, update: Any) -> Any:
    """The triple of a method whose state is the array and `count` more of its shape that begin as zeros."""
    return (lambda x: (x, *(jnp.zeros_like(x) for _ in range(count)))), update, (lambda state: state[0])


@optimizer
def sgd(step_size: Any) -> Any:
    """Gradient descent."""
    size = make_schedule(step_size)
    return (lambda x: x), (lambda i, g, x: x - size(i) * g), (lambda x: x)


@optimizer
def momentum(step_size: Any, mass: float) -> Any:
    """Gradient descent with momentum: a velocity v = mass v + g."""
    size = make_schedule(step_size)

    def update(i: Step, g: Array, state: Any) -> Any:
        x, v = state
        v = mass * v + g
        return x - size(i) * v, v

    return _beside_zeros(1, update)


@optimizer
def nesterov(step_size: Any, mass: float) -> Any:
    """Nesterov's accelerated gradient."""
    size = make_schedule(step_size)

    def update(i: Step, g: Array, state: Any) -> Any:
        x, v = state
        v = mass * v + g
        return x - size(i) * (mass * v + g), v

    return _beside_zeros(1, update)


@optimizer
def adagrad(step_size: Any, momentum: float = 0.9) -> Any:
    """Adaptive subgradients (J. Duchi et al., JMLR 12, 2011), with momentum."""
    size = make_schedule(step_size)

    def update(i: Step, g: Array, state: Any) -> Any:
        x, squares, m = state
        squares = squares + jnp.square(g)
        scaled = jnp.where(squares > 0, g / jnp.sqrt(jnp.where(squares > 0, squares, 1)), 0.0)
        m = (1.0 - momentum) * scaled + momentum * m
        return x - size(i) * m, squares, m

    return _beside_zeros(2, update)


@optimizer
def rmsprop(step_size: Any, gamma: float = 0.9, eps: float = 1e-8) -> Any:
    """Gradients divided by the root of a moving average of their squares (G. Hinton, lecture notes, 2012)."""
    size = make_schedule(step_size)

    def update(i: Step, g: Array, state: Any) -> Any:
        x, squares = state
        squares = squares * gamma + jnp.square(g) * (1.0 - gamma)
        return x - size(i) * g / jnp.sqrt(squares + eps), squares

    return _beside_zeros(1, update)


@optimizer
def rmsprop_momentum(step_size: Any, gamma: float = 0.9, eps: float = 1e-8, momentum: float = 0.9) -> Any:
    """`rmsprop` with momentum."""
    size = make_schedule(step_size)

    def update(i: Step, g: Array, state: Any) -> Any:
        x, squares, m = state
        squares = squares * gamma + jnp.square(g) * (1.0 - gamma)
        m = momentum * m + size(i) * g / jnp.sqrt(squares + eps)
        return x - m, squares, m

    return _beside_zeros(2, update)


@optimizer
def adam(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """Adam (D. Kingma and J. Ba, ICLR 2015)."""
    size = make_schedule(step_size)

    def update(i: Step, g: Array, state: Any) -> Any:
        x, m, v = state
        m = (1 - b1) * g + b1 * m
        v = (1 - b2) * jnp.square(g) + b2 * v
        unbiased_m = m / (1 - jnp.asarray(b1, m.dtype) ** (i + 1))
        unbiased_v = v / (1 - jnp.asarray(b2, m.dtype) ** (i + 1))
        return x - size(i) * unbiased_m / (jnp.sqrt(unbiased_v) + eps), m, v

    return _beside_zeros(2, update)


@optimizer
def adamax(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """Adam with the maximum norm (the same paper)."""
    size = make_schedule(step_size)

    def update(i: Step, g: Array, state: Any) -> Any:
        x, m, u = state
        m = (1 - b1) * g + b1 * m
        u = jnp.maximum(b2 * u, jnp.abs(g))
        return x - (size(i) / (1 - jnp.asarray(b1, m.dtype) ** (i + 1))) * m / (u + eps), m, u

    return _beside_zeros(2, update)


@optimizer
def sm3(step_size: Any, momentum: float = 0.9) -> Any:
    """Memory-efficient adaptive optimization (R. Anil et al., NeurIPS 2019): one accumulator for each slice of each axis."""
    size = make_schedule(step_size)

    def along(v: Array, axis: int, ndim: int) -> Array:
        return v.reshape([-1 if d == axis else 1 for d in range(ndim)])

    def init(x: Array) -> Any:
        x = jnp.asarray(x)
        return x, jnp.zeros_like(x), [jnp.zeros(n, x.dtype) for n in x.shape] if x.ndim else [jnp.zeros((), x.dtype)]

    def update(i: Step, g: Array, state: Any) -> Any:
        x, m, slices = state
        if x.ndim == 0:
            least = slices[0]
        else:
            least = functools.reduce(jnp.minimum, (along(v, d, x.ndim) for d, v in enumerate(slices)))
        total = least + jnp.square(g)
        scaled = jnp.where(total > 0, g / jnp.sqrt(jnp.where(total > 0, total, 1)), 0.0)
        m = (1.0 - momentum) * scaled + momentum * m
        slices = [jnp.max(total, axis=tuple(e for e in range(x.ndim) if e != d)) for d in range(max(x.ndim, 1))]
        return x - size(i) * m, m, slices

    return init, update, (lambda state: state[0])


# schedules


def constant(step_size: Any) -> Schedule:
    """The same at every step."""
    return lambda i: step_size


def exponential_decay(step_size: Any, decay_steps: Any, decay_rate: Any) -> Schedule:
    """step_size decay_rate^(i / decay_steps)."""
    return lambda i: step_size * decay_rate ** (i / decay_steps)


def inverse_time_decay(step_size: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False) -> Schedule:
    """step_size / (1 + decay_rate i / decay_steps); staircase: the quotient is rounded down."""
    if staircase:
        return lambda i: step_size / (1 + decay_rate * jnp.floor(i / decay_steps))
    return lambda i: step_size / (1 + decay_rate * i / decay_steps)


def polynomial_decay(step_size: Any, decay_steps: Any, final_step_size: Any, power: Any = 1.0) -> Schedule:
    """From step_size to final_step_size within decay_steps, by (1 - i / decay_steps)^power."""

    def schedule(i: Any) -> Any:
        left = 1 - jnp.minimum(i, decay_steps) / decay_steps
        return left**power * (step_size - final_step_size) + final_step_size

    return schedule


def piecewise_constant(boundaries: Any, values: Any) -> Schedule:
    """values[k], where k is the number of boundaries below the step. ValueError unless there is one more value than boundaries."""
    bounds, sizes = jnp.array(boundaries), jnp.array(values)
    if bounds.ndim != 1 or sizes.ndim != 1:
        raise ValueError(f"piecewise_constant: boundaries and values must be sequences, got shapes {bounds.shape} and {sizes.shape}")
    if sizes.shape[0] != bounds.shape[0] + 1:
        raise ValueError(f"piecewise_constant: {bounds.shape[0]} boundaries need {bounds.shape[0] + 1} values, got {sizes.shape[0]}")
    return lambda i: sizes[jnp.sum(i > bounds)]


def make_schedule(scalar_or_schedule: Any) -> Schedule:
    """A number as a schedule; a schedule as it is. TypeError for arrays that are no numbers."""
    if callable(scalar_or_schedule):
        return scalar_or_schedule
    if jnp.ndim(scalar_or_schedule) == 0:
        return constant(scalar_or_schedule)
    raise TypeError(f"make_schedule: a step size must be a number or a function of the step, got {type(scalar_or_schedule)}")


# utilities


def l2_norm(tree: Any) -> Array:
    """The Euclidean norm of all numbers in a pytree."""
    return jnp.sqrt(sum(jnp.vdot(x, x) for x in tree_leaves(tree)))


def clip_grads(grad_tree: Any, max_norm: Any) -> Any:
    """The pytree, scaled such that its norm is at most max_norm."""
    norm = l2_norm(grad_tree)
    return tree_map(lambda g: jnp.where(norm < max_norm, g, g * (max_norm / norm)), grad_tree)


@final
class JoinPoint:
    """Marks where the state of a leaf begins within a pytree: see `unpack_optimizer_state`."""

    def __init__(self, subtree: Any) -> None:
        self.subtree = subtree

    def __iter__(self) -> Any:
        yield self.subtree


def unpack_optimizer_state(opt_state: OptimizerState) -> Any:
    """A state as a pytree of the params' structure, whose leaves are JoinPoints of the leaves' states: for storing."""
    return tree_unflatten(opt_state.tree_def, [JoinPoint(s) for s in _states(opt_state)])


def pack_optimizer_state(marked_pytree: Any) -> OptimizerState:
    """The inverse of `unpack_optimizer_state`. TypeError for leaves that are no JoinPoints."""
    points, tree = tree_flatten(marked_pytree)
    for p in points:
        if not isinstance(p, JoinPoint):
            raise TypeError(f"pack_optimizer_state: every leaf must be a JoinPoint, got {type(p)}")
    return _packed([p.subtree for p in points], tree)
