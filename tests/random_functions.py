"""Small JAX functions drawn by lot: loops, calls, closed-over arrays, and what they are made of.

Each works on a pool of matrices of one shape. What is drawn again and again is what a front end
confuses: several constants of one shape, values read behind the loop that made them, results that
nobody reads, one function called twice with other arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

SHAPE = (4, 6)
Array = Any
Values = list[Array]
Drawn = Callable[..., list[Array]]

ONE: Sequence[Callable[[Array], Array]] = (
    jnp.sin,
    jnp.tanh,
    jnp.abs,
    lambda x: x - x.max(1, keepdims=True),
    lambda x: x * x.mean(),
    lambda x: jnp.cumsum(x, 1) / 6,
    lambda x: jnp.sort(x, 0),
    lambda x: jnp.flip(x, 1),
    lambda x: jnp.roll(x, 1, 0),
    lambda x: x.T.reshape(SHAPE),
    lambda x: jnp.where(x > 0.5, x, -x),
    lambda x: jax.nn.one_hot(jnp.argmax(x, 1), 6) + 0 * x,
    lambda x: x.at[1:3].set(0.5),
    lambda x: x.at[:, jnp.array([0, 4])].add(1.0),
    lambda x: x[jnp.array([3, 1, 0, 2])],
    lambda x: jnp.tile(x[:, :3], (1, 2)),
    lambda x: jnp.pad(x, ((0, 0), (1, 0)))[:, :-1],
    lambda x: jnp.round(x).astype(jnp.int32).astype(jnp.float32),
    lambda x: jnp.stack([x[:, ::2], x[:, 1::2]], -1).reshape(SHAPE),
    lambda x: lax.rev(x, (0,)) + jnp.arange(6.0),
    lambda x: jax.grad(lambda y: (jnp.tanh(y) ** 2).sum())(x),
    lambda x: jnp.broadcast_to(lax.top_k(x, 2)[0].sum(1, keepdims=True), SHAPE),
)
TWO: Sequence[Callable[[Array, Array], Array]] = (
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: x * y,
    jnp.maximum,
    lambda x, y: x / (1 + y * y),
    lambda x, y: jnp.where(x < y, x, y * 0.5),
    lambda x, y: (x @ y.T) @ y / 24,
    lambda x, y: jnp.concatenate([x[:, :3], y[:, 3:]], 1),
    lambda x, y: x[:, :1] - y[:1, :],
)


def drawn_function(seed: int, steps: int = 6) -> Drawn:
    """A function of two matrices, which gives some of all that it makes.

    What it does is drawn when it is made, so that it does the same each time it is called.
    """
    draw = np.random.default_rng(seed)
    return _drawn(draw, 2, steps, deep=2)


def _drawn(draw: np.random.Generator, given: int, steps: int, *, deep: int) -> Drawn:
    each = []
    count = given
    for _ in range(steps):
        step, made = _step(draw, count, deep)
        each.append(step)
        count += made
    kept = sorted(draw.choice(np.arange(given, count), size=min(3, count - given), replace=False))

    def function(*inputs: Array) -> list[Array]:
        values = list(inputs)
        for step in each:
            values += step(values)
        return [values[at] for at in kept]

    return function


def _step(
    draw: np.random.Generator, count: int, deep: int
) -> tuple[Callable[[Values], Values], int]:
    """What makes more values of those that are there, and how many."""
    kinds = ("one", "two", "two", "masked", "added", *(("loop", "loop", "call") if deep else ()))
    kind = draw.choice(kinds)
    # Of what was made last most is read, so that little is dropped.
    first, second = (int(count - 1 - min(draw.geometric(0.4) - 1, count - 1)) for _ in range(2))
    if kind == "one":
        one = ONE[draw.integers(len(ONE))]
        return lambda values: [one(values[first])], 1
    if kind == "two":
        two = TWO[draw.integers(len(TWO))]
        return lambda values: [two(values[first], values[second])], 1
    if kind == "masked":
        mask = draw.integers(0, 2, SHAPE).astype(bool)
        return lambda values: [jnp.where(mask, values[first], values[second])], 1
    if kind == "added":
        table = draw.integers(-8, 9, SHAPE).astype(np.float32) / 8
        return lambda values: [values[first] + table], 1
    if kind == "call":
        called = jax.jit(_drawn(draw, 2, 2, deep=0))
        return lambda values: [
            called(values[first], values[second])[0] - called(values[second], values[first])[-1]
        ], 1
    return _loop(draw, first, second, deep)


def _loop(
    draw: np.random.Generator, first: int, second: int, deep: int
) -> tuple[Callable[[Values], Values], int]:
    """A scan over rows or turns that carries two matrices, and gives them and what it stacks.

    Of its results one may be left out, and one of what it carries may be of no use.
    """
    body = _drawn(draw, 3, 3, deep=deep - 1)
    table = draw.integers(-8, 9, (3, *SHAPE)).astype(np.float32) / 8
    reverse, constant = bool(draw.integers(2)), bool(draw.integers(2))
    left_out = int(draw.integers(4))

    def turn(carried: Any, piece: Any) -> Any:
        one, other = carried
        made = body(one, other, piece)
        return (jnp.tanh(made[0]), other * 0.5 + made[-1] * 0.25), made[len(made) // 2]

    def step(values: Values) -> Values:
        pieces = table if constant else jnp.stack([values[first], values[second]])
        start = (values[first], values[second])
        (one, other), stack = lax.scan(turn, start, pieces, reverse=reverse)
        made = [one, other, stack.sum(0)]
        return [value for at, value in enumerate(made) if at != left_out]

    return step, 3 - (left_out < 3)
