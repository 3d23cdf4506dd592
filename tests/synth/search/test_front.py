"""The front of two costs: with bounds and without, it is that of pricing everything."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from synth.search.front import find_front

COSTS = st.integers(0, 12)
CHOICES = st.lists(st.tuples(COSTS, COSTS, st.integers(0, 4)), max_size=30)
"""Of each choice its seconds, its size, and by how much its bound is too low."""


@given(CHOICES)
def test_it_is_that_of_pricing_everything(choices: list[tuple[int, int, int]]) -> None:
    seconds, sizes = [one[0] for one in choices], [one[1] for one in choices]
    asked: list[int] = []

    def price(numbers: Sequence[int]) -> list[float]:
        asked.extend(numbers)
        return [float(seconds[number]) for number in numbers]

    found = find_front([one[0] - one[2] for one in choices], sizes, price)
    pairs = list(zip(seconds, sizes, strict=True))
    unbeaten = {
        (s, m)
        for s, m in pairs
        if not any(a <= s and b <= m and (a, b) != (s, m) for a, b in pairs)
    }
    assert [(found[one], sizes[one]) for one in found] == sorted(unbeaten)
    assert len(set(asked)) == len(asked)


@given(CHOICES)
def test_nothing_is_priced_before_its_nearest_bound(choices: list[tuple[int, int, int]]) -> None:
    """The same is priced as if the nearest bounds were known from the first."""
    seconds, sizes = [float(one[0]) for one in choices], [one[1] for one in choices]
    nearest = [one[0] - 0.5 - one[2] % 2 for one in choices]
    bounds = [
        nearest,
        [bound - one[2] for bound, one in zip(nearest, choices, strict=True)],
        [bound - one[2] - one[1] for bound, one in zip(nearest, choices, strict=True)],
    ]
    refined = [0] * len(choices)
    asked: list[list[int]] = [[], []]

    def price(at: int, numbers: Sequence[int]) -> list[float]:
        asked[at] += numbers
        assert not at or all(refined[number] == 2 for number in numbers)
        return [seconds[number] for number in numbers]

    def nearer(level: int, numbers: Sequence[int]) -> list[float]:
        for number in numbers:
            assert refined[number] == level
            refined[number] += 1
        return [bounds[1 - level][number] for number in numbers]

    found = find_front(nearest, sizes, partial(price, 0))
    pricers = partial(nearer, 0), partial(nearer, 1)
    assert find_front(bounds[2], sizes, partial(price, 1), nearer=pricers) == found
    assert asked[0] == asked[1]


def test_surely_beaten_candidates_are_not_priced() -> None:
    asked: list[int] = []

    def price(numbers: Sequence[int]) -> list[float]:
        asked.extend(numbers)
        return [10.0 + number for number in numbers]

    assert find_front([9, 10, 11], [5, 6, 5], price) == {0: 10.0}
    assert asked == [0]


def test_stopped_searches_return_the_front_of_priced_plans() -> None:
    rounds: list[list[int]] = []

    def price(numbers: Sequence[int]) -> list[float]:
        rounds.append([*numbers])
        return [5.0] * len(numbers)

    assert find_front([1, 1, 2], [1, 2, 0], price, lambda: not rounds) == {2: 5.0}
    assert rounds == [[0, 2]]
