"""Small puzzles for searches, and what trying everything says of them."""

from __future__ import annotations

from itertools import combinations, product
from math import inf

import numpy as np

from synth.search.pairwise import Pairwise


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
