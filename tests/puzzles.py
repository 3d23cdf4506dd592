"""Small puzzles for searches, and what trying everything says of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, pairwise, product
from math import inf
from random import Random

import numpy as np
from hypothesis import strategies as st

from synth.search.pairwise import Pairwise
from synth.search.space import Infeasible, Observer, Price


def drawn_pairwise(seed: int) -> Pairwise:
    """Variables of 1 to 4 states, sparse to complete; some prices alike, some infinite."""
    rng = np.random.default_rng(seed)
    states = rng.integers(1, 5, rng.integers(1, 8))
    barred = rng.choice([0.0, 0.1, 0.3])
    whole = rng.random() < 0.5

    def costs(*shape: int) -> np.ndarray:
        found = rng.integers(0, 6, shape).astype(float) if whole else rng.random(shape)
        found[rng.random(shape) < barred] = inf
        return found

    edges = [pair for pair in combinations(range(len(states)), 2) if rng.random() < 0.6]
    return Pairwise(
        [costs(n) for n in states], {(v, w): costs(states[v], states[w]) for v, w in edges}
    )


def cheapest(costs: Pairwise) -> float:
    """By trying every choice."""
    every = product(*(range(len(one)) for one in costs.alone))
    return min(costs.cost(states) for states in every)


@dataclass(frozen=True)
class Row:
    """Digits in a row: each costs, so does each pair of neighbours; some sums are too much.

    As a space for walks a state has all digits, and a move changes one of them.
    """

    alone: tuple[tuple[int, ...], ...]
    beside: tuple[tuple[int, ...], ...]
    most: int

    def price(self, state: tuple[int, ...]) -> Price:
        if sum(state) > self.most:
            return Infeasible(
                f"{state} is {sum(state) - self.most} too much", sum(state) - self.most
            )
        pairs = pairwise(state)
        alone = sum(costs[digit] for costs, digit in zip(self.alone, state, strict=True))
        return float(alone + sum(self.beside[one][other] for one, other in pairs))

    def states(self) -> list[tuple[int, ...]]:
        return list(product(*(range(len(one)) for one in self.alone)))

    def initial(self) -> tuple[int, ...]:
        return tuple(len(one) - 1 for one in self.alone)

    def moves(self, state: tuple[int, ...], rng: Random) -> list[tuple[int, ...]]:
        at = rng.randrange(len(state))
        digit = rng.randrange(len(self.alone[at]))
        return [(*state[:at], digit, *state[at + 1 :])]

    def bound(self, state: tuple[int, ...]) -> Price:
        return 0.0


@st.composite
def rows(draw: st.DrawFn, digits: int = 4) -> Row:
    count, base = draw(st.integers(1, digits)), draw(st.integers(1, 3))
    price = st.integers(0, 5)
    alone = st.tuples(*(st.tuples(*[price] * base) for _ in range(count)))
    beside = st.tuples(*(st.tuples(*[price] * base) for _ in range(base)))
    return Row(draw(alone), draw(beside), draw(st.integers(-2, count * base)))


class Stopping(Observer):
    """Stops after so many questions, and keeps what it was told."""

    def __init__(self, after: int) -> None:
        self.left = after
        self.told: list[tuple[int, float | None]] = []

    def go_on(self) -> bool:
        self.left -= 1
        return self.left >= 0

    def priced(self, states: int, best: float | None) -> None:
        self.told.append((states, best))
